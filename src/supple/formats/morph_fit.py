"""As few shapes as play a motion: offsets over time as shapes times weights.

Offsets d_tv of bound positions, (t, n, 3), are approximated by Σ_b w_tb s_bv. What counts is the
farthest any vertex is from its place at any frame after skinning, |M_tv Σ_b w_tb s_bv - m_tv|,
while a singular value decomposition makes the sum of squares small. So the decomposition is
repeated with more weight on the vertices and frames that are worst, and the smallest number of
shapes that then reaches the error is looked for by bisection.
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
#: Arrays of a frame each, or all of them in one.
ByFrame = Sequence[NDArray[np.floating]] | NDArray[np.floating]

#: Frames among which shapes are looked for; all frames are fitted and measured.
MOST_FRAMES = 1500
#: Numbers of a block of offsets in float64 while products are summed: 64 MB.
BLOCK = 8_000_000
#: Numbers of all matrices that are kept while fitting instead of made again: 400 MB.
MOST_KEPT = 100_000_000
#: How often the worst vertices and frames are given more weight for one number of shapes.
ROUNDS = 5
#: Weights of vertices and frames stay within this factor of even.
MOST_WEIGHT = 30.0
#: Errors beyond this multiple of the goal are not brought down to it by other weights.
HOPELESS = 3.0
#: Components whose variance is below this part of the largest are rounding.
ROUNDING = 1e-14
#: Where offsets themselves miss their goal, shapes may miss by so much more.
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
    """Fit few shapes, and their weights over time, to offsets before skinning.

    Parameters
    ----------
    offsets
        (t, n, 3) offsets of bound positions, metres; `offsets_before_skinning` makes them.
    matrices
        (t, n, 3, 3), or anything indexed by frame, such as `OffsetMatrices`: how offsets move
        vertices. None where they move them as they are.
    size
        Of the character, metres.
    error
        How far any vertex may be from its place at any frame after skinning, as part of the size.
    moves
        (t, n, 3), or anything indexed by frame: where offsets are wanted to move vertices.
        The offsets' own movement without.
    most
        No more shapes than this, even if the error is not reached.
    progress
        Called with the part done, 0 to 1, and what is being done.

    Returns
    -------
    shapes
        (b, n, 3) float32; none if nothing moves by more than the error.
    weights
        (t, b) float32, each shape's largest 1 in size.
    reached
        The largest error left, as part of the size; more than `error` where that could not be
        reached.
    """
    wanted = np.asarray(offsets)
    if wanted.ndim != 3 or wanted.shape[2] != 3 or 0 in wanted.shape:
        raise SuppleError(f"offsets of shape {wanted.shape}; expected (frames, vertices, 3)")
    if not np.isfinite(wanted).all():
        raise SuppleError("offsets of morph targets are not all finite; the simulation failed")
    limit = checked_number("error of morph targets", error)
    size = checked_number("size of a character", size)
    if not (limit > 0 and size > 0):
        raise SuppleError(f"an error of {limit:g} of a size of {size:g}; both must be positive")
    with single_threaded():  # the same shapes on any number of cores: files are compared by bytes
        return _Search(wanted, matrices, moves, size, limit, progress).best(most)


class _Search:
    """Search for the smallest number of shapes, in a space of few components.

    The offsets X, (t, 3 n), are U B with orthonormal U, (t, r), once for all; fits with other
    weights on vertices and frames mix the rows of B.
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
        self.matrices = _kept(matrices, self.frames, self.vertices)
        self.tell = progress or (lambda part, what: None)
        self.measured = 0
        # Where offsets stay small instead of exact, no number of shapes does better.
        exact = 0.0 if moves is None else self._exact()
        self.goal = max(error, SLACK * exact)

    def best(self, most: int | None) -> tuple[Singles, Singles, float]:
        none = np.zeros((0, self.vertices, 3), np.float32)
        never = np.zeros((self.frames, 0), np.float32)
        reached = self._measure(none, never)[0]
        if reached <= self.goal or most == 0:
            return none, never, reached
        self._decompose()
        highest = min(len(self.components), most or self.frames)
        low, high = 0, 1  # `low` is too few
        found = self._fitted(high, high == highest)
        while found[2] > self.goal and high < highest:
            low, high = high, min(2 * high, highest)
            found = self._fitted(high, high == highest)
        if found[2] > self.goal:
            return found
        while high - low > 1:
            middle = (low + high) // 2
            tried = self._fitted(middle)
            if tried[2] <= self.goal:
                found, high = tried, middle
            else:
                low = middle
        return found

    def _fitted(self, count: int, last: bool = False) -> tuple[Singles, Singles, float]:
        """Return the best of several rounds with so many shapes; `last` if there cannot be more."""
        on_vertices, on_frames = np.ones(self.vertices), np.ones(self.frames)
        best: tuple[Singles, Singles, float] | None = None
        for _ in range(ROUNDS):
            shapes, weights = self._weighted(count, on_vertices, on_frames)
            hopeless = np.inf if last else HOPELESS * self.goal
            reached, by_vertex, by_frame = self._measure(shapes, weights, hopeless)
            self._say(count)
            if best is None or reached < best[2]:
                best = shapes, weights, reached
            if reached <= self.goal or reached > HOPELESS * self.goal or self.frames == 1:
                break
            on_vertices = _raised(on_vertices, by_vertex)
            on_frames = _raised(on_frames, by_frame)
        assert best is not None
        return best

    def _weighted(
        self, count: int, on_vertices: Floats, on_frames: Floats
    ) -> tuple[Singles, Singles]:
        """Return shapes C B and weights, best in a sum of squares weighted by vertex and frame."""
        used = min(len(self.components), 2 * count + 8)
        parts, turn = self.components[:used], self.turn[:, :used]
        heavy = np.repeat(self.scale * on_vertices, 3)
        rows = parts.reshape(used, -1) * heavy.astype(np.float32)
        gram = (rows @ rows.T).astype(np.float64)
        values, vectors = np.linalg.eigh(gram)
        kept = values > 1e-12 * max(float(values[-1]), 1e-300)
        root = np.sqrt(values[kept])
        # Rows of B, weighted, are L Q with orthonormal Q.
        lower = vectors[:, kept] * root
        _, _, right = np.linalg.svd((on_frames[:, None] * turn) @ lower, full_matrices=False)
        right = _with_sign(right[:count])
        mix = (right / root) @ vectors[:, kept].T
        weights = turn @ (lower @ right.T)
        largest = np.maximum(np.abs(weights).max(axis=0), 1e-300)
        mixed = (mix * largest[:, None]).astype(np.float32) @ parts.reshape(used, -1)
        return mixed.reshape(-1, self.vertices, 3), (weights / largest).astype(np.float32)

    def _decompose(self) -> None:
        """Compute U and B, by the eigenvectors of X Xᵀ, in blocks of vertices."""
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
        sound = values > ROUNDING * max(float(values[0]), 1e-300)
        kept = np.flatnonzero(sound[: 3 * self.vertices])
        # Frames that were not chosen are projected onto the components.
        self.turn = products @ (vectors[:, kept] / values[kept])
        self.components = np.empty((len(kept), self.vertices, 3), np.float32)
        for part in self._parts():
            block = self.offsets[chosen, part].astype(np.float64).reshape(len(chosen), -1)
            self.components[:, part] = (vectors[:, kept].T @ block).reshape(len(kept), -1, 3)

    def _parts(self) -> list[slice]:
        step = max(1, BLOCK // (3 * self.frames))
        return [slice(start, start + step) for start in range(0, self.vertices, step)]

    def _scale(self, chosen: NDArray[np.int64]) -> Floats:
        """Return how much an offset of each vertex counts after skinning, over the motion."""
        if self.matrices is None:
            return np.ones(self.vertices)
        few = chosen[:: max(1, len(chosen) // 16)].tolist()
        total = sum((np.asarray(self.matrices[k]) ** 2).sum(axis=(1, 2)) for k in few)
        return np.maximum(np.sqrt(total / (3 * len(few))), 1e-9)

    def _exact(self) -> float:
        """Return the largest error of the offsets themselves, as part of the size."""
        worst, by_vertex = 0.0, np.zeros(self.vertices)
        for frame in range(self.frames):
            given = np.ascontiguousarray(self.offsets[frame], dtype=np.float32)
            worst = max(worst, self._farthest(frame, given, by_vertex))
        return worst

    def _measure(
        self, shapes: Singles, weights: Singles, hopeless: float = np.inf
    ) -> tuple[float, Floats, Floats]:
        """Return the largest error after skinning, of all, by vertex and by frame, over the size.

        Given up at the first frame that is `hopeless`.
        """
        by_vertex, by_frame = np.zeros(self.vertices), np.zeros(self.frames)
        flat = shapes.reshape(len(shapes), 3 * self.vertices)
        step = max(1, BLOCK // (3 * self.vertices))
        for frame in range(self.frames):
            if frame % step == 0:
                block = (weights[frame : frame + step] @ flat).reshape(-1, self.vertices, 3)
            by_frame[frame] = self._farthest(frame, block[frame % step], by_vertex)
            if by_frame[frame] > hopeless:
                break
        return float(by_frame.max()), by_vertex, by_frame

    def _farthest(self, frame: int, given: Singles, by_vertex: Floats) -> float:
        wanted = self.offsets[frame] if self.moves is None else self.moves[frame]
        goal = np.ascontiguousarray(wanted, dtype=np.float32)
        if self.matrices is None:
            return _measure_plain(given, goal, self.size, by_vertex)
        matrix = np.ascontiguousarray(self.matrices[frame], dtype=np.float32)
        return _measure_skinned(given, goal, matrix, self.moves is None, self.size, by_vertex)

    def _say(self, count: int) -> None:
        self.measured += 1
        self.tell(1 - 0.9**self.measured, f"fitting shapes ({count})")


def _kept(matrices: ByFrame | None, frames: int, vertices: int) -> ByFrame | None:
    """Return the matrices, made once if they fit into memory."""
    if matrices is None or isinstance(matrices, np.ndarray) or 9 * frames * vertices > MOST_KEPT:
        return matrices
    kept = np.empty((frames, vertices, 3, 3), np.float32)
    for frame in range(frames):
        kept[frame] = matrices[frame]
    return kept


@compiled
def _measure_plain(given: Singles, goal: Singles, size: float, by_vertex: Floats) -> float:
    worst = 0.0
    for v in range(len(given)):
        total = 0.0
        for i in range(3):
            total += (float(given[v, i]) - goal[v, i]) ** 2
        off = np.sqrt(total) / size
        by_vertex[v] = max(by_vertex[v], off)
        worst = max(worst, off)
    return worst


@compiled
def _measure_skinned(
    given: Singles,
    goal: Singles,
    matrices: Singles,
    before: bool,
    size: float,
    by_vertex: Floats,
) -> float:
    """Return the largest error after skinning; `before` if the goal is an offset before it."""
    worst = 0.0
    for v in range(len(given)):
        total = 0.0
        for i in range(3):
            moved = 0.0
            for j in range(3):
                part = float(given[v, j])
                if before:
                    part -= goal[v, j]
                moved += matrices[v, i, j] * part
            if not before:
                moved -= goal[v, i]
            total += moved * moved
        off = np.sqrt(total) / size
        by_vertex[v] = max(by_vertex[v], off)
        worst = max(worst, off)
    return worst


def unit_weights(shapes: Singles, weights: Singles) -> tuple[Singles, Singles]:
    """Return shapes (b, n, 3) and weights (t, b) of the same motion with weights of 0 to 1.

    Blender clamps weights below 0 when it imports a glTF file, and so do readers of VRM. A weight w
    from -a to c becomes (w + a) / (a + c), and one more shape, whose weight is 1, takes Σ a s back.
    """
    if not len(shapes) or not weights.min() < 0:
        return shapes, weights
    low, high = np.minimum(weights.min(axis=0), 0), np.maximum(weights.max(axis=0), 0)
    width = np.maximum(high - low, np.float32(1e-30))
    base = np.tensordot(low.astype(np.float64), shapes.astype(np.float64), axes=1)
    shifted = np.concatenate([(weights - low) / width, np.ones((len(weights), 1))], axis=1)
    whole = np.concatenate([shapes * width[:, None, None], base[None]])
    return whole.astype(np.float32), shifted.astype(np.float32)


def _raised(weights: Floats, errors: Floats) -> Floats:
    """Raise weights where the error is largest."""
    part = errors / max(float(errors.max()), 1e-300)
    raised = weights * (0.25 + part)
    raised = raised / np.exp(np.log(raised).mean())
    return np.clip(raised, 1 / MOST_WEIGHT, MOST_WEIGHT)


def _with_sign(rows: Floats) -> Floats:
    """Make the largest entry of each row positive: singular vectors have no sign of their own."""
    largest = rows[np.arange(len(rows)), np.abs(rows).argmax(axis=1)]
    return rows * np.where(largest < 0, -1.0, 1.0)[:, None]
