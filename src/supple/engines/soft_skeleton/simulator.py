"""Stepping a soft skeleton: bones, flesh and contacts in one system."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.arrays import Floats, Ints, Singles
from supple.checks import checked_count, owned_array, shown
from supple.dynamics.character_inputs import CharacterInputs
from supple.dynamics.friction import checked_friction
from supple.dynamics.integrators import compiled_integrator
from supple.dynamics.motion_steps import PoseTrack
from supple.dynamics.rigid_object import RigidObject
from supple.engines.common.contact.free_objects import checked_objects
from supple.engines.common.contact.readings import Contacts
from supple.engines.common.option_record import takes_options
from supple.engines.common.simulator import CharacterStep, ContactSimulator, Loads
from supple.engines.common.state import State
from supple.engines.soft_skeleton.body_system import BodySystem
from supple.engines.soft_skeleton.bones.body_points import BodyPoints
from supple.engines.soft_skeleton.bones.bone_chain import BoneChain
from supple.engines.soft_skeleton.bones.joint_springs import joint_limits as bounds
from supple.engines.soft_skeleton.bones.rig_bones import RigBones, skin_correction
from supple.engines.soft_skeleton.contact.contact import BodyContact
from supple.engines.soft_skeleton.model import SoftSkeletonModel
from supple.engines.soft_skeleton.step_inputs import (
    SoftSkeletonOptions,
    between_roots,
    checked_tracking,
    not_negative,
    positive_seconds,
    tracking_of,
)
from supple.errors import SuppleError
from supple.mesh.obstacles import Obstacle, checked_obstacles

#: Modes of the first bone.
ROOTS = "driven", "tracked", "free"
#: Bound on the rotation of a joint in the last iteration of a sub-step h, in rad/√s. With it, a
#: body whose hands whip at 40 rad/s loses 1 % of its momentum in a second; without it, 20 %.
TURNED = 0.3
#: Bounds on the pulling fraction of contact forces, and on the depth mismatch in m, likewise.
PULLING, MISMATCH = 0.1, 2e-3
#: Largest number of halvings of a sub-step, and the factor on these bounds that causes one.
MOST_HALVES, WORSE = 3, 4.0


#: Report of one step.
SoftSkeletonStep = CharacterStep


class SoftSkeletonSimulator(ContactSimulator):
    """Simulator of bones and flesh that track a motion by springs, and of contact.

    Parameters
    ----------
    model
        Model of the body.
    dt
        Seconds from one pose to the next.
    options
        Record of all following options, `SoftSkeletonOptions`; keywords replace its fields.
    substep
        Longest internal time step, in s.
    integrator
        Name of a compiled integrator in `supple.dynamics.INTEGRATORS`.
    iterations
        Newton iterations per sub-step, up to `most_iterations` if contacts change.
    tracking
        Frequency in Hz of critically damped springs from each joint to the pose, 8 by default; 0
        for a limp body.
    strength
        Lower bound of the joint springs' stiffness, in N m/rad per kg beyond the joint: without it
        light limbs, such as fingers, bear nothing. By default 400, or 0 if `tracking` is given.
    root
        ``"driven"``: the first bone follows pose and root exactly; ``"tracked"``: by springs;
        ``"free"``.
    gravity
        In m/s², any direction.
    sag
        Whether flesh sags at rest; otherwise the skin is the shape under gravity.
    alpha, beta
        Damping αM + βK of the flesh, in 1/s and s.
    joint_stiffness, joint_damping
        Frequencies in Hz of springs towards the bind pose, and of dampers.
    joint_limits
        ``"motions"``: the range of the model's motions, or the pose, plus a margin; or by bone the
        lowest and highest rotation vectors (3,) relative to the parent, in rad; None for none.
    friction
        Coefficient of friction.
    obstacles, objects
        Obstacles in the world, and `RigidObject`s, free or kinematic.
    self_contact
        Whether parts of the body touch each other.
    """

    @takes_options(SoftSkeletonOptions, closed=True)
    def __init__(
        self,
        model: SoftSkeletonModel,
        dt: float = 1 / 90,
        *,
        options: SoftSkeletonOptions | None = None,
        obstacles: Sequence[Obstacle] = (),
        objects: Sequence[RigidObject] = (),
        **keywords: Any,
    ) -> None:
        if not isinstance(model, SoftSkeletonModel):
            raise SuppleError(
                f"a SoftSkeletonSimulator needs a SoftSkeletonModel, not {shown(model)}"
            )
        chosen = SoftSkeletonOptions.of("SoftSkeletonSimulator", options, keywords)
        self.model, self._dt = model, positive_seconds("dt", dt)
        self._integrator = compiled_integrator(chosen.integrator)
        self._longest = positive_seconds("substep", chosen.substep)
        self.iterations = checked_count("iterations", chosen.iterations)
        most = checked_count("most_iterations", chosen.most_iterations)
        self.most_iterations = max(self.iterations, most)
        self._bones = RigBones(model.rig)
        if not np.array_equal(self._bones.parents, model.parents):
            raise SuppleError("the model's bones differ from its rig's; rebuild it")
        self.chain = BoneChain(model.parents, model.joints)
        self._target, self._start_chain = self.chain.fork(), self.chain.fork()
        self._skin = BodyPoints(model.skin)
        self._friction = checked_friction(chosen.friction)
        self._contact = BodyContact(model, self._friction, bool(chosen.self_contact))
        self._system = BodySystem(
            model,
            self._contact,
            not_negative("alpha", chosen.alpha),
            not_negative("beta", chosen.beta),
            bool(chosen.sag),
            bounds(chosen.joint_limits, self._bones, model.motions),
        )
        self._system.set_joints(chosen.joint_stiffness, chosen.joint_damping)
        self.phi = self._system.phi
        self._inputs = CharacterInputs(model)
        self._correction = skin_correction(model.rig, self._bones, model.skin)
        self.tracking, self.strength = tracking_of(chosen)
        self.root_mode = chosen.root
        self.gravity = chosen.gravity
        self._obstacles = checked_obstacles(obstacles)
        self._contact.set_colliders(self._obstacles, checked_objects(objects))
        self._system.allocate()
        self.reset()

    @property
    def size(self) -> int:
        """Number of coordinates: bones, flesh and objects."""
        return self._system.size

    def _apply_stiffness(self) -> None:
        self._system.stiff = self._stiffness

    def _apply_friction(self) -> None:
        self._contact.friction = self._friction

    def _apply_obstacles(self, obstacles: tuple[Obstacle, ...]) -> None:
        self._contact.set_colliders(obstacles, self._contact.objects)
        self._system.allocate()

    @property
    def tracking(self) -> float:
        """Frequency in Hz of the springs to the pose; may be set between steps.

        Setting it sets `strength` to 0.
        """
        return self._tracking

    @tracking.setter
    def tracking(self, frequency: float) -> None:
        self._tracking = checked_tracking(frequency)
        self.strength = 0.0

    @property
    def strength(self) -> float:
        """Lower bound of the springs' stiffness, N m/rad per kg; may be set between steps."""
        return self._strength

    @strength.setter
    def strength(self, strength: float) -> None:
        self._strength = not_negative("strength", strength, " N m/(rad kg)")
        self._system.set_tracking(self._tracking, self._strength)

    @property
    def root_mode(self) -> str:
        """``"driven"``, ``"tracked"`` or ``"free"``; may be set between steps."""
        return self._root_mode

    @root_mode.setter
    def root_mode(self, mode: str) -> None:
        if not isinstance(mode, str) or mode not in ROOTS:
            raise SuppleError(f"root is {shown(mode)}; use driven, tracked or free")
        self._root_mode = self._system.root_mode = mode

    @property
    def gravity(self) -> Floats:
        """Gravity (3,) in m/s²; may be set between steps."""
        return self._system.gravity.copy()

    @gravity.setter
    def gravity(self, gravity: ArrayLike) -> None:
        rotations = self._bones.rotations(np.asarray(self.model.rig.rest_pose, np.float64))[0]
        self._system.set_gravity(owned_array("gravity", gravity, (3,)), rotations)

    @property
    def objects(self) -> tuple[RigidObject, ...]:
        """Rigid objects in the world; may be set between steps."""
        return self._contact.objects

    @objects.setter
    def objects(self, objects: Sequence[RigidObject]) -> None:
        self._contact.set_colliders(self._contact.obstacles, checked_objects(objects))
        self._system.allocate()

    @property
    def parameters(self) -> Floats:
        """Pose (s,) of the rig for the current bones, relative to the root."""
        return self._bones.posed(self.chain, self.root, self.pose)

    def _start(
        self, pose: Floats, root: Floats, before: tuple[Floats, Floats] | None, *, keep_flesh: bool
    ) -> None:
        """Start at a pose and root, moving if a pose and root one step `before` are given.

        With `keep_flesh`, flesh and the bones' deviations from the pose stay. Otherwise they are
        zero, and free objects return to where they were when set.
        """
        if keep_flesh:
            self._restart(pose, root, before, self._deviation())
            return
        self._system.reset()
        self._restart(pose, root, before)
        self._contact.reset()
        self._steps = 0

    def start_moving(self, speeds: ArrayLike) -> None:
        """Set velocities of the bones; see `BoneChain` for the coordinates.

        Parameters
        ----------
        speeds
            (3 + 3K,) velocity of the first joint in m/s, then angular velocities of the joints
            relative to their parents, in world axes, rad/s.
        """
        rates = owned_array("speeds", speeds, (self.chain.size,))
        self._system.start_moving(self.chain, rates)

    def momentum(self) -> tuple[Floats, Floats]:
        """Return momentum (3,) in N s, and angular momentum (3,) about the origin in N m s."""
        return self._system.momentum()

    def _deviation(self) -> Floats:
        """Return deviations (1 + K, 3) of the bones from the pose, in axes of root and parents.

        The first row is the translation of the first joint; the others are rotation vectors.
        """
        self._place(self._target, self.pose, self.root)
        deviation = self._target.difference(self.chain).reshape(-1, 3)
        return np.einsum("kji,kj->ki", self._axes(self.chain, self.root), deviation)

    def _axes(self, chain: BoneChain, root: Floats) -> Floats:
        return np.concatenate([[root[:3, :3]] * 2, chain.rotations[chain.parents[1:]]])

    def _restart(
        self,
        pose: Floats,
        root: Floats,
        past: tuple[Floats, Floats] | None,
        deviation: Floats | None = None,
    ) -> None:
        earlier = (pose, root) if past is None else past
        self._place(self._start_chain, *earlier, deviation)
        self._place(self.chain, pose, root, deviation)
        self.chain.copy_to(self._target)
        self._previous_rotations = self._target.rotations.copy()
        self._previous_first = self._target.positions[0].copy()
        self.pose, self.root = pose.copy(), root.copy()
        self._correct()
        self._system.start(self._start_chain, self.chain, self._dt)
        self._skin.place(self.chain, self.phi)
        self._track = PoseTrack(self.pose, self.root)
        if past is not None:
            self._track = PoseTrack.moving(*past, self.pose, self.root)

    def _place(
        self, chain: BoneChain, pose: Floats, root: Floats, deviation: Floats | None = None
    ) -> None:
        """Place bones at a pose and root, plus a deviation as `_deviation` returns it."""
        rotations, first, slides = self._bones.rotations(pose)
        rotation = root[:3, :3]
        chain.place(rotation @ rotations, rotation @ first + root[:3, 3], slides)
        if deviation is not None:
            chain.change(np.einsum("kij,kj->ki", self._axes(chain, root), deviation).ravel())

    def advance(self, pose: Floats, root: Floats, loads: Loads | None) -> SoftSkeletonStep:
        """Advance by `dt` towards a pose and root, with forces in N on vertices of the skin."""
        self._contact.check_others(self._skin)
        if self._contact.overlaps.is_new:
            self._contact.start(self._skin, self._root_mode == "driven", refuse=self._steps == 0)
        loads = loads if loads is not None and len(loads[0]) else None
        count = max(1, math.ceil(self._dt / self._longest - 1e-6))
        count = max(count, self._contact.substeps(self._dt, self._system.speed))
        limits: set[str] = set()
        self._substeps = self._iterations = 0
        for number, (at, placed) in enumerate(self._track.towards(pose, root, count)):
            self._contact.part = (number + 1) / count
            self._substep(at, placed, loads, self._dt / count, limits)
        if self._contact.full:
            limits.add("contacts")
        self._contact.end_step()
        self._correct()
        self._skin.place(self.chain, self.phi)
        self._steps += 1
        readings = {"substeps": self._substeps, "iterations": self._iterations}
        readings |= {**self._contact.readings(), **self._system.readings()}
        return SoftSkeletonStep(self.time, tuple(sorted(limits)), readings)

    def _substep(
        self,
        pose: Floats,
        root: Floats,
        loads: Loads | None,
        h: float,
        limits: set[str],
        halved: int = 0,
    ) -> None:
        """Advance by h, in two halves if Newton's iterations do not converge."""
        chain, system, was = self.chain, self._system, self._contact.part
        chain.copy_to(self._start_chain)
        self._place(self._target, pose, root)
        system.begin(
            self._integrator, h, chain, self._start_chain, self._target, self._previous_first
        )
        settled = False
        for iteration in range(1, self.most_iterations + 1):
            if not self._contact.nothing:
                self._skin.place(chain, self.phi)
            system.evaluate(
                chain, self._start_chain, self._target, self._previous_rotations, self._skin, loads
            )
            self._iterations += 1
            if not system.advance(chain, limits):
                break
            self._skin.place_some(self._contact.touching, chain, self.phi)
            settled = iteration >= self.iterations and self._settled(h)
            if settled:
                break
        if not settled and halved < MOST_HALVES and not self._settled(h, WORSE):
            system.go_back(chain, self._start_chain)
            middle = between_roots(self.root, root)
            self._contact.part = was - (was - self._contact.part_before) / 2
            self._substep(0.5 * (self.pose + pose), middle, loads, h / 2, limits, halved + 1)
            self._contact.part = was
            self._substep(pose, root, loads, h / 2, limits, halved + 1)
            return
        if not settled and not self._settled(h, WORSE):
            limits.add("solver")
            if system.pulling == math.inf:  # nothing was solved for these contacts
                self._contact.discard_last()
        if not system.finish(chain, self._start_chain, h):
            limits.add("solver")
            self._skin.place_some(self._contact.touching, chain, self.phi)
        limits |= system.restore_shape(chain, self._start_chain, h, self._skin, loads)
        self._contact.finish(self._skin, chain)
        self._previous_rotations[:] = self._target.rotations
        self._previous_first[:] = self._target.positions[0]
        self._substeps += 1
        self.pose, self.root = pose.copy(), root.copy()

    def _settled(self, h: float, times: float = 1.0) -> bool:
        """Return whether the last iteration is within the bounds on convergence, times `times`."""
        if self._system.pulling > times * PULLING:
            return False
        if self._system.turned > times * TURNED * math.sqrt(h):
            return False
        return self._contact.mismatch(self._skin, self.chain) <= times * MISMATCH

    def _correct(self) -> None:
        """Write the rig's corrective shapes at the pose of the bones."""
        if self._correction is not None:
            self._correction.write(self.chain, self.root, self.pose, self._skin.offsets)

    def _state_arrays(self) -> dict[str, NDArray[Any]]:
        arrays = {
            "pose": self.pose,
            "root": self.root,
            "track": self._track.slopes,
            "steps": np.array(float(self._steps)),
            "phi": self.phi,
            "previous": self._previous_rotations,
            "previous_first": self._previous_first,
            "chain": self.chain.packed(),
        }
        for prefix, part in (("system", self._system), ("contact", self._contact)):
            arrays |= {f"{prefix}.{name}": a for name, a in part.state_arrays().items()}
        return arrays

    def _set_state(self, state: State) -> None:
        self.pose, self.root = state["pose"], state["root"]
        self._track = PoseTrack.resumed(self.pose, self.root, state["track"])
        self._steps, self.phi[:] = int(state["steps"]), state["phi"]
        self._previous_rotations[:] = state["previous"]
        self._previous_first[:] = state["previous_first"]
        self.chain.unpack(state["chain"])
        self._system.set_state(state.part("system"))
        self._contact.set_state(state.part("contact"), self.chain)
        self._correct()
        self._skin.place(self.chain, self.phi)

    def surface(self, out: Singles | None = None) -> Singles:
        """Return the skin in the world, (n̄, 3) float32, in `out` if given."""
        target = self._inputs.skin(out)
        self._contact.write_surface(self._skin.x, target)
        return target

    @property
    def colliders(self) -> tuple[str, ...]:
        """Names of the colliders in the order of `Contacts.colliders`."""
        return self._contact.names

    @property
    def things(self) -> tuple[str, ...]:
        """Old name of `colliders`."""
        warnings.warn("things is deprecated; use colliders", DeprecationWarning, stacklevel=2)
        return self.colliders

    @property
    def owners(self) -> Ints:
        """(n̄,) bone with the largest weight on each vertex of the skin."""
        return self._contact.owners

    def contacts(self) -> Contacts:
        """Return the contacts of the skin in the last step."""
        return self._contact.contacts()

    def pressure(self) -> Floats:
        """Return the pressure on the skin in the last step, (n̄,) in Pa."""
        return self._contact.pressure()

    def unposed(self) -> Floats:
        """Return skin displacements (n̄, 3) in m by flesh and contact, transformed to rest."""
        indentation = self._skin.unposed(self.chain, self._contact.indentation)
        return self._skin.displacements(self.phi) + indentation
