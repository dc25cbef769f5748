"""Reduced model of one pose: for each region a basis of modes and modal derivatives."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from supple.arrays import Floats, Singles
from supple.checks import checked_array, checked_count, checked_masses, checked_number
from supple.compiled.jit import at_most_threads
from supple.elastic.body import ElasticBody
from supple.elastic.material import Material
from supple.errors import SuppleError
from supple.linalg.blas import single_threaded
from supple.linalg.cholesky import SparseCholesky
from supple.linalg.sparse import principal_submatrix, symmetrised
from supple.mesh.boundary_contacts import BoundaryContacts, find_boundary_contacts
from supple.mesh.obstacles import Obstacle
from supple.mesh.tets import TetMesh
from supple.reduction.compliance import (
    Compliance,
    LoosePieceError,
    inertial_displacements,
    largest_displacements,
)
from supple.reduction.contact_constraints import ContactKind, contact_constraints
from supple.reduction.derivatives import modal_derivatives
from supple.reduction.mass_pca import mass_pca, scaled_candidates
from supple.reduction.modes import Modes, linear_modes
from supple.reduction.null_space import (
    UNTOUCHED,
    NullSpace,
    checked_rows,
    largest_entries,
    null_space,
)
from supple.reduction.regions.region import Region
from supple.rig.tets.vertex_frames import pose_rotations, rotate_basis

#: Number of modes per basis vector; their derivatives are many more.
_MODES_PER_VECTOR = 0.5
#: Relative residual of the modes, far below the precision of stored bases.
_TOLERANCE = 1e-5
#: Assumed displacement of the softest mode, as a fraction of the body's size.
REACH = 0.05
#: Fraction of a mode's response to its own load below which other responses are rounding errors: an
#: unconstrained body follows the load.
RIGID = 1e-9
#: A column whose independent part is below this fraction depends on the others up to rounding.
_DEPENDENT = 1e-8


@dataclass(frozen=True, eq=False, repr=False)
class RegionBasis:
    """Localised basis of a region at one pose.

    Attributes
    ----------
    vectors
        (k, 3, r) U on the region's vertices, UᵀMU = I, by descending singular values.
    eigenvalues
        (r̂,) λ of its linear modes, in rad²/s².
    singular_values
        (r,) singular values of the mass-PCA, descending.
    residual
        Largest relative residual of the modes.
    dropped_rows
        Number of constraint rows that are redundant or outside of the region.
    """

    vectors: Floats
    eigenvalues: Floats
    singular_values: Floats
    residual: float
    dropped_rows: int

    def __repr__(self) -> str:
        k, _, r = self.vectors.shape
        return f"RegionBasis({r} vectors on {k} vertices, {len(self.eigenvalues)} modes)"


def pose_basis(
    body: ElasticBody,
    rest: ArrayLike,
    stiffness: sp.csr_array,
    mass: ArrayLike,
    region: Region,
    count: int,
    *,
    constraints: sp.csr_array | None = None,
    linear: int | None = None,
    reach: float | None = REACH,
    beside: Floats | None = None,
) -> RegionBasis:
    """Return `count` vectors from linear modes and modal derivatives (xu2016 §5–7, eq. 34–35).

    Candidates also include the region's static responses to accelerations of the body; see
    `inertial_displacements`.

    Parameters
    ----------
    body, rest
        Body, and its rest shape (n, 3) at the pose.
    stiffness
        (3n, 3n) K there, ``body.stiffness(rest, rest=rest)``.
    mass
        (n,) vertex masses.
    region
        Vertices that may move, and their weights; all others are fixed.
    count
        Number of vectors, r.
    constraints
        (c, 3n) C with C U = 0.
    linear
        Number of modes to start from, r̂; they give r̂(r̂ + 1)/2 derivatives. By default 0.5 r,
        and enough to have r in all.
    reach
        Assumed displacement of the softest mode, as a fraction of the body's size: the larger, the
        more weight derivatives have. None is the paper's recipe without responses, in which the
        weight depends on the units.
    beside
        (3n, b) mass-orthonormal vectors of other regions; the basis is made independent of them.

    Raises
    ------
    SuppleError
        If the region has fewer than `count` vectors, or nothing fixes a part of it.
    """
    masses = checked_masses(mass, body.n_vertices)
    shape = checked_array("rest shape", rest, body.rest.shape)
    _check_fit(body, stiffness, region)
    count = checked_count("the number of basis vectors", count)
    linear = _linear_modes_for(count) if linear is None else checked_count("linear modes", linear)
    together = None
    if beside is not None:
        size = (3 * body.n_vertices, np.shape(beside)[-1] if np.ndim(beside) else 0)
        together = checked_array("vectors beside", beside, size)[region.unknowns]
    inertia = masses[region.vertices]
    allowed = null_space(_weighted_rows(constraints, region, body.n_vertices), len(inertia))
    try:
        modes = _modes(stiffness, inertia, region, allowed, count, linear)
    except LoosePieceError as error:
        raise _located(error, body, shape, region) from None
    candidates = _candidates(
        modes,
        modal_derivatives(body, shape, modes, vertices=region.vertices),
        shape[region.vertices],
        inertia,
        reach,
        body.mesh.size,
    )
    basis, sizes = mass_pca(candidates, inertia, count, beside=together)
    return RegionBasis(
        basis.reshape(len(inertia), 3, count),
        modes.eigenvalues,
        sizes,
        float(modes.residuals.max()),
        len(allowed.dropped_rows),
    )


def _check_fit(body: ElasticBody, stiffness: sp.csr_array, region: Region) -> None:
    if region.vertices[-1] >= body.n_vertices:
        raise SuppleError(
            f'region "{region.name}" has vertex {region.vertices[-1]}, '
            f"but the body has only {body.n_vertices} vertices"
        )
    if not sp.issparse(stiffness) or stiffness.format != "csr":
        raise SuppleError(
            "the stiffness must be a sparse matrix in CSR format, as body.stiffness returns it"
        )
    if stiffness.shape != (3 * body.n_vertices,) * 2:
        raise SuppleError(f"stiffness {stiffness.shape}; use (3n, 3n), n = {body.n_vertices}")


def _modes(
    stiffness: sp.csr_array,
    inertia: Floats,
    region: Region,
    allowed: NullSpace,
    count: int,
    linear: int,
) -> Modes:
    """Return `linear` modes of the region, with the outside fixed."""
    inner, weights = principal_submatrix(stiffness, region.unknowns), region.weights
    factor = Compliance(inner, inertia * weights**2, allowed)
    _check_enough(region, count, linear, factor.n_unknowns)
    parts: dict[str, Any] = {"null_space": allowed, "weights": weights, "factor": factor}
    return linear_modes(inner, inertia, linear, **parts, tolerance=_TOLERANCE)


def _candidates(
    modes: Modes,
    derivatives: Floats,
    places: Floats,
    mass: Floats,
    reach: float | None,
    size: float,
) -> Floats:
    """Return candidate shapes (3k, c): modes, derivatives and, unless `reach` is None, responses.

    They are scaled for a displacement `reach` of the softest mode, as a fraction of `size`.
    """
    if reach is None:
        return scaled_candidates(modes.eigenvalues, modes.vectors, derivatives)
    if not checked_number("reach", reach) > 0:
        raise SuppleError(f"reach is {reach}; it must be positive")
    far = reach * size
    (soft,) = largest_displacements(modes.vectors[:, :1])
    shapes = scaled_candidates(modes.eigenvalues, modes.vectors, derivatives, far / soft)
    del derivatives  # the largest array
    responses = inertial_displacements(modes.compliance, places, mass, modes.weights)
    # Over all axes together, which does not depend on the body's rotation.
    largest = float(np.sqrt((responses.reshape(len(places), -1) ** 2).sum(axis=1).max()))
    if largest <= RIGID * soft / modes.eigenvalues[0]:
        return shapes
    return np.hstack([shapes, responses * (far / largest)])


def _linear_modes_for(count: int) -> int:
    """Return the number c of modes: 0.5 r, and enough that c + c(c + 1)/2 is at least r."""
    enough = 1
    while enough + enough * (enough + 1) // 2 < count:
        enough += 1
    return max(enough, ceil(_MODES_PER_VECTOR * count))


def _weighted_rows(
    constraints: sp.csr_array | None, region: Region, n_vertices: int
) -> sp.csr_array | None:
    """Return CW on the region's unknowns, with the outside fixed (xu2016 §7)."""
    if constraints is None:
        return None
    rows = checked_rows(constraints, n_vertices)
    inside = sp.csr_array(rows[:, region.unknowns])
    # Rows that are rounding inside of the region are dropped.
    inner = largest_entries(inside) > UNTOUCHED * largest_entries(rows)
    weights = sp.diags_array(np.repeat(region.weights, 3))
    return sp.csr_array(sp.diags_array(inner.astype(float)) @ inside @ weights)


