"""Reduced models of several poses on the whole mesh, for analysis and comparisons."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from supple.arrays import Floats
from supple.elastic.body import ElasticBody
from supple.elastic.material import Material
from supple.engines.pose_space.alignment import Variant
from supple.engines.pose_space.build.aligned_poses import AlignedPoses, align_poses
from supple.engines.pose_space.build.motion_loads import motion_loads
from supple.engines.pose_space.build.pose_basis import (
    PoseModel,
    PoseTask,
    pose_basis,
    reduce_pose,
    region_stiffness,
)
from supple.engines.pose_space.build.reduction_setup import modes_per_region
from supple.engines.pose_space.build.shaken_pose import shake_pose, shaken_shapes, shaken_tasks
from supple.engines.pose_space.model.model import PoseSpaceModel
from supple.errors import SuppleError
from supple.mesh.obstacles import Obstacle
from supple.mesh.tets import TetMesh
from supple.reduction.contact_constraints import ContactKind
from supple.reduction.cubature.samples import dense_basis
from supple.reduction.regions.region import Region
from supple.rig.motion.motion import Motion
from supple.rig.poses.pose_weights import PoseWeights
from supple.rig.protocol import Rig

#: From a pose (s,) to rest positions (n, 3), or to a basis (3n, r).
OfPose = Callable[[Floats], Floats]


@dataclass(frozen=True, eq=False)
class ReducedPoses:
    """Reduced models of several poses; the method `aligned` returns their aligned bases."""

    mesh: TetMesh
    rest: OfPose
    """Tets, and Φ from a pose to rest positions (n, 3)."""
    models: tuple[PoseModel, ...]
    weights: PoseWeights
    """Models of the poses, the neutral one first; and their weights at any pose."""
    regions: tuple[Region, ...]
    mass: Floats
    """Regions of the bases, and masses (n,) of the vertices."""
    _aligned: dict[str, AlignedPoses] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def at(
        cls,
        mesh: TetMesh,
        material: Material | Sequence[Material],
        rest: OfPose,
        poses: ArrayLike | PoseWeights,
        *,
        modes: int | Sequence[int],
        fixed: ArrayLike = (),
        regions: Sequence[Region] | None = None,
        contacts: ContactKind | None = None,
        obstacles: Sequence[Obstacle] = (),
        recipe: dict[str, Any] | None = None,
        shaken: int = 0,
        motions: Mapping[str, Motion] | None = None,
    ) -> ReducedPoses:
        """Reduce a body at poses (m, s), the neutral one first, or at the poses of `PoseWeights`.

        `material` is one material, or one for each pose; `rest` is Φ, such as a rig; `modes` is the
        total number of columns, or the number of each region. By default there is one region, the
        whole body without the `fixed` vertices, and contact is ignored. `recipe` has options of
        `pose_basis`, for one region without contacts; by default a build's. At the first
        `shaken` poses the body is shaken for a common basis, by the accelerations of `motions`,
        too, and `rest` must be a rig; 0 gives bases of modes.
        """
        weights = poses if isinstance(poses, PoseWeights) else PoseWeights(poses)
        still = np.asarray(fixed, np.int64)
        where = (Region.whole(len(mesh.vertices), still),) if regions is None else tuple(regions)
        counts = modes_per_region(modes, where)
        count = weights.n_poses
        materials = [material] * count if isinstance(material, Material) else list(material)
        if len(materials) != count:
            raise SuppleError(f"{len(materials)} materials for {count} poses; give one per pose")
        tasks = [
            PoseTask(name, mesh, each, rest(pose), where, counts, contacts, tuple(obstacles))
            for name, pose, each in zip(weights.names, weights.poses, materials, strict=True)
        ]
        mass = ElasticBody(mesh, materials[0]).vertex_masses()
        if shaken:
            first = PoseWeights(weights.poses[:shaken], weights.scales, kind=weights.kind)
            shapes = _shaken(tasks[:shaken], cast(Rig, rest), first, mass, motions or {})
            tasks = [replace(task, shapes=shapes) for task in tasks]
        models = tuple(
            reduce_pose(task) if recipe is None else _by_recipe(task, recipe) for task in tasks
        )
        return cls(mesh, rest, models, weights, where, mass)

    @classmethod
    def of_model(
        cls,
        model: PoseSpaceModel,
        poses: ArrayLike | None = None,
        contacts: ContactKind | None = "two-sided",
    ) -> ReducedPoses:
        """Reduce a model's poses on all vertices; or its body at other poses (m, s).

        The bases equal the model's at its stored vertices, if it was built by the default recipe,
        with these contacts and without obstacles.
        """
        weights = model.pose_weights if poses is None else PoseWeights(poses)
        materials = [
            model.material(at if poses is None else model.pose_weights(pose))
            for at, pose in enumerate(weights.poses)
        ]
        return cls.at(
            model.mesh,
            materials,
            model.tet_rig,
            weights,
            modes=[basis.shape[3] for basis in model.bases],
            regions=model.regions,
            contacts=contacts,
            shaken=model.report.get("shaken_poses", 0) if poses is None else 0,
            motions=model.motions,
        )

    @property
    def n_columns(self) -> int:
        """Number of basis vectors, r."""
        return sum(basis.shape[2] for basis in self.models[0].bases)

    def basis(self, pose: int) -> Floats:
        """Return U (3n, r) of pose number `pose`, in world axes."""
        count = len(self.mesh.vertices)
        return dense_basis(self.models[pose].bases, self.regions, count).reshape(3 * count, -1)

    def aligned(self, variant: Variant = "frames") -> AlignedPoses:
        """Return the aligned bases of the poses; they are cached."""
        if variant not in self._aligned:
            self._aligned[variant] = align_poses(
                self.mesh, self.models, self.weights, self.regions, self.mass, variant=variant
            )
        return self._aligned[variant]


def _shaken(
    tasks: Sequence[PoseTask],
    rig: Rig,
    weights: PoseWeights,
    mass: Floats,
    motions: Mapping[str, Motion],
) -> Floats:
    """Shake the body at the poses of `tasks`, as a build does; return the shapes (n, 3, r)."""
    (region,), (count,) = tasks[0].regions, tasks[0].modes
    loads = motion_loads(rig, motions, weights)
    shakings = [shake_pose(task) for task in shaken_tasks(tasks, rig, weights.poses, loads)]
    completed = [shaking for shaking in shakings if shaking is not None]
    if len(completed) < len(shakings):
        raise SuppleError(
            "the body cannot be shaken at one of the poses: it is not fixed, or the simulation "
            "diverges; use shaken=0"
        )
    rests = [task.rest for task in tasks]
    return shaken_shapes(tasks[0].mesh, rests, completed, region, mass, count)


def _by_recipe(task: PoseTask, recipe: dict[str, Any]) -> PoseModel:
    if len(task.regions) != 1 or task.contacts is not None:
        raise SuppleError("a recipe needs one region and contacts=None")
    body, (region,) = ElasticBody(task.mesh, task.material), task.regions
    stiffness = body.stiffness(task.rest, task.rest, out=body.pattern.zeros())
    basis = pose_basis(
        body, task.rest, stiffness, body.vertex_masses(), region, task.modes[0], **recipe
    )
    reduced = region_stiffness(stiffness, region, basis.vectors)
    return PoseModel(task.rest, (basis.vectors,), (reduced,), None, 0)


def stand_in_basis(model: PoseSpaceModel) -> Floats:
    """Return a basis (3n, r) of a model's size, for timing only.

    Stored rows are the model's at the neutral pose; rows in the interior are means of their
    neighbours, so that the result is as dense and as smooth as the real basis.
    """
    count = len(model.mesh.vertices)
    basis = model.interpolated_basis(model.rig.rest_pose).reshape(count, -1)
    stored = np.zeros(count, bool)
    stored[model.rotation_vertices] = True
    stored[model.fixed] = True
    tets = model.mesh.tets
    ones = np.ones(tets.size)
    touching = sp.csr_array((ones, (tets.ravel(), np.repeat(np.arange(len(tets)), 4))))
    near = sp.csr_array(touching @ touching.T)
    while not stored.all():
        weights = near @ stored.astype(float)
        reached = ~stored & (weights > 0)
        if not reached.any():
            break
        rows = near[reached] @ (basis * stored[:, None])
        basis[reached] = rows / weights[reached, None]
        stored |= reached
    return basis.reshape(3 * count, -1)
