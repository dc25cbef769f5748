"""`supple bench rig-space --growth`: times as free parameters and tets grow, and a picture."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from supple.app.pictures.drawing import INK, PAPER, save_picture
from supple.app.processes import with_cores
from supple.lab.bench.bench_runs import (
    check_steps,
    checked_figures,
    exponent,
    growth_axes,
    growth_caption,
    measure_growth,
    write_figures,
)
from supple.lab.bench.rig_space.free_cases import made_belly, made_trunk
from supple.lab.bench.rig_space.rsp_bench import step_figures, timed_build

#: Numbers of free parameters by kind: a wire moves all of what is near, a shape its own place.
PARAMETERS = {"wire": (10, 20, 50, 100), "shapes": (10, 20, 50, 100, 200, 500)}
TETS = (2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000)
#: Tets while parameters grow, and parameters while tets grow.
_TETS, _FREE = 4_000, 36
STEPS = 300
_LINES = {"wire": "parameters of a wire", "shapes": "shapes", "tets": "tets, 36 shapes"}
_KEYS = {"step_ms": "a step, ms", "build_s": "a build, s"}


def measure(
    path: Path,
    *,
    parameters: dict[str, Sequence[int]] | None = None,
    tets: Sequence[int] = TETS,
    steps: int = STEPS,
    quiet: bool = False,
) -> dict[str, Any]:
    """Time builds and steps as free parameters grow, and as tets grow; draw and write the times.

    Parameters
    ----------
    path
        The picture, a .png file; figures are written beside it as .json, after each case: a run
        that was ended goes on where it was.
    parameters, tets
        How many of each; parameters by kind, of a wire or shapes.
    steps
        Length of a run of steps.
    quiet
        Show no progress.
    """
    check_steps(steps)
    kept = checked_figures(path)
    counts = PARAMETERS if parameters is None else parameters
    cases = [(kind, kind, k, _TETS) for kind, own in counts.items() for k in own]
    cases += [("tets", "shapes", _FREE, size) for size in tets]
    measured = {
        f"{line}, {k} free, {size:,} tets": (line, partial(_row, kind, k, size, steps))
        for line, kind, k, size in cases
    }
    needed = ("free", "tets", *_KEYS)
    rows = measure_growth(kept, measured, needed, steps=steps, quiet=quiet)
    wanted = [rows[name] for name in measured]
    figures: dict[str, Any] = {
        line: [row for row in wanted if row["line"] == line] for line in _LINES
    }
    figures["exponents"] = {
        line: {key: exponent(figures[line], _over(line), key) for key in _KEYS} for line in _LINES
    }
    save_picture(growth_picture(figures), path)
    write_figures(kept, {"steps": steps, "complete": True, "rows": rows} | figures)
    return figures


def _over(line: str) -> str:
    return "tets" if line == "tets" else "free"


def _row(kind: str, free: int, tets: int, steps: int) -> dict[str, Any]:
    """Measure one character: its build on all cores, its steps on one."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "case.supple"
        seconds = with_cores(None, _built, kind, free, tets, path)
        return {"build_s": round(seconds, 3)} | with_cores(1, _stepped, path, steps)


def _built(kind: str, free: int, tets: int, path: Path) -> float:
    case = made_trunk(free, tets) if kind == "wire" else made_belly(free, tets)
    return timed_build(case.character, case.options, path)


def _stepped(path: Path, steps: int) -> dict[str, Any]:
    from supple.engines.factory import load_model

    model: Any = load_model(path)
    found = step_figures(model, steps)
    kept = ("step_ms", "p99_over_median", "dgemm256_ms", "step_in_dgemm")
    return dict(model.figures) | {name: round(found[name], 4) for name in kept}


def table(figures: dict[str, Any]) -> None:
    """Print the figures for people."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    for line, title in _LINES.items():
        powers = figures["exponents"][line]
        caption = growth_caption(powers, {"step_ms": "a step grows", "build_s": "a build"})
        grid = Table(title=f"As {title} grow", caption=caption)
        for heading in ("free", "tets", "cubature", "step ms", "in dgemm", "build s"):
            grid.add_column(heading, justify="right")
        for row in figures[line]:
            sizes = [f"{row[name]:,}" for name in ("free", "tets", "cubature")]
            times = [
                f"{row['step_ms']:.3f}",
                f"{row['step_in_dgemm']:.2f}",
                f"{row['build_s']:.1f}",
            ]
            grid.add_row(*sizes, *times)
        console.print(grid)


_COLOURS = {"wire": "#2f6f8f", "shapes": "#b5483a", "tets": "#b5483a"}


def growth_picture(figures: dict[str, Any]) -> Figure:
    """Draw milliseconds of a step above, seconds of a build below; logarithmic."""
    figure = Figure(figsize=(9.6, 7.4), facecolor=PAPER, layout="constrained")
    figure.suptitle("Rig-space: a step and a build as free parameters and tets grow", color=INK)
    parts: Any = figure.subplots(2, 2)
    for row, (key, what) in enumerate(_KEYS.items()):
        for axes, lines in zip(parts[row], (("wire", "shapes"), ("tets",)), strict=True):
            for line in lines:
                _draw(axes, figures, line, key)
            fixed = f"tets, {_FREE} shapes" if lines[0] == "tets" else f"parameters, {_TETS:,} tets"
            ticks = sorted({row[_over(line)] for line in lines for row in figures[line]})
            growth_axes(axes, fixed, what, ticks)
    return figure


def _draw(axes: Axes, figures: dict[str, Any], line: str, key: str) -> None:
    rows, power = figures[line], figures["exponents"][line][key]
    label = _LINES[line] + ("" if power is None else f": power {power:.2f}")
    x = [row[_over(line)] for row in rows]
    axes.plot(x, [row[key] for row in rows], "o-", color=_COLOURS[line], ms=5, lw=1.5, label=label)
    if key == "step_ms" and line != "wire":
        dense = [row["dgemm256_ms"] for row in rows]
        axes.plot(x, dense, ":", color=INK, lw=1.2, label="a 256³ product in the same run")
