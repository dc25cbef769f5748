"""Writer and reader of stored objects; the reader checks all that it reads.

An object is stored as a JSON table of plain values, the numbers of other parts, and arrays.
Lengths in the shapes of arrays are symbols: the first array that has a symbol sets it, and later
arrays must agree. No array is allocated before its type, its shape and the size that it unpacks to
have been checked.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from supple.errors import FormatError, SuppleError
from supple.rig.stored.packed_arrays import UnpackingBudget

Arrays = dict[str, NDArray]
Values = dict[str, Any]
Part = TypeVar("Part")
#: A length: fixed, a symbol, any (None), or a function of the symbols' values.
Length = int | str | None | Callable[[Mapping[str, int]], int]
Shape = tuple[Length, ...]

LONGEST_TEXT = 1000

#: Types of arrays: float32, float64, non-negative integers in the narrowest type, int32, int16
#: and uint8.
SINGLE, DOUBLE, INDEX, INT32, INT16, BYTES = "single", "double", "index", "int32", "int16", "bytes"
_DTYPES: dict[str, tuple[type, ...]] = {
    SINGLE: (np.float32,),
    DOUBLE: (np.float64,),
    INDEX: (np.uint8, np.uint16, np.int32),
    INT32: (np.int32,),
    INT16: (np.int16,),
    BYTES: (np.uint8,),
}


@dataclass(frozen=True)
class Field(ABC):
    """One declared field, by its name in the file; subclasses define how it is written and read."""

    name: str

    @abstractmethod
    def write(self, owner: Any, writer: FieldWriter) -> None:
        """Write the field of an object."""

    @abstractmethod
    def read(self, reader: FieldReader) -> Values:
        """Read the field; return values by the names of the object's attributes."""


class FieldWriter:
    """Values, part numbers and arrays of a stored object.

    `store` stores another part, unless it is stored already, and returns its number; `joint` is the
    separator in the names of arrays that together hold one field.
    """

    def __init__(self, store: Callable[[Any], int] | None = None, joint: str = ".") -> None:
        self.values: Values = {}
        self.parts: dict[str, int | list[int]] = {}
        self.arrays: Arrays = {}
        self.store, self.joint = store, joint

    def write(self, fields: Iterable[Field], owner: Any) -> FieldWriter:
        """Write declared fields of an object; return the writer."""
        for each in fields:
            try:
                each.write(owner, self)
            except AttributeError as error:
                which = f'a {type(owner).__name__} cannot be stored: its field "{each.name}"'
                raise SuppleError(f"{which} needs an attribute ({error})") from error
        return self

    def add_arrays(self, name: str, arrays: Mapping[str, NDArray]) -> None:
        """Add arrays that together hold one field."""
        self.arrays |= {f"{name}{self.joint}{key}": array for key, array in arrays.items()}


