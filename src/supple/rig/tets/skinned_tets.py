"""Transfer of a surface's rig to tets: skinning weights and displacements, extended harmonically.

`SkinnedTetRig` has extended weights (xu2016 §4.1); `rig_on_tets` transfers rigs of any class.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.spatial import cKDTree

from supple.arrays import Floats, Ints, ShortInts
from supple.checks import shown
from supple.compiled.jit import compiled
from supple.compiled.program import KernelCall
from supple.errors import SuppleError, warn
from supple.linalg.cholesky import SparseCholesky
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh, cotangent_laplacian
from supple.rig.deformers.pose_space_deformation import split_corrections
from supple.rig.jacobian import Jacobian, rig_jacobian
from supple.rig.placement.placement import (
    Forkable,
    Placement,
    Positions,
    called,
    copy_numbers,
    placement,
    placement_calls,
    writable,
)
from supple.rig.placement.pose_corrections import (
    PoseCorrections,
    combined_corrections,
    corrected_placement,
)
from supple.rig.protocol import Rig, checked_pose, checked_subset, optional_method
from supple.rig.skeleton.skin_jacobian import SkinJacobian
from supple.rig.skeleton.skin_placement import skinned_placement
from supple.rig.skeleton.skinning import SkinnedRig, skinned_core
from supple.rig.stored.field_reader import Field
from supple.rig.stored.schema import PartOf, Weights
from supple.rig.tets.shepard import (
    FOLLOWER_FIELDS,
    NeededRows,
    ShepardRig,
    SurfaceFollower,
    add_rows,
    shepard_matrix,
    sorted_rows,
)
from supple.rig.tets.surface_samples import SurfaceSamples, typical_edge

#: Weight of smoothness against agreement with the surface's weights, in edges of a tet. The drawn
#: surface does not depend on it, and smooth weights invert fewer tets: on a dancing elephant 400
#: at 0.02, 74 at 1 and 30 at 5.
SMOOTHNESS = 3.0
#: Most joints of a tet vertex, and the least weight of each.
MOST_JOINTS = 8
LEAST_WEIGHT = 1e-3
#: Smoothness of displacements and influences that `rig_on_tets` extends: small, so that the
#: boundary moves as the surface does.
TRANSFER_SMOOTHNESS = 0.05
#: Largest error of a rig on tets at rest, relative to the body's size.
OFF_REST = 1e-6
#: What warnings say about rigs on tets that are not used.
FALLBACK = "the tets follow the nearest skin vertices instead, which is less accurate"
#: Displacements below this fraction of the largest of their shape are set to zero.
FAINT = 1e-3
#: Vertices of surface and tets nearer than this fraction of the size are the same.
SAME = 1e-7


def _add_entries(matrix: sp.csr_array, rows: Ints, columns: Ints, values: Floats) -> None:
    """Add values at distinct entries that a sorted CSR matrix already has."""
    n = matrix.shape[1]
    keys = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr)) * n + matrix.indices
    matrix.data[np.searchsorted(keys, rows.astype(np.int64) * n + columns)] += values


def harmonic_extension(
    mesh: TetMesh, samples: SurfaceSamples, values: ArrayLike, smoothness: float = SMOOTHNESS
) -> Floats:
    """Extend values (n̄, c) on a surface smoothly to the tet vertices, (n, c).

    Minimises ∫‖A w − w̄‖² over the surface + ε ∫‖∇w‖² over the tets, column by column, with ε
    = `smoothness` in lengths of the tets' edges. For small ε, A w is nearly w̄.
    """
    values = np.asarray(values, np.float64)
    weighted = samples.of_tets.T @ sp.diags_array(samples.area)
    matrix = cotangent_laplacian(mesh)
    matrix.data *= smoothness * typical_edge(mesh)
    # A sum of sparse matrices drops entries that cancel, which breaks the symmetric pattern.
    data = (weighted @ samples.of_tets).tocoo()
    _add_entries(matrix, data.row, data.col, data.data)
    # Components without samples would be undetermined.
    every = np.arange(matrix.shape[0])
    _add_entries(matrix, every, every, np.full(len(every), 1e-9 * matrix.diagonal().mean()))
    load = np.ascontiguousarray(weighted @ (samples.of_surface @ values))
    return SparseCholesky(matrix).factorise(matrix).solve(load)


def extended_influences(
    rig: SkinnedRig, mesh: TetMesh, samples: SurfaceSamples
) -> tuple[ShortInts, Floats]:
    """Return joints (n, k) and weights (n, k) of tet vertices, pruned and normalised."""
    weights = rig.weight_matrix()
    used = np.unique(weights.indices)
    extended = harmonic_extension(mesh, samples, weights[:, used].toarray())
    count = min(MOST_JOINTS, len(used))
    heaviest = np.argpartition(-extended, count - 1, axis=1)[:, :count]
    pruned = np.take_along_axis(extended, heaviest, axis=1)
    # Obtuse tets may make the extension overshoot 0 and 1 slightly.
    least = LEAST_WEIGHT * pruned.max(axis=1, keepdims=True)
    pruned[pruned < np.maximum(least, LEAST_WEIGHT)] = 0.0
    lost = np.flatnonzero(pruned.sum(axis=1) <= 0)
    if len(lost):
        nearest = shepard_matrix(mesh.vertices[lost], samples.of_tets @ mesh.vertices, 1).indices
        at_nearest = (samples.of_surface[nearest] @ weights)[:, used].toarray()
        heaviest[lost] = np.argpartition(-at_nearest, count - 1, axis=1)[:, :count]
        pruned[lost] = np.take_along_axis(at_nearest, heaviest[lost], axis=1)
    pruned /= pruned.sum(axis=1, keepdims=True)
    return used[heaviest].astype(np.int32), pruned


class SkinnedTetRig(SurfaceFollower):
    """A skinned surface's rig on tet vertices, which have skinning weights themselves.

    Skinning rotates flesh with the bones, where displacements interpolated from the surface would
    shear it. Displacements that other rigs, such as blend shapes and corrections, add to the
    skinning are interpolated by Shepard weights. `rig` is a `SkinnedRig` or has a `skinned_core`.
    """

    rotates = True

    def __init__(
        self, rig: Rig, surface_vertices: ArrayLike, mesh: TetMesh, samples: SurfaceSamples
    ) -> None:
        core = skinned_core(rig)
        if core is None:
            raise SuppleError('the rig has no skinning weights; use the variant "shepard"')
        super().__init__(rig, surface_vertices, mesh.vertices)
        self._core, self._core_entries = core
        joints, weights = extended_influences(core.rig, mesh, samples)
        self.skinned = core.rig.bound_at_rest(mesh.vertices, joints, weights)
        rows = None
        if rig is not core.rig:
            rows = NeededRows(shepard_matrix(mesh.vertices, self.surface_vertices))
        self._set_offsets(rows)

    def _set_offsets(self, rows: NeededRows | None) -> None:
        """Set Shepard weights, and the differences of skinned and rest positions.

        Differences of the tets are rounding errors, except where skinning cannot be inverted.
        """
        rest = self._core.rest_pose
        self._offset = self.tet_vertices - self.skinned(rest)
        self._rows = rows
        if rows is not None:
            self._surface_offset = self.surface_vertices - self._core(rest)

    def needed_surface_vertices(self, vertices: ArrayLike | None = None) -> Ints:
        """Return the surface vertices that these tet vertices follow: none for a plain skin."""
        subset = checked_subset(vertices, self.n_vertices)
        return np.empty(0, np.int64) if self._rows is None else self._rows.of(subset)[0]

    def placement(self, vertices: Ints | None = None, *, single: bool = False) -> Placement:
        """Return a placement of the listed tet vertices, or of all; see `Placement`."""
        return self.corrected_placement(vertices, (), single=single)

    def corrected_placement(
        self, vertices: Ints | None, more: Sequence[PoseCorrections], *, single: bool = False
    ) -> Placement:
        """Return a placement that adds corrections of the listed tet vertices, or of all.

        If the surface's rig is a skin with pose-space corrections only, the surface adds
        S Σ w_i δ̄_i = Σ w_i (S δ̄_i) with precomputed S δ̄_i, and no surface vertex is placed.
        """
        count = self.n_vertices if vertices is None else len(vertices)
        offset = self._offset if vertices is None else self._offset[vertices]
        if self._rows is None:
            sums = combined_corrections(count, more, offset)
            return skinned_placement(self.skinned, vertices, sums, single=single)
        needed, rows = self._rows.of(vertices)
        below, sets = split_corrections(self.rig, needed)
        if below is not self._core or optional_method(below, "corrected_placement") is None:
            added = combined_corrections(count, more)
            return corrected_placement(SkinnedTetPlacement(self, vertices), added, single)
        interpolated = [
            PoseCorrections(weights, np.stack([rows @ delta for delta in deltas]))
            for weights, deltas in sets
        ]
        constant = offset - rows @ self._surface_offset[needed]
        sums = combined_corrections(count, [*interpolated, *more], constant)
        return skinned_placement(self.skinned, vertices, sums, single=single)

    def __call__(self, pose: ArrayLike, vertices: ArrayLike | None = None) -> Floats:
        """Return positions of all tet vertices, or of the listed vertices."""
        subset = checked_subset(vertices, self.n_vertices)
        values = checked_pose(self.parameters, pose)
        joints = values[self._core_entries]
        placed = self.skinned(joints, subset)
        placed += self._offset if subset is None else self._offset[subset]
        if self._rows is None:
            return placed
        needed, rows = self._rows.of(subset)
        # Displacements of the surface beyond its skinning.
        added = self.rig(values, needed) - self._core(joints, needed) - self._surface_offset[needed]
        return placed + rows @ added

    def jacobian(self, entries: Ints, vertices: Ints | None = None) -> Jacobian | None:
        """Return the analytic Jacobian of linear skinning; None for dual quaternions."""
        linear = self._core.method == "linear"
        return _SkinnedTetJacobian(self, entries, vertices) if linear else None

    stored_fields: ClassVar[tuple[Field, ...]] = (
        *FOLLOWER_FIELDS,
        PartOf("skinned", SkinnedRig),
        Weights(
            "shepard",
            "n",
            "surface",
            lambda rig: None if rig._rows is None else rig._rows.matrix,
            optional=True,
        ),
    )

    @classmethod
    def restored(
        cls, skinned: SkinnedRig, shepard: sp.csr_array | None, **fields: Any
    ) -> SkinnedTetRig:
        """Make the rig from its stored fields."""
        rig = cls._restored(**fields)
        if skinned.n_vertices != rig.n_vertices:
            raise SuppleError(f"{skinned.n_vertices:,} skinned vertices, not {rig.n_vertices:,}")
        core = skinned_core(rig.rig)
        if core is None:
            raise SuppleError("the surface's rig has no skinning weights")
        if (core.rig is rig.rig) != (shepard is None):
            raise SuppleError("a plain skin has no Shepard weights; any other rig needs them")
        if len(skinned.parameters) != len(core.rig.parameters):
            raise SuppleError("the skins of tets and surface have different joints")
        rig.skinned = skinned
        rig._core, rig._core_entries = core
        rig._set_offsets(None if shepard is None else sorted_rows(shepard))
        return rig


class _SkinnedTetJacobian:
    """Jacobian of skinned tets, plus S times the surface's beyond its skinning."""

    def __init__(self, rig: SkinnedTetRig, entries: Ints, vertices: Ints | None) -> None:
        start, stop = rig._core_entries.start, rig._core_entries.stop
        skeletal = np.flatnonzero((entries >= start) & (entries < stop))
        self._core_entries = slice(start, stop)
        self._skin = SkinJacobian(rig.skinned, entries[skeletal] - start, vertices)
        self._skeletal = skeletal
        count = rig.n_vertices if vertices is None else len(vertices)
        self._skinned = np.empty((count, 3, len(skeletal)))
        self._inner: Jacobian | None = None
        if rig._rows is not None:
            needed, self._rows = rig._rows.arrays(vertices)
            self._inner = rig_jacobian(rig.rig, entries, needed.copy())
            self._core = SkinJacobian(rig._core, entries[skeletal] - start, needed.copy())
            self._surface = np.empty((len(needed), 3, len(entries)))
            self._bare = np.empty((len(needed), 3, len(skeletal)))
        self.affine = not len(skeletal) and (self._inner is None or self._inner.affine)

    def evaluate(self, pose: Floats, out: Floats) -> None:
        """Write ∂Φ/∂p (m, 3, k)."""
        out[...] = 0.0
        joints = np.ascontiguousarray(pose[self._core_entries])
        if len(self._skeletal):
            self._skin.evaluate(joints, self._skinned)
            out[:, :, self._skeletal] = self._skinned
        if self._inner is None:
            return
        self._inner.evaluate(pose, self._surface)
        if len(self._skeletal):
            self._core.evaluate(joints, self._bare)
            self._surface[:, :, self._skeletal] -= self._bare
        add_rows(*self._rows, self._surface, out)


