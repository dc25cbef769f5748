"""Model files: one safetensors file with all of a pose-space model, and nothing that runs.

docs/model_file.md lists what is in it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from supple.checks import shown
from supple.engines.pose_space.model.fields import ModelFields
from supple.engines.pose_space.model.flesh_fields import FleshFields
from supple.engines.pose_space.model.model_tensors import (
    fields_of,
    flesh_fields_of,
    flesh_tensors,
    tensors_of,
)
from supple.errors import FormatError, SuppleError
from supple.rig.protocol import Rig
from supple.rig.stored.rigs import check_same_rig
from supple.saving import write_whole
from supple.tensors import checked_json, packed_tensors, unpacked_tensors

Arrays = dict[str, NDArray]
Model = TypeVar("Model", bound=FleshFields)

FORMAT = "supple model"
VERSION = 1
LARGEST_FILE = 8 * 2**30
#: Arrays that several names share may count this often, and no more, when all are read.
MOST_SHARED = 8
AGAIN = "build the model again"


def write_model(model: FleshFields, path: str | Path) -> None:
    """Write a model to a file; see `PoseSpaceModel.save`."""
    write_whole(path, packed_model(model))


def read_model(kind: type[Model], path: str | Path, rig: Rig | None = None) -> Model:
    """Read a model of a class from a file; see `PoseSpaceModel.load`."""
    path = Path(path)
    data = model_bytes(path)
    try:
        return unpacked_model(kind, data, rig)
    except SuppleError as error:
        raise FormatError(f"{path.name}: {error}") from error


def model_bytes(path: Path) -> bytes:
    """Read a file that may be a model."""
    try:
        if not path.is_file():
            what = "is not a file" if path.exists() else f"there is no such file in {path.parent}"
            raise FormatError(f"{path.name}: {what}")
        if path.stat().st_size > LARGEST_FILE:
            raise FormatError(f"{path.name}: is far too large for a model")
        return path.read_bytes()
    except (OSError, ValueError) as error:
        raise FormatError(f"{path.name}: cannot be opened ({error})") from error


def packed_model(model: FleshFields) -> bytes:
    """Return the bytes of a model's file: its flesh, and its reduction if it has one."""
    parts = tensors_of(model) if isinstance(model, ModelFields) else flesh_tensors(model)
    return sealed(*parts, model.engine)


def sealed(header: dict[str, Any], tensors: Arrays, engine: str) -> bytes:
    """Return the bytes of a model file of an engine, with a checksum over all of it."""
    kept, same = _without_repeats(tensors)
    text = json.dumps(
        header | {"engine": engine, "same": same}, sort_keys=True, separators=(",", ":")
    )
    stored = {name: tensors[name] for name in kept}
    texts = {"format": FORMAT, "version": str(VERSION), "header": text}
    # The checksum is over what it stands beside: first the file without it.
    plain, _, block = unpacked_tensors(packed_tensors(stored, texts))
    return packed_tensors(stored, texts | {"checksum": _checksum(text, plain, block)})


def _without_repeats(tensors: Arrays) -> tuple[list[str], dict[str, str]]:
    """Return names to store, and names of arrays that equal a stored one, with its name."""
    first: dict[tuple[Any, ...], str] = {}
    same: dict[str, str] = {}
    for name in sorted(tensors):
        array = tensors[name]
        digest = hashlib.blake2b(array.tobytes()).digest()
        found = first.setdefault((array.dtype.str, array.shape, digest), name)
        if found != name:
            same[name] = found
    kept = [name for name in tensors if name not in same]
    if _bytes(tensors) > MOST_SHARED * sum(tensors[name].nbytes for name in kept):
        return list(tensors), {}
    return kept, same


def _bytes(tensors: Mapping[str, NDArray]) -> int:
    return sum(array.nbytes for array in tensors.values())


def _checksum(header: str, tensors: Arrays, block: memoryview) -> str:
    """Hash the header, the arrays' names, types and shapes, and their bytes."""
    digest = hashlib.blake2b(digest_size=32)
    digest.update(header.encode("utf-8", "surrogatepass"))
    for name in sorted(tensors):
        digest.update(f"\0{name} {tensors[name].dtype.str} {tensors[name].shape}".encode())
    digest.update(block)
    return digest.hexdigest()


