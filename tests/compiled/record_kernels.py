"""Write `src/supple/compiled/kernels.txt` anew: what Python calls, for each of these commands.

Run it from the repository after kernels or their arguments have changed:

    .venv/bin/python tests/compiled/record_kernels.py [JOB …]
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from helpers.tail_file import tail_file  # noqa: E402

LIST = ROOT / "src/supple/compiled/kernels.txt"
SMALL = ["--tets", "1500", "--quiet"]
JOBS = {
    "demo": [["demo", *SMALL]],
    "bake": [
        *(
            ["bake", f"{{assets}}/{name}", *SMALL]
            for name in (
                "gltf_characters/q_Rat.glb",
                "gltf_characters/mh_heavy_male_jump.glb",
                "gltf_characters/CesiumMan.glb",
            )
        ),
        ["bake", "{tail}", *SMALL],
        ["bake", "{tail}", "--report", "page.html", *SMALL],
        ["bake", "x", *SMALL],
    ],
    "curves": [["curves", "{tail}", "--free", "tail*", "--quiet"]],
    "build": [["build", "x", *SMALL]],
    "stvk": [["stvk", "spoon", "--quiet"]],
}
RECORDER = """
import sys
from supple.compiled.kernel_dispatcher import KernelDispatcher
from supple.compiled.listed_kernels import kernel_line
from supple.compiled.listed_kernels import place_of, thing_at
plain = KernelDispatcher.add_overload

def add_overload(self, cres):
    plain(self, cres)
    try:
        place = place_of(self.py_func)
        if thing_at(place) is not self:
            return
        args = tuple(cres.signature.args)
        lines.append((self, args, place))
    except (ValueError, AttributeError, ImportError):
        pass  # made while the program runs: compiled when it is called

job, out, lines = sys.argv[1], sys.argv[2], []
KernelDispatcher.add_overload = add_overload
from supple.cli.main import main
try:
    main(sys.argv[3:])
finally:
    with open(out, "a") as file:
        for dispatcher, args, place in lines:
            try:
                file.write(kernel_line(dispatcher.files.entry_size(args) / 1e5, [job], place, args))
                file.write("\\n")
            except ValueError as error:
                print(place, error)
"""


def record(job: str, out: Path) -> None:
    """Run the commands of a job, each in an empty folder, and note what they call."""
    assets = os.environ.get("SUPPLE_ASSETS") or str(ROOT / "../shared/assets")
    for words in JOBS[job]:
        with TemporaryDirectory() as folder:
            tail = tail_file(Path(folder) / "tail.glb")
            arguments = [word.format(assets=assets, tail=tail) for word in words]
            subprocess.run(
                [sys.executable, "-W", "ignore", "-c", RECORDER, job, str(out), *arguments],
                cwd=folder,
                env=os.environ | {"SUPPLE_CACHE": folder, "SUPPLE_COMPILE_AHEAD": "0"},
                check=True,
            )


def main(names: list[str]) -> None:
    kept: dict[str, tuple[float, set[str]]] = {}
    if names:  # the others stay as they are
        _gather(LIST, kept, leave=frozenset(names))
    with TemporaryDirectory() as folder:
        out = Path(folder) / "lines"
        for job in names or JOBS:
            record(job, out)
        _gather(out, kept)
    lines = [
        f"{weight:.2f} {','.join(sorted(names))} {what}"
        for what, (weight, names) in sorted(kept.items())
    ]
    LIST.write_text("# Written by tests/compiled/record_kernels.py\n" + "\n".join(lines) + "\n")
    print(f"{len(lines)} kernels in {LIST}")


def _gather(path: Path, kept: dict, leave: frozenset[str] = frozenset()) -> None:
    for line in path.read_text().splitlines():
        if not line.startswith("#"):
            weight, jobs, what = line.split(" ", 2)
            names = kept.get(what, (0.0, set()))[1] | (set(jobs.split(",")) - leave)
            if names:
                kept[what] = (float(weight), names)


if __name__ == "__main__":
    main(sys.argv[1:])
