"""A gorilla of sixteen joints: the fourth example of Xu and Barbič 2016, §9."""

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
from supple.scenes.characters.character_scene import Bone, Contact, Handle, PaperRow, Scene
from supple.scenes.characters.gorilla_shape import BOUNDS, JOINTS, gorilla_parts, gorilla_solid
from supple.scenes.modelling.keyframes import Timeline
from supple.scenes.modelling.puppet import Puppet, Turns
from supple.scenes.modelling.sculpting import SkinRelaxer, bell, bulged, parted, ramp, untangled
from supple.scenes.modelling.skin_weights import part_weights, strongest
from supple.scenes.modelling.solids import polygonise, relaxed

# Poses, and a dance: leap, chest beat, turn, roar


#: With three rotations for each joint and these four that move as well: 60 numbers. (The paper
#: moved and turned ten of its joints, which is as many.)
TRANSLATING = ("pelvis", "chest", "shoulder.L", "shoulder.R")
#: Degrees about x, y and z for each joint, of the left side for both; metres for "+name".
POSES: dict[str, Turns] = {
    "on knuckles": {},
    "chest beat": {
        "pelvis": (-42, 0, 0),
        "+pelvis": (0, -0.048, -0.01),
        "spine": (-8, 0, 0),
        "head": (22, 0, 0),
        "hip": (37, 5, -2.6),
        "knee": (10.6, -3.6, 3.9),
        "ankle": (-5.6, 0, 1),
        "shoulder": (8, -21.6, 31.5),
        "elbow": (-118, -30, -3.3),
        "wrist": (-20, 0, 0),
    },
    "crouch": {
        "pelvis": (-14, 0, 0),
        "+pelvis": (0, -0.186, 0.041),
        "spine": (16, 0, 0),
        "chest": (10, 0, 0),
        "head": (-14, 0, 0),
        "hip": (-26.6, 4.5, 3.6),
        "knee": (39.2, -1.6, -1.6),
        "ankle": (1.4, -3.5, 0),
        "shoulder": (-28.5, 14, 26),
        "elbow": (14.4, -9, -47),
        "wrist": (4, 1.4, 19),
    },
    "roar": {
        "pelvis": (-48, 0, 0),
        "+pelvis": (0, -0.046, 0.01),
        "spine": (-10, 0, 0),
        "head": (8, 0, 0),
        "hip": (43.7, 7, -1),
        "knee": (8.8, -5, 4),
        "ankle": (-4.6, -1, 0),
        "shoulder": (-50, 0, 75),
        "elbow": (-45, 0, 20),
    },
}


#: In the air: stretched, arms reaching forward.
LEAP: Turns = {
    "pelvis": (-18, 0, 0),
    "head": (-12, 0, 0),
    "hip": (40, 0, 0),
    "knee": (-25, 0, 0),
    "ankle": (30, 0, 0),
    "shoulder": (-62, 0, 12),
    "elbow": (-20, 0, 0),
    "wrist": (-15, 0, 0),
}


PUPPET = Puppet(JOINTS, TRANSLATING)


def gorilla_motion() -> Motion:
    """Return a motion of 7.5 s: a leap, a drumming chest, half a turn with a hop, a roar."""
    line = Timeline(7.5)
    knuckles, beat, crouch, roar = (PUPPET.pose(turns) for turns in POSES.values())
    leap = PUPPET.pose(LEAP)
    poses = line.curve(
        [
            (0.0, knuckles),
            (0.3, knuckles),
            (0.75, 0.9 * crouch),
            (1.15, leap),
            (1.6, crouch),
            (2.2, 0.85 * beat),
            (2.5, beat),
            (3.0, beat),
            (3.5, beat),
            (3.9, beat),
            (4.3, 0.55 * beat + 0.25 * crouch),
            (4.7, 0.6 * beat + 0.3 * roar),
            (5.2, roar),
            (5.6, roar),
            (6.3, 0.5 * crouch),
            (6.9, knuckles),
        ]
    )
    _enliven(poses, line)
    return Motion(line.times, poses, _roots(line), "dance")


def _enliven(poses: Floats, line: Timeline) -> None:
    """Add fists that drum by turns, and a head shaken while roaring."""
    places = PUPPET.places
    drum = line.wave(2.0, 2.3, 4.1)
    for side, sign in (("L", 1.0), ("R", -1.0)):
        away = ramp(sign * drum, 0.0, 1.0)
        poses[:, places[f"elbow.{side}.rx"]] += np.radians(36) * away
        poses[:, places[f"shoulder.{side}.rx"]] -= np.radians(8) * away
    shake = line.wave(2.2, 5.0, 6.0)
    poses[:, places["head.ry"]] += np.radians(14) * shake
    poses[:, places["chest.ry"]] += np.radians(6) * drum


