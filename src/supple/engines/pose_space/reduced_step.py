"""One step of the reduced equation of motion, from blended tables to new coordinates.

In stretched coordinates z = ϒq bases need no scaling: (M̂ + τD̂ + τ²K̂) y = M̂ ϒv* + τ f̂, v⁺ = y/ϒ.
"""

from __future__ import annotations

import math

from supple.arrays import Floats, Singles
from supple.compiled.jit import compiled_fused
from supple.dynamics.integrators import BDF2, NEWMARK
from supple.engines.pose_space.blend import (
    blend_rows,
    correction_shares,
    fade_out,
    frames_of,
    pair_shares,
)
from supple.engines.pose_space.elastic_force import add_elastic
from supple.engines.pose_space.followed_frames import FrameTables, turn_further, turn_rest
from supple.engines.pose_space.runtime import (
    ElasticTables,
    InertialTables,
    PoseTables,
    SurfaceTables,
)
from supple.engines.pose_space.workspace import Blend, Room, System
from supple.linalg.upper_triangle import (
    add_packed,
    cholesky,
    combine,
    packed_times,
    solve,
    symmetric_times,
)
from supple.rig.poses.pose_weights import evaluate_weights

__all__ = ["FLAGS", "advance", "carrier_frames", "prepare"]


#: What limits may have acted in a step; a bit each, in this order.
FLAGS = ("acceleration", "teleport", "stiffness", "rest", "displacement", "reset", "inversion")
ACCELERATION, TELEPORT, STIFFNESS, REST, DISPLACEMENT, RESET, INVERSION = 1, 2, 4, 8, 16, 32, 64

#: Times the longest displacement: q of more is brought nearer before its displacements are taken.
FARTHEST = 1e6


@compiled_fused
def prepare(
    pose: Floats,
    tables: PoseTables,
    normalise: bool,
    negligible: float,
    elastic: ElasticTables,
    inertial: InertialTables,
    follow: FrameTables,
    points: Floats,
    blend: Blend,
) -> None:
    """All that depends on the pose but not on the state: weights, frames, bases, mass."""
    weights = blend.weights
    evaluate_weights(
        pose,
        tables.scales,
        tables.scaled_poses,
        tables.matrix,
        tables.constant,
        normalise,
        blend.distances,
        weights,
    )
    fade_out(weights, negligible)
    shares = blend.shares
    for i in range(len(weights)):
        shares[i] = weights[i]
    if len(blend.turns):
        blend_rows(tables.turns, shares, blend.active, blend.turns)
        if len(follow.corners):
            blend_rows(follow.turns, shares, blend.active, blend.tet_turns)
            turn_rest(
                follow, points, blend.tet_turns, blend.matrix, blend.quaternion, blend.further
            )
            turn_further(blend.further, follow.near, follow.near_shares, blend.turns)
        frames_of(blend.turns, tables.turns, weights, blend.frames)
    blend_rows(elastic.basis, shares, blend.active, blend.basis)
    blend_rows(inertial.plain, shares, blend.active, blend.inertial)
    pair_shares(weights, blend.pairs)
    blend_rows(tables.products, blend.pairs, blend.active, blend.mass)
    if len(tables.corrections):
        correction_shares(weights, tables.ends, blend.corrections)
        blend_rows(tables.corrections, blend.corrections, blend.active, blend.correction)
    n, at = len(blend.stretch), 0
    for i in range(n):
        # Column norms of the blend (xu2016 eq. 15); a column that cancels is left as it is.
        own = blend.mass[at]
        blend.stretch[i] = 1 / math.sqrt(own) if own > 1e-12 else 1.0
        at += n - i


