"""Baking: the skin of a character with flesh at every frame of a motion."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from supple.anatomy.flesh_presets import HUMAN, Flesh, checked_flesh, scaled_gravity
from supple.checks import checked_number
from supple.engines.engine import (
    ENGINES,
    FIRST_ENGINE,
    CharacterEngine,
    CharacterModel,
    Engine,
    engine_named,
    engine_of,
)
from supple.errors import SuppleError, SuppleWarning, warn
from supple.playback.bake_model import ANATOMY, SCALED_LOADS, check_model, model_options
from supple.playback.checkpoint import Checkpoint, content_of
from supple.playback.convergence import CONVERGING
from supple.playback.cycle import checked_span, steps_of_frames
from supple.playback.final_take import final_take
from supple.playback.motion_choice import chosen_motion, chosen_motions
from supple.playback.player import Player
from supple.playback.quality import check_unreduced, played_engine
from supple.playback.take import Take, stable_take
from supple.progress import Progress, unreported
from supple.rig.baked_motion import BakedMotion
from supple.rig.character import Character
from supple.rig.motion.motion import Motion

#: In m/s² for a body of 2 m, beyond which flesh is taken to have been put elsewhere. Corners of
#: real clips, rounded within the tolerance of smoothing, reach 6,000.
FASTEST = 10000.0


def bake(
    character: Character,
    motion: Motion | str | None = None,
    model: CharacterModel | None = None,
    *,
    engine: str | None = None,
    flesh: str | Flesh = "normal",
    damping: float = 1.0,
    rate: float = 30.0,
    start: float | None = None,
    end: float | None = None,
    loop: bool = False,
    quality: str = "live",
    simulation: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    checkpoints: list[Checkpoint] | None = None,
    **building: Any,
) -> BakedMotion:
    """Play a motion and keep the skin at every frame.

    Parameters
    ----------
    character
        See `supple.load`.
    motion
        Motion, or the name of one of the character's, such as ``"Run"`` for
        ``"RatArmature|Rat_Run"`` (`Character.motion` has the rules); by default its liveliest. A
        character without any, and ``"wiggle"``, is shaken and tilted.
    model
        Model of this character; by default one is built.
    engine
        Of `supple.engines.ENGINES`; by default the model's own, or "pose-space". "full" steps all
        tets, which takes minutes. (`method` is the older word.)
    flesh, damping
        ``"firm"``, ``"normal"``, ``"soft"`` or ``"jelly"``: how stiff, and how it is damped; and a
        factor on the damping, 0 for none.
    rate
        Frames per second. Flesh is stepped as often as its engine asks for, or a little more.
    start, end
        Seconds of the motion; by default all of it.
    loop
        Play until the cycle closes: the last frame then is the first again, in the root's frame,
        to 0.1 % of the size. So that it ends with a frame, the rate is changed a little.
    quality
        ``"live"``: what a live simulation shows, to the bit. ``"final"``: the engine's unreduced
        form, with steps halved until that changes less than 2 %; nothing is reduced, all tets are
        stepped. Pose-space has one; see `final_take`.
    simulation
        More options of the simulator, such as ``{"gravity_mode": "none"}``.
    progress
        Called with the part done, 0 to 1, and what is being done.
    checkpoints
        A list that gets the `Checkpoint` of each final bake, to be removed when its result is
        safe; by default it is removed here. One that was interrupted is gone on with.
    **building
        Options for a model that is built. ``young`` in Pa and ``poisson`` in place of the flesh's:
        numbers, or painted on the skin. ``stiffness``, where flesh is stiffer or softer: factors
        by joint or vertex; see `stiffness_factors`. ``anatomy``: "auto", an `Anatomy`, or None for
        bones alone. Others of `supple.build`: ``tets=4000``.

    Raises
    ------
    SuppleError
        What is wrong, and what to do about it.

    Warns
    -----
    SuppleWarning
        If a rig jumps where it loops, flesh does not repeat itself, the motion is so violent
        that flesh was made stiffer (``{"stiffness": 1}`` in `simulation` keeps it as it is), or
        the simulation had to begin anew.
    """
    row = _chosen_engine(engine, building.pop("method", None), model)
    steps = played_engine(row, quality).name
    plan = bake_plan(character, motion, rate=rate, start=start, end=end, loop=loop, engine=steps)
    said = _FleshOptions(row, quality, flesh, damping, dict(simulation or {}), building)
    return said.baked(character, [plan], model, progress or unreported, checkpoints)[0]


def bake_all(
    character: Character,
    model: CharacterModel | None = None,
    *,
    motions: Motion | str | Iterable[Motion | str] | None = None,
    engine: str | None = None,
    flesh: str | Flesh = "normal",
    damping: float = 1.0,
    rate: float = 30.0,
    loop: bool = False,
    quality: str = "live",
    simulation: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    checkpoints: list[Checkpoint] | None = None,
    **building: Any,
) -> list[BakedMotion]:
    """Play all motions of a character with one model; `supple.save` takes the list.

    Parameters
    ----------
    motions
        Motions, names or patterns such as ``"Idle*"``, which stands for all that it matches; by
        default all that the character has, or the wiggle where it has none.
    character, model, engine, flesh, damping, rate, loop, quality, simulation, progress,\
    checkpoints, **building
        As for `bake`. A motion of a single key has nothing to loop and is played once.
    """
    row = _chosen_engine(engine, building.pop("method", None), model)
    chosen = chosen_motions(character, motions)
    if not chosen:
        raise SuppleError(f"{character.name}: no motion to bake; name one or more")
    plans, steps = [], played_engine(row, quality).name
    for each in chosen:
        looped = loop and each.duration > 0
        plans.append(bake_plan(character, each, rate=rate, loop=looped, engine=steps))
    said = _FleshOptions(row, quality, flesh, damping, dict(simulation or {}), building)
    return said.baked(character, plans, model, progress or unreported, checkpoints)


@dataclass(frozen=True)
class _FleshOptions:
    """Everything that is said about flesh and its simulation, for any number of motions."""

    live: Engine
    quality: str
    flesh: str | Flesh
    damping: float
    simulation: dict[str, Any]
    building: dict[str, Any]

    def baked(
        self,
        character: Character,
        plans: Sequence[BakePlan],
        model: CharacterModel | None,
        progress: Progress,
        checkpoints: list[Checkpoint] | None,
    ) -> list[BakedMotion]:
        """Build the model where there is none, and play each plan with it."""
        row, building = played_engine(self.live, self.quality), self.building
        check_unreduced(self.live, self.quality, building, self.simulation)
        kept = list[Checkpoint]() if checkpoints is None else checkpoints
        kind, began = checked_flesh(self.flesh), perf_counter()
        options = _step_options(kind, self.damping, row, building) | self.simulation
        if model is None:
            wanted = model_options(character, kind, row.name, **building)
            model = row.build_model(character, **wanted)
        else:
            check_model(character, model, flesh=kind, **building)
        built = perf_counter() - began
        # Whoever says how stiff flesh is gets it.
        may_stiffen = (
            row.may_stiffen and building.get("young") is None and "stiffness" not in options
        )
        places = _checkpoints(model, plans, options) if self.quality == "final" else []
        kept += places
        found = []
        for number, plan in enumerate(plans):
            tell = _share(progress, number, plans)
            if self.quality == "final":
                take, told = _final(model, plan, options, tell, places[number])
            else:
                player_with = partial(_player_with, model, plan, options)
                take, told = stable_take(player_with, plan.every, tell, may_stiffen)[0], {}
            of_model = {"name": model.name, "engine": row.name, **_sizes(model), **model.figures}
            report = of_model | take.figures() | {"build_s": round(built, 3)}
            report |= {"quality": self.quality, **told}
            found.append(_baked_motion(character, plan, take, report))
        if checkpoints is None:
            for each in kept:
                each.remove()
        return found


def _checkpoints(
    model: CharacterModel, plans: Sequence[BakePlan], options: Mapping[str, Any]
) -> list[Checkpoint]:
    """Return the checkpoint of each plan; however many there are, they stay together."""
    contents = []
    for plan in plans:
        steps = plan.start, plan.end, plan.loop, plan.dt, plan.every
        contents.append(content_of(model, plan.motion, *steps, CONVERGING | dict(options)))
    return [Checkpoint(content, contents) for content in contents]


def _final(
    model: CharacterModel,
    plan: BakePlan,
    options: Mapping[str, Any],
    tell: Progress,
    kept: Checkpoint,
) -> tuple[Take, dict[str, Any]]:
    """Play a plan in final quality; return the take, and what is reported of its convergence."""
    own = CONVERGING | dict(options)
    factor = own.pop("stiffness", 1.0)
    simulator = bake_simulator(model, plan.dt, **own)
    simulator.stiffness = factor

    def player_with(substeps: int) -> Player:
        cut = replace(plan, dt=plan.dt / substeps, every=plan.every * substeps)
        simulator.dt = cut.dt
        return cut.player(simulator, ahead=True, multiple=substeps)

    found = final_take(player_with, plan.every, tell, kept)
    return found.result, {
        "substeps": found.substeps,
        "changes": [None if each == np.inf else float(f"{each:.4g}") for each in found.changes],
        "converged": found.done,
        "unconverged_steps": found.result.unconverged,
    }


def _baked_motion(
    character: Character, plan: BakePlan, take: Take, report: dict[str, Any]
) -> BakedMotion:
    assert take.frames is not None
    rate = 1 / (plan.dt * plan.every)
    return BakedMotion(
        character, take.motion(), take.frames, rate, plan.loop, report, take.readings
    )


def _share(progress: Progress, number: int, plans: Sequence[BakePlan]) -> Progress:
    """Return what tells of one of several motions, each by its share of the seconds."""
    if len(plans) == 1:
        return progress
    seconds = np.cumsum([0.0, *(max(plan.end - plan.start, 0.1) for plan in plans)])
    begun, ended = (seconds[number : number + 2] / seconds[-1]).tolist()
    name = plans[number].motion.name
    return lambda part, what: progress(begun + (ended - begun) * part, f"{name}: {what}")


def _step_options(
    flesh: Flesh, damping: float, row: Engine, building: Mapping[str, Any]
) -> dict[str, Any]:
    scaled = building.get("anatomy", ANATOMY) is not None
    return {"flesh": flesh, "damping": damping, "engine": row.name, "scaled_loads": scaled}


def stable_stiffness(model: CharacterModel, plan: BakePlan, **options: Any) -> float:
    """Return how many times as stiff `bake` makes flesh for a motion: 1 but for violent ones.

    Parameters
    ----------
    model, plan
        Model and plan of what would be baked.
    **options
        Of `bake_simulator`.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SuppleWarning)
        player_with = partial(_player_with, model, plan, options)
        return stable_take(player_with, plan.every, unreported, True)[0].stiffness


