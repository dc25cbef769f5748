"""Kernels for the system of a free body's step: its deformation and rotation.

    p_start + τ (½ Ω·∂I/∂q Ω + Ω·∂h/∂q w − D w − f(q* + τw)) − hᵀΩ − M w = 0

for w, where Ω = I⁻¹ (Rᵀ L − h w) with L known, and I, h, R at the end of the step. Newton's
matrix is the matrix of a body whose rotation follows its deformation, M − hᵀI⁻¹h + τD + τ²K. It is
positive definite, and omits only terms that are smaller by a factor of h|Ω|.

Six numbers are a symmetric matrix (xx, yy, zz, xy, xz, yz), four a unit quaternion (x, y, z, w)
that rotates the body's frame into the world's.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from supple.arrays import Floats
from supple.compiled.jit import compiled_fused, compiled_sums
from supple.engines.stvk.rigid_integrals import RigidMoments
from supple.engines.stvk.stvk_step import (
    BETA,
    MASS,
    POSITION,
    SECANT,
    SLOPE,
    TANGENT,
    VELOCITY,
    StepArrays,
    evaluate_slope,
    evaluate_tangent,
    factorise,
)
from supple.linalg.upper_triangle import packed_times, solve

#: First rows of the results of `evaluate_turning`: h, ∂I/∂q, and Σ v_i h₁[:, i].
COUPLING, _INERTIA_SLOPES, _TWISTS = 0, 3, 9
_SUM_ROWS = 12
_ENTRIES = (0, 1, 2, 0, 0, 1), (0, 1, 2, 1, 2, 2)

#: Rows of the state of q after POSITION and VELOCITY: PULL is ṗ without external forces, CHANGE the
#: last change of v. Others are scratch, LOAD with the reduced forces on vertices.
PULL, MOMENTUM, CHANGE = range(2, 5)
START_Q, START_P, HERE, SPEED, _RIGHT, _CONSTANT, LOAD = range(5, 12)
STATE_ROWS = 12

#: Rows of the state of the body: OMEGA_CHANGE is the last change of Ω. Others are scratch.
CENTRE, LINEAR, ANGULAR, TURN, OMEGA, OMEGA_CHANGE = range(6)
NEW_LINEAR, NEW_ANGULAR, NEW_TURN, NEW_OMEGA, MEAN, LOCAL = range(6, 12)
SPIN_ROWS = 12

#: Rows of arrays that are packed like an upper triangle, after those of `stvk_step`: the mass
#: without rigid motion, M − hᵀI⁻¹h, and the system's matrix with M in its place.
_DEFORMING, _MATRIX = 5, 6
PACKED_ROWS = 7

#: Largest number of iterations on rotation terms, and the rotation in rad at which they end.
_MOST_TURNS, _STILL = 60, 1e-11


class TurningArrays(NamedTuple):
    """Coefficients of the inertia by shape, and results of `evaluate_turning`."""

    table: Floats  # (r, 9r) coefficients of h and ∂I/∂q that multiply q_i
    base: Floats  # (9, r) constants of h and ∂I/∂q
    inertia_0: Floats  # (6,) I₀
    sums: Floats  # (12, r) h, ∂I/∂q and Σ v_i h₁[:, i], at the last evaluated state
    inertia: Floats  # (6,) I at the last evaluated state

    @classmethod
    def of(cls, moments: RigidMoments) -> TurningArrays:
        """Lay out a body's moments for steps."""
        r = len(moments.shape_mass)
        constant, linear, quadratic = moments.inertia_terms
        table = np.empty((r, 9, r))
        table[:, :3] = moments.coupling_terms[1].swapaxes(0, 1)
        table[:, 3:] = quadratic[_ENTRIES].swapaxes(0, 1)
        base = np.vstack([moments.coupling_terms[0], linear[_ENTRIES]])
        return cls(
            table.reshape(r, 9 * r),
            base,
            constant[_ENTRIES].copy(),
            np.zeros((_SUM_ROWS, r)),
            np.zeros(6),
        )


