"""Sheet of a model: regions, softest columns, cubature and alignment tree."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import hsv_to_rgb, to_rgb
from matplotlib.figure import Figure, SubFigure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Patch
from numpy.typing import NDArray

from supple.app.pictures.drawing import (
    BONE,
    ELASTIC,
    INERTIAL,
    INK,
    PALETTE,
    PAPER,
    draw_surface,
    label,
    save_picture,
    show_window,
    view_axes,
    view_window,
)
from supple.app.pictures.scene_sheet import AZIMUTHS
from supple.arrays import Floats
from supple.engines.pose_space.model.model import PoseSpaceModel
from supple.mesh.topology import counted

NAME_LENGTH = 24
STEP = 11  # indentation of a level, in letters
ROW, MOST_HEIGHT = 0.34, 20.0  # inches


def draw_pose_tree(axes: Axes, model: PoseSpaceModel) -> None:
    """Draw poses as boxes, parents above and to the left, with frequency ratios on the edges."""
    places = tree_places(model.parents)
    places[:, 0] *= STEP
    names = [label(name, NAME_LENGTH) for name in model.pose_names]
    across = (places[:, 0] + [len(name) for name in names]).max() + 4
    room = tree_height(model) / (model.n_poses + 1) / ROW
    size = max(min(800 / across, 10.5, 10.5 * room), 2.0)  # so that boxes do not overlap
    ratios = frequency_ratios(model)
    edge: dict[str, Any] = {"ha": "center", "va": "center", "size": 0.9 * size, "color": INK}
    edge["bbox"] = {"boxstyle": "square,pad=0.1", "fc": PAPER, "ec": "none"}
    node = edge | {"ha": "left", "size": size, "parse_math": False, "zorder": 3}
    for pose, parent in enumerate(model.parents):
        x, y = places[pose]
        node["bbox"] = {"boxstyle": "round,pad=0.35", "lw": 0.8, "ec": "#7a7a84"}
        node["bbox"]["fc"] = "#ffe3a3" if parent < 0 else "#e4ebf3"
        axes.text(x, y, names[pose], **node)
        if parent >= 0:
            stem = places[parent, 0] + 1
            axes.plot([stem, stem, x], [places[parent, 1], y, y], color="#9a9aa2", lw=1.2, zorder=1)
            if pose in ratios:
                axes.text((stem + x) / 2, y, f"×{ratios[pose]:.3f}", **edge)
    axes.set(xlim=(-1, max(across, 76) - 1), ylim=(0.3 - max(model.n_poses, 7), 0.7))


def tree_height(model: PoseSpaceModel) -> float:
    """Return the height of the tree in inches, bounded."""
    return min(ROW * (model.n_poses + 1), MOST_HEIGHT)


def tree_places(parents: NDArray[np.integer]) -> NDArray[np.float64]:
    """Return positions (m, 2) of poses: depth to the right, rows downwards, parents first."""
    children: list[list[int]] = [[] for _ in parents]
    for pose in range(1, len(parents)):
        children[parents[pose]].append(pose)
    places = np.zeros((len(parents), 2))
    waiting, row = [0], 0
    while waiting:
        pose = waiting.pop()
        places[pose, 1] = -row
        row += 1
        places[children[pose], 0] = places[pose, 0] + 1
        waiting.extend(reversed(children[pose]))
    return places


def frequency_ratios(model: PoseSpaceModel) -> dict[int, float]:
    """Return valid frequency ratios of the report, by pose; a file may contain any values."""
    rows = model.report.get("pose_rows")
    ratios = {
        row.get("name"): row.get("frequency_ratio")
        for row in (rows if isinstance(rows, (list, tuple)) else ())
        if isinstance(row, Mapping) and isinstance(row.get("name"), str)
    }
    return {
        pose: float(ratio)
        for pose, ratio in ((pose, ratios.get(name)) for pose, name in enumerate(model.pose_names))
        if isinstance(ratio, (int, float)) and not isinstance(ratio, bool)
    }


FAINT = to_rgb("#f5f4f1")
WIDTH = 15.0  # inches
MOST = 6  # pictures in a row
MOST_NAMED = 16  # regions
EXAGGERATION = 0.1  # largest displacement by a column, relative to the diagonal
STEEPEST = 0.8  # largest relative change of an edge by a column
ELEVATION, SHADOW = 12.0, 0.28


def write_model_sheet(model: PoseSpaceModel, path: str | Path) -> None:
    """Draw the model's sheet into a PNG file."""
    figure = model_sheet(model)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # names may use any script
        save_picture(figure, Path(path))


