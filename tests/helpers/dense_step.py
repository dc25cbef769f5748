"""Reference implementation of the reduced step with dense matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple import PoseSpaceModel
from supple.elastic.body import ElasticBody
from supple.elastic.material import Material
from supple.engines.pose_space.newton import RANGE
from supple.mesh.tets import TetMesh
from supple.reduction.cubature.accuracy import blended_correction

Floats = NDArray[np.float64]


class DenseStep:
    """Expected result of a step of `Simulator` at one pose, by the formulas of the method."""

    def __init__(self, model: PoseSpaceModel, pose: Floats) -> None:
        self.model, self.pose = model, np.asarray(pose, np.float64)
        self.w = model.pose_weights(pose)
        self.U = model.interpolated_basis(pose)
        pairs = [(i, j) for i in range(model.n_poses) for j in range(i, model.n_poses)]
        blended = sum(self.w[i] * self.w[j] * model.mass_product(i, j) for i, j in pairs)
        self.scales = 1 / np.sqrt(np.diagonal(blended))
        self.mass = self.scales[:, None] * blended * self.scales
        tets = model.mesh.tets[model.elastic_tets]
        own = np.arange(tets.size).reshape(tets.shape)
        self.corners = tets.reshape(-1)
        material = model.material(self.w)
        parts: dict[str, Any] = {
            name: np.broadcast_to(getattr(material, name), len(model.mesh.tets))[model.elastic_tets]
            for name in ("young", "poisson", "density")
        }
        neutral = TetMesh(model.mesh.vertices[self.corners], own)
        self.body = ElasticBody(neutral, Material(model.material_kind, **parts))
        self.rest = model.tet_rig(pose)[self.corners]
        share = np.maximum(self.w @ model.elastic_weights.astype(np.float64), 0)
        self.share = np.repeat(share, 12)
        rows = (3 * self.corners[:, None] + np.arange(3)).reshape(-1)
        self.rows = self.U[rows]

    def correction(self) -> Floats:
        model, r = self.model, self.model.n_modes
        if model.stiffness_corrections is None:
            return np.zeros((r, r))
        full = np.zeros((len(model.stiffness_corrections), r, r))
        upper = np.triu_indices(r)
        for matrix, packed in zip(full, model.stiffness_corrections, strict=True):
            matrix[upper] = packed
            matrix.T[upper] = packed
        ends = [tuple(pair) for pair in model.correction_ends.tolist()]
        return blended_correction(full, ends, self.w, self.scales)

    def elastic(self, q: Floats) -> tuple[Floats, Floats]:
        if self.model.trained_energies is not None:
            return self.elastic_in_range(q)
        x = self.rest + (self.rows @ q).reshape(-1, 3)
        force = self.share * self.body.force(x, self.rest).reshape(-1)
        stiffness = self.body.stiffness(x, self.rest).toarray() * self.share[:, None]
        extra = self.correction()
        return (
            self.rows.T @ force + extra @ q,
            self.rows.T @ stiffness @ self.rows + extra,
        )

    def elastic_in_range(self, q: Floats, least: float = 0.25) -> tuple[Floats, Floats]:
        """Return force and stiffness of a model with `trained_energies`."""
        exact, positive = self.correction(), np.maximum(self.w, 0)
        trained = RANGE * (positive @ self.model.trained_energies) / positive.sum()
        beyond = max(np.sqrt(0.5 * q @ exact @ q / trained), 1.0)
        x = self.rest + (self.rows @ (q / beyond)).reshape(-1, 3)
        at_rest = self.body.stiffness(self.rest, self.rest).toarray()
        linear = at_rest @ (x - self.rest).reshape(-1)
        force = self.rows.T @ (self.share * (self.body.force(x, self.rest).reshape(-1) - linear))
        stiffness = (self.body.stiffness(x, self.rest).toarray() - at_rest) * self.share[:, None]
        work, linear_work = q @ force / beyond, q @ exact @ q / beyond**2
        part = min((least - 1) * linear_work / work, 1.0) if work < 0 else 1.0
        reduced = self.rows.T @ stiffness @ self.rows
        return part * beyond * force + exact @ q, part * reduced + exact

    def inertia(self, a: Floats) -> Floats:
        """Return the reduced inertial force of accelerations (n, 3) of all tet vertices."""
        model = self.model
        masses = ElasticBody(model.mesh, model.material(0)).vertex_masses()
        total = np.zeros(model.n_modes)
        for s, vertex in enumerate(model.inertial_vertices):
            weight = sum(
                self.w[i]
                * (model.inertial_weights[i, s] * self._frame_rows(i, vertex) + self._extra(i, s))
                for i in range(model.n_poses)
            )
            turned = self._rotation(vertex) @ weight * self.scales
            total -= turned.T @ (masses[vertex] * a[vertex])
        return total

    def _extra(self, i: int, s: int) -> Floats:
        extra = self.model.inertial_corrections
        return np.zeros((3, self.model.n_modes)) if extra is None else extra[i, s]

    def _frame_rows(self, i: int, vertex: int) -> Floats:
        rows = np.zeros((3, self.model.n_modes))
        for listed, basis, columns in zip(
            self.model.basis_vertices, self.model.bases, self.model.columns, strict=True
        ):
            at = np.flatnonzero(listed == vertex)
            if len(at):
                rows[:, columns] = basis[i, at[0]]
        return rows

    def _rotation(self, vertex: int) -> Floats:
        from supple.maths.rotations import to_matrix

        at = np.flatnonzero(self.model.rotation_vertices == vertex)
        if self.model.rotations is None or not len(at):
            return np.eye(3)
        blend = self.w @ self.model.rotations[:, at[0]].astype(np.float64)
        return to_matrix(blend / np.linalg.norm(blend))

    def backward_euler(
        self, q: Floats, v: Floats, external: Floats, h: float, alpha: float, beta: float
    ) -> tuple[Floats, Floats]:
        force, stiffness = self.elastic(q)
        matrix = (1 + h * alpha) * self.mass + (h * beta + h * h) * stiffness
        new = np.linalg.solve(matrix, self.mass @ v + h * (external - force))
        return q + h * new, new
