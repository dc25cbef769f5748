"""Subject of a session: a character or a body, stepped through its engine's contract."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import Any, ClassVar, Literal, Protocol

from supple.arrays import Floats, Singles

State = Literal["playing", "paused", "posing"]


def clamped(value: float, low: float, high: float) -> float:
    """Return the number within bounds, the lower one for NaN: pages may send anything."""
    number = float(value)
    return low if math.isnan(number) else min(max(number, low), high)


class Grip(Protocol):
    """Hold that a hand has of the skin."""

    target: Floats
    """(3,) place of the hand in the world, in m."""


class Subject(ABC):
    """Character or body that a session steps, and that pages change.

    All methods belong to the session's thread; pages have them called with `Session.ask`.

    Attributes
    ----------
    parts
        Names of the optional parts that it has:

        - ``"motions"``: `motions`, `motion`, `ending`; `choose`, `seek`, `end_with`;
        - ``"poses"``: `pose`, `target`; `hold`, `pose_to`, `reach`;
        - ``"recording"``: `recorder`;
        - ``"anatomy"``: `anatomy`, regions to be made harder or softer; `heed_anatomy`, `adopt`;
        - ``"obstacles"``: `obstacles`, a ground and a ball;
        - ``"objects"``: `objects`, balls and boxes that are dragged and fall;
        - ``"touch"``: a `SoftContact` as `simulator`; `grabs`, flesh or bones;
        - ``"stiffness"``: `stiffen(factor)`, of all flesh;
        - ``"gravity mode"``: `simulator.gravity_mode`;
        - ``"friction"``: `simulator.friction`;
        - ``"curves"``: `traces`, curves of free parameters;
        - ``"springs"``: `simulator.springs`; `tune`, of free parameters;
        - ``"materials"``: `stiffen(group, doublings)`, of each group of elements;
        - ``"damping"``, ``"gravity"``, ``"modes"``: `damp`, `fall`, `truncate`;
        - ``"energies"``: `simulator.energies()`, `frequencies`;
        - ``"held"``: `held`, triangles that cannot move;
        - ``"appearance"``: `appearance`, its own colours.
    state
        ``"playing"``; ``"paused"``: time stands still; ``"posing"``: the pose is held, and the
        flesh lives on.
    model, simulator
        Of the engine; another simulator may come between two steps.
    hands
        Grips by hand, in the order in which they took hold.
    hint
        Line for the page about what can be done.
    slowest
        Lower end of the slider of the clock's speed.
    full_colour
        Displacement that is coloured fully, as a part of the size.
    """

    parts: frozenset[str]
    state: State
    model: Any
    simulator: Any
    hands: dict[Hashable, Any]
    hint: str
    slowest: ClassVar[float]
    full_colour: ClassVar[float]

    @property
    @abstractmethod
    def time(self) -> float:
        """Seconds of the motion, or since the body was let go."""

    @property
    @abstractmethod
    def ground(self) -> tuple[float, float, float]:
        """Middle of the ground that it stands on."""

    @property
    @abstractmethod
    def width(self) -> float:
        """Metres from its left to its right, the most in its motion."""

    def steps_at(self, speed: float) -> int:
        """Return the number of steps that are made at once when the clock runs so fast."""
        return 1

    def surface(self, out: Singles | None = None) -> Singles:
        """Return the skin now, in the world, (n̄, 3) float32."""
        return self.simulator.surface(out)

    @abstractmethod
    def undeformed(self) -> Singles:
        """Return the skin that displacement is measured from, in the world, (n̄, 3) float32."""

    @abstractmethod
    def step(self, count: int) -> tuple[str, ...] | None:
        """Make steps; return the names of limits that acted, None where nothing moves on.

        Raises
        ------
        SuppleError
            If it has to begin anew, and why.
        """

    @abstractmethod
    def renew(self) -> None:
        """Apply changes that were collected, before steps; raise as `step` does."""

    @abstractmethod
    def begin_anew(self) -> None:
        """Let all hands go, and start undeformed."""

    @abstractmethod
    def play(self) -> None:
        """Let time run."""

    def pause(self) -> None:
        """Let time stand still."""
        self.state = "paused"

    @abstractmethod
    def wake(self) -> None:
        """Let flesh move if time stands still: who pulls wants to see it."""

    @abstractmethod
    def grip(self, skin: Singles, where: Floats) -> Grip:
        """Return a hold of the skin (n̄, 3) nearest to a point (3,)."""

    def reachable(self, where: Floats) -> Floats:
        """Return the place (3,), or one on the way to it that a hand can be at."""
        return where
