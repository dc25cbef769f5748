"""Bodies whose reduced forces are cubic polynomials, and a body given by the polynomial alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, NoReturn, Unpack

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints, Singles
from supple.checks import (
    checked_array,
    checked_count,
    checked_indices,
    numbers,
    owned_array,
    shown,
)
from supple.dynamics.character_inputs import checked_vertex
from supple.engines.stvk.coefficients import (
    MOST_MODES,
    monomials,
    pair_count,
    paired_count,
    tangent_of_columns,
)
from supple.engines.stvk.strain_points import MaterialChange
from supple.errors import SuppleError
from supple.mesh.surface import SurfaceMesh

#: Forces in N on a surface: (n̄, 3), or (3,) by vertices.
Forces = ArrayLike | Mapping[int, ArrayLike]

#: Iterations of an equilibrium, relative change at its end, and shortened iterations.
_ITERATIONS, _CONVERGED, _CAREFUL = 60, 1e-8, 5
#: Tolerance on the symmetry of a mass matrix, relative to its size.
_ASYMMETRY = 1e-9


class PolynomialBody:
    """Body of tangent stiffness K̃(q) = K₀ + K₁[q] + K₂[q, q] and surface X̄ + Ū q.

    A subclass has the tangent's coefficients, (r(r+1)/2, 1 + r + r(r+1)/2), the number r of modes,
    the surface X̄ at rest, and its basis Ū, (n̄, 3, r).
    """

    if TYPE_CHECKING:  # fields or properties of subclasses

        @property
        def tangent(self) -> Floats: ...
        @property
        def modes(self) -> int: ...
        @property
        def surface(self) -> SurfaceMesh: ...
        @property
        def surface_basis(self) -> Floats: ...

    def force(self, q: ArrayLike) -> Floats:
        """Return (K₀ + ½K₁[q] + ⅓K₂[q, q]) q, the gradient of the energy, (r,)."""
        at = self._reduced(q)
        k1, k2 = self._terms(at)
        return _unpacked(self.tangent[:, 0] + k1 / 2 + k2 / 3, self.modes) @ at

    def stiffness(self, q: ArrayLike) -> Floats:
        """Return K₀ + K₁[q] + K₂[q, q], the derivative of the force, (r, r)."""
        k1, k2 = self._terms(self._reduced(q))
        return _unpacked(self.tangent[:, 0] + k1 + k2, self.modes)

    def energy(self, q: ArrayLike) -> float:
        """Return ½ qᵀ(K₀ + ⅓K₁[q] + ⅙K₂[q, q]) q, the elastic energy, in J."""
        at = self._reduced(q)
        k1, k2 = self._terms(at)
        return float(at @ _unpacked(self.tangent[:, 0] / 2 + k1 / 6 + k2 / 12, self.modes) @ at)

    def equilibrium(self, load: ArrayLike, start: ArrayLike | None = None) -> Floats | None:
        """Return q with f(q) = `load` (r,) by damped Newton's method; None if it is not found.

        `start` is by default the rest shape, from which the load is applied in parts.
        """
        force = self._reduced(load)
        if start is not None:
            return self._nearest_equilibrium(force, self._reduced(start))
        q: Floats | None = np.zeros(self.modes)
        for part in (0.25, 0.5, 0.75, 1.0):
            q = None if q is None else self._nearest_equilibrium(part * force, q)
        return q

    def _nearest_equilibrium(self, force: Floats, start: Floats) -> Floats | None:
        q = start
        for iteration in range(_ITERATIONS):
            try:
                change = np.linalg.solve(self.stiffness(q), force - self.force(q))
            except np.linalg.LinAlgError:
                return None
            q = q + (change if iteration >= _CAREFUL else 0.7 * change)
            largest = float(np.abs(q).max())
            if not np.isfinite(largest):
                return None
            if np.abs(change).max() <= _CONVERGED * largest:
                return q
        return None

    def surface_at(self, q: ArrayLike) -> Singles:
        """Return X̄ + Ū q, the surface at q, (n̄, 3) float32."""
        positions = self.surface.vertices + self.surface_basis @ self._reduced(q)
        return positions.astype(np.float32)

    def reduced_force(self, forces: Forces) -> Floats:
        """Return Ūᵀ f of forces on the surface in N: a mapping of vertices to (3,), or (n̄, 3)."""
        basis = self.surface_basis
        if not isinstance(forces, Mapping):
            pushes = checked_array("forces", forces, self.surface.vertices.shape)
            return np.einsum("vi,vir->r", pushes, basis)
        total = np.zeros(self.modes)
        for vertex, force in forces.items():
            checked_vertex(vertex, len(basis), "the surface")
            total += checked_array(f"force on vertex {vertex}", force, (3,)) @ basis[vertex]
        return total

    def _terms(self, q: Floats) -> tuple[Floats, Floats]:
        """Return K₁[q] and K₂[q, q] as packed upper triangles, (r(r+1)/2,) each."""
        end = 1 + self.modes
        return self.tangent[:, 1:end] @ q, self.tangent[:, end:] @ monomials(q)

    def _reduced(self, q: ArrayLike) -> Floats:
        return checked_array("q", q, (self.modes,))


def _unpacked(packed: Floats, r: int) -> Floats:
    """Return the symmetric matrix (r, r) of an upper triangle that is given row by row."""
    matrix = np.empty((r, r))
    upper = np.triu_indices(r)
    matrix[upper] = matrix[upper[::-1]] = packed
    return matrix


class CubicModel(PolynomialBody):
    """Body given by the coefficients of its tangent stiffness alone.

    `supple.formats.read_vega` reads one from VegaFEM's files, and `StvkSimulator` steps it. Other
    features of a `StvkModel` need the mesh and its material.

    Parameters
    ----------
    tangent
        (r(r+1)/2, 1 + r + r(r+1)/2), laid out as `StvkModel.tangent`.
    mass
        (r, r); by default the identity, as for mass-normalised modes.
    surface, surface_basis
        Surface X̄, and its basis Ū (n̄, 3, r); give both or neither.
    axis_weights
        (3, r) UᵀM times a unit acceleration along each axis; without it, there is no gravity.

    Examples
    --------
    >>> spring = CubicModel([[2.0, 0.0, 3.0]])  # a tangent of 2 + 3q²
    >>> spring.force([1.0]), spring.stiffness([1.0]), spring.energy([1.0])
    (array([3.]), array([[5.]]), 1.25)
    """

    #: Row of `supple.engines.ENGINES` that steps it.
    engine: ClassVar[str] = "stvk"

    def __init__(
        self,
        tangent: ArrayLike,
        mass: ArrayLike | None = None,
        *,
        surface: SurfaceMesh | None = None,
        surface_basis: ArrayLike | None = None,
        axis_weights: ArrayLike | None = None,
    ) -> None:
        self._tangent = _checked_tangent(tangent)
        r = paired_count(len(self._tangent))
        self.mass = np.eye(r) if mass is None else checked_mass(mass, r)
        if (surface is None) != (surface_basis is None):
            raise SuppleError("a surface and the basis that moves it must be given together")
        if not (surface is None or isinstance(surface, SurfaceMesh)):
            raise SuppleError(f"the surface must be a SurfaceMesh, not {shown(surface)}")
        self._surface, self._basis = surface, np.empty((0, 3, r))
        if surface is not None and surface_basis is not None:
            shape = (len(surface.vertices), 3, r)
            self._basis = owned_array("the surface's basis", surface_basis, shape)
        self.axis_weights: Floats | None = None
        if axis_weights is not None:
            self.axis_weights = owned_array("axis_weights", axis_weights, (3, r))

    def __repr__(self) -> str:
        surface = f"{len(self._basis)} surface vertices" if self.has_surface else "no surface"
        return f"CubicModel({self.modes} modes, {surface})"

    @property
    def tangent(self) -> Floats:
        """Coefficients of the tangent stiffness, (r(r+1)/2, 1 + r + r(r+1)/2)."""
        return self._tangent

    @property
    def modes(self) -> int:
        """Number r of coordinates."""
        return len(self.mass)

    @property
    def has_surface(self) -> bool:
        """True if the body has a surface."""
        return self._surface is not None

    @property
    def surface(self) -> SurfaceMesh:
        """Surface at rest; raises an error if there is none."""
        if self._surface is None:
            raise SuppleError(
                "this model has no surface, as coefficients alone do not define one; read them "
                "with modes (.U or .float) and a mesh (.obj or .veg)"
            )
        return self._surface

    @property
    def surface_basis(self) -> Floats:
        """Basis Ū (n̄, 3, r) of surface displacements Ū q; raises an error if there is none."""
        return self._basis[: len(self.surface.vertices)]

    @property
    def scale(self) -> float:
        """Size of q at which K₂[q, q] is as stiff as K₀; 1 if K₂ is zero."""
        r = self.modes
        first = float(np.abs(self._tangent[:, 0]).max())
        second = float(np.abs(self._tangent[:, 1 + r :]).max())
        return math.sqrt(first / second) if second > 0 else 1.0

    def weight(self, gravity: ArrayLike) -> Floats:
        """Return UᵀM g, the reduced force (r,) of an acceleration in m/s²."""
        pull = checked_array("gravity", gravity, (3,))
        if self.axis_weights is not None:
            return pull @ self.axis_weights
        if pull.any():
            raise SuppleError(
                "this model has no gravity, as coefficients do not define masses; read them with "
                "modes (.U) and a mesh that has densities (.veg)"
            )
        return np.zeros(self.modes)

    def with_material(self, group: int = 0, **changed: Unpack[MaterialChange]) -> NoReturn:
        """Raise an error; see `StvkModel.with_material` for models that can be changed."""
        raise SuppleError(
            "this model's material cannot be changed: its coefficients do not separate "
            "λ and μ; use StvkModel.from_basis with the mesh, a material and the modes"
        )

    def with_columns(self, columns: ArrayLike) -> CubicModel:
        """Return the model of some of its coordinates, ascending, with the others zero."""
        kept = kept_columns(columns, self.modes)
        weights = self.axis_weights
        return CubicModel(
            tangent_of_columns(self._tangent, self.modes, kept),
            self.mass[np.ix_(kept, kept)],
            surface=self._surface,
            surface_basis=self._basis[:, :, kept] if self.has_surface else None,
            axis_weights=None if weights is None else weights[:, kept],
        )

    def truncate(self, modes: int) -> CubicModel:
        """Return the model of the first `modes` coordinates, with the others zero."""
        return self.with_columns(first_columns(modes, self.modes))


def first_columns(modes: int, most: int) -> Ints:
    """Return the first columns, after checking that a model of `most` modes has as many."""
    fewer = checked_count("the number of modes", modes)
    if fewer > most:
        raise SuppleError(f"{fewer} modes requested, but the model has {most}")
    return np.arange(fewer)


def kept_columns(columns: ArrayLike, most: int) -> Ints:
    """Return columns to keep, ascending, after checking that a model of `most` modes has them."""
    kept = np.unique(checked_indices("column", columns, most))
    if not len(kept):
        raise SuppleError("no column of the basis is left; keep at least one")
    return kept


def _checked_tangent(tangent: ArrayLike) -> Floats:
    coefficients = numbers("the tangent", tangent)
    r = paired_count(len(coefficients)) if coefficients.ndim == 2 else 0
    if r == 0 or coefficients.shape != (pair_count(r), 1 + r + pair_count(r)):
        raise SuppleError(
            f"a tangent of shape {coefficients.shape}; expected (p, 1 + r + p) with p = r(r+1)/2"
        )
    if r > MOST_MODES:
        raise SuppleError(f"{r} modes are too many; use at most {MOST_MODES}")
    return owned_array("the tangent", coefficients, coefficients.shape)


def checked_mass(mass: ArrayLike, r: int) -> Floats:
    """Return a copy of the mass of r coordinates, (r, r): symmetric and positive definite."""
    matrix = owned_array("the mass", mass, (r, r))
    if np.abs(matrix - matrix.T).max() > _ASYMMETRY * np.abs(matrix).max():
        raise SuppleError("the mass matrix is not symmetric")
    matrix = (matrix + matrix.T) / 2
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        raise SuppleError("the mass is not positive definite; modes must be independent") from None
    return matrix
