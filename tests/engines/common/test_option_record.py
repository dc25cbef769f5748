"""Records of options: whole, by keyword, with misspelt keywords."""

import inspect

import numpy as np
import pytest

import supple
from supple.engines.engine import ENGINES
from supple.engines.pose_space import BuildOptions, PoseSpaceSimulator, StepOptions
from supple.engines.pose_space import build as build_pose_space
from supple.errors import SuppleError
from supple.scenes import scene

CHARACTER_ENGINES = [row for row in ENGINES.values() if row.moves == "character"]


@pytest.fixture(scope="module")
def model():
    x = scene("x")
    return supple.build(x.character, **(x.recipe() | {"tets": 600, "modes": 6}))


def test_a_record_and_keywords_give_the_same_steps(model):
    record = PoseSpaceSimulator(model, options=StepOptions(dt=1 / 60, beta=0.02, alpha=1.0))
    keywords = PoseSpaceSimulator(model, 1 / 60, beta=0.02, alpha=1.0)
    for simulator in (record, keywords):
        for _ in range(5):
            simulator.step(0.1 * np.ones(len(model.rig.parameters)))
    assert record.dt == keywords.dt == 1 / 60
    assert np.array_equal(record.surface(), keywords.surface())


def test_keywords_replace_fields_of_a_record(model):
    simulator = PoseSpaceSimulator(
        model, 1 / 120, options=StepOptions(dt=1 / 60, beta=0.02), beta=0
    )
    assert (simulator.dt, simulator.options.beta) == (1 / 120, 0)


def test_a_build_takes_a_record():
    x = scene("x")
    options = BuildOptions(**(x.recipe() | {"tets": 600, "modes": 6}))
    model = build_pose_space(x.character, options=options)
    assert model.n_modes == 6
    assert build_pose_space(x.character, options=options, modes=5).n_modes == 5


def test_a_misspelt_keyword_is_refused_with_the_nearest(model):
    with pytest.raises(SuppleError, match='no option "gravty"; did you mean "gravity"'):
        PoseSpaceSimulator(model, gravty=0)
    with pytest.raises(SuppleError, match='no option "mods"; did you mean "modes"'):
        build_pose_space(scene("x").character, mods=5)


def test_another_object_is_refused_as_record(model):
    with pytest.raises(SuppleError, match="give StepOptions"):
        PoseSpaceSimulator(model, options={"beta": 0.1})  # type: ignore[arg-type]


@pytest.mark.parametrize("row", CHARACTER_ENGINES, ids=lambda row: row.name)
def test_signatures_list_every_option_and_stay_below_sixteen_parameters(row):
    for function in (row.build, row.simulate):
        listed = inspect.signature(function).parameters
        assert not any(each.kind is each.VAR_KEYWORD for each in listed.values())
        code = (function.__init__ if inspect.isclass(function) else function).__code__
        assert code.co_argcount + code.co_kwonlyargcount <= 15
