"""Flesh that Supple baked into a glTF file comes off again: on reading, and to the byte."""

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
from helpers.gltf_validation import new_issues
from helpers.spring_engine import spring_engine
from helpers.tail_file import tail_builder, tail_file
from supple.errors import FormatError, SuppleWarning
from supple.formats import remove_curves, remove_flesh
from supple.formats.gltf.gltf_file import GltfFile, open_embedded
from supple.formats.gltf.kept_original import split_binary
from supple.formats.registry import CURVES, FLESH
from supple.rig.baked_motion import BakedMotion
from supple.rig.character import Character
from supple.rig.motion.motion import Motion

FEATURES = ("SimpleSkin-multibin/SimpleSkin.gltf", "SimpleMorph-embedded.gltf")


def loaded(path: Path, **options: Any) -> Character:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SuppleWarning)
        return supple.load(path, **options)


def with_flesh(character: Character, name: str | None = None) -> BakedMotion:
    """The first clip, or rest under another name, with skin that swings."""
    times = np.arange(8) / 20
    clip = next(iter(character.motions.values()), None)
    if clip is None or name is not None:
        rest = np.tile(character.rig.rest_pose, (8, 1))
        clip = Motion(times, rest, np.tile(np.eye(4), (8, 1, 1)), name or "swing")
    times = np.linspace(clip.times[0], clip.times[-1], 8)
    poses, roots = clip.at(times)
    sway = np.sin(7 * character.surface.vertices[:, :1] / character.surface.size)
    frames = [
        (character.rig(pose) + 0.02 * character.surface.size * np.sin(9 * k) * sway)
        @ root[:3, :3].T
        + root[:3, 3]
        for k, (pose, root) in enumerate(zip(poses, roots, strict=True))
    ]
    return BakedMotion(
        character, Motion(times, poses, roots, clip.name), np.array(frames, np.float32), 20.0
    )


def saved(path: Path, baked: BakedMotion, **options: Any) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SuppleWarning)
        supple.save(path, baked, **options)
    return path


def tree(path: Path) -> dict[str, Any]:
    data = path.read_bytes()
    if data[:4] != b"glTF":
        return json.loads(data)
    return json.loads(data[20 : 20 + struct.unpack_from("<I", data, 12)[0]])


def assert_replaced_and_removed(source: Path, folder: Path, suffix: str, **options: Any) -> None:
    """Twice baked equals once baked, in place too; removed equals the original."""
    once = saved(folder / f"once{suffix}", with_flesh(loaded(source)), **options)
    assert FLESH.encode() in once.read_bytes()
    twice = saved(folder / f"twice{suffix}", with_flesh(loaded(once)), **options)
    assert twice.read_bytes() == once.read_bytes()
    saved(twice, with_flesh(loaded(twice)), **options)
    assert twice.read_bytes() == once.read_bytes()
    back = folder / f"back{source.suffix}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SuppleWarning)
        remove_flesh(back, once)
    assert back.read_bytes() == source.read_bytes()


@pytest.mark.parametrize("suffix", [".glb", ".gltf"])
def test_twice_baked_equals_once_baked_and_removed_equals_original_to_the_byte(tmp_path, suffix):
    source = tail_file(tmp_path / "tail.glb")
    assert_replaced_and_removed(source, tmp_path, suffix)
    assert not new_issues(source, tmp_path / f"once{suffix}")


@pytest.mark.parametrize("suffix", [".glb", ".gltf"])
@pytest.mark.parametrize("name", FEATURES)
def test_a_gltf_is_restored_with_inline_or_separate_buffers(assets, tmp_path, name, suffix):
    assert_replaced_and_removed(assets / "gltf_feature_tests" / name, tmp_path, suffix)


def test_a_draco_file_is_compressed_again(assets, tmp_path):
    pytest.importorskip("DracoPy")
    source = next(assets.rglob("*raco/RiggedSimple.gltf"))
    assert_replaced_and_removed(source, tmp_path, ".glb")
    assert "KHR_draco_mesh_compression" not in tree(tmp_path / "once.glb").get("extensionsUsed", [])
    assert "KHR_draco_mesh_compression" in tree(tmp_path / "back.gltf")["extensionsUsed"]


@pytest.mark.parametrize("name", ["shape_key_skinned", "simple_morph"])
def test_real_vrm_files_come_back(assets, tmp_path, name):
    assert_replaced_and_removed(assets / "vrm" / f"{name}.vrm", tmp_path, ".vrm")


