"""Integration points of strain: gradients of shape functions, for any kind of element.

Energy is a sum of squares of rows of strains. With F = 1 + Σ q_i ∇U_i strain is ½(FᵀF − 1): every
row is a quadratic form of F's columns. So a row needs no more than products of pairs of columns of
a wider basis, the body at rest before U: pairs of rest and mode i are e_i, pairs of modes i and j
are Q_ij.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Protocol, TypedDict

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints
from supple.checks import checked_count, checked_number, plain_array, shown
from supple.compiled.jit import compiled_fused
from supple.elastic.material import Material
from supple.errors import MeshError, SuppleError
from supple.mesh.hexes import HexMesh, gauss_points, shape_functions, shape_gradients
from supple.mesh.tets import TetMesh

#: Largest number of groups, as each has coefficients.
MOST_GROUPS = 64


@dataclass(frozen=True, eq=False)
class StrainPoints:
    """Integration points of a mesh, each with the volume around it.

    A linear tet has one point, a trilinear hexahedron eight or more. Any element with k corners and
    shape functions can be described. `corners` (p, k) are vertices with nonzero shape functions at
    a point, `slopes` (p, k, 3) gradients ∂N/∂X of these, in 1/m, and `shares` (p, k) volumes
    in m³ lumped to each corner; rows sum to `volumes` (p,). `element` (p,) is the mesh's
    element of a point.
    """

    corners: Ints
    slopes: Floats
    shares: Floats
    volumes: Floats
    element: Ints
    n_vertices: int
    n_elements: int

    def __post_init__(self) -> None:
        """Check that the arrays are consistent, as kernels do not."""
        count, corners = self.corners.shape
        arrays = self.slopes, self.shares, self.volumes, self.element
        shapes = [array.shape for array in arrays]
        if shapes != [(count, corners, 3), (count, corners), (count,), (count,)]:
            raise SuppleError(f"arrays of integration points have inconsistent shapes: {shapes}")
        for what, indices, end in (
            ("vertex", self.corners, self.n_vertices),
            ("element", self.element, self.n_elements),
        ):
            if not (count and indices.min() >= 0 and indices.max() < end):
                raise MeshError(f"integration points refer to a {what} that does not exist")
        if not all(np.isfinite(array).all() for array in (self.slopes, self.shares)):
            raise MeshError("shape functions are not finite; remove flat elements")
        if not (self.volumes > 0).all():
            worst = int(self.volumes.argmin())
            raise MeshError(
                f"element {int(self.element[worst])} is inverted or flat (volume "
                f"{self.volumes[worst]:.3g} m³ at a point); reorient or remove it"
            )

    def __len__(self) -> int:
        return len(self.volumes)

    @classmethod
    def of(cls, mesh: TetMesh | HexMesh, order: int = 2) -> StrainPoints:
        """Return the points of a mesh: one per tet, or `order`³ per hexahedron."""
        if isinstance(mesh, TetMesh):
            return cls.of_tets(mesh)
        if isinstance(mesh, HexMesh):
            return cls.of_hexes(mesh, order)
        raise SuppleError(f"a body is made of a TetMesh or a HexMesh, not {shown(mesh)}")

    @classmethod
    def of_tets(cls, mesh: TetMesh) -> StrainPoints:
        """Return one point per tet, in which strain is constant."""
        volumes = mesh.positive_volumes()
        origin, *ends = (mesh.vertices[mesh.tets[:, k]] for k in range(4))
        edges = np.stack([end - origin for end in ends], axis=1)  # rows X_k − X_0
        slopes = np.empty((len(volumes), 4, 3))
        slopes[:, 1:] = np.swapaxes(np.linalg.inv(edges), 1, 2)
        slopes[:, 0] = -slopes[:, 1:].sum(axis=1)
        return cls(
            corners=np.ascontiguousarray(mesh.tets, np.int64),
            slopes=slopes,
            shares=np.repeat(volumes[:, None] / 4, 4, axis=1),
            volumes=volumes,
            element=np.arange(len(volumes)),
            n_vertices=len(mesh.vertices),
            n_elements=len(volumes),
        )

    @classmethod
    def of_hexes(cls, mesh: HexMesh, order: int = 2) -> StrainPoints:
        """Return Gauss points, `order` along each axis; three are exact for boxes."""
        places, weights = gauss_points(order)
        values, reference = shape_functions(places), shape_gradients(places)
        count = len(places)
        # ∂x_i/∂ξ_k of every hex and point; ∂N/∂X = ∂N/∂ξ (∂x/∂ξ)⁻¹.
        tangents = np.einsum("hai,gak->hgik", mesh.vertices[mesh.hexes], reference)
        volumes = np.linalg.det(tangents) * weights
        if not (volumes > 0).all():
            worst = int(volumes.argmin()) // count
            raise MeshError(
                f"{int((volumes <= 0).any(axis=1).sum())} hexes are inverted or flat (worst: hex "
                f"{worst}); use mesh.oriented() or remove them"
            )
        slopes = np.einsum("gak,hgki->hgai", reference, np.linalg.inv(tangents))
        return cls(
            corners=np.repeat(np.asarray(mesh.hexes, np.int64), count, axis=0),
            slopes=slopes.reshape(-1, 8, 3),
            shares=(volumes[:, :, None] * values).reshape(-1, 8),
            volumes=volumes.ravel(),
            element=np.repeat(np.arange(len(mesh.hexes)), count),
            n_vertices=len(mesh.vertices),
            n_elements=len(mesh.hexes),
        )

    def taken(self, chosen: Ints) -> StrainPoints:
        """Return some of the points, in the given order."""
        return StrainPoints(
            self.corners[chosen],
            self.slopes[chosen],
            self.shares[chosen],
            self.volumes[chosen],
            self.element[chosen],
            self.n_vertices,
            self.n_elements,
        )

    def vertex_volumes(self) -> Floats:
        """Return the volume lumped to each vertex, (n,)."""
        flat = np.bincount(self.corners.ravel(), self.shares.ravel(), minlength=self.n_vertices)
        return np.asarray(flat, np.float64)


@compiled_fused
def add_gradients(corners: Ints, slopes: Floats, basis: Floats, out: Floats) -> None:
    """Add ∂U_i/∂X_k of all modes at one point to `out` (3, 3, r)."""
    for a in range(len(corners)):
        for i in range(3):
            row = basis[corners[a], i]
            for k in range(3):
                slope, target = slopes[a, k], out[i, k]
                for j in range(len(target)):
                    target[j] += slope * row[j]


def volume_matrix(points: StrainPoints, mass: str) -> sp.csr_array:
    """Return the mass matrix (n, n) at 1 kg/m³, ``"lumped"`` (diagonal) or ``"consistent"``."""
    n, corners = points.n_vertices, points.corners.shape[1]
    if mass == "lumped":
        return sp.csr_array(sp.diags_array(points.vertex_volumes()))
    if corners == 4:  # a point of a linear tet is exact for strain, not for products of functions
        entries = points.volumes[:, None, None] / 20 * (1 + np.eye(4))
    else:
        values = points.shares / points.volumes[:, None]
        entries = points.shares[:, :, None] * values[:, None, :]
    rows, columns = (
        np.broadcast_to(points.corners[index], entries.shape).ravel()
        for index in ((slice(None), slice(None), None), (slice(None), None, slice(None)))
    )
    return sp.csr_array(sp.coo_array((entries.ravel(), (rows, columns)), shape=(n, n)))


class MaterialChange(TypedDict, total=False):
    """New values for a group of elements, in Pa and kg/m³; None or absent for no change."""

    young: float | None
    poisson: float | None
    density: float | None


@dataclass(frozen=True, eq=False)
class MaterialGroups:
    """Groups of elements that share a material: the group of each element (m,), constants (g,)."""

    of_element: Ints
    young: Floats
    poisson: Floats
    density: Floats

    @classmethod
    def of(
        cls, material: Material, n_elements: int, groups: ArrayLike | None = None
    ) -> MaterialGroups:
        """Return groups numbered by `groups` (m,), or one per distinct material."""
        if not isinstance(material, Material):
            raise SuppleError(f"a body needs a Material, not {shown(material)}")
        if material.kind != "stvk":
            raise SuppleError(
                f"only Material('stvk') has polynomial forces, not {material.kind!r}; "
                "make one with its Young's modulus and Poisson's ratio"
            )
        material.element_parameters(n_elements)  # checks the counts
        values = [np.broadcast_to(v, n_elements) for v in (material.young, material.poisson)]
        table = np.column_stack([*values, material.densities(n_elements)])
        numbers = _distinct(table) if groups is None else _checked_groups(groups, n_elements)
        count = int(numbers.max()) + 1
        if count > MOST_GROUPS:
            raise SuppleError(
                f"{count} different materials, and at most {MOST_GROUPS} are possible; "
                "round painted values to fewer"
            )
        first = np.array([np.argmax(numbers == group) for group in range(count)])
        materials = table[first]
        if not (table == materials[numbers]).all():
            odd = int(np.argmax((table != materials[numbers]).any(axis=1)))
            raise SuppleError(
                f"group {numbers[odd]} has several materials (element {odd} differs from "
                f"element {first[numbers[odd]]}); give each material a group"
            )
        return cls(numbers, *(np.ascontiguousarray(column) for column in materials.T))

    def __len__(self) -> int:
        return len(self.young)

    def changed(
        self,
        group: int,
        *,
        young: float | None = None,
        poisson: float | None = None,
        density: float | None = None,
    ) -> MaterialGroups:
        """Return the groups with another material for one group; None keeps a value."""
        group = checked_count("the group", group, 0)
        if group >= len(self):
            raise SuppleError(f"there is no group {group}; groups are 0 to {len(self) - 1}")
        changed = {}
        for name, value in (("young", young), ("poisson", poisson), ("density", density)):
            column = getattr(self, name).copy()
            if value is not None:
                column[group] = checked_number(name, value)
            changed[name] = column
        Material("stvk", **changed)  # checks the constants
        return replace(self, **changed)


def _distinct(table: Floats) -> Ints:
    """Return the number of each row (m,): equal rows share one, in order of first occurrence."""
    _, first, inverse = np.unique(table, axis=0, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse.reshape(-1)]


def _checked_groups(groups: ArrayLike, n_elements: int) -> Ints:
    numbers = plain_array("groups", groups)
    if numbers.shape != (n_elements,) or numbers.dtype.kind not in "iu":
        raise SuppleError(f"groups must be a whole number for each of {n_elements} elements")
    if numbers.min() < 0 or numbers.max() >= MOST_GROUPS:
        raise SuppleError(f"group numbers must be 0 to {MOST_GROUPS - 1}")
    if (np.bincount(numbers) == 0).any():
        raise SuppleError(f"group {int(np.argmin(np.bincount(numbers)))} has no elements")
    return numbers.astype(np.int64)


class StrainRows(Protocol):
    """Source of strain rows, in classes with weights for λ and μ."""

    #: Number of rows of each class per element.
    counts: ClassVar[tuple[int, ...]]
    #: Weights of a class's squares for λ and for μ, with totals V tr²E and 2 V E:E.
    shares: ClassVar[tuple[tuple[float, float], ...]]
    #: Integration points of an element.
    points: ClassVar[int]

    def __len__(self) -> int:
        """Return the number of elements."""

    def fill(self, begin: int, end: int, basis: Floats, out: tuple[Floats, ...]) -> None:
        """Write the rows of elements `begin` to `end`, (rows, r + r(r+1)/2) for each class."""


@dataclass(frozen=True)
class PointRows:
    """Rows of points, six each: the trace, which counts for λ and μ, and the deviatoric strain."""

    where: StrainPoints
    counts: ClassVar[tuple[int, ...]] = (1, 5)
    shares: ClassVar[tuple[tuple[float, float], ...]] = ((1.0, 2 / 3), (0.0, 1.0))
    points: ClassVar[int] = 1

    def __len__(self) -> int:
        return len(self.where)

    def fill(self, begin: int, end: int, basis: Floats, out: tuple[Floats, ...]) -> None:
        """Write the rows of points `begin` to `end`."""
        some, scratch = slice(begin, end), np.empty((3, 3, 1 + basis.shape[2]))
        part = self.where.corners[some], self.where.slopes[some], self.where.volumes[some]
        _fill_points(*part, basis, scratch, *out)


@compiled_fused
def _fill_points(corners, slopes, volumes, basis, scratch, traces, rest):  # type: ignore[no-untyped-def]
    for p in range(len(volumes)):
        scratch[:] = 0.0
        add_gradients(corners[p], slopes[p], basis, scratch[:, :, 1:])
        for k in range(3):
            scratch[k, k, 0] = 1.0
        root = np.sqrt(volumes[p])
        _point_rows(scratch, root, traces[p], rest[5 * p : 5 * p + 5])


@compiled_fused
def _point_rows(F, root, trace, rest):  # type: ignore[no-untyped-def]
    """Write trace, two differences of normal strains, three shears; F is ∂x_i/∂X_k."""
    first, second = rest[0], rest[1]
    square_row(F[:, 0], root, first)
    square_row(F[:, 1], root, second)
    square_row(F[:, 2], root, trace)
    third = np.sqrt(1.0 / 3.0)
    for j in range(len(trace)):
        x, y, z = first[j], second[j], trace[j]
        trace[j] = x + y + z
        first[j] = x - y
        second[j] = third * (x + y - 2.0 * z)
    dot_row(F[:, 0], F[:, 1], 2.0 * root, rest[2])
    dot_row(F[:, 0], F[:, 2], 2.0 * root, rest[3])
    dot_row(F[:, 1], F[:, 2], 2.0 * root, rest[4])


@compiled_fused
def square_row(a, scale, target):  # type: ignore[no-untyped-def]
    """Write `scale` a_i · a_j of columns i ≤ j of `a` (3, n), row by row, except i = j = 0."""
    n, at = a.shape[1], 0
    a0, a1, a2 = a[0], a[1], a[2]
    for i in range(n):
        begin = max(i, 1)
        row = target[at : at + n - begin]
        x0, x1, x2 = scale * a0[i], scale * a1[i], scale * a2[i]
        c0, c1, c2 = a0[begin:n], a1[begin:n], a2[begin:n]
        for j in range(len(row)):
            row[j] = x0 * c0[j] + x1 * c1[j] + x2 * c2[j]
        at += n - begin


@compiled_fused
def dot_row(a, b, scale, target):  # type: ignore[no-untyped-def]
    """Write `scale` ½(a_i · b_j + b_i · a_j) of columns of (3, n), in the order of `square_row`."""
    n, at, half = a.shape[1], 0, 0.5 * scale
    a0, a1, a2, b0, b1, b2 = a[0], a[1], a[2], b[0], b[1], b[2]
    for i in range(n):
        begin = max(i, 1)
        row = target[at : at + n - begin]
        x0, x1, x2 = half * a0[i], half * a1[i], half * a2[i]
        y0, y1, y2 = half * b0[i], half * b1[i], half * b2[i]
        c0, c1, c2 = a0[begin:n], a1[begin:n], a2[begin:n]
        d0, d1, d2 = b0[begin:n], b1[begin:n], b2[begin:n]
        for j in range(len(row)):
            across = x0 * d0[j] + x1 * d1[j] + x2 * d2[j]
            row[j] = across + (y0 * c0[j] + y1 * c1[j] + y2 * c2[j])
        at += n - begin
