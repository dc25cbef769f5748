"""`supple bench soft-skeleton`: times of a step that touches things, beside all of its tets.

A step is whole: joints, flesh, contact, all sub-steps of 1/90 s and skin, on one core.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from supple.engines.factory import build
from supple.engines.soft_skeleton.model import SoftSkeletonModel
from supple.lab.bench.bench_runs import (
    Section,
    case_table,
    check_model,
    check_steps,
    finished_row,
    measure_cases,
)
from supple.lab.bench.rig_space.free_cases import made_belly
from supple.lab.bench.soft_skeleton.full_flesh import full_figures, layer_of
from supple.lab.bench.soft_skeleton.soft_cases import (
    PAPER,
    Run,
    checked_cases,
    prepared_case,
    touching,
    untouched,
)
from supple.lab.bench.soft_skeleton.step_clock import PARTS, ClockedRun, force_seconds
from supple.lab.bench.timing import DGEMM_SIZE, time_steps

STEPS = 600
#: Keys that a row has first, whatever else it has.
KEYS = (
    "case",
    "handles",
    "cubature",
    "coordinates",
    "step_ms",
    "dgemm256_ms",
    "step_in_dgemm",
    "p99_over_median",
    "full_step_ms",
    "speedup",
    "build_s",
)
#: Dense products at a time.
_PRODUCTS = 5


def measure(
    cases: Sequence[str] = (),
    *,
    model: Path | None = None,
    steps: int = STEPS,
    quiet: bool = False,
) -> list[dict[str, Any]]:
    """Build and time soft skeletons; return a row for each.

    Parameters
    ----------
    cases
        Names of `CASES`, or files of bodies; by default the former.
    model
        A .supple file to time instead; it is not built, and its tets are not known.
    steps
        Steps to time with contact, and without.
    quiet
        Show no progress.
    """
    check_steps(steps)
    names = checked_cases(cases) if model is None else [model.stem]
    check_model(cases, model)
    if model is not None:
        SoftSkeletonModel.load(model)
    timed = partial(_one_core, steps=steps, known=model is None)
    return [_finished(row) for row in measure_cases(names, model, _built, timed, quiet=quiet)]


def _built(name: str, path: Path) -> float:
    return timed_build(*prepared_case(name), path)


def timed_build(character: Any, options: dict[str, Any], path: Path) -> float:
    """Build a model into a file; return the seconds that it took, compiling apart."""
    small = made_belly(1, 200).character  # what is compiled for the first time is compiled now
    build(small, engine="soft-skeleton", tets=600, handles=6, cubature=40)
    began = perf_counter()
    model = build(character, engine="soft-skeleton", **options)
    seconds = perf_counter() - began
    model.save(path)
    return seconds


def _one_core(path: Path, name: str, steps: int, known: bool) -> dict[str, Any]:
    model = SoftSkeletonModel.load(path)
    row = dict(model.figures) | {"surface_vertices": len(model.surface.vertices)}
    row |= {"flesh_coordinates": row.pop("coordinates"), "model_mb": path.stat().st_size / 1e6}
    row |= run_figures(lambda: touching(model, name), steps)
    alone = run_figures(lambda: untouched(model, name), steps)
    kept = ("step_ms", "step_in_dgemm", "p99_over_median")
    row |= {f"untouched_{key}": alone[key] for key in kept}
    if known:
        row |= full_figures(layer_of(*prepared_case(name)))
    return row


def run_figures(make: Callable[[], Run], steps: int) -> dict[str, Any]:
    """Time a run: a step in milliseconds and in dense products, its parts, and contacts."""
    clocked = ClockedRun(make)
    multiply = _products()
    nothing = np.zeros((steps, 1)), np.tile(np.eye(4), (steps, 1, 1))
    found = time_steps(clocked, *nothing, multiply)
    clocked.reset()
    for _ in range(min(clocked.run.steps // 2, steps)):
        clocked.step()
    median, dense = float(np.median(found.cpu)), float(np.median(found.beside)) / _PRODUCTS
    parts = {part: 1e3 * float(np.median(found.parts[part])) for part in PARTS}
    parts["skin"] += 1e3 * float(np.median(found.surface))
    return {
        "coordinates": clocked.simulator.size,
        "step_ms": 1e3 * median,
        "dgemm256_ms": 1e3 * dense,
        "step_in_dgemm": median / dense,
        "p99_over_median": float(np.percentile(found.cpu, 99)) / median,
        "contacts": float(np.median(clocked.contacts)),
        "most_contacts": max(clocked.contacts),
        "iterations": float(np.mean(clocked.iterations)),
        "limited_steps": found.limited,
        "steps": steps,
    } | split_of(parts, 1e3 * median, 1e3 * force_seconds(clocked.simulator))


def split_of(parts: dict[str, float], whole: float, force: float) -> dict[str, float]:
    """Return milliseconds of force, Hessian, solution, contact, skin, and what is left.

    Forces and their Hessian are evaluated together: the former are timed alone, and what is left of
    the system counts as the latter, with the inertia of points and the springs of joints.
    """
    hessian = max(parts["system"] - force, 0.0)
    known = force + hessian + parts["solve"] + parts["contact"] + parts["skin"]
    return {
        "force_ms": force,
        "hessian_ms": hessian,
        "solve_ms": parts["solve"],
        "contact_ms": parts["contact"],
        "skin_ms": parts["skin"],
        "other_ms": max(whole - known, 0.0),
    }


def _products() -> Callable[[], None]:
    a, b = np.random.default_rng(0).random((2, DGEMM_SIZE, DGEMM_SIZE))
    out = np.empty_like(a)

    def multiply() -> None:
        for _ in range(_PRODUCTS):
            np.dot(a, b, out=out)

    return multiply


def _finished(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with the paper's beside it, `KEYS` first, and no digits that mean nothing."""
    row.setdefault("full_step_ms", None)
    full = row["full_step_ms"]
    row["speedup"] = None if full is None else full / row["step_ms"]
    paper = PAPER.get(row["case"])
    row["paper_ms"] = None if paper is None else paper.reduced
    row["paper_speedup"] = None if paper is None else paper.full / paper.reduced
    row["paper_coordinates"] = None if paper is None else paper.coordinates
    return finished_row(row, KEYS)


