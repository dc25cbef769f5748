"""Comparison of a reduced model with the full simulation, after a build and in live bakes.

The reduced and the full model simulate the liveliest part of the character's motions; a character
without motions plays the built-in motion "wiggle". A live bake of another motion compares a shorter
part of that motion. Work is bounded by numbers of tets and iterations, not by the clock, so that
the same model has the same accuracy on every machine.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from supple.anatomy.flesh_presets import Flesh
from supple.arrays import Floats, Singles
from supple.dynamics.root_frame import to_world
from supple.engines.common.accuracy import ACCURACY, LONGEST_NAME, Accuracy, distance_words
from supple.engines.engine import CharacterModel, Engine, engine_named
from supple.errors import SolverError, SuppleError, SuppleWarning, warn
from supple.linalg.blas import single_threaded
from supple.playback.bake_plan import bake_simulator
from supple.playback.final_take import CONVERGING, LEAST_DISPLACEMENT
from supple.playback.motion_choice import chosen_motion, liveliest_part
from supple.playback.player import Player
from supple.playback.take import stable_take
from supple.progress import unreported
from supple.reduction.build_log import BuildLog
from supple.rig.character import Character, wiggle
from supple.rig.motion.motion import Motion
from supple.rig.protocol import Rig
from supple.rig.skeleton.skinning import skinned_rigs

#: Stage of a build's log.
STAGE = "comparison with full"
#: Fewest compared frames, of large bodies and violent motions.
FEWEST_FRAMES = 12
#: Frames per second of the comparison, at most.
MOST_RATE = 90
#: Options of the full simulation. The tolerance changes the distance by less than 0.001 from
#: `CONVERGING`.
FULL = {**CONVERGING, "tolerance": 1e-4}
#: Steps of the reduced model per compared frame.
EVERY = 2


class Extent(NamedTuple):
    """Extent of a comparison: `part` s of the liveliest part, and `lead` s of the motion before it
    that are played too, because flesh starts undeformed; Newton iterations of the full simulation
    times its tets, `most_work`; and its steps per compared frame, `every`.

    Violent motions take more iterations, and a shorter part of them is compared.
    """

    part: float
    lead: float
    most_work: float
    every: int


#: Extent after a build, about three seconds of work, a tenth of a build; and in a live bake.
OF_BUILD = Extent(0.5, 0.2, 4_000_000, EVERY)
OF_CLIP = Extent(0.4, 0.3, 2_000_000, 1)
#: Distance in that part from which a live bake warns: below `BAD`, as the rest of the clip may be
#: farther. In 11 examined clips both differ by at most 0.06.
BAD_CLIP = 0.3
#: Options that determine the reduction. If one is given, a bad model is not built again.
REDUCTION = (
    "modes",
    "poses",
    "most_poses",
    "regions",
    "basis",
    "elastic_cubature",
    "inertial_cubature",
    "interpolation",
    "contacts",
    "obstacles",
    *("recipe", "reach", "independent", "linear_forces", "selection", "train_between"),
    *("inertial_fit", "train_root", "region_threshold", "region_exponent"),
)
#: Columns of a second build, relative to the first; cubature grows with them.
MORE = 1.6


@dataclass(frozen=True, eq=False)
class Comparison:
    """Comparison of models with the full simulation: engine, flesh and loads.

    `automatic` is True if no option of `REDUCTION` was given, `stiffen` if the reduced flesh may be
    stiffened as `supple.bake` does; `flesh` and `scaled_loads` are as for `bake_simulator`.
    """

    row: Engine
    flesh: str | Flesh = "normal"
    scaled_loads: bool = True
    automatic: bool = False
    stiffen: bool = True

    @classmethod
    def of(
        cls, engine: str, flesh: str | Flesh, scaled_loads: bool, given: Mapping[str, Any]
    ) -> Comparison:
        """Return the comparison for an engine and the given options of a build."""
        row = engine_named(engine, "character")
        automatic = not {*given} & {*REDUCTION}
        stiffen = row.may_stiffen and given.get("young") is None
        return cls(row, flesh, scaled_loads, automatic, stiffen)

    @property
    def possible(self) -> bool:
        """Whether the engine is reduced, and has an unreduced counterpart."""
        return self.row.unreduced not in ("", self.row.name)

    def checked(self, build: Callable[..., Any], log: BuildLog) -> Any:
        """Build a model and measure its accuracy; if it is bad, build another and keep the better.

        `build` takes options that replace those of the build. The returned model has its accuracy
        in its report.
        """
        if not self.possible:
            return build()
        model = self._measured(build(), log)
        accuracy = Accuracy.of(model.report)
        # Another reduction does not help where flesh is made stiffer for a violent motion.
        if not (self.automatic and accuracy is not None and accuracy.bad) or accuracy.stiffness > 1:
            return model
        changes = _other_reduction(model)
        self._announce(model, changes, log)
        with suppress(SuppleError):  # the first model is kept if the second cannot be built
            other = self._measured(build(**changes), log)
            model = other if _distance(other) < _distance(model) else model
        return model

    def _announce(self, model: Any, changes: Mapping[str, Any], log: BuildLog) -> None:
        """Show in the log why a model is built again, and how."""
        how = ", ".join(f"{name} {value}" for name, value in changes.items())
        with log.stage(STAGE):
            log.report(1.0, f"{distance_words(_distance(model))}; building again: {how}")

    def _measured(self, model: Any, log: BuildLog) -> Any:
        with log.stage(STAGE):
            return self.measured(model)

    def measured(self, model: Any) -> Any:
        """Return the model with its accuracy, or the reason why it has none, in its report."""
        if not hasattr(model, "report"):
            return model
        try:
            accuracy = self.accuracy(model)
        except SuppleError as error:
            why = str(error)[:LONGEST_NAME]
            accuracy = Accuracy(None, None, "", 0.0, 0.0, 0, trouble=why)
        return replace(model, report={**model.report, ACCURACY: accuracy.figures()})

    def accuracy(
        self, model: CharacterModel, clip: Motion | None = None, extent: Extent = OF_BUILD
    ) -> Accuracy:
        """Play the liveliest part of a clip, or of all motions, by both; return their distance."""
        dt = self.row.longest_step
        motion, start, end = _part(model, clip, extent)
        with warnings.catch_warnings(), single_threaded():
            warnings.simplefilter("ignore", SuppleWarning)
            longer = dt * EVERY / extent.every
            full = self._player(model, self.row.unreduced, motion, start, end, longer, FULL)
            true, rig = _full_frames(full, extent)
            end = full.time
            reduced = stable_take(
                lambda factor: self._player(
                    model, self.row.name, motion, start, end, dt, {"stiffness": factor}
                ),
                EVERY,
                unreported,
                self.stiffen,
            )
        assert reduced.frames is not None
        frames = reduced.frames[: len(true)]
        return _compared(model, motion, frames, true, rig, start, end, reduced.stiffness)

    def _player(
        self,
        model: CharacterModel,
        engine: str,
        motion: Motion,
        start: float,
        end: float,
        dt: float,
        options: Mapping[str, Any],
    ) -> Player:
        simulator = bake_simulator(
            model, dt, flesh=self.flesh, engine=engine, scaled_loads=self.scaled_loads, **options
        )
        full = engine == self.row.unreduced
        return Player(simulator, motion, start=start, end=end, ahead=full)


def _distance(model: Any) -> float:
    """Return the distance in a model's report; infinite if it was not measured."""
    accuracy = Accuracy.of(model.report)
    if accuracy is None or accuracy.trouble:
        return np.inf
    return 0.0 if accuracy.distance is None else accuracy.distance


