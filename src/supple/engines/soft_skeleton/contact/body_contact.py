"""Contact of skin with solid things: pressure with the flexibility that handles lack, friction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.linalg

from supple.arrays import Floats, Ints
from supple.engines.soft_skeleton.bones.body_points import BodyPoints, write_rows
from supple.engines.soft_skeleton.bones.bone_chain import BoneChain
from supple.engines.soft_skeleton.model import SoftSkeletonModel
from supple.mesh.obstacles import Obstacle

__all__ = ["BodyContact"]

#: Stiffness of contact, in Young's moduli over the size of the body, N/m³.
HARDNESS = 400.0
#: Speed in m/s below which friction is viscous.
STICKING = 0.01
#: Times that points which would be pulled are let go.
MOST_RELEASES = 6


class BodyContact:
    """Forces of obstacles on the skin, in coordinates of bones and flesh.

    Penetrations p of the points in contact cost ½ pᵀ (diag 1/(k a) + ΔC)⁻¹ p: a penalty of each
    point's area, in series with the flexibility ΔC of the skin that handles lack.

    Parameters
    ----------
    model
        The model.
    friction
        Coefficient of Coulomb's law.
    """

    def __init__(self, model: SoftSkeletonModel, friction: float) -> None:
        self.model, self.friction = model, friction
        young = float(np.median(np.asarray(model.material.young)))
        self._penalty = HARDNESS * young / model.surface.size * model.areas
        self.reset()

    def reset(self) -> None:
        """Forget the last contact."""
        self.pressed = False
        self._where: Ints = np.zeros(0, np.int64)
        self._pressure: Floats = np.zeros(0)
        self.readings: dict[str, Any] = {"contacts": 0, "contact_force": np.zeros(3)}

    def add_forces(
        self,
        skin: BodyPoints,
        chain: BoneChain,
        phi: Floats,
        vertices: Ints,
        forces: Floats,
        gradient: Floats,
    ) -> None:
        """Add forces (k, 3) on vertices of the skin."""
        points = np.repeat(np.asarray(vertices, np.int64), 3)
        rows = np.empty((len(points), len(gradient)))
        frames = chain.turns, chain.shifts, chain.places, phi
        ways = np.tile(np.eye(3), (len(vertices), 1))
        write_rows(skin.tables, skin.offsets, *frames, points, ways, rows)
        gradient -= rows.T @ np.asarray(forces, np.float64).ravel()

    def add(
        self,
        skin: BodyPoints,
        chain: BoneChain,
        phi: Floats,
        start: Floats,
        tau: float,
        obstacles: Sequence[Obstacle],
        gradient: Floats,
        hessian: Floats,
    ) -> None:
        """Add what obstacles do to gradient and Hessian.

        Parameters
        ----------
        skin, chain, phi
            Where the skin is.
        start, tau
            (n̄, 3) where it was when the stage of τ began.
        obstacles
            Solid things.
        gradient, hessian
            Added to; the upper half.
        """
        self.reset()
        found = self._found(skin.x, obstacles)
        if found is None:
            return
        points, depth, ways = found
        compliance = np.diag(1 / self._penalty[points])
        own = self.model.spread[points]
        compliance += (own @ self.model.flexibility @ own.T).toarray()
        rows = np.empty((len(points), len(gradient)))
        frames = chain.turns, chain.shifts, chain.places, phi
        kept = np.arange(len(points))
        for _ in range(MOST_RELEASES):
            own = scipy.linalg.cho_factor(compliance[np.ix_(kept, kept)], check_finite=False)
            force = scipy.linalg.cho_solve(own, depth[kept], check_finite=False)
            if (force >= 0).all():
                break
            kept = kept[force > 0]
        points, ways, force = points[kept], ways[kept], np.maximum(force, 0.0)
        rows = np.empty((len(points), len(gradient)))
        write_rows(skin.tables, skin.offsets, *frames, points, ways, rows)
        gradient -= rows.T @ force
        hessian += rows.T @ scipy.linalg.cho_solve(own, rows, check_finite=False)
        total = force @ ways
        if self.friction > 0:
            total = total + self._add_friction(
                skin, frames, start, tau, points, ways, force, gradient, hessian
            )
        self.pressed, self._where, self._pressure = True, points, force
        self._ways = ways
        self.readings = {"contacts": len(points), "contact_force": total}

    def _found(
        self, x: Floats, obstacles: Sequence[Obstacle]
    ) -> tuple[Ints, Floats, Floats] | None:
        points, depths, ways = [], [], []
        for each in obstacles:
            distance, out = each.distances(x)
            own = np.flatnonzero(distance < 0)
            points.append(own)
            depths.append(-distance[own])
            ways.append(out[own])
        if not points or not sum(len(own) for own in points):
            return None
        # A point in two things is pushed by the one it is deeper in.
        joined = np.concatenate(points), np.concatenate(depths), np.concatenate(ways)
        order = np.lexsort((-joined[1], joined[0]))
        where, depth, way = (each[order] for each in joined)
        first = np.concatenate([[True], where[1:] != where[:-1]])
        return where[first], depth[first], way[first]

    def _add_friction(
        self,
        skin: BodyPoints,
        frames: tuple[Floats, ...],
        start: Floats,
        tau: float,
        points: Ints,
        ways: Floats,
        force: Floats,
        gradient: Floats,
        hessian: Floats,
    ) -> Floats:
        """Add −μ λ v/max(|v|, ε) across the ways out; return its sum."""
        moved = skin.x[points] - start[points]
        across = moved - (moved * ways).sum(axis=1)[:, None] * ways
        speed = np.linalg.norm(across, axis=1) / tau
        much = self.friction * force / np.maximum(speed, STICKING) / tau
        aside = np.cross(ways, np.where(np.abs(ways[:, :1]) < 0.6, [[1.0, 0, 0]], [[0, 1.0, 0]]))
        aside /= np.linalg.norm(aside, axis=1, keepdims=True)
        pairs = np.concatenate([aside, np.cross(ways, aside)])
        rows = np.empty((len(pairs), len(gradient)))
        both = np.concatenate([points, points])
        write_rows(skin.tables, skin.offsets, *frames, both, pairs, rows)
        weights = np.concatenate([much, much])
        along = (np.concatenate([across, across]) * pairs).sum(axis=1)
        gradient += rows.T @ (weights * along)
        hessian += rows.T @ (weights[:, None] * rows)
        return -(much[:, None] * across).sum(axis=0)

    def dent(self, skin: BodyPoints, chain: BoneChain) -> Floats:
        """(n̄, 3) what the skin moves beside bones and handles."""
        load = np.zeros(len(skin.x))
        load[self._where] = self._pressure
        turned, pressed = np.zeros_like(skin.x), self.model.spread.T @ load
        for i in range(3):
            turned[:, i] = -(self.model.spread @ (self.model.motion[i] @ pressed))
        return turned
