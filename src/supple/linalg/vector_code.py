"""Vector instructions, put together by hand where a compiler's loops fall short.

Numba's compiler unrolls vector loops for long rows; rows of 16 or 24 columns it leaves to scalar
code. `VectorCode` writes the few instructions that such kernels are made of, for any processor:
one with narrower registers takes several for each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types

__all__ = ["LANES", "WORD", "VectorCode", "kernel"]

#: Columns that are worked on together.
LANES = 8

WORD = ir.IntType(64)
_INDEX = ir.IntType(32)
_BITS = {ir.FloatType(): 32, ir.DoubleType(): 64}


class VectorCode:
    """Writes instructions on the arrays that a function was given."""

    def __init__(self, context: Any, builder: Any, kinds: Any, args: Any) -> None:
        self.builder = builder
        self.args = [
            context.make_array(kind)(context, builder, value=arg).data
            if isinstance(kind, types.Array)
            else arg
            for kind, arg in zip(kinds, args, strict=True)
        ]

    def at(self, base: Any, *steps: Any) -> Any:
        """The sum of a base and products (pairs) or whole numbers."""
        for step in steps:
            if isinstance(step, tuple):
                one, other = (ir.Constant(WORD, s) if isinstance(s, int) else s for s in step)
                step = self.builder.mul(one, other)
            elif isinstance(step, int):
                step = ir.Constant(WORD, step)
            base = self.builder.add(base, step)
        return base

    def load(self, data: Any, at: Any, lanes: int = LANES) -> Any:
        """Eight numbers, or so many."""
        place = self._place(data, at, lanes)
        return self.builder.load(place, align=_BITS[data.type.pointee] // 8)

    def store(self, value: Any, data: Any, at: Any) -> None:
        """Eight numbers."""
        self.builder.store(value, self._place(data, at), align=_BITS[data.type.pointee] // 8)

    def _place(self, data: Any, at: Any, lanes: int = LANES) -> Any:
        kind = ir.VectorType(data.type.pointee, lanes)
        return self.builder.bitcast(self.builder.gep(data, [at]), kind.as_pointer())

    def spread(self, data: Any, at: Any) -> Any:
        """One number, eight times."""
        return self.repeated(self.builder.load(self.builder.gep(data, [at])))

    def repeated(self, one: Any, lanes: int = LANES) -> Any:
        """A number that is at hand, eight times, or so many."""
        none = ir.Constant(ir.VectorType(one.type, lanes), ir.Undefined)
        first = self.builder.insert_element(none, one, ir.Constant(_INDEX, 0))
        return self.builder.shuffle_vector(first, none, _order([0] * lanes))

    def multiply_add(self, a: Any, b: Any, c: Any) -> Any:
        """Return a b + c, rounded once where the processor can; a b without c."""
        if c is None:
            return self.builder.fmul(a, b)
        name = f"llvm.fmuladd.v{a.type.count}f{_BITS[a.type.element]}"
        function = cgutils.get_or_insert_function(
            self.builder.module, ir.FunctionType(a.type, [a.type] * 3), name
        )
        return self.builder.call(function, [a, b, c])

    def columns(self, begin: Any, end: Any) -> Any:
        """Loop over eight columns at a time: gives the first of each."""
        return self.count(begin, end, LANES)

    def count(self, begin: Any, end: Any, step: int = 1) -> Any:
        """Loop over whole numbers."""
        return cgutils.for_range_slice(self.builder, begin, end, ir.Constant(WORD, step), WORD)

    def total(self, lanes: Any) -> Any:
        """The sum of eight numbers, always in the same order."""
        for half in (4, 2, 1):
            turned = _order([(i + half) % LANES for i in range(LANES)])
            lanes = self.builder.fadd(lanes, self.builder.shuffle_vector(lanes, lanes, turned))
        return self.builder.extract_element(lanes, ir.Constant(_INDEX, 0))


def _order(places: list[int]) -> ir.Constant:
    return ir.Constant(ir.VectorType(_INDEX, len(places)), places)


def kernel(write: Callable[[VectorCode], None], kinds: tuple[Any, ...]) -> Any:
    """What a Numba intrinsic returns: a signature, and the code of a function that writes it."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        write(VectorCode(context, builder, signature.args, args))
        return context.get_dummy_value()

    return types.void(*kinds), codegen
