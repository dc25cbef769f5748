"""Takes of free parameters: their simulated offsets from the keys at every step of a motion."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from supple.arrays import Floats, Ints
from supple.dynamics.motion_steps import pose_before
from supple.engines.engine import engine_of
from supple.errors import SolverError, warn
from supple.linalg.blas import single_threaded
from supple.maths.curves import smoothed
from supple.playback.player import Player
from supple.progress import Progress
from supple.rig.character import Character
from supple.rig.free_curves import skin_reach
from supple.rig.motion.frame_counts import whole_steps

#: Largest displacement of the skin relative to the size: per step of settled flesh, during
#: STILL_FOR seconds; between two cycles of a closed loop; and of a loop that is not blended.
STILL, STILL_FOR, CLOSED, VISIBLY_OPEN = 2e-6, 0.2, 2e-4, 1e-3
MOST_CYCLES = 12


@dataclass(eq=False)
class ParameterTake:
    """Curves of a motion while they are recorded, at every step.

    `columns` are the indices of the free parameters in a pose, `added` (N + 1, k) their offsets
    from the keys.
    """

    player: Player
    columns: Ints
    tell: Progress
    added: Floats = field(init=False)
    limits: dict[str, int] = field(default_factory=dict)
    times: list[float] = field(default_factory=list)
    substeps: list[int] = field(default_factory=list)
    error: float = 0.0
    n_cycles: int = 0
    settled: float = 0.0
    gap: float | None = None
    blended: bool = False

    def __post_init__(self) -> None:
        model = self.player.simulator.model
        self.free: tuple[str, ...] = tuple(self._simulator.free)
        self.added = np.zeros((self.player.n_steps + 1, len(self.columns)))
        self._size = float(model.surface.size)
        self._reach = skin_reach(model.rig, self.columns)

    @property
    def _simulator(self) -> Any:
        return self.player.simulator

    def play(self, settle: float) -> None:
        """Play once from rest, or cycles until two are alike; otherwise blend two."""
        # The systems are small: a step takes 24 ms with BLAS threads on a busy machine, else 1.2.
        with single_threaded():
            self._play(settle)
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
                f'motion "{self.player.motion.name}": after {self.n_cycles} cycles the curves are '
                f"still {100 * self.gap:.1f} % of the size from the cycle before; two cycles are "
                "blended so that the loop closes; more damping would close the loop"
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

        Splines and smoothing overshoot: a weight limited to 0 to 1 stays within.
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
            self.tell(step / count, "settling")
            if still * simulator.dt >= STILL_FOR:
                break
        simulator.teleport(*first, before=pose_before(motion, 0))

    def _cycle(self, kept: Floats) -> float:
        """Record a cycle blended with the previous one by weights `kept`; return their distance."""
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
                self.tell(k / max(count - 1, 1), what)
        return apart

    def _values(self, pose: Floats) -> Floats:
        """Return the current offsets (k,) of the free parameters from a pose."""
        values = np.asarray(self._simulator.parameters, np.float64)[self.columns]
        if not np.isfinite(values).all():
            bad = self.free[int(np.argmin(np.isfinite(values)))]
            raise SolverError(f'"{bad}" diverges; use firmer flesh or more damping')
        return values - pose[self.columns]

    def _note(self, state: Any) -> None:
        if state is None:  # at a cut the flesh restarts
            return
        for name in state.limits:
            self.limits[name] = self.limits.get(name, 0) + 1
        if "error" in state.readings:  # the engine controls its sub-steps by the error
            self.substeps.append(int(state.readings["substeps"]))
            self.error = max(self.error, float(state.readings["error"]))

    def report(self, character: Character) -> dict[str, Any]:
        """Return figures for tables and JSON."""
        model = self._simulator.model
        skin = np.abs(self.added) * self._reach
        most = np.argsort(-skin.max(axis=0, initial=0.0))[:3]
        figures: dict[str, Any] = {
            "name": character.name,
            "motion": self.player.motion.name,
            "engine": engine_of(model).name,
            "size": float(f"{self._size:.6g}"),
            "vertices": len(character.surface.vertices),
            **model.figures,
            "free": len(self.free),
            "liveliest": [self.free[k] for k in most],
            "moves": float(f"{skin.max(initial=0.0) / max(self._size, 1e-30):.3g}"),
            "steps": len(self.times),
            "step_ms": round(1e3 * median(self.times or [0.0]), 4),
            "settle_s": round(self.settled, 3),
            "limits": dict(sorted(self.limits.items())),
        }
        if self.substeps:
            figures |= {
                "substeps": {
                    "least": min(self.substeps),
                    "mean": round(float(np.mean(self.substeps)), 2),
                    "most": max(self.substeps),
                },
                "error_per_second": float(f"{self.error:.3g}"),
            }
        if self.player.loop:
            figures |= {
                "cycles": self.n_cycles,
                "loop_gap": float(f"{self.gap or 0.0:.3g}"),
                "blended": self.blended,
            }
        return figures
