"""Forces of contacts: pressure in series with what handles lack, and friction that sticks."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from supple.arrays import Bools, Floats, Ints
from supple.compiled.jit import compiled, compiled_fused
from supple.engines.soft_skeleton.bones.body_points import PointTables, write_columns
from supple.engines.soft_skeleton.contact.touches import MOST, Touches
from supple.mesh.shape_tables import ShapeTables, signed_distance

__all__ = [
    "Pressing",
    "Things",
    "add_contacts",
    "depth_mismatch",
    "empty_pressing",
    "settle_contacts",
    "stick",
    "write_dents",
]

#: Times that points which would be pulled are let go.
MOST_RELEASES = 8
#: Part of its flexibility that is left to flesh which is pressed onto the bone.
HARDEST = 0.05
#: Dents are no deeper than this part of the way to the bone.
MOST_DENT = 0.8


class Things(NamedTuple):
    """Things as the contact's rows need them: thing t is a free object, a bone, or neither."""

    objects: Ints
    """(things,) which free object it is, or −1."""
    bones: Ints
    """(things,) which bone, or −1."""
    owners: Ints
    """(s,) the thing of each sample."""
    centres: Floats
    """(O, 3) of free objects."""
    turns: Floats
    shifts: Floats
    """(things, 3, 3), (things, 3) from their own axes to the world."""
    hardness: Floats
    """(things,) of objects, N/m; 0 for others."""
    moves: Floats
    """(things, 3) how far those that are led went since the step began."""


class Pressing(NamedTuple):
    """Work and result of a step's contacts, and the memory of friction."""

    rows: Floats
    """(3 MOST, N) relative motion along the way out and two ways across it, by coordinates."""
    packed: Floats
    """(3 MOST, N) the same in the columns that are not zero, weighed."""
    product: Floats
    """(N, N) work."""
    columns: Ints
    compliance: Floats
    """(MOST, MOST) of contacts, m/N."""
    factor: Floats
    """Its factor, for those that press."""
    active: Ints
    """(1 + MOST,) how many press, and which."""
    forces: Floats
    """(MOST,) along the ways out, N; after `settle_contacts` as the solver applied them."""
    soft: Floats
    """(MOST,) part of its flexibility that flesh has left so deep."""
    base: Floats
    """(MOST,) forces of the depths alone, N."""
    left: Floats
    """(MOST,) how far they went out of their things since the step began, m."""
    meant: Floats
    """(MOST,) depths after the change, were they linear in it."""
    across: Floats
    """(MOST, 3) friction, N, likewise."""
    weights: Floats
    """(MOST,) stiffness of friction, N/m."""
    grips: Floats
    """(MOST,) of friction that sticks, N/m: that of the pressure, without what handles lack."""
    slips: Floats
    """(MOST, 2) how far points are from where they stick, along the two ways across."""
    aside: Floats
    """(MOST, 2, 3) these ways."""
    anchors: Floats
    """(…, 3) where each point sticks, in axes of the thing,"""
    held_by: Ints
    """(…,) which that is, or −1,"""
    pressed: Floats
    """(…,) and how hard it was pressed in the step before."""
    holding: Ints
    """(1 + MOST,) how many points are held, and which."""
    still: Bools
    """(…,) work."""
    released: Bools
    """(…,) which points pulled in an iteration of this step, and are let go in the next,"""
    freed: Ints
    """(1 + MOST,) and a list of them."""
    work: Floats


