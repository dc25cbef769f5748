"""Boxes, hulls and closed surfaces as obstacles: their distances, and those of compiled loops."""

from __future__ import annotations

import pickle
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.spatial import ConvexHull
from scipy.spatial.transform import Rotation

from supple.compiled.jit import compiled_fused
from supple.errors import SuppleError
from supple.mesh.distance_field import Solid
from supple.mesh.obstacles import OTHER, Box, Capsule, Convex, Obstacle, Plane, Sphere
from supple.mesh.shape_tables import place_shapes, shape_surface, shape_tables, signed_distance
from supple.mesh.surface import SurfaceMesh

TURN = Rotation.from_rotvec([0.3, 0.5, 0.2]).as_matrix()


def points(count: int = 300, size: float = 1.5, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-size, size, (count, 3))


def ball_points(count: int = 40) -> np.ndarray:
    around = np.random.default_rng(3).normal(size=(count, 3))
    return around / np.linalg.norm(around, axis=1)[:, None]


def ball(count: int = 2000) -> SurfaceMesh:
    around = ball_points(count)
    return SurfaceMesh(around, ConvexHull(around).simplices)  # faces any way round


class Placed(NamedTuple):
    """A shape elsewhere."""

    shape: Obstacle
    place: np.ndarray

    def distances(self, where):
        turn, shift = self.place[:3, :3], self.place[:3, 3]
        gaps, ways = self.shape.distances((where - shift) @ turn)
        return gaps, ways @ turn.T


@compiled_fused
def all_distances(tables, o, where, out):
    for k in range(len(where)):
        out[k, 0], out[k, 1], out[k, 2], out[k, 3] = signed_distance(
            tables, o, where[k, 0], where[k, 1], where[k, 2]
        )


def shapes() -> list[Obstacle]:
    return [
        Plane((0.1, 0.2, 0.3), (0, 3, 4)),
        Sphere((0.5, 0, 0), 0.7),
        Capsule((0, 0, 0), (1, 2, 0), 0.4),
        Capsule((1, 0, 0), (1, 0, 0), 0.4),
        Box((0.1, 0.2, 0.3), (0.5, 0.6, 0.7), TURN),
        Convex(ball_points()),
        Solid(ball(), nodes=20_000),
    ]


def test_a_box_is_as_far_as_its_nearest_point_and_way_out():
    box = Box((0.1, 0.2, 0.3), (0.5, 0.6, 0.7), TURN)
    where = points()
    own = (where - box.centre) @ TURN
    nearest = np.clip(own, -box.half, box.half)
    outside = (np.abs(own) > box.half).any(axis=1)
    inside = (np.abs(own) - box.half).max(axis=1)
    gaps, ways = box.distances(where)
    np.testing.assert_allclose(
        gaps, np.where(outside, np.linalg.norm(own - nearest, axis=1), inside), atol=1e-12
    )
    np.testing.assert_allclose(np.linalg.norm(ways, axis=1), 1, atol=1e-12)
    leaving, _ = box.distances(where - gaps[:, None] * ways)
    np.testing.assert_allclose(leaving, 0, atol=1e-12)


def test_the_hull_of_a_box_has_the_distances_of_the_box():
    box = Box((0.1, 0.2, 0.3), (0.5, 0.6, 0.7), TURN)
    where = points()
    ours, theirs = Convex(box.corners()).distances(where), box.distances(where)
    np.testing.assert_allclose(ours[0], theirs[0], atol=1e-12)
    np.testing.assert_allclose(ours[1], theirs[1], atol=1e-9)


def test_a_hull_is_as_far_as_the_nearest_mixture_of_its_corners():
    hull = Convex(ball_points(12))
    far = 2.5 * ball_points(6)
    gaps, _ = hull.distances(far)
    for x, gap in zip(far, gaps, strict=True):
        count = len(hull.points)
        found = minimize(
            lambda w, x=x: ((w @ hull.points - x) ** 2).sum(),
            np.full(count, 1 / count),
            bounds=[(0, 1)] * count,
            constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
            options={"ftol": 1e-14, "maxiter": 500},
        )
        assert gap == pytest.approx(np.sqrt(found.fun), abs=1e-5)


@pytest.mark.parametrize("shape", shapes(), ids=lambda shape: type(shape).__name__)
def test_ways_out_are_slopes_of_the_distance(shape):
    where = points(200, 1.2)
    gaps, ways = shape.distances(where)
    step = 1e-6
    slopes = np.column_stack(
        [
            (shape.distances(where + step * e)[0] - shape.distances(where - step * e)[0])
            / (2 * step)
            for e in np.eye(3)
        ]
    )
    # Where two sides are equally near there is a kink, and a grid's gradient is not of length 1.
    along = np.einsum("ij,ij->i", slopes, ways)
    lengths = np.linalg.norm(slopes, axis=1)
    near = np.abs(gaps) < 0.3
    assert (along > 0.98 * lengths)[near].mean() > 0.97
    assert np.median(np.abs(lengths[near] - 1)) < 0.02


def test_a_solid_ball_is_a_ball_but_for_its_cells():
    solid = Solid(ball())
    gaps, ways = solid.distances(where := points(2000, 2.5))
    truth, out = Sphere((0, 0, 0), 1.0).distances(where)
    inside = (np.abs(where) < 1.1).all(axis=1)
    assert np.abs(gaps - truth)[inside].max() < 0.5 * solid.spacing
    assert (np.abs(gaps - truth) < 0.06 * truth)[~inside].all()  # beyond the grid
    beside = np.abs(truth) < 0.3
    assert np.einsum("ij,ij->i", ways, out)[beside].min() > 0.99


