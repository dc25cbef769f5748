"""Contacts of free objects with other colliders by samples of their surfaces, and their system."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from supple.arrays import Floats, Ints
from supple.compiled.jit import compiled
from supple.compiled.tables import ArgumentTable, table_contents
from supple.dynamics.friction import friction_weight
from supple.engines.common.contact.colliders import table_distance
from supple.linalg.upper_triangle import cholesky, solve
from supple.mesh.obstacles import CAPSULE

#: Seconds in which the depth of a contact decreases.
SETTLING = 0.008
#: Largest decrease of the depth of a contact between objects, in m/s.
OUTWARDS = 1.0
#: Largest number of contacts between objects and colliders; further ones are dropped.
MOST_CONTACTS = 1024
#: Largest number of passes in which contacts that pull are released.
MOST_RELEASES = 8


class SampleContacts(NamedTuple):
    """Contacts between samples of free objects and colliders."""

    total: Ints
    """(1,)"""
    samples: Ints
    colliders: Ints
    rows: Floats
    """(k, 3, 12) motion along normal and tangents by six coordinates of each of the two objects."""
    pushes: Floats
    """(k, 3) depth beyond the target, and minus the slip along the tangents, in m."""
    stiffness: Floats
    """(k, 2) of the spring, and of friction, in N/m."""
    active: Ints
    """(k,) 0 for a contact that would pull."""


def empty_sample_contacts(k: int) -> SampleContacts:
    """Return room for k contacts."""
    return SampleContacts(
        np.zeros(1, np.int64),
        np.zeros(k, np.int64),
        np.zeros(k, np.int64),
        np.zeros((k, 3, 12)),
        np.zeros((k, 3)),
        np.zeros((k, 2)),
        np.zeros(k, np.int64),
    )


@compiled
def find_samples(
    shapes: ArgumentTable,
    centres: Floats,
    radii: Floats,
    owners: Ints,
    hardness: Floats,
    loads: Floats,
    free: Ints,
    middles: Floats,
    guess: Floats,
    motions: Floats,
    friction: float,
    h: float,
    out: SampleContacts,
) -> None:
    """Find samples of free objects inside other colliders, and write rows, targets and friction."""
    out.total[0] = 0
    a, b, axes, r = np.empty(3), np.empty(3), np.empty((3, 3)), np.empty(3)
    kinds = table_contents(shapes).kinds
    place, motion = np.empty(3), np.empty(6)
    for s in range(len(radii)):
        for o in range(len(free)):
            if free[o] == owners[s] or out.total[0] >= len(out.samples):
                continue
            gap, p, q, w = table_distance(shapes, o, centres[s, 0], centres[s, 1], centres[s, 2])
            depth = radii[s] - gap
            # Two round objects would be counted twice, once from each side.
            if free[o] >= 0 and radii[s] > 0 and kinds[o] <= CAPSULE and owners[s] > free[o]:
                continue
            axes[0, 0], axes[0, 1], axes[0, 2] = p, q, w
            for i in range(3):
                place[i] = centres[s, i] - radii[s] * axes[0, i]
            # Displacements of the point in this step, at the velocities of both bodies.
            at = 6 * owners[s]
            _point_motion(guess[at : at + 6], middles[owners[s]], place, a)
            b[:] = 0.0
            if free[o] >= 0:
                at = 6 * free[o]
                _point_motion(guess[at : at + 6], middles[free[o]], place, b)
            else:
                for i in range(6):
                    motion[i] = h * motions[o, i]
                _point_motion(motion, motions[o, 6:9], place, b)
            was = depth
            for i in range(3):
                was += axes[0, i] * (a[i] - b[i])
            target = max(was * SETTLING / (h + SETTLING), was - OUTWARDS * h, 0.0)
            if max(depth, was) <= target or max(depth, was) <= 0.0:
                loads[s, o] = 0.0
                continue
            c = out.total[0]
            out.total[0] = c + 1
            _tangents(axes)
            out.samples[c], out.colliders[c], out.active[c] = s, o, 1
            out.pushes[c, 0], speed = depth - target, 0.0
            for t in range(1, 3):
                slip = 0.0
                for i in range(3):
                    slip += axes[t, i] * (a[i] - b[i])
                out.pushes[c, t] = -slip
                speed += slip * slip
            stiff = hardness[owners[s]]
            if free[o] >= 0:
                stiff = min(stiff, hardness[free[o]])
            out.stiffness[c, 0] = stiff * (1.0 + SETTLING / h)
            out.stiffness[c, 1] = friction_weight(friction, loads[s, o], math.sqrt(speed) / h) / h
            for t in range(3):
                row = out.rows[c, t]
                row[:] = 0.0
                for side in range(2):
                    k = owners[s] if side == 0 else free[o]
                    if k < 0:
                        continue
                    sign = 1.0 - 2.0 * side
                    for i in range(3):
                        r[i] = place[i] - middles[k, i]
                        row[6 * side + i] = sign * axes[t, i]
                    for i in range(3):
                        j, l = (i + 1) % 3, (i + 2) % 3
                        row[6 * side + 3 + i] = sign * (r[j] * axes[t, l] - r[l] * axes[t, j])


@compiled
def _point_motion(change: Floats, centre: Floats, place: Floats, out: Floats) -> None:
    """Write the displacement of a point of a body that translates and rotates by `change` (6,)."""
    x, y, z = place[0] - centre[0], place[1] - centre[1], place[2] - centre[2]
    out[0] = change[0] + change[4] * z - change[5] * y
    out[1] = change[1] + change[5] * x - change[3] * z
    out[2] = change[2] + change[3] * y - change[4] * x


@compiled
def _tangents(axes: Floats) -> None:
    """Write two unit vectors at right angles to the first row of `axes` (3, 3) and each other."""
    n = axes[0]
    if abs(n[0]) < 0.6:
        u, v, w = 0.0, n[2], -n[1]
    else:
        u, v, w = -n[2], 0.0, n[0]
    length = 1.0 / math.sqrt(u * u + v * v + w * w)
    axes[1, 0], axes[1, 1], axes[1, 2] = u * length, v * length, w * length
    for i in range(3):
        j, l = (i + 1) % 3, (i + 2) % 3
        axes[2, i] = n[j] * axes[1, l] - n[l] * axes[1, j]


@compiled
def _along(contacts: SampleContacts, c: int, t: int, first: int, second: int, y: Floats) -> float:
    """Return the displacement of contact c along its axis t for a change y (6 O,)."""
    total = 0.0
    for i in range(6):
        total += contacts.rows[c, t, i] * y[first + i]
        if second >= 0:
            total += contacts.rows[c, t, 6 + i] * y[second + i]
    return total


@compiled
def solve_objects(
    gradient: Floats,
    inertia: Floats,
    contacts: SampleContacts,
    free: Ints,
    owners: Ints,
    matrix: Floats,
    force: Floats,
    factor: Floats,
    change: Floats,
) -> None:
    """Write the change (6 O,) by inertia, contacts between objects, and a linear force.

    Contacts that would pull are released. `matrix` and `force` are those of the skin; the Cholesky
    factor of the system stays in `factor`.
    """
    size = len(gradient)
    for c in range(contacts.total[0]):
        contacts.active[c] = 1
    for _ in range(MOST_RELEASES):
        for i in range(size):
            change[i] = force[i] - gradient[i]
            for j in range(i, size):
                factor[i, j] = inertia[i, j] + matrix[i, j]
        for i in range(size, len(factor)):
            factor[i, i] = 1.0
        for c in range(contacts.total[0]):
            if contacts.active[c] == 0:
                continue
            first, second = 6 * owners[contacts.samples[c]], 6 * free[contacts.colliders[c]]
            for t in range(3):
                stiff = contacts.stiffness[c, min(t, 1)]
                if stiff > 0:
                    push, row = contacts.pushes[c, t], contacts.rows[c, t]
                    _add_row(row, stiff, push, first, second, factor, change)
        cholesky(factor)
        solve(factor, change)
        released = 0
        for c in range(contacts.total[0]):
            first, second = 6 * owners[contacts.samples[c]], 6 * free[contacts.colliders[c]]
            moved = _along(contacts, c, 0, first, second, change)
            if contacts.active[c] == 1 and contacts.pushes[c, 0] < moved:
                contacts.active[c] = 0
                released += 1
        if released == 0:
            return


@compiled
def _add_row(
    row: Floats, stiff: float, push: float, first: int, second: int, factor: Floats, force: Floats
) -> None:
    """Add s g gᵀ to the upper triangle of a matrix and s push g to a force."""
    for a in range(12):
        i = first + a if a < 6 else second + a - 6
        if (a >= 6 and second < 0) or row[a] == 0.0:
            continue
        force[i] += stiff * push * row[a]
        for b in range(12):
            j = first + b if b < 6 else second + b - 6
            if j >= i and not (b >= 6 and second < 0):
                factor[i, j] += stiff * row[a] * row[b]


@compiled
def write_loads(
    contacts: SampleContacts, free: Ints, owners: Ints, change: Floats, loads: Floats
) -> None:
    """Write the normal forces of the contacts in N."""
    for c in range(contacts.total[0]):
        first, second = 6 * owners[contacts.samples[c]], 6 * free[contacts.colliders[c]]
        left = contacts.pushes[c, 0] - _along(contacts, c, 0, first, second, change)
        force = contacts.active[c] * contacts.stiffness[c, 0] * left
        loads[contacts.samples[c], contacts.colliders[c]] = max(force, 0.0)
