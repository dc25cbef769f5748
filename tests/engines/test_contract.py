"""Every row of the list of engines keeps the contract: build, step, save, load."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supple
from helpers.build_samples import bar_options, bending_bar, flesh_options
from helpers.rig_space_samples import rig_space_options, rising_bar
from helpers.soft_skeleton_samples import elbow, soft_skeleton_options
from supple.engines.engine import (
    ENGINES,
    BodyEngine,
    CharacterEngine,
    Engine,
    engine_named,
    engine_of,
)
from supple.errors import FormatError, SuppleError
from supple.mesh.obstacles import Plane
from supple.scenes.bodies.beam import beam
from supple.tensors import packed_tensors, unpacked_tensors

CELLS = (5, 2, 2)
BAR = beam(cells=CELLS)
#: A small sample of each engine: what is built, and options of the builder.
SAMPLES: dict[str, Callable[[], tuple[Any, dict[str, Any]]]] = {
    "pose-space": lambda: (bending_bar(cells=CELLS), bar_options(CELLS, modes=4)),
    "full": lambda: (bending_bar(cells=CELLS), flesh_options(CELLS)),
    "rig-space": lambda: (rising_bar(CELLS), rig_space_options(CELLS)),
    "soft-skeleton": lambda: (elbow(), soft_skeleton_options()),
    "stvk": lambda: (BAR, {"modes": 4, "fixed": BAR.vertices[:, 0] == 0}),
    "stvk-free": lambda: (BAR, {"modes": 4}),
}
CHARACTERS = [name for name, row in ENGINES.items() if row.moves == "character"]
BODIES = [name for name, row in ENGINES.items() if row.moves == "body"]
BENT = [0.3]


@cache
def built(name: str) -> Any:
    given, options = SAMPLES[name]()
    return supple.build(given, engine=name, **options)


def stepped(name: str, **options: Any) -> Any:
    return ENGINES[name].simulate(built(name), **options)


def placed(angle: float, x: float) -> np.ndarray:
    root = np.eye(4)
    root[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    root[0, 3] = x
    return root


def test_every_engine_has_a_sample_here():
    assert list(SAMPLES) == list(ENGINES)
    assert all(name == row.name for name, row in ENGINES.items())


@pytest.mark.parametrize("name", ENGINES)
def test_a_simulator_keeps_the_protocol(name):
    row, simulator = ENGINES[name], stepped(name, dt=1 / 200)
    assert isinstance(simulator, CharacterEngine if row.moves == "character" else BodyEngine)
    assert type(simulator) is row.simulate
    assert isinstance(simulator.model, row.model_class)
    assert simulator.model is built(name)
    assert simulator.dt == 1 / 200
    assert row.step_options
    assert "dt" not in row.step_options


@pytest.mark.parametrize("name", ENGINES)
def test_steps_move_the_surface_and_a_reset_brings_it_back(name):
    simulator = stepped(name)
    skin = simulator.model.surface.vertices
    simulator.reset()
    first = simulator.surface()
    assert first.shape == skin.shape
    assert first.dtype == np.float32
    np.testing.assert_allclose(first, skin, atol=1e-5)
    tip = int(skin[:, 0].argmax())
    for count in range(1, 4):
        state = simulator.step(forces={tip: [0.0, 5.0, 0.0]})
        assert state.time == pytest.approx(count * simulator.dt)
        assert state.limits == ()
        assert isinstance(state.readings, Mapping)
    out = np.empty_like(first)
    assert simulator.surface(out) is out
    assert np.isfinite(out).all()
    assert out[tip, 1] > first[tip, 1]
    simulator.reset()
    np.testing.assert_array_equal(simulator.surface(), first)
    with pytest.raises(SuppleError, match="out must be"):
        simulator.surface(np.empty((1, 3)))
    with pytest.raises(SuppleError, match=r"does not exist|not there"):
        simulator.step(forces={10**9: [0.0, 0.0, 0.0]})


@pytest.mark.parametrize("name", CHARACTERS)
def test_a_character_follows_pose_and_root(name):
    simulator = stepped(name)
    rig, root = simulator.model.rig, placed(0.5, 2.0)
    simulator.reset(BENT, root)
    expected = rig(BENT) @ root[:3, :3].T + root[:3, 3]
    np.testing.assert_allclose(simulator.surface(), expected, atol=1e-5)
    still = simulator.surface()
    simulator.reset(BENT, root, before=([0.2], root))
    simulator.step([0.4], root)
    assert np.abs(simulator.surface() - still).max() > 1e-3


@pytest.mark.parametrize("name", CHARACTERS)
def test_carrying_goes_to_another_pose_and_root_with_the_flesh_as_it_is(name):
    simulator = stepped(name)
    rig = simulator.model.rig
    tip = int(simulator.model.surface.vertices[:, 0].argmax())
    simulator.reset(BENT)
    for _ in range(5):
        simulator.step(forces={tip: [0.0, 20.0, 0.0]})
    flesh = simulator.surface() - rig(BENT)
    assert np.abs(flesh).max() > 1e-3
    root = placed(0.7, 3.0)
    simulator.teleport(BENT, root)
    carried = (simulator.surface() - root[:3, 3]) @ root[:3, :3] - rig(BENT)
    np.testing.assert_allclose(carried, flesh, atol=1e-5)


@pytest.mark.parametrize("name", CHARACTERS)
@pytest.mark.parametrize(
    ("setting", "value"), [("stiffness", 2.0), ("obstacles", [Plane([0, -5, 0], [0, 1, 0])])]
)
def test_stiffness_and_obstacles_are_set_or_refused_in_one_line(name, setting, value):
    simulator = stepped(name)
    before = getattr(simulator, setting)
    assert before in (1.0, ())
    said = ""
    try:
        setattr(simulator, setting, value)
    except SuppleError as refused:
        said = str(refused)
    found = getattr(simulator, setting)
    assert list(np.atleast_1d(found)) == list(np.atleast_1d(before if said else value))
    assert not said or (name in said and "\n" not in said)
    simulator.step(BENT)
    with pytest.raises(SuppleError, match="stiffness"):
        simulator.stiffness = -1.0


@pytest.mark.parametrize("name", ENGINES)
def test_a_saved_model_is_loaded_for_its_engine(name, tmp_path):
    model, path = built(name), tmp_path / "model.file"
    model.save(path)
    loaded = supple.load_model(path)
    assert type(loaded) is ENGINES[name].model_class
    assert engine_of(loaded) is engine_of(model)
    own = supple.Simulator(loaded, dt=1 / 100)
    assert type(own) is engine_of(model).simulate
    assert own.dt == 1 / 100
    again = ENGINES[name].simulate(loaded)
    first = ENGINES[name].simulate(model)
    for simulator in (first, again):
        simulator.reset()
        simulator.step(forces={0: [0.0, 1.0, 0.0]})
    np.testing.assert_array_equal(first.surface(), again.surface())


def rewritten(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change the header of a pose-space model's file, and seal it again."""
    tensors, texts, _ = unpacked_tensors(path.read_bytes())
    header = json.loads(texts["header"])
    change(header)
    texts = {"format": texts["format"], "version": texts["version"], "header": json.dumps(header)}
    plain, _, block = unpacked_tensors(packed_tensors(tensors, texts))
    digest = hashlib.blake2b(texts["header"].encode(), digest_size=32)
    for name in sorted(plain):
        digest.update(f"\0{name} {plain[name].dtype.str} {plain[name].shape}".encode())
    digest.update(block)
    path.write_bytes(packed_tensors(tensors, texts | {"checksum": digest.hexdigest()}))


