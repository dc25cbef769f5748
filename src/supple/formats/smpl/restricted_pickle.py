"""Reader of pickles of body models that executes nothing.

A pickle is a program for a stack machine; Python's own reader imports and calls the functions it
names. This reader has its own machine, with numbers, text, lists, dicts and the few names of
`pickled_records`, which become plain records and are never imported. Anything else is an error.

Sizes are compared with the bytes of the file before anything is allocated, so that memory stays
within a few times the file's size. No step recurses into nested values; only short dict keys are
hashed.
"""

from __future__ import annotations

import codecs
import struct
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from supple.errors import FormatError
from supple.formats.smpl.pickled_records import (
    NAMES,
    ArrayRecord,
    Instance,
    Name,
    Resolver,
    TypeRecord,
)

#: Most steps of the machine; body models have a few thousand.
MOST_STEPS = 2_000_000
#: Most digits of a number in text, and most bytes of one in binary.
LONGEST_NUMBER, LONGEST_BINARY = 64, 16
#: Most characters of a key.
LONGEST_KEY = 1000


class _Refusal(Exception):
    """A pickle has unsupported content; the text describes it."""


#: Errors of steps on damaged data.
_DAMAGE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, struct.error)
#: Start of a list of values on the stack.
_MARK = object()


def read_pickle(data: bytes, name: str, fields: Iterable[str]) -> dict[str, Any]:
    """Return fields of a pickled dict: arrays, numbers, text; None for other values.

    `name` is the file's name, for messages. Raises FormatError for anything but a dict of arrays:
    names that no body model has, objects, arrays of objects, damaged or truncated data.
    """
    try:
        content = _Machine(data).run()
        if not isinstance(content, dict):
            raise _Refusal("does not hold a dict of arrays")
        resolver = Resolver(len(data))
        return {key: resolver.resolve(content[key]) for key in fields if key in content}
    except (_Refusal, FormatError) as error:
        raise FormatError(f"{name}: {error}; a body model is a dict of arrays") from None
    except MemoryError:
        raise FormatError(f"{name}: needs more memory than is available") from None
    except _DAMAGE as error:
        why = f"{type(error).__name__}: {error}"[:120]
        raise FormatError(f"{name}: is damaged and cannot be read ({why})") from None


@dataclass
class _Machine:
    """Stack machine of a pickle, and the file that it reads."""

    data: bytes
    at: int = 0
    stack: list[Any] = field(default_factory=list)
    memo: dict[int, Any] = field(default_factory=dict)
    encoded: int = 0
    """Characters of text encoded so far."""

    def run(self) -> Any:
        """Execute the steps up to the end mark, and return the result."""
        for _ in range(MOST_STEPS):
            code = self.take(1)
            if code == b".":
                return self.pop()
            step = _STEPS.get(code)
            if step is None:
                raise _Refusal(f"byte {self.at - 1} is an unsupported step (0x{code.hex()})")
            step(self)
        raise _Refusal(f"has more than {MOST_STEPS:,} steps")

    def take(self, count: int) -> bytes:
        """Return the next `count` bytes."""
        end = self.at + count
        if count < 0 or end > len(self.data):
            raise _Refusal(f"is cut off: {count:,} bytes are missing at byte {self.at:,}")
        data = self.data[self.at : end]
        self.at = end
        return data

    def line(self, most: int = LONGEST_KEY) -> bytes:
        """Return the next line, of at most `most` bytes, without its end."""
        end = self.data.find(b"\n", self.at, self.at + most + 1)
        if end < 0:
            raise _Refusal(f"a line at byte {self.at:,} does not end")
        text = self.data[self.at : end]
        self.at = end + 1
        return text

    def number(self, layout: str) -> Any:
        """Return the next number, in a format of `struct`."""
        return struct.unpack(layout, self.take(struct.calcsize(layout)))[0]

    def push(self, value: Any) -> None:
        """Push a value."""
        self.stack.append(value)

    def pop(self) -> Any:
        """Pop a value."""
        if not self.stack or self.stack[-1] is _MARK:
            raise _Refusal(f"takes a value from an empty stack at byte {self.at:,}")
        return self.stack.pop()

    def popped(self, count: int) -> list[Any]:
        """Pop `count` values; return them in the order in which they were pushed."""
        return [self.pop() for _ in range(count)][::-1]

    def top(self, kind: type | tuple[type, ...]) -> Any:
        """Return the top of the stack, which must be of type `kind`."""
        if not self.stack or not isinstance(self.stack[-1], kind):
            raise _Refusal(f"has a value of the wrong kind at byte {self.at:,}")
        return self.stack[-1]

    def marked(self) -> list[Any]:
        """Pop the values above the last mark, and the mark; return the values."""
        for place in range(len(self.stack) - 1, -1, -1):
            if self.stack[place] is _MARK:
                values = self.stack[place + 1 :]
                del self.stack[place:]
                return values
        raise _Refusal(f"has no mark at byte {self.at:,}")


