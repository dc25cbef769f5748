"""Penetration of skins, and the picture of xu2016 fig. 5: cuts through pressed skins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import igl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from supple.app.pictures.drawing import INK, PAPER, draw_surface, view_axes
from supple.arrays import Floats, Ints
from supple.engines.pose_space.model.model import PoseSpaceModel
from supple.lab.reproduce.figures import new_figure
from supple.mesh.boundary_contacts import PosedBoundary, facing_triangles, posed_boundary
from supple.mesh.surface import SurfaceMesh

#: Minimum distance of touching parts at the neutral pose, in mean edge lengths.
FAR = 2.0
#: Largest depth of the search in parts of the size.
DEEPEST = 0.05
#: Offset from the skin at which winding numbers are computed, in parts of twice the size.
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
    """Return depths (n,) in m of the vertices of a posed skin inside other parts of it.

    The winding number slightly outside the skin shows whether a vertex is inside; its depth is the
    distance to the nearest skin that faces it.
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
    """Return the minimum distance of touching parts at the neutral pose, in that unit."""
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
_HALF = 0.075  # half width of a cut's picture in parts of the size


@dataclass(frozen=True, eq=False)
class Slice:
    """Plane through the middle of the touching skin, and the skin that it cuts."""

    #: Point of the plane, and rows right, up and normal.
    origin: Floats
    axes: Floats
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


def contact_picture(
    model: PoseSpaceModel,
    posed: Floats,
    touching: Ints,
    slices: dict[str, Slice],
    rows: list[dict[str, Any]],
) -> Figure:
    """Draw touching skin, cuts without and with contact constraints, and depths by pressure."""
    figure = new_figure(
        (14.0, 4.4), "Skins pressed together, with and without contact constraints", 13
    )
    where, free, bound, chart = figure.subplots(1, 4, width_ratios=(1.0, 1.0, 1.0, 1.25))
    _draw_where(where, model, posed, touching)
    last = rows[-1]
    for axes, name, colour in ((free, "without", _FREE), (bound, "with", _BOUND)):
        _draw_cut(axes, model, posed, slices[name], colour)
        axes.set_title(
            f"{name} contact in the basis, {last['pressure_kpa']:g} kPa:\n"
            f"{last[f'{name}_percent']:.2g} % of the size deep",
            color=INK,
            fontsize=10,
        )
    _draw_chart(chart, rows)
    return figure


def _draw_where(axes: Axes, model: PoseSpaceModel, posed: Floats, touching: Ints) -> None:
    marked = np.zeros(len(posed))
    marked[touching] = 1.0
    share = marked[model.surface.triangles].mean(axis=1)[:, None]
    view = view_axes(-12.0, 48.0)
    colours = (1 - share) * _SKIN + share * _TOUCHED
    draw_surface(axes, posed, model.surface.triangles, colour=colours, view=view, shadow=0.35)
    flat = posed @ view[:2].T
    low, high = flat.min(axis=0), flat.max(axis=0)
    margin = 0.03 * (high - low).max()
    axes.set(
        xlim=(low[0] - margin, high[0] + margin),
        ylim=(low[1] - margin, high[1] + margin),
        aspect="equal",
    )
    axes.set_axis_off()
    axes.set_title("the flexed arm; red: touching skin,\nwhich is pressed", color=INK, fontsize=10)


def _draw_cut(axes: Axes, model: PoseSpaceModel, posed: Floats, cut: Slice, colour: str) -> None:
    triangles, unit = model.surface.triangles, 100.0  # cm
    rest, pressed = (unit * cut.cut(points, triangles) for points in (posed, cut.skin))
    axes.add_collection(LineCollection(list(rest), colors=_GREY, lw=1.0, label="at rest"))
    axes.add_collection(LineCollection(list(pressed), colors=colour, lw=1.6, label="pressed"))
    half = unit * _HALF * model.surface.size
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
    axes.set_xlabel("pressure on the touching skin, kPa", color=INK)
    axes.set_ylabel("deepest penetration, % of the size", color=INK)
    axes.legend(frameon=False)
    axes.grid(alpha=0.25)
    axes.set_facecolor(PAPER)
