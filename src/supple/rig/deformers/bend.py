"""Bending along an axis into an arc."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.arrays import Floats
from supple.checks import owned_array
from supple.compiled.jit import compiled
from supple.rig.deformers.deformer_frame import PointDeformer, checked_bounds, checked_frame
from supple.rig.protocol import Ints, Parameter

if TYPE_CHECKING:
    from supple.rig.placement.deformers import BendPlacement

__all__ = ["Bend", "bend_points"]


class Bend(PointDeformer):
    """Bends points so that the axis becomes an arc of its own length.

    One parameter, "<name>.angle": how far the axis turns between its bounds, in radians. Beyond
    the bounds points are carried along rigidly. The origin, or the bound nearest to it, stays.

    Parameters
    ----------
    points : (n, 3) array
        Rest points.
    origin, axis : (3,) arrays
        The line that is bent.
    direction : (3,) array
        Where the upper part of the axis goes with a positive angle.
    low, high : float
        Ends of the bent part, in metres along the axis from the origin.

    Examples
    --------
    A quarter of a circle of length π/2 has radius 1:

    >>> rig = Bend([[0, np.pi / 2, 0]], low=0, high=np.pi / 2)
    >>> np.round(rig([np.pi / 2]), 12)
    array([[1., 1., 0.]])
    """

    def __init__(
        self,
        points: ArrayLike,
        origin: ArrayLike = (0.0, 0.0, 0.0),
        axis: ArrayLike = (0.0, 1.0, 0.0),
        direction: ArrayLike = (1.0, 0.0, 0.0),
        *,
        low: float = -1.0,
        high: float = 1.0,
        name: str = "bend",
    ) -> None:
        super().__init__(points, [Parameter(f"{name}.angle", "rad")])
        self.origin = owned_array(f"{name}: origin", origin, (3,))
        self.frame = checked_frame(name, axis, direction)
        self.low, self.high = checked_bounds(name, low, high)

    def _move(self, points: Floats, pose: Floats, subset: Ints | None) -> Floats:
        out = np.empty_like(points)
        curvature = pose[0] / (self.high - self.low)
        bend_points(points, self.origin, self.frame, curvature, self.low, self.high, out)
        return out

    def placement(self, vertices: Ints | None = None, *, single: bool = False) -> BendPlacement:
        """Places the listed vertices, or all, again and again."""
        from supple.rig.placement.deformers import BendPlacement

        return BendPlacement(self, vertices)


@compiled
def bend_points(
    points: Floats,
    origin: Floats,
    frame: Floats,
    curvature: float,
    low: float,
    high: float,
    out: NDArray[np.floating[Any]],
) -> None:
    held = min(max(0.0, low), high)
    for i in range(len(points)):
        dx, dy, dz = points[i, 0] - origin[0], points[i, 1] - origin[1], points[i, 2] - origin[2]
        x = frame[0, 0] * dx + frame[0, 1] * dy + frame[0, 2] * dz
        y = frame[1, 0] * dx + frame[1, 1] * dy + frame[1, 2] * dz
        z = frame[2, 0] * dx + frame[2, 1] * dy + frame[2, 2] * dz
        along = min(max(y, low), high)
        length = along - held
        half = 0.5 * curvature * length
        # The chord of an arc: its length times sin(half)/half, turned by half of the angle.
        ratio = 1 - half * half / 6 if abs(half) < 1e-4 else math.sin(half) / half
        chord = length * ratio
        cosine, sine = math.cos(2 * half), math.sin(2 * half)
        beyond = y - along
        bent_x = chord * math.sin(half) + cosine * x + sine * beyond
        bent_y = held + chord * math.cos(half) - sine * x + cosine * beyond
        for k in range(3):
            out[i, k] = origin[k] + bent_x * frame[0, k] + bent_y * frame[1, k] + z * frame[2, k]
