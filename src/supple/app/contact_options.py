"""Options of `supple bake` and `supple view` about what a character touches and how it follows."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from supple.engines.engine import ENGINES, Engine
from supple.errors import SuppleError

if TYPE_CHECKING:
    from supple.mesh.obstacles import Obstacle

#: Largest numbers, in m or m/s², that a word may hold: squares of more lose all digits.
LARGEST = 1e6
#: Frequency in Hz beyond which springs are as good as rigid.
FASTEST = 1000.0


@dataclass(frozen=True)
class ContactOptions:
    """Things around, and the firmness with which bones follow; None has a default."""

    obstacle: Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")] = None
    """Solid things in metres, after each other: plane:X,Y,Z,NX,NY,NZ, a wall by a point of it and
    the direction it faces; sphere:X,Y,Z,R; capsule:X,Y,Z,X,Y,Z,R; box:X,Y,Z,HX,HY,HZ, by its
    middle and half of its sides; or a closed mesh (.obj .ply .stl …)."""
    ground: float | None = None
    """Height of a floor in metres, y up."""
    friction: float | None = None
    """Coefficient of friction, 0.5 by default (soft-skeleton)."""
    gravity: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None
    """In m/s²: a number, downwards, or X,Y,Z; by default 9.81, and of engines that read no forces
    as much more or less as a body is larger or smaller than 2 m."""
    tracking: float | None = None
    """Frequency in Hz of the springs that pull joints to the motion, 8 by default; 2 is weak, 0 is
    limp (soft-skeleton)."""
    root: Literal["driven", "tracked", "free"] | None = None
    """Way of the first bone: driven, exactly as the motion says, by default; tracked, pulled by
    springs as the others are; or free (soft-skeleton)."""
    self_contact: Annotated[bool | None, Parameter(negative="--no-self-contact")] = None
    """Have parts of the body touch each other, as they do by default (soft-skeleton)."""

    joint_limits: Annotated[bool | None, Parameter(negative="--no-joint-limits")] = None
    """Have joints turn little further than the character's motions turn them, as they do by default
    (soft-skeleton)."""

    def stepping(self, row: Engine, live: Engine | None = None) -> dict[str, Any]:
        """Return these as options of the engine's simulator; refuse those that it has not.

        Parameters
        ----------
        row
            Engine that steps.
        live
            Engine whose unreduced form that is.
        """
        told: dict[str, Callable[[], Any] | None] = {
            "obstacles": None if self.obstacle is None and self.ground is None else self._obstacles,
            "friction": None if self.friction is None else self._friction,
            "gravity": None if self.gravity is None else self._gravity,
            "tracking": None if self.tracking is None else self._tracking,
            "root": None if self.root is None else lambda: self.root,
            "self_contact": None if self.self_contact is None else lambda: self.self_contact,
            "joint_limits": None if self.joint_limits is None else self._joint_limits,
        }
        found: dict[str, Any] = {}
        for option, value in told.items():
            if value is not None:
                _check_option(option, row, live or row)
                found[option] = value()
        return found

    def _friction(self) -> float:
        from supple.dynamics.friction import checked_friction

        assert self.friction is not None
        if not math.isfinite(self.friction):
            raise SuppleError(f"--friction {self.friction:g}: use a number from 0 to 10, as 0.5")
        return checked_friction(self.friction)

    def _gravity(self) -> list[float]:
        word = str(self.gravity)
        numbers = _numbers("--gravity", word, word)
        if len(numbers) == 1:
            return [0.0, -numbers[0], 0.0]
        if len(numbers) != 3:
            raise SuppleError(f"--gravity {word[:60]}: use one number, downwards, or X,Y,Z")
        return numbers

    def _tracking(self) -> float:
        assert self.tracking is not None
        if not 0 <= self.tracking <= FASTEST:  # nor NaN
            raise SuppleError(f"--tracking {self.tracking:g}: use 0 for limp, or 1 to 50 Hz")
        return self.tracking

    def _joint_limits(self) -> str | None:
        return "motions" if self.joint_limits else None

    def _obstacles(self) -> tuple[Obstacle, ...]:
        from supple.mesh.obstacles import Plane

        if self.obstacle is not None and not self.obstacle:
            raise SuppleError("--obstacle needs one or more, such as plane:0,0,1,0,0,-1")
        found = [obstacle_of(word) for word in self.obstacle or ()]
        if self.ground is not None:
            if not abs(self.ground) <= LARGEST:  # nor NaN
                raise SuppleError(f"--ground {self.ground:g}: use a height within ±{LARGEST:g} m")
            found.append(Plane((0.0, self.ground, 0.0), (0.0, 1.0, 0.0)))
        return tuple(found)


def _check_option(option: str, row: Engine, live: Engine) -> None:
    """Refuse an option that an engine's simulator has not."""
    if option in row.step_options:
        return
    rows = (each for each in ENGINES.values() if each.moves == "character")
    having = " or ".join(each.name for each in rows if option in each.step_options)
    word = "obstacle" if option == "obstacles" else option.replace("_", "-")
    if option in live.step_options:
        raise SuppleError(f"--{word}: --quality final knows none; use --quality live")
    raise SuppleError(f"--{word}: {row.name} knows none; use --engine {having}")


