"""Baking: the frames of a motion with flesh, once or as a cycle that closes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from helpers.build_samples import (
    MATERIAL,
    STEPPED,
    bar_options,
    bending_bar,
    jointed_arm,
    stepped_model,
)
from supple.anatomy.flesh_presets import flesh_material, stiffness_factors
from supple.engines.full.factory import FullSimulator
from supple.engines.pose_space.simulator import PoseSpaceSimulator
from supple.errors import SuppleError, SuppleWarning
from supple.maths.rotations import exponential, to_matrix
from supple.playback.bake_model import check_model, model_options
from supple.playback.bake_plan import bake_plan, bake_simulator
from supple.playback.baking import bake, bake_all
from supple.playback.character_sources import read_character
from supple.playback.cycle import cycle_table, steps_of_frames
from supple.playback.motion_choice import liveliness
from supple.playback.player import Player
from supple.rig.baked_motion import BakedMotion
from supple.rig.character import Character, wiggle
from supple.rig.deformers.blend_shapes import BlendShapeRig
from supple.rig.motion.motion import Motion
from supple.rig.protocol import FunctionRig, Parameter

PERIOD, KEYS = 0.8, 24


def bar() -> Character:
    return bending_bar(cells=STEPPED)


def swinging(cycles: int = 1, walk: float = 0.0, yaw: float = 0.0, strength: float = 0.1) -> Motion:
    """To and fro, keys at 30 a second; walking by `walk` m and turning by `yaw` each cycle."""
    times = np.arange(KEYS * cycles + 1) * PERIOD / KEYS
    phase = 2 * np.pi * times / PERIOD
    poses = strength * (np.sin(phase) + 0.3 * np.cos(2 * phase))[:, None]
    roots = np.tile(np.eye(4), (len(times), 1, 1))
    turned = yaw * times / PERIOD + 0.1 * np.sin(phase)
    roots[:, :3, :3] = to_matrix(exponential(turned[:, None] * [0.0, 1.0, 0.0]))
    if yaw == 0:
        roots[:, 0, 3] = walk * times / PERIOD
    roots[:, 1, 3] = 0.05 * np.sin(phase)
    return Motion(times, poses, roots, "swing")


def offsets(baked: BakedMotion) -> np.ndarray:
    """What flesh adds to the rig, in the root's frame."""
    added = np.array([baked.frames[k] - baked.rig_frame(k) for k in range(baked.n_frames)])
    return added @ baked.motion.roots[:, :3, :3]


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.tobytes() == b.tobytes()


def test_a_player_gives_the_bits_of_a_run():
    model, motion = stepped_model("firm"), swinging()
    expected = PoseSpaceSimulator(model).run(motion)
    player = Player(PoseSpaceSimulator(model), motion)
    frames = [player.surface()]
    while not player.finished:
        player.step()
        frames.append(player.surface())
    assert same_bits(np.array(frames), expected)


@pytest.mark.parametrize(("rate", "every"), [(30, 6), (25, 8), (90, 2), (240, 1), (24, 8)])
def test_a_bake_is_the_player_stepped_by_hand_and_again_the_same_bits(rate, every):
    model, motion = stepped_model("firm"), swinging()
    baked = bake(bar(), motion, model, rate=rate)
    assert steps_of_frames(rate, longest=1 / 180) == (1 / (rate * every), every)
    player = Player(bake_simulator(model, 1 / (rate * every)), motion)
    for frame in baked.frames:
        assert same_bits(player.surface(), frame)
        for _ in range(every):
            player.step()
    assert same_bits(bake(bar(), motion, model, rate=rate).frames, baked.frames)
    assert baked.rate == pytest.approx(rate)
    np.testing.assert_allclose(baked.times, np.arange(baked.n_frames) / rate, atol=1e-12)
    assert baked.times[-1] > PERIOD - 1 / rate
    np.testing.assert_allclose(baked.motion.poses, motion.at(baked.times)[0], atol=1e-12)


def test_flesh_lags_behind_the_rig_and_the_first_frame_is_the_rig():
    baked = bake(bar(), swinging(), stepped_model("firm"))
    added = np.abs(offsets(baked)).max(axis=(1, 2))
    assert added[0] < 1e-6
    assert added.max() > 0.01