def empty_pressing(size: int, n_points: int, n_outer: int) -> Pressing:
    """Return room for contacts of a system of `size` coordinates."""
    return Pressing(
        np.zeros((3 * MOST, size)),
        np.zeros((3 * MOST, size)),
        np.zeros((size, size)),
        np.zeros(size, np.int64),
        np.zeros((MOST, MOST)),
        np.zeros((MOST, MOST)),
        np.zeros(MOST + 1, np.int64),
        np.zeros(MOST),
        np.zeros(MOST),
        np.zeros(MOST),
        np.zeros(MOST),
        np.zeros(MOST),
        np.zeros((MOST, 3)),
        np.zeros(MOST),
        np.zeros(MOST),
        np.zeros((MOST, 2)),
        np.zeros((MOST, 2, 3)),
        np.zeros((n_points, 3)),
        np.full(n_points, -1, np.int64),
        np.zeros(n_points),
        np.zeros(MOST + 1, np.int64),
        np.zeros(n_points, np.bool_),
        np.zeros(n_points, np.bool_),
        np.zeros(MOST + 1, np.int64),
        np.zeros(max(size, n_outer, MOST) + 64),
    )


@compiled
def add_contacts(
    touches: Touches,
    things: Things,
    hard: float,
    friction: float,
    damping: float,
    since: Floats,
    thickness: Floats,
    spread: tuple[Ints, Ints, Floats],
    flexible: tuple[Ints, Ints, Floats],
    tables: PointTables,
    offsets: Floats,
    parents: Ints,
    turns: Floats,
    shifts: Floats,
    places: Floats,
    phi: Floats,
    gradient: Floats,
    hessian: Floats,
    out: Pressing,
) -> None:
    """Add ½ dᵀ(diag 1/(k a) + ΔC)⁻¹ d of depths d, and friction, to gradient and Hessian.

    Points that would be pulled are let go. Friction is a spring from where a point sticks on the
    thing, of no more than μ times the pressure of the step before.

    Parameters
    ----------
    touches, things
        Contacts, and what they touch.
    hard
        Stiffness k of skin on things, N/m³.
    friction
        Coefficient μ.
    damping, since
        β/h of the contact, which damps as flesh does, and the change (N,) since the step began.
    thickness
        (n̄,) how deep bone is below vertices of the skin, m.
    spread, flexible
        CSR of the skin on the outer points of the flesh, and of the flexibility ΔC of these.
    tables, offsets, parents, turns, shifts, places, phi
        The skin and the body.
    gradient, hessian
        Added to; the upper half.
    out
        Work, and the contacts' forces.
    """
    count, n_skin = touches.count[0], len(tables.rest)
    if count == 0:
        out.active[0] = 0
        return
    size = len(gradient)
    own, index, spans = np.empty((3, size)), np.empty(size, np.int64), np.empty((64, 3))
    for c in range(count):
        for i in range(3):
            out.rows[3 * c + i] = 0.0
        body = out.rows[3 * c : 3 * c + 3]
        point, thing = touches.points[c], touches.things[c]
        if touches.areas[c] > 0:
            for corner in range(3):
                share, v = touches.shares[c, corner], touches.corners[c, corner]
                if share == 0.0:
                    continue
                found = write_columns(
                    tables, offsets, turns, shifts, places, phi, v, own, index, spans
                )
                for a in range(found):
                    for i in range(3):
                        body[i, index[a]] += share * own[i, a]
        else:
            sampled = things.objects[things.owners[point - n_skin]]
            if sampled >= 0:
                _add_object(things, size, sampled, touches.places[c], 1.0, body)
        if things.objects[thing] >= 0:
            _add_object(things, size, things.objects[thing], touches.places[c], -1.0, body)
        elif things.bones[thing] >= 0:
            _add_bone(parents, places, things.bones[thing], touches.places[c], -1.0, body)
        _into_frame(touches.ways[c], out.aside[c], body)
    _write_compliance(touches, things, hard, n_skin, thickness, spread, flexible, out)
    _write_approach(touches, things, since, out)
    _press(touches, damping, out)
    _rub(touches, things, friction, out)
    _add_system(damping, out, gradient, hessian)


@compiled
def _add_object(
    things: Things, size: int, o: int, place: Floats, sign: float, body: Floats
) -> None:
    """Add the motion of a point of a free object: a move, and ω × r."""
    at = size - 6 * (len(things.centres) - o)
    x, y, z = (
        sign * (place[0] - things.centres[o, 0]),
        sign * (place[1] - things.centres[o, 1]),
        sign * (place[2] - things.centres[o, 2]),
    )
    for i in range(3):
        body[i, at + i] += sign
    _add_turn(at + 3, x, y, z, body)


