"""xu2016 fig. 5: bases with contact constraints prevent penetration of touching skins."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import igl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from supple.app.pictures.drawing import INK, PAPER, draw_surface, save_picture, view_axes
from supple.arrays import Floats, Ints
from supple.engines.pose_space.build.build import build
from supple.engines.pose_space.model.model import PoseSpaceModel
from supple.engines.pose_space.simulator import PoseSpaceSimulator
from supple.engines.pose_space.step_options import PAPERS_INTEGRATOR
from supple.lab.reproduce.figures import frame_view, label_chart, new_figure
from supple.mesh.boundary_contacts import (
    PosedBoundary,
    facing_triangles,
    find_boundary_contacts,
    posed_boundary,
)
from supple.mesh.surface import SurfaceMesh
from supple.playback.character_models import scene_model
from supple.progress import Progress
from supple.reduction.contact_constraints import contact_constraints
from supple.rig.tets.vertex_frames import rotate_basis
from supple.scenes.characters.character_scene import Scene, scene

#: Minimum distance of touching parts at the neutral pose, in mean edge lengths.
FAR = 2.0
#: Largest depth of the search relative to the size.
DEEPEST = 0.05
#: Offset from the skin at which winding numbers are computed, relative to twice the size.
_OUT = 1e-5


@dataclass(frozen=True, eq=False)
class Touching:
    """Vertices of a posed skin that face another part of it nearby."""

    vertices: Ints  # (k,) indices in ascending order
    normals: Floats  # (k, 3) outward normals, towards the touched part
    areas: Floats  # (k,) areas of skin around the vertices in m²

    def pressed(self, pressure: float, only: NDArray[np.bool_] | None = None) -> dict[int, Floats]:
        """Return forces in N of a pressure in Pa towards the touched part."""
        chosen = np.arange(len(self.vertices)) if only is None else np.flatnonzero(only)
        forces = pressure * self.areas[chosen, None] * self.normals[chosen]
        return dict(zip(self.vertices[chosen].tolist(), forces, strict=True))


def touching_skin(surface: SurfaceMesh, posed: ArrayLike, distance: float) -> Touching:
    """Return vertices of the skin that face another part within a distance."""
    unit, boundary = _scaled(surface, posed)
    touches = facing_triangles(boundary, surface.vertices / unit, distance / unit, _far(surface))
    near = touches.triangle >= 0
    vertices = boundary.vertices[near]
    areas = igl.massmatrix(np.asarray(posed, np.float64), surface.triangles).diagonal()
    return Touching(vertices, boundary.normals[near], areas[vertices])


def penetration(surface: SurfaceMesh, posed: ArrayLike) -> Floats:
    """Return depths (n,) in m of vertices inside other parts of a posed skin.
    A vertex is inside by its winding number; depths are distances to the nearest facing skin.
    """
    unit, boundary = _scaled(surface, posed)
    tree = igl.FastWindingNumberBVH()
    tree.init(boundary.points, boundary.triangles)
    outside = boundary.points[boundary.vertices] + _OUT * boundary.normals
    inside = np.asarray(tree.winding_number(outside)) > 0.5
    depths = np.zeros(len(surface.vertices))
    if not inside.any():
        return depths
    within = boundary._replace(
        vertices=boundary.vertices[inside], normals=np.ascontiguousarray(boundary.normals[inside])
    )
    touches = facing_triangles(within, surface.vertices / unit, 0.5 * DEEPEST, _far(surface))
    matched = (touches.triangle >= 0) & (touches.gap < 0)
    depths[within.vertices[matched]] = -unit * touches.gap[matched]
    return depths


def _scaled(surface: SurfaceMesh, posed: ArrayLike) -> tuple[float, PosedBoundary]:
    """Return a unit of length and the skin in it; float32 winding numbers need sizes below 1."""
    unit = 2.0 * surface.size
    return unit, posed_boundary(np.asarray(posed, np.float64) / unit, surface.triangles)


def _far(surface: SurfaceMesh) -> float:
    """Return the minimum distance of touching parts at the neutral pose, in units of `_scaled`."""
    corners = surface.vertices[surface.triangles]
    edge = float(np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2).mean())
    return FAR * edge / (2.0 * surface.size)


def outline(points: ArrayLike, triangles: Ints, origin: Floats, normal: Floats) -> Floats:
    """Return the segments (k, 2, 3) in which a plane cuts the triangles of a surface."""
    corners = np.asarray(points, np.float64)[triangles]
    heights = (corners - origin) @ normal
    heights = np.where(heights == 0, 1e-300, heights)  # no corner in the plane
    above = heights > 0
    cut = np.flatnonzero(above.any(axis=1) & ~above.all(axis=1))
    ends = []
    for a, b in ((0, 1), (1, 2), (2, 0)):
        ha, hb = heights[cut, a], heights[cut, b]
        crossed = (ha > 0) != (hb > 0)
        along = np.where(crossed, ha / np.where(crossed, ha - hb, 1.0), np.nan)
        start, stop = corners[cut, a], corners[cut, b]
        ends.append(start + along[:, None] * (stop - start))
    both = np.stack(ends, axis=1)  # one of three is NaN in each
    valid = ~np.isnan(both[:, :, 0])
    return both[valid].reshape(-1, 2, 3)


_FREE, _BOUND, _GREY = "#b5483a", "#2f6f8f", "#a9a9ac"
_SKIN, _TOUCHED = np.array([0.86, 0.80, 0.76]), np.array([0.80, 0.30, 0.26])
_HALF = 0.075  # half width of a cut's picture relative to the size


@dataclass(frozen=True, eq=False)
class Slice:
    """Plane through the middle of the skin in contact, and its intersection with the skin."""

    origin: Floats  # point of the plane
    axes: Floats  # rows right, up and normal
    skin: Floats  # (n, 3) positions of the skin

    @classmethod
    def through(cls, touching: Touching, posed: Floats, skin: NDArray) -> Slice:
        """Return the plane that fits the normals of the touching skin best."""
        points = posed[touching.vertices]
        centre = np.average(points, axis=0, weights=touching.areas)
        weighted = touching.normals * np.sqrt(touching.areas)[:, None]
        across = np.linalg.eigh(weighted.T @ weighted)[1]
        normal, up = across[:, 0], across[:, 2]
        signs = np.sign([normal[np.argmax(np.abs(normal))], up[np.argmax(np.abs(up))]])
        normal, up = signs[0] * normal, signs[1] * up
        return cls(centre, np.stack([np.cross(up, normal), up, normal]), np.asarray(skin, float))

    def cut(self, points: Floats, triangles: Ints) -> Floats:
        """Return segments in the plane, (k, 2, 2)."""
        segments = outline(points, triangles, self.origin, self.axes[2])
        return (segments - self.origin) @ self.axes[:2].T


def contact_picture(arm: _Case, skins: dict[str, NDArray], rows: list[dict[str, Any]]) -> Figure:
    """Draw touching skin, cuts without and with contact constraints, and depths by pressure."""
    title = "Skins pressed together, with and without contact constraints"
    figure = new_figure((14.0, 4.4), title, 13)
    where, free, bound, chart = figure.subplots(1, 4, width_ratios=(1.0, 1.0, 1.0, 1.25))
    _draw_where(where, arm)
    last = rows[-1]
    for axes, name, colour in ((free, "without", _FREE), (bound, "with", _BOUND)):
        _draw_cut(axes, arm, Slice.through(arm.touching, arm.skin, skins[name]), colour)
        axes.set_title(
            f"{name} contact in the basis, {last['pressure_kpa']:g} kPa:\n"
            f"{last[f'{name}_percent']:.2g} % of the size deep",
            color=INK,
            fontsize=10,
        )
    _draw_chart(chart, rows)
    return figure


def _draw_where(axes: Axes, arm: _Case) -> None:
    posed, triangles = arm.skin, arm.bound.surface.triangles
    marked = np.zeros(len(posed))
    marked[arm.touching.vertices] = 1.0
    share = marked[triangles].mean(axis=1)[:, None]
    view = view_axes(-12.0, 48.0)
    colours = (1 - share) * _SKIN + share * _TOUCHED
    draw_surface(axes, posed, triangles, colour=colours, view=view, shadow=0.35)
    flat = posed @ view[:2].T
    low, high = flat.min(axis=0), flat.max(axis=0)
    margin = 0.03 * (high - low).max()
    title = "the flexed arm; red: touching skin,\nwhich is pressed"
    frame_view(axes, low - margin, high + margin, title)


def _draw_cut(axes: Axes, arm: _Case, cut: Slice, colour: str) -> None:
    surface, unit = arm.bound.surface, 100.0  # cm
    rest, pressed = (unit * cut.cut(points, surface.triangles) for points in (arm.skin, cut.skin))
    axes.add_collection(LineCollection(list(rest), colors=_GREY, lw=1.0, label="at rest"))
    axes.add_collection(LineCollection(list(pressed), colors=colour, lw=1.6, label="pressed"))
    half = unit * _HALF * surface.size
    axes.set(xlim=(-half, half), ylim=(-half, half), aspect="equal")
    axes.set_xlabel("cut through both skins, cm", color=INK)
    axes.legend(framealpha=0.9, facecolor=PAPER, edgecolor="none", fontsize=8, loc="lower right")
    axes.set_facecolor(PAPER)


def _draw_chart(axes: Axes, rows: list[dict[str, Any]]) -> None:
    pressures = [row["pressure_kpa"] for row in rows]
    for name, colour, mark in (("without", _FREE, "s"), ("with", _BOUND, "o")):
        depths = [row[f"{name}_percent"] for row in rows]
        axes.plot(pressures, depths, marker=mark, color=colour, label=f"{name} contact")
    axes.axhline(0.2, color=INK, lw=0.8, ls="--")
    axes.text(pressures[0], 0.22, "0.2 %", color=INK, fontsize=9, va="bottom")
    axes.legend(frameon=False)
    beside = "deepest penetration, % of the size"
    label_chart(axes, "pressure on the touching skin, kPa", beside)


# Pressed skins


#: Pressures on all touching skin in Pa.
_PRESSURES = (300.0, 1000.0, 2000.0, 3000.0, 4000.0)
#: Allowed penetration relative to the size, and factor by which the other basis exceeds it.
_ALLOWED, _DEEPER = 0.002, 5.0
_STEPS = 90
#: Time span of the arm's motion in which it flexes twice, and frames between measurements.
_FLEXING, _EVERY = (0.6, 1.9), 6
#: Weight of the flexed pose above which its contact is expected.
_NEAR = 0.6
_QUICK: dict[str, Any] = {"tets": 1500, "modes": (5, 5, 5)}
_QUICK |= {"elastic_cubature": 40, "inertial_cubature": 15}


@dataclass(frozen=True, eq=False)
class _Case:
    """Pose with self-contact, and two models of it."""

    scene: Scene
    pose: str
    bound: PoseSpaceModel
    free: PoseSpaceModel
    touching: Touching
    skin: Floats
    depths: Floats  # penetration of the pose itself

    @property
    def models(self) -> dict[str, PoseSpaceModel]:
        return {"with": self.bound, "without": self.free}

    def deepest(self, posed: NDArray, before: Floats | None = None) -> float:
        """Return the deepest penetration beyond the rest shape's, relative to the size."""
        surface = self.bound.surface
        deeper = penetration(surface, posed) - (self.depths if before is None else before)
        return max(float(deeper.max()), 0.0) / surface.size


