"""Base classes of deformers that move points, and of their placements.

Their loops are compiled and treat a point without looking at others, so that a subset has the
same bits; array functions choose other instructions for other lengths and strides.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints
from supple.checks import checked_array, without_overflow
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

#: Beyond some turns polynomials of an angle lose digits; library functions do not.
LARGEST_ANGLE = 100.0


class PointDeformer(ABC):
    """Base of rigs over rest points; a subclass moves points in `_move`."""

    def __init__(self, points: ArrayLike, parameters: Sequence[Parameter]) -> None:
        self.rest_points = checked_cloud("rest points", points)
        self.parameters = checked_parameters(parameters)
        self.rest_pose = rest_values(self.parameters)

    def __repr__(self) -> str:
        what = f"{self.n_vertices:,} vertices, {len(self.parameters)} parameters"
        return f"{type(self).__name__}({what})"

    @property
    def n_vertices(self) -> int:
        """Number of rest points."""
        return len(self.rest_points)

    def __call__(self, pose: ArrayLike, vertices: ArrayLike | None = None) -> Floats:
        """Return positions of all vertices or of the listed ones."""
        subset = checked_subset(vertices, self.n_vertices)
        points = self.rest_points if subset is None else self.rest_points[subset]
        return self._move(points, checked_pose(self.parameters, pose), subset)

    def deform(
        self, points: ArrayLike, pose: ArrayLike, vertices: ArrayLike | None = None
    ) -> Floats:
        """Return positions of the vertices were they at `points` at rest; see `Deformer`."""
        subset = checked_subset(vertices, self.n_vertices)
        given = checked_points(points, subset, self.n_vertices)
        return self._move(given, checked_pose(self.parameters, pose), subset)

    @abstractmethod
    def _move(self, points: Floats, pose: Floats, subset: Ints | None) -> Floats:
        """Return where the formula takes these points; `subset` says which vertices they are."""


RigType = TypeVar("RigType", bound=PointDeformer)


class PointPlacement(ABC, Generic[RigType]):
    """Base of placements of a `PointDeformer`.

    Parameters
    ----------
    rig
        The deformer.
    vertices
        Indices of its vertices; None for all.
    """

    def __init__(self, rig: RigType, vertices: Ints | None = None) -> None:
        self._rig = rig
        points = rig.rest_points
        # A copy: for read-only arrays compiled loops would be compiled anew.
        self._rest = np.array(points if vertices is None else points[vertices], order="C")

    @property
    def n_points(self) -> int:
        """Number of vertices placed."""
        return len(self._rest)

    @abstractmethod
    def place(self, pose: Floats, out: Positions) -> None:
        """Write the positions (k, 3) at a pose."""

    @abstractmethod
    def deform(self, points: Floats, pose: Floats, out: Positions) -> None:
        """Move vertices from `points` (k, 3); `out` may be `points`."""

    def fork(self) -> Self:
        """Return the placement itself: nothing is kept between calls."""
        return self


def checked_frame(what: str, axis: ArrayLike, direction: ArrayLike | None = None) -> Floats:
    """Return rows x, y, z of a right-handed frame: y along `axis`, x nearest to `direction`.

    Without a direction x is any: the coordinate axis least along y decides.
    """
    y = without_overflow(checked_array(f"{what}: axis", axis, (3,)))
    if not np.linalg.norm(y) > 0:
        raise SuppleError(f"{what}: its axis has no length")
    y = y / np.linalg.norm(y)
    wanted: Any = np.eye(3)[np.argmin(np.abs(y))] if direction is None else direction
    x = without_overflow(checked_array(f"{what}: direction", wanted, (3,)))
    across = x - (x @ y) * y
    if not np.linalg.norm(across) > 1e-9 * np.linalg.norm(x):
        raise SuppleError(f"{what}: its direction is along its axis; turn one of them")
    x = across / np.linalg.norm(across)
    return np.stack([x, y, np.cross(x, y)])


def checked_bounds(what: str, low: float, high: float) -> tuple[float, float]:
    """Check two finite numbers, the first smaller."""
    if not (np.isfinite([low, high]).all() and low < high):
        raise SuppleError(f"{what}: bounds {low} to {high}; the low one must be below the high one")
    return float(low), float(high)
