"""Points follow the tets they are embedded in."""

from __future__ import annotations

import igl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supple.errors import MeshError
from supple.mesh.embedding import embed, locate
from supple.mesh.filling.stuffing import stuff
from supple.mesh.tets import TetMesh


@pytest.fixture(scope="module")
def ball() -> TetMesh:
    return stuff(lambda x: 1 - np.linalg.norm(x, axis=1), [[-1] * 3, [1] * 3], 0.35)


@given(seed=st.integers(0, 10_000), spread=st.sampled_from([0.5, 1.0, 2.0, 50.0]))
@settings(max_examples=30, deadline=None)
def test_affine_maps_are_reproduced_inside_and_outside(ball, seed, spread):
    random = np.random.default_rng(seed)
    points = random.uniform(-spread, spread, (50, 3))
    linear, shift = random.normal(size=(3, 3)), random.normal(size=3)
    moved = embed(points, ball) @ (ball.vertices @ linear.T + shift)
    np.testing.assert_allclose(moved, points @ linear.T + shift, atol=1e-10 * spread)


def test_every_row_has_four_entries_that_add_up_to_one(ball):
    matrix = embed(np.random.default_rng(0).normal(size=(200, 3)), ball)
    assert matrix.shape == (200, len(ball.vertices))
    assert (np.diff(matrix.indptr) == 4).all()
    assert matrix.has_sorted_indices
    np.testing.assert_allclose(matrix.sum(axis=1), 1.0, atol=1e-12)


def test_points_inside_are_in_the_tet_that_holds_them(ball):
    random = np.random.default_rng(1)
    tet = random.integers(0, len(ball.tets), 500)
    weights = random.dirichlet(np.ones(4), 500)
    points = np.einsum("ij,ijk->ik", weights, ball.vertices[ball.tets[tet]])
    found = locate(points, ball)
    np.testing.assert_array_equal(found.tet, tet)
    np.testing.assert_allclose(found.barycentric, weights, atol=1e-12)
    assert not found.distance.any()


def test_distances_outside_are_those_to_the_boundary(ball):
    points = np.random.default_rng(2).uniform(-3, 3, (2000, 3))
    boundary = ball.boundary()
    squared, _, _ = igl.point_mesh_squared_distance(points, ball.vertices, boundary)
    inside = igl.fast_winding_number(ball.vertices, boundary, points) > 0.5
    expected = np.where(inside, 0.0, np.sqrt(squared))
    found = locate(points, ball)
    np.testing.assert_allclose(found.distance, expected, atol=1e-7)
    assert ((found.barycentric.min(axis=1) >= -1e-9) == inside).all()


def test_no_point_falls_between_neighbouring_tets(ball):
    random = np.random.default_rng(3)
    corners = ball.vertices[ball.tets]
    on_faces = np.einsum("mk,mkj->mj", random.dirichlet(np.ones(3), len(corners)), corners[:, 1:])
    for points in (ball.vertices, on_faces, corners[:, :2].mean(axis=1)):
        assert not locate(points, ball).distance.any()


def test_the_same_points_give_the_same_bytes(ball):
    points = np.concatenate([ball.vertices, np.random.default_rng(4).normal(size=(300, 3))])
    first, second = locate(points, ball), locate(points.copy(), ball)
    assert all(a.tobytes() == b.tobytes() for a, b in zip(first, second, strict=True))
    backwards = locate(points[::-1], ball)
    np.testing.assert_array_equal(backwards.tet[::-1], first.tet)


def test_of_equally_near_tets_the_one_that_extrapolates_least_carries_a_point():
    # Two tets with the edge x = y = 0; beyond its upper end that vertex is nearest for both.
    vertices = np.array([[0, 0, 0], [0, 0, 1], [1, 0, 0], [0, 1, 0], [-1, 0, 0.9], [0, -1, 0.9]])
    mesh = TetMesh(vertices, [[0, 2, 3, 1], [0, 4, 5, 1]])
    found = locate([[0, 0, 3.0]], mesh)
    each = [locate([[0, 0, 3.0]], TetMesh(vertices, [tet])).barycentric.min() for tet in mesh.tets]
    assert found.tet[0] == np.argmax(each)


def test_flat_and_inverted_tets_do_no_harm():
    vertices = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0]]
    mesh = TetMesh(vertices, [[0, 1, 2, 4], [0, 2, 1, 3]])
    found = locate([[0.1, 0.1, 0.1], [1, 1, 0.0]], mesh)
    np.testing.assert_array_equal(found.tet, [1, 1])
    np.testing.assert_allclose(embed([[5, 6, 7.0]], mesh) @ mesh.vertices, [[5, 6, 7]])


def test_no_points_give_an_empty_matrix(ball):
    assert embed(np.empty((0, 3)), ball).shape == (0, len(ball.vertices))


@pytest.mark.parametrize("points", [[[0, 0, np.nan]], [[1, 2]], [1, 2, 3]])
def test_invalid_points_are_errors(ball, points):
    with pytest.raises(MeshError, match="point"):
        locate(points, ball)


def test_a_mesh_of_flat_tets_is_refused():
    mesh = TetMesh([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]], [[0, 1, 2, 3]])
    with pytest.raises(MeshError, match="volume"):
        embed([[0, 0, 0]], mesh)
