"""Forces of contacts: pressure in series with what handles lack, and their system."""

from __future__ import annotations

import math

from supple.arrays import Floats, Ints, ShortInts, Singles
from supple.compiled.jit import compiled, compiled_fused
from supple.compiled.simd import LANES, subtract_blocks
from supple.engines.soft_skeleton.bones.body_points import PointTables
from supple.engines.soft_skeleton.contact.contact_rows import write_contact_rows
from supple.engines.soft_skeleton.contact.dents import softness
from supple.engines.soft_skeleton.contact.pressing_tables import Pressing, Things
from supple.engines.soft_skeleton.contact.sticking import pull_back
from supple.engines.soft_skeleton.contact.touches import MOST, Touches

#: Times that points which would be pulled are let go.
MOST_RELEASES = 8
#: Flesh that is left thinner than this, in m, is harder by as much as it is thinner, up to so many
#: times: a pelvis with 5 mm of flesh under it sank 5.5 mm into the ground, and sinks 2 mm now.
THIN, HARDER = 0.025, 20.0


@compiled
def add_contacts(
    touches: Touches,
    things: Things,
    hard: float,
    friction: float,
    damping: float,
    since: Floats,
    thickness: Floats,
    spread: tuple[Ints, ShortInts, Singles],
    flexible: tuple[Ints, ShortInts, Singles],
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
    count, n_skin = touches.total[0], len(tables.rest)
    if count == 0:
        out.active[0] = 0
        return
    body = tables, offsets, parents, turns, shifts, places, phi
    write_contact_rows(touches, things, *body, out)
    _write_compliance(touches, things, hard, n_skin, thickness, spread, flexible, out)
    _write_approach(touches, things, since, out)
    _press(touches, damping, out)
    pull_back(touches, things, friction, out)
    _add_system(damping, out, gradient, hessian)


@compiled_fused
def _write_compliance(
    touches: Touches,
    things: Things,
    hard: float,
    n_skin: int,
    thickness: Floats,
    spread: tuple[Ints, ShortInts, Singles],
    flexible: tuple[Ints, ShortInts, Singles],
    out: Pressing,
) -> None:
    """Diag 1/(k a) + S ΔC Sᵀ of the contacts; objects have their own hardness.

    S spreads a contact over the skin that it stands for: a load at one point would dent more. Flesh
    that is pressed in by d is as soft as 1 − d/t, with bone at a depth of t, and for more depth as
    the square of that: linear flesh would let a fist through to the other side.
    """
    count, field = touches.total[0], out.work
    rows, others, much = flexible
    _write_loads(touches, spread, out)
    loads, loaded, starts = out.load_values, out.load_columns, out.load_starts
    for c in range(count):
        for d in range(count):
            out.compliance[c, d] = 0.0
        if touches.areas[c] > 0:
            out.soft[c] = softness(touches, c, thickness)
    for c in range(count):
        if touches.areas[c] == 0.0:
            stiff = things.hardness[things.owners[touches.points[c] - n_skin]]
            other = things.hardness[touches.things[c]]
            if other > 0:
                stiff = min(stiff, other) if stiff > 0 else other
            out.compliance[c, c], out.grips[c], out.soft[c] = 1.0 / stiff, stiff, 1.0
            continue
        for at in range(starts[c], starts[c + 1]):
            for k in range(rows[loaded[at]], rows[loaded[at] + 1]):
                field[others[k]] += loads[at] * much[k]
        for d in range(c, count):
            total = 0.0
            for at in range(starts[d], starts[d + 1]):
                total += loads[at] * field[loaded[at]]
            if total != 0:
                total *= math.sqrt(out.soft[c] * out.soft[d])
                out.compliance[c, d] = out.compliance[d, c] = total
        for at in range(starts[c], starts[c + 1]):
            for k in range(rows[loaded[at]], rows[loaded[at] + 1]):
                field[others[k]] = 0.0
        left = thickness[touches.corners[c, 0]] - touches.depths[c]
        thin = HARDER if left * HARDER < THIN else max(THIN / left, 1.0)
        out.grips[c] = hard * thin * touches.areas[c]
        out.compliance[c, c] += 1.0 / out.grips[c]


@compiled_fused
def _write_loads(touches: Touches, spread: tuple[Ints, ShortInts, Singles], out: Pressing) -> None:
    """List the points of the flesh that contacts load; those of objects load none."""
    starts, columns, values = spread
    used, out.load_starts[0] = 0, 0
    for c in range(touches.total[0]):
        if touches.areas[c] > 0:
            for member in range(touches.starts[c], touches.starts[c + 1]):
                v, part = touches.members[member], touches.parts[member]
                for at in range(starts[v], starts[v + 1]):
                    out.load_columns[used] = columns[at]
                    out.load_values[used] = part * values[at]
                    used += 1
        out.load_starts[c + 1] = used


@compiled_fused
def _write_approach(touches: Touches, things: Things, since: Floats, out: Pressing) -> None:
    """Set how far contacts went out of their things since the step began."""
    for c in range(touches.total[0]):
        total = _along(out, c, 0, since)
        for i in range(3):
            total -= touches.ways[c, i] * things.moves[touches.things[c], i]
        # Only what is gone inside is damped: else a box that is still above the ground bounces off.
        out.left[c] = max(total, -touches.depths[c])


@compiled_fused
def _along(out: Pressing, c: int, which: int, change: Floats) -> float:
    """Return how far a change moves a contact along one of its three ways."""
    row, index, total = out.rows[3 * c + which], out.indices[c], 0.0
    for k in range(out.counts[c]):
        total += row[k] * change[index[k]]
    return total


@compiled_fused
def _press(touches: Touches, damping: float, out: Pressing) -> None:
    """Solve for forces of the contacts that depths press, and those that did not pull before.

    Others are let go. Which ones press is not for the damping to say: it counts a motion that was
    guessed, and what lies at rest would be let go in every other step.
    """
    count, active = touches.total[0], out.active
    active[0] = 0
    for c in range(count):
        out.forces[c] = 0.0
        if not out.released[touches.points[c]]:
            active[1 + active[0]] = c
            active[0] += 1
    for time in range(MOST_RELEASES + 1):
        many = active[0]
        _factorise(out, many)
        for a in range(many):
            out.work[a] = touches.depths[active[1 + a]]
        _solve(out, many, out.work)
        kept = 0
        for a in range(many):
            out.base[active[1 + a]] = out.work[a]
            # The last time, what little would be pulled is.
            if out.work[a] > 0 or time == MOST_RELEASES:
                active[1 + kept] = active[1 + a]
                kept += 1
            out.work[a] = 0.0
        active[0] = kept
        if kept == many:
            break
    many = active[0]
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


@compiled_fused
def _add_system(damping: float, out: Pressing, gradient: Floats, hessian: Floats) -> None:
    """Add R_nᵀ S⁻¹ R_n + R_tᵀ w R_t and forces, in the columns that contacts have."""
    many, active, size = out.active[0], out.active, len(gradient)
    for a in range(many):
        c = active[1 + a]
        index, count = out.indices[c], out.counts[c]
        row = out.rows[3 * c]
        for k in range(count):
            out.spots[index[k]] = 0
            gradient[index[k]] -= out.forces[c] * row[k]
        if out.weights[c] > 0:
            _add_friction(out, c, index[:count], gradient, hessian)
    used = 0
    for k in range(size):
        if out.spots[k] >= 0:
            out.columns[used], out.spots[k] = k, used
            used += 1
    # U⁻ᵀ R_n, row by row, below what its product is taken from.
    width = -(-used // LANES) * LANES
    whole = -(-many // LANES) * LANES
    for i in range(width + whole):
        out.packed[i, :width] = 0.0
    rows = out.packed[width : width + whole, :width]
    stiffer = math.sqrt(1.0 + damping)
    for i in range(many):
        c = active[1 + i]
        target = rows[i]
        for k in range(out.counts[c]):
            target[out.spots[out.indices[c, k]]] = stiffer * out.rows[3 * c, k]
        for k in range(i):
            if out.factor[k, i] != 0:
                _subtract(out.factor[k, i], rows[k], target)
        scale = 1.0 / out.factor[i, i]
        for k in range(width):
            target[k] *= scale
    _add_product(out, width, whole, used, hessian)
    for k in range(used):
        out.spots[out.columns[k]] = -1


@compiled_fused
def _add_friction(out: Pressing, c: int, index: Ints, gradient: Floats, hessian: Floats) -> None:
    """Add w R_tᵀ R_t of one contact, and what its friction pulls."""
    weight, first, second = out.weights[c], out.rows[3 * c + 1], out.rows[3 * c + 2]
    u, v = weight * out.slips[c, 0], weight * out.slips[c, 1]
    for a in range(len(index)):
        gradient[index[a]] += u * first[a] + v * second[a]
        x, y, target = weight * first[a], weight * second[a], hessian[index[a]]
        for b in range(a, len(index)):
            target[index[b]] += x * first[b] + y * second[b]


@compiled_fused
def _subtract(much: float, row: Floats, target: Floats) -> None:
    for k in range(len(target)):
        target[k] -= much * row[k]


@compiled_fused
def _add_product(out: Pressing, width: int, whole: int, used: int, hessian: Floats) -> None:
    """Add ZᵀZ of the packed rows."""
    stride = out.packed.shape[1]
    flat = out.packed.reshape(out.packed.size)
    for k in range(whole // LANES):
        out.listed[k] = width + LANES * k
    for row in range(0, width, 4):
        for column in range(row // LANES * LANES, width, LANES):
            subtract_blocks(flat, stride, row, column, out.listed, whole // LANES)
    for i in range(used):
        target, source = hessian[out.columns[i]], out.packed[i]
        for j in range(i, used):
            target[out.columns[j]] -= source[j]


@compiled_fused
def settle_contacts(
    touches: Touches, change: Floats, damping: float, least: float, out: Pressing
) -> float:
    """Set forces as the solver applied them when it subtracted a change; return what pulls.

    Forces are linear in the change: f + S⁻¹ R_n Δ, damped, along the ways out, −w (s − R_t Δ)
    across. The result is the sum of forces that pull, over that of those that push, which
    is taken to be at least `least`.
    """
    many, active = out.active[0], out.active
    count = touches.total[0]
    for c in range(count):
        out.across[c] = 0.0
    for a in range(many):
        c = active[1 + a]
        total = _along(out, c, 0, change)
        out.meant[c] = touches.depths[c] + total
        out.elastic[c] = total
        out.work[a] = (1 + damping) * total - damping * out.left[c]
        if out.weights[c] > 0:
            for side in range(2):
                slip = out.slips[c, side] - _along(out, c, 1 + side, change)
                for i in range(3):
                    out.across[c, i] -= out.weights[c] * slip * out.aside[c, side, i]
    _solve(out, many, out.work)
    for a in range(many):
        c = active[1 + a]
        out.forces[c] = out.base[c] + out.work[a]
        out.work[a] = out.elastic[c]
    _solve(out, many, out.work)
    for c in range(count):
        out.elastic[c] = 0.0
    pulled = pushed = 0.0
    for a in range(many):
        c = active[1 + a]
        force, out.elastic[c] = out.forces[c], out.base[c] + out.work[a]
        out.work[a] = 0.0
        if force < 0 and out.freed[0] < MOST:
            out.released[touches.points[c]] = True
            out.freed[1 + out.freed[0]] = touches.points[c]
            out.freed[0] += 1
        pulled += max(-force, 0.0)
        pushed += max(force, 0.0)
    return pulled / max(pushed, least)


@compiled
def sum_forces(
    touches: Touches, out: Pressing, owners: Ints, by_part: Floats, by_thing: Floats
) -> int:
    """Sum forces on the skin by the bones (K, 4) and things (T, 4) that contacts are of.

    The last numbers are how many these are; the result is how many there are in all. `owners` (n̄,)
    are the bones of vertices.
    """
    found = 0
    by_part[:], by_thing[:] = 0.0, 0.0
    for c in range(touches.total[0]):
        if touches.areas[c] > 0:
            most = touches.shares[c].argmax()
            part = by_part[owners[touches.corners[c, most]]]
            thing = by_thing[touches.things[c]]
            for i in range(3):
                force = out.forces[c] * touches.ways[c, i] + out.across[c, i]
                part[i] += force
                thing[i] += force
            part[3] += 1
            thing[3] += 1
            found += 1
    return found
