"""Records for the objects in pickles of body models: arrays, sparse matrices, chumpy.

A record has a state of plain values. `Resolver` converts records to arrays, after checking them
against the bytes of the file.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.errors import FormatError


class Name(Enum):
    """Meaning of a global name in a pickle; none of them is imported."""

    ARRAY = "numpy.ndarray"
    TYPE = "numpy.dtype"
    RECONSTRUCT = "numpy.core.multiarray._reconstruct"
    SCALAR = "numpy.core.multiarray.scalar"
    CSC = "scipy.sparse.csc_matrix"
    CSR = "scipy.sparse.csr_matrix"
    COO = "scipy.sparse.coo_matrix"
    SET = "set"
    OBJECT = "object"
    RECONSTRUCTOR = "copyreg._reconstructor"
    ENCODE = "_codecs.encode"
    CH = "chumpy.ch.Ch"
    SELECT = "chumpy.reordering.Select"


#: Names by module, for Python 2 and 3, and old and new NumPy and SciPy.
NAMES: dict[tuple[str, str], Name] = {
    (module, name): meaning
    for modules, name, meaning in (
        (("numpy",), "ndarray", Name.ARRAY),
        (("numpy",), "dtype", Name.TYPE),
        (("numpy.core.multiarray", "numpy._core.multiarray"), "_reconstruct", Name.RECONSTRUCT),
        (("numpy.core.multiarray", "numpy._core.multiarray"), "scalar", Name.SCALAR),
        (("scipy.sparse.csc", "scipy.sparse._csc"), "csc_matrix", Name.CSC),
        (("scipy.sparse.csr", "scipy.sparse._csr"), "csr_matrix", Name.CSR),
        (("scipy.sparse.coo", "scipy.sparse._coo"), "coo_matrix", Name.COO),
        (("__builtin__", "builtins"), "set", Name.SET),
        (("__builtin__", "builtins"), "object", Name.OBJECT),
        (("copy_reg", "copyreg"), "_reconstructor", Name.RECONSTRUCTOR),
        (("_codecs",), "encode", Name.ENCODE),
        (("chumpy.ch",), "Ch", Name.CH),
        (("chumpy.reordering",), "Select", Name.SELECT),
    )
    for module in modules
}
#: Classes with instances: matrices, and arrays of chumpy.
CLASSES = (Name.CSC, Name.CSR, Name.COO, Name.CH, Name.SELECT)
#: Most axes of an array, and most levels of wrapped arrays.
MOST_AXES, DEEPEST = 8, 8
#: Bytes of arrays in addition to four times the file's size.
SPARE_BYTES = 256 * 2**20


@dataclass(eq=False)
class TypeRecord:
    """Type of an array's numbers."""

    code: str
    """Kind and bytes, such as ``"f8"``."""
    order: str = "<"

    @classmethod
    def of(cls, text: Any) -> TypeRecord:
        """Return the record of a type's name, such as "f8"; FormatError for other kinds."""
        word = text.decode("latin-1") if isinstance(text, bytes) else text
        matched = re.fullmatch(r"([biufSUO])([0-9]{1,4})", word) if isinstance(word, str) else None
        if matched is None:
            shown = word[:20] if isinstance(word, str) and word.isprintable() else "?"
            raise FormatError(f'has an array of type "{shown}", which is not supported')
        if matched[1] in "iuf" and matched[2] not in ("1", "2", "4", "8"):
            raise FormatError(f"has numbers of {matched[2]} bytes, which are not supported")
        return cls(word)

    def build(self, state: Any) -> None:
        """Set the byte order from a state; FormatError for fields and metadata."""
        usable = isinstance(state, tuple) and len(state) >= 5
        if not usable or any(part is not None for part in state[2:5]):
            raise FormatError("has an array of structures, which is not supported")
        order = state[1].decode("latin-1") if isinstance(state[1], bytes) else state[1]
        if order not in ("<", ">", "|", "="):
            raise FormatError("has numbers of an unknown byte order")
        self.order = order

    def dtype(self) -> np.dtype[Any]:
        """Return the NumPy type; FormatError for objects and one-byte floats."""
        if self.code[0] == "O":
            raise FormatError("has an array of objects in place of numbers")
        if self.code == "f1":
            raise FormatError("has floats of one byte, which are not supported")
        return np.dtype(self.order + self.code)


@dataclass(eq=False)
class ArrayRecord:
    """An array or scalar of NumPy: shape, type, order and bytes."""

    shape: tuple[int, ...] = ()
    type: TypeRecord | None = None
    fortran: bool = False
    raw: bytes = b""

    def build(self, state: Any) -> None:
        """Set the state that NumPy writes: (version, shape, type, order, bytes)."""
        if not isinstance(state, tuple) or len(state) not in (4, 5):
            raise FormatError("has an array without a shape")
        shape, kind, fortran, raw = state[-4:]
        if isinstance(kind, TypeRecord) and kind.code[0] == "O":
            raw = b""  # an error only if it is used; most bodies have an unused one
        if not isinstance(kind, TypeRecord) or not isinstance(raw, bytes):
            raise FormatError("has an array without bytes")
        plain = isinstance(shape, tuple) and len(shape) <= MOST_AXES
        if not plain or not all(type(n) is int and 0 <= n < 2**40 for n in shape):
            raise FormatError("has an array without a shape")
        self.shape, self.type, self.fortran, self.raw = shape, kind, bool(fortran), raw

    def array(self) -> NDArray[Any]:
        """Return the array, which shares the file's bytes."""
        if self.type is None:
            raise FormatError("has an array without numbers")
        kind = self.type.dtype()
        if math.prod(self.shape) * kind.itemsize != len(self.raw) or not kind.itemsize:
            raise FormatError(f"has an array of shape {self.shape} but {len(self.raw):,} bytes")
        flat = np.frombuffer(self.raw, kind)
        return flat.reshape(self.shape, order="F" if self.fortran else "C")


