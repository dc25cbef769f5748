"""`supple bench stvk|rig-space|soft-skeleton --growth`: times as sizes grow, with pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from supple.app.pictures.drawing import INK, PAPER
from supple.app.processes import with_cores
from supple.arrays import Floats
from supple.elastic.material import Material
from supple.engines.factory import load_model
from supple.engines.soft_skeleton.model import SoftSkeletonModel
from supple.engines.stvk.model import StvkModel
from supple.lab.bench import rig_space_bench, stvk_bench
from supple.lab.bench.case_runner import (
    Growth,
    Row,
    check_steps,
    growth_axes,
    measure_growth,
    plot_growth,
)
from supple.lab.bench.rig_space_bench import made_belly, made_trunk
from supple.lab.bench.soft_skeleton import soft_bench
from supple.lab.bench.soft_skeleton.soft_cases import pressed
from supple.mesh.hexes import HexMesh
from supple.scenes.bodies.beam import beam
from supple.scenes.characters.character_scene import scene
from supple.scenes.modelling.voxel_lists import voxels_around

# Rig-space: free parameters and tets


#: Numbers of free parameters by kind, and of tets.
FREE_PARAMETERS = {"wire": (10, 20, 50, 100), "shapes": (10, 20, 50, 100, 200, 500)}
FREE_TETS = (2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000)
#: Number of tets while parameters grow, and of parameters while tets grow.
_FIXED_TETS, _FIXED_FREE = 4_000, 36
_RIG_LABELS = {"step_ms": "a step, ms", "build_s": "a build, s"}
_RIG_LINES = {"wire": "parameters of a wire", "shapes": "shapes", "tets": "tets, 36 shapes"}
RIG_SPACE = Growth(
    over={"wire": "free", "shapes": "free", "tets": "tets"},
    fitted=(tuple(_RIG_LINES), tuple(_RIG_LABELS)),
    required=("free", "tets", *_RIG_LABELS),
    titles={line: f"As {text} grow" for line, text in _RIG_LINES.items()},
    columns={
        "free": ("free", ","),
        "tets": ("tets", ","),
        "cubature": ("cubature", ","),
        "step ms": ("step_ms", ".3f"),
        "in dgemm": ("step_in_dgemm", ".2f"),
        "build s": ("build_s", ".1f"),
    },
    captions={"step_ms": "a step grows", "build_s": "a build"},
)


def measure_rig_space(
    path: Path,
    *,
    parameters: Mapping[str, Sequence[int]] = FREE_PARAMETERS,
    tets: Sequence[int] = FREE_TETS,
    steps: int = 300,
    quiet: bool = False,
) -> Row:
    """Time builds and steps by number of free parameters and of tets; draw and write the times.

    See `measure_growth` for `path` and the figures; `parameters` has numbers by kind.
    """
    check_steps(steps)
    cases = [(kind, kind, k, _FIXED_TETS) for kind, numbers in parameters.items() for k in numbers]
    cases += [("tets", "shapes", _FIXED_FREE, size) for size in tets]
    measured = {
        f"{line}, {k} free, {size:,} tets": (line, partial(_free_row, kind, k, size, steps))
        for line, kind, k, size in cases
    }
    return measure_growth(path, measured, RIG_SPACE, rig_space_picture, steps=steps, quiet=quiet)


def _free_row(kind: str, free: int, tets: int, steps: int) -> Row:
    """Measure a character's build on all cores, and its steps on one."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "case.supple"
        seconds = with_cores(None, _build_free, kind, free, tets, path)
        return {"build_s": round(seconds, 3)} | with_cores(1, _step_free, path, steps)


def _build_free(kind: str, free: int, tets: int, path: Path) -> float:
    case = made_trunk(free, tets) if kind == "wire" else made_belly(free, tets)
    return rig_space_bench.timed_build(case.character, case.options, path)


def _step_free(path: Path, steps: int) -> Row:
    model: Any = load_model(path)
    figures = rig_space_bench.step_figures(model, steps)
    names = ("step_ms", "p99_over_median", "dgemm256_ms", "step_in_dgemm")
    return dict(model.figures) | {name: round(figures[name], 4) for name in names}


