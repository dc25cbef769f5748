"""Draw docs/pictures/presets.png: characters with the flesh of three kinds of body.

    python tools/draw_presets.py man.glb cow.glb:Gallop [--tets 3000] [--modes 40]

A row for each character: the rig alone and each preset at one frame, in which the cartoon swings
farthest. Below, curves of one vertex of the first character after a sudden stop.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import supple
from supple.app.pictures.drawing import INK, PAPER, PAPER_RGB, save_picture, view_axes
from supple.app.pictures.filmstrip import CLAY, FAR, SOFT, liveliest_vertex
from supple.app.pictures.render import Body, Camera, cavities, render
from supple.arrays import Floats
from supple.mesh.surface import SurfaceMesh, vertex_normals
from supple.rig import Motion
from supple.rig.baked_motion import BakedMotion
from supple.rig.character import Character

ROOT = Path(__file__).resolve().parent.parent
KINDS = {"human": "#2f6f9f", "animal": "#7a8b2f", "cartoon": "#c4452f"}
#: Pixels of a frame, and seconds of the stop and of the moment from which flesh swings freely.
PIXELS, STOP, FREE = (420, 330), 0.4, 0.5


def main() -> None:
    """Bake the motion and the stop with each preset, and draw them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", help="FILE or FILE:MOTION")
    parser.add_argument("--tets", type=int, default=3000)
    parser.add_argument("--modes", type=int, default=40)
    parser.add_argument("--azimuth", type=float, default=65.0)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "pictures" / "presets.png")
    given = parser.parse_args()
    small: dict[str, Any] = {"tets": given.tets, "modes": given.modes, "quality": "live"}
    rows = len(given.files)
    figure = Figure(figsize=(14.0, 3.1 * rows + 2.6), facecolor=PAPER)
    for row, (file, _, motion) in enumerate(each.partition(":") for each in given.files):
        character = supple.load(file)
        played = {
            kind: supple.bake(character, motion or None, flesh=kind, **small) for kind in KINDS
        }
        bottom = (2.6 + 3.1 * (rows - 1 - row)) / (3.1 * rows + 2.6)
        draw_frames(figure, played, given.azimuth, bottom, 2.75 / (3.1 * rows + 2.6))
    character = supple.load(given.files[0].partition(":")[0])
    held: dict[str, Any] = {"rate": 90, "simulation": {"stiffness": 1}, **small}
    stopped = {
        kind: supple.bake(character, stop(character), flesh=kind, **held)
        for kind in ("normal", *KINDS)
    }
    draw_curves(figure, stopped, 1.9 / (3.1 * rows + 2.6))
    save_picture(figure, given.out, 72)


def stop(character: Character) -> Motion:
    """Return a motion that carries the character by 5 % of its size and stops."""
    times = np.arange(0, 3.1, 1 / 90)
    share = np.clip((times - 0.1) / STOP, 0, 1)
    roots = np.tile(np.eye(4), (len(times), 1, 1))
    smooth = share**3 * (10 - 15 * share + 6 * share**2)
    roots[:, 0, 3] = 0.05 * character.surface.size * smooth
    return Motion(times, np.tile(character.rig.rest_pose, (len(times), 1)), roots, "stop")


def offsets(baked: BakedMotion) -> Floats:
    """Return the displacements of the skin from the rig, (t, n, 3)."""
    return np.array([baked.frames[k] - baked.rig_frame(k) for k in range(baked.n_frames)])


def draw_frames(
    figure: Figure, played: dict[str, BakedMotion], azimuth: float, bottom: float, height: float
) -> None:
    """Draw the rig and each preset at the frame in which the cartoon swings farthest."""
    moved = {kind: offsets(baked) for kind, baked in played.items()}
    farthest = np.linalg.norm(moved["cartoon"], axis=2)
    frame = int(farthest.max(axis=1).argmax())
    some = played["cartoon"]
    mesh, rig = some.character.surface, some.rig_frame(frame)
    view = view_axes(azimuth, 12.0)
    rows = {"rig": rig} | {kind: baked.frames[frame] for kind, baked in played.items()}
    everything = np.concatenate([*rows.values()])
    low, high = (everything @ view.T).min(axis=0), (everything @ view.T).max(axis=0)
    extent = high - low
    scale = 0.88 * min(PIXELS[0] / extent[0], PIXELS[1] / extent[1])
    camera = Camera(view, (low + high) / 2 @ view, scale, PIXELS)
    ground = float(everything[:, 1].min())
    for column, (kind, skin) in enumerate(rows.items()):
        axes = figure.add_axes((column / 4, bottom, 0.25, height))
        away = np.linalg.norm(skin - rig, axis=1) / farthest[frame].max()
        shade = np.array(CLAY if kind == "rig" else SOFT)
        colours = shade + np.clip(away, 0, 1)[:, None] * (FAR - shade)
        axes.imshow(picture(mesh, skin, colours, camera, ground))
        axes.set_axis_off()
        swing = 100 * np.linalg.norm(skin - rig, axis=1).max() / mesh.size
        words = "" if kind == "rig" else f": up to {swing:.1f} % of the size"
        axes.set_title(kind + words, color=KINDS.get(kind, INK), fontsize=13)


def picture(mesh: SurfaceMesh, skin: Floats, colours: Floats, camera: Camera, ground: float) -> Any:
    """Return a rendered skin, (h, w, 3)."""
    vertices = np.asarray(skin, np.float64)
    normals = vertex_normals(vertices, mesh.triangles)
    body = Body(vertices, mesh.triangles, normals, colours, cavities(mesh))
    image, _ = render(body, camera, ground, PAPER_RGB)
    return np.clip(image, 0, 1)


def draw_curves(figure: Figure, stopped: dict[str, BakedMotion], height: float) -> None:
    """Draw the vertex with the largest swing in normal flesh after the stop."""
    axes = figure.add_axes((0.06, 0.25 * height, 0.92, height), facecolor=PAPER)
    vertex, axis = liveliest_vertex(offsets(stopped["normal"]))
    size = stopped["normal"].character.surface.size
    for kind, baked in stopped.items():
        along = 100 * (offsets(baked)[:, vertex] @ axis) / size
        colour, width = KINDS.get(kind, "#8a8f98"), 2.0 if kind in KINDS else 1.2
        style = "-" if kind in KINDS else "--"
        axes.plot(baked.times, along, style, color=colour, linewidth=width, label=kind)
    axes.axvspan(0.1, 0.1 + STOP, color="#000000", alpha=0.06)
    axes.text(0.11, axes.get_ylim()[1], "the rig moves", va="top", color=INK, fontsize=10)
    axes.set_xlim(0, 3)
    axes.set_xlabel("s", color=INK)
    axes.set_ylabel("% of the size", color=INK)
    axes.legend(frameon=False, ncols=4, loc="upper right", labelcolor=INK)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


if __name__ == "__main__":
    main()
