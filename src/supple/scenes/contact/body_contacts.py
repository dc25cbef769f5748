"""The person on a bench, falling, and hanging by the wrists."""

from __future__ import annotations

import numpy as np

from supple.arrays import Floats
from supple.dynamics.rigid_object import RigidObject
from supple.mesh.obstacles import Capsule
from supple.rig.motion.motion import Motion
from supple.scenes.characters.character_scene import Scene, scene
from supple.scenes.characters.human import POSES, human_pose
from supple.scenes.characters.human_shape import JOINTS
from supple.scenes.contact import props
from supple.scenes.contact.contact_scene import ContactScene
from supple.scenes.modelling.keyframes import Timeline
from supple.scenes.modelling.sculpting import ramp

BENCH = 0.45
#: Weight of the person in N, and stiffness of a rope in N/m.
WEIGHT, ROPE = 690.0, 5e3


def _held(name: str, pose: Floats, seconds: float, root: Floats) -> Motion:
    """Return a motion that stays in a pose."""
    line = Timeline(seconds, rate=90)
    count = len(line.times)
    return Motion(line.times, np.tile(pose, (count, 1)), np.tile(root, (count, 1, 1)), name)


def body_bench() -> ContactScene:
    """Return a person on the back, who comes to rest on a bench from 3 cm above it."""
    shown = scene("human")
    pose = human_pose(POSES["standing"])
    lying = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, -1.0, 0.0]])  # face up
    skin = shown.character.rig(pose) @ lying.T
    low, high = skin.min(axis=0), skin.max(axis=0)
    root = props.at((0.0, BENCH + 0.03 - low[1], -(low[2] + high[2]) / 2), lying)
    return ContactScene(
        "body-bench",
        "a person comes to rest on a bench",
        shown,
        _held("lying", pose, 2.0, root),
        obstacles=(props.bench((0.0, BENCH, 0.0), 1.9, 0.5), props.floor()),
        options={"tracking": 6.0, "root": "free", "friction": 0.6},
        azimuth=60.0,
    )


def body_fall() -> ContactScene:
    """Return a person who has lost balance, and falls ahead."""
    shown = scene("human")
    return ContactScene(
        "body-fall",
        "a person falls",
        shown,
        shown.character.motions["fall"],
        start=0.5,
        obstacles=(props.floor(),),
        options={"tracking": 6.0, "root": "free", "friction": 0.6},
        azimuth=70.0,
    )


def body_hang() -> ContactScene:
    """Return a limp person who hangs by the wrists and is pushed by a cylinder (fig. 12)."""
    shown = scene("human")
    pose = human_pose(POSES["hanging"])
    root = props.at((0.0, 0.35, 0.0))
    ropes = tuple(_wrist_rope(shown, pose, root, side) for side in ("left", "right"))

    def path(seconds: float) -> Floats:
        ahead = ramp(np.array([seconds]), 0.4, 2.0)[0]
        return props.at((0.0, 1.05 + 0.35, 0.40 - 0.42 * ahead))

    push = RigidObject(
        Capsule((-0.3, 0, 0), (0.3, 0, 0), 0.05), mass=5.0, place=path(0.0), moved=True, name="bar"
    )
    return ContactScene(
        "body-hang",
        "a limp person hangs by the wrists and is pushed",
        shown,
        _held("hanging", pose, 2.5, root),
        objects=(push,),
        led={"bar": path},
        ropes=ropes,
        options={"tracking": 1.5, "root": "free", "friction": 0.8},
        azimuth=50.0,
    )


def _wrist_rope(shown: Scene, pose: Floats, root: Floats, side: str) -> props.Rope:
    """Return a rope of 25 cm that half of the weight has stretched, straight above a wrist."""
    rest = shown.character.surface.vertices
    wrist = np.array(JOINTS[f"{side}_wrist"][1])
    patch = np.flatnonzero(np.abs(rest[:, 0] - wrist[0]) < 0.025)
    place = shown.character.rig(pose, patch).mean(axis=0) + root[:3, 3]
    anchor = place + np.array([0.0, 0.25, 0.0])
    return props.Rope(patch, anchor, 0.25 - WEIGHT / 2 / ROPE, ROPE, 120.0)
