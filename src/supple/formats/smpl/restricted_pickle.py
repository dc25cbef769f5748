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


class _Mark:
    """Start of a list of values on the stack."""


_MARK = _Mark()


def read_pickle(data: bytes, name: str, fields: Iterable[str]) -> dict[str, Any]:
    """Return fields of a pickled dict: arrays, numbers, text; None for other values.

    `name` is the file's, for messages. Raises FormatError for anything but a dict of arrays: names
    that no body model has, objects, arrays of objects, damaged or truncated data.
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
        raise FormatError(f"{name}: needs more memory than there is") from None
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        TypeError,
        ValueError,
        struct.error,
    ) as error:
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
    """Bytes of encoded text."""

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
        """Return the next bytes."""
        end = self.at + count
        if count < 0 or end > len(self.data):
            raise _Refusal(f"is cut off: {count:,} bytes are missing at byte {self.at:,}")
        data = self.data[self.at : end]
        self.at = end
        return data

    def line(self, most: int = LONGEST_KEY) -> bytes:
        """Return the next line, without its end."""
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

    def top(self, kind: type | tuple[type, ...]) -> Any:
        """Return the top of the stack, which must be of a kind."""
        if not self.stack or not isinstance(self.stack[-1], kind):
            raise _Refusal(f"has a value of the wrong kind at byte {self.at:,}")
        return self.stack[-1]

    def marked(self) -> list[Any]:
        """Pop the values above the last mark, and the mark."""
        for place in range(len(self.stack) - 1, -1, -1):
            if self.stack[place] is _MARK:
                values = self.stack[place + 1 :]
                del self.stack[place:]
                return values
        raise _Refusal(f"has no mark at byte {self.at:,}")


def _constant(value: Any) -> Callable[[_Machine], None]:
    return lambda machine: machine.push(value)


def _binary(layout: str) -> Callable[[_Machine], None]:
    return lambda machine: machine.push(machine.number(layout))


def _text(layout: str) -> Callable[[_Machine], None]:
    return lambda machine: machine.push(machine.take(machine.number(layout)).decode("utf-8"))


def _bytes(layout: str) -> Callable[[_Machine], None]:
    return lambda machine: machine.push(machine.take(machine.number(layout)))


def _long(layout: str) -> Callable[[_Machine], None]:
    def step(machine: _Machine) -> None:
        count = machine.number(layout)
        if not 0 <= count <= LONGEST_BINARY:
            raise _Refusal(f"has a number of {count:,} bytes")
        machine.push(int.from_bytes(machine.take(count), "little", signed=True))

    return step


def _int_line(machine: _Machine) -> None:
    word = machine.line(LONGEST_NUMBER)
    machine.push(word == b"01" if word in (b"00", b"01") else int(word))


def _long_line(machine: _Machine) -> None:
    machine.push(int(machine.line(LONGEST_NUMBER).rstrip(b"L")))


def _float_line(machine: _Machine) -> None:
    machine.push(float(machine.line(LONGEST_NUMBER)))


def _string_line(machine: _Machine) -> None:
    """Read a quoted string of Python 2; old files store arrays as strings."""
    word = machine.line(len(machine.data))
    if len(word) < 2 or word[:1] != word[-1:] or word[:1] not in (b"'", b'"'):
        raise _Refusal(f"a string before byte {machine.at:,} has no quotes")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # unknown escapes stay as they are
        machine.push(codecs.escape_decode(word[1:-1])[0])


def _unicode_line(machine: _Machine) -> None:
    machine.push(machine.line(len(machine.data)).decode("raw-unicode-escape"))


def _name_line(machine: _Machine) -> None:
    module, name = machine.line(), machine.line()
    machine.push(_named(module.decode("utf-8"), name.decode("utf-8")))


def _stacked_name(machine: _Machine) -> None:
    name, module = machine.pop(), machine.pop()
    machine.push(_named(module, name))


def _named(module: Any, name: Any) -> Name:
    """Return the meaning of a global name; only those of body models are allowed."""
    is_text = isinstance(module, str) and isinstance(name, str)
    meaning = NAMES.get((module, name)) if is_text else None
    if meaning is None:
        shown = f"{module}.{name}" if is_text else "something that is not a name"
        shown = "".join(c if c.isprintable() else "?" for c in shown)[:80]
        raise _Refusal(f"names {shown}, which is not allowed (nothing was executed)")
    return meaning


def _make(machine: _Machine) -> None:
    """Apply a name to arguments: a record is created, nothing is called."""
    arguments, what = machine.pop(), machine.pop()
    if not isinstance(arguments, tuple) or not isinstance(what, Name):
        raise _Refusal(f"calls something that is not a name at byte {machine.at:,}")
    machine.push(_made(machine, what, arguments))


def _made(machine: _Machine, what: Name, arguments: tuple[Any, ...]) -> Any:
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


def _instance(machine: _Machine) -> None:
    arguments, what = machine.pop(), machine.pop()
    if not isinstance(arguments, tuple) or len(arguments):
        raise _Refusal(f"creates an object with arguments at byte {machine.at:,}")
    machine.push(Instance(what))


def _build(machine: _Machine) -> None:
    """Set the state of a record."""
    state = machine.pop()
    record = machine.top((ArrayRecord, TypeRecord, Instance))
    record.build(state)


def _keyed(machine: _Machine, pairs: list[Any], into: dict[Any, Any]) -> None:
    if len(pairs) % 2:
        raise _Refusal(f"has a key without a value at byte {machine.at:,}")
    for key, value in zip(pairs[::2], pairs[1::2], strict=True):
        if isinstance(key, bytes) and len(key) <= LONGEST_KEY:
            into[key.decode("latin-1")] = value
        elif isinstance(key, (str, int)) and len(str(key)[: LONGEST_KEY + 1]) <= LONGEST_KEY:
            into[key] = value
        else:
            raise _Refusal(f"has a key at byte {machine.at:,} that is not a name")


def _set_item(machine: _Machine) -> None:
    value, key = machine.pop(), machine.pop()
    _keyed(machine, [key, value], machine.top(dict))


def _set_items(machine: _Machine) -> None:
    pairs = machine.marked()
    _keyed(machine, pairs, machine.top(dict))


def _marked_dict(machine: _Machine) -> None:
    items: dict[Any, Any] = {}
    _keyed(machine, machine.marked(), items)
    machine.push(items)


def _append(machine: _Machine) -> None:
    value = machine.pop()
    machine.top(list).append(value)


def _appends(machine: _Machine) -> None:
    values = machine.marked()
    machine.top(list).extend(values)


def _tuple(count: int) -> Callable[[_Machine], None]:
    def step(machine: _Machine) -> None:
        machine.push(tuple(reversed([machine.pop() for _ in range(count)])))

    return step


def _get(read: Callable[[_Machine], int]) -> Callable[[_Machine], None]:
    def step(machine: _Machine) -> None:
        place = read(machine)
        if place not in machine.memo:
            raise _Refusal(f"refers to a value at byte {machine.at:,} that was not stored")
        machine.push(machine.memo[place])

    return step


def _put(read: Callable[[_Machine], int]) -> Callable[[_Machine], None]:
    def step(machine: _Machine) -> None:
        machine.memo[read(machine)] = machine.top(object)

    return step


def _memoise(machine: _Machine) -> None:
    machine.memo[len(machine.memo)] = machine.top(object)


def _line_number(machine: _Machine) -> int:
    return int(machine.line(LONGEST_NUMBER))


def _protocol(machine: _Machine) -> None:
    version = machine.number("<B")
    if version > 5:
        raise _Refusal(f"has pickle protocol {version}, which is not supported")


def _marked_set(machine: _Machine) -> None:
    machine.marked()
    machine.top(type(None))


def _drop(machine: _Machine) -> None:
    machine.stack.pop()


def _drop_marked(machine: _Machine) -> None:
    machine.marked()


def _frame(machine: _Machine) -> None:
    """Skip the length of a frame: all bytes are in memory."""
    machine.number("<Q")


_STEPS: dict[bytes, Callable[[_Machine], None]] = {
    b"(": _constant(_MARK),
    b"0": _drop,
    b"1": _drop_marked,
    b"2": lambda machine: machine.push(machine.top(object)),
    b"F": _float_line,
    b"G": _binary(">d"),
    b"I": _int_line,
    b"J": _binary("<i"),
    b"K": _binary("<B"),
    b"M": _binary("<H"),
    b"L": _long_line,
    b"\x8a": _long("<B"),
    b"\x8b": _long("<i"),
    b"N": _constant(None),
    b"\x88": _constant(True),
    b"\x89": _constant(False),
    b"S": _string_line,
    b"T": _bytes("<i"),
    b"U": _bytes("<B"),
    b"B": _bytes("<I"),
    b"C": _bytes("<B"),
    b"\x8e": _bytes("<Q"),
    b"V": _unicode_line,
    b"X": _text("<I"),
    b"\x8c": _text("<B"),
    b"\x8d": _text("<Q"),
    b"}": lambda machine: machine.push({}),
    b"d": _marked_dict,
    b"s": _set_item,
    b"u": _set_items,
    b"]": lambda machine: machine.push([]),
    b"l": lambda machine: machine.push(machine.marked()),
    b"a": _append,
    b"e": _appends,
    b")": lambda machine: machine.push(()),
    b"t": lambda machine: machine.push(tuple(machine.marked())),
    b"\x85": _tuple(1),
    b"\x86": _tuple(2),
    b"\x87": _tuple(3),
    b"\x8f": _constant(None),  # sets are not needed
    b"\x90": _marked_set,
    b"g": _get(_line_number),
    b"h": _get(lambda machine: machine.number("<B")),
    b"j": _get(lambda machine: machine.number("<I")),
    b"p": _put(_line_number),
    b"q": _put(lambda machine: machine.number("<B")),
    b"r": _put(lambda machine: machine.number("<I")),
    b"\x94": _memoise,
    b"c": _name_line,
    b"\x93": _stacked_name,
    b"R": _make,
    b"\x81": _instance,
    b"b": _build,
    b"\x80": _protocol,
    b"\x95": _frame,
}
