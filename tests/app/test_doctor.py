"""`supple doctor` names what is there, what is missing, and what to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from supple.app import doctor
from supple.cli.main import main


def _figures(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> dict[str, Any]:
    """Return the result of `run_doctor` without Blender, with some parts replaced."""
    monkeypatch.setattr(doctor, "run_blender", lambda quiet: {"program": None})
    for name, value in changes.items():
        monkeypatch.setattr(doctor, name, value)
    return doctor.run_doctor(quiet=True)


def test_the_command_prints_what_json_has(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "run_blender", lambda quiet: {"program": None})
    main(["doctor", "--json"])
    figures = json.loads(capsys.readouterr().out)
    main(["doctor"])
    text = capsys.readouterr().out
    assert figures["versions"]["numpy"] in text
    assert f"{figures['machine']['cores']} cores" in text
    assert figures["cache"]["folder"] in text
    assert "no Blender; see supple blender" in text


def test_a_cache_that_cannot_be_written_is_a_problem_with_a_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.write_text("not a folder")
    monkeypatch.setenv("SUPPLE_CACHE", str(file / "cache"))
    (problem,) = [
        each for each in _figures(monkeypatch)["problems"] if "written" in each["problem"]
    ]
    assert "SUPPLE_CACHE" in problem["remedy"]


def test_little_memory_and_a_missing_library_are_problems(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = doctor._machine() | {"free_memory_mb": 500}
    figures = _figures(
        monkeypatch,
        _machine=lambda: machine,
        _versions=lambda: {"supple": "0.1.0", "numba": "missing"},
    )
    texts = [each["problem"] for each in figures["problems"]]
    assert any("500 MB" in text for text in texts)
    assert "numba is not installed" in texts


def test_an_extra_that_is_missing_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = _figures(monkeypatch, find_spec=lambda module: None)
    doctor.print_doctor(figures)
    printed = capsys.readouterr().out
    for _, extra, _ in doctor.EXTRAS:
        assert f"pip install 'supple[{extra}]'" in printed


def test_a_blender_that_does_not_start_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(quiet: bool) -> dict[str, Any]:
        raise doctor.SuppleError("blender: ends at once")

    figures = _figures(monkeypatch, run_blender=broken)
    assert any("ends at once" in each["problem"] for each in figures["problems"])


def test_a_machine_without_a_home_folder_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless(*arguments: Any, **options: Any) -> Any:
        raise RuntimeError("Could not determine home directory.")

    figures = _figures(monkeypatch, cache_folder=homeless, run_blender=homeless)
    texts = [each["problem"] for each in figures["problems"]]
    assert any("no home folder" in text for text in texts)