class FieldReader:
    """Values, parts and arrays of a stored object, each checked and removed as it is read.

    `values` is the table of plain values; `arrays` by name are not copied, as readers of inner
    tables remove arrays from the same dict. Error messages begin with `what`, empty for the fields
    of a file. `parts` are numbers of other parts by name, which refer to `before`, the parts that
    have been restored. `budget` limits the numbers that may still be unpacked, by default for each
    array; `largest` is the largest magnitude of a number. `joint` is the separator in the names of
    arrays that hold one field, `prefix` the beginning of all names.
    """

    def __init__(
        self,
        values: Any,
        arrays: Arrays,
        what: str = "",
        *,
        parts: Mapping[str, Any] | None = None,
        before: Sequence[Any] = (),
        budget: UnpackingBudget | None = None,
        largest: float = math.inf,
        joint: str = ".",
        prefix: str = "",
    ) -> None:
        if not isinstance(values, dict):
            raise FormatError(f"{what or 'its header'} is not a table")
        self._values, self._arrays, self._parts = dict(values), arrays, dict(parts or {})
        self._before, self._largest, self._prefix = before, largest, prefix
        self.what, self.budget, self.joint = what, budget, joint
        #: Lengths by symbol, and fields that have been read.
        self.sizes: dict[str, int] = {}
        self.fields: Values = {}

    def fail(self, why: str) -> FormatError:
        """Return an error that begins with the name of the stored object."""
        return FormatError(f"{self.what}: {why}" if self.what else why)

    def title(self, name: str) -> str:
        """Return the name of a field for error messages."""
        return f"{self.what}: {name}" if self.what else name.replace("_", " ")

    def read(self, fields: Iterable[Field]) -> Values:
        """Read declared fields; return them by the names of the object's attributes."""
        for each in fields:
            self.fields |= each.read(self)
        return self.fields

    def inner(self, table: Any, what: str, prefix: str = "") -> FieldReader:
        """Return the reader of an inner table, whose arrays have names with a prefix."""
        return FieldReader(table, self._arrays, what, budget=self.budget, prefix=prefix)

    def finish_values(self) -> None:
        """Refuse values and parts that have not been read."""
        for table in (self._values, self._parts):
            if table:
                raise self.fail(f'unknown field "{min(table)[:60]}"')

    def finish(self) -> None:
        """Refuse values, parts and arrays that have not been read."""
        self.finish_values()
        if self._arrays:
            raise self.fail(f'unknown array "{min(self._arrays)[:60]}"')

    # Plain values

    def has_value(self, name: str) -> bool:
        """Return whether there is a value of this name."""
        return name in self._values

    def _value(self, name: str, types: type | tuple[type, ...], description: str) -> Any:
        if name not in self._values:
            raise self.fail(f'field "{name}" is missing')
        value = self._values.pop(name)
        if not isinstance(value, types) or isinstance(value, bool):
            raise self.fail(f'field "{name}" is not {description}')
        return value

    def _text(self, name: str, text: Any) -> str:
        if not isinstance(text, str) or len(text) > LONGEST_TEXT:
            raise self.fail(f'field "{name}" is not a string, or far too long')
        return text

    def table(self, name: str) -> dict[str, Any]:
        """Read a table."""
        return self._value(name, dict, "a table")

    def sequence(self, name: str) -> list[Any]:
        """Read a list."""
        return self._value(name, list, "a list")

    def text(self, name: str) -> str:
        """Read a short string."""
        return self._text(name, self._value(name, str, "a string"))

    def texts(self, name: str) -> tuple[str, ...]:
        """Read a list of short strings."""
        return tuple(self._text(name, text) for text in self.sequence(name))

    def integer(self, name: str) -> int:
        """Read an integer."""
        return self._value(name, int, "an integer")

    def number(self, name: str) -> float:
        """Read a finite number."""
        value = self._value(name, (int, float), "a number")
        if not (abs(value) <= self._largest and abs(value) < 1e300):
            raise self.fail(f'field "{name}" is not finite, or far too large')
        return float(value)

    def number_or_none(self, name: str) -> float | None:
        """Read a finite number, or null."""
        if name in self._values and self._values[name] is None:
            del self._values[name]
            return None
        return self.number(name)

    def number_or_zero(self, name: str) -> float:
        """Read a finite number, or null for 0."""
        return self.number_or_none(name) or 0.0

    # Other parts

    def part(self, name: str, type_: type[Part]) -> Part:
        """Read the number of another part of this type; return the part."""
        return self._earlier(name, self._part_numbers(name), type_)

    def part_list(self, name: str, type_: type[Part]) -> list[Part]:
        """Read the numbers of several other parts of this type; return the parts."""
        numbers = self._part_numbers(name)
        if not isinstance(numbers, list):
            raise self.fail(f'field "{name}" is not a list of parts')
        return [self._earlier(name, number, type_) for number in numbers]

    def _part_numbers(self, name: str) -> Any:
        if name not in self._parts:
            raise self.fail(f'field "{name}" is missing')
        return self._parts.pop(name)

    def _earlier(self, name: str, number: Any, type_: type[Part]) -> Part:
        if type(number) is not int or not 0 <= number < len(self._before):
            raise self.fail(f'field "{name}" is not an earlier part')
        part = self._before[number]
        if not isinstance(part, type_):
            raise self.fail(f'field "{name}" is a {type(part).__name__}, not a {type_.__name__}')
        return part

    # Arrays

    def has_array(self, name: str) -> bool:
        """Return whether there is an array of this name."""
        return self._prefix + name in self._arrays

    def arrays_under(self, name: str) -> Arrays:
        """Remove all arrays whose names begin with ``name.``; return them without it."""
        start = f"{name}."
        names = [each for each in self._arrays if each.startswith(start)]
        return {each.removeprefix(start): self._arrays.pop(each) for each in names}

    def array(self, name: str, type_: str, shape: Shape | None = None) -> NDArray:
        """Read an array of a type and shape: floats as float64, INDEX and INT32 as int64."""
        if not self.has_array(name):
            raise self.bad_array(name, "is missing")
        array = self._arrays.pop(self._prefix + name)
        types = _DTYPES[type_]
        if array.dtype not in types:
            raise self.bad_array(name, f"is {array.dtype}, and should be {types[0].__name__}")
        if shape is not None:
            self._check_shape(name, array, shape)
        if type_ in (SINGLE, DOUBLE):
            if not np.isfinite(array).all() or np.abs(array).max(initial=0.0) > self._largest:
                raise self.bad_array(name, "is not finite everywhere, or far too large")
            return array.astype(np.float64)
        if type_ == INDEX and array.size and array.min() < 0:
            raise self.bad_array(name, "has a negative index")
        return array.astype(np.int64) if type_ in (INDEX, INT32) else array

    def bad_array(self, name: str, why: str) -> FormatError:
        """Return an error about an array."""
        return self.fail(f'array "{self._prefix}{name}" {why}')

    def _check_shape(self, name: str, array: NDArray, shape: Shape) -> None:
        lengths = [self.length(each) for each in shape]
        fits = len(shape) == array.ndim
        for each, actual in zip(shape, array.shape, strict=False):
            fits = fits and self.length(each) in (None, actual)
            if fits and isinstance(each, str):
                self.sizes[each] = actual
        if not fits:
            expected = ", ".join("any" if length is None else str(length) for length in lengths)
            raise self.bad_array(name, f"has shape {array.shape}; expected ({expected})")

    def length(self, length: Length) -> int | None:
        """Return the value of a length, or None if any length is valid."""
        if isinstance(length, str):
            return self.sizes.get(length)
        return length(self.sizes) if callable(length) else length

    def check_below(self, name: str, indices: NDArray, count: int) -> None:
        """Refuse an index that is negative, or not below a count."""
        if indices.size and not (indices.min() >= 0 and indices.max() < count):
            raise self.bad_array(name, "has an index that is out of range")

    def row_starts(self, name: str, rows: int, columns: NDArray, columns_name: str) -> NDArray:
        """Read where each row begins among `columns`, which must ascend in every row."""
        starts = self.array(name, INDEX, (rows + 1,))
        if starts[0] != 0 or starts[-1] != len(columns) or (np.diff(starts) < 0).any():
            raise self.bad_array(name, "does not match the number of entries of its rows")
        within = np.ones(len(columns), bool)
        within[starts[:-1][starts[:-1] < len(columns)]] = False
        if (np.diff(columns, prepend=-1)[within] <= 0).any():
            raise self.bad_array(columns_name, "has a row that does not ascend")
        return starts

    def budget_of(self, stored_numbers: int) -> UnpackingBudget:
        """Return the limit for unpacking an array of `stored_numbers` float32 in the file."""
        return self.budget or UnpackingBudget(4 * stored_numbers)
