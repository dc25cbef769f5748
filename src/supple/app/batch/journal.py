"""The journal of a batch: lines that are added, each whole or absent.

A line is an object in JSON whose last field, ``crc``, is a check sum of the text before it. Lines
are added by one write each, so that whoever is killed leaves whole lines, and at most one that is
torn: that one has no sum that is right, is passed over, and the next line begins on a line of its
own. What happened is said after it has happened: first a result is there, then its line.
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
#: Seconds between two times that the disk is told to keep what was written. A killed command loses
#: nothing in between; a machine without power loses lines of so long, and their jobs run again.
_SYNCED = 0.5
#: Characters of one line; longer ones are not ours.
_LONGEST = 4_000_000


@dataclass
class JournalState:
    """Contents of a journal that a batch goes on from.

    Attributes
    ----------
    done
        Stamp, names and sizes of results of each job that was made and that no other has written
        over since, by its key. No more of them: there may be a million.
    failed
        The last line of each job that was given up, by its key.
    clips
        Names of clips by source and its stamp.
    models
        How many models were built.
    damaged
        How many lines are torn.
    owner
        Key of the job that wrote a file last, or was about to, by its name.
    """

    done: dict[str, tuple[str, Files]] = field(default_factory=dict)
    failed: dict[str, dict[str, Any]] = field(default_factory=dict)
    clips: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    models: int = 0
    damaged: int = 0
    owner: dict[str, str] = field(default_factory=dict)

    def add(self, line: dict[str, Any]) -> None:
        """Take a line in."""
        event, key = line.get("event"), line.get("job")
        if event == "done" and isinstance(key, str):
            files = line.get("files")
            found = files if isinstance(files, dict) else {}
            self._own(key, line.get("output"), *found)
            self.done[key] = str(line.get("stamp")), tuple(found.items())
            self.failed.pop(key, None)
            figures = line.get("figures")
            self.models += isinstance(figures, dict) and figures.get("model_kept") is False
        elif event == "failed" and isinstance(key, str):
            self._own(key, line.get("output"))
            self.failed[key] = line
            self.done.pop(key, None)
        elif event == "over" and isinstance(key, str) and isinstance(line.get("names"), list):
            self._own(key, *line["names"])
        elif event == "model":
            self.models += not line.get("kept")
        elif event == "clips" and isinstance(line.get("names"), list):
            self.clips[str(line.get("source")), str(line.get("stamp"))] = line["names"]

    def _own(self, key: str, *names: Any) -> None:
        """Let a job own files; what another has said of one, of other settings, is so no more."""
        for name in names:
            before = self.owner.get(name, key) if isinstance(name, str) else key
            if before != key:
                self.done.pop(before, None)
                self.failed.pop(before, None)
            if isinstance(name, str):
                self.owner[name] = key


def encoded(line: dict[str, Any]) -> bytes:
    r"""Return a line with its check sum.

    >>> encoded({"job": "a"})
    b'{"job":"a","crc":"8e157f3f"}\n'
    """
    text = json.dumps(line, separators=(",", ":"), allow_nan=False)[:-1]
    return f'{text}{_SUM}{zlib.crc32(text.encode()):08x}"}}\n'.encode()


def decoded(raw: bytes) -> dict[str, Any] | None:
    """Return a line, or None if it is not as it was written."""
    try:
        text, comma, rest = raw.decode().rstrip("\r\n").rpartition(_SUM)
        if not comma or rest != f'{zlib.crc32(text.encode()):08x}"}}':
            return None
        found = json.loads(text + "}")
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def lines_of(path: Path) -> Iterator[dict[str, Any] | None]:
    """Yield the lines of a journal, None for each that is torn; nothing where there is none."""
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
    """Return what the journal says; nothing where there is none."""
    told = JournalState()
    for line in lines_of(path):
        if line is None:
            told.damaged += 1
        else:
            told.add(line)
    return told


class Journal:
    """Journal that is open for one command, which has it alone."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file: IO[bytes] = path.open("ab", buffering=0)
        except OSError as error:
            raise SuppleError(f"{path}: cannot be written ({error.strerror})") from None
        self._lock()
        self.told = read_journal(path)
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
                f"{self.path.parent}: another batch is at work there; wait for it, or give another"
                " folder with -o"
            ) from None
        except OSError:  # a disk that knows no locks
            pass

    def _mend(self) -> None:
        """Begin a new line after one that is torn."""
        with self.path.open("rb") as file:
            if file.seek(0, os.SEEK_END):
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":
                    self._write(b"\n")

    def add(self, event: str, **fields: Any) -> dict[str, Any]:
        """Add a line about an event, and return it."""
        line = {"event": event, "time": round(time.time(), 3), **fields}
        self._write(encoded(line))
        self.told.add(line)
        return line

    def _write(self, data: bytes) -> None:
        try:
            written = self._file.write(data)
            if written != len(data):  # a full disk takes a part; the next line begins anew
                self._file.write(b"\n")
                raise OSError(28, "no space left on device")
            self._behind = True
            if time.monotonic() - self._synced > _SYNCED:
                self.sync()
        except OSError as error:
            raise SuppleError(
                f"{self.path}: cannot be written ({(error.strerror or '').lower()}); make room, and"
                " run the same command again"
            ) from None

    def sync(self) -> None:
        """Have the disk keep what was written."""
        if self._behind:
            os.fsync(self._file.fileno())
            self._behind = False
        self._synced = time.monotonic()

    def close(self) -> None:
        """Keep what was written, and let others have it."""
        try:
            self.sync()
        except OSError:
            pass
        finally:
            self._file.close()
