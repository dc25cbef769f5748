"""Gmsh ``.msh`` files, versions 2 and 4.1, text and binary: nodes, tets, physical groups.

meshio allocates by the numbers that a file declares (a node numbered 10^10 takes 80 GB), and lets
node number 0 wrap around to the last node.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from supple.errors import FormatError
from supple.formats.file_bytes import as_floats, as_integers, checked_count

# Nodes of each type of element, and the names of those that fill a volume.
NODES = {
    1: 2, 2: 3, 3: 4, 4: 4, 5: 8, 6: 6, 7: 5, 8: 3, 9: 6, 10: 9, 11: 10, 12: 27, 13: 18, 14: 14,
    15: 1, 16: 8, 17: 20, 18: 15, 19: 13, 20: 9, 21: 10, 22: 12, 23: 15, 24: 15, 25: 21, 26: 4,
    27: 5, 28: 6, 29: 20, 30: 35, 31: 56,
}  # fmt: skip
TET = 4
VOLUMES = {
    5: "hexahedra", 6: "prisms", 7: "pyramids", 11: "quadratic tetrahedra",
    12: "quadratic hexahedra", 13: "quadratic prisms", 14: "quadratic pyramids",
    17: "quadratic hexahedra", 18: "quadratic prisms", 19: "quadratic pyramids",
    29: "cubic tetrahedra", 30: "quartic tetrahedra", 31: "quintic tetrahedra",
}  # fmt: skip
LOOK_AHEAD = 1024
READ_SECTIONS = (b"Nodes", b"Elements", b"Entities")


@dataclass
class _Msh:
    """Content of a file, with the file's node numbers."""

    nodes: np.ndarray = field(default_factory=lambda: np.empty((0, 3)))
    node_numbers: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    tets: list[np.ndarray] = field(default_factory=list)
    groups: list[np.ndarray] = field(default_factory=list)  # physical group of each tet, or 0
    others: set[str] = field(default_factory=set)
    group_names: dict[int, str] = field(default_factory=dict)
    entity_groups: dict[int, int] = field(default_factory=dict)


def parse_msh(
    path: Path, data: bytes
) -> tuple[np.ndarray, np.ndarray, list[str], dict[str, np.ndarray]]:
    """Return vertices (n, 3), tets (m, 4), names of other volume cells, and tets by group."""
    name = path.name
    version, binary, size_kind = _format(name, data)
    order = _byte_order(name, data) if binary else ""
    msh = _Msh()
    at = data.find(b"$EndMeshFormat")
    while (section := _next_section(name, data, at)) is not None:
        title, start, end = section
        numbers = _Numbers(name, data, start, end, order, size_kind)
        if title == b"PhysicalNames":
            _read_group_names(msh, data[start:end])
        elif title == b"Nodes":
            (_read_nodes_2 if version == 2 else _read_nodes_4)(msh, numbers)
        elif title == b"Elements":
            (_read_elements_2 if version == 2 else _read_elements_4)(msh, numbers)
        elif title == b"Entities":
            _read_entities_4(msh, numbers)
        at = numbers.end_of_section(title, end)
    return (msh.nodes, _zero_based(name, msh), sorted(msh.others), _sets(msh))


def _format(name: str, data: bytes) -> tuple[int, bool, str]:
    words = data[:200].split(maxsplit=4)
    if len(words) < 4 or words[0] != b"$MeshFormat" or b"$EndMeshFormat" not in data[:300]:
        raise FormatError(f"{name}: is not a Gmsh mesh; it does not begin with $MeshFormat")
    version = words[1].decode("latin-1")
    if version not in ("2", "2.0", "2.1", "2.2", "4.1"):
        raise FormatError(f"{name}: has version {version[:10]}; save it as version 4.1 or 2.2")
    if words[2] not in (b"0", b"1") or words[3][:1] not in (b"4", b"8"):
        raise FormatError(f"{name}: its $MeshFormat is invalid; save it again")
    return int(version[0]), words[2] == b"1", f"u{words[3][:1].decode()}"


def _byte_order(name: str, data: bytes) -> str:
    one = data[data.find(b"\n", data.find(b"\n") + 1) + 1 :][:4]
    for order, pattern in (("<", b"\1\0\0\0"), (">", b"\0\0\0\1")):
        if one == pattern:
            return order
    raise FormatError(f"{name}: its byte order mark is missing; it is damaged")


def _next_section(name: str, data: bytes, at: int) -> tuple[bytes, int, int] | None:
    """Return title, start and end of the next section; None after the last."""
    line_end = data.find(b"\n", at)
    mark = data.find(b"$", line_end) if line_end >= 0 else -1
    if at < 0 or mark < 0:
        return None
    start = data.find(b"\n", mark) + 1
    title = data[mark + 1 : start].strip() if start else b""
    end = data.find(b"$End" + title, start)
    if not title or end < 0:
        shown = title[:30].decode("latin-1")
        raise FormatError(f"{name}: its section ${shown} does not end; it is damaged or cut off")
    return title, start, end


