"""The rig on the tets as a function of its free parameters alone: positions, Jacobian, turns."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Self

import numpy as np

from supple.arrays import Bools, Floats, Ints
from supple.compiled.jit import compiled, compiled_fused, compiled_sums
from supple.mesh.laplacian import hat_gradients
from supple.mesh.tets import TetMesh
from supple.rig.jacobian import Jacobian, rig_jacobian
from supple.rig.placement.placement import Placement, Positions, placement
from supple.rig.protocol import Rig

#: Iterations and change, in radians, after which a rotation is found: the next would change it by
#: the square of that.
MOST_TURNS, LEAST_TURN = 30, 1e-3


def affine_entries(rig: Rig, entries: Ints) -> Bools:
    """Tell which parameters (k,) a rig is affine in: weights of shapes, whatever the joints do."""
    return np.array([rig_jacobian(rig, np.array([e]), _NONE).affine for e in entries], bool)


_NONE = np.zeros(1, np.int64)


class FleshRig:
    """Φ and ∂Φ/∂p_f of tet vertices at a key pose and free parameters that are away from it.

    Bones do not follow what the rig is affine in: a shape bulges the flesh, not the bone in it.

    Parameters
    ----------
    rig
        Rig of the tets.
    entries
        (k,) places of the free parameters in the pose.
    held
        Tet vertices that are bone.
    vertices
        Tet vertices to place; None for all. `held` are then places among these.
    differences
        Jacobians by finite differences at every evaluation, whatever the rig is.
    """

    def __init__(
        self,
        rig: Rig,
        entries: Ints,
        held: Ints,
        vertices: Ints | None = None,
        *,
        differences: bool = False,
    ) -> None:
        self.rig, self.entries = rig, np.asarray(entries, np.int64)
        self.shapes = affine_entries(rig, self.entries)
        self.affine = bool(self.shapes.all()) and not differences
        self._held, self._columns = np.asarray(held, np.int64), np.flatnonzero(self.shapes)
        self._placement: Placement = placement(rig, vertices)
        self._jacobian: Jacobian = rig_jacobian(
            rig, self.entries, vertices, differences=differences
        )
        self._pose = np.array(rig.rest_pose, np.float64)
        self._moved = self._pose.copy()
        self.key = np.empty((self._placement.n_points, 3))
        self.positions, self._bare = np.empty((2, *self.key.shape))
        self._placed = False

    @cached_property
    def jacobian(self) -> Floats:
        """(n, 3, k) ∂Φ/∂p where it was last evaluated."""
        return np.zeros((*self.key.shape, len(self.entries)))

    def set_key(self, pose: Floats, *, jacobian: bool = True) -> bool:
        """Go to a key pose: sets `key` and, of an affine rig and if wanted, `jacobian`.

        Returns whether it is another key pose than before.
        """
        if self._placed and np.array_equal(pose, self._pose):
            return False
        self._placed = False
        self._pose[:] = pose
        self._placement.place(self._pose, self.key)
        if self.affine and jacobian:
            self._evaluate(self._pose)
        self._placed = True
        return True

    def turned_shapes(self) -> Floats | None:
        """(n, 3, k) δ of an affine rig that moves flesh by A δ, or None; see `write_frames`."""
        deltas = getattr(self._jacobian, "deltas", None) if self.affine else None
        if deltas is None:
            return None
        shapes = np.array(deltas)
        shapes[self._held] = 0.0
        return shapes

    def write_frames(self, out: Positions) -> None:
        """Write A (n, 3, 3) at the key pose."""
        self._jacobian.write_frames(self._pose, out)  # type: ignore[attr-defined]

    def move(self, away: Floats, *, jacobian: bool = True) -> None:
        """Set `positions`, and `jacobian` if wanted, with free parameters `away` (k,) from key."""
        if self.affine:
            self.positions[:] = self.key
            _add_columns(self.jacobian, away, self.positions)
            return
        pose = self._moved
        pose[:] = self._pose
        pose[self.entries] += away
        self._placement.place(pose, self.positions)
        if jacobian:
            self._evaluate(pose)
        if len(self._columns) and len(self._held):
            # Bones are where they are with the weights of shapes at their keys.
            shapes = self.entries[self._columns]
            pose[shapes] = self._pose[shapes]
            self._placement.place(pose, self._bare)
            self.positions[self._held] = self._bare[self._held]

    def _evaluate(self, pose: Floats) -> None:
        self._jacobian.evaluate(pose, self.jacobian)
        if len(self._columns) and len(self._held):
            _clear(self.jacobian, self._held, self._columns)


@compiled_sums
def _add_columns(jacobian: Floats, away: Floats, out: Floats) -> None:
    for v in range(len(jacobian)):
        for i in range(3):
            row, total = jacobian[v, i], 0.0
            for k in range(len(away)):
                total += row[k] * away[k]
            out[v, i] += total


@compiled
def _clear(jacobian: Floats, rows: Ints, columns: Ints) -> None:
    for v in rows:
        for i in range(3):
            for k in columns:
                jacobian[v, i, k] = 0.0


class VertexTurns:
    """Rotations of the flesh around tet vertices, from rest to where the rig has it.

    The rotation nearest to the mean deformation gradient of a vertex's tets, found from the last
    one.

    Parameters
    ----------
    mesh
        Tets at rest.
    vertices
        (q,) vertices whose rotations are wanted.
    """

    def __init__(self, mesh: TetMesh, vertices: Ints) -> None:
        gradients, volumes = hat_gradients(mesh), mesh.volumes()
        n = len(mesh.vertices)
        total = np.zeros(n)
        np.add.at(total, mesh.tets, volumes[:, None])
        # F_v = Σ_u x_u ⊗ g_vu, as sparse rows of vectors.
        rows = np.repeat(mesh.tets, 4, axis=1).ravel()
        columns = np.tile(mesh.tets, (1, 4)).ravel()
        values = np.tile((volumes[:, None, None] * gradients), (1, 4, 1)).reshape(-1, 3)
        wanted = np.full(n, -1, np.int64)
        wanted[vertices] = np.arange(len(vertices))
        kept = wanted[rows] >= 0
        rows, columns, values = wanted[rows[kept]], columns[kept], values[kept]
        keys, place = np.unique(rows * n + columns, return_inverse=True)
        self._slopes = np.zeros((len(keys), 3))
        np.add.at(self._slopes, place, values)
        of = keys // n
        self._slopes /= np.where(total > 0, total, 1.0)[np.asarray(vertices)[of], None]
        self._columns = (keys % n).astype(np.int32)
        self._starts = np.searchsorted(of, np.arange(len(vertices) + 1)).astype(np.int32)
        self.matrices = np.tile(np.eye(3), (len(vertices), 1, 1))

    def reset(self) -> None:
        """Forget the last rotations."""
        self.matrices[:] = np.eye(3)

    def follow(self, positions: Floats) -> None:
        """Set `matrices` (q, 3, 3) to the rotations at positions (n, 3) of all vertices."""
        _follow_turns(self._starts, self._columns, self._slopes, positions, self.matrices)

    def among(self, places: Ints) -> Self:
        """Return a twin that is given positions of some vertices: `places` (n,) among those."""
        twin = self.fork()
        twin._columns = places[self._columns].astype(np.int32)
        return twin

    def fork(self) -> Self:
        """Return a twin with rotations of its own."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.matrices = self.matrices.copy()
        return twin


