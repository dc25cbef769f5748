"""A step from the rig's positions to the next state, in one compiled call for one body or several.

Each call from Python costs some microseconds and, in threads, a wait for Python's lock. So all
parts are reached by one entry, `take_steps`, and `stages` selects among them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from supple.arrays import Floats, Ints, Singles
from supple.compiled.jit import compiled_fused
from supple.compiled.tables import ArgumentTable, table_contents
from supple.dynamics.integrators import INTEGRATORS, Integrator, StageCoefficients
from supple.engines.pose_space.blend import Blend, PoseTables, blend_bases, blend_frames, blend_mass
from supple.engines.pose_space.elastic_force import ElasticScratch, ElasticTables
from supple.engines.pose_space.inertia import (
    JUMPED,
    LIMITED,
    InertialScratch,
    InertialTables,
    MotionSettings,
    PointHistory,
    PointStage,
    advance_history,
    all_finite,
    inertial_displacements,
    inertial_force,
    reset_history,
    transport_acceleration,
)
from supple.engines.pose_space.newton import (
    ACCELERATION,
    DISPLACEMENT,
    RESET,
    TELEPORT,
    Coordinates,
    SolveSettings,
    System,
    advance,
)
from supple.engines.pose_space.rest_shape_rotations import FrameTables
from supple.engines.pose_space.runtime import RuntimeModel
from supple.engines.pose_space.skin import SkinScratch
from supple.engines.pose_space.state import (
    CONTINUOUS,
    DISPLACED,
    LIMITS,
    REST_MOTION,
    STEPS,
    StateArrays,
)
from supple.engines.pose_space.step_options import StepOptions

#: Stages of a step in their order. `BLEND`, which depends on the pose only: weights and frames,
#: basis rows, reduced mass. Then inertial forces, elastic forces with the solution, and the update
#: of the histories.
FRAMES, BASES, MASS, INERTIA, SOLVE, REMEMBER = 1, 2, 4, 8, 16, 32
BLEND = FRAMES | BASES | MASS


#: Largest extrapolation by velocity of the start of Newton's method, as a fraction of the size.
#: With 0.01 a bar that was shaken for ten minutes snapped over once.
NEAR = 0.0025


class Targets(NamedTuple):
    """Poses, roots and rest positions of the bodies of a batch at the end of a step."""

    poses: Floats
    """(b, s) poses."""
    roots: Floats
    """(b, 4, 4) root transforms."""
    points: Floats
    """(b, k, 3) rest positions of the cubature's vertices."""


class StepTables(NamedTuple):
    """Tables of a model that a step reads."""

    poses: PoseTables
    elastic: ElasticTables
    inertial: InertialTables
    frames: FrameTables
    normalise: bool
    kind: int

    @classmethod
    def of(cls, runtime: RuntimeModel) -> StepTables:
        """Collect the tables of a model."""
        poses = runtime.poses
        # These are read-only in a built model but not in an unpickled one, for which Numba would
        # compile everything again.
        products, corrections = _read_only(poses.products), _read_only(poses.corrections)
        damping = _read_only(poses.damping)
        poses = poses._replace(products=products, corrections=corrections, damping=damping)
        tables = runtime.elastic, runtime.inertial, runtime.frames
        return cls(poses, *tables, runtime.normalise, runtime.kind)


def _read_only(table: Singles) -> Singles:
    view = table.view()
    view.flags.writeable = False
    return view


class StepSettings(NamedTuple):
    """Options of a simulator as numbers of fixed types."""

    solve: SolveSettings
    motion: MotionSettings
    negligible: float
    """Weight of a pose below which it fades out of the blend."""

    @classmethod
    def of(cls, options: StepOptions, size: float, damping: float = 1.0) -> StepSettings:
        """Convert options, for a body of this size in metres; `damping` is a factor on β."""
        method, first = options.method, INTEGRATORS["backward-euler"]
        h, dt = options.dt / options.substeps, options.dt
        # A method with a lead rings in stiff contacts, the longer the larger lead/τ is.
        contact = INTEGRATORS["bdf2"] if method.uses_acceleration else method
        solve = SolveSettings(
            _stage(first, h),
            _stage(method, h),
            _stage(contact, h),
            options.iterations,
            options.substeps,
            h,
            options.alpha,
            damping * options.beta,
            options.longest_displacement(size),
            NEAR * size,
            options.stiffness,
        )
        points = first if method.uses_acceleration or options.substeps > 1 else method
        motion = MotionSettings(
            PointStage.of(_stage(first, dt), dt),
            PointStage.of(_stage(points, dt), dt),
            options.acceleration_limit,
            options.sculpted,
            options.steps_ahead,
            options.acting_gravity,
            options.transports,
        )
        return cls(solve, motion, options.negligible_weight)


