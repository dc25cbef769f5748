"""`supple bench soft-skeleton`: times of a step in contact, compared with the unreduced flesh.

A step includes joints, flesh, contact, all sub-steps of 1/90 s and the skin, on one core.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter
from types import SimpleNamespace
from typing import Any

import numpy as np

from supple.arrays import Singles
from supple.engines.factory import build
from supple.engines.full.full_body import FullBodySimulator
from supple.engines.soft_skeleton.bones.rig_bones import RigBones
from supple.engines.soft_skeleton.flesh.flesh_energy import add_flesh_terms
from supple.engines.soft_skeleton.flesh.soft_layer import FleshLayer, flesh_layer
from supple.engines.soft_skeleton.model import SoftSkeletonModel
from supple.engines.soft_skeleton.simulator import SoftSkeletonSimulator
from supple.lab.bench.case_runner import (
    Cells,
    check_model,
    check_steps,
    finished_row,
    measure_cases,
    print_columns,
)
from supple.lab.bench.rig_space_bench import made_belly
from supple.lab.bench.soft_skeleton.soft_cases import (
    PAPER,
    Run,
    checked_cases,
    prepared_case,
    touching,
    untouched,
)
from supple.lab.bench.timing import RATE, dense_product, processor_time, time_steps, timed
from supple.rig.character import Character

STEPS = 600
#: First keys of a row.
KEYS = (
    "case", "handles", "cubature", "coordinates", "step_ms", "dgemm256_ms", "step_in_dgemm",
    "p99_over_median", "full_step_ms", "speedup", "build_s",
)  # fmt: skip
#: Number of dense products in a measurement.
_PRODUCTS = 5


def measure(
    cases: Sequence[str] = (), *, model: Path | None = None, steps: int = STEPS, quiet: bool = False
) -> list[dict[str, Any]]:
    """Build and time soft skeletons, of `CASES` or files of bodies; return a row for each.

    A `model` file is timed without the unreduced flesh.
    """
    check_steps(steps)
    names = checked_cases(cases) if model is None else [model.stem]
    check_model(cases, model)
    if model is not None:
        SoftSkeletonModel.load(model)
    time = partial(_one_core, steps=steps, full=model is None)
    return [_finished(row) for row in measure_cases(names, model, _built, time, quiet=quiet)]


def _built(name: str, path: Path) -> float:
    return timed_build(*prepared_case(name), path)


def timed_build(character: Any, options: dict[str, Any], path: Path) -> float:
    """Build a model into a file; return the seconds, without compilation."""
    small = made_belly(1, 200).character  # compiles all kernels
    build(small, engine="soft-skeleton", tets=600, handles=6, cubature=40)
    began = perf_counter()
    model = build(character, engine="soft-skeleton", **options)
    seconds = perf_counter() - began
    model.save(path)
    return seconds


def _one_core(path: Path, name: str, steps: int, full: bool) -> dict[str, Any]:
    model = SoftSkeletonModel.load(path)
    row = dict(model.figures) | {"surface_vertices": len(model.surface.vertices)}
    row |= {"flesh_coordinates": row.pop("coordinates"), "model_mb": path.stat().st_size / 1e6}
    row |= run_figures(lambda: touching(model, name), steps)
    alone = run_figures(lambda: untouched(model, name), steps)
    keys = ("step_ms", "step_in_dgemm", "p99_over_median")
    row |= {f"untouched_{key}": alone[key] for key in keys}
    if full:
        row |= full_figures(layer_of(*prepared_case(name)))
    return row


def run_figures(make: Callable[[], Run], steps: int) -> dict[str, Any]:
    """Return times of a step of a run and of its parts, and numbers of contacts."""
    clocked = ClockedRun(make)
    multiply = dense_product()

    def products() -> None:
        for _ in range(_PRODUCTS):
            multiply()

    unused = np.zeros((steps, 1)), np.tile(np.eye(4), (steps, 1, 1))
    times = time_steps(clocked, *unused, products)
    clocked.reset()
    for _ in range(min(clocked.run.steps // 2, steps)):
        clocked.step()
    median, dense = float(np.median(times.cpu)), float(np.median(times.beside)) / _PRODUCTS
    parts = {part: 1e3 * float(np.median(times.parts[part])) for part in PARTS}
    parts["skin"] += 1e3 * float(np.median(times.surface))
    return {
        "coordinates": clocked.simulator.size,
        "step_ms": 1e3 * median,
        "dgemm256_ms": 1e3 * dense,
        "step_in_dgemm": median / dense,
        "p99_over_median": float(np.percentile(times.cpu, 99)) / median,
        "contacts": float(np.median(clocked.contacts)),
        "most_contacts": max(clocked.contacts),
        "iterations": float(np.mean(clocked.iterations)),
        "limited_steps": times.limited,
        "steps": steps,
    } | split_of(parts, 1e3 * median, 1e3 * force_seconds(clocked.simulator))


def split_of(parts: dict[str, float], whole: float, force: float) -> dict[str, float]:
    """Return milliseconds of force, Hessian, solution, contact, skin and the remainder.

    The Hessian's time is the system's time without the forces; it includes inertia and springs.
    """
    hessian = max(parts["system"] - force, 0.0)
    parts_total = force + hessian + parts["solve"] + parts["contact"] + parts["skin"]
    return {
        "force_ms": force,
        "hessian_ms": hessian,
        "solve_ms": parts["solve"],
        "contact_ms": parts["contact"],
        "skin_ms": parts["skin"],
        "other_ms": max(whole - parts_total, 0.0),
    }


def _finished(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with the paper's numbers, `KEYS` first and rounded."""
    row.setdefault("full_step_ms", None)
    full = row["full_step_ms"]
    row["speedup"] = None if full is None else full / row["step_ms"]
    paper = PAPER.get(row["case"])
    row["paper_ms"] = None if paper is None else paper.reduced
    row["paper_speedup"] = None if paper is None else paper.full / paper.reduced
    row["paper_coordinates"] = None if paper is None else paper.coordinates
    return finished_row(row, KEYS)


