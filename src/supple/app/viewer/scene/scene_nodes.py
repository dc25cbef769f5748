"""Nodes of the scene: skins, cubature points, tets, ground and ball."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import viser
from numpy.typing import NDArray

from supple.app.pictures.drawing import ELASTIC, INERTIAL, Colour, rgb
from supple.app.viewer.scene.colours import FLESH, AppearanceBands, ColourBands
from supple.app.viewer.session.session import Session
from supple.arrays import Floats, Ints, Singles
from supple.mesh.obstacles import Box, Convex
from supple.mesh.shape_tables import shape_surface

#: Opacity of the ground.
SOLID = 0.9
#: Invisible face and vertex of an empty band.
NO_FACE, NO_VERTEX = np.zeros((1, 3), np.uint32), np.zeros((1, 3), np.float32)


class SkinNode:
    """Skin in the scene, in one colour or in bands of colours.

    A mesh of the page has one colour, so a banded skin has a mesh for each band. An update sends
    12 bytes per vertex; triangles (f, 3) are sent only when bands change. `dragged` and `clicked`
    are called with viser's events, in order.
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
        self._appearance: AppearanceBands | None = None

    @property
    def offset(self) -> Any:
        """Offset of the skin in the scene, (3,) in m."""
        return np.asarray(self._frame.position)

    @offset.setter
    def offset(self, place: tuple[float, float, float]) -> None:
        self._frame.position = place

    @property
    def visible(self) -> bool:
        """Visibility of the skin."""
        return bool(self._frame.visible)

    @visible.setter
    def visible(self, visible: bool) -> None:
        self._frame.visible = visible

    def show_plain(
        self, skin: Singles, colour: Colour = FLESH, opacity: float | None = None
    ) -> None:
        """Show the skin (n̄, 3) in one colour."""
        if self._look != (colour, opacity):
            self._clear()
            self._add(skin, self._triangles.astype(np.uint32), colour, opacity)
            self._used, self._look = [None], (colour, opacity)
            return
        self.update(skin)

    def show_bands(self, skin: Singles, bands: ColourBands) -> None:
        """Show the skin (n̄, 3) in bands of colours."""
        new = self._key != bands.colours
        if new:
            self._clear()
        parts = bands.parts(self._triangles, len(skin))
        for band, (used, faces) in enumerate(parts):
            if new:
                self._add(self._some(skin, used), _or_empty(faces), bands.colours[band], None)
                self._used.append(used)
                continue
            self._used[band] = used
            mesh = self._meshes[band]
            mesh.vertices, mesh.faces = self._some(skin, used), _or_empty(faces)
        self._key = bands.colours

    def show_appearance(self, skin: Singles, appearance: AppearanceBands) -> None:
        """Show the skin (n̄, 3) in the colours of the character's file."""
        if self._appearance is not appearance:
            self._clear()
            fine = appearance.subdivided(skin)
            for band in appearance.bands:
                self._add(fine[band.vertices], band.faces, band.colour, band.opacity)
                self._used.append(band.vertices)
            self._appearance = appearance
            return
        self.update(skin)

    def update(self, skin: Singles, bands: ColourBands | None = None) -> None:
        """Send new positions of the vertices, in new bands if they are given."""
        if bands is not None:
            self.show_bands(skin, bands)
            return
        if self._appearance is not None:
            skin = self._appearance.subdivided(skin)
        for mesh, used in zip(self._meshes, self._used, strict=True):
            mesh.vertices = self._some(skin, used)

    @staticmethod
    def _some(skin: Singles, used: Ints | None) -> Singles:
        if used is None:
            return skin
        return skin[used] if len(used) else NO_VERTEX  # viser does not send it again

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
        self._key = self._look = self._appearance = None


def _or_empty(faces: NDArray[np.uint32]) -> NDArray[np.uint32]:
    return faces if len(faces) else NO_FACE


class CubaturePoints:
    """Cubature points of a character's model: elastic tets red, inertial vertices blue.

    They follow the rig without flesh.
    """

    def __init__(self, server: viser.ViserServer, actor: Any) -> None:
        self._server, self._actor = server, actor
        self._clouds: list[viser.PointCloudHandle] = []
        self.renew()

    def renew(self) -> None:
        """Create the points of the current model."""
        for cloud in self._clouds:
            cloud.remove()
        server, model = self._server, self._actor.model
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
                ("elastic", len(self._tets), rgb(ELASTIC)),
                ("inertial", len(self._inertial), rgb(INERTIAL)),
            )
        ]

    def show(self, visible: bool) -> None:
        """Show or hide the cubature points."""
        for cloud in self._clouds:
            cloud.visible = visible

    def update(self, offset: Floats) -> None:
        """Send the positions at the current pose, moved by an offset (3,)."""
        placed = _placed_tets(self._actor, offset, self._vertices)
        self._clouds[0].points = placed[self._tets].mean(axis=1)
        self._clouds[1].points = placed[self._inertial]


