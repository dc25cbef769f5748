"""The page: panel, stage and the clockwork that moves them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from supple.app.viewer.clockwork import Clockwork
from supple.app.viewer.meter import Costs
from supple.app.viewer.panel_flesh import FleshPanel
from supple.app.viewer.panel_handle import HandlePanel
from supple.app.viewer.panel_motion import MotionPanel
from supple.app.viewer.panel_pose import PosePanel
from supple.app.viewer.panel_record import CostPanel, RecordPanel
from supple.app.viewer.panel_show import ShowPanel
from supple.app.viewer.server import address, start_server, stop_server
from supple.app.viewer.session import Session
from supple.app.viewer.stage import Stage

__all__ = ["Page"]

#: Seconds between two updates of the motion's slider, and of figures.
SLIDER, FIGURES = 0.12, 0.5


class Page:
    """A session that browsers can watch; however many do, there is one simulation.

    Parameters
    ----------
    session
        What they watch.
    host, port
        Where; the next free port if that one is taken.
    folder
        Where recordings go, and nowhere else.
    """

    def __init__(
        self,
        session: Session,
        *,
        host: str = "127.0.0.1",
        port: int = 8080,
        folder: Path | None = None,
    ) -> None:
        self.session = session
        self.folder = (folder or Path()).resolve()
        self.server = start_server(host, port, "Supple")
        gui = self.server.gui
        self.stage = Stage(self.server, session)
        tabs = gui.add_tab_group()
        with tabs.add_tab("Play"):
            self.motion = MotionPanel(self.server, session)
            self.flesh = FleshPanel(self.server, session, self.stage.obstacles)
        with tabs.add_tab("Show"):
            self.show = ShowPanel(self.server, session, self.stage)
        with tabs.add_tab("Pose"):
            self.handle = HandlePanel(self.server, session, lambda: self.pose.take_over())
            self.pose = PosePanel(self.server, session)
        with tabs.add_tab("Record"):
            self.record = RecordPanel(self.server, session, self.folder)
        with gui.add_folder("Cost"):
            self.cost = CostPanel(self.server, session)

        @self.server.on_client_disconnect
        async def gone(client: Any) -> None:
            session.release(client.client_id)

        self.costs: Costs | None = None
        self._slider = self._figures = 0.0
        self._said = ""
        self.stage.update()
        self.clockwork = Clockwork(session, self._update, self._watched)
        self.clockwork.start()

    @property
    def address(self) -> str:
        """What to open in a browser."""
        return address(self.server)

    def close(self) -> None:
        """End the simulation and the server."""
        self.clockwork.stop()
        stop_server(self.server)

    def __enter__(self) -> Page:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def _watched(self) -> bool:
        return bool(self.server.get_clients())

    def _update(self, trouble: str | None) -> None:
        """After steps, in the session's thread."""
        if trouble:
            for client in self.server.get_clients().values():
                client.add_notification("Cannot do that", trouble, auto_close_seconds=8.0)
        self.session.refresh()
        self.stage.update()
        self.handle.update()
        now = time.perf_counter()
        # While time stands still there may be no other update to wait for.
        if now - self._slider >= SLIDER or self.session.state == "paused":
            self._slider = now
            self.motion.update()
            self.record.update()
        if now - self._figures >= FIGURES or self.session.state != self._said:
            self._figures, self._said = now, self.session.state
            self.costs = self.session.meter.costs()
            self.cost.update(self.costs)