def _check_enough(region: Region, count: int, linear: int, unknowns: int) -> None:
    where = f'region "{region.name}"'
    most = linear + linear * (linear + 1) // 2
    if count > most:
        raise SuppleError(
            f"{where}: {count} basis vectors requested, but {linear} modes with their "
            f"derivatives give only {most}; start from more modes"
        )
    if max(count, linear) > unknowns:
        raise SuppleError(
            f"{where}: {max(count, linear)} vectors requested, but it has {unknowns} unknowns; "
            "use fewer vectors, a finer mesh, or a larger region"
        )


def _located(
    error: LoosePieceError, body: ElasticBody, rest: Floats, region: Region
) -> SuppleError:
    """Return an error that names vertices, tets and position of the loose piece in the body."""
    vertices = region.vertices[error.vertices]
    tets = int(np.isin(body.mesh.tets, vertices).all(axis=1).sum())
    x, y, z = rest[vertices].mean(axis=0)
    return SuppleError(
        f'region "{region.name}": a piece of {tets} tets, {len(vertices)} vertices (one is vertex '
        f"{vertices[0]}) around ({x:.3g}, {y:.3g}, {z:.3g}) moves without resistance; "
        "fix some of its vertices, join it to the body, or remove it"
    )


@dataclass(frozen=True, eq=False)
class PoseTask:
    """Input of `reduce_pose`; it can be pickled."""

    name: str
    mesh: TetMesh
    """Tets at the neutral pose."""
    material: Material
    rest: Floats
    """Material at this pose, and rest shape Φ(p), (n, 3)."""
    regions: tuple[Region, ...]
    modes: tuple[int, ...]
    """Regions that have a basis each, and their numbers of columns."""
    contacts: ContactKind | None = "two-sided"
    """Kind of contact constraints, or None to ignore contact."""
    obstacles: tuple[Obstacle, ...] = ()
    shapes: Floats | None = None
    """(n, 3, r) columns for all poses, by `shaken_shapes`, for a body with one region; None for
    modes and derivatives of this pose."""
    seed: int = 0
    steps: int = 0
    """Seed of the shaking at this pose, and least number of its steps."""
    moves: Singles | None = None
    loads: Singles | None = None
    """(n, 3, k) derivatives of the rig, and (n, 3, t) accelerations of the character's motions, by
    which the body is also shaken, or None."""
    reach: float | None = REACH
    independent: bool = True
    """Switches of `Recipe`."""


