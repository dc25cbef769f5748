"""Object File Format (OFF): positions and faces, as text."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from supple.errors import FormatError
from supple.formats.file_bytes import as_floats, as_integers, as_text, checked_count
from supple.mesh.topology import fan_triangles

# Normal, colour and texture coordinates follow a position and are ignored.
KINDS = {"OFF", "COFF", "NOFF", "CNOFF", "STOFF", "STCOFF", "STNOFF", "STCNOFF"}


def parse_off(path: Path, data: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Return vertices (n, 3) and triangles (m, 3); polygons become fans."""
    name = path.name
    lines = (line.partition("#")[0].split() for line in as_text(name, data).splitlines())
    rows = [row for row in lines if row] or [[""]]
    if rows[0][0] not in KINDS or rows[0][1:2] == ["BINARY"]:
        raise FormatError(
            f'{name}: begins with "{" ".join(rows[0])[:40]}", not with OFF; save it as text OFF'
        )
    rows[0] = rows[0][1:]
    rows = rows if rows[0] else rows[1:]
    if not rows or len(rows[0]) < 2:
        raise FormatError(f"{name}: does not declare its numbers of vertices and faces")
    # "0 0 0" and "3 0 1 2", with a line end, are the shortest lines.
    n_vertices = checked_count(name, rows[0][0], "vertices", 6, len(data) + 1)
    n_faces = checked_count(name, rows[0][1], "faces", 2, len(data) + 1)
    if len(rows) - 1 < n_vertices + n_faces:
        raise FormatError(
            f"{name}: declares {n_vertices} vertices and {n_faces} faces but has"
            f" {len(rows) - 1} lines for them; it is damaged or cut off"
        )
    vertices = _positions(name, rows[1 : 1 + n_vertices])
    return vertices, _triangles(name, rows[1 + n_vertices : 1 + n_vertices + n_faces])


def _positions(name: str, rows: list[list[str]]) -> np.ndarray:
    for index, row in enumerate(rows):
        if len(row) < 3:
            raise FormatError(f"{name}: vertex {index} has {len(row)} coordinates, not three")
    return as_floats(name, [word for row in rows for word in row[:3]], "vertices").reshape(-1, 3)


def _triangles(name: str, rows: list[list[str]]) -> np.ndarray:
    sizes = as_integers(name, as_floats(name, [row[0] for row in rows], "faces"), "faces")
    words: list[str] = []
    for index, (size, row) in enumerate(zip(sizes, rows, strict=True)):
        if size < 0 or len(row) < 1 + size:
            raise FormatError(f"{name}: face {index} declares {size} corners, has {len(row) - 1}")
        words += row[1 : 1 + size]
    return fan_triangles(sizes, as_integers(name, as_floats(name, words, "faces"), "faces"))