def _roots(line: Timeline) -> Floats:
    return line.roots(
        places=[
            (0.0, (0, 0, 0)),
            (0.3, (0, 0, 0)),
            (0.75, (0, 0, 0)),
            (1.15, (0, 0.32, 0.5)),
            (1.6, (0, 0, 1.0)),
            (2.0, (0, 0, 1.02)),
            (3.0, (0, 0, 1.02)),
            (3.9, (0, 0, 1.02)),
            (4.25, (0, 0, 1.02)),
            (4.55, (0.05, 0.16, 1.0)),
            (4.85, (0.1, 0, 0.95)),
            (5.5, (0.1, 0, 0.95)),
            (6.5, (0.1, 0, 0.95)),
        ],
        headings=[
            (0.0, 0),
            (0.9, 0),
            (1.6, -12),
            (2.4, 0),
            (3.2, 0),
            (3.8, 0),
            (4.2, 5),
            (4.85, 125),
            (5.4, 130),
        ],
    )


Place = tuple[float, float, float]
PAPER = PaperRow(3771, 16297, 15774, 100, 6, 4, 2, 144, 119, 1.33, 7.9, 125)
SPACING = 0.02068
FACE = (0.0, 1.20, 0.45)


def sculpt() -> dict[str, NDArray]:
    """Sculpt the surface, skinning weights and corrections."""
    solid = gorilla_solid()
    surface = relaxed(polygonise(solid, BOUNDS, SPACING), solid)
    weights = part_weights(surface, list(gorilla_parts().values()), 0.055)
    joints, kept = strongest(weights, 4)
    arrays = {"vertices": surface.vertices, "triangles": surface.triangles}
    arrays |= {"joints": joints, "weights": kept}
    relaxer = SkinRelaxer(surface, rounds=16)
    rig = _skinned(arrays)
    shapes = [
        _sculpted(rig, surface, relaxer, name) - rig(PUPPET.pose(turns))
        for name, turns in POSES.items()
    ]
    return arrays | {"corrections": np.array(shapes)}


def _skinned(arrays: dict[str, NDArray]) -> SkinnedRig:
    return PUPPET.skinned(arrays["vertices"], arrays["joints"], arrays["weights"])


def _sculpted(rig: SkinnedRig, surface: SurfaceMesh, relaxer: SkinRelaxer, name: str) -> Floats:
    """Return the gorilla as a sculptor would leave it in this pose."""
    if name == "on knuckles":
        return surface.vertices
    rest, triangles = surface.vertices, surface.triangles
    points = relaxer(rig(PUPPET.pose(POSES[name])))
    points = bulged(points, triangles, MUSCLES[name](rest))
    weights = rig.weight_matrix().toarray()
    joints = list(JOINTS)
    for own, other in TOUCHING.get(name, ()):
        sides = [[joints.index(joint) for joint in side] for side in (own, other)]
        first, second = (weights[:, side].sum(axis=1) > 0.9 for side in sides)
        points = parted(points, triangles, (first, second), relaxer, gap=0.006, deepest=0.10)
    return untangled(points, surface, relaxer, gap=0.003)


def _both(rest: Floats, centre: Place, radii: Place) -> Floats:
    mirrored = (-centre[0], centre[1], centre[2])
    return bell(rest, centre, radii) + bell(rest, mirrored, radii)


MUSCLES = {
    # Biceps and breast swell, the belly is drawn in.
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


TOUCHING = {
    "chest beat": (
        (("wrist.L", "elbow.L"), ("chest", "spine")),
        (("wrist.R", "elbow.R"), ("chest", "spine")),
    ),
    "crouch": (
        (("hip.L", "knee.L"), ("spine", "chest")),
        (("hip.R", "knee.R"), ("spine", "chest")),
    ),
}


def assemble(arrays: dict[str, NDArray]) -> Scene:
    """Assemble the scene of the sculpted arrays."""
    surface = SurfaceMesh(arrays["vertices"], arrays["triangles"])
    skinned, motion = _skinned(arrays), gorilla_motion()
    poses = np.array([PUPPET.pose(turns) for turns in POSES.values()])
    rig = PoseSpaceDeformation(skinned, poses, arrays["corrections"], names=list(POSES))
    places = {name: np.array(place) for name, (_, place) in JOINTS.items()}
    handles = _handles(places)
    return Scene(
        character=Character("gorilla", surface, rig, {motion.name: motion}),
        tets=16_297,
        poses=poses,
        pose_names=tuple(POSES),
        handles=handles,
        bones=_bones(places),
        parts=skinned.weight_matrix().toarray().argmax(axis=1),
        part_names=tuple(JOINTS),
        contacts=(
            Contact("chest beat", "wrist.L", "chest"),
            Contact("crouch", "hip.L", "spine"),
        ),
        paper=PAPER,
        material=Material("stvk", young=2e4, poisson=0.45),
        modes=tuple(10 if handle.name.startswith("leg") else 20 for handle in handles),
    )


def _bones(places: dict[str, Floats]) -> tuple[Bone, ...]:
    """Return bones from every joint's parent to the joint, and on into head, hands and feet."""
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


def _handles(places: dict[str, Floats]) -> tuple[Handle, ...]:
    """Return a segment through each of the six regions."""
    regions = {
        "head": ("head", "face"),
        "body": ("pelvis", "chest"),
        "arm.L": ("shoulder.L", "wrist.L"),
        "arm.R": ("shoulder.R", "wrist.R"),
        "leg.L": ("hip.L", "ankle.L"),
        "leg.R": ("hip.R", "ankle.R"),
    }
    ends = places | {"face": np.array(FACE)}
    return tuple(
        Handle(name, np.array([ends[first], ends[last]])) for name, (first, last) in regions.items()
    )
