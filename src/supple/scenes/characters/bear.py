"""A bear on wires: the third example of Xu and Barbič 2016, §9."""

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
from supple.scenes.characters.bear_shape import BOUNDS, PARTS, bear_parts, bear_solid
from supple.scenes.characters.character_scene import Bone, Contact, Handle, PaperRow, Scene
from supple.scenes.modelling.keyframes import Timeline
from supple.scenes.modelling.sculpting import SkinRelaxer, bell, bulged, parted, untangled
from supple.scenes.modelling.skin_weights import part_weights
from supple.scenes.modelling.solids import polygonise, relaxed

# Six wires with 48 control points, posed like a puppet.
#
# The wires have no joints. To write poses as turns of shoulders and knees, the control points are
# moved as if there were some; what a pose consists of is the control points' offsets.


Turns = dict[str, tuple[float, float, float]]
POINTS = 8


@dataclass(frozen=True)
class WireShape:
    """A wire along a chain of places, about which its control points are turned."""

    joints: Floats
    softness: float = 0.35

    @property
    def control_points(self) -> Floats:
        """Eight points spread evenly over the chain."""
        lengths = np.linalg.norm(np.diff(self.joints, axis=0), axis=1)
        marks = np.concatenate([[0.0], np.cumsum(lengths)])
        wanted = np.linspace(0, marks[-1], POINTS)
        return np.stack([np.interp(wanted, marks, axis) for axis in self.joints.T], axis=1)

    def turned(self, turns: ArrayLike) -> Floats:
        """Turn control points by (j, 3), rotation vectors, about all places but the last.

        A turn takes hold over a part of the way around its place, the softness, so that the
        wire bends and does not break.
        """
        points = self.control_points
        lengths = np.linalg.norm(np.diff(self.joints, axis=0), axis=1)
        marks = np.concatenate([[0.0], np.cumsum(lengths)])
        along = np.linspace(0, marks[-1], POINTS)
        # From the tip to the root, so that outer turns are carried along by inner ones.
        for place in range(len(self.joints) - 2, -1, -1):
            width = self.softness * lengths[place] if place else 1e-9
            part = np.clip((along - marks[place]) / width + (0.5 if place else 0), 0, 1)
            vectors = part[:, None] * np.asarray(turns, float)[place]
            centre = self.joints[place]
            points = centre + Rotation.from_rotvec(vectors).apply(points - centre)
        return points


def _limb(places: list[tuple[float, float, float]], side: float) -> WireShape:
    return WireShape(np.array(places) * [side, 1, 1])


_ARM = [(0.13, 0.74, 0.0), (0.36, 0.62, 0.02), (0.62, 0.47, 0.06)]
_LEG = [(0.13, 0.40, 0.0), (0.165, 0.20, 0.005), (0.18, 0.03, 0.06)]
WIRES: dict[str, WireShape] = {
    "body": WireShape(np.array([(0, 0.24, 0.0), (0, 0.50, 0.0), (0, 0.84, 0.0)]), 1.1),
    "head": WireShape(np.array([(0, 0.84, 0.0), (0, 1.0, 0.02), (0, 1.17, 0.0)])),
    "arm.L": _limb(_ARM, 1),
    "arm.R": _limb(_ARM, -1),
    "leg.L": _limb(_LEG, 1),
    "leg.R": _limb(_LEG, -1),
}


