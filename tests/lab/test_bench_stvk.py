"""`supple bench stvk`: what it prints and draws, and that it measures what it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from supple.cli.main import main
from supple.elastic.material import Material
from supple.engines.stvk.model import StvkModel
from supple.errors import SuppleError
from supple.lab.bench import growth_bench as bench_stvk_growth
from supple.lab.bench import stvk_bench as bench_stvk
from supple.lab.bench import stvk_bench as bench_stvk_steps
from supple.lab.bench.case_runner import exponent, print_growth
from supple.lab.bench.growth_bench import smooth_basis
from supple.lab.bench.stvk_bench import KEYS, Case, packed_shape, table
from supple.lab.bench.timing import processor_time, timed
from supple.scenes.bodies.beam import beam


def told(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code != 0
    return capsys.readouterr().err


@pytest.fixture(scope="module")
def row() -> dict[str, Any]:
    """A short beam, measured in a process of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(bench_stvk.CASES, "stub", Case(None, (4, 2, 2), 6))
        (found,) = bench_stvk.measure(["stub", "stub"], steps=200, quiet=True)
    return found


def test_a_row_has_the_agreed_keys_first_and_plain_numbers(row: dict[str, Any]) -> None:
    assert tuple(row)[: len(KEYS)] == KEYS
    assert (row["case"], row["elements"], row["modes"]) == ("stub", 96, 6)
    for key in KEYS[3:]:
        if key not in ("python_step_us", "peak_mb"):
            assert row[key] > 0, key
    assert row["peak_mb"] is None or row["peak_mb"] >= row["basis_peak_mb"] > 0
    assert row["shifted_steps"] == 0
    assert row["paper_precompute_s"] is row["paper_step_us"] is None
    json.dumps(row, allow_nan=False)


