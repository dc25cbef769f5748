"""Neo-Hookean with strain stiffening: Ψ = stable neo-Hookean + ½ c g²/(1 + g).

Yeoh's second term (1993), ½ c (I − 3)², with two changes. It begins at I = F:F = 3 + δ, g = max(I −
3 − δ, 0), so that small strains are not affected. Its stiffness is at most c: as a polynomial of
degree four it made flesh jump (by 7 % of a rat's size in one frame) where a pose flattens tets. It
is convex in F; with the change of volume subtracted, g = I − 3 − 2(J − 1), a sixth of the steps of
one character had an indefinite tangent. In simple shear by γ, g = γ² − δ.
"""

from __future__ import annotations

import math

from supple.arrays import Floats
from supple.compiled.jit import compiled_fused, compiled_fused_inline
from supple.elastic.densities.density import Density
from supple.elastic.densities.neo_hookean import add_volume_derivative
from supple.maths.small_matrices import cofactors, determinant, squared_norm

#: c/μ, and δ. At a strain of one half the modulus is six times that at rest, as of soft tissue.
STIFFENING, STRAINED = 7.0, 0.05


@compiled_fused
def _energy(F: Floats, p: Floats, scratch: Floats) -> float:
    mu, lam = p[0], p[1]
    growth = squared_norm(F) - 3.0
    volume = determinant(F) - 1.0
    strained = max(growth - STRAINED, 0.0)
    shear = 0.5 * mu * (growth - math.log1p(0.25 * growth))
    return (
        shear
        + 0.5 * lam * volume**2
        - 0.75 * mu * volume
        + 0.5 * p[2] * strained**2 / (1.0 + strained)
    )


@compiled_fused_inline
def _stress(F: Floats, p: Floats, P: Floats, scratch: Floats) -> None:
    cofactor = scratch[0]
    cofactors(F, cofactor)
    norm, volume = squared_norm(F), determinant(F) - 1.0
    strained = max(norm - 3.0 - STRAINED, 0.0)
    firm = p[2] * strained * (2.0 + strained) / (1.0 + strained) ** 2
    pull = p[0] * (1.0 - 1.0 / (norm + 1.0)) + firm
    push = p[1] * volume - 0.75 * p[0]
    for i in range(3):
        for j in range(3):
            P[i, j] = pull * F[i, j] + push * cofactor[i, j]


@compiled_fused_inline
def _stress_derivative(F: Floats, p: Floats, H: Floats, scratch: Floats) -> None:
    mu, lam = p[0], p[1]
    norm, volume = squared_norm(F), determinant(F) - 1.0
    strained = norm - 3.0 - STRAINED
    firm, steep = 0.0, 0.0
    if strained > 0.0:
        less = 1.0 / (1.0 + strained)
        firm, steep = p[2] * strained * (2.0 + strained) * less**2, 4.0 * p[2] * less**3
    inverse = 1.0 / (norm + 1.0)
    pull, twice = mu * (1.0 - inverse) + firm, 2.0 * mu * inverse * inverse + steep
    for i in range(3):
        for j in range(3):
            row, scaled = H[3 * i + j], twice * F[i, j]
            for k in range(3):
                for l in range(3):
                    row[3 * k + l] = scaled * F[k, l]
            row[3 * i + j] += pull
    add_volume_derivative(F, lam, lam * volume - 0.75 * mu, H, scratch[0])


def _constants(mu: Floats, lam: Floats) -> tuple[Floats, Floats, Floats]:
    return 4 / 3 * mu, lam + 5 / 6 * mu, STIFFENING * mu


YEOH = Density(
    "yeoh",
    _energy,
    _stress,
    _stress_derivative,
    constants=_constants,
    resists_inversion=True,
)
