"""A muscular human arm on a piece of the body: the first example of Xu and Barbič 2016, §9.

A left arm held out along +x, palm and biceps up, the body facing +z; the shoulder joint is the
origin.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.arrays import Floats
from supple.elastic.material import Material
from supple.mesh.surface import SurfaceMesh
from supple.rig.character import Character
from supple.rig.deformers.pose_space_deformation import PoseSpaceDeformation
from supple.rig.motion.motion import Motion
from supple.rig.skeleton.inverse_kinematics import InverseKinematics
from supple.rig.skeleton.joint_pose import JointPose, PartialJointPose
from supple.rig.skeleton.joints import Skeleton
from supple.rig.skeleton.skinning import SkinnedRig
from supple.scenes.characters.character_scene import Bone, Contact, Handle, PaperRow, Scene
from supple.scenes.modelling.keyframes import Timeline
from supple.scenes.modelling.scene_data import joint_table, scene_data, solids_from
from supple.scenes.modelling.sculpting import (
    SkinRelaxer,
    bell,
    bulged,
    folded,
    parted,
    ramp,
    untangled,
)
from supple.scenes.modelling.skinning import part_weights, rest_skeleton_arrays, strongest
from supple.scenes.modelling.solids import Solid, polygonise, relaxed, smooth_union, tapered_limb

DATA = scene_data("arm")
BOUNDS, JOINTS = DATA["bounds"], joint_table(DATA)
PARTS = tuple(JOINTS)
GIRDLE, ELBOW, HAND = JOINTS["girdle"][1], JOINTS["forearm"][1], (0.62, 0.0, 0.0)


def arm_solid() -> Solid:
    """Return the whole arm, with the part of the body to which it is attached."""
    parts = arm_parts()
    hand = smooth_union(_hand(), 0.011)
    flesh = [smooth_union(parts[name], 0.030) for name in PARTS]
    return smooth_union([*flesh, hand], 0.022)


def arm_parts() -> dict[str, list[Solid]]:
    """Return solids of each part, in the order of `PARTS`; the hand belongs to the forearm."""
    parts = {name: solids_from(DATA["solids"][name]) for name in PARTS}
    parts["forearm"] += _hand()
    return parts


def _hand() -> list[Solid]:
    solids = solids_from(DATA["solids"]["hand"])
    lengths = (0.050, 0.057, 0.053, 0.042)
    for finger, length in enumerate(lengths):  # from the index finger to the little one
        z = -0.040 + 0.0265 * finger
        solids += _finger(np.array([0.650, 0.0, z]), length, -9 + 6.0 * finger, 0.0125)
    return solids + solids_from(DATA["solids"]["thumb"])


def _finger(root: np.ndarray, length: float, spread: float, radius: float) -> list[Solid]:
    """Return a finger of three bones, each curled a little more towards the palm."""
    solids: list[Solid] = []
    start = root
    for bone, (part, curl) in enumerate(((1.0, 8.0), (0.62, 28.0), (0.5, 46.0))):
        heading, lift = np.radians([spread, curl])
        along = np.array(
            [np.cos(lift) * np.cos(heading), np.sin(lift), np.cos(lift) * np.sin(heading)]
        )
        end = start + part * length * along
        solids.append(
            tapered_limb(start, end, radius - 0.0006 * bone, radius - 0.0006 * (bone + 1))
        )
        start = end
    return solids


PAPER = PaperRow(2364, 8122, 10525, 45, 3, 10, 9, 192, 45, 0.87, 11.0, 60)
SPACING = 0.00806
#: Three rotations of the shoulder and one of the elbow.
FREE = ("upper arm.rx", "upper arm.ry", "upper arm.rz", "forearm.rz")
#: Degrees: twist of the shoulder, backward, upward; bend of the elbow.
POSES: dict[str, tuple[float, float, float, float]] = DATA["poses"]
#: Young's modulus of the girdle, of relaxed muscles and of the sinewy hand, in Pa.
GIRDLE_YOUNG, LIMB_YOUNG, HAND_YOUNG = 2e4, 6e3, 1.6e5
#: Factors by which muscles stiffen when they bend the elbow.
BICEPS_STIFFER, FOREARM_STIFFER = 6.0, 2.0
#: Frames between two solutions of inverse kinematics; splines interpolate them.
KEYED = 6


def sculpt() -> dict[str, NDArray]:
    """Return the sculpted surface, skinning weights and corrections, as named arrays."""
    solid = arm_solid()
    surface = relaxed(polygonise(solid, BOUNDS, SPACING), solid)
    # The elbow bends sharply, the shoulder's flesh follows from farther away.
    length = 0.028 + 0.030 * ramp(-surface.vertices[:, 0], -0.20, -0.05)
    weights = part_weights(surface, [arm_parts()[name] for name in PARTS], length)
    joints, joint_weights = strongest(weights, 3)
    arrays = {"vertices": surface.vertices, "triangles": surface.triangles}
    arrays |= {"joints": joints, "weights": joint_weights}
    relaxer = SkinRelaxer(surface, rounds=10)
    rig = _skinned(arrays)
    shapes = [_sculpted(rig, surface, relaxer, pose) - rig(pose) for pose in _poses()]
    return arrays | {"corrections": np.array(shapes)}


def _poses() -> Floats:
    return np.radians(np.array(list(POSES.values()), dtype=np.float64))


def _skinned(arrays: dict[str, NDArray]) -> SkinnedRig:
    names, parents, local, inverse = rest_skeleton_arrays(JOINTS)
    pose = PartialJointPose(Skeleton(names, parents, local), FREE)
    bound = (arrays["vertices"], arrays["joints"], arrays["weights"], inverse)
    return SkinnedRig(pose, *bound, method="dual-quaternion")


def _sculpted(rig: SkinnedRig, surface: SurfaceMesh, relaxer: SkinRelaxer, pose: Floats) -> Floats:
    """Return the arm's vertices (n, 3) as sculpted in a pose."""
    if not pose.any():
        return surface.vertices
    rest, triangles, bend = surface.vertices, surface.triangles, pose[3]
    weights = rig.weight_matrix().toarray()
    points = relaxer(rig(pose))
    strength = np.sin(bend / 2) ** 2
    biceps = 0.020 * strength * bell(rest, (0.155, 0.07, 0.004), (0.042, 0.04, 0.045))
    triceps = -0.006 * strength * bell(rest, (0.15, -0.06, 0.0), (0.05, 0.03, 0.05))
    forearm = 0.008 * strength * bell(rest, (0.36, 0.02, -0.05), (0.04, 0.05, 0.04))
    points = bulged(points, triangles, biceps + triceps + forearm)
    points = _creased(rig, points, weights, pose)
    body = weights[:, 0] > 0.97
    limb = (weights[:, 0] < 0.03) & (rest[:, 0] > 0.05)
    points = parted(points, triangles, (limb, body), relaxer, gap=0.003, share=0.6)
    return untangled(points, surface, relaxer, gap=0.0012)


