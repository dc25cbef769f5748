"""A straight beam of bricks cut into tets."""

from __future__ import annotations

from itertools import permutations

import numpy as np
from numpy.typing import ArrayLike

from supple.errors import SuppleError
from supple.mesh.tets import TetMesh


def beam(size: ArrayLike = (1.0, 1 / 6, 1 / 6), cells: ArrayLike = (24, 4, 4)) -> TetMesh:
    """Return a box from the origin to `size`, with `cells` bricks along each axis, six tets each.

    The tets of a brick share its main diagonal (Kuhn's subdivision), so bricks fit together.

    Examples
    --------
    >>> len(beam(cells=(2, 1, 1)).tets)
    12
    """
    size, (nx, ny, nz) = np.asarray(size, np.float64), np.asarray(cells, np.int64)
    if size.shape != (3,) or not (size > 0).all() or min(nx, ny, nz) < 1:
        raise SuppleError("a beam needs three positive sizes and at least one cell along each axis")
    grid = np.stack(np.meshgrid(*(np.arange(n + 1) for n in (nx, ny, nz)), indexing="ij"), axis=-1)
    vertices = grid.reshape(-1, 3) / [nx, ny, nz] * size
    corner = grid[:-1, :-1, :-1].reshape(-1, 3)
    stride = np.array([(ny + 1) * (nz + 1), nz + 1, 1])
    tets = []
    for path in permutations(range(3)):  # paths from a corner to the opposite one along the axes
        steps = np.vstack(
            [np.zeros(3, np.int64), np.cumsum(np.eye(3, dtype=np.int64)[list(path)], 0)]
        )
        tet = (corner @ stride)[:, None] + steps @ stride
        odd = np.linalg.det(np.eye(3)[list(path)]) < 0
        tets.append(tet[:, [0, 2, 1, 3]] if odd else tet)
    # Ordered by brick: neighbours in space are neighbours in memory.
    return TetMesh(vertices, np.stack(tets, axis=1).reshape(-1, 4))
