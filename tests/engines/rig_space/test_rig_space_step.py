"""A step in rig space: derivatives, equilibria, limits that must hold, and the paper's solvers."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import supple
from helpers.build_samples import bar_mesh
from helpers.rig_space_samples import SOFT, belly, belly_options, trunk, trunk_options
from supple.elastic.body import ElasticBody
from supple.elastic.material import Material
from supple.engines.full.full_body import FullBodySimulator
from supple.engines.rig_space.model import RigSpaceModel
from supple.engines.rig_space.simulator import RigSpaceSimulator
from supple.engines.rig_space.solvers.condensed import CondensedSolver
from supple.engines.rig_space.solvers.paper_solvers import RigSpacePhysics
from supple.engines.rig_space.solvers.stage_problem import Springs, StageProblem
from supple.engines.rig_space.volumetric_skinning import volumetric_skinning
from supple.errors import SuppleError
from supple.mesh.obstacles import Sphere
from supple.rig.character import Character
from supple.rig.deformers.blend_shapes import BlendShapeRig
from supple.rig.deformers.wire import Wire
from supple.rig.protocol import FunctionRig
from supple.rig.skeleton.joint_pose import PartialJointPose
from supple.rig.skeleton.joints import Skeleton
from supple.rig.skeleton.skinning import SkinnedRig

TRUNK, BELLY = (8, 3, 3), (6, 4, 4)


@cache
def built(name: str) -> RigSpaceModel:
    if name == "trunk":
        return supple.build(trunk(TRUNK), engine="rig-space", **trunk_options(TRUNK))
    if name == "local":  # shapes that move a tenth of the skin each
        return supple.build(belly(BELLY, 20, 0.08), engine="rig-space", **belly_options(BELLY))
    return supple.build(belly(BELLY, 6), engine="rig-space", **belly_options(BELLY))


def shaken(t: float, far: float = 0.05, hertz: float = 1.0) -> np.ndarray:
    root = np.eye(4)
    root[1, 3] = far * np.sin(2 * np.pi * hertz * t) ** 3
    root[2, 3] = 0.7 * far * np.sin(2 * np.pi * 0.77 * hertz * t) ** 2
    return root


def run(model: RigSpaceModel, seconds: float = 1.0, dt: float = 1 / 90, **options: Any) -> Any:
    """Skins and poses of a character that is shaken, and figures of the steps."""
    far = options.pop("far", 0.05)
    simulator = RigSpaceSimulator(model, dt, **options)
    skins, poses, reports = [], [], []
    for i in range(1, round(seconds / dt) + 1):
        reports.append(simulator.step(None, shaken(i * dt, far)))
        skins.append(simulator.surface().copy())
        poses.append(simulator.parameters)
    return np.array(skins), np.array(poses), reports


def stage_of(model: RigSpaceModel, size: int) -> StageProblem:
    """A stage with everything in it: motion, loads, pushes, springs of all kinds."""
    rng, k, n = np.random.default_rng(2), len(model.entries), len(model.mesh.vertices)
    springs = Springs(
        0.5,
        0.01,
        1.3,
        follow=rng.random(k),
        firmness=0.5 + rng.random(k),
        damping=rng.random(k),
        mass=1 + rng.random(k),
        lower=np.full(k, -np.inf),
        upper=np.full(k, np.inf),
        reach=np.full(k, np.inf),
    )
    pose = np.array(model.rig.rest_pose)
    target = model.mesh.vertices + 1e-3 * rng.standard_normal((n, 3))
    load, push = rng.standard_normal((n, 3)), rng.standard_normal(k)
    start, guess = 1e-3 * rng.standard_normal((2, size))
    return StageProblem(1 / 90, pose, target, load, push, start, guess, springs)


@pytest.mark.parametrize("name", ["trunk", "belly", "local"])
def test_gradient_and_hessian_are_the_derivatives_of_the_functional(name):
    model = built(name)
    solver = CondensedSolver(model)
    stage, placed = stage_of(model, solver.size), solver.vertices
    stage.target, stage.load = stage.target[placed], stage.load[placed]
    far, step = 2e-3, 1e-3
    if name != "trunk":  # near rest no stiffness is projected, and flesh has not turned
        far, step, stage.guess[:] = 1e-6, 0.3, 0.0
    solver.begin(stage)
    rng = np.random.default_rng(0)
    c, d = far * rng.standard_normal((2, solver.size))
    slope = solver_slope(solver, stage, c, d, step)
    solver.value(stage, c)
    gradient, hessian = solver.gradient.copy(), solver.hessian.copy()
    assert abs(gradient @ d - slope) <= 1e-6 * np.linalg.norm(gradient) * np.linalg.norm(d)
    slopes = []
    for side in (step, -step):
        solver.value(stage, c + side * d)
        slopes.append(solver.gradient.copy())
    curved = (slopes[0] - slopes[1]) / (2 * step)
    np.testing.assert_array_equal(hessian, hessian.T)
    # Gauss–Newton leaves out how the rig bends: nothing, of shapes.
    within = 2e-2 if name == "trunk" else 1e-6
    assert np.linalg.norm(hessian @ d - curved) <= within * np.linalg.norm(curved)


def solver_slope(solver, stage, c, d, step):
    """Fourth-order difference along d."""
    at = [solver.value(stage, c + i * step * d, 0) for i in (-2, -1, 1, 2)]
    return (at[0] - 8 * at[1] + 8 * at[2] - at[3]) / (12 * step)


def test_the_reference_has_the_derivatives_of_its_functional():
    model = built("trunk")
    solver = RigSpacePhysics(model)
    stage = stage_of(model, solver.size)
    solver.begin(stage)
    rng = np.random.default_rng(0)
    c, d = 1e-3 * rng.standard_normal((2, solver.size))
    gradient = solver.derivatives(stage, c)[0]
    at = [solver.value(stage, c + i * 1e-3 * d) for i in (-2, -1, 1, 2)]
    slope = (at[0] - 8 * at[1] + 8 * at[2] - at[3]) / 12e-3
    assert abs(gradient @ d - slope) <= 1e-6 * np.linalg.norm(gradient) * np.linalg.norm(d)


@pytest.mark.parametrize("solver", ["condensed", "rsp", "iv1"])
def test_a_held_key_pose_stays_the_key_pose_and_has_no_energy(solver):
    model = built("belly")
    pose = np.array(model.rig.rest_pose)
    pose[0], pose[2] = 0.4, 0.3
    root = np.eye(4)
    root[:3, :3] = [[0, -1, 0], [1, 0, 0], [0, 0, 1]]
    root[:3, 3] = 3, -2, 1
    simulator = RigSpaceSimulator(model, solver=solver, gravity_mode="none")
    simulator.reset(pose, root)
    for _ in range(5):
        assert simulator.step(pose, root).limits == ()
    np.testing.assert_allclose(simulator.parameters, pose, rtol=0, atol=1e-9)
    x = model.tet_rig(model.rig.rest_pose)
    assert model.body.energy(x) < 1e-12
    corners = x[model.mesh.tets]
    edges = corners[:, 1:] - corners[:, :1]
    assert np.linalg.det(edges).min() > 0


def test_a_steady_glide_of_the_root_costs_nothing():
    simulator = RigSpaceSimulator(built("trunk"))
    before, root = np.eye(4), np.eye(4)
    before[0, 3] = -0.1
    simulator.reset(None, root, before=(simulator.pose, before))
    for i in range(1, 10):
        root[0, 3] = 0.1 * i
        simulator.step(None, root)
    np.testing.assert_allclose(simulator.parameters, simulator.pose, rtol=0, atol=1e-9)


def test_a_body_that_nothing_holds_keeps_its_momentum():
    """All control points of a wire are free: the rig can go anywhere."""
    model = supple.build(trunk(TRUNK), engine="rig-space", **trunk_options(TRUNK, free="wire.*"))
    simulator = RigSpaceSimulator(model, alpha=0, beta=0, integrator="bdf2")
    rng = np.random.default_rng(1)
    simulator._away.v[: len(model.entries)] = 0.3 * rng.standard_normal(len(model.entries))
    simulator.teleport()
    masses = model.body.vertex_masses()
    first = masses @ simulator._world.v
    for _ in range(60):
        simulator.step()
    assert np.linalg.norm(first) > 0
    moved = masses @ simulator._world.v - first
    assert np.linalg.norm(moved) < 1e-4 * np.linalg.norm(first)


@pytest.mark.parametrize("name", ["trunk", "belly"])
def test_energy_never_grows_without_work(name):
    model = built(name)
    simulator = RigSpaceSimulator(model, integrator="backward-euler", iterations=4)
    skin = model.surface.vertices
    tip = int(skin[:, 0].argmax()) if name == "trunk" else int(skin[:, 1].argmax())
    for _ in range(8):
        simulator.step(forces={tip: [0.0, 30.0, 10.0]})
    masses, energies = model.body.vertex_masses(), []
    for _ in range(60):
        simulator.step()
        v, solver = simulator._world.v, simulator._solver
        kinetic = 0.5 * float(masses @ (v**2).sum(axis=1))
        energies.append(kinetic + model.body.energy(solver.x, solver.key))
    assert energies[0] > 1e-3
    assert np.diff(energies).max() <= 2e-3 * energies[0]
    assert energies[-1] < 0.7 * energies[0]


def test_a_rig_that_can_do_everything_is_the_full_simulation():
    """A shape for each coordinate of each vertex: the rig's space is that of all vertices."""
    mesh = bar_mesh((3, 1, 1))
    surface, _ = mesh.surface()
    points = surface.vertices
    free = np.flatnonzero(points[:, 0] > 1e-9)
    skeleton = Skeleton(["root"], [-1], [[0.0, 0, 0]])
    none = np.zeros((len(points), 1), int)
    bind = np.eye(4)[None]
    base = SkinnedRig(PartialJointPose(skeleton, ["root.rz"]), points, none, none + 1.0, bind)
    deltas = np.zeros((3 * len(free), len(points), 3))
    for row, (v, i) in enumerate((v, i) for v in free for i in range(3)):
        deltas[row, v, i] = 1.0
    rig = BlendShapeRig(base, deltas, [f"s{i}" for i in range(len(deltas))])
    options: dict[str, Any] = {"tets": mesh, "material": SOFT, "cubature": 10**6, "bones": []}
    character = Character("bar", surface, rig)
    wide = (-9.0, 9.0)
    model = supple.build(character, engine="rig-space", free="s*", bounds=wide, **options)
    mine = RigSpaceSimulator(
        model,
        alpha=0,
        beta=0,
        gravity_mode="absolute",
        integrator="backward-euler",
        iterations=12,
    )
    body = ElasticBody(mesh, SOFT)
    fixed = np.flatnonzero(mesh.vertices[:, 0] < 1e-9)
    full = FullBodySimulator(
        body, 1 / 90, fixed=fixed, newton=20, gravity=(0, -9.81, 0), psd=True, alpha=0, beta=0
    )
    for _ in range(10):
        mine.step()
        full.step()
    moved = full.positions
    assert np.abs(moved - mesh.vertices).max() > 1e-3
    np.testing.assert_allclose(mine._world.x, moved, rtol=0, atol=2e-6)


