"""Memory of this process, and its highest since it was last asked: Linux tells both."""

from __future__ import annotations

from pathlib import Path

__all__ = ["peak_memory", "reset_peak", "resident"]

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def _field(name: str) -> float:
    try:
        text = STATUS.read_text()
    except OSError:  # no Linux: nothing is measured
        return 0.0
    return int(text.split(f"{name}:")[1].split()[0]) / 1024


def resident() -> float:
    """Return megabytes in memory."""
    return _field("VmRSS")


def peak_memory() -> float:
    """Return the most megabytes since `reset_peak`."""
    return _field("VmHWM")


def reset_peak() -> float:
    """Forget the peak; megabytes in memory now."""
    try:
        CLEAR.write_text("5")
    except OSError:
        return peak_memory()
    return resident()
