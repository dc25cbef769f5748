"""Simulator of rig-space models: key poses in, poses with secondary motion out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.arrays import Floats, Singles
from supple.checks import checked_choice, checked_number, checked_whole_numbers, owned_array, shown
from supple.dynamics.character_inputs import CharacterInputs
from supple.dynamics.integrators import compiled_integrator
from supple.dynamics.motion_steps import PoseTrack
from supple.dynamics.root_frame import acting_gravity, checked_gravity_mode
from supple.engines.common.inversion import InversionWatch, WatchedTets
from supple.engines.common.option_record import OptionRecord, takes_options
from supple.engines.common.simulator import CharacterStep, ContactSimulator, Loads
from supple.engines.common.stage_history import (
    History,
    farthest,
    into_frame,
    out_of_frame,
    write_weights,
)
from supple.engines.common.state import State
from supple.engines.rig_space.error_control import ErrorControl
from supple.engines.rig_space.free_parameters import PerParameter, tuned_springs, usual_springs
from supple.engines.rig_space.model import RigSpaceModel
from supple.engines.rig_space.skin_push import FrictionStart, SkinPush, elastic_energy, holding_work
from supple.engines.rig_space.solvers.condensed import CondensedSolver
from supple.engines.rig_space.solvers.deferred import checked_deferral
from supple.engines.rig_space.solvers.paper_solvers import LinearRigSolver, RigSpacePhysics
from supple.engines.rig_space.solvers.stage_problem import SolverReport, Springs, StageProblem
from supple.errors import SuppleError
from supple.mesh.obstacles import Obstacle
from supple.rig.placement.placement import placement

#: Variants of the paper, and their options.
_LINEAR: dict[str, dict[str, Any]] = {
    "iv1-je1": {},
    "iv1-je2": {"deferred": True},
    "iv2-je1": {"interior": "skinned"},
    "iv2-je2": {"interior": "skinned", "deferred": True},
    "iv2-offset-je1": {"interior": "skinned-offset"},
    "iv1-je2-unpredicted": {"deferred": True, "predictor": None},
    "iv1-je2-printed": {"deferred": True, "predictor": "printed"},
    "iv2-je2-unpredicted": {"interior": "skinned", "deferred": True, "predictor": None},
    "iv2-je2-printed": {"interior": "skinned", "deferred": True, "predictor": "printed"},
}
_IV = {name: partial(LinearRigSolver, **options) for name, options in _LINEAR.items()}
#: Solvers by name, the default first. A new one is a file in `solvers` and a row. It has the
#: attributes `size`, `vertices`, `x` and `key`, and the methods `place`, `advance`, `state_arrays`
#: and `set_state` of `CondensedSolver`.
SOLVERS: dict[str, Callable[..., Any]] = {
    "condensed": CondensedSolver,
    "condensed-all-tets": partial(CondensedSolver, exact=True),
    "condensed-differences": partial(CondensedSolver, differences=True),
    "rsp": RigSpacePhysics,
    "rsp-differences": partial(RigSpacePhysics, differences=True),
    "rsp-second": partial(RigSpacePhysics, differences=True, second=True),
    **_IV,
    **{f"{name}-differences": partial(_IV[name], differences=True) for name in list(_IV)[:4]},
    "iv1": _IV["iv1-je1"],
    "iv2": _IV["iv2-je1"],
    "je1": _IV["iv2-je1"],
    "je2": _IV["iv2-je2"],
}

RigSpaceStep = CharacterStep


@dataclass(frozen=True, eq=False, kw_only=True)
class RigSpaceOptions(OptionRecord):
    """Options of `RigSpaceSimulator`, which documents and checks them."""

    solver: str = "condensed"
    substep: float = 1 / 90
    tolerance: float | None = None
    integrator: str = "bdf2"
    iterations: int = 2
    deferral: float | None = None
    alpha: float = 0.5
    beta: float = 0.01
    gravity: ArrayLike = (0.0, -9.81, 0.0)
    gravity_mode: str = "relative"
    follow: PerParameter | None = None
    firmness: PerParameter = 1.0
    damping: PerParameter = 1.0
    mass: PerParameter = 1.0
    displacement_limit: float = 0.35
    friction: float = 0.0


class RigSpaceSimulator(ContactSimulator):
    """Simulator of the free parameters of a rig (hahn2013).

    Parameters
    ----------
    model
        Model of the character.
    dt
        Seconds from one pose to the next.
    options
        Record of all following options, `RigSpaceOptions`; keywords replace its fields.
    solver
        ``"condensed"``, the default; or the paper's, such as ``"rsp"``; see `SOLVERS`.
    substep
        Longest internal time step, in s, so that motion is alike at all frame rates.
    tolerance
        Error of time stepping per second of motion, as a fraction of the body's size, to which the
        number of sub-steps is adapted (`error_control`). None for sub-steps of length `substep`.
    integrator
        Name of a compiled integrator in `supple.dynamics.INTEGRATORS`; bdf2 damps vibrations least.
    iterations
        Gauss–Newton iterations per sub-step.
    deferral
        Bound of kept Jacobians in J/kg, see `solvers.deferred`; 0 for none. By default 1e-5 for
        rigs without analytic derivatives, and 0 for others.
    alpha, beta
        Damping αM + βK of motion relative to the key, in 1/s and s.
    gravity, gravity_mode
        In m/s²; ``"relative"``: only changes by the root's rotation act, as the sculpted shape
        already sags; ``"absolute"`` or ``"none"``.
    follow
        κ of springs towards the key, in units of each stiffness: 1 leaves a third of the motion. A
        number, or numbers by name; by default a joint alone swings at 5 Hz.
    firmness, damping, mass
        Factors on stiffness, damping and mass of the parameters, likewise.
    displacement_limit
        Largest distance of flesh from its key, as a fraction of the body's size.
    obstacles
        Obstacles in the world that push the skin, as far as free parameters can move it.
    friction
        Coefficient of Coulomb friction on obstacles; 0 for none. Moving objects drag the skin.
    """

    @takes_options(RigSpaceOptions, closed=True)
    def __init__(
        self,
        model: RigSpaceModel,
        dt: float = 1 / 90,
        *,
        options: RigSpaceOptions | None = None,
        obstacles: Sequence[Obstacle] = (),
        **keywords: Any,
    ) -> None:
        if not isinstance(model, RigSpaceModel):
            raise SuppleError(f"a RigSpaceSimulator needs a RigSpaceModel, not {shown(model)}")
        chosen = RigSpaceOptions.of("RigSpaceSimulator", options, keywords)
        self.model, self._dt = model, _checked_span("dt", dt)
        self._integrator = compiled_integrator(chosen.integrator)
        longest = _checked_span("substep", chosen.substep)
        self.substeps = max(1, math.ceil(self._dt / longest - 1e-6))
        self._h, self._usual_substeps = self._dt / self.substeps, self.substeps
        (count,) = checked_whole_numbers("iterations", [chosen.iterations])
        if not 1 <= count <= 1000:
            raise SuppleError(f"iterations must be 1 to 1000, not {count}")
        self.gravity = owned_array("gravity", chosen.gravity, (3,))
        self.gravity_mode = checked_gravity_mode(str(chosen.gravity_mode))
        self._limit = checked_number("displacement_limit", chosen.displacement_limit)
        if not self._limit > 0:
            raise SuppleError(f"displacement_limit is {self._limit:g}; it must be positive")
        values = {name: getattr(chosen, name) for name in ("follow", "firmness", "damping", "mass")}
        usual = usual_springs(model, chosen.alpha, chosen.beta)
        self._springs = tuned_springs(usual, model, values)
        self._inputs, self._size = CharacterInputs(model), model.mesh.size
        make_solver = SOLVERS[checked_choice("solver", chosen.solver, SOLVERS)]
        kept = checked_deferral(chosen.deferral)
        self._solver = make_solver(model, iterations=count, deferral=kept)
        self._masses = model.body.vertex_masses()[self._solver.vertices]
        n = len(self._masses)
        self._world, self._away = History((n, 3)), History((self._solver.size,))
        self._target, self._load, self._placed = np.zeros((3, n, 3))
        self._push, self._contact_push = np.zeros((2, len(model.entries)))
        self._c = np.zeros(self._solver.size)
        self._skin, shape = placement(model.rig, single=True), model.surface.vertices.shape
        self._drawn = np.empty(shape, np.float32)
        self._watch = InversionWatch(elastic_energy(model))
        self._watched = WatchedTets.of(model.mesh, model.moving_tets, self._solver.vertices)
        self._control: ErrorControl | None = None
        if chosen.tolerance is not None:
            given = chosen.tolerance, self._integrator, self._dt, self._size
            self._control = ErrorControl(*given, n)
        self._skin_push = SkinPush(model)
        self.friction = chosen.friction
        self.obstacles = tuple(obstacles)
        self.reset()

    @property
    def free(self) -> tuple[str, ...]:
        """Names of the parameters that physics moves."""
        return tuple(parameter.name for parameter in self.model.free_parameters)

    @property
    def parameters(self) -> Floats:
        """Pose of the rig, (s,): the key plus the offsets of the free parameters."""
        return self._free_pose(self.pose, self._away.x)

    @property
    def coordinates(self) -> Floats:
        """(K,) offsets of the free parameters, then other coordinates of the solver."""
        return self._away.x.copy()

    def _apply_stiffness(self) -> None:
        self._springs = replace(self._springs, stiffness=self._stiffness)

    @property
    def springs(self) -> Springs:
        """Values (k,) of each free parameter: `follow`, `firmness`, `damping`, `mass`."""
        return self._springs

    def tune(
        self,
        *,
        follow: PerParameter | None = None,
        firmness: PerParameter | None = None,
        damping: PerParameter | None = None,
    ) -> None:
        """Change values of parameters between steps; others do not change.

        Parameters
        ----------
        follow, firmness, damping
            As for the simulator, or one per parameter, (k,).
        """
        values = {"follow": follow, "firmness": firmness, "damping": damping}
        self._springs = tuned_springs(self._springs, self.model, values)

    def _apply_obstacles(self, obstacles: tuple[Obstacle, ...]) -> None:
        if obstacles and not isinstance(self._solver, CondensedSolver):
            raise SuppleError("rig-space: the paper's solvers have no contact; use condensed")

    def _start(
        self, pose: Floats, root: Floats, before: tuple[Floats, Floats] | None, *, keep_flesh: bool
    ) -> None:
        if keep_flesh:
            self._restart(pose, root, before, self._away.x.copy(), self._away.v.copy())
            return
        self._c[:] = 0.0
        self._restart(pose, root, before, self._c, self._c)
        self._watch.reset()
        self._steps = 0

    def _restart(
        self,
        pose: Floats,
        root: Floats,
        past: tuple[Floats, Floats] | None,
        c: Floats,
        rate: Floats,
    ) -> None:
        """Set pose, root, coordinates `c` (K,) and `rate`; `past`: pose and root a step earlier."""
        h, solver = self._h, self._solver
        earlier = (pose, root) if past is None else past
        solver.place(earlier[0], c - self._dt * rate)
        before = solver.x @ earlier[1][:3, :3].T + earlier[1][:3, 3]
        was = solver.x - solver.key
        solver.place(pose, c)
        now = solver.x @ root[:3, :3].T + root[:3, 3]
        self.pose, self.root = pose.copy(), root.copy()
        self._world.reset(now, (now - before) / self._dt)
        self._world.x_before[...] = now - h * self._world.v
        self._away.reset(c.copy(), rate.copy())
        if self._control is not None:
            self._control.reset(solver.x - solver.key, was, self._usual_substeps)
        self._track = PoseTrack(self.pose, self.root)
        if past is not None:
            self._track = PoseTrack.moving(*past, self.pose, self.root)

    def advance(self, pose: Floats, root: Floats, loads: Loads | None) -> RigSpaceStep:
        """Advance by `dt` to a pose and root, with forces in N on vertices of the skin."""
        loads = loads if loads is not None and len(loads[0]) else None
        if self._control is not None:
            self._control.begin()
        self._world.keep()
        self._away.keep()
        self._watch.keep()
        start = self.pose, self.root, self._track
        try:
            report = self._substeps(pose, root, loads)
            while self._control is not None and not self._control.accept():
                self._go_back(*start)
                self._control.restore()
                report = self._substeps(pose, root, loads)
        except BaseException:
            self._go_back(*start)
            if self._control is not None:
                self._control.restore()
            raise
        self._steps += 1
        limits, counts = report.limits, report.counts
        if self._control is not None:
            counts |= {"error": self._control.error, "tries": self._control.tries}
            limits += ("tolerance",) if self._control.failed else ()
        return RigSpaceStep(self.time, limits, counts)

    def _go_back(self, pose: Floats, root: Floats, track: PoseTrack) -> None:
        """Return to the start of the step."""
        self._world.restore()
        self._away.restore()
        self._watch.restore()
        self.pose, self.root, self._track = pose, root, track

    def _substeps(self, pose: Floats, root: Floats, loads: Loads | None) -> SolverReport:
        """Make all sub-steps of a step; return their combined report."""
        self._track = self._track.fork()
        if self._control is not None:
            self.substeps = self._control.substeps
            self._h = self._dt / self.substeps
        limits: list[str] = []
        counts: dict[str, Any] = {"substeps": self.substeps}
        inputs: Iterable[tuple[Floats, Floats]] = ((pose.copy(), root.copy()),)
        if self.substeps > 1 or self._control is not None:
            inputs = self._track.towards(pose, root, self.substeps)
        for at, placed in inputs:
            report = self._substep(at, placed, loads)
            limits += [each for each in report.limits if each not in limits]
            for name, value in report.counts.items():
                last = name.startswith("contact")
                counts[name] = value if last else counts.get(name, 0) + value
            if self._control is not None:
                self._control.add(self._h, self._solver.x, self._solver.key)
        return SolverReport(counts, tuple(limits))

    def _substep(self, pose: Floats, root: Floats, loads: Loads | None) -> SolverReport:
        world, away, solver = self._world, self._away, self._solver
        rotation = root[:3, :3]
        tau = world.begin(self._integrator, self._h)
        away.begin(self._integrator, self._h)
        into_frame(world.target, root, self._target)
        gravity = acting_gravity(self.gravity_mode, self.gravity, root) @ rotation
        write_weights(self._masses, gravity, self._load)
        self._push[:], self._contact_push[:] = 0.0, 0.0
        if loads is not None:
            posed = self._free_pose(pose, away.x)
            self._push += self._skin_push.pushed(posed, loads[0], loads[1] @ rotation)
        stage = StageProblem(
            tau, pose, self._target, self._load, self._push, away.start, away.target, self._springs
        )
        report = (
            self._advance_in_contact(stage, root)
            if self._obstacles
            else solver.advance(stage, self._c)
        )
        limits = report.limits + self._limit_displacement(pose)
        out_of_frame(solver.x, root, self._placed)
        world.finish(self._placed, tau)
        away.finish(self._c, tau)
        limits += self._restore(pose, root)
        self.pose, self.root = pose, root
        return SolverReport(report.counts, limits)

    def _restore(self, pose: Floats, root: Floats) -> tuple[str, ...]:
        """Restore flesh that stays inverted towards the key pose; return acting limits."""
        if not self._watch.is_due(self._h):
            return ()
        ratios = self._watched.ratios(self._solver.x, self._solver.key)
        work = holding_work(self._c, self._push, self._contact_push) / self._stiffness
        inverted, part = self._watch.update(*ratios, work, self._h)
        if part < 1.0:
            self._c *= part
            ends = (self.pose, self.root, self._target), (pose, root, self._placed)
            for at, placed, out in ends:
                self._solver.place(at, self._c)
                out_of_frame(self._solver.x, placed, out)
            self._world.reset(self._placed, (self._placed - self._target) / self._h)
            self._away.reset(self._c)
        return ("inversion",) if inverted else ()

    def _advance_in_contact(self, stage: StageProblem, root: Floats) -> SolverReport:
        """Solve a stage with contact forces of obstacles at the predicted pose."""
        guess = self._free_pose(stage.pose, stage.guess)
        touch = self._skin_push.touching(guess, root, self._obstacles, self._friction_start())
        if touch is None:
            return self._solver.advance(stage, self._c)
        stage.contact = touch.matrix, touch.pull
        report, k = self._solver.advance(stage, self._c), len(self._push)
        report.counts |= touch.readings(self._c[:k] - stage.guess[:k])
        self._contact_push[:] = touch.forces(self._c[:k] - stage.guess[:k])
        return report

    def _friction_start(self) -> FrictionStart | None:
        """Return the start of a sub-step, for friction; None without friction."""
        if self.friction == 0.0:
            return None
        return FrictionStart(self.friction, self._h, self.parameters, self.root)

    def _limit_displacement(self, pose: Floats) -> tuple[str, ...]:
        """Scale coordinates so that flesh is within the limit of its key; return acting limits."""
        solver, c = self._solver, self._c
        far, limit = float(farthest(solver.x, solver.key, c)), self._limit * self._size
        if far <= limit:
            return ()
        finite = math.isfinite(far)
        c[:] = c * (limit / far) if finite else 0.0
        solver.place(pose, c)
        return ("displacement",) if finite else ("reset",)

    def _free_pose(self, pose: Floats, c: Floats) -> Floats:
        """Return a key pose (s,) plus the offsets of free parameters in coordinates c (K,)."""
        result = pose.copy()
        result[self.model.entries] += c[: len(self.model.entries)]
        return result

    def _state_arrays(self) -> dict[str, NDArray[Any]]:
        arrays = {
            "pose": self.pose,
            "root": self.root,
            "track": self._track.slopes,
            "steps": np.array([float(self._steps), self._h, float(self.substeps)]),
            "watch": self._watch.state,
        }
        parts = {"world": self._world, "away": self._away, "solver": self._solver}
        if self._control is not None:
            parts["control"] = self._control
        for prefix, part in parts.items():
            arrays |= {f"{prefix}.{name}": a for name, a in part.state_arrays().items()}
        return arrays

    def _set_state(self, state: State) -> None:
        self.pose, self.root = state["pose"], state["root"]
        self._track = PoseTrack.resumed(self.pose, self.root, state["track"])
        self._steps, self._h = int(state["steps"][0]), float(state["steps"][1])
        self.substeps = int(state["steps"][2])
        self._watch.state[:] = state["watch"]
        self._world.set_state(state.part("world"))
        self._away.set_state(state.part("away"))
        self._solver.set_state(state.part("solver"), self.pose)
        if self._control is not None:
            self._control.set_state(state.part("control"))

    def surface(self, out: Singles | None = None) -> Singles:
        """Return the skin in the world, R Φ̄(p) + t, (n̄, 3) float32: a new array, or `out`."""
        target = self._inputs.skin(out)
        self._skin.place(self.parameters, self._drawn)
        np.dot(self._drawn, self.root[:3, :3].T.astype(np.float32), out=target)
        target += self.root[:3, 3].astype(np.float32)
        return target


def _checked_span(name: str, value: float) -> float:
    span = checked_number(name, value)
    if not 1e-6 <= span <= 1:
        raise SuppleError(f"{name} is {span:g} s; it must be between 1e-6 and 1")
    return span
