"""Obstacles of the viewer: a ground, and a thing that is moved about."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from supple.app.viewer.session.posing import DampedFollower
from supple.arrays import Floats, Singles
from supple.dynamics.rigid_object import RigidObject
from supple.errors import SuppleError
from supple.maths.rotations import to_matrix
from supple.mesh.distance_field import Solid
from supple.mesh.obstacles import Capsule, Obstacle, Plane, Sphere
from supple.mesh.polyhedra import Box, Convex
from supple.mesh.surface import SurfaceMesh

#: Radius of the ball, as a part of the body's size.
BALL = 0.08


def _cone(r: float) -> Obstacle:
    turn = np.linspace(0, 2 * np.pi, 24, endpoint=False)
    foot = np.column_stack([r * np.cos(turn), np.full(24, -r), r * np.sin(turn)])
    return Convex(np.concatenate([foot, [[0.0, r, 0.0]]]))


def _ring(r: float) -> Obstacle:
    """A torus that lies flat."""
    a, b = 48, 24
    around, across = np.meshgrid(np.arange(a), np.arange(b), indexing="ij")
    turn, lift = 2 * np.pi * around / a, 2 * np.pi * across / b
    wide = r + 0.35 * r * np.cos(lift)
    points = np.stack([wide * np.cos(turn), 0.35 * r * np.sin(lift), wide * np.sin(turn)], axis=-1)
    here, up = around * b + across, around * b + (across + 1) % b
    on, on_up = (around + 1) % a * b + across, (around + 1) % a * b + (across + 1) % b
    corners = [np.stack(each, axis=-1).reshape(-1, 3) for each in ((here, up, on), (up, on_up, on))]
    return Solid(SurfaceMesh(points.reshape(-1, 3), np.concatenate(corners)), nodes=50_000)


#: Things by name: what makes one as large as a ball of a radius.
THINGS: dict[str, Callable[[float], Obstacle]] = {
    "ball": lambda r: Sphere((0.0, 0.0, 0.0), r),
    "bar": lambda r: Capsule((-2 * r, 0.0, 0.0), (2 * r, 0.0, 0.0), 0.5 * r),
    "box": lambda r: Box((0.0, 0.0, 0.0), (0.8 * r, 0.8 * r, 0.8 * r)),
    "cone": _cone,
    "ring": _ring,
}


class MovingObstacles:
    """Ground and ball, switched on and off; the ball follows its handle softly.

    In place of the ball there may be another of `THINGS`. It is an object that is led: where there
    is friction it drags skin along.

    Parameters
    ----------
    size
        Of the character, in m.
    fixed
        Obstacles that are there all the time.

    Attributes
    ----------
    ground, ball
        Whether they are there.
    height
        Of the ground, in m.
    radius
        Of the ball, in m.
    """

    def __init__(self, size: float, fixed: Sequence[Obstacle] = ()) -> None:
        self.fixed = tuple(fixed)
        self.radius = BALL * size
        self.height = 0.0
        self.ground = False
        self.ball = False
        self._made: dict[str, RigidObject] = {}
        self.kind = "ball"
        self._place = _follower(np.zeros(3))
        self._given: tuple[bool, bool, str] | None = None
        self._walked = np.eye(4)

    @property
    def kind(self) -> str:
        """Name of the thing that is moved, of `THINGS`."""
        return self._kind

    @kind.setter
    def kind(self, kind: str) -> None:
        if kind not in THINGS:
            raise SuppleError(f"no thing {kind!r}; there are {', '.join(THINGS)}")
        if kind not in self._made:
            self._made[kind] = RigidObject(THINGS[kind](self.radius), kinematic=True, name=kind)
        self._kind = kind

    @property
    def thing(self) -> RigidObject:
        """Obstacle that is moved."""
        return self._made[self._kind]

    def stand_on(self, skin: Singles) -> None:
        """Put the ground below this skin, and the ball beside it."""
        low, high = skin.min(axis=0), skin.max(axis=0)
        self.height = float(low[1])
        beside = (low + high) / 2
        beside[0] = high[0] + 1.5 * self.radius
        self._place = _follower(beside)

    @property
    def centre(self) -> Floats:
        """Middle of the ball now, (3,)."""
        return self._place.value[:3]

    @property
    def turn(self) -> Floats:
        """Rotation now, a unit quaternion (w, x, y, z)."""
        return self._place.value[3:] / np.linalg.norm(self._place.value[3:])

    def move_ball(self, centre: ArrayLike, turn: ArrayLike | None = None) -> None:
        """Let the ball follow to this place, (3,), and turn, a quaternion (w, x, y, z)."""
        where = np.array(centre, np.float64)
        if where.shape == (3,) and np.isfinite(where).all():
            self._place.target[:3] = where
        if turn is None:
            return
        way = np.array(turn, np.float64)
        if way.shape == (4,) and np.isfinite(way).all() and np.linalg.norm(way) > 0.5:
            near = 1.0 if way @ self._place.value[3:] >= 0 else -1.0  # the shorter way round
            self._place.target[3:] = near * way / np.linalg.norm(way)

    def invalidate(self) -> None:
        """Set the simulator's obstacles at the next step, whatever it has."""
        self._given = None

    def step(self, simulator: Any, dt: float, walked: Floats) -> None:
        """Move on, and set the simulator's obstacles if anything changed.

        Parameters
        ----------
        simulator
            Of the character.
        dt
            Seconds of a step.
        walked
            (4, 4) from where the clip has the character to where the simulator has it.
        """
        away = np.abs(self._place.target - self._place.value)
        moving = bool(away[:3].max() > 1e-6 * self.radius or away[3:].max() > 1e-6)
        if moving:
            self._place.step(dt)
        wanted = (self.ground, self.ball, self.kind)
        same = wanted == self._given and np.array_equal(walked, self._walked)
        self._lead(dt, walked, goes_on=same)
        if same and not (moving and self.ball):
            return
        self._given, self._walked = wanted, walked.copy()
        if self.ground or self.ball or simulator.obstacles:
            simulator.obstacles = self._obstacles(walked)

    def _lead(self, dt: float, walked: Floats, goes_on: bool) -> None:
        """Lead the thing to where it is now; where it was not before, it has no velocity."""
        place = np.eye(4)
        place[:3, :3], place[:3, 3] = to_matrix(np.roll(self.turn, -1)), self.centre
        if goes_on:
            self.thing.moved_to(walked @ place, dt)
        else:
            self.thing.place = walked @ place
            self.thing.velocity = self.thing.spin = np.zeros(3)

    def _obstacles(self, walked: Floats) -> list[Obstacle]:
        turn, shift = walked[:3, :3], walked[:3, 3]
        there = [_moved(each, walked) for each in self.fixed]
        if self.ground:
            point = turn @ np.array([0.0, self.height, 0.0]) + shift
            there.append(Plane(point, turn @ np.array([0.0, 1.0, 0.0])))
        if self.ball:
            there.append(self.thing)
        return there


def _follower(centre: ArrayLike) -> DampedFollower:
    """Return what follows a place and a quaternion, (7,)."""
    return DampedFollower(np.concatenate([np.asarray(centre, np.float64), [1.0, 0.0, 0.0, 0.0]]))


def _moved(each: Obstacle, walked: Floats) -> Obstacle:
    """Return an obstacle where a walk (4, 4) has taken the world."""
    if np.array_equal(walked, np.eye(4)):
        return each
    if isinstance(each, Plane):
        turn, shift = walked[:3, :3], walked[:3, 3]
        return Plane(turn @ np.asarray(each.point) + shift, turn @ np.asarray(each.normal))
    return RigidObject(each, place=walked, kinematic=True)