#: First every limb's wire, about the resting body; then the body's, which carries all.
ORDER = (*(part for part in PARTS if part != "body"), "body")
#: A pose as turns: two for each wire, then the body's stretch.
TURNS = (*(f"{part} {place}" for part in PARTS for place in ("root", "middle")), "stretch")
#: Degrees about x, y and z; "arm" and "leg" stand for both sides; "stretch" is in centimetres.
POSES: dict[str, Turns] = {
    "at ease": {},
    "hug": {
        "arm.L root": (-15, -36, 0),
        "arm.L middle": (-7, -86, 3),
        "arm.R root": (-7, 47, 10),
        "arm.R middle": (6, 65, -3),
        "head root": (12, 0, 0),
    },
    "hurray": {
        "arm root": (0, 0, 72),
        "arm middle": (0, 0, 18),
        "head root": (-14, 0, 0),
        "body middle": (-8, 0, 0),
        "stretch": (0, 5, 0),
    },
    "wave": {
        "arm.L root": (0, 0, 66),
        "arm.L middle": (0, 0, 42),
        "arm.R root": (0, 0, 16),
        "head root": (0, 0, -10),
        "body middle": (0, 0, -10),
    },
    "sit": {
        "leg root": (-84, 8, 4),
        "leg middle": (-4, 0, 0),
        "arm root": (-18, -25, -8),
        "body middle": (6, 0, 0),
    },
    "bow": {
        "body middle": (26, 0, 0),
        "head root": (14, 0, 0),
        "arm root": (28, 12, 10),
    },
    "kick": {
        "leg.L root": (-62, 0, 6),
        "leg.L middle": (-12, 0, 0),
        "body middle": (-10, 0, 6),
        "arm.L root": (20, 20, 20),
        "arm.R root": (-20, 25, -20),
        "head root": (8, 0, 0),
    },
    "squat": {
        "body middle": (12, 0, 0),
        "leg root": (-46, 12, 8),
        "leg middle": (58, 0, 0),
        "arm root": (0, 22, 18),
        "arm middle": (0, -20, 0),
        "stretch": (0, -7, 0),
    },
}


def turn_vector(turns: Turns) -> Floats:
    """Return the turns as a flat vector, radians and metres, in the order of `TURNS`."""
    vector = np.zeros((len(TURNS), 3))
    for name, values in turns.items():
        for full in TURNS:
            limb, _, place = full.partition(" ")
            if full == name or f"{limb.split('.')[0]} {place}" == name:
                flip = np.array([1, -1, -1]) if limb.endswith(".R") and full != name else 1
                unit = 0.01 if name == "stretch" else np.pi / 180
                vector[TURNS.index(full)] = unit * flip * np.array(values)
    return vector.ravel()


def offsets(vector: ArrayLike) -> Floats:
    """Return a pose of the wires, (144,): the control points' offsets for a vector of turns."""
    turns = np.asarray(vector, float).reshape(-1, 3)
    pose = []
    for name in ORDER:
        wire, index = WIRES[name], 2 * PARTS.index(name)
        own = turns[index : index + 2]
        moved = wire.turned(own) if own.any() else wire.control_points  # zero is exactly zero
        if name == "body":  # it stretches from the seat up
            moved = moved + np.linspace(0, 1, POINTS)[:, None] * turns[-1]
        pose.append(moved - wire.control_points)
    return np.concatenate(pose).ravel()


PAPER = PaperRow(4018, 12762, 6876, 100, 6, 8, 7, 336, 200, 1.43, 7.3, 40)
SPACING = 0.02428
#: Parts of the body that are pressed against each other, by pose.
TOUCHING = {
    "hug": ("arm.L body", "arm.R body", "arm.L arm.R", "arm.L head", "arm.R head"),
    "hurray": ("arm.L head", "arm.R head"),
    "wave": ("arm.L head", "arm.R body"),
    "sit": ("leg.L body", "leg.R body", "arm.L body", "arm.R body", "arm.L leg.L", "arm.R leg.R"),
    "bow": ("arm.L body", "arm.R body"),
    "kick": ("leg.L body",),
    "squat": ("leg.L body", "leg.R body", "arm.L leg.L", "arm.R leg.R"),
}


def sculpt() -> dict[str, NDArray]:
    """Sculpt the surface, the wires' influences and corrections."""
    solid = bear_solid()
    surface = relaxed(polygonise(solid, BOUNDS, SPACING), solid)
    weights = part_weights(surface, list(bear_parts().values()), 0.06)
    arrays = {"vertices": surface.vertices, "triangles": surface.triangles, "weights": weights}
    relaxer = SkinRelaxer(surface, rounds=14)
    rig = _wired(arrays)
    arrays["scales"] = parameter_scales(rig)
    shapes = []
    for name, turns in POSES.items():
        posed = rig(offsets(turn_vector(turns)))
        shapes.append(_sculpted(posed, surface, weights, relaxer, name) - posed)
    return arrays | {"corrections": np.array(shapes)}


