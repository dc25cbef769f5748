"""Reading tetrahedral meshes: VEG, MSH, MESH, VTK."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from supple.errors import FormatError, warn
from supple.formats.file_bytes import read_source, reading
from supple.formats.meshes.medit import parse_medit
from supple.formats.meshes.msh import parse_msh
from supple.formats.meshes.repair import usable_tets
from supple.formats.meshes.veg import read_veg
from supple.formats.meshes.vtk import parse_vtk
from supple.mesh.tets import TetMesh

__all__ = ["read_tets"]

SUFFIXES = (".veg", ".msh", ".mesh", ".vtk")


def read_tets(path: str | Path) -> TetMesh:
    """Read a tetrahedral mesh.

    Parameters
    ----------
    path : str or Path
        A VegaFEM ``.veg``, Gmsh ``.msh``, Medit ``.mesh`` or legacy ``.vtk`` file.

    Returns
    -------
    TetMesh
        Of positive tets, with the file's named sets (VEG) or physical groups (MSH).
        Vertices and tets keep the file's order.

    Raises
    ------
    FormatError, MeshError
        When the file does not hold tets; the message begins with the file's name.

    Warns
    -----
    SuppleWarning
        When tets were turned or removed, other cells left out, and for each kind of defect
        that remains.
    """
    path = Path(path)
    if path.suffix.lower() == ".veg":
        return read_veg(path).mesh
    data = read_source(path, SUFFIXES)
    with reading(path.name):
        vertices, tets, others, sets = _parse(path, data)
        if len(tets) == 0:
            held = f"only {', '.join(others)}" if others else "no tetrahedra"
            raise FormatError(f"{path.name}: has {held}; mesh its volume with tetrahedra")
        if others:
            warn(f"{path.name}: has cells that are not tets ({', '.join(others)}); left out")
        return usable_tets(path.name, vertices, tets, sets)


def _parse(
    path: Path, data: bytes
) -> tuple[np.ndarray, np.ndarray, list[str], Mapping[str, np.ndarray]]:
    match path.suffix.lower():
        case ".msh":
            return parse_msh(path.name, data)
        case ".mesh":
            return *parse_medit(path.name, data), {}
        case _:
            return *parse_vtk(path.name, data, path), {}
