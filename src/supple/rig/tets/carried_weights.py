"""Tets that carry a surface's skinning weights, extended harmonically into them (xu2016 §4.1)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints, ShortInts
from supple.compiled.jit import compiled
from supple.errors import SuppleError
from supple.linalg.cholesky import SparseCholesky
from supple.mesh.laplacian import cotangent_laplacian
from supple.mesh.tets import TetMesh
from supple.rig.deformers.pose_space_deformation import split_corrections
from supple.rig.placement.placement import Forkable, Placement, Positions, placement, writable
from supple.rig.placement.pose_corrections import (
    PoseCorrections,
    combined_corrections,
    corrected_placement,
)
from supple.rig.protocol import Rig, checked_pose, checked_subset
from supple.rig.skeleton.skin_placement import skinned_placement
from supple.rig.skeleton.skinning import SkinnedRig, skinned_core
from supple.rig.tets.shepard import NeededRows, SurfaceFollower, shepard_matrix
from supple.rig.tets.surface_samples import SurfaceSamples, typical_edge

#: How much smoothness weighs against agreement with the surface's weights, in edges of a tet.
#: The surface is drawn where the rig has it, whatever the tets do, so tets that stay sound are
#: worth more: an elephant dancing inverts 400 of them at 0.02, 74 at 1 and 30 at 5.
SMOOTHNESS = 3.0
#: A tet vertex follows so many joints at most, and none with less weight than this.
MOST_JOINTS = 8
LEAST_WEIGHT = 1e-3


def _add_entries(matrix: sp.csr_array, rows: Ints, columns: Ints, values: Floats) -> None:
    """Add values, no two in one place, where a sorted CSR matrix has entries already."""
    n = matrix.shape[1]
    own = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr)) * n + matrix.indices
    matrix.data[np.searchsorted(own, rows.astype(np.int64) * n + columns)] += values


def harmonic_extension(
    mesh: TetMesh, samples: SurfaceSamples, values: ArrayLike, smoothness: float = SMOOTHNESS
) -> Floats:
    """Extend values given on a surface to the tet vertices, smoothly.

    Minimises ∫‖A w − w̄‖² over the surface + ε ∫‖∇w‖² over the tets, column by column.

    Parameters
    ----------
    mesh
        The tets.
    samples
        The surface in them.
    values
        (n̄, c) given at the surface's vertices.
    smoothness
        ε in lengths of the tets' edges. The smaller, the more exactly A w is w̄.

    Returns
    -------
    (n, c) array
    """
    given = np.asarray(values, np.float64)
    weighted = samples.of_tets.T @ sp.diags_array(samples.area)
    matrix = cotangent_laplacian(mesh)
    matrix.data *= smoothness * typical_edge(mesh)
    # Sums of sparse matrices drop entries that cancel, and then the pattern is not symmetric.
    data = (weighted @ samples.of_tets).tocoo()
    _add_entries(matrix, data.row, data.col, data.data)
    # A body that no sample touches would be left free.
    every = np.arange(matrix.shape[0])
    _add_entries(matrix, every, every, np.full(len(every), 1e-9 * matrix.diagonal().mean()))
    load = np.ascontiguousarray(weighted @ (samples.of_surface @ given))
    return SparseCholesky(matrix).factorise(matrix).solve(load)


def carried_influences(
    rig: SkinnedRig, mesh: TetMesh, samples: SurfaceSamples, smoothness: float = SMOOTHNESS
) -> tuple[ShortInts, Floats]:
    """Return joints (n, k) that tet vertices follow, and weights: clamped, pruned, normalised."""
    weights = rig.weight_matrix()
    used = np.unique(weights.indices)
    extended = harmonic_extension(mesh, samples, weights[:, used].toarray(), smoothness)
    count = min(MOST_JOINTS, len(used))
    heaviest = np.argpartition(-extended, count - 1, axis=1)[:, :count]
    kept = np.take_along_axis(extended, heaviest, axis=1)
    # Tets' angles may be obtuse, so the extension may overshoot 0 and 1 a little.
    least = LEAST_WEIGHT * kept.max(axis=1, keepdims=True)
    kept[kept < np.maximum(least, LEAST_WEIGHT)] = 0.0
    lost = np.flatnonzero(kept.sum(axis=1) <= 0)
    if len(lost):
        nearest = shepard_matrix(mesh.vertices[lost], samples.of_tets @ mesh.vertices, 1).indices
        whole = (samples.of_surface[nearest] @ weights)[:, used].toarray()
        heaviest[lost] = np.argpartition(-whole, count - 1, axis=1)[:, :count]
        kept[lost] = np.take_along_axis(whole, heaviest[lost], axis=1)
    kept /= kept.sum(axis=1, keepdims=True)
    return used[heaviest].astype(np.int32), kept


class CarriedRig(SurfaceFollower):
    """A skinned surface's rig on tet vertices, which have skinning weights of their own.

    Skinning turns what is inside with the bones, where displacements blended from the surface
    shear it. What a chain of rigs adds to the skinning (blend shapes, corrections) is
    interpolated by Shepard's weights.

    Parameters
    ----------
    rig
        The surface's rig: a `SkinnedRig`, or a chain over one.
    surface_vertices
        (n̄, 3) where the rig has them in its rest pose.
    mesh
        The tets, in the same pose.
    samples
        The surface as the tets see it.
    smoothness
        Of the weights; see `harmonic_extension`.
    """

    def __init__(
        self,
        rig: Rig,
        surface_vertices: ArrayLike,
        mesh: TetMesh,
        samples: SurfaceSamples,
        smoothness: float = SMOOTHNESS,
    ) -> None:
        core = skinned_core(rig)
        if core is None:
            raise SuppleError("the rig has no skinning weights to carry; use Shepard's variant")
        super().__init__(rig, surface_vertices, mesh.vertices)
        self._core, self._own = core
        joints, weights = carried_influences(core.rig, mesh, samples, smoothness)
        bound = core.rig.with_influences(mesh.vertices, joints, weights)
        self.skinned = core.rig.with_influences(bound_positions(bound), joints, weights)
        #: What skinning in the rest pose misses; nothing but rounding where it can be inverted.
        self._offset = mesh.vertices - self.skinned(core.rig.rest_pose)
        self._rows: NeededRows | None = None
        if rig is not core.rig:
            self._rows = NeededRows(shepard_matrix(mesh.vertices, self.surface_vertices))
            self._surface_offset = self.surface_vertices - core.rig(core.rig.rest_pose)

    def needed_surface_vertices(self, vertices: ArrayLike | None = None) -> Ints:
        """Return the surface vertices that these tet vertices follow: none unless in a chain."""
        subset = checked_subset(vertices, self.n_vertices)
        return np.empty(0, np.int64) if self._rows is None else self._rows.of(subset)[0]

    def placement(self, vertices: Ints | None = None, *, single: bool = False) -> Placement:
        """Return a placement of the listed tet vertices, or of all; see `Placement`."""
        return self.corrected_placement(vertices, (), single=single)

    def corrected_placement(
        self, vertices: Ints | None, more: Sequence[PoseCorrections], *, single: bool = False
    ) -> Placement:
        """Return a placement of tet vertices (None: all) with more corrections added to them.

        Over nothing but pose-space corrections of a skinned surface, the surface adds
        S Σ w_i δ̄_i = Σ w_i (S δ̄_i), with S δ̄_i known beforehand: no surface vertex is placed.
        """
        count = self.n_vertices if vertices is None else len(vertices)
        offset = self._offset if vertices is None else self._offset[vertices]
        if self._rows is None:
            sums = combined_corrections(count, more, offset)
            return skinned_placement(self.skinned, vertices, sums, single=single)
        needed, rows = self._rows.of(vertices)
        below, sets = split_corrections(self.rig, needed)
        if below is not self._core or type(below) is not SkinnedRig:
            added = combined_corrections(count, more)
            return corrected_placement(CarriedPlacement(self, vertices), added, single)
        carried = [
            PoseCorrections(weights, np.stack([rows @ delta for delta in deltas]))
            for weights, deltas in sets
        ]
        constant = offset - rows @ self._surface_offset[needed]
        sums = combined_corrections(count, [*carried, *more], constant)
        return skinned_placement(self.skinned, vertices, sums, single=single)

    def __call__(self, pose: ArrayLike, vertices: ArrayLike | None = None) -> Floats:
        """Return positions of all tet vertices or of the listed ones."""
        subset = checked_subset(vertices, self.n_vertices)
        values = checked_pose(self.parameters, pose)
        own = values[self._own]
        placed = self.skinned(own, subset)
        placed += self._offset if subset is None else self._offset[subset]
        if self._rows is None:
            return placed
        needed, rows = self._rows.of(subset)
        # What the chain adds to the skinning, on the surface.
        added = self.rig(values, needed) - self._core(own, needed) - self._surface_offset[needed]
        return placed + rows @ added


def bound_positions(rig: SkinnedRig) -> Floats:
    """Return the bound positions of points that are at the rig's vertices in the rest pose.

    Skeletons are often bound in another pose than the one their file calls rest.
    """
    wanted, bound = rig.vertices, rig.vertices
    matrices = np.einsum(
        "vk,vkij->vij", rig.weights, rig.skin_matrices(rig.rest_pose)[rig.joints, :3, :3]
    )
    sound = np.abs(np.linalg.det(matrices)) > 1e-6 * np.abs(matrices).max(axis=(1, 2)) ** 3
    matrices[~sound] = np.eye(3)
    for _ in range(4):  # one is enough where skinning is linear
        missing = wanted - rig.deform(bound, rig.rest_pose)
        if np.abs(missing).max(initial=0.0) <= 1e-12 * np.abs(wanted).max(initial=1.0):
            break
        bound = bound + np.linalg.solve(matrices, missing[:, :, None])[:, :, 0]
    return bound


class CarriedPlacement(Forkable):
    """Placement of a carried rig over any chain: all of its parts are placed.

    Double precision throughout.

    Parameters
    ----------
    rig
        A carried rig whose surface has more than skinning.
    vertices
        Indices of tet vertices; None for all.
    """

    _forked = ("_skinned", "_surface", "_core")

    def __init__(self, rig: CarriedRig, vertices: Ints | None = None) -> None:
        assert rig._rows is not None
        needed, rows = rig._rows.of(vertices)
        self._own = rig._own
        count = rig.n_vertices if vertices is None else len(vertices)
        offset = rig._offset if vertices is None else rig._offset[vertices]
        self._skinned = skinned_placement(
            rig.skinned, vertices, combined_corrections(count, constant=offset)
        )
        self._surface: Placement = placement(rig.rig, needed)
        self._core: Placement = placement(rig._core, needed)
        self._matrix = (rows.indptr.astype(np.int32), rows.indices.astype(np.int32), rows.data)
        self._surface_offset = np.ascontiguousarray(rig._surface_offset[needed])
        self._allocate()

    def _allocate(self) -> None:
        self._scratch = np.empty((self.n_points, 3))
        self._moved, self._bare = np.empty((2, *self._surface_offset.shape))

    @property
    def n_points(self) -> int:
        """Number of tet vertices placed."""
        return self._skinned.n_points

    def place(self, pose: Floats, out: Positions) -> None:
        """Write the positions (k, 3) of the tet vertices at a pose."""
        whole = writable(pose)
        own = whole[self._own]
        self._skinned.place(own, self._scratch)
        self._surface.place(whole, self._moved)
        self._core.place(own, self._bare)
        _add_carried(*self._matrix, self._moved, self._bare, self._surface_offset, self._scratch)
        np.copyto(out, self._scratch, casting="same_kind")


@compiled
def _add_carried(
    starts: ShortInts,
    columns: ShortInts,
    shares: Floats,
    moved: Floats,
    skinned: Floats,
    offsets: Floats,
    out: Floats,
) -> None:
    """Add S (Φ̄ − skinned − o) to `out` (k, 3): the chain's additions to skinning on the surface.

    `starts`, `columns` and `shares` are the sparse rows of S, the other arrays (n̄, 3).
    """
    for i in range(len(out)):
        x = y = z = 0.0
        for entry in range(starts[i], starts[i + 1]):
            j, share = columns[entry], shares[entry]
            x += share * (moved[j, 0] - skinned[j, 0] - offsets[j, 0])
            y += share * (moved[j, 1] - skinned[j, 1] - offsets[j, 1])
            z += share * (moved[j, 2] - skinned[j, 2] - offsets[j, 2])
        out[i, 0] += x
        out[i, 1] += y
        out[i, 2] += z
