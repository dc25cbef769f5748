"""Tables that contact is searched and solved with: thickness of things, matrices as arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from supple.arrays import Floats, Ints
from supple.engines.soft_skeleton.flesh.handle_weights import same_entries
from supple.mesh.distance_field import Solid
from supple.mesh.obstacles import Capsule, Sphere
from supple.mesh.polyhedra import Box, Convex
from supple.mesh.shape_tables import PlacedShape

__all__ = ["half_sizes", "plain_columns", "plain_csr"]


def plain_csr(matrix: sp.csr_array) -> tuple[Ints, Ints, Floats]:
    """Return where rows begin, columns and values, for compiled loops."""
    own = sp.csr_array(matrix)
    return (
        own.indptr.astype(np.int64),
        own.indices.astype(np.int64),
        np.ascontiguousarray(own.data, np.float64),
    )


def plain_columns(motion: Sequence[sp.csr_array]) -> tuple[Ints, Ints, Floats]:
    """Return x, y and z by columns: where each begins, rows, and values (…, 3)."""
    kept = same_entries([sp.csr_array(each.T) for each in motion])
    values = np.column_stack([each.data for each in kept]).astype(np.float64)
    return kept[0].indptr.astype(np.int64), kept[0].indices.astype(np.int64), values


def half_sizes(thing: Any) -> tuple[float, float]:
    """Return half of what is thinnest of a thing, and of its width across that, in m.

    A rod is as thin both ways, a board is not; a plane has no end.
    """
    shape = thing.shape if isinstance(thing, PlacedShape) else thing
    if isinstance(shape, Sphere | Capsule):
        return shape.radius, shape.radius
    if isinstance(shape, Box):
        thin, wide, _ = np.sort(shape.half)
        return float(thin), float(wide)
    if isinstance(shape, Convex | Solid):
        points = shape.points if isinstance(shape, Convex) else shape.surface.vertices
        # Along the axes in which it is least spread.
        away = points - points.mean(axis=0)
        thin, wide = np.ptp(away @ np.linalg.eigh(away.T @ away)[1][:, :2], axis=0) / 2
        return max(float(thin), 1e-4), max(float(wide), 1e-4)
    return math.inf, math.inf
