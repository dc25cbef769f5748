"""What deformers that move points share: a frame in space, and evaluation on a subset.

Their loops are compiled and treat a point without looking at others, so that a subset has the
same bits; array functions choose other instructions for other lengths and strides.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats
from supple.checks import checked_array, without_overflow
from supple.errors import SuppleError
from supple.rig.protocol import (
    Ints,
    Parameter,
    checked_cloud,
    checked_parameters,
    checked_points,
    checked_pose,
    checked_subset,
    rest_values,
)

__all__ = ["PointDeformer", "checked_bounds", "checked_frame"]


class PointDeformer(ABC):
    """A rig over rest points; a subclass moves points in `_move`."""

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
        """Positions of all vertices or of the listed ones."""
        subset = checked_subset(vertices, self.n_vertices)
        points = self.rest_points if subset is None else self.rest_points[subset]
        return self._move(points, checked_pose(self.parameters, pose), subset)

    def deform(
        self, points: ArrayLike, pose: ArrayLike, vertices: ArrayLike | None = None
    ) -> Floats:
        """Where the vertices go, were they at `points`; see `Deformer`."""
        subset = checked_subset(vertices, self.n_vertices)
        given = checked_points(points, subset, self.n_vertices)
        return self._move(given, checked_pose(self.parameters, pose), subset)

    @abstractmethod
    def _move(self, points: Floats, pose: Floats, subset: Ints | None) -> Floats:
        """Where the formula takes these points; `subset` says which vertices they are."""


def checked_frame(what: str, axis: ArrayLike, direction: ArrayLike | None = None) -> Floats:
    """Rows x, y, z of a right-handed frame: y along `axis`, x as near to `direction` as it can.

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
    """Two finite numbers, the first smaller."""
    if not (np.isfinite([low, high]).all() and low < high):
        raise SuppleError(f"{what}: bounds {low} to {high}; the low one must be below the high one")
    return float(low), float(high)
