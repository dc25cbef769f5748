"""Surfaces and tet meshes: what is wrong with them, filling and embedding them."""

from supple.mesh.embedding import embed, locate
from supple.mesh.meshing import stuff, tetrahedralise
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh
from supple.mesh.topology import Defect

__all__ = ["Defect", "SurfaceMesh", "TetMesh", "embed", "locate", "stuff", "tetrahedralise"]
