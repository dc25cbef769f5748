"""Several baked motions share shapes in one file; where a file holds one, each has its own."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import supple
from helpers.baked_samples import swinging_x
from helpers.gltf_builder import skinned_octahedron, turn
from helpers.gltf_reference import Reference
from helpers.gltf_validation import issues, new_issues
from supple.errors import SuppleError, SuppleWarning
from supple.formats.save import clip_targets
from supple.rig.baked_motion import BakedMotion
from supple.rig.character import Character
from supple.rig.motion.motion import Motion

ERROR = 0.002


def loaded(path: Path) -> Character:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SuppleWarning)
        return supple.load(path)


def with_waves(character: Character, motion: Motion, rate: float = 15.0) -> BakedMotion:
    """A motion with waves of 2 % of the size running over the skin, other ones for each name."""
    motion = motion.resample(rate)
    size, places = character.surface.size, character.surface.vertices
    random = np.random.default_rng(sum(map(ord, motion.name)))
    turns = random.normal(size=(3, 3)) * 3 / size
    still = BakedMotion(character, motion, np.empty(0, np.float32), rate)
    frames = [
        still.rig_frame(k) + 0.02 * size * np.sin(places @ turns + 5 * t) * np.sin(4 * t + 0.5)
        for k, t in enumerate(motion.times)
    ]
    return BakedMotion(character, motion, np.array(frames, np.float32), rate)


def farthest(path: Path, baked: BakedMotion, clip: int, every: int = 5) -> float:
    """How far the glTF file, played by an evaluator of its own, is from the baked frames."""
    character, reference = baked.character, Reference(path)
    worst = 0.0
    for frame in range(0, baked.n_frames, every):
        shown = reference.positions(clip, float(np.float32(baked.times[frame])))
        for primitive in character.source.primitives:
            used = primitive.welded >= 0
            there = shown[primitive.node, primitive.primitive][used] * character.metres_per_unit
            off = there - baked.frames[frame][primitive.welded[used]]
            worst = max(worst, float(np.linalg.norm(off, axis=1).max()))
    return worst / character.surface.size


@pytest.mark.parametrize("name", ["Fox", "q_Rat"])
def test_every_clip_of_a_gltf_file_plays_its_own_flesh_with_the_same_shapes(assets, tmp_path, name):
    source = assets / "gltf_characters" / f"{name}.glb"
    character = loaded(source)
    bakes = [with_waves(character, motion) for motion in list(character.motions.values())[:3]]
    figures = supple.save(tmp_path / "soft.glb", bakes)
    assert figures["error"] <= ERROR
    assert figures["animations"] == [baked.motion.name for baked in bakes]
    before, after = Reference(source).json, Reference(tmp_path / "soft.glb").json
    assert [a["name"] for a in after["animations"]] == [a["name"] for a in before["animations"]]
    shapes = max(len(m.get("weights", [])) for m in after["meshes"])
    assert shapes == figures["n_shapes"]
    apart = [supple.save(tmp_path / "one.glb", baked)["n_shapes"] for baked in bakes]
    assert shapes <= sum(apart)
    for baked in bakes:
        clip = character.source.clips[baked.motion.name].animation
        assert farthest(tmp_path / "soft.glb", baked, clip) <= ERROR
        assert farthest(source, baked, clip) > 3 * ERROR
    assert not new_issues(source, tmp_path / "soft.glb")
    again = loaded(tmp_path / "soft.glb")
    assert list(again.motions) == list(character.motions)


def test_a_clip_of_the_file_and_a_motion_it_lacks_go_into_one_file(tmp_path):
    builder = skinned_octahedron()
    builder.animate(3, "rotation", [0, 0.5, 1], [turn(2, 0.3), turn(2, 0.9), turn(1, 0.2)])
    source = builder.save_glb(tmp_path / "in.glb")
    character = loaded(source)
    times = np.linspace(0, 1, 16)
    poses = np.tile(character.rig.rest_pose, (16, 1)) + 0.3 * np.sin(5 * times)[:, None]
    lacking = Motion(times, poses, name="wiggle")
    bakes = [with_waves(character, character.motions["clip"]), with_waves(character, lacking)]
    figures = supple.save(tmp_path / "out.glb", bakes)
    assert figures["new"]
    assert figures["animations"] == ["clip", "wiggle"]
    for number, baked in enumerate(bakes):
        assert farthest(tmp_path / "out.glb", baked, number, every=1) <= ERROR
    assert not new_issues(source, tmp_path / "out.glb")


def test_a_character_from_elsewhere_becomes_a_new_gltf_file_with_all_its_motions(tmp_path):
    first = swinging_x(16)
    other = replace(swinging_x(12, swing=0.05), character=first.character)
    other = replace(other, motion=replace(other.motion, name="leap"))
    figures = supple.save(tmp_path / "x.glb", [first, other])
    assert figures["animations"] == [first.motion.name, "leap"]
    assert not any(issues(tmp_path / "x.glb"))
    character = supple.load(tmp_path / "x.glb", flesh=True)
    assert list(character.motions) == figures["animations"]
    primitive = character.source.primitives[0]
    for baked in (first, other):
        poses, roots = character.source.clips[baked.motion.name].sample(np.float32(baked.times))
        for frame in range(0, baked.n_frames, 5):
            root = roots[frame]
            there = character.rig(poses[frame]) @ root[:3, :3].T + root[:3, 3]
            off = there[primitive.welded] - baked.frames[frame]
            assert np.linalg.norm(off, axis=1).max() <= 1.1 * ERROR * first.character.surface.size


def test_where_a_file_holds_one_motion_each_gets_its_own(tmp_path):
    first = swinging_x(6)
    other = replace(first, motion=replace(first.motion, name="leap"))
    figures = supple.save(tmp_path / "x.npz", [first, other])
    names = [f"x_{first.motion.name}.npz", "x_leap.npz"]
    assert figures["paths"] == [str(tmp_path / name) for name in names]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)
    assert figures["bytes"] == sum(path.stat().st_size for path in tmp_path.iterdir())
    assert supple.save(tmp_path / "one.npz", [first])["path"] == str(tmp_path / "one.npz")


def test_names_of_motions_cannot_escape_the_folder_and_are_distinguished(tmp_path):
    character = swinging_x(2).character
    names = ["../../etc/passwd", "Run|fast", "run fast", "", "..", "é" * 200, "a/b\\c\0d"]
    files = clip_targets(tmp_path / "x.pc2", character, names)
    assert all(file.parent == tmp_path for file in files)
    assert all(len(file.name.encode()) <= 120 for file in files)
    assert len({file.name.lower() for file in files}) == len(names)
    assert [file.name for file in files[:4]] == [
        "x_etc_passwd.pc2", "x_Run_fast.pc2", "x_run_fast_2.pc2", "x_motion.pc2",
    ]  # fmt: skip
    for file in files:
        file.write_bytes(b"")


@pytest.mark.parametrize(
    ("bakes", "what"),
    [
        (lambda one: [], "expected a baked motion, not list"),
        (lambda one: [one, "two"], "expected a baked motion, not str"),
        (lambda one: [one, one], 'motion "flap" is given twice'),
        (lambda one: [one, swinging_x(6, name="y")], "motions of several characters"),
    ],
)
def test_lists_other_than_motions_of_one_character_are_errors(tmp_path, bakes, what):
    with pytest.raises(SuppleError, match=what):
        supple.save(tmp_path / "x.glb", bakes(swinging_x(6)))
    assert not list(tmp_path.iterdir())
