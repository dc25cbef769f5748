"""`supple bench`: what a step of the four characters costs, beside the paper's and a dense product.

Times of one core are taken in a process whose BLAS and Numba have one thread, those of all cores
in another. A step is whole: the rig, the reduced dynamics and the surface (xu2016 Table 3).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from supple.app.processes import with_cores
from supple.app.progress_bar import first_use_message, progress_bar
from supple.arrays import Floats
from supple.errors import SuppleError
from supple.lab.bench.bench_motion import RATE, back_and_forth, motion_of
from supple.lab.bench.step_timing import BREAKS, WARM_UP, time_steps, timed

__all__ = ["KEYS", "STEPS", "RigTimes", "checked_scenes", "measure"]


# ----------------------------------------------------------------------------
# What of a step the rig itself takes: placing tets, and placing the skin.


class RigTimes:
    """Stands between a simulator and its rig, and notes how long the rig takes in each step.

    Two readings of the clock a call, less than a microsecond a step.

    Parameters
    ----------
    simulator
        `Simulator`; from now on its rig is timed.
    """

    def __init__(self, simulator: Any) -> None:
        own = simulator._stepper
        self._rig, self.seconds = own._placement, [0.0]
        own._placement = self

    def place_tets(self, *arguments: Any) -> None:
        """A step begins."""
        began = perf_counter()
        self._rig.place_tets(*arguments)
        self.seconds.append(perf_counter() - began)

    def place_surface(self, *arguments: Any) -> None:
        """The skin of the step that was begun last."""
        began = perf_counter()
        self._rig.place_surface(*arguments)
        self.seconds[-1] += perf_counter() - began

    def median(self, last: int) -> float:
        """Of the last so many steps, in seconds."""
        return float(np.median(self.seconds[-last:]))


STEPS = 5_000


#: How many characters are stepped together where two cores are measured.
CROWD = 16


#: What a row has, whatever else it has.
KEYS = (
    "scene",
    "tets",
    "tet_vertices",
    "surface_vertices",
    "modes",
    "regions",
    "poses",
    "cubature_elastic",
    "cubature_inertial",
    "step_ms",
    "step_ms_two_cores",
    "split_ms",
    "rig_ms",
    "limited_steps",
    "full_step_ms",
    "speedup",
    "dgemm256_ms",
    "step_in_dgemm",
    "model_mb",
    "paper_ms",
    "paper_speedup",
    "rms_vs_full",
    "frequency_error",
)


def measure(
    scenes: Sequence[str] = (),
    *,
    model: Path | None = None,
    steps: int = STEPS,
    fidelity: bool = False,
    quiet: bool = False,
) -> list[dict[str, Any]]:
    """One row for each scene, or one for a model of your own.

    Parameters
    ----------
    scenes
        Names; by default all four.
    model
        A .supple file to measure rather than scenes.
    steps
        How many are found.
    fidelity
        Also compare surfaces and frequencies with the unreduced simulator, for minutes.
    quiet
        Show no progress.
    """
    if not 10 <= steps <= 1_000_000:
        raise SuppleError(f"{steps:,} steps; choose between 10 and 1,000,000")
    names = checked_scenes(scenes, model)
    first_use_message(quiet)
    rows: list[dict[str, Any]] = []
    with _files(names, model, quiet) as paths, progress_bar(quiet) as progress:
        task = progress.add_task("measuring", total=(4 if fidelity else 3) * len(paths))
        for path in paths:
            shown = path.stem if model is not None else names[len(rows)]
            progress.update(task, description=f"{shown}, one core")
            row = with_cores(1, _one_core, path, steps)
            progress.advance(task)
            progress.update(task, description=f"{shown}, unreduced, all cores")
            row |= with_cores(None, _all_cores, path)
            progress.advance(task)
            progress.update(task, description=f"{shown}, two cores")
            row |= with_cores(2, _two_cores, path, max(steps // 10, 10))
            progress.advance(task)
            if fidelity:
                progress.update(task, description=f"{shown}, fidelity")
                row |= with_cores(None, _fidelity, path)
                progress.advance(task)
            rows.append(_finished(row))
    return rows


def checked_scenes(scenes: Sequence[str], model: Path | None = None) -> list[str]:
    """The names, each once; all when there are none and no model is given."""
    from supple.scenes.characters.character_scene import SCENES, scene

    if model is not None:
        if scenes:
            raise SuppleError(f"scenes and --model {model}; give one or the other")
        if not model.is_file():
            raise SuppleError(f"{model}: there is no such file; supple build makes one")
        return []
    for name in scenes:
        if name not in SCENES:
            scene(name)  # whose message knows which is near
    return list(dict.fromkeys(scenes)) or list(SCENES)


@contextmanager
def _files(names: Sequence[str], model: Path | None, quiet: bool) -> Iterator[list[Path]]:
    from supple.app.scene_models import scene_model_file

    with ExitStack() as stack:
        if model is not None:
            yield [model]
            return
        yield [stack.enter_context(scene_model_file(name, quiet=quiet)) for name in names]


def _loaded(path: Path, steps: int) -> tuple[Any, Floats, Floats]:
    """The model, and its motion for so many steps."""
    from supple.engines.pose_space.model.model import PoseSpaceModel

    model = PoseSpaceModel.load(path)
    return model, *back_and_forth(motion_of(model), steps)


def _one_core(path: Path, steps: int) -> dict[str, Any]:
    """A row of figures, but for what needs more cores."""
    from supple.engines.pose_space.simulator import PoseSpaceSimulator

    model, poses, roots = _loaded(path, steps + BREAKS)
    full = _FullSteps(model)
    simulator = PoseSpaceSimulator(model, 1 / RATE)
    rig = RigTimes(simulator)
    found = time_steps(simulator, poses, roots, full)
    sizes = {
        "scene": model.name,
        "tets": len(model.mesh.tets),
        "tet_vertices": len(model.mesh.vertices),
        "surface_vertices": len(model.surface.vertices),
        "modes": model.n_modes,
        "regions": len(model.regions),
        "poses": model.n_poses,
        "cubature_elastic": len(model.elastic_tets),
        "cubature_inertial": len(model.inertial_vertices),
        "model_mb": path.stat().st_size / 1e6,
    }
    step = 1e3 * np.median(found.whole)
    dense = 1e3 * np.median(found.products)
    return sizes | {
        "step_ms": {
            "median": step,
            "p99": 1e3 * np.percentile(found.whole, 99),
            "max": 1e3 * found.whole.max(),
        },
        "split_ms": {
            "core": 1e3 * np.median(found.core),
            "dynamics": 1e3 * np.median(found.dynamics),
            "surface": 1e3 * np.median(found.surface),
        },
        "rig_ms": 1e3 * rig.median(len(poses)),
        "dgemm256_ms": dense,
        "step_in_dgemm": step / dense,
        "steps": steps,
        "motion": motion_of(model).name,
        "limited_steps": found.limited,
        "rms_vs_full": None,
        "frequency_error": None,
        "full_step_ms": 1e3 * np.median(found.beside),
        "step_cpu_ms": {
            "median": 1e3 * np.median(found.cpu),
            "p99": 1e3 * np.percentile(found.cpu, 99),
            "max": 1e3 * found.cpu.max(),
        },
        **_paper(model),
    }


class _FullSteps:
    """Steps without reduction, one Newton iteration each as in the paper; a call is a step."""

    def __init__(self, model: Any) -> None:
        from supple.engines.full.simulator import FullSimulator

        self.poses, self.roots = back_and_forth(motion_of(model), BREAKS + 3)
        self.simulator: Any = FullSimulator(model, 1 / RATE)
        self.simulator.reset(self.poses[0], self.roots[0])
        self.out, self.taken = np.array(self.simulator.surface()), 0
        self()  # the first analyses the matrix

    def __call__(self) -> None:
        at = self.taken % len(self.poses)
        self.simulator.step(self.poses[at], self.roots[at])
        self.simulator.surface(self.out)
        self.taken += 1


def _all_cores(path: Path) -> dict[str, Any]:
    model, _, _ = _loaded(path, 1)
    full = _FullSteps(model)
    seconds = [timed(full) for _ in range(BREAKS)]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"full_step_ms_all_cores": 1e3 * np.median(seconds), "cores": cores}


def _two_cores(path: Path, steps: int) -> dict[str, Any]:
    """A small crowd on two cores, by turns with the same on one: the time of one's step."""
    from supple.engines.pose_space.crowd import Crowd
    from supple.engines.pose_space.runtime import RuntimeModel

    rounds = max(steps // CROWD, 10)
    model, poses, roots = _loaded(path, rounds + WARM_UP // CROWD + 10 * CROWD)
    runtime, apart = RuntimeModel(model), 10 * np.arange(CROWD)
    crowds = {cores: Crowd(runtime, CROWD, 1 / RATE, threads=cores) for cores in (1, 2)}
    skins = np.empty((CROWD, *model.surface.vertices.shape), np.float32)
    seconds: dict[int, list[float]] = {1: [], 2: []}
    for crowd in crowds.values():
        crowd.reset(poses[apart], roots[apart])
    for k in range(rounds + WARM_UP // CROWD):
        for cores, crowd in crowds.items():
            began = perf_counter()
            crowd.step(poses[k + apart], roots[k + apart], surfaces=skins)
            seconds[cores].append(perf_counter() - began)
    one, two = (np.median(seconds[cores][WARM_UP // CROWD :]) / CROWD for cores in (1, 2))
    return {"step_ms_two_cores": 1e3 * two, "two_cores_gain": one / two}


def _fidelity(path: Path) -> dict[str, Any]:
    """How far the step is from the converged unreduced simulation of the same motion."""
    from supple.engines.pose_space.model.model import PoseSpaceModel
    from supple.lab.fidelity.fidelity import compare

    model = PoseSpaceModel.load(path)
    found = compare(model, motion_of(model))
    return {
        "rms_vs_full": found.rms,
        "frequency_error": found.frequency_error,
        "rms_same_step": found.rms_same_step,
        "truth_change": found.truth_change,
    }


def _paper(model: Any) -> dict[str, Any]:
    """The paper's row, if this is the scene it belongs to."""
    from supple.scenes.characters.character_scene import SCENES, scene

    found: dict[str, Any] = {"paper_ms": None, "paper_speedup": None, "paper_mb": None}
    if model.name in SCENES:
        shown = scene(model.name)
        if len(shown.character.surface.vertices) == len(model.surface.vertices):
            row = shown.paper
            found = {
                "paper_ms": row.milliseconds,
                "paper_speedup": row.speed_up,
                "paper_mb": row.megabytes,
            }
    return found


def _finished(row: dict[str, Any]) -> dict[str, Any]:
    """With the speed-up, the agreed keys first, and no more digits than mean something."""
    # Of processor time both: a long step is interrupted by others more often than a short one.
    row["speedup"] = row["full_step_ms"] / row["step_cpu_ms"]["median"]
    row["speedup_full_on_all_cores"] = row["full_step_ms_all_cores"] / row["step_ms"]["median"]
    ordered = {key: row[key] for key in KEYS} | row
    return {key: _rounded(value) for key, value in ordered.items()}


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    if isinstance(value, float | np.floating):
        return None if np.isnan(value) else float(f"{value:.5g}")
    return value
