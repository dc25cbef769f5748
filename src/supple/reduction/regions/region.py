"""Regions: parts of a body with separate basis vectors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints
from supple.checks import checked_count, checked_indices, owned_array
from supple.errors import SuppleError


@dataclass(frozen=True, eq=False, repr=False)
class Region:
    """Part of a body with a localised basis (xu2016 §7).

    Attributes
    ----------
    name
        Usually the name of its handle.
    vertices
        (k,) tet vertices that may move, ascending: weight positive, not fixed.
    weights
        (k,) W′, in (0, 1]; all 1 for a region that is the whole body.
    """

    name: str
    vertices: Ints
    weights: Floats

    def __post_init__(self) -> None:
        vertices = _numbers(self.name, self.vertices)
        if vertices[0] < 0 or (np.diff(vertices) <= 0).any():
            raise SuppleError(f'vertices of region "{self.name}" must be ascending')
        weights = owned_array(f'weights of region "{self.name}"', self.weights, vertices.shape)
        if not (weights.min() > 0 and weights.max() <= 1):
            raise SuppleError(f'weights of region "{self.name}" must be in (0, 1]')
        vertices.setflags(write=False)
        object.__setattr__(self, "vertices", vertices)
        object.__setattr__(self, "weights", weights)

    def __repr__(self) -> str:
        return f'Region("{self.name}", {len(self.vertices)} vertices)'

    @classmethod
    def whole(cls, n_vertices: int, fixed: Ints | None = None, name: str = "body") -> Region:
        """Return a region of all vertices but the fixed ones, with weight 1."""
        count = checked_count("the number of vertices", n_vertices)
        excluded = checked_indices("fixed vertex", () if fixed is None else fixed, count)
        vertices = np.setdiff1d(np.arange(count), excluded)
        return cls(name, vertices, np.ones(len(vertices)))

    @property
    def unknowns(self) -> Ints:
        """(3k,) indices of its vertices' coordinates in a vector (3n,)."""
        return (3 * self.vertices[:, None] + np.arange(3)).ravel()


def reduced_stiffness(stiffness: sp.csr_array, basis: Floats) -> Floats:
    """Return UᵀKU of a stiffness (u, u) and basis columns (u, r), exactly symmetric."""
    product = basis.T @ (stiffness @ basis)
    return (product + product.T) / 2


def _numbers(name: str, vertices: ArrayLike) -> Ints:
    """Return a copy of vertex indices; refuse 0.5 and True, which would become 0 and 1."""
    try:
        listed = np.asarray(vertices)
    except ValueError:  # rows of different lengths
        listed = np.empty((0, 0))
    if listed.ndim == 1 and len(listed) == 0:
        raise SuppleError(f'region "{name}" has no vertices; move or drop its handle')
    if listed.ndim != 1 or listed.dtype.kind not in "iu":
        raise SuppleError(f'vertices of region "{name}" must be a list of whole numbers')
    return listed.astype(np.int64)
