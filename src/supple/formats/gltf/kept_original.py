"""glTF files that keep their original, to the byte.

The binary chunk of a .glb is extended at its end. The rest of the original, above all its JSON, is
compressed behind the new bytes, and a record in ``extras`` locates it. Removing the additions
restores the same file.

There is a record for curves and one for flesh. A file has the record of its last addition; the
original that this record locates may have the record of an earlier addition.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from supple.errors import FormatError, warn
from supple.formats.file_bytes import LARGEST_FILE
from supple.formats.gltf.container import BINARY_CHUNK, Notes, glb_chunks, open_container
from supple.formats.registry import ADDED, CURVES, FLESH

#: Lists whose items may have their bytes in a long URI, which is not stored twice.
_INLINE = ("buffers", "images")
#: Tokens in a stored text: a URI that the file still has, or bytes of its buffer in base64.
_TOKEN = re.compile(rb"\0(buffers|images|bytes) (\d{1,10})(?: (\d{1,10}))?\0")
#: Largest expansion factor of zlib.
_EXPANSION = 1100


def split_binary(data: bytes) -> tuple[int, int]:
    """Return begin and end of the binary chunk's bytes; without a chunk, both are len(data)."""
    for kind, first, last in glb_chunks(data):
        if kind == BINARY_CHUNK and last <= len(data):
            return first, last
    return len(data), len(data)


def keep_original(
    file: Any,
    original: bytes,
    details: dict[str, Any],
    added: str = CURVES,
    outer: bytes | None = None,
) -> None:
    """Store the original behind the new bytes of a file, with a record named `added`.

    `file` is an extended `GltfFile` whose binary begins with the original's. `original` needs
    no other files; `outer` is the file that it was made from, if that needs other files. `details`
    are plain values for the record.
    """
    holders = [h for h in (file.json, file.json["asset"]) if isinstance(h.get("extras", {}), dict)]
    if not holders:
        raise FormatError("its extras are not objects, so no record can be added; remove them")
    if file.buffer == len(file.part("buffers")):
        file.add("buffers", {"byteLength": 0})
    record = {**details, **_packed(file, original)}
    if outer is not None:
        record["file"] = _packed(file, outer)
    file.json["buffers"][file.buffer]["byteLength"] = len(file.binary)
    for holder in holders:
        for name in ADDED:  # the original keeps its records
            holder.get("extras", {}).pop(name, None)
    holders[0].setdefault("extras", {})[added] = record


def _packed(file: Any, original: bytes) -> dict[str, Any]:
    """Append the part of the original that the file lacks, compressed; return its location."""
    first, last = split_binary(original)
    n_same = _common(original[first:last], file.binary)
    head = original[:first]
    for token, text in _replaceable(file, original):
        if head.count(text) == 1:
            head = head.replace(text, token)
    packed = zlib.compress(head + original[first + n_same :], 9)
    file.binary.extend(bytes(-len(file.binary) % 4))
    location = {
        "buffer": file.buffer,
        "offset": len(file.binary),
        "length": len(packed),
        "head": len(head),
        "tail": len(original) - first - n_same,
        "binary": n_same,
        "sha256": hashlib.sha256(original).hexdigest(),
    }
    file.binary.extend(packed)
    return location


def _common(one: bytes, other: bytearray) -> int:
    """Return the length of the common prefix."""
    count = min(len(one), len(other))
    differ = np.frombuffer(one, np.uint8, count) != np.frombuffer(bytes(other[:count]), np.uint8)
    return int(np.argmax(differ)) if differ.any() else count


