"""glTF files that keep what they were before Supple added to them, to the byte.

The binary chunk of a .glb is added to at its end; all else of the file as it was, its text above
all, lies compressed behind the new bytes, and a record in ``extras`` says where. Taking out what
was added then gives the same file again.

Curves and flesh have a record each, and a file shows the record of what was added last. The file
that this record gives may have a record of its own: what was added before.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import struct
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from supple.errors import FormatError, warn
from supple.formats.file_bytes import LARGEST_FILE
from supple.formats.gltf.container import BINARY_CHUNK, MAGIC, Notes, open_container
from supple.formats.registry import ADDED, CURVES, FLESH

#: Lists whose members may hold their bytes in a long URI, which is not kept twice.
_INLINE = ("buffers", "images")
#: Marks in a kept text: a URI that the file still has, or bytes of its buffer in base64.
_TOKEN = re.compile(rb"\0(buffers|images|bytes) (\d{1,10})(?: (\d{1,10}))?\0")
#: The most that zlib makes of a byte.
_EXPANSION = 1100


def split_binary(data: bytes) -> tuple[int, int]:
    """Return where the binary chunk's bytes begin and end; both the length of a file without."""
    at = 12
    while data[:4] == MAGIC and at + 8 <= len(data):
        size, kind = struct.unpack_from("<II", data, at)
        if kind == BINARY_CHUNK and at + 8 + size <= len(data):
            return at + 8, at + 8 + size
        at += 8 + size
    return len(data), len(data)


def keep_original(
    file: Any,
    original: bytes,
    told: dict[str, Any],
    added: str = CURVES,
    outer: bytes | None = None,
) -> None:
    """Put all of a file that the new one has not behind its new bytes, with a record of it.

    Parameters
    ----------
    file
        `GltfFile` that is being added to; its JSON is still the original's wherever nothing was
        added, and its binary begins with that of the original.
    original
        Bytes of the file before, which needs no other files.
    told
        Plain values to be kept in the record, for people.
    added
        Name of the record: what was added.
    outer
        Bytes of the file that the original was made of, where that needs other files.
    """
    holders = [h for h in (file.json, file.json["asset"]) if isinstance(h.get("extras", {}), dict)]
    if not holders:
        raise FormatError("its extras are no tables, so nothing can be noted in it; remove them")
    if file.buffer == len(file.part("buffers")):
        file.add("buffers", {"byteLength": 0})
    record = {**told, **_packed(file, original)}
    if outer is not None:
        record["file"] = _packed(file, outer)
    file.json["buffers"][file.buffer]["byteLength"] = len(file.binary)
    for holder in holders:
        for name in ADDED:  # the original has its own
            holder.get("extras", {}).pop(name, None)
    holders[0].setdefault("extras", {})[added] = record


def _packed(file: Any, original: bytes) -> dict[str, Any]:
    """Add what the file lacks of the original to its binary; return where that lies."""
    first, last = split_binary(original)
    same = _common(original[first:last], file.binary)
    head = original[:first]
    for token, text in _replaceable(file, original):
        if head.count(text) == 1:
            head = head.replace(text, token)
    packed = zlib.compress(head + original[first + same :], 9)
    file.binary.extend(bytes(-len(file.binary) % 4))
    place = {
        "buffer": file.buffer,
        "offset": len(file.binary),
        "length": len(packed),
        "head": len(head),
        "tail": len(original) - first - same,
        "binary": same,
        "sha256": hashlib.sha256(original).hexdigest(),
    }
    file.binary.extend(packed)
    return place


def _common(one: bytes, other: bytearray) -> int:
    """Return the number of bytes with which both begin."""
    count = min(len(one), len(other))
    differ = np.frombuffer(one, np.uint8, count) != np.frombuffer(bytes(other[:count]), np.uint8)
    return int(np.argmax(differ)) if differ.any() else count