def test_a_part_of_a_motion_has_the_clips_own_times_and_poses():
    motion = swinging(3)
    baked = bake(bar(), motion, stepped_model("firm"), start=0.5, end=1.1)
    assert baked.times[0] == 0.5
    assert 1.1 - 1 / 30 < baked.times[-1] <= 1.1
    np.testing.assert_allclose(baked.motion.poses, motion.at(baked.times)[0], atol=1e-12)
    np.testing.assert_allclose(baked.motion.roots, motion.at(baked.times)[1], atol=1e-12)


@pytest.mark.parametrize(("walk", "yaw"), [(0.0, 0.0), (0.6, 0.0), (0.0, 0.7)])
def test_a_loop_is_what_many_cycles_one_after_another_come_to(walk, yaw):
    model = stepped_model("firm")
    loop = bake(bar(), swinging(1, walk, yaw), model, loop=True)
    size, cycles = bar().surface.size, 12
    many = bake(bar(), swinging(cycles, walk, yaw), model)
    per_cycle = loop.n_frames - 1
    last = slice((cycles - 2) * per_cycle, (cycles - 1) * per_cycle + 1)
    # Bring it back to where the clip is.
    back = loop.motion.roots[0] @ np.linalg.inv(many.motion.roots[last.start])
    expected = many.frames[last] @ back[:3, :3].T + back[:3, 3]
    assert np.abs(loop.frames - expected).max() < 5e-4 * size
    assert loop.report["seamless"]


def test_the_last_frame_of_a_loop_is_its_first_and_has_the_clips_times():
    # A length that is no whole number of frames.
    motion = swinging()
    motion = Motion(motion.times * 1.037 + 2.0, motion.poses, motion.roots, "odd")
    baked = bake(bar(), motion, stepped_model("firm"), loop=True)
    size = bar().surface.size
    assert np.abs(baked.frames[-1] - baked.frames[0]).max() < 1e-3 * size
    assert np.abs(offsets(baked)[0]).max() > 1e-3 * size  # it does not start at rest
    assert (baked.times[0], baked.times[-1]) == (motion.times[0], motion.times[-1])
    assert baked.rate == pytest.approx(30, rel=0.05)
    assert np.ptp(np.diff(baked.times)) < 1e-9
    assert baked.loop
    assert baked.report["loop_gap"] <= 2e-4


def test_flesh_that_never_repeats_itself_is_blended_into_a_loop_without_a_jolt():
    ringing: dict[str, Any] = {"damping": 0.0, "simulation": {"integrator": "newmark"}}
    with pytest.warns(SuppleWarning, match="blended to close the loop"):
        baked = bake(bar(), swinging(), stepped_model("firm"), loop=True, **ringing)
    frames, size = baked.frames.astype(np.float64), bar().surface.size
    assert baked.report["blended"]
    assert np.abs(frames[-1] - frames[0]).max() < 1e-6 * size
    count = len(frames) - 1
    around = np.concatenate([frames[:-1], frames[:-1]])
    jolts = np.abs(np.diff(around, 2, axis=0)).max(axis=(1, 2))
    assert jolts[count - 2 : count].max() <= 1.1 * jolts[: count - 2].max()


def test_accelerations_do_not_jump_across_the_seam():
    table = cycle_table(swinging(), bar().rig, bar().surface.size, 1 / 90, None, None)
    poses, count = table.motion.poses[:, 0], table.n_steps
    np.testing.assert_array_equal(poses[0], poses[-1])
    around = np.concatenate([poses[:-1], poses[:-1], poses[:-1]])
    bends = np.diff(around, 3)  # what the acceleration changes by in a step
    seam = np.abs(bends[count - 3 : count]).max()
    elsewhere = np.abs(bends[count + 3 : 2 * count - 3]).max()
    assert seam < 1.05 * elsewhere


