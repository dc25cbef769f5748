"""Compiling at first use: without the collector of garbage."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numba
import pytest
from numba.core import event

import supple.compiled.jit

#: Seconds after which a process is taken to hang.
PATIENCE = 120


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


def test_without_numbas_compiler_the_import_fails_in_one_line():
    found = subprocess.run(
        [sys.executable, "-c", "import supple.compiled.jit"],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    last = found.stderr.splitlines()[-1]
    assert last.endswith("SuppleError: Supple needs Numba's compiler; unset NUMBA_DISABLE_JIT")


def test_info_imports_nothing_that_only_compiling_or_scenes_need(assets: Path):
    """Measured: 0.3 of 1.2 s."""
    script = (
        "import sys; from supple.cli.main import main\n"
        "main(['info', sys.argv[1], '--quiet'])\n"
        "print(*sys.modules, sep='\\n')"
    )
    path = assets / "gltf_characters" / "CesiumMan.glb"
    for _ in range(2):  # the first may have to compile
        found = subprocess.run(
            [sys.executable, "-c", script, str(path)],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
    imported = found.stdout.split()
    assert "numba" in imported
    late = ("numba.typed.listobject", "cffi", "matplotlib", "viser")
    assert not {*late, "supple.scenes", "supple.anatomy"} & set(imported)
