"""Obstacles that overlap the skin at the first frame push it out gently, or are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import supple
from helpers.soft_skeleton_samples import soft_body, soft_elbow
from supple.engines.soft_skeleton.simulator import SoftSkeletonSimulator
from supple.errors import SuppleError, SuppleWarning

UP = (0, 1, 0)


def ground(sim_or_model: Any, above: float) -> supple.Plane:
    """Ground so far above the lowest skin of a body in its rest pose."""
    model = getattr(sim_or_model, "model", sim_or_model)
    low = float(model.rig(np.array(model.rig.rest_pose))[:, 1].min())
    return supple.Plane((0, low + above, 0), UP)


def standing(above: float, **options: Any) -> SoftSkeletonSimulator:
    model = soft_body()
    return SoftSkeletonSimulator(model, obstacles=[ground(model, above)], **options)


def test_feet_in_the_ground_are_pushed_out_within_a_fifth_of_a_second():
    sim, depths, speeds = standing(0.03, root="tracked"), [], []
    height = float(np.asarray(ground(sim, 0.03).point)[1])
    with pytest.warns(SuppleWarning, match=r"obstacle 0 is 0\.03 m deep .* at .*foot"):
        sim.step()
    for _ in range(44):
        state = sim.step()
        depths.append(state.readings["penetration"])
        speeds.append(sim._system.speed)
        floor = height - sim._contact.overlaps.depths[0]
        assert sim.surface()[:, 1].min() > floor - 1e-6
        assert set(state.limits) <= {"joints"}
    assert max(speeds) < 0.3  # 3 cm in 0.2 s; at once it was 0.7 m/s
    assert depths[0] > 0.025
    assert depths[-1] < 0.012
    assert sim.surface()[:, 1].min() > height - 1e-6


def test_an_obstacle_through_the_body_is_refused_with_where_and_how_deep():
    sim = standing(0.6)
    before = sim.surface()
    for _ in range(2):
        with pytest.raises(SuppleError, match=r"obstacle 0 is 0\.6 m deep .* at .*foot \(.*: move"):
            sim.step()
    np.testing.assert_array_equal(sim.surface(), before)
    sim.obstacles = [ground(sim, 0.0)]
    sim.step()


def test_a_wall_in_a_driven_bone_is_refused_and_pushes_a_tracked_one():
    model = soft_body()
    skin, pelvis = model.rig(np.array(model.rig.rest_pose)), model.joints[0]
    back = skin[np.linalg.norm(skin[:, :2] - pelvis[:2], axis=1) < 0.08][:, 2].min()
    wall = supple.Box((pelvis[0], pelvis[1], back + 0.06 - 0.5), (0.06, 0.06, 0.5))
    with pytest.raises(SuppleError, match="of flesh are on this bone, which is driven"):
        SoftSkeletonSimulator(model, obstacles=[wall]).step()
    sim = SoftSkeletonSimulator(model, obstacles=[wall], root="tracked")
    with pytest.warns(SuppleWarning, match="deep in the skin at the start"):
        sim.step()
    for _ in range(60):
        sim.step()
    assert sim.chain.positions[0, 2] > pelvis[2] + 0.02


def test_a_small_overlap_is_silent_and_a_state_goes_on_within_it():
    sim = standing(1e-3)
    for _ in range(5):
        sim.step()
    state, skins = sim.state(), []
    for _ in range(2):
        sim.resume(state)
        for _ in range(12):
            sim.step()
        skins.append(sim.surface())
    np.testing.assert_array_equal(skins[0], skins[1])


def test_another_obstacle_does_not_unload_the_skin_that_is_in_contact():
    model = soft_elbow()
    sim = SoftSkeletonSimulator(model, root="free", obstacles=[ground(model, 0.0)])
    for _ in range(60):
        sim.step()
    sim.obstacles = [*sim.obstacles, supple.Sphere((0, 50.0, 0), 1.0)]
    weight = float(model.masses.sum()) * 9.81
    borne = [sim.step().readings["contact_force"][1] / weight for _ in range(10)]
    assert min(borne) > 0.8


def test_an_obstacle_put_into_a_moving_body_pushes_it_out_too():
    model = soft_elbow()
    sim = SoftSkeletonSimulator(model, root="free", gravity=(0, 0, 0))
    sim.step()
    low = model.surface.vertices[:, 1].min()
    sim.obstacles = [supple.Plane((0, low + 0.04, 0), UP)]
    with pytest.warns(SuppleWarning, match="deep in the skin"):
        sim.step()
    fastest = 0.0
    for _ in range(30):
        sim.step()
        fastest = max(fastest, sim._system.speed)
    assert sim.surface()[:, 1].min() > low + 0.04 - 1e-6
    assert fastest < 1.0
