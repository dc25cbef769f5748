"""Newton's method on the reduced equation of motion, from forces at a pose to new coordinates.

In scaled coordinates z = ϒq bases need no scaling: (M̂ + τD̂ + τ²K̂) y = M̂ ϒv* + τ f̂, v⁺ = y/ϒ.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Self

import numpy as np

from supple.arrays import Floats, Ints
from supple.compiled.jit import compiled_fused
from supple.dynamics.integrators import StageCoefficients
from supple.elastic.densities.dispatch import resists_inversion
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

#: Names of the limits of a step, in the order of their bits.
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

#: Least ratio of the work zᵀf̂ of elastic forces to the linear work zᵀK₀z.
RESTORING = 0.25
#: Largest ratio of ½zᵀK₀z to the largest of the training motions at which nonlinear forces are
#: evaluated: displacements four times as large. Many clips are livelier than the training motions.
RANGE = 16.0
#: Part of the cubature tets of a material that resists inversion that counts as a limit where it is
#: inverted. In folds of the rest shape, a few often are.
INVERTED = 0.05
#: Factor on the displacement limit above which q is scaled down before displacements are computed.
FARTHEST = 1e6


class System(NamedTuple):
    """Small dense system of a step."""

    stiffness: Floats
    """(r, r) K̂, upper triangle."""
    matrix: Floats
    """M̂ + τD̂ + τ²K̂, padded for `cholesky`."""
    force: Floats
    """(r,) elastic forces."""
    external: Floats
    """(r,) all other forces."""
    right: Floats
    """(r,) right-hand side, then the solution y."""
    work: Floats
    """(r,) scratch."""
    z: Floats
    """(r,) ϒq at which forces are linearised."""
    linear: Floats
    """(r,) K₀z."""
    iterate: Floats
    """(r,) current iterate of q at the end of the stage."""
    start_q: Floats
    start_v: Floats
    """(r,) q and v at the start of the integrator's stage."""
    peaks: Floats
    """(r,) largest displacement of a vertex for a unit of each column."""
    contact: Floats
    """(r, r) stiffness of contacts, upper triangle."""
    pressing: Ints
    """(1,) number of active contacts."""

    @classmethod
    def of(cls, peaks: Floats) -> Self:
        """Make arrays for r = len(peaks) modes."""
        r = len(peaks)
        vectors = (
            "force",
            "external",
            "right",
            "work",
            "z",
            "linear",
            "iterate",
            "start_q",
            "start_v",
        )
        return cls(
            stiffness=np.zeros((r, r)),
            matrix=padded_identity(r),
            peaks=peaks,
            contact=np.zeros((r, r)),
            pressing=np.zeros(1, np.int64),
            **{name: np.zeros(r) for name in vectors},
        )


class SolveSettings(NamedTuple):
    """Settings of the solution of the equation of motion."""

    first_stage: StageCoefficients
    """Stage of the first step after a jump of the coordinates."""
    stage: StageCoefficients
    contact_stage: StageCoefficients
    """Stages of all other steps, without and with contacts."""
    iterations: int
    substeps: int
    h: float
    """Seconds of a sub-step."""
    alpha: float
    beta: float
    """Rayleigh damping."""
    longest: float
    """Largest displacement of a cubature vertex, in m."""
    near: float
    """Largest extrapolation of the start of Newton's method by velocity, in m."""
    stiffness: float
    """Factor on elastic forces."""


class Coordinates(NamedTuple):
    """Reduced coordinates of one body, (r,) each: rows of `StateArrays`."""

    q: Floats
    v: Floats
    a: Floats
    q_before: Floats
    v_before: Floats


@compiled_fused
def _seconds_ahead(v: Floats, peaks: Floats, h: float, near: float) -> float:
    """Return the seconds by which the start of Newton's method is extrapolated: at most a step.

    The extrapolation moves no vertex by more than `near`, in m. In a rat's attack the error after
    one iteration is 0.29 with it and 0.35 without; after three iterations it is 0.29.
    """
    farthest = 0.0
    for i in range(len(v)):
        farthest = max(farthest, h * abs(v[i]) * peaks[i])
    if farthest <= near:
        return h
    return h * near / farthest if farthest < math.inf else 0.0


