"""Flesh of a character: softness, thin parts, painted materials."""

from supple.anatomy.painted_material import interpolated_material, painted_material, pose_materials

__all__ = ["interpolated_material", "painted_material", "pose_materials"]
