"""Simulator of a free Saint Venant–Kirchhoff body, which flies, rotates and deforms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import scipy.linalg as sl
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints, Singles
from supple.checks import checked_array, checked_count, numbers, shown
from supple.compiled.tables import ArgumentTable
from supple.dynamics.character_inputs import checked_frames, checked_vertex
from supple.dynamics.root_frame import checked_root
from supple.engines.stvk.body_simulator import (
    BodySimulator,
    StvkStep,
    check_trace,
    coefficient_arrays,
    largest_change,
)
from supple.engines.stvk.cubic_model import Forces
from supple.engines.stvk.free import turning as rows
from supple.engines.stvk.free.flight import FlightArrays, FreeArrays, fly
from supple.engines.stvk.free.turning import TurningArrays, evaluate_turning
from supple.engines.stvk.inversion_watch import WatchArrays
from supple.engines.stvk.model import StvkModel
from supple.engines.stvk.rigid_integrals import RigidMoments
from supple.engines.stvk.stvk_step import (
    CONVERGED,
    MASS,
    POSITION,
    STAGE,
    TAU,
    VELOCITY,
    StepArrays,
    padded_pairs,
)
from supple.errors import SolverError, SuppleError
from supple.linalg.upper_triangle import padded_identity
from supple.maths.quaternions import to_matrix
from supple.maths.rotations import from_matrix
from supple.maths.rotations import to_matrix as to_matrices

#: Smallest fraction of a shape's kinetic energy that must not be rigid motion.
_RIGID = 1e-8


class FreeStvkRun(NamedTuple):
    """Record of many steps."""

    q: Floats
    """(t, r) deformation q after each step."""
    roots: Floats
    """(t, 4, 4) rigid transforms after each step: vertices are at root (X + U q)."""


class FreeStvkSimulator(BodySimulator[StvkModel]):
    """Simulator of a body at x = c + R (X + U q), with c, R and q coupled (barbic2005 App. D).

    Linear and angular momentum change only by external forces, to rounding, even with damping or
    iterations that end early. `supple.engines.stvk.free.flight` has the equations, without
    simplification.

    Parameters
    ----------
    model
        Built without fixed vertices, in a basis without rigid motions.
    dt
        Time step in s; the body should rotate by much less than a radian in one.
    integrator
        Method for the deformation: ``"newmark"`` (second order; energy does not drift) or
        ``"backward-euler"`` (loses energy of deformation). The rigid motion is of second order with
        both.
    iterations
        Largest number of linearisations of elastic forces in a step. Energy is conserved if they
        converge (`unconverged_steps` is 0): with one, a strongly deformed body loses or gains some.
    dtype
        Type of the coefficients: float64, or float32 for half the time and seven digits.
    alpha, beta
        Rayleigh damping of the deformation, in 1/s and s. Rigid motion is not damped.
    gravity
        In m/s².
    tolerance
        Iterations end when one moves no vertex by more than this fraction of the body's size.

    Examples
    --------
    >>> from supple.elastic import Material
    >>> from supple.scenes import beam
    >>> model = StvkModel.build(beam(cells=(6, 2, 2)), Material("stvk", young=1e5), modes=6)
    >>> simulator = FreeStvkSimulator(model, dt=1 / 1000, gravity=(0, -9.81, 0))
    >>> simulator.reset(linear=[1.0, 5.0, 0.0], angular=[0.0, 0.0, 8.0])
    >>> simulator.run(500).roots.shape
    (500, 4, 4)
    >>> simulator.energies()["elastic"] > 0  # it stretches as it rotates
    True
    """

    _cure = (
        "use a smaller dt (a step must turn the body by less than a radian), smaller forces or "
        "more damping"
    )

    def _begin(self, model: StvkModel) -> None:
        if self._settings[STAGE] != self._settings[TAU]:
            raise SuppleError(
                'a free body is stepped by "newmark" with β = ¼ and γ = ½, or by "backward-euler"; '
                "leave out newmark="
            )
        self._lay_out(model)
        self.reset()

    def _lay_out(self, model: StvkModel) -> None:
        """Lay out a model's arrays for steps; `reset` sets the state."""
        moments = free_moments(model)
        r, (blocks, linear, terms, constant) = model.modes, coefficient_arrays(model, self._dtype)
        packed = np.zeros((rows.PACKED_ROWS, padded_pairs(r)))
        packed[: len(constant)] = constant
        packed[MASS, : r * (r + 1) // 2] = moments.shape_mass[np.triu_indices(r)]
        self.model, self._moments = model, moments
        self._settings[CONVERGED] = largest_change(model, self._tolerance)
        self._state, self._spin = np.zeros((rows.STATE_ROWS, r)), np.zeros((rows.SPIN_ROWS, 4))
        self._system = padded_identity(r)
        self._watch = WatchArrays.of(model, np.zeros(r))
        arms = model.surface.vertices - moments.centre
        self._arrays = FreeArrays(
            FlightArrays(self._gravity, arms, model.surface_basis, moments.drift, moments.mass),
            StepArrays(
                *(self._settings, self._counts, blocks, linear, terms, packed),
                *(self._state, self._system, self._watch),
            ),
            TurningArrays.of(moments),
            self._spin,
        )
        self._bound = ArgumentTable(self._arrays)
        basis = model.surface_basis - moments.drift
        self._surface_basis = basis.astype(np.float32).reshape(-1, r)
        self._surface_rest = arms.astype(np.float32)
        self._local = np.empty_like(self._surface_rest)
        self._none = np.empty((1, 0, 3)), np.empty(0, np.int64)
        self._no_trace = np.empty((0, r)), np.empty((0, 7))

    def _exchange(self, model: StvkModel) -> None:
        root, angular, q, velocity = self.root, self.angular_velocity, self.q, self.velocity
        linear, before = self.linear_velocity, self._moments
        counts, steps, was = self._counts.copy(), self._steps, dict(vars(self))
        try:
            self._lay_out(model)
            along = self._moments.centre_at(q) - before.centre_at(q)
            drifting = (self._moments.drift - before.drift) @ velocity
            linear += np.cross(angular, root[:3, :3] @ along) + root[:3, :3] @ drifting
            self.reset(q, velocity, root, linear, angular)
        except SuppleError:
            vars(self).update(was)
            raise
        self._counts[:], self._steps = counts, steps

    def reset(
        self,
        q: ArrayLike | None = None,
        velocity: ArrayLike | None = None,
        root: ArrayLike | None = None,
        linear: ArrayLike = (0.0, 0.0, 0.0),
        angular: ArrayLike = (0.0, 0.0, 0.0),
    ) -> None:
        """Reset, by default to the mesh's position, undeformed and at rest.

        Parameters
        ----------
        q, velocity
            (r,) deformation and its rate.
        root
            (4, 4) rigid transform from the mesh's frame to the world.
        linear
            (3,) velocity of the mass centre, in m/s.
        angular
            (3,) angular velocity of the root in the world, in rad/s.
        """
        moments, (at, moving) = self._moments, self._checked_start(q, velocity)
        place, fast = checked_root(root), checked_array("linear", linear, (3,))
        rotation = place[:3, :3]
        omega = rotation.T @ checked_array("angular", angular, (3,))
        with np.errstate(over="ignore", invalid="ignore"):
            coupling, inertia = moments.coupling_at(at), moments.inertia_at(at)
            spin = rotation @ (inertia @ omega + coupling @ moving)
            momentum = coupling.T @ omega + moments.shape_mass @ moving
            pull = self._pull(at, moving, omega)
            centre = place[:3, 3] + rotation @ moments.centre_at(at)
            total = np.concatenate([spin, momentum, pull, centre, moments.mass * fast])
        if not np.isfinite(total).all():
            raise SolverError("forces at the start are not finite; start nearer to rest, or slower")
        self._state[:], self._spin[:] = 0.0, 0.0
        self._state[[POSITION, VELOCITY]] = at, moving
        self._state[[rows.PULL, rows.MOMENTUM]] = pull, momentum
        self._spin[[rows.CENTRE, rows.LINEAR], :3] = centre, moments.mass * fast
        self._spin[[rows.ANGULAR, rows.OMEGA], :3] = spin, omega
        self._spin[rows.TURN] = from_matrix(rotation)
        self._evaluate_turning()
        self._counts[1:] = 0
        self._watch.reset()
        self._steps = 0

    def _evaluate_turning(self) -> None:
        state = self._state
        evaluate_turning(state[POSITION], state[VELOCITY], self._arrays.turning)

    def _pull(self, q: Floats, v: Floats, omega: Floats) -> Floats:
        """Return ½ Ω·∂I/∂q Ω + Ω·∂h/∂q v − f(q) − D v (r,): ṗ without forces, see `flight`."""
        moments = self._moments
        _, linear, quadratic = moments.inertia_terms
        slopes = linear + 2 * quadratic @ q
        outward = 0.5 * np.einsum("a,b,abj->j", omega, omega, slopes)
        outward += np.einsum("a,aij,j->i", omega, moments.coupling_terms[1], v)
        damped = self.alpha * (moments.deforming_mass_at(q) @ v)
        damped += self.beta * (self.model.stiffness(q) @ v)
        return outward - self.model.force(q) - damped

    def step(self, forces: Forces | None = None) -> StvkStep:
        """Advance by one time step.

        Parameters
        ----------
        forces
            In N, in the world: a mapping of surface vertices to (3,), or (n̄, 3). They act
            throughout the step at the predicted positions of the vertices in its middle.

        Raises
        ------
        SuppleError
            If forces are not numbers, or the step diverges; the state is then unchanged.
        """
        loads = self._none if forces is None else _surface_loads(self.model, forces, None)
        shifted, inverted = self._counts[1], self._counts[3]
        if fly(1, *loads, *self._no_trace, self._bound) != 1:
            self._diverged(0)
        return self._stepped(shifted, inverted)

    def run(self, steps: int, forces: Forces | None = None) -> FreeStvkRun:
        """Make many steps in one compiled call.

        Parameters
        ----------
        steps
            Number of steps.
        forces
            As for `step`, in all steps; or one per step: a mapping of vertices to (steps, 3), or
            (steps, n̄, 3).

        Raises
        ------
        SuppleError
            If the simulation diverges; the state is then as before the first step.
        """
        count, r = checked_count("the number of steps", steps, 0), self.model.modes
        check_trace(count, r + 23)
        loads = self._none if forces is None else _surface_loads(self.model, forces, count)
        trace, flight = np.empty((count, r)), np.empty((count, 7))
        watched = self._watch.lasting, self._watch.progress
        self._run(
            count,
            lambda: fly(count, *loads, trace, flight, self._bound),
            (self._state, self._spin, self._counts, *watched),
        )
        return FreeStvkRun(trace, _roots_of(flight, trace, self._moments))

    def _diverged(self, made: int) -> None:
        self._evaluate_turning()
        super()._diverged(made)

    @property
    def root(self) -> Floats:
        """Rigid transform (4, 4) from the mesh's frame to the world: x = root (X + U q)."""
        flight = np.concatenate([self._spin[rows.CENTRE, :3], self._spin[rows.TURN]])
        return _roots_of(flight[None], self._state[POSITION][None], self._moments)[0]

    @property
    def gravity(self) -> Floats:
        """Gravity in m/s², (3,): a copy; may be set while the body flies."""
        return self._gravity.copy()

    @gravity.setter
    def gravity(self, gravity: ArrayLike) -> None:
        self._gravity[:] = checked_array("gravity", gravity, (3,))

    @property
    def mass(self) -> float:
        """Mass of the body in kg."""
        return self._moments.mass

    @property
    def centre(self) -> Floats:
        """Mass centre in the world, (3,)."""
        return self._spin[rows.CENTRE, :3].copy()

    @property
    def linear_velocity(self) -> Floats:
        """Velocity of the mass centre, (3,) in m/s."""
        return self._spin[rows.LINEAR, :3] / self._moments.mass

    @property
    def angular_velocity(self) -> Floats:
        """Angular velocity of the root in the world, (3,) in rad/s."""
        return self._turn() @ self._spin[rows.OMEGA, :3]

    @property
    def linear_momentum(self) -> Floats:
        """Linear momentum of the whole body, (3,) in kg m/s."""
        return self._spin[rows.LINEAR, :3].copy()

    @property
    def angular_momentum(self) -> Floats:
        """Angular momentum of the whole body about the world's origin, (3,) in kg m²/s."""
        spin = self._spin[rows.ANGULAR, :3]
        return spin + np.cross(self._spin[rows.CENTRE, :3], self._spin[rows.LINEAR, :3])

    def energies(self) -> dict[str, float]:
        """Return kinetic, elastic and gravitational energy, and their sum, in J."""
        moments, q, v = self._moments, self._state[POSITION], self._state[VELOCITY]
        linear, omega = self._spin[rows.LINEAR, :3], self._spin[rows.OMEGA, :3]
        kinetic = linear @ linear / (2 * moments.mass) + v @ moments.shape_mass @ v / 2
        kinetic += omega @ (moments.inertia_at(q) @ omega / 2 + moments.coupling_at(q) @ v)
        energies = {
            "kinetic": float(kinetic),
            "elastic": self.model.energy(q),
            "gravity": -moments.mass * float(self._gravity @ self._spin[rows.CENTRE, :3]),
        }
        return energies | {"total": sum(energies.values())}

    def surface(self, out: Singles | None = None) -> Singles:
        """Return the surface in the world, (n̄, 3) float32: a new array, or `out`."""
        out = checked_frames(out, self._surface_rest.shape)
        self._place_surface(self._local)
        np.dot(self._local, self._turn().T.astype(np.float32), out=out)
        out += self._spin[rows.CENTRE, :3].astype(np.float32)
        return out

    def _turn(self) -> Floats:
        """Return the rotation R (3, 3) from the body's frame to the world."""
        rotation = np.empty((3, 3))
        to_matrix(self._spin[rows.TURN], rotation)
        return rotation


def free_moments(model: StvkModel) -> RigidMoments:
    """Return the moments of a free body without rigid motions in its basis; else raise an error."""
    if not isinstance(model, StvkModel):
        raise SuppleError(f"a FreeStvkSimulator needs a StvkModel, not {shown(model)}")
    inertia = model.inertia
    if inertia is None:
        raise SuppleError(
            "the model has no moments of inertia (its file is of an earlier version, or it was "
            "not built from a mesh); build it again"
        )
    if inertia.held:
        raise SuppleError(
            f"the body is fixed at {inertia.held} vertices and cannot fly; build it without "
            "fixed=, or step it with a StvkSimulator"
        )
    with np.errstate(over="ignore", invalid="ignore"):
        moments = inertia.moments(model.groups.density, model.weight_parts)
    if not (np.isfinite(moments.inertia_terms[0]).all() and np.isfinite(moments.shape_mass).all()):
        raise SuppleError("the body's mass is not finite; give it another density")
    try:
        deforming = moments.deforming_mass_at(np.zeros(model.modes))
        least = float(sl.eigh(deforming, model.mass, eigvals_only=True)[0])
    except (np.linalg.LinAlgError, ValueError):
        least = np.nan
    if not least > _RIGID:
        raise SuppleError(
            "the basis contains rigid motions, which the root represents; leave such columns "
            "out, as StvkModel.build does"
        )
    return moments


def _surface_loads(model: StvkModel, forces: Forces, steps: int | None) -> tuple[Floats, Ints]:
    """Return forces (1, k, 3), or (steps, k, 3), and vertices (k,)."""
    count = len(model.surface_basis)
    if not isinstance(forces, Mapping):
        values = numbers("forces", forces)
        shape = (count, 3) if values.ndim < 3 or steps is None else (steps, count, 3)
        acting = checked_array("forces", values, shape)
        return acting.reshape(-1, count, 3), np.arange(count)
    rows = []
    for vertex, force in forces.items():
        checked_vertex(vertex, count, "the surface")
        values = numbers(f"force on vertex {vertex}", force)
        expected = (3,) if values.ndim < 2 or steps is None else (steps, 3)
        rows.append(checked_array(f"force on vertex {vertex}", values, expected).reshape(-1, 3))
    vertices = np.array(list(forces), np.int64)
    length = max((len(row) for row in rows), default=1)
    stacked = np.empty((length, len(rows), 3))
    for number, row in enumerate(rows):
        stacked[:, number] = row
    return stacked, vertices


def _roots_of(flight: Floats, q: Floats, moments: RigidMoments) -> Floats:
    """Return roots (t, 4, 4) of mass centres and quaternions (t, 7), and q (t, r)."""
    roots = np.zeros((len(flight), 4, 4))
    if len(flight):
        roots[:, :3, :3] = to_matrices(flight[:, 3:])
    local = moments.centre + q @ moments.drift.T
    roots[:, :3, 3] = flight[:, :3] - np.einsum("tab,tb->ta", roots[:, :3, :3], local)
    roots[:, 3, 3] = 1.0
    return roots
