"""The unreduced simulation of a character: rig, root, gravity, forces, materials, sub-steps."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import supple
from helpers.build_samples import bar_mesh, bar_options, bending_bar, held_end
from supple.dynamics.integrators import StepStart, integrator_named
from supple.dynamics.motion_steps import PoseTrack
from supple.dynamics.root_frame import acting_gravity, checked_root, to_world
from supple.elastic.body import ElasticBody
from supple.elastic.equilibrium import static_equilibrium
from supple.elastic.material import Material
from supple.engines.full.factory import FullSimulator
from supple.engines.full.full_body import FullBodySimulator
from supple.engines.full.full_character import FullCharacterSimulator
from supple.errors import SuppleError
from supple.maths.rotations import exponential, to_matrix
from supple.rig.motion.motion import Motion

CELLS = (6, 2, 2)
INTEGRATORS = ("backward-euler", "newmark", "midpoint", "bdf2")


@cache
def unbuilt_bar(young):
    """The same tets and rig with another material; the reduction is not used."""
    return replace(bar(), young=young)


@cache
def bar():
    return supple.build(bending_bar(cells=CELLS), **bar_options(CELLS, modes=4))


@cache
def stiffening_bar():
    """Three times as stiff where it is bent to the right."""
    young = np.outer([1.0, 1.0, 3.0], np.full(len(bar_mesh(CELLS).tets), 3e4))
    return supple.build(bending_bar(cells=CELLS), **bar_options(CELLS, modes=4, young=young))


TIP = int(bending_bar(cells=CELLS).surface.vertices[:, 0].argmax())


def turned(angle=0.0, axis=2, place=(0.0, 0.0, 0.0)):
    root = np.eye(4)
    vector = np.zeros(3)
    vector[axis] = angle
    root[:3, :3] = to_matrix(exponential(vector))
    root[:3, 3] = place
    return root


def to_root(root, points):
    """Rᵀ (x − t)."""
    return (points - root[:3, 3]) @ root[:3, :3]


def rig_skin(model, pose, root):
    return to_world(root, model.rig(pose))


def swing(model, seconds=0.6):
    """Bends, travels and turns, smoothly; between two of the model's poses."""
    times = np.linspace(0, seconds, 31)
    poses = np.radians(30 + 20 * np.cos(7 * times))[:, None]
    roots = np.stack([turned(0.5 * np.sin(5 * t), 0, (0, 0.05 * np.sin(9 * t), 0)) for t in times])
    return Motion(times, poses, roots)


def test_a_model_gives_a_simulator_of_the_character_and_a_body_one_of_the_body():
    whole = FullSimulator(bar(), 1 / 60)
    assert type(whole) is FullCharacterSimulator
    assert isinstance(whole, FullSimulator)
    assert type(FullSimulator(model=bar())) is FullCharacterSimulator
    body = FullSimulator(ElasticBody(bar_mesh(CELLS)))
    assert type(body) is FullBodySimulator
    assert isinstance(body, FullSimulator)
    assert supple.FullSimulator is FullSimulator
    strangers: tuple[Any, ...] = (None, "bar", 3)
    for other in strangers:
        with pytest.raises(SuppleError, match="ElasticBody, a HexBody or a character"):
            FullSimulator(other)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_a_character_that_does_not_move_stays_on_its_rig(integrator):
    model = bar()
    simulator = FullSimulator(model, integrator=integrator)
    pose, root = np.radians([40.0]), turned(0.0, place=(1.0, 2.0, 3.0))
    simulator.reset(pose, root)
    for _ in range(5):
        simulator.step()
    expected = rig_skin(model, pose, root)
    assert simulator.surface().dtype == np.float32
    np.testing.assert_allclose(simulator.surface(), expected, atol=1e-6)
    out = np.empty(expected.shape, np.float32)
    assert simulator.surface(out) is out


