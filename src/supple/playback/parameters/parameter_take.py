"""Takes of free parameters: their offsets from the keys at every step of a motion."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from time import perf_counter
from typing import Any, cast

import numpy as np

from supple.arrays import Floats, Ints
from supple.dynamics.motion_steps import pose_before
from supple.engines.engine import engine_of
from supple.errors import SolverError, warn
from supple.linalg.blas import single_threaded
from supple.maths.curves import smoothed
from supple.playback.player import Player
from supple.playback.take import CLOSED, MOST_CYCLES, VISIBLY_OPEN, warn_of_limits
from supple.progress import Progress
from supple.rig.character import Character
from supple.rig.free_curves import skin_reach
from supple.rig.motion.frame_counts import whole_steps

#: Largest displacement of the skin per step of settled flesh, relative to the size, and its
#: duration in s.
STILL, STILL_FOR = 2e-6, 0.2


@dataclass(eq=False)
class ParameterTake:
    """Curves of a motion while they are recorded, at every step.

    `columns` are the indices of the k free parameters in a pose, `added` (N + 1, k) their offsets
    from the keys. `settled` is the time of settling in s; its steps count in `limits`, too.
    `gap` is the largest distance of the skin between the last two cycles, relative to the size.
    """

    player: Player
    columns: Ints
    progress: Progress
    added: Floats = field(init=False)
    limits: dict[str, int] = field(default_factory=dict)
    steps: int = 0
    times: list[float] = field(default_factory=list)
    substeps: list[int] = field(default_factory=list)
    error: float = 0.0
    n_cycles: int = 0
    settled: float = 0.0
    gap: float | None = None
    blended: bool = False

    def __post_init__(self) -> None:
        model = self.player.simulator.model
        self._simulator = cast(Any, self.player.simulator)
        self.free: tuple[str, ...] = tuple(self._simulator.free)
        self.added = np.zeros((self.player.n_steps + 1, len(self.columns)))
        self._size = float(model.surface.size)
        self._reach = skin_reach(model.rig, self.columns)

    def play(self, settle: float) -> None:
        """Record a motion once from rest, or cycles of a loop until they converge, or blend two.

        At the start from rest, the first pose is held for at most `settle` seconds.
        """
        with single_threaded():  # small systems: a step takes 1.2 ms, with BLAS threads up to 24
            self._play(settle)
        warn_of_limits(self.player.motion.name, self.limits, self.steps, "a slower motion")
        values = self.player.motion.poses[:, self.columns] + self.added
        self._lowest, self._highest = values.min(axis=0), values.max(axis=0)

    def _play(self, settle: float) -> None:
        if not self.player.loop:
            self._settle(settle)
            self._cycle(np.zeros(len(self.added)))
            return
        for cycle in range(MOST_CYCLES):
            self.gap = self._cycle(np.zeros(len(self.added)))
            if cycle and self.gap <= CLOSED:
                break
        if self.gap is not None and self.gap > VISIBLY_OPEN:
            warn(
                f'motion "{self.player.motion.name}": after {self.n_cycles} cycles the curves '
                f"still differ by {100 * self.gap:.1f} % of the size from one cycle to the next; "
                "two cycles are blended to close the loop; use more damping"
            )
            part, self.blended = np.linspace(0, 1, len(self.added)), True
            self._cycle(part**2 * (3 - 2 * part))

    def smooth(self, period: float) -> None:
        """Low-pass filter the offsets with a period in s; loops stay closed, and cuts are kept."""
        motion, count = self.player.motion, len(self.added) - 1
        if not period:
            return
        ends = [0, *motion.cuts, count + 1]
        if self.player.loop and self.player.seamless and not motion.cuts:
            times = np.concatenate([motion.times[:-1] + k * motion.duration for k in (-1, 0, 1)])
            around = smoothed(times, np.tile(self.added[:-1], (3, 1)), period)[count : 2 * count]
            self.added[:] = np.concatenate([around, around[:1]])
            return
        for first, last in pairwise(ends):
            shot = slice(first, last)
            self.added[shot] = smoothed(motion.times[shot], self.added[shot], period)

    def within(self, keyed: Floats, added: Floats) -> Floats:
        """Clip offsets from keys (t, k) such that their sums stay in the simulated range.

        Splines and smoothing overshoot; a weight with the limits 0 and 1 stays between them.
        """
        return np.asarray(np.clip(keyed + added, self._lowest, self._highest) - keyed)

    def _settle(self, seconds: float) -> None:
        """Hold the first pose until nothing moves, then set the velocity of the motion."""
        motion, simulator = self.player.motion, self._simulator
        first = motion.poses[0], motion.roots[0]
        simulator.reset(*first)
        still, count = 0, whole_steps(0.0, seconds, 1 / simulator.dt)
        for step in range(count):
            before = self._values(motion.poses[0])
            self._note(simulator.step(*first))
            change = np.abs(self._values(motion.poses[0]) - before) * self._reach
            still = still + 1 if change.max(initial=0.0) <= STILL * self._size else 0
            self.settled += simulator.dt
            self.progress(step / count, "settling")
            if still * simulator.dt >= STILL_FOR:
                break
        simulator.teleport(*first, before=pose_before(motion, 0))

    def _cycle(self, kept: Floats) -> float:
        """Record a cycle; `kept` (N + 1,) is the weight of the previous cycle in the blend.

        Return an estimate of the largest skin displacement between the two cycles (per parameter,
        linearised at rest), relative to the size.
        """
        self.player.wrap()
        self.n_cycles += 1
        poses, apart, count = self.player.motion.poses, 0.0, len(self.added)
        for k in range(count):
            if k:
                began = perf_counter()
                self._note(self.player.step())
                self.times.append(perf_counter() - began)
            values = self._values(poses[k])
            off = np.abs(values - self.added[k]) * self._reach
            apart = max(apart, float(off.max(initial=0.0)) / self._size)
            self.added[k] = values + kept[k] * (self.added[k] - values)
            if k % 20 == 0 or k == count - 1:
                what = f"cycle {self.n_cycles}" if self.player.loop else "simulating"
                self.progress(k / max(count - 1, 1), what)
        return apart

    def _values(self, pose: Floats) -> Floats:
        """Return the current offsets (k,) of the free parameters from a pose."""
        values = np.asarray(self._simulator.parameters, np.float64)[self.columns]
        if not np.isfinite(values).all():
            bad = self.free[int(np.argmin(np.isfinite(values)))]
            raise SolverError(f'parameter "{bad}" diverges; use firmer flesh or more damping')
        return values - pose[self.columns]

    def _note(self, state: Any) -> None:
        if state is None:  # at a cut the flesh restarts
            return
        self.steps += 1
        for name in state.limits:
            self.limits[name] = self.limits.get(name, 0) + 1
        if "error" in state.readings:  # the engine controls its sub-steps by the error
            self.substeps.append(int(state.readings["substeps"]))
            self.error = max(self.error, float(state.readings["error"]))

    def _at_bounds(self) -> float:
        """Return the fraction of the values of bounded parameters that are at a bound, at steps."""
        model = self._simulator.model
        bounds = [getattr(model, name, None) for name in ("lower", "upper")]
        if bounds[0] is None or bounds[1] is None:
            return 0.0
        bounded = np.isfinite(bounds[0]) & np.isfinite(bounds[1])
        values = self.player.motion.poses[:, self.columns] + self.added
        near = 1e-6 * np.where(bounded, bounds[1] - bounds[0], 0.0)
        at = (values <= bounds[0] + near) | (values >= bounds[1] - near)
        return float(at[:, bounded].mean()) if bounded.any() else 0.0

    def report(self, character: Character) -> dict[str, Any]:
        """Return sizes, times and errors of the curves, for tables and JSON."""
        model = self._simulator.model
        skin = np.abs(self.added) * self._reach
        liveliest = np.argsort(-skin.max(axis=0, initial=0.0))[:3]
        figures: dict[str, Any] = {
            "name": character.name,
            "motion": self.player.motion.name,
            "engine": engine_of(model).name,
            "size": float(f"{self._size:.6g}"),
            "vertices": len(character.surface.vertices),
            **model.figures,
            "free": len(self.free),
            "liveliest": [self.free[k] for k in liveliest],
            "moves": float(f"{skin.max(initial=0.0) / max(self._size, 1e-30):.3g}"),
            "steps": len(self.times),
            "step_ms": round(1e3 * median(self.times or [0.0]), 4),
            "settle_s": round(self.settled, 3),
            "limits": dict(sorted(self.limits.items())),
        }
        if bounded := self._at_bounds():
            figures["at_bounds"] = round(bounded, 3)
        if self.substeps:
            mean = round(float(np.mean(self.substeps)), 2)
            least, most = min(self.substeps), max(self.substeps)
            figures["substeps"] = {"least": least, "mean": mean, "most": most}
            figures["error_per_second"] = float(f"{self.error:.3g}")
        if self.player.loop:
            gap = float(f"{self.gap or 0.0:.3g}")
            figures |= {"cycles": self.n_cycles, "loop_gap": gap, "blended": self.blended}
        return figures
