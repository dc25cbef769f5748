"""A reduced body of which little more is known than its polynomials, as VegaFEM's files have it."""

from __future__ import annotations

import math
from typing import ClassVar, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats
from supple.checks import checked_array, checked_count, numbers, owned_array, shown
from supple.engines.stvk.coefficients import MOST_MODES, pair_count, paired_count, truncated_tangent
from supple.engines.stvk.model import PolynomialBody
from supple.errors import SuppleError
from supple.mesh.surface import SurfaceMesh

__all__ = ["CubicModel", "checked_mass"]


#: How far a mass matrix may be from symmetric, as a part of its size.
_ASYMMETRY = 1e-9


class CubicModel(PolynomialBody):
    """A body whose reduced force is a cubic polynomial, given by its tangent's coefficients.

    `supple.formats.read_vega` makes one of VegaFEM's files, and `StvkSimulator` steps it. What a
    `StvkModel` can do beyond that needs the mesh and its material.

    Parameters
    ----------
    tangent
        (r(r+1)/2, 1 + r + r(r+1)/2), laid out as `StvkModel.tangent`.
    mass
        (r, r); by default the identity, which is that of mass-normalised modes.
    surface, surface_basis
        What is seen, and (n̄, 3, r) how it moves with q; or neither.
    axis_weights
        (3, r) UᵀM times a unit acceleration along each axis; without, there is no gravity.

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
        seen = f"{len(self._basis)} surface vertices" if self.has_surface else "no surface"
        return f"CubicModel({self.modes} modes, {seen})"

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
        """Whether anything is seen."""
        return self._surface is not None

    @property
    def surface(self) -> SurfaceMesh:
        """What is seen; an error where that is nothing."""
        if self._surface is None:
            raise SuppleError(
                "this model has no surface: coefficients alone do not say what moves; read them "
                "with modes (.U or .float) and a mesh (.obj or .veg)"
            )
        return self._surface

    @property
    def surface_basis(self) -> Floats:
        """(n̄, 3, r) how what is seen moves with q; an error where that is nothing."""
        return self._basis[: len(self.surface.vertices)]

    @property
    def scale(self) -> float:
        """A size of q: with one so large, K₂[q, q] is as stiff as K₀."""
        r = self.modes
        first = float(np.abs(self._tangent[:, 0]).max())
        second = float(np.abs(self._tangent[:, 1 + r :]).max())
        return math.sqrt(first / second) if second > 0 else 1.0

    def weight(self, gravity: ArrayLike) -> Floats:
        """UᵀM g: the reduced force of an acceleration in m/s², (r,)."""
        pull = checked_array("gravity", gravity, (3,))
        if self.axis_weights is not None:
            return pull @ self.axis_weights
        if pull.any():
            raise SuppleError(
                "this model has no gravity: coefficients do not say where mass is; read them with "
                "modes (.U) and a mesh that has densities (.veg)"
            )
        return np.zeros(self.modes)

    def with_material(
        self,
        group: int = 0,
        *,
        young: float | None = None,
        poisson: float | None = None,
        density: float | None = None,
    ) -> NoReturn:
        """Refuse; see `StvkModel.with_material` for what can be changed."""
        raise SuppleError(
            "this model's material cannot be changed: its coefficients are sums in which λ and μ "
            "are not apart; use StvkModel.from_basis with the mesh, a material and the modes"
        )

    def truncate(self, modes: int) -> CubicModel:
        """The model of the first coordinates, the others staying zero."""
        fewer = checked_count("the number of modes", modes)
        if fewer > self.modes:
            raise SuppleError(f"{fewer} modes asked for, and the model has {self.modes}")
        weights = self.axis_weights
        return CubicModel(
            truncated_tangent(self._tangent, self.modes, fewer),
            self.mass[:fewer, :fewer],
            surface=self._surface,
            surface_basis=self._basis[:, :, :fewer] if self.has_surface else None,
            axis_weights=None if weights is None else weights[:, :fewer],
        )


def _checked_tangent(tangent: ArrayLike) -> Floats:
    given = numbers("the tangent", tangent)
    r = paired_count(len(given)) if given.ndim == 2 else 0
    if r == 0 or given.shape != (pair_count(r), 1 + r + pair_count(r)):
        raise SuppleError(
            f"a tangent of shape {given.shape}; expected (p, 1 + r + p) with p = r(r+1)/2"
        )
    if r > MOST_MODES:
        raise SuppleError(f"{r} modes are too many; use at most {MOST_MODES}")
    return owned_array("the tangent", given, given.shape)


def checked_mass(mass: ArrayLike, r: int) -> Floats:
    """A copy of the mass of r coordinates, (r, r): symmetric and positive definite."""
    given = owned_array("the mass", mass, (r, r))
    if np.abs(given - given.T).max() > _ASYMMETRY * np.abs(given).max():
        raise SuppleError("the mass is not symmetric")
    given = (given + given.T) / 2
    try:
        np.linalg.cholesky(given)
    except np.linalg.LinAlgError:
        raise SuppleError("the mass is not positive definite; modes must be independent") from None
    return given
