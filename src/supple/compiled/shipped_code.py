"""Compiled code in the package, for a class of processors.

A wheel may contain a folder `kernels` with entries and `target.json`, the target that they were
compiled for. Entries are used if this machine can run them and their names match; otherwise code is
compiled here. `tools/build_wheel.py` fills the folder: it compiles with the settings of `X86_64_V3`
and an empty `NUMBA_CACHE_DIR`, then packs that folder with the same settings.
"""

from __future__ import annotations

import json
import shutil
from functools import cache
from pathlib import Path
from typing import Any

from llvmlite import binding

_FEATURES = (
    "64bit cmov crc32 cx8 cx16 fxsr mmx sahf popcnt sse sse2 sse3 ssse3 sse4.1 sse4.2 avx avx2 bmi"
    " bmi2 f16c fma lzcnt movbe xsave"
)
#: Settings of Numba for processors with AVX2 and FMA: most since 2013.
X86_64_V3 = {
    "NUMBA_CPU_NAME": "x86-64-v3",
    "NUMBA_CPU_FEATURES": ",".join(f"+{name}" for name in _FEATURES.split()),
}
_TARGET, ENTRY = "target.json", ".nbc"


def shipped_folder() -> Path:
    """Return the folder of the package's compiled code, which may not exist."""
    return Path(__file__).resolve().parent.parent / "kernels"


@cache
def shipped_target() -> tuple[str, ...] | None:
    """Return the target of the package's compiled code; None if it cannot run here."""
    try:
        target = tuple(json.loads((shipped_folder() / _TARGET).read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    return target if can_run(target) else None


def can_run(target: tuple[Any, ...]) -> bool:
    """Return whether this machine can run code for a target: system, processor, features."""
    if len(target) != 3 or not all(isinstance(each, str) for each in target):
        return False
    host = binding.get_host_cpu_features()
    needed = {each[1:] for each in target[2].split(",") if each.startswith("+")}
    return target[0] == binding.get_process_triple() and all(host.get(each) for each in needed)


def pack(made: Path, folder: Path) -> int:
    """Copy entries into a folder of the package; return their number."""
    from numba.core.registry import cpu_target

    folder.mkdir(parents=True, exist_ok=True)
    entries = sorted(made.rglob(f"*{ENTRY}"))
    for entry in entries:
        shutil.copyfile(entry, folder / entry.name)
    target = cpu_target.target_context.codegen().magic_tuple()
    (folder / _TARGET).write_text(json.dumps(target), "utf-8")
    return len(entries)
