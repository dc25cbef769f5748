"""Shepard interpolation: tet vertices follow their nearest surface vertices."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import cKDTree

from supple.arrays import Floats, Ints, ShortInts
from supple.checks import checked_array
from supple.compiled.jit import compiled
from supple.compiled.program import KernelCall
from supple.errors import SuppleError
from supple.rig.jacobian import rig_jacobian
from supple.rig.placement.placement import (
    Forkable,
    Placement,
    Positions,
    placement,
    placement_calls,
)
from supple.rig.protocol import Parameter, Rig, checked_subset
from supple.rig.stored.field_reader import SINGLE, Field
from supple.rig.stored.schema import Array, PartOf, Weights

#: If more than this fraction of the surface is needed, all of it is placed at about the same cost.
NEARLY_ALL = 0.8


def shepard_matrix(points: ArrayLike, surface: ArrayLike, neighbours: int = 4) -> sp.csr_array:
    """Return inverse-distance weights (n, n̄) of points on their nearest surface vertices.

    xu2016 §4.1. Rows sum to 1; a point on a surface vertex takes the value of that vertex.
    `neighbours` is the number of vertices that each point averages, 4 in the paper.

    Examples
    --------
    >>> shepard_matrix([[1.0, 0, 0]], [[0, 0, 0], [3.0, 0, 0]], neighbours=2).toarray().round(3)
    array([[0.667, 0.333]])
    """
    targets, sources = np.asarray(points, np.float64), np.asarray(surface, np.float64)
    if neighbours < 1 or len(sources) == 0:
        raise SuppleError("Shepard's interpolation needs at least one surface vertex and neighbour")
    count = min(neighbours, len(sources))
    distance, nearest = cKDTree(sources).query(targets, k=range(1, count + 1))
    # Relative to the nearest, so that small distances do not overflow.
    closest = distance[:, :1]
    weights = np.divide(closest, distance, out=np.zeros_like(distance), where=distance > 0)
    weights[:, 0] = 1.0
    on_several = (closest[:, 0] == 0) & (count > 1)
    weights[on_several] = distance[on_several] == 0
    weights /= weights.sum(axis=1, keepdims=True)
    starts = np.arange(0, weights.size + 1, count)
    matrix = sp.csr_array(
        (weights.ravel(), nearest.astype(np.int32).ravel(), starts),
        shape=(len(targets), len(sources)),
    )
    matrix.eliminate_zeros()
    matrix.sort_indices()
    return matrix


class NeededRows:
    """Rows of a sparse matrix with only the columns that they use; the last result is cached."""

    def __init__(self, matrix: sp.csr_array) -> None:
        self.matrix = matrix
        self._last: tuple[Ints | None, Ints, sp.csr_array] | None = None

    def of(self, subset: Ints | None) -> tuple[Ints, sp.csr_array]:
        """Return the columns that rows `subset` (None: all) use, and the rows in these columns."""
        last = self._last  # read once: another thread may replace it
        if last is not None and _same_subset(last[0], subset):
            return last[1:]
        rows = self.matrix if subset is None else self.matrix[subset]
        touched, local = np.unique(rows.indices, return_inverse=True)
        shape = (rows.shape[0], len(touched))
        narrow = sp.csr_array((rows.data, local.astype(np.int32), rows.indptr), shape=shape)
        key = None if subset is None else subset.copy()
        touched = touched.astype(np.int64)
        touched.flags.writeable = False
        self._last = (key, touched, narrow)
        return touched, narrow

    def arrays(self, subset: Ints | None) -> tuple[Ints, tuple[ShortInts, ShortInts, Floats]]:
        """Return the used columns, and the CSR arrays of the rows in these columns."""
        columns, rows = self.of(subset)
        return columns, (rows.indptr.astype(np.int32), rows.indices.astype(np.int32), rows.data)


def sorted_rows(matrix: sp.csr_array) -> NeededRows:
    """Return stored Shepard weights as `NeededRows`, with columns in ascending order."""
    matrix.sort_indices()
    return NeededRows(matrix)


def _same_subset(a: Ints | None, b: Ints | None) -> bool:
    return (a is None) == (b is None) and (a is None or np.array_equal(a, b))  # type: ignore[arg-type]


#: Stored fields of a `SurfaceFollower`.
FOLLOWER_FIELDS = (
    PartOf("rig", Rig, lambda rig: {"surface": rig.n_vertices}),
    Array("surface_vertices", SINGLE, ("surface", 3)),
    Array("tet_vertices", SINGLE, ("n", 3)),
)


class SurfaceFollower(ABC):
    """Base class of rigs of tet vertices that follow a surface's rig, without fitted corrections.

    The surface X̄ (n̄, 3) and the tet vertices X (n, 3) are in the rig's rest pose.
    """

    #: Whether this rig can be stored even if the surface's rig cannot.
    stored_over_any_rig: ClassVar[bool] = True
    #: Whether flesh inside rotates with the limb. Otherwise corrections are corotated.
    rotates: ClassVar[bool] = False

    def __init__(self, rig: Rig, surface_vertices: ArrayLike, tet_vertices: ArrayLike) -> None:
        self.rig = rig
        self.surface_vertices = checked_array(
            "surface vertices", surface_vertices, (rig.n_vertices, 3)
        )
        shape = (len(np.atleast_2d(np.asarray(tet_vertices))), 3)
        self.tet_vertices = checked_array("tet vertices", tet_vertices, shape)

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Parameters of the surface's rig."""
        return self.rig.parameters

    @property
    def n_vertices(self) -> int:
        """Number of tet vertices."""
        return len(self.tet_vertices)

    @property
    def rest_pose(self) -> Floats:
        """Rest pose of the surface's rig."""
        return self.rig.rest_pose

    @classmethod
    def _restored(cls, rig: Rig, surface_vertices: Floats, tet_vertices: Floats) -> Self:
        """Make a rig of stored vertices, without weights."""
        restored = object.__new__(cls)
        restored.rig = rig
        restored.surface_vertices, restored.tet_vertices = surface_vertices, tet_vertices
        return restored

    @abstractmethod
    def needed_surface_vertices(self, vertices: ArrayLike | None = None) -> Ints:
        """Return the surface vertices at which the rig is evaluated for these tet vertices."""

    @abstractmethod
    def __call__(self, pose: ArrayLike, vertices: ArrayLike | None = None) -> Floats:
        """Return positions of all tet vertices, or of the listed vertices."""

    @abstractmethod
    def placement(self, vertices: Ints | None = None, *, single: bool = False) -> Placement:
        """Return a placement of the listed tet vertices, or of all; see `Placement`."""


