"""Which frames and which vertex of a baked motion are worth a picture."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.rig.baked_motion import BakedMotion

__all__ = ["even_frames", "liveliest_vertex", "worthy_frames"]

Floats = NDArray[np.float64]


def even_frames(baked: BakedMotion, most: int) -> NDArray[np.int64]:
    """So many frames at most, spread over the motion, the first and the last among them."""
    return np.unique(np.linspace(0, baked.n_frames - 1, most).round().astype(np.int64))


def worthy_frames(frames: NDArray[np.int64], scores: ArrayLike, count: int) -> list[int]:
    """Those with the highest scores, not all of one swing, in order.

    Parameters
    ----------
    frames
        (k,) to choose from, in order.
    scores
        (k,) how much each is worth.
    count
        How many at most.
    """
    worth = np.asarray(scores, np.float64)
    apart = (frames[-1] - frames[0]) / (2.5 * max(count, 1))
    free = np.ones(len(frames), bool)
    chosen: list[int] = []
    while len(chosen) < count and free.any():
        best = int(np.argmax(np.where(free, worth, -np.inf)))
        chosen.append(int(frames[best]))
        free &= np.abs(frames - frames[best]) > apart
    return sorted(chosen)


def liveliest_vertex(offsets: NDArray[np.floating]) -> tuple[int, Floats]:
    """The vertex whose flesh moves most beside the rig, and the way it does, a unit vector.

    Parameters
    ----------
    offsets
        (k, n, 3) from where the rig has the skin to where it is, at some frames.
    """
    square = np.einsum("kni,kni->n", offsets, offsets)
    vertex = int(np.argmax(square))
    own = offsets[:, vertex].astype(np.float64)
    _, ways = np.linalg.eigh(own.T @ own)
    way = ways[:, -1]
    return vertex, way * (1.0 if way[np.argmax(np.abs(way))] >= 0 else -1.0)
