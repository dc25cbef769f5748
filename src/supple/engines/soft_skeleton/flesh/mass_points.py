"""Points of a soft skeleton that stand for its mass."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from supple.arrays import Floats, Ints
from supple.engines.soft_skeleton.flesh.tet_cubature import lloyd_centres
from supple.linalg.nnls import nonnegative_fit

__all__ = ["mass_weights"]


def mass_weights(
    places: Floats, masses: Floats, weights: sp.csr_array, count: int, seed: int
) -> tuple[Ints, Floats]:
    """Choose points, and masses for them with which every bone has the moments of all points.

    Parameters
    ----------
    places, masses
        (n, 3), (n,) of all points, at rest.
    weights
        (n, K) of the bones.
    count
        How many points to choose, spread evenly.
    seed
        Of the start of Lloyd's method.
    """
    heavy = np.flatnonzero(masses > 0)
    if count >= len(heavy):
        return heavy, masses[heavy]
    nearest, owner = lloyd_centres(places[heavy], masses[heavy], count, seed)
    chosen, near = heavy[nearest], np.bincount(owner, masses[heavy])
    # Σ m w_k (1, x, x xᵀ) of each bone, about its middle and in its size.
    rows, targets = [], []
    bones = sp.csc_array(weights)
    for k in range(weights.shape[1]):
        own = bones[:, [k]].toarray().ravel() * masses
        if own.sum() <= 1e-6 * masses.sum():
            continue
        middle = own @ places / own.sum()
        away = places - middle
        size = np.sqrt(max(float(own @ (away**2).sum(axis=1) / own.sum()), 1e-12))
        away = away / size
        terms = np.column_stack(
            [
                np.ones(len(away)),
                away,
                *(away[:, i] * away[:, j] for i in range(3) for j in range(i, 3)),
            ]
        )
        part = bones[:, [k]].toarray().ravel()[:, None] * terms
        rows.append(part[chosen].T * near)
        targets.append(masses @ part)
    A, b = np.concatenate(rows), np.concatenate(targets)
    scale = 1.0 / max(float(masses.sum()), 1e-300)
    A, b = A * scale, b * scale
    firm = 1e-6
    gram = A.T @ A + firm * np.diag(near * scale) ** 2
    fitted = nonnegative_fit(gram, A.T @ b + firm * (near * scale) ** 2)
    kept = fitted > 0
    return chosen[kept], (fitted * near)[kept]
