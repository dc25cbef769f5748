"""Bakes of final quality: unreduced, converged in time, and gone on with after an interrupt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supple
from helpers.build_samples import bending_bar, flesh_options, stepped_model
from supple.dynamics import implicit
from supple.engines.engine import ENGINES
from supple.engines.full.full_character import FullCharacterSimulator
from supple.engines.full.model import FullModel
from supple.engines.pose_space.build.sampled_poses import SampledPoses
from supple.errors import SolverError, SuppleError, SuppleWarning
from supple.lab.fidelity.truth import rig_surface, truth
from supple.mesh.obstacles import Plane
from supple.playback import final_take, refined_player
from supple.playback import take as take_module
from supple.playback.bake_plan import QUALITIES, bake_plan, bake_simulator, flesh_damping
from supple.playback.baking import bake, bake_all
from supple.playback.final_take import (
    ACCURACY,
    CONVERGING,
    content_of,
    displacement_change,
    rms_difference,
)
from supple.playback.player import Player
from supple.playback.refined_player import RefinedPlayer
from supple.playback.take import Take
from supple.progress import unreported
from supple.rig.motion.motion import Motion
from supple.user_cache import running_cache

CELLS = (6, 2, 2)
BAR = bending_bar(cells=CELLS)


@cache
def flesh() -> FullModel:
    made: FullModel = supple.build(BAR, engine="full", **flesh_options(CELLS))
    return made


def firm() -> FullModel:
    return replace(flesh(), young=3e6)


def swing(seconds: float = 0.2, keys: int = 13, cuts: tuple[int, ...] = ()) -> Motion:
    """To and fro once, bending and shaken."""
    phase = np.linspace(0, 2 * np.pi, keys)
    roots = np.tile(np.eye(4), (keys, 1, 1))
    roots[:, 1, 3] = 0.05 * np.sin(phase)
    poses = 0.4 * np.sin(phase)[:, None]
    return Motion(np.linspace(0, seconds, keys), poses, roots, "swing", cuts)


def jerk() -> Motion:
    """One quick to and fro between two slow ones."""
    times = np.linspace(0, 0.6, 61)
    poses = 0.3 * np.sin(2 * np.pi * times / 0.6) + 0.1 * np.exp(-(((times - 0.3) / 0.02) ** 2))
    return Motion(times, poses[:, None], name="jerk")


def named_swing(seconds: float) -> Motion:
    moved = swing(seconds)
    return Motion(moved.times, moved.poses, moved.roots, f"of {seconds:.2f} s")


def final(motion: Motion | None = None, model: Any = None, **options: Any) -> Any:
    given = swing() if motion is None else motion
    return bake(BAR, given, model or flesh(), quality="final", **options)


def loop() -> dict[str, Any]:
    """A cycle that closes after a few."""
    return {"motion": swing(0.1), "model": firm(), "loop": True, "damping": 10.0}


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with a checkpoint after each segment of one frame."""
    monkeypatch.setenv("SUPPLE_CACHE", str(tmp_path))
    monkeypatch.setattr(refined_player, "SEGMENT", 0.0)
    for name in ("EVERY", "AT_ENDS", "RATIO"):
        monkeypatch.setattr(final_take, name, 0.0)
    return tmp_path


def interrupt(after: int) -> Callable[[float, str], None]:
    heard = []

    def tell(part: float, what: str) -> None:
        heard.append(part)
        if len(heard) == after:
            raise KeyboardInterrupt

    return tell


def test_final_is_within_three_hundredths_of_a_truth_that_is_twice_as_fine():
    baked = final()
    assert baked.report["converged"]
    assert 0 < baked.report["change"] <= ACCURACY
    simulator = bake_simulator(flesh(), engine="full")
    same = {"gravity": simulator.gravity, **flesh_damping("normal")}
    finer = truth(flesh(), swing(), 90, accuracy=baked.report["change"] / 2, **same)
    assert finer.substeps > baked.report["substeps"]["most"]
    assert rms_difference(baked.frames, finer.frames[::3], finer.rig[::3]) < 0.03


