"""Room to work in: what a thread that steps needs, made once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from supple.arrays import Floats, Ints, Singles
from supple.engines.pose_space.blend import unit_frames
from supple.engines.pose_space.elastic_force import MOST_ROWS
from supple.engines.pose_space.runtime import RuntimeModel
from supple.engines.pose_space.skin import CHUNK
from supple.linalg.upper_triangle import padded_identity

__all__ = ["Blend", "Given", "Inertia", "Room", "SkinRoom", "System", "Workspace"]


class Blend(NamedTuple):
    """The tables at the current pose."""

    weights: Floats
    distances: Floats
    shares: Singles
    pairs: Singles
    corrections: Singles
    active: Ints
    turns: Singles
    frames: Singles
    tet_turns: Singles
    further: Singles
    matrix: Floats
    quaternion: Floats
    basis: Singles
    inertial: Singles
    mass: Singles
    correction: Singles
    stretch: Floats


class System(NamedTuple):
    """The small dense system."""

    stiffness: Floats
    matrix: Floats
    force: Floats
    external: Floats
    right: Floats
    work: Floats
    z: Floats
    lin: Floats
    start_q: Floats
    start_v: Floats
    peaks: Floats
    contact: Floats
    """(r, r) stiffness of contacts, and (1,) how many there are."""
    pressing: Ints


class Room(NamedTuple):
    """Of the loop over cubature tets: one group's columns, and one product's rows."""

    z: Singles
    force: Floats
    product: Singles
    rows: Singles
    images: Singles
    turns: Singles
    pull: Singles
    factors: Singles
    deformation: Floats
    stress: Floats
    gradients: Floats
    derivative: Floats
    projection: Floats
    scratch: Floats
    parameters: Floats
    ends: Ints


class Inertia(NamedTuple):
    """Of the inertial vertices."""

    now: Floats
    felt: Floats
    swing: Floats
    """(c′, 3) positions in the world, accelerations and displacements."""
    local: Floats
    """As wide as the widest block."""


class SkinRoom(NamedTuple):
    """Of the vertices that carry the skin."""

    z: Floats
    carriers: Singles
    """(b + 1, 4) displacements; see `displace_carriers`."""
    turns: Singles
    frames: Singles
    """(b, 9), or none in the world."""
    factors: Singles
    listed: Ints
    chunk: Singles


class Given(NamedTuple):
    """What the bodies of a batch are to be at the end of a step, a row each."""

    poses: Floats
    roots: Floats
    points: Floats
    """(b, k, 3) rest positions of the cubature's vertices."""


class Workspace:
    """Arrays that a step overwrites. One for each thread; states may be many more.

    Parameters
    ----------
    runtime
        Of the model.
    batch
        How many bodies may be stepped in one call.
    """

    def __init__(self, runtime: RuntimeModel, batch: int = 1) -> None:
        r, m = runtime.n_modes, runtime.n_poses
        elastic, poses, skin = runtime.elastic, runtime.poses, runtime.skin
        k, packed = len(runtime.vertices), r * (r + 1) // 2
        rows = max(len(poses.products), len(poses.corrections), m)
        width = len(runtime.model.rig.parameters)
        self.given = Given(
            np.zeros((batch, width)), np.zeros((batch, 4, 4)), np.zeros((batch, k, 3))
        )
        self.blend = Blend(
            weights=np.zeros(m),
            distances=np.zeros(m),
            shares=np.zeros(m, np.float32),
            pairs=np.zeros(len(poses.products), np.float32),
            corrections=np.zeros(len(poses.corrections), np.float32),
            active=np.zeros(rows, np.int64),
            turns=np.zeros(poses.turns.shape[1], np.float32),
            frames=unit_frames(k),
            tet_turns=np.zeros(runtime.frames.turns.shape[1], np.float32),
            further=np.zeros((len(runtime.frames.corners), 4), np.float32),
            matrix=np.zeros((3, 3)),
            quaternion=np.zeros(4),
            basis=np.zeros(elastic.basis.shape[1], np.float32),
            inertial=np.zeros(runtime.inertial.plain.shape[1], np.float32),
            mass=np.zeros(packed, np.float32),
            correction=np.zeros(packed, np.float32),
            stretch=np.ones(r),
        )
        vectors = {
            name: np.zeros(r)
            for name in ("force", "external", "right", "work", "z", "lin", "start_q", "start_v")
        }
        self.system = System(
            stiffness=np.zeros((r, r)),
            matrix=padded_identity(r),
            peaks=runtime.peaks,
            contact=np.zeros((r, r)),
            pressing=np.zeros(1, np.int64),
            **vectors,
        )
        self.room = _room(runtime)
        c = len(runtime.inertial.rows)
        self.inertia = Inertia(
            np.zeros((c, 3)),
            np.zeros((c, 3)),
            np.zeros((c, 3)),
            np.zeros(int(runtime.inertial.width.max(initial=1))),
        )
        b = len(runtime.carriers)
        longest = int(np.diff(skin.column).max(initial=1))
        self.skin = SkinRoom(
            z=np.zeros(r),
            carriers=np.zeros((b + 1, 4), np.float32),
            turns=np.zeros(skin.turns.shape[1], np.float32),
            frames=np.zeros((b if runtime.in_frames else 0, 9), np.float32),
            factors=np.zeros(m * longest, np.float32),
            listed=np.zeros(m * longest, np.int64),
            chunk=np.zeros(CHUNK, np.float32),
        )


def _room(runtime: RuntimeModel) -> Room:
    elastic = runtime.elastic
    widest = int(elastic.width.max(initial=8))
    most = MOST_ROWS * widest
    return Room(
        z=np.zeros(widest, np.float32),
        force=np.zeros(widest),
        product=np.zeros(widest * widest, np.float32),
        rows=np.zeros(most, np.float32),
        images=np.zeros(most, np.float32),
        turns=np.zeros(48, np.float32),
        pull=np.zeros(9, np.float32),
        factors=np.zeros(81, np.float32),
        deformation=np.zeros((3, 3)),
        stress=np.zeros((3, 3)),
        gradients=np.zeros((4, 3)),
        derivative=np.zeros((9, 9)),
        projection=np.zeros((2, 9, 9)),
        scratch=np.zeros((6, 3, 3)),
        parameters=np.zeros(elastic.parameters.shape[1]),
        ends=np.zeros((widest, 2), np.int64),
    )
