"""Contact search: points of the skin and samples of objects inside colliders."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from supple.arrays import Bools, Floats, Ints, Singles
from supple.compiled.jit import compiled_fused
from supple.engines.soft_skeleton.bones.body_points import PosedPoints, posed_point
from supple.engines.soft_skeleton.contact.body_geometry import SkinPatches, bound_patches, patch_gap
from supple.engines.soft_skeleton.contact.tables import MAX_CONTACTS, ContactSet, ObjectSamples
from supple.mesh.obstacles import CAPSULE
from supple.mesh.shape_tables import ShapeTables, signed_distance

#: Largest number of vertex contacts with one collider; further vertices join the nearest contact.
MAX_PER_COLLIDER = 64
#: Largest number of triangle-part contacts with one collider; beyond it, vertices are used.
MAX_FINE_CONTACTS = 128
#: Number of vertices, the first in `spread_order`, that may touch other parts of the body.
SELF_CONTACT_POINTS = 600
#: Largest number of subdivisions of an edge for colliders smaller than it.
FINEST = 6
#: Relative increase of the depth that the rig itself has, which makes rounding errors no contacts.
ROUNDING = 1e-6
#: Depth in m from which a contact has its full area.
FULL_DEPTH = 2e-3


class SearchedSkin(NamedTuple):
    """Skin on which contacts are searched, and the colliders."""

    shapes: ShapeTables  # obstacles, then objects, then bones
    x: Floats  # (n̄, 3) skin in the world as bones and handles place it
    indentation: Floats  # (n̄, 3) of the step before
    order: Ints  # (n̄,) vertices in the order of `spread_order`
    patches: SkinPatches
    areas: Floats  # (n̄,) of the vertices, m²
    triangles: Ints  # (m, 3)
    cuts: Ints  # (colliders,) subdivisions of the triangles' edges, see `find_contacts`
    first_part: int  # number of the first part of a triangle, see `ContactSet`
    allowed: Bools  # (bones, n̄) vertices that may touch a bone's capsule; no rows: no self-contact
    bones: Ints  # (bones,) index of each capsule's bone
    rig: PosedPoints  # skin of the rig's own pose, to which the bones are tracked
    starts: Floats  # (colliders,) depths in m that are left of overlaps at the start


@compiled_fused
def find_contacts(
    skin: SearchedSkin, samples: ObjectSamples, first_object: int, first_bone: int, out: ContactSet
) -> None:
    """Find points of the skin, and samples of objects, inside colliders.

    Objects are colliders from `first_object` on, bones from `first_bone` on. Colliders touch the
    skin with the indentation of the step before; depths count from the skin without it, and beyond
    an allowance: the depth in a bone's capsule that the rig itself has, or what is left of an
    obstacle's overlap at the start. With one
    subdivision of its edges (`cuts`) the vertices touch the collider, with more the centres of the
    parts of triangles.
    """
    shapes, patches, order = skin.shapes, skin.patches, skin.order
    out.total[0], out.nearest[0], out.full[0], total = 0, np.inf, False, 0
    bound_patches(patches, skin.x, skin.indentation)
    for collider in range(len(shapes.kinds)):
        first, bone = out.total[0], collider - first_bone
        finely = -1
        if skin.cuts[collider] > 1:
            finely = _find_fine_contacts(skin, collider, total, out)
            total = max(total, finely)
        if finely < 0 and _find_vertices(skin, collider, bone, out):
            for k in range(min(len(order), SELF_CONTACT_POINTS) if bone >= 0 else len(order)):
                if patches.hits[k]:
                    patches.hits[k] = False
                    gap = patches.gaps[k]
                    total = add_vertex_contact(
                        out, total, first, order[k], collider, gap, skin.x, skin.areas
                    )
        if collider < first_bone:
            is_round = collider >= first_object and shapes.kinds[collider] <= CAPSULE
            _find_samples(shapes, samples, collider, len(skin.x), is_round, out)
    gather_members(out, total)


@compiled_fused
def _find_samples(
    shapes: ShapeTables,
    samples: ObjectSamples,
    collider: int,
    n_skin: int,
    is_round: bool,
    out: ContactSet,
) -> None:
    """Find samples of objects inside a collider; `is_round` for a sphere or capsule object."""
    centres, radii, owners = samples.centres, samples.radii, samples.owners
    for s in range(len(radii)):
        if owners[s] == collider or out.total[0] >= MAX_CONTACTS:
            continue
        x, y, z = centres[s, 0], centres[s, 1], centres[s, 2]
        gap, p, q, r = signed_distance(shapes, collider, x, y, z)
        gap -= radii[s]
        # Two round objects would be counted twice, once from each side.
        if gap < 0 and not (is_round and radii[s] > 0 and owners[s] > collider):
            c = _append(out, n_skin + s, collider, gap, p, q, r, 0.0)
            for i in range(3):
                out.corners[c, i], out.barycentric[c, i] = 0, 0.0
            out.positions[c, 0], out.positions[c, 1] = x - radii[s] * p, y - radii[s] * q
            out.positions[c, 2] = z - radii[s] * r


@compiled_fused
def _find_vertices(skin: SearchedSkin, collider: int, bone: int, out: ContactSet) -> bool:
    """Mark vertices inside a collider, write gaps and normals; return whether there are any."""
    some, shapes, patches, indentation = False, skin.shapes, skin.patches, skin.indentation
    cx, cy, cz, reach = _ball(shapes, collider)
    for k in range(patches.all) if bone < 0 else range(patches.all, len(patches.owned)):
        ball = patches.balls[k]
        squared = (ball[0] - cx) ** 2 + (ball[1] - cy) ** 2 + (ball[2] - cz) ** 2
        if bone >= 0 and squared > (math.sqrt(reach) + ball[3]) ** 2:
            continue
        far = patch_gap(shapes, collider, ball)
        if bone < 0:
            out.nearest[0] = min(out.nearest[0], max(far, 0.0))
        if far > 0:
            continue
        for at in range(patches.starts[k], patches.starts[k] + patches.owned[k]):
            v = patches.corners[at]
            if skin.areas[v] <= 0:
                continue  # in no triangle
            x, y, z = skin.x[v, 0], skin.x[v, 1], skin.x[v, 2]
            if (x - cx) ** 2 + (y - cy) ** 2 + (z - cz) ** 2 > reach and indentation[v, 0] == 0:
                continue
            x, y, z = x + indentation[v, 0], y + indentation[v, 1], z + indentation[v, 2]
            if bone >= 0 and not skin.allowed[bone, v]:
                continue
            gap, p, q, r = signed_distance(shapes, collider, x, y, z)
            gap -= p * indentation[v, 0] + q * indentation[v, 1] + r * indentation[v, 2]
            if gap >= 0:
                continue
            allowance = skin.starts[collider]
            if bone >= 0:
                allowance = (1.0 + ROUNDING) * _rig_depth(skin, collider, skin.bones[bone], v)
            gap += allowance
            if gap < 0:
                entry = patches.gaps[patches.ranks[v]]
                entry[0], entry[1], entry[2], entry[3], entry[4] = gap, p, q, r, allowance
                patches.hits[patches.ranks[v]] = some = True
    return some


@compiled_fused
def _rig_depth(skin: SearchedSkin, collider: int, bone: int, v: int) -> float:
    """Return the depth in m of vertex v in a bone's capsule in the rig's own pose; 0 outside."""
    G, t = skin.rig.rotations[bone], skin.rig.translations[bone]
    R, s = skin.shapes.rotations[collider], skin.shapes.translations[collider]
    x, y, z = posed_point(skin.rig, v)
    x, y, z = x - t[0], y - t[1], z - t[2]
    p = G[0, 0] * x + G[1, 0] * y + G[2, 0] * z
    q = G[0, 1] * x + G[1, 1] * y + G[2, 1] * z
    r = G[0, 2] * x + G[1, 2] * y + G[2, 2] * z
    # Capsules are placed by their bones: at the same place relative to the bone as it is now.
    x = R[0, 0] * p + R[0, 1] * q + R[0, 2] * r + s[0]
    y = R[1, 0] * p + R[1, 1] * q + R[1, 2] * r + s[1]
    z = R[2, 0] * p + R[2, 1] * q + R[2, 2] * r + s[2]
    return max(-signed_distance(skin.shapes, collider, x, y, z)[0], 0.0)


@compiled_fused
def _find_fine_contacts(skin: SearchedSkin, collider: int, total: int, out: ContactSet) -> int:
    """Find parts of triangles whose centres are inside a small collider.

    Return `total` plus the number of gathered vertices. If there are too many parts, discard the
    contacts and return −1.
    """
    patches, first = skin.patches, out.total[0]
    for patch in range(patches.all):
        far = patch_gap(skin.shapes, collider, patches.balls[patch])
        out.nearest[0] = min(out.nearest[0], max(far, 0.0))
        if far > 0:
            continue
        for at in range(patches.triangle_starts[patch], patches.triangle_starts[patch + 1]):
            total = _find_triangle_parts(skin, patches.triangles[at], collider, total, first, out)
            if total < 0:
                return -1
    return total


@compiled_fused
def _find_triangle_parts(
    skin: SearchedSkin, t: int, collider: int, total: int, first: int, out: ContactSet
) -> int:
    """Find parts of triangle t whose centres are inside; see `_find_fine_contacts`."""
    (a, b, c), cut = skin.triangles[t], skin.cuts[collider]
    corners, indentation = skin.x, skin.indentation
    area = _area(corners, a, b, c) / cut**2
    for k in range(cut**2):
        u, v = middle_of_part(k, cut)
        w = 1 - u - v
        x = u * corners[a, 0] + v * corners[b, 0] + w * corners[c, 0]
        y = u * corners[a, 1] + v * corners[b, 1] + w * corners[c, 1]
        z = u * corners[a, 2] + v * corners[b, 2] + w * corners[c, 2]
        i = u * indentation[a, 0] + v * indentation[b, 0] + w * indentation[c, 0]
        j = u * indentation[a, 1] + v * indentation[b, 1] + w * indentation[c, 1]
        m = u * indentation[a, 2] + v * indentation[b, 2] + w * indentation[c, 2]
        gap, p, q, r = signed_distance(skin.shapes, collider, x + i, y + j, z + m)
        gap -= p * i + q * j + r * m
        gap += skin.starts[collider]
        if gap >= 0 or area == 0 or total + 3 > len(out.loads):
            continue
        if out.total[0] >= MAX_CONTACTS or out.total[0] - first >= MAX_FINE_CONTACTS:
            out.total[0] = first
            return -1
        point, allowance = skin.first_part + FINEST**2 * t + k, skin.starts[collider]
        place = _append(out, point, collider, gap, p, q, r, allowance)
        out.positions[place, 0], out.positions[place, 1], out.positions[place, 2] = x, y, z
        out.corners[place, 0], out.corners[place, 1], out.corners[place, 2] = a, b, c
        out.barycentric[place, 0], out.barycentric[place, 1], out.barycentric[place, 2] = u, v, w
        out.areas[place] = area * _depth_weight(gap)
        for corner in range(3):
            out.touching[0, total], out.touching[1, total] = out.corners[place, corner], place
            out.loads[total] = out.areas[place] * out.barycentric[place, corner]
            total += 1
    return total


@compiled_fused
def middle_of_part(k: int, cut: int) -> tuple[float, float]:
    """Return two barycentric coordinates of the centre of part k of cut² parts of a triangle."""
    row = int(math.sqrt(k + 0.5))
    column = k - row * row
    # Rows of 1, 3, 5 … parts; every second part is upside down.
    u = 1 - (row + (2 / 3 if column % 2 == 0 else 1 / 3)) / cut
    v = (column // 2 + (1 / 3 if column % 2 == 0 else 2 / 3)) / cut
    return u, v


@compiled_fused
def _area(skin: Floats, a: int, b: int, c: int) -> float:
    p, q, r = skin[b, 0] - skin[a, 0], skin[b, 1] - skin[a, 1], skin[b, 2] - skin[a, 2]
    u, v, w = skin[c, 0] - skin[a, 0], skin[c, 1] - skin[a, 1], skin[c, 2] - skin[a, 2]
    return 0.5 * math.sqrt((q * w - r * v) ** 2 + (r * u - p * w) ** 2 + (p * v - q * u) ** 2)


@compiled_fused
def _ball(shapes: ShapeTables, collider: int) -> tuple[float, float, float, float]:
    """Return the centre of a collider's bounding ball in the world, and its radius squared."""
    R, t, ball = shapes.rotations[collider], shapes.translations[collider], shapes.bounds[collider]
    x = R[0, 0] * ball[0] + R[0, 1] * ball[1] + R[0, 2] * ball[2] + t[0]
    y = R[1, 0] * ball[0] + R[1, 1] * ball[1] + R[1, 2] * ball[2] + t[1]
    z = R[2, 0] * ball[0] + R[2, 1] * ball[1] + R[2, 2] * ball[2] + t[2]
    return x, y, z, ball[3] ** 2


