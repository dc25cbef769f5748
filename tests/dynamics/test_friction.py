"""Coulomb's friction: its cone, what sticks, and what stays positive."""

from __future__ import annotations

import numpy as np
import pytest

from supple.dynamics.friction import STICKING, checked_friction, friction_weight
from supple.errors import SuppleError

MU, LOAD = 0.6, 30.0


def normal() -> np.ndarray:
    return np.array([1.0, 2.0, 2.0]) / 3


def tangential(velocity: np.ndarray) -> np.ndarray:
    return velocity - normal() * (velocity @ normal())


def weight_at(velocity: np.ndarray) -> float:
    return friction_weight(MU, LOAD, float(np.linalg.norm(tangential(velocity))))


def force(velocity: np.ndarray) -> np.ndarray:
    return -weight_at(velocity) * tangential(velocity)


def test_sliding_friction_is_mu_times_the_load_against_the_motion():
    rng = np.random.default_rng(0)
    for velocity in rng.normal(size=(50, 3)):
        along = tangential(velocity)
        expected = -MU * LOAD * along / np.linalg.norm(along)
        np.testing.assert_allclose(force(velocity), expected, atol=1e-12)


def test_below_the_speed_of_sticking_friction_is_viscous_and_within_the_cone():
    along = np.cross(normal(), [1.0, 0, 0])
    along /= np.linalg.norm(along)
    for speed in (0.0, 0.1, 0.5, 1.0):
        actual = force(speed * STICKING * along)
        np.testing.assert_allclose(actual, -MU * LOAD * speed * along, atol=1e-12)


def test_the_weight_is_the_part_of_the_derivative_that_stays_positive():
    velocity = np.array([0.3, -0.1, 0.2])
    weight = weight_at(velocity)
    step = 1e-6
    slope = np.column_stack(
        [(force(velocity - step * e) - force(velocity + step * e)) / (2 * step) for e in np.eye(3)]
    )
    surface = np.eye(3) - np.outer(normal(), normal())
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
