"""Obstacles of baked motions encoded for a page: surfaces in local axes, and their places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from supple.arrays import Floats, Singles
from supple.maths.rotations import continuous, from_matrix
from supple.rig.baked_motion import BakedMotion
from supple.rig.drawn_obstacles import drawn_obstacles

#: Distance from the character, relative to its size, within which the camera shows obstacles.
NEAR = 0.3


def encoded_obstacles(
    bakes: Sequence[BakedMotion],
) -> tuple[list[dict[str, Any]], dict[str, Singles]]:
    """Return a header for each obstacle, and the numbers of all.

    A header has the kind, ranges of points and corners, and in ``tracks`` the first place and
    number of places for each motion, None where the motion does not have the obstacle. Places are
    quaternions and positions, (k, 7).
    """
    headers: list[dict[str, Any]] = []
    points: list[Floats] = [np.zeros((0, 3))]
    corners: list[Floats] = [np.zeros(0)]
    places: list[Floats] = [np.zeros((0, 7))]
    counts = [0, 0, 0]
    for each in drawn_obstacles(bakes):
        tracks: list[list[int] | None] = []
        for placed in each.places:
            tracks.append(None if placed is None else [counts[2], len(placed)])
            if placed is not None:
                places.append(as_quaternions(placed))
                counts[2] += len(placed)
        surface = each.surface
        headers.append(
            {
                "name": each.name,
                "kind": each.kind,
                "smooth": each.smooth,
                "points": [counts[0], len(surface.vertices)],
                "corners": [counts[1], int(surface.triangles.size)],
                "tracks": tracks,
            }
        )
        points.append(surface.vertices)
        corners.append(surface.triangles.reshape(-1).astype(np.float64))
        counts[0] += len(surface.vertices)
        counts[1] += int(surface.triangles.size)
    arrays = {"solids": points, "solidCorners": corners, "solidPlaces": places}
    return headers, {name: np.concatenate(rows).astype("<f4") for name, rows in arrays.items()}


def with_obstacles_near(baked: BakedMotion, bounds: Floats) -> Floats:
    """Return a box (2, 3) around the character and the parts of obstacles near it.

    The box is relative to the root on the ground, as the camera follows the root.
    """
    ground = baked.motion.roots[:, :3, 3] * [1.0, 0.0, 1.0]
    margin = NEAR * baked.character.surface.size
    low, high = bounds[0] - margin, bounds[1] + margin
    boxes = [bounds]
    for each in drawn_obstacles([baked]):
        if each.kind == "plane" or each.places[0] is None:
            continue
        for frame, place in enumerate(np.broadcast_to(each.places[0], (len(ground), 4, 4))):
            points = each.surface.vertices @ place[:3, :3].T + place[:3, 3] - ground[frame]
            inside = np.stack(
                [np.maximum(points.min(axis=0), low), np.minimum(points.max(axis=0), high)]
            )
            if (inside[0] < inside[1]).all():
                boxes.append(inside)
    both = np.stack(boxes)
    return np.stack([both[:, 0].min(axis=0), both[:, 1].max(axis=0)])


def as_quaternions(places: Floats) -> Floats:
    """Return quaternions and positions (t, 7) of rigid transforms (t, 4, 4)."""
    quaternions = continuous(from_matrix(places[:, :3, :3]))
    return np.hstack([quaternions, places[:, :3, 3]])
