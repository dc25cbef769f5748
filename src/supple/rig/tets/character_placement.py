"""A character's tets and surface at a pose, from one evaluation of its rig."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints
from supple.compiled.jit import compiled
from supple.errors import SuppleError
from supple.rig.placement.placement import Placement, Positions, placement, places_itself
from supple.rig.protocol import Rig, checked_subset
from supple.rig.tets.corotated_corrections import CorotatedCorrections, TurnedPlacement
from supple.rig.tets.shepard import ShepardPlacement, ShepardRig
from supple.rig.tets.tet_rig import TetRig


class CharacterPlacement:
    """Placement of some tet vertices, Φ(p), and then of the whole surface, Φ̄(p).

    Tets that follow their nearest surface vertices need the rig on those. Where they do, the
    surface takes these positions over, and the rig places only the others for it.

    Parameters
    ----------
    rig
        Rig of the surface.
    tet_rig
        Rig of the tets: any with the same parameters.
    tet_vertices
        Indices of the tet vertices to place; all without.

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

    def __init__(self, rig: Rig, tet_rig: Rig, tet_vertices: ArrayLike | None = None) -> None:
        if len(rig.parameters) != len(tet_rig.parameters):
            counts = f"{len(rig.parameters)} parameters, that of the tets {len(tet_rig.parameters)}"
            raise SuppleError(f"the surface's rig has {counts}; they must be the same")
        listed = checked_subset(tet_vertices, tet_rig.n_vertices)
        self._n_surface = rig.n_vertices
        following = _following_placement(rig, tet_rig, listed)
        self._tets: Placement = placement(tet_rig, listed) if following is None else following
        if following is None:
            self._rest: Placement | None = placement(rig, single=True)
        else:
            mask = np.ones(rig.n_vertices, dtype=bool)
            mask[_shepard_start(following).needed] = False
            self._others: Ints = np.flatnonzero(mask)
            self._rest = placement(rig, self._others, single=True) if mask.any() else None
        self._follows = following is not None
        self._allocate()

    def _allocate(self) -> None:
        #: Placement whose surface positions are taken over, if the tets follow the surface.
        self._start = _shepard_start(self._tets) if self._follows else None
        count = 0 if self._rest is None or self._start is None else len(self._others)
        self._scratch = np.empty((count, 3), dtype=np.float32)
        self._pose: Floats | None = None

    @property
    def n_tet_vertices(self) -> int:
        """Number of tet vertices placed, k."""
        return self._tets.n_points

    @property
    def n_surface_vertices(self) -> int:
        """Number of surface vertices, n̄."""
        return self._n_surface

    def place_tets(self, pose: Floats, out: Positions) -> None:
        """Write the positions (k, 3) of the tet vertices at a pose (s,) that has been checked."""
        self._tets.place(pose, out)
        if self._pose is None:
            self._pose = np.empty(pose.shape)
        self._pose[:] = pose

    def place_surface(self, out: Positions) -> None:
        """Write the positions (n̄, 3) of the surface at the pose last given to `place_tets`."""
        if self._pose is None:
            raise SuppleError("the surface is placed where tets have been; place them first")
        if self._start is None:
            assert self._rest is not None
            self._rest.place(self._pose, out)
        elif self._rest is None:
            np.copyto(out, self._start.positions, casting="same_kind")
        else:
            self._rest.place(self._pose, self._scratch)
            _scatter(self._start.needed, self._start.positions, self._others, self._scratch, out)

    def fork(self) -> Self:
        """Return a twin that shares the tables and has its own scratch memory."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._tets = self._tets.fork()
        twin._rest = None if self._rest is None else self._rest.fork()
        twin._allocate()
        return twin


def _shepard_start(tets: Placement) -> ShepardPlacement:
    """Return the placement of tets before corrections."""
    start = tets.start if isinstance(tets, TurnedPlacement) else tets
    assert isinstance(start, ShepardPlacement)
    return start


def _following_placement(
    rig: Rig, tet_rig: Rig, vertices: Ints | None
) -> ShepardPlacement | TurnedPlacement | None:
    """Return a placement of tets that follow the surface vertices of `rig`, if they do."""
    start = tet_rig.start if isinstance(tet_rig, TetRig) else tet_rig
    if not (isinstance(start, ShepardRig) and start.rig is rig):
        return None
    if not (places_itself(start) and places_itself(tet_rig)):
        return None
    if isinstance(tet_rig, TetRig):
        if isinstance(tet_rig._corrected, CorotatedCorrections):
            return TurnedPlacement(tet_rig._corrected, vertices, share=True)
        if np.any(tet_rig.corrections):
            return None
    return ShepardPlacement(start, vertices, share=True)


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
