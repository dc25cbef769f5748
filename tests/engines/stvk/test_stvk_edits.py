"""Changing a StVK body while it moves: material, gravity; energies with weight; what is refused."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from supple.elastic.material import Material
from supple.engines.stvk.cubic_model import CubicModel
from supple.engines.stvk.free.simulator import FreeStvkSimulator
from supple.engines.stvk.model import StvkModel
from supple.engines.stvk.simulator import StvkSimulator
from supple.errors import SolverError, SuppleError
from supple.mesh.surface import SurfaceMesh
from supple.scenes.bodies.beam import beam

DOWN = np.array([0.0, -9.81, 0.0])


def held_beam(density=1000.0):
    mesh = beam(cells=(8, 2, 2))
    wall = np.flatnonzero(mesh.vertices[:, 0] == 0)
    material = Material("stvk", young=1e5, poisson=0.3, density=density)
    return StvkModel.build(mesh, material, modes=10, fixed=wall)


@pytest.fixture(scope="module")
def model():
    """A beam held at one end, ten shapes."""
    return held_beam()


def swinging(model, **options):
    simulator = StvkSimulator(model, **options)
    simulator.reset(velocity=0.3 * np.linspace(1.0, 0.2, model.modes))
    simulator.run(30)
    return simulator


@pytest.mark.parametrize("integrator", ["newmark", "backward-euler"])
@pytest.mark.parametrize("iterations", [1, 20])
@pytest.mark.parametrize("change", [{"young": 1e6}, {"density": 300.0}])
def test_after_a_change_of_material_the_body_moves_as_one_let_go_there(
    model, change, iterations, integrator
):
    options = {"iterations": iterations, "integrator": integrator, "beta": 1e-4, "gravity": DOWN}
    edited = swinging(model, **options)
    q, velocity, time = edited.q, edited.velocity, edited.time
    edited.set_material(0, **change)
    np.testing.assert_array_equal(edited.q, q)
    np.testing.assert_array_equal(edited.velocity, velocity)
    assert edited.time == time
    fresh = StvkSimulator(model.with_material(0, **change), **options)
    fresh.reset(q, velocity)
    a, b = edited.run(100), fresh.run(100)
    np.testing.assert_allclose(a, b, atol=1e-10 * np.abs(b).max())
    np.testing.assert_array_equal(edited.acceleration, fresh.acceleration)


BEYOND = {
    "no stiffness": ({"young": -1.0}, "positive"),
    "stiffness": ({"young": 1e308}, "softer material"),
    "density": ({"density": 1e308}, "density"),
    "single": ({"young": 1e200}, "fit float32; use float64"),
}


@pytest.mark.parametrize("what", BEYOND)
def test_a_material_that_cannot_be_is_refused_in_one_line_and_changes_nothing(model, what):
    change, words = BEYOND[what]
    if what == "density":  # of shapes that have a mass of one when the body is lighter than air
        model = held_beam(density=0.1)
    options: dict[str, Any] = {
        "dtype": np.float32 if what == "single" else np.float64,
        "gravity": DOWN,
    }
    simulator, beside = swinging(model, **options), swinging(model, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(SuppleError, match=words) as refused:
            simulator.set_material(0, **change)
        assert "\n" not in str(refused.value)
        if what != "no stiffness":
            with pytest.raises(SuppleError, match=words):
                StvkSimulator(model.with_material(0, **change), **options)
    assert simulator.model is model
    np.testing.assert_array_equal(simulator.run(20), beside.run(20))


def test_a_material_whose_forces_are_no_numbers_where_the_body_is_changes_nothing(model):
    simulator = StvkSimulator(model)
    simulator.reset(np.full(10, 1e70))
    with pytest.raises(SolverError, match="not finite"):
        simulator.set_material(0, young=1e150)
    assert simulator.model is model
    assert (simulator.q == 1e70).all()


def test_gravity_acts_as_soon_as_it_is_set(model):
    late, from_the_start = StvkSimulator(model), StvkSimulator(model, gravity=DOWN)
    late.gravity = DOWN
    np.testing.assert_array_equal(late.run(50), from_the_start.run(50))
    np.testing.assert_array_equal(late.gravity, DOWN)
    # In flight: as one let go there with it, which it is by the time iterations have ended.
    late, beside = swinging(model, iterations=30), StvkSimulator(model, iterations=30, gravity=DOWN)
    beside.reset(late.q, late.velocity)
    late.gravity = DOWN
    a, b = late.run(100), beside.run(100)
    np.testing.assert_allclose(a, b, atol=1e-6 * np.abs(b).max())
    late.set_material(0, young=2e5)
    np.testing.assert_array_equal(late.gravity, DOWN)
    np.testing.assert_allclose(late.weight, model.weight(DOWN))


@pytest.mark.parametrize("gravity", [(0, np.nan, 0), (0, 1), "down", (0, 1e308, 0)])
def test_gravity_that_is_none_is_refused_and_changes_nothing(model, gravity):
    heavy = model.with_material(0, density=1e5)
    simulator, beside = swinging(heavy, gravity=DOWN), swinging(heavy, gravity=DOWN)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(SuppleError) as refused:
            simulator.gravity = gravity
    assert "\n" not in str(refused.value)
    simulator.gravity[:] = 7.0  # a copy
    np.testing.assert_array_equal(simulator.gravity, DOWN)
    np.testing.assert_array_equal(simulator.run(20), beside.run(20))
    bare = StvkSimulator(CubicModel([[1.0, 0.0, 0.0]]))
    with pytest.raises(SuppleError, match="no gravity"):
        bare.gravity = DOWN
    assert (bare.gravity == 0).all()


def test_a_simulators_inputs_are_read_only(model):
    free = StvkModel.build(beam(cells=(3, 1, 1)), Material("stvk"), modes=3)
    for simulator in (StvkSimulator(model, alpha=0.5), FreeStvkSimulator(free, alpha=0.5)):
        assert (simulator.dt, simulator.alpha, simulator.beta) == (1 / 1000, 0.5, 0.0)
        for name in ("dt", "alpha", "beta", "integrator", "iterations"):
            with pytest.raises(AttributeError):
                setattr(simulator, name, 0.5)
    with pytest.raises(ValueError, match="read-only"):
        StvkSimulator(model).weight[0] = 1.0


def test_a_swing_under_gravity_keeps_its_energy_with_that_of_weight(model):
    wander = []
    for dt in (1e-3, 5e-4):
        simulator = StvkSimulator(model, dt, iterations=20, gravity=DOWN)
        found = []
        for _ in range(200):
            simulator.run(round(5e-3 / dt))
            found.append(simulator.energies())
        parts = np.array([[each[name] for name in list(each)[:-1]] for each in found])
        totals = np.array([each["total"] for each in found])
        np.testing.assert_allclose(parts.sum(axis=1), totals, atol=1e-12 * np.abs(parts).max())
        moved = -simulator.weight @ simulator.q
        assert found[-1]["gravity"] == pytest.approx(moved)
        wander.append(np.abs(totals).max() / np.abs(parts[:, 2]).max())  # it began with none
    assert wander[0] < 0.01
    assert wander[0] / wander[1] > 2.5


def test_iterations_end_where_nothing_is_stiff_at_rest():
    """A body without K₀ has no size of q of its own."""
    square = SurfaceMesh([[0, 0, 0], [2, 0, 0], [0, 2, 0]], [[0, 1, 2]])
    basis = np.zeros((3, 3, 1))
    basis[1, 2, 0] = 1.0
    bare = CubicModel([[0.0, 0.0, 3.0]])
    seen = CubicModel([[0.0, 0.0, 3.0]], surface=square, surface_basis=basis)
    still = CubicModel([[0.0, 0.0, 3.0]], surface=square, surface_basis=0 * basis)
    for model in (bare, seen, still):
        simulator = StvkSimulator(model, 0.01, iterations=100)
        simulator.reset(velocity=[1.0])
        simulator.run(300)
        assert simulator.unconverged_steps == 0
        assert simulator.energies()["total"] == pytest.approx(0.5, rel=1e-3)
