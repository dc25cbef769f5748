"""STL, binary and text: loose triangles, welded where their corners are equal."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from supple.errors import FormatError, warn
from supple.formats.file_bytes import as_floats

HEADER = 84
FACET = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])


def parse_stl(path: Path, data: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Return vertices (3 m, 3) and triangles (m, 3), not welded yet."""
    name = path.name
    corners = _binary(name, data) if _is_binary(data) else _text(name, data)
    if len(corners) == 0:
        raise FormatError(f"{name}: has no triangles; export it with its faces")
    return corners.reshape(-1, 3), np.arange(3 * len(corners)).reshape(-1, 3)


def _is_binary(data: bytes) -> bool:
    # Some binary files begin with "solid": the length decides, then zero bytes.
    if len(data) >= HEADER and len(data) == HEADER + FACET.itemsize * _declared(data):
        return True
    return data.lstrip()[:5].lower() != b"solid" or b"\0" in data


def _declared(data: bytes) -> int:
    return int.from_bytes(data[80:84], "little")


def _binary(name: str, data: bytes) -> np.ndarray:
    if len(data) < HEADER:
        raise FormatError(f"{name}: is not text STL, and too short for binary STL")
    count, n_present = _declared(data), (len(data) - HEADER) // FACET.itemsize
    if count > n_present:
        raise FormatError(
            f"{name}: declares {count} triangles but has {n_present};"
            f" it is cut off, or not an STL file"
        )
    if len(data) > HEADER + count * FACET.itemsize:
        surplus = len(data) - HEADER - count * FACET.itemsize
        warn(f"{name}: has {surplus} bytes after the {count} triangles it declares; ignored")
    return np.frombuffer(data, FACET, count, HEADER)["corners"].astype(np.float64)


def _text(name: str, data: bytes) -> np.ndarray:
    words = data.decode("latin-1").lower()
    facets = len(re.findall(r"\bfacet\s+normal\b", words))
    ends = len(re.findall(r"\bendfacet\b", words))
    triples = re.findall(r"\bvertex[ \t]+(\S+)[ \t]+(\S+)[ \t]+(\S+)", words)
    n_vertex_words = len(re.findall(r"^\s*vertex\b", words, re.MULTILINE))
    if facets != ends or len(triples) != 3 * facets or n_vertex_words > len(triples):
        raise FormatError(
            f"{name}: begins {facets} facets, ends {ends} and has {len(triples)} corners,"
            f" not three each; it is damaged or cut off"
        )
    numbers = as_floats(name, [word for triple in triples for word in triple], "corners")
    return numbers.reshape(-1, 3, 3)