def _read_group_names(msh: _Msh, section: bytes) -> None:
    for line in section.decode("utf-8", errors="replace").splitlines()[1:]:
        words = line.split(maxsplit=2)
        if len(words) == 3 and words[0] == "3" and words[1].lstrip("-").isdigit():
            msh.group_names[int(words[1])] = words[2].strip().strip('"')


def _read_nodes_2(msh: _Msh, numbers: _Numbers) -> None:
    count = numbers.text_count("nodes")
    if numbers.order:
        raw = numbers.take("u1", count * 28).astype(np.uint8).reshape(count, 28)
        msh.node_numbers = raw[:, :4].copy().view(numbers.order + "i4").ravel().astype(np.int64)
        msh.nodes = raw[:, 4:].copy().view(numbers.order + "f8").astype(np.float64)
        return
    table = numbers.take("f8", 4 * count).reshape(count, 4)
    msh.node_numbers = as_integers(numbers.name, table[:, 0], "node numbers")
    msh.nodes = table[:, 1:]


def _read_elements_2(msh: _Msh, numbers: _Numbers) -> None:
    remaining = numbers.text_count("elements")
    while remaining > 0:
        kind, n_tags, rows = (_binary_block if numbers.order else _text_block)(numbers, remaining)
        n_nodes = NODES[kind]
        tags = rows[:, -n_nodes - n_tags : -n_nodes]
        _add_elements(msh, kind, rows[:, -n_nodes:], tags[:, 0] if n_tags else 0 * rows[:, 0])
        remaining -= len(rows)


def _binary_block(numbers: _Numbers, left: int) -> tuple[int, int, np.ndarray]:
    """Return type, number of tags, and rows (number, tags, nodes) of a block of elements."""
    kind, n, n_tags = (int(v) for v in numbers.take("i4", 3))
    width = 1 + _checked_width(numbers.name, kind, n_tags)
    if not 0 < n <= left:
        raise FormatError(f"{numbers.name}: has a block of {n} elements, but {left} remain")
    return kind, n_tags, numbers.take("i4", n * width).reshape(n, width)


