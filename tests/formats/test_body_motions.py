"""Motions of AMASS, hands' clips and .smpl files move bodies as their numbers say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import supple
from helpers.smpl_samples import body_fields, expected, write_body
from supple.dynamics.root_frame import to_world
from supple.errors import FormatError, SuppleWarning
from supple.formats.smpl.body_model import joint_layout
from supple.formats.smpl.body_motion import read_body_motion

RNG = np.random.default_rng(8)
FRAMES = 6
Z_TO_Y = np.array([[1.0, 0, 0], [0, 0, 1], [0, -1, 0]])


def smooth(columns: int) -> np.ndarray:
    """Poses that change little from frame to frame."""
    return 0.3 * RNG.standard_normal(columns) + 0.02 * RNG.standard_normal((FRAMES, columns))


@pytest.fixture
def body(tmp_path):
    def write(joints: int):
        return write_body(tmp_path / f"body{joints}.npz", body_fields(joints))

    return write


def moved(file, motion, frame=3, **options):
    """Return vertices in the world at a frame, and frames per second."""
    character = supple.load(file, motion=motion, **options)
    (found,) = character.motions.values()
    return to_world(found.roots[frame], character.rig(found.poses[frame])), found


@pytest.mark.parametrize("joints", [52, 55])
def test_amass_is_turned_to_y_up_and_keeps_its_numbers(joints, body, tmp_path):
    poses, trans = smooth(3 * joints), RNG.standard_normal((FRAMES, 3))
    rate = "mocap_framerate" if joints == 52 else "mocap_frame_rate"
    told: dict[str, Any] = {"poses": poses, "trans": trans, "betas": np.ones(16), rate: 120.0}
    np.savez(tmp_path / "a.npz", **told)
    found, motion = moved(body(joints), tmp_path / "a.npz")
    wanted = expected(body_fields(joints), poses[3], np.zeros(10), trans[3]) @ Z_TO_Y.T
    np.testing.assert_allclose(found, wanted, atol=1e-12)
    assert motion.rate == pytest.approx(120)
    assert motion.name == "a"


def test_betas_of_the_motion_file_can_be_used(body, tmp_path):
    np.savez(tmp_path / "a.npz", poses=smooth(72), betas=np.linspace(-1, 1, 16), fps=30)
    character = supple.load(body(24), motion=tmp_path / "a.npz", betas="motion")
    told = supple.load(body(24), betas=np.linspace(-1, 1, 16)[:10])
    np.testing.assert_array_equal(character.surface.vertices, told.surface.vertices)


@pytest.mark.parametrize(("source", "target"), [(52, 24), (55, 24), (55, 52), (24, 55), (52, 55)])
def test_joints_are_matched_by_name_between_bodies(source, target, body, tmp_path):
    poses = smooth(3 * source)
    np.savez(tmp_path / "a.npz", poses=poses, mocap_framerate=60)
    theirs, ours = joint_layout(source).names, joint_layout(target).names
    pose = np.zeros((target, 3))
    for k, name in enumerate(ours):
        if name in theirs:
            pose[k] = poses[3].reshape(-1, 3)[theirs.index(name)]
    assert np.count_nonzero(pose.any(axis=1)) >= 22
    found, _ = moved(body(target), tmp_path / "a.npz")
    wanted = expected(body_fields(target), pose, np.zeros(10)) @ Z_TO_Y.T
    np.testing.assert_allclose(found, wanted, atol=1e-12)


def test_parts_of_amass_are_its_poses(tmp_path):
    poses = smooth(165)
    parts: dict[str, Any] = dict(
        zip(
            ("root_orient", "pose_body", "pose_jaw", "pose_eye", "pose_hand"),
            np.split(poses, [3, 66, 69, 75], axis=1),
            strict=True,
        )
    )
    np.savez(tmp_path / "a.npz", mocap_frame_rate=60, **parts)
    np.testing.assert_array_equal(read_body_motion(tmp_path / "a.npz").poses, poses)


def test_a_smpl_file_is_read_in_its_own_words_and_y_up(body, tmp_path):
    poses = smooth(165).reshape(FRAMES, 55, 3)
    poses[:, 0] *= 0.1
    with open(tmp_path / "a.smpl", "wb") as file:
        np.savez(
            file,
            bodyPose=poses[:, :22],
            headPose=poses[:, 22:25],
            leftHandPose=poses[:, 25:40],
            rightHandPose=poses[:, 40:],
            bodyTranslation=np.ones((FRAMES, 3)),
            shapeParameters=np.full(10, 0.5),
            frameRate=24.0,
        )
    found, motion = moved(body(55), tmp_path / "a.smpl", betas="motion")
    wanted = expected(body_fields(55), poses[3], np.full(10, 0.5), np.ones(3))
    np.testing.assert_allclose(found, wanted, atol=1e-12)
    assert motion.rate == pytest.approx(24)
    with pytest.raises(FormatError, match="is a motion"):
        supple.load(tmp_path / "a.smpl")


@pytest.mark.parametrize("flat", [True, False])
def test_hand_clips_are_counted_from_flat_or_mean_and_may_be_components(flat, body, tmp_path):
    fields, poses = body_fields(16), smooth(48)
    np.savez(tmp_path / "a.npz", poses=poses, fps=60, flat_hand_mean=flat)
    base = np.concatenate([np.zeros(3), fields["hands_mean"] * (not flat)])
    found, _ = moved(body(16), tmp_path / "a.npz")
    np.testing.assert_allclose(found, expected(fields, poses[3] + base, np.zeros(10)), atol=1e-12)
    few = smooth(9)
    np.savez(tmp_path / "b.npz", poses=few, fps=60, flat_hand_mean=flat)
    whole = np.concatenate([few[3, :3], few[3, 3:] @ fields["hands_components"][:6]])
    found, _ = moved(body(16), tmp_path / "b.npz")
    np.testing.assert_allclose(found, expected(fields, whole + base, np.zeros(10)), atol=1e-12)


def test_up_can_be_given_and_is_guessed_for_files_not_of_amass(body, tmp_path):
    upright = np.zeros((FRAMES, 72))
    np.savez(tmp_path / "y.npz", poses=upright, fps=30)
    upright[:, 0] = np.pi / 2  # y of the body is z of the world
    np.savez(tmp_path / "z.npz", poses=upright, fps=30)
    assert read_body_motion(tmp_path / "y.npz").up == "y"
    assert read_body_motion(tmp_path / "z.npz").up == "z"
    assert read_body_motion(tmp_path / "z.npz", up="y").up == "y"
    _, motion = moved(body(24), tmp_path / "z.npz")
    np.testing.assert_allclose(motion.roots[0, :3, :3], np.eye(3), atol=1e-12)


def test_real_layouts_stand_on_the_floor_and_agree(assets):
    file = assets / "parametric" / "openbody_1200.npz"
    first, one = moved(file, assets / "motion_smpl" / "cmu_01_01_amass_layout.npz", 0)
    other, two = moved(file, assets / "motion_smpl" / "cmu_01_01_amass_smplx_layout.npz", 0)
    np.testing.assert_allclose(first, other, atol=1e-9)
    assert one.n_frames == 960
    assert two.n_frames == 240
    assert abs(first[:, 1].min()) < 0.02
    assert 1.5 < np.ptp(first[:, 1]) < 1.9


DAMAGE: dict[str, dict[str, Any]] = {
    "no motion": {"a": np.zeros(3)},
    "odd columns": {"poses": np.zeros((4, 71)), "fps": 30},
    "no frames": {"poses": np.zeros((0, 72)), "fps": 30},
    "nan": {"poses": np.full((4, 72), np.nan), "fps": 30},
    "huge": {"poses": np.full((4, 72), 1e30), "fps": 30},
    "text": {"poses": np.array("walk"), "fps": 30},
    "objects": {"poses": np.array([None] * 72, dtype=object), "fps": 30},
    "translations of another": {"poses": np.zeros((4, 72)), "trans": np.zeros((5, 3)), "fps": 30},
    "no rate": {"poses": np.zeros((4, 72)), "fps": 0},
    "a rate of text": {"poses": np.zeros((4, 72)), "fps": "many"},
    "half a face": {
        "root_orient": np.zeros((4, 3)),
        "pose_body": np.zeros((4, 63)),
        "pose_jaw": np.zeros((4, 3)),
    },
    "a hand's": {"poses": np.zeros((4, 48)), "fps": 30},
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_motions_are_refused_in_one_line(damage, body, tmp_path):
    np.savez(tmp_path / "bad.npz", **DAMAGE[damage])
    with pytest.raises(supple.SuppleError, match="bad") as error:
        supple.load(body(24), motion=tmp_path / "bad.npz")
    assert "\n" not in str(error.value)


def test_a_motion_without_a_rate_is_warned_of(tmp_path):
    np.savez(tmp_path / "a.npz", poses=np.zeros((4, 72)))
    with pytest.warns(SuppleWarning, match="no frame rate; 30"):
        assert read_body_motion(tmp_path / "a.npz").rate == 30
    assert read_body_motion(tmp_path / "a.npz", rate=100).rate == 100
