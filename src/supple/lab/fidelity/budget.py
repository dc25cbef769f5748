"""Error budget of the real-time step: contributions of its parts to the distance from a reference.

A part is measured by switching it off. Some distances are measured from the reference: of a
simulation, or of the reference's projection on a basis. Others are between two simulations that
differ in one option. Parts of an error have different directions, may cancel, and do not add up.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from time import process_time
from typing import Any, Literal, NamedTuple

import numpy as np

from supple.arrays import Floats, Singles
from supple.dynamics.motion_steps import motion_steps
from supple.dynamics.root_frame import to_world
from supple.elastic.body import ElasticBody
from supple.engines.engine import engine_named
from supple.engines.pose_space.build.reduced_poses import ReducedPoses
from supple.engines.pose_space.model.model import PoseSpaceModel
from supple.engines.pose_space.runtime import Frames, RuntimeModel
from supple.engines.pose_space.state import states_of
from supple.engines.pose_space.step_options import INTEGRATOR, StepOptions
from supple.engines.pose_space.stepper import Stepper
from supple.errors import SuppleError
from supple.lab.fidelity.oscillation import frequency_error
from supple.lab.fidelity.truth import Truth, play_finely, played, truth
from supple.playback.final_take import CONVERGING, rms_difference
from supple.progress import Progress, unreported
from supple.rig.inverse_skinning import SkinTransfer
from supple.rig.motion.motion import Motion
from supple.saving import write_whole
from supple.user_cache import BUILDING, code_hash, content_hash

#: Steps of a frame with a negligible error of the time step, 1/64 of the live step's.
FINE = 16
#: Steps of a frame in a bake.
LIVE = 2
#: Number of frames at which a basis is computed.
SAMPLED = 6

#: Limits that never act.
_UNLIMITED = {"displacement_limit": 1e3, "acceleration_limit": 1e9}


class Variant(NamedTuple):
    """Variant of the simulation that differs from another variant in one option."""

    about: str
    #: Name of the variant from which it differs in one option; empty if there is none.
    compared_to: str = "live"
    #: Options of the simulator, and a factor on both kinds of damping.
    options: Mapping[str, Any] = {}
    damping: float = 1.0
    steps: int = LIVE  # steps of a frame, each with its pose
    #: Forces that are summed over the whole mesh in place of cubature.
    whole: Literal["", "elastic", "inertial", "both"] = ""
    engine: str = "pose-space"


def _integrators() -> dict[str, Variant]:
    """Return variants with other integrators and shorter steps."""
    variants = {}
    for method, short in (("backward-euler", "Euler"), ("bdf2", "BDF2"), ("newmark", "Newmark")):
        for steps in (1, 2, 4):
            options = {"integrator": method}
            if (method, steps) != (INTEGRATOR, LIVE):
                about = f"{short}, {steps} step{'s' * (steps > 1)} a frame"
                variants[f"{method} {steps}"] = Variant(about, options=options, steps=steps)
            if steps > 1:
                inner = options | {"substeps": steps}
                about = f"{short}, a step with {steps} sub-steps"
                variants[f"{method} {steps} inner"] = Variant(about, options=inner, steps=1)
    return variants


#: Variants by name.
VARIANTS: dict[str, Variant] = {
    "live": Variant("the step of a bake"),
    "full": Variant("all tets unreduced, at the live step", "", engine="full"),
    "fine": Variant(f"reduced, {FINE} steps a frame", steps=FINE),
    "fine paper": Variant(
        "the same without transport, as in the paper", "fine", {"transport": False},
        steps=FINE,
    ),
    "whole": Variant("the same, no cubature", "fine", steps=FINE, whole="both"),
    "whole elastic": Variant("no elastic cubature", "fine", steps=FINE, whole="elastic"),
    "whole inertial": Variant("no inertial cubature", "fine", steps=FINE, whole="inertial"),
    "limits": Variant("no limits", options=_UNLIMITED),
    "newton": Variant("three Newton iterations", options={"iterations": 3}),
    "look ahead": Variant("accelerations extrapolated by a step", options={"look_ahead": 1.0}),
    "transport": Variant("without transport of the flesh", options={"transport": False}),
    "frames": Variant("blended frames", options={"frames": "blended"}),
    "weights": Variant("small weights of poses count", options={"negligible_weight": 0.0}),
    "damping half": Variant("half the damping", damping=0.5),
    "damping twice": Variant("twice the damping", damping=2.0),
    **_integrators(),
}  # fmt: skip

#: Projections of the reference on bases, by name; the last three at few frames.
BASES = {
    "basis": "projection on the blended basis",
    "basis frames": "projection on the basis with blended frames",
    "basis sampled": "projection on the blended basis, few frames",
    "basis own": "projection on a basis computed at the pose, few frames",
    "basis free": "the same without contact",
}


@dataclass(eq=False)
class Budget:
    """Error budget of a model and a motion, with rows that are computed on demand and cached."""

    model: PoseSpaceModel
    motion: Motion
    rate: float = 90.0
    #: Options of the live step: damping, gravity, limits.
    options: dict[str, Any] = field(default_factory=dict)
    accuracy: float = 0.05  # change by the last halving of the reference's step, as for `truth`
    folder: Path | None = None  # folder of the reference and of finished rows, or None
    progress: Progress = unreported

    def __post_init__(self) -> None:
        self._frames: dict[str, Singles] = {}
        self._rows: dict[str, dict[str, Any]] = {}
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._rows = _read_rows(self._file)

    @cached_property
    def _file(self) -> Path:
        """Path of cached rows, named by a hash of model, motion, options and code."""
        assert self.folder is not None
        model, motion = self.model, self.motion
        middle = motion.at(motion.times[0] + 0.37 * motion.duration)[0]
        arrays = model.mesh.tets, model.tet_rig(middle), model.rig(middle), model.poses
        matter = model.material_kind, model.young, model.poisson, model.density, model.fixed
        weights = model.elastic_weights, model.inertial_weights
        added = model.stiffness_corrections, model.inertial_corrections
        reduced = *model.bases, model.mass_products, *weights, *added
        moving = motion.times, motion.poses, motion.roots, list(motion.cuts)
        settings = self.options, self.rate, self.accuracy, FINE, SAMPLED
        code = code_hash(BUILDING)
        content = content_hash(*arrays, *matter, *reduced, *moving, *settings, code)
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
        """Properties of the reference: sub-steps, last change, and RMS displacement in m."""

        def made() -> dict[str, Any]:
            true = self.truth
            displacements = true.frames.astype(np.float64) - true.rig
            return {
                "substeps": true.substeps,
                "change": true.change,
                "converged": true.converged,
                "seconds": true.seconds,
                "displacement": float(np.sqrt((displacements**2).sum(axis=2).mean())),
                "size": float(self.model.surface.size),
            }

        return self._row("truth", made)

    @property
    def variants(self) -> list[str]:
        """Names of the simulations in `VARIANTS` that apply to the model.

        Simulations without cubature are left out if forces are fitted to motions of the whole body.
        """
        fitted = self.model.report.get("elastic_error", {}).get("forces") == "motions"
        return [name for name, each in VARIANTS.items() if not (each.whole and fitted)]

    def variant_row(self, name: str) -> dict[str, Any]:
        """Return the row of one of `VARIANTS`, relative to the RMS displacement of the reference.

        ``error`` is the distance from the reference, ``change`` the distance from the variant
        `compared_to`, and ``amplitude`` the RMS displacement.
        """

        def made() -> dict[str, Any]:
            true, other = self.truth, VARIANTS[name].compared_to
            frames, limits, spent = self._played(name)
            if any(each.compared_to == name for each in VARIANTS.values()):
                self._frames[name] = frames
            row = self._against_truth(frames)
            if other not in ("", name):
                row["change"] = rms_difference(
                    true.frames + (frames - self._frames_of(other)), true.frames, true.rig
                )
            return row | {"limits": limits, "ms_a_frame": 1e3 * spent / len(frames)}

        return self._row(name, made)

    def basis(self, name: str) -> dict[str, Any]:
        """Return the row of one of `BASES`; ``error`` is the projection error.

        ``error`` is None, and ``failed`` has the reason, if a pose with inverted tets has no basis.
        """

        def made() -> dict[str, Any]:
            if name in ("basis", "basis sampled"):
                every = range(len(self.truth.frames))
                return self._projected(every if name == "basis" else self._sample, self._blended)
            if name == "basis frames":
                return self._projected(range(len(self.truth.frames)), self._blended_frames)
            try:
                return self._projected(self._sample, partial(self._own_basis, name == "basis own"))
            except SuppleError as error:
                return {"error": None, "amplitude": None, "failed": str(error)}

        return self._row(name, made)

    def _row(self, name: str, made: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return a cached row, or compute and cache it."""
        if name not in self._rows:
            self._rows[name] = made()
            if self.folder is not None:
                write_whole(self._file, json.dumps(self._rows, indent=1).encode())
        return self._rows[name]

    def _common(self, damping: float) -> dict[str, Any]:
        """Return the options that full and reduced simulations share."""
        shared = {k: v for k, v in self.options.items() if k in engine_named("full").step_options}
        for each in ("alpha", "beta"):
            if each in shared:
                shared[each] = damping * shared[each]
        return shared

    def _played(self, name: str) -> tuple[Singles, dict[str, int], float]:
        """Return frames (t, n̄, 3), numbers of limited steps by limit, and processor seconds."""
        variant = VARIANTS[name]
        self.progress(0.0, variant.about)
        row = engine_named(variant.engine, "character")
        if variant.engine == "full":
            exact = {"newton": CONVERGING["newton"], "integrator": INTEGRATOR}
            solved = exact | self._common(variant.damping)
            began = process_time()
            steps = variant.steps
            frames, _ = play_finely(row, self.model, self.motion, self.rate, steps, solved)
            return frames, {}, process_time() - began
        model = self.model
        if variant.whole:
            model = without_cubature(
                self.model,
                self._poses,
                elastic=variant.whole != "inertial",
                inertial=variant.whole != "elastic",
            )
        options = self.options | self._common(variant.damping) | dict(variant.options)
        simulator = _Watched(row.simulate(model, 1 / (self.rate * variant.steps), **options))
        began = process_time()
        frames = played(simulator, self.motion, variant.steps)
        return frames, simulator.limits, process_time() - began

    def _frames_of(self, name: str) -> Singles:
        if name not in self._frames:
            self._frames[name] = self._played(name)[0]
        return self._frames[name]

    def _against_truth(self, frames: Singles) -> dict[str, Any]:
        true = self.truth
        error = rms_difference(frames, true.frames, true.rig)
        amplitude = rms_difference(frames, true.rig, true.frames)  # |a − Φ̄| / |b − Φ̄|
        try:
            frequency = frequency_error(frames - true.rig, true.frames - true.rig, self.rate)
        except SuppleError:  # too short, or without motion
            frequency = None
        return {"error": error, "amplitude": amplitude, "frequency_error": frequency}

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
        """Return the basis computed at a pose, with or without contact."""
        contacts: Any = "two-sided" if touching else None
        return ReducedPoses.of_model(self.model, pose[None], contacts).basis(0)

    @property
    def _sample(self) -> range:
        """Frames distributed over the motion, without its ends."""
        count = len(self.truth.frames)
        return range(max(count // (2 * SAMPLED), 1), count, max(count // SAMPLED, 1))

    def _projected(self, at: range, basis: Callable[[Floats], Floats]) -> dict[str, Any]:
        """Return error and amplitude of the reference's projection on a basis, at some frames."""
        true, steps = self.truth, motion_steps(self.motion, 1 / self.rate)
        keys, model = steps.motion, self.model
        transfer = SkinTransfer(model.rig, model.surface.triangles)
        assert true.flesh is not None
        projected = np.zeros((len(at), *true.frames.shape[1:]))
        for number, frame in enumerate(at):
            self.progress(number / len(at), "projection on a basis")
            rotation = keys.roots[frame, :3, :3]
            displacements = true.flesh[frame].astype(np.float64) @ rotation  # in the root's frame
            near = nearest_displacement(model, basis(keys.poses[frame]), displacements)
            skin = to_world(keys.roots[frame], model.rig(keys.poses[frame]))
            skin = (skin + model.embedding @ (near @ rotation.T)).astype(np.float32)
            steps.show(transfer, frame, skin)
            projected[number] = skin
        rig = true.rig[list(at)].astype(np.float64)
        return {
            "error": rms_difference(projected, true.frames[list(at)], rig),
            "amplitude": rms_difference(projected, rig, true.frames[list(at)]),
            "frames": len(at),
        }


class _Watched:
    """Simulator that counts steps in which limits act."""

    def __init__(self, simulator: Any) -> None:
        self._simulator = simulator
        self.limits: dict[str, int] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._simulator, name)

    def step(self, *arguments: Any, **named: Any) -> Any:
        """Take a step, and count the limits that act."""
        done = self._simulator.step(*arguments, **named)
        for name in done.limits:
            self.limits[name] = self.limits.get(name, 0) + 1
        return done


def _read_rows(path: Path) -> dict[str, dict[str, Any]]:
    """Return the cached rows; an empty dict if the file is missing or damaged."""
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        return {str(name): dict(row) for name, row in rows.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def without_cubature(
    model: PoseSpaceModel, poses: ReducedPoses, *, elastic: bool = True, inertial: bool = True
) -> PoseSpaceModel:
    """Return a model with all tets (`elastic`) and vertices (`inertial`) in place of cubature.

    `poses` are the model's poses on all vertices (`ReducedPoses.of_model`).
    """
    aligned, count = poses.aligned(model.interpolation), model.n_poses
    listed = [np.asarray(region.vertices, np.int32) for region in model.regions]
    moving = np.unique(np.concatenate(listed))
    fields: dict[str, Any] = {
        "basis_vertices": tuple(listed),
        "bases": tuple(
            np.stack([pose[at] for pose in aligned.bases]) for at in range(len(model.regions))
        ),
    }
    if aligned.rotations is not None:
        fields["rotations"] = aligned.rotations[:, moving]
    if elastic:
        tets = np.flatnonzero(np.isin(model.mesh.tets, moving).any(axis=1)).astype(np.int32)
        fields |= {
            "elastic_tets": tets,
            "elastic_weights": np.ones((count, len(tets)), np.float32),
            "stiffness_corrections": None,
            "correction_ends": np.empty((0, 2), np.int32),
            "trained_energies": None,
        }
    if inertial:
        fields |= {
            "inertial_vertices": moving,
            "inertial_weights": np.ones((count, len(moving)), np.float32),
            "inertial_corrections": None,
        }
    return replace(model, **fields)


class BlendedBasis:
    """Basis U(p) on all vertices of a model `without_cubature`, as a simulation step blends it."""

    def __init__(
        self, model: PoseSpaceModel, frames: Frames = "followed", negligible_weight: float = 0.02
    ) -> None:
        self._runtime = RuntimeModel(model, frames=frames)
        options = StepOptions(dt=1 / 90, negligible_weight=negligible_weight)
        self._stepper = Stepper(self._runtime, options)
        (self._state,) = states_of(self._runtime, 1)

    def __call__(self, pose: Floats) -> Floats:
        """Return U (3n, r) at a pose (s,), in the root's frame."""
        runtime, tables = self._runtime, self._runtime.inertial
        self._stepper.begin(self._state, np.asarray(pose, np.float64), np.eye(4), None)
        blend = self._stepper.workspace.blend
        basis = np.zeros((len(runtime.model.mesh.vertices), 3, runtime.n_modes))
        rotations = blend.frames[tables.rows].reshape(-1, 3, 3).astype(np.float64)
        where = runtime.vertices[tables.rows]
        for group, width in enumerate(tables.width):
            points = slice(tables.first[group], tables.first[group + 1])
            block = blend.inertial[tables.start[group] : tables.start[group + 1]]
            columns = tables.columns[group, :width]
            real = columns >= 0
            rows = block.reshape(-1, 3, width)[..., real] * blend.column_scale[columns[real]]
            basis[where[points][:, None], :, columns[real]] = np.swapaxes(
                rotations[points] @ rows, 1, 2
            )
        return basis.reshape(-1, runtime.n_modes)


def nearest_displacement(model: PoseSpaceModel, basis: Floats, displacement: Floats) -> Floats:
    """Return the mass-weighted projection of a displacement (n, 3) on a basis (3n, r)."""
    masses = ElasticBody(model.mesh, model.material(0)).vertex_masses()
    root = np.sqrt(np.repeat(masses, 3))
    q = np.linalg.lstsq(basis * root[:, None], displacement.reshape(-1) * root, rcond=None)[0]
    return np.asarray((basis @ q).reshape(-1, 3), np.float64)
