"""Steps of StVK bodies: equal to the full simulation's, energy, damping, recording, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from supple.compiled.jit import compiled_fused
from supple.elastic.body import ElasticBody
from supple.elastic.material import Material
from supple.engines.full.factory import FullSimulator
from supple.engines.stvk.model import StvkModel
from supple.engines.stvk.simulator import StvkSimulator
from supple.engines.stvk.stvk_step import add_symmetric, padded_pairs, quadratic_blocks
from supple.errors import SolverError, SuppleError
from supple.scenes.bodies.beam import beam

MATERIAL = Material("stvk", young=1e5, poisson=0.3)


def held(mesh):
    return np.flatnonzero(mesh.vertices[:, 0] == 0)


@pytest.fixture(scope="module")
def model():
    """A beam held at one end, ten shapes."""
    mesh = beam(cells=(8, 2, 2))
    return StvkModel.build(mesh, MATERIAL, modes=10, fixed=held(mesh))


@pytest.fixture(scope="module")
def complete():
    """A small beam and a model with every motion that its free vertices have."""
    mesh = beam(cells=(3, 1, 1))
    free = np.setdiff1d(np.arange(len(mesh.vertices)), held(mesh))
    basis = np.zeros((len(mesh.vertices), 3, 3 * len(free)))
    for column, (vertex, axis) in enumerate((v, k) for v in free for k in range(3)):
        basis[vertex, axis, column] = 1.0
    return mesh, StvkModel.from_basis(mesh, MATERIAL, basis)


def kicked(model, speed=0.3):
    """A velocity that bends the body far."""
    return speed * np.linspace(1.0, 0.2, model.modes)


@compiled_fused
def times(blocks, x, out):
    """Call what is made to be called from compiled code."""
    add_symmetric(blocks, x, len(x), out)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("r", [1, 2, 3, 4, 7, 15, 22])
def test_half_of_the_coefficients_give_the_same_as_all(r, dtype):
    pairs = r * (r + 1) // 2
    rng = np.random.default_rng(r)
    whole = rng.standard_normal((pairs, pairs))
    whole += whole.T
    first, second = np.triu_indices(r)
    tangent = np.hstack([np.zeros((pairs, 1 + r)), whole * np.where(first == second, 0.5, 1)])
    blocks = quadratic_blocks(tangent, r, dtype)
    x, out = np.zeros((2, padded_pairs(r)), dtype)
    x[:pairs] = rng.standard_normal(pairs)
    times(blocks, x, out)
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(out[:pairs], whole @ x[:pairs], atol=20 * pairs * eps)
    assert (out[pairs:] == 0).all()


@pytest.mark.parametrize("iterations", [1, 20])
@pytest.mark.parametrize("integrator", ["newmark", "backward-euler"])
def test_a_complete_basis_steps_as_the_full_body_does(complete, integrator, iterations):
    mesh, model = complete
    down = (0.0, -9.81, 0.0)
    options = {"dt": 1 / 200, "integrator": integrator, "alpha": 0.4, "gravity": down}
    reduced = StvkSimulator(model, iterations=iterations, **options)
    body = ElasticBody(mesh, MATERIAL)
    full = FullSimulator(body, fixed=held(mesh), newton=iterations, tolerance=1e-13, **options)
    vertices = mesh.surface()[1]
    tip = int(mesh.vertices.sum(axis=1).argmax())
    seen = int(np.flatnonzero(vertices == tip)[0])
    for _ in range(40):
        reduced.step({seen: [3.0, 1.0, 2.0]})
        full.step(forces={tip: [3.0, 1.0, 2.0]})
    moved = full.positions - mesh.vertices
    assert np.abs(moved).max() > 0.1 * mesh.size
    np.testing.assert_allclose(
        model.positions(reduced.q), full.positions, atol=1e-10 * np.abs(moved).max()
    )
    assert reduced.shifted_steps == 0
    assert reduced.time == pytest.approx(full.time)


def test_stiffness_damping_is_that_of_the_full_body_where_little_moves(complete):
    """Far away it differs: the full body's is projected element by element."""
    mesh, model = complete
    options: dict[str, Any] = {
        "dt": 1 / 500,
        "integrator": "newmark",
        "beta": 0.01,
        "gravity": (0, -1e-5, 0),
    }
    reduced = StvkSimulator(model, **options)
    full = FullSimulator(ElasticBody(mesh, MATERIAL), fixed=held(mesh), **options)
    for _ in range(60):
        reduced.step()
        full.step()
    moved = full.positions - mesh.vertices
    np.testing.assert_allclose(
        model.positions(reduced.q), full.positions, atol=1e-5 * np.abs(moved).max()
    )


def test_a_small_swing_has_the_frequency_of_its_mode():
    mesh = beam(cells=(8, 2, 2))
    model = StvkModel.build(mesh, MATERIAL, modes=3, fixed=held(mesh), basis="modes")
    omega = np.sqrt(model.stiffness(np.zeros(3))[0, 0])
    dt = 2 * np.pi / omega / 200
    simulator = StvkSimulator(model, dt)
    simulator.reset(q=[1e-8, 0, 0])
    swing = simulator.run(2000)[:, 0] / 1e-8
    # The trapezoidal rule's own frequency: tan(ω'h/2) = ωh/2.
    slower = 2 / dt * np.arctan(omega * dt / 2)
    np.testing.assert_allclose(swing, np.cos(slower * dt * np.arange(1, 2001)), atol=1e-6)


