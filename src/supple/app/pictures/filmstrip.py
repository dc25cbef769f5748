"""A filmstrip of a baked motion: the rig alone above, the flesh below, and one vertex over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from supple.app.pictures.drawing import INK, PAPER, label, length_label, save_picture, view_axes
from supple.app.pictures.render import Body, Camera, cavities, render
from supple.arrays import Floats
from supple.errors import SuppleError
from supple.mesh.appearance import Appearance
from supple.mesh.surface import vertex_normals
from supple.rig.baked_motion import BakedMotion

# Frames and vertices of a baked motion that are worth a picture


def even_frames(baked: BakedMotion, most: int) -> NDArray[np.int64]:
    """Return so many frames at most, spread over the motion, the first and the last among them."""
    return np.unique(np.linspace(0, baked.n_frames - 1, most).round().astype(np.int64))


def worthy_frames(frames: NDArray[np.int64], scores: ArrayLike, count: int) -> list[int]:
    """Return the frames with the highest scores, not all of one swing, in order.

    Parameters
    ----------
    frames
        (k,) to choose from, in order.
    scores
        (k,) how much each is worth.
    count
        How many at most.
    """
    worth = np.asarray(scores, np.float64)
    apart = (frames[-1] - frames[0]) / (2.5 * max(count, 1))
    free = np.ones(len(frames), bool)
    chosen: list[int] = []
    while len(chosen) < count and free.any():
        best = int(np.argmax(np.where(free, worth, -np.inf)))
        chosen.append(int(frames[best]))
        free &= np.abs(frames - frames[best]) > apart
    return sorted(chosen)


def liveliest_baked(bakes: Sequence[BakedMotion]) -> int:
    """Return which of several baked motions has the flesh that moves most beside the rig."""
    found = []
    for baked in bakes:
        offsets = _offsets(baked, even_frames(baked, _GLANCED_AT), lambda part: None)
        found.append(float(np.mean(np.square(offsets, dtype=np.float64))))
    return int(np.argmax(found))


def liveliest_vertex(offsets: NDArray[np.floating]) -> tuple[int, Floats]:
    """Find the vertex whose flesh moves most beside the rig, and the way it does, a unit vector.

    Parameters
    ----------
    offsets
        (k, n, 3) from where the rig has the skin to where it is, at some frames.
    """
    square = np.einsum("kni,kni->n", offsets, offsets)
    vertex = int(np.argmax(square))
    own = offsets[:, vertex].astype(np.float64)
    _, ways = np.linalg.eigh(own.T @ own)
    way = ways[:, -1]
    return vertex, way * (1.0 if way[np.argmax(np.abs(way))] >= 0 else -1.0)


Tell = Callable[[float], None]
CLAY, SOFT, RIG_LINE = (0.72, 0.73, 0.76), (0.87, 0.62, 0.52), "#5f6b7a"
SOFT_LINE, FAR = "#c4452f", np.array([0.78, 0.16, 0.10])
DPI, WIDTH = 100, 14.0
#: Frames looked at for those worth a picture.
_LOOKED_AT = 120
#: Frames of each of several motions that are looked at for the one worth a picture.
_GLANCED_AT = 24
#: Pixels of a column, at most: a few large pictures take gigabytes to draw and say no more.
_WIDEST = 340.0
#: A rig that moves so many times as far as the flesh beside it drowns it in a chart.
_DROWNED = 8.0
_EDGE, _NAME, _HEAD, _CAPTION, _CHART = 0.25, 0.30, 0.62, 0.24, 2.2


def filmstrip(
    path: str | Path,
    baked: BakedMotion | Sequence[BakedMotion],
    *,
    frames: Sequence[int] | None = None,
    columns: int = 6,
    azimuth: float = 35.0,
    elevation: float = 12.0,
    colour: ArrayLike = SOFT,
    clay: bool = False,
    chart: bool = True,
    tell: Tell | None = None,
) -> dict[str, Any]:
    """Draw a filmstrip into a PNG file, whole or not at all.

    Parameters
    ----------
    path
        Where to.
    baked
        The motion; of several, the one whose flesh moves most is drawn.
    frames
        Which; by default those in which the flesh is farthest from the rig, as seen from here.
    columns
        How many, without `frames`.
    azimuth, elevation
        Of the camera, in degrees, about the character: it goes and turns along with the root.
    colour
        Of the flesh, where it is of clay.
    clay
        Show a character that has colours of its own in clay, and redder the farther its flesh is
        from the rig; what has none always is.
    chart
        Also draw where rig and flesh have the liveliest vertex, over time.
    tell
        Called with the part done, 0 to 1.

    Returns
    -------
    dict
        ``motion``, ``frames``, ``times_s``, ``vertex`` (whose chart is drawn) and ``farthest_m``
        (how far flesh is from the rig in the frames looked at).
    """
    tell = tell or (lambda part: None)
    if not isinstance(baked, BakedMotion):
        baked = baked[liveliest_baked(baked)]
    looked_at = even_frames(baked, _LOOKED_AT)
    offsets = _offsets(baked, looked_at, lambda part: tell(0.3 * part))
    view = view_axes(azimuth, elevation)
    if frames is None:
        across = offsets - (offsets @ view[2])[..., None] * view[2]
        worth = np.sqrt(np.mean(across**2, axis=(1, 2)))
        shown = worthy_frames(looked_at, worth, columns)
    else:
        shown = _checked(frames, baked.n_frames)
    farthest = float(np.sqrt(np.einsum("kni,kni->kn", offsets, offsets).max()))
    appearance = None if clay else baked.character.appearance
    strip = _Strip(baked, shown, view, np.asarray(colour, np.float64), appearance, farthest)
    figure = strip.drawn(chart, lambda part: tell(0.3 + 0.7 * part))
    vertex, way = liveliest_vertex(offsets)
    if chart:
        _draw_chart(strip.chart_axes(figure), baked, vertex, way, shown)
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


def _offsets(baked: BakedMotion, frames: NDArray[np.int64], tell: Tell) -> NDArray[np.float32]:
    """Return offsets (k, n, 3) from rig to flesh at these frames, in root space."""
    found = np.empty((len(frames), *baked.frames.shape[1:]), np.float32)
    for k, frame in enumerate(frames):
        offset = baked.frames[frame] - baked.rig_frame(int(frame))
        found[k] = offset @ baked.motion.roots[frame, :3, :3]
        tell((k + 1) / len(frames))
    return found


@dataclass
class _Strip:
    """Pictures in a row for the rig and one for the flesh, all at one scale."""

    baked: BakedMotion
    frames: list[int]
    view: Floats
    colour: Floats
    appearance: Appearance | None
    farthest: float

    def __post_init__(self) -> None:
        self.rigs = [self._settled(self.baked.rig_frame(k), k) for k in self.frames]
        self.softs = [self._settled(self.baked.frames[k], k) for k in self.frames]
        boxes = np.array([self._box(pair) for pair in zip(self.rigs, self.softs, strict=True)])
        self.middles = boxes.mean(axis=1)
        # Each stands in the middle of its column, but all on the same height.
        low, high = boxes[:, 0, 1].min(), boxes[:, 1, 1].max()
        self.middles[:, 1] = (low + high) / 2
        wide = max(float((boxes[:, 1, 0] - boxes[:, 0, 0]).max()), 1e-9)
        high = max(float(high - low), 1e-9)
        width = min((WIDTH - 2 * _EDGE) * DPI / len(self.frames), _WIDEST)
        tall = float(np.clip(high * width / wide, 0.4 * width, 1.6 * width))
        self.scale = 0.92 * min(width / wide, tall / high)
        self.cell = (int(width), int(tall))
        self.ground = float(np.median(self.baked.frames[..., 1].min(axis=1)))

    def _box(self, bodies: Sequence[Floats]) -> Floats:
        """Return least and greatest places to the right and up, (2, 2)."""
        flat = np.concatenate([points @ self.view[:2].T for points in bodies])
        return np.stack([flat.min(axis=0), flat.max(axis=0)])

    def _settled(self, points: Floats, frame: int) -> Floats:
        """Remove the root's way over the ground and its heading: the camera goes along."""
        root = self.baked.motion.roots[frame]
        heading = np.arctan2(root[0, 2], root[2, 2])
        c, s = np.cos(heading), np.sin(heading)
        back = np.array([[c, 0.0, -s], [0.0, 1.0, 0.0], [s, 0.0, c]])
        return (points - root[:3, 3] * [1.0, 0.0, 1.0]) @ back.T

    def drawn(self, chart: bool, tell: Tell) -> Figure:
        """Draw the figure, with room for a chart if there is to be one."""
        row = self.cell[1] / DPI
        self.height = _HEAD + 2 * (row + _NAME) + _CAPTION + 0.1 + (_CHART if chart else 0.0)
        figure = Figure(figsize=(WIDTH, self.height), facecolor=PAPER, dpi=DPI)
        tops = (_HEAD + _NAME, _HEAD + 2 * _NAME + row)
        self._say_what(figure, tops)
        cavity = cavities(self.baked.character.surface)
        first = (WIDTH - len(self.frames) * self.cell[0] / DPI) / 2
        for k, frame in enumerate(self.frames):
            left = first + k * self.cell[0] / DPI
            self._draw_column(figure, k, left, tops, cavity)
            caption = f"{self.baked.times[frame]:.2f} s"
            middle = left + self.cell[0] / DPI / 2
            self._say(figure, middle, tops[1] + row + 0.03, caption, 10, ha="center", color=INK)
            tell((k + 1) / len(self.frames))
        return figure

    def _say_what(self, figure: Figure, tops: tuple[float, float]) -> None:
        character, motion = self.baked.character, label(self.baked.motion.name, 40)
        self._say(figure, _EDGE, 0.14, label(character.name, 40), 17, weight="bold")
        told = f"“{motion}”, {len(character.surface.vertices):,} vertices, "
        told += "moments of the liveliest flesh"
        self._say(figure, WIDTH - _EDGE, 0.2, told, 10.5, ha="right", color=RIG_LINE)
        self._say(figure, _EDGE, tops[0] - 0.27, "the rig alone", 11, color=RIG_LINE)
        far = length_label(self.farthest, 2)
        words = f"with flesh, redder the farther from the rig (here up to {far})"
        if self.appearance is not None:
            words = f"with flesh, up to {far} beside the rig"
        words += "; the line is the rig's outline"
        self._say(figure, _EDGE, tops[1] - 0.27, words, 11, color=SOFT_LINE)

    def _draw_column(
        self, figure: Figure, k: int, left: float, tops: tuple[float, float], cavity: Floats
    ) -> None:
        """Draw the rig above; the flesh below, with the rig's outline."""
        triangles = self.baked.character.surface.triangles
        paper = np.array([int(PAPER[i : i + 2], 16) / 255 for i in (1, 3, 5)])
        covered = []
        for top, points, colours in (
            (tops[0], self.rigs[k], np.broadcast_to(CLAY, self.rigs[k].shape)),
            (tops[1], self.softs[k], self._colours(k)),
        ):
            normals = vertex_normals(points, triangles)
            body = Body(points, triangles, normals, colours, cavity, self.appearance)
            picture, mask = render(body, self._camera(k), self.ground, paper)
            covered.append(mask)
            axes = self._place(figure, left, top, picture)
        if covered[0].max() > 0.5:
            if self.appearance is not None:  # on dark fur a dark line would not be seen
                axes.contour(covered[0], [0.5], colors=[PAPER], linewidths=2.2, alpha=0.45)
            axes.contour(covered[0], [0.5], colors=[INK], linewidths=0.8, alpha=0.8)

    def _colours(self, column: int) -> Floats:
        """Return colours of the flesh, (n, 3)."""
        far = np.linalg.norm(self.softs[column] - self.rigs[column], axis=1)
        part = np.clip(far / max(self.farthest, 1e-12), 0.0, 1.0)[:, None] ** 0.8
        return (1 - part) * self.colour + part * FAR

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

    def _say(
        self, figure: Figure, left: float, top: float, text: str, size: float, **style: Any
    ) -> None:
        usual: dict[str, Any] = {"va": "top", "color": INK, "parse_math": False}
        place = (left / WIDTH, 1 - top / self.height)
        figure.text(*place, text, fontsize=size, **(usual | style))

    def chart_axes(self, figure: Figure) -> Axes:
        """Return axes at the foot."""
        box = (0.7 / WIDTH, 0.42 / self.height, 1 - 0.95 / WIDTH, (_CHART - 0.85) / self.height)
        return figure.add_axes(box)


