"""Flesh becomes as stiff as it takes to swing as far as was asked, where the clip allows."""

from __future__ import annotations

import json
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.character_files import save_character
from helpers.sample_bodies import bending, figure
from supple.app import baking
from supple.arrays import Floats
from supple.cli.main import main
from supple.engines.engine import ENGINES
from supple.engines.options import BakePlayOptions
from supple.errors import SuppleError, SuppleWarning
from supple.playback import request
from supple.playback.baking import bake, bake_all
from supple.playback.character_models import PreparedModel
from supple.playback.character_sources import source_of
from supple.playback.request import BakeRequest
from supple.playback.swing import search as search_module
from supple.playback.swing.goals import SwingGoal, swing_goals
from supple.playback.swing.search import RUNS, RUNS_OF_SEVERAL, FoundSwing, _Search
from supple.rig.baked_motion import BakedMotion
from supple.rig.character import Character
from supple.rig.motion.motion import Motion

pytestmark = pytest.mark.filterwarnings("ignore::supple.SuppleWarning")

SMALL: dict[str, Any] = {"tets": 600, "modes": 8, "poses": 1, "quality": "live"}


@pytest.fixture(scope="module")
def body() -> Character:
    return bending(figure().character(), "chest", 0.3)


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SUPPLE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def peaks(baked: BakedMotion) -> np.ndarray:
    """Largest distance of each vertex from the rig."""
    rig = np.array([baked.rig_frame(k) for k in range(baked.n_frames)])
    away: np.ndarray = np.linalg.norm(baked.frames - rig, axis=2).max(axis=0)
    return away


def test_all_in_any_case_is_all_flesh(body: Character):
    (goal,) = swing_goals(body, ["ALL=3%"])
    assert goal.region == "all"
    assert goal.mask.all()
    assert [each.region for each in swing_goals(body, {"All": 0.03, "chest": 0.02})] == [
        "chest",
        "all",
    ]


@pytest.mark.parametrize("words", [["q\n" * 5000 + "=3%"], [f"{'q' * 9000}=much"], ["x=4cm"]])
def test_refusals_of_goals_are_short_lines(body: Character, words: list[str]):
    named = replace(body, name="n" * 5000)
    with pytest.raises(SuppleError) as refused:
        swing_goals(named, words)
    assert len(str(refused.value)) < 400
    assert str(refused.value).isprintable()


@pytest.mark.parametrize("part", [0.5, 2.0])
def test_all_flesh_swings_as_far_as_requested(body: Character, part: float):
    usual = peaks(bake(body, **SMALL)).max()
    baked = bake(body, swing=part * usual / body.surface.size, **SMALL)
    assert peaks(baked).max() == pytest.approx(part * usual, rel=0.05)
    (row,) = baked.report["swing"]
    assert row["region"] == "all"
    assert row["reached"] == pytest.approx(peaks(baked).max(), rel=1e-4)
    assert (row["stiffness"] > 1) == (part < 1)
    assert baked.report["swing_runs"] <= RUNS


def test_a_region_that_cannot_reach_its_goal_gets_as_near_as_its_range_allows(body: Character):
    """Most of this body is bone, so that the hips hardly move more however soft they are."""
    usual = bake(body, **SMALL)
    (goal,) = swing_goals(body, {"hips": "1cm"})
    there = peaks(usual)[goal.mask].max()
    with pytest.warns(SuppleWarning, match="swing of hips is"):
        baked = bake(body, swing=[f"hips={130 * there}cm"], **SMALL)
    (row,) = baked.report["swing"]
    assert there < row["reached"] < row["goal"]
    assert 1 / 17 < row["stiffness"] < 1


def test_where_one_goal_is_out_of_reach_the_others_are_reached():
    x = np.zeros(2)
    search = _Search(np.log([16.0, 64.0]), x, np.array([-5.0, 1.0]))
    for _ in range(RUNS_OF_SEVERAL):
        if search.ended:
            break
        x = search.proposal()
        search.add(x, np.array([-5.0, 1.0]) - x * np.array([0.3, 1.0]))
    best, errors = search.best
    assert best[0] == pytest.approx(-np.log(16.0))
    assert abs(errors[1]) < 0.05


def run_of(search: _Search, errors: Callable[[Floats], Floats]) -> tuple[Floats, Floats]:
    """Return the best factors and errors of a search with all of its runs."""
    for _ in range(RUNS_OF_SEVERAL):
        if search.ended:
            break
        x = search.proposal()
        search.add(x, errors(x))
    return search.best


def test_a_region_that_cannot_move_leaves_all_other_goals_in_reach():
    """The peak of a hard head does not depend on any stiffness."""

    def errors(x: Floats) -> Floats:
        return np.array([-13.0, np.log(0.011 / 0.03) - 0.6 * x[1]])

    search = _Search(np.log([16.0, 64.0]), np.zeros(2), errors(np.zeros(2)), 1)
    x, r = run_of(search, errors)
    assert search.ended
    assert len(search.tried) <= 6
    assert abs(r[1]) <= 0.05
    assert x[0] == 0  # nothing is gained from soft flesh around it


