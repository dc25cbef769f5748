"""The unreduced simulator: conservation, dissipation, limits, repeatability."""

from concurrent.futures import ThreadPoolExecutor
from threading import Thread

import numba
import numpy as np
import pytest
import scipy.linalg

from supple.elastic.body import ElasticBody
from supple.elastic.equilibrium import free_unknowns, static_equilibrium
from supple.elastic.material import Material
from supple.engines.full.factory import FullSimulator
from supple.errors import SolverError, SuppleError, SuppleWarning
from supple.mesh.tets import TetMesh
from supple.scenes.bodies.beam import beam

INTEGRATORS = ("backward-euler", "newmark", "midpoint")


def small_beam(kind="neo-hookean", young=1e5, cells=(6, 1, 1)) -> tuple[ElasticBody, np.ndarray]:
    mesh = beam(cells=cells)
    body = ElasticBody(mesh, Material(kind, young=young, poisson=0.3))
    return body, np.flatnonzero(mesh.vertices[:, 0] == 0)


def test_newmark_without_damping_keeps_energy_within_one_percent_over_ten_seconds():
    body, fixed = small_beam()
    simulator = FullSimulator(
        body, 1 / 180, fixed=fixed, integrator="newmark", newton=20, gravity=(0, -2.0, 0)
    )
    start = simulator.energies()["total"]
    exchanged, worst = 0.0, 0.0
    for _ in range(1800):
        simulator.step()
        energies = simulator.energies()
        worst = max(worst, abs(energies["total"] - start))
        exchanged = max(exchanged, energies["kinetic"])
    assert simulator.time == pytest.approx(10.0)
    assert exchanged > 1e-3
    assert worst < 0.01 * exchanged


def spinning(body: ElasticBody) -> tuple[np.ndarray, np.ndarray]:
    """A deformed start that flies, spins and vibrates."""
    rng = np.random.default_rng(0)
    x = body.rest * [1.1, 0.95, 0.95] + 0.005 * rng.normal(size=body.rest.shape)
    return x, np.cross([0.5, 2.0, 1.0], x) + np.array([1.0, 3.0, -0.5])


@pytest.mark.parametrize("integrator", ["newmark", "midpoint"])
def test_free_flight_keeps_linear_and_angular_momentum(integrator):
    """Newmark is the trapezoidal rule: what it keeps exactly is momentum half a step back."""
    body, _ = small_beam()
    simulator = FullSimulator(
        body, 1 / 90, integrator=integrator, newton=20, tolerance=1e-12, gravity=(0, 0, 0)
    )
    x, v = spinning(body)
    simulator.reset(positions=x, velocities=v)

    def momenta():
        if integrator == "midpoint":
            return np.concatenate(simulator.momentum())
        h, mass = simulator.dt, body.vertex_masses()[:, None]
        back = simulator.positions - 0.5 * h * simulator.velocities
        p = mass * (simulator.velocities - 0.5 * h * simulator.accelerations)
        return np.concatenate([p.sum(axis=0), np.cross(back, p).sum(axis=0)])

    before = momenta()
    for _ in range(90):
        simulator.step()
    assert np.linalg.norm(before[3:]) > 1
    np.testing.assert_allclose(momenta(), before, atol=1e-8 * np.abs(before).max())


def test_backward_euler_only_loses_energy():
    body, fixed = small_beam(young=2e4)
    for alpha, beta in ((0.0, 0.0), (0.5, 0.01)):
        simulator = FullSimulator(body, 1 / 90, fixed=fixed, newton=50, alpha=alpha, beta=beta)
        energies = [simulator.energies()["total"]]
        for _ in range(180):
            simulator.step()
            energies.append(simulator.energies()["total"])
        assert (np.diff(energies) <= 1e-9).all()
        assert energies[-1] < energies[0] - 1.0


