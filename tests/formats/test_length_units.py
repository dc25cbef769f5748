"""A file's unit can be told: lengths become metres by it; what is saved keeps the file's own."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest

import supple
from helpers.gltf_builder import skinned_octahedron, turn
from helpers.gltf_reference import Reference
from supple.cli.main import main
from supple.errors import SuppleError, SuppleWarning
from supple.formats.length_units import metres_in, unit_name
from supple.rig.baked_motion import BakedMotion

USD = """#usda 1.0
( upAxis = "Y"
  {unit} )
def Xform "Top"
{{
    def Mesh "Block"
    {{
        int[] faceVertexCounts = [3, 3, 3, 3]
        int[] faceVertexIndices = [0,2,1, 0,1,3, 0,3,2, 1,2,3]
        point3f[] points = [(0,0,0), (2,0,0), (0,3,0), (0,0,4)]
    }}
}}
"""


def octahedron(path: Path) -> Path:
    builder = skinned_octahedron()
    builder.animate(2, "translation", [0, 1], [[0, -1, 0], [1, -1, 0]])
    builder.animate(3, "rotation", [0, 0.5, 1], [turn(2, 0.3), turn(2, 0.9), turn(1, 0.2)])
    return builder.save_glb(path)


@pytest.mark.parametrize("metres", [0.01, 0.0254, 100.0])
def test_a_given_unit_scales_surface_rig_and_root_of_a_gltf_file(tmp_path, metres):
    path = octahedron(tmp_path / "a.glb")
    own, told = supple.load(path), supple.load(path, metres_per_unit=metres)
    assert (own.metres_per_unit, told.metres_per_unit) == (1.0, metres)
    np.testing.assert_allclose(told.surface.vertices, metres * own.surface.vertices, atol=1e-12)
    for mine, its in zip(own.motions["clip"].roots, told.motions["clip"].roots, strict=True):
        np.testing.assert_allclose(its[:3, 3], metres * mine[:3, 3], atol=1e-9 * metres)
        np.testing.assert_allclose(its[:3, :3], mine[:3, :3], atol=1e-12)


def test_a_tall_file_is_in_metres_if_requested(assets):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", SuppleWarning)
        character = supple.load(assets / "gltf_characters" / "Fox.glb", metres_per_unit=1)
    assert character.surface.size > 100
    assert not [each for each in caught if "CENTIMETRES" in str(each.message)]


def test_a_saved_file_keeps_its_unit(tmp_path):
    path = octahedron(tmp_path / "a.glb")
    shown = []
    for metres in (1.0, 0.01):
        character = supple.load(path, metres_per_unit=metres)
        motion = character.motions["clip"].resample(30)
        still = BakedMotion(character, motion, np.empty(0, np.float32), 30.0)
        swing = 0.1 * metres * np.sin(np.arange(motion.n_frames))
        frames = np.stack([still.rig_frame(k) + move for k, move in enumerate(swing)])
        baked = BakedMotion(character, motion, frames.astype(np.float32), 30.0)
        supple.save(tmp_path / "soft.glb", baked)
        shown.append(Reference(tmp_path / "soft.glb").positions(0, float(motion.times[7])))
    for key, places in shown[0].items():
        np.testing.assert_allclose(shown[1][key], places, atol=1e-3)


def test_a_given_unit_overrides_that_of_a_usd_stage(tmp_path):
    pytest.importorskip("pxr", reason="USD comes with the extra supple[usd]")
    (tmp_path / "a.usda").write_text(USD.format(unit="metersPerUnit = 0.01"))
    (tmp_path / "b.usda").write_text(USD.format(unit=""))
    with warnings.catch_warnings():
        warnings.simplefilter("error", SuppleWarning)
        assert np.ptp(supple.load(tmp_path / "a.usda").surface.vertices[:, 1]) == 0.03
        for name in ("a.usda", "b.usda"):  # nor is it said that the file does not say
            told = supple.load(tmp_path / name, metres_per_unit=0.5)
            assert np.ptp(told.surface.vertices[:, 1]) == 1.5
    with pytest.warns(SuppleWarning, match="does not define its unit; centimetres are used"):
        supple.load(tmp_path / "b.usda")


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), 1e-30, 1e30, "cm", [1, 2]])
def test_invalid_lengths_are_one_line_errors(tmp_path, value):
    path = octahedron(tmp_path / "a.glb")
    with pytest.raises(SuppleError, match=r"^metres_per_unit") as caught:
        supple.load(path, metres_per_unit=value)
    assert "\n" not in str(caught.value)


def test_units_are_read_by_symbol_or_number():
    assert [metres_in(word) for word in ("m", "CM", "mm", "in", "ft", "0.3", "1e-2")] == [
        1.0, 0.01, 0.001, 0.0254, 0.3048, 0.3, 0.01,
    ]  # fmt: skip
    assert (unit_name(0.01), unit_name(0.07)) == ("centimetres", "0.07 m each")
    for word in ("furlong", "", "nan", "-1", "0", "inf"):
        with pytest.raises(SuppleError, match=r"--unit .*: use m, cm, mm, in, ft, or"):
            metres_in(word)


def test_info_shows_the_size_in_metres_and_the_unit(tmp_path, capsys):
    path = octahedron(tmp_path / "a.glb")
    found = []
    for more in ((), ("--unit", "in")):
        main(["info", str(path), "--json", *more])
        found.append(json.loads(capsys.readouterr().out))
    assert [each["metres_per_unit"] for each in found] == [1.0, 0.0254]
    np.testing.assert_allclose(found[1]["size"], 0.0254 * np.array(found[0]["size"]), rtol=1e-4)
    main(["info", str(path), "--unit", "in"])
    assert "inches, 0.0254 m each, by --unit" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["bake", "build", "view"])
def test_a_unit_is_refused_for_scenes(command, capsys):
    with pytest.raises(SystemExit):
        main([command, "x", "--unit", "cm", "--quiet"])
    assert "x: is in metres; --unit is for files of characters" in capsys.readouterr().err


def test_a_model_of_another_unit_is_refused_with_the_reason(tmp_path):
    from helpers.build_samples import stepped_model
    from supple.mesh.surface import SurfaceMesh
    from supple.playback.bake_model import check_model
    from supple.rig.character import Character

    model = stepped_model("firm")
    small = SurfaceMesh(0.01 * model.surface.vertices, model.surface.triangles)
    with pytest.raises(SuppleError, match=r"100 times as large as worm: .* another unit; load"):
        check_model(Character("worm", small, model.rig), model)
