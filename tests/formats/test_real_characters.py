"""Real characters, from the file to tets that follow the rig."""

import warnings
from time import perf_counter

import numpy as np
import pytest

import supple
from supple.errors import SuppleWarning
from supple.formats.research import read_complementary
from supple.rig.character import Character

CLIPS = ["mh_heavy_male_jump", "mh_arm_flex", "q_Rat", "q_Trex", "q_Husky", "q_Cow", "CesiumMan"]


def loaded(assets, name: str) -> Character:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SuppleWarning)  # their defects have tests of their own
        if name == "elephant":
            folder = assets / "complementary_dynamics/elephant"
            return read_complementary(folder / "elephant.json").character
        return supple.load(assets / f"gltf_characters/{name}.glb")


#: Tets; `make exam` has many more, of all characters.
TETS = 1500
#: Tets that may stay inverted, summed over all frames, where clips fold the body most.
STUBBORN = {"elephant": 15}


@pytest.mark.parametrize("name", [*CLIPS, "hand_left", "elephant"])
def test_tets_follow_the_rig_through_all_clips_and_stay_sound(assets, name):
    character = loaded(assets, name)
    began = perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SuppleWarning)
        flesh = character.fit_tet_body(4, tets=TETS)
    print(f"{name}: {len(flesh.mesh.tets)} tets in {perf_counter() - began:.1f} s")
    assert 0.85 * TETS <= len(flesh.mesh.tets) <= 1.15 * TETS
    assert flesh.rest_error() < 0.01 * character.surface.size
    assert not any(len(tets) for tets in flesh.tet_rig.inversions(flesh.tet_rig.poses))
    inverted = flesh.tet_rig.inversions(character.sampled_poses())
    assert sum(map(len, inverted)) <= STUBBORN.get(name, 0)
    assert 0 < len(flesh.fixed) < len(flesh.mesh.vertices)
    at_rest = flesh.tet_rig(character.rig.rest_pose)
    np.testing.assert_allclose(at_rest, flesh.mesh.vertices, atol=1e-5 * character.surface.size)


@pytest.mark.filterwarnings("ignore::supple.errors.SuppleWarning")
def test_options_reach_the_fits_and_progress_ends_at_one(assets):
    character = loaded(assets, "CesiumMan")
    told: list[float] = []
    flesh = character.fit_tet_body(
        np.int64(2), tets=1500, gamma=2.5, progress=lambda part, what: told.append(part)
    )
    assert {fit.gamma for fit in flesh.tet_rig.fits} == {2.5}
    assert told == sorted(told)
    assert told[-1] == 1.0
    some = np.array([3, 50, 7])
    pose = character.sampled_poses()[5]
    np.testing.assert_array_equal(flesh.tet_rig(pose, some), flesh.tet_rig(pose)[some])
