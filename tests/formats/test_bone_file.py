"""Files of bone meshes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from supple.engines.soft_skeleton.build import build
from supple.errors import FormatError
from supple.formats.smpl.bone_file import read_bone_meshes
from supple.formats.smpl.load_body import load_body

GOOD: dict[str, Any] = {
    "vertices": np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1.0]]),
    "faces": np.array([[0, 2, 1], [0, 1, 3], [1, 2, 3], [0, 3, 2]], np.uint32),
    "bone": np.zeros(4, np.uint8),
    "bone_names": np.array(["ulna"]),
    "bone_joint": np.array([2], np.int8),
}


def test_bones_come_back_as_they_were_written(tmp_path):
    np.savez(tmp_path / "bones.npz", **GOOD, more=np.zeros(3))
    found = read_bone_meshes(tmp_path / "bones.npz")
    assert found.names == ("ulna",)
    assert found.joints.tolist() == [2]
    np.testing.assert_array_equal(found.surface.vertices, GOOD["vertices"])


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"bone_names": None}, 'has no array "bone_names"; it is not a file of bones'),
        ({"bone_names": np.array([b"x"])}, "must be 1 to 10,000 strings"),
        ({"vertices": np.full((4, 3), np.nan)}, "finite"),
        ({"vertices": np.zeros((4, 2))}, "vertices"),
        ({"faces": np.array([[0, 1, 9]])}, "9"),
        ({"faces": np.zeros((2, 3))}, '"faces" is float64; expected whole numbers'),
        ({"bone": np.array([7, 0, 0, 0])}, "bone"),
        ({"bone_joint": np.array([-1])}, "joints must be"),
        ({"bone_joint": np.array(["a"], object)}, "object"),
    ],
)
def test_a_damaged_file_is_refused_in_one_line(changed, said, tmp_path):
    fields = {name: value for name, value in (GOOD | changed).items() if value is not None}
    np.savez(tmp_path / "bones.npz", **fields)
    with pytest.raises(FormatError, match=said) as refused:
        read_bone_meshes(tmp_path / "bones.npz")
    assert str(refused.value).startswith("bones.npz: ")
    assert "\n" not in str(refused.value)


def test_a_hand_is_soft_around_its_bones(assets):
    folder = assets / "parametric"
    hand = load_body(folder / "openhand_right.npz", closed=True)
    bones = read_bone_meshes(folder / "hand_bones_right.npz")
    model = build(hand, handles=30, tets=3000, cubature=100, skeleton=bones)
    assert len(model.bones) == 16
    assert np.linalg.eigvalsh(model.stiffness)[0] > 0
