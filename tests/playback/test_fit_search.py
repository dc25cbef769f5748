"""The search of a fit ends near the target although runs are not smooth in the factors."""

from __future__ import annotations

import numpy as np
import pytest

from supple.anatomy.named_parts import ALL, SkinPart
from supple.arrays import Floats, Singles
from supple.playback.fit.search import Comparison, FitProblem, least_squares_search
from supple.progress import unreported

#: Factors of the target: stiffness of all flesh and of a tail, then damping.
TARGET = np.log([1.5, 0.4, 0.7, 2.0])
#: Changes of a rat's run by a factor: those of its tail change the motion little.
SLOPES = np.array([1.9, 0.18, 0.8, 0.13])
#: Jumps relative to the motion, and the difference of logarithms between two. Coordinates of the
#: rat jump by up to 0.012.
JUMP, EVERY = 0.01, 0.004
ONE_VERTEX = np.ones(1, bool)


class RoughProblem(FitProblem):
    """Runs whose offsets are linear in the factors, but for jumps of random directions."""

    def __init__(self) -> None:
        rng = np.random.default_rng(4)
        self._slopes = np.linalg.qr(rng.normal(size=(120, 4)))[0] * SLOPES
        self._jumps = JUMP / np.sqrt(120) * rng.normal(size=(4, 4096, 120))
        self.parts = [SkinPart(ALL, ONE_VERTEX, None), SkinPart("tail", ONE_VERTEX, np.ones(1))]
        self.runs, self._costs, self._last = 0, {}, (b"", np.zeros(0))
        self._report_progress = unreported
        target = np.zeros((40, 1, 3), np.float32)
        self.comparison = Comparison(self.parts, target, np.ones(40, bool))
        self._weights = [(np.zeros(1, int), target, 1.0)]

    def offsets(self, x: Floats) -> Singles:
        self.runs += 1
        total = self._slopes @ (x - TARGET)
        for k, value in enumerate((x - TARGET).tolist()):
            total = total + self._jumps[k, round(value / EVERY) % 4096] * (value != 0)
        return total.reshape(40, 1, 3).astype(np.float32)


def test_jumps_of_single_runs_do_not_end_the_search_far_from_the_target():
    """Differences of 6 % took jumps for slopes: a rat's tail ended 18 % from its stiffness."""
    found = least_squares_search(RoughProblem(), unreported)
    assert np.exp(found) == pytest.approx(np.exp(TARGET), rel=0.04)
