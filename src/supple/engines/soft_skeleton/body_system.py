"""System of a step: gradient and Hessian of bones, flesh and objects, and its solution."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from supple.arrays import Floats, Ints
from supple.compiled.jit import compiled, compiled_fused
from supple.dynamics.integrators import Integrator
from supple.engines.common.inversion import InversionWatch
from supple.engines.common.stage_history import History
from supple.engines.common.state import State
from supple.engines.soft_skeleton.bones.body_points import (
    BodyPoints,
    PointTables,
    PosedPoints,
    add_point_terms,
    write_columns,
)
from supple.engines.soft_skeleton.bones.bone_chain import BoneChain
from supple.engines.soft_skeleton.bones.joint_springs import (
    JointLimits,
    add_joint_terms,
    joint_springs,
    write_torques,
    write_tracking,
)
from supple.engines.soft_skeleton.contact.contact import BodyContact
from supple.engines.soft_skeleton.flesh.flesh_energy import add_flesh_terms, write_orientation
from supple.engines.soft_skeleton.model import SoftSkeletonModel
from supple.engines.soft_skeleton.step_inputs import not_negative
from supple.engines.soft_skeleton.system_solution import SystemSolution

#: Largest rotation of a joint in one iteration, in rad.
MAX_ROTATION = 1.5
#: Time constant of contact damping in s; with a shorter one, bodies pushed out of colliders fly
#: off.
CONTACT_DAMPING = 0.03
#: Largest acceleration in m/s² by the springs of a tracked root.
MAX_PULL = 50.0
#: Largest |F − I| of flesh; beyond it, flesh is cut to it, unless contacts hold it.
FARTHEST = 10.0
#: Change of velocity in m/s within a step that counts as an impact.
ROUGH = 0.5


class BodySystem:
    """Energy H(q) of a stage, its derivatives, and the Newton step in q.

    H = ½ Σ m |x − x̂|²/τ² − Σ m g·x + W(φ) + damping + springs of joints + contact. Sums are over
    mass points x of bones, flesh and objects, with the integrator's targets x̂ and effective step τ.
    W is the elastic energy of the flesh. The coordinates q are 3 + 3K of bones, φ (m,) of flesh,
    and 6 per object. The flesh is damped by `alpha` M + `beta` K; `sag` is whether gravity deforms
    it at rest.
    """

    def __init__(
        self,
        model: SoftSkeletonModel,
        contact: BodyContact,
        alpha: float,
        beta: float,
        sag: bool,
        limits: JointLimits,
    ) -> None:
        self.model, self._contact, self._sag = model, contact, sag
        self._bones, self._m = 3 + 3 * len(model.parents), len(model.stiffness)
        self.phi, self.stiff, self.root_mode = np.zeros(self._m), 1.0, "driven"
        self._points = BodyPoints(model.points)
        self._world, self._flesh = History(self._points.x.shape), History((self._m,))
        self._rate, self._gain = (np.zeros(self._bones + self._m) for _ in range(2))
        mass = _flesh_mass(model.points, model.masses, self._m)
        self._damping = _upper_rows(model.stiffness, alpha * mass)
        self._beta = beta
        energy = float(np.mean(np.asarray(model.material.young)) * model.flesh.volumes.sum())
        self._watch, self._found = InversionWatch(energy), np.zeros(3)
        self._away = np.zeros_like(self._points.x)
        self.gravity, self._preload = np.zeros(3), np.zeros(self._m)
        self._springs, self._borne = joint_springs(model.inertias, limits), model.borne_masses()
        self._torques, self._joint_forces = np.zeros((2, len(model.parents), 3))
        self._joint_stiffness = np.zeros((len(model.parents), 3, 3))
        self._held, self._reaction = np.zeros((len(model.parents), 3)), np.zeros(6)
        self.pulling, self.turned, self._tau, self._tracking = 0.0, 0.0, 0.0, 0.0
        self.allocate()

    def allocate(self) -> None:
        """Allocate arrays for the coordinates of bones, flesh and objects."""
        objects = self._contact.motion.size
        self.size = self._bones + self._m + objects
        self._gradient, self._hessian = np.zeros(self.size), np.zeros((self.size, self.size))
        self._solution = SystemSolution(self._bones, self._m, objects)
        self._weight, self._since = np.zeros(self.size), np.zeros(self.size)

    def set_tracking(self, frequency: float, strength: float) -> None:
        """Set springs to the pose of a frequency in Hz, and at least `strength` in N m/(rad kg)."""
        self._tracking = frequency
        write_tracking(self._springs, self.model.inertias, frequency, strength * self._borne)

    def set_joints(self, stiffness: float, damping: float) -> None:
        """Set springs of the joints to the bind pose, and their dampers, by frequencies in Hz."""
        soft = 2 * math.pi * not_negative("joint_stiffness", stiffness, " Hz")
        slow = 2 * math.pi * not_negative("joint_damping", damping, " Hz")
        self._springs.rest[:] = self.model.inertias * soft**2
        self._springs.drags[:] = 2 * self.model.inertias * slow

    def set_gravity(self, gravity: Floats, rest: Floats) -> None:
        """Set gravity (3,) in m/s², and unless `sag` its preload at rotations `rest` (K, 3, 3)."""
        self.gravity[:] = gravity
        self._preload[:] = 0.0
        if not self._sag:
            _write_preload(self.model.points, self.model.masses, rest, gravity, self._preload)

    def start(self, before: BoneChain, now: BoneChain, dt: float) -> None:
        """Start at the bones `now`, with the velocities from `before` to `now` in `dt` seconds."""
        self._points.place(before, self.phi)
        earlier = self._points.x.copy()
        self._points.place(now, self.phi)
        self._start_history((self._points.x - earlier) / dt, before.difference(now) / dt)

    def reset(self) -> None:
        """Set flesh to rest."""
        self.phi[:] = 0.0
        self._watch.reset()

    def start_moving(self, chain: BoneChain, speeds: Floats) -> None:
        """Start with velocities (3 + 3K,) of the bones: m/s of the first joint, then rad/s."""
        small, ends = 1e-6, []
        for sign in (1, -1):
            displaced_chain = chain.fork()
            displaced_chain.change(sign * small * speeds)
            self._points.place(displaced_chain, self.phi)
            ends.append(self._points.x.copy())
        self._points.place(chain, self.phi)
        self._start_history((ends[0] - ends[1]) / (2 * small), speeds)

    def _start_history(self, velocities: Floats | float, rates: Floats | float) -> None:
        """Reset to the current points, with velocities (n, 3), and rates (3 + 3K,) of bones."""
        self._world.reset(self._points.x, velocities)
        self._flesh.reset(self.phi)
        self._rate[:], self._gain[:] = 0.0, 0.0
        self._rate[: self._bones] = rates

    @property
    def speed(self) -> float:
        """Speed of the fastest point of the body, m/s."""
        return float(_fastest(self._world.v))

    def momentum(self) -> tuple[Floats, Floats]:
        """Return the body's momentum Σ m v in N s, and Σ x × m v about the origin in N m s."""
        momenta = self.model.masses[:, None] * self._world.v
        return momenta.sum(axis=0), np.cross(self._world.x, momenta).sum(axis=0)

    def begin(
        self,
        integrator: Integrator,
        h: float,
        chain: BoneChain,
        start: BoneChain,
        target: BoneChain,
        target_before: Floats,
    ) -> None:
        """Begin a stage of h seconds, and extrapolate bones, flesh and objects to its end."""
        self._target_first = target_before
        self._tau = self._world.begin(integrator, h)
        self._flesh.begin(integrator, h)
        self._contact.begin(h)
        self._contact.motion.begin(integrator, h)
        self._h = h
        chain.slides[:] = target.slides
        guess = self._rate + self._gain if self._contact.count == 0 else self._rate
        chain.change(h * guess[: self._bones])
        self.phi += h * guess[self._bones :]
        if self.root_mode == "driven":
            chain.place_first(target.rotations[0], target.positions[0])
        bones = self._bones
        self._since[:bones] = start.difference(chain)
        self._since[bones : bones + self._m] = self.phi - self._flesh.x
        self._since[bones + self._m :] = self._contact.motion.guess

    def evaluate(
        self,
        chain: BoneChain,
        start: BoneChain,
        target: BoneChain,
        target_before: Floats,
        skin: BodyPoints,
        pushed: tuple[Ints, Floats] | None,
    ) -> None:
        """Write gradient and Hessian at the current bones, flesh and objects.

        `pushed` has skin vertices (k,) and forces (k, 3) on them in N; None for no forces.
        """
        model, points, tau = self.model, self._points, self._tau
        gradient, hessian, bones = self._gradient, self._hessian, self._bones
        _clear(gradient, hessian, self._weight)
        points.place(chain, self.phi)
        np.subtract(points.x, self._world.target, out=self._away)
        terms = self._away, model.masses, 1 / tau**2, self.gravity
        add_point_terms(points.posed(chain, self.phi), *terms, gradient, hessian, self._weight)
        self._add_weight()
        code = model.material.code
        add_flesh_terms(code, self.stiff, model.flesh, self.phi, bones, gradient, hessian, 6)
        rates, flesh = (self._beta * self.stiff / tau, 1 / tau), (self.phi, self._flesh.start)
        _add_damping(self._damping, *rates, *flesh, self._preload, bones, gradient, hessian)
        self._acting = self._add_joints(chain, start, target, target_before)
        end = bones + self._m
        self._contact.motion.add_terms(self.gravity, end, gradient, hessian)
        if pushed is not None:
            _add_pushes(skin.posed(chain, self.phi), *pushed, gradient)
        damping = max(self._beta, CONTACT_DAMPING) / self._h
        body = skin, chain, target, self.phi, self._since
        self._contact.add(*body, damping, gradient, hessian)

    def _add_weight(self) -> None:
        """Add gravity, except its torques on joints that track a pose, which muscles would hold."""
        self._held[:] = 0.0
        if self._tracking:
            self._held[1:] = self._weight[6 : self._bones].reshape(-1, 3)
            self._weight[6 : self._bones] = 0.0
        self._gradient += self._weight

    def _add_joints(
        self, chain: BoneChain, start: BoneChain, target: BoneChain, before: Floats
    ) -> int:
        first = 0 if self.root_mode == "tracked" else 1
        rotations = chain.rotations, target.rotations, before, start.rotations
        system = self._gradient, self._hessian, self._joint_forces, self._joint_stiffness
        acting = add_joint_terms(self._springs, chain.parents, *rotations, self._h, first, *system)
        if self.root_mode == "tracked":
            omega, mass = 2 * math.pi * self._tracking, float(self.model.masses.sum())
            offset = chain.positions[0] - target.positions[0]
            back = chain.positions[0] - start.positions[0]
            far = max(float(np.linalg.norm(offset)), 1e-12)
            spring = mass * min(omega**2, MAX_PULL / far)
            # The damper acts on motion relative to that of the root's target.
            relative = back - (target.positions[0] - self._target_first)
            strongest = mass * MAX_PULL * self._h / max(np.abs(relative).max(), 1e-9)
            damper = min(2 * mass * omega, strongest)
            self._gradient[:3] += spring * offset + damper / self._h * relative
            for row in range(3):
                self._hessian[row, row] += spring + damper / self._h
        return int(acting)

    def advance(self, chain: BoneChain, limits: set[str]) -> bool:
        """Apply the Newton step to bones, flesh and objects; return False if the solve fails."""
        driven, change = self.root_mode == "driven", self._solution.change
        self._reaction[:] = self._gradient[:6]
        self.pulling = math.inf  # until there is a solution
        if not self._solution.solve(self._hessian, self._gradient, driven):
            return False
        self.turned = float(np.abs(change[3 : self._bones]).max(initial=0.0))
        if self.turned > MAX_ROTATION:
            change *= MAX_ROTATION / self.turned
            limits.add("turn")
        if driven:
            self._reaction -= self._hessian[:6] @ change
        chain.change(-change[: self._bones])
        self.phi -= change[self._bones : self._bones + self._m]
        self._contact.motion.change(-change[self._bones + self._m :])
        self._since -= change
        self.pulling = self._contact.apply_change(change)
        first = 0 if self.root_mode == "tracked" else 1
        forces = self._joint_forces, self._joint_stiffness
        write_torques(first, *forces, change, self._torques)
        if self._acting:
            limits.add("joints")
        return True

    def go_back(self, chain: BoneChain, start: BoneChain) -> None:
        """Return to the state at the start of the stage."""
        start.copy_to(chain)
        self.phi[:] = self._flesh.x
        self._contact.motion.go_back()
        self._contact.discard_last()
        for history in (self._world, self._flesh):
            history.give_up()

    def finish(self, chain: BoneChain, start: BoneChain, h: float) -> bool:
        """End the stage; if it is not finite, return to its start and return False."""
        good = bool(np.isfinite(self.phi).all() and np.isfinite(chain.rotations).all())
        good = good and bool(np.isfinite(chain.positions).all())
        if not good:
            start.copy_to(chain)
            self.phi[:] = self._flesh.x
            self._contact.motion.go_back()
        before = self._flesh.x.copy()
        self._points.place(chain, self.phi)
        if good:
            self._world.finish(self._points.x, self._tau)
            self._flesh.finish(self.phi, self._tau)
            self._contact.motion.finish()
            if self._contact.count and self._world.restart_where_rough(h, ROUGH):
                self._flesh.steps, self._flesh.v[...] = 0, (self.phi - before) / h
            np.negative(self._rate, out=self._gain)
            self._rate[: self._bones] = start.difference(chain) / h
            self._rate[self._bones :] = (self.phi - before) / h
            self._gain += self._rate
            if self._world.steps < 2:
                self._gain[:] = 0.0
        else:
            self._start_history(0.0, 0.0)
        return good

    def restore_shape(
        self,
        chain: BoneChain,
        start: BoneChain,
        h: float,
        skin: BodyPoints,
        pushed: tuple[Ints, Floats] | None,
    ) -> set[str]:
        """Restore flesh that stays inverted, after a stage of h; return acting limits."""
        if not self._watch.is_due(h):
            return set()
        write_orientation(self.model.flesh, self.phi, self._found)
        inverted, lowest, largest = self._found.tolist()
        work = by_contacts = 0.0
        if inverted > 0.0 or largest > FARTHEST:
            # The work of a hand's spring may be negative; such contacts push flesh back.
            by_contacts = skin.work(chain, self.phi, self._contact.loads()) / self.stiff
            work = max(abs(skin.work(chain, self.phi, pushed)) / self.stiff, by_contacts)
        is_inverted, part = self._watch.update(inverted, lowest, work, h)
        limits = {"inversion"} if is_inverted else set()
        if largest > FARTHEST and not self._watch.is_held(inverted, by_contacts):
            part *= FARTHEST / largest
            limits.add("displacement")
        if part < 1.0:
            self.phi *= part
            self._points.place(start, self.phi)
            before, rates = self._points.x.copy(), self._rate[: self._bones].copy()
            self._points.place(chain, self.phi)
            self._start_history((self._points.x - before) / h, rates)
        return limits

    def state_arrays(self) -> dict[str, Floats]:
        """Return the arrays that later stages depend on, by name."""
        arrays = {"rates": np.stack([self._rate, self._gain]), "watch": self._watch.state}
        for prefix, history in (("world", self._world), ("flesh", self._flesh)):
            arrays |= {f"{prefix}.{name}": a for name, a in history.state_arrays().items()}
        return arrays

    def set_state(self, state: State) -> None:
        """Set the arrays that `state_arrays` returned."""
        self._rate[:], self._gain[:] = state["rates"]
        self._watch.state[:] = state["watch"]
        self._world.set_state(state.part("world"))
        self._flesh.set_state(state.part("flesh"))

    def readings(self) -> dict[str, Any]:
        """Return joint torques (K, 3) in N m, and force and torque (3,) on a driven root."""
        readings: dict[str, Any] = {"torques": self._torques + self._held}
        if self.root_mode == "driven":
            reaction = self._reaction.copy()
            readings["root_force"], readings["root_torque"] = reaction[:3], reaction[3:]
        return readings


