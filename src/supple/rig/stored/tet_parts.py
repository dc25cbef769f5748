"""Rigs on tets as stored parts: solutions are kept, not solved for again."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from supple.arrays import Floats
from supple.errors import SuppleError
from supple.mesh.tets import TetMesh
from supple.rig.poses.pose_weights import PoseWeights
from supple.rig.protocol import Rig
from supple.rig.skeleton.skinning import SkinnedRig, skinned_core
from supple.rig.stored.packed_arrays import narrowed, rounded
from supple.rig.stored.stored_part import (
    Fields,
    Kind,
    PartReader,
    Store,
    read_rows,
    read_weights,
    rows_of,
    weights_of,
)
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


def _store_mesh(mesh: TetMesh, store: Store) -> Fields:
    sets = {f"set_{k}": narrowed(mesh.sets[name]) for k, name in enumerate(sorted(mesh.sets))}
    arrays = {"vertices": rounded(mesh.vertices), "tets": narrowed(mesh.tets), **sets}
    return Fields({"sets": sorted(mesh.sets)}, arrays=arrays)


def _restore_mesh(part: PartReader) -> TetMesh:
    vertices, tets = part.floats("vertices", (None, 3)), part.indices("tets", (None, 4))
    names = part.texts("sets")
    if sorted(set(names)) != names:
        raise part.fail("its sets are not sorted by name")
    sets = {name: part.indices(f"set_{k}", (None,)) for k, name in enumerate(names)}
    return TetMesh(vertices, tets, sets)


def _both_vertices(rig: SurfaceFollower) -> dict[str, NDArray]:
    return {
        "surface_vertices": rounded(rig.surface_vertices),
        "tet_vertices": rounded(rig.tet_vertices),
    }


def _read_both_vertices(part: PartReader, rig: Rig) -> tuple[Floats, Floats]:
    surface = part.floats("surface_vertices", (rig.n_vertices, 3))
    return surface, part.floats("tet_vertices", (None, 3))


def _store_shepard(rig: ShepardRig, store: Store) -> Fields:
    arrays = _both_vertices(rig) | weights_of("shepard", rig.matrix)
    return Fields(parts={"rig": store(rig.rig)}, arrays=arrays)


def _sorted(matrix: sp.csr_array) -> sp.csr_array:
    matrix.sort_indices()
    return matrix


def _restore_shepard(part: PartReader) -> ShepardRig:
    rig = part.part("rig", Rig)  # type: ignore[type-abstract]
    surface, tets = _read_both_vertices(part, rig)
    matrix = _sorted(read_weights(part, "shepard", len(tets), rig.n_vertices))
    return RestoredShepardRig(rig, surface, tets, matrix)


def _store_carried(rig: CarriedRig, store: Store) -> Fields:
    arrays = _both_vertices(rig)
    if rig._rows is not None:
        arrays |= weights_of("shepard", rig._rows.matrix)
    return Fields(parts={"rig": store(rig.rig), "skinned": store(rig.skinned)}, arrays=arrays)


def _restore_carried(part: PartReader) -> CarriedRig:
    rig = part.part("rig", Rig)  # type: ignore[type-abstract]
    surface, tets = _read_both_vertices(part, rig)
    skinned = part.part("skinned", SkinnedRig)
    if skinned.n_vertices != len(tets):
        raise part.fail(f"{skinned.n_vertices:,} vertices are skinned, and there are {len(tets):,}")
    matrix = None
    if part.has_array("shepard_counts"):
        matrix = _sorted(read_weights(part, "shepard", len(tets), rig.n_vertices))
    return RestoredCarriedRig(rig, surface, tets, skinned, matrix)


def _store_tet_rig(rig: TetRig, store: Store) -> Fields:
    parts: dict[str, Any] = {
        "mesh": store(rig.mesh),
        "start": store(rig.start),
        "pose_weights": store(rig.pose_weights),
    }
    arrays = rows_of("corrections", rig.corrections)
    if rig.rotations is not None:
        arrays["rotations"] = rounded(rig.rotations[1:])  # the neutral pose has none
    return Fields(parts=parts, arrays=arrays)


def _restore_tet_rig(part: PartReader) -> TetRig:
    mesh, weights = part.part("mesh", TetMesh), part.part("pose_weights", PoseWeights)
    start = part.part("start", Rig)  # type: ignore[type-abstract]
    if not isinstance(start, SurfaceFollower):
        raise part.fail(f"its start is a {type(start).__name__}, which is no rig on tets")
    if start.n_vertices != len(mesh.vertices):
        raise part.fail(f"{start.n_vertices:,} vertices, and its mesh has {len(mesh.vertices):,}")
    shape = (weights.n_poses, len(mesh.vertices), 3)
    corrections, rotations = read_rows(part, "corrections", shape), None
    if part.has_array("rotations"):
        others = part.floats("rotations", (shape[0] - 1, shape[1], 4))
        rotations = np.concatenate([np.tile(IDENTITY, (1, shape[1], 1)), others])
    return TetRig(mesh, start, weights, corrections, rotations=rotations)


TET_RIGS = (
    Kind("tet mesh", TetMesh, _store_mesh, _restore_mesh),
    Kind("shepard", ShepardRig, _store_shepard, _restore_shepard),
    Kind("carried", CarriedRig, _store_carried, _restore_carried),
    Kind("tet rig", TetRig, _store_tet_rig, _restore_tet_rig),
)
