"""A person in the layout of SMPL, who walks, jumps and falls (tapia2021, §5.2)."""

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
from supple.scenes.characters.character_scene import Bone, Handle, PaperRow, Scene
from supple.scenes.characters.human_shape import (
    BOUNDS,
    JOINTS,
    enlarged,
    human_bones,
    human_colours,
    human_parts,
    human_solid,
)
from supple.scenes.modelling.keyframes import Timeline
from supple.scenes.modelling.lathe import joined
from supple.scenes.modelling.painting import painted
from supple.scenes.modelling.parametric import joint_turns, parametric_body
from supple.scenes.modelling.sculpting import bell, ramp
from supple.scenes.modelling.skin_weights import part_weights
from supple.scenes.modelling.solids import coarsened, polygonise, relaxed

#: The paper's skin, and the tets of its soft layer.
PAPER = PaperRow(tet_vertices=10111, tets=41585, surface_vertices=6890)
SPACING = 0.006
#: Coefficients of shape, a standard deviation each.
SHAPES = ("size", "weight", "long legs", "broad shoulders")


def sculpt() -> dict[str, NDArray]:
    """Sculpt skin and weights."""
    solid = human_solid()
    fine = relaxed(polygonise(solid, BOUNDS, SPACING), solid, 3)
    surface = coarsened(fine, solid, PAPER.surface_vertices, enlarged, even=True)
    # Limbs' joints are narrower than the trunk's.
    wide = np.where(np.abs(surface.vertices[:, 0]) < 0.2, 0.045, 0.028)
    weights = part_weights(surface, list(human_parts().values()), wide)
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
    """Assemble the scene of the sculpted arrays."""
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
        poses=np.array([human_pose(turns) for turns in POSES.values()]),
        pose_names=tuple(POSES),
        handles=_handles(),
        bones=_bones(),
        parts=body.weights.argmax(axis=1),
        part_names=tuple(JOINTS),
        contacts=(),
        paper=PAPER,
        material=Material("neo-hookean", young=4e4, poisson=0.45),
        modes=(10, 20, 10, 10, 12, 12),
        skeleton={name: joined(bones) for name, bones in human_bones().items()},
    )


def _places() -> dict[str, Floats]:
    return {name: np.array(place) for name, (_, place) in JOINTS.items()}


def _handles() -> tuple[Handle, ...]:
    """Return a segment through each region: head, body and limbs."""
    places = _places()
    ends = {
        "head": (places["head"], np.array([0.0, 1.66, 0.0])),
        "body": (places["pelvis"], places["spine3"]),
    }
    for side in ("left", "right"):
        ends[f"{side} arm"] = places[f"{side}_shoulder"], places[f"{side}_wrist"]
    for side in ("left", "right"):
        ends[f"{side} leg"] = places[f"{side}_hip"], places[f"{side}_ankle"]
    return tuple(Handle(name, np.array(pair)) for name, pair in ends.items())


def _bones() -> tuple[Bone, ...]:
    """Return bones from every joint's parent to the joint, and the skull."""
    places = _places()
    found = [
        Bone(name, places[parent], places[name])
        for name, (parent, _) in JOINTS.items()
        if parent is not None
    ]
    return (*found, Bone("skull", places["head"], np.array([0.0, 1.64, 0.0])))


# Poses, and motions


