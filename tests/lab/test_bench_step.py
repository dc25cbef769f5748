"""`supple bench`: what it prints, and that what it times is what it says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from helpers.build_samples import bar_options, bending_bar
from helpers.model_samples import sample_model
from supple.app.processes import with_cores
from supple.cli.main import main
from supple.engines.pose_space.build.build import build
from supple.errors import SuppleError
from supple.lab.bench import scaling_bench
from supple.lab.bench.scaling_bench import scaled_modes, steps_table
from supple.lab.bench.step_bench import KEYS, checked_scenes
from supple.lab.bench.step_bench import table as step_table
from supple.lab.bench.timing import (
    BREAKS,
    WARM_UP,
    back_and_forth,
    motion_of,
    reversing_times,
    time_steps,
)
from supple.playback import character_models
from supple.saving import write_whole


@pytest.fixture(scope="module")
def bar_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "bar.supple"
    build(bending_bar(), **bar_options()).save(path)
    return path


# --- The command --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bar_row(bar_file: Path) -> dict[str, Any]:
    from supple.lab.bench.step_bench import measure

    (row,) = measure(model=bar_file, steps=40, quiet=True)
    return row


def test_a_row_has_all_keys_and_its_figures_agree_with_each_other(bar_row: dict[str, Any]) -> None:
    row = bar_row
    assert tuple(row)[: len(KEYS)] == KEYS
    assert row["scene"] == "bar"
    assert (row["modes"], row["poses"], row["cubature_elastic"]) == (8, 3, 20)
    step = row["step_ms"]
    assert 0 < step["median"] <= step["p99"] <= step["max"]
    assert sum(row["split_ms"].values()) == pytest.approx(step["median"], rel=0.7)
    assert row["step_in_dgemm"] == pytest.approx(step["median"] / row["dgemm256_ms"], rel=1e-3)
    speedup = row["full_step_ms"] / row["step_cpu_ms"]["median"]
    assert row["speedup"] == pytest.approx(speedup, rel=1e-3)
    assert row["step_ms_two_cores"] > 0
    assert 0 < row["rig_ms"] < row["split_ms"]["core"] + row["split_ms"]["surface"]
    assert all(0 < count <= 60 for count in row["limited_steps"].values())
    for absent in ("paper_ms", "paper_speedup", "rms_vs_full", "frequency_error"):
        assert row[absent] is None, absent
    json.dumps(row, allow_nan=False)


def test_another_engine_is_timed_by_what_its_steps_report(
    bar_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["bench", "--model", str(bar_file), "--engine", "full", "--steps", "20", "--json"])
    (row,) = json.loads(capsys.readouterr().out)
    assert tuple(row)[: len(KEYS)] == KEYS
    assert row["engine"] == "full"
    assert set(row["split_ms"]) == {"assembly", "factorise", "solve", "surface"}
    assert row["rig_ms"] is row["step_ms_two_cores"] is None
    step_table([row])
    assert "factorise" in capsys.readouterr().out


def test_tables_for_people_show_every_scene_and_a_dash_for_what_is_not_known(
    bar_row: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    step_table([bar_row, bar_row | {"scene": "other", "paper_ms": 12.34}])
    shown = capsys.readouterr().out
    for word in ("bar", "other", "12.34", "–", "step in dgemm", "the rig", "a limit acted"):
        assert word in shown
    step_table([bar_row | {"limited_steps": {"acceleration": 12}}])
    assert "12 acceleration" in capsys.readouterr().out
    steps_table(
        {
            "scene": "bar",
            "modes": [{"modes": 8, "reduced_ms": 0.1, "step_ms": 0.2, "paper_ms": None}],
            "tets": [{"tets": 9, "reduced_ms": 1, "ratio": 1, "surface_ms": 1, "step_ms": 2}],
        }
    )
    assert "as tets grow" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["gorila"], 'did you mean "gorilla"?'),
        (["grwoth"], "did you mean supple bench growth?"),
        (["--model", "nowhere.supple"], "nowhere.supple: there is no such file"),
        (["--steps", "3"], "3 steps; choose between"),
        (["growth", "--scene", "bare"], 'did you mean "bear"?'),
        (["growth", "--scene", "x", "--modes", "0"], "0 modes; choose between 1"),
        (["growth", "--tets", "10"], "10 tets; choose between"),
        (["builds", "--tets", "10"], "10 tets; choose between"),
        (["builds", "--tets", "1000", "--modes", "0"], "0 modes; choose between"),
        (["builds", "--scene", "bare"], 'did you mean "bear"?'),
    ],
)
def test_invalid_measurements_are_one_line_errors(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["bench", *arguments])
    assert stopped.value.code == 1
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert said in line


def test_a_model_that_cannot_be_read_is_one_line_though_another_process_reads_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken.supple").write_bytes(b"no model")
    with pytest.raises(SystemExit) as stopped:
        main(["bench", "--model", str(tmp_path / "broken.supple"), "--json"])
    assert stopped.value.code == 1
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "broken.supple" in line


def test_builds_are_measured_by_stages_and_their_growth_is_a_power_of_tets(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    row = scaling_bench.build_row("x", 1200, (4,))
    assert row["modes"] == 4
    assert abs(row["tets"] / 1200 - 1) < 0.2
    assert {"tets", "modes", "elastic cubature"} <= set(row["stages"])
    assert 0.9 * row["processor_s"] < sum(row["stages"].values()) + 0.1 < row["processor_s"] + 0.2

    def measured(cores: None, function: object, scene: str, tets: int, modes: object) -> Any:
        return row | {"tets": tets, "processor_s": tets**1.25 / 1e4}

    monkeypatch.setattr(scaling_bench, "with_cores", measured)
    figures = scaling_bench.measure_builds([1_000, 8_000], modes=4, scene="x", quiet=True)
    assert figures["exponent"] == pytest.approx(1.25)
    scaling_bench.builds_table(figures | {"builds": [*figures["builds"], row | {"peak_mb": None}]})
    shown = capsys.readouterr().out
    for word in ("x: builds", "elastic cubature", "1,000", "8,000", "–", "power 1.25"):
        assert word in shown
    assert scaling_bench.measure_builds([1_000], modes=4, scene="x", quiet=True)["exponent"] is None


def test_wrong_usage_of_bench_exits_with_two() -> None:
    for arguments in (["bench", "--steps", "many"], ["bench", "growth", "--tets", "x"]):
        with pytest.raises(SystemExit) as stopped:
            main(arguments)
        assert stopped.value.code == 2


def test_scenes_are_each_measured_once_and_not_beside_a_model(bar_file: Path) -> None:
    assert checked_scenes(["x", "arm", "x"]) == ["x", "arm"]
    assert len(checked_scenes([])) == 4
    with pytest.raises(SuppleError, match="one or the other"):
        checked_scenes(["x"], bar_file)


# --- Timing -------------------------------------------------------------------------------


class Clockwork:
    """Looks like a simulator, and remembers what it was asked for."""

    def __init__(self) -> None:
        self.poses: list[float] = []
        self.log: list[str] = []

    def reset(self, pose: np.ndarray, root: np.ndarray) -> None:
        self.poses = []
        self.log.append("reset")

    def step(self, pose: np.ndarray, root: np.ndarray) -> Any:
        self.poses.append(float(pose[0]))
        limits = ("acceleration",) if pose[0] == 7 else ()
        return SimpleNamespace(seconds={"core": 1.0, "dynamics": 2.0}, limits=limits)

    def surface(self, out: np.ndarray | None = None) -> np.ndarray:
        return np.zeros((4, 3), np.float32) if out is None else out


def test_every_pose_is_stepped_once_after_warming_up_and_cold_steps_do_not_count() -> None:
    simulator, count, calls = Clockwork(), 400, []
    poses, roots = np.arange(count, dtype=float)[:, None], np.tile(np.eye(4), (count, 1, 1))
    found = time_steps(simulator, poses, roots, lambda: calls.append(len(simulator.poses)))
    assert simulator.log == ["reset", "reset"]
    assert simulator.poses == list(range(count))
    assert calls == list(range(0, count, count // BREAKS))
    assert len(found.whole) == len(found.cpu) == count - BREAKS
    assert (found.parts["core"] == 1).all()
    assert (found.parts["dynamics"] == 2).all()
    assert (found.surface <= found.whole).all()
    assert (len(found.beside), len(found.products)) == (BREAKS, 5 * BREAKS)
    assert found.limited == {"acceleration": 1}
    assert count > WARM_UP


@pytest.mark.parametrize("duration", [0.2, 1.0, 7.5])
def test_going_back_and_forth_never_jumps_nor_turns_at_once(duration: float) -> None:
    times = reversing_times(duration, 3000, 90.0)
    speed = np.diff(times) * 90
    assert times.min() >= 0
    assert times[0] == 0
    assert times.max() == pytest.approx(duration, abs=0.01)
    assert np.abs(speed).max() <= 1 + 1e-9
    assert np.abs(np.diff(speed)).max() <= 2 / (min(0.5, duration) * 90) + 1e-9
    if duration > 5:
        assert np.isclose(np.abs(speed), 1).mean() > 0.8


def test_a_motion_has_the_requested_length_and_a_model_without_one_tours_its_poses() -> None:
    model = sample_model()
    poses, roots = back_and_forth(motion_of(model, "wag"), 700)
    assert poses.shape == (700, 6)
    assert roots.shape == (700, 4, 4)
    assert poses.flags.c_contiguous
    with pytest.raises(SuppleError, match='no motion "run"; there are wag'):
        motion_of(model, "run")
    still: Any = SimpleNamespace(motions={}, pose_weights=model.pose_weights)
    np.testing.assert_array_equal(motion_of(still).poses, model.pose_weights.poses)
    alone: Any = SimpleNamespace(
        motions={},
        pose_weights=SimpleNamespace(poses=np.zeros((1, 2))),
        surface=model.surface,
    )
    assert np.ptp(motion_of(alone).roots[:, 1, 3]) > 0


def test_the_parts_of_a_step_make_up_the_whole_of_it(bar_file: Path) -> None:
    """xu2016 Table 2; the parts are timed in the order of a step."""
    from supple.engines.pose_space.model.model import PoseSpaceModel
    from supple.lab.reproduce.xu2016.tables import part_megabytes, part_times

    times = with_cores(1, part_times, bar_file, 100)
    whole = times.pop("whole step")
    assert sum(times.values()) == pytest.approx(whole, rel=0.3)
    # These two are differences of measurements.
    assert min(times[part] for part in times if part not in ("integration", "checks and calls")) > 0
    kept = part_megabytes(PoseSpaceModel.load(bar_file))
    assert set(kept) == set(times) - {"checks and calls"}
    assert 0 < sum(kept.values()) < bar_file.stat().st_size / 1e6


@pytest.fixture(scope="module")
def bar_parts(bar_file: Path) -> dict[str, Any]:
    from supple.lab.bench.step_parts import measure

    (row,) = measure(model=bar_file, steps=40, quiet=True)
    return row


def test_parts_of_a_step_have_counted_bytes_and_keep_the_machines_limits(
    bar_parts: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    from supple.lab.bench.step_parts import PARTS, table

    parts = bar_parts["parts"]
    assert tuple(parts) == tuple(PARTS)
    counted = [each for each in parts.values() if each["bytes"] is not None]
    assert len(counted) == len(PARTS) - 2, "all but the rig"
    assert sum(each["bytes"] for each in counted) == pytest.approx(bar_parts["bytes"])
    # Of 20 tets with 8 columns: G, its products, and their sum.
    assert parts["elastic"]["flops"] == 20 * (2 * 8 * (72 + 9 + 81 + 9) + 9 * 8 * 16)
    assert 0 < parts["elastic"]["of_limit"] < 1
    json.dumps(bar_parts, allow_nan=False)
    table([bar_parts])
    assert "elastic" in capsys.readouterr().out


def test_steps_keep_no_memory_and_leave_no_garbage(
    bar_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from supple.lab.bench.steady_bench import table

    main(["bench", "--model", str(bar_file), "--steady", "2000", "--json", "--quiet"])
    (row,) = json.loads(capsys.readouterr().out)
    assert row["steps"] == 2000
    assert row["collections"] == 0
    assert abs(row["blocks"]) < 1000, "less than half a block a step"
    assert row["page_faults"] is None or row["page_faults"] < 200
    for each in (row["step"], row["loop"]):
        assert each["median_ms"] > 0
        assert 0 <= each["late_undisturbed"] <= each["late"] <= 2000
        assert 1 <= each["p99"] <= each["worst"]
    table([row])
    assert "steps that are late" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--parts", "--steady", "500"], "--parts and --steady exclude each other; give one"),
        (["--parts", "--fidelity"], "--parts and --fidelity exclude each other; give one"),
        (["--steady", "3"], "3 steps; choose between 100"),
        (["--parts", "--engine", "full"], "--parts is for pose-space, not full"),
    ],
)
def test_details_of_steps_are_requested_one_at_a_time(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ending:
        main(["bench", "x", *words, "--quiet"])
    assert ending.value.code == 1
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("count", [6, 10, 25, 50, 100, 137])
def test_modes_are_spread_over_regions_as_the_scene_has_them(count: int) -> None:
    own = (10, 20, 20, 20, 20, 10)
    found = scaled_modes(own, count)
    assert sum(found) == count
    assert min(found) >= 1
    assert np.abs(np.array(found) - np.array(own) * count / 100).max() <= 1


# --- Processes and models -----------------------------------------------------------------


def test_another_process_has_the_cores_it_is_given_and_this_one_keeps_its_own(
    tmp_path: Path,
) -> None:
    before = dict(os.environ)
    assert with_cores(1, os.getenv, "NUMBA_NUM_THREADS") == "1"
    with pytest.raises(SuppleError, match="cannot be written"):
        with_cores(1, write_whole, tmp_path / "no" / "folder", b"")
    with pytest.raises(SuppleError, match="process was killed"):
        with_cores(None, os._exit, 3)
    assert dict(os.environ) == before


@pytest.mark.skipif(os.name != "posix", reason="processes are ended by POSIX signals")
def test_another_process_ends_when_the_one_that_started_it_is_killed(tmp_path: Path) -> None:
    told = tmp_path / "worker"
    code = (
        "import os, sys; from supple.app.processes import with_cores\n"
        "if __name__ == '__main__':\n"
        f"    with_cores(1, os.system, 'echo $PPID > {told}.part; mv {told}.part {told}; sleep 60')"
    )
    script = tmp_path / "starts_a_worker.py"
    script.write_text(code)
    parent = subprocess.Popen([sys.executable, str(script)])
    try:
        assert _soon(told.is_file)
        worker = int(told.read_text())
    finally:
        parent.kill()
        parent.wait()
    assert _soon(lambda: not _is_running(worker))


def _soon(true: Callable[[], bool], seconds: float = 30.0) -> bool:
    """Wait until something is true; False if it is not in time."""
    last = monotonic() + seconds
    while not true() and monotonic() < last:
        sleep(0.02)
    return true()


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[dict[str, Any]]:
    """What is built is a small model; the cache is empty."""
    asked: list[dict[str, Any]] = []

    def pretend(row: Any, character: Any, **recipe: Any) -> Any:
        asked.append(recipe)
        return sample_model()

    recipe = {"tets": 5, "modes": (4, 3)}
    shown = SimpleNamespace(character=None, recipe=lambda engine: recipe)
    monkeypatch.setattr("supple.engines.engine.Engine.build_model", pretend)
    monkeypatch.setattr(character_models, "scene", lambda name: shown)
    monkeypatch.setenv("SUPPLE_CACHE", str(tmp_path / "cache"))
    return asked


def test_a_model_is_built_once_and_again_when_its_file_is_damaged(
    builds: list[dict[str, Any]], tmp_path: Path
) -> None:
    folder = tmp_path / "cache"
    folder.mkdir()
    old = folder / f"model-x-{'0' * 20}.supple"
    old.write_bytes(b"of another version")
    first = character_models.scene_model("x")
    assert not old.exists()
    assert repr(character_models.scene_model("x")) == repr(first)
    assert len(builds) == 1
    (path,) = folder.iterdir()
    path.write_bytes(path.read_bytes()[:-7])
    character_models.scene_model("x")
    assert len(builds) == 2
    character_models.scene_model("x", tets=9, modes=(2, 1))
    assert builds[2]["tets"] == 9
    assert builds[2]["modes"] == (2, 1)
    assert len(list(folder.iterdir())) == 2
    for _ in range(2):
        character_models.scene_model("x", contacts=None, regions=None)
    character_models.scene_model("x", contacts="one-sided", regions=None)
    assert [each["contacts"] for each in builds[3:]] == [None, "one-sided"]
    assert len(list(folder.iterdir())) == 4


def test_where_nothing_can_be_kept_a_model_is_built_all_the_same(
    builds: list[dict[str, Any]], tmp_path: Path
) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    with character_models.scene_model_file("x") as path:
        assert path.is_file()
    assert not path.exists()
    assert len(builds) == 1
