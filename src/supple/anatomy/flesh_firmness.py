"""Firmness of flesh by its thickness, by the size of tets, and by the motions.

Flesh of thickness t on bone that is accelerated by a moves by u ≈ ρ a t² / 2G. So thin flesh hardly
moves, and thick flesh far from bone swings through itself in a wild motion. Thin flesh is made
softer and thick flesh firmer, locally.
"""

from __future__ import annotations

from dataclasses import replace

import igl
import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.spatial import cKDTree

from supple.anatomy.anatomy import Anatomy
from supple.anatomy.flesh_presets import FLESH_PRESETS, scaled_gravity
from supple.anatomy.loose_parts import flesh_tets
from supple.anatomy.roles import HARD, ROLES
from supple.arrays import Floats, Ints
from supple.elastic.body import ElasticBody
from supple.elastic.densities.yeoh import STIFFENING, STRAINED
from supple.elastic.material import Material
from supple.linalg.cholesky import SparseCholesky
from supple.mesh.embedding import embed
from supple.mesh.tets import TetMesh
from supple.rig.character import Character, wiggle
from supple.rig.motion.motion import Motion
from supple.rig.tets.surface_samples import typical_edge

#: Flesh thinner than this fraction of a tet's edge is too soft, as tets bend as a whole.
#: Largest factor of stiffness.
CELL, STIFFEST = 0.7, 100.0
#: Flesh thinner than this fraction of the trunk's radius is as stiff as flesh of that thickness.
THINNEST = 0.02
#: Flesh on limbs and trunk is softer where it is thin, down to this factor: thighs of a heavy man
#: moved by 0.45 cm in a jump that moves his belly by 3.
SOFTEST = 0.35
FLESHY = ("limb", "trunk", "soft")
#: Values of the belly side, and factors of stiffness at them: a hanging belly is softer.
SIDES, HANGING = (-1.0, 0.0, 0.5), (0.35, 0.6, 1.0)
#: Largest swing of flesh relative to the body's thickness, 2R.
MOST_SWING = 0.25
#: Factors that are tested, and frames per second.
TESTED_FACTORS, RATE = 2.0 ** np.linspace(0, 8, 14), 60.0
#: Number of skin points that are tested, and of frames of all motions.
PLACES, MOST_FRAMES = 400, 6000
#: Accelerations are limited to this many sizes a second², as bakes limit them.
JUMP = 500.0
#: Displacement at the skin of the lowest shear mode of a layer, per unit of acceleration.
PARTICIPATION = 4 / np.pi
#: Part of the stiffening at the bottom of a layer that acts on its mode. It is ¾ for a quarter of a
#: sine; with less, baked peaks at places of nine characters are 0.55 to 0.75 times those
#: of oscillators at the median, and below 1.1 times at 97 of 100 (1.5 on one).
MODE_STIFFENING = 0.4
#: Sag of skin on bone, relative to the largest sag.
HELD = 1e-6
#: Iterations of the firmness, as firm flesh supports its surroundings.
PASSES = 2


def flesh_factors(anatomy: Anatomy, mesh: TetMesh) -> Floats:
    """Return factors of stiffness (n̄,) at the vertices of the skin.

    Tets larger than the flesh is thick, φR, make it too soft; the factor (0.7 edge / φR)² corrects
    that. On limbs and trunk a factor below 1, φ²R relative to the trunk's, lets thin flesh move by
    as much of its thickness as thick flesh. Hanging bellies are softer, too.
    """
    share = np.maximum(anatomy.share, HARD)
    flesh = np.maximum(share * anatomy.thickness, THINNEST * anatomy.trunk_radius)
    coarse = np.clip((CELL * typical_edge(mesh) / flesh) ** 2, 1.0, STIFFEST)
    thin = share * flesh / (ROLES["trunk"] ** 2 * anatomy.trunk_radius)
    fleshy = np.isin(anatomy.role, FLESHY)
    thin = np.where(fleshy, np.clip(thin, SOFTEST, 1.0), 1.0)
    hanging = np.where(anatomy.back != 0, np.interp(anatomy.back, SIDES, HANGING), 1.0)
    return coarse * anatomy.firmness * thin * hanging


