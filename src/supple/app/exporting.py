"""`supple export`: a model's step for programs without Python, with a compiled runtime."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from supple.compiled.memory_image import memory_image
from supple.compiled.portable_code import TARGETS, Target, object_code
from supple.compiled.program import Program
from supple.engines.engine import ENGINES
from supple.engines.factory import load_model
from supple.errors import SuppleError, warn
from supple.playback.progress_bar import console, working
from supple.saving import write_whole
from supple.user_cache import CacheKind, cached

#: Suffix of the files of programs, and what follows the name of a file for WebAssembly.
LIVE, WEB = ".live", ".web"


@dataclass(frozen=True)
class Package:
    """Files that are exported for a target."""

    target: Target
    #: Name of the compiled runtime.
    runtime: str
    #: Files of the folder of sources.
    sources: tuple[str, ...]
    #: Options of the C compiler; none if objects are not linked.
    options: tuple[str, ...] = ()


_VISIBLE = '-DSUPPLE_API=__attribute__((visibility("default")))'
_C = ("-std=c11", "-O2", "-fvisibility=hidden", _VISIBLE, "-fno-sanitize=all")
PACKAGES = {
    "c": Package(
        TARGETS["linux-x86_64"],
        "supple_kernels.o",
        ("supple_runtime.h", "supple_runtime.c", "example.c"),
    ),
    "linux-x86_64": Package(
        TARGETS["linux-x86_64"],
        "libsupple_runtime.so",
        ("supple_runtime.h", "example.c"),
        (*_C, "-target", "x86_64-linux-gnu.2.17", "-shared", "-fPIC", "-s"),
    ),
    "web": Package(
        TARGETS["web"],
        "supple.wasm",
        ("supple.js", "supple.d.ts", "package.json"),
        (
            *_C,
            *("-target", "wasm32-wasi", "-mexec-model=reactor", "-msimd128", "-mbulk-memory"),
            *(
                "-Wl,--export-dynamic",
                "-Wl,--export=__heap_base",
                "-Wl,-z,stack-size=1048576",
                "-s",
            ),
        ),
    ),
}


def run_export(
    models: Sequence[Path],
    output: Path,
    target: str = "linux-x86_64",
    dt: float | None = None,
    *,
    quiet: bool = False,
) -> dict[str, Any]:
    """Write models and a runtime for a target into a folder; return names and sizes of files.

    All models of one call share the runtime.
    """
    package = PACKAGES[target]
    if not models:
        raise SuppleError("give one or more .supple files; supple build writes them")
    names = [path.stem for path in models]
    for name in names:
        if names.count(name) > 1:
            raise SuppleError(f"two models are named {name}; export them into different folders")
    if package.options and find_spec("ziglang") is None:
        raise SuppleError(
            f"--target {target} needs a linker: pip install 'supple[live]', or use --target c"
        )
    with working("reading", quiet):
        programs = [_program(path, dt) for path in models]
    with working(f"compiling for {target}", quiet):
        runtime = compiled_runtime(programs, package)
    ending = WEB + LIVE if target == "web" else LIVE
    folder = source_folder()
    contents = {
        f"{name}{ending}": memory_image(program, package.target.pointer)
        for name, program in zip(names, programs, strict=True)
    }
    contents |= {name: (folder / name).read_bytes() for name in package.sources}
    contents[package.runtime] = runtime
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SuppleError(f"{output}: cannot be made ({error.strerror})") from None
    for name, data in contents.items():
        write_whole(output / name, data)
    others = sorted(
        each.name
        for each in output.glob(f"*{LIVE}")
        if each.name.endswith(WEB + LIVE) == (target == "web") and each.name not in contents
    )
    if others:
        warn(f"{output}: the new runtime may not run {others[0]}; export all models in one call")
    if not quiet:
        console.print(f"wrote {', '.join(contents)} to {output}")
    sizes = {name: len(data) for name, data in contents.items()}
    return {"output": str(output), "target": target, "bytes": sizes}


def _program(path: Path, dt: float | None) -> Program:
    model = load_model(path)
    try:
        program: Program = ENGINES[model.engine].step_program(model, dt)
    except SuppleError as error:
        raise SuppleError(f"{path.name}: {error}") from None
    return program


def source_folder() -> Path:
    """Return the folder of the runtime's sources, in a wheel or in a clone."""
    here = Path(__file__).resolve().parent
    for folder in (here / "runtime", here.parents[2] / "runtime"):
        if (folder / "supple_runtime.h").is_file():
            return folder
    raise SuppleError("the runtime's sources are missing; install Supple again")


def compiled_runtime(programs: Sequence[Program], package: Package) -> bytes:
    """Return the compiled runtime of some programs, from the user's cache if it is there."""
    calls = {call.name: call for program in programs for call in program.calls}
    code = _kept(
        ".o",
        [package.target.triple, *sorted(calls)],
        lambda: object_code(calls.values(), package.target),
    )
    if not package.options:
        return code
    source, header = (source_folder() / f"supple_runtime.{suffix}" for suffix in "ch")
    parts = [code, source.read_bytes(), header.read_bytes(), repr(package.options).encode()]
    digests = [hashlib.sha256(part).hexdigest() for part in parts]
    return _kept(Path(package.runtime).suffix, digests, lambda: _linked(code, package))


def _kept(suffix: str, key: Sequence[str], make: Callable[[], bytes]) -> bytes:
    kind: CacheKind[bytes] = CacheKind(suffix, ("compiled",), Path.read_bytes, write_whole, most=8)
    label = hashlib.sha256("\n".join(key).encode()).hexdigest()[:32]
    data: bytes = cached(kind, "runtime", make, label).value
    return data


def _linked(code: bytes, package: Package) -> bytes:
    """Compile the runtime's C source and link it with an object file."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "kernels.o").write_bytes(code)
        result = folder / package.runtime
        command = [sys.executable, "-P", "-m", "ziglang", "cc", *package.options, "-o", str(result)]
        command += [str(source_folder() / "supple_runtime.c"), str(folder / "kernels.o"), "-lm"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            lines = [line for line in done.stderr.splitlines() if "error" in line] or ["no message"]
            raise SuppleError(f"linking the runtime failed: {lines[0].strip()}")
        return result.read_bytes()
