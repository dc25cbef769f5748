"""The basis of a region at a pose: orthonormal, constrained, the same wherever it is made."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp

from helpers.constraint_samples import (
    bent_beam,
    joined,
    same_span,
    some_constraints,
)
from supple.elastic.body import ElasticBody
from supple.elastic.material import Material
from supple.engines.pose_space.build.pose_basis import pose_basis
from supple.errors import SuppleError
from supple.mesh.tets import TetMesh
from supple.reduction.derivatives import modal_derivatives
from supple.reduction.mass_pca import mass_pca, scaled_candidates
from supple.reduction.modes import linear_modes
from supple.reduction.null_space import null_space
from supple.reduction.regions.region import Region
from supple.scenes.bodies.beam import beam


def gram(U, mass):
    flat = U.reshape(3 * len(mass), -1)
    return flat.T @ (np.repeat(mass, 3)[:, None] * flat)


def test_mass_pca_is_the_singular_value_decomposition_of_weighed_vectors():
    rng = np.random.default_rng(0)
    mass = rng.uniform(0.1, 3.0, 50)
    vectors = rng.standard_normal((150, 12)) * 10.0 ** -np.arange(12)
    U, sizes = mass_pca(vectors, mass, 10)
    np.testing.assert_allclose(gram(U, mass), np.eye(10), atol=1e-13)
    root = np.sqrt(np.repeat(mass, 3))[:, None]
    left, expected, _ = np.linalg.svd(root * vectors, full_matrices=False)
    np.testing.assert_allclose(sizes, expected[:10], rtol=1e-5)
    assert same_span(U[:, :4], left[:, :4] / root, mass)


def test_mass_pca_reports_the_number_of_independent_directions():
    rng = np.random.default_rng(1)
    vectors = rng.standard_normal((30, 4)) @ rng.standard_normal((4, 9))
    assert mass_pca(vectors, np.ones(10), 4)[0].shape == (30, 4)
    with pytest.raises(SuppleError, match="9 shapes have only 4 independent directions"):
        mass_pca(vectors, np.ones(10), 5)
    with pytest.raises(SuppleError, match="not finite"):
        mass_pca(np.full((30, 2), np.nan), np.ones(10), 1)


def test_candidates_are_scaled_by_how_soft_their_modes_are():
    modes, derivatives = np.ones((3, 2)), np.ones((3, 3))
    scaled = scaled_candidates([2.0, 8.0], modes, derivatives)
    np.testing.assert_allclose(scaled[0], [1, 1 / 4, 1, 1 / 4, 1 / 16])
    with pytest.raises(SuppleError, match="omit rigid motions"):
        scaled_candidates([0.0, 8.0], modes, derivatives)


@pytest.mark.parametrize("kind", ["stvk", "neo-hookean"])
def test_the_basis_is_orthonormal_and_made_of_modes_and_derivatives(kind):
    body, rest, K, free = bent_beam(kind, (10, 3, 3))
    mass = body.vertex_masses()
    region = Region("body", free, np.ones(len(free)))
    basis = pose_basis(body, rest, K, mass, region, 20, linear=8, reach=None)
    assert basis.vectors.shape == (len(free), 3, 20)
    assert len(basis.eigenvalues) == 8
    assert basis.residual <= 1e-5
    np.testing.assert_allclose(gram(basis.vectors, mass[free]), np.eye(20), atol=1e-10)
    modes = linear_modes(K, mass, 8, null_space=null_space(None, len(rest), free))
    candidates = scaled_candidates(
        modes.eigenvalues, modes.vectors, modal_derivatives(body, rest, modes)
    )
    expected, sizes = mass_pca(candidates, mass, 20)
    np.testing.assert_allclose(basis.singular_values, sizes, rtol=1e-6)
    inside = expected.reshape(-1, 3, 20)[free].reshape(-1, 20)
    assert same_span(basis.vectors.reshape(-1, 20), inside, mass[free])
    # The lowest modes are in its span, or nearly.
    softest = modes.vectors[region.unknowns, :2]
    U = basis.vectors.reshape(-1, 20)
    left = softest - U @ (U.T @ (np.repeat(mass[free], 3)[:, None] * softest))
    assert np.linalg.norm(left) < 0.05 * np.linalg.norm(softest)


def test_localised_bases_obey_constraints_with_what_is_outside_held():
    body, rest, K, free = bent_beam("stvk", (10, 3, 3))
    n = len(rest)
    mass = body.vertex_masses()
    weights = np.clip(1.0 - 3 * np.abs(rest[:, 0] - 0.5), 0, 1)
    inside = np.flatnonzero(weights > 0)
    region = Region("middle", inside, weights[inside])
    C = some_constraints(n, free)  # some rows inside, some outside, some across the border
    crossing = np.isin(C.indices // 3, inside)
    touched = np.array([crossing[s:e].any() for s, e in zip(C.indptr, C.indptr[1:], strict=False)])
    whole = np.array([crossing[s:e].all() for s, e in zip(C.indptr, C.indptr[1:], strict=False)])
    assert (touched & ~whole).any()
    assert not touched.all()
    basis = pose_basis(body, rest, K, mass, region, 15, constraints=C)
    U = np.zeros((n, 3, 15))
    U[inside] = basis.vectors
    assert np.abs(C @ U.reshape(3 * n, 15)).max() < 1e-10 * np.abs(U).max()
    np.testing.assert_allclose(gram(basis.vectors, mass[inside]), np.eye(15), atol=1e-10)
    assert basis.dropped_rows >= (~touched).sum()


def scaled_beam(scale: float) -> tuple[Any, ...]:
    mesh = beam((1, 1 / 6, 1 / 6), (10, 2, 2))
    mesh = TetMesh(scale * mesh.vertices, mesh.tets)
    # Young's modulus goes with the size too: shapes and their proportions stay.
    body = ElasticBody(mesh, Material("stvk", young=1e5 * scale))
    rest = mesh.vertices
    free = np.flatnonzero(rest[:, 0] > 1e-9)
    region = Region("body", free, np.ones(len(free)))
    return body, rest, body.stiffness(rest, rest).copy(), body.vertex_masses(), region


def test_the_basis_does_not_depend_on_the_units_of_length_and_mass():
    large, small = scaled_beam(1.0), scaled_beam(0.01)
    mass = large[3][large[4].vertices]
    for reach, same in ((0.05, True), (None, False)):
        first, second = (
            pose_basis(body, rest, K, masses, region, 12, reach=reach).vectors.reshape(-1, 12)
            for body, rest, K, masses, region in (large, small)
        )
        second = second / 1e3
        assert same_span(first, second, mass) == same


def test_the_basis_holds_soft_modes_and_how_flesh_sags():
    body, rest, K, mass, region = scaled_beam(0.01)  # a small body: the paper's scaling fails it
    m = np.repeat(mass[region.vertices], 3)[:, None]
    inside = K[region.unknowns][:, region.unknowns]
    modes = linear_modes(K, mass, 8, null_space=null_space(None, len(rest), region.vertices))
    wanted = modes.vectors[region.unknowns]
    sag = np.tile(np.eye(3), (len(region.vertices), 1)) * m
    sag = np.linalg.solve(inside.toarray(), sag)
    missing = {}
    for reach in (0.05, None):
        U = pose_basis(body, rest, K, mass, region, 16, reach=reach).vectors.reshape(-1, 16)
        for name, shapes in (("modes", wanted), ("sag", sag)):
            left = shapes - U @ (U.T @ (m * shapes))
            missing[name, reach] = np.sqrt(((m * left**2).sum(0) / (m * shapes**2).sum(0)).max())
    assert missing["modes", 0.05] < 0.05 < 0.5 < missing["modes", None]
    assert missing["sag", 0.05] < 0.01


def test_a_rotated_pose_has_a_rotated_basis():
    body, rest, K, free = bent_beam("stvk", (8, 2, 2))
    mass = body.vertex_masses()
    region = Region("body", free, np.ones(len(free)))
    turn = scipy.linalg.expm(np.cross(np.eye(3), [1.0, 0.4, -2.0]))
    turned = rest @ turn.T
    first = pose_basis(body, rest, K, mass, region, 12)
    second = pose_basis(body, turned, body.stiffness(turned, rest=turned), mass, region, 12)
    np.testing.assert_allclose(first.eigenvalues, second.eigenvalues, rtol=1e-9)
    carried = np.einsum("ij,vjc->vic", turn, first.vectors)
    assert same_span(carried.reshape(-1, 12), second.vectors.reshape(-1, 12), mass[free])


def test_threads_and_other_processes_give_the_same_bits():
    body, rest, K, free = bent_beam("neo-hookean", (8, 2, 2))
    mass = body.vertex_masses()
    region = Region("body", free, np.ones(len(free)))
    other = rest + np.outer(rest[:, 0], [0.0, 0.3, 0.0])
    poses = [(rest, K), (other, body.stiffness(other, rest=other).copy())]
    alone = [pose_basis(body, x, k, mass, region, 12).vectors for x, k in poses]
    with ThreadPoolExecutor(2) as threads:
        tasks = [threads.submit(pose_basis, body, x, k, mass, region, 12) for x, k in 2 * poses]
    for task, expected in zip(tasks, 2 * alone, strict=True):
        np.testing.assert_array_equal(task.result().vectors, expected)
    sent = pickle.loads(pickle.dumps((body, rest, K, mass, region, 12)))
    back = pickle.loads(pickle.dumps(pose_basis(*sent)))
    np.testing.assert_array_equal(back.vectors, alone[0])


def test_a_free_body_has_a_basis_too():
    body, rest, K, _ = bent_beam("stvk", (6, 2, 2))
    mass = body.vertex_masses()
    basis = pose_basis(body, rest, K, mass, Region.whole(len(rest)), 10)
    np.testing.assert_allclose(gram(basis.vectors, mass), np.eye(10), atol=1e-10)
    assert np.abs((mass[:, None, None] * basis.vectors).sum(axis=0)).max() < 1e-10


def test_more_than_there_is_cannot_be_had():
    body, rest, K, free = bent_beam("stvk", (3, 1, 1))
    mass = body.vertex_masses()
    region = Region("tip", free[-4:], np.ones(4))
    assert pose_basis(body, rest, K, mass, region, 12).vectors.shape == (4, 3, 12)
    with pytest.raises(SuppleError, match='"tip": 13 vectors requested, but it has 12'):
        pose_basis(body, rest, K, mass, region, 13)
    with pytest.raises(SuppleError, match="2 modes with their derivatives give only 5"):
        pose_basis(body, rest, K, mass, region, 6, linear=2)
    with pytest.raises(SuppleError, match="has vertex 99"):
        pose_basis(body, rest, K, mass, Region("far", np.array([99]), np.ones(1)), 2)
    with pytest.raises(SuppleError, match="need 48 columns"):
        pose_basis(body, rest, K, mass, region, 2, constraints=sp.csr_array((1, 3)))


def test_a_loose_piece_is_located():
    first, second = beam(cells=(6, 2, 2)), beam(cells=(2, 1, 1))
    mesh = joined(first, TetMesh(second.vertices + np.array([0.0, 1.0, 0.0]), second.tets))
    body = ElasticBody(mesh, Material(young=1e5))
    fixed = np.flatnonzero(mesh.vertices[:, 0] + mesh.vertices[:, 1] < 1e-9)
    region = Region.whole(len(mesh.vertices), fixed)
    K = body.stiffness(mesh.vertices)
    match = r'"body": a piece of 12 tets, 12 vertices .*around \(0.5, 1.08, 0.0833\)'
    with pytest.raises(SuppleError, match=match):
        pose_basis(body, mesh.vertices, K, body.vertex_masses(), region, 5)


# What other regions hold -------------------------------------------------------------------------


def test_mass_pca_beside_nothing_is_mass_pca():
    rng = np.random.default_rng(3)
    mass = rng.uniform(0.1, 3.0, 50)
    vectors = rng.standard_normal((150, 12)) * 10.0 ** -np.arange(12)
    alone, sizes = mass_pca(vectors, mass, 6, beside=None)
    np.testing.assert_array_equal(alone, mass_pca(vectors, mass, 6)[0])
    nothing, same = mass_pca(vectors, mass, 6, beside=np.empty((150, 0)))
    np.testing.assert_allclose(same, sizes, rtol=1e-6)
    assert same_span(nothing, alone, mass)


def test_mass_pca_is_that_of_what_the_others_leave():
    """Where all that is left is new, against an oracle that takes it out of the vectors."""
    rng = np.random.default_rng(4)
    mass = rng.uniform(0.1, 3.0, 50)
    root = np.sqrt(np.repeat(mass, 3))[:, None]
    held = np.linalg.qr(rng.standard_normal((150, 5)))[0]
    vectors = rng.standard_normal((150, 8))
    U, sizes = mass_pca(vectors, mass, 4, beside=held / root)
    left = root * vectors - held @ (held.T @ (root * vectors))
    _, expected, turn = np.linalg.svd(left, full_matrices=False)
    np.testing.assert_allclose(sizes, expected[:4], rtol=1e-10)
    np.testing.assert_allclose(gram(U, mass), np.eye(4), atol=1e-12)
    best = np.linalg.qr(root * (vectors @ turn[:4].T))[
        0
    ]  # made of the vectors, not of what is left
    assert same_span(U, best / root, mass)


def two_alike(constraints: bool = False) -> tuple[Any, ...]:
    """A pose, and the middle of a beam as a region, with the constraints of its neighbourhood."""
    body, rest, K, free = bent_beam("stvk", (10, 3, 3))
    weights = np.clip(1.0 - 3 * np.abs(rest[:, 0] - 0.5), 0, 1)
    inside = np.flatnonzero(weights > 0)
    region = Region("middle", inside, weights[inside])
    rows = some_constraints(len(rest), free) if constraints else None
    return body, rest, K, body.vertex_masses(), region, rows


def spread(basis: Any, region: Region, n: int) -> Any:
    whole = np.zeros((3 * n, basis.vectors.shape[2]))
    whole[region.unknowns] = basis.vectors.reshape(-1, whole.shape[1])
    return whole


def smallest_of_both(first: Any, second: Any, mass: Any) -> float:
    return float(np.linalg.eigvalsh(gram(np.hstack([first, second]), mass))[0])


@pytest.mark.parametrize("constrained", [False, True])
def test_a_region_does_not_hold_what_one_just_like_it_holds(constrained):
    body, rest, K, mass, region, rows = two_alike(constrained)
    n = len(rest)
    first = pose_basis(body, rest, K, mass, region, 12, constraints=rows)
    U = spread(first, region, n)
    again = pose_basis(body, rest, K, mass, region, 12, constraints=rows)
    assert smallest_of_both(U, spread(again, region, n), mass) < 1e-10  # no mass matrix at all
    second = pose_basis(body, rest, K, mass, region, 12, constraints=rows, beside=U)
    V = spread(second, region, n)
    assert smallest_of_both(U, V, mass) > 0.05
    np.testing.assert_allclose(gram(second.vectors, mass[region.vertices]), np.eye(12), atol=1e-10)
    if rows is not None:
        assert np.abs(rows @ V).max() < 1e-10 * np.abs(V).max()


def test_where_regions_overlap_in_part_each_basis_stays_in_its_own():
    body, rest, K, mass, region, _ = two_alike()
    n = len(rest)
    weights = np.clip(1.0 - 3 * np.abs(rest[:, 0] - 0.6), 0, 1)
    inside = np.flatnonzero(weights > 0)
    beside = Region("beside", inside, weights[inside])
    assert 0 < len(np.intersect1d(inside, region.vertices)) < len(inside)
    U = spread(pose_basis(body, rest, K, mass, region, 10), region, n)
    apart = {}
    for known in (None, U):
        basis = pose_basis(body, rest, K, mass, beside, 10, beside=known)
        assert basis.vectors.shape == (len(inside), 3, 10)
        # Made of candidates that fade out towards the border, and so does it.
        faint = np.abs(basis.vectors[weights[inside] < 0.15]).max()
        assert faint < 0.4 * np.abs(basis.vectors).max()
        apart[known is None] = smallest_of_both(U, spread(basis, beside, n), mass)
    assert apart[False] > 2 * apart[True]


def test_vectors_beside_must_fit():
    body, rest, K, mass, region, _ = two_alike()
    wrong: list[Any] = [np.zeros((5, 2)), np.full((rest.size, 2), np.nan), 3.0, "x"]
    for beside in wrong:
        with pytest.raises(SuppleError, match="vectors beside"):
            pose_basis(body, rest, K, mass, region, 12, beside=beside)
