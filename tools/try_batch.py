"""Run 200 small jobs one by one, in processes and on a local Dask cluster, and compare.

    python tools/try_batch.py [--characters 10] [--clips 5] [--fleshes 4] [--workers 4]
    python tools/try_batch.py --overhead 100     # jobs of 5 s, with the farm and without

Results must be the same bytes. The speed-up of `--jobs 2` over `--jobs 1` is measured in the order
1, 2, 1, which shows whether the machine slows down. Models are built before and do not count. All
files are in a temporary folder.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SMALL = ("tets=800", "modes=10", "poses=2")
FLESHES = ("firm", "normal", "soft", "jelly")


def main() -> None:
    """Run all measurements, and print figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--characters", type=int, default=10)
    parser.add_argument("--clips", type=int, default=5)
    parser.add_argument("--fleshes", type=int, default=4)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--overhead", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ |= {"SUPPLE_CACHE": str(folder / "cache"), "SUPPLE_COMPILE_AHEAD": "0"}
        figures = (
            overhead(folder, options.overhead) if options.overhead else compare(folder, options)
        )
    print(json.dumps(figures, indent=2))


def characters(folder: Path, count: int, clips: int) -> Path:
    """Write small rats with different names and a number of clips."""
    sys.path.insert(0, str(ROOT / "tests"))
    from helpers.rat_sample import write_rat

    (folder / "in").mkdir()
    rows = []
    for k in range(count):
        write_rat(folder / "in" / f"rat{k}.glb")
        parts = [
            {
                "source": f"in/rat{k}.glb",
                "motion": ("Run", "Idle")[c % 2],
                "rate": 24 + 6 * (c // 2),
            }
            for c in range(clips)
        ]
        rows += [part | {"output": f"rat{k}_{c}"} for c, part in enumerate(parts)]
    (folder / "jobs.json").write_text(json.dumps(rows))
    return folder / "jobs.json"


def batch(folder: Path, listed: Path, name: str, fleshes: int, *words: str) -> float:
    """Run a batch into a named folder; return the seconds."""
    settings = [f"--set=flesh={flesh}" for flesh in FLESHES[:fleshes]]
    settings += [f"--set={each}" for each in SMALL]
    began = time.perf_counter()
    supple("batch", str(listed), "-o", str(folder / name), *settings, *words, "--quiet")
    return time.perf_counter() - began


def supple(*words: str) -> None:
    """Run the command."""
    subprocess.run([sys.executable, "-m", "supple.cli.main", *words], check=True)


def results(folder: Path) -> dict[str, bytes]:
    """Return the characters in a folder."""
    return {each.name: each.read_bytes() for each in sorted(folder.glob("*.glb"))}


def compare(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Return times, and whether results are equal to those of single bakes."""
    listed = characters(folder, options.characters, options.clips)
    batch(folder, listed, "models", options.fleshes, "--jobs", "2")  # builds all models
    seconds = {
        name: batch(folder, listed, name, options.fleshes, *words)
        for name, words in (
            ("one", ("--jobs", "1", "--threads", "1")),
            ("two", ("--jobs", "2", "--threads", "1")),
            ("one_again", ("--jobs", "1", "--threads", "1")),
            ("dask", ("--cluster", "local", "--jobs", str(options.workers))),
        )
    }
    single = one_by_one(folder, listed, options.fleshes)
    same = {name: results(folder / name) == single for name in ("models", *seconds)}
    one = (seconds["one"] + seconds["one_again"]) / 2
    return {
        "jobs": len(single),
        "same_bytes": same,
        "seconds": {name: round(value, 2) for name, value in seconds.items()},
        "speed_up": round(one / seconds["two"], 3),
    }


def one_by_one(folder: Path, listed: Path, fleshes: int) -> dict[str, bytes]:
    """Return results of `supple bake` for each row and flesh, one process at a time."""
    from supple.cli.main import main as command

    (folder / "single").mkdir()
    for row in json.loads(listed.read_text()):
        for flesh in FLESHES[:fleshes]:
            target = folder / "single" / f"{row['output']}{f'_{flesh}' * (fleshes > 1)}.glb"
            words = ["bake", str(folder / row["source"]), "--motion", row["motion"], "--quiet"]
            words += ["--rate", str(row["rate"]), "--flesh", flesh, "-o", str(target)]
            command([*words, *(w for each in SMALL for w in ("--" + each).split("="))])
    return results(folder / "single")


def overhead(folder: Path, count: int) -> dict[str, Any]:
    """Return the overhead of the farm for sleeping jobs of 5 s, two at a time."""
    (folder / "in").mkdir()
    (folder / "custom").mkdir()
    (folder / "custom" / "sitecustomize.py").write_text(
        "import sys, time\n"
        "once = set()\n"
        "def heard(event, arguments):\n"
        "    name = str(arguments[0]) if event == 'open' else ''\n"
        "    ours = name.endswith('.obj') and 'job_process' in str(sys.orig_argv)\n"
        "    if ours and name not in once:\n"
        "        once.add(name)\n"
        "        time.sleep(5)\n"
        "sys.addaudithook(heard)\n"
    )
    for k in range(count):
        (folder / "in" / f"mesh{k}.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n")
    path = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(folder / "custom"), path]))
    began = time.perf_counter()
    supple(
        "batch",
        str(folder / "in"),
        "-o",
        str(folder / "out"),
        "--command",
        "info",
        "-q",
        "--jobs=2",
    )
    seconds = time.perf_counter() - began
    ideal = 5 * count / 2
    return {"jobs": count, "seconds": round(seconds, 2), "overhead": round(seconds / ideal - 1, 4)}


if __name__ == "__main__":
    main()
