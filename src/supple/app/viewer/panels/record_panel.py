"""The part of the panel that records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import viser

from supple.app.viewer.sessions.session import Session
from supple.errors import SuppleError
from supple.formats.registry import BAKED_MOTIONS

__all__ = ["RecordPanel"]


class RecordPanel:
    """Record, stop, save to a file in one folder."""

    def __init__(
        self,
        server: viser.ViserServer,
        session: Session,
        folder: Path,
    ) -> None:
        gui = server.gui
        self._session = session
        self._record = gui.add_button("Record")
        suffixes = " ".join(row.suffixes[0] for row in BAKED_MOTIONS.rows)
        self._name = gui.add_text("File", "take1.npz", hint=f"In {folder}: {suffixes}")
        self._save = gui.add_button("Save")
        self._told = gui.add_markdown("Nothing recorded.")
        self._shown: tuple[bool, int] = (False, 0)

        @self._record.on_click
        async def record(event: Any) -> None:
            recorder = session.recorder
            session.ask(recorder.stop if recorder.on else recorder.start)

        @self._save.on_click
        def save(event: Any) -> None:  # in a thread of the server's: fitting shapes takes seconds
            self._save.disabled = True
            try:
                session.recorder.stop()
                target = session.recorder.save(
                    folder, self._name.value, session.character, session.motion.name
                )
                self._tell(event.client, "Saved", target.name)
            except SuppleError as error:
                self._tell(event.client, "Not saved", str(error))
            except OSError as error:
                self._tell(event.client, "Not saved", error.strerror or "it cannot be written")
            finally:
                self._save.disabled = False

    @staticmethod
    def _tell(client: Any, title: str, text: str) -> None:
        if client is not None:
            client.add_notification(title, text, auto_close_seconds=8.0)

    def update(self) -> None:
        """Show how much is recorded."""
        recorder = self._session.recorder
        now = (recorder.on, len(recorder))
        if now == self._shown:
            return
        self._shown = now
        self._record.label = "Stop recording" if recorder.on else "Record"
        self._told.content = f"{len(recorder)} frames, {recorder.seconds:.1f} s"
