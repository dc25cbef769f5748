"""Polygon files (PLY), text and binary: positions and faces.

trimesh rejects binary files that mix triangles with quads, reorders faces, and accepts truncated
text files.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from supple.errors import FormatError
from supple.formats.file_bytes import as_floats, as_integers, checked_count
from supple.mesh.topology import fan_triangles

TYPES = {
    "char": "i1", "uchar": "u1", "short": "i2", "ushort": "u2", "int": "i4", "uint": "u4",
    "int8": "i1", "uint8": "u1", "int16": "i2", "uint16": "u2", "int32": "i4", "uint32": "u4",
    "float": "f4", "double": "f8", "float32": "f4", "float64": "f8",
}  # fmt: skip
ORDERS = {"ascii": "", "binary_little_endian": "<", "binary_big_endian": ">"}
LONGEST_HEADER = 100_000
MOST_EQUAL_CORNERS = 64
# For each property: lengths of the lists (None for single numbers), and all values.
_Columns = dict[str, tuple[np.ndarray | None, np.ndarray]]


@dataclass
class _Property:
    name: str
    kind: str
    size_kind: str | None = None  # type of a list's length; None for a single number


@dataclass
class _Element:
    name: str
    count: int
    properties: list[_Property] = field(default_factory=list)


def parse_ply(path: Path, data: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Return vertices (n, 3) and triangles (m, 3); polygons become fans."""
    name = path.name
    order, elements, start = _header(name, data)
    body = data[start:]
    numbers = _BinaryNumbers(name, body, order) if order else _TextNumbers(name, body)
    vertices = triangles = None
    for element in elements:
        columns = _read_element(numbers, element)
        if element.name == "vertex":
            vertices = _positions(name, columns)
        elif element.name == "face":
            triangles = _triangles(name, columns)
    if numbers.left():
        raise FormatError(f"{name}: has more data than its header declares; it is damaged")
    if vertices is None or triangles is None or len(triangles) == 0:
        raise FormatError(f"{name}: has no vertices or no faces; export it with its faces")
    return vertices, triangles


def _header(name: str, data: bytes) -> tuple[str, list[_Element], int]:
    end = data.find(b"end_header", 0, LONGEST_HEADER)
    if not data.startswith(b"ply") or end < 0:
        raise FormatError(f"{name}: has no complete PLY header; it is damaged or not a PLY file")
    start = data.find(b"\n", end) + 1 or len(data)
    order = None
    elements: list[_Element] = []
    for line in data[:end].decode("latin-1").splitlines()[1:]:
        match line.split():
            case ["format", kind, *_] if kind in ORDERS:
                order = ORDERS[kind]
            case ["element", element, count]:
                number = checked_count(name, count, f'"{element}"s', 1, len(data) - start)
                elements.append(_Element(element, number))
            case ["property", "list", size, kind, what] if elements and {size, kind} <= set(TYPES):
                elements[-1].properties.append(_Property(what, TYPES[kind], TYPES[size]))
            case ["property", kind, what] if elements and kind in TYPES:
                elements[-1].properties.append(_Property(what, TYPES[kind]))
            case [] | ["comment", *_] | ["obj_info", *_]:
                pass
            case _:
                raise FormatError(
                    f'{name}: its header has an invalid line "{line[:60]}"; save it again'
                )
    if order is None:
        raise FormatError(f"{name}: its header has no valid format; save it again")
    return order, elements, start


class _BinaryNumbers:
    """A cursor over binary numbers, within their bounds."""

    def __init__(self, name: str, body: bytes, order: str) -> None:
        self.name, self.body, self.order, self.at = name, body, order, 0

    def take(self, kind: str, count: int) -> np.ndarray:
        """Return the next `count` numbers of one kind."""
        return self._take(np.dtype(self.order + kind), count)

    def _take(self, dtype: np.dtype, count: int) -> np.ndarray:
        if count < 0 or count * dtype.itemsize > len(self.body) - self.at:
            raise _cut_off(self.name)
        numbers = np.frombuffer(self.body, dtype, count, self.at)
        self.at += count * dtype.itemsize
        return numbers

    def left(self) -> bool:
        """Return whether anything but padding follows."""
        return bool(self.body[self.at :].strip(b"\0 \r\n"))

    def table(self, kinds: list[str], count: int) -> np.ndarray:
        """Return `count` rows of numbers of these kinds, as float64."""
        fields = [(f"f{i}", self.order + kind) for i, kind in enumerate(kinds)]
        rows = self._take(np.dtype(fields), count)
        return np.column_stack([rows[f"f{i}"].astype(np.float64) for i in range(len(kinds))])


