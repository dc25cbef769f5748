"""`supple build`: figures it prints, files it writes, and those it does not leave behind."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.build_samples import kept_scenes
from supple.cli.main import main
from supple.engines.pose_space.model.model import PoseSpaceModel

SMALL = ("--tets", "1500", "--elastic", "60", "--inertial", "20")
#: What people read from `supple build SCENE --json`.
KEYS = {
    "seconds",
    "stages",
    "peak_mb",
    "model_mb",
    "tets",
    "poses",
    "modes",
    "elastic_error",
    "inertial_error",
    "subspace_angles",
    "mid_pose_frequency_ratio",
    "contacts",
    "stored_fraction",
}


@pytest.fixture(scope="module", autouse=True)
def _scene_cache(request: pytest.FixtureRequest) -> Iterator[None]:
    with kept_scenes(request.config.cache.mkdir("scenes")):
        yield


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def files() -> list[str]:
    """All that is in the current folder, hidden ones too."""
    return sorted(os.listdir("."))


def refused(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 1) -> str:
    """Run what must fail: the line it says, with nothing on standard output and no file left."""
    before = files()
    with pytest.raises(SystemExit) as caught:
        main(["build", *arguments, "--quiet"])
    said = capsys.readouterr()
    assert caught.value.code == code
    assert said.out == ""
    assert "Traceback" not in said.err
    assert files() == before
    if code != 2:  # usage is explained in a box
        assert said.err.startswith("supple: ")
        assert len(said.err.splitlines()) == 1
    return said.err


@pytest.fixture(scope="module")
def x_figures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The X at its own size, with as much cubature as the paper had."""
    from supple.app.building import run_build

    target = tmp_path_factory.mktemp("x") / "x.supple"
    return run_build("x", target, quiet=True)


def test_the_x_is_as_good_as_was_promised(x_figures):
    elastic, inertial = x_figures["elastic_error"], x_figures["inertial_error"]
    assert (x_figures["elastic_tets"], x_figures["inertial_vertices"]) == (72, 50)
    assert (x_figures["poses"], x_figures["modes"]) == (3, 30)
    assert elastic["train"] <= 0.01
    assert elastic["held_out"] <= 1.5 * elastic["train"]
    assert elastic["between_poses"] <= 1.5 * elastic["retrained"]
    assert inertial["train"] <= 0.03
    assert inertial["held_out"] <= 1.5 * 0.03
    assert 1 <= x_figures["mid_pose_frequency_ratio"] < 1.1


def test_the_x_is_as_large_as_was_promised(x_figures):
    file = Path(x_figures["output"])
    assert x_figures["model_mb"] == pytest.approx(file.stat().st_size / 1e6, abs=1e-3)
    assert x_figures["model_mb"] <= 1.5 * 4.2
    model = PoseSpaceModel.load(file)
    assert len(model.mesh.tets) == x_figures["tets"] > 8000


def test_json_has_every_figure_and_nothing_else_is_printed(capsys):
    main(["build", "x", "-o", "x.supple", "--json", *SMALL])
    said = capsys.readouterr()
    assert said.err == ""
    figures = json.loads(said.out)
    assert set(figures) >= KEYS
    assert set(figures["elastic_error"]) >= {"train", "held_out", "between_poses"}
    assert set(figures["inertial_error"]) >= {"train", "held_out"}
    assert figures["seconds"] == pytest.approx(sum(figures["stages"].values()), abs=0.02)
    assert min(figures["stages"].values()) >= 0
    assert set(figures["contacts"]) == {row["name"] for row in figures["pose_rows"]}
    assert len(figures["subspace_angles"]["median"]) == figures["poses"] - 1
    assert 0 < figures["stored_fraction"] <= 1
    assert figures["output"] == "x.supple"
    assert files() == ["x.supple"]
    report = PoseSpaceModel.load("x.supple").report
    assert {key: figures[key] for key in report} == report


