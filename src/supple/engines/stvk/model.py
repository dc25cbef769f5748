"""Saint Venant–Kirchhoff body in a basis, its forces polynomials (barbic2005 §4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Self, Unpack

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints
from supple.checks import checked_array, checked_count
from supple.elastic.densities.density import lame_parameters
from supple.elastic.material import Material
from supple.engines.common.model_file import AGAIN, STVK_FORMAT, StoredModel
from supple.engines.stvk.build import (
    BasisRequest,
    checked_basis,
    checked_mass_kind,
    elastic_basis,
    held_count,
    mass_parts,
    surface_of,
)
from supple.engines.stvk.coefficients import MOST_MODES, pair_count, stvk_parts, tangent_of_columns
from supple.engines.stvk.cubic_model import (
    PolynomialBody,
    checked_mass,
    first_columns,
    kept_columns,
)
from supple.engines.stvk.rigid_integrals import RigidIntegrals
from supple.engines.stvk.strain_points import (
    MOST_GROUPS,
    MaterialChange,
    MaterialGroups,
    StrainPoints,
)
from supple.errors import FormatError, SuppleError
from supple.mesh.hexes import HexMesh
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh
from supple.progress import PartDone
from supple.rig.stored.field_reader import DOUBLE, INT32, Field, Values
from supple.rig.stored.schema import Array, Group

#: Fraction of the time for the basis: 0.5 with 30 modes, 0.9 with 15.
_BASIS_DONE = 0.75
#: Relative rounding error of a moment, or between two that are equal.
_ROUNDING = 1e-9


def _groups(materials: Floats, of_element: Ints) -> MaterialGroups:
    if not len(of_element):
        raise FormatError(f"has no elements; {AGAIN}")
    young, poisson, density = (np.ascontiguousarray(column) for column in materials.T)
    Material("stvk", young, poisson, density)  # refuses constants that no material has
    return MaterialGroups(of_element, young, poisson, density)


def _inertia(held: Ints, **moments: Floats) -> RigidIntegrals:
    return RigidIntegrals(**moments, held=int(held[0]))


STVK_SCHEMA: tuple[Field, ...] = (
    Array("rest", DOUBLE, ("n", 3)),
    Array("basis", DOUBLE, ("n", 3, "r")),
    Group(
        "groups",
        _groups,
        (
            Array(
                "groups.materials",
                DOUBLE,
                ("g", 3),
                lambda model: np.column_stack(
                    [model.groups.young, model.groups.poisson, model.groups.density]
                ),
                attribute="materials",
            ),
            Array("groups.of_element", INT32, (None,), below="g"),
        ),
    ),
    Array(
        "parts",
        DOUBLE,
        (
            "g",
            2,
            lambda sizes: pair_count(sizes["r"]),
            lambda sizes: 1 + sizes["r"] + pair_count(sizes["r"]),
        ),
    ),
    Array("mass_parts", DOUBLE, ("g", "r", "r")),
    Array("weight_parts", DOUBLE, ("g", 3, "r")),
    Group(
        "surface",
        SurfaceMesh,
        (
            Array("surface.vertices", DOUBLE, ("skin", 3)),
            Array("surface.triangles", INT32, (None, 3)),
        ),
    ),
    Array("surface.basis", DOUBLE, ("skin", 3, "r"), "surface_basis"),
    Group(  # files of older versions have none
        "inertia",
        _inertia,
        (
            Array("inertia.about", DOUBLE, (3,)),
            Array("inertia.volumes", DOUBLE, ("g",)),
            Array("inertia.first", DOUBLE, ("g", 3)),
            Array("inertia.second", DOUBLE, ("g", 3, 3)),
            Array("inertia.mixed", DOUBLE, ("g", 3, 3, "r")),
            Array("inertia.shapes", DOUBLE, ("g", 3, 3, "r", "r")),
            Array(
                "inertia.held", INT32, (1,), lambda model: [model.inertia.held], attribute="held"
            ),
        ),
        optional=True,
    ),
)


@dataclass(frozen=True, eq=False, repr=False)
class StvkModel(StoredModel, PolynomialBody):
    """Elastic body with displacements U q, made by `build`, `from_basis` or `load`.

    Attributes
    ----------
    rest
        (n, 3) rest positions X in m.
    basis
        (n, 3, r) U; UᵀMU = 1 for lumped masses and the densities of the build.
    groups
        Groups of elements that share a material, and these materials.
    parts
        (g, 2, r(r+1)/2, 1 + r + r(r+1)/2) coefficients of the tangent stiffness for λ and for
        μ of each group; see `supple.engines.stvk.coefficients`.
    mass_parts
        (g, r, r) UᵀMU for a density of 1 kg/m³.
    weight_parts
        (g, 3, r) UᵀM times a unit acceleration along each axis, for a density of 1 kg/m³.
    surface, surface_basis
        Surface X̄, and its basis Ū (n̄, 3, r).
    inertia
        Moments for free bodies (`FreeStvkSimulator`); None in models of old files.

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

    engine: ClassVar[str] = "stvk"
    schema: ClassVar[tuple[Field, ...]] = STVK_SCHEMA
    file_format: ClassVar[str] = STVK_FORMAT

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
        linear: int | None = None,
        groups: ArrayLike | None = None,
        surface: SurfaceMesh | None = None,
        order: int = 2,
        mass: str = "lumped",
        progress: PartDone | None = None,
    ) -> StvkModel:
        """Build the model of a mesh and its basis.

        Parameters
        ----------
        mesh
            Tets or hexahedra, none inverted.
        material
            Material of kind ``"stvk"``, uniform or with few distinct values.
        modes
            Size of the basis; cost grows with its fourth power.
        fixed
            Fixed vertices, or a mask. Without them the body is free, and the basis has no rigid
            motions.
        basis
            ``"derivatives"`` (linear modes and their derivatives, for large motion), ``"modes"``
            (linear modes alone, for small motion) or ``"sketch"`` (static shapes under strong
            pulls; takes a minute).
        linear
            Number of linear modes of basis ``"derivatives"``. By default the one with the least
            error under strong static loads; two fifths of `modes` for free bodies and those of
            over 30,000 vertices.
        groups
            (m,) group number of each element; the material of a group can be changed. By default
            elements of equal material form a group.
        surface
            Surface to display, embedded in the mesh; by default the boundary of the mesh.
        order
            Integration points along each axis of a hexahedron; three are exact for boxes.
        mass
            ``"lumped"``, a diagonal mass matrix, or ``"consistent"``, that of the shape functions.
        progress
            Called with the part done, 0 to 1.
        """
        chosen = Material("stvk") if material is None else material
        modes = checked_count("the number of modes", modes)
        if modes > MOST_MODES:
            raise SuppleError(f"{modes} modes are too many; use at most {MOST_MODES}")
        checked_mass_kind(mass)
        # Checked before anything slow: the mesh, the orientation of its elements, and the groups.
        MaterialGroups.of(chosen, StrainPoints.of(mesh, order).n_elements, groups)
        first, then = _parts(progress)
        request = BasisRequest(basis, modes, linear)
        shapes = elastic_basis(mesh, chosen, request, fixed, order, first)
        return cls.from_basis(
            mesh,
            chosen,
            shapes,
            fixed=fixed,
            groups=groups,
            surface=surface,
            order=order,
            mass=mass,
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
        mass: str = "lumped",
        progress: PartDone | None = None,
    ) -> StvkModel:
        """Build a model in a given basis U, (n, 3, r) or (3n, r), of independent columns.

        Vertices that are `fixed` must not move in it. `FreeStvkSimulator` needs a body without
        fixed vertices. The other parameters are as for `build`.
        """
        points, mass = StrainPoints.of(mesh, order), checked_mass_kind(mass)
        grouped = MaterialGroups.of(material, points.n_elements, groups)
        shapes = checked_basis(basis, points, grouped, MOST_MODES)
        held = held_count(fixed, points, shapes)
        skin, skin_basis = surface_of(mesh, surface, shapes)
        group = grouped.of_element[points.element]
        masses, weight = mass_parts(points, group, len(grouped), shapes, mass)
        parts = stvk_parts(points, group, shapes, progress)
        rest = np.array(mesh.vertices, np.float64)
        inertia = RigidIntegrals.of(points, group, len(grouped), rest, shapes, held, mass)
        return cls(rest, shapes, grouped, parts, masses, weight, skin, skin_basis, inertia)

    def __repr__(self) -> str:
        return (
            f"StvkModel({len(self.rest)} vertices, {self.modes} modes, {len(self.groups)} groups)"
        )

    @property
    def modes(self) -> int:
        """Size r of the basis."""
        return self.basis.shape[2]

    @cached_property
    def mass(self) -> Floats:
        """UᵀMU, (r, r)."""
        return np.einsum("g,gij->ij", self.groups.density, self.mass_parts)

    @cached_property
    def tangent(self) -> Floats:
        """Coefficients of the tangent stiffness, (r(r+1)/2, 1 + r + r(r+1)/2)."""
        mu, lam = lame_parameters(self.groups.young, self.groups.poisson)
        total = np.zeros(self.parts.shape[2:])
        for part, bulk, shear in zip(self.parts, lam, mu, strict=True):
            total += bulk * part[0]
            total += shear * part[1]
        return total

    def weight(self, gravity: ArrayLike) -> Floats:
        """Return UᵀM g, the reduced force (r,) of an acceleration in m/s²."""
        pull = checked_array("gravity", gravity, (3,))
        return np.einsum("g,gkj,k->j", self.groups.density, self.weight_parts, pull)

    def positions(self, q: ArrayLike) -> Floats:
        """Return X + U q, (n, 3)."""
        return self.rest + self.basis @ self._reduced(q)

    def with_material(self, group: int = 0, **changed: Unpack[MaterialChange]) -> StvkModel:
        """Return the body with another material for a group, as a new build in this basis gives.

        With another density UᵀMU is not the identity.

        Parameters
        ----------
        group
            Number of the group.
        **changed
            ``young`` in Pa, ``poisson``, ``density`` in kg/m³; others do not change.
        """
        return replace(self, groups=self.groups.changed(group, **changed))

    def with_columns(self, columns: ArrayLike) -> StvkModel:
        """Return the model in some columns of its basis, ascending (barbic2005 §6.5)."""
        kept = kept_columns(columns, self.modes)
        return replace(
            self,
            basis=np.ascontiguousarray(self.basis[:, :, kept]),
            parts=tangent_of_columns(self.parts, self.modes, kept),
            mass_parts=np.ascontiguousarray(self.mass_parts[:, kept[:, None], kept]),
            weight_parts=np.ascontiguousarray(self.weight_parts[:, :, kept]),
            surface_basis=np.ascontiguousarray(self.surface_basis[:, :, kept]),
            inertia=None if self.inertia is None else self.inertia.with_columns(kept),
        )

    def truncate(self, modes: int) -> StvkModel:
        """Return the model in the first `modes` columns of its basis."""
        return self.with_columns(first_columns(modes, self.modes))

    @classmethod
    def from_stored(cls, fields: Values, sizes: Mapping[str, int]) -> Self:
        """Return the model with these fields; raise FormatError for values no body can have."""
        if not (1 <= sizes["r"] <= MOST_MODES and 1 <= sizes["g"] <= MOST_GROUPS):
            counts = f"{sizes['r']} modes and {sizes['g']} groups"
            limits = f"1 to {MOST_MODES} modes and 1 to {MOST_GROUPS} groups"
            raise FormatError(f"has {counts}, but needs {limits}; {AGAIN}")
        model = cls(**fields)
        _check_physical(model)
        return model


