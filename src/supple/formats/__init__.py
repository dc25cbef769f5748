"""Reading and writing files."""

from typing import TYPE_CHECKING

from supple.formats.load import load
from supple.formats.save import remove_curves, remove_flesh, save
from supple.lazy_imports import lazy_imports

if TYPE_CHECKING:
    from supple.formats.bvh import BvhFile, EndSite, read_bvh
    from supple.formats.meshes.read_mesh import read_surface, read_tets
    from supple.formats.meshes.veg import (
        VegFile,
        VegMaterial,
        read_bou,
        read_veg,
        read_veg_hexes,
        write_bou,
        write_veg,
    )
    from supple.formats.point_cache import read_point_cache
    from supple.formats.smpl.body_model import BodyModel, read_body_model
    from supple.formats.smpl.body_motion import MotionFile, read_body_motion
    from supple.formats.vega.reduced_files import (
        CubicForce,
        read_cub,
        read_modal_matrix,
        write_cub,
        write_modal_matrix,
    )
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
    "remove_flesh",
    "save",
    "veg_material",
    "write_bou",
    "write_cub",
    "write_modal_matrix",
    "write_veg",
    "write_vega",
]

__getattr__ = lazy_imports(__name__)
