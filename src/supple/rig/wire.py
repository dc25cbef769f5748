"""Points that follow a curve."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.checks import owned_array
from supple.compiled import compiled
from supple.errors import SuppleError
from supple.rig.b_spline import basis_at, nearest_parameters
from supple.rig.deformers import PointDeformer
from supple.rig.protocol import Ints, Parameter, checked_cloud

__all__ = ["Wire"]

Floats = NDArray[np.float64]

NO_SUBSET = np.empty(0, dtype=np.int64)


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
        self._first, self._values, self._slopes = basis_at(where, count, self.degree)
        acting = self._first[:, None] + np.arange(self.degree + 1)
        self._places = np.einsum("nk,nkc->nc", self._values, self.control_points[acting])
        self._tangents = np.einsum("nk,nkc->nc", self._slopes, self.control_points[acting])
        if influence is None:
            distance = np.linalg.norm(self.rest_points - self._places, axis=1)
            influence = np.maximum(1 - (distance / dropoff) ** 2, 0) ** 2
        self.influence = owned_array(f"{name}: influence", influence, (self.n_vertices,))
        if self.influence.min() < 0:
            raise SuppleError(f"{name}: influence {self.influence.min():.3g}; none may be negative")

    def _move(self, points: Floats, pose: Floats, subset: Ints | None) -> Floats:
        out = np.empty_like(points)
        _follow(
            points,
            NO_SUBSET if subset is None else subset,
            self._first,
            self._values,
            self._slopes,
            self._places,
            self._tangents,
            self.influence,
            self.turning,
            pose.reshape(-1, 3),
            out,
        )
        return out


@compiled
def _follow(
    points: Floats,
    rows: Ints,
    first: Ints,
    values: Floats,
    slopes: Floats,
    places: Floats,
    tangents: Floats,
    influence: Floats,
    turning: float,
    offsets: Floats,
    out: Floats,
) -> None:
    everything = len(rows) == 0
    shift, tangent, arm = np.empty(3), np.empty(3), np.empty(3)
    for i in range(len(points)):
        vertex = i if everything else rows[i]
        part = influence[vertex]
        # What nothing moves keeps its bits.
        if part == 0:
            out[i] = points[i]
            continue
        shift[:] = 0
        tangent[:] = tangents[vertex]
        for k in range(values.shape[1]):
            offset = offsets[first[vertex] + k]
            for axis in range(3):
                shift[axis] += values[vertex, k] * offset[axis]
                tangent[axis] += slopes[vertex, k] * offset[axis]
        for axis in range(3):
            arm[axis] = points[i, axis] - places[vertex, axis]
            out[i, axis] = places[vertex, axis] + part * shift[axis]
        _add_turned(arm, tangents[vertex], tangent, part * turning, out[i])


@compiled
def _add_turned(arm: Floats, before: Floats, after: Floats, part: float, out: Floats) -> None:
    """Add the arm, turned by a part of the shortest rotation between two directions."""
    cx = before[1] * after[2] - before[2] * after[1]
    cy = before[2] * after[0] - before[0] * after[2]
    cz = before[0] * after[1] - before[1] * after[0]
    length = math.sqrt(cx * cx + cy * cy + cz * cz)
    # No tangent, or one that did not turn. Opposite ones have no shortest rotation: none then.
    if length == 0:
        for axis in range(3):
            out[axis] += arm[axis]
        return
    inner = before[0] * after[0] + before[1] * after[1] + before[2] * after[2]
    angle = part * math.atan2(length, inner)
    x, y, z = cx / length, cy / length, cz / length
    cosine, sine = math.cos(angle), math.sin(angle)
    kept = (1 - cosine) * (x * arm[0] + y * arm[1] + z * arm[2])
    out[0] += cosine * arm[0] + sine * (y * arm[2] - z * arm[1]) + kept * x
    out[1] += cosine * arm[1] + sine * (z * arm[0] - x * arm[2]) + kept * y
    out[2] += cosine * arm[2] + sine * (x * arm[1] - y * arm[0]) + kept * z
