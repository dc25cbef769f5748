"""xu2016 fig. 11: a pulled cheek and ear, with local bases and with global modes."""

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
from supple.arrays import Bools, Floats, Singles
from supple.elastic.body import ElasticBody
from supple.engines.engine import CharacterEngine
from supple.engines.full.full_character import FullCharacterSimulator
from supple.engines.pose_space.build.build import build
from supple.engines.pose_space.model.model import PoseSpaceModel
from supple.engines.pose_space.simulator import PoseSpaceSimulator
from supple.engines.pose_space.step_options import PAPERS_INTEGRATOR
from supple.lab.reproduce.figures import frame_view, new_figure
from supple.mesh.surface import SurfaceMesh
from supple.progress import Progress
from supple.reduction.modes import linear_modes
from supple.reduction.null_space import null_space
from supple.reduction.regions.handles import Handle
from supple.scenes.characters.character_scene import Scene, scene

#: Steps with the pull and after it.
_PULLED, _RELEASED = 60, 60
#: Smallest displacement in the picture, relative to the largest.
_FAINTEST = 1e-4
_GLOBAL = (100, 180)
#: Smallest x of the left hand, in m.
_HAND = 0.5
_QUICK: dict[str, Any] = {
    "tets": 800,
    "modes": (4, 5, 4, 4, 4, 4),
    "elastic_cubature": 50,
    "inertial_cubature": 25,
}


@dataclass(frozen=True, eq=False)
class _Load:
    """Pull of a force in N on the skin within a radius of a place, in m."""

    place: Floats
    radius: float
    force: Floats

    def forces(self, surface: SurfaceMesh) -> dict[int, Floats]:
        """Return the forces on vertices, with a maximum in the centre of the patch."""
        distances = np.linalg.norm(surface.vertices - self.place, axis=1) / self.radius
        areas = igl.massmatrix(surface.vertices, surface.triangles).diagonal()
        shares = areas * np.maximum(0.0, 1 - distances**2)
        shares /= shares.sum()
        return {int(vertex): shares[vertex] * self.force for vertex in np.flatnonzero(shares)}

    def patch(self, surface: SurfaceMesh) -> Bools:
        """Return a mask of the vertices that are pulled."""
        return np.linalg.norm(surface.vertices - self.place, axis=1) < self.radius


_CHEEK = np.array([[0.2, 0.95, 0.1]])
#: Sides of the bear, and numbers of modes with a region for each cheek: 100 in all.
_SIDES, _WITH_CHEEKS = (("L", 1), ("R", -1)), (16, 16, 12, 12, 12, 12, 10, 10)
LOADS = {
    "cheek": _Load(_CHEEK[0], 0.12, 100.0 * np.array([0.91, 0.18, 0.37])),
    "ear": _Load(np.array([0.2, 1.3, 0.06]), 0.09, 20.0 * np.array([0.91, 0.18, 0.37])),
}


@dataclass(frozen=True, eq=False)
class _Response:
    """Displacements of the skin during a pull and after it, (t, n, 3), and the pull's last step."""

    frames: Singles
    last: int

    @property
    def peak(self) -> Floats:
        """Largest displacement of each vertex, (n,), in m."""
        return np.linalg.norm(self.frames, axis=2).max(axis=0)

    def over(self, vertices: Bools) -> float:
        """Return the RMS of the largest displacements of some vertices, in m."""
        return _rms(self.peak[vertices])

    def represented(self, true: _Response, vertices: Bools) -> float:
        """Return the fraction of the true displacement at the end of the pull, by projection."""
        ours, theirs = (each.frames[self.last][vertices] for each in (self, true))
        return float((ours * theirs).sum() / (theirs * theirs).sum())

    def wrong(self, true: _Response, vertices: Bools) -> float:
        """Return the RMS of the largest distances from the true motion, in m."""
        apart = np.linalg.norm(self.frames[:, vertices] - true.frames[:, vertices], axis=2)
        return _rms(apart.max(axis=0))


def _rms(values: Floats) -> float:
    return float(np.sqrt(np.mean(np.square(values, dtype=np.float64))))


def run(folder: Path, *, quick: bool = False, progress: Progress) -> dict[str, Any]:
    """Pull cheek and ear with our regions, the paper's, with global modes, and in full."""
    bear = scene("bear")
    first = {"poses": {bear.pose_names[0]: bear.poses[0]}}
    recipe = bear.recipe() | first | (_QUICK if quick else {})
    progress(0.0, "regions")
    still = replace(bear.character, motions={})  # tets are not fitted to unused motions
    ours = build(still, **recipe)
    models = {f"our regions, {ours.n_modes} modes": ours}
    recipe["tets"] = ours.mesh
    if not quick:
        progress(0.05, "regions with cheeks")
        cheeks = [Handle(f"cheek.{side}", _CHEEK * [sign, 1, 1]) for side, sign in _SIDES]
        changes: dict[str, Any] = {"regions": (*bear.handles, *cheeks), "modes": _WITH_CHEEKS}
        models["cheek regions, 100 modes"] = build(still, **(recipe | changes))
        progress(0.1, "the paper's method")
        printed = bear.printed_recipe() | first | {"tets": ours.mesh}
        models[f"as printed, {ours.n_modes} modes"] = build(still, **printed)
    for at, modes in enumerate((ours.n_modes,) if quick else _GLOBAL):
        progress(0.2 + 0.2 * at, f"{modes} global modes")
        counts: dict[str, Any]
        counts = {} if quick else {"elastic_cubature": 3 * modes, "inertial_cubature": 2 * modes}
        changes = {"regions": None, "modes": modes} | counts
        models[f"global, {modes} modes"] = build(still, **(recipe | changes))
    surface = bear.character.surface
    steps = (5, 5) if quick else (_PULLED, _RELEASED)
    responses: dict[str, dict[str, _Response]] = {}
    for at, (load, pull) in enumerate(LOADS.items()):
        forces = pull.forces(surface)
        progress(0.6 + 0.15 * at, f"pulling the {load}")
        responses[load] = {}
        for name, model in models.items():
            simulator = PoseSpaceSimulator(model, integrator=PAPERS_INTEGRATOR)
            responses[load][name] = _pulled(simulator, forces, *steps)
        responses[load]["full simulation"] = _pulled(FullCharacterSimulator(ours), forces, *steps)
    progress(0.95, "drawing")
    parts = _parts(bear)
    save_picture(_picture(bear, parts, responses["cheek"]), folder / "fig11.png")
    return _figures(parts, responses, _first_modes(ours, parts, 20 if quick else 200))


