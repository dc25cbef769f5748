"""Interpolation of bases between poses (xu2016 §5.2), and its quality."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import ArrayLike

from supple.arrays import Floats
from supple.checks import checked_array, checked_masses, checked_whole_numbers, numbers
from supple.engines.pose_space.alignment import VARIANTS, Variant
from supple.errors import SolverError, SuppleError
from supple.linalg.blas import single_threaded
from supple.reduction.regions.region import Region
from supple.rig.tets.vertex_frames import blended_rotations, rotate_basis

PoseBases = Sequence[Sequence[Floats]]

#: Length below which a blended column has cancelled; aligned columns have length 1 at the poses.
VANISHED = 1e-8


def mass_products(bases: PoseBases, regions: Sequence[Region], mass: ArrayLike) -> Floats:
    """Return the terms of the reduced mass matrix (xu2016 eq. 16), (m(m+1)/2, r, r).

    Parameters
    ----------
    bases
        For each pose, for each region, the aligned basis (k_ρ, 3, r_ρ).
    regions
        Regions of the bases. Columns of two regions overlap at common vertices.
    mass
        (n,) masses of all tet vertices.

    Returns
    -------
    (m(m+1)/2, r, r) array
        For poses i ≤ j in the order 00, 01, …, 11, 12, …: UᵢᵀMUⱼ, plus its transpose where
        i < j. Their sum with weights wᵢ wⱼ is the mass matrix of Σ wᵢ Uᵢ. With lumped mass it is
        the same for bases in frames, for any rotations.
    """
    masses = checked_masses(mass, len(np.atleast_1d(numbers("vertex masses", mass))))
    _check_regions(regions, len(masses))
    _check_bases(bases, regions)
    starts, count = _column_starts(bases[0]), len(bases)
    i, j = np.triu_indices(count)
    twice = np.where(i == j, 0.5, 1.0)[:, None, None]  # i = j is counted twice
    products = np.zeros((len(i), starts[-1], starts[-1]))
    with single_threaded():
        for a, first in enumerate(regions):
            for b in range(a, len(regions)):
                block = _region_products(bases, a, b, first, regions[b], masses)
                rows, columns = (slice(starts[c], starts[c + 1]) for c in (a, b))
                pairs = (block[i, j] + block[j, i]) * twice
                products[:, rows, columns] = pairs
                products[:, columns, rows] = pairs.transpose(0, 2, 1)
    return products


def _region_products(
    bases: PoseBases, a: int, b: int, first: Region, second: Region, mass: Floats
) -> Floats:
    """Return UᵢᵀMUⱼ of columns of region a at pose i and of b at pose j, (m, m, r_a, r_b)."""
    shared, at_a, at_b = np.intersect1d(first.vertices, second.vertices, True, True)
    count, r, s = len(bases), bases[0][a].shape[2], bases[0][b].shape[2]
    # Rows are vertices and axes, columns are poses and basis columns: one product for all.
    left = np.stack([pose[a][at_a] for pose in bases], axis=2) * mass[shared, None, None, None]
    right = np.stack([pose[b][at_b] for pose in bases], axis=2)
    rows = 3 * len(shared)
    gram = left.reshape(rows, count * r).T @ right.reshape(rows, count * s)
    return gram.reshape(count, r, count, s).transpose(0, 2, 1, 3)


def _check_regions(regions: Sequence[Region], n_vertices: int) -> None:
    if len(regions) == 0:
        raise SuppleError("there are no regions; Region.whole makes one of the whole body")
    for region in regions:
        if region.vertices[-1] >= n_vertices:
            last = int(region.vertices[-1])
            raise SuppleError(
                f'region "{region.name}" has vertex {last}, but there are {n_vertices} vertices'
            )


def _check_bases(bases: PoseBases, regions: Sequence[Region]) -> None:
    if len(bases) == 0:
        raise SuppleError("no poses to blend; give at least the neutral one")
    for pose, parts in enumerate(bases):
        if len(parts) != len(regions):
            raise SuppleError(f"pose {pose} has {len(parts)} bases; use one per region")
        for region, basis, neutral in zip(regions, parts, bases[0], strict=True):
            columns = np.shape(neutral)[-1] if np.ndim(neutral) == 3 else 0
            what = f'basis of region "{region.name}" at pose {pose}'
            checked_array(what, basis, (len(region.vertices), 3, columns))


def _column_starts(parts: Sequence[Floats]) -> list[int]:
    return [0, *np.cumsum([part.shape[2] for part in parts]).tolist()]


def _blended_mass(products: ArrayLike, weights: ArrayLike) -> Floats:
    """Return the mass matrix of Σ wᵢ Uᵢ before its columns are scaled."""
    array = numbers("mass products", products)
    shares = checked_array("pose weights", weights, numbers("pose weights", weights).shape[:1])
    count, r = len(shares), array.shape[-1] if array.ndim else 0
    pairs = checked_array("mass products", array, (count * (count + 1) // 2, r, r))
    if count == 0:
        raise SuppleError("no poses to blend; give at least the neutral one")
    i, j = np.triu_indices(count)
    return np.tensordot(shares[i] * shares[j], pairs, 1)


def column_scales(products: ArrayLike, weights: ArrayLike) -> Floats:
    """Return ϒ (r,), which normalises the columns of Σ wᵢ Uᵢ by mass (xu2016 eq. 15)."""
    return _scales(_blended_mass(products, weights))


def _scales(blended: Floats) -> Floats:
    squared = np.diagonal(blended)
    if not (squared > VANISHED**2).all():
        raise SuppleError(
            f"column {int(np.argmin(squared))} of the blended basis vanishes; align the bases first"
        )
    return 1 / np.sqrt(squared)


def reduced_mass(products: ArrayLike, weights: ArrayLike) -> Floats:
    """Return M̃ = ϒ (Σ wᵢ wⱼ UᵢᵀMUⱼ) ϒ at pose weights (xu2016 eq. 16), (r, r).

    Parameters
    ----------
    products
        From `mass_products`.
    weights
        (m,) weights of the poses. The diagonal of the result is 1.
    """
    blended = _blended_mass(products, weights)
    scales = _scales(blended)
    return scales[:, None] * blended * scales


def interpolated_basis(
    bases: PoseBases,
    regions: Sequence[Region],
    weights: ArrayLike,
    rotations: ArrayLike | None,
    products: ArrayLike,
    n_vertices: int,
    *,
    variant: Variant = "frames",
) -> Floats:
    """Return U(p) = R(p) (Σ wᵢ Uᵢ) ϒ on the whole mesh (xu2016 eq. 14-16, which have R = 1).

    It is for analysis; simulators do not form it.

    Parameters
    ----------
    bases, regions
        As for `mass_products`.
    weights
        (m,) weights of the poses.
    rotations
        (m, n, 4) vertex rotations with consistent signs; not used by the variant "world".
    products
        From `mass_products`, to normalise columns.
    n_vertices
        Number n of vertices of the whole mesh.
    variant
        Variant of the alignment, "frames" or "world".

    Returns
    -------
    (3n, r) array
        Rows of vertices without a region are zero.
    """
    if variant not in VARIANTS:
        raise SuppleError(f'basis variant "{variant}"; use one of {", ".join(VARIANTS)}')
    _check_bases(bases, regions)
    _check_regions(regions, n_vertices)
    shares = checked_array("pose weights", weights, (len(bases),))
    scales = column_scales(products, shares)
    starts = _column_starts(bases[0])
    if len(scales) != starts[-1]:
        raise SuppleError(f"mass products have {len(scales)} columns; the bases have {starts[-1]}")
    quaternions = None
    if variant == "frames":
        if rotations is None:
            raise SuppleError('bases in frames need vertex rotations; or use variant="world"')
        quaternions = checked_array("vertex rotations", rotations, (len(bases), n_vertices, 4))
    basis = np.zeros((n_vertices, 3, starts[-1]))
    for at, region in enumerate(regions):
        blend = sum(share * pose[at] for share, pose in zip(shares, bases, strict=True))
        if quaternions is not None:
            blend = rotate_basis(blended_rotations(quaternions[:, region.vertices], shares), blend)
        columns = slice(starts[at], starts[at + 1])
        basis[region.vertices, :, columns] = blend * scales[columns]
    return basis.reshape(3 * n_vertices, -1)


def reduced_frequencies(basis: ArrayLike, stiffness: sp.csr_array, mass: ArrayLike) -> Floats:
    """Return frequencies in Hz, ascending, of a body restricted to a basis.

    ω / 2π of UᵀKU q = ω² M̃ q: the modes of xu2016 eq. 10, restricted to u = U q with the reduced
    mass of eq. 16.

    Parameters
    ----------
    basis
        U (3n, r).
    stiffness
        K (3n, 3n) at the pose.
    mass
        M̃ (r, r); see `reduced_mass`.
    """
    shape = numbers("basis", basis).shape
    if len(shape) != 2 or stiffness.shape != (shape[0], shape[0]):
        raise SuppleError(f"basis {shape} does not match a stiffness of shape {stiffness.shape}")
    U = checked_array("basis", basis, shape)
    M = checked_array("reduced mass", mass, (shape[1], shape[1]))
    with single_threaded():
        K = U.T @ (stiffness @ U)
        try:
            values = scipy.linalg.eigh((K + K.T) / 2, M, eigvals_only=True)
        except (np.linalg.LinAlgError, ValueError):
            raise SolverError(
                "the columns of the basis are linearly dependent, or the stiffness is not finite; "
                "align the bases of the poses first"
            ) from None
    return np.sqrt(np.maximum(values, 0.0)) / (2 * np.pi)


def frequency_ratios(reduced: ArrayLike, exact: ArrayLike, count: int = 6) -> Floats:
    """Return ratios of reduced to exact frequencies, the lowest `count` of both; 1 is perfect.

    A basis is stiffer than the body, so that ratios are at least 1 up to rounding. Exclude rigid
    motions from both.
    """
    ours, theirs = (
        np.sort(checked_array(f"{name} frequencies", each, numbers(name, each).shape[:1]))
        for name, each in (("reduced", reduced), ("exact", exact))
    )
    (requested,) = checked_whole_numbers("number of frequencies", [count])
    compared = min(requested, len(ours), len(theirs))
    if compared < 1:
        raise SuppleError("there are no frequencies to compare")
    if not theirs[0] > 0:
        raise SuppleError("an exact frequency is zero; leave rigid motions out")
    return ours[:compared] / theirs[:compared]
