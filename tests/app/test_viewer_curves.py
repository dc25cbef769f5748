"""Curves of free parameters in the viewer: live under the character, with sliders of springs."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import supple
from helpers.browser_pages import open_tab, running_browser, until
from helpers.rig_space_samples import belly, belly_options, rig_space_options, rising_bar
from supple.app.contact_options import ContactOptions
from supple.app.options import CurveOptions, ViewOptions, by_parameter
from supple.app.viewer.serve import run_view
from supple.app.viewer.session.character_actor import CharacterActor
from supple.app.viewer.session.parameter_traces import (
    SAMPLES,
    SECONDS,
    ParameterTraces,
    name_groups,
)
from supple.app.viewer.session.session import Session
from supple.engines.rig_space.model import RigSpaceModel
from supple.errors import SuppleError
from supple.rig.deformers.blend_shapes import BlendShapeRig

pytest.importorskip("viser", reason="viser is not installed")

HOSTILE = "belly<script>alert(1)"


@cache
def model(shapes: int = 13) -> RigSpaceModel:
    """A belly with as many shapes, in two groups, one of which has a name that breaks pages."""
    made = belly((4, 3, 3), shapes)
    rig: Any = made.rig
    names = [f"belly_{k:03d}" if k < shapes // 2 else f"cheek.{k}" for k in range(shapes)]
    names[0] = HOSTILE
    named = BlendShapeRig(rig.base, rig.deltas, names)
    options = belly_options((4, 3, 3), free=["belly*", "cheek*"], modes=2, cubature=40)
    return supple.build(replace(made, rig=named), engine="rig-space", **options)


def actor(shapes: int = 13) -> CharacterActor:
    return CharacterActor(model(shapes), engine="rig-space")


def test_names_are_grouped_by_their_first_word_whatever_made_the_rig():
    groups = name_groups(
        ["mixamorig:Tail1.rx", "mixamorig:Tail2.rz", "L_ear.rx", "browDownLeft", "browInnerUp"]
    )
    assert {name: own.tolist() for name, own in groups.items()} == {
        "tail": [0, 1],
        "ear": [2],
        "brow": [3, 4],
    }
    assert list(name_groups([f"wire.{k}.t{axis}" for k in range(4) for axis in "xyz"])) == ["wire"]
    assert list(name_groups(["", "12", "日本"])) == ["", "12", "日本"]


def test_traces_hold_the_last_seconds_and_rank_by_what_the_skin_does():
    rig = model().rig
    free = tuple(each.name for each in model().free_parameters[:3])
    traces = ParameterTraces(rig, free)
    place = [k for k, each in enumerate(rig.parameters) if each.name in free]
    pose = np.zeros(len(rig.parameters))
    for step in range(900):
        moved = pose.copy()
        moved[place[2]] = 0.5 * np.sin(0.1 * step)
        moved[place[0]] = 0.1 * np.sin(0.1 * step)
        traces.add(1 / 90, pose, moved.copy)
    seconds, keys, results = traces.read()
    assert len(seconds) == SAMPLES
    assert -SECONDS - 0.1 < seconds[0] < -SECONDS + 0.2
    assert np.all(np.diff(seconds) > 0)
    assert not keys.any()
    assert np.abs(results).max() > 0.45
    assert traces.liveliest(np.arange(3))[0] == 2
    traces.clear()
    assert len(traces.read()[0]) == 0


def test_springs_change_at_once_and_outlive_another_step():
    one, two = actor(), actor()
    for each in (one, two):
        each.step(30)
    two.tune(np.arange(13), "follow", 50.0)
    two.tune(np.array([1]), "damping", np.nan)  # pages may send anything
    assert two.simulator.springs.damping[1] == 0
    for each in (one, two):
        each.step(60)
    far = [np.abs(each.simulator.coordinates[:13]).max() for each in (one, two)]
    assert far[1] < 0.2 * far[0]
    two._new_simulator(1 / 45)
    assert np.all(two.simulator.springs.follow == 50)
    with pytest.raises(SuppleError, match="follow"):
        two.simulator.tune(follow=np.ones(5))
    with pytest.raises(SuppleError, match="did you mean"):
        two.simulator.tune(firmness={"bely*": 2.0})


def test_tuning_to_what_it_was_changes_no_bit():
    one, two = actor(), actor()
    for step in range(20):
        if step == 10:
            two.simulator.tune(follow=two.simulator.springs.follow.copy())
            one.simulator.tune(follow={})
        one.step(1)
        two.step(1)
    assert np.array_equal(one.simulator.coordinates, two.simulator.coordinates)


def test_slider_settings_are_shown_as_options_of_supple_curves():
    from supple.app.viewer.panels.curves_panel import curve_options

    shown = actor()
    assert shown.traces is not None
    groups, usual = list(shown.traces.groups.values()), shown.simulator.springs
    shown.tune(groups[0], "follow", 0.5)
    shown.tune(groups[1], "damping", 2.0)
    said = curve_options(shown.traces.names, groups, shown.simulator.springs, usual)
    words = shlex.split(said)
    assert words == ["--follow", "belly*=0.5", "--damping", "cheek.*=2"]
    again = actor().simulator
    again.tune(follow=by_parameter("--follow", words[1:2]), damping={"cheek.*": 2.0})
    for name in ("follow", "firmness", "damping"):
        assert np.array_equal(getattr(again.springs, name), getattr(shown.simulator.springs, name))
    assert curve_options(shown.traces.names, groups, usual, usual) == ""
    assert CurveOptions(damping=["2"]).flesh_damping() == 2.0
    assert CurveOptions(damping=["tail*=2"]).flesh_damping() == 1.0


def test_other_engines_have_no_free_parameters(tmp_path):
    with pytest.raises(SuppleError, match="--free: pose-space has no free controls"):
        run_view("arm", ViewOptions(free=["tail*"]), folder=tmp_path, quiet=True)


def test_a_rig_space_model_file_is_shown_by_its_own_engine(tmp_path):
    from supple.app.viewer.serve import _character

    made = supple.build(rising_bar(), engine="rig-space", **rig_space_options())
    made.save(tmp_path / "bar.supple")
    shown = _character(str(tmp_path / "bar.supple"), ViewOptions(), ContactOptions(), True)
    assert {"curves", "springs"} <= shown.parts
    assert shown.simulator.free == tuple(each.name for each in made.free_parameters)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    yield from running_browser()


@pytest.mark.parametrize(("shapes", "drawn"), [(13, 13), (174, 15)])
def test_curves_are_drawn_under_the_character_and_sliders_act(
    browser: Any, shapes: int, drawn: int, tmp_path: Any
) -> None:
    from supple.app.viewer.page import Page

    with Page(Session(actor(shapes)), port=0, folder=tmp_path) as page:
        tab = open_tab(browser, page)
        count = "document.querySelectorAll('.supple-curves svg').length"
        until(tab, lambda: tab.evaluate(count) == drawn, "its curves are drawn")
        lines = "document.querySelector('.supple-curves .soft').getAttribute('points')"
        before = tab.evaluate(lines)
        until(tab, lambda: tab.evaluate(lines) != before, "curves go on")
        assert tab.evaluate("document.querySelectorAll('.supple-curves script').length") == 0
        lowest = "document.querySelector('.supple-curves').getBoundingClientRect().bottom"
        assert tab.evaluate(lowest) > 400  # at the bottom of a page of 480
        tab.get_by_role("tab", name="Springs").click()
        follow = tab.locator("input:visible").nth(1)
        follow.fill("50")
        follow.press("Enter")
        springs = page.session.actor.simulator
        until(tab, lambda: bool(np.all(springs.springs.follow == 1.0)), "all follow their keys")
        tab.get_by_text("--follow").wait_for()
        tab.close()
        narrow = open_tab(browser, page, {"width": 400, "height": 700})
        narrow.get_by_text("Curves").last.click()
        until(narrow, lambda: narrow.evaluate(count) == drawn, "a narrow page draws them, too")
        narrow.close()
        assert page.clock.failure is None
