"""Motions: C² between keys, exact at them, cut where they jump, root apart from pose."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy.interpolate import make_smoothing_spline
from scipy.spatial.transform import Rotation, Slerp

from supple.errors import SuppleError, SuppleWarning
from supple.formats.bvh import read_bvh
from supple.formats.gltf.read.gltf import load_gltf
from supple.maths.curves import Curve, graded_times, smoothed
from supple.maths.rotations import (
    RotationCurve,
    between,
    continuous,
    exponential,
    from_matrix,
    inverse,
    logarithm,
    multiply,
    rotate,
    slerp,
    to_matrix,
)
from supple.rig.motion.cuts import detect_cuts
from supple.rig.motion.motion import Motion
from supple.rig.motion.root_motion import extract_root, split_root
from supple.rig.skeleton.joints import Skeleton


def rigid(vectors: np.ndarray, places: np.ndarray) -> np.ndarray:
    roots = np.zeros((len(vectors), 4, 4))
    roots[:, :3, :3] = Rotation.from_rotvec(vectors).as_matrix()
    roots[:, :3, 3] = places
    roots[:, 3, 3] = 1
    return roots


def lively(rate: float, seconds: float = 2.0) -> Motion:
    """A turning, hopping root and three swinging angles, up to 4 Hz."""
    t = np.arange(round(seconds * rate) + 1) / rate
    poses = np.column_stack([np.sin(2 * t), 0.5 * np.sin(13 * t + 1), 0.2 * np.cos(25 * t)])
    vectors = np.column_stack([0.3 * np.sin(7 * t), 2.5 * np.sin(1.5 * t), 0.2 * np.cos(5 * t)])
    places = np.column_stack([1.5 * t, 0.3 * np.cos(9 * t), 0 * t])
    return Motion(t, poses, rigid(vectors, places), "lively")


def linearly_resampled(motion: Motion, rate: float) -> tuple[np.ndarray, np.ndarray]:
    t = motion.times[0] + np.arange(int(motion.duration * rate + 1e-6) + 1) / rate
    t = np.minimum(t, motion.times[-1])
    poses = np.column_stack([np.interp(t, motion.times, column) for column in motion.poses.T])
    roots = np.zeros((len(t), 4, 4))
    turns = Rotation.from_matrix(motion.roots[:, :3, :3])
    roots[:, :3, :3] = Slerp(motion.times, turns)(t).as_matrix()
    for axis in range(3):
        roots[:, axis, 3] = np.interp(t, motion.times, motion.roots[:, axis, 3])
    roots[:, 3, 3] = 1
    return poses, roots


def energy_above(signal: np.ndarray, rate: float, frequency: float) -> float:
    """Energy of the second differences above a frequency, all columns together."""
    accelerations = np.diff(signal, n=2, axis=0) * rate**2
    window = np.hanning(len(accelerations))[:, None]
    spectrum = np.abs(np.fft.rfft(accelerations * window, axis=0)) ** 2
    return float(spectrum[np.fft.rfftfreq(len(accelerations), 1 / rate) > frequency].sum())


# Construction ---------------------------------------------------------------------------------

SCALED = np.diag([2.0, 2, 2, 1])
MIRRORED = np.diag([-1.0, 1, 1, 1])


@pytest.mark.parametrize(
    ("times", "poses", "roots", "cuts", "says"),
    [
        ([], np.zeros((0, 1)), None, (), "at least one"),
        ([0, 1, 1], np.zeros((3, 1)), None, (), "key 2 at 1 s follows 1 s"),
        ([0, 2, 1], np.zeros((3, 1)), None, (), "must increase"),
        ([0, np.nan, 1], np.zeros((3, 1)), None, (), "times: not finite at row 1"),
        ([0, 1], np.zeros((3, 1)), None, (), "poses of shape"),
        ([0, 1], [0, 1], None, (), "poses of shape"),
        ([0, 1], [[0.0], [np.inf]], None, (), "poses: not finite at row 1"),
        ([0, 1], [["a"], ["b"]], None, (), "must be numbers"),
        ([0, 1], np.zeros((2, 1)), np.zeros((2, 3, 4)), (), "roots: shape"),
        ([0, 1], np.zeros((2, 1)), [np.eye(4), SCALED], (), "root 1 is not a rigid transform"),
        ([0, 1], np.zeros((2, 1)), [MIRRORED, np.eye(4)], (), "root 0 is not a rigid transform"),
        ([0, 1], np.zeros((2, 1)), None, (2,), "cut at key 2"),
        ([0, 1], np.zeros((2, 1)), None, (0,), "cut at key 0"),
    ],
)
def test_a_motion_that_cannot_be_is_refused_with_the_place(times, poses, roots, cuts, says):
    with pytest.raises(SuppleError, match=says):
        Motion(times, poses, roots, "x", cuts)


def test_a_motion_does_not_change():
    times, poses = np.array([0.0, 1.0]), np.zeros((2, 3))
    motion = Motion(times, poses)
    times[1] = poses[0] = 7
    assert motion.duration == 1
    assert not motion.poses.any()
    with pytest.raises(ValueError, match="read-only"):
        motion.roots[0, 0, 0] = 2
    with pytest.raises(AttributeError):
        motion.name = "other"  # type: ignore[misc]


def test_roots_of_a_files_precision_are_made_rigid():
    exact = lively(30).roots
    motion = Motion(lively(30).times, lively(30).poses, exact.astype(np.float32).astype(float))
    turns = motion.roots[:, :3, :3]
    assert np.abs(turns @ turns.transpose(0, 2, 1) - np.eye(3)).max() < 1e-14
    assert np.abs(motion.roots - exact).max() < 1e-6
    assert np.abs(motion.at(motion.times)[1] - motion.roots).max() < 1e-14


def test_rate_is_the_usual_gaps_and_a_single_key_has_none():
    assert Motion([0, 0.1, 0.2, 0.9], np.zeros((4, 1))).rate == pytest.approx(10)
    still = Motion([3.0], [[1.0, 2.0]])
    assert (still.rate, still.duration, still.resample(90).n_frames) == (0, 0, 1)
    assert np.array_equal(still.at(3.0)[0], [1.0, 2.0])


# Between keys ---------------------------------------------------------------------------------


def test_a_motion_is_exact_at_its_keys_and_where_resampled_keys_coincide():
    motion = lively(30)
    poses, roots = motion.at(motion.times)
    assert np.array_equal(poses[:-1], motion.poses[:-1])
    assert np.abs(poses[-1] - motion.poses[-1]).max() < 1e-14
    assert np.abs(roots - motion.roots).max() < 1e-14
    fine = motion.resample(90)
    assert np.abs(fine.poses[::3] - motion.poses).max() < 1e-14
    assert np.abs(fine.roots[::3] - motion.roots).max() < 1e-14
    same = motion.resample(30)
    assert np.array_equal(same.times, motion.times)


def test_one_time_gives_one_pose_and_a_time_outside_is_an_error():
    motion = lively(30)
    pose, root = motion.at(0.123)
    many = motion.at([0.123, 0.5])
    assert pose.shape == (3,)
    assert root.shape == (4, 4)
    assert np.array_equal(many[0][0], pose)
    assert np.array_equal(many[1][0], root)
    for time in (-0.1, 2.1, np.nan, "soon"):
        with pytest.raises(SuppleError, match="time"):
            motion.at(time)


def test_pose_and_root_are_c2_at_the_keys():
    """One-sided second differences agree at keys; those of linear interpolation do not."""
    motion = lively(24)
    step = 1e-4
    keys = motion.times[3:-3]

    def jump(at: Callable[[np.ndarray], np.ndarray]) -> float:
        after = at(keys + 2 * step) - 2 * at(keys + step) + at(keys)
        before = at(keys - 2 * step) - 2 * at(keys - step) + at(keys)
        return float(np.abs(after - before).max() / np.abs(after).max())

    assert jump(lambda t: motion.at(t)[0]) < 0.02
    assert jump(lambda t: motion.at(t)[1]) < 0.02
    line = np.diff(motion.poses, axis=0)
    assert np.abs(np.diff(line, axis=0)).max() > 0.1  # there are corners to be rounded


@pytest.mark.parametrize("angle", [0.3, 1.5, 2.0, 3.0])
def test_the_rotation_curve_has_continuous_velocity_and_acceleration(angle):
    """Also where SciPy's own iteration stops short: keys three radians apart."""
    rng = np.random.default_rng(3)
    times = np.cumsum(rng.uniform(0.02, 0.06, 40))
    vectors = rng.normal(size=(40, 3))
    vectors *= angle / np.linalg.norm(vectors, axis=1, keepdims=True)
    keys = [np.array([0.0, 0, 0, 1])]
    for vector in vectors[1:]:
        keys.append(multiply(keys[-1], exponential(vector)))
    curve = RotationCurve(times, keys)
    assert np.abs(to_matrix(curve(times)) - to_matrix(np.array(keys))).max() < 1e-12
    inner, tiny = times[1:-1], 1e-9
    for what in (curve.velocity, curve.acceleration):
        left, right = what(inner - tiny), what(inner + tiny)
        assert np.abs(left - right).max() < 1e-5 * np.abs(right).max()
    # The derivatives are those of the curve itself.
    h, at = 1e-6, times[5] + 0.01
    turn = logarithm(multiply(inverse(curve(at - h)), curve(at + h))) / (2 * h)
    assert np.allclose(turn, curve.velocity(at), atol=1e-5 * np.abs(turn).max())


