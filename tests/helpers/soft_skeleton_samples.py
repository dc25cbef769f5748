"""Small soft skeletons: an arm of two bones, and options with which it builds in a second."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from helpers.build_samples import WIDTH, bar_mesh, motion_of
from supple.engines.soft_skeleton.build import build
from supple.engines.soft_skeleton.model import SoftSkeletonModel
from supple.rig.character import Character
from supple.rig.skeleton.joint_pose import PartialJointPose
from supple.rig.skeleton.joints import Skeleton
from supple.rig.skeleton.skinning import SkinnedRig
from supple.scenes.characters.character_scene import scene

Cells = tuple[int, int, int]


@cache
def elbow(cells: Cells = (8, 3, 3)) -> Character:
    """A bar of a metre along x, on two bones; its one parameter bends the second towards y."""
    surface, _ = bar_mesh(cells).surface()
    skeleton = Skeleton(["upper", "fore"], [-1, 0], [[0.0, WIDTH / 2, WIDTH / 2], [0.5, 0.0, 0.0]])
    share = np.clip(0.5 + (surface.vertices[:, 0] - 0.5) / 0.3, 0, 1)
    joints = np.tile([0, 1], (len(share), 1))
    bind = np.linalg.inv(skeleton.rest_world())
    pose = PartialJointPose(skeleton, ["fore.rz"])
    rig = SkinnedRig(pose, surface.vertices, joints, np.column_stack([1 - share, share]), bind)
    swing = np.radians(np.linspace(0, 70, 12))[:, None]
    return Character("elbow", surface, rig, {"Swing": motion_of(swing, "Swing")})


def soft_skeleton_options(cells: Cells = (8, 3, 3), **changed: Any) -> dict[str, Any]:
    """Return options with which an arm builds in a second."""
    options: dict[str, Any] = {
        "tets": bar_mesh(cells),
        "handles": 12,
        "cubature": 60,
        "points": 40,
    }
    return options | changed


@cache
def soft_elbow() -> SoftSkeletonModel:
    """Return the model of the arm."""
    return build(elbow(), **soft_skeleton_options())


@cache
def soft_hand() -> SoftSkeletonModel:
    """Return a coarse hand of the scenes."""
    return _coarse("hand")


@cache
def soft_body() -> SoftSkeletonModel:
    """Return a coarse person of the scenes."""
    return _coarse("human")


def _coarse(name: str) -> SoftSkeletonModel:
    return build(scene(name).character, tets=3_000, handles=24, cubature=80, points=160)
