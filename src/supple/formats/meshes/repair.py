"""What every reader of tets does with those it cannot use as they are."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from supple.errors import MeshError, warn
from supple.formats.file_bytes import report
from supple.mesh.hexes import HexMesh
from supple.mesh.tets import TetMesh
from supple.mesh.topology import counted


def usable_tets(
    name: str,
    vertices: np.ndarray,
    tets: np.ndarray,
    sets: Mapping[str, np.ndarray] | None = None,
) -> TetMesh:
    """A mesh of positive tets; says what was turned, removed or is still wrong."""
    mesh = TetMesh(vertices, tets, sets)
    flat = mesh.degenerate_tets()
    if len(flat) == len(mesh.tets):
        raise MeshError(f"{name}: none of its {len(flat)} tets has a volume")
    if len(flat):
        warn(
            f"{name}: has {counted(len(flat), 'degenerate tet')} without volume"
            f" (first: tet {flat[0]}); removed"
        )
        mesh = mesh.without(flat)
    inverted = np.flatnonzero(mesh.volumes() < 0)
    if len(inverted) == len(mesh.tets):
        warn(f"{name}: all {len(inverted)} tets are oriented the other way round; turned")
    elif len(inverted):
        warn(
            f"{name}: has {counted(len(inverted), 'inverted tet')}"
            f" (first: tet {inverted[0]}); turned"
        )
    mesh = mesh.oriented() if len(inverted) else mesh
    report(name, mesh.defects())
    return mesh


# ----------------------------------------------------------------------------
# What a reader of hexahedra does with those it cannot use as they are.


def usable_hexes(
    name: str,
    vertices: np.ndarray,
    hexes: np.ndarray,
    sets: Mapping[str, np.ndarray] | None = None,
) -> HexMesh:
    """A mesh of positive hexes; says what was turned, removed or is still wrong."""
    mesh = HexMesh(vertices, hexes, sets)
    flat = mesh.degenerate_hexes()
    if len(flat) == len(mesh.hexes):
        raise MeshError(f"{name}: none of its {len(flat)} hexes has a volume")
    if len(flat):
        warn(
            f"{name}: has {counted(len(flat), 'degenerate hex', 'degenerate hexes')} without"
            f" volume (first: hex {flat[0]}); removed"
        )
        mesh = mesh.without(flat)
    inverted = np.flatnonzero(mesh.volumes() < 0)
    if len(inverted) == len(mesh.hexes):
        warn(f"{name}: all {len(inverted)} hexes are oriented the other way round; turned")
    elif len(inverted):
        warn(
            f"{name}: has {counted(len(inverted), 'inverted hex', 'inverted hexes')}"
            f" (first: hex {inverted[0]}); turned"
        )
    mesh = mesh.oriented() if len(inverted) else mesh
    report(name, mesh.defects())
    return mesh
