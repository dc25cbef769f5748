"""Every door that takes the name of a motion finds it by the same rules.

Names are as Blender writes them; `tests/rig/test_motion_names.py` has the rules themselves.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import supple
from helpers.commands import run_here
from helpers.spring_engine import spring_engine
from helpers.tail_file import tail_builder
from supple.app.batch.inputs import requested_jobs
from supple.app.contact_options import ContactOptions
from supple.app.options import ViewOptions
from supple.app.viewer import serve
from supple.engines.common.pose_selection import poses_from_frames
from supple.engines.full.full_character import FullCharacterSimulator
from supple.errors import SuppleError
from supple.lab.bench.budget_bench import BudgetOptions, measure
from supple.lab.bench.timing import motion_of
from supple.playback.bake_plan import bake_plan
from supple.playback.player import Player
from supple.playback.secondary_motion import curve_plan
from supple.rig.character import Character


def _character(name: str, **options: Any) -> Any:
    """The actor that `supple view` shows."""
    return serve._character(name, ViewOptions(**options), ContactOptions(), True)


#: The flesh of the small character is softer than its motion allows, and made firmer.
pytestmark = pytest.mark.filterwarnings("ignore::supple.errors.SuppleWarning")
RUN, IDLE = "Armature|Rat_Run", "Armature|Rat_Idle"
SMALL: dict[str, Any] = {"tets": 400, "modes": 6, "poses": 2}


@dataclass(frozen=True)
class Rat:
    """A small character with two motions, in a file and as a model."""

    file: Path
    model_file: Path
    character: Character
    model: Any


@pytest.fixture(scope="module")
def rat(tmp_path_factory: pytest.TempPathFactory) -> Rat:
    folder = tmp_path_factory.mktemp("rat")
    b = tail_builder(seconds=1.0)
    (clip,) = b.json["animations"]
    b.json["animations"] = [clip | {"name": RUN}, clip | {"name": IDLE}]
    file = b.save_glb(folder / "rat.glb")
    character = supple.load(file)
    model = supple.build(character, **SMALL)
    model.save(folder / "rat.supple")
    return Rat(file, folder / "rat.supple", character, model)


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def springs() -> Iterator[str]:
    with spring_engine() as name:
        yield name


def figures(*words: object) -> dict[str, Any]:
    done = run_here(*map(str, words), "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_character_finds_its_motions(rat: Rat):
    for name in (RUN, "Rat_Run", "RAT_RUN", "Run", "run", "*run"):
        assert rat.character.motion(name) is rat.character.motions[RUN]
    with pytest.raises(SuppleError, match=r'rat: "Rat\*" matches "Armature\|Rat_Run", '):
        rat.character.motion("Rat*")
    with pytest.raises(SuppleError, match=r'did you mean "Armature\|Rat_Run"\?'):
        rat.character.motion("Rum")


DOORS: dict[str, Callable[[Rat, str], str]] = {
    "bake": lambda rat, name: supple.bake(rat.character, name, rat.model).motion.name,
    "bake_all": lambda rat, name: (
        supple.bake_all(rat.character, rat.model, motions=[name])[0].motion.name
    ),
    "bake_plan": lambda rat, name: bake_plan(rat.character, name).motion.name,
    "curve_plan": lambda rat, name: curve_plan(rat.character, name).motion.name,
    "Player": lambda rat, name: Player(supple.Simulator(rat.model), name).motion.name,
    "poses of build": lambda rat, name: poses_from_frames(rat.character, [f"{name}:1"])[1][
        0
    ].removesuffix(":1"),
    "bench": lambda rat, name: motion_of(rat.model, name).name,
    "view": lambda rat, name: (
        _character(str(rat.file), motion=name, model=rat.model_file).motion.name
    ),
}


@pytest.mark.parametrize("door", DOORS)
def test_python_finds_motions_by_their_last_word(rat: Rat, door: str):
    assert DOORS[door](rat, "run") == RUN
    assert DOORS[door](rat, "Rat_Idle") == IDLE
    with pytest.raises(SuppleError, match=r'no motion "Rum"; did you mean "Armature\|Rat_Run"'):
        DOORS[door](rat, "Rum")


@pytest.mark.parametrize("simulator", [supple.Simulator, FullCharacterSimulator])
def test_runs_of_engines_find_motions(rat: Rat, simulator: Any):
    stepped = simulator(rat.model if simulator is supple.Simulator else _full(rat))
    assert stepped.run("run").tobytes() == stepped.run(RUN).tobytes()
    with pytest.raises(SuppleError, match=r'no motion "Rum"; did you mean "Armature\|Rat_Run"'):
        stepped.run("Rum")


def _full(rat: Rat) -> Any:
    return supple.build(rat.character, engine="full", tets=400)


def test_curves_find_motions(rat: Rat, springs: str):
    options: dict[str, Any] = {"engine": springs, "anatomy": None, "free": ["tail_*.r*"]}
    assert supple.curves(rat.character, "run", **options).name == RUN


def test_patterns_stand_for_all_that_they_match(rat: Rat):
    baked = supple.bake_all(rat.character, rat.model, motions=["rat_*", "run"])
    assert [each.motion.name for each in baked] == [RUN, IDLE]
    baked = supple.bake_all(rat.character, rat.model, motions="*idle")
    assert [each.motion.name for each in baked] == [IDLE]
    with pytest.raises(SuppleError, match="no motion"):
        supple.bake_all(rat.character, rat.model, motions=["swim*"])


def test_the_wiggle_is_the_built_in_one_unless_a_motion_is_called_so(rat: Rat):
    for name in ("wiggle", "Wiggle"):
        assert bake_plan(rat.character, name).motion.name == "wiggle"
    run = rat.character.motions[RUN]
    surface, rig = rat.character.surface, rat.character.rig
    tail = Character("rat", surface, rig, {"Tail_Wiggle": run})
    assert bake_plan(tail, "wiggle").motion is not run
    own = Character("rat", surface, rig, {"Armature|Wiggle": run})
    assert bake_plan(own, "wiggle").motion is run


def test_commands_find_motions(rat: Rat, springs: str):
    model = ("--model", rat.model_file)
    assert figures("bake", rat.file, "--motion", "Run", *model)["motion"] == RUN
    clips = figures("bake", rat.file, "--motion", "rat_*", *model, "-o", "both.glb")["clips"]
    assert [clip["motion"] for clip in clips] == [RUN, IDLE]
    free = ("--engine", springs, "--anatomy", "none", "--free", "tail_*.r*")
    assert figures("curves", rat.file, "--motion", "idle", *free)["animation"] == IDLE
    built = figures("build", rat.file, "-o", "x.supple", "--tets", 400, "--poses", "run:1")
    assert built["poses"] == 2
    assert f"{RUN}:1" in figures("info", "x.supple")["poses"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("bake", "--motion", "Rum"), f'no motion "Rum"; did you mean "{RUN}"?'),
        (("curves", "--motion", "rat_*"), f'"rat_*" matches "{RUN}", "{IDLE}"'),
        (("view", "--motion", "Rum"), f'no motion "Rum"; did you mean "{RUN}"?'),
        (("view", "--motion", "rat_*"), f'"rat_*" matches "{RUN}", "{IDLE}"'),
        (("build", "--poses", "rum:3"), f'no motion "rum"; did you mean "{RUN}"?'),
        (("bake", "--motion", "rat_*", "--to", "0.1"), "rat_* matches 2 motions"),
        (("info", "--motion", "Run"), "use a motion file of a body model"),
    ],
)
def test_commands_refuse_names_in_a_line(rat: Rat, words: tuple[str, ...], said: str):
    done = run_here(words[0], str(rat.file), *words[1:], "--quiet")
    assert done.returncode == 1
    assert said in done.stderr
    (line,) = [each for each in done.stderr.splitlines() if "warning" not in each]
    assert line.startswith("supple: ")
    assert not list(Path().iterdir())


def test_the_budget_bench_finds_motions(rat: Rat):
    (row,) = measure([str(rat.file)], BudgetOptions(motion="rum"), quiet=True)
    assert f'did you mean "{RUN}"?' in row["failed"]


def test_a_viewer_plays_another_motion_by_its_name(rat: Rat):
    actor = _character(str(rat.file), motion="idle", model=rat.model_file)
    actor.choose("run")
    assert actor.motion.name == RUN
    with pytest.raises(SuppleError, match="did you mean"):
        actor.choose("rum")
    assert actor.motion.name == RUN


def asked_clips(rat: Rat, *clips: str) -> list[str]:
    names = {str(rat.file): list(rat.character.motions)}
    (wish,) = requested_jobs([str(rat.file)], "bake", [], clips, Path("out"), lambda sources: names)
    return [dict(options)["motion"][0] for _, options in wish.settings]


def test_batches_find_motions(rat: Rat):
    assert asked_clips(rat, "rat_*") == [RUN, IDLE]
    assert asked_clips(rat, "*IDLE") == [IDLE]
    # A name is left as it is given, for the job to find; a pattern adds what is not there yet.
    assert asked_clips(rat, "run", "R*") == ["run", IDLE]
    assert asked_clips(rat, "all", "run") == [RUN, IDLE]
    done = run_here(
        *("batch", str(rat.file), "-o", "out", "--clips", "run", "--jobs", "1", "--quiet"),
        *("--set", f"model={rat.model_file}"),
    )
    assert done.returncode == 0, done.stderr
    assert list(supple.load("out/rat_run.glb").motions) == [RUN, IDLE]