def region_factors(follows: sp.csr_array | None, factors: ArrayLike) -> Floats | None:
    """Return factors (n̄,) of the skin from those of regions (k,), None if all are 1.

    `follows` (n̄, k) has the weights of the regions; logarithms are averaged.
    """
    logarithms = np.log(np.asarray(factors, np.float64))
    if follows is None or not logarithms.any():
        return None
    return np.asarray(np.exp(follows @ logarithms), np.float64)


def motion_firmness(
    character: Character,
    anatomy: Anatomy,
    mesh: TetMesh,
    held: Ints,
    material: Material,
    factors: Floats,
) -> Floats:
    """Return factors (n̄,) that keep flesh from swinging through itself in the motions.

    Each of some points of the skin is an oscillator with the compliance of linear elasticity and
    the stiffening of the material, driven by the rig's acceleration of that point. `held` are the
    bone vertices of the tets, `factors` (n̄,) multiply the material's stiffness so far.
    """
    firmer = np.ones(len(factors))
    soft = np.flatnonzero(~anatomy.hard)
    if not (len(soft) and 0 < len(held) < len(mesh.vertices)):
        return firmer
    places = _places(anatomy, soft)
    nearest, weights = _neighbours(character, places)
    accelerations = _accelerations(character, places)
    body = HeldBody(anatomy, mesh, held, material)
    room = MOST_SWING * 2 * anatomy.thickness[places]
    shear = float(np.max(material.young)) / (2 * (1 + float(np.max(material.poisson))))
    speed = np.sqrt(shear / float(np.max(material.density)))
    for _ in range(PASSES):
        now = factors * firmer
        sag = body.sag(now, character.surface.vertices[places])
        if not sag.max() > 0:  # bone all over
            return firmer
        omega = np.sqrt(PARTICIPATION / sag)
        # Shear at the bottom of a layer, per metre of swing.
        shear_rate = omega / (speed * np.sqrt(now[places]))
        swing = np.zeros((len(TESTED_FACTORS), len(places)))
        for acceleration in accelerations:
            _raise_swings(swing, acceleration, np.sqrt(TESTED_FACTORS)[:, None] * omega, shear_rate)
        logarithms = np.log(_factors_reaching(swing, room))[nearest]
        firmer = firmer * np.exp((weights * logarithms).sum(axis=1))
    return firmer


class HeldBody:
    """Linear elasticity of a body whose bone vertices `held` are fixed."""

    def __init__(self, anatomy: Anatomy, mesh: TetMesh, held: Ints, material: Material) -> None:
        self._anatomy, self._mesh, self._material = anatomy, mesh, material
        free = np.setdiff1d(np.arange(len(mesh.vertices)), held)
        self._unknown = (3 * free[:, None] + np.arange(3)).ravel()
        self._body = ElasticBody(mesh, material)
        self._load = np.kron(self._body.vertex_masses()[free, None], np.eye(3))
        self._triangles = flesh_triangles(anatomy)

    def sag(self, factors: Floats, points: Floats) -> Floats:
        """Return the largest displacement (k,) in m of `points` under 1 m/s² in any direction.

        `factors` (n̄,) multiply Young's modulus at the vertices of the skin.
        """
        middles = self._mesh.vertices[self._mesh.tets].mean(axis=1)
        logs = skin_values(self._anatomy, np.log(factors), middles, self._triangles)
        young = np.asarray(self._material.young) * np.exp(logs)
        self._body.set_material(replace(self._material, young=young))
        full = self._body.stiffness(self._mesh.vertices)
        matrix = sp.csr_array(full[self._unknown][:, self._unknown])
        n = len(self._mesh.vertices)
        displacements = np.zeros((3 * n, 3))
        solver = SparseCholesky(matrix, block=3).factorise(matrix)
        displacements[self._unknown] = solver.solve(self._load)
        at_points = embed(points, flesh_tets(self._mesh)) @ displacements.reshape(n, 9)
        norms: Floats = np.linalg.norm(at_points.reshape(-1, 3, 3), 2, axis=(1, 2))
        return np.maximum(norms, HELD * norms.max())


