"""Reading surfaces: OBJ, PLY, STL, OFF."""

from __future__ import annotations

from pathlib import Path

from supple.formats.file_bytes import read_source, reading, report
from supple.formats.meshes.obj import parse_obj
from supple.formats.meshes.off import parse_off
from supple.formats.meshes.ply import parse_ply
from supple.formats.meshes.stl import parse_stl
from supple.mesh.surface import SurfaceMesh

__all__ = ["read_surface"]

PARSERS = {".obj": parse_obj, ".ply": parse_ply, ".stl": parse_stl, ".off": parse_off}


def read_surface(path: str | Path) -> SurfaceMesh:
    """Read a triangle surface.

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
    data = read_source(path, tuple(PARSERS))
    path = Path(path)
    with reading(path.name):
        vertices, triangles = PARSERS[path.suffix.lower()](path.name, data)
        mesh = SurfaceMesh(vertices, triangles)
        if path.suffix.lower() == ".stl":
            mesh, _ = mesh.welded()
        report(path.name, mesh.defects())
    return mesh
