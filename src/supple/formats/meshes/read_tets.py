"""Tetrahedral meshes of any format: the suffix says which."""

from __future__ import annotations

from pathlib import Path

from supple.errors import FormatError, warn
from supple.formats.file_bytes import read_bytes, reading
from supple.formats.meshes.repair import usable_mesh
from supple.formats.registry import TETS, imported
from supple.mesh.tets import TetMesh


def read_tets(path: str | Path) -> TetMesh:
    """Read a tetrahedral mesh; the suffix says which format.

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
    data = read_bytes(path, TETS.suffixes())
    path = Path(path)
    row = TETS.find(path)
    assert row is not None  # or the suffix would have been refused
    with reading(path.name):
        vertices, tets, others, sets = imported(row.parser)(path, data)
        if len(tets) == 0:
            held = f"only {', '.join(others)}" if others else "no tetrahedra"
            raise FormatError(f"{path.name}: has {held}; mesh its volume with tetrahedra")
        if others:
            warn(f"{path.name}: has cells that are not tets ({', '.join(others)}); left out")
        return usable_mesh(path.name, TetMesh(vertices, tets, sets))
