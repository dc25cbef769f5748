"""The examples run as they stand, and find what they say."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from supple.errors import SuppleWarning

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def example(name: str) -> Any:
    """The `main` of an example."""
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"]


def test_every_example_is_tested_here():
    known = {"haptic_bridge", "from_vegafem", "grasp", "fall"}
    assert {path.stem for path in EXAMPLES.glob("*.py")} == known


def test_a_haptic_step_is_faster_than_a_device_requires(tmp_path, capsys):
    picture = tmp_path / "felt.png"
    found = example("haptic_bridge")(["--quick", "--picture", str(picture)])
    assert 1.0 < found["strongest"] <= 3.3
    assert 0 < found["depth"] < 0.002
    assert found["rate"] > 1000
    assert picture.read_bytes().startswith(b"\x89PNG")
    said = capsys.readouterr().out
    assert "steps a second in one call; 1000 are needed" in said


def test_a_beam_moves_over_from_vegafems_files(capsys):
    moved = example("from_vegafem")([])
    assert moved == pytest.approx(0.1, rel=0.2)
    assert "CubicModel(8 modes, 90 surface vertices)" in capsys.readouterr().out


def test_a_model_of_vegafems_moves_over(assets):
    folder = assets / "vegafem/reduced_A"
    files = [str(folder / name) for name in ("A.cub", "A.URendering.float", "A.obj")]
    with pytest.warns(SuppleWarning, match="unreferenced"):
        moved = example("from_vegafem")([*files, "--frequency-scaling", "0.02"])
    assert moved == pytest.approx(0.126, rel=0.2)


SMALL = ["--tets", "3000", "--handles", "24"]


def test_a_hand_lifts_a_ball_and_feels_its_weight(tmp_path, capsys):
    picture = tmp_path / "grasp.png"
    found = example("grasp")([*SMALL, "--picture", str(picture)])
    assert found["lifted"] > 0.1
    assert found["carried"] == pytest.approx(found["weight"], rel=0.15)
    assert found["strongest"] > found["grip"] > found["weight"]
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "weight of the ball 0.57 N" in capsys.readouterr().out


def test_a_body_falls_and_its_impact_is_printed(tmp_path, capsys):
    picture = tmp_path / "fall.png"
    found = example("fall")([*SMALL, "--limp", "--seconds", "0.9", "--picture", str(picture)])
    assert 2000 < found["peak"] < 20_000
    assert 0.2 < found["at"] < 0.9
    assert found["hardest"] in capsys.readouterr().out.replace(" ", "_")
    assert picture.read_bytes().startswith(b"\x89PNG")
