"""`supple curves`: a file in, the same file out with curves on free channels."""

import json
from pathlib import Path

import numpy as np
import pytest

import supple
from helpers.gltf_validation import new_issues
from helpers.rat_sample import write_rat
from helpers.spring_engine import spring_engine
from helpers.tail_file import tail_file
from supple.app import curve_making
from supple.app.batch.job_commands import checked_options
from supple.app.options import bounds_by_name
from supple.cli.main import main
from supple.errors import SuppleError

#: With the engine of tests: nothing is built.
QUICK = ["--engine", "springs", "--anatomy", "none"]
FREE = ["--free", "wag.r*", "tail_*.r*", "belly"]


@pytest.fixture(scope="module", autouse=True)
def springs():
    with spring_engine() as name:
        yield name


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    tail_file(tmp_path / "tail.glb")
    return tmp_path


def run(*words, capsys=None):
    main(["curves", *map(str, words), "--quiet" if capsys is None else "--json"])
    return None if capsys is None else json.loads(capsys.readouterr().out)


def test_a_file_goes_in_and_comes_out_with_curves(folder, capsys):
    figures = run("tail.glb", *QUICK, *FREE, capsys=capsys)
    assert figures["output"] == "tail_curves.glb"
    assert figures["animation"] == "clip"
    assert figures["free"] == len(figures["free_names"]) == 10
    assert figures["error"] <= 2e-3
    assert not new_issues(Path("tail.glb"), Path("tail_curves.glb"))
    main(["curves", "tail.glb", *QUICK, *FREE])
    said = capsys.readouterr().err + capsys.readouterr().out
    assert "Traceback" not in said


def test_a_second_run_replaces_and_remove_takes_out(folder):
    run("tail.glb", *QUICK, *FREE)
    once = Path("tail_curves.glb").read_bytes()
    run("tail_curves.glb", *QUICK, *FREE, "-o", "tail_curves.glb")  # in place
    assert Path("tail_curves.glb").read_bytes() == once
    run("tail_curves.glb", "--remove", "-o", "back.glb")
    assert Path("back.glb").read_bytes() == Path("tail.glb").read_bytes()
    run("tail_curves.glb", "--remove")
    assert Path("tail_curves.glb").read_bytes() == Path("tail.glb").read_bytes()


def test_options_determine_what_is_played_and_written(folder, capsys):
    Path("free.txt").write_text("# what may swing\ntail_*.r*\n\nbelly\n")
    figures = run(
        *("tail.glb", *QUICK, "--free", "free.txt", "--motion", "clip", "--range", 0.5, 1.5),
        *("--fps", 24, "--keys", "spline", "--error", 0.002, "--strength", 0.5, "--additive"),
        *("-o", "part.glb"),
        capsys=capsys,
    )
    assert figures["free"] == 7
    assert figures["frames"] == 25
    assert figures["rate"] == 24
    assert figures["keys"] == "spline"
    assert figures["animation"] == "clip_additive"
    assert figures["strength"] == 0.5
    looped = run("tail.glb", *QUICK, *FREE, "--loop", "-o", "loop.json", capsys=capsys)
    assert looped["cycles"] > 1


@pytest.mark.parametrize("suffix", [".csv", ".json", ".bvh", ".gltf"])
def test_other_formats_are_selected_by_their_suffix(folder, suffix):
    run("tail.glb", *QUICK, "--free", "tail_*.r*", "-o", f"out{suffix}")
    assert Path(f"out{suffix}").stat().st_size > 500


