"""Unreduced simulation of a character, the reference for reduced engines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.arrays import Floats, Singles
from supple.checks import checked_number, checked_whole_numbers, shown
from supple.dynamics.character_inputs import Before, CharacterInputs, Forces, Given, checked_factors
from supple.dynamics.implicit import StepReport
from supple.dynamics.motion_steps import MotionSteps, PoseTrack, motion_steps
from supple.dynamics.root_frame import acting_gravity, checked_gravity_mode, to_world
from supple.elastic.body import LEAST_REST_VOLUME, ElasticBody
from supple.elastic.material import Material
from supple.engines.common.flesh_fields import FleshFields
from supple.engines.common.simulator import CharacterSimulator, Loads
from supple.engines.common.state import State
from supple.engines.full.full_body import FullBodySimulator
from supple.errors import SuppleError
from supple.mesh.obstacles import Obstacle
from supple.progress import PartDone
from supple.rig.inverse_skinning import SkinTransfer
from supple.rig.motion.motion import Motion

MOST_SUBSTEPS = 10_000
#: Arrays of the state, (s,), (4, 4) and (n, 3).
_STATE = ("pose", "root", "rest", "_rest_before", "_u", "_v", "_a")


class FullCharacterSimulator(FullBodySimulator, CharacterSimulator):
    """Simulator of all tets of a character; `supple.FullSimulator` makes one of a model.

    M ü + D u̇ + f(x + u, x) = f_ext − M ẍ in the world, with x = R Φ(p) + t the rest shape of rig
    and root, and the skin at R Φ̄(p) + t + A u (xu2016 §4). Materials follow the pose (xu2016 eq.
    36), and fixed vertices follow the rig. Tets that a pose flattens are left out; `limits` of the
    step then has ``"rest"``.

    Parameters
    ----------
    model
        Skin, tets, rigs and material: a `FullModel`, or a `PoseSpaceModel`, whose reduction is
        ignored.
    dt
        Seconds from one pose to the next.
    substeps
        Time steps per `dt`; `run` evaluates the motion at each, `step` interpolates the poses.
    integrator, newton, tolerance, psd, lumped
        As for `FullBodySimulator`.
    alpha, beta
        Rayleigh damping D = αM + βK, in 1/s and s.
    gravity, gravity_mode
        In m/s². ``"relative"``: only the change by the root's rotation acts, g − R g, because the
        sculpted shape already sags; ``"absolute"`` or ``"none"``.
    acceleration_limit
        In m/s². Accelerations of the rest shape are limited to this; a step in which their root
        mean square exceeds it is treated as a cut in the animation. Infinite by default.

    Attributes
    ----------
    pose, root
        Last pose (s,) and root (4, 4).
    unconverged_steps
        Sub-steps since `reset` that did not converge to the tolerance.
    """

    time: float = 0.0
    _varying: ClassVar = ("before",)

    def __init__(
        self,
        model: FleshFields,
        dt: float = 1 / 90,
        *,
        substeps: int = 1,
        integrator: str = "backward-euler",
        newton: int = 1,
        tolerance: float = 1e-9,
        alpha: float = 0.5,
        beta: float = 0.01,
        gravity: ArrayLike = (0.0, -9.81, 0.0),
        gravity_mode: str = "relative",
        acceleration_limit: float = np.inf,
        psd: bool = False,
        lumped: bool = True,
    ) -> None:
        if not isinstance(model, FleshFields):
            raise SuppleError(
                f"a FullCharacterSimulator needs a FullModel or a PoseSpaceModel, "
                f"not {shown(model)}"
            )
        (self.substeps,) = checked_whole_numbers("substeps", [substeps])
        if not 1 <= self.substeps <= MOST_SUBSTEPS:
            raise SuppleError(f"substeps must be 1 to {MOST_SUBSTEPS:,}, not {substeps}")
        self.model, self.gravity_mode = model, checked_gravity_mode(gravity_mode)
        self._acceleration_limit = np.inf
        if not (isinstance(acceleration_limit, float) and acceleration_limit == np.inf):
            self._acceleration_limit = checked_number("acceleration_limit", acceleration_limit)
        if not self._acceleration_limit > 0:
            raise SuppleError(f"acceleration_limit is {acceleration_limit}; use a positive number")
        self._factors: Floats | None = None
        self._damping: Floats | None = None
        # Pose, root and rest shape of the next step, if it was evaluated in advance.
        self._next: tuple[Floats, Floats, Floats] | None = None
        self._inputs = CharacterInputs(model, model.pose_weights.scales)
        self._spread = model.embedding.T.tocsr()
        # The base's constructor calls `reset`, which needs these.
        self.pose, self.root = model.rig.rest_pose.copy(), np.eye(4)
        body = ElasticBody(model.mesh, model.material())
        body.leave_out(LEAST_REST_VOLUME)
        super().__init__(
            body,
            dt,
            fixed=model.fixed,
            integrator=integrator,
            newton=newton,
            tolerance=tolerance,
            alpha=alpha,
            beta=beta,
            gravity=gravity,
            psd=psd,
            lumped=lumped,
        )

    def reset(  # type: ignore[override]
        self, pose: Given = None, root: Given = None, *, before: Before | None = None
    ) -> None:
        """Restart undeformed; see `CharacterSimulator.reset`."""
        with self._undone_on_failure():
            CharacterSimulator.reset(self, pose, root, before=before)

    def _start(
        self, pose: Floats, root: Floats, before: tuple[Floats, Floats] | None, *, keep_flesh: bool
    ) -> None:
        flesh = (self.root, self._u, self._v) if keep_flesh else None
        self.pose, self.root = pose.copy(), root.copy()
        self._follow_material(self.pose)
        rest, earlier = self._shape(self.pose, self.root), None
        self._track = PoseTrack(self.pose, self.root)
        if before is not None:
            self._track = PoseTrack.moving(*before, self.pose, self.root)
            earlier = rest - (rest - self._shape(*before)) / self.substeps
        FullBodySimulator.reset(self, rest=rest, rest_before=earlier)
        if flesh is not None:
            last_root, u, v = flesh
            rotation = self.root[:3, :3] @ last_root[:3, :3].T
            self._u, self._v = u @ rotation.T, v @ rotation.T

    def step(  # type: ignore[override]
        self,
        pose: Given = None,
        root: Given = None,
        forces: Forces | None = None,
        *,
        ahead: Before | None = None,
    ) -> StepReport:
        """Advance by `dt`; see `CharacterSimulator.step`.

        Forces act during the whole step, on the tets in which the skin vertices are embedded.
        `ahead` has pose and root one `dt` later: Φ̈ is then the central difference at the end of
        the step, as in `run` with `centred`. It requires `substeps` = 1.
        """
        with self._undone_on_failure():
            target = self._inputs.pose(pose, self.pose)
            target_root = self._inputs.root(root, self.root)
            loads = None if forces is None else self._inputs.forces(forces)
            later = None
            if ahead is not None:
                later = self._inputs.earlier(ahead, target, target_root)
                if self.substeps > 1:
                    raise SuppleError("`ahead` needs substeps=1; use a smaller dt instead")
            return self.advance(target, target_root, loads, later)

    def advance(
        self,
        pose: Floats,
        root: Floats,
        loads: Loads | None,
        later: tuple[Floats, Floats] | None = None,
    ) -> StepReport:
        """Advance the state by `dt`; `later` has pose and root one `dt` later, or is None."""
        load = self._skin_load(loads)
        self._track = self._track.fork()
        report = StepReport(converged=True)
        for at, placed in self._track.towards(pose, root, self.substeps):
            shape = self._shape(at, placed)
            next_shape = None if later is None else self._shape_ahead(*later)
            self._substep(at, placed, shape, load, next_shape, report)
        report.time = self.time
        return report

    @property
    def flesh(self) -> tuple[Floats, Floats]:
        """Displacements and velocities (n, 3) relative to the rest shape; not to be changed."""
        return self._u, self._v

    def change_step(
        self,
        dt: float,
        before: tuple[Floats, Floats] | None,
        flesh: tuple[Floats, Floats] | None,
    ) -> None:
        """Continue with another time step.

        Parameters
        ----------
        dt
            The new step in s.
        before
            Pose and root one new step earlier; None for a rig at rest.
        flesh
            `flesh` one new step earlier, for multistep integrators; None restarts their history.
        """
        self.dt = dt
        self._rest_before = self.rest if before is None else self._shape(*before)
        self._before = flesh if self._method.looks_back else None

    def teleport(
        self, pose: Given = None, root: Given = None, *, before: Before | None = None
    ) -> None:
        """Go to a pose and root without inertia; see `CharacterSimulator.teleport`."""
        with self._undone_on_failure():
            CharacterSimulator.teleport(self, pose, root, before=before)

    def _apply_stiffness(self) -> None:
        self._set_material(self._material(self.pose))

    def _set_material(self, material: Material) -> None:
        self.body.set_material(material)
        if (body := self._solver.damping_body) is not None:
            body.set_material(replace(material, young=self._damping * np.asarray(material.young)))

    @property
    def local_stiffness(self) -> Floats | None:
        """Factors (T,) on the tets' stiffness, or None if all are 1; may be set between steps."""
        return None if self._factors is None else self._factors.copy()

    @local_stiffness.setter
    def local_stiffness(self, factors: ArrayLike | None) -> None:
        checked = None if factors is None else checked_factors(factors, len(self.model.mesh.tets))
        self._factors = checked
        self._apply_stiffness()

    @property
    def local_damping(self) -> Floats | None:
        """Factors (T,) on β of the tets, None if all are 1; may be set between steps."""
        return self._damping

    @local_damping.setter
    def local_damping(self, factors: ArrayLike | None) -> None:
        self._damping = self._solver.damping_body = None
        if factors is not None:
            self._damping = checked_factors(factors, len(self.model.mesh.tets), "damping")
            self._solver.damping_body = ElasticBody(self.model.mesh, self.body.material)
            self._solver.damping_body.leave_out(LEAST_REST_VOLUME)
        self._apply_stiffness()

    @property
    def obstacles(self) -> tuple[Obstacle, ...]:
        """Empty: the unreduced simulation has no contact."""
        return ()

    @obstacles.setter
    def obstacles(self, obstacles: Sequence[Obstacle]) -> None:
        if obstacles:
            raise SuppleError("the engine full has no contact with obstacles; use pose-space")

    def surface(self, out: Singles | None = None) -> Singles:
        """Return the skin in the world, R Φ̄(p) + t + A u, (n̄, 3) float32: a new array, or `out`."""
        target = self._inputs.skin(out)
        rest = to_world(self.root, self.model.rig(self.pose))
        target[...] = rest + self.model.embedding @ self._u
        return target

    def _state_arrays(self) -> dict[str, NDArray[Any]]:
        arrays = {name: getattr(self, name) for name in _STATE}
        arrays["counts"] = np.array([self.time, float(self.unconverged_steps)])
        arrays["track"] = self._track.slopes
        if self._before is not None:
            arrays["before"] = np.stack(self._before)
        return arrays

    def _set_state(self, state: State) -> None:
        if "before" in state and state["before"].shape != (2, *self._u.shape):
            raise SuppleError(f"`before` of the state must have shape {(2, *self._u.shape)}")
        with self._undone_on_failure():
            for name in _STATE:
                setattr(self, name, state[name].copy())
            self._before = None
            if "before" in state:
                self._before = state["before"][0].copy(), state["before"][1].copy()
            self.time, self.unconverged_steps = float(state["counts"][0]), int(state["counts"][1])
            self._track = PoseTrack.resumed(self.pose, self.root, state["track"])
            self._follow_material(self.pose)

    def run(
        self,
        motion: Motion | str,
        *,
        out: Singles | None = None,
        centred: bool = False,
        progress: PartDone | None = None,
    ) -> Singles:
        """Step through a motion; return the skin at every `dt`, (t, n̄, 3) float32.

        Parameters
        ----------
        motion
            Motion, or the name of one of the model's. It is evaluated at the sub-steps; at cuts the
            flesh is reset.
        out
            (t, n̄, 3) float32 to write to.
        centred
            Compute Φ̈ by central differences at each sub-step, rather than from the last three rest
            shapes. This needs the next pose, and makes `"bdf2"` and `"newmark"` of second order
            for a moving rig.
        progress
            Called with the completed part, 0 to 1.

        Raises
        ------
        SuppleError
            If a step fails; the simulator is then unchanged.
        """
        steps = motion_steps(self._inputs.motion(motion, self.model.motions), self._h)
        transfer = SkinTransfer(self.model.rig, self.model.surface.triangles)
        frames = self._inputs.frames(out, (steps.motion.n_frames - 1) // self.substeps + 1)
        last = (len(frames) - 1) * self.substeps
        with self._undone_on_failure():
            for index in range(last + 1):
                self._play(steps, index, centred)
                if index % self.substeps == 0:
                    self.surface(frames[index // self.substeps])
                    steps.show(transfer, index, frames[index // self.substeps])
                    if progress is not None:
                        progress((index + 1) / (last + 1))
            self._track = PoseTrack(self.pose, self.root)
        return frames

    def _play(self, steps: MotionSteps, index: int, centred: bool) -> None:
        """Advance to a sub-step of a motion; reset at the first one and at cuts."""
        fine = steps.motion
        pose, root = fine.poses[index], fine.roots[index]
        last = index + 1 == fine.n_frames or index + 1 in {*fine.cuts, *steps.jumps}
        jumps = index in steps.jumps
        if index == 0 or index in fine.cuts or jumps:
            time, unconverged = (0.0, 0) if index == 0 else (self.time, self.unconverged_steps)
            (self.teleport if jumps else self.reset)(pose, root)
            if not last:
                # The initial velocity is that of the next step.
                ahead = self._shape_ahead(fine.poses[index + 1], fine.roots[index + 1])
                self._rest_before = 2 * self.rest - ahead
            self.time, self.unconverged_steps = time, unconverged
            return
        shape, next_shape = self._shape(pose, root), None
        if centred and not last:
            next_shape = self._shape_ahead(fine.poses[index + 1], fine.roots[index + 1])
        self._substep(pose, root, shape, np.zeros_like(shape), next_shape, StepReport())

    def _substep(
        self,
        pose: Floats,
        root: Floats,
        shape: Floats,
        load: Floats,
        next_shape: Floats | None,
        report: StepReport,
    ) -> None:
        self._follow_material(pose)
        self.pose, self.root = pose.copy(), root.copy()
        delta2 = shape - 2 * self.rest + self._rest_before
        if next_shape is not None:
            centred = next_shape - 2 * shape + self.rest
            delta2 = self._in_step(delta2, centred)
        delta2, acted = self._limited(delta2)
        done = self._advance(shape, self._weight() + load, delta2)
        report.iterations += done.iterations
        report.converged &= done.converged
        acted += ("rest",) if self.body.left_out else ()
        report.limits = tuple(sorted({*report.limits, *acted}))
        for part, seconds in done.seconds.items():
            report.seconds[part] += seconds

    def _shape(self, pose: Floats, root: Floats) -> Floats:
        """Return the rest shape of the tets in the world, R Φ(p) + t."""
        if self._next is not None:
            next_pose, next_root, next_shape = self._next
            if np.array_equal(pose, next_pose) and np.array_equal(root, next_root):
                return next_shape
        return np.ascontiguousarray(to_world(root, self.model.tet_rig(pose)))

    def _limited(self, delta2: Floats) -> tuple[Floats, tuple[str, ...]]:
        """Return h²Φ̈ within the acceleration limit, and names of limits that were applied."""
        limit = self._acceleration_limit * self._h**2
        lengths = np.linalg.norm(delta2, axis=1)
        if not lengths.max() > limit:
            return delta2, ()
        if np.square(lengths).mean() > limit**2:
            return np.zeros_like(delta2), ("teleport",)
        parts = np.minimum(1.0, limit / np.maximum(lengths, limit))
        return delta2 * parts[:, None], ("acceleration",)

    def _shape_ahead(self, pose: Floats, root: Floats) -> Floats:
        """Return the rest shape (n, 3) at the next step's pose and root; store it."""
        self._next = pose.copy(), root.copy(), self._shape(pose, root)
        return self._next[2]

    def _follow_material(self, pose: Floats) -> None:
        if self.model.material_varies:
            self._set_material(self._material(pose))

    def _material(self, pose: Floats) -> Material:
        weights = self.model.pose_weights(pose) if self.model.material_varies else None
        material = self.model.material(weights)
        if self._stiffness == 1 and self._factors is None:
            return material
        local = 1.0 if self._factors is None else self._factors
        return replace(material, young=self._stiffness * local * np.asarray(material.young))

    def _weight(self) -> Floats:
        acting = acting_gravity(self.gravity_mode, self.gravity, self.root)
        return (self.mass @ np.tile(acting, self.body.n_vertices)).reshape(-1, 3)

    def _skin_load(self, loads: Loads | None) -> Floats:
        """Return Aᵀ f, forces (n, 3) on tet vertices equivalent to forces f on the skin."""
        if loads is None:
            return np.zeros_like(self.body.rest)
        forces = np.zeros(self.model.surface.vertices.shape)
        vertices, values = loads
        forces[vertices] = values
        return self._spread @ forces

    @contextmanager
    def _undone_on_failure(self) -> Iterator[None]:
        """Restore all attributes on an error; arrays of the state are never written in place."""
        state = self.__dict__.copy()
        material = state["body"].material if "body" in state else None
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(state)
            if material is not None and self.body.material is not material:
                self._set_material(material)
            raise
