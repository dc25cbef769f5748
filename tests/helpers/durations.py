"""Stored durations of tests: the longest files run first, and long tests are marked.

`make test-quick` runs those that are neither slow nor long, `make test` all but the long ones, and
`make test-all`, as CI does, all. `make test-durations` measures anew. A test that the file does not
know counts as quick.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

__all__ = ["KEPT", "Measured", "longest_first", "mark_slow", "read_durations"]

KEPT = Path(__file__).resolve().parents[1] / "durations.json"
#: Seconds, of all cases of a test together, from which it is slow, and long. Shorter ones than the
#: slow are not kept.
SLOW, LONG = 0.3, 1.0
#: The part of a file's time in which its tests make what they share.
SHARED = "shared"

Durations = dict[str, dict[str, float]]


def read_durations(path: Path = KEPT) -> Durations:
    """Return seconds by file and test, empty without measurements."""
    return json.loads(path.read_text()) if path.is_file() else {}


def _file_of(item: Any) -> str:
    return str(item.nodeid).split("::")[0]


def _test_of(nodeid: str) -> str:
    return nodeid.split("::", 1)[-1].split("[")[0]


def longest_first(items: list[Any], durations: Durations) -> None:
    """Sort files by duration, longest first, keeping the order of tests within them."""
    seconds = {name: sum(tests.values()) for name, tests in durations.items()}
    items.sort(key=lambda item: -seconds.get(_file_of(item), 0.0))


def mark_slow(items: list[Any], durations: Durations) -> None:
    """Mark tests that take long, or that use a slow fixture of their file."""
    for item in items:
        known = durations.get(_file_of(item), {})
        seconds = known.get(_test_of(item.nodeid), 0.0)
        if _shares(item):
            seconds = max(seconds, known.get(SHARED, 0.0))
        for least, mark in ((SLOW, pytest.mark.slow), (LONG, pytest.mark.long)):
            if seconds >= least:
                item.add_marker(mark)


def _shares(item: Any) -> bool:
    """Return whether a test uses a module-scoped fixture."""
    made = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {})
    return any(
        each.scope == "module" and each.baseid == _file_of(item)
        for several in made.values()
        for each in several
    )


class Measured:
    """Plugin that stores the durations of tests."""

    def __init__(self, path: Path = KEPT) -> None:
        self.path = path
        self.seconds: Any = defaultdict(lambda: defaultdict(float))

    def pytest_runtest_logreport(self, report: Any) -> None:
        shared = report.when == "setup" and report.duration >= SLOW
        test = SHARED if shared else _test_of(report.nodeid)
        self.seconds[report.nodeid.split("::")[0]][test] += report.duration

    def pytest_sessionfinish(self) -> None:
        kept = read_durations(self.path)  # of tests that were not run this time
        for name, tests in self.seconds.items():
            long = kept.get(name, {}) | {test: round(each, 1) for test, each in tests.items()}
            kept[name] = {test: long[test] for test in sorted(long) if long[test] >= SLOW}
        kept = {name: kept[name] for name in sorted(kept) if kept[name]}
        self.path.write_text(json.dumps(kept, indent=1) + "\n")
