"""Isosurface stuffing: from a level set to tetrahedra with bounded dihedral angles."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from supple.arrays import Floats, Ints
from supple.errors import MeshError
from supple.mesh.filling.bcc_lattice import AXIS_LIMIT, clipped_tets, closure, morton, pack, unpack
from supple.mesh.tets import OUTWARD_FACES, TetMesh
from supple.mesh.topology import face_keys

LevelSet = Callable[[Floats], Floats]

MOST_POINTS = 60_000_000
_CHUNK = 1 << 18
# The two lattice points of every cell: a corner and the centre.
_BASIS = np.array([[0, 0, 0], [1, 1, 1]])


class Distance(Protocol):
    """Level set with bounds on its sign in balls."""

    def __call__(self, points: Floats) -> Floats:
        """Evaluate at points (k, 3)."""

    def uniform_sign(self, points: Floats, radius: float) -> NDArray[np.int8]:
        """Return ±1 if the level set has that sign in a ball around a point, else 0."""


def stuff(level_set: LevelSet, bounds: ArrayLike, cell: float) -> TetMesh:
    """Fill the region where a level set is positive with tetrahedra.

    Isosurface stuffing (Labelle and Shewchuk 2007) on a body-centred cubic lattice: all dihedral
    angles lie between 10.78° and 164.75° for any level set. Parts thinner than about a cell may be
    lost or disconnected.

    Parameters
    ----------
    level_set : callable
        Takes points (k, 3), returns values (k,), positive inside; best near a distance.
    bounds : (2, 3) array
        Lowest and highest corner of a box around the body.
    cell : float
        Edge of the lattice's cells; about twelve tets fill one.

    Returns
    -------
    TetMesh
        Vertices and tets in Morton order, without unused vertices. Pieces that touch only in a
        vertex do not share it.

    Raises
    ------
    MeshError
        If the body is empty or exceeds the box, or if the lattice is too large.

    Examples
    --------
    >>> ball = stuff(lambda x: 1 - np.linalg.norm(x, axis=1), [[-1] * 3, [1] * 3], 0.25)
    >>> bool(abs(ball.volumes().sum() / (4 / 3 * np.pi) - 1) < 0.05)
    True
    """
    low, high = np.array(bounds, dtype=np.float64).reshape(2, 3)
    shape = _lattice_shape(low, high, cell)
    if 2 * np.prod(shape, dtype=float) > MOST_POINTS:
        raise MeshError(f"a lattice of {shape} cells is too large; use cells larger than {cell:g}")
    origin = 0.5 * (low + high) - 0.5 * cell * shape
    corners = 2 * np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij"), axis=-1)
    coords = (corners.reshape(-1, 1, 3) + _BASIS).reshape(-1, 3)
    level = _evaluate(level_set, origin + 0.5 * cell * coords)
    inside = level > 0
    edge = (coords < 4) | (coords >= 2 * shape - 4)
    if edge[inside].any():
        raise MeshError("the body exceeds the bounds; widen them")
    keys = pack(coords)
    order = np.argsort(keys)
    vertices, tets = _clip(level_set, keys[order], level[order], origin, cell)
    if len(tets) == 0:
        raise MeshError(f"no lattice point lies inside the body; use cells smaller than {cell:g}")
    return TetMesh(*compact(*split_pinches(vertices, tets), cell))


def _lattice_shape(low: Floats, high: Floats, cell: float, unit: float = 1.0) -> Ints:
    """Return the number of cells along each axis, with margins; `unit` is for messages."""
    extent = high - low
    if not (np.isfinite(cell) and cell > 0):
        raise MeshError(f"a cell's edge must be a positive length, not {cell * unit:g}")
    if not (np.isfinite(extent).all() and (extent >= 0).all()):
        raise MeshError("bounds must be a lowest and a highest corner, in that order")
    # Robust against rounding of a length of whole cells.
    with np.errstate(over="ignore"):
        cells = np.ceil(extent / cell - 1e-6) + 6
    if not (2 * cells + 64 < AXIS_LIMIT).all():
        length = extent.max() * unit
        raise MeshError(f"a cell of {cell * unit:g} is too small for a body {length:.4g} long")
    return cells.astype(np.int64)


def _evaluate(level_set: LevelSet, points: Floats) -> Floats:
    pieces = [level_set(points[i : i + _CHUNK]) for i in range(0, len(points), _CHUNK)]
    return np.concatenate(pieces) if pieces else np.empty(0)


def fill(
    level_set: Distance, low: Floats, high: Floats, cell: float, unit: float
) -> tuple[Floats, Ints]:
    """Return vertices and tets before compaction; only cells near the surface are sampled.
    `unit` is the length of one unit, for messages.
    """
    shape = _lattice_shape(low, high, cell, unit)
    origin = 0.5 * (low + high) - 0.5 * cell * shape
    keys, level = _sample(level_set, origin, shape, cell, unit)
    return _clip(level_set, keys, level, origin, cell)


def _sample(
    level_set: Distance, origin: Floats, shape: Ints, cell: float, unit: float
) -> tuple[Ints, Floats]:
    """Return sorted keys of lattice points that may be inside, and levels, infinite deep inside."""
    side = 1 << max(1, int(np.ceil(np.log2(shape.max() / 8))))
    counts = -(-shape // side)
    boxes = (
        2 * side * np.stack(np.meshgrid(*map(np.arange, counts), indexing="ij"), -1).reshape(-1, 3)
    )
    keys, levels = [], []
    n_points = 0
    while len(boxes):
        centres = origin + 0.5 * cell * (boxes + side)
        radius = 0.5 * np.sqrt(3.0) * side * cell
        chunks = (centres[i : i + _CHUNK] for i in range(0, len(boxes), _CHUNK))
        sign = np.concatenate([level_set.uniform_sign(chunk, radius) for chunk in chunks])
        n_points += 2 * side**3 * int(np.count_nonzero(sign > 0)) + 16 * int((sign == 0).sum())
        if n_points > MOST_POINTS:
            raise MeshError(
                f"cells of {cell * unit:g} would make more than {n_points // 1_000_000} million"
                " lattice points; use fewer tets or larger cells"
            )
        inside = _box_points(boxes[sign > 0], side)
        keys.append(pack(inside))
        levels.append(np.full(len(inside), np.inf))
        boxes = boxes[sign == 0]
        if side == 2:
            near = _box_points(boxes, side)
            keys.append(pack(near))
            levels.append(_evaluate(level_set, origin + 0.5 * cell * near))
            break
        side //= 2
        children = 2 * side * np.indices((2, 2, 2)).reshape(3, -1).T
        boxes = (boxes[:, None] + children).reshape(-1, 3)
    all_keys = np.concatenate(keys)
    order = np.argsort(all_keys)
    return all_keys[order], np.concatenate(levels)[order]


def _box_points(boxes: Ints, side: int) -> Ints:
    cells = 2 * np.indices((side,) * 3).reshape(3, -1).T
    local = (cells[:, None] + _BASIS).reshape(-1, 3)
    return (boxes[:, None] + local).reshape(-1, 3)


def _clip(
    level_set: LevelSet, keys: Ints, level: Floats, origin: Floats, cell: float
) -> tuple[Floats, Ints]:
    """Return vertices and tets clipped to the level set; points not in `keys` are outside."""
    tiny = 1e-9 * cell
    inside = keys[level > 0]
    near = closure(inside)
    indices = np.searchsorted(keys, near).clip(max=max(len(keys) - 1, 0))
    present = keys[indices] == near if len(keys) else np.zeros(0, dtype=bool)
    values = np.full(len(near), np.nan)
    values[present] = level[indices[present]]
    missing = np.isnan(values)
    # Evaluate skipped levels where the sign changes.
    beside = np.isin(near, closure(near[missing | (values <= 0)]), assume_unique=True)
    deep = np.isinf(values) & beside
    for which, low, high in ((missing, -np.inf, -tiny), (deep, tiny, np.inf)):
        points = origin + 0.5 * cell * unpack(near[which])
        values[which] = np.clip(_evaluate(level_set, points), low, high)
    values[np.isinf(values)] = cell
    return clipped_tets(near, values, origin, cell, partial(_crossings, level_set))


def _crossings(
    level_set: LevelSet, a: Floats, b: Floats, level_a: Floats, level_b: Floats
) -> Floats:
    """Return zeros of the level along edges, 0 to 1, by the Illinois variant of regula falsi."""
    start, end = np.zeros(len(a)), np.ones(len(a))
    at_start, at_end = level_a.copy(), level_b.copy()
    t = at_start / (at_start - at_end)
    for _ in range(2):
        at_t = _evaluate(level_set, a + t[:, None] * (b - a))
        behind = at_t * at_start > 0
        start, at_end = np.where(behind, t, start), np.where(behind, 0.5 * at_end, at_t)
        end, at_start = np.where(behind, end, t), np.where(behind, at_t, 0.5 * at_start)
        span = at_start - at_end
        share = np.divide(at_start, span, out=np.zeros_like(span), where=span != 0)
        t = np.where(at_t == 0, t, start + share * (end - start))
    return t


def split_pinches(vertices: Floats, tets: Ints) -> tuple[Floats, Ints]:
    """Separate pieces that touch only in a vertex or an edge, as they would act as ball joints and
    hinges. Corners of two tets are the same vertex only if the tets are connected through faces
    around it.
    """
    keys = face_keys(tets, OUTWARD_FACES, len(vertices))
    order = np.argsort(keys, kind="stable")
    same = np.flatnonzero(keys[order][1:] == keys[order][:-1])
    one, other = order[same], order[same + 1]
    corners = _sorted_corners(tets)
    n = 4 * len(tets)
    links = (corners[one].ravel(), corners[other].ravel())
    graph = coo_array((np.ones(3 * len(one), dtype=bool), links), (n, n))
    count, label = connected_components(graph, directed=False)
    vertex_of = np.empty(count, dtype=np.int64)
    vertex_of[label] = tets.ravel()
    return vertices[vertex_of], label.reshape(-1, 4).astype(np.int64)


def _sorted_corners(tets: Ints) -> Ints:
    """Sort the corners (as 4 tet + corner) of each face of each tet by their vertices."""
    faces = tets[:, OUTWARD_FACES]
    by_vertex = np.argsort(faces, axis=2)
    local = np.take_along_axis(np.broadcast_to(OUTWARD_FACES, faces.shape), by_vertex, axis=2)
    return (local + 4 * np.arange(len(tets))[:, None, None]).reshape(-1, 3)


def compact(vertices: Floats, tets: Ints, cell: float) -> tuple[Floats, Ints]:
    """Drop unused vertices, and sort vertices and tets in Morton order."""
    low = vertices[tets.ravel()].min(axis=0)
    used = np.zeros(len(vertices), dtype=bool)
    used[tets] = True
    index = np.flatnonzero(used)
    index = index[np.argsort(morton((vertices[index] - low) / (0.5 * cell)), kind="stable")]
    new = np.empty(len(vertices), dtype=np.int64)
    new[index] = np.arange(len(index))
    centres = vertices[tets].mean(axis=1)
    order = np.argsort(morton((centres - low) / (0.5 * cell)), kind="stable")
    return np.ascontiguousarray(vertices[index]), np.ascontiguousarray(new[tets[order]])