class SkinnedTetPlacement(Forkable):
    """Placement of skinned tets whose surface has more than skinning, in double precision."""

    _forked = ("_skinned", "_surface", "_core")

    def __init__(self, rig: SkinnedTetRig, vertices: Ints | None = None) -> None:
        assert rig._rows is not None
        needed, self._matrix = rig._rows.arrays(vertices)
        self._core_entries = rig._core_entries
        count = rig.n_vertices if vertices is None else len(vertices)
        offset = rig._offset if vertices is None else rig._offset[vertices]
        self._skinned = skinned_placement(
            rig.skinned, vertices, combined_corrections(count, constant=offset)
        )
        self._surface: Placement = placement(rig.rig, needed)
        self._core: Placement = placement(rig._core, needed)
        self._surface_offset = np.ascontiguousarray(rig._surface_offset[needed])
        self.n_points = count
        self._allocate()

    def _allocate(self) -> None:
        self._scratch = np.zeros((self.n_points, 3))
        self._moved, self._bare = np.zeros((2, *self._surface_offset.shape))

    def place(self, pose: Floats, out: Positions) -> None:
        """Write the positions (k, 3) of the tet vertices at a pose."""
        values = writable(pose)
        joints = values[self._core_entries]
        self._skinned.place(joints, self._scratch)
        self._surface.place(values, self._moved)
        self._core.place(joints, self._bare)
        _add_displacements(
            *self._matrix, self._moved, self._bare, self._surface_offset, self._scratch
        )
        np.copyto(out, self._scratch, casting="same_kind")

    def calls(self, pose: Floats, out: Positions) -> list[KernelCall]:
        """Return the calls of `place`."""
        joints, placed = pose[self._core_entries], self._scratch
        added = *self._matrix, self._moved, self._bare, self._surface_offset, placed
        return [
            *placement_calls(self._skinned, joints, placed),
            *placement_calls(self._surface, pose, self._moved),
            *placement_calls(self._core, joints, self._bare),
            KernelCall(_add_displacements, added, (placed,)),
            KernelCall(copy_numbers, (placed, out), (out,)),
        ]