def _stage(row: Integrator, h: float) -> StageCoefficients:
    """Return the coefficients of steps of h as floats, which kernels are compiled for."""
    stage = StageCoefficients(*map(float, row.coefficients(h, 1.0)))
    return stage if row.uses_acceleration else stage._replace(lead=0.0)  # not rounding errors


class StepWork(NamedTuple):
    """Scratch arrays of a thread that a step overwrites."""

    blend: Blend
    system: System
    elastic: ElasticScratch
    inertia: InertialScratch


class StepArguments(NamedTuple):
    """Arguments of a thread's steps, except states; one table, as an argument costs 0.4 µs."""

    targets: Targets
    tables: StepTables
    settings: StepSettings
    work: StepWork


class Workspace:
    """Scratch arrays of a thread, for up to `batch` bodies in one call."""

    def __init__(self, runtime: RuntimeModel, batch: int = 1) -> None:
        count, width = len(runtime.vertices), len(runtime.model.rig.parameters)
        self.targets = Targets(
            np.zeros((batch, width)), np.zeros((batch, 4, 4)), np.zeros((batch, count, 3))
        )
        tables = runtime.poses, runtime.elastic, runtime.inertial, runtime.frames
        self.blend = Blend.of(*tables, count, runtime.n_modes)
        self.system = System.of(runtime.peaks)
        self.elastic = ElasticScratch.of(runtime.elastic)
        self.inertia = InertialScratch.of(runtime.inertial)
        self.skin = SkinScratch.of(runtime.skin, len(runtime.carriers), runtime.in_frames)

    @property
    def step(self) -> StepWork:
        """Scratch arrays of a step."""
        return StepWork(self.blend, self.system, self.elastic, self.inertia)


@compiled_fused
def take_steps(
    stages: int, first: int, count: int, bound: ArgumentTable, bound_states: ArgumentTable
) -> int:
    """Run some stages of a step of `count` bodies, rows of the states from `first` on.

    `bound` holds `StepArguments`, with rest positions by the rig in `targets.points`. Returns
    `count`; or, if rest positions of a body are not finite, its index in the batch, and no state
    changes.
    """
    arguments: StepArguments = table_contents(bound)
    targets, tables = arguments.targets, arguments.tables
    settings, work = arguments.settings, arguments.work
    states: StateArrays = table_contents(bound_states)
    if stages & FRAMES:
        for i in range(count):
            if not all_finite(targets.points[i]):
                return i
    for i in range(count):
        if stages & FRAMES:
            blend_frames(
                targets.poses[i], targets.points[i], tables, settings.negligible, work.blend
            )
        if stages & BASES:
            blend_bases(tables.elastic, tables.inertial, work.blend)
        if stages & MASS:
            blend_mass(tables.poses, work.blend)
        if stages & INERTIA:
            _set_external_forces(i, first + i, arguments, states)
        if stages & SOLVE:
            _solve(i, first + i, arguments, states)
        if stages & REMEMBER:
            _remember(i, first + i, arguments, states)
    return count


