"""The minimisation problem of an implicit stage, and the report of its solver."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from supple.arrays import Floats, Ints
from supple.compiled.jit import compiled_fused


@dataclass(eq=False)
class Springs:
    """Values set by the animator; (k,) for the free parameters.

    Damping of motion relative to the key is D = αM + βK at rest, and `stiffness` a factor on all
    flesh. `follow` is κ of springs ½ κ K_ii Δ² towards the key; `firmness`, `damping` and `mass`
    are factors of each parameter, `reach` is its largest offset by physics.
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
    of the coordinates starts at c* = `start` (K,), c = c* + τ ċ. `contact` is A (k, k) and b (k,)
    of obstacles: ½ dᵀAd − bᵀd of parameters d away from the guess.
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
    """Return bounds (K,) of coordinates: those of parameters are relative to the key."""
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
