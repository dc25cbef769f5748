"""`supple bench stvk`: what StVK bodies cost to precompute and to step, beside dense products.

Every case runs in a process of its own, so that its peak memory is its own. Coefficients are
computed on all cores, all else on one.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from time import perf_counter, process_time
from typing import Any, NamedTuple

from supple.app.bench_stvk_steps import check_steps, step_times
from supple.app.memory import peak_megabytes
from supple.app.own_process import with_cores
from supple.app.progress import first_use_message, progress_bar
from supple.errors import SuppleError

__all__ = ["CASES", "KEYS", "PAPER", "Case", "measure", "table"]


class Case(NamedTuple):
    """A body of the paper, or a beam of so many bricks, six tets each; and how many modes."""

    scene: str | None
    cells: tuple[int, int, int]
    modes: int


_BEAM = (27, 4, 4)  # 2,592 tets
CASES = {
    "spoon": Case("spoon", (0, 0, 0), 12),
    "bridge": Case("bridge", (0, 0, 0), 15),
    "tower": Case("tower", (0, 0, 0), 30),
    "heart": Case("heart", (0, 0, 0), 30),
    "beam15": Case(None, _BEAM, 15),
    "beam30": Case(None, _BEAM, 30),
    "beam60": Case(None, _BEAM, 60),
    "beam100k": Case(None, (66, 16, 16), 30),
}
#: Seconds to precompute and µs of a step in barbic2005, figures 5 and 11.
PAPER = {
    "spoon": (60.0, 30.2),
    "bridge": (186.0, 65.4),
    "tower": (79.2 * 60, 1395.0),
    "heart": (97.4 * 60, 1395.0),
}
KEYS = (
    *("case", "elements", "modes", "precompute_s", "peak_mb"),
    *("step_us", "gemv_us", "python_step_us", "dgemm256_ms"),
)
#: The shortest of so many: the others were disturbed.
_REPEATS = 3


def measure(
    cases: Sequence[str] = (), *, steps: int = 3_000, quiet: bool = False
) -> list[dict[str, Any]]:
    """A row for each case, by default all.

    Parameters
    ----------
    cases
        Names of `CASES`.
    steps
        Length of a run of steps.
    quiet
        Show no progress.
    """
    for name in cases:
        if name not in CASES:
            near = get_close_matches(name, CASES, 1)
            hint = f'did you mean "{near[0]}"?' if near else f"there are {', '.join(CASES)}"
            raise SuppleError(f'no case "{name}"; {hint}')
    check_steps(steps)
    chosen = list(dict.fromkeys(cases)) or list(CASES)
    first_use_message(quiet)
    rows = []
    with progress_bar(quiet) as progress:
        task = progress.add_task("measuring", total=len(chosen))
        for name in chosen:
            progress.update(task, description=f"{name}, {CASES[name].modes} modes")
            rows.append(with_cores(None, _row, name, CASES[name], steps))
            progress.advance(task)
    return rows


def _row(name: str, case: Case, steps: int) -> dict[str, Any]:
    """Measure one case; in a process of its own."""
    import numpy as np

    from supple.elastic import Material
    from supple.reduction.stvk_build import elastic_basis
    from supple.reduction.stvk_model import StvkModel
    from supple.scenes import beam
    from supple.scenes.elastic_scene import stvk_scene

    mesh: Any
    if case.scene is not None:
        scene = stvk_scene(case.scene)
        mesh, material, fixed, dt = scene.mesh, scene.material, scene.fixed, scene.dt
    else:
        mesh, material, dt = beam(cells=case.cells), Material("stvk", young=1e6), 1 / 1000
        fixed = np.flatnonzero(mesh.vertices[:, 0] == 0)
    began = perf_counter()
    basis = elastic_basis(mesh, material, case.modes, fixed, "derivatives", 2)
    basis_s = perf_counter() - began
    with_basis = peak_megabytes()
    times, used = [], []
    for _ in range(_REPEATS):
        model = None  # two at once are not what one needs
        began, before = perf_counter(), process_time()
        model = StvkModel.from_basis(mesh, material, basis)
        times.append(perf_counter() - began)
        used.append(process_time() - before)
    assert model is not None
    elements = len(model.groups.of_element)
    row = {"case": name, "elements": elements, "modes": case.modes}
    row |= {"precompute_s": round(min(times), 4), "peak_mb": peak_megabytes()}
    row |= step_times(model, dt, steps)
    paper = PAPER.get(name, (None, None))
    return row | {
        "precompute_cpu_s": round(min(used), 4),  # of all cores together
        "basis_s": round(basis_s, 3),
        "basis_peak_mb": with_basis,
        "paper_precompute_s": paper[0],
        "paper_step_us": paper[1],
    }


def table(rows: list[dict[str, Any]]) -> None:
    """Print the rows for people."""
    from rich.console import Console
    from rich.table import Table

    made = Table(
        title="Precomputing StVK polynomials on all cores, seconds",
        caption="Paper: barbic2005, figures 5 (above) and 11 (below).",
    )
    steps = Table(
        title="A Newmark step on one core, microseconds",
        caption="gemv: a product that reads as many coefficients as a step from memory; cached: "
        "the same matrix again and again. Python: what a single call of step adds. dgemm: a 256³ "
        "product of float64 in ms, on one core in the same run.",
    )
    for grid, headings in (
        (made, ("elements", "modes", "basis", "precompute", "paper's", "peak MB")),
        (steps, ("step", "paper's", "gemv", "cached", "step/gemv", "Python", "dgemm")),
    ):
        grid.add_column("case")
        for heading in headings:
            grid.add_column(heading, justify="right")
    for row in rows:
        cells = _cells(row)
        made.add_row(row["case"], *cells[:6])
        steps.add_row(row["case"], *cells[6:])
    console = Console()
    console.print(made)
    console.print(steps)


def _cells(row: dict[str, Any]) -> list[str]:
    def shown(key: str, digits: str) -> str:
        return "–" if row[key] is None else format(row[key], digits)

    return [
        *(shown("elements", ","), shown("modes", "d"), shown("basis_s", ".2f")),
        *(shown("precompute_s", ".3f"), shown("paper_precompute_s", ",.0f")),
        *(shown("peak_mb", ",.0f"), shown("step_us", ".1f"), shown("paper_step_us", ".0f")),
        *(shown("gemv_us", ".1f"), shown("gemv_cached_us", ".1f")),
        *(f"{row['step_us'] / row['gemv_us']:.2f}", shown("python_step_us", ".1f")),
        shown("dgemm256_ms", ".3f"),
    ]
