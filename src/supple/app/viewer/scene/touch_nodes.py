"""Nodes of contact: solid things, objects to be dragged, arrows of forces, unposed flesh."""

from __future__ import annotations

from typing import Any

import numpy as np
import viser

from supple.app.viewer.scene.colours import by_displacement
from supple.app.viewer.scene.scene_nodes import SkinNode
from supple.app.viewer.session.session import Session
from supple.arrays import Floats, Ints
from supple.dynamics.rigid_object import RigidObject
from supple.maths.rotations import from_matrix
from supple.mesh.obstacles import Obstacle, Plane
from supple.scenes.contact.props import collider_surface

#: Standard gravity, m/s².
STANDARD = 9.81
WALL, THING, ARROW = (176, 178, 184), (86, 128, 168), (200, 40, 40)
#: Opacity of things that were there from the beginning: one sees the skin press on them.
THROUGH = 0.5
#: Opacity of objects: arrows show what they press on.
GLASS = 0.7
#: Sizes of the body that an arrow is long for the body's own weight; many contacts share it.
LONG = 4.0
#: Lengths of the shortest and the longest arrow that is drawn, as parts of the size.
SHORT, LONGEST = 0.004, 0.3
#: Arrows at once, the strongest.
MOST_ARROWS = 120


def add_obstacles(server: viser.ViserServer, obstacles: tuple[Obstacle, ...], size: float) -> None:
    """Show obstacles where they are; planes as squares around the point that they were given by."""
    for number, each in enumerate(obstacles):
        if isinstance(each, Plane):
            corners, faces = _square(each, 1.5 * size)
        else:
            surface = collider_surface(each)
            if surface is None:
                continue
            corners, faces = surface.vertices, surface.triangles
        server.scene.add_mesh_simple(
            f"/obstacle/{number}",
            corners.astype(np.float32),
            faces.astype(np.uint32),
            color=WALL,
            opacity=THROUGH,
            side="double",
            flat_shading=True,
        )


def _square(plane: Plane, half: float) -> tuple[Floats, Ints]:
    normal = np.asarray(plane.normal)
    across = np.cross(normal, np.eye(3)[int(np.argmin(np.abs(normal)))])
    across /= np.linalg.norm(across)
    up = np.cross(normal, across)
    corners = [a * across + b * up for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1))]
    return np.asarray(plane.point) + half * np.array(corners), np.array([[0, 1, 2], [0, 2, 3]])


class ObjectNodes:
    """Balls and boxes; dragging leads one, and letting go throws it."""

    def __init__(self, server: viser.ViserServer, session: Session[Any]) -> None:
        self._server, self._session = server, session
        self._objects = session.subject.objects
        self._nodes: list[tuple[RigidObject, viser.MeshHandle]] = []
        self._seen = 0

    def update(self) -> None:
        """Put them where they are."""
        if self._seen != self._objects.changes:
            self._make()
        for each, node in self._nodes:
            place = self._objects.place(each)
            node.position, node.wxyz = tuple(place[:3, 3]), tuple(from_matrix(place[:3, :3]))

    def _make(self) -> None:
        for _, node in self._nodes:
            node.remove()
        self._nodes, self._seen = [], self._objects.changes
        for number, each in enumerate(self._objects.objects):
            surface = collider_surface(each.shape)
            assert surface is not None
            node = self._server.scene.add_mesh_simple(
                f"/object/{self._seen}/{number}",
                surface.vertices.astype(np.float32),
                surface.triangles.astype(np.uint32),
                color=THING,
                opacity=GLASS,
            )
            node.on_drag("left")(self._dragging(each))
            self._nodes.append((each, node))

    def _dragging(self, each: RigidObject) -> Any:
        session, objects = self._session, self._objects
        start: dict[int, Floats] = {}

        async def drag(event: Any) -> None:  # asynchronous, so that events stay in order
            if event.phase == "end":
                start.pop(event.client_id, None)
                session.ask(objects.release, each)
                return
            if event.phase == "start":
                beside = objects.place(each)[:3, 3] - np.asarray(event.start_position)
                start[event.client_id] = beside
                session.ask(session.subject.wake)
                session.ask(objects.hold, each)
            if event.client_id in start:
                where = np.asarray(event.end_position) + start[event.client_id]
                session.ask(objects.lead, each, where)

        return drag


class ForceArrows:
    """Arrows of the contact forces on the skin, from outside towards where they press."""

    def __init__(self, server: viser.ViserServer, session: Session[Any]) -> None:
        self._server, self._session = server, session
        self._node: Any = None
        self.seen = False
        model = session.subject.model
        self._size = model.surface.size
        self._scale = LONG * self._size / max(STANDARD * float(np.sum(model.masses)), 1e-9)
        """Metres of arrow for a newton."""

    def update(self) -> None:
        """Send the arrows of the last step."""
        if not self.seen:
            if self._node is not None:
                self._node.visible = False
            return
        subject = self._session.subject
        contacts = subject.simulator.contacts()
        lengths = self._scale * np.linalg.norm(contacts.forces, axis=1)
        chosen = np.argsort(-lengths)[:MOST_ARROWS]
        chosen = chosen[lengths[chosen] > SHORT * self._size]
        heads, lengths = contacts.places[chosen], lengths[chosen]
        shown = self._scale * np.minimum(1.0, LONGEST * self._size / lengths)
        tails = heads - shown[:, None] * contacts.forces[chosen]
        ends = subject.in_scene(np.stack([tails, heads], axis=1).reshape(-1, 3)).reshape(-1, 2, 3)
        if self._node is not None:
            self._node.remove()
            self._node = None
        if len(chosen):
            thick = 0.003 * self._size
            self._node = self._server.scene.add_arrows(
                "/forces",
                ends.astype(np.float32),
                ARROW,
                shaft_radius=thick,
                head_radius=2.5 * thick,
                head_length=5 * thick,
            )


class UnposedNode:
    """Flesh as it is displaced before bones move it: the skin at rest beside the character."""

    def __init__(self, server: viser.ViserServer, session: Session[Any], stage: Any) -> None:
        self._session, self._stage = session, stage
        model = session.subject.model
        self._triangles = model.surface.triangles.astype(np.int64)
        self._rest = np.asarray(model.surface.vertices)
        self._skin = SkinNode(server, "/unposed", self._triangles)
        self._skin.visible = False

    @property
    def seen(self) -> bool:
        """Visibility of the flesh."""
        return self._skin.visible

    @seen.setter
    def seen(self, seen: bool) -> None:
        self._skin.visible = seen
        self._skin.offset = (self._stage.left(), 0.0, 0.0)

    def update(self) -> None:
        """Send where it is."""
        if not self.seen:
            return
        subject = self._session.subject
        moved = (self._rest + subject.simulator.unposed()).astype(np.float32)
        full = self._stage.full * subject.model.surface.size
        rest = self._rest.astype(np.float32)
        self._skin.banded(moved, by_displacement(moved, rest, self._triangles, full))
