"""Thickness of a body under its skin: inscribed balls, depth, and thin parts far from bones."""

from __future__ import annotations

import igl
import numpy as np
from scipy.spatial import cKDTree

from supple.arrays import Bools, Floats, Ints
from supple.compiled.jit import compiled
from supple.mesh.filling.signed_distance import SoupDistance, outward_triangles
from supple.mesh.surface import SurfaceMesh
from supple.rig.character import Character
from supple.rig.skeleton.skinning import skinned_rigs
from supple.rig.tets.bones import Bones

#: Number of skin points with inscribed balls, spread evenly over the area.
SAMPLES = 3000
#: Iterations of shrinking; radii of the assets' characters change by less than 1 % after 8.
ROUNDS = 12
#: A ball covers points up to this fraction of its radius away: at the edges of a coarse mesh,
#: where faces meet at 60°, no ball comes nearer than 0.15 of its radius.
REACH = 0.15
#: The skin is outside where the winding number at this height above it, relative to the size, is
#: below a half; eyes and teeth inside a head, or skin below cloth, do not bound the body.
ABOVE = 2e-3


class InscribedBalls:
    """Thickness and depth of the body inside any triangles; parts inside others are ignored."""

    def __init__(self, surface: SurfaceMesh) -> None:
        self._size = max(surface.size, np.finfo(float).tiny)
        # Unit size, as the trees' tolerances are absolute.
        self._origin = surface.vertices.mean(axis=0)
        welded, _ = SurfaceMesh(
            (surface.vertices - self._origin) / self._size, surface.triangles
        ).welded()
        sound = np.delete(welded.triangles, welded.degenerate_triangles(), axis=0)
        self._vertices = welded.vertices
        facing = outward_triangles(welded.vertices, sound) if len(sound) else sound
        self._skin = _exposed(welded.vertices, facing)
        bounding = self._skin if len(self._skin) else sound
        self._distance = SoupDistance(welded.vertices, bounding, facing) if len(sound) else None
        centres, radii = self._inscribed()
        order = np.argsort(-radii, kind="stable")
        self._centres, self._radii = centres[order], radii[order]

    @property
    def centres(self) -> Floats:
        """Centres (k, 3) of the balls, the largest first."""
        return self._centres * self._size + self._origin

    @property
    def radii(self) -> Floats:
        """Radii (k,) in metres, descending."""
        return self._radii * self._size

    def thickness(self, points: Floats) -> Floats:
        """Return the radius R (n,) of the largest ball that covers each point, in metres.

        Points that no ball covers have the radius of the nearest ball.
        """
        if not len(self._radii):
            return np.full(len(points), 0.05 * self._size)
        return self._size * _covering(self._local(points), self._centres, self._radii)

    def skin_thickness(self, surface: SurfaceMesh) -> Floats:
        """Return the thickness (n̄,) at the surface's vertices, in metres.

        No ball reaches a sharp corner. Centres of the triangles around it are used as well, so that
        a coarse box is as thick as a fine one.
        """
        corners = surface.triangles
        middles = self.thickness(surface.vertices[corners].mean(axis=1))
        area, n = np.maximum(surface.areas(), 1e-300), len(surface.vertices)
        total = np.bincount(corners.ravel(), np.repeat(area, 3), n)
        summed = np.bincount(corners.ravel(), np.repeat(area * middles, 3), n)
        around: Floats = summed / np.maximum(total, 1e-300)
        return np.maximum(self.thickness(surface.vertices), around)

    def depth(self, points: Floats) -> Floats:
        """Return the depth (n,) below the skin in metres, negative outside."""
        if self._distance is None:
            return np.zeros(len(points))
        return self._size * self._distance(self._local(points))

    def buried(self, surface: SurfaceMesh) -> Bools:
        """Return the mask (n̄,) of vertices with the body on both sides of the surface."""
        corners = surface.triangles
        normals = np.zeros_like(surface.vertices)
        for k in range(3):
            np.add.at(normals, corners[:, k], surface.areas()[:, None] * surface.normals())
        normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-300)
        points, within = self._local(surface.vertices), np.ones(len(normals), bool)
        for sign in (1, -1):
            within &= self._winding_numbers(points + sign * ABOVE * normals) > 0.5
        return within

    def _local(self, points: Floats) -> Floats:
        return np.ascontiguousarray((points - self._origin) / self._size)

    def _inscribed(self) -> tuple[Floats, Floats]:
        """Return centres (k, 3) and radii (k,) of inscribed balls, at unit size."""
        vertices, triangles = self._vertices, self._skin
        if not len(triangles):
            return np.empty((0, 3)), np.empty(0)
        corners = vertices[triangles]
        doubled = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        areas = np.linalg.norm(doubled, axis=1)
        chosen, shares = _spread(areas, SAMPLES)
        touched = np.einsum("kc,kci->ki", shares, corners[chosen])
        inward = -doubled[chosen] / areas[chosen, None]
        tree = igl.AABB()
        tree.init(vertices, triangles)
        radii = np.full(len(touched), 0.3)
        shrinking = np.arange(len(touched))
        for _ in range(ROUNDS):
            centres = touched[shrinking] + radii[shrinking, None] * inward[shrinking]
            squared, _, nearest = tree.squared_distance(vertices, triangles, centres)
            inside = np.sqrt(squared) < radii[shrinking] * (1 - 5e-3)
            shrinking, nearest = shrinking[inside], nearest[inside]
            if not len(shrinking):
                break
            offsets = nearest - touched[shrinking]
            along = np.einsum("ij,ij->i", offsets, inward[shrinking])
            length = np.einsum("ij,ij->i", offsets, offsets)
            # The ball that touches both points; points of the same facet do not shrink it.
            fits = np.where(along > 1e-9, length / np.maximum(2 * along, 1e-9), 0.0)
            radii[shrinking] = np.minimum(fits, radii[shrinking])
        centres = touched + radii[:, None] * inward
        within = self._winding_numbers(centres) > 0.5
        kept = within & (radii > 1e-4)
        return centres[kept], radii[kept]

    def _winding_numbers(self, points: Floats) -> Floats:
        """Return the winding number (n,) of the surface around points."""
        return (
            np.zeros(len(points))
            if self._distance is None
            else self._distance._winding_numbers(points)
        )


