"""Newton's method on the reduced equation of motion, from forces at a pose to new coordinates.

In stretched coordinates z = ϒq bases need no scaling: (M̂ + τD̂ + τ²K̂) y = M̂ ϒv* + τ f̂, v⁺ = y/ϒ.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Self

import numpy as np

from supple.arrays import Floats, Ints
from supple.compiled.jit import compiled_fused
from supple.dynamics.integrators import BDF2, NEWMARK
from supple.engines.pose_space.blend import Blend
from supple.engines.pose_space.elastic_force import ElasticScratch, ElasticTables, add_elastic
from supple.linalg.upper_triangle import (
    add_packed,
    cholesky,
    combine,
    packed_times,
    padded_identity,
    solve,
    symmetric_times,
)

#: Limits that may act in a step; a bit each, in this order.
LIMIT_NAMES = (
    "acceleration",
    "teleport",
    "stiffness",
    "rest",
    "displacement",
    "reset",
    "inversion",
)
ACCELERATION, TELEPORT, STIFFNESS, REST, DISPLACEMENT, RESET, INVERSION = 1, 2, 4, 8, 16, 32, 64

#: Times the longest displacement: q of more is brought nearer before its displacements are taken.
FARTHEST = 1e6


class System(NamedTuple):
    """Small dense system of a step."""

    stiffness: Floats
    """(r, r) K̂, upper triangle."""
    matrix: Floats
    """M̂ + τD̂ + τ²K̂, padded as `cholesky` wants it."""
    force: Floats
    """(r,) elastic."""
    external: Floats
    """(r,) all other forces."""
    right: Floats
    """(r,) right-hand side, then the solution y."""
    work: Floats
    """(r,) scratch."""
    z: Floats
    """(r,) ϒq where forces are linearised."""
    iterate: Floats
    """(r,) q at the end of the stage, as the iterations have it."""
    start_q: Floats
    start_v: Floats
    """(r,) q and v from which the integrator's stage starts."""
    peaks: Floats
    """(r,) largest displacement of a vertex for a unit of each column."""
    contact: Floats
    """(r, r) stiffness of contacts, upper triangle."""
    pressing: Ints
    """(1,) number of contacts that push."""

    @classmethod
    def of(cls, peaks: Floats) -> Self:
        """Make arrays for r = len(peaks) modes."""
        r = len(peaks)
        vectors = ("force", "external", "right", "work", "z", "iterate", "start_q", "start_v")
        return cls(
            stiffness=np.zeros((r, r)),
            matrix=padded_identity(r),
            peaks=peaks,
            contact=np.zeros((r, r)),
            pressing=np.zeros(1, np.int64),
            **{name: np.zeros(r) for name in vectors},
        )


@compiled_fused
def _seconds_ahead(v: Floats, peaks: Floats, h: float, near: float) -> float:
    """Return for how long velocity may lead Newton's method: a step, or as far as `near`.

    With one iteration from where velocity leads, a rat's attack is off by 0.29 rather than 0.35
    from where the step begins: as far as with three iterations.
    """
    farthest = 0.0
    for i in range(len(v)):
        farthest = max(farthest, h * abs(v[i]) * peaks[i])
    if farthest <= near:
        return h
    return h * near / farthest if farthest < math.inf else 0.0


@compiled_fused
def advance(
    elastic: ElasticTables,
    kind: int,
    points: Floats,
    blend: Blend,
    system: System,
    scratch: ElasticScratch,
    method: tuple[int, int, int],
    numbers: tuple[float, float, float, float, float, float],
    q: Floats,
    v: Floats,
    a: Floats,
    q_before: Floats,
    v_before: Floats,
) -> int:
    """Advance q, v and a (r,) of a state in place; return bits of the limits that acted.

    `points` (k, 3) are rest positions of the cubature's vertices at the end of the step;
    `system.external` holds all forces but the elastic one. `method` is integrator, iterations and
    sub-steps, `numbers` the sub-step, α, β, the longest displacement, how far velocity leads, and a
    factor of stiffness.
    """
    integrator, iterations, substeps = method
    h, alpha, beta, limit, near, stiff = numbers
    flags = 0
    for _ in range(substeps):
        n = len(q)
        start_q, start_v, iterate = system.start_q, system.start_v, system.iterate
        tau, ahead = h, _seconds_ahead(v, system.peaks, h, near)
        if integrator == NEWMARK:
            ahead = 0.0  # what it cannot resolve swings on, and would lead astray
        for i in range(n):
            iterate[i] = q[i] + ahead * v[i] if ahead > 0 else q[i]
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
            acted |= _newton(system, blend, elastic, kind, points, scratch, tau, alpha, beta, stiff)
        for i in range(n):
            new_v = (iterate[i] - start_q[i]) / tau
            a[i] = (new_v - start_v[i]) / tau
            q_before[i], v_before[i] = q[i], v[i]
            q[i], v[i] = iterate[i], new_v
        lost = acted & RESET != 0
        acted |= _limit(
            q, v, a, q_before, v_before, limit, lost, system.peaks, elastic, blend, scratch
        )
        flags |= acted
    return flags


