"""Limits that act often are warnings, in bakes and in curves, whatever their names."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import supple
from helpers.spring_engine import SpringSimulator, SpringStep, spring_engine
from helpers.tail_file import tail_file
from supple.errors import SuppleWarning
from supple.playback.take import warn_of_limits
from supple.rig.character import Character

#: Limits of all engines that warn, except "reset".
NAMES = (
    *("acceleration", "teleport", "stiffness", "rest", "displacement", "inversion"),
    *("tolerance", "contacts", "solver", "turn"),
)


def said(limits: dict[str, int], steps: int) -> list[str]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        warn_of_limits("Run", limits, steps, "a slower motion")
    assert all(issubclass(each.category, SuppleWarning) for each in found)
    return [str(each.message) for each in found]


@pytest.mark.parametrize("name", NAMES)
def test_a_limit_that_acts_often_warns_with_its_effect_and_a_cure(name: str) -> None:
    (message,) = said({name: 90}, 100)
    assert message.startswith('motion "Run": in 90 of 100 steps ')
    assert "look at these frames, or use" in message
    assert f'"{name}"' not in message


@pytest.mark.parametrize(
    ("name", "cure"),
    [
        ("acceleration", "keys that move it less abruptly"),
        ("teleport", "keys without jumps"),
        ("rest", "poses, or skin weights, with which flesh keeps its thickness"),
    ],
)
def test_limits_of_the_rig_are_not_cured_by_other_flesh(name: str, cure: str) -> None:
    (message,) = said({name: 90}, 100)
    assert message.endswith(f"or use {cure}")


def test_an_unknown_limit_warns_by_its_name() -> None:
    (message,) = said({"overheated": 60}, 100)
    assert 'in 60 of 100 steps the limit "overheated" acted' in message


def test_limits_that_act_rarely_or_in_regular_motion_do_not_warn() -> None:
    assert said({"solver": 2, "overheated": 1, "joints": 100}, 100) == []


@pytest.mark.parametrize(("count", "often"), [(1, "1 time;"), (3, "3 times;")])
def test_restarts_are_counted_in_good_english(count: int, often: str) -> None:
    (message,) = said({"reset": count}, 100)
    assert f"restarted {often}" in message


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an engine with free parameters report limits in each step."""
    step = SpringSimulator.step

    def stepped(self: Any, *inputs: Any, **named: Any) -> SpringStep:
        return step(self, *inputs, **named)._replace(limits=("reset", "solver", "joints"))

    monkeypatch.setattr(SpringSimulator, "step", stepped)


@pytest.fixture(scope="module")
def character(tmp_path_factory: pytest.TempPathFactory) -> Character:
    return supple.load(tail_file(tmp_path_factory.mktemp("tail") / "tail.glb"))


@pytest.mark.usefixtures("limited")
def test_curves_warn_of_limits_too(character: Character) -> None:
    with spring_engine(), pytest.warns(SuppleWarning) as found:
        curves = supple.curves(character, engine="springs", free=["tail_*.r*"], anatomy=None)
    messages = " ".join(str(each.message) for each in found)
    assert "no balance of bones, flesh and contacts was found" in messages
    assert "the simulation restarted" in messages
    assert "joints" not in messages
    assert curves.report["limits"]["solver"] > 0