def test_segments_with_different_steps_are_as_accurate_as_one_short_step(monkeypatch):
    monkeypatch.setattr(refined_player, "SEGMENT", 0.05)
    motion = jerk()
    baked = final(motion, rate=90.0)
    chosen = baked.report["substeps"]
    assert chosen["least"] < chosen["mean"] < chosen["most"]
    simulator = bake_simulator(flesh(), engine="full")
    same = {"gravity": simulator.gravity, **flesh_damping("normal")}
    finer = truth(flesh(), motion, 90, accuracy=baked.report["change"] / 8, **same)
    assert finer.substeps > chosen["most"]
    assert rms_difference(baked.frames, finer.frames, finer.rig) < 0.03


def test_flesh_alone_is_that_of_a_reduced_model_to_the_bit_and_needs_no_reduction(monkeypatch):
    reduced = stepped_model("bar")
    assert final(model=reduced).frames.tobytes() == final().frames.tobytes()

    def never(*args: Any) -> None:
        raise AssertionError("reduced")

    monkeypatch.setattr(SampledPoses, "reduce", never)
    options = flesh_options(CELLS) | {"anatomy": None, "bones": None}
    with pytest.warns(SuppleWarning, match="nothing holds its flesh"):
        baked = bake(BAR, swing().slice(0, 0.05), quality="final", **options)
    assert baked.report["engine"] == "full"
    assert "modes" not in baked.report


def test_a_model_of_flesh_is_saved_and_loaded_and_steps_the_same(tmp_path):
    flesh().save(tmp_path / "bar.supple")
    loaded = supple.load_model(tmp_path / "bar.supple")
    assert type(loaded) is FullModel
    loaded.save(tmp_path / "again.supple")
    assert (tmp_path / "again.supple").read_bytes() == (tmp_path / "bar.supple").read_bytes()
    short = swing().slice(0, 0.1)
    assert final(short, loaded).frames.tobytes() == final(short).frames.tobytes()


def test_a_player_that_looks_ahead_gives_the_bits_of_a_centred_run():
    motion, made = swing(cuts=(7,)), FullCharacterSimulator(flesh(), 1 / 90, **CONVERGING)
    frames = FullCharacterSimulator(flesh(), 1 / 90, **CONVERGING).run(motion, centred=True)
    player = Player(made, motion, ahead=True)
    for frame in frames:
        np.testing.assert_array_equal(player.surface(), frame)
        player.step()
    cut = FullCharacterSimulator(flesh(), 1 / 90, substeps=2)
    with pytest.raises(SuppleError, match="`ahead` needs substeps=1"):
        cut.step(ahead=(cut.pose, None))


@pytest.mark.parametrize(("cyclic", "after"), [(False, 4), (False, 15), (True, 90)])
def test_a_killed_bake_resumes_to_the_same_bytes(kept, monkeypatch, cyclic, after):
    how = loop() if cyclic else {}
    whole = final(**how)
    assert not list(kept.glob("bake-*"))
    with pytest.raises(KeyboardInterrupt):
        final(**how, progress=interrupt(after))
    assert list(kept.glob("bake-*"))
    monkeypatch.setattr(final_take, "EVERY", 20.0)
    told: list[str] = []
    again = final(**how, progress=lambda part, what: told.append(what))
    assert again.frames.tobytes() == whole.frames.tobytes()
    assert not list(kept.glob("bake-*"))
    names = ("substeps", "change", "steps", "converged", "limits", "unconverged_steps")
    assert {name: again.report[name] for name in names} == {
        name: whole.report[name] for name in names
    }


def test_a_damaged_checkpoint_is_none(kept):
    heard: list[list[str]] = [[], []]
    whole = final(progress=lambda part, what: heard[0].append(what))
    with pytest.raises(KeyboardInterrupt):
        final(progress=interrupt(15))
    (file,) = kept.glob("bake-*")
    file.write_bytes(file.read_bytes()[:-100])
    again = final(progress=lambda part, what: heard[1].append(what))
    assert heard[0] == heard[1]
    assert again.frames.tobytes() == whole.frames.tobytes()


