"""A sumo wrestler who stamps and shakes his head: the second example of Hahn et al. 2013, §5.

He stands facing +z with his feet apart, 1.95 m tall with the top-knot, arms away from the belly.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.arrays import Floats
from supple.elastic.material import Material
from supple.mesh.surface import SurfaceMesh
from supple.rig.character import Character
from supple.rig.deformers.blend_shapes import BlendShapeRig
from supple.rig.motion.motion import Motion
from supple.scenes.characters.character_scene import PaperRow, Scene, joint_bones, segment_handles
from supple.scenes.modelling.keyframes import Timeline
from supple.scenes.modelling.scene_data import (
    blended_keys,
    joint_table,
    limb_solids,
    limb_unions,
    scene_data,
    solids_from,
)
from supple.scenes.modelling.sculpting import bell, painted, ramp
from supple.scenes.modelling.skinning import Puppet, Rotations, part_weights, strongest
from supple.scenes.modelling.solids import (
    Solid,
    ball,
    coarsened,
    ellipsoid,
    polygonise,
    relaxed,
    smooth_subtraction,
    smooth_union,
    tapered_limb,
)

PAPER = PaperRow(tet_vertices=2269, tets=None, surface_vertices=1302)
VERTICES, SPACING = PAPER.tet_vertices, 0.019
DATA = scene_data("sumo")
JOINTS, COLOURS = joint_table(DATA), DATA["colours"]
TRUNK = ("pelvis", "spine", "chest")
ARM, LEG = ("shoulder", "elbow", "wrist"), ("hip", "knee", "ankle")
PUPPET = Puppet(JOINTS)
#: Degrees about x, y and z for each joint, of the left side for both.
POSES: dict[str, Rotations] = DATA["poses"]
#: Soft regions. Rays from ``centre`` hit the body at free places; ``rows`` has their degrees above
#: the horizon and to his left. A place moves out, sideways and up, by ``distance`` at weight 1,
#: within ``radius`` and on the flesh of ``joints``. With the top-knot there are 174 parameters.
SOFT: dict[str, dict[str, Any]] = DATA["soft"]
#: Places of the top-knot from its binding to its tip.
KNOT = DATA["knot"]
FREE = {"belly": ("belly*",), "chest": ("breast*",), "cheeks": ("cheek*",), "hair": ("hair*",)}
DIRECTIONS = ("out", "side", "up")
#: Young's modulus of the body, of cheeks and of bound hair, in Pa.
FLESH, CHEEK, HAIR = 2.2e4, 4e3, 3e4
_HEAD_SOLIDS, _HAIR_SOLIDS = (solids_from(DATA["solids"][name]) for name in ("head", "hair"))
#: The head is modelled at a smaller size: scale factor and fixed point of the enlargement.
HEAD = 1.3, (0.0, 1.42, -0.04)


def head_space(points: Floats) -> Floats:
    """Return points (n, 3) at the size at which the head is modelled."""
    scale, fixed = HEAD
    return fixed + (points - np.array(fixed)) / scale


def _on_body(solid: Solid) -> Solid:
    return lambda points: HEAD[0] * solid(head_space(points))


def sumo_solid() -> Solid:
    """Return the whole body with his belt on, standing on flat feet."""
    parts = sumo_parts()
    limbs = limb_unions(parts, (ARM, LEG), 0.05)
    middle = [solid for joint in TRUNK for solid in parts[joint]]
    body = smooth_union([smooth_union(middle, 0.07), *limbs], 0.045)
    body = smooth_subtraction(body, ball((0, 0.93, 0.535), 0.030), 0.03)  # the navel
    body = smooth_union([body, _on_body(_carved_head())], 0.04)
    skin = smooth_union([body, sumo_belt()], 0.012)
    return smooth_subtraction(skin, lambda points: 0.0 - points[:, 1], 0.015)


def sumo_parts() -> dict[str, list[Solid]]:
    """Return solids of each joint, in the order of `JOINTS`."""
    parts = {name: solids_from(DATA["solids"][name]) for name in TRUNK}
    parts["head"] = [_on_body(solid) for solid in (*_HEAD_SOLIDS, *_HAIR_SOLIDS)]
    parts |= limb_solids(DATA, (*ARM, *LEG))
    return {name: parts[name] for name in JOINTS}


def sumo_belt() -> Solid:
    """Return the mawashi as one solid."""
    return smooth_union(_belt(), 0.02)


def _belt() -> list[Solid]:
    """Return the mawashi: two rings around the waist, a fold in front and one between the legs."""
    solids = []
    for height, wide in ((0.715, 0.372), (0.775, 0.385)):
        around = np.linspace(0, 2 * np.pi, 25)
        ring = np.stack(
            [
                wide * np.cos(around),
                height - 0.035 * np.sin(around),
                0.02 + (wide - 0.035) * np.sin(around),
            ],
            axis=1,
        )
        solids += [tapered_limb(a, b, 0.050, 0.050) for a, b in pairwise(ring)]
    solids.append(ellipsoid((0, 0.755, 0.02), (0.40, 0.205, 0.35)))  # fills the gap behind the belt
    front = [(0, 0.72, 0.34), (0, 0.60, 0.27), (0, 0.52, 0.12), (0, 0.51, -0.08), (0, 0.60, -0.29)]
    solids += [tapered_limb(a, b, 0.085, 0.080) for a, b in pairwise(front)]
    solids.append(tapered_limb((0, 0.64, -0.32), (0, 0.79, -0.31), 0.075, 0.085))  # the knot
    return solids


def _carved_head() -> Solid:
    hair = smooth_union(_HAIR_SOLIDS, 0.02)
    head = smooth_union([smooth_union(_HEAD_SOLIDS, 0.028), hair], 0.015)
    for sign in (1, -1):
        head = smooth_subtraction(head, ball((0.062 * sign, 1.628, 0.190), 0.026), 0.015)
    corners = [(0.052 * side, 1.520, 0.170) for side in (1, -1)]
    lips = [tapered_limb((0, 1.526, 0.196), corner, 0.012, 0.010) for corner in corners]
    head = smooth_subtraction(head, smooth_union(lips, 0.005), 0.010)
    eyes = [ellipsoid((0.062 * sign, 1.628, 0.150), (0.030, 0.020, 0.022)) for sign in (1, -1)]
    return smooth_union([head, *eyes], 0.006)


def sumo_colours(points: Floats) -> Floats:
    """Return sRGB colours (n, 3) of points: black hair and eyes, a dark belt, red cheeks."""
    colours = np.tile(COLOURS["skin"], (len(points), 1))
    colours[sumo_belt()(points) > -0.014] = COLOURS["belt"]
    points = head_space(points)
    hair = smooth_union(_HAIR_SOLIDS, 0.02)(points)
    head = smooth_union(_HEAD_SOLIDS, 0.028)(points)
    colours[(hair > -0.012) & (hair > head - 0.006)] = COLOURS["hair"]
    for sign in (1.0, -1.0):
        cheek = np.linalg.norm(points - [0.115 * sign, 1.54, 0.15], axis=1)
        colours[cheek < 0.04] = COLOURS["blush"]
        eye = ellipsoid((0.062 * sign, 1.626, 0.165), (0.026, 0.012, 0.040))
        colours[eye(points) > -0.006] = COLOURS["hair"]
        ends = (0.036 * sign, 1.672, 0.170), (0.098 * sign, 1.684, 0.142)
        colours[tapered_limb(*ends, 0.010, 0.008)(points) > -0.008] = COLOURS["hair"]
    lips = np.abs(points - [0.0, 1.524, 0.19]) < [0.045, 0.012, 0.04]
    colours[lips.all(axis=1)] = COLOURS["lip"]
    return colours


def enlarged(points: Floats) -> Floats:
    """Return points with an enlarged head, which keeps more vertices if coarsened."""
    above = points - [0.0, 1.40, 0.0]
    return points + 0.6 * ramp(points[:, 1], 1.36, 1.46)[:, None] * above


def sculpt() -> dict[str, NDArray]:
    """Return the sculpted surface, skinning weights and shapes, as named arrays."""
    solid = sumo_solid()
    fine = relaxed(polygonise(solid, DATA["bounds"], SPACING), solid, 4)
    surface = coarsened(fine, solid, VERTICES, enlarged)
    weights = part_weights(surface, list(sumo_parts().values()), 0.07)
    joints, joint_weights = strongest(weights, 4)
    names = list(JOINTS)
    shapes, bare = [], _bare(surface.vertices)
    for name, soft in SOFT.items():
        share = weights[:, [names.index(joint) for joint in soft["joints"]]].sum(axis=1)
        points = head_space(surface.vertices) if name.startswith("cheek") else surface.vertices
        shapes += _soft_shapes(points, soft, bare * ramp(share, 0.1, 1.0))
    shapes += _knot_shapes(head_space(surface.vertices))
    return {
        "vertices": surface.vertices,
        "triangles": surface.triangles,
        "joints": joints,
        "weights": joint_weights,
        "shapes": np.array(shapes),
    }


def _bare(points: Floats) -> Floats:
    """Return a factor (n,): 0 in the belt, which is not soft, rising to 1 at 6 cm from it."""
    return ramp(-sumo_belt()(points), 0.0, 0.06)


def _bump(points: Floats, centre: Floats, radius: float) -> Floats:
    distances = np.linalg.norm(points - centre, axis=1) / radius
    return np.maximum(1 - distances**2, 0.0) ** 2


def _soft_shapes(points: Floats, soft: dict[str, Any], share: Floats) -> list[Floats]:
    """Return three displacements (n, 3) for each place of a soft region, scaled by `share` (n,)."""
    shapes = []
    inside = np.flatnonzero(share > 0.3)
    rays = points[inside] - soft["centre"]
    rays /= np.linalg.norm(rays, axis=1, keepdims=True)
    for up, sides in soft["rows"]:
        for side in sides:
            a, e = np.radians([side, up])
            out = np.array([np.sin(a) * np.cos(e), np.sin(e), np.cos(a) * np.cos(e)])
            centre = points[inside[np.argmax(rays @ out)]]
            bump = soft["distance"] * share * _bump(points, centre, soft["radius"])
            across = np.array([np.cos(a), 0.0, -np.sin(a)])
            directions = out, across, np.cross(out, across)
            shapes += [bump[:, None] * direction for direction in directions]
    return shapes


def _knot_shapes(points: Floats) -> list[Floats]:
    """Return displacements of the top-knot's places to the front, to the side and up."""
    above = ramp(points[:, 1], 1.755, 1.80)
    bumps = [0.06 * above * _bump(points, np.array(place), 0.105) for place in KNOT]
    return [bump[:, None] * axis for bump in bumps for axis in np.eye(3)[[2, 0, 1]]]


