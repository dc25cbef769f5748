"""Characters from files are built as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from supple.anatomy.flesh_presets import flesh_material
from supple.engines.pose_space.build.build import build
from supple.engines.pose_space.model.model import PoseSpaceModel
from supple.errors import SuppleWarning
from supple.formats.load import load
from supple.rig.character import Character

OPTIONS: dict[str, Any] = {"tets": 3000, "modes": 24, "poses": 3, "elastic_cubature": 90}


def built(character: Character, folder: Path) -> PoseSpaceModel:
    model = build(character, **OPTIONS)
    path = folder / "model.supple"
    model.save(path)
    return PoseSpaceModel.load(path)


def check(model: PoseSpaceModel, character: Character) -> None:
    report = model.report
    assert (report["poses"], report["modes"], report["elastic_tets"]) == (3, 24, 90)
    assert len(model.regions) > 2
    assert len(model.fixed) > 0
    assert report["stored_fraction"] < 0.5
    for kind in ("elastic_error", "inertial_error"):
        assert report[kind]["train"] < 0.03
        assert report[kind]["held_out"] < 0.045
    # Poses are frames of its own motions, and the skin rides on the tets at each.
    for name, pose in zip(model.pose_names[1:], model.poses[1:], strict=True):
        motion, _, frame = name.rpartition(":")
        np.testing.assert_allclose(character.motions[motion].poses[int(frame)], pose, atol=1e-6)
        skin = model.embedding @ model.tet_rig(pose)
        away = np.linalg.norm(skin - character.rig(pose), axis=1)
        assert away.max() < 0.03 * character.surface.size


def test_a_low_polygon_rat_with_holes_is_built(assets, tmp_path):
    with pytest.warns(SuppleWarning, match="non-manifold edges"):
        rat = load(assets / "gltf_characters" / "q_Rat.glb")
    check(built(rat, tmp_path), rat)


def test_a_heavy_man_who_jumps_is_built(assets, tmp_path):
    man = load(assets / "gltf_characters" / "mh_heavy_male_jump.glb")
    check(built(man, tmp_path), man)


def test_default_flesh_swings_alike_at_every_size():
    small, large = (np.asarray(flesh_material(size).young) for size in (0.5, 50.0))
    assert large / small == pytest.approx(100.0**2)
    assert flesh_material(2.0).young == 2e4
