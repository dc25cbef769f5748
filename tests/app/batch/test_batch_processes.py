"""Batches on one machine: limits, crashes, kills, and what is there after the last start."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from helpers import batch_samples
from helpers.batch_samples import (
    HereFarm,
    batch_command,
    check_whole,
    environment,
    journal_lines,
    meshes,
    results,
)
from helpers.commands import run_here
from supple.app.batch import batch, dask_tasks, job_process, planned_jobs, sent_files
from supple.app.batch.batch import run_batch
from supple.app.batch.batch_options import BatchOptions
from supple.app.batch.job_process import JobProcess, Limits, Outcome, can_read_memory, failure
from supple.app.batch.process_farm import Task


def asked(folder: Path, name: str) -> dict[str, Any]:
    source = meshes(folder, 0, name) / f"{name}.obj"
    return {"what": "job", "words": ["info", str(source), f"--output={folder / name}.json"]}


@pytest.fixture(scope="module")
def process():
    own = JobProcess(Limits(threads=1))
    yield own
    own.end()


def test_a_job_answers_with_figures_or_one_line(process, tmp_path):
    done = process.run(asked(tmp_path, "mesh"))
    assert done["ok"]
    assert done["peak_mb"] > 1
    assert json.loads((tmp_path / "mesh.json").read_text()) == done["figures"]
    (tmp_path / "mesh.obj").write_bytes(b"\x00\xff\x1b[31m" * 50)
    failed = process.run(
        {"what": "job", "words": ["info", str(tmp_path / "mesh.obj"), "--output=x"]}
    )
    assert not failed["ok"]
    assert failed["line"].startswith("mesh.obj: ")
    assert failed["line"].isprintable()
    wrong = process.run({"what": "job", "words": ["info", "--frob=1"]})
    assert not wrong["ok"]
    assert "frob" in wrong["line"]


def test_a_killed_process_is_reported(process, tmp_path):
    """The next job has a new one: see the crash below."""
    assert process.run(asked(tmp_path, "mesh"))["ok"]
    found = process._process
    found.send_signal(signal.SIGSTOP)  # so that it is there when the job comes
    threading.Timer(0.3, lambda: found.kill()).start()
    outcome = process.run(asked(tmp_path, "mesh"))
    assert outcome["line"] == "its process was ended by SIGKILL; the system may lack memory"
    assert process._process is None


def test_a_job_that_exceeds_a_limit_is_ended_and_the_limit_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "environ", environment(tmp_path))
    for limits, words in (
        (Limits(seconds=0.3), "took more than 0.3 s; use a longer --time-limit"),
        (Limits(megabytes=4), "took more than 4 MB; use a larger --memory-limit"),
    ):
        own = JobProcess(limits)
        outcome = own.run(asked(tmp_path, "hang"))  # Python alone takes more than 4 MB
        assert not outcome["ok"]
        assert outcome["line"] == words
        assert own._process is None


@pytest.mark.skipif(
    not can_read_memory(), reason="this system does not report the memory of processes"
)
def test_child_processes_count_and_end_with_their_job():
    """Such as Blender, or the reader of USD."""
    code = (
        "import subprocess, sys, threading, time\n"
        "code = 'taken = b\"x\" * 200_000_000; print(1, flush=True); input()'\n"
        "def start():\n"
        "    pipe = subprocess.PIPE\n"
        "    own = subprocess.Popen([sys.executable, '-c', code], stdin=pipe, stdout=pipe)\n"
        "    own.stdout.readline()\n"
        "    print(own.pid, flush=True)\n"
        "    time.sleep(600)\n"
        "threading.Thread(target=start).start()\n"
    )
    own = JobProcess(Limits())
    words = [*batch_command()[:1], "-c", code]
    own._process = subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True)
    process = own._process
    assert process.stdout is not None
    child = int(process.stdout.readline())
    assert job_process._megabytes(process.pid) > 200
    own.end()
    process.stdout.close()
    assert _is_gone(child)


def test_a_bundle_on_a_full_disk_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    write = Path.write_bytes

    def full(path: Path, data: bytes) -> int:
        if path.name == "b.bin":
            raise OSError(28, "no space left on device")
        return write(path, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="no space"):
        sent_files._put("abc", {"a.gltf": b"{}", "b.bin": b"x"})
    (root,) = tmp_path.iterdir()
    assert not list(root.iterdir())


def test_a_worker_of_another_version_does_no_job(tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed", reason="needs supple[cluster]")
    monkeypatch.setattr(distributed, "get_worker", lambda: SimpleNamespace(address="tcp://there"))
    request = asked(tmp_path, "mesh") | {"supple": "0.0"}
    found = dask_tasks.run_job(request, Limits(), False, True, "batch", [], None)
    assert not found["ok"]
    assert found["worker"] == "tcp://there"
    assert "install the same" in found["line"]


def test_a_worker_ends_the_jobs_of_a_batch_that_was_broken_off(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "environ", environment(tmp_path))
    found: list[Outcome] = []

    def run(name: str) -> None:
        found.append(dask_tasks._in_process(asked(tmp_path, name), Limits(), False, "batch"))

    thread = threading.Thread(target=run, args=("hang",))
    thread.start()
    while not any(each._process for each in list(dask_tasks._busy)):
        time.sleep(0.01)
    dask_tasks.end_jobs("another")
    assert thread.is_alive()
    dask_tasks.end_jobs("batch")
    thread.join()
    run("mesh")  # was on its way
    assert not found[0]["ok"]
    assert found[1]["line"] == "the batch was ended"
    assert not dask_tasks._idle
    assert not dask_tasks._busy


def test_a_limit_of_memory_is_refused_where_memory_cannot_be_watched(tmp_path, monkeypatch):
    monkeypatch.setattr(job_process, "_megabytes", lambda pid: 0.0)
    source = meshes(tmp_path / "in", 1)
    words = ("batch", source, "-o", tmp_path / "out", "--command", "info", "--memory-limit", 100)
    done = run_here(*map(str, words))
    assert done.returncode == 1
    assert done.stderr.startswith("supple: --memory-limit: this system does not report")
    assert not JobProcess(Limits(megabytes=100)).run({})["ok"]  # nor on a worker


def test_a_process_ends_with_the_one_that_started_it(tmp_path):
    code = (
        "import os, sys, time; from supple.app.batch.job_process import JobProcess, Limits\n"
        "own = JobProcess(Limits()); print(own._begun().pid, flush=True); time.sleep(600)"
    )
    parent = subprocess.Popen([*batch_command()[:1], "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert _is_gone(child)


def _is_gone(pid: int) -> bool:
    """Whether a process has ended, or does within half a minute."""
    for _ in range(300):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.1)
    return False


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> HereFarm:
    """A farm in this process, in place of others."""
    farm = HereFarm()
    monkeypatch.setattr("supple.app.batch.batch._farm", lambda options, folder: farm)
    return farm


def test_a_crash_and_a_damaged_file_are_tried_twice_and_the_rest_goes_on(tmp_path, monkeypatch):
    source = meshes(tmp_path / "in", 2, "crash")
    (source / "bad.obj").write_text("f 1 2 3\n")
    monkeypatch.setattr(os, "environ", environment(tmp_path))
    words = ("batch", source, "-o", tmp_path / "out", "--command", "info", "--jobs", 1, "--json")
    done = run_here(*map(str, words))
    assert done.returncode == 1
    figures = json.loads(done.stdout)
    assert (figures["made"], figures["failed"]) == (2, 2)
    lines = {each["output"]: each["line"] for each in figures["failures"]}
    assert lines["crash.json"] == "its process was ended by SIGABRT"
    assert lines["bad.json"].startswith("bad.obj: ")
    told = done.stderr.strip().splitlines()
    assert len(told) == 2
    assert all(line.startswith("supple: ") for line in told)
    assert len([e for e in journal_lines(tmp_path / "out") if e["event"] == "tried"]) == 2
    check_whole(tmp_path / "out", 2)


def test_failed_jobs_are_retried_on_request_or_when_their_file_changed(tmp_path, here):
    source, out = meshes(tmp_path / "in", 3), tmp_path / "out"
    for name in ("damaged", "broken"):
        (source / f"{name}.obj").write_text("f 1 2 3\n")
    words = ("batch", str(source), "-o", str(out), "--command", "info", "--json")
    assert run_here(*words).returncode == 1
    assert len(here.done) == 3 + 2 * 2
    again = run_here(*words)
    assert again.returncode == 1
    assert json.loads(again.stdout)["failed"] == 2
    assert len(here.done) == 7
    (source / "damaged.obj").write_text((source / "mesh000.obj").read_text())
    figures = json.loads(run_here(*words).stdout)
    assert (figures["made"], figures["kept"], figures["failed"]) == (1, 3, 1)
    assert json.loads(run_here(*words, "--retry-failed").stdout)["failed"] == 1
    assert len(here.done) == 10
    (source / "broken.obj").unlink()
    assert run_here(*words).returncode == 0
    check_whole(out, 4)
    page = run_here("batch", "-o", str(out))  # of all that the journal knows
    assert page.returncode == 1
    assert "broken.json" in page.stderr


def test_a_result_that_is_gone_or_of_another_file_is_made_again(tmp_path, here):
    source, out = meshes(tmp_path / "in", 4), tmp_path / "out"
    words = ("batch", str(source), "-o", str(out), "--command", "info", "--json")
    assert json.loads(run_here(*words).stdout)["made"] == 4
    (out / "mesh000.json").unlink()
    (out / "mesh001.json").write_bytes(b"half")
    (source / "mesh002.obj").write_text("v 0 0 0\nv 5 0 0\nv 0 5 0\nf 1 2 3\n")
    before = (out / "mesh003.json").stat().st_mtime_ns
    figures = json.loads(run_here(*words).stdout)
    assert (figures["made"], figures["kept"]) == (3, 1)
    assert (out / "mesh003.json").stat().st_mtime_ns == before
    assert len(results(out)) == 4


def test_a_result_of_other_settings_is_made_again(tmp_path, monkeypatch):
    """Both are made as one file: what is there is of the last."""

    class Pretended(HereFarm):
        def outcome(self) -> tuple[Task, Outcome]:
            task = self.tasks.pop(0)
            assert task.job is not None
            flesh = dict(task.job.options)["flesh"][0]
            (tmp_path / "out" / task.job.output).write_text(flesh)
            return task, {"ok": True, "figures": {"model_kept": False}, "warnings": []}

    monkeypatch.setattr("supple.app.batch.batch._farm", lambda options, folder: Pretended())
    (tmp_path / "rat.glb").write_bytes(b"x")
    for flesh, made in (("soft", 1), ("firm", 1), ("soft", 1), ("soft", 0)):
        told = BatchOptions(set=[f"flesh={flesh}"])
        figures = run_batch([str(tmp_path / "rat.glb")], tmp_path / "out", told, quiet=True)
        assert (figures["made"], figures["models_built"]) == (made, made)
        assert (tmp_path / "out/rat.glb").read_text() == flesh
    assert sum(line["event"] == "over" for line in journal_lines(tmp_path / "out")) == 2


def test_a_folder_that_cannot_be_made_fails_its_job_and_the_rest_goes_on(tmp_path, here):
    source, out = meshes(tmp_path / "in" / "film", 1).parent, tmp_path / "out"
    meshes(source, 2)
    out.mkdir()
    (out / "film").write_text("mine")
    done = run_here("batch", str(source), "-o", str(out), "--command", "info", "--json")
    figures = json.loads(done.stdout)
    assert (done.returncode, figures["made"], figures["failed"]) == (1, 2, 1)
    assert "film: cannot be created" in figures["failures"][0]["line"]
    assert (out / "film").read_text() == "mine"


def test_a_source_that_changes_while_its_job_runs_is_read_again(tmp_path, here, monkeypatch):
    source, out = meshes(tmp_path / "in", 1), tmp_path / "out"
    answer = batch_samples.answer_to

    def changed(request: dict[str, Any]) -> Outcome:
        found = answer(request)
        (source / "mesh000.obj").write_text(batch_samples.TRIANGLE.format(size=77))
        monkeypatch.setattr(batch_samples, "answer_to", answer)
        return found

    monkeypatch.setattr(batch_samples, "answer_to", changed)
    # As with more files than are remembered.
    monkeypatch.setattr(planned_jobs, "file_stamp", planned_jobs.file_stamp.__wrapped__)
    for made in (1, 1, 0):
        assert run_batch([str(source)], out, BatchOptions("info"), quiet=True)["made"] == made


def test_a_source_whose_clips_cannot_be_read_fails_with_that_line(tmp_path, here, monkeypatch):
    monkeypatch.setattr("supple.app.batch.batch.ProcessFarm", lambda count, limits: here)
    (tmp_path / "in").mkdir()
    (tmp_path / "in/damaged.glb").write_bytes(b"x")
    words = ("batch", tmp_path / "in", "-o", tmp_path / "out", "--clips", "R*", "--jobs", 1)
    done = run_here(*map(str, words))
    assert done.returncode == 1
    assert "supple: damaged.glb: begins with" in done.stderr
    assert [task.what for task in here.done] == ["clips"] * 2
    (failed,) = [line for line in journal_lines(tmp_path / "out") if line["event"] == "failed"]
    assert failed["line"].startswith("damaged.glb: ")


def test_files_that_another_process_writes_are_left_alone(tmp_path):
    """A part that a writer holds stays; one that a killed writer has left goes, if not at once."""
    fcntl = pytest.importorskip("fcntl", reason="there are no locks of files here")
    held, left, new = (tmp_path / f".{k:016x}.part" for k in range(3))
    for each in (held, left, new):
        each.write_bytes(b"x")
    aged(held, left)
    with held.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        batch._remove_parts(tmp_path)
    assert sorted(tmp_path.iterdir()) == [held, new]


def aged(*files: Path) -> None:
    """Let files be as old as those that killed writers have left."""
    for each in files:
        os.utime(each, (time.time() - 9, time.time() - 9))


def test_killed_twenty_times_at_random_and_started_again_it_ends_with_all(tmp_path):
    """A fork stands for the command: it starts quickly, and is killed all the same."""
    count, dice = 120, random.Random(7)
    source, out = meshes(tmp_path / "in", count), tmp_path / "out"

    def start() -> int:
        child = os.fork()
        if child == 0:
            try:
                batch._farm = lambda options, folder: HereFarm(0.002)
                run_batch([str(source)], out, BatchOptions("info"), quiet=True)
                os._exit(0)
            finally:
                os._exit(9)
        return child

    kills = 0
    for _ in range(20):
        wanted = len(journal_lines(out)) + dice.randint(0, 5)
        child, began = start(), time.monotonic()
        while len(journal_lines(out)) < wanted and time.monotonic() - began < 20:
            time.sleep(0.001)
        time.sleep(dice.uniform(0, 0.004))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        kills += os.WIFSIGNALED(status)
        if os.WIFEXITED(status):  # a busy machine: it had done all before we looked
            shutil.rmtree(out)
            continue
        for name, data in results(out).items():  # whatever is there is whole
            if not name.endswith(".part"):
                json.loads(data)
    assert kills
    aged(*out.glob(".*.part"))
    _, status = os.waitpid(start(), 0)
    assert status == 0
    check_whole(out, count)
    assert (out / "batch.html").read_text().count("<tr data-is") == count


def test_a_command_with_its_processes_is_killed_and_goes_on(tmp_path, here):
    source, out = meshes(tmp_path / "in", 30), tmp_path / "out"
    env = environment(tmp_path, seconds=0.3)  # so that it is not done before it is killed
    words = batch_command(source, "-o", out, "--command", "info", "--jobs", 1, "--quiet")
    for wanted in (4, 9):
        process = subprocess.Popen(words, env=env, stderr=subprocess.PIPE, text=True)
        while process.poll() is None and len(journal_lines(out)) < wanted:
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL if wanted == 4 else signal.SIGINT)
        _, told = process.communicate(timeout=60)
        assert process.returncode == (-signal.SIGKILL if wanted == 4 else 130)
        assert "Traceback" not in told
    assert run_here(*words[3:]).returncode == 0
    check_whole(out, 30)


def test_progress_is_reported_to_programs_in_lines(tmp_path, here, monkeypatch):
    source, out = meshes(tmp_path / "in", 2), tmp_path / "out"
    monkeypatch.setenv("SUPPLE_PROGRESS", "lines")
    done = run_here("batch", str(source), "-o", str(out), "--command", "info", "--quiet")
    told = [json.loads(line) for line in done.stderr.splitlines()]
    assert {"part": 1.0, "what": "jobs"} in told


def test_a_model_is_built_once_before_the_jobs_that_share_it(tmp_path, monkeypatch):
    """Also where some of its jobs fail, and where it cannot be built at all."""
    asked: list[tuple[str, str]] = []

    class Pretended(HereFarm):
        slots = 2

        def outcome(self) -> tuple[Task, Outcome]:
            task = self.tasks.pop(self.dice.randrange(len(self.tasks)))
            assert task.job is not None
            name = Path(task.job.source).name
            asked.append((task.what, name))
            if task.what == "model":
                bad = name.startswith("bad")
                return task, failure("no model") if bad else {"ok": True, "kept": False}
            (tmp_path / "out" / task.job.output).write_bytes(b"x")
            return task, {"ok": True, "figures": {}, "warnings": []}

        dice = random.Random(3)

    monkeypatch.setattr("supple.app.batch.batch._farm", lambda options, folder: Pretended())
    names = [*(f"rat{k}.glb" for k in range(30)), "bad.glb"]
    rows = [{"source": name, "motion": clip} for clip in ("Run", "Idle", "Sit") for name in names]
    (tmp_path / "jobs.json").write_text(json.dumps([*rows, {"source": "alone.glb"}]))
    for name in (*names, "alone.glb"):
        (tmp_path / name).write_bytes(b"x")
    done = run_here("batch", str(tmp_path / "jobs.json"), "-o", str(tmp_path / "out"), "--json")
    figures = json.loads(done.stdout)
    assert (figures["made"], figures["failed"], figures["models_built"]) == (91, 3, 30)
    assert {each["line"] for each in figures["failures"]} == {"no model"}
    assert asked.count(("model", "bad.glb")) == 2  # tried once more
    for k in range(30):
        own = [what for what, name in asked if name == f"rat{k}.glb"]
        assert own == ["model", "job", "job", "job"]
    assert ("model", "alone.glb") not in asked
