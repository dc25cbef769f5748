"""Surfaces and tet meshes: what is wrong with them, filling and embedding them, what they touch."""

from supple.mesh.biharmonic import biharmonic_weights
from supple.mesh.contact import Contacts, find_contacts
from supple.mesh.embedding import embed, locate
from supple.mesh.meshing import stuff, tetrahedralise
from supple.mesh.obstacles import Capsule, Obstacle, Plane, Sphere
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh
from supple.mesh.topology import Defect

__all__ = [
    "Capsule",
    "Contacts",
    "Defect",
    "Obstacle",
    "Plane",
    "Sphere",
    "SurfaceMesh",
    "TetMesh",
    "biharmonic_weights",
    "embed",
    "find_contacts",
    "locate",
    "stuff",
    "tetrahedralise",
]
