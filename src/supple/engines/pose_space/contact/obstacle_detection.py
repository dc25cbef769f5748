"""Obstacles in the root's frame, skin vertices inside them, and their depths after a step."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from supple.arrays import Floats, Singles
from supple.compiled.jit import compiled_fused, compiled_plain
from supple.compiled.tables import ArgumentTable, table_contents
from supple.dynamics.rigid_object import RigidObject
from supple.engines.pose_space.blend import Blend
from supple.engines.pose_space.contact.contact_tables import ContactScratch, ContactTables
from supple.mesh.obstacles import CAPSULE, OTHER, PLANE, Obstacle, plain_numbers
from supple.mesh.shape_tables import PlacedShape, shape_tables, signed_distance

#: Kind of obstacles in tables of shapes, in addition to those of `plain_numbers`.
TABLED = 4


class RootFrameObstacles:
    """Obstacles of a scene in the root's frame.

    Attributes
    ----------
    obstacles
        The obstacles.
    kinds
        A number for each obstacle; new obstacles with the same numbers count as the old ones,
        moved.
    rows
        (o, 8) `plain_numbers` in the root's frame.
    solids
        `ShapeTables` of the other obstacles in the root's frame.
    motions
        (o, 9) velocity, spin and centre of moving obstacles in the root's frame.
    """

    def __init__(self) -> None:
        self.obstacles: tuple[Obstacle, ...] = ()
        self.kinds: tuple[int, ...] = ()
        self._shapes: list[Obstacle | None] | None = None

    def set(self, obstacles: tuple[Obstacle, ...]) -> None:
        """Replace the obstacles."""
        self.obstacles = obstacles
        self._rows = plain_numbers(obstacles)
        not_plain = self._rows[:, 0] == OTHER
        # Tables of placed shapes and meshes are reused, because meshes may be large.
        others = [each if other else None for each, other in zip(obstacles, not_plain, strict=True)]
        shapes = [each.shape if isinstance(each, PlacedShape) else each for each in others]
        same = self._shapes is not None and len(shapes) == len(self._shapes)
        if not same or any(a is not b for a, b in zip(shapes, self._shapes or (), strict=True)):
            self._world = shape_tables(others)
            self._in_root = self._world._replace(
                rotations=self._world.rotations.copy(), translations=self._world.translations.copy()
            )
            self.solids, self._shapes = ArgumentTable(self._in_root), shapes
        self._world.rotations[:], self._world.translations[:] = np.eye(3), 0.0
        tabled = not_plain & (self._world.kinds != OTHER)
        self._rows[tabled, 0] = TABLED
        self.rows, self.motions = np.zeros_like(self._rows), np.zeros((len(obstacles), 9))
        self._has_solids = bool(tabled.any())
        self._placed = [
            (k, each)
            for k, each in enumerate(obstacles)
            if tabled[k] and isinstance(each, PlacedShape)
        ]
        self._moving = [
            (k, each) for k, each in enumerate(obstacles) if isinstance(each, RigidObject)
        ]
        kinds = np.where(tabled, TABLED + self._world.kinds, self._rows[:, 0]).astype(int)
        for k, _ in self._placed:
            kinds[k] += 100
        self.kinds = tuple(kinds.tolist())

    @property
    def shapes(self) -> tuple[Floats, ArgumentTable]:
        """The arrays `rows` and `solids`, as arguments of kernels."""
        return self.rows, self.solids

    @property
    def others(self) -> tuple[Obstacle, ...]:
        """Obstacles of other types, which only have the method `distances`."""
        kinds = self._rows[:, 0]
        return tuple(each for each, k in zip(self.obstacles, kinds, strict=True) if k == OTHER)

    def update_places(self, root: Floats) -> None:
        """Update the positions of obstacles in the frame of a root (4, 4)."""
        into_root(self._rows, root, self.rows)
        if not self._has_solids:
            return
        world, out = self._world, self._in_root
        for k, shape in self._placed:
            world.rotations[k], world.translations[k] = shape.place[:3, :3], shape.place[:3, 3]
        _places_into_root(
            world.rotations, world.translations, root, out.rotations, out.translations
        )

    def update_motions(self, root: Floats) -> None:
        """Update the motions of obstacles in the frame of a root (4, 4)."""
        rotation, translation = root[:3, :3], root[:3, 3]
        for k, each in self._moving:
            out = self.motions[k]
            out[:3], out[3:6] = each.velocity @ rotation, each.spin @ rotation
            out[6:] = (each.centre - translation) @ rotation


@compiled_plain
def into_root_axes(root, p, q, r):  # type: ignore[no-untyped-def]
    """Return the vector (p, q, r) of the world in the axes of `root` (4, 4)."""
    return (
        root[0, 0] * p + root[1, 0] * q + root[2, 0] * r,
        root[0, 1] * p + root[1, 1] * q + root[2, 1] * r,
        root[0, 2] * p + root[1, 2] * q + root[2, 2] * r,
    )


@compiled_plain
def into_root(shapes: Floats, root: Floats, out: Floats) -> None:
    """Write `plain_numbers` (o, 8) of obstacles in the frame of `root` (4, 4) to `out`."""
    s, t, u = root[0, 3], root[1, 3], root[2, 3]
    for o in range(len(shapes)):
        a, b = shapes[o], out[o]
        b[0], b[7] = a[0], a[7]
        b[1], b[2], b[3] = into_root_axes(root, a[1] - s, a[2] - t, a[3] - u)
        if a[0] == PLANE:  # its entries are a normal
            s, t, u = 0.0, 0.0, 0.0
        b[4], b[5], b[6] = into_root_axes(root, a[4] - s, a[5] - t, a[6] - u)
        s, t, u = root[0, 3], root[1, 3], root[2, 3]


@compiled_plain
def _places_into_root(rotations, translations, root, out_rotations, out_translations):  # type: ignore[no-untyped-def]
    """Write rotations (o, 3, 3) and translations (o, 3) of shapes in the root's frame."""
    for o in range(len(rotations)):
        r, t, out_r, out_t = rotations[o], translations[o], out_rotations[o], out_translations[o]
        for j in range(3):
            out_r[0, j], out_r[1, j], out_r[2, j] = into_root_axes(root, r[0, j], r[1, j], r[2, j])
        x, y, z = t[0] - root[0, 3], t[1] - root[1, 3], t[2] - root[2, 3]
        out_t[0], out_t[1], out_t[2] = into_root_axes(root, x, y, z)


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
def mark_near(shapes: Floats, solids: ArgumentTable, bound: float, scratch: ContactScratch) -> bool:
    """Mark skin that may be inside an obstacle after a displacement of at most `bound`, in m.

    Return whether any is marked.
    """
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
            # A bounding ball is enough for this test.
            reach = radius + bound
            if kind == CAPSULE:
                reach += 0.5 * math.sqrt((p - a) ** 2 + (q - b) ** 2 + (r - c) ** 2)
                a, b, c = 0.5 * (a + p), 0.5 * (b + q), 0.5 * (c + r)
            elif kind == TABLED:
                a, b, c, radius = _ball_around(solids, o)
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
    shapes: Floats,
    solids: ArgumentTable,
    root: Floats,
    gaps: Floats,
    normals: Floats,
    scratch: ContactScratch,
) -> int:
    """List contacts of skin vertices with obstacles in `scratch`, by groups; return their number.

    `u` (b + 1, 4) are displacements of the carriers, of which at most `reach` occurs in this step;
    `shapes` (o, 8) and `solids` are from `RootFrameObstacles`; `gaps` (o′, n̄) and `normals`
    (o′, n̄, 3) in the world belong to obstacles of other types.
    """
    count, going = 0, scratch.going
    # Local names, because field access in a loop costs time.
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
                    p, q, r = into_root_axes(
                        root, normals[other, v, 0], normals[other, v, 1], normals[other, v, 2]
                    )
                    other += 1
                else:
                    gap, p, q, r = _gap(shapes, solids, o, x, y, z)
                if gap >= reach:
                    continue
                dx, dy, dz = _carried(carriers, shares, v, going)
                still = gap - (p * dx + q * dy + r * dz)
                if shapes[o, 0] != OTHER:
                    still = _gap(shapes, solids, o, x - dx, y - dy, z - dz)[0]
                if gap < 0 or still < 0:
                    scratch.group[count], scratch.vertex[count], scratch.obstacle[count] = g, v, o
                    scratch.depth[count], scratch.still[count] = -gap, -still
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


