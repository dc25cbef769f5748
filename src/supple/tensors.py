"""Safetensors files: reproducible writing, and reading of untrusted files.

A file has eight bytes with the header's length, the header as JSON (for each array its dtype, shape
and offsets; strings under "__metadata__"), and the arrays without gaps. The `safetensors` library
can read these files. It is not used here, because it writes strings in no fixed order and accepts
headers of 100 MB and repeated names.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.errors import FormatError

Arrays = dict[str, NDArray]

DTYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "I32": np.dtype("<i4"),
    "I16": np.dtype("<i2"),
    "U16": np.dtype("<u2"),
    "U8": np.dtype("u1"),
}
_CODES = {dtype: code for code, dtype in DTYPES.items()}
#: Largest size of a header in bytes, and largest number of arrays.
LARGEST_HEADER, MOST_TENSORS = 16 * 2**20, 50_000
#: Deepest nesting of JSON, and largest number of digits of a number.
DEEPEST, LONGEST_NUMBER = 40, 30
#: Names of arrays; none may look like a path or a command.
NAME = re.compile(r"[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*", re.ASCII)


def packed_tensors(tensors: Mapping[str, NDArray], texts: Mapping[str, str]) -> bytes:
    """Return the bytes of a safetensors file; equal arrays and strings give equal bytes."""
    # Wide types first, so that every array is aligned, as the format requires.
    order = sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name))
    header: dict[str, Any] = {"__metadata__": {name: texts[name] for name in sorted(texts)}}
    blocks, end = [], 0
    for name in order:
        array = np.ascontiguousarray(tensors[name])
        offsets = [end, end + array.nbytes]
        code = _CODES[array.dtype.newbyteorder("<")]
        header[name] = {"dtype": code, "shape": list(array.shape), "data_offsets": offsets}
        blocks.append(array.astype(DTYPES[code], copy=False).tobytes())
        end += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode("ascii")
    text += b" " * (-len(text) % 8)
    if len(text) > LARGEST_HEADER:
        raise FormatError(f"a header of {len(text) / 2**20:.0f} MiB is too large; use fewer arrays")
    return b"".join([len(text).to_bytes(8, "little"), text, *blocks])


def header_texts(path: Path) -> dict[str, str]:
    """Return the strings of a safetensors file by name; FormatError if its header is invalid."""
    try:
        if not path.is_file():
            what = "is not a file" if path.exists() else f"there is no such file in {path.parent}"
            raise FormatError(f"{path.name}: {what}")
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if length > LARGEST_HEADER:
                raise FormatError(f"{path.name}: is not a model file")
            text = file.read(length)
    except (OSError, ValueError) as error:
        raise FormatError(f"{path.name}: cannot be opened ({error})") from error
    if not text.startswith(b"{") or len(text) < length:
        raise FormatError(f"{path.name}: is cut off, or is not a model file")
    try:
        return _texts(checked_json(text, "its header"))
    except FormatError as error:
        raise FormatError(f"{path.name}: {error}") from error


def _texts(header: Any) -> dict[str, str]:
    """Remove the strings ("__metadata__") from a parsed header, and return them by name."""
    if not isinstance(header, dict) or len(header) > MOST_TENSORS:
        raise FormatError("its header is not a table of arrays, or far too long")
    texts = header.pop("__metadata__", {})
    if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
        raise FormatError("the metadata in its header are not strings")
    return texts


def unpacked_tensors(data: bytes) -> tuple[Arrays, dict[str, str], memoryview]:
    """Return arrays by name, strings by name, and the block of bytes of which arrays are views.

    Raise FormatError if `data` is not one complete safetensors file.
    """
    if len(data) < 10 or data[8:9] != b"{":
        raise FormatError("is not a model file")
    length = int.from_bytes(data[:8], "little")
    if length > LARGEST_HEADER or 8 + length > len(data):
        raise FormatError("is cut off, or is not a model file")
    header = checked_json(data[8 : 8 + length], "its header")
    texts = _texts(header)
    block = memoryview(data)[8 + length :]
    return _views(header, block), texts, block


def _views(header: dict[str, Any], block: memoryview) -> Arrays:
    """Return arrays by name as views of `block`, which they must fill without gaps."""
    entries = [(*_checked_entry(name, entry), name) for name, entry in header.items()]
    arrays: Arrays = {}
    end = 0
    for start, stop, dtype, shape, name in sorted(entries, key=lambda entry: entry[:2]):
        if start != end or stop > len(block):
            raise FormatError(f'array "{name}" has wrong offsets; the file is cut off or edited')
        arrays[name] = np.frombuffer(block[start:stop], dtype=dtype).reshape(shape)
        end = stop
    if end != len(block):
        raise FormatError(f"has {len(block) - end:,} bytes that belong to no array")
    return arrays


def _checked_entry(name: str, entry: Any) -> tuple[int, int, np.dtype[Any], tuple[int, ...]]:
    if len(name) > 200 or not NAME.fullmatch(name):
        raise FormatError(f'array name "{_shown(name)}" is invalid')
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise FormatError(f'array "{name}" must have type, shape and offsets, and nothing else')
    dtype = DTYPES.get(entry["dtype"]) if isinstance(entry["dtype"], str) else None
    if dtype is None:
        raise FormatError(f'array "{name}" has an unknown type')
    shape, offsets = entry["shape"], entry["data_offsets"]
    for numbers in (shape, offsets):
        valid = isinstance(numbers, list) and all(type(n) is int and n >= 0 for n in numbers)
        if not valid or len(numbers) > 8:
            raise FormatError(f'array "{name}" has an invalid shape or invalid offsets')
    if len(offsets) != 2 or offsets[1] - offsets[0] != math.prod(shape) * dtype.itemsize:
        raise FormatError(f'array "{name}" has a number of bytes that does not match its shape')
    return offsets[0], offsets[1], dtype, tuple(shape)


def checked_json(data: bytes | str, what: str) -> Any:
    """Parse JSON; refuse repeated keys, NaN, very long numbers and deep nesting."""
    try:
        text = data if isinstance(data, str) else data.decode("utf-8")
        _check_depth(text, what)
        return json.loads(
            text,
            object_pairs_hook=_without_repeats,
            parse_constant=_refuse,
            parse_int=_integer,
            parse_float=_real,
        )
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{what} is damaged ({_shown(str(error))})") from error


def _check_depth(text: str, what: str) -> None:
    depth = deepest = 0
    # Brackets in strings count too; names do not have many.
    for bracket in re.finditer(r"[\[{]+|[\]}]+", text):
        run = bracket.group()
        depth += len(run) if run[0] in "[{" else -len(run)
        deepest = max(deepest, depth)
    if deepest > DEEPEST:
        raise FormatError(f"{what} is nested too deeply")


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        raise ValueError("a key occurs twice")
    return table


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not a number")


def _integer(digits: str) -> int:
    if len(digits) > LONGEST_NUMBER:
        raise ValueError("a number has too many digits")
    return int(digits)


def _real(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError("a number is too large")
    return value


def _shown(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)[:100]
