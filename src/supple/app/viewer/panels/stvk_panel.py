"""The panel of an elastic body."""

from __future__ import annotations

from typing import Any

import viser

from supple.app.viewer.scene.stvk_stage import BODY_COLOURINGS, StvkStage
from supple.app.viewer.sessions.stvk_session import DAMPING, DOUBLINGS, GRAVITIES, StvkSession

__all__ = ["StvkPanel"]

#: Groups of elements that get a slider.
MOST_SLIDERS = 12
#: Largest of the damping's slider.
MOST_RATIO = 0.5


class StvkPanel:
    """Play and pause, stiffness, damping, gravity, modes; and what the body does."""

    def __init__(self, server: viser.ViserServer, session: StvkSession, stage: StvkStage) -> None:
        self._gui, self._session, self._stage = server.gui, session, stage
        gui = server.gui
        grey = " Grey is held." if stage.holds else ""
        gui.add_markdown(f"Drag the body to pull it; let go to see it swing.{grey}")
        self.play = gui.add_button("Pause")
        self.reset = gui.add_button("Reset")
        self.speed = gui.add_slider(
            "Speed", 0.02, 2.0, 0.02, 1.0, hint="How fast the clock runs; steps stay the same"
        )
        self.stiffness = [self._stiffness(group) for group in self._groups()]
        self.damping = gui.add_slider(
            "Damping", 0.0, MOST_RATIO, 0.005, DAMPING, hint="Of the critical, in the slowest swing"
        )
        self.gravity = gui.add_dropdown("Gravity", tuple(GRAVITIES), hint="It sags, and settles")
        r = session.built.modes
        self.modes = gui.add_slider(
            "Modes", 1, max(r, 2), 1, r, disabled=r < 2, hint="Fewer cost less, and move less"
        )
        self.colour = gui.add_dropdown("Colour by", BODY_COLOURINGS)
        self.told = gui.add_markdown("…")
        self._listen()

    def _groups(self) -> range:
        return range(min(len(self._session.built.groups), MOST_SLIDERS))

    def _stiffness(self, group: int) -> Any:
        young, session = float(self._session.built.groups.young[group]), self._session
        name = "Stiffness" if len(session.built.groups) == 1 else f"Stiffness {group + 1}"
        slider = self._gui.add_slider(
            f"{name} (doublings)",
            -DOUBLINGS,
            DOUBLINGS,
            0.1,
            0.0,
            hint=f"0 is as built, {young:.3g} Pa; 1 twice as stiff; no rebuild",
        )

        @slider.on_update
        async def stiffen(event: Any) -> None:
            doublings = float(slider.value)
            session.ask(lambda: session.stiffen(group, doublings))

        return slider

    def _listen(self) -> None:
        session = self._session

        @self.play.on_click
        async def play(event: Any) -> None:
            if session.state == "playing":
                session.pause()
            else:
                session.play()

        @self.reset.on_click
        async def reset(event: Any) -> None:
            session.reset()

        @self.speed.on_update
        async def speed(event: Any) -> None:
            session.speed = float(self.speed.value)

        @self.damping.on_update
        async def damp(event: Any) -> None:
            ratio = float(self.damping.value)
            session.ask(lambda: session.damp(ratio))

        @self.gravity.on_update
        async def fall(event: Any) -> None:
            direction = self.gravity.value
            session.ask(lambda: session.fall(direction))

        @self.modes.on_update
        async def truncate(event: Any) -> None:
            modes = float(self.modes.value)
            session.ask(lambda: session.truncate(modes))

        @self.colour.on_update
        async def recolour(event: Any) -> None:
            wanted = self.colour.value
            if wanted in BODY_COLOURINGS:
                session.ask(lambda: self._stage.recolour(wanted))

    def update(self) -> None:
        """Show how it moves."""
        session = self._session
        self.play.label = "Pause" if session.state == "playing" else "Play"
        energy = session.simulator.energies()
        lowest = ", ".join(f"{value:.3g}" for value in session.frequencies[:3])
        self.told.content = "  \n".join(
            (
                f"energy {energy['total']:.3g} J: kinetic {energy['kinetic']:.3g}, "
                f"elastic {energy['elastic']:.3g}, gravity {energy['gravity']:.3g}",
                f"swings at {lowest} … Hz; {1 / session.step_dt:.0f} steps for each second",
            )
        )
