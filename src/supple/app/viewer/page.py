"""The page of a character: panel, stage and the clockwork that moves them."""

from __future__ import annotations

from pathlib import Path

from supple.app.viewer.meter import Costs
from supple.app.viewer.page_live import LivePage
from supple.app.viewer.panel_cost import CostPanel
from supple.app.viewer.panel_flesh import FleshPanel
from supple.app.viewer.panel_handle import HandlePanel
from supple.app.viewer.panel_motion import MotionPanel
from supple.app.viewer.panel_pose import PosePanel
from supple.app.viewer.panel_record import RecordPanel
from supple.app.viewer.panel_show import ShowPanel
from supple.app.viewer.session import Session
from supple.app.viewer.stage import Stage

__all__ = ["Page"]


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
