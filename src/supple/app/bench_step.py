"""`supple bench`: what a step of the four characters costs, beside the paper's and a dense product.

Times of one core are taken in a process whose BLAS and Numba have one thread, those of all cores
in another. A step is whole: the rig, the reduced dynamics and the surface (xu2016 Table 3).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.app.bench_motion import RATE, back_and_forth, motion_of
from supple.app.own_process import with_cores
from supple.app.progress import first_use_message, progress_bar
from supple.errors import SuppleError

__all__ = ["DGEMM_SIZE", "KEYS", "STEPS", "Timings", "checked_scenes", "measure", "time_steps"]

Floats = NDArray[np.float64]

STEPS, FULL_STEPS, WARM_UP = 5_000, 20, 60
DGEMM_SIZE = 256
#: A product leaves nothing of the step in the caches; so rarely that p99 does not see it.
_STEPS_BETWEEN_PRODUCTS, _PRODUCTS = 500, 5
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


@dataclass(frozen=True)
class Timings:
    """Seconds of steps, one by one.

    Attributes
    ----------
    whole, core, dynamics, surface
        (k,) of a step with its surface, and of its parts: poses and bases; forces and the
        solution; the skin.
    products
        (j,) of 256³ products of float64, taken in between.
    limited
        Steps in which a limit acted.
    """

    whole: Floats
    core: Floats
    dynamics: Floats
    surface: Floats
    products: Floats
    limited: int


def measure(
    scenes: Sequence[str] = (),
    *,
    model: Path | None = None,
    steps: int = STEPS,
    full_steps: int = FULL_STEPS,
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
    steps, full_steps
        How many are timed, of the reduced simulator and of the unreduced one.
    fidelity
        Also compare surfaces and frequencies with the unreduced simulator, for minutes.
    quiet
        Show no progress.
    """
    if not 10 <= steps <= 1_000_000:
        raise SuppleError(f"{steps:,} steps; choose between 10 and 1,000,000")
    names = checked_scenes(scenes, model)
    first_use_message(quiet)
    rows = []
    with _files(names, model, quiet) as paths, progress_bar(quiet) as progress:
        task = progress.add_task("measuring", total=(4 if fidelity else 3) * len(paths))
        for path in paths:
            shown = path.stem if model is not None else names[len(rows)]
            progress.update(task, description=f"{shown}, one core")
            row = with_cores(1, _one_core, path, steps, full_steps)
            progress.advance(task)
            progress.update(task, description=f"{shown}, unreduced, all cores")
            row |= with_cores(None, _all_cores, path, full_steps)
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
    from supple.scenes import SCENES, scene

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


def time_steps(simulator: Any, poses: Floats, roots: Floats, *, products: bool = True) -> Timings:
    """Steps along the poses, each with its surface, after a few that are not counted.

    Parameters
    ----------
    simulator
        `Simulator` or `FullSimulator`.
    poses, roots
        (k, s), (k, 4, 4) one for each step.
    products
        Whether dense products are timed in between.
    """
    rng = np.random.default_rng(0)
    a, b = rng.random((2, DGEMM_SIZE, DGEMM_SIZE))
    product = np.empty_like(a)
    simulator.reset(poses[0], roots[0])
    out = np.array(simulator.surface())
    for pose, root in zip(poses[:WARM_UP], roots, strict=False):
        simulator.step(pose, root)
        simulator.surface(out)
    np.dot(a, b, out=product)
    simulator.reset(poses[0], roots[0])
    seconds, dense, limited = np.empty((4, len(poses))), [], 0
    for k, (pose, root) in enumerate(zip(poses, roots, strict=True)):
        if products and k % _STEPS_BETWEEN_PRODUCTS == 0:
            for _ in range(_PRODUCTS):
                began = perf_counter()
                np.dot(a, b, out=product)
                dense.append(perf_counter() - began)
        began = perf_counter()
        state = simulator.step(pose, root)
        stepped = perf_counter()
        simulator.surface(out)
        ended = perf_counter()
        parts = getattr(state, "seconds", {})
        seconds[0, k], seconds[3, k] = ended - began, ended - stepped
        seconds[1, k], seconds[2, k] = parts.get("core", np.nan), parts.get("dynamics", np.nan)
        limited += bool(getattr(state, "limits", ()))
    return Timings(*seconds, products=np.array(dense), limited=limited)


def _loaded(path: Path, steps: int) -> tuple[Any, Floats, Floats]:
    """The model, and its motion for so many steps."""
    from supple.reduction.model import PoseSpaceModel

    model = PoseSpaceModel.load(path)
    return model, *back_and_forth(motion_of(model), steps)


def _one_core(path: Path, steps: int, full_steps: int) -> dict[str, Any]:
    from supple.dynamics import Simulator

    model, poses, roots = _loaded(path, steps)
    timed = time_steps(Simulator(model, 1 / RATE), poses, roots)
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
    step = 1e3 * np.median(timed.whole)
    dense = 1e3 * np.median(timed.products)
    return sizes | {
        "step_ms": {
            "median": step,
            "p99": 1e3 * np.percentile(timed.whole, 99),
            "max": 1e3 * timed.whole.max(),
        },
        "split_ms": {
            "core": 1e3 * np.median(timed.core),
            "dynamics": 1e3 * np.median(timed.dynamics),
            "surface": 1e3 * np.median(timed.surface),
        },
        "dgemm256_ms": dense,
        "step_in_dgemm": step / dense,
        "steps": steps,
        "motion": motion_of(model).name,
        "limited_steps": timed.limited,
        "rms_vs_full": None,
        "frequency_error": None,
        "full_step_ms": _full_step(model, full_steps),
        **_paper(model),
    }


def _full_step(model: Any, steps: int) -> float:
    """Milliseconds of a step without reduction, one Newton iteration as in the paper."""
    from supple.dynamics import FullSimulator

    poses, roots = back_and_forth(motion_of(model), steps + 3)
    simulator = FullSimulator(model, 1 / RATE)
    simulator.reset(poses[0], roots[0])
    out, seconds = np.array(simulator.surface()), []
    for pose, root in zip(poses, roots, strict=True):
        began = perf_counter()
        simulator.step(pose, root)
        simulator.surface(out)
        seconds.append(perf_counter() - began)
    return 1e3 * float(np.median(seconds[3:]))


def _all_cores(path: Path, full_steps: int) -> dict[str, Any]:
    model, _, _ = _loaded(path, 1)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"full_step_ms_all_cores": _full_step(model, full_steps), "cores": cores}


def _two_cores(path: Path, steps: int) -> dict[str, Any]:
    """Two characters side by side: the time of a step of each."""
    from supple import dynamics

    crowd_class = getattr(dynamics, "Crowd", None)
    if crowd_class is None:
        return {"step_ms_two_cores": None}
    raise NotImplementedError


def _fidelity(path: Path) -> dict[str, Any]:
    raise NotImplementedError


def _paper(model: Any) -> dict[str, Any]:
    """The paper's row, if this is the scene it belongs to."""
    from supple.scenes import SCENES, scene

    found = {"paper_ms": None, "paper_speedup": None, "paper_mb": None}
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
    step = row["step_ms"]["median"]
    row["speedup"] = row["full_step_ms"] / step
    row["speedup_full_on_all_cores"] = row["full_step_ms_all_cores"] / step
    ordered = {key: row[key] for key in KEYS} | row
    return {key: _rounded(value) for key, value in ordered.items()}


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    if isinstance(value, float | np.floating):
        return None if np.isnan(value) else float(f"{value:.5g}")
    return value
