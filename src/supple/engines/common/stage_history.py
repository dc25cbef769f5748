"""Histories of positions or coordinates, and the integrator's implicit stages from them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from supple.arrays import Floats
from supple.compiled.jit import compiled_fused
from supple.dynamics.integrators import Integrator

#: Rows of a history; the first five are its state.
X, V, A, X_BEFORE, V_BEFORE, START, V_START, TARGET = range(8)
STATE = 5


class History:
    """Positions, velocities and accelerations now, and positions and velocities a step earlier.

    The implicit stage of `supple.dynamics.integrators` starts at x* with v* and lasts τ; without
    forces it ends at x* + τ v*. `shape` is the positions' shape.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._rows = np.zeros((8, math.prod(shape)))
        self._kept, self._kept_steps = np.zeros((STATE, math.prod(shape))), 0
        self._shape = shape
        self._view()
        self.steps, self._h, self._kept_h, self._given_up = 0, 0.0, 0.0, 0.0

    def _view(self) -> None:
        """Create named views of the rows; copies need new views."""
        shaped = self._rows.reshape(8, *self._shape)
        self.x, self.v, self.a = shaped[X], shaped[V], shaped[A]
        self.x_before, self.v_before = shaped[X_BEFORE], shaped[V_BEFORE]
        self.start, self.v_start, self.target = shaped[START], shaped[V_START], shaped[TARGET]

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._view()

    def reset(self, x: Floats, v: Floats | float = 0.0) -> None:
        """Restart at positions x and velocities v, with zero accelerations."""
        self.x[...], self.v[...], self.a[...] = x, v, 0.0
        self.steps = 0

    def begin(self, integrator: Integrator, h: float) -> float:
        """Set `start`, `v_start` and `target` of the stage of a step of h; return its τ."""
        if self.steps == 0:
            stage = integrator.first_coefficients(h)
        else:
            stage = integrator.coefficients(h, h / self._h)
        self._given_up, self._h = self._h, h
        now, before = stage.now / stage.divisor, stage.before / stage.divisor
        _begin(self._rows, now, before, stage.lead, stage.tau)
        return stage.tau

    def give_up(self) -> None:
        """Discard the stage that `begin` started, so that another stage can begin."""
        self._h = self._given_up

    def finish(self, x: Floats, tau: float) -> None:
        """End the step at positions x, the end of the stage."""
        _finish(self._rows, x.reshape(-1), tau)
        self.steps += 1

    def restart_where_rough(self, h: float, most: float) -> bool:
        """Restart the multistep history after an impact; return whether it restarted.

        BDF2 extrapolates the change of the last step: a body that has just hit the ground would
        bounce higher each time. An impact is a velocity that differs by more than `most` from
        (x − x⁻)/h.
        """
        mean = (self.x - self.x_before) / h
        if not self.steps or np.abs(self.v - mean).max(initial=0.0) <= most:
            return False
        self.v[...], self.steps = mean, 0
        return True

    def state_arrays(self) -> dict[str, Floats]:
        """Return the arrays that later stages depend on, by name."""
        return {"rows": self._rows[:STATE], "steps": np.array([float(self.steps), self._h])}

    def set_state(self, state: Mapping[str, Floats]) -> None:
        """Set the arrays that `state_arrays` returned."""
        self._rows[:STATE] = state["rows"]
        self.steps, self._h = int(state["steps"][0]), float(state["steps"][1])

    def keep(self) -> None:
        """Store the state for `restore`."""
        np.copyto(self._kept, self._rows[:STATE])
        self._kept_steps, self._kept_h = self.steps, self._h

    def restore(self) -> None:
        """Set the state that `keep` stored."""
        np.copyto(self._rows[:STATE], self._kept)
        self.steps, self._h = self._kept_steps, self._kept_h


@compiled_fused
def _begin(rows: Floats, now: float, before: float, lead: float, tau: float) -> None:
    """Write the start of a stage, its velocity there, and its end without forces."""
    x, v, a = rows[X], rows[V], rows[A]
    x_before, v_before = rows[X_BEFORE], rows[V_BEFORE]
    start, v_start, target = rows[START], rows[V_START], rows[TARGET]
    for i in range(len(x)):
        start[i] = v[i] * lead + (x[i] * now - x_before[i] * before)
        v_start[i] = a[i] * lead + (v[i] * now - v_before[i] * before)
        target[i] = v_start[i] * tau + start[i]


@compiled_fused
def _finish(rows: Floats, x: Floats, tau: float) -> None:
    for i in range(len(x)):
        rows[X_BEFORE, i], rows[V_BEFORE, i] = rows[X, i], rows[V, i]
        rows[X, i] = x[i]
        rows[V, i] = (x[i] - rows[START, i]) / tau
        rows[A, i] = (rows[V, i] - rows[V_START, i]) / tau


@compiled_fused
def into_frame(points: Floats, root: Floats, out: Floats) -> None:
    """Transform points (n, 3) from the world to the frame of a root (4, 4): out = Rᵀ(x − t)."""
    for v in range(len(points)):
        x, y, z = points[v, 0] - root[0, 3], points[v, 1] - root[1, 3], points[v, 2] - root[2, 3]
        for i in range(3):
            out[v, i] = root[0, i] * x + root[1, i] * y + root[2, i] * z


@compiled_fused
def out_of_frame(points: Floats, root: Floats, out: Floats) -> None:
    """Transform points (n, 3) from the frame of a root (4, 4) to the world: out = R x + t."""
    for v in range(len(points)):
        x, y, z = points[v, 0], points[v, 1], points[v, 2]
        for i in range(3):
            out[v, i] = root[i, 0] * x + root[i, 1] * y + root[i, 2] * z + root[i, 3]


@compiled_fused
def farthest(x: Floats, key: Floats, c: Floats) -> float:
    """Return the largest |entry| of x − key (n, 3); infinite if any, or one of c, is not finite."""
    largest = 0.0
    for i in range(len(c)):
        if not math.isfinite(c[i]):
            return math.inf
    for v in range(len(x)):
        for i in range(3):
            distance = abs(x[v, i] - key[v, i])
            if not distance < math.inf:
                return math.inf
            largest = max(largest, distance)
    return largest


@compiled_fused
def write_weights(masses: Floats, gravity: Floats, out: Floats) -> None:
    """Write the weights m g (n, 3) of vertices in N, for gravity g (3,) in m/s², to `out`."""
    for v in range(len(masses)):
        for i in range(3):
            out[v, i] = masses[v] * gravity[i]
