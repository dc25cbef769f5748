"""Claims about obstacles that push the skin in the reduced step."""

from __future__ import annotations

import itertools
import sys
from functools import cache
from typing import Any

import numpy as np
import pytest

from helpers.build_samples import WIDTH, bar_options, bending_bar
from helpers.dense_step import DenseStep
from supple import PoseSpaceModel, build
from supple.engines.common.contact.colliders import ColliderShapes, table_distance
from supple.engines.pose_space.contact.skin_contact import HARDEST, SETTLING, usual_stiffness
from supple.engines.pose_space.simulator import PoseSpaceSimulator
from supple.errors import SuppleError
from supple.maths.rotations import exponential, to_matrix
from supple.mesh.obstacles import Capsule, Obstacle, Plane, Sphere
from supple.reduction.regions.handles import Handle
from supple.scenes.characters.character_scene import scene

H = 1 / 90
MIDDLE = WIDTH / 2
CELLS = (12, 3, 3)
SIDE = np.array([8 / 12, WIDTH / 3, 0.0])  # a vertex


@cache
def bar() -> PoseSpaceModel:
    """A metre along x, held at x = 0, with two regions."""
    regions = [
        Handle("near", np.array([[0.3, MIDDLE, MIDDLE]])),
        Handle("far", np.array([[0.9, MIDDLE, MIDDLE]])),
    ]
    changed = {"regions": regions, "modes": (12, 12), "elastic_cubature": 40}
    return build(bending_bar(cells=CELLS), **bar_options(CELLS, **changed))


@cache
def small_x() -> PoseSpaceModel:
    """A cross of 1,000 tets."""
    x = scene("x")
    return build(x.character, **(x.recipe() | {"modes": 12, "tets": 1000, "elastic_cubature": 40}))


def ground(height: float) -> Plane:
    return Plane((0, height, 0), (0, 1, 0))


def deepest(simulator: PoseSpaceSimulator) -> float:
    """How deep the skin is in any obstacle, in sizes of the body."""
    skin = simulator.surface().astype(np.float64)
    return max(-o.distances(skin)[0].min() for o in simulator.obstacles) / simulator.runtime.size


def skin_speed(simulator: PoseSpaceSimulator, **given) -> float:
    """Step, and say how fast the fastest skin vertex went, in m/s."""
    before = simulator.surface()
    simulator.step(**given)
    return float(np.linalg.norm(simulator.surface() - before, axis=1).max()) / simulator.dt


class BlackBox:
    """Any solid, but known by its distances only."""

    def __init__(self, solid: Obstacle) -> None:
        self.solid = solid

    def distances(self, points):
        return self.solid.distances(points)


@pytest.mark.parametrize("integrator", ["backward-euler", "bdf2", "newmark"])
def test_a_body_that_sags_onto_a_plane_rests_there(integrator):
    simulator = PoseSpaceSimulator(
        bar(), gravity_mode="absolute", integrator=integrator, obstacles=[ground(-0.02)]
    )
    free = PoseSpaceSimulator(bar(), gravity_mode="absolute", integrator=integrator)
    for _ in range(400):
        state = simulator.step()
        free.step()
        assert deepest(simulator) < 0.003  # also as it falls
    assert state.contacts > 5
    assert state.limits == ()
    assert free.surface()[:, 1].min() < -0.1  # where it would hang
    assert 1e-5 < deepest(simulator) < 0.0005
    assert max(skin_speed(simulator) for _ in range(20)) < 0.02


def test_a_cross_pressed_down_by_its_root_does_not_sink_in():
    model = small_x()
    low = model.surface.vertices[:, 1].min()
    simulator = PoseSpaceSimulator(model, obstacles=[ground(low - 0.001)])
    size, root, depths = simulator.runtime.size, np.eye(4), []
    for k in range(120):
        root[1, 3] = -0.02 * size * min(k / 45, 1)
        contacts = simulator.step(root=root).contacts
        depths.append(deepest(simulator))
    assert contacts > 2
    assert max(depths) < 0.002