def test_a_region_that_all_flesh_compensates_is_not_left_out():
    """Its error stays the same if its factor and that of all flesh change by the same."""

    def errors(x: Floats) -> Floats:
        return np.array([-0.2 - x[0] - x[1], 1.0 - 0.9 * x[1]])

    search = _Search(np.log([16.0, 64.0]), np.zeros(2), errors(np.zeros(2)), 1)
    x, r = run_of(search, errors)
    assert np.abs(r).max() <= 0.05
    assert x[0] == pytest.approx(-1.3, abs=0.1)


def test_goals_of_hard_skin_change_no_stiffness_and_the_others_are_reached():
    def errors(x: Floats) -> Floats:
        return np.array([-20.7, 0.5 - 0.8 * x[1]])

    start = np.zeros(2)
    x, r = run_of(
        _Search(np.log([16.0, 64.0]), start, errors(start), 0, np.array([True, False])), errors
    )
    assert x[0] == 0
    assert abs(r[1]) <= 0.05


def test_a_peak_for_all_is_refused_where_regions_cover_all_of_the_skin(body: Character):
    with pytest.raises(SuppleError, match="regions cover all of the skin; leave out"):
        swing_goals(body, ["3%", "*=5%"])


def found(factor: float, hard: float = 0.0) -> FoundSwing:
    region = SwingGoal("head", np.ones(1, bool), np.ones(1), 0.01)
    return FoundSwing((region,), np.array([factor]), 3, np.array([hard]))


@pytest.mark.parametrize(
    ("factor", "hard", "errors", "reason"),
    [
        (1 / 16, 0.4, [[0.5], [0.4]], 'first".*softest flesh, .* use a livelier motion'),
        (16.0, 0.9, [[1.1], [1.5]], 'second".*firmest flesh, 16 times .* use a calmer motion'),
        (1 / 16, 0.9, [[0.1], [0.0]], "; 90 % of its skin is held hard: make it soft"),
        (1.0, 0.4, [[0.5], [0.4]], "; 40 % of its skin is held hard; supple curves moves"),
        (1 / 16, 0.0, [[1.5], [0.4]], "%$"),
    ],
)
def test_a_warning_names_the_clip_of_the_peak_and_the_reason(
    body: Character, factor: float, hard: float, errors: list[list[float]], reason: str
):
    frames = np.zeros((1, len(body.surface.vertices), 3), np.float32)
    bakes = [
        BakedMotion(body, Motion([0.0], body.rig.rest_pose[None], None, name), frames, 30.0, False)
        for name in ("first", "second")
    ]
    with pytest.warns(SuppleWarning, match=reason):
        found(factor, hard).warn_of(np.array(errors), bakes)


def test_the_better_of_two_final_runs_is_kept(body: Character, monkeypatch):
    """The second run has the corrected stiffness, and may be worse nevertheless."""
    errors = iter([np.array([[1.3]]), np.array([[2.0]])])
    runs: list[list[Any]] = []

    def swing(self: Any, found: Any, *others: Any) -> Any:
        runs.append([found])
        return runs[-1], next(errors)

    monkeypatch.setattr(BakeRequest, "_swing", swing)
    monkeypatch.setattr(BakeRequest, "_found_swing", lambda *args: found(1.0))
    monkeypatch.setattr(
        BakeRequest, "model_and_options", lambda *args: (PreparedModel(1, 0, True), {})
    )
    monkeypatch.setattr(FoundSwing, "warn_of", lambda *args: None)
    monkeypatch.setattr(request, "report_flesh", lambda *args: None)
    asked = BakeRequest(source_of(body), None, ENGINES["pose-space"], quality="final", swing="1%")
    assert asked.bake([], None, None) == runs[0]
    assert len(runs) == 2


def test_options_of_full_are_left_out_while_the_stiffness_is_found(body: Character):
    options: dict[str, Any] = {"tets": 600, "poses": 1, "quality": "final"}
    baked = bake(body, end=0.1, swing="0.05%", simulation={"newton": 15}, **options)
    assert baked.report["engine"] == "full"
    assert baked.report["swing_runs"] >= 1


def test_the_search_keeps_the_skin_of_the_chosen_clip_alone(body: Character, monkeypatch):
    kept: dict[str, weakref.ref[Floats]] = {}
    alive: list[int] = []
    original = search_module._peaks

    def peaks_of(goals: Any, baked: Any, run: Any = None) -> Any:
        result = original(goals, baked, run)
        if run is not None:
            kept[baked.motion.name] = weakref.ref(run.rig)
            alive.append(sum(each() is not None for each in kept.values()))
        return result

    monkeypatch.setattr(search_module, "_peaks", peaks_of)
    motion = next(iter(body.motions.values()))
    bake_all(body, motions=[motion, replace(motion, name="again")], swing="0.3%", **SMALL)
    assert len(kept) == 2
    assert max(alive) == 1