@compiled
def _add_displacements(
    starts: ShortInts,
    columns: ShortInts,
    shares: Floats,
    moved: Floats,
    skinned: Floats,
    offsets: Floats,
    out: Floats,
) -> None:
    """Add S (Φ̄ − skinned − o) to `out` (k, 3), the surface's displacements beyond its skinning.

    `starts`, `columns` and `shares` are the CSR arrays of S, the others have shape (n̄, 3).
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


def rig_on_tets(rig: Rig, surface: SurfaceMesh, mesh: TetMesh) -> Rig:
    """Return a rig of the tets that fill a surface, with the parameters of the surface's rig.

    Rigs with a method ``on_tets(transfer)`` return it: skins with extended weights, shapes and
    corrections with extended displacements, wires with extended influences; bends, twists and
    lattices move any point. Flesh inside then rotates as the surface does, and no surface vertex
    is evaluated. All other rigs are interpolated from the nearest surface vertices (`ShepardRig`),
    which shears flesh that rotates; so are, with a warning, rigs whose ``on_tets`` returns a rig
    with other parameters, or one that moves the tets in the rest pose.
    """
    transferred = _Transfer(surface, mesh).rig(rig)
    if transferred is not None:
        error = np.abs(transferred(transferred.rest_pose) - mesh.vertices).max()
        if error <= OFF_REST * mesh.size:
            return transferred
        warn(f"on_tets of a {type(rig).__name__}: moves tets at rest by {error:.2g} m; {FALLBACK}")
    return ShepardRig(rig, surface.vertices, mesh.vertices)


class _Transfer:
    """Extension of a surface's values to the vertices of tets; see `TetTransfer`."""

    def __init__(self, surface: SurfaceMesh, mesh: TetMesh) -> None:
        self.vertices, self._mesh = mesh.vertices, mesh
        self._samples = SurfaceSamples.of(surface, mesh)
        distances, self._nearest = cKDTree(surface.vertices).query(mesh.vertices)
        self._same = np.flatnonzero(distances <= SAME * mesh.size)

    def rig(self, rig: Rig) -> Rig | None:
        """Return a rig on the tet vertices.

        Return None if its class has no method ``on_tets``, or one that changes the parameters.
        """
        transfer = optional_method(rig, "on_tets")
        transferred = None if transfer is None else called(rig, transfer, self)
        if transferred is None:
            return None
        what, count = f"on_tets of a {type(rig).__name__}", len(self.vertices)
        if not isinstance(transferred, Rig):
            raise SuppleError(f"{what} returned {shown(transferred)}, which is not a rig")
        if transferred.n_vertices != count:
            counts = f"{transferred.n_vertices:,} vertices; transfer.vertices has {count:,}"
            raise SuppleError(f"{what} returned a rig of {counts}")
        for one, other in zip_longest(rig.parameters, transferred.parameters):
            if one != other:
                warn(f"{what} returned a rig with a {other} instead of {one}; {FALLBACK}")
                return None
        return transferred

    def influences(self, skin: SkinnedRig) -> tuple[ShortInts, Floats]:
        """Return joints (n, k) and weights (n, k) of the tet vertices."""
        return extended_influences(skin, self._mesh, self._samples)

    def extended(self, values: Floats) -> Floats:
        """Extend values (n̄,) or (n̄, c) of the surface; they are exact at common vertices."""
        extension = harmonic_extension(self._mesh, self._samples, values, TRANSFER_SMOOTHNESS)
        extension[self._same] = values[self._nearest[self._same]]
        return extension

    def extended_displacements(self, deltas: Floats) -> Floats:
        """Extend sets of displacements (…, n̄, 3) to the tet vertices, (…, n, 3).

        Displacements below `FAINT` times the largest of their set become zero.
        """
        leading = deltas.shape[:-2]
        flat = deltas.reshape(-1, *deltas.shape[-2:]).transpose(1, 0, 2)
        extension = self.extended(flat.reshape(len(flat), -1)).reshape(-1, flat.shape[1], 3)
        faint = FAINT * np.abs(extension).max(axis=(0, 2), keepdims=True, initial=0.0)
        visible = np.abs(extension).max(axis=2, keepdims=True) > faint
        out = np.ascontiguousarray(np.where(visible, extension, 0.0).transpose(1, 0, 2))
        return out.reshape(*leading, *out.shape[-2:])
