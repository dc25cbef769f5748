"""`supple bake`: what it writes and says, and what it does not leave behind."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supple
from helpers.build_samples import bar_mesh, kept_scenes, stepped_model
from helpers.gltf_builder import Builder, turn
from supple.app import baking
from supple.app.model_request import read_stiffness
from supple.cli.main import main
from supple.errors import SuppleError, SuppleWarning
from supple.playback import character_models
from supple.playback.baking import bake
from supple.playback.character_models import kept_model, prepared_model
from supple.playback.character_sources import CharacterSource, read_character
from supple.rig.character import Character
from supple.rig.protocol import FunctionRig

SMALL = ("--tets", "600", "--modes", "8", "--poses", "2")
PERIOD = 0.8


@pytest.fixture(scope="module", autouse=True)
def _scene_cache(request: pytest.FixtureRequest) -> Iterator[None]:
    with kept_scenes(request.config.cache.mkdir("scenes")):
        yield


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def add_worm(b: Builder, place: float = 0.0, colours: Any = None, letter: str = "f") -> int:
    """A bar on two joints of its own, 1 m along x; the armature's node."""
    surface, _ = bar_mesh().surface()
    share = np.clip(0.5 + (surface.vertices[:, 0] - 0.5) / 0.3, 0, 1)
    count, zeros = len(share), np.zeros(len(share))
    attributes = {
        "POSITION": b.accessor(surface.vertices),
        "JOINTS_0": b.accessor(np.tile([0, 1, 0, 0], (count, 1)), "B"),
        "WEIGHTS_0": b.accessor(np.column_stack([1 - share, share, zeros, zeros])),
    }
    if colours is not None:
        more = {"normalized": True} if letter != "f" else {}
        attributes["COLOR_0"] = b.accessor(colours, letter, **more)
    shape = {"attributes": attributes, "indices": b.accessor(surface.triangles.ravel(), "H")}
    mesh = b.add("meshes", {"name": "worm", "primitives": [shape]})
    inverse = np.tile(np.eye(4), (2, 1, 1))
    inverse[1, 0, 3] = -0.5
    tail = b.add("nodes", {"name": "tail", "translation": [0.5, 0, 0]})
    front = b.add("nodes", {"name": "front", "children": [tail]})
    bind = b.accessor(inverse.transpose(0, 2, 1).reshape(2, 16))
    skin = b.add("skins", {"joints": [front, tail], "inverseBindMatrices": bind})
    shown = b.add("nodes", {"name": "shown", "mesh": mesh, "skin": skin})
    top = {"name": "armature", "translation": [0, 0, place], "children": [front]}
    armature = b.add("nodes", top)
    scene = b.json.setdefault("scenes", [{"nodes": []}])[0]
    scene["nodes"] += [shown, armature]
    return tail


def worm(path: str = "worm.glb", moving: bool = True, **options: Any) -> str:
    """A character file in this folder; its tail swings once in a clip."""
    b = Builder()
    tail = add_worm(b, **options)
    if moving:
        times = np.arange(13) * PERIOD / 12
        angles = 0.4 * np.sin(2 * np.pi * times / PERIOD)
        b.animate(tail, "rotation", times, [turn(2, angle) for angle in angles])
    b.save_glb(Path(path))
    return path


def files() -> list[str]:
    """All that is in the current folder, hidden ones too."""
    return sorted(os.listdir("."))


def refused(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 1) -> str:
    """Run what must fail: the line it says, with nothing on standard output and no file left."""
    before = files()
    with pytest.raises(SystemExit) as caught:
        main(["bake", *arguments, "--quiet"])
    said = capsys.readouterr()
    assert caught.value.code == code
    assert said.out == ""
    assert "Traceback" not in said.err
    assert files() == before
    lines = [line for line in said.err.splitlines() if not line.startswith("supple: warning")]
    if code == 1:
        assert len(lines) == 1
        assert lines[0].startswith("supple: ")
    return said.err


