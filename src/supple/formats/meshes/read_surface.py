"""Surfaces of any format: the suffix says which."""

from __future__ import annotations

from pathlib import Path

from supple.formats.file_bytes import read_bytes, reading, warn_of_defects
from supple.formats.registry import SURFACES, imported
from supple.mesh.surface import SurfaceMesh


def read_surface(path: str | Path) -> SurfaceMesh:
    """Read a triangle surface; the suffix says which format.

    Parameters
    ----------
    path : str or Path
        An ``.obj``, ``.ply``, ``.stl`` or ``.off`` file. Polygons are cut into triangles,
        objects and groups become one mesh, and vertices keep the file's order. STL has
        no vertices of its own: corners at exactly one place become one vertex.

    Returns
    -------
    SurfaceMesh

    Raises
    ------
    FormatError, MeshError
        When the file does not hold a surface; the message begins with the file's name.

    Warns
    -----
    SuppleWarning
        For each kind of defect the surface has.
    """
    data = read_bytes(path, SURFACES.suffixes())
    path = Path(path)
    row = SURFACES.find(path)
    assert row is not None  # or the suffix would have been refused
    with reading(path.name):
        vertices, triangles = imported(row.parser)(path, data)
        mesh = SurfaceMesh(vertices, triangles)
        if row.loose:
            mesh, _ = mesh.welded()
        warn_of_defects(path.name, mesh.defects())
    return mesh
