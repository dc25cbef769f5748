"""The rig protocol: a function from a pose to positions of a surface's vertices, all or some."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints, ShortInts
from supple.checks import checked_array, numbers, owned_array
from supple.errors import SuppleError

UNITS = ("rad", "m", "1")
#: Largest value of a parameter: beyond any real pose, and squares do not overflow.
LARGEST_VALUE = 1e9


@dataclass(frozen=True)
class Parameter:
    """Parameter of a rig: one number of a pose.

    Parameters
    ----------
    name : str
        Unique within its rig.
    unit : {"rad", "m", "1"}
        Radians, metres, or a pure number.
    rest : float
        Value in the rest pose.
    """

    name: str
    unit: str
    rest: float = 0.0

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise SuppleError(f'parameter "{self.name}": unit "{self.unit}"; use rad, m or 1')
        if not np.isfinite(self.rest):
            raise SuppleError(f'parameter "{self.name}": the rest value is not finite')


@runtime_checkable
class Rig(Protocol):
    """Anything that places a surface's vertices for a pose.

    A class may have further methods, which are looked up by name (`optional_method`):

    ``placement(vertices, *, single=False) -> Placement``
        Evaluation without allocation. Without it the rig, or its ``deform``, is called.
    ``jacobian(entries, vertices) -> Jacobian | None``
        Analytic derivative of the listed vertices, or of all for None, by the parameters with these
        indices; in a chain, after other rigs, also a `LinkJacobian`. Without it, or for None,
        central differences are used.
    ``on_tets(transfer) -> Rig | None``
        The same rig for the vertices of tets, with the same parameters; see `TetTransfer`. In the
        rest pose it leaves `transfer.vertices` in place. Without it tet vertices follow the
        nearest surface vertices.
    ``offset_matrices(points, pose) -> (n, 3, 3) array``
        ∂x/∂X, for inverse skinning; only of a deformer whose positions are affine in its points.
        Without it matrices are differenced, and offsets found by iteration.
    ``stored_fields``, a tuple of declared fields, and the class method ``restored(**fields)``
        Storage in model files, for classes that `register_deformer` adds. Without fields a model
        file needs the rig again when it is read; without ``restored`` the constructor takes the
        fields.
    """

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Name, unit and rest value of each number of a pose."""

    @property
    def n_vertices(self) -> int:
        """Number of vertices placed."""

    @property
    def rest_pose(self) -> Floats:
        """The pose in which every parameter has its rest value, (s,)."""

    def __call__(self, pose: ArrayLike, vertices: ArrayLike | None = None) -> Floats:
        """Return positions (n, 3) of all vertices in metres, or rows (k, 3) of listed vertices."""


@runtime_checkable
class Deformer(Rig, Protocol):
    """A rig that moves given points, so that it can follow another rig in a chain."""

    @property
    def rest_points(self) -> Floats:
        """Points that a call without points moves, (n, 3)."""

    def deform(
        self, points: ArrayLike, pose: ArrayLike, vertices: ArrayLike | None = None
    ) -> Floats:
        """Return positions (k, 3) of the vertices if they start at `points` (k, 3).

        Row i of `points` is vertex i, or vertex ``vertices[i]``. Data of a vertex, such as weights
        or its parameter along a curve, do not change with its point.
        """


class TetTransfer(Protocol):
    """Extension of values on a surface to the tets that fill it; argument of ``on_tets``."""

    @property
    def vertices(self) -> Floats:
        """Tet vertices (n, 3) at the rest pose."""

    def extended(self, values: Floats) -> Floats:
        """Extend values (n̄,) or (n̄, c) of the surface's vertices smoothly to the tet vertices.

        Extended values may slightly leave the range of the surface's values.
        """

    def extended_displacements(self, deltas: Floats) -> Floats:
        """Extend sets of displacements (…, n̄, 3) to (…, n, 3).

        Displacements below a small fraction of the largest of their set become zero.
        """

    def influences(self, skin: Any) -> tuple[ShortInts, Floats]:
        """Extend the weights of a `SkinnedRig`; return joints (n, k) and weights (n, k)."""

    def rig(self, rig: Rig) -> Rig | None:
        """Return a rig of the surface, such as a base, for tet vertices; None if there is none."""


def optional_method(rig: Rig, name: str) -> Callable[..., Any] | None:
    """Return an optional method of a rig, or None; see `Rig`.

    An inherited method does not count where a subclass replaces ``__call__`` or another method: it
    might describe the positions of the base class.
    """
    levels = type(rig).__mro__
    for k, level in enumerate(levels):
        if name in vars(level):
            return getattr(rig, name)
        if any(_is_replaced(method, levels[k + 1 :]) for method in vars(level)):
            return None
    return None


def _is_replaced(name: str, bases: Sequence[type]) -> bool:
    """Return whether a base class has a method of this name that is not abstract."""
    if name.startswith("__") and name != "__call__":
        return False
    attributes = [vars(base)[name] for base in bases if name in vars(base)]
    methods = [one for one in attributes if callable(one) or isinstance(one, property)]
    return any(not getattr(method, "__isabstractmethod__", False) for method in methods)


_function_lock = threading.RLock()


