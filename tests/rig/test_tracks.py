"""Tracks: values as glTF defines them, and smooth curves near them for inertial forces."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation, Slerp

from supple.errors import SuppleError
from supple.maths.rotations import inverse, logarithm, multiply, nearest_vectors
from supple.rig import JointPose, Skeleton
from supple.rig.motion.motion import Motion
from supple.rig.motion.motion_tracks import (
    ROOT,
    MotionTracks,
    RootPolicy,
    TrackSpace,
    joint_reach,
    sampled_tracks,
)
from supple.rig.motion.retarget import retarget
from supple.rig.motion.tracks import Track

ITEM = np.array([0])


def turns(angles, axis=(0.0, 0.0, 1.0)):
    return Rotation.from_rotvec(np.outer(angles, axis)).as_quat()[:, None]


def angles_apart(a, b):
    return np.linalg.norm(logarithm(multiply(inverse(a), b)), axis=-1)


def arm_tracks(*tracks, size=2.0):
    arm = Skeleton(["upper", "fore"], [-1, 0], [[0, 0, 0], [1, 0, 0]])
    policy = RootPolicy(arm, -1, ITEM, np.empty(0, np.int64))
    pose = JointPose(arm, translating=["upper"])
    none = np.zeros(0)
    space = TrackSpace(pose, policy, np.zeros(3), none, joint_reach(arm), none, size)
    return MotionTracks(space, tracks)


def motion_of(tracks, times):
    poses, roots = tracks.sample(np.asarray(times, float))
    return Motion(times, poses, roots, "swing", tracks=tracks)


def test_rotations_go_the_shorter_way_at_a_steady_speed_whatever_the_signs_of_keys():
    times = np.array([0.0, 0.5, 2.0])
    keys = Rotation.random(3, random_state=1)
    values = keys.as_quat()[:, None]
    values[1] *= -1
    found = Track("rotation", ITEM, "LINEAR", times, values).at(np.linspace(-1, 3, 50))[:, 0]
    exact = Slerp(times, keys)(np.clip(np.linspace(-1, 3, 50), 0, 2)).as_quat()
    assert angles_apart(found, exact).max() < 1e-7


def test_a_step_holds_until_its_key():
    track = Track("translation", ITEM, "STEP", np.array([0.0, 1.0]), np.eye(2, 3)[:, None])
    assert track.at(np.array([0.999999, 1.0]))[:, 0, 0].tolist() == [1.0, 0.0]


def test_cubic_tangents_are_scaled_by_the_gap():
    """A parabola x = t² over a gap of 2 s has the slopes 0 and 4."""
    values = np.zeros((2, 3, 1, 3))
    values[:, 1, 0, 0], values[0, 2, 0, 0], values[1, 0, 0, 0] = [0, 4], 0, 4
    track = Track("translation", ITEM, "CUBICSPLINE", np.array([0.0, 2.0]), values)
    np.testing.assert_allclose(track.at(np.array([0.5, 1.0]))[:, 0, 0], [0.25, 1.0])


@pytest.mark.parametrize("degrees", [20, 60, 120, 170])
def test_three_turns_are_smoothed_as_turns(degrees):
    count = 1080 // degrees + 1
    times, angles = np.arange(count) * degrees / 360, np.radians(degrees * np.arange(count))
    track = Track("rotation", ITEM, "LINEAR", times, turns(angles))
    smooth = track.smoothed(np.ones(1), 0.02, np.empty(0))
    when = np.linspace(0, times[-1], 2001)
    assert angles_apart(smooth.at(when)[:, 0], track.at(when)[:, 0]).max() <= 0.02
    # A steady turn needs no acceleration beyond what the tolerance costs.
    speed = angles_apart(smooth.at(when[:-1])[:, 0], smooth.at(when[1:])[:, 0]) / np.diff(when)
    np.testing.assert_allclose(speed, 2 * np.pi, rtol=0.35 if degrees == 170 else 0.2)


@pytest.mark.parametrize("tolerance", [0.002, 0.01, 0.2])
def test_smooth_curves_pass_through_the_keys_and_stay_within_the_tolerance(tolerance):
    rng = np.random.default_rng(3)
    times = np.cumsum(rng.uniform(0.1, 0.3, 30))
    values = np.cumsum(rng.normal(scale=0.1, size=(30, 4, 3)), axis=0)
    track = Track("translation", np.arange(4), "LINEAR", times, values)
    smooth = track.smoothed(np.ones(4), tolerance, np.empty(0))
    np.testing.assert_allclose(smooth.at(times), track.at(times), atol=1e-12)
    when = np.linspace(times[0], times[-1], 60_000)
    away = np.linalg.norm(smooth.at(when) - track.at(when), axis=2).max()
    # Compared at five points of a gap: a little more may lie between them.
    assert away <= 1.1 * tolerance
    h = when[1] - when[0]
    second = np.diff(smooth.at(when), 2, axis=0) / h**2
    # C²: the acceleration changes by little from a sample to the next, at the keys as well.
    assert np.abs(np.diff(second, axis=0)).max() < 0.1 * np.abs(second).max()


def test_dense_samples_of_a_smooth_motion_are_followed_far_within_the_tolerance():
    times = np.arange(61) / 30
    track = Track("rotation", ITEM, "LINEAR", times, turns(np.sin(3 * times)))
    smooth = track.smoothed(np.ones(1), 0.01, np.empty(0))
    when = np.linspace(0, 2, 3001)
    exact = turns(np.sin(3 * when))[:, 0]
    inside = (when > 0.1) & (when < 1.9)
    assert angles_apart(smooth.at(when)[:, 0], exact)[inside].max() < 2e-5
    assert angles_apart(track.at(when)[:, 0], exact).max() > 1e-3


def test_steps_and_near_keys_stay_jumps():
    near = np.nextafter(np.float32(1.0), np.float32(2.0))
    times = np.array([0.0, 0.5, 1.0, float(near), 1.5, 2.0])
    values = np.zeros((6, 1, 3))
    values[3:] = 1.0
    track = Track("translation", ITEM, "LINEAR", times, values)
    tracks = arm_tracks(track)
    np.testing.assert_array_equal(tracks.jumps, [near])
    smooth = tracks.smoothed(np.empty(0))
    places = smooth.tracks[0].at(np.linspace(0, 2, 401))[:, 0, 0]
    assert set(np.round(places, 9).tolist()) == {0.0, 1.0}  # no overshoot on either side
    stepped = Track("translation", ITEM, "STEP", times[[0, 4]], values[[0, 4]])
    assert arm_tracks(stepped).jumps.tolist() == [1.5]
    assert arm_tracks(stepped).smoothed(np.empty(0)).tracks[0] is stepped


def test_a_step_beside_a_line_leaves_the_line_smooth():
    times = np.arange(5) / 2
    line = Track("rotation", ITEM, "LINEAR", times, turns(np.array([0, 1, 0, 1, 0.0])))
    step = Track("rotation", np.array([1]), "STEP", times, turns(np.array([0, 2, 0, 2, 0.0])))
    motion = motion_of(arm_tracks(line, step), times)
    alone = motion_of(arm_tracks(line), times)
    when = np.linspace(0, 2, 501)
    np.testing.assert_array_equal(motion.smooth.at(when)[0][:, :3], alone.smooth.at(when)[0][:, :3])
    np.testing.assert_allclose(motion.jumps, times[1:])


def test_nothing_moves_without_tracks():
    motion = motion_of(arm_tracks(), [0.0, 1.0])
    np.testing.assert_array_equal(motion.smooth.at(0.5)[0], np.zeros(9))


def test_one_key_holds_and_is_smooth():
    motion = motion_of(
        arm_tracks(Track("rotation", ITEM, "LINEAR", np.zeros(1), turns([1.0]))), [0]
    )
    np.testing.assert_allclose(motion.smooth.at(0.0)[0][:3], [0, 0, 1])


def test_a_joint_swings_through_half_a_turn_without_a_jump_of_its_pose():
    times = np.linspace(0, 2, 25)
    angles = np.pi + 1.2 * np.sin(np.pi * times)
    tracks = arm_tracks(Track("rotation", ITEM, "LINEAR", times, turns(angles)))
    motion = motion_of(tracks, times)
    when = np.linspace(0, 2, 1001)
    for played in (motion, motion.smooth):
        found = played.at(when)[0][:, 2]
        assert np.abs(np.diff(found)).max() < 0.02
    assert abs(found[0]) == pytest.approx(np.pi, abs=1e-6)


def test_any_times_give_what_the_whole_list_gives():
    times = np.linspace(0, 2, 25)
    tracks = arm_tracks(Track("rotation", ITEM, "LINEAR", times, turns(3 * times)))
    motion = motion_of(tracks, times)
    when = np.linspace(0, 2, 101)
    alone = np.stack([motion.at(each)[0] for each in when])
    np.testing.assert_allclose(alone, motion.at(when)[0], atol=1e-12)


def test_samples_of_a_turning_root_are_joined_by_turns():
    arm = Skeleton(["upper", "fore"], [-1, 0], [[0, 1, 0], [1, 0, 0]])
    times = np.array([0.0, 1.0])
    roots = np.tile(np.eye(4), (2, 1, 1))
    roots[1, :3, :3] = Rotation.from_rotvec([0, 2.0, 0]).as_matrix()
    roots[1, :3, 3] = [3, 0, 0]
    tracks = sampled_tracks(JointPose(arm), times, np.zeros((2, 6)), roots)
    root = tracks.sample(np.array([0.25]))[1][0]
    exact = Rotation.from_rotvec([0, 0.5, 0]).as_matrix()
    np.testing.assert_allclose(root[:3, :3], exact, atol=1e-12)
    # The pivot, the first joint's place, goes straight.
    np.testing.assert_allclose(root[:3, :3] @ [0, 1, 0] + root[:3, 3], [0.75, 1, 0], atol=1e-12)
    assert [track.items.tolist() for track in tracks.tracks] == [[ROOT], [ROOT]]


@pytest.mark.parametrize("walks", [False, True])
def test_a_cycle_is_smooth_across_its_ends(walks):
    times = np.linspace(0, 1, 13)
    bend = Track("rotation", np.array([1]), "LINEAR", times, turns(np.sin(2 * np.pi * times)))
    places = np.zeros((13, 1, 3))
    places[:, 0, 0] = walks * times
    tracks = arm_tracks(bend, Track("translation", ITEM, "LINEAR", times, places))
    tracks.space.split.joint = 0
    motion = motion_of(tracks, times)
    moved = np.eye(4)
    moved[0, 3] = float(walks)
    cycle = motion.repeated(moved)
    h = 1e-3
    poses, roots = cycle.at([0.0, h, 1 - h, 1.0])
    np.testing.assert_allclose(poses[1] - poses[0], poses[3] - poses[2], atol=2e-5)
    np.testing.assert_allclose(moved @ roots[0], roots[3], atol=1e-9)
    np.testing.assert_allclose(roots[1] - roots[0], roots[3] - roots[2], atol=2e-5)


def test_equivalent_rotation_vectors_are_brought_near():
    rng = np.random.default_rng(2)
    vectors, near = rng.normal(size=(50, 3)), 4 * rng.normal(size=(50, 3))
    found = nearest_vectors(vectors, near)
    same = Rotation.from_rotvec(found).inv() * Rotation.from_rotvec(vectors)
    assert same.magnitude().max() < 1e-7
    axes = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    for turn in (-2 * np.pi, 2 * np.pi):
        others = np.linalg.norm(found + turn * axes - near, axis=1)
        assert (np.linalg.norm(found - near, axis=1) <= others + 1e-9).all()


def test_a_track_of_another_shape_is_refused():
    with pytest.raises(SuppleError, match="values of a track have shape"):
        Track("rotation", ITEM, "LINEAR", np.zeros(1), np.zeros((1, 1, 3)))


def test_dense_samples_of_a_fast_motion_are_no_jumps():
    """At 600 keys a second the gaps are short, but no shorter than those beside them."""
    times = np.arange(601) / 600
    track = Track("rotation", ITEM, "LINEAR", times, turns(3 * np.sin(6 * times)))
    assert not len(arm_tracks(track).jumps)


def test_a_smooth_motion_can_be_looped_and_resampled():
    times = np.linspace(0, 1, 13)
    tracks = arm_tracks(Track("rotation", ITEM, "LINEAR", times, turns(np.sin(2 * np.pi * times))))
    motion = motion_of(tracks, times)
    when = np.linspace(0, 1, 31)
    cycle = motion.smooth.repeated(np.eye(4)).at(when)[0]
    np.testing.assert_array_equal(cycle, motion.repeated(np.eye(4)).at(when)[0])
    assert np.ptp(cycle[:, 2]) > 1
    assert np.ptp(motion.smooth.resample(30).poses[:, 2]) > 1


def test_a_long_chain_stays_within_two_percent_together():
    count = 16
    tail = Skeleton(
        [f"t{k}" for k in range(count)], np.arange(-1, count - 1), [[0.1, 0, 0]] * count
    )
    times = np.arange(9) / 8
    values = turns(0.5 * (-1.0) ** np.arange(9))
    none = np.zeros(0)
    policy = RootPolicy(tail, -1, ITEM, np.empty(0, np.int64))
    space = TrackSpace(JointPose(tail), policy, np.zeros(3), none, joint_reach(tail), none, 1.6)
    track = Track("rotation", np.arange(count), "LINEAR", times, np.repeat(values, count, axis=1))
    tracks = MotionTracks(space, (track,))
    smooth, when = tracks.smoothed(np.empty(0)), np.linspace(0, 1, 301)
    one, two = (tail.world(*each.local_transforms(when))[..., :3, 3] for each in (tracks, smooth))
    assert np.linalg.norm(one - two, axis=-1).max() <= 0.025 * 1.6
    loose = tracks._smoothed(np.empty(0), 0.01)
    far = np.linalg.norm(one - tail.world(*loose.local_transforms(when))[..., :3, 3], axis=-1)
    assert far.max() > 0.03 * 1.6


def test_tracks_of_another_rig_are_refused():
    times = np.linspace(0, 1, 3)
    tracks = arm_tracks(Track("rotation", ITEM, "LINEAR", times, turns(times)))
    with pytest.raises(SuppleError, match="a pose has 5 numbers, but its tracks have 9"):
        Motion(times, np.zeros((3, 5)), tracks=tracks)


def test_a_retargeted_motion_keeps_its_steps():
    times = np.array([0.0, 1.0, 2.0])
    arm = Skeleton(["upper", "fore"], [-1, 0], [[0, 0, 0], [1, 0, 0]])
    pose, values = JointPose(arm), turns(np.radians([0, 60, 0]))
    none = np.zeros(0)
    policy = RootPolicy(arm, -1, ITEM, np.empty(0, np.int64))
    space = TrackSpace(pose, policy, np.zeros(3), none, joint_reach(arm), none, 2.0)
    track = Track("rotation", np.array([1]), "STEP", times, values)
    motion = motion_of(MotionTracks(space, (track,)), times)
    same = retarget(motion, pose, pose, {"upper": "upper", "fore": "fore"})
    for time, angle in ((0.5, 0), (1.0, 60), (1.5, 60), (2.0, 0)):
        assert np.degrees(same.at(time)[0][5]) == pytest.approx(angle, abs=1e-6)
    assert len(same.jumps) == 2


def spinning(static=True):
    """A root that walks, hips that turn fully, and a prop that nothing moves."""
    names, parents = ["root", "hips", "chest", "world"], [-1, 0, 1, -1]
    skeleton = Skeleton(names, parents, [[0, 0, 0], [0, 1, 0], [0, 1, 0], [3, 0, 0]])
    count = 25
    moves = np.repeat(skeleton.translations[None], count, axis=0)
    moves[:, 0, 0] = np.linspace(0, 1, count)
    spun = np.repeat(skeleton.rotations[None], count, axis=0)
    spun[:, 1] = turns(np.linspace(0, 2 * np.pi, count), (0, 1, 0))[:, 0]
    local = moves, spun, np.ones((count, 4, 3))
    weight = np.array([0.0, 40, 60, 5 if static else 0])
    return skeleton, local, RootPolicy.chosen(skeleton, [local], weight, 3.0)


@pytest.mark.parametrize("static", [False, True])
def test_hips_that_turn_fully_are_the_root_and_leave_props_where_they_are(static):
    skeleton, local, policy = spinning(static)
    assert policy.joint == 1
    (moves, spun, scales), roots = policy.split(local)
    again = roots[:, None] @ skeleton.world(moves, spun, scales)
    true = skeleton.world(*local)
    carried = [1, 2, 3] if static else [1, 2]
    np.testing.assert_allclose(again[:, carried], true[:, carried], atol=1e-9)
    # The pose of the body is at rest: all of its motion is the root's.
    np.testing.assert_allclose(moves[:, :3], np.repeat(skeleton.translations[None, :3], 25, 0))
    assert angles_apart(spun[:, :3], skeleton.rotations[:3]).max() < 1e-7