def test_a_rig_that_does_not_close_jumps_and_its_flesh_is_carried_over():
    motion = swinging()
    poses = motion.poses + 0.3 * motion.times[:, None] / PERIOD
    open_ended = Motion(motion.times, poses, motion.roots, "open")
    for engine in ("pose-space", "full"):
        with pytest.warns(SuppleWarning, match="only the flesh is continuous"):
            baked = bake(bar(), open_ended, stepped_model("firm"), loop=True, engine=engine)
        added, size = offsets(baked), bar().surface.size
        assert not baked.report["seamless"]
        assert np.abs(baked.motion.poses[-1] - poses[-1]).max() < 1e-9
        # The bar has another shape there; as far as it is the same, so is what flesh adds.
        apart = np.linalg.norm(added[0] - added[-1], axis=1).max()
        assert np.linalg.norm(added[0], axis=1).max() > 4e-3 * size
        assert apart < 0.4 * np.linalg.norm(added[0], axis=1).max()
        assert baked.report["loop_gap"] < 2e-4


def test_cycles_of_a_player_go_on_and_its_skin_stays_where_the_clip_is():
    model = stepped_model("firm")
    player = Player(PoseSpaceSimulator(model), swinging(1, walk=0.5), loop=True)
    middles = []
    for _ in range(4 * player.n_steps):
        player.step()
        middles.append(player.surface()[:, 0].mean())
    assert player.cycle == 3
    assert player.frame == player.n_steps
    assert not player.finished
    assert np.ptp(middles) < 1.2
    second, third = (middles[k * player.n_steps : (k + 1) * player.n_steps] for k in (2, 3))
    np.testing.assert_allclose(second, third, atol=1e-3)


def test_seeking_starts_anew_there_and_a_finished_player_comes_to_rest():
    model = stepped_model("firm")
    simulator = PoseSpaceSimulator(model)
    player = Player(simulator, swinging())
    player.seek(0.41)
    assert player.time == pytest.approx(0.41, abs=1 / 180)
    assert np.abs(simulator.q).max() == 0
    before = player.time
    player.step()
    assert player.time == pytest.approx(before + 1 / 90)
    player.seek(99)
    assert player.finished
    for _ in range(800):
        player.step()
    assert player.time == pytest.approx(PERIOD)
    assert np.abs(simulator.velocity).max() < 1e-3 * np.abs(simulator.q).max() + 1e-3
    player.restart()
    assert player.time == 0
    assert not player.finished


def test_flesh_restarts_at_a_cut():
    motion = swinging()
    poses = motion.poses.copy()
    poses[12:] -= 0.9
    cut = Motion(motion.times, poses, motion.roots, "cut", cuts=(12,))
    baked = bake(bar(), cut, stepped_model("firm"))
    assert baked.motion.cuts == (12,)
    added = np.abs(offsets(baked)).max(axis=(1, 2))
    assert added[12] < 1e-6 < 1e-3 < added[11]


def test_the_full_engine_is_the_full_simulator_and_near_the_reduced_one():
    model, motion = stepped_model("firm"), swinging()
    full = bake(bar(), motion, model, engine="full", rate=180)
    expected = FullSimulator(model, dt=1 / 180).run(motion)
    # Which knows better how fast it all begins.
    np.testing.assert_allclose(full.frames, expected, atol=1e-3)
    reduced = bake(bar(), motion, model, rate=180)
    moved = np.abs(offsets(full)).max()
    assert np.abs(full.frames - reduced.frames).max() < 0.35 * moved
    assert full.report["engine"] == "full"


@pytest.mark.filterwarnings("ignore:.*the reduced model with:supple.errors.SuppleWarning")
def test_softer_flesh_moves_more_and_the_stiffest_is_the_rig():
    options = bar_options(STEPPED, poses=1, material=replace(MATERIAL, young=3e6))
    moved = {}
    for name in ("firm", "normal", "soft", "jelly"):
        baked = bake(bar(), swinging(), flesh=name, **options)
        moved[name] = np.abs(offsets(baked)).max()
    assert moved["firm"] < moved["normal"] < moved["soft"] < moved["jelly"]
    with pytest.warns(SuppleWarning, match="the flesh is too stiff for this motion"):
        rigid = bake(bar(), swinging(), young=1e12, **options)
    assert np.abs(offsets(rigid)).max() < 1e-4


