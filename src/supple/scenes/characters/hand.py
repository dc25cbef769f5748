"""A right hand in the layout of MANO: it grasps, pinches, points and waves (tapia2021, §5.1).

The hand is flat, palm down, as at the end of an arm along −x: fingers along −x, thumb towards
+z. The wrist's joint is the origin; the tip of the middle finger is 19 cm away.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from supple.arrays import Floats
from supple.elastic.material import Material
from supple.formats.smpl.load_body import body_character
from supple.mesh.surface import SurfaceMesh, vertex_normals
from supple.rig.motion.motion import Motion
from supple.scenes.characters.character_scene import Bone, PaperRow, Scene, segment_handles
from supple.scenes.modelling.keyframes import Timeline
from supple.scenes.modelling.lathe import bone_shape, ellipsoid_shape, joined
from supple.scenes.modelling.parametric import parametric_body, pose_vector
from supple.scenes.modelling.scene_data import scene_data
from supple.scenes.modelling.sculpting import bell, painted, ramp
from supple.scenes.modelling.skinning import part_weights
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

#: Size of the paper's skin and soft layer.
PAPER = PaperRow(tet_vertices=20214, tets=88716, surface_vertices=3106)
VERTICES, SPACING = 2600, 0.0021
#: Shape coefficients, in standard deviations.
SHAPES = ("size", "thick", "long fingers", "broad palm")
#: Centre and radius of the ball that the grasp closes around, in m.
GRASPED = (-0.095, -0.0515, 0.012), 0.035
DATA = scene_data("hand")
COLOURS = DATA["colours"]
#: Degrees by finger: bent at its three joints, and spread towards the thumb. The thumb: rotated
#: under the palm, swung towards the fingers, and bent at its two outer joints.
Bends = dict[str, tuple[float, float, float, float]]
#: In "grasp" pads and palm touch the ball of `GRASPED`, in "pinch" the tips of thumb and index.
POSES: dict[str, Bends] = DATA["poses"]
#: Target pose of a grasp. It lies inside the ball, so that springs press the fingers on it. Outer
#: joints bend most: the tips pull the ball up against the palm.
SQUEEZE: Bends = DATA["squeeze"]
#: Fingers in the order of MANO.
FINGERS = ("index", "middle", "pinky", "ring", "thumb")


def _at(along: float, across: float, up: float) -> Floats:
    """Return the point at distances towards the fingertips, towards the thumb, and up."""
    return np.array([-along, up, across])


#: Joints and tip of the thumb, and radii there in mm.
_THUMB = tuple(_at(*place) for place in DATA["thumb"]["joints"])


def _radii(finger: str) -> Floats:
    """Return the radii (4,) at a finger's three joints and tip, in m."""
    data = DATA["thumb"] if finger == "thumb" else DATA["fingers"][finger]
    return 1e-3 * np.array(data["radii"])


def _chain(finger: str) -> Floats:
    """Return positions (4, 3) of a finger's three joints and tip, in m."""
    if finger == "thumb":
        return np.array(_THUMB)
    data = DATA["fingers"][finger]
    angle = np.radians(data["degrees"])
    along = _at(np.cos(angle), np.sin(angle), -0.03)
    along /= np.linalg.norm(along)
    distances = np.concatenate([[0.0], np.cumsum(data["lengths"])])
    return _at(*data["first joint"]) + distances[:, None] * along


#: Parent and rest position of each joint, in the order of MANO.
JOINTS: dict[str, tuple[str | None, tuple[float, float, float]]] = {"wrist": (None, (0, 0, 0))}
for _finger in FINGERS:
    for _k, _place in enumerate(_chain(_finger)[:3].tolist()):
        _above = "wrist" if _k == 0 else f"{_finger}{_k}"
        JOINTS[f"{_finger}{_k + 1}"] = _above, (_place[0], _place[1], _place[2])