class ShepardRig(SurfaceFollower):
    """A surface's rig on tet vertices, which follow their nearest surface vertices.

    Φ(p) = X + S (Φ̄(p) − X̄) with S the Shepard weights at the neutral pose. For a subset of tet
    vertices the rig is evaluated only on the surface vertices that they follow.
    """

    def __init__(self, rig: Rig, surface_vertices: ArrayLike, tet_vertices: ArrayLike) -> None:
        super().__init__(rig, surface_vertices, tet_vertices)
        self._rows = NeededRows(shepard_matrix(self.tet_vertices, self.surface_vertices))

    @property
    def matrix(self) -> sp.csr_array:
        """Shepard weights S, (n, n̄)."""
        return self._rows.matrix

    @property
    def offsets(self) -> Floats:
        """Offsets X − S X̄, (n, 3), from interpolated surface positions to tet vertices."""
        return self.tet_vertices - self.matrix @ self.surface_vertices

    def needed_surface_vertices(self, vertices: ArrayLike | None = None) -> Ints:
        """Return the surface vertices that these tet vertices follow, ascending."""
        return self._rows.of(checked_subset(vertices, self.n_vertices))[0]

    def __call__(self, pose: ArrayLike, vertices: ArrayLike | None = None) -> Floats:
        """Return positions of all tet vertices, or of the listed vertices."""
        subset = checked_subset(vertices, self.n_vertices)
        needed, rows = self._rows.of(subset)
        displacements = self.rig(pose, needed) - self.surface_vertices[needed]
        return (
            self.tet_vertices if subset is None else self.tet_vertices[subset]
        ) + rows @ displacements

    def placement(self, vertices: Ints | None = None, *, single: bool = False) -> ShepardPlacement:
        """Return a placement of the listed tet vertices, or of all; see `Placement`."""
        return ShepardPlacement(self, vertices)

    def shared_placement(self, rig: Rig, vertices: Ints | None) -> ShepardPlacement | None:
        """Return a placement that shares `rig`'s positions; None unless the tets follow `rig`."""
        return ShepardPlacement(self, vertices, share=True) if self.rig is rig else None

    def jacobian(self, entries: Ints, vertices: Ints | None = None) -> ShepardJacobian:
        """Return the Jacobian, interpolated from the surface's."""
        return ShepardJacobian(self, entries, vertices)

    stored_fields: ClassVar[tuple[Field, ...]] = (
        *FOLLOWER_FIELDS,
        Weights("shepard", "n", "surface", "matrix"),
    )

    @classmethod
    def restored(cls, shepard: sp.csr_array, **fields: Any) -> ShepardRig:
        """Make the rig from its stored fields."""
        rig = cls._restored(**fields)
        rig._rows = sorted_rows(shepard)
        return rig


