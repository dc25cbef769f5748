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
        #: Start, end, axes (rows along, across and up) and half sizes of each beam.
        self._beams: list[tuple[Floats, Floats, Floats, tuple[float, float]]] = []

    def __len__(self) -> int:
        return len(self._beams)

    def add(
        self, start: ArrayLike, end: ArrayLike, width: float, height: float | None = None
    ) -> None:
        """Add a beam; `height` is its vertical size, by default its width."""
        a, b = np.asarray(start, float), np.asarray(end, float)
        up = np.array([0.0, 1.0, 0.0])
        if np.linalg.norm(np.cross(b - a, up)) < 1e-6 * np.linalg.norm(b - a):
            up = np.array([0.0, 0.0, 1.0])  # across a vertical beam
        along = (b - a) / np.linalg.norm(b - a)
        across = np.cross(up, along)
        across /= np.linalg.norm(across)
        frame = np.stack([along, across, np.cross(along, across)])
        half = width / 2, (width if height is None else height) / 2
        self._beams.append((a, b, frame, half))

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
        for start, end, frame, half in self._beams:
            cuts = max(1, round(float(np.linalg.norm(end - start)) / piece))
            ring = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) * half @ frame[1:]
            stations = np.linspace(0.0, 1.0, cuts + 1)[:, None] * (end - start) + start
            vertices.append((stations[:, None] + ring).reshape(-1, 3))
            triangles.append(_prism(cuts) + count)
            count += 4 * (cuts + 1)
        return SurfaceMesh(np.concatenate(vertices), np.concatenate(triangles))

    def points(self, spacing: float) -> Floats:
        """Return points throughout the beams, at most `spacing` apart."""
        boxes = [
            ((start + end) / 2, np.array([np.linalg.norm(end - start) / 2, *half]), frame)
            for start, end, frame, half in self._beams
        ]
        return np.concatenate([box_points(*box, spacing) for box in boxes])


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
