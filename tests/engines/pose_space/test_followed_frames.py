"""Frames that follow the flesh, and flesh that keeps its momentum while they turn."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from helpers.build_samples import bar_options, bending_bar, jointed_arm
from supple import FullSimulator, PoseSpaceModel, build
from supple.elastic.material import Material
from supple.engines.pose_space.blend import fade_out
from supple.engines.pose_space.rest_shape_rotations import spread_out
from supple.engines.pose_space.simulator import PoseSpaceSimulator
from supple.maths.rotations import exponential as from_vector
from supple.maths.rotations import from_matrix, inverse, multiply, to_matrix
from supple.rig.motion.motion import Motion
from supple.rig.tets.vertex_frames import pose_rotations

H = 1 / 90


@cache
def arm() -> PoseSpaceModel:
    """Bent at the elbow in one pose, raised at the shoulder and twisted in others."""
    poses = {
        "elbow": np.radians([0.0, 0, 0, 0, 0, 100]),
        "raised": np.radians([0.0, 90, 0, 0, 0, 0]),
        "twisted": np.radians([90.0, 0, 0, 0, 0, 0]),
    }
    return build(jointed_arm(), **bar_options(poses=poses, elastic_cubature=40))


@cache
def bar() -> PoseSpaceModel:
    flesh = Material("stvk", young=1e7, poisson=0.4)
    return build(bending_bar(90.0), **bar_options(modes=16, elastic_cubature=60, material=flesh))


def angles_off(model: PoseSpaceModel, frames: str, pose: np.ndarray) -> np.ndarray:
    """How far the frames of cubature vertices are from how the rest shape turned, in degrees."""
    simulator = PoseSpaceSimulator(model, frames=frames)
    simulator.reset(pose)
    runtime, found = simulator.runtime, simulator._stepper.workspace.blend.frames
    shapes = [model.mesh.vertices, model.tet_rig(pose)]
    wanted = pose_rotations(model.mesh, shapes, [-1, 0])[1][runtime.vertices]
    moved = np.isin(runtime.vertices, model.rotation_vertices)
    turned = from_matrix(found[moved].reshape(-1, 3, 3).astype(np.float64))
    off = multiply(turned, inverse(wanted[moved]))
    return np.degrees(2 * np.arccos(np.clip(np.abs(off[:, 3]), 0, 1)))


def test_where_several_joints_turn_frames_are_the_rest_shapes_own():
    pose = np.radians([40.0, 50, 0, 0, 0, 60])
    blended, followed = (angles_off(arm(), kind, pose) for kind in ("blended", "followed"))
    assert np.sqrt((blended**2).mean()) > 10
    assert np.sqrt((followed**2).mean()) < 0.4 * np.sqrt((blended**2).mean())


@pytest.mark.parametrize("index", range(4))
def test_at_the_poses_nothing_is_turned_further(index):
    model = arm()
    skins = []
    for frames in ("followed", "blended"):
        simulator = PoseSpaceSimulator(model, frames=frames)
        simulator.reset(model.poses[index])
        simulator.q = np.full(model.n_modes, 0.02)
        skins.append(simulator.surface())
    assert np.abs(skins[0] - model.rig(model.poses[index])).max() > 1e-3
    np.testing.assert_allclose(skins[0], skins[1], atol=2e-6)


def test_frames_follow_continuously_through_the_poses():
    model = arm()
    simulator = PoseSpaceSimulator(model)
    way = np.linspace(0, 1, 401)[:, None] * np.radians([80.0, 85, 0, 0, 0, 90])
    skins = []
    for pose in way:
        simulator.reset(pose)
        simulator.q = np.full(model.n_modes, 0.02)
        skins.append(simulator.surface() - model.rig(pose))
    strides = np.abs(np.diff(skins, axis=0)).max(axis=(1, 2))
    assert strides.max() < 5 * np.median(strides)


@pytest.mark.parametrize("integrator", ["backward-euler", "bdf2"])
def test_keeping_momentum_brings_the_flesh_nearer_to_the_full_simulation(integrator):
    model = bar()
    # Spinning: what swings keeps its direction in the world, not in the body.
    times = np.arange(181) / 180
    turns = from_vector(np.outer(3 * np.sin(3 * times), [0.0, 1.0, 0.0]))
    roots = np.tile(np.eye(4), (len(times), 1, 1))
    roots[:, :3, :3] = to_matrix(turns)
    motion = Motion(times, np.zeros((len(times), 1)), roots)
    rig = np.array([model.rig([0.0]) @ root[:3, :3].T for root in roots])
    # Undamped, as stiffness damping is another thing where displacements turn.
    options: dict[str, Any] = {"alpha": 0.0, "beta": 0.0, "gravity_mode": "none"}
    options["integrator"], exact = integrator, {"newton": 20, "tolerance": 1e-6}
    second = integrator == "bdf2"  # beside what it converges to
    full = FullSimulator(model, H / 2, substeps=4 if second else 1, **exact, **options)
    truth = full.run(motion, centred=second)

    def missed(**changed: Any) -> float:
        found = PoseSpaceSimulator(model, H / 2, look_ahead=0, **options, **changed).run(motion)
        return float(np.sqrt(((found - truth) ** 2).sum() / ((truth - rig) ** 2).sum()))

    assert missed() < 0.7 * missed(transport=False)


def test_frames_of_another_kind_are_refused_for_tables_that_are_made():
    simulator = PoseSpaceSimulator(arm())
    with pytest.raises(Exception, match='frames "followed", not "blended"'):
        PoseSpaceSimulator(simulator.runtime, frames="blended")
    assert PoseSpaceSimulator(simulator.runtime).runtime is simulator.runtime


def test_points_that_are_spread_out_cover_all_of_them():
    points = np.random.default_rng(0).random((300, 3))
    chosen = points[spread_out(points, 40)]
    gaps = np.linalg.norm(points[:, None] - chosen[None], axis=2).min(axis=1)
    assert gaps.max() < 0.35
    assert np.array_equal(spread_out(points[:5], 40), np.arange(5))


@pytest.mark.parametrize(
    ("integrator", "substeps"), [("backward-euler", 1), ("backward-euler", 4), ("bdf2", 1)]
)
def test_a_steady_spin_does_not_feed_the_swing(integrator, substeps):
    model = bar()
    options: dict[str, Any] = {"integrator": integrator, "substeps": substeps}
    simulator = PoseSpaceSimulator(model, H, alpha=0, beta=0, gravity_mode="none", **options)
    lengths = []
    for k in range(500):
        root = np.eye(4)
        root[:3, :3] = to_matrix(from_vector(np.array([5.0 * k * H, 0, 0])))
        simulator.step([0.0], root, forces={5: (0.0, 2.0, 1.0)} if k == 1 else None)
        lengths.append(np.linalg.norm(simulator.q))
    assert max(lengths[400:]) < 1.2 * max(lengths[:100])


def test_corrections_fade_where_tets_are_left_out():
    model = arm()
    far = np.radians([170.0, 160, 0, 0, 0, 170])
    simulator = PoseSpaceSimulator(model, gravity_mode="none")
    simulator.reset(far)
    simulator.q = np.full(model.n_modes, 1e-3)
    for _ in range(450):
        simulator.step(far)
    assert np.abs(simulator.surface() - model.rig(far)).max() < 1e-3 * simulator.runtime.size


def test_a_weight_is_left_however_many_poses_share():
    for count in (1, 3, 20, 200):
        weights = np.full(count, 1 / count)
        fade_out(weights, 0.2)
        np.testing.assert_allclose(weights, 1 / count)