def test_steady_turning_stays_steady_over_many_turns():
    t = np.arange(60) / 24
    motion = Motion(
        t, np.zeros((60, 1)), rigid(np.outer(9 * t, [0, 0.6, 0.8]), np.outer(t, [1, 2, 3]))
    )
    fine = motion.resample(100)
    exact = rigid(np.outer(9 * fine.times, [0, 0.6, 0.8]), np.outer(fine.times, [1, 2, 3]))
    assert np.abs(fine.roots - exact).max() < 1e-9
    slow = motion.resample(100, smooth=0.2)
    assert np.abs(slow.roots - exact)[60:-60].max() < 1e-6


def test_accelerations_converge_up_to_the_ends():
    """Of a smooth motion, at least with the second power of the gap, root turns included."""

    def error(rate: float) -> float:
        h, times = 1e-3, np.linspace(0.01, 1.99, 500)
        exact = lively(4000)
        total = 0.0
        for part in (0, 1):
            ours, true = (
                (m.at(times + h)[part] - 2 * m.at(times)[part] + m.at(times - h)[part]) / h**2
                for m in (lively(rate), exact)
            )
            total = max(total, float(np.abs(ours - true).max() / np.abs(true).max()))
        return total

    coarse, fine = error(50), error(100)
    assert coarse < 0.15
    assert fine < coarse / 2