def _exposed(vertices: Floats, facing: Ints) -> Ints:
    """Return the triangles among `facing` with the outside above them; all if there are none."""
    if not len(facing):
        return facing
    corners = vertices[facing]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-300)
    winding = igl.FastWindingNumberBVH()
    winding.init(vertices, facing)
    above = np.abs(winding.winding_number(corners.mean(axis=1) + ABOVE * normals))
    exposed = facing[above < 0.5]
    return np.ascontiguousarray(exposed) if len(exposed) else facing


def _spread(areas: Floats, count: int) -> tuple[Ints, Floats]:
    """Return points spread over the area: triangles (k,) and barycentric weights (k, 3)."""
    ends, number = np.cumsum(areas), np.arange(count)
    sums = (number + 0.5) / count * ends[-1]
    chosen = np.minimum(np.searchsorted(ends, sums), len(areas) - 1)
    # Points of an even sequence in a square (Roberts 2018), folded into the triangle.
    first, second = (0.5 + number * 0.7548776662466927) % 1, (0.5 + number * 0.5698402909980532) % 1
    outside = first + second > 1
    first, second = np.where(outside, 1 - first, first), np.where(outside, 1 - second, second)
    return chosen, np.column_stack([1 - first - second, first, second])


@compiled
def _covering(points: Floats, centres: Floats, radii: Floats) -> Floats:
    """Return the radius (n,) of the first ball that covers each point, or else of the nearest."""
    covering = np.empty(len(points))
    for k in range(len(points)):
        least, best = np.inf, 0.0
        for b in range(len(radii)):
            x = points[k, 0] - centres[b, 0]
            y = points[k, 1] - centres[b, 1]
            z = points[k, 2] - centres[b, 2]
            missed = np.sqrt(x * x + y * y + z * z) - (1 + REACH) * radii[b]
            if missed <= 0.0:
                best = radii[b]
                break
            if missed < least:
                least, best = missed, radii[b]
        covering[k] = best
    return covering


