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
from supple.rig.motion.root_policy import Locals, RootPolicy
from supple.rig.motion.tracks import COMPARED, SmoothTrack, Track
from supple.rig.skeleton.joint_pose import JointPose
from supple.rig.skeleton.joints import Skeleton

#: Item of a track that moves the whole character.
ROOT = -1
#: How far a smoothed track may leave its track, joints theirs together, and the smallest jump, as
#: parts of the size.
TOLERANCE, BOUND, JUMP = 0.01, 0.02, 1e-4
MOST_HALVINGS, MOST_COMPARED, MOST_SAMPLES = 5, 500, 100_000
#: Keys beyond each end of a cycle that its curves depend on; farther ones do not matter.
BEYOND = 12
#: Samples a second that stand for a cubic track where it is repeated.
SPLINE_RATE = 120.0


@dataclass(frozen=True, eq=False)
class TrackSpace:
    """Map from tracks of joints to poses of a rig and roots.

    Attributes
    ----------
    joint_pose
        Pose vector; its skeleton has the joints that tracks move, and their rest.
    split
        Separation of root motion from the joints; None if tracks of `ROOT` have it.
    pivot
        (3,) point of the rest pose whose place is the translation of `ROOT`.
    rest_weights
        (b,) shape weights, which follow the joints' entries in a pose.
    reach, shape_reach
        (J,) metres that a radian of each joint moves the surface at most, and (b,) a unit of each
        shape weight.
    size
        Of the character, in metres.
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
        """Joints and their rest."""
        return self.joint_pose.skeleton

    def reach_of(self, track: Track) -> Floats:
        """Return the largest motion (k,) of the surface, in metres per unit of a track's values."""
        if track.path == "weights":
            return self.shape_reach[track.items]
        if track.path == "translation":
            return np.ones(len(track.items))
        return np.where(track.items == ROOT, self.size, self.reach[track.items])


