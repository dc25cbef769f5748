"""Saint Venant–Kirchhoff body in a basis, its forces polynomials (barbic2005 §4)."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Unpack

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats
from supple.checks import checked_array, checked_count
from supple.elastic.densities.density import lame_parameters
from supple.elastic.material import Material
from supple.engines.stvk.build import (
    checked_basis,
    elastic_basis,
    held_count,
    mass_parts,
    surface_of,
)
from supple.engines.stvk.coefficients import MOST_MODES, stvk_parts, truncated_tangent
from supple.engines.stvk.cubic_model import PolynomialBody, fewer_modes
from supple.engines.stvk.rigid_integrals import RigidIntegrals
from supple.engines.stvk.strain_points import MaterialChange, MaterialGroups, StrainPoints
from supple.engines.stvk.stvk_file import StvkFields, load_stvk, save_stvk
from supple.errors import SuppleError
from supple.mesh.hexes import HexMesh
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh
from supple.progress import PartDone

#: The part of the work that makes the basis: 0.5 with 30 modes, 0.9 with 15.
_BASIS_DONE = 0.75


@dataclass(frozen=True, eq=False, repr=False)
class StvkModel(StvkFields, PolynomialBody):
    """Elastic body that moves as x = X + U q, made by `build`, `from_basis` or `load`.

    Attributes
    ----------
    rest
        (n, 3) X in m.
    basis
        (n, 3, r) U; UᵀMU = 1 as long as densities are those it was built with.
    groups
        Groups of elements that share a material, and these materials.
    parts
        (g, 2, r(r+1)/2, 1 + r + r(r+1)/2) coefficients of the tangent stiffness for λ and for
        μ of each group; `supple.engines.stvk.coefficients` says what they multiply.
    mass_parts
        (g, r, r) UᵀMU for a density of 1 kg/m³.
    weight_parts
        (g, 3, r) UᵀM times a unit acceleration along each axis, likewise.
    surface, surface_basis
        Surface X̄, and Ū (n̄, 3, r): how it moves with q.
    inertia
        Moments that a free body needs to fly (`FreeStvkSimulator`); models of old files have none.

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
        progress: PartDone | None = None,
    ) -> StvkModel:
        """Build the model of a mesh, in a basis that suits it.

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
            Surface that is shown, carried by the mesh; by default the mesh's own boundary.
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
        progress: PartDone | None = None,
    ) -> StvkModel:
        """Build a model in a given basis U, (n, 3, r) or (3n, r), of independent columns.

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

    @cached_property
    def tangent(self) -> Floats:
        """Coefficients of the tangent stiffness, (r(r+1)/2, 1 + r + r(r+1)/2)."""
        mu, lam = lame_parameters(self.groups.young, self.groups.poisson)
        total = np.zeros(self.parts.shape[2:])
        for own, bulk, shear in zip(self.parts, lam, mu, strict=True):
            total += bulk * own[0]
            total += shear * own[1]
        return total

    def weight(self, gravity: ArrayLike) -> Floats:
        """UᵀM g: the reduced force of an acceleration in m/s², (r,)."""
        pull = checked_array("gravity", gravity, (3,))
        return np.einsum("g,gkj,k->j", self.groups.density, self.weight_parts, pull)

    def positions(self, q: ArrayLike) -> Floats:
        """X + U q, (n, 3)."""
        return self.rest + self.basis @ self._reduced(q)

    def with_material(self, group: int = 0, **changed: Unpack[MaterialChange]) -> StvkModel:
        """Return the body with another material for a group, as building it anew would give.

        The basis stays, so that with another density UᵀMU is no longer the identity.

        Parameters
        ----------
        group
            Number of the group.
        **changed
            ``young`` in Pa, ``poisson``, ``density`` in kg/m³; the others stay.
        """
        return replace(self, groups=self.groups.changed(group, **changed))

    def truncate(self, modes: int) -> StvkModel:
        """Return the model in the first columns of its basis, as building it anew would give."""
        fewer = fewer_modes(modes, self.modes)
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
        save_stvk(self, path)

    @classmethod
    def load(cls, path: str | Path) -> StvkModel:
        """Read what `save` wrote."""
        found = load_stvk(path)
        return cls(**{each.name: getattr(found, each.name) for each in fields(found)})


def _parts(progress: PartDone | None) -> tuple[PartDone | None, PartDone | None]:
    """Return progress of making the basis, and of what follows."""
    if progress is None:
        return None, None
    return (
        lambda part: progress(_BASIS_DONE * part),
        lambda part: progress(_BASIS_DONE + (1 - _BASIS_DONE) * part),
    )