@compiled_sums
def evaluate_turning(q, v, turning):  # type: ignore[no-untyped-def]
    """Evaluate h, ∂I/∂q, Σ v_i h₁[:, i] and I at q, into `sums` and `inertia` of `turning`."""
    table, base, inertia_0, sums, inertia = turning
    r = len(q)
    flat = sums.reshape(12 * r)
    flat[:] = 0.0
    products, twists = flat[: 9 * r], flat[9 * r :]
    for i in range(r):
        row, factor, speed = table[i], q[i], v[i]
        for j in range(len(products)):
            products[j] += factor * row[j]
        for j in range(len(twists)):
            twists[j] += speed * row[j]
    for k in range(3):
        row_k, constant = sums[k], base[k]
        for j in range(r):
            row_k[j] += constant[j]
    for k in range(3, 9):
        row_k, slope, total = sums[k], base[k], 0.0
        for j in range(r):
            total += q[j] * (slope[j] + row_k[j])
            row_k[j] = slope[j] + 2.0 * row_k[j]
        inertia[k - 3] = inertia_0[k - 3] + total


@compiled_fused
def _quadratic_form(x, slopes, j):  # type: ignore[no-untyped-def]
    """Return x·A x for the symmetric matrix A (six numbers) in column j of `slopes` (6, r)."""
    diagonal = x[0] * x[0] * slopes[0, j] + x[1] * x[1] * slopes[1, j] + x[2] * x[2] * slopes[2, j]
    mixed = x[0] * x[1] * slopes[3, j] + x[0] * x[2] * slopes[4, j] + x[1] * x[2] * slopes[5, j]
    return diagonal + 2.0 * mixed


@compiled_fused
def _solve_inertia(inertia, x):  # type: ignore[no-untyped-def]
    """Replace x by I⁻¹ x, with I = L D Lᵀ."""
    a, b, c = inertia[0], inertia[1], inertia[2]
    d, e, f = inertia[3], inertia[4], inertia[5]
    l10, l20 = d / a, e / a
    d1 = b - l10 * d
    g = f - l20 * d
    l21 = g / d1
    d2 = c - l20 * e - l21 * g
    y1 = x[1] - l10 * x[0]
    z = (x[2] - l20 * x[0] - l21 * y1) / d2
    y = y1 / d1 - l21 * z
    x[0], x[1], x[2] = x[0] / a - l10 * y - l20 * z, y, z


@compiled_fused
def set_still(state, turning, spin):  # type: ignore[no-untyped-def]
    """Set Ω and p of a body whose q was changed and does not move, with the same L."""
    omega, momentum, sums = spin[OMEGA], state[MOMENTUM], turning.sums
    evaluate_turning(state[POSITION], state[VELOCITY], turning)
    into_body(spin[TURN], spin[ANGULAR], omega)
    _solve_inertia(turning.inertia, omega)
    spin[OMEGA_CHANGE, :] = 0.0
    for j in range(len(momentum)):
        momentum[j] = 0.0
        for k in range(3):
            momentum[j] += sums[COUPLING + k, j] * omega[k]
        state[PULL, j] = 0.0


@compiled_fused
def turned(turn, angular, time, out):  # type: ignore[no-untyped-def]
    """Write the quaternion `turn` rotated for `time` s by `angular` in the body's frame (Cayley).

    The angle is 2 atan(ωt/2) instead of ωt: they differ by third order in t, and this angle
    conserves the energy of a rigid body as well as its momentum.
    """
    x, y, z = 0.5 * time * angular[0], 0.5 * time * angular[1], 0.5 * time * angular[2]
    i, j, k, w = turn[0], turn[1], turn[2], turn[3]
    a, b, c = i + w * x + j * z - k * y, j + w * y + k * x - i * z, k + w * z + i * y - j * x
    d = w - i * x - j * y - k * z
    scale = 1.0 / np.sqrt(a * a + b * b + c * c + d * d)
    out[0], out[1], out[2], out[3] = a * scale, b * scale, c * scale, d * scale


@compiled_fused
def into_world(turn, vector, out):  # type: ignore[no-untyped-def]
    """Write R v of the quaternion `turn`; `out` may be `vector`."""
    _rotated(turn[0], turn[1], turn[2], turn[3], vector, out)


