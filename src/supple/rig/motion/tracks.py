"""Tracks: keys of joints and shape weights, with the interpolation of their file."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from supple.arrays import Bools, Floats, Ints
from supple.errors import SuppleError
from supple.maths.curves import Curve
from supple.maths.rotations import continuous, slerp

#: Number of components of each property that a track can move.
PATHS = {"translation": 3, "rotation": 4, "scale": 3, "weights": 1}
INTERPOLATIONS = ("LINEAR", "STEP", "CUBICSPLINE")
#: Two keys with different values are a jump if their gap is below this time in seconds, and below
#: this fraction of the adjacent gaps.
JUMP_GAP, JUMP_PART = 2e-3, 0.05
#: Shortest gap, in seconds, that is divided when a curve is fitted to a track.
SHORTEST_DIVIDED, MOST_DIVISIONS = 4e-3, 8
#: Fractions of a gap at which a curve is compared with its track.
COMPARED = np.array([0.1, 0.3, 0.5, 0.7, 0.9])


@dataclass(frozen=True, eq=False)
class Track:
    """Keys of one property of several joints, or of several shape weights, at the same times.

    `path` is ``"translation"``, ``"rotation"`` (quaternions), ``"scale"`` or ``"weights"``; `items`
    (k,) are joints or shapes; `times` (t,) are seconds, strictly increasing. `values` are (t, k,
    c), of splines (t, 3, k, c): in-tangents, values, out-tangents. The interpolation is glTF's
    ``"LINEAR"`` (of rotations spherical, along the shorter arc), ``"STEP"`` or ``"CUBICSPLINE"``;
    the first and the last value are held outside.
    """

    path: str
    items: Ints
    interpolation: str
    times: Floats
    values: Floats

    def __post_init__(self) -> None:
        width, count = PATHS.get(self.path), len(self.times)
        spline = self.interpolation == "CUBICSPLINE"
        shape = (count, *([3] if spline else []), len(self.items), width)
        if width is None or self.interpolation not in INTERPOLATIONS or not count:
            raise SuppleError(f"invalid track: {count} keys, {self.path!r}, {self.interpolation!r}")
        if self.values.shape != shape:
            raise SuppleError(f"values of a track have shape {self.values.shape}, not {shape}")

    @property
    def keys(self) -> Floats:
        """Values at the keys, (t, k, c)."""
        spline = self.interpolation == "CUBICSPLINE"
        return self._unit(self.values[:, 1] if spline else self.values)

    def columns(self, chosen: Bools | Ints) -> Track:
        """Return the track of selected items."""
        values = self.values[..., chosen, :]
        return Track(self.path, self.items[chosen], self.interpolation, self.times, values)

    def at(self, times: Floats) -> Floats:
        """Return values at times, (m, k, c); a step takes effect at its key."""
        if len(self.times) == 1:
            return np.repeat(self.keys, len(times), axis=0)
        clamped = np.clip(times, self.times[0], self.times[-1])
        start = np.searchsorted(self.times, clamped, side="right") - 1
        if self.interpolation == "STEP":
            return self._unit(self.values[start])
        start = np.minimum(start, len(self.times) - 2)
        gap = self.times[start + 1] - self.times[start]
        part = ((clamped - self.times[start]) / gap)[:, None, None]
        if self.interpolation == "CUBICSPLINE":
            return self._unit(self._hermite(start, part, gap[:, None, None]))
        first, last = self.values[start], self.values[start + 1]
        if self.path == "rotation":
            return slerp(self._unit(first), self._unit(last), part[..., 0])
        return first + part * (last - first)

    def _hermite(self, start: NDArray[np.int64], u: Floats, gap: Floats) -> Floats:
        first, leaving = self.values[start, 1], self.values[start, 2]
        arriving, last = self.values[start + 1, 0], self.values[start + 1, 1]
        return (
            (2 * u**3 - 3 * u**2 + 1) * first
            + gap * (u**3 - 2 * u**2 + u) * leaving
            + (3 * u**2 - 2 * u**3) * last
            + gap * (u**3 - u**2) * arriving
        )

    def _unit(self, values: Floats) -> Floats:
        return unit_quaternions(values) if self.path == "rotation" else values

    def jumps(self, reach: Floats, least: float) -> NDArray[np.bool_]:
        """Return a mask (t,) of keys at which a jump of more than `least` metres ends.

        `reach` is the largest motion of the surface, in metres per unit of each item's value.
        """
        is_jump = np.zeros(len(self.times), dtype=bool)
        sudden = np.ones(len(self.times) - 1, dtype=bool)
        if self.interpolation != "STEP":
            gaps = np.diff(self.times)
            adjacent_gaps = np.minimum(np.append(np.inf, gaps[:-1]), np.append(gaps[1:], np.inf))
            sudden = gaps < np.minimum(JUMP_GAP, JUMP_PART * adjacent_gaps)
        ends = np.flatnonzero(sudden) + 1
        keys = self.keys
        distances = _distances(self, keys[ends], keys[ends - 1])
        is_jump[ends] = (distances * reach > least).any(axis=1)
        return is_jump

    def smoothed(self, reach: Floats, tolerance: float, cuts: Floats) -> Track | SmoothTrack:
        """Return a C² curve through the keys that stays within `tolerance` metres of the track.

        A stepped track is returned unchanged. Jumps and `cuts`, times of keys, are kept.
        """
        if self.interpolation == "STEP" or len(self.times) == 1:
            return self
        begins = self.jumps(reach, 0.1 * tolerance)
        after = np.searchsorted(self.times, cuts - 1e-9)
        begins[after[(after > 0) & (after < len(self.times))]] = True
        return SmoothTrack(self, reach, tolerance, np.flatnonzero(begins))


class SmoothTrack:
    """C² curves through the keys of a track that stay within a tolerance between them.

    `reach` (k,) is the largest motion of the surface, in metres per unit of each item's value;
    `tolerance` is in metres. `begins` are keys at which the track jumps and a new curve begins.

    The curves are cubic splines through the keys; curves of rotations are splines of continuous
    quaternions, normalised, which do not depend on the frame and allow any number of revolutions.
    In gaps where a curve deviates by more than the tolerance, as between sparse keys, points of the
    track are added by halving, down to gaps of 4 ms: corners of the track are rounded only near its
    keys.
    """

    def __init__(self, track: Track, reach: Floats, tolerance: float, begins: Ints) -> None:
        self.track, self.path, self.items = track, track.path, track.items
        ends = [0, *begins.tolist(), len(track.times)]
        self._starts = track.times[ends[:-1]]
        self._stops = track.times[np.array(ends[1:]) - 1]
        self._pieces = [
            _fitted_curves(track, slice(a, b), reach, tolerance) for a, b in pairwise(ends)
        ]

    def at(self, times: Floats) -> Floats:
        """Return values at times, (m, k, c); the first and the last are held outside."""
        piece = np.maximum(np.searchsorted(self._starts, times, side="right") - 1, 0)
        clamped = np.clip(times, self._starts[piece], self._stops[piece])
        values = np.empty((len(times), len(self.items), PATHS[self.path]))
        for number in np.unique(piece):
            rows = piece == number
            for columns, curve in self._pieces[number]:
                values[np.ix_(rows, columns)] = curve(clamped[rows])
        return unit_quaternions(values) if self.path == "rotation" else values


def unit_quaternions(values: Floats) -> Floats:
    """Return normalised quaternions (…, 4); zeros become the identity."""
    lengths = np.linalg.norm(values, axis=-1, keepdims=True)
    identity = np.array([0.0, 0.0, 0.0, 1.0])
    return np.where(lengths > 1e-12, values / np.maximum(lengths, 1e-300), identity)


_Curves = list[tuple[Ints, Curve]]


def _fitted_curves(track: Track, keys: slice, reach: Floats, tolerance: float) -> _Curves:
    """Return curves of a track between two jumps; columns that need no added points share one."""
    times = track.times[keys]
    shared = _curve(track, times)
    if len(times) == 1:
        return [(np.arange(len(track.items)), shared)]
    far = (_deviation(track, shared, times) * reach > tolerance).any(axis=0)
    within = np.flatnonzero(~far)
    curves = []
    if len(within):
        part = track.columns(within) if far.any() else track
        curves.append((within, _curve(part, times) if far.any() else shared))
    for column in np.flatnonzero(far):
        single = track.columns(np.array([column]))
        curves.append((np.array([column]), _divided(single, times, reach[column], tolerance)))
    return curves


def _divided(track: Track, times: Floats, reach: float, tolerance: float) -> Curve:
    """Return a curve of one item, with points added in gaps where it deviates from the track."""
    curve = _curve(track, times)
    for _ in range(MOST_DIVISIONS):
        far = (_deviation(track, curve, times) * reach > tolerance)[:, 0]
        far &= np.diff(times) > SHORTEST_DIVIDED
        if not far.any():
            break
        added = 0.5 * (times[:-1] + times[1:])[far]
        times = np.sort(np.concatenate([times, added]))
        curve = _curve(track, times)
    return curve


def _curve(track: Track, times: Floats) -> Curve:
    # `at` returns the value after a jump if the first key of a piece ends that jump.
    values = track.at(times)
    return Curve(times, continuous(values) if track.path == "rotation" else values)


def _deviation(track: Track, curve: Curve, times: Floats) -> Floats:
    """Return the largest distance (t - 1, k) of a curve from its track in each gap."""
    between = (times[:-1, None] + np.diff(times)[:, None] * COMPARED).ravel()
    values = curve(between)
    if track.path == "rotation":
        values = unit_quaternions(values)
    distances = _distances(track, values, track.at(between))
    return distances.reshape(len(times) - 1, len(COMPARED), -1).max(axis=1)


def _distances(track: Track, a: Floats, b: Floats) -> Floats:
    """Return distances (m, k) of values (m, k, c), of rotations in radians."""
    if track.path == "rotation":
        b = np.where(np.sum(a * b, axis=-1, keepdims=True) < 0, -b, b)
        chord = np.linalg.norm(a - b, axis=-1) / 2
        return np.asarray(4 * np.arcsin(np.minimum(chord, 1.0)))
    return np.asarray(np.linalg.norm(a - b, axis=-1))
