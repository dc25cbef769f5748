"""Baked motions with a ground and a ball that flies past, without simulation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from supple.dynamics.rigid_object import RigidObject
from supple.mesh.obstacles import Plane, Sphere
from supple.playback.obstacles.recording import baked_colliders
from supple.rig.baked_motion import BakedMotion


def with_ground_and_ball(baked: BakedMotion, radius: float = 0.1) -> BakedMotion:
    """Return the motion with a plane below it, and a ball of this radius that moves along x."""
    size, count = baked.character.surface.size, baked.n_frames
    low = float(baked.frames[..., 1].min())
    places = np.tile(np.eye(4), (2, count, 1, 1))
    places[1, :, :3, 3] = flight(count, size)
    ball = RigidObject(Sphere((0.0, 0.0, 0.0), radius * size), name="ball")
    ground = Plane((0.0, low, 0.0), (0.0, 1.0, 0.0))
    middle = baked.frames.mean(axis=(0, 1)).astype(np.float64)
    return replace(baked, obstacles=baked_colliders((ground, ball), places, 1, middle))


def flight(count: int, size: float) -> np.ndarray:
    """Return the ball's centres (t, 3)."""
    along = np.linspace(-1, 1, count)
    return size * np.column_stack([along, np.full(count, 0.2), np.full(count, 0.3)])
