"""Tables of arguments for compiled functions, taken apart once rather than at every call.

Numba takes a tuple of arrays apart array by array, a quarter of a microsecond each: for the hundred
that a step reads as long as a tenth of the step. `ArgumentTable` does it once; a compiled function
gets one address, and `table_contents` there gives the tuple back.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import typeof
from numba.core import types
from numba.extending import NativeValue, intrinsic, models, register_model, typeof_impl, unbox

from supple.compiled.jit import compiled_fused


class ArgumentTableType(types.Type):
    """Numba type of a table: that of its tuple."""

    def __init__(self, content: Any) -> None:
        self.content = content
        super().__init__(name=f"ArgumentTable({content})")

    @property
    def key(self) -> Any:
        """Type of the tuple: tables of one type of tuple are of one type."""
        return self.content


class ArgumentTable:
    """A tuple of arrays and numbers, stored as a compiled function sees it.

    Such a function counts no references: the table must outlive its calls.

    Parameters
    ----------
    content
        The tuple, which may hold tuples. It is kept, and with it all its arrays.
    """

    def __init__(self, content: tuple) -> None:
        self.content = content
        self._memory = np.zeros(_size(content), np.uint8)
        self.address = int(self._memory.ctypes.data)
        _store(content, self.address)
        self._numba_type_ = ArgumentTableType(typeof(content))

    def __reduce__(self) -> tuple[type[ArgumentTable], tuple[tuple]]:
        # The address is that of these arrays, in this process: a copy has its own.
        return ArgumentTable, (self.content,)


@typeof_impl.register(ArgumentTable)
def _typeof(value: ArgumentTable, _: Any) -> ArgumentTableType:
    return value._numba_type_


@register_model(ArgumentTableType)
class _ArgumentTableModel(models.OpaqueModel):
    """Model of a table in compiled code: an address."""


@unbox(ArgumentTableType)
def _unbox(_: Any, value: Any, c: Any) -> NativeValue:
    number = c.pyapi.object_getattr_string(value, "address")
    place = c.pyapi.long_as_voidptr(number)
    c.pyapi.decref(number)
    return NativeValue(place)


def _write_contents(_typing: Any, table: Any) -> Any:
    """Return the tuple of a table, inside a compiled function."""

    def load(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = context.get_value_type(signature.return_type)
        return builder.load(builder.bitcast(args[0], kind.as_pointer()))

    if isinstance(table, ArgumentTableType):
        return table.content(table), load
    return None


table_contents: Any = intrinsic(_write_contents)


def _write_size(_typing: Any, content: Any) -> Any:
    def size(context: Any, _builder: Any, signature: Any, _args: Any) -> Any:
        kind = context.get_value_type(signature.args[0])
        return context.get_constant(types.intp, context.get_abi_sizeof(kind))

    return types.intp(content), size


_bytes_of: Any = intrinsic(_write_size)


def _write_store(_typing: Any, content: Any, address: Any) -> Any:
    def store(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = context.get_value_type(signature.args[0])
        if context.enable_nrt:  # a Numba that always counts: what is stored counts, too
            context.nrt.incref(builder, signature.args[0], args[0])
        builder.store(args[0], builder.inttoptr(args[1], kind.as_pointer()))
        return context.get_dummy_value()

    return types.void(content, types.intp), store


_store_at: Any = intrinsic(_write_store)


@compiled_fused
def _size(content):  # type: ignore[no-untyped-def]
    return _bytes_of(content)


@compiled_fused
def _store(content, address):  # type: ignore[no-untyped-def]
    _store_at(content, address)
