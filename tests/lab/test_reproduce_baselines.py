"""The paper's figures on bases, small: who wins, and by how much at least."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from helpers.build_samples import bar_options, bending_bar
from supple.engines.pose_space.build.build import build
from supple.lab.reproduce.xu2016 import beams
from supple.lab.reproduce.xu2016 import fig14_pca as reproduce_pca
from supple.lab.reproduce.xu2016.tables import projection_times


def told(part: float, text: str) -> None:
    assert 0 <= part <= 1
    assert text


def test_bases_blended_in_frames_follow_the_full_beam_and_others_do_not(tmp_path: Path) -> None:
    found = beams.beam(tmp_path, quick=True, progress=told)
    rms = {row["basis"]: row["rms"] for row in found["rows"]}
    ours = rms["ours, 3 poses"]
    assert ours <= 0.20
    assert rms["ours, 5 poses"] <= 0.08
    assert rms["ours, 5 poses"] < ours
    for other in ("the paper's, in the world, 3 poses", "straight beam's basis", "PCA"):
        assert rms[other] > 5 * ours
    assert rms["PCA in our frames, soft first"] > 2 * ours
    assert "curves" not in found
    assert (tmp_path / "beam.png").stat().st_size > 10_000


def test_modes_of_the_straight_beam_do_not_fit_the_bent_one(tmp_path: Path) -> None:
    found = beams.fig4(tmp_path, quick=True, progress=told)
    own, *others = beams.METHODS
    for row in [*found["static_rms"], *found["dynamic_rms"]]:
        assert row[own] < 0.1
        assert all(row[other] > 0.2 for other in others)
    ratios = found["frequency_ratios"]
    assert max(ratios[own]) < 1.02
    assert max(ratios[others[0]]) > 1.3
    assert (tmp_path / "fig4.png").stat().st_size > 10_000


@pytest.fixture(scope="module")
def hanging(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("fig14")
    found = reproduce_pca.run(folder, quick=True, progress=told)
    assert (folder / "fig14.png").stat().st_size > 10_000
    return found


def test_a_pose_independent_basis_needs_twice_the_vectors(hanging: dict[str, Any]) -> None:
    rms = hanging["rms_in_the_air"]
    assert rms["ours"] < 0.1
    assert rms["PCA 20"] > 2 * rms["ours"]
    assert hanging["pca_size_as_good_as_ours"]["alike"] == 40


def test_only_a_basis_with_contact_rows_stays_above_the_ground(hanging: dict[str, Any]) -> None:
    depth = hanging["deepest_percent_of_size"]
    assert hanging["contact_rows"] > 0
    assert depth["ours"] < 0.01
    assert depth["PCA 20"] > 0.1
    assert depth["PCA 40"] > 0.1
    assert depth["no contact"] > 0.1


def test_the_cost_of_full_reassembly_is_measured_beside_the_real_time_step() -> None:
    model = build(bending_bar(60.0), **bar_options())
    found = projection_times(model, steps=20)
    assert found["r"] == 8
    assert found["step_ms"] > 0
    ratio = found["reassembly_ms"] / found["step_ms"]
    assert found["reassembly_over_step"] == pytest.approx(ratio)
    assert found["projected_step_ms"] > found["reassembly_ms"]  # the second is a part of the first
