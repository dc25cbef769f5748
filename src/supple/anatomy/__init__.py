"""Flesh of a character: bone, flesh, hard and separate parts; softness, painted materials."""

from supple.anatomy.anatomy import Anatomy, anatomy_of
from supple.anatomy.painted_material import interpolated_material, painted_material, pose_materials

__all__ = [
    "Anatomy",
    "anatomy_of",
    "interpolated_material",
    "painted_material",
    "pose_materials",
]
