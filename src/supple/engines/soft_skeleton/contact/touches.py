"""Search of contact: points of the skin and of objects that are inside of solid things."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from supple.arrays import Bools, Floats, Ints, Singles
from supple.compiled.jit import compiled
from supple.mesh.obstacles import CAPSULE
from supple.mesh.shape_tables import ShapeTables, signed_distance

__all__ = [
    "Touches",
    "empty_touches",
    "find_touches",
    "gather_members",
    "push_out",
    "spread_order",
    "take_point",
]

#: Points of the skin that touch one thing at a time, at most; others that do are theirs.
MOST_A_THING = 96
#: Contacts at a time, at most; the first ones are kept.
MOST = 256
#: Points of the skin that are put in an order of their own; the rest follow as they are listed.
SPREAD = 4096
#: Points of the skin that may touch the body's own parts: the first ones in that order.
OWN = 1500


class Touches(NamedTuple):
    """Contacts that were found, in arrays of fixed length."""

    count: Ints
    """(1,) how many."""
    points: Ints
    """Vertices of the skin, or n̄ + s for sample s of the objects."""
    things: Ints
    """Obstacles, then objects, then bones."""
    depths: Floats
    ways: Floats
    """(…, 3) unit, out of the thing."""
    places: Floats
    """(…, 3) in the world."""
    areas: Floats
    """Of the skin that a contact stands for, in m²; 0 for objects."""
    starts: Ints
    """(… + 1,) where its vertices begin in `members`."""
    members: Ints
    found: Ints
    """(2, 2 n̄) vertices that touch, and the contact that stands for each; work."""


def empty_touches(n_skin: int) -> Touches:
    """Return room for contacts."""
    return Touches(
        np.zeros(1, np.int64),
        np.zeros(MOST, np.int64),
        np.zeros(MOST, np.int64),
        np.zeros(MOST),
        np.zeros((MOST, 3)),
        np.zeros((MOST, 3)),
        np.zeros(MOST),
        np.zeros(MOST + 1, np.int64),
        np.zeros(2 * n_skin, np.int64),
        np.zeros((2, 2 * n_skin), np.int64),
    )


def spread_order(places: Floats) -> Ints:
    """Return the points (n, 3) in an order in which each is the farthest from those before it.

    Those of the first ones that are in some region are evenly spread over it.
    """
    n = len(places)
    order = np.zeros(min(n, SPREAD), np.int64)
    _farthest(np.ascontiguousarray(places), order)
    return np.concatenate([order, np.setdiff1d(np.arange(n), order)])


@compiled
def _farthest(places: Floats, order: Ints) -> None:
    away, last = np.full(len(places), np.inf), 0
    for k in range(len(order)):
        order[k] = last
        x, y, z = places[last, 0], places[last, 1], places[last, 2]
        best = -1.0
        for i in range(len(places)):
            own = (places[i, 0] - x) ** 2 + (places[i, 1] - y) ** 2 + (places[i, 2] - z) ** 2
            away[i] = min(away[i], own)
            if away[i] > best:
                best, last = away[i], i


@compiled
def find_touches(
    shapes: ShapeTables,
    skin: Floats,
    order: Ints,
    areas: Floats,
    allowed: Bools,
    samples: Floats,
    radii: Floats,
    owners: Ints,
    first_object: int,
    first_bone: int,
    out: Touches,
) -> None:
    """Find points of the skin, and samples of objects, inside of things.

    Parameters
    ----------
    shapes
        Obstacles, then objects from `first_object` on, then bones from `first_bone` on.
    skin, order, areas
        (n̄, 3) in the world, these points as `spread_order` has them, and their areas.
    allowed
        (bones, n̄) whether a point may touch the part of a bone; (0, n̄) for no self-contact.
    samples, radii, owners
        (s, 3), (s,) balls of the objects in the world, and the thing that each belongs to.
    first_object, first_bone
        Where objects and bones begin among the things.
    out
        Written.
    """
    out.count[0], total = 0, 0
    for thing in range(len(shapes.kinds)):
        first, bone = out.count[0], thing - first_bone
        cx, cy, cz, reach = _ball(shapes, thing)
        for k in range(min(len(order), OWN) if bone >= 0 else len(order)):
            v = order[k]
            x, y, z = skin[v, 0], skin[v, 1], skin[v, 2]
            if (x - cx) ** 2 + (y - cy) ** 2 + (z - cz) ** 2 > reach:
                continue
            if bone >= 0 and not allowed[bone, v]:
                continue
            gap, p, q, r = signed_distance(shapes, thing, x, y, z)
            if gap < 0 and total < out.found.shape[1]:
                total = take_point(out, total, first, v, thing, gap, p, q, r, skin)
        for s in range(len(samples)):
            if thing >= first_bone or owners[s] == thing or out.count[0] >= MOST:
                continue
            x, y, z = samples[s, 0], samples[s, 1], samples[s, 2]
            gap, p, q, r = signed_distance(shapes, thing, x, y, z)
            gap -= radii[s]
            round_ones = radii[s] > 0 and shapes.kinds[thing] <= CAPSULE
            # Two round objects would be found twice, once from each.
            if gap < 0 and not (thing >= first_object and round_ones and owners[s] > thing):
                _take(out, len(skin) + s, thing, gap, p, q, r)
                c = out.count[0] - 1
                out.places[c, 0], out.places[c, 1] = x - radii[s] * p, y - radii[s] * q
                out.places[c, 2] = z - radii[s] * r
    gather_members(out, total, areas)


@compiled
def _ball(shapes: ShapeTables, thing: int) -> tuple[float, float, float, float]:
    """Return the middle of the ball around a thing in the world, and its radius squared."""
    turn, shift, ball = shapes.turns[thing], shapes.shifts[thing], shapes.bounds[thing]
    x = turn[0, 0] * ball[0] + turn[0, 1] * ball[1] + turn[0, 2] * ball[2] + shift[0]
    y = turn[1, 0] * ball[0] + turn[1, 1] * ball[1] + turn[1, 2] * ball[2] + shift[1]
    z = turn[2, 0] * ball[0] + turn[2, 1] * ball[1] + turn[2, 2] * ball[2] + shift[2]
    return x, y, z, ball[3] ** 2


@compiled
def take_point(
    out: Touches,
    total: int,
    first: int,
    v: int,
    thing: int,
    gap: float,
    p: float,
    q: float,
    r: float,
    skin: Floats,
) -> int:
    """Take a vertex for a contact or, where a thing has enough since `first`, give it to one."""
    if out.count[0] - first < MOST_A_THING and out.count[0] < MOST:
        _take(out, v, thing, gap, p, q, r)
        owner = out.count[0] - 1
        for i in range(3):
            out.places[owner, i] = skin[v, i]
    else:
        owner, best = -1, np.inf
        for c in range(first, out.count[0]):
            away = 0.0
            for i in range(3):
                away += (out.places[c, i] - skin[v, i]) ** 2
            if away < best and out.points[c] < len(skin):
                best, owner = away, c
        if owner < 0:
            return total
    out.found[0, total], out.found[1, total] = v, owner
    return total + 1


@compiled
def _take(out: Touches, point: int, thing: int, gap: float, p: float, q: float, r: float) -> None:
    c = out.count[0]
    out.points[c], out.things[c], out.depths[c] = point, thing, -gap
    out.ways[c, 0], out.ways[c, 1], out.ways[c, 2] = p, q, r
    out.count[0] = c + 1


@compiled
def gather_members(out: Touches, total: int, areas: Floats) -> None:
    """Sort vertices by the contact that stands for them, and sum up their areas."""
    count = out.count[0]
    for c in range(count + 1):
        out.starts[c] = 0
    for c in range(count):
        out.areas[c] = 0.0
    for k in range(total):
        out.starts[out.found[1, k] + 1] += 1
        out.areas[out.found[1, k]] += areas[out.found[0, k]]
    for c in range(count):
        out.starts[c + 1] += out.starts[c]
    for k in range(total):
        c = out.found[1, k]
        out.members[out.starts[c]] = out.found[0, k]
        out.starts[c] += 1
    for c in range(count, 0, -1):
        out.starts[c] = out.starts[c - 1]
    out.starts[0] = 0


@compiled
def push_out(shapes: ShapeTables, touches: Touches, first_bone: int, skin: Singles) -> None:
    """Move vertices (n̄, 3) that are inside of things that are touched to their surface."""
    for thing in range(first_bone):
        touched = False
        for c in range(touches.count[0]):
            touched |= touches.things[c] == thing
        if not touched:
            continue
        cx, cy, cz, reach = _ball(shapes, thing)
        for v in range(len(skin)):
            x, y, z = float(skin[v, 0]), float(skin[v, 1]), float(skin[v, 2])
            if (x - cx) ** 2 + (y - cy) ** 2 + (z - cz) ** 2 <= reach:
                gap, p, q, r = signed_distance(shapes, thing, x, y, z)
                if gap < 0:
                    skin[v, 0], skin[v, 1] = x - gap * p, y - gap * q
                    skin[v, 2] = z - gap * r
