"""Tables of numbers, for the terminal and for the page of `supple reproduce`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from supple.saving import write_whole

PAGE = "reproduce.md"
#: Descriptions of a bake, which its page shows above the tables.
BAKE_LINES = ("flesh_moves", "flesh_hard", "advice")
#: Entries that are not shown in tables.
_WORDS = ("title", "message", "note", "pictures", "quick", "seconds", "benchmark", *BAKE_LINES)
#: Most columns of a table; wider ones are transposed.
_WIDEST = 6
Grid = tuple[str, list[str], list[list[str]]]


def grids(figures: dict[str, Any]) -> Iterator[Grid]:
    """Yield the numbers of an item as tables: a caption, headings and rows of text.

    A list of dicts or a dict of dicts is a table; ``{"ours": …, "paper": …}`` in it is shown as
    "ours / paper". The other entries form a table of names and values, with "paper_x" next to "x".
    """
    loose: dict[str, Any] = {}
    for key, value in figures.items():
        if key in _WORDS or _is_remark(key, value):
            continue
        if _is_table(value):
            yield _grid("" if key == "rows" else key, value)
        elif isinstance(value, dict) and value and all(isinstance(v, dict) for v in value.values()):
            yield _grid(key, [{"": _spaced(name)} | row for name, row in value.items()])
        elif _is_pair(value):
            loose |= {key: value.get("ours"), f"paper_{key}": value.get("paper")}
        elif isinstance(value, dict):
            loose |= {f"{key}, {name}": each for name, each in _flat(value).items()}
        else:
            loose[key] = value
    if loose:
        yield _beside_paper(loose)


def _grid(caption: str, entries: list[dict[str, Any]]) -> Grid:
    rows = [_flat(row) for row in entries]
    if any(_is_pair(value) for row in entries for value in row.values()):
        caption = f"{caption}, ours / paper" if caption else "ours / paper"
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[_spaced(name) for name in names]]
    cells += [[_text(row.get(name)) for name in names] for row in rows]
    if len(names) > max(_WIDEST, len(rows)):
        cells = [list(column) for column in zip(*cells, strict=True)]
    return _spaced(caption), cells[0], cells[1:]


def _beside_paper(values: dict[str, Any]) -> Grid:
    """Return a table with Supple's value and the paper's in one row."""
    papers = {base: name for name in values if (base := _without_paper(name)) is not None}
    rows = []
    for name, value in values.items():
        base = _without_paper(name)
        if base is not None and base in values:
            continue  # shown in the row of ours
        theirs = values.get(papers[name]) if name in papers else None
        ours = None if base is not None else value
        shown = base if base is not None else name
        rows.append([_spaced(shown), _text(ours), _text(value if base is not None else theirs)])
    if not papers:
        return "", ["", "value"], [row[:2] for row in rows]
    return "", ["", "ours", "paper"], rows


def _without_paper(name: str) -> str | None:
    """Return "x" for "paper_x", "a, x" for "a, paper_x", and None for other names."""
    before, comma, last = name.rpartition(", ")
    if last == "paper":
        return f"{before}{comma}ours"
    if last.startswith("paper_") and last != "paper_variant":
        return f"{before}{comma}{last.removeprefix('paper_')}"
    return None


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def _is_remark(key: str, value: Any) -> bool:
    """Return whether an entry is a text about the paper."""
    return key == "paper" and isinstance(value, str)


def _is_pair(value: Any) -> bool:
    return isinstance(value, dict) and bool(value) and set(value) <= {"ours", "paper"}


def _flat(row: dict[str, Any], before: str = "") -> dict[str, Any]:
    """Flatten nested dicts to names of several words, and pairs to "ours / paper"."""
    flat: dict[str, Any] = {}
    for key, value in row.items():
        name = f"{before} {key}".strip()
        if _is_pair(value):
            flat[name] = f"{_text(value.get('ours'))} / {_text(value.get('paper'))}"
        else:
            flat |= _flat(value, name) if isinstance(value, dict) else {name: value}
    return flat


def _spaced(name: str) -> str:
    return str(name).replace("_", " ")


def _text(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:.4g}"
    if isinstance(value, list):
        return ", ".join(_text(each) for each in value)
    if isinstance(value, dict):
        return " ".join(_text(each) for each in value.values())
    return str(value)


def rich_table(caption: str | None, headings: list[str], rows: list[list[str]]) -> Table:
    """Return a table for the terminal, with all columns but the first aligned to the right."""
    table = Table(title=caption, title_justify="left")
    for at, heading in enumerate(headings):
        table.add_column(heading, justify="left" if at == 0 else "right")
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    return table


def print_item(name: str, figures: dict[str, Any], folder: Path) -> None:
    """Print an item's tables, its message and the paths of its pictures."""
    out = Console(highlight=False)
    out.print(f"\n[bold]{escape(str(figures.get('title', name)))}[/bold]")
    if "message" in figures:
        out.print(escape(str(figures["message"])))
    for caption, headings, rows in grids(figures):
        out.print(rich_table(caption or None, headings, rows))
    for remark in _remarks(figures):
        out.print(escape(remark), style="dim")
    for picture in figures.get("pictures", ()):
        out.print(f"picture: {escape(str(folder / picture))}")


def _remarks(figures: dict[str, Any]) -> list[str]:
    paper = figures.get("paper")
    remarks = [f"In the paper: {paper}"] if isinstance(paper, str) else []
    return remarks + ([str(figures["note"])] if "note" in figures else [])


def write_page(folder: Path, order: Sequence[str]) -> Path:
    """Write a page of all items in the folder, also of earlier runs; return its path."""
    lines = [
        "# The papers' tables and figures, compared with ours",
        "",
        "Made by `supple reproduce`. The papers' numbers are as printed, from their machines.",
    ]
    for name in order:
        figures = _read(folder / f"{name}.json")
        if figures is not None:
            lines += _section(name, figures)
    page = folder / PAGE
    write_whole(page, ("\n".join(lines) + "\n").encode())
    return page


def _read(path: Path) -> dict[str, Any] | None:
    """Read the numbers of an item from its file; None if there is no valid file."""
    try:
        figures = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return figures if isinstance(figures, dict) else None


def _section(name: str, figures: dict[str, Any]) -> list[str]:
    lines = ["", f"## {figures.get('title', name)}", ""]
    if figures.get("quick"):
        lines += ["Made with `--quick`: smaller bodies and fewer steps.", ""]
    if "message" in figures:
        lines += [str(figures["message"]), ""]
    for picture in figures.get("pictures", ()):
        lines += [f"![{name}]({picture})", ""]
    for caption, headings, rows in grids(figures):
        if caption:
            lines += [f"**{caption}**", ""]
        lines.append("| " + " | ".join(_cell(heading) for heading in headings) + " |")
        lines.append("|" + "|".join(["---"] + ["---:"] * (len(headings) - 1)) + "|")
        lines += ["| " + " | ".join(_cell(cell) for cell in row) + " |" for row in rows]
        lines.append("")
    for remark in _remarks(figures):
        lines += [remark, ""]
    return lines[:-1] if lines[-1] == "" else lines


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
