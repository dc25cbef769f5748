"""Derivative of a wire with respect to the offsets of its control points."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from supple.arrays import Floats, Ints, ShortInts
from supple.compiled.jit import compiled_fused, compiled_fused_inline
from supple.compiled.tables import ArgumentTable, table_contents
from supple.rig.deformers.wire_kernels import UNMOVED
from supple.rig.placement.placement import Positions
from supple.rig.protocol import Parameter

Vector = tuple[float, float, float]

#: Below this sine or angle, series are used.
SMALL = 1e-4


class WireTables(Protocol):
    """Data of a `Wire` that its Jacobian reads."""

    parameters: tuple[Parameter, ...]
    rest_points: Floats
    control_points: Floats
    influence: Floats
    turning: float
    pieces: ShortInts
    """(n,) polynomial piece of each vertex, or `UNMOVED`."""
    places: Floats
    """(n,) parameter of each vertex in its piece."""
    powers: Floats
    """(g, 4, 4) polynomials of the pieces."""
    first_control: Ints
    """(g,) first control point of each piece."""


class WireJacobian:
    """Jacobian of a wire: a point moves with its curve point and rotates with the tangent.

    x = x₀ + w s(u) + (R − 1)(x₀ − c(u)), with influence w, and curve point c and its shift s at the
    parameter u. R rotates by w η θ from the rest tangent t towards e = t + s′(u), with θ the angle
    between them and η the wire's `turning`. s and s′ are linear in the offsets. `entries` (k,) are
    indices of the parameters in the wire's pose.
    """

    affine, straight = False, True

    def __init__(self, wire: WireTables, entries: Ints, vertices: Ints | None = None) -> None:
        rows = slice(None) if vertices is None else vertices
        columns = np.full(len(wire.parameters), -1, np.int64)
        columns[entries] = np.arange(len(entries))
        self._points = np.ascontiguousarray(wire.rest_points[rows])
        pieces, places = wire.pieces[rows], wire.places[rows]
        followers = np.flatnonzero(pieces != UNMOVED)
        first = wire.first_control.astype(np.int64)[pieces[followers]]
        parts = wire.influence[rows][followers]
        # Values and slopes of the four polynomials that act on a vertex.
        powers, u = wire.powers[pieces[followers]], places[followers][:, None]
        value = powers[:, 0] + u * (powers[:, 1] + u * (powers[:, 2] + u * powers[:, 3]))
        slope = powers[:, 1] + u * (2 * powers[:, 2] + 3 * u * powers[:, 3])
        last = len(wire.control_points) - 1
        acting = np.minimum(first[:, None] + np.arange(4), last)
        control = wire.control_points[acting]
        missing = first[:, None] + np.arange(4) > last
        value, slope = np.where(missing, 0.0, value), np.where(missing, 0.0, slope)
        centres = np.einsum("vk,vkc->vc", value, control)
        tangents = np.einsum("vk,vkc->vc", slope, control)
        values = np.column_stack([value * parts[:, None], slope, centres, tangents, parts])
        self._table = ArgumentTable(
            (
                followers.astype(np.int64),
                np.ascontiguousarray(values),
                np.ascontiguousarray(3 * acting),
                float(wire.turning),
                columns,
                np.empty((3, 3)),
            )
        )

    def evaluate(self, pose: Floats, out: Floats) -> None:
        """Write ∂x/∂p (m, 3, k) at a pose."""
        _wire_rows(self._points, pose, self._table, out)

    def evaluate_points(self, points: Floats, pose: Floats, out: Floats) -> None:
        """Write ∂x/∂p (m, 3, k) of vertices that start at `points` (m, 3)."""
        _wire_rows(points, pose, self._table, out)

    def write_slopes(self, points: Floats, pose: Floats, out: Positions) -> None:
        """Write the rotations R = ∂x/∂X (m, 3, 3), which do not depend on the points."""
        _wire_rotations(pose, self._table, out)


@compiled_fused
def _wire_rows(points: Floats, pose: Floats, table: ArgumentTable, out: Floats) -> None:
    """Write ∂x/∂p (m, 3, k) of all vertices; zero for vertices that the wire does not move."""
    followers, values, acting, turning, columns, slopes = table_contents(table)
    for v in range(len(out)):
        for i in range(3):
            for k in range(out.shape[2]):
                out[v, i, k] = 0.0
    for row in range(len(followers)):
        v, data = followers[row], values[row]
        a = (points[v, 0] - data[8], points[v, 1] - data[9], points[v, 2] - data[10])
        t, e = _tangents(data, acting[row], pose)
        _rotation_derivative(a, t, e, data[14] * turning, slopes)
        for k in range(4):
            value, slope = data[k], data[4 + k]
            for c in range(3):
                column = columns[acting[row, k] + c]
                if column >= 0:
                    out[v, 0, column] += slopes[0, c] * slope
                    out[v, 1, column] += slopes[1, c] * slope
                    out[v, 2, column] += slopes[2, c] * slope
                    out[v, c, column] += value


@compiled_fused
def _wire_rotations(pose: Floats, table: ArgumentTable, out: Positions) -> None:
    """Write the rotation (m, 3, 3) of every vertex; the identity if the wire does not move it."""
    followers, values, acting, turning, _, _ = table_contents(table)
    for v in range(len(out)):
        for i in range(3):
            for j in range(3):
                out[v, i, j] = 1.0 if i == j else 0.0
    for row in range(len(followers)):
        data = values[row]
        t, e = _tangents(data, acting[row], pose)
        c, q = _cross(t, e), _dot(t, e)
        s2 = _dot(c, c)
        if s2 + q * q == 0.0 or (s2 == 0.0 and q < 0):
            continue
        scale = data[14] * turning * _angle_over_sine(s2, q)[0]
        rho = (scale * c[0], scale * c[1], scale * c[2])
        one, _, sine = _rotation_factors(_dot(rho, rho))
        for j in range(3):
            axis = (1.0, 0.0, 0.0) if j == 0 else (0.0, 1.0, 0.0) if j == 1 else (0.0, 0.0, 1.0)
            once = _cross(rho, axis)
            twice = _cross(rho, once)
            for i in range(3):
                out[followers[row], i, j] = axis[i] + sine * once[i] + one * twice[i]


@compiled_fused_inline
def _tangents(data: Floats, acting: Ints, pose: Floats) -> tuple[Vector, Vector]:
    """Return the tangent of the curve at rest, t, and at the pose, e."""
    t = (data[11], data[12], data[13])
    x, y, z = t
    for k in range(4):
        at, slope = acting[k], data[4 + k]
        x, y, z = x + slope * pose[at], y + slope * pose[at + 1], z + slope * pose[at + 2]
    return t, (x, y, z)


@compiled_fused_inline
def _rotation_factors(angle2: float) -> tuple[float, float, float]:
    """Return (1 − cos θ)/θ², (1 − sin θ/θ)/θ² and sin θ/θ."""
    if angle2 < SMALL * SMALL:
        return 0.5 - angle2 / 24.0, 1 / 6.0 - angle2 / 120.0, 1.0 - angle2 / 6.0
    angle, inverse = math.sqrt(angle2), 1.0 / angle2
    sine = math.sin(angle) / angle
    return (1 - math.cos(angle)) * inverse, (1 - sine) * inverse, sine


@compiled_fused_inline
def _cross(a: Vector, b: Vector) -> Vector:
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


@compiled_fused_inline
def _dot(a: Vector, b: Vector) -> float:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@compiled_fused_inline
def _combined(a: Vector, s: float, b: Vector, t: float, c: Vector) -> Vector:
    return (
        a[0] + s * b[0] + t * c[0],
        a[1] + s * b[1] + t * c[1],
        a[2] + s * b[2] + t * c[2],
    )


@compiled_fused_inline
def _angle_over_sine(s2: float, q: float) -> tuple[float, float]:
    """Return g = θ / s, and (∂g/∂s) / s, for an angle θ of tangent s / q."""
    if s2 < SMALL * SMALL * q * q and q > 0:
        return (1.0 - s2 / (3.0 * q * q)) / q, -2.0 / (3.0 * q * q * q)
    s = math.sqrt(s2)
    g = math.atan2(s, q) / s
    return g, (q / (s2 + q * q) - g) / s2


@compiled_fused_inline
def _rotation_derivative(
    a: Vector,
    t: Vector,
    e: Vector,
    part: float,
    out: Floats,
) -> None:
    """Write ∂(R a)/∂e (3, 3) for the rotation R by ρ = part · θ n from t towards e.

    θ and n are the angle and axis between t and e. A column is (J(ρ) ∂ρ/∂e) × R a.
    """
    c, q = _cross(t, e), _dot(t, e)
    s2 = _dot(c, c)
    if s2 + q * q == 0.0 or (s2 == 0.0 and q < 0):  # no tangent, or no axis of rotation
        out[:] = 0.0
        return
    g, bend = _angle_over_sine(s2, q)
    rho = (part * g * c[0], part * g * c[1], part * g * c[2])
    one, two, sine = _rotation_factors(_dot(rho, rho))
    once = _cross(rho, a)
    twice = _cross(rho, once)
    turned = _combined(a, sine, once, one, twice)
    for j in range(3):
        # t × e_j, the change of c.
        dc = (0.0, t[2], -t[1]) if j == 0 else (-t[2], 0.0, t[0]) if j == 1 else (t[1], -t[0], 0.0)
        dg = bend * _dot(c, dc) - t[j] / (s2 + q * q)
        d = (
            part * (dg * c[0] + g * dc[0]),
            part * (dg * c[1] + g * dc[1]),
            part * (dg * c[2] + g * dc[2]),
        )
        once = _cross(rho, d)
        twice = _cross(rho, once)
        out[0, j], out[1, j], out[2, j] = _cross(_combined(d, one, once, two, twice), turned)
