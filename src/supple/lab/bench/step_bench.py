"""`supple bench`: times of a step of four characters, the paper's times and a dense product.

Processes for one core and for all cores limit the threads of BLAS and Numba. A step includes the
rig, the dynamics and the surface (xu2016 Table 3). Any character engine can be timed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from supple.app.processes import with_cores
from supple.arrays import Floats
from supple.engines.engine import FIRST_ENGINE, engine_named
from supple.lab.bench.case_runner import (
    Cells,
    Row,
    check_model,
    check_steps,
    finished_row,
    print_columns,
    run_cases,
)
from supple.lab.bench.timing import (
    BREAKS,
    RATE,
    WARM_UP,
    back_and_forth,
    motion_of,
    time_steps,
    timed,
)
from supple.playback.character_models import scene_model_file
from supple.playback.character_sources import load_character_model
from supple.scenes.characters.character_scene import PAPERS, SCENES, scene

STEPS = 5_000
#: Number of characters in the crowd that is timed on two cores.
CROWD = 16
#: First keys of a row; None where an engine has no such number.
KEYS = (
    "scene", "tets", "tet_vertices", "surface_vertices", "modes", "regions", "poses",
    "cubature_elastic", "cubature_inertial", "step_ms", "step_ms_two_cores", "split_ms", "rig_ms",
    "limited_steps", "full_step_ms", "speedup", "dgemm256_ms", "step_in_dgemm", "model_mb",
    "paper_ms", "paper_speedup", "rms_vs_full", "frequency_error",
)  # fmt: skip


class _RigTimes:
    """Timer of the rig within each step; its overhead is below a microsecond per step.

    The rig is timed if the engine places tets and skin as pose-space does.
    """

    def __init__(self, simulator: Any) -> None:
        stepper: Any = getattr(simulator, "_stepper", None)
        self._rig: Any = getattr(stepper, "_placement", None)
        self.seconds = [0.0]
        if self._rig is not None:
            stepper._placement = self

    def place_tets(self, *arguments: Any) -> None:
        """Place the tets at the beginning of a step."""
        began = perf_counter()
        self._rig.place_tets(*arguments)
        self.seconds.append(perf_counter() - began)

    def place_surface(self, *arguments: Any) -> None:
        """Place the skin of the last step."""
        began = perf_counter()
        self._rig.place_surface(*arguments)
        self.seconds[-1] += perf_counter() - began

    def median(self, last: int) -> float | None:
        """Return the median seconds of a number of last steps; None if no rig is timed."""
        return None if self._rig is None else float(np.median(self.seconds[-last:]))


def measure(
    scenes: Sequence[str] = (),
    *,
    engine: str = FIRST_ENGINE,
    model: Path | None = None,
    steps: int = STEPS,
    fidelity: bool = False,
    quiet: bool = False,
) -> list[Row]:
    """Return a row for each scene, by default the four of xu2016, or for a .supple file `model`.

    `fidelity` adds comparisons of surfaces and frequencies with the unreduced simulation, which
    take minutes.
    """
    check_steps(steps)
    engine_named(engine, "character")
    names = checked_scenes(scenes, model)
    rows: list[Row] = []

    def add(function: Callable[..., Row], cores: int | None, *arguments: Any) -> None:
        if function is _one_core:
            rows.append({})
        rows[-1] |= with_cores(cores, function, *arguments)

    with model_files(names, engine, model, quiet) as paths:
        cases: list[tuple[str, Callable[[], None]]] = []
        for name, path in paths.items():
            cases += [
                (f"{name}, one core", partial(add, _one_core, 1, path, engine, steps)),
                (f"{name}, unreduced, all cores", partial(add, _all_cores, None, path)),
                (
                    f"{name}, two cores",
                    partial(add, _two_cores, 2, path, engine, max(steps // 10, 10)),
                ),
            ]
            if fidelity:
                cases.append((f"{name}, fidelity", partial(add, _fidelity, None, path, engine)))
        run_cases(cases, quiet=quiet)
    return [_finished(row) for row in rows]


def checked_scenes(scenes: Sequence[str], model: Path | None = None) -> list[str]:
    """Return the names without duplicates; by default xu2016's scenes, or none with a model."""
    check_model(scenes, model, "scenes")
    if model is not None:
        return []
    for name in scenes:
        if name not in SCENES:
            scene(name)  # raises an error that suggests the nearest name
    return list(dict.fromkeys(scenes)) or list(PAPERS["xu2016"])


