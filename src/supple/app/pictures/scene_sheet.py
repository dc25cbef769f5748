"""A contact sheet of a scene: every sculpted pose, and frames of its motion."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from supple.app.command_files import checked_sheet
from supple.app.pictures.drawing import INK, PAPER, draw_surface, save_picture, view_axes
from supple.app.progress_bar import working
from supple.arrays import Floats
from supple.scenes.characters.character_scene import Scene, scene

COLOURS = {
    "arm": (0.87, 0.58, 0.48),
    "x": (0.42, 0.60, 0.78),
    "bear": (0.93, 0.89, 0.80),
    "gorilla": (0.50, 0.46, 0.47),
}
#: Where cameras stand, in degrees.
AZIMUTHS = {"arm": -22.0, "x": 42.0, "bear": 22.0, "gorilla": 38.0, "elephant": 55.0, "hand": -40.0}
FRAMES, COLUMNS, WIDTH = 12, 6, 2.5


def run_scene(name: str, sheet: Path | None = None, *, quiet: bool = False) -> dict[str, Any]:
    """Make a scene, draw its sheet where one is wanted, and return `summary`."""
    sheet = None if sheet is None else checked_sheet(sheet)
    with working(f"making the {name}", quiet):
        figures = summary(name)
    if sheet is not None:
        with working("drawing", quiet):
            write_sheet(name, sheet)
    return figures


def write_sheet(name: str, path: str | Path) -> None:
    """Draw the scene's sheet into a PNG file."""
    save_picture(scene_sheet(scene(name)), Path(path))


def summary(name: str) -> dict[str, Any]:
    """Return figures of the scene, beside the paper's."""
    from supple.mesh.filling.tetrahedralise import tetrahedralise

    began = perf_counter()
    shown = scene(name)
    made = perf_counter()
    tets = tetrahedralise(shown.character.surface, tets=shown.tets)
    motions = shown.character.motions
    return {
        "scene": shown.name,
        "surface_vertices": shown.character.surface.vertices.shape[0],
        "paper_surface_vertices": shown.paper.surface_vertices,
        "tets": len(tets.tets),
        "paper_tets": shown.paper.tets,
        "tet_vertices": len(tets.vertices),
        "paper_tet_vertices": shown.paper.tet_vertices,
        "parameters": len(shown.character.rig.parameters),
        "poses": list(shown.pose_names),
        "regions": shown.n_regions,
        "motions_s": {name: round(motion.duration, 3) for name, motion in motions.items()},
        "seconds": round(made - began, 3),
    }


def scene_sheet(shown: Scene) -> Figure:
    """Draw all poses at one scale, then a dozen frames of the motion, followed by the camera."""
    view = view_axes(AZIMUTHS.get(shown.name, 25.0), 12.0)
    poses = [shown.character.rig(pose) for pose in shown.poses]
    motion = next(iter(shown.character.motions.values()))
    times = np.linspace(motion.times[0], motion.times[-1], FRAMES)
    frames = [_world(shown, *motion.at(time)) for time in times]
    captions = [*shown.pose_names, *(f"{time:.1f} s" for time in times)]
    rows = -(-len(poses) // COLUMNS) + -(-FRAMES // COLUMNS)
    aspects = [_aspect(group, view) for group in (poses, frames)]
    heights = [aspects[0]] * -(-len(poses) // COLUMNS) + [aspects[1]] * -(-FRAMES // COLUMNS)
    figure = Figure(
        figsize=(WIDTH * COLUMNS, sum(WIDTH * h + 0.28 for h in heights) + 0.5),
        facecolor=PAPER,
        layout="constrained",
    )
    figure.suptitle(_title(shown, motion.name, motion.duration), color=INK, fontsize=12)
    grid = figure.subplots(rows, COLUMNS, squeeze=False, height_ratios=heights)
    for axes in grid.flat:
        axes.set_axis_off()
    split = rows - -(-FRAMES // COLUMNS)
    for axes, points, caption in zip(grid[:split].flat, poses, captions, strict=False):
        _draw(axes, shown, points, caption, view, _window(poses, view))
    later = captions[len(poses) :]
    for axes, points, caption in zip(grid[split:].flat, frames, later, strict=False):
        _draw(axes, shown, points, caption, view, _window(frames, view))
    return figure


def _title(shown: Scene, motion: str, seconds: float) -> str:
    surface = len(shown.character.surface.vertices)
    return (
        f"{shown.name}: {surface:,} vertices, {shown.poses.shape[1]} parameters, "
        f'{len(shown.poses)} poses; motion "{motion}", {seconds:.1f} s'
    )


def _world(shown: Scene, pose: Floats, root: Floats) -> Floats:
    """Turn and lift a shape by the root; the camera goes along over the ground."""
    return shown.character.rig(pose) @ root[:3, :3].T + [0.0, root[1, 3], 0.0]


def _window(group: list[Floats], view: Floats) -> tuple[Floats, Floats]:
    flat = np.concatenate([points @ view[:2].T for points in group])
    low, high = flat.min(axis=0), flat.max(axis=0)
    margin = 0.03 * (high - low).max()
    return low - margin, high + margin


def _aspect(group: list[Floats], view: Floats) -> float:
    low, high = _window(group, view)
    return float((high - low)[1] / (high - low)[0])


def _colours(shown: Scene) -> Floats:
    """Return the character's own colours (m, 3), or one of ours."""
    own = shown.character.appearance
    if own is None:
        return np.array(COLOURS.get(shown.name, COLOURS["arm"]))
    every = np.arange(len(own.material_of))
    light = own.colours(every, np.full((len(every), 3), 1 / 3))
    return np.asarray(light[:, :3] ** (1 / 2.2))


def _draw(
    axes: Axes,
    shown: Scene,
    points: Floats,
    caption: str,
    view: Floats,
    window: tuple[Floats, Floats],
) -> None:
    triangles = shown.character.surface.triangles
    draw_surface(axes, points, triangles, colour=_colours(shown), view=view)
    low, high = window
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")
    axes.set_title(caption, color=INK, fontsize=9, pad=2)
