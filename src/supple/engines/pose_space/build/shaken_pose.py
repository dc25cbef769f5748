"""The body at one pose, shaken: its motions for a basis of all poses, and its forces in it.

Workers compute these, a pose each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from supple.arrays import Floats
from supple.compiled.jit import at_most_threads
from supple.elastic.body import ElasticBody
from supple.engines.pose_space.build.pose_basis import PoseTask, allowed_displacements
from supple.errors import SuppleError
from supple.linalg.blas import single_threaded
from supple.reduction.cubature.condensed_forces import MotionForces, motion_forces
from supple.reduction.shaking import STEPS, Shaking, shake

__all__ = ["MotionTask", "pose_motion", "shake_pose", "shaken_tasks"]


def shake_pose(task: PoseTask) -> Shaking | None:
    """Shake the body at a pose; None where nothing holds it.

    Raises
    ------
    SuppleError
        With the name of the pose.
    """
    (region,) = task.regions
    steps = max(STEPS, task.steps)
    try:
        body = ElasticBody(task.mesh, task.material)
        return shake(body, task.rest, region, seed=task.seed, steps=steps)
    except SuppleError as error:
        raise SuppleError(f'pose "{task.name}": {error}') from error


def shaken_tasks(tasks: Sequence[PoseTask]) -> list[PoseTask]:
    """Return tasks of shaking, each in a way of its own, twice as many steps as columns in all."""
    steps = -(-2 * sum(tasks[0].modes) // len(tasks))
    return [replace(task, seed=seed, steps=steps) for seed, task in enumerate(tasks)]


class MotionTask(NamedTuple):
    """Input of `pose_motion`.

    Attributes
    ----------
    task
        The pose.
    basis
        (k, 3, r) its basis.
    shaking
        Of the body there; None to shake it now.
    touching
        Whether contacts there hold it: of poses whose basis knows of them.
    """

    task: PoseTask
    basis: Floats
    shaking: Shaking | None
    touching: bool

    @property
    def name(self) -> str:
        """Name of the pose."""
        return self.task.name


def pose_motion(given: MotionTask) -> MotionForces | None:
    """See the shaken body's motion at a pose in a basis; None where it cannot be shaken."""
    task = given.task
    (region,) = task.regions
    shaking = shake_pose(task) if given.shaking is None else given.shaking
    if shaking is None:
        return None
    allowed = allowed_displacements(task) if given.touching else None
    with single_threaded(), at_most_threads(1):
        body = ElasticBody(task.mesh, task.material)
        return motion_forces(body, task.rest, given.basis, region, shaking, allowed)
