"""What is shown on demand: cubature points, tets, ground and ball."""

from __future__ import annotations

from typing import Any

import numpy as np
import viser

from supple.app.viewer.sessions.session import Session
from supple.arrays import Floats, Singles
from supple.engines.pose_space.model.model import PoseSpaceModel

__all__ = ["CubaturePoints", "ObstacleNodes", "TetNode", "ground_grid"]


SOLID = 0.9
ELASTIC, INERTIAL = (200, 68, 60), (47, 111, 176)


class CubaturePoints:
    """Where forces are evaluated: elastic tets red, inertial vertices blue, at the rig's places."""

    def __init__(self, server: viser.ViserServer, model: PoseSpaceModel) -> None:
        self._model = model
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
        """Or not."""
        for cloud in self._clouds:
            cloud.visible = seen

    def move(self, session: Session, offset: Floats) -> None:
        """To the session's pose."""
        placed = _in_world(self._model.tet_rig(session.pose, self._vertices), session.root, offset)
        self._clouds[0].points = placed[self._tets].mean(axis=1)
        self._clouds[1].points = placed[self._inertial]


class TetNode:
    """All tets as lines, where the rig has them."""

    def __init__(self, server: viser.ViserServer, model: PoseSpaceModel) -> None:
        self._server, self._model = server, model
        self._mesh: viser.MeshHandle | None = None

    @property
    def seen(self) -> bool:
        """Whether they are shown."""
        return self._mesh is not None

    def show(self, seen: bool, session: Session, offset: Floats) -> None:
        """Or not; a page gets them only when they are asked for."""
        if not seen:
            if self._mesh is not None:
                self._mesh.remove()
            self._mesh = None
            return
        if self._mesh is None:
            sides = np.concatenate(
                [self._model.mesh.tets[:, [0, 1, 2]], self._model.mesh.tets[:, [1, 2, 3]]]
            )
            self._mesh = self._server.scene.add_mesh_simple(
                "/tets",
                self._placed(session, offset),
                sides.astype(np.uint32),
                color=(70, 74, 82),
                wireframe=True,
                opacity=0.35,
            )

    def move(self, session: Session, offset: Floats) -> None:
        """To the session's pose."""
        if self._mesh is not None:
            self._mesh.vertices = self._placed(session, offset)

    def _placed(self, session: Session, offset: Floats) -> Singles:
        return _in_world(self._model.tet_rig(session.pose), session.root, offset)


class ObstacleNodes:
    """The ground and the ball; the ball has a handle to move it with."""

    def __init__(self, server: viser.ViserServer, session: Session) -> None:
        self._surroundings = session.surroundings
        size = session.model.surface.size
        self._grid = ground_grid(server, size, (0.0, session.surroundings.height, 0.0))
        centre = tuple(session.surroundings.centre)
        self._ball = server.scene.add_icosphere(
            "/ball", radius=session.surroundings.radius, color=(86, 128, 168), position=centre
        )
        self._ball.visible = False
        self._handle = server.scene.add_transform_controls(
            "/ball handle",
            scale=2.2 * session.surroundings.radius,
            disable_rotations=True,
            position=centre,
            visible=False,
        )

        @self._handle.on_update
        async def moved(event: Any) -> None:
            where = np.array(event.target.position)
            session.ask(lambda: session.surroundings.move_ball(where))

    def show(self, ground: bool, ball: bool) -> None:
        """What is there."""
        self._grid.plane_opacity = SOLID if ground else 0.0  # its lines show where it would be
        self._ball.visible = self._handle.visible = ball

    def move(self) -> None:
        """The ball is where the flesh feels it."""
        if self._ball.visible:
            self._ball.position = tuple(self._surroundings.centre)


def ground_grid(
    server: viser.ViserServer, size: float, place: tuple[float, float, float]
) -> viser.GridHandle:
    """Lines around a place, for a body of this size to stand on."""
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


def _in_world(points: Floats, root: Floats, offset: Floats) -> Singles:
    return (points @ root[:3, :3].T + root[:3, 3] + offset).astype(np.float32)
