"""`supple export`: exported models step without Python as they do with it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import supple
from helpers.build_samples import bar_options, bending_bar
from helpers.live_runtime import Library, LiveBody
from helpers.rat_sample import write_rat
from supple.app import exporting
from supple.cli.main import main
from supple.errors import SuppleError, SuppleWarning
from supple.scenes import scene

linker = pytest.mark.skipif(find_spec("ziglang") is None, reason="ziglang is not installed")
node = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
#: Largest distance from Python's skin, as a fraction of the size.
NEAR = 1e-6
NAMES = ("x", "gorilla", "rat")
FORCES = {5: [0.0, 0.0, 2.0], 17: [1.0, 0.0, 0.0]}


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> dict[str, Path]:
    """Small models: a bent letter, blocks of skinned vertices with corrections, and a glTF file."""
    folder = tmp_path_factory.mktemp("models")
    small = {"tets": 1200, "modes": 10}
    built = {}
    for name in NAMES:
        if name == "rat":
            character, recipe = supple.load(write_rat(folder / "rat.glb")), {}
        else:
            character, recipe = scene(name).character, scene(name).recipe()
        built[name] = folder / f"{name}.supple"
        with warnings.catch_warnings():  # few tets do not reach all of the surface
            warnings.simplefilter("ignore", SuppleWarning)
            supple.build(character, **(recipe | small)).save(built[name])
    return built


@pytest.fixture(scope="module")
def exported(models, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("linux")
    main(["export", *map(str, models.values()), "-o", str(folder), "--quiet"])
    return folder


@pytest.fixture(scope="module")
def library(exported) -> Library:
    return Library(exported / "libsupple_runtime.so")


def clip(model) -> list[np.ndarray]:
    """101 poses that swing from the neutral pose to the last one and back."""
    first, last = model.pose_weights.poses[[0, -1]]
    parts = 0.5 - 0.5 * np.cos(0.15 * np.arange(101))
    return [np.ascontiguousarray((1 - part) * first + part * last) for part in parts]


def frames_of(body, poses) -> np.ndarray:
    """Skin of 100 steps with pushes, and with a reset."""
    body.reset(poses[0])
    frames = []
    for k in range(1, 101):
        body.step(poses[k], forces=FORCES if 30 <= k < 40 else None)
        if k == 60:
            body.reset(poses[k])
        frames.append(body.surface())
    return np.array(frames)


@cache
def python_frames(path: Path) -> np.ndarray:
    model = supple.load_model(path)
    return frames_of(supple.Simulator(model), clip(model))


def assert_near(frames: np.ndarray, path: Path) -> None:
    model = supple.load_model(path)
    farthest = np.abs(frames - python_frames(path)).max() / model.surface.size
    assert farthest < NEAR
    still = supple.Simulator(model)
    still.reset(clip(model)[60])
    moved = np.abs(python_frames(path)[60:] - still.surface()).max() / model.surface.size
    assert moved > 1e-3


@linker
@pytest.mark.parametrize("name", NAMES)
def test_a_library_without_python_takes_the_same_steps_and_the_same_bits_again(
    models, exported, library, name
):
    data, poses = (exported / f"{name}.live").read_bytes(), clip(supple.load_model(models[name]))
    body = LiveBody(library, data)
    frames = frames_of(body, poses)
    assert_near(frames, models[name])
    other = LiveBody(library, data, body)
    np.testing.assert_array_equal(frames_of(other, poses), frames)
    assert bytes(body.bytes) == data  # instances share it and never write to it
    # A copy continues with the same bits.
    body.reset(poses[0])
    for k in range(1, 20):
        body.step(poses[k])
    other.copy(body)
    for k in range(20, 30):
        assert body.step(poses[k]) == other.step(poses[k])
    np.testing.assert_array_equal(body.surface(), other.surface())
    assert body.time == pytest.approx(29 / 90)


@linker
def test_threads_step_instances_of_one_model_to_the_same_bits(models, exported, library):
    data, poses = (exported / "rat.live").read_bytes(), clip(supple.load_model(models["rat"]))
    first = LiveBody(library, data)
    bodies = [first, *(LiveBody(library, data, first) for _ in range(3))]
    with ThreadPoolExecutor(4) as pool:
        frames = list(pool.map(lambda body: frames_of(body, poses), bodies))
    for each in frames[1:]:
        np.testing.assert_array_equal(each, frames[0])


@linker
def test_refused_inputs_have_a_message_and_leave_the_flesh_as_it_is(models, exported, library):
    data, poses = (exported / "rat.live").read_bytes(), clip(supple.load_model(models["rat"]))
    body, undisturbed = LiveBody(library, data), LiveBody(library, data)
    with pytest.raises(ValueError, match="8: "):  # not reset
        body.step(poses[0])
    for each in (body, undisturbed):
        each.reset(poses[0])
        each.step(poses[9])
    for pose, root, words in (
        (np.full_like(poses[0], np.nan), None, "9: pose: an entry is not finite"),
        (poses[3], 2.0 * np.eye(4), "9: root is not a rigid transform"),
    ):
        with pytest.raises(ValueError, match=words):
            body.step(pose, root)
    with pytest.raises(ValueError, match="10: "):
        body.step(poses[3], forces={10**6: [0, 0, 1.0]})
    with pytest.raises(ValueError, match="9: "):
        body.step(poses[3], forces={0: [0, 0, np.inf]})
    assert library.set_stiffness(body.at, 0.0) == 9
    for each in (body, undisturbed):
        each.step()  # at the last pose that was taken
        each.step(poses[12])
    np.testing.assert_array_equal(body.surface(), undisturbed.surface())


@linker
def test_stiffness_is_the_simulators(models, exported, library):
    model = supple.load_model(models["rat"])
    body = LiveBody(library, (exported / "rat.live").read_bytes())
    simulator, poses = supple.Simulator(model), clip(model)
    for each in (body, simulator):
        each.reset(poses[0])
    assert library.set_stiffness(body.at, 4.0) == 0
    simulator.stiffness = 4.0
    for k in range(1, 30):
        body.step(poses[k])
        simulator.step(poses[k])
    difference = np.abs(body.surface() - simulator.surface()).max()
    assert difference < NEAR * model.surface.size


@linker
def test_damaged_files_are_refused(exported, library):
    data = (exported / "rat.live").read_bytes()
    rng = np.random.default_rng(3)
    assert library.status(data) == 0
    for _ in range(300):
        damaged = bytearray(data)
        for at in rng.integers(0, len(data), rng.integers(1, 4)):
            damaged[at] ^= 1 << int(rng.integers(8))
        assert bytes(damaged) == data or library.status(bytes(damaged)) != 0
    for size in [0, 1, 55, 56, 300, *rng.integers(0, len(data), 20)]:
        assert library.status(data[:size]) != 0
    assert library.status(data + b"\0") == 1
    assert library.status(b"\0" * 4096) == 1


@linker
def test_files_with_wrong_tables_and_a_right_checksum_are_read_or_refused(exported, tmp_path):
    """In a process of its own, which would not survive a read beyond the file."""
    program = tmp_path / "mutate.py"
    program.write_text(_MUTATE)
    arguments = [str(exported / "libsupple_runtime.so"), str(exported / "rat.live")]
    path = os.pathsep.join([str(Path(__file__).resolve().parents[1]), *sys.path])
    done = subprocess.run(
        [sys.executable, str(program), *arguments],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    statuses = json.loads(done.stdout)
    assert sum(statuses.values()) == 2000
    assert statuses["5"] > 500


_MUTATE = """
import collections, hashlib, json, struct, sys
from pathlib import Path
import numpy as np
from helpers.live_runtime import Library

