"""Anatomy in colours: maps of role, thickness of flesh and hardness, and a sheet of all three."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from supple.anatomy.anatomy import Anatomy
from supple.app.pictures.drawing import (
    INK,
    PAPER,
    PAPER_RGB,
    Colour,
    label,
    length_label,
    save_picture,
    view_axes,
)
from supple.app.pictures.render import Camera, cavities, rasterised
from supple.arrays import Floats, Ints
from supple.mesh.surface import vertex_normals
from supple.mesh.topology import counted

#: Cold colours for hard parts, warm ones for flesh.
ROLE_COLOURS: dict[str, Colour] = {
    "prop": (62, 64, 74),
    "horn": (120, 104, 92),
    "hand": (88, 150, 168),
    "foot": (66, 112, 150),
    "end": (150, 160, 172),
    "head": (112, 128, 190),
    "fin": (120, 190, 178),
    "forearm": (206, 190, 96),
    "shin": (178, 166, 74),
    "ear": (214, 150, 196),
    "neck": (236, 158, 84),
    "limb": (240, 192, 92),
    "tail": (122, 176, 92),
    "trunk": (222, 110, 92),
    "soft": (196, 62, 116),
}
FEEL_COLOURS: dict[str, Colour] = {
    "apart": (62, 64, 74),
    "hard": (128, 140, 160),
    "firm": (206, 190, 120),
    "flesh": (226, 138, 112),
    "soft": (196, 62, 116),
}
#: Thickness of flesh, from zero to the largest.
FLESH_COLOURS: tuple[Colour, ...] = (
    (150, 158, 170),
    (236, 222, 196),
    (240, 200, 158),
    (238, 172, 124),
    (230, 138, 100),
    (214, 102, 88),
    (190, 70, 86),
    (152, 46, 88),
)
#: Stiffness factors above and below which flesh is firm or soft; share of flesh that is soft.
FIRM, SOFT, ALL_FLESH = 1.5, 0.7, 0.9

ANATOMY_MAPS = {
    "role": "role",
    "thickness": "thickness of flesh",
    "hardness": "hard, soft, apart",
}


@dataclass(frozen=True, eq=False)
class AnatomyMap:
    """Map of a skin: each triangle is in a band, which has a colour and a label."""

    bands: Ints  # (f,) band of each triangle
    colours: tuple[Colour, ...]  # of each band
    labels: tuple[str, ...]  # of each band


def anatomy_map(anatomy: Anatomy, which: str) -> AnatomyMap:
    """Return the map `which` of an anatomy, a key of `ANATOMY_MAPS`."""
    if which == "thickness":
        return _flesh(anatomy)
    names, table = (
        (np.array(anatomy.role), ROLE_COLOURS)
        if which == "role"
        else (_feels(anatomy), FEEL_COLOURS)
    )
    used = [name for name in table if (names == name).any()]
    number = np.zeros(len(names), np.int64)
    for band, name in enumerate(used):
        number[names == name] = band
    bands = _median_band(number[anatomy.surface.triangles])
    return AnatomyMap(bands, tuple(table[name] for name in used), tuple(used))


def _feels(anatomy: Anatomy) -> np.ndarray:
    feels = np.full(len(anatomy.share), "flesh", "<U5")
    feels[anatomy.firmness > FIRM] = "firm"
    feels[(anatomy.firmness < SOFT) | (anatomy.share >= ALL_FLESH)] = "soft"
    feels[anatomy.hard] = "hard"
    feels[anatomy.apart] = "apart"
    return feels


def _flesh(anatomy: Anatomy) -> AnatomyMap:
    """Return a map of the thickness of flesh, in even steps; hard parts have thickness 0."""
    thick = np.where(anatomy.hard, 0.0, anatomy.share * anatomy.thickness)
    steps = len(FLESH_COLOURS) - 1
    thickest = max(float(thick.max(initial=0.0)), 1e-300)
    bands = np.ceil(steps * thick / thickest - 1e-9).astype(np.int64)
    ends = [thickest * band / steps for band in range(1, steps + 1)]
    labels = ("none: bone", *(f"to {length_label(end)}" for end in ends))
    triangles = anatomy.surface.triangles
    return AnatomyMap(_median_band(np.clip(bands, 0, steps)[triangles]), FLESH_COLOURS, labels)


def _median_band(corners: Ints) -> Ints:
    """Return the median band of the corners of triangles (f, 3)."""
    return np.sort(corners, axis=1)[:, 1]


# Sheet -----------------------------------------------------------------------------------------

#: Azimuths of cameras in degrees: front, side and back.
AZIMUTHS, ELEVATION = (30.0, 90.0, 210.0), 14.0
#: Pixels of the longer side of a picture, and inches of it.
PIXELS, INCHES = 460, 3.4
#: Width of the legend, and least height of a row, in inches.
LEGEND, SHORTEST = 1.45, 2.2
#: Sub-pixels across a pixel, and direction of light: right, up and towards the viewer.
FINE, LIGHT = 2, np.array([-0.25, 0.45, 0.86])


def write_anatomy_sheet(anatomy: Anatomy, path: str | Path) -> None:
    """Draw the sheet into a PNG file."""
    save_picture(anatomy_sheet(anatomy), Path(path))


def anatomy_sheet(anatomy: Anatomy) -> Figure:
    """Draw a row for each of `ANATOMY_MAPS` with its legend, a column for each of `AZIMUTHS`."""
    surface = anatomy.surface
    views = [view_axes(azimuth, ELEVATION) for azimuth in AZIMUTHS]
    cameras = _cameras(surface.vertices, views)
    width, height = (INCHES * side / PIXELS for side in cameras[0].pixels)
    row = max(height, SHORTEST)
    figure = Figure(
        figsize=(width * len(views) + LEGEND, row * len(ANATOMY_MAPS) + 0.45),
        facecolor=PAPER,
        layout="constrained",
    )
    figure.suptitle(_title(anatomy), color=INK, fontsize=11)
    grid = figure.subplots(
        len(ANATOMY_MAPS),
        len(views) + 1,
        squeeze=False,
        width_ratios=[*[width] * len(views), LEGEND],
    )
    sides = [_Side(anatomy, camera) for camera in cameras]
    for axes_row, (which, title) in zip(grid, ANATOMY_MAPS.items(), strict=True):
        shown = anatomy_map(anatomy, which)
        for axes, side in zip(axes_row[:-1], sides, strict=True):
            axes.imshow(side.picture(shown), interpolation="antialiased")
            axes.set_axis_off()
        legend = axes_row[-1]
        legend.set_axis_off()
        patches = [
            Patch(color=to_hex((red / 255, green / 255, blue / 255)), label=text)
            for (red, green, blue), text in zip(shown.colours, shown.labels, strict=True)
        ]
        legend.legend(
            handles=patches,
            title=title,
            loc="center left",
            fontsize=8,
            title_fontsize=9,
            frameon=False,
            labelcolor=INK,
            alignment="left",
            borderaxespad=0.0,
        )
    return figure


def _title(anatomy: Anatomy) -> str:
    regions = counted(len(anatomy.joints), "region")
    hard = f"{100 * anatomy.hard_part:.0f} % of the skin is hard"
    return f"{label(anatomy.name, 40)}: {regions}, {hard}"


def _cameras(vertices: Floats, views: list[Floats]) -> list[Camera]:
    """Return cameras of one scale and picture size, large enough for all views."""
    centre = (vertices.min(axis=0) + vertices.max(axis=0)) / 2
    spans = [2 * np.abs((vertices - centre) @ view[:2].T).max(axis=0) for view in views]
    span = 1.12 * np.maximum(np.max(spans, axis=0), 1e-12)
    scale = PIXELS / float(span.max())
    pixels = (max(int(scale * span[0]), 40), max(int(scale * span[1]), 40))
    return [Camera(view, centre, scale, pixels) for view in views]


class _Side:
    """Skin from one side in even light, so that colours match the legend."""

    def __init__(self, anatomy: Anatomy, camera: Camera) -> None:
        surface, fine = anatomy.surface, camera.finer(FINE)
        self.pixels = camera.pixels
        seen = fine.project(surface.vertices)
        _, self.which, parts = rasterised(seen, surface.triangles, *fine.pixels)
        self.covered = self.which >= 0
        corners = surface.triangles[self.which[self.covered]]
        u, v = parts[self.covered].T.astype(np.float64)
        shares = np.stack([u, v, 1 - u - v], axis=1)
        normals = vertex_normals(surface.vertices, surface.triangles)[corners]
        normal = np.einsum("kc,kci->ki", shares, normals)
        normal /= np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-12)
        hollow = np.einsum("kc,kc->k", shares, cavities(surface)[corners])
        light = 0.62 + 0.38 * np.clip(normal @ camera.view.T @ LIGHT, 0.0, 1.0)
        self.light = (light * np.clip(0.4 + 0.6 * hollow, 0.0, 1.05))[:, None]

    def picture(self, shown: AnatomyMap) -> Floats:
        """Return pixels (h, w, 3) in the colours of a map."""
        colours = np.array(shown.colours, np.float64)[shown.bands] / 255
        width, height = self.pixels
        picture = np.tile(PAPER_RGB, (*self.which.shape, 1))
        picture[self.covered] = np.clip(colours[self.which[self.covered]] * self.light, 0.0, 1.0)
        return picture.reshape(height, FINE, width, FINE, 3).mean(axis=(1, 3))
