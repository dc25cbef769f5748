"""Contact of the skin with obstacles: detection, penalty forces, and stored depths."""

from __future__ import annotations

import numpy as np

from supple.arrays import Floats, Ints, Singles
from supple.engines.common.contact.colliders import ColliderShapes, checked_distances
from supple.engines.common.contact.free_objects import FreeObjects
from supple.engines.common.contact.readings import Contacts
from supple.engines.pose_space.contact.contact_tables import ContactScratch, contact_tables
from supple.engines.pose_space.contact.obstacle_detection import (
    ContactResult,
    change_since,
    list_contacts,
    longest_displacement,
    mark_near,
    predict,
    release_pulling,
    write_depths,
)
from supple.engines.pose_space.contact.penalty import (
    FrictionInputs,
    PenaltySettings,
    add_contacts,
    to_origin,
)
from supple.engines.pose_space.runtime import RuntimeModel
from supple.engines.pose_space.skin import displace_carriers, interpolate_skin, rotate_carriers
from supple.engines.pose_space.state import ContactMemory
from supple.engines.pose_space.step import Workspace
from supple.engines.pose_space.step_options import StepOptions
from supple.errors import SuppleError
from supple.mesh.obstacles import Obstacle
from supple.rig.tets.character_placement import CharacterPlacement

#: Seconds in which skin inside an obstacle comes out; and largest changes of its depth, in sizes of
#: the body per second, outwards, and inwards for skin that is pushed out in the same step.
SETTLING, OUTWARDS, INWARDS = 0.05, 1.0, 5.0
#: Fraction of the skin that bears the weight, and the depth then, as a fraction of the size.
CARRYING, SINKING = 0.01, 0.001
#: Standard gravity, in m/s².
G = 9.80665
#: Largest stiffness times the squared step, over the mean mass per skin vertex. There are fewer
#: modes than contacts, and stiffer springs oscillate: a bar of 24 modes at steps of 1/10 to 1/300 s
#: comes to rest with 3·10³, but not always with 10⁴.
HARDEST = 3e3


