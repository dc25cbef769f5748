"""Batches on a cluster: the same bytes, models that travel once, workers and schedulers lost."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from helpers.batch_samples import check_whole, environment, journal_lines, meshes, results
from helpers.commands import run_here
from helpers.dask_processes import DaskProcesses, dask_processes
from helpers.rat_sample import write_rat

NEEDED = pytest.importorskip("distributed", reason="needs pip install 'supple[cluster]'")
SMALL = {"tets": "400", "modes": "6", "poses": "2"}
CLIPS = ("Run", "Idle")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[DaskProcesses]:
    with dask_processes(tmp_path) as own:
        yield own


def when(
    folder: Path, lines: int, act: Callable[[], None], ended: threading.Event
) -> threading.Thread:
    """Do something once so many jobs are done, unless all has ended before."""

    def watch() -> None:
        while not ended.wait(0.01):
            if sum(line["event"] == "done" for line in journal_lines(folder)) >= lines:
                act()
                return

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return thread


def test_workers_and_schedulers_may_be_lost_and_nothing_else_is(tmp_path, cluster, monkeypatch):
    count = 24
    source, out = meshes(tmp_path / "in", count), tmp_path / "out"
    monkeypatch.setattr(os, "environ", environment(tmp_path, seconds=0.05))
    monkeypatch.setattr("supple.app.batch.dask_farm._AWAY", 0.5)
    lost, _ = cluster.add_worker(), cluster.add_worker()
    words = ("batch", source, "-o", out, "--command", "info", "--cluster", cluster.file, "--quiet")

    def kill_scheduler() -> None:
        assert cluster.scheduler is not None
        cluster.scheduler.kill()

    ended = threading.Event()
    threads = [when(out, 3, lost.kill, ended), when(out, 8, kill_scheduler, ended)]
    done = run_here(*map(str, words))
    ended.set()
    for thread in threads:
        thread.join()
    assert done.returncode == 1
    told = done.stderr.strip().splitlines()
    assert len(told) == 1
    assert told[0].endswith("run the same command again to resume")
    assert 8 <= sum(line["event"] == "done" for line in journal_lines(out)) < count

    cluster.end()
    cluster.start_scheduler()
    cluster.add_worker()
    assert run_here(*map(str, words)).returncode == 0
    check_whole(out, count)


def test_a_batch_writes_the_same_bytes_as_commands_one_by_one(tmp_path, cluster, monkeypatch):
    source = write_rat(tmp_path / "rat.glb")
    options = [word for name, value in SMALL.items() for word in ("--set", f"{name}={value}")]
    single: dict[str, bytes] = {}
    monkeypatch.setenv("SUPPLE_CACHE", str(tmp_path / "here"))
    for clip in CLIPS:
        target = tmp_path / f"rat_{clip}.glb"
        told = [word for name, value in SMALL.items() for word in (f"--{name}", value)]
        done = run_here("bake", str(source), "--motion", clip, "-o", str(target), *told, "--quiet")
        assert done.returncode == 0, done.stderr
        single[target.name] = target.read_bytes()

    def batch(name: str, built: int, *words: str) -> dict[str, bytes]:
        asked = ("batch", str(source), "-o", str(tmp_path / name), "--clips", *CLIPS, *options)
        done = run_here(*asked, *words, "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["models_built"] == built
        return results(tmp_path / name)

    assert batch("out", 0, "--jobs", "1", "--threads", "2") == single

    # Workers have folders of their own, as on other machines: the model is built on one of them.
    for k in range(2):
        own = {"SUPPLE_CACHE": str(tmp_path / f"cache{k}"), "TMPDIR": str(tmp_path / f"tmp{k}")}
        (tmp_path / f"tmp{k}").mkdir()
        cluster.add_worker({**os.environ, **own})
    words = ("--cluster", str(cluster.file), "--files", "sent")
    assert batch("sent", 1, *words) == single
    models = [
        sorted(each.name for each in tmp_path.glob(f"cache{k}/model-*.supple")) for k in range(2)
    ]
    used = [each for each in models if each]
    assert used
    assert all(each == used[0] and len(each) == 1 for each in used)
    for k in range(2):  # nothing is left behind but what is known by its content
        assert not list((tmp_path / f"tmp{k}").glob("supple-job-*"))
    pictures = list((tmp_path / "sent/.batch").rglob("*.jpg"))
    assert len(pictures) == len(CLIPS)
    assert all(each.read_bytes().startswith(b"\xff\xd8") for each in pictures)


def certificate(folder: Path) -> list[str]:
    """Options with a certificate that vouches for itself; none without openssl."""
    if shutil.which("openssl") is None:
        return []
    key, own = str(folder / "key.pem"), str(folder / "own.pem")
    words = ["-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", own, "-subj", "/CN=localhost"]
    subprocess.run(["openssl", "req", "-x509", *words], check=True, capture_output=True)
    return ["--tls-ca", own, "--tls-cert", own, "--tls-key", key]


def test_a_local_cluster_is_made_with_certificates_and_ended(tmp_path):
    source, out = meshes(tmp_path / "in", 6), tmp_path / "out"
    words = ("batch", source, "-o", out, "--command", "info", "--cluster", "local", "--jobs", 1)
    done = run_here(*map(str, words), *certificate(tmp_path))
    assert done.returncode == 0, done.stderr
    check_whole(out, 6)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--cluster", "nowhere.json"), "nowhere.json: there is no such file"),
        (("--cluster", "tcp://127.0.0.1:1"), "check the scheduler there"),
        (("--cluster", "frob"), "check the scheduler there"),
        (("--cluster", "tls://127.0.0.1:1", "--tls-ca", "ca.pem"), "ca.pem: there is no such file"),
    ],
)
def test_a_cluster_that_is_not_there_is_one_line(tmp_path, monkeypatch, words, said):
    monkeypatch.setattr("supple.app.batch.dask_farm._PATIENCE", 1.0)
    source = meshes(tmp_path / "in", 1)
    done = run_here("batch", str(source), "-o", str(tmp_path / "out"), "--command", "info", *words)
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr
