"""The sections of a ``.veg`` file and the tables in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from supple.errors import FormatError
from supple.formats.source import as_floats, as_text, checked_count, read_source

__all__: list[str] = []


@dataclass
class Section:
    """A title, what follows it on its line, and the words of the lines below."""

    title: str
    argument: str
    rows: list[list[str]] = field(default_factory=list)


def expanded_lines(path: Path, folder: Path, seen: set[Path]) -> list[str]:
    """Lines without comments and blanks, included files in their place.

    `folder` is where included files must be, `seen` the files met so far: one that comes
    again would go round in a circle, or repeat a section.
    """
    data = read_source(path, (path.suffix.lower(),) if seen else (".veg",))
    seen.add(path.resolve())
    lines: list[str] = []
    for raw in as_text(path.name, data).splitlines():
        line = raw.partition("#")[0].strip()
        if line.upper().startswith("*INCLUDE"):
            target = line[len("*INCLUDE") :].strip()
            lines += expanded_lines(_included(path, target, folder, seen), folder, seen)
        elif line:
            lines.append(line)
    return lines


def _included(path: Path, target: str, folder: Path, seen: set[Path]) -> Path:
    included = (path.parent / target).resolve()
    if not target or not included.is_relative_to(folder):
        raise FormatError(f'{path.name}: includes "{target}", outside its folder; move it there')
    if included in seen:
        raise FormatError(f'{path.name}: includes "{target}", which was included before')
    return included


def split_sections(name: str, lines: list[str]) -> list[Section]:
    """The sections in the file's order."""
    sections: list[Section] = []
    for line in lines:
        if line.startswith("*"):
            title, _, argument = line[1:].strip().partition(" ")
            sections.append(Section(title.upper(), argument.strip()))
        elif sections:
            sections[-1].rows.append(line.replace(",", " ").split())
        else:
            raise FormatError(f'{name}: begins with "{line[:40]}", not with a section')
    return sections


def only_section(name: str, sections: list[Section], title: str) -> Section:
    """The one section of this title."""
    found = [section for section in sections if section.title == title]
    if len(found) != 1:
        raise FormatError(f"{name}: has {len(found)} sections *{title}, and needs one")
    return found[0]


def numbered_table(name: str, rows: list[list[str]], what: str, columns: int) -> np.ndarray:
    """The rows after a section's counts: running number, then `columns` numbers."""
    declared = rows[0] if rows else []
    if len(declared) < 2 or declared[1] != str(columns):
        given = " ".join(declared)[:40]
        raise FormatError(f'{name}: declares its {what} by "{given}", not by "count {columns} 0"')
    count = checked_count(name, declared[0], what, 0, 0)
    if count != len(rows) - 1:
        raise FormatError(
            f"{name}: declares {count} {what} but has {len(rows) - 1}; it is damaged or cut off"
        )
    if count == 0:
        raise FormatError(f"{name}: has no {what}")
    for index, row in enumerate(rows[1:]):
        if len(row) != 1 + columns:
            raise FormatError(f"{name}: number {index} of its {what} has {len(row)} numbers")
    words = [word for row in rows[1:] for word in row]
    return as_floats(name, words, what).reshape(count, 1 + columns)


def first_number(name: str, table: np.ndarray, what: str) -> int:
    """0 or 1: where the file begins to count."""
    first = int(table[0, 0]) if np.isfinite(table[0, 0]) else -1
    if first not in (0, 1) or (table[:, 0] != first + np.arange(len(table))).any():
        raise FormatError(f"{name}: its {what} are not numbered one after the other from 0 or 1")
    return first
