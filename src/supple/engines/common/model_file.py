"""Model files of all engines: safetensors files, written and read by declared fields.

An engine's model class derives from `StoredModel` and declares `schema`; `save` and `load` follow.
Nothing in a file is run. docs/model_file.md lists the contents.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from supple.checks import checked_path, shown
from supple.errors import FormatError, SuppleError
from supple.mesh.surface import SurfaceMesh
from supple.rig.protocol import Rig
from supple.rig.stored.field_reader import INDEX, SINGLE, Field, FieldReader, FieldWriter, Values
from supple.rig.stored.schema import Array, Group, packed_array
from supple.rig.stored_rigs import check_same_rig, restored_rigs, stored_rigs
from supple.saving import write_whole
from supple.tensors import checked_json, packed_tensors, unpacked_tensors

Arrays = dict[str, NDArray]
Header = dict[str, Any]
Model = TypeVar("Model", bound="StoredModel")

MODEL_FORMAT, STVK_FORMAT = "supple model", "supple stvk"
VERSION = 1
LARGEST_FILES = {MODEL_FORMAT: 8 * 2**30, STVK_FORMAT: 16 * 2**30}
#: Total size of all arrays over that of the stored ones, where arrays share their bytes.
MOST_SHARED = 8
AGAIN = "build the model again"


class StoredModel:
    """Model that is saved to and loaded from a file by its declared fields."""

    #: Name of the engine in `supple.engines.ENGINES`.
    engine: ClassVar[str]
    #: Fields that the file holds.
    schema: ClassVar[tuple[Field, ...]]
    #: `MODEL_FORMAT`, or `STVK_FORMAT`, which has arrays and no header of its own.
    file_format: ClassVar[str] = MODEL_FORMAT

    @classmethod
    def from_stored(cls, fields: Values, sizes: Mapping[str, int]) -> Self:
        """Return the model with the fields of a file; refuse fields that contradict each other."""
        return cls(**fields)

    def save(self, path: str | Path) -> None:
        """Write the model to a file, which is complete or absent; equal models give equal bytes."""
        write_whole(checked_path("a model's file", path), packed_model(self))

    @classmethod
    def load(cls, path: str | Path, rig: Rig | None = None) -> Self:
        """Read a model that `save` wrote.

        Parameters
        ----------
        path
            The file. All of it is checked, and nothing in it is run.
        rig
            Rig of the surface, for a model of a black box (`FunctionRig`, or a class of your
            own), which no file can hold. Other files contain their rig, and `rig` must be equal.

        Raises
        ------
        SuppleError
            If the file is cut off, edited or of another version, or a rig is missing.
        """
        path = checked_path("a model's file", path)
        data = _file_bytes(path, LARGEST_FILES[cls.file_format])
        try:
            return unpacked_model(cls, data, rig)
        except SuppleError as error:
            raise FormatError(f"{path.name}: {error}") from error


def _file_bytes(path: Path, largest: int) -> bytes:
    try:
        if not path.is_file():
            what = "is not a file" if path.exists() else f"there is no such file in {path.parent}"
            raise FormatError(f"{path.name}: {what}")
        if path.stat().st_size > largest:
            raise FormatError(f"{path.name}: is far too large for a model")
        return path.read_bytes()
    except MemoryError as error:
        raise FormatError(f"{path.name}: needs more memory than is available") from error
    except (OSError, ValueError) as error:
        raise FormatError(f"{path.name}: cannot be opened ({error})") from error


def stored_fields(model: Any, schema: tuple[Field, ...] | None = None) -> tuple[Header, Arrays]:
    """Return the header and the arrays of a model's declared fields."""
    writer = FieldWriter().write(model.schema if schema is None else schema, model)
    arrays = {name: np.ascontiguousarray(array) for name, array in writer.arrays.items()}
    return writer.values, arrays


def packed_model(model: StoredModel) -> bytes:
    """Return the bytes of a model's file."""
    header, arrays = stored_fields(model)
    if model.file_format == STVK_FORMAT:
        texts = {"format": STVK_FORMAT, "version": str(VERSION)}
        return packed_tensors(arrays, texts | {"checksum": array_checksum(arrays)})
    return sealed(header, arrays, model.engine)


def unpacked_model(cls: type[Model], data: bytes, rig: Rig | None = None) -> Model:
    """Return the model of a class from a file's bytes; refuse incomplete or changed bytes."""
    header: Header = {}
    if cls.file_format == STVK_FORMAT:
        tensors = _unsealed_arrays(data)
    else:
        header, tensors = unsealed(data, cls.engine)
    with _errors_as_damage():
        reader = FieldReader(header, tensors)
        reader.fields["given_rig"] = rig
        fields = reader.read(cls.schema)
        del fields["given_rig"]
        reader.finish()
        return cls.from_stored(fields, reader.sizes)


