"""Coulomb's friction: its cone, what sticks, and what stays positive."""

from __future__ import annotations

import numpy as np
import pytest

from supple.dynamics.friction import STICKING, checked_friction, friction_force, friction_weight
from supple.errors import SuppleError

MU, LOAD = 0.6, 30.0


def way_out() -> np.ndarray:
    return np.array([1.0, 2.0, 2.0]) / 3


def force(velocity: np.ndarray) -> np.ndarray:
    return np.array(friction_force(MU, LOAD, *velocity, *way_out())[:3])


def test_sliding_friction_is_mu_times_the_load_against_the_motion():
    rng = np.random.default_rng(0)
    for velocity in rng.normal(size=(50, 3)):
        along = velocity - way_out() * (velocity @ way_out())
        expected = -MU * LOAD * along / np.linalg.norm(along)
        np.testing.assert_allclose(force(velocity), expected, atol=1e-12)


def test_below_the_speed_of_sticking_friction_is_viscous_and_within_the_cone():
    along = np.cross(way_out(), [1.0, 0, 0])
    along /= np.linalg.norm(along)
    for speed in (0.0, 0.1, 0.5, 1.0):
        found = force(speed * STICKING * along)
        np.testing.assert_allclose(found, -MU * LOAD * speed * along, atol=1e-12)


def test_the_weight_is_the_part_of_the_derivative_that_stays_positive():
    velocity = np.array([0.3, -0.1, 0.2])
    weight = friction_force(MU, LOAD, *velocity, *way_out())[3]
    step = 1e-6
    slope = np.column_stack(
        [(force(velocity - step * e) - force(velocity + step * e)) / (2 * step) for e in np.eye(3)]
    )
    surface = np.eye(3) - np.outer(way_out(), way_out())
    along = surface @ velocity / np.linalg.norm(surface @ velocity)
    np.testing.assert_allclose(
        slope, weight * (surface - np.outer(along, along)), atol=1e-6 * weight
    )


def test_a_separating_contact_has_no_friction():
    assert friction_weight(MU, -LOAD, 1.0) == 0.0
    assert friction_weight(0.0, LOAD, 0.0) == 0.0


@pytest.mark.parametrize("value", [-0.1, np.nan, 11, "slippery", None])
def test_invalid_friction_is_refused(value):
    with pytest.raises(SuppleError, match="friction"):
        checked_friction(value)
