"""`supple reproduce tapia2021` measures what it prints, and prints the paper's beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from supple.lab.bench.soft_skeleton import sphere_compliance
from supple.lab.bench.soft_skeleton.soft_cases import scene_bones
from supple.lab.bench.soft_skeleton.sphere_compliance import without_residual
from supple.lab.reproduce.reproduce import GROUPS, chosen_items, run_reproduce
from supple.lab.reproduce.tapia2021 import soft_bodies
from supple.lab.reproduce.tapia2021.contact_figures import skin_strain
from supple.lab.reproduce.tapia2021.soft_bodies import model_of
from supple.lab.reproduce.tapia2021.table1_costs import PAPER
from supple.mesh.surface import SurfaceMesh
from supple.scenes.characters.character_scene import scene

#: Items of the hand alone: bodies take longer to fill.
SMALL = ("table1", "modes", "fig3", "fig8", "fig10", "fig13", "fig16", "points", "betas")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Everything of the hand once, small."""
    folder = tmp_path_factory.mktemp("tapia2021")
    items = [f"tapia2021-{name}" for name in SMALL]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(soft_bodies, "PIXELS", 60)
        patch.setattr(sphere_compliance, "COMING", 5)
        patch.setattr(sphere_compliance, "SETTLING", 15)
        return folder, run_reproduce(items, folder, quick=True, quiet=True)


def test_all_figures_but_the_live_one_are_there() -> None:
    figures = {f"tapia2021-fig{k}" for k in range(1, 17)} - {"tapia2021-fig11"}
    studies = {f"tapia2021-{name}" for name in ("table1", "modes", "points", "betas")}
    assert set(GROUPS["tapia2021"]) == figures | studies
    assert chosen_items(["tapia2021"]) == list(GROUPS["tapia2021"])
    assert chosen_items(["Tapia fig. 12"]) == ["tapia2021-fig12"]


def test_printed_parts_add_up_to_the_printed_step() -> None:
    for rows in PAPER.values():
        for row in rows.values():
            assert row.force + row.hessian + row.solve == pytest.approx(row.step, rel=2e-3)


def test_every_part_is_written_with_its_numbers(made: tuple[Path, dict[str, Any]]) -> None:
    folder, figures = made
    assert set(figures) == {f"tapia2021-{name}" for name in SMALL}
    for name, found in figures.items():
        assert json.loads((folder / f"{name}.json").read_text())["message"] == found["message"]
        assert bool(found["pictures"]) == ("fig" in name or name.endswith(("points", "betas")))
        for picture in found["pictures"]:
            assert (folder / picture).read_bytes().startswith(b"\x89PNG")


def test_table_1_has_both_numbers_of_points_beside_the_papers(
    made: tuple[Path, dict[str, Any]],
) -> None:
    rows = made[1]["tapia2021-table1"]["hand"]
    assert [row["what"] for row in rows] == ["all tets", "700 points", "2000 points"]
    assert [row["step_ms"]["paper"] for row in rows] == [10932, 11.78, 18.82]
    for row in rows:
        parts = [row[f"{key}_ms"]["ours"] for key in ("force", "hessian", "solve")]
        assert all(part >= 0 for part in parts)
        assert 0 < sum(parts) <= 1.5 * row["step_ms"]["ours"]
    growth = made[1]["tapia2021-table1"]["hand_growth"]
    assert growth["hessian_power"]["paper"] == pytest.approx(0.449, abs=1e-3)  # sublinear


def test_modes_are_timed_beside_the_papers_frames(made: tuple[Path, dict[str, Any]]) -> None:
    rows = made[1]["tapia2021-modes"]["rows"]
    assert [(row["basis"], row["frames_per_second"]["paper"]) for row in rows] == [
        ("handles", 85),
        ("modal", 1.2),
    ]
    assert rows[0]["frames_per_second"]["ours"] > 1


def test_residual_modes_bring_the_force_towards_that_of_all_tets(
    made: tuple[Path, dict[str, Any]],
) -> None:
    rows = {row["basis"]: row for row in made[1]["tapia2021-fig13"]["rows"]}
    own, plain = rows["handles + residual"], rows["handles"]
    assert abs(np.log(own["to_full_force"])) < abs(np.log(plain["to_full_force"]))


def test_flesh_a_thousand_times_stiffer_does_not_move(made: tuple[Path, dict[str, Any]]) -> None:
    rigid, soft = made[1]["tapia2021-fig3"]["rows"]
    assert rigid["flesh_mm"] < 0.05 * max(soft["flesh_mm"], 1e-3)


def test_a_model_without_what_handles_lack_has_no_flexibility_beside_them() -> None:
    model = model_of("hand", quick=True)
    assert model.flexibility.nnz > 0
    assert without_residual(model).flexibility.nnz == 0


def test_bones_of_a_scene_turn_with_their_joints() -> None:
    shown = scene("hand")
    bones = scene_bones(shown)
    assert bones is not None
    for name, joint in zip(bones.names, bones.joints, strict=True):
        assert shown.part_names[joint] == name


def test_strain_of_skin_is_that_of_its_stretch_and_none_of_a_turn() -> None:
    flat = SurfaceMesh([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], [[0, 1, 2], [0, 2, 3]])
    stretched = flat.vertices * [0.2, 0.0, 0.0]
    assert skin_strain(flat, stretched) == pytest.approx(1.2**2 + 1 - 2)
    turn = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    assert skin_strain(flat, flat.vertices @ turn.T - flat.vertices) == pytest.approx(0, abs=1e-12)


def test_more_points_per_handle_have_smaller_errors(made: tuple[Path, dict[str, Any]]) -> None:
    few, many = made[1]["tapia2021-points"]["rows"]
    assert (few["per_handle"], many["per_handle"]) == (2, 5)
    assert many["fitted_error"] < few["fitted_error"] < few["paper_error"]


def test_a_scan_gives_its_shape(made: tuple[Path, dict[str, Any]]) -> None:
    found = made[1]["tapia2021-betas"]
    assert found["rows"][0]["shape_mm"] < 1e-3 * found["rows"][0]["before_mm"]
    assert "unit" in found["refused"]
