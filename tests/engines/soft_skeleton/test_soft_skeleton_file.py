"""Files of soft skeletons: the same bytes for the same seed, and one line for what is damaged."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import supple
from helpers.soft_skeleton_samples import elbow, soft_elbow, soft_skeleton_options
from supple.engines.soft_skeleton.model import SoftSkeletonModel
from supple.errors import FormatError


def test_the_same_seed_gives_the_same_bytes_and_reading_and_writing_keeps_them(tmp_path):
    first, again, reread = (tmp_path / f"{name}.supple" for name in "abc")
    soft_elbow().save(first)
    supple.build(elbow(), engine="soft-skeleton", **soft_skeleton_options()).save(again)
    assert first.read_bytes() == again.read_bytes()
    model = supple.load_model(first)
    model.save(reread)
    assert first.read_bytes() == reread.read_bytes()
    assert model.figures == soft_elbow().figures
    for one, other in zip(model.skin, soft_elbow().skin, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"parents": np.array([-1, 1])}, "does not come after its parent"),
        ({"bones": ("upper",)}, "bones with a name and a parent each"),
        ({"masses": -soft_elbow().masses}, '"masses" has a value below 0'),
        ({"areas": soft_elbow().areas[1:]}, '"areas" has shape'),
        ({"stiffness": soft_elbow().stiffness[1:]}, '"stiffness" has shape'),
        ({"joints": np.full((2, 3), np.nan)}, '"joints" is not finite everywhere'),
        ({"handles": np.array([10**6])}, '"handles" has an index that is out of range'),
        (
            {"flesh": soft_elbow().flesh._replace(columns=soft_elbow().flesh.columns * 0)},
            "does not ascend",
        ),
        (
            {"flesh": soft_elbow().flesh._replace(columns=soft_elbow().flesh.columns + 30)},
            '"flesh.columns" has an index that is out of range',
        ),
        (
            {"flesh": soft_elbow().flesh._replace(starts=soft_elbow().flesh.starts + 1)},
            '"flesh.starts" does not match the number',
        ),
        (
            {"skin": soft_elbow().skin._replace(bones=soft_elbow().skin.bones + 9)},
            '"skin.bones" has an index that is out of range',
        ),
        ({"normals": soft_elbow().normals[:2]}, '"spread.columns" has an index that is out of'),
    ],
)
def test_a_damaged_file_is_refused_in_one_line(change, said, tmp_path):
    path = tmp_path / "bad.supple"
    replace(soft_elbow(), **change).save(path)
    with pytest.raises(FormatError, match=said) as refused:
        SoftSkeletonModel.load(path)
    assert str(refused.value).startswith("bad.supple: ")
    assert "\n" not in str(refused.value)


def test_coordinates_of_the_skin_move_it_along_their_axes():
    """x, y and z of a handle are columns of their own at the skin."""
    skin = soft_elbow().skin
    counts = np.diff(skin.flesh_starts)
    assert (counts % 3 == 0).all()
    assert (skin.columns.reshape(-1, 3) % 3 == np.arange(3)).all()
    blocks = skin.shapes.reshape(-1, 3, 3)
    np.testing.assert_allclose(blocks, blocks[:, :1, :1] * np.eye(3), atol=1e-9)
