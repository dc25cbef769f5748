"""Baking: the skin of a character with flesh at every frame of a motion."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from supple.anatomy.flesh_presets import Flesh, checked_flesh
from supple.engines.common.option_record import takes_options
from supple.engines.engine import (
    ENGINES,
    FIRST_ENGINE,
    CharacterModel,
    Engine,
    check_names,
    engine_named,
    engine_of,
)
from supple.engines.options import BakePlayOptions, FleshOptions
from supple.errors import SolverError, SuppleError
from supple.playback.bake_model import ANATOMY, GivenAnatomy
from supple.playback.bake_plan import (
    BakePlan,
    bake_plan,
    bake_simulator,
    check_unreduced,
    played_engine,
    player_with_factor,
    sorted_options,
)
from supple.playback.character_models import (
    default_anatomy,
    fitting_model,
    has_good_model,
    keeps_models,
)
from supple.playback.character_sources import CharacterSource, source_of
from supple.playback.final_take import (
    ACCURACY,
    AUTO_ACCURACY,
    CONVERGING,
    Checkpoint,
    content_of,
    final_take,
)
from supple.playback.flesh_motion import FleshMotion, report_flesh
from supple.playback.motion_choice import chosen_motions
from supple.playback.player import Player
from supple.playback.progress_bar import ShownProgress, reported_progress
from supple.playback.quality_choice import QualityChoice, choose_quality
from supple.playback.take import Take, stable_take
from supple.progress import Progress
from supple.rig.baked_motion import BakedMotion
from supple.rig.character import Character
from supple.rig.motion.motion import Motion

#: Largest displacement relative to the size in a full simulation that quality auto keeps.
IMPLAUSIBLE = 0.5


@takes_options(BakePlayOptions, FleshOptions, anatomy=ANATOMY)
def bake(
    character: Character | str | Path,
    motion: Motion | str | None = None,
    model: CharacterModel | None = None,
    *,
    engine: str | None = None,
    simulation: Mapping[str, Any] | None = None,
    progress: ShownProgress = None,
    keep: bool | None = None,
    checkpoints: list[Checkpoint] | None = None,
    **options: Any,
) -> BakedMotion:
    """Play a motion and store the skin at every frame.

    Parameters
    ----------
    character
        Character of `supple.load`, or the path of a file.
    motion
        Motion, or the name of one of the character's, such as ``"Run"`` for
        ``"RatArmature|Rat_Run"`` (`Character.motion` has the rules); by default its liveliest.
        ``"wiggle"`` shakes and tilts the character, and is the default without motions.
    model
        Model of this character; by default it is built, or read from the cache.
    engine
        Key of `supple.engines.ENGINES`; by default the model's, or "pose-space". "full" steps all
        tets, which takes minutes.
    simulation
        More options of the simulator, such as ``{"gravity_mode": "none"}``.
    progress
        A function called with the part done, 0 to 1, and the name of the task; True or False to
        show a bar or not; by default a bar on a terminal and in a notebook.
    keep
        Read the model from the user's cache folder, or write it there: a model is found by the
        content of the character and the options, as by ``supple bake``. By default True, unless
        the environment variable ``SUPPLE_KEEP_MODELS`` is 0.
    checkpoints
        A list that receives the `Checkpoint` of each final bake, to be removed by the caller; by
        default it is removed here. An interrupted final bake resumes.
    **options
        Options of `BakePlayOptions` and `FleshOptions`: ``rate`` (30 by default), ``start``,
        ``end``, ``loop``, ``damping``, ``quality``, ``flesh``, ``young``, ``poisson``,
        ``stiffness``, ``anatomy``, ``tets`` and others. ``young`` and ``poisson`` may also be
        painted on the skin, ``stiffness`` holds factors by joint or vertex (`stiffness_factors`),
        ``anatomy`` is "auto", an `Anatomy` or None for bones alone. All others are options of the
        engine's builder.

    Raises
    ------
    SuppleError
        For options and characters that cannot be baked.

    Warns
    -----
    SuppleWarning
        If a rig jumps where it loops, the flesh does not repeat itself, the motion is so violent
        that flesh was made stiffer (``{"stiffness": 1}`` in `simulation` prevents it), or the
        simulation had to restart; if flesh moves by less than 0.2 % of the size, with the reason.
    """
    source = source_of(character)
    request = BakeRequest.of("bake", source, model, engine, simulation, keep, options)
    plan = bake_plan(source.character, motion, **request.playing, engine=request.live.name)
    return request.decided([plan]).bake([plan], progress, checkpoints)[0]


@takes_options(BakePlayOptions, FleshOptions, anatomy=ANATOMY, without=("start", "end"))
def bake_all(
    character: Character | str | Path,
    model: CharacterModel | None = None,
    *,
    motions: Motion | str | Iterable[Motion | str] | None = None,
    engine: str | None = None,
    simulation: Mapping[str, Any] | None = None,
    progress: ShownProgress = None,
    keep: bool | None = None,
    checkpoints: list[Checkpoint] | None = None,
    **options: Any,
) -> list[BakedMotion]:
    """Play all motions of a character with one model; `supple.save` takes the list.

    Parameters
    ----------
    motions
        Motions, names or patterns such as ``"Idle*"``; by default all of the character's, or the
        wiggle if it has none.
    character, model, engine, simulation, progress, keep, checkpoints, **options
        As for `bake`, without `start` and `end`. A motion of a single key is not looped.
    """
    source = source_of(character)
    check_names("bake_all", {"start", "end"} & {*options}, ("motions", "rate", "loop"))
    request = BakeRequest.of("bake_all", source, model, engine, simulation, keep, options)
    chosen = chosen_motions(source.character, motions)
    if not chosen:
        raise SuppleError(f"{source.character.name}: no motion to bake; name one or more")
    plans = []
    for each in chosen:
        playing = request.playing | {"loop": request.playing["loop"] and each.duration > 0}
        plans.append(bake_plan(source.character, each, **playing, engine=request.live.name))
    return request.decided(plans).bake(plans, progress, checkpoints)


@dataclass(frozen=True, eq=False)
class BakeRequest:
    """Character, flesh and simulation of a bake, for any number of motions.

    `live` is the engine of live quality, `simulation` has options of the simulator, `playing` of
    `bake_plan` and `building` of `model_options`; `reason` is that of a quality chosen by
    `choose_quality`, else empty, and `most_work` its bound on the work; `anatomy` is that of a
    given `model`, for names and reasons of hard parts. The others are as for `bake`.
    """

    source: CharacterSource
    model: CharacterModel | None
    live: Engine
    simulation: Mapping[str, Any] = field(default_factory=dict)
    keep: bool = True
    playing: dict[str, Any] = field(default_factory=dict)
    flesh: str | Flesh = "normal"
    damping: float = 1.0
    quality: str = "live"
    building: dict[str, Any] = field(default_factory=dict)
    reason: str = ""
    most_work: float = 0.0
    anatomy: GivenAnatomy = None

    @classmethod
    def of(
        cls,
        function: str,
        source: CharacterSource,
        model: CharacterModel | None,
        engine: str | None,
        simulation: Mapping[str, Any] | None,
        keep: bool | None,
        options: dict[str, Any],
    ) -> BakeRequest:
        """Sort the options of a function by the records that declare them; refuse others."""
        model = source.model if model is None else model
        row = ENGINES[FIRST_ENGINE] if model is None else engine_of(model)
        if engine is not None:
            row = engine_named(engine, "character")
        playing, flesh, building = sorted_options(function, BakePlayOptions, row, options)
        damping, quality = playing.pop("damping"), playing.pop("quality")
        steps, kept = dict(simulation or {}), keeps_models(keep)
        played_engine(row, quality)
        return cls(source, model, row, steps, kept, playing, flesh, damping, quality, building)

    @property
    def played(self) -> Engine:
        """Engine that plays: the unreduced engine for final quality."""
        return played_engine(self.live, self.quality)

    def decided(self, plans: Sequence[BakePlan]) -> BakeRequest:
        """Return the request with "live" or "final" in place of "auto"."""
        if self.quality != "auto":
            return self
        source, row, building = self.source, self.live, self.building
        given, kept = self.model is not None or bool(source.scene), False
        if row.unreduced and self.keep and not given:
            options = {"anatomy": default_anatomy(source)} | building
            kept = has_good_model(source, flesh=self.flesh, engine=row.name, **options)
        choice = choose_quality(row, plans, building, self.simulation, given=given, kept=kept)
        return self.with_choice(choice)

    def with_choice(self, choice: QualityChoice) -> BakeRequest:
        """Return the request with a chosen quality."""
        how: dict[str, Any] = {"reason": choice.reason, "most_work": choice.most_work}
        return replace(self, quality=choice.quality, **how)

    @property
    def falls_back(self) -> bool:
        """Whether quality auto chose the full simulation, so that clips may be baked live."""
        return bool(self.reason) and self.quality == "final"

    def in_live_quality(self) -> BakeRequest:
        """Return the same request with live quality."""
        return replace(self, quality="live", reason="")

    def bake(
        self,
        plans: Sequence[BakePlan],
        progress: ShownProgress,
        checkpoints: list[Checkpoint] | None,
        live: Callable[[], BakeRequest] | None = None,
    ) -> list[BakedMotion]:
        """Find or build the model, and play each plan with it.

        If quality auto chose the full simulation, a clip that is too violent for it is baked live,
        by the request that `live` returns.
        """
        files = list[Checkpoint]() if checkpoints is None else checkpoints
        bakes, failures = self._played(plans, progress, files)
        if failures:
            request = (live or self.in_live_quality)()
            others, _ = request._played([plans[number] for number in failures], progress, files)
            for (number, error), baked in zip(failures.items(), others.values(), strict=True):
                baked.report["quality_reason"] = f"the full simulation failed: {error}"
                bakes[number] = baked
        if checkpoints is None:
            for each in files:
                each.remove()
        return [bakes[number] for number in range(len(plans))]

    def _played(
        self, plans: Sequence[BakePlan], progress: ShownProgress, files: list[Checkpoint]
    ) -> tuple[dict[int, BakedMotion], dict[int, SolverError]]:
        """Return bakes by the number of the plan, and errors of clips that may be baked live."""
        plans = [plan.stepped_by(self.played.name) for plan in plans]
        row, building, character = self.played, self.building, self.source.character
        check_unreduced(self.live, self.quality, building, self.simulation)
        preset, began = checked_flesh(self.flesh), perf_counter()
        scaled = building.get("anatomy", ANATOMY) is not None
        options: dict[str, Any] = {"flesh": preset, "damping": self.damping, "engine": row.name}
        options |= {"scaled_loads": scaled, **self.simulation}
        given, kept = self.model, self.keep
        model = fitting_model(self.source, given, preset, row.name, building, kept, progress)
        built = perf_counter() - began
        final = self.quality == "final"
        kept_states = _checkpoints(model, plans, options, self.accuracy) if final else []
        files += kept_states
        bakes, failures = dict[int, BakedMotion](), dict[int, SolverError]()
        with reported_progress(progress) as callback:
            for number, plan in enumerate(plans):
                share = _share(callback, number, plans)
                try:
                    if final:
                        state = kept_states[number]
                        take, convergence = self._final(model, plan, options, share, state)
                    else:
                        take, convergence = self._live(model, plan, options, share), {}
                except SolverError as error:
                    if not self.falls_back:
                        raise
                    failures[number] = error
                    kept_states[number].remove()
                    continue
                report: dict[str, Any] = {
                    "name": model.name,
                    "engine": row.name,
                    "size": float(f"{model.surface.size:.6g}"),
                    "vertices": len(model.surface.vertices),
                }
                report |= {**model.figures, **take.figures(), "build_s": round(built, 3)}
                report |= {"quality": self.quality, **convergence}
                report |= {"quality_reason": self.reason} if self.reason else {}
                assert take.frames is not None
                rate = 1 / (plan.dt * plan.every)
                motion = take.motion()
                frames = take.frames, rate, plan.loop, report, take.readings
                baked = BakedMotion(character, motion, *frames)
                if self.falls_back and (why := _implausible(baked)):
                    failures[number] = SolverError(why)
                    continue
                bakes[number] = baked
        report_flesh([*bakes.values()], model, self._built_anatomy())
        return bakes, failures

    @property
    def accuracy(self) -> float:
        """Largest change by the last halving of the step in the full simulation."""
        return AUTO_ACCURACY if self.falls_back else ACCURACY

    def _live(
        self, model: CharacterModel, plan: BakePlan, options: Mapping[str, Any], progress: Progress
    ) -> Take:
        """Play a plan by the engine of live quality; a given stiffness is never changed."""
        stiffen = self.live.may_stiffen and self.building.get("young") is None
        player_with = partial(player_with_factor, model, plan, options)
        return stable_take(
            player_with, plan.every, progress, stiffen and "stiffness" not in options
        )

    def _final(
        self,
        model: CharacterModel,
        plan: BakePlan,
        options: Mapping[str, Any],
        progress: Progress,
        kept: Checkpoint,
    ) -> tuple[Take, dict[str, Any]]:
        """Play a plan in final quality; return the take, and figures of its convergence."""
        converging = CONVERGING | dict(options)
        factor = converging.pop("stiffness", 1.0)
        simulator = bake_simulator(model, plan.dt, **converging)
        simulator.stiffness = factor

        def player_with(substeps: int) -> Player:
            cut = replace(plan, dt=plan.dt / substeps, every=plan.every * substeps)
            simulator.dt = cut.dt
            return cut.player(simulator, ahead=True, multiple=substeps)

        work = self.most_work if self.falls_back else None
        return final_take(player_with, plan.every, progress, kept, self.accuracy, work)

    def _built_anatomy(self) -> GivenAnatomy:
        """Anatomy with which the model is or was built."""
        if self.model is not None:
            return self.anatomy
        anatomy: GivenAnatomy = self.building.get("anatomy", default_anatomy(self.source))
        return anatomy


def _implausible(baked: BakedMotion) -> str:
    """Return why a bake of the full simulation is not plausible; "" if it is."""
    if "reset" in baked.report["limits"]:
        return "flesh without a solution restarts at rest"
    part = FleshMotion.of(baked).part
    return f"flesh moves by {100 * part:.0f} % of the size" if part > IMPLAUSIBLE else ""


def _checkpoints(
    model: CharacterModel, plans: Sequence[BakePlan], options: Mapping[str, Any], accuracy: float
) -> list[Checkpoint]:
    """Return the checkpoint of each plan; none is removed to make room for another."""
    settings, contents = CONVERGING | dict(options) | {"accuracy": accuracy}, []
    for plan in plans:
        steps = plan.start, plan.end, plan.loop, plan.dt, plan.every
        contents.append(content_of(model, plan.motion, *steps, settings))
    return [Checkpoint(content, contents) for content in contents]


def _share(progress: Progress, number: int, plans: Sequence[BakePlan]) -> Progress:
    """Return the progress callback of one of several motions, weighted by their durations."""
    if len(plans) == 1:
        return progress
    seconds = np.cumsum([0.0, *(max(plan.end - plan.start, 0.1) for plan in plans)])
    begun, ended = (seconds[number : number + 2] / seconds[-1]).tolist()
    name = plans[number].motion.name
    return lambda part, what: progress(begun + (ended - begun) * part, f"{name}: {what}")
