"""Tetrahedra that fill any triangle surface."""

from __future__ import annotations

from collections.abc import Callable

import igl
import numpy as np
from scipy.spatial import cKDTree

from supple.arrays import Bools, Floats, Ints
from supple.checks import checked_number
from supple.errors import MeshError, warn
from supple.mesh.filling.signed_distance import (
    SoupDistance,
    ThickenedDistance,
    TriangleTree,
    outward_triangles,
    welded_at_unit_size,
)
from supple.mesh.filling.stuffing import compact, fill, split_pinches
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh
from supple.mesh.topology import components, half_edges, row_keys

REACH = 0.45
"""Distance in cells from the tets within which a point is covered; half a cell is documented."""
Progress = Callable[[float, str], None]

MOST_TETS = 20_000_000
TOLERANCE = 0.15
# Relative error at which a search stops: smaller for small meshes.
_NEAR_ENOUGH, _NEAR_ENOUGH_IF_LARGE = 0.08, 0.13
_CHEAP = 12_000
# Largest cell, in sizes of the body.
_LARGEST_CELL = 1e3
# Thickness in cells, round by round, of the cover of parts that the lattice missed. No point is
# farther than √5/4 = 0.56 cells from the lattice, and no vertex moves by more than 0.35, so the
# thickest cover suffices.
_COATS = (0.65, 0.8, 0.95, 1.1, 1.25, 1.4)


def bisected(vertices: Floats, triangles: Ints, longest: float) -> tuple[Floats, Ints]:
    """Halve triangles across their longest edge until no edge is longer than `longest`.
    The input's vertices come first; the order of the triangles changes.
    """
    done = []
    while len(triangles):
        corners = vertices[triangles]
        lengths = np.linalg.norm(corners - np.roll(corners, -1, axis=1), axis=2)
        side = np.argmax(lengths, axis=1)
        long = lengths.max(axis=1) > longest
        done.append(triangles[~long])
        turned = np.take_along_axis(
            triangles[long], (side[long][:, None] + np.arange(3)) % 3, axis=1
        )
        a, b, c = turned.T
        keys = row_keys(np.sort(turned[:, :2], axis=1), len(vertices))
        _, first, edge = np.unique(keys, return_index=True, return_inverse=True)
        middle = len(vertices) + edge
        vertices = np.concatenate([vertices, 0.5 * (vertices[a[first]] + vertices[b[first]])])
        triangles = np.concatenate(
            [np.column_stack([a, middle, c]), np.column_stack([middle, b, c])]
        )
    return vertices, np.concatenate(done)


def bundled(vertices: Floats, triangles: Ints, spacing: float) -> Ints:
    """Join all vertices of a grid cell; return the triangles, each once. Around a needle or in a
    dense scan, thousands of triangles are equally near to a point, and a box tree would visit all
    of them.
    """
    rounded = np.round((vertices - vertices.min(axis=0)) / spacing).astype(np.int64)
    keys = row_keys(rounded, int(rounded.max()) + 1)
    _, first, place = np.unique(keys, return_index=True, return_inverse=True)
    rows = first[place.reshape(-1)][triangles]
    _, once = np.unique(row_keys(np.sort(rows, axis=1), len(vertices)), return_index=True)
    return rows[np.sort(once)]


def uncovered(points: Floats, vertices: Floats, tets: Ints, cell: float) -> Bools:
    """Return a mask of points that are neither inside the tets nor within `REACH` cells of them."""
    if len(tets) == 0:
        return np.ones(len(points), dtype=bool)
    reach = REACH * cell
    used = np.unique(tets)
    # Most points lie near a vertex; the others are tested exactly.
    far = np.isinf(cKDTree(vertices[used]).query(points, distance_upper_bound=reach)[0])
    rest = np.flatnonzero(far)
    if len(rest) == 0:
        return far
    boundary = TetMesh(vertices, tets).boundary()
    outside = TriangleTree(vertices, boundary).distance(points[rest]) > reach
    far[rest[~outside]] = False
    rest = rest[outside]
    if len(rest):
        far[rest] = np.abs(igl.fast_winding_number(vertices, boundary, points[rest])) < 0.5
    return far


