"""Reference simulations with a converged time step, for measuring real-time simulations."""

from __future__ import annotations

import hashlib
import inspect
import io
import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from supple.arrays import Singles
from supple.checks import checked_number, checked_whole_numbers
from supple.dynamics.motion_steps import motion_steps
from supple.dynamics.root_frame import to_world
from supple.engines.common.flesh_fields import FleshFields
from supple.engines.engine import CharacterEngine, Engine, engine_named
from supple.errors import SolverError, SuppleError
from supple.playback.final_take import CONVERGING, rms_difference
from supple.progress import Progress, unreported
from supple.rig.inverse_skinning import SkinTransfer
from supple.rig.motion.motion import Motion
from supple.saving import write_whole
from supple.user_cache import BUILDING, code_hash

MOST_SUBSTEPS = 64


@dataclass(frozen=True, eq=False)
class Truth:
    """Simulation with a converged time step."""

    frames: Singles  # (t, n̄, 3) float32 positions of the skin
    rig: Singles  # (t, n̄, 3) float32 positions of the skin by the rig alone
    rate: float
    substeps: int  # steps between two frames
    #: RMS difference by each halving of the step, see `rms_difference`; inf where the longer step
    #: has no solution.
    changes: tuple[float, ...]
    converged: bool  # whether the last change is within the accuracy
    unconverged_steps: int  # number of steps whose last Newton iteration exceeded the tolerance
    seconds: float  # time of the computation, without cached parts
    #: (t, n, 3) float32 displacements of the tets' vertices from the rig, in the world; None unless
    #: requested.
    flesh: Singles | None = None

    @property
    def change(self) -> float:
        """Change by the last halving; with second order, three times the remaining error."""
        return self.changes[-1] if self.changes else np.inf


def rig_surface(model: FleshFields, motion: Motion, rate: float = 90.0) -> Singles:
    """Return the skin (t, n̄, 3) by the rig alone at `rate` frames per second, in the world."""
    steps = motion_steps(motion, 1 / rate)
    keys = steps.shown or steps.motion
    placed = (
        to_world(root, model.rig(pose)) for pose, root in zip(keys.poses, keys.roots, strict=True)
    )
    return np.stack([each.astype(np.float32) for each in placed])


def usual_options(engine: Engine, options: dict[str, Any]) -> dict[str, Any]:
    """Return the `options` that an engine's simulator accepts."""
    return {name: value for name, value in options.items() if name in engine.step_options}


def played(simulator: CharacterEngine, motion: Motion, every: int = 1) -> Singles:
    """Play a motion from its initial velocity, with resets at cuts; return the skin (t, n̄, 3).

    A step lasts the simulator's `dt`; every `every`-th step is a frame, shown at the file's pose.
    """
    steps = motion_steps(motion, simulator.dt)
    keys, model = steps.motion, simulator.model
    transfer = SkinTransfer(model.rig, model.surface.triangles)
    frames = []
    for index, (pose, root) in enumerate(zip(keys.poses, keys.roots, strict=True)):
        if index == 0 or index in keys.cuts:
            simulator.reset(pose, root, before=steps.before(index))
        elif index in steps.jumps:
            simulator.teleport(pose, root, before=steps.before(index))
        else:
            simulator.step(pose, root)
        if index % every == 0:
            skin = np.array(simulator.surface(), np.float32)
            steps.show(transfer, index, skin)
            frames.append(skin)
    return np.stack(frames)


def play_finely(
    engine: Engine,
    model: FleshFields,
    motion: Motion,
    rate: float,
    substeps: int,
    options: dict[str, Any],
    *,
    centred: bool = False,
    progress: Progress = unreported,
    flesh: list[Singles] | None = None,
) -> tuple[Singles, int]:
    """Play a motion with `substeps` steps a frame; return frames and unconverged steps.

    An engine whose ``run`` accepts `centred` evaluates the motion at its sub-steps, computes the
    rig's accelerations by central differences if `centred`, and appends displacements (n, 3) of the
    tets' vertices at each frame to `flesh`. Other engines take steps of 1/(rate · substeps)
    seconds, and ignore `centred` and `flesh`.
    """

    def at_frame(part: float) -> None:
        if flesh is not None:
            flesh.append((simulator.positions - simulator.rest).astype(np.float32))
        progress(part, "")

    if "centred" in inspect.signature(getattr(engine.simulate, "run", played)).parameters:
        simulator = engine.simulate(model, 1 / rate, substeps=substeps, **options)
        frames = simulator.run(motion, centred=centred, progress=at_frame)
    else:
        simulator = engine.simulate(model, 1 / (rate * substeps), **options)
        frames = played(simulator, motion, substeps)
    return frames, getattr(simulator, "unconverged_steps", 0)