def test_a_ball_dents_flesh_that_leans_on_a_wall_and_the_flesh_returns():
    model, radius, depth = bar(), 0.15, 0.01
    wall = Plane((0, 0, WIDTH), (0, 0, -1))
    ball = Sphere(SIDE - [0, 0, radius], radius)
    simulator = PoseSpaceSimulator(model, obstacles=[ball, wall], alpha=5.0)
    rest = simulator.surface()
    spot = int(np.linalg.norm(rest - SIDE, axis=1).argmin())
    opposite = int(np.linalg.norm(rest - SIDE - [0, 0, WIDTH], axis=1).argmin())
    for k in range(200):
        centre = SIDE + np.array([0, 0, depth * min(k / 60, 1) - radius])
        simulator.obstacles = [Sphere(centre, radius), wall]
        state = simulator.step()
        assert deepest(simulator) < 0.002
    assert state.contacts > 1
    moved = simulator.surface() - rest
    assert moved[spot, 2] > 0.7 * depth
    assert moved[opposite, 2] < 0.1 * depth
    simulator.obstacles = [Sphere(SIDE - [0, 0, 9.0], radius), wall]
    gone = simulator.step()
    assert gone.contacts < state.contacts  # it does not stick to the ball
    for _ in range(800):
        simulator.step()
    assert np.abs(simulator.surface() - rest).max() < 0.03 * depth


def system_of_contacts(simulator: PoseSpaceSimulator, q: np.ndarray):
    """Force and stiffness of contacts alone, at q and at rest, in reduced coordinates."""
    simulator.q = q
    stepper, state = simulator._stepper, simulator._state
    contact, work = stepper._contact, stepper.workspace
    assert contact is not None
    stepper._frame_carriers()
    contact.detect(state.q, state.v, state.root, stepper._placement, work)
    work.system.external[:] = 0
    contact.press(state.contact, work, stepper._blas)
    upper, column_scale = np.triu(work.system.contact), work.blend.column_scale
    stiffness = upper + np.triu(upper, 1).T
    force = work.system.external - stiffness @ (column_scale * q)
    return column_scale * force, column_scale[:, None] * stiffness * column_scale


@pytest.mark.parametrize(
    "solid",
    [
        Plane((0, 0.014, 0), (0.02, 1, 0.03)),
        Sphere((0.7, -0.2, MIDDLE), 0.24),
        Capsule((0.2, -0.15, 0.1), (0.9, -0.15, 0.2), 0.18),
        BlackBox(Sphere((0.7, -0.2, MIDDLE), 0.24)),
    ],
    ids=lambda solid: type(solid).__name__,
)
def test_force_and_stiffness_are_those_of_the_penalty_energy(solid):
    model, pose = bar(), np.radians([25.0])
    simulator = PoseSpaceSimulator(model, H, obstacles=[solid], frames="blended")
    simulator.reset(pose)
    q = 0.01 * np.random.default_rng(0).standard_normal(model.n_modes)
    skin = model.rig(pose)
    basis = model.embedding @ model.interpolated_basis(pose).reshape(len(model.mesh.vertices), -1)
    basis = basis.reshape(-1, model.n_modes)
    areas = np.zeros(len(skin))
    for triangle, area in zip(model.surface.triangles, model.surface.areas(), strict=True):
        areas[triangle] += area / 3
    springs = usual_stiffness(simulator.runtime) * (1 + SETTLING / H) * areas
    assert springs.sum() < HARDEST * 1000 * model.mesh.volumes().sum() / H**2

    def depth(coordinates):
        return -solid.distances(skin + (basis @ coordinates).reshape(-1, 3))[0]

    start = np.maximum(depth(q), 0)
    speed = simulator.runtime.size * H  # nothing comes out faster
    target = np.maximum(start * SETTLING / (H + SETTLING), start - speed)
    inside = start > 0
    assert 5 < inside.sum() < len(inside)

    def energy(coordinates):
        return 0.5 * (springs * (depth(coordinates) - target) ** 2)[inside].sum()

    force, stiffness = system_of_contacts(simulator, q)
    step = 1e-6 * np.eye(len(q))
    slope = np.array([(energy(q + e) - energy(q - e)) / 2e-6 for e in step])
    np.testing.assert_allclose(force, -slope, atol=2e-4 * np.abs(slope).max())
    held = np.abs(basis).reshape(len(skin), -1).max(axis=1) == 0
    assert simulator._state.contact.count == (inside & ~held).sum()
    normals = solid.distances(skin + (basis @ q).reshape(-1, 3))[1]
    rows = np.einsum("vi,vij->vj", normals, basis.reshape(len(skin), 3, -1))[inside]
    wanted = (rows * springs[inside, None]).T @ rows
    np.testing.assert_allclose(stiffness, wanted, atol=2e-4 * np.abs(wanted).max())


