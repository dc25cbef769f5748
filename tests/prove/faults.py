"""Faults of the machine at every point where Supple writes or asks for memory.

``python tests/prove/faults.py`` tries all of them at all points; tests try some. A writer is run in
a forked process again and again: first the fault comes at its first call of the system, then at the
second, and so on until it gets through. Meanwhile a file is the old one or the new one, whole.
"""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import numpy as np  # noqa: E402

from supple import saving  # noqa: E402
from supple.errors import SuppleError  # noqa: E402

__all__ = ["FAULTS", "FaultySystem", "memory_fault", "survey", "writers"]

Writer = Callable[[Path, int], None]


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _full() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _broken() -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def _no_memory() -> None:
    raise MemoryError


#: What happens at a point.
FAULTS: dict[str, Callable[[], None]] = {
    "killed": _kill,
    "disk full": _full,
    "disk broken": _broken,
    "no memory": _no_memory,
}


class _CountedFile(io.FileIO):
    """A file whose every write is two, with points before, between and after."""

    def __init__(self, handle: int, point: Callable[[], None]) -> None:
        super().__init__(handle, "wb")
        self.point = point

    def write(self, data: Any) -> int:
        block = bytes(data)
        half = len(block) // 2
        self.point()
        super().write(block[:half])
        self.point()
        super().write(block[half:])
        return len(block)


class FaultySystem:
    """Stands for `os` in `supple.saving`: the n-th call that changes a disk meets a fault."""

    CHANGES = ("open", "fsync", "replace")

    def __init__(self, fault: Callable[[], None], at: int, every: bool = False) -> None:
        self.fault, self.at, self.every, self.count = fault, at, every, 0

    def point(self) -> None:
        """Pass a point, or meet the fault there."""
        self.count += 1
        if self.every or self.count == self.at:
            self.fault()

    def fdopen(self, handle: int, mode: str) -> Any:
        """Open a file whose writes are counted."""
        return io.BufferedWriter(_CountedFile(handle, self.point), 64)

    def __getattr__(self, name: str) -> Any:
        found = getattr(os, name)
        if name not in self.CHANGES:
            return found

        def changed(*arguments: Any, **options: Any) -> Any:
            self.point()
            result = found(*arguments, **options)
            if self.fault is _kill:  # what has been done cannot fail any more
                self.point()
            return result

        return changed


@contextmanager
def faulty(system: FaultySystem) -> Iterator[FaultySystem]:
    """Give `supple.saving` another system for a while."""
    saving.os = system  # type: ignore[assignment]
    try:
        yield system
    finally:
        saving.os = os


def _attempt(writer: Writer, folder: Path, fault: Callable[[], None], at: int) -> int:
    """Write in a process of its own: 0 where it got through, 1 refused, −9 killed, 3 otherwise."""
    child = os.fork()
    if child == 0:
        code = 3
        try:
            with faulty(FaultySystem(fault, at)) as system:
                try:
                    writer(folder, 2)
                    code = 0 if system.count < at else 4  # 4: went on as if nothing had been
                except SuppleError as error:
                    code = 1 if "\n" not in str(error) else 3
                except MemoryError:
                    code = 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _content(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.suffix != ".part"}


def survey(writer: Writer, fault: str, stride: int = 1) -> dict[str, int]:
    """Meet a fault at every point (every `stride`-th) of a writer; count how it ended.

    Raises
    ------
    AssertionError
        Where a file is neither the old one nor the new one, or something is left for good.
    """
    counts: dict[str, int] = {"points": 0, "old": 0, "new": 0, "strays": 0}
    with TemporaryDirectory() as home:
        folder = Path(home) / "files"
        folder.mkdir()
        writer(folder, 2)
        new = _content(folder)
        writer(folder, 1)
        old = _content(folder)
        assert old.keys() == new.keys()
        at = 1
        while True:
            writer(folder, 1)
            code = _attempt(writer, folder, FAULTS[fault], at)
            found = _content(folder)
            assert found.keys() == old.keys(), (fault, at, sorted(found))
            for name, data in found.items():
                assert data in (old[name], new[name]), f"{fault} at {at}: {name} is neither"
            if code == 0:
                assert found == new
                break
            ended = (-signal.SIGKILL,) if fault == "killed" else (1, 4)
            assert code in ended, f"{fault} at point {at}: ended with {code}"
            counts["points"] += 1
            counts["new" if found == new else "old"] += 1
            strays = list(folder.glob(".*.part"))
            counts["strays"] = len(strays)
            assert not strays or fault == "killed", f"{fault} at {at} leaves {strays[0].name}"
            at += stride
        long_ago = time.time() - 7200
        for stray in folder.glob(".*.part"):
            os.utime(stray, (long_ago, long_ago))
        writer(folder, 2)
        assert _content(folder) == new
        assert not list(folder.glob(".*.part")), "something is left for good"
    return counts


