"""Plans of bakes: the quality, the motion and its time steps, and the simulator."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

from supple.anatomy.flesh_presets import HUMAN, Flesh, checked_flesh, scaled_gravity
from supple.checks import checked_choice, checked_number
from supple.engines.engine import (
    ENGINES,
    FIRST_ENGINE,
    CharacterEngine,
    CharacterModel,
    Engine,
    check_names,
    engine_named,
)
from supple.engines.options import FleshOptions, option_values, without_defaults
from supple.errors import SuppleError, SuppleWarning
from supple.playback.bake_model import SCALED_LOADS
from supple.playback.cycle import checked_span, steps_of_frames
from supple.playback.feel.feel import AS_BUILT, Feel
from supple.playback.motion_choice import chosen_motion
from supple.playback.obstacles.words import ClipPlace, placed_options
from supple.playback.player import Player
from supple.playback.take import stable_take
from supple.progress import unreported
from supple.rig.character import Character
from supple.rig.motion.motion import Motion

#: Acceleration in m/s² for a body of 2 m, beyond which the character counts as teleported. Corners
#: of real clips, rounded within the tolerance of smoothing, reach 6,000.
FASTEST = 10000.0
#: Default frames per second.
RATE = 30.0
#: Further options of a model, which anatomy files and other options become.
_DERIVED = ("kind", "local_feel")
QUALITIES = ("auto", "live", "final")


def played_engine(row: Engine, quality: str) -> Engine:
    """Return `row`, or its unreduced engine for ``"final"``; ``"auto"`` is decided later."""
    if checked_choice("quality", quality, QUALITIES) != "final":
        return row
    if not row.unreduced:
        others = " or ".join(each.name for each in ENGINES.values() if each.unreduced)
        raise SuppleError(f"{row.name} has no unreduced form for final quality; use {others}")
    return engine_named(row.unreduced)


def sorted_options(
    function: str, played: type, row: Engine, options: dict[str, Any]
) -> tuple[dict[str, Any], str | Flesh, dict[str, Any]]:
    """Return the options of playing, the flesh, and the options of building.

    `options` are from a call of `function`; the record `played` declares the options of playing.
    Raise SuppleError for an unknown option.
    """
    if not row.takes_any_option:
        names = [each.name for record in (played, FleshOptions) for each in fields(record)]
        check_names(f"supple.{function}", options, (*names, *row.build_options, *_DERIVED))
    playing, flesh = option_values(played, options), options.pop("flesh", "normal")
    return playing, flesh, without_defaults(FleshOptions, options)


def check_unreduced(
    live: Engine, quality: str, building: Mapping[str, Any], simulation: Mapping[str, Any]
) -> None:
    """Refuse options that final quality does not have."""
    if quality != "final":
        return
    row = played_engine(live, quality)
    reduced = {*live.build_options} - {*row.build_options}
    if names := [name for name in building if name in reduced]:
        what = 'quality "final" simulates without model reduction'
        raise SuppleError(f"{what}; leave out {', '.join(names)}")
    if "substeps" in simulation:
        raise SuppleError('quality "final" chooses the number of substeps; leave out substeps')
    live_only = {*live.step_options} - {*row.step_options, "stiffness"}
    if names := [name for name in simulation if name in live_only]:
        listed = ", ".join(names)
        raise SuppleError(f'quality "final" has no option {listed}; leave it out, or use "live"')


@dataclass(frozen=True, eq=False)
class BakePlan:
    """Plan of a bake: the complete clip, the part to be baked, and its time steps.

    The part is from `start` to `end` in s. `rate` is the option, in frames per second; `dt` is the
    time step in s and `every` the number of steps per frame.
    """

    motion: Motion
    start: float
    end: float
    loop: bool
    rate: float
    dt: float = 0.0
    every: int = 1

    def stepped_by(self, engine: str) -> BakePlan:
        """Return the same plan with time steps that an engine allows."""
        longest = engine_named(engine, "character").longest_step
        span = self.end - self.start if self.loop else None
        dt, every = steps_of_frames(self.rate, span, longest)
        return replace(self, dt=dt, every=every)

    def place_of(self, shaped: Character | CharacterModel) -> ClipPlace:
        """Return the part of the motion, in which obstacles are placed around the character."""
        return ClipPlace(shaped.rig, shaped.surface, self.motion, self.start, self.end)

    def simulator(self, model: CharacterModel, options: Mapping[str, Any]) -> Any:
        """Return a simulator by options of `bake_simulator`, with obstacles where they begin."""
        return bake_simulator(model, self.dt, **placed_options(options, self.place_of(model)))

    def player(
        self, simulator: CharacterEngine, *, ahead: bool = False, multiple: int = 1
    ) -> Player:
        """Return a `Player` of the motion; the time step of `simulator` must be `dt`."""
        if simulator.dt != self.dt:
            raise SuppleError(f"the simulator steps {simulator.dt:g} s, but the plan {self.dt:g} s")
        span: dict[str, Any] = {"start": self.start, "end": self.end, "multiple": multiple}
        return Player(simulator, self.motion, loop=self.loop, ahead=ahead, **span)


def bake_plan(
    character: Character,
    motion: Motion | str | None = None,
    *,
    rate: float | None = None,
    start: float | None = None,
    end: float | None = None,
    loop: bool = False,
    engine: str = FIRST_ENGINE,
) -> BakePlan:
    """Return the plan of a bake, or refuse it before anything is computed; see `bake`."""
    clip = chosen_motion(character, motion)
    first, last = checked_span(clip, start, end)
    if loop and not last > first:
        raise SuppleError(f'motion "{clip.name}" has nothing to loop at {first:.4g} s')
    frame_rate = RATE if rate is None else rate
    return BakePlan(clip, first, last, bool(loop), frame_rate).stepped_by(engine)


def bake_simulator(
    model: CharacterModel,
    dt: float | None = None,
    *,
    flesh: str | Flesh = "normal",
    damping: float = 1.0,
    engine: str = FIRST_ENGINE,
    scaled_loads: bool = SCALED_LOADS,
    feel: Feel = AS_BUILT,
    **options: Any,
) -> Any:
    """Return the simulator that `bake` and the viewer step, so that both have the same frames.

    The default `dt` is the engine's longest step; the flesh determines the damping only, and `feel`
    the stiffness relative to the model. With `scaled_loads` gravity scales with the size, as
    stiffness with its square, so that scaled bodies move alike; engines with `real_loads` ignore
    it. Other options of the simulator override these.
    """
    row = engine_named(engine, "character")
    # Files often have wrong units: a rat of seven metres moves as fast as it is large.
    larger = model.surface.size / HUMAN
    usual: dict[str, Any] = flesh_damping(flesh, damping)
    usual["acceleration_limit"] = FASTEST * (larger if scaled_loads else max(1.0, larger))
    if scaled_loads and not row.real_loads:
        usual["gravity"] = (0.0, -scaled_gravity(model.surface.size), 0.0)
    accepted = {name: value for name, value in usual.items() if name in row.step_options}
    step = row.longest_step if dt is None else dt
    simulator = row.make_simulator(model, step, **(accepted | options))
    if feel.changes:
        feel.apply(simulator, simulator.stiffness)
    return simulator


def flesh_damping(flesh: str | Flesh, damping: float = 1.0) -> dict[str, float]:
    """Return the damping options `alpha` and `beta` of a flesh, times `damping`."""
    preset, times = checked_flesh(flesh), checked_number("damping", damping)
    if not 0 <= times <= 100:
        raise SuppleError(f"damping is {times:g} times the flesh's; use 0 to 100")
    return {"alpha": times * preset.alpha, "beta": times * preset.beta}


def stable_stiffness(model: CharacterModel, plan: BakePlan, **options: Any) -> float:
    """Return the factor by which `bake` stiffens the flesh: 1 except for violent motions.

    `options` are options of `bake_simulator`; a feel may be fixed.
    """
    if options.get("feel", AS_BUILT).fixed:
        return 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SuppleWarning)
        player_with = partial(player_with_factor, model, plan, options)
        return stable_take(player_with, plan.every, unreported, True).stiffness


def player_with_factor(
    model: CharacterModel, plan: BakePlan, options: Mapping[str, Any], factor: float
) -> Player:
    """Return a player of flesh that is `factor` times as stiff."""
    stiffness = {} if factor == 1 else {"stiffness": factor}
    return plan.player(plan.simulator(model, {**options, **stiffness}))
