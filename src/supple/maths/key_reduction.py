"""Key reduction: few keys whose linear or spline interpolation is near all samples of a curve."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import CubicSpline

from supple.arrays import Bools, Floats
from supple.errors import SuppleError
from supple.maths.rotations import continuous, slerp

#: Interpolation between keys; "every" keeps all samples, with lines between them.
KeyKind = Literal["linear", "spline", "every"]
#: Smallest relative tolerance: files store float32.
ROUNDING = 1e-7


@dataclass(frozen=True, eq=False)
class Keys:
    """Keys of one curve of c components, at times (k,): linear, or cubic Hermite with `tangents`.

    `tangents` (k, c) are derivatives per second. With `rotation` values are unit quaternions (x, y,
    z, w), each near its predecessor: interpolation is by slerp, and values of a spline are
    normalised, as in glTF.
    """

    times: Floats
    values: Floats
    tangents: Floats | None = None
    rotation: bool = False

    def __len__(self) -> int:
        return len(self.times)

    def at(self, times: ArrayLike) -> Floats:
        """Return values (t, c); constant before the first key and after the last."""
        where = np.clip(np.asarray(times, np.float64), self.times[0], self.times[-1])
        if len(self.times) == 1:
            return np.repeat(self.values, len(where), axis=0)
        before = np.clip(np.searchsorted(self.times, where, side="right") - 1, 0, len(self) - 2)
        return _between(self, before, before + 1, where)

    def slope(self, times: ArrayLike, side: Literal["left", "right"] = "right") -> Floats:
        """Return one-sided derivatives (t, c) of the components; zero outside of the keys."""
        where = np.asarray(times, np.float64)
        slopes = np.zeros((len(where), self.values.shape[1]))
        inside = (where >= self.times[0]) & (where <= self.times[-1])
        if len(self) == 1 or not inside.any():
            return slopes
        at = where[inside]
        a = np.clip(np.searchsorted(self.times, at, side=side) - 1, 0, len(self) - 2)
        gap = np.diff(self.times)[a][:, None]
        rise = (self.values[a + 1] - self.values[a]) / gap
        if self.tangents is None:
            slopes[inside] = rise
            return slopes
        u = (at - self.times[a])[:, None] / gap
        leaving, arriving = self.tangents[a], self.tangents[a + 1]
        slopes[inside] = (
            6 * u * (1 - u) * rise
            + (3 * u**2 - 4 * u + 1) * leaving
            + (3 * u**2 - 2 * u) * arriving
        )
        return slopes


def reduced_keys(
    times: ArrayLike,
    values: ArrayLike,
    tolerance: ArrayLike,
    kind: KeyKind = "linear",
    *,
    rotation: bool = False,
    closed: bool = False,
    kept: Iterable[int] = (),
    allowed: ArrayLike | None = None,
) -> Keys:
    """Choose keys among samples whose interpolation is within a tolerance of all samples.

    Parameters
    ----------
    times, values
        (t,) strictly increasing, and (t, c) samples; unit quaternions where `rotation`.
    tolerance
        Largest distance of a sample from the curve: a number, or (c,) per component; for a
        rotation an angle in radians.
    kind
        ``"linear"``; ``"spline"`` for cubic Hermite splines with the slopes of the C² spline
        through the samples; ``"every"`` for all samples.
    rotation
        Whether values are rotations, see `Keys`.
    closed
        Whether the curve is periodic; slopes of splines then are, too.
    kept
        Samples that must be keys. Two consecutive samples are a cut; each side has its own spline.
    allowed
        Mask (t,) of the samples that may be keys, such as those on frames; by default all. Between
        two consecutive ones the distance may be larger.

    Examples
    --------
    >>> times = np.linspace(0, 1, 101)
    >>> wave = np.sin(2 * np.pi * times)[:, None]
    >>> [len(reduced_keys(times, wave, 0.01, kind)) for kind in ("every", "linear", "spline")]
    [101, 28, 7]
    """
    t = np.asarray(times, np.float64)
    x = np.array(values, np.float64)
    if t.ndim != 1 or x.ndim != 2 or len(t) != len(x) or not len(t):
        raise SuppleError(f"samples {x.shape} do not match times {t.shape}; give a row per time")
    if not (np.isfinite(t).all() and np.isfinite(x).all() and (np.diff(t) > 0).all()):
        raise SuppleError("samples of a curve must be finite, and times must increase")
    x = continuous(x) if rotation and len(x) > 1 else x
    within = np.asarray(tolerance, np.float64)
    if not (np.isfinite(within).all() and (within >= 0).all()):
        raise SuppleError(f"tolerance is {tolerance!r}; use 0 or more")
    fixed = sorted({0, len(t) - 1, *(int(k) for k in kept)})
    may_be = np.ones(len(t), bool) if allowed is None else np.asarray(allowed, bool)
    slopes = _slopes(t, x, fixed, closed) if kind == "spline" and len(t) > 1 else None
    samples = Keys(t, x, slopes, rotation)
    if kind == "every" or len(t) < 3:
        return samples
    floor = ROUNDING * np.abs(x).max(axis=0)
    limit = np.maximum(within, floor.max()) if rotation else np.maximum(within, floor)
    chosen = _thinned(samples, _divided(samples, fixed, limit, may_be), set(fixed), limit)
    return Keys(t[chosen], x[chosen], None if slopes is None else slopes[chosen], rotation)


def _slopes(times: Floats, values: Floats, fixed: list[int], closed: bool) -> Floats:
    """Return derivatives of C² splines through the samples, one between each two cuts."""
    slopes = np.zeros_like(values)
    cuts = [k for k in fixed if k - 1 in fixed and 1 < k < len(times) - 1]
    ends = [0, *cuts, len(times)]
    for first, last in itertools.pairwise(ends):
        part, count = slice(first, last), last - first
        if count < 2:
            continue
        periodic = closed and not cuts and np.allclose(values[0], values[-1], rtol=0, atol=1e-9)
        keys = values[part].copy()
        if periodic and count > 2:
            keys[-1] = keys[0]
        boundary = "periodic" if periodic and count > 2 else "not-a-knot"
        slopes[part] = CubicSpline(times[part], keys, bc_type=boundary)(times[part], 1)
    return slopes


def _between(keys: Keys, a: ArrayLike, b: ArrayLike, where: Floats) -> Floats:
    """Return the curve at times (t,), interpolated between keys a and b."""
    a, b = np.asarray(a), np.asarray(b)
    gap = (keys.times[b] - keys.times[a])[..., None]
    u = (where - keys.times[a])[:, None] / gap
    start, end = keys.values[a], keys.values[b]
    if keys.tangents is not None:
        values = (
            (2 * u**3 - 3 * u**2 + 1) * start
            + gap * (u**3 - 2 * u**2 + u) * keys.tangents[a]
            + (3 * u**2 - 2 * u**3) * end
            + gap * (u**3 - u**2) * keys.tangents[b]
        )
        if keys.rotation:
            lengths = np.linalg.norm(values, axis=1, keepdims=True)
            values = values / np.maximum(lengths, 1e-12)
        return values
    if keys.rotation:
        ones = np.ones((len(where), 1))
        return slerp(start * ones, end * ones, u[:, 0])
    return start + u * (end - start)


def _errors(samples: Keys, a: int, b: int, limit: Floats) -> Floats:
    """Return distances of samples between keys a and b from the curve, relative to `limit`."""
    inside = np.arange(a + 1, b)
    values = _between(samples, a, b, samples.times[inside])
    if samples.rotation:
        # |p ∓ q| = 2 sin(θ/4) of the angle θ between two rotations; accurate where θ is small.
        near = np.where(np.sum(values * samples.values[inside], axis=1, keepdims=True) < 0, -1, 1)
        chord = np.linalg.norm(near * values - samples.values[inside], axis=1)
        return 4 * np.arcsin(np.minimum(0.5 * chord, 1.0)) / np.maximum(limit, 1e-300)
    off = np.abs(values - samples.values[inside]) / np.maximum(limit, 1e-300)
    return np.asarray(off.max(axis=1, initial=0.0))


def _divided(samples: Keys, fixed: list[int], limit: Floats, allowed: Bools) -> list[int]:
    """Return indices of keys: add the allowed sample next to the worst one until all samples are in
    `limit` (Douglas-Peucker), or no allowed one is left.
    """
    chosen, waiting = set(fixed), list(itertools.pairwise(fixed))
    places = np.flatnonzero(allowed)
    while waiting:
        a, b = waiting.pop()
        between = places[np.searchsorted(places, a, "right") : np.searchsorted(places, b)]
        if not len(between):
            continue
        errors = _errors(samples, a, b, limit)
        worst = int(np.argmax(errors))
        if errors[worst] > 1:
            key = int(between[np.argmin(np.abs(between - (a + 1 + worst)))])
            chosen.add(key)
            waiting += [(a, key), (key, b)]
    return sorted(chosen)


def _thinned(samples: Keys, chosen: list[int], fixed: set[int], limit: Floats) -> list[int]:
    """Return the indices `chosen` without unnecessary keys, smallest errors removed first."""
    before = dict(zip(chosen[1:], chosen[:-1], strict=True))
    after = dict(itertools.pairwise(chosen))

    def cost(key: int) -> float:
        return float(_errors(samples, before[key], after[key], limit).max(initial=0.0))

    costs = {key: cost(key) for key in chosen if key not in fixed}
    heap = [(value, key) for key, value in costs.items()]
    heapq.heapify(heap)
    while heap and heap[0][0] <= 1:
        value, key = heapq.heappop(heap)
        if costs.get(key) != value:
            continue
        a, b = before.pop(key), after.pop(key)
        del costs[key]
        after[a], before[b] = b, a
        for other in (a, b):
            if other in costs:
                costs[other] = cost(other)
                heapq.heappush(heap, (costs[other], other))
    return sorted(fixed | costs.keys())
