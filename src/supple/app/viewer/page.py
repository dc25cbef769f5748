"""The page of a character: panel, stage and the clockwork that moves them."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Hashable
from pathlib import Path
from typing import Any, Protocol, Self

from supple.app.viewer.clock import Clockwork, Stepped
from supple.app.viewer.meter import Costs, Meter
from supple.app.viewer.panels.cost import CostPanel
from supple.app.viewer.panels.flesh_panel import FleshPanel
from supple.app.viewer.panels.limb_panel import HandlePanel
from supple.app.viewer.panels.motion_panel import MotionPanel
from supple.app.viewer.panels.pose_panel import PosePanel
from supple.app.viewer.panels.record_panel import RecordPanel
from supple.app.viewer.panels.show_panel import ShowPanel
from supple.app.viewer.scene.stage import Stage
from supple.app.viewer.server import address, start_server, stop_server
from supple.app.viewer.sessions.session import Session

__all__ = ["LivePage", "Page", "Watched"]


# ----------------------------------------------------------------------------
# What every page has: a server, a clockwork, and figures of what they cost.


#: Seconds between two updates of sliders, and of figures.
SLIDER, FIGURES = 0.12, 0.5


class Watched(Stepped, Protocol):
    """A session that pages show."""

    meter: Meter

    def refresh(self) -> None:
        """Bring what is seen up to date."""

    def release(self, hand: Hashable) -> None:
        """A page has gone."""


class LivePage(ABC):
    """A session that browsers can watch; however many do, there is one simulation.

    A subclass puts up scene and panel, then calls `_begin`.

    Parameters
    ----------
    session
        What they watch.
    host, port
        Where; the next free port if that one is taken.
    """

    def __init__(self, session: Watched, host: str, port: int) -> None:
        self._watched_session = session
        self.server = start_server(host, port, "Supple")
        self.costs: Costs | None = None
        self._slider = self._figures = 0.0
        self._said = ""
        self.clockwork = Clockwork(session, self._update, self._watched)

        @self.server.on_client_disconnect
        async def gone(client: Any) -> None:
            session.release(client.client_id)

    def _begin(self) -> None:
        """Let time run."""
        self._show_scene()
        self.clockwork.start()

    @property
    def address(self) -> str:
        """What to open in a browser."""
        return address(self.server)

    def close(self) -> None:
        """End the simulation and the server."""
        self.clockwork.stop()
        stop_server(self.server)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def _watched(self) -> bool:
        return bool(self.server.get_clients())

    def _update(self, trouble: str | None) -> None:
        """After steps, in the session's thread."""
        session = self._watched_session
        if trouble:
            for client in self.server.get_clients().values():
                client.add_notification("Cannot do that", trouble, auto_close_seconds=8.0)
        session.refresh()
        self._show_scene()
        now = time.perf_counter()
        # While time stands still there may be no other update to wait for.
        if now - self._slider >= SLIDER or session.state == "paused":
            self._slider = now
            self._show_sliders()
        if now - self._figures >= FIGURES or session.state != self._said:
            self._figures, self._said = now, session.state
            self.costs = session.meter.costs()
            self._show_costs(self.costs)

    @abstractmethod
    def _show_scene(self) -> None:
        """Send what has moved."""

    @abstractmethod
    def _show_sliders(self) -> None:
        """Bring the panel up to date."""

    @abstractmethod
    def _show_costs(self, costs: Costs) -> None:
        """Bring figures up to date."""


class Page(LivePage):
    """A character that browsers can watch; however many do, there is one simulation.

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
        super().__init__(session, host, port)
        self.session = session
        self.folder = (folder or Path()).resolve()
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
            self.cost = CostPanel(self.server, session, 1e3 * session.dt)
        self._begin()

    def _show_scene(self) -> None:
        self.stage.update()
        self.handle.update()

    def _show_sliders(self) -> None:
        self.motion.update()
        self.record.update()

    def _show_costs(self, costs: Costs) -> None:
        self.cost.update(costs)
