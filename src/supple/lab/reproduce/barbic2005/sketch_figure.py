"""barbic2005 fig. 10: a basis from sketched loads."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from supple.app.pictures.drawing import save_picture
from supple.arrays import Floats
from supple.elastic.body import HexBody
from supple.engines.stvk.bases import body_modes, principal_basis
from supple.engines.stvk.model import StvkModel
from supple.engines.stvk.sketch import far_apart, pulling_loads, static_shapes
from supple.errors import SolverError
from supple.lab.reproduce.barbic2005.bodies import draw_body, height_to_width, pair, shown_scene
from supple.lab.reproduce.figures import new_figure
from supple.mesh.hex_embedding import embed_hexes
from supple.progress import Progress
from supple.scenes.bodies.elastic_scene import ElasticScene

#: Numbers of loads and selected shapes, and seconds of the static solutions, as printed.
PAPER_SKETCHES = {"spoon": (353, None, 45 * 60.0), "bridge": (326, 142, 2.4 * 3600.0)}
#: Minimum distance of selected shapes, relative to the largest shape.
_SEPARATION = 0.02
#: Directions of the loads, mostly up and down.
_DIRECTIONS = np.array(
    [[0, 1, 0], [0, -1, 0], [0, 1, 0.5], [0, -1, 0.5], [0, 1, -0.5], [0, -1, -0.5]]
)
#: Displacement of the linear model relative to the size, and number of selected loads in each
#: direction.
_LOAD_REACH = {"spoon": 0.7, "bridge": 0.08}
_LOAD_STEPS = {"spoon": 12, "bridge": 3}
#: Number of recorded loads for each selected one, as a drag is recorded at every frame.
_RECORDED = 8


@dataclass(frozen=True, eq=False)
class Sketch:
    """Selected loads (t, n, 3) of `recorded` ones, their static shapes, and the basis of these."""

    scene: ElasticScene
    body: HexBody
    recorded: int
    loads: Floats
    shapes: Floats
    selected: NDArray[np.int64]
    basis: Floats
    seconds: float


#: Cached sketches, which two figures use.
_sketches: dict[tuple[str, bool], Sketch] = {}


def sketched(name: str, quick: bool, progress: Progress) -> Sketch:
    """Return a `Sketch` of a body: static shapes under increasing loads at one or three points."""
    if (name, quick) in _sketches:
        return _sketches[name, quick]
    scene = shown_scene(name, quick)
    body = scene.body()
    steps = 6 if quick else _LOAD_STEPS[name]
    recorded = pulling_loads(
        body,
        _loaded_vertices(scene),
        fixed=scene.fixed,
        reach=_LOAD_REACH[name],
        steps=_RECORDED * steps,
        directions=_DIRECTIONS,
    )
    forces = np.array([load[load.any(axis=1)].ravel() for load in recorded])
    loads = np.array([recorded[k] for k in _spaced(forces, len(_DIRECTIONS), steps)])
    began = perf_counter()
    shapes = static_shapes(
        body,
        list(loads),
        fixed=scene.fixed,
        progress=lambda p, what: progress(p, f"{name}, {what}"),
    )
    seconds = perf_counter() - began
    weighed = shapes * np.sqrt(body.vertex_masses())[:, None]
    selected = far_apart(weighed.reshape(len(shapes), -1), _SEPARATION)
    columns = np.ascontiguousarray(shapes[selected].reshape(len(selected), -1).T)
    basis = principal_basis(body, columns, scene.modes, scene.fixed)
    sketch = Sketch(scene, body, len(recorded), loads, shapes, selected, basis, seconds)
    _sketches[name, quick] = sketch
    return sketch


def _spaced(forces: Floats, directions: int, steps: int) -> list[int]:
    """Return indices of recorded forces (t, 3) that are far enough from the last one selected.

    Forces at each vertex have a scale of their own: `steps` in each of its directions.
    """
    drag = directions * steps * _RECORDED
    return [
        first + int(k)
        for first in range(0, len(forces), drag)
        for k in far_apart(forces[first : first + drag], 0.999 / steps)
    ]


def _loaded_vertices(scene: ElasticScene) -> list[int]:
    """Return the loaded vertices: the spoon's tip, or the bridge's middle and quarters."""
    if scene.name == "spoon":
        return [scene.pulled]
    x = scene.mesh.vertices
    quarter = np.array([0.25 * float(np.ptp(x[:, 0])), 0.0, 0.0])
    places = (x[scene.pulled] + side * quarter for side in (-1, 1))
    return [scene.pulled, *(int(np.linalg.norm(x - at, axis=1).argmin()) for at in places)]


def fig10(folder: Path, *, quick: bool = False, progress: Progress) -> dict[str, Any]:
    """Compute static shapes of spoon and bridge, and compare three models under one load."""
    names = ("spoon",) if quick else tuple(PAPER_SKETCHES)
    rows, shown = [], []
    for at, name in enumerate(names):
        sketch = sketched(name, quick, partial(_report_part, progress, 0.9 / len(names), at))
        results = _under_one_load(sketch)
        rows.append(_sketch_row(name, sketch, results, quick))
        shown.append((name, sketch.scene, results))
    progress(0.95, "drawing")
    save_picture(_loads_picture(shown), folder / "barbic2005-fig10.png")
    return {
        "title": "barbic2005 fig. 10: precomputing a basis from a sketch",
        "message": " ".join(_summary(row) for row in rows),
        "rows": rows,
        "note": "In the paper a user draws the loads; ours act at the tip of the spoon and at "
        "three points of the bridge, in six directions with increasing strength. Of the recorded "
        "loads those far enough apart are solved, fewer than in the paper. "
        "Seconds on all cores. The paper's number of the spoon's shapes is illegible. Off: "
        "mass-weighted RMS distance from the full shape, relative to its displacement.",
    }


def _report_part(progress: Progress, part: float, number: int, done: float, text: str) -> None:
    progress(part * (number + done), text)


def _summary(row: dict[str, Any]) -> str:
    return (
        f"{row['body'].capitalize()}: a static shape takes {row['seconds_a_load']['ours']:.2g} s; "
        f"under one of the strongest loads the error of the reduced body is "
        f"{100 * row['reduced_off']:.2g} %, that of the linear one {100 * row['linear_off']:.2g} %."
    )


def _sketch_row(
    name: str, sketch: Sketch, results: dict[str, Floats], quick: bool
) -> dict[str, Any]:
    (loads, shapes, seconds), count = PAPER_SKETCHES[name], len(sketch.loads)
    return {
        "body": name,
        "recorded_loads": sketch.recorded,
        "selected_loads": pair(count, loads, quick),
        "shapes_kept": pair(len(sketch.selected), shapes, quick),
        "static_solve_s": pair(sketch.seconds, seconds, quick),
        "seconds_a_load": pair(sketch.seconds / count, seconds / loads, quick),
        "reduced_off": _off(sketch, results["reduced"], results["full"]),
        "linear_off": _off(sketch, results["linear"], results["full"]),
    }


def _off(sketch: Sketch, shape: Floats, truth: Floats) -> float:
    mass = sketch.body.vertex_masses()
    wrong, right = ((field**2).sum(axis=1) @ mass for field in (shape - truth, truth))
    return float(np.sqrt(wrong / right))


def _under_one_load(sketch: Sketch) -> dict[str, Floats]:
    """Return displacements (n, 3) of each model, by name, under the load that moves it farthest."""
    farthest = int(np.abs(sketch.shapes).max(axis=(1, 2)).argmax())
    load, full = sketch.loads[farthest], sketch.shapes[farthest]
    modes = body_modes(sketch.body, 1, fixed=sketch.scene.fixed)
    linear = modes.compliance(load.reshape(-1, 1)).reshape(-1, 3)
    return {"linear": linear, "full": full, "reduced": _reduced_rest(sketch, load, full)}


def _reduced_rest(sketch: Sketch, load: Floats, start: Floats) -> Floats:
    """Return displacements (n, 3) of the reduced body at equilibrium, by Newton from `start`."""
    basis, scene = sketch.basis, sketch.scene
    model = StvkModel.from_basis(scene.mesh, scene.material, basis)
    heavy = sketch.body.vertex_masses()[:, None] * start
    q = np.einsum("nkr,nk->r", basis, heavy)
    pull = np.einsum("nkr,nk->r", basis, load)
    at = model.equilibrium(pull, q)
    if at is None:
        raise SolverError("no equilibrium of the reduced body under its load; use a smaller load")
    shape: Floats = basis @ at
    return shape


def _loads_picture(shown: list[tuple[str, ElasticScene, dict[str, Floats]]]) -> Figure:
    """Draw a row for each body: linear, full and reduced shapes under the same load."""
    captions = {"linear": "linear model", "full": "full body at rest, offline"}
    captions["reduced"] = "reduced, r = {}"
    rows, heights = [], []
    for name, scene, results in shown:
        embedding = embed_hexes(scene.surface.vertices, scene.mesh)
        rows.append([scene.surface.vertices + embedding @ results[key] for key in captions])
        heights.append(3.4 * height_to_width(name, rows[-1]) + 0.3)
    title = "Basis from a sketch: one load on three models"
    figure = new_figure((10.5, sum(heights) + 0.5), title, 12)
    grid = figure.subplots(len(shown), 3, squeeze=False, height_ratios=heights)
    for line, (name, scene, _), shapes in zip(grid, shown, rows, strict=True):
        for axes, shape, caption in zip(line, shapes, captions.values(), strict=True):
            text = f"{name}, {caption.format(scene.modes)}"
            draw_body(axes, name, scene.surface, shape, text, limits=shapes)
    return figure
