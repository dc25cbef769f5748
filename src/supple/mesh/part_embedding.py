"""Skin carried by tets of its own part: bodies of tets may overlap, as parts of the skin do."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from scipy.sparse import csr_array, vstack

from supple.arrays import Floats, Ints
from supple.mesh.embedding import embed
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh

__all__ = ["embed_parts", "part_set"]

#: How sets of tets begin that carry some components of a surface and no others.
MARK = "carries component "


def part_set(components: Iterable[int]) -> str:
    """Name the set of the tets that carry these components, and nothing else does.

    >>> part_set([2, 5])
    'carries component 2,5'
    """
    return MARK + ",".join(str(int(each)) for each in components)


def embed_parts(surface: SurfaceMesh, points: Floats, owners: Ints, mesh: TetMesh) -> csr_array:
    """`embed` points of a surface, each in tets that may carry its component.

    Parameters
    ----------
    surface
        The skin; its components are counted as `SurfaceMesh.components` does.
    points, owners
        (k, 3), and a vertex (k,) of the surface that each belongs to.
    mesh
        Tets, with sets named by `part_set`; without any, each carries all.
    """
    sets = {name: tets for name, tets in mesh.sets.items() if name.startswith(MARK)}
    if not sets:
        return embed(points, mesh)
    part = np.zeros(len(surface.vertices), np.int64)
    part[surface.triangles] = surface.components()[:, None]
    rows, blocks = [], []
    left = np.ones(len(points), bool)
    for name, tets in sets.items():
        own = np.isin(part[owners], [int(each) for each in name[len(MARK) :].split(",")])
        rows.append(np.flatnonzero(own & left))
        left &= ~own
        blocks.append(embed(points[rows[-1]], TetMesh(mesh.vertices, mesh.tets[tets])))
    rows.append(np.flatnonzero(left))
    blocks.append(embed(points[rows[-1]], mesh))
    order = np.argsort(np.concatenate(rows), kind="stable")
    found = csr_array(vstack(blocks, format="csr"))
    return csr_array(found[order])
