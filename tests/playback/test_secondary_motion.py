"""Curves of free parameters: the same at any frame rate, closed, settled, blended, scaled."""

from typing import Any

import numpy as np
import pytest

import supple
from helpers.spring_engine import SpringSimulator, spring_engine
from helpers.tail_file import tail_file
from supple.engines.engine import CharacterEngine
from supple.engines.optional_parts import FreeParameters
from supple.errors import SuppleError
from supple.maths.rotations import exponential, multiply
from supple.playback.secondary_motion import SHAKEN, curve_plan
from supple.rig import Motion
from supple.rig.character import Character

FREE = ["wag.r*", "tail_*.r*", "belly"]


@pytest.fixture(scope="module")
def character(tmp_path_factory) -> Character:
    return supple.load(tail_file(tmp_path_factory.mktemp("tail") / "tail.glb"))


@pytest.fixture(scope="module", autouse=True)
def springs():
    with spring_engine() as name:
        yield name


def made(character, free=FREE, **options):
    return supple.curves(character, engine="springs", free=free, anatomy=None, **options)


def test_the_engine_of_these_tests_keeps_the_contract(character):
    model = supple.build(character, engine="springs", free=FREE)
    simulator = SpringSimulator(model)
    assert isinstance(simulator, CharacterEngine)
    assert isinstance(simulator, FreeParameters)


def test_only_free_parameters_leave_their_keys(character):
    found = made(character)
    assert issubclass(type(found), Motion)
    assert found.name == "clip"
    names = [each.name for each in character.rig.parameters]
    moved = {names[k] for k in np.flatnonzero(np.abs(found.poses - found.keyed).max(axis=0))}
    assert moved == set(found.free)
    assert len(found.free) == 10
    assert np.allclose(found.keyed, character.motions["clip"].at(found.times)[0], atol=1e-12)
    assert found.report["free"] == 10
    assert found.report["moves"] > 0.002


