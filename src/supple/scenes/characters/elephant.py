"""An elephant that walks, its trunk and belly free: the first example of Hahn et al. 2013, §5.

An African elephant: it stands facing +z, its back 2 m above the ground; its trunk reaches the
ground.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from supple.arrays import Floats
from supple.elastic.material import Material
from supple.mesh.surface import SurfaceMesh
from supple.rig.character import Character
from supple.rig.deformers.blend_shapes import BlendShapeRig
from supple.rig.deformers.chain import RigChain
from supple.rig.deformers.wire import Wire
from supple.rig.motion.motion import Motion
from supple.scenes.characters.character_scene import PaperRow, Scene, joint_bones, segment_handles
from supple.scenes.modelling.keyframes import Timeline
from supple.scenes.modelling.scene_data import (
    joint_table,
    limb_solids,
    limb_unions,
    scene_data,
    solids_from,
)
from supple.scenes.modelling.sculpting import painted, points_along, ramp
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

DATA = scene_data("elephant")
JOINTS = joint_table(DATA)
MIDDLE = ("pelvis", "spine", "chest", "tail", "tail tip")
FORE, HIND = ("shoulder", "elbow", "wrist"), ("hip", "knee", "ankle")
#: Points of the trunk from the head to the tip, with radii.
TRUNK: list[tuple[tuple[float, float, float], float]] = DATA["trunk"]
_SKULL = solids_from(DATA["solids"]["skull"])
_PROBOSCIS = [tapered_limb(a, b, first, last) for (a, first), (b, last) in pairwise(TRUNK)]
PAPER = PaperRow(tet_vertices=2089, tets=None, surface_vertices=761)
VERTICES, SPACING = PAPER.tet_vertices, 0.035
PUPPET = Puppet(JOINTS, ("pelvis",))

#: Control points of the trunk's wire. The first is fixed, the second moves sideways only: 13
#: parameters.
CONTROLS = 6
#: Free places of the belly: positions along it, and angles around it in degrees from below.
ALONG, AROUND = (-0.58, -0.28, 0.02, 0.32), {"left": 68.0, "low": 0.0, "right": -68.0}
#: A place moves out, around the body and along it: 36 parameters; metres at weight 1.
DIRECTIONS, FAR, WIDE = ("out", "round", "along"), 0.12, 0.52
FREE = {"trunk": ("trunk.1.tx", f"trunk.[2-{CONTROLS - 1}].t?"), "belly": ("belly.*",)}
#: Young's modulus of flesh and of the muscular trunk, in Pa.
FLESH, MUSCLE = 3e4, 1.1e6


#: Degrees about x, y and z for each joint, of the left side for both; metres for "+name".
POSES: dict[str, Rotations] = DATA["poses"]


def elephant_solid() -> Solid:
    """Return the whole body, standing on flat feet."""
    parts = elephant_parts()
    trunk = smooth_union(_PROBOSCIS, 0.05)
    legs = limb_unions(parts, (FORE, HIND), 0.06)
    middle = [solid for joint in MIDDLE[:3] for solid in parts[joint]]
    body = smooth_union([smooth_union(middle, 0.16), *legs], 0.10)
    head = smooth_union([smooth_union(_SKULL, 0.06), trunk], 0.05)
    tail = smooth_union(parts["tail"] + parts["tail tip"], 0.03)
    skin = smooth_union([body, head, tail], 0.06)
    small = [smooth_union(_ear(sign), 0.05) for sign in (1.0, -1.0)]
    small += [smooth_union(_tusk(sign), 0.02) for sign in (1.0, -1.0)]
    small += [solid for sign in (1.0, -1.0) for solid in _nails(sign)]
    small += [ball((0.285 * sign, 1.66, 1.385), 0.050) for sign in (1.0, -1.0)]  # eyes
    skin = smooth_union([skin, *small], 0.03)
    return smooth_subtraction(skin, lambda points: 0.0 - points[:, 1], 0.02)


def elephant_parts() -> dict[str, list[Solid]]:
    """Return solids of each joint, in the order of `JOINTS`."""
    parts = {name: solids_from(DATA["solids"][name]) for name in MIDDLE}
    parts |= limb_solids(DATA, (*FORE, *HIND))
    parts |= {"ear.L": _ear(1.0), "ear.R": _ear(-1.0)}
    parts["head"] = [*_SKULL, *_PROBOSCIS, *_tusk(1.0), *_tusk(-1.0)]
    return {name: parts[name] for name in JOINTS}


def _tusk(sign: float) -> list[Solid]:
    return solids_from(DATA["solids"]["tusk"], sign)


def trunk_and_rest() -> tuple[list[Solid], list[Solid]]:
    """Return solids that the trunk's wire moves, and all other solids."""
    parts = elephant_parts()
    others = [solid for joint in JOINTS if joint != "head" for solid in parts[joint]]
    head = [*_SKULL, *_tusk(1.0), *_tusk(-1.0), *_PROBOSCIS[:1]]
    return _PROBOSCIS[1:], [*head, *others]


