"""No USD file, however broken, brings a crash, a foreign traceback, a hang or a wrong character."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import warnings
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from supple.errors import SuppleError, SuppleWarning

pytest.importorskip("pxr", reason="USD comes with the extra supple[usd]")

from supple.formats.usd import process as usd_process
from supple.formats.usd.read.usd import load_usd
from supple.rig.character import Character
from supple.rig.skeleton.skinning import SkinnedRig

# What each file must come to: an error's words, or vertices, triangles and warnings' words.
NO_MESH = "has no mesh with faces"
OUTSIDE = "is outside the file's folder"
REFUSED = {
    "jointInfluences_invalid.usda": rf"{NO_MESH} \(mesh /JointInfluences/ErrorCases/",
    "checker/badSkelBindingAPIApplied.usda": NO_MESH,
    "checker/badSkelBindingNoSkelRoot.usda": NO_MESH,
    "checker/brokenRef.usd": rf'{NO_MESH} \("nonexistent.usd" does not exist',
    "checker/badGprimParent.usda": rf"{NO_MESH} \(mesh /World/Scepter has no faces",
    "checker/noUpAxis.usda": NO_MESH,
    "checker/unknownfile.usdz": NO_MESH,
    "usdwg/upAxis_invalid.usda": rf"{NO_MESH} .*axis.usda\" {OUTSIDE}",
    "usdwg/timeCodesPerSecond_0.usda": rf"{NO_MESH} .*animated_cube_translation.usda\" {OUTSIDE}",
    "usdwg/start_end_timeCodes_swapped.usda": rf"{NO_MESH} .*_translation.usda\" {OUTSIDE}",
    "usdwg/invalid_defaultPrim.usda": rf"{NO_MESH} .*1 prim is not a mesh \(first /World/Cube",
    "usdwg/metersPerUnit_mix.usda": rf"{NO_MESH} .*{OUTSIDE}",
    "usdwg/reference_invalid.usda": rf"{NO_MESH} .*\"file_does_not_exist.usda\" does not exist",
    "usdwg/empty.usda": rf"{NO_MESH} \(mesh /mesh has no faces",
}
READ: dict[str, tuple[int, int, list[str]]] = {
    "usdwg/5_face.usda": (9, 13, ["2 open edges", "1 non-manifold edge"]),
}
# Where the parser says what it wants, the words and the line must reach the reader.
PARSED = {
    "parse/03_bad_file.usda": "line 3:1",
    "parse/108_bad_inheritPath.usda": "Inherit paths must be absolute prim paths",
    "parse/14_bad_value.usda": "Failed to parse value",
    "parse/200_bad_emptyFile.usda": "not a valid usda layer",
    "parse/33_bad_relationship_duplicate_target.usda": "Duplicate items exist",
    "parse/90_bad_dupePrim.usda": "Duplicate prim 'A'",
}


def load_quietly(path: Path) -> tuple[Character, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        character = load_usd(path)
    assert all(warning.category is SuppleWarning for warning in caught)
    messages = [str(warning.message) for warning in caught]
    assert all(m.startswith(f"{path.name}: ") and "\n" not in m for m in messages)
    return character, messages


def refusal(path: Path) -> str:
    """The message with which a file is refused: one line that begins with its name."""
    with pytest.raises(SuppleError) as caught:
        load_quietly(path)
    message = str(caught.value)
    assert message.startswith(f"{path.name}: ")
    assert "\n" not in message
    assert "pxrInternal" not in message
    return message


def outcome_of(path: Path) -> Character | str:
    """The character, or the message with which the file is refused."""
    try:
        return load_quietly(path)[0]
    except SuppleError as error:
        return str(error)


def test_every_hostile_file_has_an_expectation(assets):
    folder = assets / "hostile_usd"
    files = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}
    parsed = {file for file in files if file.startswith("parse/")}
    assert files - parsed == REFUSED.keys() | READ.keys()
    assert len(parsed) == 34
    assert PARSED.keys() <= parsed


@pytest.mark.parametrize("file", REFUSED)
def test_a_file_without_a_character_is_refused_by_name_and_cause(assets, file):
    assert re.search(REFUSED[file], refusal(assets / "hostile_usd" / file))


@pytest.mark.parametrize("file", READ)
def test_an_odd_file_is_read_with_named_warnings(assets, file):
    vertices, triangles, expected = READ[file]
    character, messages = load_quietly(assets / "hostile_usd" / file)
    assert len(character.surface.vertices) == vertices
    assert len(character.surface.triangles) == triangles
    assert len(messages) == len(expected), messages
    assert all(any(text in message for message in messages) for text in expected), messages


def test_parser_messages_reach_the_user(assets):
    paths = sorted((assets / "hostile_usd/parse").iterdir())
    with ThreadPoolExecutor(2) as pool:
        messages = list(pool.map(message_of, paths))
    for path, message in zip(paths, messages, strict=True):
        assert message.startswith(f"{path.name}: is not a readable USD file (")
        assert "\n" not in message
        assert "pxrInternal" not in message
        assert PARSED.get(f"parse/{path.name}", "") in message


def message_of(path: Path) -> str:
    with pytest.raises(SuppleError) as caught:
        load_usd(path)
    return str(caught.value)


TRIANGLE = """
    int[] faceVertexCounts = [3]
    int[] faceVertexIndices = [0, 1, 2]
    point3f[] points = [(0, 0, 0), (1, 0, 0), (0, 1, 0)]
