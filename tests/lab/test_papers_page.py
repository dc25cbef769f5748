"""docs/papers.md: its rows name code and commands that exist, and values that results have."""

from __future__ import annotations

import importlib.util
import shlex
from pathlib import Path
from typing import Any

import pytest

from supple.cli.main import app
from supple.lab.reproduce.reproduce import GROUPS, ITEMS, chosen_items

ROOT = Path(__file__).resolve().parents[2]


def _tool() -> Any:
    spec = importlib.util.spec_from_file_location("papers_page", ROOT / "tools" / "papers_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


tool = _tool()
ROWS = [(paper, row) for paper in tool.PAPERS for row in tool.rows_of(paper)]
NAMES = [f"{paper}: {row['item']} {row['claim'][:40]}" for paper, row in ROWS]
each_row = pytest.mark.parametrize(("paper", "row"), ROWS, ids=NAMES)


def test_the_page_is_what_its_rows_and_results_give() -> None:
    assert tool.PAGE.read_text(encoding="utf-8") == tool.page(), "run tools/papers_page.py"


@each_row
def test_a_row_names_code_that_exists(paper: str, row: dict[str, str]) -> None:
    for path in filter(None, (each.strip() for each in row["code"].split(","))):
        assert (ROOT / "src" / "supple" / path).exists(), path


@each_row
def test_a_row_says_whether_its_claim_holds(paper: str, row: dict[str, str]) -> None:
    assert all(row[field] for field in ("item", "claim", "holds"))
    assert row["code"] or row["command"], "says neither where nor how"


@each_row
def test_a_command_of_a_row_can_be_run(paper: str, row: dict[str, str]) -> None:
    if not row["command"]:
        return
    words = shlex.split(row["command"])
    assert words[0] == "supple"
    app.parse_args(words[1:], exit_on_error=False, print_error=False)
    if words[1] == "reproduce":
        chosen_items([word for word in words[2:] if not word.startswith("-")])


@each_row
def test_values_of_a_row_come_from_items_of_reproduce(paper: str, row: dict[str, str]) -> None:
    values = tool.kept_values(paper)
    for item, path in tool.references(row):
        assert item in ITEMS
        assert path in values[item]


def test_every_item_of_reproduce_has_a_row_in_its_papers_table() -> None:
    shown: dict[str, set[str]] = {paper: set() for paper in tool.PAPERS}
    for paper, row in ROWS:
        words = shlex.split(row["command"])
        if words[1:2] == ["reproduce"]:
            shown[paper] |= set(chosen_items(words[2:]))
    for paper, items in GROUPS.items():
        if tool.rows_of(paper):
            assert set(items) <= shown[paper], sorted(set(items) - shown[paper])
