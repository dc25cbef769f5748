"""The numbers in a section of a Gmsh file, text or binary."""

from __future__ import annotations

import numpy as np

from supple.errors import FormatError
from supple.formats.source import as_floats, as_integers, checked_count

__all__: list[str] = []

READ_SECTIONS = (b"Nodes", b"Elements", b"Entities")


class Numbers:
    """A cursor over the numbers of a section, text or binary, never beyond its end."""

    def __init__(
        self, name: str, data: bytes, start: int, end: int, order: str, size_kind: str
    ) -> None:
        self.name, self.data, self.order, self.size_kind = name, data, order, size_kind
        self.at = start
        self.values: np.ndarray | None = None
        if not order:
            self.at = 0
            self.text = data[start:end].decode("latin-1")

    def take(self, kind: str, count: int) -> np.ndarray:
        """The next `count` numbers; `kind` is i4, f8, or size."""
        return self._take_binary(kind, count) if self.order else self._take_text(kind, count)

    def _take_binary(self, kind: str, count: int) -> np.ndarray:
        dtype = np.dtype(self.order + (self.size_kind if kind == "size" else kind))
        if count < 0 or count * dtype.itemsize > len(self.data) - self.at:
            raise self._cut_off(count)
        numbers = np.frombuffer(self.data, dtype, count, self.at)
        self.at += count * dtype.itemsize
        return numbers if kind == "f8" else numbers.astype(np.int64)

    def _take_text(self, kind: str, count: int) -> np.ndarray:
        if self.values is None:
            self.values = as_floats(self.name, self.text.split(), "numbers of a section")
        if count < 0 or count > len(self.values) - self.at:
            raise self._cut_off(count)
        self.at += count
        numbers = self.values[self.at - count : self.at]
        return numbers if kind == "f8" else as_integers(self.name, numbers, "numbers of a section")

    def end_of_section(self, title: bytes, first_mark: int) -> int:
        """Where its end mark is; nothing may stand between the numbers taken and it."""
        end, left = first_mark, self.left()
        if self.order and title in READ_SECTIONS:
            # Binary numbers may look like the mark: it is looked for after them.
            end = self.data.find(b"$End" + title, self.at)
            left = end if end < 0 else len(self.data[self.at : end].strip())
        if left:
            raise FormatError(
                f"{self.name}: its ${title.decode('latin-1')} go on after as many as it declares;"
                f" it is damaged"
            )
        return end

    def left(self) -> int:
        """How many numbers a text section still has, once one has been taken."""
        return 0 if self.values is None else len(self.values) - self.at

    def text_count(self, what: str) -> int:
        """A count that is written as text even in binary files, on a line of its own."""
        if not self.order:
            return int(self.take("i4", 1)[0])
        line_end = self.data.find(b"\n", self.at) + 1
        text = self.data[self.at : line_end].decode("latin-1").strip()
        self.at = line_end
        return checked_count(self.name, text, what, 1, len(self.data))

    def _cut_off(self, count: int) -> FormatError:
        return FormatError(
            f"{self.name}: declares {count} numbers where fewer are left; it is damaged or cut off"
        )
