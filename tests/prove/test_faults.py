"""Whatever the machine does meanwhile: files are old or new, errors one line, caches shared."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from helpers.commands import run_here
from helpers.gltf_builder import skinned_octahedron
from prove.faults import FAULTS, FaultySystem, faulty, memory_fault, memory_survey, survey, writers
from supple import saving, user_cache
from supple.errors import FormatError
from supple.mesh.surface import SurfaceMesh
from supple.saving import write_chunks, write_whole

SOURCE = Path(saving.__file__).parent
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")


@needs_fork
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("writer", ["chunks", "anatomy"])
def test_a_file_is_the_old_one_or_the_new_one_whatever_happens_when(writer, fault):
    counts = survey(writers()[writer], fault)
    assert counts["points"] >= 5
    assert counts["old"] > 0
    assert (counts["new"] > 0) == (fault == "killed")  # killed after the file got its name


@needs_fork
def test_two_files_of_one_motion_are_each_whole_when_their_writer_is_killed():
    assert survey(writers()["point cache and its mesh"], "killed", stride=4)["points"] >= 4


def test_leftovers_of_killed_writers_are_removed_and_files_being_written_are_not(tmp_path):
    left, young, other = (
        tmp_path / f".{name}.part" for name in ("0" * 16, "1" * 16, "not one of ours")
    )
    for file in (left, young, other):
        file.write_bytes(b"half")
    long_ago = time.time() - 7200
    for file in (left, other):
        os.utime(file, (long_ago, long_ago))

    def slowly(file):  # while this is written, a second writer comes and goes
        os.utime(file.fileno(), (long_ago, long_ago))
        write_whole(tmp_path / "second", b"whole")
        file.write(b"first")

    write_chunks(tmp_path / "first", [], into=slowly)
    assert (tmp_path / "first").read_bytes() == b"first"
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(
        ["first", "second", young.name, other.name]
    )


@pytest.mark.skipif(os.name == "nt", reason="Windows has other rights")
def test_a_folder_that_takes_nothing_is_one_line(tmp_path):
    tmp_path.chmod(0o555)
    try:
        if os.access(tmp_path, os.W_OK):
            system = FaultySystem(lambda: os.mkdir("/proc/none"), 1)  # root writes everywhere
            with faulty(system), pytest.raises(FormatError, match=r"a\.bin: cannot be written to"):
                write_whole(tmp_path / "a.bin", b"")
        else:
            with pytest.raises(FormatError, match="permission denied"):
                write_whole(tmp_path / "a.bin", b"")
    finally:
        tmp_path.chmod(0o755)


@pytest.mark.skipif(sys.platform != "linux", reason="a limit on files' sizes is for Linux")
def test_a_command_on_a_full_disk_ends_in_one_line_and_leaves_nothing(tmp_path):
    """A limit on the size of files stands for a disk that is full: every write beyond it fails."""
    file = skinned_octahedron().save_glb(tmp_path / "a.glb")
    script = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100));"
        "from supple.cli.main import main; main(sys.argv[1:])"
    )
    words = ["info", str(file), "--anatomy", str(tmp_path / "out.anatomy.json")]
    ended = subprocess.run(
        [sys.executable, "-c", script, *words], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    said = [line for line in ended.stderr.splitlines() if "warning" not in line]
    assert len(said) == 1
    assert "cannot be written" in said[0]
    assert [each.name for each in tmp_path.iterdir()] == ["a.glb"]


def test_memory_that_ends_at_any_array_of_ours_is_one_line(tmp_path):
    file = skinned_octahedron().save_glb(tmp_path / "a.glb")
    counts = memory_survey(["info", str(file)], stride=9)
    assert counts["refused"] >= 5


def test_memory_that_ends_outside_of_readers_is_one_line_too(monkeypatch):
    def describe(*arguments, **options):
        raise MemoryError

    monkeypatch.setattr("supple.app.info.info.describe", describe)
    ended = run_here("info", "a.glb")
    assert ended.returncode == 1
    assert ended.stderr == "supple: not enough memory; use smaller input or fewer jobs\n"


def test_the_fault_comes_at_the_array_that_was_meant():
    with memory_fault(1) as count:
        np.empty(3)  # not ours
        assert count == [0]
        with pytest.raises(MemoryError):
            SurfaceMesh(np.eye(3), np.array([[0, 1, 2]])).defects()


ONE_CACHE = """
import sys
import numpy as np
from supple.user_cache import CacheKind, cached, model_cache, running_cache
kind = running_cache(".npz", 3)
for turn in range(40):
    label = f"{turn % 5}"
    made = lambda: {"a": np.full(1000, float(label))}
    found = cached(kind, "shared", made, label * 32).value
    assert (found["a"] == float(label)).all(), turn
print("same")
"""


def test_processes_on_one_cache_get_the_same_and_no_error(tmp_path):
    told = os.environ | {"SUPPLE_CACHE": str(tmp_path)}
    running = [
        subprocess.Popen(
            [sys.executable, "-c", ONE_CACHE],
            env=told, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for _ in range(3)
    ]  # fmt: skip
    for each in running:
        out, err = each.communicate(timeout=120)
        assert (out, err) == ("same\n", "")
    assert len(list(tmp_path.glob("shared-*.npz"))) <= 3 + len(running)
    assert not list(tmp_path.glob(".*.part"))


@pytest.mark.parametrize("jump", [-1e9, 1e9])
def test_a_clock_that_jumps_changes_no_result(tmp_path, monkeypatch, jump):
    monkeypatch.setenv("SUPPLE_CACHE", str(tmp_path))
    now, jumps = time.time, [0.0]
    monkeypatch.setattr(time, "time", lambda: now() + jumps[0])
    for turn in range(3):
        jumps[0] += jump
        found = user_cache.cached_arrays("jumping", lambda: {"a": np.arange(3)})
        assert (found["a"] == np.arange(3)).all()
        write_whole(tmp_path / "a", bytes([turn]))
        assert (tmp_path / "a").read_bytes() == bytes([turn])


#: What goes by the clock of the wall, and why a clock that is set can do no harm there.
BY_THE_WALL = {
    "app/batch/batch_options.py": "--since 3d means days of people",
    "app/batch/journal.py": "lines say when; nothing is decided by it",
    "app/batch/sent_files.py": "the age of copies, which are sent again where they are gone",
    "saving.py": "the age of abandoned files, which nobody may hold besides",
}


def test_only_ages_and_dates_for_people_use_the_wall_clock():
    """All else that takes time goes by clocks that cannot be set."""
    clock = re.compile(r"\btime\.time\(|\bfrom time import .*\btime\b|datetime\.now|\.utcnow")
    using = [
        file.relative_to(SOURCE).as_posix()
        for file in sorted(SOURCE.rglob("*.py"))
        if clock.search(file.read_text(encoding="utf-8"))
    ]
    assert using == list(BY_THE_WALL)


def test_a_slow_disk_changes_no_byte(tmp_path):
    with faulty(FaultySystem(lambda: time.sleep(0.002), 0, every=True)) as system:
        write_chunks(tmp_path / "a", [b"one", b"two" * 100, b"three"])
    assert system.count > 6
    assert (tmp_path / "a").read_bytes() == b"one" + b"two" * 100 + b"three"
