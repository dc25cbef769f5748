"""A glTF file that is being added to: its JSON, and its bytes with new ones behind them."""

from __future__ import annotations

import base64
import json
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.errors import FormatError, warn
from supple.formats.file_bytes import LARGEST_FILE
from supple.formats.gltf.container import (
    BINARY_CHUNK,
    JSON_CHUNK,
    MAGIC,
    SCHEME,
    Buffers,
    Notes,
    file_below,
    open_container,
    quoted,
)
from supple.formats.gltf.kept_original import split_binary
from supple.formats.registry import GLTF_SUFFIXES

VERTICES, CORNERS = 34962, 34963
COMPONENTS = {"i1": 5120, "u1": 5121, "i2": 5122, "u2": 5123, "u4": 5125, "f4": 5126}
TYPES = {1: "SCALAR", 2: "VEC2", 3: "VEC3", 4: "VEC4", 16: "MAT4"}
#: What lengths in a .glb can say.
LARGEST = 2**32 - 1
MESHOPT = "EXT_meshopt_compression"
IMAGES = {
    b"\x89PNG": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"RIFF": "image/webp",
    b"\xabKTX": "image/ktx2",
}


@dataclass
class GltfFile:
    """Parts of a glTF file, to be written as .glb or as .gltf.

    Attributes
    ----------
    json
        As the file had it, and what was added. Things are only ever added at the end of lists,
        so that every index stays what it was.
    binary
        The bytes of the buffer that is added to.
    chunks
        Kind and bytes of chunks that glTF does not know.
    buffer
        Which that is: 0, or in a .gltf that keeps its own buffers one of ours.
    """

    json: dict[str, Any]
    binary: bytearray = field(default_factory=bytearray)
    chunks: list[tuple[int, bytes]] = field(default_factory=list)
    buffer: int = 0

    def part(self, name: str) -> list[dict[str, Any]]:
        """Return a top-level list; asking for one that is missing does not put it into the file."""
        return self.json.get(name, [])

    def add(self, name: str, item: dict[str, Any]) -> int:
        """Append to a top-level list; the new index."""
        listed = self.json.setdefault(name, [])
        listed.append(item)
        return len(listed) - 1

    def view(self, data: bytes, **more: Any) -> int:
        """Add a buffer view of the bytes, and return its index."""
        self.binary.extend(bytes(-len(self.binary) % 4))
        start = len(self.binary)
        self.binary.extend(data)
        if start + len(data) > LARGEST - 2**20:
            raise FormatError("more than 4 GiB do not fit into a .glb; allow a larger error")
        if self.buffer == len(self.part("buffers")):
            self.add("buffers", {"byteLength": 0})
        self.json["buffers"][self.buffer]["byteLength"] = len(self.binary)
        described = {"buffer": self.buffer, "byteOffset": start, "byteLength": len(data), **more}
        return self.add("bufferViews", described)

    def accessor(
        self, values: NDArray[Any], *, bounds: bool = False, normalized: bool = False, **view: Any
    ) -> int:
        """Add an accessor of (n, c) numbers in a buffer view of its own, and return its index."""
        return self.accessors(values[None], bounds=bounds, normalized=normalized, **view)[0]

    def accessors(
        self, values: NDArray[Any], *, bounds: bool = False, normalized: bool = False, **view: Any
    ) -> list[int]:
        """Add accessors of (k, n, c) numbers, all in one buffer view, and return their indices."""
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

    def whole(self, path: Path) -> bytes:
        """Return the bytes that a file of this name has."""
        return self.gltf() if path.suffix.lower() == ".gltf" else self.glb()

    def glb(self) -> bytes:
        """Return the whole as one binary file."""
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
        """Return the whole as one text file, with its bytes as base64."""
        tree = dict(self.json)
        if self.binary:
            text = base64.b64encode(bytes(self.binary)).decode("ascii")
            uri = f"data:application/octet-stream;base64,{text}"
            tree["buffers"] = list(tree["buffers"])
            tree["buffers"][self.buffer] = {**tree["buffers"][self.buffer], "uri": uri}
        return _as_text(tree)


def _as_text(tree: dict[str, Any]) -> bytes:
    # Escaped: a name may have half a surrogate pair, which JSON can say and UTF-8 cannot.
    return json.dumps(tree, separators=(",", ":"), allow_nan=False).encode("ascii")


# A file opened to be added to: with nothing of it changed, or with all its bytes in one buffer.


def check_gltf_name(path: Path) -> None:
    """Refuse a file to be written whose name is not that of glTF."""
    if path.suffix.lower() not in GLTF_SUFFIXES:
        raise FormatError(f'{path.name}: "{path.suffix}" is not glTF; use .glb or .gltf')