def run(folder: Path, *, quick: bool = False, progress: Progress) -> dict[str, Any]:
    """Press touching skins together, with and without contact constraints in the basis."""
    progress(0.02, "the arm")
    if quick:
        arm = _two_poses(scene("arm"), "flexed", _QUICK)
    else:
        bound = scene_model("arm")
        progress(0.15, "the arm without contact")
        arm = _case(scene("arm"), "flexed", bound, scene_model("arm", contacts=None))
    pressures = (2000.0, 10_000.0) if quick else _PRESSURES
    rows: list[dict[str, Any]] = []
    skins: dict[str, NDArray] = {}
    for at, pressure in enumerate(pressures):
        progress(0.4 + 0.2 * at / len(pressures), f"{pressure / 1000:g} kPa")
        row, skins = _pressed(arm, pressure, None, 40 if quick else _STEPS)
        rows.append({"pressure_kpa": pressure / 1000, **row})
    others = [] if quick else [*_one_sided(arm), *_in_motion(arm, progress), *_hug(progress)]
    progress(0.95, "drawing")
    save_picture(contact_picture(arm, skins, rows), folder / "fig5.png")
    return _figures(arm, rows, others)


def _figures(
    arm: _Case, rows: list[dict[str, Any]], others: list[dict[str, Any]]
) -> dict[str, Any]:
    deep = (row for row in rows if row["without_percent"] >= 100 * _DEEPER * _ALLOWED)
    strong = next(deep, rows[-1])
    rest = arm.bound.tet_rig(arm.scene.pose(arm.pose))
    contacts = find_boundary_contacts(arm.bound.mesh, None, rest)
    held = strong["with_percent"] < 100 * _ALLOWED and strong["without_percent"] >= max(
        100 * _DEEPER * _ALLOWED, _DEEPER * strong["with_percent"]
    )
    return {
        "title": "Fig. 5: a flexed arm whose skins press on each other",
        "message": _message(strong, rows, others),
        "contact_points": {"ours": len(contacts), "paper": 197},
        "constraint_rows": {
            "ours": contact_constraints(contacts, len(arm.bound.mesh.vertices)).shape[0],
            "paper": 54,
        },
        "constraints_left_by_the_basis": {
            name: _left_open(model, arm.pose) for name, model in arm.models.items()
        },
        "deepest_percent_of_size": {
            "pressure_kpa": strong["pressure_kpa"],
            "with": strong["with_percent"],
            "without": strong["without_percent"],
            "allowed_with": 100 * _ALLOWED,
            "at_any_pressure_with": max(row["with_percent"] for row in rows),
        },
        "held": held,
        "rows": rows,
        **({"other_loads": others} if others else {}),
        "note": "Penetration of the skin beyond that of the pose itself, in percent of the "
        "body's diagonal; the pressure acts on all touching skin, towards the touched part, "
        "for a second. The paper has a picture only. Constraints left: largest |C U| over the "
        "largest |U| on the touching skin.",
    }


