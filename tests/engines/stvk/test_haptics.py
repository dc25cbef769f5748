"""A ball that touches a reduced body is held up by it, and what a hand feels is true."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from supple.elastic.material import Material
from supple.engines.stvk.cubic_model import CubicModel
from supple.engines.stvk.haptics.haptic_ball import HapticBall
from supple.engines.stvk.haptics.haptic_kernels import SHARE_SCRATCH, share_out
from supple.engines.stvk.model import StvkModel
from supple.engines.stvk.simulator import StvkSimulator
from supple.errors import SolverError, SuppleError
from supple.mesh.hexes import HexMesh
from supple.mesh.surface import SurfaceMesh

DOWN = np.array([0.0, -9.81, 0.0])
RADIUS, MASS = 0.03, 0.05


def plate(cells: int = 6, size: float = 0.4, height: float = 0.02) -> HexMesh:
    """A square plate of one layer of boxes, its top at y = 0."""
    x = np.linspace(-size / 2, size / 2, cells + 1)
    grid = np.stack(np.meshgrid(x, [-height, 0.0], x, indexing="ij"), axis=-1)
    number = np.arange(2 * (cells + 1) ** 2).reshape(cells + 1, 2, cells + 1)
    low, high = slice(None, -1), slice(1, None)
    around = [(low, 0, low), (low, 0, high), (high, 0, high), (high, 0, low)]
    bottom = [number[i, j, k].ravel() for i, j, k in around]
    top = [number[i, 1, k].ravel() for i, _, k in around]
    hexes = np.stack([*bottom, *top], axis=1)
    mesh = HexMesh(grid.reshape(-1, 3), hexes)
    return (
        mesh
        if mesh.volumes().min() > 0
        else HexMesh(mesh.vertices, hexes[:, [4, 5, 6, 7, 0, 1, 2, 3]])
    )


@pytest.fixture(scope="module")
def trampoline() -> StvkModel:
    """A soft plate, held all around."""
    mesh = plate()
    rim = np.abs(mesh.vertices[:, [0, 2]]).max(axis=1) > 0.19
    return StvkModel.build(mesh, Material("stvk", young=2e5, density=500.0), modes=8, fixed=rim)


def ball_on(model, position, *, dt=1 / 1000, alpha=0.0, iterations=3, gravity=DOWN, **options):
    simulator = StvkSimulator(model, dt, alpha=alpha, iterations=iterations)
    options = {"radius": RADIUS, "mass": MASS} | options
    return HapticBall(simulator, position=position, gravity=gravity, **options)


def table(triangles, vertices, mass: float = 1.0, stiffness: float = 0.0) -> CubicModel:
    """A rigid surface that moves as a whole, on springs or none."""
    basis = np.tile(np.eye(3), (len(vertices), 1, 1))
    tangent = np.zeros((6, 10))
    tangent[[0, 3, 5], 0] = stiffness
    surface = SurfaceMesh(vertices, triangles)
    return CubicModel(tangent, mass * np.eye(3), surface=surface, surface_basis=basis)


def square(cells: int = 1, **options) -> CubicModel:
    """A flat square, as many cells along each side."""
    x = np.linspace(-0.5, 0.5, cells + 1)
    vertices = np.stack(np.meshgrid(x, [0.0], x, indexing="ij"), axis=-1).reshape(-1, 3)
    number = np.arange(len(vertices)).reshape(cells + 1, cells + 1)
    a, b, c, d = number[:-1, :-1], number[:-1, 1:], number[1:, 1:], number[1:, :-1]
    halves = [np.stack(t, axis=-1).reshape(-1, 3) for t in ((a, b, c), (a, c, d))]
    return table(np.concatenate(halves), vertices, **options)


# --- at rest -----------------------------------------------------------------------------------


def test_a_ball_at_rest_is_held_up_by_its_weight_and_the_body_bends_under_it(trampoline):
    ball = ball_on(trampoline, [0, 0.031, 0], alpha=20.0, damping=20.0)
    last = ball.run(8000).contacts[-500:]
    np.testing.assert_allclose(last, np.tile(-MASS * DOWN, (500, 1)), atol=5e-3 * 9.81 * MASS)
    assert np.abs(ball.velocity).max() < 1e-4
    # What holds the ball up is the elastic force of the body, at the point of contact.
    q = ball.simulator.q
    contacts = ball.tree.touch(q, ball.position, RADIUS)
    deepest = int(contacts.distances.argmin())
    corners = trampoline.surface.triangles[contacts.triangles[deepest]]
    rows = np.einsum("c,cir->ir", contacts.weights[deepest], trampoline.surface_basis[corners])
    pressed = MASS * DOWN @ rows
    np.testing.assert_allclose(trampoline.force(q), pressed, atol=0.01 * np.abs(pressed).max())
    assert ball.position[1] < RADIUS - 0.0007  # the plate gives way more than the ball sinks in
    # It sinks in by no more than its weight over the stiffness of contact.
    assert RADIUS - contacts.distances[deepest] == pytest.approx(MASS * 9.81 / 2000, rel=0.01)


def test_a_ball_that_is_held_in_the_air_pulls_the_hand_down_by_its_weight(trampoline):
    ball = ball_on(trampoline, [0, 0.2, 0])
    felt = ball.run(np.tile([0, 0.2, 0], (2000, 1)))
    np.testing.assert_allclose(felt.forces[-1], MASS * DOWN, atol=1e-6)
    assert felt.positions[-1, 1] == pytest.approx(0.2 - MASS * 9.81 / 500, abs=1e-8)
    assert (felt.contacts == 0).all()
    assert (ball.simulator.q == 0).all()


def test_a_hand_that_presses_feels_what_the_body_pushes_back(trampoline):
    ball = ball_on(trampoline, [0, 0.035, 0], alpha=20.0, damping=50.0)
    down = np.linspace([0, 0.035, 0], [0, 0.01, 0], 1000)
    ball.run(down)
    felt = ball.run(np.tile(down[-1], (6000, 1)))
    pushed = felt.contacts[-1] + MASS * DOWN
    assert pushed[1] > 1.0
    np.testing.assert_allclose(felt.forces[-1], pushed, atol=5e-3)
    stretch = felt.positions[-1] - down[-1]
    np.testing.assert_allclose(felt.forces[-1], 500 * stretch, atol=5e-3)


def test_a_hand_gets_and_gives_no_more_than_the_motors_can(trampoline):
    ball = ball_on(trampoline, [0, 0.035, 0], most_force=2.0)
    felt = ball.run(np.tile([0.0, -5.0, 0.0], (1500, 1)))
    sizes = np.linalg.norm(felt.forces, axis=1)
    assert sizes.max() <= 2.0 * (1 + 1e-12)
    assert (sizes > 1.999).mean() > 0.9
    assert felt.depths.max() < RADIUS / 2  # so that it cannot be forced through


# --- in motion ---------------------------------------------------------------------------------


def test_a_ball_and_a_block_part_as_elastic_bodies_do_and_keep_momentum():
    """The textbook's collision in one dimension."""
    block = 0.2
    model = square(cells=3, mass=block)
    ball = ball_on(model, [0.1, 0.05, 0.05], dt=1e-4, damping=0.0, gravity=(0, 0, 0))
    ball.reset([0.1, 0.05, 0.05], velocity=[0.0, -1.0, 0.0])
    run = ball.run(1000)
    assert (run.contacts[-1] == 0).all()
    assert (run.contacts[:, 1] > 0).any()
    bounced, pushed = ball.velocity[1], ball.simulator.velocity[1]
    assert MASS * bounced + block * pushed == pytest.approx(-MASS, rel=1e-12)
    assert bounced == pytest.approx(-(MASS - block) / (MASS + block), rel=2e-3)
    assert pushed == pytest.approx(-2 * MASS / (MASS + block), rel=2e-3)


