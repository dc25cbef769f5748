"""The error budget: each part against cases in which it alone is wrong, and rows that are kept."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supple
from helpers.build_samples import bar_options, bending_bar
from supple.cli.main import main
from supple.elastic.material import Material
from supple.engines.pose_space.build.reduced_poses import ReducedPoses
from supple.engines.pose_space.model.model import PoseSpaceModel
from supple.engines.pose_space.simulator import PoseSpaceSimulator
from supple.errors import SuppleError
from supple.lab.bench import budget_bench
from supple.lab.fidelity import budget as budget_module
from supple.lab.fidelity.budget import (
    BASES,
    VARIANTS,
    BlendedBasis,
    Budget,
    nearest_displacement,
    without_cubature,
)
from supple.lab.fidelity.truth import truth
from supple.rig.motion.motion import Motion

CELLS = (5, 2, 2)


@cache
def bar(**options: Any) -> PoseSpaceModel:
    material = Material("stvk", young=1e7, poisson=0.4)
    told = bar_options(CELLS, modes=6, material=material) | options
    return supple.build(bending_bar(cells=CELLS), **told)


@cache
def swing() -> Motion:
    times = np.linspace(0, 0.5, 26)
    return Motion(times, np.radians(20 + 25 * np.cos(14 * times))[:, None], name="swing")


@cache
def true_swing():
    return truth(bar(), swing(), 60, accuracy=0.05, flesh=True)


def of(model: PoseSpaceModel, **fields: Any) -> Budget:
    """A budget whose truth is known already: it depends on the tets alone."""
    made = Budget(model, swing(), 60.0, **fields)
    made.__dict__["truth"] = true_swing()
    return made


# --- The whole mesh -----------------------------------------------------------------------


def test_the_blended_basis_on_all_vertices_moves_the_skin_as_the_simulator_does() -> None:
    model = bar()
    whole = without_cubature(model, ReducedPoses.of_model(model))
    simulator, pose = PoseSpaceSimulator(model), swing().poses[7]
    simulator.reset(pose)
    start = simulator.surface().astype(np.float64)
    simulator.q = q = 1e-2 * np.cos(np.arange(model.n_modes))
    moved = simulator.surface() - start
    expected = model.embedding @ (BlendedBasis(whole)(pose) @ q).reshape(-1, 3)
    assert np.abs(moved - expected).max() < 2e-3 * np.abs(expected).max()


def test_without_cubature_forces_are_those_of_all_tets() -> None:
    """Falling in its own basis for a moment, as the projected simulation of all tets falls."""
    from supple.engines.baselines.pose_bases import interpolated
    from supple.engines.baselines.projected import PosedSubspace, ProjectedSimulator

    model = bar()
    poses = ReducedPoses.of_model(model)
    options: dict[str, Any] = {"gravity_mode": "absolute", "integrator": "backward-euler"}
    whole = PoseSpaceSimulator(without_cubature(model, poses), 1 / 90, **options)
    projected = ProjectedSimulator(
        PosedSubspace.from_model(model, interpolated(poses)), 1 / 90, **options
    )
    pose = model.poses[1]
    for each in (whole, projected):
        each.reset(pose)
        for _ in range(5):
            each.step(pose)
    fallen = projected.surface() - model.rig(pose)
    assert np.abs(whole.surface() - projected.surface()).max() < 5e-3 * np.abs(fallen).max()


def test_projection_keeps_motions_in_the_basis_and_drops_the_rest() -> None:
    model = bar()
    basis = BlendedBasis(without_cubature(model, ReducedPoses.of_model(model)))(model.poses[0])
    inside = (basis @ np.arange(1.0, 1 + model.n_modes)).reshape(-1, 3)
    assert nearest_displacement(model, basis, inside) == pytest.approx(inside, abs=1e-9)
    outside = np.zeros_like(inside)
    outside[np.setdiff1d(np.arange(len(inside)), model.fixed)[0]] = 1.0
    found = nearest_displacement(model, basis, outside)
    assert np.abs(nearest_displacement(model, basis, outside - found)).max() < 1e-9


# --- Parts --------------------------------------------------------------------------------


def test_the_reference_has_the_positions_of_its_tets() -> None:
    true, model = true_swing(), bar()
    assert true.flesh is not None
    skin = true.frames[9] - true.rig[9]
    assert model.embedding @ true.flesh[9] == pytest.approx(skin, abs=1e-5)
    with pytest.raises(SuppleError, match='flesh needs the engine "full"'):
        truth(model, swing(), 60, engine="pose-space", flesh=True)


def test_more_modes_leave_less_outside_of_the_basis() -> None:
    few, more = (of(bar(modes=count)).basis("basis") for count in (3, 12))
    assert more["error"] < 0.5 * few["error"]
    assert few["error"] < 0.3
    assert more["amplitude"] == pytest.approx(1, abs=0.02)


def test_wrong_cubature_is_found_in_cubature_and_nowhere_else() -> None:
    """Inertial weights of a model are doubled: what is left without cubature is as before."""
    model = bar()
    assert model.inertial_corrections is not None
    wrong = replace(
        model,
        inertial_weights=2 * model.inertial_weights,
        inertial_corrections=2 * model.inertial_corrections,
    )
    right, found = of(model), of(wrong)
    assert (
        found.variant_row("whole inertial")["change"]
        > 0.5
        > 10 * right.variant_row("whole inertial")["change"]
    )
    assert found.variant_row("whole elastic")["change"] < 0.1
    assert found.variant_row("whole")["error"] == pytest.approx(
        right.variant_row("whole")["error"], rel=1e-3
    )


def test_a_limit_that_acts_is_found_in_limits() -> None:
    near = of(bar(), options={"displacement_limit": 0.01})
    assert near.variant_row("live")["limits"]["displacement"] > 0
    assert near.variant_row("limits")["change"] > 0.1
    assert near.variant_row("limits")["limits"] == {}
    assert of(bar()).variant_row("limits")["change"] == 0


def test_time_steps_are_the_error_that_a_finer_step_lacks() -> None:
    found = of(bar())
    one, live, fine = (found.variant_row(name) for name in ("bdf2 1", "live", "fine"))
    assert fine["error"] < 0.25 * one["error"]
    assert fine["error"] < live["error"] < 0.6 * one["error"]
    assert abs(one["amplitude"] - 1) > abs(fine["amplitude"] - 1)


# --- Rows that are kept, and the command --------------------------------------------------


def test_finished_rows_are_not_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = of(bar(), folder=tmp_path)
    row = first.variant_row("live")

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("measured again")

    with monkeypatch.context() as patch:
        patch.setattr(budget_module, "played", refuse)
        assert of(bar(), folder=tmp_path).variant_row("live") == row
        with pytest.raises(AssertionError, match="again"):  # another budget has other rows
            of(bar(), folder=tmp_path, options={"beta": 0.02}).variant_row("live")
    (file,) = tmp_path.glob("budget-*.json")
    file.write_text("{")
    assert of(bar(), folder=tmp_path).variant_row("live")["error"] == row["error"]


def test_the_command_prints_a_budget_and_draws_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SUPPLE_CACHE", str(tmp_path / "cache"))
    model, picture = tmp_path / "bar.supple", tmp_path / "budget.png"
    replace(bar(), motions={"swing": swing()}).save(model)
    asked = ["bench", "--budget", str(model), "--seconds", "0.3", "--picture", str(picture)]
    main([*asked, "--json"])
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["character"], row["motion"], row["seconds"]) == ("bar", "swing", 0.3)
    assert set(row["plays"]) == set(VARIANTS)
    assert set(row["bases"]) == set(BASES)
    assert row["plays"]["fine"]["error"] < row["plays"]["live"]["error"]
    assert row["bases"]["basis"]["error"] < 0.05
    assert picture.read_bytes().startswith(b"\x89PNG")
    budget_bench.table([row, {"character": "other", "failed": "no [mesh]"}])
    printed = capsys.readouterr().out
    assert "time step, full" in printed
    assert "other: no [mesh]" in printed


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--budget", "nobody.glb"], "nobody"),
        (["--budget", "x", "--seconds", "nan"], "seconds: not finite"),
        (["--budget", "x", "--seconds", "0"], "seconds is 0"),
        (["--budget", "x", "--engine", "rig-space"], "is for pose-space"),
        (["--budget", "x", "--picture", "no/such/folder.png"], "there is no folder"),
        (["--budget", "x", "--fidelity"], "--fidelity"),
        (["--budget", "--model", "x.supple"], "--model"),
        (["x", "--seconds", "2"], "--seconds is for supple bench --budget"),
    ],
)
def test_invalid_budget_requests_are_one_line_errors(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="1"):
        main(["bench", *words])
    assert said in capsys.readouterr().err


def test_a_pose_that_has_no_basis_of_its_own_costs_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def inverted(*told: Any) -> Any:
        raise SuppleError("a tet is inverted")

    budget = of(bar())
    monkeypatch.setattr(Budget, "_own_basis", inverted)
    row = budget.basis("basis own")
    assert row["error"] is None
    assert "inverted" in row["failed"]
    assert budget.basis("basis")["error"] is not None


def test_forces_of_motions_are_not_played_without_cubature(monkeypatch: pytest.MonkeyPatch) -> None:
    budget = of(bar())
    assert "whole" in budget.variants
    monkeypatch.setitem(budget.model.report, "elastic_error", {"forces": "motions"})
    assert {"whole", "whole elastic", "whole inertial"}.isdisjoint(budget.variants)
    assert "live" in budget.variants
