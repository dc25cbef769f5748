"""Filling a surface with cubes or tets, for a body in one piece."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from supple.app.bodies.body_options import MOST_ELEMENTS, Filling
from supple.arrays import Floats
from supple.errors import SuppleError, warn
from supple.mesh.embedding import embed, locate
from supple.mesh.filling.tetrahedralise import tetrahedralise
from supple.mesh.filling.voxelise import voxelise
from supple.mesh.hex_embedding import embed_hexes, locate_hexes
from supple.mesh.hexes import HexMesh
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh
from supple.mesh.topology import counted

Mesh = TetMesh | HexMesh
Tell = Callable[[float, str], None]

#: What is made without being asked for: a second or two of work, and a shape one knows again.
USUAL = 4_000


def filled(surface: SurfaceMesh, how: Filling, tell: Tell) -> tuple[Mesh, SurfaceMesh, Any]:
    """Fill a surface with one body.

    Returns the mesh, the part of the surface that it carries, and a sparse matrix with a row for
    each vertex of the surface as it was given: the weights of the mesh's vertices that carry it.
    """
    mesh: Mesh
    extent = float(np.ptp(surface.vertices[np.unique(surface.triangles)], axis=0).max())
    cell = None if how.resolution is None else extent / how.resolution
    count = how.count or USUAL
    if how.kind == "tets":
        mesh = _largest(tetrahedralise(surface, tets=count, cell=cell, progress=tell))
    else:
        mesh = voxelise(surface, elements=count, size=cell, progress=tell)
    _check_count(mesh)
    tell(1.0, "embedding the surface")
    if isinstance(mesh, TetMesh):
        carried, away = embed(surface.vertices, mesh), locate(surface.vertices, mesh).distance
    else:
        away = locate_hexes(surface.vertices, mesh).distance
        carried = embed_hexes(surface.vertices, mesh)
    return mesh, _carried(surface, away, _edge(mesh)), carried


def _largest(mesh: TetMesh) -> TetMesh:
    labels = mesh.components()
    sizes = np.bincount(labels, mesh.volumes())
    if len(sizes) == 1:
        return mesh
    keep = labels == int(sizes.argmax())
    warn(
        f"the surface is in several pieces: {counted(int((~keep).sum()), 'tet')} beside the "
        "largest of them left out"
    )
    used, tets = np.unique(mesh.tets[keep], return_inverse=True)
    return TetMesh(mesh.vertices[used], tets.reshape(-1, 4))


def _check_count(mesh: Mesh) -> None:
    count = len(mesh.tets if isinstance(mesh, TetMesh) else mesh.hexes)
    if count > MOST_ELEMENTS:
        raise SuppleError(
            f"{count} elements come out, more than {MOST_ELEMENTS}; use a lower --resolution"
        )


def _edge(mesh: Mesh) -> float:
    """Return about the length of an element."""
    if isinstance(mesh, TetMesh):
        return float(np.cbrt(8.5 * mesh.volumes().mean()))
    return float(np.cbrt(mesh.volumes().mean()))


def _carried(surface: SurfaceMesh, away: Floats, near: float) -> SurfaceMesh:
    """Return the triangles of the surface that are in the body, or near it."""
    inside = (away <= near)[surface.triangles].all(axis=1)
    if inside.all() or not inside.any():
        return surface
    used, triangles = np.unique(surface.triangles[inside], return_inverse=True)
    return SurfaceMesh(surface.vertices[used], triangles.reshape(-1, 3))