class TetNode:
    """All tets of a character's model as lines; they follow the rig without flesh."""

    def __init__(self, server: viser.ViserServer, actor: Any) -> None:
        self._server, self._actor = server, actor
        self._mesh: viser.MeshHandle | None = None

    @property
    def visible(self) -> bool:
        """Visibility of the tets."""
        return self._mesh is not None

    def show(self, visible: bool, offset: Floats) -> None:
        """Show or hide the tets, moved by an offset (3,); hidden tets are not sent to pages."""
        if not visible:
            if self._mesh is not None:
                self._mesh.remove()
            self._mesh = None
            return
        if self._mesh is None:
            tets = self._actor.model.mesh.tets
            sides = np.concatenate([tets[:, [0, 1, 2]], tets[:, [1, 2, 3]]])
            self._mesh = self._server.scene.add_mesh_simple(
                "/tets",
                _placed_tets(self._actor, offset),
                sides.astype(np.uint32),
                color=(70, 74, 82),
                wireframe=True,
                opacity=0.35,
            )

    def update(self, offset: Floats) -> None:
        """Send the positions at the current pose, moved by an offset (3,)."""
        if self._mesh is not None:
            self._mesh.vertices = _placed_tets(self._actor, offset)


class ObstacleNodes:
    """Grid of the ground; the ball and its handle if the actor has obstacles."""

    _ball: viser.MeshHandle | None

    def __init__(self, server: viser.ViserServer, session: Session[Any]) -> None:
        actor = session.actor
        self._grid = _ground_grid(server, actor.model.surface.size, actor.ground)
        if "obstacles" not in actor.parts:
            self._ball = None
            return
        self._server, self._obstacles = server, actor.obstacles
        obstacles = self._obstacles
        self._ball, self._kind = self._new_ball(), obstacles.kind
        self._handle = server.scene.add_transform_controls(
            "/ball handle",
            scale=2.2 * obstacles.radius,
            position=tuple(obstacles.centre),
            visible=False,
        )

        @self._handle.on_update
        async def moved(event: Any) -> None:
            target = event.target
            session.submit(obstacles.move_ball, np.array(target.position), np.array(target.wxyz))

    def _new_ball(self) -> viser.MeshHandle:
        """Add a mesh of the ball's current shape."""
        obstacles = self._obstacles
        surface = shape_surface(obstacles.object.shape)
        return self._server.scene.add_mesh_simple(
            "/ball",
            surface.vertices.astype(np.float32),
            surface.triangles.astype(np.uint32),
            color=(86, 128, 168),
            flat_shading=isinstance(obstacles.object.shape, Box | Convex),
            position=tuple(obstacles.centre),
            wxyz=tuple(obstacles.quaternion),
            visible=False,
        )

    def show(self, ground: bool, ball: bool) -> None:
        """Show or hide ground and ball."""
        self._grid.plane_opacity = SOLID if ground else 0.0  # the lines stay visible
        if self._ball is None:
            return
        if self._kind != self._obstacles.kind:
            self._ball.remove()
            self._ball, self._kind = self._new_ball(), self._obstacles.kind
        self._ball.visible = self._handle.visible = ball

    def update(self) -> None:
        """Move the ball to its simulated place."""
        if self._ball is not None and self._ball.visible:
            self._ball.position = tuple(self._obstacles.centre)
            self._ball.wxyz = tuple(self._obstacles.quaternion)


def _ground_grid(
    server: viser.ViserServer, size: float, place: tuple[float, float, float]
) -> viser.GridHandle:
    """Add the grid of the ground around a point, for a body of this size."""
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


def _placed_tets(actor: Any, offset: Floats, vertices: Ints | None = None) -> Singles:
    """Return world positions (k, 3) of tet vertices, all by default, by the rig and an offset."""
    rotation, shift = actor.root[:3, :3], actor.root[:3, 3]
    points = actor.model.tet_rig(actor.pose, vertices)
    return (points @ rotation.T + shift + offset).astype(np.float32)
