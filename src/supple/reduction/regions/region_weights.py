"""Overlapping regions of a body around handles: their weights and static displacements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints
from supple.checks import checked_array, checked_number, checked_whole_numbers
from supple.compiled.jit import at_most_threads
from supple.elastic.body import ElasticBody
from supple.errors import SuppleError
from supple.linalg.blas import single_threaded
from supple.linalg.sparse import principal_submatrix
from supple.mesh.biharmonic import biharmonic_weights
from supple.mesh.tets import EDGES, TetMesh
from supple.mesh.topology import row_keys, unreferenced
from supple.reduction.compliance import Compliance, LoosePieceError
from supple.reduction.regions.handles import Handle, checked_fixed, handle_vertices
from supple.reduction.regions.region import Region

#: η and κ of xu2016 §7, where they are 0.1 and 1/2. These regions are larger, store a fifth more
#: and represent twice as much of the gorilla's and the bear's motion under random accelerations.
THRESHOLD = 0.03
EXPONENT = 0.25


def region_weights(
    weights: ArrayLike, threshold: float = THRESHOLD, exponent: float = EXPONENT
) -> Floats:
    """Remap weights so that they decay to zero at a threshold (xu2016 §7).

    W′ = ((W − η) / (1 − η))^κ where W > η, and exactly 0 elsewhere.

    Parameters
    ----------
    weights : array
        W, in [0, 1], of any shape.
    threshold : float
        η, at least 0 and less than 1.
    exponent : float
        κ, positive; a larger κ confines a region more to its handle.

    Examples
    --------
    >>> region_weights([0.05, 0.1, 0.325, 1.0], 0.1, 0.5)
    array([0. , 0. , 0.5, 1. ])
    """
    eta, kappa = checked_remap(threshold, exponent)
    values = checked_array("weights", weights, np.shape(weights))
    if values.size and not (values.min() >= 0 and values.max() <= 1):
        raise SuppleError("weights must be from 0 to 1")
    return (np.maximum(values - eta, 0.0) / (1 - eta)) ** kappa


def checked_remap(threshold: float, exponent: float) -> tuple[float, float]:
    """Return η and κ, checked."""
    eta = checked_number("threshold", threshold)
    kappa = checked_number("exponent", exponent)
    if not 0 <= eta < 1:
        raise SuppleError(f"threshold is {eta:g}; it must be at least 0 and less than 1")
    if not kappa > 0:
        raise SuppleError(f"exponent is {kappa:g}; it must be positive")
    return eta, kappa


def covering_threshold(weights: Floats, threshold: float = THRESHOLD) -> float:
    """Return the threshold, lowered if needed so that each of k vertices is in a region.

    `weights` (k, d) are the weights of d handles. Flesh in no region cannot move. Weights
    add up to 1, so the largest at a vertex is at least 1/d: up to 5 handles a threshold of 0.1 is
    not lowered. Otherwise it is at most half of the smallest of the vertices' largest weights.
    """
    if len(weights) == 0:
        return threshold
    return min(threshold, 0.5 * float(weights.max(axis=1).min()))


def handle_weights(mesh: TetMesh, handles: Sequence[Handle]) -> Floats:
    """Compute bounded biharmonic weights W, (n, d), of handles (xu2016 §7).

    A handle has the vertices of the tets that it passes through; see `handle_vertices`.
    """
    return biharmonic_weights(mesh, handle_vertices(mesh, _checked_handles(handles)))


def _checked_handles(handles: Sequence[Handle]) -> tuple[Handle, ...]:
    try:
        listed = tuple(Handle(str(each.name), each.points) for each in handles)
    except (AttributeError, TypeError):
        raise SuppleError("handles must be a list of Handle objects") from None
    names = [handle.name for handle in listed]
    for name in names:
        if names.count(name) > 1:
            raise SuppleError(f'two handles are called "{name}"; rename one')
    return listed


def regions_of(
    mesh: TetMesh,
    handles: Sequence[Handle],
    fixed: ArrayLike | None = None,
    *,
    threshold: float = THRESHOLD,
    exponent: float = EXPONENT,
    weights: Floats | None = None,
) -> tuple[Region, ...]:
    """Make regions around handles (xu2016 §7).

    Every vertex that can move is in at least one region; see `covering_threshold`.

    Parameters
    ----------
    mesh : TetMesh
        The tets, of n vertices.
    handles : sequence of Handle
        One for each region. With one or none the whole body is the region.
    fixed : (f,) int array, optional
        Vertices that do not move. They and vertices of no tet are in no region.
    threshold, exponent : float
        η and κ; see `region_weights`.
    weights : (n, d) array, optional
        W; by default the result of `handle_weights`.

    Raises
    ------
    SuppleError
        If nothing can move, a handle is far outside of the body or in the tets of another, or
        a region has no vertices that can move.
    """
    n = len(mesh.vertices)
    eta, kappa = checked_remap(threshold, exponent)
    listed = _checked_handles(handles)
    excluded = np.union1d(checked_fixed(fixed, n), unreferenced(mesh.tets, n))
    free = np.setdiff1d(np.arange(n), excluded)
    if len(free) == 0:
        raise SuppleError("every vertex is fixed; free some, or use more tets")
    if len(listed) < 2:
        return (Region.whole(n, excluded, *(handle.name for handle in listed)),)
    if weights is None:
        weights = handle_weights(mesh, listed)
    rows = checked_array("weights", weights, (n, len(listed)))[free]
    remapped = region_weights(rows, covering_threshold(rows, eta), kappa)
    return tuple(
        _region(handle.name, free, column)
        for handle, column in zip(listed, remapped.T, strict=True)
    )


def _region(name: str, free: Ints, weights: Floats) -> Region:
    inside = weights > 0
    if not inside.any():
        raise SuppleError(
            f'region "{name}" has no vertices that can move: all are fixed to bones; '
            "move or drop its handle, lower the threshold, or use more tets"
        )
    return Region(name, free[inside], weights[inside])


class BorderJump(NamedTuple):
    """Jump of a region's weight to zero at its border."""

    largest: float
    """Largest W′ at a vertex with a neighbour outside of the region."""
    allowed: float
    """Bound at that vertex: the remapped rise of W along the edge."""
    excess: float
    """Largest excess over the bound at any edge; 0 if there is none."""
    edges: int
    """Number of edges across the border."""