def test_stiff_flesh_is_the_rig():
    """Displacements fall as one over the stiffness."""
    away = []
    for young in (3e6, 3e7):
        model = unbuilt_bar(young)
        frames = FullSimulator(model, 1 / 90).run(swing(model))
        keys = swing(model).resample(90)
        rig = [rig_skin(model, p, r) for p, r in zip(keys.poses, keys.roots, strict=True)]
        away.append(np.abs(frames - rig).max())
    assert away[0] > 1e-3
    assert away[1] == pytest.approx(away[0] / 10, rel=0.25)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_a_root_at_constant_velocity_moves_nothing_but_the_whole(integrator):
    model, velocity = bar(), np.array([3.0, -2.0, 1.0])
    simulator = FullSimulator(model, 1 / 60, integrator=integrator, gravity_mode="none")
    pose = np.radians([25.0])
    places = [turned(0.7, 1, velocity * k / 60) for k in range(-1, 12)]
    simulator.reset(pose, places[1], before=(pose, places[0]))
    for root in places[2:]:
        simulator.step(pose, root)
    np.testing.assert_allclose(simulator.surface(), rig_skin(model, pose, places[-1]), atol=1e-6)
    simulator.reset(pose, places[1])  # at rest: now the jerk of setting off is felt
    for root in places[2:]:
        simulator.step(pose, root)
    assert np.abs(simulator.surface() - rig_skin(model, pose, places[-1])).max() > 1e-3


def test_forces_in_the_world_push_a_turned_character_as_turned_forces_push_an_upright_one():
    model, root = bar(), turned(1.1, 0, (0.3, 0, 1))
    pose, force = np.radians([20.0]), np.array([0.3, 0.5, -0.2])
    ends = []
    for there, acting in ((root, force), (np.eye(4), root[:3, :3].T @ force)):
        simulator = FullSimulator(model, gravity_mode="none", newton=10)
        simulator.reset(pose, there)
        for _ in range(10):
            simulator.step(forces={TIP: acting})
        ends.append(to_root(there, simulator.surface().astype(np.float64)))
    assert np.abs(ends[0] - model.rig(pose)).max() > 1e-3
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-6)


def test_a_force_on_the_skin_is_felt_by_the_tets_that_carry_it():
    """Its virtual work is the same: the sum of forces on the tets is the force."""
    simulator = FullSimulator(bar())
    load = simulator._skin_load(simulator._inputs.forces({3: [1.0, 2.0, 3.0], 4: [0.0, 0.0, 1.0]}))
    np.testing.assert_allclose(load.sum(axis=0), [1, 2, 4], atol=1e-12)
    moved = np.random.default_rng(0).normal(size=load.shape)
    skin = bar().embedding @ moved
    assert np.vdot(load, moved) == pytest.approx(skin[3] @ [1, 2, 3] + skin[4, 2])


@pytest.mark.parametrize("mode", ["relative", "absolute", "none"])
def test_a_turned_character_settles_where_g_minus_turned_g_puts_it(mode):
    model, pose, root = unbuilt_bar(3e5), np.radians([15.0]), turned(np.pi / 2, 2)
    simulator = FullSimulator(model, 1 / 20, alpha=4.0, beta=0.1, newton=5, gravity_mode=mode)
    simulator.reset(pose, root)
    for _ in range(200):
        simulator.step()
    g = np.array([0, -9.81, 0])
    acting = {"relative": g - root[:3, :3] @ g, "absolute": g, "none": 0 * g}[mode]
    np.testing.assert_allclose(acting_gravity(mode, g, root), acting)
    body, rest = ElasticBody(model.mesh, model.material()), to_world(root, model.tet_rig(pose))
    weight = body.vertex_masses()[:, None] * acting
    still = static_equilibrium(body, rest=rest, fixed=model.fixed, forces=weight).positions
    assert (np.abs(still - rest).max() > 0.01) == (mode != "none")
    np.testing.assert_allclose(simulator.positions, still, atol=1e-5)


def test_an_upright_character_does_not_sag_under_relative_gravity():
    simulator = FullSimulator(bar())
    for _ in range(20):
        simulator.step(root=turned(0.0, place=(0, 0, 0)))
    np.testing.assert_allclose(simulator.surface(), bar().surface.vertices, atol=1e-6)


