"""Reduced models on the whole mesh: bases at every vertex, and forces of every tet."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from supple.arrays import Floats
from supple.elastic.body import ElasticBody
from supple.engines.pose_space.build.reduced_poses import ReducedPoses
from supple.engines.pose_space.model.model import PoseSpaceModel
from supple.engines.pose_space.runtime import Frames, RuntimeModel
from supple.engines.pose_space.state import states_of
from supple.engines.pose_space.step_options import StepOptions
from supple.engines.pose_space.stepper import Stepper


def without_cubature(
    model: PoseSpaceModel, poses: ReducedPoses, *, elastic: bool = True, inertial: bool = True
) -> PoseSpaceModel:
    """Return a model with all tets (`elastic`) and vertices (`inertial`) in place of cubature.

    `poses` are the model's poses on all vertices (`ReducedPoses.of_model`).
    """
    aligned, count = poses.aligned(model.interpolation), model.n_poses
    listed = [np.asarray(region.vertices, np.int32) for region in model.regions]
    moving = np.unique(np.concatenate(listed))
    fields: dict[str, Any] = {
        "basis_vertices": tuple(listed),
        "bases": tuple(
            np.stack([pose[at] for pose in aligned.bases]) for at in range(len(model.regions))
        ),
    }
    if aligned.rotations is not None:
        fields["rotations"] = aligned.rotations[:, moving]
    if elastic:
        tets = np.flatnonzero(np.isin(model.mesh.tets, moving).any(axis=1)).astype(np.int32)
        fields |= {
            "elastic_tets": tets,
            "elastic_weights": np.ones((count, len(tets)), np.float32),
            "stiffness_corrections": None,
            "correction_ends": np.empty((0, 2), np.int32),
        }
    if inertial:
        fields |= {
            "inertial_vertices": moving,
            "inertial_weights": np.ones((count, len(moving)), np.float32),
            "inertial_corrections": None,
        }
    return replace(model, **fields)


class BlendedBasis:
    """Basis U(p) on all vertices of a model `without_cubature`; its frames follow the flesh."""

    def __init__(
        self,
        model: PoseSpaceModel,
        frames: Frames = "followed",
        negligible_weight: float = 0.02,
    ) -> None:
        self._runtime = RuntimeModel(model, frames=frames)
        options = StepOptions(dt=1 / 90, negligible_weight=negligible_weight)
        self._stepper = Stepper(self._runtime, options)
        (self._state,) = states_of(self._runtime, 1)

    def __call__(self, pose: Floats) -> Floats:
        """Return U (3n, r) at a pose (s,), in the root's frame."""
        runtime, tables = self._runtime, self._runtime.inertial
        self._stepper.begin(self._state, np.asarray(pose, np.float64), np.eye(4), None)
        blend = self._stepper.workspace.blend
        basis = np.zeros((len(runtime.model.mesh.vertices), 3, runtime.n_modes))
        rotations = blend.frames[tables.rows].reshape(-1, 3, 3).astype(np.float64)
        where = runtime.vertices[tables.rows]
        for group, width in enumerate(tables.width):
            points = slice(tables.first[group], tables.first[group + 1])
            block = blend.inertial[tables.start[group] : tables.start[group + 1]]
            columns = tables.columns[group, :width]
            real = columns >= 0
            rows = block.reshape(-1, 3, width)[..., real] * blend.column_scale[columns[real]]
            basis[where[points][:, None], :, columns[real]] = np.swapaxes(
                rotations[points] @ rows, 1, 2
            )
        return basis.reshape(-1, runtime.n_modes)


def nearest_displacement(model: PoseSpaceModel, basis: Floats, displacement: Floats) -> Floats:
    """Return the mass-weighted projection of a displacement (n, 3) on a basis (3n, r)."""
    masses = ElasticBody(model.mesh, model.material(0)).vertex_masses()
    root = np.sqrt(np.repeat(masses, 3))
    q = np.linalg.lstsq(basis * root[:, None], displacement.reshape(-1) * root, rcond=None)[0]
    return np.asarray((basis @ q).reshape(-1, 3), np.float64)
