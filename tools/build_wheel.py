"""Build the source archive and the wheels of Supple into dist/.

    python tools/build_wheel.py            # with compiled kernels, for this system and Python
    python tools/build_wheel.py --pure     # without; compiles at first use, on any system

The build uses a copy of the files in git, without caches and other untracked files.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from supple.compiled.shipped_code import X86_64_V3

ROOT = Path(__file__).resolve().parent.parent
#: Kernels do not use the C library, so this is the oldest platform of Numba's wheels.
PLATFORM = "manylinux_2_27_x86_64"

PACK = """
import sys
from pathlib import Path
from supple.compiled.ahead import mark_shipped
from supple.compiled.shipped_code import pack
made, folder = map(Path, sys.argv[1:])
print(f"{pack(made, folder)} entries")
mark_shipped(folder)
"""


def main() -> None:
    """Build the source archive and a wheel."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pure", action="store_true", help="wheel without compiled kernels")
    parser.add_argument("--into", type=Path, default=ROOT / "dist", help="folder; dist by default")
    options = parser.parse_args()
    if not options.pure and (sys.platform, platform.machine()) != ("linux", "x86_64"):
        sys.exit("kernels can be built on Linux on x86-64 only; use --pure")
    options.into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "supple"
        _copy(tree)
        _run("build", "--no-isolation", "--sdist", "--outdir", options.into, ".", within=tree)
        if not options.pure:
            _compile(tree)
        made = Path(folder) / "dist"
        _run("build", "--no-isolation", "--wheel", "--outdir", made, ".", within=tree)
        (wheel,) = made.glob("*.whl")
        if not options.pure:
            tag = f"cp{sys.version_info[0]}{sys.version_info[1]}"
            tags = "--python-tag", tag, "--abi-tag", tag, "--platform-tag", PLATFORM
            _run("wheel", "tags", "--remove", *tags, wheel, within=tree)
            (wheel,) = made.glob("*.whl")
        target = options.into / wheel.name
        shutil.copyfile(wheel, target)
    files = [*options.into.glob("*.tar.gz"), target]
    _run("twine", "check", "--strict", *files, within=ROOT)
    for file in files:
        print(f"{file.name}  {file.stat().st_size / 1e6:.1f} MB")


def _copy(tree: Path) -> None:
    """Copy the files in git, or all files of an unpacked source archive."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode or "pyproject.toml" not in listed.stdout.split("\0"):
        shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns("__pycache__", ".venv", "dist"))
        return
    for name in filter(None, listed.stdout.split("\0")):
        target = tree / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, target)


def _compile(tree: Path) -> None:
    """Compile all kernels for x86-64-v3 into the package."""
    made = tree.parent / "made"
    environment = {**os.environ, **X86_64_V3, "PYTHONPATH": str(tree / "src")}
    environment["NUMBA_CACHE_DIR"] = str(made)
    for command in (
        ("-c", "from supple.cli.main import main; main()", "compile"),
        ("-c", PACK, str(made), str(tree / "src/supple/kernels")),
    ):
        subprocess.run([sys.executable, *command], cwd=tree, env=environment, check=True)


def _run(module: str, *arguments: object, within: Path) -> None:
    subprocess.run([sys.executable, "-m", module, *map(str, arguments)], cwd=within, check=True)


if __name__ == "__main__":
    main()
