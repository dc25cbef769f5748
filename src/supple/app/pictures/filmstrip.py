"""Filmstrips and thumbnails of a baked motion: rig above, flesh below, and one vertex over time."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray
from PIL import Image

from supple.app.pictures.drawing import (
    INK,
    PAPER,
    PAPER_RGB,
    label,
    length_label,
    save_picture,
    view_axes,
)
from supple.app.pictures.render import Body, Camera, Glass, cavities, render
from supple.arrays import Floats
from supple.errors import SuppleError
from supple.mesh.appearance import Appearance
from supple.mesh.surface import SurfaceMesh, vertex_normals
from supple.progress import PartDone, unreported
from supple.rig.baked_motion import BakedMotion
from supple.rig.drawn_obstacles import clear_azimuth, drawn_obstacles, ground_height


def even_frames(baked: BakedMotion, count: int) -> NDArray[np.int64]:
    """Return the indices of at most `count` frames, evenly spread from the first to the last."""
    return np.unique(np.linspace(0, baked.n_frames - 1, count).round().astype(np.int64))


def best_frames(frames: NDArray[np.int64], scores: ArrayLike, count: int) -> list[int]:
    """Return, in order, at most `count` of the `frames` (k,) with high scores (k,), well apart."""
    values = np.asarray(scores, np.float64)
    gap = (frames[-1] - frames[0]) / (2.5 * max(count, 1))
    free = np.ones(len(frames), bool)
    chosen: list[int] = []
    while len(chosen) < count and free.any():
        best = int(np.argmax(np.where(free, values, -np.inf)))
        chosen.append(int(frames[best]))
        free &= np.abs(frames - frames[best]) > gap
    return sorted(chosen)


def liveliest_baked(bakes: Sequence[BakedMotion]) -> int:
    """Return the index of the baked motion whose flesh moves most relative to the rig."""
    motions = []
    for baked in bakes:
        offsets = _offsets(baked, even_frames(baked, _COMPARED), unreported)
        motions.append(float(np.mean(np.square(offsets, dtype=np.float64))))
    return int(np.argmax(motions))


def liveliest_vertex(offsets: NDArray[np.floating]) -> tuple[int, Floats]:
    """Return the vertex that moves most relative to the rig, and its main direction (3,).

    `offsets` (k, n, 3) are from the rig's skin to the soft skin, at some frames.
    """
    square = np.einsum("kni,kni->n", offsets, offsets)
    vertex = int(np.argmax(square))
    path = offsets[:, vertex].astype(np.float64)
    _, axes = np.linalg.eigh(path.T @ path)
    axis = axes[:, -1]
    return vertex, axis * (1.0 if axis[np.argmax(np.abs(axis))] >= 0 else -1.0)


CLAY, SOFT, RIG_LINE = (0.72, 0.73, 0.76), (0.87, 0.62, 0.52), "#5f6b7a"
SOFT_LINE, FAR = "#c4452f", np.array([0.78, 0.16, 0.10])
DPI, WIDTH = 100, 14.0
#: Colours and opacities of obstacles by kind.
GLASS: dict[str, tuple[tuple[float, float, float], float]] = {
    "plane": ((0.60, 0.64, 0.71), 0.30),
    "obstacle": ((0.60, 0.63, 0.68), 0.50),
    "object": ((0.34, 0.54, 0.76), 0.72),
}
#: Default angles of the camera, in degrees.
AZIMUTH, ELEVATION = 35.0, 12.0
#: Candidate frames of a filmstrip.
_CANDIDATES = 120
#: Frames of each motion that are compared to choose one motion.
_COMPARED = 24
#: Largest width of a column in pixels; larger pictures take gigabytes of memory.
_WIDEST = 340.0
#: If the rig moves this many times as far as the flesh, the chart shows their difference.
_RELATIVE = 8.0
_EDGE, _NAME, _HEAD, _CAPTION, _CHART = 0.25, 0.30, 0.62, 0.24, 2.2


def filmstrip(
    path: str | Path,
    baked: BakedMotion | Sequence[BakedMotion],
    *,
    frames: Sequence[int] | None = None,
    columns: int = 6,
    azimuth: float = AZIMUTH,
    clay: bool = False,
    chart: bool = True,
    progress: PartDone = unreported,
) -> dict[str, Any]:
    """Draw a filmstrip of a motion, or of the liveliest of several, into a PNG file, atomically.

    The `frames` are by default the `columns` frames in which the flesh is farthest from the rig in
    this view. The camera, with an azimuth in degrees, follows the position and heading of the root.
    With `clay`, or for a character without colours, the flesh is redder with the distance from the
    rig. The `chart` shows the vertex that moves most, over time. `progress` is called with the
    fraction done.

    Returns ``motion``, ``frames``, ``times_s``, ``vertex`` (of the chart) and ``farthest_m``, the
    largest distance from flesh to rig in the candidate frames.
    """
    if not isinstance(baked, BakedMotion):
        baked = baked[liveliest_baked(baked)]
    candidates = even_frames(baked, _CANDIDATES)
    offsets = _offsets(baked, candidates, lambda part: progress(0.3 * part))
    first = baked.motion.roots[0]
    heading = float(np.degrees(np.arctan2(first[0, 2], first[2, 2])))
    view = view_axes(clear_azimuth(baked, azimuth, heading), ELEVATION)
    if frames is None:
        across = offsets - (offsets @ view[2])[..., None] * view[2]
        scores = np.sqrt(np.mean(across**2, axis=(1, 2)))
        shown = best_frames(candidates, scores, columns)
    else:
        shown = _checked(frames, baked.n_frames)
    farthest = float(np.sqrt(np.einsum("kni,kni->kn", offsets, offsets).max()))
    appearance = None if clay else baked.character.appearance
    strip = _Strip(baked, shown, view, appearance, farthest)
    figure = strip.drawn(chart, lambda part: progress(0.3 + 0.7 * part))
    vertex, axis = liveliest_vertex(offsets)
    if chart:
        _draw_chart(strip.chart_axes(figure), baked, vertex, axis, shown)
    save_picture(figure, Path(path), DPI)
    return {
        "motion": baked.motion.name,
        "frames": shown,
        "times_s": [round(float(baked.times[k]), 4) for k in shown],
        "vertex": vertex,
        "farthest_m": farthest,
    }


def _checked(frames: Sequence[int], count: int) -> list[int]:
    chosen = [int(frame) for frame in frames]
    if not chosen or not all(0 <= frame < count for frame in chosen):
        raise SuppleError(f"frames {chosen}: choose some from 0 to {count - 1}")
    return chosen


def _offsets(
    baked: BakedMotion, frames: NDArray[np.int64], progress: PartDone
) -> NDArray[np.float32]:
    """Return offsets (k, n, 3) from rig to flesh at these frames, in root space."""
    offsets = np.empty((len(frames), *baked.frames.shape[1:]), np.float32)
    for k, frame in enumerate(frames):
        offset = baked.frames[frame] - baked.rig_frame(int(frame))
        offsets[k] = offset @ baked.motion.roots[frame, :3, :3]
        progress((k + 1) / len(frames))
    return offsets


@dataclass
class _Strip:
    """Rows of pictures of the rig and of the flesh, at one scale."""

    baked: BakedMotion
    frames: list[int]
    view: Floats
    appearance: Appearance | None
    farthest: float

    def __post_init__(self) -> None:
        self.rigs = [self._settled(self.baked.rig_frame(k), k) for k in self.frames]
        self.softs = [self._settled(self.baked.frames[k], k) for k in self.frames]
        self.obstacles = drawn_obstacles([self.baked])
        boxes = np.array([self._box(pair) for pair in zip(self.rigs, self.softs, strict=True)])
        self.middles = boxes.mean(axis=1)
        # Each picture is centred in its column; all have the same height above the ground.
        low, high = boxes[:, 0, 1].min(), boxes[:, 1, 1].max()
        self.middles[:, 1] = (low + high) / 2
        wide = max(float((boxes[:, 1, 0] - boxes[:, 0, 0]).max()), 1e-9)
        high = max(float(high - low), 1e-9)
        width = min((WIDTH - 2 * _EDGE) * DPI / len(self.frames), _WIDEST)
        tall = float(np.clip(high * width / wide, 0.4 * width, 1.6 * width))
        self.scale = 0.92 * min(width / wide, tall / high)
        self.cell = (int(width), int(tall))
        self.ground = ground_height(self.baked)

    def _box(self, bodies: Sequence[Floats]) -> Floats:
        """Return the bounding box in the view, (2, 2): least and greatest x and y."""
        flat = np.concatenate([points @ self.view[:2].T for points in bodies])
        return np.stack([flat.min(axis=0), flat.max(axis=0)])

    def _settled(self, points: Floats, frame: int) -> Floats:
        """Return points relative to the root's horizontal position and heading."""
        root = self.baked.motion.roots[frame]
        heading = np.arctan2(root[0, 2], root[2, 2])
        c, s = np.cos(heading), np.sin(heading)
        back = np.array([[c, 0.0, -s], [0.0, 1.0, 0.0], [s, 0.0, c]])
        return (points - root[:3, 3] * [1.0, 0.0, 1.0]) @ back.T

    def drawn(self, chart: bool, progress: PartDone) -> Figure:
        """Return the figure with all pictures, and with space for a chart if `chart`."""
        row = self.cell[1] / DPI
        self.height = _HEAD + 2 * (row + _NAME) + _CAPTION + 0.1 + (_CHART if chart else 0.0)
        figure = Figure(figsize=(WIDTH, self.height), facecolor=PAPER, dpi=DPI)
        tops = (_HEAD + _NAME, _HEAD + 2 * _NAME + row)
        self._add_titles(figure, tops)
        cavity = cavities(self.baked.character.surface)
        first = (WIDTH - len(self.frames) * self.cell[0] / DPI) / 2
        for k, frame in enumerate(self.frames):
            left = first + k * self.cell[0] / DPI
            self._draw_column(figure, k, left, tops, cavity)
            caption = f"{self.baked.times[frame]:.2f} s"
            middle = left + self.cell[0] / DPI / 2
            self._add_text(
                figure, middle, tops[1] + row + 0.03, caption, 10, ha="center", color=INK
            )
            progress((k + 1) / len(self.frames))
        return figure

    def _add_titles(self, figure: Figure, tops: tuple[float, float]) -> None:
        character, motion = self.baked.character, label(self.baked.motion.name, 40)
        self._add_text(figure, _EDGE, 0.14, label(character.name, 40), 17, weight="bold")
        subtitle = f"“{motion}”, {len(character.surface.vertices):,} vertices, "
        subtitle += "frames with the largest flesh motion"
        self._add_text(figure, WIDTH - _EDGE, 0.2, subtitle, 10.5, ha="right", color=RIG_LINE)
        self._add_text(figure, _EDGE, tops[0] - 0.27, "rig only", 11, color=RIG_LINE)
        far = length_label(self.farthest, 2)
        text = f"with flesh, redder with the distance from the rig (up to {far})"
        if self.appearance is not None:
            text = f"with flesh, up to {far} from the rig"
        text += "; the line is the rig's outline"
        self._add_text(figure, _EDGE, tops[1] - 0.27, text, 11, color=SOFT_LINE)

    def _draw_column(
        self, figure: Figure, k: int, left: float, tops: tuple[float, float], cavity: Floats
    ) -> None:
        """Draw the rig, and below it the flesh with the rig's outline."""
        triangles = self.baked.character.surface.triangles
        covered = []
        for top, points, colours in (
            (tops[0], self.rigs[k], np.broadcast_to(CLAY, self.rigs[k].shape)),
            (tops[1], self.softs[k], self._colours(k)),
        ):
            normals = vertex_normals(points, triangles)
            body = Body(points, triangles, normals, colours, cavity, self.appearance)
            glasses = self._glasses(self.frames[k])
            picture, mask = render(body, self._camera(k), self.ground, PAPER_RGB, glasses)
            covered.append(mask)
            axes = self._place(figure, left, top, picture)
        if covered[0].max() > 0.5:
            if self.appearance is not None:  # makes the line visible on dark colours
                axes.contour(covered[0], [0.5], colors=[PAPER], linewidths=2.2, alpha=0.45)
            axes.contour(covered[0], [0.5], colors=[INK], linewidths=0.8, alpha=0.8)

    def _glasses(self, frame: int) -> list[Glass]:
        """Return the obstacles at a frame."""
        glasses = []
        for each in self.obstacles:
            assert each.places[0] is not None
            place = each.places[0][min(frame, len(each.places[0]) - 1)]
            points = each.surface.vertices @ place[:3, :3].T + place[:3, 3]
            colour, opacity = GLASS[each.kind]
            glasses.append(
                Glass(self._settled(points, frame), each.surface.triangles, colour, opacity)
            )
        return glasses

    def _colours(self, column: int) -> Floats:
        """Return colours of the flesh, (n, 3)."""
        far = np.linalg.norm(self.softs[column] - self.rigs[column], axis=1)
        part = np.clip(far / max(self.farthest, 1e-12), 0.0, 1.0)[:, None] ** 0.8
        return (1 - part) * np.array(SOFT) + part * FAR

    def _camera(self, column: int) -> Camera:
        centre = self.middles[column] @ self.view[:2]
        return Camera(self.view, centre, self.scale, self.cell)

    def _place(self, figure: Figure, left: float, top: float, picture: Floats) -> Axes:
        width, tall = self.cell[0] / DPI, self.cell[1] / DPI
        box = (left / WIDTH, 1 - (top + tall) / self.height, width / WIDTH, tall / self.height)
        axes = figure.add_axes(box)
        axes.set_axis_off()
        axes.imshow(picture, interpolation="none", aspect="auto")
        return axes

    def _add_text(
        self, figure: Figure, left: float, top: float, text: str, size: float, **style: Any
    ) -> None:
        usual: dict[str, Any] = {"va": "top", "color": INK, "parse_math": False}
        place = (left / WIDTH, 1 - top / self.height)
        figure.text(*place, text, fontsize=size, **(usual | style))

    def chart_axes(self, figure: Figure) -> Axes:
        """Return new axes for a chart at the bottom of the figure."""
        box = (0.7 / WIDTH, 0.42 / self.height, 1 - 0.95 / WIDTH, (_CHART - 0.85) / self.height)
        return figure.add_axes(box)


