"""Modes: against dense eigensolvers, under constraints and weights, free, and refused."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp

from helpers.constraint_samples import (
    joined,
    same_span,
    sliding,
    some_constraints,
    two_sided,
)
from supple.elastic.body import ElasticBody
from supple.elastic.material import Material
from supple.errors import SuppleError
from supple.linalg.krylov import lowest_eigenpairs
from supple.mesh.tets import TetMesh
from supple.reduction.modes import linear_modes
from supple.reduction.null_space import null_space
from supple.scenes.bodies.beam import beam


@pytest.fixture(scope="module")
def held_beam():
    """Stiffness, masses, rest shape and free vertices of a beam held at one end."""
    mesh = beam(cells=(12, 3, 3))
    body = ElasticBody(mesh, Material("stvk", young=1e5, poisson=0.4))
    free = np.flatnonzero(mesh.vertices[:, 0] > 1e-9)
    rest = mesh.vertices
    return body.stiffness(rest).copy(), body.vertex_masses(), rest, free


def dense_modes(K, inertia, Z, count):
    """Oracle: eigh of the projected matrices."""
    M = np.repeat(inertia, 3)
    values, y = scipy.linalg.eigh(Z.T @ (K @ Z), Z.T @ (M[:, None] * Z))
    return values[:count], Z @ y[:, :count]


@pytest.mark.parametrize("count", [1, 7, 30])
def test_modes_are_those_of_a_dense_eigensolver(held_beam, count):
    K, mass, _, free = held_beam
    space = null_space(None, len(mass), free)
    modes = linear_modes(sp.csc_array(K), mass, count, null_space=space)
    values, vectors = dense_modes(K, mass, space.matrix.toarray(), count)
    np.testing.assert_allclose(modes.eigenvalues, values, rtol=1e-9)
    assert same_span(modes.vectors, vectors, mass)
    assert modes.residuals.max() <= 1e-8
    gram = modes.vectors.T @ (np.repeat(mass, 3)[:, None] * modes.vectors)
    np.testing.assert_allclose(gram, np.eye(count), atol=1e-12)
    wrong = K @ modes.vectors - np.repeat(mass, 3)[:, None] * modes.vectors * values
    unknowns = (3 * free[:, None] + np.arange(3)).ravel()
    pull = values * np.linalg.norm(np.repeat(mass, 3)[:, None] * modes.vectors, axis=0)
    assert (np.linalg.norm(wrong[unknowns], axis=0) / pull).max() <= 1e-8


def test_signs_and_bits_are_the_same_on_every_run(held_beam):
    K, mass, _, free = held_beam
    space = null_space(None, len(mass), free)
    first, second = (linear_modes(K, mass, 12, null_space=space).vectors for _ in range(2))
    np.testing.assert_array_equal(first, second)
    size = np.abs(first)
    largest = np.argmax(size > 0.999999 * size.max(axis=0), axis=0)  # symmetry makes ties
    assert (first[largest, np.arange(12)] > 0).all()


def test_constraints_hold_to_rounding_and_redundant_rows_do_not_matter(held_beam):
    K, mass, _, free = held_beam
    C = some_constraints(len(mass), free)
    space = null_space(C, len(mass), free)
    assert (space.rank, len(space.dropped_rows)) == (21, 2)
    modes = linear_modes(K, mass, 20, null_space=space)
    values, vectors = dense_modes(K, mass, space.matrix.toarray(), 20)
    np.testing.assert_allclose(modes.eigenvalues, values, rtol=1e-9)
    assert same_span(modes.vectors, vectors, mass)
    assert np.abs(C @ modes.vectors).max() < 1e-10 * np.abs(modes.vectors).max()
    assert modes.residuals.max() <= 1e-8
    free_modes = linear_modes(K, mass, 20, null_space=null_space(None, len(mass), free))
    assert (modes.eigenvalues >= free_modes.eigenvalues * (1 - 1e-12)).all()
    assert modes.eigenvalues[0] > 1.1 * free_modes.eigenvalues[0]  # they do something


def test_constraints_hardly_fill_the_factor(held_beam):
    """Twenty constrained modes may take 1.3 times as long as twenty others; this decides it."""
    K, mass, _, free = held_beam
    plain = linear_modes(K, mass, 1, null_space=null_space(None, len(mass), free))
    rng = np.random.default_rng(3)
    chosen = rng.permutation(free)
    for C in (sliding(rng, len(mass), chosen[:20]), some_constraints(len(mass), free)):
        tied = linear_modes(K, mass, 1, null_space=null_space(C, len(mass), free))
        assert tied.compliance.nnz_factor < 1.3 * plain.compliance.nnz_factor


def test_weights_stiffen_where_they_are_small(held_beam):
    K, mass, rest, free = held_beam
    weights = np.clip(1 - 2 * np.abs(rest[:, 0] - 0.5), 0, 1) ** 0.5
    free = np.flatnonzero(weights > 0.2)
    C = some_constraints(len(mass), free)
    W = np.repeat(weights, 3)
    space = null_space(sp.csr_array(C @ sp.diags_array(W)), len(mass), free)
    modes = linear_modes(K, mass, 8, null_space=space, weights=weights)
    Z = space.matrix.toarray()
    values, unweighted = dense_modes(K, mass * weights**2, Z, 8)
    np.testing.assert_allclose(modes.eigenvalues, values, rtol=1e-9)
    assert same_span(modes.unweighted, unweighted, mass * weights**2)
    np.testing.assert_allclose(modes.vectors, W[:, None] * modes.unweighted)
    assert np.abs(C @ modes.vectors).max() < 1e-10 * np.abs(modes.vectors).max()
    assert modes.residuals.max() <= 1e-8
    # The same as eq. 31, which divides the stiffness by the weights.
    inside = (3 * free[:, None] + np.arange(3)).ravel()
    divided = K.toarray()[np.ix_(inside, inside)] / np.outer(W[inside], W[inside])
    plain = linear_modes(K, mass, 4, null_space=null_space(None, len(mass), free), weights=weights)
    direct = scipy.linalg.eigh(divided, np.diag(np.repeat(mass[free], 3)), eigvals_only=True)
    np.testing.assert_allclose(plain.eigenvalues, direct[:4], rtol=1e-9)


@pytest.mark.parametrize("cells", [(12, 3, 3), (8, 2, 2)])
def test_weights_near_zero_do_not_spoil_the_modes(cells):
    mesh = beam(cells=cells)
    body = ElasticBody(mesh, Material(young=1e5))
    free = np.flatnonzero(mesh.vertices[:, 0] > 1e-9)
    weights = mesh.vertices[:, 0] ** 8  # 1e-9 to 1
    modes = linear_modes(
        body.stiffness(mesh.vertices),
        body.vertex_masses(),
        8,
        null_space=null_space(None, len(mesh.vertices), free),
        weights=weights,
    )
    assert modes.residuals.max() <= 1e-8


@pytest.mark.parametrize("cells", [(12, 3, 3), (3, 1, 1)])
def test_a_body_that_nothing_holds_has_its_rigid_motions_left_out(cells):
    mesh = beam(cells=cells)
    body = ElasticBody(mesh, Material(young=1e5))
    K, mass, x = body.stiffness(mesh.vertices), body.vertex_masses(), mesh.vertices
    modes = linear_modes(K, mass, 6)
    every = scipy.linalg.eigh(K.toarray(), np.diag(np.repeat(mass, 3)), eigvals_only=True)
    np.testing.assert_allclose(modes.eigenvalues, every[6:12], rtol=1e-8)
    assert modes.residuals.max() <= 1e-8
    momenta = mass[:, None, None] * modes.vectors.reshape(-1, 3, 6)
    scale = np.abs(momenta).sum(axis=0).max()
    assert np.abs(momenta.sum(axis=0)).max() < 1e-10 * scale
    assert np.abs(np.cross(x[:, :, None], momenta, axis=1).sum(axis=0)).max() < 1e-10 * scale
    assert modes.compliance.n_unknowns == 3 * len(mass) - 6


def test_a_body_that_slides_on_the_ground_keeps_three_rigid_motions_to_leave_out():
    mesh = beam(cells=(6, 2, 2))
    body = ElasticBody(mesh, Material(young=1e5))
    K, mass = body.stiffness(mesh.vertices), body.vertex_masses()
    on_ground = np.flatnonzero(mesh.vertices[:, 2] == 0)
    rows = sp.csr_array(
        (np.ones(len(on_ground)), (np.arange(len(on_ground)), 3 * on_ground + 2)),
        shape=(len(on_ground), 3 * len(mass)),
    )
    modes = linear_modes(K, mass, 5, null_space=null_space(rows, len(mass)))
    assert modes.compliance.rigid.shape[1] == 3
    Z = null_space(rows, len(mass)).matrix.toarray()
    np.testing.assert_allclose(modes.eigenvalues, dense_modes(K, mass, Z, 8)[0][3:], rtol=1e-8)


def test_a_rotated_pose_has_rotated_modes(held_beam):
    _, mass, rest, free = held_beam
    body = ElasticBody(beam(cells=(12, 3, 3)), Material("stvk", young=1e5, poisson=0.4))
    turn = scipy.linalg.expm(np.cross(np.eye(3), [0.3, -1.2, 0.7]))
    space = null_space(None, len(mass), free)
    bent = rest.copy()
    bent[:, 2] += 0.4 * rest[:, 0] ** 2  # a pose that is not the mesh
    turned = bent @ turn.T
    pair = [
        linear_modes(body.stiffness(x, rest=x), mass, 10, null_space=space) for x in (bent, turned)
    ]
    np.testing.assert_allclose(pair[0].eigenvalues, pair[1].eigenvalues, rtol=1e-9)
    carried = np.einsum("ij,vjc->vic", turn, pair[0].vectors.reshape(-1, 3, 10)).reshape(-1, 10)
    assert same_span(carried, pair[1].vectors, mass)


def test_repeated_eigenvalues_are_all_found():
    path = sp.diags_array([-np.ones(79), 2 * np.ones(80), -np.ones(79)], offsets=[-1, 0, 1])
    K = np.kron(np.eye(5), path.toarray())
    mass = sp.csr_array(sp.eye_array(400))
    values, vectors = lowest_eigenpairs(
        lambda b: np.asarray(np.linalg.solve(K, b), np.float64), mass, 12
    )
    np.testing.assert_allclose(values, np.linalg.eigvalsh(K)[:12], rtol=1e-9)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(12), atol=1e-12)


def test_a_piece_that_nothing_holds_is_named():
    first, second = beam(cells=(6, 2, 2)), beam(cells=(2, 1, 1))
    mesh = joined(first, TetMesh(second.vertices + np.array([0.0, 1.0, 0.0]), second.tets))
    body = ElasticBody(mesh, Material(young=1e5))
    K, mass, n = body.stiffness(mesh.vertices), body.vertex_masses(), len(mesh.vertices)
    free = np.flatnonzero(mesh.vertices[:, 0] + mesh.vertices[:, 1] > 1e-9)
    with pytest.raises(SuppleError, match=r"piece of 12 vertices \(one is vertex 63\)"):
        linear_modes(K, mass, 5, null_space=null_space(None, n, free))
    with pytest.raises(SuppleError, match="nothing fixes a piece"):  # two, and neither is held
        linear_modes(K, mass, 5)
    # Contact that lets it slide away does not hold it; contact all around does.
    rng = np.random.default_rng(0)
    one = two_sided(rng, n, [(40, 70)])
    with pytest.raises(SuppleError, match="nothing fixes a piece"):
        linear_modes(K, mass, 5, null_space=null_space(one, n, free))
    many = two_sided(rng, n, [(40 + i, 63 + i) for i in range(10)])
    modes = linear_modes(K, mass, 5, null_space=null_space(many, n, free))
    assert modes.eigenvalues[0] > 0
    assert modes.compliance.rigid.shape[1] == 0


def test_a_part_that_hangs_by_an_edge_is_named():
    mesh = beam(cells=(4, 1, 1))
    edge = np.flatnonzero((mesh.vertices[:, 0] == 1) & (mesh.vertices[:, 1] == 0))
    apart = np.array([[1.1, 0.0, 0.3], [1.2, -0.2, 0.1]])
    tip = [*edge, len(mesh.vertices), len(mesh.vertices) + 1]
    vertices = np.vstack([mesh.vertices, apart])
    hinged = TetMesh(vertices, np.vstack([mesh.tets, tip])).oriented()
    body = ElasticBody(hinged, Material(young=1e5))
    free = np.flatnonzero(vertices[:, 0] > 1e-9)
    space = null_space(None, len(vertices), free)
    with pytest.raises(SuppleError, match=r"2 vertices \(one is vertex 20\) move without"):
        linear_modes(body.stiffness(vertices), body.vertex_masses(), 3, null_space=space)


def test_vertices_of_no_tet_stay_where_they_are(held_beam):
    K, mass, _, free = held_beam
    n = len(mass)
    larger = sp.csr_array(sp.block_diag([K, sp.csr_array((6, 6))]))
    heavier = np.concatenate([mass, np.zeros(2)])
    with_loose = np.concatenate([free, [n, n + 1]])
    modes = linear_modes(larger, heavier, 5, null_space=null_space(None, n + 2, with_loose))
    plain = linear_modes(K, mass, 5, null_space=null_space(None, n, free))
    np.testing.assert_allclose(modes.eigenvalues, plain.eigenvalues, rtol=1e-10)
    assert not modes.vectors[3 * n :].any()
    assert modes.compliance.n_unknowns == 3 * len(free)


def test_invalid_requests_are_refused(held_beam):
    K, mass, _, free = held_beam
    few = null_space(None, len(mass), free[-4:])
    assert len(linear_modes(K, mass, 12, null_space=few).eigenvalues) == 12
    with pytest.raises(SuppleError, match="13 modes requested, but there are 12"):
        linear_modes(K, mass, 13, null_space=few)
    with pytest.raises(SuppleError, match="positive whole number, not 0"):
        linear_modes(K, mass, 0)
    with pytest.raises(SuppleError, match="nothing can move"):
        linear_modes(K, mass, 1, null_space=null_space(None, len(mass), []))
    with pytest.raises(SuppleError, match="masses: shape"):
        linear_modes(K, mass[:-1], 1)
    with pytest.raises(SuppleError, match="weights: not finite at row 3"):
        linear_modes(K, mass, 1, weights=np.where(np.arange(len(mass)) == 3, np.nan, 1.0))
    space = null_space(None, len(mass), free)
    with pytest.raises(SuppleError, match=f"vertex {free[0]} can move but has no mass"):
        linear_modes(K, np.where(np.arange(len(mass)) == free[0], 0, mass), 1, null_space=space)
    with pytest.raises(SuppleError, match="null space has 6 unknowns, but the stiffness has"):
        linear_modes(K, mass, 1, null_space=null_space(None, 2))
    broken = K.copy()
    broken.data[7] = np.nan
    with pytest.raises(SuppleError, match="not finite"):
        linear_modes(broken, mass, 1, null_space=space)
    negative = K.copy()
    negative.data *= -1
    with pytest.raises(SuppleError, match="negative entries on its diagonal"):
        linear_modes(negative, mass, 1, null_space=space)
