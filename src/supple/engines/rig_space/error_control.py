"""Adaptive sub-steps: their number from an estimate of the error that they make.

A formula of order p that steps by h is off by C hᵖ⁺¹ x⁽ᵖ⁺¹⁾ after one step: C = ½ for backward
Euler, and (1+ω)²/(6ω(1+2ω)) for BDF2 after a step of h/ω. The derivative is a divided difference of
the last p + 2 places. They are places of flesh relative to its key, which is known: what is
estimated is the error of what physics adds. Errors of sub-steps add up to the error of a second;
the largest over vertices counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from supple.arrays import Floats
from supple.checks import checked_number
from supple.dynamics.integrators import INTEGRATORS, Integrator
from supple.errors import SuppleError

#: Sub-steps of a step at most, and runs of one until it is as near as can be.
MOST_SUBSTEPS, MOST_TRIES = 256, 4
#: Part of the tolerance that the next step is made for, so that few are run twice.
AIM = 0.7
#: A sub-step is at most so many times as long as the one before: BDF2 is stable below 2.4.
GROWTH = 2.0


class ErrorControl:
    """Chooser of the number of sub-steps.

    Parameters
    ----------
    tolerance
        Error that a second of motion may add, as a part of the body's size.
    integrator
        Formula that steps.
    dt
        Seconds of a step.
    size
        Of the body, in m.
    vertices
        Number of places that are watched.

    Attributes
    ----------
    substeps
        Number for the next step, or the next try.
    error
        Estimate of the last step: what a second like it adds, as a part of the body's size.
    tries
        Runs that the last step took.
    """

    def __init__(
        self, tolerance: float, integrator: Integrator, dt: float, size: float, vertices: int
    ) -> None:
        self._tolerance = checked_number("tolerance", tolerance)
        if not 1e-9 <= self._tolerance <= 1:
            raise SuppleError(
                f"tolerance is {self._tolerance:g} of the size a second; use 1e-9 to 1"
            )
        if integrator.error_constant is None:  # others ring with what is scripted
            names = [row.name for row in INTEGRATORS.values() if row.error_constant is not None]
            raise SuppleError(f"tolerance is for the integrators {' and '.join(reversed(names))}")
        self._order, self._constant = integrator.order, integrator.error_constant
        self._dt, self._size = dt, size
        self._places = np.zeros((self._order + 2, vertices, 3))
        self._times = np.zeros(self._order + 2)
        self._kept, self._kept_times = self._places.copy(), self._times.copy()
        self._sum, self._term = np.zeros((2, vertices, 3))
        self.substeps, self.error, self.tries, self._total = 1, 0.0, 0, 0.0

    def reset(self, away: Floats, before: Floats, substeps: int) -> None:
        """Start anew.

        Parameters
        ----------
        away, before
            (n, 3) flesh relative to its key now, and one `dt` earlier.
        substeps
            Number to begin with.
        """
        self.substeps = min(max(substeps, 1), MOST_SUBSTEPS)
        h = self._dt / self.substeps
        for back in range(len(self._places)):  # straight on from where it was
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
        """Begin a step: it may have to be run again from here."""
        self._kept[:], self._kept_times[:] = self._places, self._times
        self.tries, self._total = 0, 0.0

    def restore(self) -> None:
        """Go back to the beginning of the step."""
        self._places[:], self._times[:] = self._kept, self._kept_times
        self._total = 0.0

    def add(self, h: float, place: Floats, key: Floats) -> None:
        """Count a sub-step of h that ended at a place (n, 3) where the key has it elsewhere."""
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
        """End a run of the step: return whether it is near enough, or as near as it gets.

        Sets how many sub-steps the next run has, of this step or of the one after it.
        """
        self.tries += 1
        self.error = self._total / (self._dt * self._size)
        now = self.substeps
        excess = self.error / self._tolerance
        wanted = now * (max(excess, 1e-12) / AIM) ** (1 / self._order)
        if excess > 1 and now < MOST_SUBSTEPS and self.tries < MOST_TRIES:
            self.substeps = min(max(math.ceil(wanted), now + 1), MOST_SUBSTEPS)
            return False
        fewest = math.ceil(now / GROWTH)
        self.substeps = min(max(math.ceil(wanted), fewest, 1), MOST_SUBSTEPS)
        return True

    @property
    def failed(self) -> bool:
        """True if the last step was not as near as it had to be."""
        return self.error > self._tolerance
