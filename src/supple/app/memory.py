"""How much memory this process has had."""

from __future__ import annotations

from pathlib import Path

__all__ = ["peak_megabytes"]


def peak_megabytes() -> float | None:
    """The most it has had at once; None where the system does not tell."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return None
    # Not getrusage's figure, which a new process inherits from the one that started it.
    return int(status.split("VmHWM:")[1].split()[0]) / 1024