def _creased(rig: SkinnedRig, points: Floats, weights: Floats, pose: Floats) -> Floats:
    """Return points with the elbow's inner side pressed flat if it bends far."""
    if pose[3] < np.radians(60):
        return points
    frames = rig.joint_pose.matrices(pose)
    hinge = frames[2, :3, 3]
    towards = (-frames[1, :3, 0], frames[2, :3, 0])
    side = ramp(weights[:, 2], 0.0, 1.0) * 2 - 1
    points = folded(points, side, hinge, towards, gap=0.0025, softness=0.006)
    # The displaced flesh swells to the sides.
    across = (towards[1] - towards[0]) / np.linalg.norm(towards[1] - towards[0])
    inward = (towards[1] + towards[0]) / np.linalg.norm(towards[1] + towards[0])
    offset = points - hinge
    near = np.exp(-0.5 * (offset @ across / 0.03) ** 2) * ramp(offset @ inward, 0.0, 0.06)
    near *= ramp(0.16 - offset @ inward, 0.0, 0.08)
    swell = 0.16 * np.sin(pose[3] / 2) ** 4 * near * (offset @ frames[2, :3, 2])
    return points + swell[:, None] * frames[2, :3, 2]


def assemble(arrays: dict[str, NDArray]) -> Scene:
    """Assemble the scene from the sculpted arrays."""
    surface = SurfaceMesh(arrays["vertices"], arrays["triangles"])
    skinned, poses = _skinned(arrays), _poses()
    rig = PoseSpaceDeformation(skinned, poses, arrays["corrections"])
    motion = _motion()
    bones = [(GIRDLE, (0, 0, 0)), ((0, 0, 0), ELBOW), (ELBOW, HAND)]
    segments = [(np.asarray(a, float), np.asarray(b, float)) for a, b in bones]
    return Scene(
        character=Character("arm", surface, rig, {motion.name: motion}),
        tets=8_122,
        poses=poses,
        pose_names=tuple(POSES),
        # Handles end before the joints, so that no two regions share one.
        handles=tuple(
            Handle(name, np.array([0.8 * a + 0.2 * b, 0.2 * a + 0.8 * b]))
            for name, (a, b) in zip(PARTS, segments, strict=True)
        ),
        bones=tuple(Bone(name, *segment) for name, segment in zip(PARTS, segments, strict=True)),
        parts=skinned.weight_matrix().toarray().argmax(axis=1),
        part_names=PARTS,
        contacts=(Contact("flexed", "upper arm", "forearm"),),
        paper=PAPER,
        material=Material("stvk", young=GIRDLE_YOUNG, poisson=0.45),
        modes=(15, 15, 15),
        elastic_cubature=112,
        young=_painted_young(surface.vertices, poses),
    )


