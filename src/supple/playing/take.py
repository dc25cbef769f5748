"""Takes: frames of a motion played once, or of its cycles until two are alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from supple.arrays import Floats, Singles
from supple.dynamics.character_inputs import CharacterInputs
from supple.errors import SolverError, warn
from supple.playing.frame_readings import frame_readings
from supple.playing.player import Player
from supple.progress import Progress

__all__ = ["Take", "stable_take"]

#: A cycle closes when no vertex of it is farther from the cycle's before, as a part of the size.
CLOSED, VISIBLY_OPEN = 2e-4, 1e-3
MOST_CYCLES = 12
#: Factors of stiffness that are tried in turn where a motion is too violent for soft flesh, and
#: the part of the steps in which limits may act all the same.
STIFFER, MOST_LIMITED = (1.0, 2.0, 4.0, 8.0), 0.02
#: Limits that act where flesh is too soft for what it goes through.
_TOO_SOFT = ("displacement", "inversion", "reset")


@dataclass(eq=False)
class Take:
    """Frames of a motion while they are made, and figures about them.

    Attributes
    ----------
    player, every, tell
        Player, how many of its steps make a frame, and progress.
    steps, times
        Steps made, and seconds of those of each frame.
    limits
        Steps in which each limit acted, by its name.
    n_cycles, gap, blended
        Cycles played, distance of the last two as a part of the size, and whether they had to be
        blended.
    stiffness
        Factor on the model's stiffness.
    readings
        Of the last step before each frame.
    """

    player: Player
    every: int
    tell: Progress
    steps: int = 0
    times: list[float] = field(default_factory=list)
    limits: dict[str, int] = field(default_factory=dict)
    n_cycles: int = 0
    gap: float | None = None
    blended: bool = False
    stiffness: float = 1.0
    readings: list[dict[str, Any]] = field(default_factory=list)

    @property
    def limited(self) -> float:
        """Part of the steps in which a limit acted because flesh was too soft."""
        return max(self.limits.get(name, 0) for name in _TOO_SOFT) / max(self.steps, 1)

    def once(self) -> Singles:
        """Record all frames of a motion."""
        frames = self._empty_frames(self.player.n_steps // self.every + 1)
        self.player.surface(frames[0])
        self.readings = [{}]
        for k in range(1, len(frames)):
            self._steps()
            self.player.surface(frames[k])
            self.tell(k / (len(frames) - 1), "simulating")
        return self._finite(frames)

    def cycles(self) -> Singles:
        """Record cycles until one is as the one before; return its frames, both ends included."""
        frames = self._empty_frames(self.player.n_steps // self.every + 1)
        for cycle in range(MOST_CYCLES):
            self.gap = self._cycle(frames, np.zeros(len(frames)))
            if cycle and self.gap <= CLOSED:
                break
        if self.gap is not None and self.gap > VISIBLY_OPEN:
            self._blend(frames)
        return self._finite(frames)

    def _blend(self, frames: Singles) -> None:
        """Lead the next cycle into the end of the last, where it began: so it closes.

        Flesh that swings widely may take two cycles or more to come back to the same place, or
        never do so.
        """
        warn(
            f'motion "{self.player.motion.name}": after {self.n_cycles} cycles its flesh is still '
            f"{100 * (self.gap or 0):.1f} % of the size from the cycle before; two cycles are "
            "blended so that the loop closes; more damping or firmer flesh would close by itself"
        )
        self.blended = True
        part = np.linspace(0, 1, len(frames))
        self._cycle(frames, part**2 * (3 - 2 * part))

    def _cycle(self, frames: Singles, kept: Floats) -> float:
        """Record a cycle over the last, of which `kept` stays; return how far apart they are."""
        self.player.wrap()
        self.n_cycles += 1
        self.readings = self.readings[-1:] or [{}]
        scratch, apart = np.empty_like(frames[0]), 0.0
        size = self.player.simulator.model.surface.size
        for k in range(len(frames)):
            if k:
                self._steps()
            self.player.surface(scratch)
            if self.n_cycles > 1:
                apart = max(apart, float(np.abs(scratch - frames[k]).max()) / size)
            frames[k] = scratch if kept[k] == 0 else scratch + kept[k] * (frames[k] - scratch)
            self.tell(k / (len(frames) - 1), f"cycle {self.n_cycles}")
        return apart

    def _empty_frames(self, count: int) -> Singles:
        return CharacterInputs(self.player.simulator.model).frames(None, count)

    def _steps(self) -> None:
        began = perf_counter()
        done = None
        for _ in range(self.every):
            done = self.player.step()
            for name in () if done is None else done.limits:
                self.limits[name] = self.limits.get(name, 0) + 1
        self.times.append(perf_counter() - began)
        player = self.player
        self.readings.append(frame_readings(player.simulator, done, player.moved))
        self.steps += self.every

    @property
    def seconds(self) -> float:
        """Seconds that all steps took."""
        return sum(self.times)

    @property
    def milliseconds(self) -> float:
        """Median time of a step in ms; the first may have had to be compiled."""
        return 1e3 * median(self.times or [0.0]) / self.every

    def _finite(self, frames: Singles) -> Singles:
        if not np.isfinite(frames).all():
            raise SolverError("the simulation diverges; use firmer flesh or more damping")
        return frames


def stable_take(
    player_with: Callable[[float], Player], every: int, tell: Progress, stiffen: bool
) -> tuple[Take, Singles]:
    """Record a take with flesh as soft as the motion lets it be; return it and its frames.

    Parameters
    ----------
    player_with
        Function that makes a player whose flesh is so many times as stiff.
    every, tell
        Steps of a frame, and progress.
    stiffen
        Whether flesh may be made stiffer, until limits act in few steps.
    """
    best: tuple[Take, Singles] | None = None
    for factor in STIFFER if stiffen else STIFFER[:1]:
        take = Take(player_with(factor), every, _told(tell, factor))
        frames = take.cycles() if take.player.loop else take.once()
        take.stiffness = factor
        if best is None or take.limited < best[0].limited:
            best = take, frames
        if take.limited <= MOST_LIMITED:
            break
    assert best is not None
    found = best[0]
    if found.stiffness > 1:
        warn(
            f'motion "{found.player.motion.name}" is too violent for flesh this soft; it is made '
            f"{found.stiffness:g} times as stiff"
        )
    if found.limits.get("reset"):
        warn(
            f"the simulation began anew {found.limits['reset']} times; use firmer flesh or more "
            "damping"
        )
    return best


def _told(tell: Progress, factor: float) -> Progress:
    if factor == 1:
        return tell
    return lambda part, what: tell(part, f"{what}, {factor:g} times as stiff")