def _text_block(numbers: _Numbers, left: int) -> tuple[int, int, np.ndarray]:
    """Return type, number of tags, and rows of the next lines with that type and number.

    Rows are (number, type, number of tags, tags, nodes); `LOOK_AHEAD` rows at most.
    """
    start = numbers.at
    _, kind, n_tags = (int(v) for v in numbers.take("i4", 3))
    width = 3 + _checked_width(numbers.name, kind, n_tags)
    numbers.at = start
    n = max(1, min(left, LOOK_AHEAD, numbers.left() // width))
    rows = numbers.take("i4", n * width).reshape(n, width)
    alike = (rows[:, 1] == kind) & (rows[:, 2] == n_tags)
    n = n if alike.all() else int(np.argmin(alike))
    numbers.at = start + n * width
    return kind, n_tags, rows[:n]


def _read_nodes_4(msh: _Msh, numbers: _Numbers) -> None:
    n_blocks = int(numbers.take("size", 4)[0])
    node_numbers, points = [], []
    for _ in range(n_blocks):
        dimension, _, parametric = (int(v) for v in numbers.take("i4", 3))
        n = int(numbers.take("size", 1)[0])
        width = 3 + (dimension if parametric else 0)
        node_numbers.append(numbers.take("size", n))
        points.append(numbers.take("f8", n * width).reshape(n, width)[:, :3])
    if node_numbers:
        msh.node_numbers = np.concatenate(node_numbers)
        msh.nodes = np.concatenate(points).astype(np.float64)


def _read_elements_4(msh: _Msh, numbers: _Numbers) -> None:
    n_blocks = int(numbers.take("size", 4)[0])
    for _ in range(n_blocks):
        dimension, entity, kind = (int(v) for v in numbers.take("i4", 3))
        n = int(numbers.take("size", 1)[0])
        width = 1 + _n_nodes(numbers.name, kind)
        rows = numbers.take("size", n * width).reshape(n, width)
        group = msh.entity_groups.get(entity, 0) if dimension == 3 else 0
        _add_elements(msh, kind, rows[:, 1:], np.full(n, group))


def _read_entities_4(msh: _Msh, numbers: _Numbers) -> None:
    """Read the physical group of each volume: the first, if there are several."""
    for dimension, count in enumerate(numbers.take("size", 4)):
        for _ in range(int(count)):
            entity = int(numbers.take("i4", 1)[0])
            numbers.take("f8", 3 if dimension == 0 else 6)
            groups = numbers.take("i4", int(numbers.take("size", 1)[0]))
            if dimension > 0:
                numbers.take("i4", int(numbers.take("size", 1)[0]))
            if dimension == 3 and len(groups):
                msh.entity_groups[entity] = int(groups[0])


def _checked_width(name: str, kind: int, n_tags: int) -> int:
    if n_tags < 0:
        raise FormatError(f"{name}: has an element with {n_tags} tags; it is damaged")
    return n_tags + _n_nodes(name, kind)


def _n_nodes(name: str, kind: int) -> int:
    if kind not in NODES:
        raise FormatError(f"{name}: has elements of unknown type {kind}; save it again")
    return NODES[kind]


def _add_elements(msh: _Msh, kind: int, corners: np.ndarray, group: np.ndarray) -> None:
    if kind == TET:
        msh.tets.append(corners)
        msh.groups.append(group)
    elif kind in VOLUMES and len(corners):
        msh.others.add(VOLUMES[kind])


def _zero_based(name: str, msh: _Msh) -> np.ndarray:
    """Return tets (m, 4) with nodes counted from 0; node numbers of the file may have gaps."""
    if not msh.tets or len(msh.node_numbers) == 0:
        return np.empty((0, 4), dtype=np.int64)
    tets = np.concatenate(msh.tets)
    order = np.argsort(msh.node_numbers, kind="stable")
    ascending = msh.node_numbers[order]
    duplicates = ascending[1:][ascending[1:] == ascending[:-1]]
    if len(duplicates):
        raise FormatError(f"{name}: has two nodes numbered {duplicates[0]}; save it again")
    indices = np.minimum(np.searchsorted(ascending, tets), len(ascending) - 1)
    wrong = ascending[indices] != tets
    if wrong.any():
        tet, corner = np.argwhere(wrong)[0]
        raise FormatError(
            f"{name}: tet {tet} refers to node {tets[tet, corner]}, which does not exist"
        )
    return order[indices]


def _sets(msh: _Msh) -> dict[str, np.ndarray]:
    if not msh.groups:
        return {}
    groups = np.concatenate(msh.groups)
    return {
        msh.group_names.get(int(group), f"physical {group}"): np.flatnonzero(groups == group)
        for group in np.unique(groups[groups != 0])
    }


class _Numbers:
    """A cursor over the numbers of a section, text or binary, within its bounds."""

    def __init__(
        self, name: str, data: bytes, start: int, end: int, order: str, size_kind: str
    ) -> None:
        self.name, self.data, self.order, self.size_kind = name, data, order, size_kind
        self.at = start
        self.values: np.ndarray | None = None
        if not order:
            self.at = 0
            self.text = data[start:end].decode("latin-1")

    def take(self, kind: str, count: int) -> np.ndarray:
        """Return the next `count` numbers; `kind` is i4, f8, or size: integers of `size_kind`."""
        return self._take_binary(kind, count) if self.order else self._take_text(kind, count)

    def _take_binary(self, kind: str, count: int) -> np.ndarray:
        dtype = np.dtype(self.order + (self.size_kind if kind == "size" else kind))
        if count < 0 or count * dtype.itemsize > len(self.data) - self.at:
            raise self._cut_off(count)
        numbers = np.frombuffer(self.data, dtype, count, self.at)
        self.at += count * dtype.itemsize
        return numbers if kind == "f8" else numbers.astype(np.int64)

    def _take_text(self, kind: str, count: int) -> np.ndarray:
        if self.values is None:
            self.values = as_floats(self.name, self.text.split(), "numbers of a section")
        if count < 0 or count > len(self.values) - self.at:
            raise self._cut_off(count)
        self.at += count
        numbers = self.values[self.at - count : self.at]
        return numbers if kind == "f8" else as_integers(self.name, numbers, "numbers of a section")

    def end_of_section(self, title: bytes, first_mark: int) -> int:
        """Return the position of the section's end mark; FormatError if data precede it."""
        end, left = first_mark, self.left()
        if self.order and title in READ_SECTIONS:
            # Binary numbers may look like the mark: the search starts after them.
            end = self.data.find(b"$End" + title, self.at)
            left = end if end < 0 else len(self.data[self.at : end].strip())
        if left:
            raise FormatError(
                f"{self.name}: its ${title.decode('latin-1')} is longer than it declares; damaged"
            )
        return end

    def left(self) -> int:
        """Return the count of unread numbers in a text section.

        The result is 0 before any number is read, and for binary sections.
        """
        return 0 if self.values is None else len(self.values) - self.at

    def text_count(self, what: str) -> int:
        """Return a count that is text even in binary files, on its own line."""
        if not self.order:
            return int(self.take("i4", 1)[0])
        line_end = self.data.find(b"\n", self.at) + 1
        text = self.data[self.at : line_end].decode("latin-1").strip()
        self.at = line_end
        return checked_count(self.name, text, what, 1, len(self.data))

    def _cut_off(self, count: int) -> FormatError:
        return FormatError(
            f"{self.name}: declares {count} numbers but has fewer; it is damaged or cut off"
        )
