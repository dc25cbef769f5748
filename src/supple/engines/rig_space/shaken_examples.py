"""Example shapes of the flesh by shaking: impulses at poses, and swings (hahn2013 §4.2)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints
from supple.checks import checked_count
from supple.engines.rig_space.model import RigSpaceModel
from supple.engines.rig_space.simulator import RigSpaceSimulator
from supple.engines.rig_space.solvers.paper_solvers import LinearRigSolver
from supple.errors import SuppleError
from supple.rig.poses.example_poses import farthest_poses

#: Number of poses, of steps of an impulse, and of steps between two examples.
POSES, PUSHED, EVERY = 8, 4, 3
#: Time step in s, and velocity by an impulse in sizes of the body per second.
STEP, SPEED = 0.01, 1.0


def shaken_examples(
    model: RigSpaceModel, count: int, poses: Sequence[ArrayLike] | None = None, *, seed: int = 0
) -> Floats:
    """Return example shapes (count + 1, n, 3) of the tets: the rest shape, and `count` of swings.

    At each pose, an impulse in a random direction pushes the skin that free parameters move, and
    the free parameters swing with the interior in equilibrium. `poses` (each (s,)) are the
    artist's; by default the rest pose, and those of the motions that differ most.
    """
    checked_count("count", count, 1)
    rest = np.asarray(model.rig.rest_pose, np.float64)
    if poses is None:
        keys = [motion.poses for motion in model.motions.values()]
        frames = np.concatenate([rest[None], *keys])
        chosen = frames[farthest_poses(model.rig, frames, min(POSES, len(frames)))]
    else:
        chosen = np.array([np.asarray(pose, np.float64) for pose in poses])
        if chosen.ndim != 2 or chosen.shape[1:] != rest.shape:
            raise SuppleError(f"poses need {len(rest)} values each, one per parameter of the rig")
    simulator = RigSpaceSimulator(
        model,
        STEP,
        solver="iv1-je1",
        substep=STEP,
        integrator="backward-euler",
        gravity_mode="none",
    )
    solver, rng = simulator._solver, np.random.default_rng(seed)
    assert isinstance(solver, LinearRigSolver)
    moved = _moved_skin(model)
    mass = float(model.body.vertex_masses()[model.active].sum())
    shapes = [model.mesh.vertices.copy()]
    for number in range(len(chosen)):
        wanted = (count * (number + 1)) // len(chosen) - (count * number) // len(chosen)
        simulator.reset(chosen[number])
        direction = rng.standard_normal(3)
        direction /= np.linalg.norm(direction)
        force = mass * SPEED * model.mesh.size / (PUSHED * STEP * len(moved)) * direction
        push = {int(vertex): force for vertex in moved}
        for step in range(PUSHED + EVERY * wanted):
            simulator.step(forces=push if step < PUSHED else None)
            if step >= PUSHED and (step - PUSHED) % EVERY == 0:
                shapes.append(solver.x.copy())
    return np.array(shapes)


def _moved_skin(model: RigSpaceModel) -> Ints:
    """Return the vertices of the skin that the free parameters move by more than half the most."""
    rest = np.array(model.rig.rest_pose, np.float64)
    skin, far = model.rig(rest), np.zeros(len(model.surface.vertices))
    for entry in model.entries:
        pose = rest.copy()
        pose[entry] += 1e-3
        distances = np.linalg.norm(model.rig(pose) - skin, axis=1)
        np.maximum(far, distances / max(float(distances.max()), 1e-300), out=far)
    return np.flatnonzero(far > 0.5)
