"""Parts of stored rigs: the fields they are written as, and a reader that checks them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from supple.arrays import Floats
from supple.errors import SuppleError
from supple.rig.stored.packed_arrays import (
    UnpackingBudget,
    packed_rows,
    packed_weights,
    unpacked_rows,
    unpacked_weights,
)

Arrays = dict[str, NDArray]
Wanted = TypeVar("Wanted")
#: Function that writes another part, unless it is written already, and returns its number.
Store = Callable[[Any], int]

#: No length, angle or weight of a rig comes near this.
LARGEST_NUMBER = 1e15
LONGEST_NAME = 1000


@dataclass(frozen=True)
class Fields:
    """Fields of a part: plain values, numbers of other parts, and arrays."""

    values: dict[str, Any] = field(default_factory=dict)
    parts: dict[str, int | list[int]] = field(default_factory=dict)
    arrays: Arrays = field(default_factory=dict)


@dataclass(frozen=True)
class Kind:
    """Kind of part: a class, the name it has in files, and the functions that write and read it."""

    name: str
    type: type
    store: Callable[[Any, Store], Fields]
    restore: Callable[[PartReader], Any]


class PartReader:
    """A stored part, whose fields are checked as they are asked for.

    Parameters
    ----------
    number
        Its number among the parts.
    entry
        Its kind, values and parts.
    arrays
        Its arrays, without their prefix.
    before
        Parts restored already: those that it may refer to.
    budget
        Limit of numbers that all parts may still unpack.
    """

    def __init__(
        self,
        number: int,
        entry: Any,
        arrays: Mapping[str, NDArray],
        before: Sequence[Any],
        budget: UnpackingBudget,
    ) -> None:
        self._arrays, self._before, self.budget = dict(arrays), before, budget
        shape = {"kind": str, "values": dict, "parts": dict}
        if not isinstance(entry, dict) or set(entry) != set(shape):
            raise SuppleError(f"part {number} of a stored rig has no kind, values and parts")
        for name, type_ in shape.items():
            if not isinstance(entry[name], type_):
                raise SuppleError(f'part {number} of a stored rig: "{name}" is of a wrong type')
        self.kind: str = entry["kind"]
        self._values, self._parts = dict(entry["values"]), dict(entry["parts"])
        self.what = f"part {number} ({self.kind[:40]}) of a stored rig"

    def fail(self, why: str) -> SuppleError:
        """Return an error that names the part."""
        return SuppleError(f"{self.what}: {why}")

    def _take(self, table: dict[str, Any], name: str) -> Any:
        if name not in table:
            raise self.fail(f'"{name}" is missing')
        return table.pop(name)

    def finish(self) -> None:
        """Refuse fields that nobody has asked for."""
        for table in (self._values, self._parts, self._arrays):
            if table:
                raise self.fail(f'unknown field "{min(table)[:40]}"')

    def take_parameters(self, count: int) -> None:
        """Count so many parameters, which are objects and take as much as 32 numbers each."""
        self.budget.take("its parameters", 32 * count)

    def has_array(self, name: str) -> bool:
        """Tell whether there is such an array."""
        return name in self._arrays

    def number(self, name: str) -> float:
        """Read a finite number."""
        value = self._take(self._values, name)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.fail(f'"{name}" is not a number')
        if not abs(value) <= LARGEST_NUMBER:
            raise self.fail(f'"{name}" is not finite, or far too large')
        return float(value)

    def text(self, name: str) -> str:
        """Read a name."""
        return self._name(name, self._take(self._values, name))

    def texts(self, name: str) -> list[str]:
        """Read a list of names."""
        listed = self._take(self._values, name)
        if not isinstance(listed, list):
            raise self.fail(f'"{name}" is not a list')
        return [self._name(name, each) for each in listed]

    def _name(self, what: str, value: Any) -> str:
        if not isinstance(value, str) or len(value) > LONGEST_NAME:
            raise self.fail(f'"{what}" is not a name')
        return value

    def part(self, name: str, type_: type[Wanted]) -> Wanted:
        """Read another part, of this type."""
        return self._earlier(name, self._take(self._parts, name), type_)

    def parts(self, name: str, type_: type[Wanted]) -> list[Wanted]:
        """Read several other parts, of this type."""
        listed = self._take(self._parts, name)
        if not isinstance(listed, list):
            raise self.fail(f'"{name}" is not a list of parts')
        return [self._earlier(name, each, type_) for each in listed]

    def _earlier(self, name: str, number: Any, type_: type[Wanted]) -> Wanted:
        whole = isinstance(number, int) and not isinstance(number, bool)
        if not whole or not 0 <= number < len(self._before):
            raise self.fail(f'"{name}" is no part before it')
        found = self._before[number]
        if not isinstance(found, type_):
            raise self.fail(f'"{name}" is a {type(found).__name__}, not a {type_.__name__}')
        return found

    def floats(
        self, name: str, shape: tuple[int | None, ...], *, single: bool = True
    ) -> NDArray[np.float64]:
        """Read finite numbers of this shape, None standing for any length; float32 if `single`."""
        array = self._shaped(name, shape)
        if array.dtype != (np.float32 if single else np.float64):
            raise self.fail(f'"{name}" is {array.dtype}')
        usable = np.abs(array) <= LARGEST_NUMBER
        if not usable.all():
            raise self.fail(f'"{name}" is not finite everywhere, or far too large')
        return array.astype(np.float64)

    def indices(self, name: str, shape: tuple[int | None, ...]) -> NDArray[np.int64]:
        """Read whole numbers, not negative, of this shape."""
        array = self._shaped(name, shape)
        if array.dtype not in (np.uint8, np.uint16, np.int32):
            raise self.fail(f'"{name}" is {array.dtype}')
        if array.size and array.min() < 0:
            raise self.fail(f'"{name}" has a negative index')
        return array.astype(np.int64)

    def bytes(self, name: str) -> NDArray[np.uint8]:
        """Read a list of bytes."""
        array = self._shaped(name, (None,))
        if array.dtype != np.uint8:
            raise self.fail(f'"{name}" is {array.dtype}')
        return array

    def _shaped(self, name: str, shape: tuple[int | None, ...]) -> NDArray:
        array = self._take(self._arrays, name)
        fits = len(array.shape) == len(shape) and all(
            wanted in (None, found) for found, wanted in zip(array.shape, shape, strict=True)
        )
        if not fits:
            wanted = ", ".join("any" if length is None else str(length) for length in shape)
            raise self.fail(f'"{name}" has shape {array.shape}; expected ({wanted})')
        return array


def rows_of(name: str, values: NDArray) -> Arrays:
    """Return the two arrays of `packed_rows` by the names of fields."""
    return {f"{name}_{field}": array for field, array in packed_rows(values).items()}


def read_rows(part: PartReader, name: str, shape: tuple[int, ...]) -> Floats:
    """Read the array that `rows_of` wrote."""
    rows = part.floats(f"{name}_rows", (None, shape[-1]))
    mask = part.bytes(f"{name}_mask")
    return unpacked_rows(f"{part.what}: {name}", mask, rows, shape, part.budget)


def weights_of(name: str, matrix: sp.csr_array) -> Arrays:
    """Return the three arrays of `packed_weights` by the names of fields."""
    return {f"{name}_{field}": array for field, array in packed_weights(matrix).items()}


def read_weights(part: PartReader, name: str, n_rows: int, n_columns: int) -> sp.csr_array:
    """Read the matrix that `weights_of` wrote."""
    return unpacked_weights(
        f"{part.what}: {name}",
        part.indices(f"{name}_counts", (n_rows,)),
        part.indices(f"{name}_columns", (None,)),
        part.floats(f"{name}_weights", (None,)),
        n_columns,
        part.budget,
    )


def keep_bits(part: PartReader, what: str, own: Floats, stored: Floats) -> None:
    """Put unit vectors back as they were stored: normalising them again moves their last bit."""
    if not np.allclose(own, stored, rtol=0, atol=1e-12):
        raise part.fail(f"{what} is not of unit length, or not at right angles")
    own[...] = stored