@compiled
def _add_bone(
    parents: Ints, places: Floats, bone: int, place: Floats, sign: float, body: Floats
) -> None:
    """Add the motion of a point that is fixed to a bone."""
    for i in range(3):
        body[i, i] += sign
    j = bone
    while j >= 0:
        x = sign * (place[0] - places[j, 0])
        y = sign * (place[1] - places[j, 1])
        z = sign * (place[2] - places[j, 2])
        _add_turn(3 + 3 * j, x, y, z, body)
        j = parents[j]


@compiled_fused
def _add_turn(at: int, x: float, y: float, z: float, body: Floats) -> None:
    """Add −[r]×: columns of ω × r."""
    body[0, at + 1] += z
    body[0, at + 2] -= y
    body[1, at] -= z
    body[1, at + 2] += x
    body[2, at] += y
    body[2, at + 1] -= x


@compiled_fused
def _into_frame(n: Floats, aside: Floats, body: Floats) -> None:
    """Replace rows x, y, z by rows along n and two ways across, which are written."""
    if abs(n[0]) < 0.6:
        u, v, w = 0.0, n[2], -n[1]
    else:
        u, v, w = -n[2], 0.0, n[0]
    length = 1.0 / math.sqrt(u * u + v * v + w * w)
    u, v, w = u * length, v * length, w * length
    p, q, r = n[1] * w - n[2] * v, n[2] * u - n[0] * w, n[0] * v - n[1] * u
    aside[0, 0], aside[0, 1], aside[0, 2] = u, v, w
    aside[1, 0], aside[1, 1], aside[1, 2] = p, q, r
    n0, n1, n2 = n[0], n[1], n[2]
    first, second, third = body[0], body[1], body[2]
    for k in range(body.shape[1]):
        x, y, z = first[k], second[k], third[k]
        first[k] = n0 * x + n1 * y + n2 * z
        second[k] = u * x + v * y + w * z
        third[k] = p * x + q * y + r * z


@compiled
def _write_compliance(
    touches: Touches,
    things: Things,
    hard: float,
    n_skin: int,
    thickness: Floats,
    spread: tuple[Ints, Ints, Floats],
    flexible: tuple[Ints, Ints, Floats],
    out: Pressing,
) -> None:
    """Diag 1/(k a) + S ΔC Sᵀ of the contacts; objects have their own hardness.

    S spreads a contact over the skin that it stands for: a load at one point would dent more. Flesh
    that is pressed in by d is as soft as 1 − d/t, with bone at a depth of t, and for more depth as
    the square of that: linear flesh would let a fist through to the other side.
    """
    count, field = touches.count[0], out.work
    starts, columns, values = spread
    rows, others, much = flexible
    for c in range(count):
        for d in range(count):
            out.compliance[c, d] = 0.0
    for c in range(count):
        if touches.areas[c] == 0.0:
            stiff = things.hardness[things.owners[touches.points[c] - n_skin]]
            other = things.hardness[touches.things[c]]
            if other > 0:
                stiff = min(stiff, other) if stiff > 0 else other
            out.compliance[c, c], out.grips[c], out.soft[c] = 1.0 / stiff, stiff, 1.0
            continue
        first, last = touches.starts[c], touches.starts[c + 1]
        for member in range(first, last):
            v, part = touches.members[member], touches.parts[member]
            for at in range(starts[v], starts[v + 1]):
                row, share = columns[at], part * values[at]
                for k in range(rows[row], rows[row + 1]):
                    field[others[k]] += share * much[k]
        soft = out.soft[c] = _softness(touches, c, thickness)
        for d in range(c, count):
            if touches.areas[d] > 0:
                total = 0.0
                for member in range(touches.starts[d], touches.starts[d + 1]):
                    v, part = touches.members[member], touches.parts[member]
                    for at in range(starts[v], starts[v + 1]):
                        total += part * values[at] * field[columns[at]]
                total *= math.sqrt(soft * _softness(touches, d, thickness))
                out.compliance[c, d] = out.compliance[d, c] = total
        for member in range(first, last):
            v = touches.members[member]
            for at in range(starts[v], starts[v + 1]):
                row = columns[at]
                for k in range(rows[row], rows[row + 1]):
                    field[others[k]] = 0.0
        out.grips[c] = hard * touches.areas[c]
        out.compliance[c, c] += 1.0 / out.grips[c]


