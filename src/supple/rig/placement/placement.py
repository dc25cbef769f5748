"""Placing the same vertices again and again, without allocating: the rig's part of a step."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.arrays import Floats
from supple.checks import checked_array
from supple.errors import SuppleError
from supple.rig.protocol import Ints, Rig, checked_subset

__all__ = [
    "CalledPlacement",
    "DeformingPlacement",
    "Placement",
    "placement",
    "places_itself",
    "writable",
]

#: Positions are written as float64 or float32, whichever the array given has.
Positions = NDArray[np.floating[Any]]


@runtime_checkable
class Placement(Protocol):
    """A fixed list of a rig's vertices, placed for one pose after another.

    Tables are gathered when it is made, so placing checks nothing and allocates nothing. What
    the pose says must have been checked (`checked_pose`). One thread at a time may place; make a
    `fork` for each other one.
    """

    @property
    def n_points(self) -> int:
        """How many vertices are placed, k; one listed twice counts twice."""

    def place(self, pose: Floats, out: Positions) -> None:
        """Where the vertices are at a pose.

        Parameters
        ----------
        pose
            (s,) contiguous float64, finite.
        out
            (k, 3) float64 or float32, C-contiguous: overwritten. As the rig's own numbers, to
            rounding.
        """

    def fork(self) -> Placement:
        """The same tables, shared, and other room to work in: for another thread."""


@runtime_checkable
class DeformingPlacement(Placement, Protocol):
    """The placement of a `Deformer`: it can also move given points."""

    def deform(self, points: Floats, pose: Floats, out: Positions) -> None:
        """Where the vertices go, were they at `points` (k, 3) float64; `out` may be `points`."""


def placement(rig: Rig, vertices: ArrayLike | None = None, *, single: bool = False) -> Placement:
    """A placement of all vertices of a rig, or of the listed ones.

    Rigs that know how have a method ``placement(vertices, *, single=False)``, with the vertices
    None or int64 indices already checked. Others are black boxes and are called; so are rigs
    whose class inherits that method and replaces ``__call__``.

    Parameters
    ----------
    rig
        Any rig.
    vertices
        Which, in any order, also more than once; all without.
    single
        Single precision is enough: for surfaces that are drawn, not for second differences in
        time. Rigs may then work with float32 tables, or ignore it.

    Examples
    --------
    >>> from supple.rig import Twist
    >>> twist = Twist([[0.0, 0, 1], [0.0, 1, 1], [0.0, 2, 1]])
    >>> last, out = placement(twist, [2]), np.empty((1, 3))
    >>> last.place(np.array([0.0, np.pi]), out)
    >>> out.round(3)
    array([[ 0.,  2., -1.]])
    """
    if not isinstance(rig, Rig):
        raise SuppleError(f"a {type(rig).__name__} is no rig and places nothing")
    subset = checked_subset(vertices, rig.n_vertices)
    if not places_itself(rig):
        return CalledPlacement(rig, subset)
    make = rig.placement  # type: ignore[attr-defined]
    return make(subset, single=True) if single else make(subset)


def places_itself(rig: Rig) -> bool:
    """Whether the method `placement` of a rig speaks for its ``__call__``."""
    for level in type(rig).__mro__:
        if "placement" in vars(level):
            return True
        if "__call__" in vars(level):
            return False
    return False


def writable(pose: Floats) -> Floats:
    """`pose`, or a copy of a read-only one, for which compiled loops would be compiled anew."""
    return pose if pose.flags.writeable else pose.copy()


class CalledPlacement:
    """The placement of a black box: the rig is called, and its result copied.

    Parameters
    ----------
    rig
        Any rig.
    vertices
        Which of its vertices; None for all.
    """

    def __init__(self, rig: Rig, vertices: Ints | None = None) -> None:
        self.rig = rig
        self.vertices = None if vertices is None else vertices.copy()
        self._n_points = rig.n_vertices if vertices is None else len(vertices)

    @property
    def n_points(self) -> int:
        """How many vertices are placed."""
        return self._n_points

    def place(self, pose: Floats, out: Positions) -> None:
        """Where the vertices are at a pose; errors inside the rig are named."""
        # A copy of the pose: what a stranger's rig does to it must not reach the caller.
        listed = None if self.vertices is None else self.vertices.copy()
        try:
            result = self.rig(pose.copy(), listed)
        except SuppleError:
            raise
        except Exception as error:
            which = f"the rig, a {type(self.rig).__name__}, failed"
            raise SuppleError(f"{which}: {type(error).__name__}: {error}") from error
        out[:] = checked_array("the rig's positions", result, (self._n_points, 3))

    def fork(self) -> CalledPlacement:
        """The same: nothing is kept between calls."""
        return CalledPlacement(self.rig, self.vertices)
