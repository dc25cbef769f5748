"""BVH files: the joints are where a straightforward evaluation of the text puts them."""

from __future__ import annotations

import math
import time
from pathlib import Path

import numpy as np
import pytest

from supple.errors import FormatError, SuppleError
from supple.formats.bvh import BvhFile, read_bvh

FILES = ["cmu_01_01_jumps", "mh_benchmark", "mh_dance1", "mh_tpose", "mh_walk1"]

ARM = """HIERARCHY
ROOT Hips
{
  OFFSET 0 0 0
  CHANNELS 6 Xposition Yposition Zposition Zrotation Yrotation Xrotation
  JOINT Left Arm
  {
    OFFSET 0 50 10
    CHANNELS 3 Yrotation Zrotation Xrotation
    End Site
    {
      OFFSET 30 100 0
    }
  }
}
MOTION
Frames: 2
Frame Time: 0.05
1 90 3 0 0 0 0 0 0
1 91 3 90 0 0 10 20 30
"""


def written(folder: Path, text: str | bytes, name: str = "a.bvh") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def turn(axis: str, degrees: float) -> np.ndarray:
    c, s = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    i, j = {"x": (1, 2), "y": (2, 0), "z": (0, 1)}[axis]
    matrix = np.eye(3)
    matrix[i, i] = matrix[j, j] = c
    matrix[i, j], matrix[j, i] = -s, s
    return matrix


def evaluated(text: str, frame: int, adds: bool) -> dict[str, np.ndarray]:
    """Joint places of a frame in the file's own units: the format's description, word by word.

    `adds` says whether position channels leave out the offset.
    """
    head, tail = text.split("MOTION")
    rows = [line.split() for line in tail.strip().splitlines()[2:]]
    numbers = iter(float(word) for word in rows[frame])
    places: dict[str, np.ndarray] = {}
    stack: list[tuple[np.ndarray, np.ndarray]] = []
    name = ""
    for line in head.splitlines():
        words = line.split()
        if not words:
            continue
        if words[0] in ("ROOT", "JOINT"):
            name = " ".join(words[1:])
        elif words[0] == "End":
            name = ""
        elif words[0] == "OFFSET":
            above = stack[-1] if stack else (np.eye(3), np.zeros(3))
            offset = np.array([float(word) for word in words[1:]])
            rotation = np.eye(3)
            if not name:
                stack.append(above)
        elif words[0] == "CHANNELS":
            local = offset.copy()
            for channel in words[2:]:
                axis, value = channel[0].lower(), next(numbers)
                if channel.endswith("position"):
                    index = "xyz".index(axis)
                    local[index] = value + (offset[index] if adds else 0)
                else:
                    rotation = rotation @ turn(axis, value)
            place = above[0] @ local + above[1]
            places[name] = place
            stack.append((above[0] @ rotation, place))
        elif words[0] == "}":
            stack.pop()
    return places


def world_places(file: BvhFile) -> np.ndarray:
    world = file.motion.roots[:, None] @ file.joint_pose.matrices(file.motion.poses)
    return world[..., :3, 3]


