"""Few shapes that play a motion: offsets over time as shapes times weights.

Offsets d_tv of bound positions, (t, n, 3), are approximated by Σ_b w_tb s_bv. The error to bound is
the largest distance of any vertex at any frame after skinning, |M_tv Σ_b w_tb s_bv - m_tv|, while a
singular value decomposition minimises the sum of squares. So the decomposition is repeated with
larger weights on the vertices and frames with the largest errors, and bisection finds the smallest
number of shapes that reaches the error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.arrays import Floats, Singles
from supple.checks import checked_number
from supple.compiled.jit import compiled
from supple.errors import SuppleError
from supple.linalg.blas import single_threaded

Progress = Callable[[float, str], None]
#: One array per frame, or one array of all frames.
ByFrame = Sequence[NDArray[np.floating]] | NDArray[np.floating]

#: Most frames that the decomposition uses; all frames are fitted and measured.
MOST_FRAMES = 1500
#: Numbers in a block of offsets in float64 while products are summed: 64 MB.
BLOCK = 8_000_000
#: Most numbers of matrices that are stored while fitting, not computed again: 400 MB.
MOST_STORED = 100_000_000
#: Most rounds of reweighting for one number of shapes.
ROUNDS = 5
#: Largest factor between the weight of a vertex or frame and the mean weight.
MOST_WEIGHT = 30.0
#: Reweighting stops at errors beyond this multiple of the goal.
GIVE_UP = 3.0
#: Components whose variance is below this fraction of the largest are rounding.
ROUNDING = 1e-14
#: If the offsets themselves exceed the error, shapes may exceed the offsets' error by this factor.
SLACK = 1.25


def fit_morphs(
    offsets: ArrayLike,
    matrices: ByFrame | None,
    size: float,
    error: float = 0.002,
    *,
    moves: ByFrame | None = None,
    most: int | None = None,
    progress: Progress | None = None,
) -> tuple[Singles, Singles, float]:
    """Return few shapes (b, n, 3), their weights (t, b), and the largest error over the size.

    `offsets` (t, n, 3) are displacements of bound positions in metres, which `matrices` (t, n, 3,
    3) (None for the identity) map to displacements after skinning; `moves` (t, n, 3) are the
    displacements to fit, by default the offsets' displacements. Both may be sequences by frame.
    `error` bounds the distance of any vertex at any frame after skinning, as a fraction of the
    size, unless that needs more than `most` shapes. The largest weight of each shape is 1 in
    absolute value; b = 0 if nothing moves by more than the error.
    """
    offset_array = np.asarray(offsets)
    if not np.isfinite(offset_array).all():
        raise SuppleError("offsets of morph targets are not all finite; the simulation failed")
    limit = checked_number("error of morph targets", error)
    size = checked_number("size of a character", size)
    if not (limit > 0 and size > 0):
        raise SuppleError(f"the error is {limit:g} and the size {size:g}; both must be positive")
    with single_threaded():  # the same bits on any number of cores
        return _Search(offset_array, matrices, moves, size, limit, progress).best(most)


class _Search:
    """Search for the smallest number of shapes, in a space of few components.

    The offsets X, (t, 3 n), are decomposed once into U B with orthonormal U, (t, r). Fits with
    other weights on vertices and frames combine the rows of B.
    """

    def __init__(
        self,
        offsets: NDArray[np.floating],
        matrices: ByFrame | None,
        moves: ByFrame | None,
        size: float,
        error: float,
        progress: Progress | None,
    ) -> None:
        self.frames, self.vertices = offsets.shape[:2]
        self.offsets, self.moves, self.size = offsets, moves, size
        self.matrices = _stored(matrices, self.frames, self.vertices)
        self.report = progress or (lambda part, what: None)
        self.measured = 0
        # Where offsets were limited in size, no number of shapes is more exact than they are.
        self.goal = max(error, SLACK * self._offset_error())

    def best(self, most: int | None) -> tuple[Singles, Singles, float]:
        no_shapes = np.zeros((0, self.vertices, 3), np.float32)
        no_weights = np.zeros((self.frames, 0), np.float32)
        reached = self._measure(no_shapes, no_weights)[0]
        if reached <= self.goal or most == 0:
            return no_shapes, no_weights, reached
        self._decompose()
        highest = min(len(self.components), most or self.frames)
        low, high = 0, 1  # `low` shapes are too few
        best_fit = self._fitted(high, high == highest)
        while best_fit[2] > self.goal and high < highest:
            low, high = high, min(2 * high, highest)
            best_fit = self._fitted(high, high == highest)
        if best_fit[2] > self.goal:
            return best_fit
        while high - low > 1:
            middle = (low + high) // 2
            fit = self._fitted(middle)
            if fit[2] <= self.goal:
                best_fit, high = fit, middle
            else:
                low = middle
        return best_fit

    def _fitted(self, count: int, last: bool = False) -> tuple[Singles, Singles, float]:
        """Return the best fit with `count` shapes; `last` if there cannot be more shapes."""
        on_vertices, on_frames = np.ones(self.vertices), np.ones(self.frames)
        best: tuple[Singles, Singles, float] | None = None
        for _ in range(ROUNDS):
            shapes, weights = self._weighted(count, on_vertices, on_frames)
            give_up = np.inf if last else GIVE_UP * self.goal
            reached, by_vertex, by_frame = self._measure(shapes, weights, give_up)
            self.measured += 1
            self.report(1 - 0.9**self.measured, f"fitting shapes ({count})")
            if best is None or reached < best[2]:
                best = shapes, weights, reached
            if reached <= self.goal or reached > GIVE_UP * self.goal or self.frames == 1:
                break
            on_vertices = _reweighted(on_vertices, by_vertex)
            on_frames = _reweighted(on_frames, by_frame)
        assert best is not None
        return best

    def _weighted(
        self, count: int, on_vertices: Floats, on_frames: Floats
    ) -> tuple[Singles, Singles]:
        """Return `count` shapes and weights, by least squares weighted by vertex and frame."""
        used = min(len(self.components), 2 * count + 8)
        parts, left = self.components[:used], self.left[:, :used]
        scales = np.repeat(self.scale * on_vertices, 3)
        rows = parts.reshape(used, -1) * scales.astype(np.float32)
        gram = (rows @ rows.T).astype(np.float64)
        values, vectors = np.linalg.eigh(gram)
        significant = values > 1e-12 * max(float(values[-1]), 1e-300)
        root = np.sqrt(values[significant])
        # The weighted rows of B are L Q with orthonormal Q.
        lower = vectors[:, significant] * root
        _, _, right = np.linalg.svd((on_frames[:, None] * left) @ lower, full_matrices=False)
        right = _with_sign(right[:count])
        mix = (right / root) @ vectors[:, significant].T
        weights = left @ (lower @ right.T)
        largest = np.maximum(np.abs(weights).max(axis=0), 1e-300)
        mixed = (mix * largest[:, None]).astype(np.float32) @ parts.reshape(used, -1)
        return mixed.reshape(-1, self.vertices, 3), (weights / largest).astype(np.float32)

    def _decompose(self) -> None:
        """Decompose the offsets X, (t, 3 n), into U B, by the eigenvectors of X Xᵀ."""
        count = min(self.frames, MOST_FRAMES)
        chosen = np.unique(np.linspace(0, self.frames - 1, count).round().astype(np.int64))
        self.scale = self._scale(chosen)
        products = np.zeros((self.frames, len(chosen)))
        for part in self._parts():
            block = self.offsets[:, part].astype(np.float64) * self.scale[part, None]
            rows = block.reshape(self.frames, -1)
            products += rows @ rows[chosen].T
        values, vectors = np.linalg.eigh(products[chosen])
        values, vectors = values[::-1], _with_sign(vectors[:, ::-1].T).T
        significant = values > ROUNDING * max(float(values[0]), 1e-300)
        columns = np.flatnonzero(significant[: 3 * self.vertices])
        # Frames that were not chosen are projected onto the components.
        self.left = products @ (vectors[:, columns] / values[columns])
        self.components = np.empty((len(columns), self.vertices, 3), np.float32)
        for part in self._parts():
            block = self.offsets[chosen, part].astype(np.float64).reshape(len(chosen), -1)
            self.components[:, part] = (vectors[:, columns].T @ block).reshape(len(columns), -1, 3)

    def _parts(self) -> list[slice]:
        step = max(1, BLOCK // (3 * self.frames))
        return [slice(start, start + step) for start in range(0, self.vertices, step)]

    def _scale(self, chosen: NDArray[np.int64]) -> Floats:
        """Return the root mean square factor (n,) by which skinning scales offsets of a vertex."""
        if self.matrices is None:
            return np.ones(self.vertices)
        few = chosen[:: max(1, len(chosen) // 16)].tolist()
        total = sum((np.asarray(self.matrices[k]) ** 2).sum(axis=(1, 2)) for k in few)
        return np.maximum(np.sqrt(total / (3 * len(few))), 1e-9)

    def _offset_error(self) -> float:
        """Return the largest error of the offsets themselves, as a fraction of the size."""
        worst, by_vertex = 0.0, np.zeros(self.vertices)
        for frame in range(self.frames if self.moves is not None else 0):
            offsets = np.ascontiguousarray(self.offsets[frame], dtype=np.float32)
            worst = max(worst, self._frame_error(frame, offsets, by_vertex))
        return worst

    def _measure(
        self, shapes: Singles, weights: Singles, give_up: float = np.inf
    ) -> tuple[float, Floats, Floats]:
        """Return the largest error after skinning: overall, by vertex, by frame; relative to size.

        Stops at the first frame with an error above `give_up`.
        """
        by_vertex, by_frame = np.zeros(self.vertices), np.zeros(self.frames)
        flat = shapes.reshape(len(shapes), 3 * self.vertices)
        step = max(1, BLOCK // (3 * self.vertices))
        for frame in range(self.frames):
            if frame % step == 0:
                block = (weights[frame : frame + step] @ flat).reshape(-1, self.vertices, 3)
            by_frame[frame] = self._frame_error(frame, block[frame % step], by_vertex)
            if by_frame[frame] > give_up:
                break
        return float(by_frame.max()), by_vertex, by_frame

    def _frame_error(self, frame: int, offsets: Singles, by_vertex: Floats) -> float:
        """Return the largest error of a frame, relative to size; update maxima in `by_vertex`."""
        targets = self.offsets[frame] if self.moves is None else self.moves[frame]
        goal = np.ascontiguousarray(targets, dtype=np.float32)
        if self.matrices is None:
            return _measure_plain(offsets, goal, self.size, by_vertex)
        matrix = np.ascontiguousarray(self.matrices[frame], dtype=np.float32)
        return _measure_skinned(offsets, goal, matrix, self.moves is None, self.size, by_vertex)


def _stored(matrices: ByFrame | None, frames: int, vertices: int) -> ByFrame | None:
    """Return the matrices, computed once if they fit into memory."""
    if matrices is None or isinstance(matrices, np.ndarray) or 9 * frames * vertices > MOST_STORED:
        return matrices
    stored = np.empty((frames, vertices, 3, 3), np.float32)
    for frame in range(frames):
        stored[frame] = matrices[frame]
    return stored


@compiled
def _measure_plain(offsets: Singles, goal: Singles, size: float, by_vertex: Floats) -> float:
    worst = 0.0
    for v in range(len(offsets)):
        total = 0.0
        for i in range(3):
            total += (float(offsets[v, i]) - goal[v, i]) ** 2
        distance = np.sqrt(total) / size
        by_vertex[v] = max(by_vertex[v], distance)
        worst = max(worst, distance)
    return worst


@compiled
def _measure_skinned(
    offsets: Singles,
    goal: Singles,
    matrices: Singles,
    before: bool,
    size: float,
    by_vertex: Floats,
) -> float:
    """Return the largest error after skinning; `before` if the goal is before skinning."""
    worst = 0.0
    for v in range(len(offsets)):
        total = 0.0
        for i in range(3):
            miss = 0.0
            for j in range(3):
                part = float(offsets[v, j])
                if before:
                    part -= goal[v, j]
                miss += matrices[v, i, j] * part
            if not before:
                miss -= goal[v, i]
            total += miss * miss
        distance = np.sqrt(total) / size
        by_vertex[v] = max(by_vertex[v], distance)
        worst = max(worst, distance)
    return worst


def unit_weights(shapes: Singles, weights: Singles) -> tuple[Singles, Singles]:
    """Return shapes (b, n, 3) and weights (t, b) of the same motion with weights from 0 to 1.

    Blender and VRM readers clamp negative weights of glTF files. A weight w from -a to c becomes (w
    + a) / (a + c), and one more shape with weight 1 subtracts Σ a s.
    """
    if not len(shapes) or not weights.min() < 0:
        return shapes, weights
    low, high = np.minimum(weights.min(axis=0), 0), np.maximum(weights.max(axis=0), 0)
    width = np.maximum(high - low, np.float32(1e-30))
    base = np.tensordot(low.astype(np.float64), shapes.astype(np.float64), axes=1)
    shifted = np.concatenate([(weights - low) / width, np.ones((len(weights), 1))], axis=1)
    scaled = np.concatenate([shapes * width[:, None, None], base[None]])
    return scaled.astype(np.float32), shifted.astype(np.float32)


def _reweighted(weights: Floats, errors: Floats) -> Floats:
    """Return bounded weights, raised where errors are large; their geometric mean is about 1."""
    part = errors / max(float(errors.max()), 1e-300)
    raised = weights * (0.25 + part)
    raised = raised / np.exp(np.log(raised).mean())
    return np.clip(raised, 1 / MOST_WEIGHT, MOST_WEIGHT)


def _with_sign(rows: Floats) -> Floats:
    """Make the largest entry of each row positive: singular vectors have no defined sign."""
    largest = rows[np.arange(len(rows)), np.abs(rows).argmax(axis=1)]
    return rows * np.where(largest < 0, -1.0, 1.0)[:, None]
