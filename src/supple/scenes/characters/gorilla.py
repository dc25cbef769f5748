"""A gorilla of sixteen joints: the fourth example of Xu and Barbič 2016, §9.

It stands on its knuckles, facing +z, 1.4 m tall at the crest.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from supple.arrays import Floats
from supple.elastic.material import Material
from supple.mesh.surface import SurfaceMesh
from supple.rig.character import Character
from supple.rig.deformers.pose_space_deformation import PoseSpaceDeformation
from supple.rig.motion.motion import Motion
from supple.rig.skeleton.skinning import SkinnedRig
from supple.scenes.characters.character_scene import Bone, Contact, PaperRow, Scene, segment_handles
from supple.scenes.modelling.keyframes import Timeline
from supple.scenes.modelling.scene_data import (
    blended_keys,
    joint_table,
    limb_solids,
    limb_unions,
    scene_data,
    solids_from,
)
from supple.scenes.modelling.sculpting import SkinRelaxer, bell, bulged, parted, ramp, untangled
from supple.scenes.modelling.skinning import Puppet, Rotations, part_weights, strongest
from supple.scenes.modelling.solids import (
    Solid,
    ball,
    polygonise,
    relaxed,
    smooth_subtraction,
    smooth_union,
    tapered_limb,
)

DATA = scene_data("gorilla")
JOINTS = joint_table(DATA)
TRUNK = ("pelvis", "spine", "chest")
ARM, LEG = ("shoulder", "elbow", "wrist"), ("hip", "knee", "ankle")
#: Joints that translate. With three rotations of each joint a pose has 60 numbers, as many as in
#: the paper, where ten joints translate and rotate.
TRANSLATING = ("pelvis", "chest", "shoulder.L", "shoulder.R")
#: Degrees about x, y and z for each joint, of the left side for both; metres for "+name".
POSES: dict[str, Rotations] = DATA["poses"]
PUPPET = Puppet(JOINTS, TRANSLATING)
Place = tuple[float, float, float]


def gorilla_solid() -> Solid:
    """Return the whole body."""
    parts = gorilla_parts()
    trunk = [solid for name in TRUNK for solid in parts[name]]
    limbs = limb_unions(parts, (ARM, LEG), 0.04)
    return smooth_union([smooth_union(trunk, 0.10), _carved_head(parts["head"]), *limbs], 0.045)


def gorilla_parts() -> dict[str, list[Solid]]:
    """Return solids of each joint, in the order of `JOINTS`."""
    parts = {name: solids_from(DATA["solids"][name]) for name in (*TRUNK, "head")}
    parts |= limb_solids(DATA, (*ARM, *LEG))
    return {name: parts[name] for name in JOINTS}


def _carved_head(solids: list[Solid]) -> Solid:
    """Return the head with eyes in sockets, nostrils and a mouth."""
    head = smooth_union(solids, 0.026)
    for sign in (1, -1):
        head = smooth_subtraction(head, ball((0.050 * sign, 1.190, 0.604), 0.030), 0.014)
        head = smooth_subtraction(head, ball((0.026 * sign, 1.138, 0.664), 0.018), 0.008)
    corners = [(0.085 * side, 1.074, 0.60) for side in (1, -1)]
    lips = [tapered_limb((0, 1.066, 0.664), corner, 0.014, 0.010) for corner in corners]
    mouth = smooth_union(lips, 0.005)
    return smooth_union(
        [
            smooth_subtraction(head, mouth, 0.012),
            ball((0.047, 1.190, 0.562), 0.024),  # eyes
            ball((-0.047, 1.190, 0.562), 0.024),
        ],
        0.006,
    )


def gorilla_motion() -> Motion:
    """Return a motion of 7.5 s: a leap, a drumming chest, half a turn with a hop, a roar."""
    line = Timeline(7.5)
    named = {name: PUPPET.pose(pose) for name, pose in {**POSES, "leap": DATA["leap"]}.items()}
    poses = line.curve(blended_keys(DATA["keys"], named))
    _enliven(poses, line)
    return Motion(line.times, poses, line.roots(**DATA["root"]), "dance")


def _enliven(poses: Floats, line: Timeline) -> None:
    """Add fists that drum alternately and a head that shakes in the roar to `poses`, in place."""
    places = PUPPET.places
    drum = line.wave(2.0, 2.3, 4.1)
    for side, sign in (("L", 1.0), ("R", -1.0)):
        raised = ramp(sign * drum, 0.0, 1.0)
        poses[:, places[f"elbow.{side}.rx"]] += np.radians(36) * raised
        poses[:, places[f"shoulder.{side}.rx"]] -= np.radians(8) * raised
    shake = line.wave(2.2, 5.0, 6.0)
    poses[:, places["head.ry"]] += np.radians(14) * shake
    poses[:, places["chest.ry"]] += np.radians(6) * drum


PAPER = PaperRow(3771, 16297, 15774, 100, 6, 4, 2, 144, 119, 1.33, 7.9, 125)
SPACING = 0.02068
FACE = (0.0, 1.20, 0.45)


def sculpt() -> dict[str, NDArray]:
    """Return the sculpted surface, skinning weights and corrections, as named arrays."""
    solid = gorilla_solid()
    surface = relaxed(polygonise(solid, DATA["bounds"], SPACING), solid)
    weights = part_weights(surface, list(gorilla_parts().values()), 0.055)
    joints, joint_weights = strongest(weights, 4)
    arrays = {"vertices": surface.vertices, "triangles": surface.triangles}
    arrays |= {"joints": joints, "weights": joint_weights}
    relaxer = SkinRelaxer(surface, rounds=16)
    rig = _skinned(arrays)
    shapes = [
        _sculpted(rig, surface, relaxer, name) - rig(PUPPET.pose(rotations))
        for name, rotations in POSES.items()
    ]
    return arrays | {"corrections": np.array(shapes)}


def _skinned(arrays: dict[str, NDArray]) -> SkinnedRig:
    return PUPPET.skinned(arrays["vertices"], arrays["joints"], arrays["weights"])


def _sculpted(rig: SkinnedRig, surface: SurfaceMesh, relaxer: SkinRelaxer, name: str) -> Floats:
    """Return the gorilla's vertices (n, 3) as sculpted in the pose `name`."""
    if name == "on knuckles":
        return surface.vertices
    rest, triangles = surface.vertices, surface.triangles
    points = relaxer(rig(PUPPET.pose(POSES[name])))
    points = bulged(points, triangles, MUSCLES[name](rest))
    weights = rig.weight_matrix().toarray()
    joints = list(JOINTS)
    for pair in DATA["touching"].get(name, ()):
        sides = [[joints.index(joint) for joint in side] for side in pair]
        first, second = (weights[:, side].sum(axis=1) > 0.9 for side in sides)
        points = parted(points, triangles, (first, second), relaxer, gap=0.006, deepest=0.10)
    return untangled(points, surface, relaxer, gap=0.003)