@pytest.mark.parametrize(
    ("name", "far", "mean", "most"),
    [("trunk", 0.05, 0.08, 1.4), ("trunk", 0.15, 0.4, 5.0), ("belly", 0.05, 0.25, 3.0)],
)
def test_ours_agrees_with_the_reference(name, far, mean, most):
    model = built(name)
    truth, found = (run(model, solver=each, far=far)[0] for each in ("rsp", "condensed"))
    height = np.ptp(model.surface.vertices, axis=0).max()
    away = 100 * np.linalg.norm(found - truth, axis=2) / height
    assert np.ptp(truth - truth[:1], axis=0).max() > 0.05 * height
    assert away.mean() < mean
    assert away.max() < most


def test_the_paper_s_ladder_steps_and_ours_is_nearer_than_skinned_interiors():
    model = built("trunk")
    truth = run(model, 0.4, solver="rsp")[0]
    away = {}
    for solver in ("condensed", "iv1-je1", "iv2-je1", "iv2-je2"):
        away[solver] = np.linalg.norm(run(model, 0.4, solver=solver)[0] - truth, axis=2).mean()
    assert away["condensed"] < away["iv2-je1"]
    assert away["iv1-je1"] < away["iv2-je1"]
    assert max(away.values()) < 0.2


def test_deferred_jacobians_are_kept_where_the_rig_is_linear_and_renewed_where_it_bends():
    counts = {}
    for name in ("belly", "trunk"):
        reports = run(built(name), 0.5, solver="iv2-je2", far=0.2)[2]
        counts[name] = sum(report.readings["jacobians"] for report in reports) / len(reports)
    assert counts["belly"] < 0.1
    assert counts["trunk"] > 2 * counts["belly"]
    bare = run(built("trunk"), 0.5, solver="iv2-je2-unpredicted", far=0.2)[2]
    guided = run(built("trunk"), 0.5, solver="iv2-je2", far=0.2)[2]
    rolled = [sum(report.readings["rollbacks"] for report in each) for each in (bare, guided)]
    assert rolled[1] < rolled[0]


