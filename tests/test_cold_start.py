"""What is compiled at first use: without the collector of garbage, and by one worker only."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path
from typing import Any

import numba
import pytest
from numba.core import event

import supple.compiled

WORKER = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[1:3]
from cold_start import compile_once
compile_once(Path(sys.argv[2]))
import shared_function
print("ready", flush=True)
sys.stdin.readline()
shared_function.twice_cubed(1.5)
for each in (shared_function.twice_cubed, shared_function.cubed):
    print(sum(each.stats.cache_misses.values()))
"""
SHARED = """
import numba

@numba.njit(cache=True)
def cubed(x):
    return x * x * x

@numba.njit(cache=True)
def twice_cubed(x):
    return 2 * cubed(x)
"""


class Watching(event.Listener):
    def __init__(self) -> None:
        self.collecting: list[bool] = []

    def on_start(self, event: Any) -> None:
        self.collecting.append(gc.isenabled())

    def on_end(self, event: Any) -> None:
        self.collecting.append(gc.isenabled())


def test_the_collector_rests_while_something_compiles_and_then_goes_on():
    assert supple.compiled.compiled is not None  # from its import on
    watching = Watching()
    with event.install_listener("numba:compile", watching):
        assert numba.njit(lambda x: x + 1)(1) == 2
    assert watching.collecting[0] is False
    assert gc.isenabled()
    with pytest.raises(numba.TypingError):
        numba.njit(lambda x: x.nothing)(1)
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off():
    gc.disable()
    try:
        assert numba.njit(lambda x: x + 2)(1) == 3
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.skipif(sys.platform == "win32", reason="no locks on files there")
def test_of_two_workers_one_compiles_a_function_and_the_other_loads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "shared_function.py").write_text(SHARED)
    arguments = [sys.executable, "-c", WORKER, str(Path(__file__).parent), str(tmp_path)]
    pipe = subprocess.PIPE
    workers = [subprocess.Popen(arguments, stdin=pipe, stdout=pipe, text=True) for _ in range(2)]
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    misses = [[int(line) for line in worker.communicate()[0].split()] for worker in workers]
    # Whoever loads the outer one needs the inner one no more.
    assert sorted(misses) == [[0, 0], [1, 1]]
