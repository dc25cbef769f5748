"""Player of the unreduced simulation that halves its time step, segment by segment of a motion."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from supple.arrays import Floats, Singles
from supple.checks import checked_array
from supple.dynamics.implicit import StepReport
from supple.dynamics.root_frame import to_world
from supple.errors import SolverError
from supple.playback.player import Player, without_prefix
from supple.playback.refinement import Refinement
from supple.rig.motion.motion import Motion

#: Seconds of a segment: about as long as flesh swings on after a push.
SEGMENT = 0.2
#: Largest number of sub-steps per step, also after the work is used up.
MOST_SUBSTEPS, FEW_SUBSTEPS = 128, 8
#: Newton iterations per step of the motion, over all attempts: about three times as many as lively
#: clips need. Violent ones would take hours.
MOST_WORK = 120
#: Part of a motion whose share of a bound on the work may be used up in advance.
AHEAD = 0.25
#: Lower bound of the flesh's displacement relative to the size: smaller ones are not visible.
LEAST_DISPLACEMENT = 1e-4
#: The next segment begins with steps twice as long if the change is below this part of the
#: accuracy: halving a step divides the change by four.
_COARSENS = 1 / 6
#: Cycles of a loop in which steps are chosen; later ones repeat them, so that cycles can be alike.
_CHOOSING_CYCLES = 2

#: Largest number of players with divided steps, each with the poses of all its steps.
_MOST_PLAYERS = 3


class TooMuchWorkError(SolverError):
    """A motion takes more work than a bound."""


#: Displacement and velocity (n, 3) of all tet vertices.
Flesh = tuple[Floats, Floats]


@dataclass(eq=False)
class _Run:
    """Segment played with one number of sub-steps.

    `states` has the report of each step, `skins` the skin at each frame, and `earlier` the flesh
    one step of dt/substeps before the end, by number of sub-steps.
    """

    substeps: int
    states: list[StepReport | None]
    skins: list[Singles]
    earlier: dict[int, Flesh]


class RefinedPlayer:
    """Player that plays each segment of a motion with ever shorter steps until the skin converges.

    A segment is played with s and with 2s sub-steps per step from the same state. Where the skins
    differ by more than `accuracy`, s is doubled; otherwise the finer result is kept. The change is
    relative to the RMS displacement of the skin from the rig, in the segment or up to it.

    Parameters
    ----------
    player_with
        Function of the number of sub-steps that returns a `Player` of the motion with shorter
        steps; all players share one simulator of the engine full.
    every
        Number of undivided steps per frame.
    accuracy
        Largest relative change by the last halving.
    most_work
        Most Newton iterations per step of the motion; beyond, TooMuchWorkError is raised. If None,
        segments beyond `MOST_WORK` are simulated with few sub-steps, and flesh without a solution
        restarts at rest.
    progress
        Called with the completed part of the motion, 0 to 1, and the number of sub-steps.

    Attributes
    ----------
    refinement
        The chosen steps.
    """

    def __init__(
        self,
        player_with: Callable[[int], Player],
        every: int,
        accuracy: float,
        most_work: float | None,
        progress: Callable[[float, int], None],
    ) -> None:
        self._player_with, self.every, self.accuracy, self._progress = (
            player_with,
            every,
            accuracy,
            progress,
        )
        self._most_work = most_work
        self._players = {1: player_with(1)}
        self._now = self._players[1]
        self.simulator: Any = self._now.simulator
        self.dt = self._now.dt
        self.refinement = Refinement()
        self._segment = every * max(1, round(SEGMENT / (self.dt * every)))
        self._states: list[StepReport | None] = []
        self._skins: list[Singles] = []
        self._earlier: dict[int, Flesh] = {}
        self._frame = 0
        self._schedule: dict[int, int] = {}

    @property
    def motion(self) -> Motion:
        """Smooth motion at undivided steps."""
        return self._players[1].motion

    @property
    def shown(self) -> Motion:
        """Motion of the file at undivided steps."""
        return self._players[1].shown

    @property
    def n_steps(self) -> int:
        """Number of undivided steps."""
        return self._players[1].n_steps

    @property
    def loop(self) -> bool:
        """Whether the motion is a cycle."""
        return self._now.loop

    @property
    def seamless(self) -> bool:
        """Whether the cycle ends where it begins."""
        return self._now.seamless

    @property
    def moved(self) -> Floats:
        """Transform (4, 4) of the root by the complete cycles of a loop."""
        return self._now.moved

    @property
    def between_segments(self) -> bool:
        """Whether all steps of the segment were taken, so that `state` is complete."""
        return not self._states

    def step(self) -> StepReport | None:
        """Advance by one undivided step; return its report, or None at a cut or jump."""
        if not self._states:
            self._play_segment()
        self._frame += 1
        if self._frame % self.every == 0 and len(self._skins) > 1:
            self._skins.pop(0)
        return self._states.pop(0)

    def surface(self, out: Singles) -> Singles:
        """Write the skin at the current frame to `out` (n̄, 3), and return it."""
        if self._skins:
            out[...] = self._skins[0]
            return out
        return self._now.surface(out)

    def wrap(self) -> None:
        """Go from the end of a cycle to its start; elsewhere do nothing."""
        if self.loop and self._frame == self.n_steps:
            self._now.wrap()
            self._frame = 0
            self._skins = []
            if not self.seamless:
                self._earlier = {}

    def _play_segment(self) -> None:
        """Play the next segment, with as many sub-steps as the accuracy needs."""
        # Steps after the last frame are not shown.
        last_frame = self.n_steps - self.n_steps % self.every
        count = min(self._segment, max(last_frame - self._frame, 1))
        start, refined = self._now.state(), self.refinement
        start["place"][0] = self._frame
        time, cycle = float(self.motion.times[self._frame]), int(start["place"][1])
        if cycle >= _CHOOSING_CYCLES and self._frame in self._schedule:
            run = self._run(start, self._schedule[self._frame], count)
            if run is not None:
                self._accept(run)
                return
        refined_run = self._refined(start, count)
        if refined_run is None and self._most_work is None and (self._frame > 0 or cycle > 0):
            # Where no step has a solution, the flesh restarts at rest.
            start = self._at_rest(start)
            refined.substeps, refined_run = 1, self._refined(start, count)
            if refined_run is not None:
                states = refined_run[1].states
                first = states[0] or StepReport(converged=True)
                first.limits = tuple(sorted({*first.limits, "reset"}))
                states[0] = first
        if refined_run is None:
            raise SolverError(
                f"no time step has a solution at {time:.2f} s; use firmer flesh or more damping"
            )
        coarse, fine, change = refined_run
        self._schedule[self._frame] = fine.substeps
        self._accept(fine)
        self._add_sums(coarse, fine)
        refined.chosen.append(fine.substeps)
        refined.changes.append(change)
        refined.times.append(time)
        small = change <= _COARSENS * self.accuracy
        refined.substeps = max(1, fine.substeps // (4 if small else 2))

    def _refined(
        self, start: dict[str, Floats], count: int
    ) -> tuple[_Run | None, _Run, float] | None:
        """Return the last two runs and their distance; None if no sub-steps have a solution."""
        substeps = min(self.refinement.substeps, self._most_substeps(int(start["place"][1])) // 2)
        coarse = self._run(start, substeps, count)
        while True:
            fine = self._run(start, 2 * substeps, count)
            both = coarse is not None and fine is not None
            change = self._compare(coarse, fine) if both else np.inf  # type: ignore[arg-type]
            most = self._most_substeps(int(start["place"][1]))
            if fine is not None and (change <= self.accuracy or 2 * substeps >= most):
                return coarse, fine, change
            if 2 * substeps >= most:
                return None
            coarse, substeps = fine, 2 * substeps

    def _at_rest(self, start: dict[str, Floats]) -> dict[str, Floats]:
        """Return a state at the same pose with undeformed flesh."""
        player = self._players[1]
        player.resume(start)
        simulator = self.simulator
        simulator.dt = self.dt
        simulator.reset(simulator.pose, simulator.root, before=player.pose_before())
        self._earlier = {}
        return player.state()

    def _most_substeps(self, cycle: int) -> int:
        """Return the largest number of sub-steps: few after much work on the motion."""
        if not self._overworked(cycle):
            return MOST_SUBSTEPS
        if self._most_work is not None:
            most = f"{self._most_work:.3g} Newton iterations per step"
            raise TooMuchWorkError(f'motion "{self.motion.name}" takes more than {most}')
        return FEW_SUBSTEPS

    def _overworked(self, cycle: int) -> bool:
        """Return whether the work exceeds its bound for the steps so far plus `AHEAD` cycles.

        Without `most_work` the bound is that of all steps of the motion.
        """
        if self._most_work is None:
            return self.refinement.work > MOST_WORK * self.n_steps * (cycle + 1)
        steps = self.n_steps * (cycle + AHEAD) + self._frame
        return self.refinement.work > self._most_work * steps

    def _accept(self, run: _Run) -> None:
        self._states, self._earlier = run.states, run.earlier
        # The first entry is popped at the first frame of the segment.
        self._skins = [run.skins[0], *run.skins]

    def _player(self, substeps: int) -> Player:
        """Return the player with a number of sub-steps; a new one resets the simulator."""
        player = self._players.pop(substeps, None) or self._player_with(substeps)
        self._players[substeps] = player  # the last used is the last entry
        for old in [each for each in self._players if each != 1][:-_MOST_PLAYERS]:
            del self._players[old]
        return player

    def _run(self, start: dict[str, Floats], substeps: int, count: int) -> _Run | None:
        """Play `count` steps from a state; None if Newton's method does not converge."""
        player = self._player(substeps)
        place = start["place"] * [substeps, 1]
        player.resume(start | {"place": place})
        dt = self.dt / substeps
        earlier = self._flesh_earlier(substeps, start)
        self.simulator.change_step(dt, player.pose_before(), earlier)
        self._now = player
        states: list[StepReport | None] = []
        skins: list[Singles] = []
        try:
            for number in range(1, count + 1):
                self._progress((self._frame + number) / self.n_steps, substeps)
                trace = self._step(player, substeps, states)
                state = states[-1]
                self.refinement.work += 1 if state is None else state.iterations
                if self._most_work is not None and self._overworked(int(start["place"][1])):
                    return None
                if number % self.every == 0 or number == count:
                    skins.append(player.surface())
        except SolverError:
            return None
        if not all(np.isfinite(each).all() for each in skins):
            return None
        return _Run(substeps, states, skins, _dyadic(trace, substeps))

    def _step(
        self, player: Player, substeps: int, states: list[StepReport | None]
    ) -> list[Flesh | None]:
        """Make one undivided step and append its report; return the flesh at its sub-steps."""
        trace: list[Flesh | None] = [self.simulator.flesh]
        reports = []
        for _ in range(substeps):
            state = player.step()
            if state is None:  # a cut or a jump: earlier states do not count
                trace = [None] * len(trace)
            else:
                reports.append(state)
            trace.append(self.simulator.flesh)
        states.append(_merged(reports) if reports else None)
        return trace

    def _flesh_earlier(self, substeps: int, start: Mapping[str, Floats]) -> Flesh | None:
        """Return the flesh one sub-step before the start of the segment; None after a reset."""
        if substeps in self._earlier or not self._earlier:
            return self._earlier.get(substeps)
        finest = max(self._earlier)
        if substeps < finest:
            return None
        now = start["flesh._u"], start["flesh._v"]
        h = self.dt / finest
        return _hermite(self._earlier[finest], now, h, 1 - finest / substeps)

    def _compare(self, coarse: _Run, fine: _Run) -> float:
        """Return the change of the skin by halving, relative to its displacement."""
        difference, displacement, count = self._sums(coarse, fine)
        least = (LEAST_DISPLACEMENT * self.simulator.model.surface.size) ** 2
        sofar = self.refinement
        mean = max(least, displacement / count, sofar.displacement / max(sofar.count, 1))
        return float(np.sqrt(difference / count / mean))

    def _add_sums(self, coarse: _Run | None, fine: _Run) -> None:
        if coarse is not None:
            difference, displacement, count = self._sums(coarse, fine)
            self.refinement.difference += difference
            self.refinement.displacement += displacement
            self.refinement.count += count

    def _sums(self, coarse: _Run, fine: _Run) -> tuple[float, float, int]:
        """Return Σ |fine − coarse|², Σ |fine − rig|² over frames and skin, and their number."""
        difference, displacement = 0.0, 0.0
        frame, rig = self._frame, self.simulator.model.rig
        for number, (skin, other) in enumerate(zip(fine.skins, coarse.skins, strict=True), 1):
            step = min(frame + number * self.every, self.n_steps)
            shape = to_world(self.shown.roots[step], rig(self.shown.poses[step]))
            difference += float(np.square(skin.astype(np.float64) - other).sum())
            displacement += float(np.square(skin - shape).sum())
        return difference, displacement, sum(each.size for each in fine.skins)

    def state(self) -> dict[str, Floats]:
        """Return the state between two segments."""
        state = self._now.state()
        state["place"][0] = self._frame
        state |= {f"refinement.{name}": each for name, each in self.refinement.state().items()}
        state["schedule"] = np.array([*self._schedule.items()], float).reshape(-1, 2)
        for substeps, flesh in self._earlier.items():
            state[f"earlier.{substeps}"] = np.stack(flesh)
        return state

    def resume(self, state: Mapping[str, Floats]) -> None:
        """Resume from a state of a player of the same motion."""
        self._now = self._players[1]
        player_state = {n: each for n, each in state.items() if n.partition(".")[0] in _OF_PLAYER}
        self._now.resume(player_state)
        self._frame = int(state["place"][0])
        self.refinement = Refinement.resumed(without_prefix("refinement.", state))
        self._schedule = {int(frame): int(count) for frame, count in state["schedule"].tolist()}
        shape = (2, *self.simulator.flesh[0].shape)
        self._earlier = {}
        for name, each in without_prefix("earlier.", state).items():
            u, v = checked_array("earlier flesh", each, shape)
            self._earlier[int(name)] = u, v
        self._states, self._skins = [], []