def sealed(header: Header, tensors: Arrays, engine: str) -> bytes:
    """Return the bytes of an engine's model file, with a checksum over header and arrays."""
    stored, same = _without_repeats(tensors)
    text = json.dumps(
        header | {"engine": engine, "same": same}, sort_keys=True, separators=(",", ":")
    )
    texts = {"format": MODEL_FORMAT, "version": str(VERSION), "header": text}
    # The checksum covers the file without it, which is therefore packed first.
    plain, _, block = unpacked_tensors(packed_tensors(stored, texts))
    return packed_tensors(stored, texts | {"checksum": checksum(text, plain, block)})


def _without_repeats(tensors: Arrays) -> tuple[Arrays, dict[str, str]]:
    """Return the arrays to store, and the stored name of each array that equals a stored one."""
    first: dict[tuple[Any, ...], str] = {}
    same: dict[str, str] = {}
    for name in sorted(tensors):
        array = tensors[name]
        digest = hashlib.blake2b(array.tobytes()).digest()
        equal = first.setdefault((array.dtype.str, array.shape, digest), name)
        if equal != name:
            same[name] = equal
    stored = {name: array for name, array in tensors.items() if name not in same}
    if _bytes(tensors) > MOST_SHARED * _bytes(stored):
        return tensors, {}
    return stored, same


def _bytes(tensors: Mapping[str, NDArray]) -> int:
    return sum(array.nbytes for array in tensors.values())


def checksum(header: str, tensors: Arrays, block: memoryview) -> str:
    """Hash the header, the arrays' names, types and shapes, and their bytes."""
    digest = hashlib.blake2b(digest_size=32)
    digest.update(header.encode("utf-8", "surrogatepass"))
    for name in sorted(tensors):
        digest.update(f"\0{name} {tensors[name].dtype.str} {tensors[name].shape}".encode())
    digest.update(block)
    return digest.hexdigest()


