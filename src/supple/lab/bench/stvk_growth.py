"""`supple bench stvk --growth`: times of StVK bodies as modes and elements grow, and a picture."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from supple.app.pictures.drawing import INK, save_picture
from supple.app.pictures.drawing import PAPER as SHEET
from supple.app.processes import with_cores
from supple.app.progress_bar import first_use_message, progress_bar
from supple.arrays import Floats
from supple.lab.bench.bench_runs import (
    checked_figures,
    exponent,
    growth_axes,
    growth_caption,
    write_figures,
)
from supple.lab.bench.stvk_bench import CASES, PAPER, check_steps, step_times

MODES = (5, 10, 20, 40, 80)
ELEMENTS = (1_000, 3_000, 10_000, 30_000, 100_000)
#: Tets while modes grow, and modes while elements grow.
_TETS, _MODES = 2_592, 20
_KINDS = ("tets", "voxels")
#: A time is repeated until this long, in s, and the shortest counts.
_ENOUGH, _MOST_REPEATS = 1.0, 10
STEPS = 1_000


def measure(
    path: Path,
    *,
    modes: Sequence[int] = MODES,
    elements: Sequence[int] = ELEMENTS,
    steps: int = STEPS,
    quiet: bool = False,
) -> dict[str, Any]:
    """Time bodies as modes grow on a beam of tets, and as elements grow; draw and write the times.

    Parameters
    ----------
    path
        The picture, a .png file; figures are written beside it as .json.
    modes, elements
        How many of each.
    steps
        Length of a run of steps.
    quiet
        Show no progress.
    """
    check_steps(steps)
    kept = checked_figures(path)
    cases = [("tets", _TETS, r) for r in modes]
    cases += [(kind, size, _MODES) for kind in _KINDS for size in elements]
    first_use_message(quiet)
    rows = []
    with progress_bar(quiet) as progress:
        task = progress.add_task("measuring", total=len(cases))
        for kind, size, r in cases:
            progress.update(task, description=f"{size:,} {kind}, {r} modes")
            rows.append(with_cores(None, _row, kind, size, r, steps))
            progress.advance(task)
    figures: dict[str, Any] = {"modes": rows[: len(modes)]}
    for k, kind in enumerate(_KINDS):
        figures[kind] = rows[len(modes) + k * len(elements) :][: len(elements)]
    figures["exponents"] = {
        name: {key: exponent(own, over, key) for key in ("precompute_s", "step_us")}
        for (name, own), over in zip(
            figures.items(), ("modes", "elements", "elements"), strict=True
        )
    }
    save_picture(growth_picture(figures), path)
    write_figures(kept, figures)
    return figures


def _row(kind: str, size: int, r: int, steps: int) -> dict[str, Any]:
    """Measure one body; in a process of its own."""
    from supple.elastic.material import Material
    from supple.engines.stvk.model import StvkModel

    mesh, material = _beam(kind, size), Material("stvk", young=1e6)
    basis = smooth_basis(mesh.vertices, r)
    times: list[float] = []
    while (sum(times) < _ENOUGH and len(times) < _MOST_REPEATS) or len(times) < 2:
        model = None  # two at once are not what one needs
        began = perf_counter()
        model = StvkModel.from_basis(mesh, material, basis)
        times.append(perf_counter() - began)
    assert model is not None
    found = step_times(model, 1e-4, steps)
    kept = {key: found[key] for key in ("step_us", "gemv_us", "dgemm256_ms")}
    size = len(model.groups.of_element)
    return {"elements": size, "modes": r, "precompute_s": round(min(times), 5), **kept}


def _beam(kind: str, size: int) -> Any:
    """Make a beam of about so many elements: cubes, some seven times as many along as across."""
    from supple.mesh.hexes import HexMesh
    from supple.scenes.bodies.beam import beam
    from supple.scenes.modelling.voxel_lists import voxels_around

    bricks = size / 6 if kind == "tets" else size
    across = max(1, round((bricks / 7) ** (1 / 3)))
    cells = max(1, round(bricks / across**2)), across, across
    edge = 1 / 6 / across
    if kind == "tets":
        return beam(np.array(cells) * edge, cells)
    voxels = voxels_around((np.indices(cells).reshape(3, -1).T + 0.5) * edge, edge)
    return HexMesh(voxels.vertices, voxels.hexes)


def smooth_basis(vertices: Floats, r: int) -> Floats:
    """Return orthonormal shapes (n, 3, r): polynomials of low degree, 0 where x is least."""
    low, high = vertices.min(axis=0), vertices.max(axis=0)
    place = 2 * (vertices - low) / (high - low) - 1
    count = -(-r // 3)
    degrees = sorted(product(range(count), range(4), range(4)), key=lambda d: (sum(d), d))[:count]
    along = [np.polynomial.legendre.legvander(place[:, k], count) for k in range(3)]
    columns = [
        (1 + place[:, 0]) * np.prod([along[k][:, d] for k, d in enumerate(degree)], axis=0)
        for degree in degrees
    ]
    shapes = np.linalg.qr(np.stack(columns, axis=1))[0]
    basis = np.zeros((len(vertices), 3, 3 * count))
    for axis in range(3):
        basis[:, axis, axis::3] = shapes
    return np.ascontiguousarray(basis[:, :, :r])


def table(figures: dict[str, Any]) -> None:
    """Print the figures for people."""
    from rich.console import Console
    from rich.table import Table

    titles = {
        "modes": f"As modes grow, {_TETS:,} tets",
        "tets": f"As tets grow, {_MODES} modes",
        "voxels": f"As voxels grow, {_MODES} modes",
    }
    console = Console()
    for name, title in titles.items():
        powers = figures["exponents"][name]
        words = {"precompute_s": "precomputing grows", "step_us": "a step"}
        caption = growth_caption(powers, words)
        grid = Table(title=title, caption=caption)
        for heading in ("elements", "modes", "precompute s", "step µs", "gemv µs"):
            grid.add_column(heading, justify="right")
        for row in figures[name]:
            numbers = [f"{row['precompute_s']:.4f}", f"{row['step_us']:.2f}"]
            numbers.append(f"{row['gemv_us']:.2f}")
            grid.add_row(f"{row['elements']:,}", str(row["modes"]), *numbers)
        console.print(grid)


# The picture: times over modes and over elements


_COLOURS = {"modes": "#2f6f8f", "tets": "#2f6f8f", "voxels": "#b5483a", "paper": "#8a8375"}
_WHAT = {"precompute_s": "precomputing, s", "step_us": "a step, µs"}


def growth_picture(figures: dict[str, Any]) -> Figure:
    """Draw seconds to precompute above, microseconds of a step below; logarithmic."""
    figure = Figure(figsize=(9.6, 7.4), facecolor=SHEET, layout="constrained")
    figure.suptitle("StVK bodies as modes and elements grow", color=INK, fontsize=13)
    parts: Any = figure.subplots(2, 2)
    for row, (key, what) in enumerate(_WHAT.items()):
        modes, elements = parts[row]
        _draw(modes, figures, "modes", "modes", key)
        printed = [(CASES[name].modes, PAPER[name][row]) for name in PAPER]
        grey = _COLOURS["paper"]
        modes.plot(*np.transpose(printed), "D", color=grey, ms=5, label="barbic2005, its bodies")
        for kind in ("tets", "voxels"):
            _draw(elements, figures, kind, "elements", key)
        for axes, name in ((modes, "modes"), (elements, "elements")):
            ticks = sorted({row[name] for row in figures["modes" if axes is modes else "tets"]})
            growth_axes(axes, f"{name}{_fixed(figures, name)}", what, ticks)
    return figure


def _draw(axes: Axes, figures: dict[str, Any], name: str, over: str, key: str) -> None:
    rows, power = figures[name], figures["exponents"][name][key]
    label = "Supple" if name == "modes" else name
    label += "" if power is None else f": power {power:.2f}"
    x, y = [row[over] for row in rows], [row[key] for row in rows]
    axes.plot(x, y, "o-", color=_COLOURS[name], ms=5, lw=1.5, label=label)
    if key == "step_us" and name == "modes":
        reads = [row["gemv_us"] for row in rows]
        axes.plot(x, reads, ":", color=INK, lw=1.2, label="reading its coefficients (gemv)")


def _fixed(figures: dict[str, Any], name: str) -> str:
    """Return what does not grow, as text."""
    if name == "modes":
        return f" ({figures['modes'][0]['elements']:,} tets)" if figures["modes"] else ""
    return f" ({figures['tets'][0]['modes']} modes)" if figures["tets"] else ""
