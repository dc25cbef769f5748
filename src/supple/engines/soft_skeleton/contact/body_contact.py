"""Contact of a body with obstacles, rigid objects and itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from supple.arrays import Floats, Ints, Singles
from supple.dynamics.rigid_object import RigidObject
from supple.engines.soft_skeleton.bones.body_points import BodyPoints
from supple.engines.soft_skeleton.bones.bone_chain import BoneChain
from supple.engines.soft_skeleton.contact.body_parts import body_parts, dominant_bones
from supple.engines.soft_skeleton.contact.dents import depth_mismatch, fit_dents, write_dents
from supple.engines.soft_skeleton.contact.object_motion import ObjectMotion
from supple.engines.soft_skeleton.contact.pressing import (
    add_contacts,
    settle_contacts,
    sum_forces,
)
from supple.engines.soft_skeleton.contact.pressing_tables import (
    Things,
    empty_pressing,
    half_sizes,
    plain_columns,
    plain_csr,
)
from supple.engines.soft_skeleton.contact.skin_patches import skin_patches, spread_order
from supple.engines.soft_skeleton.contact.sticking import stick
from supple.engines.soft_skeleton.contact.touches import (
    FINEST,
    OWN,
    empty_touches,
    find_touches,
    gather_members,
    push_out,
    take_point,
)
from supple.engines.soft_skeleton.model import SoftSkeletonModel
from supple.mesh.obstacles import OTHER, Capsule, Obstacle
from supple.mesh.shape_tables import PlacedShape, place_shapes, shape_tables

#: Pressure on skin in Pa for a metre of depth: the weight of a person on a hand's width is 0.6 mm.
HARDNESS = 5e7
#: Frequency in Hz of an object on the spring that keeps it out of others: it sinks in 0.15 mm.
OBJECT_FREQUENCY = 40.0
#: Parts that edges of the skin are cut into, per edge over the radius of a thing.
CUT = 4.0
#: Sub-steps that fast things are followed in, at most.
MOST_SUBSTEPS = 8
#: Twice as far, in m, may skin go in one of them where it is about to touch an obstacle.
LONGEST_MOVE = 0.04
#: Forces that pull count as parts of those that push, or of this part of the body's weight.
LEAST_PUSH = 0.2


class Contacts(NamedTuple):
    """Contacts of the skin in a step."""

    points: Ints
    """(c,) vertices of the skin, the nearest."""
    places: Floats
    """(c, 3) in the world."""
    forces: Floats
    """(c, 3) on the body, N."""
    pressures: Floats
    """(c,) Pa."""
    things: Ints
    """(c,) what they touch: obstacles, then objects, then bones, in their order."""


class BodyContact:
    """Contacts of a body with things and itself, and their forces.

    Parameters
    ----------
    model
        The model.
    friction
        Coefficient of Coulomb's law.
    own
        Whether parts of the body touch each other.
    """

    def __init__(self, model: SoftSkeletonModel, friction: float, own: bool) -> None:
        self.model, self.friction = model, friction
        skin = model.skin
        n, K = len(skin.rest), len(model.parents)
        weights = sp.csr_array((skin.weights, skin.bones, skin.bone_starts), (n, K))
        self.owners = dominant_bones(weights)
        self._order = spread_order(skin.rest)
        self._triangles = np.ascontiguousarray(model.surface.triangles, np.int64)
        self._patches = skin_patches(skin.rest, self._triangles, self._order, OWN)
        ends = skin.rest[self._triangles] - skin.rest[np.roll(self._triangles, 1, axis=1)]
        self._edge = float(np.median(np.linalg.norm(ends, axis=2)))
        self._spread = plain_csr(model.spread)
        self._flexible = plain_csr(model.flexibility)
        self._motion = plain_columns(model.motion)
        p = model.spread.shape[1]
        #: (n̄, 3) what contact moves the skin beside bones and handles, in the world.
        self.dents, self._dent_work = np.zeros((n, 3)), (np.zeros(p), np.zeros((p, 3)))
        self._fit_work = np.zeros((n, 4))
        parts = body_parts(model.parents, skin.rest, weights) if own else None
        empty: list[Capsule] = []
        self._parts = parts or (empty, np.zeros(0, np.int64), np.zeros((0, n), bool))
        self.motion, self._damping, self._deepest = ObjectMotion(()), 0.0, 0.0
        self.objects: tuple[RigidObject, ...] = ()
        self._first: list[tuple[Floats, ...]] = []
        self._kinds: tuple[Any, ...] = (None,)
        #: Whether there was no room for all contacts of this step, and is nothing to touch.
        self.full, self.nothing = False, True
        self.set_things((), ())

    def set_things(self, obstacles: Sequence[Obstacle], objects: Sequence[RigidObject]) -> None:
        """Have these around: obstacles, and objects that are moved or pushed."""
        capsules, bones, _ = self._parts
        self.obstacles, before, self.objects = tuple(obstacles), self.objects, tuple(objects)
        if before != self.objects:
            states = [(each.place, each.velocity, each.spin) for each in self.objects]
            self._first = [tuple(value.copy() for value in state) for state in states]
        self._listed: tuple[Any, ...] = (*self.obstacles, *self.objects, *capsules)
        self.motion = ObjectMotion([each for each in self.objects if not each.moved])
        self._shapes = shape_tables(self._listed)
        o, first = len(self.obstacles), len(self.obstacles) + len(self.objects)
        self._first_object, self._first_bone = o, first
        count = len(self._listed)
        free, on, hardness = np.full(count, -1), np.full(count, -1), np.zeros(count)
        on[first:] = bones
        for k, each in enumerate(self.objects):
            hardness[o + k] = each.mass * (2 * np.pi * OBJECT_FREQUENCY) ** 2
            hardness[o + k] /= min(len(each.samples), 4)
            if not each.moved:
                free[o + k] = self.motion.objects.index(each)
            else:
                hardness[o + k] = 0.0
        sampled = [each for each in self.objects if not each.moved]
        owners = [o + k for k, each in enumerate(self.objects) for _ in each.samples]
        owners = [own for own in owners if free[own] >= 0]
        self._own_samples = np.concatenate([np.zeros((0, 3)), *(e.samples for e in sampled)])
        self._radii = np.concatenate([np.zeros(0), *(e.sample_radii for e in sampled)])
        self._samples = np.zeros_like(self._own_samples)
        self._things = Things(
            free.astype(np.int64),
            on.astype(np.int64),
            np.array(owners, np.int64),
            self.motion.centres,
            self._shapes.turns,
            self._shapes.shifts,
            hardness,
            np.zeros((count, 3)),
        )
        self._sums = np.zeros((len(self.model.parents), 4)), np.zeros((count, 4))
        self._cuts = np.ones(count, np.int64)
        sizes = np.array([half_sizes(each) for each in self._listed]).reshape(-1, 2)
        self._thin = sizes[:, 0]
        if first:
            cuts = np.ceil(np.minimum(CUT * self._edge / sizes[:first, 1], FINEST))
            self._cuts[:first] = np.maximum(cuts, 1)
        # Known by distances alone.
        self._others = [k for k in range(o) if self._shapes.kinds[k] == OTHER]
        self.nothing = count == 0
        placed = any(isinstance(each, PlacedShape) for each in self.obstacles)
        self._placed = self.obstacles if placed else ()
        kinds = (*self._shapes.kinds, o, len(self._radii), self.motion.size)
        if kinds != self._kinds:  # else what sticks goes on sticking
            self._kinds = kinds
            self._make_room()

    def _make_room(self) -> None:
        """Have room for contacts with the things that there are, none of which touches yet."""
        n = len(self.model.skin.rest)
        self._touches = empty_touches(n)
        self.dents[:], self._deepest = 0.0, 0.0
        self._were, self.part, self.part_before = np.zeros((len(self.objects), 3)), 1.0, 0.0
        self.end_step()
        size = 3 + 3 * len(self.model.parents) + len(self.model.stiffness) + self.motion.size
        numbers = n + len(self._radii) + FINEST**2 * len(self._triangles)
        loads = len(self._touches.members) * int(np.diff(self._spread[0]).max(initial=0))
        self._pressing = empty_pressing(size, numbers, self.model.spread.shape[1], loads)

    def substeps(self, dt: float, speed: float) -> int:
        """Return how many sub-steps keep things from passing through skin, at most `MOST_SUBSTEPS`.

        Objects, and skin that moves with a speed in m/s near obstacles, go no farther in one than
        half of what is thinnest.
        """
        most, o = 1.0, self._first_object
        for k, each in enumerate(self.objects):
            far = float(np.linalg.norm(each.place[:3, 3] - self._were[k]))
            if not each.moved:
                far = dt * float(np.linalg.norm(each.velocity))
            most = max(most, far / (0.5 * min(self._thin[o + k], LONGEST_MOVE)))
        if o and self._touches.nearest[0] < 2 * dt * speed:
            thin = min(float(self._thin[:o].min()), LONGEST_MOVE)
            most = max(most, dt * speed / (0.5 * thin))
        return math.ceil(min(most, MOST_SUBSTEPS) - 1e-9)

    def begin(self) -> None:
        """Begin a stage: all points may press again."""
        freed = self._pressing.freed
        self._pressing.released[freed[1 : 1 + freed[0]]] = False
        freed[0] = 0

    def forget_last(self) -> None:
        """Drop the contacts of a stage that was given up."""
        self._touches.total[0] = self._pressing.active[0] = 0

    def end_step(self) -> None:
        """Remember where moved objects are."""
        self.part_before, self.full = 0.0, False
        for k, each in enumerate(self.objects):
            self._were[k] = each.place[:3, 3]

    def reset(self) -> None:
        """Forget what touched; objects are where they were when they were set."""
        for each, (place, velocity, spin) in zip(self.objects, self._first, strict=True):
            if not each.moved:
                each.place, each.velocity, each.spin = place, velocity, spin
        self.end_step()
        self.dents[:], self._deepest = 0.0, 0.0
        self._touches.total[0] = self._pressing.active[0] = self._pressing.holding[0] = 0
        self._touches.nearest[0] = 0.0
        self._pressing.held_by[:], self._pressing.pressed[:] = -1, 0.0
        self._pressing.forces[:] = 0.0
        self.motion.reset()

    @property
    def count(self) -> int:
        """Number of contacts."""
        return 0 if self.nothing else int(self._touches.total[0])

    @property
    def touching(self) -> Ints:
        """Vertices of the skin that contacts are at, again and again for some."""
        return self._touches.corners[: self.count].reshape(-1)

    def place(self, chain: BoneChain) -> None:
        """Put moved things, objects and the body's parts where they are."""
        if self.nothing:
            return
        shapes, o, first = self._shapes, self._first_object, self._first_bone
        place_shapes(shapes, self._placed)
        at = 0
        for k, each in enumerate(self.objects):
            free = self._things.objects[o + k]
            if free < 0:
                shapes.turns[o + k] = each.turn
                there, was = each.place[:3, 3], self._were[k]
                shapes.shifts[o + k] = was + self.part * (there - was)
                self._things.moves[o + k] = (self.part - self.part_before) * (there - was)
                continue
            turn, centre = self.motion.turns[free], self.motion.centres[free]
            shapes.turns[o + k], shapes.shifts[o + k] = turn, centre - turn @ each.offset
            own = slice(at, at + len(each.samples))
            self._samples[own] = self._own_samples[own] @ turn.T + centre
            at = own.stop
        bones = self._parts[1]
        if len(bones):
            shapes.turns[first:] = chain.turns[bones]
            shapes.shifts[first:] = chain.shifts[bones]

    def add(
        self,
        skin: BodyPoints,
        chain: BoneChain,
        phi: Floats,
        since: Floats,
        damping: float,
        gradient: Floats,
        hessian: Floats,
    ) -> None:
        """Find contacts where skin and things are, and add their forces to the system.

        `since` is the change (N,) since the step began, `damping` β/h.
        """
        self._damping = damping
        if self.nothing:
            return
        self.place(chain)
        find_touches(
            self._shapes,
            skin.x,
            self.dents,
            self._order,
            self._patches,
            self.model.areas,
            self._triangles,
            self._cuts,
            self._parts[2],
            self._samples,
            self._radii,
            self._things.owners,
            self._first_object,
            self._first_bone,
            self._touches,
        )
        for k in self._others:
            self._ask(k, skin.x)
        self.full |= bool(self._touches.full[0])
        if self._touches.total[0] == 0:
            self._pressing.active[0] = 0
            return
        add_contacts(
            self._touches,
            self._things,
            HARDNESS,
            self.friction,
            damping,
            since,
            self.model.thickness,
            self._spread,
            self._flexible,
            skin.tables,
            skin.offsets,
            chain.parents,
            chain.turns,
            chain.shifts,
            chain.places,
            phi,
            gradient,
            hessian,
            self._pressing,
        )

    def _ask(self, thing: int, x: Floats) -> None:
        """Find contacts with something that only knows distances."""
        gaps, ways = self.obstacles[thing].distances(x + self.dents)
        touches, first, own = self._touches, int(self._touches.total[0]), self.model.areas
        touches.nearest[0] = min(touches.nearest[0], max(gaps.min(), 0.0))
        gaps = gaps - np.einsum("ni,ni->n", ways, self.dents)
        total = int(touches.starts[first])
        # Those that are gathered already stay with theirs.
        touches.found[0, :total] = touches.members[:total]
        lengths = np.diff(touches.starts[: first + 1])
        touches.found[1, :total] = np.repeat(np.arange(first), lengths)
        areas = np.repeat(touches.areas[:first], lengths)
        touches.loads[:total] = touches.parts[:total] * areas
        for v in self._order[(gaps < 0)[self._order] & (own > 0)[self._order]]:
            total = take_point(touches, total, first, v, thing, gaps[v], *ways[v], x, own)
        gather_members(touches, total)

    def settle(self, change: Floats) -> float:
        """Take forces as the solver applied them; return the part of them that pulls."""
        if self.nothing or self._touches.total[0] == 0:
            return 0.0
        least = LEAST_PUSH * 9.81 * float(self.model.masses.sum())
        return float(settle_contacts(self._touches, change, self._damping, least, self._pressing))

    def mismatch(self, skin: BodyPoints, chain: BoneChain) -> float:
        """Return how far, in m, contacts of the skin are from the depths that the solver meant."""
        if self.nothing or self._pressing.active[0] == 0:
            return 0.0
        self.place(chain)
        return float(
            depth_mismatch(self._shapes, skin.x, self.dents, self._touches, self._pressing)
        )

    def finish(self, skin: BodyPoints, chain: BoneChain) -> None:
        """End a step: remember where points stick."""
        if self.nothing:
            return
        self.place(chain)
        self.part_before = self.part
        places = skin.x, self._samples, self._radii
        stick(self._touches, self._things, *places, self.friction, self._pressing)
        write_dents(
            self._touches,
            self._pressing.elastic,
            self._spread,
            self._motion,
            self.model.thickness,
            skin.tables,
            chain.turns,
            *self._dent_work,
            self.dents,
        )
        pressed = self._touches, self._pressing.elastic, self._pressing.grips
        body = self._shapes, skin.x, self.model.thickness
        self._deepest = float(fit_dents(*body, *pressed, self._fit_work, self.dents))
        for k in self._others:
            gaps = self.obstacles[k].distances(skin.x + self.dents)[0]
            self._deepest = max(self._deepest, -float(gaps.min()))

    def contacts(self) -> Contacts:
        """Return the contacts of the skin as they were applied."""
        press, touches = self._pressing, self._touches
        kept = np.flatnonzero(touches.areas[: self.count] > 0)
        along, most = press.forces[kept], touches.shares[kept].argmax(axis=1)
        return Contacts(
            touches.corners[kept, most],
            touches.places[kept],
            along[:, None] * touches.ways[kept] + press.across[kept],
            along / touches.areas[kept],
            touches.things[kept],
        )

    def readings(self) -> dict[str, Any]:
        """Return sums of the forces: in all, by part of the body, by thing."""
        by_part, by_thing = self._sums
        count = 0
        if not self.nothing:
            forces = self._touches, self._pressing, self.owners
            count = int(sum_forces(*forces, by_part, by_thing))
        outside = by_thing[: self._first_bone]
        parts, things = (np.flatnonzero(each[:, 3] * bool(count)) for each in (by_part, outside))
        return {
            "contacts": count,
            "contact_force": outside[things, :3].sum(axis=0),
            "penetration": self._deepest,
            "parts": {self.model.bones[part]: by_part[part, :3].copy() for part in parts},
            "things": {self._name(thing): outside[thing, :3].copy() for thing in things.tolist()},
        }

    @property
    def names(self) -> tuple[str, ...]:
        """Names of obstacles, objects, and bones of the body's own parts."""
        bones = [self.model.bones[bone] for bone in self._parts[1]]
        return (*map(self._name, range(self._first_bone)), *bones)

    def _name(self, thing: int) -> str:
        if thing < self._first_object:
            return f"obstacle {thing}"
        number = thing - self._first_object
        return self.objects[number].name or f"object {number}"

    def pressure(self) -> Floats:
        """(n̄,) pressure on the skin in Pa."""
        touches, count = self._touches, self.count
        load = np.zeros(len(self.model.skin.rest))
        along = np.maximum(self._pressing.forces[:count], 0.0)
        lengths = np.diff(touches.starts[: count + 1])
        total = int(lengths.sum())
        np.add.at(load, touches.members[:total], np.repeat(along, lengths) * touches.parts[:total])
        return load / np.maximum(self.model.areas, 1e-12)

    def shown(self, skin: Floats, out: Singles) -> None:
        """Write the skin (n̄, 3) with its dents, moved out of things where it is still inside."""
        if self.count == 0:
            out[:] = skin
            return
        np.add(skin, self.dents, out=out, casting="same_kind")
        push_out(self._shapes, self._touches, self._first_bone, out)
        for k in self._others:
            gaps, ways = self.obstacles[k].distances(out.astype(float))
            out -= np.minimum(gaps, 0.0)[:, None] * ways