def test_presets_scale_the_stiffness_for_the_size_and_numbers_replace_it():
    character = jointed_arm()
    usual = float(np.asarray(flesh_material(character.surface.size).young))
    for name, factor in (("firm", 4.0), ("normal", 1.0), ("soft", 0.4), ("jelly", 0.15)):
        young = model_options(character, name, anatomy=None)["material"].young
        assert young == pytest.approx(factor * usual, rel=1e-5)
    told: dict[str, Any] = {"young": 123.0, "poisson": 0.3, "tets": 99}
    chosen = model_options(character, "jelly", anatomy=None, **told)
    assert (chosen["material"].young, chosen["material"].poisson) == (123.0, 0.3)
    assert chosen["tets"] == 99
    painted = model_options(character, "soft", painted=np.full(5, 10.0), anatomy=None)["young"]
    np.testing.assert_allclose(painted, 4.0)


def test_more_damping_comes_to_rest_sooner():
    model, motion = stepped_model("firm"), swinging()
    still = np.concatenate([motion.poses, np.tile(motion.poses[-1], (40, 1))])
    times = np.arange(len(still)) * PERIOD / KEYS
    roots = np.concatenate([motion.roots, np.tile(motion.roots[-1], (40, 1, 1))])
    stopping = Motion(times, still, roots, "stopping")
    left = [
        np.abs(offsets(bake(bar(), stopping, model, damping=damping))[-12:]).max()
        for damping in (0.0, 1.0, 3.0)
    ]
    assert left[0] > left[1] > left[2]


def test_stiffness_of_joints_is_blended_by_skin_weights():
    character = jointed_arm()
    weights: Any = character.rig.weight_matrix()  # type: ignore[attr-defined]
    share = weights.toarray()[:, 1]
    factors = stiffness_factors(character, {"joints": {"*": 4.0, "for?": 0.25}})
    np.testing.assert_allclose(factors, 4.0 ** (1 - 2 * share))
    usual = stiffness_factors(character, {"joints": {"fore": 0.1}, "default": 2.0})
    np.testing.assert_allclose(usual, 2.0 * 0.05**share)
    shapes = BlendShapeRig(character.rig, np.zeros((1, len(share), 3)), ["smile"])  # type: ignore[arg-type]
    wrapped = replace(character, rig=shapes)
    np.testing.assert_array_equal(
        stiffness_factors(wrapped, {"joints": {"*": 4.0, "fore": 0.25}}), factors
    )


def test_stiffness_of_vertices_goes_before_that_of_joints():
    character = jointed_arm()
    given = {"joints": {"*": 4.0}, "vertices": {"3": 0.5, "10 - 12": 2}}
    factors = stiffness_factors(character, given)
    assert (factors[3], factors[2], factors[4]) == (0.5, 4.0, 4.0)
    np.testing.assert_array_equal(factors[9:14], [4, 2, 2, 2, 4])
    listed = np.linspace(0.5, 2, len(factors))
    np.testing.assert_array_equal(stiffness_factors(character, listed), listed)


def test_a_stiffer_joint_moves_less():
    told = {"poses": 1, "basis": "modes", "material": replace(MATERIAL, young=1e5)}
    options = bar_options((12, 2, 2), **told)
    character, motion = jointed_arm(), jointed_arm().motions["Swing"]
    moved = [
        np.abs(offsets(bake(character, motion, stiffness={"joints": {"fore": each}}, **options)))
        for each in (1.0, 20.0)
    ]
    tip = character.surface.vertices[:, 0] > 0.8
    assert moved[1][:, tip].max() < 0.6 * moved[0][:, tip].max()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"joints": {"fure": 2}}, 'no joint "fure"; did you mean "fore"'),
        ({"joints": {"zzzz": 2}}, "there are upper, fore"),
        ({"joints": {"fore": 0}}, "from 0.001 to 1000"),
        ({"joints": {"fore": "soft"}}, "must be"),
        ({"joints": {"fore": True}}, "must be a number"),
        ({"joints": 3}, "must map names to factors"),
        ({"joint": {}}, 'unknown key "joint"; use default, joints, vertices'),
        ({"vertices": {"x": 1}}, "names no vertices"),
        ({"vertices": {"5-2": 1}}, "use a range within 0 to"),
        ({"vertices": {"99999999": 1}}, "use a range within 0 to"),
        ({"default": float("nan")}, "not finite"),
        ([1.0, 2.0], "shape"),
    ],
)
def test_stiffness_that_cannot_be_is_refused_in_a_line(given, said):
    with pytest.raises(SuppleError, match=said) as caught:
        stiffness_factors(jointed_arm(), given)
    assert "\n" not in str(caught.value)


