"""The one simulation of an elastic body that all pages show."""

from __future__ import annotations

import time
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from supple.app.bodies.make_body import body_frequencies
from supple.app.viewer.meter import Meter
from supple.app.viewer.requests import BodyRequests, clamped
from supple.app.viewer.sessions.skin_springs import Patch, patch_around
from supple.arrays import Floats, Singles
from supple.engines.stvk.model import StvkModel
from supple.engines.stvk.simulator import StvkSimulator
from supple.errors import SuppleError

__all__ = ["GRAVITIES", "StvkPull", "StvkSession", "grip"]


# ----------------------------------------------------------------------------
# Hands that pull at a body in its basis: as strong as the body is stiff there, and no stronger.


#: Stiffness of a hand, in times that of the body where it holds: it follows nine tenths of a way.
STRENGTH = 10.0


#: Along what is stiffer it is stiffer, but no more than so many times: a tip that is pulled aside
#: goes in an arc, and would be torn lengthwise.
LOPSIDED = 10.0


#: The hand's force is that of a step ago: the most of k dt²/m, where m is what it moves.
STEADY = 0.25


#: A hand's own damping, of the critical one of what it moves.
CALM = 0.25


#: A force is at most what would move something by this part of the body's size, were it linear.
FARTHEST = 0.4


#: Where it holds what gives way by less than this part of what moves most, it is weaker.
STIFF = 0.1


@dataclass(frozen=True, eq=False)
class StvkPull:
    """One hand.

    Attributes
    ----------
    patch
        What it holds.
    target
        (3,) where it is, in m.
    rest, rows
        (3,), (3, r) where what is held is, along each of the directions in which the body is
        softest and stiffest there: rest + rows q.
    axes
        (3, 3) those directions, as columns.
    stiffness, friction, strongest
        (3,) along each, in N/m, N·s/m and N.
    """

    patch: Patch
    target: Floats
    rest: Floats
    rows: Floats
    axes: Floats
    stiffness: Floats
    friction: Floats
    strongest: Floats

    def force(self, q: Floats, velocity: Floats) -> Floats:
        """(r,) for the body as it is now."""
        way = self.target @ self.axes - self.rest - self.rows @ q
        pull = self.stiffness * way - self.friction * (self.rows @ velocity)
        np.minimum(pull, self.strongest, out=pull)
        np.maximum(pull, -self.strongest, out=pull)
        return np.asarray(pull @ self.rows)

    def place(self, q: Floats) -> Floats:
        """(3,) the middle of what is held, in m."""
        return np.asarray(self.axes @ (self.rest + self.rows @ q))

    def moved(self, target: Floats) -> StvkPull:
        """The same hand elsewhere."""
        return replace(self, target=target)

    def on(self, model: StvkModel, dt: float) -> StvkPull:
        """The same hand on the body changed."""
        return _fitted(model, self.patch, self.target, dt)


def grip(model: StvkModel, skin: Singles, where: Floats, dt: float) -> StvkPull:
    """Take hold of a body near a point.

    Parameters
    ----------
    model
        The body.
    skin
        (n̄, 3) where it is.
    where
        (3,) the point, and where the hand is for now.
    dt
        Seconds of a step.
    """
    return _fitted(model, patch_around(skin, where, model.surface.size), where, dt)


