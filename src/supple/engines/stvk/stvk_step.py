"""Kernels that step a Saint Venant–Kirchhoff body in its basis (barbic2005 App. C).

A step solves M (w − v*) + τ (D w + f(q* + σw) − f_ext) = 0 for the new velocity w, with
D = αM + βK(q* + σw). Integrators that are `trapezoidal` in `supple.dynamics.integrators` have
σ = τ, q* = q + (h − τ) v and v* = v + (h − τ) a. Newmark's method with β and γ has τ = γh,
σ = βh/γ, and (½ − β/γ) h² a is added to q*. With β = 0, central differences, q* is the new
position: the step is explicit but for damping. Each iteration evaluates K for both the tangent and
D, as in appendix C. Several iterations also take the derivative of D w, as they do not converge
otherwise where damping is strong; it is left out where it makes the system indefinite.

The tangent's coefficients are read as half of a symmetric matrix, in one stream. For K₂ they are
symmetric in all four of a, b, c, d. With squares of q halved, they are a symmetric matrix of pairs
ab by pairs cd, of which a step reads one half: it takes as long as its coefficients take to arrive
from memory. The half is stored as it is read: in blocks of four rows by eight columns, pairs
filled up with zeros to a multiple of eight.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from supple.arrays import Floats, Ints
from supple.compiled.jit import compiled_fused, compiled_sums
from supple.compiled.simd import LANES, WORD, VectorCode, vector_kernel
from supple.compiled.tables import ArgumentTable, table_contents
from supple.engines.stvk.inversion_watch import WatchArrays, watch_inversion
from supple.linalg.upper_triangle import cholesky, solve

#: Rows of a block of coefficients.
_ROWS = 4
_ZERO, _HALVES = ir.Constant(WORD, 0), ir.Constant(WORD, LANES // _ROWS)
#: Rows of the state, and then of scratch.
POSITION, VELOCITY, ACCELERATION, _START_Q, _START_V, _HERE, _SPEED, _RIGHT = range(8)
#: Rows of arrays that are packed like an upper triangle: K₀ and M are given.
K0, MASS, TANGENT, SECANT, SLOPE = range(5)
STATE_ROWS, PACKED_ROWS, TERM_ROWS = 8, 5, 4
#: Entries of `StepArrays.settings`; `CONVERGED` is the change of q at which Newton's method ends,
#: `STAGE` is σ, and `BEND` is the factor of a in q*.
STEP, TAU, ALPHA, BETA, CONVERGED, STAGE, BEND = range(7)
#: Entries of `StepArrays.counts`: Newton iterations; numbers of steps: shifted, unconverged, and
#: inverted ones; and whether `system` is the factor of a constant matrix.
ITERATIONS, SHIFTED, UNCONVERGED, INVERTED, FACTORISED = range(5)
#: Largest number of shifts of an indefinite system, each ten times the one before.
_MOST_SHIFTS = 16


class StepArrays(NamedTuple):
    """Arrays that a step reads and writes."""

    settings: Floats  # (7,) from `STEP` to `BEND`
    counts: Ints  # (5,) from `ITERATIONS` to `FACTORISED`
    blocks: NDArray  # coefficients of K₂, from `quadratic_blocks`
    linear: NDArray  # (r, pairs) coefficients of K₁
    terms: NDArray  # (4, pairs), scratch: monomials, K₁[q], K₂[q, q] and q
    packed: Floats  # (5, pairs): K₀, M, and scratch
    state: Floats  # (8, r): q, its velocity and acceleration, and scratch
    system: Floats  # from `padded_identity`
    watch: WatchArrays  # samples that may be inverted


def padded_pairs(r: int) -> int:
    """Return r(r + 1)/2, the entries of an upper triangle, rounded up to a multiple of eight."""
    return -(-(r * (r + 1) // 2) // LANES) * LANES


def quadratic_blocks(tangent: Floats, r: int, dtype: Any) -> NDArray:
    """Return blocks of the upper triangle of K₂, flat, from the tangent's coefficients."""
    size = padded_pairs(r)
    quadratic = tangent[:, 1 + r :]
    first, second = np.triu_indices(r)
    padded = np.zeros((size, size), dtype)
    padded[: len(quadratic), : len(quadratic)] = quadratic * np.where(first == second, 2.0, 1.0)
    groups = size // LANES
    blocks = padded.reshape(groups, LANES // _ROWS, _ROWS, groups, LANES).swapaxes(2, 3)
    return np.concatenate([blocks[k, :, k:].ravel() for k in range(groups)])


def _add_symmetric(typing: Any, blocks: Any, x: Any, size: Any, out: Any) -> Any:
    """Add a symmetric matrix, given by `quadratic_blocks`, times x to `out`, both (size,)."""

    def write(code: VectorCode) -> None:
        blocks, x, size, out = code.args
        builder = code.builder
        vector = ir.VectorType(blocks.type.pointee, LANES)
        at = cgutils.alloca_once_value(builder, _ZERO)
        sums = [cgutils.alloca_once(builder, vector) for _ in range(_ROWS)]

        def rows(place: Any) -> list[Any]:
            return [code.load(blocks, code.at(place, LANES * i)) for i in range(_ROWS)]

        with code.columns(_ZERO, size) as (corner, _), code.count(_ZERO, _HALVES, 1) as (half, _):
            first = code.at(corner, (half, _ROWS))
            factors = [code.spread(x, code.at(first, i)) for i in range(_ROWS)]
            # The block on the diagonal is whole, and is not mirrored.
            beside, place = code.load(x, corner), builder.load(at)
            for row, total in zip(rows(place), sums, strict=True):
                builder.store(builder.fmul(row, beside), total)
            builder.store(code.at(place, _ROWS * LANES), at)
            with code.columns(code.at(corner, LANES), size) as (column, _):
                place = builder.load(at)
                beside, below = code.load(x, column), code.load(out, column)
                for row, factor, total in zip(rows(place), factors, sums, strict=True):
                    builder.store(code.multiply_add(row, beside, builder.load(total)), total)
                    below = code.multiply_add(row, factor, below)
                code.store(below, out, column)
                builder.store(code.at(place, _ROWS * LANES), at)
            for i, total in enumerate(sums):
                slot = builder.gep(out, [code.at(first, i)])
                value = code.total(builder.load(total))
                builder.store(builder.fadd(builder.load(slot), value), slot)

    return vector_kernel(write, (blocks, x, size, out))


add_symmetric: Any = intrinsic(_add_symmetric)


@compiled_sums
def advance(steps: int, forces: Floats, trace: Floats, bound: ArgumentTable) -> int:
    """Make `steps` steps; return the number made before one diverged.

    `forces` (t, r) are external forces of each step; a single row acts in all. `trace` (steps, r)
    receives q after each step, unless it has no rows. `bound` are the `StepArrays` of the body.
    """
    body = table_contents(bound)
    several = len(forces) > 1
    for step in range(steps):
        force = forces[step] if several else forces[0]
        if not _one_step(force, body):
            return step
        if len(trace):
            copy_row(body.state[POSITION], trace[step])
    return steps


@compiled_sums
def _one_step(force: Floats, body: StepArrays) -> bool:
    """Make one step; return False, with the state unchanged, if it diverges."""
    settings, counts, state = body.settings, body.counts, body.state
    h, tau, sigma, bend = settings[STEP], settings[TAU], settings[STAGE], settings[BEND]
    r = state.shape[1]
    q, v, a = state[POSITION], state[VELOCITY], state[ACCELERATION]
    start_q, start_v, here, w = state[_START_Q], state[_START_V], state[_HERE], state[_SPEED]
    # A single iteration starts at the old position, as in the papers; several converge to the
    # same solution, sooner from a good guess.
    only = counts[ITERATIONS] == 1 and sigma > 1e-6 * h  # smaller ones cancel in moved / σ
    for i in range(r):
        moved = (h - sigma) * v[i] + bend * a[i]
        start_q[i] = q[i] + moved
        start_v[i] = v[i] + (h - tau) * a[i]
        w[i] = -moved / sigma if only else v[i] + tau * a[i]
        here[i] = q[i] if only else start_q[i] + sigma * w[i]
    if not _newton(force, body):
        return False
    total = 0.0
    for i in range(r):
        total += abs(w[i]) + abs(start_q[i] + sigma * w[i])
    if not math.isfinite(total):
        return False
    for i in range(r):
        q[i] = start_q[i] + sigma * w[i]
        v[i] = w[i]
        a[i] = (w[i] - start_v[i]) / tau
    counts[INVERTED] += watch_inversion(h, force, body.watch, q, v, a)
    return True


@compiled_fused
def _newton(force: Floats, body: StepArrays) -> bool:
    """Solve for the velocity by Newton's method; return False if no system could be solved."""
    settings, counts, blocks, linear, terms, packed, state, system, _ = body
    sigma, tolerance = settings[STAGE], settings[CONVERGED]
    here, w, right = state[_HERE], state[_SPEED], state[_RIGHT]
    constant = sigma == 0.0 and settings[BETA] == 0.0
    bends = counts[ITERATIONS] > 1 and sigma * settings[BETA] > 0.0
    converged, shifted = False, False
    for _ in range(counts[ITERATIONS]):
        evaluate_tangent(here, blocks, linear, terms, packed)
        if bends:
            evaluate_slope(here, w, blocks, linear, terms, packed[SLOPE])
        _residual(force, settings, packed, state)
        if not constant or counts[FACTORISED] == 0:
            shift = factorise(settings, bends, packed[MASS], packed, len(w), system)
            if shift < 0.0:
                return False
            shifted = shifted or shift > 0.0
            counts[FACTORISED] = constant
        solve(system, right)
        largest = 0.0
        for i in range(len(w)):
            w[i] += right[i]
            here[i] += sigma * right[i]
            largest = max(largest, abs(right[i]))
        converged = sigma * largest <= tolerance
        if converged:
            break
    counts[SHIFTED] += shifted
    counts[UNCONVERGED] += not converged
    return True


@compiled_fused
def copy_row(source, out):  # type: ignore[no-untyped-def]
    """Copy the source to `out`."""
    for j in range(len(out)):
        out[j] = source[j]


@compiled_fused
def evaluate_tangent(q, blocks, linear, terms, packed):  # type: ignore[no-untyped-def]
    """Evaluate tangent K₀ + K₁ + K₂ and secant K₀ + ½K₁ + ⅓K₂ at q, packed."""
    r, at = len(q), 0
    products, first, second, factors = terms[0], terms[1], terms[2], terms[3]
    for i in range(r):
        factors[i] = q[i]  # in the precision of the coefficients
        factor, tail, row = q[i], q[i:r], products[at : at + r - i]
        for j in range(len(row)):
            row[j] = factor * tail[j]
        row[0] *= 0.5
        at += r - i
    first[:] = 0.0
    second[:] = 0.0
    add_symmetric(blocks, products, len(products), second)
    for c in range(r):
        _add_scaled(linear[c], factors[c], first)
    constant, tangent, secant = packed[K0], packed[TANGENT], packed[SECANT]
    third = 1.0 / 3.0
    for j in range(len(constant)):
        tangent[j] = constant[j] + first[j] + second[j]
        secant[j] = constant[j] + 0.5 * first[j] + third * second[j]


@compiled_fused
def evaluate_slope(q, w, blocks, linear, terms, out):  # type: ignore[no-untyped-def]
    """Evaluate K₁[w] + 2 K₂[q, w], the derivative of the tangent along w, packed."""
    r, at = len(q), 0
    products, slope, factors = terms[0], terms[1], terms[3]
    for i in range(r):
        factors[i] = w[i]
        x, y, row = q[i], w[i], products[at : at + r - i]
        for j in range(len(row)):
            row[j] = x * w[i + j] + y * q[i + j]
        row[0] *= 0.5
        at += r - i
    slope[:] = 0.0
    add_symmetric(blocks, products, len(products), slope)
    for c in range(r):
        _add_scaled(linear[c], factors[c], slope)
    for j in range(len(out)):
        out[j] = slope[j]


@compiled_fused
def _add_scaled(row, factor, out):  # type: ignore[no-untyped-def]
    for j in range(len(out)):
        out[j] += factor * row[j]


@compiled_sums
def _residual(force, settings, packed, state):  # type: ignore[no-untyped-def]
    """Write τ f_ext − M (w − v*) − τ (D w + S q), S the secant, to the right side."""
    tau, alpha, beta = settings[TAU], settings[ALPHA], settings[BETA]
    here, w, start_v, right = state[_HERE], state[_SPEED], state[_START_V], state[_RIGHT]
    r, at, keep, bend = len(w), 0, 1.0 + tau * alpha, tau * beta
    for i in range(r):
        right[i] = tau * force[i]
    for i in range(r):
        n = r - i
        mass, secant = packed[MASS, at : at + n], packed[SECANT, at : at + n]
        damping = packed[TANGENT, at : at + n]
        x, y, z, target = here[i:r], w[i:r], start_v[i:r], right[i:r]
        first_x, first_y, first_z = tau * x[0], bend * y[0], keep * y[0] - z[0]
        total = mass[0] * first_z + secant[0] * first_x + damping[0] * first_y
        for j in range(1, n):
            total += mass[j] * (keep * y[j] - z[j])
            total += tau * secant[j] * x[j] + bend * damping[j] * y[j]
            target[j] -= mass[j] * first_z + secant[j] * first_x + damping[j] * first_y
        target[0] -= total
        at += n


@compiled_fused
def factorise(settings, bends, masses, packed, r, system):  # type: ignore[no-untyped-def]
    """Factorise the system with these masses, shifted if it is indefinite.

    `bends` includes SLOPE, which is set to zero where the system is indefinite with it. Return the
    shift as a multiple of M: 0 for a positive definite system, −1 if no shift helps.
    """
    if bends:
        _fill(settings, True, 0.0, masses, packed, r, system)
        if cholesky(system):
            return 0.0
        packed[SLOPE, :] = 0.0
    shift = 0.0
    _fill(settings, False, shift, masses, packed, r, system)
    while not cholesky(system):
        shift = 1.0 if shift == 0.0 else 10.0 * shift
        if not shift < 10.0**_MOST_SHIFTS:
            return -1.0
        _fill(settings, False, shift, masses, packed, r, system)
    return shift


@compiled_fused
def _fill(settings, bends, shift, masses, packed, r, system):  # type: ignore[no-untyped-def]
    """Write (1 + τα + shift) M + τ(β + σ) K, and τσβ SLOPE, to the upper triangle."""
    tau = settings[TAU]
    inertia = 1.0 + tau * settings[ALPHA] + shift
    stiff, at = tau * (settings[BETA] + settings[STAGE]), 0
    for i in range(r):
        n = r - i
        row, mass = system[i, i:r], masses[at : at + n]
        tangent = packed[TANGENT, at : at + n]
        for j in range(n):
            row[j] = inertia * mass[j] + stiff * tangent[j]
        at += n
    if bends:
        at, bend = 0, tau * settings[STAGE] * settings[BETA]
        for i in range(r):
            row, slope = system[i, i:r], packed[SLOPE, at : at + r - i]
            for j in range(len(row)):
                row[j] += bend * slope[j]
            at += r - i
