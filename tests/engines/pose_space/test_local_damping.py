"""Damping changes from place to place while flesh moves, as it does without reduction."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import supple
from engines.pose_space.test_local_stiffness import near_root, pulled
from helpers.build_samples import bar_options, bending_bar
from supple.elastic.body import ElasticBody
from supple.elastic.material import Material
from supple.engines.optional_parts import LocalDamping
from supple.engines.pose_space.local_damping import _products, damped, whole_bases
from supple.engines.pose_space.model.model import PoseSpaceModel
from supple.engines.pose_space.runtime import RuntimeModel
from supple.errors import SuppleError


@pytest.fixture(scope="module")
def model() -> PoseSpaceModel:
    return supple.build(bending_bar(), **bar_options())


def rung(simulator: Any, steps: int = 60) -> np.ndarray:
    """Heights of the tip after it is let go, (steps,)."""
    pulled(simulator)
    tip = int(np.argmax(simulator.model.surface.vertices[:, 0]))
    heights = []
    for _ in range(steps):
        simulator.step()
        heights.append(simulator.surface()[tip, 1])
    return np.array(heights) - simulator.model.surface.vertices[tip, 1]


@pytest.mark.parametrize("engine", ["pose-space", "full"])
@pytest.mark.parametrize("factor", [0.25, 3.0])
def test_the_same_factor_everywhere_is_the_factor_of_the_whole(
    model: PoseSpaceModel, engine: str, factor: float
):
    whole, local = (supple.Simulator(model, engine=engine) for _ in range(2))
    alpha, beta = whole.damping
    whole.damping = alpha, factor * beta
    local.local_damping = np.full(len(model.mesh.tets), factor)
    np.testing.assert_allclose(rung(local, 20), rung(whole, 20), rtol=0, atol=1e-9)


def of_pose(tables: RuntimeModel, pose: int) -> np.ndarray:
    """The upper triangle of the stiffness that damps in addition at a pose."""
    m = tables.n_poses
    return tables.poses.damping[pose * m - pose * (pose - 1) // 2]


@pytest.mark.parametrize("interpolation", ["frames", "world"])
@pytest.mark.parametrize("stiffness", [1.0, 3.0])
def test_at_every_pose_it_is_that_of_all_tets(interpolation: Any, stiffness: float):
    """With enough cubature that bases are stored nearly everywhere."""
    options = bar_options(interpolation=interpolation, elastic_cubature=250)
    model = supple.build(bending_bar(), **options)
    runtime, mesh = RuntimeModel.of(model), model.mesh
    factors, stiff = near_root(model, 5.0), near_root(model, stiffness)
    tables = damped(runtime, whole_bases(runtime), 0.5 * factors, stiff)
    assert tables.least_damping == 0.5
    everything = np.arange(len(mesh.vertices))
    rows = runtime.vertex_rotations(everything) @ runtime.basis_rows(everything)
    upper = np.triu_indices(model.n_modes)
    for pose in range(model.n_poses):
        at, material = model.tet_rig(model.poses[pose]), model.material(pose)
        weights = np.maximum(stiff * (factors - 1), 1e-9) * np.asarray(material.young)
        body = ElasticBody(mesh, replace(material, young=weights))
        basis = rows[pose].reshape(-1, model.n_modes)
        expected = (basis.T @ (body.stiffness(at, at) @ basis))[upper]
        far = np.abs(of_pose(tables, pose) - expected).max() / np.abs(expected).max()
        assert far < 0.02


@pytest.mark.parametrize("basis", ["modes", "shaken"])
def test_factors_of_all_tets_damp_as_the_stiffness_at_rest(basis: Any):
    """Where few bases are stored, too: cubature gave soft modes a hundredth of it."""
    model = supple.build(bending_bar(), **bar_options(basis=basis))
    runtime = RuntimeModel.of(model)
    bases, count = whole_bases(runtime), len(model.mesh.tets)
    free = len(model.mesh.vertices) - len(model.fixed)
    assert len(model.rotation_vertices) < free
    halves = [
        _products(model, bases, near_root(model, a) - b) for a, b in ((2.0, 1.0), (1e-9, 0.0))
    ]
    whole = _products(model, bases, np.ones(count))
    np.testing.assert_allclose(halves[0] + halves[1], whole, atol=1e-5 * np.abs(whole).max())
    if basis == "shaken":
        assert model.stiffness_corrections is not None
        rest = model.stiffness_corrections[0]
        np.testing.assert_allclose(whole[0], rest, atol=1e-4 * np.abs(rest).max())


def test_between_poses_it_takes_energy_only(model: PoseSpaceModel):
    factors = near_root(model, 8.0)
    tables = damped(RuntimeModel.of(model), whole_bases(RuntimeModel.of(model)), factors, None)
    upper, m = np.triu_indices(model.n_modes), model.n_poses
    for weights in np.random.default_rng(1).normal(size=(20, m)):
        pairs = [weights[i] * weights[j] for i in range(m) for j in range(i, m)]
        matrix = np.zeros((model.n_modes, model.n_modes))
        matrix[upper] = np.array(pairs) @ tables.poses.damping
        values = np.linalg.eigvalsh(matrix, UPLO="U")
        assert values.min() > -1e-5 * values.max()


def decay(model: PoseSpaceModel, engine: str, factor: float) -> float:
    """Decay of the tip in 1/s, with a factor on the damping of the half at the root."""
    options: dict[str, Any] = {"gravity_mode": "none", "integrator": "bdf2"}
    if engine == "full":
        options["newton"] = 3
    simulator: Any = supple.Simulator(model, dt=1 / 180, engine=engine, **options)
    tip, damping = int(np.argmax(model.surface.vertices[:, 0])), simulator.damping
    simulator.damping = 20.0, 0.02
    for _ in range(120):
        simulator.step(forces={tip: [0, -5.0, 0]})
    simulator.damping = 0.0, 0.5 * damping[1]
    simulator.local_damping = near_root(model, factor)
    heights = []
    for _ in range(88):  # two swings
        simulator.step()
        heights.append(simulator.surface()[tip, 1] - model.surface.vertices[tip, 1])
    assert isinstance(simulator, LocalDamping)
    first, second = np.split(np.square(heights), 2)
    return float(np.log(first.sum() / second.sum()) * 180 / 88)


@pytest.mark.parametrize("options", [{}, {"interpolation": "world"}, {"basis": "shaken"}])
def test_a_damped_half_rings_down_as_without_reduction(options: dict[str, Any]):
    material = Material("stvk", young=1.2e7, poisson=0.4)
    model = supple.build(bending_bar(), **bar_options(material=material, **options))
    for factor in (0.2, 5.0):
        without = decay(model, "full", factor)
        assert decay(model, "pose-space", factor) == pytest.approx(without, rel=0.1)


def test_none_is_the_model_again_to_the_bit(model: PoseSpaceModel):
    plain, changed = supple.Simulator(model), supple.Simulator(model)
    changed.local_damping = near_root(model, 4.0)
    changed.local_damping = None
    np.testing.assert_array_equal(rung(changed), rung(plain))


def test_flesh_goes_on_from_where_it_is(model: PoseSpaceModel):
    simulator = supple.Simulator(model)
    pulled(simulator, 20)
    q, velocity, time = simulator.q, simulator.velocity, simulator.time
    simulator.local_damping = near_root(model, 4.0)
    np.testing.assert_array_equal(simulator.q, q)
    np.testing.assert_array_equal(simulator.velocity, velocity)
    assert simulator.time == time
    assert simulator.step().limits == ()


def test_other_changes_keep_it(model: PoseSpaceModel):
    """Stiffness, teleports, resets and states are not the damping's."""
    factors = near_root(model, 5.0)
    expected, changed = supple.Simulator(model), supple.Simulator(model)
    expected.local_damping = changed.local_damping = factors
    changed.stiffness, changed.local_stiffness = 2.0, near_root(model, 3.0)
    changed.stiffness, changed.local_stiffness = 1.0, None
    changed.teleport()
    np.testing.assert_array_equal(changed.local_damping, factors)
    np.testing.assert_array_equal(rung(changed), rung(expected))
    kept = changed.state()
    after = rung_on(changed)
    changed.reset()
    changed.resume(kept)
    np.testing.assert_array_equal(rung_on(changed), after)


