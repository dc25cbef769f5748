"""Flesh of a character: bone, flesh, hard and separate parts; softness, painted materials."""

from typing import TYPE_CHECKING

from supple.anatomy.painted_material import interpolated_material, painted_material, pose_materials
from supple.lazy_imports import lazy_imports

if TYPE_CHECKING:
    from supple.anatomy.anatomy import Anatomy, anatomy_of

__all__ = [
    "Anatomy",
    "anatomy_of",
    "interpolated_material",
    "painted_material",
    "pose_materials",
]

__getattr__ = lazy_imports(__name__)
