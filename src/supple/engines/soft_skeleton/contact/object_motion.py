"""Motion of rigid objects in the system of a soft skeleton."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from supple.arrays import Floats
from supple.compiled.jit import compiled
from supple.dynamics.integrators import Integrator
from supple.dynamics.rigid_object import RigidObject
from supple.engines.common.stage_history import History
from supple.engines.soft_skeleton.bones.bone_chain import straighten, write_exponential
from supple.maths.small_matrices import times

#: Points of equal mass that have the moments of an object, on its main axes.
POINTS = 6
#: Change of velocity in m/s within a step that is a blow.
ROUGH = 0.3


class ObjectMotion:
    """Objects that are pushed: six points of a sixth of the mass each, which move rigidly.

    Inertia is that of points, as the body's is: M (x − x̂)/τ² with the integrator's target x̂, which
    has all terms of gyration. Coordinates of a change, six an object: a move of the centre of mass,
    and a small turn in the world's axes.

    Parameters
    ----------
    objects
        Those that forces move, in their order.
    """

    def __init__(self, objects: Sequence[RigidObject]) -> None:
        self.objects = tuple(objects)
        count = len(self.objects)
        self.centres, self.turns = np.zeros((count, 3)), np.tile(np.eye(3), (count, 1, 1))
        self.masses = np.array([each.mass for each in self.objects])
        self._own = np.array([_points(each) for each in self.objects]).reshape(count, POINTS, 3)
        easy = [np.linalg.inv(each.inertia) for each in self.objects]
        self._mobilities = np.array(easy).reshape(count, 3, 3)
        self._x, self._rate = np.zeros((count, POINTS, 3)), np.zeros((count, 6))
        self._start, self.guess = (self.centres.copy(), self.turns.copy()), np.zeros(6 * count)
        self._world, self._tau, self._h = History(self._x.shape), 0.0, 0.0
        self.reset()

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return 6 * len(self.objects)

    def reset(self) -> None:
        """Start at the places and velocities that the objects have."""
        v = np.zeros_like(self._x)
        for k, each in enumerate(self.objects):
            self.centres[k], self.turns[k] = each.centre, each.turn
            away = self._own[k] @ each.turn.T
            self._x[k] = each.centre + away
            v[k] = each.velocity + np.cross(each.spin, away)
            self._rate[k] = [*each.velocity, *each.spin]
        self._world.reset(self._x, v)

    def begin(self, integrator: Integrator, h: float) -> None:
        """Start a stage, and move on as fast as before."""
        if not self.objects:
            return
        for k, each in enumerate(self.objects):
            same = np.array_equal(each.centre, self.centres[k])
            same &= np.array_equal(each.turn, self.turns[k])
            same &= np.array_equal([*each.velocity, *each.spin], self._rate[k])
            if not same:
                self.reset()  # somebody put it elsewhere, or throws it
                break
        self._tau, self._h = self._world.begin(integrator, h), h
        self._start = self.centres.copy(), self.turns.copy()
        self.guess[:] = h * self._rate.reshape(-1)
        self.change(self.guess)

    def change(self, by: Floats) -> None:
        """Change places by coordinates (6 O,)."""
        if not self.objects:
            return
        _move(by, self._own, self.centres, self.turns, self._x)

    def go_back(self) -> None:
        """Be where the stage began."""
        if not self.objects:
            return
        self._world.give_up()
        self.centres[:], self.turns[:] = self._start
        np.einsum("oij,okj->oki", self.turns, self._own, out=self._x)
        self._x += self.centres[:, None]

    def add_terms(self, gravity: Floats, first: int, gradient: Floats, hessian: Floats) -> None:
        """Add inertia and weight to the rows from `first` on."""
        if self.objects:
            places = self._x, self._world.target, self.centres
            rate = 1 / self._tau**2
            _add(self.masses, *places, rate, gravity, first, gradient, hessian)

    def finish(self) -> None:
        """End the stage, and tell the objects where they are."""
        if not self.objects:
            return
        self._world.finish(self._x, self._tau)
        self._world.restart_where_rough(self._h, ROUGH)
        own = self.masses, self._mobilities, self.centres
        _write_rates(*own, self._x, self._world.v, self.turns, self._rate)
        for k, each in enumerate(self.objects):
            each.put(self.centres[k], self.turns[k])
            self.centres[k] = each.centre
            each.velocity[:], each.spin[:] = self._rate[k, :3], self._rate[k, 3:]


def _points(each: RigidObject) -> Floats:
    """(6, 3) ±√3 σ_i along the main axes e_i, with m σ_i² the second moment."""
    moments = np.trace(each.inertia) / 2 * np.eye(3) - each.inertia
    values, axes = np.linalg.eigh(moments)
    away = axes * np.sqrt(3 * np.maximum(values, 0.0) / each.mass)
    return np.concatenate([away.T, -away.T])


@compiled
def _move(by: Floats, own: Floats, centres: Floats, turns: Floats, x: Floats) -> None:
    """Move and turn objects by (6 O,), and write the points (O, 6, 3) of each."""
    turn, before = np.empty((3, 3)), np.empty((3, 3))
    for o in range(len(centres)):
        write_exponential(by[6 * o + 3 : 6 * o + 6], turn)
        before[:] = turns[o]
        times(turn, before, turns[o])
        for i in range(3):
            centres[o, i] += by[6 * o + i]
            for k in range(x.shape[1]):
                x[o, k, i] = centres[o, i]
                for j in range(3):
                    x[o, k, i] += turns[o, i, j] * own[o, k, j]


@compiled
def _write_rates(
    masses: Floats,
    mobilities: Floats,
    centres: Floats,
    x: Floats,
    v: Floats,
    turns: Floats,
    out: Floats,
) -> None:
    """Write velocities (O, 6) of points' mean and of spin, I ω = Σ m r × v; straighten turns."""
    turning, own, scratch = np.empty(3), np.empty(3), np.empty((3, 3))
    for o in range(len(masses)):
        m, count = masses[o] / x.shape[1], x.shape[1]
        turning[:], own[:], out[o] = 0.0, 0.0, 0.0
        for k in range(count):
            for i in range(3):
                j, l = (i + 1) % 3, (i + 2) % 3
                out[o, i] += v[o, k, i] / count
                turning[i] += m * (x[o, k, j] - centres[o, j]) * v[o, k, l]
                turning[i] -= m * (x[o, k, l] - centres[o, l]) * v[o, k, j]
        for i in range(3):
            for j in range(3):
                for k in range(3):
                    own[i] += mobilities[o, i, j] * turns[o, k, j] * turning[k]
        for i in range(3):
            for j in range(3):
                out[o, 3 + i] += turns[o, i, j] * own[j]
        straighten(turns[o], scratch)


