"""Search of contact: points of the skin and of objects that are inside of solid things."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from supple.arrays import Bools, Floats, Ints
from supple.compiled.jit import compiled
from supple.mesh.obstacles import CAPSULE
from supple.mesh.shape_tables import ShapeTables, signed_distance

__all__ = ["ContactLevels", "Touches", "contact_levels", "empty_touches", "find_touches"]

#: Points of the skin that touch one thing at a time, at most; where more would, coarser ones do.
MOST_A_THING = 64
#: Contacts at a time, at most; the first ones are kept.
MOST = 256
#: Sizes of the coarser levels of the skin's points.
LEVELS = 128, 512, 2048


class ContactLevels(NamedTuple):
    """Points of the skin, evenly spread, as coarse as it takes."""

    ranks: Ints
    """(n̄,) the coarsest level that a vertex belongs to, 0 the coarsest."""
    areas: Floats
    """(levels, n̄) in m² that each vertex stands for in a level."""


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
    """Of the skin, in m²; 0 for objects."""
    levels: Ints
    """(things,) that each thing was touched at."""


def empty_touches(n_things: int, finest: int) -> Touches:
    """Return room for contacts."""
    return Touches(
        np.zeros(1, np.int64),
        np.zeros(MOST, np.int64),
        np.zeros(MOST, np.int64),
        np.zeros(MOST),
        np.zeros((MOST, 3)),
        np.zeros((MOST, 3)),
        np.zeros(MOST),
        np.full(n_things, finest, np.int64),
    )


def contact_levels(places: Floats, areas: Floats) -> ContactLevels:
    """Return levels of points (n̄, 3) with areas (n̄,): each the farthest from those before it."""
    n = len(places)
    sizes = [size for size in LEVELS if size < n]
    order = np.empty(sizes[-1] if sizes else 0, np.int64)
    if sizes:
        _farthest(np.ascontiguousarray(places), order)
    ranks = np.full(n, len(sizes), np.int64)
    table = np.zeros((len(sizes) + 1, n))
    table[-1] = areas
    for level in range(len(sizes) - 1, -1, -1):
        own = order[: sizes[level]]
        ranks[own] = level
        nearest = cKDTree(places[own]).query(places)[1]
        table[level, own] = np.bincount(nearest, areas, len(own))
    return ContactLevels(ranks, table)


@compiled
def _farthest(places: Floats, order: Ints) -> None:
    """Write the order in which points are the farthest from all before; the first starts."""
    away = np.full(len(places), np.inf)
    last = 0
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
    levels: ContactLevels,
    allowed: Bools,
    samples: Floats,
    radii: Floats,
    owners: Ints,
    first_object: int,
    first_bone: int,
    counts: Ints,
    out: Touches,
) -> None:
    """Find points of the skin, and samples of objects, inside of things.

    Parameters
    ----------
    shapes
        Obstacles, then objects from `first_object` on, then bones from `first_bone` on.
    skin, levels
        (n̄, 3) in the world, and the levels of these points.
    allowed
        (bones, n̄) whether a point may touch the part of a bone; (0, n̄) for no self-contact.
    samples, radii, owners
        (s, 3), (s,) balls of the objects in the world, and the thing that each belongs to.
    counts
        (things, levels) work.
    out
        Written.
    """
    n_things, finest = len(shapes.kinds), levels.areas.shape[0] - 1
    out.count[0] = 0
    for thing in range(n_things):
        counts[thing] = 0
        bone = thing - first_bone
        cx, cy, cz, reach = _ball(shapes, thing)
        for v in range(len(skin)):
            if bone >= 0 and (levels.ranks[v] > 2 or not allowed[bone, v]):
                continue
            x, y, z = skin[v, 0], skin[v, 1], skin[v, 2]
            if (x - cx) ** 2 + (y - cy) ** 2 + (z - cz) ** 2 > reach:
                continue
            if signed_distance(shapes, thing, x, y, z)[0] < 0:
                counts[thing, levels.ranks[v]] += 1
        # The finest level that has no more than the most; finer again only well below it.
        total, level = 0, 0
        for k in range(finest + 1):
            total += counts[thing, k]
            most = MOST_A_THING if k <= out.levels[thing] else MOST_A_THING // 2
            if total <= most:
                level = k
        if bone >= 0:
            level = min(level, 2)
        out.levels[thing] = level
        if total:
            _take_skin(shapes, skin, levels, allowed, thing, bone, level, out)
        for s in range(len(samples)):
            if thing >= first_bone or owners[s] == thing:
                continue
            x, y, z = samples[s, 0], samples[s, 1], samples[s, 2]
            gap, p, q, r = signed_distance(shapes, thing, x, y, z)
            gap -= radii[s]
            round_ones = radii[s] > 0 and shapes.kinds[thing] <= CAPSULE
            # Two round objects would be found twice, once from each.
            if gap < 0 and not (thing >= first_object and round_ones and owners[s] > thing):
                _take(out, len(skin) + s, thing, gap, p, q, r, x, y, z, radii[s], 0.0)


@compiled
def _ball(shapes: ShapeTables, thing: int) -> tuple[float, float, float, float]:
    turn, shift, ball = shapes.turns[thing], shapes.shifts[thing], shapes.bounds[thing]
    x = turn[0, 0] * ball[0] + turn[0, 1] * ball[1] + turn[0, 2] * ball[2] + shift[0]
    y = turn[1, 0] * ball[0] + turn[1, 1] * ball[1] + turn[1, 2] * ball[2] + shift[1]
    z = turn[2, 0] * ball[0] + turn[2, 1] * ball[1] + turn[2, 2] * ball[2] + shift[2]
    return x, y, z, ball[3] ** 2


@compiled
def _take_skin(
    shapes: ShapeTables,
    skin: Floats,
    levels: ContactLevels,
    allowed: Bools,
    thing: int,
    bone: int,
    level: int,
    out: Touches,
) -> None:
    cx, cy, cz, reach = _ball(shapes, thing)
    for v in range(len(skin)):
        if levels.ranks[v] > level or (bone >= 0 and not allowed[bone, v]):
            continue
        x, y, z = skin[v, 0], skin[v, 1], skin[v, 2]
        if (x - cx) ** 2 + (y - cy) ** 2 + (z - cz) ** 2 > reach:
            continue
        gap, p, q, r = signed_distance(shapes, thing, x, y, z)
        if gap < 0:
            _take(out, v, thing, gap, p, q, r, x, y, z, 0.0, levels.areas[level, v])


@compiled
def _take(
    out: Touches,
    point: int,
    thing: int,
    gap: float,
    p: float,
    q: float,
    r: float,
    x: float,
    y: float,
    z: float,
    radius: float,
    area: float,
) -> None:
    c = out.count[0]
    if c >= len(out.points):
        return
    out.points[c], out.things[c], out.depths[c], out.areas[c] = point, thing, -gap, area
    out.ways[c, 0], out.ways[c, 1], out.ways[c, 2] = p, q, r
    out.places[c, 0], out.places[c, 1] = x - radius * p, y - radius * q
    out.places[c, 2] = z - radius * r
    out.count[0] = c + 1
