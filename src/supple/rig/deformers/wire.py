"""Points that follow a curve."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import BSpline
from scipy.spatial import cKDTree

from supple.arrays import Floats, Ints
from supple.checks import owned_array
from supple.errors import SuppleError
from supple.rig.deformers.deformer_frame import PointDeformer
from supple.rig.protocol import Parameter, checked_cloud

if TYPE_CHECKING:
    from supple.rig.placement.wires import WiresPlacement

__all__ = ["UNMOVED", "Wire", "basis_at", "nearest_parameters"]


# ----------------------------------------------------------------------------
# Clamped uniform B-splines: basis functions, and the nearest point of a curve.


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


NO_VERTICES = np.empty(0, dtype=np.int64)


#: The piece of vertices without influence.
UNMOVED = -1


#: A search for the nearest place stops this near to an end of the curve where that is nearest.
END = 1e-10


class Wire(PointDeformer):
    """Points near a cubic B-spline follow it as its control points move.

    Three parameters for each control point, "<name>.<i>.tx" and so on: its offset in metres.
    Each point keeps the place on the rest curve that is nearest to its rest position. It moves
    with that place and turns with the curve's tangent, by the shortest rotation, both scaled by
    its influence.

    Parameters
    ----------
    points : (n, 3) array
        Rest points.
    control_points : (c, 3) array
        The rest curve, at least 2; it begins and ends at the outer ones.
    dropoff : float
        Distance from the rest curve at which the influence has faded to 0, in metres; the fading
        is (1 - (r/dropoff)²)².
    turning : float
        Part of the tangent's rotation that points follow, 0 to 1.
    influence : (n,) array, optional
        Influences in place of those by distance.

    Examples
    --------
    >>> rig = Wire([[0.5, 0, 0]], [[0, 0, 0], [1, 0, 0]], dropoff=1)
    >>> np.round(rig([0, 0, 0.2, 0, 0, 0.2]), 12)
    array([[0.5, 0. , 0.2]])
    """

    def __init__(
        self,
        points: ArrayLike,
        control_points: ArrayLike,
        dropoff: float = np.inf,
        *,
        turning: float = 1.0,
        influence: ArrayLike | None = None,
        name: str = "wire",
    ) -> None:
        self.control_points = checked_cloud(f"{name}: control points", control_points)
        count = len(self.control_points)
        if count < 2:
            raise SuppleError(f"{name}: a curve needs at least 2 control points")
        if not dropoff > 0:
            raise SuppleError(f"{name}: dropoff {dropoff}; it must be a positive distance")
        if not 0 <= turning <= 1:
            raise SuppleError(f"{name}: turning {turning}; it must be between 0 and 1")
        names = [f"{name}.{i}.t{axis}" for i in range(count) for axis in "xyz"]
        super().__init__(points, [Parameter(each, "m") for each in names])
        self.turning = float(turning)
        self.degree = min(3, count - 1)
        where = nearest_parameters(self.rest_points, self.control_points, self.degree)
        self._cut(where)
        if influence is None:
            curve = BSpline(knots(count, self.degree), self.control_points, self.degree)
            distance = np.linalg.norm(self.rest_points - curve(np.clip(where, 0, 1)), axis=1)
            influence = np.maximum(1 - (distance / dropoff) ** 2, 0) ** 2
        self.influence = owned_array(f"{name}: influence", influence, (self.n_vertices,))
        if self.influence.min() < 0:
            raise SuppleError(f"{name}: influence {self.influence.min():.3g}; none may be negative")
        self.pieces[self.influence == 0] = UNMOVED
        self._last: dict[bool, tuple[Ints, WiresPlacement]] = {}

    def _cut(self, where: Floats) -> None:
        """The curve's polynomials, and where on which of them each vertex has its place.

        Piece 0 is the beginning of the curve and the last one its end, at which most vertices
        of a limb's wire are that belong to other limbs: there all turn about one axis. Those
        between are the spans.
        """
        count, degree = len(self.control_points), self.degree
        spans = count - degree
        along = np.clip(where, 0.0, 1.0) * spans
        span = np.minimum(along.astype(np.int64), spans - 1)
        self.places = along - span
        self.pieces = (span + 1).astype(np.int32)
        begins, ends = where < END, where > 1 - END
        self.pieces[begins], self.pieces[ends] = 0, spans + 1
        self.places[begins], self.places[ends] = 0.0, 1.0
        # Rows: powers of the place within a span, by Taylor at its beginning; columns: its
        # control points.
        self.first_control = np.clip(np.arange(spans + 2) - 1, 0, spans - 1)
        self.powers = np.zeros((spans + 2, 4, 4))
        marks = knots(count, degree)
        spline = BSpline(marks, np.eye(count), degree)
        acting = self.first_control[:, None] + np.arange(degree + 1)
        for power in range(degree + 1):
            scale = 1.0 / (spans**power * math.factorial(power))
            slopes = spline(marks[degree + self.first_control], nu=power)
            self.powers[:, power, : degree + 1] = scale * np.take_along_axis(slopes, acting, 1)

    def _move(self, points: Floats, pose: Floats, subset: Ints | None) -> Floats:
        out = np.empty_like(points)
        self._placing(subset).deform(points, pose, out)
        return out

    def _placing(self, subset: Ints | None) -> WiresPlacement:
        """What moves these vertices; that of all and the last one of some are remembered."""
        last = self._last.get(subset is None)  # once: another thread may put its own there
        if last is None or (subset is not None and not np.array_equal(last[0], subset)):
            kept = NO_VERTICES if subset is None else subset.copy()
            last = self._last[subset is None] = (kept, self.placement(subset))
        return last[1].fork()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_last": {}}

    def placement(self, vertices: Ints | None = None, *, single: bool = False) -> WiresPlacement:
        """Places the listed vertices, or all, again and again."""
        from supple.rig.placement.wires import WiresPlacement

        return WiresPlacement([self], vertices, single=single)
