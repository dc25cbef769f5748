"""`supple bench reduction`: times of builds as the mesh grows, and of modes in contact.

Modes that respect contact are timed beside modes that do not (xu2016 Table 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

import numpy as np

from supple.app.processes import peak_megabytes, with_cores
from supple.app.progress_bar import first_use_message, progress_bar
from supple.errors import SuppleError

DEFAULT_SIZES = (16_000, 32_000, 64_000, 128_000)
MODES = 20
#: A pose of each scene in which it touches itself, and the paper's Table 1: seconds for 20 modes
#: without constraints and with them.
CONTACT_POSES = {
    "arm": ("flexed", 0.9, 2.6),
    "bear": ("hug", 1.9, 7.3),
    "gorilla": ("chest beat", 1.7, 6.2),
}


def contact_mode_times(name: str, counts: Sequence[int], repeats: int) -> dict[str, Any]:
    """Time modes of a scene where it touches itself, best of alternating runs.

    Parameters
    ----------
    name
        One of `CONTACT_POSES`.
    counts
        Numbers of modes.
    repeats
        How often each is tried.
    """
    from supple.elastic.body import ElasticBody
    from supple.mesh.boundary_contacts import find_boundary_contacts
    from supple.reduction import contact_constraints, null_space
    from supple.reduction.modes import linear_modes
    from supple.rig.tets.tet_body import fit_tet_body
    from supple.scenes.characters.character_scene import scene

    shown, pose = scene(name), CONTACT_POSES[name][0]
    recipe = shown.recipe()
    flesh = fit_tet_body(
        shown.character.surface,
        shown.character.rig,
        [shown.pose(pose)],
        tets=recipe["tets"],
        bones=recipe["bones"],
    )
    rest = flesh.tet_rig(shown.pose(pose))
    body = ElasticBody(flesh.mesh, shown.material)
    stiffness, mass, n = body.stiffness(rest, rest), body.vertex_masses(), len(rest)
    free = np.setdiff1d(np.arange(n), flesh.fixed)
    rows = contact_constraints(find_boundary_contacts(flesh.mesh, None, rest), n)
    times = []
    for count in counts:
        seconds: dict[bool, list[float]] = {False: [], True: []}
        for _ in range(repeats):
            for bound in (False, True):
                began = perf_counter()
                space = null_space(rows if bound else None, n, free=free)
                linear_modes(stiffness, mass, count, null_space=space)
                seconds[bound].append(perf_counter() - began)
        times.append({"modes": count, "free_s": min(seconds[False]), "bound_s": min(seconds[True])})
    return {"pose": pose, "unknowns": 3 * len(free), "rows": rows.shape[0], "times": times}


def measure(
    sizes: Sequence[int] = DEFAULT_SIZES, *, scene: str = "gorilla", quiet: bool = False
) -> dict[str, Any]:
    """Time builds of a scene at several numbers of tets, and constrained modes beside free ones."""
    for size in sizes:
        if not 1_000 <= size <= 500_000:
            raise SuppleError(f"{size:,} tets; choose between 1,000 and 500,000")
    first_use_message(quiet)
    growth, contact = [], []
    with progress_bar(quiet) as progress:
        task = progress.add_task("measuring", total=len(sizes) + len(CONTACT_POSES))
        for name in CONTACT_POSES:
            progress.update(task, description=f"{name}, modes in contact")
            contact.append(_contact_row(name, with_cores(None, _contact_times, name)))
            progress.advance(task)
        for size in sizes:
            progress.update(task, description=f"{scene}, {size:,} tets")
            growth.append(with_cores(None, _growth_row, (scene, size)))
            progress.advance(task)
    return {"contact": contact, "growth": growth, "exponent": _exponent(growth)}


def _exponent(rows: list[dict[str, Any]]) -> float | None:
    """Return the slope of log time over log tets."""
    if len(rows) < 2:
        return None
    tets, seconds = (np.log([row[key] for row in rows]) for key in ("tets", "seconds"))
    return round(float(np.polyfit(tets, seconds, 1)[0]), 3)


def _growth_row(case: tuple[str, int]) -> dict[str, Any]:
    from supple.engines.factory import build
    from supple.reduction.build_log import BuildLog
    from supple.scenes.characters.character_scene import scene

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
    """Return a row for 20 modes of the whole body with and without contact."""
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
