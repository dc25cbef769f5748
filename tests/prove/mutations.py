"""Mutations that know what they change: trees, words, numbers, tensors, archives and pickles.

Every function takes a whole input and a `random.Random`, and returns another input; the same state
of the generator gives the same bytes.
"""

from __future__ import annotations

import io
import json
import pickle
import re
import struct
import zipfile
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

__all__ = [
    "changed_array",
    "changed_arrays",
    "changed_bytes",
    "changed_fields",
    "changed_glb",
    "changed_json",
    "changed_npz",
    "changed_tensors",
    "changed_tree",
    "changed_words",
    "changed_zip",
    "few",
    "hostile_value",
    "mostly",
]

#: Numbers at which programs break: edges of types, no numbers, and what a file cannot hold.
WHOLE = (0, 1, -1, 2, 3, 4, 7, 127, 128, 255, 256, 32767, 65535, 65536, 2**24, 2**31 - 1, 2**31)
LARGE = (2**32 - 1, 2**32, 2**53, 2**63 - 1, 2**63, 2**64, -(2**31), -(2**63), 10**12, 10**30)
REAL = (0.5, -0.0, 1e-45, 1e-308, 5e-324, 1e20, 1e38, 3.5e38, 1e154, 1e200, 1e300, -1e308)
NO_NUMBERS = (float("nan"), float("inf"), float("-inf"))
WORDS = (
    "", " ", "nan", "-nan", "inf", "1e999", "1,5", "0x10", "1_000", "٣", "१", "1e", "+", "-", "--1",
    "9" * 400, "1" + "0" * 5000, "a" * 300, "\x07", "é", "\u2028", "\r", "\t", "{", "}", "[", "]",
    '"', "'", "#", "..", "../../etc/passwd", "/dev/zero", "%00", "%2e%2e/a", "file:///etc/passwd",
    "http://localhost/a", "data:,", "C:\\a", "\\", "$(id)", "true", "null", "None", "\ud800",
)  # fmt: skip
#: Text that stands for a number which JSON in Python would not write.
RAW = ("1e999", "-1e999", "1" + "0" * 400, "NaN", "Infinity", "0.1e-999", "-0")


def few(rng: Random, most: int) -> int:
    """Return how many changes an input has: mostly one, which gets deeper than several would."""
    return 1 if rng.random() < 0.6 else rng.randint(1, most)


def hostile_value(rng: Random) -> Any:
    """Return any plain value."""
    kinds: list[Callable[[], Any]] = [
        lambda: rng.choice(WHOLE),
        lambda: rng.choice(WHOLE),
        lambda: rng.choice(LARGE),
        lambda: rng.choice(REAL),
        lambda: rng.choice(NO_NUMBERS),
        lambda: rng.choice(WORDS[:-1]),
        lambda: None,
        lambda: rng.random() < 0.5,
        list,
        dict,
        lambda: [rng.choice(WHOLE)] * rng.choice((1, 2, 3, 4, 16, 17)),
        lambda: [rng.choice(REAL) for _ in range(rng.choice((1, 3, 4, 16)))],
        lambda: {rng.choice(WORDS[:-1]): rng.choice(WHOLE)},
        lambda: [[]] * 3,
        lambda: f"@raw:{rng.choice(RAW)}",
    ]
    return rng.choice(kinds)()


