"""The gorilla's poses and its dance: leap, chest beat, turn, roar."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from supple.rig import JointPose, Skeleton
from supple.rig.motion import Motion
from supple.scenes.gorilla_shape import JOINTS
from supple.scenes.keyframes import Timeline
from supple.scenes.sculpting import ramp
from supple.scenes.skin import rest_skeleton_arrays

__all__ = ["POSES", "flat_pose", "gorilla_motion", "joint_pose"]

Floats = NDArray[np.float64]
Turns = dict[str, tuple[float, float, float]]

#: With three rotations for each joint and these four that move as well: 60 numbers. (The paper
#: moved and turned ten of its joints, which is as many.)
TRANSLATING = ("pelvis", "chest", "shoulder.L", "shoulder.R")

#: Degrees about x, y and z for each joint, of the left side for both; metres for "+name".
POSES: dict[str, Turns] = {
    "on knuckles": {},
    "chest beat": {
        "pelvis": (-42, 0, 0),
        "+pelvis": (0, -0.048, -0.01),
        "spine": (-8, 0, 0),
        "head": (22, 0, 0),
        "hip": (37, 5, -2.6),
        "knee": (10.6, -3.6, 3.9),
        "ankle": (-5.6, 0, 1),
        "shoulder": (8, -21.6, 31.5),
        "elbow": (-118, -30, -3.3),
        "wrist": (-20, 0, 0),
    },
    "crouch": {
        "pelvis": (-14, 0, 0),
        "+pelvis": (0, -0.186, 0.041),
        "spine": (16, 0, 0),
        "chest": (10, 0, 0),
        "head": (-14, 0, 0),
        "hip": (-26.6, 4.5, 3.6),
        "knee": (39.2, -1.6, -1.6),
        "ankle": (1.4, -3.5, 0),
        "shoulder": (-28.5, 14, 26),
        "elbow": (14.4, -9, -47),
        "wrist": (4, 1.4, 19),
    },
    "roar": {
        "pelvis": (-48, 0, 0),
        "+pelvis": (0, -0.046, 0.01),
        "spine": (-10, 0, 0),
        "head": (8, 0, 0),
        "hip": (43.7, 7, -1),
        "knee": (8.8, -5, 4),
        "ankle": (-4.6, -1, 0),
        "shoulder": (-50, 0, 75),
        "elbow": (-45, 0, 20),
    },
}

#: In the air: stretched, arms reaching forward.
LEAP: Turns = {
    "pelvis": (-18, 0, 0),
    "head": (-12, 0, 0),
    "hip": (40, 0, 0),
    "knee": (-25, 0, 0),
    "ankle": (30, 0, 0),
    "shoulder": (-62, 0, 12),
    "elbow": (-20, 0, 0),
    "wrist": (-15, 0, 0),
}


def joint_pose() -> JointPose:
    """What the sixty numbers of a pose mean."""
    names, parents, local, _ = rest_skeleton_arrays(JOINTS)
    return JointPose(Skeleton(names, parents, local), translating=TRANSLATING)


def flat_pose(turns: Turns) -> Floats:
    """The pose vector of turns in degrees; a limb's name without a side stands for both."""
    places = {entry.name: place for place, entry in enumerate(joint_pose().parameters)}
    pose = np.zeros(len(places))
    for name, values in turns.items():
        kind, joint = ("t", name[1:]) if name.startswith("+") else ("r", name)
        scale = 1.0 if kind == "t" else np.pi / 180
        sides = [joint] if joint in JOINTS else [f"{joint}.L", f"{joint}.R"]
        for side in sides:
            # A mirrored rotation keeps its turn about x; a mirrored place loses its sign there.
            flip = np.ones(3)
            if joint not in JOINTS and side.endswith(".R"):
                flip = np.array([1, -1, -1]) if kind == "r" else np.array([-1, 1, 1])
            for axis, value in zip("xyz", scale * flip * values, strict=True):
                pose[places[f"{side}.{kind}{axis}"]] = value
    return pose


def gorilla_motion() -> Motion:
    """Seven and a half seconds: a leap, a drumming chest, half a turn with a hop, a roar."""
    line = Timeline(7.5)
    knuckles, beat, crouch, roar = (flat_pose(turns) for turns in POSES.values())
    leap = flat_pose(LEAP)
    poses = line.curve(
        [
            (0.0, knuckles),
            (0.3, knuckles),
            (0.75, 0.9 * crouch),
            (1.15, leap),
            (1.6, crouch),
            (2.2, 0.85 * beat),
            (2.5, beat),
            (3.0, beat),
            (3.5, beat),
            (3.9, beat),
            (4.3, 0.55 * beat + 0.25 * crouch),
            (4.7, 0.6 * beat + 0.3 * roar),
            (5.2, roar),
            (5.6, roar),
            (6.3, 0.5 * crouch),
            (6.9, knuckles),
        ]
    )
    _enliven(poses, line)
    return Motion(line.times, poses, _roots(line), "dance")


def _enliven(poses: Floats, line: Timeline) -> None:
    """Fists that drum by turns, and a head shaken while roaring."""
    places = {entry.name: place for place, entry in enumerate(joint_pose().parameters)}
    drum = line.wave(2.0, 2.3, 4.1)
    for side, sign in (("L", 1.0), ("R", -1.0)):
        away = ramp(sign * drum, 0.0, 1.0)
        poses[:, places[f"elbow.{side}.rx"]] += np.radians(36) * away
        poses[:, places[f"shoulder.{side}.rx"]] -= np.radians(8) * away
    shake = line.wave(2.2, 5.0, 6.0)
    poses[:, places["head.ry"]] += np.radians(14) * shake
    poses[:, places["chest.ry"]] += np.radians(6) * drum


def _roots(line: Timeline) -> Floats:
    return line.roots(
        places=[
            (0.0, (0, 0, 0)),
            (0.3, (0, 0, 0)),
            (0.75, (0, 0, 0)),
            (1.15, (0, 0.32, 0.5)),
            (1.6, (0, 0, 1.0)),
            (2.0, (0, 0, 1.02)),
            (3.0, (0, 0, 1.02)),
            (3.9, (0, 0, 1.02)),
            (4.25, (0, 0, 1.02)),
            (4.55, (0.05, 0.16, 1.0)),
            (4.85, (0.1, 0, 0.95)),
            (5.5, (0.1, 0, 0.95)),
            (6.5, (0.1, 0, 0.95)),
        ],
        headings=[
            (0.0, 0),
            (0.9, 0),
            (1.6, -12),
            (2.4, 0),
            (3.2, 0),
            (3.8, 0),
            (4.2, 5),
            (4.85, 125),
            (5.4, 130),
        ],
    )