def added_to(path: Path, source: Path, data: bytes) -> tuple[bytes, GltfFile]:
    """Open a file to be added to and written to a path, with nothing else of it changed.

    Returns
    -------
    bytes
        The file without what will be added: as it is, or with all buffers and pictures in it where
        they could not be found from the new place, or where it becomes of the other kind.
    GltfFile
        The same, open.
    """
    notes = Notes(source.name)
    binary = path.suffix.lower() != ".gltf"
    if not _fits(path, source, open_container(data, notes).json, (data[:4] == MAGIC, binary)):
        whole = open_to_add(source, data)
        data = whole.glb() if binary else whole.gltf()
    tree = open_container(data, notes).json
    file = GltfFile(tree, chunks=_other_chunks(data))
    if binary:
        first, last = split_binary(data)
        file.binary.extend(data[first:last])
    else:
        file.buffer = len(file.part("buffers"))
    return data, file


def _fits(path: Path, source: Path, tree: dict[str, Any], kinds: tuple[bool, bool]) -> bool:
    """Return whether a file can be added to as it is."""
    buffers, outside = tree.get("buffers", []), outside_files(tree)
    here = path.parent.resolve() == source.parent.resolve()
    # The binary chunk is buffer 0's, or nobody's.
    ours = not kinds[1] or not buffers or "uri" not in buffers[0]
    return kinds[0] == kinds[1] and ours and (here or not outside)


def outside_files(tree: dict[str, Any]) -> list[str]:
    """Return the URIs of buffers and pictures that lie beside a file."""
    named = [each.get("uri") for each in [*tree.get("buffers", []), *tree.get("images", [])]]
    return [uri for uri in named if isinstance(uri, str) and not SCHEME.match(uri)]


def open_to_add(path: Path, data: bytes) -> GltfFile:
    """Open a file that has been loaded before and found sound.

    The binary chunk of a .glb stays byte for byte where it was. Buffers and images beside the file
    are taken in, so that one file holds everything.
    """
    notes = Notes(path.name)
    container = open_container(data, notes)
    file = GltfFile(container.json, chunks=_other_chunks(data))
    buffers = file.part("buffers")
    held = Buffers(path, container, notes)
    places: list[tuple[int, int]] = []
    bare: list[dict[str, Any]] = []
    for index, buffer in enumerate(buffers):
        if held.present(index):
            file.binary.extend(bytes(-len(file.binary) % 4))
            places.append((0, len(file.binary)))
            file.binary.extend(held[index])
        else:  # compressed views say what it would hold
            bare.append(buffer)
            places.append((len(bare), 0))
    if file.binary:
        first = next(b for index, b in enumerate(buffers) if held.present(index))
        own = {key: value for key, value in first.items() if key != "uri"}
        file.json["buffers"] = [{**own, "byteLength": len(file.binary)}, *bare]
        _refer(file, places)
    _take_in_images(file, path)
    return file


def _refer(file: GltfFile, places: list[tuple[int, int]]) -> None:
    for view in file.part("bufferViews"):
        compressed = view.get("extensions", {}).get(MESHOPT)
        for described in (view, compressed):
            if isinstance(described, dict) and type(described.get("buffer")) is int:
                described["buffer"], shift = places[described["buffer"]]
                if shift:
                    described["byteOffset"] = described.get("byteOffset", 0) + shift


def _other_chunks(data: bytes) -> list[tuple[int, bytes]]:
    found: list[tuple[int, bytes]] = []
    if data[:4] != MAGIC:
        return found
    at, end = 12, min(len(data), struct.unpack_from("<I", data, 8)[0])
    while at + 8 <= end:
        size, kind = struct.unpack_from("<II", data, at)
        if kind not in (JSON_CHUNK, BINARY_CHUNK):
            found.append((kind, data[at + 8 : at + 8 + size]))
        at += 8 + size
    return found


def _take_in_images(file: GltfFile, path: Path) -> None:
    for index, image in enumerate(file.part("images")):
        uri = image.get("uri")
        if not isinstance(uri, str) or SCHEME.match(uri):
            continue  # in a buffer already, or written into the text, or on some server
        data = _beside(path.parent, uri)
        kind = next((k for magic, k in IMAGES.items() if data and data.startswith(magic)), None)
        if data is None or kind is None:
            what = f"{path.name}: image {index}, {quoted(uri)}"
            warn(f"{what}, is no picture beside the file; the new file refers to it as it did")
            continue
        del image["uri"]
        image |= {"bufferView": file.view(data), "mimeType": kind}


def _beside(folder: Path, uri: str) -> bytes | None:
    """Return the bytes of a file in the folder or below; nothing else is opened."""
    if uri.startswith((":", "/", "\\")) or not uri:
        return None
    try:
        found = file_below(folder, uri)
        if found is None or not found.is_file():
            return None
        return None if found.stat().st_size > LARGEST_FILE else found.read_bytes()
    except (OSError, ValueError, RuntimeError):
        return None
