"""Forces and obstacles on the skin, acting on the free parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from supple.arrays import Floats, Ints
from supple.dynamics.friction import friction_weights
from supple.dynamics.rigid_object import RigidObject
from supple.engines.common.contact.colliders import checked_distances
from supple.engines.rig_space.model import RigSpaceModel
from supple.mesh.obstacles import Obstacle
from supple.rig.jacobian import Jacobian, rig_jacobian
from supple.rig.placement.placement import placement

#: Stiffness of obstacles per metre of depth, relative to that of flesh per body size.
HARDNESS = 30.0
#: Largest number of skin vertices in contact with an obstacle: the deepest.
MOST_TOUCHED = 256


class FrictionStart(NamedTuple):
    """Coefficient of friction, length of the step in s, and pose and root at its start."""

    friction: float
    span: float
    pose: Floats
    root: Floats


class SkinContact:
    """Contact energy ½ ΔpᵀAΔp − bᵀΔp in J of changes Δp of the parameters from their guess.

    `matrix` is A (k, k) and `pull` is b (k,); `turn` (3, 3) is the rotation of the root.
    """

    def __init__(self, count: int, turn: Floats) -> None:
        self.matrix, self.pull, self._turn = np.zeros((count, count)), np.zeros(count), turn
        self._force, self._slope, self._count = np.zeros(3), np.zeros((3, count)), 0

    def add_contact(self, rows: Floats, normals: Floats, hard: Floats, depth: Floats) -> None:
        """Add ½ h (d − n·J̄Δp)² of vertices at depths d (m,), with h = `hard` and J̄ = `rows`."""
        lifted = np.einsum("vi,vik->vk", normals @ self._turn, rows)
        self.matrix += lifted.T @ (hard[:, None] * lifted)
        self.pull += lifted.T @ (hard * depth)
        self._force += (hard * depth) @ normals
        self._slope += normals.T @ (hard[:, None] * lifted)
        self._count += len(depth)

    def add_friction(
        self, rows: Floats, normals: Floats, slip: Floats, load: Floats, span: float
    ) -> None:
        """Add ½ g |s + (1 − n nᵀ) J̄Δp|² of vertices that slip by s (m, 3) in `span` seconds.

        `load` (m,) is the bound μ λ of the friction force in N, which determines g.
        """
        tangential = slip - np.einsum("vi,vi->v", slip, normals)[:, None] * normals
        grip = friction_weights(1.0, load, np.linalg.norm(tangential, axis=1) / span) / span
        local = normals @ self._turn
        along = rows - local[:, :, None] * np.einsum("vi,vik->vk", local, rows)[:, None]
        held = grip[:, None, None] * along
        self.matrix += np.tensordot(held, along, ((0, 1), (0, 1)))
        self.pull -= np.einsum("vik,vi->k", held, tangential @ self._turn)
        self._force -= grip @ tangential
        self._slope += self._turn @ held.sum(axis=0)

    def forces(self, change: Floats) -> Floats:
        """Return the forces b − AΔp (k,) on the parameters after a change Δp (k,)."""
        acting: Floats = self.pull - self.matrix @ change
        return acting

    def readings(self, change: Floats) -> dict[str, Any]:
        """Return the number of contacts, and the force on them in N after a change Δp (k,)."""
        return {"contacts": self._count, "contact_force": self._force - self._slope @ change}


class SkinPush:
    """Forces on the skin as forces on the free parameters: J̄ᵀ f with J̄ = ∂Φ̄/∂p_f."""

    def __init__(self, model: RigSpaceModel) -> None:
        self._rig, self._entries = model.rig, model.entries
        self._placement = placement(model.rig)
        self._skin = np.empty((model.rig.n_vertices, 3))
        young = float(np.mean(np.asarray(model.material.young)))
        #: Stiffness of the obstacle at each vertex, N/m.
        self._hard = HARDNESS * young / model.surface.size * model.surface.vertex_areas()
        self._touched: tuple[bytes, Jacobian, Floats] | None = None

    def _rows(self, pose: Floats, vertices: Ints) -> Floats:
        """Return J̄ = ∂Φ̄/∂p_f (m, 3, k) of vertices (m,), in an array that later calls reuse."""
        key = vertices.tobytes()
        if self._touched is None or self._touched[0] != key:
            jacobian = rig_jacobian(self._rig, self._entries, vertices)
            self._touched = key, jacobian, np.empty((len(vertices), 3, len(self._entries)))
        _, jacobian, rows = self._touched
        jacobian.evaluate(pose, rows)
        return rows

    def pushed(self, pose: Floats, vertices: Ints, forces: Floats) -> Floats:
        """Return J̄ᵀ f (k,) of forces f (m, 3) in N, in the root's frame, on vertices (m,)."""
        forces_on_parameters: Floats = np.einsum("vik,vi->k", self._rows(pose, vertices), forces)
        return forces_on_parameters

    def touching(
        self,
        pose: Floats,
        root: Floats,
        obstacles: Sequence[Obstacle],
        rub: FrictionStart | None = None,
    ) -> SkinContact | None:
        """Return the skin's contact with obstacles at a predicted pose; None if there is none."""
        world = self._in_world(pose, root)
        touch: SkinContact | None = None
        before: Floats | None = None
        for obstacle in obstacles:
            gaps, all_normals = checked_distances(obstacle, world)
            inside = np.flatnonzero(gaps < 0)
            if not len(inside):
                continue
            if touch is None:
                touch = SkinContact(len(self._entries), root[:3, :3])
            deepest = inside[np.argsort(gaps[inside], kind="stable")[:MOST_TOUCHED]]
            touched = np.sort(deepest)
            depth, normals, hard = -gaps[touched], all_normals[touched], self._hard[touched]
            rows = self._rows(pose, touched)
            touch.add_contact(rows, normals, hard, depth)
            if rub is not None:
                if before is None:
                    before = self._in_world(rub.pose, rub.root)
                start = before[touched]
                # The predicted depth may be far larger than the final one.
                load = hard * np.minimum(depth, np.maximum(-obstacle.distances(start)[0], 0.0))
                slip = world[touched] - start
                if isinstance(obstacle, RigidObject):
                    slip -= rub.span * obstacle.velocities(start)
                touch.add_friction(rows, normals, slip, rub.friction * load, rub.span)
        return touch

    def _in_world(self, pose: Floats, root: Floats) -> Floats:
        """Return the skin in the world at a pose and root, (n̄, 3)."""
        self._placement.place(pose, self._skin)
        skin: Floats = self._skin @ root[:3, :3].T + root[:3, 3]
        return skin


def holding_work(c: Floats, push: Floats, contact: Floats) -> float:
    """Return the work in J on coordinates c of forces and contacts (k,) that may hold flesh there.

    Forces may be those of a hand's spring beyond its goal, with negative work. Contacts with
    negative work push flesh back.
    """
    offsets = c[: len(push)]
    return max(abs(float(push @ offsets)), float(contact @ offsets))


def elastic_energy(model: RigSpaceModel) -> float:
    """Return ∫E dV over the moving flesh in J, with E Young's modulus."""
    young = np.broadcast_to(model.material.young, len(model.mesh.tets))
    return float((young * model.mesh.volumes())[model.moving_tets].sum())
