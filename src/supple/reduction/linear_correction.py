"""The part of the reduced stiffness that cubature misses, at any pose."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.checks import checked_array, numbers

__all__ = ["blended_correction", "correction_weights", "midway_corrections"]

Floats = NDArray[np.float64]
Ends = Sequence[tuple[int, int]]


def correction_weights(shares: ArrayLike, ends: Ends) -> Floats:
    """What each stored correction counts at a pose, (m + k,).

    Those of the m poses count as the poses do, and those of the k pairs of poses 4 w_i w_j: 1
    halfway between the two, 0 at every pose.

    Parameters
    ----------
    shares
        (m,) w, weights of the poses.
    ends
        k pairs of poses.
    """
    w = numbers("pose weights", shares)
    positive = np.maximum(w, 0.0)
    return np.concatenate([w, [4 * positive[i] * positive[j] for i, j in ends]])


def blended_correction(
    corrections: Floats, ends: Ends, shares: ArrayLike, scales: ArrayLike | None = None
) -> Floats:
    """ΔK (r, r) at a pose: the stored corrections, (m + k, r, r), weighted and scaled.

    Parameters
    ----------
    corrections, ends
        Of the poses, then of pairs of them.
    shares
        (m,) weights of the poses.
    scales
        (r,) ϒ, by which interpolation stretches the columns of the basis (xu2016 eq. 15).
    """
    blend = np.tensordot(correction_weights(shares, ends), corrections, 1)
    if scales is None:
        return blend
    stretched = checked_array("scales", scales, blend.shape[:1])
    return stretched[:, None] * blend * stretched


def midway_corrections(
    wanted: Sequence[Floats], own: Floats, ends: Ends, shares: Sequence[Floats]
) -> Floats:
    """What pairs of poses must add so that ΔK comes out right at poses between them, (k, r, r).

    Parameters
    ----------
    wanted
        k matrices ΔK / ϒϒᵀ at poses between.
    own
        (m, r, r) of the poses.
    ends, shares
        The pair that each lies between, and (m,) weights there.
    """
    if len(wanted) == 0:
        return np.empty((0, *own.shape[1:]))
    m = len(own)
    left = np.array(
        [matrix - np.tensordot(w, own, 1) for matrix, w in zip(wanted, shares, strict=True)]
    )
    # Beside its own pair's, others' corrections reach a pose between too.
    reach = np.array([correction_weights(w, ends)[m:] for w in shares])
    return np.tensordot(np.linalg.pinv(reach, rcond=1e-3), left, 1)
