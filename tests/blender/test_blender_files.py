""".blend and .fbx files through Blender: what they hold stays, and their flesh plays in Blender."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.spatial import cKDTree

import supple
from helpers.commands import run_here
from helpers.tail_file import tail_file
from supple.app import blender_setup
from supple.errors import SuppleError, SuppleWarning
from supple.formats.blender import blender_process
from supple.formats.blender.blender_process import BlenderProgram
from supple.rig.baked_motion import BakedMotion
from supple.rig.character import Character
from supple.rig.free_curves import FreeCurves
from supple.rig.motion.motion import Motion

TAKES = ("Sway", "Nod")
#: Part of the size that shapes may be from the simulation.
ERROR = 0.002
SMALL: dict[str, Any] = {"tets": 300, "modes": 6, "poses": 1}


@pytest.fixture(scope="module", autouse=True)
def here(blender_python: Path) -> Iterator[None]:
    """Have Supple use the Blender of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SUPPLE_BPY", str(blender_python.parents[1]))
        patch.delenv("SUPPLE_BLENDER", raising=False)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


@pytest.fixture(scope="module")
def files(blender: Any, folder: Path) -> dict[str, Path]:
    """A tube on three bones with two clips, as Blender itself writes it."""
    found = {}
    for suffix in (".blend", ".fbx"):
        found[suffix] = folder / f"tube{suffix}"
        blender("character_file", path=str(found[suffix]))
    return found


def baked_with(path: Path, **options: Any) -> list[BakedMotion]:
    """Rig frames of all clips with a swing on top: no simulation, but flesh that is off the rig."""
    character = supple.load(path, **options)
    rate = character.source.frame_rate
    bakes: list[BakedMotion] = []
    for motion in character.motions.values():
        times = motion.times  # a key at each frame
        blank = BakedMotion(character, motion, np.empty((len(times), 1, 3), np.float32), rate)
        place = character.surface.vertices
        way = np.stack([np.sin(2 * place[:, 1]), 0.3 * np.cos(3 * place[:, 0]), place[:, 1] / 5], 1)
        swing = 0.1 * np.sin(9 * times + len(bakes))
        frames = [blank.rig_frame(k) + s * way for k, s in enumerate(swing)]
        bakes.append(BakedMotion(character, motion, np.array(frames, np.float32), rate))
    return bakes


def take_of(name: str) -> str:
    return name.rsplit("|", 1)[-1]


def farthest(shown: Any, alone: Any, bakes: list[BakedMotion]) -> float:
    """How far what Blender shows is from baked frames, as a part of the size."""
    worst = 0.0
    for baked in bakes:
        x, y, z = np.moveaxis(baked.frames, 2, 0)
        told = np.stack([x, -z, y], axis=2)
        a, b, c = baked.rig_frame(0).T
        take = take_of(baked.motion.name)
        off, place = cKDTree(np.stack([a, -c, b], axis=1)).query(alone[take][0])
        assert off.max() < 1e-3 * baked.character.surface.size
        worst = max(worst, np.linalg.norm(shown[take] - told[:, place], axis=2).max())
    return worst / bakes[0].character.surface.size


@pytest.mark.parametrize("suffix", [".blend", ".fbx"])
def test_a_file_keeps_joints_clips_and_materials_and_its_flesh_plays(
    blender: Any, files: dict[str, Path], tmp_path: Path, suffix: str
):
    source, target = files[suffix], tmp_path / f"soft{suffix}"
    bakes = baked_with(source)
    figures = supple.save(target, bakes)
    assert figures["error"] <= ERROR
    before = blender("played", path=str(source), out=str(tmp_path / "before.npz"))
    after = blender("played", path=str(target), out=str(tmp_path / "after.npz"))
    for part in ("joints", "materials", "faces", "rate", "modifiers"):
        assert after[part] == before[part]
    assert len(after["keys"]) == 1 + figures["n_shapes"] == 1 + figures["added"]
    ours = [name for name in after["actions"] if "Supple" in name or name.startswith("Key|")]
    assert len(ours) == len(TAKES)
    assert set(after["actions"]) - set(ours) == set(before["actions"])
    alone, shown = np.load(tmp_path / "before.npz"), np.load(tmp_path / "after.npz")
    assert farthest(shown, alone, bakes) <= ERROR
    assert farthest(alone, alone, bakes) > 5 * ERROR  # the input has no flesh
    assert sorted(os.listdir(tmp_path)) == ["after.npz", "before.npz", target.name]


