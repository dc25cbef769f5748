"""The materials of a ``.veg`` file, element by element."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from supple.elastic import Material
from supple.errors import FormatError
from supple.formats.veg import ALL, VegFile
from supple.mesh import TetMesh
from supple.mesh.hexes import HexMesh

__all__ = ["veg_material", "veg_material_groups"]


def veg_material_groups(veg: VegFile[TetMesh] | VegFile[HexMesh]) -> NDArray[np.int64]:
    """Number of each element's material in the order of ``veg.materials``; −1 where none is."""
    mesh = veg.mesh
    count = len(mesh.tets if isinstance(mesh, TetMesh) else mesh.hexes)
    number = {name: i for i, name in enumerate(veg.materials)}
    groups = np.full(count, -1, np.int64)
    for of, material in veg.regions:
        groups[slice(None) if of == ALL else mesh.sets[of]] = number[material]
    return groups


def veg_material(veg: VegFile[TetMesh] | VegFile[HexMesh], kind: str = "stvk") -> Material:
    """A `Material` with the file's density, Young's modulus and Poisson's ratio per element.

    Raises
    ------
    FormatError
        If an element has no material, or one of another kind than ENU.
    """
    groups = veg_material_groups(veg)
    if (groups < 0).any():
        bad = int((groups < 0).argmax())
        raise FormatError(f"element {bad} of the mesh is in no region; give it a material")
    listed = list(veg.materials.items())
    rows = np.zeros((len(listed), 3))
    for group in np.unique(groups):
        name, material = listed[group]
        if material.kind != "ENU":
            raise FormatError(f'material "{name}" is {material.kind}; only ENU can be used')
        rows[group] = material.parameters
    density, young, poisson = rows[groups].T
    return Material(kind, young=young, poisson=poisson, density=density)
