"""Takes: frames of a motion played once, or of its cycles until two are alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.arrays import Singles
from supple.checks import checked_array
from supple.dynamics.character_inputs import CharacterInputs
from supple.errors import SolverError, warn
from supple.playback.frame_readings import frame_readings
from supple.playback.player import Player
from supple.progress import Progress
from supple.rig.motion.motion import Motion

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
    limits, unconverged
        Steps in which each limit acted, by its name, and those that were not solved to the end.
    n_cycles, gap, blended
        Cycles played, distance of the last two as a part of the size, and whether they had to be
        blended.
    stiffness
        Factor on the model's stiffness.
    readings
        Of the last step before each frame.
    frames
        (t, n̄, 3) float32, of which the first `at` of this pass are recorded; `apart` is how far
        those are from the last cycle's.
    kept
        Called with the take after each frame.
    """

    player: Player
    every: int
    tell: Progress
    steps: int = 0
    times: list[float] = field(default_factory=list)
    limits: dict[str, int] = field(default_factory=dict)
    unconverged: int = 0
    n_cycles: int = 0
    gap: float | None = None
    blended: bool = False
    stiffness: float = 1.0
    readings: list[dict[str, Any]] = field(default_factory=list)
    frames: Singles | None = None
    at: int = 0
    apart: float = 0.0
    kept: Callable[[Take], None] = lambda take: None

    @property
    def n_frames(self) -> int:
        """Number of frames, the first included."""
        return self.player.n_steps // self.every + 1

    @property
    def limited(self) -> float:
        """Part of the steps in which a limit acted because flesh was too soft."""
        return max(self.limits.get(name, 0) for name in _TOO_SOFT) / max(self.steps, 1)

    def recorded(self) -> Singles:
        """Record all frames of a motion, or of its cycle once that closes."""
        self.frames = self._empty_frames() if self.frames is None else self.frames
        if self.player.loop:
            self._cycles()
        else:
            self._pass("simulating")
        if not np.isfinite(self.frames).all():
            raise SolverError("the simulation diverges; use firmer flesh or more damping")
        return self.frames

    def _cycles(self) -> None:
        """Record cycles until one is as the one before; its frames have both ends."""
        assert self.frames is not None
        while not (self.at == len(self.frames) and self._is_last()):
            if self.at in (0, len(self.frames)):
                self.player.wrap()
                self.n_cycles += 1
                self.at, self.apart = 0, 0.0
                self.readings = self.readings[-1:]
            self._pass(f"cycle {self.n_cycles}")

    def _is_last(self) -> bool:
        """Return whether the cycle that was recorded is the last; one more may be blended."""
        if self.blended:
            return True
        self.gap = self.apart
        if self.n_cycles > 1 and self.gap <= CLOSED:
            return True
        if self.n_cycles >= MOST_CYCLES and self.gap > VISIBLY_OPEN:
            self._blend()
            return False
        return self.n_cycles >= MOST_CYCLES

    def _blend(self) -> None:
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

    def _pass(self, what: str) -> None:
        """Record frames from where it is to the last."""
        assert self.frames is not None
        last = len(self.frames) - 1
        self.readings = self.readings or [{}]
        for k in range(self.at, last + 1):
            if k:
                self._steps()
            self._record(k, last)
            self.at = k + 1
            if k or self.player.loop:
                self.tell(k / last, what)
            self.kept(self)

    def _record(self, k: int, last: int) -> None:
        """Record a frame; in a cycle over that of the last one, of which a part is kept."""
        assert self.frames is not None
        frame = self.frames[k]
        if self.n_cycles < 2:
            self.player.surface(frame)
            return
        found = self.player.surface(np.empty_like(frame))
        size = self.player.simulator.model.surface.size
        self.apart = max(self.apart, float(np.abs(found - frame).max()) / size)
        part = np.linspace(0, 1, last + 1)[k] if self.blended else 0.0
        kept = part**2 * (3 - 2 * part)
        frame[...] = found + kept * (frame - found) if kept else found

    def _empty_frames(self) -> Singles:
        return CharacterInputs(self.player.simulator.model).frames(None, self.n_frames)

    def _steps(self) -> None:
        began = perf_counter()
        done = None
        for _ in range(self.every):
            done = self.player.step()
            for name in () if done is None else done.limits:
                self.limits[name] = self.limits.get(name, 0) + 1
            self.unconverged += not getattr(done, "converged", True)
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

    def motion(self) -> Motion:
        """Return poses and roots of the file's own motion at the frames."""
        assert self.frames is not None
        even, count = self.player.shown, len(self.frames)
        steps = np.arange(count) * self.every
        cuts = sorted({-(-cut // self.every) for cut in even.cuts})
        kept = [cut for cut in cuts if cut < count]
        return Motion(even.times[steps], even.poses[steps], even.roots[steps], even.name, kept)

    def figures(self) -> dict[str, Any]:
        """Return what a bake reports of it."""
        player = self.player
        found: dict[str, Any] = {
            "motion": player.motion.name,
            "frames": self.n_frames,
            "rate": 1 / (player.simulator.dt * self.every),
            "steps": self.steps,
            "step_ms": round(self.milliseconds, 4),
            "simulate_s": round(self.seconds, 3),
            "limits": dict(sorted(self.limits.items())),
            "stiffness": self.stiffness,
        }
        if player.loop:
            found |= {"cycles": self.n_cycles, "seamless": player.seamless}
            found |= {"blended": self.blended, "loop_gap": 0.0 if self.blended else self.gap}
        return found

    def state(self) -> dict[str, NDArray]:
        """Return all that is left to record depends on, and what is recorded; not the readings."""
        assert self.frames is not None
        gap = np.nan if self.gap is None else self.gap
        whole = self.at, self.n_cycles, self.steps, self.unconverged
        counts = [*whole, self.blended, self.apart, gap]
        recorded = self.frames[: self.at] if self.n_cycles < 2 else self.frames
        own = {"frames": recorded, "counts": np.array(counts, float)}
        own |= {f"limits.{name}": np.array(count) for name, count in self.limits.items()}
        player = {f"player.{name}": array for name, array in self.player.state().items()}
        return own | player | {"times": np.array(self.times)}

    def resume(self, state: Mapping[str, NDArray]) -> None:
        """Go on from the state that a take of the same player was in."""
        begin = "player."
        self.player.resume(
            {name[len(begin) :]: each for name, each in state.items() if name.startswith(begin)}
        )
        self.frames, recorded = self._empty_frames(), state["frames"]
        self.frames[: len(recorded)] = checked_array("frames", recorded, recorded.shape)
        *whole, blended, self.apart, gap = state["counts"].tolist()
        self.at, self.n_cycles, self.steps, self.unconverged = map(int, whole)
        limits = {name: each for name, each in state.items() if name.startswith("limits.")}
        self.limits = {name.removeprefix("limits."): int(each) for name, each in limits.items()}
        self.blended, self.gap = bool(blended), None if np.isnan(gap) else gap
        self.times = state["times"].tolist()
        self.readings = [{}] * self.at


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
        frames = take.recorded()
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
