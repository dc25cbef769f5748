"""What is compiled at first use: without the collector of garbage, and by one worker only."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numba
import pytest
from numba.core import event

import supple.compiled.jit

#: Seconds after which a process is taken to hang.
PATIENCE = 120
WORKER = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[1:3]
from helpers.cold_start import compile_once
compile_once(Path(sys.argv[3]))
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
    assert supple.compiled.jit.compiled is not None  # from its import on
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


def misses_of_two_workers(tmp_path: Path, locks: Path) -> list[list[int]]:
    """How often each of two workers that start together compiled the outer and inner function."""
    (tmp_path / "shared_function.py").write_text(SHARED)
    folders = [str(Path(__file__).parents[1]), str(tmp_path), str(locks)]
    arguments = [sys.executable, "-c", WORKER, *folders]
    pipe = subprocess.PIPE
    workers = [subprocess.Popen(arguments, stdin=pipe, stdout=pipe, text=True) for _ in range(2)]

    def end() -> None:
        for worker in workers:
            worker.kill()

    watch = threading.Timer(PATIENCE, end)  # reading a line has no limit of its own
    watch.start()
    try:
        for worker in workers:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "ready\n"
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.write("go\n")
            worker.stdin.flush()
        told = [worker.communicate(timeout=PATIENCE)[0] for worker in workers]
        assert [worker.returncode for worker in workers] == [0, 0]
    finally:
        watch.cancel()
        end()
        for worker in workers:
            worker.wait()
    return [[int(line) for line in each.split()] for each in told]


@pytest.mark.skipif(sys.platform == "win32", reason="no locks on files there")
def test_of_two_workers_one_compiles_a_function_and_the_other_loads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    # Whoever loads the outer one needs the inner one no more.
    assert sorted(misses_of_two_workers(tmp_path, tmp_path)) == [[0, 0], [1, 1]]


def test_where_there_can_be_no_lock_workers_compile_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    for misses in misses_of_two_workers(tmp_path, tmp_path / "not there"):
        assert misses in ([0, 0], [1, 0], [1, 1])


def test_workers_run_without_the_cache_of_pytest(tmp_path: Path):
    pytest.importorskip("xdist")
    here = Path(__file__).parents[1]
    (tmp_path / "conftest.py").write_text((here / "conftest.py").read_text())
    (tmp_path / "test_one.py").write_text("def test_one():\n    pass\n")
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "1", "-p", "no:cacheprovider", "."],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(here)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert "1 passed" in found.stdout, found.stdout + found.stderr


def test_without_numbas_compiler_the_import_says_so_in_one_line():
    found = subprocess.run(
        [sys.executable, "-c", "import supple.compiled.jit"],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    last = found.stderr.splitlines()[-1]
    assert last.endswith("SuppleError: Supple needs Numba's compiler; unset NUMBA_DISABLE_JIT")
