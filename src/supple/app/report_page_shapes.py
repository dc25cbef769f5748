"""Frames as few shapes times weights, and shapes as few bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Shapes", "fitted_shapes", "neighbours_before", "packed", "weights_for"]

Singles = NDArray[np.float32]
Whole = NDArray[np.int32]

#: Shapes found between two looks at the error.
_AT_ONCE = 6
#: Rounded to this part of the tolerance: rounding of some fifty shapes then adds little to it.
_STEPS = 8


@dataclass(frozen=True, eq=False)
class Shapes:
    """Shapes in whole steps: Σ weight × step × numbers is what they stand for.

    Attributes
    ----------
    numbers
        (k, n, 3).
    step
        In metres.
    """

    numbers: Whole
    step: float

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.numbers)


def fitted_shapes(samples: Singles, tolerance: float) -> Shapes:
    """As few shapes as come near all samples: their first singular vectors.

    Parameters
    ----------
    samples
        (m, n, 3) places or offsets.
    tolerance
        The farthest that a vertex of a sample may be from what the shapes make of it, in metres,
        before they are rounded.
    """
    count, vertices = samples.shape[:2]
    flat = samples.reshape(count, -1)
    mean = flat.mean(axis=0, dtype=np.float64).astype(np.float32)
    left = flat - mean
    _, vectors = np.linalg.eigh((left @ left.T).astype(np.float64))
    vectors = vectors[:, ::-1].astype(np.float32)
    found: list[Singles] = [mean[None]]
    for first in range(0, count, _AT_ONCE):
        if _farthest(left.reshape(samples.shape)) <= tolerance:
            break
        some = vectors[:, first : first + _AT_ONCE]
        shapes = some.T @ left
        left -= some @ shapes
        # Weights are then at most one, so that a step is a length whatever the shape.
        found.append(shapes * np.abs(some).max(axis=0)[:, None])
    step = tolerance / _STEPS
    numbers = np.rint(np.concatenate(found) / np.float32(step)).astype(np.int32)
    return Shapes(numbers[np.any(numbers, axis=1)].reshape(-1, vertices, 3), step)


def _farthest(offsets: Singles) -> float:
    return float(np.sqrt(np.einsum("tni,tni->tn", offsets, offsets).max(initial=0.0)))


def weights_for(shapes: Shapes) -> Callable[[NDArray], tuple[Singles, float]]:
    """What finds a frame's weights, by least squares, and how far it is from what they make."""
    flat = shapes.numbers.reshape(shapes.count, 3 * shapes.numbers.shape[1]).astype(np.float32)
    flat *= np.float32(shapes.step)
    gram = flat.astype(np.float64) @ flat.T if shapes.count else np.zeros((0, 0))
    # Rounded shapes may nearly depend on each other; a little ridge keeps weights small.
    inverse = np.linalg.pinv(gram, rcond=1e-12, hermitian=True) if shapes.count else gram

    def fit(frame: NDArray) -> tuple[Singles, float]:
        wanted = frame.reshape(-1).astype(np.float32)
        weights = (inverse @ (flat @ wanted).astype(np.float64)).astype(np.float32)
        return weights, _farthest((weights @ flat - wanted).reshape(1, -1, 3))

    return fit


def neighbours_before(triangles: NDArray[np.int64], vertices: int) -> NDArray[np.int64]:
    """For every vertex the last of its neighbours that comes before it, or the one before it.

    Neighbours move alike: what a vertex has beyond such a neighbour is a small number.
    """
    pairs = np.concatenate([triangles[:, [i, j]] for i in range(3) for j in range(3) if i != j])
    pairs = pairs[pairs[:, 1] < pairs[:, 0]]
    found = np.full(vertices, -1)
    np.maximum.at(found, pairs[:, 0], pairs[:, 1])
    return np.where(found >= 0, found, np.arange(vertices) - 1)


def packed(numbers: NDArray[np.integer]) -> tuple[bytes, int]:
    """Whole numbers as planes of bytes, lowest first, and how many planes.

    Small ones of either sign become small positive ones (0, −1, 1, −2 …), whose upper planes
    are zeros, which compress to nothing.
    """
    wide = numbers.astype(np.int64).reshape(-1)
    folded = ((wide << 1) ^ (wide >> 63)).astype(np.uint64)
    most = int(folded.max(initial=0))
    planes = max(1, -(-most.bit_length() // 8))
    each = [((folded >> np.uint64(8 * p)) & np.uint64(255)).astype(np.uint8) for p in range(planes)]
    return b"".join(plane.tobytes() for plane in each), planes
