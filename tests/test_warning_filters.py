"""Tests fail by a warning of flesh that nothing moves, and ignore those of calm clips."""

from __future__ import annotations

import warnings

import pytest

from supple.errors import SuppleWarning


@pytest.mark.parametrize(
    "text",
    [
        "flesh moves by at most 0 % of the size: all of the skin is held hard; use soft flesh",
        "flesh moves by at most 3e-12 % of the size: the flesh is too stiff for this motion",
    ],
)
def test_flesh_that_nothing_moves_fails_a_test(text: str):
    with pytest.raises(SuppleWarning):
        warnings.warn(f'motion "run": {text}', SuppleWarning, stacklevel=1)


@pytest.mark.parametrize("text", ["0 % of the size: the motion does not move the rig", "0.03 % of"])
def test_calm_clips_fail_no_test(text: str):
    warnings.warn(f'motion "a": flesh moves by at most {text}', SuppleWarning, stacklevel=1)


def test_a_missed_swing_fails_a_test():
    with pytest.raises(SuppleWarning):
        warnings.warn('motion "a": swing of all is 3 % instead of 4', SuppleWarning, stacklevel=1)
