"""Memory images: the arrays and arguments of a program, in a file that a runtime loads as it is.

An image is for one size of pointers. It has a *shared* segment, which no call changes, and the
initial content of an *instance* segment: tables of arguments first, then arrays that calls change.
Its pointers are listed, so that a runtime copies the instance segment and adds addresses.
`runtime/supple_runtime.c` reads the file; `docs/live.md` describes it.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numba.core import types
from numpy.typing import NDArray

from supple.compiled.program import KernelCall, Program, arrays_of, portable_type
from supple.compiled.tables import ArgumentTable
from supple.errors import SuppleError

MAGIC, VERSION = b"supplive", 1
#: Alignment of arrays and tables.
ALIGNMENT = 64
#: Bit of a pointer's target that is set for the shared segment.
SHARED = 1 << 63
#: Bytes of the file before the numbers of the header, and before those that the digest covers.
_START = 56
_DIGEST = 32


def _padded(size: int, to: int = ALIGNMENT) -> int:
    return -(-size // to) * to


@dataclass
class _Block:
    """Range of addresses that arrays occupy, and its place in a segment."""

    begin: int
    end: int
    written: bool = False
    rank: int = 0
    offset: int = 0

    _parts: list[bytes] = field(default_factory=list)

    @property
    def content(self) -> bytes:
        return b"".join(self._parts)

    def order(self) -> tuple[bool, int]:
        """Return the key by which blocks are sorted: zeros last, others in the order of use."""
        return not any(self.content), self.rank


class _Layout:
    """Layout of values in the memory of a target, as Numba's compiled code has it."""

    def __init__(self, pointer: int) -> None:
        self.pointer = pointer

    def fields(self, kind: Any) -> list[tuple[int, Any]]:
        """Return offsets and types of the items of a tuple."""
        offsets, at = [], 0
        for each in kind:
            size, align = self.measure(each)
            at = _padded(at, align)
            offsets.append((at, each))
            at += size
        return offsets

    def measure(self, kind: Any) -> tuple[int, int]:
        """Return size and alignment of a type."""
        if isinstance(kind, types.BaseTuple):
            fields = self.fields(kind)
            if not fields:
                return 0, 1
            align = max(self.measure(each)[1] for _, each in fields)
            last, inner = fields[-1]
            return _padded(last + self.measure(inner)[0], align), align
        if isinstance(kind, types.Array):
            return self.array_fields(kind)[-1] + 8 * kind.ndim, 8
        if kind in (types.float64, types.int64, types.uint64):
            return 8, 8
        if kind in (types.float32, types.int32):
            return 4, 4
        if kind == types.boolean:
            return 1, 1
        if hasattr(kind, "content"):  # a table of arguments
            return self.pointer, self.pointer
        raise SuppleError(f"an argument of type {kind} cannot be stored in an image")

    def array_fields(self, kind: Any) -> tuple[int, int, int, int, int]:
        """Return offsets of an array's number of items, item size, data, shape and strides."""
        items = _padded(2 * self.pointer, 8)
        data = items + 16
        shape = _padded(data + self.pointer, 8)
        return items, items + 8, data, shape, shape + 8 * kind.ndim


