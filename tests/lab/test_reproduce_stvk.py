"""`supple reproduce barbic2005` measures what it prints, and prints the paper's beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from supple.engines.stvk.bases import body_modes
from supple.errors import SolverError, SuppleError
from supple.lab.reproduce.barbic2005.bodies import derivative_parts, shown_scene
from supple.lab.reproduce.barbic2005.cost_tables import PAPER
from supple.lab.reproduce.barbic2005.swing_figure import swing
from supple.lab.reproduce.reproduce import GROUPS, ITEMS, chosen_items, run_reproduce
from supple.scenes.bodies.elastic_scene import STVK_SCENES

NUMBERS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12)


@pytest.mark.parametrize(
    "name",
    [
        *("barbic2005-fig12", "barbic2005/fig12", "barbic-fig12", "barbic/fig12"),
        *("Barbic2005 Fig. 12", "Barbič figure 12", "BARBIC2005_FIG12"),
    ],
)
def test_a_figure_is_found_however_its_paper_is_written(name: str) -> None:
    assert chosen_items([name]) == ["barbic2005-fig12"]


def test_a_bare_figure_is_xu2016s_and_a_paper_stands_for_all_of_it() -> None:
    assert chosen_items(["fig5"]) == chosen_items(["xu2016/fig5"]) == ["fig5"]
    assert chosen_items(["barbic2005"]) == [f"barbic2005-fig{n}" for n in NUMBERS]
    assert chosen_items([]) == list(ITEMS) == [name for group in GROUPS.values() for name in group]


def test_a_figure_of_another_paper_is_named_in_the_error() -> None:
    with pytest.raises(SuppleError, match=r"did you mean tapia2021-fig16"):
        chosen_items(["fig16"])
    with pytest.raises(
        SuppleError, match="there are xu2016, barbic2005, hahn2013, tapia2021, table1"
    ):
        chosen_items(["¿"])


def test_the_papers_figures_are_copied_as_they_add_up() -> None:
    """Parts of a step add up to it, and kilobytes follow from r: force and stiffness, float64."""
    assert tuple(PAPER) == STVK_SCENES
    for name, printed in PAPER.items():
        parts = printed.force_us + printed.stiffness_us + printed.system_us
        assert parts == pytest.approx(printed.step_us)
        r = {"spoon": 12, "bridge": 15}.get(name, 30)
        pairs = r * (r + 1) // 2
        force = r * (r + pairs + pairs * (r + 2) // 3)
        kilobytes = 8 * (force + pairs * (1 + r + pairs)) / 1024
        assert kilobytes == pytest.approx(printed.coefficients_kb, rel=0.005)


@pytest.mark.parametrize("offset", [0.0, 0.03])
def test_frequency_and_amplitude_of_a_swing_are_those_it_was_made_with(offset: float) -> None:
    times = np.arange(1, 4001) / 1000
    pure = 0.2 * np.sin(2 * np.pi * 2.3 * times)
    ripple = 0.004 * np.sin(2 * np.pi * 190 * times + 1)
    found = swing(times, pure + ripple + offset * 0.01)
    assert found.frequency == pytest.approx(2.3, rel=2e-3)
    assert found.amplitude == pytest.approx(0.2, rel=0.03)
    assert found.half_cycles == 17
    shrinking = swing(times, np.exp(-0.2 * times) * pure)
    assert shrinking.frequency == pytest.approx(2.3, rel=1e-3)
    assert shrinking.amplitude < 0.9 * 0.2


def test_a_constant_signal_has_no_frequency() -> None:
    with pytest.raises(SolverError, match="simulate a longer motion"):
        swing(np.arange(100.0), np.ones(100))


def test_timed_derivatives_are_second_differences_of_the_force() -> None:
    """K Φ_ij = −(H : Ψ_i) Ψ_j, by the force alone: exact, as it is of third degree."""
    scene = shown_scene("spoon", True)
    body = scene.body()
    modes = body_modes(body, 2, fixed=scene.fixed)
    found, right_s, solve_s = derivative_parts(body, modes)
    assert found.shape == (body.rest.size, 3)
    assert min(right_s, solve_s) > 0
    first, second = modes.vectors.T.reshape(2, -1, 3)
    h = 0.01 / float(np.abs(modes.vectors).max())

    def mixed(a: Any, b: Any) -> Any:
        return (
            *(body.force(body.rest + h * (a + b)), body.force(body.rest - h * (a + b))),
            *(body.force(body.rest + h * (a - b)), body.force(body.rest - h * (a - b))),
        )

    free = np.setdiff1d(np.arange(len(body.rest)), scene.fixed)
    for column, (a, b) in enumerate([(first, first), (first, second), (second, second)]):
        pp, mm, pm, mp = mixed(a, b)
        right = -(pp + mm - pm - mp) / (4 * h**2)
        ours = (body.stiffness(body.rest) @ found[:, column]).reshape(-1, 3)
        size = np.abs(right[free]).max()
        np.testing.assert_allclose(ours[free], right[free], atol=1e-5 * size)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("barbic")
    return folder, run_reproduce(["barbic2005"], folder, quick=True, quiet=True)


def test_every_figure_is_a_picture_numbers_and_a_part_of_the_page(
    made: tuple[Path, dict[str, Any]],
) -> None:
    folder, figures = made
    page = (folder / "reproduce.md").read_text(encoding="utf-8")
    assert list(figures) == list(GROUPS["barbic2005"])
    for name, found in figures.items():
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert json.loads((folder / f"{name}.json").read_text()) == found
        assert f"({name}.png)" in page
        assert f"## barbic2005 fig. {name.removeprefix('barbic2005-fig')}:" in page


def test_a_quick_run_puts_no_printed_cost_beside_a_smaller_body(
    made: tuple[Path, dict[str, Any]],
) -> None:
    _, figures = made
    for number in (5, 8, 10, 11):
        for row in figures[f"barbic2005-fig{number}"]["rows"]:
            pairs = [value for value in row.values() if isinstance(value, dict)]
            assert pairs
            assert all(pair["ours"] > 0 and pair["paper"] is None for pair in pairs)


def test_costs_are_those_of_the_model_that_was_built(made: tuple[Path, dict[str, Any]]) -> None:
    _, figures = made
    (row,) = figures["barbic2005-fig5"]["rows"]
    scene = shown_scene("spoon", True)
    assert row["elements"]["ours"] == len(scene.mesh.hexes)
    assert row["kilobytes"]["ours"] == pytest.approx(78 * (1 + 12 + 78) * 8 / 1024, rel=1e-5)
    (row,) = figures["barbic2005-fig11"]["rows"]
    frame = row["steps_a_frame"] * row["step_us"]["ours"] + row["surface_us"]["ours"]
    assert row["frame_us"]["ours"] == pytest.approx(frame, rel=1e-4)


def test_a_sketched_basis_follows_its_load_as_a_linear_body_does_not(
    made: tuple[Path, dict[str, Any]],
) -> None:
    (row,) = made[1]["barbic2005-fig10"]["rows"]
    assert row["reduced_off"] < 0.2 * row["linear_off"]


def test_reduced_spoons_swing_nearly_as_the_full_one(made: tuple[Path, dict[str, Any]]) -> None:
    """Of the thick spoon of a quick run, whose r = 12 is little; the real one is nearer."""
    found = made[1]["barbic2005-fig12"]
    off = {
        row["basis"]: (abs(row["frequency_off"]["ours"]), abs(row["amplitude_off"]))
        for row in found["rows"]
    }
    assert max(off["basis from full motion"]) < 0.02
    assert max(off["sketch"]) < 0.1
    assert max(off["modal derivatives"]) < 0.2
    full = found["full_simulation"]
    assert full["farthest_as_part_of_length"] > 0.4  # deep in the nonlinear region
    assert full["half_the_step_moves_the_tip_by"] < 0.05
