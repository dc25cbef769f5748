"""xu2016 fig. 11: a pulled cheek, with local bases and with global modes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import igl
import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from supple.app.pictures.drawing import INK, PAPER, draw_surface, save_picture, view_axes
from supple.arrays import Bools, Floats
from supple.engines.engine import CharacterEngine
from supple.engines.full.full_character import FullCharacterSimulator
from supple.engines.pose_space.build.build import build
from supple.engines.pose_space.simulator import PoseSpaceSimulator
from supple.engines.pose_space.step_options import PAPERS_INTEGRATOR
from supple.lab.reproduce.figures import frame_view, new_figure
from supple.mesh.surface import SurfaceMesh
from supple.progress import Progress
from supple.reduction.regions.region_weights import regions_of
from supple.scenes.characters.character_scene import Scene, scene

#: Centre of the left cheek, and radius of the pulled patch, in m.
_CHEEK, _HOLD = np.array([0.2, 0.95, 0.1]), 0.12
#: Force of the pull in N, outward and a little forward.
_PULL = 100.0 * np.array([0.91, 0.18, 0.37])
#: Numbers of steps with the pull and after it.
_PULLED, _RELEASED = 60, 60
#: Smallest displacement in the picture, relative to the largest.
_FAINTEST = 1e-4
_GLOBAL = (100, 180)
#: η and κ of xu2016 §7; our regions are larger, see `supple.reduction.regions.region_weights`.
_ETA, _KAPPA = 0.1, 0.5
#: Smallest x of the left hand, in m.
_HAND = 0.5
#: An arm at rest moves less than this fraction of its motion with global modes.
_STILL = 0.01
_QUICK: dict[str, Any] = {
    "tets": 800,
    "modes": (4, 5, 4, 4, 4, 4),
    "elastic_cubature": 50,
    "inertial_cubature": 25,
}


@dataclass(frozen=True, eq=False)
class _Response:
    """Displacements of the skin by a pull."""

    peak: Floats  # (n,) largest displacement of each skin vertex, in m
    held: Floats  # (n, 3) displacements at the end of the pull

    def over(self, vertices: Bools) -> float:
        """Return the RMS of the largest displacements of some vertices, in m."""
        return float(np.sqrt(np.mean(self.peak[vertices] ** 2)))


def run(folder: Path, *, quick: bool = False, progress: Progress) -> dict[str, Any]:
    """Pull the cheek with our regions, with global modes, and in the full simulation."""
    bear = scene("bear")
    recipe = bear.recipe() | {"poses": {bear.pose_names[0]: bear.poses[0]}}
    recipe |= _QUICK if quick else {}
    progress(0.0, "regions")
    still = replace(bear.character, motions={})  # tets are not fitted to unused motions
    ours = build(still, **recipe)
    models = {f"our regions, {ours.n_modes} modes": ours}
    recipe["tets"] = ours.mesh
    if not quick:
        progress(0.1, "the paper's regions")
        theirs = regions_of(ours.mesh, bear.handles, ours.fixed, threshold=_ETA, exponent=_KAPPA)
        name = f"paper's regions, {ours.n_modes} modes"
        models[name] = build(still, **(recipe | {"regions": theirs}))
    for at, modes in enumerate((ours.n_modes,) if quick else _GLOBAL):
        progress(0.2 + 0.25 * at, f"{modes} global modes")
        changes = {"regions": None, "modes": modes}
        models[f"global, {modes} modes"] = build(still, **(recipe | changes))
    forces = _cheek_forces(bear.character.surface)
    steps = (5, 5) if quick else (_PULLED, _RELEASED)
    responses: dict[str, _Response] = {}
    for name, model in models.items():
        progress(0.7, f"pulling: {name}")
        responses[name] = _pulled(
            PoseSpaceSimulator(model, integrator=PAPERS_INTEGRATOR), forces, *steps
        )
    progress(0.8, "pulling: full simulation")
    responses["full simulation"] = _pulled(FullCharacterSimulator(ours), forces, *steps)
    progress(0.95, "drawing")
    parts = _parts(bear)
    save_picture(_picture(bear, parts, responses), folder / "fig11.png")
    return _figures(parts, responses)


def _cheek_forces(surface: SurfaceMesh) -> dict[int, Floats]:
    """Return the forces of the pull, distributed over the patch with a maximum in its centre."""
    distances = np.linalg.norm(surface.vertices - _CHEEK, axis=1) / _HOLD
    areas = igl.massmatrix(surface.vertices, surface.triangles).diagonal()
    shares = areas * np.maximum(0.0, 1 - distances**2)
    shares /= shares.sum()
    return {int(vertex): shares[vertex] * _PULL for vertex in np.flatnonzero(shares)}


def _pulled(
    simulator: CharacterEngine, forces: dict[int, Floats], pulled: int, released: int
) -> _Response:
    simulator.reset()
    rest = np.asarray(simulator.surface(), np.float64)
    peak, held = np.zeros(len(rest)), np.zeros_like(rest)
    for step in range(pulled + released):
        simulator.step(forces=forces if step < pulled else None)
        displacements = simulator.surface() - rest
        peak = np.maximum(peak, np.linalg.norm(displacements, axis=1))
        if step + 1 == pulled:
            held = displacements
    return _Response(peak, held)


def _parts(bear: Scene) -> dict[str, Bools]:
    """Return masks of skin vertices: the cheek, the left arm, and its hand."""
    vertices = bear.character.surface.vertices
    arm = bear.parts == bear.part_names.index("arm.L")
    return {
        "cheek": np.linalg.norm(vertices - _CHEEK, axis=1) < _HOLD,
        "left_arm": arm,
        "left_hand": arm & (vertices[:, 0] > _HAND),
    }


def _figures(parts: dict[str, Bools], responses: dict[str, _Response]) -> dict[str, Any]:
    true = responses["full simulation"]
    usual = next(each for name, each in responses.items() if name.startswith("global"))
    ours = next(iter(responses.values()))
    rows = []
    for name, response in responses.items():
        row: dict[str, Any] = {"basis": name}
        for part, vertices in parts.items():
            row[f"{part}_mm"] = 1000 * response.over(vertices)
        row["cheek_part_of_full"] = response.over(parts["cheek"]) / true.over(parts["cheek"])
        row["hand_part_of_cheek"] = response.over(parts["left_hand"]) / response.over(
            parts["cheek"]
        )
        for part in ("left_arm", "left_hand"):
            row[f"{part}_to_global"] = response.over(parts[part]) / usual.over(parts[part])
        rows.append(row)
    relative = {part: ours.over(parts[part]) / usual.over(parts[part]) for part in parts}
    return {
        "title": "Fig. 11: pulling the bear's left cheek",
        "message": _message(parts, ours, usual, true),
        "rows": rows,
        "ours_to_global": relative,
        "full_to_global": {
            part: true.over(parts[part]) / usual.over(parts[part]) for part in parts
        },
        "arm_below_one_percent_of_global": relative["left_arm"] < _STILL,
        "paper_modes_for_moving_cheeks": 180,
        "note": "RMS over the part's skin of the largest displacement of each vertex, in a pull of "
        f"{np.linalg.norm(_PULL):.0f} N and after it, at the neutral pose. Our regions are larger "
        "than the paper's (η = 0.1, κ = ½). The paper's pictures show motion of the arm with "
        "global modes, none with regions.",
    }


def _message(parts: dict[str, Bools], ours: _Response, usual: _Response, true: _Response) -> str:
    """Return a summary of the arm's motion, absolute and relative to the cheek's."""
    arm, cheek = (
        ours.over(parts[part]) / usual.over(parts[part]) for part in ("left_arm", "cheek")
    )
    shares = [
        f"{100 * each.over(parts['left_arm']) / each.over(parts['cheek']):.2g} %"
        for each in (ours, usual, true)
    ]
    arm_state = "stays at rest, as in the paper" if arm < _STILL else "does not stay at rest"
    return (
        f"With our regions the left arm {arm_state}: it moves {arm:.2g} times as far as with "
        f"global modes, and the pulled cheek {cheek:.2g} times. Relative to the cheek's motion the "
        f"arm's is {shares[0]} with regions, {shares[1]} with global modes and {shares[2]} in the "
        "full simulation."
    )


def _picture(bear: Scene, parts: dict[str, Bools], responses: dict[str, _Response]) -> Figure:
    figure = new_figure((16.0, 4.6), "A pulled cheek: motion of the rest of the bear", 13)
    parts_of_it: Any = figure.subfigures(1, 2, width_ratios=(2.8, 1))
    left, right = parts_of_it
    panels = left.subplots(1, len(responses))
    norm, colours = LogNorm(_FAINTEST, 1.0), colormaps["YlOrRd"]
    vertices, triangles = bear.character.surface.vertices, bear.character.surface.triangles
    view = view_axes(18.0, 8.0)
    flat = vertices @ view[:2].T
    low, high = flat.min(axis=0) - 0.04, flat.max(axis=0) + 0.04
    for axes, (name, response) in zip(panels, responses.items(), strict=True):
        share = np.maximum(response.peak / response.peak.max(), _FAINTEST)
        tint = colours(norm(share[triangles].mean(axis=1)))[:, :3]
        draw_surface(axes, vertices, triangles, colour=tint, view=view, shadow=0.3)
        frame_view(axes, low, high)
        axes.set_title(
            f"{name}\ncheek {1000 * response.over(parts['cheek']):.2g} mm", color=INK, fontsize=10
        )
    left.colorbar(
        ScalarMappable(norm, colours),
        ax=panels,
        location="bottom",
        shrink=0.5,
        label="largest displacement of each vertex, relative to the maximum",
    )
    _bars(right.subplots(), parts, responses)
    return figure


def _bars(axes: Axes, parts: dict[str, Bools], responses: dict[str, _Response]) -> None:
    places = np.arange(len(responses))
    for at, (part, colour) in enumerate((("left_arm", "#d9a07a"), ("left_hand", "#2f6f8f"))):
        heights = [
            100 * each.over(parts[part]) / each.over(parts["cheek"]) for each in responses.values()
        ]
        bars = axes.bar(
            places + 0.4 * at, heights, 0.38, color=colour, label=part.replace("_", " ")
        )
        axes.bar_label(bars, fmt="%.2g", fontsize=8, color=INK)
    axes.set_xticks(
        places + 0.2, [name.replace(" ", "\n").replace(",", "") for name in responses], fontsize=8
    )
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.margins(y=0.25)
    axes.set_ylabel("motion of the arm, % of the cheek's", color=INK)
    axes.legend(frameon=False, fontsize=9)
    axes.grid(axis="y", alpha=0.25)
    axes.set_facecolor(PAPER)
