"""Takes: frames of a motion played once, or of cycles repeated until they converge."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import mean, median
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.arrays import Floats, Singles
from supple.checks import checked_array
from supple.dynamics.character_inputs import CharacterInputs
from supple.engines.engine import StepState
from supple.engines.optional_parts import ContactReadings, SoftContact
from supple.errors import SolverError, warn
from supple.mesh.topology import counted
from supple.playback.obstacles.recording import ObstacleTrack
from supple.playback.player import Player, without_prefix
from supple.playback.refined_player import RefinedPlayer
from supple.progress import Progress
from supple.rig.baked_obstacles import BakedObstacle
from supple.rig.motion.motion import Motion

#: Largest distance of a vertex between two cycles, relative to the size, for a cycle that closes,
#: and for one that need not be blended.
CLOSED, VISIBLY_OPEN = 2e-4, 1e-3
MOST_CYCLES = 12
#: Factors of stiffness that are tried one after the other for motions too violent for the flesh,
#: and the part of the steps in which limits may act.
STIFFER, MOST_LIMITED = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0), 0.02
#: Limits that act because flesh is too soft.
_TOO_SOFT = ("displacement", "inversion", "reset", "stiffness")
#: What happens in a step in which a limit acts, and what helps; None for firmer flesh and others.
_EFFECTS: dict[str, tuple[str, str | None]] = {
    "acceleration": (
        "the rig accelerates so fast that its inertial forces were cut",
        "keys that move it less abruptly",
    ),
    "teleport": (
        "the rig jumps, and its inertial forces were left out",
        "keys without jumps",
    ),
    "stiffness": ("flesh is deformed so much that its stiffness was approximated", None),
    "rest": (
        "the pose flattens flesh, whose stress was left out",
        "poses, or skin weights, with which flesh keeps its thickness",
    ),
    "displacement": ("flesh moved too far from the rig and was held", None),
    "inversion": ("flesh was turned inside out, or nearly", None),
    "tolerance": (
        "the curves are less accurate than the tolerance",
        "a larger tolerance or a slower motion",
    ),
    "contacts": (
        "the skin touches in too many places, and some contacts were left out",
        "fewer obstacles, or a skin with fewer vertices",
    ),
    "solver": (
        "no balance of bones, flesh and contacts was found",
        "firmer flesh, more damping or a slower motion",
    ),
    "turn": ("a bone turned so fast that its rotation was cut", "a slower motion"),
}
#: Limits that warn separately, and those that act in regular motion: joints at the end of their
#: range, and parameters at their bounds.
_NOT_HERE = ("reset", "joints", "bounds")


@dataclass(eq=False)
class Take:
    """Frames of a motion while they are recorded, and figures about them.

    Attributes
    ----------
    every
        Number of steps per frame.
    times
        Seconds that the steps of each frame took.
    limits, unconverged
        Number of steps in which each limit acted, by name, and of steps that did not converge.
    gap
        Largest distance between the last two cycles, relative to the size.
    readings
        Readings of the last step before each frame.
    frames
        (t, n̄, 3) float32; the first `at` frames of this pass are recorded, and `apart` is their
        largest distance from the previous cycle, relative to the size.
    kept
        Called with the take after each frame.
    """

    player: Player | RefinedPlayer
    every: int
    progress: Progress
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

    def __post_init__(self) -> None:
        self._obstacles = ObstacleTrack(self.player.simulator, self.n_frames)

    @property
    def n_frames(self) -> int:
        """Number of frames, the first included."""
        return self.player.n_steps // self.every + 1

    @property
    def limited(self) -> float:
        """Fraction of the steps in which the most frequent of the limits `_TOO_SOFT` acted."""
        return max(self.limits.get(name, 0) for name in _TOO_SOFT) / max(self.steps, 1)

    def warn_of_limits(self) -> None:
        """Warn of restarts, and of limits that acted in more than `MOST_LIMITED` of the steps."""
        slower = "a slower motion or final quality"
        if isinstance(self.player, RefinedPlayer):
            slower = "a slower motion"
        warn_of_limits(self.player.motion.name, self.limits, self.steps, slower)

    def recorded(self) -> Singles:
        """Record and return the frames (t, n̄, 3) of a motion, or of the first cycle that closes."""
        self.frames = self._empty_frames() if self.frames is None else self.frames
        if self.player.loop:
            self._cycles()
        else:
            self._pass("simulating")
        if not np.isfinite(self.frames).all():
            raise SolverError("the simulation diverges; use firmer flesh or more damping")
        return self.frames

    def _cycles(self) -> None:
        """Record cycles until two in a row agree within `CLOSED`; the frames include both ends."""
        assert self.frames is not None
        while not (self.at == len(self.frames) and self._is_last()):
            if self.at in (0, len(self.frames)):
                self.player.wrap()
                self.n_cycles += 1
                self.at, self.apart = 0, 0.0
                self.readings = self.readings[-1:]
            self._pass(f"cycle {self.n_cycles}")

    def _is_last(self) -> bool:
        """Return whether the recorded cycle is the last; if not, the next one may be blended."""
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
        """Warn, and let the next cycle be blended into the previous one, so that the loop closes.

        Flesh that swings widely may repeat itself after several cycles only, or never.
        """
        warn(
            f'motion "{self.player.motion.name}": after {self.n_cycles} cycles the flesh still '
            f"differs by {100 * (self.gap or 0):.1f} % of the size from one cycle to the next; two "
            "cycles are blended to close the loop; use more damping or firmer flesh"
        )
        self.blended = True

    def _pass(self, what: str) -> None:
        """Record the frames from `at` to the last."""
        assert self.frames is not None
        last = len(self.frames) - 1
        self.readings = self.readings or [{}]
        for k in range(self.at, last + 1):
            if k:
                self._steps()
            self._record(k, last)
            self.at = k + 1
            if k or self.player.loop:
                self.progress(k / last, what)
            self.kept(self)

    def _record(self, k: int, last: int) -> None:
        """Overwrite frame k of the previous cycle; a blended cycle keeps a part of the old one."""
        assert self.frames is not None
        frame = self.frames[k]
        self._obstacles.record(k, self.player.moved)
        if self.n_cycles < 2:
            self.player.surface(frame)
            return
        skin = self.player.surface(np.empty_like(frame))
        size = self.player.simulator.model.surface.size
        self.apart = max(self.apart, float(np.abs(skin - frame).max()) / size)
        part = np.linspace(0, 1, last + 1)[k] if self.blended else 0.0
        kept = part**2 * (3 - 2 * part)
        frame[...] = skin + kept * (frame - skin) if kept else skin

    def _empty_frames(self) -> Singles:
        return CharacterInputs(self.player.simulator.model).frames(None, self.n_frames)

    def _steps(self) -> None:
        began = perf_counter()
        state = None
        for _ in range(self.every):
            state = self.player.step()
            for name in () if state is None else state.limits:
                self.limits[name] = self.limits.get(name, 0) + 1
            self.unconverged += not getattr(state, "converged", True)
        self.times.append(perf_counter() - began)
        player = self.player
        self.readings.append(_frame_readings(player.simulator, state, player.moved))
        self.steps += self.every

    @property
    def seconds(self) -> float:
        """Seconds that all steps took."""
        return sum(self.times)

    @property
    def milliseconds(self) -> float:
        """Median time of a step in ms, as the first may include compilation; refined: the mean."""
        typical = mean if isinstance(self.player, RefinedPlayer) else median
        return 1e3 * typical(self.times or [0.0]) / self.every

    def obstacles(self) -> tuple[BakedObstacle, ...]:
        """Return the obstacles and objects at the frames."""
        assert self.frames is not None
        return self._obstacles.baked(self.frames)

    def motion(self) -> Motion:
        """Return the poses and roots of the file's motion at the frames."""
        assert self.frames is not None
        even, count = self.player.shown, len(self.frames)
        steps = np.arange(count) * self.every
        cuts = sorted({-(-cut // self.every) for cut in even.cuts})
        cuts = [cut for cut in cuts if cut < count]
        return Motion(even.times[steps], even.poses[steps], even.roots[steps], even.name, cuts)

    def figures(self) -> dict[str, Any]:
        """Return the figures of a take for the report of a bake."""
        player = self.player
        figures: dict[str, Any] = {
            "motion": player.motion.name,
            "frames": self.n_frames,
            "rate": 1 / (player.dt * self.every),
            "steps": self.steps,
            "step_ms": round(self.milliseconds, 4),
            "simulate_s": round(self.seconds, 3),
            "limits": dict(sorted(self.limits.items())),
            "stiffness": self.stiffness,
        }
        if player.loop:
            figures |= {"cycles": self.n_cycles, "seamless": player.seamless}
            figures |= {"blended": self.blended, "loop_gap": 0.0 if self.blended else self.gap}
        return figures

    def state(self) -> dict[str, NDArray]:
        """Return the state of the simulation and the recorded frames, without the readings."""
        assert self.frames is not None
        gap = np.nan if self.gap is None else self.gap
        integers = self.at, self.n_cycles, self.steps, self.unconverged
        counts = [*integers, self.blended, self.apart, gap]
        recorded = self.frames[: self.at] if self.n_cycles < 2 else self.frames
        state = {"frames": recorded, "counts": np.array(counts, float)}
        state |= {f"limits.{name}": np.array(count) for name, count in self.limits.items()}
        state |= {f"player.{name}": array for name, array in self.player.state().items()}
        return state | {"times": np.array(self.times)}

    def resume(self, state: Mapping[str, NDArray]) -> None:
        """Resume from the state of a take of the same player."""
        self.player.resume(without_prefix("player.", state))
        self.frames, recorded = self._empty_frames(), state["frames"]
        self.frames[: len(recorded)] = checked_array("frames", recorded, recorded.shape)
        *integers, blended, self.apart, gap = state["counts"].tolist()
        self.at, self.n_cycles, self.steps, self.unconverged = map(int, integers)
        self.limits = {name: int(n) for name, n in without_prefix("limits.", state).items()}
        self.blended, self.gap = bool(blended), None if np.isnan(gap) else gap
        self.times = state["times"].tolist()
        self.readings = [{}] * self.at


def warn_of_limits(motion: str, limits: Mapping[str, int], steps: int, slower: str) -> None:
    """Warn of restarts, and of limits that acted in more than `MOST_LIMITED` of the steps.

    `limits` are numbers of steps by name, of `steps` in all; `slower` is the remedy that the
    warning names as an alternative to firmer flesh.
    """
    if resets := limits.get("reset"):
        often = counted(resets, "time")
        warn(f"the simulation restarted {often}; use firmer flesh or more damping")
    acted = sorted(name for name in limits if name not in (*_EFFECTS, *_NOT_HERE))
    for name in (*_EFFECTS, *acted):
        count = limits.get(name, 0)
        if count > MOST_LIMITED * steps:
            effect, cure = _EFFECTS.get(name, (f'the limit "{name}" acted', None))
            warn(
                f'motion "{motion}": in {count} of {counted(steps, "step")} {effect}; '
                f"look at these frames, or use {cure or f'firmer flesh or {slower}'}"
            )


def stable_take(
    player_with: Callable[[float], Player], every: int, progress: Progress, stiffen: bool
) -> Take:
    """Record a take with the softest flesh that the motion allows.

    `player_with` makes a player with a factor on the stiffness; `every` is the number of steps per
    frame. With `stiffen` the factor increases until limits act in at most `MOST_LIMITED` of the
    steps.
    """
    best: Take | None = None
    for factor in STIFFER if stiffen else STIFFER[:1]:
        take = Take(player_with(factor), every, _stiffness_progress(progress, factor))
        take.recorded()
        take.stiffness = factor
        if best is None or take.limited < best.limited:
            best = take
        if take.limited <= MOST_LIMITED:
            break
    assert best is not None
    if best.stiffness > 1:
        warn(
            f'motion "{best.player.motion.name}" is too violent for flesh this soft; it is made '
            f"{best.stiffness:g} times as stiff"
        )
    best.warn_of_limits()
    return best


def _stiffness_progress(progress: Progress, factor: float) -> Progress:
    if factor == 1:
        return progress
    return lambda part, what: progress(part, f"{what}, {factor:g} times as stiff")


def _frame_readings(simulator: Any, state: StepState | None, moved: Floats) -> dict[str, Any]:
    """Return the readings of a step in the clip's frame; `moved` (4, 4) maps to the simulator's.

    They are the values of `StepState.readings`, with ``"torques"`` by bone and, for
    `ContactReadings`, ``"touching"``: vertices ``points`` (c,), ``places`` (c, 3), ``forces``
    (c, 3) in N, ``pressures`` (c,) in Pa, and ``things``, the names of the colliders.
    """
    if state is None:
        return {}
    readings = {name: _in_clip(value, moved[:3, :3]) for name, value in state.readings.items()}
    if isinstance(simulator, SoftContact):
        names = simulator.model.bones
        readings["torques"] = dict(zip(names, readings.get("torques", ()), strict=False))
    if isinstance(simulator, ContactReadings):
        contacts, colliders = simulator.contacts(), simulator.colliders
        readings["touching"] = {
            "points": contacts.points.copy(),
            "places": (contacts.places - moved[:3, 3]) @ moved[:3, :3],
            "forces": contacts.forces @ moved[:3, :3],
            "pressures": contacts.pressures.copy(),
            "things": tuple(colliders[collider] for collider in contacts.colliders),
        }
    return readings


def _in_clip(value: Any, rotation: Floats) -> Any:
    """Return copies of readings, vectors (…, 3) rotated back into the clip's frame."""
    if isinstance(value, Mapping):
        return {name: _in_clip(each, rotation) for name, each in value.items()}
    if isinstance(value, np.ndarray):
        return value @ rotation if value.shape[-1:] == (3,) else value.copy()
    return value
