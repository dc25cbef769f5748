"""Free rigid objects that touch flesh in reduced coordinates, obstacles, and each other.

A step linearises all contacts at predicted places. Let a contact with the skin have the depth
δ − c·z + g·y beyond its target, for a change z of the flesh and y of the objects, and the stiffness
s. The objects' system is B y = h + C z, with B their inertia + Σ s g gᵀ, h = −gradient − Σ s δ g
and C = Σ s g cᵀ. Substituted into the flesh's system it adds Cᵀ B⁻¹ h to the force and −Cᵀ B⁻¹ C to
the stiffness. Objects then move by exactly the opposite of the forces on the skin.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from supple.arrays import Bools, Floats, Ints
from supple.checks import shown
from supple.compiled.jit import compiled, compiled_plain
from supple.dynamics.integrators import Integrator
from supple.dynamics.rigid_object import RigidObject
from supple.engines.common.contact.colliders import (
    ColliderShapes,
    into_root_axes,
    out_of_root_axes,
)
from supple.engines.common.contact.object_motion import ObjectMotion, object_hardness
from supple.engines.common.contact.sample_contacts import (
    MOST_CONTACTS,
    empty_sample_contacts,
    find_samples,
    solve_objects,
    write_loads,
)
from supple.errors import SuppleError
from supple.linalg.upper_triangle import padded_identity, solve

#: Largest number of objects: each adds six coordinates to every step.
MOST_OBJECTS = 64


def checked_objects(objects: Sequence[RigidObject]) -> tuple[RigidObject, ...]:
    """Return objects as a tuple; raise an error for other types, duplicates and too many."""
    if isinstance(objects, RigidObject) or not isinstance(objects, Iterable):
        raise SuppleError(f"objects is {shown(objects)}; give a list of RigidObjects")
    listed = tuple(objects)
    for number, each in enumerate(listed):
        if not isinstance(each, RigidObject):
            raise SuppleError(f"object {number} is {shown(each)}; give a RigidObject")
    if len(listed) > MOST_OBJECTS:
        raise SuppleError(f"there are {len(listed)} objects; give at most {MOST_OBJECTS}")
    if len({id(each) for each in listed}) < len(listed):
        number = next(k for k, each in enumerate(listed) if each in listed[:k])
        raise SuppleError(f"object {number} is listed twice; use a copy for a second object")
    return listed


class ObjectCoupling(NamedTuple):
    """Terms of the skin's contacts with free objects, in translations and rotations of the objects.

    O is the number of free objects, and r that of the flesh's coordinates.
    """

    free: Ints
    """(colliders,) index of the free object, or −1."""
    hardness: Floats
    """(colliders,) largest stiffness of a contact with a free object, N/m; else infinite."""
    centres: Floats
    """(O, 3) centres of mass at the predicted places, in the world."""
    mixed: Floats
    """(6 O, r) C = Σ s g cᵀ."""
    matrix: Floats
    """(6 O, 6 O) Σ s g gᵀ, upper triangle."""
    force: Floats
    """(6 O,) −Σ s δ g."""
    change: Floats
    """(6 O,) y after the solution."""


class FreeObjects:
    """Rigid objects of a simulator: kinematic ones, and free ones with their motion and contacts.

    Attributes
    ----------
    objects
        All objects.
    motion
        Motion of the free objects.
    coupling
        Terms of contacts with the skin, which `add_contacts` of an engine fills.
    """

    def __init__(self, objects: Sequence[RigidObject] = (), modes: int = 0) -> None:
        self._modes = modes
        self._loads: Floats = np.zeros((0, 0))
        self.set(objects)

    def set(self, objects: Sequence[RigidObject]) -> None:
        """Replace the objects."""
        self.objects = checked_objects(objects)
        states = [(each.place, each.velocity, each.spin) for each in self.objects]
        self._first = [tuple(value.copy() for value in state) for state in states]
        free = [each for each in self.objects if not each.kinematic]
        self.motion, size = ObjectMotion(free), 6 * len(free)
        self.fit(0)
        self._local = np.concatenate([np.zeros((0, 3)), *(each.samples for each in free)])
        self._radii = np.concatenate([np.zeros(0), *(each.sample_radii for each in free)])
        self._owners = np.repeat(np.arange(len(free)), [len(each.samples) for each in free])
        self._centres = self._local.copy()
        self._hardness = np.array([object_hardness(each) for each in free])
        self._contacts = empty_sample_contacts(MOST_CONTACTS if free else 0)
        self._gradient, self._inertia = np.zeros(size), np.zeros((size, size))
        self._factor, self._wrench = padded_identity(size), np.zeros(size)
        self._touching = np.zeros(len(free), bool)

    def fit(self, colliders: int, first_object: int = 0, damping: float = 0.0) -> None:
        """Allocate arrays for this number of colliders, without contacts with the skin yet.

        The stiffness of contacts with the skin increases by `damping` times it.
        """
        free, hardness = np.full(colliders, -1), np.full(colliders, np.inf)
        listed = list(self.motion.objects)
        for k, each in enumerate(self.objects):
            if colliders and not each.kinematic:
                free[first_object + k] = listed.index(each)
                hardness[first_object + k] = (1 + damping) * object_hardness(each)
        size = self.motion.size
        mixed, matrix = np.zeros((size, self._modes)), np.zeros((size, size))
        self.coupling = ObjectCoupling(
            free, hardness, self.motion.centres, mixed, matrix, np.zeros(size), np.zeros(size)
        )
        shape = sum(len(each.samples) for each in listed), colliders
        if colliders == 0 or self._loads.shape != shape:  # a copy keeps its loads
            self._loads = np.zeros(shape)

    @property
    def any_free(self) -> bool:
        """True if contact forces move at least one of the objects."""
        return self.motion.size > 0

    def reset(self) -> None:
        """Return free objects to their initial places."""
        for each, (place, velocity, spin) in zip(self.objects, self._first, strict=True):
            if not each.kinematic:
                each.place, each.velocity, each.spin = place, velocity, spin
        self._loads[:], self._touching[:] = 0.0, False
        self.motion.reset()

    def state_arrays(self) -> dict[str, Any]:
        """Return the arrays that later steps depend on, by name."""
        places = np.array([each.place for each in self.objects]).reshape(-1, 4, 4)
        arrays = {"places": places, "loads": self._loads, "touching": self._touching}
        return arrays | {f"motion.{name}": a for name, a in self.motion.state_arrays().items()}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Set the arrays that `state_arrays` returned."""
        for each, place in zip(self.objects, state["places"], strict=True):
            each.place = place
        loads = state.get("loads")  # of other colliders if they have changed
        fits = loads is not None and loads.shape == self._loads.shape
        self._loads[:] = loads if fits else 0.0
        self._touching[:] = state["touching"] > 0
        start = "motion."
        motion = {k.removeprefix(start): v for k, v in state.items() if k.startswith(start)}
        self.motion.set_state(motion)

    def begin(self, shapes: ColliderShapes, integrator: Integrator, h: float) -> None:
        """Predict the places of free objects after h seconds, and place their shapes there."""
        self.motion.begin(integrator, h)
        for collider, k in enumerate(self.coupling.free):
            if k >= 0:
                turn, rigid = self.motion.rotations[k], self.motion.objects[k]
                shapes.world.rotations[collider] = turn
                shapes.world.translations[collider] = self.motion.centres[k] - turn @ rigid.offset

    def clear(self) -> None:
        """Discard the contacts with the skin in `coupling`."""
        self.coupling.mixed[:], self.coupling.matrix[:], self.coupling.force[:] = 0.0, 0.0, 0.0

    def condense(
        self,
        shapes: ColliderShapes,
        law: tuple[float, float],
        gravity: Floats,
        stiffness: Floats,
        force: Floats,
    ) -> None:
        """Substitute the objects' motion into the flesh's `stiffness` and `force` of contacts.

        `law` is the coefficient of friction and the length of the step in s. The stiffness (r, r)
        is an upper triangle; contacts with the skin are in `coupling`.
        """
        motion, (friction, h) = self.motion, law
        for k in range(len(motion.objects)):
            of_object = self._owners == k
            self._centres[of_object] = (
                self._local[of_object] @ motion.rotations[k].T + motion.centres[k]
            )
        samples = self._centres, self._radii, self._owners, self._hardness, self._loads
        objects = self.coupling.free, motion.centres, motion.guess
        shapes.update_motions(np.eye(4))
        find_samples(
            shapes.in_world, *samples, *objects, shapes.motions, friction, h, self._contacts
        )
        self._gradient[:], self._inertia[:] = 0.0, 0.0
        motion.add_terms(gravity, 0, self._gradient, self._inertia)
        coupling, solved = self.coupling, (self._gradient, self._inertia, self._contacts)
        known = self.coupling.free, self._owners
        change, factor = coupling.change, self._factor
        solve_objects(*solved, *known, coupling.matrix, coupling.force, factor, change)
        _substitute(factor, coupling.mixed, change, stiffness, force)

    def respond(self, z: Floats) -> None:
        """Set `coupling.change` to y for a change z (r,) of the flesh since the prediction."""
        _respond(self._factor, self.coupling.mixed, z, self.coupling.change)

    def finish(self, wrenches: Floats) -> None:
        """End the step with forces and torques about the centres on the objects, (O, 6)."""
        coupling, motion = self.coupling, self.motion
        solved = self._gradient, self._inertia, self._contacts, coupling.free, self._owners
        coupling.matrix[:], self._wrench[:] = 0.0, wrenches.reshape(-1)
        change = coupling.change
        solve_objects(*solved, coupling.matrix, self._wrench, self._factor, change)
        write_loads(self._contacts, coupling.free, self._owners, change, self._loads)
        motion.change(change)
        # BDF2 lets a light object on a stiff contact bounce in every other step.
        touching: Bools = np.any(wrenches, axis=1).reshape(-1)
        for k in range(len(touching)):
            touching[k] |= bool(self._loads[self._owners == k].any())
        motion.finish(impact=bool((touching != self._touching).any()))
        self._touching[:] = touching


