"""Flesh of a character: how soft, where thin, what is painted."""

from supple.anatomy.painted_material import interpolated_material, painted_material, pose_materials

__all__ = ["interpolated_material", "painted_material", "pose_materials"]
