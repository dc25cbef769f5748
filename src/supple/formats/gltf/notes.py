"""Mistakes in a glTF file: those that can be lived with, and those that cannot.

Every message carries the code that the Khronos glTF validator has for the same mistake, so
that it can be looked up.
"""

from __future__ import annotations

from typing import NoReturn

from supple.errors import FormatError, warn


class Notes:
    """Warnings of one file, each kind once."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._first: dict[str, str] = {}
        self._count: dict[str, int] = {}

    def warn(self, code: str, message: str) -> None:
        """Note a mistake that the file can be read with; `message` ends with the consequence."""
        self._first.setdefault(code, message)
        self._count[code] = self._count.get(code, 0) + 1

    def defect(self, message: str) -> None:
        """Note what is wrong with the surface that came out."""
        self._first[message] = f"{message}; continuing"
        self._count[message] = 0

    def fail(self, code: str, message: str) -> NoReturn:
        """Give up on the file."""
        raise FormatError(f"{self.name}: {_one_line(message)} ({code})")

    def messages(self) -> tuple[str, ...]:
        """Return one line for each kind of mistake, with the first and how many more there are."""
        lines = []
        for code, message in self._first.items():
            count = self._count[code]
            more = f" ({code}, and {count - 1} more)" if count > 1 else f" ({code})"
            lines.append(f"{self.name}: {_one_line(message)}{more if count else ''}")
        return tuple(lines)

    def emit(self) -> None:
        """Warn of everything noted."""
        for message in self.messages():
            warn(message)


def quoted(value: object) -> str:
    """Return a value of the file for a message: short, and on one line."""
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _one_line(message: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in message)