def truth(
    model: FleshFields,
    motion: Motion,
    rate: float = 90.0,
    *,
    engine: str = "full",
    accuracy: float = 0.02,
    most_substeps: int = MOST_SUBSTEPS,
    cache: str | Path | None = None,
    progress: Progress | None = None,
    flesh: bool = False,
    **options: Any,
) -> Truth:
    """Simulate a character with steps halved until the result converges.

    By default all tets are simulated by ``"bdf2"`` with centred accelerations of the rig (both of
    second order). Newton's method ends at changes below 1e-6 of the body's size. Where a system is
    not definite, the elements' stiffness is projected to be positive semi-definite.

    `accuracy` is the largest change, see `rms_difference`, that ends the halving; with more than
    `most_substeps` steps in a frame the result has ``converged=False``. `cache` is a folder of
    cached simulations; `flesh` requests displacements of the tets, for ``"full"`` only. Other
    options are the engine's, such as damping and gravity.
    """
    row, began = engine_named(engine, "character"), perf_counter()
    options = usual_options(row, CONVERGING) | options
    if flesh and row.name != "full":
        raise SuppleError(f'flesh needs the engine "full", not "{row.name}"')
    rig = rig_surface(model, motion, rate)
    limit = checked_number("accuracy", accuracy)
    (most,) = checked_whole_numbers("most substeps", [most_substeps])
    if not (limit > 0 and most >= 2):
        raise SuppleError("convergence needs a positive accuracy and at least two sub-steps")
    level_with = _Levels(row, model, motion, rate, cache, progress, options, flesh)
    level, substeps, changes = level_with(1), 1, list[float]()
    while 2 * substeps <= most and not (changes and changes[-1] <= limit):
        substeps, before, level = 2 * substeps, level, level_with(2 * substeps)
        solved = before is not None and level is not None
        changes.append(rms_difference(before.frames, level.frames, rig) if solved else np.inf)  # type: ignore[union-attr]
    if level is None:
        raise SolverError(
            f"no solution with {substeps} sub-steps; use more sub-steps, firmer flesh or more "
            "damping"
        )
    return Truth(
        frames=level.frames,
        rig=rig,
        rate=rate,
        substeps=substeps,
        changes=tuple(changes),
        converged=changes[-1] <= limit,
        unconverged_steps=level.unconverged,
        seconds=perf_counter() - began,
        flesh=level.flesh,
    )


class _Level(NamedTuple):
    """Simulation with a number of sub-steps; see `Truth`."""

    frames: Singles
    unconverged: int
    flesh: Singles | None


@dataclass
class _Levels:
    """Simulations with increasing numbers of sub-steps, cached in a folder."""

    engine: Engine
    model: FleshFields
    motion: Motion
    rate: float
    cache: str | Path | None
    progress: Progress | None
    options: dict[str, Any]
    flesh: bool

    def __call__(self, substeps: int) -> _Level | None:
        """Return the simulation with `substeps` steps a frame; None if Newton's method fails."""
        path = self._path(substeps)
        if path is not None and (cached := self._cached(path)) is not None:
            return cached
        what = f"{self.engine.name} simulation, {substeps} steps a frame"
        displacements: list[Singles] | None = [] if self.flesh else None
        try:
            frames, unconverged = play_finely(
                *(self.engine, self.model, self.motion, self.rate, substeps, self.options),
                centred=True,
                progress=lambda part, _: (self.progress or unreported)(part, what),
                flesh=displacements,
            )
        except SolverError:
            return None
        level = _Level(
            frames, unconverged, None if displacements is None else np.stack(displacements)
        )
        if path is not None:
            data = io.BytesIO()
            parts: dict[str, Any] = {"flesh": level.flesh} if self.flesh else {}
            np.savez(data, frames=frames, unconverged=unconverged, **parts)
            write_whole(path, data.getvalue())
        return level

    def _path(self, substeps: int) -> Path | None:
        """Return the path of a cached level, named by a hash of all inputs."""
        if self.cache is None:
            return None
        model, motion = self.model, self.motion
        digest = hashlib.sha256()
        settings = {name: plain_option(value) for name, value in self.options.items()}
        settings |= {"engine": self.engine.name, "code": code_hash(BUILDING)}
        texts = [model.material_kind, motion.cuts, self.rate, substeps, settings]
        digest.update(json.dumps(texts, sort_keys=True).encode())
        middle = motion.at(motion.times[0] + 0.37 * motion.duration)[0]
        skin = model.embedding_vertices, model.embedding_weights
        matter = model.mesh.tets, model.young, model.poisson, model.density, model.fixed, *skin
        moving = motion.times, motion.poses, motion.roots, model.poses
        for each in (*matter, *moving, model.tet_rig(middle), model.rig(middle)):
            digest.update(np.ascontiguousarray(each).tobytes())
        return Path(self.cache) / f"truth-{digest.hexdigest()[:24]}-{substeps}.npz"

    def _cached(self, path: Path) -> _Level | None:
        """Return the level of a file; None if it is damaged or incomplete."""
        try:
            with np.load(path, allow_pickle=False) as data:
                frames, unconverged = data["frames"], int(data["unconverged"])
                flesh = data["flesh"] if self.flesh else None
        except (OSError, ValueError, KeyError, EOFError, TypeError, zipfile.BadZipFile):
            return None
        count = self.motion.smooth.resample(self.rate).n_frames
        skin, body = len(self.model.surface.vertices), len(self.model.mesh.vertices)
        right = _is_valid(frames, (count, skin, 3))
        right &= flesh is None or _is_valid(flesh, (count, body, 3))
        return _Level(frames, unconverged, flesh) if right else None


def _is_valid(field: Any, shape: tuple[int, ...]) -> bool:
    return field.shape == shape and field.dtype == np.float32 and bool(np.isfinite(field).all())


def plain_option(value: Any) -> Any:
    """Return an option as a JSON value."""
    return value if isinstance(value, str | bool) else np.asarray(value).tolist()