@compiled_fused
def _follow_turns(
    starts: Ints, columns: Ints, slopes: Floats, positions: Floats, turns: Floats
) -> None:
    for v in range(len(turns)):
        first = columns[starts[v]]
        x0, y0, z0 = positions[first, 0], positions[first, 1], positions[first, 2]
        a = b = c = d = e = f = g = h = i = 0.0
        for entry in range(starts[v], starts[v + 1]):
            u = columns[entry]
            dx, dy, dz = positions[u, 0] - x0, positions[u, 1] - y0, positions[u, 2] - z0
            s0, s1, s2 = slopes[entry, 0], slopes[entry, 1], slopes[entry, 2]
            a, b, c = a + dx * s0, b + dx * s1, c + dx * s2
            d, e, f = d + dy * s0, e + dy * s1, f + dy * s2
            g, h, i = g + dz * s0, h + dz * s1, i + dz * s2
        if not a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g) > 0:
            continue  # turned inside out, there is no rotation to follow
        F = (a, b, c, d, e, f, g, h, i)
        for _ in range(MOST_TURNS):
            if not _turn_towards(F, turns[v]) > LEAST_TURN:
                break


@compiled_fused
def _turn_towards(
    F: tuple[float, float, float, float, float, float, float, float, float], R: Floats
) -> float:
    """Turn R by Newton's ω towards the largest R : F; return |ω|.

    ω = (tr B − sym B)⁻¹ Σ r × f of the columns of both, B = F Rᵀ: two turns are enough near the
    rotation. Where that is no maximum, ω is as long as in Müller et al. 2016.
    """
    b00 = F[0] * R[0, 0] + F[1] * R[0, 1] + F[2] * R[0, 2]
    b01 = F[0] * R[1, 0] + F[1] * R[1, 1] + F[2] * R[1, 2]
    b02 = F[0] * R[2, 0] + F[1] * R[2, 1] + F[2] * R[2, 2]
    b10 = F[3] * R[0, 0] + F[4] * R[0, 1] + F[5] * R[0, 2]
    b11 = F[3] * R[1, 0] + F[4] * R[1, 1] + F[5] * R[1, 2]
    b12 = F[3] * R[2, 0] + F[4] * R[2, 1] + F[5] * R[2, 2]
    b20 = F[6] * R[0, 0] + F[7] * R[0, 1] + F[8] * R[0, 2]
    b21 = F[6] * R[1, 0] + F[7] * R[1, 1] + F[8] * R[1, 2]
    b22 = F[6] * R[2, 0] + F[7] * R[2, 1] + F[8] * R[2, 2]
    u, v, w = b21 - b12, b02 - b20, b10 - b01
    p, q, r = b11 + b22, b00 + b22, b00 + b11
    d, e, f = -0.5 * (b01 + b10), -0.5 * (b02 + b20), -0.5 * (b12 + b21)
    c0, c1, c2 = q * r - f * f, e * f - d * r, d * f - e * q
    determinant = p * c0 + d * c1 + e * c2
    if p > 0 and c0 > 0 and determinant > 1e-3 * p * q * r:
        k = 1.0 / determinant
        c4, c5, c8 = p * r - e * e, d * e - p * f, p * q - d * d
        x = k * (c0 * u + c1 * v + c2 * w)
        y = k * (c1 * u + c4 * v + c5 * w)
        z = k * (c2 * u + c5 * v + c8 * w)
    else:
        k = 1.0 / (abs(b00 + b11 + b22) + 1e-9)
        x, y, z = k * u, k * v, k * w
    square = x * x + y * y + z * z
    angle = math.sqrt(square)
    if not 1e-12 < angle < 1e3:  # there, or not finite
        return 0.0
    if square < 1e-4:
        sine, versine = 1.0 - square / 6.0, 0.5 - square / 24.0
    else:
        sine, versine = math.sin(angle) / angle, (1 - math.cos(angle)) / square
    for c in range(3):
        a, b, d = R[0, c], R[1, c], R[2, c]
        ex, ey, ez = y * d - z * b, z * a - x * d, x * b - y * a
        R[0, c] = a + sine * ex + versine * (y * ez - z * ey)
        R[1, c] = b + sine * ey + versine * (z * ex - x * ez)
        R[2, c] = d + sine * ez + versine * (x * ey - y * ex)
    return angle