@compiled_fused
def _softness(touches: Touches, c: int, thickness: Floats) -> float:
    return max(1.0 - touches.depths[c] / thickness[touches.corners[c, 0]], HARDEST)


@compiled
def _write_approach(touches: Touches, things: Things, since: Floats, out: Pressing) -> None:
    """Set how far contacts went out of their things since the step began."""
    for c in range(touches.count[0]):
        row, total = out.rows[3 * c], 0.0
        for k in range(len(since)):
            total += row[k] * since[k]
        for i in range(3):
            total -= touches.ways[c, i] * things.moves[touches.things[c], i]
        out.left[c] = total


@compiled
def _press(touches: Touches, damping: float, out: Pressing) -> None:
    """Solve for forces of the contacts that depths press, and those that did not pull before.

    Others are let go. Which ones press is not for the damping to say: it counts a motion that was
    guessed, and what lies at rest would be let go in every other step.
    """
    count, active = touches.count[0], out.active
    active[0] = 0
    for c in range(count):
        out.forces[c] = 0.0
        if not out.released[touches.points[c]]:
            active[1 + active[0]] = c
            active[0] += 1
    for _ in range(MOST_RELEASES):
        many = active[0]
        _factorise(out, many)
        for a in range(many):
            out.work[a] = touches.depths[active[1 + a]]
        _solve(out, many, out.work)
        kept = 0
        for a in range(many):
            if out.work[a] > 0:
                active[1 + kept] = active[1 + a]
                kept += 1
            out.work[a] = 0.0
        active[0] = kept
        if kept == many:
            break
    many = active[0]
    _factorise(out, many)
    for a in range(many):
        out.work[a] = touches.depths[active[1 + a]]
    _solve(out, many, out.work)
    for a in range(many):
        out.base[active[1 + a]] = out.work[a]
    # From here on it is the flexibility for a little more depth that counts.
    for a in range(many):
        for b in range(a, many):
            c, d = active[1 + a], active[1 + b]
            less = 1.0 / out.grips[c] if a == b else 0.0
            soft = math.sqrt(out.soft[c] * out.soft[d])
            out.factor[a, b] = less + soft * (out.compliance[c, d] - less)
        out.work[a] = -damping * out.left[active[1 + a]]
    _small_cholesky(out.factor, many)
    _solve(out, many, out.work)
    for a in range(many):
        c = active[1 + a]
        out.forces[c] = out.base[c] + out.work[a]
        out.work[a] = 0.0


@compiled
def _factorise(out: Pressing, many: int) -> None:
    for a in range(many):
        for b in range(a, many):
            out.factor[a, b] = out.compliance[out.active[1 + a], out.active[1 + b]]
    # A flexibility that is cut off where it is small may be indefinite by a little.
    _small_cholesky(out.factor, many)


@compiled_fused
def _small_cholesky(a: Floats, n: int) -> None:
    """A = UᵀU in place, upper triangle; pivots are kept above a part of what they were."""
    for k in range(n):
        least = 1e-3 * a[k, k]
        total = a[k, k]
        for i in range(k):
            total -= a[i, k] * a[i, k]
        pivot = math.sqrt(max(total, least))
        a[k, k] = pivot
        for i in range(k):
            much = a[i, k]
            row, target = a[i], a[k]
            for j in range(k + 1, n):
                target[j] -= much * row[j]
        for j in range(k + 1, n):
            a[k, j] /= pivot


