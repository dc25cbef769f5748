"""`supple doctor`: what this installation has, what it lacks, and how to get that."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from supple.app.blender_setup import run_blender
from supple.app.compiling import where_compiled
from supple.errors import SuppleError
from supple.user_cache import cache_folder

#: Optional libraries: module, Supple's extra that installs it, and what needs it.
EXTRAS = (
    ("pxr", "usd", "USD files (.usd, .usda, .usdc, .usdz)"),
    ("DracoPy", "draco", "glTF files with Draco compression"),
    ("alembic3d", "alembic", "Alembic files (.abc)"),
    ("imageio_ffmpeg", "video", "videos as .mp4 and .webm"),
    ("ziglang", "live", "supple export for Linux and web pages"),
    ("distributed", "cluster", "supple batch --cluster"),
)
#: Megabytes of free memory below which the largest examples do not fit.
LITTLE_MEMORY = 4_000


def run_doctor(quiet: bool = False) -> dict[str, Any]:
    """Return versions, machine, folders and extras, and a list of problems with remedies."""
    figures: dict[str, Any] = {
        "versions": _versions(),
        "machine": _machine(),
        "cache": _cache(),
        "compiled": where_compiled(),
        "extras": [
            {"extra": extra, "for": use, "installed": find_spec(module) is not None}
            for module, extra, use in EXTRAS
        ],
        "blender": _blender(quiet),
    }
    return figures | {"problems": list(_problems(figures))}


def _versions() -> dict[str, str]:
    """Return the versions of Supple, Python and the libraries that Supple requires."""
    names = [
        each.split(";")[0].split(">")[0].split("<")[0].split("=")[0].strip()
        for each in requires("supple") or []
        if "extra ==" not in each
    ]
    versions = {"supple": version("supple"), "python": platform.python_version()}
    for name in [*names, "llvmlite"]:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "missing"
    return versions


def _machine() -> dict[str, Any]:
    """Return system, processor, usable cores, and free memory in megabytes where it is known."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = None
    if hasattr(os, "sysconf") and "SC_AVPHYS_PAGES" in os.sysconf_names:
        memory = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 1_000_000
        memory = _available() or memory
    return {
        "system": f"{platform.system()} {platform.release()}",
        "processor": platform.machine(),
        "cores": cores,
        "free_memory_mb": memory,
    }


def _available() -> int | None:
    """Return the memory in megabytes that Linux can give without swapping."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("MemAvail")) // 1000
    except (OSError, StopIteration, ValueError):
        return None


def _cache() -> dict[str, Any]:
    """Return the folder of cached models, its size, and whether it can be written."""
    try:
        folder = cache_folder()
    except RuntimeError:
        return {"folder": None, "files": 0, "megabytes": 0.0, "writable": False}
    sizes: list[int] = []
    with suppress(OSError):  # a folder that cannot be read
        sizes = [file.stat().st_size for file in folder.rglob("*") if file.is_file()]
    return {
        "folder": str(folder),
        "files": len(sizes),
        "megabytes": round(sum(sizes) / 1e6, 1),
        "writable": _writable(folder),
    }


def _writable(folder: Path) -> bool:
    """Return whether a file can be created in a folder, or in the nearest one that exists."""
    try:
        existing = next((each for each in (folder, *folder.parents) if each.exists()), None)
        if existing is None or not existing.is_dir():
            return False
        with tempfile.TemporaryFile(dir=existing):
            return True
    except OSError:
        return False


def _blender(quiet: bool) -> dict[str, Any]:
    """Return the Blender that reads .blend and .fbx files; its program is None without one."""
    try:
        return run_blender(quiet=quiet)
    except (SuppleError, RuntimeError) as error:
        return {"program": None, "error": str(error)}


def _problems(figures: dict[str, Any]) -> Iterator[dict[str, str]]:
    """Yield what is wrong, each with what to do; missing extras are no problem."""
    for name, each in figures["versions"].items():
        if each == "missing":
            yield _problem(f"{name} is not installed", "pip install --force-reinstall supple")
    memory, cache = figures["machine"]["free_memory_mb"], figures["cache"]
    if memory is not None and memory < LITTLE_MEMORY:
        remedy = "close programs, or use fewer tets (--tets 4000)"
        yield _problem(f"{memory} MB of memory are free; large characters need more", remedy)
    if cache["folder"] is None:
        yield _problem("there is no home folder, so no model is kept", "set SUPPLE_CACHE")
    elif not cache["writable"]:
        remedy = "set SUPPLE_CACHE to a folder that can be written"
        yield _problem(f"{cache['folder']} cannot be written, so no model is kept", remedy)
    if not figures["compiled"]["files"]:
        remedy = "run supple compile, or wait: the first command compiles what it needs"
        yield _problem("no function is compiled yet", remedy)
    if "error" in figures["blender"]:
        yield _problem(f"Blender does not start: {figures['blender']['error']}", "supple blender")
    if figures["machine"]["processor"] not in ("x86_64", "AMD64", "arm64", "aarch64"):
        remedy = "report what fails, with this text"
        yield _problem("Supple was never tried on this kind of processor", remedy)
    if sys.maxsize < 2**32:
        yield _problem("this Python has 32 bits", "install a Python with 64 bits")


def _problem(what: str, remedy: str) -> dict[str, str]:
    return {"problem": what, "remedy": remedy}


def print_doctor(figures: dict[str, Any]) -> None:
    """Print the result of `run_doctor` as lines to read or to paste into a report."""
    versions, machine, cache = figures["versions"], figures["machine"], figures["cache"]
    print(", ".join(f"{name} {each}" for name, each in versions.items()))
    memory = machine["free_memory_mb"]
    free = "" if memory is None else f", {memory / 1000:.1f} GB of memory free"
    print(f"{machine['system']}, {machine['processor']}, {machine['cores']} cores{free}")
    print(f"cache: {cache['folder']}, {cache['files']} files, {cache['megabytes']} MB")
    compiled = figures["compiled"]
    print(f"compiled functions: {compiled['files']} files, {compiled['megabytes']} MB")
    for each in figures["extras"]:
        state = "installed" if each["installed"] else f"pip install 'supple[{each['extra']}]'"
        print(f"{each['for']}: {state}")
    program = figures["blender"]["program"]
    print(f".blend and .fbx files: {program or 'no Blender; see supple blender'}")
    for each in figures["problems"]:
        print(f"problem: {each['problem']}; {each['remedy']}")
    if not figures["problems"]:
        print("no problem found")
