"""`supple bench`: times of a step of the four characters, beside the paper's and a dense product.

Times of one core are taken in a process whose BLAS and Numba have one thread, those of all cores
in another. A step is whole: the rig, the dynamics and the surface (xu2016 Table 3). Any engine of
characters can be timed: its steps report the split of their time, and the crowd is its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from supple.app.character_models import load_character_model, scene_model_file
from supple.app.processes import with_cores
from supple.app.progress_bar import first_use_message, progress_bar
from supple.arrays import Floats
from supple.engines.engine import FIRST_ENGINE, engine_named
from supple.errors import SuppleError
from supple.lab.bench.timing import (
    BREAKS,
    RATE,
    WARM_UP,
    back_and_forth,
    motion_of,
    time_steps,
    timed,
)
from supple.scenes.characters.character_scene import PAPERS, SCENES, scene

STEPS = 5_000
#: How many characters are stepped together where two cores are measured.
CROWD = 16
#: Keys that a row has, whatever else it has; None for what the engine does not have.
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


Section = dict[str, list[str]]


class _RigTimes:
    """Clock between a simulator and its rig, for the seconds that the rig takes in each step.

    Two readings of the clock a call, less than a microsecond a step.

    Parameters
    ----------
    simulator
        Any engine; from now on its rig is timed, if it places tets and skin as pose-space does.
    """

    def __init__(self, simulator: Any) -> None:
        own: Any = getattr(simulator, "_stepper", None)
        self._rig: Any = getattr(own, "_placement", None)
        self.seconds = [0.0]
        if self._rig is not None:
            own._placement = self

    def place_tets(self, *arguments: Any) -> None:
        """Place the tets; a step begins."""
        began = perf_counter()
        self._rig.place_tets(*arguments)
        self.seconds.append(perf_counter() - began)

    def place_surface(self, *arguments: Any) -> None:
        """Place the skin of the step that was begun last."""
        began = perf_counter()
        self._rig.place_surface(*arguments)
        self.seconds[-1] += perf_counter() - began

    def median(self, last: int) -> float | None:
        """Return the median of the last so many steps, in seconds; None if no rig is timed."""
        return None if self._rig is None else float(np.median(self.seconds[-last:]))


def measure(
    scenes: Sequence[str] = (),
    *,
    engine: str = FIRST_ENGINE,
    model: Path | None = None,
    steps: int = STEPS,
    fidelity: bool = False,
    quiet: bool = False,
) -> list[dict[str, Any]]:
    """Return one row for each scene, or one for a model of your own.

    Parameters
    ----------
    scenes
        Names; by default all four.
    engine
        Engine of characters to time, a name of `supple.engines.ENGINES`.
    model
        A .supple file to measure rather than scenes.
    steps
        Number of steps to time.
    fidelity
        Also compare surfaces and frequencies with the unreduced simulator, for minutes.
    quiet
        Show no progress.
    """
    if not 10 <= steps <= 1_000_000:
        raise SuppleError(f"{steps:,} steps; choose between 10 and 1,000,000")
    engine_named(engine, "character")
    names = checked_scenes(scenes, model)
    first_use_message(quiet)
    rows: list[dict[str, Any]] = []
    with model_files(names, engine, model, quiet) as paths, progress_bar(quiet) as progress:
        task = progress.add_task("measuring", total=(4 if fidelity else 3) * len(paths))
        for path in paths:
            shown = path.stem if model is not None else names[len(rows)]
            progress.update(task, description=f"{shown}, one core")
            row = with_cores(1, _one_core, path, engine, steps)
            progress.advance(task)
            progress.update(task, description=f"{shown}, unreduced, all cores")
            row |= with_cores(None, _all_cores, path)
            progress.advance(task)
            progress.update(task, description=f"{shown}, two cores")
            row |= with_cores(2, _two_cores, path, engine, max(steps // 10, 10))
            progress.advance(task)
            if fidelity:
                progress.update(task, description=f"{shown}, fidelity")
                row |= with_cores(None, _fidelity, path, engine)
                progress.advance(task)
            rows.append(_finished(row))
    return rows


def checked_scenes(scenes: Sequence[str], model: Path | None = None) -> list[str]:
    """Return the names, each once; all when there are none and no model is given."""
    if model is not None:
        if scenes:
            raise SuppleError(f"scenes and --model {model}; give one or the other")
        if not model.is_file():
            raise SuppleError(f"{model}: there is no such file; supple build makes one")
        return []
    for name in scenes:
        if name not in SCENES:
            scene(name)  # whose message knows which is near
    return list(dict.fromkeys(scenes)) or list(PAPERS["xu2016"])


@contextmanager
def model_files(
    names: Sequence[str], engine: str, model: Path | None, quiet: bool
) -> Iterator[list[Path]]:
    """Give the paths of the models: the user's own, or one for each scene."""
    if model is not None:
        yield [model]
        return
    with ExitStack() as stack:
        files = (scene_model_file(name, engine=engine, quiet=quiet) for name in names)
        yield [stack.enter_context(each) for each in files]