# Clocks inside a step


#: Objects and methods of the simulator for each part of a step.
PARTS = {
    "system": (("_system", "evaluate"),),
    "solve": (("_system", "advance"),),
    "contact": (
        ("_contact", "add"),
        ("_contact", "apply_change"),
        ("_contact", "mismatch"),
        ("_contact", "finish"),
        ("_contact", "readings"),
    ),
    "skin": (("_skin", "place"), ("_correction", "write")),
}


class ClockedRun:
    """Repeated run with a clock on each part of a step, for `time_steps`.

    `make` makes a run at every reset, as objects move.
    """

    def __init__(self, make: Callable[[], Run]) -> None:
        self._make = make
        self.contacts: list[int] = []
        self.iterations: list[int] = []
        self.reset()

    def reset(self, *_: Any) -> None:
        """Start a new run."""
        self.run, self._at = self._make(), 0
        self._seconds, self._inner = dict.fromkeys(PARTS, 0.0), [0.0]
        for part, calls in PARTS.items():
            for owner, method in calls:
                self._watch(part, getattr(self.simulator, owner), method)

    @property
    def simulator(self) -> SoftSkeletonSimulator:
        """Simulator of the run."""
        return self.run.simulator

    def _watch(self, part: str, owner: Any, method: str) -> None:
        """Make a method add its time to a part, and subtract it from the caller's part."""
        if owner is None:
            return
        function, seconds, inner = getattr(owner, method), self._seconds, self._inner

        def watched(*arguments: Any) -> Any:
            inner.append(0.0)
            began = processor_time()
            result = function(*arguments)
            took = processor_time() - began
            seconds[part] += took - inner.pop()
            inner[-1] += took
            return result

        setattr(owner, method, watched)

    def step(self, *_: Any) -> SimpleNamespace:
        """Take a step; return its limits and the seconds of its parts."""
        if self._at == self.run.steps:
            self.reset()
        self._at += 1
        self._seconds.update(dict.fromkeys(PARTS, 0.0))
        state = self.run.step(self._at)
        self.contacts.append(int(state.readings["contacts"]))
        self.iterations.append(int(state.readings["iterations"]))
        return SimpleNamespace(limits=state.limits, seconds=dict(self._seconds))

    def surface(self, out: Singles | None = None) -> Singles:
        """Return the skin."""
        return self.simulator.surface(out)


def force_seconds(simulator: SoftSkeletonSimulator, tries: int = 40) -> float:
    """Return the seconds of evaluating the flesh's forces in the current state."""
    model, phi = simulator.model, simulator.phi
    size = 3 + 3 * len(model.parents)
    gradient = np.zeros(size + len(phi))
    hessian = np.zeros((len(gradient), len(gradient)))

    def force() -> None:
        add_flesh_terms(model.material.code, 1.0, model.flesh, phi, size, gradient, hessian, 1)

    return float(np.median([timed(force, processor_time) for _ in range(tries)][5:]))


# All tets, without reduction


#: Number of timed steps of the unreduced flesh, after one that analyses the matrix.
FULL_STEPS = 4


def layer_of(character: Character, options: dict[str, Any]) -> FleshLayer:
    """Return the flesh that `supple.build` makes with these options."""
    chosen = options.get("anatomy", "auto")
    return flesh_layer(
        character,
        RigBones(character.rig),
        options.get("tets", 12_000),
        None if isinstance(chosen, str) else chosen,
        options.get("material"),
        options.get("skeleton"),
    )


def full_figures(layer: FleshLayer, steps: int = FULL_STEPS) -> dict[str, float]:
    """Return processor times of backward Euler with one Newton iteration on all tets, in ms.

    Bones are fixed, and there is neither skin nor contact: the step does less than a reduced one.
    """
    simulator = FullBodySimulator(
        layer.body, 1 / RATE, fixed=layer.held, alpha=0.5, beta=0.01, psd=True
    )
    simulator.step()
    rows = []
    for _ in range(steps):
        began, used = perf_counter(), processor_time()
        report = simulator.step()
        passed, total = perf_counter() - began, processor_time() - used
        at = simulator.positions
        force = timed(lambda at=at: layer.body.force(at), processor_time)  # type: ignore[misc]
        # The simulator reports wall-clock times of parts, which are scaled to processor time.
        solved = total * (report.seconds["factorise"] + report.seconds["solve"]) / passed
        rows.append((force, max(total - solved - force, 0.0), solved, total))
    force, hessian, solve, total = 1e3 * np.median(rows, axis=0)
    return {
        "full_force_ms": force,
        "full_hessian_ms": hessian,
        "full_solve_ms": solve,
        "full_step_ms": total,
        "full_coordinates": 3 * len(layer.free),
    }


def table(rows: list[dict[str, Any]]) -> None:
    """Print a column for each case: times, their parts, the unreduced flesh, and sizes."""
    print_columns(
        rows,
        _SECTIONS,
        "Soft skeletons: a whole step of 1/90 s with contact and skin on one core, ms",
        "dgemm: a 256³ product of float64 on the same core in the same run. All tets: "
        "backward Euler with one Newton iteration on every tet of the same flesh, bone held, "
        "without contact and skin. The paper's: a 2.6 GHz laptop.",
    )


_SECTIONS: tuple[Cells, ...] = (
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
