"""Materials that know F by I = F:F and J = det F alone: stress and stiffness as four numbers.

P = a F + c cof F, and ∂P/∂F = a 1 + b F⊗F + c ∂cof F/∂F + d cof F⊗cof F. What is linear in few
matrices needs no nine by nine: loops that project it on a few directions are several times quicker.
"""

from __future__ import annotations

from supple.arrays import Floats
from supple.compiled.jit import compiled_fused, compiled_fused_inline
from supple.elastic.densities.dispatch import material_number
from supple.elastic.densities.neo_hookean import NEO_HOOKEAN
from supple.elastic.densities.yeoh import STRAINED, YEOH

__all__ = ["invariant_factors", "knows_invariants"]

_NEO_HOOKEAN, _YEOH = material_number(NEO_HOOKEAN.name), material_number(YEOH.name)


@compiled_fused
def knows_invariants(kind: int) -> bool:
    """Tell whether a material has `invariant_factors`."""
    return kind in (_NEO_HOOKEAN, _YEOH)


@compiled_fused_inline
def invariant_factors(
    kind: int, norm: float, volume: float, p: Floats
) -> tuple[float, float, float, float]:
    """Return a, b, c and d at I = `norm` and J = `volume`, of an element's constants p."""
    mu, lam = p[0], p[1]
    inverse = 1.0 / (norm + 1.0)
    a, b = mu * (1.0 - inverse), 2.0 * mu * inverse * inverse
    if kind == _YEOH and norm > 3.0 + STRAINED:
        strained = norm - 3.0 - STRAINED
        less = 1.0 / (1.0 + strained)
        a += p[2] * strained * (2.0 + strained) * less * less
        b += 4.0 * p[2] * less * less * less
    return a, b, lam * (volume - 1.0) - 0.75 * mu, lam
