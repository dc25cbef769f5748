"""Skin vertices inside colliders, and their depths and forces after a step."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from supple.arrays import Floats, Singles
from supple.compiled.jit import compiled_plain
from supple.compiled.tables import ArgumentTable, table_contents
from supple.engines.common.contact.colliders import (
    into_root_axes,
    out_of_root_axes,
    table_distance,
)
from supple.engines.common.contact.free_objects import (
    ObjectCoupling,
    add_wrench,
    object_displacement,
)
from supple.engines.pose_space.blend import Blend
from supple.engines.pose_space.contact.contact_tables import ContactScratch, ContactTables
from supple.mesh.obstacles import OTHER, PLANE


@compiled_plain
def predict(
    q: Floats, v: Floats, dt: float, blend: Blend, peaks: Floats, z: Floats, going: Floats
) -> float:
    """Write ϒ(q + v dt) to `z`, ϒ v dt to `going`; return a bound of their displacements in m."""
    column_scale, weights = blend.column_scale, blend.weights
    bound, total = 0.0, 0.0
    for i in range(len(q)):
        going[i] = column_scale[i] * v[i] * dt
        z[i] = column_scale[i] * q[i] + going[i]
        bound += (abs(z[i]) + abs(going[i])) * peaks[i]
    for pose in range(len(weights)):
        total += abs(weights[pose])
    return bound * total


@compiled_plain
def mark_near(shapes: ArgumentTable, bounds: Floats, bound: float, scratch: ContactScratch) -> bool:
    """Mark skin that may be inside a collider after a displacement of at most `bound`, in m.

    `shapes` and `bounds` are `ColliderShapes.in_root` and `.bounds`. Return whether any is marked.
    """
    rest, near, kinds = scratch.rest, scratch.near, table_contents(shapes).kinds
    near[:] = False
    any_near = False
    for o in range(len(kinds)):
        a, b, c, radius = bounds[o, 0], bounds[o, 1], bounds[o, 2], bounds[o, 3]
        if kinds[o] == OTHER:
            near[:] = True
        elif kinds[o] == PLANE:
            level = radius + bound
            for v in range(len(near)):
                near[v] |= rest[v, 0] * a + rest[v, 1] * b + rest[v, 2] * c < level
        else:
            # A bounding ball is enough for this test.
            reach = radius + bound
            for v in range(len(near)):
                x, y, z = rest[v, 0] - a, rest[v, 1] - b, rest[v, 2] - c
                near[v] |= x * x + y * y + z * z < reach * reach
    for v in range(len(near)):
        any_near |= near[v]
    return any_near


@compiled_plain
def longest_displacement(u: Singles) -> float:
    """Return the length of the longest displacement of carriers (b + 1, 4), in m."""
    largest = np.float32(0)
    for k in range(len(u)):
        largest = max(largest, u[k, 0] * u[k, 0] + u[k, 1] * u[k, 1] + u[k, 2] * u[k, 2])
    return math.sqrt(largest)


@compiled_plain
def list_contacts(
    tables: ContactTables,
    u: Singles,
    reach: float,
    shapes: ArgumentTable,
    bounds: Floats,
    root: Floats,
    gaps: Floats,
    normals: Floats,
    scratch: ContactScratch,
) -> int:
    """List contacts of skin vertices with obstacles in `scratch`, by groups; return their number.

    `u` (b + 1, 4) are displacements of the carriers, of which at most `reach` occurs in this step;
    `shapes` and `bounds` are of `ColliderShapes`; `gaps` (o′, n̄) and `normals` (o′, n̄, 3) in the
    world belong to obstacles of other types.
    """
    count, going = 0, scratch.going
    # Local names, because field access in a loop costs time.
    vertices, carriers, shares = tables.vertices, tables.carriers, tables.shares
    near, rest, kinds = scratch.near, scratch.rest, table_contents(shapes).kinds
    for g in range(len(tables.width)):
        for at in range(tables.first[g], tables.first[g + 1]):
            v = vertices[at]
            if not near[v]:
                continue
            x, y, z = _carried(carriers, shares, v, u)
            x, y, z = rest[v, 0] + x, rest[v, 1] + y, rest[v, 2] + z
            other = 0
            for o in range(len(kinds)):
                if kinds[o] == OTHER:
                    gap = gaps[other, v]
                    p, q, r = into_root_axes(
                        root, normals[other, v, 0], normals[other, v, 1], normals[other, v, 2]
                    )
                    other += 1
                elif kinds[o] == PLANE:
                    p, q, r = bounds[o, 0], bounds[o, 1], bounds[o, 2]
                    gap = p * x + q * y + r * z - bounds[o, 3]
                else:
                    a, b, c, far = x - bounds[o, 0], y - bounds[o, 1], z - bounds[o, 2], reach
                    far += bounds[o, 3]
                    if a * a + b * b + c * c > far * far:
                        continue
                    gap, p, q, r = table_distance(shapes, o, x, y, z)
                if gap >= reach:
                    continue
                dx, dy, dz = _carried(carriers, shares, v, going)
                still = gap - (p * dx + q * dy + r * dz)
                if kinds[o] != OTHER:
                    still = table_distance(shapes, o, x - dx, y - dy, z - dz)[0]
                if gap < 0 or still < 0:
                    scratch.group[count], scratch.vertex[count], scratch.obstacle[count] = g, v, o
                    scratch.depth[count], scratch.still[count] = -gap, -still
                    scratch.released[count] = False
                    place, normal = scratch.place[count], scratch.normal[count]
                    place[0], place[1], place[2] = x, y, z
                    normal[0], normal[1], normal[2] = p, q, r
                    count += 1
    return count


@compiled_plain
def _carried(carriers, shares, v, u):  # type: ignore[no-untyped-def]
    """Return the weighted sum of u over the four carriers of a skin vertex."""
    x, y, z = np.float32(0), np.float32(0), np.float32(0)
    for corner in range(4):
        carrier, share = carriers[v, corner], shares[v, corner]
        x += share * u[carrier, 0]
        y += share * u[carrier, 1]
        z += share * u[carrier, 2]
    return x, y, z


class ContactResult(NamedTuple):
    """Contacts at the end of a step, arrays of a `ContactMemory`."""

    depths: Singles
    """(o, n̄) depths of skin vertices in each obstacle, in m."""
    loads: Singles
    places: Floats
    """(o, n̄) normal forces in N and (n̄, 3) positions in the world; empty without friction."""
    forces: Floats
    """(o, 3) force of each collider on the skin, in N in the world."""
    wrenches: Floats
    """(O, 6) force of the skin on each free object, in N, and torque about its centre, in N m."""


@compiled_plain
def write_depths(
    tables: ContactTables,
    count: int,
    shapes: ArgumentTable,
    stiffness: float,
    frames: Singles,
    coupling: ObjectCoupling,
    root: Floats,
    scratch: ContactScratch,
    out: ContactResult,
) -> None:
    """Write the contacts at the end of the step to `out`.

    Obstacles of other types are linearised at the detected contact.
    """
    depths, loads, places, forces, wrenches = out
    depths[:] = 0
    loads[:] = 0
    forces[:] = 0
    wrenches[:] = 0
    if count == 0:
        return
    _move_touched(tables, frames, scratch)
    kinds, free = table_contents(shapes).kinds, coupling.free
    for k in range(count):
        v, o = scratch.vertex[k], scratch.obstacle[k]
        dx, dy, dz = _moved(tables, k, scratch)
        place, normal = scratch.place[k], scratch.normal[k]
        x, y, z = place[0] + dx, place[1] + dy, place[2] + dz
        # From here on the displacement relative to a free object.
        if free[o] >= 0:
            ax, ay, az = object_displacement(coupling, free[o], root, place)
            dx, dy, dz = dx - ax, dy - ay, dz - az
        flat = scratch.depth[k] - (dx * normal[0] + dy * normal[1] + dz * normal[2])
        depth = flat
        if scratch.target[k] >= 0:
            spring = min(stiffness * tables.areas[v], coupling.hardness[o])
            load = spring * (flat - scratch.target[k])
            fx, fy, fz = load * normal[0], load * normal[1], load * normal[2]
            if len(loads):
                loads[o, v] = max(load, 0.0)
                gx, gy, gz = _friction_force(scratch, k, dx, dy, dz)
                fx, fy, fz = fx + gx, fy + gy, fz + gz
            fx, fy, fz = out_of_root_axes(root, fx, fy, fz)
            forces[o, 0], forces[o, 1] = forces[o, 0] + fx, forces[o, 1] + fy
            forces[o, 2] += fz
            scratch.forces[k, 0], scratch.forces[k, 1], scratch.forces[k, 2] = fx, fy, fz
            if free[o] >= 0:
                add_wrench(coupling, free[o], root, place, (-fx, -fy, -fz), wrenches)
        if kinds[o] != OTHER and free[o] < 0:
            depth = -table_distance(shapes, o, x, y, z)[0]
        depths[o, v] = max(depth, 0.0)
        place[0], place[1], place[2] = x, y, z
        if len(places):
            for i in range(3):
                places[v, i] = root[i, 3] + root[i, 0] * x + root[i, 1] * y + root[i, 2] * z


@compiled_plain
def _friction_force(scratch, k, dx, dy, dz):  # type: ignore[no-untyped-def]
    """Return the friction force, in N, of contact k, which moved by d since its detection."""
    x, y, z = scratch.normal[k, 0], scratch.normal[k, 1], scratch.normal[k, 2]
    along = dx * x + dy * y + dz * z
    grip = scratch.grip[k]
    return (
        -grip * (scratch.slip[k, 0] + dx - along * x),
        -grip * (scratch.slip[k, 1] + dy - along * y),
        -grip * (scratch.slip[k, 2] + dz - along * z),
    )


@compiled_plain
def change_since(column_scale, q, z, change):  # type: ignore[no-untyped-def]
    """Write the change of ϒ q since contacts were detected at z."""
    for j in range(len(q)):
        change[j] = column_scale[j] * q[j] - z[j]


@compiled_plain
def release_pulling(tables, count, frames, coupling, root, scratch):  # type: ignore[no-untyped-def]
    """Mark contacts with free objects that pull after the solution; return whether any does."""
    pulls = False
    _move_touched(tables, frames, scratch)
    for k in range(count):
        free = coupling.free[scratch.obstacle[k]]
        if free < 0 or scratch.target[k] < 0:
            continue
        dx, dy, dz = _moved(tables, k, scratch)
        ax, ay, az = object_displacement(coupling, free, root, scratch.place[k])
        normal = scratch.normal[k]
        out = (dx - ax) * normal[0] + (dy - ay) * normal[1] + (dz - az) * normal[2]
        if scratch.depth[k] - out < scratch.target[k]:
            scratch.released[k] = pulls = True
    return pulls


@compiled_plain
def _moved(tables, k, scratch):  # type: ignore[no-untyped-def]
    """Return the displacement of contact k's skin since contacts were detected."""
    v, dx, dy, dz = scratch.vertex[k], 0.0, 0.0, 0.0
    for corner in range(4):
        slot, share = scratch.slots[tables.carriers[v, corner]], tables.shares[v, corner]
        dx += share * scratch.moved[slot, 0]
        dy += share * scratch.moved[slot, 1]
        dz += share * scratch.moved[slot, 2]
    return dx, dy, dz


