"""Pictures of models: what they show is what the model holds."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.text import Text

import supple
from helpers.build_samples import bar_options, bending_bar
from helpers.model_samples import sample_fields, sample_model
from supple.app.building import run_build
from supple.app.command_files import checked_sheet
from supple.app.options import BuildOptions
from supple.app.pictures.drawing import BONE, PALETTE, label
from supple.app.pictures.model_sheet import (
    frequency_ratios,
    model_sheet,
    region_colours,
    skin_displacement,
    softest_columns,
    tree_places,
    write_model_sheet,
)
from supple.cli.main import main
from supple.engines.pose_space.model.model import PoseSpaceModel
from supple.errors import SuppleError
from supple.playback.character_sources import CharacterSource
from supple.rig.poses.pose_weights import PoseWeights


class BarSource(CharacterSource):
    """A bar, built in a second."""

    def recipe(self, engine: str) -> dict[str, Any]:
        return bar_options()


def words(figure: Figure) -> list[str]:
    """All that a figure says."""
    return [text.get_text() for text in figure.findobj(Text) if text.get_text().strip()]


def renamed(names: list[str], **changed: Any) -> PoseSpaceModel:
    """The sample with other names of poses."""
    model = sample_model()
    weights = model.pose_weights
    return replace(
        model, pose_weights=PoseWeights(weights.poses, weights.scales, names=names), **changed
    )


def test_a_sheet_is_a_picture_with_colours_in_all_three_rows(tmp_path):
    write_model_sheet(sample_model(), tmp_path / "beam.png")
    pixels = imread(tmp_path / "beam.png")[:, :, :3]
    assert pixels.shape[1] == 1650
    coloured = np.ptp(pixels, axis=2).max(axis=1) > 0.3
    bands = np.flatnonzero(np.diff(coloured.astype(int)) == 1)
    assert len(bands) >= 3


def test_poses_regions_and_frequencies_are_named():
    model = sample_model()
    said = words(model_sheet(model))
    for name in (*model.pose_names, *(region.name for region in model.regions), "held by bones"):
        assert name in said
    lowest = np.sqrt(model.root_eigenvalues.min()) / (2 * np.pi)
    assert f"near\n{lowest:.2f} Hz" in " ".join(said).replace(", from behind", "")
    assert f"elastic: {len(model.elastic_tets)} tets" in said
    assert f"inertial: {len(model.inertial_vertices)} vertices" in said


def test_skin_has_its_regions_colours_and_grey_where_bones_hold_it():
    model = sample_model()
    near, far = model.regions
    weights = np.zeros((len(model.mesh.vertices), 2))
    weights[near.vertices, 0], weights[far.vertices, 1] = near.weights, far.weights
    weights = model.embedding @ weights  # the beam's skin is vertices of its tets
    colours = region_colours(model)
    held = weights.sum(axis=1) == 0
    assert held.any()
    np.testing.assert_allclose(colours[held], np.tile(to_rgb(BONE), (held.sum(), 1)), atol=1e-12)
    only_near = (weights[:, 0] > 1 - 1e-12) & (weights[:, 1] == 0)
    both = weights.min(axis=1) > 0.3
    assert both.any()
    expected = weights[both] @ [to_rgb(PALETTE[0]), to_rgb(PALETTE[1])]
    np.testing.assert_allclose(colours[both], expected, atol=1e-6)
    np.testing.assert_allclose(
        colours[only_near], np.tile(to_rgb(PALETTE[0]), (only_near.sum(), 1))
    )


@pytest.mark.parametrize("interpolation", ["frames", "world"])
def test_a_column_moves_the_skin_as_the_neutral_poses_basis_does(interpolation):
    model = sample_model(interpolation=interpolation)
    basis = model.interpolated_basis(model.poses[0]).reshape(-1, 3, model.n_modes)
    for column in range(model.n_modes):
        expected = model.embedding @ basis[:, :, column]
        np.testing.assert_allclose(skin_displacement(model, column), expected, atol=2e-4)


def test_each_regions_softest_columns_come_before_second_ones():
    model = replace(sample_model(), root_eigenvalues=np.array([1.0, 2, 3, 4, 50, 60, 70]))
    assert softest_columns(model, 2) == [0, 4]
    assert softest_columns(model, 4) == [0, 1, 4, 5]
    assert softest_columns(model, 100) == list(range(7))


def test_a_tree_has_its_poses_apart_and_children_below_and_right_of_parents():
    parents = np.array([-1, 6, 7, 0, 8, 0, 0, 1, 1, 7])
    places = tree_places(parents)
    assert sorted(places[:, 1]) == list(range(-9, 1))
    for pose, parent in enumerate(parents[1:], start=1):
        assert places[pose, 0] == places[parent, 0] + 1
        assert places[pose, 1] < places[parent, 1]
    chain = tree_places(np.arange(3000) - 1)  # deeper than Python recurses
    np.testing.assert_array_equal(chain[:, 0], np.arange(3000))


def test_edges_show_frequency_ratios_where_the_report_has_them():
    rows = [{"name": "up", "frequency_ratio": 1.0214}, {"name": "side", "frequency_ratio": None}]
    model = replace(sample_model(), report={"pose_rows": rows})
    assert frequency_ratios(model) == {1: 1.0214}
    said = words(model_sheet(model))
    assert "×1.021" in said
    assert any("frequency ratio" in text for text in said)
    assert not any("frequency ratio" in text for text in words(model_sheet(sample_model())))


@pytest.mark.parametrize("rows", [None, 3, "rows", [1, None], {"up": 1}, [{"name": "up"}], [{}]])
def test_a_report_of_another_shape_has_no_ratios(rows):
    assert frequency_ratios(replace(sample_model(), report={"pose_rows": rows})) == {}


def test_names_are_no_formulas_and_no_commands(tmp_path):
    model = renamed(["$\\frac{", "_hidden\n\x1b[31m", "走る" + "long" * 200], name="a $ b $ ^")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        write_model_sheet(model, tmp_path / "odd.png")
    said = words(model_sheet(model))
    assert "$\\frac{" in said
    assert "_hidden??[31m" in said
    assert max(len(text) for text in said) < 80


def test_one_pose_and_many_regions_can_be_drawn(tmp_path):
    fields = sample_fields()
    near, far = fields["regions"]
    weights = fields["pose_weights"]
    one = {name: fields[name][:1] for name in ("elastic_weights", "inertial_weights", "parents")}
    one["pose_weights"] = PoseWeights(weights.poses[:1], weights.scales, names=["alone"])
    regions = [
        replace(region, name=f"{region.name} {k}") for k in range(10) for region in (near, far)
    ]
    bases = [tuple(fields["bases"][0]) * 10]
    modes = sum(basis.shape[2] for basis in bases[0])
    model = PoseSpaceModel.make(
        **fields
        | one
        | {
            "regions": regions,
            "bases": bases,
            "rotations": None if fields["rotations"] is None else fields["rotations"][:1],
            "mass_products": np.eye(modes)[None],
            "root_eigenvalues": np.linspace(0, 90, modes),
            "stiffness_corrections": None,
            "correction_ends": np.empty((0, 2), int),
            "inertial_corrections": None,
        }
    )
    write_model_sheet(model, tmp_path / "one.png")
    said = words(model_sheet(model))
    assert "alone" in said
    assert "and 5 more" in said


def test_a_build_draws_what_it_has_saved(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(
        "supple.app.building.read_any_character",
        lambda *_: BarSource(bending_bar()),
    )
    sheet = tmp_path / "bar.png"
    main(["build", "bar", "-o", str(tmp_path / "bar.supple"), "--sheet", str(sheet), "-q"])
    again = tmp_path / "again.png"
    write_model_sheet(supple.PoseSpaceModel.load(tmp_path / "bar.supple"), again)
    assert sheet.read_bytes() == again.read_bytes()


@pytest.mark.parametrize("name", ["sheet.jpg", "sheet", "no/where.png", "folder.png"])
def test_a_sheet_that_cannot_be_is_refused_before_the_build(name, tmp_path, monkeypatch):
    (tmp_path / "folder.png").mkdir()
    monkeypatch.setattr(
        "supple.engines.engine.Engine.build_model", lambda *_, **__: pytest.fail("has built")
    )
    with pytest.raises(SuppleError, match=r"written as \.png|there is no folder|cannot be written"):
        run_build("x", tmp_path / "x.supple", BuildOptions(sheet=tmp_path / name), quiet=True)
    assert not (tmp_path / "x.supple").exists()


def test_a_sheet_may_be_written_over(tmp_path):
    (tmp_path / "a.PNG").write_bytes(b"")
    assert checked_sheet(tmp_path / "a.PNG") == tmp_path / "a.PNG"


def test_long_labels_keep_both_ends():
    assert label("RatArmature|Rat_Death:13", 20) == "RatArmatu…_Death:13"
    assert label("short") == "short"


def test_json_is_all_that_a_drawing_build_prints(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(
        "supple.app.building.read_any_character",
        lambda *_: BarSource(bending_bar()),
    )
    output, sheet = str(tmp_path / "bar.supple"), str(tmp_path / "bar.png")
    main(["build", "bar", "-o", output, "--sheet", sheet, "--json"])
    assert json.loads(capsys.readouterr().out)["output"] == output
