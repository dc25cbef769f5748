"""Constants of a material between poses, for compiled loops."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from supple.compiled import compiled_fused
from supple.elastic.density import NEO_HOOKEAN, STVK_VOLUME

__all__ = ["pose_parameters"]

Floats = NDArray[np.float64]


@compiled_fused
def pose_parameters(
    kind: int,
    young: Floats,
    poisson: Floats,
    weights: Floats,
    tet: int,
    fixed: Floats,
    out: Floats,
) -> None:
    """One row of `Material.element_parameters` at a pose (xu2016 §8).

    Young's modulus and Poisson's ratio (m, c) are blended, and kept within what the poses have:
    weights may be negative, moduli not. With none, (0, c), the row is that of `fixed`.
    """
    if len(young) == 0:
        for k in range(len(out)):
            out[k] = fixed[tet, k]
        return
    e, n = 0.0, 0.0
    softest, stiffest = young[0, tet], young[0, tet]
    least, most = poisson[0, tet], poisson[0, tet]
    for pose in range(len(weights)):
        e += weights[pose] * young[pose, tet]
        n += weights[pose] * poisson[pose, tet]
        softest, stiffest = min(softest, young[pose, tet]), max(stiffest, young[pose, tet])
        least, most = min(least, poisson[pose, tet]), max(most, poisson[pose, tet])
    e, n = min(max(e, softest), stiffest), min(max(n, least), most)
    mu = e / (2 * (1 + n))
    lam = e * n / ((1 + n) * (1 - 2 * n))
    if kind == NEO_HOOKEAN:
        out[0], out[1] = 4 / 3 * mu, lam + 5 / 6 * mu
    elif kind == STVK_VOLUME:
        out[0], out[1] = 2 * mu, lam
    else:
        out[0], out[1] = mu, lam
