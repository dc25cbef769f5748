"""Stiffness painted at some poses, blended between them, with any choice of poses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supple
from helpers.build_samples import MATERIAL, bar_options, bending_bar, mean_young
from supple.app.model_request import maps_by_pose
from supple.cli.main import main
from supple.engines.pose_space.build.build import build
from supple.errors import SuppleError


def _bar(**options: Any) -> Any:
    return build(bending_bar(), **bar_options(**options))


def test_flesh_is_stiffer_at_the_painted_pose_and_blends_to_the_neutral_one() -> None:
    factors = np.full(len(bending_bar().surface.vertices), 4.0)
    model = _bar(stiffness_at={"right": factors})
    young = dict(zip(model.pose_names, (mean_young(model, k) for k in range(3)), strict=True))
    assert young["neutral"] == pytest.approx(3e4, rel=1e-3)
    assert young["right"] == pytest.approx(12e4, rel=1e-3)
    # Normalised weights on a line do not extrapolate beyond its end.
    assert 3e4 * 0.999 <= young["left"] <= 12e4


def test_automatic_poses_are_painted_by_frames_of_motions() -> None:
    factors = np.full(len(bending_bar().surface.vertices), 4.0)
    model = _bar(poses="auto", most_poses=4, stiffness_at={"sweep:20": factors})
    stiffness = [mean_young(model, k) for k in range(model.n_poses)]
    angles = model.poses[:, 0]
    assert stiffness[0] == pytest.approx(3e4, rel=1e-3)
    assert stiffness[int(np.argmax(angles))] > 0.9 * 12e4
    assert max(stiffness) <= 12e4 * 1.001


def test_factors_are_by_joints_too_and_multiply_a_painted_material() -> None:
    count = len(bending_bar().surface.vertices)
    along = np.linspace(1e4, 3e4, count)
    model = _bar(young=along, stiffness_at={"right": {"default": 2.0}})
    assert mean_young(model, 2) == pytest.approx(2 * mean_young(model, 0), rel=1e-2)
    assert MATERIAL.young == 3e4


def test_wrong_poses_and_maps_give_one_line(tmp_path: Path) -> None:
    ones = np.ones(len(bending_bar().surface.vertices))
    with pytest.raises(SuppleError, match="no frame 99"):
        _bar(stiffness_at={"sweep:99": ones})
    with pytest.raises(SuppleError, match="stiffness"):
        _bar(stiffness_at={"right": ones[:3]})
    with pytest.raises(SuppleError, match="stiffness_at is 3"):
        _bar(stiffness_at=3)
    with pytest.raises(SuppleError, match="use POSE=MAP"):
        maps_by_pose(["right"], bending_bar())


def test_the_command_paints_a_scene_by_pose(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "firm.json").write_text(json.dumps({"default": 3.0}))
    words = ["--tets", "900", "--modes", "6", "--quiet", "--json", "--poses", "auto"]
    painted = ["--stiffness-at", f"party:40={tmp_path / 'firm.json'}"]
    name = next(iter(supple.scenes.scene("x").character.motions))
    painted[1] = painted[1].replace("party", name)
    out = tmp_path / "x.supple"
    main(["build", "x", "-o", str(out), "--most-poses", "3", *painted, *words])
    capsys.readouterr()
    model = supple.load_model(out)
    stiffness = [mean_young(model, k) for k in range(model.n_poses)]
    assert max(stiffness) > 1.5 * min(stiffness)
