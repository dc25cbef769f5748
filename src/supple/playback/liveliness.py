"""Liveliness of motions: how much flesh will have to do, from the rig alone.

Flesh that swings at ω₀ answers an acceleration a of slow motion by a / ω₀², and stays behind faster
motion altogether. So does the second difference x(t + h) − 2 x(t) + x(t − h) with h near √2 / ω₀:
h² a of what is slow, a multiple of x of what is fast. Its root mean square over the skin, in the
world, tells which of a character's motions is worth showing, before anything is built.
"""

from __future__ import annotations

import numpy as np

from supple.arrays import Floats, Ints
from supple.mesh.surface import SurfaceMesh
from supple.rig.character import Character
from supple.rig.motion.motion import Motion

#: Seconds h: flesh of a body swings at some three cycles a second.
STEP = 1 / 15
#: Moments of a motion that are looked at, and vertices of the skin.
MOST_MOMENTS, MOST_VERTICES = 40, 160


def liveliest(character: Character) -> Motion:
    """Return the liveliest of a character's motions, the first of those that are alike."""
    motions = list(character.motions.values())
    if len(motions) == 1:
        return motions[0]
    return motions[int(np.argmax([liveliness(character, motion) for motion in motions]))]


def liveliness(character: Character, motion: Motion) -> float:
    """Return the root mean square of second differences of the skin, as part of the size."""
    rig, size = character.rig, character.surface.size
    before, moments = _moments(motion)
    if not len(moments) or not size > 0:
        return 0.0
    vertices = _spread(character.surface)
    places = [_places(character, motion, moments + k * before, vertices) for k in (-1, 0, 1)]
    second = places[0] - 2 * places[1] + places[2]
    found = float(np.sqrt(np.mean(np.einsum("tni,tni->tn", second, second)))) / size
    return found if np.isfinite(found) and rig.n_vertices else 0.0


def _moments(motion: Motion) -> tuple[float, Floats]:
    """Return h, and times whose neighbours at ± h are in the motion, in the same shot."""
    first, last = float(motion.times[0]), float(motion.times[-1])
    step = min(STEP, 0.5 * (last - first))
    if not step > 0:
        return step, np.empty(0)
    count = int(np.clip((last - first) / step - 1, 1, MOST_MOMENTS))
    moments = np.linspace(first + step, last - step, count)
    for cut in motion.times[list(motion.cuts)]:
        moments = moments[(moments + step < cut) | (moments - step >= cut)]
    return step, moments


def _spread(surface: SurfaceMesh) -> Ints:
    """Return vertices that stand for equal parts of the skin's area."""
    corners = surface.vertices[surface.triangles]
    areas = np.linalg.norm(
        np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1
    )
    share = np.bincount(
        surface.triangles.ravel(), np.repeat(areas, 3), minlength=len(surface.vertices)
    )
    count = min(MOST_VERTICES, len(share))
    wanted = (np.arange(count) + 0.5) / count * share.sum()
    return np.unique(np.minimum(np.searchsorted(np.cumsum(share), wanted), len(share) - 1))


def _places(character: Character, motion: Motion, times: Floats, vertices: Ints) -> Floats:
    """Return vertices in the world at times, (t, k, 3)."""
    poses, roots = motion.at(np.clip(times, motion.times[0], motion.times[-1]))
    placed = np.stack([character.rig(pose, vertices) for pose in poses])
    return placed @ roots[:, :3, :3].transpose(0, 2, 1) + roots[:, None, :3, 3]
