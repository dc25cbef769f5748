"""Inputs of a soft skeleton's steps: interpolation and checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats
from supple.checks import checked_number
from supple.engines.common.option_record import OptionRecord
from supple.engines.soft_skeleton.bones.joint_springs import HIGHEST
from supple.errors import SuppleError

#: Default frequency in Hz of springs to the pose, and stiffness in N m/rad per kg beyond a joint:
#: that of 8 Hz for a limb of 0.4 m, and of 60 Hz for a finger.
TRACKING, STRENGTH = 8.0, 400.0


@dataclass(frozen=True, eq=False, kw_only=True)
class SoftSkeletonOptions(OptionRecord):
    """Options of `SoftSkeletonSimulator`, which documents and checks them."""

    substep: float = 1 / 90
    integrator: str = "bdf2"
    iterations: int = 1
    most_iterations: int = 4
    tracking: float | None = None
    strength: float | None = None
    root: str = "driven"
    gravity: ArrayLike = (0.0, -9.81, 0.0)
    sag: bool = False
    alpha: float = 0.5
    beta: float = 0.01
    joint_stiffness: float = 0.0
    joint_damping: float = 0.5
    joint_limits: Mapping[str, Any] | Literal["motions"] | None = "motions"
    friction: float = 0.5
    self_contact: bool = True


def between_roots(root: Floats, other: Floats) -> Floats:
    """Return the root halfway between two roots that are near each other."""
    middle = 0.5 * (root + other)
    u, _, v = np.linalg.svd(middle[:3, :3])
    middle[:3, :3] = u @ v
    return middle


def positive_seconds(what: str, value: float) -> float:
    """Return a time in s; raise an error unless it is positive."""
    number = checked_number(what, value)
    if number <= 0:
        raise SuppleError(f"{what} is {number:g} s; it must be positive")
    return number


def tracking_of(options: SoftSkeletonOptions) -> tuple[float, float]:
    """Return frequency in Hz and strength in N m/(rad kg) of the springs to the pose."""
    frequency, strength = options.tracking, options.strength
    if strength is None:
        strength = STRENGTH if frequency is None else 0.0
    return TRACKING if frequency is None else frequency, strength


def checked_tracking(frequency: float) -> float:
    """Return a frequency in Hz of springs to the pose; raise an error unless it is 0 to 1000."""
    number = checked_number("tracking", frequency)
    if not 0 <= number <= HIGHEST:
        raise SuppleError(f"tracking is {number:g} Hz; use 0 for a limp body, or up to {HIGHEST:g}")
    return number


def not_negative(what: str, value: float, unit: str = "") -> float:
    """Return a number; raise an error if it is negative."""
    number = checked_number(what, value)
    if number < 0:
        raise SuppleError(f"{what} is {number:g}{unit}; it must not be negative")
    return number
