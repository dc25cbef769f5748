"""Motions of files: tracks of a skeleton's joints, sampled as poses and roots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints
from supple.maths.rotations import (
    exponential,
    from_matrix,
    inverse,
    logarithm,
    multiply,
    rotate,
    to_matrix,
)
from supple.rig.motion.root_motion import Locals, RootPolicy
from supple.rig.motion.tracks import COMPARED, SmoothTrack, Track
from supple.rig.skeleton.joint_pose import JointPose
from supple.rig.skeleton.joints import Skeleton

#: Item of a track that moves the root.
ROOT = -1
#: Largest deviation of a smoothed track, largest deviation of joint positions, and smallest jump,
#: relative to the character's size.
TOLERANCE, BOUND, JUMP = 0.01, 0.02, 1e-4
MOST_HALVINGS, MOST_COMPARED, MOST_SAMPLES = 5, 500, 100_000
#: Keys beyond each end of a cycle that its curves depend on.
BEYOND = 12
#: Samples per second that replace a cubic track in a cycle.
SPLINE_RATE = 120.0


@dataclass(frozen=True, eq=False)
class TrackSpace:
    """Map from tracks of joints to poses of a rig and roots.

    Tracks move the joints of `joint_pose.skeleton`; (b,) shape weights, at rest `rest_weights`,
    follow the joints' entries in a pose. `split` separates root motion from the joints. If it is
    None, root motion is in tracks of the item `ROOT`: rotation, and position of `pivot` (3,), a
    point at rest.
    `reach` (J,) and `shape_reach` (b,) bound the motion of the surface, in metres per radian of
    each joint and per unit of each shape weight. `size` is the character's, in metres.
    """

    joint_pose: JointPose
    split: RootPolicy | None
    pivot: Floats
    rest_weights: Floats
    reach: Floats
    shape_reach: Floats
    size: float

    @property
    def width(self) -> int:
        """Length of a pose."""
        return self.joint_pose.n_parameters + len(self.rest_weights)

    @property
    def skeleton(self) -> Skeleton:
        """Skeleton of the joints that the tracks move."""
        return self.joint_pose.skeleton

    def reach_of(self, track: Track) -> Floats:
        """Return the largest surface motion (k,), in metres per unit of a track's values."""
        if track.path == "weights":
            return self.shape_reach[track.items]
        if track.path == "translation":
            return np.ones(len(track.items))
        return np.where(track.items == ROOT, self.size, self.reach[track.items])


