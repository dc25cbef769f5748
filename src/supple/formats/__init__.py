"""Reading and writing files."""

from supple.formats.bvh import BvhFile, EndSite, read_bvh
from supple.formats.caches.point_cache import read_point_cache
from supple.formats.load import load
from supple.formats.meshes.read_surface import read_surface
from supple.formats.meshes.read_tets import read_tets
from supple.formats.meshes.veg import VegFile, VegMaterial, read_veg, read_veg_hexes, write_veg
from supple.formats.save import remove_curves, save
from supple.formats.smpl.body_model import BodyModel, read_body_model
from supple.formats.smpl.body_motion import MotionFile, read_body_motion
from supple.formats.vega.bou import read_bou, write_bou
from supple.formats.vega.cub import CubicForce, read_cub, write_cub
from supple.formats.vega.modal_matrix import read_modal_matrix, write_modal_matrix
from supple.formats.vega.vega_model import read_vega, veg_material, write_vega

__all__ = [
    "BodyModel",
    "BvhFile",
    "CubicForce",
    "EndSite",
    "MotionFile",
    "VegFile",
    "VegMaterial",
    "load",
    "read_body_model",
    "read_body_motion",
    "read_bou",
    "read_bvh",
    "read_cub",
    "read_modal_matrix",
    "read_point_cache",
    "read_surface",
    "read_tets",
    "read_veg",
    "read_veg_hexes",
    "read_vega",
    "remove_curves",
    "save",
    "veg_material",
    "write_bou",
    "write_cub",
    "write_modal_matrix",
    "write_veg",
    "write_vega",
]
