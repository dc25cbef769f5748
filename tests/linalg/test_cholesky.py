"""What `SparseCholesky` promises: right, the same every time, and honest about bad matrices."""

from __future__ import annotations

import itertools
import sys
import tracemalloc

import numba
import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spla
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_info, threadpool_limits

from supple.errors import SolverError
from supple.linalg.cholesky import SparseCholesky
from supple.linalg.symbolic import analyse, level_dissection

BACKENDS = ["multifrontal", "splu"]


def box_of_tets(cells: int) -> tuple[np.ndarray, np.ndarray]:
    """A cube of cells³ cells, each of six tets that share its diagonal (Kuhn's)."""
    grid = np.moveaxis(np.indices((cells + 1,) * 3), 0, -1).reshape(-1, 3)
    corner = np.moveaxis(np.indices((cells,) * 3), 0, -1).reshape(-1, 3)
    steps = np.array([np.eye(3, dtype=int)[list(p)] for p in itertools.permutations(range(3))])
    path = np.concatenate([np.zeros((6, 1, 3), int), np.cumsum(steps, axis=1)], axis=1)
    vertex = corner[:, None, None] + path
    tets = vertex @ [(cells + 1) ** 2, cells + 1, 1]
    return grid / cells, tets.reshape(-1, 4)


def elasticity(cells: int, mass: float = 1e-3) -> sp.csr_array:
    """Linear elasticity plus a little mass on a box, three unknowns per vertex."""
    vertices, tets = box_of_tets(cells)
    x = vertices[tets]
    edges = np.swapaxes(x[:, 1:] - x[:, :1], 1, 2)
    inverse = np.linalg.inv(edges)
    gradient = np.concatenate([-inverse.sum(1, keepdims=True), inverse], axis=1)
    stiffness = 2.0 * np.einsum("tai,tbj->taibj", gradient, gradient)
    stiffness += np.einsum("taj,tbi->taibj", gradient, gradient)
    stiffness += np.einsum("tak,tbk,ij->taibj", gradient, gradient, np.eye(3))
    stiffness += mass * np.einsum("ab,ij->aibj", np.ones((4, 4)) + np.eye(4), np.eye(3))
    stiffness *= np.abs(np.linalg.det(edges))[:, None, None, None, None]
    unknown = (3 * tets[:, :, None] + np.arange(3)).reshape(-1, 12)
    rows, columns = np.repeat(unknown, 12, axis=1), np.tile(unknown, (1, 12))
    matrix = sp.coo_array((stiffness.ravel(), (rows.ravel(), columns.ravel())))
    return sp.csr_array(matrix)


def random_definite(n: int, entries: int, seed: int) -> sp.csr_array:
    rng = np.random.default_rng(seed)
    rows, columns = rng.integers(n, size=(2, entries))
    a = sp.csr_array((rng.normal(size=entries), (rows, columns)), shape=(n, n))
    return sp.csr_array(a @ a.T + 0.1 * sp.eye_array(n))


def check(matrix: sp.csr_array, block: int = 1, backend: str | None = None) -> SparseCholesky:
    """Factor and compare with SciPy's LU, for one and for many right-hand sides."""
    n = matrix.shape[0]
    factor = SparseCholesky(matrix, block=block, backend=backend).factorise(matrix)
    lu = spla.splu(sp.csc_array(matrix))
    rng = np.random.default_rng(n)
    for shape in [(n,), (n, 1), (n, 5), (n, 40)]:
        b = rng.normal(size=shape)
        x = factor.solve(b)
        assert x.shape == shape
        expected = lu.solve(b)
        assert np.abs(x - expected).max() <= 1e-10 * max(np.abs(expected).max(), 1e-300)
        assert np.abs(matrix @ x - b).max() <= 1e-10 * np.abs(b).max()
    return factor


@pytest.fixture(scope="module")
def tissue() -> sp.csr_array:
    return elasticity(11)  # 5184 unknowns: several tasks and tiled fronts


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("block", [1, 3])
def test_solves_elasticity_as_scipy_does(backend: str, block: int) -> None:
    check(elasticity(5), block, backend)


def test_solves_with_tasks_and_tiled_fronts(tissue: sp.csr_array) -> None:
    plan, _ = analyse(tissue, 3)
    assert len(plan.tasks) > 2
    assert plan.fronts["width"][plan.top].max() > 256
    check(tissue, block=3)