def _both(rest: Floats, centre: Place, radii: Place) -> Floats:
    mirrored = (-centre[0], centre[1], centre[2])
    return bell(rest, centre, radii) + bell(rest, mirrored, radii)


MUSCLES = {
    # Biceps and breast swell, the belly is pulled in.
    "chest beat": lambda rest: (
        0.022 * _both(rest, (0.41, 0.77, 0.32), (0.08, 0.08, 0.07))
        + 0.016 * _both(rest, (0.13, 0.86, 0.33), (0.10, 0.08, 0.08))
        - 0.015 * bell(rest, (0, 0.55, 0.12), (0.14, 0.12, 0.12))
    ),
    # The belly is squeezed out between the thighs.
    "crouch": lambda rest: (
        0.030 * bell(rest, (0, 0.48, 0.08), (0.10, 0.12, 0.14))
        + 0.014 * _both(rest, (0.27, 0.25, -0.32), (0.07, 0.08, 0.06))
    ),
    "roar": lambda rest: (
        0.020 * _both(rest, (0.42, 0.76, 0.06), (0.08, 0.10, 0.07))
        + 0.022 * _both(rest, (0.33, 1.08, 0.10), (0.10, 0.09, 0.12))
        - 0.012 * bell(rest, (0, 0.55, 0.12), (0.14, 0.12, 0.12))
    ),
}


def assemble(arrays: dict[str, NDArray]) -> Scene:
    """Assemble the scene from the sculpted arrays."""
    surface = SurfaceMesh(arrays["vertices"], arrays["triangles"])
    skinned, motion = _skinned(arrays), gorilla_motion()
    poses = np.array([PUPPET.pose(rotations) for rotations in POSES.values()])
    rig = PoseSpaceDeformation(skinned, poses, arrays["corrections"], names=list(POSES))
    places = {name: np.array(place) for name, (_, place) in JOINTS.items()}
    handles = segment_handles(JOINTS, DATA["regions"])
    return Scene(
        character=Character("gorilla", surface, rig, {motion.name: motion}),
        tets=16_297,
        poses=poses,
        pose_names=tuple(POSES),
        handles=handles,
        bones=_bones(places),
        parts=skinned.weight_matrix().toarray().argmax(axis=1),
        part_names=tuple(JOINTS),
        contacts=(Contact("chest beat", "wrist.L", "chest"), Contact("crouch", "hip.L", "spine")),
        paper=PAPER,
        material=Material("stvk", young=2e4, poisson=0.45),
        modes=tuple(10 if handle.name.startswith("leg") else 20 for handle in handles),
    )


def _bones(places: dict[str, Floats]) -> tuple[Bone, ...]:
    """Return bones between joints, and bones of head, hands and feet."""
    ends = [
        Bone(f"{parent} to {name}", places[parent], places[name])
        for name, (parent, _) in JOINTS.items()
        if parent is not None
    ]
    tips = {"head": FACE}
    for side, sign in (("L", 1), ("R", -1)):
        tips[f"wrist.{side}"] = (0.40 * sign, 0.08, 0.335)
        tips[f"ankle.{side}"] = (0.27 * sign, 0.05, -0.12)
    return (*ends, *(Bone(name, places[name], np.array(tip)) for name, tip in tips.items()))
