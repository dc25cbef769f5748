"""Simulator of a Saint Venant–Kirchhoff body in its basis, at thousands of steps a second."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import scipy.linalg as sl
from numpy.typing import ArrayLike

from supple.arrays import Floats, Singles
from supple.checks import checked_array, checked_count, numbers, shown
from supple.compiled.tables import ArgumentTable
from supple.dynamics.character_inputs import checked_frames
from supple.engines.stvk.body_simulator import (
    BodySimulator,
    StvkStep,
    acceleration_by,
    check_step_size,
    check_trace,
    coefficient_arrays,
    finite_weight,
    first_acceleration,
    largest_change,
    surface_arrays,
)
from supple.engines.stvk.cubic_model import CubicModel, Forces
from supple.engines.stvk.inversion_watch import WatchArrays
from supple.engines.stvk.model import StvkModel
from supple.engines.stvk.stvk_step import (
    ACCELERATION,
    CONVERGED,
    FACTORISED,
    POSITION,
    STATE_ROWS,
    VELOCITY,
    StepArrays,
    advance,
)
from supple.errors import SuppleError, warn
from supple.linalg.upper_triangle import padded_identity

#: Seconds between checks for a spurious equilibrium, and its least distance relative to the size.
CHECKED, FAR = 0.25, 0.02
#: A body of lowest frequency ω is at rest if velocities are at most this times ω|q|, and
#: accelerations this times ω²|q|.
STILL = 0.02


def spurious_words(distance: float) -> str:
    """Return a description of a spurious equilibrium at this distance relative to the size."""
    return (
        f"the body rests in a spurious equilibrium, {distance:.2g} of its size away from its shape "
        "without loads: its basis is too small for such a deformation; use more modes, and reset it"
    )


class StvkSimulator(BodySimulator[StvkModel | CubicModel]):
    """Simulator of M̃ q̈ + D̃ q̇ + f̃(q) = f̃_ext with D̃ = αM̃ + βK̃(q) (barbic2005 §3.3).

    The same inputs give the same bits. A step allocates nothing except its result.

    Parameters
    ----------
    model
        Body to step: a `StvkModel`, or a `CubicModel` from `supple.formats.read_vega`.
    dt
        Time step in s.
    integrator
        ``"newmark"`` (β = ¼, γ = ½: second order, conserves energy of resolved motion),
        ``"backward-euler"`` (damps fast motion most), any other integrator that is `trapezoidal`
        in `supple.dynamics.integrators`, or ``"central-differences"`` (explicit: Newmark's method
        with β = 0 and γ = ½, for steps shorter than 2/ω of the fastest mode).
    iterations
        Largest number of Newton iterations of a step, up to 1000. One is the paper's choice for
        real time; several end at convergence.
    dtype
        Type of the coefficients: float64, or float32 for half the time and seven digits.
    alpha, beta
        Rayleigh damping, in 1/s and s.
    gravity
        In m/s²; by default none, as the rest shape usually includes it.
    tolerance
        Iterations end when one moves no vertex by more than this fraction of the body's size.
    newmark
        β and γ of integrator ``"newmark"``; by default (¼, ½). γ above ½ damps fast motion.

    Notes
    -----
    An indefinite stiffness, as of a squeezed body, can make βK̃ add energy; if the system becomes
    indefinite, the step is solved with added mass (`shifted_steps`). Steps that do not converge
    (`unconverged_steps`, most steps with one iteration) may not conserve energy: a strongly
    deformed body released with steps of a hundredth of a second can gain many times its energy. A
    smaller `dt` helps, and is cheaper than iterations.

    Examples
    --------
    >>> from supple.elastic import Material
    >>> from supple.scenes import beam
    >>> mesh, soft = beam(cells=(6, 2, 2)), Material("stvk", young=1e5)
    >>> model = StvkModel.build(mesh, soft, modes=6, fixed=mesh.vertices[:, 0] == 0)
    >>> simulator = StvkSimulator(model, dt=1 / 1000)
    >>> tip = int(simulator.surface()[:, 0].argmax())
    >>> simulator.step({tip: [0.0, -1.0, 0.0]}).limits
    ()
    >>> simulator.run(1000).shape
    (1000, 6)
    """

    def _begin(self, model: StvkModel | CubicModel) -> None:
        if not isinstance(model, StvkModel | CubicModel):
            raise SuppleError(f"a StvkSimulator needs a StvkModel, not {shown(model)}")
        self._every, self._astray = max(1, round(CHECKED / self.dt)), False
        self._state = np.zeros((STATE_ROWS, model.modes))
        self._exchange(model)

    def _exchange(self, model: StvkModel | CubicModel) -> None:
        check_step_size(model, self._settings)
        coefficients = coefficient_arrays(model, self._dtype)
        weight = finite_weight(model, self._gravity)
        at, moving = self._state[[POSITION, VELOCITY]]
        acceleration = first_acceleration(model, weight, self._settings, at, moving)
        self.model = model
        self._settings[CONVERGED] = largest_change(model, self._tolerance)
        self._system, self._counts[FACTORISED] = padded_identity(model.modes), 0
        self._watch = WatchArrays.of(model, weight)
        self._arrays = StepArrays(
            self._settings, self._counts, *coefficients, self._state, self._system, self._watch
        )
        self._bound = ArgumentTable(self._arrays)
        self._surface_rest, self._surface_basis = surface_arrays(model)
        self._acting, self._no_trace = np.empty((1, model.modes)), np.empty((0, model.modes))
        self._softest: float | None = None
        self._unit = largest_change(model, 1.0)  # a q of this size moves a vertex by the body's
        self._set_weight(weight, acceleration)

    def _set_weight(self, weight: Floats, acceleration: Floats) -> None:
        self._weight, self._constant = weight, weight.reshape(1, -1).copy()
        self._watch.weight[:] = weight
        self._state[ACCELERATION] = acceleration
        self._sagged: Floats | None = None

    def reset(self, q: ArrayLike | None = None, velocity: ArrayLike | None = None) -> None:
        """Reset, by default to the undeformed body at rest."""
        at, moving = self._checked_start(q, velocity)
        acceleration = first_acceleration(self.model, self._weight, self._settings, at, moving)
        self._state[:] = 0.0
        self._state[[POSITION, VELOCITY, ACCELERATION]] = at, moving, acceleration
        self._counts[1:], self._steps, self._astray = 0, 0, False
        self._watch.reset()

    def spurious_distance(self) -> float:
        """Return how far a body at rest is from its equilibrium, relative to its size; usually 0.

        A basis that is too small can have spurious equilibria (barbic2005 §8): without loads, the
        body comes to rest far from the shape that its weight gives it. The distance is that of the
        farthest vertex. It is 0 for a body that moves, or is loaded so that it is not at rest.
        """
        model, (q, v) = self.model, self._state[[POSITION, VELOCITY]]
        if float(q @ q) <= (FAR * self._unit) ** 2:
            return 0.0
        if self._softest is None:
            softest = sl.eigvalsh(model.stiffness(np.zeros(len(q))), model.mass)[0]
            self._softest = math.sqrt(max(float(softest), 0.0))
        size, slow = math.sqrt(float(q @ model.mass @ q)), STILL * self._softest
        if math.sqrt(float(v @ model.mass @ v)) > slow * size:
            return 0.0
        pull = model.force(q) - self._weight
        if math.sqrt(float(pull @ np.linalg.solve(model.mass, pull))) > slow * self._softest * size:
            return 0.0
        if self._sagged is None:
            sagged = model.equilibrium(self._weight)
            self._sagged = np.full(len(q), np.nan) if sagged is None else sagged
        moved = float(np.linalg.norm(q - self._sagged)) / self._unit
        if len(self._surface_rest):
            places = self._surface_basis @ (q - self._sagged)
            size = float(np.ptp(self._surface_rest, axis=0).max())
            moved = float(np.linalg.norm(places.reshape(-1, 3), axis=1).max()) / size
        return moved if moved > FAR else 0.0

    @property
    def gravity(self) -> Floats:
        """Gravity in m/s², (3,): a copy; may be set while the body moves."""
        return self._gravity.copy()

    @gravity.setter
    def gravity(self, gravity: ArrayLike) -> None:
        pull = checked_array("gravity", gravity, (3,)).copy()
        weight = finite_weight(self.model, pull)
        gained = acceleration_by(self.model, weight - self._weight)
        self._gravity = pull
        self._set_weight(weight, self._state[ACCELERATION] + gained)

    @property
    def weight(self) -> Floats:
        """Reduced weight UᵀM g, (r,), read-only: a new array after each change."""
        return self._weight

    @property
    def acceleration(self) -> Floats:
        """Acceleration of q, (r,): a copy."""
        return self._state[ACCELERATION].copy()

    @property
    def arrays(self) -> StepArrays:
        """Arrays that `advance` reads and writes; new arrays after each change of the material."""
        return self._arrays

    @property
    def bound(self) -> ArgumentTable:
        """`arrays` bound for compiled loops around `advance`.

        Such a loop reports its steps by `count_steps`.
        """
        return self._bound

    def count_steps(self, made: int) -> None:
        """Advance the time by steps that an external loop has made."""
        self._steps += made

    def step(self, forces: Forces | None = None) -> StvkStep:
        """Advance by one time step.

        Parameters
        ----------
        forces
            In N: a mapping of surface vertices to (3,), or (n̄, 3); or reduced forces (r,).

        Raises
        ------
        SuppleError
            If forces are not numbers, or the step diverges; the state is then unchanged.
        """
        acting = self._constant if forces is None else self._external(forces)
        shifted, inverted = self._counts[1], self._counts[3]
        if advance(1, acting, self._no_trace, self._bound) != 1:
            checked_array("forces", acting[0], self._weight.shape)
            self._diverged(0)
        report = self._stepped(shifted, inverted)
        if self._steps % self._every == 0:
            self._astray = self.spurious_distance() > 0
        return report._replace(limits=(*report.limits, "equilibrium")) if self._astray else report

    def run(self, steps: int | ArrayLike) -> Floats:
        """Make many steps in one compiled call.

        Parameters
        ----------
        steps
            Number of steps without forces; or (t, r) reduced forces, one row per step.

        Returns
        -------
        (t, r) array
            q after each step; see `StvkModel.surface_at`.

        Raises
        ------
        SuppleError
            If the simulation diverges; the state is then as before the first step.
        """
        r = self.model.modes
        if isinstance(steps, int | np.integer):
            count, acting = checked_count("the number of steps", steps, 0), self._constant
        else:
            rows = numbers("forces", steps)
            if rows.ndim != 2 or rows.shape[1] != r:
                raise SuppleError(f"forces of shape {rows.shape}; expected (steps, {r})")
            count = len(rows)
            acting = checked_array("forces", rows, rows.shape) + self._weight
        check_trace(count, r)
        trace = np.empty((count, r))
        kept = self._state, self._counts, self._watch.lasting, self._watch.progress
        self._run(count, lambda: advance(count, acting, trace, self._bound), kept)
        if count >= self._every and (far := self.spurious_distance()):
            warn(spurious_words(far))
        return trace

    def surface(self, out: Singles | None = None) -> Singles:
        """Return the surface X̄ + Ū q, (n̄, 3) float32: a new array, or `out`."""
        out = checked_frames(out, self.model.surface.vertices.shape)
        self._place_surface(out)
        return out

    def energies(self) -> dict[str, float]:
        """Return kinetic, elastic and gravitational energy (0 at rest), and their sum, in J."""
        q, velocity = self._state[[POSITION, VELOCITY]]
        energies = {
            "kinetic": 0.5 * float(velocity @ self.model.mass @ velocity),
            "elastic": self.model.energy(q),
            "gravity": 0.0 - float(self._weight @ q),  # avoids −0
        }
        return energies | {"total": sum(energies.values())}

    def _external(self, forces: Forces) -> Floats:
        """Return reduced forces plus weight, (1, r); the step checks that they are finite."""
        reduced, shape = forces, self._weight.shape
        # An array of reduced forces, the common case at a kilohertz, needs no conversion.
        if not (type(forces) is np.ndarray and forces.shape == shape):
            if not isinstance(forces, Mapping):
                reduced = numbers("forces", forces)
            if isinstance(reduced, Mapping) or np.shape(reduced) != shape:
                reduced = self.model.reduced_force(reduced)
        try:
            np.add(reduced, self._weight, out=self._acting[0])  # type: ignore[arg-type]
        except TypeError:
            raise SuppleError(f"forces must be {shape[0]} numbers") from None
        return self._acting
