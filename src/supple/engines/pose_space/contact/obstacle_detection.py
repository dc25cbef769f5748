"""Detection of skin vertices inside obstacles, and their depths after a step; compiled."""

from __future__ import annotations

import math

import numpy as np

from supple.arrays import Floats, Singles
from supple.compiled.jit import compiled
from supple.engines.pose_space.contact.contact_tables import ContactScratch, ContactTables
from supple.mesh.obstacles import CAPSULE, OTHER, PLANE

__all__ = [
    "into_root",
    "list_contacts",
    "longest_displacement",
    "mark_near",
    "predict",
    "write_depths",
]


@compiled
def predict(
    q: Floats,
    v: Floats,
    dt: float,
    stretch: Floats,
    weights: Floats,
    peaks: Floats,
    z: Floats,
    going: Floats,
) -> float:
    """Write ϒ(q + v dt) and ϒ v dt, flesh going on its own; return a bound on displacements."""
    bound, total = 0.0, 0.0
    for i in range(len(q)):
        going[i] = stretch[i] * v[i] * dt
        z[i] = stretch[i] * q[i] + going[i]
        bound += (abs(z[i]) + abs(going[i])) * peaks[i]
    for pose in range(len(weights)):
        total += abs(weights[pose])
    return bound * total


@compiled
def mark_near(shapes: Floats, bound: float, scratch: ContactScratch) -> bool:
    """Mark skin that may be inside an obstacle, displaced by `bound` at most; return if any is."""
    rest, near = scratch.rest, scratch.near
    near[:] = False
    any_near = False
    for o in range(len(shapes)):
        kind, a, b, c = shapes[o, 0], shapes[o, 1], shapes[o, 2], shapes[o, 3]
        p, q, r, radius = shapes[o, 4], shapes[o, 5], shapes[o, 6], shapes[o, 7]
        if kind == OTHER:
            near[:] = True
        elif kind == PLANE:
            level = a * p + b * q + c * r + bound
            for v in range(len(near)):
                near[v] |= rest[v, 0] * p + rest[v, 1] * q + rest[v, 2] * r < level
        else:
            # A ball around all of it is enough for a first look.
            reach = radius + bound
            if kind == CAPSULE:
                reach += 0.5 * math.sqrt((p - a) ** 2 + (q - b) ** 2 + (r - c) ** 2)
                a, b, c = 0.5 * (a + p), 0.5 * (b + q), 0.5 * (c + r)
            for v in range(len(near)):
                x, y, z = rest[v, 0] - a, rest[v, 1] - b, rest[v, 2] - c
                near[v] |= x * x + y * y + z * z < reach * reach
    for v in range(len(near)):
        any_near |= near[v]
    return any_near


@compiled
def longest_displacement(u: Singles) -> float:
    """Return the longest displacement of carriers (b, 3)."""
    most = np.float32(0)
    for k in range(len(u)):
        most = max(most, u[k, 0] * u[k, 0] + u[k, 1] * u[k, 1] + u[k, 2] * u[k, 2])
    return math.sqrt(most)


@compiled
def list_contacts(
    tables: ContactTables,
    u: Singles,
    reach: float,
    shapes: Floats,
    root: Floats,
    gaps: Floats,
    normals: Floats,
    scratch: ContactScratch,
) -> int:
    """List the skin vertices inside obstacles, group by group; return how many.

    `u` (b + 1, 3) are displacements of the carriers, of which `reach` may be this step's; `shapes`
    (o, 8) those of `supple.mesh.obstacles.plain_numbers`, as the root sees them; `gaps` (o′, n̄)
    and `normals` (o′, n̄, 3) in the world those of obstacles that only know distances.
    """
    count, going = 0, scratch.going
    # Names of their own: taking an array out of a tuple is not free in a loop.
    vertices, carriers, shares = tables.vertices, tables.carriers, tables.shares
    near, rest = scratch.near, scratch.rest
    for g in range(len(tables.width)):
        for at in range(tables.first[g], tables.first[g + 1]):
            v = vertices[at]
            if not near[v]:
                continue
            x, y, z = _carried(carriers, shares, v, u)
            x, y, z = rest[v, 0] + x, rest[v, 1] + y, rest[v, 2] + z
            other = 0
            for o in range(len(shapes)):
                if shapes[o, 0] == OTHER:
                    gap = gaps[other, v]
                    p, q, r = _turned_back(
                        root, normals[other, v, 0], normals[other, v, 1], normals[other, v, 2]
                    )
                    other += 1
                else:
                    gap, p, q, r = _gap(shapes, o, x, y, z)
                if gap >= reach:
                    continue
                dx, dy, dz = _carried(carriers, shares, v, going)
                still = gap - (p * dx + q * dy + r * dz)
                if shapes[o, 0] != OTHER:
                    still = _gap(shapes, o, x - dx, y - dy, z - dz)[0]
                if gap < 0 or still < 0:
                    scratch.group[count], scratch.vertex[count], scratch.obstacle[count] = g, v, o
                    scratch.depth[count], scratch.still[count] = -gap, -still
                    scratch.place[count, 0], scratch.place[count, 1], scratch.place[count, 2] = (
                        x,
                        y,
                        z,
                    )
                    scratch.normal[count, 0], scratch.normal[count, 1], scratch.normal[count, 2] = (
                        p,
                        q,
                        r,
                    )
                    count += 1
    return count