def _ear(sign: float) -> list[Solid]:
    """Return an ear: broad above, a lobe below, thin, spread outwards and a little back."""
    out = np.array([0.86 * sign, 0.0, -0.51])
    axes = np.stack([out, [0.0, 1.0, 0.0], np.cross(out, [0.0, 1.0, 0.0])])
    root = np.array([0.30 * sign, 1.66, 1.00])

    def flat(along: float, up: float, wide: float, high: float, thick: float) -> Solid:
        return ellipsoid(root + along * out + [0.0, up, 0.0], (wide, high, thick), axes)

    return [
        flat(0.40, 0.10, 0.44, 0.42, 0.074),
        flat(0.55, 0.14, 0.38, 0.34, 0.070),
        flat(0.34, -0.26, 0.28, 0.40, 0.070),
        flat(0.12, 0.02, 0.20, 0.34, 0.085),  # the attachment
    ]


def _nails(sign: float) -> list[Solid]:
    """Return toenails of both feet of a side."""
    nails = []
    for x, z, radius in ((0.36, 0.51, 0.21), (0.35, -0.77, 0.20)):
        for degrees in (-48, 0, 48):
            angle = np.radians(degrees)
            centre = (sign * x + radius * np.sin(angle), 0.06, z + radius * np.cos(angle))
            nails.append(ellipsoid(centre, (0.050, 0.060, 0.050)))
    return nails


COLOURS = DATA["colours"]


def elephant_colours(points: Floats) -> Floats:
    """Return sRGB colours (n, 3) of points on the skin: ivory tusks, pale nails, dark eyes."""
    colours = np.tile(COLOURS["grey"], (len(points), 1))
    for sign in (1.0, -1.0):
        ear = smooth_union(_ear(sign), 0.05)(points) > -0.03
        colours[ear & (np.abs(points[:, 0]) > 0.40)] = COLOURS["pink"]
        tusk = smooth_union(_tusk(sign), 0.02)(points) > -0.02
        beyond = points[:, 2] > 1.46
        colours[tusk & beyond & (np.abs(points[:, 0]) > 0.17)] = COLOURS["ivory"]
        for nail in _nails(sign):
            colours[nail(points) > -0.010] = COLOURS["nail"]
        colours[ball((0.300 * sign, 1.66, 1.40), 0.045)(points) > -0.012] = COLOURS["eye"]
    return colours


def sculpt() -> dict[str, NDArray]:
    """Return surface, skinning weights, trunk's influence and belly's shapes, as named arrays."""
    solid = elephant_solid()
    fine = relaxed(polygonise(solid, DATA["bounds"], SPACING), solid, 4)
    surface = coarsened(fine, solid, VERTICES)
    weights = part_weights(surface, list(elephant_parts().values()), 0.13)
    joints, joint_weights = strongest(weights, 4)
    influence = part_weights(surface, trunk_and_rest(), 0.14)[:, 0]
    soft = weights[:, [list(JOINTS).index(joint) for joint in ("spine", "chest", "pelvis")]]
    return {
        "vertices": surface.vertices,
        "triangles": surface.triangles,
        "joints": joints,
        "weights": joint_weights,
        "influence": ramp(influence, 0.02, 0.98),
        "belly": _belly_shapes(surface.vertices, ramp(soft.sum(axis=1), 0.3, 1.0)),
    }