@pytest.mark.parametrize("version", [0, 1])
def test_springs_that_were_dropped_come_back(tmp_path, version):
    b = tail_builder(seconds=0.5)
    b.json["extensions"] = (
        {"VRMC_springBone": {"specVersion": "1.0", "springs": [{"joints": [{"node": 2}]}]}}
        if version
        else {"VRM": {"secondaryAnimation": {"boneGroups": [{"bones": [2]}]}}}
    ) | {"VRMC_vrm": {"specVersion": "1.0"}}
    b.json["extensionsUsed"] = list(b.json["extensions"])
    source = b.save_glb(tmp_path / "hero.vrm")
    assert_replaced_and_removed(source, tmp_path, ".vrm", drop_springs=True)
    kept = tree(tmp_path / "once.vrm")["extensions"]
    assert kept != tree(source)["extensions"]


@pytest.mark.parametrize("name", ["q_Rat.glb", "Fox.glb"])
def test_the_record_is_small(assets, tmp_path, name):
    source = assets / "gltf_characters" / name
    once = saved(tmp_path / "once.glb", with_flesh(loaded(source)))
    record = tree(once)["extras"][FLESH]
    text = struct.unpack_from("<I", source.read_bytes(), 12)[0]
    assert record["length"] < 0.4 * text
    assert record["binary"] >= tree(source)["buffers"][0]["byteLength"]
    assert_replaced_and_removed(source, tmp_path, ".glb")


def test_an_image_beside_a_glb_is_included_and_the_original_refers_to_it(tmp_path):
    b = tail_builder(seconds=0.5)
    b.add("images", {"uri": "skin.png"})
    (tmp_path / "skin.png").write_bytes(b"\x89PNG and so on")
    source = b.save_glb(tmp_path / "tail.glb")
    assert_replaced_and_removed(source, tmp_path, ".glb")
    assert "uri" not in tree(tmp_path / "once.glb")["images"][0]
    (tmp_path / "far").mkdir()
    with pytest.warns(SuppleWarning, match=r"needs 'skin\.png', which is missing"):
        remove_flesh(tmp_path / "far" / "back.glb", tmp_path / "once.glb")


def test_odd_bytes_of_a_glb_come_back(tmp_path):
    """Padding that is not zero, a chunk that nobody knows, and spaces in the text."""
    data = tail_file(tmp_path / "tail.glb").read_bytes()
    first, last = split_binary(data)
    body = data[12 : first - 8] + struct.pack("<I", last - first + 4) + data[first - 4 : last]
    body += b"odd!" + struct.pack("<I", 3) + b"ODD?" + b"abc"
    source = tmp_path / "odd.glb"
    source.write_bytes(b"glTF" + struct.pack("<II", 2, 12 + len(body)) + body)
    assert_replaced_and_removed(source, tmp_path, ".glb")


def test_the_character_is_read_without_flesh_and_this_is_reported(tmp_path):
    source = tail_file(tmp_path / "tail.glb")
    baked = with_flesh(supple.load(source))
    once = saved(tmp_path / "once.glb", baked)
    with pytest.warns(SuppleWarning, match=r"^once\.glb: has flesh that Supple baked") as said:
        again = supple.load(once)
    assert len(said) == 1
    assert "\n" not in again.warnings[0]
    original = baked.character
    assert [p.name for p in again.rig.parameters] == [p.name for p in original.rig.parameters]
    assert np.array_equal(again.surface.vertices, original.surface.vertices)
    for name, motion in original.motions.items():
        assert np.array_equal(again.motions[name].poses, motion.poses)
    kept = supple.load(once, flesh=True)
    assert len(kept.rig.parameters) > len(original.rig.parameters)


def test_a_new_animation_goes_with_the_flesh(tmp_path):
    source = tail_file(tmp_path / "tail.glb")
    once = saved(tmp_path / "once.glb", with_flesh(supple.load(source), "sway"))
    assert list(loaded(once, flesh=True).motions) == ["clip", "sway"]
    assert list(loaded(once).motions) == ["clip"]


