"""Adaptive sub-steps: their number follows from an estimate of the time-stepping error.

A formula of order p with step h has an error of C hᵖ⁺¹ x⁽ᵖ⁺¹⁾ after one step: C = ½ for backward
Euler, and (1+ω)²/(6ω(1+2ω)) for BDF2 after a step of h/ω. The derivative is a divided difference of
the last p + 2 positions of the flesh relative to the key pose, so that the estimate concerns the
motion that physics adds. Errors of sub-steps are summed; the maximum over vertices is used.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from supple.arrays import Floats
from supple.checks import checked_number
from supple.dynamics.integrators import INTEGRATORS, Integrator
from supple.errors import SuppleError

#: Largest number of sub-steps of a step, and of runs of a step.
MOST_SUBSTEPS, MOST_TRIES = 256, 4
#: Fraction of the tolerance that the next step aims at, so that few steps are repeated.
AIM = 0.7
#: Largest ratio of successive sub-steps: BDF2 is stable below 2.4.
GROWTH = 2.0


class ErrorControl:
    """Controller of the number of sub-steps.

    `tolerance` is the error per second of motion as a fraction of the body's `size` in m, and `dt`
    the seconds of a step. `substeps` is the number for the next step or run, `error` the estimated
    error of the last step, per second and as a fraction of the size, and `tries` the number of runs
    of the last step.
    """

    def __init__(
        self, tolerance: float, integrator: Integrator, dt: float, size: float, vertices: int
    ) -> None:
        self._tolerance = checked_number("tolerance", tolerance)
        if not 1e-9 <= self._tolerance <= 1:
            raise SuppleError(
                f"tolerance is {self._tolerance:g} of the size per second; use 1e-9 to 1"
            )
        if integrator.error_constant is None:  # others oscillate with scripted motion
            names = [row.name for row in INTEGRATORS.values() if row.error_constant is not None]
            raise SuppleError(
                f"tolerance needs an integrator with an `error_constant`: {', '.join(names)}"
            )
        self._order, self._constant = integrator.order, integrator.error_constant
        self._dt, self._size = dt, size
        self._places = np.zeros((self._order + 2, vertices, 3))
        self._times = np.zeros(self._order + 2)
        self._stored, self._stored_times = self._places.copy(), self._times.copy()
        self._sum, self._term = np.zeros((2, vertices, 3))
        self.substeps, self.error, self.tries, self._total = 1, 0.0, 0, 0.0

    def reset(self, away: Floats, before: Floats, substeps: int) -> None:
        """Reset the history to flesh (n, 3) relative to the key pose, now and one `dt` earlier."""
        self.substeps = min(max(substeps, 1), MOST_SUBSTEPS)
        h = self._dt / self.substeps
        for back in range(len(self._places)):  # extrapolated linearly
            part = back * h / self._dt
            self._places[-1 - back] = away + part * (before - away)
            self._times[-1 - back] = -back * h
        self.error = 0.0

    def state_arrays(self) -> dict[str, Floats]:
        """Return the arrays that later steps depend on, by name."""
        numbers = np.array([float(self.substeps), self.error])
        return {"positions": self._places, "times": self._times, "numbers": numbers}

    def set_state(self, state: Mapping[str, Floats]) -> None:
        """Set the arrays that `state_arrays` returned."""
        self._places[:], self._times[:] = state["positions"], state["times"]
        self.substeps, self.error = int(state["numbers"][0]), float(state["numbers"][1])

    def begin(self) -> None:
        """Begin a step, and store its start for another run."""
        self._stored[:], self._stored_times[:] = self._places, self._times
        self.tries, self._total = 0, 0.0

    def restore(self) -> None:
        """Return to the beginning of the step."""
        self._places[:], self._times[:] = self._stored, self._stored_times
        self._total = 0.0

    def add(self, h: float, place: Floats, key: Floats) -> None:
        """Add a sub-step of h that ended with flesh at `place`; the key pose is `key`, (n, 3)."""
        places, times = self._places, self._times
        for k in range(len(places) - 1):
            places[k], times[k] = places[k + 1], times[k + 1] - h
        np.subtract(place, key, out=places[-1])
        times[-1] = 0.0
        degree = self._order + 1
        self._sum[:] = 0.0
        for k, time in enumerate(times):
            apart = math.prod(float(time - other) for j, other in enumerate(times) if j != k)
            np.multiply(places[k], math.factorial(degree) / apart, out=self._term)
            self._sum += self._term
        np.abs(self._sum, out=self._sum)
        before = float(times[-2] - times[-3]) if self._order > 1 else h
        self._total += self._constant(h / before) * h**degree * float(self._sum.max(initial=0.0))

    def accept(self) -> bool:
        """End a run of the step; return whether its error is small enough, or no run is left.

        Sets the number of sub-steps of the next run, of this step or the next one.
        """
        self.tries += 1
        self.error = self._total / (self._dt * self._size)
        now = self.substeps
        excess = self.error / self._tolerance
        optimal = now * (max(excess, 1e-12) / AIM) ** (1 / self._order)
        if excess > 1 and now < MOST_SUBSTEPS and self.tries < MOST_TRIES:
            self.substeps = min(max(math.ceil(optimal), now + 1), MOST_SUBSTEPS)
            return False
        fewest = math.ceil(now / GROWTH)
        self.substeps = min(max(math.ceil(optimal), fewest, 1), MOST_SUBSTEPS)
        return True

    @property
    def failed(self) -> bool:
        """Whether the last step exceeded the tolerance."""
        return self.error > self._tolerance