def test_charts_and_a_page_are_drawn(folder, monkeypatch):
    small = supple.engines.ENGINES["pose-space"]
    for name, value in {"tets": 300, "modes": 4, "most_poses": 1}.items():
        monkeypatch.setitem(small.bake_options, name, value)
    run("tail.glb", *QUICK, *FREE, "--plot", "plot.png", "--page", "page.html")
    assert Path("plot.png").read_bytes()[:4] == b"\x89PNG"
    page = Path("page.html").read_text()
    assert "clip, curves" in page
    assert "clip, pose-space" in page


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["no.glb"], 1, "no such file"),
        (["tail.glb", "-o", "x.obj"], 1, "use one of .glb"),
        (["tail.glb", "-o", "no/x.glb"], 1, "there is no folder"),
        (["tail.glb", "--motion", "clap"], 1, 'did you mean "clip"?'),
        (["tail.glb", "--fps", "0"], 1, "frames per second"),
        (["tail.glb", "--range", "3", "4"], 1, "lasts from 0 to 2 s"),
        (["tail.glb", "--error", "7"], 1, "the error is 7"),
        (["tail.glb", "--strength", "-1"], 1, "strength -1"),
        (["tail.glb", "--keys", "spline", "-o", "x.csv"], 1, "--keys is not for .csv"),
        (["tail.glb", "--plot", "x.jpg"], 1, "pictures are written as .png"),
        (["tail.glb", "--page", "x.txt"], 1, "name for a page; use one that ends in .html"),
        (["tail.glb", "--free", "names.txt"], 1, "names.txt"),
        (["tail.glb", "--engine", "full"], 1, "moves no parameters of the rig"),
        (["tail.glb", "--engine", "rigspace"], 1, 'did you mean "rig-space"?'),
        (["tail.glb", "--remove"], 1, "has no curves"),
        (["tail.glb", "--follow", "1"], 1, "the engine springs has no such option"),
        (["tail.glb", "--engine", "rig-space", "--follow", "tail=x"], 1, "use a number, or NAME"),
        (["tail.glb", "--engine", "rig-space", "--follow", "1", "2"], 1, "needs one number"),
        (["tail.glb", "--keys", "some"], 2, ""),
    ],
)
def test_invalid_curve_requests_are_one_line_errors_and_leave_nothing(
    folder, capsys, words, code, said
):
    before = sorted(folder.iterdir())
    with pytest.raises(SystemExit) as stopped:
        main(["curves", *([] if "--engine" in words else QUICK), *words, "--quiet"])
    assert stopped.value.code == code
    error = capsys.readouterr().err
    assert said in error
    assert code == 2 or error.count("\n") == 1
    assert sorted(folder.iterdir()) == before


def test_the_engine_rig_space_moves_a_tail_of_a_file(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_rat(tmp_path / "rat.glb")
    held = ["--follow", "Tail1=0.1", "--firmness", 2]
    quick = ["--tets", 1500, "--keys", "every"]
    figures = run("rat.glb", "--free", "Tail*", *held, *quick, capsys=capsys)
    assert figures["engine"] == "rig-space"
    assert figures["free"] == 6
    curves = supple.load("rat_curves.glb")
    assert (
        np.abs(
            curves.motions["Run"].poses
            - supple.load("rat.glb").motions["Run"].at(curves.motions["Run"].times)[0]
        ).max()
        > 0.1
    )
    assert not new_issues(Path("rat.glb"), Path("rat_curves.glb"))


def test_options_that_an_engine_has_not_are_refused(folder, capsys):
    for words, said in (
        (["--tolerance", "0.01"], "--tolerance: the engine springs has no such option"),
        (["--damping", "tail*=2"], "the engine springs needs one number as damping"),
    ):
        with pytest.raises(SystemExit):
            main(["curves", "tail.glb", *QUICK, *FREE, *words])
        assert said in capsys.readouterr().err
        assert not Path("tail_curves.glb").exists()


@pytest.mark.parametrize(
    ("text", "bounds"),
    [
        ("-1,1", {"*": (-1.0, 1.0)}),
        ("belly*=-1,1; cheek=0,0.5", {"belly*": (-1.0, 1.0), "cheek": (0.0, 0.5)}),
    ],
)
def test_bounds_are_for_all_controls_or_by_name(text, bounds):
    assert bounds_by_name(text) == bounds


@pytest.mark.parametrize("text", ["", "1", "1,-1", "belly=", "belly=x,1", "nan,1"])
def test_bounds_that_are_none_are_refused_in_one_line(text):
    with pytest.raises(SuppleError, match="--bounds"):
        bounds_by_name(text)


def test_options_of_curves_reach_the_parser_of_jobs():
    words = {"bounds": "-1,1", "solver": "rsp", "deferral": 0, "ground": "auto", "obstacle": "x"}
    options = dict(checked_options("curves", words, "list.csv"))
    assert options["bounds"] == ("-1,1",)
    assert {"solver", "deferral", "ground", "obstacle"} <= set(options)


def test_options_that_an_engine_lacks_are_refused(folder):
    for words in (["--solver", "rsp"], ["--ground"], ["--deferral", "0"]):
        with pytest.raises(SystemExit):
            run("tail.glb", *QUICK, *FREE, *words)


def test_a_plot_has_the_keys(folder, monkeypatch):
    drawn = {}
    monkeypatch.setattr(curve_making, "plot_curves", lambda path, curves, keys: drawn.update(keys))
    run("tail.glb", *QUICK, *FREE, "--plot", "plot.png")
    assert set(drawn) == set(supple.curves("tail.glb", engine="springs", free=FREE[1:]).free)
    assert all(len(times) > 1 for times in drawn.values())
