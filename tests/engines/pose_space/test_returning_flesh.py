"""Flesh returns to its rest shape from anywhere: there is no other equilibrium."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supple
from engines.pose_space.test_shaken_build import CELLS, limb_options
from engines.pose_space.test_simulator import both
from helpers.build_samples import bending_bar
from supple.engines.pose_space.build.build import build
from supple.engines.pose_space.crowd import Crowd
from supple.engines.pose_space.model.model import PoseSpaceModel
from supple.engines.pose_space.simulator import PoseSpaceSimulator
from supple.errors import SuppleError
from supple.reduction.cubature.accuracy import blended_correction

DT = 1 / 180


@pytest.fixture(scope="module")
def model() -> PoseSpaceModel:
    return build(bending_bar(cells=CELLS), **limb_options())


def simulator_of(model: PoseSpaceModel) -> PoseSpaceSimulator:
    return PoseSpaceSimulator(model, DT, gravity_mode="absolute", alpha=4.0, beta=0.01)


def settled(simulator: PoseSpaceSimulator, seconds: float = 3.0) -> np.ndarray:
    pose = simulator.pose
    for _ in range(round(seconds / DT)):
        simulator.step(pose)
    return simulator.surface().astype(np.float64)


def thrown(model: PoseSpaceModel, seed: int, far: float) -> np.ndarray:
    """Return coordinates that move the farthest vertex by up to `far` of the body's size."""
    random = np.random.default_rng(seed).standard_normal(model.n_modes)
    tops = [np.sqrt((basis[0].astype(np.float64) ** 2).sum(axis=1)).max(0) for basis in model.bases]
    return random * far * model.surface.size / np.abs(random * np.concatenate(tops)).sum()


def stiffness_at(model: PoseSpaceModel, weights: np.ndarray) -> np.ndarray:
    assert model.stiffness_corrections is not None
    upper = np.triu_indices(model.n_modes)
    matrices = np.zeros((len(model.stiffness_corrections), model.n_modes, model.n_modes))
    for matrix, packed in zip(matrices, model.stiffness_corrections, strict=True):
        matrix[upper] = packed
        matrix.T[upper] = packed
    ends = [(int(i), int(j)) for i, j in model.correction_ends]
    return blended_correction(matrices, ends, weights)


def lowest_stiffness(model: PoseSpaceModel, poses: np.ndarray) -> float:
    weights = [model.pose_weights(pose) for pose in poses]
    return min(float(np.linalg.eigvalsh(stiffness_at(model, each))[0]) for each in weights)


@pytest.mark.parametrize("far", [0.1, 0.3, 3.0])
def test_flesh_thrown_anywhere_settles_where_it_sags(model: PoseSpaceModel, far: float) -> None:
    sag = settled(simulator_of(model))
    for seed in range(4):
        simulator = simulator_of(model)
        simulator.q = thrown(model, seed, far)
        back = settled(simulator)
        assert np.abs(back - sag).max() < 1e-3 * model.surface.size


def test_flesh_pushed_through_itself_settles_when_the_hand_lets_go(model: PoseSpaceModel) -> None:
    sag = settled(simulator_of(model))
    simulator = simulator_of(model)
    skin = model.surface.vertices
    push = {int(skin[:, 2].argmax()): np.array([0.0, 0.0, -50.0]), 5: np.array([30.0, 0.0, 30.0])}
    for _ in range(20):
        simulator.step(simulator.pose, forces=push)
    assert np.abs(settled(simulator) - sag).max() < 1e-3 * model.surface.size


def test_a_crowd_settles_too(model: PoseSpaceModel) -> None:
    crowd = Crowd(model, 2, DT, gravity_mode="absolute", alpha=4.0, beta=0.01)
    pushed = {1: {int(model.surface.vertices[:, 2].argmax()): np.array([0.0, 0.0, -50.0])}}
    for _ in range(20):
        crowd.step(forces=pushed)
    for _ in range(540):
        crowd.step()
    first, second = crowd.surfaces().astype(np.float64)
    assert np.abs(first - second).max() < 1e-3 * model.surface.size


def test_the_stiffness_at_rest_is_positive_definite_between_poses(model: PoseSpaceModel) -> None:
    poses = model.pose_weights.poses
    at_poses = lowest_stiffness(model, poses)
    shares = np.random.default_rng(0).dirichlet(np.ones(len(poses)), 50)
    assert lowest_stiffness(model, shares @ poses) > 0.5 * at_poses > 0


