"""Accelerations of the moving rest shape, and their reduced force (xu2016 eq. 23)."""

from __future__ import annotations

import math
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from supple.arrays import Floats, Ints, Singles
from supple.compiled.jit import compiled_fused, compiled_sums
from supple.compiled.simd import add_three_rows
from supple.dynamics.integrators import StageCoefficients

NEGLIGIBLE = 1e-7
#: Transport accelerations below this value, in m/s², are rounding errors of differences.
ROUNDING = 1e-8
#: Verdicts of `_accelerations`.
CALM, LIMITED, JUMPED = 0, 1, 2


class InertialTables(NamedTuple):
    """Inertial cubature, read only; its vertices are ordered by the regions that reach them."""

    basis: Singles
    """(m, …) blocks of 3 weighted rows a vertex, corrections included (xu2016 eq. 23)."""
    plain: NDArray
    """(m, …) blocks of 3 basis rows a vertex, as they are stored."""
    steps: Singles
    """(m, Σ width) quantisation steps of `plain`."""
    first: Ints
    width: Ints
    start: Ints
    columns: Ints
    """Fields of `RegionGroups`."""
    rows: Ints
    """(c′,) rows of the cubature's vertices."""
    masses: Floats
    """(c′,) masses of the cubature's vertices, in kg."""


class PointStage(NamedTuple):
    """Stage of an integrator for a `PointHistory`; it starts at now·x + before·x⁻."""

    now: float
    before: float
    """Weights of positions and velocities at the end of the last two steps; their sum is 1."""
    tau: float
    h: float
    """Seconds of the stage and of the step."""

    @classmethod
    def of(cls, stage: StageCoefficients, h: float) -> Self:
        """Convert the coefficients of a step of h."""
        return cls(stage.now / stage.divisor, 0.0 - stage.before / stage.divisor, stage.tau, h)


class PointHistory(NamedTuple):
    """Positions and velocities of points in the world at the last two steps, (…, c′, 3) each.

    Velocities are the integrator's differences of positions.
    """

    position: Floats
    position_before: Floats
    velocity: Floats
    velocity_before: Floats


class MotionSettings(NamedTuple):
    """Settings of the inertial forces of the rest shape."""

    first_stage: PointStage
    """Stage of the first step after a jump of the coordinates."""
    stage: PointStage
    acceleration_limit: float
    sculpted: float
    """1 if the sculpted shape already sags under the gravity of an unrotated root, else 0."""
    look_ahead: float
    """Steps by which accelerations are extrapolated."""
    gravity: Floats
    """(3,) gravity in the world, in m/s²."""
    transport: bool
    """Whether inertial forces of the changing basis act."""


class InertialScratch(NamedTuple):
    """Scratch arrays of the inertial vertices."""

    now: Floats
    """(c′, 3) positions in the world."""
    apparent: Floats
    """(c′, 3) accelerations less gravity, in the root's frame."""
    carried: Floats
    """(c′, 3) accelerations of the flesh by the changing basis."""
    local: Floats
    row: Singles
    """Scratch row, as wide as the widest block."""

    @classmethod
    def of(cls, tables: InertialTables) -> Self:
        """Make arrays for the tables."""
        c = len(tables.rows)
        widest = int(tables.width.max(initial=1))
        return cls(
            now=np.zeros((c, 3)),
            apparent=np.zeros((c, 3)),
            carried=np.zeros((c, 3)),
            local=np.zeros(widest),
            row=np.zeros(widest, np.float32),
        )


@compiled_fused
def all_finite(points: Floats) -> bool:
    """Return whether all positions (k, 3) are finite."""
    for k in range(len(points)):
        if not math.isfinite(points[k, 0] + points[k, 1] + points[k, 2]):
            return False
    return True