def _player_with(
    model: CharacterModel, plan: BakePlan, options: Mapping[str, Any], factor: float
) -> Player:
    """Return a player of flesh that is `factor` times as stiff."""
    own = dict(options) if factor == 1 else {**options, "stiffness": factor}
    return plan.player(bake_simulator(model, plan.dt, **own))


@dataclass(frozen=True, eq=False)
class BakePlan:
    """Plan of a bake: the motion that is played, and how often it is stepped.

    Attributes
    ----------
    motion
        The whole clip.
    start, end, loop
        Seconds of the clip, and whether it loops.
    dt, every
        The fixed step in s, and how many of them make a frame.
    """

    motion: Motion
    start: float
    end: float
    loop: bool
    dt: float
    every: int

    def player(
        self, simulator: CharacterEngine, *, ahead: bool = False, multiple: int = 1
    ) -> Player:
        """Return a player of the motion; the simulator's step must be this plan's."""
        if simulator.dt != self.dt:
            raise SuppleError(f"the simulator steps {simulator.dt:g} s; the plan is {self.dt:g} s")
        told: dict[str, Any] = {"start": self.start, "end": self.end, "multiple": multiple}
        return Player(simulator, self.motion, loop=self.loop, ahead=ahead, **told)


def bake_plan(
    character: Character,
    motion: Motion | str | None = None,
    *,
    rate: float = 30.0,
    start: float | None = None,
    end: float | None = None,
    loop: bool = False,
    engine: str = FIRST_ENGINE,
) -> BakePlan:
    """Plan what `bake` plays, or refuse it before anything is computed; see there."""
    clip = chosen_motion(character, motion)
    first, last = checked_span(clip, start, end)
    if loop and not last > first:
        raise SuppleError(f'motion "{clip.name}" has nothing to loop at {first:.4g} s')
    longest = engine_named(engine, "character").longest_step
    dt, every = steps_of_frames(rate, last - first if loop else None, longest)
    return BakePlan(clip, first, last, bool(loop), dt, every)


