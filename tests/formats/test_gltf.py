"""Real characters evaluate as an independent evaluator says, at any time of any clip."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.gltf_loading import farthest, file_positions, quietly, world
from helpers.gltf_reference import Reference
from supple.errors import SuppleError, SuppleWarning
from supple.formats.gltf.read import skinned_body as gltf_assembly
from supple.formats.load import load

# Welded vertices and clips. Positions alone would give 1759 and 665 for two of them:
# vertices at one place that follow different joints stay apart.
CHARACTERS = {
    "CesiumMan": (2338, 1), "Fox": (290, 3), "RiggedFigure": (130, 1), "q_Cow": (1237, 12),
    "q_Husky": (962, 12), "q_Rat": (1998, 6), "q_Trex": (912, 6), "q_Triceratops": (669, 6),
    "q_Whale": (224, 1), "q_Snake": (815, 4), "q_Puffer": (1237, 6), "q_Beach": (3381, 0),
    "RobotExpressive": (1820, 14), "LeePerrySmith_head": (8844, 0), "hand_left": (1159, 0),
    "mh_heavy_male_jump": (13380, 1), "mh_arm_flex": (2122, 1),
}  # fmt: skip
CLOSED = ("CesiumMan", "Fox", "RiggedFigure", "q_Husky", "q_Trex", "hand_left", "mh_arm_flex")


def box(points: np.ndarray) -> np.ndarray:
    return np.stack([points.min(axis=0), points.max(axis=0)])


def test_every_character_is_expected(assets):
    assert {path.stem for path in (assets / "gltf_characters").glob("*.gl*")} == set(CHARACTERS)


@pytest.mark.parametrize("name", CHARACTERS)
def test_clips_are_right_at_any_time(assets, name):
    path = assets / "gltf_characters" / f"{name}.glb"
    character, reference = quietly(path), Reference(path)
    source = character.source
    assert (len(character.surface.vertices), len(character.motions)) == CHARACTERS[name]
    assert farthest(character, character.surface.vertices, reference.positions(None, 0)) < 1e-6
    random = np.random.default_rng(0)
    for clip in source.clips.values():
        keys = character.motions[clip.name].times
        inside = random.uniform(clip.start, clip.end, 2)
        times = np.array([clip.start - 1, clip.start, keys[len(keys) // 2], *inside, clip.end + 1])
        poses, roots = clip.sample(times)
        rotations = source.joint_pose.unpack(poses[:, : source.joint_pose.n_parameters])[1]
        assert np.abs(np.linalg.norm(rotations, axis=-1) - 1).max() < 1e-12
        for time, pose, root in zip(times, poses, roots, strict=True):
            placed, expected = (
                world(character, pose, root),
                reference.positions(clip.animation, time),
            )
            assert farthest(character, placed, expected) < 1e-6
            everything = np.concatenate(list(expected.values())) * character.metres_per_unit
            np.testing.assert_allclose(
                box(placed), box(everything), atol=1e-6 * character.surface.size
            )


@pytest.mark.parametrize("name", ["CesiumMan", "Fox", "q_Rat", "RobotExpressive", "q_Puffer"])
def test_motions_pass_through_the_keys_of_their_clips(assets, name):
    path = assets / "gltf_characters" / f"{name}.glb"
    character, reference = quietly(path), Reference(path)
    for clip in character.source.clips.values():
        motion = character.motions[clip.name]
        for key in (0, motion.n_frames // 3, motion.n_frames - 1):
            pose, root = motion.at(motion.times[key])
            expected = reference.positions(clip.animation, motion.times[key])
            assert farthest(character, world(character, pose, root), expected) < 1e-6


@pytest.mark.parametrize("name", ["Fox", "q_Cow", "RobotExpressive", "q_Beach"])
def test_welding_changes_nothing_but_the_number_of_vertices(assets, name, monkeypatch):
    path = assets / "gltf_characters" / f"{name}.glb"
    character = quietly(path)
    monkeypatch.setattr(gltf_assembly, "weld", lambda points, *_: np.arange(len(points)))
    apart = quietly(path)
    assert len(apart.surface.vertices) > len(character.surface.vertices)
    poses = [character.rig.rest_pose]
    for motion in character.motions.values():
        poses.append(motion.poses[motion.n_frames // 2])
    for pose in poses:
        one, many = character.rig(pose), apart.rig(pose)
        for number in range(len(character.source.primitives)):
            np.testing.assert_allclose(
                file_positions(character, number, one),
                file_positions(apart, number, many),
                atol=1e-6 * character.surface.size,
            )


@pytest.mark.parametrize("name", CLOSED)
def test_characters_split_at_seams_are_closed_when_welded(assets, name):
    character = quietly(assets / "gltf_characters" / f"{name}.glb")
    kinds = {defect.kind for defect in character.surface.defects()}
    assert not kinds & {"open edges", "non-manifold edges", "inconsistent edges"}
    assert character.surface.volume() > 0


def test_root_motion_is_removed_from_the_pose(assets):
    character = quietly(assets / "gltf_characters" / "mh_heavy_male_jump.glb")
    clip = next(iter(character.source.clips.values()))
    motion = next(iter(character.motions.values()))
    joint = clip.tracks.space.split.joint
    assert character.source.joint_pose.skeleton.names[joint] == "root"
    assert np.abs(motion.poses[:, 3 * joint : 3 * joint + 3]).max() < 1e-12
    assert np.ptp(motion.roots[:, :3, 3], axis=0).max() > 0.5
    assert len(character.source.joint_pose.translating) == 0


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("q_Cow", ["SKIN_SKELETON_INVALID", "16 open edges"]),
        ("RobotExpressive", ["sum to up to 1.755; normalised"]),
        ("Fox", ["79.03 units tall, too much for metres; read as centimetres"]),
    ],
)
def test_quirks_of_real_files_are_reported_and_tolerated(assets, name, words):
    path = assets / "gltf_characters" / f"{name}.glb"
    with pytest.warns(SuppleWarning) as caught:
        character = load(path)
    told = [str(warning.message) for warning in caught]
    assert tuple(told) == character.warnings
    assert all(message.startswith(f"{path.name}: ") for message in told)
    for word in words:
        assert any(word in message for message in told)


def test_centimetres_become_metres(assets):
    fox = quietly(assets / "gltf_characters" / "Fox.glb")
    assert fox.metres_per_unit == 0.01
    np.testing.assert_allclose(
        np.ptp(fox.surface.vertices, axis=0), [0.252, 0.790, 1.547], atol=1e-3
    )


def test_a_sound_file_warns_of_nothing(assets):
    assert load(assets / "gltf_characters" / "CesiumMan.glb").warnings == ()


def test_other_files_are_refused_with_the_known_suffixes(tmp_path):
    with pytest.raises(
        SuppleError, match=r'^a\.ma: cannot read characters from ".ma" files; .*\.glb'
    ):
        load(tmp_path / "a.ma")
