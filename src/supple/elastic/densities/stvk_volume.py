"""Saint Venant–Kirchhoff shear with a penalty on volume: Ψ = ½ μ E:E + ½ λ (1 − J)².

hahn2013 eq. 2, with J = det F.
"""

from __future__ import annotations

from supple.arrays import Floats
from supple.compiled.jit import compiled_fused, compiled_fused_inline
from supple.elastic.densities.density import Density
from supple.elastic.densities.neo_hookean import add_volume_derivative
from supple.elastic.densities.saint_venant_kirchhoff import (
    green_derivative,
    green_stress,
    squared_strain,
)
from supple.maths.small_matrices import cofactors, determinant, green_strain, times


@compiled_fused
def _energy(F: Floats, p: Floats, scratch: Floats) -> float:
    E = scratch[0]
    green_strain(F, E)
    return 0.5 * p[0] * squared_strain(E) + 0.5 * p[1] * (1.0 - determinant(F)) ** 2


@compiled_fused_inline
def _stress(F: Floats, p: Floats, P: Floats, scratch: Floats) -> None:
    E, S, cofactor = scratch[0], scratch[3], scratch[0]
    green_strain(F, E)
    for i in range(3):
        for j in range(3):
            S[i, j] = p[0] * E[i, j]
    times(F, S, P)
    cofactors(F, cofactor)
    push = p[1] * (determinant(F) - 1.0)
    for i in range(3):
        for j in range(3):
            P[i, j] += push * cofactor[i, j]


@compiled_fused_inline
def _stress_derivative(F: Floats, p: Floats, H: Floats, scratch: Floats) -> None:
    mu = 0.5 * p[0]
    green_stress(F, mu, 0.0, scratch[0], scratch[1])
    green_derivative(F, mu, 0.0, scratch[0], scratch[2], H)
    add_volume_derivative(F, p[1], p[1] * (determinant(F) - 1.0), H, scratch[0])


def _constants(mu: Floats, lam: Floats) -> tuple[Floats, Floats]:
    return 2 * mu, lam  # hahn2013 has ½μ‖E‖² where StVK has μ‖E‖²


STVK_VOLUME = Density("stvk-volume", _energy, _stress, _stress_derivative, constants=_constants)
