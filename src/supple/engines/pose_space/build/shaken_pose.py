"""The body at one pose, shaken: its motions for a basis of all poses, and its forces in it.

Workers compute these, a pose each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from supple.arrays import Floats, Singles
from supple.compiled.jit import at_most_threads
from supple.elastic.body import ElasticBody
from supple.engines.pose_space.build.pose_basis import PoseTask, allowed_displacements
from supple.errors import SuppleError
from supple.linalg.blas import single_threaded
from supple.reduction.cubature.training import MotionForces, motion_forces
from supple.reduction.shaking import STEPS, Shaking, shake
from supple.rig.jacobian import DifferencedJacobian
from supple.rig.protocol import Rig

#: Parameters of a rig that are accelerated, and numbers that their fields have, at most.
_MOST_MOVES, _MOST_NUMBERS = 256, 1 << 22


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
        return shake(body, task.rest, region, task.moves, seed=task.seed, steps=steps)
    except SuppleError as error:
        raise SuppleError(f'pose "{task.name}": {error}') from error


def rig_moves(rig: Rig, pose: Floats) -> Singles:
    """Return ∂Φ/∂p (n, 3, k) of a rig on tets at a pose, by all parameters or some of very many."""
    count = len(rig.parameters)
    most = max(1, min(_MOST_MOVES, _MOST_NUMBERS // (3 * rig.n_vertices)))
    entries = np.arange(count)
    if count > most:
        entries = np.sort(np.random.default_rng(0).choice(count, most, replace=False))
    found = np.empty((rig.n_vertices, 3, len(entries)))
    DifferencedJacobian(rig, entries).evaluate(np.asarray(pose, np.float64), found)
    with np.errstate(over="ignore"):
        single = found.astype(np.float32)
    return single[:, :, np.isfinite(single).all(axis=(0, 1))]


def shaken_tasks(tasks: Sequence[PoseTask], rig: Rig, poses: Floats) -> list[PoseTask]:
    """Return tasks of shaking, each in a way of its own, twice as many steps as columns in all."""
    steps = -(-2 * sum(tasks[0].modes) // len(tasks))
    return [
        replace(task, seed=seed, steps=steps, moves=rig_moves(rig, pose))
        for seed, (task, pose) in enumerate(zip(tasks, poses, strict=True))
    ]


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