@pytest.mark.parametrize(
    "damage",
    [{"take.frames": np.nan}, {"take.player.flesh._u": np.nan}, {"take.player.flesh._v": None}],
)
def test_a_checkpoint_that_cannot_be_resumed_is_none(kept, damage):
    whole = final()
    with pytest.raises(KeyboardInterrupt):
        final(progress=interrupt(15))
    (file,) = kept.glob("bake-*")
    state = final_take._KIND.read(file)
    for name, value in damage.items():
        state[name] = state[name][1:] if value is None else np.full_like(state[name], value)
    final_take._KIND.write(file, state)
    assert final().frames.tobytes() == whole.frames.tobytes()


def test_warnings_and_counts_before_an_interrupt_are_reported_after_it(kept, monkeypatch):
    monkeypatch.setattr(take_module, "MOST_CYCLES", 2)
    monkeypatch.setattr(refined_player, "MOST_SUBSTEPS", 2)
    for name in ("CLOSED", "VISIBLY_OPEN"):
        monkeypatch.setattr(take_module, name, 0.0)
    hasty = {"newton": 1, "tolerance": 1e-14, "acceleration_limit": 100.0}
    how = {**loop(), "damping": 0.1, "simulation": hasty}
    last: list[float] = []
    with pytest.warns(SuppleWarning) as heard:
        whole = final(**how, progress=lambda part, what: last.append(part))
    assert whole.report["limits"]
    assert whole.report["unconverged_steps"] > 0
    with pytest.raises(KeyboardInterrupt):
        final(**how, progress=interrupt(len(last) - 1))  # within the cycle that is blended
    monkeypatch.setattr(final_take, "EVERY", 20.0)
    with pytest.warns(SuppleWarning) as again:
        resumed = final(**how)
    assert [str(each.message) for each in again] == [str(each.message) for each in heard]
    assert "are blended" in str(again[0].message)
    for name in ("limits", "unconverged_steps", "steps", "cycles", "blended"):
        assert resumed.report[name] == whole.report[name]


def test_steps_that_were_not_solved_are_counted_on_both_sides_of_a_cut(monkeypatch):
    monkeypatch.setattr(refined_player, "MOST_SUBSTEPS", 2)
    with pytest.warns(SuppleWarning, match="halving the time step still"):
        told = final(swing(cuts=(6,)), simulation={"newton": 1, "tolerance": 1e-14}).report
    assert told["unconverged_steps"] == told["steps"]


def test_no_clip_of_a_long_list_loses_what_is_kept_of_it(kept, monkeypatch):
    monkeypatch.setattr(final_take, "_KIND", running_cache(".part.npz", 2))
    with pytest.raises(KeyboardInterrupt):
        final(named_swing(0.3), firm(), progress=interrupt(3))  # which nobody goes on with
    clips = [named_swing(0.1 + 0.01 * k) for k in range(4)]
    told: list[list[str]] = [[], []]

    def stops(part: float, what: str) -> None:
        told[0].append(what)
        if len({each.partition(":")[0] for each in told[0]}) == len(clips):
            raise KeyboardInterrupt

    def baked(progress: Callable[[float, str], None]) -> Any:
        return bake_all(BAR, firm(), motions=clips, quality="final", progress=progress)

    with pytest.raises(KeyboardInterrupt):
        baked(stops)
    assert len(list(kept.glob("bake-*"))) == len(clips)
    baked(lambda part, what: told[1].append(what.partition(":")[0]))
    assert {*told[1]} == {clips[-1].name}
    assert not list(kept.glob("bake-*"))


def test_a_checkpoint_is_for_the_same_bake_only_and_is_kept_for_it(kept):
    with pytest.raises(KeyboardInterrupt):
        final(progress=interrupt(6))
    final(damping=2.0, progress=lambda part, what: None)
    (file,) = kept.glob("bake-*")
    places: list[final_take.Checkpoint] = []
    done = final(checkpoints=places)
    assert [each.path for each in places] == [file]
    told: list[float] = []
    again = final(checkpoints=[], progress=lambda part, what: told.append(part))
    assert again.frames.tobytes() == done.frames.tobytes()
    assert not told  # all of it was kept
    places[0].remove()
    assert not list(kept.glob("bake-*"))


