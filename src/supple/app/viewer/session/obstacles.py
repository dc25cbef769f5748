"""Obstacles of the viewer: a ground, a movable ball, and rigid objects that can be dragged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from supple.app.viewer.session.posing import DampedFollower
from supple.arrays import Floats, Singles
from supple.dynamics.rigid_object import RigidObject
from supple.errors import SuppleError
from supple.maths.rotations import to_matrix
from supple.mesh.distance_field import Solid
from supple.mesh.obstacles import Box, Capsule, Convex, Obstacle, Plane, Sphere
from supple.mesh.surface import SurfaceMesh

#: Radius of the ball, relative to the character's size.
BALL = 0.08
ObjectKind = Literal["ball", "box"]
OBJECT_KINDS: tuple[ObjectKind, ...] = ("ball", "box")
#: Radius of an object relative to the character's size, and its density in kg/m³.
RADIUS, DENSITY = 0.05, 300.0
#: Largest number of objects; each adds six coordinates to every step.
MOST_OBJECTS = 8
#: An object farther away than this, relative to the character's size, is brought back.
FARTHEST = 3.0


def _cone(radius: float) -> Obstacle:
    angles = np.linspace(0, 2 * np.pi, 24, endpoint=False)
    base = np.column_stack([radius * np.cos(angles), np.full(24, -radius), radius * np.sin(angles)])
    return Convex(np.concatenate([base, [[0.0, radius, 0.0]]]))


def _ring(radius: float) -> Obstacle:
    """Return a torus in the horizontal plane."""
    a, b = 48, 24
    i, j = np.meshgrid(np.arange(a), np.arange(b), indexing="ij")
    angle, lift = 2 * np.pi * i / a, 2 * np.pi * j / b
    reach = radius + 0.35 * radius * np.cos(lift)
    height = 0.35 * radius * np.sin(lift)
    points = np.stack([reach * np.cos(angle), height, reach * np.sin(angle)], axis=-1)
    p00, p01 = i * b + j, i * b + (j + 1) % b
    p10, p11 = (i + 1) % a * b + j, (i + 1) % a * b + (j + 1) % b
    halves = ((p00, p01, p10), (p01, p11, p10))
    corners = [np.stack(each, axis=-1).reshape(-1, 3) for each in halves]
    return Solid(SurfaceMesh(points.reshape(-1, 3), np.concatenate(corners)), nodes=50_000)


#: Shapes by name: functions that make one of about a ball's radius.
SHAPES: dict[str, Callable[[float], Obstacle]] = {
    "ball": lambda r: Sphere((0.0, 0.0, 0.0), r),
    "bar": lambda r: Capsule((-2 * r, 0.0, 0.0), (2 * r, 0.0, 0.0), 0.5 * r),
    "box": lambda r: Box((0.0, 0.0, 0.0), (0.8 * r, 0.8 * r, 0.8 * r)),
    "cone": _cone,
    "ring": _ring,
}


class MovingObstacles:
    """Ground and ball, switched on and off; the ball follows its handle smoothly.

    The ball may have any of `SHAPES`. It is a kinematic object: with friction it drags the skin.
    `size` is the character's size in m.
    """

    def __init__(self, size: float, fixed: Sequence[Obstacle] = ()) -> None:
        self.fixed = tuple(fixed)  # obstacles that are always present
        self.radius = BALL * size
        self.height = 0.0  # of the ground, in m
        self.ground = self.ball = False  # whether they are present
        self._objects: dict[str, RigidObject] = {}
        self.kind = "ball"
        self._place = _follower(np.zeros(3))
        self._applied: tuple[bool, bool, str] | None = None
        self._world_from_clip = np.eye(4)

    @property
    def kind(self) -> str:
        """Name of the ball's shape in `SHAPES`."""
        return self._kind

    @kind.setter
    def kind(self, kind: str) -> None:
        if kind not in SHAPES:
            raise SuppleError(f"no shape {kind!r}; use one of {', '.join(SHAPES)}")
        if kind not in self._objects:
            self._objects[kind] = RigidObject(SHAPES[kind](self.radius), kinematic=True, name=kind)
        self._kind = kind

    @property
    def object(self) -> RigidObject:
        """Kinematic object of the ball."""
        return self._objects[self._kind]

    def place_around(self, skin: Singles) -> None:
        """Put the ground below this skin, and the ball beside it."""
        low, high = skin.min(axis=0), skin.max(axis=0)
        self.height = float(low[1])
        beside = (low + high) / 2
        beside[0] = high[0] + 1.5 * self.radius
        self._place = _follower(beside)

    @property
    def centre(self) -> Floats:
        """Current centre of the ball, (3,)."""
        return self._place.value[:3]

    @property
    def quaternion(self) -> Floats:
        """Current rotation of the ball, (w, x, y, z)."""
        return self._place.value[3:] / np.linalg.norm(self._place.value[3:])

    def move_ball(self, centre: ArrayLike, quaternion: ArrayLike | None = None) -> None:
        """Set the target of the ball: a point (3,) and a quaternion (w, x, y, z)."""
        point = np.array(centre, np.float64)
        if point.shape == (3,) and np.isfinite(point).all():
            self._place.target[:3] = point
        if quaternion is None:
            return
        rotation = np.array(quaternion, np.float64)
        valid = rotation.shape == (4,) and np.isfinite(rotation).all()
        if valid and np.linalg.norm(rotation) > 0.5:
            sign = 1.0 if rotation @ self._place.value[3:] >= 0 else -1.0  # the shorter rotation
            self._place.target[3:] = sign * rotation / np.linalg.norm(rotation)

    def invalidate(self) -> None:
        """Make the next step set the simulator's obstacles again."""
        self._applied = None

    def step(self, simulator: Any, dt: float, world_from_clip: Floats) -> None:
        """Move the ball by a step of `dt` s, and set the simulator's obstacles after a change.

        `world_from_clip` (4, 4) maps the clip's space to the simulator's world, where a looped walk
        moves on.
        """
        distance = np.abs(self._place.target - self._place.value)
        moving = bool(distance[:3].max() > 1e-6 * self.radius or distance[3:].max() > 1e-6)
        if moving:
            self._place.step(dt)
        settings = (self.ground, self.ball, self.kind)
        same = settings == self._applied and np.array_equal(world_from_clip, self._world_from_clip)
        self._move_object(dt, world_from_clip, continuous=same)
        if same and not (moving and self.ball):
            return
        self._applied, self._world_from_clip = settings, world_from_clip.copy()
        if self.ground or self.ball or simulator.obstacles:
            simulator.obstacles = self._obstacles(world_from_clip)

    def _move_object(self, dt: float, world_from_clip: Floats, continuous: bool) -> None:
        """Move the ball's object; after a discontinuity it has no velocity."""
        place = np.eye(4)
        place[:3, :3], place[:3, 3] = to_matrix(np.roll(self.quaternion, -1)), self.centre
        if continuous:
            self.object.moved_to(world_from_clip @ place, dt)
        else:
            self.object.place = world_from_clip @ place
            self.object.velocity = self.object.spin = np.zeros(3)

    def _obstacles(self, world_from_clip: Floats) -> list[Obstacle]:
        fixed = list(self.fixed)
        if self.ground:
            fixed.append(Plane((0.0, self.height, 0.0), (0.0, 1.0, 0.0)))
        obstacles = [_in_world(each, world_from_clip) for each in fixed]
        if self.ball:
            obstacles.append(self.object)
        return obstacles


