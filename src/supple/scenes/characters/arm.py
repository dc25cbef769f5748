"""A muscular human arm on a piece of the body: the first example of Xu and Barbič 2016, §9."""

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
from supple.scenes.modelling.sculpting import (
    SkinRelaxer,
    bell,
    bulged,
    folded,
    parted,
    ramp,
    untangled,
)
from supple.scenes.modelling.skin_weights import part_weights, rest_skeleton_arrays, strongest
from supple.scenes.modelling.solids import (
    Solid,
    ball,
    box,
    ellipsoid,
    polygonise,
    relaxed,
    smooth_union,
    tapered_limb,
)

# Solids for the shoulder girdle, the upper arm and the forearm with its hand.
#
# A left arm held out along +x, palm and biceps up, the body facing +z; the shoulder joint is the
# origin.


BOUNDS = [(-0.32, -0.34, -0.22), (0.84, 0.26, 0.22)]
PARTS = ("girdle", "upper arm", "forearm")
ELBOW, WRIST, HAND = (0.29, 0.0, 0.0), (0.545, 0.0, 0.0), (0.62, 0.0, 0.0)


def arm_solid() -> Solid:
    """Return the whole arm, with the part of the body it hangs on."""
    parts = arm_parts()
    hand = smooth_union(_hand(), 0.011)
    flesh = [smooth_union(parts[name], 0.030) for name in PARTS]
    return smooth_union([*flesh, hand], 0.022)


def arm_parts() -> dict[str, list[Solid]]:
    """Return solids of each part, in the order of `PARTS`; the hand grows onto the forearm."""
    return {"girdle": _girdle(), "upper arm": _upper_arm(), "forearm": _forearm()}


def _girdle() -> list[Solid]:
    return [
        ellipsoid((-0.115, -0.090, -0.005), (0.085, 0.120, 0.090)),  # ribs
        ellipsoid((-0.075, -0.055, 0.058), (0.115, 0.070, 0.046), _rolled(24)),  # breast muscle
        ellipsoid((-0.085, -0.075, -0.060), (0.085, 0.095, 0.042), _rolled(-25)),  # shoulder blade
        tapered_limb((-0.150, 0.060, -0.012), (-0.03, 0.040, -0.005), 0.062, 0.056),  # trapezius
        ellipsoid((-0.160, 0.0, 0.0), (0.050, 0.110, 0.080)),
    ]


def _upper_arm() -> list[Solid]:
    return [
        ellipsoid((0.022, 0.010, 0.002), (0.090, 0.078, 0.082), _rolled(-10)),  # deltoid
        tapered_limb((0.0, 0.0, 0.0), ELBOW, 0.054, 0.040),
        ellipsoid((0.165, 0.036, 0.004), (0.092, 0.044, 0.046)),  # biceps
        ellipsoid((0.140, -0.030, -0.020), (0.108, 0.040, 0.040)),  # triceps, two heads
        ellipsoid((0.155, -0.030, 0.022), (0.095, 0.038, 0.038)),
    ]


def _forearm() -> list[Solid]:
    return [
        tapered_limb(ELBOW, (0.54, 0.001, 0.013), 0.038, 0.024),  # ulna
        tapered_limb((0.30, 0.004, -0.008), (0.54, 0.001, -0.013), 0.036, 0.024),  # radius
        ellipsoid((0.368, 0.014, -0.032), (0.088, 0.038, 0.036)),  # brachioradialis
        ellipsoid((0.380, 0.006, 0.030), (0.092, 0.040, 0.035)),  # flexors
        ellipsoid((0.380, -0.020, 0.0), (0.085, 0.033, 0.042)),  # extensors
        ball((0.284, -0.034, 0.004), 0.018),  # the point of the elbow
        *_hand(),
    ]


