"""Derivative of a wire by the offsets of its control points."""

from __future__ import annotations

import math

import numpy as np

from supple.arrays import Floats, Ints, ShortInts
from supple.compiled.jit import compiled, compiled_fused
from supple.rig.deformers.wire import UNMOVED, Wire

__all__ = ["WireJacobian"]

#: Sines below this are series.
SMALL = 1e-4


class WireJacobian:
    """Jacobian of a wire: a point moves with its place on the curve and turns with the tangent.

    x = x₀ + w s(u) + (R − 1)(x₀ − c(u)), with R the rotation by ρ = η θ n from the rest tangent t
    towards e = t + s′(u), shortened by the point's influence; s and s′ are linear in the offsets.

    Parameters
    ----------
    wire
        The wire.
    entries
        (k,) places of the parameters in its pose.
    vertices
        Indices of the vertices; None for all.
    """

    affine = False

    def __init__(self, wire: Wire, entries: Ints, vertices: Ints | None = None) -> None:
        rows = slice(None) if vertices is None else vertices
        self._columns = np.full(len(wire.parameters), -1, np.int64)
        self._columns[entries] = np.arange(len(entries))
        self._points = np.ascontiguousarray(wire.rest_points[rows])
        self._influence = np.ascontiguousarray(wire.influence[rows])
        self._pieces = np.ascontiguousarray(wire.pieces[rows])
        self._places = np.ascontiguousarray(wire.places[rows])
        self._first, self._turning = wire.first_control.astype(np.int64), wire.turning
        self._powers, self._control = wire.powers.copy(), wire.control_points.copy()

    def evaluate(self, pose: Floats, out: Floats) -> None:
        """Write ∂x/∂p (m, 3, k) at a pose."""
        out[...] = 0.0
        _wire_rows(
            pose.reshape(-1, 3),
            self._points,
            self._influence,
            self._pieces,
            self._places,
            self._first,
            self._powers,
            self._control,
            self._turning,
            self._columns,
            out,
        )


@compiled
def _wire_rows(
    offsets: Floats,
    points: Floats,
    influence: Floats,
    pieces: ShortInts,
    places: Floats,
    first: Ints,
    powers: Floats,
    control: Floats,
    turning: float,
    columns: Ints,
    out: Floats,
) -> None:
    """Add the columns of every vertex that the wire moves."""
    value, slope, turn = np.empty(4), np.empty(4), np.empty((3, 3))
    a, t, e = np.empty(3), np.empty(3), np.empty(3)  # from the place on the curve; tangents
    for v in range(len(points)):
        piece = pieces[v]
        if piece == UNMOVED:
            continue
        u, begin = places[v], first[piece]
        acting = min(4, len(control) - begin)
        for c in range(3):
            a[c], t[c], e[c] = points[v, c], 0.0, 0.0
        for k in range(acting):
            p = powers[piece]
            value[k] = p[0, k] + u * (p[1, k] + u * (p[2, k] + u * p[3, k]))
            slope[k] = p[1, k] + u * (2 * p[2, k] + 3 * u * p[3, k])
            for c in range(3):
                a[c] -= value[k] * control[begin + k, c]
                t[c] += slope[k] * control[begin + k, c]
                e[c] += slope[k] * (control[begin + k, c] + offsets[begin + k, c])
        tangents = (t[0], t[1], t[2]), (e[0], e[1], e[2])
        _turn_derivative((a[0], a[1], a[2]), *tangents, influence[v] * turning, turn)
        for k in range(acting):
            for c in range(3):
                column = columns[3 * (begin + k) + c]
                if column >= 0:
                    out[v, c, column] += influence[v] * value[k]
                    for i in range(3):
                        out[v, i, column] += turn[i, c] * slope[k]


@compiled_fused
def _cross(
    a: tuple[float, float, float], b: tuple[float, float, float]
) -> tuple[float, float, float]:
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


@compiled_fused
def _dot(a: tuple[float, float, float], b: tuple[float, float, float]) -> float:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@compiled_fused
def _angle_over_sine(s2: float, q: float) -> tuple[float, float]:
    """Return g = θ / s, and (∂g/∂s) / s, for an angle θ of tangent s / q."""
    if s2 < SMALL * SMALL * q * q and q > 0:
        return (1.0 - s2 / (3.0 * q * q)) / q, -2.0 / (3.0 * q * q * q)
    s = math.sqrt(s2)
    g = math.atan2(s, q) / s
    return g, (q / (s2 + q * q) - g) / s2


@compiled_fused
def _turn_derivative(
    a: tuple[float, float, float],
    t: tuple[float, float, float],
    e: tuple[float, float, float],
    part: float,
    out: Floats,
) -> None:
    """∂(R a)/∂e of the rotation R by ρ = part · θ n from t towards e: (J(ρ) ∂ρ/∂e) × R a."""
    c, q = _cross(t, e), _dot(t, e)
    s2 = _dot(c, c)
    if s2 + q * q == 0.0 or (s2 == 0.0 and q < 0):  # no tangent, or no axis to turn about
        out[:] = 0.0
        return
    g, bend = _angle_over_sine(s2, q)
    rho = (part * g * c[0], part * g * c[1], part * g * c[2])
    angle2 = _dot(rho, rho)
    if angle2 < SMALL * SMALL:
        one, two, sine = 0.5 - angle2 / 24.0, 1 / 6.0 - angle2 / 120.0, 1.0 - angle2 / 6.0
    else:
        angle = math.sqrt(angle2)
        one, sine = (1 - math.cos(angle)) / angle2, math.sin(angle) / angle
        two = (1 - sine) / angle2
    once = _cross(rho, a)
    twice = _cross(rho, once)
    turned = (
        a[0] + sine * once[0] + one * twice[0],
        a[1] + sine * once[1] + one * twice[1],
        a[2] + sine * once[2] + one * twice[2],
    )
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
        d = (
            d[0] + one * once[0] + two * twice[0],
            d[1] + one * once[1] + two * twice[1],
            d[2] + one * once[2] + two * twice[2],
        )
        out[0, j], out[1, j], out[2, j] = _cross(d, turned)