@compiled_fused
def _solve(out: Pressing, n: int, x: Floats) -> None:
    """X ← (UᵀU)⁻¹ x."""
    u = out.factor
    for i in range(n):
        x[i] /= u[i, i]
        for j in range(i + 1, n):
            x[j] -= u[i, j] * x[i]
    for i in range(n - 1, -1, -1):
        total = x[i]
        for j in range(i + 1, n):
            total -= u[i, j] * x[j]
        x[i] = total / u[i, i]


@compiled
def _rub(touches: Touches, things: Things, friction: float, out: Pressing) -> None:
    """Set stiffness and stretch of friction: a spring from the anchor, no stronger than μλ."""
    for c in range(touches.count[0]):
        point, thing = touches.points[c], touches.things[c]
        out.weights[c] = 0.0
        if friction <= 0:
            continue
        turn, shift = things.turns[thing], things.shifts[thing]
        if out.held_by[point] != thing:
            continue
        x = y = 0.0
        for i in range(3):
            stuck = shift[i]
            for k in range(3):
                stuck += turn[i, k] * out.anchors[point, k]
            away = touches.places[c, i] - stuck
            x += away * out.aside[c, 0, i]
            y += away * out.aside[c, 1, i]
        out.slips[c, 0], out.slips[c, 1] = x, y
        stiff = out.grips[c]
        most, far = friction * out.pressed[point], math.sqrt(x * x + y * y)
        out.weights[c] = stiff if stiff * far <= most else most / far


@compiled
def _add_system(damping: float, out: Pressing, gradient: Floats, hessian: Floats) -> None:
    """Add R_nᵀ S⁻¹ R_n + R_tᵀ w R_t and forces, in the columns that contacts have."""
    many, active, size = out.active[0], out.active, len(gradient)
    used = 0
    for k in range(size):
        for a in range(many):
            c = active[1 + a]
            if (
                out.rows[3 * c, k] != 0
                or out.rows[3 * c + 1, k] != 0
                or out.rows[3 * c + 2, k] != 0
            ):
                out.columns[used] = k
                used += 1
                break
    filled = many
    for a in range(many):
        c = active[1 + a]
        row = out.rows[3 * c]
        for k in range(used):
            out.packed[a, k] = row[out.columns[k]]
            gradient[out.columns[k]] -= out.forces[c] * row[out.columns[k]]
        if out.weights[c] > 0:
            root = math.sqrt(out.weights[c])
            for side in range(2):
                row = out.rows[3 * c + 1 + side]
                pull = out.weights[c] * out.slips[c, side]
                for k in range(used):
                    out.packed[filled, k] = root * row[out.columns[k]]
                    gradient[out.columns[k]] += pull * row[out.columns[k]]
                filled += 1
    # U⁻ᵀ R_n, row by row.
    for i in range(many):
        target = out.packed[i, :used]
        for k in range(i):
            _subtract(out.factor[k, i], out.packed[k, :used], target)
        scale = 1.0 / out.factor[i, i]
        for k in range(used):
            target[k] *= scale
    stiffer = math.sqrt(1.0 + damping)
    for i in range(many):
        for k in range(used):
            out.packed[i, k] *= stiffer
    _add_product(out, filled, used, hessian)


@compiled_fused
def _subtract(much: float, row: Floats, target: Floats) -> None:
    for k in range(len(target)):
        target[k] -= much * row[k]


