"""Options of `supple stvk`: the command line fills them, and passes them on."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from supple.errors import SuppleError

if TYPE_CHECKING:
    from supple.elastic.material import Material

KINDS = ("voxels", "tets")
#: Beyond, modes and derivatives take minutes and gigabytes.
MOST_ELEMENTS, FINEST = 200_000, 400
#: Axis and direction of each side, with y upwards.
SIDES = {
    "left": (0, -1),
    "right": (0, 1),
    "bottom": (1, -1),
    "top": (1, 1),
    "back": (2, -1),
    "front": (2, 1),
}
PLACE = re.compile(r"([xyz])\s*([<>])=?\s*([-+0-9.eE]+)")
SIDE = re.compile(rf"({'|'.join(SIDES)})(?::([0-9.]+)%)?")
HELP = (
    f'use a side ({", ".join(SIDES)}; bottom:10%), a place such as "y<0.05", a .bou file, or none'
)


@dataclass(frozen=True)
class Filling:
    """Way to fill a surface; None where nothing was asked for."""

    kind: Annotated[Literal["voxels", "tets"] | None, Parameter(name="--elements")] = None
    """What to fill a surface with; by default cubes."""
    count: int | None = None
    """How many; by default 4000."""
    resolution: int | None = None
    """Cells along the longest side, instead."""

    def __post_init__(self) -> None:
        """Refuse what is beyond reason before anything is read."""
        if self.kind not in (None, *KINDS):
            raise SuppleError(f"--elements {self.kind!r:.40}; there are {', '.join(KINDS)}")
        if self.count is not None and self.resolution is not None:
            raise SuppleError("--count and --resolution say the same; give one of them")
        for name, value, most in (
            ("count", self.count, MOST_ELEMENTS),
            ("resolution", self.resolution, FINEST),
        ):
            if value is not None and not 1 <= value <= most:
                raise SuppleError(f"--{name} {value}; use 1 to {most}")

    @property
    def asked(self) -> bool:
        """Return whether anything was asked for."""
        return (self.kind, self.count, self.resolution) != (None, None, None)


@dataclass(frozen=True)
class BodyOptions:
    """Options of an elastic body; for None there is a default."""

    modes: int | None = None
    """How many ways it can move in; by default 20, or what the scene has. Twice as many make a
    step sixteen times as dear."""
    basis: Literal["derivatives", "modes"] = "derivatives"
    """"derivatives" for large motion; "modes" for small."""
    fixed: Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")] = None
    """Where it is held: bottom, top, left, right, back, front (the outermost 5 % there; or
    bottom:20%), places such as "y<0.05" in m, a list of vertices (FILE.bou), or none. By default
    what NAME.bou beside NAME.veg lists, or else the bottom."""
    young: float | None = None
    """Young's modulus in Pa: how stiff it is."""
    frequency: float | None = None
    """How fast the slowest swing shall be, in Hz, instead; 2 for what has no material."""
    poisson: float | None = None
    """Poisson's ratio, below 0.5; by default 0.4, or what the file says."""
    density: float | None = None
    """In kg/m³; by default 1000, or what the file says."""
    filling: Annotated[Filling, Parameter(name="*")] = field(default_factory=Filling)
    scale: float = 1.0
    """Metres a unit of the file: 0.001 for millimetres."""
    surface: Path | None = None
    """A surface in the same place (.obj .ply .stl .off) to be seen instead."""

    def __post_init__(self) -> None:
        """Refuse what cannot be before anything is read."""
        from supple.elastic.material import Material
        from supple.engines.stvk.build import BASES
        from supple.engines.stvk.coefficients import MOST_MODES

        if self.modes is not None and not 1 <= self.modes <= MOST_MODES:
            raise SuppleError(f"--modes {self.modes}; use 1 to {MOST_MODES}")
        if self.basis not in BASES:
            raise SuppleError(f"--basis {self.basis!r:.40}; there are {', '.join(BASES)}")
        check_words(self.fixed)
        if self.young is not None and self.frequency is not None:
            raise SuppleError("--young and --frequency both say how stiff it is; give one of them")
        for name in ("scale", "frequency"):
            value = getattr(self, name)
            if value is not None and not 1e-9 <= value <= 1e9:
                raise SuppleError(f"--{name} {value}; use a positive number")
        self.material(Material("stvk"))

    def material(self, usual: Material) -> Material:
        """Return the usual material with the constants that were asked for."""
        asked = {
            name: value
            for name in ("young", "poisson", "density")
            if (value := getattr(self, name)) is not None
        }
        return replace(usual, **asked) if asked else usual


def check_words(words: Sequence[str] | None) -> None:
    """Refuse words that mean nothing, before anything is read."""
    for word in words or ():
        checked_word(word)
    if words is not None and len(words) == 0:
        raise SuppleError(f"--fixed needs a word; {HELP}")
    if words and "none" in words and len(words) > 1:
        raise SuppleError("--fixed none holds nothing; leave out the others")


def checked_word(word: str) -> tuple[str, re.Match[str] | None]:
    """Return the kind of a word, and what was read of it."""
    if word == "none":
        return "none", None
    if Path(word).suffix.lower() == ".bou":
        if not Path(word).is_file():
            raise SuppleError(f"--fixed {word:.80}: there is no such file")
        return "file", None
    side, place = SIDE.fullmatch(word), PLACE.fullmatch(word)
    try:
        if side is not None and (side[2] is None or 0 < float(side[2]) < 100):
            return "side", side
        if place is not None and math.isfinite(float(place[3])):
            return "place", place
    except ValueError:
        pass
    raise SuppleError(f"--fixed {word[:40]!r}: {HELP}")
