"""A tree of spheres on a reduced deformation encloses what moves and finds what is touched."""

from __future__ import annotations

import numpy as np
import pytest
import trimesh

from supple.engines.stvk.cubic_model import CubicModel
from supple.engines.stvk.haptics.sphere_tree import SphereTree
from supple.errors import SuppleError
from supple.mesh.surface import SurfaceMesh


def seen_only(surface: SurfaceMesh, basis: np.ndarray) -> CubicModel:
    """A model of which nothing matters but how its surface moves."""
    r = basis.shape[2]
    pairs = r * (r + 1) // 2
    tangent = np.zeros((pairs, 1 + r + pairs))
    return CubicModel(tangent, surface=surface, surface_basis=basis)


def soup(triangles: int, r: int, seed: int) -> CubicModel:
    """Small triangles anywhere in a box, each corner moved at random."""
    rng = np.random.default_rng(seed)
    middles = rng.uniform(-1, 1, (triangles, 1, 3))
    corners = middles + 0.2 * rng.standard_normal((triangles, 3, 3))
    surface = SurfaceMesh(corners.reshape(-1, 3), np.arange(3 * triangles).reshape(-1, 3))
    return seen_only(surface, rng.standard_normal((3 * triangles, 3, r)))


def smooth_sphere(subdivisions: int) -> CubicModel:
    """A round ball whose modes are quadratic in space: stretching, shearing, bending."""
    ball = trimesh.creation.icosphere(subdivisions=subdivisions)
    x, y, z = ball.vertices.T
    zero = np.zeros_like(x)
    shapes = [(x, zero, zero), (y, x, zero), (zero, x * x, zero), (z * x, zero, y * y)]
    basis = np.stack([np.stack(shape, axis=1) for shape in shapes], axis=2)
    return seen_only(SurfaceMesh(ball.vertices, ball.faces), basis)


@pytest.mark.parametrize(("triangles", "leaf"), [(1, 1), (2, 1), (7, 1), (150, 4), (333, 3)])
def test_every_sphere_encloses_its_triangles_however_the_body_moves(triangles, leaf):
    model = soup(triangles, 5, seed=triangles)
    tree = SphereTree(model, leaf=leaf)
    assert np.array_equal(np.sort(tree.order), np.arange(triangles))
    rng = np.random.default_rng(0)
    for scale in (0.0, 1e-3, 0.3, 10.0, 1e6):
        q = scale * rng.standard_normal(5)
        moved = model.surface.vertices + model.surface_basis @ q
        centres, radii = tree.spheres(q)
        for (first, last), centre, radius in zip(tree.ranges, centres, radii, strict=True):
            corners = moved[model.surface.triangles[tree.order[first:last]]]
            assert len(corners) > 0
            assert np.linalg.norm(corners - centre, axis=2).max() <= radius


def test_spheres_halve_what_those_above_them_have_down_to_the_leaves():
    tree = SphereTree(soup(1000, 2, seed=1), leaf=4)
    assert len(tree) == 2 * 128 - 1  # with 256 leaves some would have three triangles
    inner = len(tree) // 2
    for node in range(inner):
        (first, last), left, right = tree.ranges[[node, 2 * node + 1, 2 * node + 2]]
        assert (left[0], left[1], right[1]) == (first, right[0], last)
    sizes = np.diff(tree.ranges[inner:], axis=1)
    assert sizes.min() >= 4
    assert sizes.max() <= 8


def brute_force(model: CubicModel, q, centre, radius):
    """Triangles within a radius and how far they are, by another library."""
    moved = model.surface.vertices + model.surface_basis @ q
    corners = moved[model.surface.triangles]
    nearest = trimesh.triangles.closest_point(corners, np.tile(centre, (len(corners), 1)))
    distances = np.linalg.norm(nearest - centre, axis=1)
    near = np.flatnonzero(distances < radius)
    return near, distances[near], nearest[near]


@pytest.mark.parametrize("leaf", [1, 4, 1000])
def test_a_ball_touches_the_same_triangles_as_by_looking_at_all(leaf):
    models = soup(200, 4, seed=3), smooth_sphere(2)
    touched = 0
    for model in models:
        tree, rng = SphereTree(model, leaf=leaf), np.random.default_rng(leaf)
        moved = model.surface.vertices[model.surface.triangles]
        for _ in range(60):
            q, centre = 0.3 * rng.standard_normal(4), rng.uniform(-1.5, 1.5, 3)
            radius = rng.uniform(0.05, 0.6)
            found = tree.touch(q, centre, radius)
            by = np.argsort(found.triangles)
            near, distances, points = brute_force(model, q, centre, radius)
            np.testing.assert_array_equal(found.triangles[by], near)
            np.testing.assert_allclose(found.distances[by], distances, atol=1e-12)
            moved = model.surface.vertices + model.surface_basis @ q
            corners = moved[model.surface.triangles[found.triangles]]
            places = np.einsum("tc,tcx->tx", found.weights, corners)
            np.testing.assert_allclose(places[by], points, atol=1e-9)
            away = places + found.distances[:, None] * found.directions
            np.testing.assert_allclose(away, np.tile(centre, (len(away), 1)), atol=1e-9)
            touched += len(near)
    assert touched > 500


