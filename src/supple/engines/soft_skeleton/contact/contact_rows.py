"""Rows of contacts: how points move past what they touch."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from supple.arrays import Floats, Ints
from supple.compiled.jit import compiled, compiled_fused
from supple.engines.soft_skeleton.bones.body_points import PointTables, write_columns
from supple.engines.soft_skeleton.contact.pressing_tables import Pressing, Things
from supple.engines.soft_skeleton.contact.touches import Touches


@compiled
def write_contact_rows(
    touches: Touches,
    things: Things,
    tables: PointTables,
    offsets: Floats,
    parents: Ints,
    turns: Floats,
    shifts: Floats,
    places: Floats,
    phi: Floats,
    out: Pressing,
) -> None:
    """Write the motion of each contact past its thing, by coordinates, and two ways across.

    Rows are of the point less those of the thing at the same place, so that action is reaction.
    They have the columns that move either, ascending.
    """
    count, n_skin = touches.total[0], len(tables.rest)
    size = out.rows.shape[1]
    own, index, spans = np.empty((3, size)), np.empty(size, np.int64), np.empty((64, 3))
    slots = np.full(size, -1)
    for c in range(count):
        row = Row(out.rows[3 * c : 3 * c + 3], out.indices[c], out.counts[c : c + 1], slots)
        row.used[0] = 0
        point, thing = touches.points[c], touches.things[c]
        if touches.areas[c] > 0:
            for corner in range(3):
                share, v = touches.shares[c, corner], touches.corners[c, corner]
                if share == 0.0:
                    continue
                found = write_columns(
                    tables, offsets, turns, shifts, places, phi, v, own, index, spans
                )
                for a in range(found):
                    at = _slot(row, index[a])
                    for i in range(3):
                        row.body[i, at] += share * own[i, a]
        else:
            sampled = things.objects[things.owners[point - n_skin]]
            if sampled >= 0:
                _add_object(things, size, sampled, touches.places[c], 1.0, row)
        if things.objects[thing] >= 0:
            _add_object(things, size, things.objects[thing], touches.places[c], -1.0, row)
        elif things.bones[thing] >= 0:
            _add_bone(parents, places, things.bones[thing], touches.places[c], -1.0, row)
        for a in range(row.used[0]):
            slots[row.columns[a]] = -1
        _sort(row)
        _into_frame(touches.ways[c], out.aside[c], row.body[:, : row.used[0]])


class Row(NamedTuple):
    """Motion (3, …) of one contact in the columns that it has so far."""

    body: Floats
    columns: Ints
    """Columns of the system that the row has, and"""
    used: Ints
    """(1,) how many there are."""
    slots: Ints
    """(N,) where a column of the system is among them, or −1."""


@compiled_fused
def _slot(row: Row, column: int) -> int:
    """Return where a column is, with zeros where it was not there yet."""
    at = row.slots[column]
    if at < 0:
        at = row.used[0]
        row.slots[column], row.columns[at] = at, column
        row.body[0, at] = row.body[1, at] = row.body[2, at] = 0.0
        row.used[0] = at + 1
    return at


@compiled_fused
def _sort(row: Row) -> None:
    """Have columns ascend, which most do already."""
    body, index = row.body, row.columns
    for k in range(1, row.used[0]):
        at, column = k, index[k]
        x, y, z = body[0, k], body[1, k], body[2, k]
        while at > 0 and index[at - 1] > column:
            index[at] = index[at - 1]
            for i in range(3):
                body[i, at] = body[i, at - 1]
            at -= 1
        index[at], body[0, at], body[1, at], body[2, at] = column, x, y, z


@compiled_fused
def _add_object(things: Things, size: int, o: int, place: Floats, sign: float, row: Row) -> None:
    """Add the motion of a point of a free object: a move, and ω × r."""
    at = size - 6 * (len(things.centres) - o)
    x, y, z = (
        sign * (place[0] - things.centres[o, 0]),
        sign * (place[1] - things.centres[o, 1]),
        sign * (place[2] - things.centres[o, 2]),
    )
    for i in range(3):
        row.body[i, _slot(row, at + i)] += sign
    _add_turn(at + 3, x, y, z, row)


@compiled_fused
def _add_bone(
    parents: Ints, places: Floats, bone: int, place: Floats, sign: float, row: Row
) -> None:
    """Add the motion of a point that is fixed to a bone."""
    for i in range(3):
        row.body[i, _slot(row, i)] += sign
    j = bone
    while j >= 0:
        x = sign * (place[0] - places[j, 0])
        y = sign * (place[1] - places[j, 1])
        z = sign * (place[2] - places[j, 2])
        _add_turn(3 + 3 * j, x, y, z, row)
        j = parents[j]


@compiled_fused
def _add_turn(at: int, x: float, y: float, z: float, row: Row) -> None:
    """Add −[r]×: columns of ω × r."""
    first, second, third = _slot(row, at), _slot(row, at + 1), _slot(row, at + 2)
    body = row.body
    body[0, second] += z
    body[0, third] -= y
    body[1, first] -= z
    body[1, third] += x
    body[2, first] += y
    body[2, second] -= x


@compiled_fused
def _into_frame(n: Floats, aside: Floats, body: Floats) -> None:
    """Replace rows x, y, z by rows along n and two ways across, which are written."""
    if abs(n[0]) < 0.6:
        u, v, w = 0.0, n[2], -n[1]
    else:
        u, v, w = -n[2], 0.0, n[0]
    length = 1.0 / math.sqrt(u * u + v * v + w * w)
    u, v, w = u * length, v * length, w * length
    p, q, r = n[1] * w - n[2] * v, n[2] * u - n[0] * w, n[0] * v - n[1] * u
    aside[0, 0], aside[0, 1], aside[0, 2] = u, v, w
    aside[1, 0], aside[1, 1], aside[1, 2] = p, q, r
    n0, n1, n2 = n[0], n[1], n[2]
    first, second, third = body[0], body[1], body[2]
    for k in range(body.shape[1]):
        x, y, z = first[k], second[k], third[k]
        first[k] = n0 * x + n1 * y + n2 * z
        second[k] = u * x + v * y + w * z
        third[k] = p * x + q * y + r * z
