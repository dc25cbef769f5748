"""Mass integrals of a body that flies and rotates while it deforms.

A free body is at x = c + R (X + U q). Its momenta and kinetic energy need sums over vertices of
products of X and U only: the volume, and first and second moments. They are computed once, at unit
density for each group of a material, so that the cost of a step does not depend on the mesh.

They make `RigidMoments`: let y = X + U q − s(q) be measured from the mass centre
s(q) = X_c + W q / m, W = Σ m U. Then x = C + R y with C the mass centre in the world, and with Ω
the angular velocity in the body's frame and v = q̇

    T = ½ m |Ċ|² + ½ Ω·I(q) Ω + Ω·h(q) v + ½ vᵀM v,
    I(q) = Σ m (|y|² 1 − y yᵀ),   h(q) = Σ m y × ∂y/∂q,   M = Σ m ∂y/∂qᵀ ∂y/∂q.

Measuring from the mass centre is no restriction: a translation in the basis only moves c. The
coupling h is needed, as shapes may rotate the body, and shapes of a deformed body always do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from supple.arrays import Floats, Ints
from supple.engines.stvk.strain_points import StrainPoints, volume_matrix
from supple.linalg.blas import single_threaded

#: The vector product, (a × b)_i = Σ ε_ijk a_j b_k.
_CROSS = np.zeros((3, 3, 3))
_CROSS[[0, 1, 2], [1, 2, 0], [2, 0, 1]] = 1.0
_CROSS[[0, 1, 2], [2, 0, 1], [1, 2, 0]] = -1.0


@dataclass(frozen=True, eq=False)
class RigidIntegrals:
    """Moments of each of g groups of elements at a density of 1 kg/m³.

    Mass is lumped or consistent as in the whole model: with lumped mass, the second moments of a
    box along an axis with n cells are larger by a relative 2/n² than for a uniform density. X is
    relative to `about` (3,), near the body's centre for accuracy. `volumes` (g,) are Σ v, `first`
    (g, 3) Σ v X, `second` (g, 3, 3) Σ v X Xᵀ, `mixed` (g, 3, 3, r) Σ v X_a U_bj, and `shapes`
    (g, 3, 3, r, r) Σ v U_ai U_bj. `held` is the number of fixed vertices with mass; a vertex with
    zero rows in the basis is not necessarily fixed.
    """

    about: Floats
    volumes: Floats
    first: Floats
    second: Floats
    mixed: Floats
    shapes: Floats
    held: int

    @classmethod
    def of(
        cls,
        points: StrainPoints,
        group: NDArray[np.int64],
        n_groups: int,
        rest: Floats,
        basis: Floats,
        held: int = 0,
        mass: str = "lumped",
    ) -> RigidIntegrals:
        """Return the moments of a body at `rest` (n, 3) in a basis (n, 3, r), per group."""
        r = basis.shape[2]
        every = points.vertex_volumes()
        about = every @ rest / every.sum()
        integrals = cls(
            about,
            np.empty(n_groups),
            np.empty((n_groups, 3)),
            np.empty((n_groups, 3, 3)),
            np.empty((n_groups, 3, 3, r)),
            np.empty((n_groups, 3, 3, r, r)),
            held,
        )
        for number in range(n_groups):
            some = points.taken(np.flatnonzero(group == number))
            used = np.flatnonzero(some.vertex_volumes() > 0)
            volumes = volume_matrix(some, mass)[used][:, used]
            integrals._fill(number, volumes, rest[used] - about, basis[used])
        return integrals

    def _fill(self, number: int, volumes: sp.csr_array, arms: Floats, basis: Floats) -> None:
        r = basis.shape[2]
        flat = basis.reshape(-1, 3 * r)
        weighed = volumes @ arms
        with single_threaded():
            second, mixed = weighed.T @ arms, weighed.T @ flat
            shapes = (volumes @ flat).T @ flat
        self.volumes[number], self.first[number] = volumes.sum(), weighed.sum(axis=0)
        self.second[number] = (second + second.T) / 2
        self.mixed[number] = mixed.reshape(3, 3, r)
        shapes = (shapes + shapes.T) / 2
        self.shapes[number] = shapes.reshape(3, r, 3, r).swapaxes(1, 2)

    def with_columns(self, columns: Ints) -> RigidIntegrals:
        """Return the moments in some columns of the basis."""
        return replace(
            self,
            mixed=np.ascontiguousarray(self.mixed[..., columns]),
            shapes=np.ascontiguousarray(self.shapes[..., columns[:, None], columns]),
        )

    def moments(self, density: Floats, weight_parts: Floats) -> RigidMoments:
        """Return the body's moments with densities (g,); `weight_parts` (g, 3, r) is Σ v U."""
        mass = float(density @ self.volumes)
        first = density @ self.first
        momenta = np.tensordot(density, weight_parts, 1)
        second = np.tensordot(density, self.second, 1) - np.outer(first, first) / mass
        mixed = np.tensordot(density, self.mixed, 1)
        mixed -= first[:, None, None] * (momenta / mass)
        shapes = np.tensordot(density, self.shapes, 1)
        shapes -= momenta[:, None, :, None] * (momenta / mass)[:, None, :]
        return RigidMoments(
            mass=mass,
            centre=self.about + first / mass,
            drift=momenta / mass,
            shape_mass=np.einsum("aaij->ij", shapes),
            inertia_terms=(
                _inertia(second),
                _inertia(mixed + mixed.swapaxes(0, 1)),
                _inertia((shapes + shapes.swapaxes(0, 1)) / 2),
            ),
            coupling_terms=(
                np.einsum("abc,bcj->aj", _CROSS, mixed),
                np.einsum("abc,bcij->aij", _CROSS, shapes),
            ),
        )