def test_a_step_in_contact_is_the_dense_step_with_the_stiffness_of_contacts():
    model, pose = bar(), np.radians([20.0])
    simulator = PoseSpaceSimulator(
        model, H, obstacles=[ground(0.003)], gravity_mode="none", frames="blended"
    )
    simulator.reset(pose)
    q = 0.01 * np.random.default_rng(1).standard_normal(model.n_modes)
    push, extra = system_of_contacts(simulator, q)
    simulator.q = q
    simulator.step(pose)
    dense = DenseStep(model, pose)
    force, stiffness = dense.elastic(q)
    matrix = (1 + H * 0.5) * dense.mass + (H * 0.01 + H * H) * stiffness + H * H * extra
    velocity = np.linalg.solve(matrix, H * (push - force))
    np.testing.assert_allclose(simulator.velocity, velocity, atol=1e-4 * np.abs(velocity).max())
    assert np.abs(push).max() > 10 * np.abs(force).max()


@pytest.mark.parametrize(
    "make",
    [
        lambda turn, shift: Plane(turn @ [0, 0.005, 0] + shift, turn @ [0, 1, 0.1]),
        lambda turn, shift: Sphere(turn @ [0.7, -0.2, 0.05] + shift, 0.21),
        lambda turn, shift: Capsule(
            turn @ [0.4, -0.2, 0.05] + shift, turn @ [0.9, -0.19, 0.1] + shift, 0.2
        ),
        lambda turn, shift: BlackBox(Sphere(turn @ [0.7, -0.2, 0.05] + shift, 0.21)),
    ],
    ids=["plane", "sphere", "capsule", "black box"],
)
def test_obstacles_are_in_the_world_wherever_the_root_is(make):
    turn = to_matrix(exponential(np.array([0.4, -1.1, 2.0])))
    root = np.eye(4)
    root[:3, :3], root[:3, 3] = turn, [0.75, -0.5, 1.25]
    here = PoseSpaceSimulator(bar(), gravity_mode="none", obstacles=[make(np.eye(3), np.zeros(3))])
    there = PoseSpaceSimulator(bar(), gravity_mode="none", obstacles=[make(turn, root[:3, 3])])
    there.reset(root=root)
    for k in range(25):
        pose = np.radians([k / 2])
        states = here.step(pose), there.step(pose)
        assert states[0].contacts == states[1].contacts
    assert states[0].contacts > 0
    np.testing.assert_allclose(here.q, there.q, atol=1e-4 * np.abs(here.q).max())
    moved = here.surface() @ turn.T + root[:3, 3]
    np.testing.assert_allclose(there.surface(), moved, atol=5e-6)  # of 5 m: a millionth


def test_an_obstacle_that_is_not_touched_changes_no_bit():
    alone = PoseSpaceSimulator(bar())
    beside = PoseSpaceSimulator(bar(), obstacles=[ground(-9.0), Sphere((0.5, 2.0, 0), 0.5)])
    touching = PoseSpaceSimulator(bar(), obstacles=[ground(0.02)])
    for k in range(40):
        pose = np.radians([40 * np.sin(k / 5)])
        for simulator in (alone, beside, touching):
            simulator.step(pose)
        assert np.array_equal(alone.surface(), beside.surface())
        assert np.array_equal(alone.q, beside.q)
    assert not np.allclose(alone.q, touching.q)
    touching.obstacles = ()
    touching.reset()
    alone.reset()
    for simulator in (alone, touching):
        simulator.step(np.radians([10.0]))
    assert np.array_equal(alone.q, touching.q)


@pytest.mark.parametrize(("stiffness", "rate"), [(None, 30), (1e12, 30), (1e12, 10), (1e12, 90)])
def test_violent_motion_onto_stiff_things_stays_finite_and_calms_down(stiffness, rate):
    model = bar()
    simulator = PoseSpaceSimulator(
        model,
        1 / rate,
        gravity_mode="absolute",
        obstacles=[ground(-0.02), Sphere((0.8, -0.1, MIDDLE), 0.12)],
        obstacle_stiffness=stiffness,
    )
    rng = np.random.default_rng(0)
    root = np.eye(4)
    for k in range(150):
        root[1, 3] = 0.1 * rng.uniform(-1, 1)
        at = np.array([0.8, -0.1, MIDDLE]) + 0.05 * rng.uniform(-1, 1, 3)
        simulator.obstacles = [ground(-0.02 + 0.02 * np.sin(k)), Sphere(at, 0.12)]
        state = simulator.step(np.radians([40 * rng.uniform(-1, 1)]), root)
        assert "reset" not in state.limits
        skin = simulator.surface()
        assert np.isfinite(skin).all()
        still = model.rig(simulator._state.pose) + root[:3, 3]
        assert np.abs(skin - still).max() < 0.5 * simulator.runtime.size
    simulator.obstacles = [ground(-0.02), Sphere((0.8, -0.1, MIDDLE), 0.12)]
    for _ in range(6 * rate):
        state = simulator.step([0.0], np.eye(4))
    assert state.limits == ()
    assert max(skin_speed(simulator) for _ in range(10)) < 0.05


