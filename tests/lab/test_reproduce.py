"""`supple reproduce` makes tables and figures, whole or not at all."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from supple.app.report.figure_tables import grids
from supple.cli.main import main
from supple.elastic.body import ElasticBody
from supple.elastic.material import Material
from supple.errors import SuppleError
from supple.lab.reproduce import reproduce
from supple.lab.reproduce.reproduce import GROUPS, ITEMS, Item, chosen_items, plain
from supple.lab.reproduce.xu2016.fig6_alignment import mirrored_beam, modes_at
from supple.lab.reproduce.xu2016.table1_modes import PrintedSolver
from supple.reduction.modes import linear_modes
from supple.reduction.null_space import null_space
from supple.scenes.bodies.beam import beam


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Items of a module made for the test: one that works, one that fails half way."""
    module = ModuleType("supple.lab.reproduce.made_up")

    def good(folder: Path, *, quick: bool, progress: Any) -> dict[str, Any]:
        progress(0.5, "half")
        (folder / "good.png").write_bytes(b"\x89PNG made up")
        return {"paper": "in words", "speed": np.float32(2.0), "paper_speed": 1.0, "none": np.nan}

    def bad(folder: Path, *, quick: bool, progress: Any) -> dict[str, Any]:
        (folder / "bad.png").write_bytes(b"\x89PNG half")
        raise SuppleError("the beam broke")

    module.good, module.bad = good, bad  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "supple.lab.reproduce.made_up", module)
    items = {"good": Item("made_up", "good", "works"), "bad": Item("made_up", "bad", "fails")}
    monkeypatch.setattr(reproduce, "ITEMS", items)
    monkeypatch.setattr(reproduce, "GROUPS", {"xu2016": ("good", "bad")})
    return module


def test_without_names_all_items_are_chosen_and_names_have_several_spellings() -> None:
    assert chosen_items([]) == list(ITEMS)
    assert chosen_items(["xu2016"]) == list(GROUPS["xu2016"])
    assert chosen_items(["Fig. 7", "figure6", "TABLE 1", "fig7"]) == ["table1", "fig6", "fig7"]
    assert {name for group in GROUPS.values() for name in group} == set(ITEMS)


@pytest.mark.parametrize(("name", "hint"), [("fig66", "fig6"), ("tabel1", "table1"), ("?", "beam")])
def test_an_unknown_name_gives_one_line_with_near_ones_and_writes_nothing(
    name: str, hint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["reproduce", name, "--output", str(tmp_path / "out")])
    assert stopped.value.code == 1
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert hint in line
    assert not (tmp_path / "out").exists()


