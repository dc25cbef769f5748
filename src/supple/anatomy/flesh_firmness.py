"""Firmness of flesh by its thickness, by the cells that carry it, and by the motions it must bear.

Flesh of thickness t on bone that is accelerated by a moves by u ≈ ρ a t² / 2G. So thin flesh hardly
moves and thick flesh, far from any bone, swings through itself in a wild motion. The one is made
softer here and the other firmer, each where it is, not the whole body for its worst place.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

from supple.anatomy.anatomy import Anatomy
from supple.anatomy.flesh_presets import scaled_gravity
from supple.anatomy.roles import HARD, ROLES
from supple.anatomy.skin_regions import vertex_areas
from supple.arrays import Floats, Ints
from supple.elastic.material import Material
from supple.mesh.tets import TetMesh
from supple.rig.character import Character
from supple.rig.motion.motion import Motion
from supple.rig.tets.surface_samples import typical_edge
from supple.rig.wiggle import wiggle

__all__ = ["flesh_factors", "motion_firmness"]

#: Flesh thinner than this part of a cell's edge is too soft in such cells: they bend as a whole.
#: So many times as stiff at most.
CELL, STIFFEST = 0.7, 100.0
#: Flesh thinner than this part of the trunk's radius is as stiff as flesh of that thickness.
THINNEST = 0.02
#: Flesh on limbs and trunk is softer where it is thin, down to this factor: thighs of a heavy man
#: moved by 0.45 cm in a jump that moves his belly by 3.
SOFTEST = 0.35
FLESHY = ("limb", "trunk", "soft")
#: What hangs below a body that stands on its limbs is softer: by side, and factors.
SIDES, HANGING = (-1.0, 0.0, 0.5), (0.35, 0.6, 1.0)
#: Flesh may swing by this part of the body's thickness, 2R, as an oscillator of its thickness has
#: it.
MOST_SWING = 0.25
#: Factors that are tried, frames a second, and damping as a part of the critical one.
FIRMER, RATE, DAMPING = 2.0 ** np.linspace(0, 8, 14), 60.0, 0.15
#: Places of the skin that are looked at, and frames of all motions.
PLACES, MOST_FRAMES = 400, 6000
#: Accelerations are limited to this many sizes a second², as bakes limit them.
JUMP = 500.0
#: What reaches so many R from bone is a plate; 2.2 = 3.5·2 √(2(1 + ν)/12) / ½π.
PLATE, BENDING = 3.0, 2.2
#: Displacement at the skin of the lowest shear mode of a layer, per unit of acceleration.
PARTICIPATION = 4 / np.pi


def flesh_factors(anatomy: Anatomy, mesh: TetMesh) -> Floats:
    """(n̄,) how many times as stiff as elsewhere flesh is, painted on the skin.

    Where a cell is thicker than the flesh wanted, φR, it carries more of it than there should
    be; (0.7 edge / φR)² makes up for that. Elsewhere φ²R beside the trunk's, so that thin flesh
    moves by as much of its thickness as thick flesh.
    """
    share = np.maximum(anatomy.share, HARD)
    wanted = np.maximum(share * anatomy.thickness, THINNEST * anatomy.trunk_radius)
    coarse = np.clip((CELL * typical_edge(mesh) / wanted) ** 2, 1.0, STIFFEST)
    thin = share * wanted / (ROLES["trunk"] ** 2 * anatomy.trunk_radius)
    fleshy = np.isin(anatomy.role, FLESHY)
    thin = np.where(fleshy, np.clip(thin, SOFTEST, 1.0), 1.0)
    hanging = np.where(anatomy.back != 0, np.interp(anatomy.back, SIDES, HANGING), 1.0)
    return coarse * anatomy.firmness * thin * hanging


def motion_firmness(
    character: Character,
    anatomy: Anatomy,
    mesh: TetMesh,
    held: Ints,
    material: Material,
    factors: Floats,
) -> Floats:
    """(n̄,) how many times firmer flesh must be not to swing through itself in the motions.

    Parameters
    ----------
    character, anatomy
        Its motions, and the thickness of its body.
    mesh, held
        Tets, and those of their vertices that are bone: flesh is as thick as it is far from them.
    material, factors
        Flesh, and what its stiffness is multiplied by at each vertex of the skin.
    """
    ones = np.ones(len(factors))
    soft = np.flatnonzero(~anatomy.hard)
    if not (len(soft) and len(held)):
        return ones
    places = _places(anatomy, soft)
    skin = character.surface.vertices
    away = cKDTree(mesh.vertices[held]).query(skin[places])[0]
    depth = np.maximum(away, 0.25 * typical_edge(mesh))
    depth = _layer(depth, anatomy.thickness[places])
    shear = float(np.max(material.young)) / (2 * (1 + float(np.max(material.poisson))))
    speed = np.sqrt(shear * factors[places] / float(np.max(material.density)))
    pitch = 0.5 * np.pi * speed / depth
    swing = _swing(character, places, np.sqrt(FIRMER)[:, None] * pitch)
    room = MOST_SWING * 2 * anatomy.thickness[places]
    enough = swing <= room
    first = np.where(enough.any(axis=0), enough.argmax(axis=0), len(FIRMER) - 1)
    near = min(6, len(places))
    apart, nearest = cKDTree(skin[places]).query(skin, k=range(1, near + 1))
    weights = 1 / np.maximum(apart, 1e-3 * character.surface.size) ** 2
    logs = np.log(FIRMER[first])[nearest]
    found: Floats = np.exp((weights * logs).sum(axis=1) / weights.sum(axis=1))
    return found


def _layer(depth: Floats, thickness: Floats) -> Floats:
    """Thickness of a layer that swings as flesh so far from bone, in a body of thickness R.

    A belly bulges from R to 2R away from the spine and is held by its sides: as a layer as thick
    as it is far away a heavy man's would swing three times as far as it does. What reaches
    farther, L, bends as a plate: at 3.5 √(E/12ρ) 2R/L² in place of ½π √(G/ρ)/L.
    """
    far = depth / thickness
    bulge = np.interp(far, [0.0, 1.0, 2.0, PLATE], [0.0, 1.0, 1.0, PLATE**2 / BENDING])
    return thickness * np.where(far < PLATE, bulge, far**2 / BENDING)


def _places(anatomy: Anatomy, soft: Ints) -> Ints:
    """Vertices spread evenly over the area of what is soft."""
    ends = np.cumsum(np.maximum(vertex_areas(anatomy.surface)[soft], 1e-300))
    wanted = (np.arange(PLACES) + 0.5) / PLACES * ends[-1]
    return np.unique(soft[np.minimum(np.searchsorted(ends, wanted), len(soft) - 1)])


def _swing(character: Character, places: Ints, pitch: Floats) -> Floats:
    """Largest displacement (f, k) of oscillators of these pitches (f, k), in rad/s, at places."""
    largest = np.zeros(pitch.shape)
    motions = [each for each in character.motions.values() if each.n_frames > 2]
    motions = motions or [wiggle(character)]
    total = sum(each.duration for each in motions) * RATE
    for motion in motions:
        part = min(1.0, MOST_FRAMES / max(total, 1.0))
        for acceleration in _accelerations(character, motion, places, part):
            _ring(acceleration, pitch, largest)
    return largest


def _accelerations(character: Character, motion: Motion, places: Ints, part: float) -> list[Floats]:
    """Accelerations (t, k, 3) of the skin in the middle `part` of a motion."""
    spare = 0.5 * (1 - part) * motion.duration
    played = motion.slice(motion.times[0] + spare, motion.times[-1] - spare) if part < 1 else motion
    even = played.resample(RATE)
    skin = np.stack(
        [
            character.rig(pose, places) @ root[:3, :3].T + root[:3, 3]
            for pose, root in zip(even.poses, even.roots, strict=True)
        ]
    )
    found = np.zeros_like(skin)
    if len(skin) > 2:
        found[1:-1] = (skin[2:] - 2 * skin[1:-1] + skin[:-2]) * RATE**2
    most = JUMP * character.surface.size
    found *= np.minimum(1.0, most / np.maximum(np.linalg.norm(found, axis=2), most))[..., None]
    # A body that is turned over sags the other way.
    down = np.array([0.0, -scaled_gravity(character.surface.size), 0.0])
    found -= (down - even.roots[:, :3, :3] @ down)[:, None] / PARTICIPATION
    return [found]


def _ring(acceleration: Floats, pitch: Floats, largest: Floats) -> None:
    """Raise `largest` to what oscillators do; Newmark's mean acceleration."""
    step, spring = 1 / RATE, pitch[..., None] ** 2
    drag = 2 * DAMPING * pitch[..., None]
    heavy = 1 + 0.5 * step * drag + 0.25 * step**2 * spring
    place, speed = np.zeros((*pitch.shape, 3)), np.zeros((*pitch.shape, 3))
    last = np.zeros_like(place)
    for driven in acceleration:
        place += step * speed + 0.25 * step**2 * last
        speed += 0.5 * step * last
        last = (-PARTICIPATION * driven - drag * speed - spring * place) / heavy
        place += 0.25 * step**2 * last
        speed += 0.5 * step * last
        np.maximum(largest, np.linalg.norm(place, axis=2), out=largest)
