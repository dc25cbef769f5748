"""A .vrm is the glTF it is: what VRM says stays, and still means the same shapes and joints."""

from __future__ import annotations

import copy
import json
import struct
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supple
from helpers.commands import run_here
from helpers.spring_engine import spring_engine
from helpers.tail_file import tail_builder
from supple.errors import SuppleError, SuppleWarning
from supple.formats.load import load
from supple.formats.save import check_target, remove_curves, save
from supple.rig.baked_motion import BakedMotion
from supple.rig.character import Character
from supple.rig.motion.motion import Motion

#: Nodes of the tail's file: body, wag, tail_1, tail_2, and the one that shows the mesh.
SHOWN = 4
VRM_1: dict[str, Any] = {
    "VRMC_vrm": {
        "specVersion": "1.0",
        "humanoid": {"humanBones": {"hips": {"node": 0}, "spine": {"node": 1}}},
        "expressions": {
            "preset": {"happy": {"morphTargetBinds": [{"node": SHOWN, "index": 1, "weight": 0.8}]}}
        },
        "firstPerson": {"meshAnnotations": [{"node": SHOWN, "type": "both"}]},
    },
    "VRMC_springBone": {
        "specVersion": "1.0",
        "colliders": [{"node": 0, "shape": {"sphere": {"radius": 0.1, "offset": [0, 0, 0]}}}],
        "colliderGroups": [{"colliders": [0]}],
        "springs": [
            {"name": "Tail", "joints": [{"node": 2, "stiffness": 1}, {"node": 3}]},
            {"name": "Hat", "joints": [{"node": 5}, {"node": 6}], "colliderGroups": [0]},
        ],
    },
}
VRM_0: dict[str, Any] = {
    "VRM": {
        "specVersion": "0.0",
        "blendShapeMaster": {
            "blendShapeGroups": [{"name": "A", "binds": [{"mesh": 0, "index": 1, "weight": 100}]}]
        },
        "firstPerson": {"meshAnnotations": [{"mesh": 0, "firstPersonFlag": "Auto"}]},
        "secondaryAnimation": {
            "boneGroups": [
                {"comment": "both", "stiffiness": 1, "bones": [2, 5]},
                {"comment": "tail", "bones": [3]},
            ]
        },
    }
}


def tree(path: Path) -> dict[str, Any]:
    data = path.read_bytes()
    return json.loads(data[20 : 20 + struct.unpack_from("<I", data, 12)[0]])


def vrm_file(path: Path, extensions: dict[str, Any], *, shown_twice: bool = False) -> Path:
    """The tail's file with a hat that no skin follows, and VRM's extensions."""
    b = tail_builder(seconds=0.5)
    b.add("nodes", {"name": "hat", "children": [6]})
    b.add("nodes", {"name": "feather"})
    b.json["nodes"][0]["children"].append(5)
    if shown_twice:
        b.json["scenes"][0]["nodes"].append(b.add("nodes", {"mesh": 0, "skin": 0}))
    b.json["extensions"] = copy.deepcopy(extensions)
    b.json["extensionsUsed"] = list(extensions)
    return b.save_glb(path)


def with_flesh(character: Character, *, where: float = -np.inf) -> BakedMotion:
    """Swing the skin that lies beyond a place along x, in the clip or at rest."""
    clip = next(iter(character.motions.values()), None)
    times = np.arange(8) / 20
    if clip is None:
        rest = np.tile(character.rig.rest_pose, (8, 1))
        clip = Motion(times, rest, np.tile(np.eye(4), (8, 1, 1)), "swing")
    poses, roots = clip.at(times)
    place = character.surface.vertices
    amount = 0.02 * character.surface.size * (place[:, 0] > where)
    frames = [
        (character.rig(pose) + np.sin(9 * t) * amount[:, None]) @ root[:3, :3].T + root[:3, 3]
        for t, pose, root in zip(times, poses, roots, strict=True)
    ]
    motion = Motion(times, poses, roots, clip.name)
    return BakedMotion(character, motion, np.array(frames, np.float32), 20.0)


def quietly(path: Path) -> Character:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SuppleWarning)
        return load(path)