@pytest.mark.parametrize("rate", [24, 30])
def test_keys_at_24_or_30_per_second_do_not_buzz(rate):
    """Acceleration above the keys' Nyquist frequency, at 90 Hz, beside linear interpolation."""
    motion = lively(rate, 6)
    fine = motion.resample(90)
    poses, roots = linearly_resampled(motion, 90)
    for ours, linear in ((fine.poses, poses), (fine.roots, roots)):
        n = len(ours)
        ours, linear = ours.reshape(n, -1), linear.reshape(n, -1)
        calm = energy_above(ours, 90, rate / 2)
        assert calm < energy_above(linear, 90, rate / 2) / 300
        assert calm < 0.01 * energy_above(ours, 90, 0)


def test_a_real_motion_with_30_keys_per_second_does_not_buzz(assets: Path):
    jumps = read_bvh(assets / "motion_bvh" / "cmu_01_01_jumps.bvh").motion
    keys = Motion(jumps.times[1::4], jumps.poses[1::4], jumps.roots[1::4])
    fine = keys.resample(90)
    poses, roots = linearly_resampled(keys, 90)
    for ours, linear in ((fine.poses, poses), (fine.roots[:, :3], roots[:, :3])):
        ours, linear = ours.reshape(len(ours), -1), linear.reshape(len(linear), -1)
        # The recording's noise reaches up to the Nyquist frequency, and a spline through it
        # leaks a little beyond; clear of that band hardly anything is left.
        assert energy_above(ours, 90, 15) < energy_above(linear, 90, 15) / 5
        assert energy_above(ours, 90, 22.5) < energy_above(linear, 90, 22.5) / 150
    calm = keys.resample(90, smooth=3 / 30).poses
    assert energy_above(calm, 90, 15) < energy_above(poses, 90, 15) / 50