@contextmanager
def model_files(
    names: Sequence[str], engine: str, model: Path | None, quiet: bool
) -> Iterator[dict[str, Path]]:
    """Yield the paths of models by name: of a given model, or of each scene."""
    if model is not None:
        yield {model.stem: model}
        return
    with ExitStack() as stack:
        files = {name: scene_model_file(name, engine=engine, quiet=quiet) for name in names}
        yield {name: stack.enter_context(file) for name, file in files.items()}


def measure_models(
    scenes: Sequence[str],
    engine: str,
    model: Path | None,
    function: Callable[..., Row],
    *,
    arguments: tuple[Any, ...],
    quiet: bool,
) -> list[Row]:
    """Call a function of a model file on one core, for each scene or one model; return the rows."""
    names = checked_scenes(scenes, model)
    with model_files(names, engine, model, quiet) as paths:
        return run_cases(
            [
                (name, partial(with_cores, 1, function, path, *arguments))
                for name, path in paths.items()
            ],
            quiet=quiet,
        )


def _loaded(path: Path, steps: int) -> tuple[Any, Floats, Floats]:
    """Return a model, and poses and roots of its motion for each step."""
    model = load_character_model(path)
    return model, *back_and_forth(motion_of(model), steps)


def _one_core(path: Path, engine: str, steps: int) -> Row:
    """Return the times and sizes that are measured on one core."""
    model, poses, roots = _loaded(path, steps + BREAKS)
    full = _FullSteps(model)
    simulator = engine_named(engine).simulate(model, 1 / RATE)
    rig = _RigTimes(simulator)
    times = time_steps(simulator, poses, roots, full)
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
    step, placing = 1e3 * np.median(times.whole), rig.median(len(poses))
    dense = 1e3 * np.median(times.products)
    return sizes | {
        "step_ms": _spread(times.whole),
        "split_ms": {
            name: 1e3 * np.median(seconds)
            for name, seconds in (times.parts | {"surface": times.surface}).items()
        },
        "rig_ms": None if placing is None else 1e3 * placing,
        "dgemm256_ms": dense,
        "step_in_dgemm": step / dense,
        "steps": steps,
        "motion": motion_of(model).name,
        "limited_steps": times.limited,
        "rms_vs_full": None,
        "frequency_error": None,
        "full_step_ms": 1e3 * np.median(times.beside),
        "step_cpu_ms": _spread(times.cpu),
        **_paper(model),
    }


def _spread(seconds: Floats) -> dict[str, float]:
    """Return median, 99th percentile and maximum, in ms."""
    return {
        "median": 1e3 * np.median(seconds),
        "p99": 1e3 * np.percentile(seconds, 99),
        "max": 1e3 * seconds.max(),
    }


class _FullSteps:
    """Unreduced simulation with one Newton iteration a step, as in the paper; a call is a step."""

    def __init__(self, model: Any) -> None:
        self.poses, self.roots = back_and_forth(motion_of(model), BREAKS + 3)
        self.simulator = engine_named("full").simulate(model, 1 / RATE)
        self.simulator.reset(self.poses[0], self.roots[0])
        self.out, self.taken = np.array(self.simulator.surface()), 0
        self()  # the first step analyses the matrix

    def __call__(self) -> None:
        at = self.taken % len(self.poses)
        self.simulator.step(self.poses[at], self.roots[at])
        self.simulator.surface(self.out)
        self.taken += 1


def _all_cores(path: Path) -> Row:
    model, _, _ = _loaded(path, 1)
    full = _FullSteps(model)
    seconds = [timed(full) for _ in range(BREAKS)]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"full_step_ms_all_cores": 1e3 * np.median(seconds), "cores": cores}


