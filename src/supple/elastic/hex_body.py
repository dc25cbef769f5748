"""A hexahedral mesh made of a material: its energy, forces, stiffness and mass."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from supple.compiled import at_most_threads
from supple.elastic import hex_kernels
from supple.elastic.body_arguments import BodyArguments
from supple.elastic.hex_assembly import hex_partition, hex_pattern, hex_slots
from supple.elastic.hex_elements import consistent_hex_mass, lumped_hex_mass
from supple.elastic.material import Material
from supple.elastic.pattern import BlockPattern
from supple.errors import MeshError, SuppleError, warn
from supple.mesh.hex_shapes import gauss_points, shape_gradients
from supple.mesh.hexes import HexMesh

__all__ = ["HexBody"]

Floats = NDArray[np.float64]

#: Fewer are not worth another thread.
_CHUNKS_PER_THREAD = 8


class HexBody(BodyArguments):
    """A hex mesh with a material: the verbs of `ElasticBody`, on trilinear hexahedra.

    Energies are integrated at Gauss points; force and stiffness are its exact derivatives.
    Results are the same bits for any number of threads.

    Parameters
    ----------
    mesh
        The hexes at rest; none may be inverted or flat at an integration point.
    material
        What they are made of; uniform or per hex. By default StVK.
    order
        Integration points along an axis: 2, or 3, which is exact for StVK on boxes.

    Examples
    --------
    >>> from supple.mesh.hex_shapes import CORNERS
    >>> cube = HexMesh(0.1 * CORNERS, [range(8)])
    >>> body = HexBody(cube, Material("stvk", young=1e4, poisson=0.0))
    >>> stretched = cube.vertices * [1.1, 1.0, 1.0]
    >>> round(body.energy(stretched), 12)  # ½ E ε² V with ε = 1.1²/2 − 1/2
    0.055125
    """

    def __init__(self, mesh: HexMesh, material: Material | None = None, *, order: int = 2) -> None:
        self.mesh = mesh
        self.material = Material("stvk") if material is None else material
        if not isinstance(self.material, Material):
            raise SuppleError(
                f"a body needs a Material, not {material!r}; try Material({material!r})"
            )
        if order not in (2, 3):  # with one point an axis, a cube has shapes that cost nothing
            raise SuppleError(f"order is 2 or 3 integration points along an axis, not {order!r}")
        self.order = int(order)
        jacobians = mesh.jacobians(self.order)
        if not (jacobians > 0).all():
            worst = int(jacobians.min(axis=1).argmin())
            raise MeshError(
                f"{int((jacobians <= 0).any(axis=1).sum())} hexes are inverted or flat at an "
                f"integration point (worst: hex {worst}); use mesh.oriented() or remove them"
            )
        self.rest = mesh.vertices.copy()
        self._densities = self.material.densities(len(mesh.hexes)).copy()
        #: Vertices that belong to no hex: without mass or stiffness, they follow the rest shape.
        self.loose_vertices = np.setdiff1d(np.arange(len(mesh.vertices)), mesh.hexes)
        if len(self.loose_vertices):
            warn(
                f"{len(self.loose_vertices)} vertices belong to no hex (first: "
                f"{self.loose_vertices[0]}); they follow the rest shape"
            )
        self._partition = hex_partition(mesh.vertices, mesh.hexes)
        self._hexes = np.ascontiguousarray(mesh.hexes[self._partition.order])
        self._parameters = self._ordered_parameters(self.material)
        places, self._weights = gauss_points(self.order)
        self._slopes = shape_gradients(places)
        self._pattern: BlockPattern | None = None
        self._slots: NDArray[np.int32] | None = None
        self._matrix: sp.csr_array | None = None

    def __repr__(self) -> str:
        return f"HexBody({self.mesh!r}, {self.material.kind}, {self.order}³ points)"

    @property
    def n_vertices(self) -> int:
        """Number of vertices."""
        return len(self.rest)

    @property
    def n_hexes(self) -> int:
        """Number of hexes."""
        return len(self._hexes)

    @property
    def pattern(self) -> BlockPattern:
        """Sparsity of stiffness and consistent mass, made on first use."""
        if self._pattern is None:
            self._pattern = hex_pattern(self.mesh.hexes, self.n_vertices)
        return self._pattern

    def set_material(self, material: Material) -> None:
        """Make the body of another material of the same kind and density."""
        kind = getattr(material, "kind", None)
        if not (isinstance(material, Material) and kind == self.material.kind):
            raise SuppleError(f"the body is {self.material.kind!r} and stays so, not {kind!r}")
        if not np.array_equal(material.densities(self.n_hexes), self._densities):
            raise SuppleError("a material of another density is another body; make a HexBody")
        self._parameters = self._ordered_parameters(material)
        self.material = material

    def _ordered_parameters(self, material: Material) -> Floats:
        parameters = material.element_parameters(len(self.mesh.hexes))
        return np.ascontiguousarray(parameters[self._partition.order])

    def element_energies(self, x: ArrayLike, rest: ArrayLike | None = None) -> Floats:
        """Energy of each hex in J, in the mesh's order."""
        permuted = np.empty(self.n_hexes)
        self._run(hex_kernels.element_energies, *self._positions(x, rest), permuted)
        energies = np.empty(self.n_hexes)
        energies[self._partition.order] = permuted
        return energies

    def energy(self, x: ArrayLike, rest: ArrayLike | None = None) -> float:
        """Elastic energy W(x) in J of the body at positions x (n, 3).

        Parameters
        ----------
        x
            Positions of the vertices.
        rest
            Rest shape to measure from; by default the mesh itself.
        """
        return float(self.element_energies(x, rest).sum())

    def force(
        self, x: ArrayLike, rest: ArrayLike | None = None, out: Floats | None = None
    ) -> Floats:
        """Gradient of energy ∂W/∂x, (n, 3) in N. `out`, when given, is overwritten."""
        positions = self._positions(x, rest)
        out = np.empty_like(self.rest) if out is None else self._checked_out(out, *positions)
        out[...] = 0.0
        chunks = self._partition.chunk_start, self._partition.colour_start
        self._run(hex_kernels.add_forces, *positions, *chunks, out)
        return out

    def stiffness(
        self,
        x: ArrayLike,
        rest: ArrayLike | None = None,
        *,
        psd: bool = False,
        out: sp.csr_array | None = None,
    ) -> sp.csr_array:
        """Hessian of energy ∂²W/∂x², (3n, 3n).

        The pattern never changes and the values are refilled in place: the matrix returned
        is the same object every time. Copy it to keep it, or give one of your own, as threads
        that share a body must.

        Parameters
        ----------
        x, rest
            As for `energy`.
        psd
            Project ∂P/∂F to the nearest positive semi-definite matrix at each point.
        out
            Matrix to fill, made by ``body.pattern.zeros()``.
        """
        positions = self._positions(x, rest)
        if self._slots is None:
            self._slots = hex_slots(self.pattern, self._hexes)
        if out is None:
            if self._matrix is None:
                self._matrix = self.pattern.zeros()
            out = self._matrix
        elif out.data.shape != (9 * len(self.pattern.neighbours),):
            raise SuppleError("out must be a matrix made by this body's pattern.zeros()")
        out.data[:] = 0.0
        chunks = self._partition.chunk_start, self._partition.colour_start
        target = self.pattern.start, self._slots, out.data
        self._run(hex_kernels.add_stiffness, *positions, *chunks, psd, *target)
        return out

    def mass(self, lumped: bool = True) -> sp.csr_array:
        """Mass matrix (3n, 3n) in kg: diagonal, or consistent with the shape functions."""
        if lumped:
            masses = np.repeat(self.vertex_masses(), 3)
            return sp.csr_array(sp.diags_array(masses, dtype=np.float64))
        return consistent_hex_mass(self.mesh, self._densities)

    def vertex_masses(self) -> Floats:
        """Lumped mass of each vertex, (n,) in kg."""
        return lumped_hex_mass(self.mesh, self._densities)

    def _run(
        self, kernel: Callable[..., float], x: Floats, rest: Floats, *arguments: object
    ) -> None:
        elements = self._hexes, self._parameters, self._slopes, self._weights
        with at_most_threads(max(1, self._partition.n_chunks // _CHUNKS_PER_THREAD)):
            smallest = kernel(self.material.code, x, rest, *elements, *arguments)
        if not smallest > 0:
            raise MeshError(
                f"the rest shape inverts or flattens a hex (Jacobian {smallest:.3g} m³); "
                "a rest shape must keep every hex positively oriented"
            )