def test_skin_deep_inside_at_the_start_comes_out_smoothly():
    ball = Sphere((0.75, WIDTH / 3, -0.02), 0.09)
    simulator = PoseSpaceSimulator(bar(), obstacles=[ball], gravity_mode="none")
    simulator.reset()
    depths = [deepest(simulator)]
    assert depths[0] > 0.05
    at_once = depths[0] * simulator.runtime.size / simulator.dt
    for _ in range(90):
        assert skin_speed(simulator) < 0.5 * at_once
        depths.append(deepest(simulator))
    inside = np.array(depths[:-1]) > 0.002  # and then it may swing
    assert (np.diff(depths)[inside] < 1e-4).all()
    assert depths[3] > 0.5 * depths[0]
    assert depths[-1] < 0.001


def test_a_thing_that_moves_pushes_at_its_own_speed():
    ball = Sphere((0.8, -0.07, MIDDLE), 0.06)
    simulator = PoseSpaceSimulator(bar(), obstacles=[ball], gravity_mode="none")
    for k in range(1, 12):
        simulator.obstacles = [Sphere((0.8, -0.07 + k * H, MIDDLE), 0.06)]
        simulator.step()
        assert deepest(simulator) < 0.005
    tip = int(np.linalg.norm(simulator.surface() - [0.8, 0.05, MIDDLE], axis=1).argmin())
    assert simulator.surface()[tip, 1] > 0.03
    assert isinstance(simulator.obstacles[0], Sphere)


def test_flesh_is_held_between_two_things():
    squeeze = [
        Capsule((2 / 3, -0.05, -1), (2 / 3, -0.05, 1), 0.05),
        Capsule((2 / 3, WIDTH + 0.05, -1), (2 / 3, WIDTH + 0.05, 1), 0.05),
    ]
    simulator = PoseSpaceSimulator(bar(), obstacles=squeeze, gravity_mode="none")
    for k in range(120):
        y = 0.05 - 0.01 * min(k / 60, 1)
        simulator.obstacles = [
            Capsule((2 / 3, -y, -1), (2 / 3, -y, 1), 0.05),
            Capsule((2 / 3, WIDTH + y, -1), (2 / 3, WIDTH + y, 1), 0.05),
        ]
        state = simulator.step()
    skin = simulator.surface().astype(np.float64)
    gaps = [each.distances(skin)[0].min() for each in simulator.obstacles]
    assert min(gaps) > -0.002
    assert max(gaps) < 1e-4  # both touch
    assert state.contacts >= 2


def test_a_black_box_acts_as_what_it_wraps():
    solid = Sphere((0.7, -0.2, MIDDLE), 0.22)
    plain = PoseSpaceSimulator(bar(), obstacles=[solid], gravity_mode="none")
    boxed = PoseSpaceSimulator(bar(), obstacles=[BlackBox(solid)], gravity_mode="none")
    for _ in range(40):
        states = plain.step(), boxed.step()
    assert states[0].contacts == states[1].contacts > 0
    # Its depth at the end of a step is that of the plane it seems to be there.
    np.testing.assert_allclose(plain.surface(), boxed.surface(), atol=1e-4)