@compiled
def _add(
    masses: Floats,
    x: Floats,
    target: Floats,
    centres: Floats,
    rate: float,
    gravity: Floats,
    first: int,
    gradient: Floats,
    hessian: Floats,
) -> None:
    r, f = np.empty(3), np.empty(3)
    for o in range(len(masses)):
        m = masses[o] / x.shape[1]
        at = first + 6 * o
        for k in range(x.shape[1]):
            for i in range(3):
                r[i] = x[o, k, i] - centres[o, i]
                f[i] = m * ((x[o, k, i] - target[o, k, i]) * rate - gravity[i])
                gradient[at + i] += f[i]
                hessian[at + i, at + i] += m * rate
            # Jᵀf with J = −[r]×, and JᵀJ = |r|² − r rᵀ; moves and turns mix with Σ m r, which is 0.
            gradient[at + 3] += r[1] * f[2] - r[2] * f[1]
            gradient[at + 4] += r[2] * f[0] - r[0] * f[2]
            gradient[at + 5] += r[0] * f[1] - r[1] * f[0]
            square = r[0] * r[0] + r[1] * r[1] + r[2] * r[2]
            for i in range(3):
                hessian[at + 3 + i, at + 3 + i] += m * rate * square
                for j in range(i, 3):
                    hessian[at + 3 + i, at + 3 + j] -= m * rate * r[i] * r[j]