#: Rotation vectors in degrees, by joint; a limb's without a side is the left one, and the right
#: is its mirror image.
Turns = Mapping[str, tuple[float, float, float]]
_DOWN: Turns = {"shoulder": (4, 0, -66), "collar": (0, 0, -8), "elbow": (0, -14, -4)}
POSES: dict[str, Turns] = {
    "T": {},
    "standing": _DOWN,
    "crouched": {
        "pelvis": (34, 0, 0),
        "spine1": (12, 0, 0),
        "spine2": (8, 0, 0),
        "head": (-26, 0, 0),
        "hip": (-92, 0, 8),
        "knee": (104, 0, 0),
        "ankle": (-36, 0, 0),
        "collar": (0, 0, -8),
        "shoulder": (30, 20, -62),
        "elbow": (0, -20, -6),
    },
    "stretched": {
        "spine2": (-8, 0, 0),
        "head": (-10, 0, 0),
        "ankle": (38, 0, 0),
        "foot": (14, 0, 0),
        "shoulder": (-20, -30, 52),
        "collar": (0, 0, 14),
        "elbow": (0, -16, 6),
    },
    "stride": {
        "left_hip": (-32, 0, 0),
        "left_knee": (14, 0, 0),
        "right_hip": (20, 0, 0),
        "right_knee": (18, 0, 0),
        "right_ankle": (14, 0, 0),
        "right_foot": (-18, 0, 0),
        "spine1": (2, 6, 0),
        "collar": (0, 0, -8),
        "left_shoulder": (30, 6, -66),
        "right_shoulder": (-26, 6, 66),
        "left_elbow": (0, -10, -4),
        "right_elbow": (0, 34, 4),
    },
    "sitting": {
        "hip": (-84, 8, 6),
        "knee": (84, 0, 0),
        "spine1": (6, 0, 0),
        "collar": (0, 0, -8),
        "shoulder": (-22, 4, -64),
        "elbow": (0, -40, -4),
    },
    "hanging": {
        "collar": (0, 0, 18),
        "shoulder": (0, 0, 66),
        "elbow": (0, -6, 2),
        "hip": (-4, 0, 0),
        "knee": (10, 0, 0),
        "ankle": (30, 0, 0),
    },
    "reaching": {
        "pelvis": (8, 0, 0),
        "spine1": (10, 0, 0),
        "spine2": (8, 0, 0),
        "head": (-24, 0, 0),
        "hip": (-28, 0, 4),
        "knee": (40, 0, 0),
        "ankle": (-8, 0, 0),
        "shoulder": (-20, -62, -18),
        "elbow": (0, -24, 0),
        "wrist": (0, 0, 26),
    },
    "prone": {
        "spine2": (-6, 0, 0),
        "neck": (-18, 0, 0),
        "head": (-18, 0, 0),
        "knee": (6, 0, 0),
        "ankle": (46, 0, 0),
        "shoulder": (0, 0, 24),
        "elbow": (0, 0, 66),
    },
}


def human_pose(turns: Turns) -> Floats:
    """Return the pose (72,) of rotation vectors: joints turn about z first, then y, then x."""
    both = {}
    for name, (x, y, z) in turns.items():
        if name in JOINTS:
            both[name] = x, y, z
        else:
            both |= {f"left_{name}": (x, y, z), f"right_{name}": (x, -y, -z)}
    order = np.reshape(list(both.values()), (-1, 3))
    vectors = Rotation.from_euler("XYZ", order, degrees=True).as_rotvec(degrees=True)
    return joint_turns(JOINTS, dict(zip(both, vectors, strict=True)))


def _walk(rig: Rig) -> Motion:
    """Return two strides of 1.05 s, straight on: a loop whose feet stay where they step."""
    line = Timeline(2.1, rate=120)
    poses = np.array([_gait(2 * np.pi * time / 1.05) for time in line.times])
    height, drift = _on_feet(rig, poses)
    roots = line.roots()
    roots[:, 1, 3], roots[:, 2, 3] = height, drift
    return Motion(line.times, poses, roots, "walk")


def _gait(phase: float) -> Floats:
    """Return the pose at a phase of walking; at 0 the left leg is farthest ahead."""
    turns: dict[str, tuple[float, float, float]] = {
        "pelvis": (0.0, -4.0 * np.cos(phase), 2.0 * np.sin(phase)),
        "spine2": (3.0, 7.0 * np.cos(phase), -2.0 * np.sin(phase)),
        "neck": (-3.0, -3.0 * np.cos(phase), 0.0),
        "collar": (0.0, 0.0, -8.0),
    }
    for side, sign, own in (("left", 1.0, phase), ("right", -1.0, phase + np.pi)):
        swing = np.exp(2.6 * (np.cos(own - 1.42 * np.pi) - 1))
        push = np.exp(5.0 * (np.cos(own - 1.08 * np.pi) - 1))
        turns |= {
            f"{side}_hip": (-4.0 - 24.0 * np.cos(own), 0.0, -3.0 * sign),
            f"{side}_knee": (8.0 + 50.0 * swing, 0.0, 0.0),
            f"{side}_ankle": (-6.0 + 20.0 * push, 0.0, 2.0 * sign),
            f"{side}_foot": (-16.0 * push, 0.0, 0.0),
            f"{side}_shoulder": (2.0 + 20.0 * np.cos(own), 4.0 * sign, -64.0 * sign),
            f"{side}_elbow": (0.0, -sign * (18.0 - 9.0 * np.cos(own)), -4.0 * sign),
        }
    return human_pose(turns)


