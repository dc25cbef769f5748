"""Interior vertices as functions of the surface: at rest (IV1), or skinned to it (IV2)."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from supple.arrays import Floats
from supple.engines.rig_space.model import RigSpaceModel
from supple.engines.rig_space.volumetric_skinning import volumetric_skinning
from supple.linalg.cholesky import SparseCholesky
from supple.linalg.sparse import PrincipalSubmatrix

#: Newton iterations of the interior, and the change that ends them as a part of the size.
MOST_ITERATIONS, TOLERANCE = 12, 1e-6


class Interior(Protocol):
    """Way to place interior vertices, given the others."""

    def settle(self, x: Floats, key: Floats) -> None:
        """Put interior vertices of x (n, 3) where they belong; where they are is a first guess."""

    def columns(self, x: Floats, key: Floats, jacobian: Floats) -> Floats:
        """∂x/∂p (n, 3, k) with the interior following, from that of the rig."""


class StaticInterior:
    """Interior in static equilibrium, q = argmin W(s, q) (hahn2013 eq. 5).

    Parameters
    ----------
    model
        The model.
    """

    def __init__(self, model: RigSpaceModel) -> None:
        self._body, self._size = model.body, model.mesh.size
        self._free = (3 * model.interior[:, None] + np.arange(3)).ravel()
        self._matrix = self._body.pattern.zeros()
        if len(self._free):
            self._part = PrincipalSubmatrix(self._matrix, self._free)
            self._solver = SparseCholesky(self._part.pattern, block=3)

    def _factorise(self, x: Floats, key: Floats) -> None:
        stiffness = self._body.stiffness(x, key, psd=True, out=self._matrix)
        data = self._part.take(stiffness.data).copy()
        self._solver.factorise(data)

    def settle(self, x: Floats, key: Floats) -> None:
        """Put interior vertices of x (n, 3) at rest, by Newton's method."""
        if not len(self._free):
            return
        flat, energy = x.reshape(-1), self._body.energy(x, key)
        for _ in range(MOST_ITERATIONS):
            force = self._body.force(x, key).reshape(-1)[self._free]
            self._factorise(x, key)
            change, before, length = self._solver.solve(-force), flat[self._free].copy(), 1.0
            for _ in range(8):
                flat[self._free] = before + length * change
                found = self._body.energy(x, key)
                if found <= energy * (1 + 1e-12) + 1e-300:
                    break
                length *= 0.5
            energy = found
            if length * np.abs(change).max() < TOLERANCE * self._size:
                break

    def columns(self, x: Floats, key: Floats, jacobian: Floats) -> Floats:
        """Y = [∂s/∂p; −K_QQ⁻¹ K_QS ∂s/∂p]."""
        columns = jacobian.copy()
        if len(self._free):
            self._factorise(x, key)
            flat = columns.reshape(-1, columns.shape[2])
            flat[self._free] = 0.0
            pull = np.ascontiguousarray((self._matrix @ flat)[self._free])
            flat[self._free] = -self._solver.solve(pull)
        return columns


class SkinnedInterior:
    """Interior skinned to the surface, q = W s, by Algorithm 1.

    Parameters
    ----------
    model
        The model.
    offset
        Add what W misses at rest. The paper has no such thing: its rest shape may have inverted
        tets, because neighbours need not surround the vertex that they carry.
    """

    def __init__(self, model: RigSpaceModel, *, offset: bool = False) -> None:
        skin = volumetric_skinning(model)
        self._surface, self._interior, self._weights = skin.surface, skin.interior, skin.weights
        rest = model.mesh.vertices
        missed = rest[self._interior] - self._weights @ rest[self._surface]
        self._offset = missed if offset else np.zeros_like(missed)

    def settle(self, x: Floats, key: Floats) -> None:
        """Put interior vertices of x (n, 3) at W s."""
        x[self._interior] = self._weights @ x[self._surface] + self._offset

    def columns(self, x: Floats, key: Floats, jacobian: Floats) -> Floats:
        """Y = [∂s/∂p; W ∂s/∂p]."""
        columns = jacobian.copy()
        flat = columns.reshape(len(columns), -1)
        flat[self._interior] = self._weights @ flat[self._surface]
        return columns