def test_quick_bakes_write_no_checkpoint_and_those_of_black_boxes_are_not_kept(kept, monkeypatch):
    monkeypatch.setattr(final_take, "EVERY", 20.0)
    monkeypatch.setattr(final_take, "AT_ENDS", 20.0)
    places: list[final_take.Checkpoint] = []
    final(swing().slice(0, 0.05), checkpoints=places)
    assert not (places[0].path or kept).is_file()
    assert final_take.Checkpoint(None).path is None


def test_loops_close_cuts_begin_anew_and_what_is_still_stays():
    closed = final(**loop())
    assert closed.report["cycles"] > 1
    assert closed.report["loop_gap"] <= 2e-4
    np.testing.assert_allclose(closed.frames[0], closed.frames[-1], atol=1e-3)
    cut = final(swing(cuts=(6,)))
    (at,) = cut.motion.cuts
    assert np.abs(cut.frames[at] - cut.rig_frame(at)).max() < 1e-6
    still = final(Motion([0.0], [[0.3]], name="still"))
    assert still.report["change"] == 0.0
    assert still.n_frames == 1


@pytest.mark.parametrize(("last", "rate"), [(17, 30.0), (49, 30.0)])
def test_a_clip_whose_end_was_rounded_has_the_same_frames_with_any_steps(last, rate):
    end = float(np.float32(last / rate))  # as glTF has it
    clip, live = swing(end, last + 1), bake_simulator(flesh(), engine="full")
    plan = bake_plan(BAR, clip, rate=rate)
    counts = []
    for substeps in (1, 2, 4, 128):
        live.dt = plan.dt / substeps
        cut = replace(plan, dt=live.dt, every=plan.every * substeps)
        counts.append(Take(cut.player(live, multiple=substeps), cut.every, unreported).n_frames)
    assert counts == [last + 1] * 4


def test_final_bakes_a_clip_whose_end_was_rounded():
    end = float(np.float32(49 / 30))
    baked = final(swing(end, 50), firm(), damping=10.0)
    assert baked.n_frames == 50


def test_all_motions_are_those_of_each():
    both = bake_all(BAR, flesh(), motions=[swing(), swing(0.3)], quality="final")
    assert both[0].frames.tobytes() == final().frames.tobytes()
    assert both[1].report["quality"] == "final"


def test_a_step_too_long_to_solve_is_halved_and_one_that_never_is_refused(monkeypatch):
    step = Player.step

    def failing(least: int, after: float) -> Callable[[Player], Any]:
        def failing_step(player: Player) -> Any:
            simulator: Any = player.simulator
            rested = np.abs(simulator.flesh[0]).max() == 0
            if player.dt > 1 / (90 * least - 1) and player.time > after and not rested:
                raise SolverError("no Newton step lowers the energy")
            return step(player)

        return failing_step

    monkeypatch.setattr(Player, "step", failing(16, 0.0))
    assert final().report["substeps"]["least"] >= 16
    monkeypatch.setattr(Player, "step", failing(1000, 0.0))
    with pytest.raises(SolverError, match=r"no time step has a solution at 0\.00 s; use firmer"):
        final()


def test_flesh_without_a_solution_restarts_with_a_warning(monkeypatch):
    monkeypatch.setattr(refined_player, "SEGMENT", 0.05)
    run, failed = RefinedPlayer._run, []

    def failing_run(player: RefinedPlayer, start: Any, substeps: int, count: int) -> Any:
        deformed = np.abs(start["flesh._u"]).max() > 0
        if deformed and player._frame == 8:
            failed.append(substeps)
            return None
        return run(player, start, substeps, count)

    monkeypatch.setattr(RefinedPlayer, "_run", failing_run)
    with pytest.warns(SuppleWarning, match="the simulation restarted 1 time;"):
        baked = final(rate=90.0)
    assert max(failed) == 128
    assert baked.report["limits"]["reset"] == 1
    moved = [np.abs(baked.frames[k] - baked.rig_frame(k)).max() for k in (8, 9)]
    assert moved[1] < 0.2 * moved[0]


