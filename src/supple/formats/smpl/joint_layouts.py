"""Joints of SMPL, SMPL-H, SMPL-X and MANO: names and order in poses."""

from __future__ import annotations

from typing import NamedTuple

_BODY = [
    "pelvis",
    "left_hip",
    "right_hip",
    "spine1",
    "left_knee",
    "right_knee",
    "spine2",
    "left_ankle",
    "right_ankle",
    "spine3",
    "left_foot",
    "right_foot",
    "neck",
    "left_collar",
    "right_collar",
    "head",
    "left_shoulder",
    "right_shoulder",
    "left_elbow",
    "right_elbow",
    "left_wrist",
    "right_wrist",
]
#: Fingers of every hand, in this order: the little finger before the ring finger.
_FINGERS = [f"{f}{k}" for f in ("index", "middle", "pinky", "ring", "thumb") for k in (1, 2, 3)]
_HANDS = [f"{side}_{finger}" for side in ("left", "right") for finger in _FINGERS]
_FACE = ["jaw", "left_eye", "right_eye"]


class JointLayout(NamedTuple):
    """Joints of a kind of body, in the order of its poses."""

    kind: str
    """SMPL, SMPL-H, SMPL-X or MANO; "" for another."""
    names: tuple[str, ...]


_LAYOUTS = (
    JointLayout("SMPL", (*_BODY, "left_hand", "right_hand")),
    JointLayout("SMPL-H", (*_BODY, *_HANDS)),
    JointLayout("SMPL-X", (*_BODY, *_FACE, *_HANDS)),
    JointLayout("MANO", ("wrist", *_FINGERS)),
)
#: The joints that SMPL, SMPL-H and SMPL-X have in common.
BODY_ONLY = JointLayout("body", tuple(_BODY))


def joint_layout(n_joints: int) -> JointLayout:
    """Return the layout of so many joints; of other bodies, joints are numbered.

    >>> joint_layout(52).names[22], joint_layout(16).names[7]
    ('left_index1', 'pinky1')
    """
    for layout in _LAYOUTS:
        if len(layout.names) == n_joints:
            return layout
    return JointLayout("", tuple(f"joint{k}" for k in range(n_joints)))


def layout_of_columns(columns: int) -> JointLayout | None:
    """Return the layout of poses with so many columns, None where none has."""
    for layout in (*_LAYOUTS, BODY_ONLY):
        if 3 * len(layout.names) == columns:
            return layout
    return None
