"""Options of `supple batch`: the command line fills them, and passes them on."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from supple.engines.options import Flag, Words
from supple.errors import SuppleError


@dataclass(frozen=True)
class BatchOptions:
    """Options of `supple batch`; for None there is a default."""

    command: Literal["bake", "curves", "build", "info"] = "bake"
    """Command that each job runs; rows of a list may say another."""
    set: Annotated[list[str] | None, Parameter(negative="")] = None
    """Option of that command, NAME=VALUE, such as flesh=soft; given again with another value, there
    is a job for each."""
    clips: Words = None
    """Clips, with a job for each: names, patterns such as 'Run*', all, or files with motions of
    body models; by default the one that the command chooses."""
    suffix: str | None = None
    """Ending of results, such as .abc; by default that of the source."""
    jobs: int | None = None
    """Number of jobs at once on this machine, each with its part of the cores; by default as many
    as there are cores."""
    threads: int | None = None
    """Number of threads of each job; by default cores by jobs, and 1 on a cluster."""
    cluster: str | None = None
    """Dask cluster to run on: the address of its scheduler, such as tcp://10.0.0.1:8786, a
    scheduler's file (.json), or local for --jobs workers here."""
    files: Literal["auto", "shared", "sent"] = "auto"
    """Files of characters: shared with machines of a cluster, or sent to them; auto asks them."""
    tls_ca: Path | None = None
    """TLS for the cluster: file of the authority (.pem)."""
    tls_cert: Path | None = None
    """File of our certificate."""
    tls_key: Path | None = None
    """File of its key."""
    memory_limit: float | None = None
    """Megabytes that a job may take."""
    time_limit: float | None = None
    """Seconds that a job may take."""
    dry_run: Flag = False
    """List what would be done, and do nothing."""
    retry_failed: Flag = False
    """Try jobs once more that failed the last time."""
    since: str | None = None
    """Only sources that have changed since: a date, 2026-11-17 or 2026-11-17T18:30, or a time ago,
    such as 90m, 12h or 3d."""

    def __post_init__(self) -> None:
        """Refuse numbers that are none."""
        for name in ("jobs", "threads", "memory_limit", "time_limit"):
            value = getattr(self, name)
            if value is not None and not 0 < value <= 1e9:  # nor NaN
                raise SuppleError(f"--{name.replace('_', '-')} is {value:g}; use more than 0")
        if self.suffix is not None and not re.fullmatch(r"\.\w{1,10}", self.suffix):
            raise SuppleError(f"--suffix {self.suffix[:20]}: use an ending such as .glb")


def changed_since(word: str) -> float:
    """Return the time, in seconds of the system's clock, that a word such as 3d or a date means."""
    found = re.fullmatch(r"(\d{1,6}(?:\.\d{1,3})?)([smhdw])", word.strip())
    if found:
        unit = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}[found[2]]
        return time.time() - float(found[1]) * unit
    try:
        return datetime.fromisoformat(word.strip()).timestamp()
    except (ValueError, OverflowError):
        raise SuppleError(
            f"--since {word[:40]}: use a date, such as 2026-11-17, or a time ago, such as 3d"
        ) from None
