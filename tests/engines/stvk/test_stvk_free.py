"""Free StVK bodies: against rigid tops and the full simulation, momenta, energy, damping."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation

from helpers.free_body_samples import (
    BRICKS,
    PLACE,
    SMALL,
    SOFT,
    body_of,
    complete_model,
    momenta,
    positions,
    rigid_motions,
    summed_momenta,
    thrown,
    velocities,
    vertex_masses,
)
from supple.elastic.body import ElasticBody
from supple.elastic.material import Material
from supple.engines.full.factory import FullSimulator
from supple.engines.stvk.free.simulator import FreeStvkSimulator
from supple.engines.stvk.model import StvkModel
from supple.engines.stvk.simulator import StvkSimulator
from supple.scenes.bodies.beam import beam


@pytest.fixture(scope="module")
def model():
    """A soft beam that nothing holds, ten shapes."""
    return StvkModel.build(beam(cells=(6, 2, 2)), SOFT, modes=10)


@pytest.mark.parametrize("mixed", [0.0, 0.1])
def test_a_complete_basis_flies_as_the_full_body_does(mixed):
    """To second order in the step, also where shapes bring rigid motion along."""
    model, rng, apart = complete_model(SMALL, mixed), np.random.default_rng(0), []
    rigid, n = rigid_motions(SMALL), len(SMALL.vertices)
    throw = 0.3 * rng.standard_normal((n, 3)) + rigid @ [1.0, 2.0, 3.0, 2.0, 1.0, 6.0]
    every = np.concatenate([rigid, model.basis], axis=2).reshape(3 * n, -1)
    parts = np.linalg.solve(every, throw.ravel())
    masses = vertex_masses(SMALL)
    push = {0: np.array([0.0, 8.0, -5.0])}
    seen = int(np.flatnonzero(SMALL.surface()[1] == 0)[0])
    for dt in (4e-3, 2e-3):
        free = FreeStvkSimulator(model, dt, iterations=30)
        linear = masses @ throw / masses.sum()
        free.reset(velocity=parts[6:], linear=linear, angular=parts[3:6])
        np.testing.assert_allclose(velocities(free), throw, atol=1e-10)
        body = ElasticBody(SMALL, SOFT)
        full = FullSimulator(
            body, dt, integrator="midpoint", newton=30, tolerance=1e-13, gravity=(0, 0, 0)
        )
        full.reset(velocities=throw)
        free.run(round(0.4 / dt), {seen: push[0]})
        for _ in range(round(0.4 / dt)):
            full.step(forces=push)
        assert free.unconverged_steps == 0
        apart.append(np.abs(positions(free) - full.positions).max())
    turn = Rotation.from_matrix(free.root[:3, :3]).magnitude()
    assert turn > 1.5
    assert np.abs(model.basis @ free.q).max() > 0.03
    assert apart[1] < 2e-4
    assert 3.0 < apart[0] / apart[1] < 5.5


def test_a_stiff_body_is_a_top_that_flips_about_its_middle_axis():
    mesh = beam(size=(1.0, 0.6, 0.25), cells=(2, 2, 1))
    model = StvkModel.build(mesh, Material("stvk", young=1e11), modes=3)
    assert model.inertia is not None
    found = model.inertia.moments(model.groups.density, model.weight_parts)
    inertia = found.inertia_at(np.zeros(3))
    _, axes = np.linalg.eigh(inertia)
    start = axes @ [0.3, 6.0, 0.2]

    def euler(_, omega):
        return np.linalg.solve(inertia, np.cross(inertia @ omega, omega))

    apart = []
    for dt in (2e-3, 1e-3):
        simulator = FreeStvkSimulator(model, dt)
        simulator.reset(angular=start)
        energy = simulator.energies()["total"]
        middle = []
        for _ in range(round(6.4 / dt / 20)):
            simulator.run(20)
            omega = simulator.root[:3, :3].T @ simulator.angular_velocity
            middle.append(axes[:, 1] @ omega)
        times = 20 * dt * np.arange(1, len(middle) + 1)
        truth = solve_ivp(euler, (0, 6.5), start, t_eval=times, rtol=1e-11, atol=1e-12)
        assert simulator.energies()["total"] == pytest.approx(energy, rel=1e-8)
        apart.append(np.abs(middle - axes[:, 1] @ truth.y).max())
        assert min(middle) < -5.9  # it has turned over
        assert max(middle[len(middle) // 2 :]) > 5  # and back
    assert apart[1] < 1e-4
    assert 3.5 < apart[0] / apart[1] < 4.5


def test_a_spinning_body_stretches_as_statics_in_its_frame_predict():
    simulator = FreeStvkSimulator(
        complete_model(BRICKS), 0.01, integrator="backward-euler", iterations=10, alpha=8.0
    )
    simulator.reset(root=PLACE, angular=PLACE[:3, :3] @ [0.0, 0.0, 5.0])
    before = momenta(simulator)
    simulator.run(1500)
    np.testing.assert_allclose(momenta(simulator), before, atol=1e-12 * abs(before).max())
    assert np.abs(simulator.velocity).max() < 1e-9
    speed, turn = simulator.angular_velocity, simulator.root[:3, :3]
    assert np.linalg.norm(speed) < 4.7  # longer, hence slower
    elastic = body_of(BRICKS).force(simulator.model.positions(simulator.q)) @ turn.T
    outward = -np.cross(speed, np.cross(speed, positions(simulator) - simulator.centre))
    outward *= vertex_masses(BRICKS)[:, None]
    np.testing.assert_allclose(elastic, outward, atol=1e-8 * np.abs(outward).max())


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_ten_thousand_steps_keep_both_momenta_to_rounding(model, dtype):
    simulator = thrown(model, dtype=dtype)
    before = summed_momenta(simulator)
    np.testing.assert_allclose(momenta(simulator), before, rtol=1e-12)
    run = simulator.run(10_000)
    assert run.q.shape == (10_000, 10)
    assert np.abs(model.basis @ run.q[-1]).max() > 1e-3  # still vibrating
    assert np.linalg.norm(simulator.centre - PLACE[:3, 3]) > 20
    np.testing.assert_allclose(summed_momenta(simulator), before, atol=1e-11 * abs(before).max())
    np.testing.assert_allclose(momenta(simulator), before, atol=1e-11 * abs(before).max())


@pytest.mark.parametrize("integrator", ["newmark", "backward-euler"])
def test_forces_change_momenta_by_themselves_and_their_moment_times_the_step(model, integrator):
    simulator = FreeStvkSimulator(model, 1e-3, integrator=integrator)
    q = 0.02 * np.linspace(-1, 1, 10)
    simulator.reset(q, root=PLACE, linear=[1.0, 2.0, 3.0])
    rng = np.random.default_rng(3)
    forces = {int(v): rng.standard_normal(3) for v in rng.choice(40, 3, replace=False)}
    before, centre = momenta(simulator), simulator.centre
    seen = model.surface.vertices + model.surface_basis @ q
    seen = seen @ PLACE[:3, :3].T + PLACE[:3, 3]
    simulator.step(forces)
    half = (simulator.centre - centre) / 2  # forces act in the middle of the step
    push = sum(forces.values())
    moment = sum(np.cross(seen[v] + half, f) for v, f in forces.items())
    gained = momenta(simulator) - before
    np.testing.assert_allclose(gained, 1e-3 * np.concatenate([push, moment]), atol=1e-12)
    np.testing.assert_allclose(summed_momenta(simulator), momenta(simulator), atol=1e-12)


def test_the_energy_gained_is_the_work_of_the_forces(model):
    """Energy gained is force times way, to second order in the step."""
    wrong = []
    for dt in (2e-3, 1e-3):
        simulator, force = thrown(model, dt, iterations=20), np.array([3.0, -2.0, 5.0])
        before, was = simulator.energies()["total"], simulator.surface()[0].astype(float)
        run = simulator.run(round(0.2 / dt), {0: force})
        shape = np.append(model.surface.vertices[0] + model.surface_basis[0] @ run.q[-1], 1)
        work = force @ ((run.roots[-1] @ shape)[:3] - was)
        wrong.append(abs(simulator.energies()["total"] - before - work) / abs(work))
    assert wrong[1] < 1e-3
    assert wrong[0] / wrong[1] > 2.5


def test_a_body_falls_on_a_parabola_and_neither_turns_nor_deforms(model):
    gravity = np.array([0.0, -9.81, 1.0])
    simulator = FreeStvkSimulator(model, 1e-3, gravity=gravity)
    simulator.reset(root=PLACE, linear=[1.0, 5.0, 0.0])
    start, energy = simulator.centre, simulator.energies()["total"]
    run = simulator.run(2000)
    t = simulator.time
    way = np.array([1.0, 5.0, 0.0]) * t + gravity * t**2 / 2
    np.testing.assert_allclose(simulator.centre, start + way, rtol=1e-12)
    np.testing.assert_allclose(run.roots[:, :3, :3], PLACE[None, :3, :3] + 0 * run.roots[:, :3, :3])
    assert np.abs(run.q).max() == 0
    assert simulator.energies()["total"] == pytest.approx(energy, rel=1e-11)


@pytest.mark.parametrize("iterations", [1, 20])
def test_undamped_newmark_keeps_energy_to_second_order_for_long(model, iterations):
    wander = []
    for dt in (2e-3, 1e-3):
        simulator = thrown(model, dt, 0.5, iterations=iterations)
        simulator.reset(velocity=simulator.velocity, angular=[1.0, 2.0, 6.0])
        found = [simulator.energies()["total"]]
        for _ in range(100):
            simulator.run(round(0.1 / dt))
            found.append(simulator.energies()["total"])
        wander.append(np.ptp(found) / found[0])
    assert wander[0] < 1e-3
    assert 2.5 < wander[0] / wander[1] < 6


def test_newmark_goes_back_the_way_it_came(model):
    """Symmetric in time: why energy wanders and does not drift."""
    simulator = thrown(model, 2e-3, 0.5, iterations=30)
    start = positions(simulator)
    simulator.run(300)
    assert np.abs(positions(simulator) - start).max() > 1
    linear, angular = simulator.linear_velocity, simulator.angular_velocity
    simulator.reset(simulator.q, -simulator.velocity, simulator.root, -linear, -angular)
    simulator.run(300)
    np.testing.assert_allclose(positions(simulator), start, atol=1e-7)


@pytest.mark.parametrize(
    "options",
    [{"alpha": 3.0}, {"beta": 0.01}, {"integrator": "backward-euler", "dt": 0.01}],
)
def test_damping_ends_deformation_and_not_the_flight(model, options):
    simulator = FreeStvkSimulator(model, **({"dt": 2e-3} | options))
    axis = [0.0, 0.0, 4.0]
    simulator.reset(velocity=np.full(10, 0.1), linear=[1.0, 2.0, 3.0], angular=axis)
    before, energy = summed_momenta(simulator), simulator.energies()["total"]
    simulator.run(4000)
    np.testing.assert_allclose(summed_momenta(simulator), before, atol=1e-11 * abs(before).max())
    assert np.abs(simulator.velocity).max() < 0.01
    assert simulator.angular_velocity[2] > 3.5
    assert simulator.energies()["total"] < energy


def test_backward_euler_keeps_the_energy_of_a_stiff_top():
    model = StvkModel.build(beam(cells=(2, 1, 1)), Material("stvk", young=1e11), modes=3)
    simulator = FreeStvkSimulator(model, 2e-3, integrator="backward-euler")
    simulator.reset(angular=[3.0, 4.0, 1.0])
    energy = simulator.energies()["total"]
    simulator.run(3000)
    assert simulator.energies()["total"] == pytest.approx(energy, rel=1e-7)


@pytest.mark.parametrize("integrator", ["newmark", "backward-euler"])
def test_small_vibrations_are_those_of_a_body_that_is_not_let_turn(model, integrator):
    """Shapes orthogonal to rigid motions turn nothing, to first order."""
    options = {"integrator": integrator, "alpha": 0.5, "beta": 1e-3}
    free, still = FreeStvkSimulator(model, **options), StvkSimulator(model, **options)
    for each in (free, still):
        each.reset(velocity=np.linspace(1e-9, 3e-9, 10))
    a, b = free.run(300).q, still.run(300)
    np.testing.assert_allclose(a, b, atol=1e-6 * np.abs(b).max())
