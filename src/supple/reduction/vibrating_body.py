"""What bases need to know of a body, and which of its vertices may move."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from supple.checks import plain_array
from supple.errors import SuppleError
from supple.reduction.checks import checked_indices, checked_masses
from supple.reduction.compliance import LoosePieceError

__all__ = ["VibratingBody", "check_pieces", "fixed_vertices", "free_vertices", "masses_of"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class VibratingBody(Protocol):
    """What bases need to know of a body: `ElasticBody` and `HexBody` have it."""

    rest: Floats

    def force(self, x: Any, /) -> Floats:
        """Gradient of energy at positions (n, 3)."""

    def stiffness(self, x: Any, /) -> sp.csr_array:
        """Its derivative, (3n, 3n); may be the same object every time."""

    def vertex_masses(self) -> Floats:
        """(n,) lumped masses."""


def masses_of(body: VibratingBody) -> Floats:
    """(n,) masses of a body's vertices, none negative."""
    return checked_masses(body.vertex_masses(), len(body.rest))


def fixed_vertices(fixed: ArrayLike, n_vertices: int) -> Ints:
    """Numbers of vertices that do not move, ascending; they are given so, or by a mask."""
    given = plain_array("fixed vertices", fixed)
    if given.dtype == bool and given.shape == (n_vertices,):
        return np.flatnonzero(given)
    if not given.size:
        return np.empty(0, np.int64)
    return np.unique(checked_indices("fixed vertex", given, n_vertices))


def free_vertices(body: VibratingBody, fixed: ArrayLike) -> Ints:
    """Numbers of the vertices that may move: not fixed, and part of an element."""
    free = masses_of(body) > 0
    free[fixed_vertices(fixed, len(free))] = False
    if not free.any():
        raise SuppleError("every vertex is fixed; leave some free")
    return np.flatnonzero(free)


def check_pieces(body: VibratingBody, fixed: ArrayLike) -> None:
    """Refuse a body of several pieces of which some are held, and others by nothing.

    With one held all over, what is left would pass for a body that nothing holds.
    """
    mesh = getattr(body, "mesh", None)
    held = np.zeros(len(body.rest), bool)
    held[fixed_vertices(fixed, len(held))] = True
    if mesh is None or not held.any():
        return
    piece = mesh.components()
    anchored = np.zeros(int(piece.max()) + 1, bool)
    anchored[piece[held[mesh.elements].any(axis=1)]] = True
    if anchored.any() and not anchored.all():
        raise LoosePieceError(np.unique(mesh.elements[piece == anchored.argmin()]))
