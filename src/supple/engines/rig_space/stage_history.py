"""Time stages of positions and coordinates: histories, and what an integrator makes of them."""

from __future__ import annotations

import numpy as np

from supple.arrays import Floats
from supple.dynamics.integrators import BDF2, NEWMARK, Integrator

__all__ = ["History"]


class History:
    """Place, velocity and acceleration of something now, and a step earlier.

    The implicit stage of `supple.dynamics.integrators` starts at x* with v* and lasts τ; without
    forces it ends at x* + τ v*.

    Parameters
    ----------
    shape
        Of the places.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.x, self.v, self.a = np.zeros((3, *shape))
        self.x_before, self.v_before = np.zeros((2, *shape))
        self.start, self.v_start, self.target = np.zeros((3, *shape))
        self._kept = np.zeros((5, *shape))
        self.steps, self._h = 0, 0.0
        self._kept_steps = 0, 0.0

    def reset(self, x: Floats, v: Floats | float = 0.0) -> None:
        """Start anew at a place and velocity."""
        self.x[...], self.v[...], self.a[...] = x, v, 0.0
        self.steps = 0

    def begin(self, integrator: Integrator, h: float) -> float:
        """Set `start`, `v_start` and `target` of the stage of a step of h; return its τ.

        After a step of another length, h/ω, BDF2 has ((1+ω)² x − ω² x⁻) / (1+2ω) and
        τ = h (1+ω)/(1+2ω).
        """
        if integrator.code == BDF2 and self.steps > 0:
            ratio = h / self._h
            whole = 1 + 2 * ratio
            tau = (1 + ratio) * h / whole
            for now, before, out in (
                (self.x, self.x_before, self.start),
                (self.v, self.v_before, self.v_start),
            ):
                np.multiply(now, (1 + ratio) ** 2 / whole, out=out)
                np.multiply(before, ratio**2 / whole, out=self.target)
                out -= self.target
        elif integrator.code == NEWMARK:
            tau = 0.5 * h
            np.multiply(self.v, tau, out=self.start)
            self.start += self.x
            np.multiply(self.a, tau, out=self.v_start)
            self.v_start += self.v
        else:
            tau = h
            self.start[...], self.v_start[...] = self.x, self.v
        np.multiply(self.v_start, tau, out=self.target)
        self.target += self.start
        self._h = h
        return tau

    def finish(self, x: Floats, tau: float) -> None:
        """Take the end of the stage for now."""
        self.x_before[...], self.v_before[...] = self.x, self.v
        self.x[...] = x
        np.subtract(x, self.start, out=self.v)
        self.v /= tau
        np.subtract(self.v, self.v_start, out=self.a)
        self.a /= tau
        self.steps += 1

    def keep(self) -> None:
        """Keep all that `restore` goes back to; nothing is allocated."""
        for kept, now in zip(self._kept, self._state, strict=True):
            kept[...] = now
        self._kept_steps = self.steps, self._h

    def restore(self) -> None:
        """Go back to what was kept last."""
        for kept, now in zip(self._kept, self._state, strict=True):
            now[...] = kept
        self.steps, self._h = self._kept_steps

    @property
    def _state(self) -> tuple[Floats, ...]:
        return self.x, self.v, self.a, self.x_before, self.v_before
