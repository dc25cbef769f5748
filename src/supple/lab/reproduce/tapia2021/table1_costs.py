"""tapia2021 Table 1: times of a step, unreduced and reduced, with handles and modes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from supple.engines.soft_skeleton.model import SoftSkeletonModel
from supple.lab.bench.soft_skeleton.soft_bench import full_figures, layer_of, run_figures
from supple.lab.bench.soft_skeleton.soft_cases import pressed
from supple.lab.reproduce.tapia2021.soft_bodies import MODAL, SIZES, build_options, model_of
from supple.linalg.blas import single_threaded
from supple.progress import Progress
from supple.scenes.characters.character_scene import scene


class _Printed(NamedTuple):
    """Milliseconds of one row of the paper's Table 1."""

    force: float
    hessian: float
    solve: float
    step: float


#: Rows of Table 1: None for all tets, else the number of cubature points.
PAPER: dict[str, dict[int | None, _Printed]] = {
    "hand": {
        None: _Printed(1119, 2928, 6883, 10932),
        700: _Printed(1.01, 10.24, 0.51, 11.78),
        2000: _Printed(1.87, 16.4, 0.53, 18.82),
    },
    "human": {
        None: _Printed(882, 2401, 3947, 7233),
        500: _Printed(1.51, 7.16, 0.49, 9.17),
        1400: _Printed(1.99, 11.63, 0.47, 14.1),
    },
}
#: Frames per second of 261 modes on the hand (§5.4), by cubature points; 85 with handles.
PAPER_MODES = {700: 1.2, 2000: 0.9}
PAPER_HANDLES = 85
#: Numbers of tets of the paper's layers.
PAPER_TETS = {"hand": 88_716, "human": 41_585}
STEPS, MODAL_STEPS, QUICK_STEPS = 180, 20, 8


def table1(folder: Path, *, quick: bool = False, progress: Progress) -> dict[str, Any]:
    """Time a step with a pressed ball, its parts, and the parts with unreduced flesh."""
    del folder
    results: dict[str, Any] = {"title": "tapia2021 Table 1: the cost of a step"}
    summaries, names = [], ("hand",) if quick else tuple(PAPER)
    with single_threaded():
        for at, name in enumerate(names):
            report = _part(progress, at / len(names), 1 / len(names), name)
            rows = [_full_row(name, quick, report)]
            if not quick:
                rows.append(_full_row(name, quick, report, PAPER_TETS[name]))
            for count in [count for count in PAPER[name] if count is not None]:
                report(0.5, f"{count} points")
                rows.append(_row(f"{count} points", model_of(name, quick, cubature=count), quick))
                rows[-1] |= _beside(PAPER[name][count], rows[-1])
            results[name] = [_plain(row) for row in rows]
            few, many = rows[-2:]
            summaries.append(_summary(name, few, many))
            results[f"{name}_growth"] = _growth(name, few, many)
    results["message"] = "; ".join(summaries) + "."
    results["note"] = (
        "Processor milliseconds of one core; a step of 1/90 s with skin and a pressed ball. "
        f"A 256³ product of float64 took {few['dgemm256_ms']:.3g} ms. Force: that of the "
        "flesh; Hessian: the other terms. All tets: backward Euler, one Newton iteration, "
        "fixed bones, without skin and contact; with our number of tets and with the paper's. The "
        "paper's laptop: 2.6 GHz."
    )
    return results


def _part(progress: Progress, start: float, share: float, name: str) -> Progress:
    return lambda part, text: progress(start + share * part, f"{name}: {text}")


def _full_row(name: str, quick: bool, report: Progress, tets: int | None = None) -> dict[str, Any]:
    options = build_options(name, quick) | ({} if tets is None else {"tets": tets})
    report(0.0 if tets is None else 0.2, "all tets")
    layer = layer_of(scene(name).character, options)
    times = full_figures(layer)
    row = {
        "what": "all tets" if tets is None else "all tets, as many as the paper's",
        "coordinates": times["full_coordinates"],
        "tets": len(layer.mesh.tets),
        **{f"{key}_ms": times[f"full_{key}_ms"] for key in ("force", "hessian", "solve", "step")},
    }
    return row | _beside(PAPER[name][None], row)


def _row(name: str, model: SoftSkeletonModel, quick: bool, steps: int = STEPS) -> dict[str, Any]:
    times = run_figures(lambda: pressed(model), QUICK_STEPS if quick else steps)
    keys = ("force_ms", "hessian_ms", "solve_ms", "contact_ms", "skin_ms", "step_ms")
    row = {"what": name, "coordinates": times["coordinates"], "tets": len(model.flesh.volumes)}
    row |= {key: times[key] for key in keys}
    return row | {key: times[key] for key in ("step_in_dgemm", "dgemm256_ms", "contacts")}


def _beside(printed: _Printed, row: dict[str, Any]) -> dict[str, Any]:
    return {
        f"{key}_ms": {"ours": row[f"{key}_ms"], "paper": value}
        for key, value in printed._asdict().items()
    }


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key != "dgemm256_ms"}


def _growth(name: str, few: dict[str, Any], many: dict[str, Any]) -> dict[str, Any]:
    """Return the exponents of n in the times of force, Hessian and step for n points."""
    more = np.log(many["tets"] / max(few["tets"], 1)) or 1.0
    counts = [count for count in PAPER[name] if count is not None]
    theirs = np.log(counts[1] / counts[0])
    return {
        f"{key}_power": {
            who: float(np.log(many[f"{key}_ms"][who] / few[f"{key}_ms"][who]) / scale)
            for who, scale in (("ours", more), ("paper", theirs))
        }
        for key in ("force", "hessian", "step")
    }


def _summary(name: str, few: dict[str, Any], many: dict[str, Any]) -> str:
    return (
        f"{name}: {few['step_ms']['ours']:.3g} ms with {few['what']} "
        f"({few['step_in_dgemm']:.2g} dgemms; paper {few['step_ms']['paper']:.3g} ms), "
        f"{many['step_ms']['ours']:.3g} ms with {many['what']} "
        f"(paper {many['step_ms']['paper']:.3g})"
    )


def modes(folder: Path, *, quick: bool = False, progress: Progress) -> dict[str, Any]:
    """Time the hand with global modes at 700 and 2,000 points."""
    del folder
    rows = []
    with single_threaded():
        for at, (basis, count) in enumerate(
            [("handles", 700), *(("modal", count) for count in PAPER_MODES)]
        ):
            progress(at / 3, f"{basis}, {count} points")
            chosen, steps = (MODAL, MODAL_STEPS) if basis == "modal" else ({}, STEPS)
            model = model_of("hand", quick, cubature=count, **chosen)
            row = _row(f"{count} points", model, quick, steps)
            paper = PAPER_HANDLES if basis == "handles" else PAPER_MODES[count]
            rate = {"ours": 1e3 / row["step_ms"], "paper": paper}
            rows.append({"basis": basis} | _plain(row) | {"frames_per_second": rate})
            if quick and basis == "modal":
                break
    first, second = (row["frames_per_second"] for row in rows[:2])
    return {
        "title": "tapia2021 §5.4: the cost of modes",
        "message": f"{first['ours']:.3g} steps a second with {SIZES['hand'][0]} handles (paper "
        f"{first['paper']}), {second['ours']:.3g} with as many modes (paper {second['paper']}).",
        "rows": rows,
        "note": "Modes move all of the flesh, so that every point depends on every coordinate. "
        "Their cubature is the paper's.",
    }