def test_the_table_shows_cases_and_a_dash_for_what_the_paper_has_not(
    row: dict[str, Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    table([row, row | {"case": "heart", "paper_precompute_s": 5844.0, "peak_mb": None}])
    shown = capsys.readouterr().out
    for word in ("stub", "heart", "5,844", "–", "step/gemv", "Python"):
        assert word in shown


@pytest.mark.parametrize("r", [1, 2, 15, 30])
def test_the_product_beside_reads_as_much_as_a_step(r: int) -> None:
    """Distinct coefficients of a quadratic polynomial matrix whose K₂ is stored by half."""
    pairs = len(np.triu_indices(r)[0])
    distinct = pairs + pairs * r + len(np.triu_indices(pairs)[0])
    rows, columns = packed_shape(r)
    assert distinct <= rows * columns < distinct + columns


def test_the_cases_are_the_papers_bodies_and_beams_of_the_stated_sizes() -> None:
    from supple.scenes.bodies.elastic_scene import STVK_SCENES, stvk_scene

    assert [name for name, case in bench_stvk.CASES.items() if case.scene] == list(STVK_SCENES)
    for name in ("spoon", "bridge"):
        assert (
            stvk_scene(name).modes == stvk_scene(name).paper.modes == bench_stvk.CASES[name].modes
        )
    sizes = {name: 6 * np.prod(case.cells) for name, case in bench_stvk.CASES.items()}
    assert sizes["beam60"] == 2592
    assert 100_000 <= sizes["beam100k"] < 102_000


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["spon"], 'did you mean "spoon"?'),
        (["zzzz"], "there are spoon"),
        (["--steps", "0"], "choose between 1"),
        (["spoon", "--growth", "x.png"], "leave"),
        (["--growth", "x.jpg"], "pictures are written as .png"),
        (["--growth", "no/such/folder/x.png"], "there is no folder"),
    ],
)
def test_invalid_measurements_are_refused_in_one_line(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = told(["bench", "stvk", *arguments], capsys)
    assert words in " ".join(said.split())


def test_a_misspelt_stvk_is_no_scene(capsys: pytest.CaptureFixture[str]) -> None:
    assert "supple bench stvk" in " ".join(told(["bench", "stvkk"], capsys).split())


def test_growth_is_drawn_and_written_beside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def here(cores: int | None, function: Any, *arguments: Any) -> Any:
        return function(*arguments)

    monkeypatch.setattr(bench_stvk_growth, "with_cores", here)
    monkeypatch.setattr(bench_stvk_steps, "_BEYOND_CACHES", 2**16)
    monkeypatch.setattr(bench_stvk_steps, "_PAIRS", 2)
    monkeypatch.setattr(bench_stvk_growth, "_ENOUGH", 0.0)
    monkeypatch.setattr(bench_stvk_growth, "_MODES", 4)
    monkeypatch.setattr(bench_stvk_growth, "_TETS", 100)
    path = tmp_path / "growth.png"
    lengths, step_times = [], bench_stvk_steps.step_times

    def told_how_long(model: Any, dt: float, steps: int) -> dict[str, Any]:
        lengths.append(steps)
        return step_times(model, dt, steps)

    monkeypatch.setattr(bench_stvk_steps, "step_times", told_how_long)
    figures = bench_stvk_growth.measure_stvk(
        path, modes=(3, 6), elements=(60, 240), steps=20, quiet=True
    )
    assert set(lengths) == {20}
    assert path.read_bytes()[:4] == b"\x89PNG"
    written = json.loads(path.with_suffix(".json").read_text())
    assert {key: written[key] for key in figures} == figures
    assert written["complete"]
    assert [row["modes"] for row in figures["modes"]] == [3, 6]
    for kind in ("tets", "voxels"):
        found = [row["elements"] for row in figures[kind]]
        assert found[0] < found[1]
        np.testing.assert_allclose(found, (60, 240), rtol=0.5)
        assert set(figures["exponents"][kind]) == {"precompute_s", "step_us"}
    print_growth(bench_stvk_growth.STVK, figures)


def test_growth_is_of_as_many_steps_as_can_be_timed(tmp_path: Path) -> None:
    for steps in (0, 10**7):
        with pytest.raises(SuppleError, match="choose between 1"):
            bench_stvk_growth.measure_stvk(tmp_path / "growth.png", steps=steps, quiet=True)


@pytest.mark.parametrize("r", [15, 30])
def test_a_step_takes_at_most_twice_a_product_that_reads_as_much(r: int) -> None:
    """And a single call of it adds what a few dozen of the smallest calls of NumPy take."""
    mesh = beam(cells=(6, 2, 2))
    basis = smooth_basis(mesh.vertices, r)
    model = StvkModel.from_basis(mesh, Material("stvk", young=1e6), basis)
    found = []
    for _ in range(3):  # a machine that others use may be slow for one of them at times
        row = bench_stvk_steps.step_times(model, 1e-3, 500)
        found.append((row["step_us"] / row["gemv_us"], row["python_step_us"] / _small_call_us(r)))
        if found[-1][0] <= 2.0 and found[-1][1] <= 25.0:
            break
    assert min(step for step, _ in found) <= 2.0
    assert min(call for _, call in found) <= 25.0


def _small_call_us(r: int) -> float:
    a, b, out = np.zeros((3, r))

    def many() -> None:
        for _ in range(1000):
            np.add(a, b, out=out)

    return 1e3 * min(timed(many, processor_time) for _ in range(20))


def test_the_exponent_is_that_of_the_largest() -> None:
    rows = [{"modes": r, "step_us": 100 + r**4 / 1e3} for r in (1, 2, 200, 400, 800)]
    assert exponent(rows, "modes", "step_us") == pytest.approx(4, abs=0.01)
    assert exponent(rows[:1], "modes", "step_us") is None


@pytest.mark.parametrize("r", [1, 5, 80])
def test_smooth_bases_are_orthonormal_and_make_models(r: int) -> None:
    mesh = beam(cells=(12, 4, 4))
    basis = smooth_basis(mesh.vertices, r)
    flat = basis.reshape(-1, r)
    np.testing.assert_allclose(flat.T @ flat, np.eye(r), atol=1e-12)
    assert np.abs(basis[mesh.vertices[:, 0] == 0]).max() < 1e-12
    if r < 10:
        StvkModel.from_basis(mesh, Material("stvk"), basis)
