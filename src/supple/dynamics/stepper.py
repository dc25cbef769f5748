"""What steps a state: the compiled parts of a step in their order, and how long each took."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from supple.dynamics.reduced_inertia import (
    JUMPED,
    LIMITED,
    all_finite,
    carry_momentum,
    inertial_force,
    swings,
)
from supple.dynamics.reduced_poke import add_skin_forces
from supple.dynamics.reduced_step import (
    ACCELERATION,
    BACKWARD_EULER,
    BDF2,
    DISPLACEMENT,
    NEWMARK,
    RESET,
    TELEPORT,
    advance,
    carrier_frames,
    prepare,
)
from supple.dynamics.reduced_surface import carry_skin, displace_carriers, turn_carriers
from supple.dynamics.runtime_model import RuntimeModel
from supple.dynamics.skin_contact import SkinContact, checked_obstacles
from supple.dynamics.state import State
from supple.dynamics.step_options import StepOptions
from supple.dynamics.workspace import Workspace
from supple.errors import SuppleError
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
    """

    def __init__(
        self, runtime: RuntimeModel, options: StepOptions, obstacles: Iterable[Obstacle] = ()
    ) -> None:
        self.runtime, self.options = runtime, options
        self.room = Workspace(runtime)
        self.timing = Timing()
        self._placement = runtime.placement.fork()
        self._blas = addresses()
        self._framed = False
        #: The state and step whose pose the placement and the blend are at.
        self._placed: tuple[State | None, int] = (None, -1)
        self._contact: SkinContact | None = None
        self.obstacles = obstacles

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
        room, rows = self.room, self.runtime.inertial.rows
        self._placed = (None, -1)
        self._place(pose)
        world = room.points[rows] @ root[:3, :3].T + root[:3, 3]
        earlier = world
        if before is not None:
            self._place(before[0])
            earlier = room.points[rows] @ before[1][:3, :3].T + before[1][:3, 3]
        self._place(pose)
        self._blend(pose)
        state.start(pose, root)
        state.before[:], state.earlier[:] = world, earlier
        state.weights[:] = room.blend.weights
        self._placed = (state, 0)

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
        self._place(pose)
        self._blend(pose)
        ready = perf_counter()
        if contact is not None:
            self._frame_carriers()
            contact.find(state.q, state.v, root, self._placement, room)
        flags = self._inertia(state, root)
        if contact is None or flags & TELEPORT:
            state.contact.forget()
        if contact is not None:
            contact.press(state.contact, room, self._blas)
        if forces is not None:
            skin, frames = self.runtime.skin, self._frame_carriers()
            add_skin_forces(skin, room.blend.weights, frames, *forces, root, room.system.external)
        state.q_frame[:] = state.q
        flags |= self._advance(state)
        if contact is not None:
            contact.settle(state.contact, state.q, room, bool(flags & (DISPLACEMENT | RESET)))
        self._remember(state, pose, root, flags)
        self._placed = (state, state.steps)
        self.timing.core, self.timing.dynamics = ready - began, perf_counter() - ready
        return flags

    def _advance(self, state: State) -> int:
        runtime, room, options = self.runtime, self.room, self.options
        # Other methods start from the state and acceleration of a step before.
        integrator = options.code if state.known else BACKWARD_EULER
        if integrator == NEWMARK and room.system.pressing[0] > 0:
            integrator = BDF2  # one that keeps energy would ring in stiff contacts
        h = options.dt / options.substeps
        return advance(
            runtime.elastic,
            runtime.kind,
            room.points,
            room.blend,
            room.system,
            room.room,
            (integrator, options.iterations, options.substeps),
            (h, options.alpha, options.beta, options.longest, options.stiffness),
            state.q,
            state.v,
            state.a,
            state.q_before,
            state.v_before,
        )

    def _remember(self, state: State, pose: Floats, root: Floats, flags: int) -> None:
        """What the next step wants to know of this one."""
        room = self.room
        state.earlier, state.before = state.before, state.earlier
        state.before[:] = room.now
        if flags & TELEPORT:
            state.earlier[:] = room.now
        state.pose[:], state.root[:] = pose, root
        state.weights[:] = room.blend.weights
        state.swing, state.swing_before = state.swing_before, state.swing
        self._swing(state.q, root, state.swing)
        broken = flags & (TELEPORT | DISPLACEMENT | RESET)
        state.seen = 0 if broken else min(state.seen + 1, 2)
        state.steps += 1
        state.known = 0 if flags & (DISPLACEMENT | RESET) else state.known + 1
        state.flags = flags

    def surface(self, state: State, out: Singles) -> None:
        """The skin of a state in the world, (n̄, 3)."""
        began = perf_counter()
        room, skin = self.room, self.runtime.skin
        if self._placed != (state, state.steps):
            self._place(state.pose)
            self._blend(state.pose)
            self._placed = (state, state.steps)
        blend, z = room.blend, room.system.z
        np.multiply(blend.stretch, state.q, out=z)
        displace_carriers(
            skin,
            blend.weights,
            z,
            self.runtime.unseen,
            room.listed,
            room.factors,
            room.chunk,
            room.carriers,
        )
        turn_carriers(
            self._frame_carriers(), 2 * self.options.longest / self.runtime.spread, room.carriers
        )
        if self._contact is not None and self._contact.placed:
            out[:] = self._contact.rest
        else:
            self._placement.place_surface(out)
        carry_skin(skin, room.carriers, state.root, out)
        self.timing.surface = perf_counter() - began

    def _place(self, pose: Floats) -> None:
        if self._contact is not None:
            self._contact.placed = False
        self._placement.place_tets(pose, self.room.points)
        if not all_finite(self.room.points):
            raise SuppleError("the rig gave positions that are not finite at this pose")

    def _blend(self, pose: Floats) -> None:
        runtime = self.runtime
        prepare(
            pose,
            runtime.poses,
            runtime.normalise,
            self.options.negligible,
            runtime.elastic,
            runtime.inertial,
            runtime.frames,
            self.room.points,
            self.room.blend,
        )
        self._framed = False

    def _frame_carriers(self) -> Singles:
        """Frames of the vertices that carry the skin at the blended pose, found once."""
        runtime, room = self.runtime, self.room
        if runtime.in_frames and not self._framed:
            carrier_frames(
                runtime.skin, runtime.frames, room.blend, room.carrier_turns, room.carrier_frames
            )
        self._framed = True
        return room.carrier_frames

    def _swing(self, q: Floats, root: Floats, out: Floats) -> None:
        runtime, room, blend = self.runtime, self.room, self.room.blend
        swings(
            runtime.inertial, blend.inertial, blend.frames, blend.stretch, root, q, room.local, out
        )

    def _transport(self, state: State, root: Floats) -> None:
        """What the changing basis does to flesh that moves on evenly, into `room.swing`."""
        room, options = self.room, self.options
        if not options.transport or state.seen < 2:
            room.swing[:] = 0
            return
        ahead = room.system.work
        np.multiply(state.q, 2.0, out=ahead)
        np.subtract(ahead, state.q_frame, out=ahead)
        self._swing(ahead, root, room.swing)
        carry_momentum(
            room.swing, state.swing, state.swing_before, options.dt, options.fastest, room.swing
        )

    def _inertia(self, state: State, root: Floats) -> int:
        runtime, room, options = self.runtime, self.room, self.options
        self._transport(state, root)
        verdict = inertial_force(
            runtime.inertial,
            room.blend.weights,
            room.blend.frames,
            room.points,
            root,
            state.before,
            state.earlier,
            state.held,
            state.knows,
            (options.dt, options.fastest, options.sculpted, options.ahead),
            options.acting_gravity,
            room.now,
            room.swing,
            room.felt,
            room.local,
            room.system.external,
        )
        state.knows = 0 if verdict == JUMPED else min(state.knows + 1, 2)
        if verdict == JUMPED:
            return TELEPORT
        return ACCELERATION if verdict == LIMITED else 0