def _other_reduction(model: Any) -> dict[str, Any]:
    """Return options of the second build of a bad model: modes, or more columns.

    Forces of a snapshot basis are fitted to training motions, and may be wrong in livelier motions;
    forces of modes are fitted to random displacements.
    """
    if model.report.get("elastic_error", {}).get("forces") == "motions":
        return {"basis": "modes"}
    return {"modes": round(MORE * model.n_modes)}


def warn_of_clip(comparison: Comparison, model: Any, clip: Motion) -> None:
    """Warn if a part of a clip that the accuracy of a model does not cover is far from full.

    Nothing is compared if the model was not compared when it was built, or is known to be bad.
    """
    if _is_pose(clip):
        return
    known = Accuracy.of(getattr(model, "report", {}))
    if known is None or known.distance is None or known.bad or known.motion == clip.name:
        return
    with suppress(SuppleError):
        measured = comparison.accuracy(model, clip, OF_CLIP)
        distance = measured.distance
        if distance is not None and distance >= BAD_CLIP:
            seconds = f"{measured.start:.3g} to {measured.start + measured.seconds:.3g} s"
            warn(
                f'motion "{clip.name}": from {seconds} the reduced model is {100 * distance:.0f} % '
                "from the full simulation; use final quality, or firmer flesh"
            )


