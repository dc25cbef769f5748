"""A bear on wires: the third example of Xu and Barbič 2016, §9.

The bear stands upright like a toy, facing +z, 1.3 m tall, its arms away from its belly. Six wires
with 48 control points deform it. A wire has no joints; poses are written as rotations about
places along it, which give the offsets of its control points.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.transform import Rotation

from supple.arrays import Floats
from supple.elastic.material import Material
from supple.mesh.surface import SurfaceMesh
from supple.rig.character import Character
from supple.rig.deformers.chain import RigChain
from supple.rig.deformers.pose_space_deformation import PoseSpaceDeformation
from supple.rig.deformers.wire import Wire
from supple.rig.motion.motion import Motion
from supple.rig.poses.pose_weights import parameter_scales
from supple.scenes.characters.character_scene import Bone, Contact, Handle, PaperRow, Scene
from supple.scenes.modelling.keyframes import Timeline
from supple.scenes.modelling.scene_data import blended_keys, limb_solids, scene_data, solids_from
from supple.scenes.modelling.sculpting import (
    SkinRelaxer,
    bell,
    bulged,
    parted,
    points_along,
    untangled,
)
from supple.scenes.modelling.skinning import part_weights
from supple.scenes.modelling.solids import (
    Solid,
    ball,
    ellipsoid,
    polygonise,
    relaxed,
    smooth_subtraction,
    smooth_union,
    tapered_limb,
)

DATA = scene_data("bear")
PARTS = ("body", "head", "arm.L", "arm.R", "leg.L", "leg.R")
Rotations = dict[str, tuple[float, float, float]]
POINTS = 8


def bear_solid() -> Solid:
    """Return the whole body, with eye sockets, a mouth and a navel."""
    parts = bear_parts()
    head = _carved_head(parts.pop("head"))
    limbs = [smooth_union(part, 0.06) for part in parts.values()]
    body = smooth_subtraction(limbs[0], ball((0, 0.50, 0.340), 0.032), 0.05)
    return smooth_union([body, head, *limbs[1:]], 0.05)


def bear_parts() -> dict[str, list[Solid]]:
    """Return solids of each part, in the order of `PARTS`."""
    parts = {name: solids_from(DATA["solids"][name]) for name in ("body", "head")}
    parts |= limb_solids(DATA, ("arm", "leg"))
    return {name: parts[name] for name in PARTS}


def _carved_head(parts: list[Solid]) -> Solid:
    """Return the head with ears, eyes, nose and mouth, each at least three mesh edges wide."""
    head = smooth_union(parts, 0.035)
    for side in (1, -1):
        head = smooth_subtraction(head, ball((0.170 * side, 1.212, 0.080), 0.062), 0.04)
        smile = tapered_limb((0, 0.915, 0.330), (0.115 * side, 0.945, 0.225), 0.028, 0.016)
        head = smooth_subtraction(head, smile, 0.03)
    eyes: list[Solid] = [ball((0.088 * side, 1.062, 0.172), 0.036) for side in (1, -1)]
    nose = ellipsoid((0, 1.005, 0.305), (0.055, 0.040, 0.040))
    return smooth_union([head, *eyes, nose], 0.015)


@dataclass(frozen=True)
class WireShape:
    """Wire along the chain of points `joints` (j, 3), about which its control points rotate."""

    joints: Floats
    softness: float = 0.35

    @property
    def control_points(self) -> Floats:
        """Eight points at equal distances along the chain."""
        return points_along(self.joints, POINTS)

    def rotated(self, rotations: ArrayLike) -> Floats:
        """Return control points (8, 3) rotated about the joints but the last, by vectors (j, 3).

        A rotation sets in gradually over a length of wire that grows with `softness`.
        """
        points = self.control_points
        lengths = np.linalg.norm(np.diff(self.joints, axis=0), axis=1)
        marks = np.concatenate([[0.0], np.cumsum(lengths)])
        along = np.linspace(0, marks[-1], POINTS)
        # From the tip to the root, so that inner rotations also move the outer parts.
        for place in range(len(self.joints) - 2, -1, -1):
            width = self.softness * lengths[place] if place else 1e-9
            part = np.clip((along - marks[place]) / width + (0.5 if place else 0), 0, 1)
            vectors = part[:, None] * np.asarray(rotations, float)[place]
            centre = self.joints[place]
            points = centre + Rotation.from_rotvec(vectors).apply(points - centre)
        return points


def _wire(name: str) -> WireShape:
    limb, _, side = name.partition(".")
    mirror = [-1 if side == "R" else 1, 1, 1]
    joints = np.array(DATA["wires"][limb]) * mirror
    return WireShape(joints, 1.1) if name == "body" else WireShape(joints)


WIRES: dict[str, WireShape] = {name: _wire(name) for name in PARTS}
#: Limbs deform the resting body; the body's wire comes last and moves all of it.
ORDER = (*(part for part in PARTS if part != "body"), "body")
#: A pose has two rotations for each wire, and the stretch of the body.
ROTATIONS = (*(f"{part} {place}" for part in PARTS for place in ("root", "middle")), "stretch")
#: Degrees about x, y and z; "arm" and "leg" stand for both sides; "stretch" is in centimetres.
POSES: dict[str, Rotations] = DATA["poses"]


def rotation_vector(rotations: Rotations) -> Floats:
    """Return a pose as a flat vector (39,) of radians and metres, in the order of `ROTATIONS`."""
    vector = np.zeros((len(ROTATIONS), 3))
    for name, values in rotations.items():
        for full in ROTATIONS:
            limb, _, place = full.partition(" ")
            if full == name or f"{limb.split('.')[0]} {place}" == name:
                flip = np.array([1, -1, -1]) if limb.endswith(".R") and full != name else 1
                unit = 0.01 if name == "stretch" else np.pi / 180
                vector[ROTATIONS.index(full)] = unit * flip * np.array(values)
    return vector.ravel()


def offsets(vector: ArrayLike) -> Floats:
    """Return a pose of the wires (144,): offsets of control points in m, in their `ORDER`."""
    rotations = np.asarray(vector, float).reshape(-1, 3)
    pose = []
    for name in ORDER:
        wire, index = WIRES[name], 2 * PARTS.index(name)
        angles = rotations[index : index + 2]
        control_points = (
            wire.rotated(angles) if angles.any() else wire.control_points
        )  # exactly at rest
        if name == "body":  # the stretch grows from the seat upwards
            control_points = control_points + np.linspace(0, 1, POINTS)[:, None] * rotations[-1]
        pose.append(control_points - wire.control_points)
    return np.concatenate(pose).ravel()


PAPER = PaperRow(4018, 12762, 6876, 100, 6, 8, 7, 336, 200, 1.43, 7.3, 40)
SPACING = 0.02428


def sculpt() -> dict[str, NDArray]:
    """Return the sculpted surface, the wires' influences and corrections, as named arrays."""
    solid = bear_solid()
    surface = relaxed(polygonise(solid, DATA["bounds"], SPACING), solid)
    weights = part_weights(surface, list(bear_parts().values()), 0.06)
    arrays = {"vertices": surface.vertices, "triangles": surface.triangles, "weights": weights}
    relaxer = SkinRelaxer(surface, rounds=14)
    rig = _wired(arrays)
    arrays["scales"] = parameter_scales(rig)
    shapes = []
    for name, rotations in POSES.items():
        posed = rig(offsets(rotation_vector(rotations)))
        shapes.append(_sculpted(posed, surface, weights, relaxer, name) - posed)
    return arrays | {"corrections": np.array(shapes)}


