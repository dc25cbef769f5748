"""Measure memory and processor load of the viewer's server for minutes.

``python tests/helpers/soak_viewer.py MODEL.supple [MINUTES]``. Not a test: it takes as long
as it is told. One guest stays, another comes and goes every few seconds; the server is a process of
its own.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from helpers.viewer_guest import Guest

COMMAND = """
import signal, sys
from supple.cli.main import main
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started us may ignore it
main(sys.argv[1:])
"""
TICKS = os.sysconf("SC_CLK_TCK")


def used(process: int) -> tuple[float, float, int]:
    """Return processor time in s, memory in MB, and the number of threads."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    seconds = (int(fields[11]) + int(fields[12])) / TICKS
    return seconds, pages * os.sysconf("SC_PAGE_SIZE") / 2**20, int(fields[17])


def come_and_go(address: str, ended: threading.Event) -> None:
    """Connect as a client for three seconds, repeatedly."""
    while not ended.wait(2.0):
        with Guest(address) as guest:
            guest.look()
            guest.count(3.0)


def soak(model: str, minutes: float) -> None:
    """Print a line every half minute."""
    words = ["view", model, "--port", "0", "--quiet"]
    running = subprocess.Popen(
        [sys.executable, "-c", COMMAND, *words], stdout=subprocess.PIPE, text=True
    )
    assert running.stdout is not None
    address = running.stdout.readline().strip()
    ended = threading.Event()
    visitor = threading.Thread(target=come_and_go, args=(address, ended))
    visitor.start()
    began, every = time.monotonic(), min(30.0, 15 * minutes)
    with Guest(address) as guest:
        guest.look()
        guest.count(2.0)
        while time.monotonic() - began < 60 * minutes:
            before, _, _ = used(running.pid)
            start = time.monotonic()
            got = guest.count(every)
            seconds = time.monotonic() - start
            after, megabytes, threads = used(running.pid)
            share = 100 * (after - before) / seconds
            parts = [
                f"{time.monotonic() - began:.0f} s: {share:.1f} % of a core",
                f"{megabytes:.1f} MB in memory",
                f"{threads} threads",
                f"{got['/soft/0'] / seconds:.1f} updates a second",
                f"{got['bytes'] / seconds / 1e6:.1f} MB/s",
            ]
            print(", ".join(parts), flush=True)
        ended.set()
    visitor.join()
    running.send_signal(signal.SIGINT)
    print(f"ended with {running.wait(30)}")


if __name__ == "__main__":
    soak(sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 5.0)
