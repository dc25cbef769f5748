"""Requests of bakes: model, quality and flesh, with which any number of motions are played."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from supple.anatomy.flesh_presets import Flesh, checked_flesh
from supple.arrays import Floats
from supple.engines.engine import (
    ENGINES,
    FIRST_ENGINE,
    CharacterModel,
    Engine,
    engine_named,
    engine_of,
)
from supple.engines.options import BakePlayOptions
from supple.errors import SolverError
from supple.playback.bake_model import ANATOMY, GivenAnatomy
from supple.playback.bake_plan import (
    BakePlan,
    check_unreduced,
    played_engine,
    player_with_factor,
    sorted_options,
)
from supple.playback.character_models import (
    PreparedModel,
    default_anatomy,
    fitting_model,
    has_good_model,
    keeps_models,
    warn_of_model,
)
from supple.playback.character_sources import CharacterSource
from supple.playback.feel.feel import AS_BUILT, Feel, with_file_feel
from supple.playback.final_take import (
    ACCURACY,
    AUTO_ACCURACY,
    CONVERGING,
    Checkpoint,
    content_of,
    final_take,
)
from supple.playback.flesh_motion import FleshMotion, report_flesh
from supple.playback.model_accuracy import Comparison, warn_of_clip
from supple.playback.player import Player
from supple.playback.progress_bar import ShownProgress, reported_progress
from supple.playback.quality_choice import (
    LONGER,
    SEARCHED,
    QualityChoice,
    choose_quality,
    unreduced_choice,
)
from supple.playback.refined_player import TooMuchWorkError
from supple.playback.swing.goals import Swing, SwingGoal, swing_goals
from supple.playback.swing.search import FoundSwing, distance, found_swing, near
from supple.playback.take import Take, stable_take
from supple.progress import Progress
from supple.rig.baked_motion import BakedMotion

#: Largest displacement relative to the size in a full simulation that quality auto keeps.
IMPLAUSIBLE = 0.5


@dataclass(frozen=True, eq=False)
class BakeRequest:
    """Character, flesh and simulation of a bake, for any number of motions.

    `live` is the engine of live quality, `simulation` has options of the simulator, `playing` of
    `bake_plan` and `building` of `model_options`; `reason` is that of a quality chosen by
    `choose_quality`, else empty, and `most_work` its bound on the work; `anatomy` is that of a
    given `model`, for names and reasons of hard parts, and `feel` its stiffness at run time.
    `search` is the live request that finds the stiffness for a `swing`, by default this one. The
    others are as for `bake`.
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
    feel: Feel = AS_BUILT
    swing: Swing | None = None
    search: BakeRequest | None = None

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
        options = with_file_feel(source.character, options)
        playing, flesh, building = sorted_options(function, BakePlayOptions, row, options)
        damping, quality = playing.pop("damping"), playing.pop("quality")
        steps, kept = dict(simulation or {}), keeps_models(keep)
        played_engine(row, quality)
        swing = playing.pop("swing")
        if model is not None and quality != "final":
            warn_of_model(model)
        return cls(
            source, model, row, steps, kept, playing, flesh, damping, quality, building, swing=swing
        )

    @property
    def played(self) -> Engine:
        """Engine that plays: the unreduced engine for final quality."""
        return played_engine(self.live, self.quality)

    def decided(self, plans: Sequence[BakePlan]) -> BakeRequest:
        """Return the request with "live" or "final" in place of "auto"."""
        if self.quality != "auto":
            return self
        if self.swing is not None:
            choice = unreduced_choice(self.live, self.simulation)
            return self.with_choice(choice or QualityChoice("live", SEARCHED))
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
        return self.most_work > 0 and self.quality == "final"

    def in_live_quality(self) -> BakeRequest:
        """Return the same request with live quality."""
        return replace(self, quality="live", reason="", most_work=0.0)

    def bake(
        self,
        plans: Sequence[BakePlan],
        progress: ShownProgress,
        checkpoints: list[Checkpoint] | None,
        live: Callable[[], BakeRequest] | None = None,
    ) -> list[BakedMotion]:
        """Find or build the model, and play each plan with it.

        If quality auto chose the full simulation, a clip that takes too long is baked live,
        by the request that `live` returns.
        """
        check_unreduced(self.live, self.quality, self.building, self.simulation)
        goals = () if self.swing is None else swing_goals(self.source.character, self.swing)
        files = list[Checkpoint]() if checkpoints is None else checkpoints
        if goals:
            results = self._swung(goals, plans, progress, files)
        else:
            bakes, failures = self._played(plans, progress, files)
            if failures:
                request = (live or self.in_live_quality)()
                others, _ = request._played([plans[number] for number in failures], progress, files)
                for (number, error), baked in zip(failures.items(), others.values(), strict=True):
                    baked.report["quality_reason"] = _failure_text(error)
                    bakes[number] = baked
            results = [bakes[number] for number in range(len(plans))]
        if checkpoints is None:
            for each in files:
                each.remove()
        return results

    def _played(
        self, plans: Sequence[BakePlan], progress: ShownProgress, files: list[Checkpoint]
    ) -> tuple[dict[int, BakedMotion], dict[int, SolverError]]:
        """Return bakes by the number of the plan, and errors of clips that may be baked live."""
        began = perf_counter()
        ready, options = self.model_and_options(self.played, progress)
        built = perf_counter() - began
        bakes, failures = self._play(plans, ready, options, built, files, progress)
        report_flesh([*bakes.values()], ready.model, self._built_anatomy())
        return bakes, failures

    def _swung(
        self,
        goals: tuple[SwingGoal, ...],
        plans: Sequence[BakePlan],
        progress: ShownProgress,
        files: list[Checkpoint],
    ) -> list[BakedMotion]:
        """Play each plan with the stiffness at which the liveliest motion reaches the goals."""
        began = perf_counter()
        ready, options = self.model_and_options(self.played, progress)
        played = ready, options, perf_counter() - began
        stiffness = self._found_swing(goals, plans, played, progress)
        results, errors = self._swing(stiffness, plans, played, files, progress)
        if self.quality == "final" and not near(errors):
            other = stiffness.corrected(errors)
            others, others_errors = self._swing(other, plans, played, files, progress)
            if distance(others_errors) < distance(errors):
                stiffness, results, errors = other, others, others_errors
        stiffness.warn_of(errors, results)
        report_flesh(results, ready.model, self._built_anatomy())
        return results

    def model_and_options(
        self, row: Engine, progress: ShownProgress
    ) -> tuple[PreparedModel, dict[str, Any]]:
        """Return the model of an engine, and the options of `bake_simulator`."""
        preset, given = checked_flesh(self.flesh), self.model
        ready = fitting_model(
            self.source, given, preset, row.name, self.building, self.keep, progress
        )
        scaled = self.building.get("anatomy", ANATOMY) is not None
        feel = self.feel if given is not None else ready.feel
        options: dict[str, Any] = {"flesh": preset, "damping": self.damping, "engine": row.name}
        return ready, options | {"scaled_loads": scaled, "feel": feel, **self.simulation}

    def _found_swing(
        self,
        goals: tuple[SwingGoal, ...],
        plans: Sequence[BakePlan],
        played: tuple[PreparedModel, dict[str, Any], float],
        progress: ShownProgress,
    ) -> FoundSwing:
        """Return the stiffness for the goals, found with the live engine.

        `played` has the model that is played, and the options of `bake_simulator`.
        """
        live = self if self.search is None else self.search
        row = live.live
        ready, options, _ = played
        if row is not self.played:
            ready, options = live.model_and_options(row, progress)
        unreduced_only = {*self.played.step_options} - {*row.step_options}
        options = {name: value for name, value in options.items() if name not in unreduced_only}
        plans = [plan.stepped_by(row.name) for plan in plans]
        with reported_progress(progress) as callback:
            return found_swing(goals, self.source.character, ready.model, plans, options, callback)

    def _swing(
        self,
        found: FoundSwing,
        plans: Sequence[BakePlan],
        played: tuple[PreparedModel, dict[str, Any], float],
        files: list[Checkpoint],
        progress: ShownProgress,
    ) -> tuple[list[BakedMotion], Floats]:
        """Play the plans with the stiffness that a search found; return bakes, errors (m, k)."""
        ready, options, built = played
        felt = options | {"feel": found.feel(ready.model, options["feel"])}
        bakes, _ = self._play(plans, ready, felt, built, files, progress)
        results = [*bakes.values()]
        return results, found.report(results)

    def _play(
        self,
        plans: Sequence[BakePlan],
        ready: PreparedModel,
        options: dict[str, Any],
        built: float,
        files: list[Checkpoint],
        progress: ShownProgress,
    ) -> tuple[dict[int, BakedMotion], dict[int, SolverError]]:
        """Play each plan; `options` are those of `bake_simulator`, `built` the time of a build.

        Return bakes by the number of the plan, and errors of clips that may be baked live.
        """
        model, row, character = ready.model, self.played, self.source.character
        plans = [plan.stepped_by(row.name) for plan in plans]
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
                        self._check_clip(model, plan, options)
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
                report |= {**model.figures, **take.figures(), **ready.figures()}
                report |= {"build_s": round(built, 3), "quality": self.quality, **convergence}
                report |= {"quality_reason": self.reason} if self.reason else {}
                assert take.frames is not None
                rate = 1 / (plan.dt * plan.every)
                motion = take.motion()
                frames = take.frames, rate, plan.loop, report, take.readings, take.obstacles()
                baked = BakedMotion(character, motion, *frames)
                if self.falls_back and (why := _implausible(baked)):
                    failures[number] = SolverError(why)
                    continue
                bakes[number] = baked
        return bakes, failures

    @property
    def accuracy(self) -> float:
        """Largest change by the last halving of the step in the full simulation."""
        return AUTO_ACCURACY if self.reason else ACCURACY

    def _live(
        self, model: CharacterModel, plan: BakePlan, options: Mapping[str, Any], progress: Progress
    ) -> Take:
        """Play a plan by the engine of live quality; a given stiffness is never changed."""
        given = self.building.get("young") is not None or "stiffness" in options
        fixed = given or options["feel"].fixed or self.swing is not None
        stiffen = self.live.may_stiffen and not fixed
        player_with = partial(player_with_factor, model, plan, options)
        return stable_take(player_with, plan.every, progress, stiffen)

    def _check_clip(
        self, model: CharacterModel, plan: BakePlan, options: Mapping[str, Any]
    ) -> None:
        """Warn if a plain live bake is far from the full simulation, see `warn_of_clip`."""
        changed = self.damping != 1 or self.simulation or options["feel"].changes
        comparison = Comparison(self.played, options["flesh"], options["scaled_loads"])
        if comparison.possible and not changed and self.swing is None:
            warn_of_clip(comparison, model, plan.motion)

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
        converging["feel"] = converging["feel"].stiffer(factor)
        simulator = plan.simulator(model, converging)

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
    """Return the reason why a bake of the full simulation is implausible; "" if it is plausible."""
    if "reset" in baked.report["limits"]:
        return "flesh without a solution restarts at rest"
    part = FleshMotion.of(baked).part
    return f"flesh moves by {100 * part:.0f} % of the size" if part > IMPLAUSIBLE else ""


def _failure_text(error: SolverError) -> str:
    """Describe why a clip is baked live in place of the full simulation."""
    if isinstance(error, TooMuchWorkError):
        return f"the full simulation would take more than {LONGER:g} times as long as live"
    return f"the full simulation failed: {error}"


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