def test_stages_and_tables_are_printed_and_the_file_does_not_depend_on_the_output(capsys):
    main(["build", "x", *SMALL])
    said = capsys.readouterr()
    assert said.out == ""
    for words in ("elastic cubature", "bent forth", "held out", "MB", "wrote x.supple"):
        assert words in said.err
    main(["build", "x", "-o", "again.supple", "--quiet", *SMALL])
    assert capsys.readouterr() == ("", "")
    assert Path("again.supple").read_bytes() == Path("x.supple").read_bytes()
    main(["build", "x", "-o", "other.supple", "--quiet", "--seed", "7", *SMALL])
    assert Path("other.supple").read_bytes() != Path("x.supple").read_bytes()


def test_processes_give_the_same_bytes_as_threads():
    main(["build", "x", "-o", "threads.supple", "--quiet", *SMALL])
    main(["build", "x", "-o", "processes.supple", "--quiet", "--processes", "2", *SMALL])
    assert Path("threads.supple").read_bytes() == Path("processes.supple").read_bytes()


def built_by(name: str, settings: dict[str, str]) -> bytes:
    """Return the model that another process builds; it must not take more memory than it should."""
    command = [sys.executable, "-m", "supple.cli.main", "build", "x", "-o", f"{name}.supple"]
    run = subprocess.run(
        [*command, "--json", *SMALL],
        env=os.environ | settings,
        check=True,
        timeout=600,
        capture_output=True,
    )
    peak = json.loads(run.stdout)["peak_mb"]  # of a process that did nothing else
    assert peak is None or 50 < peak < 3000
    return Path(f"{name}.supple").read_bytes()


def test_another_process_with_other_threads_and_hashes_gives_the_same_bytes():
    """Whatever depends on how many cores there are, or on the order of a set, shows here."""
    main(["build", "x", "-o", "first.supple", "--quiet", *SMALL])
    one = {f"{name}_NUM_THREADS": "1" for name in ("NUMBA", "OMP", "OPENBLAS", "MKL")}
    here = built_by("here", {})
    assert built_by("there", one | {"PYTHONHASHSEED": "4"}) == here
    assert Path("first.supple").read_bytes() == here


def test_a_process_that_compiles_gives_the_bytes_of_one_that_loads(tmp_path):
    """Which copy of a small fused function runs does not depend on who compiled it, or when."""
    empty = {"NUMBA_CACHE_DIR": str(tmp_path / "kernels")}
    compiled = built_by("compiled", empty)
    assert list((tmp_path / "kernels").rglob("*.nbc"))
    assert built_by("loaded", empty) == compiled
    main(["build", "x", "-o", "here.supple", "--quiet", *SMALL])
    assert Path("here.supple").read_bytes() == compiled


def test_options_go_before_the_scenes_own(capsys):
    options = ["--poses", "1", "--modes", "12", "--young", "5e4", "--poisson", "0.3"]
    options += ["--material", "stvk", "--contacts", "none", "--regions", "none"]
    main(["build", "x", "-o", "x.supple", "--json", *options, *SMALL])
    figures = json.loads(capsys.readouterr().out)
    assert (figures["poses"], figures["modes"]) == (1, 12)
    model = PoseSpaceModel.load("x.supple")
    material = model.material()
    assert (material.kind, material.young, material.poisson) == ("stvk", 5e4, pytest.approx(0.3))
    assert figures["mid_pose_frequency_ratio"] is None


