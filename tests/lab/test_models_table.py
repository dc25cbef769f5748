"""README's table of characters is what builds give."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def _tool() -> Any:
    spec = importlib.util.spec_from_file_location("models_table", ROOT / "tools/models_table.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


tool = _tool()


def test_the_readme_shows_the_kept_figures() -> None:
    assert tool.README.read_text(encoding="utf-8") == tool.readme(), "run tools/models_table.py"


def test_the_kept_figures_are_those_of_a_build() -> None:
    kept = json.loads(tool.FIGURES.read_text(encoding="utf-8"))["x"]
    found = tool.built("x")
    for name in set(kept) - {"seconds"}:
        assert found[name] == pytest.approx(kept[name], rel=0.05, abs=1e-4), name
