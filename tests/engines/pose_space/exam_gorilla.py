"""The gorilla at its own size: contact, six regions, a hundred modes, the paper's cubature.

Run by `make exam`. `make test` has the same bounds on the X (tests/app/test_build_command.py), its
regions (tests/reduction/test_regions.py) and where it touches itself (tests/scenes/test_scenes.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from supple.app.building import run_build


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return run_build("gorilla", tmp_path_factory.mktemp("gorilla") / "gorilla.supple", quiet=True)


def test_elastic_cubature_is_as_good_at_the_papers_count(figures):
    error = figures["elastic_error"]
    assert (figures["elastic_tets"], figures["modes"], figures["poses"]) == (144, 100, 4)
    assert error["train"] <= 0.03
    assert error["held_out"] <= 1.5 * error["train"]
    assert error["between_poses"] <= 1.5 * error["retrained"]


def test_inertial_cubature_is_as_good_at_the_papers_count(figures):
    error = figures["inertial_error"]
    assert figures["inertial_vertices"] == 119
    assert error["train"] <= 0.03
    assert error["held_out"] <= 1.5 * 0.03


def test_regions_store_two_fifths_of_a_dense_basis_at_most(figures):
    assert len(figures["regions"]) == 6
    assert 0.1 < figures["stored_fraction"] <= 0.40


def test_the_file_is_at_most_half_as_large_again_as_the_papers_model(figures):
    assert figures["model_mb"] <= 1.5 * 7.9
    assert Path(figures["output"]).stat().st_size == pytest.approx(
        1e6 * figures["model_mb"], abs=1e3
    )


def test_frequencies_between_poses_hardly_change(figures):
    assert 1 <= figures["mid_pose_frequency_ratio"] < 1.1


def test_it_touches_itself_where_it_beats_its_chest_and_not_at_rest(figures):
    contacts = figures["contacts"]
    assert contacts["on knuckles"] == 0
    assert contacts["chest beat"] > 20
    assert contacts["crouch"] > 0


def test_it_takes_less_than_three_gigabytes(figures):
    assert figures["peak_mb"] is None or figures["peak_mb"] < 3000
