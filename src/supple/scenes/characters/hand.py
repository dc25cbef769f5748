"""A right hand in the layout of MANO: it grasps, pinches, points and waves (tapia2021, §5.1)."""

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
from supple.scenes.characters.character_scene import Bone, Handle, PaperRow, Scene
from supple.scenes.characters.hand_shape import (
    BOUNDS,
    FINGERS,
    JOINTS,
    TIPS,
    finger_axes,
    hand_bones,
    hand_colours,
    hand_parts,
    hand_solid,
)
from supple.scenes.modelling.keyframes import Timeline
from supple.scenes.modelling.lathe import joined
from supple.scenes.modelling.painting import painted
from supple.scenes.modelling.parametric import joint_turns, parametric_body
from supple.scenes.modelling.sculpting import ramp
from supple.scenes.modelling.skin_weights import part_weights
from supple.scenes.modelling.solids import coarsened, polygonise, relaxed

#: The paper's skin, and the tets of its soft layer.
PAPER = PaperRow(tet_vertices=20214, tets=88716, surface_vertices=3106)
VERTICES, SPACING = 2600, 0.0021
#: Coefficients of shape, a standard deviation each.
SHAPES = ("size", "thick", "long fingers", "broad palm")
#: A ball that the grasp closes around: its centre in the hand's own axes, and radius, in m.
GRASPED = (-0.095, -0.0515, 0.012), 0.035


def sculpt() -> dict[str, NDArray]:
    """Sculpt skin, weights and directions."""
    solid = hand_solid()
    fine = relaxed(polygonise(solid, BOUNDS, SPACING), solid, 4)
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
        way, first = finger_axes(finger)[0], np.array(JOINTS[f"{finger}1"][1])
        local = (points - first) @ finger_axes(finger).T
        own = (np.abs(local[:, 2]) < 0.0105) * np.maximum(local[:, 0] - 0.012, 0.0)
        longer += 0.06 * own[:, None] * way
    broad = np.zeros_like(points)
    broad[:, 2] = 0.04 * points[:, 2] * ramp(-points[:, 0], 0.0, 0.05)
    return [0.05 * points, 0.0008 * hand * normals, longer, broad]


def assemble(arrays: dict[str, NDArray]) -> Scene:
    """Assemble the scene of the sculpted arrays."""
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
        handles=_handles(),
        bones=_bones(),
        parts=body.weights.argmax(axis=1),
        part_names=tuple(JOINTS),
        contacts=(),
        paper=PAPER,
        material=Material("neo-hookean", young=3e4, poisson=0.45),
        modes=(12, 8, 8, 8, 8, 8),
        skeleton={name: joined(bones) for name, bones in hand_bones().items()},
    )


def _handles() -> tuple[Handle, ...]:
    """Return a segment through each region: the palm and the fingers."""
    ends = {"palm": (np.zeros(3), np.array(JOINTS["middle1"][1]))}
    ends |= {finger: (np.array(JOINTS[f"{finger}1"][1]), TIPS[finger]) for finger in FINGERS}
    return tuple(Handle(name, np.array(pair)) for name, pair in ends.items())


def _bones() -> tuple[Bone, ...]:
    """Return metacarpals and phalanges as segments."""
    found = []
    for finger in FINGERS:
        places = [np.array(JOINTS[f"{finger}{k}"][1]) for k in (1, 2, 3)]
        ends = [np.zeros(3), *places, 0.8 * TIPS[finger] + 0.2 * places[2]]
        found += [Bone(f"{finger}{k}", start, end) for k, (start, end) in enumerate(pairwise(ends))]
    return tuple(found)


# Poses, and motions


