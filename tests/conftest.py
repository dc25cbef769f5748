"""Shared fixtures and hooks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.blender_process import blender, blender_python
from helpers.durations import Measured, longest_first, mark_slow, read_durations

__all__ = ["blender", "blender_python"]
#: Modules that run in Blender.
collect_ignore = ["blender/inside"]
ASSETS = Path(
    os.environ.get("SUPPLE_ASSETS") or Path(__file__).resolve().parents[1] / "../shared/assets"
)
# Tests compile what they call; workers of theirs share that already.
os.environ.setdefault("SUPPLE_COMPILE_AHEAD", "0")
# Tests of builders build: `keep=True` reads and writes the cache all the same.
os.environ.setdefault("SUPPLE_KEEP_MODELS", "0")
#: With fewer tests than these, what they compile is hardly all that there is.
MANY = 1000


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "keep what tests take in tests/durations.json, by which they are sorted and slow"
    parser.addoption("--keep-durations", action="store_true", help=text)


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--keep-durations") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Measured())


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests before `-m` selects them, and sort the longest files first."""
    durations = read_durations()
    mark_slow(items, durations)
    longest_first(items, durations)


@pytest.fixture(scope="session")
def assets() -> Path:
    """Return the folder of real and malformed files; skip the test without it."""
    if not ASSETS.is_dir():
        pytest.skip("no assets beside the repository; set SUPPLE_ASSETS to their folder")
    return ASSETS


@pytest.fixture(scope="session", autouse=True)
def _one_cache(request: pytest.FixtureRequest) -> Iterator[None]:
    """Cache scenes for all tests and workers outside the user's folder."""
    kept = getattr(request.config, "cache", None)
    with pytest.MonkeyPatch.context() as patch:
        if kept is not None:  # pytest's cache may be off
            patch.setenv("SUPPLE_CACHE", str(kept.mkdir("scenes")))
        yield


@pytest.fixture(scope="session", autouse=True)
def _compiled_once(request: pytest.FixtureRequest) -> None:
    """Share compilation between workers."""
    if "PYTEST_XDIST_WORKER" in os.environ and len(request.session.items) >= MANY:
        from helpers.cold_start import begin_apart

        begin_apart()
