"""Obstacles in files: nodes of glTF and prims of USD, moved by the same animation."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supple
from helpers.baked_samples import swinging_x
from helpers.gltf_validation import new_issues
from helpers.obstacle_samples import flight, with_ground_and_ball
from helpers.tail_file import tail_file
from supple.errors import SuppleWarning
from supple.formats import remove_flesh
from supple.formats.gltf.gltf_file import open_embedded
from supple.formats.registry import FLESH
from supple.rig.baked_motion import BakedMotion
from supple.rig.character import Character


def loaded(path: Path) -> Character:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SuppleWarning)
        return supple.load(path)


def with_flesh(character: Character, count: int = 8) -> BakedMotion:
    """The first clip, with skin that swings."""
    clip = next(iter(character.motions.values()))
    motion = clip.slice(clip.times[0], clip.times[-1]).resample((count - 1) / clip.duration)
    still = BakedMotion(character, motion, np.empty(0, np.float32), 20.0)
    places, size = character.surface.vertices, character.surface.size
    frames = [
        still.rig_frame(k) + 0.02 * size * np.sin(7 * places / size) * np.sin(2 * k)
        for k in range(motion.n_frames)
    ]
    return BakedMotion(character, motion, np.array(frames, np.float32), 20.0)


def tree(path: Path) -> dict[str, Any]:
    return open_embedded(path, path.read_bytes()).json


def values(path: Path, accessor: int) -> np.ndarray:
    """Floats of an accessor without a stride."""
    file = open_embedded(path, path.read_bytes())
    each = file.part("accessors")[accessor]
    start = file.part("bufferViews")[each["bufferView"]]["byteOffset"]
    width = {"SCALAR": 1, "VEC3": 3, "VEC4": 4}[each["type"]]
    count = each["count"] * width
    return np.frombuffer(bytes(file.binary), "<f4", count, start).reshape(-1, width)


def saved(path: Path, baked: Any, **options: Any) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SuppleWarning)
        supple.save(path, baked, **options)
    return path


def test_obstacles_are_nodes_that_the_same_animation_moves(tmp_path):
    source = tail_file(tmp_path / "tail.glb")
    baked = with_ground_and_ball(with_flesh(loaded(source)))
    plain = tree(saved(tmp_path / "plain.glb", baked))
    path = saved(tmp_path / "with.glb", baked, with_obstacles=True)
    found = tree(path)
    assert len(found["animations"]) == len(plain["animations"])
    names = [node.get("name") for node in found["nodes"]]
    assert names[len(plain["nodes"]) :] == ["obstacle 0", "ball"]
    assert found["nodes"][: len(plain["nodes"])] == plain["nodes"]
    assert found["meshes"][: len(plain["meshes"])] == plain["meshes"]
    ball = names.index("ball")
    assert found["scenes"][0]["nodes"][-2:] == [ball - 1, ball]
    animation = found["animations"][0]
    moved = {
        channel["target"]["path"]: animation["samplers"][channel["sampler"]]
        for channel in animation["channels"]
        if channel["target"]["node"] == ball
    }
    assert set(moved) == {"translation", "rotation"}
    unit = baked.character.metres_per_unit
    goal = flight(baked.n_frames, baked.character.surface.size) / unit
    assert np.allclose(values(path, moved["translation"]["output"]), goal, atol=1e-5)
    still = [c for c in animation["channels"] if c["target"]["node"] == ball - 1]
    assert not still, "the ground does not move"


@pytest.mark.parametrize("suffix", [".glb", ".gltf"])
def test_removing_flesh_removes_obstacles_and_a_second_bake_repeats_none(tmp_path, suffix):
    source = tail_file(tmp_path / "tail.glb")
    once = saved(
        tmp_path / f"once{suffix}",
        with_ground_and_ball(with_flesh(loaded(source))),
        with_obstacles=True,
    )
    again = with_ground_and_ball(with_flesh(loaded(once)))
    twice = saved(tmp_path / f"twice{suffix}", again, with_obstacles=True)
    assert twice.read_bytes() == once.read_bytes()
    back = tmp_path / "back.glb"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SuppleWarning)
        remove_flesh(back, once)
    assert back.read_bytes() == source.read_bytes()


def test_obstacles_are_removed_by_their_marks_from_a_file_that_was_saved_again(tmp_path):
    source = tail_file(tmp_path / "tail.glb")
    once = saved(
        tmp_path / "once.glb",
        with_ground_and_ball(with_flesh(loaded(source))),
        with_obstacles=True,
    )
    file = open_embedded(once, once.read_bytes())
    for holder in (file.json, file.json["asset"]):  # the record of the original is lost
        holder.get("extras", {}).pop(FLESH, None)
    again = tmp_path / "again.glb"
    again.write_bytes(file.to_bytes(again))
    with pytest.warns(SuppleWarning, match="shapes are removed by their names"):
        character = supple.load(again)
    assert len(character.surface.vertices) == len(loaded(source).surface.vertices)
    assert np.allclose(character.surface.bounds, loaded(source).surface.bounds)


def test_several_motions_share_nodes_and_hide_what_they_do_not_have(tmp_path):
    source = tail_file(tmp_path / "tail.glb")
    first = with_ground_and_ball(with_flesh(loaded(source)))
    character = first.character
    motion = type(first.motion)(first.motion.times, first.motion.poses, first.motion.roots, "other")
    second = BakedMotion(character, motion, first.frames, 20.0, obstacles=first.obstacles[:1])
    path = saved(tmp_path / "two.glb", [first, second], with_obstacles=True)
    found = tree(path)
    names = [node.get("name") for node in found["nodes"]]
    assert names.count("ball") == names.count("obstacle 0") == 1
    ball = names.index("ball")
    scales = [
        values(path, animation["samplers"][channel["sampler"]]["output"])
        for animation in found["animations"]
        for channel in animation["channels"]
        if channel["target"] == {"node": ball, "path": "scale"}
    ]
    assert [float(each.max()) for each in scales] == [1.0, 0.0]


def test_khronos_finds_nothing_wrong_with_obstacles(tmp_path):
    source = tail_file(tmp_path / "tail.glb")
    baked = with_ground_and_ball(with_flesh(loaded(source)))
    path = saved(tmp_path / "with.glb", baked, with_obstacles=True)
    assert not new_issues(source, path)
    new = saved(tmp_path / "x.glb", with_ground_and_ball(swinging_x()), with_obstacles=True)
    assert not new_issues(saved(tmp_path / "plain.glb", swinging_x()), new)


def test_a_motion_without_obstacles_says_so_and_other_formats_have_no_such_option(tmp_path):
    baked = swinging_x()
    with pytest.warns(SuppleWarning, match="baked without any"):
        supple.save(tmp_path / "x.glb", baked, with_obstacles=True)
    with pytest.raises(supple.SuppleError, match='no option "with_obstacles"'):
        supple.save(tmp_path / "x.npz", baked, with_obstacles=True)


# USD


@pytest.fixture
def two_clips(tmp_path) -> Path:
    pytest.importorskip("pxr", reason="USD comes with the extra supple[usd]")
    from helpers.usd_samples import TWO_CLIPS

    (tmp_path / "two.usda").write_text(TWO_CLIPS)
    return tmp_path / "two.usda"


def test_obstacles_are_prims_of_a_layer_and_removed_with_it(two_clips):
    from pxr import Usd, UsdGeom

    from helpers.usd_samples import complaints

    baked = with_ground_and_ball(with_flesh(loaded(two_clips), 7))
    path = saved(two_clips.with_name("soft.usda"), baked, with_obstacles=True)
    assert complaints(path) <= complaints(two_clips)
    stage = Usd.Stage.Open(str(path))
    ground, ball = stage.GetPrimAtPath("/supple_obstacles").GetChildren()
    assert not UsdGeom.Xformable(ground).GetTimeSamples()
    codes = UsdGeom.Xformable(ball).GetTimeSamples()
    assert len(codes) == baked.n_frames
    outward = baked.character.source.from_stage
    goal = flight(baked.n_frames, baked.character.surface.size)
    for k, code in enumerate(codes):
        place = np.array(UsdGeom.XformCache(code).GetLocalToWorldTransform(ball)).T
        assert np.allclose((outward @ place)[:3, 3], goal[k], atol=1e-5)
    again = with_ground_and_ball(with_flesh(loaded(path), 7))
    twice = saved(two_clips.with_name("twice.usda"), again, with_obstacles=True)
    assert twice.read_bytes() == path.read_bytes()
    remove_flesh(two_clips.with_name("back.usda"), path)
    assert two_clips.with_name("back.usda").read_bytes() == two_clips.read_bytes()


def test_a_new_stage_holds_the_obstacles_beside_the_skin(tmp_path):
    pytest.importorskip("pxr", reason="USD comes with the extra supple[usd]")
    from pxr import Usd

    baked = with_ground_and_ball(swinging_x())
    path = saved(tmp_path / "x.usdc", baked, with_obstacles=True)
    stage = Usd.Stage.Open(str(path))
    held = stage.GetDefaultPrim().GetChild("supple_obstacles").GetChildren()
    assert [each.GetName() for each in held] == ["obstacle_0_0", "ball_1"]
