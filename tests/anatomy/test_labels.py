"""Hard and soft regions labelled by hand: each label names joints that its character has."""

from __future__ import annotations

import json
import warnings
from fnmatch import fnmatch
from pathlib import Path

import pytest

import supple
from supple.rig.skeleton.skinning import skinned_rigs

LABELS = json.loads(Path(__file__).with_name("labels.json").read_text())
FILES = [name for name in LABELS if name != "about"]


@pytest.mark.parametrize("name", FILES)
def test_labels_name_joints_of_the_character(assets: Path, name: str):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", supple.SuppleWarning)
        character = supple.load(assets / name)
    (rig,) = skinned_rigs(character.rig)
    joints = rig.joint_pose.skeleton.names
    patterns = [*LABELS[name]["hard"], *LABELS[name]["trunk"]]
    for soft in LABELS[name].get("soft", {}).values():
        patterns += soft
    for pattern in patterns:
        assert pattern == "parts" or any(fnmatch(joint, pattern) for joint in joints), pattern