@dataclass(frozen=True, eq=False)
class RigidMoments:
    """Mass of a free body, and inertia as a function of q; see the module for I, h and M.

    `mass` is m in kg, `centre` (3,) X_c, the mass centre at rest, `drift` (3, r) W / m, its motion
    with q, and `shape_mass` (r, r) M. `inertia_terms` are (3, 3), (3, 3, r) and (3, 3, r, r): I(q)
    = I₀ + I₁[q] + I₂[q, q]. `coupling_terms` are (3, r) and (3, r, r): h(q) = h₀ + Σ q_i h₁[:, i],
    each of the latter antisymmetric.
    """

    mass: float
    centre: Floats
    drift: Floats
    shape_mass: Floats
    inertia_terms: tuple[Floats, Floats, Floats]
    coupling_terms: tuple[Floats, Floats]

    def centre_at(self, q: Floats) -> Floats:
        """Return the mass centre s(q) in the body's frame, (3,) in m."""
        return self.centre + self.drift @ q

    def inertia_at(self, q: Floats) -> Floats:
        """Return the inertia I(q) about the mass centre, (3, 3) in kg m²."""
        constant, linear, quadratic = self.inertia_terms
        return constant + linear @ q + quadratic @ q @ q

    def coupling_at(self, q: Floats) -> Floats:
        """Return the coupling h(q) = Σ m y × ∂y/∂q of rotation and shapes, (3, r)."""
        constant, linear = self.coupling_terms
        return constant + np.einsum("aij,i->aj", linear, q)

    def deforming_mass_at(self, q: Floats) -> Floats:
        """Return M − hᵀI⁻¹h, (r, r): mass of shapes without rigid motion."""
        coupling = self.coupling_at(q)
        turned = coupling.T @ np.linalg.solve(self.inertia_at(q), coupling)
        return self.shape_mass - (turned + turned.T) / 2


def _inertia(second: Floats) -> Floats:
    """Return tr(S) 1 − S of second moments S (3, 3, …)."""
    trace = np.trace(second)
    return np.multiply.outer(np.eye(3), trace) - second
