"""Journal of a batch: an append-only file of JSON lines with check sums.

The last field of each line, ``crc``, is a check sum of the text before it. Each line is appended by
one write, so that a killed command leaves at most one torn line. A torn line has a wrong check sum
and is skipped; the next line starts after a line break. An event is recorded after it happened: a
result is complete before its line is written.
"""

from __future__ import annotations

import json
import os
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from supple.errors import SuppleError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

Files = tuple[tuple[str, Any], ...]
#: Name of the journal in the output folder.
JOURNAL = "batch.jsonl"
_SUM = ',"crc":"'
#: Seconds between two calls of fsync. A killed command loses nothing in between; a power failure
#: loses the lines since the last call, and their jobs run again.
_SYNCED = 0.5
#: Largest number of bytes of one line.
_LONGEST = 4_000_000


@dataclass
class JournalState:
    """State of a batch according to its journal.

    `done` has stamp, file names and sizes of each finished job whose files no other job has
    overwritten, by key, and nothing else, since there may be a million. `failed` has the last line
    of each failed job by key; `clips` clip names by source and stamp; `models` the number of built
    models; `damaged` the number of torn lines; `owner` the key of the last writer of each file.
    """

    done: dict[str, tuple[str, Files]] = field(default_factory=dict)
    failed: dict[str, dict[str, Any]] = field(default_factory=dict)
    clips: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    models: int = 0
    damaged: int = 0
    owner: dict[str, str] = field(default_factory=dict)

    def add(self, line: dict[str, Any]) -> None:
        """Update the state by a line."""
        event, key = line.get("event"), line.get("job")
        if event == "done" and isinstance(key, str):
            files = line.get("files")
            sizes = files if isinstance(files, dict) else {}
            self._set_owner(key, line.get("output"), *sizes)
            self.done[key] = str(line.get("stamp")), tuple(sizes.items())
            self.failed.pop(key, None)
            figures = line.get("figures")
            self.models += isinstance(figures, dict) and figures.get("model_kept") is False
        elif event == "failed" and isinstance(key, str):
            self._set_owner(key, line.get("output"))
            self.failed[key] = line
            self.done.pop(key, None)
        elif event == "over" and isinstance(key, str) and isinstance(line.get("names"), list):
            self._set_owner(key, *line["names"])
        elif event == "model":
            self.models += not line.get("kept")
        elif event == "clips" and isinstance(line.get("names"), list):
            self.clips[str(line.get("source")), str(line.get("stamp"))] = line["names"]

    def _set_owner(self, key: str, *names: Any) -> None:
        """Record a job as the writer of files, and discard the records of earlier writers."""
        for name in names:
            before = self.owner.get(name, key) if isinstance(name, str) else key
            if before != key:
                self.done.pop(before, None)
                self.failed.pop(before, None)
            if isinstance(name, str):
                self.owner[name] = key


def encoded(line: dict[str, Any]) -> bytes:
    r"""Encode a line with its check sum.

    >>> encoded({"job": "a"})
    b'{"job":"a","crc":"8e157f3f"}\n'
    """
    text = json.dumps(line, separators=(",", ":"), allow_nan=False)[:-1]
    return f'{text}{_SUM}{zlib.crc32(text.encode()):08x}"}}\n'.encode()


def decoded(raw: bytes) -> dict[str, Any] | None:
    """Decode a line; None if its check sum is wrong."""
    try:
        text, comma, rest = raw.decode().rstrip("\r\n").rpartition(_SUM)
        if not comma or rest != f'{zlib.crc32(text.encode()):08x}"}}':
            return None
        line = json.loads(text + "}")
    except (ValueError, RecursionError):
        return None
    return line if isinstance(line, dict) else None


def lines_of(path: Path) -> Iterator[dict[str, Any] | None]:
    """Yield the lines of a journal, None for each torn line; nothing if the file is missing."""
    try:
        with path.open("rb") as file:
            while raw := file.readline(_LONGEST):
                if raw.strip():
                    yield decoded(raw)
    except FileNotFoundError:
        return
    except OSError as error:
        raise SuppleError(f"{path}: cannot be read ({error.strerror})") from None


def read_journal(path: Path) -> JournalState:
    """Return the state of a batch from its journal; an empty state if the file is missing."""
    state = JournalState()
    for line in lines_of(path):
        if line is None:
            state.damaged += 1
        else:
            state.add(line)
    return state


class Journal:
    """Journal that is open for appending, and locked against other commands."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file: IO[bytes] = path.open("ab", buffering=0)
        except OSError as error:
            raise SuppleError(f"{path}: cannot be written ({error.strerror})") from None
        self._lock()
        self.state = read_journal(path)
        self._synced, self._behind = time.monotonic(), False
        self._mend()

    def _lock(self) -> None:
        if fcntl is None:
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise SuppleError(
                f"{self.path.parent}: another batch runs in this folder; wait for it, or give"
                " another folder with -o"
            ) from None
        except OSError:  # a file system without locks
            pass

    def _mend(self) -> None:
        """End a torn last line by a line break."""
        with self.path.open("rb") as file:
            if file.seek(0, os.SEEK_END):
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":
                    self._write(b"\n")

    def add(self, event: str, **fields: Any) -> dict[str, Any]:
        """Append a line about an event, and return it."""
        line = {"event": event, "time": round(time.time(), 3), **fields}
        self._write(encoded(line))
        self.state.add(line)
        return line

    def _write(self, data: bytes) -> None:
        try:
            written = self._file.write(data)
            if written != len(data):  # a full disk; end the torn line
                self._file.write(b"\n")
                raise OSError(28, "no space left on device")
            self._behind = True
            if time.monotonic() - self._synced > _SYNCED:
                self.sync()
        except OSError as error:
            raise SuppleError(
                f"{self.path}: cannot be written ({(error.strerror or '').lower()}); free disk"
                " space, and run the same command again"
            ) from None

    def sync(self) -> None:
        """Write buffered lines to the disk."""
        if self._behind:
            os.fsync(self._file.fileno())
            self._behind = False
        self._synced = time.monotonic()

    def close(self) -> None:
        """Write buffered lines to the disk, and unlock the journal."""
        try:
            self.sync()
        except OSError:
            pass
        finally:
            self._file.close()
