"""Soft skeletons to time: the scenes hand and person, or files, with contact and without."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from supple.arrays import Floats
from supple.dynamics.rigid_object import RigidObject
from supple.engines.soft_skeleton.model import SoftSkeletonModel
from supple.engines.soft_skeleton.simulator import SoftSkeletonSimulator
from supple.errors import SuppleError
from supple.lab.bench.timing import RATE, motion_of
from supple.mesh.obstacles import Sphere
from supple.mesh.surface import SurfaceMesh, vertex_normals
from supple.playback.character_sources import read_character
from supple.rig.character import Character
from supple.rig.motion.motion import Motion
from supple.rig.skeleton.skinning import skinned_core
from supple.rig.tets.bone_meshes import BoneMeshes
from supple.scenes.characters.character_scene import Scene, scene
from supple.scenes.contact.contact_scene import contact_scene
from supple.scenes.contact.props import at
from supple.scenes.modelling.scene_data import unknown_name


class SoftCase(NamedTuple):
    """Scene of a case, and its numbers of handles and of cubature tets."""

    scene: str
    handles: int
    cubature: int


class PaperStep(NamedTuple):
    """Times in ms of a reduced and a full step in tapia2021, Table 1, and number of coordinates."""

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
#: Contact scene, and motion without contact, of each scene.
_TOUCHING = {"hand": "hand-ball", "human": "body-bench"}
_MOVING = {"hand": "wave", "human": "walk"}
#: A body with at most this many joints is a hand.
_HAND_BONES = 21
#: Depth of a pressed ball relative to its radius, and presses per second.
DEPTH, OFTEN = 0.25, 1.0
#: Duration in s of a run with a pressed ball.
SECONDS = 2.0


class Run(NamedTuple):
    """Simulator at the start of a motion, with kinematic objects and their paths."""

    simulator: SoftSkeletonSimulator
    motion: Motion
    start: float
    steps: int
    led: Sequence[tuple[RigidObject, Callable[[float], Floats]]] = ()

    def step(self, number: int) -> Any:
        """Move the kinematic objects and take step `number`, counted from 1; return its state."""
        dt = self.simulator.dt
        for each, path in self.led:
            each.moved_to(path(number * dt), dt)
        last = float(self.motion.times[-1])
        return self.simulator.step(*self.motion.at(min(self.start + number * dt, last)))


def checked_cases(names: Sequence[str]) -> list[str]:
    """Return names of cases or files without duplicates; by default `CASES`."""
    for name in names:
        if name in CASES or Path(name).is_file():
            continue
        raise SuppleError(unknown_name("case or file", name, tuple(CASES)))
    return list(dict.fromkeys(names)) or list(CASES)


def prepared_case(name: str) -> tuple[Character, dict[str, Any]]:
    """Return the character of a case or file, and the options of its build."""
    if name in CASES:
        case = CASES[name]
        sizes = {"handles": case.handles, "cubature": case.cubature}
        return scene(case.scene).character, soft_options(case.scene) | sizes
    character = read_character(name).character
    core = skinned_core(character.rig)
    small = core is not None and core.rig.skeleton.n_joints <= _HAND_BONES
    case = CASES["hand" if small else "body"]
    return character, {"handles": case.handles, "cubature": case.cubature}


def soft_options(name: str) -> dict[str, Any]:
    """Return the options of a scene's build; a hand has bone meshes, as in the paper."""
    shown = scene(name)
    bones = scene_bones(shown) if name == "hand" else None
    return shown.recipe("soft-skeleton") | ({} if bones is None else {"skeleton": bones})


def scene_bones(shown: Scene) -> BoneMeshes | None:
    """Return the bones of a scene as one mesh; None for a scene without bones."""
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
    indices = np.array([joints.index(name) for name in names])
    return BoneMeshes(surface, np.concatenate(owner), names, indices)


def touching(model: SoftSkeletonModel, name: str) -> Run:
    """Return a run with contact: a hand grasps a ball, or a body lies down.

    For a model that is not in `CASES`, a ball is pressed into the body.
    """
    if name not in CASES:
        return pressed(model)
    shown = contact_scene(_TOUCHING[CASES[name].scene])
    simulator = shown.simulator(model, 1 / RATE)
    led = [(shown.object(each), path) for each, path in shown.led.items()]
    return Run(simulator, shown.motion, shown.start, round(shown.seconds * RATE), led)


def untouched(model: SoftSkeletonModel, name: str) -> Run:
    """Return a run of a motion without contact and self-contact."""
    name_of_motion = _MOVING[CASES[name].scene] if name in CASES else None
    motion = motion_of(model, name_of_motion)
    simulator = SoftSkeletonSimulator(model, 1 / RATE, self_contact=False)
    simulator.reset(*motion.at(float(motion.times[0])))
    return Run(simulator, motion, float(motion.times[0]), max(round(motion.duration * RATE), 90))


def pressed(model: SoftSkeletonModel, radius: float = 0.06, **options: Any) -> Run:
    """Return a run in which a ball is pressed into the middle of a resting body.

    `radius` is relative to the body's size; `options` are the simulator's.
    """
    skin, size = model.surface.vertices, model.surface.size
    middle = int(np.linalg.norm(skin - skin.mean(axis=0), axis=1).argmin())
    normal = vertex_normals(skin, model.surface.triangles)[middle]
    ball_radius = radius * size

    def path(seconds: float) -> Floats:
        deep = DEPTH * np.sin(np.pi * OFTEN * seconds) ** 2
        return at(skin[middle] + ball_radius * (1.02 - deep) * normal)

    ball = RigidObject(
        Sphere((0, 0, 0), ball_radius), mass=1.0, place=path(0.0), kinematic=True, name="ball"
    )
    settings: Mapping[str, Any] = {"tracking": 30.0, "objects": (ball,)} | options
    simulator = SoftSkeletonSimulator(model, 1 / RATE, **settings)
    rest = np.asarray(model.rig.rest_pose, np.float64)
    still = Motion(np.array([0.0, SECONDS]), np.tile(rest, (2, 1)), name="still")
    return Run(simulator, still, 0.0, round(SECONDS * RATE), [(ball, path)])
