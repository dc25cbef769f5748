"""What a batch is asked to do: folders, patterns, lists with options, and names of results."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from helpers.commands import run_here
from supple.app.batch.batch_options import BatchOptions, parse_since
from supple.app.batch.inputs import requested_jobs
from supple.app.batch.planned_jobs import Job, file_stamp, plan
from supple.errors import SuppleError


def planned(folder: Path, *given: Any, command: str = "bake", **told: Any) -> list[Job]:
    names = told.pop("names", {})
    asked = requested_jobs(
        [str(each) for each in given],
        command,
        told.pop("settings", ()),
        told.pop("clips", ()),
        folder / "out",
        lambda sources: {each: names.get(Path(each).stem, []) for each in sources},
    )
    return plan(asked, folder / "out", **told)


def listed(folder: Path, rows: Any, name: str = "jobs.json") -> Path:
    text = rows if isinstance(rows, str) else json.dumps(rows)
    (folder / name).write_text(text)
    return folder / name


def outputs(jobs: list[Job]) -> list[str]:
    return sorted(job.output for job in jobs)


@pytest.fixture
def rats(tmp_path: Path) -> Path:
    for name in (
        "a/rat.glb",
        "b/rat.glb",
        "b/cat.usda",
        "b/.hidden.glb",
        "b/notes.txt",
        "out/x.glb",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    return tmp_path


def test_a_folder_is_searched_but_for_results_and_hidden_files(rats):
    assert outputs(planned(rats, rats)) == ["a/rat.glb", "b/cat.usda", "b/rat.glb"]


def test_a_pattern_names_results_from_where_its_signs_begin(rats):
    jobs = planned(rats, rats / "*" / "rat.glb", suffix=".abc")
    assert outputs(jobs) == ["a/rat.abc", "b/rat.abc"]


def test_clips_times_settings_are_jobs_that_share_models_and_stand_together(rats):
    jobs = planned(
        rats,
        rats / "a",
        rats / "b" / "cat.usda",
        clips=["all"],
        settings=["flesh=soft", "flesh=firm", "rate=24", "loop=true"],
        names={"rat": ["Run", "../../Idle"], "cat": []},
    )
    assert outputs(jobs) == [
        "cat_firm.usda",
        "cat_soft.usda",
        "rat_Idle_firm.glb",
        "rat_Idle_soft.glb",
        "rat_Run_firm.glb",
        "rat_Run_soft.glb",
    ]
    models = [job.model for job in jobs]
    assert len(set(models)) == 2  # one for each character, for every flesh
    assert all(models[k] == models[k + 1] for k in (0, 2))
    assert {"--rate=24", "--loop=true"} <= set(jobs[0].words(rats / "out"))


def test_clips_of_a_body_in_files_share_the_model_of_the_first(rats):
    for name in ("body.npz", "walk.npz", "run.npz"):
        (rats / name).write_bytes(b"x")
    clips = [str(rats / "walk.npz"), str(rats / "run.npz")]
    jobs = planned(rats, rats / "body.npz", clips=clips)
    assert outputs(jobs) == ["body_run.glb", "body_walk.glb"]
    assert len({job.model for job in jobs}) == 1
    assert {dict(job.options)["model-motion"] for job in jobs} == {(clips[0],)}
    own = planned(rats, rats / "body.npz", clips=clips, settings=["betas=motion"])
    assert len({job.model for job in own}) == 2


def test_rows_of_a_list_have_options_of_their_own_and_paths_from_its_folder(rats):
    rows = [
        {"source": "a/rat.glb", "output": "first/one.glb", "flesh": "soft", "poses": ["Run:1", 2]},
        {"source": "b/rat.glb", "output": "two", "command": "build", "modes": [4, 5]},
        {"source": "gorilla", "motion": "walk", "from": 0.5, "loop": True, "all": False},
    ]
    one, two, three = planned(rats, listed(rats, rows))
    assert one.source == str(rats / "a/rat.glb")
    assert one.words(rats)[2:4] == [f"--output={rats}/first/one.glb", "--flesh=soft"]
    assert one.words(rats)[4:] == ["--poses=Run:1", "--poses=2"]
    assert (two.command, two.output) == ("build", "two.supple")
    assert three.source == "gorilla"
    assert three.output == "gorilla_walk.glb"
    table = "source,output,flesh,poses,tets\na/rat.glb,x.glb,soft,Run:1 2,\nb/rat.glb,,,,900\n"
    jobs = planned(rats, listed(rats, table, "jobs.csv"))
    assert [job.words(rats)[3:] for job in jobs] == [
        ["--flesh=soft", "--poses=Run:1", "--poses=2"],
        ["--tets=900"],
    ]
    assert outputs(planned(rats, listed(rats, '{"source": "arm"}\n', "jobs.jsonl"))) == ["arm.glb"]


@pytest.mark.parametrize(
    "name",
    [
        "../up.glb",
        "/etc/x.glb",
        "a/../../x.glb",
        "..\\x.glb",
        "C:\\x.glb",
        "~/x.glb",
        ".",
        "a//b.glb",
        "x\x00.glb",
        "a/./b.glb",
        "\x1b[31m.glb",
        ".batch/x.glb",
        "batch.jsonl",
        "n" * 300 + ".glb",
        " ",
    ],
)
def test_a_name_that_leads_out_of_the_folder_is_refused(rats, name):
    rows = [{"source": "a/rat.glb", "output": name}]
    with pytest.raises(SuppleError, match="not a name inside the output folder") as found:
        planned(rats, listed(rats, rows))
    assert str(found.value).isprintable()
    if name.strip(" ."):
        rows = [{"source": "a/rat.glb", "report": name}]
        with pytest.raises(SuppleError):
            planned(rats, listed(rats, rows))


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ('[{"source": "arm", "rate": NaN}]', "NaN; use finite numbers"),
        ('[{"source": "arm", "rate": "nan"}]', "row 1: rate is not a finite number"),
        ('[{"source": "arm", "rate": 1e999}]', "use a finite number"),
        ('[{"source": "arm", "tets": ' + "9" * 30 + "}]", "row 1: tets: is more than"),
        ('[{"source": "arm", "tets": ' + "9" * 5000 + "}]", "not a valid JSON list"),
        ('[{"source": "arm", "tets": {"a": 1}}]', "use text, a number"),
        ('[{"source": "arm", "flsh": "soft"}]', "no option 'flsh'; did you mean flesh"),
        ('[{"source": "arm", "flesh": "sof"}]', 'row 1: Invalid value "sof"'),
        ('[{"source": "arm", "all": true, "motion": "Run"}]', "--all bakes every motion"),
        (
            '[{"source": "arm", "command": "curves", "range": "1 2 --page=/x"}]',
            "range: is '1 2",
        ),
        ('[{"source": "arm", "command": "curves", "range": ["1", "--x"]}]', "use 2 values"),
        ('[{"source": "arm", "command": "curves", "range": [1, "-o"]}]', "use 2 values"),
        ('[{"source": "arm", "command": "curves", "range": 1}]', "use 2 values"),
        ('[{"source": "arm", "output": 7}]', "output is 7"),
        ('[{"source": "arm", "command": "demo"}]', "command 'demo'; use bake"),
        ('[{"source": "arm", "remove": true}]', "no option 'remove'"),
        ('[{"source": "arm", "flesh": "' + "x" * 20_000 + '"}]', "too long"),
        ('[{"flesh": "soft"}]', "row 1: has no source"),
        ("[7]", "row 1: is 7"),
        ("[]", "has 0 rows"),
        ("[" * 100_000, "not a valid JSON list"),
        ('[{"source": "arm"}, {"source": "arm"}]', "two jobs of arm would both be written"),
        (
            '[{"source": "arm", "output": "x"}, {"source": "arm", "output": "x.glb/y"}]',
            "a folder of",
        ),
    ],
)
def test_hostile_lists_are_refused_in_one_line_that_names_the_place(rats, rows, words):
    with pytest.raises(SuppleError, match=words.replace("(", r"\(")) as found:
        planned(rats, listed(rats, rows))
    assert len(str(found.value)) < 500


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("file\na.glb\n", 'no column "source"'),
        ("source,source\na,b\n", "two columns have the same name"),
        ("source,flesh\na.glb\n", "row 2 must have 2 cells"),
        ("source,flesh\na.glb,soft,more\n", "row 2 must have 2 cells"),
        ('source\n"' + "x" * 200_000 + '"\n', "not a valid CSV file"),
        ("source,rate\narm,inf\n", "row 2: rate is not a finite number"),
        ("source,poses\narm,'Run\n", "no closing quotation"),
    ],
)
def test_hostile_tables_are_refused_in_one_line(rats, table, words):
    with pytest.raises(SuppleError, match=words):
        planned(rats, listed(rats, table, "jobs.csv"))


def test_results_are_no_sources_when_the_same_command_runs_again(rats):
    jobs = planned(rats, rats / "**" / "*.glb", clips=["Run"])
    assert outputs(jobs) == ["a/rat_Run.glb", "b/rat_Run.glb"]  # none of out/x.glb
    for word in (rats / "out", rats / "out" / "*.glb"):
        with pytest.raises(SuppleError, match="contains the sources; give another"):
            planned(rats, word, clips=["Run"])


def test_a_link_that_is_a_source_is_not_written_over(rats):
    (rats / "c").mkdir()
    (rats / "c" / "rat.glb").symlink_to(rats / "a" / "rat.glb")
    asked = requested_jobs([str(rats / "c")], "bake", (), (), rats / "out", lambda s: {})
    with pytest.raises(SuppleError, match="would replace a source"):
        plan(asked, rats / "c")


def test_results_are_not_written_over_sources_or_each_other(rats):
    asked = requested_jobs([str(rats / "a")], "bake", (), (), rats / "out", lambda s: {})
    with pytest.raises(SuppleError, match="would replace a source"):
        plan(asked, rats / "a")
    with pytest.raises(SuppleError, match=r"would both be written to rat\.glb"):
        planned(rats, rats / "a", rats / "b")


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([{"output": "x.glb", "report": "X.glb"}], "two of its files"),
        ([{"output": "x.glb", "report": "r.json"}, {"output": "R.json"}], "would both be written"),
        ([{"output": "x.glb", "readings": "rat.glb"}], r"rat\.glb: would replace a source"),
        ([{"output": "S.json", "stiffness": "s.json"}], r"S\.json: would replace a source"),
        ([{"output": "x", "report": "y.glb/z.json"}, {"output": "Y.glb"}], "a folder of results"),
    ],
)
def test_nothing_that_a_job_writes_lies_on_what_one_reads_or_writes(tmp_path, rows, words):
    (tmp_path / "rat.glb").write_bytes(b"x")
    (tmp_path / "s.json").write_text("{}")
    told = [{"source": "rat.glb"} | row for row in rows]
    asked = requested_jobs(
        [str(listed(tmp_path, told))], "bake", (), (), tmp_path, lambda sources: {}
    )
    with pytest.raises(SuppleError, match=words):
        plan(asked, tmp_path, "")


def test_words_of_a_pair_stay_its_words(rats):
    rows = [{"source": "gorilla", "command": "curves", "range": "-1 2"}]
    (job,) = planned(rats, listed(rats, rows))
    assert job.words(rats)[-3:] == ["--range", "-1", "2"]


def test_clips_that_cannot_be_read_are_a_failed_job_with_the_reason(rats):
    why = SuppleError("rat.glb: is damaged")
    jobs = planned(rats, rats / "a", rats / "b/cat.usda", clips=["R*"], names={"rat": why})
    assert [(job.output, job.fault) for job in jobs] == [("rat.glb", "rat.glb: is damaged")]


def test_the_files_that_a_gltf_refers_to_are_inputs(rats):
    (rats / "a/cat.gltf").write_text('{"buffers": [{"uri": "cat%20.bin"}]}')
    (rats / "a/cat .bin").write_bytes(b"x")
    (job,) = planned(rats, rats / "a/cat.gltf")
    before = job.stamp()
    (rats / "a/cat .bin").write_bytes(b"xy")
    file_stamp.cache_clear()
    assert job.stamp() != before
    assert job.inputs() == [str(rats / "a/cat.gltf")]
    rows = [{"source": "cat.gltf", "output": "cat .bin"}]
    asked = requested_jobs(
        [str(listed(rats / "a", rows))], "bake", (), (), rats / "a", lambda s: {}
    )
    with pytest.raises(SuppleError, match="would replace a source"):
        plan(asked, rats / "a")


def test_a_job_is_known_by_what_it_does_and_by_its_files(rats):
    one, other = (
        planned(rats, rats / "a", settings=[f"flesh={name}"])[0] for name in ("soft", "firm")
    )
    assert one.key != other.key
    assert one.stamp() == other.stamp() != planned(rats, rats / "b" / "rat.glb")[0].stamp()


def test_since_takes_dates_and_times_ago():
    assert abs(parse_since("2h") - (time.time() - 7200)) < 60
    assert parse_since("2026-01-02") < parse_since("2026-01-02T10:00")
    for word in ("yesterday", "", "9" * 40 + "d", "-3d"):
        with pytest.raises(SuppleError, match="use a date"):
            parse_since(word)


@pytest.mark.parametrize(
    "options", [{"jobs": 0}, {"time_limit": float("nan")}, {"memory_limit": -1.0}, {"suffix": "/x"}]
)
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(SuppleError):
        BatchOptions(**options)


def test_a_dry_run_lists_what_is_missing_and_neither_compiles_nor_writes(rats, monkeypatch):
    def refuse(*words: Any) -> None:
        raise AssertionError("it compiles")

    monkeypatch.setattr("supple.app.compiling.compiled_for", refuse)
    done = run_here("batch", str(rats / "a"), "-o", str(rats / "new"), "--dry-run", "--json")
    figures = json.loads(done.stdout)
    assert done.returncode == 0
    assert figures["missing"][0]["output"] == "rat.glb"
    assert figures["missing"][0]["words"][0] == "bake"
    assert not (rats / "new").exists()
    old = time.time() - 10 * 86_400
    os.utime(rats / "a/rat.glb", (old, old))
    words = ("batch", str(rats / "a"), "-o", str(rats / "new"), "--dry-run", "--json")
    assert json.loads(run_here(*words, "--since", "3d").stdout)["skipped"] == 1
    assert json.loads(run_here(*words, "--since", "30d").stdout)["skipped"] == 0


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("nothing.glb", "-o", "out"), 1),
        (("-o", "empty"), 1),
        (("x",), 2),
        (("arm", "-o", "out", "--command", "dance"), 2),
        (("arm", "-o", "out", "--set", "flesh"), 1),
        (("arm", "-o", "out", "--since", "soon"), 1),
        (("*.glb", "-o", "out"), 1),
    ],
)
def test_failures_are_one_line_errors_or_usage_errors(tmp_path, monkeypatch, words, status):
    monkeypatch.chdir(tmp_path)
    done = run_here("batch", *words)
    assert done.returncode == status
    assert "Traceback" not in done.stderr
    if status == 1:
        assert done.stderr.startswith("supple: ")
        assert len(done.stderr.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir()) or status == 1
