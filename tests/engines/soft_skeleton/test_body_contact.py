"""Contact of soft skeletons: weights are carried, friction holds or slides, nothing explodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import supple
from helpers.soft_skeleton_samples import soft_body, soft_elbow, soft_hand
from supple.engines.soft_skeleton.bones.joint_springs import MARGIN
from supple.engines.soft_skeleton.simulator import SoftSkeletonSimulator
from supple.scenes.characters.hand import hand_pose

GRAVITY = 9.81


def lying(height: float, **options) -> tuple[SoftSkeletonSimulator, np.ndarray]:
    """A person on the back, so high above the ground."""
    model = soft_body()
    pose, root = np.array(model.rig.rest_pose), np.eye(4)
    root[:3, :3] = Rotation.from_rotvec([-np.pi / 2, 0, 0]).as_matrix()
    root[1, 3] = height - (model.rig(pose) @ root[:3, :3].T)[:, 1].min()
    ground = supple.Plane((0, 0, 0), (0, 1, 0))
    sim = SoftSkeletonSimulator(model, root="free", obstacles=[ground], **options)
    sim.reset(pose, root)
    return sim, root


def weight(sim: SoftSkeletonSimulator) -> float:
    return float(sim.model.masses.sum()) * GRAVITY


def test_a_body_at_rest_on_the_ground_presses_with_its_weight_and_hardly_sinks_in():
    sim, root = lying(0.005)
    for _ in range(220):
        state = sim.step(None, root)
    force = state.readings["contact_force"]
    assert force[1] == pytest.approx(weight(sim), rel=0.01)
    assert np.abs(force[[0, 2]]).max() < 0.03 * weight(sim)
    assert state.readings["penetration"] < 2e-3
    assert sim.surface()[:, 1].min() > -1e-6
    parts = np.sum(list(state.readings["parts"].values()), axis=0)
    np.testing.assert_allclose(parts, force, atol=1e-9)
    np.testing.assert_allclose(state.readings["things"]["obstacle 0"], force, atol=1e-9)
    np.testing.assert_allclose(sim.contacts().forces.sum(axis=0), force, atol=1e-9)


@pytest.mark.parametrize("tracking", [0.0, 8.0])
def test_a_person_dropped_from_a_metre_comes_to_lie(tracking):
    sim, root = lying(1.0, tracking=tracking)
    deepest, fastest = 0.0, []
    for _ in range(200):
        state = sim.step(None, root)
        deepest = max(deepest, state.readings["penetration"])
        fastest.append(sim._system.speed)
        assert np.isfinite(sim.surface()).all()
    assert deepest < 0.015
    assert max(fastest) < 12
    assert fastest[-1] < 1.5
    assert -0.05 < sim.surface()[:, 1].min() < 0.05


def ball_on_palm() -> tuple[SoftSkeletonSimulator, supple.RigidObject]:
    """A ball that weight presses onto a palm, which is where gravity leads to."""
    model = soft_hand()
    pose = np.array(model.rig.rest_pose)
    skin, joints = model.rig(pose), model.joints
    middle = 0.4 * joints[0] + 0.6 * joints[[1, 4, 7, 10]].mean(axis=0)
    near = np.linalg.norm(skin[:, [0, 2]] - middle[[0, 2]], axis=1) < 0.02
    place = np.eye(4)
    place[:3, 3] = [middle[0], skin[near, 1].min() - 0.031, middle[2]]
    ball = supple.RigidObject(supple.Sphere((0, 0, 0), 0.03), mass=0.2, place=place, name="ball")
    up: dict[str, Any] = {"gravity": (0, GRAVITY, 0), "friction": 0.8}
    return SoftSkeletonSimulator(model, objects=[ball], **up), ball


def test_a_ball_at_rest_on_the_palm_weighs_what_it_weighs():
    sim, ball = ball_on_palm()
    for _ in range(270):
        state = sim.step()
    force, pull = state.readings["contact_force"], ball.mass * GRAVITY
    assert np.linalg.norm(force - [0, pull, 0]) < 0.01 * pull
    held = state.readings["root_force"] + np.array([0, weight(sim), 0])
    assert np.linalg.norm(held + np.array([0, pull, 0])) < 0.01 * pull
    assert state.readings["penetration"] < 2e-3
    assert np.linalg.norm(ball.velocity) < 0.01


def test_the_forces_on_ball_and_hand_are_opposite():
    sim, ball = ball_on_palm()
    for _ in range(20):
        state = sim.step()
        gained = sim._contact.motion._world.a[0].mean(axis=0)
        felt = ball.mass * (gained - sim.gravity)
        if state.readings["iterations"] == 1:  # else forces are those of the last of several
            np.testing.assert_allclose(felt, -state.readings["contact_force"], atol=1e-9)
    assert np.linalg.norm(state.readings["contact_force"]) > 0.1


@pytest.mark.parametrize(
    ("friction", "angle"), [(0.5, 20.0), (0.5, 30.0), (0.3, 14.0), (0.3, 20.0)]
)
def test_an_object_slides_on_a_slope_steeper_than_friction(friction, angle):
    slope, model = np.radians(angle), soft_elbow()
    gravity = GRAVITY * np.array([np.sin(slope), -np.cos(slope), 0])
    low = model.surface.vertices[:, 1].min()
    box = supple.RigidObject(supple.Box((0, 0, 0), (0.05, 0.05, 0.05)), mass=1.0)
    place = np.eye(4)
    place[:3, 3] = [0, low + 0.05, 3.0]
    box.place = place
    ground = supple.Plane((0, low, 0), (0, 1, 0))
    options = {"root": "free", "obstacles": [ground], "objects": [box], "friction": friction}
    sim = SoftSkeletonSimulator(model, gravity=gravity, **options)
    body, thing = [], []
    for _ in range(180):
        sim.step()
        body.append(sim.chain.positions[0, 0])
        thing.append(box.centre[0])
    pulled = GRAVITY * (np.sin(slope) - friction * np.cos(slope))
    for path, near in ((thing, 0.05), (body, 0.15)):
        speeds = (path[-1] - path[-46]) / 0.5, (path[-46] - path[-91]) / 0.5
        if pulled < 0:
            assert abs(path[-1] - path[-91]) < 1e-3  # no creep
        else:
            assert (speeds[0] - speeds[1]) / 0.5 == pytest.approx(pulled, rel=near)


def test_a_fist_pressed_in_at_two_metres_a_second_stops_at_the_bone():
    model = soft_body()
    skin = model.rig(np.array(model.rig.rest_pose))
    spine = model.joints[model.bones.index("spine1")]
    near = (np.abs(skin[:, :2] - spine[:2]) < 0.05).all(axis=1)
    front = skin[near, 2].max()
    start = np.eye(4)
    start[:3, 3] = [spine[0], spine[1], front + 0.05]
    fist = supple.RigidObject(supple.Sphere((0, 0, 0), 0.04), kinematic=True, place=start)
    sim = SoftSkeletonSimulator(model, objects=[fist])
    forces, deepest = [], 0.0
    for k in range(90):
        place = np.eye(4)
        place[:3, 3] = [spine[0], spine[1], front + 0.04 - min(0.04, 2 * k / 90 - 0.01)]
        fist.moved_to(place, sim.dt)
        state = sim.step()
        forces.append(state.readings["contact_force"][2])
        deepest = max(deepest, state.readings["penetration"])
    assert deepest < 0.015
    assert forces[-1] < -10
    assert abs(forces[-1] - forces[-10]) < 0.02 * abs(forces[-1])
    np.testing.assert_allclose(state.readings["root_force"][2], -forces[-1], rtol=0.02)


def test_ten_objects_in_a_hand_neither_explode_nor_pass_through_it():
    model = soft_hand()
    fingers = ("index", "middle", "ring", "pinky")
    pose = hand_pose({name: (50.0, 50.0, 20.0, 0.0) for name in fingers})
    shapes = (
        supple.Sphere((0, 0, 0), 0.01),
        supple.Box((0, 0, 0), (0.009, 0.011, 0.008)),
        supple.Capsule((-0.008, 0, 0), (0.008, 0, 0), 0.007),
    )
    middle, random = 0.45 * model.joints[0] + 0.55 * model.joints[4], np.random.default_rng(0)
    objects = []
    for k in range(10):
        place = np.eye(4)
        place[:3, 3] = middle
        place[:2, 3] += 0.01 * random.standard_normal(), -0.06 - 0.03 * k
        objects.append(supple.RigidObject(shapes[k % 3], density=1000, place=place))
    up: dict[str, Any] = {"gravity": (0, GRAVITY, 0), "friction": 0.6}
    sim = SoftSkeletonSimulator(model, objects=objects, **up)
    sim.reset(pose)
    worst = 0.0
    for _ in range(120):
        state = sim.step(pose)
        worst = max(worst, state.readings["penetration"])
        for each in objects:
            assert np.linalg.norm(each.velocity) < 16  # 1.3 s of fall are 13 m/s
    assert worst < 0.015


def test_joints_stay_within_their_limits_and_report_it():
    model = soft_hand()
    name = model.bones[1]
    limits = {name: [(-0.1, -0.1, -0.2), (0.1, 0.1, 0.2)]}
    sim = SoftSkeletonSimulator(model, joint_limits=limits, tracking=4.0)
    pose = np.array(model.rig.rest_pose)
    names = [each.name for each in model.rig.parameters]
    bent = pose.copy()
    bent[[k for k, each in enumerate(names) if each.startswith(f"{name}.r")]] = 1.0
    for _ in range(60):
        state = sim.step(bent)
    turned = sim.parameters[[k for k, each in enumerate(names) if each.startswith(f"{name}.r")]]
    assert "joints" in state.limits
    assert np.abs(turned).max() < 0.4
    with pytest.raises(supple.SuppleError, match="did you mean"):
        SoftSkeletonSimulator(model, joint_limits={name + "x": limits[name]})


def test_joints_go_little_beyond_the_motions_but_where_the_pose_has_them():
    model = soft_elbow()  # its motion bends it from 0 to 70°
    hangs, acted = {}, []
    for limits in (None, "motions"):
        sim = SoftSkeletonSimulator(model, tracking=0.0, joint_damping=4.0, joint_limits=limits)
        for _ in range(180):
            acted += [limits for each in sim.step().limits if each == "joints"]
        hangs[limits] = float(sim.parameters[0])
    assert set(acted) == {"motions"}
    assert hangs["motions"] == pytest.approx(-MARGIN, abs=0.02)
    assert hangs[None] < -1.0
    sim = SoftSkeletonSimulator(model)
    for _ in range(90):
        state = sim.step([-1.2])
    assert set(state.limits) <= {"joints"}  # the pose is the bound, and rounding may pass it
    assert sim.parameters[0] == pytest.approx(-1.2, abs=0.01)


@pytest.mark.parametrize("degrees", [1.5, 4.0])
def test_limits_by_motions_do_not_hinder_a_pose_that_turns_past_a_half_turn(degrees):
    model, found = soft_elbow(), []
    for limits in (None, "motions"):
        sim = SoftSkeletonSimulator(model, tracking=3.0, joint_limits=limits, gravity=(0, 0, 0))
        for k in range(round(300 / degrees)):
            sim.step([np.radians(degrees * k)])
        found.append(Rotation.from_matrix(sim.chain.rotations[0].T @ sim.chain.rotations[1]))
    assert (found[0].inv() * found[1]).magnitude() < 0.15  # they lag


class _Floor:
    """Ground that is known by distances only."""

    def distances(self, points):
        return points[:, 1].copy(), np.tile([0.0, 1.0, 0.0], (len(points), 1))


def test_skin_is_shown_out_of_a_thing_known_by_distances_only_and_its_depth_is_read():
    sim, root = lying(0.01)
    sim.obstacles = (_Floor(),)
    deepest = [sim.step(None, root).readings["penetration"] for _ in range(40)]
    assert 1e-3 < max(deepest) < 0.015
    assert deepest[-1] > 0
    assert sim.surface()[:, 1].min() > -1e-6


def test_a_reset_simulator_is_as_a_new_one():
    steps = []
    sim, root = lying(0.05)
    above = root.copy()
    above[1, 3] += 0.06
    for _ in range(2):
        pose = np.array(sim.model.rig.rest_pose)
        sim.reset(pose, root, before=(pose, above))
        steps.append([sim.step(None, root).readings["contact_force"] for _ in range(3)])
    np.testing.assert_array_equal(steps[0], steps[1])


def test_fingers_do_not_pass_through_each_other():
    model = soft_hand()
    pose = np.array(model.rig.rest_pose)
    names = [each.name for each in model.rig.parameters]
    sideways = [k for k, each in enumerate(names) if each == f"{model.bones[1]}.ry"]
    gone = []
    for own in (False, True):
        sim = SoftSkeletonSimulator(model, self_contact=own, gravity=(0, 0, 0))
        ends = []
        for sign in (-1, 1):
            led = pose.copy()
            led[sideways] = 0.8 * sign
            sim.reset()
            for _ in range(60):
                state = sim.step(led)
            ends.append((np.abs(sim.parameters[sideways] - led[sideways]).max(), state))
        gone.append(max(end[0] for end in ends))
    assert gone[0] < 0.02
    assert gone[1] > 0.1


def pressed_hand(**options: Any) -> tuple[SoftSkeletonSimulator, float]:
    """A hand that goes 10 mm down onto a table on bent fingers, and the force in N it bears."""
    model = soft_hand()
    pose = hand_pose({name: (35.0, 30.0, 20.0, 0.0) for name in ("index", "middle", "ring")})
    low = float(model.rig(pose)[:, 1].min())
    table = supple.Plane((0, low - 0.002, 0), (0, 1, 0))
    sim = SoftSkeletonSimulator(model, obstacles=[table], **options)
    root = np.eye(4)
    sim.reset(pose, root)
    for k in range(120):
        root[1, 3] = -0.012 * min(k / 45, 1)
        state = sim.step(pose, root)
    return sim, float(state.readings["contact_force"][1])


def test_a_hand_on_a_table_bears_a_load():
    assert pressed_hand(tracking=8.0)[1] < 2
    sim, borne = pressed_hand()
    assert 0.5 * pressed_hand(tracking=150.0)[1] < borne < pressed_hand(tracking=150.0)[1]
    assert (sim.tracking, sim.strength) == (8.0, 400.0)
    assert pressed_hand(strength=50.0)[1] == pytest.approx(borne / 7, rel=0.3)


def test_a_given_frequency_and_limpness_have_no_strength():
    sim = SoftSkeletonSimulator(soft_elbow())
    assert sim._system._springs.springs[1] > 0
    sim.tracking = 0.0
    assert sim.strength == 0
    assert not sim._system._springs.springs.any()
    sim = SoftSkeletonSimulator(soft_elbow(), tracking=3.0)
    omega, inertias = 2 * np.pi * 3.0, soft_elbow().inertias
    np.testing.assert_array_equal(sim._system._springs.springs, inertias * omega**2)
    sim.strength = 400.0
    expected = np.maximum(inertias * omega**2, 400.0 * soft_elbow().borne_masses())
    np.testing.assert_allclose(sim._system._springs.springs, expected)
