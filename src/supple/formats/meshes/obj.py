"""Wavefront OBJ: positions and faces.

Libraries split vertices at texture seams, and let wrong indices wrap around; this reader keeps the
file's vertex order.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from supple.errors import FormatError, warn
from supple.formats.file_bytes import as_text
from supple.mesh.topology import counted, fan_triangles


def parse_obj(path: Path, data: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Return vertices (n, 3) and triangles (m, 3); polygons become fans."""
    name = path.name
    # Long lines may be broken with a backslash.
    text = as_text(name, data).replace("\\\r\n", " ").replace("\\\n", " ")
    vertices: list[list[float]] = []
    corners: list[int] = []
    sizes: list[int] = []
    face_lines: list[int] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if words[0] == "v":
            vertices.append(_position(name, number, words))
        elif words[0] in ("f", "fo"):
            corners += _corners(name, number, words, len(vertices))
            sizes.append(len(words) - 1)
            face_lines.append(number)
    if not sizes:
        raise FormatError(
            f"{name}: has {counted(len(vertices), 'vertex', 'vertices')} and no faces;"
            f" export it with its faces"
        )
    counts = np.array(sizes)
    flat = np.array(corners, dtype=np.int64)
    wrong = np.flatnonzero(flat >= len(vertices))
    if len(wrong):
        face = int(np.searchsorted(np.cumsum(counts), wrong[0], side="right"))
        raise FormatError(
            f"{name}: line {face_lines[face]} (face {face}) refers to vertex {flat[wrong[0]] + 1}"
            f" of {len(vertices)}; correct or remove that face"
        )
    small = np.flatnonzero(counts < 3)
    if len(small):
        warn(
            f"{name}: has {counted(len(small), 'face')} of fewer than three corners"
            f" (first in line {face_lines[small[0]]}); ignored"
        )
    return np.array(vertices), fan_triangles(counts, flat)


def _position(name: str, number: int, words: list[str]) -> list[float]:
    # A fourth number is a weight, a fourth to sixth are a colour; both are ignored.
    if len(words) < 4:
        raise FormatError(f"{name}: line {number} has a vertex of {len(words) - 1} numbers, not 3")
    try:
        return [float(words[1]), float(words[2]), float(words[3])]
    except ValueError:
        coordinates = " ".join(words[1:4])[:60]
        raise FormatError(
            f'{name}: line {number} has a vertex "{coordinates}", not three numbers'
        ) from None


def _corners(name: str, number: int, words: list[str], n_so_far: int) -> list[int]:
    """Return vertex indices from 0; negative indices count back from the last vertex."""
    corners = []
    for word in words[1:]:
        try:
            index = int(word.partition("/")[0])
        except ValueError:
            raise FormatError(
                f'{name}: line {number} has a face with "{word[:40]}", which is not a vertex'
            ) from None
        if index == 0 or index < -n_so_far or index >= 2**62:
            raise FormatError(
                f"{name}: line {number} has a face with vertex {index}; vertices before it are 1"
                f" to {n_so_far}; correct or remove that face"
            )
        corners.append(index - 1 if index > 0 else n_so_far + index)
    return corners
