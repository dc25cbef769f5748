"""Panels that play and record: motions, time, speed, takes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import viser

from supple.app.viewer.panels.pose_panel import labels
from supple.app.viewer.session.character_subject import ENDINGS, CharacterSubject
from supple.app.viewer.session.session import Session
from supple.errors import SuppleError
from supple.formats.registry import BAKED_MOTIONS

#: Formats of recordings, as the hint lists them.
_SUFFIXES = " ".join(row.suffixes[0] for row in BAKED_MOTIONS.rows)

#: Seconds that the time slider is left alone after somebody moved it.
SCRUBBING = 0.6


class PlayPanel:
    """Play and pause, speed; motion and time of a character, reset of a body."""

    def __init__(self, server: viser.ViserServer, session: Session[Any]) -> None:
        self._session = session
        gui, subject = server.gui, session.subject
        self._motions = _MotionControls(gui, session) if "motions" in subject.parts else None
        if self._motions is None:
            gui.add_markdown(subject.hint)
        self.play = gui.add_button("Pause")
        if self._motions is None:
            gui.add_button("Reset").on_click(self._reset)
        else:
            self._motions.add_time()
        self.speed = gui.add_slider(
            "Speed",
            subject.slowest,
            2.0,
            subject.slowest,
            1.0,
            hint="How fast the clock runs; frames and steps stay the same",
        )
        if self._motions is not None:
            self._motions.add_ending()
            gui.add_markdown(subject.hint)
        self.play.on_click(self._toggle)
        self.speed.on_update(self._hurry)

    async def _toggle(self, event: Any) -> None:
        if self._session.state == "playing":
            self._session.pause()
        else:
            self._session.play()

    async def _reset(self, event: Any) -> None:
        self._session.reset()

    async def _hurry(self, event: Any) -> None:
        self._session.speed = float(self.speed.value)

    def update(self) -> None:
        """Show whether it plays, and where the motion is."""
        self.play.label = "Pause" if self._session.state == "playing" else "Play"
        if self._motions is not None:
            self._motions.update()


class _MotionControls:
    """Choice of a motion, its time and its end, among the other controls of playing."""

    def __init__(self, gui: viser.GuiApi, session: Session[CharacterSubject]) -> None:
        self._gui, self._session, self._touched = gui, session, 0.0
        self._subject = subject = session.subject
        self._names = dict(zip(labels(subject.motions), subject.motions, strict=True))
        current = next(k for k, v in self._names.items() if subject.motions[v] is subject.motion)
        self._choice = gui.add_dropdown("Motion", list(self._names), initial_value=current)
        self._time: Any = None
        self._ending: Any = None

        @self._choice.on_update
        async def choose(event: Any) -> None:
            session.ask(subject.choose, self._names[self._choice.value])
            session.ask(self._fit)

    def add_time(self) -> None:
        """Add the slider of the motion's time."""
        self._time = self._gui.add_slider("Time (s)", 0.0, 1.0, 0.001, 0.0)
        self._fit()

        @self._time.on_update
        async def scrub(event: Any) -> None:
            if event.client is not None:
                self._touched = time.monotonic()
                self._session.ask(self._subject.seek, float(self._time.value))

    def add_ending(self) -> None:
        """Add the choice of what follows the motion's end."""
        ending = self._subject.ending
        self._ending = self._gui.add_dropdown("At the end", ENDINGS, initial_value=ending)

        @self._ending.on_update
        async def end(event: Any) -> None:
            if event.client is not None:
                self._session.ask(self._subject.end_with, self._ending.value)

    def _fit(self) -> None:
        """Let the slider reach from the motion's first key to its last."""
        first, last = (float(t) for t in self._subject.motion.times[[0, -1]])
        self._time.min, self._time.max = first, max(last, first + 1e-3)
        self._time.value = first

    def update(self) -> None:
        """Show where the motion is, and how it ends."""
        self._ending.value = self._subject.ending
        if time.monotonic() - self._touched > SCRUBBING:
            self._time.value = round(self._subject.time, 3)


class RecordPanel:
    """Record, stop, save to a file in one folder."""

    def __init__(
        self, server: viser.ViserServer, session: Session[CharacterSubject], folder: Path
    ) -> None:
        gui = server.gui
        self._subject, self._folder = session.subject, folder
        self._recorder = recorder = session.subject.recorder
        self._record = gui.add_button("Record")
        self._name = gui.add_text("File", "take1.npz", hint=f"In {folder}: {_SUFFIXES}")
        self._save = gui.add_button("Save")
        self._said = gui.add_markdown("Nothing recorded.")
        self._shown: tuple[bool, int] = (False, 0)
        self._save.on_click(self._write)

        @self._record.on_click
        async def record(event: Any) -> None:
            session.ask(recorder.stop if recorder.on else recorder.start)

    def _write(self, event: Any) -> None:  # in a thread of the server's: fitting takes seconds
        self._save.disabled = True
        subject = self._subject
        try:
            self._recorder.stop()
            name = self._name.value
            target = self._recorder.save(self._folder, name, subject.character, subject.motion.name)
            _notify(event.client, "Saved", target.name)
        except SuppleError as error:
            _notify(event.client, "Not saved", str(error))
        except OSError as error:
            _notify(event.client, "Not saved", error.strerror or "it cannot be written")
        finally:
            self._save.disabled = False

    def update(self) -> None:
        """Show how much is recorded."""
        recorder = self._recorder
        now = (recorder.on, len(recorder))
        if now == self._shown:
            return
        self._shown = now
        self._record.label = "Stop recording" if recorder.on else "Record"
        self._said.content = f"{len(recorder)} frames, {recorder.seconds:.1f} s"


def _notify(client: Any, title: str, text: str) -> None:
    if client is not None:
        client.add_notification(title, text, auto_close_seconds=8.0)
