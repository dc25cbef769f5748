"""Our solver: condensed interior that rotates with the rig, Gauss–Newton with cubature."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import scipy.linalg

from supple.arrays import Floats, Ints
from supple.compiled.tables import ArgumentTable
from supple.elastic.assembly import BlockPattern
from supple.engines.rig_space.flesh_rig import CorotatedFlesh
from supple.engines.rig_space.model import RigSpaceModel
from supple.engines.rig_space.solvers.column_spans import column_spans, padded_columns, padded_width
from supple.engines.rig_space.solvers.deferred import USUAL_ENERGY, DeferredJacobian
from supple.engines.rig_space.solvers.stage_problem import (
    BoundedSystem,
    SolverReport,
    Springs,
    StageProblem,
    write_bounds,
)
from supple.engines.rig_space.solvers.step_kernels import (
    FleshArrays,
    StageArrays,
    TetArrays,
    begin_pull,
    evaluate,
    measure_tets,
    place_flesh,
    write_columns,
)
from supple.mesh.tets import TetMesh, hat_gradients

#: Springs of all parameters towards the key, as a fraction of their mass over τ²; they determine
#: parameters without effect.
NULL_SPRING = 1e-8
#: Stages that a Hessian is kept for, and the ratio of the second to the first change that counts as
#: slow: for nonlinear rigs, and for shapes.
KEPT_BENT, SLOW_BENT = 4, 0.08
KEPT_SHAPES, SLOW_SHAPES = 8, 0.5
#: A kept Hessian is slow if its ratio is this much larger than when it was new.
SLOWER = 1.5
#: Number of step lengths in the line search, each a quarter of the one before.
MOST_SHORTER = 5


class SpringMatrices:
    """Constant matrices of H in the coordinates: springs, damping and added mass.

    `missed` (K, K) is the stiffness that tets and cubature miss. The first `n_free` coordinates are
    the free parameters.
    """

    def __init__(self, mass: Floats, stiffness: Floats, missed: Floats, n_free: int) -> None:
        self._mass, self._stiffness, self._missed, self._k = mass, stiffness, missed, n_free
        size = len(mass)
        self.springs, self.damping, self.inertia = np.zeros((3, size, size))
        scale = np.sqrt(np.maximum(np.diag(stiffness), 1e-300))
        even = stiffness / np.outer(scale, scale)
        #: Fraction of its stiffness that every coordinate can lose.
        self._spare = max(0.0, 0.95 * float(scipy.linalg.eigvalsh(even)[0]))

    def set(self, springs: Springs, tau: float) -> None:
        """Set the matrices for the animator's values and stages of length τ."""
        k, size = self._k, len(self._mass)
        diagonal, heavy = np.diag(self._stiffness), np.diag(self._mass)
        added = np.zeros(size)
        firm = springs.firmness - 1
        added[:k] = np.where(firm > 0, firm, self._spare * np.maximum(firm, -1.0)) + springs.follow
        null = NULL_SPRING * np.maximum(heavy, 1e-9 * heavy.max()) / tau**2
        self.springs[:] = springs.stiffness * (self._missed + np.diag(added * diagonal))
        self.springs += np.diag(null)
        damp = np.ones(size)
        damp[:k] = np.sqrt(springs.damping)
        springs_diagonal = np.diag(np.maximum(added, 0.0) * diagonal)
        stiff = springs.stiffness * (self._stiffness + springs_diagonal)
        self.damping[:] = springs.alpha * self._mass + springs.beta * stiff
        self.damping *= np.outer(damp, damp) / tau
        more = np.zeros(size)
        more[:k] = (springs.mass - 1) * heavy[:k]
        self.inertia[:] = np.diag(more) / tau**2