def _message(
    strong: dict[str, Any], rows: list[dict[str, Any]], others: list[dict[str, Any]]
) -> str:
    """Return a summary of the results, with the loads under which skins penetrate."""
    inside, outside = strong["without_percent"], strong["with_percent"]
    text = (
        f"Pressed with {strong['pressure_kpa']:g} kPa, the skins penetrate by {outside:.2g} % of "
        f"the size with contact constraints in the basis, and by {inside:.2g} % without."
    )
    named = [(f"{row['pressure_kpa']:g} kPa", row) for row in rows]
    named += [(row["load"], row) for row in others]
    loads = [load for load, row in named if row["with_percent"] >= 100 * _ALLOWED]
    if loads:
        text += f" With them they exceed {100 * _ALLOWED:g} % under: {'; '.join(loads)}."
    if inside < max(100 * _ALLOWED, _DEEPER * outside):
        text += " These forces do not distinguish the two bases."
    return text


def _two_poses(chosen: Scene, pose: str, changes: dict[str, Any]) -> _Case:
    """Build models of the neutral pose and one other pose."""
    recipe = chosen.recipe() | {"poses": {n: chosen.pose(n) for n in (chosen.pose_names[0], pose)}}
    if chosen.young is not None:
        recipe["young"] = chosen.young[[0, chosen.pose_names.index(pose)]]
    still = replace(chosen.character, motions={})  # tets are not fitted to unused motions
    bound = build(still, **(recipe | changes))
    apart = {"tets": bound.mesh, "contacts": None}
    free = build(still, **(recipe | changes | apart))
    return _case(chosen, pose, bound, free)