def _belly_shapes(points: Floats, soft: Floats) -> Floats:
    """Return displacements (36, n, 3) of the belly's skin; the legs do not move."""
    shapes = []
    for along in ALONG:
        for degrees in AROUND.values():
            angle = np.radians(degrees)
            out = np.array([np.sin(angle), -np.cos(angle), 0.0])
            centre = np.array([0.0, 1.15, along]) + 0.56 * out
            distances = np.linalg.norm(points - centre, axis=1) / WIDE
            bump = FAR * soft * np.maximum(1 - distances**2, 0.0) ** 2
            across = np.array([np.cos(angle), np.sin(angle), 0.0])
            directions = (out, across, np.array([0.0, 0.0, 1.0]))
            shapes += [bump[:, None] * direction for direction in directions]
    return np.array(shapes)


def _rig(arrays: dict[str, NDArray]) -> RigChain:
    """Return the trunk's wire, followed by the belly's shapes and the skeleton."""
    vertices = arrays["vertices"]
    wire = Wire(
        vertices,
        points_along([place for place, _ in TRUNK], CONTROLS),
        influence=arrays["influence"],
        name="trunk",
    )
    skinned = PUPPET.skinned(vertices, arrays["joints"], arrays["weights"])
    names = [
        f"belly.{place}{row + 1}.{direction}"
        for row in range(len(ALONG))
        for place in AROUND
        for direction in DIRECTIONS
    ]
    return RigChain(wire, BlendShapeRig(skinned, arrays["belly"], names))


def assemble(arrays: dict[str, NDArray]) -> Scene:
    """Assemble the scene from the sculpted arrays."""
    surface = SurfaceMesh(arrays["vertices"], arrays["triangles"])
    rig = _rig(arrays)
    poses = np.array([_posed(PUPPET.pose(rotations)) for rotations in POSES.values()])
    motions = {motion.name: motion for motion in (_walk(), _toss(), _nod())}
    weights = np.zeros((len(surface.vertices), len(JOINTS)))
    np.put_along_axis(weights, arrays["joints"], arrays["weights"], axis=1)
    return Scene(
        character=Character(
            "elephant", surface, rig, motions, appearance=painted(surface, elephant_colours)
        ),
        tets=8_000,
        poses=poses,
        pose_names=tuple(POSES),
        handles=segment_handles(JOINTS, DATA["regions"]),
        bones=joint_bones(JOINTS, (0.0, 1.80, 1.16), without=("ear", "tail")),
        parts=weights.argmax(axis=1),
        part_names=tuple(JOINTS),
        contacts=(),
        paper=PAPER,
        material=Material("neo-hookean", young=FLESH, poisson=0.45),
        modes=(15, 20, 10, 10, 10, 10),
        young=FLESH * (MUSCLE / FLESH) ** arrays["influence"],
        free=FREE,
        bounds={"belly.*": (-1.0, 1.0), "trunk.*": (-0.9, 0.9)},
    )


def _posed(joints: Floats) -> Floats:
    """Return poses of the whole rig, with the given joints, and wire and shapes at rest."""
    before, after = 3 * CONTROLS, len(ALONG) * len(AROUND) * len(DIRECTIONS)
    return np.pad(joints, [*[(0, 0)] * (joints.ndim - 1), (before, after)])


#: Duration of a stride in s, and its length in m.
STRIDE, METRES = 1.2, 0.95
#: Phase of each leg as a fraction of a stride: hind and fore of one side, then of the other.
PHASES = {"hip.L": 0.0, "shoulder.L": 0.25, "hip.R": 0.5, "shoulder.R": 0.75}