def test_files_without_flesh_and_unknown_names_are_one_line_errors(tmp_path):
    source = tail_file(tmp_path / "tail.glb")
    with pytest.raises(FormatError, match="has no flesh from Supple to remove"):
        remove_flesh(tmp_path / "back.glb", source)
    once = saved(tmp_path / "once.glb", with_flesh(supple.load(source)))
    with pytest.raises(FormatError, match=r"the original is a \.glb file; use that suffix"):
        remove_flesh(tmp_path / "back.gltf", once)
    for name in ("x.abc", "x.pc2", "x.mdd", "x.npz"):
        with pytest.raises(FormatError, match="holds only a motion, so there is no original"):
            remove_flesh(tmp_path / name, tmp_path / name)
    with pytest.raises(FormatError, match="with Remove in the add-on"):
        remove_flesh(tmp_path / "x.blend", tmp_path / "x.blend")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["once.glb", "tail.glb"]


# Files that another program has saved: the record is there, or not, and its bytes are gone.


def saved_by_others(
    path: Path, target: Path, change: Any = None, *, extras: bool = True, marks: bool = True
) -> Path:
    """As a program saves a file that keeps extras, or not: only what accessors need, in order."""
    file = open_embedded(path, path.read_bytes())
    described = file.json
    new = GltfFile({key: copy.deepcopy(value) for key, value in described.items()})
    new.json["bufferViews"], new.json["buffers"] = [], []
    for view in described["bufferViews"]:
        begin = view.get("byteOffset", 0)
        rest = {k: v for k, v in view.items() if k not in ("buffer", "byteOffset", "byteLength")}
        new.view(bytes(file.binary[begin : begin + view["byteLength"]]), **rest)
    if not extras:
        del new.json["extras"]
    for mesh in new.json["meshes"] if not marks else ():
        del mesh["extras"][FLESH]
    if change is not None:
        change(new.json)
    target.write_bytes(new.glb())
    return target


def assert_same_character(one: Character, other: Character) -> None:
    assert [p.name for p in one.rig.parameters] == [p.name for p in other.rig.parameters]
    assert np.array_equal(one.rig.rest_pose, other.rig.rest_pose)
    assert list(one.motions) == list(other.motions)
    times = np.linspace(0.001, 1.999, 41)  # on no key, where a step is undecided
    for name in one.motions:
        mine, its = (each.source.clips[name].sample(times) for each in (one, other))
        assert all(np.allclose(a, b, atol=1e-6) for a, b in zip(mine, its, strict=True))


@pytest.mark.parametrize("how", ["LINEAR", "STEP", "CUBICSPLINE"])
@pytest.mark.parametrize("extras", [True, False])
def test_where_the_record_is_lost_shapes_are_removed_by_their_mark(tmp_path, how, extras):
    source = tail_builder(how).save_glb(tmp_path / "tail.glb")
    for name in (None, "sway"):
        once = saved(tmp_path / "once.glb", with_flesh(supple.load(source), name))
        other = saved_by_others(once, tmp_path / "other.glb", extras=extras)
        with pytest.warns(SuppleWarning, match="shapes are removed by their names") as said:
            again = supple.load(other)
        assert len(said) == 1
        assert_same_character(again, supple.load(source))
        # What is baked now has a sound record, of the file without flesh.
        anew = saved(tmp_path / "anew.glb", with_flesh(again, name))
        assert tree(anew)["meshes"][0]["extras"] == tree(once)["meshes"][0]["extras"]
        assert_replaced_and_removed_from(anew, tmp_path, name)


def assert_replaced_and_removed_from(baked: Path, folder: Path, name: str | None) -> None:
    again = saved(folder / "again.glb", with_flesh(loaded(baked), name))
    assert again.read_bytes() == baked.read_bytes()
    remove_flesh(folder / "bare.glb", baked)
    bare = supple.load(folder / "bare.glb")
    assert [p.name for p in bare.rig.parameters][-2:] == ["belly", "cheek"]


def test_shapes_that_an_artist_added_since_stay(tmp_path):
    source = tail_file(tmp_path / "tail.glb")
    once = saved(tmp_path / "once.glb", with_flesh(supple.load(source)))

    def with_smile(described: dict[str, Any]) -> None:
        mesh = described["meshes"][0]
        del described["animations"]  # whose weights would need one more column
        mesh["primitives"][0]["targets"].append(dict(mesh["primitives"][0]["targets"][0]))
        mesh["extras"]["targetNames"].append("smile")
        mesh["weights"].append(0.0)

    other = saved_by_others(once, tmp_path / "other.glb", with_smile)
    names = [p.name for p in loaded(other).rig.parameters]
    assert names[-3:] == ["belly", "cheek", "smile"]


