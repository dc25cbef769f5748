"""hahn2013 Table 1 and §5: costs and errors of solvers, and deferred Jacobian updates."""

from __future__ import annotations

from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from supple.app.pictures.drawing import INK, plain_axes, save_picture
from supple.arrays import Floats
from supple.lab.bench.timing import dense_product, timed
from supple.lab.reproduce.figures import new_figure, part_of
from supple.lab.reproduce.hahn2013.takes import STEP, SUBJECTS, Subject, Take, model_of, played
from supple.linalg.blas import single_threaded
from supple.progress import Progress
from supple.rig.placement.placement import placement


class _Printed(NamedTuple):
    seconds: float | None
    speed_up: float | None


#: Seconds a frame and speed-ups, as printed, by solver and by subject.
PAPER: dict[str, dict[str, _Printed]] = {
    solver: {
        name: _Printed(*pair) for name, pair in zip(("trunk", "belly", "sumo"), row, strict=True)
    }
    for solver, row in {
        "RSP": ((7.24, 1), (46.5, 1), (None, None)),
        "IV1, JE1": ((0.37, 19), (0.53, 86), (2.82, 1.0)),
        "IV1, JE2": ((0.39, 18), (0.39, 118), (2.48, 1.1)),
        "IV2, JE1": ((0.12, 56), (0.27, 168), (1.04, 2.7)),
        "IV2, JE2": ((0.13, 53), (0.13, 348), (0.58, 4.9)),
    }.items()
}
#: Numbers of steps: a stride, and the stomp; fig. 3 has whole motions.
STEPS = {"trunk": 120, "belly": 120, "sumo": 60}
#: The paper's solvers use finite differences, as in the paper.
SOLVERS = {
    "RSP": "rsp-differences",
    "IV1, JE1": "iv1-je1-differences",
    "IV1, JE2": "iv1-je2-differences",
    "IV2, JE1": "iv2-je1-differences",
    "IV2, JE2": "iv2-je2-differences",
    "IV2 with rest offset, JE1": "iv2-offset-je1",
    "ours": "condensed",
    "ours, a rig without derivatives": "condensed-differences",
}
#: Solver with second derivatives of the rig, as RSP is printed, and its number of steps; cost of a
#: call of a costly rig in ms, such as a rig of another program.
SECOND, SECOND_STEPS, CALL_MS = "RSP, second derivatives", 3, 2.0


def table1(folder: Path, *, quick: bool = False, progress: Progress) -> dict[str, Any]:
    """Time a step of every solver, and measure its error against rig-space physics."""
    results: dict[str, Any] = {"title": "hahn2013 Table 1: solvers in rig space"}
    names = ("trunk",) if quick else ("trunk", "belly", "sumo")
    rows: dict[str, list[dict[str, Any]]] = {}
    for at, name in enumerate(names):
        subject = SUBJECTS[name]
        progress(at / len(names), f"{name}: building")
        takes = {}
        for number, (row, solver) in enumerate(SOLVERS.items()):
            share = 1 / len(names) / len(SOLVERS)
            report = part_of(progress, at / len(names) + share * number, share, f"{name}: {row}")
            takes[row] = played(subject, solver, report, quick=quick, steps=STEPS[name])
        if name != "sumo":
            progress((at + 0.99) / len(names), f"{name}: {SECOND}")
            takes[SECOND] = played(
                subject, "rsp-second", lambda part: None, quick=quick, steps=SECOND_STEPS
            )
        rows[name] = [_row(name, subject, row, takes) for row in takes]
        results[name] = rows[name]
        results[f"{name}_rig"] = _rig_cost(subject, takes["RSP"], takes["ours"], quick)
    results["message"] = _message(rows)
    results["note"] = (
        "Processor time of one core for a step of 0.01 s with rig and skin; a 256³ product of "
        f"float64 took {_dgemm_ms():.3g} ms in the same run. Errors of the skin against RSP, in % "
        "of the height: mean over vertices and steps, and the largest of all. The paper's rig ran "
        "in another program, on four cores at 2.8 GHz: costly_rig adds 2 ms for each call of the "
        f"rig; its speed-up is over {SECOND_STEPS} steps of RSP with second derivatives (wrestler: "
        "IV1, JE1)."
    )
    return results


def _row(name: str, subject: Subject, row: str, takes: dict[str, Take]) -> dict[str, Any]:
    take, truth = takes[row], takes["RSP"]
    errors = take.errors(truth, subject.height)
    printed = PAPER.get(row, {}).get(name, _Printed(None, None))
    first = truth if name != "sumo" else takes["IV1, JE1"]  # the paper has no RSP for it
    costly, slowest = take.costly_ms(CALL_MS), takes.get(SECOND, first).costly_ms(CALL_MS)
    return {
        "solver": row,
        "step_ms": {
            "ours": take.step_ms,
            "paper": None if printed.seconds is None else 1e3 * printed.seconds,
        },
        "speed_up": {"ours": first.step_ms / take.step_ms, "paper": printed.speed_up},
        "rig_calls": take.rig_calls,
        "costly_rig": {"step_ms": costly, "speed_up": slowest / costly},
        "mean_error_percent": float(errors.mean.mean()),
        "largest_error_percent": float(errors.largest.max()),
        "iterations": float(take.counts["iterations"].mean()),
        "limits": ", ".join(take.limits) or "none",
    }


def _rig_cost(subject: Subject, truth: Take, ours: Take, quick: bool) -> dict[str, Any]:
    """Return costs of the rig, also of the second differences that the printed RSP needs."""
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
    multiply = dense_product()
    with single_threaded():
        return 1e3 * min(timed(multiply, process_time) for _ in range(20))