def test_flesh_in_a_blend_file_is_the_add_ons_and_goes_without_a_trace(
    blender: Any, files: dict[str, Path], tmp_path: Path
):
    target = tmp_path / "soft.blend"
    supple.save(target, baked_with(files[".blend"])[0])
    outs = [str(tmp_path / f"{k}.npz") for k in range(2)]
    before = blender("played", path=str(files[".blend"]), out=outs[0])
    after = blender("played", path=str(target), out=outs[1], remove=True)
    assert after == before
    one, other = map(np.load, outs)
    assert all(np.array_equal(one[take], other[take]) for take in TAKES)


def test_the_command_bakes_both_ways_at_the_scenes_frames(
    blender: Any, files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    few = ["--tets", "300", "--modes", "6", "--poses", "1"]
    done = run_here("bake", str(files[".blend"]), "--motion", "Nod", *few, "--json")
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert (figures["output"], figures["rate"], figures["frames"]) == ("tube_soft.blend", 24, 8)
    assert figures["error"] <= ERROR
    found = blender("played", path=str(tmp_path / "tube_soft.blend"), out="x.npz")
    assert len(found["keys"]) == 1 + figures["shapes"] > 1
    done = run_here("info", "tube_soft.blend", "--json")
    assert [clip["name"] for clip in json.loads(done.stdout)["clips"]] == sorted(TAKES)


def test_a_blend_file_can_be_written_as_fbx_and_as_glb(
    blender: Any, files: dict[str, Path], tmp_path: Path
):
    bakes = baked_with(files[".blend"])
    supple.save(tmp_path / "soft.fbx", bakes)
    blender("played", path=str(files[".blend"]), out=str(tmp_path / "before.npz"))
    found = blender("played", path=str(tmp_path / "soft.fbx"), out=str(tmp_path / "after.npz"))
    assert found["joints"] == ["Root", "Mid", "Tip"]
    alone, shown = np.load(tmp_path / "before.npz"), np.load(tmp_path / "after.npz")
    assert farthest(shown, alone, bakes) <= ERROR
    supple.save(tmp_path / "soft.glb", bakes)
    again = supple.load(tmp_path / "soft.glb", flesh=True)
    assert list(again.motions) == list(bakes[0].character.motions)


@pytest.mark.parametrize("suffix", [".blend", ".fbx"])
def test_a_second_bake_replaces_the_flesh(
    blender: Any, files: dict[str, Path], tmp_path: Path, suffix: str
):
    once, twice = tmp_path / f"once{suffix}", tmp_path / f"twice{suffix}"
    supple.save(once, baked_with(files[suffix]))
    again = baked_with(once)
    bare = supple.load(files[suffix])
    named = [[each.name for each in c.rig.parameters] for c in (again[0].character, bare)]
    assert named[0] == named[1]
    supple.save(twice, again)
    first = blender("played", path=str(once), out=str(tmp_path / "once.npz"))
    second = blender("played", path=str(twice), out=str(tmp_path / "twice.npz"))
    assert second == first
    one, other = np.load(tmp_path / "once.npz"), np.load(tmp_path / "twice.npz")
    assert all(np.allclose(one[take], other[take], atol=1e-4) for take in one)


def test_takes_keep_names_that_are_too_long_for_blenders_actions(blender: Any, tmp_path: Path):
    source, target = tmp_path / "long.fbx", tmp_path / "soft.fbx"
    blender("character_file", path=str(source), kind="long_names")
    bakes = baked_with(source)
    takes = [f"{'Rig' * 10}|{take}" for take in sorted(TAKES)]
    assert [each.motion.name for each in bakes] == takes
    supple.save(target, bakes)
    assert sorted(supple.load(target).motions) == takes


def test_own_shape_keys_stay_and_flesh_comes_behind_them(blender: Any, tmp_path: Path):
    source, target = tmp_path / "fat.fbx", tmp_path / "soft.fbx"
    blender("character_file", path=str(source), kind="own_keys")
    bakes = baked_with(source)
    supple.save(target, bakes)
    blender("played", path=str(source), out=str(tmp_path / "before.npz"))
    after = blender("played", path=str(target), out=str(tmp_path / "after.npz"))
    assert after["keys"][:2] == ["Basis", "Fat"]
    alone, shown = np.load(tmp_path / "before.npz"), np.load(tmp_path / "after.npz")
    assert farthest(shown, alone, bakes) <= ERROR


def test_meshes_of_modifiers_get_a_cache_beside_a_blend_file_and_no_fbx(
    blender: Any, tmp_path: Path
):
    source, target = tmp_path / "fine.blend", tmp_path / "soft.blend"
    blender("character_file", path=str(source), kind="subdivided")
    bakes = baked_with(source)
    figures = supple.save(target, bakes[:1])
    assert figures["added"] == 1
    (cache,) = (tmp_path / "soft_supple").iterdir()
    found = blender("played", path=str(target), out=str(tmp_path / "x.npz"))
    assert "MESH_CACHE" in found["modifiers"]
    supple.save(tmp_path / "again.blend", baked_with(target)[:1])  # replaces flesh, in a copy
    assert cache.is_file()
    with pytest.raises(SuppleError, match="needs a point cache"):
        supple.save(tmp_path / "soft.fbx", bakes[:1])
    assert not list(tmp_path.glob("*.fbx"))
    assert not list(tmp_path.glob(".*"))


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_a_second_bake_that_fails_leaves_the_file_and_its_caches_as_they_were(
    blender: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    source, target = tmp_path / "fine.blend", tmp_path / "soft.blend"
    blender("character_file", path=str(source), kind="subdivided")
    bakes = baked_with(source)
    supple.save(target, bakes[:1])
    before = contents(tmp_path)
    other = BakedMotion(bakes[0].character, bakes[0].motion, bakes[0].frames * 1.01, bakes[0].rate)
    replace = os.replace

    def full(old: Any, new: Any) -> None:
        if new == target:
            raise OSError(28, "No space left on device")
        replace(old, new)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(SuppleError, match=r"soft.blend: cannot be written \(no space left"):
            supple.save(target, other)
    assert contents(tmp_path) == before
    supple.save(target, other)
    after = contents(tmp_path)
    assert after.keys() == before.keys()
    assert [name for name in after if after[name] == before[name]] == [str(source)]
    supple.save(target, baked_with(target)[1:2])  # another clip, in the file itself
    caches = contents(tmp_path / "soft_supple")
    assert len(caches) == 2
    assert all(after.get(name, data) == data for name, data in caches.items())
    assert not list(tmp_path.glob(".*"))


def test_an_fbx_leaves_the_caches_of_the_blend_file_alone(blender: Any, tmp_path: Path):
    source, soft = tmp_path / "shared.blend", tmp_path / "soft.blend"
    blender("character_file", path=str(source), kind="shared")
    supple.save(soft, baked_with(source))
    before = contents(tmp_path / "soft_supple")
    assert len(before) == 2
    supple.save(tmp_path / "soft.fbx", baked_with(soft))
    assert contents(tmp_path / "soft_supple") == before


@pytest.mark.parametrize("suffix", [".blend", ".fbx"])
def test_no_record_in_a_file_has_another_file_removed(blender: Any, tmp_path: Path, suffix: str):
    source, elsewhere = tmp_path / f"trap{suffix}", tmp_path / "elsewhere" / "supple"
    elsewhere.mkdir(parents=True)
    victims = [tmp_path / "victim", elsewhere / "x Supple Sway.pc2", tmp_path / "supple" / "x.txt"]
    victims[-1].parent.mkdir()
    for victim in victims:
        victim.write_text("precious")
    said: dict[str, Any] = {str(victim): {"file": str(victim)} for victim in victims}
    for take, victim in zip(TAKES, victims, strict=False):
        said[take] = {"modifier": "Supple Sway", "file": str(victim)}
    unsound: dict[str, Any] = {
        "a": [1],
        "b": {"keys": [[]]},
        "c": None,
        "d": {"modifier": "Armature"},
    }
    record = {"clips": unsound | said}
    blender("character_file", path=str(source), record=record)
    bakes = baked_with(source)
    for wanted in (".blend", ".fbx"):
        supple.save(tmp_path / f"soft{wanted}", bakes)
    out = str(tmp_path / "x.npz")
    if suffix == ".blend":
        blender("played", path=str(source), out=out, remove=True)  # by the add-on
    assert all(victim.read_text() == "precious" for victim in victims)


def test_other_objects_keep_their_modifiers_and_motions_in_an_fbx(blender: Any, tmp_path: Path):
    source, target = tmp_path / "scene.blend", tmp_path / "soft.fbx"
    blender("character_file", path=str(source), kind="scene")
    bakes = baked_with(source)
    with pytest.warns(SuppleWarning, match='soft.fbx: modifiers of "Tube" are missing, as an .fbx'):
        supple.save(target, bakes)
    found = blender("others", path=str(target))
    assert found["vertices"] == 9
    assert found["ends"] == {take: {"Prop": 8, "Waver": 8} for take in TAKES}
    assert sorted(map(take_of, supple.load(target).motions)) == sorted(TAKES)


def test_one_of_several_characters_is_chosen_by_its_armature(blender: Any, tmp_path: Path):
    source = tmp_path / "two.blend"
    blender("character_file", path=str(source), kind="two")
    with pytest.raises(SuppleError, match="has 2 characters; choose with --armature"):
        supple.load(source)
    with pytest.raises(SuppleError, match='has no armature "Nobody" that moves a visible mesh'):
        supple.load(source, armature="Nobody")
    done = run_here("info", str(source), "--armature", "OtherRig", "--json")
    assert [mesh["name"] for mesh in json.loads(done.stdout)["meshes"]] == ["Other"]
    done = run_here("bake", "gorilla", "--armature", "OtherRig")
    assert done.stderr == "supple: gorilla: is not a .blend or .fbx file; leave out --armature\n"


def test_without_an_action_there_is_nothing_to_play_flesh_in(blender: Any, tmp_path: Path):
    source = tmp_path / "still.blend"
    blender("character_file", path=str(source), kind="still")
    done = run_here("bake", str(source), "-o", str(tmp_path / "soft.blend"))
    assert "has no action to add the flesh to; add one, or save as .glb" in done.stderr
    assert not supple.load(source).motions


def test_a_file_without_a_rig_is_refused(blender: Any, tmp_path: Path):
    blender("character_file", path=str(tmp_path / "bare.blend"), kind="no rig")
    with pytest.raises(SuppleError, match="has no armature that moves a visible mesh"):
        supple.load(tmp_path / "bare.blend")


def test_motions_and_characters_from_elsewhere_go_elsewhere(files: dict[str, Path], tmp_path: Path):
    bakes = baked_with(files[".blend"])
    other = type(bakes[0].motion)(
        bakes[0].times, bakes[0].motion.poses, bakes[0].motion.roots, "Jump"
    )
    jump = BakedMotion(bakes[0].character, other, bakes[0].frames, 24)
    with pytest.raises(SuppleError, match='has no clip "Jump"; save as'):
        supple.save(tmp_path / "soft.blend", jump)
    done = run_here("bake", str(files[".blend"]), "--motion", "wiggle", "-o", f"{tmp_path}/x.fbx")
    assert 'has no clip "wiggle"; save as .glb' in done.stderr
    assert not list(tmp_path.iterdir())
    tail = tail_file(tmp_path / "tail.glb", seconds=0.5)
    done = run_here("bake", str(tail), "-o", str(tmp_path / "tail.blend"))
    assert "only characters from .blend and .fbx can be saved there; use .glb" in done.stderr


def test_a_file_that_has_changed_gets_no_flesh(files: dict[str, Path], tmp_path: Path):
    source = tmp_path / "tube.blend"
    source.write_bytes(files[".blend"].read_bytes())
    bakes = baked_with(source)
    source.write_bytes(source.read_bytes() + b"\0")
    with pytest.raises(SuppleError, match="has changed since it was loaded"):
        supple.save(tmp_path / "soft.blend", bakes)
    assert [file.name for file in tmp_path.iterdir()] == ["tube.blend"]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("cut.blend", "half", ""),
        ("cut.fbx", "half", ""),
        ("text.blend", b"not a blend", "is not a .blend file"),
        ("empty.blend", b"", "is empty"),
        ("text.fbx", b"; FBX 7.4.0 project file\nFBXHeaderExtension:  {\n}\n", "is a text FBX"),
        ("noise.fbx", bytes(range(256)) * 8, "is not an FBX file"),
        ("head.blend", b"BLENDER-v402" + bytes(64), ""),
        ("missing.blend", None, "there is no such file"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_damaged_files_are_one_line(
    files: dict[str, Path], tmp_path: Path, name: str, content: Any, said: str
):
    path = tmp_path / name
    if content == "half":
        whole = files[path.suffix].read_bytes()
        content = whole[: len(whole) // 2]
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SuppleError) as caught:
        supple.load(path)
    assert str(caught.value).startswith(f"{name}: ")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_nothing_in_a_blend_file_is_executed(blender: Any, tmp_path: Path):
    source, trap = tmp_path / "trap.blend", tmp_path / "trapped"
    blender("trapped_file", path=str(source), trap=str(trap))
    trap.unlink(missing_ok=True)
    supple.save(tmp_path / "soft.blend", baked_with(source))
    assert not trap.exists()
    blender("trusted", path=str(source))
    assert trap.exists()  # whoever trusts it walks into the trap


def stand_in(path: Path, does: str) -> Path:
    path.write_text(f"#!/bin/sh\n{does}\n")
    path.chmod(0o755)
    return path


def test_blender_runs_without_user_settings_and_scripts(
    blender_python: Path, files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    words = tmp_path / "words"
    last = f'echo "$@" > "{words}"; for last; do :; done; exec "{blender_python}" -c "$last"'
    monkeypatch.setenv("SUPPLE_BLENDER", str(stand_in(tmp_path / "blender", last)))
    assert list(supple.load(files[".blend"]).motions) == sorted(TAKES)
    told = words.read_text()
    assert all(word in told for word in ("--background", "--factory-startup", "--disable-autoexec"))


def test_a_silent_blender_process_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(blender_process, "SILENCE_LIMIT", 3.0)
    program = stand_in(tmp_path / "blender", f'echo $$ > "{tmp_path}/pid"; sleep 60')
    with pytest.raises(SuppleError, match="Blender gave no output for"):
        ask(program)
    assert gone(int((tmp_path / "pid").read_text()))


def test_a_blender_that_fails_is_one_line(tmp_path: Path):
    crash = stand_in(tmp_path / "crash", "kill -SEGV $$")
    with pytest.raises(SuppleError, match=r"x.blend: is damaged or too large: .* \(SIGSEGV\)"):
        ask(crash)
    wrong = stand_in(tmp_path / "wrong", "echo no such library >&2; exit 5")
    with pytest.raises(SuppleError, match=r"Blender ended early \(no such library\)"):
        ask(wrong)
    with pytest.raises(SuppleError, match="Blender cannot be started"):
        ask(tmp_path / "nowhere")


def ask(program: Path) -> Any:
    blender = BlenderProgram(program, False, "the test")
    return blender_process.ask_blender(blender, "x.blend", {"action": "version"})


def gone(pid: int) -> bool:
    for _ in range(100):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def test_blender_ends_with_the_command(blender_python: Path, tmp_path: Path):
    """Also where nobody can clean up: the process that waits for it is killed."""
    code = (
        "from pathlib import Path\n"
        "from supple.formats.blender import blender_process\n"
        f"python = Path({str(blender_python)!r})\n"
        f"blender_process.SCRIPT = {HANGING.format(pid=str(tmp_path / 'pid'))!r}\n"
        "program = blender_process.BlenderProgram(python, True, '')\n"
        "blender_process.ask_blender(program, 'x.blend', {'action': 'version'})\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code])
    pid = tmp_path / "pid"
    while not (pid.exists() and pid.read_text()):
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert gone(int(pid.read_text()))


HANGING = (
    "import sys, os, time; sys.path.insert(0, {{folder!r}}); from supple_addon import files; "
    "files.ACTIONS['version'] = lambda told, progress: "
    "(open({pid!r}, 'w').write(str(os.getpid())), time.sleep(60)); files.main({{request!r}})"
)


def test_without_blender_the_error_names_what_to_install(
    files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("SUPPLE_BPY")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    done = run_here("info", str(files[".fbx"]))
    assert done.returncode == 1
    assert "which was not found; install it from blender.org, or run supple blender" in done.stderr
    assert run_here("blender").stdout.startswith("no Blender: install it")
    monkeypatch.setenv("SUPPLE_BLENDER", str(tmp_path / "nowhere"))
    assert "SUPPLE_BLENDER is" in run_here("blender").stderr
    monkeypatch.delenv("SUPPLE_BLENDER")
    monkeypatch.setenv("SUPPLE_BPY", str(tmp_path))
    assert "which is not an environment" in run_here("blender").stderr


#: A Python that makes environments with nothing in them but itself.
MAKES_ENVIRONMENTS = """
case "$3" in
  venv) mkdir -p "$4/bin" && cp "$0" "$4/bin/python" ;;
  pip) [ -z "$OFFLINE" ] || { echo "ERROR: No matching distribution found" >&2; exit 1; } ;;
esac
"""


def test_an_environment_is_made_on_request_found_and_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    python = str(stand_in(tmp_path / "python", MAKES_ENVIRONMENTS))
    monkeypatch.setattr(sys, "executable", python)
    monkeypatch.setattr(blender_setup, "PYTHON", sys.version_info[:2])
    monkeypatch.setattr(blender_setup, "ask_blender", lambda *_: {"version": "4.2"})
    monkeypatch.delenv("SUPPLE_BPY")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("OFFLINE", "yes")
    done = run_here("blender", "--install")
    assert "Blender cannot be installed (ERROR: No matching distribution found" in done.stderr
    folder = tmp_path / "data/supple/blender"
    assert not folder.exists()
    monkeypatch.delenv("OFFLINE")
    done = run_here("blender", "--install")
    assert done.returncode == 0, done.stderr
    assert f"Blender 4.2: {folder}/bin/python (supple blender --install)" in done.stdout
    assert "already exists" in run_here("blender", "--install").stderr
    assert run_here("blender", "--remove").returncode == 0
    assert not folder.exists()
    assert "nothing to remove" in run_here("blender", "--remove").stderr
    monkeypatch.setattr(blender_setup, "PYTHON", (9, 9))
    assert "needs python9.9, which is missing" in run_here("blender", "--install").stderr


def test_a_simulated_character_is_shown_where_it_was_simulated(
    blender: Any, files: dict[str, Path], tmp_path: Path
):
    character: Character = supple.load(files[".fbx"])
    bakes = supple.bake_all(character, rate=24, **SMALL)
    supple.save(tmp_path / "soft.fbx", bakes)
    blender("played", path=str(files[".fbx"]), out=str(tmp_path / "before.npz"))
    blender("played", path=str(tmp_path / "soft.fbx"), out=str(tmp_path / "after.npz"))
    alone, shown = np.load(tmp_path / "before.npz"), np.load(tmp_path / "after.npz")
    assert farthest(shown, alone, bakes) <= ERROR


def curves_of(path: Path, take: str) -> FreeCurves:
    """Return curves of two joints and, if there is one, a shape: no simulation, but smooth motion
    over the keys of a take.
    """
    character = supple.load(path, curves=False)
    name = next(each for each in character.motions if take_of(each) == take)
    motion = character.motions[name]
    names = [each.name for each in character.rig.parameters]
    free = [each for each in names if each.split(".")[-2:-1] in (["Mid"], ["Tip"])]
    free = [each for each in free if each[-3:] in (".rx", ".rz")]
    free += [each for each in names if each.endswith("Fat")]

    def over(clip: Motion, **options: Any) -> FreeCurves:
        poses = clip.poses.copy()
        for k, each in enumerate(free):
            since = clip.times - clip.times[0]
            poses[:, names.index(each)] += 0.2 * np.sin(0.4 * k + 9 * since)
        return FreeCurves(character, free, clip, poses, **options)

    count = 4 * (len(motion.times) - 1) + 1
    times = np.interp(np.arange(count) / 4, np.arange(len(motion.times)), motion.times)
    fine = over(Motion(times, *motion.at(times), name), stride=4)
    return over(motion, fine=fine)


@pytest.mark.parametrize("suffix", [".blend", ".fbx"])
@pytest.mark.parametrize("kind", ["plain", "own_keys"])
def test_curves_play_in_blender_over_the_clip_they_were_made_for(
    blender: Any, tmp_path: Path, suffix: str, kind: str
):
    source, target = tmp_path / f"bare{suffix}", tmp_path / f"curves{suffix}"
    blender("character_file", path=str(source), kind=kind)
    curves = curves_of(source, "Nod")
    assert len(curves.free) == 4 + (kind == "own_keys")
    figures = supple.save(target, curves)
    assert figures["keys"] == "spline"
    again = supple.load(target)
    played = again.motions[curves.name]
    for k in range(curves.n_frames):
        skin = again.rig(played.poses[k]) @ played.roots[k, :3, :3].T + played.roots[k, :3, 3]
        assert np.abs(skin - curves.skin(k)).max() < 0.005 * curves.character.surface.size
    bare = supple.load(source)
    other = next(name for name in again.motions if take_of(name) == "Sway")
    poses = again.motions[other].poses  # the other take is unchanged
    if (suffix, kind) == (".blend", "own_keys"):  # but a layer of a shape key lies over all actions
        poses = poses[:0]
    for k, pose in enumerate(poses):
        before = bare.rig(bare.motions[other].poses[k])
        assert np.abs(again.rig(pose) - before).max() < 0.005 * curves.character.surface.size
    if suffix == ".blend":
        back = tmp_path / "back.blend"
        supple.formats.remove_curves(back, target)
        restored, clip = supple.load(back), bare.motions[curves.name]
        np.testing.assert_allclose(restored.motions[curves.name].poses, clip.poses, atol=1e-5)
        data = back.read_bytes()
        with pytest.raises(SuppleError, match="has no curves of Supple"):
            supple.formats.remove_curves(back, back)
        assert back.read_bytes() == data
    else:
        with pytest.raises(SuppleError, match="ordinary keys"):
            supple.formats.remove_curves(tmp_path / "back.fbx", target)


def test_the_command_adds_curves_to_a_blend_file(blender: Any, tmp_path: Path):
    source = tmp_path / "tube.blend"
    blender("character_file", path=str(source))
    words = ["--free", "Tip", "--tets", "300", "--modes", "4", "--motion", "Sway", "--json"]
    target = tmp_path / "soft.blend"
    figures = json.loads(run_here("curves", str(source), "-o", str(target), *words).stdout)
    assert figures["added"] == 3
    assert target.is_file()
