"""Characters come in their own colours, of any format; what is lost is told and lived with."""

from __future__ import annotations

import io
import json
import struct
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from scipy.spatial import cKDTree

from helpers.gltf_builder import FACES, OCTAHEDRON, Builder, skinned_octahedron
from supple.errors import SuppleWarning
from supple.formats.load import load
from supple.formats.save import save
from supple.rig.baked_motion import BakedMotion
from supple.rig.character import Character

RED, GREEN, BLUE, WHITE = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)
MIDDLE = np.full(3, 1 / 3)


def png(*rows: tuple[tuple[int, int, int], ...]) -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.array(rows, np.uint8)).save(file, "PNG")
    return file.getvalue()


def told(path: Path) -> tuple[Character, list[str]]:
    """The character, and what is said about pictures and colours on the way."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", SuppleWarning)
        character = load(path)
    lines = [str(each.message) for each in caught]
    assert all("\n" not in line for line in lines)
    return character, [line for line in lines if "colour" in line]


def colours(character: Character) -> np.ndarray:
    """Of the middles of all triangles, (m, 4)."""
    m = len(character.surface.triangles)
    assert character.appearance is not None
    return character.appearance.colours(np.arange(m), np.tile(MIDDLE, (m, 1)))


# glTF


def textured(source: dict[str, Any] | None = None, **info: Any) -> Builder:
    """The octahedron under a texture, its left half red and its right half blue."""
    b = skinned_octahedron()
    across = np.where(OCTAHEDRON[:, :1] > 0, 0.75, 0.25)
    uv = np.hstack([across, np.full((6, 1), 0.25)])
    primitive = b.json["meshes"][0]["primitives"][0]
    primitive["attributes"]["TEXCOORD_0"] = b.accessor(uv)
    primitive["material"] = 0
    if source is None:
        source = {"bufferView": b.view(png((RED, BLUE), (GREEN, WHITE)))}
    b.add("images", source)
    b.add("samplers", {"magFilter": 9728})
    b.add("textures", {"source": 0, "sampler": 0})
    surface = {"baseColorTexture": {"index": 0, **info}, "baseColorFactor": [0.5, 0.5, 0.5, 1]}
    b.add("materials", {"name": "fur", "pbrMetallicRoughness": surface})
    return b


def at_vertices(character: Character) -> np.ndarray:
    """Colours of the octahedron's six vertices in the file's order, (6, 4)."""
    triangles = character.surface.triangles
    found = np.zeros((6, 4))
    welded = character.source.primitives[0].welded
    assert character.appearance is not None
    for k in range(3):
        share = np.tile(np.eye(3)[k], (len(triangles), 1))
        found[triangles[:, k]] = character.appearance.colours(np.arange(len(triangles)), share)
    return found[welded]


@pytest.mark.parametrize("suffix", [".glb", ".gltf"])
def test_a_texture_lies_where_the_file_lays_it_times_the_base_colour(tmp_path, suffix):
    b = textured()
    path = tmp_path / f"a{suffix}"
    (b.save_glb if suffix == ".glb" else b.save_gltf)(path)
    character, said = told(path)
    assert said == []
    expected = [[0, 0, 0.5, 1], *[[0.5, 0, 0, 1]] * 5]  # only the first vertex is to the right
    np.testing.assert_allclose(at_vertices(character), expected, atol=1e-6)


def test_a_texture_transform_moves_it(tmp_path):
    """Turned by a quarter (u, v) is (v, -u): 0.25, -0.25 is in the lower left, green."""
    turned = {"extensions": {"KHR_texture_transform": {"rotation": np.pi / 2}}}
    b = textured(**turned)
    b.json["extensionsUsed"] = ["KHR_texture_transform"]
    character, _ = told(b.save_glb(tmp_path / "a.glb"))
    np.testing.assert_allclose(at_vertices(character)[1], [0, 0.5, 0, 1], atol=1e-6)
    scaled = {"extensions": {"KHR_texture_transform": {"scale": [1, 0], "offset": [0, 0.75]}}}
    b = textured(**scaled)
    b.json["extensionsUsed"] = ["KHR_texture_transform"]
    character, _ = told(b.save_glb(tmp_path / "b.glb"))
    np.testing.assert_allclose(at_vertices(character)[:2], [[0.5] * 3 + [1], [0, 0.5, 0, 1]])


def test_painted_colours_are_multiplied_and_corners_turn_with_mirrored_bodies(tmp_path):
    b = skinned_octahedron()
    painted = np.linspace(0, 1, 18).reshape(6, 3)
    primitive = b.json["meshes"][0]["primitives"][0]
    primitive["attributes"]["COLOR_0"] = b.accessor(painted)
    for scale in ([0.5, 0.5, 0.5], [-0.5, 0.5, 0.5]):
        b.json["nodes"][1]["scale"] = scale
        character, said = told(b.save_glb(tmp_path / "a.glb"))
        assert said == []
        np.testing.assert_allclose(at_vertices(character)[:, :3], painted, atol=1e-6)


def test_parts_have_their_own_materials(tmp_path):
    b = skinned_octahedron(material=0)
    one = b.json["meshes"][0]["primitives"][0]
    one["indices"] = b.accessor(FACES[:3].ravel(), "H")
    b.json["meshes"][0]["primitives"].append(
        one | {"indices": b.accessor(FACES[3:].ravel(), "H"), "material": 1}
    )
    for colour in ([0.1, 0.2, 0.3, 1], [0.9, 0.8, 0.7, 0.4]):
        b.add("materials", {"pbrMetallicRoughness": {"baseColorFactor": colour}})
    b.json["materials"][1] |= {"alphaMode": "MASK", "alphaCutoff": 0.5}
    character, _ = told(b.save_glb(tmp_path / "a.glb"))
    expected = [[0.1, 0.2, 0.3, 1]] * 3 + [[0.9, 0.8, 0.7, 0]] * 5
    np.testing.assert_allclose(colours(character), expected)


def test_without_materials_a_character_has_no_colours(tmp_path):
    character, _ = told(skinned_octahedron().save_glb(tmp_path / "a.glb"))
    assert character.appearance is None


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("fur.png", "does not exist"),
        ("../secret.png", "outside its folder"),
        ("%2e%2e/secret.png", "outside its folder"),
        ("link.png", "outside its folder"),
        ("/etc/passwd", "only files beside"),
        ("https://example.org/fur.png", "only files beside"),
        ("no_picture.png", "is not a readable PNG"),
        ("data:image/png;base64,AAAA", "is not a readable PNG"),
        ("data:image/png;base64,A", "cannot be opened"),
    ],
)
def test_an_unreadable_image_gives_the_base_colour_and_one_warning(tmp_path, uri, why):
    (tmp_path / "secret.png").write_bytes(png((RED,)))
    folder = tmp_path / "inner"
    folder.mkdir()
    (folder / "link.png").symlink_to(tmp_path / "secret.png")
    (folder / "no_picture.png").write_bytes(b"hello")
    character, said = told(textured({"uri": uri}).save_glb(folder / "a.glb"))
    assert len(said) == 1
    assert said[0].startswith("a.glb: image 0 ")
    assert why in said[0]
    np.testing.assert_allclose(colours(character), [[0.5, 0.5, 0.5, 1]] * 8)


def test_a_picture_beside_the_file_is_read(tmp_path):
    (tmp_path / "my fur.png").write_bytes(png((RED, BLUE)))
    character, said = told(textured({"uri": "my%20fur.png"}).save_glb(tmp_path / "a.glb"))
    assert said == []
    np.testing.assert_allclose(at_vertices(character)[0], [0, 0, 0.5, 1])


HOSTILE: list[dict[str, Any]] = [
    {"materials": [{"pbrMetallicRoughness": {"baseColorFactor": "red", "baseColorTexture": 3}}]},
    {"materials": [{"pbrMetallicRoughness": {"baseColorFactor": [1e300, -1, None, True]}}]},
    {"materials": [{"pbrMetallicRoughness": {"baseColorTexture": {"index": [1]}}}]},
    {"materials": [{"pbrMetallicRoughness": {"baseColorTexture": {"index": 10**30}}}]},
    {"materials": [{"alphaMode": {}, "alphaCutoff": "x", "extensions": {"KHR_x": 1}}]},
    {"textures": [{"source": -1}]},
    {"textures": [{"source": 0, "sampler": "x"}], "samplers": [{"wrapS": [], "wrapT": {}}]},
    {"textures": [{"sampler": 0}], "samplers": []},
    {"images": [{"bufferView": 99}]},
    {"images": [{"bufferView": True}]},
    {"images": [{}]},
    {"images": [{"uri": 7}]},
]


@pytest.mark.parametrize("wrong", HOSTILE)
def test_nothing_wrong_with_looks_keeps_a_character_from_being_read(tmp_path, wrong):
    b = textured()
    b.json |= wrong
    character, _ = told(b.save_glb(tmp_path / "a.glb"))
    assert np.isfinite(colours(character)).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, 3e38])
def test_coordinates_that_are_none_leave_the_base_colour(tmp_path, value):
    b = textured()
    attributes = b.json["meshes"][0]["primitives"][0]["attributes"]
    attributes["TEXCOORD_0"] = b.accessor(np.full((6, 2), value))
    character, _ = told(b.save_glb(tmp_path / "a.glb"))
    np.testing.assert_allclose(colours(character), [[0.5, 0.5, 0.5, 1]] * 8)


def chunks(path: Path) -> tuple[dict[str, Any], bytes]:
    data = path.read_bytes()
    length = struct.unpack_from("<I", data, 12)[0]
    return json.loads(data[20 : 20 + length]), data[20 + length + 8 :]


@pytest.mark.parametrize("name", ["Fox", "CesiumMan", "q_Cow"])
def test_a_baked_file_has_the_materials_and_pictures_it_had(assets, tmp_path, name):
    path = assets / "gltf_characters" / f"{name}.glb"
    character, _ = told(path)
    motion = next(iter(character.motions.values())).resample(10)
    blank = BakedMotion(character, motion, np.zeros((1, 1, 3), np.float32), 10.0)
    rig = np.array([blank.rig_frame(k) for k in range(len(motion.times))])
    swing = 0.02 * character.surface.size * np.sin(np.arange(len(rig)))[:, None, None]
    baked = BakedMotion(character, motion, (rig + swing).astype(np.float32), 10.0)
    save(tmp_path / "soft.glb", baked)
    (before, old), (after, new) = chunks(path), chunks(tmp_path / "soft.glb")
    for part in ("materials", "textures", "samplers", "images"):
        assert after.get(part) == before.get(part)
    for image in before.get("images", []):
        place = [tree["bufferViews"][image["bufferView"]] for tree in (before, after)]
        spans = [
            slice(v.get("byteOffset", 0), v.get("byteOffset", 0) + v["byteLength"]) for v in place
        ]
        assert new[spans[1]] == old[spans[0]]
    soft, _ = told(tmp_path / "soft.glb")
    np.testing.assert_array_equal(colours(soft), colours(character))


# USD

USDA = """#usda 1.0
(
    metersPerUnit = 1
    upAxis = "Y"
)
def Mesh "body" ( prepend apiSchemas = ["MaterialBindingAPI"] ) {{
    point3f[] points = [(0,0,0), (1,0,0), (1,1,0), (0,1,0), (2,0,0), (2,1,0)]
    int[] faceVertexCounts = [4, 4]
    int[] faceVertexIndices = [0, 1, 2, 3, 1, 4, 5, 2]
    {mesh}
}}
{more}
"""
ST = """texCoord2f[] primvars:st = [(0,0), (.5,0), (.5,1), (0,1), (.5,0), (1,0), (1,1), (.5,1)] (
        interpolation = "faceVarying" )
    rel material:binding = </fur>"""
FUR = """def Material "fur" {{
    token outputs:surface.connect = </fur/look.outputs:surface>
    def Shader "look" {{
        uniform token info:id = "UsdPreviewSurface"
        color3f inputs:diffuseColor{own}
        color3f inputs:diffuseColor.connect = </fur/picture.outputs:rgb>
        token outputs:surface
    }}
    def Shader "picture" {{
        uniform token info:id = "UsdUVTexture"
        asset inputs:file = @{file}@
        token inputs:wrapS = "clamp"
        token inputs:wrapT = "clamp"
        float2 inputs:st.connect = </fur/{place}.outputs:result>
        float3 outputs:rgb
    }}
    def Shader "reader" {{
        uniform token info:id = "UsdPrimvarReader_float2"
        string inputs:varname = "st"
        float2 outputs:result
    }}
    def Shader "mover" {{
        uniform token info:id = "UsdTransform2d"
        float2 inputs:in.connect = </fur/reader.outputs:result>
        float2 inputs:scale = (-1, 1)
        float2 inputs:translation = (1, 0)
        float2 outputs:result
    }}
}}"""


def fur(file: str, own: str = "", place: str = "reader") -> str:
    return FUR.format(file=file, own=f" = {own}" if own else "", place=place)


def usda(folder: Path, mesh: str, more: str = "") -> Path:
    pytest.importorskip("pxr", reason="USD comes with the extra supple[usd]")
    path = folder / "a.usda"
    path.write_text(USDA.format(mesh=mesh, more=more))
    return path


def sides(character: Character) -> list[np.ndarray]:
    """Colours left and right of the middle, of their triangles."""
    middles = character.surface.vertices[character.surface.triangles].mean(axis=1)
    return [colours(character)[(middles[:, 0] < 1) == left, :3] for left in (True, False)]


@pytest.mark.parametrize(("place", "left", "right"), [("reader", RED, BLUE), ("mover", BLUE, RED)])
def test_a_preview_surface_shows_its_picture_where_st_lays_it(tmp_path, place, left, right):
    (tmp_path / "fur.png").write_bytes(png((WHITE, BLUE), (RED, BLUE)))
    half = ST.replace("(.5,1)", "(.5,.5)").replace("(0,1)", "(0,.5)").replace("(1,1)", "(1,.5)")
    character, said = told(usda(tmp_path, half, fur("./fur.png", place=place)))
    assert said == []
    found = sides(character)
    for side, colour in zip(found, (left, right), strict=True):
        assert (np.argmax(side, axis=1) == np.argmax(colour)).all()


def test_parts_of_a_mesh_have_their_own_materials_and_display_colours_stand_in(tmp_path):
    mesh = """color3f[] primvars:displayColor = [(0,1,0), (0.5,0,0)] ( interpolation = "uniform" )
    def GeomSubset "right" ( prepend apiSchemas = ["MaterialBindingAPI"] ) {
        uniform token elementType = "face"
        uniform token familyName = "materialBind"
        int[] indices = [1, 7]
        rel material:binding = </blue>
    }"""
    blue = """def Material "blue" {
    token outputs:surface.connect = </blue/look.outputs:surface>
    def Shader "look" {
        uniform token info:id = "UsdPreviewSurface"
        color3f inputs:diffuseColor = (0.1, 0.2, 0.9)
        token outputs:surface
    }
}"""
    character, _ = told(usda(tmp_path, mesh, blue))
    left, right = sides(character)
    np.testing.assert_allclose(left, [[0, 1, 0]] * 2)
    np.testing.assert_allclose(right, [[0.1, 0.2, 0.9]] * 2, atol=1e-6)


@pytest.mark.parametrize(
    ("file", "why"),
    [
        ("gone.png", "does not exist"),
        ("../secret.png", "is outside"),
        ("/etc/passwd", "is outside"),
        ("link.png", "is outside"),
        ("no_picture.png", "is not a readable PNG"),
    ],
)
def test_a_picture_that_is_lost_leaves_the_surfaces_colour_and_one_line(tmp_path, file, why):
    (tmp_path / "secret.png").write_bytes(png((RED,)))
    folder = tmp_path / "inner"
    folder.mkdir()
    (folder / "link.png").symlink_to(tmp_path / "secret.png")
    (folder / "no_picture.png").write_bytes(b"hello")
    character, said = told(usda(folder, ST, fur(file, own="(0.2, 0.3, 0.4)")))
    assert len(said) == 1
    assert why in said[0]
    assert colours(character)[0, 0] == pytest.approx(0.2)


@pytest.mark.parametrize(
    "mesh",
    [
        ST.replace("(0,0), (.5,0)", "(nan,0), (inf,0)"),
        ST.replace("(0,0), (.5,0), ", ""),
        "color3f[] primvars:displayColor = [(nan, 0, 0)]\n    rel material:binding = </none>",
        "float primvars:displayColor = 3\n    rel material:binding = </body>",
        "rel material:binding = </fur/look>",
    ],
)
def test_a_stage_with_odd_looks_is_read_all_the_same(tmp_path, mesh):
    (tmp_path / "fur.png").write_bytes(png((RED, BLUE)))
    character, _ = told(usda(tmp_path, mesh, fur("fur.png")))
    if character.appearance is not None:
        assert np.isfinite(colours(character)).all()


def test_a_stage_without_colours_has_none(tmp_path):
    character, _ = told(usda(tmp_path, ""))
    assert character.appearance is None


def test_one_character_has_the_same_colours_in_gltf_and_in_a_usd_package(assets):
    pytest.importorskip("pxr", reason="USD comes with the extra supple[usd]")
    one, _ = told(assets / "gltf_characters" / "CesiumMan.glb")
    other, _ = told(assets / "usd_skel" / "CesiumMan.usdz")
    middles = [c.surface.vertices[c.surface.triangles].mean(axis=1) for c in (one, other)]
    far, nearest = cKDTree(middles[1]).query(middles[0])
    assert far.max() < 1e-4 * one.surface.size
    apart = np.abs(colours(one) - colours(other)[nearest])  # one is a JPEG of the other's
    assert apart.mean() < 0.01
    assert np.ptp(colours(one)[:, 0]) > 0.5