Step = Callable[[_Machine], object]


def _push(read: Callable[[_Machine], Any]) -> Step:
    """Return the step that pushes the result of `read`."""
    return lambda machine: machine.push(read(machine))


def _number(layout: str) -> Callable[[_Machine], Any]:
    return lambda machine: machine.number(layout)


def _bytes(layout: str) -> Callable[[_Machine], bytes]:
    """Return a reader of a length, in a format of `struct`, and of as many bytes."""
    return lambda machine: machine.take(machine.number(layout))


def _text(layout: str) -> Callable[[_Machine], str]:
    return lambda machine: machine.take(machine.number(layout)).decode("utf-8")


def _long(layout: str) -> Callable[[_Machine], int]:
    def read(machine: _Machine) -> int:
        count = machine.number(layout)
        if not 0 <= count <= LONGEST_BINARY:
            raise _Refusal(f"has a number of {count:,} bytes")
        return int.from_bytes(machine.take(count), "little", signed=True)

    return read


def _int_line(machine: _Machine) -> int:
    word = machine.line(LONGEST_NUMBER)
    return word == b"01" if word in (b"00", b"01") else int(word)


def _string_line(machine: _Machine) -> Any:
    """Read a quoted string of Python 2; old files store arrays as strings."""
    word = machine.line(len(machine.data))
    if len(word) < 2 or word[:1] != word[-1:] or word[:1] not in (b"'", b'"'):
        raise _Refusal(f"a string before byte {machine.at:,} has no quotes")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # unknown escapes stay as they are
        return codecs.escape_decode(word[1:-1])[0]


def _name_line(machine: _Machine) -> Name:
    module, name = machine.line(), machine.line()
    return _named(module.decode("utf-8"), name.decode("utf-8"))


def _named(module: Any, name: Any) -> Name:
    """Return the meaning of a global name; only names of body models are allowed."""
    is_text = isinstance(module, str) and isinstance(name, str)
    meaning = NAMES.get((module, name)) if is_text else None
    if meaning is None:
        shown = f"{module}.{name}" if is_text else "something that is not a name"
        shown = "".join(c if c.isprintable() else "?" for c in shown)[:80]
        raise _Refusal(f"names {shown}, which is not allowed (nothing was executed)")
    return meaning


def _made(machine: _Machine) -> Any:
    """Return the record of a name applied to arguments; nothing is called."""
    what, arguments = machine.popped(2)
    if not isinstance(arguments, tuple) or not isinstance(what, Name):
        raise _Refusal(f"calls something that is not a name at byte {machine.at:,}")
    if what is Name.RECONSTRUCT:
        return ArrayRecord()
    if what is Name.SET:
        return None  # part of chumpy's state, not needed
    if what is Name.RECONSTRUCTOR and len(arguments) == 3 and arguments[1] is Name.OBJECT:
        return Instance(arguments[0])
    if what is Name.TYPE and arguments:
        return TypeRecord.of(arguments[0])
    if what is Name.SCALAR and len(arguments) == 2:
        number = ArrayRecord()
        number.build(((), arguments[0], False, arguments[1]))
        return number
    if what is Name.ENCODE and len(arguments) == 2 and arguments[1] in ("latin1", "latin-1"):
        return _encoded(machine, arguments[0])
    raise _Refusal(f"calls {what.value} with unexpected arguments")


def _encoded(machine: _Machine, text: Any) -> bytes:
    if not isinstance(text, str):
        raise _Refusal("encodes something that is not text")
    machine.encoded += len(text)
    if machine.encoded > len(machine.data):
        raise _Refusal("encodes more text than it has")
    return text.encode("latin-1")


def _instance(machine: _Machine) -> Instance:
    what, arguments = machine.popped(2)
    if not isinstance(arguments, tuple) or len(arguments):
        raise _Refusal(f"creates an object with arguments at byte {machine.at:,}")
    return Instance(what)


def _build(machine: _Machine) -> None:
    """Pop a state, and set it in the record below it on the stack."""
    state = machine.pop()
    machine.top((ArrayRecord, TypeRecord, Instance)).build(state)


