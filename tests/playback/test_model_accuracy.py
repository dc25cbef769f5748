"""The accuracy of a model: how it is measured, kept, read and shown."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import supple
from helpers.build_samples import jointed_arm
from supple.app.building import _totals
from supple.app.info.model_files import describe_model, model_lines
from supple.app.report.report_page import write_page
from supple.dynamics.root_frame import to_world
from supple.engines.common import accuracy as accuracy_module
from supple.engines.common.accuracy import Accuracy, accuracy_words, distance_words
from supple.engines.engine import ENGINES
from supple.errors import SolverError, SuppleError, SuppleWarning
from supple.playback import character_models, model_accuracy
from supple.playback.bake_plan import bake_simulator
from supple.playback.character_models import prepared_model, warn_of_model
from supple.playback.character_sources import source_of
from supple.playback.feel.feel import Feel
from supple.playback.model_accuracy import FULL, Comparison
from supple.playback.motion_choice import liveliest_part
from supple.playback.player import Player
from supple.playback.request import BakeRequest
from supple.reduction.build_log import BuildLog
from supple.rig.character import Character, wiggle
from supple.rig.motion.motion import Motion
from supple.user_cache import Cached

GIVEN = Comparison.of("pose-space", "normal", True, {"modes": 6})
FREE = Comparison.of("pose-space", "normal", True, {})
GOOD: dict[str, Any] = {
    "motion": "Run",
    "start": 0.2,
    "seconds": 0.5,
    "frames": 45,
    "worst": "Tail3",
}


@pytest.fixture(scope="module")
def arm():
    """An arm of few tets and columns, without motions of its own."""
    options: dict[str, Any] = {"tets": 300, "modes": 6, "poses": 1}
    return supple.build(replace(jointed_arm(), motions={}), keep=False, progress=False, **options)


@pytest.fixture(scope="module")
def measured(arm):
    return GIVEN.measured(arm)


def test_the_distance_is_that_of_two_simulators_stepped_by_hand(arm, measured):
    figures = measured.accuracy
    end, motion = figures.start + figures.seconds, wiggle(jointed_arm())
    skins = []
    stiffer = {"stiffness": figures.stiffness}
    for engine, options in (("pose-space", stiffer), ("full", FULL)):
        simulator = bake_simulator(arm, 1 / 180, engine=engine, **options)
        player = Player(simulator, motion, start=figures.start, end=end, ahead=engine == "full")
        frames = [player.surface()]
        for step in range(1, player.n_steps + 1):
            player.step()
            frames += [player.surface()] if step % 2 == 0 else []
        skins.append(np.array(frames, float))
    reduced, full = skins
    shown = player.shown
    rig = [to_world(shown.roots[k], arm.rig(shown.poses[k])) for k in range(0, len(shown.poses), 2)]
    moved = np.linalg.norm(full - rig)
    assert figures.frames == len(full), figures
    assert figures.distance == pytest.approx(np.linalg.norm(reduced - full) / moved, rel=0.01)
    assert figures.amplitude == pytest.approx(np.linalg.norm(reduced - rig) / moved, rel=0.01)
    assert figures.worst in arm.rig.skeleton.names


def test_a_model_without_motions_is_shaken_and_measured_alike_twice(arm, measured):
    assert measured.accuracy.motion == "wiggle"
    assert GIVEN.accuracy(arm) == measured.accuracy


def test_the_accuracy_survives_the_file_and_old_files_have_none(arm, measured, tmp_path):
    for name, model in (("old", arm), ("new", measured)):
        model.save(tmp_path / f"{name}.supple")
        assert supple.load_model(tmp_path / f"{name}.supple").accuracy == model.accuracy
    assert arm.accuracy is None
    assert "full_distance" not in arm.figures
    assert measured.figures["full_distance"] == measured.accuracy.distance


@pytest.mark.parametrize(
    "changes",
    [
        {"distance": -0.1},
        {"distance": 1e300},
        {"distance": "near"},
        {"distance": None},
        {"frames": True},
        {"start": [0]},
        {"motion": "x" * 201},
        {"worst": 3},
        {"other": 1},
    ],
)
def test_invalid_figures_of_a_file_are_refused(arm, changes):
    figures = {"distance": 0.1, "amplitude": 1.0, **GOOD}
    assert replace(arm, report={"accuracy": figures}).accuracy.distance == 0.1
    with pytest.raises(SuppleError, match="accuracy"):
        replace(arm, report={"accuracy": {**figures, **changes}})


@pytest.mark.parametrize("figures", ["good", [0.1], {"distance": 0.1}])
def test_an_accuracy_that_lacks_fields_is_refused(arm, figures):
    with pytest.raises(SuppleError, match="accuracy of a model"):
        replace(arm, report={"accuracy": figures})


def test_words_state_the_distance_and_the_worst_joint():
    near = Accuracy(0.143, 0.97, **GOOD)
    part = "(Run, 0.2 to 0.7 s; worst at Tail3)"
    assert near.words() == f"within 14 % of the full simulation {part}"
    assert distance_words(0.41) == "41 % from the full simulation"
    assert "hardly moves" in Accuracy(None, None, "Run", 0, 1, 9).words()
    assert "\n" not in Accuracy(0.1, 1.0, "a\nb", 0, 1, 9, worst="c\n").words()
    assert accuracy_words({}) == ""


def _builds(arm, monkeypatch, distances):
    """Replace the measurement by a list of distances; return the options of the builds."""
    options, results = [], iter(distances)

    def accuracy(self, model, *rest):
        return Accuracy(next(results), 1.0, **GOOD)

    monkeypatch.setattr(Comparison, "accuracy", accuracy)

    def build(**changes):
        options.append(changes)
        return replace(arm, name=f"build {len(options)}")

    return options, build


@pytest.mark.parametrize(("distances", "kept"), [([0.5, 0.2], 2), ([0.34], 1)])
def test_a_bad_model_is_built_again_with_more_columns(arm, monkeypatch, distances, kept):
    options, build = _builds(arm, monkeypatch, distances)
    model = FREE.checked(build, BuildLog())
    assert model.name == f"build {kept}"
    assert options == [{}, {"modes": 10}][: len(distances)]
    assert model.accuracy.distance == distances[-1]


def test_a_bad_snapshot_model_is_built_again_with_modes(arm, monkeypatch):
    fitted = replace(arm, report={**arm.report, "elastic_error": {"forces": "motions"}})
    options, build = _builds(fitted, monkeypatch, [0.6, 0.3])
    assert FREE.checked(build, BuildLog()).accuracy.distance == 0.3
    assert options == [{}, {"basis": "modes"}]


@pytest.mark.parametrize(("distances", "kept"), [([0.5, 0.7], 1), ([0.7, 0.5], 2)])
def test_the_better_of_two_bad_models_is_kept(arm, monkeypatch, distances, kept):
    _, build = _builds(arm, monkeypatch, distances)
    assert FREE.checked(build, BuildLog()).name == f"build {kept}"


def test_a_bad_model_is_a_warning_wherever_it_comes_from(arm, tmp_path):
    bad = replace(arm, report={"accuracy": {"distance": 0.5, "amplitude": 1.0, **GOOD}})
    bad.save(tmp_path / "arm.supple")
    character = Character("arm", arm.surface, arm.rig)
    with pytest.warns(SuppleWarning, match="50 % from the full simulation, mostly at Tail3"):
        supple.bake(character, model=bad, end=0.2, progress=False, anatomy=None)
    with pytest.warns(SuppleWarning, match="50 % from the full simulation, mostly at Tail3"):
        prepared_model(source_of(character), model=tmp_path / "arm.supple")


def _bad(arm):
    return replace(arm, report={"accuracy": {"distance": 0.5, "amplitude": 1.0, **GOOD}})


@pytest.mark.parametrize("options", [{}, {"swing": "1%"}])
def test_a_bad_model_is_one_warning_of_a_bake(arm, options):
    character = Character("arm", arm.surface, arm.rig)
    given: dict[str, Any] = {"model": _bad(arm), "progress": False, "anatomy": None} | options
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        supple.bake(character, end=0.05, quality="live", **given)
    assert sum("from the full simulation" in str(each.message) for each in caught) == 1


def test_a_bad_model_is_not_a_warning_of_a_bake_without_it(arm):
    """A command prepares the model, and warns then; final quality does not reduce."""
    request = BakeRequest(source_of(jointed_arm()), _bad(arm), ENGINES["pose-space"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        request.model_and_options(request.live, None)
        options = {"quality": "final", "anatomy": None}
        BakeRequest.of("bake", request.source, _bad(arm), None, None, None, options)


def test_a_warning_of_a_bad_model_states_that_it_was_compared_with_normal_flesh(arm):
    with pytest.warns(SuppleWarning, match="the reduced model with normal flesh is 50 %"):
        warn_of_model(_bad(arm), Feel(0.15))
    with pytest.warns(SuppleWarning, match="the reduced model is 50 %"):
        warn_of_model(_bad(arm))


def test_a_bad_model_of_a_scene_is_not_built_in_another_way(arm, monkeypatch):
    monkeypatch.setattr(
        Comparison, "accuracy", lambda self, model, *rest: Accuracy(0.9, 0.1, **GOOD)
    )
    result = Cached(arm, None, True)
    found = character_models._compared_scene("x", "pose-space", result, FREE, True, BuildLog())
    assert found.value.report["accuracy"]["distance"] == 0.9


def test_flesh_that_is_stiffened_for_a_violent_motion_is_not_built_again(arm, monkeypatch):
    options, build = _builds(arm, monkeypatch, [])
    stiffened = Accuracy(0.9, 0.1, **GOOD, stiffness=64.0)
    monkeypatch.setattr(Comparison, "accuracy", lambda self, model: stiffened)
    model = FREE.checked(build, BuildLog())
    assert options == [{}]
    with pytest.warns(SuppleWarning, match="64 times as stiff; use final"):
        accuracy_module.warn_if_bad(model.name, model.report)


def test_a_model_that_cannot_be_compared_has_the_reason(arm, monkeypatch):
    def fails(self, model):
        raise SolverError("the full simulation diverges")

    monkeypatch.setattr(Comparison, "accuracy", fails)
    model = GIVEN.checked(lambda: arm, BuildLog())
    words = "not compared with the full simulation: the full simulation diverges"
    assert accuracy_words(model.report) == words


def test_reduced_flesh_that_moves_where_full_flesh_rests_is_bad(arm):
    rig = np.tile(arm.surface.vertices, (12, 1, 1))
    snapped = rig.astype(np.float32) + 0.3
    case = wiggle(jointed_arm()), snapped, rig.astype(np.float32), rig, 0.0, 1.0, 1.0
    assert model_accuracy._compared(arm, *case).bad
    case = wiggle(jointed_arm()), rig.astype(np.float32), rig.astype(np.float32), rig, 0.0, 1.0, 1.0
    assert model_accuracy._compared(arm, *case).distance is None


def test_a_motion_of_one_key_is_replaced_by_the_wiggle(arm):
    pose = Motion(np.zeros(1), arm.rig.rest_pose[None], np.eye(4)[None], "pose")
    motion, start, end = model_accuracy._part(
        replace(arm, motions={"pose": pose}), None, model_accuracy.OF_BUILD
    )
    assert motion.name == "wiggle"
    assert end - start > 0.4


def test_given_options_of_the_reduction_are_kept(arm, monkeypatch):
    options, build = _builds(arm, monkeypatch, [0.9])
    assert GIVEN.checked(build, BuildLog()).accuracy.distance == 0.9
    assert options == [{}]


def test_work_is_bounded_by_iterations(arm, measured, monkeypatch):
    short = GIVEN.accuracy(arm, extent=model_accuracy.OF_BUILD._replace(most_work=0))
    assert short is not None
    assert short.frames == model_accuracy.FEWEST_FRAMES < measured.accuracy.frames
    assert short.seconds == pytest.approx(2 * (short.frames - 1) / 180, abs=1e-3)


def test_flesh_that_hardly_moves_has_no_distance(arm):
    rest = np.tile(arm.rig.rest_pose, (4, 1))
    still = Motion(np.arange(4) / 5, rest, np.tile(np.eye(4), (4, 1, 1)), "still")
    figures = GIVEN.accuracy(replace(arm, motions={"still": still}))
    assert figures is not None
    assert (figures.distance, figures.amplitude, figures.motion) == (None, None, "still")


def test_the_liveliest_part_is_where_the_motion_is_fast():
    arm = jointed_arm()
    times = np.arange(91) / 30
    roots = np.tile(np.eye(4), (91, 1, 1))
    roots[:, 0, 3] = 0.1 * np.exp(-(((times - 2.0) / 0.1) ** 2))
    motion = Motion(times, np.tile(arm.rig.rest_pose, (91, 1)), roots, "push")
    start, end = liveliest_part(arm, motion, 0.5)
    assert start < 2.0 < end
    assert end - start == pytest.approx(0.5)
    assert liveliest_part(arm, motion, 9.0) == (0.0, 3.0)


def test_engines_without_an_unreduced_counterpart_are_not_compared():
    assert not Comparison.of("rig-space", "normal", True, {}).possible
    assert not Comparison.of("full", "normal", True, {}).possible


def test_a_model_built_for_a_bake_is_measured_once_and_kept(monkeypatch, tmp_path):
    monkeypatch.setenv("SUPPLE_CACHE", str(tmp_path))
    source = source_of(jointed_arm())
    options: dict[str, Any] = {"tets": 300, "modes": 6, "poses": 1}
    first = prepared_model(source, **options)
    monkeypatch.setattr(Comparison, "accuracy", None)  # is not called again
    second = prepared_model(source, **options)
    assert (first.kept, second.kept) == (False, True)
    assert second.model.accuracy == first.model.accuracy is not None


def test_info_build_and_page_show_the_words(measured, tmp_path):
    path = tmp_path / "arm.supple"
    measured.save(path)
    words = accuracy_words(measured.report)
    described = describe_model(path) | {"bytes": path.stat().st_size}
    assert ("accuracy", words) in list(model_lines(described))
    assert json.loads(json.dumps(described))["report"]["accuracy"] == measured.accuracy.figures()
    totals = {"model_mb": 1.0, "seconds": 1.0, "peak_mb": 1.0}
    assert ("accuracy", words) in _totals({**measured.report, **totals})
    character = Character("arm", measured.surface, measured.rig)
    baked = supple.bake(character, model=measured, end=0.2, progress=False, anatomy=None)
    assert baked.report["full_distance"] == measured.accuracy.distance
    write_page(tmp_path / "arm.html", baked)
    text = (tmp_path / "arm.html").read_text("utf-8")
    assert f"reduced model, {distance_words(measured.accuracy.distance)}" in text


def test_the_threshold_changes_the_words(monkeypatch):
    monkeypatch.setattr(accuracy_module, "BAD", 0.1)
    assert distance_words(0.14) == "14 % from the full simulation"


def _warnings_of_push(model, name="push", **options):
    """Bake a push of the root live; return the warnings about the full simulation."""
    times = np.arange(31) / 30
    roots = np.tile(np.eye(4), (31, 1, 1))
    roots[:, 0, 3] = 0.1 * np.exp(-(((times - 0.5) / 0.2) ** 2))
    push = Motion(times, np.tile(model.rig.rest_pose, (31, 1)), roots, name)
    character = Character("arm", model.surface, model.rig)
    given: dict[str, Any] = {"model": model, "progress": False, "anatomy": None, **options}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        supple.bake(character, push, quality="live", **given)
    texts = [str(each.message) for each in caught]
    return [text for text in texts if "from the full simulation" in text]


def test_a_live_bake_warns_of_a_clip_that_is_far_from_full(arm):
    """The model claims to be good for another motion, but its forces are far too strong."""
    good = {"accuracy": {"distance": 0.1, "amplitude": 1.0, **GOOD}}
    forces = {"elastic_weights": 10 * arm.elastic_weights}
    forces["stiffness_corrections"] = 10 * arm.stiffness_corrections
    wrong = replace(arm, report=good, **forces)
    (text,) = _warnings_of_push(wrong)
    assert text.startswith('motion "push": from ')
    assert _warnings_of_push(replace(arm, report=good)) == []
    assert _warnings_of_push(wrong, "Run") == []  # the motion that was compared
    assert _warnings_of_push(wrong, damping=2.0) == []  # the comparison has other damping