#: Prefixes of the entries of a `Player`'s state.
_OF_PLAYER = ("place", "moved", "flesh")


def _dyadic(trace: list[Flesh | None], substeps: int) -> dict[int, Flesh]:
    """Return the flesh 1, 1/2, 1/4 … of a step before its end; `trace` has substeps + 1 entries."""
    earlier: dict[int, Flesh] = {}
    parts = 1
    while parts <= substeps:
        flesh = trace[substeps - substeps // parts]
        if flesh is not None:
            earlier[parts] = flesh
        parts *= 2
    return earlier


def _hermite(first: Flesh, last: Flesh, h: float, part: float) -> Flesh:
    """Return displacement and velocity at a part of a step of h, by Hermite's cubic."""
    (u, v), (next_u, next_v) = first, last
    square, cube = part**2, part**3
    rise = 3 * square - 2 * cube
    position = u + rise * (next_u - u)
    position += h * ((cube - 2 * square + part) * v + (cube - square) * next_v)
    slope = 6 * (part - square) / h * (next_u - u)
    slope += (3 * square - 4 * part + 1) * v + (3 * square - 2 * part) * next_v
    return position, slope


def _merged(reports: list[Any]) -> StepReport:
    """Return one report of several sub-steps."""
    merged = StepReport(converged=all(each.converged for each in reports))
    merged.iterations = sum(each.iterations for each in reports)
    merged.limits = tuple(sorted({name for each in reports for name in each.limits}))
    merged.time = reports[-1].time
    for each in reports:
        for name, seconds in each.seconds.items():
            merged.seconds[name] += seconds
    return merged
