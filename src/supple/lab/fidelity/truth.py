"""Truth: the converged simulation of a motion, which real-time ones are measured by."""

from __future__ import annotations

import hashlib
import inspect
import io
import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from supple.arrays import Singles
from supple.dynamics.between_poses import pose_before
from supple.dynamics.root_frame import to_world
from supple.engines.engine import CharacterEngine, Engine, engine_named
from supple.engines.pose_space.model.flesh_fields import FleshFields
from supple.errors import SolverError
from supple.playing.convergence import CONVERGING, converged, rms_difference
from supple.progress import Progress, unreported
from supple.rig.motion.motion import Motion
from supple.saving import write_whole

__all__ = [
    "Truth",
    "play_finely",
    "played",
    "rig_surface",
    "truth",
    "usual_options",
]

MOST_SUBSTEPS = 64


@dataclass(frozen=True, eq=False)
class Truth:
    """Simulation whose step has been halved until that changed little.

    Attributes
    ----------
    frames
        (t, n̄, 3) float32: the skin.
    rig
        (t, n̄, 3) float32: where the rig alone would have it.
    rate
        Frames per second.
    substeps
        Steps between two frames.
    changes
        RMS difference that each halving of the step made, as `rms_difference` gives it; inf where
        the longer step found no solution.
    converged
        Whether the last of them is as small as was asked.
    unconverged_steps
        Steps whose last Newton iteration moved a vertex by more than the tolerance.
    seconds
        Time it took, not counting what was found in a cache.
    """

    frames: Singles
    rig: Singles
    rate: float
    substeps: int
    changes: tuple[float, ...]
    converged: bool
    unconverged_steps: int
    seconds: float

    @property
    def change(self) -> float:
        """Change by the last halving; of the second order, so the error left is a third."""
        return self.changes[-1] if self.changes else np.inf


def rig_surface(model: FleshFields, motion: Motion, rate: float = 90.0) -> Singles:
    """Return the skin as the rig alone has it, in the world, (t, n̄, 3)."""
    keys = motion.resample(rate)
    placed = (
        to_world(root, model.rig(pose)) for pose, root in zip(keys.poses, keys.roots, strict=True)
    )
    return np.stack([each.astype(np.float32) for each in placed])


def usual_options(engine: Engine, options: dict[str, Any]) -> dict[str, Any]:
    """Return those of some options that an engine's simulator takes."""
    return {name: value for name, value in options.items() if name in engine.step_options}


def played(simulator: CharacterEngine, motion: Motion, every: int = 1) -> Singles:
    """Step a simulator through a motion, moving as it does at its start, and return the skin.

    Cuts begin anew. All simulators are played alike, step by step.

    Parameters
    ----------
    simulator
        Simulator that makes steps of its `dt`.
    motion
        Motion, evaluated at each of them.
    every
        How many steps make a frame, of which the last is returned.
    """
    keys = motion.resample(1 / simulator.dt)
    frames = []
    for index, (pose, root) in enumerate(zip(keys.poses, keys.roots, strict=True)):
        if index == 0 or index in keys.cuts:
            simulator.reset(pose, root, before=pose_before(keys, index))
        else:
            simulator.step(pose, root)
        if index % every == 0:
            frames.append(np.array(simulator.surface(), np.float32))
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
) -> tuple[Singles, int]:
    """Play a motion with `substeps` steps a frame; return frames and unconverged steps.

    An engine whose ``run`` takes `centred` evaluates the motion at its own sub-steps, and takes
    accelerations of the rig from both sides if asked to. Others are stepped one by one.
    """
    if "centred" in inspect.signature(getattr(engine.simulate, "run", played)).parameters:
        simulator = engine.simulate(model, 1 / rate, substeps=substeps, **options)
        frames = simulator.run(motion, centred=centred, progress=lambda part: progress(part, ""))
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
    **options: Any,
) -> Truth:
    """Simulate a character until halving the step changes little.

    By default with all tets, ``"bdf2"``, centred accelerations of the rig (both of second order),
    Newton's method to 1e-6 of the size, and projection to positive semi-definite elements where a
    system is not definite.

    Parameters
    ----------
    model, motion
        The character, from the start of the motion, moving as it does there.
    rate
        Frames per second.
    engine
        Engine that is taken for true, of `supple.engines.ENGINES`.
    accuracy
        The largest change, as `rms_difference` gives it, that ends the halving.
    most_substeps
        Most steps of a frame; the result then says ``converged=False``.
    cache
        A folder. Simulations found in it are not repeated, and new ones are left there.
    progress
        Called with the part done of the simulation that runs, 0 to 1, and which it is.
    **options
        Options of the engine: damping, gravity, and others as in what is compared.
    """
    row, began = engine_named(engine, "character"), perf_counter()
    options = usual_options(row, CONVERGING) | options
    rig = rig_surface(model, motion, rate)
    levels = _Levels(row, model, motion, rate, cache, progress, options)
    found = converged(
        levels,
        lambda before, after: rms_difference(before[0], after[0], rig),
        accuracy=accuracy,
        most_substeps=most_substeps,
    )
    frames, unconverged = found.result
    told = found.substeps, found.changes, found.done, unconverged, perf_counter() - began
    return Truth(frames, rig, rate, *told)