def _parts(progress: PartDone | None) -> tuple[PartDone | None, PartDone | None]:
    """Return progress functions of the basis and of the other stages."""
    if progress is None:
        return None, None
    return (
        lambda part: progress(_BASIS_DONE * part),
        lambda part: progress(_BASIS_DONE + (1 - _BASIS_DONE) * part),
    )


# A checksum does not prove that a model is physical. An invalid mass would cause an error deep in a
# simulator, or none, so that models from files are checked here.


def _check_physical(model: StvkModel) -> None:
    """Raise FormatError for a model with an impossible mass, size, basis or inertia."""
    with np.errstate(over="ignore", invalid="ignore"):  # checks refuse overflow
        _check_shapes(model)
        _check_mass(model)
        if model.inertia is not None:
            _check_inertia(model, model.inertia)


def _refused(what: str) -> FormatError:
    return FormatError(f"{what}, which is impossible; {AGAIN}")


def _check_shapes(model: StvkModel) -> None:
    if not (len(model.rest) and np.ptp(model.rest, axis=0).any()):
        raise _refused("has all vertices at one point")
    still = ~model.basis.any(axis=(0, 1))
    if still.any():
        raise _refused(f"has a column of zeros in its basis (column {int(still.argmax())})")


def _check_mass(model: StvkModel) -> None:
    for number, part in enumerate(model.mass_parts):
        if not _semidefinite(part):
            raise _refused(f"has a mass of group {number} that is not symmetric or not positive")
    try:
        checked_mass(model.mass, model.modes)
    except SuppleError as error:
        raise FormatError(f"{error}; {AGAIN}") from error