def test_rayleigh_damping_decays_a_mode_at_the_textbook_rate():
    """ζ = α/2ω + βω/2: the logarithm of the amplitude falls by ζω a second."""
    body, fixed = small_beam("stvk", cells=(6, 2, 2))
    free = free_unknowns(body, fixed)
    stiffness = body.stiffness(body.rest).toarray()[np.ix_(free, free)]
    mass = body.mass().toarray()[np.ix_(free, free)]
    values, vectors = scipy.linalg.eigh(stiffness, mass, subset_by_index=[0, 0])
    omega = np.sqrt(values[0])
    mode = np.zeros(body.rest.size)
    mode[free] = vectors[:, 0]
    mode = 1e-6 * mode.reshape(body.rest.shape) / np.abs(vectors).max()
    alpha, beta = 0.4, 0.002
    period = 2 * np.pi / omega
    simulator = FullSimulator(
        body,
        period / 200,
        fixed=fixed,
        integrator="newmark",
        alpha=alpha,
        beta=beta,
        gravity=(0, 0, 0),
    )
    simulator.reset(positions=body.rest + mode)
    for _ in range(5 * 200):
        simulator.step()
    amplitude = np.vdot(simulator.positions - body.rest, mode) / np.vdot(mode, mode)
    zeta = alpha / (2 * omega) + beta * omega / 2
    damped = 5 * period * omega
    expected = np.exp(-zeta * damped) * np.cos(damped * np.sqrt(1 - zeta**2))
    assert amplitude == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize(
    ("integrator", "order"), [("backward-euler", 1), ("newmark", 2), ("midpoint", 2)]
)
def test_halving_the_step_shrinks_the_error_by_the_integrators_order(integrator, order):
    body, fixed = small_beam()

    def tip(steps):
        simulator = FullSimulator(body, 0.2 / steps, fixed=fixed, integrator=integrator, newton=30)
        for _ in range(steps):
            simulator.step()
        return simulator.positions

    coarse, middle, fine = tip(40), tip(80), tip(160)
    ratio = np.linalg.norm(coarse - middle) / np.linalg.norm(middle - fine)
    assert np.log2(ratio) == pytest.approx(order, abs=0.35)


def test_a_damped_body_settles_where_statics_puts_it():
    body, fixed = small_beam()
    simulator = FullSimulator(body, 1 / 30, fixed=fixed, alpha=2.0, beta=0.05, newton=3)
    for _ in range(600):
        simulator.step()
    weight = body.vertex_masses()[:, None] * [0.0, -9.81, 0.0]
    still = static_equilibrium(body, fixed=fixed, forces=weight).positions
    assert np.abs(still - body.rest).max() > 0.01
    np.testing.assert_allclose(simulator.positions, still, atol=1e-6)


def test_one_newton_iteration_is_the_linearly_implicit_step():
    """(M + hD + h²K) v⁺ = M v + h (f_ext − f), q⁺ = q + h v⁺."""
    body, fixed = small_beam("stvk")
    h, alpha, beta = 1 / 90, 0.3, 0.01
    simulator = FullSimulator(body, h, fixed=fixed, alpha=alpha, beta=beta)
    for _ in range(5):
        simulator.step()
    x, v = simulator.positions, simulator.velocities
    free = free_unknowns(body, fixed)
    stiffness, mass = body.stiffness(x).toarray(), body.mass().toarray()
    damping = alpha * mass + beta * body.stiffness(x, psd=True).toarray()
    weight = mass @ np.tile([0, -9.81, 0], body.n_vertices)
    system = mass + h * damping + h * h * stiffness
    right = mass @ v.reshape(-1) + h * (weight - body.force(x).reshape(-1))
    expected = np.zeros(x.size)
    expected[free] = np.linalg.solve(system[np.ix_(free, free)], right[free])
    simulator.step()
    np.testing.assert_allclose(simulator.velocities.reshape(-1), expected, atol=1e-10)
    np.testing.assert_allclose(simulator.positions, x + h * simulator.velocities, atol=1e-13)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_a_rest_shape_that_is_carried_steadily_drags_nothing_along(integrator):
    body, fixed = small_beam()
    simulator = FullSimulator(body, 1 / 90, fixed=fixed, integrator=integrator, gravity=(0, 0, 0))
    velocity = np.array([1.0, 2.0, -1.0])
    carried = np.tile(velocity, (body.n_vertices, 1))
    simulator.step(rest=body.rest + velocity / 90)  # the jerk of setting off is felt
    assert np.abs(simulator.positions - simulator.rest).max() > 1e-3
    simulator.reset(rest_before=body.rest - velocity / 90)
    for frame in range(1, 20):
        simulator.step(rest=body.rest + velocity * frame / 90)
    np.testing.assert_allclose(simulator.positions, simulator.rest, atol=1e-12)
    np.testing.assert_allclose(simulator.velocities, carried, atol=1e-9)