def _loaded(path: Path, steps: int) -> tuple[Any, Floats, Floats]:
    """Read a model, and return its motion for so many steps."""
    model = load_character_model(path)
    return model, *back_and_forth(motion_of(model), steps)


def _one_core(path: Path, engine: str, steps: int) -> dict[str, Any]:
    """Return a row of figures, but for what needs more cores."""
    model, poses, roots = _loaded(path, steps + BREAKS)
    full = _FullSteps(model)
    simulator = engine_named(engine).simulate(model, 1 / RATE)
    rig = _RigTimes(simulator)
    found = time_steps(simulator, poses, roots, full)
    sizes = {
        "scene": model.name,
        "engine": engine,
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
    step, placing = 1e3 * np.median(found.whole), rig.median(len(poses))
    dense = 1e3 * np.median(found.products)
    return sizes | {
        "step_ms": _spread(found.whole),
        "split_ms": {
            name: 1e3 * np.median(seconds)
            for name, seconds in (found.parts | {"surface": found.surface}).items()
        },
        "rig_ms": None if placing is None else 1e3 * placing,
        "dgemm256_ms": dense,
        "step_in_dgemm": step / dense,
        "steps": steps,
        "motion": motion_of(model).name,
        "limited_steps": found.limited,
        "rms_vs_full": None,
        "frequency_error": None,
        "full_step_ms": 1e3 * np.median(found.beside),
        "step_cpu_ms": _spread(found.cpu),
        **_paper(model),
    }


def _spread(seconds: Floats) -> dict[str, float]:
    """Return median, 99th percentile and largest, in ms."""
    return {
        "median": 1e3 * np.median(seconds),
        "p99": 1e3 * np.percentile(seconds, 99),
        "max": 1e3 * seconds.max(),
    }


class _FullSteps:
    """Unreduced simulation, one Newton iteration a step as in the paper; a call is a step."""

    def __init__(self, model: Any) -> None:
        self.poses, self.roots = back_and_forth(motion_of(model), BREAKS + 3)
        self.simulator = engine_named("full").simulate(model, 1 / RATE)
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


def _two_cores(path: Path, engine: str, steps: int) -> dict[str, Any]:
    """Time one character's step in a small crowd on two cores, by turns with the same on one."""
    row = engine_named(engine)
    if not row.crowd:
        return {"step_ms_two_cores": None, "two_cores_gain": None}
    rounds = max(steps // CROWD, 10)
    model, poses, roots = _loaded(path, rounds + WARM_UP // CROWD + 10 * CROWD)
    one = row.crowd_class(model, CROWD, 1 / RATE, threads=1)
    two = row.crowd_class(getattr(one, "runtime", model), CROWD, 1 / RATE, threads=2)
    crowds, apart = {1: one, 2: two}, 10 * np.arange(CROWD)
    skins = np.empty((CROWD, *model.surface.vertices.shape), np.float32)
    seconds: dict[int, list[float]] = {1: [], 2: []}
    for crowd in crowds.values():
        crowd.reset(poses[apart], roots[apart])
    for k in range(rounds + WARM_UP // CROWD):
        for cores, crowd in crowds.items():
            began = perf_counter()
            crowd.step(poses[k + apart], roots[k + apart], surfaces=skins)
            seconds[cores].append(perf_counter() - began)
    alone, shared = (np.median(seconds[cores][WARM_UP // CROWD :]) / CROWD for cores in (1, 2))
    return {"step_ms_two_cores": 1e3 * shared, "two_cores_gain": alone / shared}


def _fidelity(path: Path, engine: str) -> dict[str, Any]:
    """Compare the step with the converged unreduced simulation of the same motion."""
    from supple.lab.fidelity.fidelity import compare

    model = load_character_model(path)
    found = compare(model, motion_of(model), engine=engine)
    return {
        "rms_vs_full": found.rms,
        "frequency_error": found.frequency_error,
        "rms_same_step": found.rms_same_step,
        "truth_change": found.truth_change,
    }


def _paper(model: Any) -> dict[str, Any]:
    """Return the paper's row, if this is the scene it belongs to."""
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
    """Return a row with the speed-up, `KEYS` first, and no more digits than mean something."""
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


# The table for people


def table(rows: list[dict[str, Any]]) -> None:
    """Print a column for each scene: times beside the paper's, and the sizes they belong to."""
    from rich.console import Console
    from rich.table import Table

    grid = Table(
        title="A whole step with its surface on one core, milliseconds",
        caption="dgemm: a 256³ product of float64 on the same core in the same run. Speed-up: over "
        "our unreduced step on one core. The paper's times are of eight threads at 2.9 GHz.",
    )
    grid.add_column("")
    for row in rows:
        grid.add_column(row["scene"], justify="right")
    for section in (_times(rows), _parts(rows), _beside_full(rows), _sizes(rows)):
        for name, cells in section.items():
            grid.add_row(name, *cells)
        grid.add_section()
    Console().print(grid)


def _times(rows: list[dict[str, Any]]) -> Section:
    found = {
        f"step, {key}": [f"{row['step_ms'][key]:.3f}" for row in rows]
        for key in ("median", "p99", "max")
    }
    return found | {
        "  paper's": [number(row["paper_ms"], ".2f") for row in rows],
        "dgemm": [f"{row['dgemm256_ms']:.3f}" for row in rows],
        "step in dgemm": [f"{row['step_in_dgemm']:.2f}" for row in rows],
        "step, in a crowd on two cores": [number(row["step_ms_two_cores"], ".3f") for row in rows],
    }


def _parts(rows: list[dict[str, Any]]) -> Section:
    names = {"core": "rest shapes and bases at the pose", "dynamics": "forces and their solution"}
    found = {
        names.get(part, part): [number(row["split_ms"][part], ".3f") for row in rows]
        for part in rows[0]["split_ms"]
    }
    return found | {
        "of all this, the rig": [number(row["rig_ms"], ".3f") for row in rows],
        "steps in which a limit acted": [limits_text(row["limited_steps"]) for row in rows],
    }


def limits_text(counts: dict[str, int]) -> str:
    """Return how often which limits acted; none is as it should be."""
    return ", ".join(f"{count:,} {name}" for name, count in counts.items()) or "none"


def _beside_full(rows: list[dict[str, Any]]) -> Section:
    return {
        "unreduced step, one core": [number(row["full_step_ms"], ".1f") for row in rows],
        "unreduced step, all cores": [number(row["full_step_ms_all_cores"], ".1f") for row in rows],
        "speed-up": [number(row["speedup"], ".0f") for row in rows],
        "  paper's": [number(row["paper_speedup"], ".0f") for row in rows],
        "RMS off unreduced, of its motion": [number(row["rms_vs_full"], ".3f") for row in rows],
        "frequency off unreduced": [number(row["frequency_error"], ".1%") for row in rows],
    }


def _sizes(rows: list[dict[str, Any]]) -> Section:
    names = {
        "tets": "tets",
        "tet_vertices": "tet vertices",
        "surface_vertices": "surface vertices",
        "modes": "modes",
        "regions": "regions",
        "poses": "poses",
        "cubature_elastic": "cubature tets",
        "cubature_inertial": "cubature vertices",
    }
    found = {name: [f"{row[key]:,}" for row in rows] for key, name in names.items()}
    return found | {
        "model, MB": [f"{row['model_mb']:.1f}" for row in rows],
        "  paper's": [number(row["paper_mb"], ".1f") for row in rows],
    }


def number(value: float | None, digits: str) -> str:
    """Return a number as text, or a dash where there is none."""
    return "–" if value is None else format(value, digits)
