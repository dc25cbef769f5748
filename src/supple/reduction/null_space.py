"""Displacements that linear constraints allow, as the columns of a sparse matrix."""

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

#: Entries of rows below this count as zero; rows are unit vectors here.
UNTOUCHED = 1e-14
#: Singular values below this part of the largest say that rows repeat each other (xu2016 §6).
REDUNDANT = 1e-6
#: Pieces of more unknowns than this are eliminated, not orthonormalised, as far as they can be.
_SMALL = 12
#: And rows are solved for coordinates that stand in them with at least this.
_PIVOT = 0.3
#: Entries of the dense basis of one piece: 0.4 GB.
_MOST_ENTRIES = 50_000_000


@dataclass(frozen=True, eq=False, repr=False)
class NullSpace:
    """Z, a basis of the displacements u with C u = 0 that leave fixed vertices alone.

    Attributes
    ----------
    matrix
        (3n, d) Z, sparse. Its columns are orthonormal, but for patches of many contacts, where
        sparse matters more.
    rank
        How many independent rows C has.
    dropped_rows
        Rows of C that say nothing the others do not, ascending.
    vertices
        (k,) that may move, ascending.
    slots
        (d,) where the columns stand, ascending, if each of `vertices` has room for three. A
        vertex without constraints has its own coordinates there, so ZᵀKZ spread out like this
        keeps the blocks of three that make its factorisation cheap.
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
        # Slots ascend, so columns renamed in place stay sorted.
        columns = self.slots[self.matrix.indices]
        shape = (self.matrix.shape[0], 3 * len(self.vertices))
        return sp.csr_array((self.matrix.data, columns, self.matrix.indptr), shape=shape)


def null_space(
    constraints: sp.csr_array | None, n_vertices: int, free: ArrayLike | None = None
) -> NullSpace:
    """Compute a sparse null space Z of C (xu2016 eq. 29).

    At every vertex, coordinates turn so that rows touch as few of them as possible; those
    untouched are columns of Z already. The others fall apart into pieces that rows couple (one
    coordinate for sliding on an obstacle, two for a pair of vertices that touch), and every
    small piece has an orthonormal basis of its own. In large ones, rows are solved for a
    coordinate that no other row touches, as that of a vertex on a triangle; rows that have none
    are decomposed together. Where the paper has one column-pivoted LU for all, Z stays about as
    sparse as C, and ZᵀKZ is factored as K would be.

    Parameters
    ----------
    constraints
        (c, 3n) C, any number of rows; None for none. Rows may repeat each other: those that
        add less than 1e-6 are dropped, and C Z is zero to rounding on all others.
    n_vertices
        n.
    free
        (k,) vertices that may move; by default all.

    Raises
    ------
    SuppleError
        If C does not fit, is not finite, or couples more unknowns than memory has room for.

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
    given = checked_rows(constraints, count)
    rows, kept = _unit_rows(given, unknowns)
    with single_threaded():
        turn, touched = _turned_coordinates(rows)
        basis, slots, repeated = _allowed(sp.csr_array(rows @ turn), touched)
    dropped = np.setdiff1d(np.arange(given.shape[0]), np.delete(kept, repeated))
    allowed = sp.coo_array(turn @ basis)
    allowed = sp.csr_array(
        (allowed.data, (unknowns[allowed.row], allowed.col)), shape=(3 * n_vertices, len(slots))
    )
    return NullSpace(allowed, 3 * len(vertices) - len(slots), dropped, vertices, slots)