def test_a_rig_without_joints_has_no_stiffness_by_joint():
    with pytest.raises(SuppleError, match="has no joints; give stiffness by vertices"):
        stiffness_factors(bar(), {"joints": {"*": 2}})


def test_a_character_without_motion_wiggles_and_that_closes():
    still = replace(bar(), motions={})
    baked = bake(still, None, stepped_model("firm"), loop=True)
    assert baked.motion.name == "wiggle"
    assert baked.report["seamless"]
    size = still.surface.size
    assert 1e-3 * size < np.abs(offsets(baked)).max() < 0.2 * size
    assert np.abs(offsets(baked)[-1]).max() < 0.02 * size
    motion = wiggle(still)
    np.testing.assert_allclose(motion.roots[[0, -1]], np.tile(np.eye(4), (2, 1, 1)), atol=1e-12)
    assert bake_plan(bar(), "wiggle").motion.name == "wiggle"
    assert bake_plan(bar()).motion.name == "sweep"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"motion": "sweeep"}, 'no motion "sweeep"; did you mean "sweep"'),
        ({"motion": "SWEEEP"}, 'did you mean "sweep"'),
        ({"motion": "zzz"}, "there are sweep"),
        ({"motion": 3}, 'no motion "3"'),
        ({"rate": 0}, "0 frames per second; use 1 to 1000"),
        ({"rate": float("nan")}, "not finite"),
        ({"rate": "fast"}, "must be"),
        ({"start": 1.0, "end": 0.5}, "1 to 0.5 s is not a valid part of it"),
        ({"start": -3}, "lasts from 0 to 2 s"),
        ({"end": 1e300}, "lasts from 0 to 2 s"),
        ({"start": 1, "end": 1, "loop": True}, "nothing to loop"),
        ({"engine": "magic"}, 'no engine "magic"; there are pose-space, full'),
        ({"engine": "ful"}, 'no engine "ful"; did you mean "full"'),
        ({"engine": "stvk"}, "the engine stvk is for a body, not a character"),
        ({"flesh": "softt"}, "no flesh 'softt'; did you mean"),
        ({"flesh": "jelly"}, "determines the flesh; leave out flesh"),
        ({"young": 3.0, "tets": 9}, "leave out young, tets"),
        ({"damping": -1}, "use 0 to 100"),
        ({"simulation": {"gravity_mode": "up"}}, "no gravity"),
    ],
)
def test_invalid_bakes_are_one_line_errors(options, said):
    with pytest.raises(SuppleError, match=said) as caught:
        bake(bar(), model=stepped_model("firm"), **options)
    assert "\n" not in str(caught.value)


def test_a_model_of_another_character_is_refused():
    with pytest.raises(SuppleError, match="for another character"):
        bake(jointed_arm(), model=stepped_model("firm"))
    with pytest.raises(SuppleError, match="is not a model; "):
        bake(bar(), model="bar.supple")  # type: ignore[arg-type]


@pytest.mark.parametrize("changed", ["name", "way"])
def test_a_model_of_another_rig_with_the_same_skin_is_refused(changed):
    own = bar()
    name = "other" if changed == "name" else own.rig.parameters[0].name
    sign = -1 if changed == "way" else 1
    rig = FunctionRig(
        lambda pose: own.rig(sign * np.asarray(pose)),
        [Parameter(name, own.rig.parameters[0].unit)],
        own.rig.n_vertices,
    )
    other = replace(own, rig=rig, motions={"swing": swinging()})
    assert np.array_equal(rig(rig.rest_pose), own.rig(own.rig.rest_pose))
    model = stepped_model("bar")
    check_model(own, model)
    with pytest.raises(SuppleError, match="has another rig"):
        bake(other, model=model)