def _names() -> list[str]:
    places = {name: sum(len(sides) for _, sides in soft["rows"]) for name, soft in SOFT.items()}
    places["hair"] = len(KNOT)
    return [
        f"{name}{k + 1}.{direction}"
        for name, n in places.items()
        for k in range(n)
        for direction in DIRECTIONS
    ]


def assemble(arrays: dict[str, NDArray]) -> Scene:
    """Assemble the scene from the sculpted arrays."""
    surface = SurfaceMesh(arrays["vertices"], arrays["triangles"])
    skinned = PUPPET.skinned(surface.vertices, arrays["joints"], arrays["weights"])
    rig = BlendShapeRig(skinned, arrays["shapes"], _names())
    poses = np.array([_posed(PUPPET.pose(rotations)) for rotations in POSES.values()])
    motion = _shiko(rig)
    return Scene(
        character=Character(
            "sumo", surface, rig, {motion.name: motion}, appearance=painted(surface, sumo_colours)
        ),
        tets=9_400,
        poses=poses,
        pose_names=tuple(POSES),
        handles=segment_handles(JOINTS, DATA["regions"]),
        bones=joint_bones(JOINTS, (0.0, 1.64, 0.0)),
        parts=skinned.weight_matrix().toarray().argmax(axis=1),
        part_names=tuple(JOINTS),
        contacts=(),
        paper=PAPER,
        material=Material("neo-hookean", young=FLESH, poisson=0.45),
        modes=(10, 20, 10, 10, 10, 10),
        young=_young(surface.vertices),
        free=FREE,
        bounds={"*": (-1.0, 1.0)},
    )