def test_curves_are_the_same_at_24_30_60_and_120_frames_a_second(character):
    by_rate = {rate: made(character, rate=rate) for rate in (24, 30, 60, 120)}
    finest = by_rate[120]
    for rate, found in by_rate.items():
        assert found.n_frames == 2 * rate + 1
        assert np.abs(found.added - finest.added[:: 120 // rate]).max() < 1e-9
    odd = made(character, rate=25)  # whose frames lie between steps
    wave = np.stack([np.interp(odd.times, finest.times, c) for c in finest.added.T], axis=1)
    assert np.abs(odd.added - wave).max() < 0.02 * np.abs(finest.added).max()


def test_by_default_frames_are_those_of_the_clip(character):
    found = made(character)
    assert found.rate == pytest.approx(30)
    assert found.n_frames == 61
    slow = Motion([0, 0.5, 1.3], np.tile(character.rig.rest_pose, (3, 1)), name="sparse")
    assert curve_plan(character, slow).times[1] == pytest.approx(1 / 30)


def test_a_loop_closes(character):
    found = made(character, loop=True)
    assert np.array_equal(found.poses[-1], found.poses[0])
    assert found.loop
    assert found.report["cycles"] > 1
    assert found.report["loop_gap"] < 2e-4
    # Steps over the seam are as large as those beside it.
    steps = np.abs(np.diff(np.concatenate([found.added[-4:-1], found.added[:4]]), axis=0))
    assert steps[2:4].max() < 1.5 * np.delete(steps, [2, 3], axis=0).max() + 1e-6
    once = made(character)
    assert np.abs(once.added[0] - found.added[0]).max() > 1e-3


def test_it_starts_settled(character):
    still = Motion(
        np.arange(31) / 30, np.tile(character.motions["clip"].poses[7], (31, 1)), name="still"
    )
    sagging = {"simulation": {"sag": 0.2}, "motion": still}
    settled, sudden = made(character, **sagging, settle=5), made(character, **sagging, settle=0)
    assert np.ptp(settled.added, axis=0).max() < 1e-3 < 0.1 < np.ptp(sudden.added, axis=0).max()
    assert 0.5 < settled.report["settle_s"] < 5
    assert sudden.report["settle_s"] == 0
    assert np.abs(settled.added[0] - 0.2).max() < 1e-3


def test_a_part_of_a_clip_fades_in_and_out_and_moves_before_it_begins(character):
    part, whole = made(character, start=0.6, end=1.5), made(character)
    assert part.times[0] == 0.6
    assert part.times[-1] == 1.5
    assert part.span == (0.0, 2.0)
    assert not part.added[[0, -1]].any()
    inside = (part.times > 0.9) & (part.times < 1.2)
    same = whole.added[np.isin(whole.times.round(6), part.times[inside].round(6))]
    assert np.abs(part.added[inside] - same).max() < 1e-6
    bare = made(character, start=0.6, end=1.5, blend=0)
    assert np.abs(bare.added[0]).max() > 1e-3


def test_blending_is_requested_for_each_end(character):
    found = made(character, blend=(0.5, 0.0))
    assert not found.added[0].any()
    assert found.added[-1].any()
    with pytest.raises(SuppleError, match="no ends to blend"):
        made(character, blend=0.5, loop=True)


@pytest.mark.parametrize("loop", [False, True])
def test_smoothing_damps_what_is_fast_and_keeps_loops_closed(character, loop):
    ringing = {"hertz": 9.0, "loop": loop, "rate": 120, "settle": 0}
    ringing["simulation"] = {"sag": 0.1}
    rough, fine, slow = (made(character, smooth=s, **ringing) for s in (0, 1 / 9, 1.0))
    sudden = [np.abs(np.diff(each.added, 2, axis=0)).max() for each in (rough, fine, slow)]
    if not loop:
        assert sudden[2] < 0.1 * sudden[1] < 0.1 * 0.7 * sudden[0]
    else:
        assert np.array_equal(fine.poses[0], fine.poses[-1])
        ahead, behind = np.diff(fine.added[:2], axis=0), np.diff(fine.added[-2:], axis=0)
        assert np.abs(ahead - behind).max() < 0.2 * np.abs(np.diff(fine.added, axis=0)).max()


def test_smoothing_and_sampling_leave_no_weight_out_of_its_bounds(character):
    bouncing = made(character, push=5, hertz=9.0, smooth=0.1, rate=97)
    belly = bouncing.values[:, bouncing.free.index("belly")]
    assert 0 <= belly.min() < belly.max() <= 1


def test_strength_scales_what_was_added_and_keeps_weights_within_bounds(character):
    once, none, much = (made(character, push=5, strength=s) for s in (1, 0, 40))
    assert np.array_equal(none.poses, none.keyed)
    belly = once.free.index("belly")
    angles = np.arange(len(once.free)) != belly
    assert np.allclose(much.added[:, angles], 40 * once.added[:, angles], atol=1e-12)
    assert much.values[:, belly].min() == 0
    assert much.values[:, belly].max() <= 1
    for bad in (-1, np.nan, 1e6, "much"):
        with pytest.raises(SuppleError):
            once.scaled(bad)


def test_an_additive_motion_laid_over_the_keys_is_the_whole(character):
    found = made(character)
    over = found.additive()
    names = [each.name for each in character.rig.parameters]
    for joint in ("wag", "tail_2"):
        own = [names.index(f"{joint}.r{axis}") for axis in "xyz"]
        key, pose, added = (exponential(p[:, own]) for p in (found.keyed, found.poses, over.poses))
        assert np.allclose(multiply(key, added), pose, atol=1e-9)
    belly = names.index("belly")
    assert np.allclose(over.poses[:, belly] - 0.3, found.added[:, found.free.index("belly")])
    assert np.array_equal(over.roots, np.tile(np.eye(4), (61, 1, 1)))
    other = np.setdiff1d(np.arange(len(names)), found.columns)
    assert np.array_equal(over.poses[:, other], np.tile(character.rig.rest_pose, (61, 1))[:, other])


def test_the_skin_of_curves_is_the_simulators(character):
    model = supple.build(character, engine="springs", free=FREE)
    found = supple.curves(character, model=model, rate=120, settle=0, smooth=0)
    player = supple.Player(supple.Simulator(model, dt=1 / 120), "clip")
    for frame in range(40):
        assert np.abs(found.skin(frame) - player.surface()).max() < 1e-5
        player.step()
    baked = found.baked()
    assert np.allclose(baked.frames[39], found.skin(39), atol=1e-6)
    assert np.allclose(
        baked.rig_frame(39),
        character.rig(found.keyed[39]) @ found.roots[39][:3, :3].T + found.roots[39][:3, 3],
    )


def test_a_character_without_a_motion_is_shaken(character):
    still = Character("still", character.surface, character.rig)
    found = made(still)
    assert found.name == SHAKEN
    assert found.added.any()


def test_a_cut_restarts_the_flesh(character):
    clip = character.motions["clip"]
    found = made(character, motion=clip.with_cuts([30]), settle=0)
    assert found.cuts == (30,)
    assert np.abs(found.added[29]).max() > 1e-3 > np.abs(found.added[30]).max()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"free": ["nose*"]}, "nose"),
        ({"motion": "clap"}, 'did you mean "clip"'),
        ({"rate": 0}, "frames per second"),
        ({"rate": np.nan}, "finite"),
        ({"start": 3}, "lasts from 0 to 2 s"),
        ({"start": 1, "end": 1}, "has no duration"),
        ({"settle": -1}, "settle"),
        ({"blend": (1, 2, 3)}, "blend"),
        ({"strength": -1}, "strength"),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(character, options, said):
    with pytest.raises(SuppleError, match=said) as refused:
        made(character, **options)
    assert "\n" not in str(refused.value)


def test_an_engine_without_free_parameters_is_refused(character):
    with pytest.raises(SuppleError, match="moves no parameters of the rig"):
        supple.curves(character, engine="pose-space", tets=300, modes=4, poses=1, anatomy=None)


def test_a_simulation_that_diverges_is_an_error_that_names_the_parameter(character, monkeypatch):
    whole: Any = SpringSimulator.__dict__["parameters"].fget
    monkeypatch.setattr(
        SpringSimulator, "parameters", property(lambda s: whole(s) * (np.nan if s.time > 1 else 1))
    )
    with pytest.raises(SuppleError, match=r'"wag\.rx" diverges'):
        made(character)
