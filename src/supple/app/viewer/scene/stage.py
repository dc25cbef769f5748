"""What stands in the scene: rig, soft and difference side by side, coloured as asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import viser
from numpy.typing import NDArray

from supple.app.viewer.requests import BodyRequests
from supple.app.viewer.scene.colours import (
    BONE,
    FLESH,
    Banding,
    by_displacement,
    by_region,
    by_stiffness,
)
from supple.app.viewer.scene.overlays import CubaturePoints, ObstacleNodes, TetNode
from supple.app.viewer.scene.skin_meshes import SkinNode
from supple.app.viewer.sessions.session import Session
from supple.arrays import Singles

__all__ = ["COLOURINGS", "Stage", "dragging", "look_at"]


# ----------------------------------------------------------------------------
# What a pointer on the skin does: it takes hold, pulls and lets go.


def dragging(session: BodyRequests, offset: Callable[[], Any]) -> Callable[[Any], Any]:
    """What to call with viser's drag events of a skin that stands at `offset`."""

    async def dragged(event: Any) -> None:  # asynchronous, so that events stay in order
        hand = event.client_id
        if event.phase == "end":
            session.release(hand)
            return
        if event.phase == "start":
            session.take(hand, np.asarray(event.start_position) - offset())
        session.pull(hand, np.asarray(event.end_position) - offset())

    return dragged


# ----------------------------------------------------------------------------
# Where a page looks from when it opens.


def look_at(server: viser.ViserServer, skin: NDArray[np.float32], size: float) -> None:
    """See a skin (n̄, 3) of this size whole, from the front, a little from the right and above."""
    centre = (skin.min(axis=0) + skin.max(axis=0)) / 2
    camera = server.initial_camera
    camera.look_at = centre.astype(np.float64)
    where = centre + 1.05 * size * np.array([0.45, 0.25, 1.0])
    camera.position = where.astype(np.float64)
    camera.near, camera.far = min(camera.near, 0.005 * size), max(camera.far, 50 * size)
    server.scene.configure_default_lights(cast_shadow=True)


Colouring = Literal["flesh", "displacement", "region", "stiffness", "cubature"]


COLOURINGS: tuple[Colouring, ...] = ("flesh", "displacement", "region", "stiffness", "cubature")


#: Updates between two sortings of triangles into bands, and between moves of what is extra.
SELDOM = 4


#: Opacity of skin that points show through, and displacement of the last colour, of the size.
THROUGH, FULL = 0.3, 0.02


class Stage:
    """Keeps the scene as it is asked for; all its methods belong to the session's thread."""

    def __init__(self, server: viser.ViserServer, session: Session) -> None:
        self._server, self._session = server, session
        model = session.model
        triangles = model.surface.triangles.astype(np.int64)
        self._triangles = triangles
        self.soft = SkinNode(
            server, "/soft", triangles, dragging(session, lambda: self.soft.offset)
        )
        self.rig = SkinNode(server, "/rig", triangles)
        self.difference = SkinNode(server, "/difference", triangles)
        self.cubature = CubaturePoints(server, model)
        self.tets = TetNode(server, model)
        self.obstacles = ObstacleNodes(server, session)
        self.colouring: Colouring = "flesh"
        self.full = FULL
        self._made: dict[str, Callable[[], Banding]] = {
            "region": lambda: by_region(model),
            "stiffness": lambda: by_stiffness(model),
        }
        self._fixed: dict[str, Banding] = {}
        self._updates = 0
        self._anew = True
        self._stand_apart()
        self.rig.visible = self.difference.visible = False
        look_at(server, session.skin, model.surface.size)

    def recolour(self, colouring: Colouring) -> None:
        """Colour the soft skin by something else."""
        self.colouring, self._anew = colouring, True
        self.cubature.show(colouring == "cubature")

    def show(self, rig: bool, soft: bool, difference: bool) -> None:
        """What is seen."""
        self.rig.visible, self.soft.visible, self.difference.visible = rig, soft, difference
        self._anew = True

    def show_tets(self, seen: bool) -> None:
        """Or not."""
        self.tets.show(seen, self._session, self.soft.offset)
        self._anew = True

    def update(self) -> None:
        """Send what has moved."""
        session, skin = self._session, self._session.skin
        seldom = self._anew or self._updates % SELDOM == 0
        compared = self.difference.visible or self.colouring == "displacement"
        rig = session.rig_skin() if self.rig.visible or (compared and seldom) else None
        apart = self._apart(skin, rig) if compared and seldom and rig is not None else None
        with self._server.atomic():
            if self.rig.visible and rig is not None:
                self.rig.plain(rig, BONE)
            if self.soft.visible:
                self._update_soft(skin, apart)
            if self.difference.visible:
                _update_bands(self.difference, skin, apart)
            if seldom:
                self.tets.move(session, self.soft.offset)
                if self.colouring == "cubature":
                    self.cubature.move(session, self.soft.offset)
            self.obstacles.move()
        self._updates += 1
        self._anew = False

    def _update_soft(self, skin: Singles, apart: Banding | None) -> None:
        if self.colouring == "displacement":
            _update_bands(self.soft, skin, apart)
        elif self.colouring == "flesh":
            self.soft.plain(skin, FLESH, THROUGH if self.tets.seen else None)
        elif self.colouring == "cubature":
            self.soft.plain(skin, BONE, THROUGH)
        elif self._anew:
            if self.colouring not in self._fixed:
                self._fixed[self.colouring] = self._made[self.colouring]()
            self.soft.banded(skin, self._fixed[self.colouring])
        else:
            self.soft.move(skin)

    def _apart(self, skin: Singles, rig: Singles) -> Banding:
        full = self.full * self._session.model.surface.size
        return by_displacement(skin, rig, self._triangles, full)

    def _stand_apart(self) -> None:
        """Rig to the left, difference to the right, as wide as the skin is in its motion."""
        poses = self._session.motion.poses
        poses = poses[:: max(1, len(poses) // 8)]
        wide = max(float(np.ptp(self._session.model.rig(pose)[:, 0])) for pose in poses)
        apart = 1.15 * wide
        self.rig.offset, self.difference.offset = (-apart, 0.0, 0.0), (apart, 0.0, 0.0)


def _update_bands(node: SkinNode, skin: Singles, banding: Banding | None) -> None:
    """In new bands, or where there are none in those it has."""
    if banding is None:
        node.move(skin)
    else:
        node.banded(skin, banding)