def _check_inertia(model: StvkModel, inertia: RigidIntegrals) -> None:
    if not (inertia.volumes > 0).all():
        raise _refused("has groups without volume")
    if not 0 <= inertia.held <= len(model.rest):
        raise _refused(f"has {inertia.held} of {len(model.rest)} vertices held")
    arms = inertia.first[:, :, None] * inertia.first[:, None, :]
    for number, second in enumerate(inertia.second):
        spread = second - arms[number] / inertia.volumes[number]  # about the centre of the group
        if not (_semidefinite(second) and _semidefinite(spread, float(np.trace(second)))):
            raise _refused(f"has second moments of group {number} that are not positive")
    # Products of shapes are symmetric, and their sum over the axes is the mass.
    shapes = inertia.shapes
    _check_same("products of shapes", shapes, shapes.transpose(0, 2, 1, 4, 3))
    _check_same("products of shapes", np.einsum("gaaij->gij", shapes), model.mass_parts)
    moments = inertia.moments(model.groups.density, model.weight_parts)
    if not _semidefinite(moments.inertia_terms[0], strict=True):
        raise _refused("has an inertia that is not positive")


def _check_same(what: str, values: Floats, expected: Floats) -> None:
    if not np.abs(values - expected).max() <= _ROUNDING * np.abs(expected).max():
        raise _refused(f"has {what} that contradict each other")


def _semidefinite(matrix: Floats, size: float = 0.0, *, strict: bool = False) -> bool:
    """Return whether a matrix is symmetric and positive (semi-)definite, up to rounding."""
    size = max(size, float(np.abs(matrix).max()))
    if not (np.isfinite(size) and np.abs(matrix - matrix.T).max() <= _ROUNDING * size):
        return False
    lowest = float(np.linalg.eigvalsh(matrix / size if size else matrix)[0])
    return lowest > 0 if strict else lowest >= -_ROUNDING