@pytest.mark.parametrize("name", ["shape_key_skinned", "simple_morph"])
def test_flesh_in_real_files_leaves_vrm_data_unchanged(assets, tmp_path, name):
    source, target = assets / "vrm" / f"{name}.vrm", tmp_path / "soft.vrm"
    figures = save(target, with_flesh(quietly(source)))
    assert figures["n_shapes"] >= 1
    before, after = tree(source), tree(target)
    assert after["extensions"] == before["extensions"]
    assert after["extensionsUsed"] == before["extensionsUsed"]
    for mine, its in zip(after["meshes"], before["meshes"], strict=True):
        for new, old in zip(mine["primitives"], its["primitives"], strict=True):
            kept = [each["POSITION"] for each in old["targets"]]
            assert [each["POSITION"] for each in new["targets"]][: len(kept)] == kept
    assert after["nodes"] == before["nodes"]
    quietly(target)


@pytest.mark.parametrize("suffix", [".vrm", ".glb"])
def test_expressions_and_joints_of_vrm_1_refer_to_the_same_objects(tmp_path, suffix):
    source = vrm_file(tmp_path / "hero.vrm", VRM_1)
    baked = with_flesh(load(source))
    target = tmp_path / f"soft{suffix}"
    with pytest.warns(SuppleWarning, match='the VRM spring "Tail" moves joints and overrides'):
        figures = save(target, baked)
    assert figures["springs"] == ["Tail"]
    assert tree(target)["extensions"] == VRM_1
    node = tree(target)["nodes"][SHOWN]
    names = tree(target)["meshes"][node["mesh"]]["extras"]["targetNames"]
    assert names[:2] == ["belly", "cheek"]
    assert len(names) == 2 + figures["n_shapes"]


def test_springs_under_the_flesh_are_dropped_on_request_and_no_others(tmp_path):
    source = vrm_file(tmp_path / "hero.vrm", VRM_1)
    save(tmp_path / "soft.vrm", with_flesh(load(source)), drop_springs=True)
    wanted = copy.deepcopy(VRM_1)
    del wanted["VRMC_springBone"]["springs"][0]
    assert tree(tmp_path / "soft.vrm")["extensions"] == wanted


def test_springs_of_vrm_0_are_dropped_by_their_first_bones(tmp_path):
    springs = copy.deepcopy(VRM_0)
    springs["VRM"]["secondaryAnimation"]["boneGroups"].append({"comment": "none", "bones": []})
    source = vrm_file(tmp_path / "hero.vrm", springs)
    baked = with_flesh(load(source))
    with pytest.warns(SuppleWarning, match='2 VRM springs, "tail_1", "tail_2", move'):
        save(tmp_path / "kept.vrm", baked)
    assert tree(tmp_path / "kept.vrm")["extensions"] == springs
    save(tmp_path / "soft.vrm", baked, drop_springs=True)
    wanted = copy.deepcopy(VRM_0)
    wanted["VRM"]["secondaryAnimation"]["boneGroups"] = [
        {"comment": "both", "stiffiness": 1, "bones": [5]},
        {"comment": "none", "bones": []},  # was empty before
    ]
    assert tree(tmp_path / "soft.vrm")["extensions"] == wanted


def test_springs_that_move_no_flesh_are_no_warning(tmp_path):
    springs = copy.deepcopy(VRM_1)
    del springs["VRMC_springBone"]["springs"][0]
    source = vrm_file(tmp_path / "hero.vrm", springs)
    figures = save(tmp_path / "soft.vrm", with_flesh(load(source)))
    assert "springs" not in figures
    assert tree(tmp_path / "soft.vrm")["extensions"] == springs


def test_an_expression_of_vrm_0_moves_all_copies_of_a_mesh_that_was_shared(tmp_path):
    face = copy.deepcopy(VRM_0)
    del face["VRM"]["secondaryAnimation"]
    source = vrm_file(tmp_path / "hero.vrm", face, shown_twice=True)
    save(tmp_path / "soft.vrm", with_flesh(quietly(source)))
    after = tree(tmp_path / "soft.vrm")
    shown = {node["mesh"] for node in after["nodes"] if "mesh" in node}
    vrm = after["extensions"]["VRM"]
    binds = vrm["blendShapeMaster"]["blendShapeGroups"][0]["binds"]
    assert {(each["mesh"], each["index"]) for each in binds} == {(mesh, 1) for mesh in shown}
    assert {each["mesh"] for each in vrm["firstPerson"]["meshAnnotations"]} == shown


