"""Options of `supple bake` and `supple view`: obstacles, gravity, and tracking of the motion."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from supple.engines.engine import ENGINES, Engine
from supple.errors import SuppleError

if TYPE_CHECKING:
    from supple.dynamics.rigid_object import RigidObject
    from supple.mesh.obstacles import Obstacle
    from supple.playback.obstacles.words import ClipPlace

#: Largest number in an option, in m or m/s²; computations with larger ones lose their precision.
LARGEST = 1e6
#: Largest number of obstacles, as in `supple.mesh.obstacles`, which imports much.
MOST_OBSTACLES = 64
#: Frequency in Hz beyond which springs are as good as rigid.
FASTEST = 1000.0


@dataclass(frozen=True)
class ObstacleOptions:
    """Obstacles, friction and gravity; None selects a default."""

    obstacle: Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")] = None
    """One or more obstacles: plane:X,Y,Z,NX,NY,NZ, by a point and the direction it faces;
    sphere:X,Y,Z,R; capsule:X,Y,Z,X,Y,Z,R; box:X,Y,Z,HX,HY,HZ, by its middle and half of its sides;
    or a closed mesh (.obj .ply .stl …). Lengths are in metres, or in % of the character's size. A
    joint in place of X,Y,Z means its position at the first frame, and an offset may follow:
    sphere:hand_r,0,-15%,0,10%. @VX,VY,VZ behind an obstacle moves it, in m/s:
    sphere:3,1,0,20%@-2,0,0."""
    object: Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")] = None
    """One or more free rigid objects, which the body pushes and carries: as obstacles, with a mass
    and a velocity at the start, such as sphere:chest,0,30%,0,5%,2kg@0,-1,0; by default they weigh
    500 kg/m³ (pose-space, soft-skeleton)."""
    ground: Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")] = None
    """A floor at the given height in metres, with +Y up; without a value, it is below the lowest
    point of the skin in the motion."""
    friction: float | None = None
    """Coefficient of friction: by default 0.5 with soft-skeleton, and 0 with other engines."""
    gravity: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None
    """Gravity in m/s²: one number (downwards) or X,Y,Z; by default 9.81, which engines without
    contact forces scale by the body's size relative to 2 m."""

    def stepping(self, row: Engine, live: Engine | None = None) -> dict[str, Any]:
        """Return the given options for the simulator of an engine; refuse unsupported options.

        `live` is the reduced engine if `row` is its unreduced form.
        """
        given: dict[str, tuple[Any, Callable[[Any], Any]]] = {
            "obstacles": (self.ground if self.obstacle is None else self.obstacle, self._obstacles),
            "objects": (self.object, self._objects),
            "friction": (self.friction, _checked_friction),
            "gravity": (self.gravity, _gravity),
        }
        given |= self._others()
        options: dict[str, Any] = {}
        for name, (value, convert) in given.items():
            if value is not None:
                _check_option(name, row, live or row)
                options[name] = convert(value)
        return options

    def _others(self) -> dict[str, tuple[Any, Callable[[Any], Any]]]:
        """Return the given values of other options, and functions that convert them, by name."""
        return {}

    def _obstacles(self, _: Any) -> tuple[Obstacle | str, ...]:
        """Return obstacles; texts where they depend on the character or its motion."""
        from supple.playback.obstacles.words import obstacle_of

        if self.obstacle is not None and not self.obstacle:
            raise SuppleError("--obstacle needs a value, such as plane:0,0,1,0,0,-1")
        words = list(self.obstacle or ())
        if len(words) + (self.ground is not None) > MOST_OBSTACLES:
            raise SuppleError(f"--obstacle: there are more than {MOST_OBSTACLES}; give near ones")
        obstacles: list[Obstacle | str] = [obstacle_of(word) or word for word in words]
        if self.ground is not None:
            obstacles.append(self._floor())
        return tuple(obstacles)

    def _objects(self, words: list[str]) -> tuple[RigidObject | str, ...]:
        """Return objects; texts where they depend on the character or its motion."""
        from supple.playback.obstacles.words import object_of

        if not words:
            raise SuppleError("--object needs a value, such as sphere:0,2,0,0.1,1kg")
        if len(words) > MOST_OBSTACLES:
            raise SuppleError(f"--object: there are more than {MOST_OBSTACLES}; give near ones")
        return tuple(object_of(word) or word for word in words)

    def check_obstacles(self, clip: ClipPlace) -> None:
        """Refuse obstacles in words that cannot be placed around a character and its motion."""
        from supple.playback.obstacles.words import object_of, obstacle_of

        for word in self.object or ():
            object_of(word, clip)

        for word in self.obstacle or ():
            if ":" in word and not Path(word).exists():
                obstacle_of(word, clip)

    def _floor(self) -> Obstacle | str:
        from supple.mesh.obstacles import Plane
        from supple.playback.obstacles.words import GROUND

        words = self.ground or []
        if words in ([], ["auto"]):
            return GROUND
        try:
            (height,) = map(float, words)
        except ValueError:
            height = math.nan
        if not abs(height) <= LARGEST:  # nor NaN
            shown = " ".join(words)[:60]
            raise SuppleError(
                f"--ground {shown}: use a height within ±{LARGEST:g}, or none for the lowest point"
                " of the skin (name the source before it)"
            )
        return Plane((0.0, height, 0.0), (0.0, 1.0, 0.0))


@dataclass(frozen=True)
class ContactOptions(ObstacleOptions):
    """Obstacles, gravity and tracking; None selects a default."""

    tracking: float | None = None
    """Frequency in Hz of the springs that pull joints to the motion, instead of the default by
    --strength; 8 is firm, 2 weak, and with 0 the body is limp (soft-skeleton)."""
    strength: float | None = None
    """Least stiffness of the springs that pull joints to the motion, in N m/rad per kg beyond the
    joint; 400 by default, so that fingers bear loads as well as arms (soft-skeleton)."""
    root: Literal["driven", "tracked", "free"] | None = None
    """Motion of the first bone: driven, the default, follows the motion exactly; tracked follows it
    by springs, as other bones do; free does not follow it (soft-skeleton)."""
    self_contact: Annotated[bool | None, Parameter(negative="--no-self-contact")] = None
    """Contact between parts of the body, beyond what overlaps in the rig's own pose: on by default
    for soft-skeleton, off for pose-space."""
    joint_limits: Annotated[bool | None, Parameter(negative="--no-joint-limits")] = None
    """Limits of joints, a little beyond the angles in the character's motions, on by default
    (soft-skeleton)."""

    def _others(self) -> dict[str, tuple[Any, Callable[[Any], Any]]]:
        return {
            "tracking": (self.tracking, _checked_tracking),
            "strength": (self.strength, _checked_strength),
            "root": (self.root, str),
            "self_contact": (self.self_contact, bool),
            "joint_limits": (self.joint_limits, lambda on: "motions" if on else None),
        }


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
    word = option.removesuffix("s") if option in ("obstacles", "objects") else option
    word = word.replace("_", "-")
    if option in live.step_options:
        raise SuppleError(f"--{word}: --quality final has no such option; use --quality live")
    raise SuppleError(f"--{word}: {row.name} has no such option; use --engine {having}")


def _numbers(option: str, word: str, text: str) -> list[float]:
    try:
        numbers = [float(number) for number in text.replace(",", " ").split()]
    except ValueError:
        raise SuppleError(f"{option} {word[:60]}: use numbers with commas") from None
    if not all(abs(number) <= LARGEST for number in numbers):  # nor NaN
        raise SuppleError(f"{option} {word[:60]}: use numbers within ±{LARGEST:g}")
    return numbers
