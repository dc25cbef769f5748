"""Nodes of the scene: skins, and what is shown on demand: cubature points, tets, ground, ball."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import viser
from numpy.typing import NDArray

from supple.app.viewer.scene.colours import FLESH, Banding, Colour
from supple.app.viewer.scene.own_colours import OwnColours
from supple.app.viewer.session.session import Session
from supple.arrays import Floats, Ints, Singles
from supple.mesh.polyhedra import Box, Convex
from supple.mesh.shape_surface import shape_surface

#: Opacity of the ground, and colours of cubature points.
SOLID = 0.9
ELASTIC, INERTIAL = (200, 68, 60), (47, 111, 176)
#: Face and vertex of an empty band: nothing is seen of them.
NO_FACE, NO_VERTEX = np.zeros((1, 3), np.uint32), np.zeros((1, 3), np.float32)


class SkinNode:
    """Skin in the scene, in one colour or in bands of colours.

    A mesh of the page has one colour, so that a banded skin is a mesh for each band. Sending new
    vertices costs what they weigh, 12 bytes each; new triangles are sent only when bands change.

    Parameters
    ----------
    server
        Of the scene.
    name
        Of the node.
    triangles
        (f, 3) of the skin.
    dragged
        Called with viser's drag events, in order; None for a skin that is only looked at.
    clicked
        Called with viser's click events, or None.
    """

    def __init__(
        self,
        server: viser.ViserServer,
        name: str,
        triangles: Ints,
        dragged: Callable[[Any], Any] | None = None,
        clicked: Callable[[Any], Any] | None = None,
    ) -> None:
        self._server, self._name = server, name
        self._dragged, self._clicked = dragged, clicked
        self._triangles = triangles
        self._frame = server.scene.add_frame(name, show_axes=False)
        self._meshes: list[viser.MeshHandle] = []
        self._used: list[Ints | None] = []
        self._key: tuple[Colour, ...] | None = None
        self._look: tuple[Colour, float | None] | None = None
        self._own: OwnColours | None = None

    @property
    def offset(self) -> Any:
        """Place where it stands, (3,)."""
        return np.asarray(self._frame.position)

    @offset.setter
    def offset(self, place: tuple[float, float, float]) -> None:
        self._frame.position = place

    @property
    def visible(self) -> bool:
        """Visibility of the skin."""
        return bool(self._frame.visible)

    @visible.setter
    def visible(self, seen: bool) -> None:
        self._frame.visible = seen

    def plain(self, skin: Singles, colour: Colour = FLESH, opacity: float | None = None) -> None:
        """Show the skin (n̄, 3) in one colour."""
        if self._look != (colour, opacity):
            self._clear()
            self._add(skin, self._triangles.astype(np.uint32), colour, opacity)
            self._used, self._look = [None], (colour, opacity)
            return
        self.move(skin)

    def banded(self, skin: Singles, banding: Banding) -> None:
        """Show the skin (n̄, 3) in bands of colours."""
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

    def own(self, skin: Singles, colours: OwnColours) -> None:
        """Show the skin (n̄, 3) in its own colours."""
        if self._own is not colours:
            self._clear()
            fine = colours.placed(skin)
            for band in colours.bands:
                self._add(fine[band.vertices], band.faces, band.colour, band.opacity)
                self._used.append(band.vertices)
            self._own = colours
            return
        self.move(skin)

    def move(self, skin: Singles) -> None:
        """Send where the vertices are now."""
        if self._own is not None:
            skin = self._own.placed(skin)
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
        if self._clicked is not None:
            mesh.on_click(self._clicked)
        self._meshes.append(mesh)

    def _clear(self) -> None:
        for mesh in self._meshes:
            mesh.remove()
        self._meshes, self._used = [], []
        self._key = self._look = self._own = None


def _or_none(faces: NDArray[np.uint32]) -> NDArray[np.uint32]:
    return faces if len(faces) else NO_FACE


class CubaturePoints:
    """Points at which forces are evaluated: elastic tets red, inertial vertices blue.

    They are where the rig has them; the character's model must have tets and cubature.
    """

    def __init__(self, server: viser.ViserServer, subject: Any) -> None:
        self._server, self._subject = server, subject
        self._clouds: list[viser.PointCloudHandle] = []
        self.renew()

    def renew(self) -> None:
        """Make the points of the model that there is now."""
        for cloud in self._clouds:
            cloud.remove()
        server, model = self._server, self._subject.model
        tets = model.mesh.tets[model.elastic_tets]
        self._vertices, numbers = np.unique(
            np.concatenate([tets.ravel(), model.inertial_vertices]), return_inverse=True
        )
        self._tets = numbers[: tets.size].reshape(tets.shape)
        self._inertial = numbers[tets.size :]
        size = 0.008 * model.surface.size
        self._clouds = [
            server.scene.add_point_cloud(
                f"/cubature/{name}",
                np.zeros((count, 3), np.float32),
                colour,
                point_size=size,
                point_shape="circle",
                precision="float32",
                visible=False,
            )
            for name, count, colour in (
                ("elastic", len(self._tets), ELASTIC),
                ("inertial", len(self._inertial), INERTIAL),
            )
        ]

    def show(self, seen: bool) -> None:
        """Show them, or hide them."""
        for cloud in self._clouds:
            cloud.visible = seen

    def move(self, offset: Floats) -> None:
        """Send where they are at the pose now, moved by an offset (3,)."""
        placed = _placed_tets(self._subject, offset, self._vertices)
        self._clouds[0].points = placed[self._tets].mean(axis=1)
        self._clouds[1].points = placed[self._inertial]


class TetNode:
    """All tets of a character's model as lines, where the rig has them."""

    def __init__(self, server: viser.ViserServer, subject: Any) -> None:
        self._server, self._subject = server, subject
        self._mesh: viser.MeshHandle | None = None

    @property
    def seen(self) -> bool:
        """Visibility of the tets."""
        return self._mesh is not None

    def show(self, seen: bool, offset: Floats) -> None:
        """Show them, or not; a page gets them only when they are asked for."""
        if not seen:
            if self._mesh is not None:
                self._mesh.remove()
            self._mesh = None
            return
        if self._mesh is None:
            tets = self._subject.model.mesh.tets
            sides = np.concatenate([tets[:, [0, 1, 2]], tets[:, [1, 2, 3]]])
            self._mesh = self._server.scene.add_mesh_simple(
                "/tets",
                _placed_tets(self._subject, offset),
                sides.astype(np.uint32),
                color=(70, 74, 82),
                wireframe=True,
                opacity=0.35,
            )

    def move(self, offset: Floats) -> None:
        """Send where they are at the pose now, moved by an offset (3,)."""
        if self._mesh is not None:
            self._mesh.vertices = _placed_tets(self._subject, offset)