@compiled_plain
def _arm(coupling, free, root, place):  # type: ignore[no-untyped-def]
    """Return the vector from the centre of free object to a place in the root's frame."""
    x, y, z = out_of_root_axes(root, place[0], place[1], place[2])
    centre = coupling.centres[free]
    return x + root[0, 3] - centre[0], y + root[1, 3] - centre[1], z + root[2, 3] - centre[2]


@compiled_plain
def add_line(coupling, free, root, place, direction, spring, line, columns):  # type: ignore[no-untyped-def]
    """Add a contact of the skin with a free object to `coupling`.

    `place` and `direction` are in the frame of `root`; `line` is √s c in the flesh's `columns`,
    with −1 for padding, and `spring` √s and √s δ.
    """
    scale, push = spring
    x, y, z = _arm(coupling, free, root, place)
    p, q, r = out_of_root_axes(root, direction[0], direction[1], direction[2])
    p, q, r = scale * p, scale * q, scale * r
    row = (p, q, r, y * r - z * q, z * p - x * r, x * q - y * p)
    at = 6 * free
    for i in range(6):
        coupling.force[at + i] -= push * row[i]
        for j in range(i, 6):
            coupling.matrix[at + i, at + j] += row[i] * row[j]
        mixed = coupling.mixed[at + i]
        for j in range(len(line)):
            if columns[j] >= 0:
                mixed[columns[j]] += row[i] * line[j]


