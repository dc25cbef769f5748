"""Sparse null spaces of linear constraints on displacements."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.sparse.csgraph import connected_components

from supple.arrays import Bools, Floats, Ints, ShortInts
from supple.checks import checked_count, checked_indices
from supple.errors import SuppleError
from supple.linalg.blas import single_threaded

#: Entries below this count as zero; rows are unit vectors.
UNTOUCHED = 1e-14
#: Relative singular value below which rows are redundant (xu2016 §6).
REDUNDANT = 1e-6
#: Pieces with more unknowns are eliminated where possible, not orthonormalised.
_SMALL = 12
#: Least coefficient of a coordinate for which a row is solved.
_PIVOT = 0.3
#: Most entries of the dense basis of one piece: 0.4 GB.
_MOST_ENTRIES = 50_000_000


@dataclass(frozen=True, eq=False, repr=False)
class NullSpace:
    """Z, a basis of the displacements u with C u = 0 and without fixed vertices.

    Attributes
    ----------
    matrix
        (3n, d) Z, sparse. Its columns are orthonormal except in patches of many contacts, where
        sparsity matters more.
    rank
        Number of independent rows of C.
    dropped_rows
        Redundant rows of C, ascending.
    vertices
        (k,) vertices that may move, ascending.
    slots
        (d,) positions of the columns, ascending, among three for each of `vertices`. A vertex
        without constraints has its own coordinates there, so that ZᵀKZ in this layout has the
        blocks of three that make its factorisation cheap.
    """

    matrix: sp.csr_array
    rank: int
    dropped_rows: Ints
    vertices: Ints
    slots: Ints

    def __repr__(self) -> str:
        rows, columns = self.matrix.shape
        dropped = len(self.dropped_rows)
        return f"NullSpace({columns} of {rows} unknowns, rank {self.rank}, {dropped} rows dropped)"

    def spread(self) -> sp.csr_array:
        """Return Z as (3n, 3k), its columns in their slots and zeros in the others."""
        # Slots ascend, so renumbered columns stay sorted.
        columns = self.slots[self.matrix.indices]
        shape = (self.matrix.shape[0], 3 * len(self.vertices))
        return sp.csr_array((self.matrix.data, columns, self.matrix.indptr), shape=shape)


def null_space(
    constraints: sp.csr_array | None, n_vertices: int, free: ArrayLike | None = None
) -> NullSpace:
    """Compute a sparse null space Z of C (xu2016 eq. 29).

    The coordinates of every vertex are rotated so that rows involve as few of them as possible;
    coordinates that are not involved are columns of Z. The others form pieces that rows couple (one
    coordinate for sliding on an obstacle, two for a pair of vertices in contact), and every small
    piece has an orthonormal basis. In large pieces, rows are solved for a coordinate that no other
    row involves, such as one of a vertex on a triangle; rows without it are decomposed together.
    The paper uses one column-pivoted LU for all; here Z is about as sparse as C, and the
    factorisation of ZᵀKZ costs as much as K's.

    Parameters
    ----------
    constraints
        (c, 3n) C, any number of rows; None for none. Rows that are redundant to 1e-6 are dropped,
        and C Z is zero to rounding for all others.
    n_vertices
        n.
    free
        (k,) vertices that may move; by default all.

    Raises
    ------
    SuppleError
        If C has a wrong shape, is not finite, or couples too many unknowns for memory.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> sliding = sp.csr_array([[0.0, 0.0, 2.0]])  # one vertex, in the plane z = 0
    >>> null_space(sliding, 1)
    NullSpace(2 of 3 unknowns, rank 1, 0 rows dropped)
    """
    count = checked_count("the number of vertices", n_vertices, 0)
    vertices = np.arange(count)
    if free is not None:
        vertices = np.unique(checked_indices("free vertex", free, count))
    unknowns = (3 * vertices[:, None] + np.arange(3)).ravel()
    checked = checked_rows(constraints, count)
    rows, used = _unit_rows(checked, unknowns)
    with single_threaded():
        rotation, touched = _rotated_coordinates(rows)
        basis, slots, repeated = _allowed(sp.csr_array(rows @ rotation), touched)
    dropped = np.setdiff1d(np.arange(checked.shape[0]), np.delete(used, repeated))
    allowed = sp.coo_array(rotation @ basis)
    allowed = sp.csr_array(
        (allowed.data, (unknowns[allowed.row], allowed.col)), shape=(3 * n_vertices, len(slots))
    )
    return NullSpace(allowed, 3 * len(vertices) - len(slots), dropped, vertices, slots)


def _rotated_coordinates(rows: sp.csr_array) -> tuple[sp.csr_array, Bools]:
    """Return a rotation of each vertex's coordinates, such that rows involve only the first.
    It is (3k, 3k), with orthogonal blocks of three; a vertex without rows has the identity. Also
    returns a mask (3k,) of the involved coordinates.
    """
    entries = sp.coo_array(rows)
    vertex, axis = np.divmod(entries.col, 3)
    pairs, pair = np.unique(
        np.stack([vertex, entries.row]), axis=1, return_inverse=True
    )  # sorted by vertex
    blocks = np.zeros((pairs.shape[1], 3))
    blocks[pair.ravel(), axis] = entries.data
    constrained, first, counts = np.unique(pairs[0], return_index=True, return_counts=True)
    frames = np.empty((len(constrained), 3, 3))
    touched = np.zeros((rows.shape[1] // 3, 3), bool)
    for count in np.unique(counts):
        some = np.flatnonzero(counts == count)
        # For many rows at a vertex, U would have the square of their number of entries.
        _, sizes, directions = np.linalg.svd(
            blocks[first[some][:, None] + np.arange(count)], full_matrices=bool(count < 3)
        )
        frames[some] = directions.transpose(0, 2, 1)
        touched[constrained[some], : sizes.shape[1]] = sizes > UNTOUCHED
    rotations = np.tile(np.eye(3), (len(touched), 1, 1))
    rotations[constrained] = frames
    start = np.arange(len(touched) + 1)
    rotation = sp.csr_array(sp.bsr_array((rotations, start[:-1], start), shape=(touched.size,) * 2))
    rotation.eliminate_zeros()
    return rotation, touched.ravel()


def _allowed(rows: sp.csr_array, touched: Bools) -> tuple[sp.csr_array, Ints, Ints]:
    """Return the null space of rows in rotated coordinates, its columns' slots, redundant rows."""
    free = np.flatnonzero(~touched)
    parts = [(np.ones(len(free)), free, free)]  # values, coordinates, slots
    repeated = []
    for chosen, coordinates, dense in _pieces(rows, touched):
        for piece, null, positions, extra in _bases(dense):
            members = coordinates[piece]
            at = np.broadcast_to(members[:, :, None], null.shape)
            slots = np.broadcast_to(members[:, None, positions], null.shape)
            nonzero = null != 0
            parts.append((null[nonzero], at[nonzero], slots[nonzero]))
            repeated.append(np.take_along_axis(chosen[piece], extra, 1).ravel())
    values, at, slot = (np.concatenate(column) for column in zip(*parts, strict=True))
    slots, column = np.unique(slot, return_inverse=True)
    basis = sp.csr_array((values, (at, column)), shape=(rows.shape[1], len(slots)))
    return basis, slots, np.concatenate([np.empty(0, np.int64), *repeated])


