"""Baking: a character and a motion in, its living skin at every frame out."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from supple.anatomy.flesh_presets import HUMAN, Flesh, checked_flesh
from supple.anatomy.joint_stiffness import Stiffness
from supple.checks import checked_number
from supple.engines.engine import CharacterEngine, CharacterModel, Engine, engine_named
from supple.errors import SuppleError, SuppleWarning, warn
from supple.playing.bake_model import check_model, model_options
from supple.playing.cycle import checked_span, steps_of_frames
from supple.playing.player import Player
from supple.playing.take import Take, calm_frames
from supple.playing.wiggle import WIGGLE, wiggle
from supple.rig.baked_motion import BakedMotion
from supple.rig.character import Character
from supple.rig.motion.motion import Motion

__all__ = [
    "BakePlan",
    "bake",
    "bake_plan",
    "bake_simulator",
    "calm_stiffness",
    "chosen_motion",
    "flesh_damping",
]

Progress = Callable[[float, str], None]

#: In m/s² for a body of 2 m, beyond which flesh is taken to have been put elsewhere.
FASTEST = 1000.0
#: In m/s², for a body of 2 m.
GRAVITY = 9.81


def bake(
    character: Character,
    motion: Motion | str | None = None,
    model: CharacterModel | None = None,
    *,
    engine: str = "pose-space",
    flesh: str | Flesh = "normal",
    young: ArrayLike | None = None,
    poisson: ArrayLike | None = None,
    damping: float = 1.0,
    stiffness: Stiffness | None = None,
    rate: float = 30.0,
    start: float | None = None,
    end: float | None = None,
    loop: bool = False,
    method: str | None = None,
    simulation: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    **building: Any,
) -> BakedMotion:
    """Play a motion and keep the skin at every frame.

    Parameters
    ----------
    character
        See `supple.load`.
    motion
        Or the name of one of the character's; by default its first. A character without any,
        and ``"wiggle"``, is shaken and tilted.
    model
        Of this character; by default one is built.
    engine
        ``"pose-space"``, or another of `supple.engines.ENGINES`: ``"full"`` steps all tets, which
        takes minutes.
    flesh
        ``"firm"``, ``"normal"``, ``"soft"`` or ``"jelly"``: how stiff, and how it is damped.
    young, poisson
        Young's modulus in Pa and Poisson's ratio in place of the flesh's: numbers, or painted
        on the skin as for `supple.build`.
    damping
        Times the flesh's; 0 for none.
    stiffness
        Where flesh is stiffer or softer: factors by joint or vertex; see `stiffness_factors`.
    rate
        Frames per second. Flesh is stepped at 90 a second or a little more often.
    start, end
        Seconds of the motion; by default all of it.
    loop
        Play until the cycle closes: the last frame then is the first again, in the root's frame,
        to 0.1 % of the size. So that it ends with a frame, the rate is changed a little.
    method
        The older word for `engine`.
    simulation
        More options of the simulator, such as ``{"gravity_mode": "none"}``.
    progress
        Called with the part done, 0 to 1, and what is being done.
    **building
        Options of `supple.build` for a model that is built, such as ``tets=4000``.

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
    row = _chosen_engine(engine, method)
    plan = bake_plan(character, motion, rate=rate, start=start, end=end, loop=loop)
    kind, began = checked_flesh(flesh), perf_counter()
    told = {"young": young, "poisson": poisson, "stiffness": stiffness, **building}
    options = {"flesh": kind, "damping": damping, "engine": row.name, **dict(simulation or {})}
    if model is None:
        model = row.build(character, **model_options(character, kind, row.name, **told))
    else:
        check_model(character, model, flesh=kind, **told)
    built = perf_counter() - began

    # Who says how stiff it is gets it.
    free = row.firms and young is None and "stiffness" not in options
    tell = progress or (lambda part, what: None)
    take, frames = calm_frames(_players(model, plan, options), plan.every, tell, free)
    report = _report(model, take, row) | {"build_s": round(built, 3)}
    kept = _kept_motion(take.player, plan.every, len(frames))
    return BakedMotion(character, kept, frames, 1 / (plan.dt * plan.every), bool(loop), report)