@compiled_plain
def object_displacement(coupling, free, root, place):  # type: ignore[no-untyped-def]
    """Return the displacement of a free object at a place, both in the frame of `root`, by y."""
    x, y, z = _arm(coupling, free, root, place)
    c = coupling.change[6 * free : 6 * free + 6]
    p, q = c[0] + c[4] * z - c[5] * y, c[1] + c[5] * x - c[3] * z
    return into_root_axes(root, p, q, c[2] + c[3] * y - c[4] * x)


@compiled_plain
def add_wrench(coupling, free, root, place, force, wrenches):  # type: ignore[no-untyped-def]
    """Add a force in the world, at a place in the frame of `root`, to the wrenches (O, 6)."""
    x, y, z = _arm(coupling, free, root, place)
    p, q, r = force
    out = wrenches[free]
    out[0], out[1], out[2] = out[0] + p, out[1] + q, out[2] + r
    out[3], out[4] = out[3] + y * r - z * q, out[4] + z * p - x * r
    out[5] += x * q - y * p


@compiled
def _substitute(
    factor: Floats, mixed: Floats, change: Floats, stiffness: Floats, force: Floats
) -> None:
    """Add Cᵀ B⁻¹ h to the force and subtract Cᵀ B⁻¹ C from the stiffness; `change` is B⁻¹ h."""
    size, modes = mixed.shape
    column = np.empty(size)
    for j in range(modes):
        total = 0.0
        for i in range(size):
            column[i] = mixed[i, j]
            total += abs(column[i])
        if total == 0.0:
            continue
        for i in range(size):
            force[j] += column[i] * change[i]
        solve(factor, column)
        for k in range(j + 1):
            total = 0.0
            for i in range(size):
                total += mixed[i, k] * column[i]
            stiffness[k, j] -= total


@compiled
def _respond(factor: Floats, mixed: Floats, z: Floats, change: Floats) -> None:
    """Add B⁻¹ C z to the change."""
    response = mixed @ z
    solve(factor, response)
    change += response
