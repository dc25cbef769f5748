"""Ball in a hand that touches a reduced body, with force feedback at kilohertz rates."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats
from supple.checks import checked_array, checked_count, checked_number, numbers, shown
from supple.engines.stvk.body_simulator import check_trace
from supple.engines.stvk.haptics.haptic_kernels import (
    BALL_ROWS,
    CONTACT,
    FELT,
    GRAVITY,
    HAND,
    MASS,
    PLACE,
    RADIUS,
    RECORD_COLUMNS,
    REQUIRED,
    SHARE_SCRATCH,
    SLOWEST,
    SPEED,
    STIFFNESS,
    haptic_steps,
    share_out,
)
from supple.engines.stvk.haptics.sphere_tree import (
    DIRECTION,
    LONGEST,
    PLACE_COLUMNS,
    SphereTree,
    checked_radius,
)
from supple.engines.stvk.simulator import StvkSimulator
from supple.errors import SolverError, SuppleError

#: Contact of stiffness k is stable while k h² times the sum of inverse masses is below 4; a ball in
#: a corner has several contacts.
STIFFEST = 1.0
#: Largest fraction of a closing speed that contact may remove in a step.
MOST_DAMPED = 0.5


def _checked_amount(name: str, value: float) -> float:
    """Return a finite number that is not negative; mass and stiffness must be positive."""
    number = checked_number(name, value)
    lowest = 1e-12 if name in ("mass", "stiffness") else 0.0
    if not lowest <= number <= 1e12:
        raise SuppleError(f"{name} must be between {lowest:g} and 1e12, not {value}")
    return number


def _checked_places(name: str, value: ArrayLike, shape: tuple[int, ...]) -> Floats:
    """Return finite numbers of this shape with finite squares."""
    values = checked_array(name, value, shape)
    if values.size and np.abs(values).max() > LONGEST:
        raise SuppleError(f"{name} is too large; use magnitudes up to {LONGEST:.0e}")
    return values


def _inverse_mass(simulator: StvkSimulator, mass: float) -> float:
    """Return the largest sum of inverse masses of ball and surface vertex, in 1/kg."""
    model = simulator.model
    basis = model.surface_basis
    accelerated = np.linalg.solve(model.mass, basis.reshape(-1, model.modes).T).T.reshape(
        basis.shape
    )
    return 1 / mass + float(np.einsum("vir,vir->v", basis, accelerated).max())


def _check_stiffness(dt: float, inverse_mass: float, stiffness: float) -> None:
    """Raise an error for contact so stiff that steps would add energy."""
    limit = STIFFEST / (dt**2 * inverse_mass)
    if stiffness > limit:
        raise SuppleError(
            f"a contact stiffness of {stiffness:g} N/m is too much for steps of {dt:g} s; use at "
            f"most {limit:.3g} N/m, smaller steps or a heavier ball"
        )


class HapticStep(NamedTuple):
    """Report of one step."""

    force: Floats
    """(3,) force on the hand, in N."""
    contact: Floats
    """(3,) force of the body on the ball, in N."""
    depth: float
    """Penetration depth of the ball, in m."""


class HapticRun(NamedTuple):
    """Record of many steps, one row each."""

    positions: Floats
    """(t, 3) positions of the ball's centre after the step, in m."""
    contacts: Floats
    """(t, 3) forces of the body on the ball, in N."""
    forces: Floats
    """(t, 3) forces on the hand, in N."""
    depths: Floats
    """(t,) penetration depths of the ball, in m."""