def test_the_material_follows_the_pose():
    model = stiffening_bar()
    simulator = FullSimulator(model, gravity_mode="none", alpha=5.0, beta=0.1, newton=5, dt=1 / 20)
    pose = np.radians([30.0])
    simulator.reset(pose)
    for _ in range(150):
        simulator.step(pose, forces={TIP: [0.0, 0.05, 0.0]})
    blended = model.material(model.pose_weights(pose))
    assert 3.1e4 < np.mean(blended.young) < 8.9e4
    body, rest = ElasticBody(model.mesh, blended), model.tet_rig(pose)
    load = model.embedding.T @ np.eye(len(model.surface.vertices))[TIP][:, None] * [0.0, 0.05, 0.0]
    still = static_equilibrium(body, rest=rest, fixed=model.fixed, forces=load).positions
    moved = np.abs(still - rest).max()
    assert moved > 1e-3
    np.testing.assert_allclose(simulator.positions, still, atol=1e-3 * moved)


def test_a_body_takes_another_material_of_its_kind_and_density_only():
    body = ElasticBody(bar_mesh(CELLS), Material("stvk", young=1e4))
    x = body.rest * [1.1, 1.0, 1.0]
    softer = body.energy(x)
    body.set_material(Material("stvk", young=2e4))
    assert body.energy(x) == pytest.approx(2 * softer)
    others: tuple[Any, ...] = (Material("neo-hookean"), Material("stvk", density=900.0), "stvk")
    for other in others:
        with pytest.raises(SuppleError, match=r"make a new body"):
            body.set_material(other)
    assert body.energy(x) == pytest.approx(2 * softer)


def test_a_run_is_the_steps_of_its_motion():
    model = bar()
    motion = swing(model, 0.2)
    frames = FullSimulator(model, 1 / 60).run(motion)
    simulator, keys = FullSimulator(model, 1 / 60), motion.resample(60)
    simulator.reset(keys.poses[0], keys.roots[0])
    # A run begins as fast as the motion does: its rest shape came from as far as it goes.
    ahead = to_world(keys.roots[1], model.tet_rig(keys.poses[1]))
    simulator._rest_before = 2 * simulator.rest - ahead
    for index in range(1, keys.n_frames):
        simulator.step(keys.poses[index], keys.roots[index])
        np.testing.assert_array_equal(simulator.surface(), frames[index])
    assert len(frames) == keys.n_frames
    assert FullSimulator(model, 1 / 60).run(motion).tobytes() == frames.tobytes()


def test_a_run_takes_the_name_of_a_motion_and_an_array_to_write_to():
    simulator = FullSimulator(bar(), 1 / 5)
    told: list[float] = []
    out = np.empty((11, len(bar().surface.vertices), 3), np.float32)
    assert simulator.run("sweep", out=out, progress=told.append) is out
    assert told == sorted(told)
    assert told[-1] == 1.0
    np.testing.assert_array_equal(out, simulator.run(bar().motions["sweep"]))


def test_a_run_restarts_at_a_cut():
    model = bar()
    poses = np.radians([[0.0], [10.0], [50.0], [50.0]])
    motion = Motion([0.0, 0.1, 0.2, 0.3], poses, cuts=[2])
    frames = FullSimulator(model, 1 / 30).run(motion)
    np.testing.assert_allclose(frames[6:], [model.rig(poses[2])] * 4, atol=1e-6)
    assert np.abs(frames[4] - model.rig(motion.at(4 / 30)[0])).max() > 1e-4


@pytest.mark.parametrize(("centred", "order"), [(False, 1), (True, 2)])
def test_centred_accelerations_make_bdf2_of_second_order_for_a_rig_that_moves(centred, order):
    model = bar()
    ends = []
    for substeps in (2, 4, 8):
        simulator = FullSimulator(model, 1 / 60, substeps=substeps, integrator="bdf2", newton=10)
        ends.append(simulator.run(swing(model), centred=centred)[-1].astype(np.float64))
        assert simulator.unconverged_steps == 0
    ratio = np.linalg.norm(ends[0] - ends[1]) / np.linalg.norm(ends[1] - ends[2])
    assert np.log2(ratio) == pytest.approx(order, abs=0.4)