def test_a_solid_is_continuous_where_its_grid_ends():
    solid = Solid(ball(), nodes=20_000)
    last = solid.origin + solid.spacing * (np.array(solid.distance.shape) - 1)
    border = points(200, 1.0)
    border[:, 0] = last[0]
    inner, outer = (solid.distances(border + s * np.eye(3)[0]) for s in (-1e-9, 1e-9))
    np.testing.assert_allclose(inner[0], outer[0], atol=1e-7)
    np.testing.assert_allclose(inner[1], outer[1], atol=1e-6)


def test_places_that_are_no_numbers_have_no_distance():
    solid = Solid(ball(), nodes=20_000)
    hostile = np.full((3, 3), 0.1)
    hostile[0, 0], hostile[1, 1], hostile[2, 2] = np.nan, np.inf, -np.inf
    assert not np.isfinite(solid.distances(hostile)[0]).any()
    assert not (solid.distances(hostile)[0] < 0).any()
    assert solid.distances(np.full((1, 3), 1e100))[0] > 1e99


def test_compiled_loops_have_the_distances_of_every_shape_at_any_place():
    place = np.eye(4)
    place[:3, :3], place[:3, 3] = TURN, [0.3, -0.2, 0.5]
    listed = [*shapes(), *(Placed(each, place) for each in shapes())]
    tables = shape_tables(listed)
    out = np.empty((len(where := points()), 4))
    for o, each in enumerate(listed):
        all_distances(tables, o, where, out)
        gaps, ways = each.distances(where)
        np.testing.assert_allclose(out[:, 0], gaps, atol=1e-12)
        np.testing.assert_allclose(out[:, 1:], ways, atol=1e-9)


def test_places_are_written_between_steps():
    carried = Placed(Sphere((0, 0, 0), 1.0), np.eye(4))
    tables = shape_tables([carried])
    carried.place[0, 3] = 5.0
    place_shapes(tables, [carried])
    assert signed_distance(tables, 0, 7.0, 0.0, 0.0) == (1.0, 1.0, 0.0, 0.0)


def test_balls_around_shapes_hold_all_that_is_inside():
    listed = shapes()
    tables = shape_tables(listed)
    where = points(3000, 2.5)
    for o, each in enumerate(listed):
        inside = where[each.distances(where)[0] < 0]
        away = np.linalg.norm(inside - tables.bounds[o, :3], axis=1)
        assert len(inside)
        assert (away <= tables.bounds[o, 3]).all()


def test_obstacles_with_only_a_distance_function_run_in_python():
    class Derived(Sphere):
        """May know better than a sphere."""

    assert shape_tables([Derived((0, 0, 0), 1.0)]).kinds.tolist() == [OTHER]


@pytest.mark.parametrize("shape", shapes(), ids=lambda shape: type(shape).__name__)
def test_shapes_are_copied_and_pickled(shape):
    where = points(20)
    for other in (deepcopy(shape), pickle.loads(pickle.dumps(shape))):
        np.testing.assert_array_equal(other.distances(where)[0], shape.distances(where)[0])


def open_ball() -> SurfaceMesh:
    return SurfaceMesh(ball().vertices, ball().triangles[1:])


def sheet() -> SurfaceMesh:
    thin = Box((0, 0, 0), (1, 1, 1e-7))
    return Convex(thin.corners()).surface()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Box((0, 0, 0), (1, 0, 1)), "must be positive"),
        (lambda: Box((0, 0, 0), (1, np.nan, 1)), "not finite"),
        (lambda: Box((0, 0, 0), (1, 1, 1), 2 * np.eye(3)), "not a rotation"),
        (lambda: Box((0, 0, 0), (1, 1, 1), np.diag([1, 1, -1])), "not a rotation"),
        (lambda: Convex([]), "shape"),
        (lambda: Convex(np.zeros((0, 3))), "fewer than four"),
        (lambda: Convex(3.0), "shape"),
        (lambda: Convex(np.eye(3)), "fewer than four"),
        (lambda: Convex(points() * [1, 1, 0]), "in one plane"),
        (lambda: Convex(points() * np.nan), "not finite"),
        (lambda: Convex(points() * 1e12), "farther away"),
        (lambda: Convex("corners"), "must be numbers"),
        (lambda: Convex(ball_points(5000)), "give fewer points, or a Solid"),
        (lambda: Solid("ball.obj"), "SurfaceMesh"),  # type: ignore[arg-type]
        (lambda: Solid(open_ball()), "must be closed; it has 3 open edges"),
        (lambda: Solid(SurfaceMesh(np.zeros((3, 3)), [[0, 1, 2]])), "no area"),
        (lambda: Solid(sheet()), "thinner than the cells"),
        (lambda: Solid(ball(), nodes=10**12), "use at most"),
        (lambda: Solid(ball(), nodes=0), "whole number of at least"),
        (lambda: Solid(SurfaceMesh(1e12 * ball().vertices, ball().triangles)), "farther than"),
    ],
)
def test_invalid_solids_are_refused_in_one_line(make: Any, words: str):
    with pytest.raises(SuppleError, match=words) as error:
        make()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("shape", shapes()[1:], ids=lambda shape: type(shape).__name__)
def test_the_drawn_mesh_is_the_surface_of_the_shape(shape):
    surface = shape_surface(shape)
    assert not [each for each in surface.defects() if each.kind != "inside-out components"]
    assert surface.volume() > 0
    near = 2 * shape.spacing if isinstance(shape, Solid) else 0.005
    np.testing.assert_allclose(shape.distances(surface.vertices)[0], 0, atol=near)
    middles = surface.vertices[surface.triangles].mean(axis=1)
    assert np.abs(shape.distances(middles)[0]).max() < 0.05


def test_a_plane_is_not_drawn():
    with pytest.raises(SuppleError, match="no surface to draw"):
        shape_surface(shapes()[0])
