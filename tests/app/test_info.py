"""`supple info` tells what is in a file and what each defect means."""

from __future__ import annotations

import io
import json
import warnings
from typing import Any

import pytest
from rich.console import Console

from helpers.gltf_builder import skinned_octahedron, turn
from helpers.model_samples import sample_model
from supple.app.info.info import describe, print_info
from supple.errors import SuppleError


def told(found: dict[str, Any]) -> str:
    """What a person reads, on a wide terminal."""
    stream = io.StringIO()
    print_info(found, Console(file=stream, width=200, highlight=False))
    return stream.getvalue()


def describe_quietly(path) -> dict[str, Any]:
    """Defects are in the description: nothing is warned of besides."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = describe(path)
    assert json.loads(json.dumps(found)) == found
    return found


def test_a_character_is_described_with_its_clips_and_defects(assets):
    found = describe_quietly(assets / "gltf_characters/q_Cow.glb")
    assert found["format"] == "glTF 2.0"
    assert found["meshes"] == [{"name": "Cow", "primitives": 7, "vertices": 4970}]
    assert found["surface"]["vertices"] == 1237
    assert found["surface"]["closed"] is False
    assert len(found["joints"]) == 42  # without the armature and what is above it
    assert len(found["clips"]) == 12
    assert found["size"] == pytest.approx([2.312, 4.587, 8.067], abs=1e-3)
    holes, skeleton = found["defects"]
    assert holes["what"] == "has 16 open edges (first at vertex 1150)"
    assert "holes" in holes["consequence"]
    assert skeleton["code"] == "SKIN_SKELETON_INVALID"
    assert skeleton["consequence"] == "ignored"
    text = told(found)
    for words in (
        "2.312 × 4.587 × 8.067 m",
        "Cow: 7 primitives",
        "Gallop_Jump: 1.46 s",
        "→ the surface",
    ):
        assert words in text


def test_centimetres_are_reported(assets):
    found = describe_quietly(assets / "gltf_characters/Fox.glb")
    assert found["metres_per_unit"] == 0.01
    assert "0.01 m each" in told(found)
    assert found["defects"][0]["consequence"] == "read as centimetres, 0.79 m"


def test_repeated_mistakes_are_counted(assets):
    found = describe_quietly(assets / "gltf_characters/RobotExpressive.glb")
    weights = next(d for d in found["defects"] if d.get("code", "").startswith("ACCESSOR_WEIGHTS"))
    assert weights["count"] == 4
    assert found["parameters"]["numbers"] == 3


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("motion_bvh/mh_walk1.bvh", ["BVH", "75: Root", "14 keys", "no defects"]),
        ("vegafem/beam3/beam3_tet.veg", ["450 tets, 208 vertices", "no defects"]),
        ("complementary_dynamics/elephant/elephant.mesh", ["1,502 tets"]),
        ("fast_cd/humpback/humpback_tex.obj", ["5,215 vertices, 10,426 triangles", "closed"]),
        (
            "hostile_mesh/trimesh/soup.stl",
            ["100 components, not closed", "300 open edges", "→ the surface"],
        ),
        ("hostile_gltf/animation/valid.gltf", ["has no mesh", "→ only its joints and motions"]),
        ("hostile_gltf/mesh/valid.gltf", ["none of its nodes has a mesh"]),
    ],
)
def test_other_files_are_described_too(assets, file, words):
    text = told(describe_quietly(assets / file))
    for word in words:
        assert word in text


def test_names_that_look_like_markup_are_printed_as_they_are(tmp_path):
    b = skinned_octahedron()
    b.json["meshes"][0]["name"] = "[bold]x[/nothing]"
    b.animate(3, "rotation", [0, 1], [turn(0, 0), turn(0, 1)])
    assert "[bold]x[/nothing]: 1 primitive" in told(describe(b.save_glb(tmp_path / "a.glb")))


def test_a_sound_character_has_no_defects(assets):
    found = describe_quietly(assets / "gltf_characters/CesiumMan.glb")
    assert found["defects"] == []
    assert told(found).rstrip().endswith("no defects")


def test_a_model_is_described_with_its_parts_and_errors(tmp_path):
    path = tmp_path / "beam.supple"
    sample_model().save(path)
    found = describe_quietly(path)
    assert found["format"] == "Supple model"
    assert sum(found["bytes_by_part"].values()) == path.stat().st_size
    assert found["regions"][1]["modes"] == 3
    text = told(found)
    for words in (
        "beam, stvk, interpolated in frames",
        "240 tets, 99 vertices, 9 held by bones",
        "3: neutral, up, side",
        "near: ",
        "12 tets, 8 vertices",
        "wag: 1 s, 13 keys",
        "bases",
        "held out 0.015",
        "no defects",
    ):
        assert words in text


def test_a_damaged_model_is_an_error(tmp_path):
    path = tmp_path / "beam.supple"
    sample_model().save(path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(SuppleError, match=r"^beam\.supple: .*cut off or edited"):
        describe(path)


def test_a_file_that_cannot_be_read_is_an_error(assets, tmp_path):
    with pytest.raises(SuppleError, match=r"^index_buffer_oob\.gltf: .*vertex 5"):
        describe(assets / "hostile_gltf/mesh_data/index_buffer_oob.gltf")
    with pytest.raises(SuppleError, match=r'^a\.txt: ".txt" files are unknown; use one of \.glb'):
        describe(tmp_path / "a.txt")