def test_contact_that_is_damped_gives_back_less_and_never_pulls():
    speeds = []
    for damping in (0.0, 0.3, 1.0, 3.0):
        ball = ball_on(
            square(stiffness=1e6), [0.1, 0.04, 0], dt=1e-4, damping=damping, gravity=0 * DOWN
        )
        ball.reset([0.1, 0.04, 0], velocity=[0, -1.0, 0])
        run = ball.run(2000)
        assert (run.contacts[:, 1] >= 0).all()
        speeds.append(ball.velocity[1])
    assert speeds[0] == pytest.approx(1.0, rel=0.01)
    assert (np.diff(speeds) < -0.1).all()
    assert speeds[-1] > 0


def test_a_bouncing_ball_neither_gains_energy_nor_sinks_in_deeper_than_it_has_energy(trampoline):
    ball = ball_on(trampoline, [0.02, 0.15, 0.03], damping=0.0, dt=1 / 4000, iterations=5)
    start = ball.energies()["total"]
    found, depths = [], []
    for _ in range(60):
        depths.append(ball.run(80).depths.max())
        found.append(ball.energies()["total"])
    assert sum(depth > 0 for depth in depths) >= 3
    assert np.abs(np.array(found) - start).max() < 0.05 * start
    lowest = ball.position[1] - 0.1
    assert max(depths) <= 1.05 * np.sqrt(2 * (start - MASS * 9.81 * min(lowest, 0.0)) / 2000)


