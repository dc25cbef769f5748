"""Characters of hahn2013 with some of their parameters free, played by one solver or another.

All of them step as in the paper: backward Euler, 0.01 s. Takes are made once in a run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from time import process_time
from typing import Any, NamedTuple

import numpy as np

from supple.app.character_models import scene_model_file
from supple.arrays import Floats, Singles
from supple.engines.rig_space.model import RigSpaceModel
from supple.engines.rig_space.simulator import RigSpaceSimulator
from supple.linalg.blas import single_threaded
from supple.rig.motion.motion import Motion
from supple.scenes.characters.character_scene import Scene, scene

Tell = Callable[[float, str], None]
#: Seconds of a step (hahn2013 §6).
STEP = 0.01
#: What makes a model in a second, and how many steps are played then.
QUICK: dict[str, Any] = {"tets": 700, "modes": 2, "cubature": 40}
QUICK_STEPS = 6


@dataclass(frozen=True)
class Subject:
    """Part of a character that is free, in a motion.

    Attributes
    ----------
    scene, groups, motion
        Names of the scene, of its groups that are free, and of its motion.
    start, steps
        Seconds at which it begins, and how many steps follow.
    """

    scene: str
    groups: tuple[str, ...]
    motion: str
    start: float = 0.0
    steps: int = 360

    @property
    def shown(self) -> Scene:
        """The scene."""
        return scene(self.scene)

    @property
    def keys(self) -> Motion:
        """The motion."""
        return self.shown.character.motions[self.motion]

    @property
    def height(self) -> float:
        """Height of the character at rest, in m."""
        return float(np.ptp(self.shown.character.surface.vertices[:, 1]))

    def time(self, step: int) -> float:
        """Return the seconds of the motion at the end of a step, counted from 0."""
        return self.start + (step + 2) * STEP

    def free(self) -> list[str]:
        """Return patterns of what is free."""
        return [name for group in self.groups for name in self.shown.free[group]]


_SUMO = ("belly", "chest", "cheeks", "hair")
#: The three of Table 1, and trunks that are moved less and more. The wrestler slams his foot down.
SUBJECTS = {
    "trunk": Subject("elephant", ("trunk",), "walk"),
    "belly": Subject("elephant", ("belly",), "walk"),
    "sumo": Subject("sumo", _SUMO, "shiko", 1.5, 120),
    "gentle trunk": Subject("elephant", ("trunk",), "nod", 0.0, 300),
    "violent trunk": Subject("elephant", ("trunk",), "toss", 0.0, 300),
}


@cache
def model_of(subject: Subject, quick: bool = False) -> RigSpaceModel:
    """Return the model of a subject, built with its scene's recipe, and kept."""
    changes = QUICK if quick else {}
    free = subject.free()
    with scene_model_file(subject.scene, engine="rig-space", free=free, **changes) as path:
        return RigSpaceModel.load(path)


class Errors(NamedTuple):
    """Distances of a skin from another at each step, (t,), in % of the height."""

    mean: Floats
    most: Floats


@dataclass(frozen=True, eq=False)
class Take:
    """Motion that a solver made.

    Attributes
    ----------
    skins
        (t, n, 3) after each step.
    free
        (t, k) what was added to the free parameters.
    milliseconds
        (t,) of one core, each step.
    counts
        Numbers of each step by name, (t,): iterations, jacobians, rollbacks.
    limits
        What acted.
    """

    skins: Singles
    free: Floats
    milliseconds: Floats
    counts: dict[str, Floats]
    limits: tuple[str, ...]

    @property
    def step_ms(self) -> float:
        """Milliseconds of a step, the mean without the first, which compiles."""
        return float(self.milliseconds[1:].mean())

    def errors(self, truth: Take, height: float) -> Errors:
        """Return how far the skin is from that of another take, which may be longer."""
        beside = truth.skins[: len(self.skins)]
        away = 100 / height * np.linalg.norm(self.skins - beside, axis=2)
        return Errors(away.mean(axis=1), away.max(axis=1))


_takes: dict[tuple[Subject, str, bool, int | None], Take] = {}


def played(
    subject: Subject,
    solver: str,
    tell: Callable[[float], None],
    *,
    quick: bool = False,
    steps: int | None = None,
) -> Take:
    """Play a subject's motion with a solver; it starts on its key, and as fast.

    Parameters
    ----------
    subject, solver
        See `SUBJECTS` and `supple.engines.rig_space.solvers.solver_list`.
    tell
        Told the part done, 0 to 1.
    quick
        A small model, and a few steps.
    steps
        How many; by default the subject's own.
    """
    key = subject, solver, quick, steps
    if key not in _takes:
        _takes[key] = _play(subject, solver, tell, quick, steps)
    return _takes[key]


def _play(
    subject: Subject, solver: str, tell: Callable[[float], None], quick: bool, steps: int | None
) -> Take:
    model, keys = model_of(subject, quick), subject.keys
    simulator = RigSpaceSimulator(
        model, STEP, solver=solver, substep=STEP, integrator="backward-euler"
    )
    before = keys.at(subject.start)  # as fast as the motion is, or a walk would begin with a jerk
    simulator.reset(*keys.at(subject.start + STEP), before=before)
    count = min(steps or subject.steps, QUICK_STEPS) if quick else (steps or subject.steps)
    skins = np.empty((count, len(model.surface.vertices), 3), np.float32)
    free, spent = np.empty((count, len(model.entries))), np.empty(count)
    counts: dict[str, Floats] = {}
    limits: dict[str, None] = {}
    with single_threaded():
        for i in range(count):
            pose, root = keys.at(min(subject.time(i), keys.times[-1]))
            began = process_time()
            state = simulator.step(pose, root)
            simulator.surface(skins[i])
            spent[i] = 1e3 * (process_time() - began)
            free[i] = simulator.coordinates[: len(model.entries)]
            limits |= dict.fromkeys(state.limits)
            for name, value in state.readings.items():
                counts.setdefault(name, np.zeros(count))[i] = value
            tell((i + 1) / count)
    return Take(skins, free, spent, counts, tuple(limits))
