"""Contact forces: pressure in series with the flexibility that handles lack."""

from __future__ import annotations

import math

from supple.arrays import Floats, Ints, ShortInts, Singles
from supple.compiled.jit import compiled, compiled_fused
from supple.compiled.simd import LANES, subtract_blocks
from supple.engines.soft_skeleton.bones.body_points import PosedPoints
from supple.engines.soft_skeleton.contact.contact_rows import (
    write_contact_rows,
    write_friction_springs,
)
from supple.engines.soft_skeleton.contact.skin_indentation import softness
from supple.engines.soft_skeleton.contact.tables import (
    MAX_CONTACTS,
    Colliders,
    ContactLaw,
    ContactSet,
    ContactSystem,
    SkinFlesh,
)

#: Largest number of passes in which contacts that pull are released.
MAX_RELEASES = 8
#: Flesh thinner than this, in m, is stiffer in proportion, up to the given factor. Without it, a
#: pelvis with 5 mm of flesh sank 5.5 mm into the ground; with it, 2 mm.
THIN, HARDER = 0.025, 20.0


@compiled
def add_contacts(
    contacts: ContactSet,
    colliders: Colliders,
    law: ContactLaw,
    flesh: SkinFlesh,
    body: PosedPoints,
    parents: Ints,
    since: Floats,
    gradient: Floats,
    hessian: Floats,
    system: ContactSystem,
) -> None:
    """Add ½ dᵀ(diag 1/(k a) + ΔC)⁻¹ d of depths d, and friction, to gradient and Hessian.

    k is the hardness, a the areas, and ΔC the flexibility that handles lack. Contacts that would
    pull are released. Friction is a spring from the anchor of a point on the
    collider; its force is at most μ times the normal force of the step before. `since` (N,) is the
    change of the coordinates since the step began. Terms are added to the upper triangle of the
    Hessian; rows, compliance and forces of the contacts are written to `system`.
    """
    if contacts.total[0] == 0:
        system.active[0] = 0
        return
    write_contact_rows(contacts, colliders, body, parents, system)
    n_skin = len(body.tables.rest)
    _write_compliance(contacts, colliders, law.hardness, n_skin, flesh, system)
    _write_separation(contacts, colliders, since, system)
    _solve_forces(contacts, law.damping, system)
    write_friction_springs(contacts, colliders, law.friction, system)
    _add_system(law.damping, system, gradient, hessian)


@compiled_fused
def _write_compliance(
    contacts: ContactSet,
    colliders: Colliders,
    hardness: float,
    n_skin: int,
    flesh: SkinFlesh,
    system: ContactSystem,
) -> None:
    """Write diag 1/(k a) + S ΔC Sᵀ of contacts; for free objects k a is `colliders.hardness`.

    S spreads a contact over the skin that it represents. At depth d over a bone at depth t, the
    secant flexibility is 1 − d/t of that at rest, and the tangent flexibility its square: linear
    flesh would let a fist pass through.
    """
    count, field = contacts.total[0], system.work
    rows, others, values = flesh.flexibility
    thickness = flesh.thickness
    _write_loads(contacts, flesh.spread, system)
    loads, loaded, starts = system.load_values, system.load_columns, system.load_starts
    for c in range(count):
        for d in range(count):
            system.compliance[c, d] = 0.0
        if contacts.areas[c] > 0:
            system.softening[c] = softness(contacts, c, thickness)
    for c in range(count):
        if contacts.areas[c] == 0.0:
            stiff = colliders.hardness[colliders.owners[contacts.points[c] - n_skin]]
            other = colliders.hardness[contacts.colliders[c]]
            if other > 0:
                stiff = min(stiff, other) if stiff > 0 else other
            system.compliance[c, c] = 1.0 / stiff
            system.stiffness[c], system.softening[c] = stiff, 1.0
            continue
        for at in range(starts[c], starts[c + 1]):
            for k in range(rows[loaded[at]], rows[loaded[at] + 1]):
                field[others[k]] += loads[at] * values[k]
        for d in range(c, count):
            total = 0.0
            for at in range(starts[d], starts[d + 1]):
                total += loads[at] * field[loaded[at]]
            if total != 0:
                total *= math.sqrt(system.softening[c] * system.softening[d])
                system.compliance[c, d] = system.compliance[d, c] = total
        for at in range(starts[c], starts[c + 1]):
            for k in range(rows[loaded[at]], rows[loaded[at] + 1]):
                field[others[k]] = 0.0
        remaining = thickness[contacts.corners[c, 0]] - contacts.depths[c]
        thin = HARDER if remaining * HARDER < THIN else max(THIN / remaining, 1.0)
        system.stiffness[c] = hardness * thin * contacts.areas[c]
        system.compliance[c, c] += 1.0 / system.stiffness[c]


