"""A body that nothing holds: hands carry it about, and it flies on when they let go."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from supple.app.viewer.sessions.skin_springs import Patch, patch_around
from supple.app.viewer.sessions.stvk_session import StvkSession
from supple.arrays import Floats
from supple.engines.stvk.free.simulator import FreeStvkSimulator, free_moments
from supple.engines.stvk.model import StvkModel
from supple.errors import SuppleError

__all__ = ["FreePull", "FreeStvkSession", "body_session"]


#: How quickly a hand takes a whole body along: swings in a second, and its part of the critical
#: damping of them.
QUICKNESS, CALM = 1.5, 0.7
#: As for bodies that are held: the most of k dt²/m and of c dt/m.
STEADY = 0.25
#: A hand bends nothing by more than this part of the body's size, were it linear.
FARTHEST = 0.4
#: Sizes from home at which a body is fetched back.
GONE = 30.0


def body_session(model: StvkModel) -> StvkSession:
    """The session that suits a body, held or free."""
    try:
        free_moments(model)
    except SuppleError:
        return StvkSession(model)
    return FreeStvkSession(model)


@dataclass(frozen=True, eq=False)
class FreePull:
    """One hand; see `StvkPull`. Force is along the way to where it is, whichever that is.

    Attributes
    ----------
    rest, rows
        (3,), (3, r) where what is held is in the body's frame: rest + rows q.
    stiffness, friction, strongest
        In N/m, N·s/m and N.
    """

    patch: Patch
    target: Floats
    rest: Floats
    rows: Floats
    stiffness: float
    friction: float
    strongest: float

    def force(self, simulator: FreeStvkSimulator) -> Floats:
        """(3,) in the world, for the body as it is now."""
        root = simulator.root
        at = root[:3, :3] @ (self.rest + self.rows @ simulator.q) + root[:3, 3]
        moving = root[:3, :3] @ (self.rows @ simulator.velocity) + simulator.linear_velocity
        moving += np.cross(simulator.angular_velocity, at - simulator.centre)
        pull = self.stiffness * (self.target - at) - self.friction * moving
        size = float(np.linalg.norm(pull))
        return pull * (self.strongest / size) if size > self.strongest else pull

    def moved(self, target: Floats) -> FreePull:
        """The same hand elsewhere."""
        return replace(self, target=target)

    def on(self, model: StvkModel, dt: float) -> FreePull:
        """The same hand on the body changed."""
        return _fitted(model, self.patch, self.target, dt)


def _fitted(model: StvkModel, patch: Patch, target: Floats, dt: float) -> FreePull:
    moments, r = free_moments(model), model.modes
    rows = np.einsum("k,kir->ir", patch.shares, model.surface_basis[patch.vertices])
    rest = patch.shares @ model.surface.vertices[patch.vertices]
    gives = np.linalg.solve(model.stiffness(np.zeros(r)), rows.T)
    moves = model.surface_basis.reshape(-1, r) @ gives
    most = float(np.sqrt((moves**2).reshape(-1, 9).sum(axis=1).max()))
    # What a newton there speeds up: the shape, the whole, and its turning.
    arm = float(np.linalg.norm(rest - moments.centre))
    light = float(np.linalg.eigvalsh(rows @ np.linalg.solve(model.mass, rows.T))[-1])
    light += 1 / moments.mass + arm**2 / float(np.linalg.eigvalsh(moments.inertia_terms[0])[0])
    stiffness = min(moments.mass * (2 * np.pi * QUICKNESS) ** 2, STEADY / (light * dt**2))
    friction = 2 * CALM * float(np.sqrt(stiffness * moments.mass))
    return FreePull(
        patch,
        target,
        rest,
        rows,
        stiffness,
        min(friction, STEADY / (light * dt)),
        FARTHEST * model.surface.size / max(most, np.finfo(float).tiny),
    )


class FreeStvkSession(StvkSession):
    """A body that flies and turns as it deforms; one that is far away begins anew at home."""

    simulator: FreeStvkSimulator

    def _simulator(self, model: StvkModel) -> FreeStvkSimulator:
        return FreeStvkSimulator(model, self.step_dt, **self._step_options())

    def _pulled(self) -> dict[int, Floats]:
        total: dict[int, Floats] = {}
        for pull in self.hands.values():
            force = pull.force(self.simulator)
            for vertex, share in zip(pull.patch.vertices.tolist(), pull.patch.shares, strict=True):
                total[vertex] = total.get(vertex, 0.0) + share * force
        return total

    def _steps_at_once(self, count: int) -> None:
        super()._steps_at_once(count)
        low, high = self.built.surface.bounds
        away = np.abs(self.simulator.centre - (low + high) / 2).max()
        if away > GONE * self.built.surface.size:
            self._begin_anew("the body flew away, and begins anew")

    def _go_on(self, old: Any, q: Floats, velocity: Floats) -> None:
        # By a little it jumps where modes are left out: those have moved the mass centre.
        self.simulator.reset(q, velocity, old.root, old.linear_velocity, old.angular_velocity)

    def _grip(self, where: Floats) -> FreePull:
        size = self.built.surface.size
        return _fitted(self.model, patch_around(self.skin, where, size), where, self.step_dt)
