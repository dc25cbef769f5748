"""The skin's flesh, from the blended pose to what is drawn, in one compiled call."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from supple.compiled import compiled_fused
from supple.dynamics.followed_frames import FrameTables
from supple.dynamics.reduced_step import carrier_frames
from supple.dynamics.reduced_surface import carry_skin, displace_carriers, turn_carriers
from supple.dynamics.runtime_model import SurfaceTables
from supple.dynamics.workspace import Blend, SkinRoom
from supple.linalg.bound import Bound, opened

__all__ = ["SkinWork", "flesh_out"]

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]


class SkinWork(NamedTuple):
    """A model's tables of the skin, and a thread's room to work in."""

    tables: SurfaceTables
    follow: FrameTables
    blend: Blend
    room: SkinRoom


@compiled_fused
def flesh_out(
    bound: Bound,
    unframed: bool,
    unseen: float,
    limit: float,
    q: Floats,
    root: Floats,
    skin: Singles,
) -> None:
    """Add displacements to `skin` (n̄, 3), as the rig placed it, and move it by the root.

    `bound` is of `SkinWork`. Frames of the carriers are found first where they are not yet
    (`unframed`); displacements below `unseen` are left out, and none of a carrier is longer than
    `limit`.
    """
    work: SkinWork = opened(bound)
    tables, blend, room = work.tables, work.blend, work.room
    for i in range(len(q)):
        room.z[i] = blend.stretch[i] * q[i]
    displace_carriers(
        tables, blend.weights, room.z, unseen, room.listed, room.factors, room.chunk, room.carriers
    )
    if unframed:
        carrier_frames(tables, work.follow, blend, room.turns, room.frames)
    turn_carriers(room.frames, limit, room.carriers)
    carry_skin(tables, room.carriers, root, skin)