def pinched_edges(vertices: Floats, tets: Ints) -> Ints:
    """Find edges (k, 2) in which more than two faces of the boundary meet.
    `supple.mesh.filling.stuffing.split_pinches` separates bodies that only touch; the
    remaining edges are slits one edge long, between tets that are connected around both ends of it.
    """
    edges = np.sort(half_edges(TetMesh(vertices, tets).boundary()), axis=1)
    keys = row_keys(edges, len(vertices))
    _, first, uses = np.unique(keys, return_index=True, return_counts=True)
    return edges[first[uses > 2]]


def torn(points: Floats, triangles: Ints, vertices: Floats, tets: Ints) -> Bools:
    """Return a mask of surface triangles between bodies of tets that should be connected.

    A body belongs to the surface component most of whose points are next to it. Bodies of different
    components may be near each other; bodies of one component must be connected, and so must
    bodies of two if one's surface begins inside the other's body.
    """
    bodies, label, nearest = _bodies(points, vertices, tets)
    at = label[nearest]
    across = np.flatnonzero(np.ptp(at[triangles], axis=1) > 0)
    apart = np.zeros(len(triangles), dtype=bool)
    if len(across) == 0:
        return apart
    surface = components(triangles, len(points))
    owner = _owners(surface, triangles, at, bodies)
    guests = np.flatnonzero(np.isin(surface, surface[across]))
    guests = guests[(owner[at[triangles[guests]]] != surface[guests, None]).any(axis=1)]
    linked = {(int(owner[body]), body) for body in range(bodies)}
    boundary = TetMesh(vertices, tets).boundary()
    for body in np.unique(at[triangles[guests]]):
        here = at[triangles[guests]] == body
        visitors, row = np.unique(triangles[guests][here], return_index=True)
        skin = boundary[label[boundary[:, 0]] == body]
        inside = np.abs(igl.fast_winding_number(vertices, skin, points[visitors])) > 0.5
        origin = np.broadcast_to(surface[guests, None], here.shape)[here][row]
        linked |= {(int(component), int(body)) for component in origin[inside]}
    for triangle in across:
        component, bodies_at = int(surface[triangle]), at[triangles[triangle]].tolist()
        apart[triangle] = all((component, body) in linked for body in bodies_at)
    return apart