"""
SKELETON = """
    def Skeleton "Rig"
    {
        uniform token[] joints = ["hip", "hip/knee"]
        uniform matrix4d[] bindTransforms = [
            ((1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1)),
            ((1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 1, 1))]
        uniform matrix4d[] restTransforms = [
            ((1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1)),
            ((1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 1, 1))]
        rel skel:animationSource = <Walk>
        def SkelAnimation "Walk"
        {
            uniform token[] joints = ["hip", "hip/knee"]
            float3[] translations.timeSamples = {
                0: [(0, 0, 0), (0, 0, 1)],
                9: [(1, 0, 0), (0, 0, 1)]
            }
            quatf[] rotations = [(1, 0, 0, 0), (1, 0, 0, 0)]
            half3[] scales = [(1, 1, 1), (1, 1, 1)]
        }
    }
"""
WEIGHTS = """
    int[] primvars:skel:jointIndices = [0, 1, 1] (interpolation = "vertex")
    float[] primvars:skel:jointWeights = [1, 1, 1] (interpolation = "vertex")
"""


def skinned(tmp_path: Path, *changes: tuple[str, str], head: str = "") -> Path:
    """A sound character of one triangle with something changed."""
    text = (
        f"#usda 1.0\n(\n    metersPerUnit = 1\n    {head}\n)\n"
        f'def SkelRoot "Root"\n{{\nrel skel:skeleton = <Rig>\n{SKELETON}\n'
        f'def Mesh "Skin"\n{{\n{TRIANGLE}{WEIGHTS}\n}}\n}}\n'
    )
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = tmp_path / "skinned.usda"
    path.write_text(text)
    return path


def test_the_valid_character_of_the_damage_tests_is_read_without_warnings(tmp_path):
    character, messages = load_quietly(skinned(tmp_path))
    assert messages == ["skinned.usda: has 3 open edges (first at vertex 0); continuing"]
    assert isinstance(character.rig, SkinnedRig)
    assert character.rig.skeleton.names == ("hip", "knee")


DAMAGE = {
    "it follows its transform": [
        ("jointIndices = [0, 1, 1]", "jointIndices = [0, 1, 7]"),
        ("jointIndices = [0, 1, 1]", "jointIndices = [0, 1, -2]"),
        ("jointIndices = [0, 1, 1]", "jointIndices = [0, 1]"),
        ("jointWeights = [1, 1, 1]", "jointWeights = [1, nan, 1]"),
        ('jointWeights = [1, 1, 1] (interpolation = "vertex")', "jointWeights = [1, 1, 1]"),
        ('[0, 1, 1] (interpolation = "vertex")', '[0, 1, 1] (elementSize = -1)'),
        ("rel skel:skeleton = <Rig>", "rel skel:skeleton = </Nowhere>"),
        ("rel skel:skeleton = <Rig>", 'uniform token[] skel:joints = ["hip", "tail"]\n'
                                      "rel skel:skeleton = <Rig>"),
    ],
    "they are normalised": [("jointWeights = [1, 1, 1]", "jointWeights = [1, 3, 1]")],
    "set to zero": [("jointWeights = [1, 1, 1]", "jointWeights = [1, -3, 1]")],
    "they follow the first joint": [("jointWeights = [1, 1, 1]", "jointWeights = [1, 0, 1]")],
    "has no bind transforms; rest transforms are used": [("bindTransforms", "otherTransforms")],
    "rest values are used": [
        ("9: [(1, 0, 0), (0, 0, 1)]", "9: [(1, 0, 0)]"),
        ("half3[] scales = [(1, 1, 1), (1, 1, 1)]", ""),
    ],
    "translations that are not finite": [("9: [(1, 0, 0), ", "9: [(inf, 0, 0), ")],
    "zero; the identity is used": [("rotations = [(1, 0, 0, 0)", "rotations = [(0, 0, 0, 0)")],
    "not of unit length; normalised": [("rotations = [(1, 0, 0, 0)", "rotations = [(3, 0, 0, 0)")],
    "scaled to zero": [("scales = [(1, 1, 1), (1, 1, 1)]", "scales = [(1, 1, 1), (0, 1, 1)]")],
    "has 1 unknown joints": [
        ('uniform token[] joints = ["hip", "hip/knee"]\n            float3',
         'uniform token[] joints = ["hip", "tail"]\n            float3')
    ],
    "1 prim is hidden": [
        (f"{TRIANGLE}", f'{TRIANGLE}\n}}\ndef Mesh "Other"\n{{\ntoken visibility = "invisible"\n'
                        f'{TRIANGLE}\n}}\ndef Mesh "Again"\n{{\n{TRIANGLE}')
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("words", "change"), [(words, change) for words, many in DAMAGE.items() for change in many]
)
def test_damage_that_leaves_a_character_gives_a_warning(tmp_path, words, change):
    character, messages = load_quietly(skinned(tmp_path, change))
    assert any(words in message for message in messages), messages
    for motion in character.motions.values():
        assert np.isfinite([character.rig(pose) for pose in motion.poses]).all()


@pytest.mark.parametrize(
    ("words", "change"),
    [
        ("refers to point 5 but has 3 points", ("[0, 1, 2]\n", "[0, 1, 5]\n")),
        ("lists 3 corners, but its faces have 10000000", ("Counts = [3]", "Counts = [10000000]")),
        ("has a point that is not finite", ("(0, 1, 0)]\n", "(0, nan, 0)]\n")),
        ('lists joint "hip" twice', ('["hip", "hip/knee"]', '["hip", "hip"]')),
        ("neither valid bind nor rest", ("Transforms", "Transfers")),
        ('joint "hip/knee" has bind scale zero',
         ("1, 0), (0, 0, 1, 1))]\n        uniform", "0, 0), (0, 0, 1, 1))]\n        uniform")),
    ],
)  # fmt: skip
def test_damage_that_leaves_no_character_is_an_error(tmp_path, words, change):
    assert words in refusal(skinned(tmp_path, change))


@pytest.mark.parametrize(
    ("head", "words"),
    [
        ('upAxis = "sideways"', 'has "sideways" as its upward axis; Y is used'),
        ("timeCodesPerSecond = 0", "has 0 time codes per second; 24 are used"),
        ("startTimeCode = 9\n    endTimeCode = 0", "starts at time code 9, after its end at 0"),
        ("startTimeCode = -1e300\n    endTimeCode = 1e300", "open edges"),
    ],
)
def test_invalid_settings_of_the_stage_are_replaced_with_a_warning(tmp_path, head, words):
    character, messages = load_quietly(skinned(tmp_path, head=head))
    assert any(words in message for message in messages), messages
    assert character.motions["Walk"].duration == pytest.approx(9 / 24)


@pytest.mark.parametrize("unit", ["0", "-1", "nan", "1e300"])
def test_an_impossible_unit_is_replaced(tmp_path, unit):
    path = skinned(tmp_path, ("metersPerUnit = 1", f"metersPerUnit = {unit}"))
    character, messages = load_quietly(path)
    assert any("centimetres are used" in message for message in messages)
    assert character.metres_per_unit == 0.01


@pytest.mark.parametrize(
    "reference",
    ["@../outside.usda@</Secret>", "@{outside}@</Secret>", "@sub/../../outside.usda@</Secret>",
     "@link.usda@</Secret>", '@`"${{WHERE}}"`@</Secret>'],
)  # fmt: skip
@pytest.mark.parametrize("arc", ["references", "payload"])
def test_nothing_outside_the_files_folder_is_read(tmp_path, reference, arc):
    outside = tmp_path / "outside.usda"
    outside.write_text(f'#usda 1.0\ndef Mesh "Secret"\n{{{TRIANGLE}}}\n')
    folder = tmp_path / "inside"
    folder.mkdir()
    (folder / "link.usda").symlink_to(outside)
    path = folder / "escape.usda"
    head = f'metersPerUnit = 1\n    expressionVariables = {{ string WHERE = "{outside}" }}'
    path.write_text(
        f'#usda 1.0\n(\n    {head}\n)\ndef Mesh "Own"\n{{{TRIANGLE}}}\n'
        f'def "Thief" (\n    {arc} = {reference.format(outside=outside)}\n)\n{{\n}}\n'
    )
    character, messages = load_quietly(path)
    assert [mesh.path for mesh in character.source.meshes] == ["/Own"]
    assert any("ignored" in message for message in messages), messages


def test_value_clips_are_not_followed(tmp_path):
    clips = """(
        clips = {
            dictionary default = {
                asset[] assetPaths = [@../outside.usda@]
                string primPath = "/Own"
                double2[] active = [(0, 0)]
            }
        }
    )"""
    path = tmp_path / "clips.usda"
    path.write_text(
        f'#usda 1.0\n(\n    metersPerUnit = 1\n)\ndef Mesh "Own" {clips}\n{{{TRIANGLE}}}\n'
    )
    _, messages = load_quietly(path)
    assert any('takes values from other files ("clips")' in message for message in messages)


def laughs(levels: int, instanceable: str) -> str:
    """A prim that refers ten times to the next, which does so too: 10^levels triangles."""
    text = "#usda 1.0\n"
    for level in range(levels):
        children = "".join(
            f'def "c{k}" (\n{instanceable}\nreferences = </L{level + 1}>\n)\n{{\n}}\n'
            for k in range(10)
        )
        text += f'def "L{level}"\n{{\n{children}}}\n'
    return text + f'def Xform "L{levels}"\n{{\ndef Mesh "m"\n{{\n{TRIANGLE}}}\n}}\n'


@pytest.mark.parametrize("instanceable", ["", "instanceable = true"])
def test_a_small_file_that_composes_to_millions_of_prims_is_an_error(tmp_path, instanceable):
    path = tmp_path / "laughs.usda"
    path.write_text(laughs(8, instanceable))
    assert re.search(r" [0-9,]+ prims.*; split it", refusal(path))


def test_a_reference_to_itself_is_ignored(tmp_path):
    path = tmp_path / "cycle.usda"
    path.write_text(
        '#usda 1.0\n(\n    metersPerUnit = 1\n)\ndef "A" (\n    references = </B>\n)\n{\n}\n'
        f'def "B" (\n    references = </A>\n)\n{{\n}}\ndef Mesh "Own"\n{{{TRIANGLE}}}\n'
    )
    character, messages = load_quietly(path)
    assert len(character.surface.triangles) == 1
    assert any("USD says: " in message for message in messages)


def test_a_file_that_crashes_usd_is_an_error_of_one_line(tmp_path):
    deep = "".join(f'def "a{i}"\n{{\n' for i in range(100_000)) + "}\n" * 100_000
    path = tmp_path / "deep.usda"
    path.write_text("#usda 1.0\n" + deep)
    assert "USD crashed on it" in refusal(path)


def test_a_file_that_takes_forever_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(usd_process, "LONGEST_READ", 0.01)
    assert "to read it; the file is too large or refers to itself too often" in refusal(
        skinned(tmp_path)
    )


@pytest.fixture
def started(monkeypatch) -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that are started to open USD files, none being there."""
    usd_process.end_servers()
    start, found = subprocess.Popen, []

    def counted(*arguments, **options):
        found.append(start(*arguments, **options))
        return found[-1]

    monkeypatch.setattr(usd_process.subprocess, "Popen", counted)
    yield found
    usd_process.end_servers()