@compiled_fused
def _newton(
    system: System,
    blend: Blend,
    elastic: ElasticTables,
    kind: int,
    points: Floats,
    scratch: ElasticScratch,
    tau: float,
    alpha: float,
    beta: float,
    stiff: float,
) -> int:
    """Take one iteration: linearise at `system.iterate` and replace it by the solution.

    Elastic forces are those of the model times `stiff`. Returns bits of the limits that acted.
    """
    stretch, z, iterate, n = blend.stretch, system.z, system.iterate, len(system.iterate)
    flags = 0
    for attempt in range(2):
        for i in range(n):
            z[i] = stretch[i] * iterate[i]
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
            scratch,
            stiffness,
            force,
        )
        if left_out > 0:
            flags |= REST
        if squeezed > 0:
            flags |= INVERSION
        matrix, right, work = system.matrix, system.right, system.work
        # ΔK makes up for what these tets miss: without some of them it is another body's, and far
        # from the poses it may be indefinite. Beside tets that were made definite it still threw
        # flesh about.
        trust = max(1 - 10 * left_out / len(elastic.corners), 0.0) if attempt < 1 else 0.0
        if trust > 0:
            for i in range(n):
                work[i] = trust * z[i]
            packed_times(blend.correction, work, force)
            add_packed(blend.correction, trust, stiffness)
        combine(stiffness, stiff * (tau * beta + tau * tau), blend.mass, 1 + tau * alpha, matrix)
        away = 0.0
        for i in range(n):
            work[i] = stiff * stretch[i] * (iterate[i] - system.start_q[i])
            away += abs(work[i])
            right[i] = system.external[i] - stiff * force[i]
        if away > 0:
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
                iterate[i] = system.start_q[i] + tau * right[i] / stretch[i]
            return flags
        flags |= STIFFNESS
    return flags | RESET  # nothing helps: numbers that are not finite


@compiled_fused
def _add_contact(system: System, stretch: Floats, tau: float) -> None:
    """Add contacts, linear in z, to the system; `external` has their force at z = 0.

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
    q: Floats,
    v: Floats,
    a: Floats,
    q_before: Floats,
    v_before: Floats,
    limit: float,
    lost: bool,
    peaks: Floats,
    elastic: ElasticTables,
    blend: Blend,
    scratch: ElasticScratch,
) -> int:
    """Keep displacements of the cubature's vertices within `limit`; start anew if lost."""
    total, bound, n = 0.0, 0.0, len(q)
    for i in range(n):
        total += abs(q[i]) + abs(v[i])
        bound += abs(blend.stretch[i] * q[i]) * peaks[i]
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
    longest = math.sqrt(_longest(elastic, blend, scratch, q))
    if not longest > limit and bound <= FARTHEST * limit:
        return 0
    part = min(limit / longest, 1.0) if longest > 0 else 1.0
    for i in range(n):
        q[i] *= part
        v[i], a[i] = 0.0, 0.0
        q_before[i], v_before[i] = q[i], 0.0
    return DISPLACEMENT


@compiled_fused
def _longest(elastic: ElasticTables, blend: Blend, scratch: ElasticScratch, q: Floats) -> float:
    """Return the square of the longest displacement among the corners of cubature tets."""
    longest = 0.0
    for group in range(len(elastic.width)):
        width, columns = elastic.width[group], elastic.columns[group]
        z = scratch.z[:width]
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