def test_flesh_that_cannot_be_separated_gives_a_warning(tmp_path):
    source = tail_file(tmp_path / "tail.glb")
    once = saved(tmp_path / "once.glb", with_flesh(supple.load(source)))
    other = saved_by_others(once, tmp_path / "other.glb", marks=False)
    with pytest.warns(SuppleWarning, match="can no longer be separated; baking would add to it"):
        supple.load(other)
    with pytest.raises(
        FormatError, match="no longer contains the file from before flesh was added"
    ):
        remove_flesh(tmp_path / "back.glb", other)
    # As files of earlier versions of Supple are, and what Blender saves.
    bare = saved_by_others(once, tmp_path / "bare.glb", extras=False, marks=False)
    with pytest.warns(SuppleWarning, match="'clip soft 1', which Supple may have baked"):
        supple.load(bare)


# Curves and flesh.


@pytest.fixture
def curved(tmp_path):
    """A file with curves, and its original."""
    source = tail_file(tmp_path / "tail.glb")
    with spring_engine() as name:
        curves = supple.curves(
            supple.load(source), engine=name, free=["tail_*.r*"], anatomy=None, push=0.2
        )
    supple.save(tmp_path / "curves.glb", curves)
    return tmp_path / "curves.glb", source, curves


@pytest.mark.parametrize("suffix", [".glb", ".gltf"])
def test_flesh_over_curves_is_removed_first_and_also_with_the_curves(tmp_path, curved, suffix):
    file, source, _ = curved
    assert_replaced_and_removed(file, tmp_path, suffix)
    once = tmp_path / f"once{suffix}"
    assert CURVES not in tree(once)["extras"]
    with pytest.warns(SuppleWarning, match="flesh, added after the curves, removed as well"):
        remove_curves(tmp_path / "bare.glb", once)
    assert (tmp_path / "bare.glb").read_bytes() == source.read_bytes()
    assert_same_character(loaded(once, curves=False), supple.load(source))
    assert_same_character(loaded(once), supple.load(file))


def test_curves_of_a_baked_file_are_made_without_its_flesh(tmp_path, curved):
    file, source, _ = curved
    once = saved(tmp_path / "once.glb", with_flesh(supple.load(source)))
    with spring_engine() as name:
        anew = supple.curves(
            loaded(once, curves=False), engine=name, free=["tail_*.r*"], anatomy=None, push=0.2
        )
    supple.save(tmp_path / "anew.glb", anew)
    assert (tmp_path / "anew.glb").read_bytes() == file.read_bytes()


def test_flesh_under_curves_is_removed_by_its_mark(tmp_path, curved):
    """As somebody makes them who loads a file with its flesh."""
    source = curved[1]
    once = saved(tmp_path / "once.glb", with_flesh(supple.load(source)))
    with spring_engine() as name:
        curves = supple.curves(
            supple.load(once, flesh=True), engine=name, free=["tail_*.r*"], anatomy=None, push=0.2
        )
    both = tmp_path / "both.glb"
    supple.save(both, curves)
    again = loaded(both)
    assert [p.name for p in again.rig.parameters][-2:] == ["belly", "cheek"]
    remove_curves(tmp_path / "back.glb", both)
    assert (tmp_path / "back.glb").read_bytes() == once.read_bytes()
    with pytest.warns(SuppleWarning, match="curves, added after the flesh, removed as well"):
        remove_flesh(tmp_path / "bare.glb", both)
    assert (tmp_path / "bare.glb").read_bytes() == source.read_bytes()


# Records that nobody wrote.


def test_a_hostile_record_is_an_error_without_allocation(tmp_path):
    source = tail_file(tmp_path / "tail.glb")
    once = saved(tmp_path / "once.glb", with_flesh(supple.load(source)))
    good = tree(once)["extras"][FLESH]
    worse: list[dict[str, Any]] = [
        {"head": 2**31},
        {"length": -1},
        {"offset": "0"},
        {"buffer": 7},
        {"binary": 2**30},
        {"sha256": "0" * 64},
        {"length": 10, "head": 10**9},
    ]
    for change in worse:
        file = open_embedded(once, once.read_bytes())
        file.json["extras"][FLESH] = {**good, **change}
        (tmp_path / "bad.glb").write_bytes(file.glb())
        with pytest.raises(FormatError, match="no longer contains"):
            remove_flesh(tmp_path / "back.glb", tmp_path / "bad.glb")
        with pytest.warns(SuppleWarning, match="removed by their names"):
            supple.load(tmp_path / "bad.glb")