# What writes


def _write_chunks(folder: Path, version: int) -> None:
    saving.write_chunks(folder / "a.bin", [bytes([version]) * 100] * 3)


def _write_entries(folder: Path, version: int) -> None:
    from supple.anatomy.region_entries import RegionEntry, write_entries

    write_entries(folder / "a.json", "body", {"hip": RegionEntry("limb", 0.1 * version)})


def _write_body(folder: Path, version: int) -> None:
    from supple.engines.stvk.model import StvkModel
    from supple.scenes.bodies.beam import beam

    if not _models:
        for modes in (2, 3):
            _models.append(StvkModel.build(beam(cells=(2, 1, 1)), modes=modes))
    _models[version - 1].save(folder / "a.stvk")


_models: list[Any] = []


def _write_cache(folder: Path, version: int) -> None:
    from helpers.baked_samples import swinging_x
    from supple.formats.save import save

    if not _bakes:
        _bakes.extend((swinging_x(2), swinging_x(2, swing=0.1)))
    save(folder / "a.pc2", _bakes[version - 1])


_bakes: list[Any] = []


def writers() -> dict[str, Writer]:
    """Return writers by name: to a folder, the first or the second version of some files."""
    return {
        "chunks": _write_chunks,
        "anatomy": _write_entries,
        "elastic body": _write_body,
        "point cache and its mesh": _write_cache,
    }


# Memory

ALLOCATORS = ("empty", "zeros", "full", "ones", "empty_like", "zeros_like", "concatenate", "stack")


@contextmanager
def memory_fault(at: int) -> Iterator[list[int]]:
    """Let the n-th array that Supple asks NumPy for fail; yield a list with the count so far."""
    count = [0]
    before = {name: getattr(np, name) for name in ALLOCATORS}

    def counted(found: Callable[..., Any]) -> Callable[..., Any]:
        def allocate(*arguments: Any, **options: Any) -> Any:
            if sys._getframe(1).f_globals.get("__name__", "").startswith("supple."):
                count[0] += 1
                if count[0] == at:
                    raise MemoryError
            return found(*arguments, **options)

        return allocate

    for name, found in before.items():
        setattr(np, name, counted(found))
    try:
        yield count
    finally:
        for name, found in before.items():
            setattr(np, name, found)


def memory_survey(words: list[str], stride: int = 1, most: int = 10**9) -> dict[str, int]:
    """Run a command again and again, with the n-th array failing: one line each time."""
    from helpers.commands import run_here

    counts = {"points": 0, "refused": 0, "went on": 0}
    at = 1
    while counts["points"] < most:
        with memory_fault(at) as count:
            ended = run_here(*words)
        if count[0] < at:
            break
        counts["points"] += 1
        lines = [line for line in ended.stderr.splitlines() if not line.startswith("supple: warn")]
        if ended.returncode:
            said = [line for line in lines if line.startswith("supple: ")]
            assert ended.returncode == 1, (at, ended)
            assert len(said) == 1, (at, ended.stderr[-400:])
            counts["refused"] += 1
        else:
            counts["went on"] += 1
        at += stride
    return counts


def main() -> None:
    """Try all faults at all points."""
    from helpers.gltf_builder import skinned_octahedron

    for name, writer in writers().items():
        for fault in FAULTS:
            print(f"{name}, {fault}: {survey(writer, fault)}", flush=True)
    with TemporaryDirectory() as folder:
        file = str(skinned_octahedron().save_glb(Path(folder) / "a.glb"))
        os.environ["SUPPLE_CACHE"] = folder
        out = str(Path(folder) / "a.supple")
        small = ["build", file, "-o", out, "--tets", "200", "--modes", "4"]
        for words, stride in ((["info", file], 1), (small, 37)):
            print(f"{words[0]}, no memory: {memory_survey(words, stride)}", flush=True)


if __name__ == "__main__":
    main()
