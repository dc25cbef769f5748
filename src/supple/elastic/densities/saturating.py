"""Orthotropic with bounded stiffening: Ψ = c/2 h(Q) + κ/2 (J − 1)², Q = E : C : E / c.

The material of tapia2021 §4.1, corrected in compression. Green strain softens under compression,
and with all of the stiffness in it the force reverses (Fung's at a tenth of the length, by 12 MPa
for Q ≤ 8). Here most of the bulk modulus is in κ instead, and C has a Poisson's ratio of 0.3. From
ν = 0.45 on, pressure grows down to a tenth of the volume, and does not reverse below. Stiffening is
bounded: h(Q) = Q + s (Q − s ln(1 + Q/s)) equals exp Q − 1 to second order, but h′ = 1 + s Q/(s + Q)
is below 1 + s = e², so that one Newton iteration per step suffices.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats
from supple.compiled.jit import compiled_fused, compiled_fused_inline
from supple.elastic.densities.density import Density, per_element
from supple.elastic.densities.fung import (
    fung_constants,
    fung_derivative,
    fung_exponent,
    fung_stress,
)
from supple.elastic.densities.neo_hookean import add_volume_derivative
from supple.maths.small_matrices import cofactors, determinant, green_strain

#: s: the stiffness is at most 1 + s times that at rest.
SATURATION = math.exp(2.0) - 1.0
#: Poisson's ratio of C, and its least difference from that of the material.
_POISSON, _LOWER = 0.3, 0.15
#: c as a fraction of the mean Young's modulus.
_SCALE = 0.3


@compiled_fused
def _energy(F: Floats, p: Floats, scratch: Floats) -> float:
    green_strain(F, scratch[0])
    Q = fung_exponent(scratch[0], p, scratch[1], scratch[2])
    grown = Q + SATURATION * (Q - SATURATION * math.log1p(Q / SATURATION))
    return 0.5 * p[9] * grown + 0.5 * p[19] * (determinant(F) - 1.0) ** 2


@compiled_fused_inline
def _stress(F: Floats, p: Floats, P: Floats, scratch: Floats) -> None:
    green_strain(F, scratch[0])
    Q = fung_exponent(scratch[0], p, scratch[1], scratch[2])
    fung_stress(F, p, 1.0 + SATURATION * Q / (SATURATION + Q), P, scratch)
    push, cofactor = p[19] * (determinant(F) - 1.0), scratch[0]
    cofactors(F, cofactor)
    for i in range(3):
        for j in range(3):
            P[i, j] += push * cofactor[i, j]


@compiled_fused_inline
def _stress_derivative(F: Floats, p: Floats, H: Floats, scratch: Floats) -> None:
    green_strain(F, scratch[3])
    Q = fung_exponent(scratch[3], p, scratch[1], scratch[2])
    soft_constants = SATURATION / (SATURATION + Q)
    fung_derivative(
        F, p, 1.0 + soft_constants * Q, 2.0 / p[9] * soft_constants * soft_constants, H, scratch
    )
    add_volume_derivative(F, p[19], p[19] * (determinant(F) - 1.0), H, scratch[0])


def _element_constants(
    n_tets: int,
    *,
    young: ArrayLike,
    poisson: ArrayLike,
    shear: ArrayLike | None,
    axes: ArrayLike | None,
    saturation: ArrayLike | None,
) -> Floats:
    """Return (n_tets, 20) constants: `fung_constants`, and κ. C has the shear moduli of
    the material, and κ the remainder of its bulk modulus. With equal axes, small strains behave
    like (E, ν).
    """
    young = per_element("young", young, n_tets, (3,))
    poisson = per_element("poisson", poisson, n_tets, (3,))
    others = {"shear": shear, "axes": axes}
    c = _SCALE * young.mean(axis=1) if saturation is None else saturation
    stiff_constants = fung_constants(n_tets, young=young, poisson=poisson, saturation=c, **others)
    lower = np.minimum(_POISSON, poisson - _LOWER)
    softer = young * ((1 + lower) / (1 + poisson)).mean(axis=1, keepdims=True)
    others["shear"] = stiff_constants[:, 6:9]
    soft_constants = fung_constants(n_tets, young=softer, poisson=lower, saturation=c, **others)
    bulk = (stiff_constants - soft_constants)[:, :6] @ np.array([1.0, 1, 1, 2, 2, 2]) / 9
    return np.hstack([soft_constants, np.maximum(bulk, 0.0)[:, None]])


SATURATING = Density(
    "saturating", _energy, _stress, _stress_derivative, element_constants=_element_constants
)