#: Reach from a bone, in thicknesses, from which parts are stiffened, and the largest factor.
SLENDER_REACH, STIFFEST = 1.5, 40.0
#: Number of points whose thickness is measured.
PLACES = 1500
#: Number of measured points near a vertex, and the quantile of their thicknesses that counts. Some
#: of the points are at a rim, where the ray runs across the part.
NEAR, QUANTILE = 12, 0.3


def slender_factors(character: Character) -> Floats | None:
    """Return factors of stiffness (n̄,): 1 where flesh is thick or near a bone, more elsewhere.

    Return None if all factors are 1, or if there are no bones.
    """
    skinned = skinned_rigs(character.rig)
    if len(skinned) != 1:
        return None
    surface, bones = character.surface, Bones.of_rig(skinned[0])
    if not len(bones.starts):
        return None
    reach = _to_bones(surface.vertices, bones)
    allowed = SLENDER_REACH * np.maximum(thickness(surface), 1e-6 * surface.size)
    factors = np.clip(reach / allowed, 1.0, np.sqrt(STIFFEST)) ** 2
    if factors.max() < 1.05:
        return None
    # Rounded, so that results do not depend on the machine.
    return np.array([float(f"{factor:.4g}") for factor in factors])


def thickness(surface: SurfaceMesh) -> Floats:
    """Return the thickness of the body at each vertex, (n̄,) in metres.

    Rays run inwards along the normal until the body ends; inner surfaces, such as skin below cloth,
    are passed.
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
    through = _exit_distances(origins, -normals[chosen], corners, areas, chosen)
    through[~np.isfinite(through)] = surface.size  # rays of an open mesh may not end
    count = min(NEAR, len(origins))
    _, near = cKDTree(origins).query(surface.vertices, k=range(1, count + 1))
    quantiles: Floats = np.quantile(through[near], QUANTILE, axis=1)
    return quantiles


def _to_bones(points: Floats, bones: Bones) -> Floats:
    """Return the distance of each point to the nearest bone, (n,)."""
    nearest = np.full(len(points), np.inf)
    for start, end in zip(bones.starts, bones.ends, strict=True):
        along = end - start
        squared = float(along @ along)
        part = np.zeros(len(points))
        if squared > 0:
            part = np.clip((points - start) @ along / squared, 0.0, 1.0)
        offsets = points - start - part[:, None] * along
        np.minimum(nearest, np.linalg.norm(offsets, axis=1), out=nearest)
    return nearest


@compiled
def _exit_distances(
    origins: Floats, directions: Floats, corners: Floats, areas: Floats, skipped: Ints
) -> Floats:
    """Return the length of each ray until it leaves through a triangle, infinite if it does not.

    `areas` are twice the triangles' areas; each ray ignores the triangle of its origin.
    """
    lengths = np.full(len(origins), np.inf)
    for k in range(len(origins)):
        dx, dy, dz = directions[k, 0], directions[k, 1], directions[k, 2]
        for t in range(len(corners)):
            if t == skipped[k]:
                continue
            a, b, c = corners[t, 0], corners[t, 1], corners[t, 2]
            ux, uy, uz = b[0] - a[0], b[1] - a[1], b[2] - a[2]
            vx, vy, vz = c[0] - a[0], c[1] - a[1], c[2] - a[2]
            # Möller and Trumbore 1997; only triangles that the ray leaves through.
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
            if 0 < far < lengths[k]:
                lengths[k] = far
    return lengths
