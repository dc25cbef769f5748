"""What steps states: the rig, the compiled parts of a step in their order, and their times."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from supple.dynamics.reduced_poke import add_skin_forces
from supple.dynamics.reduced_step import DISPLACEMENT, RESET, TELEPORT, carrier_frames
from supple.dynamics.runtime_model import RuntimeModel
from supple.dynamics.skin_contact import SkinContact, checked_obstacles
from supple.dynamics.state import State
from supple.dynamics.step_options import StepOptions
from supple.dynamics.whole_skin import SkinWork, flesh_out
from supple.dynamics.whole_step import (
    ADVANCE,
    INERTIA,
    PREPARE,
    REMEMBER,
    StepSettings,
    StepTables,
    StepWork,
    take_steps,
)
from supple.dynamics.workspace import Workspace
from supple.errors import SuppleError
from supple.linalg.bound import Bound
from supple.linalg.fortran import addresses
from supple.mesh.obstacles import Obstacle

__all__ = ["Stepper"]

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Ints = NDArray[np.int64]


@dataclass
class Timing:
    """Seconds that the parts of the last step took, and the last surface."""

    core: float = 0.0
    dynamics: float = 0.0
    surface: float = 0.0


class Stepper:
    """One thread's means to step any state of a model.

    Parameters
    ----------
    runtime
        The model's tables, shared.
    options
        How to step.
    obstacles
        What the skin is pushed out of.
    batch
        How many states `step_all` takes at most.
    """

    def __init__(
        self,
        runtime: RuntimeModel,
        options: StepOptions,
        obstacles: Iterable[Obstacle] = (),
        batch: int = 1,
    ) -> None:
        self.runtime, self.options = runtime, options
        self.room = Workspace(runtime, batch)
        self.timing = Timing()
        self._tables, self._given = Bound(StepTables.of(runtime)), Bound(self.room.given)
        self._work = Bound(StepWork.of(self.room))
        self._skin = Bound(SkinWork(runtime.skin, runtime.frames, self.room.blend, self.room.skin))
        self._placement = runtime.placement.fork()
        self._blas = addresses()
        self._framed = False
        #: Which of the states in their arrays was last begun with: if a rig fails, its.
        self.busy_with = 0
        #: The state and step whose pose the placement and the blend are at.
        self._placed: tuple[State | None, int] = (None, -1)
        self._contact: SkinContact | None = None
        self.obstacles = obstacles

    @property
    def options(self) -> StepOptions:
        """How to step; they may change between steps."""
        return self._options

    @options.setter
    def options(self, options: StepOptions) -> None:
        self._options, self._settings = options, StepSettings.of(options)

    @property
    def obstacles(self) -> tuple[Obstacle, ...]:
        """What the skin is pushed out of."""
        return () if self._contact is None else self._contact.obstacles

    @obstacles.setter
    def obstacles(self, obstacles: Iterable[Obstacle]) -> None:
        listed = checked_obstacles(obstacles)
        if not listed:
            self._contact, self.room.system.pressing[0] = None, 0
        elif self._contact is None:
            self._contact = SkinContact(self.runtime, self.options, listed)
        else:
            self._contact.put(listed)

    def begin(self, state: State, pose: Floats, root: Floats, before: tuple | None) -> None:
        """Put a state at a pose, at rest or moving as from an earlier one."""
        self._placed = (None, -1)
        now = self._in_world(state, pose, root)
        earlier = now
        if before is not None:
            earlier = self._in_world(state, *before)
            self._at(state, pose, root)
        state.start(pose, root, now, earlier)
        state.weights[:] = self.room.blend.weights
        self._placed = (state, 0)

    def _in_world(self, state: State, pose: Floats, root: Floats) -> Floats:
        """Where a pose has the inertial vertices, (c′, 3)."""
        self._at(state, pose, root)
        points = self.room.given.points[0, self.runtime.inertial.rows]
        return np.asarray(points @ root[:3, :3].T + root[:3, 3])

    def step(
        self,
        state: State,
        pose: Floats,
        root: Floats,
        forces: tuple[Ints, Floats] | None = None,
    ) -> int:
        """Advance a state to a pose, all of it checked before; which limits acted."""
        began = perf_counter()
        room, contact = self.room, self._contact
        self._placed = (None, -1)
        self._at(state, pose, root)
        ready = perf_counter()
        if contact is None and forces is None:
            state.contact.forget()
            self._take(INERTIA | ADVANCE | REMEMBER, state)
        else:
            if contact is not None:
                self._frame_carriers()
                contact.find(state.q, state.v, root, self._placement, room)
            self._take(INERTIA, state)
            if contact is None or state.flags & TELEPORT:
                state.contact.forget()
            if contact is not None:
                contact.press(state.contact, room, self._blas)
            if forces is not None:
                weights, frames = room.blend.weights, self._frame_carriers()
                add_skin_forces(
                    self.runtime.skin, weights, frames, *forces, root, room.system.external
                )
            self._take(ADVANCE, state)
            if contact is not None:
                lost = bool(state.flags & (DISPLACEMENT | RESET))
                contact.settle(state.contact, state.q, room, lost)
            self._take(REMEMBER, state)
        self._placed = (state, state.steps)
        self.timing.core, self.timing.dynamics = ready - began, perf_counter() - ready
        return state.flags

    def step_all(self, states: list[State], poses: list[Floats], roots: list[Floats]) -> None:
        """Advance states that are neighbours in their arrays; none of them is pushed.

        Raises
        ------
        SuppleError
            If a rig fails; all are then as they were.
        """
        given = self.room.given
        self._placed = (None, -1)
        for i, (state, pose, root) in enumerate(zip(states, poses, roots, strict=True)):
            state.contact.forget()
            self.busy_with = state.index
            given.poses[i], given.roots[i] = pose, root
            self._placement.place_tets(given.poses[i], given.points[i])
        self._framed = False
        self._take(PREPARE | INERTIA | ADVANCE | REMEMBER, states[0], len(states))
        if len(states) == 1:
            self._placed = (states[0], states[0].steps)

    def surface(self, state: State, out: Singles) -> None:
        """The skin of a state in the world, (n̄, 3)."""
        began = perf_counter()
        runtime = self.runtime
        if self._placed != (state, state.steps):
            self._at(state, state.pose, state.root)
            self._placed = (state, state.steps)
        if self._contact is not None and self._contact.placed:
            out[:] = self._contact.rest
        else:
            self._placement.place_surface(out)
        flesh_out(
            self._skin,
            runtime.in_frames and not self._framed,
            runtime.unseen,
            2 * self.options.longest / runtime.spread,
            state.q,
            state.root,
            out,
        )
        self._framed = True
        self.timing.surface = perf_counter() - began

    def _at(self, state: State, pose: Floats, root: Floats) -> None:
        """Place the cubature's vertices and blend bases at a pose."""
        if self._contact is not None:
            self._contact.placed = False
        given, self.busy_with = self.room.given, state.index
        given.poses[0], given.roots[0] = pose, root
        self._placement.place_tets(given.poses[0], given.points[0])
        self._framed = False
        self._take(PREPARE, state)

    def _take(self, stages: int, state: State, count: int = 1) -> None:
        taken = take_steps(
            stages,
            state.index,
            count,
            self._given,
            self._tables,
            self._settings,
            self._work,
            state.bound,
        )
        if taken != count:
            self.busy_with = state.index + taken
            raise SuppleError("the rig gave positions that are not finite at this pose")

    def _frame_carriers(self) -> Singles:
        """Frames of the vertices that carry the skin at the blended pose, found once."""
        runtime, skin = self.runtime, self.room.skin
        if runtime.in_frames and not self._framed:
            carrier_frames(runtime.skin, runtime.frames, self.room.blend, skin.turns, skin.frames)
        self._framed = True
        return skin.frames
