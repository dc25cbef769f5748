"""A person in the layout of SMPL, who walks, jumps and falls (tapia2021, §5.2).

Stands with arms stretched to both sides, palms down, facing +z with the left hand at +x, 1.70 m
tall, feet on y = 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from supple.arrays import Floats
from supple.elastic.material import Material
from supple.formats.smpl.load_body import body_character
from supple.mesh.surface import SurfaceMesh, vertex_normals
from supple.rig.motion.motion import Motion
from supple.rig.protocol import Rig
from supple.scenes.characters.character_scene import PaperRow, Scene, joint_bones, segment_handles
from supple.scenes.characters.hand import hand_solid
from supple.scenes.modelling.keyframes import Timeline
from supple.scenes.modelling.lathe import bone_shape, ellipsoid_shape, joined
from supple.scenes.modelling.parametric import parametric_body, pose_vector
from supple.scenes.modelling.scene_data import blended_keys, joint_table, scene_data, solids_from
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
PAPER = PaperRow(tet_vertices=10111, tets=41585, surface_vertices=6890)
SPACING = 0.006
#: Shape coefficients, in standard deviations.
SHAPES = ("size", "weight", "long legs", "broad shoulders")
DATA = scene_data("human")
COLOURS = DATA["colours"]
#: Parent and rest position of each joint, in the order of SMPL.
JOINTS = joint_table(DATA)
TRUNK = ("pelvis", "spine1", "spine2", "spine3")
LEG, ARM = ("hip", "knee", "ankle", "foot"), ("collar", "shoulder", "elbow", "wrist", "hand")
_SIDES = (("left", 1.0), ("right", -1.0))
#: Rotations in degrees by joint; a limb's name without a side stands for the left limb and its
#: mirror image.
Rotations = Mapping[str, tuple[float, float, float]]
POSES: dict[str, Rotations] = DATA["poses"]
#: Scale of the hands relative to the scene "hand".
HAND_SIZE = 0.94


def _of_hand(sign: float) -> Solid:
    wrist, solid = np.array(JOINTS["left_wrist"][1]), hand_solid()

    def depth(points: Floats) -> Floats:
        local = (points * [sign, 1.0, 1.0] - wrist) * [-1.0, 1.0, 1.0] / HAND_SIZE
        return HAND_SIZE * solid(local)

    return _beyond(depth, 0, sign, 0.58)


def _beyond(solid: Solid, axis: int, sign: float, start: float) -> Solid:
    """Return the part of a solid beyond a plane; the solid is evaluated only there."""

    def depth(points: Floats) -> Floats:
        over = sign * points[:, axis] - start
        near = np.flatnonzero(over > 0)
        depths = np.minimum(over, 0.0) - 0.05
        if len(near):
            depths[near] = solid(points[near])
        return depths

    return depth


def human_parts() -> dict[str, list[Solid]]:
    """Return solids of each joint, in the order of `JOINTS`; hands are coarse, for weights only."""
    parts = {name: _solids(name) for name in (*TRUNK, "neck")}
    parts["head"] = [*_face(), *_solids("hair")]
    for side, sign in _SIDES:
        parts |= {f"{side}_{name}": _solids(name, sign) for name in (*ARM, *LEG)}
    return {name: parts[name] for name in JOINTS}


def _solids(name: str, sign: float = 1.0) -> list[Solid]:
    return solids_from(DATA["solids"][name], sign)


def _face() -> list[Solid]:
    return _solids("head") + [s for _, sign in _SIDES for s in _solids("side of head", sign)]


def human_solid() -> Solid:
    """Return the whole body, standing on flat soles."""
    parts = human_parts()
    middle = [s for name in TRUNK for s in parts[name]]
    trunk = smooth_union(middle, 0.040)
    limbs: list[Solid] = []
    for side, sign in _SIDES:
        leg = [s for n in LEG for s in parts[f"{side}_{n}"]]
        arm = [s for n in ARM[:3] for s in parts[f"{side}_{n}"]]
        arm_and_hand = smooth_union([smooth_union(arm, 0.020), _of_hand(sign)], 0.012)
        limbs.append(_beyond(smooth_union(leg, 0.018), 1, -1.0, -1.02))
        limbs.append(_beyond(arm_and_hand, 0, sign, -0.07))
    grown = smooth_union([_beyond(trunk, 1, 1.0, 0.73), *limbs, *parts["neck"]], 0.030)

    def body(points: Floats) -> Floats:
        return grown(points) + 0.002 * ramp(-np.abs(points[:, 0]), -0.62, -0.5)

    navel = ball((0, 1.035, 0.133), 0.007)
    skin = smooth_subtraction(body, navel, 0.012)
    skin = smooth_union([skin, _beyond(_carved_head(), 1, 1.0, 1.42)], 0.016)
    return smooth_subtraction(skin, lambda points: 0.0 - points[:, 1], 0.010)


def _carved_head() -> Solid:
    hair = smooth_union(_solids("hair"), 0.020)
    head = smooth_union([smooth_union(_face(), 0.014), hair], 0.006)
    for _, sign in _SIDES:
        head = smooth_subtraction(head, ball((0.032 * sign, 1.592, 0.101), 0.0145), 0.008)
    lids = [ellipsoid((0.031 * sign, 1.591, 0.076), (0.015, 0.011, 0.013)) for _, sign in _SIDES]
    mouth = tapered_limb((-0.019, 1.527, 0.0925), (0.019, 1.527, 0.0925), 0.0028, 0.0028)
    head = smooth_subtraction(head, mouth, 0.004)
    return smooth_union([head, *lids], 0.004)


def human_bones() -> dict[str, list[SurfaceMesh]]:
    """Return closed bone meshes by joint: limbs, spine, ribs, pelvis and skull."""
    places = {name: np.array(place) for name, (_, place) in JOINTS.items()}
    bones: dict[str, list[SurfaceMesh]] = {name: [] for name in JOINTS}
    bones["pelvis"] = [ellipsoid_shape((0, 0.940, -0.015), (0.105, 0.055, 0.055))]
    for name, above in (("spine1", "spine2"), ("spine2", "spine3")):
        bones[name] = [bone_shape(places[name], places[above], 0.021, 0.018, 0.021)]
    bones["spine3"] = [ellipsoid_shape((0, 1.285, -0.020), (0.110, 0.095, 0.068))]
    bones["neck"] = [bone_shape(places["neck"], places["head"], 0.018, 0.016, 0.018)]
    bones["head"] = [
        ellipsoid_shape((0, 1.612, -0.004), (0.065, 0.072, 0.082)),
        ellipsoid_shape((0, 1.545, 0.045), (0.040, 0.045, 0.030)),
    ]
    for side, sign in _SIDES:
        for name, radii in DATA["bones"].items():
            below = (LEG + ARM)[(LEG + ARM).index(name) + 1]
            start, end = places[f"{side}_{name}"], places[f"{side}_{below}"]
            bones[f"{side}_{name}"] = [bone_shape(start, end, *radii)]
        toes = np.array([0.143 * sign, 0.020, 0.125])
        bones[f"{side}_foot"] = [bone_shape(places[f"{side}_foot"], toes, 0.012, 0.009, 0.007)]
        tip = np.array([0.835 * sign, 1.3772, -0.0267])
        bones[f"{side}_hand"] = [bone_shape(places[f"{side}_hand"], tip, 0.0045, 0.0035, 0.003)]
    return bones


def human_colours(points: Floats) -> Floats:
    """Return sRGB colours (n, 3) of points: skin, hair, a shirt and shorts."""
    x, y, z = np.abs(points[:, 0]), points[:, 1], points[:, 2]
    collar = 1.420 - 0.35 * np.maximum(z + 0.02, 0.0) - y
    hair = smooth_union(_solids("hair"), 0.020)(points)
    line = y - 1.640 - 0.10 * np.maximum(0.0, x - 0.045) + 1.1 * np.maximum(0.03 - z, 0.0)
    eyes = [ellipsoid((0.031 * s, 1.591, 0.088), (0.0115, 0.0048, 0.012)) for _, s in _SIDES]
    lips = ellipsoid((0.0, 1.528, 0.092), (0.019, 0.007, 0.014))(points)
    # Layers from bottom to top: colour, depth inside the layer, half width of its border.
    layers = [
        (COLOURS["shirt"], np.minimum(0.31 - x, np.where(x > 0.08, 1.46 - y, collar)), 0.012),
        (COLOURS["shorts"], 0.955 - y, 0.006),
        (COLOURS["skin"], 0.61 - y, 0.010),
        (COLOURS["hair"], np.minimum(np.minimum(hair + 0.006, line), y - 1.535), 0.005),
        (COLOURS["lip"], lips, 0.004),
        *((COLOURS["eye"], eye(points), 0.002) for eye in eyes),
    ]
    colours = np.tile(COLOURS["skin"], (len(points), 1))
    for colour, depth, over in layers:
        colours += ramp(depth, -over, over)[:, None] * (np.array(colour) - colours)
    return colours


def enlarged(points: Floats) -> Floats:
    """Return points with enlarged head, hands and feet, which keep more vertices if coarsened."""
    out = points + 1.2 * ramp(points[:, 1], 1.46, 1.54)[:, None] * (points - [0, 1.5, 0])
    for sign in (1.0, -1.0):
        wrist, ankle = np.array([sign * 0.68, 1.375, -0.03]), np.array([sign * 0.13, 0.1, -0.03])
        out += 1.9 * ramp(sign * points[:, 0], 0.66, 0.72)[:, None] * (points - wrist)
        foot = ramp(-points[:, 1], -0.10, -0.05) * (sign * points[:, 0] > 0)
        out += 0.6 * foot[:, None] * (points - ankle)
    return out


def sculpt() -> dict[str, NDArray]:
    """Return the sculpted skin and its weights, as named arrays."""
    solid = human_solid()
    fine = relaxed(polygonise(solid, DATA["bounds"], SPACING), solid, 3)
    surface = coarsened(fine, solid, PAPER.surface_vertices, enlarged, even=True)
    # Weights change over a shorter distance on the limbs than on the trunk.
    length = np.where(np.abs(surface.vertices[:, 0]) < 0.2, 0.045, 0.028)
    weights = part_weights(surface, list(human_parts().values()), length)
    return {"vertices": surface.vertices, "triangles": surface.triangles, "weights": weights}


def _shapes(surface: SurfaceMesh) -> list[Floats]:
    """Return a displacement (n, 3) for each of `SHAPES`."""
    points = surface.vertices
    normals = vertex_normals(points, surface.triangles)
    trunk = bell(points, (0, 1.05, 0), (0.3, 0.28, 0.4))
    limbs = ramp(0.6 - np.abs(points[:, 0]), 0.0, 0.15) * ramp(points[:, 1], 0.1, 0.3)
    fat = 0.004 * limbs + 0.011 * trunk * (1 + ramp(points[:, 2], -0.05, 0.08))
    fat *= ramp(1.48 - points[:, 1], 0.0, 0.1)
    legs = np.zeros_like(points)
    legs[:, 1] = 0.05 * np.minimum(points[:, 1], 0.88)
    broad = np.zeros_like(points)
    broad[:, 0] = 0.018 * np.sign(points[:, 0]) * ramp(np.abs(points[:, 0]), 0.03, 0.2)
    broad[:, 0] *= ramp(points[:, 1], 1.05, 1.35) * ramp(1.50 - points[:, 1], 0.0, 0.06)
    return [0.04 * points, fat[:, None] * normals, legs, broad]


def assemble(arrays: dict[str, NDArray]) -> Scene:
    """Assemble the scene from the sculpted arrays."""
    surface = SurfaceMesh(arrays["vertices"], arrays["triangles"])
    body = parametric_body(surface, JOINTS, arrays["weights"], _shapes(surface))
    plain = body_character(Path("human"), body, None, (), (), False, False)
    motions = (_walk(plain.rig), _jump(plain.rig), _fall(plain.rig), _rest())
    return Scene(
        character=replace(
            plain,
            motions={motion.name: motion for motion in motions},
            appearance=painted(surface, human_colours),
        ),
        tets=14_000,
        poses=np.array([human_pose(rotations) for rotations in POSES.values()]),
        pose_names=tuple(POSES),
        handles=segment_handles(JOINTS, DATA["regions"]),
        bones=joint_bones(JOINTS, (0.0, 1.64, 0.0)),
        parts=body.weights.argmax(axis=1),
        part_names=tuple(JOINTS),
        contacts=(),
        paper=PAPER,
        material=Material("neo-hookean", young=4e4, poisson=0.45),
        modes=(10, 20, 10, 10, 12, 12),
        skeleton={name: joined(bones) for name, bones in human_bones().items()},
    )


def human_pose(rotations: Rotations) -> Floats:
    """Return rotation vectors (72,) in radians from degrees about fixed axes z, then y, then x."""
    both = {}
    for name, (x, y, z) in rotations.items():
        if name in JOINTS:
            both[name] = x, y, z
        else:
            both |= {f"left_{name}": (x, y, z), f"right_{name}": (x, -y, -z)}
    order = np.reshape(list(both.values()), (-1, 3))
    vectors = Rotation.from_euler("XYZ", order, degrees=True).as_rotvec(degrees=True)
    return pose_vector(JOINTS, dict(zip(both, vectors, strict=True)))


def _walk(rig: Rig) -> Motion:
    """Return a loop of two strides of 1.05 s; feet on the ground do not slide."""
    line = Timeline(2.1, rate=120)
    poses = np.array([_gait(2 * np.pi * time / 1.05) for time in line.times])
    height, drift = _on_feet(rig, poses)
    roots = line.roots()
    roots[:, 1, 3], roots[:, 2, 3] = height, drift
    return Motion(line.times, poses, roots, "walk")


def _gait(phase: float) -> Floats:
    """Return the pose at a phase of walking; at 0 the left leg is farthest ahead."""
    rotations: dict[str, tuple[float, float, float]] = {
        "pelvis": (0.0, -4.0 * np.cos(phase), 2.0 * np.sin(phase)),
        "spine2": (3.0, 7.0 * np.cos(phase), -2.0 * np.sin(phase)),
        "neck": (-3.0, -3.0 * np.cos(phase), 0.0),
        "collar": (0.0, 0.0, -8.0),
    }
    for side, sign, angle in (("left", 1.0, phase), ("right", -1.0, phase + np.pi)):
        swing = np.exp(2.6 * (np.cos(angle - 1.42 * np.pi) - 1))
        push = np.exp(5.0 * (np.cos(angle - 1.08 * np.pi) - 1))
        rotations |= {
            f"{side}_hip": (-4.0 - 24.0 * np.cos(angle), 0.0, -3.0 * sign),
            f"{side}_knee": (8.0 + 50.0 * swing, 0.0, 0.0),
            f"{side}_ankle": (-6.0 + 20.0 * push, 0.0, 2.0 * sign),
            f"{side}_foot": (-16.0 * push, 0.0, 0.0),
            f"{side}_shoulder": (2.0 + 20.0 * np.cos(angle), 4.0 * sign, -64.0 * sign),
            f"{side}_elbow": (0.0, -sign * (18.0 - 9.0 * np.cos(angle)), -4.0 * sign),
        }
    return human_pose(rotations)


def _on_feet(rig: Rig, poses: Floats) -> tuple[Floats, Floats]:
    """Return the root's y (t,) and z (t,) in m that keep feet on the ground, without sliding."""
    low = np.flatnonzero(rig(rig.rest_pose)[:, 1] < 0.05)
    places = np.array([rig(pose, low) for pose in poses])
    height, shares = _lowest(places)
    travel = 0.5 * ((shares[1:] + shares[:-1]) * np.diff(places[:, :, 2], axis=0)).sum(axis=1)
    return -height, np.concatenate([[0.0], -np.cumsum(travel)])


