"""Tables of `supple bench` and `supple bench growth` for people."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

__all__ = ["growth_table", "step_table"]


def step_table(rows: list[dict[str, Any]]) -> None:
    """Times beside the paper's, and the sizes they belong to."""
    console = Console()
    console.print(_times(rows))
    console.print(_parts(rows))
    console.print(_sizes(rows))


def _times(rows: list[dict[str, Any]]) -> Table:
    table = Table(
        title="A whole step with its surface, milliseconds",
        caption="dgemm: a 256³ product of float64 on one core, in the same run; "
        "× full: unreduced simulation, one core against one core; "
        "the paper's times are of eight threads at 2.9 GHz",
    )
    table.add_column("scene")
    headings = ("median", "p99", "max", "two cores", "paper's", "dgemm", "in dgemm")
    for heading in (*headings, "full", "× full", "paper's ×"):
        table.add_column(heading, justify="right")
    for row in rows:
        step = row["step_ms"]
        table.add_row(
            row["scene"],
            *(f"{step[key]:.3f}" for key in ("median", "p99", "max")),
            shown(row["step_ms_two_cores"], ".3f"),
            shown(row["paper_ms"], ".2f"),
            f"{row['dgemm256_ms']:.3f}",
            f"{row['step_in_dgemm']:.2f}",
            shown(row["full_step_ms"], ".1f"),
            shown(row["speedup"], ".0f"),
            shown(row["paper_speedup"], ".0f"),
        )
    return table


def _parts(rows: list[dict[str, Any]]) -> Table:
    table = Table(
        title="Its parts, milliseconds, and what unreduced steps take",
        caption="core: rest shapes and bases at the pose; dynamics: forces and their solution",
    )
    table.add_column("scene")
    headings = ("core", "dynamics", "surface", "full, one core", "all cores", "RMS off full")
    for heading in (*headings, "frequency off"):
        table.add_column(heading, justify="right")
    for row in rows:
        split = row["split_ms"]
        table.add_row(
            row["scene"],
            *(shown(split[key], ".3f") for key in ("core", "dynamics", "surface")),
            shown(row["full_step_ms"], ".1f"),
            shown(row["full_step_ms_all_cores"], ".1f"),
            shown(row["rms_vs_full"], ".3f"),
            shown(row["frequency_error"], ".1%"),
        )
    return table


def _sizes(rows: list[dict[str, Any]]) -> Table:
    table = Table(title="Sizes")
    table.add_column("scene")
    names = {
        "tets": "tets",
        "tet_vertices": "tet vertices",
        "surface_vertices": "surface vertices",
        "modes": "modes",
        "regions": "regions",
        "poses": "poses",
        "cubature_elastic": "cubature tets",
        "cubature_inertial": "cubature vertices",
    }
    for heading in (*names.values(), "MB", "paper's MB"):
        table.add_column(heading, justify="right")
    for row in rows:
        counts = (f"{row[key]:,}" for key in names)
        table.add_row(
            row["scene"], *counts, f"{row['model_mb']:.1f}", shown(row["paper_mb"], ".1f")
        )
    return table


def growth_table(figures: dict[str, Any]) -> None:
    """Times of a step as modes and tets grow."""
    console = Console()
    modes = Table(title=f"{figures['scene']}: a step on one core as modes grow, milliseconds")
    for heading in ("modes", "without surface", "whole", "paper's, one core"):
        modes.add_column(heading, justify="right")
    for row in figures["modes"]:
        modes.add_row(
            str(row["modes"]),
            f"{row['reduced_ms']:.3f}",
            f"{row['step_ms']:.3f}",
            shown(row["paper_ms"], ".2f"),
        )
    tets = Table(title=f"{figures['scene']}: a step on one core as tets grow, milliseconds")
    for heading in ("tets", "without surface", "to the first", "surface", "whole"):
        tets.add_column(heading, justify="right")
    for row in figures["tets"]:
        tets.add_row(
            f"{row['tets']:,}",
            f"{row['reduced_ms']:.3f}",
            f"{row['ratio']:.2f}",
            f"{row['surface_ms']:.3f}",
            f"{row['step_ms']:.3f}",
        )
    for table in (modes, tets):
        if table.row_count:
            console.print(table)


def shown(value: float | None, digits: str) -> str:
    """The number, or a dash where there is none."""
    return "–" if value is None else format(value, digits)