class _TextNumbers:
    """A cursor over numbers in text, within their bounds."""

    def __init__(self, name: str, body: bytes) -> None:
        self.name, self.at = name, 0
        self.numbers = as_floats(name, body.decode("latin-1").split(), "vertices and faces")

    def take(self, kind: str, count: int) -> np.ndarray:
        """Return the next `count` numbers; `kind` matters only in binary files."""
        if count < 0 or count > len(self.numbers) - self.at:
            raise _cut_off(self.name)
        self.at += count
        return self.numbers[self.at - count : self.at]

    def left(self) -> bool:
        """Return whether anything follows."""
        return self.at < len(self.numbers)

    def table(self, kinds: list[str], count: int) -> np.ndarray:
        """Return `count` rows of as many numbers as there are kinds."""
        return self.take("", count * len(kinds)).reshape(count, len(kinds))


_Numbers = _BinaryNumbers | _TextNumbers


def _cut_off(name: str) -> FormatError:
    return FormatError(f"{name}: has less data than its header declares; it is cut off")


def _read_element(numbers: _Numbers, element: _Element) -> _Columns:
    if not element.properties or element.count == 0:
        return {}
    start = numbers.at
    sizes = _first_sizes(numbers, element)
    numbers.at = start
    if max(sizes) <= MOST_EQUAL_CORNERS:
        columns = _equal_rows(numbers, element, sizes)
        if columns is not None:
            return columns
        numbers.at = start
    return _unequal_rows(numbers, element)


def _list_size(numbers: _Numbers, p: _Property) -> int:
    """Return the length of a property in this row: 1, or that of a list, which is read."""
    if not p.size_kind:
        return 1
    size = float(numbers.take(p.size_kind, 1)[0])
    if not (size >= 0 and size.is_integer()):
        raise FormatError(f"{numbers.name}: has a list of {size:g} numbers; it is damaged")
    return int(size)


def _first_sizes(numbers: _Numbers, element: _Element) -> list[int]:
    """Read an element's first row; return the length of each property in it."""
    sizes = []
    for p in element.properties:
        sizes.append(_list_size(numbers, p))
        numbers.take(p.kind, sizes[-1])
    return sizes


def _equal_rows(numbers: _Numbers, element: _Element, sizes: list[int]) -> _Columns | None:
    """Return the columns if all lists are as long as in the first row, else None."""
    kinds: list[str] = []
    slices = []
    for p, size in zip(element.properties, sizes, strict=True):
        kinds += [p.size_kind] if p.size_kind else []
        slices.append(slice(len(kinds), len(kinds) + size))
        kinds += [p.kind] * size
    try:
        table = numbers.table(kinds, element.count)
    except FormatError:
        return None  # rows of different lengths may still fit
    columns: _Columns = {}
    for p, size, columns_of in zip(element.properties, sizes, slices, strict=True):
        if p.size_kind and (table[:, columns_of.start - 1] != size).any():
            return None
        repeated = np.full(element.count, size) if p.size_kind else None
        columns[p.name] = (repeated, table[:, columns_of].ravel())
    return columns


def _unequal_rows(numbers: _Numbers, element: _Element) -> _Columns:
    sizes: dict[str, list[int]] = {p.name: [] for p in element.properties}
    values: dict[str, list[np.ndarray]] = {p.name: [] for p in element.properties}
    for _ in range(element.count):
        for p in element.properties:
            size = _list_size(numbers, p)
            sizes[p.name].append(size)
            values[p.name].append(numbers.take(p.kind, size))
    return {
        p.name: (
            np.array(sizes[p.name]) if p.size_kind else None,
            np.concatenate(values[p.name]).astype(np.float64),
        )
        for p in element.properties
    }


def _positions(name: str, columns: _Columns) -> np.ndarray | None:
    if not columns:
        return None
    if not {"x", "y", "z"} <= set(columns):
        raise FormatError(f"{name}: its vertices have no x, y and z")
    return np.column_stack([columns[axis][1] for axis in "xyz"])


def _triangles(name: str, columns: _Columns) -> np.ndarray | None:
    if not columns:
        return None
    for what in ("vertex_indices", "vertex_index"):
        if what in columns and columns[what][0] is not None:
            sizes, corners = columns[what]
            assert sizes is not None
            return fan_triangles(sizes, as_integers(name, corners, "faces"))
    raise FormatError(f"{name}: its faces have no list of vertices")
