"""The printed recipe: the paper's method, and each of its parts as a switch of its own."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import supple
from helpers.build_samples import bar_mesh, bar_options, bending_bar, held_end
from supple.cli.main import main
from supple.engines.pose_space.build.build import BuildOptions, build
from supple.engines.pose_space.build.recipe import RECIPES, Recipe
from supple.engines.pose_space.model.model import PoseSpaceModel
from supple.reduction.regions.handles import Handle
from supple.reduction.regions.region_weights import regions_of
from supple.scenes.characters.character_scene import scene

SWITCHES = {
    name: value
    for name, value in vars(RECIPES["printed"]).items()
    if value != vars(RECIPES["default"])[name]
}


def _handles() -> list[Handle]:
    return [Handle(str(x), np.array([[x, 1 / 12, 1 / 12]])) for x in (0.3, 0.6, 0.9)]


def _bar(**switches: Any) -> PoseSpaceModel:
    return build(bending_bar(), **bar_options(regions=_handles(), modes=[4, 4, 4], **switches))


@pytest.fixture(scope="module")
def models() -> dict[str, PoseSpaceModel]:
    return {"default": _bar(), "printed": _bar(recipe="printed")}


def test_the_printed_recipe_is_the_papers_equations(models: dict[str, PoseSpaceModel]) -> None:
    printed = models["printed"]
    assert printed.interpolation == "world"
    assert printed.rotations is None
    assert printed.stiffness_corrections is None
    assert printed.inertial_corrections is None
    assert len(printed.correction_ends) == 0
    # Eq. 23: one set of weights for all poses.
    np.testing.assert_array_equal(
        printed.inertial_weights, printed.inertial_weights[:1] + 0 * (printed.inertial_weights)
    )
    # Regions of §7, with its η and κ.
    mesh = bar_mesh()
    theirs = regions_of(mesh, _handles(), held_end(mesh), threshold=0.1, exponent=0.5)
    for region, expected in zip(printed.regions, theirs, strict=True):
        np.testing.assert_allclose(region.weights, expected.weights)
    default = models["default"]
    assert default.interpolation == "frames"
    assert default.stiffness_corrections is not None
    assert default.inertial_corrections is not None


@pytest.mark.parametrize("switch", sorted(set(SWITCHES) - {"contacts"}))
def test_each_switch_alone_changes_the_default_model(
    models: dict[str, PoseSpaceModel], switch: str
) -> None:
    value = 0 if switch == "reach" else SWITCHES[switch]
    model = _bar(**{switch: value})
    assert any(
        not np.array_equal(getattr(model, name), getattr(models["default"], name))
        for name in ("mass_products", "elastic_weights", "inertial_weights", "elastic_tets")
    ) or (model.inertial_corrections is None)


def test_all_switches_together_are_the_printed_recipe(models: dict[str, PoseSpaceModel]) -> None:
    model = _bar(**{name: 0 if value is None else value for name, value in SWITCHES.items()})
    for name in ("elastic_tets", "elastic_weights", "inertial_weights", "mass_products"):
        np.testing.assert_array_equal(getattr(model, name), getattr(models["printed"], name))


def test_the_papers_counts_replace_those_of_a_scene() -> None:
    arm = scene("arm")
    assert (arm.recipe()["elastic_cubature"], arm.printed_recipe()["elastic_cubature"]) == (
        112,
        192,
    )
    assert arm.printed_recipe()["inertial_cubature"] == arm.paper.inertial_cubature
    assert BuildOptions(**arm.printed_recipe()).switches == Recipe(**vars(RECIPES["printed"]))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"recipe": "printd"}, "recipe is .*; use one of default, printed"),
        ({"selection": "best"}, "selection is .*; use one of exchange, thresholding"),
        ({"linear_forces": 1}, "linear_forces is 1; use one of cubature, exact"),
        ({"inertial_fit": "none"}, "inertial_fit is .*; use one of"),
        ({"reach": -1.0}, "reach is -1; it must be positive, or 0"),
        ({"region_threshold": 1.0}, "threshold is 1"),
        ({"recipe": "printed", "basis": "shaken"}, "printed recipe has modes"),
        ({"linaer_forces": "exact"}, 'no option "linaer_forces"; did you mean "linear_forces"'),
    ],
)
def test_wrong_switches_give_one_line(options: dict[str, Any], words: str) -> None:
    with pytest.raises(supple.SuppleError, match=words) as raised:
        supple.build(bending_bar(), keep=False, **bar_options(**options))
    assert "\n" not in str(raised.value)


def test_the_command_builds_the_printed_recipe(
    tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """A scene gets the paper's counts; an option of the group replaces its part."""
    sizes = ["--tets", "900", "--modes", "6", "--quiet", "--json"]
    out = tmp_path / "x.supple"
    main(["build", "x", "-o", str(out), "--recipe", "printed", "--inertial-fit", "weights", *sizes])
    report = json.loads(capsys.readouterr().out)
    model = supple.load_model(out)
    assert (report["elastic_tets"], report["inertial_vertices"]) == (144, 50)
    assert model.interpolation == "world"
    assert model.stiffness_corrections is None
    assert len(np.unique(model.inertial_weights, axis=0)) == 3
