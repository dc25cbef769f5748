"""Compiled code that comes with the package, made for a kind of processors rather than for one.

A wheel may carry a folder `kernels` in the package: entries, and `target.json`, which says what
they were compiled for. They are used where this machine can run them and their names fit; otherwise
code is compiled here. `tools/build_wheel.py` fills the folder: it compiles with the settings of
`X86_64_V3` and with `NUMBA_CACHE_DIR` at an empty folder, then packs that, with the same settings.
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
#: Settings of Numba for processors with AVX2 and FMA, which most since 2013 have.
X86_64_V3 = {
    "NUMBA_CPU_NAME": "x86-64-v3",
    "NUMBA_CPU_FEATURES": ",".join(f"+{name}" for name in _FEATURES.split()),
}
_TARGET, ENTRY = "target.json", ".nbc"


def shipped_folder() -> Path:
    """Return the folder of code that comes with the package, whether or not it is there."""
    return Path(__file__).resolve().parent.parent / "kernels"


@cache
def shipped_target() -> tuple[str, ...] | None:
    """Return what the code that came with the package is for; None if it cannot run here."""
    try:
        target = tuple(json.loads((shipped_folder() / _TARGET).read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    return target if can_run(target) else None


def can_run(target: tuple[Any, ...]) -> bool:
    """Tell whether this machine can run code for a target: system, processor, features."""
    if len(target) != 3 or not all(isinstance(each, str) for each in target):
        return False
    here = binding.get_host_cpu_features()
    needed = {each[1:] for each in target[2].split(",") if each.startswith("+")}
    return target[0] == binding.get_process_triple() and all(here.get(each) for each in needed)


def pack(made: Path, folder: Path) -> int:
    """Copy entries that this process would find into a folder to be shipped; return how many."""
    from numba.core.registry import cpu_target

    folder.mkdir(parents=True, exist_ok=True)
    entries = sorted(made.rglob(f"*{ENTRY}"))
    for entry in entries:
        shutil.copyfile(entry, folder / entry.name)
    target = cpu_target.target_context.codegen().magic_tuple()
    (folder / _TARGET).write_text(json.dumps(target), "utf-8")
    return len(entries)
