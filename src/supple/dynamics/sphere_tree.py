"""A tree of spheres around what is seen of a reduced body, updated only where it is looked at."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.checks import checked_array, checked_number, shown
from supple.dynamics.sphere_tree_kernels import (
    DIRECTION,
    DISTANCE,
    PLACE_COLUMNS,
    WEIGHTS,
    enclose,
    touching,
)
from supple.errors import SuppleError
from supple.reduction.checks import checked_count
from supple.reduction.cubic_model import CubicModel
from supple.reduction.stvk_model import StvkModel

__all__ = ["Contacts", "SphereTree"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Lengths whose squares are numbers, with room to spare.
LONGEST = 1e100


class Contacts(NamedTuple):
    """The triangles that a ball touches, a row each, as the tree meets them."""

    triangles: Ints
    """(c,) which of the surface's triangles."""
    weights: Floats
    """(c, 3) barycentric coordinates of the point of each that is nearest to the ball's centre."""
    distances: Floats
    """(c,) how far that is from the centre, in m: less than the radius."""
    directions: Floats
    """(c, 3) unit vectors from there to the centre."""


class SphereTree:
    """Spheres within spheres around the triangles of a body that moves as x = X + U q.

    A sphere's centre moves as a fixed combination of q, and its radius grows by Σ r_i |q_i| with
    r_i the most that a point within is moved apart from the centre by q_i = 1 (James and Pai's
    BD-tree, 2004). So spheres need no update when the body moves: one that is looked at costs
    4(r + 1) products, and a small ball looks at few.

    Parameters
    ----------
    model
        Whose surface; `StvkModel`, or a `CubicModel` that has one.
    leaf
        Triangles in the smallest spheres: this many, up to twice as many.

    Attributes
    ----------
    ranges
        (nodes, 2) from where to where in `order` a sphere's triangles are. Sphere 0 has them all;
        sphere i has spheres 2i + 1 and 2i + 2 within.
    order
        (m,) the surface's triangles.

    Examples
    --------
    >>> import numpy as np
    >>> from supple.elastic import Material
    >>> from supple.scenes import beam
    >>> mesh = beam(cells=(6, 2, 2))
    >>> wall = np.flatnonzero(mesh.vertices[:, 0] == 0)
    >>> model = StvkModel.build(mesh, Material("stvk", young=1e5), modes=6, fixed=wall)
    >>> tree = SphereTree(model)
    >>> above = mesh.vertices.max(axis=0) + [0, 0.01, 0]
    >>> contacts = tree.touch(np.zeros(6), above, radius=0.02)
    >>> bool((contacts.distances >= 0.01).all()), contacts.directions[0].round(12)
    (True, array([0., 1., 0.]))
    """

    def __init__(self, model: StvkModel | CubicModel, *, leaf: int = 4) -> None:
        if not isinstance(model, StvkModel | CubicModel):
            raise SuppleError(f"a SphereTree needs a StvkModel, not {shown(model)}")
        triangles = np.asarray(model.surface.triangles, np.int64)
        fewest = checked_count("the triangles of a leaf", leaf)
        self.modes = model.modes
        self.order, self.ranges = _halved(model.surface.vertices[triangles].mean(axis=1), fewest)
        k, count = 1 + model.modes, len(triangles)
        self._triangles = np.ascontiguousarray(triangles[self.order])
        self._points = np.empty((len(model.surface.vertices), 3, k))
        self._points[:, :, 0] = model.surface.vertices
        self._points[:, :, 1:] = model.surface_basis
        self._spheres = np.empty((len(self.ranges), 4, k))
        enclose(self._points, self._triangles, self.ranges, np.empty((3, 2, k)), self._spheres)
        if not np.isfinite(self._spheres).all():
            raise SuppleError("the surface moves beyond all numbers; scale the basis down")
        self._found, self._places = np.empty(count, np.int64), np.empty((count, PLACE_COLUMNS))
        self._stack = np.empty(1 + len(self.ranges).bit_length(), np.int64)
        self._marks, self._moved = (
            np.zeros(len(self._points), np.int64),
            self._points[:, :, 0].copy(),
        )
        self._factors, self._seen = np.ones(k), np.zeros(3, np.int64)

    def __len__(self) -> int:
        """Number of spheres."""
        return len(self.ranges)

    def __repr__(self) -> str:
        return f"SphereTree({len(self)} spheres, {len(self.order)} triangles, {self.modes} modes)"

    @property
    def kernel_arguments(self) -> tuple[Any, ...]:
        """What `touching` reads first, for compiled loops around it."""
        return self._points, self._triangles, self.ranges, self._spheres

    @property
    def scratch(self) -> tuple[Any, ...]:
        """What it reads last: work space, where contacts go, and the counters."""
        return self._stack, self._marks, self._moved, self._found, self._places, self._seen

    @property
    def looked_at(self) -> tuple[int, int]:
        """How many spheres and how many triangles were looked at so far."""
        return int(self._seen[0]), int(self._seen[1])

    def spheres(self, q: ArrayLike) -> tuple[Floats, Floats]:
        """Centres (nodes, 3) and radii (nodes,) at q, all of them."""
        factors = self._factors_at(q)
        return self._spheres[:, :3] @ factors, self._spheres[:, 3] @ np.abs(factors)

    def touch(self, q: ArrayLike, centre: ArrayLike, radius: float) -> Contacts:
        """The triangles that a ball touches when the body is at q.

        Raises
        ------
        SuppleError
            If something is not a number, or too large, or the radius is not positive.
        """
        factors = self._factors_at(q)
        middle = checked_array("the ball's centre", centre, (3,))
        size = checked_radius(radius)
        if np.abs(middle).max() > LONGEST:
            raise SuppleError("the ball is too far away for distances to be numbers")
        count = touching(*self.kernel_arguments, factors, middle, size, *self.scratch)
        at = self._places[:count]
        return Contacts(
            self.order[self._found[:count]],
            at[:, WEIGHTS].copy(),
            at[:, DISTANCE].copy(),
            at[:, DIRECTION].copy(),
        )

    def _factors_at(self, q: ArrayLike) -> Floats:
        """(1, q), checked."""
        self._factors[1:] = checked_array("q", q, (self.modes,))
        with np.errstate(over="ignore"):
            reach = float(np.abs(self._spheres[0]).sum(axis=0) @ np.abs(self._factors))
        if not reach < LONGEST:
            raise SuppleError("q moves the surface beyond all numbers")
        return self._factors


