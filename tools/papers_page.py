"""Write docs/papers.md: one row for each claim, algorithm, table and figure of the four papers.

docs/papers/PAPER.toml has the rows, docs/papers/PAPER.json the measured values that they show,
taken from the results of `supple reproduce PAPER`:

    python tools/papers_page.py --results supple-reproduce   # takes new values, and writes
    python tools/papers_page.py                              # writes the page only

A row's `printed` (the method as the paper prints it) and `ours` (Supple's defaults) show a value
as {ITEM/KEY.KEY:FORMAT}, for example {fig10/errors.halfway:.1%}; a number among the keys is an
index of a list.
"""

from __future__ import annotations

import argparse
import json
import re
import tomllib
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE, ROWS = DOCS / "papers.md", DOCS / "papers"
#: Titles of the papers, in the order of the page.
PAPERS = {
    "xu2016": "Xu and Barbič 2016: Pose-space subspace dynamics",
    "barbic2005": "Barbič and James 2005: Real-time subspace integration for StVK models",
    "hahn2013": "Hahn et al. 2013: Efficient simulation of secondary motion in rig-space",
    "tapia2021": "Tapia et al. 2021: Parametric skeletons with reduced soft-tissue deformations",
}
FIELDS = ("item", "claim", "code", "command", "paper", "printed", "ours", "holds")
VALUE = re.compile(r"\{([a-z0-9-]+)/([^:{}]+)(?::([^{}]*))?\}")
HEAD = """\
# The papers, claim by claim

Each row is a claim, an algorithm, a table or a figure of one of the four papers. *Printed* is the
method as the paper prints it, computed here; *ours* is what Supple does by default. *Holds* says
"yes", or what differs and why. Numbers that a row's command measures are taken from its results on
two cores; others were measured once, and are typed. `tools/papers_page.py` writes this page from
`docs/papers/`.
"""


def rows_of(paper: str) -> list[dict[str, str]]:
    """Return the rows of a paper; a field that is absent is empty."""
    file = ROWS / f"{paper}.toml"
    rows = tomllib.loads(file.read_text(encoding="utf-8"))["row"] if file.exists() else []
    for row in rows:
        unknown = sorted(set(row) - set(FIELDS))
        if unknown or not all(isinstance(text, str) for text in row.values()):
            raise SystemExit(
                f"{file}: row {row.get('item')!r}: {unknown or 'values must be texts'}"
            )
    return [{field: row.get(field, "") for field in FIELDS} for row in rows]


def references(row: dict[str, str]) -> list[tuple[str, str]]:
    """Return the values that a row shows, as pairs of item and path."""
    return [
        found[:2] for field in ("printed", "ours", "holds") for found in VALUE.findall(row[field])
    ]


def value_at(result: Any, path: str) -> Any:
    """Return the value of a result at a path of keys, such as "errors.0.halfway"."""
    for key in path.split("."):
        result = result[int(key)] if isinstance(result, list) else result[key]
    return result


def kept_values(paper: str) -> dict[str, dict[str, Any]]:
    """Return the measured values of a paper's rows by item and path."""
    file = ROWS / f"{paper}.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def take_values(paper: str, folder: Path) -> None:
    """Take values of a paper's rows from results; items without a result keep their values."""
    values = kept_values(paper)
    wanted: dict[str, set[str]] = {}
    for row in rows_of(paper):
        for item, path in references(row):
            wanted.setdefault(item, set()).add(path)
    for item, paths in wanted.items():
        file = folder / f"{item}.json"
        if not file.exists():
            continue
        result = json.loads(file.read_text(encoding="utf-8"))
        if result["quick"]:
            raise SystemExit(f"{file}: is a result of --quick; run it without")
        try:
            values[item] = {path: value_at(result, path) for path in sorted(paths)}
        except (KeyError, IndexError, TypeError, ValueError):
            missing = [path for path in sorted(paths) if not _has(result, path)]
            raise SystemExit(f"{file}: has no {', '.join(missing)}") from None
    values = {item: values[item] for item in sorted(wanted) if item in values}
    (ROWS / f"{paper}.json").write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")


def _has(result: Any, path: str) -> bool:
    try:
        value_at(result, path)
    except (KeyError, IndexError, TypeError, ValueError):
        return False
    return True


def cell(text: str, values: dict[str, dict[str, Any]]) -> str:
    """Return a text with its values filled in."""

    def shown(found: re.Match[str]) -> str:
        item, path, form = found.groups()
        try:
            value = values[item][path]
        except KeyError:
            raise SystemExit(f"docs/papers: no value {item}/{path}; run with --results") from None
        return format(value, form or "")

    return VALUE.sub(shown, text).replace("|", "\\|").strip()


def page() -> str:
    """Return the text of the page."""
    parts = [HEAD]
    for paper, title in PAPERS.items():
        rows, values = rows_of(paper), kept_values(paper)
        if not rows:
            continue
        parts.append(f"## {title}\n")
        heads = ("item", "claim", "code", "paper", "printed", "ours", "holds", "command")
        lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
        for row in rows:
            code = ", ".join(f"`{each.strip()}`" for each in row["code"].split(",") if each.strip())
            command = f"`{row['command']}`" if row["command"] else ""
            texts = row | {"code": code, "command": command}
            lines.append(f"| {' | '.join(cell(texts[head], values) for head in heads)} |")
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def main() -> None:
    """Take values if asked to, and write the page."""
    parser = argparse.ArgumentParser(description="Write docs/papers.md.")
    parser.add_argument("--results", type=Path, help="folder of `supple reproduce`, not of --quick")
    parser.add_argument("--paper", choices=list(PAPERS), help="take values of this paper only")
    given = parser.parse_args()
    if given.results is not None:
        for paper in [given.paper] if given.paper else PAPERS:
            take_values(paper, given.results)
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
