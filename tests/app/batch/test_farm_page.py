"""Blocks of docs/farm.md that need a cluster: run with one here, and a queue beside it."""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.batch_samples import journal_lines
from helpers.commands import run_here
from helpers.rat_sample import write_rat

pytest.importorskip("distributed", reason="needs pip install 'supple[cluster]'")

ROOT = Path(__file__).parents[3]
SMALL = ("--set", "tets=400", "--set", "modes=6", "--set", "poses=2", "--quiet")
TEXT = re.findall(r"^```text\n(.*?)^```$", (ROOT / "docs/farm.md").read_text(), re.M | re.S)
#: A queue that runs what it gets at once, as SLURM's commands would tell of it.
SBATCH = """#!/bin/sh
cp "$1" "$QUEUE.$$"
setsid sh "$QUEUE.$$" > /dev/null 2>&1 &
echo $! >> "$QUEUE"
echo "Submitted batch job $!"
"""
SCANCEL = '#!/bin/sh\nkill -- -"$1"\n'


@pytest.fixture
def rats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to be in, with a character in `rats` and programs of this Python at hand."""
    (tmp_path / "rats").mkdir()
    write_rat(tmp_path / "rats" / "rat.glb")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bin").mkdir()
    found = os.pathsep.join([str(tmp_path / "bin"), str(Path(sys.executable).parent)])
    monkeypatch.setenv("PATH", f"{found}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes that are ended, with what they have started."""
    found: list[subprocess.Popen[bytes]] = []
    yield found
    for each in reversed(found):
        os.killpg(each.pid, signal.SIGKILL)
        each.wait()


def run(words: list[str], started: list[subprocess.Popen[bytes]]) -> None:
    quiet = subprocess.DEVNULL
    started.append(subprocess.Popen(words, start_new_session=True, stdout=quiet, stderr=quiet))


def soft_rats(folder: Path) -> list[str]:
    done = [line for line in journal_lines(folder / "soft") if line["event"] == "done"]
    assert all((folder / "soft" / line["output"]).stat().st_size > 1000 for line in done)
    return sorted(line["output"] for line in done)


def test_a_cluster_in_five_lines_runs_as_it_is_printed(rats, started):
    """But for the address, which is this machine's, two workers in place of eight, and few tets."""
    lines = [shlex.split(line, comments=True) for line in TEXT[0].splitlines()]
    assert lines[0] == ["pip", "install", "supple[cluster]"]
    assert "\ncluster = [" in (ROOT / "pyproject.toml").read_text()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    scheduler, worker, batch, page = (
        [word.replace("10.0.0.1:8786", f"127.0.0.1:{port}") for word in line] for line in lines[1:]
    )
    assert worker[worker.index("--nworkers") + 1] == "8"
    worker[worker.index("--nworkers") + 1] = "2"
    run([*scheduler, "--host", "127.0.0.1", "--port", str(port), "--no-dashboard"], started)
    run([*worker, "--host", "127.0.0.1", "--no-dashboard"], started)
    assert batch[0] == page[0] == "supple"
    assert run_here(*batch[1:], *SMALL).returncode == 0
    assert soft_rats(rats) == ["rat_Idle.glb", "rat_Run.glb"]
    assert run_here(*page[1:]).returncode == 0
    assert (rats / "soft" / "batch.html").is_file()


def test_workers_come_from_a_queue(rats, monkeypatch, capsys):
    """SLURM's commands are stood for by scripts; what dask-jobqueue does with them is its own."""
    pytest.importorskip("dask_jobqueue", reason="dask-jobqueue is not installed")
    for name, text in (("sbatch", SBATCH), ("scancel", SCANCEL)):
        (rats / "bin" / name).write_text(text)
        (rats / "bin" / name).chmod(0o755)
    queue = rats / "queue"
    monkeypatch.setenv("QUEUE", str(queue))
    code = TEXT[1]
    assert "cores=8, processes=8" in code
    code = code.replace("cores=8, processes=8", "cores=2, processes=2, interface='lo'")
    code = code.replace("jobs=40", "jobs=1")
    names: dict[str, object] = {}
    exec(compile(code, "docs/farm.md", "exec"), names)
    cluster = names["cluster"]
    try:
        address = capsys.readouterr().out.strip()
        assert address.startswith("tcp://127.0.0.1:")
        batch = ("batch", "rats", "-o", "soft", "--clips", "all", "--cluster", address)
        assert run_here(*batch, *SMALL).returncode == 0
        assert soft_rats(rats) == ["rat_Idle.glb", "rat_Run.glb"]
    finally:
        cluster.close()  # type: ignore[attr-defined]
        jobs = [int(each) for each in queue.read_text().split()] if queue.exists() else []
        end = time.monotonic() + 20
        while any(map(runs, jobs)) and time.monotonic() < end:
            time.sleep(0.1)
    assert jobs
    assert not any(map(runs, jobs))


def runs(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
