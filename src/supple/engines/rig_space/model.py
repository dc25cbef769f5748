"""Rig-space models: characters with free parameters that are simulated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import Any, ClassVar, Self

import numpy as np

from supple.arrays import Bools, Floats, Ints
from supple.elastic.body import ElasticBody
from supple.elastic.material import Material
from supple.engines.common.model_file import SURFACE, MaterialField, Rigs, StoredModel
from supple.engines.rig_space.condensation import Condensation, interior_vertices, moved_vertices
from supple.engines.rig_space.flesh_rig import (
    CorotatedFlesh,
    FleshRig,
    LinearisedRig,
    VertexRotations,
)
from supple.engines.rig_space.state_cubature import RigCubature
from supple.errors import FormatError
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh
from supple.rig.motion.motion import Motion
from supple.rig.motion.stored_motions import Motions
from supple.rig.protocol import Parameter, Rig
from supple.rig.stored.field_reader import DOUBLE, INDEX, SINGLE, Field, Values
from supple.rig.stored.schema import Array, Group, Size, Value

#: Bounds in files; larger ones are infinite.
UNBOUNDED = 1e30
_COORDINATES = ("coordinates", "coordinates")

RIG_SPACE_SCHEMA: tuple[Field, ...] = (
    Value("name", "text"),
    Rigs("rigs", {"rig": Rig, "tet_rig": Rig, "mesh": TetMesh}),
    SURFACE,
    Array("held", INDEX, (None,), below="n"),
    MaterialField(
        "material",
        attrgetter(*(f"material.{name}" for name in ("kind", "young", "poisson", "density"))),
        lambda *constants: {"material": Material(*constants)},
        DOUBLE,
        ("tets",),
    ),
    Array("free.entries", INDEX, ("free",), "entries", below="parameters"),
    Array(
        "free.lower",
        DOUBLE,
        ("free",),
        lambda model: np.maximum(model.lower, -UNBOUNDED),
        attribute="lower",
        restore=lambda lower, _: np.where(lower <= -UNBOUNDED, -np.inf, lower),
    ),
    Array(
        "free.upper",
        DOUBLE,
        ("free",),
        lambda model: np.minimum(model.upper, UNBOUNDED),
        attribute="upper",
        restore=lambda upper, _: np.where(upper >= UNBOUNDED, np.inf, upper),
    ),
    Group(
        "condensed",
        Condensation,
        (
            Array("condensed.corrections", SINGLE, ("interior", 3, "coordinates")),
            Array("condensed.mass", DOUBLE, _COORDINATES),
            Array("condensed.stiffness", DOUBLE, _COORDINATES),
            Size("n_modes", lambda sizes: sizes["coordinates"] - sizes["free"]),
        ),
    ),
    Array("skin", DOUBLE, ("free", "free")),
    Group(
        "cubature",
        RigCubature,
        (
            Array("cubature.tets", INDEX, ("cubature",), below="tets"),
            Array("cubature.weights", DOUBLE, ("cubature",), least=0.0),
            Array("cubature.missed", DOUBLE, _COORDINATES),
            Value("cubature_error", "number_or_zero", "cubature.error"),
        ),
    ),
    Motions("motions"),
)


#: Volume of a tet at a key pose, relative to rest, below which the key pose flattens it.
FLATTENED = 0.05


@dataclass(frozen=True, eq=False, repr=False)
class RigSpaceModel(StoredModel):
    """Model of a character for the engine "rig-space".

    Attributes
    ----------
    name, surface, rig, motions
        The character: its skin at rest, its rig, and motions by name.
    mesh, tet_rig
        Tets at rest, and Φ, the rig on them.
    held
        Tet vertices fixed to bones, ascending.
    material
        Material of the flesh, uniform or per tet.
    entries
        (k,) indices of the free parameters in the pose, ascending.
    lower, upper
        (k,) bounds of the free parameters; infinite where there are none.
    condensed
        Interior displacements by free parameters, and interior modes.
    skin
        (k, k) stiffness of skin displacements that the tets do not resolve.
    cubature
        Cubature tets.
    """

    engine: ClassVar[str] = "rig-space"
    schema: ClassVar[tuple[Field, ...]] = RIG_SPACE_SCHEMA

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
    skin: Floats
    cubature: RigCubature
    motions: Mapping[str, Motion] = field(default_factory=dict)

    def __repr__(self) -> str:
        free = f"{len(self.entries)} free parameters"
        return f'RigSpaceModel("{self.name}", {free}, {len(self.mesh.tets)} tets)'

    @property
    def free_parameters(self) -> tuple[Parameter, ...]:
        """Parameters that are simulated."""
        return tuple(self.rig.parameters[entry] for entry in self.entries)

    @property
    def figures(self) -> dict[str, Any]:
        """Numbers of ``tets``, ``free`` parameters, interior ``modes`` and ``cubature`` tets."""
        return {
            "tets": len(self.mesh.tets),
            "free": len(self.entries),
            "modes": self.condensed.n_modes,
            "cubature": len(self.cubature.tets),
        }

    @cached_property
    def body(self) -> ElasticBody:
        """Elastic body of the tets."""
        return ElasticBody(self.mesh, self.material)

    @cached_property
    def posed_body(self) -> ElasticBody:
        """The same body; tets that a key pose flattens or inverts are left out."""
        body = ElasticBody(self.mesh, self.material)
        body.leave_out(FLATTENED)
        return body

    @cached_property
    def interior(self) -> Ints:
        """(q,) tet vertices that are neither on the boundary nor in bone, ascending."""
        return interior_vertices(self.mesh, self.held)

    @cached_property
    def rotations(self) -> VertexRotations:
        """Rotations of the interior; simulators fork them."""
        return VertexRotations(self.mesh, self.interior)

    @cached_property
    def _columns_by_vertex(self) -> tuple[Bools, Bools]:
        """Masks (n, K) of coordinates that displace a vertex, and (n,) of noticeable motion."""
        rig = FleshRig(self.tet_rig, self.entries, self.held)
        rng, rest = np.random.default_rng(0), np.asarray(self.rig.rest_pose, np.float64)
        reached = np.zeros((len(self.mesh.vertices), self.condensed.corrections.shape[2]), bool)
        noticeably = np.zeros(len(reached), bool)
        for size in (0.0, 0.1, 0.2):  # some derivatives are zero at rest
            rig.set_key(rest + size * rng.standard_normal(len(rest)))
            rig.move(np.zeros(len(self.entries)))
            reached[:, : len(self.entries)] |= rig.jacobian.any(axis=1)
            noticeably |= moved_vertices(rig.jacobian).any(axis=1)
        reached[self.interior] |= self.condensed.corrections.any(axis=1)
        noticeably[self.interior] |= self.condensed.corrections.any(axis=(1, 2))
        return reached, noticeably

    @property
    def reached(self) -> Bools:
        """(n, K) mask of tet vertices that each coordinate displaces."""
        return self._columns_by_vertex[0]

    @cached_property
    def moving_tets(self) -> Bools:
        """(T,) mask of tets with a corner that a coordinate displaces noticeably."""
        return np.asarray(self._columns_by_vertex[1][self.mesh.tets].any(axis=1))

    @cached_property
    def active(self) -> Ints:
        """Vertices of `moving_tets`, ascending."""
        return np.unique(self.mesh.tets[self.moving_tets])

    def flesh(
        self,
        vertices: Ints | None = None,
        *,
        linearised: bool = False,
        differences: bool = False,
    ) -> CorotatedFlesh:
        """Return the flesh as a function of free parameters, with separate scratch memory.

        Parameters
        ----------
        vertices
            Tet vertices to place, `active` or more; all by default.
        linearised, differences
            Whether its rig is a `LinearisedRig`, and has Jacobians by finite differences.
        """
        every = np.arange(len(self.mesh.vertices))
        listed = every if vertices is None else vertices
        positions = np.zeros(len(every), np.int64)
        positions[listed] = np.arange(len(listed))
        held = positions[np.intersect1d(self.held, listed)]
        make = LinearisedRig if linearised else FleshRig
        some = None if vertices is None else listed
        rig = make(self.tet_rig, self.entries, held, some, differences=differences)
        inside = np.isin(self.interior, listed) & self.condensed.corrections.any(axis=(1, 2))
        rotations = VertexRotations(self.mesh, self.interior[inside]).among(positions)
        corrections = self.condensed.corrections[inside]
        inner = positions[self.interior[inside]]
        return CorotatedFlesh(rig, rotations, inner, corrections)

    @classmethod
    def from_stored(cls, fields: Values, sizes: Mapping[str, int]) -> Self:
        """Return the model with these fields; raise FormatError for an inconsistent file."""
        mesh = fields["mesh"]
        if fields["tet_rig"].n_vertices != len(mesh.vertices):
            raise FormatError("has a tet rig that does not match its tets")
        if tuple(fields["tet_rig"].parameters) != tuple(fields["rig"].parameters):
            raise FormatError("has rigs of skin and tets with different parameters")
        if not sizes["free"]:
            raise FormatError("has no free parameters")
        if not (fields["lower"] <= fields["upper"]).all():
            raise FormatError("has a lower bound above its upper bound")
        if sizes["coordinates"] < sizes["free"]:
            raise FormatError("has fewer coordinates than free parameters")
        if sizes["interior"] != len(interior_vertices(mesh, fields["held"])):
            raise FormatError("has corrections that do not match its interior vertices")
        return cls(**fields)