def table(rows: list[dict[str, Any]]) -> None:
    """Print a column for each case: times, their parts, all tets beside them, and sizes."""
    case_table(
        rows,
        _SECTIONS,
        "Soft skeletons: a whole step of 1/90 s with contact and skin on one core, ms",
        "dgemm: a 256³ product of float64 on the same core in the same run. All tets: "
        "backward Euler with one Newton iteration on every tet of the same flesh, bone held, "
        "without contact and skin. The paper's: a laptop of 2.6 GHz.",
    )


#: Lines of the table: key of the row, and how its numbers look.
_SECTIONS: tuple[Section, ...] = (
    {
        "step, median": ("step_ms", ".2f"),
        "  99th percentile to median": ("p99_over_median", ".2f"),
        "dgemm": ("dgemm256_ms", ".3f"),
        "step in dgemm": ("step_in_dgemm", ".2f"),
        "  touching nothing": ("untouched_step_in_dgemm", ".2f"),
        "steps in which a limit acted": ("limited_steps", ""),
    },
    {
        "force": ("force_ms", ".3f"),
        "Hessian": ("hessian_ms", ".3f"),
        "solution": ("solve_ms", ".3f"),
        "contact": ("contact_ms", ".3f"),
        "skin": ("skin_ms", ".3f"),
        "other": ("other_ms", ".3f"),
    },
    {
        "all tets, a step": ("full_step_ms", ",.0f"),
        "speed-up": ("speedup", ",.0f"),
        "  paper's": ("paper_speedup", ",.0f"),
        "  paper's step": ("paper_ms", ".1f"),
    },
    {
        "build, s": ("build_s", ".1f"),
        "coordinates": ("coordinates", ","),
        "  all tets": ("full_coordinates", ","),
        "handles": ("handles", ","),
        "cubature tets": ("cubature", ","),
        "points of mass": ("points", ","),
        "contacts, median": ("contacts", ".0f"),
        "  most": ("most_contacts", ","),
        "iterations": ("iterations", ".2f"),
        "tets": ("tets", ","),
        "surface vertices": ("surface_vertices", ","),
        "model, MB": ("model_mb", ".1f"),
    },
)