def test_json_has_every_figure_and_the_frames_are_those_of_the_library(capsys):
    main(["bake", worm(), "-o", "worm.npz", "--json", *SMALL])
    said = capsys.readouterr()
    figures = json.loads(said.out)
    assert said.err == ""
    assert set(figures) >= {
        "name", "motion", "engine", "flesh", "size", "vertices", "tets", "poses", "modes",
        "frames", "rate", "loop", "build_s", "step_ms", "bake_s", "output", "bytes",
    }  # fmt: skip
    assert (figures["motion"], figures["modes"], figures["output"]) == ("clip", 8, "worm.npz")
    assert files() == ["worm.glb", "worm.npz"]
    character = supple.load("worm.glb")
    baked = bake(character, tets=600, modes=8, poses=2)
    with np.load("worm.npz") as written:
        assert written["frames"].tobytes() == baked.frames.tobytes()
        np.testing.assert_array_equal(written["times"], baked.times)


@pytest.mark.filterwarnings("ignore:.*the reduced model with:supple.errors.SuppleWarning")
def test_baking_again_gives_the_same_bytes_from_the_model_that_was_kept(capsys):
    worm()
    figures = []
    for output in ("one.npz", "two.npz"):
        main(["bake", "worm.glb", "-o", output, "--json", "--flesh", "soft", *SMALL])
        figures.append(json.loads(capsys.readouterr().out))
    assert figures[1]["model_kept"]
    assert Path("one.npz").read_bytes() == Path("two.npz").read_bytes()
    # Other flesh is another model.
    main(["bake", "worm.glb", "-o", "three.npz", "--json", "--flesh", "firm", *SMALL])
    capsys.readouterr()
    assert Path("one.npz").read_bytes() != Path("three.npz").read_bytes()


def test_a_summary_is_printed_and_the_file_is_named_after_the_character(capsys):
    main(["bake", worm(), "--loop", *SMALL])
    said = capsys.readouterr()
    assert said.out == ""
    assert "wrote worm_soft.glb" in said.err
    assert "ms" in said.err
    assert files() == ["worm.glb", "worm_soft.glb"]
    again = supple.load("worm_soft.glb", flesh=True)
    assert list(again.motions) == ["clip"]


@pytest.mark.filterwarnings("default::supple.errors.SuppleWarning")
def test_twice_baked_equals_once_baked_and_remove_gives_the_original(capsys):
    main(["bake", worm(), "--quiet", *SMALL])
    once = Path("worm_soft.glb").read_bytes()
    main(["bake", "worm_soft.glb", "-o", "other.glb", "--quiet", *SMALL])
    assert Path("other.glb").read_bytes() == once
    capsys.readouterr()
    main(["bake", "worm_soft.glb", *SMALL])  # in place
    said = capsys.readouterr().err
    assert "wrote worm_soft.glb" in said
    assert said.count("has flesh that Supple baked") == 1
    assert Path("worm_soft.glb").read_bytes() == once
    assert files() == ["other.glb", "worm.glb", "worm_soft.glb"]
    main(["bake", "worm_soft.glb", "--remove", "-o", "back.glb"])
    assert "wrote back.glb, without flesh" in capsys.readouterr().err
    assert Path("back.glb").read_bytes() == Path("worm.glb").read_bytes()
    main(["bake", "worm_soft.glb", "--remove", "--json"])
    assert json.loads(capsys.readouterr().out)["output"] == "worm_soft.glb"
    assert Path("worm_soft.glb").read_bytes() == Path("worm.glb").read_bytes()
    main(["bake", "worm.glb", "-o", "worm.npz", "--quiet", *SMALL])
    reasons = {
        "worm.glb": "has no flesh from Supple to remove",
        "worm.npz": "holds only a motion, so there is no original to restore",
        "no.glb": "there is no such file",
        "worm.txt": "there is no such file",
    }
    for name, why in reasons.items():
        assert why in refused(capsys, name, "--remove")


def test_a_character_without_motion_wiggles_and_this_is_reported(capsys):
    main(["bake", worm(moving=False), "-o", "worm.npz", *SMALL[:4]])
    assert 'no motion; "wiggle" shakes and tilts the character' in capsys.readouterr().err
    assert refused(capsys, "worm.glb", "--motion", "Run").endswith(
        "it has no motions; use wiggle\n"
    )


