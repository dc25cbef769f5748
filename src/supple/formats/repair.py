"""What every reader of tets does with those it cannot use as they are."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from supple.errors import MeshError, warn
from supple.formats.source import report
from supple.mesh import TetMesh
from supple.mesh.topology import counted

__all__: list[str] = []


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