def _walk() -> Motion:
    """Return a loop of three strides in 3.6 s."""
    times = np.arange(round(3 * STRIDE * 100) + 1) / 100
    phase = 2 * np.pi * times / STRIDE
    poses, places = np.zeros((len(times), len(PUPPET.places))), PUPPET.places

    def rotate(name: str, degrees: Floats) -> None:
        poses[:, places[name]] += np.radians(degrees)

    for leg, part in PHASES.items():
        along = phase - 2 * np.pi * part
        joint, side = leg.split(".")
        lower, foot = ("elbow", "wrist") if joint == "shoulder" else ("knee", "ankle")
        rotate(f"{leg}.rx", -17 * np.sin(along) + (3 if joint == "hip" else 0))
        lifted = 0.5 * (1 + np.cos(along)) ** 2 / 2
        rotate(f"{lower}.{side}.rx", 24 * lifted)
        rotate(f"{foot}.{side}.rx", 17 * np.sin(along) - 12 * lifted)
    rotate("pelvis.rz", 2.5 * np.sin(phase))
    rotate("spine.ry", 3.0 * np.sin(phase))
    rotate("chest.rz", -3.0 * np.sin(phase + 0.6))
    rotate("chest.rx", 1.5 * np.sin(2 * phase))
    rotate("head.rx", 5.0 * np.sin(2 * phase + 0.8))
    rotate("head.ry", 6.0 * np.sin(phase + 0.5))
    rotate("tail.rz", 14 * np.sin(phase))
    rotate("tail tip.rz", 12 * np.sin(phase - 0.8))
    for side, sign in (("L", 1.0), ("R", -1.0)):
        rotate(f"ear.{side}.ry", sign * (9 * np.sin(2 * phase - 0.5) + 6 * np.sin(phase)))
    poses[:, places["pelvis.ty"]] += -0.035 + 0.018 * np.sin(2 * phase)
    poses[:, places["pelvis.tx"]] += 0.02 * np.sin(phase)
    roots = np.tile(np.eye(4), (len(times), 1, 1))
    roots[:, 2, 3] = METRES * times / STRIDE
    return Motion(times, _posed(poses), roots, "walk")


def _toss() -> Motion:
    """Return a motion of 4 s: the head swings for 3 s and then stays still."""
    line = Timeline(4.0, rate=100)
    poses = np.zeros((len(line.times), len(PUPPET.places)))
    for name, degrees, hertz in (
        ("head.ry", 27.0, 1.25),
        ("head.rx", 18.0, 1.6),
        ("head.rz", 10.0, 0.9),
        ("chest.ry", 9.0, 1.25),
        ("chest.rx", 5.0, 1.6),
    ):
        poses[:, PUPPET.places[name]] = np.radians(degrees) * line.wave(hertz, 0.1, 2.6)
    for side, sign in (("L", 1.0), ("R", -1.0)):
        flap = np.radians(sign * 6) * line.wave(1.6, 0.2, 2.7)
        # Ears lag behind the head, so that they stay clear of the shoulders.
        drag = 0.3 * poses[:, PUPPET.places["head.ry"]]
        poses[:, PUPPET.places[f"ear.{side}.ry"]] = flap - drag
    return Motion(line.times, _posed(poses), None, "toss")


def _nod() -> Motion:
    """Return a motion of 4 s: the head looks around slowly."""
    line = Timeline(4.0, rate=100)
    looks = [
        (0.0, PUPPET.pose({})),
        (0.8, PUPPET.pose({"head": (3, 14, 0), "chest": (0, 4, 0), "ear": (0, -6, 0)})),
        (1.7, PUPPET.pose({"head": (-8, -12, 0), "chest": (-2, -3, 0), "ear": (0, 10, 0)})),
        (2.5, PUPPET.pose({"head": (7, 0, 0), "chest": (2, 0, 0)})),
        (3.2, PUPPET.pose({})),
    ]
    return Motion(line.times, _posed(line.curve(looks)), None, "nod")
