"""Affine transforms taken apart into translation, rotation and scale."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from supple.maths.rotations import decompose, relative_to_parents, scaling, uniform_scale


def _composed(places: np.ndarray, turns: np.ndarray, scales: np.ndarray) -> np.ndarray:
    matrices = np.tile(np.eye(4), (len(places), 1, 1))
    matrices[:, :3, :3] = Rotation.from_quat(turns).as_matrix() * scales[:, None, :]
    matrices[:, :3, 3] = places
    return matrices


def test_transforms_come_apart_into_what_they_were_made_of():
    rng = np.random.default_rng(1)
    places, turns = rng.normal(size=(50, 3)), Rotation.random(50, random_state=2).as_quat()
    scales = rng.uniform(0.1, 3, size=(50, 3))
    scales[::2, 0] *= -1  # a mirror is a negative x scale
    matrices = _composed(places, turns, scales)
    found, shear = decompose(matrices)
    assert shear.max() < 1e-14
    again = _composed(found.translations, found.rotations, found.scales)
    np.testing.assert_allclose(again, matrices, atol=1e-14)
    np.testing.assert_allclose(found.scales, scales, rtol=1e-13)
    one, alone = decompose(matrices[3])
    np.testing.assert_array_equal(one.rotations, found.rotations[3])
    assert alone == shear[3]


def test_of_a_sheared_or_flat_transform_the_nearest_rotation_is_taken():
    sheared = np.eye(4)
    sheared[0, 1] = 0.2
    found, shear = decompose(sheared)
    assert shear == pytest.approx(0.2 / np.hypot(1, 0.2))
    turn = Rotation.from_quat(found.rotations).magnitude()
    assert 0 < turn < 0.2
    flat, shear = decompose(np.diag([1.0, 0.0, 1.0, 1.0]))
    assert shear == 0
    np.testing.assert_array_equal(flat.scales, [1, 0, 1])
    assert np.isfinite(flat.rotations).all()


def test_a_similarity_has_one_factor_and_no_other_transform_has():
    turned = _composed(np.zeros((1, 3)), np.array([[0.6, 0, 0, 0.8]]), np.full((1, 3), 2.5))[0]
    assert uniform_scale(turned) == pytest.approx(2.5)
    assert uniform_scale(turned @ scaling(-1.0)) is None
    assert uniform_scale(turned @ np.diag([1, 1.1, 1, 1])) is None


def test_transforms_relative_to_parents_multiply_up_to_those_in_the_world():
    rng = np.random.default_rng(3)
    turns = Rotation.random(8, random_state=4).as_quat()
    world = _composed(rng.normal(size=(8, 3)), turns, rng.uniform(0.5, 2, (8, 3))).reshape(
        2, 4, 4, 4
    )
    parents = np.array([-1, 0, 1, -1])
    local = relative_to_parents(world, parents)
    np.testing.assert_array_equal(local[:, [0, 3]], world[:, [0, 3]])
    np.testing.assert_allclose(world[:, [0, 1]] @ local[:, [1, 2]], world[:, [1, 2]], atol=1e-12)
