"""The compiled solver behind `InverseKinematics`: a chain of joints, its end and a target.

Unknowns are the rotation vectors ω of the c joints, 3c numbers x. The objective is
½‖target − end‖² + ½ L² θ² + ½ ρ² ‖x − preferred‖² within low ≤ x ≤ high, with θ the angle left to
the target orientation and L the length of the chain.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from supple.arrays import Floats
from supple.compiled.jit import compiled
from supple.maths.quaternions import exponential, multiply
from supple.rig.skeleton.chain_kinematics import chain_span, residual_and_jacobian, with_workspace

#: Step, in radians, of the differences that approximate second derivatives.
STEP = 1e-5
#: ρ as a fraction of the chain's length per radian.
STRONG, WEAK = 0.02, 1e-3
#: Residual that ends the search, relative to the length.
DONE = 1e-8
#: Gradient that counts as zero, in squared lengths per radian.
STEEPEST = 1e-12
MOST, MOST_SHIFTS = 60, 12
FIRST_DAMPING = 1e-6
#: Largest rotation in one iteration; Newton steps near a stretched chain can be huge.
LONGEST = 1.0


@compiled
def solve_chain(chain, goal, within, start):  # type: ignore[no-untyped-def]
    """Solve for rotation vectors (3c,); return them, remaining distance and angle, and iterations.

    `chain` is the argument of `with_workspace`. `goal` is target (3,), orientation (4,), whether
    the orientation counts, and the length L. `within` is preferred, low and high (3c,).
    """
    chain = with_workspace(chain)
    target, _, _, length = goal
    preferred, low, high = within
    top, reach = chain_span(chain[0], preferred, low, high)
    count = len(start)
    residual, jacobian = np.empty(6), np.empty((6, count))
    best, best_left, total = start.copy(), np.inf, 0
    x = start.copy()
    for attempt in range(3):
        iterations, saddle = _approach(chain, goal, within, x, residual, jacobian)
        total += iterations
        remaining = _left(chain, goal, x, residual, jacobian)
        if remaining < best_left:
            best_left = remaining
            best[:] = x
        if remaining < 1e-4 * length or not (saddle or _within_reach(top, target, reach)):
            break
        _start_elsewhere(attempt, best, low, high, x)
    _left(chain, goal, best, residual, jacobian)
    distance = math.sqrt(residual[0] ** 2 + residual[1] ** 2 + residual[2] ** 2)
    angle = math.sqrt(residual[3] ** 2 + residual[4] ** 2 + residual[5] ** 2) / length
    return best, distance, angle, total


@compiled
def _approach(chain, goal, within, x, residual, jacobian):  # type: ignore[no-untyped-def]
    """Minimise the distance to the target from x, in place; return iterations and saddle flag.

    The method of multipliers: Newton's method first minimises with a strong preference, which keeps
    the end from the target; then the target is shifted by the remaining distance until none is
    left. Of all poses that reach the target this gives the preferred one. If it does not converge,
    the target is out of reach, and a weak preference is used.
    """
    target, orientation, turn, length = goal
    preferred, low, high = within
    bounds = (preferred, low, high, STRONG * length)
    shifted, spun = target.copy(), orientation.copy()
    _left(chain, goal, x, residual, jacobian)
    _balance(x, bounds, length, residual, jacobian)
    _shift(residual, length, shifted, spun)
    beyond = (shifted, spun, turn, length)
    iterations, saddle = _descend(chain, beyond, bounds, x, residual, jacobian)
    remaining = _left(chain, goal, x, residual, jacobian)
    kept = x.copy()
    for _ in range(MOST_SHIFTS):
        if remaining < DONE * length:
            return iterations, saddle
        _shift(residual, length, shifted, spun)
        beyond = (shifted, spun, turn, length)
        iterations += _descend(chain, beyond, bounds, x, residual, jacobian)[0]
        now = _left(chain, goal, x, residual, jacobian)
        if now > 0.5 * remaining:
            break
        remaining = now
        kept[:] = x
    x[:] = kept
    weak = (preferred, low, high, WEAK * length)
    more, saddle = _descend(chain, goal, weak, x, residual, jacobian)
    if _left(chain, goal, x, residual, jacobian) > remaining:
        x[:] = kept
    return iterations + more, saddle


@compiled
def _balance(x, bounds, length, residual, jacobian):  # type: ignore[no-untyped-def]
    """Write the residual r at which x is stationary: Jᵀ r = ρ² (x − preferred).

    A search that starts at a solution then stays there; at the preferred pose r is zero.
    """
    preferred, low, high, preference = bounds
    gram, factor, right = np.zeros((6, 6)), np.empty((6, 6)), np.zeros(6)
    for k in range(len(x)):
        if low[k] < x[k] < high[k]:
            for a in range(6):
                right[a] += jacobian[a, k] * preference * preference * (x[k] - preferred[k])
                for b in range(6):
                    gram[a, b] += jacobian[a, k] * jacobian[b, k]
    all_free = np.ones(6, dtype=np.bool_)
    _factorise(gram, all_free, 1e-6 * length * length, factor)
    _solve(factor, right, all_free, residual)


@compiled
def _shift(residual: Floats, length: float, target: Floats, orientation: Floats) -> None:
    """Shift `target` by the residual, and rotate `orientation` by its angles, in place."""
    spin, before = np.empty(4), orientation.copy()
    for k in range(3):
        target[k] += residual[k]
    exponential(residual[3:] / length, spin)
    multiply(spin, before, orientation)


@compiled
def _left(chain, goal, x, residual, jacobian) -> float:  # type: ignore[no-untyped-def]
    residual_and_jacobian(chain, goal, x, residual, jacobian)
    return math.sqrt((residual**2).sum())


@compiled
def _within_reach(top: Floats, target: Floats, reach: float) -> bool:
    """Return whether the target is nearer than the chain reaches; limits may still exclude it."""
    squared = 0.0
    for k in range(3):
        squared += (target[k] - top[k]) ** 2
    return squared < reach**2


@compiled
def _start_elsewhere(attempt: int, best: Floats, low: Floats, high: Floats, out: Floats) -> None:
    """Write another starting point: near the best point, then near the middle of the limits."""
    for k in range(len(out)):
        beside = 0.2 + 0.1 * (k % 3) if k % 2 else -0.2 - 0.1 * (k % 3)
        middle = 0.5 * (low[k] + high[k])
        out[k] = best[k] + beside if attempt == 0 else middle + 0.3 * beside
        out[k] = min(max(out[k], low[k]), high[k])


@compiled
def _descend(chain, goal, bounds, x, residual, jacobian):  # type: ignore[no-untyped-def]
    """Minimise the objective from x, in place; return iterations and whether it ended on a saddle.

    `bounds` is preferred, low and high (3c,), and ρ in metres per radian.
    """
    preferred, low, high, preference = bounds
    length = goal[3]
    unit = length * length
    count = len(x)
    gradient, step, trial = np.empty(count), np.empty(count), np.empty(count)
    hessian, factor = np.empty((count, count)), np.empty((count, count))
    free = np.empty(count, dtype=np.bool_)
    damping = FIRST_DAMPING * unit
    value = _value(chain, goal, bounds, x, residual, jacobian)
    for iteration in range(MOST):
        steepest = 0.0
        for k in range(count):
            total = preference * preference * (x[k] - preferred[k])
            for row in range(6):
                total -= jacobian[row, k] * residual[row]
            gradient[k] = total
            blocked = (x[k] <= low[k] and total > 0) or (x[k] >= high[k] and total < 0)
            free[k] = low[k] < high[k] and not blocked
            if free[k]:
                steepest = max(steepest, abs(total))
        _fill_hessian(chain, goal, x, free, residual, jacobian, preference, hessian)
        if steepest < STEEPEST * unit:
            return iteration, not _factorise(hessian, free, 0.0, factor)
        accepted = False
        while damping < 1e8 * unit:
            if not _factorise(hessian, free, damping, factor):
                damping = max(4 * damping, 1e-6 * unit)
                continue
            _solve(factor, gradient, free, step)
            change = _bounded_step(x, step, low, high, trial)
            reached = _value(chain, goal, bounds, trial, residual, jacobian)
            if reached < value:
                accepted = True
                x[:] = trial
                small = value - reached <= 1e-15 * value and change < 1e-9
                value = reached
                damping = 0.1 * damping if damping > 1e-12 * unit else 0.0
                if small:
                    return iteration + 1, False
                break
            if change < 1e-10:
                break
            damping = max(4 * damping, 1e-6 * unit)
        if not accepted:
            # Rounding hides any further progress; residual and Jacobian are those of the trial.
            return iteration + 1, False
    return MOST, False


@compiled
def _bounded_step(x: Floats, step: Floats, low: Floats, high: Floats, out: Floats) -> float:
    """Write x minus the step, shortened and within the limits; return the largest change."""
    longest = 0.0
    for k in range(len(x)):
        longest = max(longest, abs(step[k]))
    part = min(1.0, LONGEST / longest) if longest > 0 else 1.0
    change = 0.0
    for k in range(len(x)):
        out[k] = min(max(x[k] - part * step[k], low[k]), high[k])
        change = max(change, abs(out[k] - x[k]))
    return change


@compiled
def _value(chain, goal, bounds, x, residual, jacobian) -> float:  # type: ignore[no-untyped-def]
    residual_and_jacobian(chain, goal, x, residual, jacobian)
    total = 0.0
    for row in range(6):
        total += residual[row] ** 2
    for k in range(len(x)):
        total += (bounds[3] * (x[k] - bounds[0][k])) ** 2
    return 0.5 * total


@compiled
def _fill_hessian(  # type: ignore[no-untyped-def]
    chain, goal, x, free, residual, jacobian, preference, out
):
    """Write the objective's Hessian JᵀJ + ρ²I − Σ r ∇²end, of Jacobian J and residual r.

    The last term is differenced from Jᵀr at constant r; it is left out if r is small, and for
    entries that are not free, which `_factorise` ignores.
    """
    count = len(x)
    for a in range(count):
        for b in range(count):
            total = 0.0
            for row in range(6):
                total += jacobian[row, a] * jacobian[row, b]
            out[a, b] = total + (preference * preference if a == b else 0.0)
    size = 0.0
    for row in range(6):
        size += residual[row] ** 2
    if size < (1e-7 * goal[3]) ** 2:
        return
    shifted_residual, other, shifted = np.empty(6), np.empty((6, count)), x.copy()
    change = np.zeros((count, count))
    for a in range(count):
        if not free[a]:
            continue
        for sign in (1.0, -1.0):
            shifted[a] = x[a] + sign * STEP
            residual_and_jacobian(chain, goal, shifted, shifted_residual, other)
            for b in range(count):
                total = 0.0
                for row in range(6):
                    total += other[row, b] * residual[row]
                if sign > 0:
                    change[a, b] = total
                else:
                    change[a, b] = (change[a, b] - total) / (2 * STEP)
        shifted[a] = x[a]
    for a in range(count):
        for b in range(count):
            out[a, b] -= 0.5 * (change[a, b] + change[b, a])


@compiled
def _factorise(matrix: Floats, free: NDArray[np.bool_], damping: float, out: Floats) -> bool:
    """Write the Cholesky factor of the free part plus damping; False if not positive definite."""
    for a in range(len(matrix)):
        for b in range(a + 1):
            used = free[a] and free[b]
            total = matrix[a, b] if used else 0.0
            if a == b:
                total = total + damping if used else 1.0
            for k in range(b):
                total -= out[a, k] * out[b, k]
            if a == b:
                if not total > 0:
                    return False
                out[a, a] = math.sqrt(total)
            else:
                out[a, b] = total / out[b, b]
    return True


@compiled
def _solve(factor: Floats, right: Floats, free: NDArray[np.bool_], out: Floats) -> None:
    count = len(right)
    for a in range(count):
        total = right[a] if free[a] else 0.0
        for k in range(a):
            total -= factor[a, k] * out[k]
        out[a] = total / factor[a, a]
    for a in range(count - 1, -1, -1):
        total = out[a]
        for k in range(a + 1, count):
            total -= factor[k, a] * out[k]
        out[a] = total / factor[a, a]
