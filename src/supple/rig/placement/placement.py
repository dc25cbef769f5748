"""Placements: the same vertices of a rig, evaluated pose after pose without allocating.

They are the rig's part of a simulation step.
"""

from __future__ import annotations

from typing import Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.arrays import Floats, Ints
from supple.checks import checked_array
from supple.errors import SuppleError
from supple.rig.protocol import Rig, checked_subset

#: Positions are written as float64 or float32, whichever the array given has.
Positions = NDArray[np.floating[Any]]


@runtime_checkable
class Placement(Protocol):
    """A fixed list of a rig's vertices, placed for one pose after another.

    Tables are gathered when it is made, so placing checks nothing and allocates nothing. The pose
    must have been checked (`checked_pose`). One thread at a time may place; make a `fork` for each
    other one.
    """

    @property
    def n_points(self) -> int:
        """Number k of vertices placed; one listed twice counts twice."""

    def place(self, pose: Floats, out: Positions) -> None:
        """Write the positions of the vertices at a pose.

        Parameters
        ----------
        pose
            (s,) contiguous float64, finite.
        out
            (k, 3) float64 or float32, C-contiguous: overwritten. The same numbers as a call of the
            rig gives, to rounding.
        """

    def fork(self) -> Placement:
        """Return a placement that shares the tables and has its own scratch memory."""


@runtime_checkable
class DeformingPlacement(Placement, Protocol):
    """Placement of a `Deformer`: it can also move given points."""

    def deform(self, points: Floats, pose: Floats, out: Positions) -> None:
        """Move vertices from `points` (k, 3) float64 instead of their rest points.

        `out` may be `points`.
        """


class Forkable:
    """Base of what shares tables between threads, each with scratch memory of its own.

    A subclass allocates its scratch memory in `_allocate`, which it also calls at the end of its
    constructor, and lists in `_forked` the attributes that are forked along with it.
    """

    _forked: ClassVar[tuple[str, ...]] = ()

    def _allocate(self) -> None:
        """Allocate the scratch memory."""

    def fork(self) -> Self:
        """Return a twin that shares the tables and has its own scratch memory."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        for name in self._forked:
            setattr(twin, name, getattr(self, name).fork())
        twin._allocate()
        return twin


def placement(rig: Rig, vertices: ArrayLike | None = None, *, single: bool = False) -> Placement:
    """Return a placement of all vertices of a rig, or of the listed ones.

    Rigs that know how have a method ``placement(vertices, *, single=False)``, with the vertices
    None or int64 indices already checked. Others are black boxes and are called; so are rigs
    whose class inherits that method and replaces ``__call__``.

    Parameters
    ----------
    rig
        Any rig.
    vertices
        Indices in any order, also repeated ones; all vertices without.
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
    """Tell whether a rig's method `placement` places vertices as its ``__call__`` does."""
    for level in type(rig).__mro__:
        if "placement" in vars(level):
            return True
        if "__call__" in vars(level):
            return False
    return False


def writable(pose: Floats) -> Floats:
    """Return `pose`, or a copy of a read-only one: for those Numba compiles loops once more."""
    return pose if pose.flags.writeable else pose.copy()


class CalledPlacement:
    """Placement of a black box: the rig is called, and its result copied.

    Parameters
    ----------
    rig
        Any rig.
    vertices
        Indices of its vertices; None for all.
    """

    def __init__(self, rig: Rig, vertices: Ints | None = None) -> None:
        self.rig = rig
        self.vertices = None if vertices is None else vertices.copy()
        self._n_points = rig.n_vertices if vertices is None else len(vertices)

    @property
    def n_points(self) -> int:
        """Number of vertices placed."""
        return self._n_points

    def place(self, pose: Floats, out: Positions) -> None:
        """Write the positions (k, 3) at a pose; an error inside the rig names the rig."""
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
        """Return an equal one: nothing is kept between calls."""
        return CalledPlacement(self.rig, self.vertices)
