"""Samples of a surface, about as far apart as the edges of the tets that follow it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from supple.arrays import Floats, Ints
from supple.mesh.embedding import embed_parts
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh
from supple.mesh.topology import longest_edges

# Most samples per tet, whatever the size and shape of triangles.
_MOST_PER_TET = 8


@dataclass(frozen=True, eq=False)
class SurfaceSamples:
    """Samples of a surface as functions of its vertices and of the tet vertices.

    ``of_surface @ values`` and ``of_tets @ values`` are values at the samples, ``area`` is the area
    of each. A triangle larger than the tets has several samples: with its corners alone, the tets
    between them would be unconstrained, and tets at the corners would be pulled out of the mesh
    like needles. Where triangles are small, the samples are the surface's vertices.
    """

    of_surface: sp.csr_array
    of_tets: sp.csr_array
    area: Floats

    @classmethod
    def of(cls, surface: SurfaceMesh, mesh: TetMesh) -> SurfaceSamples:
        """Sample a surface no farther apart than the tets' edges are long."""
        pieces = _pieces(surface, typical_edge(mesh), _MOST_PER_TET * len(mesh.tets))
        of_surface, area = _spread(surface, pieces)
        owners = of_surface.indices[of_surface.indptr[:-1]].astype(np.int64)
        points = of_surface @ surface.vertices
        return cls(of_surface, embed_parts(surface, points, owners, mesh), area)


def typical_edge(mesh: TetMesh) -> float:
    """Return the edge of the regular tet of the mesh's mean volume."""
    return float((6 * np.sqrt(2) * np.abs(mesh.volumes()).mean()) ** (1 / 3))


def _pieces(surface: SurfaceMesh, spacing: float, most: int) -> Ints:
    """Count the parts into which the edges of each triangle are cut."""
    longest = longest_edges(surface.vertices, surface.triangles)
    while True:
        parts = np.maximum(np.ceil(longest / spacing), 1.0)
        if float((parts**2).sum()) <= max(most, 2 * len(parts)):
            return parts.astype(np.int64)
        spacing *= 1.25


def _spread(surface: SurfaceMesh, pieces: Ints) -> tuple[sp.csr_array, Floats]:
    """Return weights (samples, n̄) of the surface's vertices at each sample, and the areas.

    The first samples are the vertices themselves.
    """
    n = len(surface.vertices)
    areas = surface.areas()
    rows, columns, values = [np.arange(n)], [np.arange(n)], [np.ones(n)]
    vertex_area = np.zeros(n)
    sample_area = [vertex_area]
    at = n
    for parts in np.unique(pieces):
        chosen = np.flatnonzero(pieces == parts)
        barycentric, share = _lattice(int(parts))
        corners = surface.triangles[chosen]
        is_corner = barycentric.max(axis=1) == 1.0
        # Corners are vertices of the surface, and have a share of every triangle around them.
        np.add.at(vertex_area, corners, (share[is_corner][0] * areas[chosen])[:, None])
        inside = barycentric[~is_corner]
        new = len(chosen) * len(inside)
        rows.append(np.repeat(np.arange(at, at + new), 3))
        columns.append(np.repeat(corners[:, None], len(inside), axis=1).ravel())
        values.append(np.tile(inside.ravel(), len(chosen)))
        sample_area.append(np.multiply.outer(areas[chosen], share[~is_corner]).ravel())
        at += new
    entries = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
    return sp.csr_array(sp.coo_array(entries, shape=(at, n))), np.concatenate(sample_area)


def _lattice(parts: int) -> tuple[Floats, Floats]:
    """Return barycentric lattice points of a triangle cut into parts² pieces, and their shares.

    A piece gives a third of its area to each of its corners: six pieces meet inside, three on
    an edge, one at a corner.
    """
    i, j = np.indices((parts + 1, parts + 1)).reshape(2, -1)
    i, j = i[i + j <= parts], j[i + j <= parts]
    points = np.column_stack([i, j, parts - i - j])
    on_sides = (points == 0).sum(axis=1)
    share = np.choose(on_sides, [6.0, 3.0, 1.0]) / (3 * parts**2)
    return points / parts, share
