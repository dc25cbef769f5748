"""The runtime of exported models, by ctypes."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np

_POINTER, _LONG = ctypes.c_void_p, ctypes.c_int64
_SIGNATURES = {
    "open": (ctypes.c_int32, [_POINTER, _POINTER, ctypes.c_uint64]),
    "instance_size": (ctypes.c_uint64, [_POINTER]),
    "make": (_POINTER, [_POINTER, _POINTER, ctypes.c_uint64]),
    "copy": (ctypes.c_int32, [_POINTER, _POINTER]),
    "reset": (ctypes.c_int32, [_POINTER, _POINTER, _POINTER]),
    "teleport": (ctypes.c_int32, [_POINTER, _POINTER, _POINTER]),
    "step": (ctypes.c_int32, [_POINTER, _POINTER, _POINTER]),
    "surface": (ctypes.c_int32, [_POINTER, _POINTER]),
    "poke": (ctypes.c_int32, [_POINTER, _LONG, _POINTER]),
    "set_stiffness": (ctypes.c_int32, [_POINTER, ctypes.c_double]),
    "error": (ctypes.c_char_p, [_POINTER]),
    "text": (ctypes.c_char_p, [_POINTER, ctypes.c_char_p]),
    "limits": (_LONG, [_POINTER]),
    "vertex_count": (_LONG, [_POINTER]),
    "pose_size": (_LONG, [_POINTER]),
    "time": (ctypes.c_double, [_POINTER]),
}


def aligned(size: int) -> np.ndarray:
    """Zero bytes whose address is a multiple of 64."""
    memory = np.zeros(size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size]


def _address(array: np.ndarray | None) -> int | None:
    return None if array is None else array.ctypes.data


class Library:
    def __init__(self, path: Path) -> None:
        library = ctypes.CDLL(str(path))
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(library, f"supple_{name}")
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)

    def status(self, data: bytes) -> int:
        """Status of opening a file."""
        memory, model = aligned(max(len(data), 1)), aligned(512)
        memory[: len(data)] = np.frombuffer(data, np.uint8)
        return self.open(_address(model), _address(memory), len(data))  # type: ignore[attr-defined]

    def poked(self, data: bytes) -> int:
        """Status of a force on the first vertex in a new instance; -1 if it is not made."""
        file, model = aligned(len(data)), aligned(512)
        file[:] = np.frombuffer(data, np.uint8)
        at = _address(model)
        calls: Any = self
        if calls.open(at, _address(file), len(data)) or calls.instance_size(at) > 2**28:
            return -1
        memory, force = aligned(calls.instance_size(at)), np.zeros(3)
        instance = calls.make(at, _address(memory), len(memory))
        return calls.poke(instance, 0, _address(force)) if instance else -1


class LiveBody:
    """A body of an exported model, with the methods of a simulator."""

    def __init__(self, library: Library, data: bytes, shared: LiveBody | None = None) -> None:
        self.calls: ctypes.CDLL = library  # type: ignore[assignment]
        self.bytes, self.model = aligned(len(data)), aligned(512)
        if shared is None:
            self.bytes[:] = np.frombuffer(data, np.uint8)
            assert self.calls.open(_address(self.model), _address(self.bytes), len(data)) == 0
        else:
            self.bytes, self.model = shared.bytes, shared.model
        model = _address(self.model)
        self.memory = aligned(self.calls.instance_size(model))
        self.at = self.calls.make(model, _address(self.memory), len(self.memory))
        self.vertices = self.calls.vertex_count(model)

    def _done(self, status: int) -> None:
        if status:
            raise ValueError(f"{status}: {self.calls.error(self.at).decode()}")

    def reset(self, pose=None, root=None) -> None:
        self._done(self.calls.reset(self.at, _address(pose), _address(root)))

    def teleport(self, pose=None, root=None) -> None:
        self._done(self.calls.teleport(self.at, _address(pose), _address(root)))

    def step(self, pose=None, root=None, forces=None) -> int:
        for vertex, force in (forces or {}).items():
            self._done(self.calls.poke(self.at, vertex, _address(np.array(force, np.float64))))
        self._done(self.calls.step(self.at, _address(pose), _address(root)))
        return self.calls.limits(self.at)

    def surface(self) -> np.ndarray:
        out = np.zeros((self.vertices, 3), np.float32)
        self._done(self.calls.surface(self.at, _address(out)))
        return out

    def copy(self, other: LiveBody) -> None:
        self._done(self.calls.copy(other.at, self.at))

    @property
    def time(self) -> float:
        return self.calls.time(self.at)
