"""Panels: parts and colours of the scene, energies, and costs."""

from __future__ import annotations

import io
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import viser
from numpy.typing import NDArray

from supple.app.pictures.drawing import label
from supple.app.viewer.meter import Costs
from supple.app.viewer.panels.rows import Row, add_rows, attribute
from supple.app.viewer.scene.scene_view import SceneView
from supple.app.viewer.session.session import Session
from supple.engines.common.accuracy import accuracy_words

#: Limits of the sliders of full colour: in percent of the size, and in kPa.
DISPLACEMENTS, PRESSURES = (0.2, 10.0, 0.1), (0.1, 100.0, 0.1)

#: Most letters of the line about the model.
LONGEST_LINE = 160


class ShowPanel:
    """Colours; rig, soft skin and difference of a character, its tets and a sheet of its model."""

    def __init__(self, server: viser.ViserServer, session: Session[Any], scene: SceneView) -> None:
        self._gui, self._session, self._scene = server.gui, session, scene
        self.colour: Any = add_rows(server.gui, session, self._rows())["Colour by"]
        model = session.actor.model
        if words := accuracy_words(getattr(model, "report", {})):
            server.gui.add_markdown(f"Model as built: {label(words, LONGEST_LINE)}")
        if hasattr(model, "pose_names"):
            self._add_sheet()

    def _rows(self) -> Iterator[Row]:
        scene, parts = self._scene, self._session.actor.parts
        if "poses" in parts:
            skins = {"Soft": "soft", "Rig only": "rig", "Difference": "difference"}
            for label, name in skins.items():
                get, _ = attribute(partial(getattr, scene, name), "visible")
                yield Row(label, get, partial(scene.show, name))
        yield Row("Colour by", lambda: scene.colouring, scene.recolour, options=scene.colourings)
        if "poses" in parts:

            def put_displacement(percent: float) -> None:
                scene.full_displacement = percent / 100

            yield Row(
                "Full colour at (% of size)",
                lambda: 100 * scene.full_displacement,
                put_displacement,
                "Displacement that gets the last colour",
                DISPLACEMENTS,
            )
        if "touch" in parts:

            def put_pressure(kilopascals: float) -> None:
                scene.full_pressure = 1e3 * kilopascals

            yield Row(
                "Full pressure at (kPa)",
                lambda: scene.full_pressure / 1e3,
                put_pressure,
                "Pressure that gets the last colour",
                PRESSURES,
            )
        if scene.tets is not None:
            yield Row("Tets", lambda: False, scene.show_tets)

    def _add_sheet(self) -> None:
        button = self._gui.add_button("Poses and alignment tree")
        pictures: dict[int, NDArray[np.uint8]] = {}

        @button.on_click
        def draw(event: Any) -> None:  # in a thread of the server: it takes seconds
            button.disabled = True
            try:
                model = self._session.actor.model
                if id(model) not in pictures:  # the model may have been rebuilt
                    pictures.clear()
                    pictures[id(model)] = _model_picture(model)
                _show_picture(event.client, pictures[id(model)])
            finally:
                button.disabled = False


def _show_picture(client: Any, picture: NDArray[np.uint8]) -> None:
    """Show a picture (h, w, 3) in a window on the page of a client; do nothing without a client."""
    if client is None:
        return
    window = client.gui.add_modal("Poses, softest motions, cubature and alignment tree")
    with window:
        client.gui.add_image(picture, format="png")
        close = client.gui.add_button("Close")

    @close.on_click
    async def closed(event: Any) -> None:
        window.close()


def _model_picture(model: Any) -> NDArray[np.uint8]:
    """Return the sheet of `supple build --sheet` as pixels (h, w, 3)."""
    from matplotlib.image import imread

    from supple.app.pictures.model_sheet import model_sheet

    figure, buffer = model_sheet(model), io.BytesIO()
    figure.savefig(buffer, format="png", dpi=80, facecolor=figure.get_facecolor())
    buffer.seek(0)
    pixels = np.asarray(imread(buffer, format="png"))[..., :3]
    return (255 * pixels).round().astype(np.uint8)


class EnergyPanel:
    """Energies of a body, and its lowest frequencies."""

    def __init__(self, server: viser.ViserServer, session: Session[Any]) -> None:
        self._actor = session.actor
        self._lines = server.gui.add_markdown("…")

    def update(self) -> None:
        """Show the current values."""
        simulator = self._actor.simulator
        energy = simulator.energies()
        lowest = ", ".join(f"{value:.3g}" for value in self._actor.frequencies[:3])
        self._lines.content = "  \n".join(
            (
                f"energy {energy['total']:.3g} J: kinetic {energy['kinetic']:.3g}, "
                f"elastic {energy['elastic']:.3g}, gravity {energy['gravity']:.3g}",
                f"lowest frequencies {lowest} … Hz; {1 / simulator.dt:.0f} steps per second",
            )
        )


class CostPanel:
    """Strip chart of the step's time, up to `longest` ms if given, and a line of average costs."""

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
        """Show the costs of the last measurement."""
        pages = len(self._server.get_clients())
        limits = ", ".join(self._session.limits)
        self._line.content = (
            f"{costs.text()}  \n{pages} page{'' if pages == 1 else 's'}, {self._session.state}"
            + (f", limits: {limits}" if limits else "")
        )
        self._chart.data = self._session.meter.chart()
