"""Sway of regions, by which basis vectors are shared out among them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from supple.arrays import Floats
from supple.compiled.jit import at_most_threads
from supple.elastic.body import ElasticBody
from supple.linalg.blas import single_threaded
from supple.linalg.sparse import principal_submatrix
from supple.reduction.compliance import Compliance, LoosePieceError
from supple.reduction.regions.region import Region


def region_sways(body: ElasticBody, rest: Floats, regions: Sequence[Region]) -> Floats:
    """Return √Σ m|u|² of each region, with u the static displacement under 1 m/s² along each axis.

    It estimates the region's share of any motion: compared with converged simulations of a bull, a
    rat and a husky, these shares are within 0.04 of the whole.

    Parameters
    ----------
    body, rest
        The body, and (n, 3) its rest shape.
    regions
        Where regions overlap, each counts by its weight.

    Returns
    -------
    (k,) array
        Relative to the largest, to three digits. All equal for a free body.
    """
    moving = np.unique(np.concatenate([region.vertices for region in regions]))
    unknowns = (3 * moving[:, None] + np.arange(3)).reshape(-1)
    stiffness, masses = body.stiffness(rest, rest), body.vertex_masses()[moving]
    inner = principal_submatrix(stiffness, unknowns)
    along = np.tile(np.eye(3), (len(moving), 1)) * np.repeat(masses, 3)[:, None]
    try:
        with single_threaded(), at_most_threads(1):  # reproducible on every machine
            moved = Compliance(inner, masses)(along)
    except LoosePieceError:  # computing the basis of a region reports where
        return np.ones(len(regions))
    squares = masses * (moved.reshape(len(moving), -1) ** 2).sum(axis=1)
    weights = np.zeros((len(regions), len(moving)))
    for row, region in zip(weights, regions, strict=True):
        row[np.searchsorted(moving, region.vertices)] = region.weights
    sways = np.sqrt((weights / weights.sum(axis=0)) @ squares)
    if not sways.min() > 0:
        return np.ones(len(regions))
    # Left and right differ by rounding only, which must not decide between them.
    return np.round(sways / sways.max(), 3) + 1e-3