@compiled_fused
def _clear(gradient: Floats, hessian: Floats, weight: Floats) -> None:
    """Set a gradient, the upper triangle of a Hessian, and a weight to zero."""
    for i in range(len(gradient)):
        gradient[i] = weight[i] = 0.0
        row = hessian[i, i:]
        for j in range(len(row)):
            row[j] = 0.0


@compiled_fused
def _fastest(v: Floats) -> float:
    """Return the largest speed of velocities (n, 3)."""
    largest = 0.0
    for i in range(len(v)):
        largest = max(largest, v[i, 0] * v[i, 0] + v[i, 1] * v[i, 1] + v[i, 2] * v[i, 2])
    return math.sqrt(largest)


@compiled
def _add_damping(
    matrices: tuple[Ints, Ints, Floats, Floats],
    beta: float,
    alpha: float,
    phi: Floats,
    start: Floats,
    preload: Floats,
    first: int,
    gradient: Floats,
    hessian: Floats,
) -> None:
    """Add (β K + α C) (φ − φ*) and the preload to the gradient, and the matrix to the Hessian.

    `matrices` has row starts, columns, and values of K and of C in the upper triangle. `beta` and
    `alpha` are β and α over τ; `start` is φ*.
    """
    starts, columns, stiffness, damping = matrices
    for i in range(len(phi)):
        row, change, total = hessian[first + i], phi[i] - start[i], preload[i]
        for at in range(starts[i], starts[i + 1]):
            j = columns[at]
            entry = beta * stiffness[at] + alpha * damping[at]
            row[first + j] += entry
            total += entry * (phi[j] - start[j])
            if j > i:
                gradient[first + j] += entry * change
        gradient[first + i] += total


