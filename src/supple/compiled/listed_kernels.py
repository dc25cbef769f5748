"""List of compiled functions that Python calls, for compilation ahead of time.

A line of `kernels.txt` has a weight (in 100 kB of machine code), the jobs that need the function,
the function and the types of its arguments. `tests/compiled/record_kernels.py` generates the file.
Lines that are out of date are skipped: functions are also compiled at their first call.

Types are expressions: ``float64``, ``Array(int32, 2, 'C')``, ``Tuple(int64, none)``,
``Named('supple.mesh.x:Pair', float64, float64)``, ``Table(…)``, ``Omitted(None)``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.resources import files
from operator import attrgetter
from typing import Any

import numpy as np
from numba.core import types as numba_types
from numba.np.numpy_support import as_dtype, from_dtype


@dataclass(frozen=True)
class Kernel:
    """Function that Python calls with certain types of arguments."""

    weight: float
    jobs: tuple[str, ...]
    place: str
    arguments: str

    def resolve(self) -> tuple[Any, tuple[Any, ...]] | None:
        """Return the function's dispatcher and its argument types; None if they do not exist."""
        try:
            return thing_at(self.place), tuple(parsed(f"Tuple({self.arguments})"))
        except Exception:  # for instance a class or a function was renamed
            return None


def kernel_line(weight: float, jobs: Iterable[str], place: str, args: tuple[Any, ...]) -> str:
    """Return a line of the list; raise ValueError for types without a text."""
    arguments = ", ".join(map(spelled, args))
    return f"{weight:.2f} {','.join(sorted(jobs))} {place} {arguments}"


@cache
def _all() -> tuple[Kernel, ...]:
    return tuple(_lines(files("supple.compiled").joinpath("kernels.txt").read_text("utf-8")))


def _lines(text: str) -> Iterator[Kernel]:
    for line in text.splitlines():
        if line and not line.startswith("#"):
            weight, names, place, *arguments = line.split(" ", 3)
            yield Kernel(float(weight), tuple(names.split(",")), place, "".join(arguments))


def jobs() -> tuple[str, ...]:
    """Return the names of all jobs."""
    return tuple(sorted({job for kernel in _all() for job in kernel.jobs}))


def kernels_for(job: str | None = None) -> list[Kernel]:
    """Return the kernels of a job, or all for None; the largest weight is first."""
    chosen = [each for each in _all() if job is None or job in each.jobs]
    return sorted(chosen, key=lambda each: -each.weight)


types: Any = numba_types  # its annotations are incomplete


def place_of(thing: Any) -> str:
    """Return module:name of a class or a function; raise ValueError for a local one."""
    place = f"{thing.__module__}:{thing.__qualname__}"
    if "<" in place:
        raise ValueError(f"{place} is local to a function; define it in the module itself")
    return place


def thing_at(place: str) -> Any:
    """Return the class or the function at module:name."""
    module, _, name = place.partition(":")
    return attrgetter(name)(import_module(module))


def spelled(kind: Any) -> str:
    """Return the text of a type; raise ValueError for a type without one."""
    if isinstance(kind, types.Array):
        flags = (", readonly" if not kind.mutable else "") + ("" if kind.aligned else ", unaligned")
        return f"Array({spelled(kind.dtype)}, {kind.ndim}, {kind.layout!r}{flags})"
    if isinstance(kind, types.Record):
        return f"Record({as_dtype(kind).descr!r})"
    if isinstance(kind, types.BaseNamedTuple):
        return f"Named({place_of(kind.instance_class)!r}{_several(kind.types, first=False)})"
    if isinstance(kind, types.UniTuple) and len(kind) > 1:
        return f"Same({len(kind)}, {spelled(kind.dtype)})"
    if isinstance(kind, types.BaseTuple):
        return f"Tuple({_several(kind.types)})"
    if isinstance(kind, types.Omitted) and isinstance(kind.value, bool | int | float | None):
        return f"Omitted({kind.value!r})"
    if hasattr(kind, "content"):
        return f"Table({spelled(kind.content)})"
    if getattr(types, kind.name, None) == kind:
        return str(kind.name)
    raise ValueError(f"the Numba type {kind} cannot be written as text")


def _several(kinds: Any, first: bool = True) -> str:
    text = ", ".join(spelled(each) for each in kinds)
    return text if first or not text else f", {text}"


def parsed(text: str) -> Any:
    """Return the type of a text; raise an exception if it is invalid."""
    return _value(ast.parse(text, mode="eval").body)


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Name):
        return getattr(types, node.id) if node.id not in _FLAGS else node.id
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return _MAKERS[node.func.id](*map(_value, node.args))
    return ast.literal_eval(node)


def _array(dtype: Any, dimensions: int, layout: str, *flags: str) -> Any:
    return types.Array(
        dtype, dimensions, layout, readonly="readonly" in flags, aligned="unaligned" not in flags
    )


def _named(place: str, *fields: Any) -> Any:
    same = len(set(fields)) == 1
    kind = thing_at(place)
    if same:
        return types.NamedUniTuple(fields[0], len(fields), kind)
    return types.NamedTuple(fields, kind)


def _table(content: Any) -> Any:
    from supple.compiled.tables import ArgumentTableType

    return ArgumentTableType(content)


_FLAGS = ("readonly", "unaligned")
_MAKERS: dict[str, Any] = {
    "Array": _array,
    "Record": lambda fields: from_dtype(np.dtype([tuple(each) for each in fields])),
    "Named": _named,
    "Same": lambda count, kind: types.UniTuple(kind, count),
    "Tuple": lambda *kinds: types.Tuple(kinds),
    "Omitted": types.Omitted,
    "Table": _table,
}
