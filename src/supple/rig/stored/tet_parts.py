"""Stored fields of tet meshes and rigs on tets: solutions are stored, not solved for again."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from supple.arrays import Floats
from supple.errors import SuppleError
from supple.mesh.tets import TetMesh
from supple.rig.poses.pose_weights import PoseWeights
from supple.rig.protocol import Rig
from supple.rig.skeleton.skinning import SkinnedRig, skinned_core
from supple.rig.stored.field_reader import INDEX, SINGLE, FieldReader, FieldWriter, Values
from supple.rig.stored.packed_arrays import narrowed
from supple.rig.stored.schema import Array, Field, Kind, PackedRows, PartOf, Weights
from supple.rig.tets.carried_weights import CarriedRig
from supple.rig.tets.shepard import NeededRows, ShepardRig, SurfaceFollower
from supple.rig.tets.tet_rig import TetRig
from supple.rig.tets.vertex_frames import IDENTITY


class RestoredShepardRig(ShepardRig):
    """A `ShepardRig` whose weights are given: neighbours at equal distances stay the same ones.

    Parameters
    ----------
    rig, surface_vertices, tet_vertices
        As for `ShepardRig`.
    matrix
        Its weights, (n, n̄).
    """

    def __init__(
        self, rig: Rig, surface_vertices: Floats, tet_vertices: Floats, matrix: sp.csr_array
    ) -> None:
        self.rig = rig
        self.surface_vertices, self.tet_vertices = surface_vertices, tet_vertices
        self._rows = NeededRows(matrix)


class RestoredCarriedRig(CarriedRig):
    """A `CarriedRig` whose weights are given.

    Parameters
    ----------
    rig, surface_vertices, tet_vertices
        As for `CarriedRig`.
    skinned
        The tet vertices with skinning weights of their own.
    matrix
        Shepard's weights for what the rig adds to its skinning; None if it adds nothing.
    """

    def __init__(
        self,
        rig: Rig,
        surface_vertices: Floats,
        tet_vertices: Floats,
        skinned: SkinnedRig,
        matrix: sp.csr_array | None,
    ) -> None:
        core = skinned_core(rig)
        if core is None:
            raise SuppleError("a rig is carried by its skinning weights, and it has none")
        if (core.rig is rig) != (matrix is None):
            raise SuppleError("a carried rig needs Shepard's weights if, and only if, it is more")
        if len(skinned.parameters) != len(core.rig.parameters):
            raise SuppleError("a carried rig and its surface have different joints")
        self.rig, self.skinned = rig, skinned
        self.surface_vertices, self.tet_vertices = surface_vertices, tet_vertices
        self._core, self._own = core
        rest = core.rig.rest_pose
        self._offset = tet_vertices - skinned(rest)
        self._rows: NeededRows | None = None
        if matrix is not None:
            self._rows = NeededRows(matrix)
            self._surface_offset = surface_vertices - core.rig(rest)


class _Sets(Field):
    """Named sets of tets."""

    def write(self, owner: TetMesh, writer: FieldWriter) -> None:
        """Write names, sorted, and an array for each."""
        names = writer.values[self.name] = sorted(owner.sets)
        writer.arrays |= {f"set_{k}": narrowed(owner.sets[name]) for k, name in enumerate(names)}

    def read(self, reader: FieldReader) -> Values:
        """Read the sets by name."""
        names = reader.texts(self.name)
        if tuple(sorted(set(names))) != names:
            raise reader.fail("its sets are not sorted by name")
        return {
            "sets": {name: reader.array(f"set_{k}", INDEX, (None,)) for k, name in enumerate(names)}
        }


def _sorted(matrix: sp.csr_array) -> sp.csr_array:
    matrix.sort_indices()
    return matrix


def _shepard(
    rig: Rig, surface_vertices: Floats, tet_vertices: Floats, shepard: sp.csr_array
) -> ShepardRig:
    return RestoredShepardRig(rig, surface_vertices, tet_vertices, _sorted(shepard))


def _carried(
    rig: Rig,
    surface_vertices: Floats,
    tet_vertices: Floats,
    skinned: SkinnedRig,
    shepard: sp.csr_array | None,
) -> CarriedRig:
    if skinned.n_vertices != len(tet_vertices):
        counts = f"{skinned.n_vertices:,} vertices are skinned, and there are {len(tet_vertices):,}"
        raise SuppleError(counts)
    matrix = None if shepard is None else _sorted(shepard)
    return RestoredCarriedRig(rig, surface_vertices, tet_vertices, skinned, matrix)


def _tet_rig(
    mesh: TetMesh,
    start: Rig,
    pose_weights: PoseWeights,
    corrections: Floats,
    rotations: Floats | None,
) -> TetRig:
    if not isinstance(start, SurfaceFollower):
        raise SuppleError(f"its start is a {type(start).__name__}, which is not a rig on tets")
    count = len(mesh.vertices)
    if start.n_vertices != count:
        raise SuppleError(f"{start.n_vertices:,} vertices, and its mesh has {count:,}")
    if rotations is not None:
        rotations = np.concatenate([np.tile(IDENTITY, (1, count, 1)), rotations])
    return TetRig(mesh, start, pose_weights, corrections, rotations=rotations)


_RIG = PartOf("rig", Rig, lambda rig: {"surface": rig.n_vertices})
_VERTICES = (
    Array("surface_vertices", SINGLE, ("surface", 3)),
    Array("tet_vertices", SINGLE, ("n", 3)),
)

TET_RIGS = (
    Kind(
        "tet mesh",
        TetMesh,
        (
            Array("vertices", SINGLE, ("n", 3)),
            Array("tets", INDEX, ("tets", 4)),
            _Sets("sets"),
        ),
        TetMesh,
    ),
    Kind(
        "shepard",
        ShepardRig,
        (_RIG, *_VERTICES, Weights("shepard", "n", "surface", "matrix")),
        _shepard,
    ),
    Kind(
        "carried",
        CarriedRig,
        (
            _RIG,
            *_VERTICES,
            PartOf("skinned", SkinnedRig),
            Weights(
                "shepard",
                "n",
                "surface",
                lambda rig: None if rig._rows is None else rig._rows.matrix,
                optional=True,
            ),
        ),
        _carried,
    ),
    Kind(
        "tet rig",
        TetRig,
        (
            PartOf("mesh", TetMesh, lambda mesh: {"n": len(mesh.vertices)}),
            PartOf("start", Rig),
            PartOf("pose_weights", PoseWeights, lambda weights: {"poses": weights.n_poses}),
            PackedRows("corrections", ("poses", "n", 3)),
            Array(  # the neutral pose has none
                "rotations",
                SINGLE,
                (lambda sizes: sizes["poses"] - 1, "n", 4),
                lambda rig: None if rig.rotations is None else rig.rotations[1:],
                optional=True,
            ),
        ),
        _tet_rig,
    ),
)