@compiled_fused
def into_body(turn, vector, out):  # type: ignore[no-untyped-def]
    """Write Rᵀ v of the quaternion `turn`; `out` may be `vector`."""
    _rotated(-turn[0], -turn[1], -turn[2], turn[3], vector, out)


@compiled_fused
def _rotated(i, j, k, w, vector, out):  # type: ignore[no-untyped-def]
    x, y, z = vector[0], vector[1], vector[2]
    a, b, c = 2.0 * (j * z - k * y), 2.0 * (k * x - i * z), 2.0 * (i * y - j * x)
    out[0] = x + w * a + j * c - k * b
    out[1] = y + w * b + k * a - i * c
    out[2] = z + w * c + i * b - j * a


@compiled_fused
def newton(body: StepArrays, turning: TurningArrays, spin: Floats) -> bool:
    """Iterate on the velocity; return False if no system could be solved."""
    settings, counts, blocks, linear, terms, packed, state, system, _ = body
    tau, tolerance = settings[1], settings[4]
    here, w = state[HERE], state[SPEED]
    _deforming_mass(packed, turning.sums, turning.inertia, spin[LOCAL])
    converged, shifted = False, False
    bends = counts[0] > 1 and settings[BETA] > 0.0
    for _ in range(counts[0]):
        evaluate_tangent(here, blocks, linear, terms, packed)
        if bends:
            evaluate_slope(here, w, blocks, linear, terms, packed[SLOPE])
        # M − hᵀI⁻¹h + τD + τ²K; only deformation is damped.
        shift = factorise(settings, bends, packed[_DEFORMING], packed, len(w), system)
        if shift < 0.0:
            return False
        _constant_part(tau, packed, state)
        _write_matrix(settings, packed)
        if bends:
            _linearise_damping(tau * tau * settings[BETA], packed, state)
        shifted = shifted or shift > 0.0
        # A shifted system is solved once, as its iterations would converge elsewhere.
        turns = 1 if shift > 0.0 else _MOST_TURNS
        change, settled = _settle(turns, settings, packed, state, system, turning, spin)
        if not (math.isfinite(change) and (settled or shift > 0.0)):
            return False
        converged = settled and change <= tolerance
        if converged or counts[0] == 1:
            break
        for i in range(len(w)):
            here[i] = state[START_Q, i] + tau * w[i]
    counts[1] += shifted
    counts[2] += not converged
    return True


@compiled_fused
def _deforming_mass(packed, sums, inertia, x):  # type: ignore[no-untyped-def]
    """Write M − hᵀI⁻¹h at the start of the step, packed."""
    r, at = sums.shape[1], 0
    first, second, third = sums[COUPLING], sums[COUPLING + 1], sums[COUPLING + 2]
    for i in range(r):
        n = r - i
        x[0], x[1], x[2] = first[i], second[i], third[i]
        _solve_inertia(inertia, x)
        a, b, c = x[0], x[1], x[2]
        mass, out = packed[MASS, at : at + n], packed[_DEFORMING, at : at + n]
        one, two, three = first[i:r], second[i:r], third[i:r]
        for j in range(n):
            out[j] = mass[j] - (a * one[j] + b * two[j] + c * three[j])
        at += n


@compiled_sums
def _constant_part(tau, packed, state):  # type: ignore[no-untyped-def]
    """Write p_start − τ (S here + K (q* − here)), which does not depend on w; S is the secant."""
    here, start, out, difference = state[HERE], state[START_Q], state[_CONSTANT], state[_RIGHT]
    out[:] = 0.0
    for j in range(len(difference)):
        difference[j] = start[j] - here[j]
    packed_times(packed[SECANT], here, out)
    packed_times(packed[TANGENT], difference, out)
    for j in range(len(out)):
        out[j] = state[START_P, j] - tau * out[j]


@compiled_fused
def _linearise_damping(scale, packed, state):  # type: ignore[no-untyped-def]
    """Add the change of D w with q, `scale` times SLOPE (w − its present value), to the system."""
    slope, out, constant, right = packed[SLOPE], packed[_MATRIX], state[_CONSTANT], state[_RIGHT]
    for j in range(len(out)):
        out[j] += scale * slope[j]
    right[:] = 0.0
    packed_times(slope, state[SPEED], right)
    for j in range(len(right)):
        constant[j] += scale * right[j]


