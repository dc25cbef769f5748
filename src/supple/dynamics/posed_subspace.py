"""What a projected simulation moves: a body, its basis and its skin, as functions of the pose."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from supple.checks import checked_array
from supple.dynamics.stage import StepReport
from supple.dynamics.subspace import Subspace, checked_subspace_basis
from supple.elastic import ElasticBody, Material
from supple.errors import SuppleError

__all__ = ["Forces", "OfPose", "PosedSubspace"]

Floats = NDArray[np.float64]
OfPose = Callable[[Floats], Floats]
Forces = Mapping[int, ArrayLike]


class PosedSubspace:
    """A body with all that depends on its pose; parameters as `ProjectedSimulator` has them."""

    def __init__(
        self,
        body: ElasticBody,
        rest: OfPose,
        basis: OfPose,
        *,
        elastic: tuple[ArrayLike, ArrayLike] | None = None,
        material: Callable[[Floats], Material] | None = None,
        surface: OfPose | None = None,
        embedding: sp.csr_array | None = None,
    ) -> None:
        self.body, self._rest, self._basis = body, rest, basis
        self._material, self._surface, self._embedding = material, surface, embedding
        #: Where elastic forces are evaluated, whatever the pose; None for the pose itself.
        self.neutral: Subspace | None = None
        if elastic is not None:
            shape = checked_array("elastic rest shape", elastic[0], body.rest.shape)
            columns = checked_subspace_basis("elastic basis", elastic[1], body.n_vertices)
            self.neutral = Subspace(body, shape, columns)

    def evaluate(self, pose: Floats, report: StepReport) -> tuple[Floats, Floats]:
        """Rest shape (n, 3) and basis (3n, r) at a pose."""
        with report.timed("rig"):
            rest = checked_array("rest shape", self._rest(pose), self.body.rest.shape)
        with report.timed("basis"):
            basis = checked_subspace_basis("basis", self._basis(pose), self.body.n_vertices)
        if self.neutral is not None and self.neutral.n_columns != basis.shape[1]:
            raise SuppleError(
                f"the basis has {basis.shape[1]} columns, and the elastic one "
                f"{self.neutral.n_columns}"
            )
        return rest, basis

    def make_of_material(self, pose: Floats) -> None:
        """Exchange the body's material, if it depends on the pose."""
        if self._material is not None:
            self.body.set_material(self._material(pose))

    def skin(self, pose: Floats, displacements: Floats) -> Floats:
        """Φ̄(p) + A u, (n̄, 3), in the root's frame."""
        if self._surface is None or self._embedding is None:
            raise SuppleError("this body has no skin; give surface and embedding")
        return self._surface(pose) + self._embedding @ displacements

    def load(self, forces: Forces | None) -> Floats:
        """Forces on the tet vertices, (n, 3), of forces on the skin where there is one."""
        count = self.body.n_vertices if self._embedding is None else self._embedding.shape[0]
        load = np.zeros((count, 3))
        for vertex, force in (forces or {}).items():
            if not (isinstance(vertex, int | np.integer) and 0 <= vertex < count):
                raise SuppleError(
                    f"force on vertex {vertex}, which is not there; there are 0 to {count - 1}"
                )
            load[vertex] += checked_array(f"force on vertex {vertex}", force, (3,))
        return load if self._embedding is None else self._embedding.T @ load