def _pulled(
    simulator: CharacterEngine, forces: dict[int, Floats], pulled: int, released: int
) -> _Response:
    simulator.reset()
    rest = simulator.surface().copy()
    frames = np.empty((pulled + released, *rest.shape), np.float32)
    for step in range(pulled + released):
        simulator.step(forces=forces if step < pulled else None)
        frames[step] = simulator.surface() - rest
    return _Response(frames, pulled - 1)


def _parts(bear: Scene) -> dict[str, Bools]:
    """Return masks of skin vertices: the pulled parts, the left arm, and its hand."""
    surface = bear.character.surface
    arm = bear.parts == bear.part_names.index("arm.L")
    hand = {"left_arm": arm, "left_hand": arm & (surface.vertices[:, 0] > _HAND)}
    return {load: pull.patch(surface) for load, pull in LOADS.items()} | hand


def _first_modes(model: PoseSpaceModel, parts: dict[str, Bools], count: int) -> dict[str, Any]:
    """Return how much of the skin's motion in each global linear mode is in a part.

    For each part the first mode, from 1, of whose squared skin motion more than half is there.
    """
    body = ElasticBody(model.mesh, model.material())
    free = np.setdiff1d(np.arange(len(model.mesh.vertices)), model.fixed)
    stiffness = body.stiffness(body.rest, body.rest)
    space = null_space(None, len(body.rest), free=free)
    vectors = linear_modes(stiffness, body.vertex_masses(), count, null_space=space).vectors
    on_skin = np.einsum(
        "nk,nkjc->njc",
        model.embedding_weights,
        vectors.reshape(len(body.rest), 3, -1)[model.embedding_vertices],
    )
    squares = (on_skin**2).sum(axis=1)
    total, found = squares.sum(axis=0), {}
    for load in LOADS:
        share = squares[parts[load]].sum(axis=0) / total
        local = np.flatnonzero(share > 0.5)
        found[load] = {
            "largest_share": float(share.max()),
            "first_mode_with_half": int(local[0]) + 1 if len(local) else None,
        }
    return found | {"of_modes": count}


def _figures(
    parts: dict[str, Bools], responses: dict[str, dict[str, _Response]], modes: dict[str, Any]
) -> dict[str, Any]:
    rows, found = [], {}
    for load, by_name in responses.items():
        true, pulled = by_name["full simulation"], parts[load]
        reach = true.over(pulled)
        for name, response in by_name.items():
            row: dict[str, Any] = {"pulled": load, "basis": name}
            row["pulled_mm"] = 1000 * response.over(pulled)
            row["represented"] = response.represented(true, pulled)
            for part in ("left_arm", "left_hand"):
                row[f"{part}_percent"] = 100 * response.over(parts[part]) / reach
                row[f"{part}_wrong_percent"] = 100 * response.wrong(true, parts[part]) / reach
            rows.append(row)
        found[load] = {_short(row["basis"]): row for row in rows if row["pulled"] == load}
    sizes = {load: float(np.linalg.norm(pull.force)) for load, pull in LOADS.items()}
    pulls = ", ".join(f"{size:.0f} N on the {load}" for load, size in sizes.items())
    return {
        "title": "Fig. 11: pulling the bear's left cheek and ear",
        "message": _message(found["cheek"], found["ear"]),
        "rows": rows,
        "cheek": found["cheek"],
        "ear": found["ear"],
        "linear_modes": modes,
        "paper_modes_for_moving_cheeks": 180,
        "note": "Largest displacement of each vertex, RMS over a part, in a pull and after it, at "
        f"the neutral pose: {pulls}. Represented: fraction of the full simulation's displacement "
        "at the end of the pull. Arm and hand, in percent of the pulled part's motion in the full "
        "simulation: motion, and distance from the full simulation's (wrong). Linear modes: share "
        "of a mode's motion that is in the part.",
    }


def _short(basis: str) -> str:
    words = basis.replace(",", "").split()
    return {"our": "ours", "as": "printed", "full": "full", "cheek": "cheek_regions"}.get(
        words[0], "_".join(words[:2])
    )


def _message(cheek: dict[str, Any], ear: dict[str, Any]) -> str:
    """Return a summary: what each basis represents, and the motion of the far hand."""
    parts = [
        f"{name}: {100 * cheek[name]['represented']:.0f} % of the cheek's and "
        f"{100 * ear[name]['represented']:.0f} % of the ear's motion, far hand "
        f"{cheek[name]['left_hand_percent']:.2g} %"
        for name in cheek
        if name != "full"
    ]
    full = cheek["full"]["left_hand_percent"]
    return f"{'; '.join(parts)}. In the full simulation the hand moves {full:.2g} % of the cheek."


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
