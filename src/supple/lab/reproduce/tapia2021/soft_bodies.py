"""Our hand and person as tapia2021 has its own, and takes of them: skin, flesh and forces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from supple.app.character_models import scene_model_file
from supple.arrays import Floats
from supple.engines.soft_skeleton.model import SoftSkeletonModel
from supple.engines.soft_skeleton.simulator import SoftSkeletonSimulator
from supple.lab.bench.soft_skeleton.soft_cases import soft_options
from supple.linalg.blas import single_threaded
from supple.mesh.surface import SurfaceMesh
from supple.rig.motion.motion import Motion
from supple.scenes.contact.contact_scene import ContactScene
from supple.scenes.contact.props import collider_surface
from supple.scenes.modelling.keyframes import Timeline

Tell = Callable[[float, str], None]
#: Handles and cubature of the paper's two bodies (§5.1, §5.2).
SIZES = {"hand": (87, 700), "human": (82, 500)}
#: Modes as the paper has them: its cubature needs no fit, which takes minutes with all of flesh.
MODAL: dict[str, Any] = {"basis": "modal", "cubature_method": "paper"}
#: What is built in a second, and how much of a motion is played then.
QUICK: dict[str, Any] = {"tets": 1_500, "handles": 12, "cubature": 60, "points": 60}
QUICK_SECONDS = 0.12


def build_options(name: str, quick: bool = False) -> dict[str, Any]:
    """Return what the soft skeleton of a scene is built with: the paper's sizes."""
    handles, cubature = SIZES[name]
    found = soft_options(name) | {"handles": handles, "cubature": cubature}
    return found | (QUICK if quick else {})


_models: dict[str, SoftSkeletonModel] = {}


def model_of(name: str, quick: bool = False, **changes: Any) -> SoftSkeletonModel:
    """Return the soft skeleton of a scene with the paper's sizes; built once, and kept."""
    key = f"{name} {quick} {sorted(changes.items())}"
    if key not in _models:
        given = build_options(name, quick) | changes
        if quick:
            given |= {each: min(given[each], most) for each, most in QUICK.items()}
        with scene_model_file(name, engine="soft-skeleton", **given) as path:
            _models[key] = SoftSkeletonModel.load(path)
    return _models[key]


class Frame(NamedTuple):
    """Body at a moment."""

    skin: Floats
    """(n̄, 3) in the world."""
    unposed: Floats
    """(n̄, 3) displacement of the flesh before bones move it, with what contact adds."""
    things: tuple[SurfaceMesh, ...]
    """Obstacles and objects that are touched, where they are."""


@dataclass(frozen=True, eq=False)
class Take:
    """Record of a simulation.

    Attributes
    ----------
    frames
        At the times that were asked for.
    forces
        (t, 3) contact force on the body, N.
    contacts, flesh, depths
        (t,) contacts, largest displacement of the flesh in m, deepest contact in m.
    parameters
        (t, s) poses that the bones had.
    wanted
        (t, s) poses that they were to have.
    limits
        What acted.
    """

    frames: dict[float, Frame]
    forces: Floats
    contacts: Floats
    flesh: Floats
    depths: Floats
    parameters: Floats
    wanted: Floats
    limits: tuple[str, ...]


def watched(
    shown: ContactScene,
    simulator: SoftSkeletonSimulator,
    times: Sequence[float],
    *,
    seconds: float | None = None,
    quick: bool = False,
    tell: Callable[[float], None] | None = None,
) -> Take:
    """Play a scene with a simulator of it that is at the start, and keep some frames.

    Parameters
    ----------
    shown, simulator
        The scene, and who plays it.
    times
        Seconds from the start at which frames are kept.
    seconds
        How long; by default until the last of those.
    quick
        A few steps alone; frames are then of the last.
    tell
        Told the part done, 0 to 1.
    """
    length = QUICK_SECONDS if quick else (max(times) if seconds is None else seconds)
    dt, last = simulator.dt, float(shown.motion.times[-1])
    count = round(length / dt)
    wanted = {min(max(round(time / dt), 1), count): time for time in times}
    frames: dict[float, Frame] = {}
    rows: list[tuple[Any, ...]] = []
    limits: dict[str, None] = {}
    with single_threaded():
        for step, state in enumerate(shown.play(simulator, length), 1):
            read, moved = state.readings, simulator.unposed()
            far = float(np.linalg.norm(moved, axis=1).max())
            felt = read["contact_force"].copy(), read["contacts"], far, read["penetration"]
            pose = shown.motion.at(min(shown.start + step * dt, last))[0]
            rows.append((*felt, simulator.parameters, np.array(pose)))
            limits |= dict.fromkeys(state.limits)
            if step in wanted:
                frames[wanted[step]] = _frame(shown, simulator)
            if tell is not None:
                tell(step / count)
    for time in times:
        frames.setdefault(time, next(reversed(frames.values())))
    forces, contacts, flesh, depths, poses, goals = (
        np.array(column, np.float64) for column in zip(*rows, strict=True)
    )
    return Take(frames, forces, contacts, flesh, depths, poses, goals, tuple(limits))


def _frame(shown: ContactScene, simulator: SoftSkeletonSimulator) -> Frame:
    things = (collider_surface(each) for each in (*shown.obstacles, *shown.objects))
    meshes = tuple(mesh for mesh in things if mesh is not None)
    return Frame(simulator.surface().astype(np.float64), simulator.unposed(), meshes)


def touch_row(name: str, take: Take) -> dict[str, Any]:
    """Return figures of a take that touched something."""
    return {
        "scene": name,
        "most_contacts": int(take.contacts.max()),
        "largest_force_N": float(np.linalg.norm(take.forces, axis=1).max()),
        "last_force_N": float(np.linalg.norm(take.forces[-1])),
        "flesh_mm": 1e3 * float(take.flesh.max()),
        "deepest_mm": 1e3 * float(take.depths.max()),
        "limits": ", ".join(take.limits) or "none",
    }


def told_part(tell: Tell, first: float, much: float, text: str) -> Callable[[float], None]:
    """Return what is told of a part of an item's work."""
    return lambda part: tell(first + much * part, text)


def still(pose: Floats, seconds: float) -> Motion:
    """Return a motion that stays in a pose."""
    line = Timeline(seconds, rate=90)
    return Motion(line.times, np.tile(pose, (len(line.times), 1)), line.roots(), "still")