def rig_space_picture(figures: Row) -> Figure:
    """Draw milliseconds of a step above, seconds of a build below, on logarithmic axes."""
    figure = Figure(figsize=(9.6, 7.4), facecolor=PAPER, layout="constrained")
    figure.suptitle("Rig-space: a step and a build as free parameters and tets grow", color=INK)
    parts: Any = figure.subplots(2, 2)
    fixed = (f"parameters, {_FIXED_TETS:,} tets", f"tets, {_FIXED_FREE} shapes")
    for row, (key, label) in enumerate(_RIG_LABELS.items()):
        for k, lines in enumerate((("wire", "shapes"), ("tets",))):
            axes, over = parts[row][k], RIG_SPACE.over[lines[0]]
            for line in lines:
                colour = "#2f6f8f" if line == "wire" else "#b5483a"
                plot_growth(axes, figures, line, over, key, _RIG_LINES[line], color=colour)
                if key == "step_ms" and line != "wire":
                    x, dense = ([r[name] for r in figures[line]] for name in (over, "dgemm256_ms"))
                    text = "a 256³ product in the same run"
                    axes.plot(x, dense, ":", color=INK, lw=1.2, label=text)
            ticks = sorted({each[over] for line in lines for each in figures[line]})
            growth_axes(axes, fixed[k], label, ticks)
    return figure


# Soft skeletons: handles, cubature tets and contacts


HANDLES = (20, 41, 82, 176)
CUBATURE = (125, 250, 500, 1_000, 2_000)
#: Radii of the ball that is pressed into the body, relative to its height.
BALLS = (0.01, 0.02, 0.04, 0.08, 0.16)
#: Fixed numbers while another grows, those of the paper's body.
_HANDLES, _CUBATURE, _BALL = 82, 500, 0.06
PARTS = {
    "step_ms": ("a step", "#2b2b33"),
    "force_ms": ("force", "#7a9e57"),
    "hessian_ms": ("Hessian", "#3d7ab8"),
    "solve_ms": ("solution", "#8a6bb0"),
    "contact_ms": ("contact", "#c8453b"),
    "skin_ms": ("skin", "#c9a13b"),
}
_SIZES = ("handles", "cubature", "coordinates", "contacts", "most_contacts", "step_in_dgemm")
SOFT_SKELETON = Growth(
    over={"handles": "handles", "cubature": "cubature", "contacts": "most_contacts"},
    # The number of contacts varies too little for a fit.
    fitted=(("handles", "cubature"), tuple(key for key in PARTS if key != "skin_ms")),
    required=(*PARTS, *_SIZES),
    titles={
        "handles": "As handles grow",
        "cubature": "As cubature tets grow",
        "contacts": "As contacts grow",
    },
    columns={
        **{key.replace("_", " "): (key, ",") for key in (*_SIZES[:3], "most_contacts")},
        "in dgemm": ("step_in_dgemm", ".2f"),
        **{key.replace("_", " "): (key, ".2f") for key in PARTS},
        "build s": ("build_s", ".1f"),
    },
    captions={key: name for key, (name, _) in PARTS.items()} | {"step_ms": "Growth: a step"},
)


def measure_soft_skeleton(
    path: Path,
    *,
    handles: Sequence[int] = HANDLES,
    cubature: Sequence[int] = CUBATURE,
    balls: Sequence[float] = BALLS,
    body: str = "human",
    tets: int | None = None,
    steps: int = 180,
    quiet: bool = False,
) -> Row:
    """Time steps by number of handles, of cubature tets and of contacts; draw and write the times.

    `balls` are radii of the pressed ball, `body` is the name of a scene; see `measure_growth`.
    """
    check_steps(steps)
    cases = [("handles", h, _CUBATURE if h <= _HANDLES else 6 * h, _BALL) for h in handles]
    cases += [("cubature", _HANDLES, c, _BALL) for c in cubature]
    cases += [("contacts", _HANDLES, _CUBATURE, ball) for ball in balls]
    with TemporaryDirectory() as folder:
        measured = {
            f"{body} of {tets} tets, {line}: {h} handles, {c} tets, ball {ball:g}": (
                line,
                partial(_soft_row, Path(folder), body, tets, h, c, ball, steps),
            )
            for line, h, c, ball in cases
        }
        draw = soft_skeleton_picture
        return measure_growth(path, measured, SOFT_SKELETON, draw, steps=steps, quiet=quiet)


