"""A glTF file that is being added to: its JSON, and its bytes with new ones behind them."""

from __future__ import annotations

import base64
import json
import struct
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.errors import FormatError
from supple.formats.gltf_container import BINARY_CHUNK, JSON_CHUNK, MAGIC

__all__: list[str] = []

VERTICES, CORNERS = 34962, 34963
COMPONENTS = {"i1": 5120, "u1": 5121, "i2": 5122, "u2": 5123, "u4": 5125, "f4": 5126}
TYPES = {1: "SCALAR", 2: "VEC2", 3: "VEC3", 4: "VEC4", 16: "MAT4"}
#: What lengths in a .glb can say.
LARGEST = 2**32 - 1


@dataclass
class GltfFile:
    """What a file is made of, to be written as .glb or as .gltf.

    Attributes
    ----------
    json
        As the file had it, and what was added. Things are only ever added at the end of lists,
        so that every index stays what it was.
    binary
        The bytes of buffer 0.
    chunks
        Kind and bytes of chunks that glTF does not know.
    """

    json: dict[str, Any]
    binary: bytearray = field(default_factory=bytearray)
    chunks: list[tuple[int, bytes]] = field(default_factory=list)

    def part(self, name: str) -> list[dict[str, Any]]:
        """A top-level list; what is asked for only to be read does not appear in the file."""
        return self.json.get(name, [])

    def add(self, name: str, item: dict[str, Any]) -> int:
        """Append to a top-level list; the new index."""
        listed = self.json.setdefault(name, [])
        listed.append(item)
        return len(listed) - 1

    def view(self, data: bytes, **more: Any) -> int:
        """A new buffer view of these bytes."""
        self.binary.extend(bytes(-len(self.binary) % 4))
        start = len(self.binary)
        self.binary.extend(data)
        if start + len(data) > LARGEST - 2**20:
            raise FormatError("more than 4 GiB do not fit into a .glb; allow a larger error")
        if not self.part("buffers"):
            self.add("buffers", {"byteLength": 0})
        self.json["buffers"][0]["byteLength"] = len(self.binary)
        described = {"buffer": 0, "byteOffset": start, "byteLength": len(data), **more}
        return self.add("bufferViews", described)

    def accessor(
        self, values: NDArray[Any], *, bounds: bool = False, normalized: bool = False, **view: Any
    ) -> int:
        """A new accessor of (n, c) numbers in a buffer view of its own."""
        return self.accessors(values[None], bounds=bounds, normalized=normalized, **view)[0]

    def accessors(
        self, values: NDArray[Any], *, bounds: bool = False, normalized: bool = False, **view: Any
    ) -> list[int]:
        """New accessors of (k, n, c) numbers, one after the other in one buffer view."""
        dtype = values.dtype.newbyteorder("<")
        count, rows, columns = values.shape
        data = np.ascontiguousarray(values, dtype=dtype)
        if count > 1:  # the rule for accessors that share a view
            view["byteStride"] = columns * dtype.itemsize
        index = self.view(data.tobytes(), **view)
        made = []
        for number in range(count):
            described: dict[str, Any] = {"bufferView": index}
            if number:
                described["byteOffset"] = number * rows * columns * dtype.itemsize
            described["componentType"] = COMPONENTS[dtype.str[1:]]
            if normalized:
                described["normalized"] = True
            described |= {"count": rows, "type": TYPES[columns]}
            if bounds:
                described["min"] = data[number].min(axis=0).tolist()
                described["max"] = data[number].max(axis=0).tolist()
            made.append(self.add("accessors", described))
        return made

    def glb(self) -> bytes:
        """The whole as one binary file."""
        text = _as_text(self.json)
        text += b" " * (-len(text) % 4)
        chunks = [(JSON_CHUNK, text)]
        if self.binary:
            chunks.append((BINARY_CHUNK, bytes(self.binary) + bytes(-len(self.binary) % 4)))
        chunks += self.chunks
        total = 12 + sum(8 + len(data) for _, data in chunks)
        if total > LARGEST:
            raise FormatError("more than 4 GiB do not fit into a .glb; allow a larger error")
        parts = [MAGIC, struct.pack("<II", 2, total)]
        for kind, data in chunks:
            parts += [struct.pack("<II", len(data), kind), data]
        return b"".join(parts)

    def gltf(self) -> bytes:
        """The whole as one text file, its bytes written into it."""
        tree = dict(self.json)
        if self.binary:
            text = base64.b64encode(bytes(self.binary)).decode("ascii")
            first = {**tree["buffers"][0], "uri": f"data:application/octet-stream;base64,{text}"}
            tree["buffers"] = [first, *tree["buffers"][1:]]
        return _as_text(tree)


def _as_text(tree: dict[str, Any]) -> bytes:
    # Escaped: a name may have half a surrogate pair, which JSON can say and UTF-8 cannot.
    return json.dumps(tree, separators=(",", ":"), allow_nan=False).encode("ascii")