@compiled_fused
def advance(tables, points, work, settings, stage, state):  # type: ignore[no-untyped-def]
    """Advance the `Coordinates` of a state in place; return bit flags of limits that were applied.

    `tables` and `work` are `StepTables` and `StepWork`, `settings` are `SolveSettings` and `stage`
    the `StageCoefficients`. `points` (k, 3) are rest positions of the cubature's vertices at the
    end of the step; `work.system.external` holds all forces but the elastic one.
    """
    system = work.system
    q, v, a, q_before, v_before = state
    now, before, divisor, lead, tau = stage
    flags = 0
    for _ in range(settings.substeps):
        n = len(q)
        start_q, start_v, iterate = system.start_q, system.start_v, system.iterate
        ahead = _seconds_ahead(v, system.peaks, settings.h, settings.near)
        if lead > 0:
            ahead = 0.0  # unresolved modes keep swinging: their velocity is a poor guess
        for i in range(n):
            iterate[i] = q[i] + ahead * v[i] if ahead > 0 else q[i]
            start_q[i] = (now * q[i] - before * q_before[i]) / divisor + lead * v[i]
            start_v[i] = (now * v[i] - before * v_before[i]) / divisor + lead * a[i]
        acted = 0
        for _ in range(settings.iterations):
            acted |= _newton(tables, points, work, settings, tau)
        for i in range(n):
            new_v = (iterate[i] - start_q[i]) / tau
            a[i] = (new_v - start_v[i]) / tau
            q_before[i], v_before[i] = q[i], v[i]
            q[i], v[i] = iterate[i], new_v
        flags |= acted | _limit(state, settings.longest, acted & RESET != 0, tables, work)
    return flags


@compiled_fused
def _newton(tables, points, work, settings, tau):  # type: ignore[no-untyped-def]
    """Take one iteration: linearise at `system.iterate` and replace it by the solution.

    Returns bit flags of the limits that were applied; see `LIMIT_NAMES`.
    """
    elastic, kind, scratch = tables.elastic, tables.kind, work.elastic
    blend, system = work.blend, work.system
    alpha, beta, stiff = settings.alpha, settings.beta, settings.stiffness
    column_scale, z, iterate, n = blend.column_scale, system.z, system.iterate, len(system.iterate)
    flags = 0
    for attempt in range(3):  # as it is; projected; projected without a stiffness at rest
        for i in range(n):
            z[i] = column_scale[i] * iterate[i]
        stiffness, force = system.stiffness, system.force
        for i in range(n):
            stiffness[i, i:n] = 0  # entries below the diagonal are not read
            force[i] = 0
        beyond = _scale_to_range(system, blend)
        left_out, squeezed = add_elastic(
            elastic, kind, attempt > 0, points, blend, system, beyond, scratch
        )
        if left_out > 0:
            flags |= REST
        if squeezed > (INVERTED * len(elastic.corners) if resists_inversion(kind) else 0):
            flags |= INVERSION
        matrix, right, work = system.matrix, system.right, system.work
        # ΔK corrects the cubature's stiffness. It does not fit where tets are left out, may be
        # indefinite far from the poses, and was unstable beside projected tets.
        trust = max(1 - 10 * left_out / len(elastic.corners), 0.0) if attempt < 1 else 0.0
        if blend.trained_energy[0] > 0:
            _add_linear_force(system, blend, beyond, attempt < 2)
        elif trust > 0:
            for i in range(n):
                work[i] = trust * z[i]
            packed_times(blend.correction, work, force)
            add_packed(blend.correction, trust, stiffness)
        combine(stiffness, stiff * (tau * beta + tau * tau), blend.mass, 1 + tau * alpha, matrix)
        if len(blend.damping):
            add_packed(blend.damping, stiff * tau * beta, matrix[:n, :n])  # it is padded
        size = 0.0
        for i in range(n):
            work[i] = stiff * column_scale[i] * (iterate[i] - system.start_q[i])
            size += abs(work[i])
            right[i] = system.external[i] - stiff * force[i]
        if size > 0:
            symmetric_times(stiffness, work, right)
        if system.pressing[0] > 0:
            _add_contact(system, column_scale, tau)
        right *= tau
        for i in range(n):
            work[i] = column_scale[i] * system.start_v[i]
        packed_times(blend.mass, work, right)
        if cholesky(matrix):
            solve(matrix, right)
            for i in range(n):
                iterate[i] = system.start_q[i] + tau * right[i] / column_scale[i]
            return flags
        flags |= STIFFNESS
    return flags | RESET  # the projected system fails only if it is not finite


