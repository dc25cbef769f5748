"""Reading and writing files."""

from supple.formats.bou import read_bou, write_bou
from supple.formats.bvh import BvhFile, EndSite, read_bvh
from supple.formats.cub import read_cub, write_cub
from supple.formats.cub_force import CubicForce
from supple.formats.loading import load
from supple.formats.modal_matrix import read_modal_matrix, write_modal_matrix
from supple.formats.point_cache_files import read_point_cache
from supple.formats.saving_baked import save
from supple.formats.surface import read_surface
from supple.formats.tets import read_tets
from supple.formats.veg import VegFile, VegMaterial, read_veg, read_veg_hexes, write_veg
from supple.formats.veg_materials import veg_material
from supple.formats.vega_model import read_vega, write_vega

__all__ = [
    "BvhFile",
    "CubicForce",
    "EndSite",
    "VegFile",
    "VegMaterial",
    "load",
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
    "save",
    "veg_material",
    "write_bou",
    "write_cub",
    "write_modal_matrix",
    "write_veg",
    "write_vega",
]