def _lowest(places: Floats) -> tuple[Floats, Floats]:
    """Return the smoothly minimal height (t,) of points (t, n, 3), and their weights (t, n).

    Weights decay over 3 mm above the lowest point, so that heights are smooth.
    """
    above = places[:, :, 1] - places[:, :, 1].min(axis=1, keepdims=True)
    shares = np.exp(-above / 0.003)
    shares /= shares.sum(axis=1, keepdims=True)
    return (shares * places[:, :, 1]).sum(axis=1), shares


def _jump(rig: Rig) -> Motion:
    """Return a motion of 2.4 s: a crouch, a jump of 26 cm and a landing on bent knees."""
    line = Timeline(2.4, rate=120)
    named = {name: human_pose(rotations) for name, rotations in POSES.items()}
    poses = line.curve(blended_keys(DATA["jump"], named))
    height, drift = _on_feet(rig, poses)
    flight = np.clip((line.times - 0.80) / 0.62, 0.0, 1.0)
    roots = line.roots()
    roots[:, 1, 3] = height + 0.26 * (4 * flight * (1 - flight)) ** 3
    # In the air the root keeps its last distance.
    roots[:, 2, 3] = np.where(line.times < 0.80, drift, drift[line.times < 0.80][-1])
    return Motion(line.times, poses, roots, "jump")


