"""Keys of curves: few, and within what was asked."""

import numpy as np
import pytest

from supple.errors import SuppleError
from supple.formats.gltf.read.animation import Channel
from supple.maths.key_reduction import Keys, reduced_keys
from supple.maths.rotations import exponential, inverse, logarithm, multiply

TIMES = np.arange(121) / 60


def wobble(times, columns=3):
    """Damped oscillations, each at its own frequency."""
    hertz = 1.5 + np.arange(columns)
    return np.exp(-times)[:, None] * np.sin(2 * np.pi * hertz * times[:, None])


@pytest.mark.parametrize("kind", ["linear", "spline"])
@pytest.mark.parametrize("tolerance", [1e-1, 1e-2, 4e-3])
def test_no_sample_is_farther_than_the_tolerance(kind, tolerance):
    values = wobble(TIMES)
    keys = reduced_keys(TIMES, values, tolerance, kind)
    assert np.abs(keys.at(TIMES) - values).max() <= tolerance
    assert 2 < len(keys) < len(TIMES)
    assert keys.times[0] == TIMES[0]
    assert keys.times[-1] == TIMES[-1]


def test_splines_need_fewer_keys_than_lines_and_every_keeps_all():
    values = wobble(TIMES, 1)
    counts = [
        len(reduced_keys(TIMES, values, 1e-3, kind)) for kind in ("every", "linear", "spline")
    ]
    assert counts[0] == len(TIMES)
    assert counts[2] < 0.5 * counts[1] < 0.5 * counts[0]


def test_no_key_can_be_taken_away_from_lines():
    values = wobble(TIMES, 1)
    keys = reduced_keys(TIMES, values, 0.01)
    for k in range(1, len(keys) - 1):
        fewer = Keys(np.delete(keys.times, k), np.delete(keys.values, k, axis=0))
        assert np.abs(fewer.at(TIMES) - values).max() > 0.01


def test_each_component_has_its_own_tolerance():
    values = wobble(TIMES, 2)
    keys = reduced_keys(TIMES, values, [0.05, 1e9])
    alone = reduced_keys(TIMES, values[:, :1], 0.05)
    assert np.array_equal(keys.times, alone.times)


@pytest.mark.parametrize("kind", ["linear", "spline"])
def test_rotations_stay_within_an_angle_and_unit(kind):
    turns = exponential(1.5 * wobble(TIMES))
    turns[::2] *= -1  # of either sign, as files have them
    keys = reduced_keys(TIMES, turns, 0.02, kind, rotation=True)
    found = keys.at(TIMES)
    apart = logarithm(multiply(inverse(found), turns))
    angles = np.linalg.norm(apart, axis=1)
    assert np.minimum(angles, 2 * np.pi - angles).max() <= 0.02 * (1 + 1e-9)
    assert np.allclose(np.linalg.norm(found, axis=1), 1)
    assert len(keys) < 100


@pytest.mark.parametrize("kind", ["linear", "spline"])
@pytest.mark.parametrize("rotation", [False, True])
def test_between_keys_it_is_what_gltf_plays(kind, rotation):
    values = exponential(wobble(TIMES)) if rotation else wobble(TIMES)
    keys = reduced_keys(TIMES, values, 0.02, kind, rotation=rotation)
    stored, how = keys.values, "LINEAR"
    if keys.tangents is not None:
        stored = np.stack([keys.tangents, keys.values, keys.tangents], axis=1)
        how = "CUBICSPLINE"
    path = "rotation" if rotation else "translation"
    played = Channel(0, path, how, keys.times, stored).at(np.linspace(-1, 3, 999))
    assert np.allclose(keys.at(np.linspace(-1, 3, 999)), played, atol=1e-12)


@pytest.mark.parametrize("kind", ["linear", "spline"])
def test_slopes_are_those_of_the_curve(kind):
    keys = reduced_keys(TIMES, wobble(TIMES), 0.02, kind)
    at = np.linspace(0.003, 1.99, 57)
    by_difference = (keys.at(at + 1e-6) - keys.at(at - 1e-6)) / 2e-6
    assert np.allclose(keys.slope(at), by_difference, atol=1e-5)
    assert not keys.slope([-1.0, 5.0]).any()


def test_a_closed_spline_has_one_slope_at_its_seam():
    wave = np.sin(np.pi * TIMES)[:, None] + 0.3 * np.sin(3 * np.pi * TIMES)[:, None]
    wave[-1] = wave[0]
    closed = reduced_keys(TIMES, wave, 0.01, "spline", closed=True)
    assert closed.tangents is not None
    assert np.array_equal(closed.tangents[0], closed.tangents[-1])


def test_a_cut_stays_a_cut():
    values = np.where(TIMES < 1, 0.2 * TIMES, 5 + np.sin(9 * TIMES))[:, None]
    cut = int(np.argmax(TIMES >= 1))
    for kind in ("linear", "spline"):
        keys = reduced_keys(TIMES, values, 1e-3, kind, kept=[cut - 1, cut])
        assert np.isin(TIMES[[cut - 1, cut]], keys.times).all()
        assert np.abs(keys.at(TIMES) - values).max() <= 1e-3
    assert keys.tangents is not None
    assert np.allclose(keys.tangents[: np.searchsorted(keys.times, 1)], 0.2)


def test_a_constant_curve_has_two_keys_and_a_single_sample_one():
    still = reduced_keys(TIMES, np.full((len(TIMES), 4), 0.3), 0.0, "spline")
    assert len(still) == 2
    assert still.tangents is not None
    assert not still.tangents.any()
    single = reduced_keys([2.0], [[1.0]], 0.1, "spline")
    assert len(single) == 1
    assert np.array_equal(single.at([0.0, 9.0]), [[1.0], [1.0]])


@pytest.mark.parametrize(
    ("times", "values", "tolerance"),
    [
        ([0, 1], [[0.0]], 0.1),
        ([0, 0], [[0.0], [1.0]], 0.1),
        ([0, 1], [[0.0], [np.nan]], 0.1),
        ([0, 1], [[0.0], [1.0]], np.nan),
        ([0, 1], [[0.0], [1.0]], -1),
        ([], np.empty((0, 1)), 0.1),
    ],
)
def test_samples_that_are_none_are_refused_in_a_line(times, values, tolerance):
    with pytest.raises(SuppleError) as refused:
        reduced_keys(times, values, tolerance)
    assert "\n" not in str(refused.value)


def test_keys_are_on_allowed_samples_only_and_splines_follow_those_between():
    times = np.linspace(0, 1, 121)
    wave = np.sin(2 * np.pi * 6 * times)[:, None]  # four frames a swing
    allowed = np.arange(121) % 5 == 0
    keys = reduced_keys(times, wave, 0.05, "spline", allowed=allowed)
    assert set(np.round(keys.times * 120).astype(int) % 5) == {0}
    assert np.abs(keys.at(times) - wave).max() < 0.05
    frames = reduced_keys(times[allowed], wave[allowed], 0.05, "linear")
    assert np.abs(frames.at(times) - wave).max() > 0.2  # lines between frames zigzag
