"""How a reduced simulation steps: integrator, damping, gravity and limits."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats
from supple.checks import checked_number, checked_whole_numbers, owned_array
from supple.dynamics.character_inputs import checked_stiffness
from supple.dynamics.integrators import BACKWARD_EULER, integrator_named
from supple.errors import SuppleError

__all__ = [
    "GRAVITY_MODES",
    "StepOptions",
    "checked_gravity",
]


GRAVITY_MODES = ("relative", "absolute", "none")
#: Pa/m; a millimetre of it stops a train.
STIFFEST = 1e12


@dataclass(frozen=True, eq=False)
class StepOptions:
    """Checked options of `Simulator`."""

    dt: float
    code: int
    iterations: int
    substeps: int
    alpha: float
    beta: float
    gravity: Floats
    mode: str
    fastest: float
    """Largest acceleration of the rest shape, in m/s²."""
    longest: float
    """Longest displacement, in m."""
    ahead: float = 1.0
    """Steps by which accelerations of the rest shape are carried on."""
    transport: bool = True
    """Whether the changing basis carries momentum."""
    negligible: float = 0.02
    """Poses that count less fade out."""
    obstacle_stiffness: float | None = None
    """Pressure for a depth in an obstacle, in Pa/m; None for the body's own."""
    stiffness: float = 1.0
    """What elastic forces are multiplied by."""

    @classmethod
    def checked(
        cls,
        size: float,
        dt: float,
        *,
        integrator: str = "backward-euler",
        iterations: int = 1,
        substeps: int = 1,
        alpha: float = 0.5,
        beta: float = 0.01,
        gravity: ArrayLike = (0.0, -9.81, 0.0),
        gravity_mode: str = "relative",
        acceleration_limit: float = 1000.0,
        displacement_limit: float = 0.25,
        look_ahead: float = 1.0,
        transport: bool = True,
        negligible_weight: float = 0.02,
        obstacle_stiffness: float | None = None,
        stiffness: float = 1.0,
    ) -> StepOptions:
        """The options, each of them possible; `size` is the body's."""
        code = integrator_named(integrator, lambda row: row.code >= 0).code
        step = checked_number("dt", dt)
        if not 1e-6 <= step <= 1:
            raise SuppleError(f"dt is {step:g} s; it must be between 1e-6 and 1")
        numbers = _checked_numbers(
            alpha=alpha,
            beta=beta,
            acceleration_limit=acceleration_limit,
            displacement_limit=displacement_limit,
            look_ahead=look_ahead,
            negligible_weight=negligible_weight,
        )
        if obstacle_stiffness is not None:
            obstacle_stiffness = _checked_obstacles(obstacle_stiffness)
        counts = checked_whole_numbers("iterations and substeps", [iterations, substeps])
        if not all(1 <= count <= 1000 for count in counts):
            raise SuppleError("iterations and substeps must be between 1 and 1000")
        return cls(
            dt=step,
            code=code,
            iterations=counts[0],
            substeps=counts[1],
            alpha=numbers["alpha"],
            beta=numbers["beta"],
            gravity=owned_array("gravity", gravity, (3,)),
            mode=checked_gravity(gravity_mode),
            fastest=numbers["acceleration_limit"],
            longest=numbers["displacement_limit"] * size,
            obstacle_stiffness=obstacle_stiffness,
            ahead=numbers["look_ahead"],
            # Its differences are backward Euler's own; in other methods they would come late.
            transport=bool(transport) and code == BACKWARD_EULER and counts[1] == 1,
            negligible=numbers["negligible_weight"],
            stiffness=checked_stiffness(stiffness),
        )

    @cached_property
    def acting_gravity(self) -> Floats:
        """In m/s², in the world; none where there is to be none."""
        return np.zeros(3) if self.mode == "none" else self.gravity

    @cached_property
    def sculpted(self) -> float:
        """How much of the gravity of an unturned root is in the sculpted shape already."""
        return float(self.mode == "relative")


def checked_gravity(mode: str) -> str:
    """One of the ways that gravity can act."""
    if not isinstance(mode, str) or mode not in GRAVITY_MODES:
        raise SuppleError(f"no gravity {mode!r}; there are {', '.join(GRAVITY_MODES)}")
    return mode


def _checked_numbers(**values: float) -> dict[str, float]:
    numbers = {}
    for name, value in values.items():
        numbers[name] = checked_number(name, value)
        if numbers[name] < 0 or (name.endswith("limit") and numbers[name] == 0):
            raise SuppleError(f"{name} is {numbers[name]:g}; it must be positive")
    if numbers["look_ahead"] > 2:
        raise SuppleError(f"look_ahead is {numbers['look_ahead']:g} steps; use at most 2")
    if numbers["negligible_weight"] > 0.2:
        given = numbers["negligible_weight"]
        raise SuppleError(f"negligible_weight is {given:g}; use at most 0.2")
    return numbers


def _checked_obstacles(value: float) -> float:
    stiffness = checked_number("obstacle_stiffness", value)
    if not 0 < stiffness <= STIFFEST:
        raise SuppleError(
            f"obstacle_stiffness is {stiffness:g} Pa/m; it must be positive, at most {STIFFEST:.0e}"
        )
    return stiffness
