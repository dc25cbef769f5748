"""Handles, bones, materials and objects in commands: as in Python, refused in one line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from helpers.soft_skeleton_samples import elbow, soft_elbow
from supple.app.batch.job_commands import checked_options, model_options_of
from supple.app.contact_options import ContactOptions
from supple.app.model_request import flesh_values
from supple.app.options import BakeOptions, BuildOptions, ViewOptions
from supple.app.soft_body_words import handles_of
from supple.cli.main import main
from supple.dynamics.rigid_object import RigidObject
from supple.engines.engine import ENGINES
from supple.engines.soft_skeleton.flesh.handles import Handles
from supple.engines.soft_skeleton.model import SoftSkeletonModel
from supple.errors import SuppleError
from supple.playback.bake_plan import bake_plan
from supple.playback.character_sources import source_of
from supple.playback.obstacles.words import object_of, placed_options
from supple.scenes.characters.character_scene import scene

SOFT = "soft-skeleton"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_handles_are_a_number_vertices_or_a_file(folder: Path) -> None:
    assert handles_of("120") == 120
    assert handles_of("3,4,5") == [3, 4, 5]
    (folder / "a.json").write_text("[[0, 0, 1], [0, 1, 0]]")
    assert handles_of("a.json").points == [[0, 0, 1], [0, 1, 0]]
    (folder / "b.json").write_text('{"vertices": [1, 2], "mirror": false}')
    read = handles_of("b.json")
    assert isinstance(read, Handles)
    assert (read.vertices, read.mirror) == ([1, 2], False)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[1, 2", "not JSON"),
        ('{"vertexes": [1]}', "not vertexes"),
        ('{"vertices": [1], "points": [[0, 0, 0]]}', "give their number"),
        ('{"vertices": "all"}', "must be a list"),
        ('{"vertices": [1], "mirror": 3}', "must be a list"),
        ("[]", "empty"),
    ],
)
def test_files_of_handles_are_checked(folder: Path, text: str, said: str) -> None:
    (folder / "h.json").write_text(text)
    with pytest.raises(SuppleError, match=said) as refused:
        handles_of("h.json")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("record", [BakeOptions, BuildOptions, ViewOptions])
def test_options_of_soft_skeletons_are_in_every_command(record: type) -> None:
    options = record(engine=SOFT, handles="40", denser=["fore*=3"], material="saturating")
    values = flesh_values(source_of(elbow()), options)
    assert (values["handles"], values["denser"]) == (40, {"fore*": 3.0})
    assert values["kind"] == "saturating"
    options = record(handles="40")
    with pytest.raises(SuppleError, match="--handles: pose-space has none; use --engine soft"):
        flesh_values(source_of(elbow()), options)


def test_other_engines_refuse_fibres_before_a_build() -> None:
    with pytest.raises(SuppleError, match="--material saturating: pose-space has none"):
        flesh_values(source_of(elbow()), BakeOptions(material="saturating"))
    with pytest.raises(SuppleError, match="--denser needs BONE=NUMBER"):
        flesh_values(source_of(elbow()), BakeOptions(engine=SOFT, denser=["3"]))


def test_build_takes_handles_that_were_chosen(folder: Path) -> None:
    vertices = np.flatnonzero(scene("hand").parts == 0)[:200:40].tolist()
    (folder / "palm.json").write_text(json.dumps({"vertices": vertices, "mirror": False}))
    words = ["--handles", "palm.json", "--tets", "2000", "--material", "saturating"]
    main(["build", "hand", "--engine", SOFT, *words, "-o", "hand.supple", "--json"])
    model = SoftSkeletonModel.load("hand.supple")
    assert len(model.handles) == len(vertices)
    assert model.material.kind == "saturating"


def test_batches_take_the_same_options() -> None:
    row = {"engine": SOFT, "handles": 40, "denser": "fore*=3", "object": "sphere:0,1,0,0.1=0.2"}
    options = checked_options("bake", row, "list.csv")
    shared = dict(model_options_of("bake", options) or ())
    assert {"handles", "denser"} <= set(shared)
    assert "object" not in shared  # jobs with other objects share a model


def test_objects_in_words_have_a_place_a_mass_and_a_velocity() -> None:
    plan = bake_plan(elbow(), None)
    clip = plan.place_of(elbow())
    thing = object_of("sphere:0,1,0,0.1,0.2kg@1,0,0", clip)
    assert isinstance(thing, RigidObject)
    assert thing.mass == pytest.approx(0.2)
    np.testing.assert_allclose(thing.velocity, [1, 0, 0])
    np.testing.assert_allclose(thing.centre, [0, 1, 0])
    heavy = object_of("box:0,1,0,0.1,0.1,0.1", clip)
    assert heavy is not None
    assert heavy.mass == pytest.approx(500 * 0.2**3)
    assert object_of("sphere:fore,10%,1kg") is None  # depends on a character
    placed = placed_options({"objects": ("sphere:fore,0,50%,0,10%,1kg",)}, clip)["objects"][0]
    assert placed.centre[1] > clip.joint("fore")[1]


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("plane:0,0,0,0,1,0,1kg", "plane"),
        ("sphere:0,1,0,0.1,much kg", "object sphere"),
        ("sphere:0,1,0,0.1,-1kg", "mass"),
        ("sphere:0,1,0,0.1,5%kg", "must be in kg"),
        ("sphere:0,1,0,0.1,nankg", "object sphere"),
        ("sphere:0,1,0,0.1,1kg@1000,0,0", "at most 100"),
        ("ball:0,1,0,0.1,1kg", "no ball"),
    ],
)
def test_wrong_objects_are_refused_in_one_line(word: str, said: str) -> None:
    with pytest.raises(SuppleError, match=said) as refused:
        ContactOptions(object=[word]).stepping(ENGINES[SOFT])
    assert "\n" not in str(refused.value)


def test_a_body_pushes_an_object_of_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    soft_elbow().save("arm.supple")
    push = ["--object", "sphere:0.9,0.45,0.125,0.1,0.5kg", "--gravity", "0"]
    main(["bake", "arm.supple", *push, "--with-obstacles", "-o", "arm.glb", "--json"])
    assert json.loads(capsys.readouterr().out)["engine"] == SOFT
    with pytest.raises(SystemExit):
        main(["bake", "arm.supple", "--object", "-o", "arm.npz"])