def _factors_reaching(swing: Floats, room: Floats) -> Floats:
    """Return factors (k,) at which swings (f, k), one row per tested factor, equal `room` (k,).

    Logarithmic interpolation between the tested factors keeps the result continuous.
    """
    count = len(TESTED_FACTORS)
    enough = swing <= room
    after = np.where(enough.any(axis=0), enough.argmax(axis=0), count - 1)
    before, column = np.maximum(after - 1, 0), np.arange(len(room))
    logs = np.log(np.maximum(swing, 1e-300))
    high, low = logs[before, column], logs[after, column]
    part = (high - np.log(np.maximum(room, 1e-300))) / np.maximum(high - low, 1e-12)
    steps = before + np.where(after > before, np.clip(part, 0.0, 1.0), 0.0)
    factors: Floats = np.exp(np.interp(steps, np.arange(count), np.log(TESTED_FACTORS)))
    return factors


def _places(anatomy: Anatomy, soft: Ints) -> Ints:
    """Return up to `PLACES` of the vertices `soft`, spread evenly over their area."""
    ends = np.cumsum(np.maximum(anatomy.surface.vertex_areas()[soft], 1e-300))
    # An irrational offset: on meshes of equal triangles rounding would decide.
    sums = (np.arange(PLACES) + 0.4837) / PLACES * ends[-1]
    return np.unique(soft[np.minimum(np.searchsorted(ends, sums), len(soft) - 1)])


def _neighbours(character: Character, places: Ints) -> tuple[Ints, Floats]:
    """Return indices in `places` of the 8 points nearest to each vertex, and their weights."""
    skin = character.surface.vertices
    near = min(8, len(places))
    apart, nearest = cKDTree(skin[places]).query(skin, k=range(1, near + 1))
    apart = np.maximum(apart, 1e-3 * character.surface.size)
    # The last neighbour has weight 0, so that ties do not matter.
    weights = (1 / apart - (1 - 1e-6) / apart[:, -1:]) ** 2
    return nearest, weights / weights.sum(axis=1, keepdims=True)


def _accelerations(character: Character, places: Ints) -> list[Floats]:
    """Return accelerations (t, k, 3) in m/s² of skin points in each motion, or in a test motion."""
    motions = [each for each in character.motions.values() if each.n_frames > 2]
    motions = motions or [wiggle(character)]
    total = sum(each.duration for each in motions) * RATE
    part = min(1.0, MOST_FRAMES / max(total, 1.0))
    return [_acceleration(character, motion, places, part) for motion in motions]


def _acceleration(character: Character, motion: Motion, places: Ints, part: float) -> Floats:
    """Return accelerations (t, k, 3) of the skin in the middle of a motion, a fraction `part`.

    They include the change of gravity relative to the body.
    """
    spare = 0.5 * (1 - part) * motion.duration
    played = motion.slice(motion.times[0] + spare, motion.times[-1] - spare) if part < 1 else motion
    even = played.smooth.resample(RATE)
    skin = np.stack(
        [
            character.rig(pose, places) @ root[:3, :3].T + root[:3, 3]
            for pose, root in zip(even.poses, even.roots, strict=True)
        ]
    )
    acceleration = np.zeros_like(skin)
    if len(skin) > 2:
        acceleration[1:-1] = (skin[2:] - 2 * skin[1:-1] + skin[:-2]) * RATE**2
    limit = JUMP * character.surface.size
    norms = np.linalg.norm(acceleration, axis=2)
    acceleration *= np.minimum(1.0, limit / np.maximum(norms, limit))[..., None]
    # A rotated body sags in another direction.
    down = np.array([0.0, -scaled_gravity(character.surface.size), 0.0])
    acceleration -= (down - even.roots[:, :3, :3] @ down)[:, None]
    return acceleration


