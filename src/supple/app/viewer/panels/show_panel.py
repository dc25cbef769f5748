"""The part of the panel about what is seen."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import viser
from numpy.typing import NDArray

from supple.app.viewer.requests import clamped
from supple.app.viewer.scene.stage import COLOURINGS, Stage
from supple.app.viewer.sessions.session import Session
from supple.engines.pose_space.model.model import PoseSpaceModel

__all__ = ["ShowPanel"]

#: Slider of what is coloured fully, in percents of the size.
FULL = (0.2, 10.0)


class ShowPanel:
    """Rig, soft and difference; colours; tets; pictures of the model."""

    def __init__(self, server: viser.ViserServer, session: Session, stage: Stage) -> None:
        gui = server.gui
        self._server, self._session, self._stage = server, session, stage
        self.soft = gui.add_checkbox("Soft", True)
        self.rig = gui.add_checkbox("Rig only", False)
        self.difference = gui.add_checkbox("Difference", False)
        self.colour = gui.add_dropdown("Colour by", COLOURINGS)
        self.full = gui.add_slider(
            "Full colour at (% of size)", *FULL, 0.1, 100 * stage.full, hint="For displacement"
        )
        self.tets = gui.add_checkbox("Tets", False)
        self.tree = gui.add_button("Poses and alignment tree")
        self._picture: NDArray[np.uint8] | None = None
        self._listen()

    def _listen(self) -> None:
        session, stage = self._session, self._stage

        def show() -> None:
            stage.show(self.rig.value, self.soft.value, self.difference.value)

        async def shown(event: Any) -> None:
            session.ask(show)

        for box in (self.soft, self.rig, self.difference):
            box.on_update(shown)

        @self.colour.on_update
        async def recolour(event: Any) -> None:
            wanted = self.colour.value
            if wanted in COLOURINGS:
                session.ask(lambda: stage.recolour(wanted))

        @self.full.on_update
        async def rescale(event: Any) -> None:
            stage.full = clamped(self.full.value, *FULL) / 100

        @self.tets.on_update
        async def fill(event: Any) -> None:
            wanted = self.tets.value
            session.ask(lambda: stage.show_tets(wanted))

        @self.tree.on_click
        def draw(event: Any) -> None:  # in a thread of the server's: it takes seconds
            self.tree.disabled = True
            try:
                if self._picture is None:
                    self._picture = model_picture(session.model)
                self.show_picture(event.client)
            finally:
                self.tree.disabled = False

    def show_picture(self, client: Any) -> None:
        """On the page that asked for it."""
        if client is None or self._picture is None:
            return
        shown = client.gui.add_modal("Poses, softest motions, cubature and alignment tree")
        with shown:
            client.gui.add_image(self._picture, format="png")
            close = client.gui.add_button("Close")

        @close.on_click
        async def shut(event: Any) -> None:
            shown.close()


def model_picture(model: PoseSpaceModel) -> NDArray[np.uint8]:
    """(h, w, 3) the sheet of `supple build --sheet`."""
    from matplotlib.image import imread

    from supple.app.pictures.model_sheet import model_sheet

    figure, buffer = model_sheet(model), io.BytesIO()
    figure.savefig(buffer, format="png", dpi=80, facecolor=figure.get_facecolor())
    buffer.seek(0)
    pixels = np.asarray(imread(buffer, format="png"))[..., :3]
    return (255 * pixels).round().astype(np.uint8)
