"""What moves is the file's own motion; a smooth copy drives the flesh, which is carried over."""

import warnings
from typing import Any

import numpy as np
import pytest

import supple
from helpers.gltf_evaluator import Evaluator
from helpers.gltf_validation import new_issues
from helpers.synthetic_clips import BUILDERS
from supple.errors import SuppleWarning
from supple.playback import Player
from supple.playback.bake_plan import bake_plan, bake_simulator
from supple.rig.motion.motion import Motion
from supple.rig.motion.motion_tracks import MotionTracks
from supple.rig.motion.tracks import Track

#: How far skin without flesh may be from the file's own motion: float32, as a part of the size.
SINGLE = 2e-6
SMALL: dict[str, Any] = {"tets": 400, "modes": 6, "basis": "modes", "poses": 2}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clips")
    return {name: make(folder / f"{name}.glb") for name, make in BUILDERS.items()}


def loaded(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SuppleWarning)
        return supple.load(path)


def model_of(character):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SuppleWarning)
        return supple.build(character, **SMALL)


@pytest.fixture(scope="module")
def swinging(files):
    character = loaded(files["swinging"])
    return character, model_of(character)


@pytest.mark.parametrize("name", [*BUILDERS])
def test_motions_are_at_any_time_what_an_independent_player_shows(files, name):
    file = Evaluator(files[name])
    character = loaded(files[name])
    count = 0
    for clip, motion in character.motions.items():
        times = np.linspace(motion.times[0], motion.times[-1], 97).astype(np.float32)
        times = np.unique(np.append(times, motion.times[-1])).astype(np.float64)
        near = np.abs(times[:, None] - motion.jumps).min(axis=1, initial=1.0)
        times = times[near > 1e-6]  # a jump may be a rounding of float32 early
        poses, roots = motion.at(times)
        shown = file.positions(clip, times)
        for pose, root, true in zip(poses, roots, shown, strict=True):
            found = character.rig(pose) @ root[:3, :3].T + root[:3, 3]
            welded = character.source.primitives[0].welded
            off = np.abs(found[welded[welded >= 0]] - true[welded >= 0]).max()
            assert off <= SINGLE * character.surface.size
        count += 1
    assert count == len(file.clips)


@pytest.mark.parametrize("name", [*BUILDERS])
def test_smooth_motions_pass_through_keys_and_stay_within_two_percent(files, name):
    character = loaded(files[name])
    size = character.surface.size
    for motion in character.motions.values():
        keys = motion.times if motion.n_frames < 2000 else motion.times[:: motion.n_frames // 500]
        pairs = [(motion.smooth.at(keys), motion.at(keys), 1e-6)]
        when = np.linspace(motion.times[0], motion.times[-1], 311)
        pairs.append((motion.smooth.at(when), motion.at(when), 0.02))
        for (poses, roots), (own, own_roots), most in pairs:
            for k in range(len(poses)):
                one = character.rig(poses[k]) @ roots[k][:3, :3].T + roots[k][:3, 3]
                two = character.rig(own[k]) @ own_roots[k][:3, :3].T + own_roots[k][:3, 3]
                assert np.abs(one - two).max() <= most * size, (motion.name, k)


def test_a_stiff_player_shows_the_files_motion_at_every_step(swinging):
    """Without forces flesh stays where the rig is, though it is stepped by the smooth motion."""
    character, model = swinging
    simulator = supple.Simulator(model, dt=1 / 180, gravity_mode="none")
    simulator.stiffness = 1e3
    motion = next(iter(character.motions.values()))
    player = Player(simulator, motion)
    own, apart = 0.0, 0.0
    while not player.finished:
        player.step()
        pose, root = motion.at(min(player.time, motion.times[-1]))
        true = character.rig(pose) @ root[:3, :3].T + root[:3, 3]
        smooth = player.motion.poses[player.frame], player.motion.roots[player.frame]
        stepped = character.rig(smooth[0]) @ smooth[1][:3, :3].T + smooth[1][:3, 3]
        own = max(own, np.abs(player.surface() - true).max() / character.surface.size)
        apart = max(apart, np.abs(stepped - true).max() / character.surface.size)
    assert apart > 2e-3  # the smooth motion is another
    assert own < 0.25 * apart


def test_flesh_is_carried_over_steps_of_the_file_and_feels_none(files):
    character = loaded(files["step_beside_linear"])
    motion = next(m for m in character.motions.values() if len(m.jumps))
    player = Player(supple.Simulator(model_of(character), dt=1 / 180), motion)
    jumps, limits = 0, set()
    while not player.finished:
        done = player.step()
        jumps += done is None
        limits |= set() if done is None else set(done.limits)
    assert jumps == len(motion.jumps)
    assert not limits


@pytest.mark.parametrize("loop", [False, True])
@pytest.mark.parametrize(
    "name", ["turning", "swinging", "flipping_signs", "one_ulp_apart", "cubic"]
)
def test_flesh_lands_on_the_files_own_clip(files, tmp_path, name, loop):
    original, target = files[name], tmp_path / "soft.glb"
    character = loaded(original)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SuppleWarning)
        model = model_of(character)
        for clip in list(character.motions)[:1]:
            baked = supple.bake(character, clip, model, loop=loop)
            figures = supple.save(target, baked)
    assert not figures["new"]
    old, new = Evaluator(original), Evaluator(target)
    assert new.clips == old.clips
    for clip in old.clips:
        mine = [c for c in old.channels(clip) if c.path != "weights"]
        theirs = [c for c in new.channels(clip) if c.path != "weights"]
        assert mine == theirs
    assert not new_issues(original, target)


