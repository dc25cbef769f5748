"""Obstacles as numbers, as a root sees them: plain ones in rows, all other shapes in tables."""

from __future__ import annotations

import numpy as np

from supple.arrays import Floats
from supple.compiled.argument_tables import ArgumentTable
from supple.compiled.jit import compiled_plain
from supple.dynamics.rigid_object import RigidObject
from supple.mesh.obstacles import OTHER, PLANE, Obstacle, plain_numbers
from supple.mesh.shape_tables import PlacedShape, shape_tables

#: Kind of obstacles that only the tables of shapes know, beside those of `plain_numbers`.
TABLED = 4


class SeenObstacles:
    """Obstacles of a scene, and how the root of a character sees them.

    Attributes
    ----------
    obstacles
        The obstacles.
    kinds
        A number for each; obstacles of the same kinds are the same, moved.
    rows
        (o, 8) as in `plain_numbers`, as the root sees them.
    solids
        `ShapeTables` of the others, as the root sees them.
    motions
        (o, 9) velocity, spin and centre of those that move, as the root sees them.
    """

    def __init__(self) -> None:
        self.obstacles: tuple[Obstacle, ...] = ()
        self.kinds: tuple[int, ...] = ()
        self._shapes: list[Obstacle | None] | None = None

    def set(self, obstacles: tuple[Obstacle, ...]) -> None:
        """Have these obstacles from now on."""
        self.obstacles = obstacles
        self._rows = plain_numbers(obstacles)
        hidden = self._rows[:, 0] == OTHER
        # A shape that is placed, or none that rows know: a mesh may be large, so tables are kept.
        given = [each if only else None for each, only in zip(obstacles, hidden, strict=True)]
        shapes = [each.shape if isinstance(each, PlacedShape) else each for each in given]
        same = self._shapes is not None and len(shapes) == len(self._shapes)
        if not same or any(a is not b for a, b in zip(shapes, self._shapes or (), strict=True)):
            self._world = shape_tables(given)
            turns, shifts = self._world.rotations.copy(), self._world.translations.copy()
            self._seen = self._world._replace(rotations=turns, translations=shifts)
            self.solids, self._shapes = ArgumentTable(self._seen), shapes
        self._world.rotations[:], self._world.translations[:] = np.eye(3), 0.0
        tabled = hidden & (self._world.kinds != OTHER)
        self._rows[tabled, 0] = TABLED
        self.rows, self.motions = np.zeros_like(self._rows), np.zeros((len(obstacles), 9))
        self._has_solids = bool(tabled.any())
        self._placed = [
            (k, each)
            for k, each in enumerate(obstacles)
            if tabled[k] and isinstance(each, PlacedShape)
        ]
        self._moving = [
            (k, each) for k, each in enumerate(obstacles) if isinstance(each, RigidObject)
        ]
        kinds = np.where(tabled, TABLED + self._world.kinds, self._rows[:, 0]).astype(int)
        for k, _ in self._placed:
            kinds[k] += 100
        self.kinds = tuple(kinds.tolist())

    @property
    def others(self) -> tuple[Obstacle, ...]:
        """Obstacles that only know distances."""
        kinds = self._rows[:, 0]
        return tuple(each for each, k in zip(self.obstacles, kinds, strict=True) if k == OTHER)

    def look(self, root: Floats) -> None:
        """Write where obstacles are for a root (4, 4)."""
        into_root(self._rows, root, self.rows)
        if not self._has_solids:
            return
        world, seen = self._world, self._seen
        for k, each in self._placed:
            place = each.place
            world.rotations[k], world.translations[k] = place[:3, :3], place[:3, 3]
        _places_into_root(
            world.rotations, world.translations, root, seen.rotations, seen.translations
        )

    def look_at_motions(self, root: Floats) -> None:
        """Write how obstacles move for a root (4, 4)."""
        turn, shift = root[:3, :3], root[:3, 3]
        for k, each in self._moving:
            out = self.motions[k]
            out[:3], out[3:6] = each.velocity @ turn, each.spin @ turn
            out[6:] = (each.centre - shift) @ turn


@compiled_plain
def turned_back(root, p, q, r):  # type: ignore[no-untyped-def]
    """Return Rᵀ (p, q, r)."""
    return (
        root[0, 0] * p + root[1, 0] * q + root[2, 0] * r,
        root[0, 1] * p + root[1, 1] * q + root[2, 1] * r,
        root[0, 2] * p + root[1, 2] * q + root[2, 2] * r,
    )


@compiled_plain
def into_root(shapes: Floats, root: Floats, out: Floats) -> None:
    """Write obstacles (o, 8) as the root sees them."""
    s, t, u = root[0, 3], root[1, 3], root[2, 3]
    for o in range(len(shapes)):
        a, b = shapes[o], out[o]
        b[0], b[7] = a[0], a[7]
        b[1], b[2], b[3] = turned_back(root, a[1] - s, a[2] - t, a[3] - u)
        if a[0] == PLANE:  # a direction, not a place
            s, t, u = 0.0, 0.0, 0.0
        b[4], b[5], b[6] = turned_back(root, a[4] - s, a[5] - t, a[6] - u)
        s, t, u = root[0, 3], root[1, 3], root[2, 3]


@compiled_plain
def _places_into_root(turns, shifts, root, seen_turns, seen_shifts):  # type: ignore[no-untyped-def]
    """Write turns (o, 3, 3) and shifts (o, 3) of shapes as the root sees them."""
    for o in range(len(turns)):
        for j in range(3):
            x, y, z = turned_back(root, turns[o, 0, j], turns[o, 1, j], turns[o, 2, j])
            seen_turns[o, 0, j], seen_turns[o, 1, j], seen_turns[o, 2, j] = x, y, z
        seen_shifts[o, 0], seen_shifts[o, 1], seen_shifts[o, 2] = turned_back(
            root,
            shifts[o, 0] - root[0, 3],
            shifts[o, 1] - root[1, 3],
            shifts[o, 2] - root[2, 3],
        )