@compiled_fused
def add_vertex_contact(
    out: ContactSet,
    total: int,
    first: int,
    v: int,
    collider: int,
    gap: Floats,
    skin: Floats,
    areas: Floats,
) -> int:
    """Add a vertex as a contact, or to the nearest of many contacts; return the new `total`.

    `gap` (5,) is as in `SkinPatches.gaps`.
    """
    if total + 3 >= len(out.loads):
        out.full[0] = True
        return total
    if out.total[0] - first < MAX_PER_COLLIDER and out.total[0] < MAX_CONTACTS:
        owner = _append(out, v, collider, gap[0], gap[1], gap[2], gap[3], gap[4])
        for i in range(3):
            out.positions[owner, i] = skin[v, i]
            out.corners[owner, i], out.barycentric[owner, i] = v, 1.0 if i == 0 else 0.0
    else:
        out.full[0] |= out.total[0] >= MAX_CONTACTS
        owner, best = -1, np.inf
        for c in range(first, out.total[0]):
            squared = 0.0
            for i in range(3):
                squared += (out.positions[c, i] - skin[v, i]) ** 2
            if squared < best and out.points[c] < len(skin):
                best, owner = squared, c
        if owner < 0:
            return total
    area = areas[v] * _depth_weight(gap[0])
    out.touching[0, total], out.touching[1, total], out.loads[total] = v, owner, area
    out.areas[owner] += area
    return total + 1