# Overshoot and smoothing ----------------------------------------------------------------------


def test_even_keys_overshoot_by_less_than_three_quarters_of_a_step():
    rng = np.random.default_rng(0)
    step = Curve(np.arange(40.0), np.repeat([0.0, 1.0], 20))(np.linspace(0, 39, 4000))
    assert 0.05 < step.max() - 1 < 0.12
    for _ in range(100):
        keys = np.cumsum(rng.uniform(-1, 1, 30))
        values = Curve(np.arange(30.0), keys)(np.linspace(0, 29, 1500))
        largest = np.abs(np.diff(keys)).max()
        assert values.max() < keys.max() + 0.75 * largest
        assert values.min() > keys.min() - 0.75 * largest


def test_two_keys_a_millisecond_apart_do_not_throw_the_next_second_away():
    times = np.array([0, 1, 1.001, 2, 3, 3.001, 10])
    keys = np.array([0, 0, 1, 1, 1, 0, 0.0])
    values = Curve(times, keys)(np.linspace(0, 10, 20001))
    assert values.max() < 1.6
    assert values.min() > -0.6
    assert np.abs(Curve(times, keys)(times) - keys).max() < 1e-12
    gaps = np.diff(graded_times(times))
    assert (gaps[1:] / gaps[:-1]).max() < 4.01
    assert set(times) <= set(graded_times(times))
    turns = RotationCurve(times, exponential(np.outer(keys, [0, 1.0, 0])))
    swing = logarithm(turns(np.linspace(0, 10, 20001)))[:, 1]
    assert -0.6 < swing.min() <= swing.max() < 1.6


def test_smoothing_is_the_smoothing_splines_and_halves_its_period():
    rng = np.random.default_rng(1)
    times = np.sort(rng.uniform(0, 2, 50))
    gaps = np.diff(times)
    weights = np.r_[gaps[0], 0.5 * (gaps[1:] + gaps[:-1]), gaps[-1]]
    keys = rng.normal(size=(50, 2))
    spline = make_smoothing_spline(times, keys, w=weights, lam=(0.3 / (2 * np.pi)) ** 4)
    assert np.abs(spline(times) - smoothed(times, keys, 0.3)).max() < 1e-7
    even = np.arange(400) / 100
    wave = np.sin(2 * np.pi * even / 0.25)
    assert np.abs(smoothed(even, wave, 0.25)[100:300]).max() == pytest.approx(0.5, abs=0.01)
    assert np.abs(smoothed(even, 3 * even, 0.25) - 3 * even).max() < 1e-9
    for count in (1, 2, 3, 4):
        assert smoothed(even[:count], wave[:count], 0.25).shape == (count,)
    with pytest.raises(SuppleError, match="period"):
        smoothed(even, wave, -1)


def test_stepped_keys_are_smoothed():
    """A slow motion held for two keys at a time: interpolation keeps the steps, smoothing not."""
    t = np.arange(120) / 24
    truth = np.sin(2 * t)
    stepped = Motion(t, np.repeat(truth[::2], 2)[:, None])
    plain, light = stepped.resample(90), stepped.resample(90, smooth=4 / 24)
    assert energy_above(light.poses, 90, 6) < energy_above(plain.poses, 90, 6) / 50
    lag = 0.5 / 24
    assert np.abs(light.poses[:, 0] - np.sin(2 * (light.times - lag)))[30:-30].max() < 0.02


# Cuts -----------------------------------------------------------------------------------------


def spliced(motion: Motion, first: slice, second: slice) -> tuple[Motion, int]:
    """Two parts of a motion one after the other, and where they meet."""
    poses = np.concatenate([motion.poses[first], motion.poses[second]])
    roots = np.concatenate([motion.roots[first], motion.roots[second]])
    cut = len(motion.poses[first])
    return Motion(np.arange(len(poses)) / motion.rate, poses, roots), cut