@dataclass(frozen=True, eq=False)
class MotionTracks:
    """Tracks of one clip, original or smoothed; joints without a track are at rest."""

    space: TrackSpace
    tracks: tuple[Track | SmoothTrack, ...]

    @classmethod
    def of_file(cls, space: TrackSpace, tracks: Sequence[Track]) -> MotionTracks:
        """Return tracks of a file; a track whose keys are all equal is reduced to one key."""
        reduced = []
        for track in tracks:
            values, times = track.values, track.times
            if track.interpolation != "CUBICSPLINE" and (values == values[:1]).all():
                values, times = values[:1], times[:1]
            reduced.append(Track(track.path, track.items, track.interpolation, times, values))
        return cls(space, tuple(reduced))

    def sample(self, times: Floats) -> tuple[Floats, Floats]:
        """Return poses (t, s), with rotation vectors continuous over rows, and roots (t, 4, 4)."""
        local, weights, roots = self._values(times)
        if self.space.split is not None:
            local, roots = self.space.split.split(local)
        rest = self.space.skeleton.scales
        # A pose has logarithms of scales, which cannot represent mirroring over time.
        scales = np.where(local[2] * rest < 0, 1e-9 * rest, local[2])
        poses = self.space.joint_pose.pack(local[0], local[1], scales, check=False)
        return np.hstack([poses, weights]), roots

    def local_transforms(self, times: Floats) -> Locals:
        """Return local transforms of all joints, (t, J, …), root motion included."""
        return self._values(times)[0]

    def _values(self, times: Floats) -> tuple[Locals, Floats, Floats]:
        space, count = self.space, len(times)
        rest = space.skeleton
        tables = {
            "translation": np.repeat(rest.translations[None], count, axis=0),
            "rotation": np.repeat(rest.rotations[None], count, axis=0),
            "scale": np.repeat(rest.scales[None], count, axis=0),
            "weights": np.repeat(space.rest_weights[None, :, None], count, axis=0),
        }
        position, rotation = np.repeat(space.pivot[None], count, axis=0), None
        for track in self.tracks:
            values = track.at(times)
            if len(track.items) == 1 and track.items[0] == ROOT:
                if track.path == "rotation":
                    rotation = values[:, 0]
                else:
                    position = values[:, 0]
            else:
                tables[track.path][:, track.items] = values
        roots = np.repeat(np.eye(4)[None], count, axis=0)
        if rotation is not None:
            roots[:, :3, :3] = to_matrix(rotation)
        roots[:, :3, 3] = position - roots[:, :3, :3] @ space.pivot
        local = tables["translation"], tables["rotation"], tables["scale"]
        return local, tables["weights"][:, :, 0], roots

    @property
    def own_tracks(self) -> tuple[Track, ...]:
        """The tracks of the file, smoothed tracks replaced by their originals."""
        return tuple(t if isinstance(t, Track) else t.track for t in self.tracks)

    def content(self) -> list[Floats | Ints | str]:
        """Return the data that identify these tracks, for a hash."""
        data: list[Floats | Ints | str] = []
        for track in self.own_tracks:
            kind = f"{track.path} {track.interpolation}"
            data += [kind, track.items, track.times, track.values]
        return [*data, *("smooth" for _ in range(self.own_tracks != self.tracks))]

    @cached_property
    def jumps(self) -> Floats:
        """Times at which a track jumps: steps, and pairs of keys at almost the same time."""
        least, times = JUMP * self.space.size, [np.empty(0)]
        for track in self.own_tracks:
            if len(track.times) > 1:
                times.append(track.times[track.jumps(self.space.reach_of(track), least)])
        return np.unique(np.concatenate(times))

    def sample_times(self, keys: Floats) -> Floats:
        """Return times, besides the keys, at which to sample for linear interpolation.

        Samples of linear and stepped tracks are exact; cubic tracks are sampled every 1/120 s.
        """
        before_jumps = self.jumps - 2e-6
        if all(track.interpolation != "CUBICSPLINE" for track in self.own_tracks):
            return before_jumps
        count = min(int((keys[-1] - keys[0]) * SPLINE_RATE) + 2, MOST_SAMPLES)
        return np.union1d(before_jumps, np.linspace(keys[0], keys[-1], count))

    def smoothed(self, cuts: Floats, tolerance: float = TOLERANCE) -> MotionTracks:
        """Return tracks near these with finite accelerations: see `SmoothTrack`.

        `cuts` are times of keys at which a new curve begins. `tolerance`, relative to the size,
        applies to each track. It is halved until the joint positions, where the deviations of a
        chain add up, are within `BOUND`.
        """
        for _ in range(MOST_HALVINGS):
            smooth = self._smoothed(cuts, tolerance)
            if self._apart(smooth) <= BOUND * self.space.size:
                break
            tolerance *= 0.5
        return smooth

    def _apart(self, other: MotionTracks) -> float:
        """Return the largest distance of joints and chain ends between these and other tracks.

        They are compared between keys, in at most `MOST_COMPARED` gaps.
        """
        keys = distinct_times([track.times for track in self.own_tracks], 1e-3)
        if len(keys) < 2:
            return 0.0
        gaps = np.diff(keys)[:, None] * COMPARED
        times = (keys[:-1, None] + gaps)[:: len(keys) // MOST_COMPARED + 1].ravel()
        skeleton, largest = self.space.skeleton, 0.0
        is_leaf = np.ones(skeleton.n_joints, dtype=bool)
        is_leaf[skeleton.parents[skeleton.parents >= 0]] = False
        reach = np.where(is_leaf, self.space.reach, 0.0)
        for block in np.array_split(times, len(times) * skeleton.n_joints // 200_000 + 1):
            transforms, other_transforms = (
                skeleton.world(*tracks.local_transforms(block)) for tracks in (self, other)
            )
            change = transforms - other_transforms
            for axis in range(3):
                ends = change[..., :3, 3] + reach[:, None] * change[..., :3, axis]
                largest = max(largest, float(np.linalg.norm(ends, axis=-1).max(initial=0)))
        return largest

    def _smoothed(self, cuts: Floats, tolerance: float) -> MotionTracks:
        space = self.space
        smooth = (
            track.smoothed(space.reach_of(track), tolerance * space.size, cuts)
            if isinstance(track, Track)
            else track
            for track in self.tracks
        )
        return replace(self, tracks=tuple(smooth))

    def resampled(self, times: Floats) -> MotionTracks:
        """Return tracks with keys at these times, linear or stepped between them."""
        resampled = []
        for track in self.tracks:
            step = isinstance(track, Track) and track.interpolation == "STEP"
            kind = "STEP" if step else "LINEAR"
            resampled.append(Track(track.path, track.items, kind, times, track.at(times)))
        return replace(self, tracks=tuple(resampled))

    def cycle(self, first: float, last: float, moved: Floats) -> MotionTracks:
        """Return tracks of the part from `first` to `last` seconds, repeated before and after it.

        The gap between the part's end and the next start is distributed over the cycle. `moved` (4,
        4) transforms the roots of one cycle to roots of the next.
        """
        displaced = self._displaced(first, moved)
        repeated = (_repeated(track, first, last, displaced) for track in self.own_tracks)
        return replace(self, tracks=tuple(repeated))

    def _displaced(self, first: float, moved: Floats) -> dict[int, Floats]:
        """Return the (4, 4) step from one cycle's local transforms to the next, by joint.

        Only moving joints without a moving ancestor have one.
        """
        if np.array_equal(moved, np.eye(4)):
            return {}
        if self.space.split is None:
            return {ROOT: moved}
        moving = np.zeros(self.space.skeleton.n_joints, dtype=bool)
        for track in self.own_tracks:
            if track.path in ("translation", "rotation"):
                keys = track.keys
                if track.path == "rotation":
                    flipped = np.sum(keys * keys[:1], axis=-1, keepdims=True) < 0
                    keys = np.where(flipped, -keys, keys)
                moving[track.items] |= np.ptp(keys, axis=0).max(axis=-1) > 1e-9
        world = self.space.skeleton.world(*self.local_transforms(np.array([first])))[0]
        steps = {}
        for joint in np.flatnonzero(moving & ~self.space.skeleton.below(moving)).tolist():
            parent = self.space.skeleton.parents[joint]
            parent_world = world[parent] if parent >= 0 else np.eye(4)
            steps[joint] = np.linalg.solve(parent_world, moved @ parent_world)
        return steps


def _repeated(track: Track, first: float, last: float, displaced: dict[int, Floats]) -> Track:
    """Return a part of a track with keys of the preceding and following cycles."""
    inside = (track.times > first + 1e-9) & (track.times < last - 1e-9)
    times = np.concatenate([[first], track.times[inside], [last]])
    stepped = track.interpolation == "STEP"
    if track.interpolation == "CUBICSPLINE":
        between = np.linspace(first, last, max(2, int((last - first) * SPLINE_RATE)))
        times = np.unique(np.concatenate([times, between]))
    values = track.at(times)
    steps = [displaced.get(int(item)) for item in track.items]
    if not stepped:
        values = _closed(track.path, times, values, steps)
    length, count = last - first, len(times) - 1
    cycles = -(-BEYOND // count)
    cycle_values, cycle_times = [], []
    for cycle in range(-cycles, cycles + 1):
        stop = None if cycle == cycles else -1  # the last key is the next cycle's first
        cycle_values.append(_displaced_values(track.path, values, steps, cycle)[:stop])
        cycle_times.append((times + cycle * length)[:stop])
    kept = slice(max(cycles * count - BEYOND, 0), (cycles + 1) * count + BEYOND + 1)
    all_times, all_values = np.concatenate(cycle_times)[kept], np.concatenate(cycle_values)[kept]
    is_later = np.concatenate([[True], np.diff(all_times) > 0])
    kind = "STEP" if stepped else "LINEAR"
    return Track(track.path, track.items, kind, all_times[is_later], all_values[is_later])


def _displaced_values(
    path: str, values: Floats, steps: Sequence[Floats | None], cycles: int
) -> Floats:
    """Return values (t, k, c) displaced by `cycles` of the steps (4, 4) of their joints."""
    values = values.copy()
    for column, step in enumerate(steps):
        if step is None or path not in ("translation", "rotation"):
            continue
        power = np.linalg.matrix_power(step if cycles >= 0 else np.linalg.inv(step), abs(cycles))
        rotation = _rotation(power)
        if path == "rotation":
            values[:, column] = multiply(rotation, values[:, column])
        else:
            values[:, column] = rotate(rotation, values[:, column]) + power[:3, 3]
    return values


def _closed(path: str, times: Floats, values: Floats, steps: Sequence[Floats | None]) -> Floats:
    """Return values whose last row begins the next cycle; the gap is distributed over time."""
    fraction = ((times - times[0]) / (times[-1] - times[0]))[:, None, None]
    end = _displaced_values(path, values[:1], steps, 1)
    if path != "rotation":
        return values - fraction * (values[-1:] - end)
    gap = logarithm(multiply(end, inverse(values[-1:])))
    return multiply(exponential(fraction * gap), values)


def _rotation(transform: Floats) -> Floats:
    linear = transform[:3, :3]
    return from_matrix(linear / np.cbrt(np.linalg.det(linear)))


def distinct_times(times: Sequence[Floats], nearest: float) -> Floats:
    """Merge lists of times; a time closer than `nearest` to the next one is left out.

    The later of the two keys of a jump is kept.

    >>> distinct_times([np.array([0.0, 1.0]), np.array([0.0, 0.5, 1.001])], 0.01)
    array([0.   , 0.5  , 1.001])
    """
    merged = np.unique(np.concatenate([np.empty(0), *times]))
    if not len(merged):
        return merged
    return merged[np.append(np.diff(merged) >= nearest, True)]


def joint_reach(
    skeleton: Skeleton,
    points: Floats | None = None,
    joints: Ints | None = None,
    weights: Floats | None = None,
) -> Floats:
    """Return a bound (J,), in metres at rest, of the distance from each joint to its descendants.

    Surface vertices `points` (n, 3) that follow the joint or a descendant count as well; `joints`
    and `weights` are (n, j).
    """
    positions = skeleton.rest_world()[:, :3, 3]
    low, high = positions.copy(), positions.copy()
    if points is not None and joints is not None and weights is not None:
        rows, columns = np.nonzero(weights > 1e-3)
        joint_of_row = joints[rows, columns]
        np.minimum.at(low, joint_of_row, points[rows])
        np.maximum.at(high, joint_of_row, points[rows])
    for joint in range(skeleton.n_joints - 1, -1, -1):
        parent = skeleton.parents[joint]
        if parent >= 0:
            low[parent] = np.minimum(low[parent], low[joint])
            high[parent] = np.maximum(high[parent], high[joint])
    reach: Floats = np.linalg.norm(np.maximum(positions - low, high - positions), axis=1)
    if points is None:  # leaf joints: the length of their bone
        parents = np.where(skeleton.parents >= 0, skeleton.parents, np.arange(len(positions)))
        reach = np.maximum(reach, np.linalg.norm(positions - positions[parents], axis=1))
    return reach


def sampled_tracks(
    joint_pose: JointPose, times: ArrayLike, poses: Floats, roots: Floats, joint: int | None = None
) -> MotionTracks:
    """Return linear tracks through the poses (t, s) and roots (t, 4, 4) of a motion.

    Entries of `poses` after those of `joint_pose` are shape weights. The root rotates about the
    rest position of `joint`, by default the first.
    """
    skeleton, key_times = joint_pose.skeleton, np.asarray(times, dtype=np.float64)
    width = joint_pose.n_parameters
    local = joint_pose.unpack(poses[:, :width])
    rest = skeleton.translations, skeleton.rotations, skeleton.scales
    tracks = []
    paths = ("translation", "rotation", "scale")
    for path, values, rest_values in zip(paths, local, rest, strict=True):
        moving = np.flatnonzero((values != rest_values).any(axis=(0, 2)))
        if len(moving):
            tracks.append(Track(path, moving, "LINEAR", key_times, values[:, moving]))
    if poses.shape[1] > width:
        weights = poses[:, width:, None]
        tracks.append(Track("weights", np.arange(weights.shape[1]), "LINEAR", key_times, weights))
    positions = skeleton.rest_world()[:, :3, 3]
    pivot = positions[0 if joint is None else joint]
    if (roots != np.eye(4)).any():
        root, rotations = np.array([ROOT]), from_matrix(roots[:, :3, :3])
        root_positions = roots[:, :3, :3] @ pivot + roots[:, :3, 3]
        tracks.append(Track("translation", root, "LINEAR", key_times, root_positions[:, None]))
        tracks.append(Track("rotation", root, "LINEAR", key_times, rotations[:, None]))
    reach, none = joint_reach(skeleton), np.zeros(poses.shape[1] - width)
    size = float(np.linalg.norm(np.ptp(positions, axis=0)))
    size = max(size, float(np.abs(skeleton.translations).max()), 1e-9)
    space = TrackSpace(joint_pose, None, pivot, none, reach, none + 0.1 * size, size)
    return MotionTracks.of_file(space, tracks)
