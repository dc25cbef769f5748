"""Some hostile inputs of every kind, and every defect that many of them have found."""

from __future__ import annotations

import signal
import struct
import warnings
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import supple
from helpers.gltf_builder import skinned_octahedron
from prove import fuzz
from prove.arguments import CALLS, SOUND, _argument
from prove.corpus import SEEDS, read_seeds
from prove.kinds import KINDS, Kind, defect_of
from supple.anatomy.region_entries import read_entries
from supple.elastic.material import Material
from supple.engines.common.model_file import sealed, unsealed
from supple.engines.factory import load_model
from supple.errors import LONGEST_LINE, FormatError, SuppleError, SuppleWarning, warn
from supple.formats.bvh import read_bvh
from supple.formats.gltf.read.gltf import load_gltf
from supple.formats.load import load
from supple.formats.point_cache import read_point_cache
from supple.formats.smpl.body_motion import read_body_motion
from supple.rig.motion.motion import Motion
from supple.rig.skeleton.joints import Skeleton

#: Made in seconds, or read in another process: tried by `make prove` only.
LONG = {"supple-soft-skeleton", "usda", "usdc", "usdz", "commands"}


#: Mutations of each kind.
TRIED = 40


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("corpus")


@pytest.mark.parametrize("kind", sorted(set(KINDS) - LONG))
def test_hostile_inputs_are_read_or_refused_in_one_line(kind, corpus, tmp_path):
    seeds = read_seeds(kind, corpus)
    read = 0
    for seed in seeds:  # compiles and imports what it needs, which is no input's fault
        fuzz.tried(kind, seed, tmp_path)
    for number in range(len(seeds) + TRIED):
        said = fuzz.tried(kind, fuzz.input_of(kind, number, seeds), tmp_path)
        assert not said["wrong"], f"{kind} {number}: {said}"
        read += said["read"]
        assert number >= len(seeds) or said["read"], f"seed {number} of {kind} is not sound"
    assert read < len(seeds) + TRIED, "nothing was hostile"


def test_every_reader_has_a_kind():
    from supple.formats.registry import CHARACTERS, SURFACES, TETS

    read = {kind.suffix.lower() for kind in KINDS.values()} | {".usd", ".smpl"}
    # Blender's own code reads these, in a process of its own, and tells us what it found.
    elsewhere = {".blend", ".fbx"}
    wanted = {*CHARACTERS.suffixes(), *SURFACES.suffixes(), *TETS.suffixes()}
    wanted |= {".bvh", ".supple", ".stvk", ".cub", ".bou", ".u", ".pc2", ".mdd"}
    assert wanted - elsewhere <= read
    assert elsewhere <= wanted
    assert set(SEEDS) == set(KINDS)


def test_a_number_gives_the_same_input_always(corpus):
    seeds = read_seeds("glb", corpus)
    again = [fuzz.input_of("glb", number, seeds) for number in range(40)]
    assert again == [fuzz.input_of("glb", number, seeds) for number in range(40)]
    assert len(set(again)) > 35


def _stumble(data: bytes, rng: Random) -> bytes:
    return bytes([rng.randrange(4)])


def _stumbling(path: Path) -> Any:
    """Read nothing, and fail in every way there is."""
    what = path.read_bytes()[0]
    if what == 1:
        raise IndexError("not ours")
    if what == 2:
        np.array([1e308]) * 10.0  # a warning of NumPy's
        warnings.warn("overflow encountered", RuntimeWarning, stacklevel=1)
    if what == 3:
        raise FormatError("a: is damaged and cannot be read (TypeError)") from TypeError()


def test_a_file_neither_read_nor_refused_is_a_defect(tmp_path):
    kind = Kind(".x", _stumble, _stumbling)
    found = []
    for number in range(4):
        (tmp_path / "a.x").write_bytes(bytes([number]))
        found.append(defect_of(kind, tmp_path / "a.x")[0].split(":")[0])
    assert found == ["", "IndexError", "RuntimeWarning", "unforeseen TypeError"]


def test_a_worker_that_dies_or_hangs_is_reported_by_number_and_work_goes_on(monkeypatch, tmp_path):
    script = tmp_path / "worker.py"
    script.write_text(
        "import json, os, sys, time\n"
        "for line in sys.stdin:\n"
        "    first, last = map(int, line.split())\n"
        "    for number in range(first, last):\n"
        "        print(number, flush=True)\n"
        "        if number == 2: os.kill(os.getpid(), 9)\n"
        "        if number == 4: time.sleep(60)\n"
        "        said = {'wrong': '', 'read': True, 'seconds': 0.0, 'megabytes': 0.0}\n"
        "        print(json.dumps(said), flush=True)\n"
    )
    monkeypatch.setattr(fuzz, "__file__", str(script))
    monkeypatch.setattr(fuzz, "PATIENCE", 1.0)
    told: list[tuple[int, str]] = []
    worker = fuzz.Worker("glb")
    try:
        worker.run(0, 7, lambda number, said: told.append((number, said["wrong"])))
    finally:
        worker.end()
    assert [number for number, _ in told] == list(range(7))
    assert [wrong for _, wrong in told if wrong] == [
        f"crashes the process ({-signal.SIGKILL})",
        "hangs",
    ]


