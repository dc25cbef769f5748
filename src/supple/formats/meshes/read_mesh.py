"""Surfaces and tetrahedral meshes of any format; the suffix selects the parser."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import numpy as np

from supple.errors import FormatError, MeshError, warn
from supple.formats.file_bytes import read_bytes, reading, warn_of_defects
from supple.formats.registry import SURFACES, TETS, imported
from supple.mesh.hexes import HexMesh
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh
from supple.mesh.topology import counted

Mesh = TypeVar("Mesh", TetMesh, HexMesh)


def usable_mesh(name: str, mesh: Mesh) -> Mesh:
    """Return the mesh with positive elements only: flat ones removed, inverted ones reoriented.

    Raises MeshError when no element has a volume. Warns of changes, and of each kind of defect that
    remains.
    """
    one, many = mesh.noun, mesh.plural
    flat = mesh.degenerate_tets() if isinstance(mesh, TetMesh) else mesh.degenerate_hexes()
    if len(flat) == len(mesh.elements):
        raise MeshError(f"{name}: none of its {len(flat)} {many} has a volume")
    if len(flat):
        number = counted(len(flat), f"degenerate {one}", f"degenerate {many}")
        warn(f"{name}: has {number} without volume (first: {one} {flat[0]}); removed")
        mesh = mesh.without(flat)
    inverted = np.flatnonzero(mesh.volumes() < 0)
    if len(inverted) == len(mesh.elements):
        warn(f"{name}: all {len(inverted)} {many} have the opposite orientation; reoriented")
    elif len(inverted):
        number = counted(len(inverted), f"inverted {one}", f"inverted {many}")
        warn(f"{name}: has {number} (first: {one} {inverted[0]}); reoriented")
    mesh = mesh.oriented() if len(inverted) else mesh
    warn_of_defects(name, mesh.defects())
    return mesh


def read_surface(path: str | Path) -> SurfaceMesh:
    """Read a triangle surface; the suffix selects the format.

    Parameters
    ----------
    path : str or Path
        An ``.obj``, ``.ply``, ``.stl`` or ``.off`` file. Polygons are triangulated, objects and
        groups become one mesh, and vertices keep the file's order. Equal corners of STL files are
        merged.

    Returns
    -------
    SurfaceMesh

    Raises
    ------
    FormatError, MeshError
        When the file does not contain a surface; the message begins with the file's name.

    Warns
    -----
    SuppleWarning
        For each kind of defect the surface has.
    """
    data = read_bytes(path, SURFACES.suffixes())
    path = Path(path)
    row = SURFACES.find(path)
    assert row is not None  # `read_bytes` checks the suffix
    with reading(path.name):
        vertices, triangles = imported(row.parser)(path, data)
        mesh = SurfaceMesh(vertices, triangles)
        if row.loose:
            mesh, _ = mesh.welded()
        warn_of_defects(path.name, mesh.defects())
    return mesh


def read_tets(path: str | Path) -> TetMesh:
    """Read a tetrahedral mesh; the suffix selects the format.

    Parameters
    ----------
    path : str or Path
        A VegaFEM ``.veg``, Gmsh ``.msh``, Medit ``.mesh`` or legacy ``.vtk`` file.

    Returns
    -------
    TetMesh
        With positive tets, in the file's order, and the file's named sets (VEG) or physical groups
        (MSH).

    Raises
    ------
    FormatError, MeshError
        When the file does not contain tets; the message begins with the file's name.

    Warns
    -----
    SuppleWarning
        When tets were reoriented or removed, other cells ignored, and for each kind of defect that
        remains.
    """
    data = read_bytes(path, TETS.suffixes())
    path = Path(path)
    row = TETS.find(path)
    assert row is not None  # `read_bytes` checks the suffix
    with reading(path.name):
        vertices, tets, others, sets = imported(row.parser)(path, data)
        if len(tets) == 0:
            content = f"only {', '.join(others)}" if others else "no tetrahedra"
            raise FormatError(f"{path.name}: has {content}; mesh its volume with tetrahedra")
        if others:
            warn(f"{path.name}: has cells that are not tets ({', '.join(others)}); ignored")
        return usable_mesh(path.name, TetMesh(vertices, tets, sets))
