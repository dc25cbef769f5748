"""Reading and writing files."""

from supple.formats.bvh import BvhFile, EndSite, read_bvh
from supple.formats.loading import load
from supple.formats.point_cache_files import read_point_cache
from supple.formats.saving_baked import save
from supple.formats.surface import read_surface
from supple.formats.tets import read_tets
from supple.formats.veg import VegFile, VegMaterial, read_veg, write_veg

__all__ = [
    "BvhFile",
    "EndSite",
    "VegFile",
    "VegMaterial",
    "load",
    "read_bvh",
    "read_point_cache",
    "read_surface",
    "read_tets",
    "read_veg",
    "save",
    "write_veg",
]
