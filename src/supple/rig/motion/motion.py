"""Motions: poses and root transforms over time, with interpolation between keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats
from supple.checks import checked_number, checked_whole_numbers, numbers, owned_array
from supple.errors import SuppleError
from supple.maths.curves import Curve, smoothed
from supple.maths.rotations import (
    RotationCurve,
    continuous,
    exponential,
    from_matrix,
    multiply,
    nearest_vectors,
    to_matrix,
)
from supple.rig.motion.frame_counts import SINGLE, rounding_of, whole_steps
from supple.rig.motion.motion_tracks import MotionTracks

#: Least time between keys, in seconds.
SHORTEST_GAP = 1e-6
#: Tolerance of a root's rotation matrix; files store float32.
RIGID = 1e-4
#: Number of times at which tracks are sampled together.
BLOCK = 4096
#: Most memory of a resampled motion.
LARGEST_MOTION = 4 * 2**30


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Motion:
    """Poses and root transforms at key times; immutable.

    Parameters
    ----------
    times : (t,) array
        Seconds, strictly increasing, at least a microsecond apart.
    poses : (t, s) array
        Poses of a rig; rotation vectors continuous in time, as `JointPose.pack` makes them.
    roots : (t, 4, 4) array, optional
        Rigid transforms from the rig's space to the world, metres; by default the identity.
        Rotation matrices rounded to float32 are orthonormalised.
    name : str
    cuts : sequence of int
        Keys that begin a new shot. The simulation restarts at a cut ``i``; without tracks,
        keys ``i - 1`` and ``i`` are not interpolated.
    tracks : MotionTracks, optional
        Tracks of the file; `poses` and `roots` are their values at the keys.

    Notes
    -----
    A motion read from a file has tracks with the file's interpolation. A motion without tracks
    is C² between keys: cubic splines of the pose entries and the root position, a spline on the
    sphere of the root rotation. `supple.maths.curves.Curve` bounds the overshoot of a spline.
    Accelerations, and therefore inertial forces, are computed from `smooth`.

    Examples
    --------
    >>> motion = Motion([0.0, 0.5, 1.0], [[0.0], [1.0], [0.0]])
    >>> motion.at(0.5)[0], motion.resample(90).n_frames
    (array([1.]), 91)
    """

    times: Floats
    poses: Floats
    roots: Floats
    name: str = ""
    cuts: tuple[int, ...] = ()
    tracks: MotionTracks | None = None

    def __init__(
        self,
        times: ArrayLike,
        poses: ArrayLike,
        roots: ArrayLike | None = None,
        name: str = "",
        cuts: Sequence[int] = (),
        tracks: MotionTracks | None = None,
    ) -> None:
        what = f'motion "{name}"' if name else "motion"
        checked = _checked_times(what, times)
        count = len(checked)
        shape = numbers(f"{what}: poses", poses).shape
        if len(shape) != 2 or shape[0] != count:
            shapes = f"poses of shape {shape} for {count} times"
            raise SuppleError(f"{what}: {shapes}; give one row per time")
        if tracks is not None and tracks.space.width != shape[1]:
            widths = f"{shape[1]} numbers, but its tracks have {tracks.space.width}"
            raise SuppleError(f"{what}: a pose has {widths}")
        vars(self).update(
            times=checked,
            poses=_frozen(f"{what}: poses", poses, (count, shape[1])),
            roots=_checked_roots(what, roots, count),
            name=str(name),
            cuts=_checked_cuts(what, cuts, count),
            tracks=tracks,
        )

    def __repr__(self) -> str:
        name = f'"{self.name}", ' if self.name else ""
        cuts = f", {len(self.cuts)} cuts" if self.cuts else ""
        return f"Motion({name}{self.n_frames} keys, {self.duration:.3g} s{cuts})"

    @property
    def n_frames(self) -> int:
        """Number of keys."""
        return len(self.times)

    @property
    def duration(self) -> float:
        """Seconds from the first key to the last."""
        return float(self.times[-1] - self.times[0])

    @property
    def rate(self) -> float:
        """Keys per second, by the median gap; 0 for a single key."""
        return float(1 / np.median(np.diff(self.times))) if self.n_frames > 1 else 0.0

    @cached_property
    def smooth(self) -> Motion:
        """Motion with the same keys and finite accelerations, for inertial forces.

        It passes through the keys and stays near this motion between them (see `SmoothTrack`).
        Jumps and cuts are kept. A motion without tracks is returned unchanged.
        """
        if self.tracks is None:
            return self
        return self._replaced(tracks=self.tracks.smoothed(self.times[list(self.cuts)]))

    def repeated(self, moved: Floats) -> Motion:
        """Return the smooth motion of this clip as a cycle, smooth across the clip's ends as well.

        `moved` (4, 4) is the transform from the roots of one cycle to roots of the next.
        """
        if self.tracks is None:
            raise SuppleError(f"{self!r} has no tracks to repeat")
        cycle = self.tracks.cycle(float(self.times[0]), float(self.times[-1]), moved)
        return self._replaced(tracks=cycle.smoothed(np.empty(0)))

    @property
    def jumps(self) -> Floats:
        """Times after the first key at which a track of the file jumps."""
        times = np.empty(0) if self.tracks is None else self.tracks.jumps
        return times[(times > self.times[0]) & (times <= self.times[-1])]

    def _replaced(self, **changes: Any) -> Motion:
        fields = ("times", "poses", "roots", "name", "cuts", "tracks")
        return Motion(**({field: getattr(self, field) for field in fields} | changes))

    @cached_property
    def _shots(self) -> list[_Shot]:
        return self._shots_smoothed(0.0)

    def _shots_smoothed(self, smooth: float) -> list[_Shot]:
        ends = [0, *self.cuts, self.n_frames]
        return [
            _Shot(self.times[a:b], self.poses[a:b], self.roots[a:b], smooth)
            for a, b in pairwise(ends)
        ]

    def at(self, time: ArrayLike) -> tuple[Floats, Floats]:
        """Return pose and root at any time between the first and the last key.

        Parameters
        ----------
        time : float or (k,) array
            Seconds. Without tracks, a shot continues into the gap before the next cut at its
            last velocity, for at most the length of its last gap.

        Returns
        -------
        pose : (s,) or (k, s) array
        root : (4, 4) or (k, 4, 4) array
        """
        query = numbers("time", time, "seconds")
        flat = self._inside(query.ravel())
        if self.tracks is None:
            poses, roots = self._evaluate(flat, self._shots)
        else:
            poses, roots = self._sampled(self.tracks, flat)
        width = self.poses.shape[1]
        return poses.reshape(*query.shape, width), roots.reshape(*query.shape, 4, 4)

    def _sampled(self, tracks: MotionTracks, times: Floats) -> tuple[Floats, Floats]:
        """Sample tracks; each rotation vector is the one nearest to the preceding key's."""
        poses, roots = np.empty((len(times), self.poses.shape[1])), np.empty((len(times), 4, 4))
        entries = tracks.space.joint_pose.rotation_entries()
        for first in range(0, len(times), BLOCK):  # limits the memory of joint transforms
            block = slice(first, first + BLOCK)
            poses[block], roots[block] = tracks.sample(times[block])
        keys = np.maximum(np.searchsorted(self.times, times, side="right") - 1, 0)
        for vector in entries:
            poses[:, vector] = nearest_vectors(poses[:, vector], self.poses[keys][:, vector])
        return poses, roots

    def _evaluate(self, times: Floats, shots: list[_Shot]) -> tuple[Floats, Floats]:
        starts = np.array([shot.times[0] for shot in shots])
        shot_indices = np.searchsorted(starts, times, side="right") - 1
        poses = np.empty((len(times), self.poses.shape[1]))
        roots = np.zeros((len(times), 4, 4))
        for index in np.unique(shot_indices):
            rows = shot_indices == index
            poses[rows], roots[rows] = shots[index].at(times[rows])
        return poses, roots

    def _inside(self, times: Floats) -> Floats:
        """Snap times to keys within float32 rounding; refuse times outside the motion."""
        nearest = np.clip(np.searchsorted(self.times, times), 1, max(self.n_frames - 1, 1)) - 1
        for step in (0, 1):
            key = self.times[np.minimum(nearest + step, self.n_frames - 1)]
            times = np.where(np.abs(times - key) < SINGLE * np.maximum(1, np.abs(key)), key, times)
        first, last = self.times[0], self.times[-1]
        outside = ~((times >= first) & (times <= last))
        if outside.any():
            bad, span = times[int(np.argmax(outside))], f"{first:.6g} to {last:.6g} s"
            raise SuppleError(f"time {bad:.6g} s is not in the motion ({span})")
        return times

    def resample(self, rate: float, smooth: float = 0.0) -> Motion:
        """Return the motion with keys at an even rate.

        Parameters
        ----------
        rate : float
            Keys per second, from the first key on.
        smooth : float
            Period, in seconds, at which oscillations are halved before resampling; shorter
            periods are damped strongly, longer ones hardly (`supple.maths.curves.smoothed`).
            0 interpolates the keys exactly. Two to four gaps between keys smooth lightly, for
            keys that are noisy or sampled from stepped or linear interpolation.

        Returns
        -------
        Motion
            Its cuts are at the first key of each shot.
        """
        rate = checked_number("keys per second of a resampled motion", rate)
        smooth = checked_number("smoothing of a motion", smooth)
        if not rate > 0:
            raise SuppleError(f"cannot resample at {rate} keys per second; use a positive number")
        count = whole_steps(self.times[0], self.times[-1], rate) + 1
        if count * 8 * (self.poses.shape[1] + 16) > LARGEST_MOTION or rate * SHORTEST_GAP > 0.5:
            raise SuppleError(f"{self!r} at {rate:g} keys per second is too long; lower the rate")
        times = np.minimum(self.times[0] + np.arange(count) / rate, self.times[-1])
        tracks = None
        if self.tracks is not None and smooth == 0:
            poses, roots = self.at(times)
            tracks = self.tracks.resampled(times)
        else:
            shots = self._shots if smooth == 0 else self._shots_smoothed(smooth)
            poses, roots = self._evaluate(self._inside(times), shots)
        firsts = np.searchsorted(self._inside(times), self.times[list(self.cuts)])
        cuts = sorted({int(first) for first in firsts if 0 < first < count})
        return Motion(times, poses, roots, self.name, cuts, tracks)

    def sampled(self, times: Floats) -> Motion:
        """Return the motion with additional keys at `times`; tracks and cuts stay."""
        inside = times[(times >= self.times[0]) & (times <= self.times[-1])]
        distances = np.abs(self.times[np.searchsorted(self.times, inside) - 1] - inside)
        added = inside[distances >= 2 * SHORTEST_GAP]
        keys = np.unique(np.concatenate([self.times, added]))
        keys = keys[np.append(np.diff(keys) >= SHORTEST_GAP, True)]
        cuts = np.searchsorted(keys, self.times[list(self.cuts)])
        poses, roots = self.at(keys)
        return Motion(keys, poses, roots, self.name, cuts.tolist(), self.tracks)

    def slice(self, start: float, stop: float) -> Motion:
        """Return the part from `start` to `stop` seconds: the keys inside and both ends.

        An end within float32 rounding of the first or the last key is that key.
        """
        start, stop = (checked_number("end of a slice", end) for end in (start, stop))
        first, last = float(self.times[0]), float(self.times[-1])
        rounding = rounding_of(first, last)
        start = first if first - rounding <= start < first else start
        stop = last if last < stop <= last + rounding else stop
        if not start <= stop:
            raise SuppleError(f"cannot slice from {start} to {stop} s; give the earlier time first")
        ends = np.unique(self._inside(np.array([start, stop], dtype=np.float64)))
        kept = (self.times >= ends[0]) & (self.times <= ends[-1])
        # An end closer to a key than the least time between keys is replaced by that key.
        distances = np.abs(ends[:, None] - self.times[kept]).min(axis=1, initial=np.inf)
        added = ends[distances >= 2 * SHORTEST_GAP]
        times = np.sort(np.concatenate([self.times[kept], added]))
        poses, roots = self.at(times)
        cuts = np.searchsorted(times, self.times[list(self.cuts)])
        kept_cuts = [int(cut) for cut in np.unique(cuts) if 0 < cut < len(times)]
        return Motion(times, poses, roots, self.name, kept_cuts, self.tracks)

    def with_cuts(self, cuts: Sequence[int]) -> Motion:
        """Return the same keys with these cuts, e.g. from `detect_cuts`."""
        return self._replaced(cuts=cuts)


