"""The examples of docs/extending.md: one file and one row each, and nothing else is touched."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "extending.md"


def sections() -> dict[str, str]:
    parts = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return {part.splitlines()[0]: part for part in parts}


def run_example(name: str, folder: Path, change: Callable[[str], str] = str) -> str:
    """Run the example of a section, with a change of its file; return its errors."""
    found = re.findall(r"([^\n]*)\n+^```python\n(.*?)^```$", sections()[name], re.S | re.M)
    (named, file), (_, row) = found
    title = re.search(r"`(\w+\.py)`", named)
    assert title, f"{name}: no file is named before its block"
    (folder / title[1]).write_text(change(file), encoding="utf-8")
    (folder / "program.py").write_text(row, encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, "-W", "error::supple.errors.SuppleWarning", "program.py"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert ran.returncode == 0 or ran.stderr
    return ran.stderr if ran.returncode else ""


@pytest.mark.parametrize("name", sections())
def test_an_example_of_extending_runs_as_one_file_and_one_row(name: str, tmp_path: Path):
    assert run_example(name, tmp_path) == ""


@pytest.mark.parametrize("member", ["evaluate_points", "write_slopes"])
def test_the_example_of_a_deformer_notices_a_wrong_jacobian(member: str, tmp_path: Path):
    def wrong(file: str) -> str:
        changed, count = re.subn(
            rf"(def {member}\(.*?out\[\.\.\.\] = )", r"\1 1e9 + ", file, flags=re.S
        )
        assert count == 1
        return changed

    errors = run_example("A deformer", tmp_path, wrong)
    assert "assert np.allclose(exact, differenced" in errors


def test_the_page_has_an_example_of_each_kind():
    kinds = ["A material", "An integrator", "A deformer", "A format", "An engine"]
    assert [*sections()] == kinds