@pytest.mark.filterwarnings("default::supple.errors.SuppleWarning")  # the flesh is firm
def test_models_are_baked_too_and_used_for_their_file(capsys):
    stepped_model("firm").save("bar.supple")
    main(["bake", "bar.supple", "-o", "bar.npz", "--quiet"])
    with np.load("bar.npz") as written:
        assert written["frames"].shape[1] == len(stepped_model("firm").surface.vertices)
    said = refused(capsys, worm(), "-o", "x.npz", "--model", "bar.supple")
    assert "is for another character" in said
    said = refused(capsys, "bar.supple", "-o", "x.npz", "--flesh", "soft")
    assert "determines the flesh; leave out flesh" in said


def test_scenes_are_baked_by_name(capsys):
    short = ("--tets", "1000", "--modes", "8", "--from", "0", "--to", "0.2")
    main(["bake", "x", "-o", "x.npz", "--json", *short])
    figures = json.loads(capsys.readouterr().out)
    assert (figures["name"], figures["frames"]) == ("x", 7)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["none.glb"], "none.glb: there is no such file"),
        (["gorila"], 'did you mean "gorilla"'),
        (["worm.glb", "--motion", "clap"], 'did you mean "clip"?'),
        (["worm.glb", "-o", "no/where.glb"], "there is no folder no"),
        (["worm.glb", "-o", "worm.txt"], '".txt" files are not written'),
        (["worm.glb", "-o", "worm.glb"], "is the source file; give the result another name"),
        (["worm.glb", "-o", "folder.glb"], "is not a file"),
        (["worm.glb", "--from", "3"], "lasts from 0 to 0.8 s"),
        (["worm.glb", "--rate", "0"], "0 frames per second"),
        (["worm.glb", "--damping", "-1"], "use 0 to 100"),
        (["worm.glb", "--error", "0"], "--error is 0 of the size"),
        (["worm.glb", "-o", "a.npz", "--points", "cache"], "--points is for .usd"),
        (["worm.glb", "--report", "page.txt"], "name for a report; use one that ends in .html"),
        (["worm.glb", "--stiffness", "none.json"], "cannot be read"),
        (["worm.glb", "--stiffness", "bad.json"], "is not JSON"),
        (["worm.glb", "--stiffness", "list.json"], "must be an object"),
        (["worm.glb", "--stiffness", "tale.json"], 'did you mean "tail"?'),
        (["worm.glb", "--stiffness", "color:COLOR_0"], "no vertex colour"),
        (["worm.glb", "--stiffness", "color:COLOR_0:pink"], 'no channel "pink"'),
        (["worm.glb", "--model", "none.supple"], "none.supple"),
        (["worm.glb", "--poses", "clip:99"], "has no frame 99"),
    ],
)
def test_invalid_requests_are_one_line_errors_and_leave_no_file(arguments, said, capsys):
    worm()
    Path("folder.glb").mkdir()
    Path("bad.json").write_text("{")
    Path("list.json").write_text("[1]")
    Path("tale.json").write_text('{"joints": {"tale": 2}}')
    assert said in refused(capsys, *arguments)


def test_wrong_usage_is_explained(capsys):
    refused(capsys, worm(), "--flesh", "wood", code=2)


def test_two_characters_are_one_too_many(capsys):
    b = Builder()
    add_worm(b)
    add_worm(b, place=2.0)
    b.save_glb(Path("pair.glb"))
    said = refused(capsys, "pair.glb")
    assert "pair.glb: has 2 characters" in said
    assert "save each in a separate file" in said