def test_nothing_crosses_a_cut():
    """Each shot of a motion with a cut is what it would be alone, up to its last key."""
    motion, cut = spliced(lively(24), slice(0, 20), slice(30, 49))
    shots = motion.with_cuts([cut])
    fine = shots.resample(90)
    assert fine.cuts == (75,)
    alone = Motion(shots.times[cut:], shots.poses[cut:], shots.roots[cut:])
    assert np.abs(fine.poses[75:] - alone.at(fine.times[75:])[0]).max() < 1e-12
    before = fine.times <= shots.times[cut - 1]
    alone = Motion(shots.times[:cut], shots.poses[:cut], shots.roots[:cut])
    assert np.abs(fine.roots[before] - alone.at(fine.times[before])[1]).max() < 1e-12
    # In the gap the old shot coasts: no spike but the cut's own.
    speed = np.abs(np.diff(fine.poses[:75], n=2, axis=0))
    assert speed[-4:].max() < 2 * speed[:-4].max()
    assert fine.resample(90).cuts == (75,)


def test_a_long_gap_before_a_cut_is_held_not_extrapolated():
    motion = Motion([0, 1, 2, 12, 13], np.array([[0.0], [1], [2], [50], [51]]), cuts=[3])
    assert motion.at(2.5)[0] == pytest.approx(2.5)
    assert motion.at(11.9)[0] == pytest.approx(3)
    assert motion.at(12.0)[0] == pytest.approx(50)


@pytest.mark.parametrize("every", [1, 4])
def test_splices_of_real_motion_are_found_and_only_they(assets: Path, every: int):
    jumps = read_bvh(assets / "motion_bvh" / "cmu_01_01_jumps.bvh").motion
    keys = Motion(jumps.times[1::every], jumps.poses[1::every], jumps.roots[1::every])
    assert detect_cuts(keys) == ()
    n = keys.n_frames
    for a, b in ((0.2, 0.7), (0.45, 0.62), (0.8, 0.1)):
        join = spliced(keys, slice(0, int(a * n)), slice(int(b * n), None))
        assert detect_cuts(join[0]) == (join[1],)


def test_a_recordings_calibration_pose_is_a_cut(assets: Path):
    """The first frame of the CMU recordings is a T-pose; the person is elsewhere in the next."""
    jumps = read_bvh(assets / "motion_bvh" / "cmu_01_01_jumps.bvh").motion
    assert detect_cuts(jumps) == (1,)
    assert detect_cuts(read_bvh(assets / "motion_bvh" / "mh_walk1.bvh").motion) == ()


def test_real_clips_give_no_false_alarm(assets: Path):
    """Attacks, punches and gallops included. One does jump: a dead fish turns upright at last."""
    clips = 0
    for name in ("RobotExpressive", "q_Cow", "q_Puffer", "q_Trex", "mh_arm_flex", "Fox"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SuppleWarning)
            character = load_gltf(assets / "gltf_characters" / f"{name}.glb")
        for clip, motion in character.motions.items():
            clips += 1
            assert detect_cuts(motion) == ((72,) if clip == "Fish_Armature|Death" else ())
    assert clips > 40


def test_a_teleport_of_the_root_is_found_and_sudden_starts_are_not():
    motion = lively(30)
    roots = motion.roots.copy()
    roots[40:, 0, 3] += 0.5
    assert detect_cuts(Motion(motion.times, motion.poses, roots)) == (40,)
    turned = motion.roots.copy()
    turned[25:] = turned[25:] @ rigid(np.array([[0, 0.6, 0]]), np.zeros((1, 3)))
    assert detect_cuts(Motion(motion.times, motion.poses, turned)) == (25,)
    t = np.arange(90) / 30
    start = np.where(t < 1, 0, 12 * (t - 1))  # at once 12 rad/s
    assert detect_cuts(Motion(t, start[:, None])) == ()
    slow = Motion([0, 1, 2, 3, 4], np.array([[0.0], [0], [3], [3], [3]]))  # sparse keys are no cuts
    assert detect_cuts(slow) == ()


# Parts ----------------------------------------------------------------------------------------


def test_a_slice_keeps_keys_cuts_and_ends():
    motion = lively(30).with_cuts([31])
    part = motion.slice(0.99, 1.51)
    assert part.times[0] == 0.99
    assert part.times[-1] == 1.51
    assert part.cuts == (2,)
    assert np.allclose(part.at(1.2)[0], motion.at(1.2)[0], atol=1e-3)
    assert motion.slice(1.0, 1.0).n_frames == 1
    for ends in ((1.5, 1.0), (-1, 1), (0, 9)):
        with pytest.raises(SuppleError):
            motion.slice(*ends)