class _Shot:
    """Interpolating curves between two cuts."""

    def __init__(self, times: Floats, poses: Floats, roots: Floats, smooth: float) -> None:
        self.times = times
        positions, rotations = roots[:, :3, 3], continuous(from_matrix(roots[:, :3, :3]))
        if smooth:
            poses, positions = smoothed(times, poses, smooth), smoothed(times, positions, smooth)
            # A steady rotation has equally damped components: normalising restores it.
            rotations = smoothed(times, rotations, smooth)
            rotations = rotations / np.linalg.norm(rotations, axis=1, keepdims=True)
        self.poses, self.positions = Curve(times, poses), Curve(times, positions)
        self.rotations = RotationCurve(times, rotations)

    def at(self, times: Floats) -> tuple[Floats, Floats]:
        """Return poses and roots; after the last key linear for one gap, then constant."""
        last = self.times[-1]
        inside = np.minimum(times, last)
        gap = last - self.times[-2] if len(self.times) > 1 else 0.0
        excess = np.minimum(times - inside, gap)[:, None]
        poses, positions = self.poses(inside), self.positions(inside)
        rotations = self.rotations(inside)
        if excess.any():
            poses = poses + excess * self.poses(last, 1)
            positions = positions + excess * self.positions(last, 1)
            rotations = multiply(rotations, exponential(excess * self.rotations.velocity(last)))
        roots = np.zeros((len(times), 4, 4))
        roots[:, :3, :3] = to_matrix(rotations)
        roots[:, :3, 3] = positions
        roots[:, 3, 3] = 1
        return poses, roots