def _pieces(rows: sp.csr_array, touched: Bools) -> Iterator[tuple[Ints, Ints, Floats]]:
    """Yield coupled pieces of one shape: rows (g, c), coordinates (g, m), values (g, c, m)."""
    n_rows, coordinates = rows.shape[0], np.flatnonzero(touched)
    if n_rows == 0:
        return
    part = sp.csr_array(rows[:, coordinates])
    graph = sp.block_array([[None, part], [part.T, None]], format="csr")
    n_pieces, label = connected_components(graph, directed=False)
    row_order, row_start = _by_piece(label[:n_rows], n_pieces)
    order, start = _by_piece(label[n_rows:], n_pieces)
    position = np.empty(len(order), np.int64)  # of a coordinate in its piece
    position[order] = np.arange(len(order)) - np.repeat(start[:-1], np.diff(start))
    shapes = np.stack([np.diff(row_start), np.diff(start)])
    for n_c, n_m in np.unique(shapes, axis=1).T:
        members = np.flatnonzero((shapes[0] == n_c) & (shapes[1] == n_m))
        if max(n_c, n_m) * n_m > _MOST_ENTRIES:
            raise SuppleError(
                f"{n_c} contact rows couple {n_m} unknowns in one piece, which is too large; "
                "use one-sided contact, or fewer contacts"
            )
        chosen = row_order[row_start[members][:, None] + np.arange(n_c)]
        entries = sp.coo_array(part[chosen.ravel()])
        dense = np.zeros((len(members) * n_c, n_m))
        dense[entries.row, position[entries.col]] = entries.data
        columns = order[start[members][:, None] + np.arange(n_m)]
        yield chosen, coordinates[columns], dense.reshape(len(members), n_c, n_m)


def _by_piece(label: ShortInts, n_pieces: int) -> tuple[Ints, Ints]:
    """Return the members of all pieces, one piece after another, and the start of each piece."""
    start = np.concatenate([[0], np.cumsum(np.bincount(label, minlength=n_pieces))])
    return np.argsort(label, kind="stable"), start


def _bases(dense: Floats) -> Iterator[tuple[Ints, Floats, Ints, Ints]]:
    """Compute null spaces of matrices (g, c, m) of one shape, grouped by rank. Yields indices of
    matrices, their null spaces (h, m, m − rank), positions of the columns among the m coordinates,
    and redundant rows.
    """
    if dense.shape[2] > _SMALL:
        for piece, matrix in enumerate(dense):
            null, positions, extra = _eliminated(matrix)
            yield np.array([piece]), null[None], positions, extra[None]
        return
    _, sizes, space = np.linalg.svd(dense, full_matrices=dense.shape[1] < dense.shape[2])
    ranks = (sizes > REDUNDANT * sizes[:, :1]).sum(axis=1)
    for rank in np.unique(ranks):
        some = np.flatnonzero(ranks == rank)
        extra = np.empty((len(some), dense.shape[1] - rank), np.int64)
        if extra.size:
            extra[:] = [_ranked(matrix)[0][rank:] for matrix in dense[some]]
        null = space[some, rank:].transpose(0, 2, 1)
        yield some, null, np.arange(null.shape[2]), extra