def _wired(arrays: dict[str, NDArray]) -> RigChain:
    """Return the rig: the wires in their `ORDER`."""
    vertices, weights = arrays["vertices"], arrays["weights"]
    limbs = [
        Wire(
            vertices, WIRES[part].control_points, influence=weights[:, PARTS.index(part)], name=part
        )
        for part in ORDER[:-1]
    ]
    # The body's wire moves a limb as it moves the limb's root, wherever the limb's tip is.
    roots = np.array([WIRES[part].joints[0] for part in PARTS[1:]])
    bound = weights[:, :1] * vertices + weights[:, 1:] @ roots
    body = Wire(bound, WIRES["body"].control_points, influence=np.ones(len(vertices)), name="body")
    return RigChain(*limbs, body)


def _sculpted(
    posed: Floats, surface: SurfaceMesh, weights: Floats, relaxer: SkinRelaxer, name: str
) -> Floats:
    """Return the bear's vertices (n, 3) as sculpted in the pose `name`."""
    rest, triangles = surface.vertices, surface.triangles
    if name == "at ease":
        return posed
    points = bulged(relaxer(posed), triangles, _swelling(rest, name))
    for part, other in DATA["touching"][name]:
        first, second = (weights[:, PARTS.index(name)] > 0.85 for name in (part, other))
        share = 0.35 if other == "body" else 0.5  # the belly is softer
        pair = (first, second)
        points = parted(points, triangles, pair, relaxer, gap=0.006, share=share, deepest=0.12)
    return untangled(points, surface, relaxer, gap=0.003)