@pytest.mark.parametrize("backend", BACKENDS)
@given(n=st.integers(1, 60), density=st.floats(0.0, 4.0), seed=st.integers(0, 999))
@settings(max_examples=25, deadline=None)
def test_solves_random_definite_matrices(backend: str, n: int, density: float, seed: int) -> None:
    check(random_definite(n, int(n * density), seed), backend=backend)


@pytest.mark.parametrize(
    ("name", "matrix"),
    [
        ("one unknown", sp.csr_array([[4.0]])),
        ("diagonal", sp.diags_array(np.arange(1.0, 3001.0), format="csr")),
        ("dense", random_definite(80, 3000, 1)),
        ("separate parts", sp.block_diag([random_definite(30, 60, s) for s in range(9)], "csr")),
        ("long chain", sp.diags_array([-1.0, 2.1, -1.0], offsets=[-1, 0, 1], shape=(2000, 2000))),
    ],
)
def test_solves_degenerate_elimination_trees(name: str, matrix: sp.sparray) -> None:
    check(sp.csr_array(matrix))


def test_solves_with_a_dense_row() -> None:
    n = 500
    arrow = sp.lil_array((n, n))
    arrow.setdiag(2.0)
    arrow[0, :] = arrow[:, 0] = 0.01
    arrow[0, 0] = 2.0
    check(sp.csr_array(arrow))


def test_explicit_zeros_and_unsorted_entries_are_part_of_the_pattern() -> None:
    matrix = random_definite(50, 100, 3)
    zeros = sp.coo_array(sp.random_array((50, 50), density=0.1, rng=np.random.default_rng(0)))
    both = np.concatenate([zeros.row, zeros.col]), np.concatenate([zeros.col, zeros.row])
    full = sp.coo_array(matrix)
    rows, columns = np.concatenate([full.row, both[0]]), np.concatenate([full.col, both[1]])
    values = np.concatenate([full.data, np.zeros(len(both[0]))])
    shuffle = np.random.default_rng(1).permutation(len(rows))
    shuffle = shuffle[np.argsort(rows[shuffle], kind="stable")]
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=50))])
    messy = sp.csr_array((values[shuffle], columns[shuffle], starts), shape=(50, 50))
    b = np.arange(50.0)
    x = SparseCholesky(messy).factorise(messy.data).solve(b)
    np.testing.assert_allclose(x, np.linalg.solve(matrix.toarray(), b), rtol=1e-10, atol=1e-10)


def test_a_wrong_block_size_costs_zeros_but_no_digits() -> None:
    assert check(random_definite(60, 90, 5), block=3).nnz_factor > 0


def solution_bytes(matrix: sp.csr_array) -> list[bytes]:
    factor = SparseCholesky(matrix, block=3).factorise(matrix)
    b = np.random.default_rng(0).normal(size=(matrix.shape[0], 33))
    return [factor.solve(b).tobytes(), factor.solve(b[:, 0]).tobytes()]


def test_bits_do_not_depend_on_the_number_of_threads(tissue: sp.csr_array) -> None:
    before = numba.get_num_threads()
    seen = []
    try:
        for threads in {1, min(2, before), before}:
            for blas in (1, 2):
                numba.set_num_threads(threads)
                with threadpool_limits(blas, user_api="blas"):
                    seen.append(solution_bytes(tissue))
    finally:
        numba.set_num_threads(before)
    assert all(bits == seen[0] for bits in seen)


