"""The parts of the panel that record, and that say what all this costs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import viser

from supple.app.viewer.meter import Costs
from supple.app.viewer.session import Session
from supple.errors import SuppleError

__all__ = ["CostPanel", "RecordPanel"]


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
        self._name = gui.add_text(
            "File", "take1.npz", hint=f"In {folder}: .glb .usd .pc2 .mdd .abc .npz"
        )
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


class CostPanel:
    """A strip chart of the step's time, and a line of figures."""

    def __init__(self, server: viser.ViserServer, session: Session) -> None:
        self._server, self._session = server, session
        self._line = server.gui.add_markdown("…")
        steps, milliseconds = session.meter.chart()
        self._chart = server.gui.add_uplot(
            (steps, milliseconds),
            series=(
                {"label": "step"},
                {"label": "ms", "stroke": "#c8443c", "width": 1},
            ),
            scales={"x": {"time": False}, "y": {"range": [0, 1e3 * session.dt]}},
            height=150,
        )

    def update(self, costs: Costs) -> None:
        """Every now and then."""
        pages = len(self._server.get_clients())
        limits = ", ".join(self._session.limits)
        lines = [
            costs.line(),
            f"{pages} page{'' if pages == 1 else 's'}, {self._session.state}"
            + (f", limits: {limits}" if limits else ""),
        ]
        self._line.content = "  \n".join(lines)
        self._chart.data = self._session.meter.chart()
