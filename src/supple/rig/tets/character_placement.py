"""Placement of a character's tets and surface at a pose, from one evaluation of its rig."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints
from supple.compiled.jit import compiled
from supple.compiled.program import KernelCall
from supple.errors import SuppleError
from supple.rig.placement.placement import (
    Forkable,
    Placement,
    Positions,
    copy_numbers,
    placement,
    placement_calls,
)
from supple.rig.protocol import Rig, checked_subset, optional_method


class CharacterPlacement(Forkable):
    """Placement of some tet vertices, Φ(p), by default all, and then of the whole surface, Φ̄(p).

    The rigs `rig` of the surface and `tet_rig` of the tets have the same parameters. Tets that
    follow their nearest surface vertices evaluate the rig on those. A rig on tets with a method
    ``shared_placement(rig, vertices)`` shares these positions, so that the rig places only the
    other vertices of the surface.

    Examples
    --------
    >>> from supple.rig import Twist
    >>> surface, tets = Twist([[0.0, 0, 1], [0.0, 1, 1]]), Twist([[0.0, 2, 1]])
    >>> character = CharacterPlacement(surface, tets)
    >>> out, drawn = np.empty((1, 3)), np.empty((2, 3), np.float32)
    >>> character.place_tets(np.array([0.0, np.pi]), out)
    >>> character.place_surface(drawn)
    >>> out.round(3)
    array([[ 0.,  2., -1.]])
    >>> drawn.round(3) + np.float32(0)
    array([[ 1.,  0.,  0.],
           [ 0.,  1., -1.]], dtype=float32)
    """

    _forked = ("_tets", "_rest")

    def __init__(self, rig: Rig, tet_rig: Rig, tet_vertices: ArrayLike | None = None) -> None:
        if len(rig.parameters) != len(tet_rig.parameters):
            counts = f"{len(rig.parameters)} parameters, that of the tets {len(tet_rig.parameters)}"
            raise SuppleError(f"the surface's rig has {counts}; they must be the same")
        listed = checked_subset(tet_vertices, tet_rig.n_vertices)
        share = optional_method(tet_rig, "shared_placement")
        shared = None if share is None else share(rig, listed)
        self._tets: Any = placement(tet_rig, listed) if shared is None else shared
        if shared is None:
            self._rest: Placement | None = placement(rig, single=True)
        else:
            mask = np.ones(rig.n_vertices, dtype=bool)
            mask[shared.surface.needed] = False
            self._others: Ints = np.flatnonzero(mask)
            self._rest = placement(rig, self._others, single=True) if mask.any() else None
        self._shares = shared is not None
        self._allocate()

    def _allocate(self) -> None:
        #: Placement whose surface positions are reused, if the tets share them.
        self._shared = self._tets.surface if self._shares else None
        count = 0 if self._rest is None or self._shared is None else len(self._others)
        self._scratch = np.zeros((count, 3), dtype=np.float32)
        self._pose: Floats | None = None

    def place_tets(self, pose: Floats, out: Positions) -> None:
        """Write the positions (k, 3) of the tet vertices at a pose (s,) that has been checked."""
        self._tets.place(pose, out)
        if self._pose is None:
            self._pose = np.empty(pose.shape)
        self._pose[:] = pose

    def place_surface(self, out: Positions) -> None:
        """Write the positions (n̄, 3) of the surface at the pose last given to `place_tets`."""
        if self._pose is None:
            raise SuppleError("the surface has no pose yet; call place_tets first")
        if self._shared is None:
            assert self._rest is not None
            self._rest.place(self._pose, out)
        elif self._rest is None:
            np.copyto(out, self._shared.positions, casting="same_kind")
        else:
            self._rest.place(self._pose, self._scratch)
            _scatter(self._shared.needed, self._shared.positions, self._others, self._scratch, out)

    def tet_calls(self, pose: Floats, out: Positions) -> list[KernelCall]:
        """Return the calls of `place_tets`."""
        return placement_calls(self._tets, pose, out)

    def surface_calls(self, pose: Floats, out: Positions) -> list[KernelCall]:
        """Return the calls of `place_surface`; `pose` is the array given to `tet_calls`."""
        shared, rest = self._shared, self._rest
        if shared is None:
            assert rest is not None
            return placement_calls(rest, pose, out)
        if rest is None:
            return [KernelCall(copy_numbers, (shared.positions, out), (out,))]
        placed = shared.needed, shared.positions, self._others, self._scratch, out
        return [
            *placement_calls(rest, pose, self._scratch),
            KernelCall(_scatter, placed, (out,)),
        ]


@compiled
def _scatter(
    first: Ints, positions: Floats, second: Ints, others: Positions, out: Positions
) -> None:
    for i in range(len(first)):
        to = first[i]
        out[to, 0], out[to, 1], out[to, 2] = positions[i, 0], positions[i, 1], positions[i, 2]
    for i in range(len(second)):
        to = second[i]
        out[to, 0], out[to, 1], out[to, 2] = others[i, 0], others[i, 1], others[i, 2]
