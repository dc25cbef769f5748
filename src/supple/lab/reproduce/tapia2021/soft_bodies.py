"""Our hand and person as tapia2021 has its own, and takes of them: skin, flesh and forces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from supple.app.character_models import scene_model_file
from supple.arrays import Floats
from supple.dynamics.rigid_object import RigidObject
from supple.engines.soft_skeleton.model import SoftSkeletonModel
from supple.engines.soft_skeleton.simulator import SoftSkeletonSimulator
from supple.linalg.blas import single_threaded
from supple.mesh.obstacles import Obstacle
from supple.mesh.surface import SurfaceMesh
from supple.rig.motion.motion import Motion
from supple.rig.tets.bone_meshes import BoneMeshes
from supple.scenes.characters.character_scene import Scene
from supple.scenes.contact.contact_scene import ContactScene
from supple.scenes.contact.props import thing_surface

__all__ = [
    "SIZES",
    "Led",
    "Take",
    "Tell",
    "model_of",
    "play_scene",
    "played",
    "scene_bones",
    "without_residual",
]

Tell = Callable[[float, str], None]
Led = Sequence[tuple[RigidObject, Callable[[float], Floats]]]
#: Handles and cubature of the paper's two bodies (§5.1, §5.2).
SIZES = {"hand": (87, 700), "human": (82, 500)}
#: What is built in a second, and how much of a motion is played then.
QUICK: dict[str, Any] = {"tets": 1_500, "handles": 12, "cubature": 60, "points": 60}
QUICK_SECONDS = 0.12
#: Steps a second (tapia2021 §5.3: close to 100).
RATE = 90


@cache
def _model(name: str, quick: bool, changes: tuple[tuple[str, Any], ...]) -> SoftSkeletonModel:
    handles, cubature = SIZES[name]
    given = {"handles": handles, "cubature": cubature} | dict(changes)
    if quick:
        given |= {key: min(given.get(key, value), value) for key, value in QUICK.items()}
    with scene_model_file(name, engine="soft-skeleton", **given) as path:
        return SoftSkeletonModel.load(path)


def model_of(name: str, quick: bool = False, **changes: Any) -> SoftSkeletonModel:
    """Return the soft skeleton of a scene with the paper's sizes; built once, and kept."""
    return _model(name, quick, tuple(sorted(changes.items())))


def without_residual(model: SoftSkeletonModel) -> SoftSkeletonModel:
    """Return a model whose contacts press in nothing beside its handles, as in the paper."""
    none = sp.csr_array(model.motion[0].shape)
    return replace(model, motion=(none, none, none))


def scene_bones(shown: Scene) -> BoneMeshes | None:
    """Return the bones of a scene as one mesh."""
    if not shown.skeleton:
        return None
    joints = list(shown.part_names)
    names = tuple(shown.skeleton)
    shift, vertices, triangles, owner = 0, [], [], []
    for number, mesh in enumerate(shown.skeleton.values()):
        vertices.append(mesh.vertices)
        triangles.append(mesh.triangles + shift)
        owner.append(np.full(len(mesh.vertices), number))
        shift += len(mesh.vertices)
    surface = SurfaceMesh(np.concatenate(vertices), np.concatenate(triangles))
    found = np.array([joints.index(name) for name in names])
    return BoneMeshes(surface, np.concatenate(owner), names, found)


class Frame(NamedTuple):
    """Body at a moment."""

    skin: Floats
    """(n̄, 3) in the world."""
    unposed: Floats
    """(n̄, 3) displacement of the flesh before bones move it, with what contact adds."""
    things: tuple[SurfaceMesh, ...]
    """What it touches, where that is."""


@dataclass(frozen=True, eq=False)
class Take:
    """What a simulator did.

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


def played(
    simulator: SoftSkeletonSimulator,
    motion: Motion,
    times: Sequence[float],
    *,
    seconds: float | None = None,
    start: float = 0.0,
    things: Sequence[Obstacle] = (),
    led: Led = (),
    quick: bool = False,
    tell: Callable[[float], None] | None = None,
) -> Take:
    """Play a motion with a simulator that is at its start, and keep some frames.

    Parameters
    ----------
    simulator, motion, start
        Who, what, and the second to begin at.
    times
        Seconds from there at which frames are kept.
    seconds
        How long; by default until the last of those.
    things, led
        What is drawn, and what is led along which path.
    quick
        A few steps alone; frames are then of the last.
    tell
        Told the part done, 0 to 1.
    """
    length = max(times) if seconds is None else seconds
    count = round((QUICK_SECONDS if quick else length) * RATE)
    wanted = {min(max(round(time * RATE), 1), count): time for time in times}
    frames: dict[float, Frame] = {}
    rows: list[tuple[Any, ...]] = []
    limits: dict[str, None] = {}
    with single_threaded():
        for step in range(1, count + 1):
            for each, path in led:
                each.moved_to(path(step / RATE), 1 / RATE)
            pose, root = motion.at(min(start + step / RATE, float(motion.times[-1])))
            state = simulator.step(pose, root)
            read, moved = state.readings, simulator.unposed()
            far = float(np.linalg.norm(moved, axis=1).max())
            told = read["contact_force"], read["contacts"], far, read["penetration"]
            rows.append((*told, simulator.parameters, np.array(pose)))
            limits |= dict.fromkeys(state.limits)
            if step in wanted:
                frames[wanted[step]] = _frame(simulator, things)
            if tell is not None:
                tell(step / count)
    for time in times:
        frames.setdefault(time, next(reversed(frames.values())))
    columns = [np.array(column, np.float64) for column in zip(*rows, strict=True)]
    return Take(frames, *columns, tuple(limits))


def _frame(simulator: SoftSkeletonSimulator, things: Sequence[Obstacle]) -> Frame:
    skin = simulator.surface().astype(np.float64)
    meshes = [mesh for each in things if (mesh := thing_surface(each)) is not None]
    return Frame(skin, simulator.unposed(), tuple(meshes))


def play_scene(
    shown: ContactScene,
    model: SoftSkeletonModel,
    times: Sequence[float],
    *,
    quick: bool = False,
    tell: Callable[[float], None] | None = None,
    **changes: Any,
) -> Take:
    """Play a contact scene, with some of the simulator's options changed."""
    return played(
        shown.simulator(model, 1 / RATE, **changes),
        shown.motion,
        times,
        start=shown.start,
        things=(*shown.obstacles, *shown.objects),
        led=[(shown.object(name), path) for name, path in shown.led.items()],
        quick=quick,
        tell=tell,
    )
