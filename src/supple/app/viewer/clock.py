"""Clock of the viewer: a thread that steps a session in real time, and shows the result."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from supple.app.viewer.session.session import Session

#: Updates of pages in a second, at most.
UPDATES = 45.0
#: Steps that are made up for at once; what is further behind is let go.
MOST_BEHIND = 4
#: Part of its core that a simulation slower than the clock leaves for the server.
BREATH = 0.2
#: Seconds between looks at whether somebody watches, or whether a paused scene changed.
IDLE, PAUSED = 0.25, 0.02


class Clock:
    """Thread that steps a session in real time while somebody watches.

    Parameters
    ----------
    session
        To be stepped.
    show
        Called after steps, in the same thread, with what could not be done, in a line, or None.
    watched
        Says whether somebody watches.

    Attributes
    ----------
    failure
        Error that ended the thread, if one did.
    """

    def __init__(
        self, session: Session[Any], show: Callable[[str | None], None], watched: Callable[[], bool]
    ) -> None:
        self._session, self._show, self._watched = session, show, watched
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="supple view", daemon=True)
        self.failure: BaseException | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread, and wait until it has."""
        self._ended.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(timeout=10.0)

    def wait(self, seconds: float) -> bool:
        """Wait so many seconds at most; return whether the thread has ended."""
        return self._ended.wait(seconds)

    def _run(self) -> None:
        try:
            self._tick()
        except BaseException as error:  # told to whoever waits for us
            self.failure = error
        finally:
            self._ended.set()

    def _tick(self) -> None:
        due, last, shown = 0.0, time.perf_counter(), 0.0
        while not self._ended.is_set():
            if not self._watched():
                self._session.settle_requests()
                self._ended.wait(IDLE)
                due, last = 0.0, time.perf_counter()
                continue
            now = time.perf_counter()
            due += (now - last) * self._session.speed / self._session.dt
            last = now
            steps = min(int(due), MOST_BEHIND)
            behind = due >= MOST_BEHIND + 1
            due = 0.0 if behind else due - steps
            trouble = self._session.settle_requests()
            self._session.advance(steps)
            if trouble or (self._session.changed and now - shown >= 0.9 / UPDATES):
                self._show(trouble)
                shown = now
            self._ended.wait(self._rest(due, time.perf_counter() - now, behind))

    def _rest(self, due: float, worked: float, behind: bool) -> float:
        if behind:
            return BREATH * worked
        if self._session.state == "paused":
            return PAUSED
        left = (1 - due) * self._session.dt / max(self._session.speed, 1e-3) - worked
        return min(max(left, 0.0005), PAUSED)
