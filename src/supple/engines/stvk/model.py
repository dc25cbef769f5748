"""A Saint Venant–Kirchhoff body in a basis, its forces polynomials (barbic2005 §4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats, Singles
from supple.checks import checked_array, checked_count, checked_number
from supple.elastic.densities.density import lame_parameters
from supple.elastic.material import Material
from supple.engines.stvk.build import (
    checked_basis,
    elastic_basis,
    held_count,
    mass_parts,
    surface_of,
)
from supple.engines.stvk.coefficients import MOST_MODES, monomials, stvk_parts, truncated_tangent
from supple.engines.stvk.rigid_integrals import RigidIntegrals
from supple.engines.stvk.strain_points import MaterialGroups, StrainPoints
from supple.errors import SuppleError
from supple.mesh.hexes import HexMesh
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh

__all__ = ["PolynomialBody", "StvkModel"]


# ----------------------------------------------------------------------------
# What all bodies can do whose reduced tangent stiffness is a polynomial of second degree.


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


Progress = Callable[[float], None]


#: The part of the work that makes the basis: 0.5 with 30 modes, 0.9 with 15.
_BASIS_DONE = 0.75


@dataclass(frozen=True, eq=False, repr=False)
class StvkModel(PolynomialBody):
    """An elastic body that moves as x = X + U q, made by `build`, `from_basis` or `load`.

    Attributes
    ----------
    rest
        (n, 3) X in m.
    basis
        (n, 3, r) U; UᵀMU = 1 as long as densities are those it was built with.
    groups
        Which elements share a material, and what it is.
    parts
        (g, 2, r(r+1)/2, 1 + r + r(r+1)/2) coefficients of the tangent stiffness for λ and for
        μ of each group; `supple.engines.stvk.coefficients` says what they multiply.
    mass_parts
        (g, r, r) UᵀMU for a density of 1 kg/m³.
    weight_parts
        (g, 3, r) UᵀM times a unit acceleration along each axis, likewise.
    surface, surface_basis
        What is seen, and (n̄, 3, r) how it moves with q.
    inertia
        What a free body needs to fly (`FreeStvkSimulator`); models of old files have none.

    Examples
    --------
    >>> import numpy as np
    >>> from supple.elastic import Material
    >>> from supple.scenes import beam
    >>> mesh = beam(cells=(6, 2, 2))
    >>> wall = np.flatnonzero(mesh.vertices[:, 0] == 0)
    >>> model = StvkModel.build(mesh, Material("stvk", young=1e5), modes=6, fixed=wall)
    >>> model.force(np.zeros(6)).shape, model.stiffness(np.zeros(6)).shape
    ((6,), (6, 6))
    """

    #: Row of `supple.engines.ENGINES` that steps it.
    engine: ClassVar[str] = "stvk"

    rest: Floats
    basis: Floats
    groups: MaterialGroups
    parts: Floats
    mass_parts: Floats
    weight_parts: Floats
    surface: SurfaceMesh
    surface_basis: Floats
    inertia: RigidIntegrals | None = None

    @classmethod
    def build(
        cls,
        mesh: TetMesh | HexMesh,
        material: Material | None = None,
        modes: int = 20,
        *,
        fixed: ArrayLike = (),
        basis: str = "derivatives",
        groups: ArrayLike | None = None,
        surface: SurfaceMesh | None = None,
        order: int = 2,
        progress: Progress | None = None,
    ) -> StvkModel:
        """A model of a mesh, in a basis that suits it.

        Parameters
        ----------
        mesh
            Tets or hexahedra, none inverted.
        material
            Of kind ``"stvk"``; uniform, or with a few different values among the elements.
        modes
            Size of the basis; cost grows with its fourth power.
        fixed
            Vertices that do not move, or a mask. Without, the body is free: the basis has no
            rigid motions.
        basis
            ``"derivatives"`` (linear modes and their derivatives, for large motion) or
            ``"modes"`` (linear modes alone, for small).
        groups
            (m,) whole numbers: elements whose material can later be changed together. By default
            those of the same material.
        surface
            What is seen, carried by the mesh; by default the mesh's own boundary.
        order
            Integration points along each axis of a hexahedron; three are exact for boxes.
        progress
            Called with the part done, 0 to 1.
        """
        made = Material("stvk") if material is None else material
        modes = checked_count("the number of modes", modes)
        if modes > MOST_MODES:
            raise SuppleError(f"{modes} modes are too many; use at most {MOST_MODES}")
        # What is no mesh, or inverted, or of no such groups, is refused before anything slow.
        MaterialGroups.of(made, StrainPoints.of(mesh, order).n_elements, groups)
        first, then = _parts(progress)
        shapes = elastic_basis(mesh, made, modes, fixed, basis, order, first)
        return cls.from_basis(
            mesh,
            made,
            shapes,
            fixed=fixed,
            groups=groups,
            surface=surface,
            order=order,
            progress=then,
        )

    @classmethod
    def from_basis(
        cls,
        mesh: TetMesh | HexMesh,
        material: Material,
        basis: ArrayLike,
        *,
        fixed: ArrayLike = (),
        groups: ArrayLike | None = None,
        surface: SurfaceMesh | None = None,
        order: int = 2,
        progress: Progress | None = None,
    ) -> StvkModel:
        """A model in a basis U, (n, 3, r) or (3n, r), of independent columns.

        Vertices that are `fixed` must not move in it; a body with any does not fly
        (`FreeStvkSimulator`). The other parameters are those of `build`.
        """
        points = StrainPoints.of(mesh, order)
        grouped = MaterialGroups.of(material, points.n_elements, groups)
        shapes = checked_basis(basis, points, grouped, MOST_MODES)
        held = held_count(fixed, points, shapes)
        seen, carried = surface_of(mesh, surface, shapes)
        group = grouped.of_element[points.element]
        mass, weight = mass_parts(points, group, len(grouped), shapes)
        parts = stvk_parts(points, group, shapes, progress)
        rest = np.array(mesh.vertices, np.float64)
        inertia = RigidIntegrals.of(points, group, len(grouped), rest, shapes, held)
        return cls(rest, shapes, grouped, parts, mass, weight, seen, carried, inertia)

    def __repr__(self) -> str:
        return (
            f"StvkModel({len(self.rest)} vertices, {self.modes} modes, {len(self.groups)} groups)"
        )

    @property
    def modes(self) -> int:
        """Size r of the basis."""
        return self.basis.shape[2]

    @cached_property
    def tangent(self) -> Floats:
        """Coefficients of the tangent stiffness, (r(r+1)/2, 1 + r + r(r+1)/2)."""
        mu, lam = lame_parameters(self.groups.young, self.groups.poisson)
        total = np.zeros(self.parts.shape[2:])
        for own, bulk, shear in zip(self.parts, lam, mu, strict=True):
            total += bulk * own[0]
            total += shear * own[1]
        return total

    @cached_property
    def mass(self) -> Floats:
        """UᵀMU, (r, r)."""
        return np.einsum("g,gij->ij", self.groups.density, self.mass_parts)

    def weight(self, gravity: ArrayLike) -> Floats:
        """UᵀM g: the reduced force of an acceleration in m/s², (r,)."""
        pull = checked_array("gravity", gravity, (3,))
        return np.einsum("g,gkj,k->j", self.groups.density, self.weight_parts, pull)

    def positions(self, q: ArrayLike) -> Floats:
        """X + U q, (n, 3)."""
        return self.rest + self.basis @ self._reduced(q)

    def with_material(
        self,
        group: int = 0,
        *,
        young: float | None = None,
        poisson: float | None = None,
        density: float | None = None,
    ) -> StvkModel:
        """The same body with a group of another material: what building it anew would give.

        The basis stays, so that with another density UᵀMU is no longer the identity.
        """
        group = checked_count("the group", group, 0)
        if group >= len(self.groups):
            raise SuppleError(f"group {group} is not there; there are {len(self.groups)}")
        changed = {}
        for name, value in (("young", young), ("poisson", poisson), ("density", density)):
            column = getattr(self.groups, name).copy()
            if value is not None:
                column[group] = checked_number(name, value)
            changed[name] = column
        Material("stvk", **changed)  # refuses what no material has
        return replace(self, groups=replace(self.groups, **changed))

    def truncate(self, modes: int) -> StvkModel:
        """The model in the first columns of its basis: what building it anew would give."""
        fewer = checked_count("the number of modes", modes)
        if fewer > self.modes:
            raise SuppleError(f"{fewer} modes asked for, and the model has {self.modes}")
        return replace(
            self,
            basis=np.ascontiguousarray(self.basis[:, :, :fewer]),
            parts=truncated_tangent(self.parts, self.modes, fewer),
            mass_parts=np.ascontiguousarray(self.mass_parts[:, :fewer, :fewer]),
            weight_parts=np.ascontiguousarray(self.weight_parts[:, :, :fewer]),
            surface_basis=np.ascontiguousarray(self.surface_basis[:, :, :fewer]),
            inertia=None if self.inertia is None else self.inertia.truncate(fewer),
        )

    def save(self, path: str | Path) -> None:
        """Write to one file, whole or not at all; by habit it ends with ``.stvk``."""
        from supple.engines.stvk.stvk_file import save_stvk

        save_stvk(self, path)

    @classmethod
    def load(cls, path: str | Path) -> StvkModel:
        """Read what `save` wrote."""
        from supple.engines.stvk.stvk_file import load_stvk

        return load_stvk(path)


def _parts(progress: Progress | None) -> tuple[Progress | None, Progress | None]:
    """Progress of making the basis, and of what follows."""
    if progress is None:
        return None, None
    return (
        lambda part: progress(_BASIS_DONE * part),
        lambda part: progress(_BASIS_DONE + (1 - _BASIS_DONE) * part),
    )
