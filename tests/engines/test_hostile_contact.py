"""Claims about bad obstacles and objects, for every engine with contact."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import supple
from helpers.build_samples import bar_options, bending_bar
from helpers.rig_space_samples import trunk, trunk_options
from helpers.soft_skeleton_samples import soft_elbow
from supple.engines.factory import Simulator
from supple.errors import SuppleError
from supple.mesh.surface import SurfaceMesh

CELLS = (8, 3, 3)
ENGINES = ("pose-space", "rig-space", "soft-skeleton")


@cache
def model(engine: str) -> Any:
    """A bar of a metre along x, a sixth wide."""
    if engine == "soft-skeleton":
        return soft_elbow()
    if engine == "rig-space":
        return supple.build(trunk(CELLS), engine=engine, **trunk_options(CELLS))
    options = bar_options(CELLS, modes=16, elastic_cubature=40)
    return supple.build(bending_bar(cells=CELLS), **options)


class Says:
    """Obstacle that returns what it was told."""

    def __init__(self, answer: Callable[[np.ndarray], Any]) -> None:
        self.answer = answer

    def distances(self, points):
        return self.answer(points)


def up(points):
    return np.tile([0.0, 1.0, 0.0], (len(points), 1))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda p: (np.full(len(p), np.nan), up(p)), "not a number"),
        (lambda p: (np.full(len(p), -np.inf), up(p)), "not a number"),
        (lambda p: (np.full(len(p), -1e-3), 2 * up(p)), "length 1"),
        (lambda p: (np.zeros(3), up(p)), "expected"),
        (lambda p: 1 / 0, "division by zero"),
    ],
    ids=["NaN", "infinite", "long normals", "wrong shape", "failing"],
)
def test_an_obstacle_of_nonsense_is_one_line_and_the_step_is_not_taken(engine, answer, words):
    simulator = Simulator(model(engine), obstacles=[Says(answer)])
    before = simulator.surface()
    with pytest.raises(SuppleError, match=words) as error:
        simulator.step()
    assert "\n" not in str(error.value)
    assert np.array_equal(simulator.surface(), before)
    simulator.obstacles = []
    simulator.step()


@pytest.mark.parametrize("engine", ENGINES)
def test_too_many_obstacles_are_refused_with_the_limit(engine):
    simulator = Simulator(model(engine))
    with pytest.raises(SuppleError, match="more than 64 obstacles"):
        simulator.obstacles = [supple.Sphere((9, 9, 9), 1.0)] * 500
    with pytest.raises(SuppleError, match="more than 64 obstacles"):
        simulator.obstacles = itertools.repeat(supple.Sphere((9, 9, 9), 1.0))


@pytest.mark.parametrize("engine", ["pose-space", "soft-skeleton"])
def test_too_many_objects_are_refused_with_the_limit(engine):
    ball = supple.RigidObject(supple.Sphere((9, 9, 9), 0.1), 1.0)
    simulator = Simulator(model(engine))
    with pytest.raises(SuppleError, match="there are 500 objects; give at most 64"):
        simulator.objects = [ball.copy() for _ in range(500)]
    assert simulator.objects == ()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: supple.Sphere((0, 0, np.nan), 1.0), "centre of the sphere"),
        (lambda: supple.Sphere((0, 0, 0), np.inf), "radius of the sphere"),
        (lambda: supple.Sphere((0, 0, 0), 1e12), "larger than"),
        (lambda: supple.Box((0, 0, 0), (1, 1, 1e12)), "larger than"),
        (lambda: supple.RigidObject(supple.Sphere((0, 0, 0), 1.0), np.nan), "mass of an object"),
        (lambda: supple.RigidObject(supple.Plane((0, 0, 0), (0, 1, 0))), "a plane has no mass"),
        (lambda: supple.Solid(open_surface()), "closed|open"),
    ],
    ids=["NaN", "infinite", "huge ball", "huge box", "NaN mass", "plane", "open mesh"],
)
def test_shapes_that_cannot_be_are_refused_in_one_line(make, words):
    with pytest.raises(SuppleError, match=words) as error:
        make()
    assert "\n" not in str(error.value)


def open_surface() -> SurfaceMesh:
    """A box without a side."""
    whole = supple.Convex(supple.Box((0, 0, 0), (1, 1, 1)).corners()).surface()
    return SurfaceMesh(whole.vertices, whole.triangles[2:])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.filterwarnings("ignore::supple.errors.SuppleWarning")
def test_a_ball_that_is_led_through_the_body_at_100_m_s_explodes_nothing(engine):
    place = np.eye(4)
    place[:3, 3] = 0.7, 2.0, 0.08
    ball = supple.RigidObject(supple.Sphere((0, 0, 0), 0.1), kinematic=True, place=place)
    simulator = Simulator(model(engine), obstacles=[ball])
    rest, farthest = simulator.surface(), 0.0
    for _ in range(60):
        place[1, 3] -= 100 * simulator.dt
        ball.moved_to(place, simulator.dt)
        simulator.step()
        skin = simulator.surface()
        assert np.isfinite(skin).all()
        farthest = max(farthest, float(np.abs(skin - rest).max()))
    assert farthest < 1.0  # its length
    simulator.obstacles = []
    for _ in range(400):
        simulator.step()
    assert np.abs(simulator.surface() - rest).max() < 0.05


@pytest.mark.parametrize("engine", ["pose-space", "rig-space"])
def test_a_body_inside_a_huge_obstacle_stays_finite(engine):
    simulator = Simulator(model(engine), obstacles=[supple.Sphere((0, -5e5, 0), 5.01e5)])
    for _ in range(30):
        simulator.step()
    skin = simulator.surface()
    assert np.isfinite(skin).all()
    assert np.abs(skin - model(engine).surface.vertices).max() < 1.0


def test_a_soft_skeleton_inside_a_huge_obstacle_is_refused():
    huge = supple.Sphere((0, -5e5, 0), 5.01e5)
    simulator = Simulator(model("soft-skeleton"), obstacles=[huge])
    with pytest.raises(SuppleError, match="deep in the skin at the start"):
        simulator.step()
