"""Memory of contact in soft skeletons: copies, resets, things set anew, and bad input."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import supple
from helpers.soft_skeleton_samples import soft_elbow, soft_hand
from supple.engines.soft_skeleton.simulator import SoftSkeletonSimulator


def low() -> float:
    return float(soft_elbow().surface.vertices[:, 1].min())


def falling(**options: Any) -> tuple[SoftSkeletonSimulator, supple.RigidObject]:
    place = np.eye(4)
    place[:3, 3] = [0.5, 2.0, 3.0]
    ball = supple.RigidObject(supple.Sphere((0, 0, 0), 0.05), place=place)
    return SoftSkeletonSimulator(soft_elbow(), objects=[ball], **options), ball


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda sim: pickle.loads(pickle.dumps(sim))])
def test_a_copy_goes_on_as_the_original_does(copied):
    sim, ball = falling()
    for _ in range(10):
        sim.step()
    twin = copied(sim)
    for _ in range(10):
        sim.step()
        twin.step()
    np.testing.assert_array_equal(twin.surface(), sim.surface())
    np.testing.assert_array_equal(twin.objects[0].centre, ball.centre)
    assert twin.objects[0] is not ball


def test_a_reset_puts_objects_back_and_gives_the_same_run():
    sim, ball = falling()
    runs = []
    for _ in range(2):
        sim.reset()
        runs.append([sim.step() and ball.centre.copy() for _ in range(12)])
    np.testing.assert_array_equal(runs[0], runs[1])
    assert runs[0][-1][1] < 1.98


def test_an_object_that_is_thrown_between_steps_flies():
    sim, ball = falling(gravity=(0, 0, 0))
    sim.step()
    ball.velocity = (1.0, 0.0, 0.0)
    for _ in range(9):
        sim.step()
    assert ball.centre[0] == pytest.approx(0.6, abs=0.01)


def test_friction_outlives_obstacles_that_are_set_anew():
    slope = np.radians(15)
    gravity = 9.81 * np.array([np.sin(slope), -np.cos(slope), 0])
    sim = SoftSkeletonSimulator(soft_elbow(), gravity=gravity, root="free", friction=0.6)
    for _ in range(60):
        sim.obstacles = [supple.Plane((0, low(), 0), (0, 1, 0))]
        state = sim.step()
    pull = soft_elbow().masses.sum() * gravity[0]
    assert state.readings["contact_force"][0] == pytest.approx(-pull, rel=0.1)
    assert abs(sim.chain.positions[0, 0] - soft_elbow().joints[0, 0]) < 0.01


def test_readings_of_a_step_stay_what_they_were():
    sim, _ = falling()
    first = sim.step().readings
    kept = first["root_force"].copy()
    for _ in range(5):
        sim.step(forces={0: (0, 50.0, 0)})
    np.testing.assert_array_equal(first["root_force"], kept)


def test_a_flat_board_that_is_thrown_does_not_pass_through():
    model = soft_elbow()
    place = np.eye(4)
    place[:3, 3] = [0.5, model.surface.vertices[:, 1].max() + 0.08, 0.1]
    board = supple.RigidObject(
        supple.Box((0, 0, 0), (0.3, 0.005, 0.3)), mass=0.3, place=place, velocity=(0, -3.0, 0)
    )
    sim = SoftSkeletonSimulator(model, objects=[board], gravity=(0, 0, 0))
    for _ in range(30):
        sim.step()
    assert board.centre[1] > model.surface.vertices[:, 1].mean()


SHAPES = [supple.Box((0, 0, 0), (0.05, 0.05, 0.05)), supple.Sphere((0, 0, 0), 0.05)]


@pytest.mark.parametrize("shape", SHAPES, ids=["box", "ball"])
def test_a_falling_body_comes_to_rest_on_the_ground(shape):
    place = np.eye(4)
    place[:3, 3] = [0.4, low() + 0.5, 3.0]
    thing = supple.RigidObject(shape, mass=0.17, place=place)
    ground = supple.Plane((0, low(), 0), (0, 1, 0))
    around: dict[str, Any] = {"objects": [thing], "obstacles": [ground]}
    sim = SoftSkeletonSimulator(soft_elbow(), **around, substep=1 / 360)
    speeds = [sim.step() and float(thing.velocity[1]) for _ in range(120)]
    assert min(speeds) < -2.5
    assert max(speeds) < 0.3
    assert thing.centre[1] == pytest.approx(low() + 0.05, abs=1e-3)


class Below:
    """A plane that only knows distances."""

    def __init__(self, height: float) -> None:
        self.plane = supple.Plane((0, height, 0), (0, 1, 0))

    def distances(self, points):
        return self.plane.distances(points)


def test_an_obstacle_with_only_a_distance_function_acts_as_a_plane_does():
    forces = []
    for ground in (supple.Plane((0, low(), 0), (0, 1, 0)), Below(low())):
        sim = SoftSkeletonSimulator(soft_elbow(), root="free", obstacles=[ground])
        for _ in range(40):
            state = sim.step()
        assert state.readings["iterations"] <= 4
        forces.append(state.readings["contact_force"][1])
    assert forces[1] == pytest.approx(forces[0], rel=0.02)


def test_vertices_of_no_triangle_touch_nothing():
    model = soft_elbow()
    areas = model.areas.copy()
    areas[::3] = 0.0
    ground = supple.Plane((0, low(), 0), (0, 1, 0))
    sim = SoftSkeletonSimulator(replace(model, areas=areas), root="free", obstacles=[ground])
    for _ in range(5):
        state = sim.step()
    assert state.readings["contacts"] > 0
    assert not set(sim.contacts().points) & set(range(0, len(areas), 3))


def test_more_contacts_than_there_is_room_for_are_a_limit():
    model = soft_hand()
    skin = model.rig(np.array(model.rig.rest_pose))
    boxes = [supple.Box(skin.mean(axis=0) + 1e-3 * k, np.ptp(skin, axis=0)) for k in range(8)]
    objects = [supple.RigidObject(box, mass=1.0, kinematic=True) for box in boxes]
    state = SoftSkeletonSimulator(model, objects=objects).step()
    assert "contacts" in state.limits


@pytest.mark.parametrize(
    "options",
    [
        {"objects": None},
        {"objects": [supple.Plane((0, 0, 0), (0, 1, 0))]},
        {"iterations": 0},
        {"iterations": "a"},
        {"most_iterations": float("nan")},
        {"alpha": float("nan")},
        {"beta": -5.0},
        {"joint_stiffness": -1.0},
        {"joint_damping": float("inf")},
        {"joint_limits": 3},
        {"joint_limits": {"fore": [(1, 1, 1), (0, 0, 0)]}},
        {"root": np.zeros(3)},
        {"tracking": -1.0},
        {"strength": -1.0},
        {"gravity": (0.0, float("nan"), 0.0)},
        {"friction": -1.0},
        {"dt": 0.0},
        {"substep": -1.0},
    ],
    ids=str,
)
def test_options_that_make_no_sense_are_refused_in_one_line(options):
    given = {"dt": 1 / 90} | options
    with pytest.raises(supple.SuppleError) as error:
        SoftSkeletonSimulator(soft_elbow(), **given)
    assert "\n" not in str(error.value)


def test_an_object_that_is_listed_twice_is_refused():
    _, ball = falling()
    with pytest.raises(supple.SuppleError, match="twice"):
        SoftSkeletonSimulator(soft_elbow(), objects=[ball, ball])


def test_an_absurd_speed_is_followed_in_few_steps():
    sim, ball = falling()
    ball.velocity = (1e100, 0, 0)
    assert sim.step().readings["substeps"] <= 64