@compiled_plain
def _move_touched(tables, frames, scratch):  # type: ignore[no-untyped-def]
    """Write displacements of touched carriers, since contacts were detected, to `scratch.moved`."""
    r, z = len(scratch.change), scratch.change
    for slot in range(scratch.used[0]):
        carrier = scratch.touched[slot]
        x, y, w = 0.0, 0.0, 0.0
        for region in range(len(tables.sizes)):
            if tables.places[region, carrier] < 0:
                continue
            first, last = tables.column[region], tables.column[region + 1]
            rows = scratch.rows[3 * slot * r : 3 * (slot + 1) * r]
            part = z[first:last]
            x += _dot(rows[first:last], part)
            y += _dot(rows[r + first : r + last], part)
            w += _dot(rows[2 * r + first : 2 * r + last], part)
        if carrier < len(frames):
            f = frames[carrier]
            x, y, w = (
                f[0] * x + f[1] * y + f[2] * w,
                f[3] * x + f[4] * y + f[5] * w,
                f[6] * x + f[7] * y + f[8] * w,
            )
        scratch.moved[slot, 0], scratch.moved[slot, 1], scratch.moved[slot, 2] = x, y, w


@compiled_plain
def _dot(a, b):  # type: ignore[no-untyped-def]
    total = 0.0
    for j in range(len(a)):
        total += a[j] * b[j]
    return total
