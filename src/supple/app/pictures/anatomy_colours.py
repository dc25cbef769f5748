"""Maps of an anatomy in colours: roles, thickness of flesh, and hard, soft and separate parts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from supple.anatomy.anatomy import Anatomy
from supple.app.pictures.drawing import length_label
from supple.arrays import Floats, Ints

Colour = tuple[int, int, int]

#: Cold colours for what is hard, warm ones for flesh.
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
#: Thickness of flesh, from none to the most.
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
#: Stiffness factors beyond which flesh is called firm or soft, and the share of all flesh.
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
        (f,) numbers of the triangles' bands.
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
    """(n̄,) φR in metres, 0 where nothing moves."""
    return np.where(anatomy.hard, 0.0, anatomy.share * anatomy.thickness)


def _feels(anatomy: Anatomy) -> np.ndarray:
    found = np.full(len(anatomy.share), "flesh", "<U5")
    found[anatomy.firmness > FIRM] = "firm"
    found[(anatomy.firmness < SOFT) | (anatomy.share >= ALL_FLESH)] = "soft"
    found[anatomy.hard] = "hard"
    found[anatomy.apart] = "apart"
    return found


def _flesh(anatomy: Anatomy) -> AnatomyMap:
    """Bands of even steps, from none to the thickest flesh of the body."""
    thick, steps = flesh_thickness(anatomy), len(FLESH_COLOURS) - 1
    most = max(float(thick.max(initial=0.0)), 1e-300)
    bands = np.ceil(steps * thick / most - 1e-9).astype(np.int64)
    ends = [most * band / steps for band in range(1, steps + 1)]
    labels = ("none: bone", *(f"to {length_label(end)}" for end in ends))
    triangles = anatomy.surface.triangles
    return AnatomyMap(_most(np.clip(bands, 0, steps)[triangles]), FLESH_COLOURS, labels)


def _most(corners: Ints) -> Ints:
    """(f,) the band of two corners or more of triangles (f, 3), else of the middle one."""
    return np.sort(corners, axis=1)[:, 1]
