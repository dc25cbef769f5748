"""What commands need is compiled beforehand: by several processes, each function once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from llvmlite.binding import get_process_triple
from numba import typeof
from numba.core import types

from supple.cli.main import main
from supple.compiled import ahead
from supple.compiled.ahead import compiling_beside, workers
from supple.compiled.code_files import _is_trusted, kernel_folders
from supple.compiled.kernel_dispatcher import KernelDispatcher
from supple.compiled.listed_kernels import Kernel, jobs, kernel_line, kernels_for, parsed, spelled
from supple.compiled.shipped_code import X86_64_V3, can_run
from supple.compiled.tables import ArgumentTable
from supple.dynamics.integrators import StepStart
from supple.errors import SuppleError

SOURCE = """
from supple.compiled.jit import compiled, compiled_fused

@compiled_fused
def inner(x):
    return 2.0 * x

@compiled
def one(x):
    return inner(x) + 1.0

@compiled
def two(x, n):
    total = 0.0
    for i in range(n):
        total += inner(x)
    return total
"""
KERNELS = [
    Kernel(2.0, ("it",), "ahead_module:two", "float64, int64"),
    Kernel(1.0, ("it",), "ahead_module:one", "float64"),
    Kernel(1.0, ("it",), "ahead_module:gone", "float64"),
    Kernel(1.0, ("it",), "ahead_module:one", "Named('nowhere:Gone', float64)"),
]
WORKER = """
import sys
import tempfile
sys.path.insert(0, {folder!r})
from supple.compiled import ahead
from supple.compiled.listed_kernels import Kernel
ahead.kernels_for = lambda job=None: {kernels!r}
from numba.core import event
compiled = []
class Count(event.Listener):
    def on_start(self, event): compiled.append(event.data["dispatcher"].py_func.__name__)
    def on_end(self, event): pass
event.register("numba:compile", Count())
ahead.compile_missing("it", lambda kernel: None)
print(len([name for name in compiled if name in ("inner", "one", "two")]))
"""


@pytest.fixture
def begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Any]]:
    """A function that starts a worker on a folder where nothing is compiled."""
    (tmp_path / "ahead_module.py").write_text(SOURCE)
    program = WORKER.format(folder=str(tmp_path), kernels=KERNELS)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "kernels"))
    started: list[subprocess.Popen] = []

    def start() -> subprocess.Popen:
        command = [sys.executable, "-c", program]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def answer(process: subprocess.Popen) -> int:
    told, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    return int(told)


def files(folder: Path) -> list[str]:
    return sorted(each.name.split(".py3")[0] for each in folder.rglob("ahead_module*.nb?"))


def test_two_workers_share_the_work_and_a_third_finds_it_done(begin, tmp_path):
    counts = [answer(worker) for worker in (begin(), begin())]
    # A function inside others, and two with the way to them from Python.
    assert sum(counts) == 1 + 2 * 2
    assert len(files(tmp_path / "kernels")) == 5
    assert answer(begin()) == 0


def test_a_worker_that_was_killed_leaves_nothing_in_the_way(begin, tmp_path):
    killed = begin()
    patience = time.monotonic() + 120
    while not list((tmp_path / "kernels").rglob("*.lock")):  # until it compiles
        assert time.monotonic() < patience
        assert killed.poll() is None
        time.sleep(0.001)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    answer(begin())
    assert len(files(tmp_path / "kernels")) == 5


def test_a_worker_ends_with_its_parent(tmp_path):
    # All of Supple takes minutes: it does not end by itself before.
    command = [sys.executable, "-m", "supple.compiled.ahead", "all"]
    worker = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)},
    )
    assert worker.stdin is not None
    worker.stdin.close()
    assert worker.wait(timeout=60) == 0


def test_workers_beside_a_command_go_on_until_it_ends(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    kernel_folders.cache_clear()
    patience = time.monotonic() + 120
    with compiling_beside("stvk") as missing:
        assert missing
        while not list(tmp_path.rglob("*.nbp")):
            assert time.monotonic() < patience
            time.sleep(0.02)
    kernel_folders.cache_clear()


def test_code_that_others_could_write_is_not_run(tmp_path):
    (tmp_path / "code.nbc").write_bytes(b"")
    (tmp_path / "code.nbc").chmod(0o644)
    assert _is_trusted(tmp_path / "code.nbc")
    (tmp_path / "code.nbc").chmod(0o646)
    assert not _is_trusted(tmp_path / "code.nbc")


SHIPPED = """
import sys
import tempfile
from pathlib import Path
folder, kernels, shipped = sys.argv[1:]
sys.path.insert(0, folder)
from supple.compiled import code_files, shipped_code
if shipped != "none":
    code_files.shipped_folder = shipped_code.shipped_folder = lambda: Path(shipped)
import ahead_module
assert ahead_module.two(1.5, 3) == 9.0
if shipped == "none":
    shipped_code.pack(Path(kernels), Path(kernels) / "packed")
else:
    print(sum(ahead_module.two.stats.cache_misses.values()))
