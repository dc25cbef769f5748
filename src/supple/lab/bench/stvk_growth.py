"""`supple bench stvk --growth`: times of StVK bodies as modes and elements grow, with a picture."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from supple.app.pictures.drawing import INK
from supple.app.pictures.drawing import PAPER as SHEET
from supple.app.processes import with_cores
from supple.arrays import Floats
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
from supple.lab.bench.stvk_bench import CASES, PAPER, step_times

MODES = (5, 10, 20, 40, 80)
ELEMENTS = (1_000, 3_000, 10_000, 30_000, 100_000)
#: Number of tets while modes grow, and of modes while elements grow.
_TETS, _MODES = 2_592, 20
#: Duration of repeated measurements in s, and their number; the shortest time counts.
_ENOUGH, _MOST_REPEATS = 1.0, 10
STEPS = 1_000
_LABELS = {"precompute_s": "precomputing, s", "step_us": "a step, µs"}
GROWTH = Growth(
    over={"modes": "modes", "tets": "elements", "voxels": "elements"},
    fitted=(("modes", "tets", "voxels"), tuple(_LABELS)),
    required=("elements", "modes", "gemv_us", *_LABELS),
)


def measure(
    path: Path,
    *,
    modes: Sequence[int] = MODES,
    elements: Sequence[int] = ELEMENTS,
    steps: int = STEPS,
    quiet: bool = False,
) -> dict[str, Any]:
    """Time beams by number of modes and of elements; draw and write the times.

    See `measure_growth` for `path` and the figures.
    """
    check_steps(steps, 1)
    cases = [("modes", "tets", _TETS, r) for r in modes]
    cases += [(kind, kind, size, _MODES) for kind in ("tets", "voxels") for size in elements]
    measured = {
        f"{line}: {size:,} {kind}, {r} modes": (
            line,
            partial(with_cores, None, _row, kind, size, r, steps),
        )
        for line, kind, size, r in cases
    }
    return measure_growth(path, measured, GROWTH, growth_picture, steps=steps, quiet=quiet)


def _row(kind: str, size: int, r: int, steps: int) -> dict[str, Any]:
    """Measure one body in a separate process."""
    from supple.elastic.material import Material
    from supple.engines.stvk.model import StvkModel

    mesh, material = _beam(kind, size), Material("stvk", young=1e6)
    basis = smooth_basis(mesh.vertices, r)
    times: list[float] = []
    while (sum(times) < _ENOUGH and len(times) < _MOST_REPEATS) or len(times) < 2:
        model = None  # frees the memory of the last one
        began = perf_counter()
        model = StvkModel.from_basis(mesh, material, basis)
        times.append(perf_counter() - began)
    assert model is not None
    times_of_step = step_times(model, 1e-4, steps)
    chosen = {key: times_of_step[key] for key in ("step_us", "gemv_us", "dgemm256_ms")}
    size = len(model.groups.of_element)
    return {"elements": size, "modes": r, "precompute_s": round(min(times), 5), **chosen}


def _beam(kind: str, size: int) -> Any:
    """Return a beam of about `size` elements, seven cubes long for each cube across."""
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
    """Return orthonormal modes (n, 3, r): polynomials of low degree that vanish at the end."""
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
    """Print times by number of modes, of tets and of voxels."""
    titles = {
        "modes": f"As modes grow, {_TETS:,} tets",
        "tets": f"As tets grow, {_MODES} modes",
        "voxels": f"As voxels grow, {_MODES} modes",
    }
    columns: Cells = {
        "elements": ("elements", ","),
        "modes": ("modes", ""),
        "precompute s": ("precompute_s", ".4f"),
        "step µs": ("step_us", ".2f"),
        "gemv µs": ("gemv_us", ".2f"),
    }
    names = {"precompute_s": "precomputing grows", "step_us": "a step"}
    for line, title in titles.items():
        caption = growth_caption(figures["exponents"][line], names)
        print_rows(figures[line], columns, title, caption)


def growth_picture(figures: dict[str, Any]) -> Figure:
    """Draw precomputation and steps over modes and over elements on logarithmic axes."""
    figure = Figure(figsize=(9.6, 7.4), facecolor=SHEET, layout="constrained")
    figure.suptitle("StVK bodies as modes and elements grow", color=INK, fontsize=13)
    parts: Any = figure.subplots(2, 2)
    for row, (key, label) in enumerate(_LABELS.items()):
        modes, elements = parts[row]
        plot_growth(modes, figures, "modes", "modes", key, "Supple", color="#2f6f8f")
        if key == "step_us":
            x, reads = ([each[k] for each in figures["modes"]] for k in ("modes", "gemv_us"))
            modes.plot(x, reads, ":", color=INK, lw=1.2, label="reading its coefficients (gemv)")
        printed = [(CASES[name].modes, PAPER[name][row]) for name in PAPER]
        style = {"color": "#8a8375", "ms": 5, "label": "barbic2005, its bodies"}
        modes.plot(*np.transpose(printed), "D", **style)
        for kind, colour in (("tets", "#2f6f8f"), ("voxels", "#b5483a")):
            plot_growth(elements, figures, kind, "elements", key, kind, color=colour)
        for axes, name, line in ((modes, "modes", "modes"), (elements, "elements", "tets")):
            ticks = sorted({each[name] for each in figures[line]})
            growth_axes(axes, f"{name}{_fixed(figures, line)}", label, ticks)
    return figure


def _fixed(figures: dict[str, Any], line: str) -> str:
    """Return the number that does not grow, as text."""
    for row in figures[line]:
        return f" ({row['elements']:,} tets)" if line == "modes" else f" ({row['modes']} modes)"
    return ""