def _raise_swings(largest: Floats, acceleration: Floats, omega: Floats, shear_rate: Floats) -> None:
    """Raise `largest` (f, k) to the swings in m of oscillators with `omega` (f, k) in rad/s.

    Oscillators are driven by `acceleration` (t, k, 3). `shear_rate` (k,) is the strain at the
    bottom of the flesh per metre of swing. Newmark's method is used with secant stiffness.
    """
    step, spring = 1 / RATE, omega[..., None] ** 2
    normal = FLESH_PRESETS["normal"]
    drag = normal.alpha + normal.beta * spring
    swing, speed = np.zeros((*omega.shape, 3)), np.zeros((*omega.shape, 3))
    last = np.zeros_like(swing)
    for driven in acceleration:
        swing += step * speed + 0.25 * step**2 * last
        speed += 0.5 * step * last
        strain = np.square(swing * shear_rate[:, None]).sum(axis=2, keepdims=True)
        strain = np.maximum(strain - STRAINED, 0.0)
        stiffening = MODE_STIFFENING * STIFFENING * strain * (2 + strain) / (1 + strain) ** 2
        secant = spring * (1 + stiffening)
        inertia = 1 + 0.5 * step * drag + 0.25 * step**2 * secant
        last = (-PARTICIPATION * driven - drag * speed - secant * swing) / inertia
        swing += 0.25 * step**2 * last
        speed += 0.5 * step * last
        np.maximum(largest, np.linalg.norm(swing, axis=2), out=largest)


# Values of the skin at points in the body.


def skin_values(anatomy: Anatomy, values: Floats, points: Floats, triangles: Ints) -> Floats:
    """Return values (m,) of the skin at the points of `triangles` nearest to `points` (m, 3)."""
    surface = anatomy.surface
    tree, size = igl.AABB(), max(surface.size, np.finfo(float).tiny)
    vertices = surface.vertices / size
    tree.init(vertices, triangles)
    _, triangle, place = tree.squared_distance(vertices, triangles, points / size)
    corners = triangles[triangle]
    a, b, c = (vertices[corners[:, k]] for k in range(3))
    shares = _barycentric(place, a, b, c)
    interpolated: Floats = np.einsum("kc,kc->k", shares, values[corners])
    return interpolated


def _barycentric(points: Floats, a: Floats, b: Floats, c: Floats) -> Floats:
    """Return barycentric weights (m, 3) of points of triangles; the first corner if degenerate."""
    u, v, w = b - a, c - a, points - a
    uu, uv, vv = (np.einsum("ij,ij->i", p, q) for p, q in ((u, u), (u, v), (v, v)))
    uw, vw = np.einsum("ij,ij->i", u, w), np.einsum("ij,ij->i", v, w)
    scale = uu * vv - uv * uv
    flat = scale <= 1e-12 * np.maximum(uu * vv, 1e-300)
    scale = np.where(flat, 1.0, scale)
    second = np.where(flat, 0.0, (vv * uw - uv * vw) / scale)
    third = np.where(flat, 0.0, (uu * vw - uv * uw) / scale)
    shares = np.clip(np.column_stack([1 - second - third, second, third]), 0.0, 1.0)
    return shares / shares.sum(axis=1, keepdims=True)


def flesh_triangles(anatomy: Anatomy) -> Ints:
    """Return the triangles (m, 3) of the skin without parts that follow the rig."""
    triangles = anatomy.surface.triangles
    flesh = triangles[~anatomy.riding[triangles].all(axis=1)]
    return np.ascontiguousarray(flesh if len(flesh) else triangles)