def _errors(row: dict[str, Any]) -> str:
    return f"error {row['mean_error_percent']:.2g} / {row['largest_error_percent']:.2g} %"


def _message(rows: dict[str, list[dict[str, Any]]]) -> str:
    parts = []
    for name, of_subject in rows.items():
        by_name = {row["solver"]: row for row in of_subject}
        ours, printed = by_name["ours"], by_name["IV2, JE2"]
        parts.append(
            f"{name}: ours {ours['step_ms']['ours']:.3g} ms, {ours['speed_up']['ours']:.3g} times "
            f"as fast, {_errors(ours)}; IV2, JE2 as printed {printed['step_ms']['ours']:.3g} ms, "
            f"{_errors(printed)}"
        )
    return "; ".join(parts) + "."


#: Solvers by name, and the paper's updates and repeated steps of 360 for its trunk.
DEFERRED = {
    "IV2, with the predictor": ("iv2-je2", 280, None),
    "IV2, without": ("iv2-je2-unpredicted", None, 281),
    "IV2, the predictor as printed": ("iv2-je2-printed", None, None),
    "IV1, with the predictor": ("iv1-je2", None, None),
    "IV1, without": ("iv1-je2-unpredicted", None, None),
}


def jacobian_updates(folder: Path, *, quick: bool = False, progress: Progress) -> dict[str, Any]:
    """Count Jacobians and repeated steps of trunk and belly in the walk."""
    results: dict[str, Any] = {"title": "hahn2013 §5: deferred Jacobians and roll-backs"}
    parts = ("trunk",) if quick else ("trunk", "belly")
    takes: dict[str, Take] = {}
    for at, part in enumerate(parts):
        solvers = DEFERRED if part == "trunk" and not quick else dict(list(DEFERRED.items())[:2])
        rows = []
        for number, (name, (solver, updates, repeated)) in enumerate(solvers.items()):
            label, share = f"{part}: {name}", 1 / len(parts)
            report = part_of(
                progress, share * (at + number / len(solvers)), share / len(DEFERRED), label
            )
            take = takes[label] = played(SUBJECTS[part], solver, report, quick=quick)
            of_trunk = part == "trunk"
            rows.append(
                {
                    "solver": name,
                    "steps": len(take.milliseconds),
                    "updates": {
                        "ours": int((take.counts["jacobians"] > 0).sum()),
                        "paper": updates if of_trunk else None,
                    },
                    "repeated": {
                        "ours": int(take.counts["rollbacks"].sum()),
                        "paper": repeated if of_trunk else None,
                    },
                    "step_ms": take.step_ms,
                }
            )
        results[part] = rows
    bounds = BOUNDS[:2] if quick else BOUNDS
    results["trunk_by_bound"] = [_by_bound(bound, quick, progress) for bound in bounds]
    save_picture(_updates_picture(takes), folder / "hahn2013-jacobians.png")
    trunk = {row["solver"]: row for row in results["trunk"]}
    first, second = (trunk[f"IV2, with{rest}"] for rest in (" the predictor", "out"))
    results["message"] = (
        f"Of {first['steps']} steps of the trunk, {first['updates']['ours']} updated the Jacobian "
        f"with the predictor, and {first['repeated']['ours']} were repeated; without it "
        f"{second['repeated']['ours']} were; "
        + ", ".join(
            f"{row['updated_percent']:.0f} % and {row['repeated_percent']:.0f} % with a bound of "
            f"{row['bound']:g}"
            for row in results["trunk_by_bound"]
        )
        + " (paper: 280 updates of 360, 78 %, and 281 repeated, 78 %)."
    )
    results["note"] = (
        "The Jacobian is updated when the rig's nonlinearity in a step exceeds 1e-4 J/kg (eq. 7 "
        "with 1/(2h²)). The paper's predictor has 1/h, which predicts a hundred steps ahead."
    )
    return results


#: Bounds of the rig's nonlinearity in J/kg; the paper gives none.
BOUNDS = (1e-4, 1e-5, 1e-6, 1e-7)


def _by_bound(bound: float, quick: bool, progress: Progress) -> dict[str, Any]:
    """Count updates with the predictor, and repeated steps without it, for a bound in J/kg."""
    share: dict[str, float] = {}
    for name, solver in (("updated", "iv2-je2"), ("repeated", "iv2-je2-unpredicted")):
        report = part_of(progress, 0.9, 0.0, f"trunk: bound {bound:g}, {name}")
        take = played(SUBJECTS["trunk"], solver, report, quick=quick, deferral=bound)
        counts = take.counts["jacobians" if name == "updated" else "rollbacks"]
        share[f"{name}_percent"] = 100 * float((counts > 0).mean())
    return {"bound": bound, **share}


def _updates_picture(takes: dict[str, Take]) -> Figure:
    """Draw a line for each solver, with a tick for an update and a dot for a repeated step."""
    figure = new_figure((9.0, 0.9 + 0.36 * len(takes)))
    axes = figure.subplots()
    for row, take in enumerate(takes.values()):
        times = STEP * np.arange(1, len(take.milliseconds) + 1)
        updated = times[take.counts["jacobians"] > 0]
        repeated = times[take.counts["rollbacks"] > 0]
        axes.vlines(updated, row - 0.32, row + 0.32, color="#3d7ab8", lw=0.9)
        axes.plot(repeated, np.full(len(repeated), row), ".", color="#c8453b", ms=4)
    axes.set_yticks(range(len(takes)), list(takes), fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel("seconds of the walk; blue: updated Jacobian, red: repeated step", color=INK)
    plain_axes(axes)
    return figure