def rung_on(simulator: Any) -> np.ndarray:
    for _ in range(5):
        simulator.step()
    return np.asarray(simulator.surface())


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
def test_copies_are_damped_alike(model: PoseSpaceModel, copied: Any):
    simulator = supple.Simulator(model)
    simulator.local_damping = near_root(model, 0.2)
    np.testing.assert_array_equal(rung(copied(simulator)), rung(simulator))


def test_a_crowd_with_the_tables_is_damped_alike(model: PoseSpaceModel):
    simulator = supple.Simulator(model)
    simulator.local_damping = near_root(model, 5.0) / 4
    crowd = supple.Crowd(simulator.runtime, 2, simulator.dt, gravity_mode="absolute")
    alone = supple.Crowd(RuntimeModel.of(model), 2, simulator.dt, gravity_mode="absolute")
    simulator.gravity_mode = "absolute"
    for each in (simulator, crowd, alone):
        each.reset()
        for _ in range(20):
            each.step()
    np.testing.assert_array_equal(crowd.q[1], simulator.q)
    assert np.abs(alone.q - crowd.q).max() > 1e-3 * np.abs(crowd.q).max()


@pytest.mark.parametrize("engine", ["pose-space", "full"])
@pytest.mark.parametrize("bad", [np.ones(3), np.nan, 0.0, 1e9, "much"])
def test_factors_that_cannot_be_are_refused_and_change_nothing(model, engine, bad):
    simulator = supple.Simulator(model, engine=engine)
    factors = bad
    if isinstance(bad, float):
        factors = np.ones(len(model.mesh.tets))
        factors[7] = bad
    with pytest.raises(SuppleError, match="local damping"):
        simulator.local_damping = factors
    assert simulator.local_damping is None
    assert simulator.step().limits == ()


@pytest.mark.parametrize("engine", ["pose-space", "full"])
@pytest.mark.parametrize("bad", [1.0, (1.0,), (0.5, np.nan), (-1.0, 0.01), (0.5, -1.0), "ab", None])
def test_constants_that_cannot_be_are_refused_and_change_nothing(model, engine, bad):
    simulator = supple.Simulator(model, engine=engine)
    before = simulator.damping
    with pytest.raises(SuppleError):
        simulator.damping = bad
    assert simulator.damping == before