def _two_cores(path: Path, engine: str, steps: int) -> Row:
    """Time a character's step in a crowd on two cores, alternating with a crowd on one."""
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


def _fidelity(path: Path, engine: str) -> Row:
    """Compare the step with the converged unreduced simulation of the same motion."""
    from supple.lab.fidelity.fidelity import compare

    model = load_character_model(path)
    result = compare(model, motion_of(model), engine=engine)
    return {
        "rms_vs_full": result.rms,
        "frequency_error": result.frequency_error,
        "rms_same_step": result.rms_same_step,
        "truth_change": result.truth_change,
    }


def _paper(model: Any) -> Row:
    """Return the paper's numbers for a model of one of its scenes; all None for other models."""
    keys = {"paper_ms": "milliseconds", "paper_speedup": "speed_up", "paper_mb": "megabytes"}
    paper = None
    if model.name in SCENES:
        shown = scene(model.name)
        if len(shown.character.surface.vertices) == len(model.surface.vertices):
            paper = shown.paper
    return {key: getattr(paper, name, None) for key, name in keys.items()}


def _finished(row: Row) -> Row:
    """Return a row with the speed-up, `KEYS` first and rounded."""
    # Both are processor times: other processes interrupt long steps more often than short ones.
    row["speedup"] = row["full_step_ms"] / row["step_cpu_ms"]["median"]
    row["speedup_full_on_all_cores"] = row["full_step_ms_all_cores"] / row["step_ms"]["median"]
    return finished_row(row, KEYS, 5)


def table(rows: list[Row]) -> None:
    """Print a column for each scene: times, the paper's times, and sizes."""
    print_columns(
        rows,
        (_TIMES, _parts(rows), _FULL, _SIZES),
        "A whole step with its surface on one core, milliseconds",
        "dgemm: a 256³ product of float64 on the same core in the same run. Speed-up: over "
        "our unreduced step on one core. The paper's times are for eight threads at 2.9 GHz.",
        "scene",
    )


def _in(key: str, part: str) -> Callable[[Row], Any]:
    return lambda row: row[key][part]


_TIMES: Cells = {
    "step, median": (_in("step_ms", "median"), ".3f"),
    "step, p99": (_in("step_ms", "p99"), ".3f"),
    "step, max": (_in("step_ms", "max"), ".3f"),
    "  paper's": ("paper_ms", ".2f"),
    "dgemm": ("dgemm256_ms", ".3f"),
    "step in dgemm": ("step_in_dgemm", ".2f"),
    "step, in a crowd on two cores": ("step_ms_two_cores", ".3f"),
}
_FULL: Cells = {
    "unreduced step, one core": ("full_step_ms", ".1f"),
    "unreduced step, all cores": ("full_step_ms_all_cores", ".1f"),
    "speed-up": ("speedup", ".0f"),
    "  paper's": ("paper_speedup", ".0f"),
    "RMS error to unreduced, of its motion": ("rms_vs_full", ".3f"),
    "frequency error to unreduced": ("frequency_error", ".1%"),
}
_SIZES: Cells = {
    "tets": ("tets", ","),
    "tet vertices": ("tet_vertices", ","),
    "surface vertices": ("surface_vertices", ","),
    "modes": ("modes", ","),
    "regions": ("regions", ","),
    "poses": ("poses", ","),
    "cubature tets": ("cubature_elastic", ","),
    "cubature vertices": ("cubature_inertial", ","),
    "model, MB": ("model_mb", ".1f"),
    "  paper's": ("paper_mb", ".1f"),
}


def _parts(rows: list[Row]) -> Cells:
    names = {"core": "rest shapes and bases at the pose", "dynamics": "forces and solution"}
    parts = {names.get(part, part): (_in("split_ms", part), ".3f") for part in rows[0]["split_ms"]}
    return {
        **parts,
        "the rig, of all this": ("rig_ms", ".3f"),
        "steps in which a limit acted": ("limited_steps", ""),
    }
