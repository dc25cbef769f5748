"""Pictures of scenes: a sheet of poses and frames, and a strip of frames with contact forces."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from supple.app.command_files import checked_sheet
from supple.app.pictures.drawing import (
    INK,
    PAPER,
    PAPER_RGB,
    draw_surface,
    plain_axes,
    save_picture,
    show_window,
    vertex_means,
    view_axes,
    view_window,
)
from supple.app.pictures.render import Body, Camera, cavities, render
from supple.arrays import Floats
from supple.mesh.surface import SurfaceMesh, vertex_normals
from supple.playback.progress_bar import working
from supple.rig.character import Character
from supple.scenes.characters.character_scene import Scene, scene

if TYPE_CHECKING:
    from supple.scenes.contact.contact_scene import ContactRecord, ContactScene

COLOURS = {
    "arm": (0.87, 0.58, 0.48),
    "x": (0.42, 0.60, 0.78),
    "bear": (0.93, 0.89, 0.80),
    "gorilla": (0.50, 0.46, 0.47),
}
#: Azimuths of cameras, in degrees.
AZIMUTHS = {"arm": -22.0, "x": 42.0, "bear": 22.0, "gorilla": 38.0, "elephant": 55.0, "hand": -40.0}
FRAMES, COLUMNS, WIDTH = 12, 6, 2.5


def run_scene(name: str, sheet: Path | None = None, *, quiet: bool = False) -> dict[str, Any]:
    """Create a scene, draw its sheet if a file is given, and return its `summary`."""
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
    """Return the sizes, poses and durations of a scene, and the sizes in the paper."""
    from supple.mesh.filling.tetrahedralise import tetrahedralise

    began = perf_counter()
    shown = scene(name)
    seconds = perf_counter() - began
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
        "seconds": round(seconds, 3),
    }


def scene_sheet(shown: Scene) -> Figure:
    """Draw all poses at one scale, then a dozen frames of the motion with a following camera."""
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
        _draw(axes, shown, points, caption, view, view_window(poses, view))
    later = captions[len(poses) :]
    for axes, points, caption in zip(grid[split:].flat, frames, later, strict=False):
        _draw(axes, shown, points, caption, view, view_window(frames, view))
    return figure


def _title(shown: Scene, motion: str, seconds: float) -> str:
    surface = len(shown.character.surface.vertices)
    return (
        f"{shown.name}: {surface:,} vertices, {shown.poses.shape[1]} parameters, "
        f'{len(shown.poses)} poses; motion "{motion}", {seconds:.1f} s'
    )


def _world(shown: Scene, pose: Floats, root: Floats) -> Floats:
    """Return the skin at a pose, moved by the root without its horizontal translation."""
    return shown.character.rig(pose) @ root[:3, :3].T + [0.0, root[1, 3], 0.0]


def _aspect(group: list[Floats], view: Floats) -> float:
    low, high = view_window(group, view)
    return float((high - low)[1] / (high - low)[0])


def _colours(character: Character, scene: str) -> Floats:
    """Return the colours of the character's triangles (m, 3), or one default colour."""
    appearance = character.appearance
    if appearance is None:
        return np.array(COLOURS.get(scene, COLOURS["arm"]))
    every = np.arange(len(appearance.material_of))
    light = appearance.colours(every, np.full((len(every), 3), 1 / 3))
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
    draw_surface(axes, points, triangles, colour=_colours(shown.character, shown.name), view=view)
    show_window(axes, window)
    axes.set_title(caption, color=INK, fontsize=9, pad=2)


# Scenes with contact ---------------------------------------------------------------------------

OBJECT, SKIN = (0.36, 0.50, 0.70), (0.87, 0.67, 0.55)
#: Columns and rows of a contact strip, pixels of a picture, and dots per inch.
STRIP_COLUMNS, ROWS, PIXELS, DPI = 4, 2, 330, 110


