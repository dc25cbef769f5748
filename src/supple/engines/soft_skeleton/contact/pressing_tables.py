"""Tables of contacts: things that are touched, and room for what they do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from supple.arrays import Bools, Floats, Ints, ShortInts, Singles
from supple.compiled.simd import LANES
from supple.engines.soft_skeleton.contact.touches import MOST
from supple.engines.soft_skeleton.flesh.handle_weights import same_entries
from supple.mesh.distance_field import Solid
from supple.mesh.obstacles import Capsule, Sphere
from supple.mesh.polyhedra import Box, Convex
from supple.mesh.shape_tables import PlacedShape


class Things(NamedTuple):
    """Things as the contact's rows need them: thing t is a free object, a bone, or neither."""

    objects: Ints
    """(things,) which free object it is, or −1."""
    bones: Ints
    """(things,) which bone, or −1."""
    owners: Ints
    """(s,) the thing of each sample."""
    centres: Floats
    """(O, 3) of free objects."""
    turns: Floats
    shifts: Floats
    """(things, 3, 3), (things, 3) from their own axes to the world."""
    hardness: Floats
    """(things,) of objects, N/m; 0 for others."""
    moves: Floats
    """(things, 3) how far those that are led went since the step began."""


class Pressing(NamedTuple):
    """Work and result of a step's contacts, and the memory of friction."""

    rows: Floats
    """(3 MOST, …) relative motion along the way out and two ways across it, by coordinates:"""
    indices: Ints
    """(MOST, …) which these are, ascending, and"""
    counts: Ints
    """(MOST,) how many."""
    packed: Floats
    """(…, …) work: rows along the ways out, weighed, below what their product is taken from."""
    columns: Ints
    """(N,) coordinates that contacts move, and"""
    spots: Ints
    """(N,) where each is among these, or −1."""
    listed: Ints
    compliance: Floats
    """(MOST, MOST) of contacts, m/N."""
    factor: Floats
    """Cholesky factor of the compliance, for contacts that press."""
    active: Ints
    """(1 + MOST,) how many press, and which."""
    forces: Floats
    """(MOST,) along the ways out, N; after `settle_contacts` as the solver applied them."""
    soft: Floats
    """(MOST,) part of its flexibility that flesh has left so deep."""
    base: Floats
    """(MOST,) forces of the depths alone, N, where the iteration began,"""
    elastic: Floats
    """(MOST,) and where the solver went: flesh that is damped is as far in as these say."""
    left: Floats
    """(MOST,) how far they went out of their things since the step began, m."""
    meant: Floats
    """(MOST,) depths after the change, were they linear in it."""
    across: Floats
    """(MOST, 3) friction, N, likewise."""
    weights: Floats
    """(MOST,) stiffness of friction, N/m."""
    grips: Floats
    """(MOST,) of friction that sticks, N/m: that of the pressure, without what handles lack."""
    slips: Floats
    """(MOST, 2) how far points are from where they stick, along the two ways across."""
    aside: Floats
    """(MOST, 2, 3) these ways."""
    anchors: Floats
    """(…, 3) where each point sticks, in axes of the thing,"""
    held_by: Ints
    """(…,) which that is, or −1,"""
    pressed: Floats
    """(…,) and how hard it was pressed in the step before."""
    holding: Ints
    """(1 + MOST,) how many points are held, and which."""
    still: Bools
    """(…,) work."""
    released: Bools
    """(…,) which points pulled in an iteration of this step, and are let go in the next,"""
    freed: Ints
    """(1 + MOST,) and a list of them."""
    load_starts: Ints
    """(… + 1,) where the points of the flesh that a contact loads begin in"""
    load_columns: ShortInts
    load_values: Floats
    """and what part of its force each has; work."""
    work: Floats


def empty_pressing(size: int, n_points: int, n_outer: int, n_loads: int) -> Pressing:
    """Return room for contacts of a system of `size` coordinates."""
    wide = -(-size // LANES) * LANES
    return Pressing(
        np.zeros((3 * MOST, size)),
        np.zeros((MOST, size), np.int64),
        np.zeros(MOST, np.int64),
        np.zeros((wide + MOST + LANES, wide)),
        np.zeros(size, np.int64),
        np.full(size, -1, np.int64),
        np.zeros(MOST // LANES + 1, np.int64),
        np.zeros((MOST, MOST)),
        np.zeros((MOST, MOST)),
        np.zeros(MOST + 1, np.int64),
        np.zeros(MOST),
        np.zeros(MOST),
        np.zeros(MOST),
        np.zeros(MOST),
        np.zeros(MOST),
        np.zeros(MOST),
        np.zeros((MOST, 3)),
        np.zeros(MOST),
        np.zeros(MOST),
        np.zeros((MOST, 2)),
        np.zeros((MOST, 2, 3)),
        np.zeros((n_points, 3)),
        np.full(n_points, -1, np.int64),
        np.zeros(n_points),
        np.zeros(MOST + 1, np.int64),
        np.zeros(n_points, np.bool_),
        np.zeros(n_points, np.bool_),
        np.zeros(MOST + 1, np.int64),
        np.zeros(MOST + 1, np.int64),
        np.zeros(n_loads, np.int32),
        np.zeros(n_loads),
        np.zeros(max(size, n_outer, MOST) + 64),
    )


def plain_csr(matrix: sp.csr_array) -> tuple[Ints, ShortInts, Singles]:
    """Return where rows begin, columns and values, for compiled loops.

    Files have them in single precision, and in half the memory more of them stay in the cache.
    """
    own = sp.csr_array(matrix)
    short = own.indices.astype(np.int32), np.ascontiguousarray(own.data, np.float32)
    return own.indptr.astype(np.int64), *short


def plain_columns(motion: Sequence[sp.csr_array]) -> tuple[Ints, ShortInts, Singles]:
    """Return x, y and z by columns: where each begins, rows, and values (…, 3)."""
    kept = same_entries([sp.csr_array(each.T) for each in motion])
    values = np.column_stack([each.data for each in kept]).astype(np.float32)
    return kept[0].indptr.astype(np.int64), kept[0].indices.astype(np.int32), values


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
