"""What the README shows runs."""

import re
from pathlib import Path

import pytest

import supple
from supple.errors import SuppleWarning

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()


EXAMPLES = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


def test_the_first_example_runs_and_the_body_falls(capsys):
    names: dict[str, object] = {}
    exec(EXAMPLES[0], names)
    assert "hangs" in capsys.readouterr().out
    assert names["drop"] > 0.05  # type: ignore[operator]


def test_its_commands_and_links_exist():
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)", README, flags=re.MULTILINE):
        assert f"\n{target}:" in makefile
    for link in re.findall(r"\]\(([^)]+)\)", README):
        assert (ROOT / link).is_file()


def test_the_example_with_a_character_runs(assets):
    rat = assets / "gltf_characters/q_Rat.glb"
    example = EXAMPLES[1].replace('"rat.glb"', repr(str(rat))).replace('"Run"', "RUN")
    names: dict[str, object] = {"RUN": "RatArmature|Rat_Run"}
    with pytest.warns(SuppleWarning, match="non-manifold"):
        exec(example, names)
    character = names["character"]
    assert names["surface"].shape == character.surface.vertices.shape  # type: ignore[attr-defined]
    assert len(EXAMPLES) == 3


def test_the_example_with_a_model_runs(assets, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"supple": supple}
    with pytest.warns(SuppleWarning, match="non-manifold"):
        names["character"] = supple.load(assets / "gltf_characters/q_Rat.glb")
    exec(EXAMPLES[2], names)
    assert "PoseSpaceModel" in capsys.readouterr().out
    assert (tmp_path / "rat.supple").stat().st_size > 1e5
