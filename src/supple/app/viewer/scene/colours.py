"""Colours of the skin: its triangles sorted into bands of one colour each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.anatomy.anatomy import Anatomy
from supple.app.pictures.anatomy_colours import anatomy_map
from supple.arrays import Floats, Ints, Singles

Colour = tuple[int, int, int]

FLESH: Colour = (208, 147, 122)
BONE: Colour = (169, 169, 172)
CHOSEN: Colour = (255, 226, 64)
#: From still to far; readable by the colour-blind, and on a light page.
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
#: Of regions; later ones are these again, darker.
REGIONS: tuple[Colour, ...] = (
    (78, 121, 167),
    (242, 142, 43),
    (89, 161, 79),
    (225, 87, 89),
    (176, 122, 161),
    (237, 201, 72),
    (118, 183, 178),
    (156, 107, 79),
)
#: Nodes in the scene; more would cost more than they show.
MOST_BANDS = 17


@dataclass(frozen=True, eq=False)
class Banding:
    """Band of every triangle.

    Attributes
    ----------
    bands
        (f,) numbers of the triangles' bands.
    colours
        Of each band.
    """

    bands: Ints
    colours: tuple[Colour, ...]
    _parts: list[tuple[Ints, NDArray[np.uint32]]] = field(default_factory=list, repr=False)

    def parts(self, triangles: Ints, count: int) -> list[tuple[Ints, NDArray[np.uint32]]]:
        """Return each band's vertices, and its triangles counted in them, of a skin of `count`.

        They are kept: two skins may be shown in the same bands.
        """
        if not self._parts:
            self._parts.extend(self._sorted(triangles, count))
        return self._parts

    def _sorted(self, triangles: Ints, count: int) -> list[tuple[Ints, NDArray[np.uint32]]]:
        order = np.argsort(self.bands.astype(np.uint8), kind="stable")
        band = self.bands[order]
        keys = band[:, None] * count + triangles[order]
        there = np.zeros(len(self.colours) * count, bool)
        there[keys] = True
        used = np.flatnonzero(there)
        places = np.zeros(len(there), np.uint32)
        edges = np.searchsorted(used, np.arange(len(self.colours) + 1) * count)
        starts = np.searchsorted(band, np.arange(len(self.colours) + 1))
        places[used] = np.arange(len(used)) - np.repeat(edges[:-1], np.diff(edges))
        faces, vertices = places[keys], used % count
        return [
            (vertices[edges[k] : edges[k + 1]], faces[starts[k] : starts[k + 1]])
            for k in range(len(self.colours))
        ]


def by_displacement(soft: Singles, undeformed: Singles, triangles: Ints, full: float) -> Banding:
    """Colour by the distance from the undeformed skin; `full` metres are the last colour."""
    apart = soft - undeformed
    away = np.sqrt(np.einsum("ij,ij->i", apart, apart))
    first, second, third = triangles.T
    far = (away[first] + away[second] + away[third]) * (len(RAMP) / (3 * max(full, 1e-12)))
    return Banding(np.minimum(far, len(RAMP) - 1).astype(np.int64), RAMP)


def by_pressure(pressure: Floats, triangles: Ints, full: float) -> Banding:
    """Colour by the root of the pressure (n̄,) on a triangle's corners; `full` Pa the last."""
    part = np.sqrt(np.maximum(pressure[triangles].mean(axis=1), 0.0) / max(full, 1e-12))
    bands = np.minimum(np.ceil(len(RAMP) * part), len(RAMP) - 1)
    return Banding(bands.astype(np.int64), RAMP)


def by_held(held: NDArray[np.bool_]) -> Banding:
    """Colour triangles (f,) that are held grey, and others as flesh."""
    return Banding(held.astype(np.int64), (FLESH, BONE))


def by_anatomy(anatomy: Anatomy, which: str, chosen: Sequence[str] = ()) -> Banding:
    """Colour by one of `ANATOMY_MAPS`; regions of the chosen joints stand out."""
    shown = anatomy_map(anatomy, which)
    triangles = anatomy.surface.triangles
    numbers = [number for number, name in enumerate(anatomy.joints) if name in chosen]
    inside = np.isin(anatomy.region[triangles], numbers).sum(axis=1) >= 2
    bands = np.where(inside, len(shown.colours), shown.bands)
    return Banding(bands, (*shown.colours, CHOSEN))


def by_region(model: Any) -> Banding:
    """Colour by the region of a tet model that moves a triangle most; bones hold what is grey."""
    shares = np.zeros((len(model.mesh.vertices), len(model.regions) + 1))
    for column, region in enumerate(model.regions):
        shares[region.vertices, column] = region.weights
    shares[:, -1] = np.clip(1 - shares.sum(axis=1), 0, None)
    skin = np.asarray(model.embedding @ shares)
    bands = skin[model.surface.triangles].mean(axis=1).argmax(axis=1)
    last = len(model.regions)
    if last >= MOST_BANDS:  # far regions share a colour
        bands = np.where(bands == last, MOST_BANDS - 1, bands % (MOST_BANDS - 1))
        last = MOST_BANDS - 1
    colours = [_darker(REGIONS[k % len(REGIONS)], k // len(REGIONS)) for k in range(last)]
    return Banding(bands.astype(np.int64), (*colours, BONE))


def by_stiffness(model: Any) -> Banding:
    """Colour by the logarithm of Young's modulus at a tet model's neutral pose."""
    young = np.asarray(model.young, np.float64)
    tets = model.mesh.tets
    own = np.log(np.broadcast_to(young[0] if young.ndim == 2 else young, (len(tets),)))
    total, count = np.zeros(len(model.mesh.vertices)), np.zeros(len(model.mesh.vertices))
    for corner in tets.T:
        np.add.at(total, corner, own)
        np.add.at(count, corner, 1.0)
    skin = np.asarray(model.embedding @ (total / np.maximum(count, 1)))
    value = skin[model.surface.triangles].mean(axis=1)
    span = float(np.ptp(value))
    if span < 1e-3:  # all alike
        return Banding(np.zeros(len(value), np.int64), (RAMP[3],))
    part = (value - value.min()) / span
    return Banding(np.minimum((part * len(RAMP)).astype(np.int64), len(RAMP) - 1), RAMP)


def _darker(colour: Colour, times: int) -> Colour:
    red, green, blue = (int(channel * 0.7**times) for channel in colour)
    return red, green, blue
