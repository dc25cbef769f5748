"""A tree of poses, from the neutral one outwards."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.errors import SuppleError

__all__ = ["PoseTree"]

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PoseTree:
    """Which pose's basis each pose's is aligned to (xu2016 fig. 9).

    Attributes
    ----------
    parents
        (m,) −1 for the root, which is pose 0.
    order
        (m,) poses, each after its parent.
    """

    parents: Ints
    order: Ints

    def __len__(self) -> int:
        return len(self.parents)

    @classmethod
    def of(cls, parents: ArrayLike) -> PoseTree:
        """The tree of these parents, once it is known to be one."""
        given = np.asarray(parents)
        if given.ndim != 1 or given.dtype.kind not in "iu" or len(given) == 0:
            raise SuppleError("parents of poses must be a list of whole numbers, one for each pose")
        parents = given.astype(np.int64)
        if parents[0] != -1 or (parents[1:] < 0).any() or (parents >= len(parents)).any():
            raise SuppleError("parents of poses must be poses, and -1 for pose 0 alone")
        order, level = [np.zeros(1, np.int64)], np.zeros(1, np.int64)
        while len(level):
            level = np.flatnonzero(np.isin(parents, level))
            order.append(level)
        reached = np.concatenate(order)
        if len(reached) < len(parents):
            lost = np.setdiff1d(np.arange(len(parents)), reached)
            raise SuppleError(f"pose {lost[0]} is not joined to pose 0; its parents go in a circle")
        return cls(parents, reached)