@compiled_fused
def inertial_force(  # type: ignore[no-untyped-def]
    tables, blend, points, root, rest, last, known, stage, settings, scratch, force
):
    """Set `force` (r,) to the reduced inertial force and gravity; classify the rig's motion.

    `points` (k, 3) are rest positions of the cubature's vertices. `rest` is the `PointHistory` of
    the inertial vertices in the world. `last` (c′, 3) has their accelerations at the last step, and
    is overwritten. `known` is the number of known derivatives of the rest shape's motion: with 0,
    accelerations are zero; with 1, the velocity is known; with 2, `last` is also known.
    Accelerations are finite differences by the integrator's `stage`, as for the flesh.
    `scratch.carried` holds the accelerations that `transport_acceleration` wrote; `scratch.now`
    receives positions in the world. Returns `CALM`, `LIMITED` or `JUMPED`.
    """
    limit, ahead, gravity = settings.acceleration_limit, settings.look_ahead, settings.gravity
    carried, apparent = scratch.carried, scratch.apparent
    verdict = _accelerations(points, tables.rows, root, rest, stage, limit, scratch)
    if known == 0:
        apparent[:] = 0
        verdict = CALM
    if verdict == JUMPED or known < 2:
        ahead = 0.0
    if verdict == JUMPED:
        carried[:] = 0
    for s in range(len(apparent)):
        x = apparent[s, 0] + ahead * (apparent[s, 0] - last[s, 0])
        y = apparent[s, 1] + ahead * (apparent[s, 1] - last[s, 1])
        z = apparent[s, 2] + ahead * (apparent[s, 2] - last[s, 2])
        squared = x * x + y * y + z * z
        part = 1.0 if squared <= limit * limit else limit / math.sqrt(squared)
        x = part * x + carried[s, 0] - gravity[0]
        y = part * y + carried[s, 1] - gravity[1]
        z = part * z + carried[s, 2] - gravity[2]
        for i in range(3):
            last[s, i] = apparent[s, i]
            in_root = root[0, i] * x + root[1, i] * y + root[2, i] * z
            apparent[s, i] = in_root + settings.sculpted * gravity[i]
    force[:] = 0
    _add_inertial_force(tables, blend, scratch, force)
    return verdict


@compiled_fused
def _accelerations(points, rows, root, rest, stage, limit, scratch):  # type: ignore[no-untyped-def]
    """Write accelerations of inertial vertices in the world to `scratch.apparent`.

    `scratch.now` receives positions in the world; `rest` is their history. Accelerations are
    clamped to `limit` (`LIMITED`). If their root mean square exceeds it, the body was teleported,
    and all are zero (`JUMPED`). Returns `CALM`, `LIMITED` or `JUMPED`.
    """
    now, out = scratch.now, scratch.apparent
    squared, verdict = 0.0, CALM
    rate = 1 / (stage.tau * stage.tau)
    for s in range(len(rows)):
        x, y, z = points[rows[s], 0], points[rows[s], 1], points[rows[s], 2]
        square = 0.0
        for i in range(3):
            now[s, i] = root[i, 0] * x + root[i, 1] * y + root[i, 2] * z + root[i, 3]
            out[s, i] = (now[s, i] - _end_without_forces(rest, s, i, stage)) * rate
            square += out[s, i] * out[s, i]
        squared += square
        if not square <= limit * limit:
            part = limit / math.sqrt(square)
            verdict = LIMITED
            for i in range(3):
                out[s, i] *= part
    if not squared <= limit * limit * len(rows):
        out[:] = 0
        return JUMPED
    return verdict


@compiled_fused
def _add_inertial_force(tables, blend, scratch, force):  # type: ignore[no-untyped-def]
    """Add −Σ (R Σ w_i B_i)ᵀ m a to `force`, for the accelerations `scratch.apparent`.

    Sums over the poses are of float32, those over vertices of float64.
    """
    weights, frames, apparent = blend.weights, blend.frames, scratch.apparent
    local, row = scratch.local, scratch.row
    length, basis = tables.basis.shape[1], tables.basis.reshape(tables.basis.size)
    for group in range(len(tables.width)):
        width = tables.width[group]
        columns, total, vertex_row = tables.columns[group], local[:width], row[:width]
        total[:] = 0
        first, last = tables.first[group], tables.first[group + 1]
        for s in range(first, last):
            f, m = frames[tables.rows[s]], tables.masses[s]
            x, y, z = apparent[s, 0], apparent[s, 1], apparent[s, 2]
            a = m * (f[0] * x + f[3] * y + f[6] * z)
            b = m * (f[1] * x + f[4] * y + f[7] * z)
            c = m * (f[2] * x + f[5] * y + f[8] * z)
            start = tables.start[group] + 3 * width * (s - first)
            vertex_row[:] = 0
            for pose in range(len(weights)):
                w = weights[pose]
                if abs(w) < NEGLIGIBLE:
                    continue
                x, y, z = np.float32(w * a), np.float32(w * b), np.float32(w * c)
                add_three_rows(basis, pose * length + start, width, x, y, z, row)
            for j in range(width):
                total[j] += vertex_row[j]
        for j in range(width):
            if columns[j] >= 0:
                force[columns[j]] -= total[j]


