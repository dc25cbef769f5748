"""Soft skeletons to time: our own hand and person, or files, with contact and without."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from supple.app.character_models import read_character
from supple.arrays import Floats
from supple.dynamics.rigid_object import RigidObject
from supple.engines.soft_skeleton.model import SoftSkeletonModel
from supple.engines.soft_skeleton.simulator import SoftSkeletonSimulator
from supple.errors import SuppleError
from supple.lab.bench.timing import RATE, motion_of
from supple.mesh.obstacles import Sphere
from supple.mesh.surface import SurfaceMesh, vertex_normals
from supple.rig.character import Character
from supple.rig.motion.motion import Motion
from supple.rig.skeleton.skinning import skinned_core
from supple.rig.tets.bone_meshes import BoneMeshes
from supple.scenes.characters.character_scene import Scene, scene
from supple.scenes.contact.contact_scene import contact_scene
from supple.scenes.contact.props import at


class SoftCase(NamedTuple):
    """Build of a case: a scene, and numbers of handles and of tets of the cubature."""

    scene: str
    handles: int
    cubature: int


class PaperStep(NamedTuple):
    """Milliseconds of a step in tapia2021, Table 1: ours and all tets, and its coordinates."""

    reduced: float
    full: float
    coordinates: int


#: The two bodies of the paper, and one with twice the handles.
CASES = {
    "hand": SoftCase("hand", 87, 700),
    "body": SoftCase("human", 82, 500),
    "many": SoftCase("human", 176, 1_000),
}
PAPER = {"hand": PaperStep(11.78, 10_932, 357), "body": PaperStep(9.17, 7_233, 672)}
#: What each scene does where it touches something, and where it does not.
_TOUCHING = {"hand": "hand-ball", "human": "body-bench"}
_MOVING = {"hand": "wave", "human": "walk"}
#: A body with no more joints is taken for a hand.
_HAND_BONES = 21
#: Depth that a ball is pressed in, in parts of its radius, and how often a second.
DEPTH, OFTEN = 0.25, 1.0
#: Seconds of a run that has no length of its own.
SECONDS = 2.0


class Run(NamedTuple):
    """Simulator at its start, and what it is led along."""

    simulator: SoftSkeletonSimulator
    motion: Motion
    start: float
    steps: int
    led: Sequence[tuple[RigidObject, Callable[[float], Floats]]] = ()

    def step(self, number: int) -> Any:
        """Take a step, counted from 1, with what is led."""
        dt = self.simulator.dt
        for each, path in self.led:
            each.moved_to(path(number * dt), dt)
        last = float(self.motion.times[-1])
        return self.simulator.step(*self.motion.at(min(self.start + number * dt, last)))


def checked_cases(names: Sequence[str]) -> list[str]:
    """Return the names, each once; those of `CASES` for none. Others are files."""
    for name in names:
        if name in CASES or Path(name).is_file():
            continue
        near = difflib.get_close_matches(name, CASES, 1)
        hint = f'did you mean "{near[0]}"?' if near else f"there are {', '.join(CASES)}, and files"
        raise SuppleError(f'no case "{name}"; {hint}')
    return list(dict.fromkeys(names)) or list(CASES)


def prepared_case(name: str) -> tuple[Character, dict[str, Any]]:
    """Return the character of a case or file, and what it is built with."""
    if name in CASES:
        case = CASES[name]
        sizes = {"handles": case.handles, "cubature": case.cubature}
        return scene(case.scene).character, soft_options(case.scene) | sizes
    character = read_character(name).character
    core = skinned_core(character.rig)
    small = core is not None and core.rig.skeleton.n_joints <= _HAND_BONES
    own = CASES["hand" if small else "body"]
    return character, {"handles": own.handles, "cubature": own.cubature}


def soft_options(name: str) -> dict[str, Any]:
    """Return what a scene is built with; as in the paper, a hand's flesh is around its bones."""
    shown = scene(name)
    bones = scene_bones(shown) if name == "hand" else None
    return shown.recipe("soft-skeleton") | ({} if bones is None else {"skeleton": bones})


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


def touching(model: SoftSkeletonModel, name: str) -> Run:
    """Return a run in which a case grasps a ball or lies down; files are pressed by a ball."""
    if name not in CASES:
        return pressed(model)
    shown = contact_scene(_TOUCHING[CASES[name].scene])
    simulator = shown.simulator(model, 1 / RATE)
    led = [(shown.object(own), path) for own, path in shown.led.items()]
    return Run(simulator, shown.motion, shown.start, round(shown.seconds * RATE), led)


def untouched(model: SoftSkeletonModel, name: str) -> Run:
    """Return a run in which it moves and touches nothing, not even itself."""
    wanted = _MOVING[CASES[name].scene] if name in CASES else None
    motion = motion_of(model, wanted)
    simulator = SoftSkeletonSimulator(model, 1 / RATE, self_contact=False)
    simulator.reset(*motion.at(float(motion.times[0])))
    return Run(simulator, motion, float(motion.times[0]), max(round(motion.duration * RATE), 90))


def pressed(model: SoftSkeletonModel, radius: float = 0.06, **options: Any) -> Run:
    """Return a run in which a ball is pressed into the middle of a body that holds still.

    Parameters
    ----------
    model
        The body.
    radius
        Of the ball, in parts of the body's size.
    **options
        Of the simulator.
    """
    skin, size = model.surface.vertices, model.surface.size
    middle = int(np.linalg.norm(skin - skin.mean(axis=0), axis=1).argmin())
    way = vertex_normals(skin, model.surface.triangles)[middle]
    far = radius * size

    def path(seconds: float) -> Floats:
        deep = DEPTH * np.sin(np.pi * OFTEN * seconds) ** 2
        return at(skin[middle] + far * (1.02 - deep) * way)

    ball = RigidObject(
        Sphere((0, 0, 0), far), mass=1.0, place=path(0.0), kinematic=True, name="ball"
    )
    told: Mapping[str, Any] = {"tracking": 30.0, "objects": (ball,)} | options
    simulator = SoftSkeletonSimulator(model, 1 / RATE, **told)
    rest = np.asarray(model.rig.rest_pose, np.float64)
    still = Motion(np.array([0.0, SECONDS]), np.tile(rest, (2, 1)), name="still")
    return Run(simulator, still, 0.0, round(SECONDS * RATE), [(ball, path)])
