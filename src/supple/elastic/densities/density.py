"""All five materials: energy density Ψ(F), stress P = ∂Ψ/∂F, and its derivative ∂P/∂F.

`F` is the 3×3 deformation gradient. `∂P/∂F` is 9×9, entry (3i+j, 3k+l) being ∂P_ij/∂F_kl.
`p` is one row of `Material.element_parameters`. All are Numba functions that allocate
nothing: results go into the caller's arrays, `scratch` is (6, 3, 3).
"""

from __future__ import annotations

from supple.arrays import Floats
from supple.compiled.jit import compiled_fused
from supple.elastic.densities.corotational import corotational_derivative
from supple.elastic.densities.fung import (
    exponential_less_one,
    orthotropic_derivative,
    orthotropic_exponent,
    rotate_out,
)
from supple.elastic.densities.neo_hookean import (
    add_volume_derivative,
    neo_hookean_derivative,
    neo_hookean_energy,
)
from supple.elastic.densities.saint_venant_kirchhoff import stvk_derivative, stvk_stress
from supple.maths.small_matrices import (
    cofactors,
    determinant,
    green_strain,
    squared_norm,
    times,
    times_transposed,
)
from supple.maths.svd import rotation_svd

__all__ = ["energy_density", "stress", "stress_and_derivative", "stress_derivative"]


STVK, NEO_HOOKEAN, COROTATIONAL, STVK_VOLUME, ORTHOTROPIC = range(5)


@compiled_fused
def energy_density(kind: int, F: Floats, p: Floats, scratch: Floats) -> float:
    """Ψ(F), zero at rest."""
    if kind == NEO_HOOKEAN:
        return neo_hookean_energy(F, p[0], p[1])
    if kind == COROTATIONAL:
        sigma = scratch[3, 0]
        rotation_svd(F, scratch[0], sigma, scratch[1])
        a, b, c = sigma[0] - 1.0, sigma[1] - 1.0, sigma[2] - 1.0
        return p[0] * (a * a + b * b + c * c) + 0.5 * p[1] * (a + b + c) ** 2
    E = scratch[0]
    green_strain(F, E)
    if kind == ORTHOTROPIC:
        exponent = orthotropic_exponent(E, p, scratch[1], scratch[2])
        return 0.5 * p[9] * exponential_less_one(exponent)
    squared = 0.0
    for i in range(3):
        for j in range(3):
            squared += E[i, j] ** 2
    if kind == STVK:
        return p[0] * squared + 0.5 * p[1] * (E[0, 0] + E[1, 1] + E[2, 2]) ** 2
    return 0.5 * p[0] * squared + 0.5 * p[1] * (1.0 - determinant(F)) ** 2


@compiled_fused
def stress(kind: int, F: Floats, p: Floats, P: Floats, scratch: Floats) -> None:
    """First Piola–Kirchhoff stress P = ∂Ψ/∂F."""
    if kind == NEO_HOOKEAN:
        cofactor = scratch[0]
        cofactors(F, cofactor)
        pull = p[0] * (1.0 - 1.0 / (squared_norm(F) + 1.0))
        push = p[1] * (determinant(F) - 1.0) - 0.75 * p[0]  # λ(J − α)
        for i in range(3):
            for j in range(3):
                P[i, j] = pull * F[i, j] + push * cofactor[i, j]
    elif kind == COROTATIONAL:
        R, sigma = scratch[2], scratch[3, 0]
        rotation_svd(F, scratch[0], sigma, scratch[1])
        times_transposed(scratch[0], scratch[1], R)
        pull = p[1] * (sigma[0] + sigma[1] + sigma[2] - 3.0)
        for i in range(3):
            for j in range(3):
                P[i, j] = 2.0 * p[0] * (F[i, j] - R[i, j]) + pull * R[i, j]
    else:
        S = scratch[3]
        _second_piola(kind, F, p, S, scratch)
        times(F, S, P)
        if kind == STVK_VOLUME:
            cofactor = scratch[0]
            cofactors(F, cofactor)
            push = p[1] * (determinant(F) - 1.0)
            for i in range(3):
                for j in range(3):
                    P[i, j] += push * cofactor[i, j]


@compiled_fused
def stress_and_derivative(
    kind: int, F: Floats, p: Floats, P: Floats, H: Floats, scratch: Floats
) -> None:
    """P and ∂P/∂F at once, which is quicker where they have parts in common."""
    if kind == STVK:
        stvk_stress(F, p[0], p[1], scratch[0], P)
        stvk_derivative(F, p[0], p[1], scratch[0], scratch[2], H)
    else:
        stress(kind, F, p, P, scratch)
        stress_derivative(kind, F, p, H, scratch)


@compiled_fused
def stress_derivative(kind: int, F: Floats, p: Floats, H: Floats, scratch: Floats) -> None:
    """∂P/∂F into the 9×9 `H`; symmetric."""
    if kind == NEO_HOOKEAN:
        neo_hookean_derivative(F, p[0], p[1], H, scratch[0])
    elif kind == COROTATIONAL:
        corotational_derivative(F, p[0], p[1], H, scratch)
    elif kind == ORTHOTROPIC:
        orthotropic_derivative(F, p, H, scratch)
    else:
        mu = p[0] if kind == STVK else 0.5 * p[0]
        lam = p[1] if kind == STVK else 0.0
        stvk_stress(F, mu, lam, scratch[0], scratch[1])
        stvk_derivative(F, mu, lam, scratch[0], scratch[2], H)
        if kind == STVK_VOLUME:
            add_volume_derivative(F, p[1], p[1] * (determinant(F) - 1.0), H, scratch[0])


@compiled_fused
def _second_piola(kind: int, F: Floats, p: Floats, S: Floats, scratch: Floats) -> None:
    """S with P = F S; without the volume penalty of hahn2013."""
    E = scratch[0]
    green_strain(F, E)
    if kind == ORTHOTROPIC:
        exponent = orthotropic_exponent(E, p, scratch[1], scratch[2])
        growth = exponential_less_one(exponent, 1)
        rotate_out(p, scratch[2], scratch[1], S)
        for i in range(3):
            for j in range(3):
                S[i, j] *= growth
        return
    twice_mu = 2.0 * p[0] if kind == STVK else p[0]
    pressure = p[1] * (E[0, 0] + E[1, 1] + E[2, 2]) if kind == STVK else 0.0
    for i in range(3):
        for j in range(3):
            S[i, j] = twice_mu * E[i, j]
        S[i, i] += pressure