def test_alignment_figures_are_drawn_and_numbers_are_the_papers_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Naive blends lose a mode and aligned ones do not (fig. 6); turned poses match (fig. 7)."""
    folder = tmp_path / "deep" / "out"
    main(["reproduce", "fig6", "fig7", "--quick", "--json", "-o", str(folder)])
    printed = json.loads(capsys.readouterr().out)
    for name in ("fig6", "fig7"):
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert json.loads((folder / f"{name}.json").read_text()) == printed[name]
    naive = [row["naive_least_eigenvalue"] for row in printed["fig6"]["rows"]]
    assert naive == sorted(naive, reverse=True)
    assert naive[-1] < 1e-6
    assert min(row["aligned_least_eigenvalue"] for row in printed["fig6"]["rows"]) > 0.99
    matched = printed["fig7"]["matched_with_itself"]
    assert matched["procrustes_only"] < 0.01
    assert matched["turned_first"] > 0.99
    for row in printed["fig7"]["rows"]:
        assert row["turned_first_hz"] == pytest.approx(row["pose1_hz"], rel=1e-6)
    page = (folder / "reproduce.md").read_text()
    assert "![fig6](fig6.png)" in page
    assert "![fig7](fig7.png)" in page
    assert sorted(p.name for p in folder.iterdir()) == [
        "fig6.json",
        "fig6.png",
        "fig7.json",
        "fig7.png",
        "reproduce.md",
    ]


def test_interpolated_cubature_is_as_good_as_recomputed_and_better_than_the_printed_method(
    tmp_path: Path,
) -> None:
    """Fig. 10, on a coarse X."""
    from supple.lab.reproduce.xu2016.fig10_cubature import fig10

    figures = fig10(tmp_path, quick=True, progress=lambda part, what: None)
    errors = {row["at"]: row for row in figures["cubature_error"]}
    assert errors["interpolated"]["ours"] < 0.01
    assert errors["interpolated"]["ours"] < 0.5 * errors["interpolated"]["printed"]
    assert errors["interpolated"]["paper"] == 0.015
    assert figures["basis_halfway"]["ours"]["worst_frequency_ratio"] < 1.05
    assert (tmp_path / "fig10.png").read_bytes().startswith(b"\x89PNG")


def test_the_bending_modes_of_a_mirrored_beam_of_equal_sides_are_degenerate() -> None:
    mesh = mirrored_beam((1.0, 0.2, 0.2), (8, 2, 2))
    assert mesh.volumes().min() > 0
    assert mesh.volumes().sum() == pytest.approx(0.04)
    (stiffness,) = modes_at(mesh, [mesh.vertices], 2).stiffnesses
    assert stiffness[0, 0] == pytest.approx(stiffness[1, 1], rel=1e-9)


def test_an_item_that_fails_leaves_nothing_and_keeps_no_other_from_being_made(
    made_up: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "out"
    with pytest.raises(SystemExit) as stopped:
        main(["reproduce", "--quiet", "--output", str(folder)])
    assert stopped.value.code == 1
    assert capsys.readouterr().err.strip() == "supple: bad: the beam broke"
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["good.json", "good.png", "reproduce.md"]
    found = json.loads((folder / "good.json").read_text())
    assert (found["speed"], found["none"]) == (2.0, None)
    page = (folder / "reproduce.md").read_text()
    assert "bad" not in page
    assert "In the paper: in words" in page
    with pytest.raises(SystemExit):
        main(["reproduce", "bad", "--quiet", "--output", str(tmp_path / "other")])
    assert not (tmp_path / "other").exists()


def test_a_later_run_adds_to_the_page_and_foreign_files_do_no_harm(
    made_up: ModuleType, tmp_path: Path
) -> None:
    (tmp_path / "bad.json").write_text("{ no json")
    main(["reproduce", "good", "--quiet", "--output", str(tmp_path)])
    (tmp_path / "bad.json").write_text('{"title": "From another run", "x": 1}')
    main(["reproduce", "good", "--quiet", "--output", str(tmp_path)])
    page = (tmp_path / "reproduce.md").read_text()
    assert "## Good: works" in page
    assert "## From another run" in page


def test_a_file_in_place_of_a_folder_is_refused_before_any_work(
    made_up: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    occupied = tmp_path / "file"
    occupied.write_text("mine")
    for output in (occupied, occupied / "below"):
        with pytest.raises(SystemExit) as stopped:
            main(["reproduce", "good", "--output", str(output)])
        assert stopped.value.code == 1
        assert len(capsys.readouterr().err.strip().splitlines()) == 1
    assert occupied.read_text() == "mine"


def test_a_missing_part_is_an_error(
    made_up: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(reproduce.ITEMS, "gone", Item("no_such_module", "run", "is not there"))
    with pytest.raises(SuppleError, match="gone: is not part of this version"):
        reproduce.run_reproduce(["gone"], tmp_path, quiet=True)


def test_the_papers_numbers_stand_beside_ours() -> None:
    found = list(
        grids(
            {
                "title": "not a number",
                "ms": 1.5,
                "paper_ms": 3.0,
                "error": {"ours": 0.1, "paper": 0.2},
                "alone": 7,
                "rows": [{"a": 1, "b": {"c": None}}, {"a": {"ours": 2.5, "paper": 4}}],
                "by name": {"x": {"v": 1}, "y": {"v": 2}},
            }
        )
    )
    assert found[0] == ("ours / paper", ["a", "b c"], [["1", "–"], ["2.5 / 4", "–"]])
    assert found[1] == ("by name", ["", "v"], [["x", "1"], ["y", "2"]])
    assert found[2] == (
        "",
        ["", "ours", "paper"],
        [["ms", "1.5", "3"], ["error", "0.1", "0.2"], ["alone", "7", "–"]],
    )


def test_tables_1_and_3_put_the_papers_rows_beside_ours(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from supple.lab.bench import step_bench as bench_step
    from supple.lab.bench.step_bench import KEYS
    from supple.lab.reproduce.xu2016 import table1_modes
    from supple.lab.reproduce.xu2016 import tables as reproduce_tables

    def modes(cores: Any, function: Any, name: str, counts: tuple[int, ...], *rest: Any) -> Any:
        seconds = {"free_s": 0.5, "bound_s": 0.6, "thresholded_s": 0.7, "cg_s": 0.8}
        times = [{"modes": count, "eigenvalues_apart": 0.0} | seconds for count in counts]
        sizes = {"unknowns": 9, "moving_unknowns": 6, "rows": 3, "preconditioner": 2.0}
        return sizes | {"times": times}

    row: dict[str, Any] = dict.fromkeys(KEYS, 1) | {
        "step_ms": {"median": 0.5},
        "split_ms": {"core": 0.1, "dynamics": 0.3, "surface": 0.1},
    }

    def steps(**options: Any) -> list[dict[str, Any]]:
        return [row | {"paper_ms": 1.0}]

    @contextmanager
    def model_file(name: str, **changes: Any) -> Iterator[Path]:
        assert changes == {"elastic_cubature": 144, "inertial_cubature": 50}
        yield tmp_path

    monkeypatch.setattr(table1_modes, "with_cores", modes)
    monkeypatch.setattr(reproduce_tables, "with_cores", lambda *arguments: 5.5)
    monkeypatch.setattr(reproduce_tables, "scene_model_file", model_file)
    monkeypatch.setattr(bench_step, "measure", steps)
    first = table1_modes.table1(tmp_path, quick=False, progress=lambda part, what: None)
    assert [each["scene"] for each in first["rows"]] == ["arm", "bear", "gorilla"]
    assert first["rows"][2]["cg_s"] == {"printed": 0.8, "paper": 6.2}
    assert first["modes_of_the_gorilla"][3]["cg_s"]["paper"] == 18.7
    assert "1.2 to 1.2 times" in first["message"]
    third = reproduce_tables.table3(tmp_path, quick=True, progress=lambda part, what: None)
    assert third["sizes"][0]["tets"] == {"ours": 1, "paper": 9303}
    assert third["sizes"][0]["memory_mb"] == {"ours": 5.5, "paper": 4.2}
    assert third["sizes"][0]["psd_poses"] == {"ours": 2, "paper": 0}
    assert third["times"][0]["dynamics %"] == {"ours": 60, "paper": 65}
    assert "x 0.50" in third["message"]


def test_the_papers_solvers_find_our_modes_in_contact() -> None:
    """Eigenvalues of a body with dependent contact rows, by LU and conjugate gradients."""
    body = ElasticBody(beam(cells=(5, 2, 2)), Material("stvk", young=1e4, poisson=0.4))
    n, random = body.n_vertices, np.random.default_rng(0)
    free = np.flatnonzero(body.rest[:, 0] > 1e-9)
    rows = np.zeros((6, 3 * n))
    rows[:5, 3 * free[0] :] = random.standard_normal((5, 3 * (n - free[0])))
    rows[5] = rows[0] - 2 * rows[3]
    unknowns = (3 * free[:, None] + np.arange(3)).ravel()
    stiffness, mass = body.stiffness(body.rest, body.rest), body.vertex_masses()
    space = null_space(sp.csr_array(rows), n, free=free)
    ours = linear_modes(stiffness, mass, 6, null_space=space).eigenvalues
    inner = sp.csr_array(stiffness[unknowns][:, unknowns])
    solver = PrintedSolver(inner, mass[free], rows[:, unknowns])
    assert solver.size == len(unknowns) - 5
    for exact in (False, True):
        np.testing.assert_allclose(solver.eigenvalues(6, exact=exact), ours, rtol=1e-6)


def test_a_table_too_wide_for_a_terminal_is_turned() -> None:
    row = {name: at for at, name in enumerate("abcdefg")}
    ((_, headings, rows),) = grids({"rows": [row, row]})
    assert headings == ["a", "0", "0"]
    assert rows[0] == ["b", "1", "1"]
    assert len(rows) == 6


def test_numbers_of_all_kinds_become_json() -> None:
    given = {"a": np.float32(1 / 3), "b": np.arange(2), 3: (np.inf, float("nan"), True, None, "x")}
    assert plain(given) == {"a": 0.333333, "b": [0, 1], "3": [None, None, True, None, "x"]}
    json.dumps(plain(given), allow_nan=False)


def test_messages_follow_the_measurements() -> None:
    from supple.lab.reproduce.xu2016 import fig5_contact as reproduce_contact
    from supple.lab.reproduce.xu2016 import fig15_coarse as reproduce_coarse

    def simulation(tets: int, time: float, rms: float | None) -> dict[str, Any]:
        return {"tets": tets, "time_to_ours": time, "rms_to_full": rms}

    first = [simulation(9000, 1, 0.2), simulation(9000, 60, None)]
    last = simulation(9000, 1, 0.3)
    far = reproduce_coarse._figures([*first, simulation(420, 1.2, 0.6), last])
    assert far["equal_time_is_worse"] is True
    assert "None of the coarse ones is as accurate" in far["message"]
    near = reproduce_coarse._figures([*first, simulation(420, 0.9, 0.1), last])
    assert near["equal_time_is_worse"] is False
    assert "420 tets are more accurate than ours (10 %)" in near["message"]
    slow = reproduce_coarse._figures([*first, simulation(420, 10.0, 0.6), last])
    assert slow["equal_time_is_worse"] is None
    assert "no comparison at equal time" in slow["message"]

    def pressed(bound: float, free: float, **what: Any) -> dict[str, Any]:
        return {"with_percent": bound, "without_percent": free} | what

    held = pressed(0.01, 2.0, pressure_kpa=3.0)
    motion = pressed(0.9, 1.0, load="a motion")
    said = reproduce_contact._message(held, [held], [])
    assert said.endswith("and by 2 % without.")
    said = reproduce_contact._message(held, [held], [motion])
    assert said.endswith("they exceed 0.2 % under: a motion.")
    alike = pressed(0.5, 0.6, pressure_kpa=3.0)
    assert "do not distinguish the two bases" in reproduce_contact._message(alike, [alike], [])