@pytest.mark.parametrize("rate", [0, -30, np.nan, np.inf, 1e12, 1e300])
def test_an_absurd_rate_is_refused(rate):
    with pytest.raises(SuppleError, match="keys per second"):
        lively(30).resample(rate)
    long = Motion([0, 1e9], np.zeros((2, 100)))
    with pytest.raises(SuppleError, match="lower the rate"):
        long.resample(1000)


# Root motion ----------------------------------------------------------------------------------


def animated(frames: int = 20) -> tuple[Skeleton, np.ndarray, np.ndarray, np.ndarray]:
    """A skeleton with rotated, scaled rest joints and two tops; everything moves."""
    rng = np.random.default_rng(5)
    skeleton = Skeleton(
        ["world", "hips", "leg", "foot", "prop"],
        [-1, 0, 1, 2, -1],
        rng.normal(size=(5, 3)),
        rng.normal(size=(5, 4)),
        rng.uniform(0.5, 2, (5, 3)),
    )
    shape = (frames, 5)
    return (
        skeleton,
        rng.normal(size=(*shape, 3)),
        Rotation.from_rotvec(rng.normal(size=(frames * 5, 3))).as_quat().reshape(*shape, 4),
        rng.uniform(0.5, 2, (*shape, 3)),
    )


@pytest.mark.parametrize("joint", ["world", "hips", "foot"])
def test_pose_and_root_reproduce_the_original(joint):
    skeleton, moves, turns, scales = animated()
    roots, left_moves, left_turns = split_root(skeleton, moves, turns, scales, joint=joint)
    Motion(np.arange(20.0), np.zeros((20, 1)), roots)  # rigid
    world = skeleton.world(moves, turns, scales)
    again = roots[:, None] @ skeleton.world(left_moves, left_turns, scales)
    assert np.abs(again - world).max() < 1e-10
    chosen = skeleton.joint(joint)
    kept = skeleton.world(left_moves, left_turns, scales)[:, chosen, :3, 3]
    assert np.abs(kept - skeleton.rest_world()[chosen, :3, 3]).max() < 1e-10


def test_the_root_of_a_top_joint_takes_all_its_motion_and_rest_gives_no_root():
    skeleton, moves, turns, _ = animated()
    _, left_moves, left_turns = split_root(skeleton, moves, turns, joint="world")
    assert np.abs(left_moves[:, 0] - skeleton.translations[0]).max() < 1e-12
    same = np.abs(np.sum(left_turns[:, 0] * skeleton.rotations[0], axis=-1))
    assert np.abs(same - 1).max() < 1e-12
    still = np.tile(skeleton.translations, (3, 1, 1))
    assert np.abs(split_root(skeleton, still, joint="hips")[0] - np.eye(4)).max() < 1e-12


def test_a_root_scaled_to_nothing_still_splits():
    skeleton, moves, turns, scales = animated()
    scales[3:5, 0] = 0
    roots, left_moves, left_turns = split_root(skeleton, moves, turns, scales)
    again = roots[:, None] @ skeleton.world(left_moves, left_turns, scales)
    assert np.abs(again - skeleton.world(moves, turns, scales)).max() < 1e-10
    with pytest.raises(SuppleError, match="joint of zero scale"):
        extract_root(skeleton.world(moves, turns, scales), skeleton.rest_world())


def test_extracted_roots_are_rigid_and_leave_scale_behind():
    skeleton, moves, turns, scales = animated()
    world, rest = skeleton.world(moves, turns, scales), skeleton.rest_world()
    roots, remainder = extract_root(world, rest, joint=1)
    assert np.abs(roots[:, None] @ remainder - world).max() < 1e-10
    Motion(np.arange(20.0), np.zeros((20, 1)), roots)
    alone, left = extract_root(world[:, 1], rest[1])
    assert np.array_equal(alone, roots)
    assert np.abs(np.linalg.det(left[:, :3, :3]) - np.linalg.det(world[:, 1, :3, :3])).max() < 1e-10
    stretched = np.linalg.svd(left[:, :3, :3])[1] - np.linalg.svd(world[:, 1, :3, :3])[1]
    assert np.abs(stretched).max() < 1e-10
    flipped = world[:, 1] @ np.diag([-1.0, 1, 1, 1])
    mirrored, left = extract_root(flipped, rest[1] @ np.diag([-1.0, 1, 1, 1]))
    Motion(np.arange(20.0), np.zeros((20, 1)), mirrored)
    assert np.abs(mirrored @ left - flipped).max() < 1e-10
    for bad, says in ((np.zeros((4, 4)), "shape"), (np.full((2, 4, 4), np.nan), "finite")):
        with pytest.raises(SuppleError, match=says):
            extract_root(bad)