TIPS = {finger: _chain(finger)[3] for finger in FINGERS}
#: Ends of a segment through each region: joints, or points.
REGIONS = {"palm": ("wrist", "middle1")} | {f: (f"{f}1", TIPS[f]) for f in FINGERS}
#: Outward direction of the thumb's pad: down and towards the fingers.
_PAD = _at(0.30, -0.62, -0.72)


def finger_axes(finger: str) -> Floats:
    """Return axes (3, 3), by rows: along a finger, outwards from its pad, axis of bending."""
    chain = _chain(finger)
    along = chain[3] - chain[0] if finger != "thumb" else chain[3] - chain[1]
    along = along / np.linalg.norm(along)
    pad = np.array([0.0, -1.0, 0.0]) if finger != "thumb" else _PAD
    pad = pad - (pad @ along) * along
    pad /= np.linalg.norm(pad)
    return np.stack([along, pad, np.cross(along, pad)])


def _phalanges(finger: str) -> list[list[Solid]]:
    """Return the solids of a finger's three phalanges."""
    chain, (along, pad, _), radii = _chain(finger), finger_axes(finger), _radii(finger)
    phalanges = []
    for k in range(3):
        a, b = chain[k], chain[k + 1]
        if k == 2:  # the tip is round, flatter than it is wide
            b = b - radii[3] * along
        limb = [tapered_limb(a, b, radii[k] * 0.97, radii[k + 1] * 0.98)]
        if k > 0:  # knuckles are thicker than the phalanges between them
            limb.append(ball(a - 0.0004 * pad, radii[k] * 1.01))
        if k == 2:
            middle = 0.45 * a + 0.55 * b + 0.0008 * pad
            span = np.linalg.norm(b - a)
            size = (0.55 * span, radii[3] * 1.04, radii[3] * 1.16)
            limb.append(ellipsoid(middle, size, finger_axes(finger)))
        elif finger != "thumb" or k == 1:  # pads of the phalanges
            middle = 0.5 * (a + b) + 0.0016 * pad
            span = np.linalg.norm(b - a)
            r = 0.5 * (radii[k] + radii[k + 1])
            limb.append(ellipsoid(middle, (0.42 * span, 0.92 * r, 0.97 * r), finger_axes(finger)))
        phalanges.append(limb)
    if finger != "thumb":  # the first knuckle
        phalanges[0].append(ball(chain[0] + [0.0, 0.0016, 0.0], radii[0] * 1.02))
    return phalanges


def _palm() -> list[Solid]:
    """Return the wrist's solids: metacarpals, balls of thumb and little finger, a forearm."""
    palm: list[Solid] = []
    for finger in DATA["fingers"]:
        knuckle = _chain(finger)[0]
        from_wrist = _at(0.012, 0.32 * knuckle[2], -0.001)
        palm.append(tapered_limb(from_wrist, knuckle - [0, 0.0045, 0], 0.0150, 0.0105))
    palm += [
        ellipsoid(_at(0.050, 0.004, -0.004), (0.046, 0.0135, 0.034)),
        ellipsoid(_at(0.046, -0.022, -0.0095), (0.036, 0.0125, 0.0145)),  # beside the little finger
        ellipsoid(_at(0.083, -0.003, -0.0070), (0.020, 0.0105, 0.036)),  # below the fingers
        ellipsoid(_at(0.070, 0.034, -0.007), (0.020, 0.0085, 0.0095)),  # between thumb and index
    ]
    wrist = [
        ellipsoid(_at(0.004, -0.001, -0.001), (0.040, 0.0170, 0.0260)),
        ellipsoid(_at(-0.030, -0.002, 0.0), (0.060, 0.0180, 0.0245)),
        ball(_at(-0.012, -0.019, 0.009), 0.0085),  # the ulna's head
    ]
    return palm + wrist