def _eliminated(matrix: Floats) -> tuple[Floats, Ints, Ints]:
    """Return a sparse null space (m, d) of a piece, positions of its columns, redundant rows.
    Rows with a large entry in a column that is empty otherwise are solved for it (xu2016
    eq. 29, with C_p diagonal), after the null space of the other rows.
    """
    alone = np.where(np.count_nonzero(matrix, axis=0) == 1, np.abs(matrix), 0.0)
    pivot = alone.argmax(axis=1)
    solved = np.flatnonzero(alone.max(axis=1) >= _PIVOT)
    pivots, others = pivot[solved], np.delete(np.arange(len(matrix)), solved)
    remaining = np.delete(np.arange(matrix.shape[1]), pivots)
    coupled = matrix[np.ix_(others, remaining)]
    inside = coupled.any(axis=0)
    null, extra = np.eye(len(remaining)), others[:0]
    positions = remaining
    if len(others):
        order, rank, space = _ranked(coupled[:, inside])
        dense = np.zeros((len(remaining), int(inside.sum()) - rank))
        dense[inside] = space[:, rank:]
        null = np.hstack([null[:, ~inside], dense])
        positions = np.concatenate([remaining[~inside], remaining[inside][: dense.shape[1]]])
        extra = others[order[rank:]]
    basis = np.zeros((matrix.shape[1], null.shape[1]))
    basis[remaining] = null
    basis[pivots] = -(matrix[solved][:, remaining] @ null) / matrix[solved, pivots][:, None]
    return basis, positions, extra


def _ranked(matrix: Floats) -> tuple[Ints, int, Floats]:
    """Return the order of rows by independence, the rank, and Q (m, m) of QR of the transpose."""
    space, triangle, order = scipy.linalg.qr(matrix.T, pivoting=True)
    sizes = np.abs(np.diagonal(triangle))
    return order.astype(np.int64), int((sizes > REDUNDANT * sizes[0]).sum()), space


# Rows of linear constraints, checked and normalised.


def checked_rows(constraints: sp.csr_array | None, n_vertices: int) -> sp.csr_array:
    """Return C, checked to be (c, 3n) and finite; (0, 3n) if it is None."""
    if constraints is None:
        return sp.csr_array((0, 3 * n_vertices))
    try:
        matrix = sp.csr_array(constraints, dtype=np.float64)
    except (TypeError, ValueError):
        raise SuppleError("constraints must be a matrix of numbers, sparse or not") from None
    if matrix.ndim != 2 or matrix.shape[1] != 3 * n_vertices:
        raise SuppleError(
            f"constraints of shape {matrix.shape} for {n_vertices} vertices; "
            f"they need {3 * n_vertices} columns"
        )
    if not np.isfinite(matrix.data).all():
        entry = int(np.argmin(np.isfinite(matrix.data)))
        row = int(np.searchsorted(matrix.indptr, entry, side="right")) - 1
        raise SuppleError(f"constraint row {row} has a value that is not finite")
    return matrix


def _unit_rows(constraints: sp.csr_array, unknowns: Ints) -> tuple[sp.csr_array, Ints]:
    """Return rows on these unknowns, scaled to length 1, and their indices in `constraints`.
    Rows without entries there are omitted. Each row is scaled by itself, as units may differ.
    """
    constraints = sp.csr_array(constraints, copy=True)
    constraints.sum_duplicates()
    wholes = largest_entries(constraints)
    rows = sp.csr_array(constraints[:, unknowns])
    used = np.flatnonzero(largest_entries(rows) > UNTOUCHED * wholes)
    # First by a power of two, as the squares of 1e-200 underflow.
    powers = np.ldexp(1.0, -np.frexp(wholes[used])[1].clip(-1000, 1000))
    rows = sp.csr_array(sp.diags_array(powers) @ rows[used]) if len(used) else rows[used]
    sizes = np.sqrt(rows.multiply(rows).sum(axis=1)) if rows.nnz else np.zeros(rows.shape[0])
    scaled = sp.csr_array(sp.diags_array(1 / sizes) @ rows) if len(used) else rows
    scaled.data[np.abs(scaled.data) < UNTOUCHED] = 0.0
    scaled.eliminate_zeros()
    return sp.csr_array(scaled), used


def largest_entries(rows: sp.csr_array) -> Floats:
    """Return the largest absolute value (c,) in each row."""
    if 0 in rows.shape:
        return np.zeros(rows.shape[0])
    return np.asarray(abs(rows).max(axis=1).toarray(), np.float64).ravel()
