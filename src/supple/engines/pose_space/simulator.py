"""Simulator of pose-space models: takes poses, returns the moving skin (xu2016 §4 to §8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.arrays import Floats, Singles
from supple.checks import checked_array
from supple.dynamics.character_inputs import CharacterInputs, checked_factors
from supple.dynamics.rigid_object import RigidObject
from supple.engines.common.contact.free_objects import FreeObjects
from supple.engines.common.contact.readings import Contacts, no_contacts, summed_pressure
from supple.engines.common.option_record import takes_options
from supple.engines.common.simulator import ContactSimulator, Loads
from supple.engines.common.state import State
from supple.engines.pose_space.local_damping import damped, whole_bases
from supple.engines.pose_space.model.model import PoseSpaceModel
from supple.engines.pose_space.newton import LIMIT_NAMES
from supple.engines.pose_space.runtime import RuntimeModel, stiffened
from supple.engines.pose_space.state import CONTACT_ARRAYS, states_of
from supple.engines.pose_space.step_options import StepOptions
from supple.engines.pose_space.stepper import Stepper
from supple.mesh.obstacles import Obstacle, checked_obstacles


def limit_names(bits: int) -> tuple[str, ...]:
    """Return the names of the limits whose bits are set."""
    if bits == 0:
        return ()
    return tuple(name for bit, name in enumerate(LIMIT_NAMES) if bits >> bit & 1)


@dataclass(frozen=True, slots=True)
class PoseSpaceStep:
    """Report of one step.

    Attributes
    ----------
    time
        Seconds since the reset.
    limits
        Names of the limits that were applied, none in a regular step. ``"acceleration"``:
        accelerations of the rest shape were clamped; ``"teleport"``: the rest shape jumped, so that
        no inertia acts; ``"stiffness"``: the tangent was not positive definite, and the tets'
        stiffness was projected; ``"rest"``: the pose flattens cubature tets, which were left out;
        ``"inversion"``: cubature tets are nearly flat or inverted, and linear forces restore them,
        or many are inverted of a material that resists inversion; ``"displacement"``: displacements
        were clamped to the limit; ``"reset"``: the state was not finite and was reset.
    core, dynamics
        Computing time in s: of placing the cubature's vertices and blending the bases, and of
        forces, stiffness and the solution.
    contacts
        Number of contacts between skin vertices and obstacles.
    forces
        Force of each obstacle and object that touches the skin on it, with friction, by name, (3,)
        in N in the world.
    self_contacts
        Number of places where the skin presses on itself.
    """

    time: float
    limits: tuple[str, ...]
    core: float
    dynamics: float
    contacts: int = 0
    forces: Mapping[str, Floats] = field(default_factory=dict)
    self_contacts: int = 0

    @property
    def contact_force(self) -> tuple[float, float, float]:
        """Force of all obstacles and objects on the skin, in N in the world."""
        x, y, z = sum(self.forces.values(), np.zeros(3)).tolist()
        return x, y, z

    @property
    def seconds(self) -> dict[str, float]:
        """Computing time of ``"core"`` and ``"dynamics"``, in s."""
        return {"core": self.core, "dynamics": self.dynamics}

    @property
    def readings(self) -> dict[str, Any]:
        """Results of the step: numbers of ``"contacts"`` and ``"self_contacts"``, the
        ``"contact_force"`` (3,) of obstacles and objects, and ``"things"``, the forces by name of
        the obstacle or object.
        """
        force, things = np.array(self.contact_force), dict(self.forces)
        counts = {"contacts": self.contacts, "self_contacts": self.self_contacts}
        return {**counts, "contact_force": force, "things": things}


class PoseSpaceSimulator(ContactSimulator):
    """Simulator of a character's soft tissue in its pose-space subspace.

    M̃ q̈ + D̃ q̇ + f̃(q) = f̃_ext + f̃_inert (xu2016 eq. 5 to 9) in the basis U(p) that is blended at
    every pose; q is unchanged when the basis changes. A step allocates only its small report;
    with free objects, it also copies the state before the solution. The same inputs give the same
    bits. Copies and pickles continue independently.

    Parameters
    ----------
    model
        Model to step; see `supple.build`.
    dt
        Seconds from one pose to the next; by default 1/90.
    options
        Record of all following options, `StepOptions`; keywords replace its fields.
    integrator
        ``"bdf2"`` (second order, damps only motion faster than the step), ``"backward-euler"`` (the
        paper's; its damping grows with the step), ``"newmark"`` (second order, conserves energy),
        or another row of `supple.dynamics.INTEGRATORS`.
    iterations
        Newton iterations of a step; one is the papers' choice for real time.
    substeps
        Time steps between two poses, with the same inertial forces.
    alpha, beta
        Rayleigh damping D = αM + βK, in 1/s and s.
    gravity, gravity_mode
        (3,) in m/s². ``"relative"``: the sculpted shape already sags, so that only the change by
        the root's rotation acts; ``"absolute"``; ``"none"``.
    obstacles
        Solid obstacles in the world: `supple.Plane`, `Sphere`, `Capsule`, `Box`, `Convex`, `Solid`,
        a `RigidObject`, or any object with the method `distances`. The attribute `obstacles` may be
        set between steps.
    objects
        `supple.RigidObject`s, kinematic or free. Flesh and free objects push each other: a ball
        presses the belly that carries it. The attribute `objects` may be set between steps.
    obstacle_stiffness
        Pressure of an obstacle per depth, in Pa/m. By default the sum of two terms: the body sinks
        in by a thousandth of its size where a hundredth of its skin bears its weight, and likewise
        for a pressure of Young's modulus. Any larger value is stable.
    friction
        Coefficient of Coulomb friction on obstacles. Moving objects (`supple.RigidObject`) drag the
        skin.
    self_contact
        Keep the skin from going deeper into itself than the rig's own pose does. It may be set
        between steps.
    acceleration_limit
        In m/s². Accelerations of the rest shape are clamped to this limit. If their root mean
        square exceeds it, the step is treated as a cut in the animation.
    displacement_limit
        Largest displacement of flesh from the rig's positions, as a fraction of the body's size. It
        holds for cubature vertices; the skin stays within twice the limit.
    look_ahead
        Steps by which accelerations of the rest shape are extrapolated. Differences of three poses
        lag by a step: by default 1 for backward Euler, Newmark's method and sub-steps, and 0 for
        BDF2, whose differences do not lag.
    transport
        Add Coriolis and centrifugal forces of the changing basis, so that flesh keeps its momentum.
        The paper omits them, and so do Newmark's method and sub-steps.
    frames
        Rotation of bases between poses: ``"followed"`` as the rest shape rotates there,
        ``"blended"`` by the poses' weights alone.
    negligible_weight
        Weight below which poses fade smoothly out of the blend, which saves their cost; 0 keeps
        all.
    stiffness
        Factor on the model's stiffness, 0.001 to 1000. Far from 1 a model built with that stiffness
        is more accurate.

    Examples
    --------
    >>> from supple.scenes import scene
    >>> import supple
    >>> x = scene("x")
    >>> model = supple.build(x.character, **(x.recipe() | {"tets": 1000, "modes": 8}))
    >>> simulator = PoseSpaceSimulator(model)
    >>> simulator.step(0.2 * x.poses[2]).limits
    ()
    >>> simulator.surface().shape == x.character.surface.vertices.shape
    True
    """

    _rebuilt: ClassVar = ("model", "_inputs", "_stepper", "_bases")
    _shared: ClassVar = ("runtime", "_built")
    _varying: ClassVar = (*CONTACT_ARRAYS, "objects.loads")

    @takes_options(StepOptions, without=("dt",), closed=True)
    def __init__(
        self,
        model: PoseSpaceModel | RuntimeModel,
        dt: float | None = None,
        *,
        options: StepOptions | None = None,
        obstacles: Sequence[Obstacle] = (),
        objects: Sequence[RigidObject] = (),
        **keywords: Any,
    ) -> None:
        step = {} if dt is None else {"dt": dt}
        self.options = StepOptions.of("PoseSpaceSimulator", options, keywords | step)
        self._built = self.runtime = RuntimeModel.of(model, frames=self.options.frames)
        self._factors: Floats | None = None
        self._damping: Floats | None = None
        self._dt, self._stiffness = self.options.dt, self.options.stiffness
        self._friction, self._obstacles = self.options.friction, checked_obstacles(obstacles)
        self._objects = FreeObjects(objects, self.runtime.n_modes)
        self._rebuild()
        (self._state,) = states_of(self.runtime, 1)
        self.reset()

    def _rebuild(self) -> None:
        self.model = self.runtime.model
        self._inputs = CharacterInputs(self.model, self.model.pose_weights.scales)
        self._stepper = Stepper(self.runtime, self.options, self._obstacles, objects=self._objects)

    def __repr__(self) -> str:
        return f"PoseSpaceSimulator({self.model!r}, dt=1/{1 / self.dt:.4g})"

    def _apply_stiffness(self) -> None:
        self._change(stiffness=self._stiffness)

    def _apply_friction(self) -> None:
        self._change(friction=self._friction)

    def _apply_obstacles(self, obstacles: tuple[Obstacle, ...]) -> None:
        self._stepper.obstacles = obstacles

    @property
    def objects(self) -> tuple[RigidObject, ...]:
        """Rigid objects in the world; may be set between steps."""
        return self._objects.objects

    @objects.setter
    def objects(self, objects: Sequence[RigidObject]) -> None:
        self._objects.set(objects)
        self._stepper.obstacles = self._obstacles

    @property
    def colliders(self) -> tuple[str, ...]:
        """Names of the colliders in the order of `Contacts.colliders`."""
        contact = self._stepper.contact
        return () if contact is None else contact.names

    def contacts(self) -> Contacts:
        """Return the contacts of the skin in the last step."""
        contact = self._stepper.contact
        if contact is None or not self._state.contact.count:
            return no_contacts()
        return contact.contacts()

    def pressure(self) -> Floats:
        """Return the pressure on the skin in the last step, (n̄,) in Pa."""
        return summed_pressure(self.contacts(), len(self.model.surface.vertices))

    @property
    def local_stiffness(self) -> Floats | None:
        """Factors (T,) on the tets' stiffness, or None if all are 1; may be set between steps.

        A model built with these stiffnesses is more accurate.
        """
        return None if self._factors is None else self._factors.copy()

    @local_stiffness.setter
    def local_stiffness(self, factors: ArrayLike | None) -> None:
        self.set_local(factors, self._damping)

    @property
    def local_damping(self) -> Floats | None:
        """Factors (T,) on β of the tets, or None if all are 1; may be set between steps.

        They act in addition to the factors on stiffness, to which the damping is proportional.
        """
        return None if self._damping is None else self._damping.copy()

    @local_damping.setter
    def local_damping(self, factors: ArrayLike | None) -> None:
        self.set_local(self._factors, factors)

    def set_local(self, stiffness: ArrayLike | None, damping: ArrayLike | None) -> None:
        """Set `local_stiffness` and `local_damping` together, which takes half the time."""
        count = len(self.model.mesh.tets)
        factors = None if stiffness is None else checked_factors(stiffness, count)
        self._damping = None if damping is None else checked_factors(damping, count, "damping")
        self._factors, self.runtime = factors, self._built
        if self._factors is not None:
            self.runtime = stiffened(self._built, self._factors)
        if self._damping is not None:
            self.runtime = damped(self.runtime, self._bases, self._damping, self._factors)
        self._rebuild()

    @cached_property
    def _bases(self) -> Singles:
        return whole_bases(self._built)

    @property
    def damping(self) -> tuple[float, float]:
        """Rayleigh damping α in 1/s and β in s; may be set between steps."""
        return self.options.alpha, self.options.beta

    @damping.setter
    def damping(self, constants: tuple[float, float]) -> None:
        alpha, beta = checked_array("damping", constants, (2,)).tolist()
        self._change(alpha=alpha, beta=beta)

    @property
    def gravity_mode(self) -> str:
        """``"relative"``, ``"absolute"`` or ``"none"``; may be set between steps."""
        return self.options.gravity_mode

    @gravity_mode.setter
    def gravity_mode(self, mode: str) -> None:
        self._change(gravity_mode=mode)

    @property
    def self_contact(self) -> bool:
        """Whether the skin touches itself; may be set between steps."""
        return self.options.self_contact

    @self_contact.setter
    def self_contact(self, on: bool) -> None:
        self._change(self_contact=bool(on))

    def _change(self, **options: Any) -> None:
        self.options = self._stepper.options = replace(self.options, **options)

    @property
    def time(self) -> float:
        """Seconds since the reset."""
        return self._state.steps * self.options.dt

    @property
    def pose(self) -> Floats:  # type: ignore[override]
        """Last pose, (s,)."""
        return self._state.pose

    @property
    def root(self) -> Floats:  # type: ignore[override]
        """Last root, (4, 4)."""
        return self._state.root

    @property
    def q(self) -> Floats:
        """Reduced coordinates, (r,); setting them restarts the multistep history."""
        return self._state.q.copy()

    @q.setter
    def q(self, values: ArrayLike) -> None:
        self._state.set_coordinates(checked_array("q", values, (self.model.n_modes,)), None)

    @property
    def velocity(self) -> Floats:
        """Velocities of the reduced coordinates, (r,); setting them restarts the history."""
        return self._state.v.copy()

    @velocity.setter
    def velocity(self, values: ArrayLike) -> None:
        self._state.set_coordinates(None, checked_array("velocity", values, (self.model.n_modes,)))

    @property
    def weights(self) -> Floats:
        """Weights of the model's poses at the current pose, (m,)."""
        return self._state.weights.copy()

    @property
    def surface_seconds(self) -> float:
        """Duration of the last call of `surface`, in s."""
        return self._stepper.timing.surface

    def _start(
        self, pose: Floats, root: Floats, before: tuple[Floats, Floats] | None, *, keep_flesh: bool
    ) -> None:
        q, velocity = self.q, self.velocity
        self._stepper.begin(self._state, pose, root, before)
        if keep_flesh:
            self.q, self.velocity = q, velocity
        else:
            self._objects.reset()

    def advance(self, pose: Floats, root: Floats, loads: Loads | None) -> PoseSpaceStep:
        """Advance the state by `dt` to a checked pose and root; return a report."""
        state, timing = self._state, self._stepper.timing
        limits = self._stepper.step(state, pose, root, loads)
        seconds, count = (timing.core, timing.dynamics), state.contact.count
        forces, contact = {}, self._stepper.contact
        if count and contact is not None:
            listed = zip(contact.names, state.contact.forces.copy(), strict=True)
            forces = {name: force for name, force in listed if force.any()}
        pressed = self._stepper.self_contacts
        return PoseSpaceStep(self.time, limit_names(limits), *seconds, count, forces, pressed)

    def surface(self, out: Singles | None = None) -> Singles:
        """Return the skin in the world, (n̄, 3) float32: a new array, or `out`."""
        target = self._inputs.skin(out)
        self._stepper.surface(self._state, target)
        return target

    def _state_arrays(self) -> dict[str, NDArray[Any]]:
        arrays = self._state.all_arrays()
        if self._objects.objects:
            arrays |= {f"objects.{n}": a for n, a in self._objects.state_arrays().items()}
        return arrays

    def _set_state(self, state: State) -> None:
        self._state.restore(state, len(self.model.surface.vertices))
        if self._objects.objects:
            self._objects.set_state(state.part("objects"))
        self._stepper.forget_pose()
