"""Search of contact: points of the skin and of objects that are inside of solid things."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from supple.arrays import Bools, Floats, Ints, Singles
from supple.compiled.jit import compiled_fused
from supple.engines.soft_skeleton.contact.skin_patches import SkinPatches, bound_patches, patch_gap
from supple.mesh.obstacles import CAPSULE
from supple.mesh.shape_tables import ShapeTables, signed_distance

#: Points of the skin that touch one thing at a time, at most; others that do are theirs.
MOST_A_THING = 64
#: Parts of triangles that touch one thing, at most; where more would, vertices do.
MOST_FINE = 128
#: Contacts at a time, at most; the first ones are kept.
MOST = 256
#: Points of the skin that may touch the body's own parts: the first ones in that order.
OWN = 600
#: Parts that an edge of the skin is cut into for things smaller than it, at most.
FINEST = 6
#: Depth in m from which a point counts wholly.
WHOLLY_IN = 2e-3


class Touches(NamedTuple):
    """Contacts that were found, in arrays of fixed length."""

    total: Ints
    """(1,) how many."""
    full: Bools
    """(1,) whether there was no room for some."""
    nearest: Floats
    """(1,) the gap of skin to obstacles and objects is no smaller, m; 0 where it is not known."""
    points: Ints
    """Numbers by which friction remembers them: vertices of the skin, n̄ + s for sample s of the
    objects, and n̄ + S + FINEST² t + k for part k of triangle t of the skin."""
    corners: Ints
    """(…, 3) vertices of the skin, and"""
    shares: Floats
    """(…, 3) what a contact is of each; a vertex is all of the first, an object's is none."""
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
    parts: Floats
    """Parts of a contact's force that its `members` have."""
    found: Ints
    """(2, …) vertices that touch, and the contact that stands for each; work."""
    loads: Floats
    """(…,) the area, or the share, of each of these; work."""


def empty_touches(n_skin: int) -> Touches:
    """Return room for contacts."""
    room = 2 * n_skin + 3 * MOST
    return Touches(
        np.zeros(1, np.int64),
        np.zeros(1, np.bool_),
        np.zeros(1),
        np.zeros(MOST, np.int64),
        np.zeros((MOST, 3), np.int64),
        np.zeros((MOST, 3)),
        np.zeros(MOST, np.int64),
        np.zeros(MOST),
        np.zeros((MOST, 3)),
        np.zeros((MOST, 3)),
        np.zeros(MOST),
        np.zeros(MOST + 1, np.int64),
        np.zeros(room, np.int64),
        np.zeros(room),
        np.zeros((2, room), np.int64),
        np.zeros(room),
    )