def test_a_body_that_swings_throws_the_ball(trampoline):
    ball = ball_on(trampoline, [0, 0.0305, 0], damping=0.0)
    middle = int(np.linalg.norm(trampoline.surface.vertices[:, [0, 2]], axis=1).argmin())
    up = trampoline.surface_basis[middle, 1]
    ball.simulator.reset(velocity=2.0 * up / (up @ up))
    run = ball.run(300)
    assert run.positions[:, 1].max() > 0.05


# --- which contacts act ------------------------------------------------------------------------


def shared(directions, wanted):
    places, pushes, total = np.zeros((len(wanted), 7)), np.zeros((len(wanted), 2)), np.empty(3)
    places[:, 4:7], pushes[:, 0] = directions, wanted
    share_out(places, pushes, np.zeros(SHARE_SCRATCH), total)
    return pushes[:, 1], total


def test_the_contact_force_is_the_least_that_pushes_enough_along_each_direction():
    rng = np.random.default_rng(0)
    for count in (1, 2, 5, 20):
        for _ in range(10):
            directions = rng.standard_normal((count, 3)) + np.array([0, 1.5, 0])
            directions /= np.linalg.norm(directions, axis=1)[:, None]
            wanted = rng.uniform(0, 1, count)

            def loss(f, n=directions, b=wanted):
                return 0.5 * (n.T @ f) @ (n.T @ f) - f @ b, n @ (n.T @ f) - b

            bounds = [(0, b) for b in wanted]
            tight = {"ftol": 1e-15, "gtol": 1e-12, "maxiter": 5000}
            best = minimize(loss, 0 * wanted, jac=True, bounds=bounds, options=tight)
            pushed, total = shared(directions, wanted)
            np.testing.assert_allclose(total, directions.T @ best.x, atol=2e-5)
            np.testing.assert_allclose(total, directions.T @ pushed, atol=1e-12)
            assert (pushed >= 0).all()
            assert (pushed <= wanted).all()


def test_walls_push_each_for_itself_and_one_surface_once():
    pushed, total = shared([[1, 0, 0], [0, 1, 0]], [0.2, 0.3])
    np.testing.assert_allclose(total, [0.2, 0.3, 0])
    pushed, total = shared([[0, 1, 0]] * 4, [0.1, 0.3, 0.2, 0.3])
    np.testing.assert_allclose(total, [0, 0.3, 0])
    pushed, total = shared([[0, 1, 0], [0, -1, 0]], [0.3, 0.2])  # between two plates
    np.testing.assert_allclose(pushed, [0.3, 0.2])
    np.testing.assert_allclose(total, [0, 0.1, 0], atol=1e-12)


def pushed_at(model, place) -> np.ndarray:
    ball = ball_on(model, place, damping=0.0, gravity=(0, 0, 0))
    return ball.step().contact


def test_the_force_of_a_plane_does_not_depend_on_how_fine_its_triangles_are():
    rng = np.random.default_rng(1)
    models = [square(cells) for cells in (1, 7, 60)]
    for depth in (0.001, 0.01, 0.0149):
        x, z = rng.uniform(-0.3, 0.3, 2)
        found = [pushed_at(model, [x, RADIUS - depth, z]) for model in models]
        for force in found:
            np.testing.assert_allclose(force, [0, 2000 * depth, 0], atol=1e-9)