def test_flesh_lags_when_the_rig_starts_and_overshoots_when_it_stops():
    body, fixed = small_beam(young=1e6)
    simulator = FullSimulator(body, 1 / 90, fixed=fixed, alpha=1.0, beta=0.005, gravity=(0, 0, 0))
    lateral = []
    for frame in range(1, 120):
        shift = 0.1 * min(frame / 10, 1.0)
        simulator.step(rest=body.rest + np.array([0, shift, 0]))
        lateral.append((simulator.positions - simulator.rest)[-1, 1])
    assert min(lateral[:10]) < -0.01
    assert max(lateral[10:40]) > 0.01
    assert abs(lateral[-1]) < 0.2 * max(lateral)


def test_results_are_the_same_bits_run_to_run_and_for_any_number_of_threads():
    mesh = beam(cells=(30, 8, 8))  # enough for several chunks, tasks and tiles
    body = ElasticBody(mesh, Material("neo-hookean", young=2e4))
    fixed = mesh.vertices[:, 0] == 0
    runs = []

    def run():
        simulator = FullSimulator(body, 1 / 60, fixed=fixed, newton=2, beta=0.01)
        for _ in range(3):
            simulator.step()
        runs.append(simulator.positions.tobytes())

    before = numba.get_num_threads()
    try:
        for threads in (1, 1, before):
            numba.set_num_threads(threads)
            run()
    finally:
        numba.set_num_threads(before)
    worker = Thread(target=run)  # a thread of Python's is not the main one either
    worker.start()
    worker.join()
    assert len(runs) == 4
    assert len(set(runs)) == 1


def test_simulators_in_several_threads_may_share_a_body():
    body, fixed = small_beam(cells=(12, 3, 3))

    def run(_=None):
        simulator = FullSimulator(body, 1 / 60, fixed=fixed, newton=3, beta=0.01)
        for _ in range(15):
            simulator.step()
        return simulator.positions.tobytes()

    alone = run()
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(run, range(8))) == {alone}


def test_nodal_forces_may_be_an_array_or_a_mapping_and_act_at_once():
    body, fixed = small_beam()
    array = np.zeros(body.rest.shape)
    array[-1] = [0.0, 0.0, 3.0]
    ends = []
    for forces in (array, {body.n_vertices - 1: [0.0, 0.0, 3.0]}, None):
        simulator = FullSimulator(body, 1 / 90, fixed=fixed)
        simulator.step(forces=forces)
        ends.append(simulator.positions)
    np.testing.assert_array_equal(ends[0], ends[1])
    assert ends[0][-1, 2] > ends[2][-1, 2] + 1e-4


def test_strong_compression_stays_finite():
    body, fixed = small_beam("stvk", young=1e4)
    simulator = FullSimulator(body, 1 / 60, fixed=fixed, gravity=(-60.0, 0, 0), newton=20)
    for _ in range(60):
        simulator.step()
    assert np.isfinite(simulator.positions).all()


