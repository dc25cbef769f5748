"""Parts of a glTF file (JSON, binary chunk, buffers beside it), and the notes of its mistakes.

Every message has the code by which the Khronos glTF validator reports the same mistake.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import unquote, unquote_to_bytes

from supple.errors import FormatError, warn
from supple.formats.file_bytes import LARGEST_FILE


class Notes:
    """Warnings of one file, each kind once."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._first: dict[str, str] = {}
        self._count: dict[str, int] = {}

    def warn(self, code: str, message: str) -> None:
        """Record a mistake that does not prevent reading; `message` ends with the consequence."""
        self._first.setdefault(code, message)
        self._count[code] = self._count.get(code, 0) + 1

    def defect(self, message: str) -> None:
        """Record a defect of the surface."""
        self._first[message] = f"{message}; continuing"
        self._count[message] = 0

    def fail(self, code: str, message: str) -> NoReturn:
        """Raise FormatError with the file's name, the message and the code."""
        raise FormatError(f"{self.name}: {_one_line(message)} ({code})")

    def messages(self) -> tuple[str, ...]:
        """Return one line per kind of mistake: the first, and the number of others."""
        lines = []
        for code, message in self._first.items():
            count = self._count[code]
            more = f" ({code}, and {count - 1} more)" if count > 1 else f" ({code})"
            lines.append(f"{self.name}: {_one_line(message)}{more if count else ''}")
        return tuple(lines)

    def emit(self) -> None:
        """Warn of every recorded mistake."""
        for message in self.messages():
            warn(message)


def quoted(value: object) -> str:
    """Return a value of the file for a message: short, on one line."""
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _one_line(message: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in message)


MAGIC = b"glTF"
JSON_CHUNK, BINARY_CHUNK = 0x4E4F534A, 0x004E4942
MEDIA_TYPES = ("application/octet-stream", "application/gltf-buffer")
DATA_URI = re.compile(r"data:(?P<media>[^;,]*)(?:;[^;,=]+=[^;,]*)*(?P<base64>;base64)?,", re.I)
SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:")


@dataclass
class Container:
    """JSON of a file, and its binary chunk."""

    json: dict[str, Any]
    binary: memoryview | None


def open_container(data: bytes, notes: Notes) -> Container:
    """Split a file into JSON and binary chunk; the format is detected from the first bytes."""
    if data[:4] == MAGIC:
        text, binary = _chunks(data, notes)
    elif data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"["):
        text, binary = data, None
    else:
        is_binary = notes.name.lower().endswith((".glb", ".vrm"))
        code = "GLB_INVALID_MAGIC" if is_binary else "INVALID_JSON"
        notes.fail(code, f"begins with {quoted(data[:4])} and is not glTF; save it again")
    return Container(_parse(text, notes), binary)


