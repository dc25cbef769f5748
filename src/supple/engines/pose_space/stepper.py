"""What steps states: the rig, the compiled parts of a step in their order, and their times."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from time import perf_counter
from typing import NamedTuple

import numpy as np

from supple.arrays import Floats, Ints, Singles
from supple.compiled.argument_tables import ArgumentTable, table_contents
from supple.compiled.jit import compiled, compiled_fused
from supple.engines.pose_space.contact.skin_contact import SkinContact, checked_obstacles
from supple.engines.pose_space.followed_frames import FrameTables
from supple.engines.pose_space.reduced_step import DISPLACEMENT, RESET, TELEPORT, carrier_frames
from supple.engines.pose_space.runtime import RuntimeModel, SurfaceTables
from supple.engines.pose_space.skin import carry_skin, displace_carriers, pull_back, turn_carriers
from supple.engines.pose_space.state import State
from supple.engines.pose_space.step import (
    ADVANCE,
    INERTIA,
    PREPARE,
    REMEMBER,
    StepSettings,
    StepTables,
    StepWork,
    take_steps,
)
from supple.engines.pose_space.step_options import StepOptions
from supple.engines.pose_space.workspace import Blend, SkinRoom, Workspace
from supple.errors import SuppleError
from supple.linalg.blas import addresses
from supple.mesh.obstacles import Obstacle

__all__ = ["SkinWork", "Stepper", "add_skin_forces", "flesh_out"]


# ----------------------------------------------------------------------------
# The skin's flesh, from the blended pose to what is drawn, in one compiled call.


class SkinWork(NamedTuple):
    """A model's tables of the skin, and a thread's room to work in."""

    tables: SurfaceTables
    follow: FrameTables
    blend: Blend
    room: SkinRoom


@compiled_fused
def flesh_out(
    bound: ArgumentTable,
    unframed: bool,
    unseen: float,
    limit: float,
    q: Floats,
    root: Floats,
    skin: Singles,
) -> None:
    """Add displacements to `skin` (n̄, 3), as the rig placed it, and move it by the root.

    `bound` is of `SkinWork`. Frames of the carriers are found first where they are not yet
    (`unframed`); displacements below `unseen` are left out, and none of a carrier is longer than
    `limit`.
    """
    work: SkinWork = table_contents(bound)
    tables, blend, room = work.tables, work.blend, work.room
    for i in range(len(q)):
        room.z[i] = blend.stretch[i] * q[i]
    displace_carriers(
        tables, blend.weights, room.z, unseen, room.listed, room.factors, room.chunk, room.carriers
    )
    if unframed:
        carrier_frames(tables, work.follow, blend, room.turns, room.frames)
    turn_carriers(room.frames, limit, room.carriers)
    carry_skin(tables, room.carriers, root, skin)


# ----------------------------------------------------------------------------
# Forces on the skin, carried to the reduced coordinates: a poke.


@compiled
def add_skin_forces(
    tables: SurfaceTables,
    weights: Floats,
    frames: Singles,
    vertices: Ints,
    forces: Floats,
    root: Floats,
    out: Floats,
) -> None:
    """Add Ũᵀ Rᵀ Aᵀ f to `out`, forces (k, 3) on skin vertices (k,) being given in the world.

    `frames` are those of the carriers, (b, 9), or none in the world.
    """
    for k in range(len(vertices)):
        f, v = forces[k], vertices[k]
        p = root[0, 0] * f[0] + root[1, 0] * f[1] + root[2, 0] * f[2]
        q = root[0, 1] * f[0] + root[1, 1] * f[1] + root[2, 1] * f[2]
        r = root[0, 2] * f[0] + root[1, 2] * f[1] + root[2, 2] * f[2]
        for slot in range(4):
            carrier, share = tables.carriers[v, slot], tables.shares[v, slot]
            if share == 0:
                continue
            x, y, z = p, q, r
            if carrier < len(frames):
                t = frames[carrier]
                x = t[0] * p + t[3] * q + t[6] * r
                y = t[1] * p + t[4] * q + t[7] * r
                z = t[2] * p + t[5] * q + t[8] * r
            pull_back(tables, weights, carrier, share * x, share * y, share * z, out)


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
        self._tables, self._given = (
            ArgumentTable(StepTables.of(runtime)),
            ArgumentTable(self.room.given),
        )
        self._work = ArgumentTable(StepWork.of(self.room))
        self._skin = ArgumentTable(
            SkinWork(runtime.skin, runtime.frames, self.room.blend, self.room.skin)
        )
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
