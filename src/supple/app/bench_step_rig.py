"""What of a step the rig itself takes: placing tets, and placing the skin."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np

__all__ = ["RigTimes"]


class RigTimes:
    """Stands between a simulator and its rig, and notes how long the rig takes in each step.

    Two readings of the clock a call, less than a microsecond a step.

    Parameters
    ----------
    simulator
        `Simulator`; from now on its rig is timed.
    """

    def __init__(self, simulator: Any) -> None:
        own = simulator._stepper
        self._rig, self.seconds = own._placement, [0.0]
        own._placement = self

    def place_tets(self, *arguments: Any) -> None:
        """A step begins."""
        began = perf_counter()
        self._rig.place_tets(*arguments)
        self.seconds.append(perf_counter() - began)

    def place_surface(self, *arguments: Any) -> None:
        """The skin of the step that was begun last."""
        began = perf_counter()
        self._rig.place_surface(*arguments)
        self.seconds[-1] += perf_counter() - began

    def median(self, last: int) -> float:
        """Of the last so many steps, in seconds."""
        return float(np.median(self.seconds[-last:]))
