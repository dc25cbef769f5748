"""Tables in memory that compiled functions read: packed arguments, and addresses of functions.

At every call Numba unpacks a tuple of arrays array by array, a quarter of a microsecond each: for
the hundred arrays of a step that is a tenth of the step. `ArgumentTable` does it once; a compiled
function receives one address, and `table_contents` returns the tuple.

Compiled code on disk includes all functions that it calls. A function that a program defines, such
as a material, is called by its address in `FUNCTION_TABLE`, so that no kernel is compiled again.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding
import numpy as np
from llvmlite import ir
from numba import typeof
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.extending import NativeValue, intrinsic, models, register_model, typeof_impl, unbox

from supple.compiled.jit import compiled_fused


class ArgumentTableType(types.Type):
    """Numba type of a table, determined by the type of its tuple."""

    def __init__(self, content: Any) -> None:
        self.content = content
        super().__init__(name=f"ArgumentTable({content})")

    @property
    def key(self) -> Any:
        """Type of the tuple."""
        return self.content


class ArgumentTable:
    """Tuple of arrays and numbers, possibly nested, in the memory layout of compiled functions.
    The table holds a reference to the tuple. Compiled code does not count references, so the table
    must outlive the calls that use it.
    """

    def __init__(self, content: tuple) -> None:
        self.content = content
        self._memory = np.zeros(_size(content), np.uint8)
        self.address = int(self._memory.ctypes.data)
        _store(content, self.address)
        self._numba_type_ = ArgumentTableType(typeof(content))

    def __reduce__(self) -> tuple[type[ArgumentTable], tuple[tuple]]:
        # The address is valid in this process only: a copy has another.
        return ArgumentTable, (self.content,)


@typeof_impl.register(ArgumentTable)
def _typeof(value: ArgumentTable, _: Any) -> ArgumentTableType:
    return value._numba_type_


@register_model(ArgumentTableType)
class _ArgumentTableModel(models.OpaqueModel):
    """Data model of a table: an address."""


@unbox(ArgumentTableType)
def _unbox(_: Any, value: Any, c: Any) -> NativeValue:
    number = c.pyapi.object_getattr_string(value, "address")
    address = c.pyapi.long_as_voidptr(number)
    c.pyapi.decref(number)
    return NativeValue(address)


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
        if context.enable_nrt:  # a Numba that always counts references
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


#: Addresses of functions, and integers; callers define the meaning of rows and columns.
FUNCTION_TABLE = np.zeros((64, 8), np.int64)

# Compiled code refers to the table by a symbol, as its address differs between processes.
FUNCTION_SYMBOL = "supple_function_table"
llvmlite.binding.add_symbol(FUNCTION_SYMBOL, FUNCTION_TABLE.ctypes.data)

_WORD = ir.IntType(64)


def _loaded(context: Any, builder: Any, kinds: Any, args: Any) -> Any:
    """Load the table's entry at the row and column that are the first two of `args`."""
    rows, columns = FUNCTION_TABLE.shape
    table = context.get_c_value(
        builder, ir.ArrayType(ir.ArrayType(_WORD, columns), rows), FUNCTION_SYMBOL
    )
    at = [context.cast(builder, args[k], kinds[k], types.int64) for k in range(2)]
    return builder.load(builder.gep(table, [ir.Constant(_WORD, 0), *at]))


def _write_entry(_typing: Any, row: Any, column: Any) -> Any:
    """Return the integer at a row and a column of the table."""

    def load(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _loaded(context, builder, signature.args, args)

    return types.int64(row, column), load


entry: Any = intrinsic(_write_entry)


def _write_call_entry(_typing: Any, row: Any, column: Any, values: Any) -> Any:
    """Call the function whose address is at a row and a column with the values of a tuple. It
    returns a float64. Numbers are passed by value, and contiguous float64 arrays as pointers.
    """
    for kind in values:
        if isinstance(kind, types.Array) and (kind.layout, kind.dtype) != ("C", types.float64):
            raise TypingError(f"functions of the table take contiguous float64 arrays, not {kind}")

    def call(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        passed = [
            context.make_array(kind)(context, builder, value=value).data
            if isinstance(kind, types.Array)
            else value
            for kind, value in zip(
                signature.args[2], cgutils.unpack_tuple(builder, args[2]), strict=True
            )
        ]
        function = ir.FunctionType(ir.DoubleType(), [value.type for value in passed])
        address = _loaded(context, builder, signature.args, args)
        return builder.call(builder.inttoptr(address, function.as_pointer()), passed)

    return types.float64(row, column, values), call


call_entry: Any = intrinsic(_write_call_entry)