def _wired(arrays: dict[str, NDArray]) -> RigChain:
    """Return the wires in their `ORDER`."""
    vertices, weights = arrays["vertices"], arrays["weights"]
    limbs = [
        Wire(
            vertices,
            WIRES[part].control_points,
            influence=weights[:, PARTS.index(part)],
            name=part,
        )
        for part in ORDER[:-1]
    ]
    # A limb goes along with the place of the body's wire where it begins, not with the one
    # that its tip happens to be near: the wire meets it as if it were there.
    roots = np.array([WIRES[part].joints[0] for part in PARTS[1:]])
    met = weights[:, :1] * vertices + weights[:, 1:] @ roots
    body = Wire(met, WIRES["body"].control_points, influence=np.ones(len(vertices)), name="body")
    return RigChain(*limbs, body)


def _sculpted(
    posed: Floats, surface: SurfaceMesh, weights: Floats, relaxer: SkinRelaxer, name: str
) -> Floats:
    """Return the bear as a sculptor would leave it in this pose."""
    rest, triangles = surface.vertices, surface.triangles
    if name == "at ease":
        return posed
    points = bulged(relaxer(posed), triangles, _swelling(rest, name))
    for own, other in map(str.split, TOUCHING[name]):
        first, second = (weights[:, PARTS.index(part)] > 0.85 for part in (own, other))
        share = 0.35 if other == "body" else 0.5  # the belly is the softer
        pair = (first, second)
        points = parted(points, triangles, pair, relaxer, gap=0.006, share=share, deepest=0.12)
    return untangled(points, surface, relaxer, gap=0.003)


def _swelling(rest: Floats, name: str) -> Floats:
    """Return how far skin stands out, (n,): folds of the belly, cheeks, a chest drawn up."""
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
    """Assemble the scene of the sculpted arrays."""
    surface = SurfaceMesh(arrays["vertices"], arrays["triangles"])
    poses = np.array([offsets(turn_vector(turns)) for turns in POSES.values()])
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
    """Return a motion of seven seconds: a wave, a hop with a turn, a pat on the belly, a bow."""
    line = Timeline(7.0)
    shape = {name: turn_vector(turns) for name, turns in POSES.items()}
    turns = line.curve(
        [
            (0.0, shape["at ease"]),
            (0.3, shape["at ease"]),
            (0.75, 0.85 * shape["wave"]),
            (1.05, 0.95 * shape["wave"]),
            (1.35, 0.85 * shape["wave"]),
            (1.8, 0.4 * shape["wave"]),
            (2.25, shape["squat"]),
            (2.65, shape["hurray"]),
            (3.1, shape["squat"]),
            (3.7, 0.7 * shape["hug"]),
            (4.1, shape["hug"]),
            (4.6, shape["hug"]),
            (5.2, 0.5 * shape["kick"]),
            (5.5, shape["kick"]),
            (6.0, shape["bow"]),
            (6.5, 0.3 * shape["bow"]),
            (6.8, shape["at ease"]),
        ]
    )
    wagging = 3 * TURNS.index("arm.L middle") + 2
    turns[:, wagging] += np.radians(14) * line.wave(2.5, 0.5, 1.9)
    return Motion(line.times, np.array([offsets(row) for row in turns]), _roots(line), "party")


def _roots(line: Timeline) -> Floats:
    # In the squat the feet come up towards the body, so the body goes down.
    return line.roots(
        places=[
            (0.0, (0, 0, 0)),
            (1.0, (0, 0, 0)),
            (1.8, (0, 0, 0)),
            (2.25, (0, -0.10, 0)),
            (2.65, (0.12, 0.38, 0.05)),
            (3.1, (0.24, -0.10, 0.1)),
            (3.6, (0.24, 0, 0.1)),
            (4.4, (0.24, 0, 0.1)),
            (5.2, (0.24, 0, 0.1)),
            (6.2, (0.24, 0, 0.1)),
        ],
        headings=[
            (0.0, 0),
            (0.8, -8),
            (1.5, 8),
            (2.2, 0),
            (2.3, 0),
            (3.1, 345),
            (3.6, 360),
            (4.4, 360),
        ],
    )
