"""Meshes of elements made usable: flat elements removed, inverted ones turned."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from supple.errors import MeshError, warn
from supple.formats.file_bytes import warn_of_defects
from supple.mesh.hexes import HexMesh
from supple.mesh.tets import TetMesh
from supple.mesh.topology import counted

Mesh = TypeVar("Mesh", TetMesh, HexMesh)


def usable_mesh(name: str, mesh: Mesh) -> Mesh:
    """Return the mesh with positive elements only.

    Raises
    ------
    MeshError
        When no element has a volume.

    Warns
    -----
    SuppleWarning
        When elements were turned or removed, and for each kind of defect that remains.
    """
    one, many = ("tet", "tets") if isinstance(mesh, TetMesh) else ("hex", "hexes")
    flat = _degenerate(mesh)
    if len(flat) == _count(mesh):
        raise MeshError(f"{name}: none of its {len(flat)} {many} has a volume")
    if len(flat):
        number = counted(len(flat), f"degenerate {one}", f"degenerate {many}")
        warn(f"{name}: has {number} without volume (first: {one} {flat[0]}); removed")
        mesh = mesh.without(flat)
    inverted = np.flatnonzero(mesh.volumes() < 0)
    if len(inverted) == _count(mesh):
        warn(f"{name}: all {len(inverted)} {many} are oriented the other way round; turned")
    elif len(inverted):
        number = counted(len(inverted), f"inverted {one}", f"inverted {many}")
        warn(f"{name}: has {number} (first: {one} {inverted[0]}); turned")
    mesh = mesh.oriented() if len(inverted) else mesh
    warn_of_defects(name, mesh.defects())
    return mesh


def _count(mesh: TetMesh | HexMesh) -> int:
    return len(mesh.tets if isinstance(mesh, TetMesh) else mesh.hexes)


def _degenerate(mesh: TetMesh | HexMesh) -> np.ndarray:
    return mesh.degenerate_tets() if isinstance(mesh, TetMesh) else mesh.degenerate_hexes()