def _on_feet(rig: Rig, poses: Floats) -> tuple[Floats, Floats]:
    """Return how high and how far ahead a root puts the lowest of the skin on the ground."""
    low = np.flatnonzero(rig(rig.rest_pose)[:, 1] < 0.05)
    places = np.array([rig(pose, low) for pose in poses])
    height, shares = _lowest(places)
    moved = 0.5 * ((shares[1:] + shares[:-1]) * np.diff(places[:, :, 2], axis=0)).sum(axis=1)
    return -height, np.concatenate([[0.0], -np.cumsum(moved)])


def _lowest(places: Floats) -> tuple[Floats, Floats]:
    """Return heights (t,) of the lowest of places (t, n, 3), and shares (t, n) of each in it.

    What is lowest counts softly, over 3 mm, so that heights are smooth.
    """
    above = places[:, :, 1] - places[:, :, 1].min(axis=1, keepdims=True)
    shares = np.exp(-above / 0.003)
    shares /= shares.sum(axis=1, keepdims=True)
    return (shares * places[:, :, 1]).sum(axis=1), shares


def _jump(rig: Rig) -> Motion:
    """Return 2.4 s: crouch, off the ground by 26 cm, and a landing on bent knees."""
    line = Timeline(2.4, rate=120)
    standing, crouched = human_pose(POSES["standing"]), human_pose(POSES["crouched"])
    poses = line.curve(
        [
            (0.0, standing),
            (0.10, standing),
            (0.58, 0.85 * crouched + 0.15 * standing),
            (0.86, human_pose(POSES["stretched"])),
            (1.12, 0.7 * human_pose(POSES["stretched"]) + 0.3 * standing),
            (1.42, 0.35 * crouched + 0.65 * standing),
            (1.64, 0.75 * crouched + 0.25 * standing),
            (2.15, standing),
        ]
    )
    height, drift = _on_feet(rig, poses)
    flight = np.clip((line.times - 0.80) / 0.62, 0.0, 1.0)
    roots = line.roots()
    roots[:, 1, 3] = height + 0.26 * (4 * flight * (1 - flight)) ** 3
    # Feet that are in the air say nothing about the way.
    roots[:, 2, 3] = np.where(line.times < 0.80, drift, drift[line.times < 0.80][-1])
    return Motion(line.times, poses, roots, "jump")


def _fall(rig: Rig) -> Motion:
    """Return 2 s: leans ahead over the toes, arms reaching, until lying on the ground."""
    line = Timeline(2.0, rate=120)
    times = {0.0: "standing", 0.15: "standing", 0.75: "reaching", 0.95: "reaching", 1.4: "prone"}
    poses = line.curve([(time, human_pose(POSES[name])) for time, name in times.items()])
    leans = [(0.0, 0.0), (0.1, 0.0), (0.45, 9.0), (0.75, 30.0), (1.05, 62.0), (1.4, 88.0)]
    roots = line.roots(leans=leans)
    some = np.arange(0, rig.n_vertices, 3)
    turned = roots[:, :3, :3].transpose(0, 2, 1)
    roots[:, 1, 3] = -_lowest(np.array([rig(pose, some) for pose in poses]) @ turned)[0]
    return Motion(line.times, poses, roots, "fall")


def _rest() -> Motion:
    """Return 3 s of standing still, but for breath."""
    line = Timeline(3.0, rate=60)
    poses = np.tile(human_pose(POSES["standing"]), (len(line.times), 1))
    for joint, degrees in (("spine3", -1.2), ("neck", 0.8)):
        x = 3 * list(JOINTS).index(joint)
        poses[:, x] += np.radians(degrees) * np.sin(np.pi * line.times / 3.0) ** 2
    return Motion(line.times, poses, line.roots(), "rest")
