"""Contact of a body with obstacles, rigid objects and itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from supple.arrays import Floats, Ints, Singles
from supple.dynamics.rigid_object import RigidObject
from supple.engines.common.contact.colliders import ColliderShapes, checked_distances
from supple.engines.common.contact.object_motion import ObjectMotion, object_hardness
from supple.engines.common.contact.readings import Contacts
from supple.engines.common.state import State
from supple.engines.soft_skeleton.bones.body_points import BodyPoints
from supple.engines.soft_skeleton.bones.bone_chain import BoneChain
from supple.engines.soft_skeleton.contact.body_geometry import (
    body_parts,
    dominant_bones,
    skin_patches,
    spread_order,
)
from supple.engines.soft_skeleton.contact.contact_rows import update_anchors
from supple.engines.soft_skeleton.contact.forces import add_contacts, apply_change, sum_forces
from supple.engines.soft_skeleton.contact.search import (
    FINEST,
    SELF_CONTACT_POINTS,
    SearchedSkin,
    add_distance_contacts,
    find_contacts,
    push_out,
)
from supple.engines.soft_skeleton.contact.skin_indentation import (
    depth_mismatch,
    fit_indentation,
    write_indentation,
)
from supple.engines.soft_skeleton.contact.start_overlaps import StartOverlaps
from supple.engines.soft_skeleton.contact.tables import (
    Colliders,
    ContactLaw,
    ContactSet,
    ObjectSamples,
    add_normal_forces,
    empty_contact_set,
    empty_contact_system,
    skin_contacts,
    skin_flesh,
)
from supple.engines.soft_skeleton.model import SoftSkeletonModel
from supple.mesh.obstacles import Capsule, Obstacle
from supple.mesh.shape_tables import shape_tables

#: Pressure in Pa per metre of depth: a person's weight on a hand's width sinks in by 0.6 mm.
HARDNESS = 5e7
#: Subdivisions of the skin's edges, times the collider's radius over the edge length.
CUT = 4.0
#: Largest number of sub-steps for fast objects.
MAX_SUBSTEPS = 8
#: Twice the largest distance in m that objects, and skin near obstacles, move in a sub-step.
LONGEST_MOVE = 0.04
#: Lower bound of the pushing forces that pulling forces are compared with, in body weights.
LEAST_PUSH = 0.2

#: Names of the arrays of contacts and contact system that a saved state includes.
_CONTACTS = [name for name in ContactSet._fields if name not in ("full", "touching", "loads")]
_SYSTEM = ("forces", "friction_forces", "anchors", "anchor_colliders", "normal_forces", "anchored")


class BodyContact:
    """Contacts of a body with colliders and optionally itself, and their forces."""

    def __init__(self, model: SoftSkeletonModel, friction: float, self_contact: bool) -> None:
        self.model, self.friction = model, friction
        skin = model.skin
        n, K = len(skin.rest), len(model.parents)
        weights = sp.csr_array((skin.weights, skin.bones, skin.bone_starts), (n, K))
        self.owners = dominant_bones(weights)
        order = spread_order(skin.rest)
        triangles = np.ascontiguousarray(model.surface.triangles, np.int64)
        ends = skin.rest[triangles] - skin.rest[np.roll(triangles, 1, axis=1)]
        self._edge = float(np.median(np.linalg.norm(ends, axis=2)))
        p = model.spread.shape[1]
        #: (n̄, 3) displacement of the skin by contact, added to bones and handles, in the world.
        self.indentation = np.zeros((n, 3))
        self._indentation_work, self._fit_work = (np.zeros(p), np.zeros((p, 3))), np.zeros((n, 4))
        self._no_flesh = np.zeros(len(model.stiffness))
        no_capsules: list[Capsule] = []
        self._parts = no_capsules, np.zeros(0, np.int64), np.zeros((0, n), bool)
        if self_contact:
            self._parts = body_parts(model.parents, skin.rest, weights)
        patches = skin_patches(skin.rest, triangles, order, SELF_CONTACT_POINTS)
        self._skin = SearchedSkin(
            shapes=shape_tables(()),
            x=skin.rest,
            indentation=self.indentation,
            order=order,
            patches=patches,
            areas=model.areas,
            triangles=triangles,
            cuts=np.zeros(0, np.int64),
            first_part=n,
            allowed=self._parts[2],
            bones=self._parts[1],
            rig=BodyPoints(skin).posed(BoneChain(model.parents, model.joints), self._no_flesh),
            starts=np.zeros(0),
        )
        # Vertices in contact when other obstacles were set.
        self._touched, self._contacts = np.zeros(n, bool), empty_contact_set(n)
        self._flesh = skin_flesh(model)
        self.motion, self._damping, self._deepest = ObjectMotion(()), 0.0, 0.0
        self._places = ColliderShapes()
        self.objects: tuple[RigidObject, ...] = ()
        self._first: list[tuple[Floats, ...]] = []
        self._kinds: tuple[Any, ...] = (None,)
        #: Whether some contacts of this step exceeded the storage; whether there is no collider.
        self.full, self.nothing = False, True
        self.set_colliders((), ())

    def set_colliders(self, obstacles: Sequence[Obstacle], objects: Sequence[RigidObject]) -> None:
        """Set the obstacles, and the kinematic and free objects."""
        capsules, bones, _ = self._parts
        self.obstacles, before, self.objects = tuple(obstacles), self.objects, tuple(objects)
        if before != self.objects:
            states = [(each.place, each.velocity, each.spin) for each in self.objects]
            self._first = [tuple(value.copy() for value in state) for state in states]
        free_objects = [each for each in self.objects if not each.kinematic]
        self.motion = ObjectMotion(free_objects)
        self._places.set(self.obstacles, self.objects, capsules)
        self._shapes = self._places.world
        o, first = len(self.obstacles), len(self.obstacles) + len(self.objects)
        self._first_object, self._first_bone = o, first
        count = len(self._shapes.kinds)
        free, bone_of, hardness = np.full(count, -1), np.full(count, -1), np.zeros(count)
        bone_of[first:] = bones
        for k, rigid in enumerate(self.objects):
            if not rigid.kinematic:
                hardness[o + k] = object_hardness(rigid)
                free[o + k] = self.motion.objects.index(rigid)
        counts = [0 if each.kinematic else len(each.samples) for each in self.objects]
        owners = np.repeat(np.arange(o, first), counts)
        self._local_samples = np.concatenate(
            [np.zeros((0, 3)), *(each.samples for each in free_objects)]
        )
        self._samples = ObjectSamples(
            np.zeros_like(self._local_samples),
            np.concatenate([np.zeros(0), *(each.sample_radii for each in free_objects)]),
            owners.astype(np.int64),
        )
        self._colliders = Colliders(
            free.astype(np.int64),
            bone_of.astype(np.int64),
            self._samples.owners,
            self.motion.centres,
            self._shapes.rotations,
            self._shapes.translations,
            hardness,
            np.zeros((count, 3)),
        )
        self._sums = np.zeros((len(self.model.parents), 4)), np.zeros((count, 4))
        cuts = np.ones(count, np.int64)
        extents = self._places.half_extents
        self._thin = extents[:, 0]
        if first:
            finest = np.ceil(np.minimum(CUT * self._edge / extents[:first, 1], FINEST))
            cuts[:first] = np.maximum(finest, 1)
        first_part = len(self.model.skin.rest) + len(self._samples.radii)
        self._skin = self._skin._replace(shapes=self._shapes, cuts=cuts, first_part=first_part)
        self._others = [k for k in self._places.others if k < o]
        self.nothing = count == 0
        kinds = (*self._shapes.kinds, o, len(self._samples.radii), self.motion.size)
        if kinds != self._kinds:  # otherwise friction anchors stay
            self._kinds = kinds
            self._allocate()

    def _allocate(self) -> None:
        """Allocate storage for contacts with the colliders, without any contact yet."""
        n = len(self.model.skin.rest)
        self._touched[self._contacts.members[: self._contacts.starts[self.count]]] = True
        self._contacts = empty_contact_set(n)
        self.overlaps = StartOverlaps(self.model, self.owners, len(self._shapes.kinds))
        self._skin = self._skin._replace(starts=self.overlaps.depths.copy())
        self.indentation[:], self._deepest = 0.0, 0.0
        self._were, self.part, self.part_before = np.zeros((len(self.objects), 3)), 1.0, 0.0
        self.end_step()
        size = 3 + 3 * len(self.model.parents) + len(self.model.stiffness) + self.motion.size
        numbers = self._skin.first_part + FINEST**2 * len(self._skin.triangles)
        widest = int(np.diff(self._flesh.spread[0]).max(initial=0))
        loads = len(self._contacts.members) * widest
        self._system = empty_contact_system(size, numbers, self.model.spread.shape[1], loads)

    def substeps(self, dt: float, speed: float) -> int:
        """Return the number of sub-steps that keeps colliders from passing through the skin.

        In a sub-step an object moves by at most half of its smallest half extent, and skin near
        obstacles, at a `speed` in m/s, by half of theirs; neither by more than `LONGEST_MOVE`/2.
        The result is at most `MAX_SUBSTEPS`.
        """
        count, o = 1.0, self._first_object
        for k, rigid in enumerate(self.objects):
            far = float(np.linalg.norm(rigid.place[:3, 3] - self._were[k]))
            if not rigid.kinematic:
                far = dt * float(np.linalg.norm(rigid.velocity))
            count = max(count, far / (0.5 * min(self._thin[o + k], LONGEST_MOVE)))
        if o and self._contacts.nearest[0] < 2 * dt * speed:
            thin = min(float(self._thin[:o].min()), LONGEST_MOVE)
            count = max(count, dt * speed / (0.5 * thin))
        return math.ceil(min(count, MAX_SUBSTEPS) - 1e-9)

    def start(self, skin: BodyPoints, driven: bool, refuse: bool) -> None:
        """Measure how deep the skin is in new obstacles; see `StartOverlaps.measure`."""
        free = (self.model.areas > 0) & ~self._touched
        self.overlaps.measure(self.obstacles, skin.x + self.indentation, free, driven, refuse)
        self._touched[:] = False

    def check_others(self, skin: BodyPoints) -> None:
        """Raise an error before a step if an obstacle's own method distances() fails."""
        for k in self._others:
            checked_distances(self.obstacles[k], skin.x + self.indentation)

    def begin(self, h: float) -> None:
        """Begin a stage of h seconds: mark all contacts as not released."""
        self._skin.starts[:] = self.overlaps.after(h)
        released = self._system.released_list
        self._system.released[released[1 : 1 + released[0]]] = False
        released[0] = 0

    def discard_last(self) -> None:
        """Discard the contacts of a stage that is repeated."""
        self._contacts.total[0] = self._system.active[0] = 0

    def end_step(self) -> None:
        """End a step: store the positions of the objects, from which the next step starts."""
        self.part_before, self.full = 0.0, False
        for k, rigid in enumerate(self.objects):
            self._were[k] = rigid.place[:3, 3]

    def reset(self) -> None:
        """Discard all contacts, and return free objects to their initial places."""
        for rigid, (place, velocity, spin) in zip(self.objects, self._first, strict=True):
            if not rigid.kinematic:
                rigid.place, rigid.velocity, rigid.spin = place, velocity, spin
        self.end_step()
        self.indentation[:], self._deepest = 0.0, 0.0
        self.overlaps.reset()
        self._skin.starts[:], self._touched[:] = 0.0, False
        self._contacts.total[0] = self._system.active[0] = self._system.anchored[0] = 0
        self._contacts.nearest[0] = 0.0
        self._system.anchor_colliders[:], self._system.normal_forces[:] = -1, 0.0
        self._system.forces[:] = 0.0
        self.motion.reset()

    def state_arrays(self) -> dict[str, Any]:
        """Return the arrays that later steps and readings depend on, by name."""
        arrays: dict[str, Any] = {"indentation": self.indentation, "penetration": self._deepest}
        arrays |= {name: getattr(self._contacts, name) for name in _CONTACTS}
        arrays |= {name: getattr(self._system, name) for name in _SYSTEM}
        arrays["overlaps"] = self.overlaps.arrays
        arrays["nearest"] = np.minimum(self._contacts.nearest, 1e30)  # finite
        arrays["places"] = np.array([each.place for each in self.objects]).reshape(-1, 4, 4)
        arrays |= {f"motion.{name}": a for name, a in self.motion.state_arrays().items()}
        return {name: np.asarray(array) for name, array in arrays.items()}

    def set_state(self, state: State, chain: BoneChain) -> None:
        """Set the arrays that `state_arrays` returned."""
        self.indentation[:], self._deepest = state["indentation"], float(state["penetration"])
        self.overlaps.arrays = state["overlaps"]
        self._skin.starts[:] = self.overlaps.depths
        for name in _CONTACTS:
            getattr(self._contacts, name)[...] = state[name]
        for name in _SYSTEM:
            getattr(self._system, name)[...] = state[name]
        for rigid, place in zip(self.objects, state["places"], strict=True):
            rigid.place = place
        self.motion.set_state(state.part("motion"))
        self.part = 1.0
        self.end_step()
        self.place(chain)

    @property
    def count(self) -> int:
        """Number of contacts."""
        return 0 if self.nothing else int(self._contacts.total[0])

    @property
    def touching(self) -> Ints:
        """Corners of all contacts on the skin; some vertices are repeated."""
        return self._contacts.corners[: self.count].reshape(-1)

    def place(self, chain: BoneChain) -> None:
        """Place moving obstacles, objects and the capsules of the bones."""
        if self.nothing:
            return
        shapes, o, first = self._shapes, self._first_object, self._first_bone
        self._places.place()
        at = 0
        for k, rigid in enumerate(self.objects):
            free = self._colliders.objects[o + k]
            if free < 0:
                shapes.rotations[o + k] = rigid.turn
                end, was = rigid.place[:3, 3], self._were[k]
                shapes.translations[o + k] = was + self.part * (end - was)
                self._colliders.moves[o + k] = (self.part - self.part_before) * (end - was)
                continue
            rotation, centre = self.motion.rotations[free], self.motion.centres[free]
            shapes.rotations[o + k] = rotation
            shapes.translations[o + k] = centre - rotation @ rigid.offset
            rows = slice(at, at + len(rigid.samples))
            self._samples.centres[rows] = self._local_samples[rows] @ rotation.T + centre
            at = rows.stop
        bones = self._parts[1]
        if len(bones):
            shapes.rotations[first:] = chain.rotations[bones]
            shapes.translations[first:] = chain.translations[bones]

    def add(
        self,
        skin: BodyPoints,
        chain: BoneChain,
        target: BoneChain,
        phi: Floats,
        since: Floats,
        damping: float,
        gradient: Floats,
        hessian: Floats,
    ) -> None:
        """Find the contacts of skin and colliders, and add their forces to the system.

        Parts of the body touch where they are deeper in each other than at the bones of `target`,
        without flesh. `since` is the change (N,) of the coordinates since the step began; `damping`
        is β/h. Terms are added to `gradient` (N,) and the upper triangle of `hessian` (N, N).
        """
        self._damping = damping
        if self.nothing:
            return
        self.place(chain)
        searched = self._skin._replace(x=skin.x, rig=skin.posed(target, self._no_flesh))
        firsts = self._first_object, self._first_bone
        find_contacts(searched, self._samples, *firsts, self._contacts)
        for k in self._others:
            self._find_by_distances(k, searched)
        self.full |= bool(self._contacts.full[0])
        if self._contacts.total[0] == 0:
            self._system.active[0] = 0
            return
        law = ContactLaw(HARDNESS, self.friction, damping)
        contacts = self._contacts, self._colliders, law, self._flesh
        body = skin.posed(chain, phi), chain.parents, since
        add_contacts(*contacts, *body, gradient, hessian, self._system)

    def _find_by_distances(self, collider: int, skin: SearchedSkin) -> None:
        """Find contacts with an obstacle that implements distances() alone."""
        obstacle = self.obstacles[collider]
        gaps, normals = checked_distances(obstacle, skin.x + self.indentation)
        self._contacts.nearest[0] = min(self._contacts.nearest[0], max(gaps.min(), 0.0))
        gaps = gaps - np.einsum("ni,ni->n", normals, self.indentation) + skin.starts[collider]
        add_distance_contacts(self._contacts, skin, collider, gaps, normals)

    def apply_change(self, change: Floats) -> float:
        """Set contact forces after a Newton step (N,); return pulling over pushing forces."""
        if self.nothing or self._contacts.total[0] == 0:
            return 0.0
        least_push = LEAST_PUSH * 9.81 * float(self.model.masses.sum())
        return float(apply_change(self._contacts, change, self._damping, least_push, self._system))

    def mismatch(self, skin: BodyPoints, chain: BoneChain) -> float:
        """Return the largest difference in m of contact depths from the solver's prediction."""
        if self.nothing or self._system.active[0] == 0:
            return 0.0
        self.place(chain)
        return float(
            depth_mismatch(self._shapes, skin.x, self.indentation, self._contacts, self._system)
        )

    def finish(self, skin: BodyPoints, chain: BoneChain) -> None:
        """End a sub-step: store friction anchors, and write the indentation of the skin."""
        if self.nothing:
            return
        self.place(chain)
        self.part_before = self.part
        contacts, system = self._contacts, self._system
        update_anchors(contacts, self._colliders, skin.x, self._samples, self.friction, system)
        flesh = self._flesh, skin.tables, chain.rotations, *self._indentation_work
        write_indentation(contacts, system.elastic, *flesh, self.indentation)
        body = self._shapes, skin.x, self.model.thickness, contacts
        loads = system.elastic, system.stiffness, self._fit_work
        self._deepest = float(fit_indentation(*body, *loads, self.indentation))
        self.overlaps.depths[:] = self._skin.starts
        for k in {*self._others, *np.flatnonzero(self._skin.starts).tolist()}:
            gaps = self.obstacles[k].distances(skin.x + self.indentation)[0]
            self._deepest = max(self._deepest, -float(gaps.min()))

    def contacts(self) -> Contacts:
        """Return the contacts of the skin, with the forces that were applied."""
        return skin_contacts(self._contacts, self._system, self.count)

    def loads(self) -> tuple[Ints, Floats] | None:
        """Return the nearest vertices (c,) of the contacts, and forces (c, 3) on the skin in N."""
        if self.count == 0:
            return None
        contacts = self.contacts()
        return contacts.points, contacts.forces

    def readings(self) -> dict[str, Any]:
        """Return number of contacts, depth in m, and forces in N: total, by part, by collider."""
        by_part, by_collider = self._sums
        count = 0
        if not self.nothing:
            forces = self._contacts, self._system, self.owners
            count = int(sum_forces(*forces, by_part, by_collider))
        outside = by_collider[: self._first_bone]
        parts, touched = (np.flatnonzero(each[:, 3] * bool(count)) for each in (by_part, outside))
        return {
            "contacts": count,
            "contact_force": outside[touched, :3].sum(axis=0),
            "penetration": self._deepest,
            "parts": {self.model.bones[part]: by_part[part, :3].copy() for part in parts},
            "things": {self._places.name(k): outside[k, :3].copy() for k in touched.tolist()},
        }

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the colliders: obstacles, objects, and bones of the body itself."""
        bones = [self.model.bones[bone] for bone in self._parts[1]]
        return (*map(self._places.name, range(self._first_bone)), *bones)

    def pressure(self) -> Floats:
        """Return the pressure on the skin, (n̄,) in Pa."""
        load = np.zeros(len(self.model.skin.rest))
        add_normal_forces(self._contacts, self._system, self.count, load)
        return load / np.maximum(self.model.areas, 1e-12)

    def write_surface(self, skin: Floats, out: Singles) -> None:
        """Write the indented `skin` (n̄, 3) to `out`, projected out of colliders."""
        if self.count == 0:
            out[:] = skin
            return
        np.add(skin, self.indentation, out=out, casting="same_kind")
        push_out(self._shapes, self._contacts, self._skin.starts, self._first_bone, out)
        for k in self._others:
            gaps, normals = self.obstacles[k].distances(out.astype(float))
            out -= np.minimum(gaps + self._skin.starts[k], 0.0)[:, None] * normals
