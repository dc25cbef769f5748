"""A process that runs jobs one after the other, watched by the one that started it.

A job that crashes, hangs or eats memory takes its process along, and nothing else: the next job has
a new one. Requests and answers are lines of JSON. The process ends when its input does, so that
none outlives a command that was killed.
"""

from __future__ import annotations

import base64
import json
import math
import os
import platform
import queue
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from supple.app.processes import peak_megabytes, thread_limits
from supple.errors import SuppleError, SuppleWarning

#: Seconds between looks at a process.
_LOOK = 0.05
#: A process that has more of its limit than this when a job has ended makes room for a new one.
_STALE = 0.5
#: Seconds that a process waits for a job, and what it ends with then.
_PATIENCE, _LEFT = 120.0, 75
#: Warnings of a job that are kept, and characters of each line.
_MOST_WARNINGS, _LONGEST = 20, 500
#: Line where memory cannot be watched.
NO_MEMORY_LIMIT = (
    "--memory-limit: this system does not tell what processes take; leave it out, or use Linux"
)
#: Answer of a job: `ok`, `line` of why not, `figures`, `warnings`, `seconds`, `peak_mb`, `picture`;
#: `fresh` where what is left in the process may be to blame.
Outcome = dict[str, Any]


@dataclass(frozen=True)
class Limits:
    """Most that a job may take: megabytes and seconds, None for no limit; and its threads."""

    megabytes: float | None = None
    seconds: float | None = None
    threads: int = 1


