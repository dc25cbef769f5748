"""The exam of motion passes a sound bake and finds each fault that it is for."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from formats.exam_motion import judge, table
from helpers.gltf_builder import Builder
from helpers.synthetic_clips import BODY, MIDDLE, TIP, Z, built, capsule, quaternion


def character(bend: float = 40.0) -> Builder:
    times = np.arange(25) / 12
    sway = quaternion(Z, bend * np.sin(np.pi * times))
    still = quaternion(Z, np.zeros(25))
    return built(
        {
            "sway": [
                (MIDDLE, "rotation", times, sway, "LINEAR"),
                (TIP, "rotation", times, still, "LINEAR"),
            ]
        }
    )


def fleshed(b: Builder, jump: float = 0.0) -> Builder:
    """Add a morph target that moves the far half, by a smooth weight with a jump at 1 s."""
    delta = np.zeros_like(capsule()[0])
    delta[capsule()[0][:, 0] > 0.4, 1] = 0.015625
    b.json["meshes"][0]["primitives"][0]["targets"] = [{"POSITION": b.accessor(delta)}]
    b.json["meshes"][0]["weights"] = [0]
    times = np.arange(61) / 30
    b.animate(BODY, "weights", times, np.sin(np.pi * times) + jump * (times >= 1))
    return b


def judged(folder: Path, baked: Builder) -> dict[str, Any]:
    return judge(character().save_glb(folder / "a.glb"), baked.save_glb(folder / "b.glb"))


def test_sound_bake_passes(tmp_path: Path) -> None:
    record = judged(tmp_path, fleshed(character()))
    (row,) = record["clips"]
    assert record["failures"] == []
    assert record["hard_rule"] == "no deltas"
    assert record["hard"] == int((capsule()[0][:, 0] <= 0.4).sum())
    assert row["rig_max"] == 0
    assert row["hard_max"] == 0
    assert row["changed"] == []
    assert row["added_paths"] == ["weights"]
    np.testing.assert_allclose(row["flesh_max"], 1.5625 / record["size"], rtol=1e-3)
    assert row["jerk"]["ratio"] < 3
    assert "passes" in table([record])


def test_jump_of_the_flesh_stands_out(tmp_path: Path) -> None:
    (row,) = judged(tmp_path, fleshed(character(), jump=1.0))["clips"]
    assert row["jerk"]["ratio"] > 10
    np.testing.assert_allclose(row["jerk"]["time"], 1.0, atol=0.05)


def added_clip(b: Builder) -> None:
    clip = copy.deepcopy(b.json["animations"][0])
    b.json["animations"].append({**clip, "name": "sway (2)"})


def renamed_clip(b: Builder) -> None:
    b.json["animations"][0]["name"] = "swing"


def lost_channel(b: Builder) -> None:
    del b.json["animations"][0]["channels"][1]


def other_interpolation(b: Builder) -> None:
    b.json["animations"][0]["samplers"][1]["interpolation"] = "STEP"


def moved_joint(b: Builder) -> None:
    b.json["nodes"][MIDDLE]["translation"][1] += 1e-4


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (added_clip, "clips differ: 1 added"),
        (renamed_clip, "sway: is lost"),
        (lost_channel, "1 channels differ"),
        (other_interpolation, "1 channels differ"),
        (moved_joint, "the rig is off"),
    ],
)
def test_faults_are_found(tmp_path: Path, fault: Callable[[Builder], None], said: str) -> None:
    b = fleshed(character())
    fault(b)
    record = judged(tmp_path, b)
    assert any(said in failure for failure in record["failures"])
    assert said in table([record])


def test_changed_keys_are_found_in_bytes_and_motion(tmp_path: Path) -> None:
    record = judged(tmp_path, fleshed(character(bend=39.0)))
    (row,) = record["clips"]
    assert row["changed"] == ["middle.rotation differs"]
    assert row["rig_max"] > 0.1
    assert row["hard_max"] > 0.01
    assert len(record["failures"]) == 3
