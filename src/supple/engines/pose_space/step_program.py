"""The step of a pose-space character as a program, which runs without Python.

It has the kernels of `Stepper` in the same order, with the same arrays at every step, for one body
without obstacles. Inputs are checked by compiled functions, too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from supple.arrays import Floats, Ints, Singles
from supple.compiled.jit import compiled, compiled_fused
from supple.compiled.program import KernelCall, Number, Program, contiguous
from supple.compiled.tables import ArgumentTable, table_contents
from supple.dynamics.character_inputs import is_rigid, is_usable
from supple.elastic.densities.dispatch import is_built_in
from supple.engines.pose_space.inertia import PointHistory, reset_history
from supple.engines.pose_space.model.model import PoseSpaceModel
from supple.engines.pose_space.runtime import RuntimeModel
from supple.engines.pose_space.skin import (
    SKIN,
    SkinWork,
    add_skin_forces,
    carrier_frames,
    displace_skin,
)
from supple.engines.pose_space.state import DISPLACED, LIMITS, REST_MOTION, StateArrays, states_of
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
from supple.maths.quaternions import to_matrix
from supple.maths.small_matrices import determinant
from supple.rig.motion.motion import RIGID
from supple.rig.placement.placement import copy_numbers
from supple.rig.skeleton.skinning_kernels import to_quaternion

#: Most skin vertices that forces of a host act on in one step.
MOST_FORCES = 256


def step_program(model: PoseSpaceModel, dt: float | None = None, **keywords: Any) -> Program:
    """Return the step of a model as a program, with options of `StepOptions`.

    Sections: ``check`` inputs; ``place`` the rig at the pose; ``reset`` or ``teleport``; inertial
    ``forces``, ``loads`` of the host, and ``solve``; ``surface``. A rig that only Python can
    evaluate raises SuppleError, and so does a material that a program has registered.
    """
    step = {} if dt is None else {"dt": dt}
    options = StepOptions.of("step_program", None, keywords | step)
    if options.self_contact:
        raise SuppleError("a step program has no self-contact; leave out self_contact")
    if not is_built_in(model.material_kind):
        raise SuppleError(f"only Python can evaluate the material {model.material_kind!r}")
    body = _Body(model, options)
    state = body.state
    arrays: dict[str, Any] = {
        **body.given,
        "rest_pose": np.array(model.rig.rest_pose, np.float64),
        "triangles": np.ascontiguousarray(model.surface.triangles, np.int32),
        "limits": state.counts[LIMITS : LIMITS + 1],
        "last_pose": state.pose,
        "last_root": state.root,
        "q": state.q,
    }
    return Program(
        "pose-space",
        float(options.dt),
        body.sections(),
        arrays,
        {"stiffness": Number(body.bound, ("settings", "solve", "stiffness"), 1e-3, 1e3)},
        {
            "name": model.name,
            "parameters": "\n".join(parameter.name for parameter in model.rig.parameters),
        },
    )


class _Body:
    """Arrays and tables of one body, and the calls that step it."""

    def __init__(self, model: PoseSpaceModel, options: StepOptions) -> None:
        self.runtime = runtime = RuntimeModel.of(model, frames=options.frames)
        self.work = work = Workspace(runtime)
        settings = StepSettings.of(options, runtime.size, runtime.least_damping)
        tables = contiguous(StepTables.of(runtime))
        self.bound = ArgumentTable(StepArguments(work.targets, tables, settings, work.step))
        skin = contiguous(runtime.skin)
        self.skin = ArgumentTable(SkinWork(skin, tables.frames, work.blend, work.skin))
        (self.state,) = states_of(runtime, 1)
        self.limit = 2 * options.longest_displacement(runtime.size) / runtime.spread
        #: Arrays that a host writes, and the skin.
        self.given: dict[str, Any] = {
            "pose": np.array(model.rig.rest_pose, np.float64),
            "root": np.eye(4),
            "force_vertices": np.zeros(MOST_FORCES, np.int64),
            "forces": np.zeros((MOST_FORCES, 3)),
            "force_count": np.zeros(1, np.int64),
            "skin": np.zeros((len(model.surface.vertices), 3), np.float32),
        }

    def sections(self) -> dict[str, list[KernelCall]]:
        """Return the calls of each section."""
        pose, root, points = (each[0] for each in self.work.targets)
        placement, given, checked = self.runtime.placement.fork(), self.given, np.eye(4)
        scales = np.abs(self.runtime.model.pose_weights.scales)
        wrong_pose = "pose: an entry is not finite or too large"
        wrong_root = "root is not a rigid transform; put scale in the pose"
        turned = given["root"], checked, np.zeros(4)
        return {
            "check": [
                KernelCall(_check_pose, (given["pose"], scales), (), wrong_pose),
                KernelCall(_check_root, turned, turned[1:], wrong_root),
            ],
            "place": [
                KernelCall(copy_numbers, (given["pose"], pose), (pose,)),
                KernelCall(copy_numbers, (checked, root), (root,)),
                *placement.tet_calls(pose, points),
                self._take(BLEND, "the rig's positions are not finite at this pose"),
            ],
            "reset": [self._start(keep_flesh=False)],
            "teleport": [self._start(keep_flesh=True)],
            "forces": [self._take(INERTIA)],
            "loads": [self._push(root)],
            "solve": [self._take(SOLVE | REMEMBER)],
            "surface": [
                *placement.surface_calls(pose, given["skin"]),
                self._displace(root, given["skin"]),
            ],
        }

    @property
    def _changed(self) -> tuple[Any, ...]:
        return self.state.arrays, self.work.step, self.work.targets

    def _take(self, stages: int, error: str = "") -> KernelCall:
        return KernelCall(_take, (stages, self.bound, self.state.bound), self._changed, error)

    def _start(self, keep_flesh: bool) -> KernelCall:
        return KernelCall(_start, (keep_flesh, self.bound, self.state.bound), self._changed)

    def _push(self, root: Floats) -> KernelCall:
        given, force = self.given, self.work.system.external
        forces = given["force_vertices"], given["forces"], given["force_count"]
        arguments = self.skin, self.runtime.in_frames, *forces, root, force
        error = "a force is not finite, or acts on a vertex that does not exist"
        return KernelCall(_add_forces, arguments, (self.work.skin, self.work.blend, force), error)

    def _displace(self, root: Floats, skin: Singles) -> KernelCall:
        runtime, work = self.runtime, self.work
        limits = runtime.in_frames, runtime.unseen, self.limit
        arguments = SKIN, self.skin, *limits, self.state.q, root, skin
        return KernelCall(displace_skin, arguments, (work.skin, work.blend, skin))


@compiled_fused
def _check_pose(pose: Floats, scales: Floats) -> int:
    """Return 0 if a pose can be used."""
    return 0 if is_usable(pose, scales) else 1


@compiled
def _check_root(root: Floats, checked: Floats, quaternion: Floats) -> int:
    """Write a root to `checked` and return 0 if it is rigid.

    A rotation in float32 precision is made exact, as in `checked_root`.
    """
    if is_rigid(root):
        copy_numbers(root, checked)
        return 0
    worst = 0.0
    for i in range(4):
        for j in range(4):
            if not abs(root[i, j]) < 1e12:
                return 1
    for i in range(3):
        worst = max(worst, abs(root[3, i]))
        for j in range(3):
            inner = root[i, 0] * root[j, 0] + root[i, 1] * root[j, 1] + root[i, 2] * root[j, 2]
            worst = max(worst, abs(inner - (1.0 if i == j else 0.0)))
    if not max(worst, abs(root[3, 3] - 1)) <= RIGID or determinant(root) < 0:
        return 1
    copy_numbers(root, checked)
    to_quaternion(root, quaternion)
    to_matrix(quaternion, checked)
    for i in range(4):
        checked[3, i] = 1.0 if i == 3 else 0.0
    return 0 if is_rigid(checked) else 1


@compiled_fused
def _take(stages: int, bound: ArgumentTable, bound_states: ArgumentTable) -> int:
    """Run stages of a step of one body; return 0 unless positions are not finite."""
    return 1 - take_steps(stages, 0, 1, bound, bound_states)


@compiled_fused
def _start(keep_flesh: bool, bound: ArgumentTable, bound_states: ArgumentTable) -> None:
    """Set the state to rest at the placed pose, as `BodyState.start` does; the flesh may stay."""
    arguments: StepArguments = table_contents(bound)
    states: StateArrays = table_contents(bound_states)
    rows, work = arguments.tables.inertial.rows, arguments.work
    points, root = arguments.targets.points[0], arguments.targets.roots[0]
    now, q, v = work.inertia.now, states.q[0], states.v[0]
    for s in range(len(rows)):
        x, y, z = points[rows[s], 0], points[rows[s], 1], points[rows[s], 2]
        for i in range(3):
            now[s, i] = root[i, 0] * x + root[i, 1] * y + root[i, 2] * z + root[i, 3]
    rest = states.rest
    reset_history(
        PointHistory(
            rest.position[0], rest.position_before[0], rest.velocity[0], rest.velocity_before[0]
        ),
        now,
    )
    states.rest_acceleration[:] = 0
    for each in states.flesh:
        each[:] = 0
    for i in range(len(q)):
        if not keep_flesh:
            q[i] = v[i] = 0.0
        states.q_before[0, i], states.v_before[0, i], states.a[0, i] = q[i], v[i], 0.0
    copy_numbers(arguments.targets.poses[0], states.pose[0])
    copy_numbers(root, states.root[0])
    copy_numbers(work.blend.weights, states.weights[0])
    states.counts[:] = 0
    states.counts[0, DISPLACED], states.counts[0, REST_MOTION] = 0 if keep_flesh else 1, 1


@compiled
def _add_forces(
    bound: ArgumentTable,
    in_frames: bool,
    vertices: Ints,
    forces: Floats,
    counted: Ints,
    root: Floats,
    out: Floats,
) -> int:
    """Add the reduced forces on the first `counted` (1,) of the listed skin vertices to `out`.

    Returns 1 if a vertex does not exist or a force is not finite.
    """
    work: SkinWork = table_contents(bound)
    skin, scratch, count = work.tables, work.scratch, counted[0]
    if not 0 <= count <= len(vertices):
        return 1
    for k in range(count):
        if not 0 <= vertices[k] < len(skin.carriers):
            return 1
        for i in range(3):
            if not abs(forces[k, i]) < 1e300:
                return 1
    if in_frames:
        carrier_frames(skin, work.follow, work.blend, scratch.quaternions, scratch.frames)
    weights = work.blend.weights
    add_skin_forces(skin, weights, scratch.frames, vertices[:count], forces[:count], root, out)
    return 0
