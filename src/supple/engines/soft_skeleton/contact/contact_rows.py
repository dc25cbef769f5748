"""Contacts in coordinates: Jacobians of relative motion, and friction springs along tangents.

Friction is static: springs from anchors, with forces bounded by Coulomb's law.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from supple.arrays import Floats, Ints
from supple.compiled.jit import compiled, compiled_fused
from supple.engines.soft_skeleton.bones.body_points import PosedPoints, write_columns
from supple.engines.soft_skeleton.contact.tables import (
    Colliders,
    ContactSet,
    ContactSystem,
    ObjectSamples,
)


@compiled
def write_contact_rows(
    contacts: ContactSet, colliders: Colliders, body: PosedPoints, parents: Ints, out: ContactSystem
) -> None:
    """Write the Jacobian of each contact's motion relative to its collider, and its tangents.

    A contact has three rows, along its normal and two tangents: the motion of the point minus that
    of the collider at the same place, so that forces are equal and opposite. The columns are the
    coordinates that move one of the two, ascending.
    """
    count, n_skin = contacts.total[0], len(body.tables.rest)
    size = out.rows.shape[1]
    columns, index, spans = np.empty((3, size)), np.empty(size, np.int64), np.empty((64, 3))
    slots = np.full(size, -1)
    for c in range(count):
        row = Row(out.rows[3 * c : 3 * c + 3], out.indices[c], out.counts[c : c + 1], slots)
        row.used[0] = 0
        point, collider = contacts.points[c], contacts.colliders[c]
        if contacts.areas[c] > 0:
            for corner in range(3):
                weight, v = contacts.barycentric[c, corner], contacts.corners[c, corner]
                if weight == 0.0:
                    continue
                n_columns = write_columns(body, v, columns, index, spans)
                for a in range(n_columns):
                    at = _slot(row, index[a])
                    for i in range(3):
                        row.motion[i, at] += weight * columns[i, a]
        else:
            sampled = colliders.objects[colliders.owners[point - n_skin]]
            if sampled >= 0:
                _add_object(colliders, size, sampled, contacts.positions[c], 1.0, row)
        free, bone = colliders.objects[collider], colliders.bones[collider]
        if free >= 0:
            _add_object(colliders, size, free, contacts.positions[c], -1.0, row)
        elif bone >= 0:
            _add_bone(parents, body.joints, bone, contacts.positions[c], -1.0, row)
        for a in range(row.used[0]):
            slots[row.columns[a]] = -1
        _sort(row)
        _to_contact_frame(contacts.normals[c], out.tangents[c], row.motion[:, : row.used[0]])


class Row(NamedTuple):
    """Jacobian (3, …) of one contact's motion, with the columns added so far."""

    motion: Floats
    columns: Ints  # columns of the system in the row
    used: Ints  # (1,) number of columns
    slots: Ints  # (N,) index of each column of the system in the row, or −1


@compiled_fused
def _slot(row: Row, column: int) -> int:
    """Return the index of a column in the row; append zeros for a new column."""
    at = row.slots[column]
    if at < 0:
        at = row.used[0]
        row.slots[column], row.columns[at] = at, column
        row.motion[0, at] = row.motion[1, at] = row.motion[2, at] = 0.0
        row.used[0] = at + 1
    return at


@compiled_fused
def _sort(row: Row) -> None:
    """Sort the columns by insertion; most ascend already."""
    motion, index = row.motion, row.columns
    for k in range(1, row.used[0]):
        at, column = k, index[k]
        x, y, z = motion[0, k], motion[1, k], motion[2, k]
        while at > 0 and index[at - 1] > column:
            index[at] = index[at - 1]
            for i in range(3):
                motion[i, at] = motion[i, at - 1]
            at -= 1
        index[at], motion[0, at], motion[1, at], motion[2, at] = column, x, y, z


@compiled_fused
def _add_object(
    colliders: Colliders, size: int, o: int, place: Floats, sign: float, row: Row
) -> None:
    """Add the motion of a point of free object `o`, translation and ω × r, times `sign`."""
    at = size - 6 * (len(colliders.centres) - o)
    for i in range(3):
        row.motion[i, _slot(row, at + i)] += sign
    _add_rotation(at + 3, place, colliders.centres[o], sign, row)


@compiled_fused
def _add_bone(
    parents: Ints, positions: Floats, bone: int, place: Floats, sign: float, row: Row
) -> None:
    """Add the motion of the point `place` (3,) fixed to a bone, times `sign`."""
    for i in range(3):
        row.motion[i, _slot(row, i)] += sign
    j = bone
    while j >= 0:
        _add_rotation(3 + 3 * j, place, positions[j], sign, row)
        j = parents[j]


@compiled_fused
def _add_rotation(at: int, place: Floats, centre: Floats, sign: float, row: Row) -> None:
    """Add the columns −[r]× of ω × r, with r from a centre to a place, times the sign."""
    x, y = sign * (place[0] - centre[0]), sign * (place[1] - centre[1])
    z = sign * (place[2] - centre[2])
    first, second, third = _slot(row, at), _slot(row, at + 1), _slot(row, at + 2)
    motion = row.motion
    motion[0, second] += z
    motion[0, third] -= y
    motion[1, first] -= z
    motion[1, third] += x
    motion[2, first] += y
    motion[2, second] -= x


