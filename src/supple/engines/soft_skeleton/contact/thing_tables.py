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

__all__ = ["half_thickness", "plain_columns", "plain_csr"]


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


def half_thickness(thing: Any) -> float:
    """Return half of what is thinnest of a thing, in m; infinite for a plane."""
    shape = thing.shape if isinstance(thing, PlacedShape) else thing
    if isinstance(shape, Sphere | Capsule):
        return shape.radius
    if isinstance(shape, Box):
        return float(np.min(shape.half))
    if isinstance(shape, Convex | Solid):
        points = shape.points if isinstance(shape, Convex) else shape.surface.vertices
        # Along the axis in which it is least spread.
        away = points - points.mean(axis=0)
        axis = np.linalg.eigh(away.T @ away)[1][:, 0]
        return max(float(np.ptp(away @ axis)) / 2, 1e-4)
    return math.inf
