"""A glTF file that is being extended: its JSON, and its bytes followed by new bytes."""

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
    glb_chunks,
    open_container,
    quoted,
)
from supple.formats.gltf.kept_original import split_binary

VERTICES, CORNERS = 34962, 34963
COMPONENTS = {"i1": 5120, "u1": 5121, "i2": 5122, "u2": 5123, "u4": 5125, "f4": 5126}
TYPES = {1: "SCALAR", 2: "VEC2", 3: "VEC3", 4: "VEC4", 16: "MAT4"}
#: Largest length in a .glb.
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

    Items are only appended to lists of `json`, so that indices stay valid. `binary` has the bytes
    of the extended buffer, whose index is `buffer`: 0, or a new one in a .gltf that keeps its
    buffers. `chunks` has kind and bytes of chunks that glTF does not define.
    """

    json: dict[str, Any]
    binary: bytearray = field(default_factory=bytearray)
    chunks: list[tuple[int, bytes]] = field(default_factory=list)
    buffer: int = 0

    def part(self, name: str) -> list[dict[str, Any]]:
        """Return a top-level list; a missing one is not added to the file."""
        return self.json.get(name, [])

    def add(self, name: str, item: dict[str, Any]) -> int:
        """Append to a top-level list and return the new index."""
        listed = self.json.setdefault(name, [])
        listed.append(item)
        return len(listed) - 1

    def view(self, data: bytes, **more: Any) -> int:
        """Append bytes to the buffer, add a view of them, and return the view's index."""
        self.binary.extend(bytes(-len(self.binary) % 4))
        start = len(self.binary)
        self.binary.extend(data)
        if start + len(data) > LARGEST - 2**20:
            raise FormatError("the .glb would exceed 4 GiB; use a larger error for the shapes")
        if self.buffer == len(self.part("buffers")):
            self.add("buffers", {"byteLength": 0})
        self.json["buffers"][self.buffer]["byteLength"] = len(self.binary)
        view_json = {"buffer": self.buffer, "byteOffset": start, "byteLength": len(data), **more}
        return self.add("bufferViews", view_json)

    def accessor(
        self, values: NDArray[Any], *, bounds: bool = False, normalized: bool = False, **view: Any
    ) -> int:
        """Add an accessor of (n, c) numbers in a new buffer view, and return its index."""
        return self.accessors(values[None], bounds=bounds, normalized=normalized, **view)[0]

    def accessors(
        self, values: NDArray[Any], *, bounds: bool = False, normalized: bool = False, **view: Any
    ) -> list[int]:
        """Add accessors of (k, n, c) numbers, all in one buffer view, and return their indices."""
        dtype = values.dtype.newbyteorder("<")
        count, rows, columns = values.shape
        data = np.ascontiguousarray(values, dtype=dtype)
        if count > 1:  # required for accessors that share a view
            view["byteStride"] = columns * dtype.itemsize
        index = self.view(data.tobytes(), **view)
        indices = []
        for number in range(count):
            accessor: dict[str, Any] = {"bufferView": index}
            if number:
                accessor["byteOffset"] = number * rows * columns * dtype.itemsize
            accessor["componentType"] = COMPONENTS[dtype.str[1:]]
            if normalized:
                accessor["normalized"] = True
            accessor |= {"count": rows, "type": TYPES[columns]}
            if bounds:
                accessor["min"] = data[number].min(axis=0).tolist()
                accessor["max"] = data[number].max(axis=0).tolist()
            indices.append(self.add("accessors", accessor))
        return indices

    def to_bytes(self, path: Path) -> bytes:
        """Return the bytes of a .gltf if `path` has that suffix, otherwise of a .glb."""
        return self.gltf() if path.suffix.lower() == ".gltf" else self.glb()

    def glb(self) -> bytes:
        """Return the file as .glb."""
        text = _as_text(self.json)
        text += b" " * (-len(text) % 4)
        chunks = [(JSON_CHUNK, text)]
        if self.binary:
            chunks.append((BINARY_CHUNK, bytes(self.binary) + bytes(-len(self.binary) % 4)))
        chunks += self.chunks
        total = 12 + sum(8 + len(data) for _, data in chunks)
        if total > LARGEST:
            raise FormatError("the .glb would exceed 4 GiB; use a larger error for the shapes")
        parts = [MAGIC, struct.pack("<II", 2, total)]
        for kind, data in chunks:
            parts += [struct.pack("<II", len(data), kind), data]
        return b"".join(parts)

    def gltf(self) -> bytes:
        """Return the file as .gltf, with its bytes in base64."""
        tree = dict(self.json)
        if self.binary:
            text = base64.b64encode(bytes(self.binary)).decode("ascii")
            uri = f"data:application/octet-stream;base64,{text}"
            tree["buffers"] = list(tree["buffers"])
            tree["buffers"][self.buffer] = {**tree["buffers"][self.buffer], "uri": uri}
        return _as_text(tree)


def _as_text(tree: dict[str, Any]) -> bytes:
    # Escaped: names may have half a surrogate pair, which JSON allows and UTF-8 does not.
    return json.dumps(tree, separators=(",", ":"), allow_nan=False).encode("ascii")


