"""The elastic bodies of barbic2005 at their published sizes: spoon, bridge, tower and heart."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module

from supple.arrays import Ints
from supple.elastic.body import HexBody
from supple.elastic.material import Material
from supple.errors import SuppleError
from supple.mesh.hexes import HexMesh
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh
from supple.scenes.modelling.scene_data import unknown_name
from supple.scenes.modelling.voxel_lists import Voxels

STVK_SCENES = ("spoon", "bridge", "tower", "heart")


@dataclass(frozen=True)
class PaperBody:
    """Row of figures 3 and 5 of Barbič and James, Real-Time Subspace Integration, 2005."""

    surface_vertices: int
    triangles: int
    resolution: int
    vertices: int
    elements: int
    modes: int


@dataclass(frozen=True, eq=False, repr=False)
class ElasticScene:
    """Elastic body with the options of its reduced model.

    Parameters
    ----------
    name : str
    surface : SurfaceMesh
        Surface for pictures; it lies inside the cubes.
    voxels : Voxels
        Cubes that the surface touches, the paper's elements.
    material : Material
        St. Venant–Kirchhoff, with lowest frequencies of 1 to 3 Hz.
    fixed : (k,) int array
        Fixed vertices.
    pulled : int
        Vertex that examples and tests pull, such as the spoon's tip.
    modes : int
        Size r of the reduced model.
    linear_modes : int
        Number of linear modes.
    dt : float
        Time step in s.
    paper : PaperBody
        Sizes in the paper.
    description : str
        A short text.
    """

    name: str
    surface: SurfaceMesh
    voxels: Voxels
    material: Material
    fixed: Ints
    pulled: int
    modes: int
    linear_modes: int
    dt: float
    paper: PaperBody
    description: str

    @cached_property
    def mesh(self) -> HexMesh:
        """The cubes as a mesh."""
        return HexMesh(self.voxels.vertices, self.voxels.hexes)

    @cached_property
    def tets(self) -> TetMesh:
        """The cubes cut into five tets each: the same vertices, a little stiffer."""
        return self.voxels.tets()

    def body(self) -> HexBody:
        """Return the cubes with the material, as in the paper."""
        return HexBody(self.mesh, self.material)

    def __repr__(self) -> str:
        vertices, cubes = len(self.voxels.vertices), len(self.voxels.hexes)
        return f'ElasticScene("{self.name}", {vertices:,} vertices, {cubes:,} cubes)'


@cache
def stvk_scene(name: str) -> ElasticScene:
    """Return the elastic body of this name, one of `STVK_SCENES`; building it takes a second."""
    if name not in STVK_SCENES:
        raise SuppleError(unknown_name("elastic scene", name, STVK_SCENES))
    made: ElasticScene = import_module(f"supple.scenes.bodies.{name}").assemble()
    return made
