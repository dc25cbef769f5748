"""glTF files that keep what they were before something was added, to the byte.

The binary chunk of a .glb is added to at its end; all else of the file as it was, its text above
all, lies compressed behind the new bytes, and a record in ``extras`` says where. Taking out what
was added then gives the same file again.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import struct
import zlib
from typing import Any

from supple.errors import FormatError, warn
from supple.formats.file_bytes import LARGEST_FILE
from supple.formats.gltf.container import BINARY_CHUNK, MAGIC, open_container
from supple.formats.gltf.notes import Notes

__all__ = [
    "RECORD",
    "keep_original",
    "kept_record",
    "original_bytes",
    "split_binary",
    "without_added",
]

#: Name of the record among a file's extras.
RECORD = "supple_curves"
#: Lists whose members may hold their bytes in a long URI, which is not kept twice.
_INLINE = ("buffers", "images")


def split_binary(data: bytes) -> tuple[int, int]:
    """Return where the binary chunk's bytes begin and end; both the length of a file without."""
    at = 12
    while data[:4] == MAGIC and at + 8 <= len(data):
        size, kind = struct.unpack_from("<II", data, at)
        if kind == BINARY_CHUNK and at + 8 + size <= len(data):
            return at + 8, at + 8 + size
        at += 8 + size
    return len(data), len(data)


def keep_original(file: Any, original: bytes, told: dict[str, Any]) -> None:
    """Put all of a file that is not its binary chunk behind the new bytes, with a record of it.

    Parameters
    ----------
    file
        `GltfFile` that is being added to; its JSON is still the original's wherever nothing was
        added.
    original
        Bytes of the file before.
    told
        Plain values to be kept in the record, for people.
    """
    first, last = split_binary(original)
    head = original[:first]
    for kind, index, uri in _inline(file.json):
        if head.count(uri) == 1 and index != (file.buffer if kind == "buffers" else -1):
            head = head.replace(uri, _token(kind, index))
    packed = zlib.compress(head + original[last:], 9)
    file.binary.extend(bytes(-len(file.binary) % 4))
    record = {
        **told,
        "buffer": file.buffer,
        "offset": len(file.binary),
        "length": len(packed),
        "head": len(head),
        "tail": len(original) - last,
        "binary": last - first,
        "sha256": hashlib.sha256(original).hexdigest(),
    }
    file.binary.extend(packed)
    file.json["buffers"][file.buffer]["byteLength"] = len(file.binary)
    for holder in (file.json, file.json["asset"]):
        if isinstance(holder.setdefault("extras", {}), dict):
            holder["extras"][RECORD] = record
            return
    raise FormatError("its extras are no tables, so nothing can be noted in it; remove them")


def _inline(tree: dict[str, Any]) -> list[tuple[str, int, bytes]]:
    found = []
    for kind in _INLINE:
        for index, each in enumerate(tree.get(kind, [])):
            uri = each.get("uri")
            if isinstance(uri, str) and uri[:5].lower() == "data:" and uri.isascii():
                found.append((kind, index, uri.encode()))
    return found


def _token(kind: str, index: int) -> bytes:
    return f"\0{kind} {index}\0".encode()


def kept_record(tree: dict[str, Any]) -> dict[str, Any] | None:
    """Return the record of what was added to a file, None where nothing was."""
    for holder in (tree, tree.get("asset")):
        extras = holder.get("extras") if isinstance(holder, dict) else None
        record = extras.get(RECORD) if isinstance(extras, dict) else None
        if isinstance(record, dict):
            return record
    return None


def original_bytes(name: str, data: bytes) -> bytes | None:
    """Return a file as it was before something was added, to the byte; None where nothing was.

    Raises
    ------
    FormatError
        If its record is damaged, as after another program has saved the file anew.
    """
    if RECORD.encode() not in data:
        return None
    tree = open_container(data, Notes(name)).json
    record = kept_record(tree)
    if record is None:
        return None
    original = _restored(tree, record, data)
    if original is None or hashlib.sha256(original).hexdigest() != record.get("sha256"):
        raise FormatError(
            f"{name}: what it was before curves were added cannot be found in it any more; another"
            " program may have saved it anew, take the original"
        )
    return original


def without_added(name: str, data: bytes) -> bytes:
    """Return a file as it was before something was added; the file itself where that is lost."""
    try:
        return original_bytes(name, data) or data
    except FormatError as error:
        warn(f"{error}; until then its curves are taken as its own")
        return data


def _restored(tree: dict[str, Any], record: dict[str, Any], data: bytes) -> bytes | None:
    wanted = ("buffer", "offset", "length", "head", "tail", "binary")
    numbers = [record.get(each) for each in wanted]
    if not all(type(number) is int and 0 <= number <= LARGEST_FILE for number in numbers):
        return None
    buffer, offset, length, head, tail, binary = (int(number or 0) for number in numbers)
    first, last = split_binary(data)
    own = data[first:last]
    buffers = tree.get("buffers", [])
    uri = buffers[buffer].get("uri") if buffer < len(buffers) else None
    if isinstance(uri, str):
        try:
            own = base64.b64decode(uri.partition(",")[2], validate=True)
        except (binascii.Error, ValueError):
            return None
    try:
        unpacking = zlib.decompressobj()
        whole = unpacking.decompress(own[offset : offset + length], head + tail + 1)
    except zlib.error:
        return None
    if len(whole) != head + tail or binary > last - first:
        return None
    text = whole[:head]
    for kind, index, inline in _inline(tree):
        text = text.replace(_token(kind, index), inline)
    return text + data[first : first + binary] + whole[head:]
