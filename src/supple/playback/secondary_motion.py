"""Secondary motion: simulated curves of the free parameters of a rig, offsets from its keys.

The time step does not depend on the frame rate, so that curves look the same at 24, 30, 60 and 120
frames per second; frames are interpolated from the steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, cast

import numpy as np

from supple.anatomy.flesh_presets import checked_flesh
from supple.arrays import Floats, Ints
from supple.checks import checked_number, shown
from supple.dynamics.motion_steps import pose_before
from supple.engines.common.option_record import takes_options
from supple.engines.engine import CharacterModel, Engine, engine_named, engine_of
from supple.engines.optional_parts import FreeParameters, ParameterSprings
from supple.engines.options import CurvePlayOptions, FleshOptions, without_none
from supple.errors import SolverError, SuppleError, warn
from supple.linalg.blas import single_threaded
from supple.maths.curves import smoothed
from supple.playback.bake_model import ANATOMY
from supple.playback.bake_plan import bake_simulator, sorted_options
from supple.playback.character_models import fitting_model, keeps_models
from supple.playback.character_sources import source_of
from supple.playback.cycle import checked_rate, checked_span
from supple.playback.feel.feel import with_file_feel
from supple.playback.motion_choice import chosen_motion
from supple.playback.obstacles.words import ClipPlace, placed_options
from supple.playback.player import Player
from supple.playback.progress_bar import ShownProgress, reported_progress
from supple.playback.take import CLOSED, MOST_CYCLES, VISIBLY_OPEN, warn_of_limits
from supple.progress import Progress
from supple.rig.character import WIGGLE, Character
from supple.rig.free_curves import FreeCurves, skin_reach
from supple.rig.motion.frame_counts import frame_times, whole_steps
from supple.rig.motion.motion import Motion

#: Default engine.
ENGINE = "rig-space"
#: Name of the curves of the built-in wiggle, for a character without motions.
SHAKEN = "shaken"
#: Largest difference of entries at the ends of a cycle that counts as rounding of files.
ROUNDED = 1e-6
#: Time step in s; frames at 24, 30, 60 and 120 per second are multiples of it.
STEP = 1 / 120
#: Frames per second of clips with irregular keys, and the least and largest default rate.
USUAL_RATE, LEAST_RATE, MOST_RATE = 30.0, 24.0, 120.0
RATES = (120.0, 60.0, 50.0, 48.0, 30.0, 25.0, 24.0)
#: Seconds of fading at the ends of a part inside of a clip, and of simulation before the part, so
#: that the flesh is moving when it begins.
FADE, LEAD = 0.25, 1.0
#: Largest displacement of the skin per step of settled flesh, relative to the size, and its
#: duration in s.
STILL, STILL_FOR = 2e-6, 0.2


@takes_options(CurvePlayOptions, FleshOptions, anatomy=ANATOMY)
def curves(
    character: Character | str | Path,
    motion: Motion | str | None = None,
    model: CharacterModel | None = None,
    *,
    engine: str | None = None,
    damping: float = 1.0,
    simulation: Mapping[str, Any] | None = None,
    progress: ShownProgress = None,
    keep: bool | None = None,
    **options: Any,
) -> FreeCurves:
    """Simulate free parameters of a rig, and return their curves.

    Parameters
    ----------
    character, motion
        As for `supple.bake`.
    model
        Model of this character with free parameters; by default it is built, or read from the
        cache.
    engine, damping, simulation, progress, keep
        As for `supple.bake`; the default engine is "rig-space", or the model's.
    **options
        Options of `CurvePlayOptions` and `FleshOptions`. ``free``: names of the parameters that
        the simulation moves, such as ``["Tail*", "belly"]``, by default those that move flesh and
        that no motion keys. ``rate``: frames per second, by default the motion's; the
        simulation does not depend on it. ``start``, ``end``, ``loop``, ``settle``, ``blend`` (one
        or two numbers), ``smooth`` (`supple.maths.curves.smoothed`), ``strength``, ``flesh``,
        ``tets`` and others. All others are options of the engine's builder.

    Returns
    -------
    FreeCurves
        A `Motion` with the keys, in which physics moves the free parameters. `supple.save` writes
        their curves into the character's file.
    """
    source = source_of(character, curves=False)
    model = source.model if model is None else model
    row = engine_of(model) if engine is None and model is not None else moving_engine(engine)
    felt = with_file_feel(source.character, {**options, "damping": damping}, ("flesh", "damping"))
    damping = felt.pop("damping")
    playing, flesh, building = sorted_options("curves", CurvePlayOptions, row, felt)
    settle, smooth, strength = (playing.pop(name) for name in ("settle", "smooth", "strength"))
    stepping = without_none({name: playing.pop(name) for name in ("solver", "deferral")})
    plan = curve_plan(source.character, motion, **playing)
    preset, scaled = checked_flesh(flesh), building.get("anatomy", ANATOMY) is not None
    if model is not None and "free" in building:
        raise SuppleError("the model determines the free parameters; leave out free")
    ready = fitting_model(source, model, preset, row.name, building, keeps_models(keep), progress)
    model = ready.model
    stepping |= {"flesh": preset, "damping": damping, "engine": row.name}
    stepping |= {"feel": ready.feel, "scaled_loads": scaled, **(simulation or {})}
    stepping = placed_options(stepping, plan.place_of(source.character))
    simulator = _made_simulator(model, plan.dt, stepping)
    if not isinstance(simulator, FreeParameters):
        raise SuppleError(f"the engine {row.name} moves no parameters of the rig; use {ENGINE}")
    place = {each.name: k for k, each in enumerate(source.character.rig.parameters)}
    columns = np.array([place[name] for name in simulator.free], dtype=np.int64)
    with reported_progress(progress) as callback:
        take = ParameterTake(plan.player(simulator), columns, callback)
        take.play(_checked_seconds("settle", settle))
    take.smooth(_checked_seconds("smooth", smooth))
    return plan.curves(source.character, take, ready.seconds).scaled(strength)


@dataclass(frozen=True, eq=False)
class CurvePlan:
    """Plan of curves: the complete clip, the part to be simulated, the time step and the frames.

    The part is from `start` to `end` in s, and `dt` is in s. `times` (t,) are the seconds of the
    frames, `blend` the seconds of fading in and out.
    """

    motion: Motion
    start: float
    end: float
    loop: bool
    dt: float
    times: Floats
    blend: tuple[float, float]

    def place_of(self, character: Character) -> ClipPlace:
        """Return the part of the motion, in which obstacles are placed around the character."""
        return ClipPlace(character.rig, character.surface, self.motion, self.start, self.end)

    def player(self, simulator: Any) -> Player:
        """Return a player that starts up to `LEAD` s before `start`, or at `start` for a loop."""
        first = self.start
        if not self.loop:
            # An integer number of steps, so that the times of frames do not change.
            room = whole_steps(self.motion.times[0], self.start, 1 / self.dt)
            first -= self.dt * min(whole_steps(0.0, LEAD, 1 / self.dt), room)
        return Player(simulator, self.motion, loop=self.loop, start=first, end=self.end)

    def curves(self, character: Character, take: ParameterTake, built: float) -> FreeCurves:
        """Return the curves of `take` at the frames; `built` is the time of the build in s."""
        report = take.report(character) | {
            "frames": len(self.times),
            "rate": float(f"{1 / np.median(np.diff(self.times)):.6g}")
            if len(self.times) > 1
            else 0.0,
            "build_s": round(built, 3),
        }
        stride = max(1, round(float(np.median(np.diff(self.times))) / STEP))
        fine = None
        if stride > 1:
            count = stride * (len(self.times) - 1) + 1
            between = np.interp(np.arange(count) / stride, np.arange(len(self.times)), self.times)
            fine = self._sampled(character, take, between, {}, stride=stride)
        return self._sampled(character, take, self.times, report, fine=fine)

    def _sampled(
        self,
        character: Character,
        take: ParameterTake,
        frames: Floats,
        report: dict[str, Any],
        **samples: Any,
    ) -> FreeCurves:
        """Return the curves of `take` at the times `frames`."""
        even = take.player.motion
        # The last frame may be up to one step after the last step.
        times = np.clip(frames, even.times[0], even.times[-1])
        keyed, roots = self.motion.at(frames)
        added = Motion(even.times, take.added, None, "", even.cuts).at(times)[0]
        added = take.within(keyed[:, take.columns], added) * self._faded(times)[:, None]
        if self.loop and take.player.seamless:
            added[-1] = added[0]
            if np.allclose(keyed[-1], keyed[0], rtol=0, atol=ROUNDED):
                keyed[-1] = keyed[0]
        poses = keyed.copy()
        poses[:, take.columns] += added
        firsts = np.searchsorted(times, even.times[list(even.cuts)] - 1e-9)
        cuts = sorted({int(k) for k in firsts if 0 < k < len(times)})
        motion = Motion(frames, keyed, roots, self.motion.name, cuts)
        span = float(self.motion.times[0]), float(self.motion.times[-1])
        settings: dict[str, Any] = {"loop": self.loop, "span": span, "report": report} | samples
        curves = FreeCurves(character, take.free, motion, poses, **settings)
        if curves.stride == 1:
            return curves
        keyed[:, take.columns] = curves.smooth_between(keyed[:, take.columns])
        poses[:, take.columns] = keyed[:, take.columns] + added
        motion = Motion(frames, keyed, roots, self.motion.name, cuts)
        return FreeCurves(character, take.free, motion, poses, **settings)

    def _faded(self, times: Floats) -> Floats:
        """Return the weight of the offsets at each time, 0 to 1."""
        part = np.ones(len(times))
        for seconds, since in zip(self.blend, (times - self.start, self.end - times), strict=True):
            if seconds > 0:
                u = np.clip(since / seconds, 0, 1)
                part = part * u**2 * (3 - 2 * u)
        return part


def curve_plan(
    character: Character,
    motion: Motion | str | None = None,
    *,
    rate: float | None = None,
    start: float | None = None,
    end: float | None = None,
    loop: bool = False,
    blend: float | tuple[float, float] | None = None,
) -> CurvePlan:
    """Return the plan of `curves`, or refuse it before anything is computed."""
    clip = chosen_motion(character, motion)
    if clip.name == WIGGLE and WIGGLE not in character.motions:
        clip = Motion(clip.times, clip.poses, clip.roots, SHAKEN)
    first, last = checked_span(clip, start, end)
    if not last > first:
        raise SuppleError(
            f'motion "{clip.name}" has no duration at {first:.4g} s; use a longer part'
        )
    frames = _usual_rate(clip) if rate is None else checked_rate(rate)
    count = max(2, round((last - first) / STEP)) if loop else 0
    dt = (last - first) / count if loop else STEP
    times = frame_times(first, last, frames)
    fades = _fades(blend, clip, first, last, loop)
    return CurvePlan(clip, first, last, bool(loop), dt, times, fades)


def _usual_rate(clip: Motion) -> float:
    """Return the frame rate at which the keys of a clip are on frames, or else `USUAL_RATE`."""
    since = clip.times - clip.times[0]
    if len(since) < 2:
        return USUAL_RATE
    rate = clip.rate
    rate = float(round(rate)) if abs(rate - round(rate)) < 1e-4 * rate else rate
    # Sparse keys get frames between them.
    rate *= max(1, np.ceil(LEAST_RATE / rate - 1e-6))
    if rate <= MOST_RATE and np.abs(since * rate - np.round(since * rate)).max() < 0.02:
        return float(rate)
    # Readers add keys between those of the file: each frame of the rate must have a key.
    for rate in RATES:
        frames = since * rate
        near = np.unique(np.round(frames[np.abs(frames - np.round(frames)) < 0.02]))
        if len(near) >= 0.9 * (since[-1] * rate + 1):
            return rate
    return USUAL_RATE


def _fades(
    blend: float | tuple[float, float] | None, clip: Motion, first: float, last: float, loop: bool
) -> tuple[float, float]:
    """Return the seconds of fading in and out, together at most the duration of the part."""
    if blend is None:
        inside = first > clip.times[0] + 1e-6, last < clip.times[-1] - 1e-6
        ends = [0.0 if loop or not each else FADE for each in inside]
    else:
        seconds = blend if isinstance(blend, Sequence) else (blend, blend)
        if len(seconds) != 2:
            raise SuppleError(f"blend is {shown(blend)}; give seconds for both ends, or two")
        ends = [_checked_seconds("blend", each) for each in seconds]
        if loop and any(ends):
            raise SuppleError("a loop has no ends to blend at; leave out blend or loop")
    shrunk = min(1.0, (last - first) / max(sum(ends), 1e-9))
    return ends[0] * shrunk, ends[1] * shrunk


def _checked_seconds(what: str, value: Any) -> float:
    if not 0 <= (seconds := checked_number(what, value)) <= 60:
        raise SuppleError(f"{what} is {seconds:g} s; use 0 to 60")
    return seconds


def _made_simulator(model: Any, dt: float, options: dict[str, Any]) -> Any:
    """Return the simulator; the option `damping` may be a mapping of factors by parameter name."""
    damping = options.pop("damping") if isinstance(options.get("damping"), Mapping) else None
    simulator = bake_simulator(model, dt, **options)
    if damping is not None:
        if not isinstance(simulator, ParameterSprings):
            raise SuppleError(f"the engine {engine_of(model).name} needs one number as damping")
        simulator.tune(damping=damping)
    return simulator


def moving_engine(name: str | None = None) -> Engine:
    """Return the row of an engine with free parameters, by default rig-space; refuse others."""
    row = engine_named(name or ENGINE, "character")
    if "free" not in row.build_options:
        raise SuppleError(f"the engine {row.name} moves no parameters of the rig; use {ENGINE}")
    return row


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
