"""The minimisation problem of an implicit stage, and projected Newton between its bounds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from supple.arrays import Bools, Floats, Ints
from supple.compiled.jit import compiled_fused
from supple.compiled.simd import LANES
from supple.linalg.upper_triangle import cholesky, padded_identity, solve

#: Largest number of changes of the active set.
MOST_SETS = 12


@dataclass(eq=False)
class Springs:
    """Values set by the animator; (k,) for the free parameters.

    Damping of motion relative to the key is D = αM + βK at rest, and `stiffness` a factor on all
    flesh. `follow` is κ of springs ½ κ K_ii Δ² towards the key; `firmness`, `damping` and `mass`
    are factors of each parameter, `lower` and `upper` its bounds, `reach` its largest offset.
    """

    alpha: float
    beta: float
    stiffness: float
    follow: Floats
    firmness: Floats
    damping: Floats
    mass: Floats
    lower: Floats
    upper: Floats
    reach: Floats


@dataclass(eq=False)
class StageProblem:
    """Minimisation problem of one implicit stage of length τ, in the root's frame.

    `pose` (s,) is the key pose at its end, `target` (n, 3) x̂ the end of the stage without forces,
    `load` (n, 3) forces on tet vertices, and `push` (k,) forces on the free parameters. The stage
    of the coordinates starts at c* = `start` (K,), c = c* + τ ċ; `guess` (K,) is its end without
    forces. `contact` is A (k, k) and b (k,) of the energy ½ dᵀAd − bᵀd of obstacles, with d the
    parameters minus their guess; None without contact.
    """

    tau: float
    pose: Floats
    target: Floats
    load: Floats
    push: Floats
    start: Floats
    guess: Floats
    springs: Springs
    contact: tuple[Floats, Floats] | None = None


@dataclass(eq=False)
class SolverReport:
    """Counts of one stage by name, such as iterations and Jacobians, and limits that acted."""

    counts: dict[str, Any] = field(default_factory=dict)
    limits: tuple[str, ...] = ()


def bounds_away(stage: StageProblem, entries: Ints, size: int) -> tuple[Floats, Floats]:
    """Return bounds (K,) of coordinates: of parameters relative to the key, else infinite."""
    lower, upper = np.full(size, -np.inf), np.full(size, np.inf)
    write_bounds(stage, entries, lower, upper)
    return lower, upper


def write_bounds(stage: StageProblem, entries: Ints, lower: Floats, upper: Floats) -> None:
    """Write bounds of the parameters, relative to the key, into the front of (K,) arrays."""
    springs = stage.springs
    limits = springs.lower, springs.upper, springs.reach
    _write_bounds(stage.pose, entries, *limits, lower, upper)


@compiled_fused
def _write_bounds(
    pose: Floats,
    entries: Ints,
    low: Floats,
    high: Floats,
    reach: Floats,
    lower: Floats,
    upper: Floats,
) -> None:
    for i in range(len(entries)):
        # A key beyond its bounds stays where the animator set it.
        key = pose[entries[i]]
        lower[i] = max(min(low[i] - key, 0.0), -reach[i])
        upper[i] = min(max(high[i] - key, 0.0), reach[i])


class BoundedSystem:
    """Solver of min gᵀd + ½ dᵀHd with bounds on d, which caches the factor of H."""

    def __init__(self, size: int) -> None:
        #: (K,) d of the last call of `solve`.
        self.change = np.zeros(size)
        self._factor, self._order = padded_identity(size), np.full(1 + size, -1)
        self._held, self._trial = np.zeros(size, bool), np.zeros(size)

    def renew(self) -> None:
        """Discard the factor, for a new H."""
        self._order[0] = -1

    def solve(
        self, gradient: Floats, hessian: Floats, c: Floats, lower: Floats, upper: Floats
    ) -> bool:
        """Set `change` to the best d with c + d within bounds; return False if H is indefinite.

        The array of H may be larger than (K, K); H must not change until `renew`.
        """
        scratch = self._factor, self._order, self._held, self._trial
        return bool(_bounded_change(gradient, hessian, c, lower, upper, *scratch, self.change))


@compiled_fused
def _bounded_change(
    gradient: Floats,
    hessian: Floats,
    c: Floats,
    lower: Floats,
    upper: Floats,
    factor: Floats,
    order: Ints,
    held: Bools,
    trial: Floats,
    change: Floats,
) -> bool:
    """Write the d within bounds that minimises gᵀd + ½ dᵀHd; return False if H is not definite.

    Parameters at a bound whose slope points outwards are held, all others solved for, until none
    exceeds a bound and no held one moves inwards. `order` (1 + K,) has the number of parameters in
    `factor`, negative for another H, and their indices. The factor is reused if the indices match.
    """
    K = len(gradient)
    for i in range(K):
        change[i] = 0.0
        low, high = c[i] <= lower[i] and gradient[i] > 0, c[i] >= upper[i] and gradient[i] < 0
        held[i] = low or high
        if c[i] < lower[i]:
            change[i], held[i] = lower[i] - c[i], True
        elif c[i] > upper[i]:
            change[i], held[i] = upper[i] - c[i], True
    for sets in range(MOST_SETS):
        if not _fits(order, held) and not _factorised(hessian, held, factor, order):
            return False
        _solve_free(gradient, hessian, change, held, factor, order, trial)
        beyond = False
        for i in range(K):
            if held[i]:
                continue
            if trial[i] < lower[i] - c[i]:
                change[i], held[i], beyond = lower[i] - c[i], True, True
            elif trial[i] > upper[i] - c[i]:
                change[i], held[i], beyond = upper[i] - c[i], True, True
        if not beyond:
            for i in range(K):
                if not held[i]:
                    change[i] = trial[i]
            if sets + 1 == MOST_SETS or not _released(gradient, hessian, c, lower, change, held):
                return True
    for i in range(K):  # not converged: the last solution, clipped
        value = change[i] if held[i] else trial[i]
        change[i] = min(max(value, lower[i] - c[i]), upper[i] - c[i])
    return True


@compiled_fused
def _fits(order: Ints, held: Bools) -> bool:
    """Return whether the factor is of the parameters that are not held."""
    if order[0] < 0:
        return False
    at = 0
    for i in range(len(held)):
        if not held[i]:
            if at >= order[0] or order[1 + at] != i:
                return False
            at += 1
    return at == order[0]


@compiled_fused
def _factorised(hessian: Floats, held: Bools, factor: Floats, order: Ints) -> bool:
    """Factorise the Hessian of parameters that are not held; return False if indefinite."""
    count = 0
    for i in range(len(held)):
        if not held[i]:
            order[1 + count] = i
            count += 1
    order[0] = -1
    size = (count + LANES - 1) // LANES * LANES
    width = size + LANES
    matrix = factor.reshape(factor.size)[: size * width].reshape((size, width))
    for k in range(size):
        row = matrix[k]
        if k < count:
            source = hessian[order[1 + k]]
            for l in range(k, count):
                row[l] = source[order[1 + l]]
            for l in range(count, width):
                row[l] = 0.0
        else:
            for l in range(k, width):
                row[l] = 1.0 if l == k else 0.0
    if count > 0 and not cholesky(matrix):
        return False
    order[0] = count
    return True


@compiled_fused
def _solve_free(
    gradient: Floats,
    hessian: Floats,
    change: Floats,
    held: Bools,
    factor: Floats,
    order: Ints,
    out: Floats,
) -> None:
    """Write the change of the free parameters for given changes of held parameters."""
    count = order[0]
    if count == 0:
        return
    size = (count + LANES - 1) // LANES * LANES
    width = size + LANES
    matrix = factor.reshape(factor.size)[: size * width].reshape((size, width))
    right = out[:count]
    for k in range(count):
        right[k] = -gradient[order[1 + k]]
    for j in range(len(held)):
        if held[j] and change[j] != 0:
            row = hessian[j]
            for k in range(count):
                right[k] -= row[order[1 + k]] * change[j]
    solve(matrix, right)
    for k in range(count - 1, -1, -1):  # from the end, since indices ascend
        out[order[1 + k]] = right[k]


@compiled_fused
def _released(
    gradient: Floats, hessian: Floats, c: Floats, lower: Floats, change: Floats, held: Bools
) -> bool:
    """Release held parameters whose slope points inwards; return whether there are any."""
    any_released = False
    for i in range(len(gradient)):
        if held[i]:
            slope, row = gradient[i], hessian[i]
            for j in range(len(gradient)):
                slope += row[j] * change[j]
            at_low = c[i] + change[i] <= lower[i]
            if (at_low and slope < 0) or (not at_low and slope > 0):
                held[i], any_released = False, True
    return any_released
