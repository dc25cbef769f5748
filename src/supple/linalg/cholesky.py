"""Sparse symmetric positive definite systems."""

from __future__ import annotations

from typing import Self

import numba
import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spla
from numpy.typing import ArrayLike

from supple.arrays import Floats
from supple.compiled.jit import serialised_loops
from supple.errors import SolverError
from supple.linalg import blas as fortran
from supple.linalg.multifrontal import PIVOT_EPS, factorise, solve
from supple.linalg.symbolic import analyse

RHS_AT_ONCE = 32  # bounds the memory that many right-hand sides take


class SparseCholesky:
    """Factor of a symmetric positive definite sparse matrix, with its symbolic analysis.

    The constructor analyses the pattern; `factorise` may then be called for any number of matrices
    with that pattern, and allocates memory at the first call only. Results are the same bit for bit
    on every run and for every number of threads.

    Parameters
    ----------
    pattern : sparse array, (n, n)
        Matrix with the entries of all matrices to be factored, in both triangles. Its values
        are not used.
    block : int
        Unknowns ``block * i`` to ``block * i + block - 1`` are coupled to the same others, as the
        three coordinates of a vertex are. The analysis is then ``block²`` times cheaper. If the
        structure differs within a block, zeros are stored and results stay correct.
    backend : {"multifrontal", "splu"}, optional
        "multifrontal" by default. "splu" is SciPy's, for comparison: ten to thirty times slower
        at tens of thousands of unknowns.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> matrix = sp.csr_array([[4.0, 1.0], [1.0, 3.0]])
    >>> SparseCholesky(matrix).factorise(matrix).solve([1.0, 2.0])
    array([0.09090909, 0.63636364])
    """

    def __init__(
        self, pattern: sp.csr_array, *, block: int = 1, backend: str | None = None
    ) -> None:
        pattern = _with_short_indices(pattern)
        self.n: int = pattern.shape[0]
        _check_pattern(pattern, block)
        backend = backend or "multifrontal"
        if backend not in _BACKENDS:
            raise SolverError(f"no backend {backend!r}; there are {', '.join(_BACKENDS)}")
        self.backend = backend
        self._indptr, self._indices = pattern.indptr, pattern.indices
        self._numbers = _BACKENDS[backend](pattern, block)
        self._ready = False

    @property
    def nnz_factor(self) -> int:
        """Number of stored entries of the factor."""
        return self._numbers.nnz_factor

    def factorise(self, matrix: sp.csr_array | Floats) -> Self:
        """Factor a matrix with the analysed pattern.

        Parameters
        ----------
        matrix : sparse array or (nnz,) array
            The matrix, or the values of its entries in the pattern's CSR order. Only one of
            the entries (i, j) and (j, i) is read.

        Raises
        ------
        SolverError
            If the matrix is not positive definite (within rounding), not finite, or of another
            pattern. The object can be used again with another matrix.
        """
        data = self._data_of(matrix)
        # If the sum is finite, so are all terms; computing it needs no memory.
        if not np.isfinite(data.sum()) and not np.isfinite(data).all():
            entry = int(np.flatnonzero(~np.isfinite(data))[0])
            row = int(np.searchsorted(self._indptr, entry, side="right")) - 1
            raise SolverError(f"the matrix has a value that is not finite in row {row}")
        self._ready = False
        self._numbers.factorise(data)
        self._ready = True
        return self

    def solve(self, b: ArrayLike, out: Floats | None = None) -> Floats:
        """Return x with ``matrix @ x == b``, for one right-hand side (n,) or several (n, k).

        `out` may be `b` itself. Solving for many right-hand sides at once is much cheaper than
        one by one; the last bits of a column may differ between the two.
        """
        if not self._ready:
            raise SolverError("no matrix has been factorised; call factorise first")
        b = np.asarray(b, dtype=np.float64)
        if b.ndim not in (1, 2) or b.shape[0] != self.n:
            raise SolverError(f"right-hand side has shape {b.shape}; expected {self.n} rows")
        if out is None:
            out = np.empty(b.shape)
        elif out.shape != b.shape or out.dtype != np.float64:
            raise SolverError(f"out is {out.dtype} {out.shape}; float64 {b.shape} is needed")
        if b.ndim == 1:
            self._numbers.solve(b[:, None], out[:, None])
        else:
            self._numbers.solve(b, out)
        return out

    def _data_of(self, matrix: sp.csr_array | Floats) -> Floats:
        if sp.issparse(matrix):
            matrix = sp.csr_array(matrix)
            same = matrix.shape == (self.n, self.n)
            same = same and np.array_equal(matrix.indptr, self._indptr)
            if not (same and np.array_equal(matrix.indices, self._indices)):
                raise SolverError("the pattern of the matrix differs from the analysed one")
            matrix = matrix.data
        data = np.ascontiguousarray(matrix, dtype=np.float64)
        if data.shape != self._indices.shape:
            raise SolverError(f"{data.shape} values for a pattern of {len(self._indices)} entries")
        # A read-only array would make Numba compile all kernels again.
        return data if data.flags.writeable else data.copy()