class FunctionRig:
    """A rig made of a Python function.

    Parameters
    ----------
    function : callable
        ``function(pose) -> (n, 3)``, or ``function(pose, vertices) -> (k, 3)`` with
        ``vertices`` None for all; without the second argument a subset costs as much as all.
    parameters : sequence of Parameter
    n_vertices : int

    Examples
    --------
    >>> rig = FunctionRig(lambda pose: [[pose[0], 0, 0]], [Parameter("slide", "m", 0.5)], 1)
    >>> rig(rig.rest_pose)
    array([[0.5, 0. , 0. ]])
    """

    def __init__(
        self, function: Callable[..., ArrayLike], parameters: Sequence[Parameter], n_vertices: int
    ) -> None:
        if not callable(function):
            raise SuppleError("a function rig needs a function of the pose")
        if n_vertices < 1:
            raise SuppleError(f"a rig of {n_vertices} vertices; it needs at least one")
        self.function = function
        self.parameters = checked_parameters(parameters)
        self.n_vertices = int(n_vertices)
        self.rest_pose = rest_values(self.parameters)
        self._takes_vertices = _takes_second_argument(function)

    def __call__(self, pose: ArrayLike, vertices: ArrayLike | None = None) -> Floats:
        """Return positions of all vertices, or of the listed vertices."""
        values = checked_pose(self.parameters, pose)
        subset = checked_subset(vertices, self.n_vertices)
        try:
            # The function may modify its arguments and need not be thread-safe.
            with _function_lock:
                if self._takes_vertices:
                    result = self.function(values.copy(), None if subset is None else subset.copy())
                else:
                    result = self.function(values.copy())
        except SuppleError:
            raise
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
            raise SuppleError(f"the rig function failed: {what}") from error
        if subset is None or self._takes_vertices:
            rows = self.n_vertices if subset is None else len(subset)
            return owned_array("the rig function's result", result, (rows, 3))
        return owned_array("the rig function's result", result, (self.n_vertices, 3))[subset]


def _takes_second_argument(function: Callable[..., ArrayLike]) -> bool:
    try:
        signature = inspect.signature(function)
        signature.bind(None, None)
    except (TypeError, ValueError):
        return False
    # A second parameter with a default, such as a captured constant, is not a list of vertices.
    parameters = list(signature.parameters.values())
    if len(parameters) < 2 or parameters[1].name == "vertices":
        return True
    return parameters[1].default is inspect.Parameter.empty


def checked_deformer(what: str, rig: Rig) -> Deformer:
    """Return `rig` if it can move given points, else raise SuppleError; `what` names the rig."""
    # `rest_points` of a chain or a correction raises an error if its base cannot move points.
    if not isinstance(rig, Deformer) or rig.rest_points is None:
        raise SuppleError(f"{what}, a {type(rig).__name__}, cannot move given points")
    return rig


def checked_parameters(parameters: Sequence[Parameter]) -> tuple[Parameter, ...]:
    """Check that names are unique, and return the parameters as a tuple."""
    names: set[str] = set()
    for parameter in parameters:
        if not isinstance(parameter, Parameter):
            raise SuppleError(f"{parameter!r} is not a rig parameter; use supple.rig.Parameter")
        if parameter.name in names:
            raise SuppleError(f'two rig parameters are called "{parameter.name}"; rename one')
        names.add(parameter.name)
    return tuple(parameters)


def rest_values(parameters: Sequence[Parameter]) -> Floats:
    """Return the rest pose of these parameters, read-only."""
    rest = np.array([parameter.rest for parameter in parameters], dtype=np.float64)
    rest.flags.writeable = False
    return rest


def checked_pose(parameters: Sequence[Parameter], pose: ArrayLike) -> Floats:
    """Return `pose` as float64 (s,); check its length and that values are finite and not huge."""
    values = np.ascontiguousarray(numbers("a pose", pose))
    if values.shape != (len(parameters),):
        raise SuppleError(f"pose of shape {values.shape}; the rig has {len(parameters)} parameters")
    usable = np.abs(values) <= LARGEST_VALUE
    if not usable.all():
        bad = int(np.argmin(usable))
        name, value = parameters[bad].name, values[bad]
        if np.isfinite(value):
            raise SuppleError(f'pose: "{name}" is {value:.3g}; use at most {LARGEST_VALUE:.0e}')
        raise SuppleError(f'pose: "{name}" is not finite')
    return values


def checked_subset(vertices: ArrayLike | None, n_vertices: int) -> Ints | None:
    """Return vertex indices (k,) as int64 after checking their range; None means all vertices."""
    if vertices is None:
        return None
    listed = np.asarray(vertices)
    if listed.ndim != 1 or (listed.size and listed.dtype.kind not in "iu"):
        raise SuppleError("a subset of vertices must be a list of indices")
    # Writable: for read-only arrays Numba would compile kernels again.
    subset = np.require(listed, np.int64, ["C", "W"])
    if subset.size and not (subset.min() >= 0 and subset.max() < n_vertices):
        bad = int(subset[(subset < 0) | (subset >= n_vertices)][0])
        raise SuppleError(f"vertex {bad} does not exist; the rig has {n_vertices:,}")
    return subset


def checked_cloud(what: str, points: ArrayLike) -> Floats:
    """Return a copy of points (n, 3); check that all are finite and that there is at least one."""
    array = numbers(what, points, "numbers of shape (n, 3)")
    if array.ndim != 2 or array.shape[1] != 3:
        raise SuppleError(f"{what}: shape {array.shape}; expected (n, 3)")
    if len(array) == 0:
        raise SuppleError(f"{what}: empty; at least one point is needed")
    return owned_array(what, array, array.shape)


def checked_points(points: ArrayLike, subset: Ints | None, n_vertices: int) -> Floats:
    """Return `points` (k, 3), one for each vertex in `subset`, or for every vertex if None."""
    return checked_array("points", points, (n_vertices if subset is None else len(subset), 3))
