"""Skin indentation: displacement by contact, added to bones and handles, and contact depths."""

from __future__ import annotations

import math

from supple.arrays import Floats
from supple.compiled.jit import compiled, compiled_fused
from supple.engines.soft_skeleton.bones.body_points import PointTables
from supple.engines.soft_skeleton.contact.tables import ContactSet, ContactSystem, SkinFlesh
from supple.mesh.obstacles import OTHER
from supple.mesh.shape_tables import ShapeTables, signed_distance

#: Smallest fraction of its flexibility that compressed flesh has.
MIN_SOFTNESS = 0.05
#: Largest indentation, as a fraction of the thickness of the flesh.
MAX_INDENTATION = 0.8
#: Passes that fit the indentation to contacts with common vertices.
FITS = 3


@compiled_fused
def softness(contacts: ContactSet, c: int, thickness: Floats) -> float:
    """Return the fraction of its flexibility at rest that flesh has at contact c's depth."""
    return max(1.0 - contacts.depths[c] / thickness[contacts.corners[c, 0]], MIN_SOFTNESS)


@compiled
def write_indentation(
    contacts: ContactSet,
    forces: Floats,
    flesh: SkinFlesh,
    tables: PointTables,
    rotations: Floats,
    load: Floats,
    away: Floats,
    out: Floats,
) -> None:
    """Write the displacement (n̄, 3) of the skin by contacts, in addition to that of bones and
    handles.

    `forces` are normal forces of the contacts in N; `load` (p,) and `away` (p, 3) are work arrays.
    """
    starts, columns, values = flesh.spread
    firsts, rows, motions = flesh.motion
    thickness = flesh.thickness
    load[:], away[:] = 0.0, 0.0
    for c in range(contacts.total[0]):
        if contacts.areas[c] > 0 and forces[c] > 0:
            soft = softness(contacts, c, thickness)
            for member in range(contacts.starts[c], contacts.starts[c + 1]):
                v, force = contacts.members[member], soft * forces[c] * contacts.fractions[member]
                for at in range(starts[v], starts[v + 1]):
                    load[columns[at]] -= force * values[at]
    for p in range(len(load)):
        if load[p] != 0:
            for at in range(firsts[p], firsts[p + 1]):
                for i in range(3):
                    away[rows[at], i] += load[p] * motions[at, i]
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
        # Bounded, since the flexibility is truncated and forces overshoot.
        far = MAX_INDENTATION * thickness[v] / math.sqrt(x * x + y * y + z * z)
        if far < 1:
            x, y, z = far * x, far * y, far * z
        for at in range(tables.bone_starts[v], tables.bone_starts[v + 1]):
            w, G = tables.weights[at], rotations[tables.bones[at]]
            for i in range(3):
                out[v, i] += w * (G[i, 0] * x + G[i, 1] * y + G[i, 2] * z)


@compiled
def fit_indentation(
    shapes: ShapeTables,
    skin: Floats,
    thickness: Floats,
    contacts: ContactSet,
    forces: Floats,
    stiffness: Floats,
    work: Floats,
    indentation: Floats,
) -> float:
    """Move the indentation at contacts to match the depths that the skin's stiffness gives.

    Return the largest depth in m, beyond the allowance, of a contact of the indented skin. Without
    the fit, a person lying on the ground was 4 mm inside it between contacts, since the flexibility
    is that of normal forces on patches, and 27 mm while damped flesh recovered from a fall. `skin`
    (n̄, 3) is in the world without indentation, `thickness` (n̄,) in m bounds the indentation, and
    `work` (n̄, 4) is zero before and after.
    """
    for _ in range(FITS):
        for c in range(contacts.total[0]):
            if contacts.areas[c] == 0 or shapes.kinds[contacts.colliders[c]] == OTHER:
                continue
            gap, p, q, r = _indented_gap(shapes, skin, indentation, contacts, c)
            far = -gap - max(forces[c], 0.0) / stiffness[c]
            if far < 0 and forces[c] <= 0:
                continue  # without a force the skin may separate
            for member in range(contacts.starts[c], contacts.starts[c + 1]):
                _add_target(
                    work[contacts.members[member]], contacts.fractions[member], far, p, q, r
                )
            for corner in range(3):
                weight = contacts.barycentric[c, corner]
                if weight > 0:
                    _add_target(work[contacts.corners[c, corner]], weight, far, p, q, r)
        for c in range(contacts.total[0]):
            for member in range(contacts.starts[c], contacts.starts[c + 1]):
                _move_towards_target(contacts.members[member], thickness, work, indentation)
            for corner in range(3):
                _move_towards_target(contacts.corners[c, corner], thickness, work, indentation)
    worst = 0.0
    for c in range(contacts.total[0]):
        if contacts.areas[c] > 0 and shapes.kinds[contacts.colliders[c]] != OTHER:
            worst = max(worst, -_indented_gap(shapes, skin, indentation, contacts, c)[0])
    return worst


@compiled_fused
def _add_target(out: Floats, weight: float, far: float, p: float, q: float, r: float) -> None:
    out[0] += weight * far * p
    out[1] += weight * far * q
    out[2] += weight * far * r
    out[3] += weight


@compiled_fused
def _move_towards_target(v: int, thickness: Floats, work: Floats, indentation: Floats) -> None:
    """Move the indentation of a vertex to the mean of its targets, within the bound."""
    weight, size = work[v, 3], 0.0
    if weight == 0:
        return
    for i in range(3):
        indentation[v, i] += work[v, i] / weight
        size += indentation[v, i] ** 2
    for i in range(4):
        work[v, i] = 0.0
    limit = MAX_INDENTATION * thickness[v]
    if size > limit * limit:
        for i in range(3):
            indentation[v, i] *= limit / math.sqrt(size)


@compiled_fused
def _indented_gap(
    shapes: ShapeTables, skin: Floats, indentation: Floats, contacts: ContactSet, c: int
) -> tuple[float, float, float, float]:
    """Return the gap in m of contact c on the indented skin, with its allowance, and the normal."""
    x = y = z = 0.0
    for corner in range(3):
        weight, v = contacts.barycentric[c, corner], contacts.corners[c, corner]
        x += weight * (skin[v, 0] + indentation[v, 0])
        y += weight * (skin[v, 1] + indentation[v, 1])
        z += weight * (skin[v, 2] + indentation[v, 2])
    gap, p, q, r = signed_distance(shapes, contacts.colliders[c], x, y, z)
    return gap + contacts.allowances[c], p, q, r


@compiled
def depth_mismatch(
    shapes: ShapeTables,
    skin: Floats,
    indentation: Floats,
    contacts: ContactSet,
    system: ContactSystem,
) -> float:
    """Return the largest difference in m of a contact's depth from `system.predicted_depths`."""
    worst = 0.0
    for a in range(system.active[0]):
        c = system.active[1 + a]
        if contacts.areas[c] > 0 and shapes.kinds[contacts.colliders[c]] != OTHER:
            x = y = z = i = j = k = 0.0
            for corner in range(3):
                weight, v = contacts.barycentric[c, corner], contacts.corners[c, corner]
                x, y, z = x + weight * skin[v, 0], y + weight * skin[v, 1], z + weight * skin[v, 2]
                i, j = i + weight * indentation[v, 0], j + weight * indentation[v, 1]
                k += weight * indentation[v, 2]
            gap, p, q, r = signed_distance(shapes, contacts.colliders[c], x + i, y + j, z + k)
            gap -= p * i + q * j + r * k
            gap += contacts.allowances[c]
            worst = max(worst, abs(gap + system.predicted_depths[c]))
    return worst
