"""Choice of example poses from a motion."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Ints
from supple.checks import checked_array, checked_whole_numbers, numbers
from supple.errors import SuppleError
from supple.rig.protocol import Rig

#: Most vertices and poses that are compared.
_VERTICES, _POSES = 200, 600


def farthest_poses(rig: Rig, poses: ArrayLike, count: int) -> Ints:
    """Choose a few poses that are far from each other and from the rest pose.

    Each has the surface farthest (root mean square over vertices) from that of the rest pose and of
    all poses chosen before. Angles that differ by 2π count as equal.

    Parameters
    ----------
    rig
        The surface's rig.
    poses
        (t, s) candidates, such as those of a motion.
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
        raise SuppleError(f"cannot choose {count} poses")
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
    """Return at most so many indices below `count`, evenly spread."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(np.int64))
