"""Rig on the tets by its free parameters: positions, Jacobians and rotations of the flesh."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Self

import numpy as np

from supple.arrays import Bools, Floats, Ints
from supple.compiled.jit import compiled, compiled_fused, compiled_sums
from supple.mesh.tets import TetMesh, hat_gradients
from supple.rig.jacobian import Jacobian, rig_jacobian
from supple.rig.placement.placement import Placement, Positions, placement
from supple.rig.protocol import Rig

#: Iterations for a rotation, and the change in radians below which they end; the next change would
#: be its square.
MAX_ITERATIONS, SMALLEST_CHANGE = 30, 1e-3


def affine_entries(rig: Rig, entries: Ints) -> Bools:
    """Return a mask (k,) of the parameters `entries` in which a rig is affine, such as shapes."""
    return np.array([rig_jacobian(rig, np.array([e]), _NONE).affine for e in entries], bool)


_NONE = np.zeros(1, np.int64)


class FleshRig:
    """Positions Φ of tet vertices, and ∂Φ/∂p, at a key pose plus offsets of free parameters p.

    Bones do not follow parameters in which the rig is affine: a shape bulges the flesh only. With
    `vertices`, only these are placed, and `held` are indices among them. `differences` selects
    Jacobians by finite differences for every rig.
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
        #: Whether derivatives are finite differences, which take many evaluations of the rig.
        self.differenced = bool(getattr(self._jacobian, "differenced", False))
        self.key = np.empty((self._placement.n_points, 3))
        self.positions, self._bare = np.empty((2, *self.key.shape))
        self._placed = False

    @cached_property
    def jacobian(self) -> Floats:
        """(n, 3, k) ∂Φ/∂p at its last evaluation."""
        return np.zeros((*self.key.shape, len(self.entries)))

    def set_key(self, pose: Floats, *, jacobian: bool = True) -> bool:
        """Set the key pose, `key` and, for an affine rig, optionally `jacobian`.

        Return whether the key pose changed.
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

    def rotated_shapes(self) -> Floats | None:
        """Return δ (n, 3, k) of an affine rig with ∂Φ/∂p = A δ, or None for other rigs."""
        deltas = getattr(self._jacobian, "deltas", None) if self.affine else None
        if deltas is None:
            return None
        shapes = np.array(deltas)
        shapes[self._held] = 0.0
        return shapes

    def write_frames(self, out: Positions) -> None:
        """Write A (n, 3, 3) at the key pose, which transforms `rotated_shapes`."""
        self._jacobian.write_frames(self._pose, out)  # type: ignore[attr-defined]

    def move(self, away: Floats, *, jacobian: bool = True) -> None:
        """Set `positions`, and optionally `jacobian`, at offsets `away` (k,) from the key."""
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
            # Bones are placed with the weights of shapes at their keys.
            shapes = self.entries[self._columns]
            pose[shapes] = self._pose[shapes]
            self._placement.place(pose, self._bare)
            self.positions[self._held] = self._bare[self._held]

    def _evaluate(self, pose: Floats) -> None:
        self._jacobian.evaluate(pose, self.jacobian)
        if len(self._columns) and len(self._held):
            _clear(self.jacobian, self._held, self._columns)


class LinearisedRig(FleshRig):
    """Rig that is linearised at given offsets with a kept Jacobian (hahn2013 §4.1 and §4.3).

    Between `linearise` and `move_exactly`, `move` evaluates the rig nowhere.
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
        super().__init__(rig, entries, held, vertices, differences=differences)
        self._base, self._offsets = np.zeros_like(self.key), np.zeros(len(self.entries))
        self.linear, self.has_jacobian = False, False

    def move(self, away: Floats, *, jacobian: bool = True) -> None:
        """Set `positions` at offsets `away` (k,), and optionally `jacobian` unless linearised."""
        if not self.linear:
            super().move(away, jacobian=jacobian)
            return
        self.positions[:] = self._base
        _add_columns(self.jacobian, away - self._offsets, self.positions)

    def move_exactly(self, away: Floats, *, jacobian: bool = False) -> None:
        """Set `positions`, and optionally `jacobian`, by evaluations of the rig."""
        self.linear = False
        super().move(away, jacobian=jacobian)
        self.has_jacobian |= jacobian

    def linearise(self, away: Floats) -> None:
        """Linearise at offsets `away` (k,), at which `positions` are exact."""
        self._base[:], self._offsets[:], self.linear = self.positions, away, True

    def predicted(self, start: Floats, offsets: Floats, away: Floats) -> Floats:
        """Return the positions at `away` (k,) of the linearisation at `offsets`, `start` (n, 3)."""
        result = start.copy()
        _add_columns(self.jacobian, away - offsets, result)
        return result


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


