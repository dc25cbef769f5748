"""`supple bench rig-space`: what it prints and draws, and that it measures what it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supple
from supple.cli.main import main
from supple.errors import SuppleError
from supple.lab.bench import growth_bench, rig_space_bench
from supple.lab.bench.case_runner import print_growth
from supple.lab.bench.rig_space_bench import (
    CASES,
    KEYS,
    checked_cases,
    made_belly,
    made_trunk,
    table,
)


def told(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code != 0
    return capsys.readouterr().err


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Model of a small belly."""
    case = made_belly(4, 200)
    file = tmp_path_factory.mktemp("models") / "small.supple"
    supple.build(case.character, engine="rig-space", **case.options).save(file)
    return file


@pytest.fixture(scope="module")
def row(path: Path) -> dict[str, Any]:
    (found,) = rig_space_bench.measure(model=path, steps=40, quiet=True)
    return found


def test_a_row_has_the_agreed_keys_first_and_plain_numbers(row: dict[str, Any]) -> None:
    assert tuple(row)[: len(KEYS)] == KEYS
    assert (row["case"], row["free"]) == ("small", 4)
    for key in ("step_ms", "step_in_dgemm", "rsp_ms", "rsp_differences_ms", "speedup_over_rsp"):
        assert row[key] > 0, key
    assert row["p99_over_median"] >= 1
    assert row["build_s"] is row["paper_ms"] is None
    assert np.isclose(row["speedup_over_rsp"], row["rsp_ms"] / row["step_ms"], rtol=1e-2)
    json.dumps(row, allow_nan=False)


def test_the_table_shows_cases_and_a_dash_for_what_the_paper_has_not(
    row: dict[str, Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    table([row, row | {"case": "elephant:belly", "paper_speedup": 357.7, "build_s": 3.25}])
    shown = capsys.readouterr().out
    for word in ("small", "elephant:belly", "358", "–", "step in dgemm", "3.2", "RSP"):
        assert word in shown


@pytest.mark.parametrize(("make", "free"), [(made_trunk, 13), (made_belly, 9)])
def test_generated_characters_have_the_requested_number_of_free_parameters(
    make: Any, free: int
) -> None:
    case = make(free, 400)
    model = supple.build(case.character, engine="rig-space", **case.options, modes=2, cubature=30)
    assert len(model.entries) == free
    assert 200 < len(model.mesh.tets) < 800
    rig = case.character.rig
    moved = rig(rig.rest_pose + 0.05 * np.isin(np.arange(len(rig.rest_pose)), model.entries))
    assert np.abs(moved - rig(rig.rest_pose)).max() > 1e-3


def test_growth_draws_a_picture_and_an_ended_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[str, int, int]] = []

    def row(kind: str, free: int, tets: int, steps: int) -> dict[str, Any]:
        calls.append((kind, free, tets))
        if len(calls) == 3:
            raise KeyboardInterrupt
        times = {"step_ms": 0.1 * free, "step_in_dgemm": 0.2 * free, "build_s": 1e-3 * tets}
        sizes = {"free": free, "tets": tets, "cubature": 50, "modes": 16}
        return sizes | times | {"dgemm256_ms": 0.7, "p99_over_median": 1.1}

    monkeypatch.setattr(growth_bench, "_free_row", row)
    options: dict[str, Any] = {"parameters": {"wire": (10, 20), "shapes": (10, 40)}}
    options |= {"tets": (2_000, 4_000), "quiet": True}
    target = tmp_path / "growth.png"
    with pytest.raises(KeyboardInterrupt):
        growth_bench.measure_rig_space(target, **options)
    figures = growth_bench.measure_rig_space(target, **options)
    assert len(calls) == 7  # two were kept, one was ended
    assert figures["exponents"]["shapes"]["step_ms"] == pytest.approx(1.0)
    assert figures["exponents"]["tets"]["step_ms"] == pytest.approx(0.0, abs=1e-6)
    assert target.read_bytes().startswith(b"\x89PNG")
    print_growth(growth_bench.RIG_SPACE, figures)
    target.with_suffix(".json").write_text("[1, 2]")  # whatever else is there
    growth_bench.measure_rig_space(target, **options)
    growth_bench.measure_rig_space(target, **options)
    assert len(calls) == 19  # what was done is measured again


def test_invalid_bench_requests_are_one_line_errors(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert 'did you mean "belly"' in told(["bench", "rig-space", "bely"], capsys)
    assert "no such file" in told(["bench", "rig-space", "--model", "none.supple"], capsys)
    said = told(["bench", "rig-space", "belly", "--model", str(path)], capsys)
    assert "one or the other" in said
    assert "choose between" in told(["bench", "rig-space", "--steps", "3"], capsys)
    said = told(["bench", "rig-space", "belly", "--growth", str(tmp_path / "g.png")], capsys)
    assert "measures fixed cases" in said
    assert "--fidelity" in told(["bench", "--engine", "rig-space", "--fidelity"], capsys)
    assert "did you mean" in told(["bench", "--engine", "rig-space", "trunc"], capsys)
    with pytest.raises(SuppleError, match="no case"):
        checked_cases(["arm"])
    assert set(CASES) <= set(checked_cases([]))
