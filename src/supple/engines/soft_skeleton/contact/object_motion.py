"""Motion of rigid objects in the system of a soft skeleton."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from supple.arrays import Floats
from supple.compiled.jit import compiled
from supple.dynamics.integrators import Integrator
from supple.dynamics.rigid_object import RigidObject
from supple.engines.rig_space.stage_history import History
from supple.maths.rotations import exponential, to_matrix

__all__ = ["ObjectMotion"]

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
        moves = by.reshape(-1, 6)
        self.centres += moves[:, :3]
        self.turns[:] = to_matrix(exponential(moves[:, 3:])) @ self.turns
        self._place()

    def _place(self) -> None:
        np.einsum("oij,okj->oki", self.turns, self._own, out=self._x)
        self._x += self.centres[:, None]

    def go_back(self) -> None:
        """Be where the stage began."""
        if not self.objects:
            return
        self._world.give_up()
        self.centres[:], self.turns[:] = self._start
        self._place()

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
        for k, each in enumerate(self.objects):
            # Of points: v is their mean, and L = Σ m r × v = I ω.
            v = self._world.v[k].mean(axis=0)
            away = self._x[k] - self.centres[k]
            turning = self.masses[k] / POINTS * np.cross(away, self._world.v[k]).sum(axis=0)
            own = self.turns[k]
            spin = own @ np.linalg.solve(each.inertia, own.T @ turning)
            u, _, w = np.linalg.svd(own)
            self.turns[k] = u @ w
            each.put(self.centres[k], self.turns[k])
            self.centres[k] = each.centre
            each.velocity[:], each.spin[:] = v, spin
            self._rate[k, :3], self._rate[k, 3:] = v, spin


def _points(each: RigidObject) -> Floats:
    """(6, 3) ±√3 σ_i along the main axes e_i, with m σ_i² the second moment."""
    moments = np.trace(each.inertia) / 2 * np.eye(3) - each.inertia
    values, axes = np.linalg.eigh(moments)
    away = axes * np.sqrt(3 * np.maximum(values, 0.0) / each.mass)
    return np.concatenate([away.T, -away.T])


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
