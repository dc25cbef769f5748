"""Models of characters whose free parameters physics moves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from supple.arrays import Floats, Ints
from supple.elastic.body import ElasticBody
from supple.elastic.material import Material
from supple.engines.rig_space.condensation import Condensation, interior_vertices
from supple.engines.rig_space.flesh_rig import FleshRig, VertexTurns
from supple.engines.rig_space.rig_cubature import RigCubature
from supple.engines.rig_space.rig_space_file import packed_rig_space, read_rig_space
from supple.engines.rig_space.turned_flesh import TurnedFlesh
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh
from supple.rig.motion.motion import Motion
from supple.rig.protocol import Parameter, Rig
from supple.saving import write_whole

__all__ = ["RigSpaceModel"]


@dataclass(frozen=True, eq=False, repr=False)
class RigSpaceModel:
    """Model of a character for the engine "rig-space".

    Attributes
    ----------
    name, surface, rig, motions
        The character: its skin at rest, its rig, and motions by name.
    mesh, tet_rig
        Tets at rest, and Φ, the rig on them.
    held
        Tet vertices that are bone, ascending.
    material
        Of the flesh, constants uniform or per tet.
    entries
        (k,) places of the free parameters in the pose, ascending.
    lower, upper
        (k,) bounds of the free parameters; infinite where there are none.
    condensed
        Interior flesh by free parameters, and its modes.
    cubature
        Tets that stand for all.
    """

    engine: ClassVar[str] = "rig-space"

    name: str
    surface: SurfaceMesh
    rig: Rig
    mesh: TetMesh
    tet_rig: Rig
    held: Ints
    material: Material
    entries: Ints
    lower: Floats
    upper: Floats
    condensed: Condensation
    cubature: RigCubature
    motions: Mapping[str, Motion] = field(default_factory=dict)

    def __repr__(self) -> str:
        free = f"{len(self.entries)} free parameters"
        return f'RigSpaceModel("{self.name}", {free}, {len(self.mesh.tets)} tets)'

    @property
    def free_parameters(self) -> tuple[Parameter, ...]:
        """Parameters that physics moves."""
        return tuple(self.rig.parameters[entry] for entry in self.entries)

    @property
    def figures(self) -> dict[str, Any]:
        """Sizes: ``tets``, ``free``, ``modes``, ``cubature``."""
        return {
            "tets": len(self.mesh.tets),
            "free": len(self.entries),
            "modes": self.condensed.n_modes,
            "cubature": len(self.cubature.tets),
        }

    @cached_property
    def body(self) -> ElasticBody:
        """Elasticity of the tets."""
        return ElasticBody(self.mesh, self.material)

    @cached_property
    def interior(self) -> Ints:
        """Tet vertices that neither surface nor bones move."""
        return interior_vertices(self.mesh, self.held)

    @cached_property
    def turns(self) -> VertexTurns:
        """Rotations of the interior; fork them."""
        return VertexTurns(self.mesh, self.interior)

    def flesh(self) -> TurnedFlesh:
        """Return the flesh as a function of free parameters, with scratch memory of its own."""
        rig = FleshRig(self.tet_rig, self.entries, self.held)
        corrections = self.condensed.corrections
        return TurnedFlesh(rig, self.turns.fork(), self.interior, corrections)

    def save(self, path: str | Path) -> None:
        """Write the model to a file; nothing in it runs."""
        write_whole(path, packed_rig_space(self))

    @classmethod
    def load(cls, path: str | Path, rig: Rig | None = None) -> RigSpaceModel:
        """Read a model that `save` wrote.

        Parameters
        ----------
        path
            The file: all of it is checked.
        rig
            Rig of the surface, for a model of a black box, which no file can hold.
        """
        fields = read_rig_space(Path(path), cls.engine, rig)
        condensed = Condensation(**fields.pop("condensed"))
        cubature = RigCubature(**fields.pop("cubature"))
        return cls(**fields, condensed=condensed, cubature=cubature)
