"""Python's `bake`, `build` and `curves` find models, take paths and refuse unknown options."""

from __future__ import annotations

import inspect
import sys
from dataclasses import fields, replace
from pathlib import Path
from shutil import copyfile
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import supple
from helpers.character_files import save_character
from helpers.commands import run_here
from helpers.soft_skeleton_samples import elbow
from helpers.tail_file import tail_builder
from supple.cli.main import app
from supple.engines.engine import ENGINES, Engine
from supple.engines.options import BakePlayOptions, CurvePlayOptions, FleshOptions
from supple.errors import SuppleError
from supple.playback.progress_bar import console, shows_progress

BAD: Any = 3
SMALL: dict[str, Any] = {"tets": 400, "modes": 6, "poses": 1}


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUPPLE_CACHE", str(tmp_path / "cache"))
    save_character(elbow(), tmp_path / "arm.glb", swings="fore")


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of engines, one for each build."""
    names: list[str] = []
    build_model = Engine.build_model

    def counted(row: Engine, *args: Any, **options: Any) -> Any:
        names.append(row.name)
        return build_model(row, *args, **options)

    monkeypatch.setattr(Engine, "build_model", counted)
    return names


def test_a_bake_finds_the_model_of_the_command_and_of_the_same_bytes_under_another_name(builds):
    words = [word for name, value in SMALL.items() for word in (f"--{name}", str(value))]
    ended = run_here("bake", "arm.glb", "-o", "arm.npz", "-q", "--to", "0.1", *words)
    assert ended.returncode == 0, ended.stderr
    copyfile("arm.glb", "other.glb")
    bakes = [
        supple.bake(path, end=0.1, keep=True, **SMALL) for path in ("arm.glb", Path("other.glb"))
    ]
    assert builds == ["pose-space"]
    assert [baked.report["name"] for baked in bakes] == ["arm", "other"]
    np.testing.assert_array_equal(bakes[0].frames, bakes[1].frames)
    with np.load("arm.npz") as written:
        np.testing.assert_array_equal(bakes[0].frames, written["frames"])
    again = supple.bake("arm.glb", end=0.1, keep=False, **SMALL)
    assert len(builds) == 2
    np.testing.assert_array_equal(again.frames, bakes[0].frames)


def test_build_keeps_models_by_content_and_options(builds):
    first, second = (
        supple.build("arm.glb", engine="soft-skeleton", tets=400, keep=True) for _ in range(2)
    )
    assert builds == ["soft-skeleton"]
    first.save("first.supple")
    second.save("second.supple")
    assert Path("first.supple").read_bytes() == Path("second.supple").read_bytes()
    supple.build(supple.load("arm.glb"), engine="soft-skeleton", tets=500, keep=True)
    assert len(builds) == 2
    supple.build("arm.glb", engine="soft-skeleton", tets=500, keep=False)
    assert len(builds) == 3


def test_curves_of_a_path_find_their_model(builds):
    tail_builder(seconds=0.5).save_glb(Path("tail.glb"))
    first, second = (supple.curves("tail.glb", tets=400, settle=0.0, keep=True) for _ in range(2))
    assert builds == ["rig-space"]
    np.testing.assert_array_equal(first.poses, second.poses)


def test_the_environment_switches_keeping_off(builds, monkeypatch):
    for value, count in (("0", 2), ("1", 3)):
        monkeypatch.setenv("SUPPLE_KEEP_MODELS", value)
        for _ in range(2):
            supple.build("arm.glb", engine="soft-skeleton", tets=400)
        assert len(builds) == count


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        (lambda: supple.bake("arm.glb", flsh="soft"), 'no option "flsh"; did you mean "flesh"'),
        (lambda: supple.bake("arm.glb", method="full"), 'no option "method"'),
        (lambda: supple.bake_all("arm.glb", start=1.0), 'no option "start"'),
        (lambda: supple.build("arm.glb", linear="cubature"), 'no option "linear"'),
        (lambda: supple.build("arm.glb", mode=3), 'no option "mode"; did you mean "modes"'),
        (lambda: supple.curves("arm.glb", smoth=1.0), 'no option "smoth"; did you mean "smooth"'),
        (lambda: supple.bake(BAD), "3 is not a character"),
    ],
)
def test_an_unknown_option_is_refused_with_the_nearest_before_any_work(call, hint, builds):
    with pytest.raises(SuppleError, match=hint):
        call()
    assert not builds


def test_a_model_in_place_of_its_character_is_refused_with_advice():
    model = supple.build("arm.glb", engine="soft-skeleton", tets=400)
    with pytest.raises(SuppleError, match=r"is not a character; .* model as model="):
        supple.bake(model)


def test_a_simulator_refuses_unknown_options():
    model = supple.build("arm.glb", engine="soft-skeleton", tets=400)
    with pytest.raises(SuppleError, match='no option "frction"; did you mean "friction"'):
        supple.Simulator(model, frction=1.0)


def test_functions_and_commands_show_the_declared_options():
    for function, record, command in (
        (supple.bake, BakePlayOptions, "bake"),
        (supple.curves, CurvePlayOptions, "curves"),
    ):
        shown = inspect.signature(function).parameters
        collection = app[command].assemble_argument_collection()
        words = {name for each in collection for name in each.names}
        for each in (*fields(record), *fields(FleshOptions)):
            assert each.name in shown
            word = {"start": "from", "end": "to"}.get(each.name, each.name)
            assert f"--{word}" in words


def test_progress_is_shown_to_people_only(monkeypatch, capsys):
    assert not shows_progress(None)  # the tests' streams are no terminal
    assert shows_progress(True)
    assert not shows_progress(False)
    monkeypatch.setattr(console, "_force_terminal", True)
    assert shows_progress(None)
    monkeypatch.setattr(console, "_force_terminal", None)
    supple.bake("arm.glb", end=0.1, **SMALL)
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "")
    parts: list[float] = []
    supple.bake("arm.glb", end=0.1, progress=lambda part, what: parts.append(part), **SMALL)
    assert parts
    assert parts[-1] == 1.0


def test_options_of_flesh_that_are_none_select_the_default(builds):
    nothing = {"young": None, "poisson": None, "stiffness": None, "free": None}
    first = supple.bake("arm.glb", end=0.1, keep=True, **SMALL)
    second = supple.bake("arm.glb", end=0.1, keep=True, **SMALL, **nothing)
    assert builds == ["pose-space"]
    np.testing.assert_array_equal(first.frames, second.frames)
    assert inspect.signature(supple.bake).parameters["anatomy"].default == "auto"


def test_a_model_file_refuses_options_of_its_flesh():
    supple.build("arm.glb", keep=False, **SMALL).save("arm.supple")
    with pytest.raises(SuppleError, match="determines the flesh; leave out young"):
        supple.bake("arm.supple", end=0.1, young=1e3)


def test_models_of_engines_that_are_not_supples_are_not_kept(builds, monkeypatch):
    """Their code may change, and the cache key does not cover it."""
    module = ModuleType("lagging")
    module.build = ENGINES["pose-space"].build  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "lagging", module)
    row = replace(ENGINES["pose-space"], builder="lagging:build")
    monkeypatch.setitem(ENGINES, "pose-space", row)
    for _ in range(2):
        supple.build("arm.glb", keep=True, **SMALL)
    assert len(builds) == 2