def test_usd_is_imported_once_for_several_files_whatever_happens_to_one(tmp_path, started):
    load_quietly(skinned(tmp_path))
    test_a_file_that_crashes_usd_is_an_error_of_one_line(tmp_path)
    load_quietly(skinned(tmp_path))
    assert len(started) == 1


def test_a_hanging_reader_is_ended_and_the_next_file_is_read(tmp_path, started, monkeypatch):
    with monkeypatch.context() as patch:
        test_a_file_that_takes_forever_is_given_up(tmp_path, patch)
    assert started[0].returncode is not None
    load_quietly(skinned(tmp_path))
    assert len(started) == 2


def test_a_killed_server_is_started_again(tmp_path, started):
    load_quietly(skinned(tmp_path))
    started[0].kill()
    started[0].wait()
    load_quietly(skinned(tmp_path))
    assert len(started) == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_opens_files_by_itself(tmp_path, started):
    """Two processes on one pipe would get each other's answers."""
    load_quietly(skinned(tmp_path))
    fork = os.fork()
    if fork == 0:
        load_quietly(skinned(tmp_path))
        usd_process.end_servers()
        os._exit(len(started))
    assert os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1]) == 2
    load_quietly(skinned(tmp_path))
    assert len(started) == 1


def test_a_file_that_takes_too_much_memory_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(usd_process, "LEAST_MEMORY", 100 * 2**20)
    assert "skinned.usda: " in refusal(skinned(tmp_path))


