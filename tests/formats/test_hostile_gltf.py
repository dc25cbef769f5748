"""No glTF file, however broken, brings a silent wrong character, a foreign error or a hang."""

from __future__ import annotations

import base64
import json
import os
import struct
import tempfile
import tracemalloc
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from helpers.gltf_builder import OCTAHEDRON, Builder, skinned_octahedron, turn
from supple.errors import SuppleError, SuppleWarning
from supple.formats.gltf.read.gltf import load_gltf
from supple.rig.character import Character

# Files whose mistake has another name here, or none in the list that came with them.
NAMED = {
    "json/empty_file.gltf": "is empty",
    "assimp/IncorrectVertexArrays/Cube.gltf": "BUFFER_VIEW_TOO_LONG",
    "assimp/IndexOutOfRange/IndexOutOfRange.gltf": "ACCESSOR_INDEX_OOB",
    "assimp/MissingBin/BoxTextured.gltf": "which does not exist",
    "assimp/SchemaFailures/sceneWrongType.gltf": "/scene is 'hello', not of type index",
    "assimp/TestNoRootNode/NoScene.gltf": "/scene is 0, but there are 0 scenes",
    "assimp/wrongTypes/badArray.gltf": "/meshes/0/primitives",
    "assimp/wrongTypes/badNumber.gltf": "/materials/0/normalTexture/scale",
    "assimp/BoxWithInfinites-glTF-Binary_BoxWithInfinites.glb": "ACCESSOR_INVALID_FLOAT",
    "gen/Mesh_NoPosition_00.gltf": "has no positions; ignored",
    "gen/Mesh_PrimitiveRestart_00.gltf": "consists of points; ignored",
}
# What no check of ours foresaw ends in this: it must not happen.
FOREIGN = "is damaged and cannot be read"


def listed(assets: Path) -> dict[str, str]:
    """What the manifest expects of each file."""
    found, inside = {}, False
    for line in (assets / "MANIFEST.md").read_text().splitlines():
        if line.startswith("### "):
            inside = line.startswith("### hostile_gltf")
        elif inside and line.startswith("| ") and not line.startswith("| file"):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            found[cells[0]] = cells[-1]
    return found