@compiled_fused
def _depth_weight(gap: float) -> float:
    """Return the fraction of a point's area that counts.

    The weight ramps up with depth, so that forces stay continuous. Without the ramp, the force on a
    standing person varied by 10 % of the weight as points came and went.
    """
    return min(max(-gap / FULL_DEPTH, 1e-3), 1.0)


@compiled_fused
def _append(
    out: ContactSet,
    point: int,
    collider: int,
    gap: float,
    p: float,
    q: float,
    r: float,
    allowance: float,
) -> int:
    c = out.total[0]
    out.allowances[c] = allowance
    out.areas[c] = 0.0
    out.points[c], out.colliders[c], out.depths[c] = point, collider, -gap
    out.normals[c, 0], out.normals[c, 1], out.normals[c, 2] = p, q, r
    out.total[0] = c + 1
    return c


@compiled_fused
def gather_members(out: ContactSet, total: int) -> None:
    """Sort the `total` gathered vertices by contact; write their fractions of its force."""
    count = out.total[0]
    for c in range(count + 1):
        out.starts[c] = 0
    for k in range(total):
        out.starts[out.touching[1, k] + 1] += 1
    for c in range(count):
        out.starts[c + 1] += out.starts[c]
    for k in range(total):
        c = out.touching[1, k]
        out.members[out.starts[c]] = out.touching[0, k]
        out.fractions[out.starts[c]] = out.loads[k] / max(out.areas[c], 1e-30)
        out.starts[c] += 1
    for c in range(count, 0, -1):
        out.starts[c] = out.starts[c - 1]
    out.starts[0] = 0