def _thumb_ball() -> list[Solid]:
    """Return the ball of the thumb, along its metacarpal."""
    a, b = _THUMB[0], _THUMB[1]
    along = (b - a) / np.linalg.norm(b - a)
    across = np.cross(along, [0.0, 1.0, 0.0])
    across /= np.linalg.norm(across)
    axes = np.stack([along, np.cross(across, along), across])
    middle = 0.55 * a + 0.45 * b + _at(0.0, -0.003, -0.003)
    return [tapered_limb(a, b, 0.0135, 0.0112), ellipsoid(middle, (0.031, 0.0150, 0.0165), axes)]


def hand_parts() -> dict[str, list[Solid]]:
    """Return solids of each joint, in the order of `JOINTS`."""
    parts = {"wrist": _palm()}
    for finger in FINGERS:
        for k, limb in enumerate(_phalanges(finger)):
            parts[f"{finger}{k + 1}"] = limb
    parts["thumb1"] = _thumb_ball()
    return parts


def hand_solid() -> Solid:
    """Return the whole hand, cut off behind the wrist."""
    parts = hand_parts()
    palm = smooth_union(parts["wrist"], 0.016)
    fingers = [
        smooth_union([s for k in (1, 2, 3) for s in parts[f"{finger}{k}"]], 0.0035)
        for finger in FINGERS[:4]
    ]
    thumb = smooth_union([s for k in (1, 2, 3) for s in parts[f"thumb{k}"]], 0.005)
    hand = smooth_union([palm, thumb], 0.014)
    hand = smooth_union([hand, *fingers], 0.0055)
    for finger in FINGERS:  # a groove behind each nail
        hand = smooth_subtraction(hand, _nail_groove(finger), 0.0012)
    hollow = ellipsoid(_at(0.052, 0.000, -0.0300), (0.030, 0.0135, 0.020))
    hand = smooth_subtraction(hand, hollow, 0.010)
    return smooth_subtraction(hand, lambda points: points[:, 0] - 0.034, 0.008)


def _nail_place(finger: str) -> tuple[Floats, Floats, float]:
    """Return the centre of a nail, the finger's axes and the tip's radius."""
    chain, axes = _chain(finger), finger_axes(finger)
    radius = _radii(finger)[3]
    return chain[3] - 1.35 * radius * axes[0] - 0.80 * radius * axes[1], axes, radius


def _nail_groove(finger: str) -> Solid:
    middle, axes, radius = _nail_place(finger)
    behind = middle - 0.98 * radius * axes[0] - 0.40 * radius * axes[1]
    side = 0.45 * radius * axes[2]
    return tapered_limb(behind - side, behind + side, 0.12 * radius, 0.12 * radius)


def hand_bones() -> dict[str, list[SurfaceMesh]]:
    """Return closed bone meshes by joint: 8 carpals, 5 metacarpals and 14 phalanges."""
    bones: dict[str, list[SurfaceMesh]] = {name: [] for name in JOINTS}
    carpals = [(_at(*place), radius) for place, radius in DATA["carpals"]]
    bones["wrist"] += [ellipsoid_shape(place, 3 * [1e-3 * radius]) for place, radius in carpals]
    for finger in FINGERS:
        chain, along, radii = _chain(finger), finger_axes(finger)[0], _radii(finger)
        if finger != "thumb":
            base = _at(0.027, 0.42 * chain[0][2] + 0.001, 0.001)
            end = chain[0] - 0.002 * along
            bones["wrist"].append(bone_shape(base, end, 0.0048, 0.0030, 0.0052))
        for k in range(3):
            a, b = chain[k] + 0.0015 * along, chain[k + 1] - 0.0015 * along
            head, foot = 0.52 * radii[k], 0.46 * radii[k + 1]
            if finger == "thumb" and k == 0:
                head, foot = 0.0056, 0.0056
                step = (chain[1] - chain[0]) / np.linalg.norm(chain[1] - chain[0])
                a, b = chain[0] + 0.002 * step, chain[1] - 0.0015 * step
            if k == 2:
                b, foot = chain[3] - 0.72 * radii[3] * along, 0.34 * radii[3]
            bones[f"{finger}{k + 1}"].append(bone_shape(a, b, head, 0.30 * radii[k + 1], foot))
    return bones