def _frozen(what: str, value: ArrayLike, shape: tuple[int, ...]) -> Floats:
    array = owned_array(what, value, shape)
    array.flags.writeable = False
    return array


def _checked_times(what: str, times: ArrayLike) -> Floats:
    shape = numbers(f"{what}: times", times).shape
    if len(shape) != 1 or shape[0] == 0:
        raise SuppleError(f"{what}: times of shape {shape}; a list of at least one time is needed")
    checked = _frozen(f"{what}: times", times, shape)
    gaps = np.diff(checked)
    if len(gaps) and not gaps.min() >= SHORTEST_GAP:
        first = int(np.argmin(gaps >= SHORTEST_GAP)) + 1
        keys = f"key {first} at {checked[first]:.9g} s follows {checked[first - 1]:.9g} s"
        raise SuppleError(f"{what}: {keys}; times must increase by at least a microsecond")
    return checked


def _checked_roots(what: str, roots: ArrayLike | None, count: int) -> Floats:
    if roots is None:
        roots = np.broadcast_to(np.eye(4), (count, 4, 4))
    checked = owned_array(f"{what}: roots", roots, (count, 4, 4))
    # Rotations are unchanged, and squares of other matrices do not overflow.
    rotations = np.clip(checked[:, :3, :3], -2.0, 2.0)
    errors = np.abs(rotations @ rotations.transpose(0, 2, 1) - np.eye(3)).max(axis=(1, 2))
    errors = np.maximum(errors, np.abs(checked[:, 3] - [0, 0, 0, 1]).max(axis=1))
    bad = (errors > RIGID) | (np.linalg.det(rotations) < 0)
    if bad.any():
        root = f"root {int(np.argmax(bad))} is not a rigid transform"
        raise SuppleError(f"{what}: {root}; keep scale in the pose (supple.rig.split_root does)")
    if errors.max() > 1e-12:
        checked[:, :3, :3] = to_matrix(from_matrix(rotations))
    checked.flags.writeable = False
    return checked


def _checked_cuts(what: str, cuts: Sequence[int], count: int) -> tuple[int, ...]:
    checked = tuple(sorted(set(checked_whole_numbers(f"{what}: cuts", cuts))))
    if checked and not 0 < checked[0] <= checked[-1] < count:
        bad = checked[0] if checked[0] <= 0 else checked[-1]
        raise SuppleError(f"{what}: a cut at key {bad}; cuts are at keys 1 to {count - 1}")
    return checked