def contact_strip(path: str | Path, scene: ContactScene, record: ContactRecord) -> None:
    """Draw eight frames of a record, and forces over time, into a PNG file."""
    count = STRIP_COLUMNS * ROWS
    shown = np.unique(np.linspace(0, len(record.times) - 1, count).round().astype(int))
    view = view_axes(scene.azimuth, 15.0)
    camera, ground = _camera(record, view)
    wide, tall = STRIP_COLUMNS * PIXELS / DPI, ROWS * PIXELS / DPI
    figure = Figure(figsize=(wide, tall + 2.6), facecolor=PAPER, layout="constrained", dpi=DPI)
    parts = figure.subfigures(2, 1, squeeze=False, height_ratios=[tall, 2.4])
    above, below = parts[:, 0]
    figure.suptitle(f"{scene.name}: {scene.description}", color=INK, fontsize=13)
    colours = _skin_colours(scene.scene.character)
    panels = above.subplots(ROWS, STRIP_COLUMNS, squeeze=False).flat
    for axes in panels:
        axes.set_axis_off()
    for axes, frame in zip(above.axes, shown, strict=False):
        picture = _picture(scene, record, int(frame), colours, camera, ground)
        axes.imshow(picture, interpolation="none")
        axes.set_title(f"{record.times[frame]:.2f} s", color=INK, fontsize=9, pad=2)
    _draw_forces(below.subplots(), record)
    save_picture(figure, Path(path), DPI)


def _camera(record: ContactRecord, view: Floats) -> tuple[Camera, float]:
    """Return a camera that shows all frames, and the height of the lowest point in m."""
    points = [record.skins.reshape(-1, 3)]
    points += [each.vertices for things in record.things for each in things]
    every = np.concatenate(points)
    projected = every @ view.T
    low, high = projected.min(axis=0), projected.max(axis=0)
    scale = 0.94 * PIXELS / float((high - low)[:2].max())
    return Camera(view, (low + high) / 2 @ view, scale, (PIXELS, PIXELS)), float(every[:, 1].min())


def _skin_colours(character: Character) -> Floats:
    """Return colours (n̄, 3) of the skin: means of the adjacent triangles."""
    surface = character.surface
    if character.appearance is None:
        return np.tile(SKIN, (len(surface.vertices), 1))
    return vertex_means(_colours(character, ""), surface.triangles, len(surface.vertices))


def _picture(
    scene: ContactScene,
    record: ContactRecord,
    frame: int,
    colours: Floats,
    camera: Camera,
    ground: float,
) -> Floats:
    surface, things = scene.scene.character.surface, record.things[frame]
    skin = record.skins[frame].astype(np.float64)
    pieces = [SurfaceMesh(skin, surface.triangles), *things]
    first = np.cumsum([0, *(len(piece.vertices) for piece in pieces)])
    points = np.concatenate([piece.vertices for piece in pieces])
    triangles = np.concatenate([p.triangles + k for p, k in zip(pieces, first, strict=False)])
    tint = np.tile(np.asarray(OBJECT), (len(points), 1))
    tint[: len(skin)] = colours
    cavity = np.ones(len(points))
    cavity[: len(skin)] = cavities(surface)
    body = Body(points, triangles, vertex_normals(points, triangles), tint, cavity)
    return render(body, camera, ground, PAPER_RGB)[0]


def _draw_forces(axes: Axes, record: ContactRecord) -> None:
    """Draw the magnitude of forces over time: the total, and the strongest objects'."""
    plain_axes(axes)
    axes.set_facecolor(PAPER)
    strongest = sorted(
        record.by_thing, key=lambda name: -np.linalg.norm(record.by_thing[name], axis=1).max()
    )
    axes.plot(record.step_times, np.linalg.norm(record.forces, axis=1), color=INK, label="total")
    if len(strongest) > 1:
        for name in strongest[:4]:
            force = np.linalg.norm(record.by_thing[name], axis=1)
            axes.plot(record.step_times, force, linewidth=1, label=name)
        axes.legend(frameon=False, fontsize=8)
    axes.set(xlabel="time (s)", ylabel="force on the body (N)")
    axes.set_xlim(0.0, max(float(record.step_times[-1]), 1e-9))
