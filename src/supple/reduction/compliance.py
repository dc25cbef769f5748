"""Compliance of a body with fixed vertices and constraints, from one factorisation."""

from __future__ import annotations

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from supple.arrays import Bools, Floats, Ints
from supple.errors import SolverError, SuppleError
from supple.linalg.cholesky import SparseCholesky
from supple.linalg.krylov import lowest_eigenpairs
from supple.linalg.sparse import symmetrised
from supple.reduction.null_space import NullSpace, null_space

#: Relative energy of a motion, compared with those of single vertices, that counts as zero.
NO_RESISTANCE = 1e-12


class LoosePieceError(SuppleError):
    """Part of a body moves without resistance; `vertices` are the part's."""

    def __init__(self, vertices: Ints, message: str | None = None) -> None:
        self.vertices = vertices
        super().__init__(
            message
            or f"nothing fixes a piece of {len(vertices)} vertices (one is vertex {vertices[0]}); "
            "fix one of its vertices, join it to the body, or remove it"
        )

    def __reduce__(self) -> tuple[type[LoosePieceError], tuple[Ints, str]]:
        """Pickle both arguments: by default an exception is pickled with its message alone."""
        return type(self), (self.vertices, str(self))


class Compliance:
    """Z (ZᵀKZ)⁻¹ Zᵀ: displacement under forces, subject to constraints (xu2016 eq. 27–28).

    A free body has rigid motions R, KR = 0. Its forces are then balanced by inertial forces,
    b − MRRᵀb, and displacements satisfy RᵀMu = 0 (the pseudo-inverse of K in the inner product of
    M). Supports at as many unknowns as there are rigid motions make K definite; balanced forces
    cause no reaction there.

    Parameters
    ----------
    stiffness, inertia
        (3n, 3n) K, positive semi-definite; (n,) vertex masses, times W′² if displacements have
        weights.
    space
        Allowed displacements; by default all. Vertices without stiffness do not move.

    Attributes
    ----------
    stiffness, inertia
        ZᵀKZ and ZᵀMZ, in blocks of three with unused unknowns (see `NullSpace.slots`), which have
        no mass and are fixed; `unused` is their mask.
    rigid
        (3k, c) R, RᵀMR = I; usually c = 0.
    """

    def __init__(
        self, stiffness: sp.csr_array, inertia: Floats, space: NullSpace | None = None
    ) -> None:
        stiffness = sp.csr_array(stiffness)
        space = null_space(None, len(inertia)) if space is None else space
        self._spread = space.spread()
        self._transposed = sp.csr_array(self._spread.T)
        reduced = _projected(self._transposed, stiffness)
        diagonal = reduced.diagonal()
        self.unused = ~(diagonal > 0)
        if self.unused.all():
            raise SuppleError("nothing can move: every vertex is fixed, constrained or in no tet")
        typical = float(diagonal[~self.unused].mean())
        if self.unused.any():
            reduced = sp.csr_array(reduced + sp.diags_array(np.where(self.unused, typical, 0.0)))
        self.stiffness = reduced
        masses = np.repeat(inertia, 3)
        self.inertia = _projected(self._transposed, sp.diags_array(masses))
        _check_masses(self.inertia.diagonal(), self.unused, space)
        self.typical_eigenvalue = float(diagonal.sum() / self.inertia.diagonal().sum())
        self._cholesky = SparseCholesky(reduced, block=3)
        self.rigid = np.empty((reduced.shape[0], 0))
        pieces, unheld = _unheld_pieces(stiffness, space.vertices)
        if unheld:
            self._find_rigid_motions()
            if self.rigid.shape[1] and len(pieces) > 1:
                raise LoosePieceError(min(unheld, key=len))
            self._factorise(typical * self._supports())
            return
        try:
            self._factorise()
        except SolverError:
            raise self.mechanism() from None

    @property
    def n_unknowns(self) -> int:
        """Number of independent displacements without rigid motions."""
        return int((~self.unused).sum()) - self.rigid.shape[1]

    @property
    def nnz_factor(self) -> int:
        """Number of stored entries of the factor."""
        return self._cholesky.nnz_factor

    def solve(self, forces: Floats) -> Floats:
        """Return (ZᵀKZ)⁻¹ b of generalised forces b (3k, m); forces on a free body are balanced."""
        if not self.rigid.shape[1]:
            return self._cholesky.solve(forces)
        balanced = forces - self._rigid_momenta @ (self.rigid.T @ forces)
        response = self._cholesky.solve(balanced)
        return response - self.rigid @ (self._rigid_momenta.T @ response)

    def __call__(self, forces: Floats) -> Floats:
        """Return displacements (3n, m) under forces (3n, m)."""
        return self.displacement(self.solve(self._transposed @ forces))

    def displacement(self, reduced: Floats) -> Floats:
        """Return displacements Z y (3n, m) of generalised displacements y (3k, m)."""
        return self._spread @ reduced

    def allowed_part(self, forces: Floats) -> Floats:
        """Return Zᵀ f, the part of forces (3n, m) that constraints and supports do not carry."""
        return self._transposed @ forces

    def mechanism(self) -> LoosePieceError:
        """Return an error with the vertices of a part that moves freely, as on a hinge."""
        _, motion = self._shifted_modes(1)
        distances = np.linalg.norm(self.displacement(motion).reshape(-1, 3), axis=1)
        vertices = np.flatnonzero(distances > 0.1 * distances.max())
        return LoosePieceError(
            vertices,
            f"{len(vertices)} vertices (one is vertex {vertices[0]}) move without resistance, as "
            "on a hinge; fix one more vertex, join them better to the body, or remove them",
        )

    def _factorise(self, added: Floats | None = None) -> None:
        matrix = self.stiffness
        if added is not None:
            matrix = matrix.copy()
            matrix.setdiag(matrix.diagonal() + added)
        self._cholesky.factorise(matrix)

    def _shifted_modes(self, count: int) -> tuple[Floats, Floats]:
        """Return the lowest eigenvalues (count,) of K over a small shift, and eigenvectors."""
        heavy = self.inertia.diagonal()
        shift = 0.01 * self.typical_eigenvalue * (len(heavy) / 3) ** (-2 / 3)
        try:
            self._factorise(shift * heavy)
        except SolverError:
            raise SolverError(
                "the stiffness has negative eigenvalues; check for inverted tets in the rest shape"
            ) from None
        mass = sp.csr_array(sp.diags_array(heavy))
        values, vectors = lowest_eigenpairs(self._cholesky.solve, mass, count)
        return values / shift - 1, vectors

    def _find_rigid_motions(self) -> None:
        values, vectors = self._shifted_modes(min(6, int((~self.unused).sum())))
        rigid = vectors[:, values < 1e-6]
        lower = np.linalg.cholesky(rigid.T @ (self.inertia @ rigid))
        self.rigid = scipy.linalg.solve_triangular(lower, rigid.T, lower=True).T
        self._rigid_momenta = self.inertia @ self.rigid

    def _supports(self) -> Floats:
        """Return a mask of unknowns whose supports prevent all rigid motions."""
        chosen = scipy.linalg.qr(self.rigid.T, mode="r", pivoting=True)[1]
        supports = np.zeros(len(self.rigid))
        supports[chosen[: self.rigid.shape[1]]] = 1.0
        return supports


