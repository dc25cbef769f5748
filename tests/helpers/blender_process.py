"""Blender for tests: `bpy` in a separate environment and process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).resolve().parents[1]
INSIDE = TESTS / "blender" / "inside"
#: Names an environment with bpy; `make blender-env` makes the one that is found without it.
VARIABLE = "SUPPLE_BPY"
Ask = Callable[..., dict[str, Any]]


def bpy_python() -> Path | None:
    folder = Path(os.environ.get(VARIABLE) or TESTS.parent / ".bpy")
    python = folder / "bin" / "python"
    return python if python.is_file() else None


@pytest.fixture(scope="session")
def blender_python() -> Path:
    """Return the Python of an environment with bpy."""
    python = bpy_python()
    if python is None:
        pytest.skip(f"no environment with bpy; run make blender-env, or set {VARIABLE}")
    return python


@pytest.fixture(scope="session")
def blender(blender_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """Run a check of tests/blender/inside/claims.py by name and return its dict."""
    folder = tmp_path_factory.mktemp("blender")
    stand_in = folder / "supple"
    script = INSIDE / "stand_in.py"
    stand_in.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{script}" "$@"\n')
    stand_in.chmod(0o755)
    temporary = folder / "tmp"
    temporary.mkdir()
    surrounding = {
        "SUPPLE_COMMAND": str(stand_in),
        "STAND_IN": "",
        "STAND_IN_KEEP": str(folder / "flesh.glb"),
        "TMPDIR": str(temporary),
        "BLENDER_USER_RESOURCES": str(folder),
    }
    process = subprocess.Popen(
        [blender_python, INSIDE / "run.py"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=(folder / "said.txt").open("w"),
        text=True,
        cwd=folder,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    streams = process.stdin, process.stdout

    def ask(claim: str, environment: dict[str, str] | None = None, **given: Any) -> dict[str, Any]:
        told = {"claim": claim, "environment": surrounding | (environment or {}), **given}
        print(json.dumps(told), file=streams[0], flush=True)
        answer = json.loads(streams[1].readline() or '{"trouble": "Blender is gone"}')
        assert "trouble" not in answer, answer["trouble"]
        return answer["found"]

    ask.kept = surrounding["STAND_IN_KEEP"]  # type: ignore[attr-defined]
    yield ask
    process.stdin.close()
    process.wait(20)