@compiled_plain
def _gap(shapes, solids, o, x, y, z):  # type: ignore[no-untyped-def]
    """Return the signed distance of a point to an obstacle, and the outward unit normal."""
    kind, radius = shapes[o, 0], shapes[o, 7]
    if kind == TABLED:
        return _tabled_gap(solids, o, np.float64(x), np.float64(y), np.float64(z))
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
    if length == 0:  # at the centre: any normal
        return -radius, 0.0, 1.0, 0.0
    return length - radius, x / length, y / length, z / length


@compiled_fused
def _tabled_gap(solids, o, x, y, z):  # type: ignore[no-untyped-def]
    return signed_distance(table_contents(solids), o, x, y, z)


@compiled_fused
def _ball_around(solids, o):  # type: ignore[no-untyped-def]
    """Return centre and radius of a ball around a shape, in the root's frame."""
    tables = table_contents(solids)
    ball, r, t = tables.bounds[o], tables.rotations[o], tables.translations[o]
    return (
        r[0, 0] * ball[0] + r[0, 1] * ball[1] + r[0, 2] * ball[2] + t[0],
        r[1, 0] * ball[0] + r[1, 1] * ball[1] + r[1, 2] * ball[2] + t[1],
        r[2, 0] * ball[0] + r[2, 1] * ball[1] + r[2, 2] * ball[2] + t[2],
        ball[3],
    )