def _turned_coordinates(rows: sp.csr_array) -> tuple[sp.csr_array, Bools]:
    """Turn the coordinates of every vertex so that rows touch the first; mark those touched.

    The first are (3k, 3k), orthogonal blocks of three; a vertex without rows keeps its own.
    """
    entries = sp.coo_array(rows)
    vertex, axis = np.divmod(entries.col, 3)
    pairs, pair = np.unique(
        np.stack([vertex, entries.row]), axis=1, return_inverse=True
    )  # sorted by vertex
    blocks = np.zeros((pairs.shape[1], 3))
    blocks[pair.ravel(), axis] = entries.data
    held, first, counts = np.unique(pairs[0], return_index=True, return_counts=True)
    frames = np.empty((len(held), 3, 3))
    touched = np.zeros((rows.shape[1] // 3, 3), bool)
    for count in np.unique(counts):
        some = np.flatnonzero(counts == count)
        # Of many rows at a vertex, U would take the square of their number.
        _, sizes, directions = np.linalg.svd(
            blocks[first[some][:, None] + np.arange(count)], full_matrices=bool(count < 3)
        )
        frames[some] = directions.transpose(0, 2, 1)
        touched[held[some], : sizes.shape[1]] = sizes > UNTOUCHED
    turned = np.tile(np.eye(3), (len(touched), 1, 1))
    turned[held] = frames
    start = np.arange(len(touched) + 1)
    turn = sp.csr_array(sp.bsr_array((turned, start[:-1], start), shape=(touched.size,) * 2))
    turn.eliminate_zeros()
    return turn, touched.ravel()


def _allowed(rows: sp.csr_array, touched: Bools) -> tuple[sp.csr_array, Ints, Ints]:
    """Return the null space of rows in turned coordinates, its columns' slots, repeated rows."""
    free = np.flatnonzero(~touched)
    parts = [(np.ones(len(free)), free, free)]  # values, coordinates, slots
    repeated = []
    for chosen, coordinates, dense in _pieces(rows, touched):
        for piece, null, places, extra in _bases(dense):
            here = coordinates[piece]
            at = np.broadcast_to(here[:, :, None], null.shape)
            slots = np.broadcast_to(here[:, None, places], null.shape)
            there = null != 0
            parts.append((null[there], at[there], slots[there]))
            repeated.append(np.take_along_axis(chosen[piece], extra, 1).ravel())
    values, at, slot = (np.concatenate(column) for column in zip(*parts, strict=True))
    slots, column = np.unique(slot, return_inverse=True)
    basis = sp.csr_array((values, (at, column)), shape=(rows.shape[1], len(slots)))
    return basis, slots, np.concatenate([np.empty(0, np.int64), *repeated])


def _pieces(rows: sp.csr_array, touched: Bools) -> Iterator[tuple[Ints, Ints, Floats]]:
    """Find coupled pieces, those of one shape together: rows (g, c), coordinates (g, m), values."""
    n_rows, coordinates = rows.shape[0], np.flatnonzero(touched)
    if n_rows == 0:
        return
    part = sp.csr_array(rows[:, coordinates])
    graph = sp.block_array([[None, part], [part.T, None]], format="csr")
    n_pieces, label = connected_components(graph, directed=False)
    row_order, row_start = _by_piece(label[:n_rows], n_pieces)
    order, start = _by_piece(label[n_rows:], n_pieces)
    place = np.empty(len(order), np.int64)  # of a coordinate in its piece
    place[order] = np.arange(len(order)) - np.repeat(start[:-1], np.diff(start))
    shapes = np.stack([np.diff(row_start), np.diff(start)])
    for n_c, n_m in np.unique(shapes, axis=1).T:
        members = np.flatnonzero((shapes[0] == n_c) & (shapes[1] == n_m))
        if max(n_c, n_m) * n_m > _MOST_ENTRIES:
            raise SuppleError(
                f"{n_c} contact rows couple {n_m} unknowns in one piece, too many to separate; "
                "use one-sided contact, or fewer contacts"
            )
        chosen = row_order[row_start[members][:, None] + np.arange(n_c)]
        mine = sp.coo_array(part[chosen.ravel()])
        dense = np.zeros((len(members) * n_c, n_m))
        dense[mine.row, place[mine.col]] = mine.data
        here = order[start[members][:, None] + np.arange(n_m)]
        yield chosen, coordinates[here], dense.reshape(len(members), n_c, n_m)


def _by_piece(label: ShortInts, n_pieces: int) -> tuple[Ints, Ints]:
    """List the members of one piece after another, and where each piece starts."""
    start = np.concatenate([[0], np.cumsum(np.bincount(label, minlength=n_pieces))])
    return np.argsort(label, kind="stable"), start


def _bases(dense: Floats) -> Iterator[tuple[Ints, Floats, Ints, Ints]]:
    """Compute null spaces of matrices (g, c, m) of one shape, those of one rank together.

    Yields which matrices, their null spaces (h, m, m − rank), at which of the m coordinates the
    columns stand, and their redundant rows.
    """
    if dense.shape[2] > _SMALL:
        for piece, matrix in enumerate(dense):
            null, places, extra = _eliminated(matrix)
            yield np.array([piece]), null[None], places, extra[None]
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
    """Eliminate one piece: a sparse null space (m, d), where its columns stand, redundant rows.

    Rows with a large entry in a column that is empty otherwise are solved for it (xu2016
    eq. 29, with C_p diagonal); what the other rows allow is found first.
    """
    alone = np.where(np.count_nonzero(matrix, axis=0) == 1, np.abs(matrix), 0.0)
    pivot = alone.argmax(axis=1)
    solved = np.flatnonzero(alone.max(axis=1) >= _PIVOT)
    pivots, others = pivot[solved], np.delete(np.arange(len(matrix)), solved)
    kept = np.delete(np.arange(matrix.shape[1]), pivots)
    coupled = matrix[np.ix_(others, kept)]
    inside = coupled.any(axis=0)
    null, extra = np.eye(len(kept)), others[:0]
    places = kept
    if len(others):
        order, rank, space = _ranked(coupled[:, inside])
        dense = np.zeros((len(kept), int(inside.sum()) - rank))
        dense[inside] = space[:, rank:]
        null = np.hstack([null[:, ~inside], dense])
        places = np.concatenate([kept[~inside], kept[inside][: dense.shape[1]]])
        extra = others[order[rank:]]
    whole = np.zeros((matrix.shape[1], null.shape[1]))
    whole[kept] = null
    whole[pivots] = -(matrix[solved][:, kept] @ null) / matrix[solved, pivots][:, None]
    return whole, places, extra


def _ranked(matrix: Floats) -> tuple[Ints, int, Floats]:
    """Order rows, the most independent first; return them, the rank, and Q that spans them."""
    space, triangle, order = scipy.linalg.qr(matrix.T, pivoting=True)
    sizes = np.abs(np.diagonal(triangle))
    return order.astype(np.int64), int((sizes > REDUNDANT * sizes[0]).sum()), space


# Rows of linear constraints, checked and made alike in size.


def checked_rows(constraints: sp.csr_array | None, n_vertices: int) -> sp.csr_array:
    """Check that C is (c, 3n) and finite; no rows if None."""
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


def _unit_rows(given: sp.csr_array, unknowns: Ints) -> tuple[sp.csr_array, Ints]:
    """Scale rows on these unknowns to length 1, and tell which of those given they were.

    Rows of which nothing is left there are left out. Each is judged by itself: what counts is
    its direction, and one in millimetres may be far smaller than another.
    """
    given = sp.csr_array(given, copy=True)
    given.sum_duplicates()
    wholes = largest_entries(given)
    rows = sp.csr_array(given[:, unknowns])
    kept = np.flatnonzero(largest_entries(rows) > UNTOUCHED * wholes)
    # A power of two first: the squares of 1e-200 are zero.
    powers = np.ldexp(1.0, -np.frexp(wholes[kept])[1].clip(-1000, 1000))
    rows = sp.csr_array(sp.diags_array(powers) @ rows[kept]) if len(kept) else rows[kept]
    sizes = np.sqrt(rows.multiply(rows).sum(axis=1)) if rows.nnz else np.zeros(rows.shape[0])
    scaled = sp.csr_array(sp.diags_array(1 / sizes) @ rows) if len(kept) else rows
    scaled.data[np.abs(scaled.data) < UNTOUCHED] = 0.0
    scaled.eliminate_zeros()
    return sp.csr_array(scaled), kept


def largest_entries(rows: sp.csr_array) -> Floats:
    """Return the largest entry of each row without its sign, (c,)."""
    if 0 in rows.shape:
        return np.zeros(rows.shape[0])
    return np.asarray(abs(rows).max(axis=1).toarray(), np.float64).ravel()
