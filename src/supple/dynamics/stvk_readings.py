"""What the simulators of Saint Venant–Kirchhoff bodies, held and free, are set to and say."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from supple.dynamics.stvk_kernels import POSITION, VELOCITY
from supple.dynamics.stvk_setup import checked_dtype, iteration_counts, step_settings

__all__ = ["StvkReadings"]

Floats = NDArray[np.float64]


class StvkReadings:
    """Options and readings of a simulator, whose state begins with the rows of q and q̇."""

    _state: Floats
    _steps: int

    def _take_options(
        self,
        dt: float,
        integrator: str,
        iterations: int,
        dtype: DTypeLike,
        alpha: float,
        beta: float,
    ) -> None:
        self._settings = step_settings(dt, integrator, alpha, beta)
        self._counts = iteration_counts(iterations)
        self._dtype: np.dtype[Any] = checked_dtype(dtype)
        self._integrator = integrator
        self._dt, self._alpha, self._beta = self._settings[[0, 2, 3]].tolist()

    @property
    def dt(self) -> float:
        """Time step in s."""
        return self._dt

    @property
    def integrator(self) -> str:
        """``"newmark"`` or ``"backward-euler"``."""
        return self._integrator

    @property
    def alpha(self) -> float:
        """Damping by mass, in 1/s."""
        return self._alpha

    @property
    def beta(self) -> float:
        """Damping by stiffness, in s."""
        return self._beta

    @property
    def iterations(self) -> int:
        """How often at most elastic forces are linearised in a step."""
        return int(self._counts[0])

    @property
    def time(self) -> float:
        """Seconds since the reset."""
        return self._steps * self._dt

    @property
    def q(self) -> Floats:
        """Reduced displacement, of a free body in its own frame, (r,): a copy."""
        return self._state[POSITION].copy()

    @property
    def velocity(self) -> Floats:
        """Its velocity, (r,)."""
        return self._state[VELOCITY].copy()

    @property
    def shifted_steps(self) -> int:
        """Steps since `reset` whose system was not positive definite."""
        return int(self._counts[1])

    @property
    def unconverged_steps(self) -> int:
        """Steps since `reset` whose last iteration moved something: of single ones, most."""
        return int(self._counts[2])