def test_goals_that_depend_on_each_other_are_reached_together():
    """Flesh of a region is as stiff as all flesh times its own factor."""
    slopes, zero = np.array([[-1.0, 0.2, -1.1], [0.1, -0.7, -0.8], [0.0, 0.1, -1.3]]), np.ones(3)
    x = np.zeros(3)
    search = _Search(np.log([16.0, 16.0, 64.0]), x, slopes @ (x - zero), 2)
    for _ in range(RUNS_OF_SEVERAL):
        if search.ended:
            break
        x = search.proposal()
        search.add(x, slopes @ (x - zero))
    assert search.ended
    assert len(search.tried) <= 6


def test_a_character_that_rests_cannot_swing_and_is_a_warning(body: Character):
    rest = Motion([0.0, 0.5], np.tile(body.rig.rest_pose, (2, 1)), None, "rest")
    with pytest.warns(SuppleWarning, match=r"swing of all is .* instead of 3 % with the softest"):
        baked = bake(body, rest, swing="3%", **SMALL)
    assert baked.report["swing"][0]["stiffness"] == pytest.approx(1 / 64, rel=1e-3)
    assert baked.report["swing_runs"] == 2


def test_one_stiffness_serves_all_clips_and_the_liveliest_reaches_the_goal(body: Character):
    motion = next(iter(body.motions.values()))
    slow = Motion(3 * motion.times, motion.poses, motion.roots, "slow")
    both = bake_all(body, motions=[slow, motion], swing="0.3%", **SMALL)
    far = [peaks(each).max() / body.surface.size for each in both]
    assert max(far) == pytest.approx(0.003, rel=0.06)
    assert far[0] < far[1]
    assert both[0].report["swing"] == both[1].report["swing"]


def test_final_quality_reaches_the_goal_as_well(body: Character):
    options: dict[str, Any] = {"tets": 600, "poses": 1, "quality": "final"}
    usual = peaks(bake(body, end=0.2, **SMALL)).max()
    baked = bake(body, end=0.2, swing=0.7 * usual / body.surface.size, **options)
    assert baked.report["engine"] == "full"
    assert peaks(baked).max() == pytest.approx(0.7 * usual, rel=0.1)


@pytest.mark.parametrize(
    ("swing", "metres"),
    [("3%", 0.03), (0.03, 0.03), (["all=0.03"], 0.03), ({"all": "3 %"}, 0.03)],
)
def test_a_number_is_a_part_of_the_size(body: Character, swing: Any, metres: float):
    (goal,) = swing_goals(body, swing)
    assert goal.length == pytest.approx(metres * body.surface.size)
    assert goal.mask.all()


def test_regions_are_joints_roles_sides_and_names_of_the_file(body: Character):
    hands = swing_goals(body, ["HAND*=2mm"])[0]
    assert hands.length == pytest.approx(0.002)
    assert hands.mask.any()
    assert not hands.mask.all()
    trunk = swing_goals(body, ["trunk=1cm"])[0]
    assert trunk.mask.any()
    assert not (trunk.mask & hands.mask).any()


@pytest.mark.parametrize(
    ("swing", "said"),
    [
        ("much", "use a fraction of the size such as 3%"),
        ("3 miles", "use a fraction of the size such as 3%"),
        ("80%", "use 0.001 to 30 %"),
        ("chets=3%", 'has no "chets"; did you mean "chest"'),
        ("belly=3%", 'has no "belly"; its shape shows no belly and back; use trunk, or joints of'),
        ("xyz=3%", 'has no "xyz"; there are .*trunk'),
        ([], "swing needs a peak"),
    ],
)
def test_goals_that_cannot_be_are_refused(body: Character, swing: Any, said: str):
    with pytest.raises(SuppleError, match=said):
        swing_goals(body, swing)


@pytest.mark.parametrize("power", [-0.5, -1.0, -2.5])
def test_the_search_ends_soon_for_any_slope(power: float):
    x = np.zeros(1)
    search = _Search(np.log([64.0]), x, power * (x - 1.7))
    for _ in range(RUNS):
        if search.ended:
            break
        x = search.proposal()
        search.add(x, power * (x - 1.7))
    assert search.ended
    assert len(search.tried) <= 5


def test_the_command_and_its_json_report_what_was_reached(monkeypatch, capfd, tmp_path):
    monkeypatch.chdir(tmp_path)
    save_character(figure().character(), Path("body.glb"), swings="chest")
    words = ["--tets", "600", "--modes", "6", "--poses", "1", "--swing", "0.4%", "--json"]
    main(["bake", "body.glb", "-o", "a.npz", *words])
    said = capfd.readouterr()
    (row,) = json.loads(said.out)["swing"]
    assert row["reached"] == pytest.approx(row["goal"], rel=0.1)
    assert "the stiffness for the swing is found with the reduced model" in said.out


def test_the_command_refuses_an_unknown_region_before_it_builds(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    save_character(figure().character(), Path("body.glb"), swings="chest")

    def built(*args: Any, **options: Any) -> Any:
        raise AssertionError("a model is built")

    monkeypatch.setattr(baking, "command_model", built)
    with pytest.raises(SystemExit):
        main(["bake", "body.glb", "-o", "a.npz", "--swing", "chets=3%"])
    assert 'has no "chets"; did you mean "chest"' in capsys.readouterr().err


def test_the_option_is_declared_once():
    assert BakePlayOptions().swing is None
