"""Elastic body of a session, fixed or free."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.app.bodies.make_body import body_frequencies
from supple.app.viewer.session.body_sketch import BodySketch
from supple.app.viewer.session.grips import BasisGrip, FlightGrip, patch_around
from supple.app.viewer.session.session import Actor, State, clamped
from supple.arrays import Floats, Singles
from supple.engines.engine import engine_named
from supple.engines.stvk.free.simulator import free_moments
from supple.engines.stvk.model import StvkModel
from supple.engines.stvk.simulator import CHECKED, spurious_words
from supple.errors import SuppleError

#: Gravity by direction, in m/s².
GRAVITIES: dict[str, tuple[float, float, float]] = {
    "none": (0.0, 0.0, 0.0),
    "down (-y)": (0.0, -9.81, 0.0),
    "up (+y)": (0.0, 9.81, 0.0),
    "-x": (-9.81, 0.0, 0.0),
    "-z": (0.0, 0.0, -9.81),
}
#: Seconds between updates at normal speed, and most steps in between.
FRAME, MOST_STEPS = 1 / 90, 11
#: Most modes that allow the largest number of steps; the cost grows with their fourth power.
QUICK_MODES = 32
#: Default and largest damping ratio of the lowest mode.
DAMPING, MOST_DAMPING = 0.02, 2.0
#: Largest distance of a hand, relative to the body's size.
FARTHEST_HAND = 100.0
#: Most doublings or halvings of the stiffness.
DOUBLINGS = 6.0
#: Vertices that move less than this, relative to the largest motion, count as held.
HELD = 1e-4
#: Distance at which a free body restarts, relative to its size.
GONE = 30.0

DIVERGED = "the simulation diverged and restarts; pull less, or use more damping"
FLEW_AWAY = "the body flew out of sight and restarts"


def body_engine(model: StvkModel) -> str:
    """Return the name of the engine for a fixed or a free body."""
    try:
        free_moments(model)
    except SuppleError:
        return "stvk"
    return "stvk-free"


def steps_a_frame(modes: int) -> int:
    """Return the number of steps per update for a number of modes."""
    return max(1, min(MOST_STEPS, round(MOST_STEPS * (QUICK_MODES / modes) ** 4)))


class BodyActor(Actor):
    """Elastic body in a reduced basis.

    The time step does not depend on the clock's speed; a slower clock makes fewer steps per
    update. A free body that is too far away restarts. `built` is the original model, `model` the
    one with the current settings. A held body whose mesh is known has a `sketch`.
    """

    slowest = 0.02
    full_colour = 0.2
    parts: frozenset[str] = frozenset(
        {"materials", "damping", "gravity", "modes", "energies", "held"}
    )

    def __init__(self, model: StvkModel, sketch: BodySketch | None = None) -> None:
        self.built = model
        self._engine = engine_named(body_engine(model), "body")
        self.state: State = "playing"
        self.hands: dict[Hashable, Any] = {}
        self._step_dt = FRAME / steps_a_frame(model.modes)
        self.doublings = np.zeros(len(model.groups))  # of each group's stiffness
        self.modes, self.damping, self.gravity = model.modes, DAMPING, "none"
        self.frequencies = body_frequencies(model)  # (r,) in Hz
        self.model, self.simulator = model, self._new_simulator(model)
        self.flies = hasattr(self.simulator, "root")  # it is free
        self._grips: type[BasisGrip] | type[FlightGrip] = FlightGrip if self.flies else BasisGrip
        self._stale, self._unchecked, self._from_rest = False, 0.0, False
        self.sketch, self.sketching = None if self.flies else sketch, False
        if self.sketch is not None:
            self.parts = self.parts | {"sketch"}
        grey = " Grey parts are fixed." if self.held.any() else ""
        self.hint = f"Drag the body to pull it; release it to see it swing.{grey}"

    @property
    def time(self) -> float:
        """Time since the start, in s."""
        return self.simulator.time

    @property
    def ground(self) -> tuple[float, float, float]:
        """Centre of the ground."""
        low, high = self.built.surface.bounds
        middle = (low + high) / 2
        return float(middle[0]), float(low[1]), float(middle[2])

    @property
    def width(self) -> float:
        """Extent along x, in m."""
        return float(np.ptp(self.built.surface.vertices[:, 0]))

    @property
    def held(self) -> NDArray[np.bool_]:
        """Triangles that cannot move, (f,) bool."""
        reach = np.sqrt((self.built.surface_basis**2).sum(axis=(1, 2)))
        return (reach <= HELD * reach.max())[self.built.surface.triangles].all(axis=1)

    def steps_at(self, speed: float) -> int:
        """Return the number of steps per update, fewer for a slow clock so that it stays smooth."""
        return max(1, round(FRAME * max(speed, 1e-3) / self._step_dt))

    def undeformed(self) -> Singles:
        """Return the surface at rest, (n̄, 3) float32."""
        return self.built.surface.vertices.astype(np.float32)

    # Steps -------------------------------------------------------------------------------

    def step(self, count: int) -> tuple[str, ...]:
        """Make `count` steps; return the names of limits that acted."""
        simulator = self.simulator
        if self.sketching and self.sketch is not None:
            simulator.reset(self.sketch.shape(self.model, self.hands.values()))
            return ()
        before = simulator.shifted_steps
        try:
            if self.hands:
                for _ in range(count):
                    simulator.step(self._grips.total(self.hands.values(), simulator))
            else:
                simulator.run(count)
        except SuppleError:
            raise SuppleError(DIVERGED) from None
        if self.flies:
            self._check_flight()
        elif not self.hands:
            self._check_rest(count)
        return () if simulator.shifted_steps == before else ("stiffness",)

    def _check_rest(self, count: int) -> None:
        """Raise an error, so that the body restarts, if it rests in a spurious equilibrium."""
        self._unchecked += count * self._step_dt
        if self._unchecked < CHECKED:
            return
        self._unchecked = 0.0
        if far := self.simulator.spurious_distance():
            raise SuppleError(f"{spurious_words(far)}; it restarts")

    def _check_flight(self) -> None:
        low, high = self.built.surface.bounds
        distance = np.abs(self.simulator.centre - (low + high) / 2).max()
        if distance > GONE * self.built.surface.size:
            raise SuppleError(FLEW_AWAY)

    def restart(self) -> None:
        """Release all grips and return to rest."""
        self.hands.clear()
        self.simulator.reset()

    def play(self) -> None:
        """Continue the simulation."""
        self.state = "playing"

    def wake(self) -> None:
        """Continue the simulation, so that a pull becomes visible."""
        self.state = "playing"

    def grip(self, skin: Singles, where: Floats) -> BasisGrip | FlightGrip:
        """Return a grip of the surface (n̄, 3) nearest to a point (3,)."""
        patch = patch_around(skin, where, self.built.surface.size)
        return self._grips.fit(self.model, patch, where, self._step_dt)

    def reachable(self, where: Floats) -> Floats:
        """Return the point clamped to a box around the body; pages may send huge numbers."""
        low, high = self.built.surface.bounds
        margin = FARTHEST_HAND * self.built.surface.size
        return np.clip(where, low - margin, high + margin)

    def start_sketch(self, on: bool = True) -> None:
        """Show the linear model and record pulls on it; or continue the simulation, from rest."""
        self.sketching = on
        self.restart()
        self.state = "playing"

    def replace_body(self, model: StvkModel) -> None:
        """Continue from rest with a body in another basis of as many modes."""
        self.hands.clear()
        self.built, self.sketching, self._stale = model, False, True
        self._from_rest = True
        if self.sketch is not None:
            self.sketch.built = model

    # Settings, applied before the next step ----------------------------------------------

    def stiffen(self, group: int, doublings: float) -> None:
        """Set the stiffness of a group to 2^doublings times the original."""
        self.doublings[group] = clamped(doublings, -DOUBLINGS, DOUBLINGS)
        self._stale = True

    def damp(self, ratio: float) -> None:
        """Set the damping ratio of the lowest mode."""
        self.damping, self._stale = clamped(ratio, 0.0, MOST_DAMPING), True

    def set_gravity(self, direction: str) -> None:
        """Set gravity to one of `GRAVITIES`."""
        if direction not in GRAVITIES:
            raise SuppleError(f"no gravity {direction!r}; use one of {', '.join(GRAVITIES)}")
        self.gravity, self._stale = direction, True

    def truncate(self, modes: float) -> None:
        """Use only the first modes."""
        self.modes, self._stale = int(clamped(modes, 1, self.built.modes)), True

    def renew(self) -> None:
        """Replace the simulator by one with the current settings, in the same state."""
        if not self._stale:
            return
        self._stale = False
        try:
            self._renew()
        except SuppleError:  # the new body cannot have this state
            raise SuppleError(DIVERGED) from None

    def _renew(self) -> None:
        model = self.built
        if self.modes < model.modes:
            model = model.truncate(self.modes)
        for group, doublings in enumerate(self.doublings.tolist()):
            if doublings:
                young = float(self.built.groups.young[group]) * 2.0**doublings
                model = model.with_material(group, young=young)
        old, shared = self.simulator, min(model.modes, self.model.modes)
        q, velocity = np.zeros(model.modes), np.zeros(model.modes)
        shared, self._from_rest = 0 if self._from_rest else shared, False
        q[:shared], velocity[:shared] = old.q[:shared], old.velocity[:shared]
        self.frequencies = body_frequencies(model)
        self.model, self.simulator = model, self._new_simulator(model)
        # Dropped modes may have moved the centre of mass: the body then jumps slightly.
        flight = (old.root, old.linear_velocity, old.angular_velocity) if self.flies else ()
        self.simulator.reset(q, velocity, *flight)
        for hand, grip in self.hands.items():
            self.hands[hand] = self._grips.fit(model, grip.patch, grip.target, self._step_dt)

    def _new_simulator(self, model: StvkModel) -> Any:
        # D = ζω₁M + (ζ/ω₁)K: damping ratio ζ at ω₁, larger at other frequencies.
        slowest = 2 * np.pi * max(float(self.frequencies[0]), 1e-6)
        damping = {"alpha": self.damping * slowest, "beta": self.damping / slowest}
        gravity = GRAVITIES[self.gravity]
        return self._engine.simulate(model, self._step_dt, **damping, gravity=gravity)
