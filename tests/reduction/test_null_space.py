"""Null spaces of contact constraints: exact, orthonormal, sparse, and of the right size."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp

from helpers.constraint_samples import rows_of, sliding, two_sided, units
from supple.errors import SuppleError
from supple.reduction.compliance import _projected
from supple.reduction.null_space import null_space


def vertex_on_triangle(rng, n_vertices, count):
    rows = []
    for normal in units(rng, count):
        a, *triangle = rng.choice(n_vertices, 4, replace=False)
        shares = rng.dirichlet(np.ones(3))
        rows.append(
            [(a, normal), *((b, -s * normal) for b, s in zip(triangle, shares, strict=True))]
        )
    return rows_of(n_vertices, *rows)


def assert_null_space(constraints, n_vertices, free=None, orthonormal=True):
    found = null_space(constraints, n_vertices, free)
    Z = found.matrix.toarray()
    if orthonormal:
        np.testing.assert_allclose(Z.T @ Z, np.eye(Z.shape[1]), atol=1e-13)
    span, triangle = np.linalg.qr(Z)
    assert np.linalg.cond(triangle) < 100
    scale = max(1.0, np.abs(constraints.data).max(initial=0.0))
    assert np.abs(constraints @ Z).max(initial=0.0) < 1e-12 * scale
    moving = np.arange(n_vertices) if free is None else free
    held = np.setdiff1d(np.arange(n_vertices), moving)
    assert not Z.reshape(n_vertices, 3, -1)[held].any()
    unknowns = (3 * moving[:, None] + np.arange(3)).ravel()
    oracle = scipy.linalg.null_space(constraints.toarray()[:, unknowns], rcond=1e-6)
    assert Z.shape[1] == oracle.shape[1] == len(unknowns) - found.rank
    span = span[unknowns]
    np.testing.assert_allclose(span @ span.T, oracle @ oracle.T, atol=1e-10)
    spread = found.spread().toarray()
    np.testing.assert_array_equal(spread[:, found.slots], Z)
    assert spread.shape[1] == 3 * len(moving)
    assert np.count_nonzero(spread.any(axis=0)) == Z.shape[1]
    return found


def test_rows_that_touch_one_vertex_each_have_an_exact_sparse_null_space():
    rng = np.random.default_rng(0)
    rows = sliding(rng, 40, [3, 7, 8, 20, 20, 31, 31, 31])
    found = assert_null_space(rows, 40)
    assert found.rank == 8
    assert len(found.dropped_rows) == 0
    assert found.matrix.nnz <= 3 * 35 + 6 * 3 + 3  # free vertices keep their own coordinates


def test_pairs_of_vertices_that_touch_have_one_too():
    rng = np.random.default_rng(1)
    found = assert_null_space(two_sided(rng, 30, [(0, 1), (2, 9), (4, 3)]), 30)
    assert found.rank == 3
    assert found.matrix.nnz <= 3 * 24 + 3 * (12 + 6)


@pytest.mark.parametrize("seed", range(6))
def test_anything_mixed_agrees_with_a_dense_decomposition(seed):
    rng = np.random.default_rng(seed)
    chain = [(i, i + 1) for i in range(12)]
    rows = sp.vstack(
        [
            sliding(rng, 40, rng.integers(0, 40, 10)),
            two_sided(rng, 40, chain),
            vertex_on_triangle(rng, 40, 5 * seed),
        ]
    )
    free = np.sort(rng.choice(40, 33, replace=False))
    assert_null_space(rows, 40, free, orthonormal=False)
    assert_null_space(sp.csr_array(rows * 1e6), 40, orthonormal=False)


def test_rows_that_repeat_others_are_named_and_dropped():
    rng = np.random.default_rng(2)
    pairs = two_sided(rng, 20, [(0, 1), (2, 3)])
    local = sliding(rng, 20, [5])
    chain = two_sided(rng, 20, [(i, i + 1) for i in range(8, 15)])
    summed = sp.csr_array(chain.sum(axis=0)[None])
    nothing = sp.csr_array((1, 60))
    rows = sp.vstack([pairs, local, -3 * local, nothing, pairs[[1]], chain, summed])
    found = assert_null_space(rows, 20)
    assert found.rank == 3 + 7
    assert len(found.dropped_rows) == 4
    assert 4 in found.dropped_rows  # the empty one
    kept = np.delete(np.arange(rows.shape[0]), found.dropped_rows)
    assert np.linalg.matrix_rank(rows.toarray()[kept]) == len(kept) == 10


def test_rows_that_differ_by_less_than_a_millionth_are_one():
    rng = np.random.default_rng(3)
    row = sliding(rng, 3, [1]).toarray()
    nearly = row + 1e-8 * np.roll(row, 1)
    assert null_space(sp.csr_array(np.vstack([row, nearly])), 3).rank == 1
    clearly = row + 1e-4 * np.roll(row, 1)
    assert null_space(sp.csr_array(np.vstack([row, clearly])), 3).rank == 2


def test_a_fixed_vertex_leaves_the_other_side_of_a_pair_to_slide():
    rng = np.random.default_rng(4)
    rows = two_sided(rng, 4, [(0, 1)])
    found = assert_null_space(rows, 4, np.array([1, 2, 3]))
    assert found.matrix.shape[1] == 8
    assert null_space(rows, 4, [2, 3]).dropped_rows.tolist() == [0]


def test_vertices_on_triangles_of_one_patch_have_a_sparse_null_space():
    rng = np.random.default_rng(6)
    rows = []
    for vertex, normal in enumerate(units(rng, 40)):  # on triangles of vertices 40 to 59
        triangle = 40 + rng.choice(20, 3, replace=False)
        shares = zip(triangle, rng.dirichlet(np.ones(3)), strict=True)
        rows.append([(vertex, normal), *((b, -s * normal) for b, s in shares)])
    C = rows_of(60, *rows)
    found = assert_null_space(C, 60, orthonormal=False)
    assert found.rank == 40
    assert found.matrix.nnz < 3 * C.nnz + 3 * 60


def test_a_large_patch_stays_affordable_and_no_constraints_cost_nothing():
    rng = np.random.default_rng(5)
    rows = vertex_on_triangle(rng, 100, 60)
    assert assert_null_space(rows, 100, orthonormal=False).rank == 60
    assert null_space(vertex_on_triangle(rng, 600, 400), 600).rank == 400
    everything = null_space(None, 5)
    np.testing.assert_array_equal(everything.matrix.toarray(), np.eye(15))
    assert null_space(sp.csr_array((0, 15)), 5).rank == 0
    assert null_space(None, 5, []).matrix.shape == (15, 0)


def test_wrong_sizes_are_refused():
    with pytest.raises(SuppleError, match="need 15 columns"):
        null_space(sp.csr_array((2, 12)), 5)
    bad = sp.csr_array(([np.nan], ([1], [4])), shape=(3, 15))
    with pytest.raises(SuppleError, match="row 1 has a value that is not finite"):
        null_space(bad, 5)
    with pytest.raises(SuppleError, match="free vertex 5 does not exist"):
        null_space(None, 5, [5])
    with pytest.raises(SuppleError, match="list of whole numbers"):
        null_space(None, 5, [0.5])


def test_a_projection_is_symmetric_where_terms_cancel_in_one_order_only():
    rng = np.random.default_rng(878)
    matrix = rng.integers(-9, 10, (6, 6)) / 10
    matrix = matrix + matrix.T
    allowed = np.round(rng.integers(-9, 10, (6, 3)) / 10 * (rng.random((6, 3)) < 0.7), 1)
    transposed = sp.csr_array(sp.csr_array(allowed).T)
    plain = transposed @ sp.csr_array(matrix) @ sp.csr_array(allowed)
    there = plain.toarray() != 0
    assert (there != there.T).any()  # or this test says nothing
    projected = _projected(transposed, sp.csr_array(matrix))
    np.testing.assert_allclose(projected.toarray(), allowed.T @ matrix @ allowed, atol=1e-15)
    pattern = sp.csr_array((np.ones(projected.nnz), projected.indices, projected.indptr))
    assert (pattern != pattern.T).nnz == 0
    assert (projected != projected.T).nnz == 0
