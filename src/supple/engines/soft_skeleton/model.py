"""Soft-skeleton models: bones, flesh and skin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from operator import attrgetter
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp

from supple.arrays import Floats, Ints
from supple.elastic.material import Material
from supple.engines.common.model_file import SURFACE, MaterialField, Rigs, StoredModel
from supple.engines.soft_skeleton.bones.body_points import MOST_FOLLOWED, PointTables, point_tables
from supple.engines.soft_skeleton.flesh.invariant_flesh import FleshTables
from supple.errors import FormatError
from supple.mesh.surface import SurfaceMesh
from supple.rig.motion.motion import Motion
from supple.rig.motion.stored_motions import Motions
from supple.rig.protocol import Rig
from supple.rig.stored.field_reader import (
    DOUBLE,
    INDEX,
    SINGLE,
    Field,
    FieldReader,
    FieldWriter,
    Values,
)
from supple.rig.stored.packed_arrays import narrowed, rounded
from supple.rig.stored.schema import Array, SparseRows, Value

SIZES = ("tets", "tet_vertices")
MOST_BONES = 4096


class _Flesh(Field):
    """Field of a model file: the cubature tets, `FleshTables`."""

    def write(self, owner: Any, writer: FieldWriter) -> None:
        """Write the tables."""
        flesh = owner.flesh
        indices = {"starts": narrowed(flesh.starts), "columns": narrowed(flesh.columns)}
        names = ("volumes", "constants", "strains", "gradients")
        writer.add_arrays(self.name, indices | {name: getattr(flesh, name) for name in names})

    def read(self, reader: FieldReader) -> Values:
        """Read the tables; columns ascend for each tet."""
        volumes = reader.array("flesh.volumes", DOUBLE, (None,))
        kinds = reader.fields["material"].element_parameters(1).shape[1]
        constants = reader.array("flesh.constants", DOUBLE, (len(volumes), kinds))
        columns = reader.array("flesh.columns", INDEX, (None,))
        strains = reader.array("flesh.strains", DOUBLE, (9, None))
        gradients = reader.array("flesh.gradients", DOUBLE, (3, None))
        handles, count = gradients.shape[1] > 0, len(columns)
        if (strains.shape[1], gradients.shape[1]) != ((0, count) if handles else (count, 0)):
            raise FormatError("has strains that do not match the coordinates of its flesh")
        # Of a handle's three coordinates the first is stored.
        reader.check_below("flesh.columns", columns, reader.sizes["m"] - (2 if handles else 0))
        starts = reader.row_starts("flesh.starts", len(volumes), columns, "flesh.columns")
        return {"flesh": FleshTables(volumes, constants, starts, columns, strains, gradients)}


@dataclass(frozen=True)
class _Points(Field):
    """Field of a model file: `PointTables`; `count` is the symbol of the number of points."""

    count: str

    def write(self, owner: Any, writer: FieldWriter) -> None:
        """Write the tables, without entries that follow from the bones' parents."""
        tables: PointTables = getattr(owner, self.name)
        names = ("bone_starts", "bones", "flesh_starts", "columns")
        arrays = {name: narrowed(getattr(tables, name)) for name in names}
        arrays |= {"rest": tables.rest, "weights": tables.weights, "shapes": rounded(tables.shapes)}
        writer.add_arrays(self.name, arrays)

    def read(self, reader: FieldReader) -> Values:
        """Read the tables; bones and columns ascend for each point."""
        name, n, m = self.name, reader.sizes[self.count], reader.sizes["m"]
        parents = reader.fields["parents"]
        rest = reader.array(f"{name}.rest", DOUBLE, (n, 3))
        bones = reader.array(f"{name}.bones", INDEX, (None,))
        weights = reader.array(f"{name}.weights", DOUBLE, (len(bones),))
        if weights.size and weights.min() < 0:
            raise reader.bad_array(f"{name}.weights", "has a value below 0")
        columns = reader.array(f"{name}.columns", INDEX, (None,))
        shapes = reader.array(f"{name}.shapes", SINGLE, (len(columns), 3))
        reader.check_below(f"{name}.bones", bones, len(parents))
        reader.check_below(f"{name}.columns", columns, m)
        bone_starts = reader.row_starts(f"{name}.bone_starts", n, bones, f"{name}.bones")
        flesh_starts = reader.row_starts(f"{name}.flesh_starts", n, columns, f"{name}.columns")
        if np.diff(bone_starts).max(initial=0) > MOST_FOLLOWED:
            raise FormatError(f"has a point that follows more than {MOST_FOLLOWED} bones")
        follow = sp.csr_array((weights, bones, bone_starts), (n, len(parents)))
        components = [sp.csr_array((shapes[:, i], columns, flesh_starts), (n, m)) for i in range(3)]
        return {name: point_tables(parents, rest, follow, components)}


class _Bones(Field):
    """Field of a model file: names and parents of the bones, each after its parent."""

    def write(self, owner: Any, writer: FieldWriter) -> None:
        """Write names, and parents plus one."""
        writer.values[self.name] = list(owner.bones)
        writer.arrays["parents"] = narrowed(owner.parents + 1)

    def read(self, reader: FieldReader) -> Values:
        """Read names and parents."""
        parents = reader.array("parents", INDEX, ("bones",)) - 1
        names, count = reader.texts(self.name), len(parents)
        if not 0 < count <= MOST_BONES or len(names) != count:
            raise FormatError(f"needs 1 to {MOST_BONES:,} bones with a name and a parent each")
        if parents[0] != -1 or (parents[1:] < 0).any() or (parents >= np.arange(count)).any():
            raise FormatError("has a bone that does not come after its parent")
        return {"bones": names, "parents": parents}


def _axis_motion(axis: int, model: Any) -> sp.csr_array:
    return model.motion[axis]


SOFT_SKELETON_SCHEMA: tuple[Field, ...] = (
    Value("name", "text"),
    Rigs("rigs", {"rig": Rig}),
    SURFACE,
    _Bones("bones"),
    Array("joints", DOUBLE, ("bones", 3)),
    MaterialField(
        "material",
        attrgetter(*(f"material.{name}" for name in ("kind", "young", "poisson", "density"))),
        lambda *constants: {"material": Material(*constants)},
    ),
    Array("stiffness", DOUBLE, ("m", "m")),
    Array("masses", DOUBLE, ("points",), least=0.0),
    _Points("points", "points"),
    Array("normals", DOUBLE, ("outside", 3)),
    _Flesh("flesh"),
    _Points("skin", "skin"),
    Array("areas", DOUBLE, ("skin",), least=0.0),
    Array("thickness", DOUBLE, ("skin",), least=0.0),
    SparseRows("spread", ("skin", "outside"), "spread"),
    *(
        SparseRows(f"motion.{axis}", ("outside", "outside"), partial(_axis_motion, k))
        for k, axis in enumerate("xyz")
    ),
    Array("inertias", DOUBLE, ("bones",), least=0.0),
    Array("handles", INDEX, (None,), below="skin"),
    Value("error", "number_or_zero"),
    Value("sizes", "table", lambda model: {name: int(model.sizes[name]) for name in SIZES}),
    Motions("motions"),
)


@dataclass(frozen=True, eq=False, repr=False)
class SoftSkeletonModel(StoredModel):
    """Model of a character for the engine "soft-skeleton".

    Attributes
    ----------
    name, surface, rig, motions
        The character: its skin at rest, its rig, and motions by name.
    bones, parents, joints
        Names, parents and positions (K, 3) of the bones in the bind pose.
    material, flesh
        Material of the flesh, and cubature tets.
    stiffness
        (m, m) stiffness of the flesh at rest.
    points, masses
        Points that represent the mass of flesh and bones, and their masses in kg.
    skin, areas, thickness
        Vertices of the skin by bones and flesh, (n̄,) their areas in m², and their distance from
        the bone below in m.
    spread, normals, motion
        Residual flexibility at p vertices on the outside of the flesh: (n̄, p) interpolation to the
        skin, normals (p, 3) at rest, and x, y and z (p, p) of the displacements in m by a force of
        1 N along the normal of one vertex, per column.
    inertias
        (K,) moments of inertia of the parts below each joint, about it, in kg m².
    handles
        (h,) vertices of the skin near the handles.
    error
        Relative error of the cubature's forces on samples not used for the fit.
    sizes
        Numbers of ``tets`` and ``tet_vertices`` of the build.
    """

    engine: ClassVar[str] = "soft-skeleton"
    schema: ClassVar[tuple[Field, ...]] = SOFT_SKELETON_SCHEMA

    name: str
    surface: SurfaceMesh
    rig: Rig
    bones: tuple[str, ...]
    parents: Ints
    joints: Floats
    material: Material
    flesh: FleshTables
    stiffness: Floats
    points: PointTables
    masses: Floats
    skin: PointTables
    areas: Floats
    thickness: Floats
    spread: sp.csr_array
    normals: Floats
    motion: tuple[sp.csr_array, sp.csr_array, sp.csr_array]
    inertias: Floats
    handles: Ints
    error: float
    sizes: Mapping[str, int]
    motions: Mapping[str, Motion] = field(default_factory=dict)

    def __repr__(self) -> str:
        sizes = f"{len(self.parents)} bones, {len(self.handles)} handles"
        return f'SoftSkeletonModel("{self.name}", {sizes})'

    @property
    def figures(self) -> dict[str, Any]:
        """Numbers of bones, handles, coordinates, tets and so on, and ``cubature_error``."""
        return {
            "bones": len(self.parents),
            "handles": len(self.handles),
            "coordinates": len(self.stiffness),
            "cubature": len(self.flesh.volumes),
            "points": len(self.masses),
            "tets": self.sizes["tets"],
            "cubature_error": self.error,
        }

    @cached_property
    def flexibility(self) -> sp.csr_array:
        """(p, p) ΔC: residual flexibility along the normals, symmetrised, in m/N."""
        total = sum(sp.diags_array(self.normals[:, i]) @ each for i, each in enumerate(self.motion))
        return sp.csr_array(0.5 * (total + total.T))

    def borne_masses(self) -> Floats:
        """Return the mass (K,) in kg that each joint bears: that of its bone and all below it."""
        table = self.points.weights, self.points.bones, self.points.bone_starts
        shares = sp.csr_array(table, (len(self.masses), len(self.parents)))
        masses: Floats = shares.T @ self.masses
        for bone in range(len(masses) - 1, 0, -1):
            masses[self.parents[bone]] += masses[bone]
        return masses

    @classmethod
    def from_stored(cls, fields: Values, sizes: Mapping[str, int]) -> Self:
        """Return the model with these fields; raise FormatError for an inconsistent file."""
        if not len(fields["stiffness"]):
            raise FormatError("has an empty stiffness matrix")
        counts = fields["sizes"]
        if set(counts) != set(SIZES) or not all(type(count) is int for count in counts.values()):
            raise FormatError(f"its sizes are not the integers {', '.join(SIZES)}")
        motion = tuple(fields.pop(f"motion.{axis}") for axis in "xyz")
        return cls(**fields, motion=motion)
