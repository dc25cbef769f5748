"""Declared fields of stored objects: how each is written to a file and read back.

A tuple of `Field` declares an object: `FieldWriter.write` writes it, `FieldReader.read` reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from supple.arrays import Floats
from supple.errors import FormatError
from supple.rig.stored.field_reader import (
    BYTES,
    DOUBLE,
    INDEX,
    INT32,
    SINGLE,
    Field,
    FieldReader,
    FieldWriter,
    Length,
    Shape,
    Values,
)
from supple.rig.stored.packed_arrays import (
    narrowed,
    packed_rows,
    packed_weights,
    rounded,
    unpacked_rows,
    unpacked_weights,
)

#: Attribute of the stored object, with dots for attributes of attributes, or a function of it.
Source = str | Callable[[Any], Any]
#: Function of an array that has been read, and of the lengths by symbol.
Restore = Callable[[NDArray, Mapping[str, int]], NDArray]

_PACKERS: dict[str, Callable[[Any], NDArray]] = {
    SINGLE: rounded,
    DOUBLE: lambda values: np.ascontiguousarray(values, np.float64),
    INDEX: narrowed,
    INT32: lambda values: np.ascontiguousarray(values, np.int32),
}


def packed_array(values: Any, type_: str) -> NDArray:
    """Return an array in the precision of a type, as files hold it."""
    return _PACKERS[type_](values)


def _value_of(owner: Any, source: Source) -> Any:
    return attrgetter(source)(owner) if isinstance(source, str) else source(owner)


@dataclass(frozen=True)
class Value(Field):
    """Plain value; `kind` names the method of `FieldReader` that reads it."""

    kind: str
    source: Source | None = None
    #: Symbol that the number of texts sets.
    size: str | None = None

    def write(self, owner: Any, writer: FieldWriter) -> None:
        """Write the value; sequences become lists."""
        value = _value_of(owner, self.source or self.name)
        writer.values[self.name] = list(value) if self.kind == "texts" else value

    def read(self, reader: FieldReader) -> Values:
        """Read the value."""
        value = getattr(reader, self.kind)(self.name)
        if self.size:
            reader.sizes[self.size] = len(value)
        return {_attribute(self.source, self.name): value}


def _attribute(source: Source | None, name: str) -> str:
    return (source if isinstance(source, str) else name).rsplit(".", 1)[-1]


@dataclass(frozen=True)
class Array(Field):
    """Array of one type."""

    type: str
    shape: Shape | None
    source: Source | None = None
    #: Length that all integers must be below, and smallest value.
    below: Length = None
    least: float | None = None
    #: Added to integers in the file, where −1 means none.
    shift: int = 0
    #: Whether it may be absent, and its value then.
    optional: bool = False
    default: Any = None
    #: Name of the object's attribute, if `source` is a function.
    attribute: str | None = None
    restore: Restore | None = None

    def write(self, owner: Any, writer: FieldWriter) -> None:
        """Write the array, in the precision of its type."""
        value = _value_of(owner, self.source or self.name)
        if value is not None or not self.optional:
            shifted = np.asarray(value) + self.shift if self.shift else value
            writer.arrays[self.name] = packed_array(shifted, self.type)

    def read(self, reader: FieldReader) -> Values:
        """Read the array."""
        attribute = self.attribute or _attribute(self.source, self.name)
        if self.optional and not reader.has_array(self.name):
            return {attribute: self.default}
        array = reader.array(self.name, self.type, self.shape)
        if self.least is not None and array.size and array.min() < self.least:
            raise reader.bad_array(self.name, f"has a value below {self.least:g}")
        if self.below is not None:
            reader.check_below(self.name, array, (reader.length(self.below) or 0) + self.shift)
        if self.restore is not None:
            array = self.restore(array, reader.sizes)
        return {attribute: array - self.shift if self.shift else array}


@dataclass(frozen=True)
class Group(Field):
    """Fields that make one object: `name` is the attribute, `make` its constructor."""

    make: Callable[..., Any]
    fields: tuple[Field, ...]
    optional: bool = False

    def write(self, owner: Any, writer: FieldWriter) -> None:
        """Write the fields, whose sources begin with the attribute's name."""
        if not self.optional or getattr(owner, self.name) is not None:
            writer.write(self.fields, owner)

    def read(self, reader: FieldReader) -> Values:
        """Read the fields and make the object."""
        if self.optional and not reader.has_array(self.fields[0].name):
            return {self.name: None}
        values: Values = {}
        for each in self.fields:
            values |= each.read(reader)
        return {self.name: self.make(**values)}


@dataclass(frozen=True)
class Size(Field):
    """Integer that is not stored, but follows from the lengths of arrays."""

    length: Length

    def write(self, owner: Any, writer: FieldWriter) -> None:
        """Write nothing."""

    def read(self, reader: FieldReader) -> Values:
        """Return the length."""
        return {self.name: reader.length(self.length)}


