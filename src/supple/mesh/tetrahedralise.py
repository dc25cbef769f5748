"""Tetrahedra that fill a surface, however broken the surface is."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from supple.errors import MeshError, warn
from supple.mesh.coverage import bisected, pinched_edges, torn, uncovered, without_crumbs
from supple.mesh.distance import (
    SoupDistance,
    ThickenedDistance,
    TriangleTree,
    outward_triangles,
)
from supple.mesh.stuffing import compact, fill, split_pinches, stuff
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh

__all__ = ["stuff", "tetrahedralise"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Progress = Callable[[float, str], None]

MOST_TETS = 20_000_000
TOLERANCE = 0.15
# A search stops this close to the number wanted; the last step is not worth its time.
_NEAR_ENOUGH = 0.08
_CHEAP = 12_000
# How thickly (in cells) parts the lattice missed are covered, round by round. No point is
# farther than √5/4 = 0.56 cells from the lattice, and no vertex moves by more than 0.35, so
# the thickest coat leaves nothing out.
_COATS = (0.65, 0.8, 0.95, 1.1, 1.25, 1.4)


def tetrahedralise(
    surface: SurfaceMesh,
    *,
    tets: int = 12_000,
    cell: float | None = None,
    progress: Progress | None = None,
) -> TetMesh:
    """Fill a surface with well-shaped tetrahedra.

    Isosurface stuffing of the surface's signed distance. Any triangles will do: inside out,
    overlapping, with holes, without thickness. Every vertex of a triangle ends inside the
    tets or within half a cell of them, because what the lattice would miss is thickened to
    about a cell. Dihedral angles lie between 10.78° and 164.75°. The same surface gives the
    same bytes.

    Parameters
    ----------
    surface : SurfaceMesh
        What to fill. Closed parts count as full whichever way they face, and so do hollows
        inside of others.
    tets : int
        How many tetrahedra to aim for, within 15 %.
    cell : float, optional
        Edge of a lattice cell; if given, `tets` does not matter.
    progress : callable, optional
        Called with the part done, 0 to 1, and what is being done.

    Returns
    -------
    TetMesh
        Vertices and tets in Morton order. Bodies have no vertex in common.

    Raises
    ------
    MeshError
        If no triangle has an area, or if the request is beyond reason.

    Warns
    -----
    SuppleWarning
        If no cell size gives about as many tets as asked for.
    """
    if tets < 1 or tets > MOST_TETS:
        raise MeshError(f"cannot make {tets} tets; ask for 1 to {MOST_TETS}")
    tell = progress or (lambda part, what: None)
    tell(0.0, "orienting the surface")
    body = _Body(surface)
    if cell is not None:
        mesh = body.mesh(float(cell))
    else:
        mesh = _search(body, int(tets), tell)
    tell(1.0, f"{len(mesh.tets)} tets")
    return mesh


class _Body:
    """A surface made ready to be filled at any cell size."""

    def __init__(self, surface: SurfaceMesh) -> None:
        welded, _ = surface.welded()
        sound = np.delete(welded.triangles, welded.degenerate_triangles(), axis=0)
        if len(sound) == 0:
            raise MeshError("no triangle of the surface has an area; nothing can be filled")
        facing = outward_triangles(welded.vertices, sound)
        self.vertices, self.triangles = welded.vertices, welded.triangles
        used = self.vertices[np.unique(self.triangles)]
        self.low, self.high = used.min(axis=0), used.max(axis=0)
        self.size = float(np.linalg.norm(self.high - self.low))
        self.distance = SoupDistance(welded.vertices, sound, facing)
        self.area = float(SurfaceMesh(welded.vertices, sound).areas().sum())
        self.volume = 0.0
        if len(facing):
            self.volume = abs(SurfaceMesh(welded.vertices, facing).volume())

    def mesh(self, cell: float) -> TetMesh:
        """Fill with cells of this size, and thicken until every vertex is covered."""
        vertices, tets = self._fill(self.distance, cell, 0.0)
        points, pieces = bisected(self.vertices, self.triangles, 0.75 * cell)
        referenced = np.unique(pieces)
        coats: list[tuple[TriangleTree, float]] = []
        for coat in _COATS:
            missed = np.zeros(len(points), dtype=bool)
            missed[referenced] = uncovered(points[referenced], vertices, tets, cell)
            bad = missed[pieces].any(axis=1)
            slits = np.empty((0, 2), dtype=np.int64)
            if len(tets):
                bad |= torn(points, pieces, vertices, tets, cell)
                slits = pinched_edges(vertices, tets)
            if bad.any():
                coats.append((TriangleTree(points, pieces[bad]), coat * cell))
            if len(slits):
                coats.append((TriangleTree(vertices, slits[:, [0, 1, 1]]), (coat - 0.15) * cell))
            if not bad.any() and len(slits) == 0:
                break
            vertices, tets = self._fill(ThickenedDistance(self.distance, coats), cell, coat)
        tets = without_crumbs(points[referenced], vertices, tets, cell)
        return TetMesh(*compact(vertices, tets, cell))

    def _fill(
        self, level_set: SoupDistance | ThickenedDistance, cell: float, margin: float
    ) -> tuple[Floats, Ints]:
        # The lattice is centred on the box whatever the margin, so that rounds compare.
        room = np.ceil(margin + 0.5) * cell
        vertices, tets = fill(level_set, self.low - room, self.high + room, cell)
        return split_pinches(vertices, tets) if len(tets) else (vertices, tets)


def _expected_cell(volume: float, area: float, tets: float) -> float:
    """The cell size at which a body gets so many tets.

    Twelve to a cell inside, and about two more for each cell's face of surface (measured).
    """
    # 12 v x³ + 2 a x² = n with x = 1 / cell; the left side grows, so Newton from above is safe.
    x = min((tets / (12 * volume)) ** (1 / 3) if volume > 0 else np.inf, (tets / (2 * area)) ** 0.5)
    for _ in range(50):
        value = 12 * volume * x**3 + 2 * area * x**2 - tets
        x -= value / (36 * volume * x**2 + 4 * area * x)
    return 1 / x


def _search(body: _Body, wanted: int, tell: Progress) -> TetMesh:
    """Try cell sizes until about the right number of tets comes out."""
    volume = body.volume
    if wanted > 2 * _CHEAP:
        # A coarse mesh tells the volume that counts: overlaps once, sheets thickened.
        tell(0.1, "measuring the volume")
        coarse = body.mesh(_expected_cell(volume, body.area, _CHEAP))
        volume = float(coarse.volumes().sum())
    cell = min(_expected_cell(volume, body.area, wanted), 4 * body.size)
    too_few, too_many = np.inf, 0.0  # cell sizes known to give that
    tried: list[tuple[float, int]] = []
    best: TetMesh | None = None
    for attempt in range(10):
        tell(0.2 + 0.08 * attempt, f"filling with cells of {cell:.4g}")
        mesh = body.mesh(cell)
        count = len(mesh.tets)
        tried.append((cell, count))
        if best is None or abs(np.log(count / wanted)) < abs(np.log(len(best.tets) / wanted)):
            best = mesh
        if abs(count / wanted - 1) <= _NEAR_ENOUGH:
            break
        if count > wanted:
            too_many = max(too_many, cell)
        else:
            too_few = min(too_few, cell)
        cell = _next_cell(tried, wanted, too_many, too_few)
        if cell > 4 * body.size or too_few - too_many < 1e-3 * too_few < np.inf:
            break
    assert best is not None
    if abs(len(best.tets) / wanted - 1) > TOLERANCE:
        warn(f"asked for {wanted} tets, but the nearest found is {len(best.tets)}; continuing")
    return best


def _next_cell(
    tried: list[tuple[float, int]], wanted: int, too_many: float, too_few: float
) -> float:
    """Secant in the logarithms, halving the bracket where the secant leaves it."""
    cell, count = tried[-1]
    slope = -2.7
    if len(tried) > 1 and tried[-2][0] != cell:
        before, count_before = tried[-2]
        slope = float(np.clip(np.log(count / count_before) / np.log(cell / before), -4.0, -1.0))
    guess = cell * (wanted / count) ** (1 / slope)
    if too_many > 0 and np.isfinite(too_few):
        margin = (too_few / too_many) ** 0.1
        if len(tried) > 4 or not too_many * margin <= guess <= too_few / margin:
            guess = np.sqrt(too_many * too_few)
    return float(guess)