@compiled_fused
def _add_product(out: Pressing, filled: int, used: int, hessian: Floats) -> None:
    """Add ZᵀZ of the packed rows, four at a time."""
    for i in range(used):
        for j in range(i, used):
            out.product[i, j] = 0.0
    for r in range(filled, -(-filled // 4) * 4):
        for k in range(used):
            out.packed[r, k] = 0.0
    for r in range(0, filled, 4):
        first, second, third, fourth = (
            out.packed[r],
            out.packed[r + 1],
            out.packed[r + 2],
            out.packed[r + 3],
        )
        for i in range(used):
            a, b, c, d = first[i], second[i], third[i], fourth[i]
            target = out.product[i]
            for j in range(i, used):
                target[j] += a * first[j] + b * second[j] + c * third[j] + d * fourth[j]
    for i in range(used):
        row, source = hessian[out.columns[i]], out.product[i]
        for j in range(i, used):
            row[out.columns[j]] += source[j]


@compiled
def settle_contacts(touches: Touches, change: Floats, damping: float, out: Pressing) -> float:
    """Set forces as the solver applied them when it subtracted a change; return what pulls.

    Forces are linear in the change: f + S⁻¹ R_n Δ, damped, along the ways out, −w (s − R_t Δ)
    across. The result is the sum of forces that pull, over that of those that push.
    """
    many, active = out.active[0], out.active
    count = touches.count[0]
    for c in range(count):
        out.across[c] = 0.0
    for a in range(many):
        c = active[1 + a]
        total, row = 0.0, out.rows[3 * c]
        for k in range(len(change)):
            total += row[k] * change[k]
        out.meant[c] = touches.depths[c] + total
        out.work[a] = (1 + damping) * total - damping * out.left[c]
        if out.weights[c] > 0:
            for side in range(2):
                slip, row = out.slips[c, side], out.rows[3 * c + 1 + side]
                for k in range(len(change)):
                    slip -= row[k] * change[k]
                for i in range(3):
                    out.across[c, i] -= out.weights[c] * slip * out.aside[c, side, i]
    _solve(out, many, out.work)
    pulled = pushed = 0.0
    for a in range(many):
        c = active[1 + a]
        force = out.base[c] + out.work[a]
        out.forces[c] = force
        out.work[a] = 0.0
        if force < 0 and out.freed[0] < MOST:
            out.released[touches.points[c]] = True
            out.freed[1 + out.freed[0]] = touches.points[c]
            out.freed[0] += 1
        pulled += max(-force, 0.0)
        pushed += max(force, 0.0)
    return pulled / max(pushed, 1e-12)


@compiled
def depth_mismatch(
    shapes: ShapeTables, skin: Floats, dents: Floats, touches: Touches, out: Pressing
) -> float:
    """Return the largest difference of a depth from what the solver meant, in m."""
    worst = 0.0
    for a in range(out.active[0]):
        c = out.active[1 + a]
        if touches.areas[c] > 0:
            x = y = z = i = j = k = 0.0
            for corner in range(3):
                share, v = touches.shares[c, corner], touches.corners[c, corner]
                x, y, z = x + share * skin[v, 0], y + share * skin[v, 1], z + share * skin[v, 2]
                i, j, k = i + share * dents[v, 0], j + share * dents[v, 1], k + share * dents[v, 2]
            gap, p, q, r = signed_distance(shapes, touches.things[c], x + i, y + j, z + k)
            gap -= p * i + q * j + r * k
            worst = max(worst, abs(gap + out.meant[c]))
    return worst


@compiled
def write_dents(
    touches: Touches,
    forces: Floats,
    spread: tuple[Ints, Ints, Floats],
    motion: tuple[Ints, Ints, Floats],
    thickness: Floats,
    tables: PointTables,
    turns: Floats,
    load: Floats,
    away: Floats,
    out: Floats,
) -> None:
    """Write what contacts move the skin beside bones and handles, (n̄, 3) in the world.

    Parameters
    ----------
    touches, forces
        Contacts, and forces along their ways out.
    spread
        CSR of the skin on the outer points of the flesh.
    motion
        CSC of the motion of these points, (…, 3) values, by 1 N out along the normal of each.
    thickness
        (n̄,) how deep bone is below vertices of the skin, m.
    tables, turns
        The skin, and its bones.
    load, away
        (p,), (p, 3) work.
    out
        Written.
    """
    starts, columns, values = spread
    firsts, rows, moved = motion
    load[:], away[:] = 0.0, 0.0
    for c in range(touches.count[0]):
        if touches.areas[c] > 0 and forces[c] > 0:
            soft = _softness(touches, c, thickness)
            for member in range(touches.starts[c], touches.starts[c + 1]):
                v, much = touches.members[member], soft * forces[c] * touches.parts[member]
                for at in range(starts[v], starts[v + 1]):
                    load[columns[at]] -= much * values[at]
    for p in range(len(load)):
        if load[p] != 0:
            for at in range(firsts[p], firsts[p + 1]):
                for i in range(3):
                    away[rows[at], i] += load[p] * moved[at, i]
    for v in range(len(out)):
        x = y = z = 0.0
        for at in range(starts[v], starts[v + 1]):
            row = columns[at]
            x += values[at] * away[row, 0]
            y += values[at] * away[row, 1]
            z += values[at] * away[row, 2]
        out[v, 0] = out[v, 1] = out[v, 2] = 0.0
        if x == 0 and y == 0 and z == 0:
            continue
        # No deeper than bone, nor as deep: flexibility is cut off, and forces overshoot.
        far = MOST_DENT * thickness[v] / math.sqrt(x * x + y * y + z * z)
        if far < 1:
            x, y, z = far * x, far * y, far * z
        for at in range(tables.bone_starts[v], tables.bone_starts[v + 1]):
            w, G = tables.weights[at], turns[tables.bones[at]]
            for i in range(3):
                out[v, i] += w * (G[i, 0] * x + G[i, 1] * y + G[i, 2] * z)


@compiled
def stick(
    touches: Touches,
    things: Things,
    skin: Floats,
    samples: Floats,
    radii: Floats,
    friction: float,
    out: Pressing,
) -> None:
    """Remember how hard points were pressed, and where they stick on what they touch.

    A point that slips drags its anchor along, as far behind as the spring of its friction reaches.

    Parameters
    ----------
    touches, things
        Contacts, and what they touch, where it is at the end of the step.
    skin, samples, radii
        (n̄, 3), (s, 3), (s,) at the end of the step, in the world.
    friction
        Coefficient μ.
    out
        Forces as they were applied; anchors are written.
    """
    n_skin, place, stuck = len(skin), np.empty(3), np.empty(3)
    # What is held no more forgets where it was.
    for k in range(out.holding[0]):
        out.still[out.holding[1 + k]] = False
    for c in range(touches.count[0]):
        out.still[touches.points[c]] = True
    for k in range(out.holding[0]):
        point = out.holding[1 + k]
        if not out.still[point]:
            out.held_by[point] = -1
    out.holding[0] = touches.count[0]
    for c in range(touches.count[0]):
        point, thing, force = touches.points[c], touches.things[c], max(out.forces[c], 0.0)
        out.holding[1 + c] = point
        turn, shift = things.turns[thing], things.shifts[thing]
        for i in range(3):
            if touches.areas[c] > 0:
                place[i] = 0.0
                for corner in range(3):
                    place[i] += touches.shares[c, corner] * skin[touches.corners[c, corner], i]
            else:
                place[i] = samples[point - n_skin, i] - radii[point - n_skin] * touches.ways[c, i]
        if out.held_by[point] == thing and out.weights[c] > 0:
            far = slip = 0.0
            for i in range(3):
                stuck[i] = shift[i]
                for k in range(3):
                    stuck[i] += turn[i, k] * out.anchors[point, k]
            for side in range(2):
                away = 0.0
                for i in range(3):
                    away += (place[i] - stuck[i]) * out.aside[c, side, i]
                far += away * away
            far = math.sqrt(far)
            reach = friction * force / out.grips[c]
            slip = 1.0 - reach / far if far > reach else 0.0
            for i in range(3):
                place[i] = stuck[i] + slip * (place[i] - stuck[i])
        for i in range(3):
            out.anchors[point, i] = 0.0
            for k in range(3):
                out.anchors[point, i] += turn[k, i] * (place[k] - shift[k])
        out.held_by[point], out.pressed[point] = thing, force