def _draw_chart(
    axes: Axes, baked: BakedMotion, vertex: int, way: Floats, shown: Sequence[int]
) -> None:
    """Draw a vertex of rig and of flesh along the way it swings, over time."""
    one = np.array([vertex])
    roots = baked.motion.roots
    rig = np.array(
        [
            (baked.character.rig(pose, one)[0] @ root[:3, :3].T + root[:3, 3])
            for pose, root in zip(baked.motion.poses, roots, strict=True)
        ]
    )
    ways = roots[:, :3, :3] @ way
    soft = baked.frames[:, vertex].astype(np.float64)
    lines = [np.einsum("ti,ti->t", points - rig.mean(axis=0), ways) for points in (rig, soft)]
    beside = np.ptp(lines[0]) > _DROWNED * np.ptp(lines[1] - lines[0])
    if beside:  # the swing would be lost in the way across the stage
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
    text = f"vertex {vertex:,} along the way its flesh swings"
    text += ", beside the rig" if beside else ""
    axes.set_title(text, loc="left", fontsize=11, color=INK, pad=6)
    axes.legend(frameon=False, ncols=2, loc="lower right", bbox_to_anchor=(1, 0.98), fontsize=10)
    axes.set_xlabel("seconds", color=INK, fontsize=9, labelpad=1)
