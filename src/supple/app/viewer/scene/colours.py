"""Colours of the skin as the scene can show them: bands of triangles, one colour each.

A mesh of the page has one colour and no texture. Triangles across which a texture changes are
subdivided, and colours are rounded to a small palette.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.anatomy.anatomy import Anatomy
from supple.app.pictures.anatomy_sheet import anatomy_map
from supple.app.pictures.drawing import BONE, PALETTE, Colour, rgb, vertex_means
from supple.arrays import Floats, Ints, Singles
from supple.mesh.appearance import Appearance

FLESH: Colour = (208, 147, 122)
CHOSEN: Colour = (255, 226, 64)
#: From zero to the largest value; readable by the colour-blind and on a light page.
RAMP: tuple[Colour, ...] = (
    (222, 224, 226),
    (196, 208, 219),
    (154, 187, 209),
    (112, 160, 192),
    (96, 129, 176),
    (111, 96, 158),
    (143, 66, 137),
    (181, 42, 103),
    (214, 46, 62),
    (240, 96, 34),
)
#: Most bands; each is a node of the scene.
MOST_BANDS = 17
#: Most colours of a texture, and about the most triangles after subdivision.
MOST_COLOURS, MOST_CUT = 28, 32_000
#: Most parts of an edge, and a common multiple of all numbers up to it.
FINEST, SIXTIETHS = 6, 60
#: Colours that differ by less, 0 to 1, count as equal.
ALIKE = 0.08
#: Steps of opacity; less than half a step is invisible.
OPACITIES = 4


@dataclass(frozen=True, eq=False)
class ColourBands:
    """Colour bands of a skin; each triangle is in one band."""

    bands: Ints  # (f,) band of each triangle
    colours: tuple[Colour, ...]  # of each band
    _parts: list[tuple[Ints, NDArray[np.uint32]]] = field(default_factory=list, repr=False)

    def parts(self, triangles: Ints, count: int) -> list[tuple[Ints, NDArray[np.uint32]]]:
        """Return each band's vertices, and its triangles as indices into them; cached.

        `count` is the number of vertices of the skin.
        """
        if not self._parts:
            self._parts.extend(self._sorted(triangles, count))
        return self._parts

    def _sorted(self, triangles: Ints, count: int) -> list[tuple[Ints, NDArray[np.uint32]]]:
        order = np.argsort(self.bands.astype(np.uint8), kind="stable")
        band = self.bands[order]
        keys = band[:, None] * count + triangles[order]
        is_used = np.zeros(len(self.colours) * count, bool)
        is_used[keys] = True
        used = np.flatnonzero(is_used)
        places = np.zeros(len(is_used), np.uint32)
        edges = np.searchsorted(used, np.arange(len(self.colours) + 1) * count)
        starts = np.searchsorted(band, np.arange(len(self.colours) + 1))
        places[used] = np.arange(len(used)) - np.repeat(edges[:-1], np.diff(edges))
        faces, vertices = places[keys], used % count
        return [
            (vertices[edges[k] : edges[k + 1]], faces[starts[k] : starts[k + 1]])
            for k in range(len(self.colours))
        ]


def by_displacement(
    soft: Singles, undeformed: Singles, triangles: Ints, full: float
) -> ColourBands:
    """Colour by the distance from the undeformed skin; `full` metres get the last colour."""
    offset = soft - undeformed
    distance = np.sqrt(np.einsum("ij,ij->i", offset, offset))
    first, second, third = triangles.T
    total = distance[first] + distance[second] + distance[third]
    band = total * (len(RAMP) / (3 * max(full, 1e-12)))
    return ColourBands(np.minimum(band, len(RAMP) - 1).astype(np.int64), RAMP)


def by_pressure(pressure: Floats, triangles: Ints, full: float) -> ColourBands:
    """Colour by the square root of the pressure (n̄,); `full` Pa get the last colour."""
    part = np.sqrt(np.maximum(pressure[triangles].mean(axis=1), 0.0) / max(full, 1e-12))
    bands = np.minimum(np.ceil(len(RAMP) * part), len(RAMP) - 1)
    return ColourBands(bands.astype(np.int64), RAMP)


def by_held(held: NDArray[np.bool_]) -> ColourBands:
    """Colour triangles grey where `held` (f,) is True, and others as flesh."""
    return ColourBands(held.astype(np.int64), (FLESH, rgb(BONE)))


def by_anatomy(anatomy: Anatomy, which: str, chosen: Sequence[str] = ()) -> ColourBands:
    """Colour by one of `ANATOMY_MAPS`, with the regions of the chosen joints highlighted."""
    shown = anatomy_map(anatomy, which)
    triangles = anatomy.surface.triangles
    numbers = [number for number, name in enumerate(anatomy.joints) if name in chosen]
    inside = np.isin(anatomy.region[triangles], numbers).sum(axis=1) >= 2
    bands = np.where(inside, len(shown.colours), shown.bands)
    return ColourBands(bands, (*shown.colours, CHOSEN))


def by_region(model: Any) -> ColourBands:
    """Colour by the region that moves a triangle most; grey where bones hold the skin."""
    shares = np.zeros((len(model.mesh.vertices), len(model.regions) + 1))
    for column, region in enumerate(model.regions):
        shares[region.vertices, column] = region.weights
    shares[:, -1] = np.clip(1 - shares.sum(axis=1), 0, None)
    skin = np.asarray(model.embedding @ shares)
    bands = skin[model.surface.triangles].mean(axis=1).argmax(axis=1)
    last = len(model.regions)
    if last >= MOST_BANDS:  # several regions share a colour
        bands = np.where(bands == last, MOST_BANDS - 1, bands % (MOST_BANDS - 1))
        last = MOST_BANDS - 1
    regions = [rgb(name) for name in PALETTE]  # further regions get darker copies
    colours = [_darker(regions[k % len(regions)], k // len(regions)) for k in range(last)]
    return ColourBands(bands.astype(np.int64), (*colours, rgb(BONE)))


def by_stiffness(model: Any) -> ColourBands:
    """Colour by the logarithm of Young's modulus at a tet model's neutral pose."""
    young = np.asarray(model.young, np.float64)
    tets = model.mesh.tets
    logarithm = np.log(np.broadcast_to(young[0] if young.ndim == 2 else young, (len(tets),)))
    means = vertex_means(logarithm, tets, len(model.mesh.vertices))
    skin = np.asarray(model.embedding @ means)
    value = skin[model.surface.triangles].mean(axis=1)
    span = float(np.ptp(value))
    if span < 1e-3:  # one stiffness
        return ColourBands(np.zeros(len(value), np.int64), (RAMP[3],))
    part = (value - value.min()) / span
    return ColourBands(np.minimum((part * len(RAMP)).astype(np.int64), len(RAMP) - 1), RAMP)


def _darker(colour: Colour, times: int) -> Colour:
    red, green, blue = (int(channel * 0.7**times) for channel in colour)
    return red, green, blue


# Colours from the character's file ---------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ColourBand:
    """Part of the skin in one colour."""

    vertices: Ints  # (v,) of the subdivided skin
    faces: NDArray[np.uint32]  # (f, 3) indices into `vertices`
    colour: Colour
    opacity: float | None  # None for an opaque band


@dataclass(frozen=True, eq=False)
class AppearanceBands:
    """Visible colour bands of a skin, which is subdivided unless `corners` is empty."""

    bands: tuple[ColourBand, ...]
    corners: Ints  # (w, 3) vertices of the skin for each vertex of the subdivided skin
    shares: Singles  # (w, 3) barycentric weights

    def subdivided(self, skin: Singles) -> Singles:
        """Return the subdivided skin (w, 3) of a skin (n̄, 3)."""
        if len(self.corners) == 0:
            return skin
        a, b, c = self.corners.T
        u, v, w = self.shares.T[..., None]
        return u * skin[a] + v * skin[b] + w * skin[c]


def appearance_bands(appearance: Appearance, triangles: Ints) -> AppearanceBands:
    """Subdivide triangles (m, 3) across which colours change, and sort them by colour."""
    cuts = _cuts(appearance)
    parts = [_cut(appearance, triangles, np.flatnonzero(cuts == n), n) for n in np.unique(cuts)]
    rows = np.concatenate([part[0] for part in parts])
    colours = np.concatenate([part[1] for part in parts])
    if cuts.max() == 1:
        return AppearanceBands(
            _bands(triangles, colours), triangles[:0], np.empty((0, 3), np.float32)
        )
    points, fine = np.unique(rows.reshape(-1, 6), axis=0, return_inverse=True)
    shares = points[:, 1::2] / points[:, 1::2].sum(axis=1, keepdims=True)
    corners = np.maximum(points[:, ::2], 0)
    faces = fine.reshape(-1, 3)
    return AppearanceBands(_bands(faces, colours), corners, shares.astype(np.float32))


def _cuts(appearance: Appearance) -> Ints:
    """Return the number of parts, (m,), into which the edges of each triangle are divided."""
    every = np.arange(len(appearance.material_of))
    textured = np.array([each.texture is not None for each in appearance.materials])
    varied = np.zeros(len(every), bool)
    sampled = every[textured[appearance.material_of] | (appearance.tints is not None)]
    if len(sampled):
        _, middles = _lattice(4)
        colours = np.stack(
            [_srgb(appearance, sampled, np.tile(each, (len(sampled), 1)), 4) for each in middles]
        )
        varied[sampled] = np.ptp(colours, axis=0).max(axis=1) > ALIKE
    finest = int(np.clip(np.sqrt(MOST_CUT / max(varied.sum(), 1)), 1, FINEST))
    return np.where(varied, finest, 1)


def _lattice(n: int) -> tuple[Ints, Floats]:
    """Return the n² parts of a triangle: corners (n², 3, 3) in n-ths, and barycentres (n², 3)."""
    small = []
    for i in range(n):
        for j in range(n - i):
            k = n - i - j
            small.append([(k, i, j), (k - 1, i + 1, j), (k - 1, i, j + 1)])
            if k > 1:
                small.append([(k - 1, i + 1, j), (k - 2, i + 1, j + 1), (k - 1, i, j + 1)])
    corners = np.array(small)
    return corners, corners.mean(axis=1) / n


def _cut(appearance: Appearance, triangles: Ints, chosen: Ints, n: int) -> tuple[Ints, Floats]:
    """Return the n² parts of the `chosen` triangles (k, 3, 6), and their colours (k, 4).

    Each corner of a part is three vertices with integer weights, one after the other.
    """
    lattice, middles = _lattice(n)
    # Integer weights of one denominator, so that coinciding corners compare equal.
    shares = np.broadcast_to(lattice * (SIXTIETHS // n), (len(chosen), *lattice.shape))
    vertices = np.broadcast_to(triangles[chosen][:, None, None, :], shares.shape)
    vertices = np.where(shares > 0, vertices, -1)
    order = np.argsort(vertices, axis=-1, kind="stable")
    pairs = np.stack(
        [np.take_along_axis(each, order, axis=-1) for each in (vertices, shares)], axis=-1
    )
    which = np.repeat(chosen, len(lattice))
    colours = _srgb(appearance, which, np.tile(middles, (len(chosen), 1)), n)
    return pairs.reshape(-1, 3, 6), colours


def _srgb(appearance: Appearance, triangles: Ints, shares: Floats, n: int) -> Floats:
    """Return sRGB and opacity (k, 4), averaged over an n²-th of each triangle."""
    rgba = appearance.colours(triangles, shares, np.full(len(triangles), 1 / n**2))
    light = rgba[:, :3]
    rgba[:, :3] = np.where(light <= 0.0031308, 12.92 * light, 1.055 * light ** (1 / 2.4) - 0.055)
    return rgba


def _bands(faces: Ints, colours: Floats) -> tuple[ColourBand, ...]:
    palette, nearest = _rounded(np.rint(255 * colours[:, :3]).astype(np.uint8))
    opacity = np.rint(OPACITIES * colours[:, 3]).astype(np.int64)
    bands = []
    for key in np.unique(nearest * (OPACITIES + 1) + opacity):
        number, level = divmod(int(key), OPACITIES + 1)
        if level == 0:
            continue
        part = faces[(nearest == number) & (opacity == level)]
        used, indices = np.unique(part, return_inverse=True)
        red, green, blue = palette[number].tolist()
        solid = None if level == OPACITIES else level / OPACITIES
        corners = indices.reshape(-1, 3).astype(np.uint32)
        bands.append(ColourBand(used, corners, (red, green, blue), solid))
    return tuple(bands)


def _rounded(colours: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], Ints]:
    """Return a palette (k, 3), and the palette index of each colour."""
    from PIL import Image

    exact, which = np.unique(colours, axis=0, return_inverse=True)
    if len(exact) <= MOST_COLOURS:
        return exact, which.reshape(-1)
    # The smallest palette near most colours: noise within one colour would fragment the skin.
    for count in (6, 10, 16, MOST_COLOURS):
        picture = Image.fromarray(colours[None]).quantize(count, kmeans=1)
        which = np.asarray(picture, np.int64)[0]
        sums = np.stack([np.bincount(which, channel, count) for channel in colours.T], axis=1)
        means = sums / np.maximum(np.bincount(which, minlength=count), 1)[:, None]
        error = np.abs(colours - means[which]).max(axis=1)
        if np.quantile(error, 0.9) <= 255 * ALIKE:
            break
    return np.rint(means).astype(np.uint8), which