def test_a_ball_with_its_centre_in_a_triangle_is_pushed_along_the_normal():
    surface = SurfaceMesh([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    tree = SphereTree(seen_only(surface, np.zeros((3, 3, 1))))
    found = tree.touch([0.0], [0.25, 0.25, 0.0], 0.1)
    np.testing.assert_allclose(found.directions, [[0, 0, 1]])
    assert found.distances[0] == 0
    # A triangle without area has no normal, and a point of it is no direction: no push at all.
    flat = SurfaceMesh([[0, 0, 0], [1, 0, 0], [2, 0, 0]], [[0, 1, 2]])
    found = SphereTree(seen_only(flat, np.zeros((3, 3, 1)))).touch([0.0], [0.5, 0, 0], 0.1)
    assert np.isfinite(found.directions).all()


def test_the_cost_of_a_contact_query_hardly_grows_with_the_surface():
    """A ball as large as a triangle looks at few more spheres where there are 64 times as many."""
    q, costs = np.array([0.2, -0.1, 0.15, 0.1]), []
    for subdivisions in (2, 5):
        model = smooth_sphere(subdivisions)
        tree, radius = SphereTree(model), 0.4 / 2**subdivisions
        moved = model.surface.vertices + model.surface_basis @ q
        for vertex in range(0, len(moved), len(moved) // 40):
            assert len(tree.touch(q, 1.0001 * moved[vertex], radius).triangles) > 0
        costs.append(np.array(tree.visited) / 40)
        assert costs[-1][1] < 0.6 * len(model.surface.triangles)
    assert (costs[1] < 3 * costs[0]).all(), costs
    assert costs[1].sum() < 0.02 * 20480


def test_spheres_of_a_body_at_rest_are_as_small_as_its_parts():
    tree = SphereTree(smooth_sphere(3))
    _, radii = tree.spheres(np.zeros(4))
    assert radii[0] == pytest.approx(1.0, rel=0.02)
    assert radii[len(tree) // 2 :].max() < 0.35


def test_the_same_touch_gives_the_same_bits_whatever_was_touched_before():
    model = smooth_sphere(3)
    tree, fresh = SphereTree(model), SphereTree(model)
    rng = np.random.default_rng(0)
    for _ in range(20):
        tree.touch(rng.standard_normal(4), rng.standard_normal(3), 0.5)
    question = np.full(4, 0.1), [0.9, 0.3, 0.2], 0.4
    for mine, theirs in zip(tree.touch(*question), fresh.touch(*question), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_a_ball_that_is_huge_touches_all_and_one_far_away_nothing():
    tree = SphereTree(soup(50, 3, seed=0))
    assert len(tree.touch(np.zeros(3), [1e6, 0, 0], 1e8).triangles) == 50
    assert len(tree.touch(np.zeros(3), [1e90, 0, 0], 1.0).triangles) == 0


@pytest.mark.parametrize(
    ("q", "centre", "radius"),
    [
        ([0, 0, np.nan], [0, 0, 0], 1),
        ([0, 0], [0, 0, 0], 1),
        ([1e300, 0, 0], [0, 0, 0], 1),
        ([0, 0, 0], [0, np.inf, 0], 1),
        ([0, 0, 0], [0, 0], 1),
        ([0, 0, 0], [1e200, 0, 0], 1),
        ([0, 0, 0], "here", 1),
        ([0, 0, 0], [0, 0, 0], 0),
        ([0, 0, 0], [0, 0, 0], -1),
        ([0, 0, 0], [0, 0, 0], np.nan),
        ([0, 0, 0], [0, 0, 0], 1e300),
        ([0, 0, 0], [0, 0, 0], "large"),
    ],
)
def test_invalid_balls_and_places_are_refused(q, centre, radius):
    tree = SphereTree(soup(10, 3, seed=0))
    with pytest.raises(SuppleError) as refused:
        tree.touch(q, centre, radius)
    assert "\n" not in str(refused.value)


def test_only_models_with_a_surface_have_a_tree():
    with pytest.raises(SuppleError, match="StvkModel"):
        SphereTree("bridge")  # type: ignore[arg-type]
    with pytest.raises(SuppleError, match="no surface"):
        SphereTree(CubicModel([[1.0, 0.0, 0.0]]))
    for leaf in (0, 1.5, "four"):
        with pytest.raises(SuppleError, match="leaf"):
            SphereTree(soup(10, 3, seed=0), leaf=leaf)  # type: ignore[arg-type]
    model = soup(3, 1, seed=0)
    with pytest.raises(SuppleError, match="not finite"):
        SphereTree(seen_only(model.surface, 1e200 * model.surface_basis))