def test_algorithm_1_keeps_few_surface_vertices_and_no_negative_weight():
    skin = volumetric_skinning(built("trunk"))
    assert 1 <= skin.correspondences < 12
    assert skin.weights.data.min() >= 0
    assert skin.dense.nnz >= skin.weights.nnz


def test_curves_are_alike_at_all_frame_rates():
    model = built("trunk")
    size = model.surface.size
    at = {fps: run(model, 1.0, 1 / fps)[0] for fps in (24, 30, 60, 120)}
    for fps in (24, 30, 60):
        common = np.gcd(fps, 120)
        mine = at[fps][fps // common - 1 :: fps // common]
        other = at[120][120 // common - 1 :: 120 // common]
        assert np.linalg.norm(mine - other, axis=2).max() < 0.01 * size


def test_bounds_hold_within_the_solve_and_not_after_it():
    wide = supple.build(belly(BELLY, 6), engine="rig-space", **belly_options(BELLY))
    tight = supple.build(
        belly(BELLY, 6), engine="rig-space", **belly_options(BELLY, bounds=(0, 0.05))
    )
    assert (
        supple.build(
            belly(BELLY, 6), engine="rig-space", **belly_options(BELLY, bounds=None)
        ).upper.tolist()
        == [1.0] * 6
    )
    free, held = (run(each, far=0.1)[1][:, each.entries] for each in (wide, tight))
    assert free.min() < -0.01
    assert held.min() >= 0
    assert held.max() <= 0.05 + 1e-12
    assert np.abs(held - np.clip(free, 0, 0.05)).max() > 5e-3


def test_springs_of_a_parameter_hold_that_parameter():
    model = built("trunk")
    usual = run(model, 0.6)[1]
    first = int(model.entries[0])
    for option, value in (("follow", 30.0), ("firmness", 30.0), ("damping", 300.0), ("mass", 30.0)):
        name = model.rig.parameters[first].name
        given: dict[str, Any] = {option: {name: value}}
        held = run(model, 0.6, **given)[1]
        assert np.abs(held[:, first]).max() != pytest.approx(
            np.abs(usual[:, first]).max(), rel=0.02
        )
        assert np.isfinite(held).all()
    stiff = run(model, 0.6, follow=1e6)[1]
    assert np.abs(stiff).max() < 1e-3 * np.abs(usual).max()


@pytest.mark.parametrize("dt", [1 / 1000, 1 / 90, 1 / 10])
def test_any_step_and_fifty_g_end_in_finite_motion(dt):
    model = built("trunk")
    poses, reports = run(model, 0.4 if dt < 0.1 else 2.0, dt, far=1.0)[1:]
    assert np.isfinite(poses).all()
    assert np.abs(poses).max() < 2 * model.surface.size
    allowed = {"displacement", "inversion", "solver"}
    assert {each for report in reports for each in report.limits} <= allowed


def test_shapes_that_do_the_same_share_the_motion():
    plain = belly(BELLY, 6)
    rig: Any = plain.rig
    twice = np.concatenate([rig.deltas, rig.deltas[:1]])
    doubled = BlendShapeRig(rig.base, twice, [*rig.names, "again"])
    character = Character("belly", plain.surface, doubled)
    free = ["bump*", "again"]
    model = supple.build(character, engine="rig-space", **belly_options(BELLY, free=free))
    poses = run(model, 0.5)[1]
    assert np.isfinite(poses).all()
    np.testing.assert_allclose(poses[:, -1], poses[:, 1], atol=1e-4)


def test_a_rig_that_fails_leaves_the_state_as_it_was():
    mesh = bar_mesh(TRUNK)
    surface, _ = mesh.surface()
    wire = trunk(TRUNK).rig

    def moody(pose, vertices=None):
        if pose[0] > 0.5:
            raise ValueError("not today")
        return wire(pose, vertices)

    rig = FunctionRig(moody, wire.parameters, wire.n_vertices)
    options = trunk_options(TRUNK, modes=2, free="wire.5.t?")
    model = supple.build(Character("moody", surface, rig), engine="rig-space", **options)
    simulator = RigSpaceSimulator(model)
    simulator.step(None, shaken(0.1))
    before, skin = simulator.parameters, simulator.surface().copy()
    bad = np.zeros(len(wire.parameters))
    bad[0] = 1.0
    with pytest.raises(SuppleError, match="not today") as refused:
        simulator.step(bad)
    assert "\n" not in str(refused.value)
    np.testing.assert_array_equal(simulator.parameters, before)
    np.testing.assert_array_equal(simulator.surface(), skin)
    assert simulator.step(None, shaken(0.11)).limits == ()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda s: s.step(np.full(len(s.pose), np.nan)), "not finite"),
        (lambda s: s.step(None, np.full((4, 4), np.nan)), "root"),
        (lambda s: s.step(forces={0: [np.nan, 0, 0]}), "force"),
        (lambda s: RigSpaceSimulator(s.model, dt=0), "dt is 0 s"),
        (lambda s: RigSpaceSimulator(s.model, solver="iv3"), 'did you mean "iv'),
        (lambda s: RigSpaceSimulator(s.model, follow={"wire.9.tx": 1}), "did you mean"),
        (lambda s: RigSpaceSimulator(s.model, mass=0.0), "mass must be"),
        (lambda s: RigSpaceSimulator(s.model, follow=float("nan")), "follow must be"),
        (lambda s: RigSpaceSimulator(s.model.rig), "needs a RigSpaceModel"),
    ],
)
def test_invalid_options_are_refused_in_one_line(change, said):
    simulator = RigSpaceSimulator(built("trunk"))
    with pytest.raises(SuppleError, match=said) as refused:
        change(simulator)
    assert "\n" not in str(refused.value)