def _fitted(model: StvkModel, patch: Patch, target: Floats, dt: float) -> StvkPull:
    along = np.einsum("k,kir->ir", patch.shares, model.surface_basis[patch.vertices])
    rest = patch.shares @ model.surface.vertices[patch.vertices]
    stiffness = model.stiffness(np.zeros(model.modes))
    gives, axes = np.linalg.eigh(along @ np.linalg.solve(stiffness, along.T))
    rows = axes.T @ along
    # What a newton along each axis moves by most, wherever that is.
    moves = model.surface_basis.reshape(-1, model.modes) @ np.linalg.solve(stiffness, rows.T)
    most = np.sqrt((moves.reshape(-1, 3, 3) ** 2).sum(axis=1).max(axis=0))
    light = float(np.linalg.eigvalsh(rows @ np.linalg.solve(model.mass, rows.T))[-1])
    if not (gives[-1] > 0 and light > 0):  # held fast: there is nothing to pull at
        none = np.zeros(3)
        return StvkPull(patch, target, axes.T @ rest, rows, axes, none, none, none)
    gives, most = (np.maximum(each, 1e-9 * each.max()) for each in (gives, most))
    firm = STRENGTH / np.maximum(gives, gives[-1] / LOPSIDED)
    firm = np.minimum(firm, STEADY / (light * dt**2))
    # A force of a step ago feeds a swing as much as stiffness times dt would damp it.
    friction = firm * dt + 2 * CALM * np.sqrt(firm / light)
    strongest = FARTHEST * model.surface.size / most * np.minimum(1.0, gives / (STIFF * most))
    return StvkPull(patch, target, axes.T @ rest, rows, axes, firm, friction, strongest)


State = Literal["playing", "paused"]


#: Directions that things may fall in, in m/s².
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


_WENT_TOO_FAR = "the body went beyond all numbers, and begins anew; pull less, or damp it more"