@compiled_fused
def inertial_displacements(tables, blend, root, q, local, out):  # type: ignore[no-untyped-def]
    """Write displacements U q (c′, 3) of the inertial vertices, in world axes, to `out`."""
    basis, frames, column_scale = blend.inertial, blend.frames, blend.column_scale
    for group in range(len(tables.width)):
        width, columns, z = tables.width[group], tables.columns[group], local
        for j in range(width):
            z[j] = column_scale[columns[j]] * q[columns[j]] if columns[j] >= 0 else 0.0
        start = tables.start[group]
        for s in range(tables.first[group], tables.first[group + 1]):
            x = _along(basis, start, width, z)
            y = _along(basis, start + width, width, z)
            w = _along(basis, start + 2 * width, width, z)
            start += 3 * width
            row = tables.rows[s]
            a = frames[row, 0] * x + frames[row, 1] * y + frames[row, 2] * w
            b = frames[row, 3] * x + frames[row, 4] * y + frames[row, 5] * w
            c = frames[row, 6] * x + frames[row, 7] * y + frames[row, 8] * w
            for i in range(3):
                out[s, i] = root[i, 0] * a + root[i, 1] * b + root[i, 2] * c


@compiled_sums
def _along(basis, start, width, z):  # type: ignore[no-untyped-def]
    row = basis[start : start + width]
    total = 0.0
    for j in range(width):
        total += row[j] * z[j]
    return total


@compiled_fused
def transport_acceleration(
    ahead: Floats, flesh: PointHistory, stage: PointStage, limit: float, out: Floats
) -> None:
    """Write accelerations (c′, 3) of the flesh by the changing basis, for unaccelerated q.

    u = U(p) q has ü = U q̈ + 2 U̇ q̇ + Ü q. The papers omit the last two terms: Coriolis and
    centrifugal forces, and forces of changing columns. An implicit stage of τ has accelerations
    (q⁺ − q*)/τ² of coordinates, with q* their end without forces, but (U⁺q⁺ − u*)/τ² of
    displacements: they differ by (U⁺q* − u*)/τ², where `ahead` is U⁺q*. Results are clamped to
    `limit`. Rounding errors become zero, so that a body at rest stays at rest.
    """
    rate = 1 / (stage.tau * stage.tau)
    for s in range(len(out)):
        square = 0.0
        for i in range(3):
            out[s, i] = (ahead[s, i] - _end_without_forces(flesh, s, i, stage)) * rate
            square += out[s, i] * out[s, i]
        if square < ROUNDING * ROUNDING:
            out[s, 0], out[s, 1], out[s, 2] = 0.0, 0.0, 0.0
        if not square <= limit * limit:
            part = limit / math.sqrt(square) if square < math.inf else 0.0
            for i in range(3):
                out[s, i] = part * out[s, i] if part > 0 else 0.0


@compiled_fused
def _end_without_forces(points: PointHistory, s: int, i: int, stage: PointStage) -> float:
    """Return coordinate i of point s at the end of a stage without forces."""
    now, before, tau, _ = stage
    return now * (points.position[s, i] + tau * points.velocity[s, i]) + before * (
        points.position_before[s, i] + tau * points.velocity_before[s, i]
    )


@compiled_fused
def advance_history(points: PointHistory, now: Floats, known: bool, stage: PointStage) -> None:
    """Store positions `now` (c′, 3) after a step, and velocities: means over it if not `known`."""
    weight, weight_before, tau, h = stage
    for s in range(len(now)):
        for i in range(3):
            if known:
                start = (
                    weight * points.position[s, i] + weight_before * points.position_before[s, i]
                )
                velocity = (now[s, i] - start) / tau
                points.velocity_before[s, i] = points.velocity[s, i]
            else:
                velocity = (now[s, i] - points.position[s, i]) / h
                points.velocity_before[s, i] = velocity
            points.position_before[s, i] = points.position[s, i]
            points.position[s, i], points.velocity[s, i] = now[s, i], velocity


@compiled_fused
def reset_history(points: PointHistory, now: Floats) -> None:
    """Store positions `now` (c′, 3) of points at rest: velocities are zero."""
    for s in range(len(now)):
        for i in range(3):
            points.position[s, i] = points.position_before[s, i] = now[s, i]
            points.velocity[s, i] = points.velocity_before[s, i] = 0.0