def _fall(rig: Rig) -> Motion:
    """Return a motion of 2 s: the person leans over the toes, arms ahead, and falls down."""
    line = Timeline(2.0, rate=120)
    times = {0.0: "standing", 0.15: "standing", 0.75: "reaching", 0.95: "reaching", 1.4: "prone"}
    poses = line.curve([(time, human_pose(POSES[name])) for time, name in times.items()])
    leans = [(0.0, 0.0), (0.1, 0.0), (0.45, 9.0), (0.75, 30.0), (1.05, 62.0), (1.4, 88.0)]
    roots = line.roots(leans=leans)
    some = np.arange(0, rig.n_vertices, 3)
    inverses = roots[:, :3, :3].transpose(0, 2, 1)
    roots[:, 1, 3] = -_lowest(np.array([rig(pose, some) for pose in poses]) @ inverses)[0]
    return Motion(line.times, poses, roots, "fall")


def _rest() -> Motion:
    """Return a motion of 3 s: standing still and breathing."""
    line = Timeline(3.0, rate=60)
    poses = np.tile(human_pose(POSES["standing"]), (len(line.times), 1))
    for joint, degrees in (("spine3", -1.2), ("neck", 0.8)):
        x = 3 * list(JOINTS).index(joint)
        poses[:, x] += np.radians(degrees) * np.sin(np.pi * line.times / 3.0) ** 2
    return Motion(line.times, poses, line.roots(), "rest")