class Instance:
    """A sparse matrix or an array of chumpy: its class and fields."""

    def __init__(self, kind: Any) -> None:
        if kind not in CLASSES:
            shown = kind.value if isinstance(kind, Name) else "?"
            raise FormatError(f"has an object ({shown}) that does not belong to a body model")
        self.kind: Name = kind
        self.fields: dict[Any, Any] = {}

    def build(self, state: Any) -> None:
        """Set the fields from a dict, or from a pair of a dict and slots."""
        fields = state[0] if isinstance(state, tuple) and len(state) == 2 else state
        if not isinstance(fields, dict):
            raise FormatError("has an object without fields")
        self.fields = fields


class Resolver:
    """Conversion of records to arrays, within memory proportional to the file's size."""

    def __init__(self, file_bytes: int) -> None:
        self._left = SPARE_BYTES + 4 * file_bytes

    def resolve(self, value: Any, depth: int = 0) -> Any:
        """Return the array, number or text of a value; None for anything else."""
        if depth > DEEPEST:
            raise FormatError("has too many levels of wrapped arrays")
        if isinstance(value, ArrayRecord):
            return value.array()
        if isinstance(value, Instance):
            if value.kind is Name.CH:
                return self._field(value, "x", depth)
            convert = self._selected if value.kind is Name.SELECT else self._dense
            return convert(value, depth)
        if isinstance(value, bytes):
            return value[:1000].decode("latin-1")
        return value if isinstance(value, (str, int, float)) else None

    def _field(self, value: Instance, name: str, depth: int) -> NDArray[Any]:
        array = self.resolve(value.fields.get(name), depth + 1)
        if not isinstance(array, np.ndarray):
            raise FormatError(f'has a {value.kind.value} whose "{name}" is not an array')
        return array

    def _take(self, count: int, item: int = 8) -> None:
        self._left -= count * item
        if self._left < 0:
            raise FormatError("has arrays that need far more memory than the file")

    def _selected(self, value: Instance, depth: int) -> NDArray[Any]:
        """Return the array of a chumpy Select: ravel(a)[idxs], in its preferred shape if any."""
        array, indices = self._field(value, "a", depth), self._field(value, "idxs", depth)
        if indices.dtype.kind not in "iu" or (
            indices.size and (int(indices.min()) < 0 or int(indices.max()) >= array.size)
        ):
            raise FormatError("selects entries of an array that do not exist")
        self._take(indices.size + array.size)
        selected = np.ravel(array)[indices.ravel()]
        shape = value.fields.get("preferred_shape")
        if isinstance(shape, ArrayRecord):
            shape = tuple(shape.array().ravel().tolist())
        if shape is None:
            return selected
        listed = tuple(shape) if isinstance(shape, (tuple, list)) else ()
        valid = len(listed) <= MOST_AXES and all(type(n) is int and n >= 0 for n in listed)
        if not valid or math.prod(listed) != selected.size:
            raise FormatError("selects entries that do not match their shape")
        return selected.reshape(listed)

    def _dense(self, value: Instance, depth: int) -> NDArray[Any]:
        """Return a sparse matrix as a dense one; duplicate entries are summed."""
        shape: Any = value.fields.get("_shape", value.fields.get("shape"))
        is_pair = isinstance(shape, tuple) and len(shape) == 2
        if not is_pair or not all(type(n) is int and 0 < n < 2**31 for n in shape):
            raise FormatError("has a sparse matrix without a shape")
        data = self._field(value, "data", depth).ravel()
        if data.dtype.kind not in "iuf":
            raise FormatError("has a sparse matrix that is not numeric")
        if value.kind is Name.COO:
            both = value.fields.get("coords")  # newer SciPy stores both together
            if isinstance(both, tuple) and len(both) == 2:
                value.fields = value.fields | {"row": both[0], "col": both[1]}
            rows = _integers(self._field(value, "row", depth))
            columns = _integers(self._field(value, "col", depth))
        else:
            inner = _integers(self._field(value, "indices", depth))
            starts = _integers(self._field(value, "indptr", depth))
            lines = shape[1] if value.kind is Name.CSC else shape[0]
            fits = len(starts) == lines + 1 and starts[0] == 0 and starts[-1] == len(inner)
            # Compared, not subtracted: differences of huge numbers wrap around.
            if not fits or (starts[1:] < starts[:-1]).any():
                raise FormatError("has a sparse matrix whose columns do not match its entries")
            outer = np.repeat(np.arange(lines), np.diff(starts))
            rows, columns = (inner, outer) if value.kind is Name.CSC else (outer, inner)
        if not len(rows) == len(columns) == len(data):
            raise FormatError("has a sparse matrix whose indices do not match its entries")
        for listed, count in ((rows, shape[0]), (columns, shape[1])):
            if len(listed) and (int(listed.min()) < 0 or int(listed.max()) >= count):
                raise FormatError("has a sparse matrix with an entry outside of it")
        self._take(shape[0] * shape[1])
        out = np.zeros(shape)
        np.add.at(out, (rows, columns), data)
        return out


def _integers(array: NDArray[Any]) -> NDArray[np.int64]:
    if array.dtype.kind not in "iu":
        raise FormatError("has a sparse matrix whose indices are not integers")
    return array.ravel().astype(np.int64)
