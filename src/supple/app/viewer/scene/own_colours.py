"""Own colours of a character as the viewer's scene can show them: few colours on fine triangles.

A mesh of the page has one colour and no texture. So triangles that a texture changes on are cut
into smaller ones, and colours are rounded to as many as there may be meshes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from supple.app.viewer.scene.colours import Colour
from supple.arrays import Floats, Ints, Singles
from supple.mesh.appearance import Appearance

#: Colours of a texture, at most, and small triangles that it is cut into, about.
MOST_COLOURS, MOST_CUT = 28, 32_000
#: Parts that an edge is cut into, at most, and a number that all up to it divide.
FINEST, SIXTIETHS = 6, 60
#: Colours of a triangle that differ by less, 0 to 1, are one.
ALIKE = 0.08
#: Steps of opacity; what has less than half a step is not there.
OPACITIES = 4


@dataclass(frozen=True, eq=False)
class Band:
    """Part of the skin in one colour.

    Attributes
    ----------
    vertices
        (v,) of the fine skin.
    faces
        (f, 3) counted in `vertices`.
    colour, opacity
        Of all of it; opacity is None where nothing shows through.
    """

    vertices: Ints
    faces: NDArray[np.uint32]
    colour: Colour
    opacity: float | None


@dataclass(frozen=True, eq=False)
class OwnColours:
    """Bands of colours on a skin that is cut finely.

    Attributes
    ----------
    bands
        All that is seen.
    corners, shares
        (w, 3) vertices of the skin that each fine vertex lies between, and shares of these; none
        where the skin is not cut.
    """

    bands: tuple[Band, ...]
    corners: Ints
    shares: Singles

    def placed(self, skin: Singles) -> Singles:
        """Return the fine skin (w, 3) for a skin (n̄, 3)."""
        if len(self.corners) == 0:
            return skin
        a, b, c = self.corners.T
        u, v, w = self.shares.T[..., None]
        return u * skin[a] + v * skin[b] + w * skin[c]


def own_colours(appearance: Appearance, triangles: Ints) -> OwnColours:
    """Cut triangles (m, 3) where their colours change, and sort them by colour."""
    cuts = _cuts(appearance)
    parts = [_cut(appearance, triangles, np.flatnonzero(cuts == n), n) for n in np.unique(cuts)]
    rows = np.concatenate([part[0] for part in parts])
    colours = np.concatenate([part[1] for part in parts])
    if cuts.max() == 1:
        return OwnColours(_bands(triangles, colours), triangles[:0], np.empty((0, 3), np.float32))
    points, fine = np.unique(rows.reshape(-1, 6), axis=0, return_inverse=True)
    shares = points[:, 1::2] / points[:, 1::2].sum(axis=1, keepdims=True)
    corners = np.maximum(points[:, ::2], 0)
    faces = fine.reshape(-1, 3)
    return OwnColours(_bands(faces, colours), corners, shares.astype(np.float32))


def _cuts(appearance: Appearance) -> Ints:
    """Return into how many parts the edges of each triangle are cut."""
    every = np.arange(len(appearance.material_of))
    textured = np.array([each.texture is not None for each in appearance.materials])
    varied = np.zeros(len(every), bool)
    looked_at = every[textured[appearance.material_of] | (appearance.tints is not None)]
    if len(looked_at):
        _, middles = _lattice(4)
        seen = np.stack(
            [
                _shown(appearance, looked_at, np.tile(each, (len(looked_at), 1)), 4)
                for each in middles
            ]
        )
        varied[looked_at] = np.ptp(seen, axis=0).max(axis=1) > ALIKE
    finest = int(np.clip(np.sqrt(MOST_CUT / max(varied.sum(), 1)), 1, FINEST))
    return np.where(varied, finest, 1)


def _lattice(n: int) -> tuple[Ints, Floats]:
    """Return corners (n², 3, 3) of small triangles in n-ths; and their middles, (n², 3) shares."""
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
    """Return small triangles, each corner as three vertices with their shares, and colours."""
    lattice, middles = _lattice(n)
    # In whole numbers, the same for all cuts, so that corners at one place are found to be one.
    shares = np.broadcast_to(lattice * (SIXTIETHS // n), (len(chosen), *lattice.shape))
    vertices = np.broadcast_to(triangles[chosen][:, None, None, :], shares.shape)
    vertices = np.where(shares > 0, vertices, -1)
    order = np.argsort(vertices, axis=-1, kind="stable")
    pairs = np.stack(
        [np.take_along_axis(each, order, axis=-1) for each in (vertices, shares)], axis=-1
    )
    which = np.repeat(chosen, len(lattice))
    colours = _shown(appearance, which, np.tile(middles, (len(chosen), 1)), n)
    return pairs.reshape(-1, 3, 6), colours


def _shown(appearance: Appearance, triangles: Ints, shares: Floats, n: int) -> Floats:
    """Return sRGB and opacity (k, 4) of an n²-th of each triangle."""
    found = appearance.colours(triangles, shares, np.full(len(triangles), 1 / n**2))
    light = found[:, :3]
    found[:, :3] = np.where(light <= 0.0031308, 12.92 * light, 1.055 * light ** (1 / 2.4) - 0.055)
    return found


def _bands(faces: Ints, colours: Floats) -> tuple[Band, ...]:
    palette, nearest = _rounded(np.rint(255 * colours[:, :3]).astype(np.uint8))
    opacity = np.rint(OPACITIES * colours[:, 3]).astype(np.int64)
    made = []
    for key in np.unique(nearest * (OPACITIES + 1) + opacity):
        number, through = divmod(int(key), OPACITIES + 1)
        if through == 0:
            continue
        own = faces[(nearest == number) & (opacity == through)]
        used, counted = np.unique(own, return_inverse=True)
        red, green, blue = palette[number].tolist()
        solid = None if through == OPACITIES else through / OPACITIES
        made.append(Band(used, counted.reshape(-1, 3).astype(np.uint32), (red, green, blue), solid))
    return tuple(made)


def _rounded(colours: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], Ints]:
    """Return a few colours (k, 3), and which of them stands for each of many."""
    from PIL import Image

    exact, which = np.unique(colours, axis=0, return_inverse=True)
    if len(exact) <= MOST_COLOURS:
        return exact, which.reshape(-1)
    # As few as come near most of them: noise within one colour would cut the skin up.
    for count in (6, 10, 16, MOST_COLOURS):
        picture = Image.fromarray(colours[None]).quantize(count, kmeans=1)
        which = np.asarray(picture, np.int64)[0]
        sums = np.stack([np.bincount(which, channel, count) for channel in colours.T], axis=1)
        means = sums / np.maximum(np.bincount(which, minlength=count), 1)[:, None]
        apart = np.abs(colours - means[which]).max(axis=1)
        if np.quantile(apart, 0.9) <= 255 * ALIKE:
            break
    return np.rint(means).astype(np.uint8), which
