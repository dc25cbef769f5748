"""Characters of hahn2013 with free parameters, and motions of them by several solvers.

Steps are as in the paper: backward Euler, 0.01 s. A run caches its takes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from time import process_time
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from supple.app.pictures.drawing import INK, view_axes
from supple.app.pictures.render import Body, Camera, cavities, render
from supple.arrays import Floats, Singles
from supple.engines.rig_space.model import RigSpaceModel
from supple.engines.rig_space.simulator import RigSpaceSimulator
from supple.linalg.blas import single_threaded
from supple.mesh.surface import SurfaceMesh, vertex_normals
from supple.playback.character_models import scene_model_file
from supple.rig.character import Character
from supple.rig.motion.motion import Motion
from supple.scenes.characters.character_scene import Scene, scene

#: Time step in s (hahn2013 §6).
STEP = 0.01
#: Options of a model that is built in a second, and its number of steps.
QUICK: dict[str, Any] = {"tets": 700, "modes": 2, "cubature": 40}
QUICK_STEPS = 6


@dataclass(frozen=True)
class Subject:
    """Character with free parameters (groups of a scene) in a motion."""

    scene: str
    groups: tuple[str, ...]
    motion: str
    #: Start time in s, and number of steps.
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
        """Return the time in the motion at the end of a step, counted from 0."""
        return self.start + (step + 2) * STEP

    def free(self) -> list[str]:
        """Return patterns of the free parameters."""
        return [name for group in self.groups for name in self.shown.free[group]]


_SUMO = ("belly", "chest", "cheeks", "hair")
#: The three subjects of Table 1, and trunks with gentler and more violent motions.
SUBJECTS = {
    "trunk": Subject("elephant", ("trunk",), "walk"),
    "belly": Subject("elephant", ("belly",), "walk"),
    "sumo": Subject("sumo", _SUMO, "shiko", 1.5, 120),
    "gentle trunk": Subject("elephant", ("trunk",), "nod", 0.0, 300),
    "violent trunk": Subject("elephant", ("trunk",), "toss", 0.0, 300),
}


@cache
def model_of(subject: Subject, quick: bool = False) -> RigSpaceModel:
    """Return the model of a subject, built with its scene's recipe; cached."""
    changes = QUICK if quick else {}
    free = subject.free()
    with scene_model_file(subject.scene, engine="rig-space", free=free, **changes) as path:
        return RigSpaceModel.load(path)


class Errors(NamedTuple):
    """Distances of a skin from another at each step, (t,), in % of the height."""

    mean: Floats
    largest: Floats


@dataclass(frozen=True, eq=False)
class Take:
    """Motion computed by a solver."""

    skins: Singles  # (t, n, 3) skin after each step
    free: Floats  # (t, k) values added to the free parameters
    milliseconds: Floats  # (t,) duration of each step on one core
    counts: dict[str, Floats]  # (t,) numbers of iterations, jacobians and rollbacks, by name
    limits: tuple[str, ...]
    rig_calls: float = 0.0  # evaluations of the rig on tets per step

    @property
    def step_ms(self) -> float:
        """Mean milliseconds of a step; the first step, which compiles functions, is left out."""
        return float(self.milliseconds[1:].mean())

    def costly_ms(self, call_ms: float) -> float:
        """Return the milliseconds of a step with a rig that takes `call_ms` more per call."""
        return self.step_ms + call_ms * self.rig_calls

    def errors(self, truth: Take, height: float) -> Errors:
        """Return the distances of the skin from the skin of another take, which may be longer."""
        beside = truth.skins[: len(self.skins)]
        distances = 100 / height * np.linalg.norm(self.skins - beside, axis=2)
        return Errors(distances.mean(axis=1), distances.max(axis=1))


_takes: dict[tuple[Subject, str, bool, int | None, float | None], Take] = {}


def played(
    subject: Subject,
    solver: str,
    progress: Callable[[float], None],
    *,
    quick: bool = False,
    steps: int | None = None,
    deferral: float | None = None,
) -> Take:
    """Play a subject's motion with a solver, from its key pose and velocity.

    `progress` is called with the fraction done, 0 to 1; `quick` uses a small model and few steps.
    """
    key = subject, solver, quick, steps, deferral
    if key not in _takes:
        _takes[key] = _play(subject, solver, progress, quick, steps, deferral)
    return _takes[key]


class _Counted:
    """Placement that counts its evaluations in `counts`."""

    def __init__(self, placement: Any, counts: list[int]) -> None:
        self._placement, self._counts = placement, counts
        self.n_points = placement.n_points

    def place(self, pose: Floats, out: Floats) -> None:
        """Write the positions at a pose."""
        self._counts[0] += 1
        self._placement.place(pose, out)


def _count_calls(simulator: RigSpaceSimulator) -> list[int]:
    """Count the evaluations of the rig on tets by a solver; return the running number."""
    counts, rig = [0], simulator._solver._rig
    rig._placement = _Counted(rig._placement, counts)
    if rig.differenced:
        rig._jacobian._placement = _Counted(rig._jacobian._placement, counts)
    return counts


def _play(
    subject: Subject,
    solver: str,
    progress: Callable[[float], None],
    quick: bool,
    steps: int | None,
    deferral: float | None,
) -> Take:
    model, keys = model_of(subject, quick), subject.keys
    simulator = RigSpaceSimulator(
        model, STEP, solver=solver, substep=STEP, integrator="backward-euler", deferral=deferral
    )
    calls = _count_calls(simulator)
    before = keys.at(subject.start)  # gives the initial velocity
    simulator.reset(*keys.at(subject.start + STEP), before=before)
    count = min(steps or subject.steps, QUICK_STEPS) if quick else (steps or subject.steps)
    skins = np.empty((count, len(model.surface.vertices), 3), np.float32)
    free, spent = np.empty((count, len(model.entries))), np.empty(count)
    counts: dict[str, Floats] = {}
    limits: dict[str, None] = {}
    calls[0] = 0
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
            progress((i + 1) / count)
    return Take(skins, free, spent, counts, tuple(limits), calls[0] / count)


#: Background, and width and height of a picture in pixels.
_PAPER, _PIXELS = np.array([0.984, 0.98, 0.969]), 320


def draw_character(
    axes: Axes,
    character: Character,
    points: ArrayLike,
    caption: str,
    *,
    azimuth: float = 25.0,
    window: tuple[Floats, float] | None = None,
) -> None:
    """Render a character with vertices at `points` into axes.

    `window` is the centre and the width in m of the visible part, by default the whole character.
    """
    placed = np.ascontiguousarray(points, np.float64)
    triangles, view = character.surface.triangles, view_axes(azimuth, 9.0)
    flat = placed @ view[:2].T
    low, high = flat.min(axis=0), flat.max(axis=0)
    centre, across = view[:2].T @ ((low + high) / 2), float((high - low).max()) / 0.9
    if window is not None:
        centre, across = window
    camera = Camera(view, np.asarray(centre, np.float64), _PIXELS / across, (_PIXELS, _PIXELS))
    body = Body(
        placed,
        triangles,
        vertex_normals(placed, triangles),
        np.full((len(placed), 3), 0.7),
        cavities(SurfaceMesh(placed, triangles)),
        character.appearance,
    )
    picture, _ = render(body, camera, float(placed[:, 1].min()), _PAPER)
    axes.imshow(picture)
    axes.set_axis_off()
    axes.set_title(caption, color=INK, fontsize=9, pad=2)
