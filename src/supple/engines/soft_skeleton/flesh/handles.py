"""Handles of the flesh: chosen by hand or spread evenly, and mirrored to the other side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.sparse.csgraph import dijkstra
from scipy.spatial import cKDTree

from supple.arrays import Floats, Ints
from supple.checks import checked_count, checked_indices, numbers, plain_array
from supple.engines.soft_skeleton.flesh.soft_layer import FleshLayer
from supple.errors import SuppleError
from supple.mesh.tets import EDGES, TetMesh
from supple.rig.tets.surface_samples import typical_edge

#: Largest distance of a given point from the tets' boundary, in the body's size and in edges.
FAR, FAR_EDGES = 0.02, 1.5


@dataclass(frozen=True, eq=False)
class Handles:
    """Handles of a soft skeleton: a number of them, or places chosen by hand.

    Attributes
    ----------
    count
        Number of handles to spread evenly over the skin.
    vertices, points
        Vertices of the skin (h,), or points (h, 3) at rest in m, that are handles; in place of
        `count`.
    mirror
        Whether a body with two sides has the same handles on both: spread handles come in pairs,
        and those chosen on one side are repeated on the other.

    Examples
    --------
    >>> Handles.of([10, 20, 30]).vertices
    [10, 20, 30]
    >>> Handles.of(90).count
    90
    """

    count: int | None = None
    vertices: ArrayLike | None = None
    points: ArrayLike | None = None
    mirror: bool = True

    def __post_init__(self) -> None:
        """Refuse contradictory choices."""
        given = [each for each in (self.count, self.vertices, self.points) if each is not None]
        if len(given) != 1:
            raise SuppleError("handles: give their number, vertices of the skin, or points")
        if self.count is not None:
            checked_count("handles", self.count)
        elif not np.size(plain_array("handles", given[0])):
            raise SuppleError("handles: the list is empty")

    @classmethod
    def of(cls, given: Handles | int | ArrayLike) -> Handles:
        """Return handles from their number, vertices (h,) of the skin, or points (h, 3)."""
        if isinstance(given, Handles):
            return given
        if np.ndim(plain_array("handles", given)) == 0:
            return cls(given)  # type: ignore[arg-type]
        flat = np.ndim(plain_array("handles", given)) == 1
        return cls(vertices=given) if flat else cls(points=given)


def handle_vertices(
    layer: FleshLayer, given: Handles | int, density: Floats | None, *, interior: bool = False
) -> Ints:
    """Return the tet vertices (h,) of handles; `interior` spreads them over all of the flesh."""
    handles = Handles.of(given)
    twins = layer.twins if handles.mirror else None
    if handles.count is not None:
        candidates = layer.free if interior else layer.outer
        return farthest_handles(
            layer.mesh, candidates, handles.count, density, None if interior else twins
        )
    chosen = _nearest_outer(layer, handles)
    if twins is None:
        return chosen
    others = twins[chosen]
    return np.concatenate([chosen, np.setdiff1d(others[others >= 0], chosen)])


def _nearest_outer(layer: FleshLayer, handles: Handles) -> Ints:
    """Return the outer tet vertex (h,) of each handle that was chosen by hand."""
    if handles.vertices is not None:
        places = layer.skin[checked_indices("handles: vertex", handles.vertices, len(layer.skin))]
    else:
        given = () if handles.points is None else handles.points
        places = numbers("handles", given, "points (h, 3) in m")
        if places.ndim != 2 or places.shape[1] != 3 or not np.isfinite(places).all():
            raise SuppleError(f"handles: points must be finite numbers (h, 3), not {places.shape}")
    positions = layer.mesh.vertices[layer.outer]
    distances, nearest = cKDTree(positions).query(places)
    far = max(FAR * layer.mesh.size, FAR_EDGES * typical_edge(layer.mesh))
    if distances.max() > far:
        worst = int(distances.argmax())
        raise SuppleError(
            f"handle {worst} is {distances[worst]:.3g} m from soft skin; "
            "choose places on skin with flesh below"
        )
    used, first = np.unique(nearest, return_index=True)
    if len(used) < len(nearest):
        last = int(np.setdiff1d(np.arange(len(nearest)), first)[0])
        other = int(np.flatnonzero(nearest == nearest[last])[0])
        raise SuppleError(
            f"handles {other} and {last} are at the same vertex of the tets; "
            "drop one, or use more tets"
        )
    return layer.outer[nearest]


def farthest_handles(
    mesh: TetMesh,
    candidates: Ints,
    count: int,
    density: Floats | None = None,
    twins: Ints | None = None,
) -> Ints:
    """Return vertices (count,) by farthest-point sampling among candidates on the skin.

    Distances are along edges of the tets, so that touching fingers stay apart. `density` (n,) is
    relative, by vertex; None for a uniform one. `twins` (n,) are vertices at mirror images, itself
    on the plane, −1 for none: both vertices of a pair become handles.
    """
    graph = _edge_graph(mesh)
    if twins is not None:
        candidates = _with_twins(candidates, twins)
    here = np.arange(len(candidates))
    twin = here if twins is None else _twin_places(len(mesh.vertices), candidates, twins)
    positions = mesh.vertices[candidates]
    dense = np.ones(len(candidates)) if density is None else density[candidates]
    dense = np.maximum(dense, dense[twin])
    single = twin == here
    # The spacing at which a vertex next to the plane and its twin are one handle too many.
    apart = np.where(single, np.inf, np.linalg.norm(positions - positions[twin], axis=1))
    gains = np.linalg.norm(positions - positions.mean(axis=0), axis=1)
    distances, chosen = np.full(len(candidates), np.inf), list[int]()
    most = min(count, len(candidates))
    while len(chosen) < most:
        if len(chosen) == most - 1 and (gains[single] > 0).any():
            gains = np.where(single, gains, -1.0)  # one is left: without a twin
        first = int(np.argmax(gains))
        for place in dict.fromkeys((first, int(twin[first]))):
            if len(chosen) < most:
                chosen.append(place)
                reached = dijkstra(graph, False, int(candidates[place]))[candidates]
                np.minimum(distances, reached, out=distances)
        # A separate component is infinitely far, and gets a handle first.
        gains = np.minimum(np.where(np.isinf(distances), 1e300, distances), apart) * dense
        gains[distances == 0.0] = 0.0
    return candidates[np.array(chosen)]


def _edge_graph(mesh: TetMesh) -> sp.csr_array:
    """Return the lengths (n, n) of the tets' edges."""
    ends = np.unique(np.sort(mesh.tets[:, EDGES].reshape(-1, 2), axis=1), axis=0)
    n = len(mesh.vertices)
    lengths = np.linalg.norm(mesh.vertices[ends[:, 0]] - mesh.vertices[ends[:, 1]], axis=1)
    return sp.coo_array((lengths, (ends[:, 0], ends[:, 1])), (n, n)).tocsr()


def _with_twins(candidates: Ints, twins: Ints) -> Ints:
    """Return the candidates that are twins of their twins, or have no skin on the other side."""
    other = twins[candidates]
    mutual = (other < 0) | (twins[np.maximum(other, 0)] == candidates)
    kept = candidates[mutual & ((other < 0) | np.isin(other, candidates))]
    return kept if len(kept) else candidates


def _twin_places(n: int, candidates: Ints, twins: Ints) -> Ints:
    """Return the twin of each candidate as an index into the candidates, itself if it has none."""
    place = np.full(n, -1)
    place[candidates] = np.arange(len(candidates))
    other = twins[candidates]
    twin = np.where(other < 0, -1, place[np.maximum(other, 0)])
    return np.where(twin < 0, np.arange(len(candidates)), twin)
