"""Options of `supple stvk`; a field's docstring is the help text of the option."""

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
#: Upper bounds; with more elements, modes and derivatives take minutes and gigabytes.
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
HALF_SPACE = re.compile(r"([xyz])\s*([<>])=?\s*([-+0-9.eE]+)")
SIDE = re.compile(rf"({'|'.join(SIDES)})(?::([0-9.]+)%)?")
HELP = (
    f'use a side ({", ".join(SIDES)}; bottom:10%), a place such as "y<0.05", a .bou file, or none'
)


@dataclass(frozen=True)
class Filling:
    """Elements that fill a surface; None selects a default."""

    kind: Annotated[Literal["voxels", "tets"] | None, Parameter(name="--elements")] = None
    """Elements that fill a surface; by default voxels, which are cubes."""
    count: int | None = None
    """Number of elements; by default 4000."""
    resolution: int | None = None
    """Number of cells along the longest side, in place of --count."""
    pieces: Literal["largest", "all"] = "largest"
    """Pieces of a surface that are kept; with "all", each needs fixed vertices."""

    def __post_init__(self) -> None:
        """Refuse invalid options before anything is read."""
        if self.kind not in (None, *KINDS):
            raise SuppleError(f"--elements {self.kind!r:.40}: use {', '.join(KINDS)}")
        if self.pieces not in ("largest", "all"):
            raise SuppleError(f"--pieces {self.pieces!r:.40}: use largest or all")
        if self.count is not None and self.resolution is not None:
            raise SuppleError("--count and --resolution exclude each other; give one of them")
        for name, value, largest in (
            ("count", self.count, MOST_ELEMENTS),
            ("resolution", self.resolution, FINEST),
        ):
            if value is not None and not 1 <= value <= largest:
                raise SuppleError(f"--{name} {value}; use 1 to {largest}")

    @property
    def given(self) -> bool:
        """Whether any of these options differs from its default."""
        return self != Filling()


@dataclass(frozen=True)
class BodyOptions:
    """Options of an elastic body; None selects a default."""

    modes: int | None = None
    """Number of modes; by default 20, or the scene's. Twice as many make a step sixteen times
    as expensive."""
    basis: Literal["derivatives", "modes", "sketch"] = "derivatives"
    """"derivatives" for large deformations; "modes" for small deformations; "sketch": shapes of the
    full body under strong pulls, which take a minute."""
    linear_modes: int | None = None
    """Number of linear modes among the derivatives; by default the scene's, or the one with the
    least error under strong pulls."""
    fixed: Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")] = None
    """Fixed vertices: bottom, top, left, right, back, front (the outermost 5 % there; or
    bottom:20%), places such as "y<0.05" in m, a list of vertices (FILE.bou), or none. By default
    those in NAME.bou next to NAME.veg, or else the bottom."""
    young: float | None = None
    """Young's modulus in Pa."""
    frequency: float | None = None
    """Lowest frequency in Hz, in place of --young; 2 by default for a body without a material."""
    poisson: float | None = None
    """Poisson's ratio, below 0.5; by default 0.4, or the file's."""
    density: float | None = None
    """Density in kg/m³; by default 1000, or the file's."""
    mass: Literal["lumped", "consistent"] = "lumped"
    """Mass matrix: diagonal, or consistent with the shape functions."""
    filling: Annotated[Filling, Parameter(name="*")] = field(default_factory=Filling)
    scale: float = 1.0
    """Metres per unit of the file: 0.001 for millimetres."""
    surface: Path | None = None
    """Surface in the same place (.obj .ply .stl .off) to show in place of the elements."""

    def __post_init__(self) -> None:
        """Refuse invalid options before anything is read."""
        from supple.elastic.material import Material
        from supple.engines.stvk.build import BASES, MASSES
        from supple.engines.stvk.coefficients import MOST_MODES

        if self.modes is not None and not 1 <= self.modes <= MOST_MODES:
            raise SuppleError(f"--modes {self.modes}; use 1 to {MOST_MODES}")
        if self.basis not in BASES:
            raise SuppleError(f"--basis {self.basis!r:.40}: use {', '.join(BASES)}")
        if self.linear_modes is not None and not 1 <= self.linear_modes <= MOST_MODES:
            raise SuppleError(f"--linear-modes {self.linear_modes}; use 1 to {MOST_MODES}")
        if self.linear_modes is not None and self.basis != "derivatives":
            raise SuppleError(f"--linear-modes is for --basis derivatives, not {self.basis}")
        if self.mass not in MASSES:
            raise SuppleError(f"--mass {self.mass!r:.40}: use {', '.join(MASSES)}")
        _check_fixed(self.fixed)
        if self.young is not None and self.frequency is not None:
            raise SuppleError("--young and --frequency both set the stiffness; give one of them")
        for name in ("scale", "frequency"):
            value = getattr(self, name)
            if value is not None and not 1e-9 <= value <= 1e9:
                raise SuppleError(f"--{name} {value}; use a positive number")
        self.material(Material("stvk"))

    def material(self, usual: Material) -> Material:
        """Return `usual` with the constants that are given as options."""
        constants = {
            name: value
            for name in ("young", "poisson", "density")
            if (value := getattr(self, name)) is not None
        }
        return replace(usual, **constants)


def _check_fixed(words: Sequence[str] | None) -> None:
    for word in words or ():
        parsed_fixed(word)
    if words is not None and len(words) == 0:
        raise SuppleError(f"--fixed needs a value; {HELP}")
    if words and "none" in words and len(words) > 1:
        raise SuppleError("--fixed none fixes no vertex; leave out the other values")


def parsed_fixed(word: str) -> tuple[str, re.Match[str] | None]:
    """Return the kind of a value of --fixed (none, file, side or place), and its match or None."""
    if word == "none":
        return "none", None
    if Path(word).suffix.lower() == ".bou":
        if not Path(word).is_file():
            raise SuppleError(f"--fixed {word:.80}: there is no such file")
        return "file", None
    side, place = SIDE.fullmatch(word), HALF_SPACE.fullmatch(word)
    try:
        if side is not None and (side[2] is None or 0 < float(side[2]) < 100):
            return "side", side
        if place is not None and math.isfinite(float(place[3])):
            return "place", place
    except ValueError:
        pass
    raise SuppleError(f"--fixed {word[:40]!r}: {HELP}")
