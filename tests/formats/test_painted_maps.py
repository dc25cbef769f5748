"""Maps that artists paint come with the file: glTF attributes and USD primvars."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supple
from helpers.character_files import save_character
from helpers.sample_bodies import figure
from supple.anatomy.anatomy import anatomy_of
from supple.anatomy.flesh_presets import SOFTEST, STIFFEST
from supple.errors import SuppleWarning
from supple.formats.painted_maps import PAINTED
from supple.rig.character import Character


@pytest.fixture(scope="module")
def body() -> Character:
    return figure().character()


def saved(body: Character, folder: Path, **painted: Any) -> Character:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SuppleWarning)  # they are in `warnings`
        return supple.load(save_character(body, folder / "body.glb", **painted))


def nearest(character: Character, body: Character, values: np.ndarray) -> np.ndarray:
    """Values of the character's vertices from those of the body's at the same places."""
    away = np.linalg.norm(character.surface.vertices[:, None] - body.surface.vertices[None], axis=2)
    return values[away.argmin(axis=1)]


def test_factors_have_the_limits_of_other_stiffness_maps():
    assert PAINTED["stiffness"] == (SOFTEST, STIFFEST)


def test_a_gltf_attribute_paints_what_is_rigid(body: Character, tmp_path: Path):
    chest = (np.abs(body.surface.vertices[:, 0]) < 0.25).astype(float)
    found = saved(body, tmp_path, _SUPPLE_RIGID=chest)
    np.testing.assert_allclose(found.painted["rigid"], nearest(found, body, chest))
    assert anatomy_of(found).hard[found.painted["rigid"] == 1].all()


def test_a_vertex_colour_paints_by_its_brightness_whatever_its_opacity(body, tmp_path):
    values = np.where(body.surface.vertices[:, 1] > 1.2, 0.5, 0.0)
    colour = np.column_stack([values, values, values, np.ones(len(values))])
    found = saved(body, tmp_path, _Supple_Rigid=colour)
    np.testing.assert_allclose(found.painted["rigid"], nearest(found, body, values))


def test_nought_is_not_painted_and_blank_maps_are_none(body, tmp_path):
    factors = np.where(body.surface.vertices[:, 1] > 1.2, 4.0, 0.0)
    found = saved(body, tmp_path, _SUPPLE_STIFFNESS=factors, _SUPPLE_RIGID=0 * factors)
    assert set(found.painted) == {"stiffness"}
    assert set(np.unique(found.painted["stiffness"])) == {1.0, 4.0}


def test_other_attributes_are_none_of_ours(body, tmp_path):
    ones = np.ones(len(body.surface.vertices))
    assert saved(body, tmp_path, _SUPPLE_COLOUR=ones, _RIGID=ones).painted == {}


@pytest.mark.parametrize("bad", [np.nan, np.inf, -3.0, 7.0])
def test_invalid_values_are_clamped_and_reported(body, tmp_path, bad):
    paint = np.ones(len(body.surface.vertices))
    paint[5] = bad
    found = saved(body, tmp_path, _SUPPLE_RIGID=paint)
    assert np.isfinite(found.painted["rigid"]).all()
    assert found.painted["rigid"].min() >= 0
    assert found.painted["rigid"].max() <= 1
    assert any('paints "rigid"' in line and "at vertex 5" in line for line in found.warnings)


def test_a_map_of_another_length_is_left_out(body, tmp_path):
    found = saved(body, tmp_path, _SUPPLE_RIGID=np.ones(7))
    assert found.painted == {}
    assert any('paints "rigid" on 7 of' in line for line in found.warnings)


STAGE = """#usda 1.0
(
    metersPerUnit = 1
    upAxis = "Y"
)
def Mesh "Body"
{{
    point3f[] points = [(1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0), (0, 0, 1), (0, 0, -1)]
    int[] faceVertexCounts = [3, 3, 3, 3, 3, 3, 3, 3]
    int[] faceVertexIndices = [
        0, 2, 4, 2, 1, 4, 1, 3, 4, 3, 0, 4, 2, 0, 5, 1, 2, 5, 3, 1, 5, 0, 3, 5
    ]
    {primvar}
}}
"""
UP = "[0, 0, 1, 0, 0, 0]"
FACES = "[0, 0, 0, 0, 1, 1, 1, 1]"


@pytest.mark.parametrize(
    ("primvar", "wanted"),
    [
        (f'float[] primvars:supple:rigid = {UP} (interpolation = "vertex")', [0, 0, 1, 0, 0, 0]),
        ('float primvars:supple:rigid = 0.5 (interpolation = "constant")', [0.5] * 6),
        (
            f'float[] primvars:supple:rigid = {FACES} (interpolation = "uniform")',
            [0.5, 0.5, 0.5, 0.5, 0, 1],
        ),
        (
            "color3f[] primvars:supple:rigid = [(0, 0, 0), (1, 1, 1)] (\n"
            'interpolation = "vertex")\nint[] primvars:supple:rigid:indices = [0, 0, 1, 0, 0, 0]',
            [0, 0, 1, 0, 0, 0],
        ),
    ],
    ids=["vertex", "constant", "uniform", "indexed colours"],
)
def test_usd_primvars_of_every_kind_paint_points(tmp_path: Path, primvar: str, wanted: list[float]):
    pytest.importorskip("pxr", reason="usd-core is not installed")
    path = tmp_path / "body.usda"
    path.write_text(STAGE.format(primvar=primvar))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SuppleWarning)
        found = supple.load(path)
    order = [
        int(np.argmin(np.linalg.norm(found.surface.vertices - place, axis=1)))
        for place in np.array([[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]])
    ]
    np.testing.assert_allclose(found.painted["rigid"][order], wanted)


@pytest.mark.parametrize(
    "primvar",
    [
        'float[] primvars:supple:rigid = [1, 1] (interpolation = "vertex")',
        'token[] primvars:supple:rigid = ["a", "b", "c", "d", "e", "f"] (interpolation = "vertex")',
    ],
)
def test_usd_primvars_of_wrong_size_are_skipped_and_reported(tmp_path: Path, primvar: str):
    pytest.importorskip("pxr", reason="usd-core is not installed")
    path = tmp_path / "body.usda"
    path.write_text(STAGE.format(primvar=primvar))
    with pytest.warns(SuppleWarning, match="supple:rigid"):
        assert supple.load(path).painted == {}