@compiled_fused
def advance(
    elastic: ElasticTables,
    kind: int,
    points: Floats,
    blend: Blend,
    system: System,
    room: Room,
    method: tuple[int, int, int],
    numbers: tuple[float, float, float, float, float],
    q: Floats,
    v: Floats,
    a: Floats,
    q_before: Floats,
    v_before: Floats,
) -> int:
    """Advance the state, given as its arrays, in place; which limits acted.

    `points` (k, 3) are rest positions of the cubature's vertices at the end of the step;
    `system.external` holds all forces but the elastic one. `method` is integrator, iterations and
    sub-steps, `numbers` the sub-step, α, β, the longest displacement and a factor of stiffness.
    """
    integrator, iterations, substeps = method
    h, alpha, beta, limit, stiff = numbers
    flags = 0
    for _ in range(substeps):
        n = len(q)
        start_q, start_v, lin = system.start_q, system.start_v, system.lin
        tau = h
        for i in range(n):
            lin[i] = q[i]
            if integrator == NEWMARK:
                start_q[i], start_v[i] = q[i] + 0.5 * h * v[i], v[i] + 0.5 * h * a[i]
            elif integrator == BDF2:
                start_q[i] = (4 * q[i] - q_before[i]) / 3
                start_v[i] = (4 * v[i] - v_before[i]) / 3
            else:
                start_q[i], start_v[i] = q[i], v[i]
        if integrator == NEWMARK:
            tau = 0.5 * h
        elif integrator == BDF2:
            tau = 2 * h / 3
        acted = 0
        for _ in range(iterations):
            acted |= _newton(elastic, kind, points, blend, system, room, tau, alpha, beta, stiff)
        for i in range(n):
            new_v = (lin[i] - start_q[i]) / tau
            a[i] = (new_v - start_v[i]) / tau
            q_before[i], v_before[i] = q[i], v[i]
            q[i], v[i] = lin[i], new_v
        lost = acted & RESET != 0
        acted |= _limit(elastic, blend, system, room, limit, lost, q, v, a, q_before, v_before)
        flags |= acted
    return flags


@compiled_fused
def _newton(
    elastic: ElasticTables,
    kind: int,
    points: Floats,
    blend: Blend,
    system: System,
    room: Room,
    tau: float,
    alpha: float,
    beta: float,
    stiff: float,
) -> int:
    """One iteration: linearised at `lin`, which becomes the better end of the stage.

    Elastic forces are those of the model times `stiff`.
    """
    stretch, z, lin, n = blend.stretch, system.z, system.lin, len(system.lin)
    flags = 0
    for attempt in range(3):
        for i in range(n):
            z[i] = stretch[i] * lin[i]
        stiffness, force = system.stiffness, system.force
        for i in range(n):
            stiffness[i, i:n] = 0  # nobody reads below the diagonal
            force[i] = 0
        left_out, squeezed = add_elastic(
            elastic,
            kind,
            attempt > 0,
            blend.weights,
            points,
            blend.frames,
            blend.basis,
            z,
            room,
            stiffness,
            force,
        )
        if left_out > 0:
            flags |= REST
        if squeezed > 0:
            flags |= INVERSION
        matrix, right, work = system.matrix, system.right, system.work
        # ΔK makes up for what these tets miss: without some of them it is another body's, and far
        # from the poses it may be indefinite.
        trust = max(1 - 10 * left_out / len(elastic.corners), 0.0) if attempt < 2 else 0.0
        if trust > 0:
            for i in range(n):
                work[i] = trust * z[i]
            packed_times(blend.correction, work, force)
            add_packed(blend.correction, trust, stiffness)
        combine(stiffness, stiff * (tau * beta + tau * tau), blend.mass, 1 + tau * alpha, matrix)
        away = 0.0
        for i in range(n):
            work[i] = stiff * stretch[i] * (lin[i] - system.start_q[i])
            away += abs(work[i])
            right[i] = system.external[i] - stiff * force[i]
        if away > 0:  # backward Euler begins where it is
            symmetric_times(stiffness, work, right)
        if system.pressing[0] > 0:
            _add_contact(system, stretch, tau)
        right *= tau
        for i in range(n):
            work[i] = stretch[i] * system.start_v[i]
        packed_times(blend.mass, work, right)
        if cholesky(matrix):
            solve(matrix, right)
            for i in range(n):
                lin[i] = system.start_q[i] + tau * right[i] / stretch[i]
            return flags
        flags |= STIFFNESS
    return flags | RESET  # nothing helps: numbers that are not finite