def hand_colours(points: Floats) -> Floats:
    """Return sRGB colours (n, 3) of points: a paler palm, nails, creases, knuckles."""
    inside = ramp(-points[:, 1], 0.000, 0.014)[:, None]
    colours = (1 - inside) * np.array(COLOURS["skin"]) + inside * np.array(COLOURS["palm"])
    for finger in FINGERS:
        chain, axes = _chain(finger), finger_axes(finger)
        for place in chain[:3] if finger != "thumb" else chain[1:3]:
            local = (points - place) @ axes.T
            fold = np.exp(-0.5 * (local[:, 0] / 0.0016) ** 2) * (np.abs(local[:, 2]) < 0.013)
            fold *= (np.abs(local[:, 1]) < 0.014) * (0.35 if finger != "thumb" else 0.25)
            colours += fold[:, None] * (np.array(COLOURS["crease"]) - colours)
        red = 0.5 * bell(points, chain[3], (0.010,) * 3)[:, None]
        colours += red * (np.array((0.93, 0.60, 0.53)) - colours)
        middle, _, radius = _nail_place(finger)
        local = (points - middle) @ axes.T / radius
        nail = ((local[:, 0] / 1.02) ** 4 + (local[:, 2] / 0.80) ** 4 < 1) & (local[:, 1] < 0.35)
        colours[nail & (np.abs(local[:, 1]) < 1.2)] = COLOURS["nail"]
    return colours


def sculpt() -> dict[str, NDArray]:
    """Return the sculpted skin and its weights, as named arrays."""
    solid = hand_solid()
    fine = relaxed(polygonise(solid, DATA["bounds"], SPACING), solid, 4)
    surface = coarsened(fine, solid, VERTICES)
    weights = part_weights(surface, list(hand_parts().values()), 0.0065)
    return {"vertices": surface.vertices, "triangles": surface.triangles, "weights": weights}


def _shapes(surface: SurfaceMesh) -> list[Floats]:
    """Return a displacement (n, 3) for each of `SHAPES`."""
    points = surface.vertices
    normals = vertex_normals(points, surface.triangles)
    hand = ramp(-points[:, 0], -0.02, 0.03)[:, None]
    longer = np.zeros_like(points)
    for finger in FINGERS[:4]:
        along, first = finger_axes(finger)[0], np.array(JOINTS[f"{finger}1"][1])
        local = (points - first) @ finger_axes(finger).T
        stretch = (np.abs(local[:, 2]) < 0.0105) * np.maximum(local[:, 0] - 0.012, 0.0)
        longer += 0.06 * stretch[:, None] * along
    broad = np.zeros_like(points)
    broad[:, 2] = 0.04 * points[:, 2] * ramp(-points[:, 0], 0.0, 0.05)
    return [0.05 * points, 0.0008 * hand * normals, longer, broad]


def assemble(arrays: dict[str, NDArray]) -> Scene:
    """Assemble the scene from the sculpted arrays."""
    surface = SurfaceMesh(arrays["vertices"], arrays["triangles"])
    mean = hand_pose(POSES["relaxed"])[3:]
    body = parametric_body(surface, JOINTS, arrays["weights"], _shapes(surface), mean)
    plain = body_character(Path("hand"), body, None, (), (), False, False)
    motions = (_grasp(), _pinch(), _wave(), _point())
    return Scene(
        character=replace(
            plain,
            motions={motion.name: motion for motion in motions},
            appearance=painted(surface, hand_colours),
        ),
        tets=12_000,
        poses=np.array([hand_pose(bends) for bends in POSES.values()]),
        pose_names=tuple(POSES),
        handles=segment_handles(JOINTS, REGIONS),
        bones=_bones(),
        parts=body.weights.argmax(axis=1),
        part_names=tuple(JOINTS),
        contacts=(),
        paper=PAPER,
        material=Material("neo-hookean", young=3e4, poisson=0.45),
        modes=(12, 8, 8, 8, 8, 8),
        skeleton={name: joined(bones) for name, bones in hand_bones().items()},
    )