@compiled
def _add_pushes(body: PosedPoints, vertices: Ints, forces: Floats, gradient: Floats) -> None:
    """Subtract Σ Jᵀ f of forces f (k, 3) on vertices (k,) from the gradient."""
    size = len(gradient)
    columns, index, spread = np.empty((3, size)), np.empty(size, np.int64), np.empty((64, 3))
    for r in range(len(vertices)):
        count = write_columns(body, vertices[r], columns, index, spread)
        for a in range(count):
            for i in range(3):
                gradient[index[a]] -= forces[r, i] * columns[i, a]


@compiled
def _write_preload(
    tables: PointTables, masses: Floats, rotations: Floats, gravity: Floats, out: Floats
) -> None:
    """Add Σ m w Ψᵀ Gᵀ g at rest to `out` (m,): the preload that balances gravity on the flesh."""
    for i in range(len(masses)):
        for at in range(tables.bone_starts[i], tables.bone_starts[i + 1]):
            w, G = tables.weights[at] * masses[i], rotations[tables.bones[at]]
            for k in range(tables.flesh_starts[i], tables.flesh_starts[i + 1]):
                for a in range(3):
                    for b in range(3):
                        out[tables.columns[k]] += w * tables.shapes[k, a] * G[b, a] * gravity[b]


def _upper_rows(*matrices: Floats) -> tuple[Any, ...]:
    """Return row starts, columns, and values of each matrix, of a common upper triangle."""
    rows, columns = np.nonzero(np.triu(np.any([each != 0 for each in matrices], axis=0)))
    starts = np.searchsorted(rows, np.arange(len(matrices[0]) + 1))
    return starts, columns, *(each[rows, columns] for each in matrices)


def _flesh_mass(tables: PointTables, masses: Floats, m: int) -> Floats:
    """Return the mass matrix Σ_i m_i Ψ_iᵀΨ_i (m, m) of the flesh coordinates, in kg."""
    mass = np.zeros((m, m))
    for i in range(len(masses)):
        entries = slice(tables.flesh_starts[i], tables.flesh_starts[i + 1])
        columns, shapes = tables.columns[entries], tables.shapes[entries]
        mass[np.ix_(columns, columns)] += masses[i] * shapes @ shapes.T
    return mass
