"""Poses of a model: reduced in parallel, aligned, and refined where interpolation is poor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, TypeVar

import numpy as np

from supple.anatomy.painted_material import interpolated_material
from supple.arrays import Floats
from supple.elastic.material import Material
from supple.engines.common.pose_selection import mid_poses
from supple.engines.pose_space.alignment import Variant
from supple.engines.pose_space.build.aligned_poses import (
    AlignedPoses,
    Assessment,
    align_poses,
    assess_pose,
    check_independent,
)
from supple.engines.pose_space.build.motion_loads import motion_loads
from supple.engines.pose_space.build.pose_basis import PoseModel, PoseTask, reduce_pose
from supple.engines.pose_space.build.reduction_setup import ReductionSetup
from supple.engines.pose_space.build.shaken_pose import (
    MotionTask,
    pose_motion,
    rig_moves,
    shake_pose,
    shaken_shapes,
    shaken_tasks,
)
from supple.errors import SuppleError, warn
from supple.mesh.topology import counted
from supple.reduction.build_log import BuildLog
from supple.reduction.cubature.training import MotionForces
from supple.reduction.shaking import Shaking
from supple.reduction.workers import Workers
from supple.rig.poses.pose_weights import PoseWeights

Result = TypeVar("Result")

#: Ratio of frequencies between poses above which ``"auto"`` adds a pose.
ENOUGH = 1.1
#: An edge between poses is halved again only if halving left less than this part of the change of
#: frequencies: where contact begins, frequencies jump however near the poses are.
WORTHWHILE = 0.75


@dataclass(eq=False)
class Midpoint:
    """Pose halfway between two sampled poses."""

    ends: tuple[int, int]
    edge: tuple[str, str]
    """Indices of the two poses, and their names."""
    pose: Floats
    task: PoseTask
    """Pose (s,), and task of its reduction."""
    halved_from: float
    """Worst ratio of the edge of which this one is a half; infinite for an original edge."""
    model: PoseModel | None = None
    assessment: Assessment | None = None
    """Reduced model, and comparison of the blended basis with its basis."""
    trouble: str | None = None
    """Reason why `model` or `assessment` is missing."""

    @property
    def worst(self) -> float:
        """Worst frequency ratio; infinite if the basis cannot be blended, 0 without a model."""
        if self.assessment is None:
            return 0.0 if self.model is None else np.inf
        return self.assessment.worst

    @property
    def needs_pose(self) -> bool:
        """True if frequencies change too much at the midpoint, and another pose would help."""
        helped = self.worst - 1 < WORTHWHILE * (self.halved_from - 1)
        return self.worst > ENOUGH and (helped or self.halved_from == np.inf)


class SampledPoses:
    """Poses (m, s) at which a character is reduced, the neutral one first, and their models.

    Attributes
    ----------
    models, aligned
        Reduced models of the poses, and their aligned bases, after `reduce`.
    midpoints
        Poses halfway between pairs of poses, after `assess`.
    shapes
        (n, 3, r) shapes of the shaken body, one basis for all poses; None for bases of modes.
    """

    aligned: AlignedPoses

    def __init__(
        self,
        setup: ReductionSetup,
        poses: Floats,
        names: Sequence[str],
        materials: Sequence[Material],
        variant: Variant,
        workers: Workers,
        log: BuildLog,
    ) -> None:
        self.setup, self.variant, self.workers, self.log = setup, variant, workers, log
        self.materials = list(materials)
        self.models: list[PoseModel] = []
        self._halved: dict[int, float] = {}  # pose added → worst ratio of the edge it halves
        self.midpoints: list[Midpoint] = []
        self.shapes: Floats | None = None
        self._shaken: list[Shaking] = []
        self.weights = self._weights(poses, tuple(names))
        self.mass = setup.elastic(self.materials[:1])[0].vertex_masses()

    def _weights(self, poses: Floats, names: tuple[str, ...]) -> PoseWeights:
        fitted = self.setup.flesh.tet_rig.pose_weights
        return PoseWeights(poses, fitted.scales, kind=fitted.kind, names=names)

    @property
    def n_poses(self) -> int:
        """Number of poses, m."""
        return self.weights.n_poses

    @property
    def n_shaken(self) -> int:
        """Number of poses, from the first, at which the body was shaken; 0 for bases of modes."""
        return 0 if self.shapes is None else len(self._shaken)

    def reduce(self) -> None:
        """Compute the bases of all poses and align them."""
        if self.setup.basis == "shaken":
            self._shake()
        tasks = self._tasks()
        with self.log.stage("modes" if self.shapes is None else "bases"):
            self.models = self._computed(reduce_pose, tasks)
        self._align()

    def _tasks(self) -> list[PoseTask]:
        return [
            replace(self.setup.task(name, pose, material), shapes=self.shapes, seed=seed)
            for seed, (name, pose, material) in enumerate(
                zip(self.weights.names, self.weights.poses, self.materials, strict=True)
            )
        ]

    def _shake(self) -> None:
        """Shake the body at all poses for a common basis; use modes if nothing holds the body."""
        (region,), (count,) = self.setup.regions, self.setup.modes
        flesh = self.setup.flesh
        with self.log.stage("shaking"):
            loads = motion_loads(flesh.tet_rig, self.setup.character.motions, self.weights)
            tasks = shaken_tasks(self._tasks(), flesh.tet_rig, self.weights.poses, loads)
            shakings = _all_or_none(self._computed(shake_pose, tasks))
            if shakings is not None:
                rests = [task.rest for task in tasks]
                self.shapes = shaken_shapes(flesh.mesh, rests, shakings, region, self.mass, count)
                self._shaken = shakings

    def motions(
        self, bases: Sequence[Floats], between: Sequence[Midpoint], blended: Sequence[Floats]
    ) -> list[MotionForces] | None:
        """Return motions of the shaken body at all poses and at `between`; None for bases of modes.

        `bases` and `blended` (k, 3, r) are bases at the poses and at the midpoints. The character's
        own motions shake the poses of `_shake` only; midpoints, and poses that were inserted later,
        are shaken along the rig's derivatives.
        """
        if self.shapes is None:
            return None
        motion_tasks = []
        for k, (task, basis) in enumerate(zip(self._tasks(), bases, strict=True)):
            shaking = self._shaken[k] if k < len(self._shaken) else None
            if shaking is None:
                task = self._with_moves(task, self.weights.poses[k])
            motion_tasks.append(MotionTask(task, basis, shaking, True))
        for k, (midpoint, basis) in enumerate(zip(between, blended, strict=True)):
            task = replace(self._with_moves(midpoint.task, midpoint.pose), seed=self.n_poses + k)
            motion_tasks.append(MotionTask(task, basis, None, False))
        return _all_or_none(self._computed(pose_motion, motion_tasks))

    def _with_moves(self, task: PoseTask, pose: Floats) -> PoseTask:
        """Return a task whose body is also shaken along the rig's derivatives at a pose."""
        return replace(task, moves=rig_moves(self.setup.flesh.tet_rig, pose))

    def _computed(
        self, function: Callable[[Any], Result], tasks: Sequence[PoseTask | MotionTask]
    ) -> list[Result]:
        def done(index: int, count: int) -> None:
            self.log.report(count / len(tasks), f'pose "{tasks[index].name}"')

        self.log.report(0.0, f"{len(tasks)} poses")
        return self.workers.map(function, tasks, done)

    def _align(self) -> None:
        with self.log.stage("alignment"):
            self.aligned = align_poses(
                self.setup.flesh.mesh,
                self.models,
                self.weights,
                self.setup.regions,
                self.mass,
                variant=self.variant,
            )
            check_independent(self.aligned, self.weights.names)

    def assess(self, insert_up_to: int = 0) -> None:
        """Assess midpoints; add midpoints of poor interpolation, up to `insert_up_to` poses."""
        computed: dict[bytes, Midpoint] = {}
        while True:
            with self.log.stage("between poses"):
                self.midpoints = self._made_midpoints(computed)
                self._assess_midpoints()
            poor = sorted(
                (midpoint for midpoint in self.midpoints if midpoint.needs_pose),
                key=lambda midpoint: -midpoint.worst,
            )
            added = poor[: max(0, insert_up_to - self.n_poses)]
            if not added:
                break
            self._insert(added)
        self._warn_of_poor_edges(poor if insert_up_to else [], bool(insert_up_to))

    def _warn_of_poor_edges(self, poor: Sequence[Midpoint], inserted: bool) -> None:
        """Warn of edges that could not be assessed, and of edges with too few poses."""
        assessed = [midpoint for midpoint in poor if midpoint.assessment is not None]
        if assessed:
            warn(
                f"with {counted(self.n_poses, 'pose')}, interpolation still changes frequencies "
                f"by up to a factor of {assessed[0].worst:.2f}; raise most_poses"
            )
        for midpoint in self.midpoints:
            first, second = midpoint.edge
            where = f'halfway between poses "{first}" and "{second}"'
            if midpoint.trouble is not None:
                warn(f"{where} the basis could not be assessed: {midpoint.trouble}")
            elif inserted and midpoint.worst > ENOUGH and not midpoint.needs_pose:
                warn(
                    f"{where} frequencies change by a factor of {midpoint.worst:.2f}, "
                    "and a pose between them did not reduce it, which is usual where contact "
                    "begins; give poses before and after contact"
                )

    def _made_midpoints(self, computed: dict[bytes, Midpoint]) -> list[Midpoint]:
        edges, poses = mid_poses(self.weights.poses, self.aligned.parents.tolist())
        midpoints = []
        for (i, j), pose in zip(edges.tolist(), poses, strict=True):
            midpoint, before = self._midpoint((i, j), pose), computed.get(pose.tobytes())
            # Poses added since then change the interpolated material.
            if before is not None and _same(before.task.material, midpoint.task.material):
                midpoint.model = before.model
                midpoint.trouble = before.trouble if before.model is None else None
            computed[pose.tobytes()] = midpoint
            midpoints.append(midpoint)
        inversions = self.setup.flesh.tet_rig.inversions
        fresh = [
            midpoint
            for midpoint in midpoints
            if midpoint.model is None
            and midpoint.trouble is None
            and not len(inversions(midpoint.pose[None])[0])
        ]
        results = self._computed(_reduced_or_reason, [midpoint.task for midpoint in fresh])
        for midpoint, result in zip(fresh, results, strict=True):
            if isinstance(result, str):
                midpoint.trouble = result
            else:
                midpoint.model = result
        return midpoints

    def _midpoint(self, ends: tuple[int, int], pose: Floats) -> Midpoint:
        edge = (self.weights.names[ends[0]], self.weights.names[ends[1]])
        material = interpolated_material(self.materials, self.weights(pose))
        task = self.setup.task(f"between {edge[0]} and {edge[1]}", pose, material)
        halved_from = min(self._halved.get(end, np.inf) for end in ends)
        return Midpoint(ends, edge, pose, replace(task, shapes=self.shapes), halved_from)

    def _assess_midpoints(self) -> None:
        sound = [midpoint for midpoint in self.midpoints if midpoint.model is not None]
        cases = [
            (midpoint.task, midpoint.model, self.aligned, self.weights(midpoint.pose))
            for midpoint in sound
            if midpoint.model is not None
        ]
        for midpoint, outcome in zip(sound, self.workers.map(_assessed, cases), strict=True):
            if isinstance(outcome, str):
                midpoint.trouble = outcome
            else:
                midpoint.assessment = outcome

    def _insert(self, midpoints: Sequence[Midpoint]) -> None:
        for midpoint in midpoints:
            assert midpoint.model is not None
            self.models.append(midpoint.model)
            self.materials.append(midpoint.task.material)
        names = list(self.weights.names)
        for midpoint in midpoints:
            self._halved[len(names)] = midpoint.worst
            names.append(next(n for k in count(1) if (n := f"halfway {k}") not in names))
        self.weights = self._weights(
            np.vstack([self.weights.poses, *(midpoint.pose for midpoint in midpoints)]),
            tuple(names),
        )
        self._align()


def _all_or_none(results: list[Result | None]) -> list[Result] | None:
    """Return the results of all poses; None if one is None: nothing holds the body there."""
    complete = [result for result in results if result is not None]
    return complete if len(complete) == len(results) else None


def _same(first: Material, second: Material) -> bool:
    """Return whether two interpolated materials of one kind and density are equal."""
    return first is second or all(
        np.array_equal(getattr(first, name), getattr(second, name)) for name in ("young", "poisson")
    )


# Midpoints are only assessed: an error there is reported, and does not end the build.


def _reduced_or_reason(task: PoseTask) -> PoseModel | str:
    try:
        return reduce_pose(task)
    except SuppleError as error:
        return str(error)


def _assessed(case: tuple[PoseTask, PoseModel, AlignedPoses, Floats]) -> Assessment | str:
    try:
        return assess_pose(*case)
    except SuppleError as error:
        return str(error)