@dataclass(frozen=True)
class PackedRows(Field):
    """Array of float32 without its rows of zeros: a bit mask, and the other rows; see `Array`.

    All lengths of `shape` are known when the array is read.
    """

    shape: tuple[Length, ...]
    source: Source | None = None
    attribute: str | None = None
    restore: Restore | None = None
    optional: bool = False

    def write(self, owner: Any, writer: FieldWriter) -> None:
        """Write the mask and the rows."""
        value = _value_of(owner, self.source or self.name)
        if value is not None or not self.optional:
            writer.add_arrays(self.name, packed_rows(value))

    def read(self, reader: FieldReader) -> Values:
        """Read the whole array; the reader's budget limits its size."""
        attribute = self.attribute or _attribute(self.source, self.name)
        rows_name, mask_name = (f"{self.name}{reader.joint}{each}" for each in ("rows", "mask"))
        if self.optional and not reader.has_array(rows_name):
            return {attribute: None}
        shape = tuple(reader.length(each) or 0 for each in self.shape)
        rows = reader.array(rows_name, SINGLE, (None, shape[-1]))
        mask, budget = reader.array(mask_name, BYTES, (None,)), reader.budget_of(rows.size)
        array = unpacked_rows(reader.title(self.name), mask, rows, shape, budget)
        return {attribute: array if self.restore is None else self.restore(array, reader.sizes)}


@dataclass(frozen=True)
class Weights(Field):
    """Sparse matrix whose rows are not negative and add up to 1; see `packed_weights`."""

    rows: Length
    columns: Length
    source: Source
    optional: bool = False

    def write(self, owner: Any, writer: FieldWriter) -> None:
        """Write counts, columns and all weights but the heaviest of each row."""
        matrix = _value_of(owner, self.source)
        if matrix is not None or not self.optional:
            writer.add_arrays(self.name, packed_weights(matrix))

    def read(self, reader: FieldReader) -> Values:
        """Read the matrix."""
        counts, columns, weights = (
            f"{self.name}{reader.joint}{each}" for each in ("counts", "columns", "weights")
        )
        if self.optional and not reader.has_array(counts):
            return {self.name: None}
        arrays = (
            reader.array(counts, INDEX, (self.rows,)),
            reader.array(columns, INDEX, (None,)),
            reader.array(weights, SINGLE, (None,)),
        )
        n_columns, budget = reader.length(self.columns) or 0, reader.budget_of(len(arrays[2]))
        what = reader.title(self.name)
        return {self.name: unpacked_weights(what, *arrays, n_columns, budget)}


@dataclass(frozen=True)
class PartOf(Field):
    """Another stored part, of class `type`, that the object uses; with `many`, a list of parts.

    `sizes` is a function of the part that returns lengths by symbol.
    """

    type: type
    sizes: Callable[[Any], Mapping[str, int]] | None = None
    source: Source | None = None
    many: bool = False

    def write(self, owner: Any, writer: FieldWriter) -> None:
        """Store the part, unless it is stored, and write its number."""
        assert writer.store is not None
        part = _value_of(owner, self.source or self.name)
        writer.parts[self.name] = (
            [writer.store(each) for each in part] if self.many else writer.store(part)
        )

    def read(self, reader: FieldReader) -> Values:
        """Return the restored part."""
        read: Callable[..., Any] = reader.part_list if self.many else reader.part
        part = read(self.name, self.type)
        if self.sizes is not None:
            reader.sizes |= self.sizes(part)
        return {self.name: part}


#: Cost of a parameter, which is a Python object, as a count of numbers.
PARAMETER_COST = 32


@dataclass(frozen=True)
class Cost(Field):
    """Numbers that the object allocates in addition to its arrays, counted against the budget."""

    numbers: Callable[[Mapping[str, int]], int]

    def write(self, owner: Any, writer: FieldWriter) -> None:
        """Write nothing."""

    def read(self, reader: FieldReader) -> Values:
        """Refuse the object if it exceeds the budget."""
        if reader.budget is not None:
            reader.budget.take(self.name, self.numbers(reader.sizes))
        return {}


def vertex_count(rig: Any) -> dict[str, int]:
    """Return the number of a rig's vertices as the length "n"."""
    return {"n": rig.n_vertices}


def keep_bits(what: str, vectors: Floats, stored: Floats) -> None:
    """Replace unit vectors by stored vectors: normalising them again moves their last bit."""
    if not np.allclose(vectors, stored, rtol=0, atol=1e-12):
        raise FormatError(f"{what} is not of unit length, or not at right angles")
    vectors[...] = stored


def rounded_rows(matrix: sp.csr_array) -> sp.csr_array:
    """Return a sparse matrix as if stored and read again: sorted, and rounded to float32."""
    rows = sp.csr_array(matrix)
    rows.sum_duplicates()
    rows.eliminate_zeros()
    return sp.csr_array((rounded(rows.data).astype(float), rows.indices, rows.indptr), rows.shape)


@dataclass(frozen=True)
class SparseRows(Field):
    """Sparse matrix of float32, as `rounded_rows` returns it."""

    shape: tuple[str, str]
    source: Source

    def write(self, owner: Any, writer: FieldWriter) -> None:
        """Write starts of rows, columns and values."""
        rows = _value_of(owner, self.source)
        arrays = {"starts": narrowed(rows.indptr), "columns": narrowed(rows.indices)}
        writer.add_arrays(self.name, arrays | {"values": rounded(rows.data)})

    def read(self, reader: FieldReader) -> Values:
        """Read the matrix; columns ascend in every row."""
        shape = tuple(reader.sizes[each] for each in self.shape)
        columns = reader.array(f"{self.name}.columns", INDEX, (None,))
        values = reader.array(f"{self.name}.values", SINGLE, (len(columns),))
        reader.check_below(f"{self.name}.columns", columns, shape[1])
        starts = reader.row_starts(f"{self.name}.starts", shape[0], columns, f"{self.name}.columns")
        return {self.name: sp.csr_array((values, columns, starts), shape)}
