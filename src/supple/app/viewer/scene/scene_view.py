"""View of the scene: soft skin, rig and difference side by side, in chosen colours."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import viser

from supple.app.pictures.anatomy_sheet import ANATOMY_MAPS
from supple.app.pictures.drawing import BONE, rgb
from supple.app.viewer.scene.colours import (
    FLESH,
    AppearanceBands,
    ColourBands,
    appearance_bands,
    by_anatomy,
    by_displacement,
    by_held,
    by_pressure,
    by_region,
    by_stiffness,
)
from supple.app.viewer.scene.scene_nodes import CubaturePoints, ObstacleNodes, SkinNode, TetNode
from supple.app.viewer.session.session import Session
from supple.arrays import Singles

#: Updates between two sortings of triangles into bands, and between updates of overlays.
SELDOM = 4
#: Colourings of a character: the colours of its file, and one colour.
OWN, CLAY = "own colours", "clay"
#: Opacity of skin above cubature points and tets.
THROUGH = 0.3
#: Default pressure of the last colour, in Pa.
PRESSURE = 2e4


class SceneView:
    """Nodes of the scene, and their colours and visibility.

    All methods run in the session's thread. The colourings depend on the actor and its model. The
    rig and the difference stand to the left and right; they are hidden at first. `cubature` and
    `tets` are None for models without them.
    """

    def __init__(
        self, server: viser.ViserServer, session: Session[Any], *, clay: bool = False
    ) -> None:
        self._server, self._session = server, session
        actor = self._actor = session.actor
        model = actor.model
        self.chosen: tuple[str, ...] = ()  # joints whose regions are highlighted
        self.click_listeners: list[Callable[[Any], None]] = []  # for clicks on the soft skin
        self._triangles = model.surface.triangles.astype(np.int64)
        clicked = self._click if "anatomy" in actor.parts else None
        self.soft = SkinNode(server, "/soft", self._triangles, self._drag, clicked)
        self.rig = SkinNode(server, "/rig", self._triangles)
        self.difference = SkinNode(server, "/difference", self._triangles)
        candidates = (
            ("plain", "held" in actor.parts, lambda: by_held(actor.held)),
            ("region", hasattr(model, "regions"), lambda: by_region(actor.model)),
            ("stiffness", hasattr(model, "embedding"), lambda: by_stiffness(actor.model)),
        )
        self._makers: dict[str, Callable[[], ColourBands]] = {
            name: make for name, available, make in candidates if available
        }
        if "anatomy" in actor.parts:
            self._makers |= {name: partial(self._by_anatomy, name) for name in ANATOMY_MAPS}
        self._bands: dict[str, ColourBands] = {}
        self.cubature = CubaturePoints(server, actor) if hasattr(model, "elastic_tets") else None
        self.tets = TetNode(server, actor) if hasattr(model, "tet_rig") else None
        self.obstacles = ObstacleNodes(server, session)
        self._appearance: AppearanceBands | None = None
        plain = "plain" if "plain" in self._makers else CLAY
        colourings = [OWN] if "appearance" in actor.parts else []
        colourings += [plain, "displacement"]
        colourings += ["pressure"] if "touch" in actor.parts else []
        colourings += [name for name in self._makers if name != plain]
        colourings += [] if self.cubature is None else ["cubature"]
        self.colourings = tuple(colourings)  # of the soft skin
        self.colouring = plain if clay else self.colourings[0]
        # Values of the last colour: displacement relative to the size, and pressure in Pa.
        self.full_displacement: float = actor.full_colour
        self.full_pressure = PRESSURE
        self._updates, self._stale = 0, True
        self._spacing = 1.15 * actor.width
        self.rig.offset, self.difference.offset = (-self._spacing, 0, 0), (self._spacing, 0, 0)
        self.rig.visible = self.difference.visible = False
        _place_camera(server, session.skin, model.surface.size)

    async def _drag(self, event: Any) -> None:  # asynchronous, so that events stay in order
        """Grip, pull and release the soft skin by viser's drag events."""
        session, hand, offset = self._session, event.client_id, self.soft.offset
        if event.phase == "end":
            session.release(hand)
            return
        if event.phase == "start":
            session.grip(hand, np.asarray(event.start_position) - offset)
        session.pull(hand, np.asarray(event.end_position) - offset)

    async def _click(self, event: Any) -> None:
        for listener in self.click_listeners:
            listener(event)

    def _by_anatomy(self, which: str) -> ColourBands:
        return by_anatomy(self._actor.anatomy.anatomy, which, self.chosen)

    def highlight(self, joints: tuple[str, ...]) -> None:
        """Highlight the regions of these joints in maps of the anatomy."""
        self.chosen = joints
        self.refresh_anatomy()

    def refresh_anatomy(self) -> None:
        """Update the maps of the anatomy after a change."""
        for name in ANATOMY_MAPS:
            self._bands.pop(name, None)
        self._stale = True

    def refresh_model(self) -> None:
        """Show another model of the same character."""
        self._bands.clear()
        self._stale = True
        if self.tets is not None and self.tets.visible:
            self.tets.show(False, self.soft.offset)
            self.tets.show(True, self.soft.offset)
        if self.cubature is not None:
            self.cubature.renew()
            self.cubature.show(self.colouring == "cubature")

    def recolour(self, colouring: str) -> None:
        """Set the colouring of the soft skin, one of `colourings`."""
        self.colouring, self._stale = colouring, True
        if self.cubature is not None:
            self.cubature.show(colouring == "cubature")

    def show(self, name: str, visible: bool) -> None:
        """Show or hide ``"soft"``, ``"rig"`` or ``"difference"``."""
        getattr(self, name).visible = visible
        self._stale = True

    def left_offset(self) -> float:
        """Return the x coordinate of free space to the left, in m."""
        return -(2 if self.rig.visible else 1) * self._spacing

    def show_tets(self, visible: bool) -> None:
        """Show or hide all tets."""
        if self.tets is not None:
            self.tets.show(visible, self.soft.offset)
        self._stale = True

    def update(self) -> None:
        """Send new positions and colours."""
        skin = self._session.skin
        seldom = self._stale or self._updates % SELDOM == 0
        compared = self.difference.visible or self.colouring == "displacement"
        rig = self._actor.undeformed() if self.rig.visible or (compared and seldom) else None
        bands = self._displacement(skin, rig) if compared and seldom and rig is not None else None
        with self._server.atomic():
            if self.rig.visible and rig is not None and self.colouring == OWN:
                self.rig.show_appearance(rig, self._appearance_bands())
            elif self.rig.visible and rig is not None:
                self.rig.show_plain(rig, rgb(BONE))
            if self.soft.visible:
                self._update_soft(skin, bands, seldom)
            if self.difference.visible:
                self.difference.update(skin, bands)
            if seldom:
                self._update_overlays()
            self.obstacles.update()
        self._updates += 1
        self._stale = False

    def _appearance_bands(self) -> AppearanceBands:
        if self._appearance is None:
            self._appearance = appearance_bands(self._actor.appearance, self._triangles)
        return self._appearance

    def _update_soft(self, skin: Singles, displacement: ColourBands | None, seldom: bool) -> None:
        if self.colouring == "displacement":
            self.soft.update(skin, displacement)
        elif self.colouring == "pressure":
            self.soft.update(skin, self._pressure() if seldom else None)
        elif self.colouring in (OWN, CLAY):
            lines = self.tets is not None and self.tets.visible
            if lines or self.colouring == CLAY:
                self.soft.show_plain(skin, FLESH, THROUGH if lines else None)
            else:
                self.soft.show_appearance(skin, self._appearance_bands())
        elif self.colouring == "cubature":
            self.soft.show_plain(skin, rgb(BONE), THROUGH)
        elif self._stale:
            if self.colouring not in self._bands:
                self._bands[self.colouring] = self._makers[self.colouring]()
            self.soft.update(skin, self._bands[self.colouring])
        else:
            self.soft.update(skin)

    def _pressure(self) -> ColourBands:
        pressure = self._actor.simulator.pressure()
        return by_pressure(pressure, self._triangles, self.full_pressure)

    def _update_overlays(self) -> None:
        if self.tets is not None:
            self.tets.update(self.soft.offset)
        if self.cubature is not None and self.colouring == "cubature":
            self.cubature.update(self.soft.offset)

    def _displacement(self, skin: Singles, rig: Singles) -> ColourBands:
        full = self.full_displacement * self._actor.model.surface.size
        return by_displacement(skin, rig, self._triangles, full)


def _place_camera(server: viser.ViserServer, skin: Singles, size: float) -> None:
    """Put the camera in front of a skin (n̄, 3) of this size, a little to the right and above."""
    centre = (skin.min(axis=0) + skin.max(axis=0)) / 2
    camera = server.initial_camera
    camera.look_at = centre.astype(np.float64)
    where = centre + 1.05 * size * np.array([0.45, 0.25, 1.0])
    camera.position = where.astype(np.float64)
    camera.near, camera.far = min(camera.near, 0.005 * size), max(camera.far, 50 * size)
    server.scene.configure_default_lights(cast_shadow=True)