def _young(points: Floats) -> Floats:
    """Return Young's modulus (n,) on the skin in Pa: softer cheeks, stiffer hair."""
    points = head_space(points)
    cheeks = sum(bell(points, (0.11 * side, 1.52, 0.10), (0.07,) * 3) for side in (1, -1))
    knot = ramp(points[:, 1], 1.74, 1.79)
    return FLESH * (CHEEK / FLESH) ** np.minimum(cheeks, 1.0) * (HAIR / FLESH) ** knot


def _posed(joints: Floats) -> Floats:
    """Return poses with the weights of the shapes, zero, appended."""
    return np.pad(joints, [*[(0, 0)] * (joints.ndim - 1), (0, len(_names()))])


def _shiko(rig: BlendShapeRig) -> Motion:
    """Return a motion of 5.4 s: he raises a leg, slams it down and shakes his head."""
    line = Timeline(5.4, rate=100)
    pose = {name: PUPPET.pose(rotations) for name, rotations in POSES.items()}
    poses = line.curve(blended_keys(DATA["keys"], pose))
    poses[:, PUPPET.places["head.ry"]] += np.radians(30) * line.wave(2.2, 3.0, 4.4)
    poses[:, PUPPET.places["chest.ry"]] -= np.radians(4) * line.wave(2.2, 3.05, 4.45)
    poses = _posed(poses)
    # The right foot, on which he stands, does not move.
    sole = np.flatnonzero((rig.rest_points[:, 0] < 0) & (rig.rest_points[:, 1] < 0.03))
    stand = np.array([rig(row, sole).mean(axis=0) for row in poses])
    roots = np.tile(np.eye(4), (len(poses), 1, 1))
    roots[:, :3, 3] = rig.rest_points[sole].mean(axis=0) - stand
    return Motion(line.times, poses, roots, "shiko")
