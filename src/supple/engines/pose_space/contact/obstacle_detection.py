"""Detection of skin vertices inside obstacles, and their depths after a step; compiled."""

from __future__ import annotations

import math

import numpy as np

from supple.arrays import Floats, Singles
from supple.compiled.jit import compiled_fused, compiled_plain
from supple.compiled.tables import ArgumentTable, table_contents
from supple.dynamics.rigid_object import RigidObject
from supple.engines.pose_space.contact.contact_tables import ContactScratch, ContactTables
from supple.mesh.obstacles import CAPSULE, OTHER, PLANE, Obstacle, plain_numbers
from supple.mesh.shape_tables import PlacedShape, shape_tables, signed_distance

#: Kind of obstacles that only the tables of shapes know, beside those of `plain_numbers`.
TABLED = 4


class SeenObstacles:
    """Obstacles of a scene, and how the root of a character sees them.

    Attributes
    ----------
    obstacles
        The obstacles.
    kinds
        A number for each; obstacles of the same kinds are the same, moved.
    rows
        (o, 8) as in `plain_numbers`, as the root sees them.
    solids
        `ShapeTables` of the others, as the root sees them.
    motions
        (o, 9) velocity, spin and centre of those that move, as the root sees them.
    """

    def __init__(self) -> None:
        self.obstacles: tuple[Obstacle, ...] = ()
        self.kinds: tuple[int, ...] = ()
        self._shapes: list[Obstacle | None] | None = None

    def set(self, obstacles: tuple[Obstacle, ...]) -> None:
        """Have these obstacles from now on."""
        self.obstacles = obstacles
        self._rows = plain_numbers(obstacles)
        hidden = self._rows[:, 0] == OTHER
        # A shape that is placed, or none that rows know: a mesh may be large, so tables are kept.
        given = [each if only else None for each, only in zip(obstacles, hidden, strict=True)]
        shapes = [each.shape if isinstance(each, PlacedShape) else each for each in given]
        same = self._shapes is not None and len(shapes) == len(self._shapes)
        if not same or any(a is not b for a, b in zip(shapes, self._shapes or (), strict=True)):
            self._world = shape_tables(given)
            turns, shifts = self._world.rotations.copy(), self._world.translations.copy()
            self._seen = self._world._replace(rotations=turns, translations=shifts)
            self.solids, self._shapes = ArgumentTable(self._seen), shapes
        self._world.rotations[:], self._world.translations[:] = np.eye(3), 0.0
        tabled = hidden & (self._world.kinds != OTHER)
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
    def others(self) -> tuple[Obstacle, ...]:
        """Obstacles that only know distances."""
        kinds = self._rows[:, 0]
        return tuple(each for each, k in zip(self.obstacles, kinds, strict=True) if k == OTHER)

    def look(self, root: Floats) -> None:
        """Write where obstacles are for a root (4, 4)."""
        into_root(self._rows, root, self.rows)
        if not self._has_solids:
            return
        world, seen = self._world, self._seen
        for k, each in self._placed:
            place = each.place
            world.rotations[k], world.translations[k] = place[:3, :3], place[:3, 3]
        _places_into_root(
            world.rotations, world.translations, root, seen.rotations, seen.translations
        )

    def look_at_motions(self, root: Floats) -> None:
        """Write how obstacles move for a root (4, 4)."""
        turn, shift = root[:3, :3], root[:3, 3]
        for k, each in self._moving:
            out = self.motions[k]
            out[:3], out[3:6] = each.velocity @ turn, each.spin @ turn
            out[6:] = (each.centre - shift) @ turn


@compiled_plain
def turned_back(root, p, q, r):  # type: ignore[no-untyped-def]
    """Return Rᵀ (p, q, r)."""
    return (
        root[0, 0] * p + root[1, 0] * q + root[2, 0] * r,
        root[0, 1] * p + root[1, 1] * q + root[2, 1] * r,
        root[0, 2] * p + root[1, 2] * q + root[2, 2] * r,
    )


@compiled_plain
def into_root(shapes: Floats, root: Floats, out: Floats) -> None:
    """Write obstacles (o, 8) as the root sees them."""
    s, t, u = root[0, 3], root[1, 3], root[2, 3]
    for o in range(len(shapes)):
        a, b = shapes[o], out[o]
        b[0], b[7] = a[0], a[7]
        b[1], b[2], b[3] = turned_back(root, a[1] - s, a[2] - t, a[3] - u)
        if a[0] == PLANE:  # a direction, not a place
            s, t, u = 0.0, 0.0, 0.0
        b[4], b[5], b[6] = turned_back(root, a[4] - s, a[5] - t, a[6] - u)
        s, t, u = root[0, 3], root[1, 3], root[2, 3]


