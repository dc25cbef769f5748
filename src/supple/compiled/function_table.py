"""Functions that compiled code calls by address, entered into a table while a program runs.

Compiled loops are kept on disk with everything they call. A function that a program brings along
itself (the material of a user, say) is called through this table instead, so that no loop need be
compiled again for it, and code on disk fits whatever the table holds.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.extending import intrinsic

#: Addresses of functions, and whole numbers; callers decide what rows and columns mean.
FUNCTION_TABLE = np.zeros((64, 8), np.int64)

# Compiled code knows the table by a name: its address differs from process to process.
_SYMBOL = "supple_function_table"
llvmlite.binding.add_symbol(_SYMBOL, FUNCTION_TABLE.ctypes.data)

_WORD = ir.IntType(64)


def _loaded(context: Any, builder: Any, kinds: Any, args: Any) -> Any:
    """Load what the table holds at the row and the column that come first among `args`."""
    rows, columns = FUNCTION_TABLE.shape
    table = context.get_c_value(builder, ir.ArrayType(ir.ArrayType(_WORD, columns), rows), _SYMBOL)
    at = [context.cast(builder, args[k], kinds[k], types.int64) for k in range(2)]
    return builder.load(builder.gep(table, [ir.Constant(_WORD, 0), *at]))


def _write_entry(_typing: Any, row: Any, column: Any) -> Any:
    """Return the whole number that the table holds at a row and a column."""

    def load(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _loaded(context, builder, signature.args, args)

    return types.int64(row, column), load


entry: Any = intrinsic(_write_entry)


def _write_call_entry(_typing: Any, row: Any, column: Any, values: Any) -> Any:
    """Call the function whose address the table holds at a row and a column with a tuple's values.

    It returns a float64. Numbers are passed as they are, and arrays, which are contiguous and of
    float64, as pointers to their first entry.
    """
    for kind in values:
        if isinstance(kind, types.Array) and (kind.layout, kind.dtype) != ("C", types.float64):
            raise TypingError(f"a function of the table takes contiguous float64, not {kind}")

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
