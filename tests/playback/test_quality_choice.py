"""Quality auto: the full simulation where it is quick, otherwise the reduced model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.build_samples import bending_bar, flesh_options, stepped_model
from helpers.character_files import save_character
from helpers.sample_bodies import figure
from supple.app.bake_summary import flesh_rows, reported_bakes
from supple.app.baking import run_bake
from supple.app.options import BakeOptions
from supple.engines.engine import ENGINES
from supple.errors import SolverError, SuppleWarning
from supple.mesh.obstacles import Plane
from supple.playback import (
    character_models,
    flesh_motion,
    quality_choice,
    refined_player,
    request,
)
from supple.playback.bake_plan import bake_plan
from supple.playback.baking import bake, bake_all
from supple.playback.character_models import PreparedModel
from supple.playback.character_sources import source_of
from supple.playback.quality_choice import choose_quality
from supple.playback.request import BakeRequest
from supple.rig.motion.motion import Motion

CELLS = (6, 2, 2)
BAR = bending_bar(cells=CELLS)
OPTIONS: dict[str, Any] = flesh_options(CELLS) | {"anatomy": None, "bones": None}
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*nothing holds its flesh",
    "ignore:motion .* is too violent",
    "ignore:motion .*in ",
)


def swing(seconds: float) -> Motion:
    times = np.linspace(0, seconds, 13)
    return Motion(times, 0.4 * np.sin(2 * np.pi * times / seconds)[:, None], name="swing")


PART: dict[str, Any] = {"motion": "swing", "start": 0.0, "seconds": 0.5, "frames": 45}


def chosen(seconds: float, engine: str = "pose-space", **how: Any) -> str:
    rate, building = how.pop("rate", None), how.pop("building", {"tets": 8000})
    plan = bake_plan(BAR, swing(seconds), rate=rate)
    given = {"given": False, "kept": False} | how
    simulation = given.pop("simulation", {})
    return choose_quality(ENGINES[engine], [plan], building, simulation, **given).quality


def test_short_clips_are_simulated_in_full_and_long_ones_by_a_reduced_model():
    assert chosen(1.0) == "final"
    assert chosen(20.0) == "live"
    assert chosen(1.0, kept=True) == "live"
    assert chosen(1.0, kept=True, building={"tets": 100}) == "final"
    assert chosen(2.5) == chosen(2.5, building={"tets": np.int64(8000)})
    assert chosen(1.0, rate=1000) == "live"


def test_what_the_full_simulation_lacks_is_baked_live():
    assert chosen(1.0, given=True) == "live"
    assert chosen(1.0, engine="rig-space") == "live"
    assert chosen(1.0, engine="full") == "live"
    assert chosen(1.0, building={"modes": 8}) == "live"
    assert chosen(1.0, simulation={"obstacles": [Plane((0, 0, 0), (0, 1, 0))]}) == "live"
    assert chosen(1.0, building={"tets": "many"}) == "final"  # which the builder refuses


def test_options_of_the_full_simulation_alone_choose_it_without_falling_back():
    plans = [bake_plan(BAR, swing(20.0))]
    for given in (False, True):
        how: dict[str, Any] = {"given": given, "kept": True}
        choice = choose_quality(ENGINES["pose-space"], plans, {}, {"newton": 20}, **how)
        assert choice.quality == "final"
        assert choice.reason == "newton is an option of the full simulation only"
        asked = BakeRequest(source_of(BAR), None, ENGINES["pose-space"], quality="auto")
        assert not asked.with_choice(choice).falls_back


def test_options_of_the_full_simulation_also_choose_it_for_a_swing():
    simulation = {"psd": False, "newton": 20}
    options: dict[str, Any] = {"quality": "auto", "swing": "1%"}
    asked = BakeRequest(source_of(BAR), None, ENGINES["pose-space"], simulation, **options)
    assert asked.decided([]).quality == "final"
    assert replace(asked, simulation={}).decided([]).quality == "live"


def test_python_takes_the_full_simulation_within_five_percent_with_the_reason(monkeypatch):
    monkeypatch.setattr(request, "IMPLAUSIBLE", 10.0)
    baked = bake(BAR, swing(0.2), keep=False, progress=False, **OPTIONS)
    report = baked.report
    assert (report["quality"], report["engine"]) == ("final", "full")
    assert report["quality_reason"].startswith("the full simulation takes about")
    assert report["change"] <= 0.05
    exact = bake(BAR, swing(0.2), quality="final", keep=False, progress=False, **OPTIONS)
    assert exact.report["change"] <= 0.02
    assert exact.report["substeps"]["most"] > report["substeps"]["most"]
    assert "quality_reason" not in exact.report


def test_a_given_model_is_baked_live():
    how: dict[str, Any] = {"model": stepped_model("firm"), "simulation": {"stiffness": 1.0}}
    baked = bake(BAR, swing(0.2), progress=False, **how)
    assert baked.report["quality"] == "live"
    assert baked.report["quality_reason"] == "its model is given"


@pytest.fixture
def built(monkeypatch):
    """Engines of models that are built; the reduced one is a sample."""
    built: list[str] = []

    def fitting_model(*args: Any) -> Any:
        built.append(args[3])
        if args[3] == "pose-space":
            return PreparedModel(stepped_model("firm"), 0.0, True)
        return original(*args)

    original = request.fitting_model
    monkeypatch.setattr(request, "fitting_model", fitting_model)
    return built


def test_motions_that_take_too_much_work_in_full_are_baked_live_with_the_reason(monkeypatch, built):
    monkeypatch.setattr(quality_choice, "_ITERATION", 1e6)
    (baked,) = bake_all(BAR, motions=[swing(0.2)], keep=False, progress=False, **OPTIONS)
    assert built == ["full", "pose-space"]
    assert baked.report["quality"] == "live"
    reason = baked.report["quality_reason"]
    assert reason == "the full simulation would take more than 2 times as long as live"


def test_only_the_violent_clips_are_baked_live_and_their_checkpoints_removed(
    monkeypatch, built, tmp_path
):
    monkeypatch.setenv("SUPPLE_CACHE", str(tmp_path))
    monkeypatch.setattr(request, "IMPLAUSIBLE", 10.0)
    original = request.final_take

    def final_take(player_with: Any, *args: Any) -> Any:
        if player_with(1).motion.name == "violent":
            raise SolverError("too violent")
        return original(player_with, *args)

    monkeypatch.setattr(request, "final_take", final_take)
    clips = [swing(0.2), replace(swing(0.2), name="violent"), replace(swing(0.3), name="last")]
    bakes = bake_all(BAR, motions=clips, keep=False, progress=False, **OPTIONS)
    assert built == ["full", "pose-space"]
    assert [each.motion.name for each in bakes] == ["swing", "violent", "last"]
    assert [each.report["quality"] for each in bakes] == ["final", "live", "final"]
    assert bakes[1].report["quality_reason"] == "the full simulation failed: too violent"
    assert bakes[0].report["quality_reason"].startswith("the full simulation takes about")
    assert not [*tmp_path.rglob("*.part.npz")]
    figures = reported_bakes(bakes)
    assert [clip["quality"] for clip in figures["clips"]] == ["final", "live", "final"]
    assert figures["engine"] == "pose-space"
    assert {title for title, _ in flesh_rows(figures)} >= {"flesh", "truth"}


def test_a_command_whose_clips_fell_back_reports_the_build_of_the_reduced_model(
    monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUPPLE_CACHE", str(tmp_path))
    save_character(figure().character(), Path("body.glb"), swings="chest")
    options = BakeOptions(tets=400, poses=["1"], end=0.1)
    run_bake("body.glb", Path("a.npz"), replace(options, quality="live"), quiet=True)

    def fails(*args: Any) -> None:
        raise SolverError("no solution")

    monkeypatch.setattr(request, "final_take", fails)
    figures = run_bake("body.glb", Path("b.npz"), options, quiet=True)
    assert figures["quality"] == "live"
    assert figures["quality_reason"] == "the full simulation failed: no solution"
    assert figures["model_kept"]


def test_a_full_simulation_far_off_the_rig_is_not_taken(monkeypatch, built):
    monkeypatch.setattr(request, "IMPLAUSIBLE", 1e-9)
    (baked,) = bake_all(BAR, motions=[swing(0.2)], keep=False, progress=False, **OPTIONS)
    assert baked.report["quality"] == "live"
    assert "flesh moves by" in baked.report["quality_reason"]


def test_a_kept_model_that_is_known_to_be_bad_does_not_make_live_cheap(monkeypatch):
    report = {"accuracy": {"distance": 0.6, "amplitude": 1.0, **PART}}
    bad = replace(stepped_model("firm"), report=report)
    kept = PreparedModel(bad, 0.0, True)
    monkeypatch.setattr(character_models, "kept_model", lambda *args, **options: kept)
    assert not character_models.has_good_model(source_of(BAR))
    good = replace(bad, report={"accuracy": {"distance": 0.2, "amplitude": 1.0, **PART}})
    kept = PreparedModel(good, 0.0, True)
    monkeypatch.setattr(character_models, "kept_model", lambda *args, **options: kept)
    assert character_models.has_good_model(source_of(BAR))


def test_flesh_that_moves_very_far_is_a_warning(monkeypatch):
    monkeypatch.setattr(flesh_motion, "TOO_MUCH", 1e-6)
    monkeypatch.setattr(flesh_motion, "STILL", 0.0)
    with pytest.warns(SuppleWarning, match=r"moves by up to .* % of the size at .*use firm flesh"):
        bake(BAR, swing(0.2), model=stepped_model("firm"), progress=False)


def test_final_of_a_violent_motion_ends_early_with_a_warning(monkeypatch):
    monkeypatch.setattr(refined_player, "MOST_WORK", 0)
    monkeypatch.setattr(refined_player, "FEW_SUBSTEPS", 2)
    with pytest.warns(UserWarning, match="halving the time step still changes"):
        baked = bake(BAR, swing(0.2), quality="final", keep=False, progress=False, **OPTIONS)
    assert not baked.report["converged"]
    assert baked.report["substeps"]["most"] == 2


def test_an_error_of_a_chosen_final_is_raised_where_final_was_requested(monkeypatch):
    def fails(*args: Any) -> None:
        raise SolverError("no solution")

    monkeypatch.setattr(request, "final_take", fails)
    with pytest.raises(SolverError, match="no solution"):
        bake(BAR, swing(0.2), quality="final", keep=False, progress=False, **OPTIONS)
