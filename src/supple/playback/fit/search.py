"""Least squares for stiffness and damping of parts of the skin, by runs of the reduced model.

The residuals are displacements from the rig of some vertices of each part, live minus target,
relative to the root mean square of the target's there. Parameters are logarithms of factors. The
period of a swing depends on the stiffness, so that residuals have many minima: a coarse search by
factors of two precedes the trust-region method of SciPy, with a Jacobian by finite differences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from supple.anatomy.named_parts import SkinPart
from supple.arrays import Bools, Floats, Ints, Singles
from supple.engines.engine import CharacterModel
from supple.playback.feel.feel import LOCAL, Feel
from supple.playback.fit.target import FitTarget
from supple.playback.live_run import LiveRun, factors_on_tets, stiffness_by_part
from supple.progress import Progress

#: Vertices of each part whose motion is compared in the search.
COMPARED = 250
#: Factors on the stiffness of all flesh, and of a part, in the coarse search.
COARSE = tuple(2.0**power for power in range(-5, 6))
COARSE_LOCAL = (0.25, 0.5, 2.0, 4.0)
#: Largest factors, up or down: stiffness and damping of all flesh, damping of a part.
MOST_STIFFNESS, MOST_DAMPING = 100.0, 32.0
MOST_LOCAL_DAMPING = 16.0
#: Difference of logarithms for the Jacobian. Runs have jumps: a tail 0.1 % stiffer changed a rat's
#: run by 0.3 %. With 0.06 the fit ended 18 % from the tail's stiffness, with 0.2 it ends 2 % away.
DIFFERENCE = 0.2
#: Largest number of Jacobians, and the change of logarithms and of the cost that ends the search.
JACOBIANS, CLOSE, GAIN = 12, 4e-3, 1e-4
#: Displacements of a part are relative to at least this part of the liveliest part's.
QUIETEST = 0.05
#: Residual of a run that diverges, relative to the target.
DIVERGED = 10.0
DOING = "finding stiffness and damping"


@dataclass(frozen=True, eq=False)
class Comparison:
    """Vertices and frames at which runs are compared with a target.

    Attributes
    ----------
    parts
        Parts of the skin.
    target
        (t, n̄, 3) displacements of the target from the rig at the frames of the run.
    frames
        (t,) frames that are compared.
    """

    parts: Sequence[SkinPart]
    target: Singles
    frames: Bools

    @classmethod
    def of(
        cls, parts: Sequence[SkinPart], run: LiveRun, target: FitTarget, start: float
    ) -> Comparison:
        """Compare a run with a target from `start` on, in s of the clip."""
        frames = run.times >= start - 1e-9
        if frames.sum() > 1:
            frames[0] = False  # flesh is undeformed there
        return cls(parts, target.at(run.times), frames)

    def vertices(self, part: SkinPart) -> Ints:
        """Return evenly chosen vertices of a part."""
        inside = np.flatnonzero(part.mask)
        count = min(COMPARED, len(inside))
        return inside[np.linspace(0, len(inside) - 1, count).astype(int)]

    def scale(self, part: SkinPart) -> float:
        """Return the root mean square of a part's displacements in the target, in m."""
        return _rms(self.target[self.frames][:, part.mask])

    def distance(self, part: SkinPart, offsets: Singles | None) -> float:
        """Return the RMS distance of a part's displacements, relative to the target's."""
        if offsets is None:
            return DIVERGED
        difference = (offsets - self.target)[self.frames][:, part.mask]
        return _rms(difference) / max(self.scale(part), 1e-300)


def _rms(vectors: Singles) -> float:
    squares = np.einsum("tni,tni->tn", vectors, vectors, dtype=np.float64)
    return float(np.sqrt(squares.mean())) if squares.size else 0.0


