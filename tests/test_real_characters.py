"""Real characters, from the file to tets that follow the rig."""

import warnings

import numpy as np
import pytest

import supple
from supple.errors import SuppleWarning
from supple.formats.complementary import read_complementary
from supple.rig import Character

CLIPS = ["mh_heavy_male_jump", "mh_arm_flex", "q_Rat", "q_Trex", "q_Husky", "q_Cow", "CesiumMan"]


def loaded(assets, name: str) -> Character:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SuppleWarning)  # their defects have tests of their own
        if name == "elephant":
            folder = assets / "complementary_dynamics/elephant"
            return read_complementary(folder / "elephant.json").character
        return supple.load(assets / f"gltf_characters/{name}.glb")


@pytest.mark.parametrize("name", [*CLIPS, "hand_left", "elephant"])
def test_tets_follow_the_rig_and_none_is_inverted_at_an_example_pose(assets, name):
    character = loaded(assets, name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SuppleWarning)
        flesh = character.flesh_out(4, tets=4000, most_added=2)
    assert 0.85 * 4000 <= len(flesh.mesh.tets) <= 1.15 * 4000
    assert flesh.rest_error() < 0.01 * character.surface.size
    assert not any(len(tets) for tets in flesh.tet_rig.inversions(flesh.tet_rig.poses))
    assert 0 < len(flesh.fixed) < len(flesh.mesh.vertices)
    at_rest = flesh.tet_rig(character.rig.rest_pose)
    np.testing.assert_allclose(at_rest, flesh.mesh.vertices, atol=1e-5 * character.surface.size)
