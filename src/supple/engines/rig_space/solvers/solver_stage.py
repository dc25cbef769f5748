"""What every solver of a step is given, and what it returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from supple.arrays import Floats, Ints
from supple.compiled.jit import compiled_fused


@dataclass(eq=False)
class Springs:
    """Numbers of each coordinate that animators set; (k,) for the free parameters.

    Attributes
    ----------
    alpha, beta
        Damping of what flesh does beside the key, D = αM + βK at rest.
    stiffness
        Factor on the stiffness of all flesh.
    follow
        κ: a spring ½ κ K_ii Δ² towards the key.
    firmness, damping, mass
        Factors on stiffness, damping and mass of each parameter.
    lower, upper
        Bounds of the parameters.
    reach
        Most that physics adds to each parameter.
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
class Stage:
    """One implicit stage of time, in the root's frame.

    Attributes
    ----------
    tau
        τ of the stage.
    pose
        (s,) key pose at its end.
    target
        (n, 3) x̂ where flesh would go without forces.
    load
        (n, 3) forces on tet vertices.
    push
        (k,) generalised forces on the free parameters, from forces on the skin.
    start
        (K,) c*: the stage of the coordinates starts here, c = c* + τ ċ.
    guess
        (K,) where the search begins.
    springs
        What animators set.
    contact
        (k, k) A and (k,) b of obstacles: ½ dᵀAd − bᵀd of parameters d away from the guess.
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
    """Counts of one stage, by name: iterations, Jacobians, roll-backs."""

    counts: dict[str, Any] = field(default_factory=dict)
    limits: tuple[str, ...] = ()


class Solver(Protocol):
    """Way to find the free parameters at the end of a stage."""

    size: int
    """Number of coordinates K: away from the key of each free parameter first, then others."""
    vertices: Ints
    """(n,) tet vertices that it places."""
    x: Floats
    """(n, 3) flesh in the root's frame, where the last call left it."""

    def place(self, pose: Floats, c: Floats) -> None:
        """Set `x` at a key pose and coordinates."""

    def advance(self, stage: Stage, c: Floats) -> SolverReport:
        """Minimise H over a stage; write the coordinates (K,) and set `x`."""

    def state_arrays(self) -> dict[str, Floats]:
        """Return the arrays that later stages depend on, by name."""

    def set_state(self, state: Mapping[str, Floats], pose: Floats) -> None:
        """Set the arrays that `state_arrays` returned, at a key pose."""


def bounds_away(stage: Stage, entries: Ints, size: int) -> tuple[Floats, Floats]:
    """Return bounds (K,) of coordinates: those of parameters are relative to the key."""
    lower, upper = np.full(size, -np.inf), np.full(size, np.inf)
    write_bounds(stage, entries, lower, upper)
    return lower, upper


def write_bounds(stage: Stage, entries: Ints, lower: Floats, upper: Floats) -> None:
    """Write bounds of the parameters, relative to the key, into the front of (K,) arrays."""
    given = stage.springs
    limits = given.lower, given.upper, given.reach
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
        # A key beyond its bounds is the animator's: it may stay where it is.
        key = pose[entries[i]]
        lower[i] = max(min(low[i] - key, 0.0), -reach[i])
        upper[i] = min(max(high[i] - key, 0.0), reach[i])
