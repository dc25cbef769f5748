"""`supple bench rig-space`: times of a step of free parameters, beside rig-space physics.

A step includes the rig, all sub-steps of 1/90 s and the skin, on one core. Rig-space physics (RSP,
Hahn et al. 2012) is timed with Jacobians by finite differences in every iteration, as in the
paper, and with analytic ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from supple.engines.engine import engine_of
from supple.engines.factory import build, load_model
from supple.errors import SuppleError
from supple.lab.bench.case_runner import (
    Cells,
    check_model,
    check_steps,
    finished_row,
    measure_cases,
    print_columns,
)
from supple.lab.bench.rig_space.free_cases import PAPER, PaperTimes, checked_cases, prepared_case
from supple.lab.bench.timing import BREAKS, RATE, back_and_forth, motion_of, time_steps

STEPS = 1_000
#: Number of timed steps of rig-space physics, by solver.
SLOW_STEPS = {"rsp": 8, "rsp-differences": 4}
#: Time in the motion at which rig-space physics is timed, when all parts swing.
SWINGING = 1.5
#: First keys of a row.
KEYS = (
    "case", "free", "tets", "modes", "cubature", "surface_vertices", "step_ms", "p99_over_median",
    "dgemm256_ms", "step_in_dgemm", "limited_steps", "build_s", "model_mb", "rsp_ms",
    "rsp_differences_ms", "speedup_over_rsp", "speedup_over_differences", "paper_ms",
    "paper_speedup",
)  # fmt: skip


def measure(
    cases: Sequence[str] = (), *, model: Path | None = None, steps: int = STEPS, quiet: bool = False
) -> list[dict[str, Any]]:
    """Return a row for each case, or for a model file with free parameters.

    Cases are names of `CASES`, scenes with free parameters or ``scene:group``; by default `CASES`
    and the paper's.
    """
    check_steps(steps)
    names = [model.stem] if model is not None else checked_cases(cases)
    check_model(cases, model)
    if model is not None and "free" not in engine_of(load_model(model)).build_options:
        raise SuppleError(f"{model}: has no free parameters; build it with --engine rig-space")
    rows = measure_cases(names, model, _built, partial(_one_core, steps=steps), quiet=quiet)
    return [_finished(row, PAPER.get(row["case"])) for row in rows]


def _built(name: str, path: Path) -> float:
    """Build the model of a case into a file; return the seconds."""
    case = prepared_case(name)
    return timed_build(case.character, case.options, path)


def timed_build(character: Any, options: dict[str, Any], path: Path) -> float:
    """Build a model into a file; return the seconds, without compilation."""
    from supple.lab.bench.rig_space.free_cases import made_belly

    small = made_belly(3, 200)  # compiles all kernels
    build(small.character, engine="rig-space", **small.options)
    began = perf_counter()
    model = build(character, engine="rig-space", **options)
    seconds = perf_counter() - began
    model.save(path)
    return seconds


def _one_core(path: Path, name: str, steps: int) -> dict[str, Any]:
    del name  # the model has its motion
    model: Any = load_model(path)
    row = dict(model.figures) | {"surface_vertices": len(model.surface.vertices)}
    row |= {"model_mb": path.stat().st_size / 1e6} | step_figures(model, steps)
    for solver, count in SLOW_STEPS.items():
        row[f"{solver.replace('-', '_')}_ms"] = 1e3 * _slow_step(model, solver, count)
    return row


def step_figures(model: Any, steps: int) -> dict[str, Any]:
    """Return times of steps of a model's first motion, in milliseconds and dense products."""
    poses, roots = back_and_forth(motion_of(model), steps + BREAKS)
    simulator = engine_of(model).simulate(model, 1 / RATE)
    times = time_steps(simulator, poses, roots)
    median, dense = float(np.median(times.whole)), float(np.median(times.products))
    return {
        "step_ms": 1e3 * median,
        "p99_over_median": float(np.percentile(times.whole, 99)) / median,
        "dgemm256_ms": 1e3 * dense,
        "step_in_dgemm": median / dense,
        "limited_steps": times.limited,
        "steps": steps,
    }


def _slow_step(model: Any, solver: str, count: int) -> float:
    """Return the median seconds of `count` steps of another solver from `SWINGING` on."""
    first = round(SWINGING * RATE)
    poses, roots = back_and_forth(motion_of(model), first + count + 1)
    simulator = engine_of(model).simulate(model, 1 / RATE, solver=solver)
    at = first - 1
    simulator.reset(poses[at], roots[at], before=(poses[at - 1], roots[at - 1]))
    simulator.step(poses[first], roots[first])  # the first step analyses the matrix
    out, seconds = np.array(simulator.surface()), []
    for pose, root in zip(poses[first + 1 :], roots[first + 1 :], strict=True):
        began = perf_counter()
        simulator.step(pose, root)
        simulator.surface(out)
        seconds.append(perf_counter() - began)
    return float(np.median(seconds))


def _finished(row: dict[str, Any], paper: PaperTimes | None) -> dict[str, Any]:
    """Return a row with speed-ups, `KEYS` first and rounded."""
    row["speedup_over_rsp"] = row["rsp_ms"] / row["step_ms"]
    row["speedup_over_differences"] = row["rsp_differences_ms"] / row["step_ms"]
    row["paper_ms"] = None if paper is None else 1e3 * paper.seconds
    row["paper_speedup"] = None if paper is None else paper.speed_up
    return finished_row(row, KEYS)


def table(rows: list[dict[str, Any]]) -> None:
    """Print a column for each case: times beside rig-space physics, and sizes."""
    print_columns(
        rows,
        _SECTIONS,
        "Rig-space: a whole step with its skin on one core, milliseconds",
        "dgemm: a 256³ product of float64 on the same core in the same run. RSP: rig-space "
        "physics (Hahn et al. 2012) with the same rig and tets, by finite differences as in the "
        "paper and with analytic Jacobians. The paper's: its fastest solver, four 2.8 GHz cores.",
    )


_SECTIONS: tuple[Cells, ...] = (
    {
        "step, median": ("step_ms", ".3f"),
        "  99th percentile to median": ("p99_over_median", ".2f"),
        "dgemm": ("dgemm256_ms", ".3f"),
        "step in dgemm": ("step_in_dgemm", ".2f"),
        "steps in which a limit acted": ("limited_steps", ""),
    },
    {
        "RSP, analytic": ("rsp_ms", ",.0f"),
        "RSP, finite differences": ("rsp_differences_ms", ",.0f"),
        "speed-up over analytic": ("speedup_over_rsp", ",.0f"),
        "speed-up over differences": ("speedup_over_differences", ",.0f"),
        "  paper's": ("paper_speedup", ",.0f"),
        "  paper's step": ("paper_ms", ",.0f"),
    },
    {
        "build, s": ("build_s", ".1f"),
        "free parameters": ("free", ","),
        "modes": ("modes", ","),
        "cubature tets": ("cubature", ","),
        "tets": ("tets", ","),
        "surface vertices": ("surface_vertices", ","),
        "model, MB": ("model_mb", ".1f"),
    },
)