def test_names_of_shapes_that_stand_at_primitives_grow_with_them(tmp_path):
    b = tail_builder(seconds=0.5)
    (mesh,) = b.json["meshes"]
    mesh["primitives"][0]["extras"] = mesh.pop("extras")
    b.save_glb(tmp_path / "hero.glb")
    figures = save(tmp_path / "soft.glb", with_flesh(load(tmp_path / "hero.glb")))
    named = tree(tmp_path / "soft.glb")["meshes"][0]["primitives"][0]["extras"]["targetNames"]
    assert named[:2] == ["belly", "cheek"]
    assert len(named) == 2 + figures["n_shapes"]


def test_curves_of_joints_that_springs_move_are_a_warning_too(tmp_path):
    source, target = vrm_file(tmp_path / "hero.vrm", VRM_1), tmp_path / "curves.vrm"
    with spring_engine() as engine:
        curves = supple.curves(
            load(source), engine=engine, free=["tail_*.r*"], anatomy=None, push=0.2
        )
    with pytest.warns(SuppleWarning, match='the VRM spring "Tail" moves') as told:
        save(target, curves, keys="linear", error=0.01)
    assert len(told) == 1  # though keys are chosen in two tries
    assert tree(target)["extensions"] == VRM_1
    save(target, curves, drop_springs=True)
    left = [each["name"] for each in tree(target)["extensions"]["VRMC_springBone"]["springs"]]
    assert left == ["Hat"]
    remove_curves(target, target)
    assert target.read_bytes() == source.read_bytes()


def test_files_without_vrm_data_cannot_be_saved_as_vrm(tmp_path):
    source = vrm_file(tmp_path / "hero.glb", {"OTHER_extension": {}})
    with pytest.raises(SuppleError, match="hero is not a VRM"):
        check_target(tmp_path / "soft.vrm", load(source))


@pytest.mark.parametrize(
    "odd",
    [
        {"VRM": 7},
        {"VRM": {"blendShapeMaster": [], "secondaryAnimation": {"boneGroups": [1, {"bones": 3}]}}},
        {"VRM": {"secondaryAnimation": {"boneGroups": [{"bones": [99, "x", -1]}]}}},
        {"VRMC_springBone": {"springs": [{"joints": [{"node": "x"}, 3]}, None]}},
        {"VRM": {"firstPerson": 3}},
        {"VRM": {"secondaryAnimation": {"boneGroups": [{"bones": []}]}}},
        {"VRMC_springBone": {"springs": []}},
    ],
)
def test_extensions_of_any_form_are_kept(tmp_path, odd):
    source = vrm_file(tmp_path / "odd.vrm", odd, shown_twice=True)
    save(tmp_path / "soft.vrm", with_flesh(quietly(source)), drop_springs=True)
    assert tree(tmp_path / "soft.vrm")["extensions"] == odd


def test_the_command_bakes_a_vrm_into_a_vrm(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    springs = copy.deepcopy(VRM_1)  # whose first begins where flesh is
    springs["VRMC_springBone"]["springs"][0]["joints"].insert(0, {"node": 1})
    vrm_file(tmp_path / "hero.vrm", springs)
    words = ["--tets", "300", "--modes", "6", "--poses", "1", "--drop-springs"]
    done = run_here("bake", "hero.vrm", *words, "--json")
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert (figures["output"], figures["springs"]) == ("hero_soft.vrm", ["Tail"])
    del springs["VRMC_springBone"]["springs"][0]
    assert tree(tmp_path / "hero_soft.vrm")["extensions"] == springs
    refused = run_here("bake", "hero.vrm", "-o", "x.npz", "--drop-springs")
    assert "--drop-springs is for .glb, .gltf, .vrm" in refused.stderr