class HapticBall:
    """Ball that a hand moves by a spring, in contact with a body.

    Each step finds the contacts of the ball by a `SphereTree`, applies contact forces to both, and
    steps both. The spring between hand and ball keeps a haptic device stable (virtual coupling):
    the hand feels the spring, not the contact.

    Parameters
    ----------
    simulator
        Simulator of the body; the ball steps it, with its time step.
    radius, mass
        In m and kg.
    position
        Initial position of the ball's centre.
    stiffness
        Contact stiffness, in N/m.
    damping
        Contact damping, in s/m: relative increase of the force per m/s of closing speed.
    hand_stiffness, hand_damping
        Constants of the spring between hand and ball, in N/m and Ns/m.
    most_force
        Largest force on the hand and the ball, in N: the limit of the device's motors.
    gravity
        Gravity on the ball, in m/s².
    leaf
        Number of triangles in a leaf of the `SphereTree`.

    Raises
    ------
    SuppleError
        If a value is not a number, or contact is too stiff for the time step.

    Notes
    -----
    There is no friction. Triangles collide on both sides, and are pushed away from the ball's
    centre: a ball that is pressed in by more than its radius, or moves by as much in a step, passes
    to the other side. Forces up to half of stiffness times radius cannot cause this.

    Examples
    --------
    >>> import supple
    >>> from supple.scenes import beam
    >>> mesh, soft = beam(cells=(6, 2, 2)), supple.Material("stvk", young=1e5)
    >>> model = supple.StvkModel.build(mesh, soft, modes=6, fixed=mesh.vertices[:, 0] == 0)
    >>> low, high = mesh.bounds
    >>> above = [high[0] / 2, high[1] + 0.021, (low[2] + high[2]) / 2]
    >>> ball = HapticBall(StvkSimulator(model), radius=0.02, mass=0.04, position=above)
    >>> felt = ball.run(np.linspace(above, np.subtract(above, [0, 0.01, 0]), 300)).forces
    >>> bool(felt[-1, 1] > 0.5)  # the beam pushes up against the hand
    True
    """

    def __init__(
        self,
        simulator: StvkSimulator,
        *,
        radius: float,
        mass: float,
        position: ArrayLike,
        stiffness: float = 2000.0,
        damping: float = 1.0,
        hand_stiffness: float = 500.0,
        hand_damping: float = 5.0,
        most_force: float = 10.0,
        gravity: ArrayLike = (0.0, -9.81, 0.0),
        leaf: int = 4,
    ) -> None:
        if not isinstance(simulator, StvkSimulator):
            raise SuppleError(f"a HapticBall needs a StvkSimulator, not {shown(simulator)}")
        self.simulator = simulator
        named = {"mass": mass, "stiffness": stiffness, "damping": damping}
        named |= {"hand_stiffness": hand_stiffness, "hand_damping": hand_damping}
        amounts = [_checked_amount(name, value) for name, value in named.items()]
        most = _checked_amount("most_force", most_force)
        pull = checked_array("gravity", gravity, (3,))
        size = checked_radius(radius)
        self._settings = np.array([size, *amounts, most, simulator.dt, 0.0, *pull])
        self.tree = SphereTree(simulator.model, leaf=leaf)
        r, count = simulator.model.modes, len(self.tree.order)
        vertices = len(simulator.model.surface.vertices)
        self._work = (
            *(np.ones(1 + r), np.zeros(1 + r), np.empty(r), np.empty((r, r))),
            *(np.zeros(vertices, np.int64), np.empty((vertices, 3))),
            *(np.empty((count, 2)), np.zeros(SHARE_SCRATCH)),
        )
        self._forces, self._no_trace = np.empty((1, r)), np.empty((0, r))
        self._ball, self._single = np.empty((BALL_ROWS, 3)), np.empty((1, RECORD_COLUMNS))
        self._hand, self._no_hand = np.empty((1, 3)), np.empty((0, 3))
        body = simulator.arrays
        changed = body.state, self._ball, body.counts, body.watch.lasting, body.watch.progress
        self._begun = tuple(map(np.empty_like, changed))
        self._update_model_values()
        self.reset(position)

    def _update_model_values(self) -> None:
        """Update values that depend on the body's material and gravity."""
        model, weight = self.simulator.model, self.simulator.weight
        inverse_mass = _inverse_mass(self.simulator, self.mass)
        _check_stiffness(self.simulator.dt, inverse_mass, self.stiffness)
        self._settings[SLOWEST] = MOST_DAMPED / (self.stiffness * self.simulator.dt * inverse_mass)
        self._work[2][:], self._work[3][:] = weight, np.linalg.inv(model.mass)
        self._weight = weight  # last, so that an error repeats

    def reset(self, position: ArrayLike, velocity: ArrayLike = (0.0, 0.0, 0.0)) -> None:
        """Place the ball at `position` in m, released; `simulator.reset` resets the body."""
        at = _checked_places("the ball's position", position, (3,))
        moving = _checked_places("the ball's velocity", velocity, (3,))
        self._ball[:] = 0.0
        self._ball[PLACE], self._ball[SPEED], self._ball[HAND] = at, moving, np.nan

    @property
    def radius(self) -> float:
        """Radius of the ball, in m."""
        return float(self._settings[RADIUS])

    @property
    def mass(self) -> float:
        """Mass of the ball, in kg."""
        return float(self._settings[MASS])

    @property
    def stiffness(self) -> float:
        """Stiffness of contact, in N/m."""
        return float(self._settings[STIFFNESS])

    @property
    def position(self) -> Floats:
        """Position of the ball's centre, (3,): a copy."""
        return self._ball[PLACE].copy()

    @property
    def velocity(self) -> Floats:
        """Velocity of the ball, (3,): a copy."""
        return self._ball[SPEED].copy()

    def step(self, hand: ArrayLike | None = None) -> HapticStep:
        """Advance ball and body by one time step of the simulator.

        Parameters
        ----------
        hand
            Position of the hand, (3,) in m; None releases the ball.
        """
        hands = self._no_hand
        if hand is not None:
            hands = self._hand
            hands[0] = _checked_places("the hand", hand, (3,))
        self._advance(1, hands, self._single)
        return HapticStep(
            self._ball[FELT].copy(), self._ball[CONTACT].copy(), float(self._single[0, 9])
        )

    def run(self, hands: int | ArrayLike) -> HapticRun:
        """Make many steps in one compiled call.

        Parameters
        ----------
        hands
            (t, 3) positions of the hand at the end of each step; or a number of steps without a
            hand.

        Raises
        ------
        SuppleError
            If the simulation diverges; ball and body are then as before the first step.
        """
        if isinstance(hands, int | np.integer):
            count, path = checked_count("the number of steps", hands, 0), self._no_hand
        else:
            rows = numbers("hands", hands)
            if rows.ndim != 2 or rows.shape[1] != 3:
                raise SuppleError(f"hands of shape {rows.shape}; expected (steps, 3)")
            count, path = len(rows), _checked_places("hands", rows, rows.shape)
        check_trace(count, RECORD_COLUMNS)
        record = np.empty((count, RECORD_COLUMNS))
        if count:
            self._advance(count, path, record)
        places, contacts, felt, depths = np.split(record, [3, 6, 9], axis=1)
        return HapticRun(places.copy(), contacts.copy(), felt.copy(), depths[:, 0].copy())

    def energies(self) -> dict[str, float]:
        """Return energies of the ball's motion, its weight, contact and body, and their sum, in J.

        The energy of contact is exact for one contact, or several in orthogonal directions.
        """
        x, v = self._ball[PLACE], self._ball[SPEED]
        contacts = self.tree.touch(self.simulator.q, x, self.radius)
        count, pushed = len(contacts.distances), np.empty(3)
        places, pushes = np.zeros((count, PLACE_COLUMNS)), np.zeros((count, 2))
        places[:, DIRECTION] = contacts.directions
        pushes[:, REQUIRED] = self.radius - contacts.distances
        share_out(places, pushes, np.zeros(SHARE_SCRATCH), pushed)
        contact = 0.5 * self.stiffness * float(pushed @ pushed)
        parts = {
            "kinetic": 0.5 * self.mass * float(v @ v),
            "weight": -self.mass * float(self._settings[GRAVITY:] @ x),
            "contact": contact,
            "body": self.simulator.energies()["total"],
        }
        return parts | {"total": sum(parts.values())}

    def _advance(self, count: int, hands: Floats, record: Floats) -> None:
        """Make `count` steps, and write `record`; if one diverges, restore the state and raise."""
        body = self.simulator.arrays
        if self._weight is not self.simulator.weight:
            self._update_model_values()
        changed = body.state, self._ball, body.counts, body.watch.lasting, body.watch.progress
        for stored, now in zip(self._begun, changed, strict=True):
            np.copyto(stored, now)
        steps_made = haptic_steps(
            *(count, hands, record, self._ball, self._settings),
            *(self.tree.kernel_arguments, self.tree.scratch, self._work),
            *(self._forces, self._no_trace, self.simulator.bound),
        )
        if steps_made != count:
            for stored, now in zip(self._begun, changed, strict=True):
                np.copyto(now, stored)
            time = self.simulator.time + steps_made * self.simulator.dt
            raise SolverError(
                f"ball and body diverge at {time:.3f} s;"
                " use a smaller dt, softer contact or more damping"
            )
        self.simulator.count_steps(count)