def _hand() -> list[Solid]:
    solids: list[Solid] = [
        tapered_limb((0.52, 0.0, 0.010), (0.575, 0.0, 0.014), 0.025, 0.021),
        tapered_limb((0.52, 0.0, -0.010), (0.575, 0.0, -0.014), 0.025, 0.021),
        box((0.606, 0.001, 0.001), (0.053, 0.019, 0.050), 0.017),  # the palm
        ellipsoid((0.584, 0.012, -0.030), (0.038, 0.021, 0.021)),  # ball of the thumb
        ellipsoid((0.590, 0.012, 0.032), (0.038, 0.016, 0.017)),
    ]
    lengths = (0.050, 0.057, 0.053, 0.042)
    for finger, length in enumerate(lengths):  # from the forefinger to the little one
        z = -0.040 + 0.0265 * finger
        solids += _finger(np.array([0.650, 0.0, z]), length, -9 + 6.0 * finger, 0.0125)
    solids += [
        tapered_limb((0.577, 0.008, -0.034), (0.618, 0.014, -0.076), 0.018, 0.0145),
        tapered_limb((0.618, 0.014, -0.076), (0.656, 0.026, -0.092), 0.0145, 0.0120),
    ]
    return solids


def _finger(root: np.ndarray, length: float, spread: float, radius: float) -> list[Solid]:
    """Return a finger: three bones, each curled a little more towards the palm."""
    solids: list[Solid] = []
    start = root
    for bone, (part, curl) in enumerate(((1.0, 8.0), (0.62, 28.0), (0.5, 46.0))):
        turn, lift = np.radians([spread, curl])
        along = np.array([np.cos(lift) * np.cos(turn), np.sin(lift), np.cos(lift) * np.sin(turn)])
        end = start + part * length * along
        solids.append(
            tapered_limb(start, end, radius - 0.0006 * bone, radius - 0.0006 * (bone + 1))
        )
        start = end
    return solids


def _rolled(degrees: float) -> np.ndarray:
    """Return axes turned about z: positive lifts the +x end."""
    c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    return np.array([[c, s, 0], [-s, c, 0], [0, 0, 1]])


PAPER = PaperRow(2364, 8122, 10525, 45, 3, 10, 9, 192, 45, 0.87, 11.0, 60)
SPACING = 0.00806
GIRDLE = (-0.10, -0.03, 0.0)
JOINTS: dict[str, tuple[str | None, tuple[float, float, float]]] = {
    "girdle": (None, GIRDLE),
    "upper arm": ("girdle", (0.0, 0.0, 0.0)),
    "forearm": ("upper arm", ELBOW),
}


#: Three rotations of the shoulder and one of the elbow.
FREE = ("upper arm.rx", "upper arm.ry", "upper arm.rz", "forearm.rz")
#: Degrees: twist of the shoulder, backward, upward; bend of the elbow.
POSES: dict[str, tuple[float, float, float, float]] = {
    "held out": (0, 0, 0, 0),
    "half bent": (0, 0, 0, 70),
    "flexed": (0, 0, 0, 136),
    "raised": (0, 0, 50, 15),
    "hanging": (-35, -15, -64, 12),
    "forward": (0, -70, 0, 20),
    "turned in": (-65, 0, 0, 40),
    "turned out": (45, 0, 10, 90),
    "on the hip": (-50, 10, -52, 85),
    "behind the head": (15, 20, 48, 122),
}


#: Young's modulus in Pa: of the girdle, of relaxed muscles in the limb, of the sinewy hand.
GIRDLE_YOUNG, LIMB_YOUNG, HAND_YOUNG = 2e4, 6e3, 1.6e5
#: How many times stiffer muscles are when they bend the elbow.
BICEPS_STIFFER, FOREARM_STIFFER = 6.0, 2.0
#: Seconds, and where the hand is led, metres in the rig's space.
HAND_PATH = [
    (0.0, (0.62, 0.0, 0.0)),
    (0.5, (0.58, 0.12, 0.06)),
    (1.0, (0.10, 0.22, 0.03)),
    (1.35, (0.34, 0.30, 0.02)),
    (1.7, (0.10, 0.215, 0.03)),
    (2.2, (0.42, 0.42, 0.05)),
    (2.5, (0.28, 0.50, 0.04)),
    (2.8, (0.45, 0.40, 0.05)),
    (3.1, (0.28, 0.50, 0.04)),
    (3.6, (0.35, 0.10, 0.45)),
    (4.1, (0.20, 0.02, 0.52)),
    (4.7, (0.48, -0.30, 0.15)),
    (5.2, (0.42, -0.38, 0.10)),
    (5.7, (0.60, -0.02, 0.05)),
    (6.0, (0.62, 0.0, 0.0)),
]


