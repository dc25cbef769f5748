"""Frameworks of straight beams: their surfaces, and points for a grid of cubes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints
from supple.mesh.surface import SurfaceMesh
from supple.scenes.modelling.voxel_lists import box_points


class Framework:
    """Straight beams with rectangular sections."""

    def __init__(self) -> None:
        self._ends: list[tuple[Floats, Floats]] = []
        self._halves: list[tuple[float, float]] = []
        self._ups: list[Floats] = []

    def __len__(self) -> int:
        return len(self._ends)

    def add(
        self,
        start: ArrayLike,
        end: ArrayLike,
        width: float,
        height: float | None = None,
        up: ArrayLike = (0.0, 1.0, 0.0),
    ) -> None:
        """Add a beam; `height` is its size along `up`, by default its width."""
        ends = np.asarray(start, float), np.asarray(end, float)
        self._ends.append(ends)
        self._halves.append((width / 2, (width if height is None else height) / 2))
        along = ends[1] - ends[0]
        upright = np.asarray(up, float)
        # For a beam along `up` take another direction across it.
        if np.linalg.norm(np.cross(along, upright)) < 1e-6 * np.linalg.norm(along):
            upright = np.array([0.0, 0.0, 1.0])
        self._ups.append(upright)

    def add_chain(self, points: Sequence[ArrayLike], width: float, **options: float) -> None:
        """Add beams between successive points."""
        for start, end in pairwise(points):
            self.add(start, end, width, **options)

    def add_crossed(self, corners: Sequence[ArrayLike], width: float) -> None:
        """Add both diagonals of a panel with corners a, b and, beyond them, c, d: a–d and b–c."""
        a, b, c, d = corners
        self.add(a, d, width)
        self.add(b, c, width)

    def surface(self, piece: float) -> SurfaceMesh:
        """Return closed prisms, subdivided about every `piece` so that they can bend."""
        vertices: list[Floats] = []
        triangles: list[Ints] = []
        count = 0
        for (start, end), frame, half in self._beams():
            length = float(np.linalg.norm(end - start))
            cuts = max(1, round(length / piece))
            ring = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) * half @ frame[1:]
            stations = np.linspace(0.0, 1.0, cuts + 1)[:, None] * (end - start) + start
            vertices.append((stations[:, None] + ring).reshape(-1, 3))
            triangles.append(_prism(cuts) + count)
            count += 4 * (cuts + 1)
        return SurfaceMesh(np.concatenate(vertices), np.concatenate(triangles))

    def points(self, spacing: float) -> Floats:
        """Return points throughout the beams, at most `spacing` apart."""
        return np.concatenate(
            [
                box_points(
                    (start + end) / 2,
                    np.array([np.linalg.norm(end - start) / 2, *half]),
                    frame,
                    spacing,
                )
                for (start, end), frame, half in self._beams()
            ]
        )

    def _beams(self) -> list[tuple[tuple[Floats, Floats], Floats, tuple[float, float]]]:
        """Return ends, axes (rows along, across and up) and half sizes of each beam."""
        beams = []
        for ends, up, half in zip(self._ends, self._ups, self._halves, strict=True):
            along = (ends[1] - ends[0]) / np.linalg.norm(ends[1] - ends[0])
            across = np.cross(up, along)
            across /= np.linalg.norm(across)
            beams.append((ends, np.stack([along, across, np.cross(along, across)]), half))
        return beams


def _prism(cuts: int) -> Ints:
    """Return outward triangles of a prism of square rings and of its two ends."""
    side = np.arange(4)
    ahead = (side + 1) % 4
    ring = 4 * np.arange(cuts)[:, None]
    a, b = ring + side, ring + ahead
    sides = np.stack([a, b, b + 4, a, b + 4, a + 4], axis=-1).reshape(-1, 3)
    last = 4 * cuts
    ends = [[0, 2, 1], [0, 3, 2], [last, last + 1, last + 2], [last, last + 2, last + 3]]
    return np.concatenate([sides, np.array(ends)])