def nudged(value: Any, rng: Random) -> Any:
    """Return a value that is nearly the same, of the same type where it can be."""
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, int):
        return rng.choice((value + 1, value - 1, -value, value * 2, value // 2, float(value)))
    if isinstance(value, float):
        return rng.choice((value * 1e30, -value, value + 1, value * 1e-30, rng.choice(NO_NUMBERS)))
    if isinstance(value, str):
        return rng.choice(
            (value[:-1], value + value, value.upper(), value + rng.choice(WORDS[:-1]))
        )
    return hostile_value(rng)


def _places(tree: Any) -> list[tuple[Any, Any]]:
    """List every place of a tree: what holds it, and its key there."""
    found: list[tuple[Any, Any]] = []
    todo = [tree]
    while todo:
        holder = todo.pop()
        keys = holder.keys() if isinstance(holder, dict) else range(len(holder))
        for key in keys:
            found.append((holder, key))
            if isinstance(holder[key], dict | list):
                todo.append(holder[key])
    return found


def changed_tree(tree: Any, rng: Random, most: int = 4) -> Any:
    """Change a tree in some places: values, keys, lengths, what refers to what. In place."""
    for _ in range(few(rng, most)):
        places = _places(tree)
        if not places:
            return hostile_value(rng)
        holder, key = rng.choice(places)
        way = rng.randrange(9)
        if way == 0:
            holder[key] = hostile_value(rng)
        elif way in (1, 2):
            holder[key] = nudged(holder[key], rng)
        elif way == 3:
            del holder[key]
        elif way == 4:  # what stands elsewhere, itself: trees that share, never loops
            other, its = rng.choice(places)
            holder[key] = json.loads(json.dumps(other[its]))
        elif way == 5 and isinstance(holder, dict):
            value = holder.pop(key)
            holder[rng.choice((*WORDS[:-1], str(key).upper(), f"{key}s"))] = value
        elif way == 6 and isinstance(holder, list):
            holder[key:key] = [json.loads(json.dumps(holder[key]))] * rng.choice((1, 2, 50))
        elif way == 7 and isinstance(holder[key], list):
            rng.shuffle(holder[key])
        else:
            deep = holder[key]
            for _ in range(rng.choice((1, 1, 1, 60, 300))):
                deep = [deep] if rng.random() < 0.5 else {"extras": deep}
            holder[key] = deep
    return tree


def written_json(tree: Any) -> bytes:
    """Return a tree as JSON, with numbers that Python's writer has not."""
    try:
        text = json.dumps(tree)
    except RecursionError:
        return b"[" * 5000
    text = re.sub(r'"@raw:([^"]*)"', r"\1", text)
    return text.encode("utf-8", "surrogatepass")


def changed_json(data: bytes, rng: Random) -> bytes:
    """Change the tree of a JSON file, or its text."""
    if rng.random() < 0.1:
        return changed_words(data, rng)
    return written_json(changed_tree(json.loads(data), rng))


def changed_bytes(data: bytes, rng: Random, most: int = 6, head: int = 400) -> bytes:
    """Change bytes and words of four and eight, mostly in the head: counts, offsets."""
    found = bytearray(data)
    for _ in range(few(rng, most)):
        edge = min(len(found), head) if rng.random() < 0.7 else len(found)
        at = rng.randrange(max(edge, 1))
        if rng.random() < 0.15:
            at = max(len(found) - 1 - at, 0)
        way = rng.randrange(9)
        if way == 0 and found:
            found[min(at, len(found) - 1)] = rng.randrange(256)
        elif way == 1 and found:
            found[min(at, len(found) - 1)] ^= 1 << rng.randrange(8)
        elif way in (2, 3):
            size = rng.choice((1, 2, 4, 4, 8))
            at -= at % size if rng.random() < 0.7 else 0
            number = rng.choice((*WHOLE, *LARGE, len(found), len(found) - at))
            order = rng.choice(("little", "little", "big"))
            found[at : at + size] = (number % 256**size).to_bytes(size, order)
        elif way == 4:
            layout = rng.choice(("<f", ">f", "<d", ">d"))
            real = rng.choice((*NO_NUMBERS, *REAL, -1.0))
            if abs(real) > 3e38 and layout[1] == "f":
                real = float("inf")
            packed = struct.pack(layout, real)
            found[at : at + len(packed)] = packed
        elif way == 5:
            del found[at : at + rng.choice((1, 2, 4, 12, 100))]
        elif way == 6:
            begin = rng.randrange(max(len(found), 1))
            found[at:at] = found[begin : begin + rng.choice((1, 4, 12, 60, 400))]
        elif way == 7:
            found[at:at] = rng.choice(WORDS).encode("utf-8", "surrogatepass")
        elif rng.random() < 0.4:
            del found[at:]
    return bytes(found)


TOKEN = re.compile(rb"[^\s,()\[\]{}<>=\"']+")


def changed_words(data: bytes, rng: Random, most: int = 5) -> bytes:
    """Change the words and lines of a text: counts, numbers, keywords, order."""
    for _ in range(few(rng, most)):
        words = list(TOKEN.finditer(data))
        way = rng.randrange(10)
        if way < 6 and words:
            word = rng.choice(words)
            if rng.random() < 0.3:  # the head, where counts and keywords are
                word = words[min(int(rng.expovariate(0.1)), len(words) - 1)]
            data = data[: word.start()] + _other_word(word[0], words, rng) + data[word.end() :]
        elif way == 9:
            data = changed_bytes(data, rng, 2)
        else:
            lines = data.split(b"\n")
            k, j = rng.randrange(len(lines)), rng.randrange(len(lines))
            if way == 6:
                del lines[k : k + rng.choice((1, 1, 2, 9))]
            elif way == 7:
                lines[k:k] = lines[j : j + rng.choice((1, 3, 20))] * rng.choice((1, 1, 30))
            else:
                lines[k], lines[j] = lines[j], lines[k]
            data = b"\n".join(lines)
    return data


def _other_word(word: bytes, words: list[re.Match[bytes]], rng: Random) -> bytes:
    way = rng.randrange(6)
    if way == 0:
        return rng.choice(words)[0]
    if way == 1:
        return str(rng.choice((*WHOLE, *LARGE))).encode()
    if way == 2:
        return repr(rng.choice((*REAL, *NO_NUMBERS))).encode()
    if way == 3:
        return rng.choice(WORDS).encode("utf-8", "surrogatepass")
    try:
        value: Any = float(word) if way == 4 else int(word)
    except ValueError:
        return word[:-1] if way == 4 else word + b" " + word
    return str(nudged(value, rng)).encode()


def changed_array(array: np.ndarray, rng: Random) -> np.ndarray:
    """Change an array: numbers, type, shape, order."""
    way = rng.randrange(8)
    with np.errstate(all="ignore"):
        if way < 4 and array.size and array.dtype.kind in "fiu":
            found = array.copy()
            flat = found.reshape(-1)
            for _ in range(rng.choice((1, 1, 3, 20))):
                at = rng.randrange(flat.size)
                if found.dtype.kind == "f":
                    value = rng.choice((*NO_NUMBERS, *REAL, 0.0, -1.0, float(flat[0])))
                    flat[at] = np.float64(value).astype(found.dtype)
                else:
                    bounds = np.iinfo(found.dtype)
                    value = rng.choice((*WHOLE, *LARGE, bounds.min, bounds.max, len(array)))
                    flat[at] = min(max(value, bounds.min), bounds.max)
            return found
        if way == 4:
            kinds = ("<f8", "<f4", "<i4", "<i2", "<u2", "u1", "<i8", "<c16", "?", "<U3", "<f2")
            return array.astype(rng.choice(kinds[:6] if rng.random() < 0.6 else kinds))
        if way == 5:
            return array[: len(array) // 2] if array.ndim else array[None]
        if way == 6:
            shapes = [(-1,), (1, *array.shape), (*array.shape, 1), array.shape[::-1], (0,), ()]
            shape = rng.choice(shapes)
            if shape == (0,):
                return array.reshape(-1)[:0]
            return (
                array.reshape(-1)[:1].reshape(())
                if shape == () and array.size
                else array.reshape(shape or (-1,))
            )
        scaled = array * rng.choice((0, -1, 2, 1e3)) if array.dtype.kind in "fi" else array
        return scaled.astype(array.dtype)


def changed_arrays(arrays: dict[str, Any], rng: Random) -> dict[str, Any]:
    """Change some of several named arrays: themselves, their names, which there are."""
    found = dict(arrays)
    for _ in range(few(rng, 3)):
        if not found:
            break
        name = rng.choice(sorted(found))
        way = rng.randrange(8)
        if way == 0:
            del found[name]
        elif way == 1:
            found[rng.choice((*WORDS[1:20], f"{name}s"))] = found.pop(name)
        elif way == 2:
            found[name] = found[rng.choice(sorted(found))]
        elif isinstance(found[name], np.ndarray):
            found[name] = changed_array(found[name], rng)
        else:
            found[name] = nudged(found[name], rng)
    return found


def changed_glb(data: bytes, rng: Random) -> bytes:
    """Change a .glb: its JSON, numbers in its buffer, or its chunks."""
    way = rng.random()
    if way < 0.1:
        return changed_bytes(data, rng, head=40)
    size = struct.unpack_from("<I", data, 12)[0]
    text, binary = data[20 : 20 + size], data[28 + size :]
    if way < 0.75:
        text = written_json(changed_tree(json.loads(text), rng))
    if way > 0.65:
        binary = changed_bytes(binary, rng, head=10**9)
    if way > 0.97:
        text = changed_words(text, rng)
    text += b" " * (-len(text) % 4)
    chunks = [(0x4E4F534A, text), (0x004E4942, binary)]
    if rng.random() < 0.04:
        chunks = rng.choices([*chunks, (7, b"abcd"), (0x004E4942, b"")], k=rng.randrange(5))
    body = b"".join(struct.pack("<II", len(part), kind) + part for kind, part in chunks)
    return b"glTF" + struct.pack("<II", 2, 12 + len(body)) + body


def changed_tensors(
    data: bytes, rng: Random, seal: Callable[[dict[str, Any], dict[str, Any]], bytes]
) -> bytes:
    """Change a model file: arrays and texts, and then a checksum that fits; or its bytes.

    `seal` makes a file of arrays and texts.
    """
    if rng.random() < 0.08:
        return changed_bytes(data, rng, head=600)
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    texts = header.pop("__metadata__")
    if rng.random() < 0.05:
        found = {"__metadata__": texts, **changed_tree(header, rng)} if header else {}
        text = written_json(found)
        return len(text).to_bytes(8, "little") + text + data[8 + size :]
    kinds = {"F64": "<f8", "F32": "<f4", "I32": "<i4", "I16": "<i2", "U16": "<u2", "U8": "u1"}
    arrays = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        block = data[8 + size + begin : 8 + size + end]
        arrays[name] = np.frombuffer(block, kinds[entry["dtype"]]).reshape(entry["shape"])
    way = rng.random()
    if way < 0.6 or "header" not in texts:
        arrays = changed_arrays(arrays, rng)
    if way > 0.5 and "header" in texts:
        text = written_json(changed_tree(json.loads(texts["header"]), rng))
        texts["header"] = text.decode("utf-8", "surrogatepass")
    if rng.random() < 0.03:
        texts = changed_tree(texts, rng)
    try:
        return seal(arrays, texts)
    except Exception:  # what cannot be sealed is no file; bytes then
        return changed_bytes(data, rng, head=600)


def changed_npz(data: bytes, rng: Random) -> bytes:
    """Change an archive of arrays: the arrays, their headers, or the archive."""
    way = rng.random()
    if way < 0.2:
        return changed_zip(data, rng)
    with np.load(io.BytesIO(data), allow_pickle=True) as stored:
        arrays = {name: stored[name] for name in stored.files}
    arrays = changed_arrays(arrays, rng) if way < 0.8 else arrays
    out = io.BytesIO()
    how = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    with zipfile.ZipFile(out, "w", how) as archive:
        for name, array in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=True)
            block = member.getvalue()
            if way > 0.75 and rng.random() < 0.3:
                block = changed_bytes(block, rng, 3, head=120)
            archive.writestr(f"{name}.npy", block)
    return out.getvalue()


def changed_zip(data: bytes, rng: Random) -> bytes:
    """Change an archive: headers of members and its directory, where names, sizes and ways are."""
    found = bytearray(data)
    marks = [m.start() for m in re.finditer(rb"PK(\x01\x02|\x03\x04|\x05\x06)", data)]
    for _ in range(few(rng, 4)):
        at = rng.choice(marks) + rng.randrange(4, 46) if marks else rng.randrange(len(found))
        at = min(at, len(found) - 2)
        size = rng.choice((1, 2, 4))
        number = rng.choice((*WHOLE, 8, 9, 12, 14, 93, 99, 2**32 - 1, rng.randrange(2**16)))
        found[at : at + size] = (number % 256**size).to_bytes(size, "little")
    return bytes(found) if rng.random() < 0.8 else changed_bytes(bytes(found), rng)


def changed_fields(data: bytes, rng: Random) -> bytes:
    """Change the fields of a pickled table, and pickle it again, in any protocol."""
    fields = changed_arrays(pickle.loads(data), rng)
    whole: Any = fields
    if rng.random() < 0.05:
        whole = rng.choice(([fields], {"a": fields}, list(fields), list(fields.values()), 3))
    return pickle.dumps(whole, protocol=rng.randrange(6))


def mostly(
    often: Callable[[bytes, Random], bytes], seldom: Callable[[bytes, Random], bytes], part: float
) -> Callable[[bytes, Random], bytes]:
    """Return a mutation that is one of two; the second for this part of inputs."""

    def change(data: bytes, rng: Random) -> bytes:
        return seldom(data, rng) if rng.random() < part else often(data, rng)

    return change