def _follower(centre: ArrayLike) -> DampedFollower:
    """Return a follower of a point and a quaternion, (7,)."""
    return DampedFollower(np.concatenate([np.asarray(centre, np.float64), [1.0, 0.0, 0.0, 0.0]]))


def _in_world(obstacle: Obstacle, world_from_clip: Floats) -> Obstacle:
    if isinstance(obstacle, RigidObject) and obstacle.path is not None:
        return obstacle  # the player moves it
    if np.array_equal(world_from_clip, np.eye(4)):
        return obstacle
    if isinstance(obstacle, RigidObject):
        moved = obstacle.copy()
        moved.place = world_from_clip @ obstacle.place
        return moved
    if isinstance(obstacle, Plane):
        rotation, shift = world_from_clip[:3, :3], world_from_clip[:3, 3]
        point = rotation @ np.asarray(obstacle.point) + shift
        return Plane(point, rotation @ np.asarray(obstacle.normal))
    return RigidObject(obstacle, place=world_from_clip, kinematic=True)


class DraggableObjects:
    """Rigid balls and boxes: kinematic while they are dragged, dynamic otherwise.

    Positions are in the clip's space, where a looped walk returns to its start. `size` is the
    character's size in m.
    """

    def __init__(self, size: float, objects: Sequence[RigidObject] = ()) -> None:
        self.size, self.radius = size, RADIUS * size
        self.objects = list(objects)  # in the simulator's world
        self.revision = len(
            self.objects
        )  # counts additions and removals, after which the scene needs new nodes
        self._created = 0
        self._middle = np.zeros(3)
        self._dragged: dict[int, tuple[RigidObject, DampedFollower]] = {}
        self._world_from_clip = np.eye(4)
        self._applied = True  # whether the simulator has the current objects

    def add(self, kind: ObjectKind, skin: Singles) -> RigidObject:
        """Add a ball or a box in front of and above the middle of the skin (n̄, 3)."""
        if kind not in OBJECT_KINDS:
            raise SuppleError(f"no object {kind!r}; use one of {', '.join(OBJECT_KINDS)}")
        if len(self.objects) >= MOST_OBJECTS:
            raise SuppleError(f"there are {MOST_OBJECTS} objects; remove some first")
        low, high = skin.min(axis=0).astype(float), skin.max(axis=0).astype(float)
        self._middle = (low + high) / 2
        point = np.array([self._middle[0], high[1], high[2]]) + self.radius * np.array([0, 1.5, 1])
        point[0] += 2.5 * self.radius * (self._created % 3 - 1)
        shape = SHAPES[kind](self.radius)
        self._created += 1
        name = f"{kind} {self._created}"
        added = RigidObject(shape, density=DENSITY, place=self._world(point), name=name)
        self.objects.append(added)
        self._change()
        return added

    def clear(self) -> None:
        """Remove all objects."""
        self.objects.clear()
        self._dragged.clear()
        self._change()

    def _change(self) -> None:
        self.revision += 1
        self._applied = False

    def invalidate(self) -> None:
        """Make the next step pass the objects to the simulator again."""
        self._applied = False

    def place(self, each: RigidObject) -> Floats:
        """Return the place of an object in the clip's space, (4, 4)."""
        inverse = np.eye(4)
        inverse[:3, :3] = self._world_from_clip[:3, :3].T
        inverse[:3, 3] = -inverse[:3, :3] @ self._world_from_clip[:3, 3]
        return inverse @ each.place

    def _world(self, centre: Floats) -> Floats:
        place = np.eye(4)
        place[:3, 3] = centre
        return self._world_from_clip @ place

    def hold(self, each: RigidObject) -> None:
        """Start to drag an object: it becomes kinematic."""
        if each in self.objects and id(each) not in self._dragged:
            each.kinematic = True
            self._dragged[id(each)] = each, DampedFollower(self.place(each)[:3, 3])
            self._applied = False

    def drag(self, each: RigidObject, centre: ArrayLike) -> None:
        """Set the target (3,) of a dragged object, in the clip's space."""
        point = np.array(centre, np.float64)
        if point.shape == (3,) and np.isfinite(point).all() and id(each) in self._dragged:
            self._dragged[id(each)][1].target = point

    def release(self, each: RigidObject) -> None:
        """Release a dragged object: it keeps its velocity."""
        if self._dragged.pop(id(each), None) is not None:
            each.kinematic = False
            self._applied = False

    def step(self, simulator: Any, dt: float, world_from_clip: Floats) -> None:
        """Move dragged objects, return lost objects, and update the simulator's objects."""
        self._world_from_clip = world_from_clip.copy()
        if not self._applied:
            simulator.objects = tuple(self.objects)
            self._applied = True
        for each, follower in self._dragged.values():
            place = self.place(each)
            place[:3, 3] = follower.step(dt)
            each.moved_to(world_from_clip @ place, dt)
        for each in self.objects:
            offset = self.place(each)[:3, 3] - self._middle
            if not each.kinematic and not float(np.abs(offset).max()) < FARTHEST * self.size:
                above = self._middle + np.array([0.0, self.size / 2, 0.0])
                each.velocity, each.spin = np.zeros(3), np.zeros(3)
                each.place = self._world(above)
