"""Tetrahedra that fill a surface, however broken the surface is."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from supple.arrays import Bools, Floats, Ints
from supple.checks import checked_number
from supple.errors import MeshError, warn
from supple.mesh.filling.coverage import (
    bisected,
    bundled,
    pinched_edges,
    torn,
    uncovered,
    without_crumbs,
)
from supple.mesh.filling.signed_distance import (
    SoupDistance,
    ThickenedDistance,
    TriangleTree,
    outward_triangles,
)
from supple.mesh.filling.stuffing import compact, fill, split_pinches
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh
from supple.mesh.topology import power_of_two_size

Progress = Callable[[float, str], None]

MOST_TETS = 20_000_000
TOLERANCE = 0.15
# A search stops this close to the number wanted: nearer for meshes that take no time.
_NEAR_ENOUGH, _NEAR_ENOUGH_IF_LARGE = 0.08, 0.13
_CHEAP = 12_000
# A cell longer than the body by this much says nothing about it.
_LARGEST_CELL = 1e3
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
    wanted = checked_number("the number of tets", tets)
    if not 1 <= wanted <= MOST_TETS:
        raise MeshError(f"cannot make {tets} tets; ask for 1 to {MOST_TETS}")
    tell = progress or (lambda part, what: None)
    tell(0.0, "orienting the surface")
    body = _Body(surface)
    if cell is None:
        mesh = _search(body, int(wanted), tell)
    else:
        mesh = body.mesh(_checked_cell(cell, body))
    tell(1.0, f"{len(mesh.tets)} tets")
    return TetMesh(mesh.vertices * body.scale, mesh.tets)


def _checked_cell(cell: float, body: _Body) -> float:
    """Return the edge of a cell in the body's unit."""
    edge = checked_number("the edge of a cell", cell)
    if not 0 < edge <= _LARGEST_CELL * body.scale:
        length = (body.high - body.low).max() * body.scale
        raise MeshError(
            f"cells of {edge:g} cannot fill a body {length:.4g} long; take"
            " a positive length, about as long or shorter"
        )
    return edge / body.scale


class _Body:
    """A surface made ready to be filled at any cell size; all lengths here are in `scale`."""

    def __init__(self, surface: SurfaceMesh) -> None:
        index, triangles = np.unique(surface.triangles, return_inverse=True)
        used = surface.vertices[index]
        self.scale = power_of_two_size(used)
        welded, _ = SurfaceMesh(used / self.scale, triangles.reshape(-1, 3)).welded()
        sound = np.delete(welded.triangles, welded.degenerate_triangles(), axis=0)
        if len(sound) == 0:
            raise MeshError("no triangle of the surface has an area; nothing can be filled")
        facing = outward_triangles(welded.vertices, sound)
        self.vertices, self.triangles = welded.vertices, welded.triangles
        self.low, self.high = welded.bounds
        self.size = float(np.linalg.norm(self.high - self.low))
        self.distance = SoupDistance(welded.vertices, sound, facing)
        self.area = 2 * float(SurfaceMesh(welded.vertices, sound).areas().sum())
        self.volume = 0.0
        if len(facing):  # what remains are sheets, and they have two sides
            bounding = SurfaceMesh(welded.vertices, facing)
            self.area -= float(bounding.areas().sum())
            self.volume = abs(bounding.volume())

    def mesh(self, cell: float, shift: float = 0.0) -> TetMesh:
        """Fill with cells of this size, and thicken until every vertex is covered.

        The lattice is centred on the body, so symmetric bodies get symmetric lattices, or it
        is shifted from there by a part of a cell.
        """
        vertices, tets = self._fill(self.distance, cell, shift)
        points, pieces = bisected(self.vertices, self.triangles, 0.75 * cell)
        pieces = bundled(points, pieces, 0.1 * cell)
        referenced = np.union1d(pieces, self.triangles)
        coats: list[tuple[TriangleTree, float]] = []
        for coat in _COATS:
            missed = np.zeros(len(points), dtype=bool)
            missed[referenced] = uncovered(points[referenced], vertices, tets, cell)
            sheets = pieces[missed[pieces].all(axis=1)]
            tips = _tips(pieces, missed)
            slits = np.empty((0, 3), dtype=np.int64)
            if len(tets):
                sheets = np.concatenate([sheets, pieces[torn(points, pieces, vertices, tets)]])
                slits = pinched_edges(vertices, tets)[:, [0, 1, 1]]
            added = 0
            # A tip hangs on to the body, and a slit is inside of it: less will do there.
            for where, what, less in (
                (points, sheets, 0),
                (points, tips, 0.2),
                (vertices, slits, 0.15),
            ):
                if len(what):
                    coats.append((TriangleTree(where, what), (coat - less) * cell))
                    added += 1
            if not added:
                break
            vertices, tets = self._fill(ThickenedDistance(self.distance, coats), cell, shift)
        else:
            left = int(uncovered(points[referenced], vertices, tets, cell).sum())
            if left:
                warn(f"{left} surface points stay farther than half a cell from every tet")
        tets = without_crumbs(points[referenced], vertices, tets, cell)
        return TetMesh(*compact(vertices, tets, cell))

    def _fill(
        self, level_set: SoupDistance | ThickenedDistance, cell: float, shift: float
    ) -> tuple[Floats, Ints]:
        room = 2 * cell  # more than the thickest coat
        offset = shift * cell * np.array([0.37, 0.23, 0.11])
        low, high = self.low - room + offset, self.high + room + offset
        vertices, tets = fill(level_set, low, high, cell, self.scale)
        return split_pinches(vertices, tets) if len(tets) else (vertices, tets)