def _is_pose(motion: Motion) -> bool:
    return motion.duration * MOST_RATE < FEWEST_FRAMES


def _part(
    model: CharacterModel, clip: Motion | None, extent: Extent
) -> tuple[Motion, float, float]:
    """Return a motion, and the first and last time in s of the part to be played."""
    character = Character(model.name, model.surface, model.rig, dict(model.motions))
    motion = chosen_motion(character, clip)
    if _is_pose(motion):
        motion = wiggle(character)
    start, _ = liveliest_part(character, motion, extent.part)
    start = max(float(motion.times[0]), start - extent.lead)
    end = start + extent.lead + extent.part
    return motion, start, min(end, float(motion.times[-1]))


def _full_frames(player: Player, extent: Extent) -> tuple[Singles, Floats]:
    """Return frames (t, n̄, 3) of the full simulation and of the rig, until its work is done."""
    model = player.simulator.model
    most = extent.most_work / max(len(model.mesh.tets), 1)
    frames, rigs, iterations = [], [], 0
    for step in range(player.n_steps + 1):
        if step:
            iterations += getattr(player.step(), "iterations", 0)
        if step % extent.every == 0:
            frames.append(player.surface())
            shown = player.shown
            rigs.append(to_world(shown.roots[step], model.rig(shown.poses[step])))
            if iterations >= most and len(frames) >= FEWEST_FRAMES:
                break
    skins = np.array(frames)
    if not np.isfinite(skins).all():
        raise SolverError("the full simulation diverges")
    return skins, np.array(rigs)


def _compared(
    model: CharacterModel,
    motion: Motion,
    frames: Singles,
    true: Singles,
    rig: Floats,
    start: float,
    end: float,
    stiffness: float,
) -> Accuracy:
    """Return the accuracy of frames (t, n̄, 3), compared with the true frames and the rig's."""
    errors = np.square(frames.astype(np.float64) - true).sum(axis=(0, 2))  # (n̄,)
    dynamic = float(np.square(true - rig).sum())
    reduced = float(np.square(frames - rig).sum())
    least = (LEAST_DISPLACEMENT * model.surface.size) ** 2 * true.size
    distance = amplitude = None
    if max(dynamic, reduced) > least:
        dynamic = max(dynamic, least)
        distance, amplitude = (float(np.sqrt(each / dynamic)) for each in (errors.sum(), reduced))
    return Accuracy(
        distance=_rounded(distance),
        amplitude=_rounded(amplitude),
        motion=motion.name[:LONGEST_NAME],
        start=round(start, 3),
        seconds=round(end - start, 3),
        frames=len(frames),
        stiffness=stiffness,
        worst="" if distance is None else _worst_joint(model.rig, errors)[:LONGEST_NAME],
    )


def _rounded(value: float | None) -> float | None:
    """Return a number with three digits, which the same simulation has on every machine."""
    return None if value is None else min(float(f"{value:.3g}"), 1e6)


def _worst_joint(rig: Rig, errors: Floats) -> str:
    """Return the joint whose skin, by its largest weight, has the largest sum of errors (n̄,)."""
    skinned = skinned_rigs(rig)
    if len(skinned) != 1 or skinned[0].n_vertices != len(errors):
        return ""
    joints, weights = skinned[0].joints, skinned[0].weights
    leading = joints[np.arange(len(joints)), np.argmax(weights, axis=1)]
    sums = np.bincount(leading, errors, minlength=skinned[0].skeleton.n_joints)
    return str(skinned[0].skeleton.names[int(np.argmax(sums))])
