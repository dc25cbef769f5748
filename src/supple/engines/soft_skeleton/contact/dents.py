"""Dents: what contact moves the skin beside bones and handles, and how deep things are in it."""

from __future__ import annotations

import math

from supple.arrays import Floats, Ints, ShortInts, Singles
from supple.compiled.jit import compiled, compiled_fused
from supple.engines.soft_skeleton.bones.body_points import PointTables
from supple.engines.soft_skeleton.contact.pressing_tables import Pressing
from supple.engines.soft_skeleton.contact.touches import Touches
from supple.mesh.obstacles import OTHER
from supple.mesh.shape_tables import ShapeTables, signed_distance

#: Part of its flexibility that is left to flesh which is pressed onto the bone.
HARDEST = 0.05
#: Dents are no deeper than this part of the way to the bone.
MOST_DENT = 0.8
#: Times that dents are fitted to contacts which share vertices.
FITS = 3


@compiled_fused
def softness(touches: Touches, c: int, thickness: Floats) -> float:
    return max(1.0 - touches.depths[c] / thickness[touches.corners[c, 0]], HARDEST)


@compiled
def write_dents(
    touches: Touches,
    forces: Floats,
    spread: tuple[Ints, ShortInts, Singles],
    motion: tuple[Ints, ShortInts, Singles],
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
    for c in range(touches.total[0]):
        if touches.areas[c] > 0 and forces[c] > 0:
            soft = softness(touches, c, thickness)
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
def fit_dents(
    shapes: ShapeTables,
    skin: Floats,
    thickness: Floats,
    touches: Touches,
    forces: Floats,
    grips: Floats,
    work: Floats,
    dents: Floats,
) -> float:
    """Move dents where contacts are, so that these are as deep in things as the skin gives way.

    Return how deep in m the deepest contact of the dented skin is inside of its thing.

    Dents are those of normal forces on patches of a skin whose points have ways and shapes of their
    own, and flesh that is let go comes back slowly: a person lying on the ground was 4 mm inside
    of it between contacts that carry, and 27 mm while the flesh came back from a fall.

    Parameters
    ----------
    shapes, skin
        Things, and (n̄, 3) the skin in the world without dents.
    thickness
        (n̄,) how deep bone is below it, m: no dent goes that far.
    touches, forces, grips
        Contacts, their elastic forces in N, and the skin's own stiffness in N/m.
    work
        (n̄, 4), zero before and after.
    dents
        (n̄, 3) changed.
    """
    for _ in range(FITS):
        for c in range(touches.total[0]):
            if touches.areas[c] == 0 or shapes.kinds[touches.things[c]] == OTHER:
                continue
            gap, p, q, r = _dented_gap(shapes, skin, dents, touches, c)
            far = -gap - max(forces[c], 0.0) / grips[c]
            if far < 0 and forces[c] <= 0:
                continue  # skin that does not press need not touch
            for member in range(touches.starts[c], touches.starts[c + 1]):
                _want(work[touches.members[member]], touches.parts[member], far, p, q, r)
            for corner in range(3):
                share = touches.shares[c, corner]
                if share > 0:
                    _want(work[touches.corners[c, corner]], share, far, p, q, r)
        for c in range(touches.total[0]):
            for member in range(touches.starts[c], touches.starts[c + 1]):
                _fit(touches.members[member], thickness, work, dents)
            for corner in range(3):
                _fit(touches.corners[c, corner], thickness, work, dents)
    worst = 0.0
    for c in range(touches.total[0]):
        if touches.areas[c] > 0 and shapes.kinds[touches.things[c]] != OTHER:
            worst = max(worst, -_dented_gap(shapes, skin, dents, touches, c)[0])
    return worst


@compiled_fused
def _want(out: Floats, much: float, far: float, p: float, q: float, r: float) -> None:
    out[0] += much * far * p
    out[1] += much * far * q
    out[2] += much * far * r
    out[3] += much


@compiled_fused
def _fit(v: int, thickness: Floats, work: Floats, dents: Floats) -> None:
    """Move a dent by the mean of what contacts want, no farther than flesh goes."""
    much, size = work[v, 3], 0.0
    if much == 0:
        return
    for i in range(3):
        dents[v, i] += work[v, i] / much
        size += dents[v, i] ** 2
    for i in range(4):
        work[v, i] = 0.0
    most = MOST_DENT * thickness[v]
    if size > most * most:
        for i in range(3):
            dents[v, i] *= most / math.sqrt(size)


@compiled_fused
def _dented_gap(
    shapes: ShapeTables, skin: Floats, dents: Floats, touches: Touches, c: int
) -> tuple[float, float, float, float]:
    """Return how far a contact of the dented skin is outside of its thing, and the way out."""
    x = y = z = 0.0
    for corner in range(3):
        share, v = touches.shares[c, corner], touches.corners[c, corner]
        x += share * (skin[v, 0] + dents[v, 0])
        y += share * (skin[v, 1] + dents[v, 1])
        z += share * (skin[v, 2] + dents[v, 2])
    return signed_distance(shapes, touches.things[c], x, y, z)


@compiled
def depth_mismatch(
    shapes: ShapeTables, skin: Floats, dents: Floats, touches: Touches, out: Pressing
) -> float:
    """Return the largest difference of a depth from what the solver meant, in m."""
    worst = 0.0
    for a in range(out.active[0]):
        c = out.active[1 + a]
        if touches.areas[c] > 0 and shapes.kinds[touches.things[c]] != OTHER:
            x = y = z = i = j = k = 0.0
            for corner in range(3):
                share, v = touches.shares[c, corner], touches.corners[c, corner]
                x, y, z = x + share * skin[v, 0], y + share * skin[v, 1], z + share * skin[v, 2]
                i, j, k = i + share * dents[v, 0], j + share * dents[v, 1], k + share * dents[v, 2]
            gap, p, q, r = signed_distance(shapes, touches.things[c], x + i, y + j, z + k)
            gap -= p * i + q * j + r * k
            worst = max(worst, abs(gap + out.meant[c]))
    return worst