def glb_chunks(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield kind, first byte and end of the chunks of a valid .glb; none for other files."""
    first = 20
    while data[:4] == MAGIC and first <= len(data):
        size, kind = struct.unpack_from("<II", data, first - 8)
        yield kind, first, first + size
        first += size + 8


def _chunks(data: bytes, notes: Notes) -> tuple[bytes, memoryview | None]:
    if len(data) < 12:
        notes.fail("GLB_UNEXPECTED_END_OF_HEADER", "is cut off in its header")
    version, length = struct.unpack_from("<II", data, 4)
    if version != 2:
        notes.fail("GLB_INVALID_VERSION", f"is of binary glTF version {version}; save it as 2.0")
    if length <= 12:
        notes.fail("GLB_LENGTH_TOO_SMALL", "has a header and nothing else")
    chunks: dict[int, memoryview] = {}
    at, number = 12, 0
    while at < len(data):
        if at >= length:
            message = f"has more than the {length} bytes it declares; the rest is ignored"
            notes.warn("GLB_LENGTH_MISMATCH", message)
            break
        if len(data) - at < 8:
            notes.fail("GLB_UNEXPECTED_END_OF_CHUNK_HEADER", f"is cut off at byte {at}")
        size, kind = struct.unpack_from("<II", data, at)
        remaining = min(len(data), length) - at - 8
        if size > remaining:
            present = max(remaining, 0)
            what = f"chunk {number} declares {size} bytes, and {present} are left in the file"
            notes.fail("GLB_CHUNK_TOO_BIG", f"{what}; it is damaged or cut off")
        _accept_chunk(kind, number, chunks, notes)
        chunks.setdefault(kind, memoryview(data)[at + 8 : at + 8 + size])
        at, number = at + 8 + size, number + 1
    if at < length:
        notes.fail("GLB_LENGTH_MISMATCH", f"declares {length} bytes but has {at}; it is cut off")
    if not chunks[JSON_CHUNK].nbytes:
        notes.fail("GLB_EMPTY_CHUNK", "its JSON chunk is empty")
    return bytes(chunks[JSON_CHUNK]), chunks.get(BINARY_CHUNK)


def _accept_chunk(kind: int, number: int, chunks: dict[int, memoryview], notes: Notes) -> None:
    if number == 0 and kind != JSON_CHUNK:
        notes.fail("GLB_UNEXPECTED_FIRST_CHUNK", "does not begin with a JSON chunk; save it again")
    if kind in chunks:
        notes.warn("GLB_DUPLICATE_CHUNK", f"chunk {number} repeats an earlier one; ignored")
    elif kind == BINARY_CHUNK and number != 1:
        notes.warn("GLB_UNEXPECTED_BIN_CHUNK", "its binary chunk is not the second; used anyway")


def _parse(text: bytes, notes: Notes) -> dict[str, Any]:
    if text.startswith(b"\xef\xbb\xbf"):
        notes.warn("INVALID_JSON", "its JSON begins with a byte-order mark; ignored")
        text = text[3:]

    def refuse(constant: str) -> NoReturn:
        notes.fail("INVALID_JSON", f"its JSON has the number {constant}; save it again")

    def finite(number: str) -> float:
        value = float(number)
        if math.isinf(value):
            refuse(number[:20])
        return value

    try:
        tree = json.loads(text.decode("utf-8"), parse_constant=refuse, parse_float=finite)
    except RecursionError:
        notes.fail("INVALID_JSON", "its JSON is nested too deeply")
    except ValueError as error:
        notes.fail("INVALID_JSON", f"its JSON cannot be read: {str(error)[:100]}; save it again")
    if not isinstance(tree, dict):
        notes.fail("TYPE_MISMATCH", "its JSON is not an object")
    return tree


def file_below(folder: Path, uri: str) -> Path | None:
    """Return the file that a relative URI names, None if it is outside the folder.

    URIs are untrusted: names, links and escapes may lead anywhere.
    """
    root = folder.resolve()
    file = (root / unquote(uri).replace("\\", "/")).resolve()
    return file if file.is_relative_to(root) else None


class Buffers:
    """Bytes of each buffer, read once.

    Only files in the folder of the glTF file, and below it, are opened.
    """

    def __init__(self, path: Path, container: Container, notes: Notes) -> None:
        self._folder = path.parent
        self._notes = notes
        self._files: dict[Path, bytes] = {}
        self._total = 0
        buffers = container.json.get("buffers", [])
        self._data = [self._fetch(k, buffer, container.binary) for k, buffer in enumerate(buffers)]

    def __getitem__(self, index: int) -> memoryview:
        data = self._data[index]
        if data is None:
            self._notes.fail("BUFFER_MISSING_GLB_DATA", f"buffer {index} is used but has no data")
        return data

    def present(self, index: int) -> bool:
        """Return whether the buffer has data."""
        return self._data[index] is not None

    def _fetch(
        self, index: int, buffer: dict[str, Any], binary: memoryview | None
    ) -> memoryview | None:
        declared, uri = buffer["byteLength"], buffer.get("uri")
        data: bytes | memoryview
        if uri is None:
            if index > 0 or binary is None:
                return None
            data = binary
        elif uri[:5].lower() == "data:":
            data = self._decode_uri(index, uri)
        else:
            data = self._read_file(index, uri)
        if len(data) < declared:
            what = f"buffer {index} declares {declared} bytes but has {len(data)}"
            self._notes.fail("BUFFER_BYTE_LENGTH_MISMATCH", f"{what}; it is cut off")
        if uri is None and len(data) > declared + 3:
            what = f"buffer 0 declares {declared} of {len(data)} bytes"
            self._notes.warn("GLB_BUFFER_LENGTH_MISMATCH", f"{what}; the rest is ignored")
        return memoryview(data)[:declared]

    def _decode_uri(self, index: int, uri: str) -> bytes:
        begin = DATA_URI.match(uri)
        if begin is None:
            self._notes.fail("INVALID_URI", f"buffer {index} has an invalid data URI {quoted(uri)}")
        if begin["media"].lower() not in MEDIA_TYPES:
            media = f"buffer {index} is of media type {quoted(begin['media'])}"
            self._notes.warn("BUFFER_DATA_URI_MIME_TYPE_INVALID", f"{media}; read as bytes")
        payload = uri[begin.end() :]
        if not begin["base64"]:
            return unquote_to_bytes(payload)
        try:
            return base64.b64decode(payload, validate=True)
        except (binascii.Error, ValueError):
            self._notes.fail("INVALID_URI", f"buffer {index} is not valid base64; save it again")

    def _read_file(self, index: int, uri: str) -> bytes:
        fail, what = self._notes.fail, f"buffer {index} has the URI {quoted(uri)}"
        if SCHEME.match(uri) or uri.startswith((":", "/", "\\")) or not uri:
            fail("INVALID_URI", f"{what}; only files beside the glTF file are opened")
        try:
            file = file_below(self._folder, uri)
            if file is None:
                fail("INVALID_URI", f"{what}, outside its folder; put the file beside it")
            if not file.is_file():
                fail("IO_ERROR", f"{what}, which does not exist; put the file beside it")
            if file not in self._files:
                self._total += file.stat().st_size
                if self._total > LARGEST_FILE:
                    fail("IO_ERROR", f"{what}; buffers of more than 2 GiB are not read")
                self._files[file] = file.read_bytes()
        except (OSError, ValueError, RuntimeError) as error:
            fail("IO_ERROR", f"{what}, which cannot be opened ({error})")
        return self._files[file]
