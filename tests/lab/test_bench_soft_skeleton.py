"""`supple bench soft-skeleton`: what it prints and draws, and that it measures what it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from supple.cli.main import main
from supple.errors import SuppleError
from supple.lab.bench import growth_bench
from supple.lab.bench.soft_skeleton import soft_bench
from supple.lab.bench.soft_skeleton.soft_bench import KEYS, ClockedRun, split_of, table
from supple.lab.bench.soft_skeleton.soft_cases import CASES, checked_cases, pressed, untouched
from supple.lab.reproduce.tapia2021.soft_bodies import model_of


def told(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code != 0
    return capsys.readouterr().err


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Model of a small hand."""
    file = tmp_path_factory.mktemp("models") / "small.supple"
    model_of("hand", quick=True).save(file)
    return file


@pytest.fixture(scope="module")
def row(path: Path) -> dict[str, Any]:
    (found,) = soft_bench.measure(model=path, steps=40, quiet=True)
    return found


def test_a_row_has_the_agreed_keys_first_and_plain_numbers(row: dict[str, Any]) -> None:
    assert tuple(row)[: len(KEYS)] == KEYS
    assert row["case"] == "small"
    for key in ("step_ms", "step_in_dgemm", "force_ms", "hessian_ms", "solve_ms", "contact_ms"):
        assert row[key] > 0, key
    assert row["p99_over_median"] >= 1
    assert row["most_contacts"] > 0
    assert row["build_s"] is row["speedup"] is row["paper_ms"] is None
    json.dumps(row, allow_nan=False)


def test_parts_of_a_step_add_up_to_it(row: dict[str, Any]) -> None:
    names = ("force", "hessian", "solve", "contact", "skin", "other")
    total = sum(row[f"{name}_ms"] for name in names)
    assert total == pytest.approx(row["step_ms"], rel=0.25)  # medians do not quite add up
    assert split_of({"system": 3.0, "solve": 1.0, "contact": 1.0, "skin": 1.0}, 7.0, 0.5) == {
        "force_ms": 0.5,
        "hessian_ms": 2.5,
        "solve_ms": 1.0,
        "contact_ms": 1.0,
        "skin_ms": 1.0,
        "other_ms": 1.0,
    }


def test_a_clocked_run_does_what_the_run_does() -> None:
    model = model_of("hand", quick=True)
    plain, clocked = pressed(model), ClockedRun(lambda: pressed(model))
    for number in range(1, 6):
        state = plain.step(number)
        report = clocked.step()
    assert np.array_equal(plain.simulator.surface(), clocked.surface())
    assert clocked.contacts[-1] == state.readings["contacts"]
    assert report.seconds["system"] > 0


def test_a_larger_ball_touches_more_skin_and_nothing_is_touched_without() -> None:
    model = model_of("hand", quick=True)
    runs = {"small": pressed(model, 0.03), "large": pressed(model, 0.2)}
    runs["none"] = untouched(model, "a file")
    most = {name: 0 for name in runs}
    for name, run in runs.items():
        for number in range(1, 46):
            most[name] = max(most[name], int(run.step(number).readings["contacts"]))
    assert most["large"] > most["small"] > 0 == most["none"]


def test_the_table_shows_cases_and_a_dash_for_what_the_paper_has_not(
    row: dict[str, Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    table([row, row | {"case": "hand", "paper_speedup": 928.0, "build_s": 14.25}])
    shown = capsys.readouterr().out
    for word in ("small", "hand", "928", "–", "step in dgemm", "14.2", "all tets", "contact"):
        assert word in shown


def test_growth_is_drawn_and_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    picture, calls = tmp_path / "growth.png", []

    def row(*given: Any) -> dict[str, Any]:
        calls.append(given)
        if len(calls) == 3:
            raise KeyboardInterrupt
        handles, cubature, ball = given[3:6]
        sizes = {"handles": handles, "cubature": cubature, "most_contacts": int(1000 * ball)}
        kept = {"coordinates": 3 * handles, "contacts": 1.0, "step_in_dgemm": 1.0, "build_s": 1.0}
        return sizes | kept | {key: 0.01 * handles for key in growth_bench.PARTS}

    monkeypatch.setattr(growth_bench, "_soft_row", row)
    sizes: dict[str, Any] = {"handles": (10, 20), "cubature": (50, 100), "balls": (0.01, 0.1)}
    with pytest.raises(KeyboardInterrupt):
        growth_bench.measure_soft_skeleton(picture, **sizes, quiet=True)
    figures = growth_bench.measure_soft_skeleton(picture, **sizes, quiet=True)
    assert len(calls) == 3 + 4  # six cases, of which two were there
    assert figures["exponents"]["handles"]["step_ms"] == pytest.approx(1.0)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert json.loads(picture.with_suffix(".json").read_text())["complete"]


def test_misspelt_cases_are_errors(capsys: pytest.CaptureFixture[str], path: Path) -> None:
    assert checked_cases([]) == list(CASES)
    with pytest.raises(SuppleError, match='did you mean "hand"'):
        checked_cases(["hnad"])
    assert "one or the other" in told(
        ["bench", "soft-skeleton", "hand", "--model", str(path)], capsys
    )
    assert "no such file" in told(["bench", "soft-skeleton", "--model", "none.supple"], capsys)
    assert "leave out cases and --model" in told(
        ["bench", "soft-skeleton", "hand", "--growth", "g.png"], capsys
    )
    assert "choose between 10" in told(["bench", "soft-skeleton", "hand", "--steps", "3"], capsys)