def test_progress_goes_on_where_it_stopped(tmp_path):
    progress = fuzz.Progress(tmp_path / "fuzz.json")
    said = {"wrong": "KeyError: a.py:1: b", "read": False, "seconds": 0.1, "megabytes": 2.0}
    for number in range(3):
        progress.add("glb", number, said)
    progress.save()
    again = fuzz.Progress(tmp_path / "fuzz.json").of("glb")
    assert again["inputs"] == 3
    assert again["defects"]["KeyError: a.py:1"]["count"] == 3
    fuzz.draw(progress, tmp_path / "fuzz.png")
    assert (tmp_path / "fuzz.png").stat().st_size > 1000


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=True, allow_infinity=True),
    st.text(max_size=4),
    st.lists(st.floats(allow_nan=True), max_size=4),
    st.lists(st.lists(st.integers(-3, 3), max_size=3), max_size=3),
)


@given(data=st.data())
@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_argument_of_the_api_is_taken_or_refused_in_one_line(data):
    """Property-based: hypothesis shrinks what it finds to the smallest call."""
    sound = data.draw(st.sampled_from([each for each in SOUND if each["call"] != "obstacle"]))
    told = dict(sound["with"])
    told[data.draw(st.sampled_from(sorted(set(told) - {"kind", "make", "steps"})))] = data.draw(
        VALUES
    )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", SuppleWarning)
            CALLS[sound["call"]](**{name: _argument(value) for name, value in told.items()})
    except SuppleError:
        pass  # in one line, as all of them: see below
    except (TypeError, AttributeError, KeyError) as error:
        # What this test itself does with arguments, such as taking a list apart.
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        assert trace is not None
        assert "/prove/" in trace.tb_frame.f_code.co_filename


# Found by them, and mended


def test_text_from_a_file_cannot_control_the_terminal(tmp_path):
    path = tmp_path / "a.bvh"
    path.write_bytes(b"HIERARCHY\nROOT a\n{\nOFFSET 0 0 \x1b[2J\x07\n}\nMOTION\n")
    with pytest.raises(FormatError) as refused:
        read_bvh(path)
    assert "?[2J?" in str(refused.value)
    assert str(refused.value).isprintable()
    with pytest.warns(SuppleWarning) as told:
        warn("a\x1b\n" + "b" * 5000)
    assert str(told[0].message).isprintable()
    assert len(str(told[0].message)) == LONGEST_LINE


def test_materials_that_are_no_objects_have_no_name(tmp_path):
    b = skinned_octahedron(material=0)
    b.json["materials"] = [[]]
    with pytest.warns(SuppleWarning):
        character = load_gltf(b.save_glb(tmp_path / "a.glb"))
    assert not any(name.startswith("material:") for name in character.labels)


def damaged_archive(change: Callable[[bytearray], Any]) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        np.savez(path, frames=np.zeros((2, 3, 3)), times=np.arange(2.0))
        data = bytearray(path.read_bytes())
        change(data)
        path.write_bytes(data)

    return write


def _encrypt(data: bytearray) -> None:
    at = data.index(b"PK\x01\x02")
    data[at + 8] |= 1
    data[6] |= 1


def _open_header(data: bytearray) -> None:
    at = data.index(b"{'descr'")
    data[at + data[at:].index(b"}")] = ord("(")


@pytest.mark.parametrize("change", [_encrypt, _open_header, lambda data: data.extend(b"PK\5\6")])
def test_a_damaged_archive_of_points_is_refused(tmp_path, change):
    path = tmp_path / "a.npz"
    damaged_archive(change)(path)
    with pytest.raises(FormatError, match=r"a\.npz: "):
        read_point_cache(path)


@pytest.mark.parametrize("root", [np.float64(1.0), np.zeros((0, 3)), np.zeros((4, 5))])
def test_a_root_of_a_body_that_is_no_list_of_turns_is_refused(tmp_path, root):
    np.savez(tmp_path / "a.npz", root_orient=root, pose_body=np.zeros((4, 63)))
    with pytest.raises(FormatError, match="root_orient"):
        read_body_motion(tmp_path / "a.npz")