def test_tables_in_the_root_frame_give_the_distances_of_the_solids():
    solids: list[Obstacle] = [
        Plane((1, 2, 3), (0, 3, 4)),
        Sphere((0.5, 0, 0), 0.7),
        Capsule((0, 0, 0), (1, 2, 0), 0.4),
        Capsule((1, 0, 0), (1, 0, 0), 0.4),
        BlackBox(ground(0)),
    ]
    shapes = ColliderShapes()
    shapes.set(solids)
    assert shapes.others == (4,)
    root = np.eye(4)
    root[:3, :3], root[:3, 3] = to_matrix(exponential(np.array([1.0, 2, 0.5]))), [4, 5, 6]
    shapes.update_places(root)
    points = np.random.default_rng(0).uniform(-2, 2, (40, 3))
    points[0] = 1, 0, 0
    for o, solid in enumerate(solids[:4]):
        gaps, normals = solid.distances(points)
        for x, gap, normal in zip(points, gaps, normals, strict=True):
            answer = table_distance(shapes.in_world, o, *x)
            np.testing.assert_allclose(answer, [gap, *normal], atol=1e-14)
            turned = root[:3, :3].T @ (x - root[:3, 3])
            answer = table_distance(shapes.in_root, o, *turned)
            assert answer[0] == pytest.approx(gap, abs=1e-12)
            if np.linalg.norm(x - points[0]) > 0:  # in a ball's middle every way is as good
                np.testing.assert_allclose(root[:3, :3] @ answer[1:], normal, atol=1e-12)


class Says:
    """Answers what it was told to."""

    def __init__(self, answer) -> None:
        self.answer = answer

    def distances(self, points):
        return self.answer(points)


def up(points):
    return np.tile([0.0, 1.0, 0.0], (len(points), 1))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda p: (np.full(len(p), np.nan), up(p)), "not a number"),
        (lambda p: (np.full(len(p), -np.inf), up(p)), "not a number"),
        (lambda p: (np.full(len(p), -1.0), 2 * up(p)), "length 1"),
        (lambda p: (np.full(len(p), -1.0), np.nan * up(p)), "length 1"),
        (lambda p: (np.zeros(3), up(p)), "expected"),
        (lambda p: (np.zeros(len(p)), np.zeros(3)), "expected"),
        (lambda p: (["a"] * len(p), up(p)), "must be numbers"),
        (lambda p: None, "failed"),
        (lambda p: 1 / 0, "failed: division by zero"),
        (lambda p: (p[:, 0],), "failed"),
    ],
)
def test_an_obstacle_that_answers_nonsense_is_an_error_and_nothing_happened(answer, words):
    simulator = PoseSpaceSimulator(bar(), obstacles=[ground(0.01)], gravity_mode="absolute")
    twin = PoseSpaceSimulator(bar(), obstacles=[ground(0.01)], gravity_mode="absolute")
    for each in (simulator, twin):
        each.step(np.radians([5.0]))
    before: Any = simulator.q, simulator.velocity, simulator.time, simulator.surface()
    simulator.obstacles = [ground(0.01), Says(answer)]
    with pytest.raises(SuppleError, match=words):
        simulator.step(np.radians([9.0]))
    after: Any = simulator.q, simulator.velocity, simulator.time, simulator.surface()
    assert all(np.array_equal(before[k], after[k]) for k in range(4))
    simulator.obstacles = [ground(0.01)]
    for each in (simulator, twin):
        each.step(np.radians([9.0]))
    assert np.array_equal(simulator.q, twin.q)


def test_obstacles_that_cannot_be_are_refused_and_the_old_ones_stay():
    simulator = PoseSpaceSimulator(bar(), obstacles=[ground(0.01)])
    hostile: list[tuple[Any, str]] = [
        (ground(0), "list"),
        (5, "list"),
        (None, "list"),
        ([ground(0), "wall"], "obstacle 1 is a str"),
        ([Plane], "obstacle 0 is a type"),
        (itertools.repeat(ground(0)), "more than 64"),
    ]
    for obstacles, words in hostile:
        with pytest.raises(SuppleError, match=words):
            simulator.obstacles = obstacles
        with pytest.raises(SuppleError, match=words):
            PoseSpaceSimulator(bar(), obstacles=obstacles)
    assert len(simulator.obstacles) == 1
    impossible: list[Any] = [0, -1.0, np.nan, 1e13, "hard"]
    for stiffness in impossible:
        with pytest.raises(SuppleError, match="obstacle_stiffness"):
            PoseSpaceSimulator(bar(), obstacle_stiffness=stiffness)


def test_contacts_come_out_the_same_and_take_no_memory():
    runs = []
    for _ in range(2):
        simulator = PoseSpaceSimulator(bar(), gravity_mode="absolute", obstacles=[ground(-0.01)])
        pose = np.zeros(1)
        for k in range(60):
            pose[0] = 0.2 * np.sin(k / 6)
            simulator.step(pose)
        runs.append(simulator.q)
    assert np.array_equal(runs[0], runs[1])
    blocks = sys.getallocatedblocks()
    for _ in range(300):
        simulator.step()
    assert sys.getallocatedblocks() - blocks < 100
