"""Stage of a page: soft skin, rig and difference side by side, coloured as asked."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import viser

from supple.app.pictures.anatomy_colours import ANATOMY_MAPS
from supple.app.viewer.scene.colours import (
    BONE,
    FLESH,
    Banding,
    by_anatomy,
    by_displacement,
    by_held,
    by_pressure,
    by_region,
    by_stiffness,
)
from supple.app.viewer.scene.own_colours import OwnColours, own_colours
from supple.app.viewer.scene.scene_nodes import CubaturePoints, ObstacleNodes, SkinNode, TetNode
from supple.app.viewer.session.session import Session
from supple.arrays import Singles

#: Updates between two sortings of triangles into bands, and between moves of overlays.
SELDOM = 4
#: Colourings of a character: as its file has it, and all alike.
OWN, CLAY = "own colours", "clay"
#: Opacity of skin that points show through.
THROUGH = 0.3
#: Pressure in Pa of the last colour, at first.
PRESSURE = 2e4


class Stage:
    """Scene of a page, kept as it is asked for.

    All its methods belong to the session's thread. A skin can be coloured by whatever the subject
    and its model have; the rig and the difference stand to the left and right, unseen at first.

    Attributes
    ----------
    colourings, colouring
        Names of what the soft skin can be coloured by, and is: at first its own colours, where
        it has any.
    full
        Displacement of the last colour, as a part of the size.
    full_pressure
        Pressure of the last colour, in Pa.
    chosen
        Joints whose regions stand out in maps of the anatomy.
    clicked
        Called with viser's events of clicks on the soft skin.
    soft, rig, difference, tets, obstacles
        Nodes; `tets` is None for models that have none.
    """

    def __init__(
        self, server: viser.ViserServer, session: Session[Any], *, clay: bool = False
    ) -> None:
        self._server, self._session = server, session
        subject = self._subject = session.subject
        model = subject.model
        self.chosen: tuple[str, ...] = ()
        self.clicked: list[Callable[[Any], None]] = []
        self._triangles = model.surface.triangles.astype(np.int64)
        clicked = self._click if "anatomy" in subject.parts else None
        self.soft = SkinNode(server, "/soft", self._triangles, self._drag, clicked)
        self.rig = SkinNode(server, "/rig", self._triangles)
        self.difference = SkinNode(server, "/difference", self._triangles)
        self._bands: dict[str, Callable[[], Banding]] = {
            name: make
            for name, there, make in (
                ("plain", "held" in subject.parts, lambda: by_held(subject.held)),
                ("region", hasattr(model, "regions"), lambda: by_region(subject.model)),
                ("stiffness", hasattr(model, "embedding"), lambda: by_stiffness(subject.model)),
            )
            if there
        }
        if "anatomy" in subject.parts:
            self._bands |= {name: partial(self._by_anatomy, name) for name in ANATOMY_MAPS}
        self._made: dict[str, Banding] = {}
        self.cubature = CubaturePoints(server, subject) if hasattr(model, "elastic_tets") else None
        self.tets = TetNode(server, subject) if hasattr(model, "tet_rig") else None
        self.obstacles = ObstacleNodes(server, session)
        self._own: OwnColours | None = None
        own = [OWN] if "appearance" in subject.parts else []
        plain = "plain" if "plain" in self._bands else CLAY
        others = [name for name in self._bands if name != plain]
        points = [] if self.cubature is None else ["cubature"]
        felt = ["pressure"] if "touch" in subject.parts else []
        self.colourings: tuple[str, ...] = (*own, plain, "displacement", *felt, *others, *points)
        self.colouring = plain if clay else self.colourings[0]
        self.full: float = subject.full_colour
        self.full_pressure = PRESSURE
        self._updates, self._anew = 0, True
        self._apart_by = apart = 1.15 * subject.width
        self.rig.offset, self.difference.offset = (-apart, 0.0, 0.0), (apart, 0.0, 0.0)
        self.rig.visible = self.difference.visible = False
        _place_camera(server, session.skin, model.surface.size)

    async def _drag(self, event: Any) -> None:  # asynchronous, so that events stay in order
        """Take hold of the soft skin, pull and let go, as viser's drag events say."""
        session, hand, offset = self._session, event.client_id, self.soft.offset
        if event.phase == "end":
            session.release(hand)
            return
        if event.phase == "start":
            session.take(hand, np.asarray(event.start_position) - offset)
        session.pull(hand, np.asarray(event.end_position) - offset)

    async def _click(self, event: Any) -> None:
        """Tell whoever listens that the soft skin was clicked."""
        for listener in self.clicked:
            listener(event)

    def _by_anatomy(self, which: str) -> Banding:
        return by_anatomy(self._subject.anatomy.anatomy, which, self.chosen)

    def choose(self, joints: tuple[str, ...]) -> None:
        """Let the regions of these joints stand out in maps of the anatomy."""
        self.chosen = joints
        self.forget()

    def forget(self) -> None:
        """Make maps of the anatomy anew: it has changed."""
        for name in ANATOMY_MAPS:
            self._made.pop(name, None)
        self._anew = True

    def adopt(self) -> None:
        """Show what another model of the same character has."""
        self._made.clear()
        self._anew = True
        if self.tets is not None and self.tets.seen:
            self.tets.show(False, self.soft.offset)
            self.tets.show(True, self.soft.offset)
        if self.cubature is not None:
            self.cubature.renew()
            self.cubature.show(self.colouring == "cubature")

    def recolour(self, colouring: str) -> None:
        """Colour the soft skin by one of `colourings`."""
        self.colouring, self._anew = colouring, True
        if self.cubature is not None:
            self.cubature.show(colouring == "cubature")

    def show(self, rig: bool, soft: bool, difference: bool) -> None:
        """Show the skins that are wanted, and hide the others."""
        self.rig.visible, self.soft.visible, self.difference.visible = rig, soft, difference
        self._anew = True

    def left(self) -> float:
        """Return where there is room to the left, in m."""
        return -(2 if self.rig.visible else 1) * self._apart_by

    def show_tets(self, seen: bool) -> None:
        """Show all tets, or hide them."""
        if self.tets is not None:
            self.tets.show(seen, self.soft.offset)
        self._anew = True

    def update(self) -> None:
        """Send what has moved."""
        skin = self._session.skin
        seldom = self._anew or self._updates % SELDOM == 0
        compared = self.difference.visible or self.colouring == "displacement"
        wanted = self.rig.visible or (compared and seldom)
        rig = self._subject.undeformed() if wanted else None
        apart = self._apart(skin, rig) if compared and seldom and rig is not None else None
        with self._server.atomic():
            if self.rig.visible and rig is not None:
                self._update_rig(rig)
            if self.soft.visible:
                self._update_soft(skin, apart)
            if self.difference.visible:
                _update_bands(self.difference, skin, apart)
            if seldom:
                self._move_overlays()
            self.obstacles.move()
        self._updates += 1
        self._anew = False

    def _update_rig(self, rig: Singles) -> None:
        if self.colouring == OWN:
            self.rig.own(rig, self._own_colours())
        else:
            self.rig.plain(rig, BONE)

    def _own_colours(self) -> OwnColours:
        if self._own is None:
            self._own = own_colours(self._subject.appearance, self._triangles)
        return self._own

    def _update_soft(self, skin: Singles, apart: Banding | None) -> None:
        if self.colouring == "displacement":
            _update_bands(self.soft, skin, apart)
        elif self.colouring == "pressure":
            seldom = self._anew or self._updates % SELDOM == 0
            _update_bands(self.soft, skin, self._pressed() if seldom else None)
        elif self.colouring in (OWN, CLAY):
            lines = self.tets is not None and self.tets.seen
            if lines or self.colouring == CLAY:
                self.soft.plain(skin, FLESH, THROUGH if lines else None)
            else:
                self.soft.own(skin, self._own_colours())
        elif self.colouring == "cubature":
            self.soft.plain(skin, BONE, THROUGH)
        elif self._anew:
            if self.colouring not in self._made:
                self._made[self.colouring] = self._bands[self.colouring]()
            self.soft.banded(skin, self._made[self.colouring])
        else:
            self.soft.move(skin)

    def _pressed(self) -> Banding:
        pressure = self._subject.simulator.pressure()
        return by_pressure(pressure, self._triangles, self.full_pressure)

    def _move_overlays(self) -> None:
        if self.tets is not None:
            self.tets.move(self.soft.offset)
        if self.cubature is not None and self.colouring == "cubature":
            self.cubature.move(self.soft.offset)

    def _apart(self, skin: Singles, rig: Singles) -> Banding:
        full = self.full * self._subject.model.surface.size
        return by_displacement(skin, rig, self._triangles, full)


def _update_bands(node: SkinNode, skin: Singles, banding: Banding | None) -> None:
    """Show a skin in new bands, or where there are none in those it has."""
    if banding is None:
        node.move(skin)
    else:
        node.banded(skin, banding)


def _place_camera(server: viser.ViserServer, skin: Singles, size: float) -> None:
    """Put the camera before a skin (n̄, 3) of this size, a little to the right and above."""
    centre = (skin.min(axis=0) + skin.max(axis=0)) / 2
    camera = server.initial_camera
    camera.look_at = centre.astype(np.float64)
    where = centre + 1.05 * size * np.array([0.45, 0.25, 1.0])
    camera.position = where.astype(np.float64)
    camera.near, camera.far = min(camera.near, 0.005 * size), max(camera.far, 50 * size)
    server.scene.configure_default_lights(cast_shadow=True)
