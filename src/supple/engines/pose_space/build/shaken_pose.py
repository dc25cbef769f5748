"""Shaking of the body at the poses: a snapshot basis for all of them, and forces in that basis.

In frames that rotate with the rig, flesh moves similarly at every pose. So the motions of all poses
have one mass-PCA. The basis of a pose is its vectors, rotated by `rotated_shapes`. Workers run
`shake_pose` and `pose_motion` in parallel for the poses.
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
from supple.mesh.tets import TetMesh
from supple.reduction.cubature.training import MotionForces, motion_forces
from supple.reduction.mass_pca import mass_pca
from supple.reduction.regions.region import Region
from supple.reduction.shaking import STEPS, Shaking, shake
from supple.rig.jacobian import DifferencedJacobian
from supple.rig.protocol import Rig
from supple.rig.tets.vertex_frames import pose_rotations, unrotate_basis

#: Largest number of accelerated rig parameters, and of entries of their fields.
_MOST_MOVES, _MOST_NUMBERS = 256, 1 << 22


def shake_pose(task: PoseTask) -> Shaking | None:
    """Shake the body at a pose; return None if it is free or diverges. Errors name the pose."""
    (region,) = task.regions
    steps = max(STEPS, task.steps)
    try:
        body = ElasticBody(task.mesh, task.material)
        how = {"seed": task.seed, "steps": steps}
        return shake(body, task.rest, region, task.moves, task.loads, **how)
    except SuppleError as error:
        raise SuppleError(f'pose "{task.name}": {error}') from error


def rig_moves(rig: Rig, pose: Floats) -> Singles:
    """Return ∂Φ/∂p (n, 3, k) of a rig on tets at a pose, for all parameters or a random subset."""
    count = len(rig.parameters)
    most = max(1, min(_MOST_MOVES, _MOST_NUMBERS // (3 * rig.n_vertices)))
    entries = np.arange(count)
    if count > most:
        entries = np.sort(np.random.default_rng(0).choice(count, most, replace=False))
    derivatives = np.empty((rig.n_vertices, 3, len(entries)))
    DifferencedJacobian(rig, entries).evaluate(np.asarray(pose, np.float64), derivatives)
    with np.errstate(over="ignore"):
        single = derivatives.astype(np.float32)
    return single[:, :, np.isfinite(single).all(axis=(0, 1))]


def shaken_tasks(
    tasks: Sequence[PoseTask], rig: Rig, poses: Floats, loads: Sequence[Singles | None]
) -> list[PoseTask]:
    """Return tasks of shaking with different seeds, and twice as many steps as columns in all."""
    steps = -(-2 * sum(tasks[0].modes) // len(tasks))
    return [
        replace(task, seed=seed, steps=steps, moves=rig_moves(rig, pose), loads=load)
        for seed, (task, pose, load) in enumerate(zip(tasks, poses, loads, strict=True))
    ]


def shaken_shapes(
    mesh: TetMesh,
    rests: Sequence[Floats],
    shakings: Sequence[Shaking],
    region: Region,
    mass: Floats,
    count: int,
) -> Floats:
    """Return `count` shapes (n, 3, r), the mass-PCA of all motions, in frames of the first pose.

    `rests` (n, 3) are rest shapes of the poses, the neutral one first, and `shakings` the motions
    there. Only the region moves; `mass` (n,) has the masses of all vertices.
    """
    rotations = pose_rotations(mesh, rests, np.minimum(np.arange(len(rests)) - 1, 0))
    unrotated = [
        unrotate_basis(quaternions, shaking.displacements * shaking.factors)[region.vertices]
        for quaternions, shaking in zip(rotations, shakings, strict=True)
    ]
    snapshots, rows = np.concatenate(unrotated, axis=2), len(region.vertices)
    vectors, _ = mass_pca(snapshots.reshape(3 * rows, -1), mass[region.vertices], count)
    shapes = np.zeros((len(mesh.vertices), 3, count))
    shapes[region.vertices] = vectors.reshape(rows, 3, count)
    return shapes


class MotionTask(NamedTuple):
    """Input of `pose_motion`."""

    task: PoseTask
    basis: Floats
    """(k, 3, r) basis of the pose."""
    shaking: Shaking | None
    """Motion of the shaken body at the pose; None to compute it."""
    touching: bool
    """Whether contacts constrain the body, as they do in the bases of poses."""

    @property
    def name(self) -> str:
        """Name of the pose."""
        return self.task.name


def pose_motion(motion: MotionTask) -> MotionForces | None:
    """Return reduced forces of the shaken body at a pose; None if it is free or diverges."""
    task = motion.task
    (region,) = task.regions
    shaking = shake_pose(task) if motion.shaking is None else motion.shaking
    if shaking is None:
        return None
    allowed = allowed_displacements(task) if motion.touching else None
    with single_threaded(), at_most_threads(1):
        body = ElasticBody(task.mesh, task.material)
        return motion_forces(body, task.rest, motion.basis, region, shaking, allowed)
