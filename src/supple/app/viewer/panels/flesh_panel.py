"""The part of the panel about the flesh and what it bumps into."""

from __future__ import annotations

from typing import Any

import viser

from supple.app.viewer.scene.overlays import ObstacleNodes
from supple.app.viewer.sessions.session import Session
from supple.dynamics.root_frame import GRAVITY_MODES

__all__ = ["FleshPanel"]

#: Slider of stiffness, in doublings.
SOFTEST, STIFFEST = -3.0, 3.0


class FleshPanel:
    """Stiffness, gravity, ground and ball."""

    def __init__(
        self, server: viser.ViserServer, session: Session, obstacles: ObstacleNodes
    ) -> None:
        gui = server.gui
        gui.add_markdown("Drag the skin to pull it; let go to see it swing back.")
        self.stiffness = gui.add_slider(
            "Stiffness (doublings)",
            SOFTEST,
            STIFFEST,
            0.1,
            0.0,
            hint="0 is as built, 1 twice as stiff; no rebuild",
        )
        self.gravity = gui.add_dropdown(
            "Gravity",
            GRAVITY_MODES,
            initial_value=session.simulator.gravity_mode,
            hint="relative: the sculpted shape sags already",
        )
        self.ground = gui.add_checkbox("Ground", False)
        self.ball = gui.add_checkbox("Ball", False, hint="Push the flesh with it")

        @self.stiffness.on_update
        async def stiffen(event: Any) -> None:
            factor = 2.0 ** float(self.stiffness.value)
            session.ask(lambda: session.stiffen(factor))

        @self.gravity.on_update
        async def fall(event: Any) -> None:
            mode = self.gravity.value
            session.ask(lambda: setattr(session.simulator, "gravity_mode", mode))

        def place() -> None:
            session.surroundings.ground = self.ground.value
            session.surroundings.ball = self.ball.value
            obstacles.show(self.ground.value, self.ball.value)

        @self.ground.on_update
        async def stand(event: Any) -> None:
            session.ask(place)

        @self.ball.on_update
        async def bump(event: Any) -> None:
            session.ask(place)