def unpacked_model(kind: type[Model], data: bytes, rig: Rig | None = None) -> Model:
    """Return the model, of a class, in a file's bytes.

    Raises
    ------
    SuppleError
        If they are not a model's, whole and unchanged.
    """
    header, tensors = unsealed(data, kind.engine)
    with damage_named():
        read = fields_of if issubclass(kind, ModelFields) else flesh_fields_of
        model = kind(**read(header, tensors, rig))
        if rig is not None:
            check_same_rig(rig, model.rig.parameters, model.rig.n_vertices)
        return model


def unsealed(data: bytes, engine: str) -> tuple[dict[str, Any], Arrays]:
    """Return header and arrays of a model file of an engine, if it is whole and unchanged."""
    tensors, texts, block = unpacked_tensors(data)
    header = _checked_texts(texts, tensors, block)
    # Files of before there were several engines name none.
    _check_engine(header.pop("engine", engine), engine)
    _share(header.pop("same", None), tensors, len(data))
    return header, tensors


@contextmanager
def damage_named() -> Iterator[None]:
    """Say of errors that nobody thought of that a file is damaged."""
    try:
        with np.errstate(all="ignore"):  # what overflows is not finite, and refused
            yield
    except SuppleError:
        raise
    except MemoryError as error:
        raise FormatError("needs more memory than there is") from error
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        # Every field is checked; this is for what nobody thought of.
        raise FormatError(f"is damaged ({type(error).__name__}); {AGAIN}") from error


def _checked_texts(texts: dict[str, str], tensors: Arrays, block: memoryview) -> dict[str, Any]:
    if texts.get("format") != FORMAT:
        raise FormatError("is a safetensors file, but no model of Supple's")
    version = texts.get("version", "")
    if version != str(VERSION):
        known = version.isascii() and version.isdigit() and len(version) < 6
        if known and int(version) > VERSION:
            raise FormatError(f"is of version {version}; upgrade Supple, which reads {VERSION}")
        raise FormatError(f"is of a version that is not read; {AGAIN}")
    text = texts.get("header", "")
    if texts.get("checksum") != _checksum(text, tensors, block):
        raise FormatError(f"has changed since it was written (its checksum differs); {AGAIN}")
    header = checked_json(text, "its header")
    if not isinstance(header, dict):
        raise FormatError(f"its header is damaged; {AGAIN}")
    return header


def _check_engine(named: Any, engine: str) -> None:
    if named != engine:
        raise FormatError(f"is for another engine ({shown(named)}); supple.load_model reads it")


def _share(same: Any, tensors: Arrays, file_size: int) -> None:
    """Give arrays their other names."""
    if not isinstance(same, dict):
        raise FormatError(f"does not say which arrays are the same; {AGAIN}")
    shared: Arrays = {}
    for name, stored in same.items():
        if name in tensors or not isinstance(stored, str) or stored not in tensors:
            raise FormatError(f"its arrays have names that do not fit; {AGAIN}")
        shared[name] = tensors[stored]
    if _bytes(tensors) + _bytes(shared) > MOST_SHARED * file_size:
        raise FormatError(f"uses its arrays too often; {AGAIN}")
    tensors |= shared


def part_sizes(model: ModelFields) -> dict[str, int]:
    """Return bytes of each part of a model's file; arrays that two parts share count once."""
    header, tensors = tensors_of(model)
    kept, _ = _without_repeats(tensors)
    of_surface = _reached(header["rigs"]["parts"], header["rigs"]["roots"]["rig"])
    sizes: dict[str, int] = {}
    for name in kept:
        part = name.split(".")[0].replace("_", " ")
        if part == "rigs":
            part = "rig" if int(name.split(".")[1]) in of_surface else "tet rig"
        if part == "regions":
            part = "bases" if name.endswith((".basis", ".exponents")) else "regions"
        sizes[part] = sizes.get(part, 0) + tensors[name].nbytes
    sizes["header"] = len(packed_model(model)) - sum(sizes.values())
    return dict(sorted(sizes.items(), key=lambda item: -item[1]))


def _reached(entries: list[dict[str, Any]], root: int) -> set[int]:
    """Return numbers of the parts that a part is built on, and its own."""
    found, todo = set(), [root]
    while todo:
        part = todo.pop()
        found.add(part)
        for each in entries[part]["parts"].values():
            todo.extend(each if isinstance(each, list) else [each])
    return found