def model_sheet(model: PoseSpaceModel) -> Figure:
    """Draw poses coloured by region, the softest columns, cubature points and alignment tree."""
    view = view_axes(AZIMUTHS.get(model.name, 25.0), ELEVATION)
    shown = np.unique(np.linspace(0, model.n_poses - 1, MOST).round().astype(int))
    posed = [np.asarray(model.rig(model.poses[i]), np.float64) for i in shown]
    softest = softest_columns(model, MOST)
    neutral = model.surface.vertices
    heights = [
        _row_height(view_window(posed, view), len(posed)) + 0.35,  # for the names of regions
        _row_height(view_window([neutral], view), len(softest)),
        max(_row_height(view_window([neutral], view), 4), tree_height(model) + 0.9),
    ]
    layout = ConstrainedLayoutEngine(h_pad=0.1)
    figure = Figure((WIDTH, sum(heights) + 0.5), facecolor=PAPER, layout=layout)
    figure.suptitle(_title(model), color=INK, fontsize=15, parse_math=False)
    rows = figure.subfigures(3, 1, squeeze=False, height_ratios=heights, facecolor=PAPER)[:, 0]
    _draw_poses(rows[0], model, shown.tolist(), posed, view)
    _draw_columns(rows[1], model, softest, view)
    _draw_cubature_and_tree(rows[2], model, view)
    return figure


def region_colours(model: PoseSpaceModel) -> Floats:
    """Return skin colours (n̄, 3): colours of regions mixed by weight, and grey for bones."""
    total = np.zeros(len(model.mesh.vertices))
    mixed = np.zeros((len(total), 3))
    for region, colour in zip(model.regions, _palette(len(model.regions)), strict=True):
        total[region.vertices] += region.weights
        mixed[region.vertices] += region.weights[:, None] * colour
    mixed += np.clip(1 - total, 0, 1)[:, None] * to_rgb(BONE)
    return np.clip(model.embedding @ (mixed / np.maximum(total, 1)[:, None]), 0, 1)


def softest_columns(model: PoseSpaceModel, count: int) -> list[int]:
    """Return at most `count` columns of the basis, softest first.

    The softest column of each region is chosen before the second of any region.
    """
    rank = np.zeros(model.n_modes, int)
    for columns in model.columns:
        order = np.argsort(model.root_eigenvalues[columns], kind="stable")
        rank[columns.start + order] = np.arange(len(order))
    chosen = np.lexsort([model.root_eigenvalues, rank])[:count]
    return sorted(chosen.tolist(), key=lambda column: model.root_eigenvalues[column])


def skin_displacement(model: PoseSpaceModel, column: int) -> Floats:
    """Return the displacement (n̄, 3) of the skin by one unit of a column at the neutral pose."""
    region = _region_of(model, column)
    displacement = np.zeros((len(model.mesh.vertices), 3))
    local = column - model.columns[region].start
    displacement[model.basis_vertices[region]] = model.bases[region][0][:, :, local]
    return np.asarray(model.embedding @ displacement)


def _draw_poses(
    row: SubFigure, model: PoseSpaceModel, shown: list[int], posed: list[Floats], view: Floats
) -> None:
    _heading(row, _some_of(len(shown), model.n_poses, "pose") + ", coloured by region")
    colours = region_colours(model)[model.surface.triangles].mean(axis=1)
    window = view_window(posed, view)
    for axes, pose, points in zip(_panels(row, len(shown)), shown, posed, strict=True):
        _draw(axes, model, points, colours, view, window)
        _caption(axes, label(model.pose_names[pose]))
    names = [label(region.name) for region in model.regions]
    patches = [Patch(color=colour) for colour in [*_palette(len(names))[:MOST_NAMED], BONE]]
    if len(names) > MOST_NAMED:
        names[MOST_NAMED - 1 :] = [f"and {len(names) - MOST_NAMED + 1} more"]
    legend = row.legend(
        patches, [" "] * len(patches), loc="outside lower center", ncols=9, frameon=False
    )
    for text, name in zip(legend.get_texts(), [*names, "held by bones"], strict=True):
        text.set(text=name, color=INK, fontsize=11, parse_math=False)


def _draw_columns(row: SubFigure, model: PoseSpaceModel, softest: list[int], view: Floats) -> None:
    some = _some_of(len(softest), model.n_modes, "column")
    whose = "each region's softest" if len(model.regions) > 1 else "the softest"
    _heading(row, f"{some}, {whose}, exaggerated")
    points, triangles = model.surface.vertices, model.surface.triangles
    displacements = [_exaggerated(model, skin_displacement(model, column)) for column in softest]
    for axes, column, step in zip(_panels(row, len(softest)), softest, displacements, strict=True):
        far = np.linalg.norm(step, axis=1)
        share = far[triangles].mean(axis=1) / max(float(far.max()), 1e-30)
        signs, side = _better_side(model, share, view)
        faint = np.clip(1 - 5 * share, 0, 1)[:, None]  # of parts that hardly move
        colours = (1 - faint) * colormaps["YlOrRd"](0.1 + 0.75 * share)[:, :3] + faint * FAINT
        window = view_window([signs * (points + other) for other in displacements], view)
        _draw(axes, model, signs * (points + step), colours, view, window)
        frequency = np.sqrt(model.root_eigenvalues[column]) / (2 * np.pi)
        region = model.regions[_region_of(model, column)]
        digits = 2 if frequency < 10 else 0
        _caption(axes, f"{label(region.name)}\n{frequency:.{digits}f} Hz{side}")


