"""barbic2005 fig. 10: a basis from sketched loads, and the cost of its static solutions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

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
from supple.lab.reproduce.barbic2005.bodies import draw_body, height_to_width, shown_scene
from supple.lab.reproduce.figures import Tell, new_figure
from supple.mesh.hex_embedding import embed_hexes
from supple.scenes.bodies.elastic_scene import ElasticScene


class PaperSketch(NamedTuple):
    """Numbers of loads and selected shapes, and seconds of the static solutions."""

    loads: int
    shapes: int | None
    seconds: float


PAPER = {"spoon": PaperSketch(353, None, 45 * 60.0), "bridge": PaperSketch(326, 142, 2.4 * 3600.0)}
#: Minimum distance of selected shapes, relative to the largest shape.
_SEPARATION = 0.02
#: Directions of the loads, mostly up and down.
_DIRECTIONS = np.array(
    [[0, 1, 0], [0, -1, 0], [0, 1, 0.5], [0, -1, 0.5], [0, 1, -0.5], [0, -1, -0.5]]
)
#: Displacement of the linear model in parts of the size, and number of loads.
_REACH = {"spoon": 0.7, "bridge": 0.08}
_STEPS = {"spoon": 12, "bridge": 3}
_MOST_ITERATIONS = 30


@dataclass(frozen=True, eq=False)
class Sketch:
    """Loads (t, n, 3), static shapes under them, and the basis of these shapes."""

    scene: ElasticScene
    body: HexBody
    loads: Floats
    shapes: Floats
    selected: NDArray[np.int64]
    basis: Floats
    seconds: float


#: Cached sketches, which two figures use.
_sketches: dict[tuple[str, bool], Sketch] = {}


def sketched(name: str, quick: bool, tell: Tell) -> Sketch:
    """Return a sketch of a body: static shapes under increasing loads at one or three points."""
    if (name, quick) not in _sketches:
        _sketches[name, quick] = _sketch(name, quick, tell)
    return _sketches[name, quick]


def _sketch(name: str, quick: bool, tell: Tell) -> Sketch:
    scene = shown_scene(name, quick)
    body = scene.body()
    loads = pulling_loads(
        body,
        _places(scene),
        fixed=scene.fixed,
        reach=_REACH[name],
        steps=6 if quick else _STEPS[name],
        directions=_DIRECTIONS,
    )
    began = perf_counter()
    shapes = static_shapes(
        body, loads, fixed=scene.fixed, progress=lambda part, text: tell(part, f"{name}, {text}")
    )
    seconds = perf_counter() - began
    weighed = shapes * np.sqrt(body.vertex_masses())[:, None]
    selected = far_apart(weighed.reshape(len(shapes), -1), _SEPARATION)
    columns = np.ascontiguousarray(shapes[selected].reshape(len(selected), -1).T)
    basis = principal_basis(body, columns, scene.modes, scene.fixed)
    return Sketch(scene, body, np.array(loads), shapes, selected, basis, seconds)


def _places(scene: ElasticScene) -> list[int]:
    """Return the loaded vertices: the spoon's tip, or the bridge's middle and quarters."""
    if scene.name == "spoon":
        return [scene.pulled]
    x = scene.mesh.vertices
    quarter = np.array([0.25 * float(np.ptp(x[:, 0])), 0.0, 0.0])
    places = (x[scene.pulled] + side * quarter for side in (-1, 1))
    return [scene.pulled, *(int(np.linalg.norm(x - at, axis=1).argmin()) for at in places)]


def fig10(folder: Path, *, quick: bool = False, tell: Tell) -> dict[str, Any]:
    """Compute static shapes of spoon and bridge, and compare three models under one load."""
    names = ("spoon",) if quick else tuple(PAPER)
    rows, shown = [], []
    for at, name in enumerate(names):
        sketch = sketched(name, quick, partial(_tell_part, tell, 0.9 / len(names), at))
        results = _under_one_load(sketch)
        rows.append(_row(name, sketch, results, quick))
        shown.append((name, sketch.scene, results))
    tell(0.95, "drawing")
    save_picture(_picture(shown), folder / "barbic2005-fig10.png")
    return {
        "title": "barbic2005 fig. 10: precomputing a basis from a sketch",
        "message": " ".join(_summary(row) for row in rows),
        "rows": rows,
        "note": "In the paper a user draws the loads; ours act at the tip of the spoon and at "
        "three points of the bridge, in six directions with increasing strength, and are fewer. "
        "Seconds on all cores. The paper's number of the spoon's shapes is illegible. Off: "
        "mass-weighted RMS distance from the full shape, relative to its displacement.",
    }


def _tell_part(tell: Tell, part: float, number: int, done: float, text: str) -> None:
    """Report the progress of one of several equal parts."""
    tell(part * (number + done), text)


def _summary(row: dict[str, Any]) -> str:
    return (
        f"{row['body'].capitalize()}: a static shape takes {row['seconds_a_load']['ours']:.2g} s; "
        f"under one of the strongest loads the error of the reduced body is "
        f"{100 * row['reduced_off']:.2g} %, that of the linear one {100 * row['linear_off']:.2g} %."
    )


def _row(name: str, sketch: Sketch, results: dict[str, Floats], quick: bool) -> dict[str, Any]:
    paper = PAPER[name]
    count = len(sketch.loads)

    def pair(ours: float, theirs: float | None) -> dict[str, float | None]:
        return {"ours": ours, "paper": None if quick else theirs}

    return {
        "body": name,
        "loads": pair(count, paper.loads),
        "shapes_kept": pair(len(sketch.selected), paper.shapes),
        "static_solve_s": pair(sketch.seconds, paper.seconds),
        "seconds_a_load": pair(sketch.seconds / count, paper.seconds / paper.loads),
        "reduced_off": _off(sketch, results["reduced"], results["full"]),
        "linear_off": _off(sketch, results["linear"], results["full"]),
    }


def _off(sketch: Sketch, shape: Floats, truth: Floats) -> float:
    mass = sketch.body.vertex_masses()
    wrong, right = ((field**2).sum(axis=1) @ mass for field in (shape - truth, truth))
    return float(np.sqrt(wrong / right))


def _under_one_load(sketch: Sketch) -> dict[str, Floats]:
    """Return displacements (n, 3) of linear, full and reduced body under the strongest load."""
    farthest = int(np.abs(sketch.shapes).max(axis=(1, 2)).argmax())
    load, full = sketch.loads[farthest], sketch.shapes[farthest]
    modes = body_modes(sketch.body, 1, fixed=sketch.scene.fixed)
    linear = modes.compliance(load.reshape(-1, 1)).reshape(-1, 3)
    return {"linear": linear, "full": full, "reduced": _reduced_rest(sketch, load, full)}


def _reduced_rest(sketch: Sketch, load: Floats, start: Floats) -> Floats:
    """Return the equilibrium of the reduced body; Newton starts at the shape nearest to `start`."""
    basis, scene = sketch.basis, sketch.scene
    model = StvkModel.from_basis(scene.mesh, scene.material, basis)
    heavy = sketch.body.vertex_masses()[:, None] * start
    q = np.einsum("nkr,nk->r", basis, heavy)
    pull = np.einsum("nkr,nk->r", basis, load)
    for _ in range(_MOST_ITERATIONS):
        change = np.linalg.solve(model.stiffness(q), pull - model.force(q))
        q = q + change
        if np.abs(change).max() <= 1e-9 * np.abs(q).max():
            return basis @ q
    raise SolverError("no equilibrium of the reduced body under its load; use a smaller load")


def _picture(shown: list[tuple[str, ElasticScene, dict[str, Floats]]]) -> Figure:
    """Draw a row for each body: linear, full and reduced shapes under the same load."""
    captions = {
        "linear": "linear model",
        "full": "full body at rest, offline",
        "reduced": "reduced, r = {}",
    }
    seen = []
    for _, scene, results in shown:
        embedding = embed_hexes(scene.surface.vertices, scene.mesh)
        seen.append([scene.surface.vertices + embedding @ results[key] for key in captions])
    heights = [
        3.4 * height_to_width(name, shapes) + 0.3
        for (name, _, _), shapes in zip(shown, seen, strict=True)
    ]
    title = "Basis from a sketch: one load on three models"
    figure = new_figure((10.5, sum(heights) + 0.5), title, 12)
    grid = figure.subplots(len(shown), 3, squeeze=False, height_ratios=heights)
    for line, (name, scene, _), shapes in zip(grid, shown, seen, strict=True):
        for axes, shape, caption in zip(line, shapes, captions.values(), strict=True):
            text = f"{name}, {caption.format(scene.modes)}"
            draw_body(axes, name, scene.surface, shape, text, limits=shapes)
    return figure