class FitProblem:
    """Residuals of a run, as a function of logarithms of factors on stiffness and damping.

    Parameters `x` (2k,) are those on the stiffness of the k parts, then on their damping. Factors
    of a part are relative to those of all flesh, the first part.
    """

    def __init__(
        self,
        run: LiveRun,
        comparison: Comparison,
        model: CharacterModel,
        base: Feel,
        report_progress: Progress,
    ) -> None:
        self.comparison, self._run, self._report_progress = comparison, run, report_progress
        self.parts = comparison.parts
        self._stiffness = stiffness_by_part(self.parts, model, base)
        self._damping = factors_on_tets(self.parts, model)
        self.runs = 0
        scales = np.array([comparison.scale(part) for part in self.parts])
        scales = np.maximum(scales, QUIETEST * scales.max())
        self._weights = []
        for part, scale in zip(self.parts, scales.tolist(), strict=True):
            vertices = comparison.vertices(part)
            target = comparison.target[comparison.frames][:, vertices]
            self._weights.append((vertices, target, 1 / (scale * np.sqrt(target[..., 0].size))))
        self._costs: dict[bytes, float] = {}
        self._last: tuple[bytes, Floats] = (b"", np.zeros(0))

    @property
    def limits(self) -> Floats:
        """(2k,) largest absolute values of the parameters."""
        stiffness = [MOST_STIFFNESS if each.weights is None else LOCAL for each in self.parts]
        damping = [
            MOST_DAMPING if each.weights is None else MOST_LOCAL_DAMPING for each in self.parts
        ]
        return np.log([*stiffness, *damping])

    def allowed(self, x: Floats) -> Floats:
        """Return parameters whose stiffness by region a kept model can have at run time."""
        total = np.zeros(1)
        count = len(self.parts)
        for part, value in zip(self.parts, x[:count].tolist(), strict=True):
            if part.weights is not None:
                total = total + value * part.weights
        farthest = float(np.abs(total - total.mean()).max())
        allowed = x.copy()
        if farthest > np.log(LOCAL):
            local = [part.weights is not None for part in self.parts] + count * [False]
            allowed[local] *= 0.999 * np.log(LOCAL) / farthest
        return allowed

    def feel(self, x: Floats) -> tuple[Feel, float]:
        """Return the feel of the parameters, and the factor on all damping."""
        x, count = self.allowed(x), len(self.parts)
        feel = self._stiffness(x[:count])
        general, local = self._damping(x[count:])
        return feel.damped(local), general

    def offsets(self, x: Floats) -> Singles | None:
        """Return displacements (t, n̄, 3) from the rig; None if the simulation diverges."""
        self.runs += 1
        baked = self._run.baked(*self.feel(x))
        return None if baked is None else baked.frames - self._run.rig

    def residuals(self, x: Floats) -> Floats:
        """Return the residuals; their squares sum to those of the distances of the parts."""
        key = np.asarray(x).tobytes()
        if key != self._last[0]:
            r = self._residuals(self.offsets(x))
            self._last, self._costs[key] = (key, r), float(r @ r)
        return self._last[1]

    def _residuals(self, offsets: Singles | None) -> Floats:
        listed, frames = [], self.comparison.frames
        for vertices, target, weight in self._weights:
            away = DIVERGED * target if offsets is None else offsets[frames][:, vertices] - target
            listed.append(weight * away.ravel().astype(np.float64))
        return np.concatenate(listed)

    def cost(self, x: Floats) -> float:
        """Return the sum of squares of the residuals."""
        key = np.asarray(x).tobytes()
        if key not in self._costs:
            self.residuals(x)
        return self._costs[key]

    def jacobian(self, x: Floats) -> Floats:
        """Return ∂r/∂x by differences towards the inside of the limits."""
        r = self.residuals(x)
        columns = []
        for k, limit in enumerate(self.limits.tolist()):
            step = -DIFFERENCE if x[k] + DIFFERENCE > limit else DIFFERENCE
            near = x.copy()
            near[k] += step
            columns.append((self._residuals(self.offsets(near)) - r) / step)
        return np.stack(columns, axis=1)

    def coarse(self) -> Floats:
        """Return parameters with the least cost on a grid: all flesh, then part by part."""
        count = len(self.parts)
        best = np.zeros(2 * count)
        trials = len(COARSE) + len(COARSE_LOCAL) * (count - 1)
        done = 0
        for k, part in enumerate(self.parts):
            tried = [best]
            for factor in COARSE if part.weights is None else COARSE_LOCAL:
                self._report_progress(0.4 * done / trials, DOING)
                done += 1
                x = best.copy()
                x[k] = np.log(factor)
                tried.append(x)
            best = min(tried, key=self.cost)
        return best


def least_squares_search(problem: FitProblem, report_progress: Progress) -> Floats:
    """Return the parameters (2k,) of the least cost, from the best of the coarse search."""
    start, limits = problem.coarse(), problem.limits
    jacobians = 0

    def jacobian(x: Floats) -> Floats:
        nonlocal jacobians
        report_progress(0.4 + 0.6 * min(jacobians / JACOBIANS, 1.0), DOING)
        jacobians += 1
        return problem.jacobian(x)

    options: dict[str, Any] = {"x_scale": 1.0, "ftol": GAIN, "xtol": CLOSE, "gtol": 1e-9}
    solution = least_squares(
        problem.residuals,
        np.clip(start, -0.99 * limits, 0.99 * limits),
        jacobian,
        (-limits, limits),
        max_nfev=JACOBIANS,
        **options,
    )
    best: Floats = min((start, solution.x), key=problem.cost)
    return problem.allowed(best)