@compiled_fused
def _set_external_forces(i: int, at: int, arguments: StepArguments, states: StateArrays) -> None:
    """Set external forces: inertial forces of rest shape and changing basis, and gravity.

    The body is number `i` of the batch, and row `at` of the states.
    """
    inertial, motion, work = arguments.tables.inertial, arguments.settings.motion, arguments.work
    points, root = arguments.targets.points[i], arguments.targets.roots[i]
    blend, inertia, counts = work.blend, work.inertia, states.counts[at]
    stage = _point_stage(motion, counts)
    if motion.transport and counts[DISPLACED] > 0:
        ahead, q, v = work.system.work, states.q[at], states.v[at]
        q_before, v_before = states.q_before[at], states.v_before[at]
        now, before, tau, _ = stage
        for j in range(len(ahead)):
            ahead[j] = now * (q[j] + tau * v[j]) + before * (q_before[j] + tau * v_before[j])
        inertial_displacements(inertial, blend, root, ahead, inertia.local, inertia.carried)
        flesh, limit = _row(states.flesh, at), motion.acceleration_limit
        transport_acceleration(inertia.carried, flesh, stage, limit, inertia.carried)
    else:
        inertia.carried[:] = 0
    rest, last, known = _row(states.rest, at), states.rest_acceleration[at], counts[REST_MOTION]
    force = work.system.external
    verdict = inertial_force(
        inertial, blend, points, root, rest, last, known, stage, motion, inertia, force
    )
    counts[REST_MOTION] = 0 if verdict == JUMPED else min(counts[REST_MOTION] + 1, 2)
    counts[LIMITS] = 0
    if verdict == JUMPED:
        counts[LIMITS] = TELEPORT
    elif verdict == LIMITED:
        counts[LIMITS] = ACCELERATION


@compiled_fused
def _point_stage(settings: MotionSettings, counts: Ints) -> PointStage:
    """Return the integrator's stage of flesh and rest shape in this step."""
    return settings.stage if counts[CONTINUOUS] > 0 else settings.first_stage


@compiled_fused
def _row(points: PointHistory, at: int) -> PointHistory:
    """Return the points of the body in row `at`."""
    return PointHistory(
        points.position[at],
        points.position_before[at],
        points.velocity[at],
        points.velocity_before[at],
    )


@compiled_fused
def _solve(i: int, at: int, arguments: StepArguments, states: StateArrays) -> None:
    """Solve for the coordinates of body `i`, row `at`, at the end of the step."""
    points, work = arguments.targets.points[i], arguments.work
    counts, solve = states.counts[at], arguments.settings.solve
    if counts[CONTINUOUS] == 0:
        stage = solve.first_stage
    elif work.system.pressing[0] > 0:
        stage = solve.contact_stage
    else:
        stage = solve.stage
    state = Coordinates(
        states.q[at], states.v[at], states.a[at], states.q_before[at], states.v_before[at]
    )
    counts[LIMITS] |= advance(arguments.tables, points, work, solve, stage, state)


@compiled_fused
def _remember(i: int, at: int, arguments: StepArguments, states: StateArrays) -> None:
    """Update state row `at` after a step: pose, root, and histories of rest shape and flesh."""
    pose, root, work = arguments.targets.poses[i], arguments.targets.roots[i], arguments.work
    counts, now, carried = states.counts[at], work.inertia.now, work.inertia.carried
    inertial, blend, local = arguments.tables.inertial, work.blend, work.inertia.local
    stage = _point_stage(arguments.settings.motion, counts)
    limits, rest, flesh = counts[LIMITS], _row(states.rest, at), _row(states.flesh, at)
    if limits & TELEPORT:
        reset_history(rest, now)
    else:
        advance_history(rest, now, counts[REST_MOTION] > 1, stage)
    _copy(pose, states.pose[at])
    _copy(root, states.root[at])
    _copy(blend.weights, states.weights[at])
    lost = limits & (DISPLACEMENT | RESET) != 0
    if counts[DISPLACED] > 0 and not lost and not limits & TELEPORT:
        inertial_displacements(inertial, blend, root, states.q[at], local, carried)
        advance_history(flesh, carried, True, stage)
    else:  # with the basis at this pose for all times
        q_before, v_before = states.q_before[at], states.v_before[at]
        inertial_displacements(inertial, blend, root, states.q[at], local, flesh.position)
        inertial_displacements(inertial, blend, root, q_before, local, flesh.position_before)
        inertial_displacements(inertial, blend, root, states.v[at], local, flesh.velocity)
        inertial_displacements(inertial, blend, root, v_before, local, flesh.velocity_before)
    counts[DISPLACED] = 1
    counts[CONTINUOUS] = 0 if lost else counts[CONTINUOUS] + 1
    counts[STEPS] += 1


@compiled_fused
def _copy(source, to):  # type: ignore[no-untyped-def]
    """Copy an array without the temporary that an assignment makes."""
    values, target = source.reshape(source.size), to.reshape(to.size)
    for j in range(len(values)):
        target[j] = values[j]
