"""Hard and soft regions labelled by hand: each label names joints that its character has."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest

import supple
from anatomy.exam import labelled

LABELS = json.loads(Path(__file__).with_name("labels.json").read_text())
FILES = [name for name in LABELS if name != "about"]


@pytest.mark.parametrize("name", FILES)
def test_labels_name_joints_of_the_character(assets: Path, name: str):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", supple.SuppleWarning)
        character = supple.load(assets / name)
    said = LABELS[name]
    patterns = [*said["hard"], *said["trunk"]]
    for soft in said.get("soft", {}).values():
        patterns += soft
    for pattern in patterns:
        assert labelled(character, [pattern]).any(), pattern