def obstacle_of(word: str) -> Obstacle:
    """Return the obstacle that a word such as ``sphere:0,1,0,0.2``, or a file, means."""
    from supple.mesh.obstacles import Box, Capsule, Plane, Sphere

    makers: dict[str, tuple[int, Callable[[list[float]], Obstacle]]] = {
        "plane": (6, lambda n: Plane(n[:3], n[3:])),
        "sphere": (4, lambda n: Sphere(n[:3], n[3])),
        "capsule": (7, lambda n: Capsule(n[:3], n[3:6], n[6])),
        "box": (6, lambda n: Box(n[:3], n[3:])),
    }
    kind, colon, rest = word.partition(":")
    if not colon or Path(word).exists():
        return _solid(word)
    if kind.lower() not in makers:
        near = difflib.get_close_matches(kind.lower(), makers, 1)
        hint = f"did you mean {near[0]}?" if near else f"use {', '.join(makers)} or a mesh file"
        raise SuppleError(f"--obstacle {word[:60]}: no {kind[:20]}; {hint}")
    count, make = makers[kind.lower()]
    numbers = _numbers("--obstacle", word, rest)
    if len(numbers) != count:
        raise SuppleError(
            f"--obstacle {word[:60]}: {len(numbers)} numbers; a {kind.lower()} has {count}"
        )
    try:
        return make(numbers)
    except SuppleError as error:
        raise SuppleError(f"--obstacle {word[:60]}: {error}") from None


def _solid(word: str) -> Obstacle:
    from supple.formats.meshes.read_mesh import read_surface
    from supple.formats.registry import SURFACES
    from supple.mesh.distance_field import Solid

    if SURFACES.find(Path(word)) is None:
        raise SuppleError(
            f"--obstacle {word[:60]}: use plane:, sphere:, capsule: or box: with numbers,"
            f" or a mesh ({' '.join(SURFACES.suffixes())})"
        )
    surface = read_surface(word)
    try:
        return Solid(surface)
    except SuppleError as error:
        raise SuppleError(f"{Path(word).name}: {error}") from None


def _numbers(option: str, word: str, text: str) -> list[float]:
    try:
        found = [float(each) for each in text.replace(",", " ").split()]
    except ValueError:
        raise SuppleError(f"{option} {word[:60]}: use numbers with commas") from None
    if not all(abs(each) <= LARGEST for each in found):  # nor NaN
        raise SuppleError(f"{option} {word[:60]}: use numbers within ±{LARGEST:g}")
    return found
