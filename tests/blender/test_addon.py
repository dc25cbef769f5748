"""The add-on in headless Blender, with a stand-in for the simulation that takes no time."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supple
from supple.anatomy.anatomy import anatomy_of
from supple.anatomy.region_entries import write_entries

#: The command of the environment that tests run in, on the path or not.
COMMAND = Path(sys.executable).with_name("supple")
#: Part of the size that what Blender shows may be from the flesh that was simulated.
NEAR = 1e-5


@pytest.mark.parametrize(
    ("kind", "near"),
    [
        ("plain", NEAR),
        ("own_shape_keys", NEAR),
        ("driven_and_constrained", NEAR),
        ("uneven_scale", NEAR),
        ("bone_of_no_size", NEAR),
        ("unweighted_and_loose", NEAR),
        ("endless_action", NEAR),
        ("preserved_volume", NEAR),
        ("lattice_behind", NEAR),
        ("action_of_two", NEAR),
        ("hundred_thousand_vertices", NEAR),
        ("mirrored_and_subdivided", 1e-3),
        ("mesh_of_two_objects", 1e-3),
    ],
)
def test_flesh_is_seen_where_it_was_simulated_and_goes_without_a_trace(
    blender: Any, tmp_path: Path, kind: str, near: float
):
    found = blender("tube_with_flesh", kind=kind, kept=blender.kept, folder=str(tmp_path))
    assert found["error"] < near
    assert found["muted"] < 1e-6
    assert not found["changed_by_sampling"]
    assert not found["left"]
    assert not found["files_left"]
    assert found["changed"]


@pytest.mark.parametrize(
    ("name", "frames"),
    [
        ("gltf_characters/q_Rat.glb", 13),
        ("gltf_characters/q_Husky.glb", 8),
        ("gltf_characters/CesiumMan.glb", 8),
        ("gltf_characters/Fox.glb", 8),
        ("gltf_characters/mh_heavy_male_jump.glb", 4),
        ("rig_space/sumo_soft_shapes.glb", 4),
    ],
)
def test_real_characters_get_flesh_and_are_as_they_were_afterwards(
    blender: Any, assets: Path, name: str, frames: int
):
    path = str(assets / name)
    found = blender("character_with_flesh", path=path, kept=blender.kept, frames=frames)
    assert found["error"] < NEAR
    assert not found["left"]


def test_two_characters_get_flesh_together_and_lose_it_one_by_one(blender: Any):
    found = blender("two_characters", kept=blender.kept)
    assert found["both"] == [True, True]
    assert found["after"] == [False, True]
    assert not found["left"]


def test_baking_again_replaces_and_shows_what_the_armature_plays(blender: Any):
    found = blender("baked_again")
    once, again, both, both_again = found["counts"]
    assert once == again
    assert both == both_again
    assert once[0] == both[0] == 3  # the basis and two shapes, which both clips share
    assert (len(once[2]), len(both[2])) == (1, 2)
    assert found["shown"] == ["Supple Other"]
    assert found["then"] == ["Supple TubeSway"]
    assert found["named"] == ["Supple Other", "Supple TubeSway"]
    assert found["follows"] == [["Supple TubeSway"], [], ["Supple Other"], []]
    assert not found["left"]


@pytest.mark.parametrize("kind", ["plain", "own_shape_keys"])
def test_flesh_that_does_not_move_adds_nothing(blender: Any, kind: str):
    found = blender("still", {"STAND_IN": "still"}, kind=kind)
    assert found["result"] == ["FINISHED"]
    assert not found["left"]


def test_flesh_of_an_endless_action_is_endless(blender: Any):
    found = blender("endless", kept=blender.kept)
    assert found["gap"] < 1e-5
    assert "--loop" in json.loads(found["words"])


@pytest.mark.parametrize(
    ("way", "said"),
    [
        ("error", "Supple: sample.glb: is of no use; make another"),
        ("crash", "Supple ended unexpectedly"),
        ("missing", "which is not a program"),
        ("no armature", '"Cube" has no armature'),
        ("edit mode", "is in Edit Mode"),
        ("no action", "has no active action"),
        ("no disk", "There is no place for temporary files"),
        ("unsaved", "Save the file first"),
        ("no folder", "File exists"),
        ("bone", "use a factor above 0"),
    ],
)
def test_failures_are_one_message_and_leave_nothing_behind(
    blender: Any, tmp_path: Path, way: str, said: str
):
    found = blender("failing", {"STAND_IN": way}, way=way, kept=str(tmp_path))
    assert said in found["said"]
    assert len(found["said"].strip().splitlines()) == 1
    assert not found["left"]
    assert not found["files"]


def test_cancelling_ends_the_other_process_and_leaves_nothing(blender: Any, tmp_path: Path):
    pid = str(tmp_path / "pid")
    hang = {"STAND_IN": "hang", "STAND_IN_PID": pid}
    found = blender("cancelled", hang, kept=blender.kept, pid=pid)
    assert found["told"][1] == "TubeRig: simulating"
    assert 0.2 < found["told"][0] < 1
    assert not found["alive"]
    assert not found["left"]


def test_paint_and_settings_are_passed_to_supple(blender: Any):
    found = blender("painted", kept=blender.kept)
    assert found["stiffness"] == pytest.approx([10, 10, 1, 0])
    assert found["rigid"] == pytest.approx([0, 0.75, 0])
    words = json.loads(found["words"])
    for option, value in (("--flesh", "soft"), ("--damping", "2"), ("--gravity", "1.6")):
        assert words[words.index(option) + 1] == value
    assert "--loop" in words
    assert "--stiffness" in words


def test_make_blender_packs_a_valid_extension(blender_python: Path, tmp_path: Path):
    root = Path(__file__).resolve().parents[2]
    subprocess.run([sys.executable, root / "tools/build_addon.py", tmp_path], check=True)
    (archive,) = tmp_path.glob("supple-blender-*.zip")
    checker = next(blender_python.parents[1].rglob("bl_pkg/cli/blender_ext.py"))
    done = subprocess.run([blender_python, checker, "validate", archive], capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "LICENSE" in zipfile.ZipFile(archive).namelist()


def test_work_goes_on_from_a_timer_and_ends_in_one_message(blender: Any):
    found = blender("from_a_timer")
    goes_on = [["RUNNING_MODAL"], ["PASS_THROUGH"]]
    assert found["results"] == [
        *goes_on,
        ["FINISHED", True, True, 0],
        *goes_on,
        ["CANCELLED", True, True, 0],
        *goes_on,
        ["CANCELLED", True, True, 0],
        ["CANCELLED"],
        ["CANCELLED"],
        ["CANCELLED", True, 0],
    ]
    assert found["said"] == [
        "counted",
        "too far",
        "Supple: ValueError: odd",
        "not now",
        "Supple is busy: counting",
        "Supple was cancelled; nothing is changed",
    ]
    assert found["status"][0] == "Supple: counting, 0 %"
    assert found["status"][-1] is None


@pytest.mark.parametrize("kind", ["plain", "own_shape_keys"])
def test_curves_lie_over_what_is_played_and_go_without_a_trace(blender: Any, kind: str):
    found = blender("laid_curves", kind=kind)
    assert found["turn"] < 1e-5
    assert found["key"] < 1e-5
    assert found["same"]
    assert found["active"] == "TubeSway"
    assert not found["left"]


def test_anatomy_is_shown_in_colours_that_go_again(blender: Any, assets: Path):
    path = str(assets / "gltf_characters/CesiumMan.glb")
    found = blender("shown_anatomy", {"SUPPLE_COMMAND": str(COMMAND)}, path=path)
    assert found["colours"] >= 2
    assert not found["left"]


def test_show_anatomy_uses_the_anatomy_file(blender: Any, assets: Path, tmp_path: Path):
    path = str(assets / "gltf_characters/CesiumMan.glb")
    found = anatomy_of(supple.load(path))
    hard = {name: replace(each, feel="hard") for name, each in found.entries.items()}
    file = tmp_path / "man.anatomy.json"
    write_entries(file, "man", hard)
    command = {"SUPPLE_COMMAND": str(COMMAND)}
    seen = blender("shown_anatomy", command, path=path, anatomy=str(file))
    assert seen["colours"] == 1


@pytest.mark.parametrize("way", ["saves", ""])
def test_live_starts_with_the_settings_and_they_adopt_its_results(
    blender: Any, tmp_path: Path, way: str
):
    found = blender("lived", {"STAND_IN": way}, kept=blender.kept, folder=str(tmp_path))
    words = json.loads(found["words"])
    given = str(tmp_path / "given.anatomy.json")
    assert f"--anatomy={given}" in words
    for option, value in (("--damping", "2"), ("--folder", str(tmp_path))):
        assert words[words.index(option) + 1] == value
    assert "--stiffness" in words
    # A saved file has the doubled stiffness.
    assert found["settings"] == ([1.5, 3] if way else [3, 3])
    saved = [str(each) for each in tmp_path.glob("TubeRig.anatomy.json")]
    assert len(saved) == bool(way)
    assert found["anatomy"] == (saved[0] if way else given)


def test_curves_take_the_anatomy_file_and_names_that_look_like_options(blender: Any):
    words = json.loads(blender("given_curves", kept=blender.kept, anatomy="/a.json")["words"])
    assert {"--anatomy=/a.json", "--free=--plot", "--free=Tip"} <= {*words}


@pytest.mark.filterwarnings("ignore::supple.errors.SuppleWarning")
def test_blender_shows_what_the_command_bakes(blender: Any, assets: Path, tmp_path: Path):
    path = assets / "gltf_characters/q_Husky.glb"
    given = {"path": str(path), "clip": "Walk", "fps": 24, "out": str(tmp_path / "seen.npy")}
    blender("soft_character", {"SUPPLE_COMMAND": str(COMMAND)}, **given)
    character = supple.load(path)
    name = next(name for name in character.motions if "Walk" in name)
    words = [
        "bake",
        str(path),
        "-o",
        str(tmp_path / "told.npz"),
        "--motion",
        name,
        "--rate",
        "24",
        "-q",
    ]
    subprocess.run([COMMAND, *words], check=True)
    x, y, z = np.moveaxis(np.load(tmp_path / "told.npz")["frames"], 2, 0)
    welded = np.concatenate([part.welded for part in character.source.primitives])
    told = np.stack([x, -z, y], axis=2)[:, welded]
    seen = np.load(tmp_path / "seen.npy")
    size = np.linalg.norm(np.ptp(told[0], axis=0))
    apart = np.linalg.norm(seen[: len(told)] - told, axis=2)
    assert apart.max() < 0.003 * size
