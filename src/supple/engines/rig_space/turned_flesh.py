"""Positions of all flesh by free parameters and interior modes, turned with the rig."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from supple.arrays import Floats, Ints
from supple.compiled.jit import compiled_fused, compiled_sums
from supple.engines.rig_space.flesh_rig import FleshRig, VertexTurns


class TurnedFlesh:
    """x(c) = Φ(key + c_p) + R (Z c_p + Ψ c_m), and Y = ∂x/∂c with R as it is.

    Parameters
    ----------
    rig
        Φ and its Jacobian.
    turns
        R of the flesh around each interior vertex.
    interior
        (q,) vertices that have corrections.
    corrections
        (q, 3, K) Z and Ψ of these.
    """

    def __init__(
        self, rig: FleshRig, turns: VertexTurns, interior: Ints, corrections: Floats
    ) -> None:
        self.rig, self.turns = rig, turns
        self.interior = np.asarray(interior, np.int64)
        self.corrections = np.ascontiguousarray(corrections, np.float64)
        self.n_free, self.size = len(rig.entries), corrections.shape[2]
        self.x = np.empty_like(rig.key)

    @cached_property
    def Y(self) -> Floats:
        """(n, 3, K) ∂x/∂c where it was last evaluated."""
        return np.zeros((*self.x.shape, self.size))

    @property
    def key(self) -> Floats:
        """(n, 3) where flesh is with nothing added: Φ at the key pose."""
        return self.rig.key

    def set_key(self, pose: Floats) -> None:
        """Go to a key pose."""
        self.rig.set_key(pose)

    def turn(self, c: Floats) -> None:
        """Turn R with the rig at coordinates c (K,)."""
        self.rig.move(c[: self.n_free], jacobian=False)
        self.turns.follow(self.rig.positions)

    def move(self, c: Floats, *, columns: bool = True) -> None:
        """Set `x`, and `Y` where columns are wanted, at coordinates c (K,)."""
        self.rig.move(c[: self.n_free], jacobian=columns)
        self.x[:] = self.rig.positions
        R, tables = self.turns.matrices, (self.interior, self.corrections)
        _add_turned(*tables, R, c, self.x)
        if columns:
            _write_columns(self.rig.jacobian, *tables, R, self.Y)


@compiled_sums
def _add_turned(interior: Ints, corrections: Floats, turns: Floats, c: Floats, x: Floats) -> None:
    for row in range(len(interior)):
        v, a, b, d = interior[row], 0.0, 0.0, 0.0
        z = corrections[row]
        for k in range(len(c)):
            a += z[0, k] * c[k]
            b += z[1, k] * c[k]
            d += z[2, k] * c[k]
        R = turns[row]
        for i in range(3):
            x[v, i] += R[i, 0] * a + R[i, 1] * b + R[i, 2] * d


@compiled_fused
def _write_columns(
    jacobian: Floats, interior: Ints, corrections: Floats, turns: Floats, Y: Floats
) -> None:
    """Y = [∂Φ/∂p, 0] + R [Z, Ψ]; columns of modes stay zero elsewhere."""
    n_free = jacobian.shape[2]
    for v in range(len(jacobian)):
        for i in range(3):
            for k in range(n_free):
                Y[v, i, k] = jacobian[v, i, k]
    for row in range(len(interior)):
        v, z = interior[row], corrections[row]
        for i in range(3):
            a, b, d = turns[row, i, 0], turns[row, i, 1], turns[row, i, 2]
            target, first, second, third = Y[v, i], z[0], z[1], z[2]
            for k in range(n_free):
                target[k] += a * first[k] + b * second[k] + d * third[k]
            for k in range(n_free, len(target)):
                target[k] = a * first[k] + b * second[k] + d * third[k]
