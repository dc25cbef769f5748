"""Real characters baked from file to file: what plays is the simulation, and it is sound."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.build_samples import kept_scenes
from helpers.gltf_validation import new_issues
from supple.cli.main import main
from supple.engines.engine import ENGINES
from supple.errors import SuppleWarning
from supple.formats.load import load
from supple.formats.save import save
from supple.lab.bench.bake_bench import markdown
from supple.playback.baking import bake
from supple.playback.character_models import prepared_model
from supple.playback.character_sources import read_character
from supple.rig.baked_motion import BakedMotion

NAMES = ("Fox", "q_Whale", "hand_left")
SMALL: dict[str, Any] = {"tets": 1500, "modes": 20, "poses": 2}


@pytest.fixture(scope="module", autouse=True)
def _scene_cache(request: pytest.FixtureRequest) -> Iterator[None]:
    with kept_scenes(request.config.cache.mkdir("scenes")):
        yield


@cache
def baked_file(path: Path) -> BakedMotion:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SuppleWarning)  # what is wrong with the file
        source = read_character(str(path))
        model = prepared_model(source, **SMALL).model
    return bake(source.character, model=model)


def edges(triangles: np.ndarray) -> np.ndarray:
    pairs = np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [2, 0]]])
    return np.unique(np.sort(pairs, axis=1), axis=0)


@pytest.mark.parametrize("name", NAMES)
def test_the_file_plays_the_simulation_within_the_stated_error(assets, tmp_path, name):
    source = assets / "gltf_characters" / f"{name}.glb"
    baked, target = baked_file(source), tmp_path / "soft.glb"
    figures = save(target, baked)
    assert figures["error"] <= 0.002
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SuppleWarning)
        again = load(target, flesh=True)
    clip = again.source.clips[figures["animation"]]
    poses, roots = clip.sample(np.float32(baked.times).astype(float))
    both = zip(baked.character.source.primitives, again.source.primitives, strict=True)
    pairs = [(mine.welded, its.welded) for mine, its in both]
    worst = 0.0
    for frame in range(baked.n_frames):
        there = again.rig(poses[frame]) @ roots[frame, :3, :3].T + roots[frame, :3, 3]
        for mine, its in pairs:
            used = mine >= 0
            off = there[its[used]] - baked.frames[frame][mine[used]]
            worst = max(worst, float(np.linalg.norm(off, axis=1).max()))
    assert worst <= (figures["error"] + 1e-5) * again.surface.size


@pytest.mark.parametrize("name", NAMES)
def test_the_validator_finds_nothing_new(assets, tmp_path, name):
    source = assets / "gltf_characters" / f"{name}.glb"
    save(tmp_path / "soft.glb", baked_file(source))
    assert not new_issues(source, tmp_path / "soft.glb")


@pytest.mark.parametrize("name", NAMES)
def test_flesh_moves_and_nothing_tears(assets, name):
    baked = baked_file(assets / "gltf_characters" / f"{name}.glb")
    size = baked.character.surface.size
    rig = np.array([baked.rig_frame(k) for k in range(baked.n_frames)])
    away = np.linalg.norm(baked.frames - rig, axis=2) / size
    assert 0.002 < away.max() < 0.1
    assert baked.report["limits"] == {}
    assert baked.report["stiffness"] == 1
    pairs = edges(baked.character.surface.triangles)
    lengths = [
        np.linalg.norm(np.diff(f[:, pairs], axis=2)[:, :, 0], axis=2) for f in (rig, baked.frames)
    ]
    assert (lengths[1] - lengths[0]).max() < 0.03 * size


def test_the_bench_has_a_row_for_each_file_and_lists_failures(assets, monkeypatch, capsys):
    small = {"tets": 1500, "modes": 12, "most_poses": 2}
    for name, value in small.items():
        monkeypatch.setitem(ENGINES["pose-space"].bake_options, name, value)
    whale = str(assets / "gltf_characters" / "q_Whale.glb")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SuppleWarning)
        with pytest.raises(SystemExit) as caught:
            main(["bench", "bake", whale, "none.glb", "--json"])
    said = capsys.readouterr()
    assert caught.value.code == 1
    assert "1 of 2 could not be baked: none (none.glb: there is no such file" in said.err
    row, failed = json.loads(said.out)
    assert row["character"] == "q_Whale"
    assert row["tets"] > 1000
    assert row["modes"] == 12
    assert 0 < row["build_s"] < row["bake_s"]
    assert row["step_ms"] > 0
    assert row["error_percent"] <= 0.2
    assert "no such file" in failed["failed"]
    lines = markdown([row, failed]).splitlines()
    assert len(lines) == 4
    assert len({line.replace("\\|", "").count("|") for line in lines}) == 1
