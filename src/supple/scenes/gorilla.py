"""A gorilla of sixteen joints: the fourth example of Xu and Barbič 2016, §9."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from supple.elastic.material import Material
from supple.mesh.surface import SurfaceMesh
from supple.rig import SkinnedRig
from supple.rig.character import Character
from supple.rig.pose_space import PoseSpaceDeformation
from supple.scenes.character_scene import Bone, Contact, Handle, PaperRow, Scene
from supple.scenes.gorilla_motion import POSES, flat_pose, gorilla_motion, joint_pose
from supple.scenes.gorilla_shape import BOUNDS, JOINTS, gorilla_parts, gorilla_solid
from supple.scenes.modelling import polygonise, relaxed
from supple.scenes.sculpting import SkinRelaxer, bell, bulged, parted, untangled
from supple.scenes.skin import part_weights, rest_skeleton_arrays, strongest

__all__ = ["assemble", "sculpt"]

Floats = NDArray[np.float64]
Place = tuple[float, float, float]

PAPER = PaperRow(3771, 16297, 15774, 100, 6, 4, 2, 144, 119, 1.33, 7.9, 125)
SPACING = 0.02068
FACE = (0.0, 1.20, 0.45)


def sculpt() -> dict[str, NDArray]:
    """Surface, skinning weights and corrections."""
    solid = gorilla_solid()
    surface = relaxed(polygonise(solid, BOUNDS, SPACING), solid)
    weights = part_weights(surface, list(gorilla_parts().values()), 0.055)
    joints, kept = strongest(weights, 4)
    arrays = {"vertices": surface.vertices, "triangles": surface.triangles}
    arrays |= {"joints": joints, "weights": kept}
    relaxer = SkinRelaxer(surface, rounds=16)
    rig = _skinned(arrays)
    shapes = [
        _sculpted(rig, surface, relaxer, name) - rig(flat_pose(turns))
        for name, turns in POSES.items()
    ]
    return arrays | {"corrections": np.array(shapes)}


def _skinned(arrays: dict[str, NDArray]) -> SkinnedRig:
    bound = (arrays["vertices"], arrays["joints"], arrays["weights"])
    return SkinnedRig(joint_pose(), *bound, rest_skeleton_arrays(JOINTS)[3])


def _sculpted(rig: SkinnedRig, surface: SurfaceMesh, relaxer: SkinRelaxer, name: str) -> Floats:
    """The gorilla as a sculptor would leave it in this pose."""
    if name == "on knuckles":
        return surface.vertices
    rest, triangles = surface.vertices, surface.triangles
    points = relaxer(rig(flat_pose(POSES[name])))
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
    """The scene of the sculpted arrays."""
    surface = SurfaceMesh(arrays["vertices"], arrays["triangles"])
    skinned, motion = _skinned(arrays), gorilla_motion()
    poses = np.array([flat_pose(turns) for turns in POSES.values()])
    rig = PoseSpaceDeformation(skinned, poses, arrays["corrections"], names=list(POSES))
    places = {name: np.array(place) for name, (_, place) in JOINTS.items()}
    handles = _handles(places)
    return Scene(
        character=Character("gorilla", surface, rig, {motion.name: motion}),
        tets=PAPER.tets,
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
    """From every joint's parent to the joint, and on into head, hands and feet."""
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
    """A segment through each of the six regions."""
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