def border_jump(
    region: Region,
    mesh: TetMesh,
    weights: ArrayLike,
    fixed: ArrayLike | None = None,
    *,
    threshold: float = THRESHOLD,
    exponent: float = EXPONENT,
) -> BorderJump:
    """Compare a region's weights at its border with the bound of a continuous function.

    W′ decays like the κ-th power of the distance, steeply for κ = ½, so that the last vertex inside
    may have a large weight, above all on a coarse mesh. On an edge of length ℓ across the border,
    W′ ≤ (ℓ |∇W| / (1 − η))^κ, with W's steepest slope in the tets of that edge; a larger W′ is a
    jump.

    Parameters
    ----------
    region, mesh
        The region, and the tets it is in.
    weights : (n,) array
        W of the region's handle.
    fixed : (f,) int array, optional
        Fixed vertices; edges to them do not count, as they do not move.
    threshold, exponent : float
        η and κ of the region.
    """
    n = len(mesh.vertices)
    eta, kappa = checked_remap(threshold, exponent)
    if region.vertices[-1] >= n:
        raise SuppleError(
            f'region "{region.name}" has vertex {region.vertices[-1]}; use up to {n - 1}'
        )
    smooth = checked_array("weights", weights, (n,))
    remapped = np.zeros(n)
    remapped[region.vertices] = region.weights
    ends, slope = _edges_with_slopes(mesh, smooth)
    inside = remapped[ends] > 0
    at_fixed = np.isin(ends, checked_fixed(fixed, n)).any(axis=1)
    border = (inside[:, 0] != inside[:, 1]) & ~at_fixed
    if not border.any():
        return BorderJump(0.0, 0.0, 0.0, 0)
    ends, slope = ends[border], slope[border]
    lengths = np.linalg.norm(mesh.vertices[ends[:, 1]] - mesh.vertices[ends[:, 0]], axis=1)
    jumps = remapped[ends].max(axis=1)
    allowed = (lengths * slope / (1 - eta)) ** kappa
    worst = int(np.argmax(jumps))
    excess = max(float((jumps - allowed).max()), 0.0)
    return BorderJump(float(jumps[worst]), float(allowed[worst]), excess, len(ends))