def test_a_folder_with_the_name_of_a_scene_does_not_hide_it(tmp_path, monkeypatch):
    (tmp_path / "x").mkdir()
    monkeypatch.chdir(tmp_path)
    assert read_character("x").scene == "x"


def test_a_motion_too_short_to_loop_or_too_long_to_keep_is_refused():
    short = Motion([0.0, 0.01], [[0.0], [0.0]], name="blink")
    with pytest.raises(SuppleError, match="too short to loop"):
        Player(PoseSpaceSimulator(stepped_model("firm")), short, loop=True)
    long = Motion([0.0, 1e9], [[0.0], [0.0]], name="geology")
    with pytest.raises(SuppleError, match="too long"):
        bake(bar(), long, stepped_model("firm"))


def test_a_single_pose_is_a_single_frame():
    baked = bake(bar(), Motion([0.5], [[0.3]], name="pose"), stepped_model("firm"))
    assert baked.frames.shape[0] == 1
    assert np.abs(baked.frames[0] - baked.rig_frame(0)).max() < 1e-6


def test_progress_rises_to_one_and_an_interrupt_passes():
    told: list[float] = []
    bake(bar(), swinging(), stepped_model("firm"), progress=lambda part, what: told.append(part))
    assert told == sorted(told)
    assert told[-1] == 1

    def stop(part: float, what: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bake(bar(), swinging(), stepped_model("firm"), progress=stop)


def with_motions(*motions: Motion) -> Character:
    return replace(bar(), motions={motion.name: motion for motion in motions})


def named(motion: Motion, name: str) -> Motion:
    return replace(motion, name=name)


def test_the_liveliest_motion_is_that_of_the_largest_accelerations_whatever_its_place():
    still = Motion([0.0], [[0.0]], name="pose")
    slow = named(swinging(2, strength=0.02), "slow")
    wild = named(swinging(strength=0.2), "wild")
    slide = Motion([0.0, 1.0, 2.0], np.zeros((3, 1)), name="slide")  # evenly: nothing pulls
    moved = slide.roots.copy()
    moved[:, 0, 3] = 20 * slide.times
    slide = replace(slide, roots=moved)
    for order in ([still, slow, wild, slide], [wild, slide, slow, still]):
        assert bake_plan(with_motions(*order)).motion is wild
    values = {each.name: liveliness(bar(), each) for each in (still, slide, slow, wild)}
    assert values["pose"] == 0
    assert values["slide"] < 1e-9
    assert 0 < values["slow"] < values["wild"]


def test_liveliness_does_not_depend_on_cuts_or_size():
    calm = np.zeros((40, 1))
    times = np.arange(40) / 20
    roots = np.tile(np.eye(4), (40, 1, 1))
    roots[20:, 0, 3] = 5.0
    assert liveliness(bar(), Motion(times, calm, roots, "put elsewhere", [20])) == 0
    assert liveliness(bar(), Motion(times, calm, roots, "jumps")) > 0.01


def test_all_motions_are_baked_with_one_model_to_the_bits_of_each():
    character = with_motions(named(swinging(), "a"), Motion([0.5], [[0.05]], name="pose"))
    model = stepped_model("firm")
    bakes = bake_all(character, model, loop=True)
    assert [each.motion.name for each in bakes] == ["a", "pose"]
    assert [each.loop for each in bakes] == [True, False]  # a pose has nothing to loop
    alone = bake(character, "a", model, loop=True)
    assert same_bits(bakes[0].frames, alone.frames)
    parts: list[float] = []
    told = bake_all(character, model, motions=["pose", "a"], progress=lambda p, _: parts.append(p))
    assert [each.n_frames for each in told] == [1, 25]
    assert parts == sorted(parts)
    assert parts[-1] == 1
    with pytest.raises(SuppleError, match="no motion to bake"):
        bake_all(character, model, motions=[])
    (shaken,) = bake_all(replace(bar(), motions={}), model)
    assert shaken.motion.name == "wiggle"
