"""The examples of docs/extending.md: one file and one row each, and nothing else is touched."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "extending.md"


def sections() -> dict[str, str]:
    parts = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return {part.splitlines()[0]: part for part in parts}


@pytest.mark.parametrize("name", sections())
def test_an_example_of_extending_runs_as_one_file_and_one_row(name: str, tmp_path: Path):
    found = re.findall(r"([^\n]*)\n+^```python\n(.*?)^```$", sections()[name], re.S | re.M)
    (named, file), (_, row) = found
    title = re.search(r"`(\w+\.py)`", named)
    assert title, f"{name}: no file is named before its block"
    (tmp_path / title[1]).write_text(file, encoding="utf-8")
    (tmp_path / "program.py").write_text(row, encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, "-W", "error::supple.errors.SuppleWarning", "program.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert ran.returncode == 0, ran.stderr


def test_the_page_has_an_example_of_each_kind():
    kinds = ["A material", "An integrator", "A deformer", "A format", "An engine"]
    assert [*sections()] == kinds
