"""Fields of a character's flesh for the simulation of all its tets, without a reduction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from supple.anatomy.painted_material import interpolated_material
from supple.arrays import Floats, Singles
from supple.checks import checked_array, checked_whole_numbers, numbers
from supple.elastic.densities.dispatch import MATERIALS
from supple.elastic.material import Material
from supple.engines.common.model_file import SURFACE, MaterialField, Rigs, StoredModel
from supple.errors import MeshError, SuppleError
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh
from supple.rig.motion.motion import Motion
from supple.rig.motion.stored_motions import Motions
from supple.rig.poses.pose_weights import PoseWeights
from supple.rig.protocol import Rig
from supple.rig.stored.field_reader import INDEX, SINGLE, Field, Values
from supple.rig.stored.packed_arrays import rounded
from supple.rig.stored.schema import Array, Group, Value
from supple.rig.stored_rigs import rounded_rigs

Ints = NDArray[np.int32]

#: Tolerance of float32 rows that add up to 1, and of float32 quaternions.
UNIT_TOLERANCE = 1e-5
#: Largest distance of a rig's vertices from the mesh in its rest pose, relative to the size.
REST_TOLERANCE = 1e-4
MOST_MOTIONS = 1000


def _material_values(kind: str, young: Any, poisson: Any, density: Any) -> Values:
    return {"material_kind": kind, "young": young, "poisson": poisson, "density": density}


def _whole_weights(others: Floats, sizes: Mapping[str, int]) -> Floats:
    return np.hstack([1 - others.sum(axis=1, keepdims=True), others])


#: Fields of the flesh in model files.
FLESH_SCHEMA: tuple[Field, ...] = (
    Value("name", "text"),
    Rigs("rigs", {"rig": Rig, "tet_rig": Rig, "pose_weights": PoseWeights}),
    MaterialField(
        "material",
        lambda model: (model.material_kind, model.young, model.poisson, model.density),
        _material_values,
        SINGLE,
    ),
    SURFACE,
    Group(
        "mesh",
        TetMesh,
        (Array("mesh.vertices", SINGLE, ("n", 3)), Array("mesh.tets", INDEX, ("tets", 4))),
    ),
    Array("embedding.vertices", INDEX, ("skin", 4), "embedding_vertices"),
    Array(
        "embedding.weights",
        SINGLE,
        ("skin", 3),
        lambda model: model.embedding_weights[:, 1:],
        attribute="embedding_weights",
        restore=_whole_weights,
    ),
    Motions("motions"),
    Array("fixed", INDEX, (None,)),
)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class FleshFields(StoredModel):
    """Skin, tets, rigs and material of a character, for its unreduced simulation.

    `FullModel` has these fields, and `PoseSpaceModel` these and a reduction. All are checked,
    rounded to the precision of the model file and made read-only, so that a loaded model equals the
    saved one bit for bit.

    Attributes
    ----------
    name
        Name of the character.
    surface, rig, motions
        Skin (n̄ vertices) at the neutral pose, its rig Φ̄(p), and motions by name.
    mesh, tet_rig
        Tets (n vertices, T tets) at the neutral pose, and their rig Φ(p).
    embedding_vertices, embedding_weights
        (n̄, 4) tet vertices that carry each vertex of the skin, and their weights.
    fixed
        (f,) tet vertices that are fixed to bones, ascending.
    material_kind, young, poisson, density
        As in `Material`. Young's modulus and Poisson's ratio are numbers, (T,), or (m, T) with a
        row for each pose (xu2016 §8); the density is a number or (T,).
    pose_weights
        The m poses, the neutral one first, their names, and their weights at any pose.
    """

    schema: ClassVar[tuple[Field, ...]] = FLESH_SCHEMA

    name: str
    surface: SurfaceMesh
    rig: Rig
    motions: Mapping[str, Motion] = field(default_factory=dict)
    mesh: TetMesh
    tet_rig: Rig
    embedding_vertices: Ints
    embedding_weights: Singles
    fixed: Ints
    material_kind: str
    young: float | Singles
    poisson: float | Singles
    density: float | Singles
    pose_weights: PoseWeights

    def __post_init__(self) -> None:
        self._set(_body(self))
        self._set(_poses(self))

    def _set(self, fields: Values) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @property
    def n_poses(self) -> int:
        """Number of poses, m."""
        return self.pose_weights.n_poses

    @property
    def poses(self) -> Floats:
        """Poses (m, s), the neutral one first."""
        return self.pose_weights.poses

    @property
    def pose_names(self) -> tuple[str, ...]:
        """Names of the poses."""
        return self.pose_weights.names

    @cached_property
    def embedding(self) -> sp.csr_array:
        """Matrix (n̄, n) that interpolates values of tet vertices on the skin; rows add up to 1."""
        weights = self.embedding_weights.astype(np.float64)
        weights[:, 0] = 1 - weights[:, 1:].sum(axis=1)
        starts = np.arange(0, weights.size + 1, 4)
        shape = (len(weights), len(self.mesh.vertices))
        matrix = sp.csr_array(
            (weights.ravel(), self.embedding_vertices.ravel().copy(), starts), shape=shape
        )
        matrix.sum_duplicates()
        return matrix

    @property
    def material_varies(self) -> bool:
        """True if the material differs from pose to pose."""
        return np.ndim(self.young) == 2 or np.ndim(self.poisson) == 2

    def material(self, pose: int | ArrayLike | None = None) -> Material:
        """Return the material of the flesh at a pose.

        Parameters
        ----------
        pose
            Index of one of the model's poses; weights (m,) of the poses, for their blend; or None
            for the neutral pose.
        """
        if pose is not None and np.ndim(pose) == 1:
            materials = [self.material(0)] * self.n_poses
            if self.material_varies:
                materials = [self.material(i) for i in range(self.n_poses)]
            return interpolated_material(materials, pose)
        (index,) = checked_whole_numbers("pose", [0 if pose is None else pose])  # type: ignore[list-item]
        if not 0 <= index < self.n_poses:
            raise SuppleError(f"pose {index} does not exist; use 0 to {self.n_poses - 1}")
        young, poisson = (
            value[index] if np.ndim(value) == 2 else value  # type: ignore[index]
            for value in (self.young, self.poisson)
        )
        return Material(self.material_kind, young, poisson, self.density)


def _body(model: FleshFields) -> Values:
    surface = SurfaceMesh(rounded(model.surface.vertices), model.surface.triangles)
    mesh = rounded_mesh(model.mesh)
    n_skin, n = len(surface.vertices), len(mesh.vertices)
    checked_rest("surface", model.rig, surface.vertices, surface.size)
    checked_rest("tets", model.tet_rig, mesh.vertices, mesh.size)
    if tuple(model.tet_rig.parameters) != tuple(model.rig.parameters):
        raise SuppleError("the rig of the tets has parameters that differ from the surface's")
    columns = np.asarray(model.embedding_vertices)
    if columns.shape != (n_skin, 4) or columns.dtype.kind not in "iu":
        raise SuppleError(f"embedding of shape {columns.shape}; expected ({n_skin}, 4) indices")
    if not (columns.min() >= 0 and columns.max() < n):
        raise SuppleError(f"embedding: {columns.min()} to {columns.max()}; use 0 to {n - 1}")
    weights = stored_array("embedding weights", model.embedding_weights, (n_skin, 4))
    tolerance = UNIT_TOLERANCE * max(1.0, float(np.abs(weights).max()))
    if not np.abs(weights.sum(axis=1, dtype=np.float64) - 1).max() < tolerance:
        raise SuppleError("embedding weights of a vertex do not add up to 1; use supple.mesh.embed")
    # The first weight is 1 minus the others, so that files need not store it.
    exact = weights.copy()
    exact[:, 0] = 1 - weights[:, 1:].sum(axis=1, dtype=np.float64)
    fixed = distinct_indices("fixed vertices", model.fixed, n)
    return {
        "name": str(model.name),
        "surface": surface,
        "mesh": mesh,
        "embedding_vertices": frozen(columns.astype(np.int32)),
        "embedding_weights": frozen(exact),
        "fixed": frozen(np.sort(fixed)),
        "motions": checked_motions(model.motions, len(model.rig.parameters)),
    }


def _poses(model: FleshFields) -> Values:
    weights = model.pose_weights
    if not isinstance(weights, PoseWeights):
        raise SuppleError("the poses of a model must be PoseWeights")
    if weights.poses.shape[1] != len(model.rig.parameters):
        width = f"{weights.poses.shape[1]} numbers per pose"
        raise SuppleError(f"poses: {width}; the rig has {len(model.rig.parameters)} parameters")
    if not np.allclose(weights.poses[0], model.rig.rest_pose, rtol=1e-6, atol=1e-6):
        raise SuppleError("the first pose of a model must be the neutral pose")
    return _material(model, len(model.mesh.tets), weights.n_poses)


def _is_isotropic(kind: str) -> bool:
    return kind in MATERIALS and MATERIALS[kind].isotropic


def _material(model: FleshFields, n_tets: int, n_poses: int) -> Values:
    if not _is_isotropic(model.material_kind):
        isotropic = ", ".join(kind for kind in MATERIALS if _is_isotropic(kind))
        raise SuppleError(f'material "{model.material_kind}" is not isotropic; use {isotropic}')
    painted = [(n_tets,), (n_poses, n_tets)]
    fields: Values = {
        "material_kind": str(model.material_kind),
        "young": scalar_or_array("Young's modulus", model.young, painted),
        "poisson": scalar_or_array("Poisson's ratio", model.poisson, painted),
        "density": scalar_or_array("density", model.density, painted[:1]),
    }
    # Checks the values; it accepts any shape.
    Material(fields["material_kind"], fields["young"], fields["poisson"], fields["density"])
    return fields


def stored_array(
    what: str, value: ArrayLike, shape: tuple[int, ...], *, double: bool = False
) -> NDArray:
    """Return finite numbers of this shape as read-only float32, or float64 if `double`."""
    exact = checked_array(what, value, shape)
    return frozen(exact.copy() if double else rounded(exact).copy())


def distinct_indices(what: str, value: ArrayLike, count: int) -> Ints:
    """Return distinct indices from 0 to count − 1 as read-only int32."""
    indices = np.asarray(value)
    if indices.ndim != 1 or (indices.size and indices.dtype.kind not in "iu"):
        raise SuppleError(f"{what} must be a list of indices")
    if indices.size and not (indices.min() >= 0 and indices.max() < count):
        bad = indices[(indices < 0) | (indices >= count)][0]
        raise SuppleError(f"{what}: index {bad} does not exist; use 0 to {count - 1}")
    array = indices.astype(np.int32)
    if len(np.unique(array)) < len(array):
        raise SuppleError(f"{what}: an index is listed twice")
    return frozen(array)


def rounded_mesh(mesh: TetMesh) -> TetMesh:
    """Return the tets with vertices rounded to float32, without sets; refuse inverted tets."""
    small = TetMesh(rounded(mesh.vertices), mesh.tets)
    volumes = small.volumes()
    if not volumes.min() > 0:
        where = int(np.argmin(volumes))
        raise MeshError(f"tet {where} is inverted or flat at the neutral pose; mesh it again")
    return small


def embedding_table(embedding: Any) -> tuple[Ints, Singles]:
    """Return columns and values, (n̄, 4) each, of a sparse matrix with up to four entries per row.

    The largest value is first, because a model stores the first as 1 minus the others.
    """
    matrix = sp.csr_array(embedding)
    matrix.sum_duplicates()
    counts = np.diff(matrix.indptr)
    if len(counts) == 0 or counts.max() > 4 or counts.min() < 1:
        raise SuppleError(
            "a surface vertex must have one to four tet vertices; use supple.mesh.embed"
        )
    used = np.arange(4) < counts[:, None]
    columns, values = np.zeros((len(counts), 4), np.int32), np.zeros((len(counts), 4))
    columns[used], values[used] = matrix.indices, matrix.data
    rows, largest = np.arange(len(counts)), values.argmax(axis=1)
    for table in (columns, values):
        table[rows, largest], table[:, 0] = table[:, 0].copy(), table[rows, largest]
    # Unused entries repeat a vertex that is needed anyway.
    columns = np.where(used, columns, columns[:, :1])
    return columns.astype(np.int32), rounded(values)


def checked_motions(motions: Mapping[str, Motion], n_parameters: int) -> dict[str, Motion]:
    """Return motions with poses rounded to float32; root transforms stay float64."""
    if len(motions) > MOST_MOTIONS:
        raise SuppleError(f"{len(motions):,} motions; a model has at most {MOST_MOTIONS:,}")
    checked = {}
    for name, motion in motions.items():
        if motion.poses.shape[1] != n_parameters:
            width = motion.poses.shape[1]
            raise SuppleError(
                f'motion "{name}": {width} numbers per pose; the rig has {n_parameters} parameters'
            )
        poses = rounded(motion.poses)
        cuts, tracks = motion.cuts, motion.tracks
        checked[str(name)] = Motion(motion.times, poses, motion.roots, motion.name, cuts, tracks)
    return checked


def checked_rest(what: str, rig: Rig, vertices: NDArray, size: float) -> None:
    """Refuse a rig whose rest pose differs from `vertices` by over `REST_TOLERANCE` of `size`."""
    if not isinstance(rig, Rig):
        raise SuppleError(f"the rig of the {what} is a {type(rig).__name__}, which is not a rig")
    if rig.n_vertices != len(vertices):
        raise SuppleError(
            f"the rig of the {what} has {rig.n_vertices:,} vertices; its mesh has {len(vertices):,}"
        )
    with np.errstate(all="ignore"):
        apart = np.abs(np.asarray(rig(rig.rest_pose)) - vertices).max()
    if not apart <= REST_TOLERANCE * size:
        raise SuppleError(
            f"the {what} is up to {apart:.3g} m away from the rest pose of its rig;"
            " they do not belong together"
        )


def scalar_or_array(
    what: str, value: ArrayLike, shapes: Sequence[tuple[int, ...]]
) -> float | Singles:
    """Return a number in double precision, or a float32 array of one of the shapes."""
    array = numbers(what, value)
    if array.ndim == 0:
        return float(stored_array(what, array, (), double=True))
    if array.shape not in shapes:
        expected = " or ".join(str(shape) for shape in shapes)
        raise SuppleError(f"{what}: shape {array.shape}; use a number or {expected}")
    return stored_array(what, array, array.shape)


def built_flesh(
    *,
    rig: Rig,
    tet_rig: Rig,
    embedding: Any,
    material: Material | Sequence[Material],
    pose_weights: PoseWeights,
    mesh: TetMesh,
    **others: Any,
) -> dict[str, Any]:
    """Return the fields of a model's flesh from the results of a build.

    Parameters
    ----------
    rig, tet_rig
        Rigs of the skin and the tets. They are converted as for a file, so that a built model
        equals the loaded one.
    embedding
        (n̄, n) sparse matrix.
    material
        One material, or one for each pose.
    pose_weights, mesh, **others
        Fields of the model.
    """
    rigs = rounded_rigs({"rig": rig, "tet_rig": tet_rig, "pose_weights": pose_weights})
    columns, weights = embedding_table(embedding)
    return {
        **others,
        **rigs,
        **_material_fields(material, pose_weights.n_poses, len(mesh.tets)),
        "mesh": mesh,
        "embedding_vertices": columns,
        "embedding_weights": weights,
    }


def _material_fields(
    material: Material | Sequence[Material], count: int, n_tets: int
) -> dict[str, Any]:
    materials = [material] if isinstance(material, Material) else list(material)
    first = materials[0]
    if len(materials) not in (1, count):
        raise SuppleError(f"{len(materials)} materials for {count} poses; use one, or one per pose")
    for other in materials:
        same = other.kind == first.kind and np.array_equal(other.density, first.density)
        if not same:
            raise SuppleError("materials of poses must have the same kind and density")
    return {
        "material_kind": first.kind,
        "young": _of_poses("young", [each.young for each in materials], n_tets),
        "poisson": _of_poses("poisson", [each.poisson for each in materials], n_tets),
        "density": first.density,
    }


def _of_poses(what: str, values: list[ArrayLike], n_tets: int) -> ArrayLike:
    """Return a constant that is equal at all poses, or an array with a row for each pose."""
    if all(np.array_equal(value, values[0]) for value in values):
        return values[0]
    try:
        return np.stack([np.broadcast_to(value, (n_tets,)) for value in values])
    except ValueError:
        raise SuppleError(f"{what}: use one value, or one for each of {n_tets} tets") from None


def frozen(array: NDArray) -> NDArray:
    """Make the array read-only and return it."""
    array.flags.writeable = False
    return array