#: Degrees by finger: bent at its three joints, and spread towards the thumb. The thumb: turned
#: under the palm, swung towards the fingers, and bent at its two outer joints.
Bends = dict[str, tuple[float, float, float, float]]
POSES: dict[str, Bends] = {
    "flat": {},
    "relaxed": {
        "index": (16, 22, 12, 0),
        "middle": (20, 26, 14, 0),
        "ring": (22, 28, 15, 2),
        "pinky": (22, 28, 15, 5),
        "thumb": (12, 4, 6, 10),
    },
    # Pads and palm touch the ball of `GRASPED`.
    "grasp": {
        "index": (38, 30, 20, 0),
        "middle": (37, 35, 24, 0),
        "ring": (48, 30, 20, 3),
        "pinky": (66, 28, 18, -8),
        "thumb": (64, 18, 4, 14),
    },
    # Tips of thumb and index meet.
    "pinch": {
        "index": (53, 40, 19, 2),
        "middle": (28, 32, 18, 0),
        "ring": (22, 28, 15, 0),
        "pinky": (16, 24, 12, 0),
        "thumb": (69, 4, 5, -9),
    },
    "point": {
        "index": (4, 4, 2, 0),
        "middle": (78, 92, 55, 0),
        "ring": (80, 94, 55, 2),
        "pinky": (80, 92, 55, 6),
        "thumb": (52, 22, 30, 40),
    },
    "fist": {
        "index": (74, 95, 60, -2),
        "middle": (78, 95, 60, 0),
        "ring": (80, 95, 60, 3),
        "pinky": (80, 92, 60, 8),
        "thumb": (56, 20, 32, 52),
    },
}
#: The pose that a grasp strives for: through the ball, so that springs press fingers on it. Outer
#: joints bend most: tips then reach below the ball's middle and pull it up against the palm.
SQUEEZE: Bends = {
    "index": (35, 55, 55, 0),
    "middle": (34, 60, 59, 0),
    "ring": (45, 55, 55, 3),
    "pinky": (63, 53, 53, -8),
    "thumb": (76, 36, 18, 24),
}


def hand_pose(bends: Bends) -> Floats:
    """Return the pose (48,) of rotation vectors."""
    turns: dict[str, Floats] = {}
    for finger, (first, second, third, fourth) in bends.items():
        _, pad, axis = finger_axes(finger)
        if finger == "thumb":
            turns["thumb1"] = np.array([first, second, 0.0])
            turns |= {"thumb2": third * axis, "thumb3": fourth * axis}
        else:
            turns[f"{finger}1"] = first * axis + fourth * pad
            turns |= {f"{finger}2": second * axis, f"{finger}3": third * axis}
    return joint_turns(JOINTS, turns)


def _grasp() -> Motion:
    """Return 2.4 s: an open hand comes down on a ball, closes around it, and is lifted by 12 cm."""
    line = Timeline(2.4, rate=90)
    opened, around = 0.35 * hand_pose(POSES["relaxed"]), hand_pose(POSES["grasp"])
    squeezed = hand_pose(SQUEEZE)
    keys = [(0.0, opened), (0.15, opened), (0.75, around), (1.05, squeezed), (1.2, squeezed)]
    heights = [(0.0, 0.02), (0.45, 0.006), (1.25, 0.006), (1.65, 0.06), (2.05, 0.12)]
    roots = line.roots([(time, (0.0, height, 0.0)) for time, height in heights])
    return Motion(line.times, line.curve(keys), roots, "grasp")


def _pinch() -> Motion:
    """Return 1.8 s: the tips of thumb and index meet, press, and part."""
    line = Timeline(1.8, rate=90)
    loose, tight = hand_pose(POSES["relaxed"]), hand_pose(POSES["pinch"])
    keys = [(0.0, loose), (0.1, loose), (0.7, tight), (1.1, 1.06 * tight), (1.7, loose)]
    return Motion(line.times, line.curve(keys), line.roots(), "pinch")


def _wave() -> Motion:
    """Return 2.4 s: fingers bend one after the other, while the wrist swings."""
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
    """Return 1.8 s: a relaxed hand points, prods ahead, and relaxes."""
    line = Timeline(1.8, rate=90)
    loose, points = hand_pose(POSES["relaxed"]), hand_pose(POSES["point"])
    poses = line.curve([(0.0, loose), (0.1, loose), (0.6, points), (1.2, points), (1.7, loose)])
    ahead = [(0.0, (0, 0, 0)), (0.7, (0, 0, 0)), (0.9, (-0.04, 0, 0)), (1.2, (0, 0, 0))]
    return Motion(line.times, poses, line.roots(ahead), "point")