def _bones() -> tuple[Bone, ...]:
    """Return metacarpals and phalanges as segments."""
    bones = []
    for finger in FINGERS:
        places = [np.array(JOINTS[f"{finger}{k}"][1]) for k in (1, 2, 3)]
        ends = [np.zeros(3), *places, 0.8 * TIPS[finger] + 0.2 * places[2]]
        bones += [Bone(f"{finger}{k}", start, end) for k, (start, end) in enumerate(pairwise(ends))]
    return tuple(bones)


def hand_pose(bends: Bends) -> Floats:
    """Return the pose (48,), rotation vectors in radians, from bends in degrees by finger."""
    rotations: dict[str, Floats] = {}
    for finger, (first, second, third, fourth) in bends.items():
        _, pad, axis = finger_axes(finger)
        if finger == "thumb":
            rotations["thumb1"] = np.array([first, second, 0.0])
            rotations |= {"thumb2": third * axis, "thumb3": fourth * axis}
        else:
            rotations[f"{finger}1"] = first * axis + fourth * pad
            rotations |= {f"{finger}2": second * axis, f"{finger}3": third * axis}
    return pose_vector(JOINTS, rotations)


def _grasp() -> Motion:
    """Return a motion of 2.4 s: an open hand comes down on a ball, closes and lifts it by 12 cm."""
    line = Timeline(2.4, rate=90)
    opened, around = 0.35 * hand_pose(POSES["relaxed"]), hand_pose(POSES["grasp"])
    squeezed = hand_pose(SQUEEZE)
    keys = [(0.0, opened), (0.15, opened), (0.75, around), (1.05, squeezed), (1.2, squeezed)]
    heights = [(0.0, 0.02), (0.45, 0.006), (1.25, 0.006), (1.65, 0.06), (2.05, 0.12)]
    roots = line.roots([(time, (0.0, height, 0.0)) for time, height in heights])
    return Motion(line.times, line.curve(keys), roots, "grasp")


def _pinch() -> Motion:
    """Return a motion of 1.8 s: the tips of thumb and index meet, press, and part."""
    line = Timeline(1.8, rate=90)
    loose, tight = hand_pose(POSES["relaxed"]), hand_pose(POSES["pinch"])
    keys = [(0.0, loose), (0.1, loose), (0.7, tight), (1.1, 1.06 * tight), (1.7, loose)]
    return Motion(line.times, line.curve(keys), line.roots(), "pinch")


def _wave() -> Motion:
    """Return a motion of 2.4 s: fingers bend one after the other, while the wrist swings."""
    line = Timeline(2.4, rate=90)
    poses = np.tile(0.5 * hand_pose(POSES["relaxed"]), (len(line.times), 1))
    for place, finger in enumerate(("thumb", "index", "middle", "ring", "pinky")):
        start = 0.05 + 0.09 * place
        rise = 0.5 - 0.5 * np.cos(2 * np.pi * np.clip((line.times - start) / 0.95, 0, 2))
        curl = hand_pose({finger: POSES["fist"][finger]})
        poses += (0.55 * rise * ramp(line.times, start, start + 0.3))[:, None] * curl
    poses[:, 2] += np.radians(16) * line.wave(1.25, 0.2, 2.2)
    return Motion(line.times, poses, line.roots(), "wave")


def _point() -> Motion:
    """Return a motion of 1.8 s: a relaxed hand points, prods ahead, and relaxes."""
    line = Timeline(1.8, rate=90)
    loose, points = hand_pose(POSES["relaxed"]), hand_pose(POSES["point"])
    poses = line.curve([(0.0, loose), (0.1, loose), (0.6, points), (1.2, points), (1.7, loose)])
    ahead = [(0.0, (0, 0, 0)), (0.7, (0, 0, 0)), (0.9, (-0.04, 0, 0)), (1.2, (0, 0, 0))]
    return Motion(line.times, poses, line.roots(ahead), "point")