@dataclass
class _Levels:
    """Simulations with ever more sub-steps, kept in a folder if there is one."""

    engine: Engine
    model: FleshFields
    motion: Motion
    rate: float
    cache: str | Path | None
    progress: Progress | None
    options: dict[str, Any]

    def __call__(self, substeps: int) -> tuple[Singles, int] | None:
        """Return frames and unconverged steps; None where Newton's method found no solution."""
        path = self._path(substeps)
        if path is not None and (kept := self._kept(path)) is not None:
            return kept
        what = f"{self.engine.name} simulation, {substeps} steps a frame"
        try:
            frames, unconverged = play_finely(
                *(self.engine, self.model, self.motion, self.rate, substeps, self.options),
                centred=True,
                progress=lambda part, _: (self.progress or unreported)(part, what),
            )
        except SolverError:
            return None
        if path is not None:
            data = io.BytesIO()
            np.savez(data, frames=frames, unconverged=unconverged)
            write_whole(path, data.getvalue())
        return frames, unconverged

    def _path(self, substeps: int) -> Path | None:
        """Return a name by content: all that the result depends on, rigs by where they lead."""
        if self.cache is None:
            return None
        model, motion = self.model, self.motion
        digest = hashlib.sha256()
        settings = {name: _plain(value) for name, value in self.options.items()}
        settings["engine"] = self.engine.name
        texts = [model.material_kind, motion.cuts, self.rate, substeps, settings]
        digest.update(json.dumps(texts, sort_keys=True).encode())
        middle = motion.at(motion.times[0] + 0.37 * motion.duration)[0]
        skin = model.embedding_vertices, model.embedding_weights
        matter = model.mesh.tets, model.young, model.poisson, model.density, model.fixed, *skin
        moving = motion.times, motion.poses, motion.roots, model.poses
        for each in (*matter, *moving, model.tet_rig(middle), model.rig(middle)):
            digest.update(np.ascontiguousarray(each).tobytes())
        return Path(self.cache) / f"truth-{digest.hexdigest()[:24]}-{substeps}.npz"

    def _kept(self, path: Path) -> tuple[Singles, int] | None:
        """Return frames and unconverged steps of a file; None if it is not whole."""
        try:
            with np.load(path, allow_pickle=False) as data:
                frames, unconverged = data["frames"], int(data["unconverged"])
        except (OSError, ValueError, KeyError, EOFError, TypeError, zipfile.BadZipFile):
            return None
        count = self.motion.resample(self.rate).n_frames
        shape = (count, len(self.model.surface.vertices), 3)
        right = frames.shape == shape and frames.dtype == np.float32 and np.isfinite(frames).all()
        return (frames, unconverged) if right else None


def _plain(value: Any) -> Any:
    """Return an option as JSON has it."""
    return value if isinstance(value, str | bool) else np.asarray(value).tolist()