def _edges_with_slopes(mesh: TetMesh, values: Floats) -> tuple[Ints, Floats]:
    """Return edges (e, 2), and the steepest slope of values (n,) in the tets of each, (e,)."""
    corners, at = mesh.vertices[mesh.tets], values[mesh.tets]
    sides = corners[:, 1:] - corners[:, :1]
    rises = at[:, 1:] - at[:, :1]
    slopes = np.linalg.norm(np.linalg.solve(sides, rises[:, :, None])[:, :, 0], axis=1)
    ends = np.sort(mesh.tets[:, EDGES].reshape(-1, 2), axis=1)
    _, first, edge = np.unique(row_keys(ends, len(values)), return_index=True, return_inverse=True)
    steepest = np.zeros(len(first))
    np.maximum.at(steepest, edge, np.repeat(slopes, len(EDGES)))
    return ends[first], steepest


def stored_fraction(
    regions: Sequence[Region], modes_per_region: Sequence[int], n_vertices: int
) -> float:
    """Return the fraction of a dense basis' entries that a localised basis stores.

    Parameters
    ----------
    regions, modes_per_region
        The regions, and their numbers of columns.
    n_vertices
        Rows of the dense basis over 3: the vertices that can move, as a dense basis need not store
        fixed ones either.

    Examples
    --------
    >>> left, right = Region("l", [0, 1], [1, 1]), Region("r", [1, 2, 3], [1, 1, 1])
    >>> stored_fraction([left, right], [10, 10], 4)
    0.625
    """
    counts = checked_whole_numbers("modes of regions", modes_per_region)
    if len(counts) != len(regions):
        raise SuppleError(f"{len(counts)} numbers of modes; give one per region ({len(regions)})")
    if min(counts, default=0) < 0 or sum(counts) == 0 or n_vertices < 1:
        raise SuppleError("a basis needs at least one column and one vertex")
    stored = sum(len(region.vertices) * r for region, r in zip(regions, counts, strict=True))
    return stored / (n_vertices * sum(counts))


def region_sways(body: ElasticBody, rest: Floats, regions: Sequence[Region]) -> Floats:
    """Return √Σ m|u|² of each region, with u the static displacement under 1 m/s² along each axis;
    relative to the largest, to three digits. All are equal for a free body. The result estimates
    each region's share of any motion: compared with converged simulations of a bull, a rat and a
    husky, these shares are within 0.04 of the whole. Overlaps count by their weights.
    """
    moving = np.unique(np.concatenate([region.vertices for region in regions]))
    unknowns = (3 * moving[:, None] + np.arange(3)).reshape(-1)
    stiffness, masses = body.stiffness(rest, rest), body.vertex_masses()[moving]
    inner = principal_submatrix(stiffness, unknowns)
    along = np.tile(np.eye(3), (len(moving), 1)) * np.repeat(masses, 3)[:, None]
    try:
        with single_threaded(), at_most_threads(1):  # reproducible on every machine
            displacement = Compliance(inner, masses)(along)
    except LoosePieceError:  # computing the basis of a region reports where
        return np.ones(len(regions))
    squares = masses * (displacement.reshape(len(moving), -1) ** 2).sum(axis=1)
    weights = np.zeros((len(regions), len(moving)))
    for row, region in zip(weights, regions, strict=True):
        row[np.searchsorted(moving, region.vertices)] = region.weights
    sways = np.sqrt((weights / weights.sum(axis=0)) @ squares)
    if not sways.min() > 0:
        return np.ones(len(regions))
    # Left and right differ by rounding only, which must not decide between them.
    return np.round(sways / sways.max(), 3) + 1e-3