def _painted_young(rest: Floats, poses: Floats) -> Floats:
    """Return Young's modulus (m, n) in Pa by pose; muscles that bend the elbow stiffen."""
    contraction = np.sin(poses[:, 3:] / 2) ** 2
    limb, hand = ramp(rest[:, 0], 0.0, 0.12), ramp(rest[:, 0], 0.50, 0.60)
    biceps = bell(rest, (0.165, 0.06, 0.004), (0.065, 0.045, 0.05))
    forearm = bell(rest, (0.37, 0.02, -0.02), (0.05, 0.05, 0.06))
    relaxed_young = np.exp(
        np.log(GIRDLE_YOUNG) * (1 - limb)
        + np.log(LIMB_YOUNG) * (limb - hand)
        + np.log(HAND_YOUNG) * hand
    )
    stiffer = np.log(BICEPS_STIFFER) * biceps + np.log(FOREARM_STIFFER) * forearm
    return relaxed_young * np.exp(contraction * stiffer)


def _motion() -> Motion:
    """Return a motion of six seconds: a flex, a wave, a punch and an arm that comes down."""
    line = Timeline(6.0)
    pose = np.array(_joint_angles(line.curve(DATA["hand path"])[::KEYED]))
    poses = line.curve(list(zip(line.times[::KEYED], pose, strict=True)))
    return Motion(line.times, poses, line.roots(**DATA["root"]), "flex and wave")


def _joint_angles(hands: Floats) -> list[Floats]:
    """Return angles (4,) in radians that bring the hand to each place, solved in sequence."""
    names, parents, local, _ = rest_skeleton_arrays(JOINTS)
    joints = JointPose(Skeleton(names, parents, local))
    entries = [parameter.name for parameter in joints.parameters]
    free = [entries.index(name) for name in FREE]
    limits: dict[str | int, tuple[ArrayLike, ArrayLike]] = {
        "upper arm": (np.radians([-70.0, -95, -70]), np.radians([50.0, 40, 75])),
        "forearm": (np.zeros(3), np.radians([0.0, 0, 138])),
    }
    hand = np.subtract(HAND, ELBOW)
    chain = InverseKinematics(joints, "upper arm", "forearm", offset=hand, limits=limits)
    angles, pose = [], np.zeros(joints.n_parameters)
    for place in hands:
        pose = chain.solve(place, pose=pose).pose
        angles.append(pose[free])
    return angles