def test_a_floor_at_a_height_is_touched(capsys):
    main(["build", "x", "--json", "--ground", "0", "--poses", "1", "--modes", "12", *SMALL])
    touched = json.loads(capsys.readouterr().out)["contacts"]
    assert sum(touched.values()) > 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nothing.glb"], "nothing.glb: there is no such file"),
        (["gorila"], 'no scene "gorila"; did you mean "gorilla"?'),
        (["dragon"], 'no scene "dragon"; there are arm, x, bear, gorilla'),
        (["x", "-o", "model"], "model: is not a name for a model file; use one that"),
        (["x", "-o", "model.glb"], "model.glb: is not a name for a model file; use one that"),
        (["x", "-o", "nowhere/x.supple"], "there is no folder nowhere"),
        (["x", "--poses", "banana"], '"banana" is not a frame of a motion; write it like "flap:0"'),
        (["x", "--poses", "flop:3"], 'no motion "flop"; did you mean "flap"'),
        (["x", "--poses", "0"], "0 poses; at least 1"),
        (["x", "--poses"], "--poses needs a number, auto, or frames"),
        (["x", "--modes"], "--modes needs one or more numbers"),
        (["x", "--modes", "0", *SMALL], "0 modes"),
        (["x", "--modes", "9", "9", *SMALL], "2 numbers of modes; give one per region"),
        (["x", "--processes", "0"], "--processes 0; use 1 or more"),
        (["x", "--tets", "0"], "cannot make 0 tets"),
        (["x", "--young", "-1"], "Young's modulus must be positive"),
        (["x", "--poisson", "0.5"], "use 0.49"),
        (["x", "--fit", "0", "--tets", "1500"], "gamma is 0"),
        (
            ["x", "--elastic", "0", "--tets", "1500"],
            "elastic.* must be a positive whole number, not 0",
        ),
        (["x", "--seed", "-1", "--tets", "1500"], "seed must be"),
        (["x", "--ground", "nan"], "not finite"),
    ],
)
def test_failed_builds_are_one_line_errors_without_a_file(capsys, arguments, words):
    assert re.search(words, refused(capsys, *arguments))


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["x", "--modes", "many"],
        ["x", "--material", "jelly"],
        ["x", "--contacts", "sticky"],
        ["x", "--regions", "some"],
        ["x", "--interpolation", "magic"],
        ["x", "--no-such-option"],
        ["x", "y"],
    ],
)
def test_wrong_usage_exits_with_two(capsys, arguments):
    refused(capsys, *arguments, code=2)


def test_a_file_that_is_no_character_is_named(capsys):
    Path("broken.glb").write_bytes(b"not a character")
    assert "broken.glb" in refused(capsys, "broken.glb")
    Path("notes.txt").write_text("hello")
    assert "use one of .glb" in refused(capsys, "notes.txt")


def test_a_folder_where_the_model_should_go_is_refused_before_anything_is_built(
    capsys, monkeypatch
):
    monkeypatch.setattr("supple.engines.engine.Engine.build_model", _never)
    Path("x.supple").mkdir()
    assert "x.supple: cannot be written" in refused(capsys, "x")
    assert "x.supple: cannot be written" in refused(capsys, "x", "-o", "x.supple")


def test_a_folder_that_takes_no_files_is_refused_before_anything_is_built(capsys, monkeypatch):
    monkeypatch.setattr("supple.engines.engine.Engine.build_model", _never)
    folder = Path("locked")
    folder.mkdir()
    folder.chmod(0o500)
    if os.access(folder, os.W_OK):  # nothing is locked to root
        monkeypatch.setattr("supple.app.command_files.os.access", lambda path, mode: False)
    assert "cannot be written" in refused(capsys, "x", "-o", "locked/x.supple")
    assert list(folder.iterdir()) == []


def test_a_disk_that_is_full_in_the_end_leaves_nothing_half_written(capsys, monkeypatch):
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    Path("x.supple").write_bytes(b"an older model")
    monkeypatch.setattr("supple.saving.os.fsync", full)
    assert "no space left" in refused(capsys, "x", "--poses", "1", *SMALL)
    assert Path("x.supple").read_bytes() == b"an older model"


def _never(*_: Any, **__: Any) -> None:
    raise AssertionError("too late")


def _interrupted(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    "place",
    [
        "supple.engines.engine.Engine.build_model",
        "supple.app.building.read_any_character",
        "supple.saving.os.fsync",
    ],
)
@pytest.mark.parametrize("quiet", [True, False])
def test_ctrl_c_leaves_nothing_behind(capsys, monkeypatch, place, quiet):
    Path("x.supple").write_bytes(b"an older model")
    monkeypatch.setattr(place, _interrupted)
    before = files()
    with pytest.raises(SystemExit) as caught:
        main(["build", "x", "--poses", "1", *SMALL, *(["--quiet"] if quiet else [])])
    assert caught.value.code == 130
    said = capsys.readouterr()
    assert said.err.endswith("supple: stopped\n")
    assert "Traceback" not in said.err
    assert files() == before
    assert Path("x.supple").read_bytes() == b"an older model"
