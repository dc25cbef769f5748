"""Placements: evaluation of fixed vertices of a rig, pose after pose, without allocation.

A simulation step evaluates rigs through them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.arrays import Floats, Ints
from supple.checks import checked_array
from supple.compiled.jit import compiled_plain
from supple.compiled.program import KernelCall
from supple.errors import SuppleError
from supple.rig.protocol import Deformer, Rig, checked_deformer, checked_subset, optional_method

#: Positions are written as float64 or float32, as the output array has it.
Positions = NDArray[np.floating[Any]]


@runtime_checkable
class Placement(Protocol):
    """A fixed list of a rig's vertices, placed for one pose after another.

    Tables are made in advance, so that `place` neither checks nor allocates. The pose must have
    been checked (`checked_pose`). Only one thread may use a placement; others use a `fork`.
    """

    @property
    def n_points(self) -> int:
        """Number k of vertices placed; repeated vertices count each time."""

    def place(self, pose: Floats, out: Positions) -> None:
        """Write positions at a finite, contiguous float64 pose (s,) to `out` (k, 3).

        `out` is C-contiguous float64 or float32; the result equals the rig's up to rounding.
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
    """Base class of objects whose copies share tables and have separate scratch memory.

    A subclass allocates its scratch memory in `_allocate`, which its constructor calls at the end,
    and lists in `_forked` the attributes that are forked along with it.
    """

    _forked: ClassVar[tuple[str, ...]] = ()

    def _allocate(self) -> None:
        """Allocate the scratch memory."""

    def fork(self) -> Self:
        """Return a copy that shares the tables and has its own scratch memory."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        for name in self._forked:
            part = getattr(self, name)
            setattr(twin, name, None if part is None else part.fork())
        twin._allocate()
        return twin


def placement(rig: Rig, vertices: ArrayLike | None = None, *, single: bool = False) -> Placement:
    """Return a placement of all vertices of a rig, or of a list in any order, with repetitions.

    A rig's method ``placement(vertices, *, single=False)`` makes it, from None or checked int64
    indices. Rigs without that method, or whose class inherits it and replaces ``__call__``, are
    called instead, for given points by ``deform``. With `single`, for surfaces that are drawn but
    not differenced in time, rigs may use float32 tables.

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
        raise SuppleError(f"{type(rig).__name__} is not a rig")
    subset = checked_subset(vertices, rig.n_vertices)
    make = optional_method(rig, "placement")
    if make is None:
        return (CalledDeformer if _moves_points(rig) else CalledPlacement)(rig, subset)
    return make(subset, single=True) if single else make(subset)


def _moves_points(rig: Rig) -> bool:
    try:
        return bool(checked_deformer("the rig", rig))
    except SuppleError:
        return False


def writable(pose: Floats) -> Floats:
    """Return `pose`; a copy if it is read-only, for which Numba would compile kernels again."""
    return pose if pose.flags.writeable else pose.copy()


def placement_calls(placed: Placement, pose: Floats, out: Positions) -> list[KernelCall]:
    """Return the calls of compiled functions by which a placement writes positions at a pose.

    `pose` (s,) and `out` (k, 3) are the arrays of all later runs. A placement lists its calls in
    its method ``calls``; one that only Python can evaluate is refused.
    """
    calls = getattr(placed, "calls", None)
    if calls is None:
        whose = placed.rig if isinstance(placed, CalledPlacement) else placed
        what = type(whose).__name__.removeprefix("_").removesuffix("Placement")
        raise SuppleError(f"only Python can evaluate the rig, which has a {what}; see docs/live.md")
    listed: list[KernelCall] = calls(pose, out)
    return listed


def deform_calls(
    placed: Placement, points: Floats, pose: Floats, out: Positions
) -> list[KernelCall]:
    """Return the calls by which a placement moves given points; see `placement_calls`."""
    calls = getattr(placed, "deform_calls", None)
    listed: list[KernelCall] = (
        placement_calls(placed, pose, out) if calls is None else calls(points, pose, out)
    )
    return listed


@compiled_plain
def copy_numbers(source, to):  # type: ignore[no-untyped-def]
    """Copy the entries of an array into one of the same size, rounded to its precision."""
    values, target = source.reshape(source.size), to.reshape(to.size)
    for i in range(len(values)):
        target[i] = values[i]


class CalledPlacement:
    """Placement that calls the rig and copies the result, for rigs without a placement."""

    def __init__(self, rig: Rig, vertices: Ints | None = None) -> None:
        self.rig = rig
        self.vertices = None if vertices is None else vertices.copy()
        self.n_points = rig.n_vertices if vertices is None else len(vertices)

    def place(self, pose: Floats, out: Positions) -> None:
        """Write the positions (k, 3) at a pose."""
        self._write(out, self.rig, pose)

    def _write(self, out: Positions, function: Callable[..., Any], *arguments: Floats) -> None:
        """Write the result of `function`, the rig or its method ``deform``, to `out` (k, 3)."""
        # Copies, as the rig may modify its arguments.
        listed = None if self.vertices is None else self.vertices.copy()
        result = called(self.rig, function, *(each.copy() for each in arguments), listed)
        name = type(self.rig).__name__
        what = "the rig's positions" if name == "FunctionRig" else f"positions of the rig, a {name}"
        out[:] = checked_array(what, result, (self.n_points, 3))

    def fork(self) -> Self:
        """Return an equal placement of the same rig; there is no scratch memory to separate."""
        return type(self)(self.rig, self.vertices)


class CalledDeformer(CalledPlacement):
    """Placement of a `Deformer` without a placement, which can also move given points."""

    rig: Deformer

    def deform(self, points: Floats, pose: Floats, out: Positions) -> None:
        """Move vertices from `points` (k, 3); `out` may be `points`."""
        self._write(out, self.rig.deform, points, pose)


def called(rig: Rig, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a rig or its method; an error of its code names the rig's class."""
    try:
        return function(*arguments)
    except SuppleError:
        raise
    except Exception as error:
        which = f"the rig, a {type(rig).__name__}, failed"
        raise SuppleError(f"{which}: {type(error).__name__}: {error}") from error