def test_substeps_between_given_poses_go_where_the_motion_goes():
    """Far nearer than straight lines would, whose kinks jerk the flesh at every pose."""
    model = unbuilt_bar(3e6)
    motion = Motion(swing(model).times, swing(model).poses)
    keys, fine = motion.resample(30), motion.resample(240)

    def stepped(simulator, poses, every):
        simulator.reset(poses[0])
        for index, pose in enumerate(poses[1:], 1):
            simulator.step(pose)
            if index % every == 0:
                yield simulator.surface()

    true, straight = (
        np.array(list(stepped(FullSimulator(model, 1 / 240, newton=5), poses, 8)))
        for poses in (fine.poses, np.interp(fine.times, keys.times, keys.poses[:, 0])[:, None])
    )
    smooth = FullSimulator(model, 1 / 30, substeps=8, newton=5)
    off = np.array(list(stepped(smooth, keys.poses, 1))) - true
    assert np.linalg.norm(off) < 0.15 * np.linalg.norm(straight - true)


def test_a_track_of_poses_has_no_kinks_and_is_exact_for_steady_acceleration():
    times = np.arange(6) / 5
    angles, place = 0.4 * times**2 + 0.3 * times, times**2
    roots = [turned(a, 1, (p, 0, 0)) for a, p in zip(angles, place, strict=True)]
    track = PoseTrack(angles[:1], roots[0])
    way = [each for k in range(1, 6) for each in track.towards(angles[k : k + 1], roots[k], 4)]
    fine = np.arange(1, 21) / 20
    later = slice(8, None)  # the start was at rest
    np.testing.assert_allclose(
        [pose[0] for pose, _ in way][later], (0.4 * fine**2 + 0.3 * fine)[later], atol=1e-12
    )
    for (_, root), time in list(zip(way, fine, strict=True))[later]:
        expected = turned(0.4 * time**2 + 0.3 * time, 1, (time**2, 0, 0))
        np.testing.assert_allclose(root, expected, atol=1e-12)


def test_roots_are_rigid_or_an_error():
    nearly = turned(0.3).astype(np.float32)
    exact = checked_root(nearly)[:3, :3]
    assert np.abs(exact @ exact.T - np.eye(3)).max() < 1e-14
    np.testing.assert_allclose(exact, nearly[:3, :3], atol=1e-6)
    given = turned(0.3)
    checked_root(given)[0, 0] = 5.0
    assert given[0, 0] != 5.0
    points = np.random.default_rng(0).normal(size=(5, 3))
    root = turned(0.8, 1, (1, 2, 3))
    np.testing.assert_allclose(to_root(root, to_world(root, points)), points, atol=1e-14)


def test_tets_that_a_pose_inverts_are_left_out_and_reported():
    simulator = FullSimulator(bar())
    simulator.reset(np.radians([100.0]))
    assert simulator.step(np.radians([101.0])).limits == ()
    simulator.reset([40.0])
    assert simulator.step([40.0]).limits == ("rest",)
    assert np.isfinite(simulator.surface()).all()
    assert simulator.step(np.radians([101.0])).limits == ()


def bad_roots():
    mirrored, scaled, nan, far, bent, huge = (np.eye(4) for _ in range(6))
    mirrored[0, 0], scaled[:3, :3], nan[0, 3], far[1, 3] = -1, 2 * np.eye(3), np.nan, 1e30
    bent[3, 0], huge[0, 1] = 0.5, 1e300
    return [mirrored, scaled, nan, far, bent, huge, np.eye(3), "root", np.zeros((4, 4)), 1j]