def _soft_row(
    folder: Path, body: str, tets: int | None, handles: int, cubature: int, ball: float, steps: int
) -> Row:
    """Measure a model's build on all cores and its steps on one; charts share models."""
    path, times = folder / f"{handles}-{cubature}.supple", folder / f"{handles}-{cubature}.txt"
    if not times.exists():
        sizes = {"handles": handles, "cubature": cubature}
        sizes |= {} if tets is None else {"tets": tets}
        times.write_text(f"{with_cores(None, _build_soft, body, sizes, path):.3f}")
    return {"build_s": float(times.read_text())} | with_cores(1, _step_soft, path, ball, steps)


def _build_soft(body: str, sizes: Row, path: Path) -> float:
    shown = scene(body)
    return soft_bench.timed_build(shown.character, shown.recipe("soft-skeleton") | sizes, path)


def _step_soft(path: Path, ball: float, steps: int) -> Row:
    model = SoftSkeletonModel.load(path)
    figures = dict(model.figures) | soft_bench.run_figures(lambda: pressed(model, ball), steps)
    return {key: round(figures[key], 4) for key in (*_SIZES, *PARTS)}


def soft_skeleton_picture(figures: Row) -> Figure:
    """Draw milliseconds of a step and its parts over each growing number; logarithmic axes."""
    figure = Figure(figsize=(12.6, 4.6), facecolor=PAPER, layout="constrained")
    figure.suptitle("Soft skeletons: a step as handles, cubature and contacts grow", color=INK)
    below = ("handles", "cubature tets, 82 handles", "contacts, 82 handles")
    lines = zip(figure.subplots(1, 3, sharey=True), SOFT_SKELETON.over.items(), below, strict=True)
    for axes, (line, over), text in lines:
        for key, (name, colour) in PARTS.items():
            style = {"color": colour, "lw": 2.2 if key == "step_ms" else 1.2, "ms": 4}
            plot_growth(axes, figures, line, over, key, name, lowest=1e-3, **style)
        ticks = sorted({max(row[over], 1) for row in figures[line]})
        growth_axes(axes, text, "milliseconds" if line == "handles" else "", ticks)
    return figure


# StVK bodies: modes and elements


MODES = (5, 10, 20, 40, 80)
ELEMENTS = (1_000, 3_000, 10_000, 30_000, 100_000)
#: Number of tets while modes grow, and of modes while elements grow.
_TETS, _MODES = 2_592, 20
#: Duration of repeated measurements in s, and their number; the shortest time counts.
_ENOUGH, _MOST_REPEATS = 1.0, 10
_STVK_LABELS = {"precompute_s": "precomputing, s", "step_us": "a step, µs"}
STVK = Growth(
    over={"modes": "modes", "tets": "elements", "voxels": "elements"},
    fitted=(("modes", "tets", "voxels"), tuple(_STVK_LABELS)),
    required=("elements", "modes", "gemv_us", *_STVK_LABELS),
    titles={
        "modes": f"As modes grow, {_TETS:,} tets",
        "tets": f"As tets grow, {_MODES} modes",
        "voxels": f"As voxels grow, {_MODES} modes",
    },
    columns={
        "elements": ("elements", ","),
        "modes": ("modes", ""),
        "precompute s": ("precompute_s", ".4f"),
        "step µs": ("step_us", ".2f"),
        "gemv µs": ("gemv_us", ".2f"),
    },
    captions={"precompute_s": "precomputing grows", "step_us": "a step"},
)


