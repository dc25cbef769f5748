"""The hand with a ball, a pin and bars."""

from __future__ import annotations

import numpy as np

from supple.arrays import Floats
from supple.mesh.polyhedra import Box
from supple.rig.motion.motion import Motion
from supple.scenes.characters.character_scene import scene
from supple.scenes.characters.hand import GRASPED, POSES, hand_pose
from supple.scenes.characters.hand_shape import TIPS, finger_axes
from supple.scenes.contact import props
from supple.scenes.contact.contact_scene import ContactScene
from supple.scenes.modelling.keyframes import Timeline
from supple.scenes.modelling.sculpting import ramp

#: Mass of a tennis ball, in kg.
BALL_MASS = 0.058
#: Fingers weigh little: only quick springs press as hard as fingers do.
STRONG = 60.0


def hand_ball() -> ContactScene:
    """Return a hand that closes on a ball on a stand, and lifts it by 12 cm."""
    shown = scene("hand")
    (x, y, z), radius = GRASPED
    stand = Box((x, y - radius - 0.03, z), (0.012, 0.03, 0.012))
    return ContactScene(
        "hand-ball",
        "a hand closes on a ball, and lifts it",
        shown,
        shown.character.motions["grasp"],
        obstacles=(stand, props.floor(y - radius - 0.06)),
        objects=(props.ball((x, y, z), radius, BALL_MASS),),
        options={"tracking": STRONG, "friction": 0.8},
        azimuth=-35.0,
    )


def hand_pin() -> ContactScene:
    """Return a flat hand; a pin presses 3 mm into the pad of the index finger (fig. 16)."""
    shown = scene("hand")
    line = Timeline(1.5, rate=90)
    pose = hand_pose(POSES["flat"])
    held = Motion(line.times, np.tile(pose, (len(line.times), 1)), line.roots(), "pricked")
    way, pad, _ = finger_axes("index")
    skin = shown.character.rig(pose)
    touched = skin[
        np.argmin(np.linalg.norm(skin - (TIPS["index"] - 0.01 * way + 0.01 * pad), axis=1))
    ]

    def path(seconds: float) -> Floats:
        press = ramp(np.array([seconds]), 0.1, 0.6) - ramp(np.array([seconds]), 1.0, 1.4)
        return props.at(touched + np.array([0.0, 0.009 * press[0] - 0.006, 0.0]))

    return ContactScene(
        "hand-pin",
        "a pin presses on a fingertip",
        shown,
        held,
        objects=(props.pin(path(0.0)[:3, 3]),),
        led={"pin": path},
        options={"tracking": STRONG},
        azimuth=-60.0,
    )


def hand_bars() -> ContactScene:
    """Return a flat hand that slides over fine bars (fig. 8): they ripple the palm."""
    shown = scene("hand")
    line = Timeline(2.0, rate=90)
    pose = hand_pose({finger: (0.0, 2.0, 2.0, 0.0) for finger in ("index", "middle", "ring")})
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
    poses = np.tile(pose, (len(line.times), 1))
    radius = 0.005
    first = (0.0, low - radius, -0.006)
    return ContactScene(
        "hand-bars",
        "a hand slides over fine bars",
        shown,
        Motion(line.times, poses, line.roots(keys), "slide"),
        obstacles=props.bars(first, (-0.018, 0, 0), (0, 0, 0.06), 13, radius),
        options={"tracking": STRONG, "friction": 0.3},
        azimuth=-30.0,
    )