library, data = Library(Path(sys.argv[1])), Path(sys.argv[2]).read_bytes()
shared = struct.unpack_from("<Q", data, 56)[0]
rng, found = np.random.default_rng(0), collections.Counter()
for _ in range(2000):
    changed = bytearray(data)
    at = 56 + 8 * int(rng.integers((min(shared, 4000 if rng.random() < 0.8 else shared) - 56) // 8))
    values = [0, 1, 2**63, 2**64 - 1, 2**40, 7, len(data), int(rng.integers(2**62))]
    value = values[int(rng.integers(len(values)))]
    struct.pack_into("<Q", changed, at, value)
    changed[24:56] = hashlib.blake2b(bytes(changed[56:]), digest_size=32).digest()
    status = library.status(bytes(changed))
    found[status] += 1
    if status == 0:  # steps run compiled code, whose arguments are not checked
        library.poked(bytes(changed))
print(json.dumps(found))
"""


@linker
def test_the_example_in_c_compiles_and_runs(exported, tmp_path):
    program = tmp_path / "example"
    command = [sys.executable, "-m", "ziglang", "cc", "-std=c11", "-Wall", "-Wextra", "-Werror"]
    command += ["-o", str(program), str(exported / "example.c"), f"-I{exported}"]
    subprocess.run([*command, f"-L{exported}", "-lsupple_runtime", "-lm"], check=True)
    environment = os.environ | {"LD_LIBRARY_PATH": str(exported)}
    run = [str(program), str(exported / "rat.live")]
    done = subprocess.run(run, env=environment, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert lines[0].startswith("rat: ")
    assert len(lines) == 13
    assert all(" s: flesh moves by up to 0.0" in line for line in lines[1:])
    wrong = subprocess.run([run[0], str(program)], env=environment, capture_output=True, text=True)
    assert wrong.returncode == 1
    assert "not a .live file" in wrong.stderr


@linker
@node
def test_the_module_for_pages_takes_the_same_steps(models, tmp_path):
    folder = tmp_path / "page"
    main(["export", *map(str, models.values()), "-o", str(folder), "--target", "web", "-q"])
    (tmp_path / "steps.mjs").write_text(_STEPS)
    for name in NAMES:
        poses = clip(supple.load_model(models[name]))
        np.array(poses).tofile(tmp_path / "poses")
        command = ["node", "steps.mjs", str(folder), name]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        assert told["name"] == supple.load_model(models[name]).name
        assert told["errors"] == ["pose: an entry is not finite or too large", 4, 9]
        first, again = np.fromfile(tmp_path / "frames", np.float32).reshape(2, 100, -1, 3)
        np.testing.assert_array_equal(first, again)
        assert_near(first, models[name])


_STEPS = """
import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
const [folder, name] = process.argv.slice(2);
const { Runtime } = await import(pathToFileURL(`${folder}/supple.js`));
const runtime = await Runtime.load();
const file = new Uint8Array(readFileSync(`${folder}/${name}.web.live`));
const model = await runtime.open(file);
const poses = new Float64Array(new Uint8Array(readFileSync("poses")).buffer);
const pose = (k) => poses.subarray(k * model.poseSize, (k + 1) * model.poseSize);
const frames = [];
for (let run = 0; run < 2; run++) {
  const body = model.make();
  body.reset(pose(0));
  for (let k = 1; k <= 100; k++) {
    if (30 <= k && k < 40) {
      body.poke(5, [0, 0, 2]);
      body.poke(17, [1, 0, 0]);
    }
    body.step(pose(k));
    if (k === 60) body.reset(pose(k));
    frames.push(Buffer.from(body.surface().slice().buffer));
  }
  body.free();
}
writeFileSync("frames", Buffer.concat(frames));
const errors = [];
try {
  model.make().step(pose(0).map(() => NaN));
} catch (error) {
  errors.push(error.message);
}
const damaged = file.slice();
damaged[damaged.length - 1] ^= 1;
try {
  await runtime.open(damaged);
} catch (error) {
  errors.push(error.status);
}
try {
  model.make().step([1, 2]);
} catch (error) {
  errors.push(error.status);
}
console.log(JSON.stringify({ name: model.name, errors }));
"""


def test_targets_and_models_are_checked_first(tmp_path, models, monkeypatch, capsys):
    (tmp_path / "rat.supple").write_bytes(models["rat"].read_bytes())
    rat = models["rat"]
    for given, words in (
        ([], "give one or more .supple files"),
        ([rat, tmp_path / "rat.supple"], "two models are named rat"),
        ([tmp_path / "none.supple"], "none.supple"),
    ):
        with pytest.raises(SuppleError, match=words):
            exporting.run_export(given, tmp_path / "out", quiet=True)
    monkeypatch.setattr(exporting, "find_spec", lambda name: None)
    with pytest.raises(SuppleError, match="or use --target c"):
        exporting.run_export([rat], tmp_path / "out", quiet=True)
    assert not (tmp_path / "out").exists()


def test_a_model_of_another_engine_is_refused(tmp_path):
    options = {name: bar_options()[name] for name in ("tets", "bones", "material")}
    model = supple.build(bending_bar(), engine="full", **options)
    model.save(tmp_path / "bar.supple")
    with pytest.raises(SuppleError, match="steps of the engine full run in Python"):
        exporting.run_export([tmp_path / "bar.supple"], tmp_path / "out", "c", quiet=True)


@linker
def test_an_object_file_comes_with_the_source(models, exported, tmp_path):
    main(["export", *map(str, models.values()), "-o", str(tmp_path), "--target", "c", "-q"])
    assert (tmp_path / "supple_runtime.c").is_file()
    assert (tmp_path / "supple_kernels.o").read_bytes()[:4] == b"\x7fELF"
    assert (tmp_path / "rat.live").read_bytes() == (exported / "rat.live").read_bytes()
    digest = hashlib.blake2b((tmp_path / "rat.live").read_bytes()[56:], digest_size=32).digest()
    header = struct.unpack_from("<8sIIQ", (tmp_path / "rat.live").read_bytes())
    assert header[:3] == (b"supplive", 1, 8)
    assert digest == (tmp_path / "rat.live").read_bytes()[24:56]


def page_blocks(language: str) -> list[str]:
    text = (Path(__file__).resolve().parents[2] / "docs/live.md").read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)


@pytest.fixture
def page_folder(models, tmp_path) -> Path:
    """A folder with what the page's commands write."""
    (tmp_path / "rat.supple").write_bytes(models["rat"].read_bytes())
    listed = [str(models[name]) for name in NAMES if name != "rat"] + [str(tmp_path / "rat.supple")]
    for target in ("linux-x86_64", "web"):  # of all models, whose runtime is compiled already
        main(["export", *listed, "-o", str(tmp_path / "live"), "--target", target, "-q"])
    return tmp_path


@linker
@node
def test_the_programs_of_the_page_run_and_agree(page_folder):
    (in_c,), (in_js,) = page_blocks("c"), page_blocks("js")
    (page_folder / "rat.c").write_text(in_c)
    (page_folder / "rat.mjs").write_text(in_js)
    command = [sys.executable, "-m", "ziglang", "cc", "-std=c11", "-Wall", "-o", "rat", "rat.c"]
    options = ["-Ilive", "-Llive", "-lsupple_runtime"]
    subprocess.run([*command, *options], cwd=page_folder, check=True)
    environment = os.environ | {"LD_LIBRARY_PATH": str(page_folder / "live")}
    told = [
        subprocess.run(
            words, cwd=page_folder, env=environment, capture_output=True, text=True, check=True
        ).stdout
        for words in (["./rat"], ["node", "rat.mjs"])
    ]
    assert re.fullmatch(r"rat after 1.0 s: vertex 100 is at y = -?0\.\d{3} m\n", told[0])
    assert told[1] == told[0]