def _check_masses(masses: Floats, unused: Bools, space: NullSpace) -> None:
    bad = np.flatnonzero(~unused & ~(masses > 0))
    if len(bad):
        raise SuppleError(
            f"vertex {space.vertices[bad[0] // 3]} can move but has no mass or weight; "
            "fix it, or give it mass and weight"
        )


def _projected(transposed: sp.csr_array, matrix: sp.csr_array) -> sp.csr_array:
    """Return ZᵀAZ, exactly symmetric."""
    return symmetrised(sp.csr_array(transposed @ matrix @ transposed.T))


def _unheld_pieces(stiffness: sp.csr_array, vertices: Ints) -> tuple[list[Ints], list[Ints]]:
    """Return the vertices of each connected piece, and of pieces that move without resistance."""
    n = stiffness.shape[0] // 3
    # Three rows form one, with columns by vertex; repeated entries do no harm.
    graph = sp.csr_array(
        (np.ones(stiffness.nnz, np.int8), stiffness.indices // 3, stiffness.indptr[::3]),
        shape=(n, n),
    )
    stiff = stiffness.diagonal().reshape(n, 3).sum(axis=1)
    moving = vertices[stiff[vertices] > 0]
    count, label = connected_components(graph[moving][:, moving], directed=False)
    along = np.zeros((n, 3, 3))
    along[moving] = np.eye(3)
    forces = (stiffness @ along.reshape(3 * n, 3)).reshape(n, 3, 3)
    cost = np.bincount(label, np.trace(forces[moving], axis1=1, axis2=2), minlength=count)
    scale = np.bincount(label, stiff[moving], minlength=count)
    pieces = np.split(moving[np.argsort(label, kind="stable")], np.cumsum(np.bincount(label))[:-1])
    return pieces, [pieces[i] for i in np.flatnonzero(cost <= NO_RESISTANCE * scale)]


def inertial_displacements(
    held: Compliance, places: Floats, mass: Floats, weights: Floats | None = None
) -> Floats:
    """Return static displacements under accelerations of the whole region, (3k, 6).

    Inertial forces −Ma drive soft tissue (xu2016 §4.2), and in a moving body they are nearly forces
    of a rigid motion: three accelerations along the axes and three about them.
    W Z (ZᵀKZ)⁻¹ Zᵀ W M a is the response of all modes together to such a force at low frequency,
    to which the lowest modes contribute little.

    Parameters
    ----------
    held
        Compliance of the region.
    places
        (k, 3) vertices of the region at rest.
    mass
        (k,) vertex masses.
    weights
        (k,) W′ of the region; 1 by default.

    Returns
    -------
    (3k, 6) array
        For 1 m/s², in the rotations at the farthest vertex. Zero for translations of a free body.
    """
    arms = places - np.average(places, axis=0, weights=mass)
    fields = np.zeros((len(places), 3, 6))
    fields[:, range(3), range(3)] = 1.0
    farthest = float(np.linalg.norm(arms, axis=1).max())
    for axis in range(3):
        fields[:, :, 3 + axis] = np.cross(np.eye(3)[axis], arms) / (farthest or 1.0)
    local = np.ones(len(places)) if weights is None else weights
    forces = (mass * local)[:, None, None] * fields
    return np.repeat(local, 3)[:, None] * held(forces.reshape(-1, 6))


def largest_displacements(vectors: Floats) -> Floats:
    """Return the largest displacement (c,) of a vertex in each of the shapes (3k, c)."""
    return np.linalg.norm(vectors.reshape(-1, 3, vectors.shape[1]), axis=1).max(axis=0)
