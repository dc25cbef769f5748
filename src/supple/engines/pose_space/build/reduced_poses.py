"""Reduced models of several poses on the whole mesh, for analysis and comparisons."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from supple.engines.pose_space.build.pose_basis import (
    PoseModel,
    PoseTask,
    pose_basis,
    reduce_pose,
    region_stiffness,
)
from supple.engines.pose_space.build.reduction_setup import modes_per_region
from supple.engines.pose_space.build.shaken_pose import shake_pose, shaken_tasks
from supple.engines.pose_space.build.snapshot_basis import shaken_shapes
from supple.engines.pose_space.model.model import PoseSpaceModel
from supple.errors import SuppleError
from supple.mesh.obstacles import Obstacle
from supple.mesh.tets import TetMesh
from supple.reduction.contact_constraints import ContactKind
from supple.reduction.cubature.samples import dense_basis
from supple.reduction.regions.region import Region
from supple.rig.poses.pose_weights import PoseWeights
from supple.rig.protocol import Rig

#: From a pose (s,) to rest positions (n, 3), or to a basis (3n, r).
OfPose = Callable[[Floats], Floats]


@dataclass(frozen=True, eq=False)
class ReducedPoses:
    """Reduced models of several poses; bases between them are a choice, see `aligned`.

    Attributes
    ----------
    mesh, rest
        Tets, and Φ: from a pose to their rest positions (n, 3).
    models, weights
        Models of the poses, the neutral one first; and weights of these poses at any pose.
    regions
        Regions of the bases.
    mass
        (n,) masses of the vertices.
    """

    mesh: TetMesh
    rest: OfPose
    models: tuple[PoseModel, ...]
    weights: PoseWeights
    regions: tuple[Region, ...]
    mass: Floats
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
    ) -> ReducedPoses:
        """Reduce a body at each of some poses.

        Parameters
        ----------
        mesh, material
            Tets, and their material, once or at each pose.
        rest
            Φ, such as a rig.
        poses
            (m, s), the neutral one first, or their weights.
        modes
            Columns in all, or of each region.
        fixed, regions
            Vertices that do not move, and regions of the bases; without regions, the whole body
            (global modes).
        contacts, obstacles
            Kind of contact constraints, None for a basis that knows of no contact, and things
            to touch beside itself.
        recipe
            Options of `pose_basis`, for one region without contacts; a build's own without.
        shaken
            Number of poses, the first ones, at which the body is shaken for a basis of all, where
            `rest` is a rig; 0 for bases of modes.
        """
        weights = poses if isinstance(poses, PoseWeights) else PoseWeights(poses)
        still = np.asarray(fixed, np.int64)
        where = (Region.whole(len(mesh.vertices), still),) if regions is None else tuple(regions)
        counts = modes_per_region(modes, where)
        count = weights.n_poses
        made_of = [material] * count if isinstance(material, Material) else list(material)
        if len(made_of) != count:
            raise SuppleError(f"{len(made_of)} materials for {count} poses")
        tasks = [
            PoseTask(name, mesh, each, rest(pose), where, counts, contacts, tuple(obstacles))
            for name, pose, each in zip(weights.names, weights.poses, made_of, strict=True)
        ]
        mass = ElasticBody(mesh, made_of[0]).vertex_masses()
        if shaken:
            shapes = _shaken(tasks[:shaken], cast(Rig, rest), weights.poses[:shaken], mass)
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
        """Reduce a model's poses again, on all vertices; or its body at other poses (m, s).

        The bases are the model's own where it keeps them, if it was built with these contacts and
        without obstacles.
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
        )

    @property
    def n_columns(self) -> int:
        """Number of basis vectors, r."""
        return sum(basis.shape[2] for basis in self.models[0].bases)

    def basis(self, pose: int) -> Floats:
        """Return U of one of the poses, in the world, (3n, r)."""
        count = len(self.mesh.vertices)
        return dense_basis(self.models[pose].bases, self.regions, count).reshape(3 * count, -1)

    def aligned(self, variant: Variant = "frames") -> AlignedPoses:
        """Return the poses' bases, aligned; computed once."""
        if variant not in self._aligned:
            self._aligned[variant] = align_poses(
                self.mesh, self.models, self.weights, self.regions, self.mass, variant=variant
            )
        return self._aligned[variant]


def _shaken(tasks: Sequence[PoseTask], rig: Rig, poses: Floats, mass: Floats) -> Floats:
    """Return the shapes (n, 3, r) of a body that is shaken as a build shakes it."""
    (region,), (count,) = tasks[0].regions, tasks[0].modes
    found = [shake_pose(task) for task in shaken_tasks(tasks, rig, poses)]
    whole = [each for each in found if each is not None]
    if len(whole) < len(found):
        raise SuppleError("the body cannot be shaken at all of these poses; use modes")
    rests = [task.rest for task in tasks]
    return shaken_shapes(tasks[0].mesh, rests, whole, region, mass, count)


def _by_recipe(task: PoseTask, recipe: dict[str, Any]) -> PoseModel:
    if len(task.regions) != 1 or task.contacts is not None:
        raise SuppleError("a recipe is for one region without contacts")
    body, (region,) = ElasticBody(task.mesh, task.material), task.regions
    stiffness = body.stiffness(task.rest, task.rest, out=body.pattern.zeros())
    made = pose_basis(
        body, task.rest, stiffness, body.vertex_masses(), region, task.modes[0], **recipe
    )
    reduced = region_stiffness(stiffness, region, made.vectors)
    return PoseModel(task.rest, (made.vectors,), (reduced,), None, 0)


def model_embedding(model: PoseSpaceModel) -> sp.csr_array:
    """Return A (n̄, n), which gives the model's skin from its tet vertices."""
    count, corners = model.embedding_vertices.shape
    rows = np.repeat(np.arange(count), corners)
    entries = model.embedding_weights.astype(np.float64).ravel()
    return sp.csr_array(
        (entries, (rows, model.embedding_vertices.ravel())), (count, len(model.mesh.vertices))
    )


def stand_in_basis(model: PoseSpaceModel) -> Floats:
    """Return a basis (3n, r) of a model's size: its own at the neutral pose where that is stored.

    Elsewhere, in the interior, the mean of the stored rows of the same tets' vertices, so that it
    is as dense and as smooth as the real one. To measure time with, not to simulate with.
    """
    count = len(model.mesh.vertices)
    found = model.interpolated_basis(model.rig.rest_pose).reshape(count, -1)
    known = np.zeros(count, bool)
    known[model.rotation_vertices] = True
    known[model.fixed] = True
    tets = model.mesh.tets
    ones = np.ones(tets.size)
    touching = sp.csr_array((ones, (tets.ravel(), np.repeat(np.arange(len(tets)), 4))))
    near = sp.csr_array(touching @ touching.T)
    while not known.all():
        weights = near @ known.astype(float)
        reached = ~known & (weights > 0)
        if not reached.any():
            break
        rows = near[reached] @ (found * known[:, None])
        found[reached] = rows / weights[reached, None]
        known |= reached
    return found.reshape(3 * count, -1)
