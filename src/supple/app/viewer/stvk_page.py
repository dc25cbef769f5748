"""The page of an elastic body."""

from __future__ import annotations

from supple.app.viewer.meter import Costs
from supple.app.viewer.page import LivePage
from supple.app.viewer.panels.cost import CostPanel
from supple.app.viewer.panels.stvk_panel import StvkPanel
from supple.app.viewer.scene.stvk_stage import StvkStage
from supple.app.viewer.sessions.stvk_session import StvkSession

__all__ = ["StvkPage"]


class StvkPage(LivePage):
    """An elastic body that browsers can watch; however many do, there is one simulation.

    Parameters
    ----------
    session
        What they watch.
    host, port
        Where; the next free port if that one is taken.
    """

    def __init__(self, session: StvkSession, *, host: str = "127.0.0.1", port: int = 8080) -> None:
        super().__init__(session, host, port)
        self.session = session
        self.stage = StvkStage(self.server, session)
        self.panel = StvkPanel(self.server, session, self.stage)
        with self.server.gui.add_folder("Cost"):
            self.cost = CostPanel(self.server, session)
        self._begin()

    def _show_scene(self) -> None:
        self.stage.update()

    def _show_sliders(self) -> None:
        self.panel.update()

    def _show_costs(self, costs: Costs) -> None:
        self.cost.update(costs)
