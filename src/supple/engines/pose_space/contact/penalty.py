"""Penalty forces that push skin out of obstacles, in reduced coordinates.

The depth of a skin vertex x = Φ̄ + Σ share R Ũ z in an obstacle of normal n has one row of
derivatives, c = Σ share (Rᵀn)ᵀ Ũ. Its force is s (depth − target) along n. So contacts add
Σ s (depth − target) c to the reduced force and Σ s c cᵀ to the stiffness, the derivatives of their
energy ½ Σ s (depth − target)². Friction adds two tangential rows per contact: a damper by
`supple.dynamics.friction` with the normal force of the last step.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from supple.arrays import Floats, Ints, Singles
from supple.compiled.jit import compiled
from supple.dynamics.friction import friction_weight
from supple.engines.common.contact.colliders import into_root_axes
from supple.engines.common.contact.free_objects import ObjectCoupling, add_line
from supple.engines.pose_space.contact.contact_tables import (
    MOST_PRODUCTS,
    ContactScratch,
    ContactTables,
)
from supple.linalg.blas import NO, YES, gemm
from supple.linalg.upper_triangle import symmetric_times

NEGLIGIBLE = 1e-7


class PenaltySettings(NamedTuple):
    """Settings of the penalty forces."""

    stiffness: float
    """Contact stiffness in Pa/m."""
    remaining: float
    """Target depth of a step, as a fraction of the last depth."""
    outwards: float
    """Largest decrease of the target depth in a step, in m."""
    inwards: float
    """Largest increase of the depth in a step, in m; a deeper vertex counts as initially inside."""


class FrictionInputs(NamedTuple):
    """Inputs of friction; `loads` and `places` are from the previous step."""

    coefficient: float
    dt: float
    root: Floats
    """(4, 4) root of the character at the end of the step."""
    motions: Floats
    """(o, 9) `ColliderShapes.motions`."""
    loads: Singles
    places: Floats
    """(o, n̄) normal forces in N and (n̄, 3) positions, of `ContactResult`."""


@compiled
def add_contacts(
    tables: ContactTables,
    count: int,
    weights: Floats,
    frames: Singles,
    before: Singles,
    valid: bool,
    settings: PenaltySettings,
    friction: FrictionInputs,
    coupling: ObjectCoupling,
    blas: Ints,
    scratch: ContactScratch,
    stiffness: Floats,
    force: Floats,
) -> int:
    """Write the stiffness of contacts, upper triangle; return the number of active contacts.

    A contact of stiffness s in N/m, with the row c of derivatives of its depth, adds s c cᵀ to
    `stiffness`. Its force at the detected place is added to `force`, and terms of free objects to
    `coupling`. `count` contacts were detected.
    `before` (o, n̄) are depths at the end of the last step, if `valid`.
    """
    stiffness[:] = 0
    if count == 0:
        return 0
    _touched_rows(tables, count, weights, scratch)
    pressing = _targets(count, before, valid, settings, scratch)
    if pressing == 0:
        return 0
    if friction[0] > 0:
        _write_grips(tables, count, valid, settings.stiffness, friction, coupling.hardness, scratch)
    begin = 0
    while begin < count:
        group, end = scratch.group[begin], begin
        while end < count and scratch.group[end] == group:
            end += 1
        lines = friction.root, coupling, blas
        _add_group(
            tables, group, begin, end, settings.stiffness, frames, lines, scratch, stiffness, force
        )
        begin = end
    return pressing


@compiled
def to_origin(stiffness: Floats, z: Floats, force: Floats) -> None:
    """Move a linear force from the detected coordinates z to the origin."""
    symmetric_times(stiffness, z, force)


@compiled
def _targets(count, before, valid, settings, scratch):  # type: ignore[no-untyped-def]
    """Write target depths of contacts at the end of a step; return how many contacts are deeper."""
    _, remaining, slowest, fastest = settings
    pressing = 0
    for k in range(count):
        # A contact is released only if rig or obstacle move it out, not by the flesh's velocity,
        # which may change.
        depth = max(scratch.depth[k], scratch.still[k])
        was = before[scratch.obstacle[k], scratch.vertex[k]] if valid else depth
        was = max(was, depth - fastest)
        target = max(remaining * was, was - slowest)
        scratch.target[k] = -1.0
        if depth > target and not scratch.released[k]:
            scratch.target[k] = target
            pressing += 1
    return pressing


@compiled
def _write_grips(tables, count, valid, stiffness, friction, hardness, scratch):  # type: ignore[no-untyped-def]
    """Write tangential displacements of contacts to `scratch.slip`, and `scratch.grip` in N/m."""
    mu, h, root, motions, loads, places = friction
    for k in range(count):
        o, v = scratch.obstacle[k], scratch.vertex[k]
        scratch.grip[k] = 0.0
        if not valid or loads[o, v] <= 0 or scratch.target[k] < 0:
            continue
        x, y, z = places[v, 0] - root[0, 3], places[v, 1] - root[1, 3], places[v, 2] - root[2, 3]
        x, y, z = into_root_axes(root, x, y, z)
        # The last contact point moves with the obstacle.
        m = motions[o]
        a, b, c = x - m[6], y - m[7], z - m[8]
        x += h * (m[0] + m[4] * c - m[5] * b)
        y += h * (m[1] + m[5] * a - m[3] * c)
        z += h * (m[2] + m[3] * b - m[4] * a)
        x, y, z = scratch.place[k, 0] - x, scratch.place[k, 1] - y, scratch.place[k, 2] - z
        p, q, r = scratch.normal[k, 0], scratch.normal[k, 1], scratch.normal[k, 2]
        along = x * p + y * q + z * r
        x, y, z = x - along * p, y - along * q, z - along * r
        # The normal force is at most that at the end of the step.
        push = min(stiffness * tables.areas[v], hardness[o])
        push *= scratch.depth[k] - scratch.target[k]
        speed = math.sqrt(x * x + y * y + z * z) / h
        scratch.grip[k] = friction_weight(mu, min(loads[o, v], push), speed) / h
        scratch.slip[k, 0], scratch.slip[k, 1], scratch.slip[k, 2] = x, y, z


@compiled
def _touched_rows(tables, count, weights, scratch):  # type: ignore[no-untyped-def]
    """List the tet vertices that carry contacts in `scratch.touched`; blend their basis rows."""
    m, r = scratch.factors.shape
    for pose in range(m):
        for j in range(r):
            scratch.factors[pose, j] = weights[pose] * tables.steps[pose, j]
    slots, touched = scratch.slots, scratch.touched
    slots[:] = -1
    used = 0
    for k in range(count):
        for corner in range(4):
            carrier = tables.carriers[scratch.vertex[k], corner]
            if slots[carrier] < 0:
                slots[carrier] = used
                touched[used] = carrier
                used += 1
    scratch.used[0] = used
    for region in range(len(tables.sizes)):
        first, last = tables.column[region], tables.column[region + 1]
        width, size, places = last - first, tables.sizes[region], tables.places[region]
        basis = tables.basis[tables.start[region] : tables.start[region + 1]]
        for slot in range(used):
            place = places[touched[slot]]
            if place < 0:
                continue
            for axis in range(3):
                at = (3 * slot + axis) * r
                out = scratch.rows[at + first : at + last]
                out[:] = 0
                for pose in range(m):
                    if abs(weights[pose]) < NEGLIGIBLE:
                        continue
                    at = (3 * (pose * size + place) + axis) * width
                    _add_scaled(scratch.factors[pose, first:last], basis[at : at + width], out)


@compiled
def _add_scaled(factors, row, out):  # type: ignore[no-untyped-def]
    for j in range(len(out)):
        out[j] += factors[j] * np.float32(row[j])


@compiled
def _add_group(tables, group, begin, end, hardness, frames, system, scratch, stiffness, force):  # type: ignore[no-untyped-def]
    """Add stiffness and force of the contacts `begin` to `end`, which are of one group."""
    root, coupling, blas = system
    width, columns = tables.width[group], tables.columns[group]
    product = scratch.product
    product[: width * width] = 0
    most = max(1, MOST_PRODUCTS // (width * width))
    filled = 0
    for k in range(begin, end):
        if scratch.target[k] < 0:
            continue
        x, y, z = scratch.normal[k, 0], scratch.normal[k, 1], scratch.normal[k, 2]
        o = scratch.obstacle[k]
        scale = math.sqrt(min(hardness * tables.areas[scratch.vertex[k]], coupling.hardness[o]))
        push = scale * (scratch.depth[k] - scratch.target[k])
        line = _add_line(tables, group, k, (x, y, z), scale, push, frames, filled, scratch, force)
        free = coupling.free[o]
        if free >= 0:
            add_line(
                coupling, free, root, scratch.place[k], (x, y, z), (scale, push), line, columns
            )
        filled += 1
        if filled == most:
            _subtract_products(blas, width, filled, scratch.lines, product)
            filled = 0
        if len(scratch.grip) == 0 or scratch.grip[k] <= 0:
            continue
        scale, slip = math.sqrt(scratch.grip[k]), scratch.slip[k]
        for tangent in _along(x, y, z):
            push = -scale * (slip[0] * tangent[0] + slip[1] * tangent[1] + slip[2] * tangent[2])
            line = _add_line(tables, group, k, tangent, scale, push, frames, filled, scratch, force)
            if free >= 0:
                add_line(
                    coupling, free, root, scratch.place[k], tangent, (scale, push), line, columns
                )
            filled += 1
            if filled == most:
                _subtract_products(blas, width, filled, scratch.lines, product)
                filled = 0
    if filled > 0:
        _subtract_products(blas, width, filled, scratch.lines, product)
    for i in range(width):
        if columns[i] < 0:
            continue
        row = stiffness[columns[i]]
        for j in range(i, width):
            if columns[j] >= 0:
                row[columns[j]] -= product[i * width + j]


@compiled
def _add_line(tables, group, k, direction, scale, push, frames, place, scratch, force):  # type: ignore[no-untyped-def]
    """Write a contact's scaled row along a direction as line `place`, add push · row to `force`,
    and return the line.
    """
    width, columns = tables.width[group], tables.columns[group]
    line = scratch.lines[place * width : (place + 1) * width]
    _write_line(tables, group, k, direction, frames, scratch, line)
    for j in range(width):
        line[j] *= scale
        if columns[j] >= 0:
            force[columns[j]] += push * line[j]
    return line


@compiled
def _along(x, y, z):  # type: ignore[no-untyped-def]
    """Return two unit vectors at right angles to a unit vector and to each other."""
    # The axis with the largest angle to the vector is the most accurate start.
    if abs(x) <= abs(y) and abs(x) <= abs(z):
        p, q, r = np.float32(0), z, -y
    elif abs(y) <= abs(z):
        p, q, r = -z, np.float32(0), x
    else:
        p, q, r = y, -x, np.float32(0)
    length = np.float32(math.sqrt(p * p + q * q + r * r))
    p, q, r = p / length, q / length, r / length
    return (p, q, r), (y * r - z * q, z * p - x * r, x * q - y * p)


@compiled
def _subtract_products(blas, width, count, lines, product):  # type: ignore[no-untyped-def]
    left, out = (lines, 0), (product, 0)
    gemm(blas, NO, YES, width, width, count, left, width, left, width, out, width)


@compiled
def _write_line(tables, group, k, direction, frames, scratch, line):  # type: ignore[no-untyped-def]
    """Write the row c of a contact along a direction, in the columns of its group."""
    r, v = scratch.factors.shape[1], scratch.vertex[k]
    x, y, z = direction
    line[:] = 0
    for corner in range(4):
        carrier, share = tables.carriers[v, corner], tables.shares[v, corner]
        a, b, c = share * x, share * y, share * z
        if carrier < len(frames):
            f = frames[carrier]
            a, b, c = (
                f[0] * a + f[3] * b + f[6] * c,
                f[1] * a + f[4] * b + f[7] * c,
                f[2] * a + f[5] * b + f[8] * c,
            )
        at, slot = 0, scratch.slots[carrier]
        for region in range(len(tables.sizes)):
            if not tables.met[group, region]:
                continue
            first, last = tables.column[region], tables.column[region + 1]
            if tables.places[region, carrier] >= 0:
                rows = scratch.rows[3 * slot * r : 3 * (slot + 1) * r]
                p, q = rows[first:last], rows[r + first : r + last]
                s, out = rows[2 * r + first : 2 * r + last], line[at : at + last - first]
                _add_three(p, q, s, a, b, c, out)
            at += last - first


@compiled
def _add_three(p, q, r, a, b, c, out):  # type: ignore[no-untyped-def]
    for j in range(len(out)):
        out[j] += a * p[j] + b * q[j] + c * r[j]
