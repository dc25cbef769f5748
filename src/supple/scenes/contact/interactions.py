"""The hand with a ball, a pin and bars; the person on a bench, falling, and hanging."""

from __future__ import annotations

import numpy as np

from supple.arrays import Floats
from supple.dynamics.rigid_object import RigidObject
from supple.mesh.obstacles import Box, Capsule
from supple.rig.motion.motion import Motion
from supple.scenes.characters import hand, human
from supple.scenes.characters.character_scene import Scene, scene
from supple.scenes.contact import props
from supple.scenes.contact.contact_scene import ContactScene
from supple.scenes.modelling.keyframes import Timeline
from supple.scenes.modelling.sculpting import ramp

#: Mass of a tennis ball, in kg.
BALL_MASS = 0.058
#: Height of the bench in m.
BENCH = 0.45
#: Weight of the person in N, and stiffness of a rope in N/m.
WEIGHT, ROPE = 690.0, 5e3


def hand_ball() -> ContactScene:
    """Return the scene of a hand that closes on a ball on a stand and lifts it by 12 cm."""
    shown = scene("hand")
    (x, y, z), radius = hand.GRASPED
    stand = Box((x, y - radius - 0.03, z), (0.012, 0.03, 0.012))
    return ContactScene(
        "hand-ball",
        "a hand closes on a ball, and lifts it",
        shown,
        shown.character.motions["grasp"],
        obstacles=(stand, props.floor(y - radius - 0.06)),
        objects=(props.ball((x, y, z), radius, BALL_MASS),),
        options={"friction": 0.8},
        azimuth=-35.0,
    )


def hand_pin() -> ContactScene:
    """Return the scene of a pin that presses 3 mm into the index finger's pad (fig. 16)."""
    shown = scene("hand")
    line = Timeline(1.5, rate=90)
    pose = hand.hand_pose(hand.POSES["flat"])
    along, pad, _ = hand.finger_axes("index")
    skin = shown.character.rig(pose)
    touched = skin[
        np.argmin(np.linalg.norm(skin - (hand.TIPS["index"] - 0.01 * along + 0.01 * pad), axis=1))
    ]

    def path(seconds: float) -> Floats:
        press = ramp(np.array([seconds]), 0.1, 0.6) - ramp(np.array([seconds]), 1.0, 1.4)
        return props.at(touched + np.array([0.0, 0.009 * press[0] - 0.006, 0.0]))

    return ContactScene(
        "hand-pin",
        "a pin presses on a fingertip",
        shown,
        line.held(pose, "pricked"),
        objects=(props.pin(path(0.0)[:3, 3]),),
        led={"pin": path},
        azimuth=-60.0,
    )


def hand_bars() -> ContactScene:
    """Return the scene of a flat hand that slides over thin bars (fig. 8)."""
    shown = scene("hand")
    line = Timeline(2.0, rate=90)
    pose = hand.hand_pose({finger: (0.0, 2.0, 2.0, 0.0) for finger in ("index", "middle", "ring")})
    skin = shown.character.rig(pose)
    low = float(skin[np.abs(skin[:, 2]) < 0.03, 1].min())
    keys = [
        (0.0, (0.0, 0.010, 0.0)),
        (0.4, (0.0, -0.0015, 0.0)),
        (0.6, (0.0, -0.0015, 0.0)),
        (1.1, (-0.03, -0.0015, 0.0)),
        (1.6, (0.02, -0.0015, 0.0)),
        (1.9, (0.02, 0.010, 0.0)),
    ]
    radius = 0.005
    first = (0.0, low - radius, -0.006)
    return ContactScene(
        "hand-bars",
        "a hand slides over thin bars",
        shown,
        line.held(pose, "slide", line.roots(keys)),
        obstacles=props.bars(first, (-0.018, 0, 0), (0, 0, 0.06), 13, radius),
        options={"friction": 0.3},
        azimuth=-30.0,
    )


def _held(name: str, pose: Floats, seconds: float, root: Floats) -> Motion:
    """Return a motion of this name that holds a pose and a root transform (4, 4)."""
    line = Timeline(seconds, rate=90)
    return line.held(pose, name, np.tile(root, (len(line.times), 1, 1)))


def body_bench() -> ContactScene:
    """Return the scene of a person who falls on the back, from 3 cm above a bench."""
    shown = scene("human")
    pose = human.human_pose(human.POSES["standing"])
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
    """Return the scene of a person who loses balance and falls forward."""
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
    """Return the scene of a limp person, hung by the wrists and pushed by a bar (fig. 12)."""
    shown = scene("human")
    pose = human.human_pose(human.POSES["hanging"])
    root = props.at((0.0, 0.35, 0.0))
    ropes = tuple(_wrist_rope(shown, pose, root, side) for side in ("left", "right"))

    def path(seconds: float) -> Floats:
        ahead = ramp(np.array([seconds]), 0.4, 2.0)[0]
        return props.at((0.0, 1.05 + 0.35, 0.40 - 0.42 * ahead))

    push = RigidObject(
        Capsule((-0.3, 0, 0), (0.3, 0, 0), 0.05),
        mass=5.0,
        place=path(0.0),
        kinematic=True,
        name="bar",
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
    """Return a rope above a wrist, 25 cm long when it carries half of the person's weight."""
    rest = shown.character.surface.vertices
    wrist = np.array(human.JOINTS[f"{side}_wrist"][1])
    patch = np.flatnonzero(np.abs(rest[:, 0] - wrist[0]) < 0.025)
    place = shown.character.rig(pose, patch).mean(axis=0) + root[:3, 3]
    anchor = place + np.array([0.0, 0.25, 0.0])
    return props.Rope(patch, anchor, 0.25 - WEIGHT / 2 / ROPE, ROPE, 120.0)
