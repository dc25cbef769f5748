"""Two crossing bars that bend by one parameter: the second example of Xu and Barbič 2016, §9."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from supple.arrays import Floats
from supple.elastic.material import Material
from supple.mesh.surface import SurfaceMesh
from supple.rig.character import Character
from supple.rig.deformers.bend import Bend
from supple.rig.deformers.pose_space_deformation import PoseSpaceDeformation
from supple.rig.motion.motion import Motion
from supple.scenes.characters.character_scene import Bone, Handle, PaperRow, Scene
from supple.scenes.modelling.keyframes import Timeline
from supple.scenes.modelling.sculpting import bell, bulged
from supple.scenes.modelling.solids import Solid, polygonise, relaxed, smooth_union, tapered_limb

PAPER = PaperRow(3077, 9303, 2362, 30, 1, 3, 0, 144, 50, 0.59, 4.2, 105)
SPACING = 0.0234
REACH, RADIUS = 0.30, 0.075
BOUNDS = [(-0.46, -0.46, -0.16), (0.46, 0.46, 0.16)]
#: Where the bars cross they are held: the bend leaves that place where it is.
HELD = 0.04
#: How far both bars are bent, towards +z or away from it.
POSES = {"flat": 0.0, "bent back": -135.0, "bent forth": 135.0}


def _solid() -> Solid:
    ends = [np.array((side * REACH, REACH, 0.0)) for side in (1, -1)]
    return smooth_union([tapered_limb(-end, end, RADIUS, RADIUS) for end in ends], 0.05)


def sculpt() -> dict[str, NDArray]:
    """Sculpt the surface and corrections."""
    solid = _solid()
    surface = relaxed(polygonise(solid, BOUNDS, SPACING), solid)
    shapes = [_correction(surface, angle) for angle in POSES.values()]
    arrays = {"vertices": surface.vertices, "triangles": surface.triangles}
    return arrays | {"corrections": np.array(shapes)}


def _bend(vertices: Floats) -> Bend:
    reach = REACH + RADIUS
    return Bend(vertices, axis=(1, 0, 0), direction=(0, 0, 1), low=-reach, high=reach)


def _poses() -> Floats:
    return np.radians(np.array([[angle] for angle in POSES.values()]))


def _correction(surface: SurfaceMesh, angle: float) -> Floats:
    """Return corrections: flesh swells where the bend presses it, and thins where it stretches."""
    rest = surface.vertices
    if angle == 0:
        return np.zeros_like(rest)
    bent = _bend(rest)([np.radians(angle)])
    inner = np.sign(angle) * rest[:, 2] / RADIUS
    crossing = bell(rest, (0, 0, 0), (0.11, 0.16, 1.0))
    return bulged(bent, surface.triangles, 0.012 * crossing * inner) - bent


def assemble(arrays: dict[str, NDArray]) -> Scene:
    """Assemble the scene of the sculpted arrays."""
    surface = SurfaceMesh(arrays["vertices"], arrays["triangles"])
    poses, motion = _poses(), _motion()
    bend = _bend(surface.vertices)
    rig = PoseSpaceDeformation(bend, poses, arrays["corrections"], names=list(POSES))
    return Scene(
        character=Character("x", surface, rig, {motion.name: motion}),
        tets=9_303,
        poses=poses,
        pose_names=tuple(POSES),
        handles=(Handle("middle", np.zeros((1, 3))),),
        bones=(Bone("middle", np.array((-HELD, 0.0, 0.0)), np.array((HELD, 0.0, 0.0))),),
        parts=np.zeros(len(surface.vertices), np.int64),
        part_names=("bars",),
        contacts=(),
        paper=PAPER,
        material=Material("neo-hookean", young=8e5, poisson=0.45),
        modes=(30,),
        elastic_cubature=72,
    )


def _motion() -> Motion:
    """Return a motion of five seconds: it flaps, takes off, turns over and comes down."""
    line = Timeline(5.0)
    degrees = line.curve(
        [
            (0.0, 0),
            (0.5, 70),
            (0.9, -110),
            (1.3, 125),
            (1.75, -120),
            (2.2, 128),
            (2.7, -100),
            (3.2, 110),
            (3.8, -135),
            (4.4, 60),
            (4.8, 0),
        ]
    )
    roots = line.roots(
        places=[
            (0.0, (0, 0, 0)),
            (0.5, (0, -0.04, 0)),
            (1.3, (0.1, 0.25, 0.05)),
            (2.2, (0.35, 0.5, 0.1)),
            (3.2, (0.1, 0.35, 0.0)),
            (4.4, (0, 0.0, 0)),
        ],
        headings=[(0.0, 0), (0.8, 0), (2.6, 150), (4.2, 360)],
        leans=[(0.0, 0), (1.0, -20), (2.4, 25), (4.2, 0)],
    )
    return Motion(line.times, np.radians(degrees), roots, "flap")
