"""Reduced bodies of VegaFEM: forces as cubic polynomials (``.cub``), and modes (``.U``).

A ``.cub`` file has four little-endian int32: the number of coordinates r and the numbers of linear,
quadratic and cubic monomials, r, r(r + 1)/2 and r(r + 1)(r + 2)/6; then float64 coefficients, all
linear ones, all quadratic, all cubic. Within each, the components of the force follow each other,
each with all its monomials in lexicographic order: q_i, q_i q_j with i ≤ j, q_i q_j q_k with i ≤ j
≤ k. A coefficient belongs to the whole monomial: the coefficient of q₀q₁ includes q₁q₀.

A modal matrix has int32 rows and columns, then the columns one by one, in float64, or in float32 in
files for rendering (``.float``); the size of the file distinguishes them. Rows are 3v + c for
component c of vertex v, so a matrix of r columns is a basis (n, 3, r).
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from supple.arrays import Floats, Ints
from supple.checks import checked_array, checked_path, numbers, shown
from supple.engines.stvk.coefficients import paired_count
from supple.errors import FormatError, SuppleError
from supple.formats.file_bytes import read_bytes, reading
from supple.formats.registry import MODAL_MATRIX_SUFFIXES
from supple.saving import write_chunks

# Largest asymmetry of a tangent that derives from an energy, relative to its size.
_ASYMMETRY = 1e-6
# Rows of tangent coefficients computed at once.
_ROWS = 128
_CUB_HEADER = 16


class CubicForce:
    """Force f(q) = L q + Q (q_i q_j)_{i≤j} + C (q_i q_j q_k)_{i≤j≤k}; rows are components.

    The internal force of a StVK body in a basis, as VegaFEM stores it: the gradient of the energy,
    on the left of the equation of motion.

    Parameters
    ----------
    linear
        (r, r).
    quadratic
        (r, r(r + 1)/2), columns (0, 0), (0, 1), …, (1, 1), …
    cubic
        (r, r(r + 1)(r + 2)/6), columns (0, 0, 0), (0, 0, 1), …, (0, 1, 1), …

    Examples
    --------
    >>> spring = CubicForce([[2.0]], [[0.0]], [[1.0]])
    >>> spring.force([3.0]), spring.stiffness([3.0])
    (array([33.]), array([[29.]]))
    """

    def __init__(self, linear: ArrayLike, quadratic: ArrayLike, cubic: ArrayLike) -> None:
        matrix = numbers("linear terms", linear)
        r = len(matrix) if matrix.ndim else 0
        if r == 0:
            raise SuppleError("linear terms must be a matrix (r, r) with r at least 1")
        self.linear = checked_array("linear terms", matrix, (r, r))
        self.quadratic = checked_array("quadratic terms", quadratic, (r, r * (r + 1) // 2))
        self.cubic = checked_array("cubic terms", cubic, (r, r * (r + 1) * (r + 2) // 6))

    def __repr__(self) -> str:
        return f"CubicForce(r = {self.r})"

    @property
    def r(self) -> int:
        """Number of coordinates."""
        return len(self.linear)

    @cached_property
    def _pairs(self) -> tuple[Ints, Ints]:
        return np.triu_indices(self.r)

    @cached_property
    def _triples(self) -> tuple[Ints, Ints, Ints]:
        return _triples(self.r)

    def force(self, q: ArrayLike) -> Floats:
        """Return f(q), (r,)."""
        linear, quadratic, cubic = self._terms(q)
        return linear + quadratic + cubic

    def energy(self, q: ArrayLike) -> float:
        """Return W(q) with ∂W/∂q = f, by Euler's theorem; f must be a gradient."""
        linear, quadratic, cubic = self._terms(q)
        return float(np.asarray(q, np.float64) @ (linear / 2 + quadratic / 3 + cubic / 4))

    def _terms(self, q: ArrayLike) -> tuple[Floats, Floats, Floats]:
        q = checked_array("coordinates", q, (self.r,))
        (i, j), (a, b, c) = self._pairs, self._triples
        return self.linear @ q, self.quadratic @ (q[i] * q[j]), self.cubic @ (q[a] * q[b] * q[c])

    def stiffness(self, q: ArrayLike) -> Floats:
        """Return ∂f/∂q, (r, r); row a is the gradient of component a."""
        q = checked_array("coordinates", q, (self.r,))
        (i, j), (a, b, c) = self._pairs, self._triples
        squares = _derivatives((i, j), (q[j], q[i]), self.r)
        cubes = _derivatives((a, b, c), (q[b] * q[c], q[a] * q[c], q[a] * q[b]), self.r)
        return self.linear + (squares.T @ self.quadratic.T).T + (cubes.T @ self.cubic.T).T

    def tangent_coefficients(self) -> Floats:
        """Return ∂f/∂q as polynomials, (r(r + 1)/2, 1 + r + r(r + 1)/2).

        Rows are entries (a, b), a ≤ b, of the tangent; columns the monomials 1, q_i, and q_i q_j
        with i ≤ j; both in lexicographic order. Raises SuppleError if the tangent is not symmetric:
        the force has no energy.
        """
        a, b = self._pairs
        table = np.empty((len(a), 1 + self.r + len(a)))
        starts = np.array([0, 1, 1 + self.r])  # of parts by degree; their magnitudes differ
        largest, asymmetry = np.zeros(3), np.zeros(3)
        for first in range(0, len(a), _ROWS):
            rows = slice(first, first + _ROWS)
            table[rows] = self._tangent_rows(a[rows], b[rows])
            transposed = self._tangent_rows(b[rows], a[rows])
            for sizes, block in ((largest, table[rows]), (asymmetry, table[rows] - transposed)):
                columns = np.abs(block).max(axis=0)
                np.maximum(sizes, np.maximum.reduceat(columns, starts), out=sizes)
            table[rows] = (table[rows] + transposed) / 2
        if (asymmetry > _ASYMMETRY * largest).any():
            raise SuppleError(
                "the force is not the gradient of an energy: its tangent is not symmetric"
            )
        return table

    def _tangent_rows(self, row: Ints, column: Ints) -> Floats:
        """Return coefficients of ∂f_row/∂q_column, a row per pair, as in `tangent_coefficients`."""
        row, column = row[:, None], column[:, None]
        indices, (i, j) = np.arange(self.r), self._pairs
        pair = _pair_number(column, indices, self.r)
        triple = _triple_number(column, i, j, self.r)
        multiplicity = 1 + (column == i).astype(np.int64) + (column == j)
        return np.hstack(
            [
                self.linear[row, column],
                self.quadratic[row, pair] * (1 + (column == indices)),
                self.cubic[row, triple] * multiplicity,
            ]
        )

    @classmethod
    def of_tangent(cls, coefficients: ArrayLike) -> CubicForce:
        """Return the force whose tangent has these coefficients; see `tangent_coefficients`."""
        table = numbers("tangent coefficients", coefficients)
        entries = len(table) if table.ndim == 2 else 0
        r = paired_count(entries)
        table = checked_array("tangent coefficients", table, (r * (r + 1) // 2, 1 + r + entries))
        if r == 0:
            raise SuppleError("tangent coefficients must have at least one row")
        indices = np.arange(r)[:, None]
        i, j = np.triu_indices(r)
        a, b, c = _triples(r)
        # A coefficient of f_l is read from ∂f_l/∂q of the first of its coordinates.
        linear = table[_pair_number(indices, np.arange(r), r), 0]
        quadratic = table[_pair_number(indices, i, r), 1 + j] / (1 + (i == j))
        pair = 1 + r + _pair_number(b, c, r)
        cubic = table[_pair_number(indices, a, r), pair] / (
            1 + (a == b).astype(np.int64) + (a == c)
        )
        return cls(linear, quadratic, cubic)


def _derivatives(indices: tuple[Ints, ...], values: tuple[Floats, ...], r: int) -> sp.csr_array:
    """Return ∂(monomial)/∂q, a row per monomial; `values` are added in columns `indices`."""
    rows = np.tile(np.arange(len(indices[0])), len(indices))
    shape = (len(indices[0]), r)
    entries = sp.coo_array((np.concatenate(values), (rows, np.concatenate(indices))), shape)
    return sp.csr_array(entries)


def _triples(r: int) -> tuple[Ints, Ints, Ints]:
    """Return all i ≤ j ≤ k below r in lexicographic order."""
    first, second = np.triu_indices(r)
    repeats = r - second
    ends = np.cumsum(repeats)
    third = np.arange(ends[-1]) - np.repeat(ends - repeats, repeats) + np.repeat(second, repeats)
    return np.repeat(first, repeats), np.repeat(second, repeats), third


def _pair_number(i: Ints, j: Ints, r: int | Ints) -> Ints:
    """Return the index of the pair i, j, in either order, among all i ≤ j below r."""
    low, high = np.minimum(i, j), np.maximum(i, j)
    return low * r - low * (low - 1) // 2 + high - low


def _triple_number(i: Ints, j: Ints, k: Ints, r: int) -> Ints:
    """Return the index of the triple i, j, k, in any order, among all i ≤ j ≤ k below r."""
    low, high = np.minimum(np.minimum(i, j), k), np.maximum(np.maximum(i, j), k)
    middle = i + j + k - low - high
    left = r - low  # triples with a smaller first index are before
    before = (r * (r + 1) * (r + 2) - left * (left + 1) * (left + 2)) // 6
    return before + _pair_number(middle - low, high - low, left)


# ``.cub`` files.


def read_cub(path: str | Path) -> CubicForce:
    """Read a VegaFEM file of cubic polynomials.

    Raises FormatError when its sizes are inconsistent, or a coefficient is not finite.
    """
    path = checked_path("a .cub file", path)
    data = read_bytes(path, (".cub",))
    with reading(path.name):
        r = _checked_size(path.name, data)
        if r == 0:
            raise FormatError(f"{path.name}: has no coordinates (r = 0); create it with a mode")
        values = np.frombuffer(data, "<f8", offset=_CUB_HEADER).astype(np.float64)
        if not np.isfinite(values).all():
            bad = int(np.argmin(np.isfinite(values)))
            raise FormatError(
                f"{path.name}: coefficient {bad} is not finite; create the file again"
            )
        ends = np.cumsum([r * count for count in _counts(r)])
        parts = (part.reshape(r, -1) for part in np.split(values, ends[:-1]))
        return CubicForce(*parts)


def _checked_size(name: str, data: bytes) -> int:
    if len(data) < _CUB_HEADER:
        raise FormatError(f"{name}: has {len(data)} bytes, fewer than the header of a .cub file")
    r, *declared = (int(number) for number in np.frombuffer(data, "<i4", 4))
    if r < 0 or declared != list(_counts(r)):
        sizes = ", ".join(map(str, (r, *declared)))
        raise FormatError(
            f"{name}: declares the sizes {sizes}, which are not those of r coordinates"
            f" (r, r, r(r+1)/2, r(r+1)(r+2)/6); it is damaged or not a .cub file"
        )
    expected = _CUB_HEADER + 8 * r * sum(_counts(r))
    if len(data) != expected:
        raise FormatError(
            f"{name}: has {len(data)} bytes where r = {r} needs {expected};"
            f" it is {'damaged or cut off' if len(data) < expected else 'damaged'}"
        )
    return r


def _counts(r: int) -> tuple[int, int, int]:
    return r, r * (r + 1) // 2, r * (r + 1) * (r + 2) // 6


def write_cub(path: str | Path, force: CubicForce) -> None:
    """Write a VegaFEM file of cubic polynomials; no file is left half written.

    A force that was read from a file is written as the same bytes.
    """
    path = checked_path("a .cub file", path)
    if path.suffix.lower() != ".cub":
        raise FormatError(f'{path.name}: "{path.suffix}" cannot be read back; use .cub')
    if not isinstance(force, CubicForce):
        raise FormatError(f"{path.name}: expected a CubicForce, not {shown(force)}")
    counts = _counts(force.r)
    if 8 * force.r * counts[2] > 2**31:
        raise FormatError(f"{path.name}: coefficients of r = {force.r} need more than 2 GiB")
    parts = (force.linear, force.quadratic, force.cubic)
    head = np.array([force.r, *counts], "<i4").tobytes()
    write_chunks(path, [head, *(np.ascontiguousarray(part, "<f8").tobytes() for part in parts)])


# Modal matrices: ``.U`` files.


_MODES_HEADER = 8


def read_modal_matrix(path: str | Path) -> NDArray[np.float32] | NDArray[np.float64]:
    """Read modes, (n, 3, r), in the precision of the file.

    Raises FormatError when the size is inconsistent, or an entry is not finite.
    """
    path = checked_path("a modal matrix", path)
    data = read_bytes(path, MODAL_MATRIX_SUFFIXES)
    with reading(path.name):
        rows, columns, kind = _checked_head(path.name, data)
        # The file stores columns one after the other.
        matrix = np.frombuffer(data, kind, offset=_MODES_HEADER).reshape(columns, rows).T
        if not np.isfinite(matrix).all():
            mode, row = np.argwhere(~np.isfinite(matrix.T))[0]
            raise FormatError(f"{path.name}: row {row} of mode {mode} is not finite")
        native = matrix.astype(kind.newbyteorder("="), order="C")
        return native.reshape(rows // 3, 3, columns)


def _checked_head(name: str, data: bytes) -> tuple[int, int, np.dtype]:
    if len(data) < _MODES_HEADER:
        raise FormatError(f"{name}: has {len(data)} bytes, fewer than the header of a matrix")
    rows, columns = (int(number) for number in np.frombuffer(data, "<i4", 2))
    if rows < 1 or columns < 1:
        raise FormatError(f"{name}: declares {rows} rows and {columns} columns; it is damaged")
    for kind in (np.dtype("<f8"), np.dtype("<f4")):
        if len(data) == _MODES_HEADER + kind.itemsize * rows * columns:
            break
    else:
        raise FormatError(
            f"{name}: declares {rows} rows and {columns} columns, which do not match its"
            f" {len(data)} bytes; it is damaged or cut off"
        )
    if rows % 3:
        raise FormatError(f"{name}: has {rows} rows, not three per vertex")
    return rows, columns, kind


def write_modal_matrix(path: str | Path, basis: ArrayLike) -> None:
    """Write modes (n, 3, r) or (3n, r); no file is left half written.

    Names that end in ``.float`` get float32, others float64.
    """
    path = checked_path("a modal matrix", path)
    if path.suffix.lower() not in MODAL_MATRIX_SUFFIXES:
        raise FormatError(f'{path.name}: "{path.suffix}" cannot be read back; use .U or .float')
    modes = numbers("modes", basis)
    if modes.ndim == 3 and modes.shape[1] == 3:
        modes = modes.reshape(-1, modes.shape[2])
    if modes.ndim != 2 or modes.size == 0 or len(modes) % 3:
        raise FormatError(f"{path.name}: modes have shape {modes.shape}, not (n, 3, r) or (3n, r)")
    kind = np.dtype("<f4" if path.suffix.lower() == ".float" else "<f8")
    with np.errstate(over="ignore"):
        columns = np.ascontiguousarray(modes.T, kind)
    if not np.isfinite(columns).all():
        raise FormatError(f"{path.name}: modes are not finite numbers of {kind.itemsize} bytes")
    head = np.array(modes.shape, "<i4").tobytes()
    write_chunks(path, [head, columns.tobytes()])
