"""The part of the panel that plays motions."""

from __future__ import annotations

import time
from typing import Any

import viser

from supple.app.viewer.panels.pose_panel import labels
from supple.app.viewer.requests import ENDINGS
from supple.app.viewer.sessions.session import Session

__all__ = ["MotionPanel"]

#: Seconds that the time slider is left alone after somebody moved it.
SCRUBBING = 0.6


class MotionPanel:
    """Which motion, play and pause, scrubbing, speed."""

    def __init__(self, server: viser.ViserServer, session: Session) -> None:
        self._session, self._touched = session, 0.0
        gui = server.gui
        self._names = dict(zip(labels(session.motions), session.motions, strict=True))
        shown = list(self._names)
        current = next(k for k, v in self._names.items() if _is(session, v))
        self._choice = gui.add_dropdown("Motion", shown, initial_value=current)
        self._play = gui.add_button("Pause")
        self._time: Any = gui.add_slider("Time (s)", 0.0, 1.0, 0.001, 0.0)
        self._speed = gui.add_slider(
            "Speed",
            0.05,
            2.0,
            0.05,
            1.0,
            hint="How fast the clock runs; frames stay the same",
        )
        self._ending: Any = gui.add_dropdown("At the end", ENDINGS, initial_value=session.ending)
        self._fit()
        self._listen()

    def _listen(self) -> None:
        session = self._session

        @self._choice.on_update
        async def choose(event: Any) -> None:
            session.choose(self._names[self._choice.value])
            session.ask(self._fit)

        @self._play.on_click
        async def play(event: Any) -> None:
            if session.state == "playing":
                session.pause()
            else:
                session.play()

        @self._time.on_update
        async def scrub(event: Any) -> None:
            if event.client is not None:
                self._touched = time.monotonic()
                session.seek(float(self._time.value))

        @self._speed.on_update
        async def speed(event: Any) -> None:
            session.speed = float(self._speed.value)

        @self._ending.on_update
        async def ending(event: Any) -> None:
            if event.client is not None:
                session.end_with(self._ending.value)

    def _fit(self) -> None:
        """Let the slider reach from the motion's first key to its last."""
        first, last = (float(t) for t in self._session.motion.times[[0, -1]])
        self._time.min, self._time.max = first, max(last, first + 1e-3)
        self._time.value = first

    def update(self) -> None:
        """Show where the motion is."""
        self._play.label = "Pause" if self._session.state == "playing" else "Play"
        self._ending.value = self._session.ending
        if time.monotonic() - self._touched > SCRUBBING:
            self._time.value = round(self._session.time, 3)


def _is(session: Session, name: str) -> bool:
    return session.motions[name] is session.motion
