"""A deformer as a program of somebody else's has it: without a placement, with a Jacobian."""

from __future__ import annotations

from typing import Any

import numpy as np

from supple.rig import Parameter
from supple.rig.deformers.point_deformer import PointDeformer, name_field, points_field


class Shear(PointDeformer):
    """x += p y²: not affine in the points."""

    stored_fields: Any = (points_field(), name_field(1))
    link_type: Any

    def __init__(self, points: Any, name: str = "shear") -> None:
        super().__init__(points, [Parameter(f"{name}.rate", "1")])

    def _move(self, points: Any, pose: Any, subset: Any) -> Any:
        return points + pose[0] * points[:, 1:2] ** 2 * [1.0, 0, 0]

    def jacobian(self, entries: Any, vertices: Any = None) -> Any:
        return self.link_type(self, len(entries), vertices)


class ShearJacobian:
    """Derivatives of a `Shear`."""

    affine, straight = True, False

    def __init__(self, rig: Shear, count: int, vertices: Any) -> None:
        self._points = rig.rest_points[slice(None) if vertices is None else vertices]

    def evaluate(self, pose: Any, out: Any) -> None:
        self.evaluate_points(self._points, pose, out)

    def evaluate_points(self, points: Any, pose: Any, out: Any) -> None:
        out[...] = 0.0
        out[:, 0] = points[:, 1:2] ** 2

    def write_slopes(self, points: Any, pose: Any, out: Any) -> None:
        out[...] = np.eye(3)
        out[:, 0, 1] = 2 * pose[0] * points[:, 1]


Shear.link_type = ShearJacobian
