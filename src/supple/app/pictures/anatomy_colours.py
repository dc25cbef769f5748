"""Colour maps of an anatomy: roles, thickness of flesh, and hardness."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from supple.anatomy.anatomy import Anatomy
from supple.app.pictures.drawing import length_label
from supple.arrays import Floats, Ints

Colour = tuple[int, int, int]

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
    """Map on the triangles of a skin.

    Attributes
    ----------
    bands
        (f,) band of each triangle.
    colours, labels
        Of each band.
    """

    bands: Ints
    colours: tuple[Colour, ...]
    labels: tuple[str, ...]


def anatomy_map(anatomy: Anatomy, which: str) -> AnatomyMap:
    """Return one of `ANATOMY_MAPS`."""
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
    bands = _most(number[anatomy.surface.triangles])
    return AnatomyMap(bands, tuple(table[name] for name in used), tuple(used))


def flesh_thickness(anatomy: Anatomy) -> Floats:
    """Return the thickness φR of flesh (n̄,) in m, 0 in hard parts."""
    return np.where(anatomy.hard, 0.0, anatomy.share * anatomy.thickness)


def _feels(anatomy: Anatomy) -> np.ndarray:
    feels = np.full(len(anatomy.share), "flesh", "<U5")
    feels[anatomy.firmness > FIRM] = "firm"
    feels[(anatomy.firmness < SOFT) | (anatomy.share >= ALL_FLESH)] = "soft"
    feels[anatomy.hard] = "hard"
    feels[anatomy.apart] = "apart"
    return feels


def _flesh(anatomy: Anatomy) -> AnatomyMap:
    """Return a map with even steps from zero to the thickest flesh."""
    thick, steps = flesh_thickness(anatomy), len(FLESH_COLOURS) - 1
    most = max(float(thick.max(initial=0.0)), 1e-300)
    bands = np.ceil(steps * thick / most - 1e-9).astype(np.int64)
    ends = [most * band / steps for band in range(1, steps + 1)]
    labels = ("none: bone", *(f"to {length_label(end)}" for end in ends))
    triangles = anatomy.surface.triangles
    return AnatomyMap(_most(np.clip(bands, 0, steps)[triangles]), FLESH_COLOURS, labels)


def _most(corners: Ints) -> Ints:
    """Return the median band of the corners of triangles (f, 3)."""
    return np.sort(corners, axis=1)[:, 1]
