"""Example poses: a choice from a motion, and a tree with the neutral pose as its root."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints
from supple.checks import checked_array, checked_whole_numbers, numbers
from supple.errors import SuppleError
from supple.rig.protocol import Rig

#: Most vertices and poses that are compared.
_VERTICES, _POSES = 200, 600


@dataclass(frozen=True, eq=False)
class PoseTree:
    """Tree of poses: the basis of each is aligned to its parent's (xu2016 fig. 9).

    `parents` (m,) is −1 for the root, pose 0; `order` (m,) lists each pose after its parent.
    """

    parents: Ints
    order: Ints

    def __len__(self) -> int:
        return len(self.parents)

    @classmethod
    def of(cls, parents: ArrayLike) -> PoseTree:
        """Check that these parents are a tree, and return it."""
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
            raise SuppleError(f"pose {lost[0]} is not joined to pose 0; its parents form a cycle")
        return cls(parents, reached)


def alignment_tree(distances: ArrayLike, poses: ArrayLike | None = None) -> Ints:
    """Return each pose's parent: the nearest pose already in the tree (xu2016 §5.1, fig. 9).

    Prim's algorithm: beginning with the neutral pose, the pose nearest to a joined one is joined
    to it, repeatedly.

    Parameters
    ----------
    distances
        (m, m) between the poses, the neutral one first; see `PoseWeights.distances`.
    poses
        (m, s). Their values break ties of equal distances, so that the tree does not depend on the
        order of the poses; by default the distances to others do.

    Returns
    -------
    (m,) int array
        Parents, −1 for pose 0.

    Examples
    --------
    >>> alignment_tree([[0, 1, 2], [1, 0, 1], [2, 1, 0]])
    array([-1,  0,  1])
    """
    apart = _checked_distances(distances)
    count = len(apart)
    ranks = _ranks(apart, poses)
    parents = np.full(count, -1, np.int64)
    joined = np.zeros(count, bool)
    joined[0] = True
    for _ in range(count - 1):
        inside, outside = np.flatnonzero(joined), np.flatnonzero(~joined)
        i, j = (each.ravel() for each in np.meshgrid(inside, outside, indexing="ij"))
        low, high = np.minimum(ranks[i], ranks[j]), np.maximum(ranks[i], ranks[j])
        nearest = np.lexsort((high, low, apart[i, j]))[0]
        parents[j[nearest]] = i[nearest]
        joined[j[nearest]] = True
    return parents


def _checked_distances(distances: ArrayLike) -> Floats:
    count = len(np.atleast_1d(numbers("pose distances", distances)))
    if count == 0:
        raise SuppleError("there are no poses to align; give at least the neutral one")
    apart = checked_array("pose distances", distances, (count, count))
    if not ((apart >= 0).all() and (apart == apart.T).all()):
        raise SuppleError("pose distances must be symmetric and not negative")
    return apart


def _ranks(apart: Floats, poses: ArrayLike | None) -> Ints:
    """Return ranks (m,) of the poses by their values, or by their distances if `poses` is None."""
    if poses is None:
        rows = np.column_stack([apart[0], np.sort(apart, axis=1)])
    else:
        width = numbers("poses", poses).shape[1:]
        rows = checked_array("poses", poses, (len(apart), *width)).reshape(len(apart), -1)
    ranks = np.empty(len(apart), np.int64)
    ranks[np.lexsort((np.zeros(len(apart)), *rows.T[::-1]))] = np.arange(len(apart))
    return ranks


def farthest_poses(rig: Rig, poses: ArrayLike, count: int) -> Ints:
    """Choose a few poses that are far from each other and from the rest pose.

    Each has the surface farthest (root mean square over vertices) from those of the rest pose and
    of all poses chosen before. Angles that differ by 2π count as equal.

    Parameters
    ----------
    rig
        The surface's rig.
    poses
        (t, s) candidates, such as poses of a motion.
    count
        Number of poses; fewer are returned if fewer differ.

    Returns
    -------
    (k,) int array
        Rows of `poses`, in the order chosen.
    """
    given = np.atleast_2d(numbers("poses", poses))
    rows = checked_array("poses", given, (len(given), len(rig.parameters)))
    (count,) = checked_whole_numbers("number of poses to choose", [count])
    if count < 0:
        raise SuppleError(f"cannot choose {count} poses; the number must not be negative")
    tried, vertices = _spread(len(rows), _POSES), _spread(rig.n_vertices, _VERTICES)
    rest = rig(rig.rest_pose, vertices).ravel()
    shapes = np.array([rig(rows[row], vertices).ravel() for row in tried])
    apart = np.linalg.norm(shapes.reshape(len(tried), rest.size) - rest, axis=1)
    negligible = 1e-6 * max(apart.max(initial=0.0), float(np.ptp(rest)))
    chosen: list[int] = []
    while len(chosen) < min(count, len(tried)) and apart.max() > negligible:
        best = int(np.argmax(apart))
        chosen.append(int(tried[best]))
        apart = np.minimum(apart, np.linalg.norm(shapes - shapes[best], axis=1))
    return np.array(chosen, np.int64)


def _spread(count: int, most: int) -> Ints:
    """Return at most `most` indices below `count`, evenly spread."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(np.int64))
