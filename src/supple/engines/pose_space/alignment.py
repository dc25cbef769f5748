"""Alignment of bases of different poses, so that their columns can be blended (xu2016 §5.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints
from supple.checks import checked_array, numbers
from supple.errors import SolverError, SuppleError
from supple.linalg.blas import single_threaded
from supple.linalg.krylov import column_signs
from supple.rig.poses.example_poses import PoseTree
from supple.rig.tets.vertex_frames import unrotate_basis

#: Bases are blended in the neutral pose's frames, or in world axes as in the paper.
Variant = Literal["frames", "world"]

VARIANTS = ("frames", "world")
#: Eigenvalues below this fraction of the largest are rounding errors, or belong to rigid motions.
STIFFNESS_FLOOR = 1e-10
#: Largest accepted entry of |UᵀMU − I|.
ORTHONORMAL = 1e-5


@dataclass(frozen=True, eq=False, repr=False)
class AlignedBases:
    """Bases of one region at all poses, with corresponding columns.

    Attributes
    ----------
    bases
        For each pose (k, 3, r): in the neutral pose's frames, or in world axes; see `variant`.
    parents
        (m,) parents in the alignment tree.
    transformations
        (m, r, r) orthogonal Q: an aligned basis is the original one, in these axes, times Q.
    angles
        (m, r) angles between a pose's space and its parent's, ascending, in radians; zeros for
        the root.
    eigenvalues
        (r,) λ of the root's columns in rad²/s², ascending; ones if `align` had no stiffnesses.
    variant
        "frames" or "world".
    """

    bases: tuple[Floats, ...]
    parents: Ints
    transformations: Floats
    angles: Floats
    eigenvalues: Floats
    variant: Variant

    def __repr__(self) -> str:
        k, _, r = self.bases[0].shape
        worst = np.degrees(self.angles.max(initial=0.0))
        return f"AlignedBases({len(self.bases)} poses, {k} vertices, {r} columns, {worst:.1f}°)"

    def reduced(self, matrices: ArrayLike) -> Floats:
        """Convert reduced matrices A (m, r, r) of the original bases to aligned bases: QᵀAQ."""
        originals = checked_array("reduced matrices", matrices, self.transformations.shape)
        return np.swapaxes(self.transformations, 1, 2) @ originals @ self.transformations


def align(
    bases: Sequence[ArrayLike],
    parents: ArrayLike,
    mass: ArrayLike,
    *,
    stiffnesses: Sequence[ArrayLike] | None = None,
    rotations: ArrayLike | None = None,
    weighted: bool = True,
    variant: Variant = "frames",
) -> AlignedBases:
    """Align each pose's basis with its parent's by a rotation of its columns (xu2016 eq. 11-13).

    Parameters
    ----------
    bases
        For each pose, U (k, 3, r) in the world, with UᵀMU = I; the neutral pose first.
    parents
        (m,) parents in the alignment tree; see `alignment_tree`.
    mass
        (k,) masses of the vertices.
    stiffnesses
        For each pose UᵀKU (r, r). Columns are then sorted by stiffness and soft ones have more
        weight, so that differences are left to the stiff ones.
    rotations
        (m, k, 4) rotations of the vertices: from the neutral pose to each ("frames", see
        `pose_rotations`), or from its parent to each ("world", see `edge_rotations`). None for no
        rotations.
    weighted
        Whether soft columns have more weight; False is the paper's Procrustes problem.
    variant
        "frames" returns bases in the neutral pose's frames, Rᵀ U, which blend without shrinking.
        "world" is the paper's: bases are rotated to their parents for the comparison only.

    Notes
    -----
    With Y Σ Zᵀ = D_j (Ũ_jᵀ M Ũ_i) D_0, Q_j = Y Zᵀ, where D = diag((λ_1/λ_k)^½) of the pose
    and of the root, to which the columns of the aligned parent correspond. D = I is eq. 12. Equal
    eigenvalues have equal weights, so that the choice of their vectors does not matter.
    """
    tree = PoseTree.of(parents)
    if variant not in VARIANTS:
        raise SuppleError(f'alignment variant "{variant}"; use one of {", ".join(VARIANTS)}')
    with single_threaded():
        worlds, masses = _checked_bases(bases, len(tree), mass)
        count, (k, _, r) = len(worlds), worlds[0].shape
        unrotated = worlds
        if rotations is not None:
            quaternions = checked_array("vertex rotations", rotations, (count, k, 4))
            unrotated = [
                unrotate_basis(quaternion, basis)
                for quaternion, basis in zip(quaternions, worlds, strict=True)
            ]
        eigenvalues, transformations = _diagonalised(stiffnesses, worlds[0], count)
        weights = _softness(eigenvalues) if weighted else np.ones((count, r))
        aligned = list(unrotated) if variant == "frames" else list(worlds)
        aligned[0] = _mixed(aligned[0], transformations[0])
        angles = np.zeros((count, r))
        for j in tree.order[1:]:
            goal = aligned[tree.parents[j]]
            product = _mass_product(unrotated[j], goal, masses)
            weighed = weights[j][:, None] * (transformations[j].T @ product) * weights[0]
            transformations[j] = transformations[j] @ _orthogonal_factor(weighed, int(j))
            angles[j] = _principal_angles(unrotated[j], goal, product, masses)
            aligned[j] = _mixed(aligned[j], transformations[j])
    return AlignedBases(
        tuple(aligned), tree.parents, transformations, angles, eigenvalues[0], variant
    )


def _checked_bases(
    bases: Sequence[ArrayLike], count: int, mass: ArrayLike
) -> tuple[list[Floats], Floats]:
    if len(bases) != count:
        raise SuppleError(f"{len(bases)} bases for {count} poses; give one per pose")
    shape = numbers("basis of pose 0", bases[0]).shape
    if len(shape) != 3 or shape[1] != 3 or not 0 < shape[2] <= 3 * shape[0]:
        raise SuppleError(f"basis of pose 0: shape {shape}; expected (vertices, 3, columns)")
    worlds = [checked_array(f"basis of pose {i}", each, shape) for i, each in enumerate(bases)]
    masses = checked_array("vertex masses", mass, shape[:1])
    if not masses.min() >= 0:
        raise SuppleError(f"vertex mass {int(np.argmin(masses))} is negative")
    for pose, basis in enumerate(worlds):
        if not np.abs(_mass_product(basis, basis, masses) - np.eye(shape[2])).max() < ORTHONORMAL:
            raise SuppleError(f"basis of pose {pose} is not mass-orthonormal; UᵀMU must be I")
    return worlds, masses


def _mass_product(first: Floats, second: Floats, mass: Floats) -> Floats:
    """Return Uᵀ M V of two bases (k, 3, r)."""
    r = first.shape[2]
    weighed = (first * mass[:, None, None]).reshape(-1, r)
    return weighed.T @ second.reshape(-1, second.shape[2])


def _mixed(basis: Floats, matrix: Floats) -> Floats:
    """Return U A of a basis (k, 3, r), as one product rather than one for each vertex."""
    return (basis.reshape(-1, len(matrix)) @ matrix).reshape(basis.shape)


def _principal_angles(first: Floats, second: Floats, product: Floats, mass: Floats) -> Floats:
    """Return `subspace_angles` of orthonormal bases U, V with `product` UᵀMV, to 1e-8 rad."""
    outside = second - _mixed(first, product)
    squared_sines = np.linalg.eigvalsh(_mass_product(outside, outside, mass))
    cosines = np.linalg.svd(product, compute_uv=False)
    return np.arctan2(np.sqrt(np.maximum(squared_sines, 0.0)), cosines)


def _diagonalised(
    stiffnesses: Sequence[ArrayLike] | None, root: Floats, count: int
) -> tuple[Floats, Floats]:
    """Return eigenvalues (m, r) and eigenvectors (m, r, r) of stiffnesses; 1 and I for None."""
    r = root.shape[2]
    if stiffnesses is None:
        return np.ones((count, r)), np.tile(np.eye(r), (count, 1, 1))
    if len(stiffnesses) != count:
        raise SuppleError(f"{len(stiffnesses)} stiffnesses for {count} poses; give one per pose")
    eigenvalues, vectors = np.empty((count, r)), np.empty((count, r, r))
    for pose, stiffness in enumerate(stiffnesses):
        matrix = checked_array(f"reduced stiffness of pose {pose}", stiffness, (r, r))
        eigenvalues[pose], vectors[pose] = np.linalg.eigh((matrix + matrix.T) / 2)
    # Alignment determines the signs of the other poses.
    vectors[0] *= column_signs(root.reshape(-1, r) @ vectors[0])
    return eigenvalues, vectors


def _softness(eigenvalues: Floats) -> Floats:
    """Return (λ_1/λ_k)^½ of each pose, (m, r); λ of rigid motions are raised to a floor."""
    largest = eigenvalues[:, -1:]
    if not (largest > 0).all():
        pose = int(np.argmin(largest))
        raise SuppleError(f"reduced stiffness of pose {pose} has no positive eigenvalue")
    positive = np.maximum(eigenvalues, STIFFNESS_FLOOR * largest)
    return np.sqrt(positive[:, :1] / positive)


def _orthogonal_factor(matrix: Floats, pose: int) -> Floats:
    """Return Y Zᵀ of the singular value decomposition Y Σ Zᵀ (xu2016 eq. 12)."""
    try:
        Y, _, Zt = np.linalg.svd(matrix)
    except np.linalg.LinAlgError:
        raise SolverError(
            f"the basis of pose {pose} cannot be aligned; its entries are too large"
        ) from None
    return Y @ Zt


def subspace_angles(first: ArrayLike, second: ArrayLike, mass: ArrayLike) -> Floats:
    """Return the angles between the spaces of two bases, ascending, in radians (xu2016 §5.1).

    They are arccos of the singular values of UᵀMV where the bases are mass-orthonormal; small
    angles are computed from their sines, to full precision. Bases need not be orthonormal here.

    Parameters
    ----------
    first, second
        (k, 3, r) and (k, 3, s).
    mass
        (k,) masses of the vertices.
    """
    scaled = []
    masses = numbers("vertex masses", mass)
    for name, basis in (("first", first), ("second", second)):
        rows = numbers(f"{name} basis", basis)
        if rows.ndim != 3 or rows.shape[1] != 3 or 0 in rows.shape:
            raise SuppleError(f"{name} basis of shape {rows.shape}; expected (vertices, 3, r)")
        masses = checked_array("vertex masses", masses, (len(rows),))
        if not masses.min() >= 0:
            raise SuppleError(f"vertex mass {int(np.argmin(masses))} is negative")
        rows = checked_array(f"{name} basis", rows, rows.shape)
        weighed = (rows * np.sqrt(masses)[:, None, None]).reshape(-1, rows.shape[2])
        if not weighed.any():
            raise SuppleError(f"{name} basis moves no mass; it spans no space to compare")
        scaled.append(weighed)
    with single_threaded():
        return scipy.linalg.subspace_angles(*scaled)[::-1].copy()