def _exaggerated(model: PoseSpaceModel, displacement: Floats) -> Floats:
    """Scale a displacement so that it is visible, but does not fold the surface."""
    points, edges = model.surface.vertices, model.surface.triangles[:, :2]
    size = float(np.linalg.norm(np.ptp(points, axis=0)))
    largest = float(np.linalg.norm(displacement, axis=1).max())
    lengths, changes = (
        np.linalg.norm(np.diff(x[edges], axis=1)[:, 0], axis=1) for x in (points, displacement)
    )
    strain = float(np.percentile(changes / np.maximum(lengths, 1e-9 * size), 99))
    factors = EXAGGERATION * size / max(largest, 1e-30), STEEPEST / max(strain, 1e-30)
    return displacement * min(factors)


def _draw_cubature_and_tree(row: SubFigure, model: PoseSpaceModel, view: Floats) -> None:
    left, right = row.subfigures(1, 2, squeeze=False, facecolor=PAPER)[0]
    _heading(left, "cubature at the neutral pose, sized by weight", 0.02)
    note = ": worst frequency ratio halfway along edges" if frequency_ratios(model) else ""
    _heading(right, f"alignment tree{note}", 0.02)
    points, corners = model.mesh.vertices, model.mesh.tets[model.elastic_tets]
    centres, vertices = points[corners].mean(axis=1), points[model.inertial_vertices]
    elastic, inertial = _panels(left, 2)
    _draw_points(elastic, model, centres, model.elastic_weights[0], ELASTIC, view)
    _caption(elastic, f"elastic: {counted(len(centres), 'tet')}")
    _draw_points(inertial, model, vertices, model.inertial_weights[0], INERTIAL, view)
    _caption(inertial, f"inertial: {len(vertices)} vertices")
    draw_pose_tree(_panels(right, 1)[0], model)


def _draw_points(
    axes: Axes,
    model: PoseSpaceModel,
    points: Floats,
    weights: NDArray[np.float32],
    colour: str,
    view: Floats,
) -> None:
    skin = model.surface.vertices
    _draw(axes, model, skin, np.array(FAINT), view, view_window([skin, points], view))
    used = np.flatnonzero(weights > 0)
    across, up = (points[used] @ view[:2].T).T
    areas = 8 + 110 * weights[used] / max(float(weights.max(initial=0)), 1e-30)
    axes.scatter(across, up, areas, color=colour, alpha=0.7, edgecolors="white", lw=0.6, zorder=3)


def _draw(
    axes: Axes,
    model: PoseSpaceModel,
    points: Floats,
    colours: Floats,
    view: Floats,
    window: tuple[Floats, Floats],
) -> None:
    draw_surface(axes, points, model.surface.triangles, colour=colours, view=view, shadow=SHADOW)
    show_window(axes, window)


def _panels(figure: SubFigure, count: int) -> list[Axes]:
    panels = list(figure.subplots(1, count, squeeze=False).flat)
    for axes in panels:
        axes.set(xticks=[], yticks=[], facecolor="none")
        axes.spines[:].set_visible(False)
    return panels


def _better_side(model: PoseSpaceModel, share: Floats, view: Floats) -> tuple[Floats, str]:
    """Return the side that shows more of the moving part, as signs (3,) of axes, and a caption."""
    corners = model.surface.vertices[model.surface.triangles]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    before, behind = np.ones(3), np.array([-1.0, 1.0, -1.0])
    visible = [np.clip(turn * normals @ view[2], 0, None) @ share for turn in (before, behind)]
    return (behind, ", from behind") if visible[1] > 1.1 * visible[0] else (before, "")


def _palette(count: int) -> Floats:
    """Return colours (count, 3) of regions; those beyond `PALETTE` have distinct hues."""
    hues = 0.618 * np.arange(max(count - len(PALETTE), 0)) % 1  # golden ratio
    others = hsv_to_rgb(np.stack([hues, 0.45 + 0 * hues, 0.8 + 0 * hues], axis=1))
    return np.concatenate([[to_rgb(name) for name in PALETTE], others])[:count]


def _region_of(model: PoseSpaceModel, column: int) -> int:
    return next(k for k, columns in enumerate(model.columns) if column < columns.stop)


def _row_height(window: tuple[Floats, Floats], panels: int) -> float:
    """Return the height in inches of a row of pictures, with heading and captions."""
    across, up = window[1] - window[0]
    return float(np.clip(WIDTH / panels * up / across, 1.2, 3.6)) + 0.9


def _heading(figure: SubFigure, text: str, left: float = 0.01) -> None:
    figure.suptitle(text, x=left, ha="left", color=INK, fontsize=13, weight="bold")


def _caption(axes: Axes, text: str) -> None:
    axes.set_xlabel(text, color=INK, fontsize=11, parse_math=False)


def _some_of(shown: int, count: int, what: str) -> str:
    return counted(count, what) if shown == count else f"{shown} of {count} {what}s"


def _title(model: PoseSpaceModel) -> str:
    parts = [
        f"{len(model.mesh.tets):,} tets",
        counted(model.n_poses, "pose"),
        counted(model.n_modes, "column"),
        counted(len(model.regions), "region"),
    ]
    return f"{label(model.name)}: {', '.join(parts)}"