class VertexRotations:
    """Rotations of the flesh around tet vertices, from rest to the rig's positions.

    Each is the rotation nearest to the mean deformation gradient of the vertex's tets, found by
    iterations from the last one.
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
        index = np.full(n, -1, np.int64)
        index[vertices] = np.arange(len(vertices))
        chosen = index[rows] >= 0
        rows, columns, values = index[rows[chosen]], columns[chosen], values[chosen]
        keys, place = np.unique(rows * n + columns, return_inverse=True)
        self._slopes = np.zeros((len(keys), 3))
        np.add.at(self._slopes, place, values)
        of = keys // n
        self._slopes /= np.where(total > 0, total, 1.0)[np.asarray(vertices)[of], None]
        self._columns = (keys % n).astype(np.int32)
        self._starts = np.searchsorted(of, np.arange(len(vertices) + 1)).astype(np.int32)
        self.matrices = np.tile(np.eye(3), (len(vertices), 1, 1))

    def reset(self) -> None:
        """Reset the rotations to the identity."""
        self.matrices[:] = np.eye(3)

    def follow(self, positions: Floats) -> None:
        """Set `matrices` (q, 3, 3) to the rotations at positions (n, 3) of all vertices."""
        _follow_rotations(self._starts, self._columns, self._slopes, positions, self.matrices)

    def among(self, places: Ints) -> Self:
        """Return a copy for arrays of some vertices, in which tet vertex v has row `places[v]`."""
        twin = self.fork()
        twin._columns = places[self._columns].astype(np.int32)
        return twin

    def fork(self) -> Self:
        """Return a copy with independent rotations."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.matrices = self.matrices.copy()
        return twin


@compiled_fused
def _follow_rotations(
    starts: Ints, columns: Ints, slopes: Floats, positions: Floats, rotations: Floats
) -> None:
    for v in range(len(rotations)):
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
            continue  # inverted: keep the last rotation
        F = (a, b, c, d, e, f, g, h, i)
        for _ in range(MAX_ITERATIONS):
            if not _rotate_towards(F, rotations[v]) > SMALLEST_CHANGE:
                break


@compiled_fused
def _rotate_towards(
    F: tuple[float, float, float, float, float, float, float, float, float], R: Floats
) -> float:
    """Rotate R by Newton's ω towards the maximum of R : F; return |ω|.

    ω = (tr B − sym B)⁻¹ Σ r × f of the columns of both, B = F Rᵀ; two iterations suffice near the
    rotation. Elsewhere the step length is from Müller et al. 2016.
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
    if not 1e-12 < angle < 1e3:  # converged, or not finite
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


class CorotatedFlesh:
    """Flesh at x(c) = Φ(key + c_p) + R (Z c_p + Ψ c_m), and Y = ∂x/∂c for fixed R.

    c_p are offsets of the free parameters, c_m amplitudes of interior modes. R are rotations of the
    flesh around the interior vertices (q,); `corrections` (q, 3, K) are Z and Ψ.
    """

    def __init__(
        self, rig: FleshRig, rotations: VertexRotations, interior: Ints, corrections: Floats
    ) -> None:
        self.rig, self.rotations = rig, rotations
        self.interior = np.asarray(interior, np.int64)
        self.corrections = np.ascontiguousarray(corrections, np.float64)
        self.n_free, self.size = len(rig.entries), corrections.shape[2]
        self.x = np.empty_like(rig.key)

    @cached_property
    def Y(self) -> Floats:
        """(n, 3, K) ∂x/∂c at its last evaluation."""
        return np.zeros((*self.x.shape, self.size))

    @property
    def key(self) -> Floats:
        """(n, 3) Φ at the key pose."""
        return self.rig.key

    def set_key(self, pose: Floats) -> None:
        """Set the key pose."""
        self.rig.set_key(pose)

    def turn(self, c: Floats) -> None:
        """Update the rotations R for the rig at coordinates c (K,)."""
        self.rig.move(c[: self.n_free], jacobian=False)
        self.rotations.follow(self.rig.positions)

    def move(self, c: Floats, *, columns: bool = True) -> None:
        """Set `x`, and optionally `Y`, at coordinates c (K,)."""
        self.rig.move(c[: self.n_free], jacobian=columns)
        self.x[:] = self.rig.positions
        R, tables = self.rotations.matrices, (self.interior, self.corrections)
        _add_corrections(*tables, R, c, self.x)
        if columns:
            _write_columns(self.rig.jacobian, *tables, R, self.Y)


@compiled_sums
def _add_corrections(
    interior: Ints, corrections: Floats, rotations: Floats, c: Floats, x: Floats
) -> None:
    for row in range(len(interior)):
        v, a, b, d = interior[row], 0.0, 0.0, 0.0
        z = corrections[row]
        for k in range(len(c)):
            a += z[0, k] * c[k]
            b += z[1, k] * c[k]
            d += z[2, k] * c[k]
        R = rotations[row]
        for i in range(3):
            x[v, i] += R[i, 0] * a + R[i, 1] * b + R[i, 2] * d


@compiled_fused
def _write_columns(
    jacobian: Floats, interior: Ints, corrections: Floats, rotations: Floats, Y: Floats
) -> None:
    """Write Y = [∂Φ/∂p, 0] + R [Z, Ψ]; columns of modes stay zero elsewhere."""
    n_free = jacobian.shape[2]
    for v in range(len(jacobian)):
        for i in range(3):
            for k in range(n_free):
                Y[v, i, k] = jacobian[v, i, k]
    for row in range(len(interior)):
        v, z = interior[row], corrections[row]
        for i in range(3):
            a, b, d = rotations[row, i, 0], rotations[row, i, 1], rotations[row, i, 2]
            target, first, second, third = Y[v, i], z[0], z[1], z[2]
            for k in range(n_free):
                target[k] += a * first[k] + b * second[k] + d * third[k]
            for k in range(n_free, len(target)):
                target[k] = a * first[k] + b * second[k] + d * third[k]
