"""Stepping a soft skeleton: bones, flesh and what they touch, in one system."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints, Singles
from supple.checks import checked_number, owned_array, shown
from supple.dynamics.between_poses import PoseTrack
from supple.dynamics.character_inputs import (
    Before,
    CharacterInputs,
    Forces,
    Given,
    checked_stiffness,
)
from supple.dynamics.integrators import integrator_named
from supple.engines.rig_space.stage_history import History
from supple.engines.soft_skeleton.bones.body_points import BodyPoints, add_point_terms
from supple.engines.soft_skeleton.bones.bone_chain import BoneChain
from supple.engines.soft_skeleton.bones.rig_bones import RigBones
from supple.engines.soft_skeleton.contact.body_contact import BodyContact
from supple.engines.soft_skeleton.flesh.flesh_energy import add_flesh_terms
from supple.engines.soft_skeleton.model import SoftSkeletonModel
from supple.errors import SuppleError
from supple.linalg.upper_triangle import cholesky, padded_identity, solve
from supple.mesh.obstacles import Obstacle

__all__ = ["SoftSkeletonSimulator", "SoftSkeletonStep"]


class SoftSkeletonStep(NamedTuple):
    """Report of one step."""

    time: float
    limits: tuple[str, ...]
    readings: dict[str, Any]


class SoftSkeletonSimulator:
    """Steps bones and flesh of a body that follows a motion by springs.

    Parameters
    ----------
    model
        Model of the body.
    dt
        Seconds from one pose to the next.
    substep
        Longest step of time inside, in s.
    iterations
        Newton iterations a sub-step.
    tracking
        Frequency in Hz of the springs, critically damped, that pull each joint to the pose; 0 for a
        body that is limp.
    root
        ``"driven"``: the first bone is where pose and root have it; ``"tracked"``: springs pull it
        there, too; ``"free"``.
    gravity
        In m/s².
    alpha, beta
        Damping αM + βK of the flesh, in 1/s and s.
    friction
        Coefficient of friction.
    obstacles
        Solid things in the world.
    """

    def __init__(
        self,
        model: SoftSkeletonModel,
        dt: float = 1 / 90,
        *,
        substep: float = 1 / 90,
        integrator: str = "bdf2",
        iterations: int = 1,
        tracking: float = 8.0,
        root: str = "driven",
        gravity: ArrayLike = (0.0, -9.81, 0.0),
        alpha: float = 0.5,
        beta: float = 0.01,
        friction: float = 0.5,
        obstacles: Sequence[Obstacle] = (),
    ) -> None:
        if not isinstance(model, SoftSkeletonModel):
            raise SuppleError(f"a SoftSkeletonSimulator needs its own model, not {shown(model)}")
        self.model, self._dt = model, checked_number("dt", dt)
        self._integrator = integrator_named(integrator, lambda row: row.code >= 0)
        self.substeps = max(1, math.ceil(self._dt / substep - 1e-6))
        self._h = self._dt / self.substeps
        self.iterations, self.tracking = int(iterations), checked_number("tracking", tracking)
        if root not in ("driven", "tracked", "free"):
            raise SuppleError(f"root is {shown(root)}; use driven, tracked or free")
        self.root_mode = root
        self.gravity = owned_array("gravity", gravity, (3,))
        self._alpha, self._beta, self._stiff = float(alpha), float(beta), 1.0
        self._bones = RigBones(model.rig)
        self.chain = BoneChain(model.parents, model.joints)
        self._wanted = BoneChain(model.parents, model.joints)
        self._start = BoneChain(model.parents, model.joints)
        self._points, self._skin = BodyPoints(model.points), BodyPoints(model.skin)
        self._m = len(model.stiffness)
        self.size = self.chain.size + self._m
        self.phi, self._rate = np.zeros(self._m), np.zeros(self.size)
        self._world = History(self._points.x.shape)
        self._skin_at = History(self._skin.x.shape)
        self._gradient, self._hessian = np.zeros(self.size), np.zeros((self.size, self.size))
        self._factor = padded_identity(self.size)
        self._forces = np.zeros_like(self._points.x)
        self.contact = BodyContact(model, float(friction))
        self._inputs = CharacterInputs(model)
        self.obstacles = tuple(obstacles)
        self.reset()

    @property
    def dt(self) -> float:
        """Seconds from one pose to the next."""
        return self._dt

    @property
    def time(self) -> float:
        """Seconds since the reset."""
        return self._steps * self._dt

    @property
    def stiffness(self) -> float:
        """Factor on the model's stiffness, to be set between steps."""
        return self._stiff

    @stiffness.setter
    def stiffness(self, factor: float) -> None:
        self._stiff = checked_stiffness(factor)

    @property
    def parameters(self) -> Floats:
        """Pose of the rig as the bones have it, in the root's frame."""
        turn, shift = self.root[:3, :3], self.root[:3, 3]
        first = (self.chain.places[0] - shift) @ turn
        return self._bones.pose(np.swapaxes(turn, 0, 1) @ self.chain.turns, first, self.pose)

    def reset(
        self, pose: Given = None, root: Given = None, *, before: Before | None = None
    ) -> None:
        """Start anew, undeformed: at rest, or as fast as from `before`, a step earlier."""
        there, place, past = self._inputs.start(pose, root, before)
        self.phi[:] = 0.0
        self._rate[:] = 0.0
        self._go(there, place, past)
        self._steps = 0

    def carry(
        self, pose: Given = None, root: Given = None, *, before: Before | None = None
    ) -> None:
        """Go to a pose and root with the flesh as it is."""
        there, place, past = self._inputs.start(pose, root, before)
        self._go(there, place, past, self._lean())

    def _lean(self) -> Floats:
        """(1 + K, 3) how the bones are beside their pose, in the axes of what each hangs on."""
        self._place(self._wanted, self.pose, self.root)
        found = self._wanted.difference(self.chain).reshape(-1, 3)
        return np.einsum("kji,kj->ki", self._axes(self.chain, self.root), found)

    def _axes(self, chain: BoneChain, root: Floats) -> Floats:
        return np.concatenate([[root[:3, :3]] * 2, chain.turns[chain.parents[1:]]])

    def _go(
        self,
        pose: Floats,
        root: Floats,
        past: tuple[Floats, Floats] | None,
        lean: Floats | None = None,
    ) -> None:
        earlier = (pose, root) if past is None else past
        self._place(self.chain, *earlier, lean)
        self._points.place(self.chain, self.phi)
        self._skin.place(self.chain, self.phi)
        before, skin_before = self._points.x.copy(), self._skin.x.copy()
        self._start.place(self.chain.turns, self.chain.places[0], self.chain.slides)
        self._place(self.chain, pose, root, lean)
        self._points.place(self.chain, self.phi)
        self._skin.place(self.chain, self.phi)
        self._world.reset(self._points.x, (self._points.x - before) / self._dt)
        self._skin_at.reset(self._skin.x, (self._skin.x - skin_before) / self._dt)
        bones = self.chain.size
        self._rate[:bones] = self._start.difference(self.chain) / self._dt
        self.pose, self.root = pose.copy(), root.copy()
        self._track = PoseTrack(self.pose, self.root)
        if past is not None:
            self._track = PoseTrack.moving(*past, self.pose, self.root)
        self.contact.reset()

    def _place(
        self, chain: BoneChain, pose: Floats, root: Floats, lean: Floats | None = None
    ) -> None:
        """Put bones where a pose and root have them, or beside it."""
        turns, first, slides = self._bones.turns(pose)
        turn = root[:3, :3]
        chain.place(turn @ turns, turn @ first + root[:3, 3], slides)
        if lean is not None:
            chain.change(np.einsum("kij,kj->ki", self._axes(chain, root), lean).ravel())

    def step(
        self, pose: Given = None, root: Given = None, forces: Forces | None = None
    ) -> SoftSkeletonStep:
        """Advance by `dt` towards a pose and root, with forces in N on vertices of the skin."""
        there = self._inputs.pose(pose, self.pose)
        turned = self._inputs.root(root, self.root)
        pushed = None if not forces else self._inputs.forces(forces)
        readings: dict[str, Any] = {"substeps": self.substeps}
        limits: list[str] = []
        way = [(there.copy(), turned.copy())]
        if self.substeps > 1:
            way = list(self._track.towards(there, turned, self.substeps))
        else:
            self._track.towards(there, turned, 1)
        for at, placed in way:
            if not self._substep(at, placed, pushed):
                limits.append("solver")
        readings |= self.contact.readings
        self._steps += 1
        return SoftSkeletonStep(self.time, tuple(limits), readings)

    def _substep(self, pose: Floats, root: Floats, pushed: tuple[Ints, Floats] | None) -> bool:
        chain, h = self.chain, self._h
        bones = chain.size
        tau = self._world.begin(self._integrator, h)
        self._skin_at.begin(self._integrator, h)
        self._place(self._wanted, pose, root)
        chain.copy_to(self._start)
        phi_start = self.phi.copy()
        guess = h * self._rate
        chain.slides[:] = self._wanted.slides
        chain.change(guess[:bones])
        self.phi += guess[bones:]
        if self.root_mode == "driven":
            chain.place_first(self._wanted.turns[0], self._wanted.places[0])
        done = True
        for _ in range(self.iterations):
            self._points.place(chain, self.phi)
            self._skin.place(chain, self.phi)
            self._evaluate(tau, phi_start, pushed)
            if not self._solved():
                done = False
                break
            chain.change(-self._gradient[:bones])
            self.phi -= self._gradient[bones:]
        if not (np.isfinite(self.phi).all() and np.isfinite(chain.turns).all()):
            self._start.copy_to(chain)
            self.phi[:] = phi_start
            done = False
        self._points.place(chain, self.phi)
        self._skin.place(chain, self.phi)
        self._world.finish(self._points.x, tau)
        self._skin_at.finish(self._skin.x, tau)
        self._rate[:bones] = self._start.difference(chain) / h
        self._rate[bones:] = (self.phi - phi_start) / h
        self.pose, self.root = pose, root
        return done

    def _evaluate(self, tau: float, phi_start: Floats, pushed: tuple[Ints, Floats] | None) -> None:
        """Write gradient and Hessian of H where bones and flesh are."""
        model, chain, points = self.model, self.chain, self._points
        gradient, hessian, bones = self._gradient, self._hessian, chain.size
        gradient[:], hessian[:] = 0.0, 0.0
        rate = 1 / tau**2
        np.subtract(points.x, self._world.target, out=self._forces)
        self._forces *= rate
        self._forces -= self.gravity
        self._forces *= model.masses[:, None]
        frames = chain.turns, chain.shifts, chain.places, self.phi
        masses = model.masses * rate
        add_point_terms(
            points.tables, points.offsets, *frames, self._forces, masses, gradient, hessian
        )
        code = model.material.code
        add_flesh_terms(code, self._stiff, model.flesh, self.phi, bones, gradient, hessian, 2)
        damp = self._beta * self._stiff / tau
        gradient[bones:] += damp * (model.stiffness @ (self.phi - phi_start))
        hessian[bones:, bones:] += damp * model.stiffness
        self._add_tracking(tau)
        if pushed is not None:
            self.contact.add_forces(self._skin, chain, self.phi, *pushed, gradient)
        self.contact.add(
            self._skin, chain, self.phi, self._skin_at.start, tau, self.obstacles, gradient, hessian
        )

    def _add_tracking(self, tau: float) -> None:
        """Add springs, critically damped, that pull joints towards the pose."""
        if not self.tracking:
            self._add_null()
            return
        omega = 2 * math.pi * self.tracking
        first = 0 if self.root_mode == "tracked" else 1
        error = self.chain.errors(self._wanted)
        moved = self.chain.errors(self._start)
        spring = self.model.inertias * omega**2
        damper = 2 * self.model.inertias * omega / tau
        for joint in range(first, len(spring)):
            rows = slice(3 + 3 * joint, 6 + 3 * joint)
            self._gradient[rows] += spring[joint] * error[joint] + damper[joint] * moved[joint]
            for row in range(rows.start, rows.stop):
                self._hessian[row, row] += spring[joint] + damper[joint]
        if self.root_mode == "tracked":
            mass = float(self.model.masses.sum())
            away = self.chain.places[0] - self._wanted.places[0]
            back = self.chain.places[0] - self._start.places[0]
            self._gradient[:3] += mass * omega**2 * away + 2 * mass * omega / tau * back
            for row in range(3):
                self._hessian[row, row] += mass * omega**2 + 2 * mass * omega / tau
        self._add_null()

    def _add_null(self) -> None:
        """Hold what nothing holds: a millionth of the largest of the diagonal."""
        diagonal = np.einsum("ii->i", self._hessian)
        diagonal += 1e-9 * diagonal.max()

    def _solved(self) -> bool:
        """Replace the gradient by the change that is subtracted; False where it fails."""
        if self.root_mode == "driven":
            self._gradient[:6] = 0.0
            self._hessian[:6] = 0.0
            np.einsum("ii->i", self._hessian[:6, :6])[:] = 1.0
        n = self.size
        self._factor[:n, :n] = self._hessian
        self._factor[:n, n:] = 0.0
        if not cholesky(self._factor):
            return False
        full = np.zeros(len(self._factor))
        full[:n] = self._gradient
        solve(self._factor, full)
        self._gradient[:] = full[:n]
        return True

    def surface(self, out: Singles | None = None) -> Singles:
        """Return the skin in the world, (n̄, 3) float32. `out` is overwritten."""
        target = self._inputs.skin(out)
        target[:] = self._skin.x
        if self.contact.pressed:
            target += self.contact.dent(self._skin, self.chain)
        return target
