"""Requests to a child process and its answers: arrays and plain values in one file, no pickle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

#: Names of the files in a folder that both processes know; the last has what USD printed.
REQUEST, ANSWER, SAID = "request.npz", "answer.npz", "said.txt"
#: Seconds after its last request at which a server ends itself.
IDLE = 30.0

ARRAY = "array:"


def send(path: Path, value: Any) -> None:
    """Write nested dicts and lists of arrays, texts, numbers and None."""
    arrays: dict[str, np.ndarray] = {}
    text = json.dumps(_without_arrays(value, arrays))
    with path.open("wb") as file:
        np.savez(file, text=np.frombuffer(text.encode(), dtype=np.uint8), **arrays)  # type: ignore[arg-type]


def receive(path: Path) -> Any:
    """Return the value that `send` wrote."""
    with np.load(path, allow_pickle=False) as arrays:
        value = json.loads(arrays["text"].tobytes().decode())
        return _with_arrays(value, arrays)


def _without_arrays(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    if isinstance(value, np.ndarray):
        name = f"{len(arrays)}"
        arrays[name] = value
        return ARRAY + name
    if isinstance(value, dict):
        return {key: _without_arrays(item, arrays) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_arrays(item, arrays) for item in value]
    if isinstance(value, str):
        return "text:" + value  # so that no text of a file reads as an array
    return value


def _with_arrays(value: Any, arrays: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_arrays(item, arrays) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_arrays(item, arrays) for item in value]
    if isinstance(value, str):
        return arrays[value.removeprefix(ARRAY)] if value.startswith(ARRAY) else value[5:]
    return value
