"""Models of bodies that touch and are touched: bones, flesh and skin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import scipy.sparse as sp

from supple.arrays import Floats, Ints
from supple.elastic.material import Material
from supple.engines.soft_skeleton.bones.body_points import PointTables
from supple.engines.soft_skeleton.flesh.flesh_energy import FleshTables
from supple.mesh.surface import SurfaceMesh
from supple.rig.motion.motion import Motion
from supple.rig.protocol import Rig

__all__ = ["SoftSkeletonModel"]


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
    skin, areas
        The skin's vertices by bones and flesh, and the area of each, in m².
    residual, motion
        (n̄, n̄) flexibility of the skin along its normals that handles lack, in m/N, and x, y and z
        of the motion it makes.
    inertias
        (K,) of what hangs on each joint, about it, in kg m².
    handles
        (h,) vertices of the skin near the handles.
    error
        Relative error of the cubature's forces on coordinates that were not fitted.
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
    residual: sp.csr_array
    motion: list[sp.csr_array]
    inertias: Floats
    handles: Ints
    error: float
    motions: Mapping[str, Motion] = field(default_factory=dict)

    def __repr__(self) -> str:
        sizes = f"{len(self.parents)} bones, {len(self.handles)} handles"
        return f'SoftSkeletonModel("{self.name}", {sizes})'

    @property
    def figures(self) -> dict[str, Any]:
        """Sizes: ``bones``, ``handles``, ``cubature``, ``points``."""
        return {
            "bones": len(self.parents),
            "handles": len(self.handles),
            "cubature": len(self.flesh.volumes),
            "points": len(self.masses),
        }
