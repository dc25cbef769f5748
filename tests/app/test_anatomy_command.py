"""`--anatomy` of the commands: found, from a file that people changed, or none."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.build_samples import kept_scenes
from helpers.character_files import save_character
from helpers.sample_bodies import figure
from supple.anatomy.region_entries import FEELS
from supple.anatomy.roles import ROLES
from supple.app.pictures.anatomy_sheet import ANATOMY_MAPS, ROLE_COLOURS, anatomy_map
from supple.cli.main import main
from supple.errors import SuppleWarning
from supple.playback import bake_model
from supple.playback.character_models import prepared_model
from supple.playback.character_sources import read_character

pytestmark = pytest.mark.filterwarnings("ignore::supple.SuppleWarning")
SMALL = ("--tets", "600", "--modes", "6", "--poses", "1", "-q")


@pytest.fixture(scope="module", autouse=True)
def _scene_cache(request: pytest.FixtureRequest) -> Iterator[None]:
    with kept_scenes(request.config.cache.mkdir("scenes")):
        yield


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    save_character(figure().character(), Path("body.glb"), swings="chest")


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    before = sorted(os.listdir("."))
    with pytest.raises(SystemExit) as caught:
        main([*words])
    said = capsys.readouterr()
    assert caught.value.code == 1
    assert sorted(os.listdir(".")) == before
    lines = [line for line in said.err.splitlines() if not line.startswith("supple: warning")]
    assert len(lines) == 1, lines
    return lines[0]


def changed(name: str, **feels: str) -> str:
    """Write the anatomy, and make some of its regions feel otherwise."""
    if not Path(name).exists():
        main(["info", "body.glb", "--anatomy", name, "-q"])
    said = json.loads(Path(name).read_text())
    for joint, feel in feels.items():
        said["regions"][joint]["feel"] = feel
    Path(name).write_text(json.dumps(said))
    return name


def frames(*words: str) -> np.ndarray:
    main(["bake", "body.glb", "-o", "out.npz", *words, *SMALL])
    with np.load("out.npz") as written:
        return written["frames"]


# supple info --anatomy


def test_info_lists_every_region_with_its_reasons(capsys):
    main(["info", "body.glb", "--anatomy", "--json"])
    found = json.loads(capsys.readouterr().out)["anatomy"]
    rows = {row["joint"]: row for row in found["regions"]}
    assert rows["hand.L"]["role"] == "hand"
    assert rows["hand.L"]["feel"] == "hard"
    assert all(row["reasons"] for row in found["regions"])
    assert sum(row["area"] for row in found["regions"]) == pytest.approx(1, abs=0.01)
    assert 0 < found["hard"] < 1
    main(["info", "body.glb", "--anatomy"])
    text = capsys.readouterr().out
    assert "hand.L" in text
    assert "% of the skin is hard" in text


def test_the_ending_decides_what_info_writes(capsys):
    main(["info", "body.glb", "--anatomy", "sheet.png", "body.anatomy.json"])
    assert "wrote sheet.png" in capsys.readouterr().out
    assert Path("sheet.png").read_bytes().startswith(b"\x89PNG")
    main(["info", "body.anatomy.json"])
    assert "hand.L" in capsys.readouterr().out


def test_info_checks_and_shows_the_feel_of_an_anatomy_file(capsys):
    file = Path("body.anatomy.json")
    text = '{"supple_anatomy": 1, "regions": {}, "feel": {"stiffness": %s, "swing": ["3%%"]}}'
    file.write_text(text % 2)
    main(["info", str(file)])
    assert "all flesh: stiffness 2, swing 3%" in capsys.readouterr().out
    main(["info", str(file), "--json"])
    shown = json.loads(capsys.readouterr().out)["anatomy"]["feel"]
    assert shown == {"stiffness": 2, "swing": ["3%"]}
    file.write_text(text % 0)
    assert "stiffness is 0; use 0.01 to 100" in refused(capsys, "info", str(file))


def test_info_lists_the_regions_of_a_file_in_place_of_the_detected_ones(capsys):
    file = changed("body.anatomy.json", chest="hard")
    capsys.readouterr()
    main(["info", "body.glb", "--regions", file, "--json"])
    rows = json.loads(capsys.readouterr().out)["anatomy"]["regions"]
    assert {row["joint"]: row["feel"] for row in rows}["chest"] == "hard"


def test_info_does_not_overwrite_an_anatomy_file(capsys):
    changed("body.anatomy.json", chest="hard")
    before = Path("body.anatomy.json").read_bytes()
    line = refused(capsys, "info", "body.glb", "--anatomy", "body.anatomy.json")
    assert "already exists" in line
    assert Path("body.anatomy.json").read_bytes() == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("body.glb", "--anatomy", "sheet.txt"), "--anatomy writes .png or .anatomy.json"),
        (("body.glb", "--anatomy", "no/sheet.png"), "there is no folder no"),
        (("body.glb", "--anatomy", "no/a.anatomy.json"), "there is no folder"),
        (("body.bvh", "--anatomy"), "body.bvh"),
    ],
)
def test_invalid_info_requests_are_one_line_errors(capsys, words, said):
    assert said in refused(capsys, "info", *words)


def test_every_role_has_a_colour():
    assert ROLE_COLOURS.keys() == ROLES.keys()


def test_maps_have_a_colour_and_a_label_for_every_triangle():
    from supple.anatomy.anatomy import anatomy_of

    anatomy = anatomy_of(figure().character())
    for which in ANATOMY_MAPS:
        shown = anatomy_map(anatomy, which)
        assert len(shown.colours) == len(shown.labels) > 1
        assert shown.bands.shape == (len(anatomy.surface.triangles),)
        assert set(np.unique(shown.bands)) <= set(range(len(shown.colours)))
    shown = anatomy_map(anatomy, "role")
    hand = anatomy.region[anatomy.surface.triangles] == anatomy.joints.index("hand.L")
    assert {shown.labels[band] for band in shown.bands[hand.all(axis=1)]} == {"hand"}


# supple bake --anatomy


def test_without_a_word_flesh_is_found_and_none_is_bones_alone():
    usual, found, none = frames(), frames("--anatomy", "auto"), frames("--anatomy", "none")
    np.testing.assert_array_equal(usual, found)
    assert np.abs(usual - none).max() > 1e-4


def test_one_constant_decides_the_default(monkeypatch):
    none = frames("--anatomy", "none")
    monkeypatch.setattr("supple.playback.character_models.ANATOMY", None)
    np.testing.assert_array_equal(frames(), none)


def test_a_region_made_hard_in_a_file_does_not_move():
    rigid = frames("--anatomy", changed("body.anatomy.json", **dict.fromkeys(TRUNK, "hard")))
    moving = frames()
    character = read_character("body.glb").character
    own = np.linalg.norm(character.surface.vertices - [0, 1.1, 0], axis=1) < 0.2
    apart = {}
    for name, each in (("rigid", rigid), ("moving", moving)):
        still = np.ptp(np.linalg.norm(each[:, own][:, :, None] - each[:, own][:, None], axis=3), 0)
        apart[name] = still.max()
    assert apart["rigid"] < 0.2 * apart["moving"]


TRUNK = ("hips", "chest")


def test_a_file_of_another_character_on_the_same_rig_fits(capsys):
    changed("body.anatomy.json", chest="firm")
    said = json.loads(Path("body.anatomy.json").read_text())
    said["regions"]["wing"] = {"role": "limb"}
    Path("body.anatomy.json").write_text(json.dumps(said))
    with warnings.catch_warnings():
        warnings.simplefilter("always", SuppleWarning)
        main(["bake", "body.glb", "-o", "a.npz", "--anatomy", "body.anatomy.json", *SMALL])
    assert 'body.anatomy.json: body has no joint "wing"; ignored' in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "no such file"),
        ("{", "it is not JSON"),
        ('{"supple_anatomy": 9}', "is not an anatomy file"),
        ('{"supple_anatomy": 1, "regions": {"q": {"role": "head"}}}', "is for another rig"),
        ('{"supple_anatomy": 1, "regions": {"chest": {"feel": "sofd"}}}', 'did you mean "soft"?'),
        ('{"supple_anatomy": 1, "regions": {"chest": {"share": NaN}}}', "a number from 0 to 1"),
    ],
)
@pytest.mark.parametrize("command", ["bake", "build", "view"])
def test_a_damaged_file_is_refused_in_a_line_that_names_it(capsys, command, content, said):
    if content is not None:
        Path("bad.anatomy.json").write_text(content)
    line = refused(capsys, command, "body.glb", "--anatomy", "bad.anatomy.json")
    assert "bad.anatomy.json" in line
    assert said in line


def test_other_words_are_refused(capsys):
    line = refused(capsys, "bake", "body.glb", "--anatomy", "atuo")
    assert "use auto, none or a file" in line


def test_a_model_that_is_given_has_its_flesh_already(capsys):
    main(["build", "body.glb", "-o", "body.supple", "--tets", "600", "--modes", "6", "-q"])
    words = ("bake", "body.glb", "--model", "body.supple", "-o", "a.npz")
    assert "leave out anatomy" in refused(capsys, *words, "--anatomy", "auto")
    main([*words, "-q"])


def test_build_takes_the_same_word():
    figures: dict[str, Any] = {}
    for word in ("auto", "none"):
        name = f"{word}.supple"
        main(["build", "body.glb", "-o", name, "--anatomy", word, *SMALL])
        figures[word] = read_character(name).model
    assert len(figures["auto"].fixed) != len(figures["none"].fixed)
    assert np.max(figures["auto"].young) > 2 * np.max(figures["none"].young)


# Models that are kept


def kept(source: Any, **options: Any) -> bool:
    return prepared_model(source, tets=600, modes=6, poses=1, **options).kept


def test_models_of_different_bone_are_kept_apart_and_firmness_needs_no_other(monkeypatch, tmp_path):
    monkeypatch.setenv("SUPPLE_CACHE", str(tmp_path / "cache"))
    source = read_character("body.glb")
    from supple.anatomy.region_entries import entries_for

    hard = entries_for(source.character, changed("a.anatomy.json", chest="hard"))
    firm = entries_for(source.character, changed("b.anatomy.json", chest="firm"))
    for anatomy in (None, "auto", hard):
        assert [kept(source, anatomy=anatomy) for _ in range(2)] == [False, True]
    assert kept(source, anatomy=firm)


def test_a_model_that_is_kept_is_found_without_its_tets(monkeypatch, tmp_path):
    monkeypatch.setenv("SUPPLE_CACHE", str(tmp_path / "cache"))
    source = read_character("body.glb")
    assert not kept(source, anatomy="auto")

    def never(*given: Any) -> Any:
        raise AssertionError("tets are made though the model is kept")

    monkeypatch.setattr(bake_model, "plan_body", never)
    monkeypatch.setattr(bake_model, "anatomy_of", never)
    assert kept(source, anatomy="auto")


def test_a_painted_character_has_a_model_of_its_own(monkeypatch, tmp_path):
    monkeypatch.setenv("SUPPLE_CACHE", str(tmp_path / "cache"))
    assert not kept(read_character("body.glb"), anatomy="auto")
    body = figure().character()
    paint = (body.surface.vertices[:, 1] > 1.2).astype(float)
    save_character(body, Path("body.glb"), swings="chest", _SUPPLE_RIGID=paint)
    assert not kept(read_character("body.glb"), anatomy="auto")


def test_every_feel_can_be_written_and_baked():
    chosen = dict(zip(("chest", "head", "tail1", "hand.L", "shin.R"), FEELS, strict=True))
    moved = frames("--anatomy", changed("body.anatomy.json", **chosen))
    assert np.isfinite(moved).all()
