"""Session of the viewer: the one simulation that all pages show, and the queue of requests."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from supple.app.viewer.meter import Meter
from supple.app.viewer.session.subject import Grip, State, Subject, clamped
from supple.arrays import Floats
from supple.errors import SuppleError
from supple.linalg.blas import single_threaded
from supple.mesh.obstacles import FARTHEST

#: Largest speed of the clock: beyond, no computer follows.
FASTEST = 10.0

S = TypeVar("S", bound=Subject)


class Session(Generic[S]):
    """Character or body that lives, is watched and is pulled at.

    Any thread may ask for changes, which happen before the next step: `play`, `pause`, `take` and
    the like, and `ask` for whatever else the subject can do. `advance` steps; nothing else does.

    Parameters
    ----------
    subject
        What is simulated: a `CharacterSubject` or a `BodySubject`.

    Attributes
    ----------
    skin
        (n̄, 3) float32 as of the last `refresh`.
    changed
        Whether there is something new to be seen.
    limits
        Names of the limits that acted in the last step.
    meter
        Costs of steps and updates.
    """

    def __init__(self, subject: S) -> None:
        self.subject = subject
        self.meter = Meter()
        self.limits: tuple[str, ...] = ()
        self.changed = True
        self.skin = np.empty((len(subject.model.surface.vertices), 3), np.float32)
        self._asked: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._speed = 1.0
        self.refresh()

    @property
    def state(self) -> State:
        """``"playing"``, ``"paused"`` or ``"posing"``; see `Subject`."""
        return self.subject.state

    @property
    def hands(self) -> dict[Hashable, Grip]:
        """Grips by hand."""
        return self.subject.hands

    @property
    def speed(self) -> float:
        """Speed of the clock, from 0 to `FASTEST`; setting NaN changes nothing."""
        return self._speed

    @speed.setter
    def speed(self, speed: float) -> None:
        if not math.isnan(speed):
            self._speed = clamped(speed, 0.0, FASTEST)

    @property
    def steps(self) -> int:
        """Number of steps that are made at once."""
        return self.subject.steps_at(self.speed)

    @property
    def dt(self) -> float:
        """Seconds of so many steps; a step is the same for every computer and page."""
        return self.steps * self.subject.simulator.dt

    def refresh(self) -> None:
        """Bring `skin` up to date."""
        begun, processor = time.perf_counter(), time.thread_time()
        self.subject.surface(self.skin)
        self.meter.skinned(time.perf_counter() - begun, time.thread_time() - processor)
        self.changed = False

    def advance(self, times: int = 1, /) -> None:
        """Make `steps` steps so often, unless paused; requests go first."""
        self.settle_requests()
        try:
            self.subject.renew()
        except SuppleError as error:
            self._begin_anew(str(error))
        # Products of a step are small: in threads they wait for a browser that has the cores.
        with single_threaded():
            for _ in range(times):
                if self.state == "paused":
                    return
                self._step(self.steps)

    def _step(self, count: int) -> None:
        begun, processor = time.perf_counter(), time.thread_time()
        try:
            limits = self.subject.step(count)
        except SuppleError as error:
            self._begin_anew(str(error))
            return
        self.changed = True
        if limits is not None:
            self.limits = limits
            self.meter.stepped(time.perf_counter() - begun, time.thread_time() - processor, count)

    def _begin_anew(self, why: str = "") -> None:
        """Start undeformed; pages are told why, if there is a reason."""
        self.subject.begin_anew()
        self.changed = True
        if why:
            self.ask(_refuse, why)

    # Requests, from any thread -----------------------------------------------------------

    def ask(self, what: Callable[..., object], *given: Any) -> None:
        """Have ``what(*given)`` called before the next step."""
        self._asked.put(lambda: what(*given))

    def settle_requests(self) -> str | None:
        """Do what was asked for; return the first thing that could not be done, in a line."""
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
        """Let time run."""
        self.ask(self.subject.play)

    def pause(self) -> None:
        """Let time stand still."""
        self.ask(self.subject.pause)

    def reset(self) -> None:
        """Start undeformed, held by no hand."""
        self.ask(self._begin_anew)

    def take(self, hand: Hashable, point: ArrayLike) -> None:
        """Take hold of the skin nearest to a point (3,) of the world."""
        self.ask(self._take, hand, np.array(point, np.float64))

    def pull(self, hand: Hashable, target: ArrayLike) -> None:
        """Move a hand, and what it holds, to a place (3,) in the world."""
        self.ask(self._pull, hand, np.array(target, np.float64))

    def release(self, hand: Hashable) -> None:
        """Let go."""
        self.ask(self._release, hand)

    def _take(self, hand: Hashable, where: Floats) -> None:
        place = self.subject.reachable(_checked_place(where))
        self.subject.wake()
        self.hands[hand] = self.subject.grip(self.subject.surface(self.skin), place)

    def _pull(self, hand: Hashable, where: Floats) -> None:
        place = self.subject.reachable(_checked_place(where))
        if hand in self.hands:
            self.hands[hand].target = place

    def _release(self, hand: Hashable) -> None:
        self.hands.pop(hand, None)


def _checked_place(where: Floats) -> Floats:
    if where.shape != (3,) or not np.isfinite(where).all():
        raise SuppleError("a place has three finite numbers")
    return np.clip(where, -FARTHEST, FARTHEST)  # squares of more would overflow


def _refuse(why: str) -> None:
    raise SuppleError(why)
