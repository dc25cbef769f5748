"""Error budget of the real-time step: what each of its parts adds to the distance from the truth.

A part is measured by switching it off while all others stay. Some distances are direct: of a play
from the truth, or of the true motion from the nearest that a basis holds. Others are of one play
from another that differs from it by a switch. Parts of an error do not add up: they point in
different directions, and may cancel.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from time import process_time
from typing import Any, Literal, NamedTuple

import numpy as np

from supple.arrays import Floats, Singles
from supple.engines.engine import engine_named
from supple.engines.pose_space.build.reduced_poses import ReducedPoses
from supple.engines.pose_space.model.model import PoseSpaceModel
from supple.engines.pose_space.step_options import INTEGRATOR
from supple.errors import SuppleError
from supple.lab.fidelity.oscillation import frequency_error
from supple.lab.fidelity.truth import Truth, play_finely, played, truth
from supple.lab.fidelity.whole_mesh import BlendedBasis, nearest_displacement, without_cubature
from supple.playback.convergence import CONVERGING, rms_difference
from supple.progress import Progress, unreported
from supple.rig.motion.motion import Motion
from supple.saving import write_whole
from supple.user_cache import BUILDING, code_hash, content_hash

#: Steps of a frame at which the step is not what makes the error: a 64th of the live step's.
FINE = 16
#: Steps of a frame that are baked.
LIVE = 2
#: Frames at which a basis is computed anew.
SAMPLED = 6

#: No limit that a body could meet.
_UNLIMITED = {"displacement_limit": 1e3, "acceleration_limit": 1e9}


class Play(NamedTuple):
    """Play of the motion that differs from another by a switch.

    Attributes
    ----------
    about
        What it is, for people.
    beside
        Name of the play that it differs from by one switch; its own where there is none.
    options, damping
        Options of the simulator, and a factor on both kinds of damping.
    steps
        Steps of a frame, each with its pose.
    whole
        Forces that are summed over the whole mesh rather than by cubature.
    engine
        Engine that plays.
    """

    about: str
    beside: str = "live"
    options: Mapping[str, Any] = {}
    damping: float = 1.0
    steps: int = LIVE
    whole: Literal["", "elastic", "inertial", "both"] = ""
    engine: str = "pose-space"


def _integrators() -> dict[str, Play]:
    """Return plays with other integrators and shorter steps: truer for how much more time."""
    found = {}
    for method, short in (("backward-euler", "Euler"), ("bdf2", "BDF2"), ("newmark", "Newmark")):
        for steps in (1, 2, 4):
            options = {"integrator": method}
            if (method, steps) != (INTEGRATOR, LIVE):
                about = f"{short}, {steps} step{'s' * (steps > 1)} a frame"
                found[f"{method} {steps}"] = Play(about, options=options, steps=steps)
            if steps > 1:
                inner = options | {"substeps": steps}
                about = f"{short}, a step with {steps} sub-steps"
                found[f"{method} {steps} inner"] = Play(about, options=inner, steps=1)
    return found


#: What is played, by name; the truth is the converged full simulation.
PLAYS: dict[str, Play] = {
    "live": Play("the step as it is baked"),
    "full": Play("all tets unreduced, at the live step", "", engine="full"),
    "fine": Play(f"reduced, {FINE} steps a frame", steps=FINE),
    "fine paper": Play(
        "the same as the paper has it, flesh carried around", "fine", {"transport": False},
        steps=FINE,
    ),
    "whole": Play("the same, no cubature", "fine", steps=FINE, whole="both"),
    "whole elastic": Play("no elastic cubature", "fine", steps=FINE, whole="elastic"),
    "whole inertial": Play("no inertial cubature", "fine", steps=FINE, whole="inertial"),
    "limits": Play("no limits", options=_UNLIMITED),
    "newton": Play("three Newton iterations", options={"iterations": 3}),
    "look ahead": Play("accelerations carried on by a step", options={"look_ahead": 1.0}),
    "transport": Play("flesh carried around by the basis", options={"transport": False}),
    "frames": Play("frames blended, not followed", options={"frames": "blended"}),
    "weights": Play("far poses count, however little", options={"negligible_weight": 0.0}),
    "damping half": Play("half the damping", damping=0.5),
    "damping twice": Play("twice the damping", damping=2.0),
    **_integrators(),
}  # fmt: skip

#: Nearest motions to the true one that bases hold, by name; the last three at few frames.
BASES = {
    "basis": "nearest in the blended basis",
    "basis frames": "nearest in the basis, frames blended",
    "basis sampled": "nearest in the blended basis, few frames",
    "basis own": "nearest in a basis of modes made at the pose, same frames",
    "basis free": "the same where contact is ignored",
}


@dataclass(eq=False)
class Budget:
    """Budget of a model and a motion: rows are computed when asked for, and kept.

    Attributes
    ----------
    model, motion, rate
        What is played, with so many frames a second.
    options
        Options of the live step: damping, gravity, limits.
    accuracy
        Change by the last halving of the truth's step, as for `truth`.
    folder
        Where the truth and finished rows are kept; None for nowhere.
    progress
        Called with the part done and what is being done.
    """

    model: PoseSpaceModel
    motion: Motion
    rate: float = 90.0
    options: dict[str, Any] = field(default_factory=dict)
    accuracy: float = 0.05
    folder: Path | None = None
    progress: Progress = unreported

    def __post_init__(self) -> None:
        self._frames: dict[str, Singles] = {}
        self._kept: dict[str, dict[str, Any]] = {}
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._kept = _read_rows(self._file)

    @cached_property
    def _file(self) -> Path:
        """Return a name by content: the model, the motion, the options and the code."""
        assert self.folder is not None
        model, motion = self.model, self.motion
        middle = motion.at(motion.times[0] + 0.37 * motion.duration)[0]
        arrays = model.mesh.tets, model.tet_rig(middle), model.rig(middle), model.poses
        matter = model.material_kind, model.young, model.poisson, model.density, model.fixed
        weights = model.elastic_weights, model.inertial_weights
        added = model.stiffness_corrections, model.inertial_corrections
        reduced = *model.bases, model.mass_products, *weights, *added
        moving = motion.times, motion.poses, motion.roots, list(motion.cuts)
        said = self.options, self.rate, self.accuracy, FINE, SAMPLED
        code = code_hash(BUILDING)
        content = content_hash(*arrays, *matter, *reduced, *moving, *said, code)
        return self.folder / f"budget-{content}.json"

    @cached_property
    def truth(self) -> Truth:
        """Converged full simulation, with displacements of the tets."""
        return truth(
            self.model,
            self.motion,
            self.rate,
            accuracy=self.accuracy,
            cache=self.folder,
            progress=self.progress,
            flesh=True,
            **self._common(1.0),
        )

    @property
    def figures(self) -> dict[str, Any]:
        """Figures of the truth: its sub-steps, its last change, and the RMS displacement in m."""

        def made() -> dict[str, Any]:
            true = self.truth
            moved = true.frames.astype(np.float64) - true.rig
            return {
                "substeps": true.substeps,
                "change": true.change,
                "converged": true.converged,
                "seconds": true.seconds,
                "displacement": float(np.sqrt((moved**2).sum(axis=2).mean())),
                "size": float(self.model.surface.size),
            }

        return self._row("truth", made)

    @property
    def plays(self) -> list[str]:
        """Names of those of `PLAYS` that mean something for the model.

        Forces that are fitted to motions of the whole body are not those of all tets in the
        basis, nor are loads: without cubature that would be another model.
        """
        fitted = self.model.report.get("elastic_error", {}).get("forces") == "motions"
        return [name for name, play in PLAYS.items() if not (play.whole and fitted)]

    def play(self, name: str) -> dict[str, Any]:
        """Return the row of one of `PLAYS`.

        Its ``error`` is from the truth, its ``change`` from the play that it differs from by a
        switch, both relative to the RMS of the true displacement; ``amplitude`` is its own RMS
        displacement over the truth's.
        """

        def made() -> dict[str, Any]:
            true, other = self.truth, PLAYS[name].beside
            frames, limits, spent = self._played(name)
            if any(each.beside == name for each in PLAYS.values()):
                self._frames[name] = frames
            row = self._beside_truth(frames)
            if other not in ("", name):
                row["change"] = rms_difference(
                    true.frames + (frames - self._frames_of(other)), true.frames, true.rig
                )
            return row | {"limits": limits, "ms_a_frame": 1e3 * spent / len(frames)}

        return self._row(name, made)

    def basis(self, name: str) -> dict[str, Any]:
        """Return the row of one of `BASES`: its ``error`` is what the basis cannot hold.

        None, and why as ``failed``, where a pose has no basis of its own: tets are inverted there.
        """

        def made() -> dict[str, Any]:
            if name in ("basis", "basis sampled"):
                every = range(len(self.truth.frames))
                return self._held(every if name == "basis" else self._sample, self._blended)
            if name == "basis frames":
                return self._held(range(len(self.truth.frames)), self._blended_frames)
            try:
                return self._held(self._sample, partial(self._own_basis, name == "basis own"))
            except SuppleError as error:
                return {"error": None, "amplitude": None, "failed": str(error)}

        return self._row(name, made)

    def _row(self, name: str, made: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return a row that is kept, or make and keep it."""
        if name not in self._kept:
            self._kept[name] = made()
            if self.folder is not None:
                write_whole(self._file, json.dumps(self._kept, indent=1).encode())
        return self._kept[name]

    def _common(self, damping: float) -> dict[str, Any]:
        """Return options that both the full and the reduced simulation take."""
        taken = {k: v for k, v in self.options.items() if k in engine_named("full").step_options}
        for each in ("alpha", "beta"):
            if each in taken:
                taken[each] = damping * taken[each]
        return taken

    def _played(self, name: str) -> tuple[Singles, dict[str, int], float]:
        """Return frames, how often limits acted, and seconds of the processor."""
        play = PLAYS[name]
        self.progress(0.0, play.about)
        row = engine_named(play.engine, "character")
        if play.engine == "full":
            exact = {"newton": CONVERGING["newton"], "integrator": INTEGRATOR}
            solved = exact | self._common(play.damping)
            began = process_time()
            steps = play.steps
            frames, _ = play_finely(row, self.model, self.motion, self.rate, steps, solved)
            return frames, {}, process_time() - began
        model = self.model
        if play.whole:
            model = without_cubature(
                self.model,
                self._poses,
                elastic=play.whole != "inertial",
                inertial=play.whole != "elastic",
            )
        options = self.options | self._common(play.damping) | dict(play.options)
        simulator = _Watched(row.simulate(model, 1 / (self.rate * play.steps), **options))
        began = process_time()
        frames = played(simulator, self.motion, play.steps)
        return frames, simulator.limits, process_time() - began

    def _frames_of(self, name: str) -> Singles:
        if name not in self._frames:
            self._frames[name] = self._played(name)[0]
        return self._frames[name]

    def _beside_truth(self, frames: Singles) -> dict[str, Any]:
        true = self.truth
        error = rms_difference(frames, true.frames, true.rig)
        nothing = rms_difference(frames, true.rig, true.frames)  # |a − Φ̄| / |b − Φ̄|
        try:
            beat = frequency_error(frames - true.rig, true.frames - true.rig, self.rate)
        except SuppleError:  # too short, or nothing moves
            beat = None
        return {"error": error, "amplitude": nothing, "frequency_error": beat}

    @cached_property
    def _poses(self) -> ReducedPoses:
        self.progress(0.0, "bases on the whole mesh")
        return ReducedPoses.of_model(self.model)

    @cached_property
    def _blended(self) -> BlendedBasis:
        return BlendedBasis(without_cubature(self.model, self._poses))

    @cached_property
    def _blended_frames(self) -> BlendedBasis:
        return BlendedBasis(without_cubature(self.model, self._poses), "blended")

    def _own_basis(self, touching: bool, pose: Floats) -> Floats:
        """Return the basis that is made at a pose, where parts that touch may be ignored."""
        contacts: Any = "two-sided" if touching else None
        return ReducedPoses.of_model(self.model, pose[None], contacts).basis(0)

    @property
    def _sample(self) -> range:
        """Return frames spread over the motion, neither its first nor its last."""
        count = len(self.truth.frames)
        return range(max(count // (2 * SAMPLED), 1), count, max(count // SAMPLED, 1))

    def _held(self, at: range, basis: Callable[[Floats], Floats]) -> dict[str, Any]:
        """Return how far the true motion is from the nearest in a basis, at some frames."""
        true, keys = self.truth, self.motion.smooth.resample(self.rate)
        assert true.flesh is not None
        held = np.zeros((len(at), *true.frames.shape[1:]))
        for number, frame in enumerate(at):
            self.progress(number / len(at), "nearest in a basis")
            turn = keys.roots[frame, :3, :3]
            moved = true.flesh[frame].astype(np.float64) @ turn  # seen from the root
            near = nearest_displacement(self.model, basis(keys.poses[frame]), moved)
            held[number] = self.model.embedding @ (near @ turn.T)
        rig = true.rig[list(at)].astype(np.float64)
        return {
            "error": rms_difference(rig + held, true.frames[list(at)], rig),
            "amplitude": rms_difference(rig + held, rig, true.frames[list(at)]),
            "frames": len(at),
        }


class _Watched:
    """Simulator whose limits are counted."""

    def __init__(self, simulator: Any) -> None:
        self._simulator = simulator
        self.limits: dict[str, int] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._simulator, name)

    def step(self, *arguments: Any, **named: Any) -> Any:
        """Step, and count the limits that acted."""
        done = self._simulator.step(*arguments, **named)
        for name in done.limits:
            self.limits[name] = self.limits.get(name, 0) + 1
        return done


def _read_rows(path: Path) -> dict[str, dict[str, Any]]:
    """Return rows that were kept; none of a file that is not whole."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return {str(name): dict(row) for name, row in found.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
