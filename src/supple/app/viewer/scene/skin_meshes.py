"""Skins in the scene: meshes whose vertices are sent again and again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import viser
from numpy.typing import NDArray

from supple.app.viewer.scene.colours import FLESH, Banding
from supple.arrays import Ints, Singles

__all__ = ["SkinNode"]

Colour = tuple[int, int, int]

#: What an empty band shows: nothing, with as few numbers as can be.
NO_FACE, NO_VERTEX = np.zeros((1, 3), np.uint32), np.zeros((1, 3), np.float32)


class SkinNode:
    """One skin in the scene, in one colour or in bands of colours.

    A mesh of the page has one colour, so that a banded skin is a mesh for each band. Sending new
    vertices costs what they weigh, 12 bytes each; new triangles are sent only when bands change.

    Parameters
    ----------
    server
        Whose scene.
    name
        Of the node.
    triangles
        (f, 3) of the skin.
    dragged
        Called with viser's drag events, in order; None for a skin that is only looked at.
    """

    def __init__(
        self,
        server: viser.ViserServer,
        name: str,
        triangles: Ints,
        dragged: Callable[[Any], Any] | None = None,
    ) -> None:
        self._server, self._name, self._dragged = server, name, dragged
        self._triangles = triangles
        self._frame = server.scene.add_frame(name, show_axes=False)
        self._meshes: list[viser.MeshHandle] = []
        self._used: list[Ints | None] = []
        self._key: tuple[Colour, ...] | None = None
        self._look: tuple[Colour, float | None] | None = None

    @property
    def offset(self) -> Any:
        """(3,) where it stands."""
        return np.asarray(self._frame.position)

    @offset.setter
    def offset(self, place: tuple[float, float, float]) -> None:
        self._frame.position = place

    @property
    def visible(self) -> bool:
        """Whether it is seen."""
        return bool(self._frame.visible)

    @visible.setter
    def visible(self, seen: bool) -> None:
        self._frame.visible = seen

    def plain(self, skin: Singles, colour: Colour = FLESH, opacity: float | None = None) -> None:
        """Show it in one colour."""
        if self._look != (colour, opacity):
            self._clear()
            self._add(skin, self._triangles.astype(np.uint32), colour, opacity)
            self._used, self._look = [None], (colour, opacity)
            return
        self.move(skin)

    def banded(self, skin: Singles, banding: Banding) -> None:
        """Show it in bands."""
        anew = self._key != banding.colours
        if anew:
            self._clear()
        parts = banding.parts(self._triangles, len(skin))
        for band, (used, faces) in enumerate(parts):
            if anew:
                self._add(self._some(skin, used), _or_none(faces), banding.colours[band], None)
                self._used.append(used)
                continue
            self._used[band] = used
            mesh = self._meshes[band]
            mesh.vertices, mesh.faces = self._some(skin, used), _or_none(faces)
        self._key = banding.colours

    def move(self, skin: Singles) -> None:
        """Send where the vertices are now."""
        for mesh, used in zip(self._meshes, self._used, strict=True):
            mesh.vertices = self._some(skin, used)

    @staticmethod
    def _some(skin: Singles, used: Ints | None) -> Singles:
        if used is None:
            return skin
        return skin[used] if len(used) else NO_VERTEX  # which is the same again: nothing is sent

    def _add(
        self,
        vertices: Singles,
        faces: NDArray[np.uint32],
        colour: Colour,
        opacity: float | None,
    ) -> None:
        mesh = self._server.scene.add_mesh_simple(
            f"{self._name}/{len(self._meshes)}",
            vertices,
            faces,
            color=colour,
            opacity=opacity,
            side="double",
        )
        if self._dragged is not None:
            mesh.on_drag("left")(self._dragged)
        self._meshes.append(mesh)

    def _clear(self) -> None:
        for mesh in self._meshes:
            mesh.remove()
        self._meshes, self._used, self._key, self._look = [], [], None, None


def _or_none(faces: NDArray[np.uint32]) -> NDArray[np.uint32]:
    return faces if len(faces) else NO_FACE
