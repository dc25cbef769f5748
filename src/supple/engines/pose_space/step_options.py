"""Options of a reduced simulation: integrator, damping, gravity and limits."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats
from supple.checks import checked_number, checked_whole_numbers, owned_array
from supple.dynamics.character_inputs import checked_stiffness
from supple.dynamics.friction import checked_friction
from supple.dynamics.integrators import Integrator, compiled_integrator
from supple.dynamics.root_frame import checked_gravity_mode
from supple.engines.common.option_record import OptionRecord
from supple.errors import SuppleError

#: Default integrator, and that of xu2016.
INTEGRATOR, PAPERS_INTEGRATOR = "bdf2", "backward-euler"
#: Options of a step as xu2016 print it: u in world axes, without forces of the changing basis.
PRINTED_STEP: dict[str, Any] = {"integrator": PAPERS_INTEGRATOR, "transport": False}
#: Rotation of bases between poses: as the rest shape rotates, or by the poses' weights alone.
Frames = Literal["followed", "blended"]
#: Largest stiffness of obstacles in Pa/m.
STIFFEST = 1e12


@dataclass(frozen=True, eq=False, kw_only=True)
class StepOptions(OptionRecord):
    """Checked options of `PoseSpaceSimulator`, which documents them, and `Crowd`.

    Raises
    ------
    SuppleError
        For an invalid option; the message names it.
    """

    dt: float = 1 / 90
    integrator: str = INTEGRATOR
    iterations: int = 1
    substeps: int = 1
    alpha: float = 0.5
    beta: float = 0.01
    gravity: ArrayLike = (0.0, -9.81, 0.0)
    gravity_mode: str = "relative"
    acceleration_limit: float = 1000.0
    displacement_limit: float = 0.25
    look_ahead: float | None = None
    transport: bool = True
    frames: Frames = "followed"
    negligible_weight: float = 0.02
    obstacle_stiffness: float | None = None
    friction: float = 0.0
    self_contact: bool = False
    stiffness: float = 1.0

    def __post_init__(self) -> None:
        compiled_integrator(self.integrator)
        self._set("dt", checked_number("dt", self.dt))
        if not 1e-6 <= self.dt <= 1:
            raise SuppleError(f"dt is {self.dt:g} s; it must be between 1e-6 and 1")
        self._check_numbers()
        if self.obstacle_stiffness is not None:
            self._set("obstacle_stiffness", _checked_obstacle_stiffness(self.obstacle_stiffness))
        self._set("friction", checked_friction(self.friction))
        counts = checked_whole_numbers("iterations and substeps", [self.iterations, self.substeps])
        if not all(1 <= count <= 1000 for count in counts):
            raise SuppleError("iterations and substeps must be between 1 and 1000")
        self._set("iterations", counts[0])
        self._set("substeps", counts[1])
        self._set("gravity", owned_array("gravity", self.gravity, (3,)))
        self._set("gravity_mode", checked_gravity_mode(str(self.gravity_mode)))
        self._set("transport", bool(self.transport))
        self._set("self_contact", bool(self.self_contact))
        self._set("stiffness", checked_stiffness(self.stiffness))

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _check_numbers(self) -> None:
        """Check options that must not be negative, and limits that must be positive."""
        names = ("alpha", "beta", "acceleration_limit", "displacement_limit")
        ahead = () if self.look_ahead is None else ("look_ahead",)
        for name in (*names, *ahead, "negligible_weight"):
            value = checked_number(name, getattr(self, name))
            if value < 0 or (name.endswith("limit") and value == 0):
                raise SuppleError(f"{name} is {value:g}; it must be positive")
            self._set(name, value)
        if self.look_ahead is not None and self.look_ahead > 2:
            raise SuppleError(f"look_ahead is {self.look_ahead:g} steps; use at most 2")
        if self.negligible_weight > 0.2:
            raise SuppleError(f"negligible_weight is {self.negligible_weight:g}; use at most 0.2")

    @property
    def method(self) -> Integrator:
        """Row of the integrator in `supple.dynamics.INTEGRATORS`."""
        return compiled_integrator(self.integrator)

    @property
    def steps_ahead(self) -> float:
        """Steps by which accelerations of the rest shape are extrapolated."""
        if self.look_ahead is not None:
            return self.look_ahead
        # Two-step differences do not lag; sub-steps and rows with a lead do not use them.
        method = self.method
        two_step = method.looks_back and not method.uses_acceleration and self.substeps == 1
        return 0.0 if two_step else 1.0

    @property
    def transports(self) -> bool:
        """Whether Coriolis and centrifugal forces of the changing basis act."""
        # Methods that use accelerations would also need those of the flesh.
        return self.transport and not self.method.uses_acceleration and self.substeps == 1

    @cached_property
    def acting_gravity(self) -> Floats:
        """Gravity in m/s², in the world, (3,); zeros for the mode ``"none"``."""
        return np.zeros(3) if self.gravity_mode == "none" else np.asarray(self.gravity)

    @property
    def sculpted(self) -> float:
        """1 if the sculpted shape already sags under the gravity of an unrotated root, else 0."""
        return float(self.gravity_mode == "relative")

    def longest_displacement(self, size: float) -> float:
        """Return the largest displacement of a cubature vertex, in m, for a body of this size."""
        return self.displacement_limit * size


def _checked_obstacle_stiffness(value: float) -> float:
    stiffness = checked_number("obstacle_stiffness", value)
    if not 0 < stiffness <= STIFFEST:
        raise SuppleError(
            f"obstacle_stiffness is {stiffness:g} Pa/m; it must be positive, at most {STIFFEST:.0e}"
        )
    return stiffness
