"""Read a million hostile inputs: ``python tests/prove/fuzz.py --count 1000000``.

Inputs are numbered: a kind and a number give the same bytes always. Each is read in a worker
process that lives on; one that dies, hangs or grows is told by the number it was at, and another
goes on behind it. What is not read or refused in one line is a defect: its input is kept in
``.prove/defects``. Progress is kept in ``.prove/fuzz.json``: a run goes on where it stopped.

``python tests/prove/fuzz.py --kind glb --seed 123`` reads one input again and says how it went.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import select
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from prove.corpus import read_seeds  # noqa: E402
from prove.kinds import KINDS, defect_of  # noqa: E402
from prove.limits import peak_memory, reset_peak  # noqa: E402
from prove.mutations import changed_bytes  # noqa: E402

#: Seconds of the processor, and megabytes, that one input may take; seconds until it is given up.
MOST_SECONDS, MOST_MEGABYTES, PATIENCE = 5.0, 512.0, 120.0
#: Memory of a worker in all: what asks for more gets an error rather than the machine.
WHOLE_MEMORY = 8 * 2**30
#: Inputs that one process reads, and after which progress is kept.
PIECE = 5000
PLACE = ROOT / ".prove"


def input_of(kind: str, number: int, seeds: list[bytes]) -> bytes:
    """Return the input of a kind with this number; the first few are the sound ones."""
    if number < len(seeds):
        return seeds[number]
    rng = Random(f"{kind}:{number}")
    try:
        return KINDS[kind].change(seeds[number % len(seeds)], rng)
    except (ArithmeticError, RecursionError, TypeError, ValueError):  # no such file can be written
        return changed_bytes(seeds[number % len(seeds)], rng)


def tried(kind: str, data: bytes, folder: Path) -> dict[str, Any]:
    """Read one input; say what went wrong, if anything did, and what it took."""
    path = folder / f"a{KINDS[kind].suffix}"
    path.write_bytes(data)
    before = reset_peak()
    start = time.process_time()
    wrong, read = defect_of(KINDS[kind], path)
    seconds = time.process_time() - start
    grown = peak_memory() - before
    if not wrong and seconds > MOST_SECONDS:
        wrong = f"takes too long: over {MOST_SECONDS:g} s"
    if not wrong and grown > MOST_MEGABYTES:
        wrong = f"takes too much memory: over {MOST_MEGABYTES:g} MB"
    return {"wrong": wrong, "read": read, "seconds": seconds, "megabytes": grown}


def work(kind: str) -> None:
    """Be a worker: a range of numbers in each line of input; a line before and after each input."""
    resource.setrlimit(resource.RLIMIT_AS, (WHOLE_MEMORY, WHOLE_MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    seeds = read_seeds(kind, PLACE / "corpus")
    told = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what is printed is no answer
    shared = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=shared) as folder:
        for seed in seeds:  # imports and compiles once, without being measured
            tried(kind, seed, Path(folder))
        for line in sys.stdin:
            first, last = map(int, line.split())
            for number in range(first, last):
                told.write(f"{number}\n")
                said = tried(kind, input_of(kind, number, seeds), Path(folder))
                told.write(json.dumps(said) + "\n")


class Worker:
    """A process that reads inputs of a kind, started again when it has died."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.running: subprocess.Popen[bytes] | None = None
        self.stopped = False

    def _started(self) -> subprocess.Popen[bytes]:
        if self.running is None:
            words = [sys.executable, str(Path(__file__)), "--work", self.kind]
            quiet = os.environ | {"PYTHONWARNINGS": "default", "SUPPLE_COMPILE_AHEAD": "0"}
            self.running = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                bufsize=0, env=quiet, start_new_session=True,
            )  # fmt: skip
            self.left = b""
        return self.running

    def _line(self) -> str | None:
        """Return the next line; None where there is none in time."""
        running = self._started()
        assert running.stdout is not None
        while b"\n" not in self.left:
            if not select.select([running.stdout], [], [], PATIENCE)[0]:
                return None
            piece = os.read(running.stdout.fileno(), 2**16)
            if not piece:
                raise EOFError
            self.left += piece
        line, _, self.left = self.left.partition(b"\n")
        return line.decode()

    def end(self) -> int:
        """End the process; how it ended."""
        if self.running is None:
            return 0
        self.running.kill() if self.running.poll() is None else None
        code = self.running.wait()
        assert self.running.stdin is not None
        assert self.running.stdout is not None
        self.running.stdin.close()
        self.running.stdout.close()
        self.running = None
        return code

    def stop(self) -> None:
        """Let `run`, which another thread may be in, come to an end."""
        self.stopped = True
        if (running := self.running) is not None:
            running.kill()

    def run(self, first: int, last: int, told: Callable[[int, dict[str, Any]], None]) -> None:
        """Read the inputs of these numbers, and tell of each."""
        at = first
        while at < last and not self.stopped:
            running = self._started()
            assert running.stdin is not None
            try:
                running.stdin.write(f"{at} {last}\n".encode())
                while at < last:
                    begun, line = self._line(), None
                    line = self._line() if begun is not None else None
                    if line is None:
                        self.end()
                        told(at, _lost("hangs", PATIENCE))
                    else:
                        told(at, json.loads(line))
                    at += 1
                    if line is None:
                        break
            except (EOFError, BrokenPipeError):
                code = running.poll() if running.poll() is not None else running.wait(10)
                self.end()
                if self.stopped:
                    return
                told(at, _lost(f"crashes the process ({code})", 0.0))
                at += 1


