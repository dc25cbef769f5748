"""Options of `supple bake` and `supple view`: obstacles, gravity, and tracking of the motion."""

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

#: Largest number in an option, in m or m/s²; computations with larger ones lose their precision.
LARGEST = 1e6
#: Frequency in Hz beyond which springs are as good as rigid.
FASTEST = 1000.0


@dataclass(frozen=True)
class ContactOptions:
    """Obstacles, gravity and tracking; None selects a default."""

    obstacle: Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")] = None
    """One or more obstacles, in metres: plane:X,Y,Z,NX,NY,NZ, by a point and the direction it
    faces; sphere:X,Y,Z,R; capsule:X,Y,Z,X,Y,Z,R; box:X,Y,Z,HX,HY,HZ, by its middle and half of its
    sides; or a closed mesh (.obj .ply .stl …)."""
    ground: float | None = None
    """Height of a floor in metres, y up."""
    friction: float | None = None
    """Coefficient of friction, 0.5 by default (soft-skeleton)."""
    gravity: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None
    """Gravity in m/s²: one number (downwards) or X,Y,Z; by default 9.81, which engines without
    contact forces scale by the body's size relative to 2 m."""
    tracking: float | None = None
    """Frequency in Hz of the springs that pull joints to the motion, instead of the default by
    --strength; 8 is firm, 2 weak, and with 0 the body is limp (soft-skeleton)."""
    strength: float | None = None
    """Least stiffness of these springs in N m/rad per kg beyond the joint, 400 by default, so that
    fingers bear loads as well as arms (soft-skeleton)."""
    root: Literal["driven", "tracked", "free"] | None = None
    """Motion of the first bone: driven, the default, follows the motion exactly; tracked follows it
    by springs, as other bones do; free does not follow it (soft-skeleton)."""
    self_contact: Annotated[bool | None, Parameter(negative="--no-self-contact")] = None
    """Contact between parts of the body, on by default (soft-skeleton)."""
    joint_limits: Annotated[bool | None, Parameter(negative="--no-joint-limits")] = None
    """Limits of joints, a little beyond the angles in the character's motions, on by default
    (soft-skeleton)."""

    def stepping(self, row: Engine, live: Engine | None = None) -> dict[str, Any]:
        """Return the given options for the simulator of an engine; refuse unsupported options.

        `live` is the reduced engine if `row` is its unreduced form.
        """
        given: dict[str, tuple[Any, Callable[[Any], Any]]] = {
            "obstacles": (self.ground if self.obstacle is None else self.obstacle, self._obstacles),
            "friction": (self.friction, _checked_friction),
            "gravity": (self.gravity, _gravity),
            "tracking": (self.tracking, _checked_tracking),
            "strength": (self.strength, _checked_strength),
            "root": (self.root, str),
            "self_contact": (self.self_contact, bool),
            "joint_limits": (self.joint_limits, lambda on: "motions" if on else None),
        }
        options: dict[str, Any] = {}
        for name, (value, convert) in given.items():
            if value is not None:
                _check_option(name, row, live or row)
                options[name] = convert(value)
        return options

    def _obstacles(self, _: Any) -> tuple[Obstacle, ...]:
        from supple.mesh.obstacles import Plane

        if self.obstacle is not None and not self.obstacle:
            raise SuppleError("--obstacle needs a value, such as plane:0,0,1,0,0,-1")
        obstacles = [obstacle_of(word) for word in self.obstacle or ()]
        if self.ground is not None:
            if not abs(self.ground) <= LARGEST:  # nor NaN
                raise SuppleError(f"--ground {self.ground:g}: use a height within ±{LARGEST:g} m")
            obstacles.append(Plane((0.0, self.ground, 0.0), (0.0, 1.0, 0.0)))
        return tuple(obstacles)


def _checked_friction(friction: float) -> float:
    from supple.dynamics.friction import checked_friction

    if not math.isfinite(friction):
        raise SuppleError(f"--friction {friction:g}: use a number from 0 to 10, such as 0.5")
    return checked_friction(friction)


def _checked_tracking(frequency: float) -> float:
    if not 0 <= frequency <= FASTEST:  # nor NaN
        raise SuppleError(f"--tracking {frequency:g}: use 0 (a limp body) to 50 Hz")
    return frequency


def _checked_strength(strength: float) -> float:
    if not 0 <= strength <= LARGEST:  # nor NaN
        raise SuppleError(f"--strength {strength:g}: use 0 to {LARGEST:g} N m/rad per kg, say 400")
    return strength


def _gravity(text: str) -> list[float]:
    numbers = _numbers("--gravity", text, text)
    if len(numbers) == 1:
        return [0.0, -numbers[0], 0.0]
    if len(numbers) != 3:
        raise SuppleError(f"--gravity {text[:60]}: use one number (downwards) or X,Y,Z")
    return numbers


def _check_option(option: str, row: Engine, live: Engine) -> None:
    """Refuse an option that the simulator of an engine lacks."""
    if option in row.step_options:
        return
    rows = (each for each in ENGINES.values() if each.moves == "character")
    having = " or ".join(each.name for each in rows if option in each.step_options)
    word = "obstacle" if option == "obstacles" else option.replace("_", "-")
    if option in live.step_options:
        raise SuppleError(f"--{word}: --quality final has no such option; use --quality live")
    raise SuppleError(f"--{word}: {row.name} has no such option; use --engine {having}")


def obstacle_of(word: str) -> Obstacle:
    """Return the obstacle of a text such as ``sphere:0,1,0,0.2``, or of a mesh file."""
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
        numbers = [float(number) for number in text.replace(",", " ").split()]
    except ValueError:
        raise SuppleError(f"{option} {word[:60]}: use numbers with commas") from None
    if not all(abs(number) <= LARGEST for number in numbers):  # nor NaN
        raise SuppleError(f"{option} {word[:60]}: use numbers within ±{LARGEST:g}")
    return numbers
