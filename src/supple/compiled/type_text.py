"""Numba's types as text that can be read back, for lists of what is to be compiled.

A text is an expression: ``float64``, ``Array(int32, 2, 'C')``, ``Tuple(int64, none)``,
``Named('supple.mesh.x:Pair', float64, float64)``, ``Table(…)``, ``Omitted(None)``.
"""

from __future__ import annotations

import ast
from importlib import import_module
from operator import attrgetter
from typing import Any

import numpy as np
from numba.core import types as numba_types
from numba.np.numpy_support import as_dtype, from_dtype

types: Any = numba_types  # its annotations do not cover this


def place_of(thing: Any) -> str:
    """Return module:name of a class or a function; ValueError if it is not found there."""
    place = f"{thing.__module__}:{thing.__qualname__}"
    if "<" in place:
        raise ValueError(f"{place} has no place of its own")
    return place


def thing_at(place: str) -> Any:
    """Return the class or the function at module:name."""
    module, _, name = place.partition(":")
    return attrgetter(name)(import_module(module))


def spelled(kind: Any) -> str:
    """Return the text of a type; ValueError for one that has none."""
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
    raise ValueError(f"no text for {kind}")


def _several(kinds: Any, first: bool = True) -> str:
    text = ", ".join(spelled(each) for each in kinds)
    return text if first or not text else f", {text}"


def parsed(text: str) -> Any:
    """Return the type of a text; ValueError or whatever its names raise if it is none."""
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
    from supple.compiled.argument_tables import ArgumentTableType

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