def test_vertices_of_no_tet_are_named_and_follow_the_rest_shape():
    mesh = beam(cells=(2, 1, 1))
    loose = TetMesh(np.vstack([mesh.vertices, [[9.0, 9.0, 9.0]]]), mesh.tets)
    with pytest.warns(SuppleWarning, match="1 vertices belong to no tet .first: 12"):
        body = ElasticBody(loose)
    for integrator in INTEGRATORS:
        simulator = FullSimulator(body, integrator=integrator)
        simulator.step()
        np.testing.assert_array_equal(simulator.positions[-1], [9.0, 9.0, 9.0])
        assert simulator.positions[0, 1] < mesh.vertices[0, 1]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"dt": 0.0}, "positive"),
        ({"dt": np.nan}, "dt: not finite"),
        ({"dt": 1e200}, "positive"),
        ({"dt": "soon"}, "dt must be numbers"),
        ({"integrator": "verlet"}, "backward-euler, newmark"),
        ({"newton": 0}, "at least 1"),
        ({"newton": 2.5}, "whole number"),
        ({"beta": -1.0}, "beta must be at least 0"),
        ({"gravity": (0, np.inf, 0)}, "gravity"),
        ({"fixed": [10**6]}, "does not exist"),
    ],
)
def test_impossible_settings_are_errors(options, words):
    body, _ = small_beam()
    with pytest.raises(SuppleError, match=words):
        FullSimulator(body, **options)


def test_bad_input_to_a_step_is_an_error_and_leaves_the_state_untouched():
    body, fixed = small_beam()
    simulator = FullSimulator(body, fixed=fixed)
    simulator.step()
    before = simulator.positions, simulator.velocities, simulator.time
    bad_rest = body.rest.copy()
    bad_rest[3, 1] = np.nan
    inverted = body.rest * [-1.0, 1.0, 1.0]
    for options in (
        {"rest": bad_rest},
        {"rest": body.rest[:-1]},
        {"rest": inverted},
        {"forces": {10**6: [0, 0, 1]}},
        {"forces": {1.5: [0, 0, 1]}},
        {"forces": {"tip": [0, 0, 1]}},
        {"forces": {0: [0, np.nan, 1]}},
        {"forces": np.zeros((2, 3))},
    ):
        with pytest.raises(SuppleError):
            simulator.step(**options)
        np.testing.assert_array_equal(simulator.positions, before[0])
        np.testing.assert_array_equal(simulator.velocities, before[1])
        assert simulator.time == before[2]


@pytest.mark.parametrize("newton", [1, 20])
def test_an_impossible_force_is_an_error_and_leaves_the_state_untouched(newton):
    body, fixed = small_beam()
    simulator = FullSimulator(body, fixed=fixed, newton=newton)
    simulator.step()
    if newton == 1:  # a linear step takes any force; it is the next one that cannot
        simulator.step(forces=np.full(body.rest.shape, 1e200))
    before = simulator.positions, simulator.velocities
    with pytest.raises(SolverError, match="smaller"):
        simulator.step(forces=np.full(body.rest.shape, 1e200))
    np.testing.assert_array_equal(simulator.positions, before[0])
    np.testing.assert_array_equal(simulator.velocities, before[1])


def test_reset_is_all_or_nothing_and_keeps_its_own_arrays():
    body, fixed = small_beam()
    simulator = FullSimulator(body, fixed=fixed, integrator="newmark")
    simulator.step()
    before = simulator.positions, simulator.time
    shifted = body.rest + 1.0
    for options in (
        {"rest": shifted, "positions": np.full(body.rest.shape, np.nan)},
        {"rest": -body.rest},
        {"rest": shifted, "velocities": np.zeros((2, 3))},
    ):
        with pytest.raises(SuppleError):
            simulator.reset(**options)
        np.testing.assert_array_equal(simulator.positions, before[0])
        assert simulator.time == before[1]
    simulator.reset(rest=shifted)
    kept = simulator.positions
    shifted[:] = 77.0
    np.testing.assert_array_equal(simulator.positions, kept)
    simulator.rest[:] = 0.0
    assert body.rest.any()
    assert body.mesh.vertices.any()


def test_steps_that_do_not_converge_are_counted():
    body, fixed = small_beam()
    exact = FullSimulator(body, fixed=fixed, newton=30)
    hasty = FullSimulator(body, fixed=fixed, newton=1)
    for _ in range(5):
        exact.step()
        hasty.step()
    assert exact.unconverged_steps == 0
    assert hasty.unconverged_steps == 5