@compiled_fused
def _to_contact_frame(n: Floats, tangents: Floats, motion: Floats) -> None:
    """Replace rows x, y, z by rows along the normal n and two tangents, which are written."""
    if abs(n[0]) < 0.6:
        u, v, w = 0.0, n[2], -n[1]
    else:
        u, v, w = -n[2], 0.0, n[0]
    length = 1.0 / math.sqrt(u * u + v * v + w * w)
    u, v, w = u * length, v * length, w * length
    p, q, r = n[1] * w - n[2] * v, n[2] * u - n[0] * w, n[0] * v - n[1] * u
    tangents[0, 0], tangents[0, 1], tangents[0, 2] = u, v, w
    tangents[1, 0], tangents[1, 1], tangents[1, 2] = p, q, r
    n0, n1, n2 = n[0], n[1], n[2]
    first, second, third = motion[0], motion[1], motion[2]
    for k in range(motion.shape[1]):
        x, y, z = first[k], second[k], third[k]
        first[k] = n0 * x + n1 * y + n2 * z
        second[k] = u * x + v * y + w * z
        third[k] = p * x + q * y + r * z


@compiled_fused
def write_friction_springs(
    contacts: ContactSet, colliders: Colliders, friction: float, system: ContactSystem
) -> None:
    """Write stiffness and elongation of friction springs, with forces ≤ μ × last normal force."""
    for c in range(contacts.total[0]):
        point, collider = contacts.points[c], contacts.colliders[c]
        system.weights[c] = 0.0
        if friction <= 0:
            continue
        rotation, translation = colliders.rotations[collider], colliders.translations[collider]
        if system.anchor_colliders[point] != collider:
            continue
        x = y = 0.0
        for i in range(3):
            anchor = translation[i]
            for k in range(3):
                anchor += rotation[i, k] * system.anchors[point, k]
            offset = contacts.positions[c, i] - anchor
            x += offset * system.tangents[c, 0, i]
            y += offset * system.tangents[c, 1, i]
        system.offsets[c, 0], system.offsets[c, 1] = x, y
        stiff = system.stiffness[c]
        limit, far = friction * system.normal_forces[point], math.sqrt(x * x + y * y)
        system.weights[c] = stiff if stiff * far <= limit else limit / far


@compiled
def update_anchors(
    contacts: ContactSet,
    colliders: Colliders,
    skin: Floats,
    samples: ObjectSamples,
    friction: float,
    system: ContactSystem,
) -> None:
    """Store the normal forces of points, and their friction anchors on the colliders.

    A sliding point drags its anchor behind, at the distance where the spring's force is μ times
    the normal force. Colliders, skin (n̄, 3) and samples are in the world, at the end of the step.
    """
    n_skin, place, anchor = len(skin), np.empty(3), np.empty(3)
    # Points that lost contact lose their anchors.
    for k in range(system.anchored[0]):
        system.in_contact[system.anchored[1 + k]] = False
    for c in range(contacts.total[0]):
        system.in_contact[contacts.points[c]] = True
    for k in range(system.anchored[0]):
        point = system.anchored[1 + k]
        if not system.in_contact[point]:
            system.anchor_colliders[point] = -1
    system.anchored[0] = contacts.total[0]
    for c in range(contacts.total[0]):
        point, collider = contacts.points[c], contacts.colliders[c]
        force = max(system.forces[c], 0.0)
        system.anchored[1 + c] = point
        rotation, translation = colliders.rotations[collider], colliders.translations[collider]
        for i in range(3):
            if contacts.areas[c] > 0:
                place[i] = 0.0
                for corner in range(3):
                    v = contacts.corners[c, corner]
                    place[i] += contacts.barycentric[c, corner] * skin[v, i]
            else:
                s = point - n_skin
                place[i] = samples.centres[s, i] - samples.radii[s] * contacts.normals[c, i]
        if system.anchor_colliders[point] == collider and system.weights[c] > 0:
            far = slip = 0.0
            for i in range(3):
                anchor[i] = translation[i]
                for k in range(3):
                    anchor[i] += rotation[i, k] * system.anchors[point, k]
            for side in range(2):
                offset = 0.0
                for i in range(3):
                    offset += (place[i] - anchor[i]) * system.tangents[c, side, i]
                far += offset * offset
            far = math.sqrt(far)
            reach = friction * force / system.stiffness[c]
            slip = 1.0 - reach / far if far > reach else 0.0
            for i in range(3):
                place[i] = anchor[i] + slip * (place[i] - anchor[i])
        for i in range(3):
            system.anchors[point, i] = 0.0
            for k in range(3):
                system.anchors[point, i] += rotation[k, i] * (place[k] - translation[k])
        system.anchor_colliders[point], system.normal_forces[point] = collider, force
