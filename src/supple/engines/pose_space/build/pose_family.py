"""The poses of a model: reduced beside each other, aligned, and added to where they are too few."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import TypeVar

import numpy as np

from supple.anatomy.painted_material import interpolated_material
from supple.arrays import Floats
from supple.elastic.material import Material
from supple.engines.pose_space.alignment import Variant
from supple.engines.pose_space.build.aligned_poses import Agreement, agree
from supple.engines.pose_space.build.assessment import Assessment, assess_pose, check_independent
from supple.engines.pose_space.build.build_parts import Body
from supple.engines.pose_space.build.pose_basis import PoseModel, PoseTask, reduce_pose
from supple.engines.pose_space.build.pose_selection import mid_poses
from supple.errors import SuppleError, warn
from supple.mesh.topology import counted
from supple.reduction.build_log import BuildLog
from supple.reduction.workers import Workers
from supple.rig.poses.pose_weights import PoseWeights

__all__ = ["ENOUGH", "Middle", "PoseFamily"]

Result = TypeVar("Result")

#: Frequencies between poses may change by this factor before ``"auto"`` adds a pose.
ENOUGH = 1.1
#: Halving an edge must leave less than this part of the change, or it is not halved again: where
#: contact begins, frequencies jump, however near the poses.
WORTHWHILE = 0.75


class Middle:
    """A pose halfway between two of the family.

    Attributes
    ----------
    ends, edge
        The two poses, and their names.
    pose, task, model
        The pose, and what it reduces to.
    assessment
        The family's blended basis beside that.
    trouble
        Why one of the two is missing.
    """

    def __init__(
        self, ends: tuple[int, int], edge: tuple[str, str], pose: Floats, task: PoseTask
    ) -> None:
        self.ends, self.edge, self.pose, self.task = ends, edge, pose, task
        self.model: PoseModel | None = None
        self.assessment: Assessment | None = None
        self.trouble: str | None = None
        #: The worst ratio of the edge that was halved to make this one; infinite for a first one.
        self.halved_from = np.inf

    @property
    def name(self) -> str:
        """For people."""
        return f"between {self.edge[0]} and {self.edge[1]}"

    @property
    def worst(self) -> float:
        """Its worst frequency ratio; infinite where a basis is there, and none can be blended."""
        if self.assessment is None:
            return 0.0 if self.model is None else np.inf
        return self.assessment.worst

    @property
    def needs_pose(self) -> bool:
        """Whether frequencies change too much there, and a pose would help."""
        helped = self.worst - 1 < WORTHWHILE * (self.halved_from - 1)
        return self.worst > ENOUGH and (helped or self.halved_from == np.inf)


class PoseFamily:
    """Reduced models of several poses that agree.

    Parameters
    ----------
    body
        What is the same at every pose.
    poses, names, materials
        (m, s), the neutral one first; of each.
    variant
        What bases are blended in.
    workers, log
        Who computes, and who is told.

    Attributes
    ----------
    models
        Of each pose.
    agreement
        Their aligned bases.
    middles
        Poses between, after `assess`.
    """

    agreement: Agreement

    def __init__(
        self,
        body: Body,
        poses: Floats,
        names: Sequence[str],
        materials: Sequence[Material],
        variant: Variant,
        workers: Workers,
        log: BuildLog,
    ) -> None:
        self.body, self.variant, self.workers, self.log = body, variant, workers, log
        self.materials = list(materials)
        self.models: list[PoseModel] = []
        self._halved: dict[int, float] = {}  # pose added → worst ratio of the edge it halves
        self.middles: list[Middle] = []
        self.weights = self._weights(poses, tuple(names))
        self.mass = body.elastic(self.materials[:1])[0].vertex_masses()

    def _weights(self, poses: Floats, names: tuple[str, ...]) -> PoseWeights:
        fitted = self.body.flesh.tet_rig.pose_weights
        return PoseWeights(poses, fitted.scales, kind=fitted.kind, names=names)

    @property
    def n_poses(self) -> int:
        """How many poses there are."""
        return self.weights.n_poses

    def reduce(self) -> None:
        """Compute every pose's bases and align them."""
        tasks = [
            self.body.task(name, pose, material)
            for name, pose, material in zip(
                self.weights.names, self.weights.poses, self.materials, strict=True
            )
        ]
        with self.log.stage("modes"):
            self.models = self._computed(reduce_pose, tasks)
        self._agree()

    def _computed(
        self, function: Callable[[PoseTask], Result], tasks: Sequence[PoseTask]
    ) -> list[Result]:
        def done(index: int, count: int) -> None:
            self.log.tell(count / len(tasks), f'pose "{tasks[index].name}"')

        self.log.tell(0.0, f"{len(tasks)} poses")
        return self.workers.map(function, tasks, done)

    def _agree(self) -> None:
        with self.log.stage("alignment"):
            self.agreement = agree(
                self.body.flesh.mesh,
                self.models,
                self.weights,
                self.body.regions,
                self.mass,
                variant=self.variant,
            )
            check_independent(self.agreement, self.weights.names)

    def assess(self, insert_up_to: int = 0) -> None:
        """Look between the poses; add those where interpolation is poor, up to a number in all."""
        known: dict[bytes, Middle] = {}
        while True:
            with self.log.stage("between poses"):
                self.middles = self._middles(known)
                self._assess_middles()
            poor = sorted(
                (middle for middle in self.middles if middle.needs_pose),
                key=lambda middle: -middle.worst,
            )
            added = poor[: max(0, insert_up_to - self.n_poses)]
            if not added:
                break
            self._insert(added)
        self._tell_what_is_left(poor if insert_up_to else [], bool(insert_up_to))

    def _tell_what_is_left(self, poor: Sequence[Middle], inserted: bool) -> None:
        """Warn of edges that could not be looked at, and of those where poses were not enough."""
        known = [middle for middle in poor if middle.assessment is not None]
        if known:
            warn(
                f"between {counted(self.n_poses, 'pose')} frequencies still change by up to "
                f"{known[0].worst:.2f}; raise most_poses for more"
            )
        for middle in self.middles:
            first, second = middle.edge
            where = f'halfway between poses "{first}" and "{second}"'
            if middle.trouble is not None:
                warn(f"{where} nothing could be compared: {middle.trouble}")
            elif inserted and middle.worst > ENOUGH and not middle.needs_pose:
                warn(
                    f"{where} frequencies change by {middle.worst:.2f}, and halving did not help, "
                    "as where contact begins; give poses on both sides of that"
                )

    def _middles(self, known: dict[bytes, Middle]) -> list[Middle]:
        edges, poses = mid_poses(self.weights.poses, self.agreement.parents.tolist())
        found = []
        for (i, j), pose in zip(edges.tolist(), poses, strict=True):
            middle, before = self._middle((i, j), pose), known.get(pose.tobytes())
            # Poses that were added since share in the material that is interpolated there.
            if before is not None and _same(before.task.material, middle.task.material):
                middle.model = before.model
                middle.trouble = before.trouble if before.model is None else None
            known[pose.tobytes()] = middle
            found.append(middle)
        fresh = [
            middle
            for middle in found
            if middle.model is None and middle.trouble is None and self._is_sound(middle)
        ]
        for middle, made in zip(
            fresh, self._computed(_reduced_or_why_not, [each.task for each in fresh]), strict=True
        ):
            middle.model, middle.trouble = (None, made) if isinstance(made, str) else (made, None)
        return found

    def _middle(self, ends: tuple[int, int], pose: Floats) -> Middle:
        edge = (self.weights.names[ends[0]], self.weights.names[ends[1]])
        material = interpolated_material(self.materials, self.weights(pose))
        task = self.body.task(f"between {edge[0]} and {edge[1]}", pose, material)
        middle = Middle(ends, edge, pose, task)
        middle.halved_from = min(self._halved.get(end, np.inf) for end in ends)
        return middle

    def _is_sound(self, middle: Middle) -> bool:
        return len(self.body.flesh.tet_rig.inversions(middle.pose[None])[0]) == 0

    def _assess_middles(self) -> None:
        sound = [middle for middle in self.middles if middle.model is not None]
        cases = [
            (middle.task, middle.model, self.agreement, self.weights(middle.pose))
            for middle in sound
            if middle.model is not None
        ]
        for middle, found in zip(sound, self.workers.map(_assessed, cases), strict=True):
            if isinstance(found, str):
                middle.trouble = found
            else:
                middle.assessment = found

    def _insert(self, middles: Sequence[Middle]) -> None:
        for middle in middles:
            assert middle.model is not None
            self.models.append(middle.model)
            self.materials.append(middle.task.material)
        names = list(self.weights.names)
        for middle in middles:
            self._halved[len(names)] = middle.worst
            names.append(self._new_name(names))
        self.weights = self._weights(
            np.vstack([self.weights.poses, *(middle.pose for middle in middles)]), tuple(names)
        )
        self._agree()

    @staticmethod
    def _new_name(names: Sequence[str]) -> str:
        return next(name for k in count(1) if (name := f"halfway {k}") not in names)


def _same(first: Material, second: Material) -> bool:
    """Whether two interpolated materials, which are of one kind and density, are the same."""
    return first is second or all(
        np.array_equal(getattr(first, name), getattr(second, name)) for name in ("young", "poisson")
    )


# A pose between others is only looked at: what is wrong there is told, and ends no build.


def _reduced_or_why_not(task: PoseTask) -> PoseModel | str:
    try:
        return reduce_pose(task)
    except SuppleError as error:
        return str(error)


def _assessed(case: tuple[PoseTask, PoseModel, Agreement, Floats]) -> Assessment | str:
    try:
        return assess_pose(*case)
    except SuppleError as error:
        return str(error)