def checked_radius(radius: float) -> float:
    """A ball's radius: a positive length."""
    size = checked_number("the ball's radius", radius)
    if not 0 < size < LONGEST:
        raise SuppleError(f"the ball's radius must be a positive length, not {radius}")
    return size


def _halved(centres: Floats, leaf: int) -> tuple[Ints, Ints]:
    """An order of triangles in which every sphere has a range, and the ranges (nodes, 2).

    Each is cut into halves across its longest side, all of a level at once.
    """
    count = len(centres)
    order, bounds = np.arange(count), np.array([0, count])
    levels = [bounds]
    while bounds[1] >= 2 * leaf:  # the first range is never the longest
        here = centres[order]
        starts = bounds[:-1]
        sides = np.maximum.reduceat(here, starts) - np.minimum.reduceat(here, starts)
        part = np.repeat(np.arange(len(starts)), np.diff(bounds))
        along = np.take_along_axis(here, sides.argmax(axis=1)[part, None], axis=1)[:, 0]
        order = order[np.lexsort((along, part))]
        middles = (starts + bounds[1:]) // 2
        bounds = np.insert(bounds, np.arange(1, len(bounds)), middles)
        levels.append(bounds)
    ranges = [np.stack([level[:-1], level[1:]], axis=1) for level in levels]
    return order, np.ascontiguousarray(np.concatenate(ranges))
