"""Stepper of one thread: places the rig, then calls the compiled stages in their order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from supple.arrays import Floats, Singles
from supple.compiled.tables import ArgumentTable
from supple.engines.common.contact.free_objects import FreeObjects
from supple.engines.common.simulator import Loads
from supple.engines.pose_space.contact.skin_contact import SkinContact, usual_stiffness
from supple.engines.pose_space.newton import DISPLACEMENT, RESET, TELEPORT
from supple.engines.pose_space.runtime import RuntimeModel
from supple.engines.pose_space.self_contact.self_contact import SelfContact
from supple.engines.pose_space.skin import (
    SKIN,
    SkinWork,
    add_skin_forces,
    carrier_frames,
    displace_skin,
)
from supple.engines.pose_space.state import BodyState
from supple.engines.pose_space.step import (
    BLEND,
    INERTIA,
    REMEMBER,
    SOLVE,
    StepArguments,
    StepSettings,
    StepTables,
    Workspace,
    take_steps,
)
from supple.engines.pose_space.step_options import StepOptions
from supple.errors import SuppleError
from supple.linalg.blas import addresses
from supple.mesh.obstacles import Obstacle

#: Largest number of solutions of a step after which contacts that pull are released.
MOST_RELEASES = 3


@dataclass
class Timing:
    """Durations of the parts of the last step, and of the last surface, in s."""

    core: float = 0.0
    dynamics: float = 0.0
    surface: float = 0.0


class Stepper:
    """Stepper of any state of a model; each thread has one, with a workspace.

    Threads share the tables `runtime`. `batch` is the largest number of states of `step_all`.
    """

    def __init__(
        self,
        runtime: RuntimeModel,
        options: StepOptions,
        obstacles: Iterable[Obstacle] = (),
        batch: int = 1,
        objects: FreeObjects | None = None,
    ) -> None:
        self._contact: SkinContact | None = None
        self._objects = FreeObjects() if objects is None else objects
        self._self_contact: SelfContact | None = None
        self.runtime = runtime
        self.workspace = work = Workspace(runtime, batch)
        self.timing = Timing()
        self._tables = StepTables.of(runtime)
        self.options = options
        self._skin = ArgumentTable(SkinWork(runtime.skin, runtime.frames, work.blend, work.skin))
        self._placement = runtime.placement.fork()
        self._blas = addresses()
        #: Whether the frames of the carriers are up to date with the blended pose.
        self._framed = False
        #: Row of the current state, for error messages.
        self.busy_with = 0
        #: State and number of the step at whose pose the tables are placed and blended.
        self._placed: tuple[BodyState | None, int] = (None, -1)
        self.obstacles = obstacles

    @property
    def options(self) -> StepOptions:
        """Options of the steps; they may change between steps."""
        return self._options

    @options.setter
    def options(self, options: StepOptions) -> None:
        self._options = options
        runtime, work = self.runtime, self.workspace
        settings = StepSettings.of(options, runtime.size, runtime.least_damping)
        arguments = StepArguments(work.targets, self._tables, settings, work.step)
        self._arguments = ArgumentTable(arguments)
        if self._contact is not None:
            self._contact.friction = options.friction
        if not options.self_contact:
            self._self_contact = None
            if self._contact is None:
                work.system.pressing[0] = 0
        elif self._self_contact is None:
            stiffness = options.obstacle_stiffness or usual_stiffness(runtime)
            self._self_contact = SelfContact(runtime, options, stiffness)

    @property
    def self_contacts(self) -> int:
        """Number of contacts of the skin with itself in the last step."""
        return 0 if self._self_contact is None else self._self_contact.count

    @property
    def obstacles(self) -> tuple[Obstacle, ...]:
        """Obstacles of the skin."""
        return () if self._contact is None else self._contact.obstacles

    @obstacles.setter
    def obstacles(self, obstacles: Iterable[Obstacle]) -> None:
        listed = tuple(obstacles)
        if not (listed or self._objects.objects):
            self._contact, self.workspace.system.pressing[0] = None, 0
        elif self._contact is None:
            self._contact = SkinContact(self.runtime, self.options, listed, self._objects)
        else:
            self._contact.set_obstacles(listed)

    @property
    def contact(self) -> SkinContact | None:
        """Contact of the skin; None without obstacles and objects."""
        return self._contact

    def forget_pose(self) -> None:
        """Discard placement and blend, so that the next surface computes them again."""
        self._placed = (None, -1)

    def begin(self, state: BodyState, pose: Floats, root: Floats, before: tuple | None) -> None:
        """Reset a state at a pose, at rest or with the velocity from an earlier pose and root."""
        self.forget_pose()
        now = self._rest_in_world(state, pose, root)
        earlier = now
        if before is not None:
            earlier = self._rest_in_world(state, *before)
            self._blend(state, pose, root)
        state.start(pose, root, now, earlier, self.options.dt)
        state.weights[:] = self.workspace.blend.weights
        self._placed = (state, 0)

    def _rest_in_world(self, state: BodyState, pose: Floats, root: Floats) -> Floats:
        """Return rest positions of the inertial vertices in the world, (c′, 3)."""
        self._blend(state, pose, root)
        points = self.workspace.targets.points[0, self.runtime.inertial.rows]
        return np.asarray(points @ root[:3, :3].T + root[:3, 3])

    def step(
        self, state: BodyState, pose: Floats, root: Floats, forces: Loads | None = None
    ) -> int:
        """Advance a state to a checked pose (s,) and root (4, 4); return limits as bit flags."""
        began = perf_counter()
        runtime, work, contact = self.runtime, self.workspace, self._contact
        self.forget_pose()
        self._blend(state, pose, root)
        ready = perf_counter()
        touching = self._self_contact
        if touching is not None and touching.detect(state, pose, work) == 0 and contact is None:
            touching, work.system.pressing[0] = None, 0
        if contact is None and forces is None and touching is None:
            state.contact.forget()
            self._take(INERTIA | SOLVE | REMEMBER, state)
        else:
            if contact is not None:
                self._frame_carriers()
                contact.detect(state.q, state.v, root, self._placement, work)
            self._take(INERTIA, state)
            if contact is None or state.limits & TELEPORT:
                state.contact.forget()
            if forces is not None:
                skin, weights, frames = runtime.skin, work.blend.weights, self._frame_carriers()
                add_skin_forces(skin, weights, frames, *forces, root, work.system.external)
            if contact is None:
                if touching is not None:
                    touching.press(work, True)
                self._take(SOLVE, state)
            else:
                self._solve_in_contact(state, contact, touching)
            if contact is not None:
                lost = bool(state.limits & (DISPLACEMENT | RESET))
                contact.remember(state.contact, state.q, work, lost)
            self._take(REMEMBER, state)
        self._placed = (state, state.steps)
        self.timing.core, self.timing.dynamics = ready - began, perf_counter() - ready
        return state.limits

    def _solve_in_contact(
        self, state: BodyState, contact: SkinContact, touching: SelfContact | None
    ) -> None:
        """Solve with contact forces, again without contacts that pull free objects."""
        if not contact.objects.any_free:
            self._press_and_solve(state, contact, touching)
            return
        external = self.workspace.system.external
        before, forces = state.solved_arrays(), external.copy()
        kept = [each.copy() for each in before]
        for _ in range(MOST_RELEASES):
            self._press_and_solve(state, contact, touching)
            if not contact.pulls(state.q, self.workspace):
                return
            for array, value in zip(before, kept, strict=True):
                array[:] = value
            external[:] = forces
        self._press_and_solve(state, contact, touching)
        contact.pulls(state.q, self.workspace)

    def _press_and_solve(
        self, state: BodyState, contact: SkinContact, touching: SelfContact | None
    ) -> None:
        contact.press(state.contact, self.workspace, self._blas)
        if touching is not None:
            touching.press(self.workspace, False)
        self._take(SOLVE, state)

    def step_all(self, states: list[BodyState], poses: list[Floats], roots: list[Floats]) -> None:
        """Advance states in consecutive rows, without contacts and forces.

        If a rig fails, a SuppleError is raised and all states are unchanged.
        """
        targets = self.workspace.targets
        self.forget_pose()
        for i, (state, pose, root) in enumerate(zip(states, poses, roots, strict=True)):
            state.contact.forget()
            self.busy_with = state.index
            targets.poses[i], targets.roots[i] = pose, root
            self._placement.place_tets(targets.poses[i], targets.points[i])
        self._framed = False
        self._take(BLEND | INERTIA | SOLVE | REMEMBER, states[0], len(states))
        if len(states) == 1:
            self._placed = (states[0], states[0].steps)

    def surface(self, state: BodyState, out: Singles) -> None:
        """Write the skin of a state in the world, (n̄, 3)."""
        began = perf_counter()
        if self._placed != (state, state.steps):
            self._blend(state, state.pose, state.root)
            self._placed = (state, state.steps)
        if self._contact is not None and self._contact.placed:
            out[:] = self._contact.rest
        else:
            self._placement.place_surface(out)
        self._displace(SKIN, state, out)
        self._framed = True
        self.timing.surface = perf_counter() - began

    def _displace(self, stages: int, state: BodyState, out: Singles) -> None:
        """Run stages of the displacement of a skin that the rig has placed."""
        runtime = self.runtime
        unframed = runtime.in_frames and not self._framed
        limit = 2 * self.options.longest_displacement(runtime.size) / runtime.spread
        displace_skin(stages, self._skin, unframed, runtime.unseen, limit, state.q, state.root, out)

    def _blend(self, state: BodyState, pose: Floats, root: Floats) -> None:
        """Place the cubature's vertices and blend tables at a pose; the state is not changed."""
        if self._contact is not None:
            self._contact.placed = False
        targets, self.busy_with = self.workspace.targets, state.index
        targets.poses[0], targets.roots[0] = pose, root
        self._placement.place_tets(targets.poses[0], targets.points[0])
        self._framed = False
        self._take(BLEND, state)

    def _take(self, stages: int, state: BodyState, count: int = 1) -> None:
        """Run the given stages of one step for `count` consecutive states, starting at `state`.

        Raise SuppleError if the rig's positions are not finite.
        """
        n_taken = take_steps(stages, state.index, count, self._arguments, state.bound)
        if n_taken != count:
            self.busy_with = state.index + n_taken
            raise SuppleError("the rig returned positions that are not finite at this pose")

    def _frame_carriers(self) -> Singles:
        """Return frames of the carriers at the blended pose, computed once."""
        runtime, skin = self.runtime, self.workspace.skin
        if runtime.in_frames and not self._framed:
            blend = self.workspace.blend
            carrier_frames(runtime.skin, runtime.frames, blend, skin.quaternions, skin.frames)
        self._framed = True
        return skin.frames