def bake_simulator(
    model: CharacterModel,
    dt: float | None = None,
    *,
    flesh: str | Flesh = "normal",
    damping: float = 1.0,
    engine: str = FIRST_ENGINE,
    scaled_loads: bool = SCALED_LOADS,
    **options: Any,
) -> Any:
    """Make the simulator that `bake` steps, so that others get the same bits.

    Parameters
    ----------
    model, dt
        As for `supple.Simulator`; by default the engine's longest step.
    flesh, damping, engine
        As for `bake`; the model has its stiffness already.
    scaled_loads
        Let gravity go with the size, as stiffness does with its square: scaled bodies move alike;
        not where an engine has `real_loads`.
    **options
        Of the engine's simulator, in place of these.
    """
    row = engine_named(engine, "character")
    # Files mistake their units: a rat of seven metres scurries as fast as it is large.
    larger = model.surface.size / HUMAN
    usual: dict[str, Any] = flesh_damping(flesh, damping)
    usual["acceleration_limit"] = FASTEST * (larger if scaled_loads else max(1.0, larger))
    if scaled_loads and not row.real_loads:
        usual["gravity"] = (0.0, -scaled_gravity(model.surface.size), 0.0)
    known = {name: value for name, value in usual.items() if name in row.step_options}
    return row.simulate(model, row.longest_step if dt is None else dt, **(known | options))


def _chosen_engine(engine: str | None, method: str | None, model: Any) -> Engine:
    """Return the engine that is asked for; by default the one that the model is for."""
    if method is not None:
        if engine is not None:
            raise SuppleError('"method" is the older word for "engine"; give one of them')
        warn('"method" is called "engine" now')
    if engine is None and method is None:
        return ENGINES[FIRST_ENGINE] if model is None else engine_of(model)
    return engine_named(engine or method or FIRST_ENGINE, "character")


def flesh_damping(flesh: str | Flesh, damping: float = 1.0) -> dict[str, float]:
    """Return options `alpha` and `beta` of simulators for this flesh, `damping` times as much."""
    kind, times = checked_flesh(flesh), checked_number("damping", damping)
    if not 0 <= times <= 100:
        raise SuppleError(f"damping is {times:g} times the flesh's; use 0 to 100")
    return {"alpha": times * kind.alpha, "beta": times * kind.beta}


def _sizes(model: CharacterModel) -> dict[str, Any]:
    size, vertices = model.surface.size, len(model.surface.vertices)
    return {"size": float(f"{size:.6g}"), "vertices": vertices}
