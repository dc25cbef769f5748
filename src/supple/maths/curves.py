"""C² curves through keys, and smoothing of keys."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solveh_banded

from supple.arrays import Floats
from supple.errors import SuppleError

#: Largest ratio of neighbouring gaps; keys are inserted into longer gaps.
LARGEST_RATIO = 4.0


class Curve:
    """C² cubic spline through keys `values` (t, …) at strictly increasing `times`, by component.

    Between evenly spaced keys the curve exceeds the range of the keys by at most ¾ D, where D is
    the largest difference of neighbouring keys: its slopes solve m₋ + 4m + m₊ = 3(Δ₋ + Δ₊)/h, so
    |m| ≤ 3D/h, and the contribution of the slopes on [0, h] is at most |m| h/4. At a single
    step it is 0.11 D. For uneven keys there is no such bound (two keys a millisecond apart make the
    next second overshoot arbitrarily), so a gap more than four times as long as a neighbour is
    divided by keys on the straight line.
    """

    def __init__(self, times: ArrayLike, values: ArrayLike) -> None:
        self.times = np.asarray(times, dtype=np.float64)
        keys = np.asarray(values, dtype=np.float64)
        if self.times.ndim != 1 or keys.shape[:1] != self.times.shape or not len(keys):
            raise SuppleError(f"keys {keys.shape} for times {self.times.shape}; give one per time")
        self._only = keys[0]
        self._spline = None
        if len(keys) > 1:
            dense = graded_times(self.times)
            if len(dense) > len(keys):
                keys = _on_the_line(self.times, keys, dense)
            from scipy.interpolate import (
                CubicSpline,  # a late import: `supple info` does not need it
            )

            self._spline = CubicSpline(dense, keys)

    def __call__(self, times: ArrayLike, derivative: int = 0) -> Floats:
        """Return values (…, *keys) at these times, or their first or second derivative."""
        where = np.asarray(times, dtype=np.float64)
        if self._spline is not None:
            return np.asarray(self._spline(where, derivative))
        value = self._only if derivative == 0 else np.zeros_like(self._only)
        return np.broadcast_to(value, (*where.shape, *value.shape)).copy()


def graded_times(times: Floats, ratio: float = LARGEST_RATIO) -> Floats:
    """Insert times until no gap is more than `ratio` times as long as a neighbouring one.

    >>> graded_times(np.array([0.0, 1.0, 17.0]))
    array([ 0.,  1.,  5.,  9., 17.])
    """
    while len(times) > 2:
        gaps = np.diff(times)
        beside = np.full(len(gaps), np.inf)
        beside[1:] = gaps[:-1]
        beside[:-1] = np.minimum(beside[:-1], gaps[1:])
        # Rounding in the times must not count.
        long = np.flatnonzero(gaps > ratio * beside * (1 + 1e-6))
        if not len(long):
            break
        times = np.insert(times, long + 1, 0.5 * (times[long] + times[long + 1]))
    return times


def _on_the_line(times: Floats, keys: Floats, at: Floats) -> Floats:
    before = np.clip(np.searchsorted(times, at, side="right") - 1, 0, len(times) - 2)
    part = (at - times[before]) / np.diff(times)[before]
    part = part.reshape(-1, *[1] * (keys.ndim - 1))
    values = (1 - part) * keys[before] + part * keys[before + 1]
    values[np.searchsorted(at, times)] = keys
    return values


def smoothed(times: ArrayLike, values: ArrayLike, period: float) -> Floats:
    """Smooth keys `values` (t, …) at strictly increasing times, damping oscillations faster than
    `period`, in seconds. The gain is 1/2 for oscillations of this period, 1/17 for half the period
    and 16/17 for twice the period; linear motion is unchanged.

    The values are those of the natural smoothing spline, min ∫|f − y|² + λ∫|f″|² with λ =
    (period/2π)⁴, whose gain at the angular frequency ω is 1/(1 + λω⁴), from Reinsch's banded
    system.
    """
    t = np.asarray(times, dtype=np.float64)
    y = np.asarray(values, dtype=np.float64)
    if not (np.isfinite(period) and period >= 0):
        raise SuppleError(f"smoothing over {period} s; give a period in seconds, 0 for none")
    if period == 0 or len(t) < 3:
        return y.copy()
    rows = y.reshape(len(t), -1)
    gaps = np.diff(t)
    weights = np.empty(len(t))
    weights[0], weights[-1] = gaps[0], gaps[-1]
    weights[1:-1] = 0.5 * (gaps[:-1] + gaps[1:])
    # Column i of Q gives the jump of the slope at key i + 1; f″ there is γ.
    q0, q2 = 1 / gaps[:-1], 1 / gaps[1:]
    q1 = -q0 - q2
    strength = (period / (2 * np.pi)) ** 4
    w0, w1, w2 = strength / weights[:-2], strength / weights[1:-1], strength / weights[2:]
    bands = np.zeros((3, len(t) - 2))
    bands[2] = (gaps[:-1] + gaps[1:]) / 3 + q0 * q0 * w0 + q1 * q1 * w1 + q2 * q2 * w2
    bands[1, 1:] = gaps[1:-1] / 6 + q1[:-1] * w1[:-1] * q0[1:] + q2[:-1] * w2[:-1] * q1[1:]
    bands[0, 2:] = q2[:-2] * w2[:-2] * q0[2:]
    bends = q0[:, None] * rows[:-2] + q1[:, None] * rows[1:-1] + q2[:, None] * rows[2:]
    if bands.shape[1] == 1:
        gamma = bends / bands[2]
    else:
        gamma = solveh_banded(bands[-min(3, bands.shape[1]) :], bends)
    pull = np.zeros_like(rows)
    pull[:-2] += q0[:, None] * gamma
    pull[1:-1] += q1[:, None] * gamma
    pull[2:] += q2[:, None] * gamma
    return (rows - strength / weights[:, None] * pull).reshape(y.shape)
