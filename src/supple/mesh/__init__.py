"""Surfaces, tets and voxels: checking, filling, embedding, contacts."""

from typing import TYPE_CHECKING

from supple.lazy_imports import lazy_imports

if TYPE_CHECKING:
    from supple.mesh.appearance import Appearance, SurfaceMaterial, Texture
    from supple.mesh.biharmonic import biharmonic_weights
    from supple.mesh.boundary_contacts import BoundaryContacts, find_boundary_contacts
    from supple.mesh.distance_field import Solid
    from supple.mesh.embedding import embed, locate
    from supple.mesh.filling.stuffing import stuff
    from supple.mesh.filling.tetrahedralise import tetrahedralise
    from supple.mesh.filling.voxelise import voxelise
    from supple.mesh.hex_embedding import embed_hexes, locate_hexes
    from supple.mesh.hexes import HexMesh
    from supple.mesh.obstacles import Box, Capsule, Convex, Obstacle, Plane, Sphere
    from supple.mesh.surface import SurfaceMesh
    from supple.mesh.tets import TetMesh
    from supple.mesh.topology import Defect

__all__ = [
    "Appearance",
    "BoundaryContacts",
    "Box",
    "Capsule",
    "Convex",
    "Defect",
    "HexMesh",
    "Obstacle",
    "Plane",
    "Solid",
    "Sphere",
    "SurfaceMaterial",
    "SurfaceMesh",
    "TetMesh",
    "Texture",
    "biharmonic_weights",
    "embed",
    "embed_hexes",
    "find_boundary_contacts",
    "locate",
    "locate_hexes",
    "stuff",
    "tetrahedralise",
    "voxelise",
]

__getattr__ = lazy_imports(__name__)
