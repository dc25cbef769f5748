"""Install the wheel in dist/ as a user would, and bake a small character with it.

    python tools/try_wheel.py [FILE]

The environment is empty. The installation uses a folder of wheels that is downloaded before, and
no network. Nothing may be compiled during the bake.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Numba reports every compilation; the command itself is unchanged.
BAKE = """
import sys
from numba.core import event
compiled = []
class Listener(event.Listener):
    def on_start(self, event): compiled.append(event.data["dispatcher"].py_func.__qualname__)
    def on_end(self, event): pass
event.register("numba:compile", Listener())
from supple.cli.main import main
sys.argv = ["supple", "bake", sys.argv[1], "-o", "soft.glb", "--quiet"]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
assert not compiled, f"{len(compiled)} functions were compiled: {compiled[:5]}"
"""


def main() -> None:
    """Install the wheel, and bake."""
    wheels = sorted((ROOT / "dist").glob("*-manylinux*.whl"), key=lambda each: each.stat().st_mtime)
    if not wheels:
        sys.exit("there is no wheel in dist; make wheel builds it")
    wheel = wheels[-1]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        character = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else _tail(folder)
        fetched, home = folder / "wheels", folder / "env"
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
        pinned = ["--constraint", str(ROOT / "constraints.txt")]
        _timed("fetching", [*pip, "download", "--dest", str(fetched), *pinned, str(wheel)], folder)
        venv.create(home, with_pip=True)
        python = str(home / "bin" / "python")
        offline = ["--no-compile", "--no-index", "--find-links", str(fetched)]
        install = [python, *pip[1:], "install", *offline, *pinned, "supple"]
        _timed("installing", install, folder)
        _timed("baking", [python, "-c", BAKE, str(character)], folder)
        if not (folder / "soft.glb").stat().st_size:
            sys.exit("the wheel baked nothing")


def _tail(folder: Path) -> Path:
    sys.path.insert(0, str(ROOT / "tests"))
    from helpers.tail_file import tail_file

    return tail_file(folder / "tail.glb")


def _timed(name: str, command: list[str], folder: Path) -> None:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "NUMBA", "SUPPLE"))}
    began = time.perf_counter()
    caches = {"XDG_CACHE_HOME": str(folder / "cache")}
    subprocess.run(command, cwd=folder, env=clean | caches, check=True)
    print(f"{name}: {time.perf_counter() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