def energies_along(model, dt, steps, **options):
    simulator = StvkSimulator(model, dt, iterations=30, **options)
    simulator.reset(velocity=kicked(model))
    found = [simulator.energies()["total"]]
    for _ in range(steps):
        simulator.step()
        found.append(simulator.energies()["total"])
    assert simulator.unconverged_steps == 0
    assert np.abs(model.positions(simulator.q) - model.rest).max() > 0
    return np.array(found)


def test_undamped_newmark_keeps_energy_to_second_order_and_does_not_drift(model):
    coarse, fine = (energies_along(model, 1 / (1000 * k), 1000 * k) for k in (1, 2))
    wander = [np.ptp(found) / found[0] for found in (coarse, fine)]
    assert wander[0] < 0.02
    assert 3.0 < wander[0] / wander[1] < 5.0
    halves = coarse[1:501].mean(), coarse[501:].mean()
    assert abs(halves[1] - halves[0]) < 0.5 * wander[0] * coarse[0]


def test_backward_euler_only_loses_energy(model):
    found = energies_along(model, 1 / 1000, 300, integrator="backward-euler")
    assert (np.diff(found) <= 1e-9 * found[0]).all()
    assert found[-1] < 0.9 * found[0]


@pytest.mark.parametrize("reach", [0.02, 0.15])
def test_single_iterations_of_backward_euler_at_a_kilohertz_gain_no_energy(model, reach):
    """From shapes at random, the farther one of which crushes the body."""
    for seed in range(6):
        simulator = StvkSimulator(model, integrator="backward-euler")
        q = np.random.default_rng(seed).standard_normal(model.modes)
        simulator.reset(q * reach / np.abs(model.basis @ q).max())
        start = simulator.energies()["total"]
        for _ in range(200):
            simulator.step()
            assert simulator.energies()["total"] <= start
        assert simulator.unconverged_steps == 200


@pytest.mark.parametrize("kind", ["alpha", "beta"])
def test_a_damped_swing_decays_at_the_rate_of_its_damping(kind):
    mesh = beam(cells=(8, 2, 2))
    model = StvkModel.build(mesh, MATERIAL, modes=3, fixed=held(mesh), basis="modes")
    omega, ratio = np.sqrt(model.stiffness(np.zeros(3))[0, 0]), 0.05
    damping = {"alpha": 2 * ratio * omega, "beta": 2 * ratio / omega}
    dt = 2 * np.pi / omega / 500
    simulator = StvkSimulator(model, dt, **{kind: damping[kind]})
    simulator.reset(q=[1e-8, 0, 0])
    swing = simulator.run(3000)[:, 0] / 1e-8
    time, slower = dt * np.arange(1, 3001), omega * np.sqrt(1 - ratio**2)
    lag = ratio / np.sqrt(1 - ratio**2) * np.sin(slower * time)
    wanted = np.exp(-ratio * omega * time) * (np.cos(slower * time) + lag)
    np.testing.assert_allclose(swing, wanted, atol=1e-3)


def test_a_run_is_the_same_bits_as_its_steps(model):
    forces = 0.5 * np.random.default_rng(0).standard_normal((200, model.modes))
    for dtype in (np.float64, np.float32):
        stepped, ran, again = (StvkSimulator(model, dtype=dtype, beta=1e-4) for _ in range(3))
        trace = ran.run(forces)
        for force, q in zip(forces, trace, strict=True):
            stepped.step(force)
            np.testing.assert_array_equal(stepped.q, q)
        np.testing.assert_array_equal(stepped.velocity, ran.velocity)
        np.testing.assert_array_equal(again.run(forces), trace)
        assert stepped.time == ran.time == pytest.approx(0.2)


def test_reset_restarts(model):
    simulator = StvkSimulator(model, gravity=(0, -9.81, 0))
    first = simulator.run(50)
    simulator.reset()
    assert simulator.time == 0
    np.testing.assert_array_equal(simulator.run(50), first)
    assert np.abs(first[-1]).max() > 0


def test_single_precision_stays_near_double(model):
    double, single = (StvkSimulator(model, dtype=dtype) for dtype in (np.float64, np.float32))
    for simulator in (double, single):
        simulator.reset(velocity=kicked(model))
    a, b = double.run(500), single.run(500)
    assert 0 < np.abs(a - b).max() < 1e-4 * np.abs(a).max()


def test_a_body_under_gravity_comes_to_rest_where_forces_balance(model):
    gravity = np.array([0.0, -9.81, 0.0])
    simulator = StvkSimulator(
        model, 0.01, integrator="backward-euler", iterations=10, alpha=5.0, gravity=gravity
    )
    simulator.run(3000)
    weight = model.weight(gravity)
    np.testing.assert_allclose(model.force(simulator.q), weight, atol=1e-6 * np.abs(weight).max())


