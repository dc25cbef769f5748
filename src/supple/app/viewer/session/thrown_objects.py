"""Objects of the viewer: balls and boxes that are dragged into the body, and fall."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from supple.app.viewer.session.moving_obstacles import THINGS
from supple.app.viewer.session.posing import DampedFollower
from supple.arrays import Floats, Singles
from supple.dynamics.rigid_object import RigidObject
from supple.errors import SuppleError

ObjectKind = Literal["ball", "box"]
OBJECT_KINDS: tuple[ObjectKind, ...] = ("ball", "box")
#: Radius of a ball, as a part of the body's size, and density in kg/m³.
RADIUS, DENSITY = 0.05, 300.0
#: Objects at once: each adds six coordinates to every step.
MOST_OBJECTS = 8
#: Sizes of the body that an object may be away from it before it comes back.
FARTHEST = 3.0


class ThrownObjects:
    """Balls and boxes: led while they are dragged, and free after.

    Places are those of the scene, where a clip that loops comes back to its start.

    Parameters
    ----------
    size
        Of the character, in m.

    Attributes
    ----------
    objects
        Those that are there, in the simulator's world.
    changes
        Number of times that one came or went: nodes are made anew then.
    """

    def __init__(self, size: float) -> None:
        self.size, self.radius = size, RADIUS * size
        self.objects: list[RigidObject] = []
        self.changes = 0
        self._made = 0
        self._middle = np.zeros(3)
        self._held: dict[int, tuple[RigidObject, DampedFollower]] = {}
        self._walked = np.eye(4)
        self._known = True
        """Tell if the simulator has these objects as they are."""

    def add(self, kind: ObjectKind, skin: Singles) -> RigidObject:
        """Add a ball or a box before and above the middle of the skin (n̄, 3)."""
        if kind not in OBJECT_KINDS:
            raise SuppleError(f"objects are one of {', '.join(OBJECT_KINDS)}")
        if len(self.objects) >= MOST_OBJECTS:
            raise SuppleError(f"there are {MOST_OBJECTS} objects; remove some first")
        low, high = skin.min(axis=0).astype(float), skin.max(axis=0).astype(float)
        self._middle = (low + high) / 2
        place = np.array([self._middle[0], high[1], high[2]]) + self.radius * np.array([0, 1.5, 1])
        place[0] += 2.5 * self.radius * (self._made % 3 - 1)
        shape = THINGS[kind](self.radius)
        self._made += 1
        name = f"{kind} {self._made}"
        made = RigidObject(shape, density=DENSITY, place=self._world(place), name=name)
        self.objects.append(made)
        self._changed()
        return made

    def clear(self) -> None:
        """Take all of them away."""
        self.objects.clear()
        self._held.clear()
        self._changed()

    def _changed(self) -> None:
        self.changes += 1
        self._known = False

    def invalidate(self) -> None:
        """Give them to the simulator at the next step: it is another one."""
        self._known = False

    def place(self, each: RigidObject) -> Floats:
        """Return where an object is in the scene, (4, 4)."""
        inverse = np.eye(4)
        inverse[:3, :3] = self._walked[:3, :3].T
        inverse[:3, 3] = -inverse[:3, :3] @ self._walked[:3, 3]
        return inverse @ each.place

    def _world(self, centre: Floats) -> Floats:
        place = np.eye(4)
        place[:3, 3] = centre
        return self._walked @ place

    def hold(self, each: RigidObject) -> None:
        """Take hold of an object: nothing pushes it until it is let go."""
        if each in self.objects and id(each) not in self._held:
            each.kinematic = True
            self._held[id(each)] = each, DampedFollower(self.place(each)[:3, 3])
            self._known = False

    def lead(self, each: RigidObject, centre: ArrayLike) -> None:
        """Let an object that is held follow to a place (3,) in the scene."""
        where = np.array(centre, np.float64)
        if where.shape == (3,) and np.isfinite(where).all() and id(each) in self._held:
            self._held[id(each)][1].target = where

    def release(self, each: RigidObject) -> None:
        """Let an object go: it flies on as fast as it was led."""
        if self._held.pop(id(each), None) is not None:
            each.kinematic = False
            self._known = False

    def step(self, simulator: Any, dt: float, walked: Floats) -> None:
        """Lead what is held, bring back what was lost, and tell the simulator what changed."""
        self._walked = walked.copy()
        if not self._known:
            simulator.objects = tuple(self.objects)
            self._known = True
        for each, follower in self._held.values():
            goal = self.place(each)
            goal[:3, 3] = follower.step(dt)
            each.moved_to(walked @ goal, dt)
        for each in self.objects:
            away = self.place(each)[:3, 3] - self._middle
            if not each.kinematic and not float(np.abs(away).max()) < FARTHEST * self.size:
                above = self._middle + np.array([0.0, self.size / 2, 0.0])
                each.velocity, each.spin = np.zeros(3), np.zeros(3)
                each.place = self._world(above)