def test_blas_keeps_the_threads_it_had(tissue: sp.csr_array) -> None:
    def threads() -> list[int]:
        return [lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"]

    before = threads()
    factor = SparseCholesky(tissue, block=3).factorise(tissue)
    with pytest.raises(SolverError):
        factor.factorise(-tissue)
    assert threads() == before


def test_factorising_again_equals_a_fresh_factor(tissue: sp.csr_array) -> None:
    b = np.ones(tissue.shape[0])
    again = SparseCholesky(tissue, block=3).factorise(2.5 * tissue).factorise(tissue)
    fresh = SparseCholesky(tissue, block=3).factorise(tissue.data)
    np.testing.assert_array_equal(again.solve(b), fresh.solve(b))


def test_factorising_again_allocates_nothing_large(tissue: sp.csr_array) -> None:
    factor = SparseCholesky(tissue, block=3).factorise(tissue)
    tracemalloc.start()
    try:
        factor.factorise(tissue.data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100_000


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_negative_pivot_is_named_and_the_object_survives(backend: str) -> None:
    matrix = elasticity(4)
    factor = SparseCholesky(matrix, block=3, backend=backend)
    bad = matrix.copy()
    row = 100
    bad.data[bad.indptr[row] : bad.indptr[row + 1]][
        bad.indices[bad.indptr[row] : bad.indptr[row + 1]] == row
    ] = -1.0
    with pytest.raises(SolverError, match="not positive definite: elimination stops at row"):
        factor.factorise(bad)
    with pytest.raises(SolverError, match="call factorise first"):
        factor.solve(np.ones(factor.n))
    b = np.ones(factor.n)
    assert np.abs(matrix @ factor.factorise(matrix).solve(b) - b).max() < 1e-9


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_named_row_is_the_one_that_is_negative(backend: str) -> None:
    for row in (0, 7, 29):
        diagonal = np.ones(30)
        diagonal[row] = -1.0
        matrix = sp.diags_array(diagonal, format="csr")
        with pytest.raises(SolverError, match=rf"row {row};"):
            SparseCholesky(matrix, backend=backend).factorise(matrix)


def test_indefinite_is_found_in_every_front(tissue: sp.csr_array) -> None:
    plan, _ = analyse(tissue, 3)
    factor = SparseCholesky(tissue, block=3)
    diagonal = np.flatnonzero(
        np.repeat(np.arange(factor.n), np.diff(tissue.indptr)) == tissue.indices
    )
    columns = [0, *plan.fronts["first"][plan.top], factor.n - 1]
    for row in plan.order[columns]:
        data = tissue.data.copy()
        data[diagonal[row]] = -1.0
        with pytest.raises(SolverError, match=f"row {row};"):
            factor.factorise(data)


def test_a_body_that_nothing_holds_is_singular() -> None:
    free = elasticity(6, mass=0.0)
    with pytest.raises(SolverError, match="not positive definite"):
        SparseCholesky(free, block=3).factorise(free)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("backend", BACKENDS)
def test_values_that_are_not_finite_are_refused(value: float, backend: str) -> None:
    matrix = random_definite(40, 80, 2)
    factor = SparseCholesky(matrix, backend=backend)
    data = matrix.data.copy()
    data[matrix.indptr[17]] = value
    with pytest.raises(SolverError, match="not finite in row 17"):
        factor.factorise(data)


def test_wrong_sizes_are_refused() -> None:
    matrix = random_definite(30, 60, 2)
    with pytest.raises(SolverError, match="square"):
        SparseCholesky(matrix[:10])
    with pytest.raises(SolverError, match="the block size 4"):
        SparseCholesky(matrix, block=4)
    with pytest.raises(SolverError, match="not symmetric"):
        SparseCholesky(sp.triu(matrix, format="csr"))
    with pytest.raises(SolverError, match="no backend 'cholmod'"):
        SparseCholesky(matrix, backend="cholmod")
    factor = SparseCholesky(matrix)
    with pytest.raises(SolverError, match="differs from the analysed one"):
        factor.factorise(random_definite(30, 60, 3))
    with pytest.raises(SolverError, match="values for a pattern"):
        factor.factorise(matrix.data[:-1])
    factor.factorise(matrix)
    with pytest.raises(SolverError, match="right-hand side"):
        factor.solve(np.ones(29))
    with pytest.raises(SolverError, match="float64"):
        factor.solve(np.ones(30), out=np.ones(30, dtype=np.float32))


def test_without_metis_the_order_is_our_own_and_the_fill_at_most_double(
    tissue: sp.csr_array, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_metis = SparseCholesky(tissue, block=3).nnz_factor
    monkeypatch.setitem(sys.modules, "pymetis", None)
    factor = check(tissue, block=3)
    assert with_metis < factor.nnz_factor < 2 * with_metis


@pytest.mark.parametrize("entries", [0, 30, 300, 3000])
def test_level_dissection_orders_every_node_once(entries: int) -> None:
    graph = abs(random_definite(300, entries, 1))
    graph.setdiag(0.0)
    graph.eliminate_zeros()
    assert sorted(level_dissection(graph)) == list(range(300))


def test_solves_into_the_array_it_is_given() -> None:
    matrix = random_definite(30, 60, 2)
    factor = SparseCholesky(matrix).factorise(matrix)
    b = np.random.default_rng(0).normal(size=(30, 70))
    expected = factor.solve(b)
    assert factor.solve(b, out=b) is b
    np.testing.assert_array_equal(b, expected)
    assert factor.solve(np.empty((30, 0))).shape == (30, 0)