class ShepardJacobian:
    """Jacobian S ∂Φ̄/∂p of tet vertices that follow their nearest surface vertices."""

    def __init__(self, rig: ShepardRig, entries: Ints, vertices: Ints | None) -> None:
        needed, self._rows = rig._rows.arrays(vertices)
        self._inner = rig_jacobian(rig.rig, entries, needed.copy())
        self.affine = self._inner.affine
        self.differenced = getattr(self._inner, "differenced", False)
        self._surface = np.empty((len(needed), 3, len(entries)))

    def evaluate(self, pose: Floats, out: Floats) -> None:
        """Write ∂Φ/∂p (m, 3, k)."""
        self._inner.evaluate(pose, self._surface)
        out[...] = 0.0
        add_rows(*self._rows, self._surface, out)


class ShepardPlacement(Forkable):
    """Placement of tet vertices that follow the surface: Φ(p) = o + S Φ̄(p) with o = X − S X̄.

    With `share` the surface is drawn too; it is then placed as a whole if nearly all of it is
    needed. `needed` (j,) are the followed surface vertices, `positions` (j, 3) their last
    positions.
    """

    _forked = ("_surface",)

    def __init__(self, rig: ShepardRig, vertices: Ints | None = None, share: bool = False) -> None:
        touched, rows = rig._rows.of(vertices)
        nearly_all = share and len(touched) > NEARLY_ALL * rig.rig.n_vertices
        place_all = nearly_all or len(touched) == rig.rig.n_vertices
        # A copy: for read-only arrays Numba would compile kernels again.
        self.needed = np.arange(rig.rig.n_vertices) if place_all else touched.copy()
        listed = slice(None) if vertices is None else vertices
        count = len(rig.tet_vertices[listed])
        self.offsets = rig.tet_vertices[listed] - rows @ rig.surface_vertices[touched]
        # The same number of neighbours for all vertices, padded with weight 0.
        width = int(np.diff(rows.indptr).max(initial=0))
        self.neighbours = np.zeros((count, width), dtype=np.uint32)
        self.shares = np.zeros((count, width))
        row = np.repeat(np.arange(count), np.diff(rows.indptr))
        column = np.arange(len(row)) - rows.indptr[row]
        self.neighbours[row, column] = touched[rows.indices] if place_all else rows.indices
        self.shares[row, column] = rows.data
        self._surface = placement(rig.rig, None if place_all else touched)
        self.n_points = count
        self._allocate()

    def _allocate(self) -> None:
        self.positions = np.zeros((len(self.needed), 3))

    @property
    def surface(self) -> ShepardPlacement:
        """The placement that evaluates the surface: itself."""
        return self

    def place_surface(self, pose: Floats) -> None:
        """Set `positions` of the needed surface vertices at a pose."""
        self._surface.place(pose, self.positions)

    def place(self, pose: Floats, out: Positions) -> None:
        """Write the positions (k, 3) of the tet vertices at a pose."""
        self.place_surface(pose)
        follow_surface(self.positions, self.neighbours, self.shares, self.offsets, out)

    def calls(self, pose: Floats, out: Positions) -> list[KernelCall]:
        """Return the calls of `place`."""
        arguments = self.positions, self.neighbours, self.shares, self.offsets, out
        return [*self.surface_calls(pose), KernelCall(follow_surface, arguments, (out,))]

    def surface_calls(self, pose: Floats) -> list[KernelCall]:
        """Return the calls of `place_surface`."""
        return placement_calls(self._surface, pose, self.positions)


@compiled
def follow_surface(
    positions: Floats,
    neighbours: NDArray[np.uint32],
    shares: Floats,
    offsets: Floats,
    out: Positions,
) -> None:
    """Write o + S Φ̄ from surface positions Φ̄, offsets o, and columns and values of S."""
    for i in range(len(offsets)):
        x, y, z = offsets[i, 0], offsets[i, 1], offsets[i, 2]
        for k in range(shares.shape[1]):
            near, share = neighbours[i, k], shares[i, k]
            x += share * positions[near, 0]
            y += share * positions[near, 1]
            z += share * positions[near, 2]
        out[i, 0], out[i, 1], out[i, 2] = x, y, z


@compiled
def add_rows(
    starts: ShortInts, columns: ShortInts, shares: Floats, values: Floats, out: Floats
) -> None:
    """Add a sparse matrix times `values` (n, 3, k) to `out` (m, 3, k)."""
    for v in range(len(out)):
        for entry in range(starts[v], starts[v + 1]):
            row, share = values[columns[entry]], shares[entry]
            for i in range(3):
                for k in range(out.shape[2]):
                    out[v, i, k] += share * row[i, k]
