"""Page of a session: stage, panels, the server that shows them and the clock that moves them."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Self

from supple.app.viewer.clock import Clock
from supple.app.viewer.meter import Costs
from supple.app.viewer.panels.anatomy_panel import AnatomyPanel
from supple.app.viewer.panels.curves_panel import CurvesPanel, SpringPanel
from supple.app.viewer.panels.material_panel import add_material_controls
from supple.app.viewer.panels.play_panel import PlayPanel, RecordPanel
from supple.app.viewer.panels.pose_panel import HandlePanel, PosePanel
from supple.app.viewer.panels.show_panel import CostPanel, EnergyPanel, ShowPanel
from supple.app.viewer.panels.touch_panel import TouchPanel
from supple.app.viewer.scene.stage import Stage
from supple.app.viewer.scene.touch_nodes import add_obstacles
from supple.app.viewer.server import address, start_server, stop_server
from supple.app.viewer.session.session import Session

#: Seconds between two updates of sliders, and of figures.
SLIDER, FIGURES = 0.12, 0.5


class Page:
    """Session that browsers can watch; however many do, there is one simulation.

    Parameters
    ----------
    session
        Of a character or a body; the page has panels for whatever parts its subject has.
    host, port
        Address to serve at; the next free port if that one is taken.
    folder
        For recordings and anatomy files, which go nowhere else.
    clay
        Show it in clay at first, though it has colours of its own.
    """

    def __init__(
        self,
        session: Session[Any],
        *,
        host: str = "127.0.0.1",
        port: int = 8080,
        folder: Path | None = None,
        clay: bool = False,
    ) -> None:
        self.session = session
        self.folder = (folder or Path()).resolve()
        self.server = start_server(host, port, "Supple")
        self.costs: Costs | None = None
        self.anatomy: AnatomyPanel | None = None
        self._slider = self._figures = 0.0
        self._said = ""
        self.clock = Clock(session, self._update, self._watched)

        @self.server.on_client_disconnect
        async def gone(client: Any) -> None:
            session.release(client.client_id)

        self.stage = Stage(self.server, session, clay=clay)
        fixed = session.subject.obstacles.fixed if "obstacles" in session.subject.parts else ()
        add_obstacles(self.server, fixed, session.subject.model.surface.size)
        self._moving: list[Any] = [self.stage]
        """What is updated with the scene."""
        self._live: list[Any] = []
        """Panels that are brought up to date now and then."""
        self._add_panels()
        self._show_scene()
        self.clock.start()

    def _add_panels(self) -> None:
        server, session, parts = self.server, self.session, self.session.subject.parts
        # A body has so few controls that they stand below each other.
        tabs = server.gui.add_tab_group() if "poses" in parts else None

        def tab(name: str) -> AbstractContextManager[Any]:
            return nullcontext() if tabs is None else tabs.add_tab(name)

        with tab("Play"):
            self.play = PlayPanel(server, session)
            self._live.append(self.play)
            add_material_controls(server, session, self.stage.obstacles)
        if "touch" in parts:
            with tab("Touch"):
                self.touch = TouchPanel(server, session, self.stage)
                self._moving.append(self.touch)
                self._live.append(self.touch.felt)
        with tab("Show"):
            self.show = ShowPanel(server, session, self.stage)
        if "poses" in parts:
            with tab("Pose"):
                self._moving.append(HandlePanel(server, session, lambda: self.pose.take_over()))
                self.pose = PosePanel(server, session)
        if "curves" in parts:
            self.curves = CurvesPanel(server, session)
            self._live.append(self.curves)
            with tab("Springs"):
                SpringPanel(server, session, self.curves)
        if "anatomy" in parts:
            with tab("Anatomy"):
                self.anatomy = AnatomyPanel(server, session, self.stage, self.show, self.folder)
        if "recording" in parts:
            with tab("Record"):
                self._live.append(RecordPanel(server, session, self.folder))
        if "energies" in parts:
            self._live.append(EnergyPanel(server, session))
        with server.gui.add_folder("Cost"):
            # A motion's step has to fit its frame; a body's takes microseconds.
            longest = 1e3 * session.dt if "motions" in parts else None
            self.cost = CostPanel(server, session, longest)

    @property
    def address(self) -> str:
        """Address to open in a browser."""
        return address(self.server)

    def close(self) -> None:
        """End the simulation and the server."""
        if self.anatomy is not None:
            self.anatomy.close()
        self.clock.stop()
        stop_server(self.server)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def _watched(self) -> bool:
        return bool(self.server.get_clients())

    def _update(self, trouble: str | None) -> None:
        """Show what steps did, in the session's thread."""
        session = self.session
        if trouble:
            for client in self.server.get_clients().values():
                client.add_notification("Cannot do that", trouble, auto_close_seconds=8.0)
        session.refresh()
        self._show_scene()
        now = time.perf_counter()
        # While time stands still there may be no other update to wait for.
        if now - self._slider >= SLIDER or session.state == "paused":
            self._slider = now
            for panel in self._live:
                panel.update()
        if now - self._figures >= FIGURES or session.state != self._said:
            self._figures, self._said = now, session.state
            self.costs = session.meter.costs()
            self.cost.update(self.costs)

    def _show_scene(self) -> None:
        for node in self._moving:
            node.update()