@dataclass(frozen=True, eq=False)
class PoseModel:
    """Reduced model of one pose, by `reduce_pose`."""

    rest: Floats
    """(n, 3) rest shape."""
    bases: tuple[Floats, ...]
    """For each region (k, 3, r), mass-orthonormal within the region, in world space."""
    stiffnesses: tuple[Floats, ...]
    """For each region UᵀKU at rest, (r, r)."""
    contacts: BoundaryContacts | None
    """Contacts of the body with itself or obstacles; None if contact is ignored."""
    constraints: int
    """Number of constraint rows."""


def reduce_pose(task: PoseTask) -> PoseModel:
    """Compute a basis of every region at one pose: modes, derivatives and their mass-PCA.

    It uses one thread, because poses are computed in parallel. Errors name the pose.
    """
    try:
        return _reduced(task)
    except SuppleError as error:
        raise SuppleError(f'pose "{task.name}": {error}') from error


def _reduced(task: PoseTask) -> PoseModel:
    with single_threaded(), at_most_threads(1):  # also in a worker process
        body = ElasticBody(task.mesh, task.material)
        stiffness = body.stiffness(task.rest, task.rest, out=body.pattern.zeros())
        contacts, rows = _contact_rows(task)
        masses = body.vertex_masses()
        if task.shapes is None:
            bases = _region_bases(task, body, stiffness, masses, rows)
        else:
            (region,), allowed = task.regions, _allowed(task, rows)
            bases = (rotated_shapes(task.mesh, task.rest, task.shapes, region, masses, allowed),)
        stiffnesses = tuple(
            region_stiffness(stiffness, region, basis)
            for region, basis in zip(task.regions, bases, strict=True)
        )
    return PoseModel(task.rest, bases, stiffnesses, contacts, 0 if rows is None else rows.shape[0])