def test_a_motion_that_never_settles_is_reported(monkeypatch):
    monkeypatch.setattr(refined_player, "MOST_SUBSTEPS", 2)
    with pytest.warns(SuppleWarning, match=r"in 1 of 1 segments.* halving the time step still"):
        assert not final().report["converged"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"quality": "finl"}, "no quality 'finl'; did you mean \"final\"[?]"),
        ({"engine": "rig-space"}, "rig-space has no unreduced form for final quality; use pose"),
        (
            {"model": None, "modes": 8, "engine": "pose-space"},
            'quality "final" simulates without model reduction; leave out modes',
        ),
        (
            {"engine": "pose-space", "simulation": {"obstacles": [Plane((0, 0, 0), (0, 1, 0))]}},
            'quality "final" has no option obstacles; leave it out, or use "live"',
        ),
        ({"simulation": {"substeps": 2}}, "chooses the number of substeps; leave out substeps"),
        (
            {"simulation": {"acceleration_limit": "x"}},
            "acceleration_limit must be numbers",
        ),
    ],
)
def test_unsupported_options_of_final_are_one_line_errors(options, said):
    given = {"quality": "final", "model": flesh()} | options
    with pytest.raises(SuppleError, match=said.replace("?", r"\?")) as caught:
        bake(BAR, swing(), **given)
    assert "\n" not in str(caught.value)


def test_flesh_that_was_put_elsewhere_feels_no_inertia():
    limited = FullCharacterSimulator(flesh(), 1 / 90, acceleration_limit=500.0)
    far = np.eye(4)
    far[0, 3] = 3.0
    state = limited.step(root=far)
    assert state.limits == ("teleport",)
    rig = BAR.rig(BAR.rig.rest_pose) + far[:3, 3]
    assert np.abs(limited.surface() - rig).max() < 1e-5
    assert "acceleration_limit" in ENGINES["full"].step_options
    with pytest.raises(SuppleError, match="acceleration_limit is 0"):
        FullCharacterSimulator(flesh(), acceleration_limit=0)


@pytest.mark.parametrize("substeps", [1, 3])
def test_a_simulator_goes_on_from_a_state_to_the_bit(substeps):
    def made() -> FullCharacterSimulator:
        return FullCharacterSimulator(flesh(), 1 / 30, substeps=substeps)

    one, other, motion = made(), made(), swing()
    for k in range(4):
        one.step(motion.poses[k], motion.roots[k])
    other.resume(one.state())
    for each in (one, other):
        each.step(motion.poses[4], motion.roots[4])
    np.testing.assert_array_equal(one.surface(), other.surface())


def test_a_matrix_that_is_kept_saves_factorising_and_moves_flesh_by_next_to_nothing(monkeypatch):
    rig = rig_surface(flesh(), swing(), 90)

    def run() -> tuple[Any, int]:
        simulator, count = FullCharacterSimulator(flesh(), 1 / 90, **CONVERGING), [0]
        solver = simulator._solver._cholesky
        factorise = solver.factorise

        def counted(*args: Any) -> None:
            count[0] += 1
            factorise(*args)

        monkeypatch.setattr(solver, "factorise", counted)
        return simulator.run(swing(), centred=True), count[0]

    ours, few = run()
    monkeypatch.setattr(implicit, "SHRINKS", 0.0)
    exact, many = run()
    assert few < 0.7 * many
    assert rms_difference(ours, exact, rig) < 1e-3


def test_a_distance_is_that_of_one_reduction_and_flesh_is_known_without_it():
    one = stepped_model("bar")
    other = replace(one, elastic_weights=1.001 * one.elastic_weights)
    assert other.figures == one.figures
    whole = [content_of(each, swing(), reduced=True) for each in (one, other, one)]
    assert whole[0] == whole[2] != whole[1]
    assert content_of(one, swing()) == content_of(other, swing()) == content_of(flesh(), swing())


@pytest.mark.filterwarnings("ignore:motion .swing.* flesh moved too far")
def test_displacement_change_compares_live_and_final_flesh():
    how: dict[str, Any] = {"model": stepped_model("firm"), "simulation": {"stiffness": 1.0}}
    near, far = (bake(BAR, swing(), quality=each, **how) for each in QUALITIES[1:])
    told = displacement_change(near, far)
    rig = np.stack([far.rig_frame(k) for k in range(far.n_frames)])
    assert told == pytest.approx(rms_difference(near.frames, far.frames, rig), rel=1e-5)
    assert 0 < told < 1
    assert near.report["quality"] == "live"