def _owners(surface: Ints, triangles: Ints, at: Ints, bodies: int) -> Ints:
    """Return for each body the surface component with most triangle corners nearest to it."""
    n_surfaces = int(surface.max()) + 1
    pairs, votes = np.unique(at[triangles] * n_surfaces + surface[:, None], return_counts=True)
    order = np.argsort(votes, kind="stable")
    owner = np.full(bodies, -1, dtype=np.int64)
    owner[pairs[order] // n_surfaces] = pairs[order] % n_surfaces  # the last one is stored
    return owner


def _bodies(points: Floats, vertices: Floats, tets: Ints) -> tuple[int, Ints, Ints]:
    """Return the number of bodies, the body of each vertex, and each point's nearest vertex."""
    of_tet = components(tets, len(vertices))
    label = np.full(len(vertices), -1, dtype=np.int64)
    label[tets] = of_tet[:, None]
    used = np.flatnonzero(label >= 0)
    nearest = used[cKDTree(vertices[used]).query(points)[1]]
    return int(of_tet.max()) + 1, label, nearest


def without_crumbs(points: Floats, vertices: Floats, tets: Ints, cell: float) -> Ints:
    """Return the tets without bodies smaller than a cell that are not needed to cover points."""
    of_tet = components(tets, len(vertices))
    crumb = np.bincount(of_tet, TetMesh(vertices, tets).volumes()) < cell**3
    if not crumb.any():
        return tets
    _, label, nearest = _bodies(points, vertices, tets)
    at = label[nearest]
    beside = np.flatnonzero(crumb[at])
    needed = uncovered(points[beside], vertices, tets[~crumb[of_tet]], cell)
    crumb[at[beside[needed]]] = False
    return tets[~crumb[of_tet]] if not crumb.all() else tets


def tetrahedralise(
    surface: SurfaceMesh,
    *,
    tets: int = 12_000,
    cell: float | None = None,
    progress: Progress | None = None,
) -> TetMesh:
    """Fill a surface with well-shaped tetrahedra.

    Isosurface stuffing of the surface's signed distance. Any triangles are allowed: inside out,
    overlapping, with holes, without thickness. Every vertex of a triangle is inside the tets or
    within half a cell of them, as parts that the lattice would miss are thickened to about a cell.
    Dihedral angles lie between 10.78° and 164.75°. The same surface gives the same bytes.

    Parameters
    ----------
    surface : SurfaceMesh
        Surface to fill. Closed parts count as filled in any orientation, and so do cavities.
    tets : int
        Number of tetrahedra, within 15 %.
    cell : float, optional
        Edge of a lattice cell; overrides `tets`.
    progress : callable, optional
        Called with the fraction done, 0 to 1, and a description.

    Returns
    -------
    TetMesh
        Vertices and tets in Morton order. Bodies have no vertex in common.

    Raises
    ------
    MeshError
        If no triangle has an area, or the request is out of range.

    Warns
    -----
    SuppleWarning
        If no cell size gives about as many tets as requested.
    """
    count = checked_number("the number of tets", tets)
    if not 1 <= count <= MOST_TETS:
        raise MeshError(f"cannot make {tets} tets; use 1 to {MOST_TETS}")
    report = progress or (lambda part, what: None)
    report(0.0, "orienting the surface")
    body = _Body(surface)
    edge = None if cell is None else _checked_cell(cell, body)
    mesh = _search(body, int(count), report) if edge is None else body.mesh(edge)
    report(1.0, f"{len(mesh.tets)} tets")
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
    """Surface prepared for filling at any cell size; lengths are in units of `scale`."""

    def __init__(self, surface: SurfaceMesh) -> None:
        welded, with_area, self.scale = welded_at_unit_size(surface)
        if len(with_area) == 0:
            raise MeshError("no triangle of the surface has an area; nothing can be filled")
        facing = outward_triangles(welded.vertices, with_area)
        self.vertices, self.triangles = welded.vertices, welded.triangles
        self.low, self.high = welded.bounds
        self.size = float(np.linalg.norm(self.high - self.low))
        self.distance = SoupDistance(welded.vertices, with_area, facing)
        self.area = 2 * float(SurfaceMesh(welded.vertices, with_area).areas().sum())
        self.volume = 0.0
        if len(facing):  # other triangles are sheets with two sides
            bounding = SurfaceMesh(welded.vertices, facing)
            self.area -= float(bounding.areas().sum())
            self.volume = abs(bounding.volume())

    def mesh(self, cell: float, shift: float = 0.0) -> TetMesh:
        """Fill with cells of this size, and thicken until every vertex is covered.
        The lattice is centred on the body, for symmetry, and shifted by a fraction of a cell.
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
            # Tips and slits are connected to the body, so less thickness suffices.
            parts = (points, sheets, 0), (points, tips, 0.2), (vertices, slits, 0.15)
            new_coats = [
                (TriangleTree(where, triangles), (coat - less) * cell)
                for where, triangles, less in parts
                if len(triangles)
            ]
            if not new_coats:
                break
            coats += new_coats
            vertices, tets = self._fill(ThickenedDistance(self.distance, coats), cell, shift)
        else:
            uncovered_points = int(uncovered(points[referenced], vertices, tets, cell).sum())
            if uncovered_points:
                warn(
                    f"{uncovered_points} surface points stay farther than half a cell from "
                    "every tet"
                )
        tets = without_crumbs(points[referenced], vertices, tets, cell)
        return TetMesh(*compact(vertices, tets, cell))

    def _fill(
        self, level_set: SoupDistance | ThickenedDistance, cell: float, shift: float
    ) -> tuple[Floats, Ints]:
        room = 2 * cell  # more than the thickest cover
        offset = shift * cell * np.array([0.37, 0.23, 0.11])
        low, high = self.low - room + offset, self.high + room + offset
        vertices, tets = fill(level_set, low, high, cell, self.scale)
        return split_pinches(vertices, tets) if len(tets) else (vertices, tets)


def _tips(pieces: Ints, missed: Bools) -> Ints:
    """Return missed corners and edges of partly covered triangles, as flat triangles."""
    out = missed[pieces]
    some = out.any(axis=1) & ~out.all(axis=1)
    a_missed = pieces[some][np.arange(np.count_nonzero(some)), np.argmax(out[some], axis=1)]
    partly = np.where(out[some], pieces[some], a_missed[:, None])
    alone = missed.copy()  # joined with other vertices
    alone[pieces] = False
    return np.concatenate([partly, np.repeat(np.flatnonzero(alone)[:, None], 3, axis=1)])


def _expected_cell(volume: float, area: float, tets: float, thinnest: float = 1.3) -> float:
    """Estimate the cell size at which a body gets a number of tets: twelve per cell inside, and
    about two more per face of the surface (measured). No part is thinner than `thinnest` cells.
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


def _forecast(body: _Body, target_count: int) -> float:
    """Return an initial cell size, from the surface or from coarser meshes."""
    cell = _expected_cell(body.volume, body.area, min(target_count, _CHEAP))
    if target_count <= 2 * _CHEAP:
        return cell
    # Volume and area on the lattice: overlaps count once, thin parts are thickened.
    coarse = body.mesh(cell)
    volume, area = float(coarse.volumes().sum()), body.area
    if target_count > 20 * _CHEAP:
        finer = cell / 1.6
        sizes = np.array([cell, finer])
        counts = np.array([len(coarse.tets), len(body.mesh(finer).tets)])
        law = np.column_stack([12 / sizes**3, 2 / sizes**2])
        fit = np.linalg.solve(law, counts)
        if (fit > 0).all():
            return _expected_cell(fit[0], fit[1], target_count, thinnest=0.0)
    return _expected_cell(volume, area, target_count)


def _search(body: _Body, target_count: int, report: Progress) -> TetMesh:
    """Return the mesh with about the right number of tets, by trying cell sizes."""
    report(0.1, "measuring the body")
    cell = min(_forecast(body, target_count), 4 * body.size)
    best: TetMesh | None = None
    for shift in (0.0, 1.0, 2.0):
        # On a lattice with the body's symmetries the number jumps; shifted, it jumps less.
        mesh = _search_shifted(body, target_count, cell, shift, report)
        if best is None or _miss(mesh, target_count) < _miss(best, target_count):
            best = mesh
        # A lattice gives at least the 24 tets around one point.
        if abs(len(best.tets) / target_count - 1) <= TOLERANCE or target_count < 21:
            break
    assert best is not None
    if abs(len(best.tets) / target_count - 1) > TOLERANCE:
        warn(
            f"{target_count} tets requested, but the nearest mesh has {len(best.tets)}; continuing"
        )
    return best


def _miss(mesh: TetMesh, target_count: int) -> float:
    return abs(float(np.log(len(mesh.tets) / target_count)))


def _search_shifted(
    body: _Body, target_count: int, cell: float, shift: float, report: Progress
) -> TetMesh:
    largest = 4 * body.size
    near_enough = _NEAR_ENOUGH if target_count <= 4 * _CHEAP else _NEAR_ENOUGH_IF_LARGE
    too_few, too_many = np.inf, 0.0  # cell sizes known to give that
    tried: list[tuple[float, int]] = []
    best: TetMesh | None = None
    for _ in range(7):
        report(0.2, f"filling with cells of {cell * body.scale:.4g}")
        mesh = body.mesh(cell, shift)
        count = len(mesh.tets)
        tried.append((cell, count))
        if best is None or _miss(mesh, target_count) < _miss(best, target_count):
            best = mesh
        if abs(count / target_count - 1) <= near_enough:
            break
        if count > target_count:
            too_many = max(too_many, cell)
        else:
            too_few = min(too_few, cell)
        cell = _next_cell(tried, target_count, too_many, too_few)
        if cell > largest or too_few - too_many < 1e-3 * too_few < np.inf:
            break
    assert best is not None
    return best


def _next_cell(
    tried: list[tuple[float, int]], target_count: int, too_many: float, too_few: float
) -> float:
    """Take a secant step in the logarithms, or halve the bracket if the step leaves it."""
    cell, count = tried[-1]
    slope = -2.7
    if len(tried) > 1 and tried[-2][0] != cell:
        before, count_before = tried[-2]
        slope = float(np.clip(np.log(count / count_before) / np.log(cell / before), -4.0, -1.0))
    guess = cell * (target_count / count) ** (1 / slope)
    if too_many > 0 and np.isfinite(too_few):
        margin = (too_few / too_many) ** 0.1
        if len(tried) > 4 or not too_many * margin <= guess <= too_few / margin:
            guess = np.sqrt(too_many * too_few)
    return float(guess)
