"""Deferred Jacobians of rigs without derivatives: few calls of the rig, the same motion."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import supple
from helpers.rig_space_samples import belly, belly_options, trunk, trunk_options
from supple.engines.rig_space.model import RigSpaceModel
from supple.engines.rig_space.shaken_examples import shaken_examples
from supple.engines.rig_space.simulator import RigSpaceSimulator
from supple.errors import SuppleError
from supple.lab.reproduce.hahn2013.cages import cage_weights
from supple.mesh.tets import TetMesh
from supple.rig.character import Character
from supple.rig.protocol import FunctionRig


class Calls:
    """A rig as a function, whose calls are counted."""

    def __init__(self, rig: Any) -> None:
        self.rig, self.count = rig, 0

    def __call__(self, pose: np.ndarray) -> np.ndarray:
        self.count += 1
        return np.asarray(self.rig(pose))


def black_box(character: Character, options: dict[str, Any]) -> tuple[RigSpaceModel, Calls]:
    calls, rig = Calls(character.rig), character.rig
    hidden = FunctionRig(lambda pose: calls(pose), rig.parameters, rig.n_vertices)
    free = [each.name for each in rig.parameters][-4:]
    options = options | {"free": options.get("free", free)}
    return supple.build(replace(character, rig=hidden), engine="rig-space", **options), calls


@pytest.fixture(scope="module")
def hanging() -> tuple[RigSpaceModel, Calls]:
    return black_box(trunk((8, 3, 3)), trunk_options((8, 3, 3), cubature=60))


def shaken(i: int) -> np.ndarray:
    root = np.eye(4)
    root[1, 3] = 0.1 * np.sin(2 * np.pi * i / 60)
    return root


def played(model: RigSpaceModel, calls: Calls, steps: int = 60, **options: Any) -> Any:
    simulator = RigSpaceSimulator(model, **options)
    calls.count, found, counts = 0, [], {"jacobians": 0, "rollbacks": 0}
    for i in range(1, steps + 1):
        readings = simulator.step(None, shaken(i)).readings
        counts = {name: value + readings.get(name, 0) for name, value in counts.items()}
        found.append(simulator.parameters)
    return np.array(found), calls.count / steps, counts


def test_a_black_box_rig_takes_few_calls_and_moves_as_with_every_jacobian(hanging):
    model, calls = hanging
    every, many, _ = played(model, calls, deferral=0.0)
    kept, few, counts = played(model, calls)
    k = len(model.entries)
    assert many > 4 * k
    assert few < 0.7 * many
    assert 0 < counts["jacobians"] < 60
    moves = np.abs(every - every[0]).max()
    assert moves > 0.01
    assert np.abs(kept - every).max() < 0.03 * moves


def test_a_smaller_bound_is_nearer_and_makes_more_jacobians(hanging):
    model, calls = hanging
    every = played(model, calls, deferral=0.0)[0]
    rows = [played(model, calls, deferral=bound) for bound in (1e-3, 1e-5, 1e-7)]
    errors = [np.abs(row[0] - every).max() for row in rows]
    jacobians = [row[2]["jacobians"] for row in rows]
    assert errors[2] < 0.2 * errors[0]
    assert jacobians[0] < jacobians[1] < jacobians[2]


def test_a_simulation_with_kept_jacobians_resumes_to_the_bit(hanging):
    model, _ = hanging
    first, second = RigSpaceSimulator(model), RigSpaceSimulator(model)
    for i in range(1, 12):
        first.step(None, shaken(i))
    second.resume(first.state())
    for i in range(12, 18):
        first.step(None, shaken(i))
        second.step(None, shaken(i))
    np.testing.assert_array_equal(first.parameters, second.parameters)


def test_a_negative_bound_is_refused(hanging):
    with pytest.raises(SuppleError, match="deferral is -1 J/kg"):
        RigSpaceSimulator(hanging[0], deferral=-1.0)


def test_solvers_that_keep_no_jacobian_refuse_a_bound(hanging):
    with pytest.raises(SuppleError, match="leave out deferral"):
        RigSpaceSimulator(hanging[0], solver="iv1-je1", deferral=1e-5)


@pytest.fixture(scope="module")
def bellied() -> RigSpaceModel:
    return supple.build(belly(), engine="rig-space", **belly_options(cubature=60))


def test_second_differences_change_the_steps_of_rsp_but_not_its_minimum(bellied):
    ends = []
    for solver in ("rsp", "rsp-second"):
        simulator = RigSpaceSimulator(bellied, solver=solver)
        for i in range(1, 6):
            simulator.step(None, shaken(i))
        ends.append(simulator.parameters)
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-4 * np.abs(ends[0]).max())


@pytest.mark.parametrize("solver", ["rsp", "iv1-je1", "iv2-je2"])
def test_the_papers_solvers_survive_a_key_pose_that_inverts_tets(bellied, solver):
    pose = np.array(bellied.rig.rest_pose)
    pose[0] = 2.6  # folded
    volumes = TetMesh(bellied.tet_rig(pose), bellied.mesh.tets).volumes()
    assert (volumes <= 0).any()
    simulator = RigSpaceSimulator(bellied, solver=solver, gravity_mode="none")
    simulator.reset(pose)
    for _ in range(3):
        simulator.step(pose)
    assert np.isfinite(simulator.parameters).all()
    assert np.abs(simulator.coordinates[: len(bellied.entries)]).max() < 1.0


def test_shaken_examples_swing_with_their_interior_in_equilibrium(bellied):
    shapes = shaken_examples(bellied, 6, [bellied.rig.rest_pose])
    assert shapes.shape == (7, len(bellied.mesh.vertices), 3)
    np.testing.assert_array_equal(shapes[0], bellied.mesh.vertices)
    assert np.linalg.norm(shapes[1:] - shapes[0], axis=2).max() > 0.01 * bellied.mesh.size
    interior = bellied.interior
    force = bellied.body.force(shapes[3])
    assert np.abs(force[interior]).max() < 0.02 * np.abs(force).max()
    with pytest.raises(SuppleError, match="poses need"):
        shaken_examples(bellied, 6, [[0.0]])


def test_cage_coordinates_reproduce_linear_functions(bellied):
    mesh, interior = bellied.mesh, bellied.interior
    surface = np.setdiff1d(np.arange(len(mesh.vertices)), interior)
    for weights in cage_weights(mesh, interior, surface).values():
        np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-9)
        placed = weights @ mesh.vertices[surface]
        np.testing.assert_allclose(placed, mesh.vertices[interior], atol=1e-6 * mesh.size)
