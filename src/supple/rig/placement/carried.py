"""Placements of tet vertices that are skinned themselves (xu2016 §4.1)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from supple.arrays import Floats
from supple.rig.placement.blocks import skinned_placement, uncorrected
from supple.rig.placement.corrected import PoseCorrections, corrected, summed
from supple.rig.placement.joint_kernels import add_carried
from supple.rig.placement.placement import (
    CalledPlacement,
    Placement,
    Positions,
    placement,
    places_itself,
    writable,
)
from supple.rig.protocol import Ints, Rig
from supple.rig.skeleton.skinning import SkinnedRig
from supple.rig.tets.carried_weights import CarriedRig
from supple.rig.tets.tet_rig import TetRig

__all__ = ["CarriedPlacement", "carried_placement", "tet_rig_placement"]


class CarriedPlacement:
    """The placement of a carried rig over any chain: all of its parts are placed.

    Double precision throughout.

    Parameters
    ----------
    rig
        A carried rig whose surface has more than skinning.
    vertices
        Which tet vertices; None for all.
    """

    def __init__(self, rig: CarriedRig, vertices: Ints | None = None) -> None:
        assert rig._rows is not None
        needed, rows = rig._rows.of(vertices)
        self._own = rig._own
        count = rig.n_vertices if vertices is None else len(vertices)
        offset = rig._offset if vertices is None else rig._offset[vertices]
        self._skinned = skinned_placement(rig.skinned, vertices, summed(count, constant=offset))
        self._surface: Placement = placement(rig.rig, needed)
        self._core: Placement = placement(rig._core, needed)
        self._matrix = (rows.indptr.astype(np.int32), rows.indices.astype(np.int32), rows.data)
        self._surface_offset = np.ascontiguousarray(rig._surface_offset[needed])
        self._make_room()

    def _make_room(self) -> None:
        self._room = np.empty((self.n_points, 3))
        self._moved, self._bare = np.empty((2, *self._surface_offset.shape))

    @property
    def n_points(self) -> int:
        """How many vertices are placed."""
        return self._skinned.n_points

    def place(self, pose: Floats, out: Positions) -> None:
        """Where the tet vertices are at a pose, (k, 3)."""
        whole = writable(pose)
        own = whole[self._own]
        self._skinned.place(own, self._room)
        self._surface.place(whole, self._moved)
        self._core.place(own, self._bare)
        add_carried(*self._matrix, self._moved, self._bare, self._surface_offset, self._room)
        np.copyto(out, self._room, casting="same_kind")

    def fork(self) -> CarriedPlacement:
        """The same tables with other room to work in."""
        twin = object.__new__(CarriedPlacement)
        twin.__dict__.update(self.__dict__)
        for part in ("_skinned", "_surface", "_core"):
            setattr(twin, part, getattr(self, part).fork())
        twin._make_room()
        return twin


def carried_placement(
    rig: CarriedRig,
    vertices: Ints | None = None,
    *,
    more: Sequence[PoseCorrections] = (),
    single: bool = False,
) -> Placement:
    """The placement of a carried rig, and of more corrections of its vertices.

    Over nothing but pose-space corrections of a skinned surface, what the surface adds is
    S Σ w_i δ̄_i = Σ w_i (S δ̄_i), with S δ̄_i known beforehand: no surface vertex is placed.
    """
    count = rig.n_vertices if vertices is None else len(vertices)
    offset = rig._offset if vertices is None else rig._offset[vertices]
    if rig._rows is None:
        return skinned_placement(rig.skinned, vertices, summed(count, more, offset), single=single)
    needed, rows = rig._rows.of(vertices)
    below, sets = uncorrected(rig.rig, needed)
    if below is not rig._core or type(below) is not SkinnedRig:
        return corrected(CarriedPlacement(rig, vertices), summed(count, more), single)
    carried = [
        PoseCorrections(weights, np.stack([rows @ delta for delta in deltas]))
        for weights, deltas in sets
    ]
    constant = offset - rows @ rig._surface_offset[needed]
    sums = summed(count, [*carried, *more], constant)
    return skinned_placement(rig.skinned, vertices, sums, single=single)


def tet_rig_placement(
    rig: TetRig, vertices: Ints | None = None, *, single: bool = False
) -> Placement:
    """The placement of a rig on tets: its start's, and its corrections."""
    if rig.rotations is not None:
        turned = getattr(rig._corrected, "placement", None)
        return CalledPlacement(rig, vertices) if turned is None else turned(vertices, single=single)
    own = rig.corrections if vertices is None else rig.corrections[:, vertices]
    more = PoseCorrections(rig.pose_weights, own)
    start: Rig = rig.start
    if isinstance(start, CarriedRig) and places_itself(start):
        return carried_placement(start, vertices, more=[more], single=single)
    base = placement(start, vertices, single=single)
    return corrected(base, summed(base.n_points, [more]), single)
