"""Frames while they are made: a motion once through, or cycles until they are alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter

import numpy as np

from supple.arrays import Floats, Singles
from supple.dynamics.character_inputs import CharacterInputs
from supple.errors import SolverError, warn
from supple.playing.player import Player

__all__ = ["Take", "calm_frames"]

Progress = Callable[[float, str], None]

#: A cycle closes when no vertex of it is farther from the cycle's before, as a part of the size.
CLOSED, VISIBLY_OPEN = 2e-4, 1e-3
MOST_CYCLES = 12
#: How many times as stiff flesh may be made where a motion squeezes it flat, and in what part of
#: the steps it may be so.
FIRMER, SQUEEZED = (1.0, 2.0, 4.0, 8.0), 0.02
#: Limits that act where flesh is too soft for what it goes through.
_TOO_SOFT = ("displacement", "inversion", "reset")


def calm_frames(
    player_with: Callable[[float], Player], every: int, tell: Progress, firmer: bool
) -> tuple[Take, Singles]:
    """A take and its frames, with flesh as soft as it is, or as the motion lets it be.

    Parameters
    ----------
    player_with
        Makes a player whose flesh is so many times as stiff.
    every, tell
        Of the take.
    firmer
        Whether flesh may be made stiffer, until it is squeezed flat in few steps.
    """
    best: tuple[Take, Singles] | None = None
    for factor in FIRMER if firmer else FIRMER[:1]:
        take = Take(player_with(factor), every, _told(tell, factor))
        frames = take.cycles() if take.player.loop else take.once()
        take.stiffness = factor
        if best is None or take.squeezed < best[0].squeezed:
            best = take, frames
        if take.squeezed <= SQUEEZED:
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


@dataclass(eq=False)
class Take:
    """Frames while they are made."""

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

    @property
    def squeezed(self) -> float:
        """The part of the steps in which flesh was too soft."""
        return max(self.limits.get(name, 0) for name in _TOO_SOFT) / max(self.steps, 1)

    def once(self) -> Singles:
        """All frames of a motion."""
        frames = self._room(self.player.n_steps // self.every + 1)
        self.player.surface(frames[0])
        for k in range(1, len(frames)):
            self._steps()
            self.player.surface(frames[k])
            self.tell(k / (len(frames) - 1), "simulating")
        return self._finite(frames)

    def cycles(self) -> Singles:
        """The frames of a cycle that is as the one before it, both ends among them."""
        frames = self._room(self.player.n_steps // self.every + 1)
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
        """A cycle over the last, of which so much is kept; how far apart they are."""
        self.player.wrap()
        self.n_cycles += 1
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

    def _room(self, count: int) -> Singles:
        return CharacterInputs(self.player.simulator.model).frames(None, count)

    def _steps(self) -> None:
        began = perf_counter()
        for _ in range(self.every):
            done = self.player.step()
            for name in () if done is None else done.limits:
                self.limits[name] = self.limits.get(name, 0) + 1
        self.times.append(perf_counter() - began)
        self.steps += self.every

    @property
    def seconds(self) -> float:
        """What all steps took."""
        return sum(self.times)

    @property
    def milliseconds(self) -> float:
        """What a step takes; the first may have had to be compiled."""
        return 1e3 * median(self.times or [0.0]) / self.every

    def _finite(self, frames: Singles) -> Singles:
        if not np.isfinite(frames).all():
            raise SolverError("the simulation diverges; use firmer flesh or more damping")
        return frames
