"""Panels of what is seen, and of what it costs."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import viser
from numpy.typing import NDArray

from supple.app.viewer.meter import Costs
from supple.app.viewer.scene.stage import Stage
from supple.app.viewer.session.session import Session
from supple.app.viewer.session.subject import clamped

#: Slider of what is coloured fully, in percents of the size.
FULL = (0.2, 10.0)
#: Slider of the pressure that is coloured fully, in kPa.
PRESSURES = (0.1, 100.0)


class ShowPanel:
    """Colours; rig, soft and difference of a character, its tets and pictures of its model."""

    def __init__(self, server: viser.ViserServer, session: Session[Any], stage: Stage) -> None:
        self._gui, self._session, self._stage = server.gui, session, stage
        rigged = "poses" in session.subject.parts
        if rigged:
            self._add_skins()
        self.colour: Any = server.gui.add_dropdown(
            "Colour by", stage.colourings, initial_value=stage.colouring
        )
        self.colour.on_update(self._recolour)
        if rigged:
            self._add_scale()
        if "touch" in session.subject.parts:
            self._add_pressure()
        if stage.tets is not None:
            self._add_tets()
        if hasattr(session.subject.model, "pose_names"):
            self._add_picture()

    async def _recolour(self, event: Any) -> None:
        if self.colour.value in self._stage.colourings:
            self._session.ask(self._stage.recolour, self.colour.value)

    def _add_skins(self) -> None:
        soft = self._gui.add_checkbox("Soft", True)
        rig = self._gui.add_checkbox("Rig only", False)
        difference = self._gui.add_checkbox("Difference", False)

        def show() -> None:
            self._stage.show(rig.value, soft.value, difference.value)

        async def shown(event: Any) -> None:
            self._session.ask(show)

        for box in (soft, rig, difference):
            box.on_update(shown)

    def _add_scale(self) -> None:
        stage = self._stage
        full = self._gui.add_slider(
            "Full colour at (% of size)", *FULL, 0.1, 100 * stage.full, hint="For displacement"
        )

        @full.on_update
        async def rescale(event: Any) -> None:
            stage.full = clamped(full.value, *FULL) / 100

    def _add_pressure(self) -> None:
        stage = self._stage
        full = self._gui.add_slider(
            "Full pressure at (kPa)", *PRESSURES, 0.1, stage.full_pressure / 1e3
        )

        @full.on_update
        async def rescale(event: Any) -> None:
            stage.full_pressure = 1e3 * clamped(full.value, *PRESSURES)

    def _add_tets(self) -> None:
        tets = self._gui.add_checkbox("Tets", False)

        @tets.on_update
        async def fill(event: Any) -> None:
            self._session.ask(self._stage.show_tets, tets.value)

    def _add_picture(self) -> None:
        button = self._gui.add_button("Poses and alignment tree")
        drawn: dict[int, NDArray[np.uint8]] = {}

        @button.on_click
        def draw(event: Any) -> None:  # in a thread of the server's: it takes seconds
            button.disabled = True
            try:
                model = self._session.subject.model
                if id(model) not in drawn:  # another may have been built
                    drawn.clear()
                    drawn[id(model)] = _model_picture(model)
                _show_picture(event.client, drawn[id(model)])
            finally:
                button.disabled = False


def _show_picture(client: Any, picture: NDArray[np.uint8]) -> None:
    """Open a window on the page that asked for it."""
    if client is None:
        return
    shown = client.gui.add_modal("Poses, softest motions, cubature and alignment tree")
    with shown:
        client.gui.add_image(picture, format="png")
        close = client.gui.add_button("Close")

    @close.on_click
    async def shut(event: Any) -> None:
        shown.close()


def _model_picture(model: Any) -> NDArray[np.uint8]:
    """Draw the sheet of `supple build --sheet`, (h, w, 3)."""
    from matplotlib.image import imread

    from supple.app.pictures.model_sheet import model_sheet

    figure, buffer = model_sheet(model), io.BytesIO()
    figure.savefig(buffer, format="png", dpi=80, facecolor=figure.get_facecolor())
    buffer.seek(0)
    pixels = np.asarray(imread(buffer, format="png"))[..., :3]
    return (255 * pixels).round().astype(np.uint8)


class EnergyPanel:
    """Energies of a body, and the frequencies of its slowest swings."""

    def __init__(self, server: viser.ViserServer, session: Session[Any]) -> None:
        self._subject = session.subject
        self._lines = server.gui.add_markdown("…")

    def update(self) -> None:
        """Show how it moves."""
        simulator = self._subject.simulator
        energy = simulator.energies()
        lowest = ", ".join(f"{value:.3g}" for value in self._subject.frequencies[:3])
        self._lines.content = "  \n".join(
            (
                f"energy {energy['total']:.3g} J: kinetic {energy['kinetic']:.3g}, "
                f"elastic {energy['elastic']:.3g}, gravity {energy['gravity']:.3g}",
                f"swings at {lowest} … Hz; {1 / simulator.dt:.0f} steps for each second",
            )
        )


class CostPanel:
    """Strip chart of the step's time, and a line of figures.

    Parameters
    ----------
    server, session
        Of the page.
    longest
        Milliseconds that the chart shows; None for as many as there are.
    """

    def __init__(
        self, server: viser.ViserServer, session: Session[Any], longest: float | None
    ) -> None:
        self._server, self._session = server, session
        self._line = server.gui.add_markdown("…")
        height: dict[str, Any] = {} if longest is None else {"y": {"range": [0, longest]}}
        self._chart = server.gui.add_uplot(
            session.meter.chart(),
            series=(
                {"label": "step"},
                {"label": "ms", "stroke": "#c8443c", "width": 1},
            ),
            scales={"x": {"time": False}, **height},
            height=150,
        )

    def update(self, costs: Costs) -> None:
        """Show the figures of the last measurement."""
        pages = len(self._server.get_clients())
        limits = ", ".join(self._session.limits)
        lines = [
            costs.line(),
            f"{pages} page{'' if pages == 1 else 's'}, {self._session.state}"
            + (f", limits: {limits}" if limits else ""),
        ]
        self._line.content = "  \n".join(lines)
        self._chart.data = self._session.meter.chart()