#: Inverse kinematics at every so many frames, smooth curves between.
KEYED = 6


def sculpt() -> dict[str, NDArray]:
    """Sculpt the surface, skinning weights and corrections."""
    solid = arm_solid()
    surface = relaxed(polygonise(solid, BOUNDS, SPACING), solid)
    # The elbow bends sharply, the shoulder's flesh follows from farther away.
    length = 0.028 + 0.030 * ramp(-surface.vertices[:, 0], -0.20, -0.05)
    weights = part_weights(surface, [arm_parts()[name] for name in PARTS], length)
    joints, kept = strongest(weights, 3)
    arrays = {"vertices": surface.vertices, "triangles": surface.triangles}
    arrays |= {"joints": joints, "weights": kept}
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
    """Return the arm as a sculptor would leave it in this pose."""
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
    """Press the elbow's inner side flat when it bends far."""
    if pose[3] < np.radians(60):
        return points
    frames = rig.joint_pose.matrices(pose)
    hinge = frames[2, :3, 3]
    towards = (-frames[1, :3, 0], frames[2, :3, 0])
    side = ramp(weights[:, 2], 0.0, 1.0) * 2 - 1
    points = folded(points, side, hinge, towards, gap=0.0025, softness=0.006)
    # What is pressed away swells to the sides.
    across = (towards[1] - towards[0]) / np.linalg.norm(towards[1] - towards[0])
    inward = (towards[1] + towards[0]) / np.linalg.norm(towards[1] + towards[0])
    offset = points - hinge
    near = np.exp(-0.5 * (offset @ across / 0.03) ** 2) * ramp(offset @ inward, 0.0, 0.06)
    near *= ramp(0.16 - offset @ inward, 0.0, 0.08)
    swell = 0.16 * np.sin(pose[3] / 2) ** 4 * near * (offset @ frames[2, :3, 2])
    return points + swell[:, None] * frames[2, :3, 2]


def assemble(arrays: dict[str, NDArray]) -> Scene:
    """Assemble the scene of the sculpted arrays."""
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
        # Two regions must not want the same joint: their handles end before it.
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
    """Return Young's modulus (m, n) in each pose: muscles that bend the elbow stiffen then."""
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
    """Return a motion of six seconds: the hand is led to a flex, a wave, a punch and down."""
    line = Timeline(6.0)
    pose = np.array(_joint_angles(line.curve(HAND_PATH)[::KEYED]))
    poses = line.curve(list(zip(line.times[::KEYED], pose, strict=True)))
    roots = line.roots(
        places=[
            (0.0, (0, 0, 0)),
            (1.0, (0, 0.02, 0)),
            (3.3, (-0.02, 0, -0.06)),
            (3.8, (0, 0, 0.10)),
            (5.0, (0, -0.03, 0)),
            (5.8, (0, 0, 0)),
        ],
        headings=[(0.0, 0), (1.2, 12), (2.4, -10), (3.3, 35), (3.9, -48), (4.8, 12), (5.8, 0)],
    )
    return Motion(line.times, poses, roots, "flex and wave")


def _joint_angles(hands: Floats) -> list[Floats]:
    """Find angles that bring the hand to each place in turn, each sought from the one before."""
    names, parents, local, _ = rest_skeleton_arrays(JOINTS)
    whole = JointPose(Skeleton(names, parents, local))
    entries = [parameter.name for parameter in whole.parameters]
    free = [entries.index(name) for name in FREE]
    limits: dict[str | int, tuple[ArrayLike, ArrayLike]] = {
        "upper arm": (np.radians([-70.0, -95, -70]), np.radians([50.0, 40, 75])),
        "forearm": (np.zeros(3), np.radians([0.0, 0, 138])),
    }
    hand = np.subtract(HAND, ELBOW)
    chain = InverseKinematics(whole, "upper arm", "forearm", offset=hand, limits=limits)
    found, pose = [], np.zeros(whole.n_parameters)
    for place in hands:
        pose = chain.solve(place, pose=pose).pose
        found.append(pose[free])
    return found
