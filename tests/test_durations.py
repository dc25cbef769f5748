"""What tests take, kept: slow ones are known, and the longest files begin."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from helpers.durations import Measured, longest_first, mark_slow, read_durations


def item(nodeid: str, shares: bool = False) -> Any:
    marks: list[Any] = []
    made = SimpleNamespace(scope="module", baseid=nodeid.split("::")[0])
    info = SimpleNamespace(name2fixturedefs={"model": [made]} if shares else {})
    return SimpleNamespace(
        nodeid=nodeid, _fixtureinfo=info, add_marker=lambda mark: marks.append(mark), marks=marks
    )


def test_measured_durations_sort_files_and_mark_slow_tests(tmp_path: Path):
    measured = Measured(tmp_path / "durations.json")
    for nodeid, when, seconds in (
        ("a.py::test_quick[1]", "call", 0.4),
        ("b.py::test_cases[1]", "call", 0.6),
        ("b.py::test_cases[2]", "call", 0.6),
        ("b.py::test_of_a_model", "setup", 2.0),
        ("b.py::test_of_a_model", "call", 0.1),
    ):
        report = SimpleNamespace(nodeid=nodeid, when=when, duration=seconds)
        measured.pytest_runtest_logreport(report)
    measured.pytest_sessionfinish()
    durations = read_durations(measured.path)
    assert durations == {"a.py": {"test_quick": 0.4}, "b.py": {"shared": 2.0, "test_cases": 1.2}}
    items = [
        item("a.py::test_quick[1]", shares=True),
        item("new.py::test_unknown"),
        item("b.py::test_cases[2]"),
        item("b.py::test_of_a_model", shares=True),
        item("b.py::test_alone"),
    ]
    mark_slow(items, durations)
    assert [len(each.marks) for each in items] == [1, 0, 2, 2, 0]
    longest_first(items, durations)
    files = [each.nodeid.split("::")[0] for each in items]
    assert files == ["b.py", "b.py", "b.py", "a.py", "new.py"]


def test_a_run_of_some_tests_keeps_durations_of_others(tmp_path: Path):
    path = tmp_path / "durations.json"
    path.write_text('{"a.py": {"test_one": 3.0, "test_two": 2.0}, "b.py": {"test_three": 1.0}}')
    measured = Measured(path)
    report = SimpleNamespace(nodeid="a.py::test_one", when="call", duration=0.1)
    measured.pytest_runtest_logreport(report)
    measured.pytest_sessionfinish()
    assert read_durations(path) == {"a.py": {"test_two": 2.0}, "b.py": {"test_three": 1.0}}