def test_the_surface_is_the_models(model):
    simulator = StvkSimulator(model)
    simulator.reset(velocity=kicked(model))
    simulator.run(60)
    seen = np.empty(model.surface.vertices.shape, np.float32)
    assert simulator.surface(seen) is seen
    np.testing.assert_allclose(seen, model.surface_at(simulator.q), atol=1e-6)
    np.testing.assert_array_equal(simulator.surface(), seen)
    for wrong in (seen[1:], seen.astype(float), seen[:, ::-1], "skin"):
        with pytest.raises(SuppleError, match="out must be"):
            simulator.surface(wrong)  # type: ignore[arg-type]


def test_a_squeezed_body_whose_stiffness_is_indefinite_goes_on(complete):
    mesh, model = complete
    squeeze = np.zeros_like(mesh.vertices)
    squeeze[:, 0] = -0.7 * mesh.vertices[:, 0]
    q = np.einsum("vi,vir->r", squeeze, model.basis)
    simulator = StvkSimulator(model, 0.1, integrator="backward-euler")
    assert np.linalg.eigvalsh(model.mass + 0.01 * model.stiffness(q)).min() < 0
    simulator.reset(q)
    assert simulator.step().limits == ("stiffness",)
    assert simulator.shifted_steps == 1
    simulator.run(300)
    assert np.isfinite(simulator.q).all()
    assert simulator.step().limits == ()


BAD_FORCES = {
    "nan": lambda r: np.full(r, np.nan),
    "infinite": lambda r: np.full(r, np.inf),
    "short": lambda r: np.ones(r - 1),
    "text": lambda r: "push",
    "texts": lambda r: np.array(["a"] * r),
    "objects": lambda r: np.array([None] * r),
    "complex": lambda r: np.full(r, 1j),
    "no vertex": lambda r: {-1: [0, 0, 1]},
    "no force": lambda r: {0: [0, 0]},
    "nan on a vertex": lambda r: {0: [0, 0, np.nan]},
}


@pytest.mark.parametrize("iterations", [1, 5])
@pytest.mark.parametrize("what", BAD_FORCES)
def test_bad_forces_are_refused_and_change_nothing(model, what, iterations):
    simulator, beside = (StvkSimulator(model, iterations=iterations) for _ in range(2))
    for each in (simulator, beside):
        each.reset(velocity=kicked(model))
        each.run(5)
    forces = BAD_FORCES[what](model.modes)
    with pytest.raises(SuppleError) as refused:
        simulator.step(forces)  # type: ignore[arg-type]
    assert "\n" not in str(refused.value)
    np.testing.assert_array_equal(simulator.run(20), beside.run(20))


def test_a_run_that_diverges_leaves_the_state_as_it_was(model):
    simulator, beside = StvkSimulator(model), StvkSimulator(model)
    forces = np.zeros((20, model.modes))
    forces[10:] = 1e200
    with pytest.raises(SolverError, match=r"diverges at 0\.01"):
        simulator.run(forces)
    forces[7, 1] = np.nan
    with pytest.raises(SuppleError, match="finite at row 7"):
        simulator.run(forces)
    assert simulator.time == 0
    push = np.ones((5, model.modes))
    np.testing.assert_array_equal(simulator.run(push), beside.run(push))


@pytest.mark.parametrize(
    "options",
    [
        {"dt": 0},
        {"dt": np.nan},
        {"dt": "fast"},
        {"integrator": "euler"},
        {"iterations": 0},
        {"iterations": 1.5},
        {"iterations": 1001},
        {"iterations": 2**40},
        {"dtype": np.int32},
        {"dtype": "half a float"},
        {"alpha": -1},
        {"beta": np.inf},
        {"gravity": [0, 1]},
    ],
)
def test_unknown_options_are_errors(model, options):
    with pytest.raises(SuppleError) as refused:
        StvkSimulator(model, **options)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "use",
    [
        lambda s: s.run(-1),
        lambda s: s.run(10**12),
        lambda s: s.run(2.5),
        lambda s: s.run([[1.0]]),
        lambda s: s.run("all"),
        lambda s: s.reset([1.0]),
        lambda s: s.reset(velocity=np.full(10, np.nan)),
        lambda s: s.reset(np.full(10, 1e200)),
    ],
)
def test_unsupported_calls_of_a_simulator_are_refused(model, use):
    simulator = StvkSimulator(model)
    with pytest.raises(SuppleError) as refused:
        use(simulator)
    assert "\n" not in str(refused.value)
    assert (simulator.q == 0).all()


def test_no_steps_are_no_steps(model):
    simulator = StvkSimulator(model)
    assert simulator.run(0).shape == (0, model.modes)
    assert simulator.run(np.empty((0, model.modes))).shape == (0, model.modes)
    assert simulator.time == 0


def test_only_models_are_stepped():
    with pytest.raises(SuppleError, match="StvkModel"):
        StvkSimulator("beam")  # type: ignore[arg-type]