def _with_short_indices(pattern: sp.csr_array) -> sp.csr_array:
    pattern = sp.csr_array(pattern)
    if pattern.nnz >= 2**31:
        raise SolverError(f"{pattern.nnz} entries are too many for 32-bit indices")
    indices = pattern.indices.astype(np.int32, copy=False)
    indptr = pattern.indptr.astype(np.int32, copy=False)
    return sp.csr_array((pattern.data, indices, indptr), shape=pattern.shape)


def _check_pattern(pattern: sp.csr_array, block: int) -> None:
    n = pattern.shape[0]
    if pattern.shape != (n, n) or n == 0:
        raise SolverError(f"the matrix must be square, not {pattern.shape}")
    if block < 1 or n % block:
        raise SolverError(f"{n} unknowns are not a multiple of the block size {block}")
    rows = np.repeat(np.arange(n, dtype=np.int32), np.diff(pattern.indptr))
    entry = np.empty(pattern.nnz, dtype=np.int8)
    matrix = sp.csr_array((entry, pattern.indices, pattern.indptr), shape=(n, n))
    transposed = matrix.T.tocsr()
    matrix = matrix.sorted_indices()  # a copy: the caller's arrays are not changed
    if not np.array_equal(matrix.indptr, transposed.indptr):
        differs = np.diff(matrix.indptr) != np.diff(transposed.indptr)
        raise SolverError(f"the pattern is not symmetric, first in row {np.argmax(differs)}")
    differs = matrix.indices != transposed.indices
    if differs.any():
        raise SolverError(f"the pattern is not symmetric, first in row {rows[np.argmax(differs)]}")


class _Multifrontal:
    """Multifrontal Cholesky factorisation; see `supple.linalg.symbolic`."""

    def __init__(self, pattern: sp.csr_array, block: int) -> None:
        self._plan, self._sizes = analyse(pattern, block)
        self.nnz_factor = self._sizes.factor
        self._factor: Floats | None = None

    def factorise(self, data: Floats) -> None:
        if self._factor is None:
            self._factor = np.empty(self._sizes.factor)
            self._updates = np.empty(self._sizes.updates)
            self._diagonal = np.empty(len(self._plan.order))
        with fortran.single_threaded(), serialised_loops():
            bad = factorise(
                fortran.addresses(),
                numba.get_num_threads(),
                self._plan,
                data,
                self._factor,
                self._updates,
                self._diagonal,
            )
        if bad >= 0:
            raise _not_definite(int(self._plan.order[bad]))

    def solve(self, b: Floats, out: Floats) -> None:
        plan = self._plan
        for start in range(0, b.shape[1], RHS_AT_ONCE):
            some = slice(start, min(start + RHS_AT_ONCE, b.shape[1]))
            x = np.ascontiguousarray(b[plan.order, some].T)
            vectors = np.empty(self._sizes.vectors * len(x))
            with fortran.single_threaded(), serialised_loops():
                solve(
                    fortran.addresses(),
                    numba.get_num_threads(),
                    plan,
                    self._factor,
                    x.ravel(),
                    len(x),
                    vectors,
                )
            out[plan.order, some] = x.T


class _SuperLU:
    """SciPy's LU without pivoting off the diagonal, for comparison."""

    def __init__(self, pattern: sp.csr_array, block: int) -> None:
        self._pattern = pattern
        self.nnz_factor = 0

    def factorise(self, data: Floats) -> None:
        indices, indptr = self._pattern.indices, self._pattern.indptr
        # The matrix is symmetric, so its rows may be read as columns. A copy, because splu sorts.
        matrix = sp.csc_array((data, indices, indptr), shape=self._pattern.shape, copy=True)
        try:
            self._lu = spla.splu(
                matrix,
                permc_spec="MMD_AT_PLUS_A",
                diag_pivot_thresh=0.0,
                options={"SymmetricMode": True},
            )
        except RuntimeError:  # exactly singular; SuperLU does not report where
            raise SolverError("the matrix is not positive definite: it is singular") from None
        # Without row exchanges, the pivots of LU are the squares of Cholesky's.
        place = self._lu.perm_c
        order = np.argsort(place)
        bad = self._lu.U.diagonal() <= PIVOT_EPS * matrix.diagonal()[order]
        bad[place[self._lu.perm_r != place]] = True
        if bad.any():
            raise _not_definite(int(order[np.argmax(bad)]))
        self.nnz_factor = self._lu.L.nnz

    def solve(self, b: Floats, out: Floats) -> None:
        out[:] = self._lu.solve(b)


def _not_definite(row: int) -> SolverError:
    return SolverError(
        f"the matrix is not positive definite: elimination stops at row {row}; "
        "check for parts that nothing supports and for inverted elements"
    )


_BACKENDS: dict[str, type[_Multifrontal] | type[_SuperLU]] = {
    "multifrontal": _Multifrontal,
    "splu": _SuperLU,
}