def _draw_chart(
    axes: Axes, baked: BakedMotion, vertex: int, axis: Floats, shown: Sequence[int]
) -> None:
    """Plot the position of a vertex along `axis` over time, for the rig and for the flesh."""
    one = np.array([vertex])
    roots = baked.motion.roots
    rig = np.array(
        [
            (baked.character.rig(pose, one)[0] @ root[:3, :3].T + root[:3, 3])
            for pose, root in zip(baked.motion.poses, roots, strict=True)
        ]
    )
    directions = roots[:, :3, :3] @ axis
    soft = baked.frames[:, vertex].astype(np.float64)
    lines = [np.einsum("ti,ti->t", points - rig.mean(axis=0), directions) for points in (rig, soft)]
    beside = np.ptp(lines[0]) > _RELATIVE * np.ptp(lines[1] - lines[0])
    if beside:
        lines = [np.zeros(len(rig)), lines[1] - lines[0]]
    times = baked.times
    axes.set_facecolor(PAPER)
    axes.fill_between(times, 100 * lines[0], 100 * lines[1], color=SOFT_LINE, alpha=0.14, lw=0)
    axes.plot(times, 100 * lines[0], color=RIG_LINE, lw=1.4, label="rig")
    axes.plot(times, 100 * lines[1], color=SOFT_LINE, lw=1.9, label="flesh")
    for frame in shown:
        axes.axvline(times[frame], color=INK, lw=0.6, alpha=0.25)
    axes.set_xlim(times[0], max(times[-1], times[0] + 1e-3))
    axes.set_ylabel("cm", color=INK)
    axes.tick_params(colors=INK, labelsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    text = f"vertex {vertex:,} along the main direction of its flesh"
    text += ", relative to the rig" if beside else ""
    axes.set_title(text, loc="left", fontsize=11, color=INK, pad=6)
    axes.legend(frameon=False, ncols=2, loc="lower right", bbox_to_anchor=(1, 0.98), fontsize=10)
    axes.set_xlabel("seconds", color=INK, fontsize=9, labelpad=1)


# Thumbnails ------------------------------------------------------------------------------------

#: Pixels, and JPEG quality: about 2 kB per picture.
_THUMBNAIL, _QUALITY = (128, 128), 80
#: Candidate frames of a thumbnail.
_THUMBNAIL_FRAMES = 12


def baked_thumbnail(bakes: Sequence[BakedMotion]) -> bytes:
    """Return a JPEG of the liveliest motion at the frame whose flesh is farthest from the rig."""
    baked = bakes[liveliest_baked(bakes)] if len(bakes) > 1 else bakes[0]
    frames = even_frames(baked, _THUMBNAIL_FRAMES)
    offsets = [baked.frames[k] - baked.rig_frame(int(k)) for k in frames]
    best = int(frames[int(np.argmax([np.mean(np.square(each)) for each in offsets]))])
    character = baked.character
    return _thumbnail(baked.frames[best], character.surface, character.appearance)


def surface_thumbnail(surface: SurfaceMesh) -> bytes:
    """Return a JPEG of a surface."""
    return _thumbnail(surface.vertices, surface, None)


def _thumbnail(points: ArrayLike, surface: SurfaceMesh, appearance: Appearance | None) -> bytes:
    places = np.asarray(points, np.float64)
    view = view_axes(AZIMUTH, ELEVATION)
    flat = places @ view[:2].T
    low, high = flat.min(axis=0), flat.max(axis=0)
    scale = 0.9 * float(np.min(np.array(_THUMBNAIL) / np.maximum(high - low, 1e-9)))
    camera = Camera(view, (low + high) / 2 @ view[:2], scale, _THUMBNAIL)
    normals = vertex_normals(places, surface.triangles)
    colours = np.broadcast_to(SOFT, places.shape)
    body = Body(places, surface.triangles, normals, colours, cavities(surface), appearance)
    picture, _ = render(body, camera, float(places[:, 1].min()), PAPER_RGB)
    buffer, pixels = io.BytesIO(), (255 * picture).round().astype(np.uint8)
    Image.fromarray(pixels).save(buffer, "JPEG", quality=_QUALITY)
    return buffer.getvalue()