def test_view_record_and_bake_show_the_same_bits(swinging):
    character, model = swinging
    name = next(iter(character.motions))
    baked = supple.bake(character, name, model)
    plan = bake_plan(character, name)
    simulator = bake_simulator(model, plan.dt)
    player = plan.player(simulator)
    for frame in baked.frames:
        np.testing.assert_array_equal(player.surface(), frame)
        for _ in range(plan.every):
            if not player.finished:
                player.step()


def test_a_hundred_thousand_keys_are_read_in_no_time(files):
    from time import process_time

    began = process_time()
    character = loaded(files["many_keys"])
    motion = next(iter(character.motions.values()))
    assert motion.n_frames > 90_000
    # A bound against something quadratic, not a measurement.
    assert process_time() - began < 20


def test_a_model_keeps_the_motion_of_its_file(swinging, tmp_path):
    character, model = swinging
    model.save(tmp_path / "a.supple")
    again = supple.load_model(tmp_path / "a.supple")
    for name, motion in character.motions.items():
        times = np.linspace(motion.times[0], motion.times[-1], 77)
        for own, kept in [
            (motion, again.motions[name]),
            (motion.smooth, again.motions[name].smooth),
        ]:
            for one, other in zip(own.at(times), kept.at(times), strict=True):
                np.testing.assert_array_equal(one, other)


def test_a_loop_whose_last_key_steps_back_feels_nothing_of_its_seam(files):
    """A steady walk: flesh that is carried over the step at the seam goes on with it."""
    character = loaded(files["step_beside_linear"])
    own = next(m for m in character.motions.values() if len(m.jumps))
    space, times = own.tracks.space, np.array([0.0, 1.0])
    joint = space.split.joint if space.split.joint >= 0 else 0
    places = np.repeat(space.skeleton.translations[None, joint], 2, axis=0)
    places[1, 0] += 2.0
    turns = np.repeat(space.skeleton.rotations[None, [-1]], 3, axis=0)
    turns[1] = [0, 0, np.sin(0.4), np.cos(0.4)]
    walk = Track("translation", np.array([joint]), "LINEAR", times, places[:, None])
    tip = np.array([space.skeleton.n_joints - 1])
    step = Track("rotation", tip, "STEP", np.array([0.0, 0.5, 1.0]), turns)
    tracks = MotionTracks(space, (walk, step))
    keys = np.array([0.0, 0.5, 1.0])
    motion = Motion(keys, *tracks.sample(keys), "walk", (), tracks)
    simulator = supple.Simulator(model_of(character), dt=1 / 180, gravity_mode="none")
    player, most = Player(simulator, motion, loop=True), 0.0
    for _ in range(3 * player.n_steps):
        player.step()
        most = max(most, float(np.abs(simulator.q).max()))
    assert player.seamless
    assert most < 1e-6
