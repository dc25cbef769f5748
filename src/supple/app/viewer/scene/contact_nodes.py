"""Nodes of contact: obstacles, draggable objects, force arrows, unposed flesh."""

from __future__ import annotations

from typing import Any

import numpy as np
import viser

from supple.app.viewer.scene.colours import by_displacement
from supple.app.viewer.scene.scene_nodes import SkinNode
from supple.app.viewer.scene.scene_view import SceneView
from supple.app.viewer.session.session import Session
from supple.arrays import Floats
from supple.dynamics.rigid_object import RigidObject
from supple.maths.rotations import from_matrix
from supple.playback.obstacles.recording import baked_colliders, place_of
from supple.rig.baked_obstacles import in_own_axes
from supple.scenes.contact.props import collider_surface

#: Standard gravity, m/s².
STANDARD = 9.81
WALL, OBJECT, ARROW = (176, 178, 184), (86, 128, 168), (200, 40, 40)
#: Opacity of fixed obstacles and of objects, so that the skin behind them is visible.
THROUGH, GLASS = 0.5, 0.7
#: Length of an arrow for the body's weight, relative to the size; contacts share the weight.
LONG = 4.0
#: Lengths of the shortest and the longest arrow, relative to the size.
SHORT, LONGEST = 0.004, 0.3
#: Most arrows; the strongest are drawn.
MOST_ARROWS = 120


class FixedObstacles:
    """Obstacles that are given with the character; planes are squares, those with a path move."""

    def __init__(self, server: viser.ViserServer, session: Session[Any]) -> None:
        self._actor = session.actor
        self.handles: list[viser.MeshHandle] = []
        self._moving: list[tuple[RigidObject, Floats, viser.MeshHandle]] = []
        fixed = self._actor.obstacles.fixed
        middle = session.skin.mean(axis=0).astype(np.float64)
        places = [place_of(each)[None] for each in fixed]
        for each, shown in zip(
            fixed, baked_colliders(fixed, places, len(fixed), middle), strict=True
        ):
            surface = shown.surface(1.5 * self._actor.model.surface.size)
            if surface is None:
                continue
            node = server.scene.add_mesh_simple(
                f"/obstacle/{shown.name}",
                surface.vertices.astype(np.float32),
                surface.triangles.astype(np.uint32),
                color=OBJECT if shown.kind == "object" else WALL,
                opacity=THROUGH,
                side="double",
                flat_shading=not shown.is_round,
            )
            _move(node, shown.place(0))
            self.handles.append(node)
            if isinstance(each, RigidObject) and each.path is not None:
                self._moving.append((each, in_own_axes(each.shape)[1], node))

    def update(self) -> None:
        """Send the places of obstacles that move."""
        for each, own, node in self._moving:
            assert each.path is not None
            _move(node, np.asarray(each.path(self._actor.player.time)) @ own)


def _move(node: viser.MeshHandle, place: Floats) -> None:
    node.position = tuple(place[:3, 3])
    node.wxyz = tuple(np.roll(from_matrix(place[:3, :3]), 1))


class ObjectNodes:
    """Rigid balls and boxes that can be dragged."""

    def __init__(self, server: viser.ViserServer, session: Session[Any]) -> None:
        self._server, self._session = server, session
        self._objects = session.actor.objects
        self._nodes: list[tuple[RigidObject, viser.MeshHandle]] = []
        self._revision = 0

    def update(self) -> None:
        """Send the places of the objects."""
        if self._revision != self._objects.revision:
            self._renew()
        for each, node in self._nodes:
            _move(node, self._objects.place(each))

    def _renew(self) -> None:
        for _, node in self._nodes:
            node.remove()
        self._nodes, self._revision = [], self._objects.revision
        for number, each in enumerate(self._objects.objects):
            surface = collider_surface(each.shape)
            assert surface is not None
            node = self._server.scene.add_mesh_simple(
                f"/object/{self._revision}/{number}",
                surface.vertices.astype(np.float32),
                surface.triangles.astype(np.uint32),
                color=OBJECT,
                opacity=GLASS,
            )
            node.on_drag("left")(self._dragging(each))
            self._nodes.append((each, node))

    def _dragging(self, each: RigidObject) -> Any:
        session, objects = self._session, self._objects
        offsets: dict[int, Floats] = {}

        async def drag(event: Any) -> None:  # asynchronous, so that events stay in order
            if event.phase == "end":
                offsets.pop(event.client_id, None)
                session.submit(objects.release, each)
                return
            if event.phase == "start":
                centre = objects.place(each)[:3, 3]
                offsets[event.client_id] = centre - np.asarray(event.start_position)
                session.submit(session.actor.wake)
                session.submit(objects.hold, each)
            if event.client_id in offsets:
                target = np.asarray(event.end_position) + offsets[event.client_id]
                session.submit(objects.drag, each, target)

        return drag


class ForceArrows:
    """Arrows of the contact forces on the skin; their heads are at the contacts."""

    def __init__(self, server: viser.ViserServer, session: Session[Any]) -> None:
        self._server, self._session = server, session
        self._node: Any = None
        self.visible = False
        model = session.actor.model
        self._size = model.surface.size
        weight = max(STANDARD * float(np.sum(model.masses)), 1e-9)
        self._scale = LONG * self._size / weight  # length of an arrow in m/N

    def update(self) -> None:
        """Send the arrows of the last step."""
        if not self.visible:
            if self._node is not None:
                self._node.visible = False
            return
        actor = self._session.actor
        contacts = actor.simulator.contacts()
        lengths = self._scale * np.linalg.norm(contacts.forces, axis=1)
        chosen = np.argsort(-lengths)[:MOST_ARROWS]
        chosen = chosen[lengths[chosen] > SHORT * self._size]
        heads, lengths = contacts.places[chosen], lengths[chosen]
        scales = self._scale * np.minimum(1.0, LONGEST * self._size / lengths)
        tails = heads - scales[:, None] * contacts.forces[chosen]
        ends = actor.in_scene(np.stack([tails, heads], axis=1).reshape(-1, 3)).reshape(-1, 2, 3)
        if self._node is not None:
            self._node.remove()
            self._node = None
        if len(chosen):
            radius = 0.003 * self._size
            self._node = self._server.scene.add_arrows(
                "/forces",
                ends.astype(np.float32),
                ARROW,
                shaft_radius=radius,
                head_radius=2.5 * radius,
                head_length=5 * radius,
            )


class UnposedNode:
    """Skin in the rest pose with the current deformation, beside the character."""

    def __init__(self, server: viser.ViserServer, session: Session[Any], scene: SceneView) -> None:
        self._session, self._scene = session, scene
        model = session.actor.model
        self._triangles = model.surface.triangles.astype(np.int64)
        self._rest = np.asarray(model.surface.vertices)
        self._skin = SkinNode(server, "/unposed", self._triangles)
        self._skin.visible = False

    @property
    def visible(self) -> bool:
        """Visibility of the skin."""
        return self._skin.visible

    @visible.setter
    def visible(self, visible: bool) -> None:
        self._skin.visible = visible
        self._skin.offset = (self._scene.left_offset(), 0.0, 0.0)

    def update(self) -> None:
        """Send positions and colours."""
        if not self.visible:
            return
        actor = self._session.actor
        unposed = (self._rest + actor.simulator.unposed()).astype(np.float32)
        full = self._scene.full_displacement * actor.model.surface.size
        rest = self._rest.astype(np.float32)
        self._skin.show_bands(unposed, by_displacement(unposed, rest, self._triangles, full))