class JobProcess:
    """Process for jobs, started when it is first needed, and anew after one that went wrong."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._process: subprocess.Popen[bytes] | None = None
        self._answers: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._closed, self._lock = False, threading.Lock()

    def run(self, request: dict[str, Any], *, fresh: bool = False) -> Outcome:
        """Have a job done, and return how it went; `fresh` in a process that has done none."""
        if self.limits.megabytes is not None and not tells_memory():
            return failure(NO_MEMORY_LIMIT)
        if fresh:
            self.end()
        outcome = self._asked(request)
        if outcome.get("left"):  # it had waited for long, and went as the request came
            outcome = self._asked(request)
        return outcome

    def _asked(self, request: dict[str, Any]) -> Outcome:
        began, peak = time.perf_counter(), 0.0
        process = self._begun()
        try:
            assert process.stdin is not None
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
        except OSError:  # it ended between two jobs
            self.end()
            return failure("its process ended before it began") | {"left": True}
        while True:
            with suppress(queue.Empty):
                answer = self._answers.get(timeout=_LOOK)
                if not answer:
                    return self._crashed(process) | {"seconds": time.perf_counter() - began}
                outcome: Outcome = json.loads(answer)
                outcome["seconds"] = round(time.perf_counter() - began, 3)
                # Its own figure has the highest moment; ours has those that it started, too.
                outcome["peak_mb"] = max(outcome.get("peak_mb") or 0.0, peak) or None
                self._renew(process)
                return outcome
            peak = max(peak, _megabytes(process.pid))
            why = self._exceeded(time.perf_counter() - began, peak)
            if why:
                self.end()
                return failure(why) | {"seconds": round(time.perf_counter() - began, 3)}

    def _exceeded(self, seconds: float, megabytes: float) -> str:
        most = self.limits
        if most.seconds is not None and seconds > most.seconds:
            return f"took more than {most.seconds:g} s; give it a longer --time-limit"
        if most.megabytes is not None and megabytes > most.megabytes:
            return f"took more than {most.megabytes:g} MB; give it a larger --memory-limit"
        return ""

    def _renew(self, process: subprocess.Popen[bytes]) -> None:
        """End a process that keeps much of what its job had: the next one has its own limit."""
        most = self.limits.megabytes
        if most is not None and _megabytes(process.pid) > _STALE * most:
            self.end()

    def _begun(self) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._closed:
                raise SuppleError("the farm was closed")
            if self._process is None or self._process.poll() is not None:
                self._end()
                self._start()
            assert self._process is not None
            return self._process

    def _start(self) -> None:
        own = {**os.environ, **thread_limits(self.limits.threads), "SUPPLE_COMPILE_AHEAD": "0"}
        own.pop("SUPPLE_PROGRESS", None)
        process = subprocess.Popen(
            [sys.executable, "-m", "supple.app.batch.job_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=own,
            start_new_session=True,  # so that all that it starts ends with it
        )
        answers: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        assert process.stdout is not None
        listener = threading.Thread(target=_listen, args=(process.stdout, answers), daemon=True)
        listener.start()
        self._process, self._answers = process, answers

    def _crashed(self, process: subprocess.Popen[bytes]) -> Outcome:
        self.end()
        code = process.returncode
        if code is not None and code < 0:
            name = signal.Signals(-code).name if -code in set(signal.Signals) else f"{-code}"
            hint = "; is there enough memory?" if name == "SIGKILL" else ""
            return failure(f"its process was ended by {name}{hint}")
        return failure(f"its process ended by itself, with {code}") | {"left": code == _LEFT}

    def end(self, *, closed: bool = False) -> None:
        """End the process, and whatever it does; `closed` for good."""
        with self._lock:
            self._closed |= closed
            self._end()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(OSError):
            if hasattr(os, "killpg") and process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
        process.wait()
        if process.stdin is not None:  # the other pipe is its listener's
            with suppress(OSError):
                process.stdin.close()


def _listen(pipe: IO[bytes], answers: queue.SimpleQueue[bytes]) -> None:
    with pipe:
        for line in pipe:
            answers.put(line)
    answers.put(b"")


def failure(line: str) -> Outcome:
    """Return the outcome of a job that failed."""
    return {"ok": False, "line": line, "warnings": []}


def tells_memory() -> bool:
    """Return whether the system tells what processes take."""
    return _megabytes(os.getpid()) > 0


def _megabytes(pid: int) -> float:
    """Return the memory that a process and those it started have now; 0 where nobody tells."""
    pages, todo = 0, [pid]
    while todo:
        one = todo.pop()
        with suppress(OSError, ValueError, IndexError):
            pages += int(Path(f"/proc/{one}/statm").read_text().split()[1])
            for thread in os.listdir(f"/proc/{one}/task"):  # each has children of its own
                with suppress(OSError):
                    told = Path(f"/proc/{one}/task/{thread}/children").read_text()
                    todo += [int(word) for word in told.split()]
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6 if pages else 0.0


# Inside the process


def answer_to(request: dict[str, Any]) -> Outcome:
    """Do what is asked for, and return how it went: errors too are answers."""
    from supple.app.batch.job_commands import Looked, build_model, clip_names, run_words

    with suppress(OSError):  # so that the most memory is this job's
        Path("/proc/self/clear_refs").write_text("5")
    looked = Looked() if request.get("picture") else None
    found: Outcome = {"ok": True}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", SuppleWarning)
        try:
            if request["what"] == "clips":
                found["names"] = clip_names(request["source"])
            elif request["what"] == "model":
                path, found["kept"] = build_model(request["words"])
                found["path"] = None if path is None else str(path)
            else:
                found["figures"] = _plain(run_words(request["words"], looked))
        except SuppleError as error:
            found = failure(_line(str(error)))
        except MemoryError:
            found = failure("there is not enough memory") | {"fresh": True}
        except Exception as error:
            found = failure(_line(f"{type(error).__name__}: {error}")) | {"fresh": True}
    kept = [_line(str(each.message)) for each in caught if issubclass(each.category, SuppleWarning)]
    found["warnings"] = list(dict.fromkeys(kept))[:_MOST_WARNINGS]
    found["peak_mb"] = peak_megabytes()
    found["where"] = platform.node()
    if looked is not None and looked.picture is not None:
        found["picture"] = base64.b64encode(looked.picture).decode()
    return found


def _line(text: str) -> str:
    plain = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return plain[:_LONGEST]


def _plain(value: Any) -> Any:
    """Return figures as JSON can hold them: what is no finite number is null."""
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, str | int | bool | None) else str(value)


def main(arguments: Sequence[str] = ()) -> None:
    """Answer requests until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who started this process decides
    # Whatever libraries print is not taken for an answer.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def listen() -> None:
        for line in sys.stdin.buffer:
            requests.put(line)
        if hasattr(os, "killpg") and os.getpgid(0) == os.getpid():
            os.killpg(0, signal.SIGKILL)  # and all that a job of ours has started
        os._exit(1)

    threading.Thread(target=listen, daemon=True).start()
    while True:
        try:
            request = requests.get(timeout=_PATIENCE)
        except queue.Empty:
            os._exit(_LEFT)
        outcome = answer_to(json.loads(request))
        answers.write(json.dumps(outcome).encode() + b"\n")
        answers.flush()


if __name__ == "__main__":
    main()