def _replaceable(file: Any, original: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield tokens, and the long texts of the original that they replace."""
    uris = set()
    for kind, index, uri in _inline(file.json):
        if index != (file.buffer if kind == "buffers" else -1):
            uris.add(uri)
            yield _token(kind, index), uri
    position = 0
    for _, _, uri in _inline(open_container(original, Notes("")).json):
        text = uri.partition(b",")[2]
        data = _decoded(text)
        if uri in uris or data is None or base64.b64encode(data) != text:
            continue
        match_position = file.binary.find(data, position)
        if match_position >= 0:
            position = match_position + len(data)
            yield _token("bytes", match_position, len(data)), text


def _inline(tree: dict[str, Any]) -> Iterator[tuple[str, int, bytes]]:
    for kind in _INLINE:
        listed = tree.get(kind)
        for index, each in enumerate(listed if isinstance(listed, list) else []):
            uri = each.get("uri") if isinstance(each, dict) else None
            if isinstance(uri, str) and uri[:5].lower() == "data:" and uri.isascii():
                yield kind, index, uri.encode()


def _token(*parts: str | int) -> bytes:
    return f"\0{' '.join(map(str, parts))}\0".encode()


def _decoded(text: bytes | str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


# Restoring originals.


def _addition_record(tree: dict[str, Any], added: str = CURVES) -> dict[str, Any] | None:
    """Return the record of an addition to a file; None without one."""
    for holder in (tree, tree.get("asset")):
        extras = holder.get("extras") if isinstance(holder, dict) else None
        record = extras.get(added) if isinstance(extras, dict) else None
        if isinstance(record, dict):
            return record
    return None


def last_addition(name: str, data: bytes) -> tuple[str, dict[str, Any], dict[str, Any]] | None:
    """Return name and record of the last addition, and the file's JSON; None without additions."""
    if not any(added.encode() in data for added in ADDED):
        return None
    tree = open_container(data, Notes(name)).json
    for added in (FLESH, CURVES):  # both only in files that other programs combined
        record = _addition_record(tree, added)
        if record is not None:
            return added, record, tree
    return None


def stages_before(name: str, data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the name of each addition to a file, last first, and the file before it.

    Raises FormatError if a record is damaged, for example if another program has saved the file.
    """
    while (latest := last_addition(name, data)) is not None:
        added, record, tree = latest
        original = _restored(tree, record, data)
        if original is None:
            what = "curves were" if added == CURVES else "flesh was"
            raise FormatError(
                f"{name}: no longer contains the file from before {what} added (another program may"
                " have saved it); use the original"
            )
        data = original
        yield added, data


def original_bytes(name: str, data: bytes, added: str = CURVES) -> bytes | None:
    """Return a file as it was before curves, or flesh, were added; None if they were not.

    Later additions are removed as well. Raises FormatError as `stages_before`.
    """
    return next((before for last, before in stages_before(name, data) if last == added), None)


def without_curves(name: str, data: bytes) -> bytes:
    """Return a file as it was before curves were added; the file itself if it has no curves.

    If the original is lost, warn and return the file itself.
    """
    try:
        return original_bytes(name, data) or data
    except FormatError as error:
        warn(f"{error}; its curves are read as part of the file")
        return data


def kept_file(name: str, data: bytes) -> bytes | None:
    """Return the stored original that refers to separate files; None if there is none."""
    latest = last_addition(name, data)
    inner = latest[1].get("file") if latest is not None else None
    if latest is None or not isinstance(inner, dict):
        return None
    return _restored(latest[2], inner, data)


def _restored(tree: dict[str, Any], record: dict[str, Any], data: bytes) -> bytes | None:
    """Return the bytes that a record describes; None if they are missing or damaged."""
    keys = ("buffer", "offset", "length", "head", "tail", "binary")
    numbers = [record.get(each) for each in keys]
    if not all(type(number) is int and 0 <= number <= LARGEST_FILE for number in numbers):
        return None
    buffer, offset, length, head, tail, binary = (int(number or 0) for number in numbers)
    buffer_bytes = _buffer(tree, buffer, data)
    if (
        buffer_bytes is None
        or binary > len(buffer_bytes)
        or head + tail > _EXPANSION * length + 100
    ):
        return None
    try:
        unpacking = zlib.decompressobj()
        unpacked = unpacking.decompress(buffer_bytes[offset : offset + length], head + tail + 1)
    except zlib.error:
        return None
    if len(unpacked) != head + tail:
        return None
    text = _expanded(unpacked[:head], tree, buffer_bytes)
    if text is None:
        return None
    original = text + buffer_bytes[:binary] + unpacked[head:]
    is_same = hashlib.sha256(original).hexdigest() == record.get("sha256")
    return original if is_same else None


def _buffer(tree: dict[str, Any], buffer: int, data: bytes) -> bytes | None:
    """Return the bytes of the extended buffer, inline or in the binary chunk; None if missing."""
    buffers = tree.get("buffers", [])
    if not isinstance(buffers, list) or buffer >= len(buffers):
        return None
    uri = buffers[buffer].get("uri") if isinstance(buffers[buffer], dict) else None
    if isinstance(uri, str):
        return _decoded(uri.partition(",")[2])
    first, last = split_binary(data)
    return data[first:last]


def _expanded(text: bytes, tree: dict[str, Any], buffer_bytes: bytes) -> bytes | None:
    """Replace tokens by the texts that they stand for; None if the result would be too large."""
    inline = {(kind, index): uri for kind, index, uri in _inline(tree)}
    parts, position, total = [], 0, len(text)
    for token in _TOKEN.finditer(text):
        kind, index, length = token[1].decode(), int(token[2]), int(token[3] or 0)
        if kind == "bytes":
            total += 2 * min(length, len(buffer_bytes))
        uri = inline.get((kind, index), b"")
        total += len(uri)
        if total > LARGEST_FILE:
            return None
        if kind == "bytes":
            uri = base64.b64encode(buffer_bytes[index : index + length])
        parts += [text[position : token.start()], uri]
        position = token.end()
    return b"".join([*parts, text[position:]])