@pytest.mark.parametrize(
    "given",
    [{"root": root} for root in bad_roots()]
    + [{"pose": pose} for pose in ([np.nan], [0.0, 1.0], "bent", [1e300], np.zeros((1, 1)))]
    + [
        {"forces": forces}
        for forces in ({10**6: [0, 0, 1]}, {-1: [0, 0, 1]}, {0: [0, 1]}, {0: [np.inf, 0, 0]})
    ]
    + [{"forces": {True: [0, 0, 1]}}, {"forces": {0.5: [0, 0, 1]}}, {"forces": [[0, 0, 1]]}]
    + [{"forces": {TIP: [1e300, 0, 0]}}],
)
def test_hostile_input_is_an_error_and_leaves_the_state_untouched(given):
    simulator = FullSimulator(stiffening_bar(), substeps=2)
    pose, root = np.radians([20.0]), turned(0.2)
    simulator.reset(pose)
    simulator.step(np.radians([21.0]), root)

    def state():
        arrays = simulator.positions, simulator.velocities, simulator.pose, simulator.root
        settings = simulator.time, simulator.body.material
        return [each.tobytes() for each in arrays], settings, simulator.body.energy(arrays[0])

    before = state()
    with pytest.raises(SuppleError) as caught:
        simulator.step(**given)
    assert "\n" not in str(caught.value)
    assert state() == before
    if "forces" not in given:
        with pytest.raises(SuppleError):
            simulator.reset(**given)
        assert state() == before
    simulator.step(np.radians([22.0]), root)
    again = FullSimulator(stiffening_bar(), substeps=2)
    again.reset(pose)
    again.step(np.radians([21.0]), root)
    again.step(np.radians([22.0]), root)
    assert again.surface().tobytes() == simulator.surface().tobytes()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"substeps": 0}, "substeps must be 1 to"),
        ({"substeps": 1.5}, "whole numbers"),
        ({"gravity_mode": "sideways"}, "relative, absolute, none"),
        ({"integrator": "leapfrog"}, "bdf2"),
        ({"dt": -1.0}, "positive"),
    ],
)
def test_impossible_settings_of_a_character_are_errors(options, words):
    with pytest.raises(SuppleError, match=words):
        FullSimulator(bar(), **options)


def test_a_run_of_something_else_or_of_another_rig_is_an_error():
    simulator = FullSimulator(bar())
    for motion in ("swep", None, Motion([0.0, 1.0], np.zeros((2, 5)))):
        with pytest.raises(SuppleError):
            simulator.run(motion)
    with pytest.raises(SuppleError, match="out must be"):
        simulator.surface(np.empty((2, 3), np.float32))


def test_held_vertices_follow_rig_and_root():
    model, root = bar(), turned(0.4, 0, (0, 1, 0))
    simulator = FullSimulator(model)
    simulator.step(np.radians([10.0]), root)
    held = held_end(bar_mesh(CELLS))
    expected = to_world(root, model.tet_rig(np.radians([10.0])))[held]
    np.testing.assert_allclose(simulator.positions[held], expected, atol=1e-12)


def oscillator(integrator, omega, h, steps):
    """Amplitude √(u² + (v/ω)²) of ü = −ω²u, solved stage by stage."""

    def stage(u, v, tau):
        velocity = (v - tau * omega**2 * u) / (1 + (tau * omega) ** 2)
        return u + tau * velocity, velocity

    u, v, a, before = np.ones(1), np.zeros(1), np.full(1, -(omega**2)), None
    for _ in range(steps):
        moved = integrator_named(integrator).step(stage, StepStart(u, v, a, before), h)
        before, (u, v, a) = (u, v), moved
    return float(np.hypot(u, v / omega)[0])


def test_bdf2_damps_what_the_step_resolves_far_less_than_backward_euler():
    """By θ⁴/4 and θ²/2 of the amplitude a step, with θ = ωh."""
    theta = 0.1
    for integrator, loss in (("bdf2", theta**4 / 4), ("backward-euler", theta**2 / 2)):
        early, late = (oscillator(integrator, 1.0, theta, steps) for steps in (63, 691))
        # Ten turns between them, so that what the amplitude does within one does not count.
        assert np.log(early / late) / 628 == pytest.approx(loss, rel=0.1)


@pytest.mark.parametrize("integrator", ["backward-euler", "bdf2"])
def test_l_stable_integrators_kill_what_the_step_cannot_resolve(integrator):
    assert oscillator(integrator, 1.0, 1e4, 20) < 1e-8
    assert oscillator("newmark", 1.0, 1e4, 20) > 0.5


def test_bdf2_is_of_second_order_for_a_body_at_rest():
    body = ElasticBody(bar_mesh(CELLS), Material("neo-hookean", young=1e5, poisson=0.3))
    fixed = held_end(bar_mesh(CELLS))

    def fallen(steps):
        simulator = FullSimulator(body, 0.2 / steps, fixed=fixed, integrator="bdf2", newton=30)
        for _ in range(steps):
            simulator.step()
        return simulator.positions

    coarse, middle, fine = fallen(40), fallen(80), fallen(160)
    ratio = np.linalg.norm(coarse - middle) / np.linalg.norm(middle - fine)
    assert np.log2(ratio) == pytest.approx(2, abs=0.35)
