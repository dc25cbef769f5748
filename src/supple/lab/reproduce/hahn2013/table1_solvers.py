"""hahn2013 Table 1: five solvers of three characters, and ours."""

from __future__ import annotations

from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import numpy as np

from supple.arrays import Floats
from supple.lab.bench.timing import timed
from supple.lab.reproduce.hahn2013.takes import SUBJECTS, Subject, Take, Tell, model_of, played
from supple.linalg.blas import single_threaded
from supple.rig.placement.placement import placement


class _Printed(NamedTuple):
    seconds: float | None
    speed_up: float | None


#: Seconds a frame and speed-ups, as printed.
PAPER: dict[str, dict[str, _Printed]] = {
    "RSP": {
        "trunk": _Printed(7.24, 1),
        "belly": _Printed(46.5, 1),
        "sumo": _Printed(None, None),
    },
    "IV1, JE1": {
        "trunk": _Printed(0.37, 19),
        "belly": _Printed(0.53, 86),
        "sumo": _Printed(2.82, 1.0),
    },
    "IV1, JE2": {
        "trunk": _Printed(0.39, 18),
        "belly": _Printed(0.39, 118),
        "sumo": _Printed(2.48, 1.1),
    },
    "IV2, JE1": {
        "trunk": _Printed(0.12, 56),
        "belly": _Printed(0.27, 168),
        "sumo": _Printed(1.04, 2.7),
    },
    "IV2, JE2": {
        "trunk": _Printed(0.13, 53),
        "belly": _Printed(0.13, 348),
        "sumo": _Printed(0.58, 4.9),
    },
}
#: Steps of each: a stride, and the stomp. All of a motion is in fig. 3.
STEPS = {"trunk": 120, "belly": 120, "sumo": 60}
#: The paper's are with finite differences, as it has them.
SOLVERS = {
    "RSP": "rsp-differences",
    "IV1, JE1": "iv1-je1-differences",
    "IV1, JE2": "iv1-je2-differences",
    "IV2, JE1": "iv2-je1-differences",
    "IV2, JE2": "iv2-je2-differences",
    "IV2 with rest right, JE1": "iv2-offset-je1",
    "ours": "condensed",
}


def table1(folder: Path, *, quick: bool = False, tell: Tell) -> dict[str, Any]:
    """Time a step of every solver, and measure how far it is from rig-space physics."""
    found: dict[str, Any] = {"title": "hahn2013 Table 1: solvers in rig space"}
    names = ("trunk",) if quick else ("trunk", "belly", "sumo")
    rows: dict[str, list[dict[str, Any]]] = {}
    for at, name in enumerate(names):
        subject = SUBJECTS[name]
        tell(at / len(names), f"{name}: building")
        takes = {}
        for number, (row, solver) in enumerate(SOLVERS.items()):
            begun = at + number / len(SOLVERS)

            def part(done: float, begun: float = begun, text: str = f"{name}: {row}") -> None:
                tell((begun + done / len(SOLVERS)) / len(names), text)

            takes[row] = played(subject, solver, part, quick=quick, steps=STEPS[name])
        rows[name] = [_row(name, subject, row, takes) for row in SOLVERS]
        found[name] = rows[name]
        found[f"{name}_rig"] = _rig_cost(subject, takes["RSP"], takes["ours"], quick)
    found["message"] = _message(rows)
    found["note"] = (
        "Processor time of one core for a step of 0.01 s with rig and skin; a 256³ product of "
        f"float64 took {_dgemm_ms():.3g} ms in the same run. Errors of the skin against RSP, in % "
        "of the height: mean over vertices and steps, and the largest of all. The paper's rig was "
        "in another program, on four cores at 2.8 GHz."
    )
    return found


def _row(name: str, subject: Subject, row: str, takes: dict[str, Take]) -> dict[str, Any]:
    take, truth = takes[row], takes["RSP"]
    errors = take.errors(truth, subject.height)
    printed = PAPER.get(row, {}).get(name, _Printed(None, None))
    first = truth if name != "sumo" else takes["IV1, JE1"]  # the paper has no RSP of it
    return {
        "solver": row,
        "step_ms": {
            "ours": take.step_ms,
            "paper": None if printed.seconds is None else 1e3 * printed.seconds,
        },
        "speed_up": {"ours": first.step_ms / take.step_ms, "paper": printed.speed_up},
        "mean_error_percent": float(errors.mean.mean()),
        "largest_error_percent": float(errors.most.max()),
        "iterations": float(take.counts["iterations"].mean()),
        "limits": ", ".join(take.limits) or "none",
    }


def _rig_cost(subject: Subject, truth: Take, ours: Take, quick: bool) -> dict[str, Any]:
    """Return what rigs cost: RSP as printed also takes their second derivatives, by differences."""
    model = model_of(subject, quick)
    place, pose = placement(model.tet_rig), np.array(model.rig.rest_pose, np.float64)
    out: Floats = np.empty((len(model.mesh.vertices), 3))
    with single_threaded():
        once = min(timed(lambda: place.place(pose, out), process_time) for _ in range(20))
    k, iterations = len(model.entries), float(truth.counts["iterations"].mean())
    return {
        "free_parameters": k,
        "tets": len(model.mesh.tets),
        "surface_vertices": len(model.mesh.vertices) - len(model.interior),
        "interior_vertices": len(model.interior),
        "placement_ms": 1e3 * once,
        "second_differences_ms_a_step": 1e3 * once * 2 * k * k * iterations,
        "ours_to_RSP_with_those": (truth.step_ms + 1e3 * once * 2 * k * k * iterations)
        / ours.step_ms,
    }


def _dgemm_ms() -> float:
    a, b = np.random.default_rng(0).standard_normal((2, 256, 256))
    with single_threaded():
        return 1e3 * min(timed(lambda: np.dot(a, b), process_time) for _ in range(20))


def _message(rows: dict[str, list[dict[str, Any]]]) -> str:
    said = []
    for name, own in rows.items():
        by_name = {row["solver"]: row for row in own}
        ours, printed = by_name["ours"], by_name["IV2, JE2"]
        said.append(
            f"{name}: ours {ours['step_ms']['ours']:.3g} ms, {ours['speed_up']['ours']:.3g} times "
            f"as fast and {ours['mean_error_percent']:.2g} / {ours['largest_error_percent']:.2g} % "
            f"off; IV2 and JE2 as printed {printed['step_ms']['ours']:.3g} ms, "
            f"{printed['mean_error_percent']:.2g} / {printed['largest_error_percent']:.2g} % off"
        )
    return "; ".join(said) + "."
