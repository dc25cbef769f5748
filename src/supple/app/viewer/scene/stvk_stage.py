"""An elastic body in the scene: what is held is grey, or colours tell how far it has moved."""

from __future__ import annotations

from typing import Literal

import numpy as np
import viser

from supple.app.viewer.scene.colours import BONE, FLESH, Banding, by_displacement
from supple.app.viewer.scene.overlays import ground_grid
from supple.app.viewer.scene.skin_meshes import SkinNode
from supple.app.viewer.scene.stage import dragging, look_at
from supple.app.viewer.sessions.stvk_session import StvkSession
from supple.engines.stvk.model import StvkModel

__all__ = ["BODY_COLOURINGS", "StvkStage", "held_bands"]

BodyColouring = Literal["plain", "displacement"]
BODY_COLOURINGS: tuple[BodyColouring, ...] = ("plain", "displacement")
#: Updates between two sortings of triangles into bands.
SELDOM = 4
#: Displacement of the last colour, of the size; and what moves less, of the loosest, is held.
FULL, HELD = 0.2, 1e-4


class StvkStage:
    """Keeps the scene; all its methods belong to the session's thread."""

    def __init__(self, server: viser.ViserServer, session: StvkSession) -> None:
        self._server, self._session = server, session
        surface = session.built.surface
        self._triangles = surface.triangles.astype(np.int64)
        self._rest = surface.vertices.astype(np.float32)
        self._held = held_bands(session.built)
        self.body = SkinNode(server, "/body", self._triangles, dragging(session, lambda: 0.0))
        self.colouring: BodyColouring = "plain"
        self._updates, self._anew = 0, True
        low, high = surface.bounds
        middle = (low + high) / 2
        ground_grid(server, surface.size, (float(middle[0]), float(low[1]), float(middle[2])))
        look_at(server, session.skin, surface.size)

    @property
    def holds(self) -> bool:
        """Whether anything of the body is held."""
        return bool(self._held.bands.any())

    def recolour(self, colouring: BodyColouring) -> None:
        """Colour the body by something else."""
        self.colouring, self._anew = colouring, True

    def update(self) -> None:
        """Send what has moved."""
        skin = self._session.skin
        with self._server.atomic():
            if self.colouring == "displacement" and (self._anew or self._updates % SELDOM == 0):
                full = FULL * self._session.built.surface.size
                self.body.banded(skin, by_displacement(skin, self._rest, self._triangles, full))
            elif self._anew:
                self.body.banded(skin, self._held)
            else:
                self.body.move(skin)
        self._updates += 1
        self._anew = False


def held_bands(model: StvkModel) -> Banding:
    """Triangles that cannot move, and the others."""
    reach = np.sqrt((model.surface_basis**2).sum(axis=(1, 2)))
    held = (reach <= HELD * reach.max())[model.surface.triangles].all(axis=1)
    return Banding(held.astype(np.int64), (FLESH, BONE))
