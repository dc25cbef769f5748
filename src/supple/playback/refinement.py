"""Time steps that a `RefinedPlayer` chooses, and the changes by halving them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from supple.arrays import Floats


@dataclass
class Refinement:
    """Steps of a take so far, and the changes by halving them.

    Attributes
    ----------
    substeps
        Sub-steps per step of the next segment's first attempt.
    chosen
        Sub-steps per step of all segments.
    changes
        Change by the last halving in each segment, relative to the displacement.
    times
        Seconds of the motion at which the segments begin.
    difference, displacement, count
        Sums of squares in m², and the number of summed coordinates.
    work
        Number of Newton iterations, rejected attempts included.
    """

    substeps: int = 1
    chosen: list[int] = field(default_factory=list)
    changes: list[float] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    difference: float = 0.0
    displacement: float = 0.0
    count: int = 0
    work: int = 0

    def change(self, least: float) -> float:
        """Return the RMS change of the skin by the last halvings, relative to its displacement."""
        if not self.count:
            return np.inf if self.changes else 0.0
        return float(np.sqrt(self.difference / max(self.displacement, least**2 * self.count)))

    def unresolved(self, accuracy: float) -> list[float]:
        """Return the times of segments whose last halving changes more than `accuracy`."""
        return [t for t, each in zip(self.times, self.changes, strict=True) if each > accuracy]

    def state(self) -> dict[str, Floats]:
        """Return arrays for a checkpoint."""
        sums = self.substeps, self.difference, self.displacement, self.count, self.work
        lists = [np.array(each, float) for each in (self.chosen, self.changes, self.times)]
        return {"sums": np.array(sums, float), "segments": np.stack(lists)}

    @classmethod
    def resumed(cls, state: Mapping[str, Floats]) -> Refinement:
        """Return the refinement of a checkpoint."""
        substeps, difference, displacement, count, work = state["sums"].tolist()
        chosen, changes, times = state["segments"].tolist()
        sums = difference, displacement, int(count), int(work)
        return cls(int(substeps), [int(each) for each in chosen], changes, times, *sums)
