"""Thin parts far from any bone: ears, horns and fins, which no flesh holds up.

A block of flesh of length d swings at about √(E/ρ)/d. A part that is only h thick and reaches d
from the bone bends, and swings slower by about h/d: made of belly, an ear hangs down and flaps, and
a hand without bones folds over. So what reaches farther than 1.5 h is made stiffer by
(d/1.5h)², as cartilage and horn are, and swings more like the rest.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

from supple.arrays import Floats, Ints
from supple.compiled.jit import compiled
from supple.mesh.surface import SurfaceMesh
from supple.rig.character import Character
from supple.rig.skeleton.skinning import skinned_rigs
from supple.rig.tets.bones import Bones

__all__ = ["slender_factors", "thickness"]


#: Parts may reach so many times their thickness from a bone; and are made no stiffer than this.
REACH, STIFFEST = 1.5, 40.0
#: Places whose thickness is measured.
PLACES = 1500
#: How many of them near a vertex are asked; less than half of them are at a rim, where the way
#: through is the way across.
NEAR, QUANTILE = 12, 0.3


def slender_factors(character: Character) -> Floats | None:
    """Return factors of stiffness (n̄,): 1 where flesh is thick or near a bone, more elsewhere.

    None if that is 1 everywhere, or if there are no bones.
    """
    skinned = skinned_rigs(character.rig)
    if len(skinned) != 1:
        return None
    surface, bones = character.surface, Bones.of_rig(skinned[0])
    if not len(bones.starts):
        return None
    reach = _to_bones(surface.vertices, bones)
    allowed = REACH * np.maximum(thickness(surface), 1e-6 * surface.size)
    factors = np.clip(reach / allowed, 1.0, np.sqrt(STIFFEST)) ** 2
    if factors.max() < 1.05:
        return None
    # Few digits, so that another machine's rounding is no other character.
    return np.array([float(f"{factor:.4g}") for factor in factors])


def thickness(surface: SurfaceMesh) -> Floats:
    """Return the thickness of the body at each vertex, (n̄,) in metres.

    Along the normal inwards from places near it, to where the body ends; a surface below, such as
    skin below cloth, is passed.
    """
    triangles = surface.triangles
    corners = surface.vertices[triangles]
    doubled = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    areas = np.linalg.norm(doubled, axis=1)
    sound = areas > 1e-12 * surface.size**2
    if not sound.any():
        return np.full(len(surface.vertices), surface.size)
    corners, doubled, areas = corners[sound], doubled[sound], areas[sound]
    normals = doubled / areas[:, None]
    chosen, shares = _spread(areas, PLACES)
    origins = np.einsum("kc,kci->ki", shares, corners[chosen])
    through = _ways_through(origins, -normals[chosen], corners, areas, chosen)
    through[~np.isfinite(through)] = surface.size  # an open mesh ends nowhere
    count = min(NEAR, len(origins))
    _, near = cKDTree(origins).query(surface.vertices, k=range(1, count + 1))
    found: Floats = np.quantile(through[near], QUANTILE, axis=1)
    return found


def _spread(areas: Floats, count: int) -> tuple[Ints, Floats]:
    """Spread places evenly over the area: triangles (k,), and shares of their corners (k, 3)."""
    ends, number = np.cumsum(areas), np.arange(count)
    wanted = (number + 0.5) / count * ends[-1]
    chosen = np.minimum(np.searchsorted(ends, wanted), len(areas) - 1)
    # Points of an even sequence in a square (Roberts 2018), folded into the triangle.
    first, second = (0.5 + number * 0.7548776662466927) % 1, (0.5 + number * 0.5698402909980532) % 1
    outside = first + second > 1
    first, second = np.where(outside, 1 - first, first), np.where(outside, 1 - second, second)
    return chosen, np.column_stack([1 - first - second, first, second])


def _to_bones(points: Floats, bones: Bones) -> Floats:
    """Return the distance of each point to the nearest bone, (n,)."""
    nearest = np.full(len(points), np.inf)
    for start, end in zip(bones.starts, bones.ends, strict=True):
        along = end - start
        squared = float(along @ along)
        part = np.zeros(len(points))
        if squared > 0:
            part = np.clip((points - start) @ along / squared, 0.0, 1.0)
        away = points - start - part[:, None] * along
        np.minimum(nearest, np.linalg.norm(away, axis=1), out=nearest)
    return nearest


@compiled
def _ways_through(
    origins: Floats, ways: Floats, corners: Floats, areas: Floats, own: Ints
) -> Floats:
    """Measure each ray until it leaves through a triangle; infinite where it does not.

    `areas` are twice the triangles'.
    """
    found = np.full(len(origins), np.inf)
    for k in range(len(origins)):
        dx, dy, dz = ways[k, 0], ways[k, 1], ways[k, 2]
        for t in range(len(corners)):
            if t == own[k]:
                continue
            a, b, c = corners[t, 0], corners[t, 1], corners[t, 2]
            ux, uy, uz = b[0] - a[0], b[1] - a[1], b[2] - a[2]
            vx, vy, vz = c[0] - a[0], c[1] - a[1], c[2] - a[2]
            # Möller and Trumbore 1997; only triangles whose outside it goes to, not along them.
            px, py, pz = dy * vz - dz * vy, dz * vx - dx * vz, dx * vy - dy * vx
            volume = ux * px + uy * py + uz * pz
            if not volume < -1e-3 * areas[t]:
                continue
            sx, sy, sz = origins[k, 0] - a[0], origins[k, 1] - a[1], origins[k, 2] - a[2]
            first = (sx * px + sy * py + sz * pz) / volume
            if not 0 <= first <= 1:
                continue
            qx, qy, qz = sy * uz - sz * uy, sz * ux - sx * uz, sx * uy - sy * ux
            second = (dx * qx + dy * qy + dz * qz) / volume
            if not (second >= 0 and first + second <= 1):
                continue
            far = (vx * qx + vy * qy + vz * qz) / volume
            if 0 < far < found[k]:
                found[k] = far
    return found