def _tips(pieces: Ints, missed: Bools) -> Ints:
    """Return missed corners and edges of triangles not missed whole, as flat triangles."""
    out = missed[pieces]
    some = out.any(axis=1) & ~out.all(axis=1)
    a_missed = pieces[some][np.arange(np.count_nonzero(some)), np.argmax(out[some], axis=1)]
    partly = np.where(out[some], pieces[some], a_missed[:, None])
    alone = missed.copy()  # those whose place another vertex of the bundle has taken
    alone[pieces] = False
    return np.concatenate([partly, np.repeat(np.flatnonzero(alone)[:, None], 3, axis=1)])


def _expected_cell(volume: float, area: float, tets: float, thinnest: float = 1.3) -> float:
    """Estimate the cell size at which a body gets so many tets.

    Twelve to a cell inside, and about two more for each cell's face of surface (measured). No
    part is left thinner than so many cells.
    """
    small, large = 0.0, np.inf
    cell = float(np.sqrt(area / tets))
    for _ in range(100):
        filled = max(volume, 0.5 * thinnest * area * cell)
        if 12 * filled / cell**3 + 2 * area / cell**2 > tets:
            small = cell
        else:
            large = cell
        cell = 2 * cell if np.isinf(large) else 0.5 * (small + large)
    return cell


def _forecast(body: _Body, wanted: int) -> float:
    """Guess a first cell size, from the surface or from coarser meshes."""
    cell = _expected_cell(body.volume, body.area, min(wanted, _CHEAP))
    if wanted <= 2 * _CHEAP:
        return cell
    # Volume and area as the lattice sees them: overlaps count once, thin parts thickened.
    coarse = body.mesh(cell)
    volume, area = float(coarse.volumes().sum()), body.area
    if wanted > 20 * _CHEAP:
        finer = cell / 1.6
        sizes = np.array([cell, finer])
        counts = np.array([len(coarse.tets), len(body.mesh(finer).tets)])
        law = np.column_stack([12 / sizes**3, 2 / sizes**2])
        fit = np.linalg.solve(law, counts)
        if (fit > 0).all():
            return _expected_cell(fit[0], fit[1], wanted, thinnest=0.0)
    return _expected_cell(volume, area, wanted)


def _search(body: _Body, wanted: int, tell: Progress) -> TetMesh:
    """Try cell sizes until about the right number of tets comes out."""
    tell(0.1, "measuring the body")
    cell = min(_forecast(body, wanted), 4 * body.size)
    best: TetMesh | None = None
    for shift in (0.0, 1.0, 2.0):
        # On a lattice that has the body's symmetries the number leaps; shifted, it leaps less.
        mesh = _search_shifted(body, wanted, cell, shift, tell)
        if best is None or _miss(mesh, wanted) < _miss(best, wanted):
            best = mesh
        # No lattice gives fewer than a point's 24 tets.
        if abs(len(best.tets) / wanted - 1) <= TOLERANCE or wanted < 21:
            break
    assert best is not None
    if abs(len(best.tets) / wanted - 1) > TOLERANCE:
        warn(f"asked for {wanted} tets, but the nearest found is {len(best.tets)}; continuing")
    return best


def _miss(mesh: TetMesh, wanted: int) -> float:
    return abs(float(np.log(len(mesh.tets) / wanted)))


def _search_shifted(body: _Body, wanted: int, cell: float, shift: float, tell: Progress) -> TetMesh:
    largest = 4 * body.size
    near_enough = _NEAR_ENOUGH if wanted <= 4 * _CHEAP else _NEAR_ENOUGH_IF_LARGE
    too_few, too_many = np.inf, 0.0  # cell sizes known to give that
    tried: list[tuple[float, int]] = []
    best: TetMesh | None = None
    for _ in range(7):
        tell(0.2, f"filling with cells of {cell * body.scale:.4g}")
        mesh = body.mesh(cell, shift)
        count = len(mesh.tets)
        tried.append((cell, count))
        if best is None or _miss(mesh, wanted) < _miss(best, wanted):
            best = mesh
        if abs(count / wanted - 1) <= near_enough:
            break
        if count > wanted:
            too_many = max(too_many, cell)
        else:
            too_few = min(too_few, cell)
        cell = _next_cell(tried, wanted, too_many, too_few)
        if cell > largest or too_few - too_many < 1e-3 * too_few < np.inf:
            break
    assert best is not None
    return best


def _next_cell(
    tried: list[tuple[float, int]], wanted: int, too_many: float, too_few: float
) -> float:
    """Take a secant step in the logarithms, or halve the bracket where that leaves it."""
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