def measure_stvk(
    path: Path,
    *,
    modes: Sequence[int] = MODES,
    elements: Sequence[int] = ELEMENTS,
    steps: int = 1_000,
    quiet: bool = False,
) -> Row:
    """Time beams by number of modes and of elements; draw and write the times.

    See `measure_growth` for `path` and the figures.
    """
    check_steps(steps, 1)
    cases = [("modes", "tets", _TETS, r) for r in modes]
    cases += [(kind, kind, size, _MODES) for kind in ("tets", "voxels") for size in elements]
    measured = {
        f"{line}: {size:,} {kind}, {r} modes": (
            line,
            partial(with_cores, None, _stvk_row, kind, size, r, steps),
        )
        for line, kind, size, r in cases
    }
    return measure_growth(path, measured, STVK, stvk_picture, steps=steps, quiet=quiet)


def _stvk_row(kind: str, size: int, r: int, steps: int) -> Row:
    """Measure one body in a separate process."""
    mesh, material = _beam(kind, size), Material("stvk", young=1e6)
    basis = smooth_basis(mesh.vertices, r)
    times: list[float] = []
    while (sum(times) < _ENOUGH and len(times) < _MOST_REPEATS) or len(times) < 2:
        model = None  # frees the memory of the last one
        began = perf_counter()
        model = StvkModel.from_basis(mesh, material, basis)
        times.append(perf_counter() - began)
    assert model is not None
    times_of_step = stvk_bench.step_times(model, 1e-4, steps)
    chosen = {key: times_of_step[key] for key in ("step_us", "gemv_us", "dgemm256_ms")}
    size = len(model.groups.of_element)
    return {"elements": size, "modes": r, "precompute_s": round(min(times), 5), **chosen}


def _beam(kind: str, size: int) -> Any:
    """Return a beam of about `size` elements, seven cubes long for each cube across."""
    bricks = size / 6 if kind == "tets" else size
    across = max(1, round((bricks / 7) ** (1 / 3)))
    cells = max(1, round(bricks / across**2)), across, across
    edge = 1 / 6 / across
    if kind == "tets":
        return beam(np.array(cells) * edge, cells)
    voxels = voxels_around((np.indices(cells).reshape(3, -1).T + 0.5) * edge, edge)
    return HexMesh(voxels.vertices, voxels.hexes)


def smooth_basis(vertices: Floats, r: int) -> Floats:
    """Return orthonormal modes (n, 3, r): polynomials of low degree that vanish at the lowest x."""
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


def stvk_picture(figures: Row) -> Figure:
    """Draw precomputation and steps over modes and over elements on logarithmic axes."""
    figure = Figure(figsize=(9.6, 7.4), facecolor=PAPER, layout="constrained")
    figure.suptitle("StVK bodies as modes and elements grow", color=INK, fontsize=13)
    parts: Any = figure.subplots(2, 2)
    for row, (key, label) in enumerate(_STVK_LABELS.items()):
        modes, elements = parts[row]
        plot_growth(modes, figures, "modes", "modes", key, "Supple", color="#2f6f8f")
        if key == "step_us":
            x, reads = ([each[k] for each in figures["modes"]] for k in ("modes", "gemv_us"))
            modes.plot(x, reads, ":", color=INK, lw=1.2, label="reading its coefficients (gemv)")
        cases, printed = stvk_bench.CASES, stvk_bench.PAPER
        paper = [(cases[name].modes, times[row]) for name, times in printed.items()]
        style = {"color": "#8a8375", "ms": 5, "label": "barbic2005, its bodies"}
        modes.plot(*np.transpose(paper), "D", **style)
        for kind, colour in (("tets", "#2f6f8f"), ("voxels", "#b5483a")):
            plot_growth(elements, figures, kind, "elements", key, kind, color=colour)
        for axes, name, line in ((modes, "modes", "modes"), (elements, "elements", "tets")):
            ticks = sorted({each[name] for each in figures[line]})
            growth_axes(axes, f"{name}{_fixed(figures, line)}", label, ticks)
    return figure


def _fixed(figures: Row, line: str) -> str:
    """Return the number that does not grow, as text."""
    for row in figures[line]:
        return f" ({row['elements']:,} tets)" if line == "modes" else f" ({row['modes']} modes)"
    return ""