@compiled_fused
def _write_matrix(settings, packed):  # type: ignore[no-untyped-def]
    """Write M + τD + τ²K, the matrix that multiplies w, packed."""
    tau, alpha, beta = settings[1], settings[2], settings[3]
    drag, stiff = tau * alpha, tau * (beta + tau)
    mass, deforming, tangent = packed[MASS], packed[_DEFORMING], packed[TANGENT]
    out = packed[_MATRIX]
    for j in range(len(out)):
        out[j] = mass[j] + (drag * deforming[j] + stiff * tangent[j])


@compiled_sums
def _settle(turns, settings, packed, state, system, turning, spin):  # type: ignore[no-untyped-def]
    """Iterate with one matrix; return the change of w, times τ, and whether it converged."""
    sums, inertia = turning.sums, turning.inertia
    h, tau, tolerance = settings[0], settings[1], settings[4]
    w, right, omega, local = state[SPEED], state[_RIGHT], spin[NEW_OMEGA], spin[LOCAL]
    total, change = 0.0, math.inf
    for turn in range(turns + 1):
        x, y, z = omega[0], omega[1], omega[2]
        # Done last, so that velocities have the momentum L to rounding.
        _update_rotation(h, tau, state, turning, spin)
        angle = h * max(abs(omega[0] - x), abs(omega[1] - y), abs(omega[2] - z))
        if (change <= tolerance and angle <= _STILL) or turn == turns:
            break
        _residual(tau, packed, state, sums, spin)
        solve(system, right)
        largest, local[0], local[1], local[2] = 0.0, 0.0, 0.0, 0.0
        for j in range(len(w)):
            w[j] += right[j]
            largest = max(largest, abs(right[j]))
            for k in range(3):
                local[k] += sums[COUPLING + k, j] * right[j]
        _solve_inertia(inertia, local)  # Ω follows at once
        for k in range(3):
            omega[k] -= local[k]
        change = tau * largest
        total += change
        if not math.isfinite(total):
            break
    return total, change <= tolerance and angle <= _STILL


@compiled_sums
def _update_rotation(h, tau, state, turning, spin):  # type: ignore[no-untyped-def]
    """Update q from w, R by the mean of the old and new Ω, and the new Ω from L at this q and R."""
    sums, inertia = turning.sums, turning.inertia
    here, w, omega, mean = state[HERE], state[SPEED], spin[NEW_OMEGA], spin[MEAN]
    for j in range(len(w)):
        here[j] = state[START_Q, j] + tau * w[j]
    evaluate_turning(here, w, turning)
    for k in range(3):
        mean[k] = 0.5 * (spin[OMEGA, k] + omega[k])
    turned(spin[TURN], mean, h, spin[NEW_TURN])
    into_body(spin[NEW_TURN], spin[NEW_ANGULAR], omega)
    for k in range(3):
        row, total = sums[COUPLING + k], 0.0
        for j in range(len(w)):
            total += row[j] * w[j]
        omega[k] -= total
    _solve_inertia(inertia, omega)


@compiled_sums
def _residual(tau, packed, state, sums, spin):  # type: ignore[no-untyped-def]
    """Write the residual of the module's equation for w, p_start + τ(…) − hᵀΩ − M w."""
    w, right, omega = state[SPEED], state[_RIGHT], spin[NEW_OMEGA]
    constant, slopes = state[_CONSTANT], sums[_INERTIA_SLOPES:_TWISTS]
    right[:] = 0.0
    packed_times(packed[_MATRIX], w, right)
    for j in range(len(w)):
        # Ω·∂h/∂q w has the opposite sign of the twist, as h₁ is antisymmetric.
        outward = 0.5 * _quadratic_form(omega, slopes, j)
        carried = 0.0
        for k in range(3):
            outward -= omega[k] * sums[_TWISTS + k, j]
            carried += omega[k] * sums[COUPLING + k, j]
        right[j] = constant[j] - right[j] + tau * outward - carried