@compiled_plain
def _places_into_root(turns, shifts, root, seen_turns, seen_shifts):  # type: ignore[no-untyped-def]
    """Write turns (o, 3, 3) and shifts (o, 3) of shapes as the root sees them."""
    for o in range(len(turns)):
        for j in range(3):
            x, y, z = turned_back(root, turns[o, 0, j], turns[o, 1, j], turns[o, 2, j])
            seen_turns[o, 0, j], seen_turns[o, 1, j], seen_turns[o, 2, j] = x, y, z
        seen_shifts[o, 0], seen_shifts[o, 1], seen_shifts[o, 2] = turned_back(
            root,
            shifts[o, 0] - root[0, 3],
            shifts[o, 1] - root[1, 3],
            shifts[o, 2] - root[2, 3],
        )


@compiled_plain
def predict(
    q: Floats,
    v: Floats,
    dt: float,
    column_scale: Floats,
    weights: Floats,
    peaks: Floats,
    z: Floats,
    going: Floats,
) -> float:
    """Write ϒ(q + v dt) and ϒ v dt, flesh going on its own; return a bound on displacements."""
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
    """Return the longest displacement of carriers (b, 3)."""
    most = np.float32(0)
    for k in range(len(u)):
        most = max(most, u[k, 0] * u[k, 0] + u[k, 1] * u[k, 1] + u[k, 2] * u[k, 2])
    return math.sqrt(most)


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
    """List the skin vertices inside obstacles, group by group; return how many.

    `u` (b + 1, 3) are displacements of the carriers, of which `reach` may be this step's; `shapes`
    (o, 8) and `solids` are those of `SeenObstacles`; `gaps` (o′, n̄) and
    `normals` (o′, n̄, 3) in the world those of obstacles that only know distances.
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
                    p, q, r = turned_back(
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


@compiled_plain
def _carried(carriers, shares, v, u):  # type: ignore[no-untyped-def]
    """Return Σ share u of the four carriers of a skin vertex."""
    x, y, z = np.float32(0), np.float32(0), np.float32(0)
    for corner in range(4):
        carrier, share = carriers[v, corner], shares[v, corner]
        x += share * u[carrier, 0]
        y += share * u[carrier, 1]
        z += share * u[carrier, 2]
    return x, y, z


@compiled_plain
def _gap(shapes, solids, o, x, y, z):  # type: ignore[no-untyped-def]
    """Return the signed distance of a point to an obstacle, and the way out, a unit vector."""
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
    if length == 0:  # every way out is as good
        return -radius, 0.0, 1.0, 0.0
    return length - radius, x / length, y / length, z / length


@compiled_fused
def _tabled_gap(solids, o, x, y, z):  # type: ignore[no-untyped-def]
    return signed_distance(table_contents(solids), o, x, y, z)


@compiled_fused
def _ball_around(solids, o):  # type: ignore[no-untyped-def]
    """Return middle and radius of a ball around a shape, as the root sees it."""
    tables = table_contents(solids)
    ball, turn, shift = tables.bounds[o], tables.rotations[o], tables.translations[o]
    return (
        turn[0, 0] * ball[0] + turn[0, 1] * ball[1] + turn[0, 2] * ball[2] + shift[0],
        turn[1, 0] * ball[0] + turn[1, 1] * ball[1] + turn[1, 2] * ball[2] + shift[1],
        turn[2, 0] * ball[0] + turn[2, 1] * ball[1] + turn[2, 2] * ball[2] + shift[2],
        ball[3],
    )


@compiled_plain
def write_depths(
    tables: ContactTables,
    count: int,
    shapes: Floats,
    solids: ArgumentTable,
    hardness: float,
    frames: Singles,
    column_scale: Floats,
    q: Floats,
    root: Floats,
    scratch: ContactScratch,
    depths: Singles,
    loads: Singles,
    places: Floats,
    total: Floats,
) -> None:
    """Write depths of the contacts at the end of the step to `depths` (o, n̄).

    Obstacles that only know distances are taken for flat as far as the vertex went. Beside it the
    force that contacts had in this step is written to `total` (3,), in N in the world; for
    friction, each one's push to `loads` (o, n̄) and its place in the world to `places` (n̄, 3),
    unless these are empty.
    """
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
            load = hardness * tables.areas[v] * (flat - scratch.target[k])
            fx, fy, fz = load * x, load * y, load * z
            if len(loads):
                loads[o, v] = max(load, 0.0)
                gx, gy, gz = _held_back(scratch, k, dx, dy, dz)
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
def _held_back(scratch, k, dx, dy, dz):  # type: ignore[no-untyped-def]
    """Return the friction of a contact that went on by d since it was looked for."""
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
    """Write how far touched carriers went since contacts were looked for."""
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


@compiled_plain
def _dot(a, b):  # type: ignore[no-untyped-def]
    total = 0.0
    for j in range(len(a)):
        total += a[j] * b[j]
    return total