class CondensedSolver:
    """Solver that minimises H(c) of a stage by Gauss–Newton, with cubature of the energy.

    With `exact` the energy is summed over all tets, for tests, and with `differences` Jacobians are
    finite differences. `deferral` is the bound of `DeferredJacobian` in J/kg, 0 for a new Jacobian
    at every iteration; by default `USUAL_ENERGY` for finite differences, and 0 for others.
    """

    def __init__(
        self,
        model: RigSpaceModel,
        *,
        iterations: int = 2,
        deferral: float | None = None,
        exact: bool = False,
        differences: bool = False,
    ) -> None:
        self.iterations = iterations
        self.vertices, self._entries = model.active, model.entries
        flesh = model.flesh(self.vertices, linearised=True, differences=differences)
        self._rig, self._rotations, self._bends = flesh.rig, flesh.rotations, not flesh.rig.affine
        self.size, self._k = flesh.size, len(model.entries)
        cubature = model.cubature
        all_tets = exact or len(cubature.tets) == len(model.mesh.tets)
        # Tets that nothing moves are left out.
        moving = model.moving_tets[cubature.tets]
        chosen = np.flatnonzero(model.moving_tets) if all_tets else cubature.tets[moving]
        weights = np.ones(len(chosen)) if all_tets else cubature.weights[moving]
        missed = np.zeros((self.size, self.size)) if exact else cubature.missed
        rest = model.condensed.mass, model.condensed.stiffness
        self._rest_mass, self._own_stiffness = rest[0], rest[1] - missed
        unseen = missed.copy()
        unseen[: self._k, : self._k] += model.skin
        self._matrices = SpringMatrices(*rest, unseen, self._k)
        self._arrays = _stage_arrays(model, flesh, chosen, weights)
        self._table = ArgumentTable(self._arrays)
        #: (n, 3) flesh in the root's frame after the last call, and at the key pose.
        self.x, self.key = self._arrays.flesh.x, self._rig.key
        bound = (USUAL_ENERGY if flesh.rig.differenced else 0.0) if deferral is None else deferral
        kept = DeferredJacobian(cast(Any, flesh.rig), self._arrays.masses, bound)
        self._deferred = kept if bound > 0 and self._bends else None
        self._shapes = self._rig.rotated_shapes() is not None
        self._system = BoundedSystem(self.size)
        self._best, self._lower, self._upper = np.zeros((3, self.size))
        self._lower[:], self._upper[:] = -np.inf, np.inf
        self._weighs = False  # whether parameters have added mass
        self._contact: tuple[Floats, Floats, Floats] | None = None
        self._settings: tuple[Springs, float] | None = None
        self._tau = 0.0  # of the last stage
        self._left = 0  # stages that the Hessian is still kept for
        self._slow = False  # whether the Hessian converged slowly
        self._new, self._pace = False, 0.0  # whether it is new, and its ratio that is slow

    def place(self, pose: Floats, c: Floats) -> None:
        """Set `x` at a key pose and coordinates (K,)."""
        if self._deferred is not None:
            self._deferred.reset(c[: self._k])
        self._set_key(pose)
        self._rotations.reset()  # independent of the past
        self._turn(self.key)
        self._move(c, columns=False)
        self._left, self._slow = 0, False

    def state_arrays(self) -> dict[str, Floats]:
        """Return the arrays that later stages depend on, by name."""
        flags = np.array([self._left, self._slow, self._new, self._pace, self._tau], np.float64)
        arrays = {"rotations": self._rotations.matrices, "hessian": self._arrays.hessian}
        arrays["flags"] = flags
        return arrays | (self._deferred.state_arrays() if self._deferred else {})

    def set_state(self, state: Mapping[str, Floats], pose: Floats) -> None:
        """Set the arrays that `state_arrays` returned, at a key pose."""
        if self._deferred is not None:
            self._deferred.set_state(state)
        self._set_key(pose)
        self._rotations.matrices[:], self._arrays.hessian[:] = state["rotations"], state["hessian"]
        left, slow, new, self._pace, self._tau = state["flags"].tolist()
        self._settings = None
        self._left, self._slow, self._new = int(left), bool(slow), bool(new)
        self._system.renew()

    def _set_key(self, pose: Floats) -> None:
        """Set the key pose."""
        if not self._rig.set_key(pose, jacobian=not self._shapes):
            return
        flesh = self._arrays.flesh
        if self._shapes:
            self._rig.write_frames(flesh.frames.reshape(-1, 3, 3))
        elif not self._bends:
            flesh.shapes.reshape(*self.x.shape, -1)[:, :, : self._k] = self._rig.jacobian
        measure_tets(self._table)

    def _turn(self, positions: Floats) -> None:
        """Rotate corrections with flesh at positions (n, 3)."""
        self._rotations.follow(positions)
        if not self._bends:
            write_columns(self._table)

    def _move(self, c: Floats, *, columns: bool) -> None:
        """Set `x`, and columns of a nonlinear rig, at coordinates (K,)."""
        self._here[:] = c
        if self._bends:
            self._rig.move(self._here[: self._k], jacobian=columns)
            if columns:
                write_columns(self._table)
        place_flesh(self._table)

    def begin(self, stage: StageProblem) -> None:
        """Set the key pose of a stage, and the rotations at its end without forces."""
        springs, arrays, k = stage.springs, self._arrays, self._k
        if self._settings is None or self._settings != (springs, stage.tau):
            if self._settings is not None or stage.tau != self._tau:
                self._left = 0
            self._tau = stage.tau
            self._matrices.set(springs, stage.tau)
            self._settings = springs, stage.tau
            self._weighs = bool(np.any(springs.mass != 1))
            parts = self._matrices
            arrays.matrix[: self.size] = parts.springs + parts.damping + parts.inertia
            arrays.settings[:] = stage.tau, springs.stiffness
        begin_pull(self._matrices.damping, stage.start, stage.push, arrays.pull)
        if self._weighs:
            arrays.pull[: self.size] += np.diag(self._matrices.inertia) * stage.guess
        arrays.target[:], arrays.load[:] = stage.target, stage.load
        self._contact = None if stage.contact is None else (*stage.contact, stage.guess[:k].copy())
        self._set_key(stage.pose)
        self._turn(stage.target)

    def value(self, stage: StageProblem, c: Floats, order: int = 2) -> float:
        """Return H(c), in J, up to a constant, for a stage that has begun.

        Order 1 sets `gradient`, 2 also the `hessian`, 3 a Hessian of projected tets.
        """
        self._move(c, columns=order > 0)
        total = float(evaluate(self._table, order))
        if order >= 2:
            self._system.renew()
        if self._contact is not None:
            k, (matrix, pull, guess) = self._k, self._contact
            offsets = self._here[:k] - guess
            back = matrix @ offsets
            total += float(offsets @ (0.5 * back - pull))
            self.gradient[:k] += back - pull
            if order >= 2:
                self._arrays.hessian[:k, :k] += matrix
        return total

    @property
    def gradient(self) -> Floats:
        """(K,) ∂H/∂c at its last evaluation."""
        return self._arrays.gradient[: self.size]

    @property
    def _here(self) -> Floats:
        """Coordinates (K,) of the last evaluation; in a copy, an attribute would not be a view."""
        return self._arrays.c[: self.size]

    @property
    def hessian(self) -> Floats:
        """(K, K) Gauss–Newton Hessian at its last evaluation."""
        return self._arrays.hessian[: self.size, : self.size]

    def advance(self, stage: StageProblem, c: Floats) -> SolverReport:
        """Minimise H over a stage; write the coordinates (K,) and set `x`."""
        self.begin(stage)
        write_bounds(stage, self._entries, self._lower, self._upper)
        np.clip(stage.guess, self._lower, self._upper, out=self._best)
        report = self._minimise(stage) if self._deferred is None else self._minimise_linear(stage)
        c[:] = self._best
        return report

    def _minimise_linear(self, stage: StageProblem) -> SolverReport:
        """Minimise H with a linearised rig; if it was too nonlinear, again with a new Jacobian, and
        then with evaluations of the rig at every iteration.
        """
        deferred, k, guess = cast(Any, self._deferred), self._k, self._best.copy()
        jacobians, repeated = int(deferred.begin(guess[:k], stage.tau)), 0
        report = self._minimise(stage)
        linear = deferred.end(self._best[:k], stage.tau)
        if not linear and not jacobians:
            deferred.renew()
            report = self._again(stage, guess)
            linear = deferred.end(self._best[:k], stage.tau)
            jacobians, repeated = 1, 1
        if not linear:
            report = self._again(stage, guess)
            deferred.end(self._best[:k], stage.tau)
            jacobians, repeated = jacobians + report.counts["iterations"], repeated + 1
        self._here[:] = self._best
        place_flesh(self._table)
        report.counts |= {"jacobians": jacobians, "rollbacks": repeated}
        return report

    def _again(self, stage: StageProblem, guess: Floats) -> SolverReport:
        self._best[:], self._left = guess, 0
        return self._minimise(stage)

    def _minimise(self, stage: StageProblem) -> SolverReport:
        """Minimise H from `_best` (K,), and write the solution there."""
        limits: tuple[str, ...] = ()
        energy, done, first = self._initial_value(stage), 0, 0.0
        for done in range(1, self.iterations + 1):
            if not (math.isfinite(energy) and self._solve_change(stage)):
                limits, self._left = ("solver",), 0
                break
            change = float(np.abs(self._system.change).max())
            first = change if done == 1 else first
            if done == 2:
                self._check_convergence(change, first)
            energy = self._line_search(stage, energy, last=done == self.iterations)
        if limits:
            self._move(self._best, columns=False)
        return SolverReport({"iterations": done}, limits)

    def _check_convergence(self, second: float, first: float) -> None:
        """Decide from the largest changes in two iterations whether to keep the Hessian."""
        slow = SLOW_BENT if self._bends else SLOW_SHAPES
        if self._new:
            self._pace = max(slow * first, SLOWER * second) / max(first, 1e-300)
        elif second > self._pace * first:
            self._left, self._slow = 0, True

    def _initial_value(self, stage: StageProblem) -> float:
        """Return H at the initial guess; set its gradient, and a Hessian, new or kept.

        For shapes, which rotate with the flesh, the Hessian at rest is used unless it converged
        slowly. Other Hessians are kept for some stages.
        """
        self._left -= 1
        self._new = False
        if self._left > 0 and self._contact is None:
            return self.value(stage, self._best, 1)
        if self._bends or self._slow:
            self._slow, self._left = False, KEPT_BENT if self._bends else KEPT_SHAPES
            if self._contact is not None:  # contact terms must not be kept
                self._left = 0
            self._new = True
            return self.value(stage, self._best, 2)
        self._left, self._pace = 1 << 30, SLOW_SHAPES
        energy = self.value(stage, self._best, 1)
        hessian, size = self.hessian, self.size
        np.multiply(self._own_stiffness, stage.springs.stiffness, out=hessian)
        hessian += self._rest_mass / stage.tau**2
        hessian += self._arrays.matrix[:size]
        if self._contact is not None:
            hessian[: self._k, : self._k] += self._contact[0]
            self._left = 0
        self._system.renew()
        return energy

    def _solve_change(self, stage: StageProblem) -> bool:
        """Solve for the change that minimises the quadratic model within bounds.

        If it has no minimum, use the Hessian of projected tets. Return False if that fails too.
        """
        terms = self.gradient, self._arrays.hessian
        bounds = self._best, self._lower, self._upper
        if self._system.solve(*terms, *bounds):
            return True
        self.value(stage, self._best, 3)
        return self._system.solve(*terms, *bounds)

    def _line_search(self, stage: StageProblem, energy: float, last: bool) -> float:
        """Change the coordinates by a line search on H, and set `x`; return H.

        The gradient is evaluated as well, except after the last change. After a full step the
        Hessian is kept.
        """
        length, best, trial = 1.0, self._best, self._here
        for _ in range(MOST_SHORTER):
            np.multiply(self._system.change, length, out=trial)
            trial += best
            value = self.value(stage, trial, 0 if last else 1)
            if value <= energy + 1e-9 * abs(energy):
                best[:] = trial
                break
            length *= 0.25
        else:  # no change lowers H
            length, value = 0.0, self.value(stage, best, 0)
        if length < 1:
            self._left, self._slow = 0, True
            if not last:
                value = self.value(stage, best)
        return value


