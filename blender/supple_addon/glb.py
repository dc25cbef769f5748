# SPDX-FileCopyrightText: The Supple developers
# SPDX-License-Identifier: GPL-3.0-or-later
"""Binary glTF, as far as needed for the exchange with Supple; without bpy."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["GlbReader", "GlbWriter"]

MAGIC, JSON_CHUNK, BINARY_CHUNK = 0x46546C67, 0x4E4F534A, 0x004E4942
KINDS = {"float32": 5126, "uint32": 5125, "uint16": 5123, "uint8": 5121}
TYPES = {1: "SCALAR", 3: "VEC3", 4: "VEC4", 16: "MAT4"}
DTYPES = {code: np.dtype(name).newbyteorder("<") for name, code in KINDS.items()}
WIDTHS = {name: width for width, name in TYPES.items()}


class GlbWriter:
    """glTF document under construction, and the bytes of its arrays."""

    def __init__(self) -> None:
        self.document: dict[str, Any] = {
            "asset": {"version": "2.0", "generator": "Supple's add-on for Blender"}
        }
        self._parts: list[bytes] = []
        self._length = 0

    def add(self, part: str, entry: dict[str, Any]) -> int:
        """Append an entry to a part such as ``"nodes"``, and return its index."""
        entries = self.document.setdefault(part, [])
        entries.append(entry)
        return len(entries) - 1

    def accessor(self, values: np.ndarray, *, bounds: bool = False) -> int:
        """Append an array (n,) or (n, width), and return the index of its accessor."""
        values = np.ascontiguousarray(values)
        data = values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes()
        view = {"buffer": 0, "byteOffset": self._length, "byteLength": len(data)}
        entry: dict[str, Any] = {
            "bufferView": self.add("bufferViews", view),
            "componentType": KINDS[values.dtype.name],
            "count": len(values),
            "type": TYPES[1 if values.ndim == 1 else values.shape[1]],
        }
        if bounds:
            flat = values.reshape(len(values), -1)
            entry["min"], entry["max"] = flat.min(axis=0).tolist(), flat.max(axis=0).tolist()
        self._parts.append(data + b"\0" * (-len(data) % 4))
        self._length += len(self._parts[-1])
        return self.add("accessors", entry)

    def write(self, path: Path) -> None:
        """Write the file."""
        if self._length:
            self.document["buffers"] = [{"byteLength": self._length}]
        text = json.dumps(self.document, ensure_ascii=False).encode()
        text += b" " * (-len(text) % 4)
        body = b"".join(self._parts)
        with path.open("wb") as file:
            file.write(struct.pack("<III", MAGIC, 2, 12 + 8 + len(text) + 8 + len(body)))
            file.write(struct.pack("<II", len(text), JSON_CHUNK) + text)
            file.write(struct.pack("<II", len(body), BINARY_CHUNK))
            for part in self._parts:
                file.write(part)


class GlbReader:
    """glTF document of a file, and its arrays by index of accessor."""

    def __init__(self, path: Path) -> None:
        data = path.read_bytes()
        if len(data) < 20 or struct.unpack_from("<I", data)[0] != MAGIC:
            raise ValueError(f"{path.name} is not binary glTF")
        size = struct.unpack_from("<I", data, 12)[0]
        self.document: dict[str, Any] = json.loads(data[20 : 20 + size])
        self._body = memoryview(data)[20 + size + 8 :]

    def array(self, accessor: int) -> np.ndarray:
        """Return the array (n,) or (n, width) of an accessor, which may be sparse."""
        entry = self.document["accessors"][accessor]
        width, count = WIDTHS[entry["type"]], entry["count"]
        if "bufferView" in entry:
            values = self._numbers(entry, entry, count * width)
        else:
            values = np.zeros(count * width, DTYPES[entry["componentType"]])
        values = values.reshape(count, width)
        if "sparse" in entry:
            sparse = entry["sparse"]
            at = self._numbers(sparse["indices"], sparse["indices"], sparse["count"])
            new = self._numbers(sparse["values"], entry, sparse["count"] * width)
            values = values.copy()
            values[at] = new.reshape(-1, width)
        return values[:, 0] if width == 1 else values

    def _numbers(self, place: dict[str, Any], kind: dict[str, Any], count: int) -> np.ndarray:
        view = self.document["bufferViews"][place["bufferView"]]
        start = view.get("byteOffset", 0) + place.get("byteOffset", 0)
        return np.frombuffer(self._body, DTYPES[kind["componentType"]], count, start)
