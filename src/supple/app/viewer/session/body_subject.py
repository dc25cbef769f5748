"""Elastic body of a session: it swings, or flies where nothing holds it."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.app.bodies.make_body import body_frequencies
from supple.app.viewer.session.hands import BasisGrip, FlightGrip, patch_around
from supple.app.viewer.session.subject import State, Subject, clamped
from supple.arrays import Floats, Singles
from supple.engines.engine import engine_named
from supple.engines.stvk.free.simulator import free_moments
from supple.engines.stvk.model import StvkModel
from supple.errors import SuppleError

#: Gravity by the direction that things fall in, in m/s².
GRAVITIES: dict[str, tuple[float, float, float]] = {
    "none": (0.0, 0.0, 0.0),
    "down (-y)": (0.0, -9.81, 0.0),
    "up (+y)": (0.0, 9.81, 0.0),
    "-x": (-9.81, 0.0, 0.0),
    "-z": (0.0, 0.0, -9.81),
}
#: Seconds between updates when the clock runs as it should, and steps in between.
FRAME, MOST_STEPS = 1 / 90, 11
#: Modes up to which so many steps fit; their cost grows with the fourth power.
QUICK_MODES = 32
#: Part of the critical damping that the slowest swing has at first, and at most.
DAMPING, MOST_DAMPING = 0.02, 2.0
#: Sizes of the body that a hand may be away from it.
FARTHEST_HAND = 100.0
#: Stiffness may be changed by so many doublings.
DOUBLINGS = 6.0
#: Part of what moves most: vertices that move less are held.
HELD = 1e-4
#: Sizes from home at which a body that flies is fetched back.
GONE = 30.0

WENT_TOO_FAR = "the body went beyond all numbers, and begins anew; pull less, or damp it more"
FLEW_AWAY = "the body flew away, and begins anew"


def body_engine(model: StvkModel) -> str:
    """Return the name of the engine that suits a body: held, or free."""
    try:
        free_moments(model)
    except SuppleError:
        return "stvk"
    return "stvk-free"


def steps_a_frame(modes: int) -> int:
    """Return the number of steps between two updates that a body of so many modes can make."""
    return max(1, min(MOST_STEPS, round(MOST_STEPS * (QUICK_MODES / modes) ** 4)))


class BodySubject(Subject):
    """Elastic body in a basis.

    Steps are the same whatever the clock's speed; a slower clock makes fewer of them between
    updates. A body that flies, and is far away, begins anew at home.

    Parameters
    ----------
    model
        As it was built.
    engine
        ``"stvk"`` or ``"stvk-free"``; by default the one that suits the model.

    Attributes
    ----------
    built, model
        The body as it was built, and as it is asked for.
    doublings
        Doublings of each group's stiffness.
    modes, damping, gravity
        Modes that move, part of the critical damping of the slowest swing, one of `GRAVITIES`.
    frequencies
        (r,) of small swings, in Hz.
    flies
        Whether nothing holds it.
    """

    slowest = 0.02
    full_colour = 0.2
    parts = frozenset({"materials", "damping", "gravity", "modes", "energies", "held"})

    def __init__(self, model: StvkModel, *, engine: str | None = None) -> None:
        self.built = model
        self._engine = engine_named(engine or body_engine(model), "body")
        self.state: State = "playing"
        self.hands: dict[Hashable, Any] = {}
        self._step_dt = FRAME / steps_a_frame(model.modes)
        self.doublings = np.zeros(len(model.groups))
        self.modes, self.damping, self.gravity = model.modes, DAMPING, "none"
        self.frequencies = body_frequencies(model)
        self.model, self.simulator = model, self._new_simulator(model)
        self.flies = hasattr(self.simulator, "root")
        self._grips: type[BasisGrip] | type[FlightGrip] = FlightGrip if self.flies else BasisGrip
        self._stale = False
        grey = " Grey is held." if self.held.any() else ""
        self.hint = f"Drag the body to pull it; let go to see it swing.{grey}"

    @property
    def time(self) -> float:
        """Seconds since it was let go."""
        return self.simulator.time

    @property
    def ground(self) -> tuple[float, float, float]:
        """Middle of the ground that it stands on."""
        low, high = self.built.surface.bounds
        middle = (low + high) / 2
        return float(middle[0]), float(low[1]), float(middle[2])

    @property
    def width(self) -> float:
        """Metres from its left to its right."""
        return float(np.ptp(self.built.surface.vertices[:, 0]))

    @property
    def held(self) -> NDArray[np.bool_]:
        """Triangles that cannot move, (f,) bool."""
        reach = np.sqrt((self.built.surface_basis**2).sum(axis=(1, 2)))
        return (reach <= HELD * reach.max())[self.built.surface.triangles].all(axis=1)

    def steps_at(self, speed: float) -> int:
        """Return the number of steps made at once: fewer for a slow clock, which stays smooth."""
        return max(1, round(FRAME * max(speed, 1e-3) / self._step_dt))

    def undeformed(self) -> Singles:
        """Return the surface at rest, (n̄, 3) float32."""
        return self.built.surface.vertices.astype(np.float32)

    # Steps -------------------------------------------------------------------------------

    def step(self, count: int) -> tuple[str, ...]:
        """Make steps; return the names of limits that acted."""
        simulator = self.simulator
        before = simulator.shifted_steps
        try:
            if self.hands:
                for _ in range(count):
                    simulator.step(self._grips.total(self.hands.values(), simulator))
            else:
                simulator.run(count)
        except SuppleError:
            raise SuppleError(WENT_TOO_FAR) from None
        if self.flies:
            self._check_flight()
        return () if simulator.shifted_steps == before else ("stiffness",)

    def _check_flight(self) -> None:
        low, high = self.built.surface.bounds
        away = np.abs(self.simulator.centre - (low + high) / 2).max()
        if away > GONE * self.built.surface.size:
            raise SuppleError(FLEW_AWAY)

    def begin_anew(self) -> None:
        """Let all hands go, and be at rest."""
        self.hands.clear()
        self.simulator.reset()

    def play(self) -> None:
        """Let time run."""
        self.state = "playing"

    def wake(self) -> None:
        """Let time run: who pulls wants to see something move."""
        self.state = "playing"

    def grip(self, skin: Singles, where: Floats) -> BasisGrip | FlightGrip:
        """Return a hold of the surface (n̄, 3) nearest to a point (3,)."""
        patch = patch_around(skin, where, self.built.surface.size)
        return self._grips.fit(self.model, patch, where, self._step_dt)

    def reachable(self, where: Floats) -> Floats:
        """Return the place, or one on the way to it: numbers of pages may be beyond all sums."""
        low, high = self.built.surface.bounds
        around = FARTHEST_HAND * self.built.surface.size
        return np.clip(where, low - around, high + around)

    # What may be changed, before the next step -------------------------------------------

    def stiffen(self, group: int, doublings: float) -> None:
        """Double the stiffness of a group so many times, from what was built."""
        self.doublings[group] = clamped(doublings, -DOUBLINGS, DOUBLINGS)
        self._stale = True

    def damp(self, ratio: float) -> None:
        """Damp the slowest swing by this part of the critical damping."""
        self.damping, self._stale = clamped(ratio, 0.0, MOST_DAMPING), True

    def fall(self, direction: str) -> None:
        """Choose one of `GRAVITIES`."""
        if direction not in GRAVITIES:
            raise SuppleError(f"things fall in one of {', '.join(GRAVITIES)}")
        self.gravity, self._stale = direction, True

    def truncate(self, modes: float) -> None:
        """Move in the first modes only."""
        self.modes, self._stale = int(clamped(modes, 1, self.built.modes)), True

    def renew(self) -> None:
        """Have a simulator of the body as it is asked for, moving as it moves now."""
        if not self._stale:
            return
        self._stale = False
        try:
            self._renew()
        except SuppleError:  # it moved as no body of that kind can
            raise SuppleError(WENT_TOO_FAR) from None

    def _renew(self) -> None:
        model = self.built
        if self.modes < model.modes:
            model = model.truncate(self.modes)
        for group, doublings in enumerate(self.doublings.tolist()):
            if doublings:
                young = float(self.built.groups.young[group]) * 2.0**doublings
                model = model.with_material(group, young=young)
        old, kept = self.simulator, min(model.modes, self.model.modes)
        q, velocity = np.zeros(model.modes), np.zeros(model.modes)
        q[:kept], velocity[:kept] = old.q[:kept], old.velocity[:kept]
        self.frequencies = body_frequencies(model)
        self.model, self.simulator = model, self._new_simulator(model)
        # By a little it jumps where modes are left out: those have moved the mass centre.
        flight = (old.root, old.linear_velocity, old.angular_velocity) if self.flies else ()
        self.simulator.reset(q, velocity, *flight)
        for hand, grip in self.hands.items():
            self.hands[hand] = self._grips.fit(model, grip.patch, grip.target, self._step_dt)

    def _new_simulator(self, model: StvkModel) -> Any:
        # D = ζω₁M + (ζ/ω₁)K: of the critical damping, ζ at ω₁ and more above it.
        slowest = 2 * np.pi * max(float(self.frequencies[0]), 1e-6)
        damping = {"alpha": self.damping * slowest, "beta": self.damping / slowest}
        gravity = GRAVITIES[self.gravity]
        return self._engine.simulate(model, self._step_dt, **damping, gravity=gravity)
