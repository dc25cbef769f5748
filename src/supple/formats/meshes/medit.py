"""Medit ``.mesh`` text files.

meshio reads coordinates of version 1 in single precision only.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from supple.errors import FormatError
from supple.formats.file_bytes import as_floats, as_integers, as_text, checked_count

OTHER_CELLS = {"Prisms", "Pyramids", "Hexahedra", "Hexaedra", "TetrahedraP2"}


def parse_medit(
    path: Path, data: bytes
) -> tuple[np.ndarray, np.ndarray, list[str], dict[str, np.ndarray]]:
    """Return vertices (n, 3), tets (m, 4), names of volume cells other than tets, and no sets."""
    name = path.name
    sections = _sections(name, data)
    if sections.get("Dimension", ["3"])[:1] != ["3"]:
        raise FormatError(f"{name}: is not three-dimensional; save a volume mesh")
    if "Vertices" not in sections:
        raise FormatError(f"{name}: has no Vertices; it is damaged or not a Medit mesh")
    others = [key for key in sections if key in OTHER_CELLS and sections[key][:1] != ["0"]]
    # Each row ends with a reference number, which is ignored.
    vertices = _table(name, sections["Vertices"], "vertices", 4)[:, :3]
    corners = _table(name, sections.get("Tetrahedra", ["0"]), "tetrahedra", 5)[:, :4]
    tets = as_integers(name, corners, "tetrahedra")
    wrong = np.flatnonzero(((tets < 1) | (tets > len(vertices))).any(axis=1))
    if len(wrong):
        raise FormatError(
            f"{name}: tet {wrong[0]} has the vertices {', '.join(map(str, tets[wrong[0]]))};"
            f" vertices are 1 to {len(vertices)}"
        )
    return vertices, tets - 1, others, {}


def _sections(name: str, data: bytes) -> dict[str, list[str]]:
    """Return the words after each keyword, by keyword."""
    lines = as_text(name, data).splitlines()
    words = [word for line in lines for word in line.partition("#")[0].split()]
    if not words or words[0] != "MeshVersionFormatted":
        raise FormatError(f"{name}: is not a Medit mesh; it has no MeshVersionFormatted")
    keys = [i for i, word in enumerate(words) if word[0].isalpha() and word[1:2].islower()]
    keys = [i for i in keys if words[i].lower() not in ("nan", "inf", "infinity")]
    ends = [*keys[1:], len(words)]
    return {words[i]: words[i + 1 : end] for i, end in zip(keys, ends, strict=True)}


def _table(name: str, words: list[str], what: str, columns: int) -> np.ndarray:
    if not words:
        raise FormatError(f"{name}: does not declare the number of {what}")
    count = checked_count(name, words[0], what, 0, 0)
    if len(words) - 1 != count * columns:
        raise FormatError(
            f"{name}: declares {count} {what} but has {(len(words) - 1) // columns};"
            f" it is damaged or cut off"
        )
    return as_floats(name, words[1:], what).reshape(count, columns)
