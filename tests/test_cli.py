"""The command as its users meet it."""

import json
import subprocess
import sys

import pytest

from supple.app.cli import main

HEAVY = ("numba", "scipy", "matplotlib", "igl", "meshio", "numpy")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "supple.app.cli", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from supple.app.cli import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "demo" in done.stdout
    assert done.stderr.strip().endswith("[]")


def test_importing_supple_imports_nothing_heavy_and_its_names_come_when_used():
    code = (
        "import sys, supple\n"
        f"assert not [name for name in {HEAVY!r} if name in sys.modules]\n"
        "assert supple.Material('stvk').kind == 'stvk'\n"
        "assert set(supple.__all__) <= set(dir(supple))\n"
        "assert callable(supple.formats.read_surface)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("arguments", [["dance"], ["demo", "--tets", "many"], ["bench", "--frob"]])
def test_wrong_usage_exits_with_two_and_no_traceback(arguments):
    done = run(*arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stdout + done.stderr
    assert done.stdout + done.stderr


def test_what_cannot_be_done_exits_with_one_and_one_line(tmp_path):
    occupied = tmp_path / "file"
    occupied.write_text("a file where a folder is wanted")
    done = run("demo", "--output", str(occupied), "--quiet")
    assert done.returncode == 1
    assert done.stderr.startswith("supple: ")
    assert len(done.stderr.strip().splitlines()) == 1
    assert occupied.read_text() == "a file where a folder is wanted"


@pytest.mark.parametrize("tets", ["0", "-5", "99999999999"])
def test_an_absurd_number_of_tets_is_refused_and_nothing_is_written(tmp_path, tets):
    done = run("demo", "--output", str(tmp_path / "out"), "--tets", tets, "--quiet")
    assert done.returncode == 1
    assert "tets" in done.stderr
    assert not (tmp_path / "out").exists()


def test_demo_writes_its_pictures_and_a_report_and_prints_json(tmp_path, capsys):
    main(["demo", "--output", str(tmp_path), "--tets", "700", "--json"])
    figures = json.loads(capsys.readouterr().out)
    assert 595 <= figures["tets"] <= 805
    assert figures["largest_energy_gain_j"] < 1e-3
    for picture in ("filmstrip.png", "energy.png"):
        assert (tmp_path / picture).read_bytes().startswith(b"\x89PNG")
    report = (tmp_path / "report.md").read_text()
    assert "Energy over time" in report
    assert f"{figures['tets']:,}" in report
    assert not list(tmp_path.glob(".*"))


def test_bench_elastic_prints_the_agreed_keys_and_checks_itself_against_scikit_fem(capsys):
    pytest.importorskip("skfem", reason="the benchmark compares with scikit-fem")
    main(["bench", "elastic", "--tets", "1500", "--json", "--quiet"])
    (row,) = json.loads(capsys.readouterr().out)
    agreed = {"tets", "force_ms", "stiffness_ms", "scikit_fem_ms", "ratio", "step_ms", "peak_mb"}
    assert agreed <= set(row)
    assert set(row["step_ms"]) == {"assembly", "factorise", "solve"}
    assert row["ratio"] == pytest.approx(row["scikit_fem_ms"] / row["stiffness_ms"])
    assert row["ratio"] > 1


@pytest.mark.parametrize(("sizes", "words"), [(["2"], "between"), ([], "needs one or more")])
def test_bench_elastic_refuses_absurd_sizes(capsys, sizes, words):
    with pytest.raises(SystemExit) as exit_code:
        main(["bench", "elastic", "--tets", *sizes])
    assert exit_code.value.code == 1
    assert words in capsys.readouterr().err
