"""`supple bench reduction`: how builds grow with the mesh, and what contact costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from supple.app.bench_elastic import in_own_process
from supple.app.contact_modes import CONTACT_POSES, contact_mode_times
from supple.app.memory import peak_megabytes
from supple.app.progress import first_use_message, progress_bar
from supple.errors import SuppleError

__all__ = ["CONTACT_POSES", "DEFAULT_SIZES", "measure", "table"]

DEFAULT_SIZES = (16_000, 32_000, 64_000, 128_000)
MODES = 20


def measure(
    sizes: Sequence[int] = DEFAULT_SIZES, *, scene: str = "gorilla", quiet: bool = False
) -> dict[str, Any]:
    """Builds of a scene at several numbers of tets, and constrained modes beside free ones."""
    for size in sizes:
        if not 1_000 <= size <= 500_000:
            raise SuppleError(f"{size:,} tets; choose between 1,000 and 500,000")
    first_use_message(quiet)
    growth, contact = [], []
    with progress_bar(quiet) as progress:
        task = progress.add_task("measuring", total=len(sizes) + len(CONTACT_POSES))
        for name in CONTACT_POSES:
            progress.update(task, description=f"{name}, modes in contact")
            contact.append(_contact_row(name, in_own_process(_contact_times, name)))
            progress.advance(task)
        for size in sizes:
            progress.update(task, description=f"{scene}, {size:,} tets")
            growth.append(in_own_process(_growth_row, (scene, size)))
            progress.advance(task)
    return {"contact": contact, "growth": growth, "exponent": _exponent(growth)}


def _exponent(rows: list[dict[str, Any]]) -> float | None:
    """Slope of log time over log tets."""
    if len(rows) < 2:
        return None
    tets, seconds = (np.log([row[key] for row in rows]) for key in ("tets", "seconds"))
    return round(float(np.polyfit(tets, seconds, 1)[0]), 3)


def _growth_row(case: tuple[str, int]) -> dict[str, Any]:
    from supple.reduction import BuildLog, build
    from supple.scenes import scene

    name, size = case
    shown, log = scene(name), BuildLog()
    model = build(shown.character, **(shown.recipe() | {"tets": size}), log=log)
    return {
        "scene": name,
        "tets": model.report["tets"],
        "seconds": round(log.seconds, 2),
        "stages": {stage: round(seconds, 2) for stage, seconds in log.stages.items()},
        "peak_mb": peak_megabytes(),
        "elastic_error": model.report["elastic_error"]["train"],
    }


def _contact_times(name: str) -> dict[str, Any]:
    return contact_mode_times(name, (MODES,), 5)


def _contact_row(name: str, found: dict[str, Any]) -> dict[str, Any]:
    """20 modes of the whole body with and without contact, best of alternating runs."""
    (times,) = found["times"]
    free, bound = times["free_s"], times["bound_s"]
    return {
        "scene": name,
        "pose": found["pose"],
        "unknowns": found["unknowns"],
        "rows": found["rows"],
        "unconstrained_s": round(free, 4),
        "constrained_s": round(bound, 4),
        "ratio": round(bound / free, 3),
        "paper_unconstrained_s": CONTACT_POSES[name][1],
        "paper_constrained_s": CONTACT_POSES[name][2],
    }


def table(figures: dict[str, Any]) -> None:
    """Print the figures for people."""
    from rich.console import Console
    from rich.table import Table

    contact = Table(title="20 modes, with contact constraints and without, seconds")
    for heading in ("scene", "pose", "unknowns", "rows", "free", "bound", "ratio", "paper's ratio"):
        contact.add_column(heading, justify="right")
    for row in figures["contact"]:
        paper = row["paper_constrained_s"] / row["paper_unconstrained_s"]
        contact.add_row(
            row["scene"],
            row["pose"],
            f"{row['unknowns']:,}",
            str(row["rows"]),
            f"{row['unconstrained_s']:.3f}",
            f"{row['constrained_s']:.3f}",
            f"{row['ratio']:.2f}",
            f"{paper:.1f}",
        )
    growth = Table(title="Whole builds")
    for heading in ("tets", "seconds", "peak MB", "slowest stages"):
        growth.add_column(heading, justify="right")
    for row in figures["growth"]:
        slow = sorted(row["stages"].items(), key=lambda stage: -stage[1])[:3]
        growth.add_row(
            f"{row['tets']:,}",
            f"{row['seconds']:.1f}",
            "–" if row["peak_mb"] is None else f"{row['peak_mb']:,.0f}",
            ", ".join(f"{name} {seconds:.1f}" for name, seconds in slow),
        )
    console = Console()
    console.print(contact)
    console.print(growth)
    if figures["exponent"] is not None:
        console.print(f"time grows like tets to the power of {figures['exponent']:.2f}")