def _region_bases(
    task: PoseTask,
    body: ElasticBody,
    stiffness: sp.csr_array,
    masses: Floats,
    rows: sp.csr_array | None,
) -> tuple[Floats, ...]:
    """Return a basis of each region, independent of the bases of earlier regions."""
    root = np.repeat(np.sqrt(masses), 3)[:, None]
    bases: list[Floats] = []
    together = np.empty((3 * len(masses), 0))
    for region, count in zip(task.regions, task.modes, strict=True):
        beside = together if bases and task.independent else None
        basis = pose_basis(
            body,
            task.rest,
            stiffness,
            masses,
            region,
            count,
            constraints=rows,
            reach=task.reach,
            beside=beside,
        )
        bases.append(basis.vectors)
        if len(bases) < len(task.regions) and task.independent:
            block = np.zeros((len(root), count))
            block[region.unknowns] = root[region.unknowns] * basis.vectors.reshape(-1, count)
            before = root * together
            for _ in range(2):  # twice, for rounding
                block, _ = np.linalg.qr(block - before @ (before.T @ block))
            together = np.hstack([before, block]) / np.where(root > 0, root, 1.0)
    return tuple(bases)


def allowed_displacements(task: PoseTask) -> NullSpace:
    """Return the displacements that contacts at a pose allow, for a body with one region."""
    return _allowed(task, _contact_rows(task)[1])


def _allowed(task: PoseTask, rows: sp.csr_array | None) -> NullSpace:
    (region,) = task.regions
    return null_space(_weighted_rows(rows, region, len(task.rest)), len(region.vertices))


def rotated_shapes(
    mesh: TetMesh, rest: Floats, shapes: Floats, region: Region, mass: Floats, allowed: NullSpace
) -> Floats:
    """Return a mass-orthonormal basis (k, 3, r) at a rest shape: shapes, rotated with the flesh.

    `shapes` (n, 3, r) are in the neutral pose's frames; the basis is projected to the displacements
    of the region that contacts allow. `mass` (n,) has the masses of all vertices.
    """
    quaternions = pose_rotations(mesh, [mesh.vertices, rest], [-1, 0])[1]
    rotated = rotate_basis(quaternions, shapes)[region.vertices]
    vectors = rotated.reshape(3 * len(region.vertices), -1)
    inertia = np.repeat(mass[region.vertices], 3)[:, None]
    if allowed.rank:
        vectors = _nearest_allowed(vectors, inertia, allowed)
    frame, triangle = np.linalg.qr(np.sqrt(inertia) * vectors)
    lengths = np.abs(np.diagonal(triangle))
    if not lengths.min() > _DEPENDENT * lengths.max():
        raise SuppleError("contacts leave fewer independent directions than modes; use fewer modes")
    frame *= np.where(np.diagonal(triangle) < 0, -1.0, 1.0)
    basis = np.divide(frame, np.sqrt(inertia), out=np.zeros_like(frame), where=inertia > 0)
    return basis.reshape(len(region.vertices), 3, -1)


def _nearest_allowed(vectors: Floats, inertia: Floats, allowed: NullSpace) -> Floats:
    """Return Z (ZᵀMZ)⁻¹ ZᵀM u, the allowed displacements nearest in the mass norm."""
    space = allowed.matrix
    heavy = np.maximum(inertia[:, 0], 1e-12 * inertia.max())  # unreferenced vertices have no mass
    weighed = sp.csr_array(space.T @ sp.diags_array(heavy))
    matrix = symmetrised(sp.csr_array(weighed @ space))
    solved = SparseCholesky(matrix).factorise(matrix).solve(weighed @ vectors)
    return np.asarray(space @ solved)


def region_stiffness(stiffness: sp.csr_array, region: Region, basis: Floats) -> Floats:
    """Return UᵀKU of a region's basis (k, 3, r): symmetric, (r, r)."""
    columns = basis.reshape(-1, basis.shape[2])
    unknowns = region.unknowns
    product = columns.T @ (stiffness[unknowns][:, unknowns] @ columns)
    return (product + product.T) / 2


def _contact_rows(task: PoseTask) -> tuple[BoundaryContacts | None, sp.csr_array | None]:
    if task.contacts is None:
        return None, None
    touching = find_boundary_contacts(task.mesh, None, task.rest, obstacles=task.obstacles)
    return touching, contact_constraints(touching, len(task.rest), kind=task.contacts)
