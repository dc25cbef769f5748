"""Secondary motion: simulated curves of the free parameters of a rig, offsets from its keys.

The time step does not depend on the frame rate, so that curves look the same at 24, 30, 60 and 120
frames per second; frames are interpolated from the steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from supple.anatomy.flesh_presets import checked_flesh
from supple.arrays import Floats
from supple.checks import checked_number, shown
from supple.engines.common.option_record import takes_options
from supple.engines.engine import CharacterModel, Engine, engine_named, engine_of
from supple.engines.optional_parts import FreeParameters, ParameterSprings
from supple.engines.options import CurvePlayOptions, FleshOptions, without_none
from supple.errors import SuppleError
from supple.playback.bake_model import ANATOMY
from supple.playback.bake_plan import bake_simulator, sorted_options
from supple.playback.character_models import fitting_model, keeps_models
from supple.playback.character_sources import source_of
from supple.playback.cycle import checked_rate, checked_span
from supple.playback.feel.feel import with_file_feel
from supple.playback.motion_choice import chosen_motion
from supple.playback.obstacles.words import ClipPlace, placed_options
from supple.playback.parameters.parameter_take import ParameterTake
from supple.playback.player import Player
from supple.playback.progress_bar import ShownProgress, reported_progress
from supple.rig.character import WIGGLE, Character
from supple.rig.free_curves import FreeCurves
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
