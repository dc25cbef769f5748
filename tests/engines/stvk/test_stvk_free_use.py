"""Using free StVK bodies: runs, surfaces, edits in flight, refusals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from helpers.free_body_samples import (
    SMALL,
    SOFT,
    momenta,
    positions,
    rigid_motions,
    summed_momenta,
    thrown,
    velocities,
)
from supple.engines.stvk.free.simulator import FreeStvkSimulator
from supple.engines.stvk.model import StvkModel
from supple.errors import SolverError, SuppleError
from supple.scenes.bodies.beam import beam


@pytest.fixture(scope="module")
def model():
    """A soft beam that nothing holds, ten shapes."""
    return StvkModel.build(beam(cells=(6, 2, 2)), SOFT, modes=10)


def test_a_run_is_the_same_bits_as_its_steps(model):
    forces = np.random.default_rng(0).standard_normal((100, 2, 3))
    stepped, ran, again = (thrown(model, beta=1e-4, gravity=(0, -9.81, 0)) for _ in range(3))
    run = ran.run(100, {3: forces[:, 0], 7: forces[:, 1]})
    for pair, q, root in zip(forces, run.q, run.roots, strict=True):
        stepped.step({3: pair[0], 7: pair[1]})
        np.testing.assert_array_equal(stepped.q, q)
        np.testing.assert_array_equal(stepped.root, root)
    everywhere = np.zeros((100, *model.surface.vertices.shape))
    everywhere[:, [3, 7]] = forces
    np.testing.assert_allclose(again.run(100, everywhere).q, run.q, atol=1e-12)
    assert stepped.time == ran.time == pytest.approx(0.1)


def test_single_precision_stays_near_double(model):
    a, b = (thrown(model, dtype=dtype).run(300) for dtype in (np.float64, np.float32))
    assert 0 < np.abs(a.q - b.q).max() < 1e-3 * np.abs(a.q).max()
    assert np.abs(a.roots - b.roots).max() < 1e-4


def test_the_surface_is_in_the_world(model):
    simulator = thrown(model)
    simulator.run(60)
    seen = np.empty(model.surface.vertices.shape, np.float32)
    assert simulator.surface(seen) is seen
    local = model.surface.vertices + model.surface_basis @ simulator.q
    root = simulator.root
    np.testing.assert_allclose(seen, local @ root[:3, :3].T + root[:3, 3], atol=2e-6)
    with pytest.raises(SuppleError, match="out must be"):
        simulator.surface(seen[1:])


def test_another_material_in_flight_leaves_all_as_it_is_and_as_fast(model):
    simulator = thrown(model)
    simulator.run(50)
    x, v, time = positions(simulator), velocities(simulator), simulator.time
    simulator.set_material(0, density=250.0, young=1e5)
    np.testing.assert_allclose(positions(simulator), x, atol=1e-12)
    np.testing.assert_allclose(velocities(simulator), v, atol=1e-12)
    assert simulator.time == time
    assert simulator.mass == pytest.approx(250.0 / 36)
    before = summed_momenta(simulator)
    simulator.run(200)
    np.testing.assert_allclose(summed_momenta(simulator), before, atol=1e-11 * abs(before).max())


def test_gravity_can_be_switched_while_the_body_flies(model):
    simulator = thrown(model)
    simulator.gravity = (0.0, -10.0, 0.0)
    before = simulator.linear_velocity
    simulator.run(100)
    np.testing.assert_allclose(simulator.linear_velocity - before, [0, -1, 0], atol=1e-12)
    with pytest.raises(SuppleError, match="gravity"):
        simulator.gravity = (0.0, np.nan, 0.0)
    np.testing.assert_array_equal(simulator.gravity, [0.0, -10.0, 0.0])


def test_a_material_that_cannot_be_changes_nothing(model):
    simulator, beside = thrown(model), thrown(model)
    for change in ({"young": -1.0}, {"density": np.nan}, {"density": 1e305}):
        with pytest.raises(SuppleError) as refused:
            simulator.set_material(0, **change)
        assert "\n" not in str(refused.value)
    np.testing.assert_array_equal(simulator.run(20).q, beside.run(20).q)
    simulator.reset(np.full(10, 1e70))
    with pytest.raises(SolverError, match="not finite"):
        simulator.set_material(0, young=1e150)
    assert simulator.model is model
    assert (simulator.q == 1e70).all()


def test_fewer_modes_fly_too(model):
    simulator = thrown(model.truncate(4))
    before = momenta(simulator)
    assert simulator.run(100).q.shape == (100, 4)
    np.testing.assert_allclose(momenta(simulator), before, rtol=1e-12)


REFUSED = {
    "held": lambda: StvkModel.build(SMALL, SOFT, modes=3, fixed=[0, 1, 2, 3]),
    "no moments": lambda: replace(StvkModel.build(SMALL, SOFT, modes=3), inertia=None),
    "translation": lambda: StvkModel.from_basis(SMALL, SOFT, rigid_motions(SMALL)[:, :, :1]),
    "turn": lambda: StvkModel.from_basis(SMALL, SOFT, rigid_motions(SMALL)[:, :, 3:]),
    "text": lambda: "beam",
}


@pytest.mark.parametrize("what", REFUSED)
def test_models_that_cannot_be_free_are_refused_in_one_line(what):
    with pytest.raises(SuppleError) as refused:
        FreeStvkSimulator(REFUSED[what]())  # type: ignore[arg-type]
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "use",
    [
        lambda s: s.step({0: [0, np.nan, 0]}),
        lambda s: s.step(np.full(s.model.surface.vertices.shape, np.inf)),
        lambda s: s.step({10**6: [0, 0, 1]}),
        lambda s: s.step({0: [0, 1]}),
        lambda s: s.step([1.0, 2.0]),
        lambda s: s.step("push"),
        lambda s: s.step({0: [1e300, 0, 0]}),
        lambda s: s.run(5, {0: np.ones((4, 3))}),
        lambda s: s.run(5, {0: np.full((5, 3), 1e200)}),
        lambda s: s.run(-1),
        lambda s: s.run(10**12),
        lambda s: s.run("all"),
        lambda s: s.reset([1.0]),
        lambda s: s.reset(root=np.ones((4, 4))),
        lambda s: s.reset(linear=[0, np.nan, 0]),
        lambda s: s.reset(angular=[0, 1]),
        lambda s: s.reset(angular=[0, 0, 1e200]),
    ],
)
def test_unsupported_calls_of_a_free_body_are_refused_and_change_nothing(model, use):
    simulator, beside = thrown(model), thrown(model)
    for each in (simulator, beside):
        each.run(3)
    with pytest.raises(SuppleError) as refused:
        use(simulator)
    assert "\n" not in str(refused.value)
    a, b = simulator.run(20), beside.run(20)
    np.testing.assert_array_equal(a.q, b.q)
    np.testing.assert_array_equal(a.roots, b.roots)


def test_a_body_that_turns_too_far_in_a_step_is_an_error_and_not_a_wrong_answer(model):
    simulator = FreeStvkSimulator(model, 0.1)
    simulator.reset(velocity=np.full(10, 0.05), angular=[0.0, 20.0, 40.0])
    with pytest.raises(SolverError, match="smaller dt"):
        simulator.run(10)
    assert simulator.time == 0


def test_no_steps_are_no_steps(model):
    run = thrown(model).run(0)
    assert run.q.shape == (0, 10)
    assert run.roots.shape == (0, 4, 4)