def test_flesh_without_mass_is_refused():
    with pytest.raises(SuppleError, match="density must be positive"):
        Material("neo-hookean", density=0.0)


def test_a_wire_on_tets_turns_what_is_inside():
    """Displacements of the nearest surface vertices would shear it."""
    model = built("trunk")
    assert isinstance(model.tet_rig, Wire)
    pose = np.zeros(len(model.rig.parameters))
    pose[10::3] = np.linspace(0, 0.4, len(pose[10::3]))
    corners = model.tet_rig(pose)[model.mesh.tets]
    assert np.linalg.det(corners[:, 1:] - corners[:, :1]).min() > 0


def test_an_obstacle_pushes_the_skin_out_and_reports_the_force():
    model = built("trunk")
    simulator = RigSpaceSimulator(model, gravity_mode="none", alpha=40.0)
    low = float(model.surface.vertices[:, 1].min())
    ball = Sphere([0.95, low - 0.27, 0.08], 0.3)
    simulator.obstacles = [ball]
    assert simulator.obstacles == (ball,)
    for _ in range(400):
        state = simulator.step()
    assert state.readings["contacts"] > 0
    assert state.readings["contact_force"][1] > 0
    deep = -ball.distances(simulator.surface().astype(float))[0].min()
    before = -ball.distances(model.surface.vertices)[0].min()
    assert before > 0.02
    assert deep < 0.4 * before
    with pytest.raises(SuppleError, match="have no contact"):
        RigSpaceSimulator(model, solver="rsp", obstacles=[ball])
    with pytest.raises(SuppleError, match="obstacle 0 is a str"):
        simulator.obstacles = ["ground"]  # type: ignore[list-item]


def test_a_crowd_moves_as_each_of_it_would_alone():
    model = built("belly")
    crowd = supple.engines.ENGINES["rig-space"].crowd_class(model, 3, 1 / 60)
    alone = RigSpaceSimulator(model, 1 / 60)
    rest = np.tile(model.rig.rest_pose, (3, 1))
    for i in range(1, 6):
        roots = np.stack([shaken(i / 60, far) for far in (0.0, 0.05, 0.1)])
        assert crowd.step(rest, roots) == ((), (), ())
        alone.step(rest[1], roots[1])
    assert len(crowd) == 3
    np.testing.assert_array_equal(crowd.parameters[1], alone.parameters)
    np.testing.assert_array_equal(crowd.surfaces()[1], alone.surface())
    assert np.abs(crowd.parameters[2] - crowd.parameters[0]).max() > 1e-3
    with pytest.raises(SuppleError, match="n is 0; use 1 to"):
        supple.engines.ENGINES["rig-space"].crowd_class(model, 0)
