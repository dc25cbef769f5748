"""`supple bench rig-space --growth`: times as free parameters and tets grow, with a picture."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from matplotlib.figure import Figure

from supple.app.pictures.drawing import INK, PAPER
from supple.app.processes import with_cores
from supple.lab.bench.case_runner import (
    Cells,
    Growth,
    check_steps,
    growth_axes,
    growth_caption,
    measure_growth,
    plot_growth,
    print_rows,
)
from supple.lab.bench.rig_space.free_cases import made_belly, made_trunk
from supple.lab.bench.rig_space.rsp_bench import step_figures, timed_build

#: Numbers of free parameters by kind.
PARAMETERS = {"wire": (10, 20, 50, 100), "shapes": (10, 20, 50, 100, 200, 500)}
TETS = (2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000)
#: Number of tets while parameters grow, and of parameters while tets grow.
_TETS, _FREE = 4_000, 36
STEPS = 300
_LINES = {"wire": "parameters of a wire", "shapes": "shapes", "tets": "tets, 36 shapes"}
_KEYS = {"step_ms": "a step, ms", "build_s": "a build, s"}
GROWTH = Growth(
    over={"wire": "free", "shapes": "free", "tets": "tets"},
    fitted=(tuple(_LINES), tuple(_KEYS)),
    required=("free", "tets", *_KEYS),
)


def measure(
    path: Path,
    *,
    parameters: dict[str, Sequence[int]] | None = None,
    tets: Sequence[int] = TETS,
    steps: int = STEPS,
    quiet: bool = False,
) -> dict[str, Any]:
    """Time builds and steps by number of free parameters and of tets; draw and write the times.

    See `measure_growth` for `path` and the figures; `parameters` has numbers by kind.
    """
    check_steps(steps)
    counts = PARAMETERS if parameters is None else parameters
    cases = [(kind, kind, k, _TETS) for kind, numbers in counts.items() for k in numbers]
    cases += [("tets", "shapes", _FREE, size) for size in tets]
    measured = {
        f"{line}, {k} free, {size:,} tets": (line, partial(_row, kind, k, size, steps))
        for line, kind, k, size in cases
    }
    return measure_growth(path, measured, GROWTH, growth_picture, steps=steps, quiet=quiet)


def _row(kind: str, free: int, tets: int, steps: int) -> dict[str, Any]:
    """Measure a character's build on all cores, and its steps on one."""
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
    figures = step_figures(model, steps)
    names = ("step_ms", "p99_over_median", "dgemm256_ms", "step_in_dgemm")
    return dict(model.figures) | {name: round(figures[name], 4) for name in names}


def table(figures: dict[str, Any]) -> None:
    """Print times by number of free parameters and of tets."""
    columns: Cells = {
        "free": ("free", ","),
        "tets": ("tets", ","),
        "cubature": ("cubature", ","),
        "step ms": ("step_ms", ".3f"),
        "in dgemm": ("step_in_dgemm", ".2f"),
        "build s": ("build_s", ".1f"),
    }
    for line, title in _LINES.items():
        names = {"step_ms": "a step grows", "build_s": "a build"}
        caption = growth_caption(figures["exponents"][line], names)
        print_rows(figures[line], columns, f"As {title} grow", caption)


def growth_picture(figures: dict[str, Any]) -> Figure:
    """Draw milliseconds of a step above, seconds of a build below, on logarithmic axes."""
    figure = Figure(figsize=(9.6, 7.4), facecolor=PAPER, layout="constrained")
    figure.suptitle("Rig-space: a step and a build as free parameters and tets grow", color=INK)
    parts: Any = figure.subplots(2, 2)
    fixed = (f"parameters, {_TETS:,} tets", f"tets, {_FREE} shapes")
    for row, (key, label) in enumerate(_KEYS.items()):
        for k, lines in enumerate((("wire", "shapes"), ("tets",))):
            axes, over = parts[row][k], GROWTH.over[lines[0]]
            for line in lines:
                colour = "#2f6f8f" if line == "wire" else "#b5483a"
                plot_growth(axes, figures, line, over, key, _LINES[line], color=colour)
                if key == "step_ms" and line != "wire":
                    x, dense = ([r[name] for r in figures[line]] for name in (over, "dgemm256_ms"))
                    text = "a 256³ product in the same run"
                    axes.plot(x, dense, ":", color=INK, lw=1.2, label=text)
            ticks = sorted({each[over] for line in lines for each in figures[line]})
            growth_axes(axes, fixed[k], label, ticks)
    return figure
