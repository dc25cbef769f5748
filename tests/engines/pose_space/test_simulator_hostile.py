"""The reduced step under wrong input, poses no one meant, violence, and for a long time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from helpers.build_samples import WIDTH, motion_of, stepped_model
from supple import PoseSpaceModel, SuppleError
from supple.dynamics.root_frame import to_world
from supple.elastic.body import ElasticBody
from supple.engines.pose_space.simulator import PoseSpaceSimulator
from supple.rig.motion.motion import Motion
from supple.rig.protocol import FunctionRig

Floats = NDArray[np.float64]

H = 1 / 90
LIMIT = 0.25  # the default displacement limit, as a part of the size
INTEGRATORS = ("backward-euler", "newmark", "bdf2")
NAMES = ("firm", "rubber", "arm")


def stepped(name: str) -> PoseSpaceModel:
    """A firm bar of two materials, and a limp arm of two regions."""
    if name == "rubber":
        return replace(stepped_model("firm"), material_kind="neo-hookean")
    return stepped_model(name)


def placed(x: float = 0.0, y: float = 0.0, z: float = 0.0) -> Floats:
    root = np.eye(4)
    root[:3, 3] = x, y, z
    return root


def bent(model: PoseSpaceModel, part: float) -> Floats:
    return np.asarray(part * model.pose_weights.poses[-1])


def distance(simulator: PoseSpaceSimulator, pose: Floats, root: Floats | None = None) -> float:
    """From the rig to the skin at its farthest, as a part of the size; the skin is finite."""
    skin = simulator.surface()
    assert np.isfinite(skin).all()
    model = simulator.model
    rig = to_world(np.eye(4) if root is None else root, model.rig(pose))
    return float(np.linalg.norm(skin - rig, axis=1).max() / model.surface.size)


def settle(simulator: PoseSpaceSimulator, pose: Floats, seconds: float = 4.0) -> float:
    """How far from the rig the skin still is after a while of standing still."""
    for _ in range(round(seconds / simulator.dt)):
        simulator.step(pose, np.eye(4))
    return distance(simulator, pose)


WRONG_STEPS: dict[str, dict[str, Any]] = {
    "a pose that is no number": {"pose": [np.nan]},
    "an infinite pose": {"pose": np.array([np.inf])},
    "a pose too far away": {"pose": np.array([1e200])},
    "two numbers for one": {"pose": np.zeros(2)},
    "a pose of two rows": {"pose": np.zeros((2, 1))},
    "words": {"pose": ["left"]},
    "a root that is no number": {"root": np.full((4, 4), np.nan)},
    "a root that scales": {"root": np.diag([2.0, 2.0, 2.0, 1.0])},
    "a root that mirrors": {"root": np.diag([-1.0, 1.0, 1.0, 1.0])},
    "a root that shears": {"root": np.eye(4) + np.eye(4, k=1)},
    "a root of three rows": {"root": np.eye(3)},
    "a root at infinity": {"root": placed(np.inf)},
    "a root far from everything": {"root": placed(1e12)},
    "a force on no vertex": {"forces": {10**6: (1, 0, 0)}},
    "a force on a vertex before the first": {"forces": {-1: (1, 0, 0)}},
    "a force on half a vertex": {"forces": {0.5: (1, 0, 0)}},
    "a force that is no number": {"forces": {0: (np.nan, 0, 0)}},
    "an infinite force": {"forces": {0: (0, np.inf, 0)}},
    "a force of two numbers": {"forces": {0: (1, 2)}},
    "a list of forces": {"forces": [(1, 2, 3)]},
    "one good force and a bad one": {"forces": {0: (1, 2, 3), 1: "up"}},
}


def wrong_calls(simulator: PoseSpaceSimulator) -> dict[str, Callable[[], object]]:
    """What else can be done wrong."""
    n, r = len(simulator.model.surface.vertices), simulator.model.n_modes
    sealed = np.empty((n, 3), np.float32)
    sealed.flags.writeable = False
    two = motion_of(np.zeros((4, 2)))
    good = motion_of(np.zeros((4, 1)))
    return {
        "out too small": lambda: simulator.surface(np.empty((n - 1, 3), np.float32)),
        "out of doubles": lambda: simulator.surface(np.empty((n, 3))),  # type: ignore[arg-type]
        "out with holes": lambda: simulator.surface(np.empty((n, 6), np.float32)[:, ::2]),
        "out that is sealed": lambda: simulator.surface(sealed),
        "out that is a list": lambda: simulator.surface([[0.0] * 3] * n),  # type: ignore[arg-type]
        "another rig's motion": lambda: simulator.run(two),
        "an unknown motion": lambda: simulator.run("swep"),
        "no motion": lambda: simulator.run(7),  # type: ignore[arg-type]
        "frames too few": lambda: simulator.run(good, out=np.empty((1, n, 3), np.float32)),
        "q too short": lambda: setattr(simulator, "q", np.zeros(r - 1)),
        "q that is no number": lambda: setattr(simulator, "q", np.full(r, np.nan)),
        "velocity at infinity": lambda: setattr(simulator, "velocity", np.full(r, np.inf)),
        "a reset to nowhere": lambda: simulator.reset([np.nan]),
        "a reset before nowhere": lambda: simulator.reset([0.1], before=([np.nan], None)),
        "a reset that mirrors": lambda: simulator.reset([0.1], np.diag([-1.0, 1, 1, 1])),
        "obstacles that are none": lambda: setattr(simulator, "obstacles", ["wall"]),
    }


def test_wrong_input_is_an_error_and_the_state_keeps_its_bits():
    model = stepped("firm")
    simulator, twin = PoseSpaceSimulator(model), PoseSpaceSimulator(model)
    for k in range(8):
        for each in (simulator, twin):
            each.step(bent(model, 0.05 * k), placed(0.01 * k * k), {3: (2.0, 0.0, 1.0)})
    for what, arguments in WRONG_STEPS.items():
        with pytest.raises(SuppleError) as told:
            simulator.step(**arguments)
        assert "\n" not in str(told.value), what
        assert np.array_equal(simulator.q, twin.q), what
    for what, call in wrong_calls(simulator).items():
        with pytest.raises(SuppleError) as told:
            call()
        assert "\n" not in str(told.value), what
        assert np.array_equal(simulator.q, twin.q), what
    np.testing.assert_array_equal(simulator.surface(), twin.surface())
    for k in range(8, 14):
        for each in (simulator, twin):
            each.step(bent(model, 0.05 * k), placed(0.01 * k * k))
        np.testing.assert_array_equal(simulator.velocity, twin.velocity)
    np.testing.assert_array_equal(simulator.surface(), twin.surface())
    assert simulator.time == twin.time


def test_messages_list_valid_values():
    simulator = PoseSpaceSimulator(stepped("firm"))
    with pytest.raises(SuppleError, match='did you mean "sweep"'):
        simulator.run("swep")
    with pytest.raises(SuppleError, match="the skin has vertices 0 to"):
        simulator.step(forces={10**6: (1, 0, 0)})


@pytest.mark.parametrize(
    "wrong",
    [
        {"dt": 0},
        {"dt": -0.1},
        {"dt": np.nan},
        {"dt": 1.5},
        {"dt": 1e-9},
        {"integrator": "euler"},
        {"iterations": 0},
        {"iterations": 1.5},
        {"substeps": 10**6},
        {"alpha": -1.0},
        {"beta": np.inf},
        {"gravity": (0, 1)},
        {"gravity": "down"},
        {"gravity_mode": "sideways"},
        {"acceleration_limit": 0.0},
        {"displacement_limit": np.nan},
        {"look_ahead": -1},
        {"obstacles": [3]},
    ],
    ids=str,
)
def test_invalid_options_are_errors(wrong):
    with pytest.raises(SuppleError):
        PoseSpaceSimulator(stepped("firm"), **wrong)


def test_only_models_are_stepped():
    for other in (None, "bar.supple", 3):
        with pytest.raises(SuppleError, match="needs a PoseSpaceModel"):
            PoseSpaceSimulator(other)  # type: ignore[arg-type]


@pytest.mark.parametrize("far", [10.0, 100.0, 1e6])
@pytest.mark.parametrize("name", NAMES)
def test_poses_far_from_all_trained_leave_the_skin_near_its_rig(name, far):
    model = stepped(name)
    simulator, rng, acted = PoseSpaceSimulator(model), np.random.default_rng(0), Counter[str]()
    for _ in range(60):
        pose = far * rng.standard_normal(len(model.rig.rest_pose))
        acted.update(simulator.step(pose).limits)
        assert distance(simulator, pose) < 2 * LIMIT
    assert acted["teleport"] + acted["acceleration"] > 0
    assert acted["rest"] > 0  # such poses turn some tets inside out
    assert settle(simulator, model.rig.rest_pose) < 1e-3


@pytest.mark.parametrize("dt", [1 / 1000, 1 / 240, 1 / 30, 1 / 10, 1.0])
@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_long_and_short_steps_are_stable(integrator, dt):
    model = stepped("firm")
    simulator = PoseSpaceSimulator(model, dt, integrator=integrator)
    for k in range(min(round(1.5 / dt) + 10, 500)):
        pose = bent(model, np.sin(5 * k * dt))
        simulator.step(pose)
        assert distance(simulator, pose) < 2 * LIMIT
    assert settle(simulator, model.rig.rest_pose, max(4, 60 * dt)) < 1e-3


@pytest.mark.parametrize("hertz", [5, 10, 20])
@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize("name", ["firm", "rubber"])
def test_shaking_at_fifty_g_is_survived(name, integrator, hertz):
    model = stepped(name)
    simulator, acted = PoseSpaceSimulator(model, integrator=integrator), Counter[str]()
    swing, pose = 50 * 9.81 / (2 * np.pi * hertz) ** 2, model.rig.rest_pose
    way = np.array([0.6, 0.64, 0.48])
    for k in range(180):
        root = placed(*(swing * np.sin(2 * np.pi * hertz * k * H) * way))
        state = simulator.step(pose, root)
        acted.update(state.limits)
        assert distance(simulator, pose, root) < 2 * LIMIT
    if hertz == 5:  # 0.5 m this way and back: more than the flesh may do
        assert acted["displacement"] > 0
    assert acted["reset"] == 0
    assert settle(simulator, pose) < 1e-3


@pytest.mark.parametrize("name", NAMES)
def test_teleports_are_reported_and_give_no_force(name):
    model = stepped(name)
    simulator, still = PoseSpaceSimulator(model), model.rig.rest_pose
    rng = np.random.default_rng(1)
    for _ in range(5):
        simulator.step(still)
    there = placed(100.0, -30.0, 5.0)
    assert simulator.step(still, there).limits == ("teleport",)
    for _ in range(5):
        assert simulator.step(still, there).limits == ()
        assert distance(simulator, still, there) < 1e-5
    for _ in range(60):  # here and there at every step
        root, pose = placed(*rng.uniform(-50, 50, 3)), bent(model, rng.uniform(-1, 1))
        simulator.step(pose, root)
        assert distance(simulator, pose, root) < 2 * LIMIT
    assert settle(simulator, still) < 1e-3


def test_a_jump_of_the_pose_is_reported_and_gives_no_force():
    model = stepped("firm")
    simulator = PoseSpaceSimulator(model)
    for _ in range(3):
        simulator.step()
    assert simulator.step(bent(model, 1.0)).limits == ("teleport",)
    for _ in range(3):
        assert simulator.step().limits == ()
    assert distance(simulator, bent(model, 1.0)) < 1e-5


def test_too_large_accelerations_are_clamped_and_reported():
    model = stepped("firm")
    slow, fast = (PoseSpaceSimulator(model, acceleration_limit=limit) for limit in (250.0, 1000.0))
    most = []
    for simulator in (slow, fast):
        acted, largest = Counter[str](), 0.0
        for k in range(30):
            acted.update(simulator.step(bent(model, 0.03 * np.sin(0.8 * k))).limits)
            accelerations = simulator._state.arrays.rest_acceleration[0]
            largest = max(largest, float(np.linalg.norm(accelerations, axis=1).max()))
        most.append(largest)
        assert (acted["acceleration"] > 0) == (simulator is slow)
        assert acted["teleport"] == 0
    assert most[0] == pytest.approx(250.0)
    assert 250 < most[1] < 1000


@pytest.mark.parametrize("force", [1e6, 1e30, 1e300])
@pytest.mark.parametrize("name", ["firm", "rubber"])
def test_a_push_of_a_million_newtons_and_more_is_cut_and_forgotten(name, force):
    model = stepped(name)
    simulator, pose = PoseSpaceSimulator(model), model.rig.rest_pose
    tip = int(model.surface.vertices[:, 0].argmax())
    assert "displacement" in simulator.step(forces={tip: (0, force, 0)}).limits
    assert distance(simulator, pose) < 2 * LIMIT
    for _ in range(30):
        simulator.step(forces={tip: (force, -force, 0)})
        assert distance(simulator, pose) < 2 * LIMIT
    assert settle(simulator, pose) < 1e-3


@pytest.mark.parametrize("name", ["firm", "rubber"])
def test_flesh_thrown_anywhere_comes_back(name):
    model = stepped(name)
    for seed in range(8):
        rng = np.random.default_rng(seed)
        simulator = PoseSpaceSimulator(model)
        simulator.q = 10.0 ** rng.integers(0, 4) * rng.standard_normal(model.n_modes)
        assert distance(simulator, model.rig.rest_pose) <= 2 * LIMIT + 1e-6
        simulator.step()
        assert distance(simulator, model.rig.rest_pose) < 2 * LIMIT
        assert settle(simulator, model.rig.rest_pose) < 1e-3


def mirroring_bar() -> tuple[PoseSpaceModel, float]:
    """A bar whose only motion flattens it, and then turns it inside out; q where it is flat."""
    bar = stepped_model("one pose")
    (listed,) = bar.basis_vertices
    basis = np.zeros((1, len(listed), 3, 1), np.float32)
    basis[0, :, 1, 0] = WIDTH / 2 - bar.mesh.vertices[listed, 1]
    masses = ElasticBody(bar.mesh, bar.material(0)).vertex_masses()[listed]
    mass = float(masses @ basis[0, :, 1, 0].astype(np.float64) ** 2)
    changed: dict[str, Any] = {
        "bases": (basis,),
        "basis_bits": 32,
        "mass_products": np.array([[mass]], np.float32),
        "stiffness_corrections": None,
        "correction_ends": bar.correction_ends[:0],
        "inertial_corrections": None,
        "root_eigenvalues": bar.root_eigenvalues[:1],
    }
    return replace(bar, **changed), mass**0.5


@pytest.mark.parametrize("part", [0.9, 1.2, 1.9, 2.0])
def test_flesh_turned_inside_out_does_not_stay_so(part):
    model, flat = mirroring_bar()
    simulator = PoseSpaceSimulator(model)
    simulator.q = [part * flat]
    assert "inversion" in simulator.step().limits
    for _ in range(450):
        simulator.step()
    assert abs(simulator.q[0]) < 1e-3 * flat
    assert simulator.step().limits == ()


@pytest.mark.parametrize("substeps", [1, 3])
@pytest.mark.parametrize("what", ["q", "velocity"])
def test_a_diverging_state_restarts(what, substeps):
    model = stepped("firm")
    simulator = PoseSpaceSimulator(model, substeps=substeps)
    setattr(simulator, what, np.full(model.n_modes, 1e300))
    assert distance(simulator, model.rig.rest_pose) <= 2 * LIMIT + 1e-6
    limits = simulator.step().limits
    assert ("reset" if what == "q" else "displacement") in limits
    assert distance(simulator, model.rig.rest_pose) < 2 * LIMIT
    assert simulator.step().limits == ()
    assert settle(simulator, model.rig.rest_pose) < 1e-3


def test_a_limit_of_ones_own_is_kept():
    model = stepped("firm")
    simulator = PoseSpaceSimulator(model, displacement_limit=0.02)
    pose, acted = model.rig.rest_pose, Counter[str]()
    for k in range(60):
        root = placed(0, 0.05 * np.sin(0.6 * k))
        acted.update(simulator.step(pose, root).limits)
        assert distance(simulator, pose, root) < 2 * 0.02
    assert acted["displacement"] > 0


class Failing:
    """A function of the pose that fails when told to, and counts its calls."""

    def __init__(self, rig: Any) -> None:
        self.rig, self.trouble = rig, ""

    def __call__(self, pose: Floats, vertices: Any = None) -> Floats:
        if self.trouble == "raises" or (self.trouble == "at one" and pose[0] > 1.2):
            raise ValueError("the artist's script has\na bug")
        positions = np.array(self.rig(pose, vertices))
        if self.trouble == "nan":
            positions[0] = np.nan
        return positions[:-1] if self.trouble == "short" else positions


def with_black_boxes(model: PoseSpaceModel) -> tuple[PoseSpaceModel, list[Failing]]:
    failing = [Failing(rig) for rig in (model.rig, model.tet_rig)]
    rigs = [FunctionRig(each, each.rig.parameters, each.rig.n_vertices) for each in failing]
    return replace(model, rig=rigs[0], tet_rig=rigs[1]), failing


@pytest.mark.parametrize("trouble", ["raises", "nan", "short"])
def test_a_rig_that_fails_is_reported_and_the_state_keeps_its_bits(trouble):
    model, failing = with_black_boxes(stepped("firm"))
    simulator, twin = PoseSpaceSimulator(model), PoseSpaceSimulator(stepped("firm"))
    for k in range(6):
        for each in (simulator, twin):
            each.step(np.array([0.05 * k]))
    skin, before = simulator.surface(), simulator.q
    np.testing.assert_allclose(skin, twin.surface(), atol=1e-6)
    for box in failing:
        box.trouble = trouble
        for call in (
            lambda: simulator.step(np.array([0.4])),
            lambda: simulator.reset(np.array([0.4])),
            lambda: simulator.run(Motion([0.0, 1.0], [[0.0], [0.5]])),
        ):
            if box is failing[1]:
                with pytest.raises(SuppleError):
                    call()
        if box is failing[0]:
            with pytest.raises(SuppleError):
                simulator.surface()
        box.trouble = ""
        np.testing.assert_array_equal(simulator.q, before)
        np.testing.assert_array_equal(simulator.surface(), skin)
    for k in range(6, 12):
        for each in (simulator, twin):
            each.step(np.array([0.05 * k]))
    np.testing.assert_allclose(simulator.q, twin.q, atol=1e-9)


def test_a_reset_whose_past_fails_leaves_the_skin_to_the_bit():
    model, failing = with_black_boxes(stepped("firm"))
    simulator = PoseSpaceSimulator(model)
    simulator.step(np.array([0.1]))
    skin = simulator.surface()
    failing[1].trouble = "at one"
    with pytest.raises(SuppleError):
        simulator.reset(np.array([0.5]), before=(np.array([1.3]), None))
    np.testing.assert_array_equal(simulator.surface(), skin)


def test_ten_minutes_do_not_drift():
    model = stepped("firm")
    simulator = PoseSpaceSimulator(model)
    angle = 2 * np.pi * np.arange(90) / 90
    poses = np.radians(30 * np.sin(angle) + 12 * np.cos(3 * angle))[:, None]
    roots = [placed(0.02 * np.sin(t), 0.03 * np.sin(2 * t)) for t in angle]
    simulator.reset(poses[0], roots[0], before=(poses[-1], roots[-1]))
    count, minute = 54_000, 5400
    q = np.empty((count, model.n_modes))
    acted = Counter[str]()
    for k in range(count):
        acted.update(simulator.step(poses[k % 90], roots[k % 90]).limits)
        q[k] = simulator.q
    assert not acted
    np.testing.assert_allclose(simulator.time, 600)
    first, last = q[minute : 2 * minute], q[-minute:]
    spread = first.std(axis=0)
    np.testing.assert_allclose(last.std(axis=0), spread, rtol=0.01, atol=1e-4 * spread.max())
    np.testing.assert_allclose(last.mean(axis=0), first.mean(axis=0), atol=0.01 * spread.max())
    assert spread.max() > 0.01
    # Lively as it is, at rest nothing is left.
    simulator.reset(poses[0], roots[0], before=(poses[-1], roots[-1]))
    for k in range(180):
        simulator.step(poses[k % 90], roots[k % 90])
    assert settle(simulator, model.rig.rest_pose, 12) < 1e-6
    assert np.abs(simulator.q).max() < 1e-6 * np.abs(first).max()
