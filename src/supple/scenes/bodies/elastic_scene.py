"""The elastic bodies of barbic2005 at their published sizes: spoon, bridge, tower and heart."""

from __future__ import annotations

import difflib
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
from supple.scenes.modelling.voxel_lists import Voxels

STVK_SCENES = ("spoon", "bridge", "tower", "heart")


@dataclass(frozen=True)
class PaperBody:
    """A line of figures 3 and 5 of Barbič and James, Real-Time Subspace Integration, 2005."""

    surface_vertices: int
    triangles: int
    resolution: int
    vertices: int
    elements: int
    modes: int


@dataclass(frozen=True, eq=False, repr=False)
class ElasticScene:
    """Elastic body with what its reduced model is made from.

    Parameters
    ----------
    name : str
    surface : SurfaceMesh
        What is drawn; it lies inside the cubes.
    voxels : Voxels
        Cubes that the surface touches: the paper's elements.
    material : Material
        St. Venant–Kirchhoff; soft enough to swing visibly, at some 1 to 3 Hz.
    fixed : (k,) int array
        Vertices that do not move.
    pulled : int
        The vertex that examples and checks pull at: that of the spoon's tip, say.
    modes : int
        Size r of the reduced model.
    linear_modes : int
        How many modes to take derivatives of.
    dt : float
        Time step in s.
    paper : PaperBody
        What the paper had.
    description : str
        In a few words.
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
        """The cubes cut into tets, five each: a little stiffer, with the same vertices."""
        return self.voxels.tets()

    def body(self) -> HexBody:
        """Return the cubes made of the material, as in the paper."""
        return HexBody(self.mesh, self.material)

    def __repr__(self) -> str:
        vertices, cubes = len(self.voxels.vertices), len(self.voxels.hexes)
        return f'ElasticScene("{self.name}", {vertices:,} vertices, {cubes:,} cubes)'


@cache
def stvk_scene(name: str) -> ElasticScene:
    """Make the elastic body of this name, one of `STVK_SCENES`; it takes a second, no cache."""
    if name not in STVK_SCENES:
        near = difflib.get_close_matches(str(name), STVK_SCENES, 1)
        hint = f'; did you mean "{near[0]}"?' if near else f"; there are {', '.join(STVK_SCENES)}"
        raise SuppleError(f'no elastic scene "{name}"{hint}')
    made: ElasticScene = import_module(f"supple.scenes.bodies.{name}").assemble()
    return made
