"""Elastic bodies of tets and of hexahedra: energy, forces, stiffness and mass."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from supple.arrays import Floats, ShortInts
from supple.checks import checked_array
from supple.compiled.jit import at_most_threads
from supple.elastic import assembly as kernels
from supple.elastic.assembly import BlockPattern, Elements, Partition
from supple.elastic.material import Material
from supple.errors import MeshError, SuppleError, warn
from supple.mesh import topology
from supple.mesh.hexes import HexMesh, gauss_points, shape_functions, shape_gradients
from supple.mesh.tets import TetMesh

#: Fraction of its volume in the mesh below which engines omit a tet of the rest shape: the pose is
#: far from all trained poses, and forces of a flat tet are unbounded.
LEAST_REST_VOLUME = 0.01
#: Smallest number of chunks per thread.
_CHUNKS_PER_THREAD = 8
# ρ N_a N_b det(∂X/∂ξ) is of fourth degree along an axis: three points integrate it exactly.
_MASS_ORDER = 3


class _ElementBody:
    """Mesh with a material: base of bodies of tets and of hexahedra. Elements have positive volume
    at their integration points; `slopes` and `weights` are as in `Elements`.
    """

    mesh: TetMesh | HexMesh

    def __init__(
        self,
        mesh: TetMesh | HexMesh,
        material: Material,
        slopes: Floats | None = None,
        weights: Floats | None = None,
    ) -> None:
        self.mesh, self.material = mesh, material
        self.rest = mesh.vertices.copy()  # a copy, so that it cannot be changed from outside
        self._densities = material.densities(len(mesh.elements)).copy()
        #: Vertices of no element, without mass and stiffness; they follow the rest shape.
        self.loose_vertices = topology.unreferenced(mesh.elements, len(mesh.vertices))
        if len(self.loose_vertices):
            warn(
                f"{len(self.loose_vertices)} vertices belong to no {mesh.noun} (first: "
                f"{self.loose_vertices[0]}); they follow the rest shape"
            )
        self._partition = Partition.of(mesh.vertices, mesh.elements)
        self._elements = Elements(
            np.ascontiguousarray(mesh.elements[self._partition.order]),
            self._ordered_parameters(material),
            slopes,
            weights,
            self._partition.chunk_start,
            self._partition.colour_start,
            np.full(len(mesh.elements), -np.inf),
        )
        #: Whether the last evaluation omitted elements; see `ElasticBody.leave_out`.
        self.left_out = False
        self._pattern: BlockPattern | None = None
        self._slots: ShortInts | None = None
        self._matrix: sp.csr_array | None = None

    @property
    def n_vertices(self) -> int:
        """Number of vertices."""
        return len(self.rest)

    @property
    def pattern(self) -> BlockPattern:
        """Sparsity of stiffness and consistent mass, computed on first use."""
        if self._pattern is None:
            self._pattern = BlockPattern.of(self.mesh.elements, self.n_vertices)
        return self._pattern

    def set_material(self, material: Material) -> None:
        """Replace the material by another of the same kind and density, as for another pose.

        Mass and patterns do not change. The change applies to all users of the body.
        """
        kind = getattr(material, "kind", None)
        if not (isinstance(material, Material) and kind == self.material.kind):
            raise SuppleError(
                f"the body's material is {self.material.kind!r}; make a new body for {kind!r}"
            )
        if not np.array_equal(material.densities(len(self._densities)), self._densities):
            raise SuppleError("the density of a body cannot change; make a new body")
        self._elements = self._elements._replace(parameters=self._ordered_parameters(material))
        self.material = material

    def _ordered_parameters(self, material: Material) -> Floats:
        parameters = material.element_parameters(len(self.mesh.elements))
        return np.ascontiguousarray(parameters[self._partition.order])

    def element_energies(self, x: ArrayLike, rest: ArrayLike | None = None) -> Floats:
        """Return the energy of each element in J, in the mesh's order."""
        permuted = np.empty(len(self._densities))
        self._run(kernels.element_energies, *self._positions(x, rest), permuted)
        energies = np.empty_like(permuted)
        energies[self._partition.order] = permuted
        return energies

    def energy(self, x: ArrayLike, rest: ArrayLike | None = None) -> float:
        """Return the elastic energy W(x) in J of the body at positions x (n, 3).

        Parameters
        ----------
        x
            Positions of the vertices.
        rest
            Rest shape, in which the energy is zero; by default the mesh itself.
        """
        return float(self.element_energies(x, rest).sum())

    def force(
        self, x: ArrayLike, rest: ArrayLike | None = None, out: Floats | None = None
    ) -> Floats:
        """Return the gradient of energy ∂W/∂x, (n, 3) in N; `out` is overwritten if passed."""
        positions = self._positions(x, rest)
        out = np.empty_like(self.rest) if out is None else self._checked_out(out, *positions)
        out[...] = 0.0
        self._run(kernels.add_forces, *positions, out)
        return out

    def stiffness(
        self,
        x: ArrayLike,
        rest: ArrayLike | None = None,
        *,
        psd: bool = False,
        out: sp.csr_array | None = None,
    ) -> sp.csr_array:
        """Return the Hessian of energy ∂²W/∂x², (3n, 3n).

        The pattern is constant and values are overwritten: every call returns the same object. Copy
        it to keep it, or pass a matrix as `out`, as threads that share a body must.

        Parameters
        ----------
        x, rest
            As for `energy`.
        psd
            Whether to project ∂P/∂F to the nearest positive semi-definite matrix at each point.
        out
            Matrix to fill, made by ``body.pattern.zeros()``.
        """
        positions = self._positions(x, rest)
        if self._slots is None:
            self._slots = self.pattern.slots(self._elements.elements)
        if out is None:
            if self._matrix is None:
                self._matrix = self.pattern.zeros()
            out = self._matrix
        elif out.data.shape != (9 * len(self.pattern.neighbours),):
            raise SuppleError("out must be a matrix made by this body's pattern.zeros()")
        out.data[:] = 0.0
        target = self.pattern.start, self._slots, out.data
        self._run(kernels.add_stiffness, *positions, psd, *target)
        return out

    def mass(self, lumped: bool = True) -> sp.csr_array:
        """Return the mass matrix (3n, 3n) in kg: diagonal, or consistent with the shape functions.

        It is computed from the mesh and does not depend on the rest shape.
        """
        if lumped:
            masses = np.repeat(self.vertex_masses(), 3)
            return sp.csr_array(sp.diags_array(masses, dtype=np.float64))
        return _consistent_mass(self.mesh, self._densities)

    def vertex_masses(self) -> Floats:
        """Return the lumped mass of each vertex, (n,) in kg."""
        return _lumped_mass(self.mesh, self._densities)

    def _positions(self, x: ArrayLike, rest: ArrayLike | None) -> tuple[Floats, Floats]:
        positions = checked_array("positions", x, self.rest.shape)
        if rest is None:
            return positions, self.rest
        return positions, checked_array("rest shape", rest, self.rest.shape)

    def _checked_out(self, out: Floats, x: Floats, rest: Floats) -> Floats:
        good = isinstance(out, np.ndarray) and out.dtype == np.float64
        if not (good and out.shape == self.rest.shape and out.flags.c_contiguous):
            raise SuppleError(f"out must be a contiguous float64 array of shape {self.rest.shape}")
        if np.shares_memory(out, x) or np.shares_memory(out, rest):
            raise SuppleError("out must not be the positions or the rest shape")
        return out

    def _run(
        self, kernel: Callable[..., float], x: Floats, rest: Floats, *arguments: object
    ) -> None:
        with at_most_threads(max(1, self._partition.n_chunks // _CHUNKS_PER_THREAD)):
            smallest = kernel(self.material.code, x, rest, self._elements, *arguments)
        self.left_out = not smallest > 0
        if self.left_out and not self._elements.flattest[0] > 0:
            noun = self.mesh.noun
            raise MeshError(
                f"the rest shape inverts or flattens a {noun} (volume {smallest:.3g} m³); "
                f"a rest shape must keep every {noun} positively oriented"
            )


class ElasticBody(_ElementBody):
    """Tet mesh with a material: energy, forces and stiffness at any positions.

    Forces are gradients of energy, so they are on the left of the equation of motion,
    M a + D v + f = f_ext. Results do not depend on the number of threads, bit for bit.

    Parameters
    ----------
    mesh
        The tets at rest; none may be inverted or flat.
    material
        Material, uniform or per tet.

    Examples
    --------
    >>> import numpy as np
    >>> from supple.mesh import TetMesh
    >>> corner = TetMesh(np.vstack([np.zeros(3), np.eye(3)]), [[0, 1, 2, 3]])
    >>> body = ElasticBody(corner, Material("neo-hookean", young=1e4))
    >>> body.energy(corner.vertices)
    0.0
    >>> body.stiffness(corner.vertices).shape
    (12, 12)
    """

    mesh: TetMesh

    def __init__(self, mesh: TetMesh, material: Material | None = None) -> None:
        checked = _checked_material(material, "neo-hookean")
        mesh.positive_volumes()  # refuses inverted and flat tets
        super().__init__(mesh, checked)

    def leave_out(self, part: float) -> None:
        """Omit tets whose volume in the rest shape is below this fraction of their mesh volume.

        Without this, such a rest shape is an error: forces of a flat tet are unbounded, and forces
        of an inverted tet are meaningless. `left_out` records whether tets were omitted.
        """
        volumes = part * self.mesh.positive_volumes()
        self._elements = self._elements._replace(flattest=volumes[self._partition.order])

    @property
    def n_tets(self) -> int:
        """Number of tets."""
        return len(self.mesh.tets)


class HexBody(_ElementBody):
    """Hex mesh with a material: the methods of `ElasticBody`, on trilinear hexahedra.

    Energies are integrated at Gauss points; force and stiffness are their exact derivatives.
    Results do not depend on the number of threads, bit for bit.

    Parameters
    ----------
    mesh
        The hexes at rest; none may be inverted or flat at an integration point.
    material
        Material, uniform or per hex; by default StVK.
    order
        Integration points along an axis: 2, or 3, which is exact for StVK on boxes.

    Examples
    --------
    >>> from supple.mesh.hexes import CORNERS
    >>> cube = HexMesh(0.1 * CORNERS, [range(8)])
    >>> body = HexBody(cube, Material("stvk", young=1e4, poisson=0.0))
    >>> stretched = cube.vertices * [1.1, 1.0, 1.0]
    >>> round(body.energy(stretched), 12)  # ½ E ε² V with ε = 1.1²/2 − 1/2
    0.055125
    """

    mesh: HexMesh

    def __init__(self, mesh: HexMesh, material: Material | None = None, *, order: int = 2) -> None:
        checked = _checked_material(material, "stvk")
        if order not in (2, 3):  # with one point along an axis a cube has zero-energy modes
            raise SuppleError(
                f"order must be 2 or 3 integration points along an axis, not {order!r}"
            )
        self.order = int(order)
        jacobians = mesh.jacobians(self.order)
        if not (jacobians > 0).all():
            worst = int(jacobians.min(axis=1).argmin())
            raise MeshError(
                f"{int((jacobians <= 0).any(axis=1).sum())} hexes are inverted or flat at an "
                f"integration point (worst: hex {worst}); use mesh.oriented() or remove them"
            )
        points, weights = gauss_points(self.order)
        super().__init__(mesh, checked, shape_gradients(points), weights)

    def __repr__(self) -> str:
        return f"HexBody({self.mesh!r}, {self.material.kind}, {self.order}³ points)"


def _checked_material(material: Material | None, default: str) -> Material:
    """Return the material, or one of the kind `default`."""
    if material is None:
        return Material(default)
    if not isinstance(material, Material):
        raise SuppleError(f"a body needs a Material, not {material!r}; try Material({material!r})")
    return material


def _lumped_mass(mesh: TetMesh | HexMesh, density: Floats) -> Floats:
    """Return ∫ρ N_a, the mass of each vertex, (n,): row sums of the consistent matrix."""
    if isinstance(mesh, HexMesh):
        points, weights = gauss_points(_MASS_ORDER)
        shapes = weights[:, None] * shape_functions(points)
        parts = (density[:, None] * mesh.jacobians(_MASS_ORDER)) @ shapes
    else:
        parts = (density * mesh.volumes() / 4)[:, None]
    masses: Floats = np.zeros(len(mesh.vertices))
    np.add.at(masses, mesh.elements, parts)
    return masses


def _consistent_mass(mesh: TetMesh | HexMesh, density: Floats) -> sp.csr_array:
    """Return ∫ρ N_a N_b, (3n, 3n)."""
    if isinstance(mesh, HexMesh):
        points, weights = gauss_points(_MASS_ORDER)
        shapes = shape_functions(points)
        products = np.einsum("g,ga,gb->gab", weights, shapes, shapes).reshape(len(points), 64)
        values = ((density[:, None] * mesh.jacobians(_MASS_ORDER)) @ products).reshape(-1, 8, 8)
    else:  # ρV/10 on an element's diagonal, ρV/20 off it
        values = np.multiply.outer(density * mesh.volumes() / 20, np.ones((4, 4)) + np.eye(4))
    n = len(mesh.vertices)
    rows = np.broadcast_to(mesh.elements[:, :, None], values.shape)
    columns = np.broadcast_to(mesh.elements[:, None, :], values.shape)
    scalar = sp.coo_array((values.ravel(), (rows.ravel(), columns.ravel())), shape=(n, n))
    return sp.csr_array(sp.kron(sp.csr_array(scalar), sp.eye_array(3), format="csr"))