def test_the_force_changes_no_faster_than_the_ball_moves_over_a_groove():
    vertices = [[-1, 0.4, -1], [-1, 0.4, 1], [0, 0, -1], [0, 0, 1], [1, 0.7, -1], [1, 0.7, 1]]
    model = table([[0, 1, 2], [1, 3, 2], [2, 3, 4], [3, 5, 4]], vertices)
    path = np.linspace([-0.02, 0.034, 0], [0.03, 0.038, 0.01], 200)
    forces = np.array([pushed_at(model, place) for place in path])
    moved = np.linalg.norm(np.diff(path, axis=0), axis=1)
    changed = np.linalg.norm(np.diff(forces, axis=0), axis=1)
    assert (changed <= 2.5 * 2000 * moved).all()
    both = (np.abs(forces[:, 0]) > 0.1).sum()
    assert both > 50


# --- the interface -----------------------------------------------------------------------------


def test_a_run_is_the_same_bits_as_its_steps(trampoline):
    path = np.linspace([0, 0.04, 0], [0.05, 0.02, 0.01], 150)
    stepped, ran = (ball_on(trampoline, path[0]) for _ in range(2))
    run = ran.run(path)
    assert (run.depths > 0).any()
    for i, hand in enumerate(path):
        step = stepped.step(hand)
        np.testing.assert_array_equal(step.force, run.forces[i])
        np.testing.assert_array_equal(step.contact, run.contacts[i])
        np.testing.assert_array_equal(stepped.position, run.positions[i])
        assert step.depth == run.depths[i]
    np.testing.assert_array_equal(stepped.simulator.q, ran.simulator.q)
    assert stepped.simulator.time == ran.simulator.time == pytest.approx(0.15)


def test_a_ball_that_is_let_go_falls_and_can_be_caught(trampoline):
    ball = ball_on(trampoline, [0, 0.3, 0])
    ball.run(np.tile([0, 0.3, 0], (100, 1)))
    before = ball.velocity
    assert (ball.step().force == 0).all()
    np.testing.assert_allclose(ball.velocity - before, DOWN / 1000, rtol=1e-9)
    # The hand is somewhere else by now: it did not get there in one step.
    caught = ball.step([0, 0.25, 0])
    assert np.linalg.norm(caught.force) < 500 * 0.06 + 5 * 0.1 + 1


def test_the_material_may_change_while_the_ball_lies_on_it(trampoline):
    ball = ball_on(trampoline, [0, 0.0301, 0], alpha=20.0, damping=20.0)
    ball.run(3000)
    soft = ball.position[1]
    ball.simulator.set_material(0, young=2e6, density=1000.0)
    ball.run(3000)
    sunk = MASS * 9.81 / 2000
    assert RADIUS - sunk - ball.position[1] == pytest.approx((RADIUS - sunk - soft) / 10, rel=0.05)
    ball.simulator.set_material(0, density=1e-3)
    before = ball.position, ball.simulator.q, ball.simulator.time
    for again in (ball.step, ball.step, lambda: ball.run(5)):
        with pytest.raises(SuppleError, match="use at most"):
            again()
    np.testing.assert_array_equal(ball.position, before[0])
    np.testing.assert_array_equal(ball.simulator.q, before[1])
    assert ball.simulator.time == before[2]
    ball.simulator.set_material(0, density=1000.0)
    ball.step()


def test_the_bodys_gravity_may_change_while_the_ball_flies(trampoline):
    ball, beside = (ball_on(trampoline, [0, 0.5, 0]) for _ in range(2))
    for each in (ball, beside.simulator):
        each.run(5)
        getattr(each, "simulator", each).gravity = DOWN
        each.run(200)
    assert np.abs(ball.simulator.q).max() > 0
    np.testing.assert_allclose(ball.simulator.q, beside.simulator.q, rtol=1e-12)


