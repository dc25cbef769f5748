"""Programs: lists of calls of compiled functions with fixed arguments, which run without Python.

A step that only calls compiled functions, always the same ones and with the same arrays, is such a
list. `memory_image` stores the arguments in the memory layout of a target, and `portable_code`
compiles the functions for it, so that any program can run the list.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numba.core import types
from numba.core.typing.typeof import typeof
from numpy.typing import NDArray

from supple.compiled.jit import compiled_plain
from supple.compiled.tables import ArgumentTable, ArgumentTableType, table_contents
from supple.errors import SuppleError


@dataclass(frozen=True, eq=False)
class KernelCall:
    """Call of a compiled function with arguments that stay the same from run to run.

    Attributes
    ----------
    kernel
        Compiled function. If it returns a number, 0 means success, and others end the program.
    arguments
        Contiguous arrays, numbers, tuples of these, and `ArgumentTable`.
    writes
        Arrays, and tuples of arrays, that the function changes; all others are read only.
    error
        Message if the function returns another number than 0.
    """

    kernel: Any
    arguments: tuple[Any, ...]
    writes: tuple[Any, ...] = ()
    error: str = ""

    @property
    def argument_types(self) -> tuple[Any, ...]:
        """Numba types of the arguments; whether an array is read-only makes no difference."""
        return tuple(portable_type(each) for each in self.arguments)

    @property
    def name(self) -> str:
        """Name that is unique to the function's code and the types of its arguments."""
        thunk = entry_function(self.kernel)
        return str(thunk.files.name((table_type(self.argument_types),), TARGET_FREE))

    def run(self) -> int:
        """Call the function from Python; return 0, or the number of the error."""
        return int(self.kernel(*self.arguments) or 0)


#: Target of names, which are the same for all processors.
TARGET_FREE = ("", "", "")


def portable_type(value: Any) -> Any:
    """Return the Numba type of an argument, with arrays that may be written."""
    return _writable_type(typeof(value))


def table_type(content: tuple[Any, ...]) -> ArgumentTableType:
    """Return the type of a table of arguments of these types."""
    return ArgumentTableType(types.BaseTuple.from_types(content))


def _writable_type(kind: Any) -> Any:
    if isinstance(kind, types.Array):
        return types.Array(kind.dtype, kind.ndim, kind.layout)
    if isinstance(kind, ArgumentTableType):
        return ArgumentTableType(_writable_type(kind.content))
    if isinstance(kind, types.BaseTuple):
        items: Any = kind  # an iterable, which Numba's annotations do not say
        inner = [_writable_type(each) for each in items]
        named = isinstance(kind, types.NamedTuple | types.NamedUniTuple)
        return types.BaseTuple.from_types(inner, items.instance_class if named else None)
    if isinstance(kind, types.IntegerLiteral | types.BooleanLiteral):
        return kind.literal_type
    return kind


@cache
def entry_function(kernel: Any) -> Any:
    """Return the function that calls a kernel with the contents of a table, and returns 0 or the
    number of an error.
    """

    @compiled_plain
    def run(bound):  # type: ignore[no-untyped-def]
        return _status(kernel(*table_contents(bound)))

    return run


@compiled_plain
def _status(value):  # type: ignore[no-untyped-def]
    return 0 if value is None else int(value)


def arrays_of(value: Any) -> list[NDArray[Any]]:
    """Return all arrays of an argument, in their order."""
    if isinstance(value, ArgumentTable):
        return arrays_of(value.content)
    if isinstance(value, tuple):
        return [array for each in value for array in arrays_of(each)]
    return [value] if isinstance(value, np.ndarray) else []


def contiguous(value: Any) -> Any:
    """Return an argument with copies of those arrays that are not contiguous."""
    if isinstance(value, tuple):
        items = [contiguous(each) for each in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    return np.ascontiguousarray(value) if isinstance(value, np.ndarray) else value


#: A list of calls.
Calls = list[KernelCall]


@dataclass(frozen=True, eq=False)
class Number:
    """Number in a table of arguments that a host may change between runs.

    `field` are the names of the fields that lead to it; it stays within `least` and `most`.
    """

    table: ArgumentTable
    field: tuple[str, ...]
    least: float
    most: float


@dataclass(frozen=True, eq=False)
class Program:
    """Lists of calls by name, and what a host sees of their arrays.

    Attributes
    ----------
    engine
        Name of the engine.
    dt
        Seconds of a step.
    sections
        Calls by name; a host runs one or more sections for each of its functions.
    arrays
        Arrays by name, which a host reads and writes between runs.
    numbers
        Numbers in tables, by name.
    texts
        Names and other texts for the host.
    """

    engine: str
    dt: float
    sections: dict[str, Calls]
    arrays: dict[str, NDArray[Any]]
    numbers: dict[str, Number]
    texts: dict[str, str]

    @property
    def calls(self) -> Calls:
        """Calls of all sections."""
        return [call for section in self.sections.values() for call in section]

    def run(self, *names: str) -> None:
        """Run sections from Python; raise SuppleError with the message of a call that fails."""
        for name in names:
            for call in self.sections[name]:
                if call.run() != 0:
                    raise SuppleError(call.error)
