"""Tables of `supple bench` and `supple bench growth` for people."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

__all__ = ["growth_table", "step_table"]


def step_table(rows: list[dict[str, Any]]) -> None:
    """A column for each scene: times beside the paper's, and the sizes they belong to."""
    table = Table(
        title="A whole step with its surface on one core, milliseconds",
        caption="dgemm: a 256³ product of float64 on the same core in the same run. Speed-up: over "
        "our unreduced step on one core. The paper's times are of eight threads at 2.9 GHz.",
    )
    table.add_column("")
    for row in rows:
        table.add_column(row["scene"], justify="right")
    for section in (_times(rows), _parts(rows), _beside_full(rows), _sizes(rows)):
        for name, cells in section.items():
            table.add_row(name, *cells)
        table.add_section()
    Console().print(table)


Section = dict[str, list[str]]


def _times(rows: list[dict[str, Any]]) -> Section:
    found = {
        f"step, {key}": [f"{row['step_ms'][key]:.3f}" for row in rows]
        for key in ("median", "p99", "max")
    }
    return found | {
        "  paper's": [shown(row["paper_ms"], ".2f") for row in rows],
        "dgemm": [f"{row['dgemm256_ms']:.3f}" for row in rows],
        "step in dgemm": [f"{row['step_in_dgemm']:.2f}" for row in rows],
        "step, in a crowd on two cores": [shown(row["step_ms_two_cores"], ".3f") for row in rows],
    }


def _parts(rows: list[dict[str, Any]]) -> Section:
    names = {
        "core": "rest shapes and bases at the pose",
        "dynamics": "forces and their solution",
        "surface": "surface",
    }
    found = {
        name: [shown(row["split_ms"][key], ".3f") for row in rows] for key, name in names.items()
    }
    return found | {
        "of all this, the rig": [shown(row["rig_ms"], ".3f") for row in rows],
        "steps in which a limit acted": [_limits(row["limited_steps"]) for row in rows],
    }


def _limits(counts: dict[str, int]) -> str:
    """How often which; none is as it should be."""
    return ", ".join(f"{count:,} {name}" for name, count in counts.items()) or "none"


def _beside_full(rows: list[dict[str, Any]]) -> Section:
    return {
        "unreduced step, one core": [shown(row["full_step_ms"], ".1f") for row in rows],
        "unreduced step, all cores": [shown(row["full_step_ms_all_cores"], ".1f") for row in rows],
        "speed-up": [shown(row["speedup"], ".0f") for row in rows],
        "  paper's": [shown(row["paper_speedup"], ".0f") for row in rows],
        "RMS off unreduced, of its motion": [shown(row["rms_vs_full"], ".3f") for row in rows],
        "frequency off unreduced": [shown(row["frequency_error"], ".1%") for row in rows],
    }


def _sizes(rows: list[dict[str, Any]]) -> Section:
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
    found = {name: [f"{row[key]:,}" for row in rows] for key, name in names.items()}
    return found | {
        "model, MB": [f"{row['model_mb']:.1f}" for row in rows],
        "  paper's": [shown(row["paper_mb"], ".1f") for row in rows],
    }


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
    for row in (*figures["modes"], *figures["tets"]):
        if row.get("limited_steps"):
            which = f"{row['modes']} modes and {row['tets']:,} tets"
            console.print(f"limits acted, with {which}: {_limits(row['limited_steps'])} steps")


def shown(value: float | None, digits: str) -> str:
    """The number, or a dash where there is none."""
    return "–" if value is None else format(value, digits)