def _with_items(machine: _Machine, pairs: list[Any], into: dict[Any, Any]) -> dict[Any, Any]:
    """Enter keys and values, which alternate in `pairs`, into a dict; return the dict."""
    if len(pairs) % 2:
        raise _Refusal(f"has a key without a value at byte {machine.at:,}")
    for key, value in zip(pairs[::2], pairs[1::2], strict=True):
        if isinstance(key, bytes) and len(key) <= LONGEST_KEY:
            into[key.decode("latin-1")] = value
        elif isinstance(key, (str, int)) and len(str(key)[: LONGEST_KEY + 1]) <= LONGEST_KEY:
            into[key] = value
        else:
            raise _Refusal(f"has a key at byte {machine.at:,} that is not a short text or number")
    return into


def _extend(machine: _Machine, values: list[Any]) -> None:
    machine.top(list).extend(values)


def _stored(read: Callable[[_Machine], int]) -> Callable[[_Machine], Any]:
    def value(machine: _Machine) -> Any:
        place = read(machine)
        if place not in machine.memo:
            raise _Refusal(f"refers to a value at byte {machine.at:,} that was not stored")
        return machine.memo[place]

    return value


def _store(read: Callable[[_Machine], int]) -> Step:
    def step(machine: _Machine) -> None:
        machine.memo[read(machine)] = machine.top(object)

    return step


def _line_number(machine: _Machine) -> int:
    return int(machine.line(LONGEST_NUMBER))


def _protocol(machine: _Machine) -> None:
    version = machine.number("<B")
    if version > 5:
        raise _Refusal(f"has pickle protocol {version}, which is not supported")


def _marked_set(machine: _Machine) -> None:
    machine.marked()
    machine.top(type(None))


_STEPS: dict[bytes, Step] = {
    b"(": _push(lambda machine: _MARK),
    b"0": lambda machine: machine.stack.pop(),
    b"1": lambda machine: machine.marked(),
    b"2": _push(lambda machine: machine.top(object)),
    b"F": _push(lambda machine: float(machine.line(LONGEST_NUMBER))),
    b"G": _push(_number(">d")),
    b"I": _push(_int_line),
    b"J": _push(_number("<i")),
    b"K": _push(_number("<B")),
    b"M": _push(_number("<H")),
    b"L": _push(lambda machine: int(machine.line(LONGEST_NUMBER).rstrip(b"L"))),
    b"\x8a": _push(_long("<B")),
    b"\x8b": _push(_long("<i")),
    b"N": _push(lambda machine: None),
    b"\x88": _push(lambda machine: True),
    b"\x89": _push(lambda machine: False),
    b"S": _push(_string_line),
    b"T": _push(_bytes("<i")),
    b"U": _push(_bytes("<B")),
    b"B": _push(_bytes("<I")),
    b"C": _push(_bytes("<B")),
    b"\x8e": _push(_bytes("<Q")),
    b"V": _push(lambda machine: machine.line(len(machine.data)).decode("raw-unicode-escape")),
    b"X": _push(_text("<I")),
    b"\x8c": _push(_text("<B")),
    b"\x8d": _push(_text("<Q")),
    b"}": _push(lambda machine: {}),
    b"d": _push(lambda machine: _with_items(machine, machine.marked(), {})),
    b"s": lambda machine: _with_items(machine, machine.popped(2), machine.top(dict)),
    b"u": lambda machine: _with_items(machine, machine.marked(), machine.top(dict)),
    b"]": _push(lambda machine: []),
    b"l": _push(lambda machine: machine.marked()),
    b"a": lambda machine: _extend(machine, machine.popped(1)),
    b"e": lambda machine: _extend(machine, machine.marked()),
    b")": _push(lambda machine: ()),
    b"t": _push(lambda machine: tuple(machine.marked())),
    b"\x85": _push(lambda machine: tuple(machine.popped(1))),
    b"\x86": _push(lambda machine: tuple(machine.popped(2))),
    b"\x87": _push(lambda machine: tuple(machine.popped(3))),
    b"\x8f": _push(lambda machine: None),  # sets are not needed
    b"\x90": _marked_set,
    b"g": _push(_stored(_line_number)),
    b"h": _push(_stored(_number("<B"))),
    b"j": _push(_stored(_number("<I"))),
    b"p": _store(_line_number),
    b"q": _store(_number("<B")),
    b"r": _store(_number("<I")),
    b"\x94": _store(lambda machine: len(machine.memo)),
    b"c": _push(_name_line),
    b"\x93": _push(lambda machine: _named(*machine.popped(2))),
    b"R": _push(_made),
    b"\x81": _push(_instance),
    b"b": _build,
    b"\x80": _protocol,
    b"\x95": _number("<Q"),  # length of a frame: all bytes are in memory
}