def outcome(path: Path) -> tuple[Character | None, str]:
    """The character, if any, and all that was said."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            character, said = load_gltf(path), []
        except SuppleError as error:
            character, said = None, [str(error)]
    assert all(warning.category is SuppleWarning for warning in caught)
    said += [str(warning.message) for warning in caught]
    assert all(line.startswith(f"{path.name}: ") and "\n" not in line for line in said)
    assert not any(FOREIGN in line for line in said)
    return character, " | ".join(said)


def test_every_hostile_file_gives_its_error_and_every_control_loads(assets):
    expected = listed(assets)
    assert len(expected) == 146
    wrong = {}
    for file, expectation in expected.items():
        character, said = outcome(assets / "hostile_gltf" / file)
        if expectation.startswith("CONTROL"):
            right = character is not None
        elif file in NAMED:
            right = NAMED[file] in said
        else:
            codes = expectation.removeprefix("expected: ").split(",")
            right = any(code in said for code in codes)
        if not right:
            wrong[file] = (expectation, said)
    assert not wrong


def test_a_glb_among_the_hostile_meshes(assets):
    character, said = outcome(assets / "hostile_mesh/trimesh/empty_nodes.glb")
    assert character is None or "has no mesh" in said


def triangle(**buffer: object) -> dict:
    return {
        "asset": {"version": "2.0"},
        "meshes": [{"primitives": [{"attributes": {"POSITION": 0}}]}],
        "nodes": [{"mesh": 0}],
        "accessors": [
            {
                "bufferView": 0, "componentType": 5126, "count": 3, "type": "VEC3",
                "min": [0, 0, 0], "max": [1, 1, 0],
            }
        ],
        "bufferViews": [{"buffer": 0, "byteLength": 36}],
        "buffers": [{"byteLength": 36, **buffer}],
    }  # fmt: skip


CORNERS = struct.pack("<9f", 0, 0, 0, 1, 0, 0, 0, 1, 0)
DATA = "data:application/octet-stream;base64," + base64.b64encode(CORNERS).decode()


def save(path: Path, tree: dict) -> Path:
    path.write_text(json.dumps(tree))
    return path


@pytest.mark.parametrize(
    "uri",
    [
        "../secret.bin", "%2e%2e/secret.bin", "..%2fsecret.bin", "..\\secret.bin",
        "a/../../secret.bin",
        "{root}/secret.bin", "file://{root}/secret.bin", "http://localhost/secret.bin",
        "link.bin", "folder/secret.bin", "/dev/zero", "C:\\secret.bin", "pipe", ".", "", "a\0b",
        ":",
    ],
)  # fmt: skip
def test_buffers_are_never_opened_outside_the_folder(tmp_path, uri):
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "secret.bin").write_bytes(CORNERS)
    (inside / "link.bin").symlink_to(tmp_path / "secret.bin")
    (inside / "folder").symlink_to(tmp_path)
    os.mkfifo(inside / "pipe")
    path = save(inside / "a.gltf", triangle(uri=uri.format(root=tmp_path)))
    character, said = outcome(path)
    assert character is None
    assert "buffer 0 has the URI" in said


def test_buffers_below_the_folder_and_links_within_it_are_opened(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a b.bin").write_bytes(CORNERS)
    (tmp_path / "link.bin").symlink_to(tmp_path / "sub" / "a b.bin")
    for uri in ("sub/a%20b.bin", "sub\\a b.bin", "sub/../link.bin"):
        character, _ = outcome(save(tmp_path / "a.gltf", triangle(uri=uri)))
        assert character is not None
        assert len(character.surface.vertices) == 3


def changed(**changes: object) -> dict:
    """The triangle with values at paths like "accessors/0/count"."""
    tree = triangle(uri=DATA)
    for where, value in changes.items():
        *way, last = where.split("/")
        place: object = tree
        for step in way:
            place = place[int(step)] if isinstance(place, list) else place[step]  # type: ignore[index]
        if isinstance(place, list):
            place[int(last)] = value
        else:
            place[last] = value  # type: ignore[index]
    return tree


HUGE = 10**12
SPARSE = {
    "count": HUGE,
    "indices": {"bufferView": 0, "componentType": 5125},
    "values": {"bufferView": 0},
}
BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "count": ({"accessors/0/count": HUGE}, "ACCESSOR_TOO_LONG"),
    "zero": ({"accessors/0/count": 0}, "VALUE_NOT_IN_RANGE"),
    "negative": ({"accessors/0/byteOffset": -4}, "VALUE_NOT_IN_RANGE"),
    "integer": ({"accessors/0/count": 3.5}, "TYPE_MISMATCH"),
    "truth": ({"accessors/0/count": True}, "TYPE_MISMATCH"),
    "long integer": ({"accessors/0/count": 10**400}, "VALUE_NOT_IN_RANGE"),
    "no data": (
        {"accessors/0": {"componentType": 5126, "count": HUGE, "type": "VEC3"}},
        "TOO_LARGE",
    ),
    "sparse": ({"accessors/0/sparse": SPARSE}, "ACCESSOR_SPARSE_COUNT_OUT_OF_RANGE"),
    "sparse long": (
        {"accessors/0/sparse": {**SPARSE, "count": 3, "values": {"bufferView": 0, "byteOffset": 8}}
        },
        "ACCESSOR_TOO_LONG",
    ),
    "sparse index": (
        {
            "accessors/0/sparse": {
                **SPARSE, "count": 1,
                "indices": {"bufferView": 0, "byteOffset": 12, "componentType": 5125},
            }
        },
        "ACCESSOR_SPARSE_INDEX_OOB",
    ),
    "view": ({"bufferViews/0/byteLength": HUGE}, "BUFFER_VIEW_TOO_LONG"),
    "view offset": ({"bufferViews/0/byteOffset": 4}, "BUFFER_VIEW_TOO_LONG"),
    "buffer": ({"buffers/0/byteLength": HUGE}, "BUFFER_BYTE_LENGTH_MISMATCH"),
    "stride": ({"bufferViews/0/byteStride": 8}, "ACCESSOR_SMALL_BYTESTRIDE"),
    "mode": ({"meshes/0/primitives/0/mode": 9}, "VALUE_NOT_IN_RANGE"),
    "type": ({"accessors/0/type": "VEC5"}, "VALUE_NOT_IN_LIST"),
    "component": ({"accessors/0/componentType": 5124}, "VALUE_NOT_IN_LIST"),
    "base64": ({"buffers/0/uri": DATA + "!"}, "not valid base64"),
    "infinite": ({"nodes/0/translation": [1e999, 0, 0]}, "INVALID_JSON|VALUE_NOT_IN_RANGE"),
    "overflow": ({"nodes/0/scale": [1e308, 1e308, 1e308], "nodes/0/translation": [1e308] * 3}, ""),
    "own child": ({"nodes/0/children": [0]}, "NODE_LOOP"),
    "scene": ({"scenes": [{"nodes": [0]}], "scene": 1}, "UNRESOLVED_REFERENCE"),
    "indices": ({"meshes/0/primitives/0/indices": 0}, "INDICES_ACCESSOR_INVALID_FORMAT"),
    "target": ({"meshes/0/primitives/0/targets": [{"POSITION": 7}]}, "UNRESOLVED_REFERENCE"),
    "skin": ({"nodes/0/skin": 0, "skins": [{"joints": []}]}, "EMPTY_ENTITY"),
    "version": ({"asset/version": "2"}, "is not a version"),
    "draco": (
        {
            "meshes/0/primitives/0/extensions": {"KHR_draco_mesh_compression": {"bufferView": 9}},
            "extensionsUsed": ["KHR_draco_mesh_compression"],
        },
        "supple\\[draco\\]|does not locate",
    ),
    "nodes": (
        {"nodes": [{"mesh": 0}, *({"children": [k]} for k in range(59_999))]},
        "has 60,000 animated nodes",
    ),
    "places": ({"nodes": [{"mesh": 0}] * 20_000}, "has 20,000 instances of meshes"),
    "accessor": (
        {"accessors/0": {"componentType": 5126, "count": 10**7 + 1, "type": "VEC3"}},
        "10,000,001 elements and has no data",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_generated_broken_file_gives_an_error_that_names_the_mistake(tmp_path, name):
    changes, words = BROKEN[name]
    path = tmp_path / "a.gltf"
    path.write_text(json.dumps(changed(**changes)))
    tracemalloc.start()
    character, said = outcome(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**31
    if words:
        assert character is None
        assert any(word.replace("\\", "") in said for word in words.split("|"))


def test_the_originals_of_the_broken_files_are_valid(tmp_path):
    character, said = outcome(save(tmp_path / "a.gltf", changed()))
    assert character is not None
    assert said == "a.gltf: has 3 open edges (first at vertex 0); continuing"


def test_json_nested_without_end_is_refused(tmp_path):
    for name, text in (("a.gltf", "[" * 100_000), ("b.gltf", '{"a":' * 100_000)):
        (tmp_path / name).write_text(text)
        assert "nested too deeply" in outcome(tmp_path / name)[1]
    deep: dict = {}
    for _ in range(500):
        deep = {"index": 0, "more": deep}
    tree = changed(materials=[deep])
    tree["meshes"][0]["primitives"][0]["material"] = 0
    assert outcome(save(tmp_path / "c.gltf", tree))[0] is not None


def test_a_long_chain_of_nodes_is_no_trouble(tmp_path):
    count = 20_000
    tree = changed(nodes=[{"children": [k + 1]} for k in range(count - 1)] + [{"mesh": 0}])
    character, _ = outcome(save(tmp_path / "a.gltf", tree))
    assert character is not None
    assert character.source.joint_pose.skeleton.names == ("world",)  # nothing moves
    tree["skins"] = [{"joints": list(range(count))}]
    tree["nodes"][-1]["skin"] = 0
    character, _ = outcome(save(tmp_path / "b.gltf", tree))
    assert character is not None
    assert character.source.joint_pose.skeleton.n_joints == count


def test_one_mesh_shown_too_often_is_refused_before_it_is_read(tmp_path):
    b = Builder()
    mesh = {"attributes": {"POSITION": b.accessor(np.tile(OCTAHEDRON, (1000, 1)))}}
    b.add("meshes", {"primitives": [mesh] * 100})
    b.json["nodes"] = [{"mesh": 0}] * 1000
    character, said = outcome(b.save_glb(tmp_path / "a.glb"))
    assert character is None
    assert "its meshes have 1,800,000,000 numbers" in said


def test_keys_that_would_fill_the_memory_are_refused(tmp_path):
    b = skinned_octahedron()
    leaves = [b.add("nodes", {}) for _ in range(3000)]
    b.json["skins"][0]["joints"] += leaves
    del b.json["skins"][0]["inverseBindMatrices"]
    times = np.cumsum(np.full(10_000, 0.01))
    b.animate(3, "translation", times, np.zeros((len(times), 3)))
    character, said = outcome(b.save_glb(tmp_path / "a.glb"))
    assert character is None
    assert "need too much memory" in said


def test_a_clip_of_years_is_read_without_filling_it(tmp_path):
    b = skinned_octahedron()
    b.animate(3, "rotation", [0, 1e9], [turn(0, 0), turn(0, 1)])
    character, _ = outcome(b.save_glb(tmp_path / "a.glb"))
    assert character is not None
    assert character.motions["clip"].n_frames == 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"weights": 0.0}, "6 vertices without weights; they follow"),
        ({"weights": -1.0}, "negative weights; set to zero"),
        ({"joint": 7}, "follows joint 7 of a skin with 2 joints"),
    ],
)
def test_invalid_weights_are_reported(tmp_path, change, words):
    b = skinned_octahedron()
    attributes = b.json["meshes"][0]["primitives"][0]["attributes"]
    if "weights" in change:
        attributes["WEIGHTS_0"] = b.accessor(np.full((6, 4), change["weights"]))
    else:
        attributes["JOINTS_0"] = b.accessor(np.full((6, 4), change["joint"]), "B")
    assert words in outcome(b.save_glb(tmp_path / "a.glb"))[1]


def test_a_cut_file_is_an_error_wherever_it_is_cut(tmp_path):
    b = skinned_octahedron()
    b.animate(3, "rotation", [0, 1], [turn(0, 0), turn(0, 1)])
    whole = b.save_glb(tmp_path / "whole.glb").read_bytes()
    for end in range(1, len(whole), 37):
        (tmp_path / "a.glb").write_bytes(whole[:end])
        assert outcome(tmp_path / "a.glb")[0] is None


def fuzzed() -> bytes:
    b = skinned_octahedron()
    b.json["meshes"][0]["primitives"][0]["targets"] = [{"POSITION": b.accessor(OCTAHEDRON)}]
    b.animate(3, "rotation", [0, 1], [turn(0, 0), turn(0, 1)])
    b.animate(2, "translation", [0, 1], [[0, -1, 0], [1, 0, 0]])
    b.animate(0, "weights", [0, 1], [0.0, 1.0])
    with tempfile.TemporaryDirectory() as folder:
        return b.save_glb(Path(folder) / "a.glb").read_bytes()


WHOLE = fuzzed()
JSON_SIZE = struct.unpack_from("<I", WHOLE, 12)[0]
PIECES = st.one_of(
    st.binary(max_size=6),
    st.sampled_from(
        [b"0", b"9", b"-1", b"1e9", b"[]", b"{}", b"null", b'"a"', b"true", b"\xff\xff"]
    ),
)


@given(edits=st.lists(st.tuples(st.integers(0, len(WHOLE)), PIECES), min_size=1, max_size=4))
@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
def test_random_damage_ends_in_a_character_or_an_error_of_ours(tmp_path, edits):
    damaged = bytearray(WHOLE)
    for at, piece in edits:
        at = max(at % len(damaged), 20)
        damaged[at : at + len(piece)] = piece
    path = tmp_path / "damaged.glb"
    path.write_bytes(damaged[: len(WHOLE)])
    outcome(path)


VALUES: st.SearchStrategy[Any] = st.sampled_from(
    [
        None,
        True,
        -1,
        0,
        1,
        2,
        5126,
        HUGE,
        0.5,
        1e300,
        "",
        "a",
        [],
        {},
        [0],
        [[]],
        {"a": 1},
        [1e300] * 3,
    ]
)


@given(changes=st.lists(st.tuples(st.integers(0, 10**6), VALUES), min_size=1, max_size=3))
@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_value_in_the_wrong_place_ends_in_a_character_or_an_error_of_ours(tmp_path, changes):
    tree = json.loads(WHOLE[20 : 20 + JSON_SIZE])
    data = base64.b64encode(WHOLE[28 + JSON_SIZE :]).decode()
    tree["buffers"][0]["uri"] = f"data:application/octet-stream;base64,{data}"
    for number, value in changes:
        places = list(_places(tree))
        parent, key = places[number % len(places)]
        parent[key] = json.loads(json.dumps(value))
    outcome(save(tmp_path / "changed.gltf", tree))


def _places(tree: object) -> list[tuple]:
    found = []
    items = (
        tree.items()
        if isinstance(tree, dict)
        else enumerate(tree)
        if isinstance(tree, list)
        else ()
    )
    for key, value in items:
        found.append((tree, key))
        found += _places(value)
    return found
