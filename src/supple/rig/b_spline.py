"""Clamped uniform B-splines: basis functions, and the nearest point of a curve."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import BSpline
from scipy.spatial import cKDTree

__all__ = ["basis_at", "nearest_parameters"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SAMPLES_PER_SPAN = 32
#: Golden sections that shrink a bracket of two samples to rounding of the parameter.
SECTIONS = 60


def knots(count: int, degree: int) -> Floats:
    """Knots of a curve over [0, 1] that begins and ends at its outer control points."""
    inner = np.linspace(0, 1, count - degree + 1)
    return np.concatenate([np.zeros(degree), inner, np.ones(degree)])


def basis_at(parameters: Floats, count: int, degree: int) -> tuple[Ints, Floats, Floats]:
    """First control point that acts, (n,), and the acting ones' weights and derivatives.

    Weights and derivatives are (n, degree + 1), for control points first … first + degree.
    """
    t = knots(count, degree)
    inside = np.clip(parameters, 0.0, 1.0)
    spans = np.clip(np.searchsorted(t, inside, side="right") - 1, degree, count - 1)
    first = spans - degree
    columns = first[:, None] + np.arange(degree + 1)
    spline = BSpline(t, np.eye(count), degree)
    values = np.take_along_axis(spline(inside), columns, axis=1)
    slopes = np.take_along_axis(spline.derivative()(inside), columns, axis=1)
    return first, np.ascontiguousarray(values), np.ascontiguousarray(slopes)


def nearest_parameters(points: Floats, control: Floats, degree: int) -> Floats:
    """Parameter in [0, 1] of the curve's point nearest to each of `points`, (n,)."""
    count = len(control)
    samples = np.linspace(0, 1, SAMPLES_PER_SPAN * (count - degree) + 1)
    curve = BSpline(knots(count, degree), control, degree)
    nearest = cKDTree(curve(samples)).query(points)[1]
    low = samples[np.maximum(nearest - 1, 0)]
    high = samples[np.minimum(nearest + 1, len(samples) - 1)]
    golden = (np.sqrt(5) - 1) / 2

    def squared(u: Floats) -> Floats:
        return ((curve(u) - points) ** 2).sum(axis=1)

    for _ in range(SECTIONS):
        left, right = high - golden * (high - low), low + golden * (high - low)
        lower = squared(left) < squared(right)
        high, low = np.where(lower, right, high), np.where(lower, low, left)
    return 0.5 * (low + high)
