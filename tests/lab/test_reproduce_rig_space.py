"""`supple reproduce hahn2013` measures what it prints, and prints the paper's beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from supple.lab.reproduce.hahn2013.algorithm1 import PAPER_SKINNING
from supple.lab.reproduce.hahn2013.solvers import PAPER
from supple.lab.reproduce.hahn2013.takes import SUBJECTS, Take
from supple.lab.reproduce.reproduce import GROUPS, chosen_items, run_reproduce


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Everything once, small."""
    folder = tmp_path_factory.mktemp("hahn2013")
    return folder, run_reproduce(["hahn2013"], folder, quick=True, quiet=True)


def test_the_paper_stands_for_all_of_it_and_parts_go_by_their_names() -> None:
    assert chosen_items(["hahn2013"]) == list(GROUPS["hahn2013"])
    assert chosen_items(["Hahn fig. 5"]) == ["hahn2013-fig5"]
    assert chosen_items(["table1"]) == ["table1"]  # xu2016's


def test_printed_speed_ups_follow_from_the_times() -> None:
    """Rounding of times of two digits leaves a few per cent."""
    for part in ("trunk", "belly"):
        for row in PAPER.values():
            slowest, own = PAPER["RSP"][part].seconds, row[part].seconds
            assert slowest is not None
            assert own is not None
            assert slowest / own == pytest.approx(row[part].speed_up, rel=0.08)
    assert set(PAPER_SKINNING) == set(PAPER["RSP"])


def test_every_part_is_written_with_its_numbers(made: tuple[Path, dict[str, Any]]) -> None:
    folder, figures = made
    assert list(figures) == list(GROUPS["hahn2013"])
    for name, found in figures.items():
        assert json.loads((folder / f"{name}.json").read_text())["message"] == found["message"]
        for picture in found["pictures"]:
            assert (folder / picture).read_bytes().startswith(b"\x89PNG")
    drawn = {name for name, found in figures.items() if found["pictures"]}
    assert drawn == set(figures) - {"hahn2013-table1", "hahn2013-skinning"}


def test_solvers_have_times_and_errors_beside_the_papers(
    made: tuple[Path, dict[str, Any]],
) -> None:
    rows = {row["solver"]: row for row in made[1]["hahn2013-table1"]["trunk"]}
    assert list(rows)[:5] == list(PAPER)
    assert rows["RSP"]["largest_error_percent"] == 0
    assert rows["RSP"]["step_ms"]["paper"] == 7240
    for row in rows.values():
        assert row["step_ms"]["ours"] > 0
        assert row["limits"] == "none"
    assert rows["ours"]["largest_error_percent"] < 2


def test_no_interior_has_less_energy_than_the_static_one(
    made: tuple[Path, dict[str, Any]],
) -> None:
    rows = {row["interior"]: row for row in made[1]["hahn2013-fig5"]["rows"]}
    assert all(row["least_of_static"] > 1 - 1e-3 for row in rows.values())
    keyed = {name: row["from_the_key"]["median_of_static"] for name, row in rows.items()}
    assert keyed["ours"] < keyed["sparse, rest offset"] < keyed["sparse"]


def test_few_surface_vertices_are_left_and_the_rest_shape_is_wrong(
    made: tuple[Path, dict[str, Any]],
) -> None:
    (row,) = made[1]["hahn2013-skinning"]["rows"]
    assert 1 <= row["correspondences"]["ours"] <= 20
    assert row["correspondences"]["paper"] == 5.52
    assert row["rest_off_most_percent"] > 1  # as METHOD says of the printed method


def test_a_deferred_jacobian_is_made_at_least_once(made: tuple[Path, dict[str, Any]]) -> None:
    rows = made[1]["hahn2013-jacobians"]["trunk"]
    for row in rows:
        assert 1 <= row["updates"]["ours"] <= row["steps"]
        assert row["repeated"]["ours"] <= row["steps"]
    assert rows[0]["updates"]["paper"] == 280


def test_errors_are_parts_of_the_height() -> None:
    still = np.zeros((3, 4, 3), np.float32)
    moved = still.copy()
    moved[1, 2] = (0.0, 0.03, 0.04)
    nothing: Any = np.zeros((3, 1)), np.zeros(3), {}, ()
    errors = Take(moved, *nothing).errors(Take(still, *nothing), height=2.0)
    np.testing.assert_allclose(errors.largest, [0, 2.5, 0], rtol=1e-6)
    np.testing.assert_allclose(errors.mean, [0, 0.625, 0], rtol=1e-6)
    assert SUBJECTS["trunk"].height > 1.8
