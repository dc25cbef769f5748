"""Models of bodies that touch and are touched: bones, flesh and skin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import scipy.sparse as sp

from supple.arrays import Floats, Ints
from supple.elastic.material import Material
from supple.engines.soft_skeleton.bones.body_points import PointTables
from supple.engines.soft_skeleton.flesh.flesh_energy import FleshTables
from supple.engines.soft_skeleton.flesh.residual_flexibility import along_normals
from supple.engines.soft_skeleton.soft_skeleton_file import (
    packed_soft_skeleton,
    read_soft_skeleton,
)
from supple.mesh.surface import SurfaceMesh
from supple.rig.motion.motion import Motion
from supple.rig.protocol import Rig
from supple.saving import write_whole


@dataclass(frozen=True, eq=False, repr=False)
class SoftSkeletonModel:
    """Model of a character for the engine "soft-skeleton".

    Attributes
    ----------
    name, surface, rig, motions
        The character: its skin at rest, its rig, and motions by name.
    bones, parents, joints
        Names, parents and places (K, 3) of the bones where the skin was bound.
    material, flesh
        Of the flesh, and tets that stand for all of it.
    stiffness
        (m, m) of the flesh at rest.
    points, masses
        Points that stand for the mass of flesh and bone, and their masses in kg.
    skin, areas, thickness
        The skin's vertices by bones and flesh, and (n̄,) the area of each in m², and how far bone is
        below it, in m.
    spread, normals, motion
        Flexibility that handles lack, at p vertices on the outside of the flesh: (n̄, p) the skin by
        them, their normals (p, 3) at rest, and x, y and z (p, p) of how a force of 1 N along the
        normal of one, a column, moves them, in m.
    inertias
        (K,) of what hangs on each joint, about it, in kg m².
    handles
        (h,) vertices of the skin near the handles.
    error
        Relative error of the cubature's forces on coordinates that were not fitted.
    sizes
        Numbers of ``tets`` and ``tet_vertices`` it was built with.
    """

    engine: ClassVar[str] = "soft-skeleton"

    name: str
    surface: SurfaceMesh
    rig: Rig
    bones: tuple[str, ...]
    parents: Ints
    joints: Floats
    material: Material
    flesh: FleshTables
    stiffness: Floats
    points: PointTables
    masses: Floats
    skin: PointTables
    areas: Floats
    thickness: Floats
    spread: sp.csr_array
    normals: Floats
    motion: tuple[sp.csr_array, sp.csr_array, sp.csr_array]
    inertias: Floats
    handles: Ints
    error: float
    sizes: Mapping[str, int]
    motions: Mapping[str, Motion] = field(default_factory=dict)

    def __repr__(self) -> str:
        sizes = f"{len(self.parents)} bones, {len(self.handles)} handles"
        return f'SoftSkeletonModel("{self.name}", {sizes})'

    @property
    def figures(self) -> dict[str, Any]:
        """Sizes: ``bones``, ``handles``, ``coordinates``, ``cubature``, ``points``, ``tets``."""
        return {
            "bones": len(self.parents),
            "handles": len(self.handles),
            "coordinates": len(self.stiffness),
            "cubature": len(self.flesh.volumes),
            "points": len(self.masses),
            "tets": self.sizes["tets"],
            "cubature_error": self.error,
        }

    @cached_property
    def flexibility(self) -> sp.csr_array:
        """(p, p) flexibility along the normals that handles lack, symmetric, in m/N."""
        return along_normals(self.motion, self.normals)

    def save(self, path: str | Path) -> None:
        """Write the model to a file; nothing in it runs."""
        write_whole(path, packed_soft_skeleton(self))

    @classmethod
    def load(cls, path: str | Path, rig: Rig | None = None) -> SoftSkeletonModel:
        """Read a model that `save` wrote.

        Parameters
        ----------
        path
            The file: all of it is checked.
        rig
            Rig of the surface, for a model of a black box, which no file can hold.
        """
        return cls(**read_soft_skeleton(Path(path), cls.engine, rig))