def _replaceable(file: Any, original: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield tokens, and the long texts of the original that they stand for."""
    kept = set()
    for kind, index, uri in _inline(file.json):
        if index != (file.buffer if kind == "buffers" else -1):
            kept.add(uri)
            yield _token(kind, index), uri
    at = 0
    for _, _, uri in _inline(open_container(original, Notes("")).json):
        text = uri.partition(b",")[2]
        data = _decoded(text)
        if uri in kept or data is None or base64.b64encode(data) != text:
            continue
        place = file.binary.find(data, at)
        if place >= 0:
            at = place + len(data)
            yield _token("bytes", place, len(data)), text


def _inline(tree: dict[str, Any]) -> Iterator[tuple[str, int, bytes]]:
    for kind in _INLINE:
        listed = tree.get(kind)
        for index, each in enumerate(listed if isinstance(listed, list) else []):
            uri = each.get("uri") if isinstance(each, dict) else None
            if isinstance(uri, str) and uri[:5].lower() == "data:" and uri.isascii():
                yield kind, index, uri.encode()


def _token(*words: str | int) -> bytes:
    return f"\0{' '.join(map(str, words))}\0".encode()


def _decoded(text: bytes | str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


# Files that were added to, as they were before.


def kept_record(tree: dict[str, Any], added: str = CURVES) -> dict[str, Any] | None:
    """Return the record of what was added to a file, None where nothing was."""
    for holder in (tree, tree.get("asset")):
        extras = holder.get("extras") if isinstance(holder, dict) else None
        record = extras.get(added) if isinstance(extras, dict) else None
        if isinstance(record, dict):
            return record
    return None


def shown_record(name: str, data: bytes) -> tuple[str, dict[str, Any], dict[str, Any]] | None:
    """Return what was added to a file last, its record and the file's JSON; None for nothing."""
    if not any(added.encode() in data for added in ADDED):
        return None
    tree = open_container(data, Notes(name)).json
    for added in (FLESH, CURVES):  # one of them, but for files that others have put together
        record = kept_record(tree, added)
        if record is not None:
            return added, record, tree
    return None


def stages_before(name: str, data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield what was added to a file, last first, and the file as it was before each.

    Raises
    ------
    FormatError
        If a record is damaged, as after another program has saved the file anew.
    """
    while (shown := shown_record(name, data)) is not None:
        added, record, tree = shown
        original = _restored(tree, record, data)
        if original is None:
            what = "curves were" if added == CURVES else "flesh was"
            raise FormatError(
                f"{name}: what it was before {what} added cannot be found in it any more;"
                " another program may have saved it anew, take the original"
            )
        data = original
        yield added, data


def original_bytes(name: str, data: bytes, added: str = CURVES) -> bytes | None:
    """Return a file as it was before curves, or flesh, were added; None where they were not.

    What was added later is taken out, too.

    Raises
    ------
    FormatError
        If its record is damaged, as after another program has saved the file anew.
    """
    return next((before for last, before in stages_before(name, data) if last == added), None)


def without_added(name: str, data: bytes) -> bytes:
    """Return a file as it was before curves were added; the file itself where that is lost."""
    try:
        return original_bytes(name, data) or data
    except FormatError as error:
        warn(f"{error}; until then its curves are taken as its own")
        return data


def kept_file(name: str, data: bytes) -> bytes | None:
    """Return the file with other files beside it that a file was made of; None where none was."""
    shown = shown_record(name, data)
    inner = shown[1].get("file") if shown is not None else None
    if shown is None or not isinstance(inner, dict):
        return None
    return _restored(shown[2], inner, data)


def _restored(tree: dict[str, Any], record: dict[str, Any], data: bytes) -> bytes | None:
    """Return the bytes that a record describes; None where they are not there."""
    wanted = ("buffer", "offset", "length", "head", "tail", "binary")
    numbers = [record.get(each) for each in wanted]
    if not all(type(number) is int and 0 <= number <= LARGEST_FILE for number in numbers):
        return None
    buffer, offset, length, head, tail, binary = (int(number or 0) for number in numbers)
    own = _buffer(tree, buffer, data)
    if own is None or binary > len(own) or head + tail > _EXPANSION * length + 100:
        return None
    try:
        unpacking = zlib.decompressobj()
        whole = unpacking.decompress(own[offset : offset + length], head + tail + 1)
    except zlib.error:
        return None
    if len(whole) != head + tail:
        return None
    text = _expanded(whole[:head], tree, own)
    if text is None:
        return None
    original = text + own[:binary] + whole[head:]
    same = hashlib.sha256(original).hexdigest() == record.get("sha256")
    return original if same else None


def _buffer(tree: dict[str, Any], buffer: int, data: bytes) -> bytes | None:
    """Return the bytes of the buffer that was added to: inline, or the binary chunk."""
    buffers = tree.get("buffers", [])
    if not isinstance(buffers, list) or buffer >= len(buffers):
        return None
    uri = buffers[buffer].get("uri") if isinstance(buffers[buffer], dict) else None
    if isinstance(uri, str):
        return _decoded(uri.partition(",")[2])
    first, last = split_binary(data)
    return data[first:last]


def _expanded(text: bytes, tree: dict[str, Any], own: bytes) -> bytes | None:
    """Put texts in the places of their tokens; None where that makes no file of a sound size."""
    inline = {(kind, index): uri for kind, index, uri in _inline(tree)}
    parts, at, total = [], 0, len(text)
    for token in _TOKEN.finditer(text):
        kind, index, length = token[1].decode(), int(token[2]), int(token[3] or 0)
        if kind == "bytes":
            total += 2 * min(length, len(own))
        uri = inline.get((kind, index), b"")
        total += len(uri)
        if total > LARGEST_FILE:
            return None
        if kind == "bytes":
            uri = base64.b64encode(own[index : index + length])
        parts += [text[at : token.start()], uri]
        at = token.end()
    return b"".join([*parts, text[at:]])