def test_forces_beyond_the_trained_energy_continue_in_proportion(model: PoseSpaceModel) -> None:
    """A smaller trained energy changes steps far from rest, and none near it."""
    assert model.trained_energies is not None
    narrow = replace(model, trained_energies=model.trained_energies * np.float32(1e-4))
    ends = []
    for each in (model, narrow):
        near, away = simulator_of(each), simulator_of(each)
        near.q, away.q = thrown(model, 0, 1e-5), thrown(model, 0, 0.1)
        near.step(near.pose)
        away.step(away.pose)
        ends.append((near.q, away.q))
    np.testing.assert_array_equal(ends[0][0], ends[1][0])
    assert np.abs(ends[0][1] - ends[1][1]).max() > 1e-4 * np.abs(ends[0][1]).max()


@pytest.mark.parametrize("energy", [1.0, 1e-5])
def test_a_step_is_what_whole_matrices_give(model: PoseSpaceModel, energy: float) -> None:
    """Inside of the range of the training, and beyond it."""
    assert model.trained_energies is not None
    ranged = replace(model, trained_energies=model.trained_energies * np.float32(energy))
    assert max(both(ranged)) < 3e-6


@pytest.mark.parametrize("factor", [0.1, 10.0])
def test_one_local_stiffness_for_all_tets_is_a_stiffness(
    model: PoseSpaceModel, factor: float
) -> None:
    ends = []
    for local in (False, True):
        simulator = PoseSpaceSimulator(model, DT, stiffness=1.0 if local else factor)
        if local:
            simulator.local_stiffness = np.full(len(model.mesh.tets), factor)
        simulator.q = thrown(model, 0, 0.1)
        for _ in range(5):
            simulator.step(simulator.pose)
        ends.append(simulator.q)
    np.testing.assert_allclose(ends[1], ends[0], atol=1e-5 * np.abs(ends[0]).max())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"trained_energies": np.zeros(3, np.float32)}, "must be positive"),
        ({"trained_energies": np.full(3, np.nan, np.float32)}, "not finite"),
        ({"trained_energies": np.ones(2, np.float32)}, "shape"),
        (
            {"stiffness_corrections": None, "correction_ends": np.empty((0, 2), int)},
            "need stiffness correc",
        ),
    ],
)
def test_wrong_energies_of_the_training_are_refused(
    model: PoseSpaceModel, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(SuppleError, match=message):
        replace(model, **change)


def test_a_stiffness_at_rest_that_is_not_positive_definite_is_refused(
    model: PoseSpaceModel,
) -> None:
    assert model.stiffness_corrections is not None
    with pytest.raises(SuppleError, match="pose 0 is not positive definite"):
        replace(model, stiffness_corrections=-model.stiffness_corrections)


def test_a_stiffness_that_is_indefinite_between_poses_does_not_restart_the_flesh(
    model: PoseSpaceModel,
) -> None:
    assert model.stiffness_corrections is not None
    rows = model.stiffness_corrections.copy()
    rows[model.n_poses :] -= 2 * rows[0]
    simulator = simulator_of(replace(model, stiffness_corrections=rows))
    pose = 0.5 * (model.pose_weights.poses[0] + model.pose_weights.poses[1])
    simulator.reset(pose)
    simulator.q = thrown(model, 0, 0.1)
    limits = {name for _ in range(100) for name in simulator.step(pose).limits}
    assert "reset" not in limits


@pytest.mark.filterwarnings("ignore::supple.errors.SuppleWarning")
def test_the_stegosaurus_keeps_its_belly(assets: Path) -> None:
    """Between the poses of its attack the blended stiffness was indefinite, and the belly stayed
    inside out, 6 % of the size from where it belongs."""
    character = supple.load(assets / "untuned/q_Stegosaurus.glb")
    baked = supple.bake(character, "Stegosaurus_Attack", quality="live", progress=False)
    rig = np.array(
        [
            character.rig(pose) @ root[:3, :3].T + root[:3, 3]
            for pose, root in zip(baked.motion.poses, baked.motion.roots, strict=True)
        ]
    )
    far = np.linalg.norm(baked.frames - rig, axis=2).max(axis=1) / character.surface.size
    assert far.max() < 0.03
    assert far[-8:].max() < 0.01
    assert baked.report["limits"] == {}
