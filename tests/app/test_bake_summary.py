"""The closing lines of a bake name their clips, and round bounds up."""

from __future__ import annotations

from typing import Any

import pytest

from supple.app.bake_summary import chosen_quality, flesh_rows, print_summary

FULL = {"quality": "final", "converged": True, "change": 0.041, "quality_reason": "it is short"}
LIVE = {"quality": "live", "quality_reason": "it is long"}


def figures(*clips: dict[str, Any], **common: Any) -> dict[str, Any]:
    named = [{"motion": f"Clip{k}", **clip} for k, clip in enumerate(clips)]
    common = {"full_accuracy": "0.2 from the full simulation", **common}
    return common | ({"clips": named} if len(named) > 1 else named[0])


def truth(*clips: dict[str, Any], **common: Any) -> list[str]:
    return [text for title, text in flesh_rows(figures(*clips, **common)) if title == "truth"]


@pytest.mark.parametrize(
    ("change", "bound"), [(0.041, 2), (0.03, 1), (0.0301, 2), (0.06, 2), (0.001, 1), (None, 1)]
)
def test_the_bound_of_a_full_simulation_is_rounded_up(change: float | None, bound: int):
    assert truth(FULL | {"change": change}) == [
        f"the full simulation, within {bound} % of its converged result"
    ]


def test_clips_of_different_qualities_are_named():
    assert truth(FULL, LIVE, LIVE) == [
        "Clip0: the full simulation, within 2 % of its converged result",
        "Clip1, Clip2: reduced model, 0.2 from the full simulation",
    ]
    assert chosen_quality(figures(FULL, LIVE, LIVE)) == [
        "Clip0: full simulation: it is short",
        "Clip1, Clip2: reduced model: it is long",
    ]
    assert truth(FULL | {"converged": False}, LIVE | {"live_distance": 0.1})[0] == (
        "Clip0: the full simulation, which has not converged everywhere"
    )


def test_clips_of_one_quality_are_not_named():
    assert truth(LIVE, LIVE) == ["reduced model, 0.2 from the full simulation"]
    assert chosen_quality(figures(FULL, FULL)) == ["full simulation: it is short"]
    assert chosen_quality(figures(LIVE)) == ["reduced model: it is long"]
    assert chosen_quality(figures({"quality": "live"})) == []


def test_one_reason_among_clips_without_any_is_named():
    assert chosen_quality(figures(LIVE, {"quality": "live"})) == [
        "Clip0: reduced model: it is long"
    ]


@pytest.mark.parametrize(
    ("clip", "common"),
    [
        ({}, {"feel": "0.4 times as stiff at run time"}),
        ({"stiffness": 8.0}, {}),
        (
            {},
            {"swing": [{"reached": 0.04, "goal": 0.04, "region": "belly", "stiffness": 3.0}]},
        ),
    ],
)
def test_an_accuracy_measured_at_another_stiffness_is_marked(
    clip: dict[str, Any], common: dict[str, Any]
):
    assert truth(LIVE | {"stiffness": 1}) == ["reduced model, 0.2 from the full simulation"]
    (text,) = truth(LIVE | clip, **common)
    assert text.endswith("; measured as stiff as built")


@pytest.mark.parametrize(
    ("least", "most", "words"), [(4, 4, "4 steps"), (1, 1, "1 step"), (2, 8, "2 to 8 steps")]
)
def test_equal_counts_of_steps_are_one_number(capsys, least: int, most: int, words: str):
    playing = {"frames": 8, "rate": 30.0, "step_ms": 1.0}
    clip = {**FULL, **playing, "substeps": {"least": least, "most": most}}
    common = {"vertices": 10, "engine": "full", "model_kept": True, "output": "a"}
    common |= {"build_s": 1.0, "bake_s": 1.0}
    print_summary(figures(clip, **common))
    told = " ".join(capsys.readouterr().err.split())
    assert f"full simulation, {words} in place of one; half" in told