def test_two_skins_on_the_same_joints_are_one_character():
    b = Builder()
    add_worm(b)
    hat = {"name": "hat", "mesh": 0, "skin": b.add("skins", dict(b.json["skins"][0]))}
    b.json["scenes"][0]["nodes"].append(b.add("nodes", hat))
    b.save_glb(Path("dressed.glb"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the hat fits so well that its triangles are the body's
        assert read_character("dressed.glb").character.has_mesh


def test_a_file_without_a_rig_or_a_mesh_is_refused(capsys):
    surface, _ = bar_mesh().surface()
    b = Builder()
    shape = {
        "attributes": {"POSITION": b.accessor(surface.vertices)},
        "indices": b.accessor(surface.triangles.ravel(), "H"),
    }
    b.add("meshes", {"primitives": [shape]})
    b.add("nodes", {"mesh": 0})
    b.json["scenes"] = [{"nodes": [0]}]
    b.save_glb(Path("prop.glb"))
    assert "prop.glb: has no rig" in refused(capsys, "prop.glb")
    empty = Builder()
    empty.add("nodes", {"name": "only"})
    empty.json["scenes"] = [{"nodes": [0]}]
    empty.save_glb(Path("empty.glb"))
    assert "has no mesh" in refused(capsys, "empty.glb")


def test_a_target_that_cannot_be_written_is_refused_before_any_work(capsys, monkeypatch):
    worm()
    monkeypatch.setattr("supple.app.baking.read_character", lambda given: pytest.fail("worked"))
    if Path("/proc/self").is_dir():
        assert "cannot be written" in refused(capsys, "worm.glb", "-o", "/proc/worm.npz")

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    assert "cannot be written (no space left on device)" in refused(capsys, "worm.glb")


def test_a_disk_that_fills_up_while_writing_leaves_nothing(capsys, monkeypatch):
    worm()
    real, calls = os.fsync, []

    def filling(handle: int) -> None:
        calls.append(handle)
        if len(calls) > 1 and Path(f"/proc/self/fd/{handle}").resolve().parent == Path.cwd():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(handle)

    if not Path("/proc/self/fd").is_dir():
        pytest.skip("which file is written is told by /proc only")
    monkeypatch.setattr(os, "fsync", filling)
    assert "no space left" in refused(capsys, "worm.glb", "-o", "worm.npz", *SMALL).lower()


def test_an_interrupt_ends_it_and_leaves_nothing():
    worm()
    program = (
        "import signal, sys\n"
        "from supple.cli.main import main\n"
        "import supple.app.baking\n"
        # What runs in the background of a shell is born deaf to it.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "print('ready', file=sys.stderr, flush=True)\n"
        "main()\n"
    )
    command = [sys.executable, "-c", program, "bake", "worm.glb", "-o", "worm.npz"]
    process = subprocess.Popen([*command, *SMALL], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert process.stderr.readline() == "ready\n"
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    said = process.stderr.read()
    process.stderr.close()
    assert process.wait(60) == 130
    assert said.rstrip().endswith("supple: stopped")
    assert "Traceback" not in said
    assert files() == ["worm.glb"]


def test_an_interrupt_while_it_writes_leaves_nothing(capsys, monkeypatch):
    def stopped(source: str, target: str) -> None:
        if Path(target).name == "worm.npz":
            raise KeyboardInterrupt
        real(source, target)

    worm()
    real = os.replace
    monkeypatch.setattr(os, "replace", stopped)
    refused(capsys, "worm.glb", "-o", "worm.npz", *SMALL, code=130)


@pytest.mark.parametrize("letter", ["f", "B", "H"])
def test_the_stiffness_painted_in_a_file_is_read(letter):
    surface, _ = bar_mesh().surface()
    grey = np.linspace(0, 1, len(surface.vertices))
    most = {"f": 1, "B": 255, "H": 65535}[letter]
    colours = np.column_stack([grey, grey, 0 * grey, 1 + 0 * grey]) * most
    colours = colours if letter == "f" else colours.round().astype(int)
    worm(colours=colours, letter=letter)
    character = supple.load("worm.glb")
    red = read_stiffness("color:COLOR_0:red", character)
    np.testing.assert_allclose(red, np.maximum(grey, 0.02), atol=1 / 255)
    mean = read_stiffness("color:COLOR_0", character)
    np.testing.assert_allclose(mean, np.maximum(grey * 2 / 3, 0.02), atol=1 / 255)


def test_an_engine_is_chosen_by_name_and_by_the_older_word_with_a_warning(capsys):
    short = ["--to", "0.1", "--json", "--tets", "400"]
    main(["bake", worm(), "-o", "full.npz", "--engine", "full", *short])
    said = capsys.readouterr()
    assert json.loads(said.out)["engine"] == "full"
    assert said.err == ""


def test_stiffness_changes_what_is_baked(capsys):
    worm()
    Path("map.json").write_text('{"joints": {"tail": 5}}')
    moved = {}
    for name, more in (("plain", ()), ("stiff", ("--stiffness", "map.json"))):
        main(["bake", "worm.glb", "-o", f"{name}.npz", "-q", "--young", "3e3", *more, *SMALL])
        with np.load(f"{name}.npz") as written:
            moved[name] = written["frames"]
    assert np.abs(moved["plain"] - moved["stiff"]).max() > 1e-4


def test_a_black_box_is_built_each_time_and_a_damaged_model_again(monkeypatch, tmp_path):
    monkeypatch.setenv("SUPPLE_CACHE", str(tmp_path / "cache"))
    options: dict[str, Any] = {"tets": 600, "modes": 6, "poses": 1}
    worm()
    source = read_character("worm.glb")
    assert [prepared_model(source, **options).kept for _ in range(2)] == [False, True]
    (kept,) = (tmp_path / "cache").glob("*.supple")
    kept.write_bytes(kept.read_bytes()[:-9])
    assert [prepared_model(source, **options).kept for _ in range(2)] == [False, True]
    rig = source.character.rig
    box = FunctionRig(lambda pose: rig(pose), rig.parameters, rig.n_vertices)
    black = CharacterSource(Character("box", source.character.surface, box))
    with pytest.warns(SuppleWarning, match="nothing holds its flesh"):
        assert [prepared_model(black, **options).kept for _ in range(2)] == [False, False]


def test_the_cache_removes_the_least_recently_used_model(monkeypatch, tmp_path):
    monkeypatch.setenv("SUPPLE_CACHE", str(tmp_path / "cache"))
    two = replace(character_models._CHARACTER_MODELS, most=2)
    monkeypatch.setattr(character_models, "_CHARACTER_MODELS", two)
    worm()
    source = read_character("worm.glb")
    for modes in (5, 6, 7):
        prepared_model(source, tets=600, modes=modes, poses=1)
        time.sleep(0.02)
    assert len(list((tmp_path / "cache").glob("*.supple"))) == 2
    assert prepared_model(source, tets=600, modes=7, poses=1).kept
    assert not prepared_model(source, tets=600, modes=5, poses=1).kept


def test_stiffness_from_a_file_that_is_too_large_or_no_gltf_is_refused():
    Path("big.json").write_text(" " * (17 * 2**20))
    character = supple.load(worm())
    with pytest.raises(SuppleError, match="too large"):
        read_stiffness("big.json", character)
    bare = Character("bare", character.surface, character.rig)
    with pytest.raises(SuppleError, match="read from glTF files only"):
        read_stiffness("color:COLOR_0", bare)


def lively_worm(path: str = "worm.glb") -> str:
    """A worm with three clips: it rests, swings far, and swings a little."""
    b = Builder()
    tail = add_worm(b)
    times = np.arange(13) * PERIOD / 12
    for name, swing in (("idle", 0.0), ("run", 0.5), ("walk|slow", 0.1)):
        b.json.setdefault("animations", []).insert(
            0, {"name": name, "channels": [], "samplers": []}
        )
        angles = swing * np.sin(2 * np.pi * times / PERIOD)
        b.animate(tail, "rotation", times, [turn(2, angle) for angle in angles])
    b.json["animations"].reverse()
    b.save_glb(Path(path))
    return path


def test_without_a_motion_the_liveliest_is_baked_and_the_others_are_listed(capsys):
    main(["bake", lively_worm(), "-o", "run.npz", *SMALL])
    said = " ".join(capsys.readouterr().err.split())
    told = 'motion "run", the liveliest of 3; --all for all of them, --motion for one: idle, walk'
    assert told in said
    with np.load("run.npz") as written:
        assert str(written["motion"]) == "run"


@pytest.mark.filterwarnings("default::supple.errors.SuppleWarning")  # of the clip that rests
def test_all_clips_go_into_one_file_with_one_model_and_one_page(capsys):
    main(["bake", lively_worm(), "--all", "--json", "--report", "all.html", *SMALL])
    said = capsys.readouterr()
    figures, told = json.loads(said.out), said.err
    assert 'motion "idle": flesh moves by at most 0 % of the size: the motion does not move' in told
    assert files() == ["all.html", "worm.glb", "worm_soft.glb"]
    assert [clip["motion"] for clip in figures["clips"]] == ["idle", "run", "walk|slow"]
    assert not set(figures) & {"motion", "frames", "limits"}
    assert figures["shapes"] > 0
    assert figures["bytes"] == Path("worm_soft.glb").stat().st_size
    assert '<option value="1" selected>run</option>' in Path("all.html").read_text()
    assert list(supple.load("worm_soft.glb", flesh=True).motions) == ["idle", "run", "walk|slow"]
    # The model is the one that a single motion is baked with, and gives the same bits.
    main(["bake", "worm.glb", "--motion", "run", "-o", "run.npz", "--json", *SMALL])
    assert json.loads(capsys.readouterr().out)["model_kept"]
    main(["bake", "worm.glb", "--all", "-o", "each.npz", "--json", *SMALL])
    figures = json.loads(capsys.readouterr().out)
    assert figures["outputs"] == ["each_idle.npz", "each_run.npz", "each_walk_slow.npz"]
    with np.load("run.npz") as one, np.load("each_run.npz") as other:
        assert one["frames"].tobytes() == other["frames"].tobytes()


@pytest.mark.filterwarnings("ignore:.*the reduced model with:supple.errors.SuppleWarning")
def test_a_bake_ends_with_where_flesh_moves_and_what_is_hard(capsys):
    main(["bake", lively_worm(), "-o", "run.npz", "--flesh", "soft", *SMALL])
    said = " ".join(capsys.readouterr().err.split())
    main(["bake", "worm.glb", "-o", "run.npz", "--flesh", "soft", "--json", *SMALL])
    figures = json.loads(capsys.readouterr().out)
    far = (
        r"moves up to [\d.]+ [cm]m \([\d.]+ % of the size\) at [\d.]+ s: (front|tail) [\d.]+ [cm]m"
    )
    assert re.match(far, figures["flesh_moves"])
    assert re.match(r"\d+ % of the skin", figures["flesh_hard"])
    assert f"flesh {figures['flesh_moves']} hard {figures['flesh_hard']} truth " in said


@pytest.mark.filterwarnings("default::supple.errors.SuppleWarning")
def test_the_reason_is_reported_for_a_clip_in_which_nothing_moves(capsys):
    main(["bake", lively_worm(), "--all", "--report", "all.html", "--flesh", "soft", *SMALL])
    said = " ".join(capsys.readouterr().err.split())
    assert "idle: moves at most 0.0 mm (0 % of the size): the motion does not move the rig" in said
    assert re.search(r"run: moves up to [\d.]+ cm", said)
    page = Path("all.html").read_text()
    assert "<dt>flesh</dt><dd>idle: moves at most 0.0 mm" in page
    assert "<dt>hard</dt><dd>" in page


def test_bake_writes_a_video_and_refuses_a_bad_one_before_any_work(capsys):
    main(
        ["bake", worm(), "-o", "seen.npz", "--video", "seen.webp", "--video-size", "96x64", *SMALL]
    )
    assert Path("seen.webp").read_bytes()[8:12] == b"WEBP"
    assert "seen.webp" in capsys.readouterr().err
    assert "use one of .mp4, .webm" in refused(capsys, "worm.glb", "--video", "seen.avi")
    assert "even numbers" in refused(
        capsys, "worm.glb", "--video", "seen.gif", "--video-size", "97x64"
    )


def test_all_is_refused_with_options_for_one_motion(capsys):
    lively_worm()
    assert "leave it out for" in refused(capsys, "worm.glb", "--all", "--motion", "run")
    assert "--from and --to are seconds of one" in refused(capsys, "worm.glb", "--all", "--to", "1")
    Path("each_run.npz").mkdir()
    assert "each_run.npz" in refused(capsys, "worm.glb", "--all", "-o", "each.npz")


def test_final_reports_its_sub_steps_and_the_distance_of_a_known_live_bake(capsys, monkeypatch):
    monkeypatch.setenv("SUPPLE_CACHE", str(Path("cache").resolve()))
    short = ("--from", "0.1", "--to", "0.25", "--tets", "300")
    main(["bake", worm(), "-o", "unknown.npz", "--quality", "final", "--json", *short])
    said = json.loads(capsys.readouterr().out)
    assert said["quality"] == "final"
    assert said["engine"] == "full"
    assert said["converged"]
    assert said["change"] <= 0.02
    assert said["substeps"]["most"] >= 2
    assert "live_distance" not in said
    main(["bake", worm(), "-o", "live.npz", "--json", "--quality", "live", *short])
    live = json.loads(capsys.readouterr().out)
    assert live["quality"] == "live"
    assert "live_distance" not in live
    main(["bake", worm(), "-o", "final.npz", "--quality", "final", "--report", "a.html", *short])
    told = " ".join(capsys.readouterr().err.split())
    assert f"{said['substeps']['most']} steps in place of one; half as many change" in told
    with np.load("live.npz") as live, np.load("final.npz") as final, np.load("unknown.npz") as one:
        np.testing.assert_array_equal(one["frames"], final["frames"])
        assert live["frames"].shape == final["frames"].shape
        assert np.abs(live["frames"] - final["frames"]).max() > 0
    assert "% from it" in told
    main(
        ["bake", worm(), "-o", "live.npz", "--json", "--quality", "live", *short]
    )  # which knows it from now on
    known = json.loads(capsys.readouterr().out)["live_distance"]
    assert f"the reduced model is {100 * known:.0f} % from it" in told
    page = Path("a.html").read_text(encoding="utf-8")
    for figure in ("quality", "final", "substeps", "live distance"):
        assert figure in page


def test_final_is_baked_with_a_model_file_of_its_engine(capsys):
    worm()
    build = ("--tets", "300", "--modes", "8", "--poses", "2")
    main(["build", "worm.glb", "-o", "worm.supple", "--quiet", *build])
    short = ("--to", "0.1", "--json", "--quality", "final")
    main(["bake", "worm.glb", "--model", "worm.supple", "-o", "a.npz", *short])
    one = json.loads(capsys.readouterr().out)
    assert one["live_distance"] > 0
    main(["bake", "worm.supple", "-o", "b.npz", *short])
    assert json.loads(capsys.readouterr().out)["live_distance"] == one["live_distance"]
    _check_a_distance_is_never_worth_a_bake(capsys, short)


def _check_a_distance_is_never_worth_a_bake(capsys: Any, short: tuple[str, ...]) -> None:
    def fails(*args: Any) -> float:
        assert Path("c.npz").is_file()  # it is written by now
        raise MemoryError("Unable to allocate")

    with pytest.MonkeyPatch.context() as patched, warnings.catch_warnings():
        warnings.simplefilter("always")
        patched.setattr(baking, "displacement_change", fails)
        main(["bake", "worm.supple", "-o", "c.npz", *short])
    said = capsys.readouterr()
    assert "live_distance" not in json.loads(said.out)
    assert "live and final quality cannot be compared: Unable to allocate" in said.err
    with np.load("b.npz") as one, np.load("c.npz") as other:
        np.testing.assert_array_equal(one["frames"], other["frames"])


@pytest.mark.parametrize("error", [ValueError, KeyError, MemoryError])
def test_an_unreadable_cached_model_is_ignored(error, monkeypatch):
    monkeypatch.setenv("SUPPLE_CACHE", str(Path("cache").resolve()))
    source = read_character(worm())
    path = Path("there.supple")
    path.touch()
    monkeypatch.setattr(character_models, "cached_file", lambda *args: path)

    def fails(path: Path) -> None:
        raise error("damaged")

    monkeypatch.setattr(character_models, "load_model", fails)
    assert kept_model(source) is None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--engine", "rig-space"), "rig-space has no unreduced form for final quality"),
        (("--engine", "soft-skeleton"), "soft-skeleton has no unreduced form for final quality"),
        (("--modes", "8"), "simulates without model reduction; leave out modes"),
        (("--ground", "0"), "--obstacle: --quality final has no such option"),
        (
            ("--friction", "0.5"),
            "--friction: --quality final has no such option",
        ),
        (("--tracking", "8"), "--tracking: full has no such option; use --engine soft-skeleton"),
        (("--readings", "a.csv"), "--readings: full has no contacts"),
    ],
)
def test_unsupported_options_of_final_are_refused_before_any_work(arguments, said, capsys):
    assert said in refused(capsys, worm(), "--quality", "final", *arguments)


def test_an_unknown_quality_is_wrong_usage(capsys):
    assert "final" in refused(capsys, worm(), "--quality", "finale", code=2)