class _Segments:
    """Arrays of a program and its tables of arguments, placed in the segments of an image."""

    def __init__(self, program: Program, pointer: int) -> None:
        self.layout, self._format = _Layout(pointer), "<I" if pointer == 4 else "<Q"
        calls = program.calls
        self._tables: dict[int, tuple[int, int]] = {}
        self._listed: list[tuple[Any, Any, int]] = []
        at = 0
        values: list[Any] = []
        for call in calls:
            values += [*_tables_in(call.arguments), call.arguments]
        for value in values:
            if id(value) not in self._tables:
                content = value.content if isinstance(value, ArgumentTable) else value
                kind = portable_type(content)
                size = self.layout.measure(kind)[0]
                self._tables[id(value)] = at, size
                self._listed.append((content, kind, at))
                at = _padded(at + max(size, 1))
        arrays = [each for value, *_ in self._listed for each in arrays_of(value)]
        arrays += program.arrays.values()
        self._blocks = _merged(arrays)
        self._begins = np.array([block.begin for block in self._blocks], np.uint64)
        for call in calls:
            for each in arrays_of(call.writes):
                if each.nbytes:
                    self._block(each).written = True
        for name in ("pose", "root", "forces", "force_vertices", "force_count"):
            if name in program.arrays:
                self._block(program.arrays[name]).written = True
        shared = 0
        # Arrays with an initial content first, so that the file ends with them.
        for block in sorted(self._blocks, key=_Block.order):
            size = _padded(block.end - block.begin)
            if block.written:
                block.offset, at = at, at + size
            else:
                block.offset, shared = shared, shared + size
        self.instance, self.shared = bytearray(at), bytearray(shared)
        self.pointers: list[tuple[int, int]] = []
        for block in self._blocks:
            segment = self.instance if block.written else self.shared
            segment[block.offset : block.offset + len(block.content)] = block.content
        for value, kind, place in self._listed:
            self._write(value, kind, place)

    def arguments(self, call: KernelCall) -> tuple[int, int]:
        """Return offset and size of the table of a call's arguments."""
        return self._tables[id(call.arguments)]

    def number(self, table: ArgumentTable, path: tuple[str, ...]) -> int:
        """Return the offset of a number in a table."""
        at, kind, value = self._tables[id(table)][0], portable_type(table.content), table.content
        for name in path:
            index = value._fields.index(name)  # type: ignore[attr-defined]
            offset, kind = self.layout.fields(kind)[index]
            at, value = at + offset, value[index]
        assert kind == types.float64
        return at

    def place(self, array: NDArray[Any]) -> tuple[bool, int]:
        """Return whether an array is in the shared segment, and its offset."""
        if not array.nbytes:
            return False, 0
        block = self._block(array)
        return not block.written, block.offset + _address(array) - block.begin

    def _block(self, array: NDArray[Any]) -> _Block:
        at = int(np.searchsorted(self._begins, np.uint64(_address(array)), side="right")) - 1
        return self._blocks[at]

    def _write(self, value: Any, kind: Any, at: int) -> None:
        if isinstance(kind, types.BaseTuple):
            for (offset, inner), each in zip(self.layout.fields(kind), value, strict=True):
                self._write(each, inner, at + offset)
        elif isinstance(kind, types.Array):
            self._write_array(value, kind, at)
        elif isinstance(value, ArgumentTable):
            self._point(at, False, self._tables[id(value)][0])
        elif kind == types.boolean:
            self.instance[at] = bool(value)
        else:
            code = {"float64": "d", "float32": "f", "int32": "i", "uint64": "Q"}.get(str(kind), "q")
            struct.pack_into(f"<{code}", self.instance, at, value)

    def _write_array(self, value: NDArray[Any], kind: Any, at: int) -> None:
        if not (kind.layout == "C" and value.flags.c_contiguous):
            raise SuppleError(f"an array of shape {value.shape} is not contiguous")
        items, item, data, shape, strides = self.layout.array_fields(kind)
        struct.pack_into("<q", self.instance, at + items, value.size)
        struct.pack_into("<q", self.instance, at + item, value.itemsize)
        step = value.itemsize
        for axis in reversed(range(value.ndim)):
            struct.pack_into("<q", self.instance, at + shape + 8 * axis, value.shape[axis])
            struct.pack_into("<q", self.instance, at + strides + 8 * axis, step)
            step *= value.shape[axis]
        self._point(at + data, *self.place(value))

    def _point(self, at: int, shared: bool, target: int) -> None:
        self.pointers.append((at, target | (SHARED if shared else 0)))


def _tables_in(value: Any) -> Iterator[ArgumentTable]:
    if isinstance(value, ArgumentTable):
        yield from _tables_in(value.content)
        yield value
    elif isinstance(value, tuple):
        for each in value:
            yield from _tables_in(each)


def _address(array: NDArray[Any]) -> int:
    return int(array.__array_interface__["data"][0])