@pytest.mark.parametrize("name", FILES)
def test_joints_are_where_the_text_puts_them(assets: Path, name: str):
    path = assets / "motion_bvh" / f"{name}.bvh"
    file = read_bvh(path)
    places = world_places(file)
    text = path.read_text()
    adds = name != "mh_dance1"
    for frame in {0, len(places) // 2, len(places) - 1}:
        own = evaluated(text, frame, adds)
        assert tuple(own) == file.skeleton.names
        expected = file.metres_per_unit * np.array(list(own.values()))
        if file.up == "z":
            expected = expected[:, [0, 2, 1]] * [1, 1, -1]
        # What strays less than a hundred-thousandth of a bone is dropped.
        assert np.abs(places[frame] - expected).max() < 1e-4
        if "cmu" in name or "walk" in name:
            assert np.abs(places[frame] - expected).max() < 1e-10


def test_real_files_come_out_as_people_in_metres(assets: Path):
    for name in FILES:
        file = read_bvh(assets / "motion_bvh" / f"{name}.bvh")
        size = np.ptp(file.skeleton.rest_world()[:, :3, 3], axis=0)
        assert 1.2 < size[1] < 1.8
        assert file.up == ("y" if "cmu" in name else "z")
        assert file.metres_per_unit == pytest.approx(0.0564444 if "cmu" in name else 0.1, rel=1e-4)
    jumps = read_bvh(assets / "motion_bvh" / "cmu_01_01_jumps.bvh")
    assert jumps.motion.rate == pytest.approx(120, rel=1e-4)
    assert jumps.motion.n_frames == 2752
    lowest = world_places(jumps)[..., 1].min()
    assert 0 < lowest < 0.1  # on the floor
    hips = world_places(jumps)[1:, 0, 1]
    assert hips.max() - hips.min() > 0.4  # and jumping


def test_a_file_written_by_hand_is_read_as_meant(tmp_path: Path):
    file = read_bvh(written(tmp_path, ARM))
    assert file.skeleton.names == ("Hips", "Left Arm")
    assert file.metres_per_unit == 0.01
    assert file.motion.times.tolist() == [0, 0.05]
    assert file.motion.name == "a"
    assert [site.joint for site in file.end_sites] == [1]
    assert np.allclose(file.end_sites[0].offset, [0.3, 1, 0])
    # The root stands upright, then lies on its side; it is all in the root transform.
    assert np.abs(file.motion.poses[:, :3]).max() < 1e-12
    assert np.allclose(world_places(file)[:, 1], [[0.01, 1.4, 0.13], [-0.49, 0.91, 0.13]])
    arm = file.joint_pose.matrices(file.motion.poses)[1, 1, :3, :3]
    assert np.allclose(arm, turn("y", 10) @ turn("z", 20) @ turn("x", 30))
    assert read_bvh(tmp_path / "a.bvh", metres_per_unit=1).skeleton.translations[1, 1] == 50
    turned = read_bvh(tmp_path / "a.bvh", up="z", metres_per_unit=1)
    assert np.allclose(turned.skeleton.translations[1], [0, 10, -50])


def test_spelling_and_line_ends_do_not_matter(tmp_path: Path):
    plain = read_bvh(written(tmp_path, ARM))
    variants = [
        ARM.replace("\n", "\r\n"),
        ARM.replace("  ", "\t"),
        "\ufeff" + ARM,
        ARM.replace("\n{", " {").replace("HIERARCHY", "hierarchy").replace("JOINT", "Joint"),
        ARM.replace("Frames: 2", "Frames:2").replace("Frame Time: ", "Frame Time:\t"),
        ARM.replace("1 91 3 90", "1 91\n3 90") + "\n\n",
        ARM.replace("0.05", ".5e-1").replace("rotation", "ROTATION"),
        ARM.replace("HIERARCHY\n", "HIERARCHY ").replace("\n    OFFSET", " OFFSET"),
    ]
    for variant in variants:
        same = read_bvh(written(tmp_path, variant))
        assert same.skeleton.names == plain.skeleton.names
        assert np.array_equal(same.motion.poses, plain.motion.poses)
        assert np.array_equal(same.motion.roots, plain.motion.roots)


def test_joints_with_position_channels_move_and_twins_get_names(tmp_path: Path):
    text = ARM.replace(
        "CHANNELS 3 Yrotation Zrotation Xrotation", "CHANNELS 2 Zposition Yrotation"
    ).replace("Left Arm", "Hips")
    text = text.replace("0 0 0 0 0 0\n", "0 0 0 12 0\n").replace("90 0 0 10 20 30", "90 0 0 14 45")
    file = read_bvh(written(tmp_path, text))
    assert file.skeleton.names == ("Hips", "Hips_2")
    assert file.joint_pose.translating.tolist() == [1]
    moved = file.joint_pose.unpack(file.motion.poses)[0][:, 1]
    assert np.allclose(moved, [[0, 0.5, 0.12], [0, 0.5, 0.14]])  # wholes, not sums


def test_a_root_that_stands_still_above_moving_hips_is_not_the_root(tmp_path: Path):
    text = """HIERARCHY
ROOT Reference {
 OFFSET 0 0 0
 CHANNELS 3 Zrotation Yrotation Xrotation
 JOINT Hips { OFFSET 0 100 0 CHANNELS 6 Xposition Yposition Zposition Zrotation Yrotation Xrotation
  JOINT Spine { OFFSET 0 70 0 CHANNELS 1 Xrotation End Site { OFFSET 0 10 0 } } } }
ROOT Prop { OFFSET 50 0 0 CHANNELS 3 Xposition Yposition Zposition }
MOTION
Frames: 2
Frame Time: 1
0 0 0 0 100 0 0 0 0 5 50 0 0
0 0 0 40 110 0 0 90 0 7 60 0 0
"""
    file = read_bvh(written(tmp_path, text))
    assert np.allclose(file.motion.roots[1, :3, 3], [0.4, 0.1, 0])
    before = [[0, 0, 0], [0, 1, 0], [0, 1.7, 0], [0.5, 0, 0]]
    after = [[0, 0, 0], [0.4, 1.1, 0], [0.4, 1.8, 0], [0.6, 0, 0]]
    expected = np.array([before, after])
    assert np.allclose(world_places(file), expected)
    named = read_bvh(tmp_path / "a.bvh", root="Reference")
    assert np.allclose(named.motion.roots, np.eye(4))
    assert np.allclose(world_places(named), expected)


DAMAGE: dict[str, tuple[str | bytes, str]] = {
    "empty": ("", "empty"),
    "no hierarchy": ("MOTION\nFrames: 1\nFrame Time: 1\n0\n", "no HIERARCHY part"),
    "no motion": (ARM.split("MOTION")[0], "MOTION"),
    "cut in the frames": (ARM[:-6], "declares 2 frames of 9 numbers but has"),
    "cut in the hierarchy": (ARM[:150], "MOTION"),
    "too many numbers": (ARM + "1 2 3\n", "21 numbers"),
    "a word in a frame": (ARM.replace("1 91 3", "1 oops 3"), '"oops"'),
    "not a number": (ARM.replace("1 91 3", "1 nan 3"), "number 1 of frame 1 is nan"),
    "infinite": (ARM.replace("1 91 3", "1 1e999 3"), "number 1 of frame 1 is inf"),
    "nan offset": (ARM.replace("OFFSET 0 50 10", "OFFSET 0 nan 10"), "OFFSET"),
    "huge offset": (ARM.replace("OFFSET 0 50 10", "OFFSET 0 1e300 10"), "OFFSET"),
    "short offset": (ARM.replace("OFFSET 0 50 10", "OFFSET 0 50"), "OFFSET"),
    "no offset": (ARM.replace("OFFSET 0 50 10\n", ""), 'joint "Left Arm" has no OFFSET'),
    "a brace too few": (ARM.replace("}\nMOTION", "MOTION"), "missing"),
    "a brace too many": (ARM.replace("MOTION", "}\nMOTION"), "has an extra"),
    "no opening brace": (ARM.replace("{", ""), "not followed"),
    "joint outside": (ARM.replace("ROOT Hips", "JOINT Hips"), "wrong place"),
    "root inside": (ARM.replace("JOINT", "ROOT"), "wrong place"),
    "joint in an end": (ARM.replace("OFFSET 30 100 0", "JOINT x {"), "wrong place"),
    "odd channel": (ARM.replace("Yposition", "Wposition"), '"wposition"'),
    "channel twice": (ARM.replace("Yposition", "Xposition"), "twice"),
    "channels twice": (ARM.replace("JOINT", "CHANNELS 1 Xrotation JOINT"), "twice"),
    "many channels": (ARM.replace("CHANNELS 6", "CHANNELS 999999999"), "more than"),
    "negative channels": (ARM.replace("CHANNELS 6", "CHANNELS -6"), "declares -6"),
    "channels in words": (ARM.replace("CHANNELS 6", "CHANNELS six"), "not a number"),
    "absurd frames": (ARM.replace("Frames: 2", "Frames: 99999999999"), "more than its"),
    "no frames": (ARM.replace("Frames: 2", "Frames: 0"), "no frames"),
    "negative frames": (ARM.replace("Frames: 2", "Frames: -2"), "declares -2"),
    "half frames": (ARM.replace("Frames: 2", "Frames: 2.5"), "not a number of frames"),
    "wrong frames": (ARM.replace("Frames: 2", "Frames: 1"), "declares 1 frames"),
    "no frame time": (ARM.replace("Frame Time: 0.05\n", ""), "Frame Time"),
    "zero frame time": (ARM.replace("0.05", "0"), "frame time is 0"),
    "nan frame time": (ARM.replace("0.05", "nan"), "frame time is nan"),
    "only text": ("HIERARCHY\n" + "word " * 1000 + "\nMOTION\n", "not part of a hierarchy"),
    "no joints": ("HIERARCHY\nMOTION\nFrames: 1\nFrame Time: 1\n", "no joints"),
    "bytes": (b"HIERARCHY\0\xff\xfe", "is binary, but its format is text"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_files_are_refused_in_one_line(tmp_path: Path, damage: str):
    text, says = DAMAGE[damage]
    with pytest.raises(FormatError, match=says) as caught:
        read_bvh(written(tmp_path, text))
    assert str(caught.value).startswith("a.bvh: ")
    assert "\n" not in str(caught.value)


def test_any_cut_of_a_file_is_refused(tmp_path: Path):
    """Except where only the last digits are lost, which no reader can see."""
    for length in range(0, len(ARM) - 3, 7):
        with pytest.raises(SuppleError):
            read_bvh(written(tmp_path, ARM[:length]))


def test_mutated_files_load_or_are_refused(tmp_path: Path):
    rng = np.random.default_rng(4)
    pieces = [
        "{",
        "}",
        "nan",
        "-1",
        "1e308",
        "99999999",
        "JOINT",
        "End Site",
        "CHANNELS",
        "\0",
        "é",
        "",
    ]
    refused = 0
    for _ in range(400):
        words = ARM.split(" ") if rng.random() < 0.5 else ARM.split("\n")
        joint = " " if len(words) > 30 else "\n"
        for _ in range(rng.integers(1, 4)):
            words[rng.integers(len(words))] = pieces[rng.integers(len(pieces))]
        try:
            file = read_bvh(written(tmp_path, joint.join(words)))
        except SuppleError:
            refused += 1
        else:
            assert np.isfinite(file.motion.poses).all()
    assert 200 < refused < 400


def test_ten_thousand_nested_joints_are_read_without_recursion(tmp_path: Path):
    depth = 10_000
    joints = "JOINT j { OFFSET 0 0.01 0 CHANNELS 1 Xrotation " * depth
    text = f"HIERARCHY ROOT r {{ OFFSET 0 0 0 CHANNELS 1 Xrotation {joints} {'} ' * (depth + 1)}"
    text += f"\nMOTION\nFrames: 1\nFrame Time: 1\n{'0 ' * (depth + 1)}\n"
    start = time.monotonic()
    file = read_bvh(written(tmp_path, text))
    assert file.skeleton.n_joints == depth + 1
    assert time.monotonic() - start < 30
    with pytest.raises(FormatError, match="missing"):
        read_bvh(written(tmp_path, text.replace("}", "", 1)))


def test_joints_without_channels_do_not_multiply_with_frames(tmp_path: Path):
    """Both lists are short in the file; their product is not in memory."""
    joints = "JOINT j { OFFSET 0 1 0 } " * 10_000
    text = f"HIERARCHY ROOT r {{ OFFSET 0 0 0 CHANNELS 1 Xrotation {joints} }}\nMOTION\n"
    text += f"Frames: 100000\nFrame Time: 1\n{'0 ' * 100_000}"
    with pytest.raises(FormatError, match="split the motion"):
        read_bvh(written(tmp_path, text))


def test_a_missing_file_a_folder_and_bad_options_are_errors(tmp_path: Path):
    path = written(tmp_path, ARM)
    with pytest.raises(FormatError, match="no such file"):
        read_bvh(tmp_path / "none.bvh")
    with pytest.raises(FormatError, match="cannot read"):
        read_bvh(tmp_path)
    with pytest.raises(FormatError, match="metres_per_unit is -1"):
        read_bvh(path, metres_per_unit=-1)
    with pytest.raises(FormatError, match="use y or z"):
        read_bvh(path, up="x")
    with pytest.raises(SuppleError, match='no joint "Hipz"; similar names: "Hips"'):
        read_bvh(path, root="Hipz")