def test_a_model_with_weights_that_are_no_numbers_is_refused_without_a_word_of_numpy(
    corpus, tmp_path
):
    (data,) = read_seeds("supple-pose-space", corpus)
    header, tensors = unsealed(data, "pose-space")
    weights = tensors["embedding.weights"].copy()
    weights[0] = [np.inf, -np.inf, 0]
    tensors = {name: array for name, array in tensors.items() if name != "embedding.weights"}
    path = tmp_path / "a.supple"
    path.write_bytes(sealed(header, tensors | {"embedding.weights": weights}, "pose-space"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(FormatError, match=r"a\.supple: "):
            load_model(path)


@pytest.mark.parametrize(
    ("names", "parents"), [(3.5, [-1]), (["a", "b"], [[0], [1, 2]]), (["a"], [None])]
)
def test_joints_that_are_no_lists_are_refused(names, parents):
    with pytest.raises(SuppleError):
        Skeleton(names, parents, np.zeros((1, 3)))


def test_a_material_that_is_no_name_is_refused():
    with pytest.raises(SuppleError, match="no material"):
        Material([])  # type: ignore[arg-type]


@pytest.mark.parametrize("multiple", [0, -1, 0.5, "a", None])
def test_a_player_of_no_whole_number_of_steps_is_refused(multiple):
    with pytest.raises(SuppleError, match="multiple"):
        CALLS["player"]("sweep", 1, multiple=multiple)


def test_a_stage_with_a_place_that_is_no_number_is_refused_without_a_word_of_numpy(
    corpus, tmp_path
):
    pytest.importorskip("pxr", reason="USD comes with the extra supple[usd]")
    plain = read_seeds("usda", corpus)[1]
    path = tmp_path / "a.usda"
    path.write_bytes(plain.replace(b"translate = (0, 1, 0)", b"translate = (0, -inf, 0)"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(FormatError, match=r"a\.usda: "):
            load(path)


def test_a_share_with_five_hundred_digits_is_refused(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('{"supple_anatomy": 1, "regions": {"a": {"share": 1' + "0" * 500 + "}}}")
    with pytest.raises(FormatError, match="share"):
        read_entries(path)


def test_a_cache_that_begins_at_no_time_is_refused_without_a_word_of_numpy(tmp_path):
    head = b"POINTCACHE2\0" + struct.pack("<iiffi", 1, 1, 0.0, np.inf, 2)
    path = tmp_path / "a.pc2"
    path.write_bytes(head + bytes(24))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(FormatError, match="time"):
            read_point_cache(path)


def _odd_signs(data: bytearray) -> None:
    at = data.index(b"'descr': '<f8'") + 10
    data[at : at + 3] = b"<\\e"


def test_a_damaged_head_of_an_array_is_refused_without_a_word_of_python(tmp_path):
    path = tmp_path / "a.npz"
    damaged_archive(_odd_signs)(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for read in (read_point_cache, read_body_motion):
            with pytest.raises(FormatError, match=r"a\.npz: "):
                read(path)


@pytest.mark.parametrize("obstacle", [
    lambda: supple.Sphere((0, 1e300, 0), 0.2),
    lambda: supple.Capsule((0, 0, 0), (1, 1e300, 0), 0.2),
    lambda: supple.Plane((0, -1e300, 0), (0, 1, 0)),
    lambda: supple.Sphere((0, 0, 0), 1e200),
])  # fmt: skip
def test_an_obstacle_beyond_all_worlds_is_refused(obstacle):
    with pytest.raises(SuppleError, match=r"farther away|larger"):
        obstacle()


def test_a_root_of_huge_numbers_is_refused_without_a_word_of_numpy():
    roots = np.tile(np.eye(4), (2, 1, 1))
    roots[1, 0, 1] = -1e308
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(SuppleError, match="not a rigid transform"):
            Motion([0.0, 1.0], [[0.0], [1.0]], roots)


def test_a_box_with_a_turn_of_huge_numbers_is_refused_without_a_word_of_numpy():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(SuppleError, match="not a rotation"):
            supple.Box((0, 0, 0), (1, 1, 1), [[1.0, 0, 0], [0, 1.0, 0], [1e300, 0, 1.0]])


@pytest.mark.parametrize(
    "worse", [{"axes": [[-1e308, 1e200, 0], [0, 1, 0], [0, 0, 1]]}, {"shear": 10**400}]
)
def test_a_material_of_huge_numbers_is_refused_without_a_word_of_numpy(worse):
    told = {"kind": "orthotropic", "young": [1e4, 2e4, 3e4], "poisson": [0.3, 0.3, 0.3]}
    corners = [[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(SuppleError):
            CALLS["tets"](corners, [[0, 1, 2, 3]], told | worse)


def test_a_body_of_huge_numbers_is_refused_without_a_word_of_numpy(corpus, tmp_path):
    path = tmp_path / "a.npz"
    path.write_bytes(read_seeds("body-npz", corpus)[0])
    with np.load(path) as stored:
        fields = dict(stored)
    fields["v_template"] = np.full_like(fields["v_template"], 1e300)
    np.savez(path, **fields)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(FormatError, match="has numbers above"):
            load(path)