def _case(chosen: Scene, pose: str, bound: PoseSpaceModel, free: PoseSpaceModel) -> _Case:
    skin = np.asarray(bound.rig(chosen.pose(pose)), np.float64)
    corners = bound.mesh.vertices[bound.mesh.boundary()]
    edge = float(np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2).mean())
    # As far as contacts of the tets are searched.
    touching = touching_skin(bound.surface, skin, 0.5 * edge)
    return _Case(chosen, pose, bound, free, touching, skin, penetration(bound.surface, skin))


def _pressed(
    case: _Case, pressure: float, only: NDArray[np.bool_] | None, steps: int
) -> tuple[dict[str, float], dict[str, NDArray]]:
    """Return the deepest penetration with each basis under a constant pressure, and the skins."""
    forces = case.touching.pressed(pressure, only)
    row: dict[str, float] = {}
    skins: dict[str, NDArray] = {}
    for name, model in case.models.items():
        simulator = PoseSpaceSimulator(model, integrator=PAPERS_INTEGRATOR)
        simulator.reset(case.scene.pose(case.pose))
        for _ in range(steps):
            simulator.step(forces=forces)
        skins[name] = simulator.surface()
        row[f"{name}_percent"] = 100 * case.deepest(skins[name])
        displacements = np.linalg.norm(skins[name] - case.skin, axis=1)
        row[f"{name}_moved_mm"] = 1000 * float(displacements.max())
    return row, skins


