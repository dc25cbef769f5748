"""Forces and obstacles on the skin, as they act on the free parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from supple.arrays import Floats, Ints
from supple.engines.rig_space.model import RigSpaceModel
from supple.errors import SuppleError
from supple.mesh.obstacles import Obstacle
from supple.rig.jacobians.differences import Jacobian
from supple.rig.jacobians.rig_jacobian import rig_jacobian
from supple.rig.placement.placement import placement
from supple.rig.tets.tet_rig import vertex_areas

__all__ = ["SkinPush", "checked_obstacles"]

#: Obstacles press so many times harder on a metre of depth than flesh on a metre of the body.
HARDNESS = 30.0
#: Skin vertices that an obstacle pushes at a time, the deepest.
MOST_TOUCHED = 256


def checked_obstacles(given: Sequence[Obstacle]) -> tuple[Obstacle, ...]:
    """Return obstacles as a tuple; an error for what is none."""
    listed = tuple(given)
    for number, each in enumerate(listed):
        if not isinstance(each, Obstacle) or isinstance(each, type):
            raise SuppleError(
                f"obstacle {number} is a {type(each).__name__}; use a Plane, a Sphere or a Capsule"
            )
    return listed


class SkinPush:
    """What acts on the skin, in terms of the free parameters: J̄ᵀ f with J̄ = ∂Φ̄/∂p_f.

    Parameters
    ----------
    model
        The model.
    """

    def __init__(self, model: RigSpaceModel) -> None:
        self._rig, self._entries = model.rig, model.entries
        self._placement = placement(model.rig)
        self._skin = np.empty((model.rig.n_vertices, 3))
        young = float(np.mean(np.asarray(model.material.young)))
        #: Stiffness of the obstacle at each vertex, N/m.
        self._hard = HARDNESS * young / model.surface.size * vertex_areas(model.surface)
        self._touched: tuple[bytes, Jacobian, Floats] | None = None

    def _rows(self, pose: Floats, vertices: Ints) -> Floats:
        """J̄ (m, 3, k) of some vertices; tables of the last ones are kept."""
        key = vertices.tobytes()
        if self._touched is None or self._touched[0] != key:
            found = rig_jacobian(self._rig, self._entries, vertices)
            self._touched = key, found, np.empty((len(vertices), 3, len(self._entries)))
        _, jacobian, rows = self._touched
        jacobian.evaluate(pose, rows)
        return rows

    def pushed(self, pose: Floats, vertices: Ints, forces: Floats) -> Floats:
        """J̄ᵀ f (k,) of forces (m, 3) in the root's frame."""
        found: Floats = np.einsum("vik,vi->k", self._rows(pose, vertices), forces)
        return found

    def touching(
        self, pose: Floats, root: Floats, obstacles: Sequence[Obstacle]
    ) -> tuple[Floats, Floats, dict[str, Any]] | None:
        """Return A (k, k), b (k,) of a penalty ½ ΔpᵀAΔp − bᵀΔp, and figures; None if none touch.

        ½ h (d − n·J̄Δp)² of every vertex that is at depth d in an obstacle at this pose.
        """
        self._placement.place(pose, self._skin)
        world = self._skin @ root[:3, :3].T + root[:3, 3]
        k = len(self._entries)
        matrix, pull, force, count = np.zeros((k, k)), np.zeros(k), np.zeros(3), 0
        for obstacle in obstacles:
            away, ways = obstacle.distances(world)
            inside = np.flatnonzero(away < 0)
            if not len(inside):
                continue
            deepest = inside[np.argsort(away[inside], kind="stable")[:MOST_TOUCHED]]
            touched = np.sort(deepest)
            depth, normals, hard = -away[touched], ways[touched], self._hard[touched]
            lifted = np.einsum("vi,vik->vk", normals @ root[:3, :3], self._rows(pose, touched))
            matrix += lifted.T @ (hard[:, None] * lifted)
            pull += lifted.T @ (hard * depth)
            force += (hard * depth) @ normals
            count += len(touched)
        if not count:
            return None
        return matrix, pull, {"contacts": count, "contact_force": force}