@compiled_fused
def push_out(
    shapes: ShapeTables, contacts: ContactSet, starts: Floats, first_bone: int, skin: Singles
) -> None:
    """Project vertices (n̄, 3) out of the obstacles and objects that are in contact.

    They may stay as deep as overlaps at the start are, `starts` (colliders,) in m.
    """
    for collider in range(first_bone):
        touched = False
        for c in range(contacts.total[0]):
            touched |= contacts.colliders[c] == collider
        if not touched:
            continue
        cx, cy, cz, reach = _ball(shapes, collider)
        for v in range(len(skin)):
            x, y, z = float(skin[v, 0]), float(skin[v, 1]), float(skin[v, 2])
            if (x - cx) ** 2 + (y - cy) ** 2 + (z - cz) ** 2 <= reach:
                gap, p, q, r = signed_distance(shapes, collider, x, y, z)
                gap += starts[collider]
                if gap < 0:
                    skin[v, 0], skin[v, 1] = x - gap * p, y - gap * q
                    skin[v, 2] = z - gap * r


def add_distance_contacts(
    contacts: ContactSet, skin: SearchedSkin, collider: int, gaps: Floats, normals: Floats
) -> None:
    """Add contacts with a collider at vertices of negative `gaps` (n̄,), with normals (n̄, 3).

    The gaps include what is left of the overlap at the start.
    """
    first = int(contacts.total[0])
    total = int(contacts.starts[first])
    # Vertices that are gathered already stay with their contacts.
    contacts.touching[0, :total] = contacts.members[:total]
    lengths = np.diff(contacts.starts[: first + 1])
    contacts.touching[1, :total] = np.repeat(np.arange(first), lengths)
    contacts.loads[:total] = contacts.fractions[:total] * np.repeat(contacts.areas[:first], lengths)
    allowances = np.full(len(gaps), skin.starts[collider])
    entries = np.column_stack([gaps, normals, allowances])
    for v in skin.order[((gaps < 0) & (skin.areas > 0))[skin.order]]:
        total = add_vertex_contact(
            contacts, total, first, v, collider, entries[v], skin.x, skin.areas
        )
    gather_members(contacts, total)
