"""Pictures of a body among things, and the forces that it feels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from supple.app.pictures.drawing import INK, PAPER, plain_axes, save_picture, view_axes
from supple.app.pictures.render import Body, Camera, cavities, render
from supple.arrays import Floats
from supple.mesh.surface import SurfaceMesh, vertex_normals
from supple.rig.character import Character
from supple.scenes.contact.contact_scene import ContactRecord, ContactScene

THING, SKIN = (0.36, 0.50, 0.70), (0.87, 0.67, 0.55)
COLUMNS, ROWS, PIXELS, DPI = 4, 2, 330, 110


def contact_strip(path: str | Path, scene: ContactScene, record: ContactRecord) -> None:
    """Draw eight moments of a record, and forces over time, into a PNG file."""
    count = COLUMNS * ROWS
    shown = np.unique(np.linspace(0, len(record.times) - 1, count).round().astype(int))
    view = view_axes(scene.azimuth, 15.0)
    camera, ground = _camera(record, view)
    wide, tall = COLUMNS * PIXELS / DPI, ROWS * PIXELS / DPI
    figure = Figure(figsize=(wide, tall + 2.6), facecolor=PAPER, layout="constrained", dpi=DPI)
    parts = figure.subfigures(2, 1, squeeze=False, height_ratios=[tall, 2.4])
    above, below = parts[:, 0]
    figure.suptitle(f"{scene.name}: {scene.description}", color=INK, fontsize=13)
    colours = _skin_colours(scene.scene.character)
    paper = np.array([int(PAPER[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    panels = above.subplots(ROWS, COLUMNS, squeeze=False).flat
    for axes in panels:
        axes.set_axis_off()
    for axes, frame in zip(above.axes, shown, strict=False):
        picture = _picture(scene, record, int(frame), colours, camera, ground, paper)
        axes.imshow(picture, interpolation="none")
        axes.set_title(f"{record.times[frame]:.2f} s", color=INK, fontsize=9, pad=2)
    _draw_forces(below.subplots(), record)
    save_picture(figure, Path(path), DPI)


def _camera(record: ContactRecord, view: Floats) -> tuple[Camera, float]:
    """Return a camera that sees all, and the height of what is lowest."""
    points = [record.skins.reshape(-1, 3)]
    points += [each.vertices for things in record.things for each in things]
    whole = np.concatenate(points)
    seen = whole @ view.T
    low, high = seen.min(axis=0), seen.max(axis=0)
    scale = 0.94 * PIXELS / float((high - low)[:2].max())
    return Camera(view, (low + high) / 2 @ view, scale, (PIXELS, PIXELS)), float(whole[:, 1].min())


def _skin_colours(character: Character) -> Floats:
    """Return colours (n̄, 3) of the skin: means of the triangles around."""
    surface, own = character.surface, character.appearance
    if own is None:
        return np.tile(SKIN, (len(surface.vertices), 1))
    every = np.arange(len(surface.triangles))
    light = np.asarray(own.colours(every, np.full((len(every), 3), 1 / 3)))[:, :3] ** (1 / 2.2)
    total, counts = np.zeros((len(surface.vertices), 3)), np.zeros(len(surface.vertices))
    for corner in surface.triangles.T:
        np.add.at(total, corner, light)
        np.add.at(counts, corner, 1.0)
    return total / np.maximum(counts, 1.0)[:, None]


def _picture(
    scene: ContactScene,
    record: ContactRecord,
    frame: int,
    colours: Floats,
    camera: Camera,
    ground: float,
    paper: Floats,
) -> Floats:
    surface, things = scene.scene.character.surface, record.things[frame]
    skin = record.skins[frame].astype(np.float64)
    pieces = [SurfaceMesh(skin, surface.triangles), *things]
    first = np.cumsum([0, *(len(piece.vertices) for piece in pieces)])
    points = np.concatenate([piece.vertices for piece in pieces])
    triangles = np.concatenate([p.triangles + k for p, k in zip(pieces, first, strict=False)])
    tint = np.tile(np.asarray(THING), (len(points), 1))
    tint[: len(skin)] = colours
    cavity = np.ones(len(points))
    cavity[: len(skin)] = cavities(surface)
    body = Body(points, triangles, vertex_normals(points, triangles), tint, cavity)
    return render(body, camera, ground, paper)[0]


def _draw_forces(axes: Axes, record: ContactRecord) -> None:
    """Draw the magnitude of forces over time, in all and by the strongest things."""
    plain_axes(axes)
    axes.set_facecolor(PAPER)
    strongest = sorted(
        record.by_thing, key=lambda name: -np.linalg.norm(record.by_thing[name], axis=1).max()
    )
    axes.plot(record.step_times, np.linalg.norm(record.forces, axis=1), color=INK, label="in all")
    if len(strongest) > 1:
        for name in strongest[:4]:
            much = np.linalg.norm(record.by_thing[name], axis=1)
            axes.plot(record.step_times, much, linewidth=1, label=name)
        axes.legend(frameon=False, fontsize=8)
    axes.set(xlabel="time (s)", ylabel="force on the body (N)")
    axes.set_xlim(0.0, max(float(record.step_times[-1]), 1e-9))
