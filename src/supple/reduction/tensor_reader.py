"""Fields of a header and of a set of arrays, taken one by one and checked."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.errors import FormatError

__all__ = ["HeaderReader", "TensorReader"]

Arrays = dict[str, NDArray]
Shape = tuple[int | None, ...]

LONGEST_TEXT = 1000


class TensorReader:
    """Arrays by name, each asked for once; what is left over is an error."""

    def __init__(self, tensors: Arrays) -> None:
        self._left = dict(tensors)

    def has(self, name: str) -> bool:
        """Whether there is such an array."""
        return name in self._left

    def under(self, prefix: str) -> Arrays:
        """All whose names begin with "<prefix>.", without it."""
        start = f"{prefix}."
        names = [name for name in self._left if name.startswith(start)]
        return {name.removeprefix(start): self._left.pop(name) for name in names}

    def floats(self, name: str, shape: Shape | None, *, single: bool = True) -> NDArray:
        """An array of float32, or of float64."""
        return self._taken(name, shape, (np.float32,) if single else (np.float64,))

    def indices(self, name: str, shape: Shape) -> NDArray:
        """An array of whole numbers, in any of the widths that files have."""
        array = self._taken(name, shape, (np.uint8, np.uint16, np.int32))
        return array if array.dtype == np.uint8 and name.endswith("mask") else _wide(array)

    def shorts(self, name: str, shape: Shape) -> NDArray:
        """An array of int16."""
        return self._taken(name, shape, (np.int16,))

    def _taken(self, name: str, shape: Shape | None, types: tuple[type, ...]) -> NDArray:
        if name not in self._left:
            raise FormatError(f'array "{name}" is missing')
        array = self._left.pop(name)
        if array.dtype not in types:
            raise FormatError(f'array "{name}" is {array.dtype}, and should be {types[0].__name__}')
        fits = shape is None or (
            len(shape) == array.ndim
            and all(
                wanted in (None, found) for found, wanted in zip(array.shape, shape, strict=True)
            )
        )
        if not fits:
            wanted = ", ".join("any" if length is None else str(length) for length in shape or ())
            raise FormatError(f'array "{name}" has shape {array.shape}; expected ({wanted})')
        return array

    def finish(self) -> None:
        """Refuse arrays that nobody asked for."""
        if self._left:
            raise FormatError(f'has an array "{min(self._left)[:60]}" that models do not have')


def _wide(array: NDArray) -> NDArray:
    return array.astype(np.int32)


class HeaderReader:
    """Fields of a table, each asked for once; what is left over is an error."""

    def __init__(self, table: Any, what: str) -> None:
        if not isinstance(table, dict):
            raise FormatError(f"{what} is no table")
        self._left, self._what = dict(table), what

    def _taken(self, name: str, type_: type, wanted: str) -> Any:
        if name not in self._left:
            raise FormatError(f'{self._what} has no "{name}"')
        value = self._left.pop(name)
        if not isinstance(value, type_) or isinstance(value, bool):
            raise FormatError(f'{self._what}: "{name}" is no {wanted}')
        return value

    def table(self, name: str) -> dict[str, Any]:
        """A table."""
        return self._taken(name, dict, "table")

    def listed(self, name: str) -> list[Any]:
        """A list."""
        return self._taken(name, list, "list")

    def text(self, name: str) -> str:
        """A short text."""
        return self._short(name, self._taken(name, str, "text"))

    def texts(self, name: str) -> list[str]:
        """A list of short texts."""
        return [self._short(name, text) for text in self.listed(name)]

    def _short(self, name: str, text: Any) -> str:
        if not isinstance(text, str) or len(text) > LONGEST_TEXT:
            raise FormatError(f'{self._what}: "{name}" is no text, or far too long')
        return text

    def whole(self, name: str) -> int:
        """A whole number."""
        return self._taken(name, int, "whole number")

    def number_or_none(self, name: str) -> float | None:
        """A finite number, or null."""
        if name in self._left and self._left[name] is None:
            del self._left[name]
            return None
        value = self._taken(name, (int, float), "number")  # type: ignore[arg-type]
        if not (abs(value) < 1e300 and math.isfinite(value)):
            raise FormatError(f'{self._what}: "{name}" is no finite number')
        return float(value)

    def finish(self) -> None:
        """Refuse fields that nobody asked for."""
        if self._left:
            raise FormatError(f'{self._what} has an unknown field "{min(self._left)[:60]}"')