def _stage_arrays(
    model: RigSpaceModel, flesh: CorotatedFlesh, chosen: Ints, weights: Floats
) -> StageArrays:
    """Return the arrays of a solver: tables of the model, and work arrays."""
    n, K, width = len(model.active), flesh.size, padded_width(flesh.size)
    vectors = np.zeros((3, width))
    return StageArrays(
        _tet_arrays(model, chosen, weights),
        _flesh_arrays(model, flesh, width),
        settings=np.ones(2),
        masses=model.body.vertex_masses()[model.active],
        target=np.zeros((n, 3)),
        load=np.zeros((n, 3)),
        matrix=np.zeros((width, K)),
        pull=vectors[0],
        c=vectors[1],
        forces=np.zeros((n, 3)),
        rows=np.zeros(3 * width),
        gradient=vectors[2],
        hessian=np.zeros((width, width)),
    )


def _tet_arrays(model: RigSpaceModel, chosen: Ints, weights: Floats) -> TetArrays:
    mesh, count = model.mesh, len(chosen)
    part = TetMesh(mesh.vertices, mesh.tets[chosen])
    corners = np.searchsorted(model.active, part.tets)
    pattern = BlockPattern.of(corners, len(model.active))
    constants = model.material.element_parameters(len(mesh.tets))
    return TetArrays(
        model.material.code,
        corners,
        np.ascontiguousarray(weights, np.float64),
        np.ascontiguousarray(constants[chosen]),
        rest_slopes=np.ascontiguousarray(hat_gradients(part)),
        rest_volumes=part.volumes(),
        slopes=np.zeros((count, 4, 3)),
        volumes=np.zeros(count),
        pulled=np.zeros((count, 3, 3)),
        offsets=np.zeros(count),
        starts=pattern.start,
        neighbours=pattern.neighbours,
        slots=pattern.slots(corners),
        blocks=np.zeros(9 * len(pattern.neighbours)),
        small=np.zeros((3, 3, 3)),
        scratch=np.zeros((6, 3, 3)),
        derivative=np.zeros((9, 9)),
        frames=np.zeros((2, 9, 9)),
        matrix=np.zeros((12, 12)),
    )


def _flesh_arrays(model: RigSpaceModel, flesh: CorotatedFlesh, width: int) -> FleshArrays:
    rig, n = flesh.rig, len(model.active)
    inner = np.full(n, -1)
    inner[flesh.interior] = np.arange(len(flesh.interior))
    shapes = rig.rotated_shapes()
    empty = np.zeros((0 if rig.affine is False else n, 3, len(rig.entries)))
    starts, spans = column_spans(model.reached[model.active])
    return FleshArrays(
        flesh.x,
        rig.key,
        rig.positions,
        rig.jacobian if not rig.affine else empty[:0],
        inner,
        flesh.rotations.matrices,
        single_rotations=np.zeros(9 * len(flesh.interior), np.float32),
        corrections=padded_columns(flesh.corrections, width),
        frames=np.tile(np.eye(3, dtype=np.float32).ravel(), n if rig.affine else 0),
        shapes=padded_columns(empty if shapes is None else shapes, width),
        columns=np.zeros(3 * width * n, np.float32),
        starts=starts,
        spans=spans,
    )