def _merged(arrays: list[NDArray[Any]]) -> list[_Block]:
    """Return the ranges of addresses of arrays, ascending; arrays that overlap are in one."""
    ranges = {(_address(each), _address(each) + each.nbytes): each for each in arrays if each.size}
    blocks: list[_Block] = []
    for (begin, end), array in sorted(ranges.items(), key=lambda item: item[0]):
        if not array.flags.c_contiguous:
            raise SuppleError(f"an array of shape {array.shape} is not contiguous")
        if not blocks or begin >= blocks[-1].end:
            blocks.append(_Block(begin, end))
            blocks[-1]._parts.append(array.tobytes())
        elif end > blocks[-1].end:
            blocks[-1]._parts.append(array.tobytes()[blocks[-1].end - begin :])
            blocks[-1].end = end
    # The order of memory differs from run to run, that of first use does not.
    first: dict[int, int] = {}
    for number, array in enumerate(arrays):
        first.setdefault(_address(array), number)
    ranks = {
        id(block): min((n for a, n in first.items() if block.begin <= a < block.end), default=0)
        for block in blocks
    }
    for block in blocks:
        block.rank = ranks[id(block)]
    return blocks


def memory_image(program: Program, pointer: int) -> bytes:
    """Return the file of a program for pointers of 4 or 8 bytes; it is reproducible."""
    segments = _Segments(program, pointer)
    pool = _Pool()
    engine = pool.add(program.engine)
    kernels = sorted({call.name for call in program.calls})
    numbers = {name: k for k, name in enumerate(kernels)}
    names = {id(call): call.name for call in program.calls}
    calls: list[tuple[int, ...]] = []
    sections: list[tuple[int, ...]] = []
    for name, listed in program.sections.items():
        sections.append((pool.add(name), len(calls), len(listed)))
        for call in listed:
            at, size = segments.arguments(call)
            calls.append((numbers[names[id(call)]], at, size, pool.add(call.error)))
    arrays = []
    for name, array in program.arrays.items():
        shared, offset = segments.place(array)
        kind = ord(array.dtype.char if array.dtype.char != "l" else "q")
        arrays.append((pool.add(name), int(shared), offset, kind, array.itemsize, array.size))
    adjustable = [
        (
            pool.add(name),
            segments.number(each.table, each.field),
            _bits(each.least),
            _bits(each.most),
        )
        for name, each in program.numbers.items()
    ]
    texts = [(pool.add(name), pool.add(text)) for name, text in program.texts.items()]
    tables: list[Sequence[tuple[int, ...]]] = [
        [(pool.add(name),) for name in kernels],
        calls,
        sections,
        arrays,
        adjustable,
        texts,
        segments.pointers,
    ]
    template = bytes(segments.instance).rstrip(b"\0")
    template += b"\0" * (-len(template) % 8)
    instance = len(segments.instance)
    header_size = 8 * (8 + 2 * len(tables) + 2)
    at, directory, body = _padded(_START + header_size), [], b""
    for table in tables:
        data = b"".join(struct.pack(f"<{len(row)}Q", *row) for row in table)
        directory += [at + len(body), len(table)]
        body += data
    directory += [at + len(body), len(pool.data)]
    body += bytes(pool.data)
    body += b"\0" * (-len(body) % ALIGNMENT)
    shared_at = at + len(body)
    body += bytes(segments.shared)
    template_at = at + len(body)
    body += template + b"\0" * (-len(template) % ALIGNMENT)
    head = [
        shared_at,
        len(segments.shared),
        template_at,
        len(template),
        instance,
        _bits(program.dt),
        engine,
        0,
    ]
    rest = struct.pack(f"<{len(head) + len(directory)}Q", *head, *directory)
    rest += b"\0" * (at - _START - len(rest)) + body
    digest = hashlib.blake2b(rest, digest_size=_DIGEST).digest()
    return struct.pack("<8sIIQ", MAGIC, VERSION, pointer, _START + len(rest)) + digest + rest


def _bits(value: float) -> int:
    assert math.isfinite(value)
    return int(struct.unpack("<Q", struct.pack("<d", value))[0])


class _Pool:
    """Texts of an image, each ended by a zero byte; the first is empty."""

    def __init__(self) -> None:
        self.data = bytearray(b"\0")
        self._places: dict[str, int] = {"": 0}

    def add(self, text: str) -> int:
        """Return the offset of a text."""
        if text not in self._places:
            self._places[text] = len(self.data)
            self.data += text.encode() + b"\0"
        return self._places[text]
