"""Twisting about an axis."""

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
    from supple.rig.placement.deformers import TwistPlacement

__all__ = ["Twist", "twist_points"]


class Twist(PointDeformer):
    """Turns points about an axis, by an angle that changes along it.

    Two parameters, "<name>.start" and "<name>.end": the angles at and below the low bound, and at
    and above the high one, in radians; between them it changes evenly.

    Parameters
    ----------
    points : (n, 3) array
        Rest points.
    origin, axis : (3,) arrays
        The line about which points turn, by the right-hand rule.
    low, high : float
        Ends of the twisted part, in metres along the axis from the origin.

    Examples
    --------
    >>> rig = Twist([[1, 0.5, 0]], low=0, high=1)
    >>> np.round(rig([0, np.pi]), 12)
    array([[ 0. ,  0.5, -1. ]])
    """

    def __init__(
        self,
        points: ArrayLike,
        origin: ArrayLike = (0.0, 0.0, 0.0),
        axis: ArrayLike = (0.0, 1.0, 0.0),
        *,
        low: float = -1.0,
        high: float = 1.0,
        name: str = "twist",
    ) -> None:
        parameters = [Parameter(f"{name}.start", "rad"), Parameter(f"{name}.end", "rad")]
        super().__init__(points, parameters)
        self.origin = owned_array(f"{name}: origin", origin, (3,))
        self.axis = checked_frame(name, axis)[1]
        self.low, self.high = checked_bounds(name, low, high)

    def _move(self, points: Floats, pose: Floats, subset: Ints | None) -> Floats:
        out = np.empty_like(points)
        twist_points(points, self.origin, self.axis, pose[0], pose[1], self.low, self.high, out)
        return out

    def placement(self, vertices: Ints | None = None, *, single: bool = False) -> TwistPlacement:
        """Places the listed vertices, or all, again and again."""
        from supple.rig.placement.deformers import TwistPlacement

        return TwistPlacement(self, vertices)


@compiled
def twist_points(
    points: Floats,
    origin: Floats,
    axis: Floats,
    start: float,
    end: float,
    low: float,
    high: float,
    out: NDArray[np.floating[Any]],
) -> None:
    ax, ay, az = axis[0], axis[1], axis[2]
    for i in range(len(points)):
        dx, dy, dz = points[i, 0] - origin[0], points[i, 1] - origin[1], points[i, 2] - origin[2]
        along = ax * dx + ay * dy + az * dz
        part = min(max((along - low) / (high - low), 0.0), 1.0)
        angle = start + part * (end - start)
        cosine, sine = math.cos(angle), math.sin(angle)
        # Rodrigues: the part along the axis stays, the rest turns.
        kept = (1 - cosine) * along
        out[i, 0] = origin[0] + cosine * dx + sine * (ay * dz - az * dy) + kept * ax
        out[i, 1] = origin[1] + cosine * dy + sine * (az * dx - ax * dz) + kept * ay
        out[i, 2] = origin[2] + cosine * dz + sine * (ax * dy - ay * dx) + kept * az