def test_a_pose_space_file_from_before_engines_had_names_loads(tmp_path):
    path = tmp_path / "old.supple"
    built("pose-space").save(path)
    rewritten(path, lambda header: header.pop("engine"))
    loaded = supple.load_model(path)
    assert loaded.engine == "pose-space"
    assert type(supple.Simulator(loaded)) is ENGINES["pose-space"].simulate


def test_a_file_of_an_unknown_engine_is_refused_in_one_line(tmp_path):
    path = tmp_path / "new.supple"
    built("pose-space").save(path)
    rewritten(path, lambda header: header.update(engine="magic"))
    with pytest.raises(FormatError, match=r'new\.supple: is for the engine "magic"') as refused:
        supple.load_model(path)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda: engine_named("magic"), 'no engine "magic"; there are pose-space, full'),
        (lambda: engine_named("pose-spice"), 'did you mean "pose-space"'),
        (lambda: engine_named("stvk", "character"), "is for a body, not a character"),
        (lambda: supple.build(BAR, engine="magic"), 'no engine "magic"'),
        (lambda: supple.Simulator(BAR), "is not a model"),
        (lambda: engine_of("rat.supple"), "'rat.supple' is not a model"),
        (lambda: ENGINES["full"].crowd_class, "the engine full cannot simulate crowds"),
    ],
)
def test_unknown_engines_and_models_are_refused_in_one_line(ask, said):
    with pytest.raises(SuppleError, match=said) as refused:
        ask()
    assert "\n" not in str(refused.value)


def test_an_engine_is_added_by_one_row(monkeypatch):
    """All that looks engines up finds it: building, stepping, playing."""
    stiff = Engine(
        "stiff",
        "the unreduced engine by another name",
        "character",
        model=ENGINES["full"].model,
        builder=ENGINES["full"].builder,
        simulator=ENGINES["full"].simulator,
    )
    monkeypatch.setitem(ENGINES, stiff.name, stiff)
    bar = bending_bar(cells=CELLS)
    baked = supple.bake(bar, model=built("full"), engine="stiff", end=0.1)
    assert baked.report["engine"] == "stiff"
    assert np.isfinite(baked.frames).all()