@compiled_fused
def _scale_to_range(system: System, blend: Blend) -> float:
    """Scale z until ½zᵀK₀z is at most `RANGE` trained energies; return |z| before over after.

    The ratio is 1 for a z in the range, and for models trained on random samples, which have no
    range. For other models `linear` is set to K₀z of the unscaled z.
    """
    z, linear, energy = system.z, system.linear, 0.0
    if not blend.trained_energy[0] > 0:
        return 1.0
    for i in range(len(z)):
        linear[i] = 0.0
    packed_times(blend.correction, z, linear)
    for i in range(len(z)):
        energy += 0.5 * z[i] * linear[i]
    most = RANGE * blend.trained_energy[0]
    if not energy > most:
        return 1.0
    beyond = math.sqrt(energy / most)
    for i in range(len(z)):
        z[i] /= beyond
    return beyond


@compiled_fused
def _add_linear_force(system: System, blend: Blend, beyond: float, stiff: bool) -> None:
    """Add the linear force, and K₀ if `stiff`, to the nonlinear forces, which are bounded.

    The nonlinear force at the scaled z is multiplied by `beyond`, the result of `_scale_to_range`.
    It is scaled down where the work zᵀf̂ would be less than `RESTORING` zᵀK₀z, so that flesh has no
    equilibrium but its rest shape.
    """
    z, linear, force, n = system.z, system.linear, system.force, len(system.z)
    work, least, part = 0.0, 0.0, 1.0
    for i in range(n):
        work += z[i] * force[i]
        least += (RESTORING - 1) * z[i] * linear[i] / beyond
    if least < 0 and work < least:
        part = least / work
        for i in range(n):
            row = system.stiffness[i, i:n]
            for j in range(len(row)):
                row[j] *= part
    for i in range(n):
        force[i] = part * beyond * force[i] + linear[i]
    if stiff:
        add_packed(blend.correction, 1.0, system.stiffness)


@compiled_fused
def _add_contact(system: System, column_scale: Floats, tau: float) -> None:
    """Add contacts, linear in z, to the system; `external` has their force at z = 0.

    The damping βK excludes them: it acts on velocities relative to the rig, and would resist flesh
    that a moving rig presses against an obstacle. Contact forces include their own damping.
    """
    matrix, right, work, n = system.matrix, system.right, system.work, len(system.right)
    for i in range(n):
        row, contact = matrix[i, i:n], system.contact[i, i:n]
        for j in range(len(row)):
            row[j] += tau * tau * contact[j]
        work[i] = -column_scale[i] * system.start_q[i]
    symmetric_times(system.contact, work, right)


@compiled_fused
def _limit(state, limit, lost, tables, work):  # type: ignore[no-untyped-def]
    """Clamp displacements of the cubature's vertices to `limit` in m; return a bit flag or 0.

    If the state is `lost` or not finite, it is set to zero, and `RESET` is returned.
    """
    blend, peaks = work.blend, work.system.peaks
    q, v, a, q_before, v_before = state
    total, bound, n = 0.0, 0.0, len(q)
    for i in range(n):
        total += abs(q[i]) + abs(v[i])
        bound += abs(blend.column_scale[i] * q[i]) * peaks[i]
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
    if bound > FARTHEST * limit:  # too large for float32
        for i in range(n):
            q[i] *= FARTHEST * limit / bound
    longest = math.sqrt(_longest(tables.elastic, blend, work.elastic, q))
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
    """Return the square, in m², of the largest displacement of a cubature tet's corner."""
    longest = 0.0
    for group in range(len(elastic.width)):
        width, columns = elastic.width[group], elastic.columns[group]
        z = scratch.z[:width]
        for j in range(width):
            column = columns[j]
            z[j] = blend.column_scale[column] * q[column] if column >= 0 else 0.0
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