def test_a_balls_arrays_are_read_only(trampoline):
    ball = ball_on(trampoline, [0, 0.5, 0])
    assert (ball.radius, ball.mass, ball.stiffness) == (RADIUS, MASS, 2000.0)
    for name in ("radius", "mass", "stiffness"):
        with pytest.raises(AttributeError):
            setattr(ball, name, 1.0)


def test_a_ball_and_a_body_that_fall_keep_their_energy(trampoline):
    ball = ball_on(trampoline, [0, 0.6, 0], dt=1e-4)
    ball.simulator.gravity = DOWN
    start, apart, fallen = ball.energies()["total"], 0.0, 0.0
    for _ in range(50):
        ball.run(20)
        apart = max(apart, abs(ball.energies()["total"] - start))
        fallen = max(fallen, -ball.simulator.energies()["gravity"])
    assert ball.energies()["kinetic"] > 0.02
    assert fallen > 0.02
    assert apart < 1e-5 * fallen


def test_a_run_that_has_no_end_changes_nothing(trampoline):
    ball = ball_on(trampoline, [0, 0.5, 0], gravity=(0, 1e308, 0), dt=0.01, stiffness=1.0)
    ball.simulator.reset(q=np.full(8, 1e-3))
    q = ball.simulator.q
    with pytest.raises(SolverError, match="diverge at"):
        ball.run(10**6)
    np.testing.assert_array_equal(ball.position, [0, 0.5, 0])
    np.testing.assert_array_equal(ball.simulator.q, q)
    assert ball.simulator.time == 0


@pytest.mark.parametrize(
    "options",
    [
        {"radius": 0},
        {"radius": np.nan},
        {"radius": 1e200},
        {"mass": 0},
        {"mass": -1},
        {"mass": "heavy"},
        {"stiffness": 0},
        {"stiffness": 1e9},
        {"damping": -1},
        {"hand_stiffness": np.inf},
        {"hand_damping": -0.1},
        {"most_force": -1},
        {"gravity": [0, 1]},
        {"position": [0, np.nan, 0]},
        {"position": [1e300, 0, 0]},
        {"leaf": 0},
    ],
)
def test_invalid_balls_are_refused(trampoline, options):
    options = {"position": [0, 1, 0]} | options
    with pytest.raises(SuppleError) as refused:
        ball_on(trampoline, **options)
    assert "\n" not in str(refused.value)


def test_contact_too_stiff_for_the_step_is_an_error_with_the_bound(trampoline):
    with pytest.raises(SuppleError, match=r"use at most ([\d.e+]+) N/m") as refused:
        ball_on(trampoline, [0, 1, 0], stiffness=1e7)
    most = float(str(refused.value).split("at most ")[1].split()[0])
    ball = ball_on(trampoline, [0, 0.05, 0], stiffness=0.99 * most, damping=0.0)
    run = ball.run(3000)
    assert run.positions[:, 1].max() < 0.06


@pytest.mark.parametrize("hand", [[0, np.nan, 0], [0, 0], "left", [1e300, 0, 0], [None] * 3])
def test_a_hand_that_is_nowhere_is_refused_and_changes_nothing(trampoline, hand):
    ball, beside = (ball_on(trampoline, [0, 0.031, 0]) for _ in range(2))
    for each in (ball, beside):
        each.run(20)
    with pytest.raises(SuppleError) as refused:
        ball.step(hand)
    assert "\n" not in str(refused.value)
    with pytest.raises(SuppleError):
        ball.run([hand])
    np.testing.assert_array_equal(ball.run(20).positions, beside.run(20).positions)


def test_invalid_runs_are_refused(trampoline):
    ball = ball_on(trampoline, [0, 1, 0])
    for steps in (-1, 1.5, 10**12, "all"):
        with pytest.raises(SuppleError):
            ball.run(steps)
    assert ball.run(0).positions.shape == (0, 3)
    assert ball.run(np.empty((0, 3))).forces.shape == (0, 3)
    with pytest.raises(SuppleError, match="StvkSimulator"):
        HapticBall(trampoline, radius=1, mass=1, position=[0, 0, 0])
    bare = StvkSimulator(CubicModel([[1.0, 0.0, 0.0]]))
    with pytest.raises(SuppleError, match="no surface"):
        HapticBall(bare, radius=1, mass=1, position=[0, 0, 0])
