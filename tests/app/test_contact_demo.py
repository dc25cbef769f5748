"""The demonstration of a hand that touches a ball."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from helpers.build_samples import kept_scenes
from supple.app.demo import CONTACT_DEMOS, run_demo
from supple.cli.main import main
from supple.errors import SuppleError
from supple.scenes.characters.character_scene import PAPERS
from supple.scenes.contact.contact_scene import CONTACT_SCENES

SMALL = {"tets": 3000, "handles": 24, "cubature": 150, "points": 150}


@pytest.fixture(scope="module", autouse=True)
def _scene_cache(request: pytest.FixtureRequest) -> Iterator[None]:
    with kept_scenes(request.config.cache.mkdir("scenes")):
        yield


def test_every_body_has_a_demonstration() -> None:
    assert tuple(CONTACT_DEMOS) == PAPERS["tapia2021"]
    assert set(CONTACT_DEMOS.values()) <= set(CONTACT_SCENES)


def test_the_hands_demonstration_writes_a_page_a_picture_and_the_character(tmp_path) -> None:
    folder = tmp_path / "new"
    figures = run_demo(folder, scene="hand", quiet=True, **SMALL)
    assert {path.name for path in folder.iterdir()} == {
        "report.html",
        "contact.png",
        "hand_soft.glb",
    }
    assert (folder / "contact.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads(json.dumps(figures)) == figures
    assert figures["scene"] == "hand-ball"
    assert figures["last_n"] == pytest.approx(0.57, abs=0.1)
    assert figures["limits"] == []
    page = (folder / "report.html").read_text()
    assert "closes on a ball" in page
    assert '"name": "ball", "kind": "object"' in page
    glb = (folder / "hand_soft.glb").read_bytes()
    tree = json.loads(glb[20 : 20 + int.from_bytes(glb[12:16], "little")])
    ball = [node.get("name") for node in tree["nodes"]].index("ball")
    moved = {each["target"]["path"] for each in tree["animations"][0]["channels"][-2:]}
    assert tree["animations"][0]["channels"][-1]["target"]["node"] == ball
    assert moved == {"translation", "rotation"}


def test_a_misspelt_scene_is_refused_and_leaves_nothing(tmp_path, capsys) -> None:
    with pytest.raises(SuppleError, match="hand-bal"):
        run_demo(tmp_path / "new", scene="hand-bal", quiet=True)
    assert not (tmp_path / "new").exists()
    with pytest.raises(SystemExit, match="1"):
        main(["demo", "hnd", "-o", str(tmp_path / "new")])
    assert "hnd" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
