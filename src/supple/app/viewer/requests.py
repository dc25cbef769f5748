"""What pages ask of a session: from any thread, done before the next step."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from queue import Empty, SimpleQueue
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats
from supple.errors import SuppleError

__all__ = ["ENDINGS", "FASTEST", "BodyRequests", "Ending", "Requests", "clamped"]

Ending = Literal["loop", "restart", "stop"]
ENDINGS: tuple[Ending, ...] = ("loop", "restart", "stop")


#: What the clock may run at: beyond, no computer follows.
FASTEST = 10.0


def clamped(value: float, low: float, high: float) -> float:
    """The number, within bounds; what is no number is the lowest. Pages may send anything."""
    number = float(value)
    return low if math.isnan(number) else min(max(number, low), high)


def _checked_place(where: Floats) -> Floats:
    if where.shape != (3,) or not np.isfinite(where).all():
        raise SuppleError("a place has three finite numbers")
    return where


def _checked_ending(ending: Ending) -> Ending:
    if ending not in ENDINGS:
        raise SuppleError(f"a motion ends with one of {', '.join(ENDINGS)}")
    return ending


class BodyRequests(ABC):
    """A queue of what was asked for, and words to ask with; what they mean is a subclass's.

    These are for anything that can be pulled at; `Requests` has more, for characters.

    Attributes
    ----------
    changed
        Whether there is something new to be seen.
    """

    def __init__(self) -> None:
        self._asked: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._speed = 1.0
        self.changed = True

    @property
    def speed(self) -> float:
        """How fast the clock runs, from 0 to `FASTEST`; what is no number changes nothing."""
        return self._speed

    @speed.setter
    def speed(self, speed: float) -> None:
        if not math.isnan(speed):
            self._speed = clamped(speed, 0.0, FASTEST)

    def ask(self, what: Callable[[], None]) -> None:
        """Have it done before the next step."""
        self._asked.put(what)

    def settle_requests(self) -> str | None:
        """Do what was asked for; the first thing that could not be done, in a line."""
        trouble = None
        while True:
            try:
                what = self._asked.get_nowait()
            except Empty:
                return trouble
            try:
                what()
            except SuppleError as error:
                trouble = trouble or str(error)
            except Exception as error:  # of one page; the others watch on
                trouble = trouble or f"{type(error).__name__}: {error}".splitlines()[0][:200]
            self.changed = True

    def play(self) -> None:
        """Go on with the motion."""
        self.ask(self._play)

    def pause(self) -> None:
        """Let time stand still."""
        self.ask(self._pause)

    def take(self, hand: Hashable, point: ArrayLike) -> None:
        """Take hold of the skin nearest to a point of the world."""
        where = np.array(point, np.float64)
        self.ask(lambda: self._take(hand, _checked_place(where)))

    def pull(self, hand: Hashable, target: ArrayLike) -> None:
        """Pull what that hand holds."""
        where = np.array(target, np.float64)
        self.ask(lambda: self._pull(hand, _checked_place(where)))

    def release(self, hand: Hashable) -> None:
        """Let go."""
        self.ask(lambda: self._release(hand))

    @abstractmethod
    def _play(self) -> None: ...

    @abstractmethod
    def _pause(self) -> None: ...

    @abstractmethod
    def _take(self, hand: Hashable, where: Floats) -> None: ...

    @abstractmethod
    def _pull(self, hand: Hashable, where: Floats) -> None: ...

    @abstractmethod
    def _release(self, hand: Hashable) -> None: ...


class Requests(BodyRequests):
    """What pages ask of a character, besides."""

    def hold(self) -> None:
        """Hold the pose where it is; the flesh lives on."""
        self.ask(self._hold)

    def seek(self, seconds: float) -> None:
        """Be at a time of the motion, with flesh that has not moved yet."""
        self.ask(lambda: self._seek(seconds))

    def choose(self, motion: str) -> None:
        """Play another motion, from its beginning."""
        self.ask(lambda: self._choose(motion))

    def end_with(self, ending: Ending) -> None:
        """Say what follows the end of the motion, which begins anew."""
        self.ask(lambda: self._end_with(_checked_ending(ending)))

    def pose_to(self, pose: ArrayLike) -> None:
        """Go to a pose, quickly but softly, and hold it."""
        target = np.array(pose, np.float64)
        self.ask(lambda: self._pose_to(target))

    def reach(self, joint: str, target: ArrayLike) -> None:
        """Bring a joint to a place in the world by turning those above it, and hold that."""
        where = np.array(target, np.float64)
        self.ask(lambda: self._reach(joint, where))

    @abstractmethod
    def _hold(self) -> None: ...

    @abstractmethod
    def _seek(self, seconds: float) -> None: ...

    @abstractmethod
    def _choose(self, motion: str) -> None: ...

    @abstractmethod
    def _end_with(self, ending: Ending) -> None: ...

    @abstractmethod
    def _pose_to(self, pose: Floats) -> None: ...

    @abstractmethod
    def _reach(self, joint: str, where: Floats) -> None: ...
