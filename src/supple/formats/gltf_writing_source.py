"""A glTF file opened to be added to: all its bytes in one buffer, all else as it was."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from supple.errors import warn
from supple.formats.gltf_container import (
    BINARY_CHUNK,
    JSON_CHUNK,
    MAGIC,
    SCHEME,
    Buffers,
    open_container,
)
from supple.formats.gltf_notes import Notes, quoted
from supple.formats.gltf_writing import GltfFile
from supple.formats.source import LARGEST_FILE

__all__: list[str] = []

MESHOPT = "EXT_meshopt_compression"
IMAGES = {
    b"\x89PNG": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"RIFF": "image/webp",
    b"\xabKTX": "image/ktx2",
}


def open_to_add(path: Path, data: bytes) -> GltfFile:
    """The file, which has been loaded before and found sound.

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
    """The bytes of a file in the folder or below; nothing else is opened."""
    if uri.startswith((":", "/", "\\")) or not uri:
        return None
    try:
        folder = folder.resolve()
        found = (folder / unquote(uri).replace("\\", "/")).resolve()
        if not found.is_relative_to(folder) or not found.is_file():
            return None
        return None if found.stat().st_size > LARGEST_FILE else found.read_bytes()
    except (OSError, ValueError, RuntimeError):
        return None
