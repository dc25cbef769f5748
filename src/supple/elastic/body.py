"""A tet mesh made of a material: its energy, forces, stiffness and mass."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from supple.compiled import at_most_threads
from supple.elastic import kernels
from supple.elastic.body_arguments import BodyArguments
from supple.elastic.mass import consistent_mass, lumped_mass
from supple.elastic.material import Material
from supple.elastic.partition import Partition
from supple.elastic.pattern import BlockPattern
from supple.errors import MeshError, SuppleError, warn
from supple.mesh.tets import TetMesh

__all__ = ["ElasticBody"]

Floats = NDArray[np.float64]

#: Fewer are not worth another thread.
_CHUNKS_PER_THREAD = 8


class ElasticBody(BodyArguments):
    """A tet mesh with a material, ready to be evaluated at any positions.

    Forces are gradients of energy, so they stand on the left of the equation of motion,
    M a + D v + f = f_ext. Results are the same bits for any number of threads.

    Parameters
    ----------
    mesh
        The tets at rest; none may be inverted or flat.
    material
        What they are made of; uniform or per tet.

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

    def __init__(self, mesh: TetMesh, material: Material | None = None) -> None:
        self.mesh = mesh
        self.material = Material() if material is None else material
        if not isinstance(self.material, Material):
            raise SuppleError(
                f"a body needs a Material, not {material!r}; try Material({material!r})"
            )
        self.rest = mesh.vertices.copy()  # ours: nobody can change it, and Numba knows its kind
        self._densities = self.material.densities(len(mesh.tets)).copy()
        volumes = mesh.volumes()
        if not (volumes > 0).all():
            worst = int(volumes.argmin())
            raise MeshError(
                f"{int((volumes <= 0).sum())} tets are inverted or flat (worst: tet {worst}, "
                f"volume {volumes[worst]:.3g} m³); use mesh.oriented() or remove them"
            )
        #: Vertices that belong to no tet: without mass or stiffness, they follow the rest shape.
        self.loose_vertices = np.setdiff1d(np.arange(len(mesh.vertices)), mesh.tets)
        if len(self.loose_vertices):
            warn(
                f"{len(self.loose_vertices)} vertices belong to no tet (first: "
                f"{self.loose_vertices[0]}); they follow the rest shape"
            )
        self._partition = Partition.of(mesh.vertices, mesh.tets)
        order = self._partition.order
        self._tets = np.ascontiguousarray(mesh.tets[order])
        self._parameters = np.ascontiguousarray(
            self.material.element_parameters(len(mesh.tets))[order]
        )
        self._pattern: BlockPattern | None = None
        self._slots: NDArray[np.int32] | None = None
        self._matrix: sp.csr_array | None = None

    @property
    def n_vertices(self) -> int:
        """Number of vertices."""
        return len(self.rest)

    @property
    def n_tets(self) -> int:
        """Number of tets."""
        return len(self._tets)

    @property
    def pattern(self) -> BlockPattern:
        """Sparsity of stiffness and consistent mass, made on first use."""
        if self._pattern is None:
            self._pattern = BlockPattern.of(self.mesh.tets, self.n_vertices)
        return self._pattern

    def set_material(self, material: Material) -> None:
        """Make the body of another material of the same kind and density, as poses do.

        Mass and patterns stay. All who share the body see the change.
        """
        kind = getattr(material, "kind", None)
        if not (isinstance(material, Material) and kind == self.material.kind):
            raise SuppleError(f"the body is {self.material.kind!r} and stays so, not {kind!r}")
        if not np.array_equal(material.densities(self.n_tets), self._densities):
            raise SuppleError("a material of another density is another body; make an ElasticBody")
        parameters = material.element_parameters(self.n_tets)
        self._parameters = np.ascontiguousarray(parameters[self._partition.order])
        self.material = material

    def element_energies(self, x: ArrayLike, rest: ArrayLike | None = None) -> Floats:
        """Energy of each tet in J, in the mesh's order."""
        x, rest = self._positions(x, rest)
        permuted = np.empty(self.n_tets)
        self._run(kernels.element_energies, x, rest, self._tets, self._parameters, permuted)
        energies = np.empty(self.n_tets)
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
        x, rest = self._positions(x, rest)
        out = np.empty_like(self.rest) if out is None else self._checked_out(out, x, rest)
        out[...] = 0.0
        elements = self._tets, self._parameters
        chunks = self._partition.chunk_start, self._partition.colour_start
        self._run(kernels.add_forces, x, rest, *elements, *chunks, out)
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
            Project each element's ∂P/∂F to the nearest positive semi-definite matrix.
        out
            Matrix to fill, made by ``body.pattern.zeros()``.
        """
        x, rest = self._positions(x, rest)
        if self._slots is None:
            self._slots = self.pattern.slots(self._tets)
        if out is None:
            if self._matrix is None:
                self._matrix = self.pattern.zeros()
            out = self._matrix
        elif out.data.shape != (9 * len(self.pattern.neighbours),):
            raise SuppleError("out must be a matrix made by this body's pattern.zeros()")
        out.data[:] = 0.0
        elements = self._tets, self._parameters
        chunks = self._partition.chunk_start, self._partition.colour_start
        target = self.pattern.start, self._slots, out.data
        self._run(kernels.add_stiffness, x, rest, *elements, *chunks, psd, *target)
        return out

    def mass(self, lumped: bool = True) -> sp.csr_array:
        """Mass matrix (3n, 3n) in kg: diagonal, or consistent with linear shape functions.

        Mass belongs to the material, so it does not follow a changing rest shape.
        """
        if lumped:
            masses = np.repeat(self.vertex_masses(), 3)
            return sp.csr_array(sp.diags_array(masses, dtype=np.float64))
        return consistent_mass(self.mesh, self._densities)

    def vertex_masses(self) -> Floats:
        """Lumped mass of each vertex, (n,) in kg."""
        return lumped_mass(self.mesh, self._densities)

    def _run(self, kernel: Callable[..., float], *arguments: object) -> None:
        with at_most_threads(max(1, self._partition.n_chunks // _CHUNKS_PER_THREAD)):
            smallest_volume = kernel(self.material.code, *arguments)
        if not smallest_volume > 0:
            raise MeshError(
                f"the rest shape inverts or flattens a tet (volume {smallest_volume:.3g} m³); "
                "a rest shape must keep every tet positively oriented"
            )
