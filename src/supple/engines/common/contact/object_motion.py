"""Motion of free rigid objects in the system of a body."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from supple.arrays import Floats
from supple.compiled.jit import compiled
from supple.dynamics.integrators import Integrator
from supple.dynamics.rigid_object import RigidObject
from supple.engines.common.stage_history import History
from supple.maths.small_matrices import straighten, times, write_exponential

#: Number of equal point masses, on the principal axes, that have the moments of an object.
POINTS = 6
#: Change of velocity in m/s within a step that counts as an impact.
ROUGH = 0.3
#: Frequency in Hz of a free object on its contact spring: it sinks in by 0.15 mm.
FREQUENCY = 40.0


class ObjectMotion:
    """Free objects, each as six point masses that move rigidly.

    Inertia is the points', as for the body: M (x − x̂)/τ² with the integrator's target x̂, which
    includes all gyroscopic terms. A change has six coordinates per object: a translation of the
    centre of mass, and a small rotation in world axes.
    """

    def __init__(self, objects: Sequence[RigidObject]) -> None:
        self.objects = tuple(objects)
        count = len(self.objects)
        self.centres, self.rotations = np.zeros((count, 3)), np.tile(np.eye(3), (count, 1, 1))
        self.masses = np.array([each.mass for each in self.objects])
        self._local = np.array([_points(each) for each in self.objects]).reshape(count, POINTS, 3)
        inverses = [np.linalg.inv(each.inertia) for each in self.objects]
        self._mobilities = np.array(inverses).reshape(count, 3, 3)
        self._x, self._rate = np.zeros((count, POINTS, 3)), np.zeros((count, 6))
        self._start, self.guess = (self.centres.copy(), self.rotations.copy()), np.zeros(6 * count)
        self._world, self._tau, self._h = History(self._x.shape), 0.0, 0.0
        self.reset()

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return 6 * len(self.objects)

    def reset(self) -> None:
        """Start at the places and velocities of the objects."""
        v = np.zeros_like(self._x)
        for k, each in enumerate(self.objects):
            self.centres[k], self.rotations[k] = each.centre, each.turn
            offsets = self._local[k] @ each.turn.T
            self._x[k] = each.centre + offsets
            v[k] = each.velocity + np.cross(each.spin, offsets)
            self._rate[k] = [*each.velocity, *each.spin]
        self._world.reset(self._x, v)

    def state_arrays(self) -> dict[str, Floats]:
        """Return the arrays that later stages depend on, by name."""
        arrays = {"centres": self.centres, "rotations": self.rotations, "rates": self._rate}
        return arrays | {"x": self._x} | self._world.state_arrays()

    def set_state(self, state: Mapping[str, Floats]) -> None:
        """Set the arrays that `state_arrays` returned, and move the objects."""
        self.centres[:], self.rotations[:] = state["centres"], state["rotations"]
        self._rate[:], self._x[:] = state["rates"], state["x"]
        self._world.set_state(state)
        self._write_objects()

    def begin(self, integrator: Integrator, h: float) -> None:
        """Begin a stage of h seconds, and extrapolate with the last velocities."""
        if not self.objects:
            return
        for k, each in enumerate(self.objects):
            same = np.array_equal(each.centre, self.centres[k])
            same &= np.array_equal(each.turn, self.rotations[k])
            same &= np.array_equal([*each.velocity, *each.spin], self._rate[k])
            if not same:
                self.reset()  # the caller moved it or changed its velocity
                break
        self._tau, self._h = self._world.begin(integrator, h), h
        self._start = self.centres.copy(), self.rotations.copy()
        self.guess[:] = h * self._rate.reshape(-1)
        self.change(self.guess)

    def change(self, by: Floats) -> None:
        """Change the places by coordinates (6 O,)."""
        if not self.objects:
            return
        _move(by, self._local, self.centres, self.rotations, self._x)

    def go_back(self) -> None:
        """Return to the start of the stage."""
        if not self.objects:
            return
        self._world.give_up()
        self.centres[:], self.rotations[:] = self._start
        np.einsum("oij,okj->oki", self.rotations, self._local, out=self._x)
        self._x += self.centres[:, None]

    def add_terms(self, gravity: Floats, first: int, gradient: Floats, hessian: Floats) -> None:
        """Add inertia and weight to gradient and Hessian, rows from `first` on."""
        if self.objects:
            positions = self._x, self._world.target, self.centres
            rate = 1 / self._tau**2
            _add_terms(self.masses, *positions, rate, gravity, first, gradient, hessian)

    def finish(self, impact: bool = False) -> None:
        """End the stage, and write places and velocities to the objects.

        After an impact, which large changes of velocity show as well, the multistep history
        restarts.
        """
        if not self.objects:
            return
        self._world.finish(self._x, self._tau)
        self._world.restart_where_rough(self._h, 0.0 if impact else ROUGH)
        inertia = self.masses, self._mobilities, self.centres
        _write_rates(*inertia, self._x, self._world.v, self.rotations, self._rate)
        self._write_objects()

    def _write_objects(self) -> None:
        for k, rigid in enumerate(self.objects):
            rigid.put(self.centres[k], self.rotations[k])
            self.centres[k] = rigid.centre
            rigid.velocity[:], rigid.spin[:] = self._rate[k, :3], self._rate[k, 3:]


def object_hardness(rigid: RigidObject) -> float:
    """Return the stiffness in N/m of one contact of a free object that rests on a few."""
    return rigid.mass * (2 * np.pi * FREQUENCY) ** 2 / min(len(rigid.samples), 4)


def _points(rigid: RigidObject) -> Floats:
    """Return points (6, 3) ±√3 σ_i e_i on the principal axes e_i, with second moments m σ_i²."""
    moments = np.trace(rigid.inertia) / 2 * np.eye(3) - rigid.inertia
    values, axes = np.linalg.eigh(moments)
    offsets = axes * np.sqrt(3 * np.maximum(values, 0.0) / rigid.mass)
    return np.concatenate([offsets.T, -offsets.T])


@compiled
def _move(by: Floats, local: Floats, centres: Floats, rotations: Floats, x: Floats) -> None:
    """Translate and rotate objects by (6 O,), and write their points (O, 6, 3)."""
    rotation, before = np.empty((3, 3)), np.empty((3, 3))
    for o in range(len(centres)):
        write_exponential(by[6 * o + 3 : 6 * o + 6], rotation)
        before[:] = rotations[o]
        times(rotation, before, rotations[o])
        for i in range(3):
            centres[o, i] += by[6 * o + i]
            for k in range(x.shape[1]):
                x[o, k, i] = centres[o, i]
                for j in range(3):
                    x[o, k, i] += rotations[o, i, j] * local[o, k, j]


@compiled
def _write_rates(
    masses: Floats,
    mobilities: Floats,
    centres: Floats,
    x: Floats,
    v: Floats,
    rotations: Floats,
    out: Floats,
) -> None:
    """Write velocities (O, 6): mean of the points in m/s, and ω in rad/s from I ω = Σ m r × v.

    Rotations are orthonormalised.
    """
    momentum, spin, scratch = np.empty(3), np.empty(3), np.empty((3, 3))
    for o in range(len(masses)):
        m, count = masses[o] / x.shape[1], x.shape[1]
        momentum[:], spin[:], out[o] = 0.0, 0.0, 0.0
        for k in range(count):
            for i in range(3):
                j, l = (i + 1) % 3, (i + 2) % 3
                out[o, i] += v[o, k, i] / count
                momentum[i] += m * (x[o, k, j] - centres[o, j]) * v[o, k, l]
                momentum[i] -= m * (x[o, k, l] - centres[o, l]) * v[o, k, j]
        for i in range(3):
            for j in range(3):
                for k in range(3):
                    spin[i] += mobilities[o, i, j] * rotations[o, k, j] * momentum[k]
        for i in range(3):
            for j in range(3):
                out[o, 3 + i] += rotations[o, i, j] * spin[j]
        straighten(rotations[o], scratch)


@compiled
def _add_terms(
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
    """Add inertia and weight of the points to gradient and Hessian."""
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
            # Jᵀf with J = −[r]×, and JᵀJ = |r|² − r rᵀ; coupling terms with Σ m r vanish.
            gradient[at + 3] += r[1] * f[2] - r[2] * f[1]
            gradient[at + 4] += r[2] * f[0] - r[0] * f[2]
            gradient[at + 5] += r[0] * f[1] - r[1] * f[0]
            square = r[0] * r[0] + r[1] * r[1] + r[2] * r[2]
            for i in range(3):
                hessian[at + 3 + i, at + 3 + i] += m * rate * square
                for j in range(i, 3):
                    hessian[at + 3 + i, at + 3 + j] -= m * rate * r[i] * r[j]
