"""Placements of tet vertices that follow their nearest surface vertices."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.arrays import Floats
from supple.compiled.jit import compiled
from supple.rig.placement.placement import Positions, placement, writable
from supple.rig.poses.pose_weights import evaluate_weights
from supple.rig.protocol import Ints
from supple.rig.tets.shepard import ShepardRig
from supple.rig.tets.turned_corrections import TurnedCorrections
from supple.rig.tets.vertex_frames import CANCELLED

__all__ = ["ShepardPlacement", "TurnedPlacement"]

Table = NDArray[np.floating[Any]]

#: Poses that count less are left out.
NEGLIGIBLE = 1e-12
#: With a larger part of the surface needed it costs no more to place all of it.
NEARLY_ALL = 0.8


class ShepardPlacement:
    """A list of tet vertices that follow the surface: Φ(p) = o + S Φ̄(p) with o = X − S X̄.

    Parameters
    ----------
    rig
        The rig on the tets.
    vertices
        Which tet vertices; None for all.
    share
        The surface is going to be drawn too: all of it is placed if nearly all is needed.

    Attributes
    ----------
    needed
        (j,) int64, the surface vertices that these tet vertices follow.
    positions
        (j, 3) where those are at the pose last placed.
    """

    def __init__(self, rig: ShepardRig, vertices: Ints | None = None, share: bool = False) -> None:
        touched, rows = rig._rows.of(vertices)
        whole = len(touched) == rig.rig.n_vertices
        if share and len(touched) > NEARLY_ALL * rig.rig.n_vertices:
            whole = True
        # A copy: for read-only arrays compiled loops would be compiled anew.
        self.needed = np.arange(rig.rig.n_vertices) if whole else touched.copy()
        listed = slice(None) if vertices is None else vertices
        count = len(rig.tet_vertices[listed])
        self.offsets = rig.tet_vertices[listed] - rows @ rig.surface_vertices[touched]
        # As many neighbours for all, for loops of the same length: those that lack have weight 0.
        width = int(np.diff(rows.indptr).max(initial=0))
        self.neighbours = np.zeros((count, width), dtype=np.uint32)
        self.shares = np.zeros((count, width))
        row = np.repeat(np.arange(count), np.diff(rows.indptr))
        column = np.arange(len(row)) - rows.indptr[row]
        self.neighbours[row, column] = touched[rows.indices] if whole else rows.indices
        self.shares[row, column] = rows.data
        self._surface = placement(rig.rig, None if whole else touched)
        self.positions = np.empty((len(self.needed), 3))

    @property
    def n_points(self) -> int:
        """How many tet vertices are placed."""
        return len(self.offsets)

    def place_surface(self, pose: Floats) -> None:
        """Fill `positions`."""
        self._surface.place(pose, self.positions)

    def place(self, pose: Floats, out: Positions) -> None:
        """Where the tet vertices are at a pose."""
        self.place_surface(pose)
        _follow(self.positions, self.neighbours, self.shares, self.offsets, out)

    def fork(self) -> ShepardPlacement:
        """The same tables with other room to work in."""
        other = object.__new__(ShepardPlacement)
        other.__dict__.update(self.__dict__)
        other._surface = self._surface.fork()
        other.positions = np.empty_like(self.positions)
        return other


class TurnedPlacement:
    """A list of tet vertices that follow the surface, and corrections that turn with the flesh.

    Parameters
    ----------
    rig
        The rig on the tets.
    vertices
        Which tet vertices; None for all.
    share
        As for `ShepardPlacement`.
    """

    def __init__(
        self, rig: TurnedCorrections, vertices: Ints | None = None, share: bool = False
    ) -> None:
        self.start = ShepardPlacement(rig.start, vertices, share)
        weights = rig.pose_weights
        self._weighing = (
            weights.scales,
            weights.scaled_poses,
            weights.matrix,
            weights.constant,
            weights.normalise,
        )
        listed = slice(None) if vertices is None else vertices
        poses = weights.n_poses
        tables = (
            rig.corrections[:, listed].reshape(poses, -1),
            rig.rotations[:, listed].reshape(poses, -1),
        )
        # Half as much to read where single precision is all there is, as in a stored model.
        exact = all(np.array_equal(each.astype(np.float32), each) for each in tables)
        kind = np.float32 if exact else np.float64
        self._tables = tuple(np.ascontiguousarray(each, kind) for each in tables)
        self._make_room()

    def _make_room(self) -> None:
        poses, count = len(self._tables[0]), self.start.n_points
        self._room = (np.empty(poses), np.empty(poses), np.empty(3 * count), np.empty(4 * count))

    @property
    def n_points(self) -> int:
        """How many tet vertices are placed."""
        return self.start.n_points

    def place(self, pose: Floats, out: Positions) -> None:
        """Where the tet vertices are at a pose."""
        start, own = self.start, writable(pose)
        start.place_surface(own)
        _follow_turned(
            own,
            self._weighing,
            start.positions,
            start.neighbours,
            start.shares,
            start.offsets,
            self._tables,
            self._room,
            out,
        )

    def fork(self) -> TurnedPlacement:
        """The same tables with other room to work in."""
        other = object.__new__(TurnedPlacement)
        other.__dict__.update(self.__dict__)
        other.start = self.start.fork()
        other._make_room()
        return other


@compiled
def _follow(
    positions: Floats,
    neighbours: NDArray[np.uint32],
    shares: Floats,
    offsets: Floats,
    out: Positions,
) -> None:
    for i in range(len(offsets)):
        x, y, z = offsets[i, 0], offsets[i, 1], offsets[i, 2]
        for k in range(shares.shape[1]):
            near, share = neighbours[i, k], shares[i, k]
            x += share * positions[near, 0]
            y += share * positions[near, 1]
            z += share * positions[near, 2]
        out[i, 0], out[i, 1], out[i, 2] = x, y, z


@compiled
def _follow_turned(
    pose: Floats,
    weighing: tuple,
    positions: Floats,
    neighbours: NDArray[np.uint32],
    shares: Floats,
    offsets: Floats,
    tables: tuple,
    room: tuple,
    out: Positions,
) -> None:
    scales, poses, matrix, constant, normalise = weighing
    distances, weights, moved, turns = room
    corrections, rotations = tables
    evaluate_weights(pose, scales, poses, matrix, constant, normalise, distances, weights)
    total, strongest = 0.0, 0
    for i in range(len(weights)):
        total += abs(weights[i])
        if abs(weights[i]) > abs(weights[strongest]):
            strongest = i
    blend(corrections, weights, moved)
    blend(rotations, weights, turns)
    _replace_cancelled(rotations[strongest], (CANCELLED * total) ** 2, turns)
    _turn(turns, offsets.reshape(-1), moved)
    _follow(positions, neighbours, shares, moved.reshape(offsets.shape), out)


@compiled
def _replace_cancelled(strongest: Table, least: float, turns: Floats) -> None:
    """Where the blend of rotations cancels, take that of the pose that counts most."""
    for i in range(len(turns) // 4):
        x, y, z, w = turns[4 * i], turns[4 * i + 1], turns[4 * i + 2], turns[4 * i + 3]
        if not x * x + y * y + z * z + w * w > least:
            for k in range(4 * i, 4 * i + 4):
                turns[k] = strongest[k]


@compiled
def blend(table: Table, weights: Floats, out: Floats) -> None:
    """Σ w t into `out`, without poses that do not count."""
    out[:] = 0.0
    for pose in range(len(weights)):
        weight = weights[pose]
        if abs(weight) < NEGLIGIBLE:
            continue
        row = table[pose]
        for i in range(len(out)):
            out[i] += weight * row[i]


@compiled
def _turn(turns: Floats, offsets: Floats, moved: Floats) -> None:
    """R (o + d) into `moved`, which has d; `turns` are not of unit length."""
    for i in range(len(moved) // 3):
        qx, qy, qz, qw = turns[4 * i], turns[4 * i + 1], turns[4 * i + 2], turns[4 * i + 3]
        # R v = v + (w t + q × t) with t = 2 q × v / |q|².
        double = 2.0 / (qx * qx + qy * qy + qz * qz + qw * qw)
        x, y, z = (
            offsets[3 * i] + moved[3 * i],
            offsets[3 * i + 1] + moved[3 * i + 1],
            offsets[3 * i + 2] + moved[3 * i + 2],
        )
        tx, ty, tz = qy * z - qz * y, qz * x - qx * z, qx * y - qy * x
        moved[3 * i] = x + double * (qw * tx + (qy * tz - qz * ty))
        moved[3 * i + 1] = y + double * (qw * ty + (qz * tx - qx * tz))
        moved[3 * i + 2] = z + double * (qw * tz + (qx * ty - qy * tx))