def _one_sided(case: _Case) -> list[dict[str, Any]]:
    """Press on one of the two parts only, so that it pushes the other away."""
    parts, pressure = case.scene.parts[case.touching.vertices], _PRESSURES[-2]
    return [
        _load_row(
            case,
            f"{pressure / 1000:g} kPa on the {name} only",
            pressure,
            parts == case.scene.part_names.index(name),
        )
        for name in ("upper arm", "forearm")
    ]


def _in_motion(case: _Case, progress: Progress) -> list[dict[str, Any]]:
    """Play the scene's flexing motion; return penetration in all of it, and near the pose.

    Between poses there are no contact constraints, and the rig's shape penetrates itself.
    """
    (motion,) = case.scene.character.motions.values()
    keys = motion.smooth.resample(90.0)
    first, last = np.searchsorted(keys.times - keys.times[0], _FLEXING)
    flexed = case.bound.pose_names.index(case.pose)
    rows: list[dict[str, Any]] = [{"load": "the arm's flexing motion"}]
    rows.append({"load": f"of that, where the flexed pose counts > {_NEAR:g}"})
    for at, (name, model) in enumerate(case.models.items()):
        progress(0.65 + 0.05 * at, f"flexing, {name} contact")
        simulator = PoseSpaceSimulator(model, integrator=PAPERS_INTEGRATOR)
        simulator.reset(keys.poses[first], keys.roots[first])
        for frame in range(first + 1, last):
            simulator.step(keys.poses[frame], keys.roots[frame])
            if (frame - first) % _EVERY:
                continue
            rotation, offset = keys.roots[frame][:3, :3], keys.roots[frame][:3, 3]
            before = penetration(model.surface, case.bound.rig(keys.poses[frame]))
            depths = {
                f"{name}_percent": case.deepest((simulator.surface() - offset) @ rotation, before),
                "rig_itself_percent": float(before.max()) / model.surface.size,
            }
            for row in rows if simulator.weights[flexed] > _NEAR else rows[:1]:
                row |= {key: max(row.get(key, 0.0), 100 * each) for key, each in depths.items()}
    return rows


def _hug(progress: Progress) -> list[dict[str, Any]]:
    """Press the bear's arms on its body."""
    progress(0.75, "the bear's hug")
    case = _two_poses(scene("bear"), "hug", {})
    return [
        _load_row(case, f"bear, hug, {pressure / 1000:g} kPa", pressure, None)
        for pressure in (_PRESSURES[1], _PRESSURES[3])
    ]


def _load_row(
    case: _Case, load: str, pressure: float, only: NDArray[np.bool_] | None
) -> dict[str, Any]:
    row, _ = _pressed(case, pressure, only, _STEPS)
    return {"load": load} | {name: row[name] for name in ("with_percent", "without_percent")}


def _left_open(model: PoseSpaceModel, pose: str) -> float:
    """Return the largest |C U| at a pose, relative to the largest |U| at touching vertices.

    C are the contact constraints and U the basis, so that 0 means that the basis satisfies them.
    """
    at = model.pose_names.index(pose)
    rest = model.tet_rig(model.poses[at])
    contacts = find_boundary_contacts(model.mesh, None, rest)
    rows = contact_constraints(contacts, len(model.mesh.vertices))
    involved = np.unique(rows.indices // 3)
    broken = largest = 0.0
    for vertices, bases in zip(model.basis_vertices, model.bases, strict=True):
        columns = np.zeros((len(model.mesh.vertices), 3, bases.shape[-1]))
        columns[vertices] = bases[at]
        if model.rotations is not None:  # bases are stored in the neutral pose's frames
            rotations = model.rotations[at, np.searchsorted(model.rotation_vertices, vertices)]
            columns[vertices] = rotate_basis(rotations, columns[vertices])
        open_ = np.abs(rows @ columns.reshape(-1, bases.shape[-1]))
        broken = max(broken, float(open_.max(initial=0.0)))
        largest = max(largest, float(np.abs(columns[involved]).max(initial=0.0)))
    return broken / max(largest, 1e-300)
