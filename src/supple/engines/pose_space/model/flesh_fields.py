"""Fields of a character's flesh: all that a simulation of its tets reads, without a reduction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from supple.anatomy.painted_material import interpolated_material
from supple.arrays import Floats, Singles
from supple.checks import checked_whole_numbers
from supple.elastic.densities.dispatch import MATERIALS
from supple.elastic.material import Material
from supple.engines.pose_space.model.field_checks import (
    checked_motions,
    checked_rest,
    distinct_indices,
    rounded_mesh,
    rounded_surface,
    scalar_or_array,
    stored_array,
)
from supple.errors import SuppleError
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh
from supple.rig.motion.motion import Motion
from supple.rig.poses.pose_weights import PoseWeights
from supple.rig.protocol import Rig

Fields = dict[str, Any]
Ints = NDArray[np.int32]

#: What rounding to float32 may do to rows that add up to 1.
UNIT_TOLERANCE = 1e-5


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class FleshFields:
    """Skin, tets, rigs and material of a character: what its unreduced simulation reads.

    `FullModel` is made of them, and `PoseSpaceModel` of these and a reduction. All are checked,
    brought to the precision of the model file and made read-only, so that a saved and loaded
    model is the same to the bit.

    Attributes
    ----------
    name
        Name of the character.
    surface, rig, motions
        Skin (n̄ vertices) at the neutral pose, its rig Φ̄(p), and motions by name.
    mesh, tet_rig
        Tets (n vertices, T tets) at the neutral pose, and their rig Φ(p).
    embedding_vertices, embedding_weights
        (n̄, 4) tet vertices that carry each vertex of the skin, and their shares.
    fixed
        (f,) tet vertices that bones hold, ascending.
    material_kind, young, poisson, density
        As in `Material`. Young's modulus and Poisson's ratio are numbers, (T,), or (m, T) with a
        row for each pose (xu2016 §8); the density is a number or (T,).
    pose_weights
        The m poses, the neutral one first, their names, and their weights at any pose.
    """

    #: Row of `supple.engines.ENGINES` that steps it.
    engine: ClassVar[str]

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

    def _set(self, fields: Fields) -> None:
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
        """Matrix (n̄, n) that gives the skin's vertices from the tet vertices; rows add up to 1."""
        weights = self.embedding_weights.astype(np.float64)
        weights[:, 0] = 1 - weights[:, 1:].sum(axis=1)
        starts = np.arange(0, weights.size + 1, 4)
        shape = (len(weights), len(self.mesh.vertices))
        matrix = sp.csr_array(
            (weights.ravel(), self.embedding_vertices.ravel().copy(), starts), shape=shape
        )
        matrix.sum_duplicates()
        return matrix

    def material(self, pose: int | ArrayLike | None = None) -> Material:
        """Return the material of the flesh at a pose.

        Parameters
        ----------
        pose
            Number of one of the model's poses, weights (m,) of the poses between which it is,
            or None for the neutral one.
        """
        if pose is not None and np.ndim(pose) == 1:
            changing = np.ndim(self.young) == 2 or np.ndim(self.poisson) == 2
            each = [self.material(i if changing else 0) for i in range(self.n_poses)]
            return interpolated_material(each if changing else each[:1] * len(each), pose)
        (index,) = checked_whole_numbers("pose", [0 if pose is None else pose])  # type: ignore[list-item]
        if not 0 <= index < self.n_poses:
            raise SuppleError(f"pose {index} is not there; the model has {self.n_poses}")
        young, poisson = (
            value[index] if np.ndim(value) == 2 else value  # type: ignore[index]
            for value in (self.young, self.poisson)
        )
        return Material(self.material_kind, young, poisson, self.density)


def _body(model: FleshFields) -> Fields:
    surface, mesh = rounded_surface(model.surface), rounded_mesh(model.mesh)
    n_skin, n = len(surface.vertices), len(mesh.vertices)
    checked_rest("surface", model.rig, surface.vertices, surface.size)
    checked_rest("tets", model.tet_rig, mesh.vertices, mesh.size)
    if tuple(model.tet_rig.parameters) != tuple(model.rig.parameters):
        raise SuppleError("the rig of the tets has other parameters than that of the surface")
    columns = np.asarray(model.embedding_vertices)
    if columns.shape != (n_skin, 4) or columns.dtype.kind not in "iu":
        raise SuppleError(f"embedding of shape {columns.shape}; expected ({n_skin}, 4) indices")
    if not (columns.min() >= 0 and columns.max() < n):
        raise SuppleError(f"the surface hangs on tet vertex {columns.max()}; there are {n:,}")
    weights = stored_array("embedding weights", model.embedding_weights, (n_skin, 4))
    if not np.abs(weights.sum(axis=1, dtype=np.float64) - 1).max() < UNIT_TOLERANCE * max(
        1.0, float(np.abs(weights).max())
    ):
        raise SuppleError("embedding weights of a vertex do not add up to 1")
    # The first is what the others leave of 1, so that files need not hold it.
    exact = weights.copy()
    exact[:, 0] = 1 - weights[:, 1:].sum(axis=1, dtype=np.float64)
    fixed = distinct_indices("fixed vertices", model.fixed, n)
    return {
        "name": str(model.name),
        "surface": surface,
        "mesh": mesh,
        "embedding_vertices": _frozen(columns.astype(np.int32)),
        "embedding_weights": _frozen(exact),
        "fixed": _frozen(np.sort(fixed)),
        "motions": checked_motions(model.motions, len(model.rig.parameters)),
    }


def _poses(model: FleshFields) -> Fields:
    weights = model.pose_weights
    if not isinstance(weights, PoseWeights):
        raise SuppleError("the poses of a model must be PoseWeights")
    if weights.poses.shape[1] != len(model.rig.parameters):
        wrong = f"{weights.poses.shape[1]} numbers a pose"
        raise SuppleError(f"{wrong}; the rig has {len(model.rig.parameters)} parameters")
    if not np.allclose(weights.poses[0], model.rig.rest_pose, rtol=1e-6, atol=1e-6):
        raise SuppleError("the first pose of a model must be the neutral one")
    return _material(model, len(model.mesh.tets), weights.n_poses)


def _is_isotropic(kind: str) -> bool:
    return kind in MATERIALS and MATERIALS[kind].isotropic


def _material(model: FleshFields, n_tets: int, n_poses: int) -> Fields:
    if not _is_isotropic(model.material_kind):
        isotropic = ", ".join(kind for kind in MATERIALS if _is_isotropic(kind))
        raise SuppleError(f'a model cannot be of material "{model.material_kind}"; use {isotropic}')
    painted = [(n_tets,), (n_poses, n_tets)]
    fields: Fields = {
        "material_kind": str(model.material_kind),
        "young": scalar_or_array("Young's modulus", model.young, painted),
        "poisson": scalar_or_array("Poisson's ratio", model.poisson, painted),
        "density": scalar_or_array("density", model.density, painted[:1]),
    }
    # Its own checks; it takes any shape.
    Material(fields["material_kind"], fields["young"], fields["poisson"], fields["density"])
    return fields


def _frozen(array: NDArray) -> NDArray:
    array.flags.writeable = False
    return array
