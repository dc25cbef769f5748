"""A step from the rig's positions to the next state, in one compiled call for one body or several.

Each call from Python costs some microseconds and, where threads step a crowd, a wait for Python's
lock, so that all parts are reached by one entry: `stages` says which of them a call takes.
"""

from __future__ import annotations

from typing import NamedTuple

from supple.arrays import Floats, Singles
from supple.compiled.bound_tables import Bound, opened
from supple.compiled.jit import compiled_fused
from supple.dynamics.integrators import BACKWARD_EULER, BDF2, NEWMARK
from supple.engines.pose_space.followed_frames import FrameTables
from supple.engines.pose_space.inertia import (
    JUMPED,
    LIMITED,
    all_finite,
    carry_momentum,
    inertial_force,
    swings,
)
from supple.engines.pose_space.reduced_step import (
    ACCELERATION,
    DISPLACEMENT,
    RESET,
    TELEPORT,
    advance,
    prepare,
)
from supple.engines.pose_space.runtime import (
    ElasticTables,
    InertialTables,
    PoseTables,
    RuntimeModel,
)
from supple.engines.pose_space.state import FLAGS, KNOWN, KNOWS, SEEN, STEPS, StateArrays
from supple.engines.pose_space.step_options import StepOptions
from supple.engines.pose_space.workspace import Blend, Given, Inertia, Room, System, Workspace

__all__ = [
    "ADVANCE",
    "INERTIA",
    "PREPARE",
    "REMEMBER",
    "StepSettings",
    "StepTables",
    "StepWork",
    "take_steps",
]


#: Stages of a step, in their order: all that depends on the pose alone, forces of the moving rest
#: shape, elastic forces and the solution, and what the next step wants to know of this one.
PREPARE, INERTIA, ADVANCE, REMEMBER = 1, 2, 4, 8


class StepTables(NamedTuple):
    """A model's tables that a step reads."""

    poses: PoseTables
    elastic: ElasticTables
    inertial: InertialTables
    frames: FrameTables
    normalise: bool
    kind: int

    @classmethod
    def of(cls, runtime: RuntimeModel) -> StepTables:
        """Those of a model."""
        poses = runtime.poses
        # Read-only in a model that was built, not in one from a pickle, for which Numba would
        # compile everything anew.
        products, corrections = _read_only(poses.products), _read_only(poses.corrections)
        return cls(
            poses._replace(products=products, corrections=corrections),
            runtime.elastic,
            runtime.inertial,
            runtime.frames,
            runtime.normalise,
            runtime.kind,
        )


def _read_only(table: Singles) -> Singles:
    view = table.view()
    view.flags.writeable = False
    return view


class StepSettings(NamedTuple):
    """Options of a simulator as numbers of fixed types."""

    method: tuple[int, int, int]
    """Integrator, iterations and sub-steps."""
    solution: tuple[float, float, float, float, float]
    """The sub-step, α, β, the longest displacement and a factor of stiffness."""
    motion: tuple[float, float, float, float]
    """The step, the largest acceleration, how much of gravity is sculpted, steps to look ahead."""
    gravity: Floats
    negligible: float
    transport: bool

    @classmethod
    def of(cls, options: StepOptions) -> StepSettings:
        """Those of a simulator."""
        h = options.dt / options.substeps
        return cls(
            (options.code, options.iterations, options.substeps),
            (h, options.alpha, options.beta, options.longest, options.stiffness),
            (options.dt, options.fastest, options.sculpted, options.ahead),
            options.acting_gravity,
            options.negligible,
            options.transport,
        )


class StepWork(NamedTuple):
    """A thread's room to work in, as a step takes it."""

    blend: Blend
    system: System
    room: Room
    inertia: Inertia

    @classmethod
    def of(cls, room: Workspace) -> StepWork:
        """That of a thread."""
        return cls(room.blend, room.system, room.room, room.inertia)


@compiled_fused
def take_steps(
    stages: int,
    first: int,
    count: int,
    bound_given: Bound,
    bound_tables: Bound,
    settings: StepSettings,
    bound_work: Bound,
    bound_states: Bound,
) -> int:
    """Take some stages of a step of the bodies `first` to `first + count`; how many were taken.

    The rig has put their vertices at `given.points`. If those of one are not finite, nobody moves,
    and it is that one's number in the batch that comes back.
    """
    given: Given = opened(bound_given)
    tables: StepTables = opened(bound_tables)
    work: StepWork = opened(bound_work)
    states: StateArrays = opened(bound_states)
    if stages & PREPARE:
        for i in range(count):
            if not all_finite(given.points[i]):
                return i
    for i in range(count):
        if stages & PREPARE:
            prepare(
                given.poses[i],
                tables.poses,
                tables.normalise,
                settings.negligible,
                tables.elastic,
                tables.inertial,
                tables.frames,
                given.points[i],
                work.blend,
            )
        if stages & INERTIA:
            _inertia(first + i, given.points[i], given.roots[i], tables, settings, work, states)
        if stages & ADVANCE:
            _advance(first + i, given.points[i], tables, settings, work, states)
        if stages & REMEMBER:
            _remember(first + i, given.poses[i], given.roots[i], tables, work, states)
    return count