class StvkSession(BodyRequests):
    """A body that swings, and is pulled at.

    Everything that changes it is asked for, as of a character's `Session`. Steps are the same
    whatever the clock's speed; a slower clock makes fewer of them between updates.

    Parameters
    ----------
    model
        The body as it was built.

    Attributes
    ----------
    state
        ``"playing"`` or ``"paused"``: time stands still.
    built, model
        The body as it was built, and as it is asked for.
    limits
        What acted in the last steps.
    skin
        (n̄, 3) as of the last `refresh`.
    hands
        Who pulls.
    """

    def __init__(self, model: StvkModel) -> None:
        super().__init__()
        self.built = model
        self.meter = Meter()
        self.state: State = "playing"
        self.limits: tuple[str, ...] = ()
        self.hands: dict[Hashable, Any] = {}
        self.step_dt = FRAME / _steps_a_frame(model.modes)
        self.doublings = np.zeros(len(model.groups))
        """Doublings of each group's stiffness."""
        self.modes, self.damping, self.gravity = model.modes, DAMPING, "none"
        self.frequencies = body_frequencies(model)
        self.model, self.simulator = model, self._simulator(model)
        """The simulator of the body: one for what is held here, another for what flies."""
        self._stale = False
        self.skin = np.empty((len(model.surface.vertices), 3), np.float32)
        self.refresh()

    # What they see -----------------------------------------------------------------------

    @property
    def steps(self) -> int:
        """That are made at once: fewer for a slow clock, so that slow motion is smooth."""
        return max(1, round(FRAME * max(self.speed, 1e-3) / self.step_dt))

    @property
    def dt(self) -> float:
        """Seconds of so many steps."""
        return self.steps * self.step_dt

    @property
    def time(self) -> float:
        """Seconds since it was let go."""
        return self.simulator.time

    def refresh(self) -> None:
        """Bring `skin` up to date."""
        begun, processor = time.perf_counter(), time.thread_time()
        self.simulator.surface(self.skin)
        self.meter.skinned(time.perf_counter() - begun, time.thread_time() - processor)
        self.changed = False

    # What happens ------------------------------------------------------------------------

    def advance(self, times: int = 1, /) -> None:
        """Make `steps` steps so often, unless paused; what was asked for goes first."""
        self.settle_requests()
        try:
            if self._stale:
                self._renew()
        except SuppleError:  # it moved as no body of that kind can
            self._begin_anew(_WENT_TOO_FAR)
        for _ in range(times):
            if self.state == "paused":
                return
            self._steps_at_once(self.steps)

    def _steps_at_once(self, count: int) -> None:
        begun, processor = time.perf_counter(), time.thread_time()
        before = self.simulator.shifted_steps
        try:
            if self.hands:
                for _ in range(count):
                    self.simulator.step(self._pulled())
            else:
                self.simulator.run(count)
        except SuppleError:
            self._begin_anew(_WENT_TOO_FAR)
            return
        self.limits = () if self.simulator.shifted_steps == before else ("stiffness",)
        self.changed = True
        self.meter.stepped(time.perf_counter() - begun, time.thread_time() - processor, count)

    def _pulled(self) -> Any:
        """Forces of all hands, as the simulator takes them."""
        q, velocity = self.simulator.q, self.simulator.velocity
        return np.sum([pull.force(q, velocity) for pull in self.hands.values()], axis=0)

    # What may be asked for ---------------------------------------------------------------

    def reset(self) -> None:
        """Have it at rest, and held by no hand."""
        self.ask(lambda: self._begin_anew())

    def stiffen(self, group: int, doublings: float) -> None:
        """Double the stiffness of a group so many times, from what was built; to be asked for."""
        self.doublings[group] = clamped(doublings, -DOUBLINGS, DOUBLINGS)
        self._stale = True

    def damp(self, ratio: float) -> None:
        """Damp the slowest swing by this part of the critical damping; to be asked for."""
        self.damping, self._stale = clamped(ratio, 0.0, MOST_DAMPING), True

    def fall(self, direction: str) -> None:
        """Choose one of `GRAVITIES`; to be asked for."""
        if direction not in GRAVITIES:
            raise SuppleError(f"things fall in one of {', '.join(GRAVITIES)}")
        self.gravity, self._stale = direction, True

    def truncate(self, modes: float) -> None:
        """Move in the first modes only; to be asked for."""
        self.modes, self._stale = int(clamped(modes, 1, self.built.modes)), True

    def _renew(self) -> None:
        """A simulator of the body as it is asked for, moving as it moves now."""
        self._stale = False
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
        self.model, self.simulator = model, self._simulator(model)
        self._go_on(old, q, velocity)
        self.hands = {hand: pull.on(model, self.step_dt) for hand, pull in self.hands.items()}

    def _go_on(self, old: Any, q: Floats, velocity: Floats) -> None:
        """Have the new simulator move as the old one did."""
        self.simulator.reset(q, velocity)

    def _simulator(self, model: StvkModel) -> Any:
        return StvkSimulator(model, self.step_dt, **self._step_options())

    def _step_options(self) -> dict[str, Any]:
        # D = ζω₁M + (ζ/ω₁)K: of the critical damping, ζ at ω₁ and more above it.
        slowest = 2 * np.pi * max(float(self.frequencies[0]), 1e-6)
        damping = {"alpha": self.damping * slowest, "beta": self.damping / slowest}
        return damping | {"gravity": GRAVITIES[self.gravity]}

    def _begin_anew(self, why: str = "") -> None:
        """At rest; pages are told why, if there is a reason."""
        self.hands.clear()
        self.simulator.reset()
        self.changed = True
        if why:

            def tell() -> None:
                raise SuppleError(why)

            self.ask(tell)

    def _play(self) -> None:
        self.state = "playing"

    def _pause(self) -> None:
        self.state = "paused"

    def _take(self, hand: Hashable, where: Floats) -> None:
        self.state = "playing"  # who pulls wants to see something move
        self.simulator.surface(self.skin)
        self.hands[hand] = self._grip(self._near(where))

    def _grip(self, where: Floats) -> Any:
        return grip(self.model, self.skin, where, self.step_dt)

    def _pull(self, hand: Hashable, where: Floats) -> None:
        if hand in self.hands:
            self.hands[hand] = self.hands[hand].moved(self._near(where))

    def _near(self, where: Floats) -> Floats:
        """The place, or one on the way to it: numbers of pages may be beyond all sums."""
        low, high = self.built.surface.bounds
        around = FARTHEST_HAND * self.built.surface.size
        return np.clip(where, low - around, high + around)

    def _release(self, hand: Hashable) -> None:
        self.hands.pop(hand, None)


def _steps_a_frame(modes: int) -> int:
    return max(1, min(MOST_STEPS, round(MOST_STEPS * (QUICK_MODES / modes) ** 4)))
