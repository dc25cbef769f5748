"""Stiffness for a given swing: peaks of the flesh in a clip are found by a few live runs."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from supple.anatomy.hard_parts import MOSTLY_HARD
from supple.anatomy.named_parts import ALL
from supple.arrays import Bools, Floats
from supple.engines.engine import CharacterModel, engine_named
from supple.errors import SuppleError, SuppleWarning, warn
from supple.playback.bake_plan import BakePlan
from supple.playback.feel.feel import AS_BUILT, Feel
from supple.playback.flesh_motion import fixed_skin
from supple.playback.live_run import LiveRun, stiffness_by_part
from supple.playback.swing.goals import SwingGoal
from supple.progress import Progress
from supple.rig.baked_motion import BakedMotion
from supple.rig.character import Character

#: Runs of the search for one goal and for several, and the error that ends it.
RUNS, RUNS_OF_SEVERAL, NEAR = 8, 12, 0.05
#: Error of a peak from which a bake warns.
FAR = 0.1
#: Share of hard skin that is given as a reason.
PARTLY_HARD = 0.2
#: Displacements scale with the stiffness to the power −1 at rest, and to −½ in resonance.
SLOPE, SLOPES = -1.0, (-3.0, -0.3)
#: Least change of a logarithmic peak, relative to that of its logarithmic factor, of a part whose
#: peak depends on its stiffness; it is known once the factor has changed by `TRIED`.
RESPONSE, TRIED = 0.1, 0.5


def near(errors: Floats) -> bool:
    """Return whether the largest errors of all bakes (m, k), peaks by goals, are at most `FAR`."""
    return bool(np.all(np.abs(errors.max(axis=0) - 1) <= FAR))


def distance(errors: Floats) -> float:
    """Return how far the peaks of all bakes are from their goals, for errors (m, k)."""
    return float(np.abs(np.log(np.maximum(errors.max(axis=0), 1e-9))).sum())


@dataclass(frozen=True, eq=False)
class FoundSwing:
    """Stiffness that a search found.

    Attributes
    ----------
    goals
        Goals of the swing.
    factors
        (k,) factor on the stiffness of each goal's part.
    runs
        Number of live runs.
    hard
        (k,) share of each goal's skin that is held hard.
    """

    goals: tuple[SwingGoal, ...]
    factors: Floats
    runs: int
    hard: Floats

    def feel(self, model: CharacterModel, base: Feel) -> Feel:
        """Return the stiffness of a model whose stiffness was `base`."""
        return stiffness_by_part(self.goals, model, base)(np.log(self.factors))

    def report(self, bakes: Sequence[BakedMotion]) -> Floats:
        """Add goals, largest peaks of all bakes and factors to each report; return errors (m, k).

        An error is the peak of a bake relative to its goal.
        """
        peaks = np.array([_peaks(self.goals, each) for each in bakes])
        rows = [
            {
                "region": goal.region,
                "goal": float(f"{goal.length:.6g}"),
                "reached": float(f"{peak:.6g}"),
                "stiffness": float(f"{factor:.4g}"),
            }
            for goal, peak, factor in zip(
                self.goals, peaks.max(axis=0).tolist(), self.factors, strict=True
            )
        ]
        for each in bakes:
            each.report.update(swing=rows, swing_runs=self.runs)
        lengths: Floats = np.array([goal.length for goal in self.goals])
        return peaks / lengths

    def warn_of(self, errors: Floats, bakes: Sequence[BakedMotion]) -> None:
        """Warn of the largest errors of all bakes (m, k) above `FAR`, with the reason."""
        size = bakes[0].character.surface.size
        for k, goal in enumerate(self.goals):
            liveliest = int(np.argmax(errors[:, k]))
            error = float(errors[liveliest, k])
            if near(errors[:, [k]]):
                continue
            goal_percent = 100 * goal.length / size
            warn(
                f'motion "{bakes[liveliest].motion.name}": swing of {goal.region} is '
                f"{error * goal_percent:.2g} % of the size instead of {goal_percent:.2g} %"
                f"{self._reason(k, error)}"
            )

    def _reason(self, k: int, error: float) -> str:
        """Return why the k-th goal is not reached, and what to try; "" if that is unknown."""
        goal, factor = self.goals[k], float(self.factors[k])
        hard, most = float(self.hard[k]), MOSTLY_HARD if goal.weights is not None else 0.99
        if error < 1 and hard > most:
            return f"; {100 * hard:.0f} % of its skin is held hard: make it soft in an anatomy file"
        extreme = abs(np.log(factor)) > 0.99 * np.log(goal.most)
        if not extreme or (error < 1) != (factor < 1):
            if error > 1 or hard < PARTLY_HARD:
                return ""
            return (
                f"; {100 * hard:.0f} % of its skin is held hard; supple curves moves a part of the "
                "rig as a whole"
            )
        what, other = ("softest", "livelier") if factor < 1 else ("firmest", "calmer")
        how = f"with the {what} flesh, {factor:.3g} times as stiff"
        return f" {how}; use a {other} motion"

    def corrected(self, errors: Floats) -> FoundSwing:
        """Return the stiffness after bakes with these errors (m, k)."""
        most = np.array([goal.most for goal in self.goals])
        peaks = np.maximum(errors.max(axis=0), 1e-9)
        factors = np.where(self.hard < 1, self.factors * peaks, self.factors)
        return replace(self, factors=np.clip(factors, 1 / most, most))


def found_swing(
    goals: tuple[SwingGoal, ...],
    character: Character,
    model: CharacterModel,
    plans: Sequence[BakePlan],
    options: Mapping[str, Any],
    report_progress: Progress,
) -> FoundSwing:
    """Return the stiffness at which the flesh swings as far as the goals, within `NEAR`.

    If there are several plans, the search uses the one that exceeds the goals farthest. `options`
    are those of `bake_simulator`, with the initial `feel`.
    """
    base = options.get("feel", AS_BUILT)
    if len(goals) > 1 or goals[0].weights is not None:
        _check_regions(model, options)
    feel_at = stiffness_by_part(goals, model, base)
    runs = [LiveRun(character, model, plan, options) for plan in plans]

    def errors(run: LiveRun, x: Floats) -> Floats:
        peaks = _peaks(goals, run.baked(feel_at(x)), run)
        lengths = np.array([goal.length for goal in goals])
        return np.log(np.maximum(peaks, 1e-9 * lengths) / lengths)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SuppleWarning)
        start = np.zeros(len(goals))
        report_progress(0.0, "finding the stiffness")
        first = []
        for run in runs:
            first.append(errors(run, start))
            run.drop_rig()
        chosen = int(np.argmax([each.max() for each in first]))
        most = RUNS if len(goals) == 1 else RUNS_OF_SEVERAL
        limits = np.array([goal.most for goal in goals])
        everything = next((k for k, goal in enumerate(goals) if goal.weights is None), -1)
        hard = _hard_shares(goals, character, model)
        search = _Search(np.log(limits), start, first[chosen], everything, hard == 1)
        for count in range(1, most):
            if search.ended:
                break
            report_progress(count / most, "finding the stiffness")
            x = search.proposal()
            search.add(x, errors(runs[chosen], x))
    return FoundSwing(goals, np.exp(search.best[0]), len(search.tried) + len(plans) - 1, hard)


class _Search:
    """Broyden's method for zeros of the logarithmic errors r (k,) of logarithmic factors x (k,).

    Errors fall with their own factor, and those of regions with the one of `all` flesh (an index,
    -1 for none). A factor at a limit that it would pass is held there, and its goal is left out;
    parts that are `held` hard, and, of several goals, parts whose peak does not depend on their
    factor, are as stiff as without a goal. For one goal the secant is safeguarded by the interval
    in which the error changes its sign.
    """

    def __init__(
        self,
        limits: Floats,
        x: Floats,
        r: Floats,
        everything: int = -1,
        held: Bools | None = None,
    ) -> None:
        self.limits, self.tried = limits, [(x, r)]
        self._slopes = SLOPE * np.eye(len(x))
        if everything >= 0:
            self._slopes[:, everything] = SLOPE
        self._everything = everything
        self._held = np.zeros(len(x), bool) if held is None else held

    @property
    def best(self) -> tuple[Floats, Floats]:
        """Factors with the most errors that are small, and the smallest errors."""
        left_out = self._left_out()

        def rank(tried: tuple[Floats, Floats]) -> tuple[int, bool, float]:
            away = np.abs(tried[1])[~left_out]
            changed = bool(tried[0][left_out].any())
            return -int((away <= np.log1p(NEAR)).sum()), changed, float(np.log1p(away).sum())

        return min(self.tried[::-1], key=rank)

    @property
    def ended(self) -> bool:
        """Whether each last error is small, or its factor at a limit that it cannot pass."""
        x, r = self.tried[-1]
        left_out = self._left_out()
        small = (np.abs(r) <= np.log1p(NEAR)) | self._beyond()
        return bool(np.where(left_out, x == 0, small).all())

    def proposal(self) -> Floats:
        """Return the factors to try next."""
        x, r = self.tried[-1]
        left_out = self._left_out()
        proposed = np.where(left_out, 0.0, x)
        free = ~(left_out | self._beyond())
        while free.any():
            error = r + self._slopes @ np.where(free, 0.0, proposed - x)
            step = np.linalg.lstsq(self._slopes[np.ix_(free, free)], -error[free], rcond=None)[0]
            proposed[free] = x[free] + step
            excess = np.where(free, np.abs(proposed) - self.limits, 0.0)
            worst = int(np.argmax(excess))
            if excess[worst] <= 0:
                break
            # One at a time: a goal out of reach distorts the factors of all others.
            proposed[worst] = np.sign(proposed[worst]) * self.limits[worst]
            free[worst] = False
        if len(x) > 1:
            return proposed
        # Errors are positive below the interval, where flesh is too soft, and negative above it.
        low = max((float(a[0]) for a, b in self.tried if b[0] > 0), default=-np.inf)
        high = min((float(a[0]) for a, b in self.tried if b[0] < 0), default=np.inf)
        if np.isfinite(low) and np.isfinite(high) and low < high:
            margin = 0.1 * (high - low)
            if not low + margin <= proposed[0] <= high - margin:
                proposed = np.array([0.5 * (low + high)])
        return proposed

    def add(self, x: Floats, r: Floats) -> None:
        """Add the errors of tried factors, and estimate slopes."""
        before_x, before_r = self.tried[-1]
        step = x - before_x
        square = float(step @ step)
        if square > 1e-12:
            self._slopes += np.outer(r - before_r - self._slopes @ step, step) / square
            np.fill_diagonal(self._slopes, np.clip(np.diag(self._slopes), *SLOPES))
        self.tried.append((x, r))

    def _beyond(self) -> Bools:
        """Return which factors (k,) are at a limit that they would pass."""
        x, r = self.tried[-1]
        at_limit = np.abs(x) >= self.limits * (1 - 1e-9)
        beyond: Bools = at_limit & (np.sign(r) == np.sign(x))
        return beyond

    def _left_out(self) -> Bools:
        """Return the parts (k,) that are held hard, or too still whatever their stiffness."""
        if len(self._held) == 1:
            return self._held
        x, r = (np.array(each) for each in zip(*self.tried, strict=True))
        if self._everything >= 0:  # flesh of a region is as stiff as all flesh times its factor
            x = (
                x
                + np.where(np.arange(len(self._held)) == self._everything, 0, 1)
                * (x[:, [self._everything]])
            )
        factors, errors = np.ptp(x, axis=0), np.ptp(r, axis=0)
        left_out: Bools = (factors >= TRIED) & (errors < RESPONSE * factors) & (r < 0).all(axis=0)
        return left_out | self._held


def _peaks(
    goals: Sequence[SwingGoal], baked: BakedMotion | None, run: LiveRun | None = None
) -> Floats:
    """Return the largest distance (k,) of each goal's skin from the rig, in m.

    `run` has the skin of the rig at the frames.
    """
    if baked is None:
        return np.array([100.0 * goal.length for goal in goals])
    squares = np.zeros(baked.frames.shape[1])
    for frame in range(baked.n_frames):
        away = baked.frames[frame] - (baked.rig_frame(frame) if run is None else run.rig[frame])
        np.maximum(squares, np.einsum("ni,ni->n", away, away), out=squares)
    return np.sqrt([squares[goal.mask].max(initial=0.0) for goal in goals])


def _hard_shares(goals: Sequence[SwingGoal], character: Character, model: CharacterModel) -> Floats:
    """Return the share (k,) of each goal's skin that is held hard, by area."""
    fixed, areas = fixed_skin(model), character.surface.vertex_areas()
    if fixed is None:
        return np.zeros(len(goals))
    shares = []
    for goal in goals:
        soft = float(areas[goal.mask & ~fixed].sum())
        shares.append(1 - soft / max(float(areas[goal.mask].sum()), 1e-300))
    return np.array(shares)


def _check_regions(model: CharacterModel, options: Mapping[str, Any]) -> None:
    """Refuse goals by region for engines without local stiffness."""
    row = engine_named(options.get("engine", model.engine), "character")
    if not row.feels_at_run_time:
        raise SuppleError(f"swing: {row.name} has no stiffness by region; use {ALL} flesh")
