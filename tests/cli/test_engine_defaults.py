"""Every command that takes an engine runs with every engine and its own defaults."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import supple
from helpers.character_files import save_character
from helpers.commands import run_here
from helpers.soft_skeleton_samples import elbow
from helpers.tail_file import tail_builder
from supple.cli.main import app
from supple.engines.engine import ENGINES
from supple.scenes.bodies.beam import beam

#: Engines of characters; those that move parameters of the rig make curves.
CHARACTER_ENGINES = [name for name, row in ENGINES.items() if row.moves == "character"]
MOVING = [name for name in CHARACTER_ENGINES if "free" in ENGINES[name].build_options]
#: What makes a command small; all other options keep their defaults.
TETS = 400
SMALL = {
    "build": ("--tets", str(TETS), "-o", "arm.supple"),
    "bake": ("--to", "0.1", "-o", "soft.glb"),
    "curves": ("-o", "curves.glb"),
    "view": ("--seconds", "0.1", "--port", "0"),
}
CASES = [
    (command, engine)
    for command in SMALL
    for engine in (MOVING if command == "curves" else CHARACTER_ENGINES)
]


@pytest.fixture(autouse=True)
def _arm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write small characters into the current folder."""
    monkeypatch.chdir(tmp_path)
    for name in CHARACTER_ENGINES:  # `supple view` has no option for it
        monkeypatch.setitem(ENGINES[name].bake_options, "tets", TETS)
    save_character(elbow(), tmp_path / "arm.glb", swings="fore")
    tail_builder(seconds=0.5).save_glb(tmp_path / "tail.glb")


def test_all_commands_with_an_engine_are_run_here():
    named = {
        name
        for name in app
        if not name.startswith("-")
        and any("--engine" in each.names for each in app[name].assemble_argument_collection())
    }
    assert named == {*SMALL, "bench", "fit"}  # which have tests of their own


@pytest.mark.filterwarnings("ignore:arm.*the reduced model is", "ignore:motion .*in .* steps")
@pytest.mark.parametrize(("command", "engine"), CASES)
def test_a_command_runs_with_the_defaults_of_an_engine(command: str, engine: str):
    source = "tail.glb" if engine in MOVING else "arm.glb"  # which has all its controls keyed
    ended = run_here(command, source, "--engine", engine, "--quiet", *SMALL[command])
    assert ended.returncode == 0, ended.stderr
    if command == "build":
        assert ENGINES[engine].steps(supple.load_model("arm.supple"))


@pytest.mark.parametrize("engine", [name for name, row in ENGINES.items() if row.moves == "body"])
def test_an_engine_of_bodies_steps_a_small_body(engine: str):
    fixed: dict[str, Any] = {} if engine == "stvk-free" else {"fixed": [0, 1, 2, 3]}
    model = supple.build(beam(cells=(3, 1, 1)), engine=engine, modes=4, **fixed)
    simulator = supple.Simulator(model, engine=engine)
    simulator.step()
    assert simulator.surface().shape[1] == 3


def test_stvk_and_view_take_a_small_body_with_defaults(tmp_path: Path):
    box = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 2 3 4\nf 3 1 4\n"
    Path("box.obj").write_text(box)
    for words in (("stvk", "box.obj", "--resolution", "5"), ("view", "box.stvk", *SMALL["view"])):
        ended = run_here(*words, "--quiet")
        assert ended.returncode == 0, ended.stderr