# Rotations ------------------------------------------------------------------------------------


def test_quaternion_helpers_agree_with_scipy():
    rng = np.random.default_rng(2)
    a, b = Rotation.random(50, rng=rng), Rotation.random(50, rng=rng)
    v = rng.normal(size=(50, 3))
    assert np.allclose(to_matrix(multiply(a.as_quat(), b.as_quat())), (a * b).as_matrix())
    assert np.allclose(rotate(a.as_quat(), v), a.apply(v))
    assert np.allclose(logarithm(a.as_quat()), a.as_rotvec())
    assert np.allclose(to_matrix(exponential(v)), Rotation.from_rotvec(v).as_matrix())
    assert np.allclose(to_matrix(from_matrix(a.as_matrix())), a.as_matrix())
    half = slerp(a.as_quat(), b.as_quat(), np.full(50, 0.5))
    assert np.allclose(
        (a.inv() * Rotation.from_quat(half)).magnitude() * 2, (a.inv() * b).magnitude()
    )
    tiny = np.array([[1e-9, 0, 0], [0, 0, 0]])
    assert np.array_equal(logarithm(exponential(tiny)), tiny)


def test_between_is_the_smallest_turn_also_for_opposite_directions():
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(2, 50, 3))
    b[0] = -2 * a[0]
    b[1] = 3 * a[1]
    turned = rotate(between(a, b), a)
    cosines = np.sum(turned * b, axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    assert np.abs(cosines - 1).max() < 1e-12
    angles = np.linalg.norm(logarithm(between(a, b)), axis=1)
    usual = np.arccos(
        np.clip(np.sum(a * b, 1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1), -1, 1)
    )
    assert np.abs(angles - usual).max() < 1e-7


def test_signs_of_quaternions_become_continuous():
    angles = np.linspace(0, 30, 200)
    keys = exponential(np.outer(angles, [0, 1, 0]))
    keys[::3] *= -1
    steps = np.sum(continuous(keys)[1:] * continuous(keys)[:-1], axis=-1)
    assert (steps > 0).all()


def test_no_times_give_no_poses():
    poses, roots = lively(30).at([])
    assert poses.shape == (0, lively(30).poses.shape[1])
    assert roots.shape == (0, 4, 4)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda motion: motion.resample("90"),
        lambda motion: motion.resample(None),
        lambda motion: motion.resample(90, smooth="x"),
        lambda motion: motion.slice("a", "b"),
        lambda motion: motion.at(np.array([1j])),
        lambda motion: motion.with_cuts([np.nan]),
        lambda motion: motion.with_cuts([1.5]),
        lambda motion: motion.with_cuts(3),
        lambda motion: Motion([0.0, 1.0], [[1.0], [1.0, 2.0]]),
        lambda motion: Motion([0.0, [1.0]], [[1.0], [1.0]]),  # type: ignore[arg-type]
    ],
)
def test_motions_of_what_is_no_number_are_refused(wrong: Callable[[Motion], object]):
    with pytest.raises(SuppleError):
        wrong(lively(30))


def test_roots_of_joints_that_do_not_turn_rigidly_are_refused():
    skeleton, moves, turns, _ = animated()
    for value, message in ((np.nan, "finite"), (0.0, "zero quaternion")):
        bad = turns.copy()
        bad[3, 1] = value
        with pytest.raises(SuppleError, match=message):
            split_root(skeleton, moves, bad)
    with pytest.raises(SuppleError, match="frame 1 is mirrored"):
        extract_root([np.eye(4), np.diag([-1.0, 1, 1, 1])])
