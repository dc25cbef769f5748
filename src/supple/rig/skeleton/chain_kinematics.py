"""Kinematics of joint chains: position of the end, residual to a target, and Jacobian."""

from __future__ import annotations

import math

import numpy as np

from supple.arrays import Floats
from supple.compiled.jit import compiled
from supple.maths.quaternions import exponential, logarithm_near, multiply, to_matrix


@compiled
def with_workspace(chain):  # type: ignore[no-untyped-def]
    """Return a chain with scratch memory, as the functions of this module take it.

    A chain is the transform (4, 4) and rotation (4,) above it, local translations (c, 3), rest
    rotations (c, 4) and scales (c, 3) of its joints, and the offset (3,) of its end.
    """
    count = len(chain[2])
    frames, places, turns = np.empty((2, count, 3, 3)), np.empty((count, 3)), np.empty((count, 4))
    return chain, (frames[0], frames[1], places, turns, np.empty((3, 4)), np.empty((3, 3)))


@compiled
def residual_and_jacobian(chain, goal, x, residual, jacobian):  # type: ignore[no-untyped-def]
    """Write the residual (6,), in metres and radians times length, and the Jacobian (6, 3c).

    Scales are exact: a small rotation a of a joint moves the end by M R (a × v), with M the
    transform above the joint, R its rotation, and v from the joint to the end, with its scale.
    """
    base, base_turn, translations, rotations, scales, offset = chain[0]
    locals_, above, ends, turns, small, linear = chain[1]
    quaternion, spin, place = small[0], small[1], small[2, :3]
    target, orientation, turn, length = goal
    count = len(translations)
    for j in range(count):
        exponential(x[3 * j : 3 * j + 3], spin)
        multiply(rotations[j], spin, quaternion)
        to_matrix(quaternion, locals_[j])
        multiply(base_turn if j == 0 else turns[j - 1], quaternion, turns[j])
    for row in range(3):
        place[row] = base[row, 3]
        for column in range(3):
            linear[row, column] = base[row, column]
    for j in range(count):
        _apply(linear, translations[j], place)
        _matrix_product(linear, locals_[j], above[j])
        for row in range(3):
            for column in range(3):
                linear[row, column] = above[j, row, column] * scales[j, column]
    _apply(linear, offset, place)
    for k in range(3):
        ends[count - 1, k] = scales[count - 1, k] * offset[k]
        residual[k] = target[k] - place[k]
        residual[3 + k] = 0.0
    for j in range(count - 1, 0, -1):
        for k in range(3):
            reach = translations[j, k]
            for m in range(3):
                reach += locals_[j, k, m] * ends[j, m]
            ends[j - 1, k] = scales[j - 1, k] * reach
    if turn:
        _rotation_residual(turns[count - 1], orientation, length, residual[3:])
    _fill_jacobian(x, above, ends, turns, turn, length, linear, locals_[0], jacobian)


@compiled
def chain_span(chain, x, low, high):  # type: ignore[no-untyped-def]
    """Return the position (3,) of the first free joint, and the largest reach of the end from it.

    Locked joints form one bone with their parents. The distance does not depend on rotations of
    free joints, unless scales differ.
    """
    base, _, translations, rotations, scales, offset = chain
    linear, rotation = base[:3, :3].copy(), np.empty((3, 3))
    quaternion, spin = np.empty(4), np.empty(4)
    place, last, top = base[:3, 3].copy(), np.zeros(3), np.zeros(3)
    reach, turning = 0.0, False
    for j in range(len(translations)):
        _apply(linear, translations[j], place)
        free = False
        for k in range(3 * j, 3 * j + 3):
            free = free or low[k] < high[k]
        if free:
            if turning:
                reach += _distance(last, place)
            else:
                top[:] = place
            turning = True
            last[:] = place
        exponential(x[3 * j : 3 * j + 3], spin)
        multiply(rotations[j], spin, quaternion)
        to_matrix(quaternion, rotation)
        above = linear.copy()
        _matrix_product(above, rotation, linear)
        for row in range(3):
            for column in range(3):
                linear[row, column] *= scales[j, column]
    _apply(linear, offset, place)
    if not turning:
        return place, 0.0
    return top, reach + _distance(last, place)


@compiled
def _distance(a: Floats, b: Floats) -> float:
    return math.sqrt((a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2 + (a[2] - b[2]) ** 2)


@compiled
def _rotation_residual(now: Floats, goal: Floats, length: float, out: Floats) -> None:
    inverse, relative = np.empty(4), np.empty(4)
    for k in range(3):
        inverse[k] = -now[k]
    inverse[3] = now[3]
    multiply(goal, inverse, relative)
    logarithm_near(relative, np.zeros(3), out)
    for k in range(3):
        out[k] *= length


@compiled
def _fill_jacobian(
    x: Floats,
    above: Floats,
    ends: Floats,
    turns: Floats,
    turn: bool,
    length: float,
    spread: Floats,
    world: Floats,
    out: Floats,
) -> None:
    """Write the columns of the Jacobian; `spread` and `world` (3, 3) are scratch."""
    for j in range(len(ends)):
        right_jacobian(x[3 * j : 3 * j + 3], spread)
        if turn:
            to_matrix(turns[j], world)
        v, m = ends[j], above[j]
        for k in range(3):
            a, b, c = spread[0, k], spread[1, k], spread[2, k]
            ax, ay, az = b * v[2] - c * v[1], c * v[0] - a * v[2], a * v[1] - b * v[0]
            for row in range(3):
                out[row, 3 * j + k] = m[row, 0] * ax + m[row, 1] * ay + m[row, 2] * az
                spun = 0.0
                if turn:
                    spun = length * (world[row, 0] * a + world[row, 1] * b + world[row, 2] * c)
                out[3 + row, 3 * j + k] = spun


@compiled
def right_jacobian(vector: Floats, out: Floats) -> None:
    """Write J with exp(ω + δ) = exp(ω) exp(J δ) for small δ."""
    x, y, z = vector[0], vector[1], vector[2]
    squared = x * x + y * y + z * z
    angle = math.sqrt(squared)
    if angle < 1e-3:
        first, second = 0.5 - squared / 24, 1 / 6 - squared / 120
    else:
        first = (1 - math.cos(angle)) / squared
        second = (angle - math.sin(angle)) / (squared * angle)
    for a in range(3):
        for b in range(3):
            out[a, b] = second * vector[a] * vector[b]
        out[a, a] += 1 - second * squared
    out[0, 1] += first * z
    out[1, 0] -= first * z
    out[0, 2] -= first * y
    out[2, 0] += first * y
    out[1, 2] += first * x
    out[2, 1] -= first * x


@compiled
def _apply(matrix: Floats, vector: Floats, out: Floats) -> None:
    """Add matrix times vector."""
    for row in range(3):
        total = 0.0
        for k in range(3):
            total += matrix[row, k] * vector[k]
        out[row] += total


@compiled
def _matrix_product(a: Floats, b: Floats, out: Floats) -> None:
    for row in range(3):
        for column in range(3):
            total = 0.0
            for k in range(3):
                total += a[row, k] * b[k, column]
            out[row, column] = total