class ContactResult(NamedTuple):
    """Contacts at the end of a step, arrays of a `ContactMemory`."""

    depths: Singles
    """(o, n̄) depths of skin vertices in each obstacle, in m."""
    loads: Singles
    places: Floats
    """(o, n̄) normal forces in N and (n̄, 3) positions in the world; empty without friction."""
    force: Floats
    """(3,) total force on the skin, in N in the world."""


@compiled_plain
def write_depths(
    tables: ContactTables,
    count: int,
    shapes: Floats,
    solids: ArgumentTable,
    stiffness: float,
    frames: Singles,
    column_scale: Floats,
    q: Floats,
    root: Floats,
    scratch: ContactScratch,
    out: ContactResult,
) -> None:
    """Write the contacts at the end of the step to `out`.

    Obstacles of other types are linearised at the detected contact.
    """
    depths, loads, places, total = out
    depths[:] = 0
    loads[:] = 0
    total[:] = 0
    if count == 0:
        return
    _move_touched(tables, frames, column_scale, q, scratch)
    for k in range(count):
        v, o = scratch.vertex[k], scratch.obstacle[k]
        dx, dy, dz = 0.0, 0.0, 0.0
        for corner in range(4):
            slot, share = scratch.slots[tables.carriers[v, corner]], tables.shares[v, corner]
            dx += share * scratch.moved[slot, 0]
            dy += share * scratch.moved[slot, 1]
            dz += share * scratch.moved[slot, 2]
        x, y, z = scratch.normal[k, 0], scratch.normal[k, 1], scratch.normal[k, 2]
        flat = scratch.depth[k] - (dx * x + dy * y + dz * z)
        depth = flat
        if scratch.target[k] >= 0:
            load = stiffness * tables.areas[v] * (flat - scratch.target[k])
            fx, fy, fz = load * x, load * y, load * z
            if len(loads):
                loads[o, v] = max(load, 0.0)
                gx, gy, gz = _friction_force(scratch, k, dx, dy, dz)
                fx, fy, fz = fx + gx, fy + gy, fz + gz
            for i in range(3):
                total[i] += root[i, 0] * fx + root[i, 1] * fy + root[i, 2] * fz
        x, y, z = scratch.place[k, 0] + dx, scratch.place[k, 1] + dy, scratch.place[k, 2] + dz
        if shapes[o, 0] != OTHER:
            depth = -_gap(shapes, solids, o, x, y, z)[0]
        depths[o, v] = max(depth, 0.0)
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
def _move_touched(tables, frames, column_scale, q, scratch):  # type: ignore[no-untyped-def]
    """Write displacements of touched carriers, since contacts were detected, to `scratch.moved`."""
    r, z = len(q), scratch.z
    for j in range(r):
        z[j] = column_scale[j] * q[j] - z[j]
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
