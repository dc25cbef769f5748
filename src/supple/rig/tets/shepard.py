"""Shepard's interpolation: tet vertices follow their nearest surface vertices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.spatial import cKDTree

from supple.arrays import Floats, Ints
from supple.checks import checked_array
from supple.errors import SuppleError
from supple.rig.protocol import Parameter, Rig, checked_subset

if TYPE_CHECKING:
    from supple.rig.placement.shepard_placement import ShepardPlacement

__all__ = ["ShepardRig", "shepard_matrix"]


def shepard_matrix(points: ArrayLike, surface: ArrayLike, neighbours: int = 4) -> sp.csr_array:
    """Inverse-distance weights of each point's nearest surface vertices (xu2016 §4.1).

    Parameters
    ----------
    points
        (n, 3) where to interpolate.
    surface
        (n̄, 3) where values are known.
    neighbours
        How many known values each point averages; the paper has 4.

    Returns
    -------
    (n, n̄) csr_array
        Rows add up to 1. A point that lies on a surface vertex takes that vertex's value.

    Examples
    --------
    >>> shepard_matrix([[1.0, 0, 0]], [[0, 0, 0], [3.0, 0, 0]], neighbours=2).toarray().round(3)
    array([[0.667, 0.333]])
    """
    where, known = np.asarray(points, np.float64), np.asarray(surface, np.float64)
    if neighbours < 1 or len(known) == 0:
        raise SuppleError(
            "Shepard's interpolation needs a surface vertex and one neighbour at least"
        )
    count = min(neighbours, len(known))
    distance, nearest = cKDTree(known).query(where, k=range(1, count + 1))
    # Relative to the nearest, so that no distance, however small, overflows.
    closest = distance[:, :1]
    weights = np.divide(closest, distance, out=np.zeros_like(distance), where=distance > 0)
    weights[:, 0] = 1.0
    on_several = (closest[:, 0] == 0) & (count > 1)
    weights[on_several] = distance[on_several] == 0
    weights /= weights.sum(axis=1, keepdims=True)
    starts = np.arange(0, weights.size + 1, count)
    matrix = sp.csr_array(
        (weights.ravel(), nearest.astype(np.int32).ravel(), starts), shape=(len(where), len(known))
    )
    matrix.eliminate_zeros()
    matrix.sort_indices()
    return matrix


class NeededRows:
    """Rows of a matrix, and only the columns that they touch.

    The last selection is remembered: a step asks for the same few vertices every time.
    """

    def __init__(self, matrix: sp.csr_array) -> None:
        self.matrix = matrix
        self._last: tuple[Ints | None, Ints, sp.csr_array] | None = None

    def of(self, subset: Ints | None) -> tuple[Ints, sp.csr_array]:
        """Columns that the rows `subset` (None for all) touch, and the rows in terms of those."""
        last = self._last  # once: another thread may put its own there
        if last is not None and _same_subset(last[0], subset):
            return last[1:]
        rows = self.matrix if subset is None else self.matrix[subset]
        touched, local = np.unique(rows.indices, return_inverse=True)
        shape = (rows.shape[0], len(touched))
        narrow = sp.csr_array((rows.data, local.astype(np.int32), rows.indptr), shape=shape)
        kept = None if subset is None else subset.copy()
        touched = touched.astype(np.int64)
        touched.flags.writeable = False
        self._last = (kept, touched, narrow)
        return touched, narrow


def _same_subset(a: Ints | None, b: Ints | None) -> bool:
    return (a is None) == (b is None) and (a is None or np.array_equal(a, b))  # type: ignore[arg-type]


class ShepardRig:
    """Any surface rig, carried to tet vertices by their nearest surface vertices.

    Φ(p) = X + S (Φ̄(p) − X̄) with S the Shepard weights at the neutral pose. A subset of tet
    vertices needs the rig on the surface vertices they touch only.

    Parameters
    ----------
    rig
        The rig of the surface: a black box.
    surface_vertices
        (n̄, 3) X̄, where the rig has them in its rest pose.
    tet_vertices
        (n, 3) X, at the same pose.
    neighbours
        How many surface vertices a tet vertex follows.
    """

    def __init__(
        self,
        rig: Rig,
        surface_vertices: ArrayLike,
        tet_vertices: ArrayLike,
        neighbours: int = 4,
    ) -> None:
        self.rig = rig
        self.surface_vertices = checked_array(
            "surface vertices", surface_vertices, (rig.n_vertices, 3)
        )
        shape = (len(np.atleast_2d(np.asarray(tet_vertices))), 3)
        self.tet_vertices = checked_array("tet vertices", tet_vertices, shape)
        matrix = shepard_matrix(self.tet_vertices, self.surface_vertices, neighbours)
        self._rows = NeededRows(matrix)

    @property
    def matrix(self) -> sp.csr_array:
        """Shepard's weights S, (n, n̄)."""
        return self._rows.matrix

    @property
    def offsets(self) -> Floats:
        """X − S X̄, (n, 3): what the surface's positions leave of the tets' own."""
        return self.tet_vertices - self.matrix @ self.surface_vertices

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Those of the surface's rig."""
        return self.rig.parameters

    @property
    def n_vertices(self) -> int:
        """Number of tet vertices."""
        return len(self.tet_vertices)

    @property
    def rest_pose(self) -> Floats:
        """That of the surface's rig."""
        return self.rig.rest_pose

    def needed_surface_vertices(self, vertices: ArrayLike | None = None) -> Ints:
        """The surface vertices that these tet vertices follow, ascending."""
        return self._rows.of(checked_subset(vertices, self.n_vertices))[0]

    def __call__(self, pose: ArrayLike, vertices: ArrayLike | None = None) -> Floats:
        """Positions of all tet vertices or of the listed ones."""
        subset = checked_subset(vertices, self.n_vertices)
        needed, rows = self._rows.of(subset)
        moved = self.rig(pose, needed) - self.surface_vertices[needed]
        return (self.tet_vertices if subset is None else self.tet_vertices[subset]) + rows @ moved

    def placement(self, vertices: Ints | None = None, *, single: bool = False) -> ShepardPlacement:
        """Places the listed tet vertices, or all, again and again."""
        from supple.rig.placement.shepard_placement import ShepardPlacement

        return ShepardPlacement(self, vertices)
