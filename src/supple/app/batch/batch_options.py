"""Options of `supple batch`."""

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
    """Options of `supple batch`; None selects the default."""

    command: Literal["bake", "curves", "build", "info"] = "bake"
    """Command that each job runs; a row of a list may name another."""
    set: Annotated[list[str] | None, Parameter(negative="")] = None
    """Option of that command, NAME=VALUE, such as flesh=soft. Repeat it with other values to run
    one job per value."""
    clips: Words = None
    """Clips, one job per clip: names, patterns such as 'Run*', all, or motion files of body models;
    by default the clip that the command chooses."""
    suffix: str | None = None
    """File extension of results, such as .abc; by default the source's extension."""
    jobs: int | None = None
    """Number of parallel jobs on this machine, which share the cores; by default one per core."""
    threads: int | None = None
    """Number of threads per job; by default the number of cores divided by --jobs, and 1 on a
    cluster."""
    cluster: str | None = None
    """Dask cluster to run on: the address of its scheduler, such as tcp://10.0.0.1:8786, a
    scheduler file (.json), or local for --jobs workers on this machine."""
    files: Literal["auto", "shared", "sent"] = "auto"
    """Character files are on a disk shared with the cluster, or sent to it; auto detects which."""
    tls_ca: Path | None = None
    """TLS for the cluster: certificate authority file (.pem)."""
    tls_cert: Path | None = None
    """TLS for the cluster: client certificate file."""
    tls_key: Path | None = None
    """TLS for the cluster: file of the certificate's private key."""
    memory_limit: float | None = None
    """Largest memory of a job, in megabytes."""
    time_limit: float | None = None
    """Longest duration of a job, in seconds."""
    dry_run: Flag = False
    """List the missing jobs and exit."""
    retry_failed: Flag = False
    """Run jobs again that failed in an earlier run."""
    since: str | None = None
    """Only run jobs whose sources changed since a date, such as 2026-11-17 or 2026-11-17T18:30, or
    within a period, such as 90m, 12h or 3d."""

    def __post_init__(self) -> None:
        """Refuse numbers that are not positive, and malformed suffixes."""
        for name in ("jobs", "threads", "memory_limit", "time_limit"):
            value = getattr(self, name)
            if value is not None and not 0 < value <= 1e9:  # nor NaN
                raise SuppleError(f"--{name.replace('_', '-')} is {value:g}; use more than 0")
        if self.suffix is not None and not re.fullmatch(r"\.\w{1,10}", self.suffix):
            raise SuppleError(f"--suffix {self.suffix[:20]}: use an extension such as .glb")


def parse_since(text: str) -> float:
    """Parse a date, or a period before now such as 3d, as seconds since the epoch."""
    period = re.fullmatch(r"(\d{1,6}(?:\.\d{1,3})?)([smhdw])", text.strip())
    if period:
        unit = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}[period[2]]
        return time.time() - float(period[1]) * unit
    try:
        return datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError):
        raise SuppleError(
            f"--since {text[:40]}: use a date, such as 2026-11-17, or a period, such as 3d"
        ) from None