def _lost(wrong: str, seconds: float) -> dict[str, Any]:
    return {"wrong": wrong, "read": False, "seconds": seconds, "megabytes": 0.0}


def signature(wrong: str) -> str:
    """Return what defects of one cause have in common: the error, and where it came from."""
    return ": ".join(wrong.split(": ")[:2])[:120]


class Progress:
    """What has been read of every kind, kept in a file."""

    def __init__(self, path: Path) -> None:
        self.path, self._lock = path, threading.Lock()
        self.kinds: dict[str, dict[str, Any]] = {}
        if path.is_file():
            self.kinds = json.loads(path.read_text())

    def of(self, kind: str) -> dict[str, Any]:
        """Return the row of a kind."""
        empty = {"inputs": 0, "read": 0, "seconds": 0.0, "slowest_s": 0.0, "most_mb": 0.0}
        with self._lock:
            return self.kinds.setdefault(kind, empty | {"defects": {}})

    def add(self, kind: str, number: int, said: dict[str, Any]) -> None:
        """Count an input."""
        row = self.of(kind)
        with self._lock:
            self._count(row, number, said)

    @staticmethod
    def _count(row: dict[str, Any], number: int, said: dict[str, Any]) -> None:
        row["inputs"] = number + 1
        row["read"] += said["read"]
        row["slowest_s"] = max(row["slowest_s"], round(said["seconds"], 3))
        row["most_mb"] = max(row["most_mb"], round(said["megabytes"], 1))
        if said["wrong"]:
            empty = {"first": number, "count": 0, "says": said["wrong"][:240]}
            row["defects"].setdefault(signature(said["wrong"]), empty)["count"] += 1

    def save(self) -> None:
        """Write the file whole."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        beside = self.path.with_suffix(".part")
        with self._lock:
            beside.write_text(json.dumps(self.kinds, indent=1))
            beside.replace(self.path)

    def lines(self) -> Iterable[str]:
        """Describe each kind, and all of them."""
        heads = f"{'read':>7}{'1/s':>8}{'slowest s':>11}{'most MB':>9}{'defects':>9}"
        yield f"{'kind':22}{'inputs':>9}{heads}"
        for name, row in self.kinds.items():
            rate = row["inputs"] / max(row["seconds"], 1e-9)
            share = row["read"] / max(row["inputs"], 1)
            yield (
                f"{name:22}{row['inputs']:9,}{share:7.0%}{rate:8.0f}{row['slowest_s']:11.2f}"
                f"{row['most_mb']:9.1f}{len(row['defects']):9}"
            )
        count = sum(row["inputs"] for row in self.kinds.values())
        hours = sum(row["seconds"] for row in self.kinds.values()) / 3600
        wrong = sum(len(row["defects"]) for row in self.kinds.values())
        yield f"{count:,} inputs in {hours:.2f} h of one process: {wrong} defects"


def wanted(count: int, kinds: list[str]) -> dict[str, int]:
    """Share a number of inputs among kinds."""
    whole = sum(KINDS[kind].share for kind in kinds)
    return {kind: round(count * KINDS[kind].share / whole) for kind in kinds}


def run(count: int, kinds: list[str], progress: Progress, jobs: int = 1) -> Progress:
    """Read inputs of these kinds, until `count` of them in all have been read; `jobs` at once."""
    share = wanted(count, kinds)
    workers = {kind: Worker(kind) for kind in kinds}
    with ThreadPoolExecutor(jobs) as pool:
        try:
            for done in as_completed(
                [pool.submit(_run_kind, workers[kind], share[kind], progress) for kind in kinds]
            ):
                done.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in workers.values():
                worker.stop()
    return progress


def _run_kind(worker: Worker, last: int, progress: Progress) -> None:
    """Read inputs of a kind up to this number, in pieces."""
    row = progress.of(worker.kind)
    while (first := row["inputs"]) < last and not worker.stopped:
        start = time.monotonic()
        worker.run(first, min(first + PIECE, last), partial(_told, worker.kind, progress))
        worker.end()
        row["seconds"] += time.monotonic() - start
        progress.save()
        print(f"{worker.kind}: {row['inputs']:,} of {last:,}", file=sys.stderr, flush=True)


def _told(kind: str, progress: Progress, number: int, said: dict[str, Any]) -> None:
    known = signature(said["wrong"]) in progress.of(kind)["defects"]
    progress.add(kind, number, said)
    if said["wrong"] and not known:
        print(f"{kind} {number}: {said['wrong']}", file=sys.stderr, flush=True)
        place = PLACE / "defects" / f"{kind}-{number}{KINDS[kind].suffix}"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(input_of(kind, number, read_seeds(kind, PLACE / "corpus")))


def draw(progress: Progress, path: Path) -> None:
    """Draw inputs, rate, slowest input and memory of every kind."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    names = list(progress.kinds)
    rows = [progress.kinds[name] for name in names]
    figures = {
        "inputs": [row["inputs"] for row in rows],
        "inputs a second": [row["inputs"] / max(row["seconds"], 1e-9) for row in rows],
        "slowest input (s)": [row["slowest_s"] for row in rows],
        "most memory (MB)": [row["most_mb"] for row in rows],
        "defects": [len(row["defects"]) for row in rows],
    }
    figure, axes = plt.subplots(1, len(figures), figsize=(15, 0.28 * len(names) + 1.5), sharey=True)
    for axis, (title, values) in zip(axes, figures.items(), strict=True):
        axis.barh(names, values)
        axis.set_title(title, fontsize=9)
        axis.tick_params(labelsize=7)
    axes[0].invert_yaxis()
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> int:
    """Read the words of the command line."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--count", type=int, default=1_000_000, help="inputs in all")
    words.add_argument("--kind", action="append", choices=sorted(KINDS), help="only these kinds")
    words.add_argument("--jobs", type=int, default=1, help="kinds at once")
    words.add_argument("--seed", type=int, help="read one input of --kind again")
    words.add_argument("--keep", type=Path, help="with --seed: write the input here as well")
    words.add_argument("--work", choices=sorted(KINDS), help=argparse.SUPPRESS)
    told = words.parse_args()
    if told.work:
        work(told.work)
        return 0
    if told.seed is not None:
        return repeat((told.kind or ["glb"])[0], told.seed, told.keep)
    kinds = told.kind or list(KINDS)
    progress = run(told.count, kinds, Progress(PLACE / "fuzz.json"), told.jobs)
    draw(progress, PLACE / "fuzz.png")
    print("\n".join(progress.lines()))
    return int(any(row["defects"] for row in progress.kinds.values()))


def repeat(kind: str, number: int, keep: Path | None) -> int:
    """Read one input again, and say how it went."""
    data = input_of(kind, number, read_seeds(kind, PLACE / "corpus"))
    if keep is not None:
        keep.write_bytes(data)
    with tempfile.TemporaryDirectory() as folder:
        said = tried(kind, data, Path(folder))
    print(json.dumps(said))
    return int(bool(said["wrong"]))


if __name__ == "__main__":
    sys.exit(main())