# Opening files to extend them: unchanged, or with all bytes in one buffer.


def open_unchanged(path: Path, source: Path, data: bytes) -> tuple[bytes, GltfFile]:
    """Open a file to extend it and write it to `path`, with nothing else changed.

    Returns the bytes of the file without additions, and the same file, open. The bytes equal the
    file's, or have all buffers and images inside if these could not be found from the new path,
    or if the file changes between .glb and .gltf.
    """
    notes = Notes(source.name)
    binary = path.suffix.lower() != ".gltf"
    if not _fits(path, source, open_container(data, notes).json, (data[:4] == MAGIC, binary)):
        data = open_embedded(source, data).to_bytes(path)
    tree = open_container(data, notes).json
    file = GltfFile(tree, chunks=_other_chunks(data))
    if binary:
        first, last = split_binary(data)
        file.binary.extend(data[first:last])
    else:
        file.buffer = len(file.part("buffers"))
    return data, file


def _fits(path: Path, source: Path, tree: dict[str, Any], kinds: tuple[bool, bool]) -> bool:
    """Return whether `source` can be extended as it is and written to `path`.

    `kinds` has two flags: the source is a .glb, the target is a .glb.
    """
    buffers, outside = tree.get("buffers", []), outside_files(tree)
    same_folder = path.parent.resolve() == source.parent.resolve()
    # The binary chunk belongs to buffer 0, or is missing.
    chunk_is_buffer_0 = not kinds[1] or not buffers or "uri" not in buffers[0]
    return kinds[0] == kinds[1] and chunk_is_buffer_0 and (same_folder or not outside)


def outside_files(tree: dict[str, Any]) -> list[str]:
    """Return the URIs of buffers and images that are separate files."""
    uris = [each.get("uri") for each in [*tree.get("buffers", []), *tree.get("images", [])]]
    return [uri for uri in uris if isinstance(uri, str) and not SCHEME.match(uri)]


def open_embedded(path: Path, data: bytes) -> GltfFile:
    """Open a valid file to extend it.

    The binary chunk of a .glb stays byte for byte where it was. Separate buffers and images are
    included, so that one file holds everything.
    """
    notes = Notes(path.name)
    container = open_container(data, notes)
    file = GltfFile(container.json, chunks=_other_chunks(data))
    buffers = file.part("buffers")
    data_of = Buffers(path, container, notes)
    locations: list[tuple[int, int]] = []
    without_data: list[dict[str, Any]] = []
    for index, buffer in enumerate(buffers):
        if data_of.present(index):
            file.binary.extend(bytes(-len(file.binary) % 4))
            locations.append((0, len(file.binary)))
            file.binary.extend(data_of[index])
        else:  # its views are compressed
            without_data.append(buffer)
            locations.append((len(without_data), 0))
    if file.binary:
        first = next(b for index, b in enumerate(buffers) if data_of.present(index))
        attributes = {key: value for key, value in first.items() if key != "uri"}
        file.json["buffers"] = [{**attributes, "byteLength": len(file.binary)}, *without_data]
        _refer(file, locations)
    _include_images(file, path)
    return file


def _refer(file: GltfFile, places: list[tuple[int, int]]) -> None:
    """Set buffer and offset of all views, from the new buffer and shift of each old buffer."""
    for view in file.part("bufferViews"):
        compressed = view.get("extensions", {}).get(MESHOPT)
        for part in (view, compressed):
            if isinstance(part, dict) and type(part.get("buffer")) is int:
                part["buffer"], shift = places[part["buffer"]]
                if shift:
                    part["byteOffset"] = part.get("byteOffset", 0) + shift


def _other_chunks(data: bytes) -> list[tuple[int, bytes]]:
    end = struct.unpack_from("<I", data, 8)[0] if data[:4] == MAGIC else 0
    return [
        (kind, data[first:last])
        for kind, first, last in glb_chunks(data)
        if first <= end and kind not in (JSON_CHUNK, BINARY_CHUNK)
    ]


def _include_images(file: GltfFile, path: Path) -> None:
    for index, image in enumerate(file.part("images")):
        uri = image.get("uri")
        if not isinstance(uri, str) or SCHEME.match(uri):
            continue  # in a buffer, inline, or on a server
        data = _beside(path.parent, uri)
        kind = next((k for magic, k in IMAGES.items() if data and data.startswith(magic)), None)
        if data is None or kind is None:
            what = f"{path.name}: image {index}, {quoted(uri)}"
            warn(f"{what}, is not an image beside the file; the new file keeps the reference")
            continue
        del image["uri"]
        image |= {"bufferView": file.view(data), "mimeType": kind}


def _beside(folder: Path, uri: str) -> bytes | None:
    """Return the bytes of a file in the folder or below; None if it is elsewhere or unreadable."""
    if uri.startswith((":", "/", "\\")) or not uri:
        return None
    try:
        file = file_below(folder, uri)
        if file is None or not file.is_file():
            return None
        return None if file.stat().st_size > LARGEST_FILE else file.read_bytes()
    except (OSError, ValueError, RuntimeError):
        return None