@compiled_fused
def _add_contact(system: System, stretch: Floats, tau: float) -> None:
    """Contacts, linear in z; `external` has their force at z = 0.

    They take no part in the damping βK, which knows of velocities in the rig's frame only: it
    would hold flesh back from giving way to a rig that presses it. Theirs is in their force.
    """
    matrix, right, work, n = system.matrix, system.right, system.work, len(system.right)
    for i in range(n):
        row, own = matrix[i, i:n], system.contact[i, i:n]
        for j in range(len(row)):
            row[j] += tau * tau * own[j]
        work[i] = -stretch[i] * system.start_q[i]
    symmetric_times(system.contact, work, right)


@compiled_fused
def _limit(
    elastic: ElasticTables,
    blend: Blend,
    system: System,
    room: Room,
    limit: float,
    lost: bool,
    q: Floats,
    v: Floats,
    a: Floats,
    q_before: Floats,
    v_before: Floats,
) -> int:
    """Keep displacements of the cubature's vertices within `limit`; start anew if lost."""
    total, bound, n = 0.0, 0.0, len(q)
    for i in range(n):
        total += abs(q[i]) + abs(v[i])
        bound += abs(blend.stretch[i] * q[i]) * system.peaks[i]
    all_weights = 0.0
    for weight in blend.weights:
        all_weights += abs(weight)
    bound *= all_weights
    if lost or not (math.isfinite(total) and math.isfinite(bound)):
        for i in range(n):
            q[i], v[i], a[i], q_before[i], v_before[i] = 0.0, 0.0, 0.0, 0.0, 0.0
        return RESET
    if bound <= limit:
        return 0
    if bound > FARTHEST * limit:  # beyond what float32 could tell: first come nearer
        for i in range(n):
            q[i] *= FARTHEST * limit / bound
    longest = math.sqrt(_longest(elastic, blend, system, room, q))
    if not longest > limit and bound <= FARTHEST * limit:
        return 0
    part = min(limit / longest, 1.0) if longest > 0 else 1.0
    for i in range(n):
        q[i] *= part
        v[i], a[i] = 0.0, 0.0
        q_before[i], v_before[i] = q[i], 0.0
    return DISPLACEMENT


@compiled_fused
def _longest(elastic: ElasticTables, blend: Blend, system: System, room: Room, q: Floats) -> float:
    """The square of the longest displacement among the corners of cubature tets."""
    longest = 0.0
    for group in range(len(elastic.width)):
        width, columns = elastic.width[group], elastic.columns[group]
        z = room.z[:width]
        for j in range(width):
            column = columns[j]
            z[j] = blend.stretch[column] * q[column] if column >= 0 else 0.0
        count = 4 * (elastic.first[group + 1] - elastic.first[group])
        offset = elastic.start[group]
        for _ in range(count):
            squared = 0.0
            for _ in range(3):
                row = blend.basis[offset : offset + width]
                along = 0.0
                for j in range(width):
                    along += row[j] * z[j]
                squared += along * along
                offset += width
            longest = max(longest, squared)
    return longest


@compiled_fused
def carrier_frames(
    skin: SurfaceTables, follow: FrameTables, blend: Blend, turns: Singles, frames: Singles
) -> None:
    """Frames (b, 9) of the vertices that carry the skin, at the pose that was prepared."""
    blend_rows(skin.turns, blend.shares, blend.active, turns)
    if len(follow.corners):
        turn_further(blend.further, follow.carrier_near, follow.carrier_shares, turns)
    frames_of(turns, skin.turns, blend.weights, frames)
