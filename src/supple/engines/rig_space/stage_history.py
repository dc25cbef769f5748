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
        self.steps = 0

    def reset(self, x: Floats, v: Floats | float = 0.0) -> None:
        """Start anew at a place and velocity."""
        self.x[...], self.v[...], self.a[...] = x, v, 0.0
        self.steps = 0

    def begin(self, integrator: Integrator, h: float) -> float:
        """Set `start`, `v_start` and `target` of the stage of a step of h; return its τ."""
        if integrator.code == BDF2 and self.steps > 0:
            tau = 2 * h / 3
            for now, before, out in (
                (self.x, self.x_before, self.start),
                (self.v, self.v_before, self.v_start),
            ):
                np.multiply(now, 4 / 3, out=out)
                np.multiply(before, 1 / 3, out=self.target)
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

    def copy(self) -> dict[str, Floats | int]:
        """Return all that `restore` needs."""
        names = ("x", "v", "a", "x_before", "v_before")
        kept: dict[str, Floats | int] = {name: getattr(self, name).copy() for name in names}
        return kept | {"steps": self.steps}

    def restore(self, kept: dict[str, Floats | int]) -> None:
        """Go back to a copy."""
        for name, value in kept.items():
            if name == "steps":
                self.steps = int(value)
            else:
                getattr(self, name)[...] = value