class SkinContact:
    """Contact of a model's skin, in any state, with obstacles and objects; one per thread."""

    def __init__(
        self,
        runtime: RuntimeModel,
        options: StepOptions,
        obstacles: tuple[Obstacle, ...],
        objects: FreeObjects,
    ) -> None:
        self._runtime, self._options, self.objects = runtime, options, objects
        self._tables = contact_tables(runtime)
        h, size = options.dt, runtime.size
        stiffness = options.obstacle_stiffness or usual_stiffness(runtime)
        mass, area = _mass_and_area(runtime)
        # A spring, and a damper of the depth: s (depth − kept · depth before).
        self._settings = PenaltySettings(
            min(stiffness * (1 + SETTLING / h), HARDEST * mass / (area * h * h)),
            SETTLING / (h + SETTLING),
            OUTWARDS * size * h,
            INWARDS * size * h,
        )
        #: Bound of a skin vertex's displacement for carriers that move by 1, with rounding.
        self._spread = 1.001 * runtime.spread
        self._count = 0
        self._going = np.zeros(runtime.n_modes)
        #: Whether `rest` is the skin at the pose of the stepper.
        self.placed = False
        self.shapes, self._root = ColliderShapes(), np.eye(4)
        self._kinds: tuple[int, ...] = ()
        self._friction = options.friction
        self.set_obstacles(obstacles)

    def set_obstacles(self, obstacles: tuple[Obstacle, ...]) -> None:
        """Replace the obstacles; if number and kinds of all colliders stay, they count as moved."""
        self.shapes.set(obstacles, self.objects.objects)
        self._names = tuple(map(self.shapes.name, range(self.shapes.n_outside)))
        kinds = *self.shapes.kinds, len(obstacles)
        if self._kinds != kinds or len(self.objects.coupling.free) != len(self.shapes.kinds):
            self._kinds = kinds
            self._make_arrays()

    def _make_arrays(self) -> None:
        self._count = 0
        self.placed, n = False, len(self._tables.carriers)
        count, modes = len(self.shapes.kinds), self._runtime.n_modes
        self.objects.fit(count, self.shapes.n_obstacles, SETTLING / self._options.dt)
        self._scratch = ContactScratch.of(self._tables, count, modes, self._friction > 0)
        self._wrenches = np.zeros((self.objects.motion.size // 6, 6))
        others = len(self.shapes.others)
        self._gaps, self._normals = np.zeros((others, n)), np.zeros((others, n, 3))
        self._world = np.zeros((n if others else 0, 3), np.float32)

    @property
    def obstacles(self) -> tuple[Obstacle, ...]:
        """Obstacles of the skin, without objects."""
        return self.shapes.colliders[: self.shapes.n_obstacles]

    @property
    def friction(self) -> float:
        """Coefficient of friction."""
        return self._friction

    @friction.setter
    def friction(self, friction: float) -> None:
        changes_arrays = (friction > 0) != (self._friction > 0)
        self._friction = friction
        if changes_arrays:
            self._make_arrays()

    @property
    def rest(self) -> Singles:
        """Undeformed skin at the last `detect`, (n̄, 3)."""
        return self._scratch.rest

    def detect(
        self, q: Floats, v: Floats, root: Floats, placement: CharacterPlacement, work: Workspace
    ) -> None:
        """Find skin inside obstacles at the step's pose, for flesh that keeps its velocity.

        The state is only read, so that it is unchanged if an obstacle raises an error.
        """
        blend, scratch, z = work.blend, self._scratch, self._scratch.z
        self._count = 0
        farthest = predict(q, v, self._options.dt, blend, self._runtime.peaks, z, self._going)
        placement.place_surface(scratch.rest)
        self.placed = True
        self._root[:], shapes, bounds = root, self.shapes.in_root, self.shapes.bounds
        self.shapes.place()
        self.objects.begin(self.shapes, self._options.method, self._options.dt)
        self.shapes.update_places(root)
        if not mark_near(shapes, bounds, self._spread * farthest, scratch):
            return
        self._displace(work)
        try:
            self._evaluate_others(root, work)
        except SuppleError:
            self.objects.motion.go_back()
            raise
        reach = self._spread * longest_displacement(scratch.going)
        farthest = self._spread * longest_displacement(work.skin.carriers)
        if mark_near(shapes, bounds, farthest + reach, scratch):
            skin, others = (self._tables, work.skin.carriers), (self._gaps, self._normals)
            self._count = list_contacts(*skin, reach, shapes, bounds, root, *others, scratch)

    def _displace(self, work: Workspace) -> None:
        """Write displacements of the carriers, and their displacements in this step alone."""
        runtime, scratch, blend, skin = self._runtime, self._scratch, work.blend, work.skin
        limit = 2 * self._options.longest_displacement(runtime.size) / runtime.spread
        for z, out in ((scratch.z, skin.carriers), (self._going, scratch.going)):
            # Invisible displacements are included, because they decide on contact.
            displace_carriers(runtime.skin, blend.weights, z, 0.0, skin, out)
            rotate_carriers(skin.quaternions, limit, out)

    def press(self, memory: ContactMemory, work: Workspace, blas: Ints) -> None:
        """Add penalty forces and stiffness of the contacts to the system."""
        shapes, rubs, objects = self.shapes, self._friction > 0, self.objects
        objects.clear()
        memory.fit(self._kinds, len(self._tables.carriers), rubs)
        if rubs:
            shapes.update_motions(self._root)
        system, dt, rubbed = work.system, self._options.dt, (memory.loads, memory.places)
        friction = FrictionInputs(self._friction, dt, self._root, shapes.motions, *rubbed)
        memory.count = system.pressing[0] = add_contacts(
            self._tables,
            self._count,
            work.blend.weights,
            work.skin.frames,
            memory.depths,
            memory.known,
            self._settings,
            friction,
            objects.coupling,
            blas,
            self._scratch,
            system.contact,
            system.external,
        )
        if objects.any_free:
            law, gravity = (self._friction, dt), self._options.acting_gravity
            objects.condense(shapes, law, gravity, system.contact, system.external)
        if memory.count:
            to_origin(system.contact, self._scratch.z, system.external)

    def pulls(self, q: Floats, work: Workspace) -> bool:
        """Release contacts with free objects that pull in the solution; return whether any does."""
        scratch, objects = self._scratch, self.objects
        change_since(work.blend.column_scale, q, scratch.z, scratch.change)
        objects.respond(scratch.change)
        pressed = self._tables, self._count, work.skin.frames
        return self._count > 0 and bool(
            release_pulling(*pressed, objects.coupling, self._root, scratch)
        )

    def remember(self, memory: ContactMemory, q: Floats, work: Workspace, lost: bool) -> None:
        """Store contacts after the step in `memory`; mark them unknown if the state was `lost`.

        Objects move by the opposite of the forces on the skin.
        """
        memory.known, objects = not lost, self.objects
        self._wrenches[:], memory.forces[:] = 0.0, 0.0
        if not lost:
            if not objects.any_free:
                scratch = self._scratch
                change_since(work.blend.column_scale, q, scratch.z, scratch.change)
            write_depths(
                self._tables,
                self._count,
                self.shapes.in_root,
                self._settings.stiffness,
                work.skin.frames,
                objects.coupling,
                self._root,
                self._scratch,
                ContactResult(
                    memory.depths, memory.loads, memory.places, memory.forces, self._wrenches
                ),
            )
        else:
            self._count = 0
        if objects.any_free:
            objects.finish(self._wrenches)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of obstacles and objects."""
        return self._names

    def contacts(self) -> Contacts:
        """Return the contacts of the last step."""
        scratch = self._scratch
        active = np.flatnonzero(scratch.target[: self._count] >= 0)
        points, root = scratch.vertex[active].astype(np.int64), self._root
        places = scratch.place[active].astype(np.float64) @ root[:3, :3].T + root[:3, 3]
        along = scratch.normal[active].astype(np.float64) @ root[:3, :3].T
        forces = scratch.forces[active]
        pressures = np.einsum("ci,ci->c", along, forces) / self._tables.areas[points]
        colliders = scratch.obstacle[active].astype(np.int64)
        return Contacts(points, places, forces, pressures, colliders)

    def _evaluate_others(self, root: Floats, work: Workspace) -> None:
        """Evaluate distances of the skin to obstacles of other types, in the world."""
        if not len(self._world):
            return
        self._world[:] = self._scratch.rest
        interpolate_skin(self._runtime.skin, work.skin.carriers, root, work.skin, self._world)
        world = self._world.astype(np.float64)
        for row, k in enumerate(self.shapes.others):
            self._gaps[row], self._normals[row] = checked_distances(self.shapes.colliders[k], world)


def usual_stiffness(runtime: RuntimeModel) -> float:
    """Return the default pressure per depth, in Pa/m.

    The depth is a thousandth of the size for the sum of two pressures: Young's modulus, and the
    body's weight on a hundredth of its skin.
    """
    mass, area = _mass_and_area(runtime)
    pressure = float(np.mean(runtime.model.young)) + mass * G / (CARRYING * area)
    return pressure / (SINKING * runtime.size)


def _mass_and_area(runtime: RuntimeModel) -> tuple[float, float]:
    model = runtime.model
    mass = (model.mesh.volumes() * np.asarray(model.density, np.float64)).sum()
    return float(mass), float(model.surface.areas().sum())