@dataclass(frozen=True, eq=False)
class MotionTracks:
    """Tracks of one clip, to be sampled at any time.

    Attributes
    ----------
    space
        Rig that the tracks move.
    tracks
        As the file has them, or smoothed. What no track moves is at rest.
    """

    space: TrackSpace
    tracks: tuple[Track | SmoothTrack, ...]

    @classmethod
    def of_file(cls, space: TrackSpace, tracks: Sequence[Track]) -> MotionTracks:
        """Return tracks of a file; those of equal keys with one of them."""
        found = []
        for track in tracks:
            values, times = track.values, track.times
            if track.interpolation != "CUBICSPLINE" and (values == values[:1]).all():
                values, times = values[:1], times[:1]
            found.append(Track(track.path, track.items, track.interpolation, times, values))
        return cls(space, tuple(found))

    def sample(self, times: Floats) -> tuple[Floats, Floats]:
        """Return poses (t, s), their rotation vectors continuous from row to row, and roots."""
        local, weights, roots = self._values(times)
        if self.space.split is not None:
            local, roots = self.space.split.split(local)
        rest = self.space.skeleton.scales
        # A pose has logarithms of scale: mirroring over time cannot be one.
        scales = np.where(local[2] * rest < 0, 1e-9 * rest, local[2])
        poses = self.space.joint_pose.pack(local[0], local[1], scales, check=False)
        return np.hstack([poses, weights]), roots

    def local_transforms(self, times: Floats) -> Locals:
        """Return local transforms of all joints, (t, J, …), with the root's motion in them."""
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
        place, turn = np.repeat(space.pivot[None], count, axis=0), None
        for track in self.tracks:
            values = track.at(times)
            if len(track.items) == 1 and track.items[0] == ROOT:
                if track.path == "rotation":
                    turn = values[:, 0]
                else:
                    place = values[:, 0]
            else:
                tables[track.path][:, track.items] = values
        roots = np.repeat(np.eye(4)[None], count, axis=0)
        if turn is not None:
            roots[:, :3, :3] = to_matrix(turn)
        roots[:, :3, 3] = place - roots[:, :3, :3] @ space.pivot
        local = tables["translation"], tables["rotation"], tables["scale"]
        return local, tables["weights"][:, :, 0], roots

    @property
    def own_tracks(self) -> tuple[Track, ...]:
        """The file's tracks, of smoothed ones too."""
        return tuple(each if isinstance(each, Track) else each.track for each in self.tracks)

    def content(self) -> list[Floats | Ints | str]:
        """Return the data that identify these tracks, for a hash."""
        found: list[Floats | Ints | str] = []
        for track in self.own_tracks:
            kind = f"{track.path} {track.interpolation}"
            found += [kind, track.items, track.times, track.values]
        return [*found, *("smooth" for _ in range(self.own_tracks != self.tracks))]

    @cached_property
    def jumps(self) -> Floats:
        """Times at which a track jumps: a step, or two keys at almost the same time."""
        least, found = JUMP * self.space.size, [np.empty(0)]
        for track in self.own_tracks:
            if len(track.times) > 1:
                found.append(track.times[track.jumps(self.space.reach_of(track), least)])
        return np.unique(np.concatenate(found))

    def sample_times(self, keys: Floats) -> Floats:
        """Return times, beside those of keys, at which samples joined by lines are these tracks.

        That is up to 1/120 s for cubic tracks.
        """
        early = self.jumps - 2e-6
        if all(track.interpolation != "CUBICSPLINE" for track in self.own_tracks):
            return early
        count = min(int((keys[-1] - keys[0]) * SPLINE_RATE) + 2, MOST_SAMPLES)
        return np.union1d(early, np.linspace(keys[0], keys[-1], count))

    def smoothed(self, cuts: Floats, tolerance: float = TOLERANCE) -> MotionTracks:
        """Return tracks whose accelerations are finite, near these: see `SmoothTrack`.

        Parameters
        ----------
        cuts
            Times of keys that nothing is interpolated to.
        tolerance
            Of each track, as a part of the size. Joints of a chain add up: it is halved until
            their places are within `BOUND`.
        """
        for _ in range(MOST_HALVINGS):
            smooth = self._smoothed(cuts, tolerance)
            if self._apart(smooth) <= BOUND * self.space.size:
                break
            tolerance *= 0.5
        return smooth

    def _apart(self, other: MotionTracks) -> float:
        """Return how far joints, and the ends of the last ones, are from those of other tracks.

        At some times of the gaps between keys, of which no more than `MOST_COMPARED`.
        """
        keys = distinct_times([track.times for track in self.own_tracks], 1e-3)
        if len(keys) < 2:
            return 0.0
        gaps = np.diff(keys)[:, None] * COMPARED
        times = (keys[:-1, None] + gaps)[:: len(keys) // MOST_COMPARED + 1].ravel()
        skeleton, far = self.space.skeleton, 0.0
        last = np.ones(skeleton.n_joints, dtype=bool)
        last[skeleton.parents[skeleton.parents >= 0]] = False
        reach = np.where(last, self.space.reach, 0.0)
        for some in np.array_split(times, len(times) * skeleton.n_joints // 200_000 + 1):
            one, two = (skeleton.world(*each.local_transforms(some)) for each in (self, other))
            change = one - two
            for axis in range(3):
                ends = change[..., :3, 3] + reach[:, None] * change[..., :3, axis]
                far = max(far, float(np.linalg.norm(ends, axis=-1).max(initial=0)))
        return far

    def _smoothed(self, cuts: Floats, tolerance: float) -> MotionTracks:
        smooth: list[Track | SmoothTrack] = []
        for track in self.tracks:
            if isinstance(track, Track):
                reach = self.space.reach_of(track)
                smooth.append(track.smoothed(reach, tolerance * self.space.size, cuts))
            else:
                smooth.append(track)
        return replace(self, tracks=tuple(smooth))

    def resampled(self, times: Floats) -> MotionTracks:
        """Return tracks with keys at these times, and lines between them."""
        found = []
        for track in self.tracks:
            step = isinstance(track, Track) and track.interpolation == "STEP"
            kind = "STEP" if step else "LINEAR"
            found.append(Track(track.path, track.items, kind, times, track.at(times)))
        return replace(self, tracks=tuple(found))

    def cycle(self, first: float, last: float, moved: Floats) -> MotionTracks:
        """Return tracks that repeat a part of the clip before and after it.

        Parameters
        ----------
        first, last
            Seconds of the part. What its end is away from leading into its start is spread over
            the cycle.
        moved
            (4, 4) from a cycle's roots to the next one's.
        """
        displaced, tracks = self._displaced(first, moved), self.own_tracks
        return replace(
            self, tracks=tuple(_repeated(track, first, last, displaced) for track in tracks)
        )

    def _displaced(self, first: float, moved: Floats) -> dict[int, Floats]:
        """Return transforms (4, 4) from a cycle's local transforms to the next, of topmost joints.

        Only of those that move, with nothing above them that does.
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
        found, below = {}, np.zeros(len(moving), dtype=bool)
        for joint, parent in enumerate(self.space.skeleton.parents.tolist()):
            below[joint] = parent >= 0 and (below[parent] or moving[parent])
            if moving[joint] and not below[joint]:
                above = world[parent] if parent >= 0 else np.eye(4)
                found[joint] = np.linalg.solve(above, moved @ above)
        return found


def _repeated(track: Track, first: float, last: float, displaced: dict[int, Floats]) -> Track:
    """Return a part of a track with keys of the cycles before and after it."""
    inside = (track.times > first + 1e-9) & (track.times < last - 1e-9)
    times = np.concatenate([[first], track.times[inside], [last]])
    step = track.interpolation == "STEP"
    if track.interpolation == "CUBICSPLINE":
        between = np.linspace(first, last, max(2, int((last - first) * SPLINE_RATE)))
        times = np.unique(np.concatenate([times, between]))
    values = track.at(times)
    onward = [displaced.get(int(item)) for item in track.items]
    if not step:
        values = _closed(track.path, times, values, onward)
    length, count = last - first, len(times) - 1
    cycles = -(-BEYOND // count)
    parts, whens = [], []
    for cycle in range(-cycles, cycles + 1):
        stop = None if cycle == cycles else -1  # the last key is the next cycle's first
        parts.append(_moved_on(track.path, values, onward, cycle)[:stop])
        whens.append((times + cycle * length)[:stop])
    kept = slice(max(cycles * count - BEYOND, 0), (cycles + 1) * count + BEYOND + 1)
    when, what = np.concatenate(whens)[kept], np.concatenate(parts)[kept]
    apart = np.concatenate([[True], np.diff(when) > 0])
    return Track(track.path, track.items, "STEP" if step else "LINEAR", when[apart], what[apart])


def _moved_on(path: str, values: Floats, onward: Sequence[Floats | None], cycles: int) -> Floats:
    """Return values shifted by some cycles."""
    values = values.copy()
    for column, step in enumerate(onward):
        if step is None or path not in ("translation", "rotation"):
            continue
        power = np.linalg.matrix_power(step if cycles >= 0 else np.linalg.inv(step), abs(cycles))
        turn = _rotation(power)
        if path == "rotation":
            values[:, column] = multiply(turn, values[:, column])
        else:
            values[:, column] = rotate(turn, values[:, column]) + power[:3, 3]
    return values


def _closed(path: str, times: Floats, values: Floats, onward: Sequence[Floats | None]) -> Floats:
    """Return values whose last row is the first of the next cycle, the rest spread over all."""
    share = ((times - times[0]) / (times[-1] - times[0]))[:, None, None]
    end = _moved_on(path, values[:1], onward, 1)
    if path != "rotation":
        return values - share * (values[-1:] - end)
    off = logarithm(multiply(end, inverse(values[-1:])))
    return multiply(exponential(share * off), values)


def _rotation(transform: Floats) -> Floats:
    linear = transform[:3, :3]
    return from_matrix(linear / np.cbrt(np.linalg.det(linear)))


def distinct_times(times: Sequence[Floats], nearest: float) -> Floats:
    """Return all of several lists of times, those nearer than `nearest` to the next one left out.

    Where two keys are a jump, the one after it is kept.

    >>> distinct_times([np.array([0.0, 1.0]), np.array([0.0, 0.5, 1.001])], 0.01)
    array([0.   , 0.5  , 1.001])
    """
    found = np.unique(np.concatenate([np.empty(0), *times]))
    if not len(found):
        return found
    return found[np.append(np.diff(found) >= nearest, True)]


def joint_reach(
    skeleton: Skeleton,
    points: Floats | None = None,
    joints: Ints | None = None,
    weights: Floats | None = None,
) -> Floats:
    """Return (J,) metres from each joint to the farthest of what it carries, at rest, at most.

    Parameters
    ----------
    skeleton
        Joints.
    points, joints, weights
        (n, 3) surface vertices at rest, and (n, j) which joints they follow, where there are any.
    """
    places = skeleton.rest_world()[:, :3, 3]
    low, high = places.copy(), places.copy()
    if points is not None and joints is not None and weights is not None:
        rows, columns = np.nonzero(weights > 1e-3)
        followed = joints[rows, columns]
        np.minimum.at(low, followed, points[rows])
        np.maximum.at(high, followed, points[rows])
    for joint in range(skeleton.n_joints - 1, -1, -1):
        parent = skeleton.parents[joint]
        if parent >= 0:
            low[parent] = np.minimum(low[parent], low[joint])
            high[parent] = np.maximum(high[parent], high[joint])
    reach: Floats = np.linalg.norm(np.maximum(places - low, high - places), axis=1)
    if points is None:  # the last joints carry something as well: about as long as their bones
        above = np.where(skeleton.parents >= 0, skeleton.parents, np.arange(len(places)))
        reach = np.maximum(reach, np.linalg.norm(places - places[above], axis=1))
    return reach


def sampled_tracks(
    joint_pose: JointPose,
    times: ArrayLike,
    poses: Floats,
    roots: Floats,
    joint: int | None = None,
) -> MotionTracks:
    """Return linear tracks through the samples of a motion.

    Parameters
    ----------
    joint_pose
        Pose vector of the joints; entries of `poses` behind its own are shape weights.
    times, poses, roots
        (t,), (t, s), (t, 4, 4).
    joint
        Joint whose rest place the root turns about; by default the first.
    """
    skeleton, when = joint_pose.skeleton, np.asarray(times, dtype=np.float64)
    width = joint_pose.n_parameters
    local = joint_pose.unpack(poses[:, :width])
    rest = skeleton.translations, skeleton.rotations, skeleton.scales
    tracks = []
    for path, values, still in zip(("translation", "rotation", "scale"), local, rest, strict=True):
        moving = np.flatnonzero((values != still).any(axis=(0, 2)))
        if len(moving):
            tracks.append(Track(path, moving, "LINEAR", when, values[:, moving]))
    if poses.shape[1] > width:
        weights = poses[:, width:, None]
        tracks.append(Track("weights", np.arange(weights.shape[1]), "LINEAR", when, weights))
    places = skeleton.rest_world()[:, :3, 3]
    pivot = places[0 if joint is None else joint]
    if (roots != np.eye(4)).any():
        root, turns = np.array([ROOT]), from_matrix(roots[:, :3, :3])
        moved = roots[:, :3, :3] @ pivot + roots[:, :3, 3]
        tracks.append(Track("translation", root, "LINEAR", when, moved[:, None]))
        tracks.append(Track("rotation", root, "LINEAR", when, turns[:, None]))
    reach, none = joint_reach(skeleton), np.zeros(poses.shape[1] - width)
    size = float(np.linalg.norm(np.ptp(places, axis=0)))
    size = max(size, float(np.abs(skeleton.translations).max()), 1e-9)
    space = TrackSpace(joint_pose, None, pivot, none, reach, none + 0.1 * size, size)
    return MotionTracks.of_file(space, tracks)