@compiled_fused
def _write_loads(
    contacts: ContactSet, spread: tuple[Ints, ShortInts, Singles], system: ContactSystem
) -> None:
    """List the outer flesh vertices that each contact loads; contacts of objects load none."""
    starts, columns, values = spread
    used, system.load_starts[0] = 0, 0
    for c in range(contacts.total[0]):
        if contacts.areas[c] > 0:
            for member in range(contacts.starts[c], contacts.starts[c + 1]):
                v, part = contacts.members[member], contacts.fractions[member]
                for at in range(starts[v], starts[v + 1]):
                    system.load_columns[used] = columns[at]
                    system.load_values[used] = part * values[at]
                    used += 1
        system.load_starts[c + 1] = used


@compiled_fused
def _write_separation(
    contacts: ContactSet, colliders: Colliders, since: Floats, system: ContactSystem
) -> None:
    """Write the distances in m that contacts moved out of colliders since the step began."""
    for c in range(contacts.total[0]):
        total = _along(system, c, 0, since)
        for i in range(3):
            total -= contacts.normals[c, i] * colliders.moves[contacts.colliders[c], i]
        # Damp motion inside the collider only; otherwise a box above the ground would bounce.
        system.separation[c] = max(total, -contacts.depths[c])


@compiled_fused
def _along(system: ContactSystem, c: int, which: int, change: Floats) -> float:
    """Return the displacement of contact `c` along its normal (`which` 0) or a tangent (1, 2) that
    a `change` of the coordinates causes.
    """
    row, index, total = system.rows[3 * c + which], system.indices[c], 0.0
    for k in range(system.counts[c]):
        total += row[k] * change[index[k]]
    return total


@compiled_fused
def _solve_forces(contacts: ContactSet, damping: float, system: ContactSystem) -> None:
    """Solve for the forces of contacts that push; release the others.

    The active set ignores damping, which depends on a predicted motion: with it, contacts of a body
    at rest would be released in every other step.
    """
    count, active = contacts.total[0], system.active
    active[0] = 0
    for c in range(count):
        system.forces[c] = 0.0
        if not system.released[contacts.points[c]]:
            active[1 + active[0]] = c
            active[0] += 1
    for time in range(MAX_RELEASES + 1):
        many = active[0]
        _factorise(system, many)
        for a in range(many):
            system.work[a] = contacts.depths[active[1 + a]]
        _solve(system, many, system.work)
        n_kept = 0
        for a in range(many):
            system.base[active[1 + a]] = system.work[a]
            # In the last pass small pulling forces remain.
            if system.work[a] > 0 or time == MAX_RELEASES:
                active[1 + n_kept] = active[1 + a]
                n_kept += 1
            system.work[a] = 0.0
        active[0] = n_kept
        if n_kept == many:
            break
    many = active[0]
    # Use the tangent flexibility from here on.
    for a in range(many):
        for b in range(a, many):
            c, d = active[1 + a], active[1 + b]
            less = 1.0 / system.stiffness[c] if a == b else 0.0
            softness_pair = math.sqrt(system.softening[c] * system.softening[d])
            system.factor[a, b] = less + softness_pair * (system.compliance[c, d] - less)
        system.work[a] = -damping * system.separation[active[1 + a]]
    _small_cholesky(system.factor, many)
    _solve(system, many, system.work)
    for a in range(many):
        c = active[1 + a]
        system.forces[c] = system.base[c] + system.work[a]
        system.work[a] = 0.0


