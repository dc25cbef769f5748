"""Jacobians of rigs: the protocols, and central differences for rigs that provide none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol, runtime_checkable

import numpy as np

from supple.arrays import Floats, Ints
from supple.errors import SuppleError
from supple.rig.placement.placement import DeformingPlacement, Positions, placement
from supple.rig.protocol import Rig, optional_method

#: Step of central differences; their relative error is of order 1e-10.
STEP = 1e-5
#: Step of second differences.
SECOND_STEP = 1e-4


@runtime_checkable
class Jacobian(Protocol):
    """Derivative ∂Φ/∂p of some vertices of a rig with respect to some of its parameters."""

    @property
    def affine(self) -> bool:
        """True if the derivative does not change with these parameters, whatever the others are."""

    def evaluate(self, pose: Floats, out: Floats) -> None:
        """Write the derivative at a checked pose (s,) into `out` (m, 3, k)."""


@runtime_checkable
class LinkJacobian(Protocol):
    """Derivatives of a rig that moves given points, as one link of a `RigChain`."""

    @property
    def affine(self) -> bool:
        """True if ∂x/∂p does not depend on these parameters, whatever the others are."""

    @property
    def straight(self) -> bool:
        """True if positions are affine in the points: ∂x/∂X does not depend on the points."""

    def evaluate_points(self, points: Floats, pose: Floats, out: Floats) -> None:
        """Write ∂x/∂p (m, 3, k) of vertices that start at `points` (m, 3)."""

    def write_slopes(self, points: Floats, pose: Floats, out: Positions) -> None:
        """Write ∂x/∂X (m, 3, 3) at `points` X (m, 3)."""


def rig_jacobian(
    rig: Rig, entries: Ints, vertices: Ints | None = None, *, differences: bool = False
) -> Jacobian:
    """Return the Jacobian of some vertices (m,) of a rig, or of all, by parameters `entries` (k,).

    It is the rig's ``jacobian(entries, vertices)``, unless there is no such method
    or it returns None. Otherwise, and always with `differences`, derivatives are central
    differences: two placements for each parameter.

    Examples
    --------
    >>> from supple.rig import Wire
    >>> wire = Wire([[0.5, 0, 0]], [[0, 0, 0], [1, 0, 0]], dropoff=1)
    >>> out = np.empty((1, 3, 2))
    >>> rig_jacobian(wire, np.array([2, 5])).evaluate(np.zeros(6), out)
    >>> out[0, 2]
    array([0.5, 0.5])
    """
    entries = np.asarray(entries, np.int64)
    analytic = None if differences else analytic_jacobian(rig, entries, vertices)
    if analytic is None:
        return DifferencedJacobian(rig, entries, vertices)
    _check_members(rig, analytic, ("affine", "evaluate"))
    return analytic


def analytic_jacobian(rig: Rig, entries: Ints, vertices: Ints | None = None) -> Jacobian | None:
    """Return the Jacobian that the rig itself provides; None if there is none."""
    make = optional_method(rig, "jacobian")
    return None if make is None else make(entries, vertices)


def link_jacobian(rig: Rig, entries: Ints, vertices: Ints | None = None) -> LinkJacobian | None:
    """Return the Jacobian that the rig provides for given points; None if there is none."""
    analytic: Any = analytic_jacobian(rig, entries, vertices)
    if not (hasattr(analytic, "evaluate_points") or hasattr(analytic, "write_slopes")):
        return None
    _check_members(rig, analytic, ("affine", "straight", "evaluate_points", "write_slopes"))
    return analytic


def _check_members(rig: Rig, jacobian: object, names: Sequence[str]) -> None:
    for name in names:
        if not hasattr(jacobian, name):
            which = f"the Jacobian of a {type(rig).__name__}, a {type(jacobian).__name__},"
            raise SuppleError(f"{which} has no `{name}`; add it")


class DifferencedJacobian:
    """Jacobian of any rig by central differences: two placements for each parameter."""

    affine = False
    differenced = True

    def __init__(self, rig: Rig, entries: Ints, vertices: Ints | None = None) -> None:
        self._placement = placement(rig, vertices)
        self._entries = np.asarray(entries, np.int64)
        self._pose = np.array(rig.rest_pose, np.float64)
        self._ahead, self._behind = np.empty((2, self._placement.n_points, 3))

    def evaluate(self, pose: Floats, out: Floats) -> None:
        """Write ∂Φ/∂p (m, 3, k) at a pose, by central differences."""
        self._pose[:] = pose
        _write_differences(
            self._placement.place, self._pose, self._entries, self._ahead, self._behind, out
        )


class DifferencedLink:
    """Derivatives of any rig that moves points, by central differences.

    All points move at the same time: slopes take six placements for any number of points.
    """

    affine = straight = False
    differenced = True

    def __init__(self, placed: DeformingPlacement, entries: Ints) -> None:
        self._placed, self._entries = placed, entries
        self._points, self._ahead, self._behind = np.empty((3, placed.n_points, 3))

    def evaluate_points(self, points: Floats, pose: Floats, out: Floats) -> None:
        """Write ∂x/∂p (m, 3, k)."""
        place = partial(self._placed.deform, points)
        _write_differences(place, pose.copy(), self._entries, self._ahead, self._behind, out)

    def write_slopes(self, points: Floats, pose: Floats, out: Positions) -> None:
        """Write ∂x/∂X (m, 3, 3)."""
        length = STEP * max(float(np.ptp(points, axis=0).max(initial=0.0)), 1e-9)
        for axis in range(3):
            for step, target in ((length, self._ahead), (-length, self._behind)):
                np.copyto(self._points, points)
                self._points[:, axis] += step
                self._placed.deform(self._points, pose, target)
            np.subtract(self._ahead, self._behind, out=self._ahead)
            np.multiply(self._ahead, 0.5 / length, out=out[:, :, axis])


def _write_differences(
    place: Callable[[Floats, Floats], None],
    pose: Floats,
    entries: Ints,
    ahead: Floats,
    behind: Floats,
    out: Floats,
) -> None:
    """Write central differences (m, 3, k) of the positions that `place` writes at `pose`.

    `pose` is changed during the call and restored; `ahead` and `behind` (m, 3) are scratch.
    """
    for column, entry in enumerate(entries):
        value = pose[entry]
        for step, target in ((STEP, ahead), (-STEP, behind)):
            pose[entry] = value + step
            place(pose, target)
        pose[entry] = value
        np.subtract(ahead, behind, out=ahead)
        np.multiply(ahead, 0.5 / STEP, out=out[:, :, column])


def second_differences(function: Callable[[Floats], float], p: Floats) -> Floats:
    """Return the Hessian (k, k) of a function of parameters p (k,): two values for each pair."""
    k, h = len(p), SECOND_STEP
    steps, terms, here = h * np.eye(k), np.zeros((k, k)), function(p)
    ahead, behind = ([function(p + sign * step) for step in steps] for sign in (1, -1))
    for i in range(k):
        terms[i, i] = ahead[i] - 2 * here + behind[i]
        for j in range(i):
            both = function(p + steps[i] + steps[j]) + function(p - steps[i] - steps[j])
            alone = ahead[i] + ahead[j] + behind[i] + behind[j]
            terms[i, j] = terms[j, i] = 0.5 * (both + 2 * here - alone)
    return terms / h**2