class ObstacleNodes:
    """Ground, and the ball with a handle to move it where the subject has obstacles."""

    _ball: viser.MeshHandle | None

    def __init__(self, server: viser.ViserServer, session: Session[Any]) -> None:
        subject = session.subject
        self._grid = _ground_grid(server, subject.model.surface.size, subject.ground)
        if "obstacles" not in subject.parts:
            self._ball = None
            return
        self._server, self._obstacles = server, subject.obstacles
        around = self._obstacles
        self._ball, self._kind = self._drawn(), around.kind
        self._handle = server.scene.add_transform_controls(
            "/ball handle",
            scale=2.2 * around.radius,
            position=tuple(around.centre),
            visible=False,
        )

        @self._handle.on_update
        async def moved(event: Any) -> None:
            target = event.target
            session.ask(around.move_ball, np.array(target.position), np.array(target.wxyz))

    def _drawn(self) -> viser.MeshHandle:
        """Draw the thing that is moved, in place of the one before."""
        around = self._obstacles
        surface = shape_surface(around.thing.shape)
        return self._server.scene.add_mesh_simple(
            "/ball",
            surface.vertices.astype(np.float32),
            surface.triangles.astype(np.uint32),
            color=(86, 128, 168),
            flat_shading=isinstance(around.thing.shape, Box | Convex),
            position=tuple(around.centre),
            wxyz=tuple(around.turn),
            visible=False,
        )

    def show(self, ground: bool, ball: bool) -> None:
        """Show what is there."""
        self._grid.plane_opacity = SOLID if ground else 0.0  # its lines show where it would be
        if self._ball is None:
            return
        if self._kind != self._obstacles.kind:
            self._ball.remove()
            self._ball, self._kind = self._drawn(), self._obstacles.kind
        self._ball.visible = self._handle.visible = ball

    def move(self) -> None:
        """Put the ball where the flesh feels it."""
        if self._ball is not None and self._ball.visible:
            self._ball.position = tuple(self._obstacles.centre)
            self._ball.wxyz = tuple(self._obstacles.turn)


def _ground_grid(
    server: viser.ViserServer, size: float, place: tuple[float, float, float]
) -> viser.GridHandle:
    """Add lines around a place, for a body of this size to stand on."""
    return server.scene.add_grid(
        "/ground",
        width=4 * size,
        height=4 * size,
        plane="xz",
        cell_size=size / 8,
        section_size=size / 2,
        cell_color=(228, 228, 226),
        section_color=(206, 206, 203),
        plane_color=(236, 234, 229),
        plane_opacity=0.0,
        shadow_opacity=0.25,
        position=place,
    )


def _placed_tets(subject: Any, offset: Floats, vertices: Ints | None = None) -> Singles:
    """Return where the rig has vertices of the tets, all by default, in the world."""
    turn, shift = subject.root[:3, :3], subject.root[:3, 3]
    points = subject.model.tet_rig(subject.pose, vertices)
    return (points @ turn.T + shift + offset).astype(np.float32)