"""


@pytest.mark.skipif(
    not can_run((get_process_triple(), "", X86_64_V3["NUMBA_CPU_FEATURES"])),
    reason="not a processor with AVX2",
)
def test_code_shipped_with_the_package_is_found_and_runs_on_supported_processors(tmp_path):
    (tmp_path / "ahead_module.py").write_text(SOURCE)
    made = tmp_path / "made"

    def run(shipped: str, **settings: str) -> str:
        words = [sys.executable, "-c", SHIPPED, str(tmp_path), str(made), shipped]
        return subprocess.run(
            words, env=os.environ | settings, check=True, capture_output=True, text=True
        ).stdout

    run("none", NUMBA_CACHE_DIR=str(made), **X86_64_V3)
    packed = made / "packed"
    empty = {"NUMBA_CACHE_DIR": str(tmp_path / "empty")}
    assert int(run(str(packed), **empty)) == 0
    target = packed / "target.json"
    for other in ("[]", "no json", json.dumps([get_process_triple(), "vax", "+no-such-thing"])):
        target.write_text(other)
        anew = tempfile.mkdtemp(dir=tmp_path)
        assert int(run(str(packed), NUMBA_CACHE_DIR=anew)) > 0  # it is compiled
        assert list(Path(anew).rglob("*.nbc"))


def test_types_can_be_read_back():
    record = np.dtype([("a", np.int64), ("b", np.float32)])
    frozen = np.zeros(2)
    frozen.flags.writeable = False
    values = (
        1.5,
        3,
        True,
        None,
        np.float32(2),
        np.zeros((2, 3)),
        np.zeros((2, 3)).T,
        np.zeros((4, 4))[::2, ::2],
        frozen,
        np.zeros(2, record),
        (1, 2),
        (1, 2.0),
        (),
        (1.0,),
        StepStart(np.zeros(2), np.zeros(2), np.zeros(2)),
        ArgumentTable((np.zeros(2), 1)),
    )
    for value in values:
        kind = typeof(value)
        assert parsed(spelled(kind)) == kind
    assert parsed(spelled(types.Omitted(None))) == types.Omitted(None)


def test_argument_types_without_a_text_form_are_refused():
    with pytest.raises(ValueError, match="cannot be written as text"):
        kernel_line(1.0, ["it"], "here:there", (types.literal(3),))


@pytest.mark.parametrize("kernel", kernels_for(), ids=lambda each: each.place)
def test_the_list_is_up_to_date(kernel):
    """If not: python tests/compiled/record_kernels.py."""
    resolved = kernel.resolve()
    assert resolved is not None
    dispatcher, args = resolved
    assert isinstance(dispatcher, KernelDispatcher)
    assert kernel_line(kernel.weight, kernel.jobs, kernel.place, args).endswith(kernel.arguments)


def test_a_mark_records_that_nothing_is_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(ahead, "kernel_folders", lambda source: (tmp_path,))
    monkeypatch.setattr(ahead, "kernels_for", lambda job=None: [])
    assert not ahead.is_complete("it")
    ahead.compile_missing("it", lambda kernel: None)
    assert ahead.is_complete("it")
    monkeypatch.setattr(ahead, "code_hash", lambda packages: "of another version")
    assert not ahead.is_complete("it")


def test_the_command_shows_where_code_is_stored_and_removes_it(tmp_path, monkeypatch, capsys):
    from supple.app import compiling

    names = ("a.f.py311.0.1.nbc", "a.f.py311.0.1.nbp", "complete-it-0")
    kept = [tmp_path / name for name in names]
    for path in (*kept, tmp_path / "a.cpython-311.pyc"):
        path.write_bytes(b"1234567")
    of_another_install = tmp_path / "cache" / "kernels" / "elastic_0" / names[0]
    of_another_install.parent.mkdir(parents=True)
    of_another_install.write_bytes(b"1234567")
    monkeypatch.setenv("SUPPLE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("supple.compiled.code_files.kernel_folders", lambda source: (tmp_path,))
    main(["compile", "--list", "--json"])
    assert json.loads(capsys.readouterr().out)["files"] == 4
    main(["compile", "--clean"])
    assert capsys.readouterr().out == "removed 4 files, 0.0 MB\n"
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["a.cpython-311.pyc"]
    assert compiling.where_compiled()["files"] == 0


def test_wrong_words_are_answered_in_one_line():
    from supple.app.compiling import run_compile

    with pytest.raises(SuppleError, match=f'did you mean "{jobs()[0]}"'):
        run_compile(jobs()[0] + "s")
    with pytest.raises(SuppleError, match="use 1 or more"):
        run_compile(None, cores=0)


def test_nothing_is_started_where_it_is_switched_off(monkeypatch):
    from supple.app.compiling import SWITCH, compiled_for

    monkeypatch.setenv(SWITCH, "0")
    monkeypatch.setattr(ahead, "workers", None)
    with compiled_for("bake"):
        pass
    assert os.environ[SWITCH] == "0"


def test_a_compiling_process_imports_no_module_of_the_current_folder(tmp_path, monkeypatch):
    (tmp_path / "pickle.py").write_text("open('imported', 'w')\n")
    monkeypatch.chdir(tmp_path)
    with workers("stvk", 1) as started:
        for process in started:
            assert process.stdout is not None
            process.stdout.readline()  # its first function, or the end
    assert started
    assert not (tmp_path / "imported").exists()
