"""Surfaces and tet meshes, and what is wrong with them."""

from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh
from supple.mesh.topology import Defect

__all__ = ["Defect", "SurfaceMesh", "TetMesh"]