def _swelling(rest: Floats, name: str) -> Floats:
    """Return displacements (n,) along the normals: folds of the belly, cheeks, a raised chest."""
    belly = bell(rest, (0, 0.44, 0.30), (0.16, 0.12, 0.14))
    waist = bell(rest, (0, 0.58, 0.0), (0.5, 0.045, 0.5)) * (np.abs(rest[:, 0]) < 0.6)
    cheeks = bell(rest, (0.2, 0.95, 0.1), (0.09, 0.08, 0.1)) + bell(
        rest, (-0.2, 0.95, 0.1), (0.09, 0.08, 0.1)
    )
    body = bell(rest, (0, 0.5, 0.05), (0.16, 0.16, 0.2))
    return {
        "hug": 0.012 * cheeks,
        "hurray": -0.022 * belly,
        "wave": -0.008 * belly + 0.008 * cheeks,
        "sit": 0.030 * belly + 0.012 * cheeks,
        "bow": 0.026 * belly - 0.016 * waist * body,
        "kick": 0.014 * belly,
        "squat": 0.028 * belly + 0.016 * cheeks,
    }[name]


def assemble(arrays: dict[str, NDArray]) -> Scene:
    """Assemble the scene from the sculpted arrays."""
    surface = SurfaceMesh(arrays["vertices"], arrays["triangles"])
    poses = np.array([offsets(rotation_vector(rotations)) for rotations in POSES.values()])
    rig = PoseSpaceDeformation(
        _wired(arrays), poses, arrays["corrections"], arrays["scales"], names=list(POSES)
    )
    motion = _motion()
    return Scene(
        character=Character("bear", surface, rig, {motion.name: motion}),
        tets=12_762,
        poses=poses,
        pose_names=tuple(POSES),
        handles=tuple(Handle(part, WIRES[part].control_points[[1, -2]]) for part in PARTS),
        bones=tuple(
            Bone(f"{part} {place}", *WIRES[part].joints[place : place + 2])
            for part in PARTS
            for place in range(2)
        ),
        parts=arrays["weights"].argmax(axis=1),
        part_names=PARTS,
        contacts=(
            Contact("hug", "arm.L", "body"),
            Contact("hug", "arm.R", "body"),
            Contact("sit", "leg.L", "body"),
        ),
        paper=PAPER,
        material=Material("stvk", young=3e4, poisson=0.45),
        modes=tuple(20 if part in ("body", "head") else 15 for part in PARTS),
    )


def _motion() -> Motion:
    """Return a motion of seven seconds: a wave, a spinning hop, a hug, a kick and a bow."""
    line = Timeline(7.0)
    shape = {name: rotation_vector(rotations) for name, rotations in POSES.items()}
    rotations = line.curve(blended_keys(DATA["keys"], shape))
    wagging = 3 * ROTATIONS.index("arm.L middle") + 2
    rotations[:, wagging] += np.radians(14) * line.wave(2.5, 0.5, 1.9)
    poses = np.array([offsets(row) for row in rotations])
    return Motion(line.times, poses, line.roots(**DATA["root"]), "party")