@compiled
def _factorise(system: ContactSystem, many: int) -> None:
    for a in range(many):
        for b in range(a, many):
            system.factor[a, b] = system.compliance[system.active[1 + a], system.active[1 + b]]
    # Truncation of small entries can make the compliance slightly indefinite.
    _small_cholesky(system.factor, many)


@compiled_fused
def _small_cholesky(a: Floats, n: int) -> None:
    """Factorise A = UᵀU in place, upper triangle, with a lower bound on the pivots."""
    for k in range(n):
        lower_bound = 1e-3 * a[k, k]
        total = a[k, k]
        for i in range(k):
            total -= a[i, k] * a[i, k]
        pivot = math.sqrt(max(total, lower_bound))
        a[k, k] = pivot
        for i in range(k):
            factor = a[i, k]
            row, target = a[i], a[k]
            for j in range(k + 1, n):
                target[j] -= factor * row[j]
        for j in range(k + 1, n):
            a[k, j] /= pivot


@compiled_fused
def _solve(system: ContactSystem, n: int, x: Floats) -> None:
    """Solve UᵀU x = b in place."""
    u = system.factor
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
def _add_system(damping: float, system: ContactSystem, gradient: Floats, hessian: Floats) -> None:
    """Add R_nᵀ S⁻¹ R_n (1 + β/h) + R_tᵀ w R_t to the Hessian, and forces to the gradient.

    R_n and R_t are the rows of active contacts along normals and tangents, S their compliance, w
    the stiffness of friction springs, and `damping` β/h.
    """
    many, active, size = system.active[0], system.active, len(gradient)
    for a in range(many):
        c = active[1 + a]
        index, count = system.indices[c], system.counts[c]
        row = system.rows[3 * c]
        for k in range(count):
            system.column_slots[index[k]] = 0
            gradient[index[k]] -= system.forces[c] * row[k]
        if system.weights[c] > 0:
            _add_friction(system, c, index[:count], gradient, hessian)
    used = 0
    for k in range(size):
        if system.column_slots[k] >= 0:
            system.columns[used], system.column_slots[k] = k, used
            used += 1
    # U⁻ᵀ R_n, row by row, below the block that receives its product.
    width = -(-used // LANES) * LANES
    height = -(-many // LANES) * LANES
    for i in range(width + height):
        system.packed[i, :width] = 0.0
    rows = system.packed[width : width + height, :width]
    stiffer = math.sqrt(1.0 + damping)
    for i in range(many):
        c = active[1 + i]
        target = rows[i]
        for k in range(system.counts[c]):
            target[system.column_slots[system.indices[c, k]]] = stiffer * system.rows[3 * c, k]
        for k in range(i):
            if system.factor[k, i] != 0:
                _subtract(system.factor[k, i], rows[k], target)
        scale = 1.0 / system.factor[i, i]
        for k in range(width):
            target[k] *= scale
    _add_product(system, width, height, used, hessian)
    for k in range(used):
        system.column_slots[system.columns[k]] = -1


@compiled_fused
def _add_friction(
    system: ContactSystem, c: int, index: Ints, gradient: Floats, hessian: Floats
) -> None:
    """Add the friction spring of contact c: w R_tᵀ R_t and w R_tᵀ s, with elongations s."""
    weight, first, second = system.weights[c], system.rows[3 * c + 1], system.rows[3 * c + 2]
    u, v = weight * system.offsets[c, 0], weight * system.offsets[c, 1]
    for a in range(len(index)):
        gradient[index[a]] += u * first[a] + v * second[a]
        x, y, target = weight * first[a], weight * second[a], hessian[index[a]]
        for b in range(a, len(index)):
            target[index[b]] += x * first[b] + y * second[b]


@compiled_fused
def _subtract(factor: float, row: Floats, target: Floats) -> None:
    for k in range(len(target)):
        target[k] -= factor * row[k]


@compiled_fused
def _add_product(
    system: ContactSystem, width: int, height: int, used: int, hessian: Floats
) -> None:
    """Add ZᵀZ of the packed rows Z to the upper triangle of the Hessian."""
    stride = system.packed.shape[1]
    flat = system.packed.reshape(system.packed.size)
    for k in range(height // LANES):
        system.listed[k] = width + LANES * k
    for row in range(0, width, 4):
        for column in range(row // LANES * LANES, width, LANES):
            subtract_blocks(flat, stride, row, column, system.listed, height // LANES)
    for i in range(used):
        target, source = hessian[system.columns[i]], system.packed[i]
        for j in range(i, used):
            target[system.columns[j]] -= source[j]


@compiled_fused
def apply_change(
    contacts: ContactSet, change: Floats, damping: float, least_push: float, system: ContactSystem
) -> float:
    """Set the forces after the solver subtracted a change; return the pulling fraction.

    Forces are linear in the change Δ: f + S⁻¹ R_n Δ, damped, along the normals and −w (s − R_t Δ)
    along the tangents, with compliance S, rows R_n and R_t along normals and tangents, and friction
    springs of stiffness w and elongation s. The result is the sum of pulling forces over that of
    pushing forces, which is at least `least_push`.
    """
    many, active = system.active[0], system.active
    count = contacts.total[0]
    for c in range(count):
        system.friction_forces[c] = 0.0
    for a in range(many):
        c = active[1 + a]
        total = _along(system, c, 0, change)
        system.predicted_depths[c] = contacts.depths[c] + total
        system.elastic[c] = total
        system.work[a] = (1 + damping) * total - damping * system.separation[c]
        if system.weights[c] > 0:
            for side in range(2):
                slip = system.offsets[c, side] - _along(system, c, 1 + side, change)
                for i in range(3):
                    system.friction_forces[c, i] -= (
                        system.weights[c] * slip * system.tangents[c, side, i]
                    )
    _solve(system, many, system.work)
    for a in range(many):
        c = active[1 + a]
        system.forces[c] = system.base[c] + system.work[a]
        system.work[a] = system.elastic[c]
    _solve(system, many, system.work)
    for c in range(count):
        system.elastic[c] = 0.0
    pulled = pushed = 0.0
    for a in range(many):
        c = active[1 + a]
        force, system.elastic[c] = system.forces[c], system.base[c] + system.work[a]
        system.work[a] = 0.0
        if force < 0 and system.released_list[0] < MAX_CONTACTS:
            system.released[contacts.points[c]] = True
            system.released_list[1 + system.released_list[0]] = contacts.points[c]
            system.released_list[0] += 1
        pulled += max(-force, 0.0)
        pushed += max(force, 0.0)
    return pulled / max(pushed, least_push)


@compiled
def sum_forces(
    contacts: ContactSet, system: ContactSystem, owners: Ints, by_part: Floats, by_collider: Floats
) -> int:
    """Sum forces on the skin by bone (K, 4) and collider (T, 4); return the number of contacts.

    The columns are x, y, z in N, and the number of contacts. `owners` (n̄,) are bones of vertices.
    """
    count = 0
    by_part[:], by_collider[:] = 0.0, 0.0
    for c in range(contacts.total[0]):
        if contacts.areas[c] > 0:
            nearest = contacts.barycentric[c].argmax()
            part = by_part[owners[contacts.corners[c, nearest]]]
            collider = by_collider[contacts.colliders[c]]
            for i in range(3):
                force = system.forces[c] * contacts.normals[c, i] + system.friction_forces[c, i]
                part[i] += force
                collider[i] += force
            part[3] += 1
            collider[3] += 1
            count += 1
    return count