@compiled_fused
def find_touches(
    shapes: ShapeTables,
    skin: Floats,
    dents: Floats,
    order: Ints,
    patches: SkinPatches,
    areas: Floats,
    triangles: Ints,
    cuts: Ints,
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
    skin, dents, order, patches, areas
        (n̄, 3) in the world as bones and handles have it, (n̄, 3) what contact moved it beside these
        before, the points as `spread_order` has them, their patches and their areas. Things touch
        skin that is dented; depths count from where it would be without.
    triangles, cuts
        (m, 3) of the skin, and (things,) into how many parts their edges are cut for each thing: 1
        has vertices touch it, more the middles of the parts of triangles.
    allowed
        (bones, n̄) whether a point may touch the part of a bone; (0, n̄) for no self-contact.
    samples, radii, owners
        (s, 3), (s,) balls of the objects in the world, and the thing that each belongs to.
    first_object, first_bone
        Where objects and bones begin among the things.
    out
        Written.
    """
    out.total[0], out.nearest[0], out.full[0], total = 0, np.inf, False, 0
    bound_patches(patches, skin, dents)
    for thing in range(len(shapes.kinds)):
        first, bone = out.total[0], thing - first_bone
        finely = -1
        if cuts[thing] > 1:
            finely = _find_finely(
                shapes,
                skin,
                dents,
                patches,
                triangles,
                cuts[thing],
                thing,
                len(samples),
                total,
                first,
                out,
            )
            total = max(total, finely)
        if finely < 0 and _find_vertices(
            shapes, skin, dents, patches, areas, allowed, thing, bone, out
        ):
            for k in range(min(len(order), OWN) if bone >= 0 else len(order)):
                if patches.hits[k]:
                    patches.hits[k] = False
                    gap, p, q, r = patches.gaps[k]
                    total = take_point(
                        out, total, first, order[k], thing, gap, p, q, r, skin, areas
                    )
        if thing < first_bone:
            round_ones = thing >= first_object and shapes.kinds[thing] <= CAPSULE
            _find_samples(shapes, samples, radii, owners, thing, len(skin), round_ones, out)
    gather_members(out, total)


@compiled_fused
def _find_samples(
    shapes: ShapeTables,
    samples: Floats,
    radii: Floats,
    owners: Ints,
    thing: int,
    n_skin: int,
    round_one: bool,
    out: Touches,
) -> None:
    """Find samples of objects inside of a thing, which may be a round object itself."""
    for s in range(len(samples)):
        if owners[s] == thing or out.total[0] >= MOST:
            continue
        x, y, z = samples[s, 0], samples[s, 1], samples[s, 2]
        gap, p, q, r = signed_distance(shapes, thing, x, y, z)
        gap -= radii[s]
        # Two round objects would be found twice, once from each.
        if gap < 0 and not (round_one and radii[s] > 0 and owners[s] > thing):
            c = _take(out, n_skin + s, thing, gap, p, q, r)
            for i in range(3):
                out.corners[c, i], out.shares[c, i] = 0, 0.0
            out.places[c, 0], out.places[c, 1] = x - radii[s] * p, y - radii[s] * q
            out.places[c, 2] = z - radii[s] * r


@compiled_fused
def _find_vertices(
    shapes: ShapeTables,
    skin: Floats,
    dents: Floats,
    patches: SkinPatches,
    areas: Floats,
    allowed: Bools,
    thing: int,
    bone: int,
    out: Touches,
) -> bool:
    """Mark vertices inside of a thing, and how deep they are; return whether there are any."""
    some = False
    cx, cy, cz, reach = _ball(shapes, thing)
    for k in range(patches.all) if bone < 0 else range(patches.all, len(patches.owned)):
        ball = patches.balls[k]
        away = (ball[0] - cx) ** 2 + (ball[1] - cy) ** 2 + (ball[2] - cz) ** 2
        if bone >= 0 and away > (math.sqrt(reach) + ball[3]) ** 2:
            continue
        far = patch_gap(shapes, thing, ball)
        if bone < 0:
            out.nearest[0] = min(out.nearest[0], max(far, 0.0))
        if far > 0:
            continue
        for at in range(patches.starts[k], patches.starts[k] + patches.owned[k]):
            v = patches.corners[at]
            if areas[v] <= 0:
                continue  # of no triangle
            x, y, z = skin[v, 0], skin[v, 1], skin[v, 2]
            if (x - cx) ** 2 + (y - cy) ** 2 + (z - cz) ** 2 > reach and dents[v, 0] == 0:
                continue
            x, y, z = x + dents[v, 0], y + dents[v, 1], z + dents[v, 2]
            if bone >= 0 and not allowed[bone, v]:
                continue
            gap, p, q, r = signed_distance(shapes, thing, x, y, z)
            gap -= p * dents[v, 0] + q * dents[v, 1] + r * dents[v, 2]
            if gap < 0:
                own = patches.gaps[patches.ranks[v]]
                own[0], own[1], own[2], own[3] = gap, p, q, r
                patches.hits[patches.ranks[v]] = some = True
    return some


@compiled_fused
def _find_finely(
    shapes: ShapeTables,
    skin: Floats,
    dents: Floats,
    patches: SkinPatches,
    triangles: Ints,
    cut: int,
    thing: int,
    n_samples: int,
    total: int,
    first: int,
    out: Touches,
) -> int:
    """Find parts of triangles whose middles are inside of a small thing.

    Return how many vertices are gathered now; −1, with none of them, where vertices are enough.
    """
    for patch in range(patches.all):
        far = patch_gap(shapes, thing, patches.balls[patch])
        out.nearest[0] = min(out.nearest[0], max(far, 0.0))
        if far > 0:
            continue
        for at in range(patches.triangle_starts[patch], patches.triangle_starts[patch + 1]):
            t = patches.triangles[at]
            total = _find_parts(
                shapes, skin, dents, triangles[t], t, cut, thing, n_samples, total, first, out
            )
            if total < 0:
                return -1
    return total


@compiled_fused
def _find_parts(
    shapes: ShapeTables,
    skin: Floats,
    dents: Floats,
    triangle: Ints,
    t: int,
    cut: int,
    thing: int,
    n_samples: int,
    total: int,
    first: int,
    out: Touches,
) -> int:
    """Find parts of triangle number t whose middles are inside; see `_find_finely`."""
    a, b, c = triangle
    area = _area(skin, a, b, c) / cut**2
    for k in range(cut**2):
        u, v = middle_of_part(k, cut)
        w = 1 - u - v
        x = u * skin[a, 0] + v * skin[b, 0] + w * skin[c, 0]
        y = u * skin[a, 1] + v * skin[b, 1] + w * skin[c, 1]
        z = u * skin[a, 2] + v * skin[b, 2] + w * skin[c, 2]
        i = u * dents[a, 0] + v * dents[b, 0] + w * dents[c, 0]
        j = u * dents[a, 1] + v * dents[b, 1] + w * dents[c, 1]
        m = u * dents[a, 2] + v * dents[b, 2] + w * dents[c, 2]
        gap, p, q, r = signed_distance(shapes, thing, x + i, y + j, z + m)
        gap -= p * i + q * j + r * m
        if gap >= 0 or area == 0 or total + 3 > len(out.loads):
            continue
        if out.total[0] >= MOST or out.total[0] - first >= MOST_FINE:
            out.total[0] = first
            return -1
        number = len(skin) + n_samples + FINEST**2 * t + k
        place = _take(out, number, thing, gap, p, q, r)
        out.places[place, 0], out.places[place, 1], out.places[place, 2] = x, y, z
        out.corners[place, 0], out.corners[place, 1], out.corners[place, 2] = a, b, c
        out.shares[place, 0], out.shares[place, 1], out.shares[place, 2] = u, v, w
        out.areas[place] = area * _in(gap)
        for corner in range(3):
            out.found[0, total], out.found[1, total] = out.corners[place, corner], place
            out.loads[total] = out.areas[place] * out.shares[place, corner]
            total += 1
    return total


@compiled_fused
def middle_of_part(k: int, cut: int) -> tuple[float, float]:
    """Return two barycentric coordinates of the middle of part k of cut² parts of a triangle."""
    row = int(math.sqrt(k + 0.5))
    across = k - row * row
    # Row by row, 1, 3, 5 … parts: every other one stands on its tip.
    u = 1 - (row + (2 / 3 if across % 2 == 0 else 1 / 3)) / cut
    v = (across // 2 + (1 / 3 if across % 2 == 0 else 2 / 3)) / cut
    return u, v


@compiled_fused
def _area(skin: Floats, a: int, b: int, c: int) -> float:
    p, q, r = skin[b, 0] - skin[a, 0], skin[b, 1] - skin[a, 1], skin[b, 2] - skin[a, 2]
    u, v, w = skin[c, 0] - skin[a, 0], skin[c, 1] - skin[a, 1], skin[c, 2] - skin[a, 2]
    return 0.5 * math.sqrt((q * w - r * v) ** 2 + (r * u - p * w) ** 2 + (p * v - q * u) ** 2)


@compiled_fused
def _ball(shapes: ShapeTables, thing: int) -> tuple[float, float, float, float]:
    """Return the middle of the ball around a thing in the world, and its radius squared."""
    turn, shift, ball = shapes.turns[thing], shapes.shifts[thing], shapes.bounds[thing]
    x = turn[0, 0] * ball[0] + turn[0, 1] * ball[1] + turn[0, 2] * ball[2] + shift[0]
    y = turn[1, 0] * ball[0] + turn[1, 1] * ball[1] + turn[1, 2] * ball[2] + shift[1]
    z = turn[2, 0] * ball[0] + turn[2, 1] * ball[1] + turn[2, 2] * ball[2] + shift[2]
    return x, y, z, ball[3] ** 2


@compiled_fused
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
    areas: Floats,
) -> int:
    """Take a vertex for a contact or, where a thing has enough since `first`, give it to one."""
    if total + 3 >= len(out.loads):
        out.full[0] = True
        return total
    if out.total[0] - first < MOST_A_THING and out.total[0] < MOST:
        owner = _take(out, v, thing, gap, p, q, r)
        for i in range(3):
            out.places[owner, i] = skin[v, i]
            out.corners[owner, i], out.shares[owner, i] = v, 1.0 if i == 0 else 0.0
    else:
        out.full[0] |= out.total[0] >= MOST
        owner, best = -1, np.inf
        for c in range(first, out.total[0]):
            away = 0.0
            for i in range(3):
                away += (out.places[c, i] - skin[v, i]) ** 2
            if away < best and out.points[c] < len(skin):
                best, owner = away, c
        if owner < 0:
            return total
    area = areas[v] * _in(gap)
    out.found[0, total], out.found[1, total], out.loads[total] = v, owner, area
    out.areas[owner] += area
    return total + 1


@compiled_fused
def _in(gap: float) -> float:
    """Return what part of a point counts: what just touches counts little, so forces do not jump.

    A person on the ground trembled by 10 % of the weight as points came and went.
    """
    return min(max(-gap / WHOLLY_IN, 1e-3), 1.0)


@compiled_fused
def _take(out: Touches, point: int, thing: int, gap: float, p: float, q: float, r: float) -> int:
    c = out.total[0]
    out.areas[c] = 0.0
    out.points[c], out.things[c], out.depths[c] = point, thing, -gap
    out.ways[c, 0], out.ways[c, 1], out.ways[c, 2] = p, q, r
    out.total[0] = c + 1
    return c


@compiled_fused
def gather_members(out: Touches, total: int) -> None:
    """Sort vertices by the contact that stands for them, with their parts of its force."""
    count = out.total[0]
    for c in range(count + 1):
        out.starts[c] = 0
    for k in range(total):
        out.starts[out.found[1, k] + 1] += 1
    for c in range(count):
        out.starts[c + 1] += out.starts[c]
    for k in range(total):
        c = out.found[1, k]
        out.members[out.starts[c]] = out.found[0, k]
        out.parts[out.starts[c]] = out.loads[k] / max(out.areas[c], 1e-30)
        out.starts[c] += 1
    for c in range(count, 0, -1):
        out.starts[c] = out.starts[c - 1]
    out.starts[0] = 0


@compiled_fused
def push_out(shapes: ShapeTables, touches: Touches, first_bone: int, skin: Singles) -> None:
    """Move vertices (n̄, 3) that are inside of things that are touched to their surface."""
    for thing in range(first_bone):
        touched = False
        for c in range(touches.total[0]):
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