def array_checksum(tensors: Arrays) -> str:
    """Hash each array's name, type, shape and bytes, in the order of names."""
    digest = hashlib.blake2b(digest_size=32)
    for name in sorted(tensors):
        array = np.ascontiguousarray(tensors[name])
        digest.update(f"\0{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def unsealed(data: bytes, engine: str) -> tuple[Header, Arrays]:
    """Return header and arrays of an engine's model file, if it is complete and unchanged."""
    tensors, texts, block = unpacked_tensors(data)
    _check_version(texts, MODEL_FORMAT, "model")
    text = texts.get("header", "")
    _check_sum(texts, checksum(text, tensors, block))
    header = checked_json(text, "its header")
    if not isinstance(header, dict):
        raise FormatError(f"its header is damaged; {AGAIN}")
    # Files that were written before there were several engines name none.
    named = header.pop("engine", engine)
    if named != engine:
        raise FormatError(f"is for another engine ({shown(named)}); supple.load_model reads it")
    return header, tensors | _shared(header.pop("same", None), tensors, len(data))


def _unsealed_arrays(data: bytes) -> Arrays:
    tensors, texts, _ = unpacked_tensors(data)
    _check_version(texts, STVK_FORMAT, "StVK model")
    _check_sum(texts, array_checksum(tensors))
    return tensors


def _check_version(texts: dict[str, str], expected: str, name: str) -> None:
    if texts.get("format") != expected:
        raise FormatError(f"is a safetensors file, but not a {name} of Supple")
    version = texts.get("version", "")
    if version != str(VERSION):
        if version.isascii() and version.isdigit() and len(version) < 6 and int(version) > VERSION:
            raise FormatError(f"is of version {version}; upgrade Supple, which reads {VERSION}")
        raise FormatError(f"is of an unsupported version; {AGAIN}")


def _check_sum(texts: dict[str, str], computed: str) -> None:
    if texts.get("checksum") != computed:
        raise FormatError(f"has changed since it was written (its checksum differs); {AGAIN}")


def _shared(same: Any, tensors: Arrays, file_size: int) -> Arrays:
    """Return arrays by the names of `same`, which maps them to names of stored arrays."""
    if not isinstance(same, dict):
        raise FormatError(f"does not list which arrays are the same; {AGAIN}")
    shared: Arrays = {}
    for name, stored in same.items():
        if name in tensors or not isinstance(stored, str) or stored not in tensors:
            raise FormatError(f"its list of equal arrays is inconsistent; {AGAIN}")
        shared[name] = tensors[stored]
    if _bytes(tensors) + _bytes(shared) > MOST_SHARED * file_size:
        raise FormatError(f"has too many entries that share arrays; {AGAIN}")
    return shared


@contextmanager
def _errors_as_damage() -> Iterator[None]:
    """Convert unforeseen errors to a FormatError about a damaged file."""
    try:
        with np.errstate(all="ignore"):  # checks refuse numbers that overflow
            yield
    except SuppleError:
        raise
    except MemoryError as error:
        raise FormatError("needs more memory than is available") from error
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise FormatError(f"is damaged ({type(error).__name__}); {AGAIN}") from error


def part_sizes(model: StoredModel) -> dict[str, int]:
    """Return the bytes of each part of a model's file; arrays that two parts share count once."""
    header, tensors = stored_fields(model)
    rigs = header["rigs"]
    of_surface = _reached(rigs["parts"], rigs["roots"]["rig"])
    sizes: dict[str, int] = {}
    for name, array in _without_repeats(tensors)[0].items():
        part = name.split(".")[0].replace("_", " ")
        if part == "rigs":
            part = "rig" if int(name.split(".")[1]) in of_surface else "tet rig"
        if part == "regions":
            part = "bases" if name.endswith((".basis", ".exponents")) else "regions"
        sizes[part] = sizes.get(part, 0) + array.nbytes
    sizes["header"] = len(packed_model(model)) - sum(sizes.values())
    return dict(sorted(sizes.items(), key=lambda item: -item[1]))


def _reached(entries: list[dict[str, Any]], root: int) -> set[int]:
    """Return the indices of the part `root` and of all parts that it depends on."""
    reached, todo = set(), [root]
    while todo:
        part = todo.pop()
        reached.add(part)
        for numbers in entries[part]["parts"].values():
            todo.extend(numbers if isinstance(numbers, list) else [numbers])
    return reached


# Fields that models of several engines have

#: Skin at rest, with as many vertices as the rig.
SURFACE = Group(
    "surface",
    SurfaceMesh,
    (Array("surface.vertices", SINGLE, ("skin", 3)), Array("surface.triangles", INDEX, (None, 3))),
)


@dataclass(frozen=True)
class Rigs(Field):
    """Rigs of skin and tets, stored with shared parts; `types` maps attributes to classes."""

    types: Mapping[str, type]

    def write(self, owner: Any, writer: FieldWriter) -> None:
        """Write the rigs."""
        writer.values[self.name], arrays = stored_rigs(
            {name: getattr(owner, name) for name in self.types}
        )
        writer.add_arrays(self.name, arrays)

    def read(self, reader: FieldReader) -> Values:
        """Read the rigs; set the lengths "skin", "parameters", "n", "tets" and "poses"."""
        given = reader.fields["given_rig"]
        rigs = restored_rigs(reader.table(self.name), reader.arrays_under(self.name), given)
        if set(rigs) != set(self.types):
            raise FormatError(f"its rigs are not {', '.join(self.types)}")
        for name, type_ in self.types.items():
            if not isinstance(rigs[name], type_):
                raise FormatError(
                    f'"{name}" is a {type(rigs[name]).__name__}, not a {type_.__name__}'
                )
        rig = rigs["rig"]
        if given is not None:
            check_same_rig(given, rig.parameters, rig.n_vertices)
        reader.sizes |= {"skin": rig.n_vertices, "parameters": len(rig.parameters)}
        if "tet_rig" in rigs:
            reader.sizes["n"] = rigs["tet_rig"].n_vertices
        if "mesh" in rigs:
            reader.sizes["tets"] = len(rigs["mesh"].tets)
        if "pose_weights" in rigs:
            reader.sizes["poses"] = rigs["pose_weights"].n_poses
        return rigs


@dataclass(frozen=True)
class MaterialField(Field):
    """Kind of material and its constants, which are numbers, or arrays of `type` and `shape`.

    `constants` returns kind, Young's modulus, Poisson's ratio and density of a model; `make`
    returns fields of the model from these four.
    """

    constants: Callable[[Any], tuple[str, Any, Any, Any]]
    make: Callable[[str, Any, Any, Any], Values]
    type: str | None = None
    shape: tuple[str, ...] | None = None

    def write(self, owner: Any, writer: FieldWriter) -> None:
        """Write numbers to the header; arrays, where the header has null, as arrays."""
        kind, *constants = self.constants(owner)
        table: Values = {"kind": kind}
        for name, value in zip(("young", "poisson", "density"), constants, strict=True):
            if np.ndim(value) and self.type is None:
                raise SuppleError(f"{name} is an array; this model's file holds one number")
            table[name] = None if np.ndim(value) else float(value)
            if np.ndim(value) and self.type is not None:
                writer.arrays[f"{self.name}.{name}"] = packed_array(value, self.type)
        writer.values[self.name] = table

    def read(self, reader: FieldReader) -> Values:
        """Read kind and constants."""
        table = reader.inner(reader.table(self.name), "its material")
        kind, constants = table.text("kind"), []
        for name in ("young", "poisson", "density"):
            number: Any = table.number_or_none(name)
            if number is None and self.type is None:
                raise table.fail(f'"{name}" is missing')
            if number is None and self.type is not None:
                number = reader.array(f"{self.name}.{name}", self.type, self.shape)
            constants.append(number)
        table.finish_values()
        return self.make(kind, *constants)