def calm_stiffness(model: CharacterModel, plan: BakePlan, **options: Any) -> float:
    """How many times as stiff `bake` makes flesh for a motion: 1 but for violent ones.

    Parameters
    ----------
    model, plan
        What would be baked.
    **options
        Of `bake_simulator`.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SuppleWarning)
        players = _players(model, plan, options)
        return calm_frames(players, plan.every, lambda part, what: None, True)[0].stiffness


def _players(
    model: CharacterModel, plan: BakePlan, options: Mapping[str, Any]
) -> Callable[[float], Player]:
    def player_with(factor: float) -> Player:
        own = dict(options) if factor == 1 else {**options, "stiffness": factor}
        return plan.player(bake_simulator(model, plan.dt, **own))

    return player_with


@dataclass(frozen=True, eq=False)
class BakePlan:
    """What will be played, and how often it is stepped.

    Attributes
    ----------
    motion
        The whole clip.
    start, end, loop
        Seconds of it, and whether it goes round.
    dt, every
        The fixed step in s, and how many of them make a frame.
    """

    motion: Motion
    start: float
    end: float
    loop: bool
    dt: float
    every: int

    def player(self, simulator: CharacterEngine) -> Player:
        """What steps it; the simulator's step must be this plan's."""
        if simulator.dt != self.dt:
            raise SuppleError(f"the simulator steps {simulator.dt:g} s; the plan is {self.dt:g} s")
        part = {"start": self.start, "end": self.end}
        return Player(simulator, self.motion, loop=self.loop, **part)


def bake_plan(
    character: Character,
    motion: Motion | str | None = None,
    *,
    rate: float = 30.0,
    start: float | None = None,
    end: float | None = None,
    loop: bool = False,
) -> BakePlan:
    """What `bake` would play, refused before anything is computed; see there."""
    clip = chosen_motion(character, motion)
    first, last = checked_span(clip, start, end)
    if loop and not last > first:
        raise SuppleError(f'motion "{clip.name}" has nothing to loop at {first:.4g} s')
    dt, every = steps_of_frames(rate, last - first if loop else None)
    return BakePlan(clip, first, last, bool(loop), dt, every)


def bake_simulator(
    model: CharacterModel,
    dt: float = 1 / 90,
    *,
    flesh: str | Flesh = "normal",
    damping: float = 1.0,
    engine: str = "pose-space",
    **options: Any,
) -> Any:
    """Make the simulator that `bake` steps: what else does gets the same bits.

    Parameters
    ----------
    model, dt
        As for `supple.Simulator`.
    flesh, damping, engine
        As for `bake`; the model has its stiffness already.
    **options
        Of the engine's simulator, in place of these.
    """
    row = engine_named(engine, "character")
    # Files mistake their units: a rat of seven metres scurries as fast as it is large. Flesh is as
    # stiff as the square of the size, so loads go with the size: scaled bodies move alike.
    larger = model.surface.size / HUMAN
    loads = {"acceleration_limit": FASTEST * larger, "gravity": (0.0, -GRAVITY * larger, 0.0)}
    usual = flesh_damping(flesh, damping) | loads
    known = {name: value for name, value in usual.items() if name in row.step_options}
    return row.simulate(model, dt, **(known | options))


def _chosen_engine(engine: str, method: str | None) -> Engine:
    if method is not None:
        warn('"method" is called "engine" now')
    return engine_named(engine if method is None else method, "character")


def flesh_damping(flesh: str | Flesh, damping: float = 1.0) -> dict[str, float]:
    """Options `alpha` and `beta` of simulators for this flesh, damped so many times as much."""
    kind, times = checked_flesh(flesh), checked_number("damping", damping)
    if not 0 <= times <= 100:
        raise SuppleError(f"damping is {times:g} times the flesh's; use 0 to 100")
    return {"alpha": times * kind.alpha, "beta": times * kind.beta}


def chosen_motion(character: Character, motion: Motion | str | None) -> Motion:
    """The motion that is meant: by default the first, or the wiggle where there is none."""
    if isinstance(motion, Motion):
        return motion
    if motion is None and character.motions:
        return next(iter(character.motions.values()))
    if motion is None or (motion == WIGGLE and WIGGLE not in character.motions):
        return wiggle(character)
    if motion not in character.motions:
        names = [*character.motions]
        lowered = {name.lower(): name for name in reversed(names)}
        near = get_close_matches(str(motion).lower(), lowered, 3)
        said = f"; it has none: use {WIGGLE}"
        if near:
            quoted = [f'"{lowered[each]}"' for each in near]
            said = f"; did you mean {' or '.join(quoted)}?"
        elif names:
            more = f" and {len(names) - 12} more" if len(names) > 12 else ""
            said = f"; there are {', '.join(names[:12])}{more}"
        raise SuppleError(f'{character.name}: no motion "{motion}"{said}')
    return character.motions[motion]


def _kept_motion(player: Player, every: int, count: int) -> Motion:
    """Poses and roots at the frames."""
    even = player.motion
    steps = np.arange(count) * every
    cuts = sorted({-(-cut // every) for cut in even.cuts})
    return Motion(
        even.times[steps],
        even.poses[steps],
        even.roots[steps],
        even.name,
        [cut for cut in cuts if cut < count],
    )


def _report(model: CharacterModel, take: Take, row: Engine) -> dict[str, Any]:
    player = take.player
    figures: dict[str, Any] = {
        "name": model.name,
        "motion": player.motion.name,
        "engine": row.name,
        "size": float(f"{model.surface.size:.6g}"),
        "vertices": len(model.surface.vertices),
        **model.figures,
        "frames": player.n_steps // take.every + 1,
        "rate": 1 / (player.simulator.dt * take.every),
        "steps": take.steps,
        "step_ms": round(take.milliseconds, 4),
        "simulate_s": round(take.seconds, 3),
        "limits": dict(sorted(take.limits.items())),
        "stiffness": take.stiffness,
    }
    if player.loop:
        figures |= {"cycles": take.n_cycles, "seamless": player.seamless, "blended": take.blended}
        figures["loop_gap"] = 0.0 if take.blended else take.gap
    return figures