@compiled
def _carried(carriers, shares, v, u):  # type: ignore[no-untyped-def]
    """Return Σ share u of the four carriers of a skin vertex."""
    x, y, z = np.float32(0), np.float32(0), np.float32(0)
    for corner in range(4):
        carrier, share = carriers[v, corner], shares[v, corner]
        x += share * u[carrier, 0]
        y += share * u[carrier, 1]
        z += share * u[carrier, 2]
    return x, y, z


@compiled
def _turned_back(root, p, q, r):  # type: ignore[no-untyped-def]
    """Return Rᵀ (p, q, r)."""
    return (
        root[0, 0] * p + root[1, 0] * q + root[2, 0] * r,
        root[0, 1] * p + root[1, 1] * q + root[2, 1] * r,
        root[0, 2] * p + root[1, 2] * q + root[2, 2] * r,
    )


@compiled
def into_root(shapes: Floats, root: Floats, out: Floats) -> None:
    """Write obstacles (o, 8) as the root sees them."""
    s, t, u = root[0, 3], root[1, 3], root[2, 3]
    for o in range(len(shapes)):
        a, b = shapes[o], out[o]
        b[0], b[7] = a[0], a[7]
        b[1], b[2], b[3] = _turned_back(root, a[1] - s, a[2] - t, a[3] - u)
        if a[0] == PLANE:  # a direction, not a place
            s, t, u = 0.0, 0.0, 0.0
        b[4], b[5], b[6] = _turned_back(root, a[4] - s, a[5] - t, a[6] - u)
        s, t, u = root[0, 3], root[1, 3], root[2, 3]


@compiled
def _gap(shapes, o, x, y, z):  # type: ignore[no-untyped-def]
    """Return the signed distance of a point to an obstacle, and the way out, a unit vector."""
    kind, radius = shapes[o, 0], shapes[o, 7]
    x, y, z = x - shapes[o, 1], y - shapes[o, 2], z - shapes[o, 3]
    p, q, r = shapes[o, 4], shapes[o, 5], shapes[o, 6]
    if kind == PLANE:
        return x * p + y * q + z * r, p, q, r
    if kind == CAPSULE:
        p, q, r = p - shapes[o, 1], q - shapes[o, 2], r - shapes[o, 3]
        squared = p * p + q * q + r * r
        along = (x * p + y * q + z * r) / squared if squared > 0 else 0.0
        along = min(max(along, 0.0), 1.0)
        x, y, z = x - along * p, y - along * q, z - along * r
    length = math.sqrt(x * x + y * y + z * z)
    if length == 0:  # every way out is as good
        return -radius, 0.0, 1.0, 0.0
    return length - radius, x / length, y / length, z / length


@compiled
def write_depths(
    tables: ContactTables,
    count: int,
    shapes: Floats,
    frames: Singles,
    stretch: Floats,
    q: Floats,
    scratch: ContactScratch,
    depths: Singles,
) -> None:
    """Write depths of the contacts at the end of the step to `depths` (o, n̄).

    Obstacles that only know distances are taken for flat as far as the vertex went.
    """
    depths[:] = 0
    if count == 0:
        return
    _move_touched(tables, frames, stretch, q, scratch)
    for k in range(count):
        v, o = scratch.vertex[k], scratch.obstacle[k]
        dx, dy, dz = 0.0, 0.0, 0.0
        for corner in range(4):
            slot, share = scratch.slots[tables.carriers[v, corner]], tables.shares[v, corner]
            dx += share * scratch.moved[slot, 0]
            dy += share * scratch.moved[slot, 1]
            dz += share * scratch.moved[slot, 2]
        if shapes[o, 0] == OTHER:
            x, y, z = scratch.normal[k, 0], scratch.normal[k, 1], scratch.normal[k, 2]
            depth = scratch.depth[k] - (dx * x + dy * y + dz * z)
        else:
            x, y, z = scratch.place[k, 0] + dx, scratch.place[k, 1] + dy, scratch.place[k, 2] + dz
            depth = -_gap(shapes, o, x, y, z)[0]
        depths[o, v] = max(depth, 0.0)


@compiled
def _move_touched(tables, frames, stretch, q, scratch):  # type: ignore[no-untyped-def]
    """Write how far touched carriers went since contacts were looked for."""
    r, z = len(q), scratch.z
    for j in range(r):
        z[j] = stretch[j] * q[j] - z[j]
    for slot in range(scratch.used[0]):
        carrier = scratch.touched[slot]
        x, y, w = 0.0, 0.0, 0.0
        for region in range(len(tables.sizes)):
            if tables.places[region, carrier] < 0:
                continue
            first, last = tables.column[region], tables.column[region + 1]
            rows = scratch.rows[3 * slot * r : 3 * (slot + 1) * r]
            some = z[first:last]
            x += _dot(rows[first:last], some)
            y += _dot(rows[r + first : r + last], some)
            w += _dot(rows[2 * r + first : 2 * r + last], some)
        if carrier < len(frames):
            f = frames[carrier]
            x, y, w = (
                f[0] * x + f[1] * y + f[2] * w,
                f[3] * x + f[4] * y + f[5] * w,
                f[6] * x + f[7] * y + f[8] * w,
            )
        scratch.moved[slot, 0], scratch.moved[slot, 1], scratch.moved[slot, 2] = x, y, w


@compiled
def _dot(a, b):  # type: ignore[no-untyped-def]
    total = 0.0
    for j in range(len(a)):
        total += a[j] * b[j]
    return total
