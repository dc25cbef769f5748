"""Random reduced displacements for training and testing cubature, and localised bases."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.arrays import Floats
from supple.checks import checked_array, checked_count, checked_number
from supple.compiled.jit import serialised_loops
from supple.elastic.body import ElasticBody
from supple.errors import SuppleError
from supple.reduction.cubature.force_kernels import DETERMINANT_CHUNK, smallest_determinants
from supple.reduction.regions.region import Region, reduced_stiffness

LocalBasis = Sequence[Floats]

#: Largest displacement of a typical sample, relative to the character's size.
AMPLITUDE = 0.05
#: Samples are halved until no tet has less than this fraction of its volume.
SMALLEST_DETERMINANT = 0.05
_MOST_HALVINGS = 10
#: Relative stiffness below which a direction gets no displacement.
_RIGID = 1e-10
#: Entries of displacements (n, 3, t) of one chunk of samples, 40 MB.
_CHUNK_ENTRIES = 5_000_000


def checked_basis(
    what: str, basis: LocalBasis, regions: Sequence[Region], n_vertices: int
) -> tuple[Floats, ...]:
    """Return a localised basis, checked: a finite array (k, 3, r) per region, not all empty."""
    if len(regions) == 0:
        raise SuppleError("there are no regions; use Region.whole for a basis of the whole body")
    if len(basis) != len(regions):
        raise SuppleError(f"{what}: arrays for {len(basis)} regions; there are {len(regions)}")
    checked = []
    for array, region in zip(basis, regions, strict=True):
        if region.vertices[-1] >= n_vertices:
            raise SuppleError(f"{region!r} has vertices beyond the body's {n_vertices:,}")
        shape = (len(region.vertices), 3, np.shape(array)[-1] if np.ndim(array) == 3 else 1)
        checked.append(checked_array(f'{what}, region "{region.name}"', array, shape))
    if sum(array.shape[2] for array in checked) == 0:
        raise SuppleError(f"{what} has no columns")
    return tuple(checked)


def dense_basis(
    basis: LocalBasis, regions: Sequence[Region], n_vertices: int, dtype: type = np.float64
) -> NDArray:
    """Return a localised basis as (n, 3, r), zero outside the regions; columns region by region."""
    dense = np.zeros((n_vertices, 3, sum(array.shape[2] for array in basis)), dtype)
    column = 0
    for array, region in zip(basis, regions, strict=True):
        dense[region.vertices, :, column : column + array.shape[2]] = array
        column += array.shape[2]
    return dense


def displacements(
    basis: LocalBasis, regions: Sequence[Region], n_vertices: int, q: Floats
) -> Floats:
    """Return U q of each column of q (r, t), as (n, 3, t)."""
    displacement = np.zeros((n_vertices, 3, q.shape[1]))
    column = 0
    for array, region in zip(basis, regions, strict=True):
        k, _, r = array.shape
        product = array.reshape(3 * k, r) @ q[column : column + r]
        displacement[region.vertices] += product.reshape(k, 3, -1)
        column += r
    return displacement


def projected(basis: LocalBasis, regions: Sequence[Region], forces: Floats) -> Floats:
    """Return Uᵀ f of each column of the forces (n, 3, t), as (r, t)."""
    parts = []
    for array, region in zip(basis, regions, strict=True):
        k, _, r = array.shape
        parts.append(array.reshape(3 * k, r).T @ forces[region.vertices].reshape(3 * k, -1))
    return np.concatenate(parts)


def rest_stiffness(
    body: ElasticBody, rest: ArrayLike, basis: LocalBasis, regions: Sequence[Region]
) -> Floats:
    """Return UᵀKU of a body at rest in a localised basis, (r, r), exactly symmetric."""
    rest = checked_array("rest shape", rest, body.rest.shape)
    basis = checked_basis("basis", basis, regions, body.n_vertices)
    K = body.stiffness(rest, rest=rest, out=body.pattern.zeros())  # threads may share the body
    U = dense_basis(basis, regions, body.n_vertices)
    return reduced_stiffness(K, U.reshape(-1, U.shape[2]))


def force_samples(
    body: ElasticBody,
    rest: ArrayLike,
    basis: LocalBasis,
    regions: Sequence[Region],
    count: int,
    *,
    amplitude: float = AMPLITUDE,
    stiffness: ArrayLike | None = None,
    seed: int | np.random.Generator = 0,
) -> Floats:
    """Draw random reduced displacements q, (r, count), one sample per column (xu2016 §5.3).

    In each region they are Gaussian in the basis in which its reduced stiffness is diagonal, with a
    standard deviation proportional to 1/λ of the direction. They are scaled by one number such
    that the median over samples of the largest displacement of a vertex is `amplitude` times the
    diagonal of the body's bounding box. A sample that compresses a tet below
    `SMALLEST_DETERMINANT` of its volume is then halved until it does not.

    Parameters
    ----------
    body, rest, basis, regions
        A pose: its material, rest shape (n, 3) and localised basis.
    count
        Number of samples.
    amplitude
        Largest displacement of a typical sample, relative to the body's size.
    stiffness
        Reduced stiffness at rest (r, r); computed by default.
    seed
        Integer, or random generator.
    """
    rest = checked_array("rest shape", rest, body.rest.shape)
    basis = checked_basis("basis", basis, regions, body.n_vertices)
    count = checked_count("the number of samples", count)
    if not checked_number("amplitude", amplitude) > 0:
        raise SuppleError(
            f"amplitude {amplitude}; it must be a positive fraction of the body's size"
        )
    random = _generator(seed)
    widths = [array.shape[2] for array in basis]
    if stiffness is None:
        stiffness = rest_stiffness(body, rest, basis, regions)
    stiffness = checked_array("reduced stiffness", stiffness, (sum(widths), sum(widths)))
    q = _gaussian(stiffness, widths, count, random)
    step = max(16, _CHUNK_ENTRIES // (3 * body.n_vertices))
    chunks = [slice(first, first + step) for first in range(0, count, step)]

    def displacement(chunk: slice) -> Floats:
        return displacements(basis, regions, body.n_vertices, q[:, chunk])

    farthest = [np.linalg.norm(displacement(chunk), axis=1).max(axis=0) for chunk in chunks]
    largest = float(np.median(np.concatenate(farthest)))
    if not largest > 0:
        raise SuppleError("the basis has no displacement or no force; remove such columns")
    scale = amplitude * float(np.linalg.norm(np.ptp(body.rest, axis=0))) / largest
    if not np.isfinite(scale):
        raise SuppleError(f"amplitude {amplitude:g} is too large for the basis; use a smaller one")
    factors = [_harmless(body, rest, displacement(chunk) * scale) for chunk in chunks]
    return q * scale * np.concatenate(factors)


def _generator(seed: int | np.random.Generator) -> np.random.Generator:
    if isinstance(seed, np.random.Generator):
        return seed
    return np.random.default_rng(checked_count("the seed", seed, 0))


def _gaussian(
    stiffness: Floats, widths: Sequence[int], count: int, random: np.random.Generator
) -> Floats:
    """Draw samples (r, count), region by region; `widths` are numbers of their columns.

    Standard deviations are 1/λ along eigenvectors of each region's stiffness (eigenvalues λ).
    """
    q = np.zeros((len(stiffness), count))
    stiffest = np.abs(np.diag(stiffness)).max(initial=0.0)
    column = 0
    for width in widths:
        part = slice(column, column + width)
        values, vectors = np.linalg.eigh(stiffness[part, part])
        # Results must not depend on the signs of eigenvectors, which vary between libraries.
        signs = np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(width)])
        compliance = np.where(values > _RIGID * stiffest, 1 / np.maximum(values, 1e-300), 0.0)
        normal = random.standard_normal((width, count))
        q[part] = (vectors * signs) @ (compliance[:, None] * normal)
        column += width
    return q


def _harmless(body: ElasticBody, rest: Floats, displacement: Floats) -> Floats:
    """Return factors (t,), powers of ½, for which no displacement (n, 3, t) inverts a tet."""
    factors = np.ones(displacement.shape[2])
    tets = np.require(body.mesh.tets, np.int64, ["C", "W"])
    worst = np.empty((-(-len(tets) // DETERMINANT_CHUNK), len(factors)))
    for _ in range(_MOST_HALVINGS):
        with serialised_loops():
            smallest_determinants(rest, np.ascontiguousarray(displacement * factors), tets, worst)
        bad = worst.min(axis=0) < SMALLEST_DETERMINANT
        if not bad.any():
            break
        factors[bad] /= 2
    return factors
