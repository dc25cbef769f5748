"""Base classes of rigs that move given points, and of their placements.

Compiled kernels move each point independently of the others, so that a subset has the same bits.
NumPy functions use other instructions for other lengths and strides.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints
from supple.checks import checked_array, shown, without_overflow
from supple.errors import SuppleError
from supple.rig.placement.placement import Positions
from supple.rig.protocol import (
    Parameter,
    checked_cloud,
    checked_parameters,
    checked_points,
    checked_pose,
    checked_subset,
    rest_values,
)
from supple.rig.stored.field_reader import DOUBLE, SINGLE, Field
from supple.rig.stored.schema import Array, Value

#: Largest angle, in radians, for polynomial sines, which lose digits with many revolutions.
LARGEST_ANGLE = 100.0


class PointRig(ABC):
    """Base class of rigs that move given points; a subclass implements `_move`."""

    rest_points: Floats
    parameters: tuple[Parameter, ...]
    rest_pose: Floats

    @property
    def n_vertices(self) -> int:
        """Number of vertices."""
        return len(self.rest_points)

    def __call__(self, pose: ArrayLike, vertices: ArrayLike | None = None) -> Floats:
        """Return positions of all vertices, or of the listed vertices."""
        subset = checked_subset(vertices, self.n_vertices)
        points = self.rest_points if subset is None else self.rest_points[subset]
        return self._moved(points, pose, subset)

    def deform(
        self, points: ArrayLike, pose: ArrayLike, vertices: ArrayLike | None = None
    ) -> Floats:
        """Return positions of the vertices if they start at `points`; see `Deformer`."""
        subset = checked_subset(vertices, self.n_vertices)
        return self._moved(checked_points(points, subset, self.n_vertices), pose, subset)

    def _moved(self, points: Floats, pose: ArrayLike, subset: Ints | None) -> Floats:
        positions = self._move(points, checked_pose(self.parameters, pose), subset)
        if positions is points:
            which = f"_move of a {type(self).__name__} returned its argument"
            raise SuppleError(f"{which}, which it must not change; return a new array")
        if np.shape(positions) != points.shape:
            shapes = f"shape {np.shape(positions)} for points of shape {points.shape}"
            raise SuppleError(f"_move of a {type(self).__name__} returned an array of {shapes}")
        if not np.isfinite(positions).all():
            what = f"_move of a {type(self).__name__} returned positions that are not finite"
            raise SuppleError(f"{what}, at the pose {shown(np.asarray(pose).tolist(), 60)}")
        return positions

    @abstractmethod
    def _move(self, points: Floats, pose: Floats, subset: Ints | None) -> Floats:
        """Return the moved points as a new array (k, 3); `points` and `pose` must not change.

        `subset` has the vertices (k,) that the points belong to, None for all.
        """


class PointDeformer(PointRig):
    """Base class of rigs that store the rest points that they move."""

    def __init__(self, points: ArrayLike, parameters: Sequence[Parameter]) -> None:
        self.rest_points = checked_cloud("rest points", points)
        self.parameters = checked_parameters(parameters)
        self.rest_pose = rest_values(self.parameters)

    def __repr__(self) -> str:
        what = f"{self.n_vertices:,} vertices, {len(self.parameters)} parameters"
        return f"{type(self).__name__}({what})"

    def with_rest_points(self, points: Floats) -> Self:
        """Return a copy that moves other rest points (m, 3).

        Only for deformers whose formula depends on the point alone.
        """
        twin = copy.copy(self)
        twin.rest_points = points.copy()
        return twin

    def name(self, endings: int) -> str:
        """Return the first parameter's name without its last `endings` parts."""
        return self.parameters[0].name.rsplit(".", endings)[0]


RigType = TypeVar("RigType", bound=PointDeformer)


class PointPlacement(ABC, Generic[RigType]):
    """Base class of placements of a `PointDeformer`; all vertices if `vertices` is None."""

    def __init__(self, rig: RigType, vertices: Ints | None) -> None:
        self._rig = rig
        points = rig.rest_points
        # A copy: for read-only arrays Numba would compile kernels again.
        self._rest = np.array(points if vertices is None else points[vertices], order="C")
        self.n_points = len(self._rest)

    @abstractmethod
    def place(self, pose: Floats, out: Positions) -> None:
        """Write the positions (k, 3) at a pose."""

    @abstractmethod
    def deform(self, points: Floats, pose: Floats, out: Positions) -> None:
        """Move vertices from `points` (k, 3); `out` may be `points`."""

    def fork(self) -> Self:
        """Return the placement itself, which has no state."""
        return self


def name_field(endings: int) -> Value:
    """Return the stored field of a deformer's name; see `PointDeformer.name`."""
    return Value("name", "text", lambda rig: rig.name(endings))


def points_field(type_: str = SINGLE) -> Array:
    """Return the stored field of the rest points."""
    return Array("points", type_, ("points", 3), "rest_points", attribute="points")


def axis_fields() -> tuple[Field, ...]:
    """Return the stored fields of a deformer along a bounded axis, except the axis."""
    bounds = (Value("low", "number"), Value("high", "number"))
    return (points_field(), Array("origin", DOUBLE, (3,)), *bounds, name_field(1))


def checked_frame(what: str, axis: ArrayLike, direction: ArrayLike | None = None) -> Floats:
    """Return rows x, y, z of a right-handed frame: y along `axis`, x nearest to `direction`.

    The default direction is the coordinate axis with the smallest component along y.
    """
    y = without_overflow(checked_array(f"{what}: axis", axis, (3,)))
    if not np.linalg.norm(y) > 0:
        raise SuppleError(f"{what}: the axis is zero; give a direction")
    y = y / np.linalg.norm(y)
    guide: Any = np.eye(3)[np.argmin(np.abs(y))] if direction is None else direction
    x = without_overflow(checked_array(f"{what}: direction", guide, (3,)))
    across = x - (x @ y) * y
    if not np.linalg.norm(across) > 1e-9 * np.linalg.norm(x):
        raise SuppleError(f"{what}: the direction is along the axis; rotate one of them")
    x = across / np.linalg.norm(across)
    return np.stack([x, y, np.cross(x, y)])


def checked_bounds(what: str, low: float, high: float) -> tuple[float, float]:
    """Return two finite numbers after checking that the first is smaller."""
    if not (np.isfinite([low, high]).all() and low < high):
        raise SuppleError(f"{what}: bounds {low} to {high}; the low one must be below the high one")
    return float(low), float(high)
