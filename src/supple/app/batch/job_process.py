"""Process that runs jobs one after the other, monitored by its parent.

A job that crashes, hangs or exceeds its memory ends its process only; the next job gets a new
process. Requests and answers are lines of JSON. The process ends when its standard input closes, so
that it does not outlive a killed parent.
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
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from supple.app.processes import peak_megabytes, thread_limits
from supple.errors import SuppleError, SuppleWarning

#: Seconds between measurements of a process.
_LOOK = 0.05
#: A process that holds more than this fraction of its memory limit after a job is replaced.
_STALE = 0.5
#: Seconds that an idle process waits for a job, and its exit code afterwards.
_PATIENCE, _LEFT = 120.0, 75
#: Largest number of recorded warnings of a job, and of characters of each line.
_MOST_WARNINGS, _LONGEST = 20, 500
#: Error message of systems without /proc.
NO_MEMORY_LIMIT = (
    "--memory-limit: this system does not report the memory of processes; omit it, or use Linux"
)
#: Answer of a job: `ok`, the error's `line`, `figures`, `warnings`, `seconds`, `peak_mb`,
#: `picture`; `fresh` if the state of the process may be the cause, so that a new one should retry.
Outcome = dict[str, Any]


@dataclass(frozen=True)
class Limits:
    """Limits of a job: megabytes and seconds (None for no limit), and number of threads."""

    megabytes: float | None = None
    seconds: float | None = None
    threads: int = 1


class JobProcess:
    """Process for jobs, started at the first job and restarted after a failure."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._process: subprocess.Popen[bytes] | None = None
        self._answers: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._closed, self._lock = False, threading.Lock()

    def run(self, request: dict[str, Any], *, fresh: bool = False) -> Outcome:
        """Run a job, in a new process if `fresh`, and return its outcome."""
        if self.limits.megabytes is not None and not can_read_memory():
            return failure(NO_MEMORY_LIMIT)
        if fresh:
            self.end()
        outcome = self._send(request)
        # The idle process may have timed out just as the request arrived.
        return self._send(request) if outcome.get("left") else outcome

    def _send(self, request: dict[str, Any]) -> Outcome:
        began, peak = time.perf_counter(), 0.0
        process = self._begun()
        try:
            assert process.stdin is not None
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
        except OSError:  # the process ended between two jobs
            self.end()
            return failure("its process ended before the job began") | {"left": True}
        while True:
            with suppress(queue.Empty):
                answer = self._answers.get(timeout=_LOOK)
                if not answer:
                    return self._crashed(process) | {"seconds": time.perf_counter() - began}
                outcome: Outcome = json.loads(answer)
                outcome["seconds"] = round(time.perf_counter() - began, 3)
                # The process reports its exact peak; `peak` samples it with its children.
                outcome["peak_mb"] = max(outcome.get("peak_mb") or 0.0, peak) or None
                self._renew(process)
                return outcome
            peak = max(peak, _megabytes(process.pid))
            why = self._exceeded(time.perf_counter() - began, peak)
            if why:
                self.end()
                return failure(why) | {"seconds": round(time.perf_counter() - began, 3)}

    def _exceeded(self, seconds: float, megabytes: float) -> str:
        limits = self.limits
        if limits.seconds is not None and seconds > limits.seconds:
            return f"took more than {limits.seconds:g} s; use a longer --time-limit"
        if limits.megabytes is not None and megabytes > limits.megabytes:
            return f"took more than {limits.megabytes:g} MB; use a larger --memory-limit"
        return ""

    def _renew(self, process: subprocess.Popen[bytes]) -> None:
        """End a process that still holds much memory, so that the next job has its full limit."""
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
        environment = {**os.environ, **thread_limits(self.limits.threads)}
        environment["SUPPLE_COMPILE_AHEAD"] = "0"
        environment.pop("SUPPLE_PROGRESS", None)
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "supple.app.batch.job_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,  # so that its children end with it
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
            hint = "; the system may lack memory" if name == "SIGKILL" else ""
            return failure(f"its process was ended by {name}{hint}")
        return failure(f"its process exited with code {code}") | {"left": code == _LEFT}

    def end(self, *, closed: bool = False) -> None:
        """End the process and its job; with `closed`, no other process is started."""
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
        if process.stdin is not None:  # the listener closes the other pipe
            with suppress(OSError):
                process.stdin.close()


def _listen(pipe: IO[bytes], answers: queue.SimpleQueue[bytes]) -> None:
    with pipe:
        for line in pipe:
            answers.put(line)
    answers.put(b"")


def failure(line: str) -> Outcome:
    """Return the outcome of a job that failed with the message `line`."""
    return {"ok": False, "line": line, "warnings": []}


def can_read_memory() -> bool:
    """Return whether the system reports the memory of processes."""
    return _megabytes(os.getpid()) > 0


def _megabytes(pid: int) -> float:
    """Return the current memory of a process and its descendants in MB; 0 without /proc."""
    pages, todo = 0, [pid]
    while todo:
        process = todo.pop()
        with suppress(OSError, ValueError, IndexError):
            pages += int(Path(f"/proc/{process}/statm").read_text().split()[1])
            for thread in os.listdir(f"/proc/{process}/task"):  # children are listed by thread
                with suppress(OSError):
                    children = Path(f"/proc/{process}/task/{thread}/children").read_text()
                    todo += [int(word) for word in children.split()]
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6 if pages else 0.0


# Inside the process


def answer_to(request: dict[str, Any]) -> Outcome:
    """Run a request, and return its outcome; errors are outcomes as well."""
    from supple.app.batch.job_commands import build_model, clip_names, run_words

    with suppress(OSError):  # resets the peak memory, so that it is this job's
        Path("/proc/self/clear_refs").write_text("5")
    pictures: list[bytes] | None = [] if request.get("picture") else None
    outcome: Outcome = {"ok": True}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", SuppleWarning)
        try:
            if request["what"] == "clips":
                outcome["names"] = clip_names(request["source"])
            elif request["what"] == "model":
                path, outcome["kept"] = build_model(request["words"])
                outcome["path"] = None if path is None else str(path)
            else:
                outcome["figures"] = _plain(run_words(request["words"], pictures))
        except SuppleError as error:
            outcome = failure(_line(str(error)))
        except MemoryError:
            outcome = failure("not enough memory") | {"fresh": True}
        except Exception as error:
            outcome = failure(_line(f"{type(error).__name__}: {error}")) | {"fresh": True}
    warning_lines = [
        _line(str(each.message)) for each in caught if issubclass(each.category, SuppleWarning)
    ]
    outcome["warnings"] = list(dict.fromkeys(warning_lines))[:_MOST_WARNINGS]
    outcome["peak_mb"] = peak_megabytes()
    outcome["where"] = platform.node()
    if pictures:
        outcome["picture"] = base64.b64encode(pictures[0]).decode()
    return outcome


def _line(text: str) -> str:
    plain = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return plain[:_LONGEST]


def _plain(value: Any) -> Any:
    """Return a job's results as JSON values; numbers that are not finite become null."""
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, str | int | bool | None) else str(value)


def main() -> None:
    """Answer requests until standard input closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles interrupts
    # Output that libraries print goes to standard error, and is not read as an answer.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def listen() -> None:
        for line in sys.stdin.buffer:
            requests.put(line)
        if hasattr(os, "killpg") and os.getpgid(0) == os.getpid():
            os.killpg(0, signal.SIGKILL)  # with all children of a job
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
