"""What all bodies can do whose reduced tangent stiffness is a polynomial of second degree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.checks import checked_array
from supple.errors import SuppleError
from supple.mesh.surface import SurfaceMesh
from supple.reduction.stvk_coefficients import monomials

__all__ = ["PolynomialBody"]

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Forces = ArrayLike | Mapping[int, ArrayLike]


class PolynomialBody:
    """Forces of K̃(q) = K₀ + K₁[q] + K₂[q, q], and of what acts on a surface X̄ + Ū q.

    A subclass says what its tangent's coefficients are, (r(r+1)/2, 1 + r + r(r+1)/2), and what is
    seen of it.
    """

    if TYPE_CHECKING:  # fields of some, properties of others

        @property
        def tangent(self) -> Floats:
            """Coefficients of the tangent stiffness: entries of its upper triangle by 1, q, q²."""

        @property
        def modes(self) -> int:
            """Number r of coordinates."""

        @property
        def surface(self) -> SurfaceMesh:
            """What is seen."""

        @property
        def surface_basis(self) -> Floats:
            """(n̄, 3, r) how what is seen moves with q."""

    def force(self, q: ArrayLike) -> Floats:
        """Gradient of energy, (r,), by Euler's theorem for homogeneous functions."""
        at = self._reduced(q)
        k1, k2 = self._terms(at)
        return _unpacked(self.tangent[:, 0] + k1 / 2 + k2 / 3, self.modes) @ at

    def stiffness(self, q: ArrayLike) -> Floats:
        """Derivative of the force, (r, r)."""
        k1, k2 = self._terms(self._reduced(q))
        return _unpacked(self.tangent[:, 0] + k1 + k2, self.modes)

    def energy(self, q: ArrayLike) -> float:
        """Elastic energy, in J."""
        at = self._reduced(q)
        k1, k2 = self._terms(at)
        return float(at @ _unpacked(self.tangent[:, 0] / 2 + k1 / 6 + k2 / 12, self.modes) @ at)

    def surface_at(self, q: ArrayLike) -> Singles:
        """What is seen there, (n̄, 3) float32."""
        moved = self.surface.vertices + self.surface_basis @ self._reduced(q)
        return moved.astype(np.float32)

    def reduced_force(self, forces: Forces) -> Floats:
        """Ūᵀ f of forces on the surface in N: a mapping of its vertices to (3,), or (n̄, 3)."""
        basis = self.surface_basis
        if not isinstance(forces, Mapping):
            given = checked_array("forces", forces, self.surface.vertices.shape)
            return np.einsum("vi,vir->r", given, basis)
        total = np.zeros(self.modes)
        for vertex, force in forces.items():
            if not (isinstance(vertex, int | np.integer) and 0 <= vertex < len(basis)):
                raise SuppleError(
                    f"force on vertex {vertex!r:.40}, which is not there; the surface has "
                    f"vertices 0 to {len(basis) - 1}"
                )
            total += checked_array(f"force on vertex {vertex}", force, (3,)) @ basis[vertex]
        return total

    def _terms(self, q: Floats) -> tuple[Floats, Floats]:
        """Packed K₁[q] and K₂[q, q]."""
        end = 1 + self.modes
        return self.tangent[:, 1:end] @ q, self.tangent[:, end:] @ monomials(q)

    def _reduced(self, q: ArrayLike) -> Floats:
        return checked_array("q", q, (self.modes,))


def _unpacked(packed: Floats, r: int) -> Floats:
    """The symmetric matrix of which the upper triangle is given row by row."""
    matrix = np.empty((r, r))
    upper = np.triu_indices(r)
    matrix[upper] = matrix[upper[::-1]] = packed
    return matrix