def test_cut_off_and_flipped_bytes_bring_an_error_or_a_finite_character(assets, tmp_path):
    with zipfile.ZipFile(assets / "usd_skel/RiggedFigure.usdz") as archive:
        sound = archive.read(archive.namelist()[0])
    chance = random.Random(7)
    outcomes = set()
    for number in range(8):
        data = bytearray(sound[: chance.randrange(len(sound))] if number % 4 == 0 else sound)
        for _ in range(chance.choice([0, 3, 20, 60])):
            data[chance.randrange(len(data))] = chance.choice([0, 127, 255, chance.randrange(256)])
        path = tmp_path / f"damaged{number}.usdc"
        path.write_bytes(data)
        outcome = outcome_of(path)
        if isinstance(outcome, str):
            assert outcome.startswith(f"{path.name}: ")
            assert "\n" not in outcome
        else:
            assert np.isfinite(outcome.surface.vertices).all()
        outcomes.add(type(outcome))
    assert str in outcomes


READ_AND_MEASURE = """
import resource, sys
from pathlib import Path
from supple.errors import SuppleError
from supple.formats.usd.process import end_servers
from supple.formats.usd.read.usd import load_usd
for path in sys.argv[1:]:
    try:
        load_usd(Path(path))
    except SuppleError:
        pass
end_servers()
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems count memory otherwise")
def test_the_memory_of_the_reading_process_stays_small(assets):
    paths = [str(path) for path in sorted((assets / "hostile_usd").rglob("*.usd*"))[:3]]
    # In a process of its own: a child counts its parent's memory at the fork as its own peak.
    run = [sys.executable, "-c", READ_AND_MEASURE, *paths]
    kilobytes = int(subprocess.run(run, capture_output=True, text=True, check=True).stdout)
    # USD itself takes about 100 MB; damaged files took no more.
    assert 0 < kilobytes < 2**20


def test_nothing_is_imported_from_the_working_folder(tmp_path, monkeypatch):
    for name in ("pxr.py", "numpy.py", "resource.py"):
        (tmp_path / name).write_text("raise SystemExit('imported from the working folder')")
    monkeypatch.chdir(tmp_path)
    usd_process.end_servers()
    character, _ = load_quietly(skinned(tmp_path))
    assert len(character.surface.triangles) == 1


@pytest.mark.parametrize("file", ["missing.usda", "folder.usd", "wrong.obj"])
def test_files_that_are_not_usd_are_refused_before_usd_opens_them(tmp_path, file):
    (tmp_path / "folder.usd").mkdir()
    (tmp_path / "wrong.obj").write_text("v 0 0 0")
    refusal(tmp_path / file)