@compiled_fused
def _inertia(
    at: int,
    points: Floats,
    root: Floats,
    tables: StepTables,
    settings: StepSettings,
    work: StepWork,
    states: StateArrays,
) -> None:
    """Forces of the moving rest shape, of the changing basis and of gravity."""
    blend, inertia, counts = work.blend, work.inertia, states.counts[at]
    if settings.transport and counts[SEEN] == 2:
        ahead, q, q_frame = work.system.work, states.q[at], states.q_frame[at]
        for j in range(len(ahead)):
            ahead[j] = 2 * q[j] - q_frame[j]
        _swing(ahead, root, tables.inertial, work, inertia.swing)
        carry_momentum(
            inertia.swing,
            states.swing[at],
            states.swing_before[at],
            settings.motion[0],
            settings.motion[1],
            inertia.swing,
        )
    else:
        inertia.swing[:] = 0
    verdict = inertial_force(
        tables.inertial,
        blend.weights,
        blend.frames,
        points,
        root,
        states.before[at],
        states.earlier[at],
        states.held[at],
        counts[KNOWS],
        settings.motion,
        settings.gravity,
        inertia.now,
        inertia.swing,
        inertia.felt,
        inertia.local,
        work.system.external,
    )
    counts[KNOWS] = 0 if verdict == JUMPED else min(counts[KNOWS] + 1, 2)
    counts[FLAGS] = 0
    if verdict == JUMPED:
        counts[FLAGS] = TELEPORT
    elif verdict == LIMITED:
        counts[FLAGS] = ACCELERATION


@compiled_fused
def _swing(q: Floats, root: Floats, tables: InertialTables, work: StepWork, out: Floats) -> None:
    """Displacements of the inertial vertices in the world, (c′, 3)."""
    blend = work.blend
    swings(tables, blend.inertial, blend.frames, blend.stretch, root, q, work.inertia.local, out)


@compiled_fused
def _advance(
    at: int,
    points: Floats,
    tables: StepTables,
    settings: StepSettings,
    work: StepWork,
    states: StateArrays,
) -> None:
    """Elastic forces and the solution."""
    counts, q = states.counts[at], states.q[at]
    # Other methods start from the state and acceleration of a step before.
    integrator = settings.method[0] if counts[KNOWN] > 0 else BACKWARD_EULER
    if integrator == NEWMARK and work.system.pressing[0] > 0:
        integrator = BDF2  # one that keeps energy would ring in stiff contacts
    _copy(q, states.q_frame[at])
    counts[FLAGS] |= advance(
        tables.elastic,
        tables.kind,
        points,
        work.blend,
        work.system,
        work.room,
        (integrator, settings.method[1], settings.method[2]),
        settings.solution,
        q,
        states.v[at],
        states.a[at],
        states.q_before[at],
        states.v_before[at],
    )


@compiled_fused
def _remember(
    at: int, pose: Floats, root: Floats, tables: StepTables, work: StepWork, states: StateArrays
) -> None:
    """What the next step wants to know of this one."""
    counts, now = states.counts[at], work.inertia.now
    flags = counts[FLAGS]
    _copy(now if flags & TELEPORT else states.before[at], states.earlier[at])
    _copy(now, states.before[at])
    _copy(pose, states.pose[at])
    _copy(root, states.root[at])
    _copy(work.blend.weights, states.weights[at])
    _copy(states.swing[at], states.swing_before[at])
    _swing(states.q[at], root, tables.inertial, work, states.swing[at])
    lost = flags & (DISPLACEMENT | RESET) != 0
    counts[SEEN] = 0 if lost or flags & TELEPORT else min(counts[SEEN] + 1, 2)
    counts[KNOWN] = 0 if lost else counts[KNOWN] + 1
    counts[STEPS] += 1


@compiled_fused
def _copy(source, to):  # type: ignore[no-untyped-def]
    """Assigning arrays would make one in between, lest they overlap."""
    given, taken = source.reshape(source.size), to.reshape(to.size)
    for j in range(len(given)):
        taken[j] = given[j]
