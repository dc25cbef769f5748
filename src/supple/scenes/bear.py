"""A bear on wires: the third example of Xu and Barbič 2016, §9."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from supple.elastic.material import Material
from supple.mesh.surface import SurfaceMesh
from supple.rig import RigChain, Wire
from supple.rig.character import Character
from supple.rig.motion import Motion
from supple.rig.pose_space import PoseSpaceDeformation
from supple.rig.pose_weights import parameter_scales
from supple.scenes.bear_poses import ORDER, POSES, TURNS, WIRES, offsets, turn_vector
from supple.scenes.bear_shape import BOUNDS, PARTS, bear_parts, bear_solid
from supple.scenes.character_scene import Bone, Contact, Handle, PaperRow, Scene
from supple.scenes.keyframes import Timeline
from supple.scenes.modelling import polygonise, relaxed
from supple.scenes.sculpting import SkinRelaxer, bell, bulged, parted, untangled
from supple.scenes.skin import part_weights

__all__ = ["assemble", "sculpt"]

Floats = NDArray[np.float64]

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
    """Surface, the wires' influences and corrections."""
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
    """The wires in their `ORDER`."""
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
    """The bear as a sculptor would leave it in this pose."""
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
    """How far skin stands out, (n,): folds of the belly, cheeks, a chest drawn up."""
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
    """The scene of the sculpted arrays."""
    surface = SurfaceMesh(arrays["vertices"], arrays["triangles"])
    poses = np.array([offsets(turn_vector(turns)) for turns in POSES.values()])
    rig = PoseSpaceDeformation(
        _wired(arrays), poses, arrays["corrections"], arrays["scales"], names=list(POSES)
    )
    motion = _motion()
    return Scene(
        character=Character("bear", surface, rig, {motion.name: motion}),
        tets=PAPER.tets,
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
    """Seven seconds: a wave, a hop with a turn in the air, a pat on the belly, a bow."""
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
