"""Session of the viewer: one simulation for all pages, the queue of their requests, and the base
class of the characters and bodies that are simulated.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from queue import Empty, SimpleQueue
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from supple.app.viewer.meter import Meter
from supple.arrays import Floats, Singles
from supple.errors import SuppleError
from supple.linalg.blas import single_threaded
from supple.mesh.obstacles import FARTHEST

State = Literal["playing", "paused", "posing"]

#: Largest speed of the clock.
FASTEST = 10.0


def clamped(value: float, low: float, high: float) -> float:
    """Return the number clamped to bounds, the lower bound for NaN; pages may send any value."""
    number = float(value)
    return low if math.isnan(number) else min(max(number, low), high)


class Grip(Protocol):
    """Connection between a hand (a pointer of a page) and the skin."""

    target: Floats  # (3,) position of the hand in the world, in m


class Actor(ABC):
    """Character or body that a session simulates and that pages change.

    All methods run in the session's thread; pages call them through `Session.submit`. The names in
    `parts` stand for optional attributes:

    - ``"motions"``: `motions`, `motion`, `ending`; `choose`, `seek`, `end_with`;
    - ``"poses"``: `pose`, `target`; `hold`, `pose_to`, `reach`;
    - ``"recording"``: `recorder`;
    - ``"anatomy"``: `anatomy`, regions that can be edited; `apply_anatomy`, `replace_model`;
    - ``"obstacles"``: `obstacles`, a ground and a ball;
    - ``"objects"``: `objects`, rigid balls and boxes;
    - ``"touch"``: a `SoftContact` as `simulator`; `grabs`, flesh or bones;
    - ``"stiffness"``: `stiffen(factor)` for all flesh;
    - ``"gravity mode"``, ``"friction"``: attributes of `simulator`;
    - ``"curves"``: `traces`, curves of free parameters;
    - ``"springs"``: `simulator.springs`; `tune` for free parameters;
    - ``"materials"``: `stiffen(group, doublings)` for a group of elements;
    - ``"damping"``, ``"gravity"``, ``"modes"``: `damp`, `set_gravity`, `truncate`;
    - ``"energies"``: `simulator.energies()`, `frequencies`;
    - ``"sketch"``: `sketch`, recorded loads; `start_sketch`, `replace_body`;
    - ``"held"``: `held`, triangles that cannot move;
    - ``"appearance"``: `appearance`, colours from the character's file.
    """

    parts: frozenset[str]
    state: State  # "posing": the rig holds a pose and the flesh moves
    model: Any
    simulator: Any  # may be replaced between two steps
    hands: dict[Hashable, Any]  # grips by hand, oldest first
    hint: str  # on the usage, shown on the page
    slowest: ClassVar[float]  # lower limit of the slider of the clock's speed
    full_colour: ClassVar[float]  # displacement shown in the last colour, relative to the size

    @property
    @abstractmethod
    def time(self) -> float:
        """Time in the motion, or since the start of a body without motions, in s."""

    @property
    @abstractmethod
    def ground(self) -> tuple[float, float, float]:
        """Centre of the ground."""

    @property
    @abstractmethod
    def width(self) -> float:
        """Largest extent along x during the motion, in m."""

    def steps_at(self, speed: float) -> int:
        """Return the number of steps per update at a speed of the clock."""
        return 1

    def surface(self, out: Singles | None = None) -> Singles:
        """Return the current skin in the world, (n̄, 3) float32."""
        return self.simulator.surface(out)

    @abstractmethod
    def undeformed(self) -> Singles:
        """Return the skin that displacements refer to, in the world, (n̄, 3) float32."""

    @abstractmethod
    def step(self, count: int) -> tuple[str, ...] | None:
        """Make `count` steps; return the names of limits that acted, None if the motion has ended.

        SuppleError, with the reason, if the simulation has to restart.
        """

    @abstractmethod
    def renew(self) -> None:
        """Apply collected changes before a step; raise as `step` does."""

    @abstractmethod
    def restart(self) -> None:
        """Release all grips and start undeformed."""

    @abstractmethod
    def play(self) -> None:
        """Continue the simulation."""

    def pause(self) -> None:
        """Pause the simulation."""
        self.state = "paused"

    @abstractmethod
    def wake(self) -> None:
        """Let flesh move while paused, so that a pull becomes visible."""

    @abstractmethod
    def grip(self, skin: Singles, where: Floats) -> Grip:
        """Return a grip of the skin (n̄, 3) nearest to a point (3,)."""

    def reachable(self, where: Floats) -> Floats:
        """Return the point (3,), or the nearest one that a hand can reach."""
        return where


A = TypeVar("A", bound=Actor)


class Session(Generic[A]):
    """Simulation of an actor, with a queue of requests from pages.

    Any thread may submit requests, which run before the next step: `play`, `pause`, `grip` and
    similar methods, and `submit` for any method of the actor. Only `advance` makes steps.
    """

    def __init__(self, actor: A) -> None:
        self.actor = actor
        self.meter = Meter()
        self.limits: tuple[str, ...] = ()  # that acted in the last step
        self.changed = True  # since the last `refresh`
        self._failed = False  # in the last update
        self.skin = np.empty((len(actor.model.surface.vertices), 3), np.float32)
        #: Functions that are called before requests, such as for poses of a stream.
        self.feeds: list[Callable[[], object]] = []
        self._requests: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._speed = 1.0
        self.refresh()

    @property
    def state(self) -> State:
        """State of the actor."""
        return self.actor.state

    @property
    def hands(self) -> dict[Hashable, Grip]:
        """Grips by hand."""
        return self.actor.hands

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
        """Number of steps per update."""
        return self.actor.steps_at(self.speed)

    @property
    def dt(self) -> float:
        """Seconds of simulation per update; the time step itself is constant."""
        return self.steps * self.actor.simulator.dt

    def refresh(self) -> None:
        """Set `skin` to the current skin of the actor."""
        began, processor = time.perf_counter(), time.thread_time()
        self.actor.surface(self.skin)
        self.meter.add_update(time.perf_counter() - began, time.thread_time() - processor)
        self.changed = False

    def advance(self, times: int = 1, /) -> None:
        """Run requests, then make `times` updates of `steps` steps, unless paused."""
        self.run_requests()
        try:
            self.actor.renew()
        except SuppleError as error:
            self._restart(str(error))
        # The matrices of a step are small; BLAS threads would compete with the browser.
        with single_threaded():
            for _ in range(times):
                if self.state == "paused":
                    return
                self._step(self.steps)

    def _step(self, count: int) -> None:
        began, processor = time.perf_counter(), time.thread_time()
        try:
            limits = self.actor.step(count)
        except SuppleError as error:
            self._restart(str(error))
            if self._failed:  # at its first step again, as with an obstacle through the body
                self.actor.pause()
            self._failed = True
            return
        self.changed, self._failed = True, False
        if limits is not None:
            self.limits = limits
            self.meter.add_steps(time.perf_counter() - began, time.thread_time() - processor, count)

    def _restart(self, reason: str = "") -> None:
        """Start undeformed; pages show the reason, if there is one."""
        self.actor.restart()
        self.changed = True
        if reason:
            self.submit(_fail, reason)

    # Requests, from any thread -----------------------------------------------------------

    def submit(self, function: Callable[..., object], *arguments: Any) -> None:
        """Schedule ``function(*arguments)`` before the next step."""
        self._requests.put(lambda: function(*arguments))

    def run_requests(self) -> str | None:
        """Run all requests; return the first error message, in one line, or None."""
        message: str | None = None
        for feed in self.feeds:
            try:
                self.changed |= bool(feed())
            except Exception as error:  # a fault of a stream must not end the page
                message = message or (str(error).splitlines() or ["a stream failed"])[0][:200]
        while True:
            try:
                request = self._requests.get_nowait()
            except Empty:
                return message
            try:
                request()
            except SuppleError as error:
                message = message or str(error)
            except Exception as error:  # a fault of one page must not end the others
                message = message or f"{type(error).__name__}: {error}".splitlines()[0][:200]
            self.changed = True

    def play(self) -> None:
        """Continue the simulation."""
        self.submit(self.actor.play)

    def pause(self) -> None:
        """Pause the simulation."""
        self.submit(self.actor.pause)

    def reset(self) -> None:
        """Release all grips and start undeformed."""
        self.submit(self._restart)

    def grip(self, hand: Hashable, point: ArrayLike) -> None:
        """Grip the skin nearest to a point (3,) of the world."""
        self.submit(self._grip, hand, np.array(point, np.float64))

    def pull(self, hand: Hashable, target: ArrayLike) -> None:
        """Move a hand to a point (3,) of the world."""
        self.submit(self._pull, hand, np.array(target, np.float64))

    def release(self, hand: Hashable) -> None:
        """Release the grip of a hand."""
        self.submit(self._release, hand)

    def _grip(self, hand: Hashable, where: Floats) -> None:
        point = self.actor.reachable(_checked_point(where))
        self.actor.wake()
        self.hands[hand] = self.actor.grip(self.actor.surface(self.skin), point)

    def _pull(self, hand: Hashable, where: Floats) -> None:
        point = self.actor.reachable(_checked_point(where))
        if hand in self.hands:
            self.hands[hand].target = point

    def _release(self, hand: Hashable) -> None:
        self.hands.pop(hand, None)


def _checked_point(where: Floats) -> Floats:
    if where.shape != (3,) or not np.isfinite(where).all():
        raise SuppleError("a point needs three finite numbers")
    return np.clip(where, -FARTHEST, FARTHEST)  # squares of larger numbers would overflow


def _fail(reason: str) -> None:
    raise SuppleError(reason)
