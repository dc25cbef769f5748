"""Skinning weights of a surface, extended harmonically into the tets inside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from supple.arrays import Floats, Ints
from supple.checks import checked_array
from supple.errors import MeshError, SuppleError
from supple.linalg.cholesky import SparseCholesky
from supple.mesh.tets import TetMesh
from supple.rig.protocol import Parameter, Rig, checked_pose, checked_subset
from supple.rig.skeleton.skinning import SkinnedRig
from supple.rig.tets.shepard import NeededRows, shepard_matrix
from supple.rig.tets.surface_samples import SurfaceSamples, typical_edge

if TYPE_CHECKING:
    from supple.rig.placement.placement import Placement

__all__ = ["CarriedRig", "SkinnedCore", "harmonic_extension", "skinned_core"]


#: How much smoothness weighs against agreement with the surface's weights, in edges of a tet.
#: The surface is drawn where the rig has it, whatever the tets do, so tets that stay sound are
#: worth more: an elephant dancing inverts 400 of them at 0.02, 74 at 1 and 30 at 5.
SMOOTHNESS = 3.0
#: A tet vertex follows so many joints at most, and none with less weight than this.
MOST_JOINTS = 8
LEAST_WEIGHT = 1e-3


def tet_laplacian(mesh: TetMesh) -> sp.csr_array:
    """∫∇N_a·∇N_b over the tets, (n, n): positive semi-definite, constants in its null space."""
    edges = mesh.vertices[mesh.tets[:, 1:]] - mesh.vertices[mesh.tets[:, :1]]
    volumes = mesh.volumes()
    if not (volumes > 0).all():
        raise MeshError(f"tet {int(np.argmin(volumes))} is inverted or flat; use mesh.oriented()")
    gradients = np.empty((len(mesh.tets), 4, 3))
    gradients[:, 1:] = np.linalg.inv(edges).transpose(0, 2, 1)
    gradients[:, 0] = -gradients[:, 1:].sum(axis=1)
    values = np.einsum("e,eai,ebi->eab", volumes, gradients, gradients)
    rows = np.broadcast_to(mesh.tets[:, :, None], values.shape)
    columns = np.broadcast_to(mesh.tets[:, None, :], values.shape)
    n = len(mesh.vertices)
    entries = (values.ravel(), (rows.ravel(), columns.ravel()))
    matrix = sp.csr_array(sp.coo_array(entries, shape=(n, n)))
    matrix.sum_duplicates()
    return matrix


def _add_entries(matrix: sp.csr_array, rows: Ints, columns: Ints, values: Floats) -> None:
    """Add values, no two in one place, where a sorted CSR matrix has entries already."""
    n = matrix.shape[1]
    own = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr)) * n + matrix.indices
    matrix.data[np.searchsorted(own, rows.astype(np.int64) * n + columns)] += values


def harmonic_extension(
    mesh: TetMesh, samples: SurfaceSamples, values: ArrayLike, smoothness: float = SMOOTHNESS
) -> Floats:
    """Values at the tet vertices that agree with a surface's and are smooth inside.

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
    matrix = tet_laplacian(mesh)
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
) -> tuple[NDArray[np.int32], Floats]:
    """Joints (n, k) that each tet vertex follows, and weights: clamped, pruned, normalised."""
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


class SkinnedCore(NamedTuple):
    """The skinned rig inside of a chain of rigs."""

    rig: SkinnedRig
    entries: slice
    """Where its parameters stand in the chain's pose."""


def skinned_core(rig: Rig) -> SkinnedCore | None:
    """The skinned rig that a chain of rigs is built on, if there is one and only one.

    Blend shapes and pose-space corrections list the parameters of their `base` first; the
    `rigs` of a chain have theirs one after another. What poses its base otherwise, as a handle
    does, has none: its pose is not the skeleton's.
    """
    if isinstance(rig, SkinnedRig):
        return SkinnedCore(rig, slice(0, len(rig.parameters)))
    base = getattr(rig, "base", None)
    if isinstance(base, Rig):
        first = tuple(rig.parameters[: len(base.parameters)])
        return skinned_core(base) if first == tuple(base.parameters) else None
    found, at = [], 0
    for link in getattr(rig, "rigs", ()):
        inner = skinned_core(link)
        if inner is not None:
            where = slice(at + inner.entries.start, at + inner.entries.stop)
            found.append(SkinnedCore(inner.rig, where))
        at += len(link.parameters)
    return found[0] if len(found) == 1 else None


class CarriedRig:
    """A skinned surface's rig carried to tet vertices by their own skinning weights.

    Skinning turns what is inside with the bones, where displacements blended from the surface
    shear it. What a chain of rigs adds to the skinning (blend shapes, corrections) is carried
    by Shepard's weights.

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
        self.rig = rig
        self.surface_vertices = checked_array(
            "surface vertices", surface_vertices, (rig.n_vertices, 3)
        )
        self.tet_vertices = mesh.vertices
        self._core, self._own = core
        joints, weights = carried_influences(core.rig, mesh, samples, smoothness)
        bound = core.rig.with_influences(mesh.vertices, joints, weights)
        self.skinned = core.rig.with_influences(_bound_positions(bound), joints, weights)
        #: What skinning in the rest pose misses; nothing but rounding where it can be inverted.
        self._offset = mesh.vertices - self.skinned(core.rig.rest_pose)
        self._rows: NeededRows | None = None
        if rig is not core.rig:
            self._rows = NeededRows(shepard_matrix(mesh.vertices, self.surface_vertices))
            self._surface_offset = self.surface_vertices - core.rig(core.rig.rest_pose)

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
        """The surface vertices that these tet vertices follow: none, unless the rig is a chain."""
        subset = checked_subset(vertices, self.n_vertices)
        return np.empty(0, np.int64) if self._rows is None else self._rows.of(subset)[0]

    def placement(self, vertices: Ints | None = None, *, single: bool = False) -> Placement:
        """Places these vertices again and again; see `supple.rig.placement.placement`."""
        from supple.rig.placement.carried import carried_placement

        return carried_placement(self, vertices, single=single)

    def __call__(self, pose: ArrayLike, vertices: ArrayLike | None = None) -> Floats:
        """Positions of all tet vertices or of the listed ones."""
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


def _bound_positions(rig: SkinnedRig) -> Floats:
    """Where points must be bound to be, in the rest pose, at the rig's vertices.

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
