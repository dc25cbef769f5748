"""The command as its users meet it."""

import json
import shutil
import subprocess
import sys

import pytest

from helpers.commands import run_here
from supple.anatomy.flesh_presets import FLESH_PRESETS
from supple.cli.main import main
from supple.engines.engine import ENGINES

HEAVY = ("numba", "scipy", "matplotlib", "igl", "meshio", "numpy")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own: what is said of those that are run here holds there, too."""
    return subprocess.run(
        [sys.executable, "-m", "supple.cli.main", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from supple.cli.main import main\n"
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
    for done in (run_here(*arguments), *([run(*arguments)] if arguments == ["dance"] else [])):
        assert done.returncode == 2
        assert "Traceback" not in done.stdout + done.stderr
        assert done.stdout + done.stderr


def test_failures_exit_with_one_and_one_line(tmp_path):
    occupied = tmp_path / "file"
    occupied.write_text("a file where a folder is wanted")
    done = run("demo", "--output", str(occupied), "--quiet")
    assert done.returncode == 1
    assert done.stderr.startswith("supple: ")
    assert len(done.stderr.strip().splitlines()) == 1
    assert occupied.read_text() == "a file where a folder is wanted"


@pytest.mark.parametrize("tets", ["0", "-5", "99999999999"])
def test_an_absurd_number_of_tets_is_refused_and_nothing_is_written(tmp_path, tets):
    done = run_here("demo", "--output", str(tmp_path / "out"), "--tets", tets, "--quiet")
    assert done.returncode == 1
    assert "tets" in done.stderr
    assert not (tmp_path / "out").exists()


def test_demo_writes_a_picture_a_report_and_a_character_and_prints_json(tmp_path, capsys):
    small = ["--scene", "x", "--tets", "1000"]
    main(["demo", "--output", str(tmp_path), *small, "--json"])
    figures = json.loads(capsys.readouterr().out)
    assert 850 <= figures["tets"] <= 1150
    assert (tmp_path / "filmstrip.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "x_soft.glb").read_bytes().startswith(b"glTF")
    assert f"{figures['tets']:,}" in (tmp_path / "report.html").read_text()
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


@pytest.mark.parametrize(
    ("file", "status", "words"),
    [
        ("gltf_characters/CesiumMan.glb", 0, "clip_0"),
        ("motion_bvh/mh_walk1.bvh", 0, "clip"),
        ("complementary_dynamics/sphere/sphere.mesh", 0, "181 tets"),
        ("hostile_gltf/assimp/MissingBin/BoxTextured.gltf", 1, "supple: BoxTextured.gltf:"),
        ("nothing.glb", 1, "there is no such file"),
    ],
)
def test_info_describes_a_file_or_gives_a_one_line_error(assets, file, status, words):
    done = run_here("info", str(assets / file))
    assert done.returncode == status
    assert words in done.stdout + done.stderr
    if status:
        assert len(done.stderr.strip().splitlines()) == 1


def test_names_in_a_file_do_not_command_the_terminal(tmp_path):
    wild = tmp_path / "wild.bvh"
    wild.write_text(
        "HIERARCHY\nROOT hi\x1b[31mps\n{\nOFFSET 0 0 0\nCHANNELS 3 Zrotation Xrotation Yrotation\n"
        "End Site\n{\nOFFSET 0 1 0\n}\n}\nMOTION\nFrames: 2\nFrame Time: 0.1\n0 0 0\n0 1 0\n"
    )
    done = run_here("info", str(wild))
    assert done.returncode == 0
    assert "hi?[31mps" in done.stdout
    assert "\x1b[31m" not in done.stdout


def test_scene_prints_json_and_draws_a_sheet(tmp_path, capsys):
    main(["scene", "x", "--sheet", str(tmp_path / "x.png"), "--json"])
    figures = json.loads(capsys.readouterr().out)
    assert abs(figures["tets"] / figures["paper_tets"] - 1) < 0.1
    assert abs(figures["surface_vertices"] / figures["paper_surface_vertices"] - 1) < 0.1
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "arguments", [["unicorn"], ["x", "--sheet", "sheet.jpg"], ["x", "--sheet", "no/where.png"]]
)
def test_a_scene_or_sheet_that_cannot_be_is_one_line(arguments):
    done = run_here("scene", *arguments)
    assert done.returncode == 1
    assert len(done.stderr.strip().splitlines()) == 1


def test_bench_rig_compares_skinning_with_a_matrix_product(capsys):
    main(["bench", "rig", "--vertices", "2000", "--json"])
    rows = json.loads(capsys.readouterr().out)
    (skinning,) = [row for row in rows if row["rig"] == "linear blend"]
    assert skinning["bound"] == 0.25
    assert skinning["ratio"] == pytest.approx(skinning["ms"] / skinning["dgemm_ms"], rel=0.2)
    assert isinstance(skinning["within_bound"], bool)


def test_a_reader_that_stops_listening_and_a_full_disk_are_no_tracebacks(assets):
    file = str(assets / "motion_bvh/mh_walk1.bvh")
    for redirect in ("| true", "> /dev/full"):
        done = subprocess.run(
            [
                "sh",
                "-c",
                f'"$0" -m supple.cli.main info --json "$1" {redirect}',
                sys.executable,
                file,
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        assert "Traceback" not in done.stderr


# Completion by the shell -------------------------------------------------------------------


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_for_each_shell_completes_commands_and_options(shell):
    done = run_here("completion", shell)
    assert done.returncode == 0
    for word in ("bake", "reproduce", "growth", "engine", "flesh", "jelly"):
        assert word in done.stdout


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("supple b", {"bake", "batch", "bench", "blender", "build"}),
        ("supple bake --fl", {"--flesh"}),
        ("supple bake --flesh ", {*FLESH_PRESETS}),
        ("supple bench gr", {"growth"}),
    ],
)
def test_bash_completes_what_is_typed(tmp_path, line, offered):
    script = tmp_path / "supple.bash"
    script.write_text(run_here("completion", "bash").stdout)
    subprocess.run(["bash", "-n", str(script)], check=True)
    words = line.split(" ")
    typed = " ".join(f"'{word}'" for word in words)
    program = (
        f"source {script}\nCOMP_WORDS=({typed})\nCOMP_CWORD={len(words) - 1}\n"
        'compopt() { :; }\n_supple\nprintf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True)
    assert {word.strip() for word in done.stdout.split("\n") if word.strip()} == offered


# Engines -----------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [["bake"], ["build"], ["view"], ["bench"]])
def test_help_lists_the_engines_of_characters_from_the_table(command, capsys):
    main([*command, "--help"])
    said = " ".join(capsys.readouterr().out.replace("│", " ").split())
    for name, row in ENGINES.items():
        assert (f"{name}: {row.about}" in said) == (row.moves == "character")


@pytest.mark.parametrize("arguments", [["bake", "x"], ["build", "x"], ["view", "x"], ["bench"]])
@pytest.mark.parametrize(
    ("engine", "words"),
    [
        ("ful", 'did you mean "full"?'),
        ("zzz", "there are pose-space, full"),
        ("stvk", "is for a body, not a character"),
    ],
)
def test_an_engine_that_is_none_is_one_line_with_the_nearest(capsys, arguments, engine, words):
    with pytest.raises(SystemExit) as exit_code:
        main([*arguments, "--engine", engine])
    assert exit_code.value.code == 1
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert words in line


def test_an_interrupt_that_a_callback_loses_is_not_lost():
    """Exceptions do not pass through C: loading compiled code swallowed Ctrl-C now and then."""
    program = (
        "import ctypes, os, signal, sys, time\n"
        "import supple.cli.main as cli\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "sys.unraisablehook = cli._interrupt_again\n"
        "kind = ctypes.CFUNCTYPE(None)\n"
        "def called():\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    time.sleep(0.01)\n"
        "kind(called)()\n"
        "began = time.monotonic()\n"
        "try:\n"
        "    time.sleep(30)\n"
        "except KeyboardInterrupt:\n"
        "    print('heard', 'at once' if time.monotonic() - began < 20 else 'late')\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=False
    )
    assert ran.stdout == "heard at once\n", ran.stderr
